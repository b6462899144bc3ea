/*
 * contend.c - see contend.h.
 *
 *   I1  Processes are made while no store is open here but one in memory, which is there for
 *       signals: a connection must not be carried into a child.
 *   I2  Children end when they are told, when the parent ends (however), or by a signal of their
 *       own; they leave by _exit() and print nothing.
 *   I3  What they find out is in shared memory; each has a place of its own.
 */
#include "bench/contend.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/load.h"
#include "cli/in/signals.h"

#define LOOK_MS 2
#define CHILD_PATIENCE_MS 60000
/* A writer that fails so often measures nothing any more. */
#define FAILURES_MAX 1000
#define CHECKPOINT_EVENTS 1000
#define SUBSCRIBER BENCH_WRITERS_MAX /* its place comes after the writers' */
#define PLACES (BENCH_WRITERS_MAX + 1)
#define STAMP "{\"at\":"

/* What one child found out. */
typedef struct place {
    atomic_bool ready;
    atomic_bool gone; /* before its time: error says why */
    int64_t events;
    int64_t slowest_us;
    int64_t failures;
    char error[512]; /* the first one */
    bench_histogram latency;
} place;

/*
 * The memory that is shared.  While the children run, the parent reads only the atomics, and an
 * error once "gone" is set.
 */
typedef struct findings {
    atomic_bool go;
    atomic_bool stop;
    place places[PLACES];
} findings;

/* What the parent knows; a child has a copy from the moment of fork(). */
typedef struct contest {
    const bench_site *site;
    findings *shared;
    pid_t children[PLACES];
    size_t writers;
    bool listening;
} contest;

/*
 * Processes are watched by looking: a lock shared with a child would stay locked when it is
 * killed.
 */
static void a_moment(void)
{
    const struct timespec pause = {0, LOOK_MS * 1000000L};

    (void)nanosleep(&pause, NULL);
}

/* The first message is kept; it is the likely cause of the others. */
static void note_failure(place *here, const howdah_error *err)
{
    if (here->failures++ == 0)
        (void)snprintf(here->error, sizeof here->error, "%s", err->message);
}

/* ---- a writer */

/* What a child that writes has for itself. */
typedef struct writer {
    place *here;
    howdah_bus *bus;
    howdah_builder *builder;
    char stream[32];
    char *data;
    size_t data_len;
} writer;

/*
 * {"at":TIME,"x":"..."}: the time lets the listener tell how old the event is.  The number has a
 * fixed width, so that every payload has the same length.
 */
static void put_data(writer *w)
{
    int n =
        snprintf(w->data, w->data_len + 1, STAMP "%-20lld,\"x\":\"", (long long)hw_clock_mono_us());

    assert(n > 0 && (size_t)n + 2 <= w->data_len); /* open_writer() */
    memset(w->data + n, 'x', w->data_len - (size_t)n - 2);
    memcpy(w->data + w->data_len - 2, "\"}", 3);
}

/* Without an expectation: each writer has its own stream, and the lock is what they fight for. */
static int append_once(writer *w, howdah_error *reterr)
{
    howdah_event *event = NULL;
    int s;

    put_data(w);
    howdah_builder_set_type(w->builder, BENCH_TYPE);
    howdah_builder_set_stream(w->builder, w->stream);
    howdah_builder_set_json(w->builder, w->data, w->data_len);
    s = howdah_builder_build(w->builder, &event, reterr);
    if (s >= 0)
        s = howdah_append(w->bus, event, NULL, NULL, reterr);
    howdah_event_free(event);
    return s;
}

/*
 * A failed append is counted and the writer goes on; after many there is nothing left to measure.
 */
static void write_until_stopped(writer *w, const findings *shared)
{
    while (!atomic_load(&shared->stop)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int64_t began_us = hw_clock_mono_us();
        int s = append_once(w, &err);
        int64_t us = hw_clock_mono_us() - began_us;

        bench_histogram_add(&w->here->latency, us);
        if (us > w->here->slowest_us)
            w->here->slowest_us = us;
        if (s >= 0)
            w->here->events++;
        else
            note_failure(w->here, &err);
        if (w->here->failures >= FAILURES_MAX)
            return;
    }
}

/* At least 64 bytes of payload, so that the stamp fits. */
static int open_writer(writer *w, const bench_site *site, unsigned number, howdah_error *reterr)
{
    int s;

    (void)snprintf(w->stream, sizeof w->stream, "bench-%u", number);
    w->data_len = (size_t)site->plan->payload < 64 ? 64 : (size_t)site->plan->payload;
    w->data = hw_alloc(w->data_len + 1);
    if (!w->data)
        return hw_fail_no_memory(reterr);
    s = howdah_builder_new(&w->builder, reterr);
    if (s >= 0)
        s = howdah_open(site->url, site->settings, &w->bus, reterr);
    /* The first append of a connection looks at the schema, and makes its statements. */
    return s < 0 ? s : append_once(w, reterr);
}

