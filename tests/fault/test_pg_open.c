/*
 * test_pg_open.c - one transaction that appended and stays open, prepared or idle, and numbers that
 * do not come from the column's default: nobody else's events are held up or lost by either.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "bus/subscription/subscription.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

#define PATIENCE_MS 60000
#define BURNT 5000 /* more than were ever kept, and one by one between events */
#define NUMBERS 40000

/* What one subscription was given. */
typedef struct heard {
    int times[NUMBERS];
    int n;
} heard;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    heard *h = ctx;
    int64_t sequence = howdah_event_global_sequence(event);

    (void)delivery;
    assert_in_range(sequence, 1, NUMBERS - 1);
    h->times[sequence]++;
    h->n++;
    return HOWDAH_HANDLED;
}

static void subscribe_to(howdah_bus *bus, const char *id, const char *pattern, int64_t start,
                         heard *h)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    memset(h, 0, sizeof *h);
    o.subscriber_id = id;
    o.pattern = pattern;
    o.start = start;
    o.handler = on_event;
    o.ctx = h;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.max_delay_ms = 20;
    o.catch_up_batch = 1000;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
}

static void subscribe(howdah_bus *bus, const char *id, int64_t start, heard *h)
{
    subscribe_to(bus, id, NULL, start, h);
}

/* Serves until so many events came; then a little longer: no further one may come. */
static void serve(howdah_bus *bus, const heard *h, int expected)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    while (h->n < expected && pgt_now_ms() < until)
        pgt_ok(howdah_run(bus, 20, &pgt_error));
    pgt_ok(howdah_run(bus, 50, &pgt_error));
    if (h->n != expected)
        fail_msg("%d events instead of %d", h->n, expected);
}

/* Numbers drawn and rolled back between events, one by one, in one statement each. */
static void burn(const pgt *t, int n, const char *stream)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) SELECT '%s', g, 't', 'null'"
            " FROM generate_series(1, %d) AS g"
            " WHERE nextval('{events_global_sequence_seq}') IS NOT NULL",
            stream, n);
}

static PGconn *append_and_stay(const pgt *t)
{
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, conn, "BEGIN");
    pgt_run(t, conn, "SELECT {append}('open', 'open.event')");
    return conn;
}

/* Under a transaction that works all the time every number may still appear. */
static PGconn *work_all_the_time(const pgt *t)
{
    PGconn *open = append_and_stay(t);

    assert_int_equal(PQsendQuery(open, "SELECT pg_sleep(3600)"), 1);
    return open;
}

static void end_work(const pgt *t, PGconn *open)
{
    pgt_run(t, t->admin, "SELECT pg_terminate_backend(%d)", PQbackendPID(open));
    PQfinish(open);
}

static void forget_prepared(const pgt *t)
{
    PGconn *conn = append_and_stay(t);

    pgt_run(t, conn, "PREPARE TRANSACTION 'open %s'", t->schema);
    PQfinish(conn);
}

/* ---- under a prepared transaction */

static void a_new_subscription_goes_on_over_history_that_was_burnt_under_a_prepared_transaction(
    void **state)
{
    pgt *t = *state;
    heard *end = calloc(1, sizeof *end);
    heard *start = calloc(1, sizeof *start);

    assert_true(end && start);
    forget_prepared(t);
    burn(t, BURNT, "history");
    subscribe(t->bus, "end", HOWDAH_FROM_END, end);
    subscribe(t->bus, "start", 0, start);
    for (int i = 0; i < 100; i++)
        (void)pgt_append(t->bus, "new");
    serve(t->bus, start, BURNT + 100);
    serve(t->bus, end, 100);
    pgt_run(t, t->admin, "COMMIT PREPARED 'open %s'", t->schema);
    serve(t->bus, start, BURNT + 101);
    serve(t->bus, end, 101);
    assert_int_equal(start->times[1], 1);
    assert_int_equal(end->times[1], 1);
    free(end);
    free(start);
}

