/*
 * test_pg_outcome.c - what an append says when the network, the server or the caller ends it in
 * the middle, and what is true afterwards.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/random.h"
#include "cutproxy.h"
#include "test_pg_help.h"

#define CANCEL_GRACE_MS 2000 /* src/store/pg/exec.c */
#define SLACK_MS 10000       /* a busy machine; whoever waits for ever is caught all the same */

/* ---- a bus whose network fails on command */

typedef struct net {
    pgt *t;
    cutproxy proxy;
    char url[512];
    char app[40]; /* application_name of the bus's sessions */
    howdah_bus *bus;
} net;

static int net_setup(void **state)
{
    net *n = calloc(1, sizeof *n);
    char path[256];

    assert_non_null(n);
    assert_int_equal(pgt_setup(state), 0);
    n->t = *state;
    (void)snprintf(path, sizeof path, "%s/.s.PGSQL.%s", PQhost(n->t->admin), PQport(n->t->admin));
    if (!cutproxy_start(&n->proxy, path))
        fail_msg("the proxy does not start");
    (void)snprintf(n->app, sizeof n->app, "net-%d-%x", (int)getpid(), hw_random_u32());
    (void)snprintf(n->url, sizeof n->url,
                   "postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&gssencmode=disable"
                   "&application_name=%s",
                   n->proxy.port, PQdb(n->t->admin), n->app);
    n->bus = pgt_open(n->t, n->url);
    *state = n;
    return 0;
}

static int net_teardown(void **state)
{
    net *n = *state;
    void *inner = n->t;

    howdah_close(n->bus);
    cutproxy_stop(&n->proxy);
    free(n);
    return pgt_teardown(&inner);
}

#define NET_TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)

static void reopen_with(net *n, const char *key, const char *value)
{
    howdah_close(n->bus);
    n->bus = pgt_open_with(n->t, n->url, key, value);
}

/* ---- every form that an append takes on the wire */

typedef struct form {
    const char *name;
    size_t events;
    size_t streams;
    int64_t expected;   /* 2 and EXISTS: the stream gets two events first */
    const char *commit; /* what the request that commits contains, "": the only request */
} form;

/* The message of a Query, 11 bytes long: "READ COMMITTED" is another. */
#define COMMIT                                                                                     \
    "\x0b"                                                                                         \
    "COMMIT"

static const form forms[] = {
    {"one", 1, 1, HOWDAH_EXPECT_ANY, ""},
    {"one-none", 1, 1, HOWDAH_EXPECT_NONE, ""},
    {"one-exact", 1, 1, 2, ""},
    {"one-exists", 1, 1, HOWDAH_EXPECT_EXISTS, ""},
    {"batch", 50, 1, HOWDAH_EXPECT_ANY, ""},
    {"batch-streams", 50, 7, HOWDAH_EXPECT_NONE, ""},
    {"batch-exact", 50, 1, 2, ""},
    {"transaction", 2500, 1, HOWDAH_EXPECT_ANY, COMMIT},
    {"transaction-streams", 2500, 7, HOWDAH_EXPECT_NONE, COMMIT},
    {"transaction-exact", 2500, 1, 2, COMMIT},
};
#define FORMS (sizeof forms / sizeof forms[0])

static bool needs_a_past(const form *f)
{
    return f->expected == 2 || f->expected == HOWDAH_EXPECT_EXISTS;
}

static int send_form(howdah_bus *bus, const form *f, pgt_batch *b, howdah_error *err)
{
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;

    o.expected_version = f->expected;
    return howdah_append_batch(bus, PGT_EVENTS(b), b->n, &o, b->positions, err);
}

/* A batch of this form, on a connection where everything is prepared. */
static pgt_batch make_form(net *n, const form *f)
{
    char warm[64];
    pgt_batch b;

    (void)snprintf(warm, sizeof warm, "%s-warm", f->name);
    for (int i = 0; needs_a_past(f) && i < 2; i++) {
        (void)pgt_append(n->t->bus, f->name);
        (void)pgt_append(n->t->bus, warm);
    }
    b = pgt_batch_new(warm, f->events, f->streams);
    pgt_ok(send_form(n->bus, f, &b, &pgt_error));
    pgt_batch_free(&b);
    return pgt_batch_new(f->name, f->events, f->streams);
}

