/*
 * test_route_kills.c - processes that route are killed: every event that matches has one job all
 * the same.  The first argument is the kind of store: sqlite, or pg (HOWDAH_TEST_PG names the
 * server).
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <howdah/howdah.h>

#include "base/clock.h"
#include "base/random.h"

#define STREAMS 4
#define BATCH 10 /* events in one append; every fifth is of another type */
#define PATIENCE_MS 60000

static const char *kind;
static howdah_error error = HOWDAH_ERROR_INIT;

#define must(call)                                                                                 \
    do {                                                                                           \
        int must_status = (call);                                                                  \
        if (must_status < 0)                                                                       \
            fail_msg("%s: %s %s", #call, howdah_status_name(must_status), error.message);          \
    } while (0)

typedef struct site {
    howdah_bus *bus; /* the test's own */
    howdah_settings *settings;
    char url[1100];
    char dir[64];
    int appended; /* events so far */
} site;

static int setup(void **state)
{
    site *p = calloc(1, sizeof *p);
    char schema[64];

    assert_non_null(p);
    (void)snprintf(schema, sizeof schema, "kills_%d_%x", (int)getpid(), hw_random_u32());
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/howdah-kills-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    if (strcmp(kind, "pg") == 0)
        (void)snprintf(p->url, sizeof p->url, "%s", getenv("HOWDAH_TEST_PG"));
    else
        (void)snprintf(p->url, sizeof p->url, "sqlite:%s/bus.db", p->dir);
    must(howdah_settings_new(&p->settings, &error));
    must(howdah_settings_set(p->settings, "schema", schema, &error));
    must(howdah_open(p->url, p->settings, &p->bus, &error));
    must(howdah_migrate(p->bus, NULL, &error));
    must(howdah_queue_bind(p->bus, "q", "order.*", NULL, &error));
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    site *p = *state;
    char command[100];

    howdah_close(p->bus);
    howdah_settings_free(p->settings);
    (void)snprintf(command, sizeof command, "rm -rf '%s'", p->dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a path of our own */
    free(p);
    return 0;
}

/* ---- events */

/* BATCH of them in one transaction, over all streams. */
static void append(site *p)
{
    howdah_event *events[BATCH];
    howdah_builder *b = NULL;

    must(howdah_builder_new(&b, &error));
    for (int i = 0; i < BATCH; i++, p->appended++) {
        char stream[16];

        howdah_builder_reset(b);
        (void)snprintf(stream, sizeof stream, "s%d", p->appended % STREAMS);
        howdah_builder_set_stream(b, stream);
        howdah_builder_set_type(b, i % 5 == 4 ? "user.made" : "order.made");
        howdah_builder_set_json(b, "{}", 2);
        must(howdah_builder_build(b, &events[i], &error));
    }
    must(howdah_append_batch(p->bus, (const howdah_event *const *)events, BATCH, NULL, NULL,
                             &error));
    for (int i = 0; i < BATCH; i++)
        howdah_event_free(events[i]);
    howdah_builder_free(b);
}

static int matching(const site *p)
{
    return p->appended / 5 * 4;
}

/* ---- processes */

static int done(void *ctx, const howdah_job *job, howdah_work *work)
{
    (void)ctx;
    (void)job;
    (void)work;
    return HOWDAH_WORK_DONE;
}

static int work(howdah_bus *bus)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;

    o.queue = "q";
    o.handler = done;
    o.lease_ms = 1000;
    if (howdah_worker_new(bus, &o, &worker, NULL) < 0)
        return 1;
    return howdah_worker_run(worker, -1, NULL) < 0 ? 2 : 0;
}

static int route(howdah_bus *bus)
{
    if (howdah_bindings_serve(bus, "q", NULL) < 0)
        return 1;
    return howdah_run(bus, -1, NULL) < 0 ? 2 : 0;
}

/* A process that does so until it is killed. */
static pid_t start(const site *p, int (*life)(howdah_bus *bus), const char *failpoint)
{
    pid_t pid = fork();
    howdah_bus *bus = NULL;

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (failpoint)
        (void)setenv("HOWDAH_FAILPOINT", failpoint, 1);
    if (howdah_open(p->url, p->settings, &bus, NULL) < 0)
        _exit(3);
    _exit(life(bus));
}

/* It was killed, by us or at its point. */
static void reap(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    reap(pid);
}

/* Events come until the process has met its point. */
static void append_until_dead(site *p, pid_t pid)
{
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;
    siginfo_t ended = {.si_pid = 0};

    while (ended.si_pid == 0) {
        assert_true(hw_clock_mono_ms() < until);
        append(p);
        (void)usleep(100000);
        assert_int_equal(waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT), 0);
    }
    reap(pid);
}

