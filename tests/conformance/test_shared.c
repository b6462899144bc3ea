/* test_shared.c - shared subscriptions with handlers. */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "conformance.h"

#define NAME "mails"
#define STREAMS 20
#define EVENTS 200

/* ---- helpers */

/* What handlers have seen; under its lock. */
typedef struct seen {
    pthread_mutex_t lock;
    int64_t order[EVENTS + 10]; /* numbers, as they were handled */
    size_t n;
    int running;
    int most;      /* at the same time */
    int64_t fails; /* this one fails, */
    int times;     /* so often */
    int result;    /* with this result */
    int64_t pause_us;
    bool meets; /* the first one waits until another runs beside it */
    int dead_letters;
} seen;

static seen *new_seen(void)
{
    seen *s = calloc(1, sizeof *s);

    assert_non_null(s);
    pthread_mutex_init(&s->lock, NULL);
    s->result = HOWDAH_NOT_HANDLED;
    return s;
}

/* Nobody can say how soon a second thread gets a processor: only whether it may run. */
static void meet(seen *s)
{
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;
    bool met;

    do {
        usleep(1000);
        pthread_mutex_lock(&s->lock);
        met = s->most > 1;
        pthread_mutex_unlock(&s->lock);
    } while (!met && hw_clock_mono_ms() < until);
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;
    int64_t number = howdah_event_global_sequence(event);
    int result = HOWDAH_HANDLED;

    (void)delivery;
    pthread_mutex_lock(&s->lock);
    if (++s->running > s->most)
        s->most = s->running;
    pthread_mutex_unlock(&s->lock);
    if (s->pause_us > 0)
        usleep((useconds_t)s->pause_us);
    if (s->meets)
        meet(s);
    pthread_mutex_lock(&s->lock);
    if (number == s->fails && s->times > 0) {
        s->times--;
        result = s->result;
    } else if (s->n < sizeof s->order / sizeof *s->order) {
        s->order[s->n++] = number;
    }
    s->running--;
    pthread_mutex_unlock(&s->lock);
    return result == HOWDAH_NOT_HANDLED ? howdah_delivery_fail(delivery, "no") : result;
}

static void on_dead(void *ctx, const howdah_event *event, const char *error, int attempts)
{
    seen *s = ctx;

    (void)event;
    assert_string_equal(error, "no");
    assert_int_equal(attempts, 2);
    s->dead_letters++;
}

static howdah_subscription *subscribe_as(howdah_bus *bus, seen *s, howdah_subscribe_options o)
{
    howdah_subscription *sub = NULL;

    o.subscriber_id = NAME;
    o.handler = on_event;
    o.ctx = s;
    o.on_dead_letter = on_dead;
    o.instance = HOWDAH_INSTANCE_SHARED;
    o.retry_delay_ms = 1;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    return sub;
}

static howdah_subscription *subscribe(howdah_bus *bus, seen *s)
{
    return subscribe_as(bus, s, (howdah_subscribe_options)HOWDAH_SUBSCRIBE_OPTIONS_INIT);
}

static void append_many(howdah_bus *bus)
{
    for (int i = 0; i < EVENTS; i++) {
        char stream[16];

        (void)snprintf(stream, sizeof stream, "s%d", i % STREAMS);
        (void)cf_append(bus, stream, "t.x", "{}");
    }
}

/* Each once, and those of one stream in order. */
static void check_all(const seen *s)
{
    bool got[EVENTS + 1] = {false};
    int64_t last[STREAMS] = {0};

    assert_int_equal(s->n, EVENTS);
    for (size_t i = 0; i < s->n; i++) {
        int64_t number = s->order[i];

        assert_in_range(number, 1, EVENTS);
        assert_false(got[number]);
        got[number] = true;
        assert_true(last[number % STREAMS] < number);
        last[number % STREAMS] = number;
    }
}

static const char *order(const seen *s)
{
    static char text[300];

    text[0] = '\0';
    for (size_t i = 0; i < s->n; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ",
                       (long long)s->order[i]);
    return text;
}

static void wait_for(const howdah_subscription *sub)
{
    cf_ok(
        howdah_subscription_wait((howdah_subscription *)(uintptr_t)sub, CF_PATIENCE_MS, &cf_error));
}

/* ---- cases */

static void a_handler_sees_everything_once_and_streams_in_order(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscription *sub = subscribe(c->bus, s);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    append_many(c->bus);
    wait_for(sub);
    check_all(s);
    cf_ok(howdah_subscription_info_get(sub, &info));
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_LIVE);
    assert_int_equal(info.delivered, EVENTS);
    assert_int_equal(howdah_run(c->bus, 1, &cf_error), HOWDAH_OK);
    assert_int_equal(s->n, EVENTS);
    cf_ok(howdah_unsubscribe(sub, &cf_error));
    free(s);
}

