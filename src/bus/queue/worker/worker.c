/* worker.c - a worker: made, run, stopped.  See worker.h. */
#include "bus/queue/worker/worker.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sized.h"
#include "engine/backoff.h"
#include "engine/rules.h"

#define THREADS_MAX 256
/* How often the worker looks after its queue, and how many rounds it takes then at most: the jobs
   in hand have to be extended in between. */
#define MAINTAIN_MS 10000
#define MAINTAIN_ROUNDS 10
/* From the first wait for a store that cannot be reached to the longest. */
#define STORE_BACKOFF_MS 50
#define STORE_BACKOFF_MAX_MS 5000
/* until_empty: how often a worker without jobs asks whether its router has caught up. */
#define ROUTE_LOOK_MS 20

/* ------------------------------------------------------------------ making one */

static int check_numbers(const howdah_worker_options *o, howdah_error *reterr)
{
    const hw_number_rule rules[] = {
        {"threads", o->threads, 0, THREADS_MAX, ""},
        {"batch", o->batch, 1, HOWDAH_JOBS_MAX, ""},
        {"lease", o->lease_ms, 0, HW_DELAY_MAX_MS, " ms"},
        {"ack_delay", o->ack_delay_ms, 0, INT64_C(24) * 3600 * 1000, " ms"},
        {"drain", o->drain_ms, 0, INT64_C(24) * 3600 * 1000, " ms"},
        {"max_attempts", o->max_attempts, 0, INT16_MAX, ""},
        {"max_jobs", o->max_jobs, 0, INT64_MAX, ""},
    };

    return hw_rule_numbers(rules, sizeof rules / sizeof *rules, reterr);
}

/* Options come from outside, so everything about them is checked before anything is made. */
static int check(const howdah_worker_options *o, howdah_error *reterr)
{
    int s;

    if (!o->handler)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_worker_new: the handler is NULL");
    s = hw_rule_queue(hw_str_of(o->queue), reterr);
    if (s >= 0 && o->worker)
        s = hw_rule_name("worker", hw_str_of(o->worker), reterr);
    return s < 0 ? s : check_numbers(o, reterr);
}

/* The pool has ended, or never began: no thread has a job of the hand. */
static void free_worker(howdah_worker *worker)
{
    for (size_t i = 0; i < worker->hand_n; i++)
        hw_work_free(worker->hand[i]);
    hw_free(worker->hand);
    hw_free(worker->acks);
    hw_free(worker->acked);
    hw_free(worker->acking);
    hw_free(worker->queue);
    hw_free(worker->name);
    hw_free(worker);
}

/* Everything is allocated here, as large as it can become: later no claim fails for lack of room
   in the hand. */
static int new_worker(howdah_bus *bus, const howdah_worker_options *o, howdah_worker **ret_worker,
                      howdah_error *reterr)
{
    howdah_worker *worker = hw_calloc(1, sizeof *worker);

    if (!worker)
        return hw_fail_no_memory(reterr);
    worker->bus = bus;
    worker->options = *o;
    worker->capacity = (size_t)(o->batch > o->threads ? o->batch : o->threads);
    worker->queue = hw_strdup(o->queue);
    worker->name = hw_strdup(o->worker ? o->worker : bus->queues->signature);
    worker->hand = hw_calloc(2 * worker->capacity, sizeof *worker->hand);
    worker->acks = hw_calloc(worker->capacity, sizeof *worker->acks);
    worker->acked = hw_calloc(worker->capacity, sizeof *worker->acked);
    worker->acking = hw_calloc(worker->capacity, sizeof *worker->acking);
    worker->info = (howdah_worker_info)HOWDAH_WORKER_INFO_INIT;
    if (!worker->queue || !worker->name || !worker->hand || !worker->acks || !worker->acked ||
        !worker->acking) {
        free_worker(worker);
        return hw_fail_no_memory(reterr);
    }
    *ret_worker = worker;
    return HOWDAH_OK;
}

/* A claim is worth its trip when half of the hand is gone, or a thread has nothing to do. */
static size_t low_water(const howdah_worker *worker)
{
    size_t threads = (size_t)worker->options.threads;
    size_t half = worker->capacity / 2;

    if (threads == 0)
        return 0;
    return half > threads - 1 ? half : threads - 1;
}

