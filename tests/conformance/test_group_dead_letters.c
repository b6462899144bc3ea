/* test_group_dead_letters.c - events of groups that are dead letters while an earlier one of their
   stream is still to be tried: they come again only when a person wants them to. */
#include "group_help.h"

static howdah_member *join_without_retries(howdah_bus *bus, howdah_on_fail on_fail)
{
    howdah_member_options o = defaults();

    o.max_retries = 0;
    o.on_fail = on_fail;
    return join_with(bus, o);
}

static int64_t dead_letter_of(cf *c, int64_t number)
{
    char sql[100];

    (void)snprintf(sql, sizeof sql, "SELECT id FROM {dead_letters} WHERE global_sequence = %lld",
                   (long long)number);
    return cf_sql_number(c, sql);
}

static void redrive(cf *c, int64_t number)
{
    int64_t id = dead_letter_of(c, number);
    int64_t n = 0;

    cf_ok(howdah_dead_letters_redrive(c->bus, &id, 1, NULL, &n, &cf_error));
    assert_int_equal(n, 1);
}

static void discard(cf *c, int64_t number)
{
    int64_t id = dead_letter_of(c, number);
    int64_t n = 0;

    cf_ok(howdah_dead_letters_discard(c->bus, &id, 1, "gone", &n, &cf_error));
    assert_int_equal(n, 1);
}

static void expect_batch(howdah_member *member, const char *expected)
{
    howdah_batch *batch = fetch(member);

    assert_batch(batch, expected);
    ack(batch);
}

/* The later one has failed before the earlier one, of a batch that has n events of one stream. */
static void fail_two(cf *c, howdah_member *member, int n, int64_t later)
{
    howdah_batch *batch;

    append_n(c->bus, "a", n);
    batch = fetch(member);
    assert_int_equal(howdah_batch_size(batch), n);
    nack(batch, later, "no");
    nack(batch, 1, "no");
    ack(batch);
}

static void a_stream_is_held_again_at_a_dead_letter_before_which_another_was_resolved(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_HOLD);

    fail_two(c, member, 5, 3);
    expect_nothing(member);
    discard(c, 1);
    expect_batch(member, "2");
    expect_nothing(member);
    assert_int_equal(dead_letter_of(c, 3),
                     cf_sql_number(c, "SELECT dead_letter FROM {group_retries} WHERE sequence = 3"
                                      " AND attempts = 1"));
    redrive(c, 3);
    expect_batch(member, "3");
    expect_batch(member, "4 5");
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {group_retries}"), 0);
}

static void a_held_dead_letter_stays_one_when_the_lease_of_an_earlier_event_ends(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;
    int64_t dead = 0;

    o.max_retries = 0;
    o.on_fail = HOWDAH_FAIL_HOLD;
    o.lease_ms = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 3);
    batch = fetch(member);
    assert_batch(batch, "1 2 3");
    nack(batch, 2, "no");
    howdah_batch_free(batch);
    for (int i = 0; dead < 2 && i < 10000; i++) { /* 1 may come again before it is given up */
        howdah_batch_free(fetch(member));
        dead = cf_sql_number(c, "SELECT count(*) FROM {dead_letters}");
    }
    assert_int_equal(dead, 2);
    discard(c, 1);
    expect_nothing(member);
    discard(c, 2);
    batch = fetch(member);
    assert_batch(batch, "3");
    howdah_batch_free(batch);
}

static void another_try_of_a_dead_letter_waits_until_its_stream_comes_to_it(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_HOLD);
    howdah_batch *batch;

    fail_two(c, member, 3, 2);
    redrive(c, 2);
    expect_nothing(member);
    redrive(c, 1);
    batch = fetch(member);
    assert_batch(batch, "1");
    expect_nothing(member);
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2");
    expect_nothing(member);
    nack(batch, 2, "still not");
    howdah_batch_free(batch);
    expect_nothing(member);
    discard(c, 2);
    expect_batch(member, "3");
    expect_nothing(member);
}

static void a_dead_letter_that_was_resolved_does_not_come_with_an_earlier_event(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_HOLD);
    howdah_batch *batch;

    append_n(c->bus, "a", 4);
    batch = fetch(member);
    assert_batch(batch, "1 2 3 4");
    nack(batch, 3, "no");
    discard(c, 3);
    expect_nothing(member);
    nack(batch, 1, "no");
    ack(batch);
    expect_nothing(member);
    discard(c, 1);
    expect_batch(member, "2 4");
    expect_nothing(member);
}

static void a_stream_that_goes_on_passes_over_its_dead_letters(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_OPEN);

    fail_two(c, member, 4, 3);
    expect_batch(member, "2 4");
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE state = 'dead'"),
                     2);
}

static void an_event_that_waited_for_a_dead_letter_can_become_one(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_OPEN);
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    batch = fetch(member);
    nack(batch, 1, "no");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2 3");
    nack(batch, 2, "no");
    howdah_batch_free(batch);
    expect_batch(member, "3");
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE state = 'dead'"),
                     2);
}

