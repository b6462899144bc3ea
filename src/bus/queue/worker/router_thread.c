/*
 * router_thread.c - a worker routes the events that are bound to its queue.  See worker.h.
 *
 *   I1  The router has a bus and a thread of its own: a handler that takes an hour in the driver's
 *       thread keeps nobody's events back.
 *   I2  There is none before somebody has bound a pattern to the queue: most workers need neither
 *       the thread nor the session.
 *   I3  What the router cannot do is no reason not to work: it says so, and tries again.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_hook.h"
#include "base/random.h"
#include "bus/queue/worker/worker.h"
#include "engine/backoff.h"

#define LOOK_EVERY_MS 1000
/*
 * The router looks at its stop flag after each slice, at the latest; an interrupt ends one early.
 */
#define SLICE_MS 1000
#define BACKOFF_MS 100
#define BACKOFF_MAX_MS 10000

/* The router's thread (I1).  It ends only when it is told to: an error is logged, and tried again
   after a pause that grows (I3). */
static void *serve(void *arg)
{
    howdah_worker *worker = arg;
    hw_worker_router *router = &worker->router;
    unsigned failures = 0;

    while (!atomic_load(&router->stop)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = howdah_run(router->bus, SLICE_MS, &err);

        if (atomic_load(&router->stop))
            break;
        atomic_store(&router->failing, s < 0);
        failures = s < 0 ? failures + 1 : 0;
        if (s >= 0)
            continue;
        hw_log(HOWDAH_LOG_ERROR, "the events bound to %s are not routed here: %s", worker->queue,
               err.message);
        (void)hw_sleep(router->bus->interrupt,
                       hw_backoff_ms(BACKOFF_MS, BACKOFF_MAX_MS, failures - 1, 20, hw_random_u32()),
                       NULL);
    }
    return NULL;
}

/* The router gets a bus of its own with the worker's settings, for the queue's bindings alone. */
static int start(howdah_worker *worker, howdah_error *reterr)
{
    hw_worker_router *router = &worker->router;
    int failed;
    int s;

    assert(!router->runs && !router->bus);
    s = howdah_open(worker->bus->url, worker->bus->settings, &router->bus, reterr);
    if (s >= 0)
        s = howdah_bindings_serve(router->bus, worker->queue, reterr);
    if (s >= 0) {
        failed = pthread_create(&router->thread, NULL, serve, worker);
        if (failed != 0)
            s = hw_fail(reterr, HOWDAH_FAILED, "no thread for the router: %s",
                        strerrordesc_np(failed));
    }
    router->runs = s >= 0;
    if (s < 0) {
        howdah_close(router->bus);
        router->bus = NULL;
    }
    return s;
}

/* One is enough to need a router. */
static int note_binding(void *ctx, const howdah_binding_info *info)
{
    (void)info;
    *(bool *)ctx = true;
    return 1;
}

/* I2.  Called in every pass; the store is asked once a second, and not any more once a router
   runs. */
int hw_worker_route(howdah_worker *worker, howdah_error *reterr)
{
    hw_worker_router *router = &worker->router;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t now = hw_clock_mono_ms();
    bool bound = false;
    int s;

    if (router->runs || now < router->look_ms || !worker->bus->store->ops->subs)
        return HOWDAH_OK;
    router->look_ms = now + LOOK_EVERY_MS;
    s = howdah_bindings_walk(worker->bus, worker->queue, note_binding, &bound, reterr);
    if (s >= 0 && bound && !worker->bus->open_store) { /* in memory, or over a store given to it */
        router->look_ms = INT64_MAX;
        hw_log(HOWDAH_LOG_WARN,
               "the events bound to %s are not routed by its worker: this bus has one session only",
               worker->queue);
    } else if (s >= 0 && bound && start(worker, &err) < 0)
        hw_log(HOWDAH_LOG_ERROR, "the events bound to %s are not routed here: %s", worker->queue,
               err.message);
    return s < 0 ? s : HOWDAH_OK;
}

/* A binding that somebody has paused, or that is halted, is not waited for. */
static int note_lag(void *ctx, const howdah_binding_info *info)
{
    *(bool *)ctx = info->lag > 0 && info->state != HOWDAH_SUBSCRIPTION_PAUSED &&
                   info->state != HOWDAH_SUBSCRIPTION_HALTED;
    return *(bool *)ctx;
}

/* For until_empty: an empty queue is not the end while events are still to become its jobs.  A
   router that fails is not waited for. */
int hw_worker_awaits_route(howdah_worker *worker, bool *ret_awaits, howdah_error *reterr)
{
    *ret_awaits = false;
    if (!worker->router.runs || atomic_load(&worker->router.failing))
        return HOWDAH_OK;
    return howdah_bindings_walk(worker->bus, worker->queue, note_lag, ret_awaits, reterr);
}

/* Called by stop and by free: the second time there is nothing left to do. */
void hw_worker_route_end(howdah_worker *worker)
{
    hw_worker_router *router = &worker->router;

    if (!router->runs)
        return;
    assert(router->bus);
    atomic_store(&router->stop, true);
    howdah_interrupt(router->bus);
    (void)pthread_join(router->thread, NULL);
    howdah_close(router->bus);
    router->bus = NULL;
    router->runs = false;
}
