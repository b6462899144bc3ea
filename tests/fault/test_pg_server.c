/*
 * test_pg_server.c - a server that stops, crashes and comes back, and one that is a standby.
 * Runs with a server of its own (tools/with-pg), because it ends it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "test_pg_help.h"

static void crash(pgt *t)
{
    pgt_ctl("stop -m immediate");
    pgt_ctl("start");
    pgt_reconnect(t);
}

static howdah_tail *open_tail(howdah_bus *bus, int64_t since)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *tail = NULL;

    o.since = since;
    pgt_ok(howdah_tail_open(bus, &o, &tail, &pgt_error));
    return tail;
}

/* Events of these streams come, "a b c", and then nothing for wait_ms. */
static void assert_drained(howdah_tail *tail, int wait_ms, const char *expected)
{
    static char text[4096];
    const howdah_event *event = NULL;
    size_t len = 0;
    int s;

    text[0] = '\0';
    while ((s = howdah_tail_next(tail, len < strlen(expected) ? 60000 : wait_ms, &event,
                                 &pgt_error)) == HOWDAH_OK)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "",
                                howdah_event_stream(event));
    pgt_ok(s);
    assert_string_equal(text, expected);
}

/* ---- restarts */

static void a_restarted_server_is_found_again_by_the_next_call(void **state)
{
    pgt *t = *state;
    howdah_event *last = NULL;
    pgt_batch b = pgt_batch_new("s", 2500, 1);

    assert_int_equal(pgt_append(t->bus, "s").version, 1);
    crash(t);
    assert_int_equal(pgt_append(t->bus, "s").version, 2);
    pgt_ctl("restart -m fast");
    pgt_reconnect(t);
    pgt_ok(howdah_event_get_last(t->bus, "s", &last, &pgt_error));
    assert_int_equal(howdah_event_version(last), 2);
    howdah_event_free(last);
    crash(t);
    pgt_ok(howdah_append_batch(t->bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
    assert_int_equal(b.positions[2499].version, 2502);
    pgt_batch_free(&b);
}

static void *start_later(void *arg)
{
    int *failed = arg;

    (void)usleep(700000);
    *failed = pgt_run_ctl(pgt_env("HOWDAH_TEST_PG_CTL"), "start");
    return NULL;
}

static void an_append_waits_for_a_server_that_comes_back_in_time(void **state)
{
    pgt *t = *state;
    pthread_t thread;
    int failed = 1;
    int64_t start;

    (void)pgt_append(t->bus, "s");
    pgt_ctl("stop -m fast");
    assert_int_equal(pthread_create(&thread, NULL, start_later, &failed), 0);
    start = pgt_now_ms();
    assert_int_equal(pgt_append(t->bus, "s").version, 2);
    assert_true(pgt_now_ms() - start < 10000); /* connect_timeout */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(failed, 0);
    pgt_reconnect(t);
    assert_int_equal(pgt_count(t), 2);
}

static void a_server_that_stays_away_is_unavailable_after_connect_timeout(void **state)
{
    pgt *t = *state;
    howdah_bus *bus = pgt_open_with(t, t->url, "connect_timeout", "700ms");
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;
    int64_t start;
    int64_t took;

    pgt_ctl("stop -m fast");
    start = pgt_now_ms();
    assert_int_equal(howdah_append(bus, event, NULL, &p, &err), HOWDAH_UNAVAILABLE);
    took = pgt_now_ms() - start;
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_true(took < 700 + 1500);
    pgt_ctl("start");
    pgt_reconnect(t);
    pgt_ok(howdah_append(bus, event, NULL, &p, &pgt_error));
    assert_int_equal(p.already_stored, 0);
    howdah_event_free(event);
    howdah_close(bus);
}

/* ---- crashes */

static void a_sequence_that_jumps_in_a_crash_does_no_harm(void **state)
{
    pgt *t = *state;
    howdah_tail *tail = open_tail(t->bus, 0);
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t before = 0;
    int64_t last = 0;
    char text[16] = "";

    for (int i = 0; i < 3; i++)
        before = pgt_append(t->bus, "a").global_sequence;
    assert_drained(tail, 100, "a a a");
    crash(t);
    last = pgt_append(t->bus, "b").global_sequence;
    assert_true(last > before + 1); /* otherwise this test proves nothing */
    (void)pgt_append(t->bus, "c");
    assert_drained(tail, 300, "b c");
    pgt_ok(howdah_reader_open_since(t->bus, 0, &reader, &pgt_error));
    for (last = 0; howdah_reader_next(reader, &event, &pgt_error) == HOWDAH_OK;
         last = howdah_event_global_sequence(event)) {
        assert_true(howdah_event_global_sequence(event) > last);
        (void)strcat(text, howdah_event_stream(event));
    }
    assert_string_equal(text, "aaabc");
    howdah_reader_close(reader);
    (void)pgt_append(t->bus, "d");
    assert_drained(tail, 300, "d");
    howdah_tail_close(tail);
}

static void a_prepared_transaction_outlives_a_crash_and_the_tail_waits_for_it(void **state)
{
    pgt *t = *state;
    howdah_tail *tail = open_tail(t->bus, 0);

    pgt_run(t, t->admin, "BEGIN");
    pgt_run(t, t->admin, "SELECT {append}('prepared', 't')");
    pgt_run(t, t->admin, "PREPARE TRANSACTION 'crash-%d'", (int)getpid());
    (void)pgt_append(t->bus, "a");
    assert_drained(tail, 100, "a");
    crash(t);
    (void)pgt_append(t->bus, "b");
    assert_drained(tail, 300, "b");
    pgt_run(t, t->admin, "COMMIT PREPARED 'crash-%d'", (int)getpid());
    assert_drained(tail, 300, "prepared");
    (void)pgt_append(t->bus, "c");
    assert_drained(tail, 300, "c");
    howdah_tail_close(tail);
}

/* ---- a log that is put back under sessions that go on */

static void put_back_to(pgt *t, int64_t sequence)
{
    pgt_run(t, t->admin, "DELETE FROM {events} WHERE global_sequence > %lld", (long long)sequence);
    pgt_run(t, t->admin, "SELECT setval('{events_global_sequence_seq}', %lld)",
            (long long)sequence);
}

static void a_tail_notices_that_its_log_was_put_back_under_its_session(void **state)
{
    pgt *t = *state;
    howdah_tail *tail = open_tail(t->bus, 0);
    int64_t first = pgt_append(t->bus, "a").global_sequence;

    assert_drained(tail, 100, "a");
    (void)pgt_append(t->bus, "b");
    (void)pgt_append(t->bus, "c");
    assert_drained(tail, 100, "b c");
    put_back_to(t, first);
    pgt_run(t, t->admin, "SELECT {append}('d', 't')"); /* below all that it has seen */
    assert_drained(tail, 300, "d");
    pgt_run(t, t->admin, "BEGIN");
    put_back_to(t, first);
    for (int stream = 'e'; stream <= 'h'; stream++) /* beyond that, before it can look */
        pgt_run(t, t->admin, "SELECT {append}('%c', 't')", stream);
    pgt_run(t, t->admin, "COMMIT");
    assert_drained(tail, 300, "e f g h");
    howdah_tail_close(tail);
}

static void a_schema_that_was_dropped_and_made_anew_is_found_again(void **state)
{
    pgt *t = *state;
    howdah_tail *tail = open_tail(t->bus, 0);
    howdah_bus *other = pgt_open(t, t->url);

    (void)pgt_append(t->bus, "a");
    assert_drained(tail, 100, "a");
    pgt_run(t, t->admin, "SET client_min_messages = warning");
    pgt_run(t, t->admin, "DROP SCHEMA {schema} CASCADE");
    pgt_ok(howdah_migrate(other, NULL, &pgt_error));
    (void)pgt_append(other, "b");
    assert_drained(tail, 300, "b");
    assert_int_equal(pgt_append(t->bus, "b").version, 2);
    assert_drained(tail, 300, "b");
    howdah_close(other);
    howdah_tail_close(tail);
}

#define WRITERS 4

typedef struct tally {
    volatile bool stop;
    int64_t acknowledged[WRITERS];
    int64_t odd[WRITERS]; /* an error that says neither "again" nor "unknown" */
} tally;

/* Appends until told to stop; an event is counted when it is acknowledged. */
static void write_stubbornly(const pgt *t, int me, tally *all)
{
    char stream[32];
    howdah_bus *bus = NULL;

    if (howdah_open(t->url, t->settings, &bus, NULL) < 0)
        _exit(2);
    (void)snprintf(stream, sizeof stream, "w%d", me);
    while (!all->stop) {
        howdah_event *event = pgt_event(stream);
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_position p = HOWDAH_POSITION_INIT;
        int s;

        while ((s = howdah_append(bus, event, NULL, &p, &err)) < 0) {
            if (!(err.flags & (HOWDAH_RETRYABLE | HOWDAH_OUTCOME_UNKNOWN)))
                all->odd[me]++;
            (void)usleep(1000);
        }
        all->acknowledged[me]++;
        howdah_event_free(event);
    }
    howdah_close(bus);
    _exit(0);
}

static void what_was_acknowledged_before_a_crash_is_there_once_after_it(void **state)
{
    pgt *t = *state;
    tally *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[WRITERS];

    assert_true(all != MAP_FAILED);
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            write_stubbornly(t, i, all);
    }
    for (int i = 0; i < 2; i++) {
        (void)usleep(700000);
        crash(t);
    }
    (void)usleep(300000);
    for (int i = 0; i < WRITERS; i++)
        for (int k = 0; k < 6000 && all->acknowledged[i] <= 10; k++)
            (void)usleep(10000);
    all->stop = true;
    for (int i = 0; i < WRITERS; i++) {
        int status = 0;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        assert_int_equal(all->odd[i], 0);
        assert_true(all->acknowledged[i] > 10);
        assert_int_equal(
            pgt_number(t, t->admin, "SELECT count(*) FROM {events} WHERE stream = 'w%d'", i),
            all->acknowledged[i]);
        assert_int_equal(
            pgt_number(t, t->admin, "SELECT max(version) FROM {events} WHERE stream = 'w%d'", i),
            all->acknowledged[i]);
    }
    (void)munmap(all, sizeof *all);
}

/* ---- a standby */

static struct {
    bool started;
    char data[300];
    char script[320];
    char url[1024];
} standby;

static void shell(const char *fmt, ...) PGT_PRINTF(1, 2);

static void shell(const char *fmt, ...)
{
    char command[2048];
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(command, sizeof command, fmt, args);
    va_end(args);
    if (system(command) != 0) /* NOLINT(cert-env33-c): paths of our own */
        fail_msg("%s", command);
}

/* A copy of the stopped cluster that waits for WAL that never comes, on another port. */
static void start_standby(pgt *t)
{
    const char *data = pgt_env("HOWDAH_TEST_PG_DATA");
    const char *script = pgt_env("HOWDAH_TEST_PG_CTL");
    int port = 0;

    (void)snprintf(standby.data, sizeof standby.data, "%s-standby", data);
    (void)snprintf(standby.script, sizeof standby.script, "%s-standby", script);
    pgt_ctl("stop -m fast");
    shell("rm -rf '%s' && cp -a '%s' '%s' && cp -a '%s/PG_VERSION' '%s/standby.signal'",
          standby.data, data, standby.data, data, standby.data);
    pgt_ctl("start");
    pgt_reconnect(t);
    shell("sed 's|%s|%s|g' '%s' >'%s' && chmod 755 '%s'", data, standby.data, script,
          standby.script, standby.script);
    for (int i = 0; i < 10; i++) {
        port = 20000 + (int)(hw_random_u32() % 12000);
        shell("echo 'port = %d' >'%s/port.conf'", port, standby.data);
        if (pgt_run_ctl(standby.script, "start") == 0)
            break;
        port = 0;
    }
    assert_true(port > 0);
    standby.started = true;
    (void)snprintf(standby.url, sizeof standby.url, "postgres://postgres@/%s?host=%s&port=%d",
                   PQdb(t->admin), PQhost(t->admin), port);
}

static void stop_standby(void)
{
    if (!standby.started)
        return;
    (void)pgt_run_ctl(standby.script, "stop -m immediate");
    shell("rm -rf '%s' '%s'", standby.data, standby.script);
    standby.started = false;
}

static int is_finding(void *ctx, const howdah_finding *finding)
{
    char *text = ctx;

    if (strcmp(finding->check, "role") == 0)
        (void)snprintf(text, 200, "%d %s", (int)finding->severity, finding->message);
    return 0;
}

static int never(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    (void)delivery;
    fail_msg("an event was delivered on a standby");
    return HOWDAH_HALT;
}

static void check_standby(pgt *t)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_tail *tail;
    char text[200] = "";

    assert_int_equal(howdah_open(standby.url, t->settings, &bus, &err), HOWDAH_READ_ONLY);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_non_null(strstr(err.message, "in recovery"));
    assert_non_null(strstr(err.advice, "read_only=true"));
    bus = pgt_open_with(t, standby.url, "read_only", "true");
    assert_int_equal(howdah_append(bus, event, NULL, &p, &err), HOWDAH_READ_ONLY);
    howdah_event_free(event);
    pgt_ok(howdah_event_get_last(bus, "b", &event, &pgt_error));
    assert_int_equal(howdah_event_version(event), 1);
    howdah_event_free(event);
    /* Nobody can own a subscription here: an advisory lock of a standby elects nobody. */
    o.subscriber_id = "p";
    o.handler = never;
    assert_int_equal(howdah_subscribe(bus, &o, &sub, &err), HOWDAH_READ_ONLY);
    /* A hole is not proven dead here, and does not stop the tail. */
    tail = open_tail(bus, 0);
    assert_drained(tail, 300, "a b");
    howdah_tail_close(tail);
    pgt_ok(howdah_doctor(standby.url, t->settings, is_finding, text, &pgt_error));
    assert_string_equal(text, "2 the server is in recovery: it takes no writes");
    howdah_close(bus);
}

