/*
 * test_pg_ahead.c - pages that are asked for before they are wanted (read.c I1): nothing is missed
 * or comes twice, whatever the numbers look like, what is appended meanwhile, or who ends the
 * session; and the server does work ahead.  Runs with a server of its own: it ends sessions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "cutproxy.h"
#include "test_pg_help.h"

#define WAIT_MS 60000
#define LARGE 50000 /* bytes: too many for a row of a full page */

/* The same numbers each time; below n. */
static int64_t pick(int64_t n)
{
    static uint64_t x = 20;

    x = x * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((x >> 33) % (uint64_t)n);
}

/* ---- the log */

/* n rows of so many bytes each. */
static void put_rows(const pgt *t, int64_t n, int bytes)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) SELECT 's', v.last + g, 'a',"
            " to_json(repeat('x', %d)) FROM generate_series(1, %lld) AS g, (SELECT coalesce("
            "max(version), 0) AS last FROM {events}) AS v",
            bytes, (long long)n);
}

/* Numbers that nobody has. */
static void burn(const pgt *t, int64_t n)
{
    pgt_run(t, t->admin,
            "SELECT count(nextval('{events_global_sequence_seq}')) FROM generate_series(1, %lld)",
            (long long)n);
}

/* What a reader has seen: all of it, if the numbers grow. */
typedef struct walk {
    int64_t n;
    int64_t last;
    int64_t sum;
    int64_t bytes;
} walk;

static void take(walk *w, const howdah_event *events, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_true(events[i].global_sequence > w->last);
        w->last = events[i].global_sequence;
        w->n++;
        w->sum += events[i].global_sequence;
        w->bytes += (int64_t)events[i].data.len;
    }
}

static void walk_on(hw_store *store, hw_cursor *cursor, walk *w)
{
    const howdah_event *events = NULL;
    size_t n = 0;
    int s;

    while ((s = store->ops->read_next(cursor, &events, &n, &pgt_error)) == HOWDAH_OK)
        take(w, events, n);
    pgt_ok(s);
    assert_int_equal(s, HOWDAH_END);
}

static void compare(const pgt *t, hw_store *store, int64_t from, int64_t to)
{
    hw_query q = {.from = from, .to = to, .batch = 500};
    hw_cursor *cursor = NULL;
    walk w = {0};
    char found[100];

    pgt_ok(store->ops->read_open(store, &q, &cursor, &pgt_error));
    walk_on(store, cursor, &w);
    store->ops->read_close(cursor);
    (void)snprintf(found, sizeof found, "%lld %lld %lld", (long long)w.n, (long long)w.sum,
                   (long long)w.bytes);
    assert_string_equal(
        found, pgt_text(t, t->admin,
                        "SELECT concat_ws(' ', count(*), coalesce(sum(global_sequence), 0),"
                        " coalesce(sum(octet_length(data::text)), 0)) FROM {events}"
                        " WHERE global_sequence BETWEEN %lld AND %lld",
                        (long long)from, (long long)(to ? to : INT64_MAX)));
}

static void every_gap_and_size_gives_the_same_rows_as_a_plain_select(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, t->url);

    for (int round = 0; round < 12; round++) {
        put_rows(t, 400 + pick(1200), 20);
        if (pick(2))
            burn(t, 1 + pick(round % 3 == 0 ? 700 : 3));
        if (pick(3) == 0)
            put_rows(t, 1 + pick(3), LARGE);
        compare(t, store, 1, 0);
        compare(t, store, 1 + pick(500), 3000);
        compare(t, store, 1, 1000000);
    }
    pgt_store_close(store);
}

/* The pages ahead were read before it was there; the one after them comes too late for it. */
static void what_is_appended_below_the_pages_ahead_is_read_too(void **state)
{
    pgt *t = *state;
    hw_store *store = pgt_store(t, t->url);
    hw_query q = {.from = 1, .batch = 1000};
    hw_cursor *cursor = NULL;
    const howdah_event *events = NULL;
    size_t n = 0;
    walk w = {0};

    put_rows(t, 2500, 20);
    pgt_ok(store->ops->read_open(store, &q, &cursor, &pgt_error));
    while (w.n < 1500) {
        pgt_ok(store->ops->read_next(cursor, &events, &n, &pgt_error));
        take(&w, events, n);
    }
    assert_true(w.n < 2500);
    pgt_wait_for(t, t->admin, 0,
                 "SELECT count(*) FROM pg_stat_activity WHERE state = 'active'"
                 " AND pid <> pg_backend_pid() AND datname = current_database()");
    put_rows(t, 5000, 20);
    walk_on(store, cursor, &w);
    assert_int_equal(w.n, 7500);
    assert_int_equal(w.last, 7500);
    store->ops->read_close(cursor);
    pgt_store_close(store);
}

