/* test_group_admin.c - groups in the hands of an operator, and how their members wait. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "group_help.h"

static int count_members(void *ctx, const howdah_member_info *info)
{
    char *text = ctx;

    (void)snprintf(text + strlen(text), 200 - strlen(text), "%s:%lld/%lld ", info->member,
                   (long long)info->batches, (long long)info->events);
    return 0;
}

static void its_place_and_its_lag_are_those_of_the_group(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    assert_int_equal(look(c->bus).lag, 3);
    batch = fetch(member);
    assert_int_equal(look(c->bus).lag, 3);
    cf_ok(howdah_batch_ack_upto(batch, 1, &cf_error));
    assert_int_equal(look(c->bus).lag, 2);
    assert_int_equal(look(c->bus).high, 3);
    assert_int_equal(look(c->bus).contiguous, 1);
    ack(batch);
    assert_int_equal(look(c->bus).lag, 0);
    assert_int_equal(look(c->bus).contiguous, 3);
}

static void its_oldest_event_that_is_left_has_an_age(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;
    int64_t began_ms;
    int64_t age_ms;

    assert_int_equal(look(c->bus).lag_age_ms, HOWDAH_ABSENT);
    append_n(c->bus, "a", 1);
    while (look(c->bus).lag_age_ms < 300)
        (void)usleep(10000);
    began_ms = hw_clock_mono_ms();
    append_n(c->bus, "a", 2);
    assert_true(look(c->bus).lag_age_ms >= 300); /* the oldest one's, not the newest one's */
    batch = fetch(member);
    assert_true(look(c->bus).lag_age_ms >= 300);
    cf_ok(howdah_batch_ack_upto(batch, 1, &cf_error));
    age_ms = look(c->bus).lag_age_ms;
    assert_in_range(age_ms, 0, hw_clock_mono_ms() - began_ms + 2);
    ack(batch);
    assert_int_equal(look(c->bus).lag_age_ms, HOWDAH_ABSENT);
}

static void members_with_batches_are_listed(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_batch *batch;
    char text[200] = "";

    o.member = "ann";
    (void)join_with(c->bus, o);
    append_n(c->bus, "a", 3);
    o.member = "bob";
    batch = fetch(join_with(c->bus, o));
    cf_ok(howdah_members_walk(c->bus, NAME, count_members, text, &cf_error));
    assert_string_equal(text, "bob:1/3 ");
    ack(batch);
    text[0] = '\0';
    cf_ok(howdah_members_walk(c->bus, NAME, count_members, text, &cf_error));
    assert_string_equal(text, "");
    assert_int_equal(howdah_members_walk(c->bus, "nobody", count_members, text, &cf_error),
                     HOWDAH_NOT_FOUND);
}

static void paused_it_gives_nothing_out_and_acks_count(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.max_events = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 2);
    batch = fetch(member);
    cf_ok(howdah_subscription_pause(c->bus, NAME, "lunch", &cf_error));
    ack(batch);
    expect_nothing(member);
    cf_ok(howdah_subscription_resume(c->bus, NAME, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "2");
    ack(batch);
}

