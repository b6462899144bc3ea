/* test_group_suspects.c - events of groups whose leases ran out, or whose stream waits: what is
   counted, and what they have to wait for. */
#include <unistd.h>

#include "group_help.h"

/* What comes in the end: n events from this one on. */
static howdah_batch *take(howdah_member *member, int64_t first, size_t n)
{
    howdah_batch *batch = NULL;

    cf_ok(howdah_member_fetch(member, CF_PATIENCE_MS, &batch, &cf_error));
    assert_non_null(batch);
    assert_int_equal(howdah_event_global_sequence(howdah_batch_event(batch, 0)), first);
    assert_int_equal(howdah_batch_size(batch), n);
    return batch;
}

static void nack_after(howdah_batch *batch, int64_t sequence, int64_t after_ms)
{
    cf_ok(howdah_batch_nack(batch, sequence, "no", after_ms, &cf_error));
}

static void discard_first(cf *c)
{
    int64_t id = cf_sql_number(c, "SELECT min(id) FROM {dead_letters}");
    int64_t n = 0;

    cf_ok(howdah_dead_letters_discard(c->bus, &id, 1, "gone", &n, &cf_error));
    assert_int_equal(n, 1);
}

static void tries_of_an_event_that_left_its_batch_are_not_those_of_the_next(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.lease_ms = 1;
    o.max_events = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    append_n(c->bus, "b", 1);
    append_n(c->bus, "c", 1);
    batch = take(member, 1, 1);
    nack_after(batch, 1, 3600000); /* and its member dies before it has acked the rest: nothing */
    howdah_batch_free(batch);
    howdah_batch_free(take(member, 2, 1));
    batch = take(member, 2, 1);
    assert_int_equal(howdah_batch_attempt(batch), 2);
    nack_after(batch, 2, 3600000);
    cf_ok(howdah_batch_release(batch, &cf_error));
    howdah_batch_free(batch);
    batch = take(member, 3, 1);
    assert_int_equal(howdah_batch_attempt(batch), 1);
    ack(batch);
}

static void a_suspect_whose_neighbour_failed_has_its_tries(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.lease_ms = 1;
    o.max_retries = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    append_n(c->bus, "b", 1);
    howdah_batch_free(take(member, 1, 2));
    batch = take(member, 1, 1);
    assert_int_equal(howdah_batch_attempt(batch), 2);
    nack(batch, 1, "no");
    howdah_batch_free(batch);
    batch = take(member, 2, 1);
    assert_int_equal(howdah_batch_attempt(batch), 2);
    ack(batch);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters}"), 1);
}

static void a_suspect_of_a_stream_that_is_held_waits_and_is_not_lost(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.lease_ms = 1;
    o.max_retries = 0;
    o.on_fail = HOWDAH_FAIL_HOLD;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 2);
    append_n(c->bus, "b", 1);
    howdah_batch_free(take(member, 1, 3));
    howdah_batch_free(take(member, 1, 1)); /* its only try, and this member dies as well */
    ack(take(member, 3, 1));               /* 2 waits for 1, which is a dead letter */
    (void)usleep(5000);
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters}"), 1);
    discard_first(c);
    batch = take(member, 2, 1);
    ack(batch);
    expect_nothing(member);
}

static void a_stream_that_is_freed_still_waits_for_what_is_in_hand(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.max_retries = 0;
    o.on_fail = HOWDAH_FAIL_HOLD;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 3);
    batch = take(member, 1, 3);
    nack(batch, 2, "no");
    discard_first(c);
    expect_nothing(member); /* 1 is not acked yet */
    ack(batch);
    ack(take(member, 3, 1));
    expect_nothing(member);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(tries_of_an_event_that_left_its_batch_are_not_those_of_the_next),
    CF_SUB_TEST(a_suspect_whose_neighbour_failed_has_its_tries),
    CF_SUB_TEST(a_suspect_of_a_stream_that_is_held_waits_and_is_not_lost),
    CF_SUB_TEST(a_stream_that_is_freed_still_waits_for_what_is_in_hand),
};

cf_group cf_group_suspects_tests(void)
{
    return CF_GROUP(tests);
}
