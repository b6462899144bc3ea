/* test_runner.c - subscriptions in threads.  Runs under ThreadSanitizer too. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conformance.h"

typedef struct counted {
    atomic_int handled;
    atomic_int inside; /* handlers of this subscription that run now */
    atomic_int most;   /* the most there ever were */
    atomic_int order;  /* times that a number came after a higher one of its stream */
    atomic_llong last;
    atomic_bool block; /* the handler waits while it is set */
    atomic_int fails;  /* so many first tries fail */
} counted;

static void nap(int ms)
{
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)nanosleep(&pause, NULL);
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    counted *c = ctx;
    int inside = atomic_fetch_add(&c->inside, 1) + 1;
    int64_t sequence = howdah_event_global_sequence(event);
    int result = HOWDAH_HANDLED;

    if (inside > atomic_load(&c->most))
        atomic_store(&c->most, inside);
    while (atomic_load(&c->block))
        nap(1);
    if (howdah_delivery_attempt(delivery) == 1 && atomic_load(&c->fails) > 0) {
        (void)atomic_fetch_sub(&c->fails, 1);
        result = howdah_delivery_fail(delivery, "not yet");
    } else {
        if (sequence < atomic_exchange(&c->last, sequence))
            (void)atomic_fetch_add(&c->order, 1);
        (void)atomic_fetch_add(&c->handled, 1);
    }
    (void)atomic_fetch_sub(&c->inside, 1);
    return result;
}

static howdah_subscription *subscribe(howdah_bus *bus, const char *id, counted *c,
                                      howdah_checkpoint_mode mode)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = id;
    o.handler = on_event;
    o.ctx = c;
    o.checkpoint = mode;
    o.retry_delay_ms = 5;
    o.max_retry_delay_ms = 20;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    return sub;
}

static void append_n(howdah_bus *bus, const char *stream, int n)
{
    for (int i = 0; i < n; i++)
        (void)cf_append(bus, stream, "t", NULL);
}

/* Waits until so many events are handled; fails after ten seconds. */
static void wait_handled(counted *c, int n)
{
    for (int i = 0; i < 2000 && atomic_load(&c->handled) < n; i++)
        nap(5);
    assert_int_equal(atomic_load(&c->handled), n);
}

static void a_blocked_handler_does_not_delay_another_subscription(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    counted slow = {.block = true};
    counted quick = {0};

    (void)subscribe(bus, "slow", &slow, HOWDAH_CHECKPOINT_SYNC);
    (void)subscribe(bus, "quick", &quick, HOWDAH_CHECKPOINT_SYNC);
    append_n(c->bus, "s", 3);
    cf_ok(howdah_runner_start(bus, 2, &cf_error));
    wait_handled(&quick, 3);
    append_n(c->bus, "s", 3);
    wait_handled(&quick, 6);
    assert_int_equal(atomic_load(&slow.handled), 0);
    atomic_store(&slow.block, false);
    wait_handled(&slow, 6);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    howdah_close(bus);
}

static void a_subscription_is_in_one_thread_at_a_time_and_in_order(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    counted subs[6];
    char id[8];

    memset(subs, 0, sizeof subs);
    for (int i = 0; i < 6; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        (void)subscribe(bus, id, &subs[i],
                        i % 2 ? HOWDAH_CHECKPOINT_BATCHED : HOWDAH_CHECKPOINT_SYNC);
    }
    cf_ok(howdah_runner_start(bus, 4, &cf_error));
    append_n(c->bus, "s", 200);
    for (int i = 0; i < 6; i++) {
        wait_handled(&subs[i], 200);
        assert_int_equal(atomic_load(&subs[i].most), 1);
        assert_int_equal(atomic_load(&subs[i].order), 0);
    }
    cf_ok(howdah_runner_stop(bus, &cf_error));
    howdah_close(bus);
}

/* A page of one or two rows is handled while the serving thread is still on its way round. */
static void short_turns_lose_nothing_and_repeat_nothing(void **state)
{
    enum { SUBS = 8, EVENTS = 1000 };
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    counted subs[SUBS];

    memset(subs, 0, sizeof subs);
    append_n(c->bus, "s", EVENTS / 2);
    for (int i = 0; i < SUBS; i++) {
        howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
        howdah_subscription *sub = NULL;
        char id[8];

        (void)snprintf(id, sizeof id, "p%d", i);
        o.subscriber_id = id;
        o.handler = on_event;
        o.ctx = &subs[i];
        o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
        o.catch_up_batch = 1 + i % 3;
        o.retry_delay_ms = 1;
        o.max_retry_delay_ms = 2;
        atomic_store(&subs[i].fails, i * 20);
        cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    }
    cf_ok(howdah_runner_start(bus, 4, &cf_error));
    append_n(c->bus, "s", EVENTS / 2);
    for (int i = 0; i < SUBS; i++) {
        wait_handled(&subs[i], EVENTS);
        assert_int_equal(atomic_load(&subs[i].order), 0);
    }
    cf_ok(howdah_runner_stop(bus, &cf_error));
    for (int i = 0; i < SUBS; i++)
        assert_int_equal(atomic_load(&subs[i].handled), EVENTS);
    howdah_close(bus);
}

