/*
 * test_pg_failover.c - the primary is lost and a standby takes its place: what a process remembers
 * of the one must not be held against the other, and one that is not promoted yet is waited for.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <howdah/howdah_queue.h>

#include "servers.h"
#include "test_pg_help.h"

#define PATIENCE_MS 60000

typedef struct failover {
    pgt *t;
    srv *standby;
    srv_front *front;
    srv_pooler *pooler;
} failover;

static int failover_setup(void **state)
{
    failover *f = calloc(1, sizeof *f);
    void *inner = NULL;

    assert_non_null(f);
    *state = f;
    (void)pgt_setup(&inner);
    f->t = inner;
    f->front = srv_front_new();
    f->standby = srv_standby_new("standby");
    return 0;
}

static int failover_teardown(void **state)
{
    failover *f = *state;
    void *inner = f->t;

    srv_pooler_free(f->pooler);
    srv_free(f->standby);
    srv_front_free(f->front);
    srv_primary_start();
    pgt_reconnect(f->t);
    free(f);
    return pgt_teardown(&inner);
}

static int append_at(howdah_bus *bus, const char *stream, int64_t expected,
                     howdah_position *position, howdah_error *err)
{
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = pgt_event(stream);
    int s;

    o.expected_version = expected;
    s = howdah_append(bus, event, &o, position, err);
    howdah_event_free(event);
    return s;
}

/* ---- through a pooler, which hides it */

static void versions_stay_consecutive_when_a_pooler_moves_to_a_server_that_lacks_the_last(
    void **state)
{
    failover *f = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;
    howdah_bus *bus;

    f->pooler = srv_pooler_new(srv_primary_dir(), 1);
    bus = pgt_open(f->t, f->pooler->url);
    (void)pgt_append(bus, "s");
    (void)pgt_append(bus, "s");
    srv_catch_up(f->standby);
    srv_cut_off(f->standby);
    assert_int_equal(pgt_append(bus, "s").version, 3);
    srv_primary_stop();
    srv_promote(f->standby);
    srv_pooler_to(f->pooler, f->standby->dir);
    assert_int_equal(append_at(bus, "s", 3, &position, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 2);
    assert_int_equal(pgt_append(bus, "s").version, 3);
    howdah_close(bus);
}

typedef struct moving {
    failover *f;
    int batches;
} moving;

/* After the second of three batches the server is replaced by one that has only the first. */
static int on_progress(void *ctx, int64_t done, int64_t total)
{
    moving *m = ctx;

    (void)done;
    (void)total;
    if (++m->batches == 1) {
        srv_catch_up(m->f->standby);
        srv_cut_off(m->f->standby);
    } else if (m->batches == 2) {
        srv_primary_stop();
        srv_promote(m->f->standby);
        srv_pooler_to(m->f->pooler, m->f->standby->dir);
    }
    return 0;
}

static void an_import_that_meets_a_server_without_its_last_batch_stops_and_leaves_out_no_row(
    void **state)
{
    static const char *const map[] = {"stream=who", "type=what"};
    failover *f = *state;
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    moving m = {f, 0};
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t imported = 0;
    PGconn *admin;
    howdah_bus *bus;

    pgt_run(f->t, f->t->admin,
            "CREATE TABLE public.failover_old AS SELECT n AS id, 's' || n AS who, 'old' AS what,"
            " '{}'::json AS data, now() AS created_at FROM generate_series(1, 6) AS n");
    f->pooler = srv_pooler_new(srv_primary_dir(), 1);
    bus = pgt_open(f->t, f->pooler->url);
    o.table = "public.failover_old";
    o.map = map;
    o.map_n = 2;
    o.batch = 2;
    o.progress = on_progress;
    o.progress_ctx = &m;
    assert_int_equal(howdah_import(bus, &o, &imported, &err), HOWDAH_FAILED);
    assert_non_null(strstr(err.message, "does not have the 4 rows"));
    assert_non_null(strstr(err.advice, "import again"));
    o.progress = NULL;
    pgt_ok(howdah_import(bus, &o, &imported, &pgt_error));
    assert_int_equal(imported, 4);
    admin = pgt_session(f->standby->url);
    assert_int_equal(pgt_number(f->t, admin, "SELECT count(DISTINCT stream) FROM {events}"), 6);
    PQfinish(admin);
    howdah_close(bus);
    srv_primary_start();
    pgt_reconnect(f->t);
    pgt_run(f->t, f->t->admin, "DROP TABLE public.failover_old");
}

/* ---- a server that is not promoted yet */

#define APP "waiting"
#define VISITS 8 /* more than fit into one connect_timeout of a second */

/* The command, on the front, as a process; what it prints goes to a file. */
typedef struct program {
    pid_t pid;
    char out[200];
} program;

static program run_command(const failover *f, const char *line)
{
    program p = {.pid = 0};
    char command[1200];

    (void)snprintf(p.out, sizeof p.out, "%s/out", f->front->dir);
    (void)snprintf(command, sizeof command,
                   "exec '%s' --store '%s&application_name=" APP
                   "' --set connect_timeout=1s %s >'%s' 2>'%s.err'",
                   pgt_env("HOWDAH"), f->front->url, line, p.out, p.out);
    (void)fflush(NULL);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)setenv("HOWDAH_SCHEMA", f->t->schema, 1);
        (void)execl("/bin/sh", "sh", "-c", command, NULL);
        _exit(127);
    }
    return p;
}

