/*
 * clients.c - the clients of a side, a thread each, and slices of work.
 *
 *   I1  A worker touches its clients only between the start of a slice (generation counts up) and
 *       its end (working counts down); the main thread only outside of slices, but for interrupt.
 *   I2  Signals go to the main thread: workers have them all blocked.  It looks for them at least
 *       every TICK_MS, so that a worker never waits for more than its own call.
 *   I3  After the first failure no slice starts.
 */
#include "bench/clients.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/http.h"
#include "bench/http_gateway.h"
#include "bench/queue.h"
#include "bench/subscribers.h"
#include "cli/in/signals.h"

/* How long a signal may go unnoticed. */
#define TICK_MS 20

/*
 * A thread with one client of each side.  The results are its own until the slice is over (I1).
 */
typedef struct worker {
    bench_clients *clients;
    pthread_t thread;
    bool started;
    bench_client *client[BENCH_SIDES];
    /* Of the slice. */
    int64_t events;
    bench_histogram latency;
    int status; /* HOWDAH_OK until something failed */
    howdah_error err;
} worker;

/* All that both sides share.  What is not under the lock is the main thread's, or atomic. */
struct bench_clients {
    worker *workers;
    const bench_gateway *gateway; /* whose work is that of our side; NULL: none */
    size_t workers_n;
    bench_subscribers *subscribers[BENCH_SIDES]; /* NULL: nobody listens */
    int64_t appended[BENCH_SIDES];
    atomic_llong backlog[BENCH_SIDES];
    int64_t jobs; /* of a slice, or events of a group; 0: nothing is pushed */
    bool hears;   /* latencies are those of the subscribers */
    bool whole;   /* a slice is one piece of work for each worker, however long it takes */
    pthread_mutex_t lock;
    pthread_cond_t start;
    pthread_cond_t done;
    /* Under the lock. */
    uint64_t generation; /* counts slices */
    int side;            /* BENCH_SIDES: the threads end */
    size_t working;
    bool failed;
    atomic_bool stop; /* the slice is over */
};

/* ---- the workers */

/* At least one piece of work, however short the slice: a rate needs one. */
static void work_slice(worker *w, int side)
{
    bench_client *client = w->client[side];

    assert(client && w->status == HOWDAH_OK); /* I3 */
    w->events = 0;
    memset(&w->latency, 0, sizeof w->latency);
    do {
        int64_t start_us = hw_clock_mono_us();
        int64_t events = 0;
        int s = client->ops->work(client, &events, &w->err);

        if (s < 0) {
            w->status = s;
            return;
        }
        bench_histogram_add(&w->latency, hw_clock_mono_us() - start_us);
        w->events += events;
    } while (!w->clients->whole && !atomic_load_explicit(&w->clients->stop, memory_order_relaxed));
}

/*
 * A worker counts the generations it has seen, so that a slice that starts while it is still on
 * its way back to the lock is not missed.
 */
static void *worker_main(void *arg)
{
    worker *w = arg;
    bench_clients *c = w->clients;
    uint64_t seen = 0;

    for (;;) {
        int side;

        (void)pthread_mutex_lock(&c->lock);
        while (c->generation == seen)
            (void)pthread_cond_wait(&c->start, &c->lock);
        seen = c->generation;
        side = c->side;
        (void)pthread_mutex_unlock(&c->lock);
        if (side == BENCH_SIDES)
            return NULL;
        work_slice(w, side);
        (void)pthread_mutex_lock(&c->lock);
        if (w->status < 0)
            c->failed = true;
        if (--c->working == 0 || w->status < 0)
            (void)pthread_cond_signal(&c->done);
        (void)pthread_mutex_unlock(&c->lock);
    }
}

/* I1: the workers are all waiting, so side and stop may be set. */
static void start_side(bench_clients *c, int side)
{
    atomic_store(&c->stop, false);
    (void)pthread_mutex_lock(&c->lock);
    assert(c->working == 0); /* I1 */
    c->side = side;
    c->working = c->workers_n;
    c->generation++;
    (void)pthread_cond_broadcast(&c->start);
    (void)pthread_mutex_unlock(&c->lock);
}

/* The clock is the one that init_locks() gave the condition. */
static void wait_tick(bench_clients *c, int64_t us)
{
    struct timespec until;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + us * 1000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_cond_timedwait(&c->done, &c->lock, &until);
}

/*
 * Ends calls that last, such as a delivery of the whole log; clients without this look at the
 * stop flag instead.
 */
static void interrupt_all(bench_clients *c, int side)
{
    for (size_t i = 0; i < c->workers_n; i++) {
        bench_client *client = c->workers[i].client[side];

        if (client->ops->interrupt)
            client->ops->interrupt(client);
    }
}

/*
 * Until every worker has stopped: because the time is over, something failed, or a signal came
 * (I2).  The interrupt is sent once; afterwards it is only a matter of waiting.
 */
