/* test_tail.c - the live tail. */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "bus/bus.h"
#include "conformance.h"
#include "store/store.h"

static howdah_tail *open_with(howdah_bus *bus, const howdah_tail_options *options)
{
    howdah_tail *tail = NULL;

    cf_ok(howdah_tail_open(bus, options, &tail, &cf_error));
    return tail;
}

static howdah_tail *open_tail(howdah_bus *bus, int64_t since, const char *pattern)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;

    o.since = since;
    o.pattern = pattern;
    return open_with(bus, &o);
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

/* ---- places */

typedef struct at {
    char text[HOWDAH_PLACE_SIZE];
} at;

static at place_of(howdah_tail *tail)
{
    at place;
    at again;

    cf_ok(howdah_tail_place(tail, place.text, sizeof place.text, &cf_error));
    cf_ok(howdah_tail_place(tail, again.text, sizeof again.text, &cf_error));
    assert_string_equal(place.text, again.text);
    return place;
}

static howdah_tail *go_on(howdah_bus *bus, const at *place)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;

    o.place = place->text;
    return open_with(bus, &o);
}

static void assert_covers(const at *place, const char *expected)
{
    howdah_place *parsed = NULL;
    char text[256];
    size_t len = 0;

    text[0] = '\0';
    cf_ok(howdah_place_new(place->text, &parsed, &cf_error));
    for (int64_t n = 1; n <= 30; n++)
        if (howdah_place_covers(parsed, n))
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%lld", len ? " " : "",
                                    (long long)n);
    howdah_place_free(parsed);
    assert_string_equal(text, expected);
}

/* As after a restore to an earlier moment: numbers above are given out again. */
static void put_back(const cf *c, int64_t to)
{
    char sql[400];

    (void)snprintf(sql, sizeof sql, "DELETE FROM {events} WHERE global_sequence > %lld",
                   (long long)to);
    cf_sql(c, sql);
    if (cf_is_pg())
        (void)snprintf(sql, sizeof sql,
                       "SELECT setval(s.oid::regclass, %lld, %s) FROM pg_class s JOIN pg_class e"
                       " ON e.oid = '{events}'::regclass AND s.relnamespace = e.relnamespace"
                       " WHERE s.relname = 'events_global_sequence_seq'",
                       (long long)(to > 0 ? to : 1), to > 0 ? "true" : "false");
    else
        (void)snprintf(sql, sizeof sql,
                       "UPDATE sqlite_sequence SET seq = %lld WHERE name = 'howdah_events'",
                       (long long)to);
    cf_sql(c, sql);
}

static int warnings;

static void on_log(void *ctx, int level, const char *message)
{
    (void)ctx;
    if (level >= HOWDAH_LOG_WARN && strstr(message, "the place is of another log"))
        warnings++;
}

static howdah_tail *go_on_elsewhere(howdah_bus *bus, const at *place, int64_t returns)
{
    howdah_tail *tail;

    warnings = 0;
    howdah_log_set(on_log, NULL);
    tail = go_on(bus, place);
    howdah_log_set(NULL, NULL);
    assert_int_equal(warnings, returns);
    assert_int_equal(howdah_tail_returns(tail), returns);
    return tail;
}

static const howdah_event *next_of(howdah_tail *tail)
{
    const howdah_event *event = NULL;

    assert_int_equal(howdah_tail_next(tail, CF_PATIENCE_MS, &event, &cf_error), HOWDAH_OK);
    return event;
}