/* How many of the batch's events are stored, seen by another session. */
static int64_t stored_of(const net *n, const form *f)
{
    return pgt_number(n->t, n->t->admin,
                      "SELECT count(*) FROM {events} WHERE stream ~ '^%s(-[0-9])?$'", f->name) -
           (needs_a_past(f) ? 2 : 0);
}

static void expect_stored(const form *f, const pgt_batch *b, int already)
{
    int64_t first = needs_a_past(f) ? 2 : 0;

    for (size_t i = 0; i < b->n; i++) {
        assert_int_equal(b->positions[i].already_stored, already);
        assert_int_equal(b->positions[i].version, first + 1 + (int64_t)(i / f->streams));
        if (i > 0)
            assert_true(b->positions[i].global_sequence > b->positions[i - 1].global_sequence);
    }
}

/* ---- the answer to COMMIT is lost */

static void a_lost_commit_is_unknown_and_the_retry_finds_it_stored(void **state)
{
    net *n = *state;

    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        howdah_error err = HOWDAH_ERROR_INIT;
        pgt_batch b = make_form(n, f);
        int fired = cutproxy_fired(&n->proxy);
        cutproxy_plan plan = {.how = CUTPROXY_CUT_ANSWER};

        (void)snprintf(plan.text, sizeof plan.text, "%s", f->commit);
        cutproxy_plan_next(&n->proxy, &plan);
        assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
        assert_int_equal(cutproxy_fired(&n->proxy), fired + 1);
        assert_int_equal(err.flags, HOWDAH_OUTCOME_UNKNOWN);
        assert_non_null(strstr(err.advice, "repeat the call with the same event ids"));
        assert_int_equal(stored_of(n, f), f->events);
        pgt_ok(send_form(n->bus, f, &b, &pgt_error));
        expect_stored(f, &b, 1);
        assert_int_equal(stored_of(n, f), f->events);
        pgt_batch_free(&b);
    }
}

static void a_reset_at_the_commit_is_unknown_too(void **state)
{
    net *n = *state;
    const form *f = &forms[2];
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = make_form(n, f);

    CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_ANSWER, .reset = true);
    assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_OUTCOME_UNKNOWN);
    assert_int_equal(stored_of(n, f), 1);
    pgt_ok(send_form(n->bus, f, &b, &pgt_error));
    expect_stored(f, &b, 1);
    pgt_batch_free(&b);
}

/* The stream has moved on since: the retry is still answered with the first position. */
static void a_late_retry_acks_although_others_have_appended(void **state)
{
    net *n = *state;
    const form *f = &forms[2];
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = make_form(n, f);

    CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_ANSWER);
    assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(pgt_append(n->t->bus, f->name).version, 4);
    pgt_ok(send_form(n->bus, f, &b, &pgt_error));
    expect_stored(f, &b, 1);
    assert_int_equal(stored_of(n, f), 2);
    pgt_batch_free(&b);
}

/* ---- the request is lost */

static void lose_request(net *n, const form *f, const char *text)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = make_form(n, f);
    cutproxy_plan plan = {.how = CUTPROXY_CUT_REQUEST};
    int fired = cutproxy_fired(&n->proxy);

    (void)snprintf(plan.text, sizeof plan.text, "%s", text);
    cutproxy_plan_next(&n->proxy, &plan);
    assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(cutproxy_fired(&n->proxy), fired + 1);
    assert_true(err.flags == HOWDAH_OUTCOME_UNKNOWN || err.flags == HOWDAH_RETRYABLE);
    assert_int_equal(stored_of(n, f), 0);
    pgt_ok(send_form(n->bus, f, &b, &pgt_error));
    expect_stored(f, &b, 0);
    assert_int_equal(stored_of(n, f), f->events);
    pgt_batch_free(&b);
}

static void a_request_that_never_arrived_stores_nothing_and_the_retry_stores_it_once(void **state)
{
    net *n = *state;

    for (size_t i = 0; i < FORMS; i++)
        lose_request(n, &forms[i], forms[i].commit);
}

/* Before the COMMIT was sent the outcome is known: nothing happened. */
static void a_transaction_cut_before_its_commit_is_not_unknown(void **state)
{
    net *n = *state;
    const form *f = &forms[7];
    howdah_error err = HOWDAH_ERROR_INIT;
    pgt_batch b = make_form(n, f);

    CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_AFTER, .client_bytes = 100000);
    assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_AFTER, .server_bytes = 1000);
    assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_int_equal(stored_of(n, f), 0);
    pgt_ok(send_form(n->bus, f, &b, &pgt_error));
    expect_stored(f, &b, 0);
    pgt_batch_free(&b);
}

