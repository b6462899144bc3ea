/* pool.c - see pool.h. */
#include "bus/pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

/* -------------------------------------------------------------------- lists */

/* last points at the place of the next link, so that append() needs no case for an empty list. */
static void empty(hw_pool_list *list)
{
    *list = (hw_pool_list){.first = NULL, .last = &list->first};
}

static void append(hw_pool_list *list, hw_pool_item *item)
{
    item->next = NULL;
    *list->last = item;
    list->last = &item->next;
    list->n++;
}

static hw_pool_item *take_first(hw_pool_list *list)
{
    hw_pool_item *item = list->first;

    assert((item == NULL) == (list->n == 0));
    if (!item)
        return NULL;
    list->first = item->next;
    if (!list->first)
        list->last = &list->first;
    list->n--;
    item->next = NULL;
    return item;
}

/* The list changes hands as a whole: the caller walks it without the lock (I3). */
static hw_pool_item *take_all(hw_pool *pool, hw_pool_list *list)
{
    hw_pool_item *first;

    (void)pthread_mutex_lock(&pool->lock);
    first = list->first;
    empty(list);
    (void)pthread_mutex_unlock(&pool->lock);
    return first;
}

/* ------------------------------------------------------------------ running */

/* An eventfd counts, so rings while the driver is busy become one wake-up. */
void hw_pool_ring(const hw_pool *pool)
{
    uint64_t one = 1;

    if (write(pool->done_fd, &one, sizeof one) < 0) {
        /* EAGAIN: it is readable already, which is all we want. */
    }
}

/* I4: the driver calls this first and looks for what is done afterwards. */
void hw_pool_clear(const hw_pool *pool)
{
    uint64_t count;

    if (read(pool->done_fd, &count, sizeof count) < 0) {
        /* EAGAIN: nothing had happened. */
    }
}

/*
 * With the lock held, so that waiting and running_n change together and a look sees the item
 * once.
 */
static hw_pool_item *begin_next(hw_pool *pool)
{
    hw_pool_item *item = take_first(&pool->waiting);

    if (item)
        pool->running_n++;
    return item;
}

/*
 * The item is the driver's again (I2).  The ring comes after the unlock, so that the driver does
 * not wake up only to wait for the lock.
 */
static void put_done(hw_pool *pool, hw_pool_item *item)
{
    bool wake;

    (void)pthread_mutex_lock(&pool->lock);
    assert(pool->running_n > 0 && item->owner);
    pool->running_n--;
    append(&pool->done, item);
    if (pool->done.n == 1)
        pool->done_ms = hw_clock_mono_ms();
    /* I4: after the first one the driver looks by itself in time, unless it runs short of work. */
    wake = pool->done.n == 1 || pool->waiting.n + pool->running_n <= pool->options.low;
    (void)pthread_mutex_unlock(&pool->lock);
    if (wake)
        hw_pool_ring(pool);
}

/*
 * For a pool without threads: the driver runs items itself, by the same path as a thread would.
 */
bool hw_pool_run_one(hw_pool *pool)
{
    hw_pool_item *item;

    assert(pool->threads_n == 0);
    (void)pthread_mutex_lock(&pool->lock);
    item = begin_next(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    if (!item)
        return false;
    pool->options.run(pool->options.ctx, 0, item);
    put_done(pool, item);
    return true;
}

/* The next one for a thread; NULL: the thread ends.  While draining, what waits is still run. */
static hw_pool_item *wait_for_next(hw_pool *pool)
{
    hw_pool_item *item;

    (void)pthread_mutex_lock(&pool->lock);
    while (pool->waiting.n == 0 && pool->state == HW_POOL_OPEN)
        (void)pthread_cond_wait(&pool->more, &pool->lock);
    item = pool->state == HW_POOL_ENDING ? NULL : begin_next(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    return item;
}

/* I3: run() is called without the lock. */
static void *serve(void *arg)
{
    const hw_pool_thread *thread = arg;
    hw_pool *pool = thread->pool;
    hw_pool_item *item;

    while ((item = wait_for_next(pool))) {
        pool->options.run(pool->options.ctx, thread->number, item);
        put_done(pool, item);
    }
    return NULL;
}

/* ------------------------------------------------------------- start and end */

/*
 * Every thread sees the new state: those that wait are woken, those that run look when they are
 * through.  Joined here, so that nothing of the owner's is used afterwards.
 */
static void end_threads(hw_pool *pool, hw_pool_state state)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->state = state;
    (void)pthread_cond_broadcast(&pool->more);
    (void)pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; i < pool->threads_n; i++)
        (void)pthread_join(pool->threads[i].thread, NULL);
    assert(pool->running_n == 0);
    pool->threads_n = 0;
}

