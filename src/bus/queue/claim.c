/*
 * claim.c - claiming jobs, and the three calls of a plain queue.
 *
 *   I1  A job that a claim handed over is the caller's until its lease runs out, whatever happens
 *       to the set or to the bus.
 *   I2  What poll gave out is remembered with its newest token only; finalize uses no other.
 */
#include "bus/queue/queue.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/queue/job.h"
#include "bus/subscription/subscription.h"
#include "engine/rules.h"

#define AGAIN_MAX 10 /* looks in a row, for one claim, that the store asks for */

/* Made when first needed: a bus without queues has no bell for them and no list of polled jobs. */
int hw_queues_of(howdah_bus *bus, const char *call, hw_queues **ret_queues, howdah_error *reterr)
{
    if (!hw_queue_ops_of(bus)) {
        (void)hw_fail(reterr, HOWDAH_MISUSE, "%s: this store has no work queue", call);
        return HOWDAH_MISUSE; /* so that static analysis sees that it is negative */
    }
    if (!ret_queues)
        return HOWDAH_OK;
    if (!bus->queues) {
        bus->queues = hw_calloc(1, sizeof *bus->queues);
        if (!bus->queues)
            return hw_fail_no_memory(reterr);
        hw_bus_sign(bus->queues->signature);
        hw_queue_bell_init(bus->queues);
    }
    *ret_queues = bus->queues;
    return HOWDAH_OK;
}

/* A worker that is left has threads that use this bus; the caller made a mistake, and it is
   logged. */
void hw_queues_close(howdah_bus *bus)
{
    hw_queues *queues = bus->queues;

    if (!queues)
        return;
    if (queues->worker)
        hw_log(HOWDAH_LOG_ERROR, "the bus is closed before its worker is freed");
    hw_free(queues->held);
    hw_free(queues);
    bus->queues = NULL;
}

/* -------------------------------------------------------------------- claim */

/* For on_job(); s and reterr carry an error out of the store's call. */
typedef struct claiming {
    howdah_jobs *jobs;
    int s;
    howdah_error *reterr;
} claiming;

/* Copies the record: the store's is gone after the call. */
static int on_job(void *ctx, const howdah_job *record)
{
    claiming *c = ctx;

    c->s = hw_jobs_add(c->jobs, record, c->reterr);
    return c->s < 0;
}

/* Before the store is asked: a claim changes rows, even one that finds nothing to hand out. */
static int check_claim(const char *queue, int64_t n, const howdah_claim_options *options,
                       howdah_error *reterr)
{
    int s = hw_rule_queue(hw_str_of(queue), reterr);

    if (s >= 0 && (n < 1 || n > HOWDAH_JOBS_MAX))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "n", "must be 1 to %d, not %lld", HOWDAH_JOBS_MAX,
                          (long long)n);
    if (s >= 0)
        s = hw_rule_delay("lease", options->lease_ms, reterr);
    if (s >= 0 && options->worker)
        s = hw_rule_name("worker", hw_str_of(options->worker), reterr);
    return s;
}

/* One round trip.  HOWDAH_END: there was no job to be had.  If copying a job failed, the claimed
   jobs stay leased until their time is over (I1): nobody has them. */
static int claim_once(howdah_bus *bus, const hw_claim *claim, howdah_jobs **ret_jobs,
                      hw_claim_report *report, howdah_error *reterr)
{
    claiming c = {.reterr = reterr};
    int s = hw_jobs_new((size_t)claim->n, &c.jobs, reterr);

    if (s < 0)
        return s;
    s = hw_queue_ops_of(bus)->exchange(bus->store, NULL, 0, NULL, claim, on_job, &c, report,
                                       reterr);
    if (s >= 0)
        s = c.s;
    if (s < 0 || c.jobs->n == 0) {
        howdah_jobs_free(c.jobs);
        return s < 0 ? s : HOWDAH_END;
    }
    *ret_jobs = c.jobs;
    return HOWDAH_OK;
}

/* The order is that of wakeup.c I1: look, arm, look once more, sleep. */
static int claim_until(howdah_bus *bus, const hw_claim *claim, int64_t until_ms,
                       howdah_jobs **ret_jobs, howdah_error *reterr)
{
    unsigned again = 0;

    for (;;) {
        hw_claim_report report = {.next_due_ms = -1};
        int64_t left;
        int64_t ms;
        int s = claim_once(bus, claim, ret_jobs, &report, reterr);

        if (s == HOWDAH_OK)
            hw_queue_bell_heard(bus);
        if (s == HOWDAH_END && report.more && again++ < AGAIN_MAX)
            continue; /* it made something ready that was not */
        left = until_ms - hw_clock_mono_ms();
        if (s != HOWDAH_END || left <= 0)
            return s;
        again = 0;
        if (hw_queue_bell_arm(bus, report.queue_id))
            continue;
        ms = hw_queue_bell_pause(bus, report.paused ? -1 : report.next_due_ms);
        s = hw_queue_bell_sleep(bus, ms < left ? ms : left, -1, reterr);
        if (s < 0)
            return s;
    }
}

/* Only a call that waits heeds an interrupt that came before it: one that does not wait is over
   at once anyway. */