static void a_live_subscription_goes_on_while_numbers_are_burnt(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);

    assert_non_null(h);
    subscribe(t->bus, "live", 0, h);
    serve(t->bus, h, 0);
    forget_prepared(t);
    for (int i = 1; i <= 10; i++) {
        char stream[16];

        (void)snprintf(stream, sizeof stream, "s%d", i);
        burn(t, BURNT / 10, stream);
        serve(t->bus, h, i * BURNT / 10);
    }
    pgt_run(t, t->admin, "ROLLBACK PREPARED 'open %s'", t->schema);
    (void)pgt_append(t->bus, "new");
    serve(t->bus, h, BURNT + 1);
    free(h);
}

/* A page holds a thousand rows, and so about as many holes. */
#define HOLES_AT_ONCE 3000

static void holes_of_a_burst_are_put_aside_while_it_is_read(void **state)
{
    pgt *t = *state;
    int64_t until = pgt_now_ms() + PATIENCE_MS;
    heard *h = calloc(1, sizeof *h);
    PGconn *open;

    assert_non_null(h);
    subscribe(t->bus, "live", 0, h);
    serve(t->bus, h, 0);
    open = append_and_stay(t);
    burn(t, 3 * BURNT, "burst");
    while (h->n < 3 * BURNT && pgt_now_ms() < until) {
        pgt_ok(howdah_run(t->bus, 1, &pgt_error));
        assert_in_range(t->bus->service->reader.frontier.holes_n, 0, HOLES_AT_ONCE);
    }
    assert_int_equal(h->n, 3 * BURNT);
    pgt_run(t, open, "COMMIT");
    PQfinish(open);
    serve(t->bus, h, 3 * BURNT + 1);
    free(h);
}

/* ---- under one that is open */

static void what_an_idle_transaction_appended_comes_when_it_commits_and_once(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    PGconn *open = append_and_stay(t);

    assert_non_null(h);
    burn(t, BURNT, "history");
    subscribe(t->bus, "s", 0, h);
    serve(t->bus, h, BURNT);
    pgt_run(t, open, "SELECT {append}('open', 'open.event')"); /* it moves, and draws one more */
    burn(t, BURNT, "later");
    serve(t->bus, h, 2 * BURNT);
    pgt_run(t, open, "COMMIT");
    serve(t->bus, h, 2 * BURNT + 2);
    assert_int_equal(h->times[1], 1);
    PQfinish(open);
    free(h);
}

/* Its state is not for everybody to see: then whatever it may have drawn has to wait for it. */
static void a_busy_transaction_keeps_nobody_waiting_but_itself(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    PGconn *open = work_all_the_time(t);

    assert_non_null(h);
    burn(t, BURNT, "history");
    subscribe(t->bus, "s", 0, h);
    serve(t->bus, h, BURNT);
    burn(t, BURNT, "later");
    serve(t->bus, h, 2 * BURNT);
    end_work(t, open);
    (void)pgt_append(t->bus, "new");
    serve(t->bus, h, 2 * BURNT + 1);
    free(h);
}

static void who_starts_again_owes_what_is_open_and_nothing_else(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    PGconn *open = append_and_stay(t);
    howdah_bus *bus = pgt_open(t, t->url);

    assert_non_null(h);
    burn(t, BURNT, "history");
    subscribe(bus, "s", 0, h);
    serve(bus, h, BURNT);
    howdah_close(bus);
    bus = pgt_open(t, t->url);
    subscribe(bus, "s", 0, h);
    serve(bus, h, 0);
    howdah_close(bus);
    pgt_run(t, open, "COMMIT"); /* while nobody listens */
    bus = pgt_open(t, t->url);
    subscribe(bus, "s", 0, h);
    serve(bus, h, 1);
    assert_int_equal(h->times[1], 1);
    howdah_close(bus);
    assert_int_equal(
        pgt_number(t, t->admin,
                   "SELECT cardinality(outstanding) + cardinality(still) FROM {subscriptions}"),
        0);
    PQfinish(open);
    free(h);
}

/* ---- what it costs */

