/* subscribers.c - see subscribers.h; and those of our side. */
#include "bench/subscribers.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/in/signals.h"

#define NS_PER_S INT64_C(1000000000)
/* Fine enough for slowest_us to mean something. */
#define LOOK_EVERY_NS 200000
/* After two minutes it is a failure and not a slow machine. */
#define PATIENCE_US INT64_C(120000000)
#define CHECKPOINT_EVENTS 1000

/* ---- the thread */

/* An error after the stop is only the interrupt. */
static void *listen_main(void *arg)
{
    bench_subscribers *a = arg;
    int s = a->ops->listen(a, &a->err);

    if (s < 0 && !atomic_load(&a->stop)) {
        a->status = s;
        atomic_store(&a->failed, true);
    }
    return NULL;
}

/* Signals are for the main thread. */
int bench_subscribers_start(bench_subscribers *subscribers, howdah_error *reterr)
{
    sigset_t all;
    sigset_t before;
    int error;

    subscribers->err = (howdah_error)HOWDAH_ERROR_INIT;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&subscribers->thread, NULL, listen_main, subscribers);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    subscribers->started = error == 0;
    if (error)
        return hw_fail(reterr, HOWDAH_FAILED, "cannot start a thread: %s", strerrordesc_np(error));
    return HOWDAH_OK;
}

/* The thread first: what it uses is closed afterwards. */
void bench_subscribers_close(bench_subscribers *subscribers)
{
    if (!subscribers)
        return;
    atomic_store(&subscribers->stop, true);
    if (subscribers->started && subscribers->ops->interrupt)
        subscribers->ops->interrupt(subscribers);
    if (subscribers->started)
        (void)pthread_join(subscribers->thread, NULL);
    subscribers->ops->close(subscribers);
}

/* ---- hearing */

/* One appender only and versions in a row, so a ring of stamps is enough. */
void bench_subscribers_stamp(bench_subscribers *subscribers, int64_t version)
{
    assert(version > 0);
    atomic_store(&subscribers->stamps[version % BENCH_STAMPS], hw_clock_mono_us());
}

void bench_subscribers_hear(bench_subscribers *subscribers, int64_t version)
{
    if (subscribers->timed)
        bench_histogram_add(&subscribers->latency,
                            hw_clock_mono_us() -
                                atomic_load(&subscribers->stamps[version % BENCH_STAMPS]));
    atomic_fetch_add(&subscribers->heard, 1);
}

/* The time that is waited here is how far the subscribers lag (slowest_us). */
int bench_subscribers_await(bench_subscribers *subscribers, int64_t events, howdah_error *reterr)
{
    const struct timespec a_moment = {0, LOOK_EVERY_NS};
    int64_t start_us = hw_clock_mono_us();
    int64_t wanted = events * subscribers->hearers;
    int64_t waited_us = 0;

    assert(subscribers->hearers > 0);

    while (atomic_load(&subscribers->heard) < wanted) {
        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        if (atomic_load(&subscribers->failed)) {
            if (reterr)
                *reterr = subscribers->err;
            return subscribers->status;
        }
        if (waited_us > PATIENCE_US)
            return hw_fail(reterr, HOWDAH_TIMEOUT, "%lld of %lld events were heard",
                           (long long)atomic_load(&subscribers->heard), (long long)wanted);
        (void)nanosleep(&a_moment, NULL);
        waited_us = hw_clock_mono_us() - start_us;
    }
    if (waited_us > subscribers->slowest_us)
        subscribers->slowest_us = waited_us;
    return HOWDAH_OK;
}

/* ---- subscriptions */

/* All subscriptions share one bus and one thread, as in a program with many projections. */
typedef struct live {
    bench_subscribers base;
    howdah_bus *bus;
    int64_t threads; /* of a group's members; 0: it has none of its own */
} live;

/* Every subscription sees every event, so each of them counts. */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)delivery;
    bench_subscribers_hear(ctx, howdah_event_version(event));
    return HOWDAH_HANDLED;
}

/* Until it is interrupted. */
static int serve(bench_subscribers *subscribers, howdah_error *reterr)
{
    live *l = (live *)subscribers;
    int s;

    if (l->threads == 0)
        return howdah_run(l->bus, -1, reterr);
    s = howdah_runner_start(l->bus, (int)l->threads, reterr);
    if (s >= 0)
        s = howdah_runner_wait(l->bus, -1, reterr);
    (void)howdah_runner_stop(l->bus, NULL);
    return s;
}

static void interrupt_live(bench_subscribers *subscribers)
{
    howdah_interrupt(((live *)subscribers)->bus);
}

/* Also when the bus could not be opened. */
static void close_live(bench_subscribers *subscribers)
{
    live *l = (live *)subscribers;

    howdah_close(l->bus);
    hw_free(l);
}

/* Checkpoints are batched, as in a program that wants to be quick. */
static int subscribe(live *l, int64_t number, int64_t members, howdah_error *reterr)
{
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *subscription = NULL;
    char id[32];

    (void)snprintf(id, sizeof id, "bench:%lld", (long long)number);
    options.subscriber_id = id;
    options.handler = on_event;
    options.ctx = &l->base;
    if (members > 0) {
        options.instance = HOWDAH_INSTANCE_SHARED;
        options.concurrency = members;
    } else {
        options.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
        options.batch_size = CHECKPOINT_EVENTS;
    }
    return howdah_subscribe(l->bus, &options, &subscription, reterr);
}

/* From the start of the log, which is empty then: nothing is missed. */
int bench_live_open(const bench_site *site, bench_subscribers **ret_subscribers,
                    howdah_error *reterr)
{
    static const bench_subscribers_ops ops = {serve, interrupt_live, close_live};
    live *l = hw_calloc(1, sizeof *l);
    int s;

    if (!l)
        return hw_fail_no_memory(reterr);
    assert(site->plan->subscriptions > 0);
    l->base.ops = &ops;
    l->base.hearers = site->plan->subscriptions;
    /* The members of a group have threads of their own; a latency is measured in one. */
    l->base.timed = site->plan->kind == BENCH_LATENCY;
    l->threads = l->base.timed ? 0 : site->plan->members;
    s = howdah_open(site->url, site->settings, &l->bus, reterr);
    for (int64_t i = 0; s >= 0 && i < site->plan->subscriptions; i++)
        s = subscribe(l, i, site->plan->members, reterr);
    if (s < 0) {
        close_live(&l->base);
        return s;
    }
    *ret_subscribers = &l->base;
    return HOWDAH_OK;
}

/* ---- the pace */

/*
 * Against a plan of moments, so that a late one does not delay those after it; what was missed is
 * not made up for, or a burst would follow a pause.
 */
void bench_pace_wait(bench_pace *pace)
{
    struct timespec now;
    struct timespec until;
    int64_t now_ns;

    assert(pace->rate > 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
    if (pace->next_ns < now_ns)
        pace->next_ns = now_ns;
    until = (struct timespec){pace->next_ns / NS_PER_S, pace->next_ns % NS_PER_S};
    pace->next_ns += NS_PER_S / pace->rate;
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
