/*
 * test_pg_roles.c - who may do what: the matrix of roles and operations, the library under each
 * role, buses side by side, and a caller who means harm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "test_pg_help.h"

/* ---- logins: made for one test, in the roles given */

typedef struct people {
    pgt *t;
    char publisher[48];
    char reader[48];
    char nobody[48];
} people;

static void make_login(const pgt *t, char *name, size_t room, const char *what, const char *role)
{
    (void)snprintf(name, room, "%s_%d_%x", what, (int)getpid(), hw_random_u32());
    pgt_run(t, t->admin, "CREATE ROLE %s LOGIN", name);
    if (role)
        pgt_run(t, t->admin, "GRANT %s TO %s", role, name);
}

static int people_setup(void **state)
{
    people *p = calloc(1, sizeof *p);

    assert_non_null(p);
    assert_int_equal(pgt_setup(state), 0);
    p->t = *state;
    make_login(p->t, p->publisher, sizeof p->publisher, "publisher", "{_publish}");
    make_login(p->t, p->reader, sizeof p->reader, "reader", "{_read}");
    make_login(p->t, p->nobody, sizeof p->nobody, "nobody", NULL);
    *state = p;
    return 0;
}

static int people_teardown(void **state)
{
    people *p = *state;
    void *inner = p->t;

    pgt_run(p->t, p->t->admin, "DROP OWNED BY %s, %s, %s", p->publisher, p->reader, p->nobody);
    pgt_run(p->t, p->t->admin, "DROP ROLE %s, %s, %s", p->publisher, p->reader, p->nobody);
    free(p);
    return pgt_teardown(&inner);
}

#define PEOPLE_TEST(name) cmocka_unit_test_setup_teardown(name, people_setup, people_teardown)

static const char *url_of(const people *p, const char *user)
{
    static char url[1024];

    (void)snprintf(url, sizeof url, "postgres://%s@/%s?host=%s&port=%s", user, PQdb(p->t->admin),
                   PQhost(p->t->admin), PQport(p->t->admin));
    return url;
}

/* ---- the matrix */

/* Who may: P publish, R read, S subscribe, A admin; nobody may anything. */
typedef struct operation {
    const char *who;
    const char *sql;
} operation;

