/*
 * test_pg_delivery.c - subscriptions on PostgreSQL where it is hard: numbers that commit out of
 * order, late, or never; sessions, owners and networks that end; a log that was put back.
 * Runs with a server of its own: it ends sessions, and reads the server's log.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>

#include "base/random.h"
#include "cutproxy.h"
#include "subs_help.h"
#include "test_pg_help.h"

/* Below any time-out that could have decided instead (gap_timeout_ms is 5 s, or more); some ms on a
 * machine that is free. */
#define QUICK_MS 4000
#define STORED_MS 10000 /* what only moved is stored within a second */

/* ---- a handler in this process */

typedef struct seen {
    char text[4096]; /* "1 2 3" */
    size_t len;
    size_t n;
    int64_t last_ms;
    int64_t fail; /* this number fails */
    const pgt *t;
    const char *effect; /* TRANSACTIONAL: what this number does */
    int64_t effect_at;
} seen;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;

    if (s->len + 24 < sizeof s->text)
        s->len +=
            (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "%s%lld", s->len ? " " : "",
                             (long long)howdah_event_global_sequence(event));
    s->n++;
    s->last_ms = pgt_now_ms();
    if (s->effect && howdah_event_global_sequence(event) == s->effect_at)
        PQclear(pgt_result(s->t, howdah_delivery_pg(delivery), "%s", s->effect));
    return howdah_event_global_sequence(event) == s->fail ? howdah_delivery_fail(delivery, "failed")
                                                          : HOWDAH_HANDLED;
}

static howdah_subscribe_options options(const char *id, seen *s)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = id;
    o.handler = on_event;
    o.ctx = s;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 5;
    return o;
}

static howdah_subscription *subscribe(howdah_bus *bus, const howdah_subscribe_options *o)
{
    howdah_subscription *sub = NULL;

    pgt_ok(howdah_subscribe(bus, o, &sub, &pgt_error));
    return sub;
}

/* Serves for ms; what was seen since the last call. */
static const char *run(howdah_bus *bus, seen *s, int64_t ms)
{
    static char text[4096];

    pgt_ok(howdah_run(bus, ms, &pgt_error));
    memcpy(text, s->text, sizeof text);
    s->text[0] = '\0';
    s->len = 0;
    return text;
}

/* Serves until that was seen since the last call, and then for ms, in which nothing more comes. */
static void run_and_see(howdah_bus *bus, seen *s, int64_t ms, const char *expected)
{
    int64_t until = pgt_now_ms() + SH_PATIENCE_MS;

    while (s->len < strlen(expected) && pgt_now_ms() < until)
        pgt_ok(howdah_run(bus, 5, &pgt_error));
    assert_string_equal(run(bus, s, ms), expected);
}

/* Serves until n events were seen in all; how long that took. */
static int64_t run_until(howdah_bus *bus, const seen *s, size_t n)
{
    int64_t start = pgt_now_ms();

    while (s->n < n) {
        pgt_ok(howdah_run(bus, 5, &pgt_error));
        if (pgt_now_ms() - start > SH_PATIENCE_MS)
            fail_msg("%zu events were seen, waited for %zu", s->n, n);
    }
    return pgt_now_ms() - start;
}

static int64_t stored(const pgt *t, const char *id, const char *what)
{
    return pgt_number(t, t->admin, "SELECT %s FROM {subscriptions} WHERE subscriber_id = '%s'",
                      what, id);
}

#define CONTIGUOUS "least(high, coalesce(outstanding[1], high + 1) - 1)"

/* Serves until the stored place has no number below it that is outstanding; how long that took. */
static int64_t run_until_stored(const pgt *t, howdah_bus *bus, const char *id, int64_t contiguous)
{
    int64_t start = pgt_now_ms();

    while (stored(t, id, CONTIGUOUS) < contiguous) {
        pgt_ok(howdah_run(bus, 5, &pgt_error));
        if (pgt_now_ms() - start > SH_PATIENCE_MS)
            fail_msg("%s is at %lld, not %lld", id, (long long)stored(t, id, CONTIGUOUS),
                     (long long)contiguous);
    }
    return pgt_now_ms() - start;
}

/* A transaction that has drawn the next number and stays open. */
static PGconn *draw(const pgt *t, const char *stream)
{
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, conn, "BEGIN");
    pgt_run(t, conn, "SELECT {append}('%s', 't')", stream);
    return conn;
}

static void end(const pgt *t, PGconn *conn, const char *how)
{
    pgt_run(t, conn, "%s", how);
    PQfinish(conn);
}

/* ---- numbers that come late, or never */

