/*
 * test_pg_publisher.c - a publisher whose network, server and neighbours fail it: what its callers
 * are told, and what is true afterwards.  Runs with a server of its own, because it stops it.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "cutproxy.h"
#include "test_pg_help.h"

#define PATIENCE_MS 60000
#define ROUND 12

typedef struct net {
    pgt *t;
    cutproxy proxy;
    char url[512];
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
    (void)snprintf(n->url, sizeof n->url,
                   "postgres://postgres@127.0.0.1:%d/%s?sslmode=disable&gssencmode=disable",
                   n->proxy.port, PQdb(n->t->admin));
    *state = n;
    return 0;
}

static int net_teardown(void **state)
{
    net *n = *state;
    void *inner = n->t;

    cutproxy_stop(&n->proxy);
    free(n);
    return pgt_teardown(&inner);
}

#define NET_TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)

static howdah_publisher *publisher_on(const pgt *t, const char *url, int64_t wait_ms)
{
    howdah_publisher_options o = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_publisher *publisher = NULL;

    o.wait_ms = wait_ms;
    pgt_ok(howdah_publisher_new(url, t->settings, &o, &publisher, &pgt_error));
    return publisher;
}

/* ---- submissions */

typedef struct outcome {
    howdah_event *event;
    howdah_position position;
    atomic_int told;
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

static void submit(howdah_publisher *publisher, outcome *o, howdah_event *event, int64_t expected)
{
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    const howdah_event *events[1] = {event};

    options.expected_version = expected;
    *o = (outcome){.event = event, .position = HOWDAH_POSITION_INIT};
    pgt_ok(howdah_publisher_submit(publisher, events, 1, &options, &o->position, on_done, o,
                                   &pgt_error));
}

static void wait_told(const outcome *o)
{
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;

    while (atomic_load(&o->told) == 0 && hw_clock_mono_ms() < until)
        hw_clock_sleep_ms(1);
    assert_int_equal(atomic_load(&o->told), 1);
}

static int append(howdah_publisher *publisher, const howdah_event *event, howdah_position *p,
                  howdah_error *err)
{
    const howdah_event *events[1] = {event};

    return howdah_publisher_append(publisher, events, 1, NULL, p, err);
}

static void append_ok(howdah_publisher *publisher, const char *stream)
{
    howdah_event *event = pgt_event(stream);
    howdah_position p = HOWDAH_POSITION_INIT;

    pgt_ok(append(publisher, event, &p, &pgt_error));
    howdah_event_free(event);
}

/*
 * A first submission stays under way, in a trigger that waits until we let go, so that all that
 * come meanwhile are the next round.
 */
static void hold(const pgt *t, howdah_publisher *publisher, outcome *first)
{
    pgt_run(t, t->admin,
            "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN WHILE NOT"
            " pg_try_advisory_xact_lock(42) LOOP PERFORM pg_sleep(0.002); END LOOP; RETURN NEW;"
            " END'; CREATE TRIGGER slow BEFORE INSERT ON {events} FOR EACH ROW"
            " WHEN (NEW.stream::text = 'held') EXECUTE FUNCTION public.slow()");
    pgt_run(t, t->admin, "SELECT pg_advisory_lock(42)");
    submit(publisher, first, pgt_event("held"), HOWDAH_EXPECT_ANY);
    pgt_wait_for(t, t->admin, 1,
                 "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
}

static void let_go(const pgt *t, outcome *first)
{
    pgt_run(t, t->admin, "SELECT pg_advisory_unlock(42)");
    wait_told(first);
    assert_int_equal(first->status, HOWDAH_OK);
    howdah_event_free(first->event);
    pgt_run(t, t->admin, "DROP FUNCTION public.slow() CASCADE");
}

static void submit_round(howdah_publisher *publisher, outcome *o)
{
    for (int i = 0; i < ROUND; i++)
        submit(publisher, &o[i], pgt_event(i % 2 ? "together" : "with"), HOWDAH_EXPECT_ANY);
}

static void free_round(outcome *o)
{
    for (int i = 0; i < ROUND; i++)
        howdah_event_free(o[i].event);
}

/* ---- the answer to a commit is lost */

static void a_lost_commit_is_found_stored_by_repeating_the_round(void **state)
{
    net *n = *state;
    howdah_publisher *publisher = publisher_on(n->t, n->url, PATIENCE_MS);
    outcome first;
    outcome o[ROUND];

    append_ok(publisher, "warm");
    hold(n->t, publisher, &first);
    submit_round(publisher, o);
    CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_ANSWER, .text = "together");
    let_go(n->t, &first);
    for (int i = 0; i < ROUND; i++) {
        wait_told(&o[i]);
        assert_int_equal(o[i].status, HOWDAH_OK);
        assert_int_equal(o[i].position.version, i / 2 + 1);
        assert_int_equal(o[i].position.already_stored, 1);
    }
    assert_int_equal(cutproxy_fired(&n->proxy), 1);
    assert_int_equal(pgt_count(n->t), ROUND + 2);
    free_round(o);
    howdah_publisher_free(publisher);
}

static void a_round_that_never_arrived_is_stored_by_repeating_it(void **state)
{
    net *n = *state;
    howdah_publisher *publisher = publisher_on(n->t, n->url, PATIENCE_MS);
    outcome first;
    outcome o[ROUND];

    hold(n->t, publisher, &first);
    submit_round(publisher, o);
    CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_REQUEST, .text = "together", .reset = true);
    let_go(n->t, &first);
    for (int i = 0; i < ROUND; i++) {
        wait_told(&o[i]);
        assert_int_equal(o[i].status, HOWDAH_OK);
        assert_int_equal(o[i].position.already_stored, 0);
    }
    assert_int_equal(pgt_count(n->t), ROUND + 1);
    free_round(o);
    howdah_publisher_free(publisher);
}