static const operation operations[] = {
    /* appending */
    {"PA", "SELECT {append}('s', 't')"},
    {"PA", "SELECT {append_batch}('[{\"stream\":\"s\",\"type\":\"t\"}]')"},
    {"PA", "SELECT {append_arrays}(ARRAY[NULL::uuid], ARRAY['s'], ARRAY['t'], ARRAY['{}'::json],"
           " NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)"},
    {"PA", "SELECT {uuid_v7}()"},
    {"PA", "SELECT {event_problem}('s', 't', '{}', NULL, NULL, NULL, NULL, 1, NULL, NULL, 10)"},
    {"PRSA", "SELECT {schema_version}()"},
    {"PRSA", "SELECT {channel}('a.b')"},
    {"PRSA", "SELECT {sequence_problem}()"},
    {"PRSA", "SELECT * FROM {log_numbers}()"},
    {"", "SELECT {check_sequence}(false)"},
    {"PSA", "SELECT {ring}('{a.b}')"},
    {"PA", "SELECT {ring_inside}('{a.b}')"},
    {"", "SELECT {bell_bit}('a')"},
    /* reading */
    {"RSA", "SELECT * FROM {log_here}(1)"},
    {"RSA", "SELECT {log_stored}(1, 2, 3)"},
    {"RSA", "SELECT * FROM {log_proven}()"},
    {"RSA", "SELECT * FROM {read_all}()"},
    {"RSA", "SELECT * FROM {read_stream}('s')"},
    {"RSA", "SELECT * FROM {last_event}('s')"},
    {"RSA", "SELECT * FROM {by_correlation}('c')"},
    {"RSA", "SELECT * FROM {causation_tree}('00000000-0000-7000-8000-000000000001')"},
    {"RSA", "SELECT * FROM {read_events}(NULL, NULL, NULL, NULL, NULL, NULL, NULL, false)"},
    {"RSA", "SELECT * FROM {read_ids}('{}')"},
    {"RSA", "SELECT * FROM {read_ranges}('{}', '{}', 1)"},
    {"RSA", "SELECT {stream_version}('s')"},
    {"RSA", "SELECT {head}()"},
    {"RSA", "SELECT {pattern_regex}('a.*')"},
    /* the tables themselves */
    {"SA", "SELECT * FROM {events}"},
    {"SA", "SELECT id FROM {events}"},
    {"", "SELECT * FROM {all_events}"},
    {"", "INSERT INTO {events} (stream, version, type, data) VALUES ('s', 1, 't', '{}')"},
    {"", "UPDATE {events} SET type = 'x'"},
    {"", "DELETE FROM {events}"},
    {"", "TRUNCATE {events}"},
    {"SA", "LOCK TABLE {events} IN ACCESS SHARE MODE"},
    {"", "LOCK TABLE {events} IN ROW EXCLUSIVE MODE"},
    {"", "SELECT nextval('{events_global_sequence_seq}')"},
    {"", "SELECT setval('{events_global_sequence_seq}', 1)"},
    {"SA", "SELECT last_value FROM {events_global_sequence_seq}"},
    {"SA", "SELECT * FROM {meta}"},
    {"", "UPDATE {meta} SET value = 'x'"},
    {"", "SELECT * FROM {migrations}"},
    {"", "DELETE FROM {migrations}"},
    {"", "SELECT * FROM {imports}"},
    {"", "INSERT INTO {imports} VALUES ('a', 'b', 'c', 1)"},
    /* subscriptions */
    {"SA", "INSERT INTO {subscriptions} (subscriber_id, high) VALUES ('a', 0)"},
    {"SA", "SELECT * FROM {subscriptions} FOR UPDATE"},
    {"SA", "UPDATE {subscriptions} SET high = 1"},
    {"SA", "DELETE FROM {subscriptions}"},
    {"SA", "SELECT nextval('{subscriptions_token_seq}')"},
    {"", "SELECT setval('{subscriptions_token_seq}', 1)"},
    {"SA", "INSERT INTO {dead_letters} (subscriber_id, event_id, global_sequence, version,"
           " recorded_at, revision, schema_version, stream, type) VALUES ('a',"
           " gen_random_uuid(), 1, 1, now(), 1, 1, 's', 't')"},
    {"SA", "SELECT * FROM {dead_letters}"},
    {"SA", "UPDATE {dead_letters} SET state = 'dead'"},
    {"SA", "INSERT INTO {skips} (subscriber_id, first_sequence, last_sequence, age_ms, reason)"
           " VALUES ('a', 1, 1, 1, 'r')"},
    {"SA", "DELETE FROM {skips}"},
    {"SA", "SELECT setval('{bell}', last_value | 1) FROM {bell}"},
    {"", "TRUNCATE {subscriptions}"},
    {"", "TRUNCATE {dead_letters}"},
    {"", "DROP TABLE {subscriptions}"},
    {"", "SELECT {ring_for_raw_inserts}(true)"},
    /* the schema */
    {"", "CREATE TABLE {mine} (a integer)"},
    {"", "CREATE FUNCTION {mine}() RETURNS integer LANGUAGE sql AS 'SELECT 1'"},
    {"", "CREATE TRIGGER mine BEFORE INSERT ON {events} FOR EACH ROW"
         " EXECUTE FUNCTION suppress_redundant_updates_trigger()"},
    {"", "CREATE INDEX mine ON {events} (actor)"},
    {"", "ALTER TABLE {events} ADD COLUMN mine integer"},
    {"", "ALTER FUNCTION {head}() SECURITY INVOKER"},
    {"", "GRANT SELECT ON {migrations} TO PUBLIC"},
    {"", "DROP FUNCTION {head}()"},
    {"", "DROP VIEW {all_events} CASCADE"},
    {"", "DROP TABLE {events} CASCADE"},
    {"", "DROP SEQUENCE {events_global_sequence_seq} CASCADE"},
    {"", "DROP SCHEMA {schema} CASCADE"},
};

