/*
 * test_reliable.c - the reliability plans that subscriptions grew from, test by test.
 *
 * What the two documents call test_..., and where it is here.  "sub" is test_subscribe.c, "pg" is
 * tests/fault/test_pg_delivery.c, "unit" the file of that name in tests/unit.
 *
 *   subscribe_and_event_propagation, multiple_subscribers      sub: several_subscriptions_...
 *   subscribe_catches_up_on_missed_events,
 *   subscriber_catches_up_after_late_subscription              sub: a_new_subscription_sees_...
 *   subscribe_deduplicates_events_during_catchup,
 *   catchup_plus_realtime_handoff_no_loss                      handed_over_while_others_append_...
 *   catchup_with_many_events_uses_batching                     the_stored_place_follows_...
 *   high_volume_catchup_performance                            twenty_thousand_events_...
 *   checkpoint_read_returns_none_for_new_subscriber,
 *   checkpoint_write_and_read_roundtrip,
 *   checkpoint_update_is_upsert                                a_place_is_stored_at_its_start_...
 *   checkpoint_updated_after_successful_event_processing       the_stored_place_follows_...
 *   checkpoint_not_updated_on_processing_failure               a_failed_event_keeps_the_place_...
 *   multiple_subscribers_maintain_independent_checkpoints      different_subscriptions_on_...
 *   reliable_delivery_config_has_sensible_defaults,
 *   default_config_has_gap_timeout, custom_gap_timeout         the_options_have_the_documents_...
 *   retry_delay_calculation                                    unit: backoff, delivery
 *   transient_failure_is_retried                               sub: a_failed_event_is_tried_...
 *   persistent_failure_goes_to_dlq, processing_continues_after_dlq_insertion,
 *   checkpoint_advances_after_dlq_insertion                    sub: after_the_last_try_...
 *   dlq_entry_has_correct_metadata                             a_dead_letter_has_all_of_its_event
 *   crash_recovery_resumes_from_checkpoint                     pg, test_sqlite_kills.c: kill_9_
 *   idempotent_projection_handles_duplicate_delivery           a_second_delivery_does_no_harm_...
 *   failover_to_second_instance                                sub: one_instance_owns_...; pg
 *   different_projections_on_different_instances               different_subscriptions_on_...
 *   single_instance_acquires_lock, advisory_lock_uses_64bit_keyspace, lock_released_on_disconnect,
 *   single_instance_mode_skips_locking                         pg: the_owner_holds_a_lock_...
 *   second_instance_skips_processing                           sub: one_instance_owns_...
 *   reconnection_catches_up_on_missed_events                   pg: a_session_that_is_ended_...
 *   advance_contiguous_* , subscriber_state_new_defaults       unit: delivery, frontier
 *   out_of_order_notify_both_events_processed,
 *   multiple_subscribers_out_of_order                          pg: a_number_that_commits_after_...
 *   rolled_back_transaction_gap_resolved                       pg: a_rolled_back_number_...
 *   burst_concurrent_events_all_processed                      a_burst_of_concurrent_appends_...
 *   batched_checkpoint_with_gap_tracking                       pg: a_batched_checkpoint_keeps_...
 *   graceful_shutdown_flushes_subscriber_states                a_clean_end_stores_what_was_...
 *   undeserializable_event_advances_past                       sub: an_event_that_cannot_be_...
 */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/random.h"
#include "conformance.h"

#define MANY 20000

static howdah_subscribe_options options(const char *id, howdah_handler handler, void *ctx)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = id;
    o.handler = handler;
    o.ctx = ctx;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 5;
    return o;
}

static howdah_subscription *subscribe(howdah_bus *bus, const howdah_subscribe_options *o)
{
    howdah_subscription *sub = NULL;

    cf_ok(howdah_subscribe(bus, o, &sub, &cf_error));
    return sub;
}

static void catch_up(howdah_subscription *sub)
{
    assert_int_equal(howdah_subscription_wait(sub, 60000, &cf_error), HOWDAH_OK);
}

