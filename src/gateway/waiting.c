/* waiting.c - see waiting.h. */
#include "gateway/waiting.h"

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "gateway/request.h"
#include "gateway/server.h"

#define TICK_MS 20
#define SWEEP_MS 1000

struct gw_waiting {
    gw_gateway *gateway;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock;
    pthread_cond_t some;
    gw_request *first;
    size_t n;
    uint64_t wakes;
    uint64_t served; /* wakes for which all that waited were tried */
    bool ending;
    bool over;
};

/* Takes those whose time has come out of the list; the lock is held. */
static gw_request *take_due(gw_waiting *w, int64_t now)
{
    bool all = w->ending || w->served != w->wakes;
    gw_request **at = &w->first;
    gw_request *due = NULL;

    w->served = w->wakes;
    while (*at) {
        gw_request *r = *at;

        if (!all && r->wakes == w->wakes && now < r->look_ms && now < r->wait_until_ms) {
            at = &r->parked;
            continue;
        }
        *at = r->parked;
        r->parked = due;
        r->last_try = w->ending || now >= r->wait_until_ms;
        due = r;
        w->n--;
    }
    return due;
}

static void sleep_until_some(gw_waiting *w)
{
    struct timespec until;
    long ms = w->first ? TICK_MS : SWEEP_MS - 1;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ms * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&w->some, &w->lock, &until);
}

static void run_due(gw_request *due)
{
    while (due) {
        gw_request *next = due->parked;

        gw_request_again(due);
        due = next;
    }
}

static void *tick(void *arg)
{
    gw_waiting *w = arg;
    int64_t swept_ms = hw_clock_mono_ms();

    (void)pthread_mutex_lock(&w->lock);
    while (!w->over) {
        int64_t now = hw_clock_mono_ms();
        gw_request *due = take_due(w, now);
        bool sweeps = now - swept_ms >= SWEEP_MS;

        if (!due && !sweeps) {
            sleep_until_some(w);
            continue;
        }
        (void)pthread_mutex_unlock(&w->lock);
        run_due(due);
        if (sweeps) {
            swept_ms = now;
            gw_sweep(w->gateway);
        }
        (void)pthread_mutex_lock(&w->lock);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return NULL;
}

int gw_waiting_new(struct gw_gateway *gateway, gw_waiting **ret_waiting, howdah_error *reterr)
{
    gw_waiting *w = hw_calloc(1, sizeof *w);
    pthread_condattr_t monotonic;

    if (!w)
        return hw_fail_no_memory(reterr);
    w->gateway = gateway;
    (void)pthread_mutex_init(&w->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&w->some, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    if (pthread_create(&w->thread, NULL, tick, w) != 0) {
        gw_waiting_free(w);
        return hw_fail(reterr, HOWDAH_FAILED, "no thread could be started");
    }
    w->started = true;
    *ret_waiting = w;
    return HOWDAH_OK;
}

uint64_t gw_waiting_wakes(gw_waiting *w)
{
    uint64_t wakes;

    (void)pthread_mutex_lock(&w->lock);
    wakes = w->wakes;
    (void)pthread_mutex_unlock(&w->lock);
    return wakes;
}

void gw_waiting_park(gw_waiting *w, gw_request *r)
{
    (void)pthread_mutex_lock(&w->lock);
    r->parked = w->first;
    w->first = r;
    w->n++;
    if (!r->parked || r->wakes != w->wakes || w->ending)
        (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
}

void gw_waiting_wake(gw_waiting *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->wakes++;
    if (w->first)
        (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
}

size_t gw_waiting_count(gw_waiting *w)
{
    size_t n;

    (void)pthread_mutex_lock(&w->lock);
    n = w->n;
    (void)pthread_mutex_unlock(&w->lock);
    return n;
}

void gw_waiting_end(gw_waiting *w)
{
    (void)pthread_mutex_lock(&w->lock);
    w->ending = true;
    (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
}

void gw_waiting_free(gw_waiting *w)
{
    if (!w)
        return;
    (void)pthread_mutex_lock(&w->lock);
    w->over = true;
    (void)pthread_cond_signal(&w->some);
    (void)pthread_mutex_unlock(&w->lock);
    if (w->started)
        (void)pthread_join(w->thread, NULL);
    (void)pthread_cond_destroy(&w->some);
    (void)pthread_mutex_destroy(&w->lock);
    hw_free(w);
}