static void a_tail_goes_on_after_the_event_that_its_place_was_taken_at(void **state)
{
    static const char *const rest[] = {"2 3 4 5 6 7", "3 4 5 6 7", "4 5 6 7", "5 6 7", "6 7", "7"};
    cf *c = *state;
    howdah_bus *other = cf_open(c);
    howdah_tail *tail = open_tail(c->bus, 0, NULL);
    at places[6];

    for (int i = 0; i < 6; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(howdah_event_global_sequence(next_of(tail)), i + 1);
        places[i] = place_of(tail);
    }
    assert_covers(&places[3], "1 2 3 4");
    (void)cf_append(c->bus, "s", "t", NULL);
    for (size_t i = 0; i < 6; i++) {
        howdah_tail *later = go_on(other, &places[i]);

        assert_drained(later, 20, rest[i]);
        assert_int_equal(howdah_tail_returns(later), 0);
        howdah_tail_close(later);
    }
    howdah_close(other);
    howdah_tail_close(tail);
}

static void the_place_of_a_tail_from_now_on_says_where_it_begins(void **state)
{
    cf *c = *state;
    howdah_tail *tail = open_tail(c->bus, HOWDAH_ABSENT, NULL);
    at empty = place_of(tail);
    at here;

    howdah_tail_close(tail);
    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, HOWDAH_ABSENT, NULL);
    here = place_of(tail);
    howdah_tail_close(tail);
    (void)cf_append(c->bus, "s", "t", NULL);
    tail = go_on(c->bus, &here);
    assert_drained(tail, 20, "3");
    howdah_tail_close(tail);
    tail = go_on(c->bus, &empty);
    assert_drained(tail, 20, "1 2 3");
    howdah_tail_close(tail);
}

static void a_tail_of_a_stream_goes_on_in_its_stream(void **state)
{
    cf *c = *state;
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *tail;
    at place;

    o.stream = "b";
    o.since = 0;
    tail = open_with(c->bus, &o);
    for (int i = 0; i < 4; i++) {
        (void)cf_append(c->bus, "a", "t", NULL);
        (void)cf_append(c->bus, "b", "t", NULL);
    }
    assert_int_equal(howdah_event_global_sequence(next_of(tail)), 2);
    assert_int_equal(howdah_event_global_sequence(next_of(tail)), 4);
    place = place_of(tail);
    assert_covers(&place, "1 2 3 4"); /* what does not concern it is not outstanding */
    assert_drained(tail, 20, "6 8");
    (void)cf_append(c->bus, "b", "t", NULL);
    assert_drained(tail, 20, "9");
    howdah_tail_close(tail);
    o.since = HOWDAH_ABSENT;
    o.place = place.text;
    tail = open_with(c->bus, &o);
    assert_drained(tail, 20, "6 8 9");
    howdah_tail_close(tail);
}

static void a_tail_of_originals_leaves_corrections_out(void **state)
{
    cf *c = *state;
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_correction correction = HOWDAH_CORRECTION_INIT;
    howdah_position p = cf_append(c->bus, "s", "t", NULL);
    howdah_tail *tail;

    correction.event_id = p.id;
    correction.data = "{}";
    correction.data_len = 2;
    correction.reason = "a typing error";
    cf_ok(howdah_correct(c->bus, &correction, NULL, &cf_error));
    (void)cf_append(c->bus, "s", "t", NULL);
    o.since = 0;
    o.originals_only = true;
    tail = open_with(c->bus, &o);
    assert_drained(tail, 20, "1 3");
    howdah_tail_close(tail);
}

static void a_place_is_no_longer_than_what_is_missing(void **state)
{
    cf *c = *state;
    howdah_tail *tail = open_tail(c->bus, 0, "rare");
    at place;

    for (int i = 0; i < 200; i++)
        (void)cf_append(c->bus, "s", i % 10 == 9 ? "rare" : "often", NULL);
    for (int i = 0; i < 20; i++) {
        howdah_place *parsed = NULL;

        assert_int_equal(howdah_event_global_sequence(next_of(tail)), 10 * (i + 1));
        place = place_of(tail);
        cf_ok(howdah_place_new(place.text, &parsed, &cf_error));
        for (int64_t n = 1; n <= 200; n++)
            assert_int_equal(howdah_place_covers(parsed, n), n <= INT64_C(10) * (i + 1));
        howdah_place_free(parsed);
    }
    howdah_tail_close(tail);
}

