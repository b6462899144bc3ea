/*
 * runner.c - a bus in threads: one serves it, the others call handlers.
 *
 *   I1  The serving thread alone touches the bus's own store handle, the feed and the pages'
 *       counts.  A worker has store handles of its own for what a turn writes.
 *   I2  A subscription is busy from the moment its turn is pushed until the serving thread has
 *       collected what the turn left: nothing else of it is looked at in between.  A worker that
 *       says "back" has written everything before.
 *   I3  The queue's lock is held for taking and giving only, never while a handler runs.
 *   I4  Each subscription is in the queue at most once: the queue needs no room of its own.
 */
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "bus/subscription.h"

#define THREADS_MAX 256
#define LOOK_AT_STOP_MS 1000

typedef struct worker {
    hw_runner *runner;
    pthread_t thread;
    hw_store *io;
    hw_store *tx;
} worker;

struct hw_runner {
    howdah_bus *bus;
    pthread_t server;
    pthread_mutex_t lock;
    pthread_cond_t more;
    howdah_subscription *first; /* the queue, linked by queue_next */
    howdah_subscription **last;
    bool draining; /* no more turns: workers end when the queue is empty */
    atomic_bool stop;
    int done_fd;
    worker *workers;
    size_t workers_n;
    int status; /* what ended the serving thread */
    howdah_error error;
};

static void ring_fd(int fd)
{
    uint64_t one = 1;

    if (write(fd, &one, sizeof one) < 0) {
        /* EAGAIN: it is readable already, which is all we want. */
    }
}

static void clear_fd(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof count) < 0) {
        /* EAGAIN: nothing had happened. */
    }
}

/* ----------------------------------------------------------------- workers */

void hw_runner_push(hw_runner *runner, howdah_subscription *sub)
{
    (void)pthread_mutex_lock(&runner->lock);
    sub->queue_next = NULL;
    *runner->last = sub;
    runner->last = &sub->queue_next;
    (void)pthread_cond_signal(&runner->more);
    (void)pthread_mutex_unlock(&runner->lock);
}

/* NULL: the runner ends. */
static howdah_subscription *pop(hw_runner *runner)
{
    howdah_subscription *sub;

    (void)pthread_mutex_lock(&runner->lock);
    while (!runner->first && !runner->draining)
        (void)pthread_cond_wait(&runner->more, &runner->lock);
    sub = runner->first;
    if (sub) {
        runner->first = sub->queue_next;
        if (!runner->first)
            runner->last = &runner->first;
    }
    (void)pthread_mutex_unlock(&runner->lock);
    return sub;
}

static int session_of(worker *w, hw_store **store, howdah_error *reterr)
{
    howdah_bus *bus = w->runner->bus;

    return *store ? HOWDAH_OK : bus->open_store(bus->open_ctx, store, reterr);
}

static void run_turn(worker *w, howdah_subscription *sub)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool transactional = sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL;
    int s = session_of(w, &w->io, &err);

    if (s >= 0 && transactional)
        s = session_of(w, &w->tx, &err);
    if (s < 0) {
        sub->failed = s;
        hw_error_copy(&sub->error, &err);
        return;
    }
    hw_turn_run(sub, w->io, transactional ? w->tx : NULL);
}

static void *work(void *arg)
{
    worker *w = arg;
    howdah_subscription *sub;

    while ((sub = pop(w->runner))) {
        run_turn(w, sub);
        atomic_store(&sub->back, true); /* I2 */
        ring_fd(w->runner->done_fd);
    }
    return NULL;
}

/* ------------------------------------------------------------- the server */

static void *serve(void *arg)
{
    hw_runner *runner = arg;
    howdah_bus *bus = runner->bus;
    howdah_error err = HOWDAH_ERROR_INIT;

    while (!atomic_load(&runner->stop)) {
        bool worked = false;
        int s = hw_interrupted(&bus->interrupt) ? hw_fail(&err, HOWDAH_INTERRUPTED, "interrupted")
                                                : hw_service_pass(bus, &worked, &err);

        if (s >= 0)
            bus->service->failures = 0;
        if (s >= 0 && !worked)
            s = hw_service_wait(bus, LOOK_AT_STOP_MS, runner->done_fd, &err);
        clear_fd(runner->done_fd);
        if (s < 0 && !hw_service_bears(bus, s, &err)) {
            runner->status = s;
            hw_error_copy(&runner->error, &err);
            hw_log(HOWDAH_LOG_ERROR, "the runner ends: %s", err.message);
            break;
        }
    }
    return NULL;
}