static int64_t wal_of_a_checkpoint(const pgt *t, howdah_bus *bus, heard *h)
{
    int expected = h->n + 1;
    char before[64];

    (void)snprintf(before, sizeof before, "%s",
                   pgt_text(t, t->admin, "SELECT pg_current_wal_lsn()"));
    (void)pgt_append(t->bus, "one");
    serve(bus, h, expected);
    return pgt_number(t, t->admin, "SELECT pg_current_wal_lsn() - '%s'::pg_lsn", before);
}

/* The least of several: vacuum and checkpoints of the server write, too. */
static int64_t least_wal(const pgt *t, howdah_bus *bus, heard *h)
{
    int64_t least = INT64_MAX;

    (void)wal_of_a_checkpoint(t, bus, h);
    for (int i = 0; i < 10; i++) {
        int64_t bytes = wal_of_a_checkpoint(t, bus, h);

        least = bytes < least ? bytes : least;
    }
    return least;
}

static void a_checkpoint_that_only_moves_on_writes_no_holes_again(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    howdah_bus *bus = pgt_open(t, t->url);
    int64_t without;
    int64_t with;
    PGconn *open;

    assert_non_null(h);
    subscribe(bus, "s", 0, h);
    without = least_wal(t, bus, h);
    open = work_all_the_time(t);
    burn(t, BURNT, "history");
    serve(bus, h, h->n + BURNT);
    pgt_ok(howdah_run(bus, 1500, &pgt_error)); /* they stand still by now */
    assert_true(pgt_number(t, t->admin, "SELECT cardinality(still) FROM {subscriptions}") >=
                2 * BURNT);
    with = least_wal(t, bus, h);
    print_message("# %lld bytes of WAL an event without holes, %lld with %d\n", (long long)without,
                  (long long)with, BURNT);
    assert_true(with < without + 300);
    end_work(t, open);
    howdah_close(bus);
    free(h);
}

/* A tenth is much more than it takes, and much less than to look into every hole takes. */
static void who_waits_does_not_look_into_what_stands_still(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    PGconn *open = work_all_the_time(t);
    int64_t before;
    int64_t used;

    assert_non_null(h);
    burn(t, 2 * BURNT, "history");
    subscribe(t->bus, "s", 0, h);
    serve(t->bus, h, 2 * BURNT);
    pgt_ok(howdah_run(t->bus, 1500, &pgt_error)); /* what was read is stored, and stands still */
    before = pgt_cpu_ms(t, t->admin);
    pgt_ok(howdah_run(t->bus, 2000, &pgt_error));
    used = pgt_cpu_ms(t, t->admin) - before;
    print_message("# %lld ms of processor time in 2000\n", (long long)used);
    assert_in_range(used, 0, 200);
    end_work(t, open);
    free(h);
}

static int64_t time_of_tail(const pgt *t, int64_t since, int expected)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_bus *bus = pgt_open(t, t->url);
    int64_t begun = pgt_now_ms();
    howdah_tail *tail = NULL;
    int64_t ended;

    o.since = since;
    pgt_ok(howdah_tail_open(bus, &o, &tail, &pgt_error));
    pgt_tail(tail, expected);
    ended = pgt_now_ms();
    howdah_tail_close(tail);
    howdah_close(bus);
    return ended - begun;
}

/* One that looks into the holes again for every page takes twenty times as long, and more. */
static void a_tail_over_burnt_numbers_takes_about_as_long_as_over_none(void **state)
{
    const int events = 15000;
    pgt *t = *state;
    PGconn *open;
    int64_t without;
    int64_t with;

    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) SELECT 'plain', g, 't', 'null'"
            " FROM generate_series(1, %d) AS g",
            events);
    without = time_of_tail(t, 0, events);
    open = work_all_the_time(t); /* number 15,001 */
    burn(t, events, "history");
    with = time_of_tail(t, events, events);
    print_message("# %lld ms without holes, %lld ms with %d\n", (long long)without, (long long)with,
                  events);
    assert_in_range(with, 0, 4 * without + 1000);
    end_work(t, open);
}

