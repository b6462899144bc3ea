/*
 * test_publisher.c - many threads append through one handle.  Runs under ThreadSanitizer too.
 *
 * That several calls meet in one round is not left to luck: a writer that keeps its transaction
 * open holds a first one up (hold()), and what is submitted meanwhile goes together afterwards.
 */
#include <libpq-fe.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conformance.h"

#define OUTCOMES_MAX 64

static howdah_publisher *publisher_of(const cf *c, const howdah_publisher_options *options)
{
    howdah_publisher *publisher = NULL;

    cf_ok(howdah_publisher_new(c->url, c->settings, options, &publisher, &cf_error));
    return publisher;
}

/* ---- a submission and what became of it */

typedef struct outcome {
    howdah_event *event;
    howdah_position position;
    atomic_int told; /* how often */
    int status;
    howdah_error err;
} outcome;

static void on_done(void *ctx, int status, const howdah_error *error)
{
    outcome *o = ctx;

    o->status = status;
    if (error)
        o->err = *error;
    (void)atomic_fetch_add(&o->told, 1);
}

static void wait_told(const outcome *o)
{
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;

    while (atomic_load(&o->told) == 0 && hw_clock_mono_ms() < until)
        hw_clock_sleep_ms(1);
    assert_int_equal(atomic_load(&o->told), 1);
}

static void submit(howdah_publisher *publisher, outcome *o, howdah_event *event, int64_t expected)
{
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    const howdah_event *events[1] = {event};

    options.expected_version = expected;
    *o = (outcome){.event = event, .position = HOWDAH_POSITION_INIT};
    cf_ok(howdah_publisher_submit(publisher, events, 1, &options, &o->position, on_done, o,
                                  &cf_error));
}

static void end_outcomes(outcome *outcomes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        wait_told(&outcomes[i]);
        howdah_event_free(outcomes[i].event);
    }
}

static howdah_event *event_with_id(const char *stream, const char *id, const char *json)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, "t");
    howdah_builder_set_id(b, id);
    howdah_builder_set_json(b, json, strlen(json));
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    howdah_builder_free(b);
    return event;
}

/* ---- a writer that is in the way */

typedef struct held {
    PGconn *conn;
    sqlite3 *db;
    outcome first; /* the submission that waits for it */
} held;

