/* http.c - see http.h. */
#include "bench/http.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "bench/group.h"
#include "bench/http_client.h"
#include "bench/http_gateway.h"
#include "bench/load.h"

#define JSON_TYPE "Content-Type: application/json\r\n"
#define LINES_TYPE "Accept: application/x-ndjson\r\n"
#define PATH_SIZE 128
#define REQUEST_BYTES_MAX ((size_t)256 * 1024 * 1024)
/* So long may a member wait when the others have the last batches. */
#define WAIT "5ms"
/* Streams of ours are not those of the ceiling, which may be in the same log. */
#define NUMBER_BASE 10000

const char *const bench_over_names[] = {"append", "batch", "read", "group", "live", "idle", NULL};

typedef struct http_client {
    bench_client base;
    const bench_plan *plan;
    bench_http_client *http;
    bench_load load;
    hw_buf request;
    char token[128]; /* group: of the batch in hand */
} http_client;

/* ---- appends */

static void put_event(http_client *c)
{
    int64_t version;
    hw_str data = bench_load_next(&c->load, &version);

    hw_buf_printf(&c->request, "{\"stream\":\"%s\",\"type\":\"" BENCH_TYPE "\",\"data\":",
                  bench_load_stream(&c->load).s);
    hw_buf_put(&c->request, data.s, data.len);
    hw_buf_putc(&c->request, '}');
}

/* The number behind this name, where it stands last. */
static int64_t last_number(hw_str text, const char *name)
{
    const char *found = NULL;
    char digits[24];
    int64_t number = -1;

    for (const char *at = text.s; (at = strstr(at, name)); at++)
        found = at + strlen(name);
    if (!found)
        return -1;
    (void)snprintf(digits, sizeof digits, "%.*s", (int)strspn(found, "0123456789"), found);
    return hw_parse_i64(digits, 0, INT64_MAX, &number) ? number : -1;
}

/*
 * As on our side of the other benches, the version is expected, and the one that comes back is
 * looked at.
 */
static int post_events(http_client *c, int64_t n, howdah_error *reterr)
{
    int64_t expected = bench_load_advance(&c->load);
    char path[PATH_SIZE];
    int64_t version;
    int s;

    (void)snprintf(path, sizeof path, "/v1/events?expect=%lld", (long long)expected);
    if (expected == 0)
        (void)snprintf(path, sizeof path, "/v1/events?expect=none");
    hw_buf_clear(&c->request);
    hw_buf_puts(&c->request, n > 1 ? "[" : "");
    for (int64_t i = 0; i < n; i++) {
        hw_buf_puts(&c->request, i > 0 ? "," : "");
        put_event(c);
    }
    hw_buf_puts(&c->request, n > 1 ? "]" : "");
    s = hw_buf_check(&c->request, reterr);
    if (s >= 0)
        s = bench_http_ask(c->http, "POST", path, JSON_TYPE,
                           (hw_str){hw_buf_str(&c->request), c->request.len}, NULL, NULL, reterr);
    if (s < 0)
        return s;
    version = last_number(bench_http_body(c->http), "\"version\":");
    expected += n;
    if (version != expected)
        return hw_fail(reterr, HOWDAH_FAILED, "an event got version %lld instead of %lld",
                       (long long)version, (long long)expected);
    return HOWDAH_OK;
}

/* append has batches of one. */
static int append(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    http_client *c = (http_client *)client;

    *ret_events = c->plan->batch;
    return post_events(c, c->plan->batch, reterr);
}

/* ---- reads */

static void count_lines(void *ctx, const char *bytes, size_t n)
{
    int64_t *lines = ctx;

    for (const char *end = bytes + n; (bytes = memchr(bytes, '\n', (size_t)(end - bytes))); bytes++)
        ++*lines;
}

/* Counted to the end: a read that loses events must not look fast. */
static int read_all(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    http_client *c = (http_client *)client;
    int s = bench_http_ask(c->http, "GET", "/v1/events", LINES_TYPE, HW_STR_NULL, count_lines,
                           ret_events, reterr);

    if (s >= 0 && *ret_events != c->plan->events)
        return hw_fail(reterr, HOWDAH_FAILED, "%lld events were read instead of %lld",
                       (long long)*ret_events, (long long)c->plan->events);
    return s;
}

/* ---- groups */

