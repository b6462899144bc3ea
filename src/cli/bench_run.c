/*
 * bench_run.c - a crew of threads, and slices of work.
 *
 *   I1  A worker touches its clients only between the start of a slice (generation counts up) and
 *       its end (working counts down); the main thread only outside of slices, but for interrupt.
 *   I2  Signals go to the main thread: workers have them all blocked.  It looks for them at least
 *       every TICK_MS, so that a worker never waits for more than its own call.
 *   I3  After the first failure no slice starts.
 */
#include "cli/bench_run.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/signals.h"

#define SLICES_MIN 10 /* of each side */
#define SLICE_MS_MAX 250
#define READ_SLICES_MIN 3
#define TICK_MS 20

enum { OURS, CEILING, SIDES };

typedef struct crew crew;

typedef struct worker {
    crew *crew;
    pthread_t thread;
    bool started;
    bench_client *client[SIDES];
    /* Of the slice. */
    int64_t events;
    bench_histogram latency;
    int status; /* HOWDAH_OK until something failed */
    howdah_error err;
} worker;

struct crew {
    worker *workers;
    size_t workers_n;
    bool whole; /* a slice is one piece of work for each worker, however long it takes */
    pthread_mutex_t lock;
    pthread_cond_t start;
    pthread_cond_t done;
    /* Under the lock. */
    uint64_t generation; /* counts slices */
    int side;            /* SIDES: go home */
    size_t working;
    bool failed;
    atomic_bool stop; /* the slice is over */
};

double bench_rate(const bench_tally *tally)
{
    return tally->us > 0 ? (double)tally->events * 1e6 / (double)tally->us : 0;
}

/* ---- the workers */

static void work_slice(worker *w, int side)
{
    bench_client *client = w->client[side];

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
    } while (!w->crew->whole && !atomic_load_explicit(&w->crew->stop, memory_order_relaxed));
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    crew *c = w->crew;
    uint64_t seen = 0;

    for (;;) {
        int side;

        (void)pthread_mutex_lock(&c->lock);
        while (c->generation == seen)
            (void)pthread_cond_wait(&c->start, &c->lock);
        seen = c->generation;
        side = c->side;
        (void)pthread_mutex_unlock(&c->lock);
        if (side == SIDES)
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

static void start_side(crew *c, int side)
{
    atomic_store(&c->stop, false);
    (void)pthread_mutex_lock(&c->lock);
    c->side = side;
    c->working = c->workers_n;
    c->generation++;
    (void)pthread_cond_broadcast(&c->start);
    (void)pthread_mutex_unlock(&c->lock);
}

static void wait_tick(crew *c, int64_t us)
{
    struct timespec until;
    int64_t ns;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    ns = until.tv_nsec + us * 1000;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    (void)pthread_cond_timedwait(&c->done, &c->lock, &until);
}

static void interrupt_all(crew *c, int side)
{
    for (size_t i = 0; i < c->workers_n; i++) {
        bench_client *client = c->workers[i].client[side];

        if (client->ops->interrupt)
            client->ops->interrupt(client);
    }
}

/* Until every worker has stopped: because the time is over, something failed, or a signal came. */
static void await_slice(crew *c, int side, int64_t slice_ms)
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

/* The first failure that is not just the interrupt that followed it. */
static int report_failure(const crew *c, howdah_error *reterr)
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

/* Adds what the slice gave; ret_rate is its own rate. */
static int run_slice(crew *c, int side, int64_t slice_ms, bench_tally *tally, double *ret_rate,
                     howdah_error *reterr)
{
    int64_t cpu_us = bench_cpu_us();
    int64_t start_us = hw_clock_mono_us();
    bench_tally slice = {.events = 0};
    int s;

    start_side(c, side);
    await_slice(c, side, slice_ms);
    slice.us = hw_clock_mono_us() - start_us;
    slice.cpu_us = bench_cpu_us() - cpu_us;
    s = report_failure(c, reterr);
    if (s < 0)
        return s;
    for (size_t i = 0; i < c->workers_n; i++) {
        slice.events += c->workers[i].events;
        bench_histogram_merge(&tally->latency, &c->workers[i].latency);
    }
    tally->events += slice.events;
    tally->us += slice.us;
    tally->cpu_us += slice.cpu_us;
    *ret_rate = bench_rate(&slice);
    return HOWDAH_OK;
}

/* ---- a crew comes and goes */

static void crew_done(crew *c)
{
    start_side(c, SIDES);
    for (size_t i = 0; i < c->workers_n; i++) {
        worker *w = &c->workers[i];

        if (w->started)
            (void)pthread_join(w->thread, NULL);
        for (int side = 0; side < SIDES; side++)
            if (w->client[side])
                w->client[side]->ops->close(w->client[side]);
    }
    hw_free(c->workers);
    (void)pthread_cond_destroy(&c->start);
    (void)pthread_cond_destroy(&c->done);
    (void)pthread_mutex_destroy(&c->lock);
}

static int open_clients(crew *c, const bench_site *site, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < c->workers_n; i++) {
        worker *w = &c->workers[i];

        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        s = bench_ours_open(site, (unsigned)i, &w->client[OURS], reterr);
        if (s >= 0 && site->plan->ceiling)
            s = site->backend->open_client(site, (unsigned)i, &w->client[CEILING], reterr);
        for (int side = 0; side < SIDES; side++)
            if (w->client[side])
                w->client[side]->stop = &c->stop;
    }
    return s;
}

/* I2. */
static int start_threads(crew *c, howdah_error *reterr)
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

