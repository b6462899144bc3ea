/* test_groups.c - members of groups: what they get, and what becomes of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "group_help.h"

/* ---- taking */

static void members_take_what_is_there_and_ack_it(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    expect_nothing(member);
    append_n(c->bus, "a", 3);
    batch = fetch(member);
    assert_batch(batch, "1 2 3");
    assert_int_equal(howdah_batch_attempt(batch), 1);
    assert_string_equal(howdah_event_stream(howdah_batch_event(batch, 2)), "a");
    assert_null(howdah_batch_event(batch, 3));
    expect_nothing(member);
    ack(batch);
    expect_nothing(member);
    append_n(c->bus, "b", 1);
    batch = fetch(member);
    assert_batch(batch, "4");
    ack(batch);
}

static void an_ack_and_the_next_fetch_are_one_call(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;
    howdah_batch *next = NULL;

    o.max_events = 2;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 4);
    batch = fetch(member);
    cf_ok(howdah_member_exchange(member, batch, 0, &next, &cf_error));
    assert_batch(next, "3 4");
    assert_int_equal(look(c->bus).lag, 2);
    batch = NULL;
    assert_int_equal(howdah_member_exchange(member, next, 0, &batch, &cf_error), HOWDAH_END);
    assert_null(batch);
    assert_int_equal(look(c->bus).lag, 0);
    append_n(c->bus, "a", 2);
    batch = fetch(member);
    cf_ok(howdah_subscription_reset(c->bus, NAME, 4, &cf_error));
    assert_int_equal(howdah_member_exchange(member, batch, 0, &next, &cf_error), HOWDAH_LOST);
    howdah_batch_free(batch);
    batch = fetch(member);
    assert_batch(batch, "5 6");
    ack(batch);
}

static void a_batch_has_as_many_events_as_its_member_wants(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.max_events = 2;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 5);
    batch = fetch(member);
    assert_batch(batch, "1 2");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "3 4");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "5");
    ack(batch);
}

static void one_member_has_a_lane_and_the_others_go_on(void **state)
{
    cf *c = *state;
    howdah_bus *other = cf_open(c);
    howdah_member_options o = defaults();
    howdah_member *first;
    howdah_member *second;
    howdah_batch *mine;
    howdah_batch *theirs;

    o.lanes = 1024; /* so that two streams are in two of them */
    first = join_with(c->bus, o);
    second = join_with(other, o);
    append_n(c->bus, "a", 2);
    append_n(c->bus, "b", 2);
    mine = fetch(first);
    theirs = fetch(second);
    assert_int_equal(howdah_batch_size(mine), 2);
    assert_int_equal(howdah_batch_size(theirs), 2);
    assert_string_not_equal(howdah_event_stream(howdah_batch_event(mine, 0)),
                            howdah_event_stream(howdah_batch_event(theirs, 0)));
    append_n(c->bus, "a", 1); /* behind a batch that is out */
    append_n(c->bus, "b", 1);
    expect_nothing(first);
    expect_nothing(second);
    ack(mine);
    mine = fetch(second);
    assert_int_equal(howdah_batch_size(mine), 1);
    assert_string_not_equal(howdah_event_stream(howdah_batch_event(mine, 0)),
                            howdah_event_stream(howdah_batch_event(theirs, 0)));
    ack(mine);
    ack(theirs);
    theirs = fetch(first);
    assert_int_equal(howdah_batch_size(theirs), 1);
    ack(theirs);
    howdah_close(other);
}

static void without_an_order_events_of_one_stream_go_to_several(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batches[3];

    o.key = HOWDAH_ORDER_NONE;
    o.max_events = 300; /* a lot is not longer than its batches */
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 300);
    batches[0] = fetch(member);
    assert_int_equal(howdah_batch_size(batches[0]), 270);
    batches[1] = fetch(member);
    assert_int_equal(howdah_batch_size(batches[1]), 30);
    append_n(c->bus, "a", 1);
    batches[2] = fetch(member);
    assert_batch(batches[2], "301");
    for (int i = 2; i >= 0; i--)
        ack(batches[i]);
    expect_nothing(member);
}

static void only_what_matches_comes(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_batch *batch;
    howdah_member *member;

    (void)cf_append(c->bus, "a", "order.created", "{}");
    (void)cf_append(c->bus, "a", "order.line.added", "{}");
    (void)cf_append(c->bus, "b", "order.created", "{}");
    (void)cf_append(c->bus, "b", "mail.sent", "{}");
    o.pattern = "order.*";
    batch = fetch(member = join_with(c->bus, o));
    assert_batch(batch, "1 3");
    ack(batch);
    expect_nothing(member);
    o.subscriber_id = "exact";
    o.pattern = "mail.sent";
    batch = fetch(join_with(c->bus, o));
    assert_batch(batch, "4");
    ack(batch);
    o.subscriber_id = "stream";
    o.pattern = NULL;
    o.stream = "b";
    batch = fetch(join_with(c->bus, o));
    assert_batch(batch, "3 4");
    ack(batch);
    o.subscriber_id = "end";
    o.stream = NULL;
    o.start = HOWDAH_FROM_END;
    member = join_with(c->bus, o);
    expect_nothing(member);
    append_n(c->bus, "a", 1);
    batch = fetch(member);
    assert_batch(batch, "5");
    ack(batch);
}