/* ----------------------------------------------------------- start and end */

static void free_runner(hw_runner *runner)
{
    if (!runner)
        return;
    for (size_t i = 0; i < runner->workers_n; i++) {
        if (runner->workers[i].io)
            runner->workers[i].io->ops->close(runner->workers[i].io);
        if (runner->workers[i].tx)
            runner->workers[i].tx->ops->close(runner->workers[i].tx);
    }
    if (runner->done_fd >= 0)
        (void)close(runner->done_fd);
    (void)pthread_cond_destroy(&runner->more);
    (void)pthread_mutex_destroy(&runner->lock);
    hw_free(runner->workers);
    hw_free(runner);
}

/* Workers finish what is queued and end. */
static void end_workers(hw_runner *runner)
{
    (void)pthread_mutex_lock(&runner->lock);
    runner->draining = true;
    (void)pthread_cond_broadcast(&runner->more);
    (void)pthread_mutex_unlock(&runner->lock);
    for (size_t i = 0; i < runner->workers_n; i++)
        (void)pthread_join(runner->workers[i].thread, NULL);
}

static int start_threads(hw_runner *runner, int threads, howdah_error *reterr)
{
    int failed = 0;

    for (int i = 0; i < threads && failed == 0; i++) {
        worker *w = &runner->workers[runner->workers_n];

        w->runner = runner;
        failed = pthread_create(&w->thread, NULL, work, w);
        if (failed == 0)
            runner->workers_n++;
    }
    runner->bus->service->runner = runner;
    if (failed == 0)
        failed = pthread_create(&runner->server, NULL, serve, runner);
    if (failed == 0)
        return HOWDAH_OK;
    runner->bus->service->runner = NULL;
    end_workers(runner);
    return hw_fail(reterr, HOWDAH_FAILED, "no thread for the runner: %s", strerrordesc_np(failed));
}

static int new_runner(howdah_bus *bus, int threads, hw_runner **ret_runner, howdah_error *reterr)
{
    hw_runner *runner = hw_calloc(1, sizeof *runner);

    if (!runner)
        return hw_fail_no_memory(reterr);
    runner->bus = bus;
    runner->last = &runner->first;
    runner->error = (howdah_error)HOWDAH_ERROR_INIT;
    (void)pthread_mutex_init(&runner->lock, NULL);
    (void)pthread_cond_init(&runner->more, NULL);
    runner->workers = hw_calloc((size_t)threads, sizeof *runner->workers);
    runner->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!runner->workers || runner->done_fd < 0) {
        free_runner(runner);
        return hw_fail_no_memory(reterr);
    }
    *ret_runner = runner;
    return HOWDAH_OK;
}

int howdah_runner_start(howdah_bus *bus, int threads, howdah_error *reterr)
{
    hw_runner *runner = NULL;
    int s;

    if (!bus || !bus->service || !bus->service->subs)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: nothing is subscribed");
    if (bus->service->runner || bus->service->serving)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: the bus is being served");
    if (threads < 1 || threads > THREADS_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "threads", "must be 1 to %d, not %d",
                             THREADS_MAX, threads);
    if (!bus->open_store)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: this bus has one session only");
    s = new_runner(bus, threads, &runner, reterr);
    if (s < 0)
        return s;
    s = start_threads(runner, threads, reterr);
    if (s < 0)
        free_runner(runner);
    return s;
}

int hw_runner_end(howdah_bus *bus, howdah_error *reterr)
{
    hw_runner *runner = bus->service ? bus->service->runner : NULL;
    int first;

    if (!runner)
        return HOWDAH_OK;
    atomic_store(&runner->stop, true);
    ring_fd(runner->done_fd);
    (void)pthread_join(runner->server, NULL);
    end_workers(runner);
    bus->service->runner = NULL;
    howdah_resume(bus);
    /* What the last turns left behind. */
    first = hw_service_collect(bus, reterr);
    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        int s = hw_service_let_go(sub, first < 0 ? NULL : reterr);

        first = first < 0 ? first : s;
    }
    if (first >= 0 && runner->status < 0 && runner->status != HOWDAH_INTERRUPTED) {
        hw_error_copy(reterr, &runner->error);
        first = runner->status;
    }
    free_runner(runner);
    return first;
}

int howdah_runner_stop(howdah_bus *bus, howdah_error *reterr)
{
    if (!bus || !bus->service || !bus->service->runner)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_stop: there is no runner");
    return hw_runner_end(bus, reterr);
}