/* ---- a hundred cuts anywhere */

static void plan_a_random_cut(net *n)
{
    cutproxy_plan plan = {.reset = hw_random_u32() % 2 == 0};

    switch (hw_random_u32() % 5) {
    case 0:
        plan.how = CUTPROXY_CUT_REQUEST;
        break;
    case 1:
        plan.how = CUTPROXY_CUT_ANSWER;
        break;
    case 2:
        plan.how = CUTPROXY_CUT_AFTER;
        plan.client_bytes = 1 + hw_random_u32() % 4000;
        break;
    case 3:
        plan.how = CUTPROXY_CUT_AFTER;
        plan.server_bytes = 1 + hw_random_u32() % 3000;
        break;
    default:
        plan.how = CUTPROXY_CUT_NOW;
        break;
    }
    cutproxy_plan_next(&n->proxy, &plan);
}

/* Repeats until it is acknowledged; what was called retryable must not have been stored. */
static void append_stubbornly(net *n, pgt_batch *b)
{
    bool may_be_stored = false;

    for (int attempt = 0; attempt < 20; attempt++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = howdah_append_batch(n->bus, PGT_EVENTS(b), b->n, NULL, b->positions, &err);

        if (s == HOWDAH_OK) {
            for (size_t i = 0; i < b->n; i++)
                assert_true(b->positions[i].already_stored == 0 || may_be_stored);
            return;
        }
        if (err.flags == HOWDAH_OUTCOME_UNKNOWN)
            may_be_stored = true;
        else
            assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    }
    fail_msg("not acknowledged in 20 attempts");
}

static void after_a_hundred_random_cuts_every_acknowledged_event_is_stored_once(void **state)
{
    net *n = *state;
    int64_t sent = 0;

    for (int round = 0; cutproxy_fired(&n->proxy) < 100 && round < 400; round++) {
        size_t events = round % 20 == 19 ? 1200 : 1 + (size_t)(round % 3);
        pgt_batch b = pgt_batch_new("cuts", events, 1 + (size_t)(round % 2));

        plan_a_random_cut(n);
        append_stubbornly(n, &b);
        sent += (int64_t)b.n;
        pgt_batch_free(&b);
    }
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    assert_true(cutproxy_fired(&n->proxy) >= 100);
    assert_int_equal(pgt_count(n->t), sent);
    assert_int_equal(pgt_number(n->t, n->t->admin, "SELECT count(DISTINCT id) FROM {events}"),
                     sent);
    assert_int_equal(pgt_number(n->t, n->t->admin,
                                "SELECT count(*) FROM (SELECT stream FROM {events} GROUP BY stream"
                                " HAVING max(version) <> count(*)) AS x"),
                     0);
}

/* A read repeats itself on a new connection, page by page: no gap, no repeat, no error. */
static void a_read_goes_on_over_cut_connections(void **state)
{
    net *n = *state;
    pgt_batch b = pgt_batch_new("long", 5000, 1);
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t version = 0;
    int s;

    pgt_ok(howdah_append_batch(n->t->bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
    pgt_batch_free(&b);
    reopen_with(n, "read_batch", "50");
    pgt_ok(howdah_reader_open_since(n->bus, 0, &reader, &pgt_error));
    while ((s = howdah_reader_next(reader, &event, &pgt_error)) == HOWDAH_OK) {
        assert_int_equal(howdah_event_version(event), ++version);
        if (version % 500 == 7)
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_NOW, .reset = version % 1000 == 7);
        if (version % 500 == 207)
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_AFTER, .server_bytes = 5000);
    }
    pgt_ok(s);
    assert_int_equal(version, 5000);
    howdah_reader_close(reader);
}