/* ---- deliveries */

typedef struct consumer {
    const pgt *t;
    int64_t n;
    int64_t next;    /* the number that has not been seen yet */
    int64_t repeats; /* of numbers that have */
    int64_t kill_every;
    int64_t look_at; /* this number looks at the server */
    int (*handler)(void *ctx, const howdah_event *event, howdah_delivery *delivery);
} consumer;

#define THE_CONSUMER                                                                               \
    "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    consumer *c = ctx;
    int64_t number = howdah_event_global_sequence(event);

    (void)delivery;
    c->n++;
    assert_true(number <= c->next);
    if (number < c->next) {
        c->repeats++;
        return HOWDAH_HANDLED;
    }
    c->next++;
    if (c->kill_every && number % c->kill_every == 0)
        (void)pgt_number(c->t, c->t->admin,
                         "SELECT count(pg_terminate_backend(pid)) FROM " THE_CONSUMER);
    if (number == c->look_at)
        pgt_wait_for(c->t, c->t->admin, 1,
                     "SELECT count(*) FROM " THE_CONSUMER
                     " AND state = 'active' AND wait_event = 'ClientWrite'");
    return HOWDAH_HANDLED;
}

/* From the beginning of the log to its end. */
static void consume(consumer *c, int64_t checkpoint_every, int64_t page)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_bus *bus = pgt_open(c->t, c->t->url);
    howdah_subscription *sub = NULL;

    c->next = 1;
    o.subscriber_id = "c";
    o.handler = c->handler ? c->handler : on_event;
    o.ctx = c;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.batch_size = checkpoint_every;
    o.catch_up_batch = page;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
    pgt_ok(howdah_subscription_wait(sub, WAIT_MS, &pgt_error));
    pgt_ok(howdah_unsubscribe(sub, &pgt_error));
    howdah_close(bus);
}

/* A page of a megabyte does not fit a socket: the server waits in the middle of it. */
static void the_server_works_on_the_next_page_while_a_handler_runs(void **state)
{
    pgt *t = *state;
    consumer c = {.t = t, .look_at = 1800};

    put_rows(t, 4000, 2000);
    consume(&c, 100000, 500);
    assert_int_equal(c.n, 4000);
}

/* 1801 comes right after a checkpoint, the only one of its page, and in the middle of it. */
static void a_checkpoint_leaves_the_next_page_under_way(void **state)
{
    pgt *t = *state;
    consumer c = {.t = t, .look_at = 1801};

    put_rows(t, 4000, 2000);
    consume(&c, 300, 500);
    assert_int_equal(c.n, 4000);
    assert_int_equal(pgt_number(t, t->admin, "SELECT high FROM {subscriptions}"), 4000);
}

static void sessions_that_end_anywhere_lose_nothing_and_repeat_no_more_than_is_unstored(
    void **state)
{
    pgt *t = *state;
    consumer c = {.t = t, .kill_every = 777};

    put_rows(t, 10000, 200);
    consume(&c, 100, 500);
    assert_int_equal(c.next, 10001);
    assert_true(c.repeats <= 12 * 200); /* a kill costs what is since the checkpoint before */
    assert_int_equal(pgt_number(t, t->admin, "SELECT high FROM {subscriptions}"), 10000);
}

/* A server that can write no further gives its client up, over TCP, after some seconds.  The page
   is in its way when the handler comes to the event for the first time, and the session ends. */
static int on_slow_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    consumer *c = ctx;

    (void)delivery;
    c->n++;
    if (howdah_event_global_sequence(event) != c->look_at)
        return HOWDAH_HANDLED;
    c->repeats++;
    pgt_wait_for(c->t, c->t->admin, 0,
                 "SELECT count(*) FROM " THE_CONSUMER
                 " AND wait_event IS DISTINCT FROM 'ClientRead'"
                 " AND wait_event IS DISTINCT FROM 'ClientWrite'");
    (void)pgt_number(c->t, c->t->admin,
                     "SELECT count(pg_terminate_backend(pid)) FROM " THE_CONSUMER
                     " AND wait_event = 'ClientWrite'");
    pgt_run(c->t, c->t->admin, "SELECT pg_sleep(1.1)"); /* too long for a page in flight */
    return HOWDAH_HANDLED;
}

