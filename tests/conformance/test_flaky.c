/* test_flaky.c - a store that fails before and after the real commit. */
#include <stdio.h>

#include <string.h>

#include "bus/bus.h"
#include "conformance.h"
#include "flaky.h"

/* A bus whose store fails as planned, over the store under test. */
static howdah_bus *open_flaky(const cf *c)
{
    howdah_bus *bus = cf_open(c);

    cf_ok(hw_flaky_open(bus->store, &bus->store, &cf_error));
    return bus;
}

static void a_failure_before_the_commit_stores_nothing_and_may_be_retried(void **state)
{
    cf *c = *state;
    howdah_bus *bus = open_flaky(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    hw_flaky_plan(bus->store, 1, HW_FLAKY_BEFORE);
    assert_int_equal(howdah_append(bus, event, NULL, &p, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_int_equal(cf_count(c->bus), 0);
    cf_ok(howdah_append(bus, event, NULL, &p, &cf_error));
    assert_int_equal(p.already_stored, 0);
    howdah_event_free(event);
    howdah_close(bus);
}

static void a_failure_after_the_commit_is_unknown_and_a_retry_acks_it(void **state)
{
    cf *c = *state;
    howdah_bus *bus = open_flaky(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_append_options none = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    none.expected_version = HOWDAH_EXPECT_NONE;
    hw_flaky_plan(bus->store, 1, HW_FLAKY_AFTER);
    assert_int_equal(howdah_append(bus, event, &none, &p, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_OUTCOME_UNKNOWN);
    assert_int_equal(cf_count(c->bus), 1);
    cf_ok(howdah_append(bus, event, &none, &p, &cf_error));
    assert_int_equal(p.already_stored, 1);
    assert_int_equal(p.version, 1);
    assert_int_equal(cf_count(c->bus), 1);
    howdah_event_free(event);
    howdah_close(bus);
}

static void an_unknown_that_did_not_happen_is_acked_by_the_same_retry(void **state)
{
    cf *c = *state;
    howdah_bus *bus = open_flaky(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    hw_flaky_plan(bus->store, 1, HW_FLAKY_BEFORE_UNKNOWN);
    assert_int_equal(howdah_append(bus, event, NULL, &p, &err), HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_OUTCOME_UNKNOWN);
    assert_int_equal(cf_count(c->bus), 0);
    cf_ok(howdah_append(bus, event, NULL, &p, &cf_error));
    assert_int_equal(p.already_stored, 0);
    assert_int_equal(cf_count(c->bus), 1);
    howdah_event_free(event);
    howdah_close(bus);
}

/* A script of appends that meets repeated ids and conflicts; returns how many were acknowledged. */
static int script(howdah_bus *bus, howdah_event *const *events, size_t n)
{
    int acknowledged = 0;

    for (size_t i = 0; i < n; i++) {
        howdah_position p = HOWDAH_POSITION_INIT;
        int tries = 0;
        int s;

        do
            s = howdah_append(bus, events[i], NULL, &p, NULL);
        while (s == HOWDAH_UNAVAILABLE && ++tries < 5);
        acknowledged += s == HOWDAH_OK;
        s = howdah_append(bus, events[i], NULL, &p, NULL);
        if (s == HOWDAH_OK)
            assert_int_equal(p.already_stored, 1);
    }
    return acknowledged;
}

static void failing_any_one_operation_loses_and_doubles_nothing(void **state)
{
    enum { EVENTS = 4 };
    static const hw_flaky_mode modes[] = {HW_FLAKY_BEFORE, HW_FLAKY_BEFORE_UNKNOWN, HW_FLAKY_AFTER};
    cf *c = *state;
    int64_t expected = 0;

    for (size_t m = 0; m < 3; m++) {
        for (unsigned nth = 1; nth <= 16; nth++) {
            howdah_bus *bus = open_flaky(c);
            howdah_event *events[EVENTS];

            for (int i = 0; i < EVENTS; i++)
                events[i] = cf_event("s", "t", NULL);
            hw_flaky_plan(bus->store, nth, modes[m]);
            assert_int_equal(script(bus, events, EVENTS), EVENTS);
            expected += EVENTS;
            for (int i = 0; i < EVENTS; i++)
                howdah_event_free(events[i]);
            howdah_close(bus);
        }
    }
    assert_int_equal(cf_count(c->bus), expected);
}

/* ------------------------------------------------------ what many of them cost */

#define MANY 100
#define ROUNDS 20

static int count_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)event;
    (void)delivery;
    ++*(int *)ctx;
    return HOWDAH_HANDLED;
}

static void subscribe_many(howdah_bus *bus, int n, int *heard)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.handler = count_event;
    o.ctx = heard;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.start = HOWDAH_FROM_END;
    for (int i = 0; i < n; i++) {
        char id[32];
        howdah_subscription *sub = NULL;

        (void)snprintf(id, sizeof id, "cost:%d:%d", n, i);
        o.subscriber_id = id;
        cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
        assert_int_equal(howdah_subscription_wait(sub, 60000, &cf_error), HOWDAH_OK);
    }
}

/* Operations on the store while some events come, one by one, to n subscriptions at the head. */
static unsigned cost_of(const cf *c, int n)
{
    howdah_bus *bus = open_flaky(c);
    int heard = 0;
    unsigned before;
    unsigned cost;

    subscribe_many(bus, n, &heard);
    before = hw_flaky_count(bus->store);
    for (int round = 1; round <= ROUNDS; round++) {
        (void)cf_append(c->bus, "cost", "t", NULL);
        for (int i = 0; i < 1000 && heard < round * n; i++)
            cf_ok(howdah_service(bus, NULL, &cf_error));
        assert_int_equal(heard, round * n);
    }
    cost = hw_flaky_count(bus->store) - before;
    howdah_close(bus);
    return cost;
}

static void many_subscriptions_at_the_head_cost_less_than_two(void **state)
{
    cf *c = *state;
    unsigned one;
    unsigned many;

    one = cost_of(c, 1);
    many = cost_of(c, MANY);
    if (many >= 2 * one)
        fail_msg("%u operations for one, %u for %d", one, many, MANY);
}

cf_group cf_flaky_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(a_failure_before_the_commit_stores_nothing_and_may_be_retried),
        CF_TEST(a_failure_after_the_commit_is_unknown_and_a_retry_acks_it),
        CF_TEST(an_unknown_that_did_not_happen_is_acked_by_the_same_retry),
        CF_TEST(failing_any_one_operation_loses_and_doubles_nothing),
        CF_SUB_TEST(many_subscriptions_at_the_head_cost_less_than_two),
    };
    return CF_GROUP(tests);
}