/* threads_n counts those that run, so that hw_pool_done() after a failure joins just these. */
static int start_threads(hw_pool *pool, howdah_error *reterr)
{
    for (; pool->threads_n < pool->options.threads; pool->threads_n++) {
        hw_pool_thread *thread = &pool->threads[pool->threads_n];
        int failed;

        thread->pool = pool;
        thread->number = pool->threads_n;
        failed = pthread_create(&thread->thread, NULL, serve, thread);
        if (failed != 0)
            return hw_fail(reterr, HOWDAH_FAILED, "no thread for the %s: %s", pool->options.whose,
                           strerrordesc_np(failed));
    }
    return HOWDAH_OK;
}

/* One thread more than asked for is allocated, so that 0 threads are no special case. */
int hw_pool_init(hw_pool *pool, const hw_pool_options *options, howdah_error *reterr)
{
    int s;

    assert(options->run && options->whose);
    *pool = (hw_pool){.options = *options};
    empty(&pool->waiting);
    empty(&pool->done);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->more, NULL);
    pool->threads = hw_calloc(options->threads + 1, sizeof *pool->threads);
    pool->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!pool->threads)
        s = hw_fail_no_memory(reterr);
    else if (pool->done_fd < 0)
        s = hw_fail(reterr, HOWDAH_FAILED, "no open file for the %s: %s", options->whose,
                    strerrordesc_np(errno));
    else
        s = start_threads(pool, reterr);
    if (s < 0)
        hw_pool_done(pool);
    return s;
}

void hw_pool_drain(hw_pool *pool)
{
    end_threads(pool, HW_POOL_DRAINING);
}

/*
 * What still waits is not run.  The owner takes it back before or after: the pool owns no item.
 */
void hw_pool_done(hw_pool *pool)
{
    end_threads(pool, HW_POOL_ENDING);
    if (pool->done_fd >= 0)
        (void)close(pool->done_fd);
    (void)pthread_cond_destroy(&pool->more);
    (void)pthread_mutex_destroy(&pool->lock);
    hw_free(pool->threads);
}

/* ----------------------------------------------------------- giving and taking */

/* I5.  One item wakes one thread. */
void hw_pool_push(hw_pool *pool, hw_pool_item *item)
{
    (void)pthread_mutex_lock(&pool->lock);
    assert(pool->state == HW_POOL_OPEN && item->owner);
    append(&pool->waiting, item);
    (void)pthread_cond_signal(&pool->more);
    (void)pthread_mutex_unlock(&pool->lock);
}

/* All numbers of one moment; they may be old when the caller reads them. */
hw_pool_view hw_pool_look(hw_pool *pool)
{
    hw_pool_view view;

    (void)pthread_mutex_lock(&pool->lock);
    view = (hw_pool_view){pool->waiting.n, pool->running_n, pool->done.n, pool->done_ms};
    (void)pthread_mutex_unlock(&pool->lock);
    return view;
}

bool hw_pool_has_other(hw_pool *pool, bool (*fn)(const void *ctx, const hw_pool_item *item),
                       const void *ctx)
{
    const hw_pool_item *item;

    (void)pthread_mutex_lock(&pool->lock);
    for (item = pool->waiting.first; item && fn(ctx, item); item = item->next)
        continue;
    (void)pthread_mutex_unlock(&pool->lock);
    return item != NULL;
}

hw_pool_item *hw_pool_take_done(hw_pool *pool)
{
    return take_all(pool, &pool->done);
}

hw_pool_item *hw_pool_take_waiting(hw_pool *pool)
{
    return take_all(pool, &pool->waiting);
}
