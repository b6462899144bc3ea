/*
 * runner.c - a bus in threads: one serves it, the others call handlers.
 *
 *   I1  The serving thread alone touches the bus's own store handle, the reader and the pages'
 *       counts.  A worker has store handles of its own for what a turn writes.
 *   I2  A subscription is busy from the moment its turn is pushed until the serving thread has
 *       collected what the turn left: nothing else of it is looked at in between.  A worker that
 *       says "back" has written everything before.
 *   I3  The queue's lock is held for taking and giving only, never while a handler runs.
 *   I4  The serving thread gives everything up on its way out, also when an error ends it: nobody
 *       stands by for what nobody works on.
 *   I5  Each subscription is in the queue at most once: the queue needs no room of its own.
 */
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "bus/subscription/subscription.h"

#define THREADS_MAX 256
#define LOOK_AT_STOP_MS 1000
#define SECONDS_MAX INT64_C(1000000000) /* longer than anybody waits */

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
    bool over;     /* the serving thread has given everything up */
    pthread_cond_t ended;
    atomic_bool stop;
    int done_fd;
    worker *workers;
    size_t workers_n;
    int status; /* what ended the serving thread, or went wrong on its way out */
    howdah_error error;
};

bool hw_runner_is_stopping(const howdah_bus *bus)
{
    const hw_runner *runner = bus->service->runner;

    return runner && atomic_load(&runner->stop);
}

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
    sub->head = sub->bus->service->reader.frontier.high;
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

    return *store ? HOWDAH_OK : bus->open_store(bus->open_ctx, bus->interrupt, store, reterr);
}

static void run_delivery(worker *w, howdah_subscription *sub)
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
    hw_deliver_run(sub, w->io, transactional ? w->tx : NULL);
}

static void *work(void *arg)
{
    worker *w = arg;
    howdah_subscription *sub;
    hw_handling all; /* whatever is called back here, a log hook say, must not end its own thread */

    hw_handling_begin(&all, w->runner->bus, NULL, NULL);
    while ((sub = pop(w->runner))) {
        run_delivery(w, sub);
        atomic_store(&sub->back, true); /* I2 */
        ring_fd(w->runner->done_fd);
    }
    hw_handling_end(&all);
    return NULL;
}

/* ------------------------------------------------------------- the server */

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

static void keep_first(hw_runner *runner, int status, const howdah_error *err)
{
    if (status >= 0 || (runner->status < 0 && runner->status != HOWDAH_INTERRUPTED))
        return;
    runner->status = status;
    hw_error_copy(&runner->error, err);
}

/* I4: what the last turns left behind is stored, and every subscription given up. */
static void wind_up(hw_runner *runner)
{
    howdah_bus *bus = runner->bus;
    howdah_error err = HOWDAH_ERROR_INIT;

    end_workers(runner);
    howdah_interrupt_clear(bus); /* an interrupt ends the work, not the storing of what was done */
    keep_first(runner, hw_service_collect(bus, &err), &err);
    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next)
        keep_first(runner, hw_service_let_go(sub, &err), &err);
    (void)pthread_mutex_lock(&runner->lock);
    runner->over = true;
    (void)pthread_cond_broadcast(&runner->ended);
    (void)pthread_mutex_unlock(&runner->lock);
}

static void *serve(void *arg)
{
    hw_runner *runner = arg;
    howdah_bus *bus = runner->bus;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_handling all;

    hw_handling_begin(&all, bus, NULL, NULL);
    while (!atomic_load(&runner->stop)) {
        bool worked = false;
        int s = hw_interrupted(bus->interrupt) ? hw_fail(&err, HOWDAH_INTERRUPTED, "interrupted")
                                               : hw_service_pass(bus, &worked, &err);

        if (s >= 0)
            bus->service->failures = 0;
        if (s >= 0 && !worked)
            s = hw_service_wait(bus, LOOK_AT_STOP_MS, runner->done_fd, &err);
        clear_fd(runner->done_fd);
        if (s < 0 && !hw_service_retries_after(bus, s, &err)) {
            runner->status = s;
            hw_error_copy(&runner->error, &err);
            hw_log(HOWDAH_LOG_ERROR, "the runner ends: %s", err.message);
            break;
        }
    }
    wind_up(runner);
    hw_handling_end(&all);
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
    (void)pthread_cond_destroy(&runner->ended);
    (void)pthread_mutex_destroy(&runner->lock);
    hw_free(runner->workers);
    hw_free(runner);
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
    pthread_condattr_t clock;

    if (!runner)
        return hw_fail_no_memory(reterr);
    runner->bus = bus;
    runner->last = &runner->first;
    runner->error = (howdah_error)HOWDAH_ERROR_INIT;
    (void)pthread_mutex_init(&runner->lock, NULL);
    (void)pthread_cond_init(&runner->more, NULL);
    (void)pthread_condattr_init(&clock);
    (void)pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&runner->ended, &clock);
    (void)pthread_condattr_destroy(&clock);
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
    HW_ENTRY(entry);
    hw_runner *runner = NULL;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_runner_start", reterr);

    if (s < 0)
        return s;
    if (!bus->service || (!bus->service->subs && !bus->service->routes))
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: nothing is subscribed");
    if (threads < 1 || threads > THREADS_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "threads", "must be 1 to %d, not %d",
                             THREADS_MAX, threads);
    if (!bus->open_store) {
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_start: this bus has one session only");
        return hw_advise(reterr, s, "serve it with howdah_run(), or open a bus on a file");
    }
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
    int s;

    if (!runner)
        return HOWDAH_OK;
    atomic_store(&runner->stop, true);
    hw_waits_end(bus, true);
    ring_fd(runner->done_fd);
    (void)pthread_join(runner->server, NULL);
    hw_waits_end(bus, false);
    bus->service->runner = NULL;
    s = runner->status == HOWDAH_INTERRUPTED ? HOWDAH_OK : runner->status;
    if (s < 0)
        hw_error_copy(reterr, &runner->error);
    free_runner(runner);
    return s;
}

static int wait_for_end(hw_runner *runner, int64_t for_ms, howdah_error *reterr)
{
    struct timespec until;
    int s = HOWDAH_END;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    if (for_ms > 0) {
        until.tv_sec += (time_t)(for_ms / 1000 < SECONDS_MAX ? for_ms / 1000 : SECONDS_MAX);
        until.tv_nsec += (long)(for_ms % 1000) * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    (void)pthread_mutex_lock(&runner->lock);
    while (!runner->over) {
        int woke = for_ms < 0 ? pthread_cond_wait(&runner->ended, &runner->lock)
                              : pthread_cond_timedwait(&runner->ended, &runner->lock, &until);

        if (woke != 0)
            break;
    }
    if (runner->over) {
        s = runner->status;
        if (s < 0)
            hw_error_copy(reterr, &runner->error);
    }
    (void)pthread_mutex_unlock(&runner->lock);
    return s;
}

int howdah_runner_wait(howdah_bus *bus, int64_t for_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_DRIVES | HW_ENDS, "howdah_runner_wait", reterr);

    if (s < 0)
        return s;
    if (!bus->service || !bus->service->runner)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_wait: there is no runner");
    return wait_for_end(bus->service->runner, for_ms, reterr);
}

int howdah_runner_stop(howdah_bus *bus, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_DRIVES | HW_ENDS, "howdah_runner_stop", reterr);

    if (s < 0)
        return s;
    if (!bus->service || !bus->service->runner)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_runner_stop: there is no runner");
    return hw_runner_end(bus, reterr);
}