/* A reader fetches ahead on the same connection: an append in between must not stumble over it. */
static void an_append_takes_turns_with_a_page_in_flight(void **state)
{
    net *n = *state;
    pgt_batch b = pgt_batch_new("first", 500, 1);
    pgt_batch big = pgt_batch_new("second", 2500, 1);
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t seen = 0;

    reopen_with(n, "read_batch", "10");
    pgt_ok(howdah_append_batch(n->t->bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
    pgt_ok(howdah_reader_open_since(n->bus, 0, &reader, &pgt_error));
    pgt_ok(howdah_reader_next(reader, &event, &pgt_error));
    pgt_ok(howdah_append_batch(n->bus, PGT_EVENTS(&big), big.n, NULL, big.positions, &pgt_error));
    do {
        assert_int_equal(howdah_event_global_sequence(event), ++seen);
        if (seen == 1001) {
            /* The connection dies with the next page on its way. */
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_NOW);
            (void)usleep(30000);
            (void)pgt_append(n->bus, "third");
        }
    } while (howdah_reader_next(reader, &event, &pgt_error) == HOWDAH_OK);
    assert_int_equal(seen, 3001);
    howdah_reader_close(reader);
    pgt_batch_free(&b);
    pgt_batch_free(&big);
}

/* ---- nothing answers any more */

static void a_blackhole_ends_in_a_time_out_that_is_unknown(void **state)
{
    net *n = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("dark");
    howdah_position p = HOWDAH_POSITION_INIT;
    int64_t start;
    int64_t took;

    reopen_with(n, "statement_timeout", "500ms");
    (void)pgt_append(n->bus, "warm");
    CUTPROXY(&n->proxy, .how = CUTPROXY_BLACKHOLE);
    start = pgt_now_ms();
    assert_int_equal(howdah_append(n->bus, event, NULL, &p, &err), HOWDAH_TIMEOUT);
    took = pgt_now_ms() - start;
    assert_int_equal(err.flags, HOWDAH_OUTCOME_UNKNOWN);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_true(took >= 500);
    assert_true(took < 500 + CANCEL_GRACE_MS + SLACK_MS);
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    pgt_ok(howdah_append(n->bus, event, NULL, &p, &pgt_error));
    assert_int_equal(pgt_count(n->t), 2);
    howdah_event_free(event);
}

static void a_read_in_a_blackhole_ends_in_a_time_out(void **state)
{
    net *n = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = NULL;
    int64_t start;

    reopen_with(n, "statement_timeout", "300ms");
    (void)pgt_append(n->bus, "warm");
    CUTPROXY(&n->proxy, .how = CUTPROXY_BLACKHOLE);
    start = pgt_now_ms();
    assert_int_equal(howdah_event_get_last(n->bus, "warm", &event, &err), HOWDAH_TIMEOUT);
    assert_true(pgt_now_ms() - start < 300 + CANCEL_GRACE_MS + SLACK_MS);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    pgt_ok(howdah_event_get_last(n->bus, "warm", &event, &pgt_error));
    assert_int_equal(howdah_event_version(event), 1);
    howdah_event_free(event);
}

/* libpq counts in whole seconds, two at least. */
static void opening_into_a_blackhole_gives_up_after_connect_timeout(void **state)
{
    net *n = *state;
    howdah_settings *settings = pgt_settings(n->t, "connect_timeout", "2s");
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int64_t start;

    CUTPROXY(&n->proxy, .how = CUTPROXY_BLACKHOLE);
    start = pgt_now_ms();
    assert_int_equal(howdah_open(n->url, settings, &bus, &err), HOWDAH_UNAVAILABLE);
    assert_true(pgt_now_ms() - start < 2000 + SLACK_MS);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    howdah_settings_free(settings);
}

/* ---- sessions that somebody ends */

static int64_t terminate(const net *n)
{
    return pgt_number(n->t, n->t->admin,
                      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                      " WHERE application_name = '%s'",
                      n->app);
}

static void wait_until_gone(const net *n)
{
    char sql[160];

    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'", n->app);
    pgt_wait_for(n->t, n->t->admin, 0, sql);
}

static void a_session_ended_while_idle_is_made_anew_by_the_next_call(void **state)
{
    net *n = *state;
    howdah_event *event = NULL;
    pgt_batch b = pgt_batch_new("big", 2500, 1);

    assert_int_equal(pgt_append(n->bus, "idle").version, 1);
    assert_int_equal(terminate(n), 1);
    wait_until_gone(n);
    (void)usleep(20000); /* the news has to get through the proxy */
    assert_int_equal(pgt_append(n->bus, "idle").version, 2);
    assert_int_equal(terminate(n), 1);
    wait_until_gone(n);
    (void)usleep(20000);
    pgt_ok(howdah_event_get_last(n->bus, "idle", &event, &pgt_error));
    assert_int_equal(howdah_event_version(event), 2);
    howdah_event_free(event);
    assert_int_equal(terminate(n), 1);
    wait_until_gone(n);
    (void)usleep(20000);
    pgt_ok(howdah_append_batch(n->bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
    assert_int_equal(terminate(n), 1);
    wait_until_gone(n);
    (void)usleep(20000);
    pgt_ok(howdah_migrate(n->bus, NULL, &pgt_error));
    pgt_batch_free(&b);
}

/* Does something as soon as a session of the bus waits for a lock. */
typedef struct meddler {
    const net *n;
    PGconn *conn;
    pthread_t thread;
    void (*act)(struct meddler *m);
    int64_t acted_ms;
    bool blocked; /* it really waited */
} meddler;

static bool is_blocked(const meddler *m)
{
    char sql[200];
    PGresult *result;
    bool blocked;

    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'"
                   " AND wait_event_type = 'Lock'",
                   m->n->app);
    result = PQexec(m->conn, sql);
    blocked = PQntuples(result) == 1 && strcmp(PQgetvalue(result, 0, 0), "1") == 0;
    PQclear(result);
    return blocked;
}

static void *meddle(void *arg)
{
    meddler *m = arg;

    for (int i = 0; i < 50000 && !m->blocked; i++) {
        m->blocked = is_blocked(m);
        if (!m->blocked)
            (void)usleep(1000);
    }
    m->acted_ms = pgt_now_ms();
    m->act(m);
    return NULL;
}

static void start_meddling(meddler *m, const net *n, void (*act)(meddler *m))
{
    *m = (meddler){.n = n, .conn = pgt_session(n->t->url), .act = act};
    assert_int_equal(pthread_create(&m->thread, NULL, meddle, m), 0);
}

static void stop_meddling(meddler *m)
{
    assert_int_equal(pthread_join(m->thread, NULL), 0);
    PQfinish(m->conn);
    assert_true(m->blocked);
}

/* Somebody else is about to write version 1 of the stream: whoever wants it waits. */
static void hold_stream(const net *n, const char *stream)
{
    pgt_run(n->t, n->t->admin, "BEGIN");
    pgt_run(n->t, n->t->admin,
            "INSERT INTO {events} (stream, version, type, data) VALUES ('%s', 1, 't', '{}')",
            stream);
}

static void terminate_it(meddler *m)
{
    char sql[160];

    (void)snprintf(sql, sizeof sql,
                   "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                   " WHERE application_name = '%s'",
                   m->n->app);
    PQclear(PQexec(m->conn, sql));
}

static void a_session_ended_while_it_appends_is_told_and_made_anew(void **state)
{
    net *n = *state;

    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        howdah_error err = HOWDAH_ERROR_INIT;
        pgt_batch b;
        meddler m;

        if (f->expected != HOWDAH_EXPECT_ANY)
            continue;
        b = make_form(n, f);
        hold_stream(n, f->name);
        start_meddling(&m, n, terminate_it);
        assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_UNAVAILABLE);
        stop_meddling(&m);
        assert_int_equal(err.flags, *f->commit ? HOWDAH_RETRYABLE : HOWDAH_OUTCOME_UNKNOWN);
        pgt_run(n->t, n->t->admin, "ROLLBACK");
        pgt_ok(send_form(n->bus, f, &b, &pgt_error));
        expect_stored(f, &b, 0);
        assert_int_equal(stored_of(n, f), f->events);
        pgt_batch_free(&b);
    }
}