static void a_runner_handles_several_at_a_time(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_bus *other = cf_open(c);
    int64_t until = hw_clock_mono_ms() + 2 * CF_PATIENCE_MS;

    o.concurrency = 4;
    o.catch_up_batch = 5;
    s->meets = true;
    (void)subscribe_as(c->bus, s, o);
    append_many(other);
    cf_ok(howdah_runner_start(c->bus, 4, &cf_error));
    for (;;) {
        size_t n;

        pthread_mutex_lock(&s->lock);
        n = s->n;
        pthread_mutex_unlock(&s->lock);
        if (n >= EVENTS || hw_clock_mono_ms() > until)
            break;
        usleep(1000);
    }
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    check_all(s);
    assert_true(s->most > 1);
    assert_true(s->most <= 4);
    howdah_close(other);
    free(s);
}

static void a_runner_that_is_stopped_gives_back_what_it_has(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub;

    o.lease_ms = 3600000; /* nobody would wait for its end */
    s->pause_us = 2000;
    sub = subscribe_as(c->bus, s, o);
    append_many(c->bus);
    cf_ok(howdah_runner_start(c->bus, 2, &cf_error));
    usleep(50000);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    s->pause_us = 0;
    wait_for(sub);
    check_all(s);
    free(s);
}

static void a_failed_event_is_tried_again_and_its_stream_waits(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub;

    s->fails = 1;
    s->times = 2;
    sub = subscribe_as(c->bus, s, o);
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    wait_for(sub);
    assert_int_equal(s->n, 3);
    assert_int_equal(s->times, 0);
    assert_true(strstr(order(s), "1 ") < strstr(order(s), "2 ")); /* 3 comes whenever it can */
    free(s);
}

static void after_its_last_try_it_is_a_dead_letter(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub;

    s->fails = 1;
    s->times = 10;
    o.max_retries = 1;
    sub = subscribe_as(c->bus, s, o);
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    wait_for(sub);
    assert_string_equal(order(s), "2 ");
    assert_int_equal(s->dead_letters, 1);
    assert_int_equal(cf_sql_number(c, "SELECT retry_count FROM {dead_letters}"), 2);
    free(s);
}

static void a_handler_may_put_back_or_halt(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscription *sub = subscribe(c->bus, s);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    for (int i = 0; i < 3; i++)
        (void)cf_append(c->bus, "a", "t", "{}");
    s->fails = 2;
    s->times = 3;
    s->result = HOWDAH_PUT_BACK;
    wait_for(sub);
    assert_string_equal(order(s), "1 2 3 ");
    assert_int_equal(s->times, 0);
    for (int i = 0; i < 3; i++)
        (void)cf_append(c->bus, "a", "t", "{}");
    s->fails = 5;
    s->times = 1;
    s->result = HOWDAH_HALT;
    cf_ok(howdah_run(c->bus, CF_PATIENCE_MS, &cf_error)); /* ends when nothing can go on */
    assert_string_equal(order(s), "1 2 3 4 ");
    cf_ok(howdah_subscription_info_get(sub, &info));
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    cf_ok(howdah_subscription_resume(c->bus, NAME, &cf_error));
    wait_for(sub);
    assert_string_equal(order(s), "1 2 3 4 5 6 ");
    free(s);
}

/* In the handler's transaction. */
static int store_effect(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;
    char sql[100];
    int64_t number = howdah_event_global_sequence(event);

    (void)snprintf(sql, sizeof sql, "INSERT INTO effects (n) VALUES (%lld)", (long long)number);
    if (howdah_delivery_pg(delivery))
        PQclear(PQexec(howdah_delivery_pg(delivery), sql));
    else if (sqlite3_exec(howdah_delivery_sqlite(delivery), sql, NULL, NULL, NULL) != SQLITE_OK)
        return howdah_delivery_fail(delivery, "cannot insert");
    return on_event(s, event, delivery);
}

static void an_effect_and_its_ack_are_one_transaction(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    if (!cf_is_owner()) { /* the table of effects is not theirs */
        free(s);
        return;
    }
    cf_sql(c, "CREATE TABLE effects (n bigint)");
    s->fails = 3;
    s->times = 1;
    o.subscriber_id = NAME;
    o.handler = store_effect;
    o.ctx = s;
    o.instance = HOWDAH_INSTANCE_SHARED;
    o.checkpoint = HOWDAH_CHECKPOINT_TRANSACTIONAL;
    o.retry_delay_ms = 1;
    for (int i = 0; i < 6; i++)
        (void)cf_append(c->bus, i % 2 ? "a" : "b", "t", "{}");
    cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
    wait_for(sub);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM effects"), 6);
    assert_int_equal(cf_sql_number(c, "SELECT count(DISTINCT n) FROM effects"), 6);
    assert_int_equal(s->n, 6);
    free(s);
}