/* One worker a bus: it drives the bus's session, and its bell. */
int howdah_worker_new(howdah_bus *bus, const howdah_worker_options *options,
                      howdah_worker **ret_worker, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_worker_options own = HOWDAH_WORKER_OPTIONS_INIT;
    hw_queues *queues = NULL;
    howdah_worker *worker = NULL;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_worker_new", reterr);

    if (s < 0)
        return s;
    if (!options || !ret_worker)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_worker_new: an argument is NULL");
    s = hw_queues_of(bus, "howdah_worker_new", &queues, reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_worker_new", reterr);
    options = &own;
    if (s >= 0)
        s = check(options, reterr);
    if (s >= 0 && queues->worker)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_worker_new: this bus has a worker already");
    if (s >= 0)
        s = new_worker(bus, options, &worker, reterr);
    if (s < 0)
        return s;
    s = hw_worker_pool_init(worker, low_water(worker), reterr);
    if (s < 0) {
        free_worker(worker);
        return s;
    }
    assert(worker->capacity > 0 && !queues->worker);
    queues->worker = worker;
    *ret_worker = worker;
    return HOWDAH_OK;
}

/* --------------------------------------------------------------------- running */

/* The store may be able to do it later.  Whatever else went wrong is for the caller of the run. */
static bool is_passing(int status, const howdah_error *err)
{
    return status == HOWDAH_UNAVAILABLE || status == HOWDAH_TIMEOUT || status == HOWDAH_FULL ||
           (err->flags & HOWDAH_RETRYABLE) != 0;
}

/* True when a later pass may succeed.  Then it waits a little, longer each time, but not past
   until_ms. */
static bool retries_after(howdah_worker *worker, int status, const howdah_error *err,
                          int64_t until_ms)
{
    int64_t left = until_ms - hw_clock_mono_ms();
    int64_t ms = hw_backoff_ms(STORE_BACKOFF_MS, STORE_BACKOFF_MAX_MS, worker->failures++, 20,
                               hw_random_u32());

    if (!is_passing(status, err) || left <= 0)
        return false;
    hw_log(HOWDAH_LOG_WARN, "the worker of %s waits for the store: %s", worker->queue,
           err->message);
    (void)hw_sleep(worker->bus->interrupt, ms < left ? ms : left, NULL);
    return true;
}

/* What howdah_worker_options.until_empty has to know of the queue. */
typedef struct counts {
    int64_t ready; /* pending and processing */
    int64_t scheduled;
} counts;

static int on_counts(void *ctx, const howdah_queue_info *row)
{
    counts *c = ctx;

    *c = (counts){row->pending + row->processing, row->scheduled};
    return 0;
}

/*
 * HOWDAH_END: nothing is left for this worker, see howdah_worker_run().  With until_empty the
 * store is asked only after a claim in vain: scheduled jobs are waited for only if they are our
 * own retries.
 */
static int look_for_end(howdah_worker *worker, howdah_error *reterr)
{
    counts c = {0, 0};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (worker->hand_n > 0)
        return HOWDAH_OK;
    if (worker->options.max_jobs > 0 &&
        worker->info.claimed - worker->info.released >= worker->options.max_jobs)
        return HOWDAH_END;
    if (!worker->options.until_empty || !worker->found_none)
        return HOWDAH_OK;
    if (worker->info.paused)
        return HOWDAH_END;
    /* Before the jobs are counted: what is routed by then is one of them. */
    s = hw_worker_awaits_route(worker, &worker->awaits_route, reterr);
    if (s < 0 || worker->awaits_route)
        return s;
    worker->found_none = false; /* asked once for each claim in vain */
    s = hw_queue_ops_of(worker->bus)
            ->queue_load(worker->bus->store, hw_str_of(worker->queue), on_counts, &c, &err);
    if (s < 0 && s != HOWDAH_NOT_FOUND) {
        hw_error_copy(reterr, &err);
        return s;
    }
    return c.ready == 0 && (c.scheduled == 0 || worker->retries_outstanding == 0) ? HOWDAH_END
                                                                                  : HOWDAH_OK;
}

/* Every worker looks after its queue, so a queue with workers needs nobody else for it.  A queue
   that does not exist yet needs nothing. */
static int maintain(howdah_worker *worker, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    bool more = true;
    int s = HOWDAH_OK;

    if (now < worker->maintain_ms)
        return HOWDAH_OK;
    worker->maintain_ms = now + MAINTAIN_MS;
    for (int i = 0; s >= 0 && more && i < MAINTAIN_ROUNDS; i++)
        s = hw_queue_ops_of(worker->bus)
                ->maintain(worker->bus->store, hw_str_of(worker->queue), &more, reterr);
    return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s;
}

/* Sleeps until something is due, done or pushed.  If the bell was just armed, it does not sleep:
   the look that has to follow comes first (queue/wakeup.c I1). */
static int rest(howdah_worker *worker, bool may_claim, int64_t until_ms, howdah_error *reterr)
{
    hw_pool_view view = hw_pool_look(&worker->pool);
    bool wants = may_claim && hw_worker_wants(worker, &view) > 0;
    int64_t left = until_ms - hw_clock_mono_ms();
    int64_t ms = hw_worker_rest_ms(worker, &view, may_claim);
    int s;

    if (wants && worker->look_ms > 0 && hw_queue_bell_arm(worker->bus, worker->queue_id)) {
        worker->look_ms = 0; /* the look that has to follow */
        return HOWDAH_OK;
    }
    if (worker->awaits_route && ms > ROUTE_LOOK_MS)
        ms = ROUTE_LOOK_MS;
    if (ms > left)
        ms = left;
    if (ms <= 0)
        return HOWDAH_OK;
    s = hw_queue_bell_sleep(worker->bus, ms, worker->pool.done_fd, reterr);
    hw_pool_clear(&worker->pool);
    if (s == HOWDAH_OK)
        worker->look_ms = 0;
    return s < 0 ? s : HOWDAH_OK;
}

/* One pass.  HOWDAH_END: an end that the options name.  Without threads each pass runs one job,
   so that leases and acks are looked after between two jobs. */
static int pass(howdah_worker *worker, bool may_claim, int64_t until_ms, howdah_error *reterr)
{
    /* At the end what is left in hand is run first, and then acked together. */
    bool flush = !may_claim && hw_pool_look(&worker->pool).waiting_n == 0;
    int s = hw_worker_route(worker, reterr);

    if (s >= 0)
        s = hw_worker_exchange(worker, may_claim, flush, reterr);
    if (s >= 0)
        s = look_for_end(worker, reterr);
    if (s == HOWDAH_OK)
        s = maintain(worker, reterr);
    if (s != HOWDAH_OK)
        return s;
    worker->failures = 0;
    if (worker->options.threads == 0 && hw_pool_run_one(&worker->pool))
        return HOWDAH_OK;
    return may_claim ? rest(worker, may_claim, until_ms, reterr) : HOWDAH_OK;
}

/* True when the time is over and nothing is left for this call.  With threads, handlers may run
   on after the call; without, nobody would run what is in hand. */
static bool is_over(howdah_worker *worker, bool over)
{
    hw_pool_view view = hw_pool_look(&worker->pool);

    return over && view.done_n == 0 && (worker->options.threads > 0 || worker->hand_n == 0);
}

/* Errors that may pass are waited out until the time is over; then the caller hears of them. */
int howdah_worker_run(howdah_worker *worker, int64_t for_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = worker ? worker->bus : NULL;
    int64_t until_ms = hw_clock_end_ms(for_ms);
    bool over = false;

    if (!worker)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_worker_run: the worker is NULL");
    if (hw_enter(&entry, &bus, HW_DRIVES, "howdah_worker_run", reterr) < 0)
        return HOWDAH_MISUSE;
    if (atomic_load(&worker->stopping))
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_worker_run: the worker was stopped");
    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = hw_interrupted(worker->bus->interrupt)
                    ? hw_fail(&err, HOWDAH_INTERRUPTED, "interrupted")
                    : pass(worker, !over, until_ms, &err);

        if (s == HOWDAH_END || (s >= 0 && is_over(worker, over)))
            return s;
        if (s < 0 && !retries_after(worker, s, &err, until_ms)) {
            hw_error_copy(reterr, &err);
            return s;
        }
        over = hw_clock_mono_ms() >= until_ms;
    }
}