static void assert_lives(const program *p)
{
    int status = 0;

    if (waitpid(p->pid, &status, WNOHANG) != 0)
        fail_msg("it ended with %d", WIFEXITED(status) ? WEXITSTATUS(status) : -status);
}

static int count_lines(const char *path)
{
    FILE *file = fopen(path, "r");
    int n = 0;

    if (!file)
        return 0;
    for (int c = getc(file); c != EOF; c = getc(file))
        n += c == '\n';
    assert_int_equal(fclose(file), 0);
    return n;
}

static void wait_for_lines(const program *p, int n)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    while (count_lines(p->out) < n) {
        assert_lives(p);
        if (pgt_now_ms() > until)
            fail_msg("%d lines of %d after a minute", count_lines(p->out), n);
        (void)usleep(5000);
    }
}

static void end_command(program *p)
{
    assert_lives(p);
    (void)kill(p->pid, SIGKILL);
    (void)waitpid(p->pid, NULL, 0);
}

/* The front leads to a standby, which is promoted only when the command has met it often. */
static void fail_over_slowly(failover *f, const program *p)
{
    srv_catch_up(f->standby);
    srv_front_to(f->front, f->standby->dir);
    srv_primary_stop();
    srv_wait_for_log(f->standby, "application_name=" APP, VISITS);
    assert_lives(p);
    srv_promote(f->standby);
}

/* Goes on by itself with what is appended on the new primary. */
static void assert_survives(failover *f, const char *line)
{
    program p = run_command(f, line);
    howdah_bus *bus;

    (void)pgt_append(f->t->bus, "s");
    wait_for_lines(&p, 1);
    fail_over_slowly(f, &p);
    bus = pgt_open(f->t, f->standby->url);
    (void)pgt_append(bus, "s");
    wait_for_lines(&p, 2);
    end_command(&p);
    howdah_close(bus);
}

static void a_subscriber_waits_for_a_standby_to_be_promoted_and_goes_on(void **state)
{
    assert_survives(*state, "subscribe p --json");
}

static void a_follower_waits_for_a_standby_to_be_promoted_and_goes_on(void **state)
{
    assert_survives(*state, "follow --since 0 --json");
}

static void push(howdah_bus *bus)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;

    pgt_ok(howdah_queue_push(bus, "q", &job, NULL, &pgt_error));
}

static void a_worker_waits_for_a_standby_to_be_promoted_and_goes_on(void **state)
{
    failover *f = *state;
    char line[300];
    howdah_bus *bus;
    program p;

    push(f->t->bus);
    (void)snprintf(line, sizeof line, "work q --exec 'echo done >>%s/out'", f->front->dir);
    p = run_command(f, line);
    wait_for_lines(&p, 1);
    fail_over_slowly(f, &p);
    bus = pgt_open(f->t, f->standby->url);
    push(bus);
    wait_for_lines(&p, 2);
    end_command(&p);
    howdah_close(bus);
}

