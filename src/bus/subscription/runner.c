/*
 * runner.c - a bus in threads: one serves it, the others call handlers.
 *
 *   I1  The serving thread alone touches the bus's own store handle, the reader and the pages'
 *       counts.  A worker has store handles of its own for what its work writes.
 *   I2  A subscription is busy from the moment its work is pushed until the serving thread, which
 *       drives the pool of workers, has collected what is left of it: nothing else of it is looked
 *       at in between (pool.h I1, I2).
 *   I3  The serving thread gives everything up on its way out, also when an error ends it: nobody
 *       stands by for what nobody works on.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include "base/log_hook.h"
#include "base/mem.h"
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"

/* Each thread may open two sessions on the server. */
#define THREADS_MAX 256
/* The longest sleep of the serving thread. */
#define LOOK_AT_STOP_MS 1000
#define SECONDS_MAX INT64_C(1000000000) /* longer than anybody waits */

/* Of one worker thread.  Each is opened when it is first needed: most threads need no
   transaction. */
typedef struct sessions {
    hw_store *io;
    hw_store *tx;
} sessions;

struct hw_runner {
    howdah_bus *bus;
    pthread_t server;
    hw_pool pool;
    sessions *sessions; /* by the number of the pool's thread */
    size_t sessions_n;
    atomic_bool stop;
    /* The end, for threads that wait for it: */
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool over;  /* the serving thread has given everything up */
    int status; /* what ended the serving thread, or went wrong on its way out */
    howdah_error error;
};

/* Asked in workers' threads while the serving thread runs: the runner pointer changes only when
   no thread of it is left. */
bool hw_runner_is_stopping(const howdah_bus *bus)
{
    const hw_runner *runner = bus->service->runner;

    return runner && atomic_load(&runner->stop);
}

/* ----------------------------------------------------------------- workers */

/* The head is copied here because the worker must not look at the reader (I1). */
void hw_runner_push(hw_runner *runner, howdah_subscription *sub)
{
    assert(hw_sub_is_busy(sub)); /* I2 */
    sub->head = sub->bus->service->reader.frontier.high;
    hw_pool_push(&runner->pool, &sub->item);
}

void hw_runner_push_item(hw_runner *runner, hw_pool_item *item)
{
    hw_pool_push(&runner->pool, item);
}

void hw_runner_wake(const howdah_bus *bus)
{
    if (bus->service->runner)
        hw_pool_ring(&bus->service->runner->pool);
}

static bool is_of(const void *shared, const hw_pool_item *item)
{
    return item->of_slot && ((const hw_slot *)item->owner)->shared == shared;
}

bool hw_runner_is_wanted(const howdah_bus *bus, const hw_shared *shared)
{
    return bus->service->runner && hw_pool_has_other(&bus->service->runner->pool, is_of, shared);
}

hw_pool_item *hw_runner_take_done(hw_runner *runner)
{
    return hw_pool_take_done(&runner->pool);
}

static int session_of(howdah_bus *bus, hw_store **store, howdah_error *reterr)
{
    return *store ? HOWDAH_OK : bus->open_store(bus->open_ctx, bus->interrupt, store, reterr);
}

/* If no session can be had, the work ends as if the store had failed: rows that were not offered
   are read again. */
static void run_with(sessions *own, howdah_subscription *sub)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool transactional = sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL;
    int s = session_of(sub->bus, &own->io, &err);

    if (s >= 0 && transactional)
        s = session_of(sub->bus, &own->tx, &err);
    if (s < 0) {
        sub->work.failed = s;
        hw_error_copy(&sub->work.error, &err);
        return;
    }
    hw_deliver_run(sub, own->io, transactional ? own->tx : NULL);
}

/* The same for a member of a group. */
static void run_slot(sessions *own, hw_slot *slot)
{
    howdah_bus *bus = slot->shared->sub->bus;
    bool transactional = slot->shared->sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL;
    int s = session_of(bus, &own->io, &slot->error);

    if (s >= 0 && transactional)
        s = session_of(bus, &own->tx, &slot->error);
    if (s >= 0)
        hw_slot_run(slot, own->io, transactional ? own->tx : NULL, true);
    else
        slot->failed = s;
}

/* In a worker's thread.  The whole run counts as inside a handler, because a log hook of the user
   may be called anywhere in it, and must not stop the runner that it runs in. */