/* The bug that everything began with: N sleeps, N + 1 commits first. */
static void a_number_that_commits_after_a_later_one_is_delivered_too(void **state)
{
    pgt *t = *state;
    seen a = {0};
    seen b = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("a", &a);
    PGconn *slow;

    (void)subscribe(bus, &o);
    o = options("b", &b);
    o.pattern = "t";
    (void)subscribe(bus, &o);
    (void)run(bus, &a, 100); /* live */
    slow = draw(t, "slow");
    pgt_run(t, t->admin, "SELECT {append}('quick', 't')");
    run_and_see(bus, &a, 300, "2");
    assert_string_equal(b.text, "2");
    assert_int_equal(stored(t, "a", "high"), 2);
    assert_int_equal(stored(t, "a", CONTIGUOUS), 0);
    end(t, slow, "COMMIT");
    assert_true(run_until(bus, &a, 2) < QUICK_MS);
    (void)run(bus, &b, 50);
    assert_string_equal(a.text, "1");
    assert_int_equal(b.n, 2);
    assert_true(run_until_stored(t, bus, "a", 2) < STORED_MS);
    howdah_close(bus);
}

static void a_rolled_back_number_is_passed_without_waiting_for_any_time(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    PGconn *unrelated = pgt_session(t->url);

    o.gap_timeout_ms = 60000;
    (void)subscribe(bus, &o);
    (void)run(bus, &s, 100);
    /* Somebody who writes elsewhere, for long, has nothing to do with it. */
    pgt_run(t, unrelated, "BEGIN; CREATE TEMP TABLE x (); SELECT pg_current_xact_id()");
    (void)pgt_append(t->bus, "a");
    end(t, draw(t, "gone"), "ROLLBACK");
    (void)pgt_append(t->bus, "a");
    assert_true(run_until(bus, &s, 2) < QUICK_MS);
    assert_true(run_until_stored(t, bus, "p", 3) < STORED_MS);
    assert_string_equal(s.text, "1 3");
    assert_string_equal(pgt_text(t, t->admin, "SELECT outstanding FROM {subscriptions}"), "{}");
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {skips}"), 0);
    end(t, unrelated, "ROLLBACK");
    howdah_close(bus);
}

static void an_open_transaction_delays_its_own_events_only(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    int64_t slowest = 0;
    PGconn *slow;

    (void)subscribe(bus, &o);
    (void)run(bus, &s, 100);
    slow = draw(t, "slow");
    for (size_t i = 1; i <= 50; i++) {
        int64_t took;

        (void)pgt_append(t->bus, "quick");
        took = run_until(bus, &s, i);
        slowest = took > slowest ? took : slowest;
    }
    assert_true(slowest < QUICK_MS);
    assert_non_null(strstr(run(bus, &s, 20), "49 50 51"));
    assert_int_equal(stored(t, "p", "high"), 51);
    assert_int_equal(stored(t, "p", CONTIGUOUS), 0);
    end(t, slow, "COMMIT");
    assert_true(run_until(bus, &s, 51) < QUICK_MS);
    assert_string_equal(s.text, "1");
    assert_true(run_until_stored(t, bus, "p", 51) < STORED_MS);
    howdah_close(bus);
}

static void a_prepared_transaction_is_waited_for_and_its_rollback_passed(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    int me = (int)getpid();

    for (int i = 1; i <= 2; i++) { /* 1 and 2: nobody's session holds them any more */
        PGconn *conn = draw(t, i == 1 ? "one" : "two");

        pgt_run(t, conn, "PREPARE TRANSACTION 'p-%d-%d'", me, i);
        PQfinish(conn);
        if (i == 1)
            (void)pgt_append(t->bus, "a"); /* 2; the second is 3 */
    }
    (void)pgt_append(t->bus, "a"); /* 4 */
    (void)subscribe(bus, &o);
    run_and_see(bus, &s, 600, "2 4");
    assert_string_equal(pgt_text(t, t->admin, "SELECT outstanding FROM {subscriptions}"),
                        "{1,1,3,3}");
    pgt_run(t, t->admin, "COMMIT PREPARED 'p-%d-1'", me);
    assert_true(run_until(bus, &s, 3) < QUICK_MS);
    pgt_run(t, t->admin, "ROLLBACK PREPARED 'p-%d-2'", me);
    assert_true(run_until_stored(t, bus, "p", 4) < STORED_MS);
    assert_string_equal(s.text, "1");
    howdah_close(bus);
}

/* Statements that a session with log_statement = all has sent. */
static int64_t statements_logged(void)
{
    FILE *log = fopen(pgt_env("HOWDAH_TEST_PG_LOG"), "r");
    char line[8192];
    int64_t n = 0;

    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        n += strstr(line, "LOG:  execute ") != NULL || strstr(line, "LOG:  statement: ") != NULL;
    (void)fclose(log);
    return n;
}