/* The server has stored it, and nobody hears of it: what waits behind that round is not unknown. */
static void only_the_round_that_got_no_answer_is_unknown(void **state)
{
    net *n = *state;
    howdah_publisher *publisher = publisher_on(n->t, n->url, 1500);
    howdah_position p = HOWDAH_POSITION_INIT;
    outcome first;
    outcome o[ROUND];
    outcome later;
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;

    hold(n->t, publisher, &first);
    submit_round(publisher, o);
    CUTPROXY(&n->proxy, .how = CUTPROXY_HOLD_ANSWER, .text = "together");
    let_go(n->t, &first);
    while (cutproxy_fired(&n->proxy) == 0 && hw_clock_mono_ms() < until)
        hw_clock_sleep_ms(1);
    submit(publisher, &later, pgt_event("later"), HOWDAH_EXPECT_ANY);
    for (int i = 0; i < ROUND; i++) {
        wait_told(&o[i]);
        assert_int_equal(o[i].err.flags, HOWDAH_OUTCOME_UNKNOWN);
    }
    wait_told(&later);
    if (later.status != HOWDAH_OK) /* its time was over, or the next session came in time */
        assert_int_equal(later.err.flags, HOWDAH_RETRYABLE);
    assert_int_equal(pgt_count(n->t), ROUND + 1 + (later.status == HOWDAH_OK));
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    for (int i = 0; i < ROUND; i++) {
        pgt_ok(append(publisher, o[i].event, &p, &pgt_error));
        assert_int_equal(p.version, i / 2 + 1);
        assert_int_equal(p.already_stored, 1);
    }
    howdah_event_free(later.event);
    free_round(o);
    howdah_publisher_free(publisher);
}

/* ---- an open transaction in the way */

static void an_open_transaction_delays_its_own_stream_only(void **state)
{
    pgt *t = *state;
    howdah_publisher *publisher = publisher_on(t, t->url, PATIENCE_MS);
    PGconn *other = pgt_session(t->url);
    outcome blocked[3];
    char stream[16];

    pgt_run(t, other,
            "BEGIN; INSERT INTO {events} (stream, version, type, data)"
            " VALUES ('s', 1, 't', '{}')");
    for (int i = 0; i < 3; i++)
        submit(publisher, &blocked[i], pgt_event("s"), i == 1 ? 1 : HOWDAH_EXPECT_ANY);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(stream, sizeof stream, "other-%d", i);
        append_ok(publisher, stream);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(atomic_load(&blocked[i].told), 0);
    pgt_run(t, other, "ROLLBACK");
    for (int i = 0; i < 3; i++) {
        wait_told(&blocked[i]);
        assert_int_equal(blocked[i].status, HOWDAH_OK);
        assert_int_equal(blocked[i].position.version, i + 1);
        howdah_event_free(blocked[i].event);
    }
    PQfinish(other);
    howdah_publisher_free(publisher);
    assert_int_equal(pgt_count(t), 53);
}