/* Also ends when all is over before it began: another child may have failed. */
static void wait_for_go(const findings *shared)
{
    while (!atomic_load(&shared->go) && !atomic_load(&shared->stop))
        a_moment();
}

/* Everybody starts at once: a writer that begins early has the file to itself. */
static int be_writer(const contest *c, unsigned number, howdah_error *reterr)
{
    writer w = {.here = &c->shared->places[number]};
    int s = open_writer(&w, c->site, number, reterr);

    if (s < 0)
        return s;
    atomic_store(&w.here->ready, true);
    wait_for_go(c->shared);
    write_until_stopped(&w, c->shared);
    howdah_close(w.bus);
    return HOWDAH_OK;
}

/* ---- the one that listens */

/* What the handler needs: where to count, and whether it counts yet. */
typedef struct listener {
    const findings *shared;
    place *here;
} listener;

/* Events from before the start are those that warmed up the connections; they do not count. */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    const listener *l = ctx;
    size_t len = 0;
    const char *data = howdah_event_data(event, &len);
    int64_t at_us = strtoll(data + strlen(STAMP), NULL, 10);

    (void)delivery;
    if (!atomic_load(&l->shared->go) || len < strlen(STAMP))
        return HOWDAH_HANDLED;
    l->here->events++;
    bench_histogram_add(&l->here->latency, hw_clock_mono_us() - at_us);
    return HOWDAH_HANDLED;
}

/* Ready only when it owns the subscription: a listener that comes late would miss the start. */
static int be_listener(const contest *c, howdah_error *reterr)
{
    listener l = {.shared = c->shared, .here = &c->shared->places[SUBSCRIBER]};
    howdah_subscribe_options options = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *subscription = NULL;
    howdah_bus *bus = NULL;
    int s = howdah_open(c->site->url, c->site->settings, &bus, reterr);

    options.subscriber_id = "bench:contend";
    options.handler = on_event;
    options.ctx = &l;
    options.start = HOWDAH_FROM_END;
    /* A checkpoint for each event would compete with the writers for the lock each time. */
    options.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    options.batch_size = CHECKPOINT_EVENTS;
    if (s >= 0)
        s = howdah_subscribe(bus, &options, &subscription, reterr);
    if (s >= 0)
        s = howdah_run(bus, LOOK_MS, reterr); /* it is the owner, and caught up */
    atomic_store(&l.here->ready, s >= 0);
    while (s >= 0 && !atomic_load(&c->shared->stop))
        s = howdah_run(bus, 100, reterr);
    howdah_close(bus);
    return s;
}

/* ---- processes */

/*
 * I2.  The parent's handlers would only set its flag, so signals have their default effect here.
 * If the parent has died before prctl(), no signal will come: hence the check of getppid().
 */
_Noreturn static void be_child(const contest *c, size_t number, pid_t parent)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    place *here = &c->shared->places[number];
    int s;

    assert(number < PLACES);

    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGTERM, SIG_DFL);
    (void)signal(SIGHUP, SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    s = number == SUBSCRIBER ? be_listener(c, &err) : be_writer(c, (unsigned)number, &err);
    if (s < 0) {
        note_failure(here, &err);
        atomic_store(&here->gone, true);
    }
    _exit(s < 0);
}

/* The parent's id is taken before fork(), where it is certain. */
static int start_child(contest *c, size_t number, howdah_error *reterr)
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child == 0)
        be_child(c, number, parent);
    if (child < 0)
        return hw_fail(reterr, HOWDAH_FAILED, "cannot start a process: %s", strerrordesc_np(errno));
    c->children[number] = child;
    return HOWDAH_OK;
}

/* Tells them to end, and waits; one that does not end in time is killed. */
static void end_children(contest *c)
{
    int64_t until_ms = hw_clock_mono_ms() + CHILD_PATIENCE_MS;

    atomic_store(&c->shared->stop, true);
    for (size_t i = 0; i < PLACES; i++) {
        while (c->children[i] > 0 && waitpid(c->children[i], NULL, WNOHANG) == 0) {
            if (hw_clock_mono_ms() > until_ms || cli_signal_caught())
                (void)kill(c->children[i], SIGKILL);
            a_moment();
        }
        c->children[i] = 0;
    }
}

