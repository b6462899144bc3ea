/* group.c - see group.h. */
#include "bench/group.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "bench/pg.h"

/* So long may a member wait when the others have the last batches. */
#define WAIT_MS 5

const char *const bench_through_names[] = {[BENCH_THROUGH_MEMBERS] = "members",
                                           [BENCH_THROUGH_HANDLERS] = "handlers",
                                           [BENCH_THROUGH_SQL] = "sql",
                                           NULL};
const char *const bench_against_names[] = {[BENCH_AGAINST_READ] = "read",
                                           [BENCH_AGAINST_DELETE] = "delete",
                                           [BENCH_AGAINST_QUEUE] = "queue",
                                           NULL};

/* A client of our side: a member with a bus of its own, or a bus that runs handlers. */
typedef struct group_client {
    bench_client base;
    const bench_plan *plan;
    unsigned number;
    howdah_bus *bus;
    howdah_member *member;
    howdah_subscription *subscription;
    howdah_bus *admin; /* handlers: while their bus is a runner's */
    int64_t bytes;     /* read, so that the payloads are touched */
    atomic_llong handled;
} group_client;

int bench_group_prepare(cli_context *cli, howdah_error *reterr)
{
    howdah_member_options options = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_member *member = NULL;
    int s;

    options.subscriber_id = BENCH_GROUP;
    s = howdah_member_new(cli->bus, &options, &member, reterr);
    howdah_member_free(member);
    return s;
}

/* Before a slice: back to the beginning.  The number of events is that of the log. */
static int put_back(bench_client *client, int64_t n, howdah_error *reterr)
{
    group_client *c = (group_client *)client;

    assert(n == c->plan->events);
    (void)n;
    atomic_store(&c->handled, 0);
    return howdah_subscription_reset(c->admin ? c->admin : c->bus, BENCH_GROUP, 0, reterr);
}

/* What a slow handler does instead of working. */
static void take_time(const group_client *c)
{
    if (c->plan->handler_us > 0)
        (void)nanosleep(&(struct timespec){0, c->plan->handler_us * 1000}, NULL);
}

/* ---- members */

static int64_t handle_batch(group_client *c, const howdah_batch *batch)
{
    size_t n = howdah_batch_size(batch);

    for (size_t i = 0; i < n; i++) {
        size_t len = 0;

        (void)howdah_event_data(howdah_batch_event(batch, i), &len);
        c->bytes += (int64_t)len;
        take_time(c);
    }
    return (int64_t)n;
}

/* Batch after batch, each acked with the next fetch, until all of the log is acked. */
static int drain(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    group_client *c = (group_client *)client;
    howdah_batch *batch = NULL;
    int64_t events = 0;
    int64_t in_hand = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && atomic_load(client->backlog) > 0 && !atomic_load(client->stop)) {
        howdah_batch *next = NULL;

        s = batch ? howdah_member_exchange(c->member, batch, WAIT_MS, &next, reterr)
                  : howdah_member_fetch(c->member, WAIT_MS, &next, reterr);
        if (s < 0)
            break;
        batch = next;
        events += in_hand;
        atomic_fetch_sub(client->backlog, in_hand);
        in_hand = batch ? handle_batch(c, batch) : 0;
    }
    *ret_events = events;
    return s < 0 ? s : HOWDAH_OK;
}

/* ---- handlers */

/* In the threads of the runner. */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    group_client *c = ctx;
    size_t len = 0;

    (void)delivery;
    (void)howdah_event_data(event, &len);
    take_time(c);
    atomic_fetch_add_explicit(&c->handled, 1, memory_order_relaxed);
    return HOWDAH_HANDLED;
}

/*
 * The first client is all of them: its bus has a thread for each member.  They go on from slice to
 * slice, as in a program that is up.
 */
static int run_handlers(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    group_client *c = (group_client *)client;
    int64_t wanted = c->plan->events;
    int s;

    if (c->number > 0)
        return HOWDAH_OK;
    do {
        s = howdah_runner_wait(c->bus, 1, reterr);
    } while (s == HOWDAH_END && atomic_load(&c->handled) < wanted && !atomic_load(client->stop));
    *ret_events = atomic_load(&c->handled);
    return s;
}

/* ---- clients */

static void interrupt_client(bench_client *client)
{
    howdah_interrupt(((group_client *)client)->bus);
}

static void close_client(bench_client *client)
{
    group_client *c = (group_client *)client;

    if (c->admin)
        (void)howdah_runner_stop(c->bus, NULL);
    if (c->subscription)
        (void)howdah_unsubscribe(c->subscription, NULL);
    howdah_member_free(c->member);
    howdah_close(c->bus);
    howdah_close(c->admin);
    hw_free(c);
}

static int start_handlers(group_client *c, const bench_site *site, howdah_error *reterr)
{
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    int s;

    options.subscriber_id = BENCH_GROUP;
    options.instance = HOWDAH_INSTANCE_SHARED;
    options.concurrency = c->plan->clients;
    options.catch_up_batch = c->plan->batch;
    options.handler = on_event;
    options.ctx = c;
    s = howdah_subscribe(c->bus, &options, &c->subscription, reterr);
    if (s >= 0)
        s = howdah_open(site->url, site->settings, &c->admin, reterr);
    return s < 0 ? s : howdah_runner_start(c->bus, (int)c->plan->clients, reterr);
}

static int join(group_client *c, howdah_error *reterr)
{
    howdah_member_options options = HOWDAH_MEMBER_OPTIONS_INIT;

    options.subscriber_id = BENCH_GROUP;
    options.max_events = c->plan->batch;
    return howdah_member_new(c->bus, &options, &c->member, reterr);
}

int bench_group_open(const bench_site *site, unsigned number, bench_client **ret_client,
                     howdah_error *reterr)
{
    static const bench_client_ops members = {drain, interrupt_client, close_client, put_back};
    static const bench_client_ops handlers = {run_handlers, interrupt_client, close_client,
                                              put_back};
    bool handles = site->plan->through == BENCH_THROUGH_HANDLERS;
    group_client *c;
    int s;

    if (site->plan->through == BENCH_THROUGH_SQL)
        return bench_pg_open_sql_member(site, number, ret_client, reterr);
    c = hw_calloc(1, sizeof *c);
    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = handles ? &handlers : &members;
    c->plan = site->plan;
    c->number = number;
    s = howdah_open(site->url, site->settings, &c->bus, reterr);
    if (s >= 0 && !handles)
        s = join(c, reterr);
    else if (s >= 0 && number == 0)
        s = start_handlers(c, site, reterr);
    if (s < 0) {
        close_client(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}
