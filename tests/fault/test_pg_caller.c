/*
 * test_pg_caller.c - howdah_pg_append(): events inside the caller's own transaction, on the
 * caller's own connection.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>

#include "test_pg_help.h"

/* The caller: once as the owner of the tables, once as somebody who may only publish. */
typedef struct caller {
    pgt *t;
    PGconn *conn;
    bool owner;
} caller;

static bool next_is_owner = true;

static int caller_setup(void **state)
{
    caller *c = calloc(1, sizeof *c);

    assert_non_null(c);
    assert_int_equal(pgt_setup(state), 0);
    c->t = *state;
    c->conn = pgt_session(c->t->url);
    c->owner = next_is_owner;
    pgt_run(c->t, c->conn, "CREATE TABLE {orders} (id integer PRIMARY KEY)");
    if (!c->owner) {
        pgt_run(c->t, c->conn, "GRANT ALL ON {orders} TO {_publish}");
        pgt_run(c->t, c->conn, "SET SESSION AUTHORIZATION {_publish}");
    }
    *state = c;
    return 0;
}

static int owner_setup(void **state)
{
    next_is_owner = true;
    return caller_setup(state);
}

static int publisher_setup(void **state)
{
    next_is_owner = false;
    return caller_setup(state);
}

static int caller_teardown(void **state)
{
    caller *c = *state;
    void *inner = c->t;

    PQfinish(c->conn);
    free(c);
    return pgt_teardown(&inner);
}

#define CALLER_TEST(name)                                                                          \
    {#name, name, owner_setup, caller_teardown, NULL},                                             \
    {                                                                                              \
#name "_by_function", name, publisher_setup, caller_teardown, NULL                         \
    }

/* ---- steps */

static void run(const caller *c, const char *sql)
{
    pgt_run(c->t, c->conn, "%s", sql);
}

static int try_append(const caller *c, const howdah_event *event, int64_t expected,
                      howdah_position *p, howdah_error *err)
{
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;

    o.expected_version = expected;
    return howdah_pg_append(c->conn, c->t->schema, &event, 1, &o, p, err);
}

static howdah_position append(const caller *c, const char *stream)
{
    howdah_event *event = pgt_event(stream);
    howdah_position p = HOWDAH_POSITION_INIT;

    pgt_ok(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &pgt_error));
    howdah_event_free(event);
    return p;
}

static void expect(const caller *c, int64_t events, int64_t orders)
{
    assert_int_equal(pgt_count(c->t), events);
    assert_int_equal(pgt_number(c->t, c->t->admin, "SELECT count(*) FROM {orders}"), orders);
}

/* ---- the caller decides */

static void what_the_caller_commits_is_there(void **state)
{
    caller *c = *state;
    howdah_position p = HOWDAH_POSITION_INIT;

    run(c, "BEGIN");
    run(c, "INSERT INTO {orders} VALUES (1)");
    p = append(c, "order-1");
    assert_int_equal(p.version, 1);
    assert_int_equal(p.already_stored, 0);
    assert_int_equal(append(c, "order-1").version, 2);
    expect(c, 0, 0);
    run(c, "COMMIT");
    expect(c, 2, 1);
    assert_int_equal(
        pgt_number(c->t, c->t->admin, "SELECT global_sequence FROM {events} WHERE version = 1"),
        p.global_sequence);
}

static void what_the_caller_rolls_back_is_gone(void **state)
{
    caller *c = *state;

    run(c, "BEGIN");
    run(c, "INSERT INTO {orders} VALUES (1)");
    (void)append(c, "order-1");
    run(c, "ROLLBACK");
    expect(c, 0, 0);
    run(c, "BEGIN");
    assert_int_equal(append(c, "order-1").version, 1);
    run(c, "COMMIT");
    expect(c, 1, 0);
}

static void a_savepoint_rolled_back_takes_its_event_along_and_leaves_the_rest(void **state)
{
    caller *c = *state;

    run(c, "BEGIN");
    (void)append(c, "kept");
    run(c, "SAVEPOINT howdah_append"); /* the name that the library uses, too */
    run(c, "INSERT INTO {orders} VALUES (1)");
    (void)append(c, "gone");
    (void)append(c, "kept");
    run(c, "ROLLBACK TO SAVEPOINT howdah_append");
    run(c, "INSERT INTO {orders} VALUES (2)");
    assert_int_equal(append(c, "kept").version, 2);
    run(c, "RELEASE SAVEPOINT howdah_append");
    run(c, "COMMIT");
    expect(c, 2, 1);
    assert_int_equal(
        pgt_number(c->t, c->t->admin, "SELECT count(*) FROM {events} WHERE stream = 'kept'"), 2);
}