/* n events on several streams, in batches. */
static void append_many(howdah_bus *bus, size_t n)
{
    while (n > 0) {
        howdah_event *events[500];
        size_t part = n < 500 ? n : 500;

        for (size_t i = 0; i < part; i++) {
            char stream[16];

            (void)snprintf(stream, sizeof stream, "s%zu", i % 7);
            events[i] = cf_event(stream, "t", NULL);
        }
        cf_ok(howdah_append_batch(bus, (const howdah_event *const *)events, part, NULL, NULL,
                                  &cf_error));
        for (size_t i = 0; i < part; i++)
            howdah_event_free(events[i]);
        n -= part;
    }
}

/* Where it stands, as stored. */
typedef struct place {
    int64_t high;
    int64_t contiguous;
    int64_t dead_letters;
    int64_t token;
} place;

static int keep_place(void *ctx, const howdah_subscription_info *info)
{
    *(place *)ctx = (place){info->high, info->contiguous, info->dead_letters, info->token};
    return 0;
}

static place stored(howdah_bus *bus, const char *id)
{
    place p = {0};

    cf_ok(howdah_subscriptions_walk(bus, id, keep_place, &p, &cf_error));
    return p;
}

/* ---- the stored place */

typedef struct watcher {
    howdah_bus *boss;
    const char *id;
    int64_t farthest_behind; /* the in-hand event's number less one less what is stored */
    int64_t led;             /* times that what is stored was not below the event in hand */
    int64_t moves;
    int64_t last_high;
    int64_t n;
} watcher;

static int watch(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    watcher *w = ctx;
    int64_t sequence = howdah_event_global_sequence(event);
    place p = stored(w->boss, w->id);

    (void)delivery;
    w->led += p.contiguous >= sequence;
    w->moves += p.high != w->last_high;
    w->last_high = p.high;
    if (sequence - 1 - p.high > w->farthest_behind)
        w->farthest_behind = sequence - 1 - p.high;
    w->n++;
    return HOWDAH_HANDLED;
}

static watcher watch_250(cf *c, const char *id, howdah_checkpoint_mode mode)
{
    howdah_bus *bus = cf_open_admin(c);
    watcher w = {.boss = cf_open_admin(c), .id = id};
    howdah_subscribe_options o = options(id, watch, &w);

    o.checkpoint = mode;
    o.batch_size = 100;
    o.max_delay_ms = 60000;
    catch_up(subscribe(bus, &o));
    howdah_close(bus);
    assert_int_equal(stored(w.boss, id).high, 250);
    howdah_close(w.boss);
    assert_int_equal(w.n, 250);
    assert_int_equal(w.led, 0);
    return w;
}

static void the_stored_place_follows_what_was_handled_and_never_leads(void **state)
{
    cf *c = *state;
    watcher w;

    append_many(c->bus, 250);
    w = watch_250(c, "sync", HOWDAH_CHECKPOINT_SYNC);
    assert_int_equal(w.farthest_behind, 0);
    assert_int_equal(w.moves, 249);
    w = watch_250(c, "transactional", HOWDAH_CHECKPOINT_TRANSACTIONAL);
    assert_int_equal(w.farthest_behind, 0);
    assert_int_equal(w.moves, 249);
    w = watch_250(c, "batched", HOWDAH_CHECKPOINT_BATCHED);
    assert_int_equal(w.farthest_behind, 99);
    assert_int_equal(w.moves, 2);
}

typedef struct tally {
    atomic_int n;
    int64_t fail; /* this number, always */
    int64_t last;
    int disorder;
} tally;

static int count(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    tally *t = ctx;
    int64_t sequence = howdah_event_global_sequence(event);

    (void)atomic_fetch_add(&t->n, 1);
    t->disorder += sequence <= t->last;
    t->last = sequence;
    return sequence == t->fail ? howdah_delivery_fail(delivery, "broken") : HOWDAH_HANDLED;
}

static void a_place_is_stored_at_its_start_and_renewed_in_place(void **state)
{
    cf *c = *state;
    tally t = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", count, &t);
    howdah_subscription *sub;

    append_many(c->bus, 10);
    o.start = 4;
    sub = subscribe(bus, &o);
    assert_int_equal(stored(c->bus, "p").high, 4);
    assert_int_equal(stored(c->bus, "p").contiguous, 4);
    catch_up(sub);
    assert_int_equal(stored(c->bus, "p").high, 10);
    append_many(c->bus, 1);
    catch_up(sub);
    assert_int_equal(stored(c->bus, "p").high, 11);
    assert_int_equal(t.n, 7);
    howdah_close(bus);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {subscriptions}"), 1);
}