static void a_lease_is_extended_while_its_handler_takes_long(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_bus *other = cf_open(c);
    howdah_member_options m = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_member *member = NULL;
    howdah_batch *batch = NULL;

    o.lease_ms = 1500;
    s->pause_us = 3000000;
    (void)subscribe_as(c->bus, s, o);
    (void)cf_append(c->bus, "a", "t", "{}");
    m.subscriber_id = NAME;
    cf_ok(howdah_member_new(other, &m, &member, &cf_error));
    cf_ok(howdah_runner_start(c->bus, 1, &cf_error));
    for (int running = 0; running == 0; usleep(1000)) {
        pthread_mutex_lock(&s->lock);
        running = s->running;
        pthread_mutex_unlock(&s->lock);
    }
    assert_int_equal(howdah_member_fetch(member, 2200, &batch, &cf_error), HOWDAH_END);
    cf_ok(howdah_runner_stop(c->bus, &cf_error));
    assert_string_equal(order(s), "1 ");
    assert_int_equal(howdah_member_fetch(member, 0, &batch, &cf_error), HOWDAH_END);
    howdah_close(other);
    free(s);
}

static howdah_bus *interrupted;

static int interrupt_at_two(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    if (howdah_event_global_sequence(event) == 2)
        howdah_interrupt(interrupted);
    return on_event(ctx, event, delivery);
}

static void after_an_interrupt_the_rest_is_free_at_once(void **state)
{
    cf *c = *state;
    seen *s = new_seen();
    howdah_member_options m = HOWDAH_MEMBER_OPTIONS_INIT;

    for (int threads = 0; threads < 2; threads++) {
        howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
        howdah_subscription *sub = NULL;
        howdah_member *member = NULL;
        howdah_batch *batch = NULL;
        howdah_bus *other = cf_open(c);

        interrupted = c->bus;
        if (threads == 0)
            for (int i = 0; i < 4; i++)
                (void)cf_append(c->bus, "a", "t", "{}");
        else
            cf_ok(howdah_subscription_reset(c->bus, NAME, HOWDAH_FROM_START, &cf_error));
        o.subscriber_id = NAME;
        o.handler = interrupt_at_two;
        o.ctx = s;
        o.instance = HOWDAH_INSTANCE_SHARED;
        o.lease_ms = 3600000;
        cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
        if (threads == 0) {
            assert_int_equal(howdah_run(c->bus, CF_PATIENCE_MS, &cf_error), HOWDAH_INTERRUPTED);
        } else {
            cf_ok(howdah_runner_start(c->bus, 1, &cf_error));
            assert_int_equal(howdah_runner_wait(c->bus, CF_PATIENCE_MS, &cf_error),
                             HOWDAH_INTERRUPTED);
            cf_ok(howdah_runner_stop(c->bus, &cf_error));
        }
        howdah_interrupt_clear(c->bus);
        cf_ok(howdah_unsubscribe(sub, &cf_error));
        m.subscriber_id = NAME;
        cf_ok(howdah_member_new(other, &m, &member, &cf_error));
        cf_ok(howdah_member_fetch(member, 0, &batch, &cf_error));
        assert_non_null(batch);
        assert_int_equal(howdah_batch_size(batch), 2);
        assert_int_equal(howdah_event_global_sequence(howdah_batch_event(batch, 0)), 3);
        assert_int_equal(howdah_batch_attempt(batch), 1);
        howdah_batch_free(batch);
        howdah_close(other);
    }
    assert_string_equal(order(s), "1 2 1 2 ");
    free(s);
}

static void handlers_of_two_kinds_share_a_bus(void **state)
{
    cf *c = *state;
    seen *shared = new_seen();
    seen *alone = new_seen();
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *first = subscribe(c->bus, shared);
    howdah_subscription *second = NULL;

    o.subscriber_id = "alone";
    o.handler = on_event;
    o.ctx = alone;
    cf_ok(howdah_subscribe(c->bus, &o, &second, &cf_error));
    append_many(c->bus);
    wait_for(first);
    wait_for(second);
    check_all(shared);
    check_all(alone);
    o.subscriber_id = NAME;
    assert_int_equal(howdah_subscribe(c->bus, &o, &second, &cf_error), HOWDAH_CONFLICT);
    free(shared);
    free(alone);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_handler_sees_everything_once_and_streams_in_order),
    CF_SUB_TEST(a_runner_handles_several_at_a_time),
    CF_SUB_TEST(a_runner_that_is_stopped_gives_back_what_it_has),
    CF_SUB_TEST(a_failed_event_is_tried_again_and_its_stream_waits),
    CF_SUB_TEST(after_its_last_try_it_is_a_dead_letter),
    CF_SUB_TEST(a_handler_may_put_back_or_halt),
    CF_SUB_TEST(an_effect_and_its_ack_are_one_transaction),
    CF_SUB_TEST(a_lease_is_extended_while_its_handler_takes_long),
    CF_SUB_TEST(after_an_interrupt_the_rest_is_free_at_once),
    CF_SUB_TEST(handlers_of_two_kinds_share_a_bus),
};

cf_group cf_shared_tests(void)
{
    return CF_GROUP(tests);
}