static void two_phase_commit_works_both_ways(void **state)
{
    caller *c = *state;
    char sql[120];

    for (int commits = 0; commits < 2; commits++) {
        run(c, "BEGIN");
        run(c, "INSERT INTO {orders} VALUES (1)");
        (void)append(c, "order-1");
        (void)snprintf(sql, sizeof sql, "PREPARE TRANSACTION 'caller-%d'", (int)getpid());
        run(c, sql);
        expect(c, 0, 0);
        (void)snprintf(sql, sizeof sql, "%s PREPARED 'caller-%d'", commits ? "COMMIT" : "ROLLBACK",
                       (int)getpid());
        run(c, sql);
        expect(c, commits, commits);
    }
}

static void a_batch_of_2500_is_part_of_the_transaction(void **state)
{
    caller *c = *state;
    pgt_batch b = pgt_batch_new("s", 2500, 3);

    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        assert_int_equal(PQsetnonblocking(c->conn, nonblocking), 0);
        run(c, "BEGIN");
        run(c, "INSERT INTO {orders} VALUES (1)");
        pgt_ok(howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, NULL, b.positions,
                                &pgt_error));
        for (size_t i = 0; i < b.n; i++)
            assert_int_equal(b.positions[i].version, 1 + i / 3);
        expect(c, 0, 0);
        run(c, nonblocking ? "COMMIT" : "ROLLBACK");
    }
    expect(c, 2500, 1);
    pgt_batch_free(&b);
}

static void an_id_repeated_in_the_same_transaction_is_answered_not_stored(void **state)
{
    caller *c = *state;
    howdah_event *event = pgt_event("s");
    pgt_batch b = pgt_batch_new("s", 1200, 1);
    howdah_position first = HOWDAH_POSITION_INIT;
    howdah_position again = HOWDAH_POSITION_INIT;

    run(c, "BEGIN");
    pgt_ok(try_append(c, event, HOWDAH_EXPECT_NONE, &first, &pgt_error));
    pgt_ok(try_append(c, event, HOWDAH_EXPECT_NONE, &again, &pgt_error));
    assert_int_equal(first.already_stored, 0);
    assert_int_equal(again.already_stored, 1);
    assert_int_equal(again.global_sequence, first.global_sequence);
    /* Half of a batch, then all of it. */
    for (size_t n = 600; n <= 1200; n += 600)
        pgt_ok(howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), n, NULL, b.positions,
                                &pgt_error));
    for (size_t i = 0; i < b.n; i++) {
        assert_int_equal(b.positions[i].already_stored, i < 600);
        assert_int_equal(b.positions[i].version, 2 + i);
    }
    run(c, "COMMIT");
    expect(c, 1201, 0);
    howdah_event_free(event);
    pgt_batch_free(&b);
}

/* ---- refusals */

static howdah_event *large_event(int no, size_t bytes)
{
    howdah_event *event;
    char *json = malloc(bytes + 1);

    assert_non_null(json);
    (void)memset(json, 'x', bytes);
    json[0] = json[bytes - 1] = '"';
    json[bytes] = '\0';
    event = pgt_event_no("s", no, json);
    free(json);
    return event;
}

