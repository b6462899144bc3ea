/* pool.c - handlers: where they run, and what they say.  See worker.h. */
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/mem.h"
#include "bus/queue/worker/worker.h"

static void ring_fd(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0) {
        /* EAGAIN: it is readable already, which is all we want. */
    }
}

void hw_pool_clear(const hw_pool *pool)
{
    uint64_t count;

    if (read(pool->done_fd, &count, sizeof count) < 0) {
        /* EAGAIN: nothing had happened. */
    }
}

/* -------------------------------------------------------------------- running */

/* With the lock held. */
static howdah_work *pop(hw_pool *pool)
{
    howdah_work *work = pool->first;

    if (!work)
        return NULL;
    pool->first = work->next;
    if (!pool->first)
        pool->last = &pool->first;
    work->next = NULL;
    pool->waiting_n--;
    pool->running_n++;
    return work;
}

static void put_done(hw_pool *pool, howdah_work *work)
{
    bool wake;

    (void)pthread_mutex_lock(&pool->lock);
    *pool->done_last = work;
    pool->done_last = &work->next;
    if (pool->done_n++ == 0)
        pool->done_ms = hw_clock_mono_ms();
    pool->running_n--;
    /* The driver knows by itself when the first one becomes due; it is told when it is short. */
    wake = pool->done_n == 1 || pool->waiting_n + pool->running_n <= pool->low;
    (void)pthread_mutex_unlock(&pool->lock);
    if (wake)
        ring_fd(pool->done_fd);
}

static void run(const hw_pool *pool, howdah_work *work)
{
    hw_handling handling;
    int verdict;

    if (atomic_load(&work->lost))
        return; /* I5 */
    if (hw_clock_mono_ms() - atomic_load(&work->leased_ms) >= work->lease_ms) {
        work->verdict = HOWDAH_WORK_RELEASE;
        return;
    }
    HW_FAULT_POINT("worker.before_handler");
    hw_handling_begin(&handling, work->worker->bus, NULL, NULL);
    verdict = pool->handler(pool->ctx, work->job, work);
    hw_handling_end(&handling);
    HW_FAULT_POINT("worker.after_handler");
    work->verdict = verdict == HOWDAH_WORK_DONE || verdict == HOWDAH_WORK_RETRY ||
                            verdict == HOWDAH_WORK_RELEASE
                        ? verdict
                        : HOWDAH_WORK_FAILED;
}

bool hw_pool_run_one(hw_pool *pool)
{
    howdah_work *work;

    (void)pthread_mutex_lock(&pool->lock);
    work = pop(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    if (!work)
        return false;
    run(pool, work);
    put_done(pool, work);
    return true;
}

static void *serve(void *arg)
{
    hw_pool *pool = arg;

    for (;;) {
        howdah_work *work;

        (void)pthread_mutex_lock(&pool->lock);
        while (!pool->first && !pool->ending)
            (void)pthread_cond_wait(&pool->more, &pool->lock);
        work = pool->ending ? NULL : pop(pool);
        (void)pthread_mutex_unlock(&pool->lock);
        if (!work)
            return NULL;
        run(pool, work);
        put_done(pool, work);
    }
}

/* ------------------------------------------------------------- start and end */

static void end_threads(hw_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    (void)pthread_cond_broadcast(&pool->more);
    (void)pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->threads_n; i++)
        (void)pthread_join(pool->threads[i], NULL);
    pool->threads_n = 0;
}

static int start_threads(hw_pool *pool, size_t n, howdah_error *reterr)
{
    for (; pool->threads_n < n; pool->threads_n++) {
        int failed = pthread_create(&pool->threads[pool->threads_n], NULL, serve, pool);

        if (failed != 0)
            return hw_fail(reterr, HOWDAH_FAILED, "no thread for the worker: %s",
                           strerrordesc_np(failed));
    }
    return HOWDAH_OK;
}

int hw_pool_init(hw_pool *pool, const howdah_worker_options *options, size_t low,
                 howdah_error *reterr)
{
    int s;

    memset(pool, 0, sizeof *pool);
    pool->handler = options->handler;
    pool->ctx = options->ctx;
    pool->low = low;
    pool->last = &pool->first;
    pool->done_last = &pool->done;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->more, NULL);
    pool->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pool->threads = hw_calloc((size_t)options->threads + 1, sizeof *pool->threads);
    s = pool->threads && pool->done_fd >= 0 ? start_threads(pool, (size_t)options->threads, reterr)
                                            : hw_fail_no_memory(reterr);
    if (s < 0)
        hw_pool_done(pool);
    return s;
}

void hw_pool_done(hw_pool *pool)
{
    end_threads(pool);
    if (pool->done_fd >= 0)
        (void)close(pool->done_fd);
    (void)pthread_cond_destroy(&pool->more);
    (void)pthread_mutex_destroy(&pool->lock);
    hw_free(pool->threads);
}

/* ----------------------------------------------------------- giving and taking */

void hw_pool_push(hw_pool *pool, howdah_work *work)
{
    (void)pthread_mutex_lock(&pool->lock);
    work->next = NULL;
    *pool->last = work;
    pool->last = &work->next;
    pool->waiting_n++;
    (void)pthread_cond_signal(&pool->more);
    (void)pthread_mutex_unlock(&pool->lock);
}

hw_pool_view hw_pool_look(hw_pool *pool)
{
    hw_pool_view view;

    (void)pthread_mutex_lock(&pool->lock);
    view = (hw_pool_view){pool->waiting_n, pool->running_n, pool->done_n, pool->done_ms};
    (void)pthread_mutex_unlock(&pool->lock);
    return view;
}

howdah_work *hw_pool_take_done(hw_pool *pool)
{
    howdah_work *list;

    (void)pthread_mutex_lock(&pool->lock);
    list = pool->done;
    pool->done = NULL;
    pool->done_last = &pool->done;
    pool->done_n = 0;
    (void)pthread_mutex_unlock(&pool->lock);
    return list;
}

howdah_work *hw_pool_take_waiting(hw_pool *pool)
{
    howdah_work *list;

    (void)pthread_mutex_lock(&pool->lock);
    list = pool->first;
    pool->first = NULL;
    pool->last = &pool->first;
    pool->waiting_n = 0;
    (void)pthread_mutex_unlock(&pool->lock);
    return list;
}

void hw_work_free(howdah_work *work)
{
    if (!work)
        return;
    howdah_job_free(work->job);
    hw_free(work->text);
    hw_free(work);
}

/* --------------------------------------------------------------- a handler's say */

/* Without memory the text is lost, not the verdict. */
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

int howdah_work_done(howdah_work *work, const char *result)
{
    keep_text(work, result);
    return HOWDAH_WORK_DONE;
}

int howdah_work_fail(howdah_work *work, const char *error)
{
    keep_text(work, error);
    return HOWDAH_WORK_FAILED;
}

int howdah_work_retry(howdah_work *work, int64_t after_ms, const char *error)
{
    keep_text(work, error);
    if (work)
        work->after_ms = after_ms;
    return HOWDAH_WORK_RETRY;
}

bool howdah_work_is_lost(const howdah_work *work)
{
    return work && atomic_load(&work->lost);
}

bool howdah_work_is_stopping(const howdah_work *work)
{
    return work && atomic_load(&work->worker->stopping);
}

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