static void pg_do(PGconn *conn, const char *sql)
{
    PGresult *result = PQexec(conn, sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
}

/* A trigger that takes its time; it does not wait for a lock, which would be given up soon. */
static void make_slow_stream(const cf *c)
{
    cf_sql(c, "CREATE OR REPLACE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS"
              " 'BEGIN WHILE NOT pg_try_advisory_xact_lock(42) LOOP PERFORM pg_sleep(0.002);"
              " END LOOP; RETURN NEW; END'");
    cf_sql(c, "CREATE TRIGGER slow BEFORE INSERT ON {events} FOR EACH ROW"
              " WHEN (NEW.stream::text = 'held') EXECUTE FUNCTION public.slow()");
}

/* Or until its time is over already: a busy machine may take long to tell. */
static void wait_slow(const cf *c, const outcome *first)
{
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;

    while (atomic_load(&first->told) == 0 &&
           cf_sql_number(c, "SELECT count(*) FROM pg_stat_activity WHERE datname = "
                            "current_database() AND wait_event = 'PgSleep'") == 0)
        assert_true(hw_clock_mono_ms() < until);
}

/*
 * One submission is under way and does not come to its end: in a trigger, or for want of the file's
 * write lock.  What is submitted from now on goes together after release().
 */
static void hold(const cf *c, howdah_publisher *publisher, held *h)
{
    *h = (held){.conn = NULL};
    if (cf_is_pg()) {
        make_slow_stream(c);
        h->conn = PQconnectdb(c->admin_url);
        pg_do(h->conn, "BEGIN");
        pg_do(h->conn, "SELECT pg_advisory_xact_lock(42)");
    } else {
        assert_int_equal(sqlite3_open(c->admin_url + strlen("sqlite:"), &h->db), SQLITE_OK);
        assert_int_equal(sqlite3_exec(h->db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    }
    submit(publisher, &h->first, cf_event("held", "t", NULL), HOWDAH_EXPECT_ANY);
    if (cf_is_pg())
        wait_slow(c, &h->first);
    else
        hw_clock_sleep_ms(20); /* if it has not begun yet, it goes with the others: no harm */
}

static void release(held *h)
{
    if (h->conn) {
        pg_do(h->conn, "ROLLBACK");
        PQfinish(h->conn);
    } else {
        assert_int_equal(sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(h->db);
    }
    end_outcomes(&h->first, 1);
    assert_int_equal(h->first.status, HOWDAH_OK);
}

/* ---- one call */

static void an_append_through_a_publisher_is_stored(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    howdah_event *event = cf_event("s", "t", "{\"a\":1}");
    const howdah_event *events[1] = {event};
    howdah_position p = HOWDAH_POSITION_INIT;
    char id[HOWDAH_UUID_SIZE];

    cf_ok(howdah_publisher_append(publisher, events, 1, NULL, &p, &cf_error));
    howdah_event_id(event, id);
    assert_string_equal(p.id, id);
    assert_int_equal(p.version, 1);
    assert_int_equal(p.already_stored, 0);
    cf_ok(howdah_publisher_append(publisher, events, 1, NULL, &p, &cf_error));
    assert_int_equal(p.version, 1);
    assert_int_equal(p.already_stored, 1);
    assert_int_equal(cf_count(c->bus), 1);
    howdah_event_free(event);
    howdah_publisher_free(publisher);
}

static void a_batch_of_many_streams_is_stored_whole(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    const howdah_event *events[2500];
    howdah_position *p = calloc(2500, sizeof *p);
    char stream[16];

    assert_non_null(p);
    p[0] = (howdah_position)HOWDAH_POSITION_INIT;
    for (int i = 0; i < 2500; i++) {
        (void)snprintf(stream, sizeof stream, "s%d", i % 7);
        events[i] = cf_event(stream, "t", NULL);
    }
    cf_ok(howdah_publisher_append(publisher, events, 2500, NULL, p, &cf_error));
    for (int i = 0; i < 2500; i++) {
        assert_int_equal(p[i].version, i / 7 + 1);
        howdah_event_free((howdah_event *)(uintptr_t)events[i]);
    }
    assert_int_equal(cf_count(c->bus), 2500);
    free(p);
    howdah_publisher_free(publisher);
}

/* ---- verdicts */

static void each_caller_of_a_round_gets_its_own_verdict(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    howdah_event *old = event_with_id("old", "00000000-0000-7000-8000-000000000001", "{\"a\":1}");
    outcome o[6];
    held h;

    (void)cf_append_event(c->bus, old);
    howdah_event_free(old);
    hold(c, publisher, &h);
    submit(publisher, &o[0], cf_event("a", "t", NULL), HOWDAH_EXPECT_NONE);
    submit(publisher, &o[1], cf_event("old", "t", NULL), 7);
    submit(publisher, &o[2],
           event_with_id("old", "00000000-0000-7000-8000-000000000001", "{\"a\":2}"),
           HOWDAH_EXPECT_ANY);
    submit(publisher, &o[3],
           event_with_id("old", "00000000-0000-7000-8000-000000000001", "{\"a\":1}"), 9);
    submit(publisher, &o[4], cf_event("a", "t", NULL), 1);
    submit(publisher, &o[5], cf_event("b", "t", NULL), HOWDAH_EXPECT_EXISTS);
    release(&h);
    end_outcomes(o, 6);
    assert_int_equal(o[0].status, HOWDAH_OK);
    assert_int_equal(o[0].position.version, 1);
    assert_int_equal(o[1].status, HOWDAH_CONFLICT);
    assert_int_equal(o[1].err.actual_version, 1);
    assert_int_equal(o[2].status, HOWDAH_ID_REUSED);
    assert_int_equal(o[3].status, HOWDAH_OK);
    assert_int_equal(o[3].position.already_stored, 1);
    assert_int_equal(o[3].position.version, 1);
    assert_int_equal(o[4].status, HOWDAH_OK);
    assert_int_equal(o[4].position.version, 2);
    assert_int_equal(o[5].status, HOWDAH_CONFLICT);
    assert_int_equal(o[5].err.actual_version, 0);
    assert_int_equal(cf_count(c->bus), 4);
    howdah_publisher_free(publisher);
}

static void of_many_that_expect_the_same_version_the_first_is_stored(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    outcome o[40];
    held h;

    hold(c, publisher, &h);
    for (int i = 0; i < 40; i++)
        submit(publisher, &o[i], cf_event("s", "t", NULL), i < 20 ? HOWDAH_EXPECT_NONE : 1);
    release(&h);
    end_outcomes(o, 40);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(o[i].status, i == 0 || i == 20 ? HOWDAH_OK : HOWDAH_CONFLICT);
        if (o[i].status == HOWDAH_OK)
            assert_int_equal(o[i].position.version, i == 0 ? 1 : 2);
    }
    /* Those without table rights are decided one by one, after all that went. */
    if (cf_is_owner()) {
        assert_int_equal(o[1].err.actual_version, 1);
        assert_int_equal(o[39].err.actual_version, 2);
    }
    assert_int_equal(cf_count(c->bus), 3);
    howdah_publisher_free(publisher);
}

static void those_without_an_expectation_get_consecutive_versions_in_order(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    outcome o[50];
    held h;

    hold(c, publisher, &h);
    for (int i = 0; i < 50; i++)
        submit(publisher, &o[i], cf_event(i % 2 ? "odd" : "even", "t", NULL), HOWDAH_EXPECT_ANY);
    release(&h);
    end_outcomes(o, 50);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(o[i].status, HOWDAH_OK);
        assert_int_equal(o[i].position.version, i / 2 + 1);
        if (i > 0)
            assert_true(o[i].position.global_sequence > o[i - 1].position.global_sequence);
    }
    howdah_publisher_free(publisher);
}

static void an_id_that_is_in_two_calls_of_a_round_is_stored_once(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    outcome o[4];
    held h;

    hold(c, publisher, &h);
    for (int i = 0; i < 3; i++)
        submit(publisher, &o[i],
               event_with_id("s", "00000000-0000-7000-8000-000000000002", "{\"a\":1}"),
               HOWDAH_EXPECT_NONE);
    submit(publisher, &o[3],
           event_with_id("s", "00000000-0000-7000-8000-000000000002", "{\"a\":2}"),
           HOWDAH_EXPECT_ANY);
    release(&h);
    end_outcomes(o, 4);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(o[i].status, HOWDAH_OK);
        assert_int_equal(o[i].position.version, 1);
        assert_int_equal(o[i].position.already_stored, i > 0);
    }
    assert_int_equal(o[3].status, HOWDAH_ID_REUSED);
    assert_int_equal(cf_count(c->bus), 2);
    howdah_publisher_free(publisher);
}

/* What a trigger of the user's refuses, the library cannot know beforehand. */
static void what_only_the_store_refuses_refuses_nobody_else(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    outcome o[30];
    held h;

    if (cf_is_pg()) {
        cf_sql(c, "CREATE FUNCTION public.no_bad() RETURNS trigger LANGUAGE plpgsql AS"
                  " 'BEGIN IF NEW.type = ''bad'' THEN RAISE EXCEPTION ''no''; END IF;"
                  " RETURN NEW; END'");
        cf_sql(c, "CREATE TRIGGER no_bad BEFORE INSERT ON {events} FOR EACH ROW"
                  " EXECUTE FUNCTION public.no_bad()");
    } else {
        cf_sql(c, "CREATE TRIGGER no_bad BEFORE INSERT ON {events} WHEN NEW.type = 'bad'"
                  " BEGIN SELECT raise(ABORT, 'no'); END");
    }
    hold(c, publisher, &h);
    for (int i = 0; i < 30; i++)
        submit(publisher, &o[i], cf_event("s", i % 10 == 3 ? "bad" : "good", NULL),
               HOWDAH_EXPECT_ANY);
    release(&h);
    end_outcomes(o, 30);
    for (int i = 0; i < 30; i++)
        assert_int_equal(o[i].status, i % 10 == 3 ? HOWDAH_FAILED : HOWDAH_OK);
    assert_int_equal(cf_count(c->bus), 28);
    howdah_publisher_free(publisher);
}

static void what_is_wrong_by_itself_is_told_at_once(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    howdah_event *event = cf_event("s", "t", NULL);
    const howdah_event *events[2] = {event, event};
    howdah_error err = HOWDAH_ERROR_INIT;
    outcome o = {.event = event};

    assert_int_equal(howdah_publisher_append(publisher, events, 2, NULL, NULL, &err),
                     HOWDAH_INVALID);
    assert_string_equal(err.field, "id");
    assert_int_equal(howdah_publisher_submit(publisher, events, 2, NULL, NULL, on_done, &o, &err),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_publisher_submit(publisher, events, 0, NULL, NULL, on_done, &o, &err),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_publisher_submit(publisher, events, 1, NULL, NULL, NULL, &o, &err),
                     HOWDAH_MISUSE);
    assert_int_equal(howdah_publisher_append(publisher, NULL, 1, NULL, NULL, &err), HOWDAH_MISUSE);
    cf_ok(howdah_publisher_append(publisher, events, 0, NULL, NULL, &cf_error));
    assert_int_equal(cf_count(c->bus), 0);
    assert_int_equal(atomic_load(&o.told), 0);
    howdah_event_free(event);
    howdah_publisher_free(publisher);
}

/* ---- limits and the end */

static void over_the_limit_a_call_is_refused_and_may_be_repeated(void **state)
{
    cf *c = *state;
    howdah_publisher_options options = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_publisher_counts counts = HOWDAH_PUBLISHER_COUNTS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_publisher *publisher;
    const howdah_event *events[4];
    outcome o[3];
    held h;

    options.events_max = 3;
    publisher = publisher_of(c, &options);
    for (int i = 0; i < 4; i++)
        events[i] = cf_event("s", "t", NULL);
    assert_int_equal(howdah_publisher_append(publisher, events, 4, NULL, NULL, &err), HOWDAH_LIMIT);
    assert_int_equal(err.flags, 0);
    hold(c, publisher, &h);
    submit(publisher, &o[0], cf_event("s", "t", NULL), HOWDAH_EXPECT_ANY);
    submit(publisher, &o[1], cf_event("s", "t", NULL), HOWDAH_EXPECT_ANY);
    assert_int_equal(howdah_publisher_append(publisher, events, 1, NULL, NULL, &err),
                     HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    cf_ok(howdah_publisher_counts_get(publisher, &counts));
    assert_int_equal(counts.waiting_events, 3);
    assert_int_equal(counts.refused, 1);
    release(&h);
    end_outcomes(o, 2);
    cf_ok(howdah_publisher_append(publisher, events, 3, NULL, NULL, &cf_error));
    assert_int_equal(cf_count(c->bus), 6);
    for (int i = 0; i < 4; i++)
        howdah_event_free((howdah_event *)(uintptr_t)events[i]);
    howdah_publisher_free(publisher);
}

static void options_out_of_range_are_refused_by_name(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    for (int i = 0; i < 5; i++) {
        static const char *const names[] = {"sessions", "events_max", "bytes_max", "wait_ms",
                                            "close_ms"};
        howdah_publisher_options options = HOWDAH_PUBLISHER_OPTIONS_INIT;
        int64_t *const fields[] = {&options.sessions, &options.events_max, &options.bytes_max,
                                   &options.wait_ms, &options.close_ms};

        *fields[i] = 0;
        assert_int_equal(howdah_publisher_new(c->url, NULL, &options, &publisher, &err),
                         HOWDAH_INVALID);
        assert_string_equal(err.field, names[i]);
    }
    assert_int_equal(howdah_publisher_new("sqlite::memory:", NULL, NULL, &publisher, &err),
                     HOWDAH_INVALID);
    assert_string_equal(err.field, "store");
    assert_null(publisher);
}

static void freeing_stores_what_waits(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    outcome o[50];

    for (int i = 0; i < 50; i++)
        submit(publisher, &o[i], cf_event("s", "t", NULL), HOWDAH_EXPECT_ANY);
    howdah_publisher_free(publisher);
    for (int i = 0; i < 50; i++) {
        assert_int_equal(atomic_load(&o[i].told), 1);
        assert_int_equal(o[i].status, HOWDAH_OK);
        assert_int_equal(o[i].position.version, i + 1);
    }
    end_outcomes(o, 50);
    assert_int_equal(cf_count(c->bus), 50);
}

static void what_cannot_be_stored_before_the_end_is_told_so(void **state)
{
    cf *c = *state;
    howdah_publisher_options options = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_publisher *publisher;
    outcome o[5];
    held h;

    options.close_ms = 30;
    publisher = publisher_of(c, &options);
    hold(c, publisher, &h);
    for (int i = 0; i < 5; i++)
        submit(publisher, &o[i], cf_event("s", "t", NULL), HOWDAH_EXPECT_ANY);
    howdah_publisher_free(publisher);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(atomic_load(&o[i].told), 1);
        assert_int_equal(o[i].status, HOWDAH_UNAVAILABLE);
    }
    assert_int_equal(atomic_load(&h.first.told), 1);
    assert_int_equal(h.first.status, HOWDAH_UNAVAILABLE);
    h.first.status = HOWDAH_OK; /* for release() */
    release(&h);
    end_outcomes(o, 5);
    assert_int_equal(cf_count(c->bus), 0);
}

static void a_call_that_waits_too_long_fails_and_stores_nothing(void **state)
{
    cf *c = *state;
    howdah_publisher_options options = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_publisher *publisher;
    outcome o[5];
    held h;

    options.wait_ms = 100;
    publisher = publisher_of(c, &options);
    hold(c, publisher, &h);
    for (int i = 0; i < 5; i++) /* their time may come when that of the first is over */
        submit(publisher, &o[i], cf_event("held", "t", NULL), HOWDAH_EXPECT_ANY);
    for (int i = 0; i < 5; i++) {
        wait_told(&o[i]);
        assert_true(o[i].status == HOWDAH_TIMEOUT || o[i].status == HOWDAH_UNAVAILABLE);
        assert_int_equal(o[i].err.flags & HOWDAH_OUTCOME_UNKNOWN, 0);
    }
    wait_told(&h.first);
    h.first.status = HOWDAH_OK;
    release(&h);
    end_outcomes(o, 5);
    assert_int_equal(cf_count(c->bus), 0);
    submit(publisher, &o[0], cf_event("s", "t", NULL), HOWDAH_EXPECT_NONE);
    end_outcomes(o, 1);
    assert_int_equal(o[0].status, HOWDAH_OK);
    howdah_publisher_free(publisher);
}

/* ---- many threads */

#define THREADS 16
#define EACH 60
#define STREAMS 3

typedef struct load {
    howdah_publisher *publisher;
    atomic_int stored;
    atomic_int conflicts;
    atomic_int others;
    int expected_kind; /* 0: none; 1: what the last conflict or success said */
    pthread_t threads[THREADS];
} load;

static void *append_many(void *arg)
{
    load *l = arg;
    int64_t known[STREAMS] = {0};
    char stream[8];

    for (int i = 0; i < EACH; i++) {
        howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
        howdah_position p = HOWDAH_POSITION_INIT;
        howdah_error err = HOWDAH_ERROR_INIT;
        const howdah_event *events[1];
        int s;

        (void)snprintf(stream, sizeof stream, "s%d", i % STREAMS);
        events[0] = cf_event(stream, "t", NULL);
        if (l->expected_kind == 1)
            options.expected_version = known[i % STREAMS];
        s = howdah_publisher_append(l->publisher, events, 1, &options, &p, &err);
        if (s >= 0)
            known[i % STREAMS] = p.version;
        else if (s == HOWDAH_CONFLICT)
            known[i % STREAMS] = err.actual_version;
        (void)atomic_fetch_add(s >= 0                 ? &l->stored
                               : s == HOWDAH_CONFLICT ? &l->conflicts
                                                      : &l->others,
                               1);
        howdah_event_free((howdah_event *)(uintptr_t)events[0]);
    }
    return NULL;
}

static void run_load(const cf *c, int64_t sessions, int expected_kind, load *l)
{
    howdah_publisher_options options = HOWDAH_PUBLISHER_OPTIONS_INIT;

    options.sessions = sessions;
    *l = (load){.publisher = publisher_of(c, &options), .expected_kind = expected_kind};
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&l->threads[i], NULL, append_many, l), 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(l->threads[i], NULL);
    howdah_publisher_free(l->publisher);
    assert_int_equal(atomic_load(&l->others), 0);
    assert_int_equal(cf_count(c->bus), atomic_load(&l->stored));
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM (SELECT stream FROM {events}"
                                      " GROUP BY stream HAVING count(*) <> max(version)) AS x"),
                     0);
}