/* Each refused append leaves the caller's transaction as it was. */
static void a_refusal_leaves_the_transaction_usable_and_its_work_intact(void **state)
{
    caller *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *one = pgt_event_no("s", 1, "{}");
    howdah_event *other = pgt_event_no("s", 1, "{\"other\":1}");
    howdah_event *two = pgt_event_no("s", 2, "{}");
    howdah_event *large = large_event(9, 1024 * 1024 + 1);
    const howdah_event *twice[] = {two, two};
    howdah_position p[2] = {HOWDAH_POSITION_INIT};

    run(c, "BEGIN");
    run(c, "INSERT INTO {orders} VALUES (1)");
    pgt_ok(try_append(c, one, HOWDAH_EXPECT_NONE, p, &pgt_error));
    assert_int_equal(try_append(c, two, 7, p, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    assert_int_equal(PQtransactionStatus(c->conn), PQTRANS_INTRANS);
    run(c, "INSERT INTO {orders} VALUES (2)");
    assert_int_equal(try_append(c, two, HOWDAH_EXPECT_NONE, p, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    assert_int_equal(try_append(c, other, HOWDAH_EXPECT_ANY, p, &err), HOWDAH_ID_REUSED);
    run(c, "INSERT INTO {orders} VALUES (3)");
    assert_int_equal(howdah_pg_append(c->conn, c->t->schema, twice, 2, NULL, p, &err),
                     HOWDAH_INVALID);
    assert_int_equal(try_append(c, large, HOWDAH_EXPECT_ANY, p, &err), HOWDAH_LIMIT);
    assert_int_equal(howdah_pg_append(c->conn, "not there", twice, 1, NULL, p, &err),
                     HOWDAH_SCHEMA);
    run(c, "INSERT INTO {orders} VALUES (4)");
    pgt_ok(try_append(c, two, 1, p, &pgt_error));
    run(c, "COMMIT");
    expect(c, 2, 4);
    howdah_event_free(one);
    howdah_event_free(other);
    howdah_event_free(two);
    howdah_event_free(large);
}

/* The server itself objects, in the middle of a statement of ours. */
static void an_error_of_the_server_leaves_the_transaction_usable_too(void **state)
{
    caller *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = pgt_batch_new("s", 2500, 1);
    howdah_event *event = pgt_event("bad");
    howdah_position p = HOWDAH_POSITION_INIT;

    pgt_run(c->t, c->t->admin,
            "ALTER TABLE {events} ADD CONSTRAINT whim CHECK (version < 2000 AND stream <> 'bad')");
    run(c, "BEGIN");
    run(c, "INSERT INTO {orders} VALUES (1)");
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_INVALID);
    assert_string_equal(err.sqlstate, "23514");
    assert_int_equal(
        howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, NULL, b.positions, &err),
        HOWDAH_INVALID);
    assert_int_equal(append(c, "s").version, 1);
    run(c, "COMMIT");
    expect(c, 1, 1);
    howdah_event_free(event);
    pgt_batch_free(&b);
}

static void a_conflict_in_a_batch_stores_nothing_of_it(void **state)
{
    caller *c = *state;
    howdah_append_options none = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = pgt_batch_new("s", 2500, 5);

    (void)pgt_append(c->t->bus, "s-4");
    none.expected_version = HOWDAH_EXPECT_NONE;
    run(c, "BEGIN");
    (void)append(c, "other");
    assert_int_equal(
        howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, &none, b.positions, &err),
        HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    run(c, "COMMIT");
    expect(c, 2, 0);
    pgt_batch_free(&b);
}

/* However far it came: the statements that were under way are answered and undone. */
static void an_append_without_memory_leaves_the_transaction_usable(void **state)
{
    caller *c = *state;
    pgt_batch b = pgt_batch_new("s", 2500, 1);
    long failures = 0;
    int s;

    /* The last statement needs more room than those that were sent before it. */
    for (size_t i = 2400; i < b.n; i++) {
        howdah_event_free(b.events[i]);
        b.events[i] = large_event((int)i, 20000);
    }
    run(c, "BEGIN");
    run(c, "INSERT INTO {orders} VALUES (1)");
    do {
        howdah_error err = HOWDAH_ERROR_INIT;

        pgt_starve(failures);
        s = howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, NULL, b.positions, &err);
        pgt_reader();
        assert_int_equal(PQtransactionStatus(c->conn), PQTRANS_INTRANS);
        assert_int_equal(PQpipelineStatus(c->conn), PQ_PIPELINE_OFF);
        if (s < 0)
            assert_int_equal(s, HOWDAH_NO_MEMORY);
    } while (s < 0 && ++failures < 500);
    assert_true(failures > 0);
    assert_int_equal(s, HOWDAH_OK);
    assert_int_equal(b.positions[0].already_stored, 0);
    run(c, "COMMIT");
    expect(c, 2500, 1);
    pgt_batch_free(&b);
}

/* ---- outside of a transaction, and in a bad one */

static void on_an_idle_connection_it_is_a_transaction_of_its_own(void **state)
{
    caller *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    pgt_batch b = pgt_batch_new("s", 2500, 1);
    howdah_position p = HOWDAH_POSITION_INIT;

    assert_int_equal(append(c, "s").version, 1);
    expect(c, 1, 0);
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_NONE, &p, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    assert_int_equal(PQtransactionStatus(c->conn), PQTRANS_IDLE);
    pgt_ok(howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, NULL, b.positions,
                            &pgt_error));
    assert_int_equal(PQtransactionStatus(c->conn), PQTRANS_IDLE);
    expect(c, 2501, 0);
    howdah_event_free(event);
    pgt_batch_free(&b);
}