static void a_million_rolled_back_numbers_cost_one_check(void **state)
{
    pgt *t = *state;
    seen live = {0};
    seen late = {0};
    char url[1200];
    howdah_bus *bus;
    howdah_subscribe_options o = options("live", &live);
    int64_t before;

    (void)snprintf(url, sizeof url, "%s", pgt_url_with(t->url, "options=-c%20log_statement%3Dall"));
    bus = pgt_open(t, url);
    (void)subscribe(bus, &o);
    (void)run(bus, &live, 100);
    pgt_run(t, t->admin,
            "BEGIN; SELECT pg_current_xact_id(); SELECT count(nextval("
            "'{events_global_sequence_seq}')) FROM generate_series(1, 1000000); ROLLBACK");
    (void)pgt_append(t->bus, "a");
    before = statements_logged();
    assert_true(before > 0); /* it does count */
    assert_true(run_until(bus, &live, 1) < QUICK_MS);
    assert_true(run_until_stored(t, bus, "live", 1000001) < STORED_MS);
    assert_true(statements_logged() - before < 400);
    assert_string_equal(live.text, "1000001");
    assert_int_equal(stored(t, "live", "cardinality(outstanding)"), 0);
    /* Behind it is the same. */
    before = statements_logged();
    o = options("late", &late);
    (void)subscribe(bus, &o);
    assert_true(run_until(bus, &late, 1) < QUICK_MS);
    assert_true(run_until_stored(t, bus, "late", 1000001) < STORED_MS);
    assert_true(statements_logged() - before < 400);
    howdah_close(bus);
}

static void a_batched_checkpoint_keeps_what_is_missing_and_what_is_done(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    PGconn *slow = draw(t, "slow");

    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.max_delay_ms = 60000;
    for (int i = 0; i < 5; i++)
        (void)pgt_append(t->bus, "a");
    (void)subscribe(bus, &o);
    run_and_see(bus, &s, 500, "2 3 4 5 6");
    howdah_close(bus); /* stored at the end, hole and all */
    assert_string_equal(pgt_text(t, t->admin, "SELECT outstanding || still FROM {subscriptions}"),
                        "{1,1}");
    assert_int_equal(stored(t, "p", "high"), 6);
    end(t, slow, "COMMIT");
    bus = pgt_open(t, t->url);
    (void)subscribe(bus, &o);
    run_and_see(bus, &s, 500, "1"); /* and nothing twice */
    howdah_close(bus);
}

static int keep_skip(void *ctx, const howdah_skip *skip)
{
    *(howdah_skip *)ctx = *skip;
    return 0;
}

static void a_gap_that_is_given_up_is_on_record_and_can_be_resolved(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    howdah_skip skip = {0};
    PGconn *slow;

    o.gap_policy = HOWDAH_GAP_TIMEOUT;
    o.gap_timeout_ms = 2000;
    (void)subscribe(bus, &o);
    (void)run(bus, &s, 100);
    end(t, draw(t, "gone"), "ROLLBACK"); /* 1: proven, not given up */
    (void)pgt_append(t->bus, "a");       /* 2 */
    assert_true(run_until_stored(t, bus, "p", 2) < STORED_MS);
    slow = draw(t, "slow");        /* 3 */
    (void)pgt_append(t->bus, "a"); /* 4 */
    run_and_see(bus, &s, 0, "2 4");
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {skips}"), 0);
    assert_true(run_until_stored(t, bus, "p", 4) < STORED_MS);
    end(t, slow, "COMMIT");
    assert_string_equal(run(bus, &s, 300), ""); /* that is what one asked for */
    howdah_close(bus);
    pgt_ok(howdah_skips_walk(t->bus, "p", false, keep_skip, &skip, &pgt_error));
    assert_int_equal(skip.first, 3);
    assert_int_equal(skip.last, 3);
    assert_true(skip.age_ms >= 2000);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {skips}"), 1);
    pgt_ok(howdah_skip_resolve(t->bus, skip.id, "sent by hand", &pgt_error));
    skip = (howdah_skip){0};
    pgt_ok(howdah_skips_walk(t->bus, "p", false, keep_skip, &skip, &pgt_error));
    assert_int_equal(skip.id, 0);
    pgt_ok(howdah_skips_walk(t->bus, "p", true, keep_skip, &skip, &pgt_error));
    assert_int_equal(skip.first, 3);
}

static void strict_order_waits_for_a_number_and_then_is_total(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    PGconn *slow;

    o.ordering = HOWDAH_ORDERING_STRICT;
    (void)subscribe(bus, &o);
    (void)pgt_append(t->bus, "a");
    run_and_see(bus, &s, 150, "1");
    slow = draw(t, "slow");
    (void)pgt_append(t->bus, "a");
    (void)pgt_append(t->bus, "b");
    assert_string_equal(run(bus, &s, 400), "");
    assert_int_equal(stored(t, "p", "high"), 1);
    end(t, slow, "COMMIT");
    assert_true(run_until(bus, &s, 4) < QUICK_MS);
    assert_string_equal(s.text, "2 3 4");
    end(t, draw(t, "gone"), "ROLLBACK");
    (void)pgt_append(t->bus, "a");
    assert_true(run_until(bus, &s, 5) < QUICK_MS);
    howdah_close(bus);
}