/* ---- the caller ends it */

static void interrupt_it(meddler *m)
{
    howdah_interrupt(m->n->bus);
}

static void an_interrupt_ends_a_blocked_append_within_a_second_and_stores_nothing(void **state)
{
    net *n = *state;
    int64_t quickest = INT64_MAX;

    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        howdah_error err = HOWDAH_ERROR_INIT;
        pgt_batch b;
        meddler m;

        if (f->expected != HOWDAH_EXPECT_ANY)
            continue;
        b = make_form(n, f);
        hold_stream(n, f->name);
        start_meddling(&m, n, interrupt_it);
        assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_INTERRUPTED);
        stop_meddling(&m);
        quickest = pgt_now_ms() - m.acted_ms < quickest ? pgt_now_ms() - m.acted_ms : quickest;
        assert_int_equal(err.flags, 0);
        assert_int_equal(howdah_status_exit_code(err.status), 130);
        pgt_run(n->t, n->t->admin, "ROLLBACK");
        assert_int_equal(stored_of(n, f), 0);
        assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_INTERRUPTED);
        howdah_interrupt_clear(n->bus);
        pgt_ok(send_form(n->bus, f, &b, &pgt_error));
        expect_stored(f, &b, 0);
        pgt_batch_free(&b);
    }
    assert_true(quickest < 1000); /* another one may have met a busy machine */
}