static void a_reset_takes_batches_away_and_starts_elsewhere(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *old;
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    old = fetch(member);
    cf_ok(howdah_subscription_reset(c->bus, NAME, 1, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "2 3");
    assert_int_equal(howdah_batch_ack(old, &cf_error), HOWDAH_LOST);
    howdah_batch_free(old);
    ack(batch);
    cf_ok(howdah_subscription_reset(c->bus, NAME, HOWDAH_FROM_START, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "1 2 3");
    ack(batch);
    cf_ok(howdah_subscription_reset(c->bus, NAME, HOWDAH_FROM_END, &cf_error));
    expect_nothing(member);
}

static void a_reset_counts_before_a_member_has_seen_it(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    char text[200] = "";
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    ack(fetch(member));
    cf_ok(howdah_subscription_reset(c->bus, NAME, 1, &cf_error));
    assert_int_equal(look(c->bus).high, 1);
    assert_int_equal(look(c->bus).lag, 2);
    cf_ok(howdah_members_walk(c->bus, NAME, count_members, text, &cf_error)); /* it is shared */
    batch = fetch(member);
    assert_batch(batch, "2 3");
    ack(batch);
    assert_int_equal(look(c->bus).lag, 0);
}

static void a_reset_takes_batches_away_before_a_member_has_seen_it(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    char text[200] = "";
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    batch = fetch(member);
    assert_int_equal(howdah_subscription_unshare(c->bus, NAME, &cf_error), HOWDAH_CONFLICT);
    cf_ok(howdah_subscription_reset(c->bus, NAME, 1, &cf_error));
    cf_ok(howdah_members_walk(c->bus, NAME, count_members, text, &cf_error));
    assert_string_equal(text, "");
    cf_ok(howdah_subscription_unshare(c->bus, NAME, &cf_error));
    assert_int_equal(look(c->bus).high, 1);
    assert_int_equal(look(c->bus).lag, 2);
    howdah_batch_free(batch);
    batch = fetch(join_with(c->bus, defaults()));
    assert_batch(batch, "2 3");
    cf_ok(howdah_subscription_reset(c->bus, NAME, HOWDAH_FROM_START, &cf_error));
    cf_ok(howdah_subscription_remove(c->bus, NAME, &cf_error));
    assert_int_equal(howdah_subscriptions_walk(c->bus, NAME, keep_info, NULL, &cf_error),
                     HOWDAH_NOT_FOUND);
    howdah_batch_free(batch);
}

static void a_group_cannot_start_where_the_log_has_not_been(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member = NULL;

    append_n(c->bus, "a", 2);
    o.subscriber_id = NAME;
    o.start = 3;
    assert_int_equal(howdah_member_new(c->bus, &o, &member, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "start");
    o.start = 2;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    ack(fetch(member));
}

static int write_number(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    char *text = ctx;

    (void)delivery;
    (void)snprintf(text + strlen(text), 200 - strlen(text), "%lld ",
                   (long long)howdah_event_global_sequence(event));
    return HOWDAH_HANDLED;
}

static howdah_subscribe_options alone(char *text)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = NAME;
    o.handler = write_number;
    o.ctx = text;
    return o;
}

static void a_subscription_becomes_shared_where_it_is_and_back(void **state)
{
    cf *c = *state;
    char text[200] = "";
    howdah_subscribe_options o = alone(text);
    howdah_subscription *sub = NULL;
    howdah_batch *batch;
    howdah_member_options m = defaults();
    howdah_member *member = NULL;

    append_n(c->bus, "a", 2);
    cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
    cf_ok(howdah_subscription_wait(sub, CF_PATIENCE_MS, &cf_error));
    m.subscriber_id = NAME;
    assert_int_equal(howdah_member_new(c->bus, &m, &member, &cf_error), HOWDAH_CONFLICT);
    cf_ok(howdah_unsubscribe(sub, &cf_error));
    append_n(c->bus, "a", 3);
    m.max_events = 1;
    member = join_with(c->bus, m);
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &cf_error), HOWDAH_CONFLICT);
    batch = fetch(member);
    assert_batch(batch, "3");
    assert_int_equal(howdah_subscription_unshare(c->bus, NAME, &cf_error), HOWDAH_CONFLICT);
    ack(batch);
    cf_ok(howdah_subscription_unshare(c->bus, NAME, &cf_error));
    howdah_member_free(member);
    cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
    cf_ok(howdah_subscription_wait(sub, CF_PATIENCE_MS, &cf_error));
    assert_string_equal(text, "1 2 4 5 ");
    cf_ok(howdah_unsubscribe(sub, &cf_error));
}

