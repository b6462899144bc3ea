/*
 * http_live.c - see http_live.h.
 *
 *   I1  An event is posted when every listener has had all those before it: so how many a listener
 *       has had says which.
 *   I2  Whoever has more than was posted, or is hung up on, is a failure of the bench.
 */
#include "bench/http_live.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/http.h"
#include "bench/http_client.h"
#include "bench/http_gateway.h"
#include "bench/load.h"
#include "cli/in/signals.h"
#include "cli/out/progress.h"

#define EVENTS_AT_ONCE 512
#define TICK_MS 20
/* So many are opened before they are waited for: the gateway's list of those that knock is short.
 */
#define OPEN_AT_ONCE 100
/* How long all of them may take for one step. */
#define STEP_MS 60000
#define READ_BYTES ((size_t)64 * 1024)
#define DATA "data:"
#define MIB (1024.0 * 1024.0)

typedef struct listener {
    int fd;
    bench_http_answer answer;
    bool open;    /* something has come: from then on it misses nothing */
    int64_t had;  /* events */
    size_t field; /* how much of "data:" the line has begun with; LINE_IS_OTHER: it has not */
} listener;

#define LINE_IS_OTHER SIZE_MAX

typedef struct hall {
    const bench_site *site;
    listener *listeners;
    size_t n;       /* opened so far */
    size_t lagging; /* not open yet, or without the last event */
    int64_t posted;
    int epoll;
    bench_http_client *http;
    bench_load load;
    hw_buf request;
    char bytes[READ_BYTES];
} hall;

/* --------------------------------------------------------------- one listener */

/* A line that begins with "data:" is an event. */
static void take_text(void *ctx, const char *bytes, size_t n)
{
    listener *l = ctx;

    l->open = true;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n') {
            l->field = 0;
        } else if (l->field != LINE_IS_OTHER) {
            l->field = bytes[i] == DATA[l->field] ? l->field + 1 : LINE_IS_OTHER;
            if (l->field == strlen(DATA)) {
                l->had++;
                l->field = LINE_IS_OTHER; /* what it says does not matter */
            }
        }
    }
}

static bool lags(const hall *a, const listener *l)
{
    return !l->open || l->had < a->posted;
}

static int hear(hall *a, listener *l, howdah_error *reterr)
{
    bool lagged = lags(a, l);
    ssize_t n = recv(l->fd, a->bytes, sizeof a->bytes, MSG_DONTWAIT);
    size_t taken = 0;
    int s;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return HOWDAH_OK;
    if (n <= 0)
        return hw_fail(reterr, HOWDAH_FAILED, "the gateway has closed a stream");
    s = bench_http_answer_take(&l->answer, a->bytes, (size_t)n, &taken, reterr);
    if (s < 0)
        return s;
    if (l->answer.state != BENCH_HTTP_HEAD && l->answer.http_status != 200)
        return hw_fail(reterr, HOWDAH_FAILED, "a listener was answered with %d",
                       l->answer.http_status);
    if (l->answer.state == BENCH_HTTP_DONE)
        return hw_fail(reterr, HOWDAH_FAILED, "the gateway has ended a stream");
    if (l->had > a->posted)
        return hw_fail(reterr, HOWDAH_FAILED, "a listener had an event twice");
    if (lagged && !lags(a, l))
        a->lagging--;
    return HOWDAH_OK;
}

static int open_listener(hall *a, howdah_error *reterr)
{
    static const char request[] = "GET /v1/events/live HTTP/1.1\r\nHost: localhost\r\n"
                                  "Accept: text/event-stream\r\n\r\n";
    listener *l = &a->listeners[a->n];
    struct epoll_event event = {.events = EPOLLIN, .data = {.ptr = l}};
    int s = bench_http_dial(bench_gateway_address(a->site->gateway), &l->fd, reterr);

    if (s < 0)
        return s;
    a->n++;
    a->lagging++;
    bench_http_answer_init(&l->answer, take_text, l);
    if (send(l->fd, request, sizeof request - 1, MSG_NOSIGNAL) != sizeof request - 1 ||
        epoll_ctl(a->epoll, EPOLL_CTL_ADD, l->fd, &event) < 0)
        return hw_fail(reterr, HOWDAH_FAILED, "a listener could not be opened: %m");
    return HOWDAH_OK;
}

/* ------------------------------------------------------------- all of them */