static void *interrupt_when_held(void *arg)
{
    net *n = arg;

    for (int i = 0; i < 50000 && cutproxy_fired(&n->proxy) == 0; i++)
        (void)usleep(1000);
    howdah_interrupt(n->bus);
    (void)usleep(300000); /* it wakes, asks the server to cancel, and goes on waiting */
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    return NULL;
}

/*
 * All statements are done and the interrupt comes before the COMMIT is sent: the transaction must
 * not stay open, or the next append would be acknowledged inside it and lost with it.
 */
static void an_interrupt_before_the_commit_leaves_no_transaction_behind(void **state)
{
    net *n = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    const form *f = &forms[7];
    pgt_batch b = make_form(n, f);
    int64_t before = pgt_count(n->t);
    pthread_t thread;
    char sql[200];

    CUTPROXY(&n->proxy, .how = CUTPROXY_HOLD_ANSWER);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_when_held, n), 0);
    assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_INTERRUPTED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)snprintf(sql, sizeof sql,
                   "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'"
                   " AND state LIKE 'idle in transaction%%'",
                   n->app);
    pgt_wait_for(n->t, n->t->admin, 0, sql); /* the server takes a moment to see that we left */
    howdah_interrupt_clear(n->bus);
    (void)pgt_append(n->bus, "after");
    assert_int_equal(pgt_count(n->t), before + 1);
    pgt_batch_free(&b);
}

/* ---- the deadline */

static void no_act(meddler *m)
{
    (void)m;
}

static void a_deadline_behind_a_lock_is_a_time_out_and_stores_nothing(void **state)
{
    net *n = *state;

    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        howdah_error err = HOWDAH_ERROR_INIT;
        int64_t start;
        pgt_batch b;
        meddler m;

        if (f->expected != HOWDAH_EXPECT_ANY)
            continue;
        reopen_with(n, "statement_timeout", "500ms");
        b = make_form(n, f);
        hold_stream(n, f->name);
        start_meddling(&m, n, no_act);
        start = pgt_now_ms();
        assert_int_equal(send_form(n->bus, f, &b, &err), HOWDAH_TIMEOUT);
        assert_true(pgt_now_ms() - start < 500 + SLACK_MS);
        stop_meddling(&m);
        /* The server has said so itself: nothing is unknown. */
        assert_int_equal(err.flags, HOWDAH_RETRYABLE);
        assert_string_equal(err.sqlstate, "57014");
        pgt_run(n->t, n->t->admin, "ROLLBACK");
        assert_int_equal(stored_of(n, f), 0);
        pgt_ok(send_form(n->bus, f, &b, &pgt_error));
        expect_stored(f, &b, 0);
        pgt_batch_free(&b);
    }
}

/* The look at the schema that every new connection takes has the same deadline. */
static void the_first_call_has_the_same_deadline(void **state)
{
    net *n = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;
    int64_t start;

    reopen_with(n, "statement_timeout", "300ms");
    pgt_run(n->t, n->t->admin, "BEGIN");
    pgt_run(n->t, n->t->admin, "LOCK TABLE {migrations} IN ACCESS EXCLUSIVE MODE");
    start = pgt_now_ms();
    assert_int_equal(howdah_append(n->bus, event, NULL, &p, &err), HOWDAH_TIMEOUT);
    assert_true(pgt_now_ms() - start < 300 + SLACK_MS);
    pgt_run(n->t, n->t->admin, "ROLLBACK");
    pgt_ok(howdah_append(n->bus, event, NULL, &p, &pgt_error));
    howdah_event_free(event);
}

/* ---- the client is killed */

#define KILL_ROUNDS 12
#define KILL_BATCH 1100 /* two statements and a COMMIT */

/* Appends whole batches, each on a stream of its own, until it is killed. */
static void append_until_killed(const net *n, int round, volatile int *acknowledged)
{
    howdah_bus *bus = NULL;

    if (howdah_open(n->t->url, n->t->settings, &bus, NULL) < 0)
        _exit(2);
    for (;;) {
        char stream[32];
        pgt_batch b;

        (void)snprintf(stream, sizeof stream, "kill-%d-%d", round, *acknowledged);
        b = pgt_batch_new(stream, KILL_BATCH, 1);
        if (howdah_append_batch(bus, PGT_EVENTS(&b), b.n, NULL, NULL, NULL) < 0)
            _exit(3);
        ++*acknowledged;
        pgt_batch_free(&b);
    }
}

