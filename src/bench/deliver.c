/*
 * deliver.c - see deliver.h.
 *
 * Each time the subscription is a new one: made, brought up to the head, given up and removed.
 * The handler does nothing but touch its event; the checkpoint is stored every CHECKPOINT_EVENTS.
 */
#include "bench/deliver.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/load.h"
#include "cli/in/signals.h"

/* As a program would that wants throughput: few checkpoints, large pages. */
#define CHECKPOINT_EVENTS 5000
#define CATCH_UP_BATCH 1000
#define FILTERED_RUNS 5 /* odd: the middle one counts */

/* A client whose piece of work is one subscription from the start of the log to its head. */
typedef struct consumer {
    bench_client base;
    howdah_bus *bus;
    unsigned number;
    int64_t round;
    int64_t expected; /* events of one round */
    const char *pattern;
    /* Of the round. */
    int64_t events;
    int64_t bytes;
} consumer;

/* Touches the payload, so that it must have been fetched. */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    consumer *c = ctx;
    size_t data_len = 0;

    (void)delivery;
    (void)howdah_event_data(event, &data_len);
    c->bytes += (int64_t)data_len;
    c->events++;
    return HOWDAH_HANDLED;
}

/*
 * Waits without a limit: a signal interrupts the bus.  The error of the wait is the one that is
 * told.
 */
static int catch_up(consumer *c, const char *id, howdah_error *reterr)
{
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *subscription = NULL;
    int s;

    options.subscriber_id = id;
    options.pattern = c->pattern;
    options.handler = on_event;
    options.ctx = c;
    options.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    options.batch_size = CHECKPOINT_EVENTS;
    options.catch_up_batch = CATCH_UP_BATCH;
    s = howdah_subscribe(c->bus, &options, &subscription, reterr);
    if (s < 0)
        return s;
    s = howdah_subscription_wait(subscription, -1, reterr);
    if (s < 0)
        (void)howdah_unsubscribe(subscription, NULL);
    else
        s = howdah_unsubscribe(subscription, reterr);
    return s;
}

/* Removing the subscription is part of the round, so that rounds do not slow each other down. */
static int deliver_all(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    consumer *c = (consumer *)client;
    char id[64];
    int s;

    (void)snprintf(id, sizeof id, "bench:%u:%lld", c->number, (long long)c->round++);
    c->events = 0;
    s = catch_up(c, id, reterr);
    if (s >= 0)
        s = howdah_subscription_remove(c->bus, id, reterr);
    *ret_events = c->events;
    if (s >= 0 && c->events != c->expected)
        return hw_fail(reterr, HOWDAH_FAILED, "%lld events were delivered instead of %lld",
                       (long long)c->events, (long long)c->expected);
    return s < 0 ? s : HOWDAH_OK;
}

/* Ends the wait for the head, wherever it is. */
static void interrupt_consumer(bench_client *client)
{
    howdah_interrupt(((consumer *)client)->bus);
}

/* Also for a consumer whose bus could not be opened. */
static void close_consumer(bench_client *client)
{
    consumer *c = (consumer *)client;

    howdah_close(c->bus);
    hw_free(c);
}

int bench_deliver_open(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr)
{
    static const bench_client_ops ops = {deliver_all, interrupt_consumer, close_consumer, NULL};
    consumer *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &ops;
    c->number = number;
    c->expected = site->plan->events;
    s = howdah_open(site->url, site->settings, &c->bus, reterr);
    if (s < 0) {
        close_consumer(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}

/* ---- filtered */

static int compare_numbers(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The median of some runs.  The first run, which warms caches and plans, does not count. */
static int time_pattern(consumer *c, const char *pattern, int64_t *ret_us, howdah_error *reterr)
{
    int64_t took_us[FILTERED_RUNS];
    int s = HOWDAH_OK;

    c->pattern = pattern;
    for (int i = -1; s >= 0 && i < FILTERED_RUNS; i++) {
        int64_t start_us = hw_clock_mono_us();
        int64_t events;

        s = cli_signal_caught() ? hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted")
                                : deliver_all(&c->base, &events, reterr);
        took_us[i < 0 ? 0 : i] = hw_clock_mono_us() - start_us;
    }
    if (s < 0)
        return s;
    qsort(took_us, FILTERED_RUNS, sizeof *took_us, compare_numbers);
    *ret_us = took_us[FILTERED_RUNS / 2];
    return HOWDAH_OK;
}

/* While these runs last, a signal has to interrupt their own bus, not the command's. */
int bench_deliver_filtered(cli_context *cli, const bench_site *site, int64_t *ret_exact_us,
                           int64_t *ret_wildcard_us, howdah_error *reterr)
{
    bench_client *client = NULL;
    consumer *c;
    int s = bench_deliver_open(site, 0, &client, reterr);

    if (s < 0)
        return s;
    c = (consumer *)client;
    assert(site->plan->pattern_share > 0);
    c->expected = site->plan->events / site->plan->pattern_share;
    c->round = INT64_C(1000000); /* names that are not in use yet */
    cli_signals_watch(c->bus);
    s = time_pattern(c, BENCH_RARE_TYPE, ret_exact_us, reterr);
    if (s >= 0)
        s = time_pattern(c, BENCH_RARE_PATTERN, ret_wildcard_us, reterr);
    cli_signals_watch(cli->bus);
    close_consumer(client);
    return s;
}