/* Another subscription's reading must not use up what the one that stands still has to see. */
static void strict_order_misses_nothing_that_came_while_it_tried_again(void **state)
{
    pgt *t = *state;
    seen p = {.fail = 1};
    seen other = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("other", &other);
    PGconn *first = draw(t, "a");
    PGconn *second = draw(t, "b");

    (void)pgt_append(t->bus, "c");
    (void)subscribe(bus, &o);
    (void)run(bus, &other, 100);
    o = options("p", &p);
    o.ordering = HOWDAH_ORDERING_STRICT;
    o.start = HOWDAH_FROM_END;
    o.retry_delay_ms = o.max_retry_delay_ms = 400;
    (void)subscribe(bus, &o);
    (void)run(bus, &other, 50);
    end(t, first, "COMMIT");
    assert_true(run_until(bus, &p, 1) < QUICK_MS);
    end(t, second, "COMMIT");
    p.fail = 0;
    (void)run(bus, &other, 600);
    (void)pgt_append(t->bus, "c");
    (void)run_until(bus, &p, 4);
    assert_string_equal(p.text, "1 1 2 4");
    howdah_close(bus);
}

/* ---- processes */

static bool effect(const sh_stage *stage, const howdah_delivery *delivery, const sh_sight *sight)
{
    PGconn *conn = howdah_delivery_pg(delivery);
    PGresult *result;
    bool ok;

    if (!conn)
        return false;
    result = pgt_result(stage->ctx, conn,
                        "INSERT INTO {effects} (sequence, stream, version, subscriber)"
                        " VALUES (%lld, %d, %d, '%s')",
                        (long long)sight->sequence, sight->stream, sight->version,
                        howdah_delivery_subscriber(delivery));
    ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return ok;
}

static int64_t number(const sh_stage *stage, const char *sql)
{
    const pgt *t = stage->ctx;

    return pgt_number(t, t->admin, "%s", sql);
}

static sh_stage open_stage(const pgt *t)
{
    sh_stage stage = {.bus = t->bus,
                      .settings = t->settings,
                      .ctx = t,
                      .lease_ms = 1000,
                      .take_over_ms = 2000,
                      .effect = effect,
                      .number = number};

    (void)snprintf(stage.url, sizeof stage.url, "%s", t->url);
    pgt_run(t, t->admin,
            "CREATE TABLE {effects} (id bigint GENERATED ALWAYS AS IDENTITY, sequence bigint,"
            " stream integer, version bigint, subscriber text)");
    return stage;
}

static void kill_9_at_each_point_leaves_a_legal_state(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_kill_points(&stage);
}

static void a_poison_event_is_a_dead_letter_and_the_others_flow(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_poison(&stage);
}

static void a_clean_end_stores_everything_and_the_next_begins_at_once(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_clean_end(&stage);
}

static void a_killed_owner_is_followed_within_two_seconds(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_take_over(&stage);
}

static void an_owner_that_slept_through_its_lease_is_refused_and_steps_down(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_zombie(&stage, HOWDAH_INSTANCE_LEASE);
}

static int64_t end_sessions(const pgt *t, const char *app)
{
    return pgt_number(t, t->admin,
                      "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                      " WHERE application_name = '%s'",
                      app);
}

/* A lock stays with a process that is stopped, until its session is ended: then the token tells. */
static void an_owner_whose_session_ended_in_its_sleep_is_refused(void **state)
{
    const pgt *t = *state;
    sh_stage stage = open_stage(t);
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = &stage, .board = board, .app = "sleeper"};
    int64_t token;
    pid_t first;
    pid_t second;

    hand.o = sh_options(&stage, "p", HOWDAH_CHECKPOINT_TRANSACTIONAL);
    (void)sh_append(&stage, "s1", "plain");
    (void)sh_append(&stage, "s1", "slow");
    first = sh_start(&hand);
    sh_wait_seen(board, 2, 10000);
    (void)usleep(20000);
    assert_int_equal(kill(first, SIGSTOP),
                     0); /* in the handler of 2, its effect is not committed */
    token = sh_stored(&stage, "p").token;
    hand.who = 1;
    hand.app = "other";
    second = sh_start(&hand);
    (void)usleep(700000);
    assert_int_equal(atomic_load(&board->n), 2); /* the lock is held */
    assert_int_equal(pgt_number(t, t->admin,
                                "SELECT count(pg_terminate_backend(pid)) FROM pg_locks"
                                " WHERE locktype = 'advisory' AND objsubid = 2"),
                     1);
    sh_wait_seen(board, 3, SH_PATIENCE_MS);
    sh_wait_stored(&stage, "p", 2);
    assert_true(sh_stored(&stage, "p").token > token);
    assert_int_equal(kill(first, SIGCONT), 0);
    (void)usleep(SH_SLOW_MS * 1000 + 300000); /* for what should not come */
    (void)sh_append(&stage, "s1", "plain");
    sh_wait_stored(&stage, "p", 3);
    assert_string_equal(sh_times(board, 3), "121");
    assert_int_equal(board->seen[3].who, 1);
    assert_int_equal(number(&stage, "SELECT count(*) FROM {effects}"), 3);
    assert_int_equal(number(&stage, "SELECT count(DISTINCT sequence) FROM {effects}"), 3);
    sh_end(first);
    sh_end(second);
    sh_board_free(board);
}