/* Tries every operation as a role; each in a transaction that is taken back. */
static void check_role(const pgt *t, const char *role, char role_char)
{
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, conn, "SET SESSION AUTHORIZATION %s", role);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const operation *o = &operations[i];
        const char *wanted = strchr(o->who, role_char) ? "00000" : "42501";
        const char *got;

        pgt_run(t, conn, "BEGIN");
        got = pgt_state(t, conn, "%s", o->sql);
        if (strcmp(got, wanted) != 0)
            fail_msg("%s as %s: %s instead of %s", o->sql, role, got, wanted);
        pgt_run(t, conn, "ROLLBACK");
    }
    PQfinish(conn);
}

static void each_role_may_exactly_what_the_matrix_says(void **state)
{
    people *p = *state;

    check_role(p->t, "{_publish}", 'P');
    check_role(p->t, "{_read}", 'R');
    check_role(p->t, "{_subscribe}", 'S');
    check_role(p->t, "{_admin}", 'A');
    check_role(p->t, p->nobody, '-');
}

/* What the matrix does not know is closed to everybody. */
static void nothing_of_a_bus_is_open_to_the_public(void **state)
{
    people *p = *state;

    assert_string_equal(
        pgt_text(p->t, p->t->admin,
                 "SELECT coalesce(string_agg(p.proname, ' '), 'none') FROM pg_proc AS p"
                 " WHERE p.pronamespace = '{schema}'::regnamespace"
                 " AND has_function_privilege('%s', p.oid, 'EXECUTE')",
                 p->nobody),
        "none");
    assert_string_equal(
        pgt_text(p->t, p->t->admin,
                 "SELECT coalesce(string_agg(c.relname, ' '), 'none') FROM pg_class AS c,"
                 " (VALUES ('%s'), ('%s'), ('%s')) AS who(name)"
                 " WHERE c.relnamespace = '{schema}'::regnamespace AND c.relkind IN ('r', 'v')"
                 " AND has_table_privilege(who.name, c.oid,"
                 "  'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')",
                 p->nobody, p->reader, p->publisher),
        "none");
    /* Every function that acts as the owner has a search path of its own. */
    assert_string_equal(
        pgt_text(p->t, p->t->admin,
                 "SELECT coalesce(string_agg(p.proname, ' '), 'none') FROM pg_proc AS p"
                 " WHERE p.pronamespace = '{schema}'::regnamespace AND (p.proconfig IS NULL OR NOT"
                 " 'search_path=pg_catalog, pg_temp' = ANY (p.proconfig))"),
        "none");
}

/* ---- the library under each role */

static int read_something(howdah_bus *bus, howdah_error *err)
{
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s = howdah_reader_open_since(bus, 0, &reader, err);

    if (s >= 0)
        s = howdah_reader_next(reader, &event, err);
    howdah_reader_close(reader);
    return s;
}

static int no_step(void *ctx, const howdah_migration_info *step)
{
    (void)ctx;
    (void)step;
    return 0;
}

static void expect_denied(int status, const howdah_error *err)
{
    assert_int_equal(status, HOWDAH_DENIED);
    assert_int_equal(err->status, HOWDAH_DENIED);
    assert_int_equal(err->flags, 0);
    assert_int_equal(howdah_status_exit_code(status), 5);
    assert_true(strlen(err->advice) > 0);
}

