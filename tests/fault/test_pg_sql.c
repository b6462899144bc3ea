/*
 * test_pg_sql.c - the SQL functions inside other people's transactions, triggers and exception
 * blocks; and what must hold for whoever draws a number of the log, the library or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "test_pg_help.h"

/* The SQLSTATE, primary message and detail of a statement that must fail, as one text. */
static const char *complaint(const pgt *t, const char *sql)
{
    static char text[1024];
    PGresult *result = pgt_result(t, t->admin, "%s", sql);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *detail = PQresultErrorField(result, PG_DIAG_MESSAGE_DETAIL);

    (void)snprintf(text, sizeof text, "%s|%s|%s", state ? state : "00000", message ? message : "",
                   detail ? detail : "");
    PQclear(result);
    return text;
}

static void run(const pgt *t, const char *sql)
{
    pgt_run(t, t->admin, "%s", sql);
}

/* ---- triggers, savepoints, exception blocks */

static void make_orders(const pgt *t)
{
    run(t, "CREATE TABLE {orders} (id integer PRIMARY KEY, total integer)");
    run(t, "CREATE FUNCTION {publish_order}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " PERFORM {append}('order-' || NEW.id, 'order.created', to_json(NEW));"
           " RETURN NULL; END $$");
    run(t, "CREATE TRIGGER publish AFTER INSERT ON {orders} FOR EACH ROW"
           " EXECUTE FUNCTION {publish_order}()");
}

static void a_trigger_publishes_with_the_row(void **state)
{
    pgt *t = *state;

    make_orders(t);
    run(t, "INSERT INTO {orders} VALUES (1, 10), (2, 20)");
    assert_string_equal(pgt_text(t, t->admin,
                                 "SELECT string_agg(stream || ' ' || type || ' ' || data::text,"
                                 " ', ' ORDER BY global_sequence) FROM {events}"),
                        "order-1 order.created {\"id\":1,\"total\":10},"
                        " order-2 order.created {\"id\":2,\"total\":20}");
}

static void a_trigger_inside_a_rolled_back_savepoint_publishes_nothing(void **state)
{
    pgt *t = *state;

    make_orders(t);
    run(t, "BEGIN");
    run(t, "INSERT INTO {orders} VALUES (1, 10)");
    run(t, "SAVEPOINT s");
    run(t, "INSERT INTO {orders} VALUES (2, 20)");
    run(t, "ROLLBACK TO SAVEPOINT s");
    run(t, "INSERT INTO {orders} VALUES (3, 30)");
    run(t, "COMMIT");
    assert_string_equal(
        pgt_text(t, t->admin, "SELECT string_agg(stream, ' ' ORDER BY stream) FROM {events}"),
        "order-1 order-3");
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {orders}"), 2);
}

/* Who may insert orders need not be able to publish: the trigger's function does it for them. */
static void a_trigger_of_the_owner_publishes_for_a_stranger(void **state)
{
    pgt *t = *state;

    make_orders(t);
    run(t, "ALTER FUNCTION {publish_order}() SECURITY DEFINER");
    run(t, "CREATE ROLE {_stranger}; GRANT USAGE ON SCHEMA {schema} TO {_stranger};"
           "GRANT INSERT ON {orders} TO {_stranger}");
    run(t, "SET ROLE {_stranger}");
    run(t, "INSERT INTO {orders} VALUES (1, 10)");
    assert_string_equal(pgt_state(t, t->admin, "SELECT {append}('s', 't')"), "42501");
    run(t, "RESET ROLE");
    assert_int_equal(pgt_count(t), 1);
    run(t, "DROP OWNED BY {_stranger}; DROP ROLE {_stranger}");
}

static void a_conflict_can_be_caught_in_plpgsql(void **state)
{
    pgt *t = *state;

    (void)pgt_append(t->bus, "s");
    run(t, "DO $$ DECLARE actual text; BEGIN"
           " PERFORM {append}('before', 't');"
           " BEGIN"
           "  PERFORM {append}('gone', 't');"
           "  PERFORM {append}('s', 't', expected_version => 0);"
           " EXCEPTION WHEN SQLSTATE 'UH003' THEN"
           "  GET STACKED DIAGNOSTICS actual = PG_EXCEPTION_DETAIL;"
           "  PERFORM {append}('s', 't', expected_version => actual::bigint);"
           " END;"
           " PERFORM {append}('after', 't'); END $$");
    assert_string_equal(
        pgt_text(
            t, t->admin,
            "SELECT string_agg(stream || version, ' ' ORDER BY stream, version) FROM {events}"),
        "after1 before1 s1 s2");
}