static void what_an_open_transaction_blocks_for_too_long_is_told_why(void **state)
{
    pgt *t = *state;
    howdah_publisher *publisher = publisher_on(t, t->url, 300);
    PGconn *other = pgt_session(t->url);
    outcome blocked;

    pgt_run(t, other,
            "BEGIN; INSERT INTO {events} (stream, version, type, data)"
            " VALUES ('s', 1, 't', '{}')");
    submit(publisher, &blocked, pgt_event("s"), HOWDAH_EXPECT_ANY);
    wait_told(&blocked);
    assert_int_equal(blocked.status, HOWDAH_TIMEOUT);
    assert_int_equal(blocked.err.flags, HOWDAH_RETRYABLE);
    pgt_run(t, other, "COMMIT");
    append_ok(publisher, "s");
    howdah_event_free(blocked.event);
    PQfinish(other);
    howdah_publisher_free(publisher);
    assert_int_equal(pgt_count(t), 2);
}

/* ---- a server that is away */

static void while_the_server_is_away_callers_hear_so_in_time_and_later_ones_are_stored(void **state)
{
    pgt *t = *state;
    howdah_publisher *publisher = publisher_on(t, t->url, 700);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;

    append_ok(publisher, "s");
    pgt_ctl("stop -m immediate");
    for (int i = 0; i < 3; i++) {
        int64_t start = hw_clock_mono_ms();

        assert_int_equal(append(publisher, event, &p, &err), HOWDAH_UNAVAILABLE);
        assert_true(hw_clock_mono_ms() - start < 700 + 5000);
        assert_true(hw_clock_mono_ms() - start >= 650);
        assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    }
    pgt_ctl("start");
    pgt_reconnect(t);
    while (append(publisher, event, &p, &err) < 0)
        assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_int_equal(p.version, 2);
    assert_int_equal(p.already_stored, 0);
    howdah_event_free(event);
    howdah_publisher_free(publisher);
}

/* ---- a ledger of what was acknowledged */

#define WRITERS 16

typedef struct ledger {
    const pgt *t;
    howdah_publisher *publisher;
    pthread_t threads[WRITERS];
    atomic_bool stop;
    atomic_llong acknowledged;
    atomic_llong doubtful; /* stored already when it was repeated after an error that denied it */
} ledger;

/* Each event until it is acknowledged; the same one again after every error. */
static void *keep_ledger(void *arg)
{
    ledger *l = arg;
    char stream[16];

    for (int i = 0; !atomic_load(&l->stop); i++) {
        howdah_event *event;
        bool may_be_stored = false;

        (void)snprintf(stream, sizeof stream, "s%d", i % 5);
        event = pgt_event(stream);
        for (;;) {
            howdah_error err = HOWDAH_ERROR_INIT;
            howdah_position p = HOWDAH_POSITION_INIT;
            int s = append(l->publisher, event, &p, &err);

            if (s >= 0)
                break;
            may_be_stored = may_be_stored || (err.flags & HOWDAH_OUTCOME_UNKNOWN);
            if (!(err.flags & (HOWDAH_OUTCOME_UNKNOWN | HOWDAH_RETRYABLE)))
                (void)atomic_fetch_add(&l->doubtful, 1);
        }
        (void)atomic_fetch_add(&l->acknowledged, 1);
        howdah_event_free(event);
    }
    return NULL;
}

static void start_ledger(ledger *l, const pgt *t, const char *url, int64_t wait_ms)
{
    *l = (ledger){.t = t, .publisher = publisher_on(t, url, wait_ms)};
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&l->threads[i], NULL, keep_ledger, l), 0);
}

static void wait_acknowledged(ledger *l, int64_t more)
{
    int64_t wanted = atomic_load(&l->acknowledged) + more;
    int64_t until = hw_clock_mono_ms() + PATIENCE_MS;

    while (atomic_load(&l->acknowledged) < wanted && hw_clock_mono_ms() < until)
        hw_clock_sleep_ms(1);
    assert_true(atomic_load(&l->acknowledged) >= wanted);
}