/* ---- what is stored */

static int take_lag(void *ctx, const howdah_binding_info *info)
{
    *(int64_t *)ctx = info->lag;
    return 0;
}

static void wait_routed(const site *p)
{
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;
    int64_t lag = -1;

    while (lag != 0) {
        assert_true(hw_clock_mono_ms() < until);
        (void)usleep(10000);
        must(howdah_bindings_walk(p->bus, "q", take_lag, &lag, &error));
    }
}

static int keep_info(void *ctx, const howdah_queue_info *info)
{
    *(howdah_queue_info *)ctx = *info;
    return 0;
}

static howdah_queue_info info_of(const site *p)
{
    howdah_queue_info info = {0};

    must(howdah_queues_walk(p->bus, "q", keep_info, &info, &error));
    return info;
}

typedef struct tally {
    int jobs;
    int times[4096]; /* of each event */
    int64_t last[STREAMS];
    int disorder;
} tally;

static int count(void *ctx, const howdah_job *job)
{
    tally *t = ctx;
    int64_t sequence = howdah_job_event_sequence(job);
    int stream = howdah_job_event_stream(job)[1] - '0';

    assert_string_equal(howdah_job_event_type(job), "order.made");
    assert_string_equal(howdah_job_key(job), howdah_job_event_stream(job));
    assert_true(sequence > 0 && sequence < 4096);
    t->jobs++;
    t->times[sequence]++;
    t->disorder += sequence <= t->last[stream];
    t->last[stream] = sequence;
    return 0;
}

/* Works on what is left, if anything, and looks at the history. */
static void expect_each_once(const site *p)
{
    tally *t = calloc(1, sizeof *t);
    howdah_jobs *jobs = NULL;

    assert_non_null(t);
    while (howdah_queue_claim(p->bus, "q", 100, NULL, &jobs, &error) == HOWDAH_OK) {
        for (size_t i = 0; i < howdah_jobs_count(jobs); i++) {
            const howdah_job *job = howdah_jobs_at(jobs, i);

            must(howdah_job_complete(p->bus, howdah_job_id(job), howdah_job_token(job), NULL,
                                     &error));
        }
        howdah_jobs_free(jobs);
    }
    must(howdah_queue_history_walk(p->bus, "q", NULL, count, t, &error));
    assert_int_equal(t->jobs, matching(p));
    for (int i = 0; i < 4096; i++)
        assert_true(t->times[i] <= 1);
    assert_int_equal(t->disorder, 0);
    free(t);
}

/* ---- the tests */

static void a_router_killed_at_each_point_leaves_one_job_for_each_event(void **state)
{
    static const char *const points[] = {"route.before_store:kill@2", "route.after_store:kill"};
    site *p = *state;
    pid_t next;

    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++)
        append_until_dead(p, start(p, route, points[i]));
    next = start(p, route, NULL);
    wait_routed(p);
    end(next);
    assert_int_equal(info_of(p).pending + info_of(p).scheduled, matching(p));
    expect_each_once(p);
}

static void workers_killed_at_random_leave_one_job_for_each_event(void **state)
{
    site *p = *state;
    pid_t hands[3];
    int64_t until;

    for (int i = 0; i < 3; i++)
        hands[i] = start(p, work, NULL);
    for (int round = 0; round < 12; round++) {
        int victim = (int)(hw_random_u32() % 3);

        for (int i = 0; i < 3; i++)
            append(p);
        (void)usleep((unsigned)(hw_random_u32() % 300) * 1000);
        end(hands[victim]);
        hands[victim] = start(p, work, NULL);
    }
    wait_routed(p);
    until = hw_clock_mono_ms() + PATIENCE_MS;
    while (info_of(p).completed < matching(p)) {
        assert_true(hw_clock_mono_ms() < until);
        (void)usleep(20000);
    }
    for (int i = 0; i < 3; i++)
        end(hands[i]);
    assert_int_equal(info_of(p).completed, matching(p));
    assert_int_equal(info_of(p).failed, 0);
    expect_each_once(p);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_router_killed_at_each_point_leaves_one_job_for_each_event,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(workers_killed_at_random_leave_one_job_for_each_event,
                                        setup, teardown),
    };

    kind = argc > 1 ? argv[1] : "sqlite";
    return cmocka_run_group_tests_name(kind, tests, NULL, NULL);
}