/* Of a bus in the schema "howdah" it is the MD5 of the name alone. */
#define HELD                                                                                       \
    "SELECT count(*) FROM pg_locks, md5(convert_to('%s', 'UTF8') || decode('00', 'hex')"           \
    "  || 'projection:orders') AS h"                                                               \
    " WHERE locktype = 'advisory' AND objsubid = 2 AND granted"                                    \
    " AND classid = ('x' || substr(h, 1, 8))::bit(32)::int::oid"                                   \
    " AND objid = ('x' || substr(h, 9, 8))::bit(32)::int::oid"

static void the_owner_holds_a_lock_of_two_parts_and_a_single_one_none(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("projection:orders", &s);
    static const char any[] = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'";

    (void)subscribe(bus, &o);
    (void)run(bus, &s, 50);
    assert_int_equal(pgt_number(t, t->admin, "%s", any), 1);
    assert_int_equal(pgt_number(t, t->admin, HELD, t->schema), 1);
    howdah_close(bus);
    assert_int_equal(pgt_number(t, t->admin, "%s", any), 0);
    bus = pgt_open(t, t->url);
    o.instance = HOWDAH_INSTANCE_SINGLE;
    (void)subscribe(bus, &o);
    (void)run(bus, &s, 50);
    assert_int_equal(pgt_number(t, t->admin, "%s", any), 0);
    assert_true(stored(t, "projection:orders", "token") > 0);
    howdah_close(bus);
}

#define HEARD_MS 20000 /* less than the pause between two looks */

/* F11, F47: nobody polls here, so what is found was rung for, or looked for after the LISTEN. */
static void a_session_that_is_ended_is_back_in_a_second_and_hears_again(void **state)
{
    const pgt *t = *state;
    sh_stage stage = open_stage(t);
    sh_board *board = sh_board_new();
    howdah_settings *settings = pgt_settings(t, "poll_interval", "30s");
    sh_hand hand = {.stage = &stage, .board = board, .app = "victim"};
    int64_t quickest = INT64_MAX;
    int64_t n = 1;
    pid_t pid;

    stage.settings = settings;
    hand.o = sh_options(&stage, "p", HOWDAH_CHECKPOINT_SYNC);
    (void)sh_append(&stage, "s1", "plain");
    pid = sh_start(&hand);
    sh_wait_seen(board, 1, 10000);
    for (int i = 0; i < 4; i++) {
        int64_t start;
        int64_t took;

        (void)usleep(200000); /* asleep, with the bell armed */
        assert_true(end_sessions(t, "victim") >= 1);
        (void)sh_append(&stage, "s1", "plain");
        start = pgt_now_ms();
        sh_wait_seen(board, (size_t)++n, HEARD_MS);
        took = board->seen[n - 1].at_ms - start;
        quickest = took < quickest ? took : quickest;
        (void)usleep(200000);
        (void)sh_append(&stage, "s1", "plain"); /* LISTEN is in force again */
        sh_wait_seen(board, (size_t)++n, HEARD_MS);
        sh_wait_stored(&stage, "p", n);
    }
    assert_true(quickest < 2000); /* another one may have met a busy machine */
    sh_end(pid);
    assert_string_equal(sh_times(board, 9), "111111111");
    howdah_settings_free(settings);
    sh_board_free(board);
}

/* F48: a writer that does not ring. */
static void what_nobody_rang_for_is_found_by_polling(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus = pgt_open_with(t, t->url, "poll_interval", "400ms");
    howdah_subscribe_options o = options("p", &s);
    int64_t quickest = INT64_MAX;

    (void)subscribe(bus, &o);
    pgt_run(t, t->admin, "SET howdah.ring = 'off'");
    for (size_t i = 1; i <= 3; i++) {
        int64_t start;
        int64_t took;

        (void)run(bus, &s, 900); /* asleep, at the longest pause */
        pgt_run(t, t->admin, "SELECT {append}('s', 't')");
        start = pgt_now_ms();
        for (int k = 0; k < 30 && s.n < i; k++)
            pgt_ok(howdah_run(bus, 2000, &pgt_error)); /* in one go: who begins looks at once */
        assert_int_equal(s.n, i);
        took = s.last_ms - start;
        quickest = took < quickest ? took : quickest;
    }
    assert_true(quickest <= 400 + 600);
    howdah_close(bus);
}