static void two_phase_commit_works_from_sql(void **state)
{
    pgt *t = *state;

    for (int commits = 0; commits < 2; commits++) {
        run(t, "BEGIN");
        run(t, "SELECT {append}('s', 't')");
        pgt_run(t, t->admin, "PREPARE TRANSACTION 'sql-%d'", (int)getpid());
        assert_int_equal(pgt_count(t), 0);
        pgt_run(t, t->admin, "%s PREPARED 'sql-%d'", commits ? "COMMIT" : "ROLLBACK",
                (int)getpid());
        assert_int_equal(pgt_count(t), commits);
    }
}

/* ---- refusals */

static void refusals_have_a_state_of_their_own_and_a_detail(void **state)
{
    pgt *t = *state;

    run(t, "SELECT {append}('s', 't', id => '00000000-0000-7000-8000-000000000001')");
    run(t, "SELECT {append}('s', 't')");
    assert_string_equal(complaint(t, "SELECT {append}('s', 't', expected_version => 0)"),
                        "UH003|stream is at version 2, expected no stream|2");
    assert_string_equal(complaint(t, "SELECT {append}('s', 't', expected_version => 7)"),
                        "UH003|stream is at version 2, expected 7|2");
    assert_string_equal(complaint(t, "SELECT {append}('none', 't', expected_version => -2)"),
                        "UH003|stream is at version 0, expected one that exists|0");
    assert_string_equal(
        complaint(t, "SELECT {append}('s', 't', '{\"other\":1}',"
                     " id => '00000000-0000-7000-8000-000000000001')"),
        "UH009|event id 00000000-0000-7000-8000-000000000001 is stored with other content, at"
        " sequence 1|");
    assert_string_equal(complaint(t, "SELECT {append}('', 't')"),
                        "UH006|stream: must be 1 to 255 bytes, got 0|");
    assert_string_equal(complaint(t, "SELECT {append}('s', 't', expected_version => -3)"),
                        "UH006|expected_version: must be a version, 0 (no stream), -1 (any) or "
                        "-2 (stream exists)|");
    assert_string_equal(complaint(t, "SELECT {append_batch}('{}')"),
                        "UH006|events: must be a JSON array of objects|");
    assert_int_equal(pgt_count(t), 2);
}

static void a_batch_is_stored_whole_or_not_at_all(void **state)
{
    pgt *t = *state;

    assert_string_equal(
        complaint(
            t, "SELECT {append_batch}('[{\"stream\":\"a\",\"type\":\"t\"},"
               "{\"stream\":\"b\",\"type\":\"t\"},{\"stream\":\"a\",\"type\":\"not a type\"}]')"),
        "UH006|event 3: type: must be 1 to 32 segments of A-Z a-z 0-9 _ - joined by dots, in 10"
        " bytes|");
    assert_string_equal(complaint(t, "SELECT {append_batch}('[{\"stream\":\"a\",\"type\":\"t\"},"
                                     "{\"stream\":\"b\",\"type\":\"t\",\"expect\":3}]')"),
                        "UH003|event 2: stream is at version 0, expected 3|0");
    assert_int_equal(pgt_count(t), 0);
    assert_string_equal(
        pgt_text(t, t->admin,
                 "SELECT string_agg(version::text, ' ') FROM {append_batch}"
                 "('[{\"stream\":\"a\",\"type\":\"t\"},{\"stream\":\"b\",\"type\":\"t\"},"
                 "{\"stream\":\"a\",\"type\":\"t\",\"expect\":1}]')"),
        "1 1 2");
    assert_int_equal(pgt_count(t), 3);
}

/* ---- T4: whoever holds a number can be seen */

