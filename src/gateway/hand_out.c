/* hand_out.c - see hand_out.h. */
#include "gateway/hand_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "gateway/access.h"
#include "gateway/handlers.h"
#include "gateway/parking.h"
#include "gateway/server.h"
#include "gateway/stream.h"

#define WINDOW_MAX 64
#define TOKEN_SIZE 48
#define BEAT_MS 14000
#define LOOK_MS 500
#define PIECE_BYTES_MAX ((size_t)200 * 1024 * 1024)
#define DAY_MS (INT64_C(24) * 3600 * 1000)

/* A batch that was sent. */
typedef struct given {
    char token[TOKEN_SIZE]; /* "": none */
    int64_t until_ms;
} given;

typedef struct hand_out {
    gw_stream stream; /* the first member */
    struct hand_out *next;
    char *name;
    const char *member;
    int64_t most;
    int64_t lease_ms;
    int64_t window;
    given given[WINDOW_MAX]; /* under the gateway's lock */
    hw_buf piece;
    size_t sent;
    int64_t sent_ms;
    bool ended;
} hand_out;

/* -------------------------------------------------------------------- window */

void gw_hand_out_spoken_for(gw_gateway *g, const char *token)
{
    (void)pthread_mutex_lock(&g->lock);
    for (hand_out *h = g->hand_outs; h; h = h->next)
        for (int64_t i = 0; i < h->window; i++)
            if (strcmp(h->given[i].token, token) == 0)
                h->given[i].token[0] = '\0';
    (void)pthread_mutex_unlock(&g->lock);
    gw_waiting_wake(g->waiting);
}

/* A free place in the window; -1: there is none. */
static int64_t free_place(hand_out *h)
{
    gw_gateway *g = h->stream.r->gateway;
    int64_t now = hw_clock_mono_ms();
    int64_t place = -1;

    (void)pthread_mutex_lock(&g->lock);
    for (int64_t i = 0; place < 0 && i < h->window; i++)
        if (h->given[i].token[0] == '\0' || now > h->given[i].until_ms)
            place = i;
    (void)pthread_mutex_unlock(&g->lock);
    return place;
}

static void note_given(hand_out *h, int64_t place, const howdah_batch *batch)
{
    gw_gateway *g = h->stream.r->gateway;
    given *at = &h->given[place];

    (void)pthread_mutex_lock(&g->lock);
    (void)snprintf(at->token, sizeof at->token, "%s", howdah_batch_token(batch));
    at->until_ms = hw_clock_mono_ms() + h->lease_ms;
    (void)pthread_mutex_unlock(&g->lock);
}

static void list(hand_out *h)
{
    gw_gateway *g = h->stream.r->gateway;

    (void)pthread_mutex_lock(&g->lock);
    h->next = g->hand_outs;
    g->hand_outs = h;
    (void)pthread_mutex_unlock(&g->lock);
}

static void unlist(hand_out *h)
{
    gw_gateway *g = h->stream.r->gateway;

    (void)pthread_mutex_lock(&g->lock);
    for (hand_out **at = &g->hand_outs; *at; at = &(*at)->next)
        if (*at == h) {
            *at = h->next;
            break;
        }
    (void)pthread_mutex_unlock(&g->lock);
}

/* ------------------------------------------------------------------- pieces */

/* HOWDAH_END: the window is full, or there is nothing. */
static int fetch(hand_out *h, howdah_bus *bus, howdah_error *reterr)
{
    int64_t place = free_place(h);
    howdah_batch *batch = NULL;
    int s;

    if (place < 0)
        return HOWDAH_END;
    s = howdah_group_fetch(bus, h->name, h->member, h->most, h->lease_ms, &batch, reterr);
    if (s != HOWDAH_OK)
        return s;
    note_given(h, place, batch);
    hw_buf_puts(&h->piece, "event: batch\ndata: ");
    s = gw_put_batch(h->stream.r, &h->piece, batch, reterr);
    hw_buf_puts(&h->piece, "\n");
    howdah_batch_free(batch);
    return s;
}

static void park(hand_out *h, int64_t now)
{
    gw_request *r = h->stream.r;

    r->look_ms = now + LOOK_MS;
    r->wait_until_ms = INT64_MAX;
    gw_waiting_park(r->gateway->waiting, r);
}