static void a_batch_of_large_events_ends_before_it_is_too_large(void **state)
{
    enum { EVENTS = 12, BYTES = 1000000 };
    cf *c = *state;
    howdah_member *member = join(c->bus);
    char *json = malloc(BYTES + 3);
    int64_t seen = 0;
    int batches = 0;

    memset(json, 'x', BYTES + 2);
    json[0] = json[BYTES + 1] = '"';
    json[BYTES + 2] = '\0';
    for (int i = 0; i < EVENTS; i++)
        (void)cf_append(c->bus, "a", "t", json);
    for (howdah_batch *batch; (batch = fetch(member)); batches++) {
        for (size_t i = 0; i < howdah_batch_size(batch); i++) {
            const howdah_event *event = howdah_batch_event(batch, i);
            size_t len = 0;

            assert_int_equal(howdah_event_global_sequence(event), ++seen);
            assert_non_null(howdah_event_data(event, &len));
            assert_int_equal(len, BYTES + 2);
        }
        ack(batch);
    }
    assert_int_equal(seen, EVENTS);
    assert_true(batches > 1);
    free(json);
}

/* ---- leases */

static void a_stale_token_changes_nothing_and_says_so(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *old;
    howdah_batch *batch;

    o.lease_ms = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    old = fetch(member);
    batch = await(member); /* the lease has ended */
    assert_batch(batch, "1");
    assert_int_equal(howdah_batch_attempt(batch), 2);
    assert_int_equal(howdah_batch_ack(old, &cf_error), HOWDAH_LOST);
    assert_int_equal(howdah_batch_nack(old, 1, "x", -1, &cf_error), HOWDAH_LOST);
    assert_int_equal(howdah_batch_extend(old, 0, &cf_error), HOWDAH_LOST);
    assert_int_equal(howdah_batch_release(old, &cf_error), HOWDAH_LOST);
    howdah_batch_free(old);
    ack(batch);
    assert_null(fetch(member));
}

static void a_lease_that_is_extended_lasts(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.lease_ms = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 1);
    batch = fetch(member);
    cf_ok(howdah_batch_extend(batch, 3600000, &cf_error));
    usleep(20000);
    expect_nothing(member);
    ack(batch);
}

static void what_is_given_back_comes_again_and_the_try_does_not_count(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    batch = fetch(member);
    cf_ok(howdah_batch_ack_upto(batch, 1, &cf_error));
    cf_ok(howdah_batch_release(batch, &cf_error));
    assert_int_equal(howdah_batch_ack(batch, &cf_error), HOWDAH_LOST);
    howdah_batch_free(batch);
    batch = fetch(member);
    assert_batch(batch, "2 3");
    assert_int_equal(howdah_batch_attempt(batch), 1);
    ack(batch);
}

static void poison_the_second_of_three(cf *c, int max_retries, int tries)
{
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;
    char seen[200] = "";

    o.lease_ms = 1;
    o.max_retries = max_retries;
    member = join_with(c->bus, o);
    for (int i = 0; i < 3; i++) {
        char stream[] = {(char)('a' + i), '\0'};

        append_n(c->bus, stream, 1);
    }
    batch = fetch(member); /* all three, and its member dies */
    assert_batch(batch, "1 2 3");
    howdah_batch_free(batch);
    for (;;) { /* one by one from now on; number 2 kills each that has it */
        cf_ok(howdah_member_fetch(member, 1000, &batch, &cf_error));
        if (!batch)
            break;
        (void)snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%s ", numbers(batch));
        if (strcmp(numbers(batch), "2") == 0)
            howdah_batch_free(batch);
        else
            ack(batch);
        batch = NULL;
    }
    assert_string_equal(seen, "1 2 3 ");
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters}"), 1);
    assert_int_equal(cf_sql_number(c, "SELECT global_sequence FROM {dead_letters}"), 2);
    assert_int_equal(cf_sql_number(c, "SELECT retry_count FROM {dead_letters}"), tries);
}

static void a_poison_event_ends_as_a_dead_letter_and_costs_no_neighbour(void **state)
{
    poison_the_second_of_three(*state, 1, 2);
}

static void a_poison_event_costs_no_neighbour_where_nothing_is_retried(void **state)
{
    poison_the_second_of_three(*state, 0, 1);
}

/* ---- failing */