static void many_threads_lose_nothing_and_leave_no_gap(void **state)
{
    load l;

    run_load(*state, 1, 0, &l);
    assert_int_equal(atomic_load(&l.stored), THREADS * EACH);
}

static void several_sessions_keep_the_order_of_each_stream(void **state)
{
    load l;

    run_load(*state, 4, 0, &l);
    assert_int_equal(atomic_load(&l.stored), THREADS * EACH);
}

static void a_storm_of_conflicts_ends_with_one_winner_each(void **state)
{
    load l;

    run_load(*state, 1, 1, &l);
    assert_int_equal(atomic_load(&l.stored) + atomic_load(&l.conflicts), THREADS * EACH);
    assert_true(atomic_load(&l.stored) > 0);
}

static void a_storm_over_several_sessions_ends_as_well(void **state)
{
    load l;

    run_load(*state, 3, 1, &l);
    assert_int_equal(atomic_load(&l.stored) + atomic_load(&l.conflicts), THREADS * EACH);
}

/* ---- callbacks */

typedef struct chain {
    howdah_publisher *publisher;
    howdah_event *event;
    atomic_int left;
    int misuse;
} chain;

static void on_chain(void *ctx, int status, const howdah_error *error)
{
    chain *l = ctx;
    const howdah_event *events[1];

    assert_null(error);
    assert_int_equal(status, HOWDAH_OK);
    howdah_event_free(l->event);
    events[0] = l->event = cf_event("s", "t", NULL);
    l->misuse = howdah_publisher_append(l->publisher, events, 1, NULL, NULL, NULL);
    if (atomic_fetch_sub(&l->left, 1) > 1)
        cf_ok(howdah_publisher_submit(l->publisher, events, 1, NULL, NULL, on_chain, l, &cf_error));
}