static void await_slice(bench_clients *c, int side, int64_t slice_ms)
{
    int64_t until_us = hw_clock_mono_us() + slice_ms * 1000;
    bool interrupted = false;

    (void)pthread_mutex_lock(&c->lock);
    while (c->working > 0) {
        int64_t left_us = until_us - hw_clock_mono_us();
        bool over = c->failed || cli_signal_caught() || (!c->whole && left_us <= 0);

        if (over)
            atomic_store(&c->stop, true);
        if (!interrupted && (c->failed || cli_signal_caught())) {
            interrupted = true;
            interrupt_all(c, side);
        }
        wait_tick(c, over || c->whole || left_us > TICK_MS * 1000 ? TICK_MS * 1000 : left_us);
    }
    (void)pthread_mutex_unlock(&c->lock);
}

/* The first failure that is not just the interrupt that followed it: that one is the cause. */
static int report_failure(const bench_clients *c, howdah_error *reterr)
{
    const worker *first = NULL;

    if (cli_signal_caught())
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    for (size_t i = 0; i < c->workers_n; i++) {
        const worker *w = &c->workers[i];

        if (w->status < 0 && (!first || first->status == HOWDAH_INTERRUPTED))
            first = w;
    }
    if (first && reterr)
        *reterr = first->err;
    return first ? first->status : HOWDAH_OK;
}

/* The slice is over when all has been heard; only then the other side has the machine to itself. */
static int hear_out(bench_clients *c, int side, bench_tally *slice, howdah_error *reterr)
{
    bench_subscribers *subscribers = c->subscribers[side];
    int s;

    if (!subscribers)
        return HOWDAH_OK;
    s = bench_subscribers_await(subscribers, c->appended[side], reterr);
    if (s >= 0 && c->hears) {
        slice->latency = subscribers->latency;
        memset(&subscribers->latency, 0, sizeof subscribers->latency);
    }
    return s;
}

/*
 * queue: by one client and before the clock of the slice starts.  The count is set even after a
 * failure; nobody works on it then.
 */
static int push_backlog(bench_clients *c, int side, bench_tally *slice, howdah_error *reterr)
{
    bench_client *client = c->workers[0].client[side];
    int64_t start_us = hw_clock_mono_us();
    int s;

    assert(c->jobs == 0 || client->ops->push);

    if (c->jobs == 0)
        return HOWDAH_OK;
    s = client->ops->push(client, c->jobs, reterr);
    atomic_store(&c->backlog[side], c->jobs);
    slice->pushed = c->jobs;
    slice->push_us = hw_clock_mono_us() - start_us;
    return s;
}

static int64_t cpu_us_of(const bench_clients *c, int side)
{
    bool served = side == BENCH_OURS && c->gateway;

    return bench_cpu_us() + (served ? bench_gateway_cpu_us(c->gateway) : 0);
}

/*
 * Processor time counts until all has been heard, because the subscribers' work belongs to the
 * side; the duration ends with the last append.
 */
int bench_clients_slice(bench_clients *c, int side, int64_t slice_ms, bench_tally *ret_slice,
                        howdah_error *reterr)
{
    int64_t cpu_us;
    int64_t start_us;
    int s;

    memset(ret_slice, 0, sizeof *ret_slice);
    s = push_backlog(c, side, ret_slice, reterr);
    if (s < 0)
        return s;
    cpu_us = cpu_us_of(c, side);
    start_us = hw_clock_mono_us();
    start_side(c, side);
    await_slice(c, side, slice_ms);
    ret_slice->us = hw_clock_mono_us() - start_us;
    s = report_failure(c, reterr);
    if (s < 0)
        return s;
    for (size_t i = 0; i < c->workers_n; i++) {
        ret_slice->events += c->workers[i].events;
        bench_histogram_merge(&ret_slice->latency, &c->workers[i].latency);
    }
    c->appended[side] += ret_slice->events;
    s = hear_out(c, side, ret_slice, reterr);
    ret_slice->cpu_us = cpu_us_of(c, side) - cpu_us;
    return s;
}

/* ---- clients come and go */

/*
 * Also for clients that were only half opened.  The threads end first: a client is closed when
 * nobody works on it.
 */
void bench_clients_close(bench_clients *c)
{
    if (!c)
        return;
    start_side(c, BENCH_SIDES);
    for (size_t i = 0; i < c->workers_n; i++) {
        worker *w = &c->workers[i];

        if (w->started)
            (void)pthread_join(w->thread, NULL);
        for (int side = 0; side < BENCH_SIDES; side++)
            if (w->client[side])
                w->client[side]->ops->close(w->client[side]);
    }
    for (int side = 0; side < BENCH_SIDES; side++)
        bench_subscribers_close(c->subscribers[side]);
    hw_free(c->workers);
    (void)pthread_cond_destroy(&c->start);
    (void)pthread_cond_destroy(&c->done);
    (void)pthread_mutex_destroy(&c->lock);
    hw_free(c);
}