/* -------------------------------------------------------------------- stopping */

/* Not run here any more: it goes back to the queue with the next exchange. */
static void release(howdah_work *work)
{
    work->verdict = HOWDAH_WORK_RELEASE;
    work->taken = true;
    work->worker->owes = true;
}

/* What was not begun is given back, including a suspect that is held. */
static void release_waiting(howdah_worker *worker)
{
    for (hw_pool_item *item = hw_pool_take_waiting(&worker->pool); item; item = item->next)
        release(item->owner);
    for (size_t i = 0; i < worker->hand_n; i++) {
        if (worker->hand[i]->held)
            release(worker->hand[i]);
    }
}

/* Handlers that run are waited for, up to drain_ms.  Their leases are extended meanwhile, and
   each is acked as it ends. */
static int stop(howdah_worker *worker, howdah_error *reterr)
{
    int64_t until_ms = hw_clock_end_ms(worker->options.drain_ms);

    atomic_store(&worker->stopping, true);
    hw_worker_route_end(worker);
    release_waiting(worker);
    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;
        bool over = hw_clock_mono_ms() >= until_ms;
        int s = hw_worker_exchange(worker, false, true, &err);

        assert(worker->hand_n <= worker->capacity); /* worker.h I1 */

        if (s >= 0 && worker->hand_n == 0)
            return HOWDAH_OK;
        if (s >= 0 && over)
            return hw_fail(reterr, HOWDAH_TIMEOUT, "%zu handlers still run after %lld ms",
                           worker->hand_n, (long long)worker->options.drain_ms);
        if (s >= 0)
            s = rest(worker, false, until_ms, &err);
        if (s < 0 && !retries_after(worker, s, &err, until_ms)) {
            hw_error_copy(reterr, &err);
            return s;
        }
    }
}

