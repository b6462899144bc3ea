/*
 * lease.c - how long a worker may keep the jobs that it has in hand, by its own clock.
 *
 * The store gives the lease with the claim and ends it by its own clock (sql/pg/functions,
 * queue_claim.sql and queue_lease_end.sql; store/sqlite/queue_ack.c).  Here is what the worker
 * does so that it does not come to that: see I4 and I5 of worker.h.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "bus/queue/worker/worker.h"

/* By the store's own clock, if the worker did not ask for a time. */
static int64_t length_ms(const howdah_worker *worker, const howdah_job *record)
{
    int64_t ms = (record->lease_until_us - record->started_at_us) / 1000;

    if (worker->options.lease_ms > 0)
        return worker->options.lease_ms;
    return ms > 0 ? ms : 1;
}

/* I4: from when we asked, because the store's lease may have begun at any time since. */
void hw_lease_begin(const howdah_worker *worker, howdah_work *work, const howdah_job *record,
                    int64_t asked_ms)
{
    work->lease_ms = length_ms(worker, record);
    assert(work->lease_ms > 0);
    atomic_store(&work->leased_ms, asked_ms);
}

/* The job is with the pool, held, or done and not collected yet. */
bool hw_lease_is_needed(const howdah_work *work)
{
    return !work->taken && !atomic_load(&work->lost);
}

int64_t hw_lease_extend_ms(const howdah_work *work)
{
    return atomic_load(&work->leased_ms) + work->lease_ms / 3;
}

int64_t hw_lease_first_ms(const howdah_worker *worker)
{
    int64_t first = INT64_MAX;

    for (size_t i = 0; i < worker->hand_n; i++)
        if (hw_lease_is_needed(worker->hand[i]) && hw_lease_extend_ms(worker->hand[i]) < first)
            first = hw_lease_extend_ms(worker->hand[i]);
    return first;
}

/* Asked after every job: the hand is looked through only when one of them may be due. */
bool hw_lease_is_due(howdah_worker *worker, int64_t now)
{
    if (now < worker->extend_ms)
        return false;
    worker->extend_ms = hw_lease_first_ms(worker);
    return now >= worker->extend_ms;
}

bool hw_lease_is_over(const howdah_work *work)
{
    return hw_clock_mono_ms() - atomic_load(&work->leased_ms) >= work->lease_ms;
}

/* The flag tells a handler that runs (howdah_work_is_lost()); it cannot be stopped from here. */
void hw_lease_lost(howdah_worker *worker, howdah_work *work)
{
    worker->info.lost++;
    hw_log(HOWDAH_LOG_WARN, "job %lld of %s: its lease is lost, somebody else may have it",
           (long long)howdah_job_id(work->job), worker->queue);
    atomic_store(&work->lost, true);
}