/* fanout has none on the other side: that is what is compared. */
static int open_subscriber_sets(bench_clients *c, const bench_site *site, howdah_error *reterr)
{
    bench_kind kind = site->plan->kind;
    int s = HOWDAH_OK;

    if (kind == BENCH_LATENCY || kind == BENCH_FANOUT)
        s = bench_live_open(site, &c->subscribers[BENCH_OURS], reterr);
    if (s >= 0 && kind == BENCH_LATENCY && site->plan->ceiling)
        s = site->backend->open_subscribers(site, &c->subscribers[BENCH_CEILING], reterr);
    for (int side = 0; s >= 0 && side < BENCH_SIDES; side++)
        if (c->subscribers[side])
            s = bench_subscribers_start(c->subscribers[side], reterr);
    return s;
}

/* http: what the library does alone, but for single appends, where it would not be the plainest. */
static int open_ceiling(const bench_site *site, unsigned number, bench_client **ret_client,
                        howdah_error *reterr)
{
    const bench_plan *plan = site->plan;

    if (plan->http && plan->over != BENCH_OVER_APPEND)
        return bench_ours_open(site, number, false, ret_client, reterr);
    if (plan->kind == BENCH_FANOUT || plan->kind == BENCH_ASOF)
        return bench_ours_open(site, number, true, ret_client, reterr);
    if (plan->against == BENCH_AGAINST_QUEUE)
        return bench_bound_open(site, number, ret_client, reterr);
    return site->backend->open_client(site, number, ret_client, reterr);
}

/* Each worker has one client of each side, and works on one of them at a time. */
static int open_clients(bench_clients *c, const bench_site *site, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < c->workers_n; i++) {
        worker *w = &c->workers[i];

        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        s = site->plan->http
                ? bench_http_client_open(site, (unsigned)i, &w->client[BENCH_OURS], reterr)
                : bench_ours_open(site, (unsigned)i, false, &w->client[BENCH_OURS], reterr);
        if (s >= 0 && site->plan->ceiling)
            s = open_ceiling(site, (unsigned)i, &w->client[BENCH_CEILING], reterr);
        for (int side = 0; side < BENCH_SIDES; side++) {
            if (!w->client[side])
                continue;
            w->client[side]->stop = &c->stop;
            w->client[side]->backlog = &c->backlog[side];
            w->client[side]->subscribers = c->hears ? c->subscribers[side] : NULL;
        }
    }
    return s;
}

/* I2. */
static int start_threads(bench_clients *c, howdah_error *reterr)
{
    sigset_t all;
    sigset_t before;
    int error = 0;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    for (size_t i = 0; error == 0 && i < c->workers_n; i++) {
        worker *w = &c->workers[i];

        error = pthread_create(&w->thread, NULL, worker_main, w);
        w->started = error == 0;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return hw_fail(reterr, HOWDAH_FAILED, "cannot start a thread: %s", strerrordesc_np(error));
    return HOWDAH_OK;
}

/*
 * The wait for the end of a slice has a deadline, which a step of the wall clock must not move.
 */
static void init_locks(bench_clients *c)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->start, NULL);
    (void)pthread_cond_init(&c->done, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

/* workers_n counts what is initialised, so that closing after a failure finds a whole list. */
int bench_clients_open(const bench_site *site, bench_clients **ret_clients, howdah_error *reterr)
{
    bench_clients *c = hw_calloc(1, sizeof *c);
    size_t n = (size_t)site->plan->clients;
    int s = HOWDAH_OK;

    if (!c)
        return hw_fail_no_memory(reterr);
    init_locks(c);
    c->whole = bench_is_by_piece(site->plan);
    c->jobs = site->plan->kind == BENCH_QUEUE        ? site->plan->jobs
              : site->plan->kind == BENCH_GROUP_READ ? site->plan->events
                                                     : 0;
    c->hears = site->plan->kind == BENCH_LATENCY;
    c->gateway = site->gateway;
    c->workers = hw_calloc(n, sizeof *c->workers);
    if (!c->workers)
        s = hw_fail_no_memory(reterr);
    for (size_t i = 0; s >= 0 && i < n; i++) {
        c->workers[i].clients = c;
        c->workers[i].err = (howdah_error)HOWDAH_ERROR_INIT;
        c->workers_n++;
    }
    if (s >= 0)
        s = open_subscriber_sets(c, site, reterr);
    if (s >= 0)
        s = open_clients(c, site, reterr);
    if (s >= 0)
        s = start_threads(c, reterr);
    if (s < 0) {
        bench_clients_close(c);
        return s;
    }
    *ret_clients = c;
    return HOWDAH_OK;
}

int64_t bench_clients_slowest_us(const bench_clients *c)
{
    return c->subscribers[BENCH_OURS] ? c->subscribers[BENCH_OURS]->slowest_us : 0;
}