static void it_is_removed_when_nobody_has_a_batch(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch = NULL;

    append_n(c->bus, "a", 1);
    batch = fetch(member);
    assert_int_equal(howdah_subscription_remove(c->bus, NAME, &cf_error), HOWDAH_CONFLICT);
    ack(batch);
    cf_ok(howdah_subscription_remove(c->bus, NAME, &cf_error));
    assert_int_equal(howdah_member_fetch(member, 0, &batch, &cf_error), HOWDAH_NOT_FOUND);
    batch = fetch(join(c->bus)); /* a new one of that name begins anew */
    assert_batch(batch, "1");
    ack(batch);
}

static void who_joins_with_another_filter_is_told_so(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member = NULL;

    (void)join(c->bus);
    o.subscriber_id = NAME;
    o.pattern = "order.*";
    assert_int_equal(howdah_member_new(c->bus, &o, &member, &cf_error), HOWDAH_CONFLICT);
    o.pattern = NULL;
    o.lanes = 3;
    assert_int_equal(howdah_member_new(c->bus, &o, &member, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "lanes");
    o.lanes = 16;
    o.max_events = HOWDAH_BATCH_MAX + 1;
    assert_int_equal(howdah_member_new(c->bus, &o, &member, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "max_events");
    o.max_events = 1;
    o.subscriber_id = "";
    assert_int_equal(howdah_member_new(c->bus, &o, &member, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "subscriber_id");
}

static void a_member_that_waits_is_woken_by_an_append(void **state)
{
    cf *c = *state;
    howdah_bus *other = cf_open_admin(c);
    howdah_member *member = join(c->bus);
    howdah_batch *batch = NULL;

    assert_int_equal(howdah_member_fetch(member, 1, &batch, &cf_error), HOWDAH_END);
    (void)cf_append(other, "a", "t", "{}");
    batch = await(member);
    assert_batch(batch, "1");
    ack(batch);
    howdah_interrupt(c->bus);
    assert_int_equal(howdah_member_fetch(member, -1, &batch, &cf_error), HOWDAH_INTERRUPTED);
    howdah_interrupt_clear(c->bus);
    howdah_close(other);
}

static void a_lane_that_waits_for_long_keeps_its_order(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *held;
    howdah_batch *batch;
    int64_t next = 2;

    o.max_events = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    held = fetch(member);
    assert_batch(held, "1");
    for (int round = 0; round < 12; round++) { /* each is dealt, and cannot be taken */
        append_n(c->bus, "a", 100);
        expect_nothing(member);
    }
    ack(held);
    o.max_events = 50;
    member = join_with(c->bus, o);
    while ((batch = fetch(member))) {
        for (size_t i = 0; i < howdah_batch_size(batch); i++)
            assert_int_equal(howdah_event_global_sequence(howdah_batch_event(batch, i)), next++);
        ack(batch);
    }
    assert_int_equal(next, 1202);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(its_place_and_its_lag_are_those_of_the_group),
    CF_SUB_TEST(its_oldest_event_that_is_left_has_an_age),
    CF_SUB_TEST(members_with_batches_are_listed),
    CF_SUB_TEST(paused_it_gives_nothing_out_and_acks_count),
    CF_SUB_TEST(a_reset_takes_batches_away_and_starts_elsewhere),
    CF_SUB_TEST(a_reset_counts_before_a_member_has_seen_it),
    CF_SUB_TEST(a_reset_takes_batches_away_before_a_member_has_seen_it),
    CF_SUB_TEST(a_group_cannot_start_where_the_log_has_not_been),
    CF_SUB_TEST(a_subscription_becomes_shared_where_it_is_and_back),
    CF_SUB_TEST(it_is_removed_when_nobody_has_a_batch),
    CF_SUB_TEST(who_joins_with_another_filter_is_told_so),
    CF_SUB_TEST(a_member_that_waits_is_woken_by_an_append),
    CF_SUB_TEST(a_lane_that_waits_for_long_keeps_its_order),
};

cf_group cf_group_admin_tests(void)
{
    return CF_GROUP(tests);
}