static void a_failed_event_keeps_the_place_below_it_until_it_is_done_with(void **state)
{
    cf *c = *state;
    tally t = {.fail = 3};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", count, &t);
    howdah_subscription *sub;

    append_many(c->bus, 6);
    o.max_retries = 1;
    o.retry_delay_ms = 2000;
    o.max_retry_delay_ms = 2000;
    sub = subscribe(bus, &o);
    for (int i = 0; i < 100 && stored(c->bus, "p").high < 6; i++)
        cf_ok(howdah_run(bus, 10, &cf_error));
    assert_int_equal(stored(c->bus, "p").contiguous, 2);
    assert_int_equal(stored(c->bus, "p").high, 6); /* the others went on */
    assert_int_equal(stored(c->bus, "p").dead_letters, 0);
    catch_up(sub);
    assert_int_equal(stored(c->bus, "p").contiguous, 6);
    assert_int_equal(stored(c->bus, "p").dead_letters, 1);
    assert_int_equal(t.n, 7);
    howdah_close(bus);
}

static void a_clean_end_stores_what_was_handled(void **state)
{
    cf *c = *state;
    tally t = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", count, &t);

    append_many(c->bus, 30);
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.batch_size = 1000;
    o.max_delay_ms = 60000;
    catch_up(subscribe(bus, &o));
    assert_int_equal(stored(c->bus, "p").high, 0);
    howdah_close(bus);
    assert_int_equal(stored(c->bus, "p").high, 30);
    bus = cf_open(c);
    catch_up(subscribe(bus, &o));
    assert_int_equal(t.n, 30);
    howdah_close(bus);
}

/* ---- options, dead letters, second deliveries */

static void the_options_have_the_documents_defaults(void **state)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    (void)state;
    assert_int_equal(o.size, sizeof o);
    assert_null(o.pattern);
    assert_int_equal(o.start, 0);
    assert_int_equal(o.max_retries, 3);
    assert_int_equal(o.retry_delay_ms, 1000);
    assert_int_equal(o.max_retry_delay_ms, 60000);
    assert_int_equal(o.catch_up_batch, 100);
    assert_int_equal(o.checkpoint, HOWDAH_CHECKPOINT_SYNC);
    assert_int_equal(o.instance, HOWDAH_INSTANCE_COORDINATED);
    assert_int_equal(o.gap_policy, HOWDAH_GAP_PROOF);
    assert_int_equal(o.gap_timeout_ms, 5000);
    assert_int_equal(o.ordering, HOWDAH_ORDERING_AHEAD);
    assert_int_equal(o.on_fail, HOWDAH_FAIL_OPEN);
}

typedef struct dead_letter_check {
    howdah_event *event; /* as the log has it */
    int n;
} dead_letter_check;

static int check_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    dead_letter_check *c = ctx;
    size_t a_len = 0;
    size_t b_len = 0;
    const char *a = howdah_event_data(dead_letter->event, &a_len);
    const char *b = howdah_event_data(c->event, &b_len);
    char a_id[HOWDAH_UUID_SIZE];
    char b_id[HOWDAH_UUID_SIZE];

    howdah_event_id(dead_letter->event, a_id);
    howdah_event_id(c->event, b_id);
    assert_string_equal(dead_letter->subscriber_id, "p");
    assert_string_equal(dead_letter->source, "sub");
    assert_string_equal(dead_letter->error, "broken");
    assert_string_equal(dead_letter->state, "dead");
    assert_int_equal(dead_letter->attempts, 3);
    assert_int_equal(dead_letter->redrives, 0);
    assert_false(dead_letter->resolved);
    assert_string_equal(a_id, b_id);
    assert_string_equal(howdah_event_stream(dead_letter->event), "other");
    assert_string_equal(howdah_event_type(dead_letter->event), "order.paid");
    assert_int_equal(howdah_event_version(dead_letter->event), 1);
    assert_int_equal(howdah_event_global_sequence(dead_letter->event), 2);
    assert_int_equal(a_len, b_len);
    assert_memory_equal(a, b, a_len);
    assert_true(dead_letter->created_at_us > 0);
    c->n++;
    return 0;
}

