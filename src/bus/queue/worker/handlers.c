/* handlers.c - handlers: where they run, and what they tell the worker.  See worker.h. */
#include <assert.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/mem.h"
#include "bus/queue/worker/worker.h"

/* -------------------------------------------------------------------- running */

/* One handler, in a thread of the pool or in the driver's.  A lease that is over by our clock is
   not begun (I5): another worker may have the job.  An unknown verdict counts as a failure. */
static void run(void *ctx, size_t thread, hw_pool_item *item)
{
    const howdah_worker *worker = ctx;
    howdah_work *work = item->owner;
    hw_handling handling;
    int verdict;

    (void)thread;
    if (atomic_load(&work->lost))
        return; /* I5 */
    if (hw_lease_is_over(work)) {
        work->verdict = HOWDAH_WORK_RELEASE;
        return;
    }
    HW_FAULT_POINT("worker.before_handler");
    hw_handling_begin(&handling, worker->bus, NULL, NULL);
    verdict = worker->options.handler(worker->options.ctx, work->job, work);
    hw_handling_end(&handling);
    HW_FAULT_POINT("worker.after_handler");
    work->verdict = verdict == HOWDAH_WORK_DONE || verdict == HOWDAH_WORK_RETRY ||
                            verdict == HOWDAH_WORK_RELEASE
                        ? verdict
                        : HOWDAH_WORK_FAILED;
}

/* low is how many jobs may be left in the pool when the driver wants to hear (pool.h I4). */
int hw_worker_pool_init(howdah_worker *worker, size_t low, howdah_error *reterr)
{
    const hw_pool_options options = {.whose = "worker",
                                     .run = run,
                                     .ctx = worker,
                                     .threads = (size_t)worker->options.threads,
                                     .low = low};

    return hw_pool_init(&worker->pool, &options, reterr);
}

void hw_work_begin(howdah_work *work)
{
    assert(work->job && !work->taken && !work->over && !work->held);
    work->item.owner = work;
    hw_pool_push(&work->worker->pool, &work->item);
}

void hw_work_free(howdah_work *work)
{
    if (!work)
        return;
    howdah_job_free(work->job);
    hw_free(work->text);
    hw_free(work);
}

/* ------------------------------------------------------ what a handler tells us */

/* The text is copied, because the handler's is gone when it returns.  Without memory the text is
   lost, not the verdict. */
static void keep_text(howdah_work *work, const char *text)
{
    hw_str fit;
    char *copy = NULL;

    if (!work)
        return;
    hw_free(work->text);
    work->text = NULL;
    if (!text || hw_job_text(text, &fit, &copy, NULL) < 0)
        return;
    work->text = copy ? copy : hw_strndup(fit.s, fit.len);
}

int howdah_work_complete(howdah_work *work, const char *result)
{
    keep_text(work, result);
    return HOWDAH_WORK_DONE;
}

int howdah_work_fail(howdah_work *work, const char *error)
{
    keep_text(work, error);
    return HOWDAH_WORK_FAILED;
}

/* after_ms < 0 leaves the delay to the queue's back-off. */
int howdah_work_retry(howdah_work *work, int64_t after_ms, const char *error)
{
    keep_text(work, error);
    if (work)
        work->after_ms = after_ms;
    return HOWDAH_WORK_RETRY;
}

/* Asked in the handler's thread while the driver may set it: the flag is atomic. */
bool howdah_work_is_lost(const howdah_work *work)
{
    return work && atomic_load(&work->lost);
}

bool howdah_work_is_stopping(const howdah_work *work)
{
    return work && atomic_load(&work->worker->stopping);
}

/* With threads the driver extends all leases by itself; then the call only tells whether the
   lease was lost. */
int howdah_work_extend(howdah_work *work, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = work ? work->worker->bus : NULL;
    int s = HOWDAH_OK;

    if (!work)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_work_extend: the work is NULL");
    if (work->worker->options.threads == 0) { /* otherwise the driver sees to it */
        s = hw_enter(&entry, &bus, HW_ITSELF, "howdah_work_extend", reterr);
        if (s >= 0)
            s = hw_worker_extend(work->worker, reterr);
    }
    if (s >= 0 && atomic_load(&work->lost))
        s = hw_fail(reterr, HOWDAH_LOST, "job %lld: its lease is lost",
                    (long long)howdah_job_id(work->job));
    return s;
}
