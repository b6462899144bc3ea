/* asof.c - see asof.h. */
#include "bench/asof.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "bench/load.h"
#include "cli/in/signals.h"
#include "cli/out/progress.h"

/* asof.h promises these figures. */
#define FACTS_A_STREAM 100
#define FACT_EVERY 100 /* one in so many events is of the type that is asked for */
#define FILL_BATCH (10 * FACTS_A_STREAM)
#define NAME_SIZE 64

const char *const bench_asof_names[] = {[BENCH_OF_STREAM] = "stream",
                                        [BENCH_OF_TYPE] = "type",
                                        [BENCH_OF_APPEND] = "append",
                                        [BENCH_OF_APPEND_VALID] = "append-valid",
                                        NULL};

bool bench_of_appends(const bench_plan *plan)
{
    return plan->kind == BENCH_ASOF &&
           (plan->of == BENCH_OF_APPEND || plan->of == BENCH_OF_APPEND_VALID);
}

/* Also how the asker finds the streams that the filler made. */
static void name_stream(int64_t number, char ret_name[NAME_SIZE])
{
    (void)snprintf(ret_name, NAME_SIZE, "account-%" PRId64, number);
}

/* ---- the log */

/* Large, because of the batch; it lives on the stack of fill() only while the log is filled. */
typedef struct filler {
    howdah_bus *bus;
    howdah_builder *builder;
    bench_load load;
    howdah_event *events[FILL_BATCH];
} filler;

/* The number of the event decides stream and type, so that every run has the same log. */
static int build(filler *f, int64_t number, howdah_event **ret_event, howdah_error *reterr)
{
    char stream[NAME_SIZE];
    int64_t version;
    hw_str data = bench_load_next(&f->load, &version);

    name_stream(number / FACTS_A_STREAM, stream);
    howdah_builder_set_stream(f->builder, stream);
    howdah_builder_set_type(f->builder, number % FACT_EVERY == 0 ? BENCH_FACT_TYPE : BENCH_TYPE);
    howdah_builder_set_json(f->builder, data.s, data.len);
    return howdah_builder_build(f->builder, ret_event, reterr);
}

static int append_some(filler *f, int64_t first, size_t n, howdah_error *reterr)
{
    size_t built = 0;
    int s = HOWDAH_OK;

    assert(n > 0 && n <= FILL_BATCH);
    while (s >= 0 && built < n) {
        s = build(f, first + (int64_t)built, &f->events[built], reterr);
        if (s >= 0)
            built++;
    }
    if (s >= 0)
        s = howdah_append_batch(f->bus, (const howdah_event *const *)f->events, n, NULL, NULL,
                                reterr);
    while (built > 0)
        howdah_event_free(f->events[--built]);
    return s;
}

/* In batches of whole streams, on the command's own bus. */
static int fill(cli_context *cli, const bench_site *site, howdah_error *reterr)
{
    filler f = {.bus = cli->bus};
    int64_t total = site->plan->events;
    int64_t done = 0;
    cli_progress progress;
    int s = bench_load_init(&f.load, 0, 1, (size_t)site->plan->payload, reterr);

    if (s < 0)
        return s;
    s = howdah_builder_new(&f.builder, reterr);
    cli_progress_start(&progress, cli, "events");
    while (s >= 0 && done < total) {
        int64_t n = total - done < FILL_BATCH ? total - done : FILL_BATCH;

        s = cli_signal_caught() ? hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted")
                                : append_some(&f, done, (size_t)n, reterr);
        done += n;
        cli_progress_update(&progress, done, total);
    }
    cli_progress_clear(&progress);
    howdah_builder_free(f.builder);
    bench_load_done(&f.load);
    return s;
}

/*
 * Filled first and corrected afterwards, as happens in life: the corrections are the newest rows.
 */
int bench_asof_prepare(cli_context *cli, const bench_site *site, howdah_error *reterr)
{
    int s;

    if (bench_of_appends(site->plan))
        return site->backend->make_ceiling(site, reterr);
    s = fill(cli, site, reterr);
    if (s >= 0)
        s = site->backend->correct(site, reterr);
    return s < 0 ? s : site->backend->quiesce(site, reterr);
}

/* ---- questions */

/* A client that asks for what was known at one moment, or reads the stream plainly. */
typedef struct asker {
    bench_client base;
    howdah_bus *bus;
    const bench_plan *plan;
    int64_t known_at_us;
    bool plain; /* the ceiling: a read of the stream */
    int64_t bytes;
} asker;