static void a_dead_letter_has_all_of_its_event_and_outlives_it(void **state)
{
    cf *c = *state;
    tally t = {.fail = 2};
    dead_letter_check check = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", count, &t);
    howdah_subscription *sub;

    append_many(c->bus, 1);
    (void)cf_append(c->bus, "other", "order.paid", "{\"amount\":12345678901234567890.5}");
    append_many(c->bus, 1);
    cf_ok(howdah_event_get_last(c->bus, "other", &check.event, &cf_error));
    o.max_retries = 2;
    sub = subscribe(bus, &o);
    catch_up(sub);
    assert_int_equal(t.n, 1 + 3 + 1);
    cf_ok(howdah_dead_letters_walk(c->bus, NULL, check_dead_letter, &check, &cf_error));
    assert_int_equal(check.n, 1);
    cf_sql(c, "DELETE FROM {events} WHERE global_sequence = 2"); /* no foreign key */
    cf_ok(howdah_dead_letters_walk(c->bus, NULL, check_dead_letter, &check, &cf_error));
    assert_int_equal(check.n, 2);
    howdah_event_free(check.event);
    howdah_close(bus);
}

typedef struct effecter {
    char sql[128];
    bool fail;
    int n;
} effecter;

static int do_effect(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    effecter *e = ctx;

    (void)event;
    e->n++;
    if (howdah_delivery_pg(delivery))
        PQclear(PQexec(howdah_delivery_pg(delivery), e->sql));
    if (howdah_delivery_sqlite(delivery))
        (void)sqlite3_exec(howdah_delivery_sqlite(delivery), e->sql, NULL, NULL, NULL);
    return e->fail ? howdah_delivery_fail(delivery, "not today") : HOWDAH_HANDLED;
}

static void a_redriven_effect_and_its_dead_letter_are_one_transaction(void **state)
{
    cf *c = *state;
    effecter e = {.fail = true};
    howdah_bus *bus = cf_open_admin(c);
    howdah_subscribe_options o = options("p", do_effect, &e);
    howdah_subscription *sub;
    char table[64];
    char sql[128];
    int64_t n = 0;

    (void)snprintf(table, sizeof table, "redriven_%08x", (unsigned)hw_random_u32());
    (void)snprintf(sql, sizeof sql, "CREATE TABLE %s (n bigint)", table);
    cf_sql(c, sql);
    (void)snprintf(e.sql, sizeof e.sql, "INSERT INTO %s VALUES (1)", table);
    (void)snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
    append_many(c->bus, 1);
    o.checkpoint = HOWDAH_CHECKPOINT_TRANSACTIONAL;
    o.max_retries = 0;
    sub = subscribe(bus, &o);
    catch_up(sub);
    assert_int_equal(cf_sql_number(c, sql), 0);
    for (int i = 0; i < 2; i++) { /* fails once more, then not */
        e.fail = i == 0;
        cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, "p", &n, &cf_error));
        assert_int_equal(n, 1);
        for (int k = 0; k < 6000 && e.n < i + 2; k++)
            cf_ok(howdah_run(bus, 10, &cf_error));
        cf_ok(howdah_run(bus, 20, &cf_error));
        assert_int_equal(e.n, i + 2);
        assert_int_equal(cf_sql_number(c, sql), i);
        assert_int_equal(stored(c->bus, "p").dead_letters, 1 - i);
    }
    howdah_close(bus);
    (void)snprintf(sql, sizeof sql, "DROP TABLE %s", table);
    cf_sql(c, sql);
}