/* What has come, or until something comes, for a tick at most. */
static int hear_some(hall *a, howdah_error *reterr)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = epoll_wait(a->epoll, events, EVENTS_AT_ONCE, TICK_MS);
    int s = HOWDAH_OK;

    if (cli_signal_caught())
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    for (int i = 0; s >= 0 && i < n; i++)
        s = hear(a, events[i].data.ptr, reterr);
    return s;
}

static int await_all(hall *a, howdah_error *reterr)
{
    int64_t until_ms = hw_clock_end_ms(STEP_MS);
    int s = HOWDAH_OK;

    while (s >= 0 && a->lagging > 0) {
        s = hear_some(a, reterr);
        if (s >= 0 && hw_clock_mono_ms() > until_ms)
            s = hw_fail(reterr, HOWDAH_TIMEOUT, "%zu of %zu listeners have heard nothing for %d s",
                        a->lagging, a->n, STEP_MS / 1000);
    }
    return s;
}

static int gather(cli_context *cli, hall *a, howdah_error *reterr)
{
    size_t wanted = (size_t)a->site->plan->clients;
    cli_progress progress;
    int s = HOWDAH_OK;

    cli_progress_start(&progress, cli, "clients");
    while (s >= 0 && a->n < wanted) {
        for (int i = 0; s >= 0 && i < OPEN_AT_ONCE && a->n < wanted; i++)
            s = open_listener(a, reterr);
        if (s >= 0)
            s = await_all(a, reterr);
        cli_progress_update(&progress, (int64_t)a->n, (int64_t)wanted);
    }
    cli_progress_clear(&progress);
    return s;
}

static int post_event(hall *a, howdah_error *reterr)
{
    int64_t version;
    hw_str data;
    int s;

    (void)bench_load_advance(&a->load);
    data = bench_load_next(&a->load, &version);
    hw_buf_clear(&a->request);
    hw_buf_printf(&a->request, "{\"stream\":\"%s\",\"type\":\"" BENCH_TYPE "\",\"data\":%.*s}",
                  bench_load_stream(&a->load).s, (int)data.len, data.s);
    s = hw_buf_check(&a->request, reterr);
    return s < 0
               ? s
               : bench_http_ask(a->http, "POST", "/v1/events", "Content-Type: application/json\r\n",
                                (hw_str){hw_buf_str(&a->request), a->request.len}, NULL, NULL,
                                reterr);
}

/* I1. */
static int tell(hall *a, howdah_error *reterr)
{
    int s = post_event(a, reterr);

    a->posted++;
    a->lagging = a->n;
    return s < 0 ? s : await_all(a, reterr);
}

/* The first one is not counted: it finds caches cold. */
static int tell_all(hall *a, bench_listening *sum, howdah_error *reterr)
{
    int64_t until_us = hw_clock_mono_us() + a->site->plan->ms * 1000;
    int64_t begun_us = 0;
    int s = HOWDAH_OK;

    for (bool first = true; s >= 0; first = false) {
        int64_t now = hw_clock_mono_us();
        int64_t took;

        if (sum->events > 0 && now >= until_us)
            break;
        s = tell(a, reterr);
        took = hw_clock_mono_us() - now;
        if (s < 0 || first) {
            begun_us = now + took;
            continue;
        }
        bench_histogram_add(&sum->heard, took);
        sum->slowest_us = took > sum->slowest_us ? took : sum->slowest_us;
        sum->events++;
    }
    sum->us = hw_clock_mono_us() - begun_us;
    return s;
}

/* Comments that come now and then are heard, too: nobody here is a slow client. */
static int sit(hall *a, bench_listening *sum, howdah_error *reterr)
{
    int64_t begun_us = hw_clock_mono_us();
    int s = HOWDAH_OK;

    while (s >= 0 && hw_clock_mono_us() - begun_us < a->site->plan->ms * 1000)
        s = hear_some(a, reterr);
    sum->us = hw_clock_mono_us() - begun_us;
    return s;
}

static int begin(hall *a, howdah_error *reterr)
{
    const bench_plan *plan = a->site->plan;
    int s = bench_load_init(&a->load, 0, (size_t)plan->streams, (size_t)plan->payload, reterr);

    if (s < 0)
        return s;
    a->listeners = hw_calloc((size_t)plan->clients, sizeof *a->listeners);
    if (!a->listeners)
        return hw_fail_no_memory(reterr);
    a->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (a->epoll < 0)
        return hw_fail(reterr, HOWDAH_FAILED, "cannot wait for many sockets: %m");
    return bench_http_open(bench_gateway_address(a->site->gateway), &a->http, reterr);
}