static void failed_events_are_tried_again_in_threads(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    counted sub = {.fails = 5};
    counted tx = {.fails = 3};

    (void)subscribe(bus, "p", &sub, HOWDAH_CHECKPOINT_BATCHED);
    (void)subscribe(bus, "tx", &tx, HOWDAH_CHECKPOINT_TRANSACTIONAL);
    append_n(c->bus, "s", 20);
    cf_ok(howdah_runner_start(bus, 2, &cf_error));
    wait_handled(&sub, 20);
    wait_handled(&tx, 20);
    assert_int_equal(atomic_load(&sub.order), 0);
    assert_int_equal(atomic_load(&tx.order), 0);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    howdah_close(bus);
}

static void stopping_waits_for_the_handler_and_stores_what_it_did(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    counted sub = {.block = true};
    counted again = {0};

    (void)subscribe(bus, "p", &sub, HOWDAH_CHECKPOINT_BATCHED);
    append_n(c->bus, "s", 1);
    cf_ok(howdah_runner_start(bus, 1, &cf_error));
    while (atomic_load(&sub.inside) == 0)
        nap(1);
    atomic_store(&sub.block, false);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    assert_int_equal(atomic_load(&sub.handled), 1);
    howdah_close(bus);
    bus = cf_open(c);
    append_n(c->bus, "s", 1);
    (void)subscribe(bus, "p", &again, HOWDAH_CHECKPOINT_BATCHED);
    cf_ok(howdah_runner_start(bus, 1, &cf_error));
    wait_handled(&again, 1);
    assert_int_equal(atomic_load(&again.last), 2);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    howdah_close(bus);
}

static void a_runner_renews_the_lease_of_a_handler_that_takes_long(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    howdah_bus *standby = cf_open(c);
    counted slow = {.block = true};
    counted other = {0};
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = "p";
    o.handler = on_event;
    o.ctx = &slow;
    o.instance = HOWDAH_INSTANCE_LEASE;
    o.lease_ms = 1200;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    o.ctx = &other;
    cf_ok(howdah_subscribe(standby, &o, &sub, &cf_error));
    append_n(c->bus, "s", 2);
    cf_ok(howdah_runner_start(bus, 1, &cf_error));
    while (atomic_load(&slow.inside) == 0)
        nap(1);
    cf_ok(howdah_run(standby, 3000, &cf_error));
    assert_int_equal(atomic_load(&other.handled), 0);
    atomic_store(&slow.block, false);
    wait_handled(&slow, 2);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    howdah_close(standby);
    howdah_close(bus);
}

/* Nobody has to stop it first: a standby can go on at once. */
static void an_interrupted_runner_gives_up_what_it_owns_and_says_so(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    howdah_bus *standby = cf_open(c);
    counted first = {0};
    counted second = {0};
    howdah_error err = HOWDAH_ERROR_INIT;

    assert_int_equal(howdah_runner_wait(bus, 0, &err), HOWDAH_MISUSE);
    (void)subscribe(bus, "p", &first, HOWDAH_CHECKPOINT_BATCHED);
    append_n(c->bus, "s", 3);
    cf_ok(howdah_runner_start(bus, 2, &cf_error));
    wait_handled(&first, 3);
    assert_int_equal(howdah_runner_wait(bus, 20, &err), HOWDAH_END);
    howdah_interrupt(bus);
    assert_int_equal(howdah_runner_wait(bus, -1, &err), HOWDAH_INTERRUPTED);
    append_n(c->bus, "s", 1);
    assert_int_equal(
        howdah_subscription_wait(subscribe(standby, "p", &second, HOWDAH_CHECKPOINT_SYNC),
                                 CF_PATIENCE_MS, &err),
        HOWDAH_OK);
    assert_int_equal(atomic_load(&second.handled), 1);
    assert_int_equal(atomic_load(&second.last), 4);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    howdah_close(standby);
    howdah_close(bus);
}

static void a_bus_with_a_runner_is_not_to_be_touched(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    counted sub = {0};
    howdah_subscription *handle;
    howdah_error err = HOWDAH_ERROR_INIT;
    bool worked = false;

    assert_int_equal(howdah_runner_start(bus, 1, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_runner_stop(bus, &err), HOWDAH_MISUSE);
    handle = subscribe(bus, "p", &sub, HOWDAH_CHECKPOINT_SYNC);
    assert_int_equal(howdah_runner_start(bus, 0, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "threads");
    cf_ok(howdah_runner_start(bus, 1, &cf_error));
    assert_int_equal(howdah_runner_start(bus, 1, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_service(bus, &worked, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_run(bus, 0, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_subscription_wait(handle, 0, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_unsubscribe(handle, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_subscription_pause(bus, "p", NULL, &err), HOWDAH_MISUSE);
    howdah_close(bus); /* stops the runner */
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_blocked_handler_does_not_delay_another_subscription),
    CF_SUB_TEST(a_subscription_is_in_one_thread_at_a_time_and_in_order),
    CF_SUB_TEST(short_turns_lose_nothing_and_repeat_nothing),
    CF_SUB_TEST(failed_events_are_tried_again_in_threads),
    CF_SUB_TEST(stopping_waits_for_the_handler_and_stores_what_it_did),
    CF_SUB_TEST(a_runner_renews_the_lease_of_a_handler_that_takes_long),
    CF_SUB_TEST(an_interrupted_runner_gives_up_what_it_owns_and_says_so),
    CF_SUB_TEST(a_bus_with_a_runner_is_not_to_be_touched),
};

cf_group cf_runner_tests(void)
{
    return CF_GROUP(tests);
}