static void a_callback_may_submit_but_not_wait(void **state)
{
    cf *c = *state;
    howdah_publisher *publisher = publisher_of(c, NULL);
    chain l = {.publisher = publisher, .event = cf_event("s", "t", NULL), .left = 5};
    const howdah_event *events[1] = {l.event};
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;

    cf_ok(howdah_publisher_submit(publisher, events, 1, NULL, NULL, on_chain, &l, &cf_error));
    while (atomic_load(&l.left) > 0 && hw_clock_mono_ms() < until)
        hw_clock_sleep_ms(1);
    howdah_publisher_free(publisher);
    assert_int_equal(atomic_load(&l.left), 0);
    assert_int_equal(l.misuse, HOWDAH_MISUSE);
    assert_int_equal(cf_count(c->bus), 5);
    howdah_event_free(l.event);
}

cf_group cf_publisher_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(an_append_through_a_publisher_is_stored),
        CF_TEST(a_batch_of_many_streams_is_stored_whole),
        CF_TEST(each_caller_of_a_round_gets_its_own_verdict),
        CF_TEST(of_many_that_expect_the_same_version_the_first_is_stored),
        CF_TEST(those_without_an_expectation_get_consecutive_versions_in_order),
        CF_TEST(an_id_that_is_in_two_calls_of_a_round_is_stored_once),
        CF_TEST(what_only_the_store_refuses_refuses_nobody_else),
        CF_TEST(what_is_wrong_by_itself_is_told_at_once),
        CF_TEST(over_the_limit_a_call_is_refused_and_may_be_repeated),
        CF_TEST(options_out_of_range_are_refused_by_name),
        CF_TEST(freeing_stores_what_waits),
        CF_TEST(what_cannot_be_stored_before_the_end_is_told_so),
        CF_TEST(a_call_that_waits_too_long_fails_and_stores_nothing),
        CF_TEST(many_threads_lose_nothing_and_leave_no_gap),
        CF_TEST(several_sessions_keep_the_order_of_each_stream),
        CF_TEST(a_storm_of_conflicts_ends_with_one_winner_each),
        CF_TEST(a_storm_over_several_sessions_ends_as_well),
        CF_TEST(a_callback_may_submit_but_not_wait),
    };

    return (cf_group){tests, sizeof tests / sizeof tests[0]};
}