int howdah_queue_claim_wait(howdah_bus *bus, const char *queue, int64_t n, int64_t for_ms,
                            const howdah_claim_options *options, howdah_jobs **ret_jobs,
                            howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_claim_options own = HOWDAH_CLAIM_OPTIONS_INIT;
    hw_queues *queues = NULL;
    hw_claim claim;
    int s = hw_enter(&entry, &bus, for_ms == 0 ? HW_WRITES : HW_WRITES | HW_WAITS,
                     "howdah_queue_claim", reterr);

    if (s < 0)
        return s;
    if (!ret_jobs)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_claim: ret_jobs is NULL");
    s = hw_queues_of(bus, "howdah_queue_claim", &queues, reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_queue_claim", reterr);
    options = &own;
    if (s >= 0)
        s = check_claim(queue, n, options, reterr);
    if (s >= 0 && for_ms != 0 && hw_interrupted(hw_bus_waits_for(bus)))
        s = hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    if (s < 0)
        return s;
    claim = (hw_claim){.queue = hw_str_of(queue),
                       .worker = hw_str_of(options->worker ? options->worker : queues->signature),
                       .n = n,
                       .lease_ms = options->lease_ms};
    return claim_until(bus, &claim, hw_clock_end_ms(for_ms), ret_jobs, reterr);
}

/* Without waiting: what is ready now, or HOWDAH_END. */
int howdah_queue_claim(howdah_bus *bus, const char *queue, int64_t n,
                       const howdah_claim_options *options, howdah_jobs **ret_jobs,
                       howdah_error *reterr)
{
    return howdah_queue_claim_wait(bus, queue, n, 0, options, ret_jobs, reterr);
}

/* ----------------------------------------------------------- poll, finalize */

/* From the newest on: what was polled last is usually finalized first. */
static hw_held *find_held(const hw_queues *queues, int64_t id)
{
    for (size_t i = queues->held_n; i > 0; i--)
        if (queues->held[i - 1].id == id)
            return &queues->held[i - 1];
    return NULL;
}

/* Keeps the order: make_room() counts on the oldest being first. */
static void forget(hw_queues *queues, const hw_held *held)
{
    size_t at = (size_t)(held - queues->held);

    assert(at < queues->held_n);
    memmove(&queues->held[at], &queues->held[at + 1], (queues->held_n - at - 1) * sizeof *held);
    queues->held_n--;
}

/* Room for one more; at the bound the oldest goes, whose lease has most likely run out. */
static int make_room(hw_queues *queues, howdah_error *reterr)
{
    size_t room = queues->held_room ? 2 * queues->held_room : 16;
    hw_held *held;

    if (queues->held_n < queues->held_room)
        return HOWDAH_OK;
    if (queues->held_n == HW_HELD_MAX) {
        forget(queues, queues->held);
        return HOWDAH_OK;
    }
    if (room > HW_HELD_MAX)
        room = HW_HELD_MAX;
    held = hw_realloc(queues->held, room * sizeof *held);
    if (!held)
        return hw_fail_no_memory(reterr);
    queues->held = held;
    queues->held_room = room;
    return HOWDAH_OK;
}

/* I2: a job that was polled again has a new token, and the old one goes. */
static void remember(hw_queues *queues, const howdah_job *job)
{
    const hw_held *before = find_held(queues, howdah_job_id(job));

    if (before)
        forget(queues, before);
    assert(queues->held_n < queues->held_room); /* make_room() */
    queues->held[queues->held_n++] = (hw_held){howdah_job_id(job), howdah_job_token(job)};
}

/* Room is made before the claim: after it, a failure would leave a leased job that nobody has. */
int howdah_queue_poll(howdah_bus *bus, const char *queue, howdah_job **ret_job,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_queues *queues = NULL;
    howdah_jobs *jobs = NULL;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_poll", reterr);

    if (s < 0)
        return s;
    if (!ret_job)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_poll: ret_job is NULL");
    s = hw_queues_of(bus, "howdah_queue_poll", &queues, reterr);
    if (s >= 0)
        s = make_room(queues, reterr);
    if (s >= 0)
        s = howdah_queue_claim(bus, queue, 1, NULL, &jobs, reterr);
    if (s != HOWDAH_OK)
        return s;
    assert(jobs->n == 1);
    remember(queues, jobs->items[0]);
    *ret_job = jobs->items[0];
    jobs->n = 0;
    howdah_jobs_free(jobs);
    return HOWDAH_OK;
}

/* An error other than LOST keeps the job remembered, so that the call can be made again. */
int howdah_job_finalize(howdah_bus *bus, int64_t id, bool success, howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_queues *queues = NULL;
    const hw_held *held;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_job_finalize", reterr);

    if (s >= 0)
        s = hw_queues_of(bus, "howdah_job_finalize", &queues, reterr);
    if (s < 0)
        return s;
    held = find_held(queues, id);
    if (!held)
        return hw_fail(reterr, HOWDAH_LOST, "job %lld was not polled on this bus", (long long)id);
    s = success ? howdah_job_complete(bus, id, held->token, NULL, reterr)
                : howdah_job_fail(bus, id, held->token, NULL, reterr);
    if (s >= 0 || s == HOWDAH_LOST)
        forget(queues, held);
    return s;
}