static void a_connection_that_cannot_be_used_is_misuse(void **state)
{
    caller *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;
    PGresult *result;

    run(c, "BEGIN");
    assert_string_equal(pgt_state(c->t, c->conn, "SELECT 1/0"), "22012");
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_MISUSE);
    assert_non_null(strstr(err.message, "has failed already"));
    run(c, "ROLLBACK");
    assert_int_equal(PQenterPipelineMode(c->conn), 1);
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_MISUSE);
    assert_int_equal(PQexitPipelineMode(c->conn), 1);
    assert_int_equal(PQsendQuery(c->conn, "SELECT 1"), 1);
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_MISUSE);
    while ((result = PQgetResult(c->conn)) != NULL)
        PQclear(result);
    run(c, "SET client_encoding = LATIN1");
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_MISUSE);
    run(c, "SET client_encoding = UTF8");
    pgt_ok(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &pgt_error));
    expect(c, 1, 0);
    howdah_event_free(event);
}

/* ---- other transactions */

/* The caller's snapshot is older than what somebody else has stored since. */
static void fall_behind(const caller *c, const char *isolation)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "BEGIN ISOLATION LEVEL %s", isolation);
    run(c, sql);
    run(c, "SELECT count(*) FROM {orders}");
}

static void expect_serialization_failure(const caller *c, const howdah_event *event)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t start = pgt_now_ms();
    howdah_position p = HOWDAH_POSITION_INIT;

    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_UNAVAILABLE);
    assert_string_equal(err.sqlstate, "40001");
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_true(pgt_now_ms() - start < 5000); /* repeating it in this snapshot is no use */
    run(c, "ROLLBACK");
}

static void a_serialization_failure_is_handed_up(void **state)
{
    static const char *const levels[] = {"REPEATABLE READ", "SERIALIZABLE"};
    caller *c = *state;

    for (int i = 0; i < 2; i++) {
        char stream[16];
        howdah_event *event;
        howdah_position p = HOWDAH_POSITION_INIT;

        (void)snprintf(stream, sizeof stream, "s%d", i);
        event = pgt_event(stream);
        /* The same stream. */
        fall_behind(c, levels[i]);
        assert_int_equal(pgt_append(c->t->bus, stream).version, 1);
        expect_serialization_failure(c, event);
        /* The same event. */
        fall_behind(c, levels[i]);
        pgt_ok(howdah_append(c->t->bus, event, NULL, &p, &pgt_error));
        expect_serialization_failure(c, event);
        /* Repeated from the start it finds everything. */
        fall_behind(c, levels[i]);
        pgt_ok(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &pgt_error));
        assert_int_equal(p.already_stored, 1);
        assert_int_equal(p.version, 2);
        assert_int_equal(append(c, stream).version, 3);
        run(c, "COMMIT");
        howdah_event_free(event);
    }
    expect(c, 6, 0);
}

/* A conflict that the snapshot shows is a conflict, in every isolation level. */
static void a_visible_conflict_is_no_serialization_failure(void **state)
{
    caller *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;

    (void)pgt_append(c->t->bus, "s");
    fall_behind(c, "REPEATABLE READ");
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_NONE, &p, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    pgt_ok(try_append(c, event, 1, &p, &pgt_error));
    run(c, "COMMIT");
    expect(c, 2, 0);
    howdah_event_free(event);
}

static void *commit_later(void *conn)
{
    (void)usleep(200000);
    PQclear(PQexec(conn, "COMMIT"));
    return NULL;
}

/* In READ COMMITTED a lost race is repeated inside the caller's transaction. */
static void a_lost_race_is_repeated_in_the_transaction(void **state)
{
    caller *c = *state;
    pgt_batch b = pgt_batch_new("s", 1500, 1);
    pthread_t thread;

    pgt_run(c->t, c->t->admin, "BEGIN");
    pgt_run(c->t, c->t->admin, "SELECT {append}('s', 't')");
    assert_int_equal(pthread_create(&thread, NULL, commit_later, c->t->admin), 0);
    run(c, "BEGIN");
    run(c, "INSERT INTO {orders} VALUES (1)");
    pgt_ok(howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, NULL, b.positions,
                            &pgt_error));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(b.positions[0].version, 2);
    run(c, "COMMIT");
    expect(c, 1501, 1);
    pgt_batch_free(&b);
}

typedef struct killer {
    const caller *c;
    PGconn *conn;
    int pid;
} killer;

static void *kill_when_blocked(void *arg)
{
    killer *k = arg;
    char sql[160];

    for (int i = 0; i < 50000; i++) {
        PGresult *result;
        bool done;

        (void)snprintf(sql, sizeof sql,
                       "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                       " WHERE pid = %d AND wait_event_type = 'Lock'",
                       k->pid);
        result = PQexec(k->conn, sql);
        done = PQntuples(result) == 1;
        PQclear(result);
        if (done)
            break;
        (void)usleep(1000);
    }
    return NULL;
}

