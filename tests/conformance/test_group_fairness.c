/* test_group_fairness.c - members of groups: a hot stream, or one that fails, starves nobody. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group_help.h"

#define HOT "hot"

/* n events, in one transaction: of "hot", or of the streams s0, s1 ... in turn. */
static void append_many(howdah_bus *bus, int n, int hot_of_each_ten, int streams)
{
    howdah_event **events = calloc((size_t)n, sizeof *events);
    int next = 0;

    assert_non_null(events);
    for (int i = 0; i < n; i++) {
        char stream[16] = HOT;

        if (i % 10 >= hot_of_each_ten)
            (void)snprintf(stream, sizeof stream, "s%d", next++ % streams);
        events[i] = cf_event(stream, "t", "{}");
    }
    cf_ok(howdah_append_batch(bus, (const howdah_event *const *)events, (size_t)n, NULL, NULL,
                              &cf_error));
    for (int i = 0; i < n; i++)
        howdah_event_free(events[i]);
    free(events);
}

static bool is_hot(const howdah_batch *batch, size_t i)
{
    return strcmp(howdah_event_stream(howdah_batch_event(batch, i)), HOT) == 0;
}

static void a_member_that_is_slow_with_a_hot_stream_holds_up_no_other_one(void **state)
{
    enum { HOT_N = 900, OTHERS = 100 };
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *slow;
    howdah_member *quick;
    howdah_batch *held;
    size_t seen = 0;

    o.lanes = 1024; /* none of these streams is in the lane of the hot one */
    o.max_events = 10;
    slow = join_with(c->bus, o);
    quick = join_with(c->bus, o);
    append_many(c->bus, HOT_N, 10, 1);
    held = fetch(slow);
    assert_int_equal(howdah_batch_size(held), 10);
    append_many(c->bus, HOT_N + OTHERS, 9, 50);
    while (seen < OTHERS) {
        howdah_batch *batch = await(quick);

        for (size_t i = 0; i < howdah_batch_size(batch); i++)
            assert_false(is_hot(batch, i));
        seen += howdah_batch_size(batch);
        ack(batch);
    }
    expect_nothing(quick);
    ack(held);
    for (seen = 10; seen < 2 * (size_t)HOT_N;) {
        howdah_batch *batch = await(quick);

        seen += howdah_batch_size(batch);
        ack(batch);
    }
    expect_nothing(slow);
}

static void a_stream_that_fails_again_and_again_leaves_its_member_for_others(void **state)
{
    enum { OTHERS = 100 };
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *member;
    int handled = 0;
    int tries = 0;

    o.max_retries = 1000000;
    o.max_events = 1;
    member = join_with(c->bus, o);
    append_many(c->bus, 1, 10, 1);
    for (int i = 0; i < 3; i++) {
        howdah_batch *batch = fetch(member);

        assert_batch(batch, "1");
        assert_int_equal(howdah_batch_attempt(batch), i + 1);
        nack(batch, 1, "no");
        if (i == 0)
            ack(batch); /* of a lot, which is in its lane's way */
        else
            howdah_batch_free(batch);
    }
    append_many(c->bus, OTHERS, 0, 50);
    while (handled < OTHERS) {
        howdah_batch *batch = await(member);

        if (is_hot(batch, 0)) {
            nack(batch, 1, "no");
            assert_true(++tries < 10 * OTHERS);
            howdah_batch_free(batch);
        } else {
            handled++;
            ack(batch);
        }
    }
    assert_true(tries > OTHERS / 10); /* nor do the others keep it waiting */
}

/* Handles what it gets, and counts it by kind. */
static void handle(howdah_batch *batch, int64_t *hot, int64_t *others)
{
    if (!batch)
        return;
    for (size_t i = 0; i < howdah_batch_size(batch); i++)
        if (is_hot(batch, i))
            ++*hot;
        else
            ++*others;
    ack(batch);
}

static void what_comes_after_a_backlog_of_one_stream_does_not_wait_for_its_end(void **state)
{
    enum { BACKLOG = 40000, APPEND = 10000, OTHERS = 100 };
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_member *one;
    howdah_member *other;
    int64_t hot = 0;
    int64_t others = 0;

    o.lanes = 64; /* one or two of the streams may be in the lane of the hot one */
    o.max_events = 100;
    one = join_with(c->bus, o);
    other = join_with(c->bus, o);
    for (int i = 0; i < BACKLOG; i += APPEND)
        append_many(c->bus, APPEND, 10, 1);
    append_many(c->bus, OTHERS, 0, OTHERS);
    while (others < OTHERS * 9 / 10 && hot < BACKLOG) {
        howdah_batch *batch = fetch(one);

        handle(fetch(other), &hot, &others);
        handle(batch, &hot, &others);
    }
    assert_true(others >= OTHERS * 9 / 10);
    assert_true(hot < BACKLOG / 2);
    while (others + hot < OTHERS + BACKLOG)
        handle(await(one), &hot, &others);
    expect_nothing(other);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_member_that_is_slow_with_a_hot_stream_holds_up_no_other_one),
    CF_SUB_TEST(a_stream_that_fails_again_and_again_leaves_its_member_for_others),
    CF_SUB_TEST(what_comes_after_a_backlog_of_one_stream_does_not_wait_for_its_end),
};

cf_group cf_group_fairness_tests(void)
{
    return CF_GROUP(tests);
}