static void a_killed_client_leaves_whole_batches_and_all_that_were_acknowledged(void **state)
{
    net *n = *state;
    volatile int *acknowledged =
        mmap(NULL, sizeof *acknowledged, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t sum = 0;

    assert_true(acknowledged != MAP_FAILED);
    for (int round = 0; round < KILL_ROUNDS; round++) {
        int status = 0;
        pid_t pid;

        *acknowledged = 0;
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            append_until_killed(n, round, acknowledged);
        (void)usleep(40000 + hw_random_u32() % 200000);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status));
        sum += *acknowledged;
    }
    /* A COMMIT on its way is carried out, whether somebody waits for it or not. */
    pgt_wait_for(n->t, n->t->admin, 0,
                 "SELECT count(*) FROM pg_locks WHERE mode = 'RowExclusiveLock' AND relation ="
                 " pg_get_serial_sequence('{events}', 'global_sequence')::regclass");
    assert_int_equal(pgt_number(n->t, n->t->admin,
                                "SELECT count(*) FROM (SELECT FROM {events} GROUP BY stream"
                                " HAVING count(*) <> %d) AS torn",
                                KILL_BATCH),
                     0);
    assert_in_range(pgt_number(n->t, n->t->admin, "SELECT count(DISTINCT stream) FROM {events}"),
                    sum, sum + KILL_ROUNDS);
    assert_true(sum > 0);
    (void)munmap((void *)(uintptr_t)acknowledged, sizeof *acknowledged);
}

/* ---- memory runs out */

static void an_append_without_memory_stores_nothing_and_the_bus_goes_on(void **state)
{
    net *n = *state;

    for (size_t i = 0; i < FORMS; i++) {
        const form *f = &forms[i];
        pgt_batch b = make_form(n, f);
        long failures = 0;
        int s;

        do {
            howdah_error err = HOWDAH_ERROR_INIT;

            pgt_starve(failures);
            s = send_form(n->bus, f, &b, &err);
            pgt_reader();
            if (s == HOWDAH_OK)
                break;
            assert_int_equal(s, HOWDAH_NO_MEMORY);
            assert_int_equal(stored_of(n, f), 0);
            failures++;
        } while (failures < 500);
        assert_true(failures > 0);
        assert_int_equal(s, HOWDAH_OK);
        expect_stored(f, &b, 0);
        assert_int_equal(stored_of(n, f), f->events);
        pgt_batch_free(&b);
    }
}

static const struct CMUnitTest tests[] = {
    NET_TEST(a_lost_commit_is_unknown_and_the_retry_finds_it_stored),
    NET_TEST(a_reset_at_the_commit_is_unknown_too),
    NET_TEST(a_late_retry_acks_although_others_have_appended),
    NET_TEST(a_request_that_never_arrived_stores_nothing_and_the_retry_stores_it_once),
    NET_TEST(a_transaction_cut_before_its_commit_is_not_unknown),
    NET_TEST(after_a_hundred_random_cuts_every_acknowledged_event_is_stored_once),
    NET_TEST(a_read_goes_on_over_cut_connections),
    NET_TEST(an_append_takes_turns_with_a_page_in_flight),
    NET_TEST(a_blackhole_ends_in_a_time_out_that_is_unknown),
    NET_TEST(a_read_in_a_blackhole_ends_in_a_time_out),
    NET_TEST(opening_into_a_blackhole_gives_up_after_connect_timeout),
    NET_TEST(a_session_ended_while_idle_is_made_anew_by_the_next_call),
    NET_TEST(a_session_ended_while_it_appends_is_told_and_made_anew),
    NET_TEST(an_interrupt_ends_a_blocked_append_within_a_second_and_stores_nothing),
    NET_TEST(an_interrupt_before_the_commit_leaves_no_transaction_behind),
    NET_TEST(a_deadline_behind_a_lock_is_a_time_out_and_stores_nothing),
    NET_TEST(the_first_call_has_the_same_deadline),
    NET_TEST(a_killed_client_leaves_whole_batches_and_all_that_were_acknowledged),
    NET_TEST(an_append_without_memory_stores_nothing_and_the_bus_goes_on),
};

PGT_MAIN("pg outcome", tests)