/* The transaction is the caller's, so nothing is unknown: it is gone, and so is the handle. */
static void a_connection_lost_in_the_transaction_is_dead(void **state)
{
    caller *c = *state;
    killer k = {c, pgt_session(c->t->url), PQbackendPID(c->conn)};
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;
    pthread_t thread;

    pgt_run(c->t, c->t->admin, "BEGIN");
    pgt_run(c->t, c->t->admin, "SELECT {append}('s', 't')");
    run(c, "BEGIN");
    assert_int_equal(pthread_create(&thread, NULL, kill_when_blocked, &k), 0);
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE | HOWDAH_HANDLE_DEAD);
    assert_int_equal(PQstatus(c->conn), CONNECTION_BAD);
    assert_int_equal(try_append(c, event, HOWDAH_EXPECT_ANY, &p, &err), HOWDAH_UNAVAILABLE);
    pgt_run(c->t, c->t->admin, "ROLLBACK");
    expect(c, 0, 0);
    howdah_event_free(event);
    PQfinish(k.conn);
}

/* ---- the connection is left as it was */

static void my_receiver(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/* The caller's settings and prepared statements, in one text. */
static char *session_of(const caller *c)
{
    return strdup(pgt_text(
        c->t, c->conn,
        "SELECT string_agg(name || '=' || setting, ',' ORDER BY name) || (SELECT count(*) FROM"
        " pg_prepared_statements)::text || (SELECT count(*) FROM pg_locks WHERE pid ="
        " pg_backend_pid() AND locktype = 'advisory')::text FROM pg_settings WHERE name IN"
        " ('search_path', 'TimeZone', 'DateStyle', 'synchronous_commit', 'statement_timeout',"
        "  'client_encoding', 'bytea_output', 'jit', 'plan_cache_mode', 'client_min_messages')"));
}

static void the_connection_is_left_as_it_was(void **state)
{
    caller *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = pgt_batch_new("s", 1500, 1);
    char *before;
    char *after;

    run(c, "SET search_path = pg_temp; SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'German';"
           "SET synchronous_commit = off; SET statement_timeout = '7s'");
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        assert_int_equal(PQsetnonblocking(c->conn, nonblocking), 0);
        (void)PQsetNoticeReceiver(c->conn, my_receiver, c);
        before = session_of(c);
        run(c, "BEGIN");
        (void)append(c, "s");
        assert_int_equal(
            howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n,
                             &(howdah_append_options){sizeof(howdah_append_options), 99},
                             b.positions, &err),
            HOWDAH_CONFLICT);
        pgt_ok(howdah_pg_append(c->conn, c->t->schema, PGT_EVENTS(&b), b.n, NULL, b.positions,
                                &pgt_error));
        run(c, "ROLLBACK");
        (void)append(c, "s");
        after = session_of(c);
        assert_string_equal(after, before);
        assert_int_equal(PQisnonblocking(c->conn), nonblocking);
        assert_int_equal(PQpipelineStatus(c->conn), PQ_PIPELINE_OFF);
        assert_true(PQsetNoticeReceiver(c->conn, NULL, NULL) == my_receiver);
        free(before);
        free(after);
    }
    pgt_batch_free(&b);
}

static const struct CMUnitTest tests[] = {
    CALLER_TEST(what_the_caller_commits_is_there),
    CALLER_TEST(what_the_caller_rolls_back_is_gone),
    CALLER_TEST(a_savepoint_rolled_back_takes_its_event_along_and_leaves_the_rest),
    CALLER_TEST(two_phase_commit_works_both_ways),
    CALLER_TEST(a_batch_of_2500_is_part_of_the_transaction),
    CALLER_TEST(an_id_repeated_in_the_same_transaction_is_answered_not_stored),
    CALLER_TEST(a_refusal_leaves_the_transaction_usable_and_its_work_intact),
    CALLER_TEST(an_error_of_the_server_leaves_the_transaction_usable_too),
    CALLER_TEST(a_conflict_in_a_batch_stores_nothing_of_it),
    CALLER_TEST(an_append_without_memory_leaves_the_transaction_usable),
    CALLER_TEST(on_an_idle_connection_it_is_a_transaction_of_its_own),
    CALLER_TEST(a_connection_that_cannot_be_used_is_misuse),
    CALLER_TEST(a_serialization_failure_is_handed_up),
    CALLER_TEST(a_visible_conflict_is_no_serialization_failure),
    CALLER_TEST(a_lost_race_is_repeated_in_the_transaction),
    CALLER_TEST(a_connection_lost_in_the_transaction_is_dead),
    CALLER_TEST(the_connection_is_left_as_it_was),
};

PGT_MAIN("pg caller", tests)
