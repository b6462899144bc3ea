/* queue.c - see queue.h. */
#include "bench/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/load.h"
#include "cli/in/signals.h"

#define QUEUE "bench"
#define WAITED_FOR "bench.waited"
#define PUSH_BATCH 1000
#define RUN_MS 200     /* a worker's run ends with an ack, and the next begins with a claim */
#define LAST_RUN_MS 20 /* so long may a worker sleep when nothing is left */
#define KEY_SIZE 32
/* Enough for a p99, at four milliseconds each. */
#define LATENCY_PUSHES 300
#define LATENCY_PAUSE_NS 4000000

/* A worker of our side with its bus.  The first one also pushes the backlog. */
typedef struct queue_client {
    bench_client base;
    howdah_bus *bus;
    howdah_worker *worker;
    bench_load load;
    int64_t keys;   /* 0: none */
    int64_t pushed; /* with a key */
    int64_t handled;
} queue_client;

/* ---- push */

/*
 * On the stack and with one payload for all: what is measured is the push, not the making of
 * jobs.
 */
static int push_some(queue_client *c, const char *queue, size_t n, howdah_error *reterr)
{
    howdah_new_job jobs[PUSH_BATCH];
    const howdah_new_job *list[PUSH_BATCH];
    char keys[PUSH_BATCH][KEY_SIZE];
    int64_t version;
    hw_str data = bench_load_next(&c->load, &version);

    assert(n <= PUSH_BATCH);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (howdah_new_job)HOWDAH_NEW_JOB_INIT;
        jobs[i].data = data.s;
        jobs[i].data_len = data.len;
        if (c->keys > 0) {
            (void)snprintf(keys[i], KEY_SIZE, "key-%lld", (long long)(c->pushed++ % c->keys));
            jobs[i].key = keys[i];
        }
        list[i] = &jobs[i];
    }
    return howdah_queue_push_batch(c->bus, queue, list, n, NULL, reterr);
}

/* In batches, and with a look for signals between them: a backlog may be large. */
static int push_backlog(bench_client *client, int64_t n, howdah_error *reterr)
{
    queue_client *c = (queue_client *)client;
    int s = HOWDAH_OK;

    for (int64_t done = 0; s >= 0 && done < n; done += PUSH_BATCH) {
        if (cli_signal_caught())
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        s = push_some(c, QUEUE, (size_t)(n - done < PUSH_BATCH ? n - done : PUSH_BATCH), reterr);
    }
    return s;
}

/* ---- drain */

/*
 * In the driver's own thread, so "handled" needs no lock; the backlog is shared by all workers.
 */
static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    queue_client *c = ctx;
    size_t len = 0;

    (void)work;
    (void)howdah_job_data(job, &len);
    c->handled++;
    atomic_fetch_sub(c->base.backlog, 1);
    return HOWDAH_WORK_DONE;
}

/*
 * Long runs while there is much to do, short ones near the end: a worker must not sleep on when
 * the others have taken the last jobs.
 */
static int drain(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    queue_client *c = (queue_client *)client;
    int64_t before = c->handled;
    int64_t all = atomic_load(c->base.backlog);
    int64_t left = all;
    int s = HOWDAH_OK;

    for (; s >= 0 && left > 0 && !atomic_load(c->base.stop); left = atomic_load(c->base.backlog))
        s = howdah_worker_run(c->worker, left > all / 4 ? RUN_MS : LAST_RUN_MS, reterr);
    *ret_events = c->handled - before;
    return s < 0 ? s : HOWDAH_OK;
}

static void interrupt_queue_client(bench_client *client)
{
    howdah_interrupt(((queue_client *)client)->bus);
}

/* The worker before its bus: it still has leases to give back. */
static void close_queue_client(bench_client *client)
{
    queue_client *c = (queue_client *)client;

    howdah_worker_free(c->worker);
    howdah_close(c->bus);
    bench_load_done(&c->load);
    hw_free(c);
}

static const bench_client_ops pushed = {drain, interrupt_queue_client, close_queue_client,
                                        push_backlog};

/* Without a worker, for those who only push. */
static int open_queue_client(const bench_site *site, unsigned number, queue_client **ret_client,
                             howdah_error *reterr)
{
    queue_client *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &pushed;
    c->keys = site->plan->keys;
    s = bench_load_init(&c->load, number, 1, (size_t)site->plan->payload, reterr);
    if (s >= 0)
        s = howdah_open(site->url, site->settings, &c->bus, reterr);
    if (s < 0) {
        close_queue_client(&c->base);
        return s;
    }
    *ret_client = c;
    return HOWDAH_OK;
}

static int open_worker(const bench_site *site, unsigned number, queue_client **ret_client,
                       howdah_error *reterr)
{
    howdah_worker_options options = HOWDAH_WORKER_OPTIONS_INIT;
    queue_client *c = NULL;
    int s = open_queue_client(site, number, &c, reterr);

    if (s < 0)
        return s;
    options.queue = QUEUE;
    options.handler = on_job;
    options.ctx = c;
    options.batch = site->plan->batch;
    s = howdah_worker_new(c->bus, &options, &c->worker, reterr);
    if (s < 0) {
        close_queue_client(&c->base);
        return s;
    }
    *ret_client = c;
    return HOWDAH_OK;
}