/* ---- dead letters, effects and others that cannot be stored */

static void a_dead_letter_that_cannot_be_stored_blocks_and_nothing_is_skipped(void **state)
{
    pgt *t = *state;
    seen a = {.fail = 2};
    seen b = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("a", &a);

    pgt_run(t, t->admin,
            "CREATE FUNCTION {refuse}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE"
            " EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;"
            " CREATE TRIGGER refuse BEFORE INSERT ON {dead_letters} FOR EACH ROW EXECUTE FUNCTION"
            " {refuse}()");
    o.max_retries = 0;
    (void)subscribe(bus, &o);
    o = options("b", &b);
    (void)subscribe(bus, &o);
    for (int i = 0; i < 4; i++)
        (void)pgt_append(t->bus, i < 3 ? "s" : "other");
    (void)howdah_run(bus, 800, &pgt_error);
    assert_int_equal(stored(t, "a", CONTIGUOUS), 1);
    assert_null(strstr(a.text, "3")); /* its stream waits */
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {dead_letters}"), 0);
    assert_string_equal(b.text, "1 2 3 4"); /* who has nothing to do with it goes on */
    pgt_run(t, t->admin, "DROP TRIGGER refuse ON {dead_letters}");
    (void)run_until_stored(t, bus, "a", 4);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {dead_letters}"), 1);
    assert_non_null(strstr(a.text, "3"));
    assert_non_null(strstr(a.text, "4"));
    howdah_close(bus);
}

/* F32: the same for good; one is told, and can go on. */
static void a_right_that_is_taken_away_is_an_error_and_loses_nothing(void **state)
{
    pgt *t = *state;
    seen s = {.fail = 1};
    char url[1200];
    howdah_subscribe_options o = options("p", &s);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;

    pgt_run(t, t->admin,
            "CREATE ROLE delivery_login LOGIN; GRANT {_subscribe} TO delivery_login;"
            " REVOKE INSERT ON {dead_letters} FROM {_subscribe}");
    (void)snprintf(url, sizeof url, "postgres://delivery_login@/%s?host=%s&port=%s", PQdb(t->admin),
                   PQhost(t->admin), PQport(t->admin));
    bus = pgt_open(t, url);
    o.max_retries = 0;
    (void)subscribe(bus, &o);
    (void)pgt_append(t->bus, "a");
    (void)pgt_append(t->bus, "a");
    assert_int_equal(howdah_run(bus, 2000, &err), HOWDAH_DENIED);
    assert_int_equal(stored(t, "p", CONTIGUOUS), 0);
    pgt_run(t, t->admin, "GRANT INSERT ON {dead_letters} TO {_subscribe}");
    (void)run_until_stored(t, bus, "p", 2);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {dead_letters}"), 1);
    howdah_close(bus);
    pgt_run(t, t->admin, "REVOKE {_subscribe} FROM delivery_login; DROP ROLE delivery_login");
}

/* The handler says yes, and its transaction says no: at once, or at its COMMIT. */
static void an_effect_that_cannot_be_committed_is_a_failed_try(void **state)
{
    static const char *const effects[] = {
        "INSERT INTO {deferred} VALUES (1)",
        "SELECT 1 / 0",
    };
    pgt *t = *state;

    pgt_run(t, t->admin,
            "CREATE TABLE {deferred} (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED);"
            " INSERT INTO {deferred} VALUES (1)");
    for (int i = 0; i < 3; i++)
        (void)pgt_append(t->bus, "a");
    for (int i = 0; i < 2; i++) {
        seen s = {.t = t, .effect = effects[i], .effect_at = 2};
        howdah_bus *bus = pgt_open(t, t->url);
        howdah_subscribe_options o = options(i ? "now" : "deferred", &s);

        o.checkpoint = HOWDAH_CHECKPOINT_TRANSACTIONAL;
        o.max_retries = 2;
        (void)subscribe(bus, &o);
        (void)run_until_stored(t, bus, o.subscriber_id, 3);
        assert_string_equal(s.text, "1 2 2 2 3");
        assert_int_equal(pgt_number(t, t->admin,
                                    "SELECT count(*) FROM {dead_letters} WHERE retry_count = 3"
                                    " AND global_sequence = 2 AND subscriber_id = '%s'",
                                    o.subscriber_id),
                         1);
        /* Once more, on demand: the same. */
        pgt_ok(howdah_dead_letters_redrive(t->bus, NULL, 0, o.subscriber_id, NULL, &pgt_error));
        (void)run_until(bus, &s, 6);
        (void)run(bus, &s, 50);
        assert_int_equal(pgt_number(t, t->admin,
                                    "SELECT count(*) FROM {dead_letters} WHERE retry_count = 4"
                                    " AND state = 'dead' AND subscriber_id = '%s'",
                                    o.subscriber_id),
                         1);
        howdah_close(bus);
    }
}

