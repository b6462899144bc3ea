/* load.c - see load.h. */
#include "bench/load.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/*
 * A payload is an order: a number that differs from event to event, lines with some random
 * characters (so that a server that compresses gains little), and a note that fills up to the
 * length.
 */
#define HEAD "{\"order\":10000000,\"lines\":["
#define NUMBER_AT 9
#define NUMBERS 90000000
#define NUMBER_MIN 10000000
#define LINE "{\"sku\":\"xxxxxx\",\"quantity\":12,\"price\":1299}"
#define LINE_SKU_AT 8
#define LINE_SKU_BYTES 6
#define TAIL_START "],\"note\":\""
#define TAIL_END "\"}"

#define LENGTH(text) (sizeof(text) - 1)

static char random_character(uint64_t *state)
{
    /* xorshift64: the payloads of a client are the same in every run. */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (char)('a' + *state % 26);
}

static char *put(char *at, const char *text, size_t n)
{
    memcpy(at, text, n);
    return at + n;
}

/* As many whole lines as fit before end, separated by commas. */
static char *put_lines(char *at, const char *end, uint64_t *state)
{
    bool first = true;

    while ((size_t)(end - at) >= LENGTH(LINE) + 1) {
        char *line;

        if (!first)
            *at++ = ',';
        first = false;
        line = at;
        at = put(at, LINE, LENGTH(LINE));
        for (size_t i = 0; i < LINE_SKU_BYTES; i++)
            line[LINE_SKU_AT + i] = random_character(state);
    }
    return at;
}

/* Exactly len bytes of JSON; where an order does not fit it is an empty object with spaces. */
static void compose(char *out, size_t len, uint64_t seed)
{
    char *at = out;
    char *end = out + len - LENGTH(TAIL_END);

    assert(len >= BENCH_PAYLOAD_MIN);
    if (len < LENGTH(HEAD) + LENGTH(TAIL_START) + LENGTH(TAIL_END)) {
        memset(out, ' ', len);
        out[0] = '{';
        out[len - 1] = '}';
        return;
    }
    at = put(at, HEAD, LENGTH(HEAD));
    at = put_lines(at, end - LENGTH(TAIL_START), &seed);
    at = put(at, TAIL_START, LENGTH(TAIL_START));
    while (at < end)
        *at++ = random_character(&seed);
    assert(at == end);
    (void)put(at, TAIL_END, LENGTH(TAIL_END));
}

/* The client's number is part of the name, so that no two clients meet on a stream. */
static void name_stream(bench_load *load)
{
    (void)snprintf(load->stream_name, sizeof load->stream_name, "bench-%u-order-%zu", load->number,
                   load->current);
}

/*
 * The payload is composed once.  Only its number changes from event to event, so that making the
 * load costs next to nothing.
 */
int bench_load_init(bench_load *load, unsigned number, size_t streams, size_t payload_len,
                    howdah_error *reterr)
{
    assert(streams > 0 && payload_len >= BENCH_PAYLOAD_MIN);
    memset(load, 0, sizeof *load);
    load->payload = hw_alloc(payload_len + 1);
    load->version = hw_calloc(streams, sizeof *load->version);
    if (!load->payload || !load->version) {
        bench_load_done(load);
        return hw_fail_no_memory(reterr);
    }
    compose(load->payload, payload_len, UINT64_C(0x9E3779B97F4A7C15) + number);
    load->payload[payload_len] = '\0';
    load->payload_len = payload_len;
    load->number = number;
    load->streams = streams;
    name_stream(load);
    return HOWDAH_OK;
}

void bench_load_done(bench_load *load)
{
    hw_free(load->payload);
    hw_free(load->version);
    load->payload = NULL;
    load->version = NULL;
}

/* Streams in turn: neighbouring appends go to different ones, as those of many users do. */
int64_t bench_load_advance(bench_load *load)
{
    load->current = (load->current + 1) % load->streams;
    name_stream(load);
    return load->version[load->current];
}

void bench_load_pick(bench_load *load, uint32_t luck)
{
    double part = (double)luck / 4294967296.0;

    load->current = (size_t)(part * part * part * (double)load->streams);
    name_stream(load);
}

hw_str bench_load_stream(const bench_load *load)
{
    return hw_str_of(load->stream_name);
}

/* Writes the number over the last one: eight digits, always. */
hw_str bench_load_next(bench_load *load, int64_t *ret_version)
{
    int64_t number = NUMBER_MIN + load->count++ % NUMBERS;

    assert(load->payload && load->current < load->streams);

    if (load->payload_len >= LENGTH(HEAD) + LENGTH(TAIL_START) + LENGTH(TAIL_END)) {
        for (char *digit = load->payload + NUMBER_AT + 7; number > 0; number /= 10)
            *digit-- = (char)('0' + number % 10);
    }
    *ret_version = ++load->version[load->current];
    return (hw_str){load->payload, load->payload_len};
}
