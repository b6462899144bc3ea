/* test_tail.c - the live tail. */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bus/bus.h"
#include "conformance.h"
#include "store/store.h"

static howdah_tail *open_tail(howdah_bus *bus, int64_t since, const char *pattern)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *tail = NULL;

    o.since = since;
    o.pattern = pattern;
    cf_ok(howdah_tail_open(bus, &o, &tail, &cf_error));
    return tail;
}

/* These sequences come, "1 2 3", and then nothing for wait_ms. */
static void assert_drained(howdah_tail *tail, int wait_ms, const char *expected)
{
    static char text[65536];
    const howdah_event *event = NULL;
    size_t len = 0;
    int s;

    text[0] = '\0';
    while ((s = howdah_tail_next(tail, len < strlen(expected) ? 60000 : wait_ms, &event,
                                 &cf_error)) == HOWDAH_OK)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld", len ? " " : "",
                                (long long)howdah_event_global_sequence(event));
    cf_ok(s);
    assert_string_equal(text, expected);
}

static void a_tail_from_now_on_shows_only_what_comes(void **state)
{
    cf *c = *state;
    howdah_tail *tail;

    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, HOWDAH_ABSENT, NULL);
    assert_drained(tail, 30, "");
    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 100, "3 4");
    howdah_tail_close(tail);
}

static void a_tail_since_a_sequence_shows_what_follows(void **state)
{
    cf *c = *state;
    howdah_tail *tail;

    for (int i = 0; i < 5; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, 2, NULL);
    assert_drained(tail, 30, "3 4 5");
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 100, "6");
    howdah_tail_close(tail);
}

static void a_pattern_lets_only_its_types_through(void **state)
{
    cf *c = *state;
    howdah_tail *tail = open_tail(c->bus, 0, "order.*");

    (void)cf_append(c->bus, "s", "order.created", NULL);
    (void)cf_append(c->bus, "s", "payment.made", NULL);
    (void)cf_append(c->bus, "s", "order.paid", NULL);
    assert_drained(tail, 100, "1 3");
    howdah_tail_close(tail);
}

static void a_tail_reads_more_than_a_batch(void **state)
{
    cf *c = *state;
    howdah_tail *tail;
    const howdah_event *event = NULL;
    int n = 0;

    cf_ok(howdah_settings_set(c->settings, "read_batch", "3", &cf_error));
    howdah_close(c->bus);
    c->bus = cf_open(c);
    for (int i = 0; i < 20; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, 0, NULL);
    while (howdah_tail_next(tail, 30, &event, &cf_error) == HOWDAH_OK)
        assert_int_equal(howdah_event_global_sequence(event), ++n);
    assert_int_equal(n, 20);
    howdah_tail_close(tail);
}

static void bad_tails_are_refused(void **state)
{
    cf *c = *state;
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_tail *tail = NULL;

    o.since = -2;
    assert_int_equal(howdah_tail_open(c->bus, &o, &tail, &err), HOWDAH_INVALID);
    o.since = 0;
    o.pattern = "a b";
    assert_int_equal(howdah_tail_open(c->bus, &o, &tail, &err), HOWDAH_INVALID);
}

/* ---- holes: PostgreSQL only, numbers do not wait for commits there */

static PGconn *session(const cf *c)
{
    PGconn *conn = PQconnectdb(c->admin_url);

    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    return conn;
}

static void run(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
}

/* Appends through SQL in the session's open transaction. */
static void append_in(const cf *c, PGconn *conn, const char *stream)
{
    char *schema = PQescapeIdentifier(conn, c->schema, strlen(c->schema));
    char sql[256];

    (void)snprintf(sql, sizeof sql, "SELECT %s.append('%s', 'late')", schema, stream);
    run(conn, sql);
    PQfreemem(schema);
}

static void an_event_that_commits_late_is_delivered_when_it_appears(void **state)
{
    cf *c = *state;
    howdah_tail *tail;
    PGconn *slow;

    if (!cf_is_pg())
        return;
    slow = session(c);
    (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, 0, NULL);
    run(slow, "BEGIN");
    append_in(c, slow, "slow"); /* number 2 */
    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 150, "1 3 4");
    run(slow, "COMMIT");
    assert_drained(tail, 300, "2");
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 300, "5");
    howdah_tail_close(tail);
    PQfinish(slow);
}

