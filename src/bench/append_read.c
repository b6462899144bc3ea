/* append_read.c - our side of a bench: appends and reads through the public interface. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/random.h"
#include "bench/asof.h"
#include "bench/deliver.h"
#include "bench/group.h"
#include "bench/load.h"
#include "bench/queue.h"
#include "bench/site.h"
#include "bench/subscribers.h"
#include "cli/in/signals.h"
#include "cli/out/progress.h"
#include "face/events.h"

/* http: so much is formatted before it would be written. */
#define LINES_BYTES ((size_t)64 * 1024)
#define LINES_BYTES_MAX ((size_t)256 * 1024 * 1024)

/* Events a batch while a log is filled; that part is not measured. */
#define FILL_BATCH 1000

/* A client of our side: a bus of its own, and the events that it appends. */
typedef struct ours {
    bench_client base;
    const bench_plan *plan;
    howdah_bus *bus; /* NULL: the publisher instead, which is the site's */
    howdah_publisher *publisher;
    howdah_builder *builder;
    bench_load load;
    bench_pace pace;
    const howdah_event **events; /* of one batch */
    int64_t bytes;               /* read: the sum of all lengths */
    hw_buf lines;                /* http: as JSON */
} ours;

/* Builds a new event each time, as a program would: what the builder costs is ours to pay for. */
static int build(ours *c, howdah_event **ret_event, howdah_error *reterr)
{
    int64_t version;
    hw_str data = bench_load_next(&c->load, &version);

    howdah_builder_set_stream(c->builder, bench_load_stream(&c->load).s);
    howdah_builder_set_json(c->builder, data.s, data.len);
    if (c->plan->pattern_share > 0)
        howdah_builder_set_type(
            c->builder, c->load.count % c->plan->pattern_share == 0 ? BENCH_RARE_TYPE : BENCH_TYPE);
    return howdah_builder_build(c->builder, ret_event, reterr);
}

/* A bench that stored the wrong thing quickly would be worth nothing. */
static int check_version(int64_t got, int64_t wanted, howdah_error *reterr)
{
    if (got == wanted)
        return HOWDAH_OK;
    return hw_fail(reterr, HOWDAH_FAILED, "an event got version %lld instead of %lld",
                   (long long)got, (long long)wanted);
}

/*
 * The version is expected, so the check of it is part of what is measured.  The stamp is taken
 * before the append: a subscriber may hear the event before howdah_append() returns.
 */
static int append_one(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    ours *c = (ours *)client;
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = NULL;
    howdah_position position = HOWDAH_POSITION_INIT;
    int s;

    options.expected_version = bench_load_advance(&c->load);
    s = build(c, &event, reterr);
    if (s < 0)
        return s;
    if (client->subscribers)
        bench_subscribers_stamp(client->subscribers, options.expected_version + 1);
    s = c->publisher ? howdah_publisher_append(c->publisher, (const howdah_event *const *)&event, 1,
                                               &options, &position, reterr)
                     : howdah_append(c->bus, event, &options, &position, reterr);
    if (s >= 0)
        s = check_version(position.version, options.expected_version + 1, reterr);
    howdah_event_free(event);
    *ret_events = 1;
    return s;
}

/* latency: at the rate that was asked for, whatever an append takes. */
static int append_in_time(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    bench_pace_wait(&((ours *)client)->pace);
    return append_one(client, ret_events, reterr);
}

/* Both after an append and after a batch that could not be built to its end. */
static void free_events(const howdah_event **events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        howdah_event_free(
            (howdah_event *)(uintptr_t)events[i]); /* we built it, it is ours to free */
        events[i] = NULL;
    }
}

/*
 * One batch goes to one stream, so that one expectation covers all of it.  A group's log has its
 * streams mixed, as life has.
 */
static int append_n(ours *c, size_t n, howdah_error *reterr)
{
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    bool mixed = c->plan->kind == BENCH_GROUP_READ;
    size_t built = 0;
    int s = HOWDAH_OK;

    assert(c->events && n > 0);
    options.expected_version = bench_load_advance(&c->load);
    if (mixed)
        options.expected_version = HOWDAH_EXPECT_ANY;
    while (s >= 0 && built < n) {
        howdah_event *event = NULL;

        if (mixed)
            bench_load_pick(&c->load, hw_random_u32());
        s = build(c, &event, reterr);
        if (s >= 0)
            c->events[built++] = event;
    }
    if (s >= 0)
        s = howdah_append_batch(c->bus, c->events, n, &options, NULL, reterr);
    free_events(c->events, built);
    return s;
}

static int append_batch(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    ours *c = (ours *)client;

    *ret_events = c->plan->batch;
    return append_n(c, (size_t)c->plan->batch, reterr);
}

/* Every event is touched, as a consumer would. */
static int64_t lengths_of(const howdah_event *event)
{
    size_t data_len = 0;
    size_t headers_len = 0;

    (void)howdah_event_data(event, &data_len);
    (void)howdah_event_headers(event, &headers_len);
    return (int64_t)(data_len + headers_len + strlen(howdah_event_stream(event)) +
                     strlen(howdah_event_type(event)));
}

/* What a gateway makes of an event, and the command. */
static int format(ours *c, const howdah_event *event, howdah_error *reterr)
{
    int s;

    if (c->lines.len >= LINES_BYTES)
        hw_buf_clear(&c->lines);
    s = face_event_json(event, &c->lines, reterr);
    hw_buf_putc(&c->lines, '\n');
    return s;
}