static void run_work(void *ctx, size_t thread, hw_pool_item *item)
{
    hw_runner *runner = ctx;
    hw_handling all;

    assert(thread < runner->sessions_n);
    hw_handling_begin(&all, runner->bus, NULL, NULL);
    if (item->of_slot)
        run_slot(&runner->sessions[thread], item->owner);
    else
        run_with(&runner->sessions[thread], item->owner);
    hw_handling_end(&all);
}

/* ------------------------------------------------------------- the server */

/* The first error is what the caller gets; an interrupt, which was asked for, gives way to a
   later one. */
static void keep_first(hw_runner *runner, int status, const howdah_error *err)
{
    if (status >= 0 || (runner->status < 0 && runner->status != HOWDAH_INTERRUPTED))
        return;
    runner->status = status;
    hw_error_copy(&runner->error, err);
}

/* I3: what workers have left is stored, and every subscription given up.  The pool is drained
   first, so that no worker has anything when the ownership goes. */
static void wind_up(hw_runner *runner)
{
    howdah_bus *bus = runner->bus;
    howdah_error err = HOWDAH_ERROR_INIT;

    hw_pool_drain(&runner->pool);
    howdah_interrupt_clear(bus); /* an interrupt ends the work, not the storing of what was done */
    keep_first(runner, hw_service_collect(bus, &err), &err);
    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next)
        keep_first(runner, hw_service_let_go(sub, &err), &err);
    for (const howdah_subscription *sub = bus->service->shared; sub; sub = sub->next)
        keep_first(runner, hw_shared_let_go(sub->shared, &err), &err);
    (void)pthread_mutex_lock(&runner->lock);
    assert(!runner->over);
    runner->over = true;
    (void)pthread_cond_broadcast(&runner->ended);
    (void)pthread_mutex_unlock(&runner->lock);
}

/* As howdah_run(), until somebody stops it.  A worker that is done ends the wait, through the
   pool's descriptor. */
static void *serve(void *arg)
{
    hw_runner *runner = arg;
    howdah_bus *bus = runner->bus;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_handling all;

    hw_handling_begin(&all, bus, NULL, NULL);
    while (!atomic_load(&runner->stop)) {
        bool worked = false;
        int s = hw_interrupted(bus->interrupt) ? hw_fail(&err, HOWDAH_INTERRUPTED, "interrupted")
                                               : hw_service_pass(bus, &worked, &err);

        if (s >= 0)
            bus->service->failures = 0;
        if (s >= 0 && !worked)
            s = hw_service_wait(bus, LOOK_AT_STOP_MS, runner->pool.done_fd, &err);
        hw_pool_clear(&runner->pool);
        if (s < 0 && !hw_service_retries_after(bus, s, &err)) {
            runner->status = s;
            hw_error_copy(&runner->error, &err);
            hw_log(HOWDAH_LOG_ERROR, "the runner ends: %s", err.message);
            break;
        }
    }
    wind_up(runner);
    hw_handling_end(&all);
    return NULL;
}

/* ----------------------------------------------------------- start and end */

/* After its threads have ended: the sessions are theirs until then. */
static void free_runner(hw_runner *runner)
{
    for (size_t i = 0; i < runner->sessions_n; i++) {
        if (runner->sessions[i].io)
            runner->sessions[i].io->ops->close(runner->sessions[i].io);
        if (runner->sessions[i].tx)
            runner->sessions[i].tx->ops->close(runner->sessions[i].tx);
    }
    (void)pthread_cond_destroy(&runner->ended);
    (void)pthread_mutex_destroy(&runner->lock);
    hw_free(runner->sessions);
    hw_free(runner);
}

/* Without its threads.  The condition uses the monotonic clock: a wait must not change its length
   when somebody sets the time. */
static int new_runner(howdah_bus *bus, size_t threads, hw_runner **ret_runner, howdah_error *reterr)
{
    hw_runner *runner = hw_calloc(1, sizeof *runner);
    sessions *own = hw_calloc(threads, sizeof *own);
    pthread_condattr_t clock;

    if (!runner || !own) {
        hw_free(runner);
        hw_free(own);
        return hw_fail_no_memory(reterr);
    }
    runner->bus = bus;
    runner->sessions = own;
    runner->sessions_n = threads;
    runner->error = (howdah_error)HOWDAH_ERROR_INIT;
    (void)pthread_mutex_init(&runner->lock, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&runner->ended, &clock);
    (void)pthread_condattr_destroy(&clock);
    *ret_runner = runner;
    return HOWDAH_OK;
}