/* In a process of its own: what it came to. */
static pid_t append_in_child(howdah_bus *bus)
{
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        howdah_position position = HOWDAH_POSITION_INIT;
        int s = append_at(bus, "s", HOWDAH_EXPECT_ANY, &position, NULL);

        _exit(s < 0 ? 100 - s : (int)position.version);
    }
    return pid;
}

static int result_of(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -status;
}

/* A bus of this process that only its child goes on with. */
static howdah_bus *open_patient(const failover *f, const char *url)
{
    howdah_settings *settings = pgt_settings(f->t, "connect_timeout", "60s");
    howdah_bus *bus = NULL;

    pgt_ok(howdah_open(pgt_url_with(url, "application_name=" APP), settings, &bus, &pgt_error));
    howdah_settings_free(settings);
    return bus;
}

static void an_append_waits_for_a_standby_to_be_promoted(void **state)
{
    failover *f = *state;
    howdah_bus *bus = open_patient(f, f->front->url);
    pid_t pid;

    assert_int_equal(pgt_append(bus, "s").version, 1);
    srv_catch_up(f->standby);
    srv_front_to(f->front, f->standby->dir);
    srv_primary_stop();
    pid = append_in_child(bus);
    srv_wait_for_log(f->standby, "application_name=" APP, 3);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    srv_promote(f->standby);
    assert_int_equal(result_of(pid), 2);
    howdah_close(bus);
}

/* The connection is whole, and the server behind it takes no writes. */
static void an_append_through_a_pooler_waits_for_a_standby_to_be_promoted(void **state)
{
    failover *f = *state;
    howdah_bus *bus;
    pid_t pid;

    f->pooler = srv_pooler_new(srv_primary_dir(), 1);
    bus = open_patient(f, f->pooler->url);
    assert_int_equal(pgt_append(bus, "s").version, 1);
    srv_catch_up(f->standby);
    srv_pooler_to(f->pooler, f->standby->dir);
    pid = append_in_child(bus);
    srv_wait_for_log(f->standby, "in a read-only transaction", 1);
    srv_primary_stop();
    srv_promote(f->standby);
    assert_int_equal(result_of(pid), 2);
    howdah_close(bus);
}

/* The others are not there; the one that is takes no writes yet. */
static void of_several_hosts_one_is_waited_for_from_the_first_connection_on(void **state)
{
    failover *f = *state;
    howdah_settings *settings = pgt_settings(f->t, "connect_timeout", "60s");
    char url[800];
    pid_t pid;

    srv_catch_up(f->standby);
    srv_primary_stop();
    (void)snprintf(url, sizeof url,
                   "postgres://postgres@/howdah_test?host=%s,%s&port=%s,%s&application_name=" APP,
                   srv_primary_dir(), f->standby->dir, srv_port(), srv_port());
    (void)fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        howdah_position position = HOWDAH_POSITION_INIT;
        howdah_bus *bus = NULL;

        if (howdah_open(url, settings, &bus, NULL) < 0 ||
            append_at(bus, "s", HOWDAH_EXPECT_ANY, &position, NULL) < 0)
            _exit(100);
        _exit((int)position.version);
    }
    srv_wait_for_log(f->standby, "application_name=" APP, 3);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    srv_promote(f->standby);
    assert_int_equal(result_of(pid), 1);
    howdah_settings_free(settings);
}

static void a_standby_at_the_first_connection_is_refused_at_once(void **state)
{
    const failover *f = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    assert_int_equal(howdah_open(f->standby->url, f->t->settings, &bus, &err), HOWDAH_READ_ONLY);
    assert_int_equal(err.flags, 0);
    assert_non_null(strstr(err.advice, "connect to the primary"));
}

/* ---- a tail on a standby, which cannot see who holds numbers on its primary */