/* The waits of handlers end meanwhile: one that waits on this bus returns instead of using up
   drain_ms. */
int howdah_worker_stop(howdah_worker *worker, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = worker ? worker->bus : NULL;
    int s;

    if (!worker)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_worker_stop: the worker is NULL");
    if (hw_enter(&entry, &bus, HW_DRIVES, "howdah_worker_stop", reterr) < 0)
        return HOWDAH_MISUSE;
    hw_waits_end(bus, true);
    s = stop(worker, reterr);
    hw_waits_end(bus, false);
    return s;
}

/* After a stop that timed out, too: the pool's threads are joined, however long the handlers
   take.  What they leave is not acked, and their leases run out. */
void howdah_worker_free(howdah_worker *worker)
{
    HW_ENTRY(entry);
    howdah_bus *bus = worker ? worker->bus : NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (!worker)
        return;
    if (hw_enter(&entry, &bus, HW_DRIVES, "howdah_worker_free", &err) < 0) {
        hw_log(HOWDAH_LOG_ERROR, "%s", err.message);
        return;
    }
    hw_waits_end(bus, true);
    if (!atomic_load(&worker->stopping) && stop(worker, &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "the worker of %s: %s", worker->queue, err.message);
    hw_worker_route_end(worker);
    hw_pool_done(&worker->pool);
    hw_waits_end(bus, false);
    worker->bus->queues->worker = NULL;
    free_worker(worker);
}

int howdah_worker_info_get(howdah_worker *worker, howdah_worker_info *ret_info)
{
    HW_ENTRY(entry);
    howdah_bus *bus = worker ? worker->bus : NULL;
    howdah_worker_info info;
    hw_pool_view view;

    if (!worker || !ret_info ||
        hw_enter(&entry, &bus, HW_ITSELF, "howdah_worker_info_get", NULL) < 0)
        return HOWDAH_MISUSE;
    view = hw_pool_look(&worker->pool);
    info = worker->info;
    info.running = (int64_t)view.running_n;
    info.waiting = (int64_t)view.waiting_n;
    return hw_sized_give(ret_info, &info, sizeof info);
}