static int crew_init(crew *c, const bench_site *site, howdah_error *reterr)
{
    pthread_condattr_t monotonic;
    size_t n = (size_t)site->plan->clients;
    int s;

    memset(c, 0, sizeof *c);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->start, NULL);
    (void)pthread_cond_init(&c->done, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    c->whole = site->plan->kind == BENCH_READ;
    c->workers = hw_calloc(n, sizeof *c->workers);
    if (!c->workers)
        return hw_fail_no_memory(reterr);
    c->workers_n = n;
    for (size_t i = 0; i < n; i++) {
        c->workers[i].crew = c;
        c->workers[i].err = (howdah_error)HOWDAH_ERROR_INIT;
    }
    s = open_clients(c, site, reterr);
    return s < 0 ? s : start_threads(c, reterr);
}

/* ---- the whole measurement */

typedef struct run {
    crew crew;
    const bench_plan *plan;
    bench_result *result;
    int64_t slice_ms;
    int64_t memory_base; /* -1: not measured */
    double *ratios;      /* of each pair of slices */
    size_t ratios_n;
    size_t ratios_room;
} run;

static int run_ours(run *r, bench_tally *tally, double *ret_rate, howdah_error *reterr)
{
    int64_t peak;
    int s;

    if (r->memory_base < 0)
        return run_slice(&r->crew, OURS, r->slice_ms, tally, ret_rate, reterr);
    bench_memory_reset_peak();
    s = run_slice(&r->crew, OURS, r->slice_ms, tally, ret_rate, reterr);
    peak = bench_memory_peak();
    if (peak >= 0 && peak - r->memory_base > r->result->memory_bytes)
        r->result->memory_bytes = peak - r->memory_base;
    return s;
}

/* One slice of each side; who starts changes from pair to pair. */
static int run_pair(run *r, bool ceiling_first, bench_tally *ours, bench_tally *ceiling,
                    double *ret_ratio, howdah_error *reterr)
{
    double ours_rate = 0;
    double ceiling_rate = 0;
    int s = HOWDAH_OK;

    if (r->plan->ceiling && ceiling_first)
        s = run_slice(&r->crew, CEILING, r->slice_ms, ceiling, &ceiling_rate, reterr);
    if (s >= 0)
        s = run_ours(r, ours, &ours_rate, reterr);
    if (s >= 0 && r->plan->ceiling && !ceiling_first)
        s = run_slice(&r->crew, CEILING, r->slice_ms, ceiling, &ceiling_rate, reterr);
    *ret_ratio = ceiling_rate > 0 ? ours_rate / ceiling_rate : 0;
    return s;
}

static bool is_over(const run *r)
{
    const bench_result *result = r->result;
    int64_t wanted_us = r->plan->seconds * 1000000;

    if (r->plan->kind != BENCH_READ)
        return result->slices * r->slice_ms >= r->plan->seconds * 1000;
    return result->slices >= READ_SLICES_MIN && result->ours.us >= wanted_us &&
           (!r->plan->ceiling || result->ceiling.us >= wanted_us);
}

static int keep_ratio(run *r, double ratio, howdah_error *reterr)
{
    if (r->ratios_n == r->ratios_room) {
        size_t room = r->ratios_room ? 2 * r->ratios_room : 64;
        double *ratios = hw_realloc(r->ratios, room * sizeof *ratios);

        if (!ratios)
            return hw_fail_no_memory(reterr);
        r->ratios = ratios;
        r->ratios_room = room;
    }
    r->ratios[r->ratios_n++] = ratio;
    return HOWDAH_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sum_up_ratios(run *r)
{
    if (r->ratios_n == 0)
        return;
    qsort(r->ratios, r->ratios_n, sizeof *r->ratios, compare_doubles);
    r->result->ratio_min = r->ratios[0];
    r->result->ratio_median = r->ratios[r->ratios_n / 2];
    r->result->ratio_max = r->ratios[r->ratios_n - 1];
}

static int run_slices(run *r, cli_progress *progress, howdah_error *reterr)
{
    bench_result *result = r->result;
    bench_tally unused; /* the first pair warms caches, plans and connections */
    double ratio = 0;
    int s;

    memset(&unused, 0, sizeof unused);
    s = run_pair(r, true, &unused, &unused, &ratio, reterr);
    while (s >= 0 && !is_over(r)) {
        s = run_pair(r, result->slices % 2 != 0, &result->ours, &result->ceiling, &ratio, reterr);
        if (s >= 0)
            s = keep_ratio(r, ratio, reterr);
        result->slices++;
        cli_progress_update(progress, result->slices,
                            r->crew.whole ? 0 : r->plan->seconds * 1000 / r->slice_ms);
    }
    sum_up_ratios(r);
    return s;
}

int bench_run(cli_context *cli, const bench_site *site, bench_result *ret_result,
              howdah_error *reterr)
{
    run r = {.plan = site->plan, .result = ret_result, .memory_base = -1};
    cli_progress progress;
    int s;

    memset(ret_result, 0, sizeof *ret_result);
    r.slice_ms = site->plan->seconds * 1000 / SLICES_MIN;
    if (r.slice_ms > SLICE_MS_MAX)
        r.slice_ms = SLICE_MS_MAX;
    if (site->plan->kind == BENCH_READ)
        r.memory_base = bench_memory_now();
    if (r.memory_base < 0)
        ret_result->memory_bytes = -1;
    s = crew_init(&r.crew, site, reterr);
    cli_progress_start(&progress, cli, "slices");
    if (s >= 0)
        s = run_slices(&r, &progress, reterr);
    cli_progress_clear(&progress);
    crew_done(&r.crew);
    hw_free(r.ratios);
    return s;
}