static void a_failed_event_holds_up_its_stream_only(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    batch = fetch(member);
    assert_batch(batch, "1 2 3 4");
    cf_ok(howdah_batch_nack(batch, 1, "no", 300, &cf_error));
    ack(batch);
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    batch = fetch(member);
    assert_batch(batch, "6"); /* 5 waits, as 3 does */
    ack(batch);
    expect_nothing(member);
    batch = await(member);
    assert_batch(batch, "1");
    assert_int_equal(howdah_batch_attempt(batch), 2);
    nack(batch, 1, "no");
    howdah_batch_free(batch);
    batch = fetch(member);
    assert_batch(batch, "1");
    assert_int_equal(howdah_batch_attempt(batch), 3);
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "3 5");
    assert_int_equal(howdah_batch_attempt(batch), 1);
    ack(batch);
    expect_nothing(member);
}

static void what_has_failed_leaves_its_batch_also_when_the_rest_is_given_back(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.max_retries = 0;
    member = join_with(c->bus, o);
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    batch = fetch(member);
    nack(batch, 1, "no");        /* a dead letter at once; 3 waits for its turn */
    nack(batch, 3, "not asked"); /* it has left the batch: nothing happens */
    cf_ok(howdah_batch_release(batch, &cf_error));
    howdah_batch_free(batch);
    batch = fetch(member);
    assert_batch(batch, "3");
    assert_int_equal(howdah_batch_attempt(batch), 1);
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2 4");
    assert_int_equal(howdah_batch_attempt(batch), 1);
    nack(batch, 2, "no");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "4");
    ack(batch);
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters}"), 2);
    assert_int_equal(look(c->bus).lag, 0);
}

static void what_waited_does_not_come_again_from_the_lot_that_it_was_in(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;
    howdah_batch *dead;

    o.lease_ms = 2000;
    member = join_with(c->bus, o);
    (void)cf_append(c->bus, "a", "t", "{}");
    batch = fetch(member);
    cf_ok(howdah_batch_nack(batch, 1, "no", 300, &cf_error));
    ack(batch);
    (void)cf_append(c->bus, "b", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    dead = fetch(member); /* and its member dies; 3 waits for 1 */
    assert_batch(dead, "2");
    batch = await(member);
    assert_batch(batch, "1");
    ack(batch);
    batch = await(member);
    assert_batch(batch, "3");
    ack(batch);
    batch = await(member);
    assert_batch(batch, "2");
    assert_int_equal(howdah_batch_attempt(batch), 2);
    ack(batch);
    expect_nothing(member);
    howdah_batch_free(dead);
}

static void what_came_before_a_failed_event_is_not_lost_when_its_member_dies(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.lease_ms = 2000;
    member = join_with(c->bus, o);
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "a", "t", "{}");
    batch = fetch(member);
    assert_batch(batch, "1 2 3 4");
    nack(batch, 3, "no");
    expect_nothing(member); /* 3 is due, but 1 is not acked yet */
    howdah_batch_free(batch);
    batch = await(member);
    assert_batch(batch, "1");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "3");
    assert_int_equal(howdah_batch_attempt(batch), 2);
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "4");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2");
    ack(batch);
    expect_nothing(member);
}

static void a_batch_is_over_when_its_last_event_that_has_not_failed_is_acked(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    (void)cf_append(c->bus, "a", "t", "{}");
    (void)cf_append(c->bus, "b", "t", "{}");
    batch = fetch(member);
    cf_ok(howdah_batch_nack(batch, 2, "no", 3600000, &cf_error));
    cf_ok(howdah_batch_ack_upto(batch, 1, &cf_error));
    howdah_batch_free(batch);
    (void)cf_append(c->bus, "a", "t", "{}");
    batch = fetch(member); /* its lane is free */
    assert_batch(batch, "3");
    ack(batch);
    expect_nothing(member);
}

static void of_two_that_fail_the_earlier_one_comes_first(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    append_n(c->bus, "a", 3);
    batch = fetch(member);
    nack(batch, 3, "no");
    nack(batch, 2, "neither");
    nack(batch, 3, "no");
    expect_nothing(member); /* 1 is not acked yet */
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2");
    assert_int_equal(howdah_batch_attempt(batch), 2);
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "3");
    ack(batch);
    expect_nothing(member);
}

static void after_its_last_try_it_is_a_dead_letter_and_the_stream_goes_on(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.max_retries = 1;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 2);
    batch = fetch(member);
    nack(batch, 1, "one");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "1");
    nack(batch, 1, "two");
    howdah_batch_free(batch);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE"
                                      " global_sequence = 1 AND retry_count = 2 AND"
                                      " error_message = 'two' AND state = 'dead'"),
                     1);
    batch = fetch(member);
    assert_batch(batch, "2");
    ack(batch);
    expect_nothing(member);
}