/* Counted to the end: a read that loses events must not look fast. */
static int read_all(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    ours *c = (ours *)client;
    howdah_reader *reader = NULL;
    int64_t n = 0;
    int s = howdah_reader_open_since(c->bus, 0, &reader, reterr);

    while (s == HOWDAH_OK) {
        const howdah_event *event = NULL;

        s = howdah_reader_next(reader, &event, reterr);
        if (s != HOWDAH_OK)
            break;
        if (c->plan->http)
            s = format(c, event, reterr);
        else
            c->bytes += lengths_of(event);
        n++;
    }
    howdah_reader_close(reader);
    *ret_events = n;
    if (s >= 0 && n != c->plan->events)
        return hw_fail(reterr, HOWDAH_FAILED, "%lld events were read instead of %lld", (long long)n,
                       (long long)c->plan->events);
    return s < 0 ? s : HOWDAH_OK;
}

/* From the main thread: howdah_interrupt() is made for that. */
static void interrupt_client(bench_client *client)
{
    howdah_interrupt(((ours *)client)->bus);
}

/* Also for a client that was only half opened. */
static void close_client(bench_client *client)
{
    ours *c = (ours *)client;

    if (!c)
        return;
    howdah_builder_free(c->builder);
    howdah_close(c->bus);
    bench_load_done(&c->load);
    hw_buf_done(&c->lines);
    hw_free(c->events);
    hw_free(c);
}

/* By kind; the kinds that are missing have clients of their own (bench_ours_open). */
static const bench_client_ops ops[] = {
    [BENCH_APPEND] = {append_one, interrupt_client, close_client, NULL},
    [BENCH_APPEND_BATCH] = {append_batch, interrupt_client, close_client, NULL},
    [BENCH_READ] = {read_all, interrupt_client, close_client, NULL},
    [BENCH_LATENCY] = {append_in_time, interrupt_client, close_client, NULL},
    [BENCH_FANOUT] = {append_one, interrupt_client, close_client, NULL},
};

/* quiet: the second bus, which nobody listens to. */
static int open_ours(const bench_site *site, bench_kind kind, unsigned number, bool quiet,
                     size_t batch, ours **ret_client, howdah_error *reterr)
{
    ours *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &ops[kind];
    c->plan = site->plan;
    c->lines = (hw_buf)HW_BUF_INIT(LINES_BYTES_MAX);
    c->pace = (bench_pace){.rate = site->plan->rate};
    s = bench_load_init(&c->load, number, (size_t)site->plan->streams, (size_t)site->plan->payload,
                        reterr);
    if (s >= 0 && kind == BENCH_APPEND_BATCH) {
        c->events = hw_calloc(batch, sizeof *c->events);
        if (!c->events)
            s = hw_fail_no_memory(reterr);
    }
    if (s >= 0)
        s = howdah_builder_new(&c->builder, reterr);
    c->publisher = site->publisher;
    if (s >= 0 && !c->publisher)
        s = howdah_open(quiet ? site->quiet_url : site->url,
                        quiet ? site->quiet_settings : site->settings, &c->bus, reterr);
    if (s < 0) {
        close_client(&c->base);
        return s;
    }
    howdah_builder_set_type(c->builder, BENCH_TYPE);
    *ret_client = c;
    return HOWDAH_OK;
}

/* Each kind has its own sort of client; all of them are bench_client to the runner. */
int bench_ours_open(const bench_site *site, unsigned number, bool quiet, bench_client **ret_client,
                    howdah_error *reterr)
{
    ours *c = NULL;
    int s;

    assert(site->plan->kind != BENCH_CONTEND && site->plan->kind != BENCH_LISTEN); /* no clients */
    if (site->plan->kind == BENCH_DELIVER)
        return bench_deliver_open(site, number, ret_client, reterr);
    if (site->plan->kind == BENCH_QUEUE)
        return bench_queue_open(site, number, ret_client, reterr);
    if (site->plan->kind == BENCH_GROUP_READ)
        return bench_group_open(site, number, ret_client, reterr);
    if (site->plan->kind == BENCH_ASOF)
        return bench_asof_open(site, number, quiet, ret_client, reterr);
    s = open_ours(site, site->plan->kind, number, quiet, (size_t)site->plan->batch, &c, reterr);
    if (s >= 0 && c)
        *ret_client = &c->base;
    return s;
}

/* Fills the log before it is read.  Interrupted by a signal between two batches. */
int bench_ours_fill(cli_context *cli, const bench_site *site, howdah_error *reterr)
{
    int64_t total = site->plan->events;
    int64_t done = 0;
    cli_progress progress;
    ours *c = NULL;
    int s = open_ours(site, BENCH_APPEND_BATCH, 0, false, FILL_BATCH, &c, reterr);

    if (s < 0 || !c)
        return s;
    cli_progress_start(&progress, cli, "events");
    while (s >= 0 && done < total) {
        int64_t n = total - done < FILL_BATCH ? total - done : FILL_BATCH;

        s = cli_signal_caught() ? hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted")
                                : append_n(c, (size_t)n, reterr);
        done += n;
        cli_progress_update(&progress, done, total);
    }
    cli_progress_clear(&progress);
    close_client(&c->base);
    return s;
}