/* How many facts a right answer has.  A corrected fact is one fact, in whatever revision. */
static int64_t facts_of(const bench_plan *plan)
{
    return plan->of == BENCH_OF_STREAM ? FACTS_A_STREAM : plan->events / FACT_EVERY;
}

/* The same moment for valid and known time: everything that the log says. */
static int open_reader(const asker *c, const char *stream, howdah_reader **ret_reader,
                       howdah_error *reterr)
{
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_reader_options r = HOWDAH_READER_OPTIONS_INIT;

    if (c->plain) {
        r.stream = stream;
        return howdah_reader_open(c->bus, &r, ret_reader, reterr);
    }
    q.view = HOWDAH_VIEW_AS_OF;
    q.known_at_us = c->known_at_us;
    q.valid_at_us = c->known_at_us;
    if (c->plan->of == BENCH_OF_STREAM)
        q.stream = stream;
    else
        q.type = BENCH_FACT_TYPE;
    return howdah_query_open(c->bus, &q, ret_reader, reterr);
}

/*
 * Counts facts on both sides: a plain read also brings the corrections, and these are not
 * counted.  A wrong number fails the bench.
 */
static int ask(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    asker *c = (asker *)client;
    howdah_reader *reader = NULL;
    char stream[NAME_SIZE];
    int64_t facts = facts_of(c->plan);
    int64_t n = 0;
    int s;

    assert(c->plan->events >= FACTS_A_STREAM); /* the command asks for a multiple of 1,000 */
    name_stream(hw_random_u32() % (c->plan->events / FACTS_A_STREAM), stream);
    s = open_reader(c, stream, &reader, reterr);
    while (s == HOWDAH_OK) {
        const howdah_event *event = NULL;
        size_t len = 0;

        s = howdah_reader_next(reader, &event, reterr);
        if (s != HOWDAH_OK)
            break;
        (void)howdah_event_data(event, &len);
        c->bytes += (int64_t)len;
        n++;
    }
    howdah_reader_close(reader);
    *ret_events = facts;
    if (s >= 0 && (n < facts || (n > facts && !c->plain)))
        return hw_fail(reterr, HOWDAH_FAILED, "%" PRId64 " facts were found instead of %" PRId64, n,
                       facts);
    return s < 0 ? s : HOWDAH_OK;
}

static void interrupt_asker(bench_client *client)
{
    howdah_interrupt(((asker *)client)->bus);
}

/* Also when the bus could not be opened. */
static void close_asker(bench_client *client)
{
    asker *c = (asker *)client;

    howdah_close(c->bus);
    hw_free(c);
}

/* The moment of the last event: everything is known then, and nothing can be added. */
static int find_moment(asker *c, howdah_error *reterr)
{
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s;

    o.backward = true;
    o.limit = 1;
    s = howdah_reader_open(c->bus, &o, &reader, reterr);
    if (s >= 0)
        s = howdah_reader_next(reader, &event, reterr);
    if (s == HOWDAH_OK)
        (void)howdah_event_recorded_at(event, &c->known_at_us);
    howdah_reader_close(reader);
    return s;
}

/* Each client asks on a session of its own. */
static int open_asker(const bench_site *site, bool plain, bench_client **ret_client,
                      howdah_error *reterr)
{
    static const bench_client_ops ops = {ask, interrupt_asker, close_asker, NULL};
    asker *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &ops;
    c->plan = site->plan;
    c->plain = plain;
    s = howdah_open(site->url, site->settings, &c->bus, reterr);
    if (s >= 0)
        s = find_moment(c, reterr);
    if (s < 0) {
        close_asker(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}

/*
 * Which client plays which side: appends go through the bare driver on both, into tables with and
 * without the second time.
 */
int bench_asof_open(const bench_site *site, unsigned number, bool ceiling,
                    bench_client **ret_client, howdah_error *reterr)
{
    if (bench_of_appends(site->plan)) {
        bench_site side = *site;

        side.one_time = ceiling;
        return site->backend->open_client(&side, number, ret_client, reterr);
    }
    if (site->plan->of == BENCH_OF_TYPE && ceiling)
        return site->backend->open_client(site, number, ret_client, reterr);
    return open_asker(site, ceiling, ret_client, reterr);
}