/* Every acknowledged event is there, and nothing twice; streams have no gap. */
static void close_ledger(ledger *l)
{
    atomic_store(&l->stop, true);
    for (int i = 0; i < WRITERS; i++)
        (void)pthread_join(l->threads[i], NULL);
    howdah_publisher_free(l->publisher);
    assert_int_equal(atomic_load(&l->doubtful), 0);
    assert_int_equal(pgt_count(l->t), atomic_load(&l->acknowledged));
    assert_int_equal(pgt_number(l->t, l->t->admin, "SELECT count(DISTINCT id) FROM {events}"),
                     atomic_load(&l->acknowledged));
    assert_int_equal(pgt_number(l->t, l->t->admin,
                                "SELECT count(*) FROM (SELECT FROM {events} GROUP BY stream"
                                " HAVING max(version) <> count(*)) AS x"),
                     0);
}

static void restarts_under_load_lose_nothing_that_was_acknowledged(void **state)
{
    pgt *t = *state;
    ledger l;

    start_ledger(&l, t, t->url, 1000);
    for (int i = 0; i < 4; i++) {
        wait_acknowledged(&l, 200);
        pgt_ctl(i % 2 ? "stop -m fast" : "stop -m immediate");
        pgt_ctl("start");
    }
    wait_acknowledged(&l, 200);
    pgt_reconnect(t);
    close_ledger(&l);
}

static void cuts_under_load_lose_nothing_and_store_nothing_twice(void **state)
{
    net *n = *state;
    ledger l;

    start_ledger(&l, n->t, n->url, PATIENCE_MS);
    for (int i = 0; i < 60; i++) {
        int fired = cutproxy_fired(&n->proxy);
        int64_t until = hw_clock_mono_ms() + PATIENCE_MS;

        wait_acknowledged(&l, 5);
        switch (i % 4) {
        case 0:
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_ANSWER, .reset = i % 8 == 0);
            break;
        case 1:
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_REQUEST);
            break;
        case 2:
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_AFTER, .client_bytes = 200 + 97 * (size_t)i);
            break;
        default:
            CUTPROXY(&n->proxy, .how = CUTPROXY_CUT_AFTER, .server_bytes = 10 + 31 * (size_t)i);
            break;
        }
        while (cutproxy_fired(&n->proxy) == fired && hw_clock_mono_ms() < until)
            hw_clock_sleep_ms(1);
    }
    CUTPROXY(&n->proxy, .how = CUTPROXY_PASS);
    close_ledger(&l);
}

/* ---- who may only append */

static void a_login_that_may_only_publish_gets_a_verdict_for_each_call(void **state)
{
    pgt *t = *state;
    howdah_publisher *publisher;
    outcome o[8];

    pgt_run(t, t->admin, "CREATE ROLE only_publishes; GRANT {_publish} TO only_publishes");
    publisher =
        publisher_on(t, pgt_url_with(t->url, "options=-c%20role%3Donly_publishes"), PATIENCE_MS);
    for (int i = 0; i < 4; i++)
        submit(publisher, &o[i], pgt_event("s"), HOWDAH_EXPECT_NONE);
    for (int i = 4; i < 8; i++)
        submit(publisher, &o[i], pgt_event_no("t", 7, "{\"a\":1}"), HOWDAH_EXPECT_ANY);
    for (int i = 0; i < 8; i++) {
        wait_told(&o[i]);
        assert_int_equal(o[i].status, i == 0 || i >= 4 ? HOWDAH_OK : HOWDAH_CONFLICT);
        if (i > 4)
            assert_int_equal(o[i].position.already_stored, 1);
        howdah_event_free(o[i].event);
    }
    howdah_publisher_free(publisher);
    assert_int_equal(pgt_count(t), 2);
    pgt_run(t, t->admin, "REVOKE {_publish} FROM only_publishes; DROP ROLE only_publishes");
}

static const struct CMUnitTest tests[] = {
    NET_TEST(a_lost_commit_is_found_stored_by_repeating_the_round),
    NET_TEST(a_round_that_never_arrived_is_stored_by_repeating_it),
    NET_TEST(only_the_round_that_got_no_answer_is_unknown),
    PGT_TEST(an_open_transaction_delays_its_own_stream_only),
    PGT_TEST(what_an_open_transaction_blocks_for_too_long_is_told_why),
    PGT_TEST(while_the_server_is_away_callers_hear_so_in_time_and_later_ones_are_stored),
    PGT_TEST(restarts_under_load_lose_nothing_that_was_acknowledged),
    NET_TEST(cuts_under_load_lose_nothing_and_store_nothing_twice),
    PGT_TEST(a_login_that_may_only_publish_gets_a_verdict_for_each_call),
};

PGT_MAIN("pg publisher", tests)