static void a_tail_that_starts_now_comes_back_for_numbers_in_flight(void **state)
{
    cf *c = *state;
    howdah_tail *tail;
    PGconn *slow;

    if (!cf_is_pg())
        return;
    slow = session(c);
    run(slow, "BEGIN");
    append_in(c, slow, "slow"); /* number 1 */
    (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, HOWDAH_ABSENT, NULL);
    assert_drained(tail, 50, "");
    run(slow, "COMMIT");
    assert_drained(tail, 300, "1");
    howdah_tail_close(tail);
    PQfinish(slow);
}

static void rolled_back_numbers_do_not_stop_a_tail(void **state)
{
    cf *c = *state;
    howdah_tail *tail;
    PGconn *loser;

    if (!cf_is_pg())
        return;
    loser = session(c);
    tail = open_tail(c->bus, 0, NULL);
    run(loser, "BEGIN");
    append_in(c, loser, "x"); /* 1 */
    append_in(c, loser, "x"); /* 2 */
    (void)cf_append(c->bus, "s", "t", NULL);
    run(loser, "ROLLBACK");
    assert_drained(tail, 200, "3");
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 200, "4");
    howdah_tail_close(tail);
    PQfinish(loser);
}

static void a_prepared_transaction_is_waited_for(void **state)
{
    cf *c = *state;
    howdah_tail *tail;
    PGconn *conn;
    char gid[200];

    if (!cf_is_pg())
        return;
    conn = session(c);
    tail = open_tail(c->bus, 0, NULL);
    run(conn, "BEGIN");
    append_in(c, conn, "two-phase"); /* 1 */
    (void)snprintf(gid, sizeof gid, "PREPARE TRANSACTION '%s'", c->schema);
    run(conn, gid);
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 200, "2");
    (void)snprintf(gid, sizeof gid, "COMMIT PREPARED '%s'", c->schema);
    run(conn, gid);
    assert_drained(tail, 300, "1");
    howdah_tail_close(tail);
    PQfinish(conn);
}

static int too_much(hw_store *store, const hw_query *query, hw_cursor **ret_cursor,
                    howdah_error *reterr)
{
    (void)store, (void)query, (void)ret_cursor;
    return hw_fail(reterr, HOWDAH_LIMIT, "too much for now");
}

static void when_its_time_is_up_a_tail_tells_why_it_could_not_look(void **state)
{
    cf *c = *state;
    const hw_store_ops *real = c->bus->store->ops;
    hw_store_ops failing = *real;
    howdah_tail *tail = open_tail(c->bus, 0, NULL);
    const howdah_event *event = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)cf_append(c->bus, "s", "t", NULL);
    failing.read_open = too_much;
    c->bus->store->ops = &failing;
    assert_int_equal(howdah_tail_next(tail, 30, &event, &err), HOWDAH_LIMIT);
    assert_string_equal(err.message, "too much for now");
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    c->bus->store->ops = real;
    assert_drained(tail, 30, "1");
    howdah_tail_close(tail);
}

cf_group cf_tail_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(a_tail_from_now_on_shows_only_what_comes),
        CF_TEST(a_tail_since_a_sequence_shows_what_follows),
        CF_TEST(a_pattern_lets_only_its_types_through),
        CF_TEST(a_tail_reads_more_than_a_batch),
        CF_TEST(bad_tails_are_refused),
        CF_TEST(an_event_that_commits_late_is_delivered_when_it_appears),
        CF_TEST(a_tail_that_starts_now_comes_back_for_numbers_in_flight),
        CF_TEST(rolled_back_numbers_do_not_stop_a_tail),
        CF_TEST(a_prepared_transaction_is_waited_for),
        CF_TEST(when_its_time_is_up_a_tail_tells_why_it_could_not_look),
    };
    return CF_GROUP(tests);
}