static void end(hall *a)
{
    for (size_t i = 0; i < a->n; i++)
        (void)close(a->listeners[i].fd);
    if (a->epoll >= 0)
        (void)close(a->epoll);
    bench_http_close(a->http);
    bench_load_done(&a->load);
    hw_buf_done(&a->request);
    hw_free(a->listeners);
    hw_free(a);
}

/* Before memory is looked at, an event has gone through the gateway: its sessions are open. */
static int listen_all(cli_context *cli, hall *a, bench_listening *sum, howdah_error *reterr)
{
    const bench_gateway *gateway = a->site->gateway;
    int64_t cpu_us;
    int s = post_event(a, reterr);

    sum->memory_before = bench_gateway_memory(gateway);
    if (s >= 0)
        s = gather(cli, a, reterr);
    cpu_us = bench_gateway_cpu_us(gateway);
    if (s >= 0)
        s = a->site->plan->over == BENCH_OVER_LIVE ? tell_all(a, sum, reterr) : sit(a, sum, reterr);
    sum->cpu_us = bench_gateway_cpu_us(gateway) - cpu_us;
    sum->memory = bench_gateway_memory(gateway);
    return s;
}

int bench_http_listen(cli_context *cli, const bench_site *site, bench_listening *ret_listening,
                      howdah_error *reterr)
{
    hall *a = hw_calloc(1, sizeof *a);
    int s;

    if (!a)
        return hw_fail_no_memory(reterr);
    memset(ret_listening, 0, sizeof *ret_listening);
    a->site = site;
    a->epoll = -1;
    a->request = (hw_buf)HW_BUF_INIT((size_t)site->plan->payload + 1024);
    s = begin(a, reterr);
    if (s >= 0)
        s = listen_all(cli, a, ret_listening, reterr);
    end(a);
    return s;
}

/* ------------------------------------------------------------------ the report */

static void report_json(cli_out *out, const bench_site *site, const bench_listening *r)
{
    const bench_plan *plan = site->plan;
    bool live = plan->over == BENCH_OVER_LIVE;

    cli_out_printf(out,
                   "{\"bench\":\"http\",\"store\":\"%s\",\"of\":\"%s\",\"clients\":%lld,"
                   "\"payload\":%lld,\"seconds\":%g",
                   site->backend->name, bench_over_names[plan->over], (long long)plan->clients,
                   (long long)plan->payload, (double)r->us / 1e6);
    if (live)
        cli_out_printf(out, ",\"events\":%lld,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f",
                       (long long)r->events, bench_histogram_ms(&r->heard, 0.5),
                       bench_histogram_ms(&r->heard, 0.99), (double)r->slowest_us / 1e3);
    cli_out_printf(out, ",\"gateway_cpu_s\":%.3f", (double)r->cpu_us / 1e6);
    if (r->memory >= 0 && r->memory_before >= 0)
        cli_out_printf(out, ",\"gateway_mib_before\":%.1f,\"gateway_mib\":%.1f",
                       (double)r->memory_before / MIB, (double)r->memory / MIB);
    cli_out_puts(out, "}\n");
}

static void report_text(cli_out *out, const bench_site *site, const bench_listening *r)
{
    const bench_plan *plan = site->plan;

    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "http %s on %s", bench_over_names[plan->over], site->backend->name);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, ": %lld client%s, payloads of %lld bytes\n", (long long)plan->clients,
                   plan->clients == 1 ? "" : "s", (long long)plan->payload);
    if (plan->over == BENCH_OVER_LIVE)
        cli_out_printf(out,
                       "the last one has an event: p50 %.3f ms, p99 %.3f ms, at most %.3f ms;"
                       " %lld events\n",
                       bench_histogram_ms(&r->heard, 0.5), bench_histogram_ms(&r->heard, 0.99),
                       (double)r->slowest_us / 1e3, (long long)r->events);
    if (r->memory >= 0 && r->memory_before >= 0)
        cli_out_printf(out, "memory of the gateway %.1f MiB, %.1f without them\n",
                       (double)r->memory / MIB, (double)r->memory_before / MIB);
    cli_out_printf(out, "processor time of the gateway %.3f s in %.1f s\n", (double)r->cpu_us / 1e6,
                   (double)r->us / 1e6);
}

void bench_http_listen_report(cli_context *cli, const bench_site *site,
                              const bench_listening *listening)
{
    if (cli->out.json)
        report_json(&cli->out, site, listening);
    else
        report_text(&cli->out, site, listening);
}