static void append_rare(const pgt *t, int n)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data)"
            " SELECT 'rare ' || g, 1, 'rare.' || g, 'null' FROM generate_series(%d, %d) AS g",
            n, n);
}

/* To look for every type in every hole would take longer than a statement may. */
static void a_wildcard_starts_again_over_many_types_and_many_holes(void **state)
{
    const int types = 16000;
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    PGconn *open = work_all_the_time(t);
    howdah_bus *bus = pgt_open(t, t->url);

    assert_non_null(h);
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data)"
            " SELECT 's', g, 'rare.' || g, 'null' FROM generate_series(1, %d) AS g",
            types);
    burn(t, 3000, "history");
    subscribe_to(bus, "s", "rare.*", 0, h);
    serve(bus, h, types);
    howdah_close(bus);
    for (int i = 1; i <= 2; i++) { /* with holes that stand still, and with such as were freed */
        append_rare(t, types + i);
        bus = pgt_open(t, t->url);
        subscribe_to(bus, "s", "rare.*", 0, h);
        serve(bus, h, 1);
        howdah_close(bus);
        if (i == 1)
            end_work(t, open);
    }
    free(h);
}

static void what_was_proven_is_written_down_for_those_who_come_later(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    howdah_bus *bus = pgt_open(t, t->url);
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    assert_non_null(h);
    subscribe(bus, "s", 0, h);
    serve(bus, h, 0);
    forget_prepared(t);
    (void)pgt_append(t->bus, "new");
    serve(bus, h, 1);
    pgt_ok(howdah_run(bus, 500, &pgt_error)); /* looks at who may have drawn what is missing */
    burn(t, BURNT, "history");
    serve(bus, h, BURNT + 1);
    /* It may have been written down in the middle of it; less than 1000 numbers are not worth it.
     */
    while (pgt_number(t, t->admin, "SELECT upto FROM {proven}") < 2 * BURNT - 1000) {
        assert_true(pgt_now_ms() < until);
        (void)pgt_append(t->bus, "new");
        pgt_ok(howdah_run(bus, 100, &pgt_error));
    }
    /* Number 1 may still appear; what was burnt later cannot. */
    assert_string_equal(pgt_text(t, t->admin, "SELECT holes FROM {proven}"), "{1,1}");
    howdah_close(bus);
    pgt_run(t, t->admin, "ROLLBACK PREPARED 'open %s'", t->schema);
    free(h);
}

/* ---- between the looks of one round */

/* Somebody draws a number behind a round's first look and has gone before its second one. */
static struct {
    const hw_sub_ops *real;
    const pgt *t;
    PGconn *quick;
    int looks; /* 0: not now */
} between;

static int look_between(hw_store *store, int64_t *ret_drawn, hw_holder **ret_holders, size_t *ret_n,
                        howdah_error *reterr)
{
    int s;

    if (between.looks == 2)
        pgt_run(between.t, between.quick, "COMMIT");
    s = between.real->holders(store, ret_drawn, ret_holders, ret_n, reterr);
    if (between.looks == 1) {
        pgt_run(between.t, between.quick, "BEGIN");
        pgt_run(between.t, between.quick, "SELECT {append}('quick', 'quick.event')");
        burn(between.t, 500, "between");
    }
    if (between.looks > 0)
        between.looks++;
    return s;
}

static void who_draws_and_ends_between_two_looks_is_not_put_aside(void **state)
{
    static hw_store_ops ops;
    static hw_sub_ops subs;
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    const hw_store_ops *real = t->bus->store->ops;

    assert_non_null(h);
    between.real = real->subs;
    between.t = t;
    between.quick = pgt_session(t->url);
    between.looks = 0;
    ops = *real;
    subs = *real->subs;
    subs.holders = look_between;
    ops.subs = &subs;
    t->bus->store->ops = &ops;
    forget_prepared(t);
    burn(t, 10, "history");
    subscribe(t->bus, "s", 0, h);
    serve(t->bus, h, 10);
    pgt_ok(howdah_run(t->bus, 1500, &pgt_error)); /* number 1 stands still */
    burn(t, BURNT, "large pages");
    serve(t->bus, h, 10 + BURNT);
    between.looks = 1;
    serve(t->bus, h, 10 + BURNT + 500 + 1);
    pgt_run(t, t->admin, "ROLLBACK PREPARED 'open %s'", t->schema);
    t->bus->store->ops = real;
    PQfinish(between.quick);
    free(h);
}