/* In a worker.  An error that does not pass ends the stream: the client is told why when it comes
   again. */
static void run_hand_out(gw_stream *stream, howdah_bus *bus, howdah_error *err)
{
    hand_out *h = (hand_out *)stream;
    int64_t now = hw_clock_mono_ms();
    bool over = atomic_load(&stream->r->gateway->stopping) || !gw_access_still_may(stream->r);
    int s = bus && !over ? fetch(h, bus, err) : HOWDAH_END;

    h->ended = over || (s < 0 && !(err->flags & (HOWDAH_RETRYABLE | HOWDAH_HANDLE_DEAD)));
    if (s != HOWDAH_OK && now - h->sent_ms >= BEAT_MS)
        hw_buf_puts(&h->piece, ": still here\n\n");
    if (h->piece.len == 0 && !h->ended)
        park(h, now);
    else
        gw_stream_resume(stream);
}

/* The next batch is fetched when the one before has been taken. */
static ssize_t read_hand_out(gw_stream *stream, char *out, size_t max)
{
    hand_out *h = (hand_out *)stream;
    size_t n = h->piece.len - h->sent;

    if (h->piece.broken)
        return GW_STREAM_CUT;
    if (n > 0) {
        n = n > max ? max : n;
        memcpy(out, h->piece.data + h->sent, n);
        h->sent += n;
        h->sent_ms = hw_clock_mono_ms();
        return (ssize_t)n;
    }
    if (h->ended)
        return GW_STREAM_END;
    hw_buf_done(&h->piece);
    h->sent = 0;
    stream->r->wakes = gw_waiting_wakes(stream->r->gateway->waiting);
    gw_stream_suspend(stream);
    gw_request_again(stream->r);
    return 0;
}

static void free_hand_out(gw_stream *stream)
{
    hand_out *h = (hand_out *)stream;

    unlist(h);
    atomic_fetch_sub(&stream->r->gateway->streams, 1);
    hw_buf_done(&h->piece);
    hw_free(h->name);
    hw_free(h);
}

static const gw_stream_ops hand_out_ops = {read_hand_out, run_hand_out, free_hand_out};

/* ------------------------------------------------------------------- request */

static int take_options(hand_out *h, howdah_error *reterr)
{
    const gw_request *r = h->stream.r;
    int s = gw_arg_number(r, "max", 1, HOWDAH_BATCH_MAX, &h->most, reterr);

    if (s >= 0)
        s = gw_arg_number(r, "window", 1, WINDOW_MAX, &h->window, reterr);
    if (s >= 0)
        s = gw_arg_duration(r, "lease", &h->lease_ms, reterr);
    h->member = gw_arg_text(r, "member") ? gw_arg_text(r, "member") : r->id;
    if (s >= 0 && (h->lease_ms < 1 || h->lease_ms > DAY_MS))
        return hw_fail_field(reterr, HOWDAH_INVALID, "lease", "must be 1 ms to 24 hours");
    return s;
}

int gw_subscription_stream(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    hand_out *h;
    int s;

    if (!gw_stream_may_open(r, reterr))
        return reterr->status;
    h = hw_calloc(1, sizeof *h);
    if (!h) {
        atomic_fetch_sub(&r->gateway->streams, 1);
        return hw_fail_no_memory(reterr);
    }
    *h = (hand_out){.stream = {&hand_out_ops, r},
                    .name = hw_strdup(r->vars[0]),
                    .most = 100,
                    .lease_ms = 30000,
                    .window = 4,
                    .piece = HW_BUF_INIT(PIECE_BYTES_MAX),
                    .sent_ms = hw_clock_mono_ms()};
    list(h);
    s = h->name ? take_options(h, reterr) : hw_fail_no_memory(reterr);
    hw_buf_puts(&h->piece, "retry: 2000\n\n");
    if (s >= 0)
        s = fetch(h, bus, reterr);
    if (s < 0) {
        free_hand_out(&h->stream);
        return s;
    }
    gw_answer_stream(r, "text/event-stream", &h->stream);
    gw_answer_header(r, "X-Accel-Buffering", "no");
    return HOWDAH_OK;
}