/* A place without a child is ready. */
static int look_at(const contest *c, size_t number, bool *ret_ready, howdah_error *reterr)
{
    const place *here = &c->shared->places[number];

    if (c->children[number] == 0)
        return HOWDAH_OK;
    if (atomic_load(&here->gone))
        return hw_fail(reterr, HOWDAH_FAILED, "a process gave up: %s", here->error);
    *ret_ready = *ret_ready && atomic_load(&here->ready);
    return HOWDAH_OK;
}

/* Errors: a child's, INTERRUPTED. */
static int look_at_all(const contest *c, bool *ret_ready, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    *ret_ready = true;
    if (cli_signal_caught())
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    for (size_t i = 0; s >= 0 && i < PLACES; i++)
        s = look_at(c, i, ret_ready, reterr);
    return s;
}

/* Opening a store under contention takes a while, hence the patience. */
static int wait_until_ready(const contest *c, howdah_error *reterr)
{
    int64_t until_ms = hw_clock_mono_ms() + CHILD_PATIENCE_MS;
    bool ready = false;
    int s = look_at_all(c, &ready, reterr);

    while (s >= 0 && !ready) {
        if (hw_clock_mono_ms() > until_ms)
            return hw_fail(reterr, HOWDAH_TIMEOUT, "not all processes could start");
        a_moment();
        s = look_at_all(c, &ready, reterr);
    }
    return s;
}

/* The time runs by the parent's clock; children only look at the flags. */
static int let_them_work(const contest *c, int64_t ms, int64_t *ret_us, howdah_error *reterr)
{
    int64_t began_us = hw_clock_mono_us();
    bool ready;
    int s = HOWDAH_OK;

    atomic_store(&c->shared->go, true);
    while (s >= 0 && hw_clock_mono_us() - began_us < ms * 1000) {
        a_moment();
        s = look_at_all(c, &ready, reterr);
    }
    atomic_store(&c->shared->stop, true);
    *ret_us = hw_clock_mono_us() - began_us;
    return s;
}

/* However it goes, no child is left when this returns. */
static int hold_contest(contest *c, int64_t ms, int64_t *ret_us, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    memset(c->shared, 0, sizeof *c->shared);
    for (size_t i = 0; s >= 0 && i < c->writers; i++)
        s = start_child(c, i, reterr);
    if (s >= 0 && c->listening)
        s = start_child(c, SUBSCRIBER, reterr);
    if (s >= 0)
        s = wait_until_ready(c, reterr);
    if (s >= 0)
        s = let_them_work(c, ms, ret_us, reterr);
    end_children(c);
    return s;
}

/* ---- the bench */

/* Only after the children have ended: their places do not change any more. */
static void sum_up(const contest *c, bench_contention *sum)
{
    const place *heard = &c->shared->places[SUBSCRIBER];

    assert(c->writers <= BENCH_WRITERS_MAX);

    for (size_t i = 0; i < c->writers; i++) {
        const place *here = &c->shared->places[i];

        sum->events[i] = here->events;
        sum->total += here->events;
        sum->failures += here->failures;
        if (here->failures > 0 && !sum->first_failure[0])
            memcpy(sum->first_failure, here->error, sizeof sum->first_failure);
        if (here->slowest_us > sum->slowest_us)
            sum->slowest_us = here->slowest_us;
        bench_histogram_merge(&sum->waited, &here->latency);
    }
    sum->heard = heard->events;
    sum->hearing = heard->latency;
}

/* A quarter of the time for one writer alone, before all of them. */
static int hold_both(const bench_site *site, findings *shared, bench_contention *sum,
                     howdah_error *reterr)
{
    int64_t ms = site->plan->ms;
    contest c = {.site = site, .shared = shared, .writers = 1};
    int64_t us = 0;
    int s = HOWDAH_OK;

    if (site->plan->ceiling) {
        s = hold_contest(&c, ms / 4, &us, reterr);
        if (s >= 0 && us > 0)
            sum->alone_per_s = (double)shared->places[0].events * 1e6 / (double)us;
    }
    c.writers = (size_t)site->plan->clients;
    c.listening = true;
    if (s >= 0)
        s = hold_contest(&c, ms, &sum->us, reterr);
    if (s >= 0)
        sum_up(&c, sum);
    return s;
}

/* I1. */
static int leave_store(cli_context *cli, howdah_error *reterr)
{
    howdah_bus *bus = NULL;
    int s = howdah_open("sqlite::memory:", NULL, &bus, reterr);

    if (s < 0)
        return s;
    cli_signals_watch(bus);
    howdah_close(cli->bus);
    cli->bus = bus;
    return HOWDAH_OK;
}

