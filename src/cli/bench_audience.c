/* bench_audience.c - see bench_audience.h; and our side's audience, subscriptions. */
#include "cli/bench_audience.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/signals.h"

#define NS_PER_S INT64_C(1000000000)
#define LOOK_EVERY_NS 200000
#define PATIENCE_US INT64_C(120000000)
#define CHECKPOINT_EVENTS 1000

/* ---- the thread */

static void *listen_main(void *arg)
{
    bench_audience *a = arg;
    int s = a->ops->listen(a, &a->err);

    if (s < 0 && !atomic_load(&a->stop)) {
        a->status = s;
        atomic_store(&a->failed, true);
    }
    return NULL;
}

/* Signals are for the main thread. */
int bench_audience_start(bench_audience *audience, howdah_error *reterr)
{
    sigset_t all;
    sigset_t before;
    int error;

    audience->err = (howdah_error)HOWDAH_ERROR_INIT;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    error = pthread_create(&audience->thread, NULL, listen_main, audience);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    audience->started = error == 0;
    if (error)
        return hw_fail(reterr, HOWDAH_FAILED, "cannot start a thread: %s", strerrordesc_np(error));
    return HOWDAH_OK;
}

void bench_audience_close(bench_audience *audience)
{
    if (!audience)
        return;
    atomic_store(&audience->stop, true);
    if (audience->started && audience->ops->interrupt)
        audience->ops->interrupt(audience);
    if (audience->started)
        (void)pthread_join(audience->thread, NULL);
    audience->ops->close(audience);
}

/* ---- hearing */

void bench_audience_stamp(bench_audience *audience, int64_t version)
{
    atomic_store(&audience->stamps[version % BENCH_STAMPS], hw_clock_mono_us());
}

void bench_audience_hear(bench_audience *audience, int64_t version)
{
    if (audience->hearers == 1)
        bench_histogram_add(&audience->latency,
                            hw_clock_mono_us() -
                                atomic_load(&audience->stamps[version % BENCH_STAMPS]));
    atomic_fetch_add(&audience->heard, 1);
}

int bench_audience_await(bench_audience *audience, int64_t events, howdah_error *reterr)
{
    const struct timespec a_moment = {0, LOOK_EVERY_NS};
    int64_t start_us = hw_clock_mono_us();
    int64_t wanted = events * audience->hearers;
    int64_t waited_us = 0;

    while (atomic_load(&audience->heard) < wanted) {
        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        if (atomic_load(&audience->failed)) {
            if (reterr)
                *reterr = audience->err;
            return audience->status;
        }
        if (waited_us > PATIENCE_US)
            return hw_fail(reterr, HOWDAH_TIMEOUT, "%lld of %lld events were heard",
                           (long long)atomic_load(&audience->heard), (long long)wanted);
        (void)nanosleep(&a_moment, NULL);
        waited_us = hw_clock_mono_us() - start_us;
    }
    if (waited_us > audience->slowest_us)
        audience->slowest_us = waited_us;
    return HOWDAH_OK;
}

/* ---- subscriptions */

typedef struct live {
    bench_audience base;
    howdah_bus *bus;
} live;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)delivery;
    bench_audience_hear(ctx, howdah_event_version(event));
    return HOWDAH_HANDLED;
}

static int serve(bench_audience *audience, howdah_error *reterr)
{
    return howdah_run(((live *)audience)->bus, -1, reterr);
}

static void interrupt_live(bench_audience *audience)
{
    howdah_interrupt(((live *)audience)->bus);
}

static void close_live(bench_audience *audience)
{
    live *l = (live *)audience;

    howdah_close(l->bus);
    hw_free(l);
}

static int subscribe(live *l, int64_t number, howdah_error *reterr)
{
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *subscription = NULL;
    char id[32];

    (void)snprintf(id, sizeof id, "bench:%lld", (long long)number);
    options.subscriber_id = id;
    options.handler = on_event;
    options.ctx = &l->base;
    options.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    options.batch_size = CHECKPOINT_EVENTS;
    return howdah_subscribe(l->bus, &options, &subscription, reterr);
}

int bench_live_open(const bench_site *site, bench_audience **ret_audience, howdah_error *reterr)
{
    static const bench_audience_ops ops = {serve, interrupt_live, close_live};
    live *l = hw_calloc(1, sizeof *l);
    int s;

    if (!l)
        return hw_fail_no_memory(reterr);
    l->base.ops = &ops;
    l->base.hearers = site->plan->subscriptions;
    s = howdah_open(site->url, site->settings, &l->bus, reterr);
    for (int64_t i = 0; s >= 0 && i < site->plan->subscriptions; i++)
        s = subscribe(l, i, reterr);
    if (s < 0) {
        close_live(&l->base);
        return s;
    }
    *ret_audience = &l->base;
    return HOWDAH_OK;
}

/* ---- the pace */

void bench_pace_wait(bench_pace *pace)
{
    struct timespec now;
    struct timespec until;
    int64_t now_ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    now_ns = (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
    if (pace->next_ns < now_ns)
        pace->next_ns = now_ns;
    until = (struct timespec){pace->next_ns / NS_PER_S, pace->next_ns % NS_PER_S};
    pace->next_ns += NS_PER_S / pace->rate;
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}