/* The handler says yes, and its transaction is broken (PostgreSQL), or gone (SQLite). */
static void an_effect_that_cannot_be_committed_is_a_failed_try(void **state)
{
    cf *c = *state;
    effecter e = {.fail = false};
    howdah_bus *bus = cf_open_admin(c);
    howdah_subscribe_options o = options("p", do_effect, &e);
    char table[64];
    char sql[128];

    (void)snprintf(table, sizeof table, "refused_%08x", (unsigned)hw_random_u32());
    (void)snprintf(sql, sizeof sql, "CREATE TABLE %s (n bigint UNIQUE)", table);
    cf_sql(c, sql);
    (void)snprintf(sql, sizeof sql, "INSERT INTO %s VALUES (1)", table);
    cf_sql(c, sql);
    (void)snprintf(e.sql, sizeof e.sql, "INSERT %s INTO %s VALUES (1)",
                   cf_is_pg() ? "" : "OR ROLLBACK", table);
    append_many(c->bus, 1);
    o.checkpoint = HOWDAH_CHECKPOINT_TRANSACTIONAL;
    o.max_retries = 1;
    catch_up(subscribe(bus, &o));
    assert_int_equal(e.n, 2);
    assert_int_equal(stored(c->bus, "p").dead_letters, 1);
    assert_int_equal(stored(c->bus, "p").contiguous, 1);
    howdah_close(bus);
    (void)snprintf(sql, sizeof sql, "DROP TABLE %s", table);
    cf_sql(c, sql);
}

/* A projection that knows what it has by the event's id. */
typedef struct projection {
    char ids[8][HOWDAH_UUID_SIZE];
    int n;
    int deliveries;
} projection;

static int project(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    projection *p = ctx;
    char id[HOWDAH_UUID_SIZE];

    (void)delivery;
    p->deliveries++;
    howdah_event_id(event, id);
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->ids[i], id) == 0)
            return HOWDAH_HANDLED;
    memcpy(p->ids[p->n++], id, sizeof id);
    return HOWDAH_HANDLED;
}

static void a_second_delivery_does_no_harm_to_who_looks_at_the_id(void **state)
{
    cf *c = *state;
    projection p = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", project, &p);
    howdah_subscription *sub = subscribe(bus, &o);

    append_many(c->bus, 5);
    catch_up(sub);
    cf_ok(howdah_subscription_reset(c->bus, "p", 0, &cf_error));
    for (int i = 0; i < 1200 && p.deliveries < 10; i++)
        cf_ok(howdah_run(bus, 50, &cf_error));
    assert_int_equal(p.deliveries, 10);
    assert_int_equal(p.n, 5);
    howdah_close(bus);
}

/* ---- several instances */

static void different_subscriptions_on_different_instances_do_not_meet(void **state)
{
    cf *c = *state;
    tally a = {0};
    tally b = {0};
    howdah_bus *one = cf_open(c);
    howdah_bus *two = cf_open(c);
    howdah_subscribe_options o = options("a", count, &a);
    howdah_subscription *first = subscribe(one, &o);
    howdah_subscription *second;

    o = options("b", count, &b);
    second = subscribe(two, &o);
    append_many(c->bus, 5);
    catch_up(first);
    assert_int_equal(stored(c->bus, "a").high, 5);
    assert_int_equal(stored(c->bus, "b").high, 0);
    append_many(c->bus, 5);
    catch_up(second);
    assert_int_equal(stored(c->bus, "a").high, 5);
    assert_int_equal(stored(c->bus, "b").high, 10);
    howdah_close(two);
    catch_up(first);
    assert_int_equal(a.n, 10);
    assert_int_equal(b.n, 10);
    howdah_close(one);
}

/* ---- many events, many appenders */

typedef struct appender {
    pthread_t thread;
    howdah_bus *bus;
    int me;
    int n;
    int64_t pause_us;
    int failed;
} appender;