/* Shared anonymous memory outlives a child that is killed, with all that it found out (I3). */
int bench_contend(cli_context *cli, const bench_site *site, bench_contention *ret_contention,
                  howdah_error *reterr)
{
    void *map =
        mmap(NULL, sizeof(findings), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int s;

    if (map == MAP_FAILED)
        return hw_fail_no_memory(reterr);
    memset(ret_contention, 0, sizeof *ret_contention);
    s = leave_store(cli, reterr);
    if (s >= 0)
        s = hold_both(site, map, ret_contention, reterr);
    (void)munmap(map, sizeof(findings));
    return s;
}

/* ---- the report */

static double per_s(const bench_contention *r)
{
    return r->us > 0 ? (double)r->total * 1e6 / (double)r->us : 0;
}

/* How much of one writer's rate is left when many share the lock. */
static double ratio_of(const bench_contention *r)
{
    return r->alone_per_s > 0 ? per_s(r) / r->alone_per_s : 0;
}

/* Of the least and of the best served: 1 is what each would get if all got the same. */
static void find_shares(const bench_contention *r, size_t n, double *ret_min, double *ret_max)
{
    int64_t least = r->events[0];
    int64_t most = r->events[0];
    double even = r->total > 0 ? (double)r->total / (double)n : 1;

    assert(n >= 1 && n <= BENCH_WRITERS_MAX);
    for (size_t i = 1; i < n; i++) {
        least = r->events[i] < least ? r->events[i] : least;
        most = r->events[i] > most ? r->events[i] : most;
    }
    *ret_min = (double)least / even;
    *ret_max = (double)most / even;
}

/* The names of the members are what scripts read. */
static void report_json(cli_out *out, const bench_site *site, const bench_contention *r)
{
    const bench_plan *plan = site->plan;
    double least = 0;
    double most = 0;

    find_shares(r, (size_t)plan->clients, &least, &most);
    cli_out_printf(out,
                   "{\"bench\":\"contend\",\"store\":\"%s\",\"writers\":%lld,\"payload\":%lld,"
                   "\"seconds\":%g,\"events_per_s\":%.1f",
                   site->backend->name, (long long)plan->clients, (long long)plan->payload,
                   (double)plan->ms / 1000, per_s(r));
    if (plan->ceiling)
        cli_out_printf(out, ",\"alone_per_s\":%.1f,\"ratio\":%.3f", r->alone_per_s, ratio_of(r));
    cli_out_printf(out, ",\"share_min\":%.3f,\"share_max\":%.3f,\"events\":[", least, most);
    for (size_t i = 0; i < (size_t)plan->clients; i++)
        cli_out_printf(out, "%s%lld", i ? "," : "", (long long)r->events[i]);
    cli_out_printf(out,
                   "],\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f,\"failures\":%lld,"
                   "\"heard\":%lld,\"heard_p50_ms\":%.3f,\"heard_p99_ms\":%.3f}\n",
                   bench_histogram_ms(&r->waited, 0.5), bench_histogram_ms(&r->waited, 0.99),
                   (double)r->slowest_us / 1e3, (long long)r->failures, (long long)r->heard,
                   bench_histogram_ms(&r->hearing, 0.5), bench_histogram_ms(&r->hearing, 0.99));
}

/* The same figures as report_json(), in sentences. */
static void report_text(cli_out *out, const bench_site *site, const bench_contention *r)
{
    const bench_plan *plan = site->plan;
    double least = 0;
    double most = 0;

    find_shares(r, (size_t)plan->clients, &least, &most);
    cli_out_style(out, CLI_BOLD);
    cli_out_printf(out, "contend on %s", site->backend->name);
    cli_out_style(out, CLI_PLAIN);
    cli_out_printf(out, ": %lld writer%s, payloads of %lld bytes\n", (long long)plan->clients,
                   plan->clients == 1 ? "" : "s", (long long)plan->payload);
    cli_out_printf(out, "%.0f events/s", per_s(r));
    if (plan->ceiling)
        cli_out_printf(out, "; one writer alone %.0f: ratio %.3f", r->alone_per_s, ratio_of(r));
    cli_out_printf(out, "\nshares from %.2f to %.2f of an even one\n", least, most);
    cli_out_printf(out, "an append: p50 %.3f ms, p99 %.3f ms, at most %.3f ms; %lld failed\n",
                   bench_histogram_ms(&r->waited, 0.5), bench_histogram_ms(&r->waited, 0.99),
                   (double)r->slowest_us / 1e3, (long long)r->failures);
    cli_out_printf(out, "a subscription beside them: p50 %.3f ms, p99 %.3f ms\n",
                   bench_histogram_ms(&r->hearing, 0.5), bench_histogram_ms(&r->hearing, 0.99));
}

void bench_contend_report(cli_context *cli, const bench_site *site,
                          const bench_contention *contention)
{
    if (cli->out.json)
        report_json(&cli->out, site, contention);
    else
        report_text(&cli->out, site, contention);
}
