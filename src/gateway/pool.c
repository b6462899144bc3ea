/* pool.c - see pool.h. */
#include "gateway/pool.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"

typedef struct worker {
    gw_pool *pool;
    pthread_t thread;
    bool started;
    howdah_bus *bus; /* changed under the pool's lock: gw_pool_interrupt() uses it */
} worker;

struct gw_pool {
    gw_pool_options options;
    char *url;
    pthread_mutex_t lock;
    pthread_cond_t some; /* a job waits, or the end has come */
    gw_job *first;
    gw_job **last;
    size_t waiting;
    size_t busy;
    bool ending;
    worker *workers;
};

/* ------------------------------------------------------------------ sessions */

static void set_bus(worker *w, howdah_bus *bus)
{
    (void)pthread_mutex_lock(&w->pool->lock);
    w->bus = bus;
    (void)pthread_mutex_unlock(&w->pool->lock);
}

/* I1.  The worker that opens a bus waits; the others go on. */
static int open_bus(worker *w, howdah_error *reterr)
{
    howdah_bus *bus = NULL;
    int s;

    if (w->bus)
        return HOWDAH_OK;
    s = howdah_open(w->pool->url, w->pool->options.settings, &bus, reterr);
    if (s >= 0)
        set_bus(w, bus);
    return s;
}

static void close_bus(worker *w)
{
    howdah_bus *bus = w->bus;

    set_bus(w, NULL);
    (void)howdah_close(bus);
}

/* --------------------------------------------------------------------- jobs */

static gw_job *take(gw_pool *pool)
{
    gw_job *job;

    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->first && !pool->ending)
        (void)pthread_cond_wait(&pool->some, &pool->lock);
    job = pool->first;
    if (job) {
        pool->first = job->next;
        if (!pool->first)
            pool->last = &pool->first;
        pool->waiting--;
        pool->busy++;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return job;
}

/* I2. */
static void run(worker *w, gw_job *job)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool ending;
    bool good = true;

    (void)pthread_mutex_lock(&w->pool->lock);
    ending = w->pool->ending;
    (void)pthread_mutex_unlock(&w->pool->lock);
    if (ending)
        (void)hw_fail(&err, HOWDAH_UNAVAILABLE, "the gateway is being stopped");
    else if (hw_clock_mono_ms() > job->until_ms)
        (void)hw_fail(&err, HOWDAH_UNAVAILABLE, "all sessions of the store are busy");
    if (err.status == 0 && open_bus(w, &err) >= 0)
        good = job->run(job, w->bus, &err);
    else
        (void)job->run(job, NULL, &err);
    if (!good)
        close_bus(w);
}

static void *work(void *arg)
{
    worker *w = arg;
    gw_job *job;

    while ((job = take(w->pool))) {
        run(w, job);
        (void)pthread_mutex_lock(&w->pool->lock);
        w->pool->busy--;
        (void)pthread_mutex_unlock(&w->pool->lock);
    }
    if (w->bus)
        close_bus(w);
    return NULL;
}

/* ---------------------------------------------------------------- the public */

int gw_pool_new(const gw_pool_options *options, gw_pool **ret_pool, howdah_error *reterr)
{
    gw_pool *pool = hw_calloc(1, sizeof *pool);

    assert(options->workers > 0);
    if (!pool)
        return hw_fail_no_memory(reterr);
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->some, NULL);
    pool->last = &pool->first;
    pool->options = *options;
    pool->url = hw_strdup(options->url);
    pool->workers = hw_calloc(options->workers, sizeof *pool->workers);
    if (!pool->url || !pool->workers) {
        gw_pool_free(pool);
        return hw_fail_no_memory(reterr);
    }
    for (size_t i = 0; i < options->workers; i++) {
        worker *w = &pool->workers[i];

        w->pool = pool;
        if (pthread_create(&w->thread, NULL, work, w) != 0) {
            gw_pool_free(pool);
            return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
        }
        w->started = true;
    }
    *ret_pool = pool;
    return HOWDAH_OK;
}

bool gw_pool_put(gw_pool *pool, gw_job *job)
{
    bool fits;

    job->next = NULL;
    (void)pthread_mutex_lock(&pool->lock);
    fits = pool->waiting < pool->options.waiting_max && !pool->ending;
    if (fits) {
        *pool->last = job;
        pool->last = &job->next;
        pool->waiting++;
        (void)pthread_cond_signal(&pool->some);
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return fits;
}

void gw_pool_info_get(gw_pool *pool, gw_pool_info *ret_info)
{
    (void)pthread_mutex_lock(&pool->lock);
    *ret_info = (gw_pool_info){pool->options.workers, pool->busy, 0, pool->waiting};
    for (size_t i = 0; i < pool->options.workers; i++)
        ret_info->sessions += pool->workers[i].bus != NULL;
    (void)pthread_mutex_unlock(&pool->lock);
}

void gw_pool_interrupt(gw_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    for (size_t i = 0; i < pool->options.workers; i++)
        if (pool->workers[i].bus)
            howdah_interrupt(pool->workers[i].bus);
    (void)pthread_mutex_unlock(&pool->lock);
}

void gw_pool_free(gw_pool *pool)
{
    if (!pool)
        return;
    (void)pthread_mutex_lock(&pool->lock);
    pool->ending = true;
    (void)pthread_cond_broadcast(&pool->some);
    (void)pthread_mutex_unlock(&pool->lock);
    for (size_t i = 0; pool->workers && i < pool->options.workers; i++)
        if (pool->workers[i].started)
            (void)pthread_join(pool->workers[i].thread, NULL);
    assert(!pool->first);
    hw_free(pool->workers);
    hw_free(pool->url);
    (void)pthread_cond_destroy(&pool->some);
    (void)pthread_mutex_destroy(&pool->lock);
    hw_free(pool);
}