/* ---- numbers that do not come from the default */

static void a_row_with_a_number_above_the_sequence_takes_nothing_from_those_below(void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    howdah_bus *bus = pgt_open(t, t->url);

    assert_non_null(h);
    subscribe(bus, "s", 0, h);
    for (int i = 0; i < 20; i++)
        (void)pgt_append(t->bus, "a");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (1000, 'raw', 1, 't', 'null')");
    serve(bus, h, 21);
    for (int i = 0; i < 20; i++)
        (void)pgt_append(t->bus, "a");
    serve(bus, h, 41);
    howdah_close(bus); /* and a restart knows it as well */
    bus = pgt_open(t, t->url);
    subscribe(bus, "s", 0, h);
    for (int i = 0; i < 20; i++)
        (void)pgt_append(t->bus, "a");
    serve(bus, h, 20);
    howdah_close(bus);
    free(h);
}

static void an_event_whose_number_was_drawn_before_its_transaction_had_an_id_is_delivered(
    void **state)
{
    pgt *t = *state;
    heard *h = calloc(1, sizeof *h);
    PGconn *conn = pgt_session(t->url);
    char number[32] = "";

    assert_non_null(h);
    subscribe(t->bus, "s", 0, h);
    for (int i = 0; i < 3 && !number[0]; i++) { /* one nextval() in 32 asks for an id itself */
        pgt_run(t, conn, "BEGIN");
        (void)snprintf(number, sizeof number, "%s",
                       pgt_text(t, conn, "SELECT nextval('{events_global_sequence_seq}')"));
        if (strcmp(pgt_text(t, conn, "SELECT pg_current_xact_id_if_assigned()"), "NULL") != 0) {
            pgt_run(t, conn, "ROLLBACK");
            number[0] = '\0';
        }
    }
    assert_true(number[0] != '\0');
    (void)pgt_append(t->bus, "a");
    serve(t->bus, h, 1);
    pgt_ok(howdah_run(t->bus, 1500, &pgt_error)); /* long enough for any proof */
    pgt_run(t, conn,
            "INSERT INTO {events} (global_sequence, stream, version, type, data)"
            " VALUES (%s, 'late', 1, 't', 'null')",
            number);
    pgt_run(t, conn, "COMMIT");
    serve(t->bus, h, 2);
    assert_int_equal(h->times[atoi(number)], 1);
    PQfinish(conn);
    free(h);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_new_subscription_goes_on_over_history_that_was_burnt_under_a_prepared_transaction),
    PGT_TEST(a_live_subscription_goes_on_while_numbers_are_burnt),
    PGT_TEST(holes_of_a_burst_are_put_aside_while_it_is_read),
    PGT_TEST(what_an_idle_transaction_appended_comes_when_it_commits_and_once),
    PGT_TEST(a_busy_transaction_keeps_nobody_waiting_but_itself),
    PGT_TEST(who_starts_again_owes_what_is_open_and_nothing_else),
    PGT_TEST(a_checkpoint_that_only_moves_on_writes_no_holes_again),
    PGT_TEST(who_waits_does_not_look_into_what_stands_still),
    PGT_TEST(a_tail_over_burnt_numbers_takes_about_as_long_as_over_none),
    PGT_TEST(a_wildcard_starts_again_over_many_types_and_many_holes),
    PGT_TEST(what_was_proven_is_written_down_for_those_who_come_later),
    PGT_TEST(who_draws_and_ends_between_two_looks_is_not_put_aside),
    PGT_TEST(a_row_with_a_number_above_the_sequence_takes_nothing_from_those_below),
    PGT_TEST(an_event_whose_number_was_drawn_before_its_transaction_had_an_id_is_delivered),
};

PGT_MAIN("pg open", tests)