/* The workers, then the thread that serves.  The service has to know the runner before the first
   pass, so the pointer is set before the thread begins. */
static int start_threads(hw_runner *runner, howdah_error *reterr)
{
    const hw_pool_options options = {
        .whose = "runner", .run = run_work, .ctx = runner, .threads = runner->sessions_n};
    int failed;
    int s = hw_pool_init(&runner->pool, &options, reterr);

    if (s < 0)
        return s;
    runner->bus->service->runner = runner;
    failed = pthread_create(&runner->server, NULL, serve, runner);
    if (failed == 0)
        return HOWDAH_OK;
    runner->bus->service->runner = NULL;
    hw_pool_done(&runner->pool);
    return hw_fail(reterr, HOWDAH_FAILED, "no thread for the runner: %s", strerrordesc_np(failed));
}

/* A bus whose store cannot be opened a second time (in memory, say) cannot have one: every worker
   needs a session of its own. */
int howdah_runner_start(howdah_bus *bus, int threads, howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_runner *runner = NULL;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_runner_start", reterr);

    if (s < 0)
        return s;
    if (!hw_service_is_subscribed(bus))
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: nothing is subscribed");
    if (threads < 1 || threads > THREADS_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "threads", "must be 1 to %d, not %d",
                             THREADS_MAX, threads);
    if (!bus->open_store) {
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: this bus has one session only");
        return hw_advise(reterr, s, "serve it with howdah_run(), or open a bus on a file");
    }
    s = new_runner(bus, (size_t)threads, &runner, reterr);
    if (s < 0)
        return s;
    s = start_threads(runner, reterr);
    if (s < 0)
        free_runner(runner);
    return s;
}

/* The waits of handlers end, so that they return soon, and the serving thread is woken through
   the pool's descriptor.  Its wind_up() does the rest. */
int hw_runner_end(howdah_bus *bus, howdah_error *reterr)
{
    hw_runner *runner = bus->service ? bus->service->runner : NULL;
    int s;

    if (!runner)
        return HOWDAH_OK;
    atomic_store(&runner->stop, true);
    hw_waits_end(bus, true);
    hw_pool_ring(&runner->pool);
    (void)pthread_join(runner->server, NULL);
    hw_waits_end(bus, false);
    bus->service->runner = NULL;
    s = runner->status == HOWDAH_INTERRUPTED ? HOWDAH_OK : runner->status;
    if (s < 0)
        hw_error_copy(reterr, &runner->error);
    hw_pool_done(&runner->pool);
    free_runner(runner);
    return s;
}

/* HOWDAH_END: it still runs after for_ms (< 0: waits without limit); else the status that ended
   it. */
static int wait_for_end(hw_runner *runner, int64_t for_ms, howdah_error *reterr)
{
    struct timespec until;
    int s = HOWDAH_END;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    if (for_ms > 0) {
        until.tv_sec += (time_t)(for_ms / 1000 < SECONDS_MAX ? for_ms / 1000 : SECONDS_MAX);
        until.tv_nsec += (long)(for_ms % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    (void)pthread_mutex_lock(&runner->lock);
    while (!runner->over) {
        int woke = for_ms < 0 ? pthread_cond_wait(&runner->ended, &runner->lock)
                              : pthread_cond_timedwait(&runner->ended, &runner->lock, &until);

        if (woke != 0)
            break;
    }
    if (runner->over) {
        s = runner->status;
        if (s < 0)
            hw_error_copy(reterr, &runner->error);
    }
    (void)pthread_mutex_unlock(&runner->lock);
    return s;
}

int howdah_runner_wait(howdah_bus *bus, int64_t for_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_DRIVES | HW_ENDS, "howdah_runner_wait", reterr);

    if (s < 0)
        return s;
    if (!bus->service || !bus->service->runner)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_wait: there is no runner");
    return wait_for_end(bus->service->runner, for_ms, reterr);
}

int howdah_runner_stop(howdah_bus *bus, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_DRIVES | HW_ENDS, "howdah_runner_stop", reterr);

    if (s < 0)
        return s;
    if (!bus->service || !bus->service->runner)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_stop: there is no runner");
    return hw_runner_end(bus, reterr);
}