/* Fails a transaction that has drawn a number for its row and has no transaction id yet. */
static void watch_for_invisible_writers(const pgt *t)
{
    run(t, "CREATE FUNCTION {watch}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
           " IF pg_current_xact_id_if_assigned() IS NULL THEN"
           "  RAISE EXCEPTION 'a number, and no transaction id' USING ERRCODE = 'XX555';"
           " END IF;"
           " IF NOT EXISTS (SELECT FROM pg_locks AS l WHERE l.pid = pg_backend_pid()"
           "  AND l.relation = pg_get_serial_sequence(TG_RELID::regclass::text,"
           "   'global_sequence')::regclass AND l.mode = 'RowExclusiveLock' AND l.granted) THEN"
           "  RAISE EXCEPTION 'a number, and no lock' USING ERRCODE = 'XX556';"
           " END IF;"
           " RETURN NEW; END $$");
    run(t, "CREATE TRIGGER watch BEFORE INSERT ON {events} FOR EACH ROW"
           " EXECUTE FUNCTION {watch}()");
}

#define RAW "INSERT INTO {events} (stream, version, type, data) VALUES ('raw-%d', 1, 't', '{}')"

static void a_number_is_drawn_only_by_a_transaction_with_an_id_and_a_lock(void **state)
{
    pgt *t = *state;

    watch_for_invisible_writers(t);
    for (int i = 0; i < 100; i++) {
        assert_string_equal(pgt_state(t, t->admin, RAW, i), "00000");
        assert_string_equal(pgt_state(t, t->admin, "SELECT {append}('s', 't')"), "00000");
        (void)pgt_append(t->bus, "library");
    }
    assert_int_equal(pgt_count(t), 300);
}

/* nextval() alone gives an id once in 32 calls: the test above can fail. */
static void a_plain_nextval_would_be_caught(void **state)
{
    pgt *t = *state;
    int caught = 0;

    watch_for_invisible_writers(t);
    run(t, "DO $$ BEGIN EXECUTE format('ALTER TABLE {events} ALTER global_sequence SET DEFAULT"
           " nextval(%L)', pg_get_serial_sequence('{events}', 'global_sequence')); END $$");
    for (int i = 0; i < 100; i++)
        caught += strcmp(pgt_state(t, t->admin, RAW, i), "XX555") == 0;
    assert_in_range(caught, 90, 99);
}

/* In a savepoint that is rolled back too: the lock is the whole transaction's. */
static void the_lock_outlives_the_savepoint_that_drew_the_number(void **state)
{
    static const char holders[] =
        "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'RowExclusiveLock'"
        " AND relation = pg_get_serial_sequence('{events}', 'global_sequence')::regclass";
    pgt *t = *state;

    run(t, "BEGIN; SAVEPOINT s; SELECT {append}('s', 't'); ROLLBACK TO SAVEPOINT s");
    assert_int_equal(pgt_number(t, t->admin, "%s", holders), 1);
    assert_int_equal(
        pgt_number(t, t->admin,
                   "SELECT count(*) FROM (SELECT pg_current_xact_id_if_assigned() AS x) AS y"
                   " WHERE x IS NOT NULL"),
        1);
    run(t, "COMMIT");
    assert_int_equal(pgt_number(t, t->admin, "%s", holders), 0);
}

static void raw_inserts_draw_in_order(void **state)
{
    pgt *t = *state;

    run(t, "INSERT INTO {events} (stream, version, type, data) SELECT 'raw', i, 't', '{}'"
           " FROM generate_series(1, 500) AS i");
    assert_int_equal(pgt_append(t->bus, "raw").version, 501);
    assert_int_equal(
        pgt_number(t, t->admin, "SELECT count(*) FROM {events} WHERE global_sequence = version"),
        501);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(DISTINCT id) FROM {events}"), 501);
}

/* ---- dump and restore */

typedef struct two_databases {
    char source[64];
    char copy[80];
    char source_url[512];
    char copy_url[512];
} two_databases;

static void make_databases(const pgt *t, two_databases *d)
{
    (void)snprintf(d->source, sizeof d->source, "dump_%d_%x", (int)getpid(), hw_random_u32());
    (void)snprintf(d->copy, sizeof d->copy, "%s_copy", d->source);
    pgt_run(t, t->admin, "CREATE DATABASE %s", d->source);
    pgt_run(t, t->admin, "CREATE DATABASE %s", d->copy);
    (void)snprintf(d->source_url, sizeof d->source_url, "postgres://postgres@/%s?host=%s&port=%s",
                   d->source, PQhost(t->admin), PQport(t->admin));
    (void)snprintf(d->copy_url, sizeof d->copy_url, "postgres://postgres@/%s?host=%s&port=%s",
                   d->copy, PQhost(t->admin), PQport(t->admin));
}

/*
 * Where pg_dump and psql are: with the server, or in the PATH when those are not older than it;
 * NULL: nowhere (PostgreSQL from elsewhere than Debian comes without them).
 */