static void a_tail_on_a_standby_gets_everything_and_costs_nothing_while_it_waits(void **state)
{
    failover *f = *state;
    const pgt *t = f->t;
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    PGconn *there = pgt_session(f->standby->url);
    PGconn *open = pgt_session(t->url);
    howdah_tail *tail = NULL;
    const howdah_event *event = NULL;
    howdah_bus *bus;
    int64_t before;
    int64_t used;

    pgt_run(t, open, "BEGIN");
    pgt_run(t, open, "SELECT {append}('open', 'open.event')");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) SELECT 's', g, 't', 'null'"
            " FROM generate_series(1, 3000) AS g"
            " WHERE nextval('{events_global_sequence_seq}') IS NOT NULL");
    srv_catch_up(f->standby);
    bus = pgt_open_with(t, f->standby->url, "read_only", "true");
    o.since = 0;
    pgt_ok(howdah_tail_open(bus, &o, &tail, &pgt_error));
    pgt_tail(tail, 3000);
    before = pgt_cpu_ms(t, there);
    assert_int_equal(howdah_tail_next(tail, 2000, &event, &pgt_error), HOWDAH_END);
    used = pgt_cpu_ms(t, there) - before;
    print_message("# %lld ms of processor time in 2000\n", (long long)used);
    assert_in_range(used, 0, 200);
    (void)pgt_append(t->bus, "new");
    pgt_tail(tail, 1);
    pgt_run(t, open, "COMMIT");
    pgt_tail(tail, 1);
    howdah_tail_close(tail);
    howdah_close(bus);
    PQfinish(open);
    PQfinish(there);
}

static void a_tail_on_a_standby_minds_no_gaps_before_its_beginning(void **state)
{
    failover *f = *state;
    const pgt *t = f->t;
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *tail = NULL;
    howdah_bus *bus;

    /* More than anybody keeps; nobody has proven on the primary that they are dead. */
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) SELECT 's', g, 't', 'null'"
            " FROM generate_series(1, 100010) AS g"
            " WHERE nextval('{events_global_sequence_seq}') IS NOT NULL");
    o.since = pgt_number(t, t->admin, "SELECT max(global_sequence) - 20 FROM {events}");
    srv_catch_up(f->standby);
    bus = pgt_open_with(t, f->standby->url, "read_only", "true");
    pgt_ok(howdah_tail_open(bus, &o, &tail, &pgt_error));
    pgt_tail(tail, 10);
    (void)pgt_append(t->bus, "new");
    pgt_tail(tail, 1);
    howdah_tail_close(tail);
    o.since = 0;
    assert_int_equal(howdah_tail_open(bus, &o, &tail, &pgt_error), HOWDAH_OK);
    assert_int_equal(howdah_tail_next(tail, 0, &(const howdah_event *){NULL}, &pgt_error),
                     HOWDAH_LIMIT);
    assert_non_null(strstr(pgt_error.advice, "on the primary"));
    howdah_tail_close(tail);
    howdah_close(bus);
}

#define FAILOVER_TEST(name) cmocka_unit_test_setup_teardown(name, failover_setup, failover_teardown)

static const struct CMUnitTest tests[] = {
    FAILOVER_TEST(versions_stay_consecutive_when_a_pooler_moves_to_a_server_that_lacks_the_last),
    FAILOVER_TEST(an_import_that_meets_a_server_without_its_last_batch_stops_and_leaves_out_no_row),

    FAILOVER_TEST(a_subscriber_waits_for_a_standby_to_be_promoted_and_goes_on),
    FAILOVER_TEST(a_follower_waits_for_a_standby_to_be_promoted_and_goes_on),
    FAILOVER_TEST(a_worker_waits_for_a_standby_to_be_promoted_and_goes_on),
    FAILOVER_TEST(an_append_waits_for_a_standby_to_be_promoted),
    FAILOVER_TEST(an_append_through_a_pooler_waits_for_a_standby_to_be_promoted),
    FAILOVER_TEST(of_several_hosts_one_is_waited_for_from_the_first_connection_on),
    FAILOVER_TEST(a_standby_at_the_first_connection_is_refused_at_once),

    FAILOVER_TEST(a_tail_on_a_standby_gets_everything_and_costs_nothing_while_it_waits),
    FAILOVER_TEST(a_tail_on_a_standby_minds_no_gaps_before_its_beginning),
};

PGT_MAIN("pg failover", tests)