static void a_dead_letter_that_is_tried_again_has_one_holder(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_OPEN);
    howdah_batch *again;
    howdah_batch *rest;

    fail_two(c, member, 4, 3);
    rest = fetch(member);
    assert_batch(rest, "2 4");
    redrive(c, 3);
    again = fetch(member);
    assert_batch(again, "3");
    cf_ok(howdah_batch_release(rest, &cf_error));
    howdah_batch_free(rest);
    rest = fetch(member);
    assert_batch(rest, "2 4");
    ack(again);
    cf_ok(howdah_batch_release(rest, &cf_error));
    howdah_batch_free(rest);
    expect_batch(member, "2 4");
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE"
                                      " state = 'redriven' AND global_sequence = 3"),
                     1);
}

static void dead_letters_of_before_a_reset_hold_up_nothing(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_OPEN);
    howdah_batch *batch;

    fail_two(c, member, 4, 3);
    expect_batch(member, "2 4");
    redrive(c, 3);
    expect_batch(member, "3");
    cf_ok(howdah_subscription_reset(c->bus, NAME, 0, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "1 2 3 4");
    nack(batch, 1, "no");
    ack(batch);
    expect_batch(member, "2 3 4");
    expect_nothing(member);
}

static void what_is_not_handled_yet_has_no_dead_letters_in_it(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_HOLD);

    fail_two(c, member, 4, 3);
    assert_int_equal(look(c->bus).contiguous, 1);
    discard(c, 1);
    expect_batch(member, "2");
    assert_int_equal(look(c->bus).contiguous, 3);
}

static void another_try_that_a_person_calls_off_does_not_come(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_OPEN);
    howdah_batch *batch;

    append_n(c->bus, "a", 2);
    batch = fetch(member);
    nack(batch, 1, "no");
    nack(batch, 2, "no");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2");
    nack(batch, 2, "no");
    howdah_batch_free(batch);
    redrive(c, 1);
    redrive(c, 2);
    expect_batch(member, "1");
    discard(c, 2);
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {group_retries}"), 0);
}

static void a_held_try_that_a_person_calls_off_does_not_come(void **state)
{
    cf *c = *state;
    howdah_member *member = join_without_retries(c->bus, HOWDAH_FAIL_HOLD);
    howdah_batch *batch;

    fail_two(c, member, 3, 2);
    redrive(c, 1);
    batch = fetch(member);
    assert_batch(batch, "1");
    discard(c, 1);
    cf_ok(howdah_batch_release(batch, &cf_error));
    howdah_batch_free(batch);
    expect_nothing(member);
    discard(c, 2);
    expect_batch(member, "3");
    expect_nothing(member);
}

/* Lets leases run out until the dead letter is dead; how many they were. */
static int waste(cf *c, howdah_member *member)
{
    int leases = 0;

    for (int i = 0; i < 10000; i++) {
        howdah_batch *batch = fetch(member);

        leases += batch ? 1 : 0;
        howdah_batch_free(batch);
        if (cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE state = 'dead'") == 1)
            return leases;
    }
    fail();
    return 0;
}

static void try_again_in_vain(cf *c, howdah_on_fail on_fail)
{
    howdah_member_options o = defaults();
    howdah_member *member;

    o.max_retries = 2;
    o.lease_ms = 1;
    o.on_fail = on_fail;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    assert_int_equal(waste(c, member), 3);
    expect_nothing(member);
    redrive(c, 1);
    assert_int_equal(waste(c, member), 3);
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT retry_count FROM {dead_letters}"), 6);
    assert_int_equal(cf_sql_number(c, "SELECT redrives FROM {dead_letters}"), 1);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {group_retries}"),
                     on_fail == HOWDAH_FAIL_HOLD ? 1 : 0);
}

static void another_try_that_ends_each_of_its_members_is_not_given_out_for_ever(void **state)
{
    try_again_in_vain(*state, HOWDAH_FAIL_OPEN);
}

static void a_held_try_that_ends_each_of_its_members_is_not_given_out_for_ever(void **state)
{
    try_again_in_vain(*state, HOWDAH_FAIL_HOLD);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_stream_is_held_again_at_a_dead_letter_before_which_another_was_resolved),
    CF_SUB_TEST(a_held_dead_letter_stays_one_when_the_lease_of_an_earlier_event_ends),
    CF_SUB_TEST(another_try_of_a_dead_letter_waits_until_its_stream_comes_to_it),
    CF_SUB_TEST(a_dead_letter_that_was_resolved_does_not_come_with_an_earlier_event),
    CF_SUB_TEST(a_stream_that_goes_on_passes_over_its_dead_letters),
    CF_SUB_TEST(an_event_that_waited_for_a_dead_letter_can_become_one),
    CF_SUB_TEST(a_dead_letter_that_is_tried_again_has_one_holder),
    CF_SUB_TEST(dead_letters_of_before_a_reset_hold_up_nothing),
    CF_SUB_TEST(what_is_not_handled_yet_has_no_dead_letters_in_it),
    CF_SUB_TEST(another_try_that_a_person_calls_off_does_not_come),
    CF_SUB_TEST(a_held_try_that_a_person_calls_off_does_not_come),
    CF_SUB_TEST(another_try_that_ends_each_of_its_members_is_not_given_out_for_ever),
    CF_SUB_TEST(a_held_try_that_ends_each_of_its_members_is_not_given_out_for_ever),
};

cf_group cf_group_dead_letters_tests(void)
{
    return CF_GROUP(tests);
}