static const char *find_programs(void)
{
    static char dir[300];
    char command[700];

    (void)snprintf(dir, sizeof dir, "%s/", pgt_env("HOWDAH_TEST_PG_BIN"));
    (void)snprintf(command, sizeof command, "test -x '%spg_dump' && test -x '%spsql'", dir, dir);
    if (system(command) == 0) /* NOLINT(cert-env33-c): a path of our own */
        return dir;
    (void)snprintf(command, sizeof command,
                   "v=$(pg_dump --version | sed 's/^[^0-9]*//; s/[^0-9].*//')"
                   " && test \"${v:-0}\" -ge %s",
                   pgt_env("HOWDAH_TEST_PG_MAJOR"));
    return system(command) == 0 ? "" : NULL; /* NOLINT(cert-env33-c): nothing from outside */
}

static void copy_database(const two_databases *d, const char *bin)
{
    char command[3000];

    (void)snprintf(command, sizeof command,
                   "'%spg_dump' '%s' | '%spsql' -X -q -v ON_ERROR_STOP=1 '%s' >/dev/null", bin,
                   d->source_url, bin, d->copy_url);
    if (system(command) != 0) /* NOLINT(cert-env33-c): paths of our own */
        fail_msg("%s", command);
}

static void a_restored_dump_goes_on_where_it_was(void **state)
{
    pgt *t = *state;
    const char *bin = find_programs();
    two_databases d;
    howdah_bus *bus;
    howdah_bus *copy;
    PGconn *conn;
    howdah_position last = HOWDAH_POSITION_INIT;

    assert_non_null(bin);
    make_databases(t, &d);
    bus = pgt_open(t, d.source_url);
    pgt_ok(howdah_migrate(bus, NULL, &pgt_error));
    for (int i = 0; i < 10; i++)
        last = pgt_append(bus, "s");
    copy_database(&d, bin);
    conn = pgt_session(d.copy_url);
    copy = pgt_open(t, d.copy_url);
    assert_int_equal(pgt_append(copy, "s").global_sequence, last.global_sequence + 1);
    assert_int_equal(pgt_append(copy, "s").version, 12);
    pgt_run(t, conn, RAW, 1);
    assert_int_equal(pgt_number(t, conn, "SELECT max(global_sequence) FROM {events}"),
                     last.global_sequence + 3);
    assert_int_equal(pgt_number(t, conn, "SELECT global_sequence FROM {append}('s', 't')"),
                     last.global_sequence + 4);
    assert_non_null(strstr(pgt_text(t, conn,
                                    "SELECT column_default FROM information_schema.columns WHERE"
                                    " table_name = 'events' AND column_name = 'global_sequence'"),
                           "pg_current_xact_id()"));
    pgt_ok(howdah_migrate(copy, NULL, &pgt_error));
    howdah_close(copy);
    howdah_close(bus);
    PQfinish(conn);
    pgt_run(t, t->admin, "DROP DATABASE %s", d.source);
    pgt_run(t, t->admin, "DROP DATABASE %s", d.copy);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_trigger_publishes_with_the_row),
    PGT_TEST(a_trigger_inside_a_rolled_back_savepoint_publishes_nothing),
    PGT_TEST(a_trigger_of_the_owner_publishes_for_a_stranger),
    PGT_TEST(a_conflict_can_be_caught_in_plpgsql),
    PGT_TEST(two_phase_commit_works_from_sql),
    PGT_TEST(refusals_have_a_state_of_their_own_and_a_detail),
    PGT_TEST(a_batch_is_stored_whole_or_not_at_all),
    PGT_TEST(a_number_is_drawn_only_by_a_transaction_with_an_id_and_a_lock),
    PGT_TEST(a_plain_nextval_would_be_caught),
    PGT_TEST(the_lock_outlives_the_savepoint_that_drew_the_number),
    PGT_TEST(raw_inserts_draw_in_order),
    /* The last one: left out where there is no pg_dump for the server. */
    PGT_TEST(a_restored_dump_goes_on_where_it_was),
};

int main(int argc, char **argv)
{
    size_t n = sizeof tests / sizeof tests[0];

    if (!find_programs()) {
        (void)fprintf(stderr, "no pg_dump for this server: the dump is not tested\n");
        n--;
    }
    return pgt_main(argc, argv, "pg sql", tests, n);
}