static void a_standby_is_refused_for_writing_and_can_be_read(void **state)
{
    pgt *t = *state;
    char url[1200];
    howdah_bus *bus;

    (void)pgt_append(t->bus, "a");
    pgt_run(t, t->admin, "BEGIN; SELECT {append}('gone', 't'); ROLLBACK");
    (void)pgt_append(t->bus, "b");
    start_standby(t);
    check_standby(t);
    /* Of a standby and a primary the one that takes writes is found, in either order. */
    (void)snprintf(url, sizeof url, "postgres://postgres@/%s?host=%s,%s&port=%s,%s", PQdb(t->admin),
                   PQhost(t->admin), PQhost(t->admin), strrchr(standby.url, '=') + 1,
                   PQport(t->admin));
    bus = pgt_open(t, url);
    assert_int_equal(pgt_append(bus, "a").version, 2);
    howdah_close(bus);
    assert_int_equal(pgt_count(t), 3);
}

/* Whatever the test did: the next one finds the server running, and alone. */
static int server_teardown(void **state)
{
    pgt *t = *state;

    stop_standby();
    PQreset(t->admin);
    if (PQstatus(t->admin) != CONNECTION_OK)
        pgt_ctl("start");
    return pgt_teardown(state);
}

#define SERVER_TEST(name) cmocka_unit_test_setup_teardown(name, pgt_setup, server_teardown)

static const struct CMUnitTest tests[] = {
    SERVER_TEST(a_restarted_server_is_found_again_by_the_next_call),
    SERVER_TEST(an_append_waits_for_a_server_that_comes_back_in_time),
    SERVER_TEST(a_server_that_stays_away_is_unavailable_after_connect_timeout),
    SERVER_TEST(a_sequence_that_jumps_in_a_crash_does_no_harm),
    SERVER_TEST(a_prepared_transaction_outlives_a_crash_and_the_tail_waits_for_it),
    SERVER_TEST(a_tail_notices_that_its_log_was_put_back_under_its_session),
    SERVER_TEST(a_schema_that_was_dropped_and_made_anew_is_found_again),
    SERVER_TEST(what_was_acknowledged_before_a_crash_is_there_once_after_it),
    SERVER_TEST(a_standby_is_refused_for_writing_and_can_be_read),
};

PGT_MAIN("pg server", tests)