static int post(http_client *c, const char *what, const char *body, howdah_error *reterr)
{
    char path[PATH_SIZE];

    (void)snprintf(path, sizeof path, "/v1/subscriptions/" BENCH_GROUP "/%s", what);
    return bench_http_ask(c->http, "POST", path, JSON_TYPE, hw_str_of(body), NULL, NULL, reterr);
}

/* Before a slice: back to the beginning.  The number of events is that of the log. */
static int put_back(bench_client *client, int64_t n, howdah_error *reterr)
{
    http_client *c = (http_client *)client;

    assert(n == c->plan->events);
    (void)n;
    return post(c, "reset", "{\"to\":\"start\"}", reterr);
}

/* {"token":"...","attempt":1,"events":[...]}: how many there are, and keeps the token. */
static int take_batch(http_client *c, int64_t *ret_n, howdah_error *reterr)
{
    static const char before[] = "{\"token\":\"";
    hw_str body = bench_http_body(c->http);
    const char *list = strstr(body.s, "\"events\":");
    hw_str item;
    size_t pos = 0;
    size_t n;

    *ret_n = 0;
    c->token[0] = '\0';
    if (strncmp(body.s, before, strlen(before)) == 0) {
        n = strcspn(body.s + strlen(before), "\"");
        if (n >= sizeof c->token)
            return hw_fail(reterr, HOWDAH_FAILED, "a token of %zu bytes", n);
        (void)snprintf(c->token, sizeof c->token, "%.*s", (int)n, body.s + strlen(before));
    }
    if (!list)
        return hw_fail(reterr, HOWDAH_FAILED, "a batch without events");
    list += strlen("\"events\":");
    while (hw_json_item(list, body.len - (size_t)(list - body.s), &pos, &item))
        ++*ret_n;
    return HOWDAH_OK;
}

static int ack(http_client *c, howdah_error *reterr)
{
    char body[sizeof c->token + 16];

    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", c->token);
    return post(c, "ack", body, reterr);
}

/* Batch after batch, until all of the log is acked. */
static int drain(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    http_client *c = (http_client *)client;
    char fetch[64];
    int s = HOWDAH_OK;

    (void)snprintf(fetch, sizeof fetch, "{\"max\":%lld,\"wait\":\"" WAIT "\"}",
                   (long long)c->plan->batch);
    while (s >= 0 && atomic_load(client->backlog) > 0 && !atomic_load(client->stop)) {
        int64_t n = 0;

        s = post(c, "fetch", fetch, reterr);
        if (s >= 0)
            s = take_batch(c, &n, reterr);
        if (s >= 0 && c->token[0])
            s = ack(c, reterr);
        if (s >= 0)
            atomic_fetch_sub(client->backlog, n);
        *ret_events += n;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* ---- clients */

static void interrupt_client(bench_client *client)
{
    bench_http_interrupt(((http_client *)client)->http);
}

/* Also for a client that was only half opened. */
static void close_client(bench_client *client)
{
    http_client *c = (http_client *)client;

    bench_http_close(c->http);
    bench_load_done(&c->load);
    hw_buf_done(&c->request);
    hw_free(c);
}

int bench_http_client_open(const bench_site *site, unsigned number, bench_client **ret_client,
                           howdah_error *reterr)
{
    static const bench_client_ops ops[] = {
        [BENCH_OVER_APPEND] = {append, interrupt_client, close_client, NULL},
        [BENCH_OVER_BATCH] = {append, interrupt_client, close_client, NULL},
        [BENCH_OVER_READ] = {read_all, interrupt_client, close_client, NULL},
        [BENCH_OVER_GROUP] = {drain, interrupt_client, close_client, put_back},
    };
    const bench_plan *plan = site->plan;
    http_client *c = hw_calloc(1, sizeof *c);
    int s;

    assert(site->gateway && plan->over < sizeof ops / sizeof *ops);
    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &ops[plan->over];
    c->plan = plan;
    c->request = (hw_buf)HW_BUF_INIT(REQUEST_BYTES_MAX);
    s = bench_load_init(&c->load, NUMBER_BASE + number, (size_t)plan->streams,
                        (size_t)plan->payload, reterr);
    if (s >= 0)
        s = bench_http_open(bench_gateway_address(site->gateway), &c->http, reterr);
    if (s < 0) {
        close_client(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}