static void an_event_whose_slow_handler_costs_the_session_comes_twice_and_no_more(void **state)
{
    pgt *t = *state;
    consumer c = {.t = t, .handler = on_slow_event, .look_at = 1801};

    put_rows(t, 4000, 2000);
    consume(&c, 300, 500);
    assert_int_equal(c.repeats, 2);
    assert_true(c.n <= 4300); /* what is since the checkpoint before */
    assert_int_equal(pgt_number(t, t->admin, "SELECT high FROM {subscriptions}"), 4000);
}

/* ---- a network that cuts */

typedef struct cut_consumer {
    const pgt *t;
    cutproxy *proxy;
    int64_t next;
    int64_t repeats;
    int64_t led; /* checkpoints above what was handled */
} cut_consumer;

static int on_cut_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    cut_consumer *c = ctx;
    int64_t number = howdah_event_global_sequence(event);

    (void)delivery;
    assert_true(number <= c->next);
    if (number < c->next) {
        c->repeats++;
        return HOWDAH_HANDLED;
    }
    if (number % 97 == 0)
        c->led +=
            pgt_number(c->t, c->t->admin, "SELECT count(*) FROM {subscriptions} WHERE high >= %lld",
                       (long long)number);
    c->next++;
    if (number % 251 == 0)
        CUTPROXY(c->proxy, .how = CUTPROXY_CUT_AFTER, .reset = number % 4 < 2,
                 .client_bytes = number % 3 ? 0 : 1 + hw_random_u32() % 1500,
                 .server_bytes = number % 3 ? 1 + hw_random_u32() % 200000 : 0);
    return HOWDAH_HANDLED;
}

static void connections_that_end_at_any_byte_lose_nothing_and_no_checkpoint_leads(void **state)
{
    pgt *t = *state;
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_bus *bus;
    cutproxy proxy;
    cut_consumer c = {.t = t, .proxy = &proxy, .next = 1};
    char path[512];
    char url[1024];

    put_rows(t, 10000, 200);
    (void)snprintf(path, sizeof path, "%s/.s.PGSQL.%s", PQhost(t->admin), PQport(t->admin));
    assert_true(cutproxy_start(&proxy, path));
    (void)snprintf(url, sizeof url, "postgres://%s@127.0.0.1:%d/%s", PQuser(t->admin), proxy.port,
                   PQdb(t->admin));
    bus = pgt_open(t, url);
    o.subscriber_id = "c";
    o.handler = on_cut_event;
    o.ctx = &c;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.batch_size = 70;
    o.catch_up_batch = 300;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
    for (int64_t until = pgt_now_ms() + 2 * WAIT_MS; c.next <= 10000;) {
        int s = howdah_subscription_wait(sub, WAIT_MS, &pgt_error);

        assert_true(s == HOWDAH_OK || s == HOWDAH_UNAVAILABLE || s == HOWDAH_LOST ||
                    s == HOWDAH_END);
        assert_true(pgt_now_ms() < until);
    }
    CUTPROXY(&proxy, .how = CUTPROXY_PASS);
    pgt_ok(howdah_subscription_wait(sub, WAIT_MS, &pgt_error));
    print_message("# %d cuts, %lld repeats\n", cutproxy_fired(&proxy), (long long)c.repeats);
    assert_true(cutproxy_fired(&proxy) > 20);
    assert_int_equal(c.next, 10001);
    assert_int_equal(c.led, 0);
    pgt_ok(howdah_unsubscribe(sub, &pgt_error));
    assert_int_equal(pgt_number(t, t->admin, "SELECT high FROM {subscriptions}"), 10000);
    howdah_close(bus);
    cutproxy_stop(&proxy);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(every_gap_and_size_gives_the_same_rows_as_a_plain_select),
    PGT_TEST(what_is_appended_below_the_pages_ahead_is_read_too),
    PGT_TEST(the_server_works_on_the_next_page_while_a_handler_runs),
    PGT_TEST(a_checkpoint_leaves_the_next_page_under_way),
    PGT_TEST(sessions_that_end_anywhere_lose_nothing_and_repeat_no_more_than_is_unstored),
    PGT_TEST(an_event_whose_slow_handler_costs_the_session_comes_twice_and_no_more),
    PGT_TEST(connections_that_end_at_any_byte_lose_nothing_and_no_checkpoint_leads),
};

PGT_MAIN("pg ahead", tests)