/* ---- networks */

static void socket_of(const pgt *t, char path[300])
{
    (void)snprintf(path, 300, "%s/.s.PGSQL.%s", PQhost(t->admin), PQport(t->admin));
}

/* F45: connections that end at any byte, and right behind a COMMIT that nobody hears of. */
static void cuts_anywhere_repeat_no_effect_and_lose_none(void **state)
{
    pgt *t = *state;
    sh_stage stage = open_stage(t);
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = &stage, .board = board};
    cutproxy proxy;
    char path[300];
    char url[1200];
    int64_t last = 0;
    pid_t pid;

    socket_of(t, path);
    assert_true(cutproxy_start(&proxy, path));
    (void)snprintf(url, sizeof url, "postgres://%s@127.0.0.1:%d/%s", PQuser(t->admin), proxy.port,
                   PQdb(t->admin));
    hand.url = url;
    hand.o = sh_options(&stage, "p", HOWDAH_CHECKPOINT_TRANSACTIONAL);
    hand.o.max_retries = 1000; /* a connection that is lost under a handler is not its fault */
    pid = sh_start(&hand);
    for (int i = 0; i < 16; i++) {
        int fired = cutproxy_fired(&proxy);
        int64_t until = pgt_now_ms() + 20000;

        if (i % 2 == 0)
            CUTPROXY(&proxy, .how = i % 4 ? CUTPROXY_CUT_ANSWER : CUTPROXY_CUT_REQUEST,
                     .text = "COMMIT", .text_ends = true);
        else
            CUTPROXY(&proxy, .how = CUTPROXY_CUT_AFTER, .reset = i % 8 < 4,
                     .client_bytes = i % 4 == 1 ? 1 + hw_random_u32() % 3000 : 0,
                     .server_bytes = i % 4 == 3 ? 1 + hw_random_u32() % 3000 : 0);
        while (cutproxy_fired(&proxy) == fired && pgt_now_ms() < until) {
            last = sh_append(&stage, last % 2 ? "s1" : "s2", "plain");
            (void)usleep(20000);
        }
        sh_wait_stored(&stage, "p", last);
    }
    CUTPROXY(&proxy, .how = CUTPROXY_PASS);
    sh_wait_stored(&stage, "p", last);
    sh_end(pid);
    print_message("# %d cuts, %zu handlers called for %lld events\n", cutproxy_fired(&proxy),
                  atomic_load(&board->n), (long long)last);
    assert_int_equal(cutproxy_fired(&proxy), 16);
    assert_true((int64_t)atomic_load(&board->n) >= last + 4); /* those COMMITs were never heard */
    assert_int_equal(number(&stage, "SELECT count(*) FROM {effects}"), last);
    assert_int_equal(number(&stage, "SELECT count(DISTINCT sequence) FROM {effects}"), last);
    assert_int_equal(number(&stage, "SELECT count(*) FROM {dead_letters}"), 0);
    assert_int_equal(sh_disorder(board), 0);
    cutproxy_stop(&proxy);
    sh_board_free(board);
}

/* ---- a log that was put back */

static void halts_with(pgt *t, const char *why)
{
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);
    howdah_subscription *sub = subscribe(bus, &o);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    assert_string_equal(run(bus, &s, 20000), ""); /* until it is halted */
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    if (!strstr(info.reason, why))
        fail_msg("halted: %s", info.reason);
    howdah_close(bus);
}

static void catch_up_with(pgt *t, int n)
{
    seen s = {0};
    howdah_bus *bus = pgt_open(t, t->url);
    howdah_subscribe_options o = options("p", &s);

    for (int i = 0; i < n; i++)
        (void)pgt_append(t->bus, "a");
    assert_int_equal(howdah_subscription_wait(subscribe(bus, &o), 10000, &pgt_error), HOWDAH_OK);
    assert_int_equal(s.n, n);
    howdah_close(bus);
}

/* As after a restore to an earlier moment. */
static void put_back(pgt *t, int64_t to)
{
    pgt_run(t, t->admin, "DELETE FROM {events} WHERE global_sequence > %lld", (long long)to);
    pgt_run(t, t->admin, "SELECT setval('{events_global_sequence_seq}', %lld)", (long long)to);
}