static void bad_places_are_refused(void **state)
{
    cf *c = *state;
    howdah_tail *tail = open_tail(c->bus, HOWDAH_ABSENT, NULL);
    at place = place_of(tail);
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    char small[HOWDAH_PLACE_SIZE - 1];

    assert_int_equal(howdah_tail_place(tail, small, sizeof small, &err), HOWDAH_MISUSE);
    howdah_tail_close(tail);
    tail = NULL;
    o.place = "1.0.0.0.0";
    assert_int_equal(howdah_tail_open(c->bus, &o, &tail, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "place");
    assert_string_equal(err.message,
                        "place: must be a text that howdah_tail_place() has made, got 9 bytes");
    o.place = place.text;
    o.since = 0;
    assert_int_equal(howdah_tail_open(c->bus, &o, &tail, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "place: cannot be given with since");
    o = (howdah_tail_options)HOWDAH_TAIL_OPTIONS_INIT;
    o.stream = "";
    assert_int_equal(howdah_tail_open(c->bus, &o, &tail, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "stream");
    assert_null(tail);
}

/* Well-formed, and true of no log. */
static void a_place_that_was_made_up_does_no_harm(void **state)
{
    static const at places[] = {
        {"1.7_________x.0.0"},                      /* beyond the head */
        {"1.7_________x.0.1.7_________x.1"},        /* and with an anchor there */
        {"1.5.0.2.3.1.2.2.0.1.0.0"},                /* others are at its anchors */
        {"1.7_________x.zzzzzzzz.0.0.7_________v"}, /* all of it outstanding */
    };
    cf *c = *state;

    for (int i = 0; i < 5; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        howdah_tail *tail = go_on_elsewhere(c->bus, &places[i], 1);

        assert_drained(tail, 20, "1 2 3 4 5");
        howdah_tail_close(tail);
    }
}

static void a_place_of_a_log_that_was_put_back_hides_no_event_of_what_came_instead(void **state)
{
    cf *c = *state;
    howdah_tail *tail = open_tail(c->bus, 0, NULL);
    at early;
    at late;

    for (int i = 0; i < 3; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 0, "1 2 3");
    early = place_of(tail);
    for (int i = 0; i < 5; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 0, "4 5 6 7 8");
    late = place_of(tail);
    howdah_tail_close(tail);
    howdah_close(c->bus);
    put_back(c, 3);
    c->bus = cf_open(c);
    tail = go_on_elsewhere(c->bus, &early, 0);
    assert_drained(tail, 0, "");
    howdah_tail_close(tail);
    tail = go_on_elsewhere(c->bus, &late, 1); /* before there is anything new */
    for (int i = 0; i < 7; i++)
        (void)cf_append(c->bus, "new", "t", NULL);
    assert_drained(tail, 20, "4 5 6 7 8 9 10"); /* numbers that it knew, and beyond */
    howdah_tail_close(tail);
    tail = go_on_elsewhere(c->bus, &late, 1);
    assert_drained(tail, 20, "4 5 6 7 8 9 10");
    late = place_of(tail);
    howdah_tail_close(tail);
    put_back(c, 0); /* none of its anchors is left */
    (void)cf_append(c->bus, "newer", "t", NULL);
    tail = go_on_elsewhere(c->bus, &late, 1);
    assert_drained(tail, 20, "1");
    howdah_tail_close(tail);
}

static void a_tail_since_the_last_event_notices_that_the_log_was_put_back(void **state)
{
    cf *c = *state;
    howdah_tail *tail;

    for (int i = 0; i < 5; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, 5, NULL); /* and sees nothing before */
    put_back(c, 0);
    (void)cf_append(c->bus, "new", "t", NULL);
    (void)cf_append(c->bus, "new", "t", NULL);
    assert_drained(tail, 20, "1 2");
    assert_int_equal(howdah_tail_returns(tail), 1);
    howdah_tail_close(tail);
}

/* A page without rows of the new log would be the anchor, and be found there for ever. */
static void a_rare_event_of_a_log_that_was_put_back_is_not_missed(void **state)
{
    cf *c = *state;
    howdah_tail *rare;
    howdah_tail *all;

    cf_ok(howdah_settings_set(c->settings, "read_batch", "1", &cf_error));
    howdah_close(c->bus);
    c->bus = cf_open(c);
    for (int i = 1; i <= 10; i++)
        (void)cf_append(c->bus, "s", i == 2 || i == 4 ? "rare" : "often", NULL);
    all = open_tail(c->bus, 10, NULL);
    rare = open_tail(c->bus, 0, "rare");
    assert_int_equal(howdah_event_global_sequence(next_of(rare)), 2);
    assert_int_equal(howdah_event_global_sequence(next_of(rare)), 4); /* it has looked just now */
    put_back(c, 0);
    (void)cf_append(c->bus, "new", "often", NULL);
    (void)cf_append(c->bus, "newer", "rare", NULL);
    for (int i = 0; i < 10; i++)
        (void)cf_append(c->bus, "new", "often", NULL);
    assert_drained(all, 0, "1 2 3 4 5 6 7 8 9 10 11 12"); /* the reader has started anew for it */
    assert_drained(rare, 20, "2");
    howdah_tail_close(rare);
    howdah_tail_close(all);
}

static int fails;

static int fail_at_will(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    (void)ctx;
    (void)event;
    if (fails)
        return howdah_upcast_fail(upcast, "not today");
    howdah_upcast_set_json(upcast, "{}", 2);
    return HOWDAH_OK;
}

static void an_event_that_could_not_be_upcast_is_not_passed(void **state)
{
    cf *c = *state;
    howdah_tail *tail;
    const howdah_event *event = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    at place;

    cf_ok(howdah_upcast_register(c->bus, "old", 1, fail_at_will, NULL, &cf_error));
    tail = open_tail(c->bus, 0, NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "old", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_int_equal(howdah_event_global_sequence(next_of(tail)), 1);
    fails = 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(howdah_tail_next(tail, 0, &event, &err), HOWDAH_INVALID);
        place = place_of(tail);
        assert_covers(&place, "1");
    }
    fails = 0;
    assert_drained(tail, 20, "2 3");
    howdah_tail_close(tail);
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

/* ---- places with holes */

#define SEEN_MAX 32

/* What one tail has handed out, and its place after each. */
typedef struct seen {
    int64_t numbers[SEEN_MAX];
    at places[SEEN_MAX];
    size_t n;
} seen;

/* Until so many in all have come. */
static void see(howdah_tail *tail, seen *s, size_t n)
{
    while (s->n < n) {
        s->numbers[s->n] = howdah_event_global_sequence(next_of(tail));
        s->places[s->n++] = place_of(tail);
    }
}

/* One that goes on after so many of them: what was handed out before it counts as its own. */
typedef struct heir {
    howdah_tail *tail;
    bool has[SEEN_MAX];
    size_t n;
} heir;

static void begin(heir *h, howdah_bus *bus, const howdah_tail_options *filter, const seen *s,
                  size_t after)
{
    howdah_tail_options o = *filter;

    *h = (heir){.n = after};
    o.place = s->places[after - 1].text;
    h->tail = open_with(bus, &o);
    for (size_t i = 0; i < after; i++)
        h->has[s->numbers[i]] = true;
}

/* Takes what comes, until it has "until" events, and nothing comes any more. */
static void hear(heir *h, size_t until)
{
    const howdah_event *event = NULL;

    while (howdah_tail_next(h->tail, h->n < until ? CF_PATIENCE_MS : 0, &event, &cf_error) ==
           HOWDAH_OK) {
        int64_t number = howdah_event_global_sequence(event);

        if (h->has[number])
            fail_msg("%lld comes twice", (long long)number);
        h->has[number] = true;
        h->n++;
    }
}

/* All that the first one has seen, and nothing twice. */
static void end(heir *h, const seen *s)
{
    hear(h, s->n);
    assert_int_equal(h->n, s->n);
    for (size_t i = 0; i < s->n; i++)
        assert_true(h->has[s->numbers[i]]);
    assert_int_equal(howdah_tail_returns(h->tail), 0);
    howdah_tail_close(h->tail);
}

#define STEPS 4

/* Three transactions, of which the second is rolled back; others append meanwhile.  How many events
   have come after each step is counts.  A tail goes on after each event: at once, or at the end. */
static void cut_everywhere(cf *c, const howdah_tail_options *filter, const size_t counts[STEPS],
                           bool at_once)
{
    static seen s;
    heir heirs[SEEN_MAX];
    size_t n = 0;
    PGconn *slow[] = {session(c), session(c), session(c)};
    howdah_bus *other = cf_open(c);
    howdah_tail_options o = *filter;
    howdah_tail *tail;

    s.n = 0;
    o.since = 0;
    tail = open_with(c->bus, &o);
    for (int i = 0; i < 3; i++) {
        run(slow[i], "BEGIN");
        append_in(c, slow[i], i == 0 ? "x" : i == 1 ? "y" : "z"); /* 1, 2, 3 */
    }
    for (size_t step = 0; step < STEPS; step++) {
        if (step == 1)
            append_in(c, slow[0], "x");                               /* 6 */
        (void)cf_append(c->bus, "s", "t", NULL);                      /* 4, 7, 9, 11 */
        (void)cf_append(c->bus, step < 2 ? "u" : "x", "often", NULL); /* 5, 8, 10, 12 */
        if (step > 0)
            run(slow[step - 1], step == 2 ? "ROLLBACK" : "COMMIT");
        see(tail, &s, counts[step]);
        for (; at_once && n < s.n; n++)
            begin(&heirs[n], other, filter, &s, n + 1);
        for (size_t i = 0; i < n; i++)
            hear(&heirs[i], 0);
    }
    for (; n < s.n; n++)
        begin(&heirs[n], other, filter, &s, n + 1);
    for (size_t i = 0; i < n; i++)
        end(&heirs[i], &s);
    howdah_tail_close(tail);
    for (int i = 0; i < 3; i++)
        PQfinish(slow[i]);
    howdah_close(other);
}

static const size_t counts_of_all[STEPS] = {2, 6, 8, 11};

static void with_transactions_open_a_tail_goes_on_from_every_place_at_once(void **state)
{
    const howdah_tail_options all = HOWDAH_TAIL_OPTIONS_INIT;

    if (cf_is_pg())
        cut_everywhere(*state, &all, counts_of_all, true);
}

static void with_transactions_open_a_tail_goes_on_from_every_place_later(void **state)
{
    const howdah_tail_options all = HOWDAH_TAIL_OPTIONS_INIT;

    if (cf_is_pg())
        cut_everywhere(*state, &all, counts_of_all, false);
}

static void a_tail_with_a_pattern_goes_on_from_every_place(void **state)
{
    static const size_t counts[STEPS] = {0, 2, 2, 3};
    howdah_tail_options late = HOWDAH_TAIL_OPTIONS_INIT;

    late.pattern = "late";
    if (cf_is_pg())
        cut_everywhere(*state, &late, counts, true);
}

static void a_tail_with_a_stream_goes_on_from_every_place(void **state)
{
    static const size_t counts[STEPS] = {0, 2, 3, 4};
    howdah_tail_options x = HOWDAH_TAIL_OPTIONS_INIT;

    x.stream = "x";
    if (cf_is_pg())
        cut_everywhere(*state, &x, counts, true);
}

static void a_place_has_what_stands_still(void **state)
{
    cf *c = *state;
    howdah_bus *other;
    howdah_tail *tail;
    PGconn *slow;
    PGconn *loser;
    at place;

    if (!cf_is_pg())
        return;
    other = cf_open(c);
    slow = session(c);
    loser = session(c);
    run(slow, "BEGIN");
    append_in(c, slow, "slow"); /* 1 */
    run(loser, "BEGIN");
    append_in(c, loser, "x"); /* 2, which the first one may have drawn as well */
    run(loser, "ROLLBACK");
    for (int i = 0; i < 4; i++)
        (void)cf_append(c->bus, "s", "t", NULL);
    tail = open_tail(c->bus, 0, NULL); /* finds holes that are older than it */
    assert_drained(tail, 1500, "3 4 5 6");
    place = place_of(tail);
    assert_covers(&place, "3 4 5 6");
    howdah_tail_close(tail);
    tail = go_on(c->bus, &place);
    run(slow, "COMMIT");
    assert_drained(tail, 300, "1");
    place = place_of(tail);
    assert_covers(&place, "1 2 3 4 5 6");
    howdah_tail_close(tail);
    PQfinish(slow);
    PQfinish(loser);
    howdah_close(other);
}

/* The other bus has a reader that has not looked since. */
static void what_another_process_has_seen_commit_does_not_come_again(void **state)
{
    cf *c = *state;
    howdah_bus *other;
    howdah_tail *before;
    howdah_tail *tail;
    PGconn *slow;
    at place;

    if (!cf_is_pg())
        return;
    other = cf_open(c);
    slow = session(c);
    run(slow, "BEGIN");
    append_in(c, slow, "slow"); /* 1 */
    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    before = open_tail(other, 2, NULL);
    assert_drained(before, 0, "3"); /* 1 stands still for it, as of now */
    run(slow, "COMMIT");
    tail = open_tail(c->bus, 0, NULL);
    for (int i = 1; i <= 3; i++)
        assert_int_equal(howdah_event_global_sequence(next_of(tail)), i);
    place = place_of(tail);
    howdah_tail_close(tail);
    tail = go_on(other, &place);
    assert_drained(tail, 300, "");
    (void)cf_append(c->bus, "s", "t", NULL);
    assert_drained(tail, 300, "4");
    howdah_tail_close(tail);
    howdah_tail_close(before);
    PQfinish(slow);
    howdah_close(other);
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
        CF_TEST(a_tail_goes_on_after_the_event_that_its_place_was_taken_at),
        CF_TEST(the_place_of_a_tail_from_now_on_says_where_it_begins),
        CF_TEST(a_tail_of_a_stream_goes_on_in_its_stream),
        CF_TEST(a_tail_of_originals_leaves_corrections_out),
        CF_TEST(a_place_is_no_longer_than_what_is_missing),
        CF_TEST(bad_places_are_refused),
        CF_TEST(a_place_that_was_made_up_does_no_harm),
        CF_TEST(a_place_of_a_log_that_was_put_back_hides_no_event_of_what_came_instead),
        CF_TEST(a_tail_since_the_last_event_notices_that_the_log_was_put_back),
        CF_TEST(a_rare_event_of_a_log_that_was_put_back_is_not_missed),
        CF_TEST(an_event_that_could_not_be_upcast_is_not_passed),
        CF_TEST(an_event_that_commits_late_is_delivered_when_it_appears),
        CF_TEST(a_tail_that_starts_now_comes_back_for_numbers_in_flight),
        CF_TEST(rolled_back_numbers_do_not_stop_a_tail),
        CF_TEST(a_prepared_transaction_is_waited_for),
        CF_TEST(with_transactions_open_a_tail_goes_on_from_every_place_at_once),
        CF_TEST(with_transactions_open_a_tail_goes_on_from_every_place_later),
        CF_TEST(a_tail_with_a_pattern_goes_on_from_every_place),
        CF_TEST(a_tail_with_a_stream_goes_on_from_every_place),
        CF_TEST(a_place_has_what_stands_still),
        CF_TEST(what_another_process_has_seen_commit_does_not_come_again),
        CF_TEST(when_its_time_is_up_a_tail_tells_why_it_could_not_look),
    };
    return CF_GROUP(tests);
}