static void on_fail_hold_keeps_the_stream_until_a_person_has_decided(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;
    int64_t n = 0;

    o.max_retries = 0;
    o.on_fail = HOWDAH_FAIL_HOLD;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 2);
    append_n(c->bus, "b", 1);
    batch = fetch(member);
    nack(batch, 1, "no");
    ack(batch);
    expect_nothing(member);
    cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, NAME, &n, &cf_error));
    assert_int_equal(n, 1);
    batch = fetch(member);
    assert_batch(batch, "1");
    nack(batch, 1, "still not");
    howdah_batch_free(batch);
    expect_nothing(member);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE state = 'dead' AND"
                                      " redrives = 1 AND retry_count = 2"),
                     1);
    cf_ok(howdah_dead_letters_discard(c->bus, &(int64_t){1}, 1, "gone", &n, &cf_error));
    assert_int_equal(n, 1);
    batch = fetch(member);
    assert_batch(batch, "2");
    ack(batch);
    expect_nothing(member);
}

static void a_dead_letter_that_is_redriven_comes_alone_and_is_resolved(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;
    int64_t n = 0;

    o.max_retries = 0;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 2);
    batch = fetch(member);
    nack(batch, 1, "no");
    ack(batch);
    batch = fetch(member);
    assert_batch(batch, "2");
    ack(batch);
    cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, NAME, &n, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "1");
    ack(batch);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {dead_letters} WHERE"
                                      " state = 'redriven' AND resolved_at IS NOT NULL"),
                     1);
    expect_nothing(member);
}

static void on_fail_closed_halts_until_it_is_resumed(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    howdah_batch *batch;

    o.max_retries = 0;
    o.on_fail = HOWDAH_FAIL_CLOSED;
    member = join_with(c->bus, o);
    append_n(c->bus, "a", 2);
    batch = fetch(member);
    nack(batch, 1, "no");
    ack(batch);
    expect_nothing(member);
    cf_ok(howdah_subscription_resume(c->bus, NAME, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "1 2");
    ack(batch);
    expect_nothing(member);
}

static void what_is_not_in_the_batch_cannot_fail(void **state)
{
    cf *c = *state;
    howdah_member *member = join(c->bus);
    howdah_batch *batch;

    append_n(c->bus, "a", 1);
    batch = fetch(member);
    append_n(c->bus, "a", 1);
    assert_int_equal(howdah_batch_nack(batch, 2, "x", -1, &cf_error), HOWDAH_INVALID);
    assert_int_equal(howdah_batch_nack(batch, 1, "x", -2, &cf_error), HOWDAH_INVALID);
    ack(batch);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(members_take_what_is_there_and_ack_it),
    CF_SUB_TEST(an_ack_and_the_next_fetch_are_one_call),
    CF_SUB_TEST(a_batch_has_as_many_events_as_its_member_wants),
    CF_SUB_TEST(one_member_has_a_lane_and_the_others_go_on),
    CF_SUB_TEST(without_an_order_events_of_one_stream_go_to_several),
    CF_SUB_TEST(only_what_matches_comes),
    CF_SUB_TEST(a_batch_of_large_events_ends_before_it_is_too_large),
    CF_SUB_TEST(a_stale_token_changes_nothing_and_says_so),
    CF_SUB_TEST(a_lease_that_is_extended_lasts),
    CF_SUB_TEST(what_is_given_back_comes_again_and_the_try_does_not_count),
    CF_SUB_TEST(a_poison_event_ends_as_a_dead_letter_and_costs_no_neighbour),
    CF_SUB_TEST(a_poison_event_costs_no_neighbour_where_nothing_is_retried),
    CF_SUB_TEST(a_failed_event_holds_up_its_stream_only),
    CF_SUB_TEST(what_has_failed_leaves_its_batch_also_when_the_rest_is_given_back),
    CF_SUB_TEST(what_waited_does_not_come_again_from_the_lot_that_it_was_in),
    CF_SUB_TEST(what_came_before_a_failed_event_is_not_lost_when_its_member_dies),
    CF_SUB_TEST(a_batch_is_over_when_its_last_event_that_has_not_failed_is_acked),
    CF_SUB_TEST(of_two_that_fail_the_earlier_one_comes_first),
    CF_SUB_TEST(after_its_last_try_it_is_a_dead_letter_and_the_stream_goes_on),
    CF_SUB_TEST(on_fail_hold_keeps_the_stream_until_a_person_has_decided),
    CF_SUB_TEST(a_dead_letter_that_is_redriven_comes_alone_and_is_resolved),
    CF_SUB_TEST(on_fail_closed_halts_until_it_is_resumed),
    CF_SUB_TEST(what_is_not_in_the_batch_cannot_fail),
};

cf_group cf_groups_tests(void)
{
    return CF_GROUP(tests);
}