static void a_log_that_was_put_back_and_went_on_stops_loudly(void **state)
{
    pgt *t = *state;
    seen s = {0};
    howdah_bus *bus;
    howdah_subscribe_options o = options("p", &s);

    catch_up_with(t, 5);
    put_back(t, 3);
    assert_string_equal(pgt_state(t, t->admin, "SELECT {append}('new', 't')"), "UH008");
    for (int i = 1; i <= 4; i++) /* 4 to 7, by hand: two of them have numbers that it knows */
        pgt_run(
            t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) VALUES ('new', %d, 't', 'null')",
            i);
    halts_with(t, "another event");
    /* And the repair. */
    pgt_ok(howdah_subscription_reset(t->bus, "p", 3, &pgt_error));
    pgt_ok(howdah_subscription_resume(t->bus, "p", &pgt_error));
    bus = pgt_open(t, t->url);
    (void)subscribe(bus, &o);
    run_and_see(bus, &s, 500, "4 5 6 7");
    howdah_close(bus);
}

static void a_checkpoint_ahead_of_the_log_stops_loudly(void **state)
{
    pgt *t = *state;

    catch_up_with(t, 5);
    put_back(t, 3);
    halts_with(t, "gone");
    assert_int_equal(stored(t, "p", "high"), 5);
}

static void an_anchor_that_is_gone_stops_loudly(void **state)
{
    pgt *t = *state;

    catch_up_with(t, 5);
    pgt_run(t, t->admin, "DELETE FROM {events} WHERE global_sequence > 3");
    halts_with(t, "gone");
}

/* A test that failed leaves sessions and transactions behind that nobody else ends. */
static int delivery_teardown(void **state)
{
    pgt *t = *state;
    PGresult *gids = pgt_result(t, t->admin, "SELECT gid FROM pg_prepared_xacts");

    for (int i = 0; i < PQntuples(gids); i++)
        (void)pgt_state(t, t->admin, "ROLLBACK PREPARED '%s'", PQgetvalue(gids, i, 0));
    PQclear(gids);
    pgt_run(t, t->admin,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'");
    return pgt_teardown(state);
}

#define DELIVERY_TEST(name) cmocka_unit_test_setup_teardown(name, pgt_setup, delivery_teardown)

static const struct CMUnitTest tests[] = {
    DELIVERY_TEST(a_number_that_commits_after_a_later_one_is_delivered_too),
    DELIVERY_TEST(a_rolled_back_number_is_passed_without_waiting_for_any_time),
    DELIVERY_TEST(an_open_transaction_delays_its_own_events_only),
    DELIVERY_TEST(a_prepared_transaction_is_waited_for_and_its_rollback_passed),
    DELIVERY_TEST(a_million_rolled_back_numbers_cost_one_check),
    DELIVERY_TEST(a_batched_checkpoint_keeps_what_is_missing_and_what_is_done),
    DELIVERY_TEST(a_gap_that_is_given_up_is_on_record_and_can_be_resolved),
    DELIVERY_TEST(strict_order_waits_for_a_number_and_then_is_total),
    DELIVERY_TEST(strict_order_misses_nothing_that_came_while_it_tried_again),
    DELIVERY_TEST(kill_9_at_each_point_leaves_a_legal_state),
    DELIVERY_TEST(a_poison_event_is_a_dead_letter_and_the_others_flow),
    DELIVERY_TEST(a_clean_end_stores_everything_and_the_next_begins_at_once),
    DELIVERY_TEST(a_killed_owner_is_followed_within_two_seconds),
    DELIVERY_TEST(an_owner_that_slept_through_its_lease_is_refused_and_steps_down),
    DELIVERY_TEST(an_owner_whose_session_ended_in_its_sleep_is_refused),
    DELIVERY_TEST(the_owner_holds_a_lock_of_two_parts_and_a_single_one_none),
    DELIVERY_TEST(a_session_that_is_ended_is_back_in_a_second_and_hears_again),
    DELIVERY_TEST(what_nobody_rang_for_is_found_by_polling),
    DELIVERY_TEST(a_dead_letter_that_cannot_be_stored_blocks_and_nothing_is_skipped),
    DELIVERY_TEST(a_right_that_is_taken_away_is_an_error_and_loses_nothing),
    DELIVERY_TEST(an_effect_that_cannot_be_committed_is_a_failed_try),
    DELIVERY_TEST(cuts_anywhere_repeat_no_effect_and_lose_none),
    DELIVERY_TEST(a_log_that_was_put_back_and_went_on_stops_loudly),
    DELIVERY_TEST(a_checkpoint_ahead_of_the_log_stops_loudly),
    DELIVERY_TEST(an_anchor_that_is_gone_stops_loudly),
};

PGT_MAIN("pg delivery", tests)