static void *append_all(void *arg)
{
    appender *a = arg;
    char stream[16];

    (void)snprintf(stream, sizeof stream, "w%d", a->me);
    for (int i = 0; i < a->n; i++) {
        struct timespec pause = {0, (long)(a->pause_us * 1000)};
        howdah_event *event = cf_event(stream, "t", NULL);

        a->failed += howdah_append(a->bus, event, NULL, NULL, NULL) < 0;
        howdah_event_free(event);
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* Each stream counts 1, 2, 3 ... */
typedef struct streams {
    int64_t versions[10];
    int disorder;
    int n;
} streams;

static int follow(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    streams *s = ctx;
    int stream = (int)strtol(howdah_event_stream(event) + 1, NULL, 10);

    (void)delivery;
    s->disorder += howdah_event_version(event) != s->versions[stream] + 1;
    s->versions[stream] = howdah_event_version(event);
    s->n++;
    return HOWDAH_HANDLED;
}

static void start_appenders(const cf *c, appender *appenders, int threads, int n, int64_t pause_us)
{
    for (int i = 0; i < threads; i++) {
        appenders[i] = (appender){.bus = cf_open(c), .me = i, .n = n, .pause_us = pause_us};
        assert_int_equal(pthread_create(&appenders[i].thread, NULL, append_all, &appenders[i]), 0);
    }
}

static void end_appenders(appender *appenders, int threads)
{
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(appenders[i].thread, NULL), 0);
        assert_int_equal(appenders[i].failed, 0);
        howdah_close(appenders[i].bus);
    }
}

static void a_burst_of_concurrent_appends_arrives_whole(void **state)
{
    cf *c = *state;
    appender appenders[10];
    streams s = {0};
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = options("p", follow, &s);
    howdah_subscription *sub = subscribe(bus, &o);

    catch_up(sub); /* live */
    start_appenders(c, appenders, 10, 5, 0);
    cf_ok(howdah_run(bus, 50, &cf_error));
    end_appenders(appenders, 10);
    catch_up(sub);
    assert_int_equal(s.n, 50);
    assert_int_equal(s.disorder, 0);
    howdah_close(bus);
}

static void handed_over_while_others_append_nothing_is_lost_or_doubled(void **state)
{
    cf *c = *state;
    appender appenders[4];
    streams s = {0};
    howdah_bus *bus;
    howdah_subscribe_options o = options("p", follow, &s);
    howdah_subscription *sub;

    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.catch_up_batch = 10;
    start_appenders(c, appenders, 4, 150, 500);
    while (cf_count(c->bus) < 100) {
    }
    bus = cf_open(c);
    sub = subscribe(bus, &o);
    for (int i = 0; i < 4; i++)
        catch_up(sub);
    end_appenders(appenders, 4);
    catch_up(sub);
    assert_int_equal(s.n, 600);
    assert_int_equal(s.disorder, 0);
    howdah_close(bus);
}

static void twenty_thousand_events_are_caught_up_in_seconds(void **state)
{
    cf *c = *state;
    tally t = {0};
    howdah_bus *bus = cf_open(c);
    howdah_bus *boss = cf_open_admin(c);
    howdah_subscribe_options o = options("p", count, &t);
    howdah_subscription *sub;
    int64_t start;

    append_many(boss, MANY);
    howdah_close(boss);
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    sub = subscribe(bus, &o);
    start = hw_clock_mono_ms();
    catch_up(sub);
    print_message("# %d events in %lld ms\n", MANY, (long long)(hw_clock_mono_ms() - start));
    assert_true(hw_clock_mono_ms() - start < 30000);
    assert_int_equal(t.n, MANY);
    assert_int_equal(t.disorder, 0);
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(the_stored_place_follows_what_was_handled_and_never_leads),
    CF_SUB_TEST(a_place_is_stored_at_its_start_and_renewed_in_place),
    CF_SUB_TEST(a_failed_event_keeps_the_place_below_it_until_it_is_done_with),
    CF_SUB_TEST(a_clean_end_stores_what_was_handled),
    CF_SUB_TEST(the_options_have_the_documents_defaults),
    CF_SUB_TEST(a_dead_letter_has_all_of_its_event_and_outlives_it),
    CF_SUB_TEST(a_redriven_effect_and_its_dead_letter_are_one_transaction),
    CF_SUB_TEST(an_effect_that_cannot_be_committed_is_a_failed_try),
    CF_SUB_TEST(a_second_delivery_does_no_harm_to_who_looks_at_the_id),
    CF_SUB_TEST(different_subscriptions_on_different_instances_do_not_meet),
    CF_SUB_TEST(a_burst_of_concurrent_appends_arrives_whole),
    CF_SUB_TEST(handed_over_while_others_append_nothing_is_lost_or_doubled),
    CF_SUB_TEST(twenty_thousand_events_are_caught_up_in_seconds),
};

cf_group cf_reliable_tests(void)
{
    return CF_GROUP(tests);
}