static void who_may_publish_appends_in_every_way_and_reads_nothing(void **state)
{
    people *p = *state;
    howdah_bus *bus = pgt_open(p->t, url_of(p, p->publisher));
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_append_options three = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = pgt_event_no("s", 1, "{}");
    howdah_event *other = pgt_event_no("s", 1, "{\"a\":1}");
    howdah_event *back = NULL;
    howdah_tail *tail = NULL;
    pgt_batch b = pgt_batch_new("b", 2500, 3);
    howdah_position pos = HOWDAH_POSITION_INIT;

    three.expected_version = 3;
    pgt_ok(howdah_append(bus, event, NULL, &pos, &pgt_error));
    assert_int_equal(pos.version, 1);
    pgt_ok(howdah_append(bus, event, &three, &pos, &pgt_error));
    assert_int_equal(pos.already_stored, 1);
    assert_int_equal(howdah_append(bus, other, NULL, &pos, &err), HOWDAH_ID_REUSED);
    howdah_event_free(other);
    other = pgt_event("s");
    assert_int_equal(howdah_append(bus, other, &three, &pos, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    for (int again = 0; again < 2; again++) {
        pgt_ok(howdah_append_batch(bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
        for (size_t i = 0; i < b.n; i++) {
            assert_int_equal(b.positions[i].already_stored, again);
            assert_int_equal(b.positions[i].version, 1 + i / 3);
        }
    }
    expect_denied(read_something(bus, &err), &err);
    expect_denied(howdah_event_get_last(bus, "s", &back, &err), &err);
    expect_denied(howdah_tail_open(bus, NULL, &tail, &err), &err);
    expect_denied(howdah_migrations_walk(bus, no_step, NULL, &err), &err);
    assert_int_equal(pgt_count(p->t), 2501);
    howdah_event_free(event);
    howdah_event_free(other);
    pgt_batch_free(&b);
    howdah_close(bus);
}

static int count_node(void *ctx, int depth, const howdah_event *event)
{
    (void)depth;
    (void)event;
    ++*(int *)ctx;
    return 0;
}

static void who_may_read_reads_and_follows_and_appends_nothing(void **state)
{
    people *p = *state;
    howdah_bus *bus = pgt_open(p->t, url_of(p, p->reader));
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_event *event = pgt_event("s");
    howdah_event *back = NULL;
    howdah_tail *tail = NULL;
    const howdah_event *seen = NULL;
    howdah_position pos = HOWDAH_POSITION_INIT;
    int nodes = 0;

    expect_denied(howdah_append(bus, event, NULL, &pos, &err), &err);
    pgt_ok(howdah_append(p->t->bus, event, NULL, &pos, &pgt_error));
    assert_int_equal(read_something(bus, &err), HOWDAH_OK);
    pgt_ok(howdah_event_get_last(bus, "s", &back, &pgt_error));
    howdah_event_free(back);
    pgt_ok(howdah_event_get(bus, pos.id, &back, &pgt_error));
    howdah_event_free(back);
    pgt_ok(howdah_causation_walk(bus, pos.id, count_node, &nodes, &pgt_error));
    assert_int_equal(nodes, 1);
    o.since = 0;
    pgt_ok(howdah_tail_open(bus, &o, &tail, &pgt_error));
    for (int64_t v = 1; v <= 3; v++) {
        assert_int_equal(howdah_tail_next(tail, 2000, &seen, &pgt_error), HOWDAH_OK);
        assert_int_equal(howdah_event_version(seen), v);
        /* The tail has to prove that a number is gone, without any right but to read. */
        pgt_run(p->t, p->t->admin, "BEGIN; SELECT {append}('x', 't'); ROLLBACK");
        (void)pgt_append(p->t->bus, "s");
    }
    howdah_tail_close(tail);
    assert_int_equal(howdah_migrate(bus, NULL, &err), HOWDAH_DENIED);
    howdah_event_free(event);
    howdah_close(bus);
}

static void who_has_no_role_gets_nothing_but_advice(void **state)
{
    people *p = *state;
    howdah_bus *bus = pgt_open(p->t, url_of(p, p->nobody));
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position pos = HOWDAH_POSITION_INIT;

    expect_denied(howdah_append(bus, event, NULL, &pos, &err), &err);
    assert_non_null(strstr(err.advice, "_publish"));
    expect_denied(read_something(bus, &err), &err);
    assert_int_equal(howdah_migrate(bus, NULL, &err), HOWDAH_DENIED);
    assert_int_equal(pgt_count(p->t), 0);
    howdah_event_free(event);
    howdah_close(bus);
}

/* Rights may come and go while a handle is open. */
static int note_dead_letter(void *ctx, const howdah_dead_letter *dead)
{
    char *text = ctx;
    size_t len = strlen(text);

    (void)snprintf(text + len, 64 - len, "%s%lld %s", len > 0 ? ", " : "", (long long)dead->id,
                   dead->source);
    return 0;
}

/* Letter 1 of a subscription, letter 2 of a job of queue "q". */
static void who_may_not_see_to_jobs_has_the_dead_letters_of_subscriptions(void **state)
{
    people *p = *state;
    howdah_bus *bus;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_dead_letters_options of_queue = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    char text[64] = "";
    int64_t n = 0;

    of_queue.queue = "q";
    pgt_run(p->t, p->t->admin,
            "INSERT INTO {dead_letters} (subscriber_id, event_id, global_sequence, version,"
            " recorded_at, revision, schema_version, stream, type, data)"
            " VALUES ('s', gen_random_uuid(), 1, 1, now(), 1, 1, 's', 't', '{}')");
    pgt_run(p->t, p->t->admin, "SELECT {push}('q')");
    pgt_run(p->t, p->t->admin, "SELECT {fail}(c.id, c.token, 'x') FROM {claim}('q') AS c");

    pgt_run(p->t, p->t->admin, "GRANT {_subscribe} TO %s", p->nobody);
    bus = pgt_open(p->t, url_of(p, p->nobody));
    pgt_ok(howdah_dead_letters_walk(bus, NULL, note_dead_letter, text, &pgt_error));
    assert_string_equal(text, "1 sub");
    expect_denied(howdah_dead_letters_walk(bus, &of_queue, note_dead_letter, text, &err), &err);
    pgt_ok(howdah_dead_letters_redrive(bus, NULL, 0, NULL, &n, &pgt_error));
    assert_int_equal(n, 1);
    pgt_ok(howdah_dead_letters_redrive(bus, (const int64_t[]){1, 2}, 2, NULL, &n, &pgt_error));
    assert_int_equal(n, 1);
    expect_denied(howdah_queue_dead_letters_redrive(bus, "q", &n, &err), &err);
    howdah_close(bus);

    pgt_run(p->t, p->t->admin, "REVOKE {_subscribe} FROM %s", p->nobody);
    pgt_run(p->t, p->t->admin, "GRANT {_work} TO %s", p->nobody);
    bus = pgt_open(p->t, url_of(p, p->nobody));
    text[0] = '\0';
    pgt_ok(howdah_dead_letters_walk(bus, &of_queue, note_dead_letter, text, &pgt_error));
    assert_string_equal(text, "2 queue");
    expect_denied(howdah_dead_letters_walk(bus, NULL, note_dead_letter, text, &err), &err);
    expect_denied(howdah_queue_dead_letters_redrive(bus, "q", &n, &err), &err);
    howdah_close(bus);
    assert_int_equal(pgt_number(p->t, p->t->admin,
                                "SELECT count(*) FROM {job_dead_letters} WHERE state = 'dead'"),
                     1);
}

static void a_right_taken_away_is_denied_and_given_again_works(void **state)
{
    people *p = *state;
    howdah_bus *bus = pgt_open(p->t, url_of(p, p->publisher));
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position pos = HOWDAH_POSITION_INIT;

    assert_int_equal(pgt_append(bus, "s").version, 1);
    pgt_run(p->t, p->t->admin, "REVOKE {_publish} FROM %s", p->publisher);
    expect_denied(howdah_append(bus, event, NULL, &pos, &err), &err);
    pgt_run(p->t, p->t->admin, "GRANT {_publish} TO %s", p->publisher);
    pgt_ok(howdah_append(bus, event, NULL, &pos, &pgt_error));
    assert_int_equal(pos.version, 2);
    howdah_event_free(event);
    howdah_close(bus);
}

/* ---- an owner who may not create roles */

typedef struct notes {
    int steps;
    int skipped;
} notes;

static void take_note(void *ctx, const char *text)
{
    notes *n = ctx;

    if (strstr(text, "applied"))
        n->steps++;
    if (strstr(text, "not created"))
        n->skipped++;
}

static notes migrate_noting(howdah_bus *bus)
{
    notes n = {0, 0};
    howdah_migrate_options o = HOWDAH_MIGRATE_OPTIONS_INIT;

    o.note = take_note;
    o.note_ctx = &n;
    pgt_ok(howdah_migrate(bus, &o, &pgt_error));
    return n;
}

static void an_owner_without_createrole_has_a_bus_and_a_note(void **state)
{
    people *p = *state;
    pgt *t = p->t;
    howdah_bus *bus;
    howdah_bus *publisher;
    notes n;

    pgt_run(t, t->admin, "DROP SCHEMA {schema} CASCADE");
    pgt_run(t, t->admin, "DROP ROLE {_publish}, {_read}, {_subscribe}, {_work}, {_admin}");
    bus = pgt_open(t, pgt_env("HOWDAH_TEST_PG_TCP"));
    n = migrate_noting(bus);
    assert_int_equal(n.steps, 9);
    assert_int_equal(n.skipped, 5);
    assert_int_equal(pgt_append(bus, "s").version, 1);
    assert_int_equal(read_something(bus, &pgt_error), HOWDAH_OK);
    /* As the note says: somebody creates the role, and init is run again. */
    pgt_run(t, t->admin, "CREATE ROLE {_publish}");
    n = migrate_noting(bus);
    assert_int_equal(n.skipped, 4);
    pgt_run(t, t->admin, "GRANT {_publish} TO %s", p->publisher);
    publisher = pgt_open(t, url_of(p, p->publisher));
    assert_int_equal(pgt_append(publisher, "s").version, 2);
    /* And a third time there is nothing left to do. */
    n = migrate_noting(bus);
    assert_int_equal(n.steps, 0);
    assert_int_equal(n.skipped, 0);
    howdah_close(publisher);
    howdah_close(bus);
}

/* ---- buses side by side */

static void buses_in_one_database_do_not_see_one_another(void **state)
{
    people *p = *state;
    pgt second = *p->t;
    howdah_bus *bus;
    howdah_event *event = pgt_event_no("s", 1, "{}");
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *back = NULL;
    howdah_position pos = HOWDAH_POSITION_INIT;
    PGconn *conn;

    (void)snprintf(second.schema, sizeof second.schema, "g '%d-%x", (int)getpid(), hw_random_u32());
    second.settings = pgt_settings(&second, "schema", second.schema);
    bus = pgt_open(&second, second.url);
    pgt_ok(howdah_migrate(bus, NULL, &pgt_error));
    /* The same id, stream and version in both. */
    pgt_ok(howdah_append(p->t->bus, event, NULL, &pos, &pgt_error));
    pgt_ok(howdah_append(bus, event, NULL, &pos, &pgt_error));
    assert_int_equal(pos.already_stored, 0);
    assert_int_equal(pos.global_sequence, 1);
    (void)pgt_append(bus, "only-here");
    assert_int_equal(howdah_event_get_last(p->t->bus, "only-here", &back, &err), HOWDAH_NOT_FOUND);
    assert_int_equal(pgt_count(p->t), 1);
    assert_int_equal(pgt_count(&second), 2);
    /* A role of one is nobody in the other. */
    conn = pgt_session(url_of(p, p->publisher));
    assert_string_equal(pgt_state(p->t, conn, "SELECT {append}('s', 't')"), "00000");
    assert_string_equal(pgt_state(&second, conn, "SELECT {append}('s', 't')"), "42501");
    PQfinish(conn);
    howdah_close(bus);
    howdah_event_free(event);
    pgt_run(&second, second.admin, "DROP SCHEMA {schema} CASCADE");
    pgt_run(&second, second.admin,
            "DROP ROLE {_publish}, {_read}, {_subscribe}, {_work}, {_admin}");
    howdah_settings_free(second.settings);
}

/* ---- a caller who means harm */

/* Each raises when it is called in place of the real one. */
static const char *const traps[] = {
    "set_config(text, text, boolean)",
    "lower(text)",
    "current_setting(text)",
    "pg_is_in_recovery()",
    "array_length(anyarray, integer)",
    "unnest(anyarray)",
    "octet_length(text)",
    "octet_length(bytea)",
    "format(text, VARIADIC \"any\")",
    "format(text, text, text, text)",
    "hashtextextended(text, bigint)",
    "pg_advisory_xact_lock(bigint)",
    "nextval(regclass)",
    "pg_current_xact_id()",
    "clock_timestamp()",
    "gen_random_uuid()",
    "uuid_send(uuid)",
    "encode(bytea, text)",
    "decode(text, text)",
    "set_byte(bytea, integer, integer)",
    "get_byte(bytea, integer)",
    "int8send(bigint)",
    "json_typeof(json)",
    "json_each(json)",
    "json_object_keys(json)",
    "json_array_elements(json)",
    "replace(text, text, text)",
    "regexp_replace(text, text, text, text)",
    "translate(text, text, text)",
    "length(text)",
    "strpos(text, text)",
    "uuid_v7()",
    "event_problem(text, text, json, json, text, text, timestamptz, integer, bytea, text, integer)",
    ("append_arrays(uuid[], text[], text[], json[], json[], text[], uuid[], text[], timestamptz[],"
     " integer[], bytea[], text[], bigint[])"),
    "read_events(text, text, text, text, bigint, bigint, bigint, boolean)",
};

static const char *const operators[][3] = {
    {"=", "text", "text"},       {"=", "bigint", "bigint"},   {"=", "uuid", "uuid"},
    {"=", "integer", "integer"}, {"<>", "text", "text"},      {"<", "bigint", "bigint"},
    {"<", "bigint", "integer"},  {">", "integer", "integer"}, {">", "bigint", "integer"},
    {"+", "bigint", "integer"},  {"+", "integer", "integer"}, {"||", "text", "text"},
    {"~", "text", "text"},       {"!~", "text", "text"},      {"->", "json", "text"},
    {"->>", "json", "text"},     {">=", "bigint", "bigint"},  {"<=", "bigint", "bigint"},
    {"&", "integer", "integer"}, {"|", "integer", "integer"}, {"*", "integer", "integer"},
};

static void set_traps(const people *p, PGconn *conn)
{
    pgt_run(p->t, p->t->admin, "CREATE SCHEMA {_evil} AUTHORIZATION %s", p->publisher);
    for (size_t i = 0; i < sizeof traps / sizeof traps[0]; i++) {
        const char *state = pgt_state(p->t, conn,
                                      "CREATE FUNCTION {_evil}.%s RETURNS text LANGUAGE plpgsql"
                                      " AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''XXBAD'',"
                                      " MESSAGE = current_user; END'",
                                      traps[i]);

        if (strcmp(state, "00000") != 0 && !strstr(traps[i], "\"any\"")) /* C functions only */
            fail_msg("%s: %s", traps[i], state);
    }
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        const char *const *o = operators[i];

        pgt_run(p->t, conn,
                "CREATE FUNCTION {_evil}.trap_%zu(%s, %s) RETURNS boolean LANGUAGE plpgsql"
                " AS 'BEGIN RAISE EXCEPTION USING ERRCODE = ''XXBAD''; END'",
                i, o[1], o[2]);
        pgt_run(p->t, conn,
                "CREATE OPERATOR {_evil}.%s (LEFTARG = %s, RIGHTARG = %s,"
                " FUNCTION = {_evil}.trap_%zu)",
                o[0], o[1], o[2], i);
    }
    pgt_run(p->t, conn,
            "CREATE TABLE {_evil}.events (LIKE pg_class);"
            "CREATE TABLE {_evil}.meta (key text, value text);"
            "CREATE TEMP TABLE events (id integer);"
            "CREATE TEMP TABLE meta (key text, value text)");
}

static void a_hostile_search_path_does_not_lead_the_functions_astray(void **state)
{
    people *p = *state;
    PGconn *conn = pgt_session(url_of(p, p->publisher));

    set_traps(p, conn);
    pgt_run(p->t, p->t->admin, "GRANT {_read} TO %s", p->publisher);
    pgt_run(p->t, conn, "SET search_path = {_evil}, pg_temp, pg_catalog");
    /* They work, so to say: */
    assert_string_equal(pgt_state(p->t, conn, "SELECT clock_timestamp()"), "XXBAD");
    assert_string_equal(pgt_state(p->t, conn, "SELECT 'a'::text = 'b'::text"), "XXBAD");
    assert_string_equal(pgt_state(p->t, conn, "SELECT {append}('s', 'a.b', '{\"a\":[1]}')"),
                        "00000");
    assert_string_equal(pgt_state(p->t, conn,
                                  "SELECT {append}('s', 'a.b', headers => '{\"h\":\"v\\u0041\"}',"
                                  " expected_version => 1, correlation_id => 'c')"),
                        "00000");
    assert_string_equal(pgt_state(p->t, conn, "SELECT {append}('s', 'a.b', expected_version => 7)"),
                        "UH003");
    assert_string_equal(pgt_state(p->t, conn, "SELECT {append}('', 'a.b')"), "UH006");
    assert_string_equal(pgt_state(p->t, conn,
                                  "SELECT {append_batch}('[{\"stream\":\"s\",\"type\":\"t\"},"
                                  "{\"stream\":\"s\",\"type\":\"t\",\"data_base64\":\"AAAA\","
                                  "\"content_type\":\"a/b\"}]')"),
                        "00000");
    assert_string_equal(pgt_state(p->t, conn, "SELECT * FROM {read_all}(0, 10, 'a.*')"), "00000");
    assert_string_equal(pgt_state(p->t, conn, "SELECT * FROM {read_stream}('s')"), "00000");
    assert_string_equal(pgt_state(p->t, conn, "SELECT * FROM {last_event}('s')"), "00000");
    assert_string_equal(pgt_state(p->t, conn, "SELECT * FROM {by_correlation}('c')"), "00000");
    assert_string_equal(
        pgt_state(p->t, conn,
                  "SELECT * FROM {causation_tree}('00000000-0000-7000-8000-000000000001')"),
        "00000");
    assert_string_equal(pgt_state(p->t, conn, "SELECT {head}(), {stream_version}('s')"), "00000");
    assert_int_equal(pgt_count(p->t), 4);
    /* Without its own path a function walks into them, so this test can fail. */
    pgt_run(p->t, p->t->admin, "ALTER FUNCTION {append_arrays} RESET search_path");
    pgt_run(p->t, p->t->admin, "ALTER FUNCTION {append} RESET search_path");
    assert_string_not_equal(pgt_state(p->t, conn, "SELECT {append}('s', 'a.b')"), "00000");
    PQfinish(conn);
}

/* The same path, put on the role: the library's own session does not look there either. */
static void a_hostile_search_path_does_not_lead_the_library_astray(void **state)
{
    people *p = *state;
    PGconn *conn = pgt_session(url_of(p, p->publisher));
    howdah_bus *bus;

    set_traps(p, conn);
    PQfinish(conn);
    pgt_run(p->t, p->t->admin, "ALTER ROLE %s SET search_path = {_evil}, pg_catalog", p->publisher);
    bus = pgt_open(p->t, url_of(p, p->publisher));
    assert_int_equal(pgt_append(bus, "s").version, 1);
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    PEOPLE_TEST(each_role_may_exactly_what_the_matrix_says),
    PEOPLE_TEST(nothing_of_a_bus_is_open_to_the_public),
    PEOPLE_TEST(who_may_publish_appends_in_every_way_and_reads_nothing),
    PEOPLE_TEST(who_may_read_reads_and_follows_and_appends_nothing),
    PEOPLE_TEST(who_has_no_role_gets_nothing_but_advice),
    PEOPLE_TEST(who_may_not_see_to_jobs_has_the_dead_letters_of_subscriptions),
    PEOPLE_TEST(a_right_taken_away_is_denied_and_given_again_works),
    PEOPLE_TEST(an_owner_without_createrole_has_a_bus_and_a_note),
    PEOPLE_TEST(buses_in_one_database_do_not_see_one_another),
    PEOPLE_TEST(a_hostile_search_path_does_not_lead_the_functions_astray),
    PEOPLE_TEST(a_hostile_search_path_does_not_lead_the_library_astray),
};

PGT_MAIN("pg roles", tests)