int bench_queue_open(const bench_site *site, unsigned number, bench_client **ret_client,
                     howdah_error *reterr)
{
    queue_client *c = NULL;
    int s = open_worker(site, number, &c, reterr);

    assert(site->plan->kind == BENCH_QUEUE);
    if (s >= 0)
        *ret_client = &c->base;
    return s;
}

/* ---- bound */

/* Before a slice: all events of the log become jobs once more.  That is part of the slice. */
static int replay(bench_client *client, int64_t n, howdah_error *reterr)
{
    (void)n;
    return howdah_binding_replay(((queue_client *)client)->bus, QUEUE, ">", 0, reterr);
}

int bench_bound_open(const bench_site *site, unsigned number, bench_client **ret_client,
                     howdah_error *reterr)
{
    static const bench_client_ops bound = {drain, interrupt_queue_client, close_queue_client,
                                           replay};
    howdah_bind_options options = HOWDAH_BIND_OPTIONS_INIT;
    queue_client *c = NULL;
    int s = open_worker(site, number, &c, reterr);

    if (s < 0)
        return s;
    c->base.ops = &bound;
    options.key = HOWDAH_KEY_NONE;   /* the most that a queue can do: in no order */
    options.start = HOWDAH_FROM_END; /* until the first slice */
    if (number == 0)
        s = howdah_queue_bind(c->bus, QUEUE, ">", &options, reterr);
    if (s < 0) {
        close_queue_client(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}

/* ---- latency */

/* The one that waits; it has a bus of its own, because a wait keeps its bus busy. */
typedef struct hearer {
    howdah_bus *bus;
    bench_histogram *latency;
    atomic_llong pushed_us; /* when the job in hand was pushed, 0: none is */
    int status;
    howdah_error err;
} hearer;

/*
 * pushed_us is stored before the push, so it is there when the claim returns.  Set to 0 it lets
 * the next push go.
 */
static void *hear(void *arg)
{
    hearer *h = arg;

    for (int i = 0; i < LATENCY_PUSHES && h->status >= 0; i++) {
        howdah_jobs *jobs = NULL;

        h->status = howdah_queue_claim_wait(h->bus, WAITED_FOR, 1, -1, NULL, &jobs, &h->err);
        if (h->status < 0)
            break;
        bench_histogram_add(h->latency, hw_clock_mono_us() - atomic_load(&h->pushed_us));
        h->status = howdah_job_complete(h->bus, howdah_job_id(howdah_jobs_at(jobs, 0)),
                                        howdah_job_token(howdah_jobs_at(jobs, 0)), NULL, &h->err);
        howdah_jobs_free(jobs);
        atomic_store(&h->pushed_us, 0);
    }
    return NULL;
}

/* One job at a time: the next is pushed when the one before is done and all sleep again. */
static int push_slowly(queue_client *c, hearer *h, howdah_error *reterr)
{
    const struct timespec pause = {0, LATENCY_PAUSE_NS};
    int s = HOWDAH_OK;

    for (int i = 0; i < LATENCY_PUSHES && s >= 0; i++) {
        (void)nanosleep(&pause, NULL);
        atomic_store(&h->pushed_us, hw_clock_mono_us());
        s = push_some(c, WAITED_FOR, 1, reterr);
        while (s >= 0 && atomic_load(&h->pushed_us) != 0 && !cli_signal_caught())
            (void)nanosleep(&(struct timespec){0, LATENCY_PAUSE_NS / 4}, NULL);
        if (s >= 0 && cli_signal_caught())
            s = hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    }
    return s;
}

/*
 * On a queue of its own and after the slices: nobody else works then, and only the wake-up is
 * measured.
 */
int bench_queue_latency(const bench_site *site, bench_histogram *ret_latency, howdah_error *reterr)
{
    hearer h = {.latency = ret_latency, .err = HOWDAH_ERROR_INIT};
    queue_client *c = NULL;
    pthread_t thread;
    int s = open_queue_client(site, 0, &c, reterr);

    if (s < 0)
        return s;
    s = howdah_open(site->url, site->settings, &h.bus, reterr);
    if (s >= 0 && pthread_create(&thread, NULL, hear, &h) != 0)
        s = hw_fail(reterr, HOWDAH_FAILED, "cannot start a thread");
    else if (s >= 0) {
        s = push_slowly(c, &h, reterr);
        if (s < 0)
            howdah_interrupt(h.bus);
        (void)pthread_join(thread, NULL);
        if (s >= 0 && h.status < 0) {
            s = h.status;
            *reterr = h.err;
        }
    }
    howdah_close(h.bus);
    close_queue_client(&c->base);
    return s;
}
