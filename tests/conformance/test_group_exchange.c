/* test_group_exchange.c - batches that follow each other, each acked with the call that takes the
   next one.  A store may have read ahead: what it hands out has to be what was leased. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "group_help.h"

/* NULL: there is nothing further now. */
static howdah_batch *exchange(howdah_member *member, howdah_batch *batch)
{
    howdah_batch *next = NULL;
    int s = howdah_member_exchange(member, batch, 0, &next, &cf_error);

    cf_ok(s);
    assert_true((s == HOWDAH_OK) == (next != NULL));
    return next;
}

static howdah_member *join_small(howdah_bus *bus, int64_t max_events)
{
    howdah_member_options o = defaults();

    o.max_events = max_events;
    return join_with(bus, o);
}

static void small_batches_that_follow_each_other_have_every_event_once(void **state)
{
    cf *c = *state;
    howdah_member *member = join_small(c->bus, 3);
    int64_t seen = 0;
    int batches = 0;

    append_n(c->bus, "a", 20);
    append_n(c->bus, "b", 20);
    for (howdah_batch *batch = fetch(member); batch; batch = exchange(member, batch)) {
        for (size_t i = 0; i < howdah_batch_size(batch); i++)
            assert_int_equal(howdah_event_global_sequence(howdah_batch_event(batch, i)), ++seen);
        assert_int_equal(howdah_batch_attempt(batch), 1);
        batches++;
    }
    assert_int_equal(seen, 40);
    assert_int_equal(batches, 14);
    assert_int_equal(look(c->bus).lag, 0);
}

static void what_waits_for_a_failed_event_does_not_follow(void **state)
{
    cf *c = *state;
    howdah_member *member = join_small(c->bus, 3);
    howdah_batch *batch;

    append_n(c->bus, "a", 8);
    append_n(c->bus, "b", 1);
    batch = exchange(member, fetch(member));
    assert_batch(batch, "4 5 6");
    cf_ok(howdah_batch_nack(batch, 5, "no", 3600000, &cf_error));
    batch = exchange(member, batch);
    assert_batch(batch, "9"); /* 6, 7 and 8 wait for 5 */
    assert_null(exchange(member, batch));
    assert_int_equal(look(c->bus).lag, 4);
}

static void a_group_that_was_put_back_does_not_go_on_where_it_was(void **state)
{
    cf *c = *state;
    howdah_member *member = join_small(c->bus, 2);
    howdah_batch *batch;
    howdah_batch *next = NULL;

    append_n(c->bus, "a", 8);
    batch = exchange(member, fetch(member));
    assert_batch(batch, "3 4");
    cf_ok(howdah_subscription_reset(c->bus, NAME, 6, &cf_error));
    assert_int_equal(howdah_member_exchange(member, batch, 0, &next, &cf_error), HOWDAH_LOST);
    howdah_batch_free(batch);
    batch = fetch(member);
    assert_batch(batch, "7 8");
    assert_null(exchange(member, batch));
}

/* Interrupts the other bus when all is acked. */
typedef struct interrupter {
    howdah_bus *own;
    howdah_bus *other;
} interrupter;

static void *interrupt_when_acked(void *arg)
{
    interrupter *i = arg;
    seen_info info = {.lag = -1};
    howdah_error err = HOWDAH_ERROR_INIT;

    while (info.lag != 0 && howdah_subscriptions_walk(i->own, NAME, keep_info, &info, &err) >= 0)
        (void)usleep(1000);
    howdah_interrupt(i->other);
    return NULL;
}

static void a_wait_that_is_interrupted_after_its_ack_leaves_the_batch_to_its_owner(void **state)
{
    cf *c = *state;
    howdah_member *member = join_small(c->bus, 10);
    interrupter i = {cf_open(c), c->bus};
    howdah_batch *next = NULL;
    howdah_batch *batch;
    pthread_t thread;

    append_n(c->bus, "a", 3);
    batch = fetch(member);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_when_acked, &i), 0);
    assert_int_equal(howdah_member_exchange(member, batch, -1, &next, &cf_error),
                     HOWDAH_INTERRUPTED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(next);
    howdah_interrupt_clear(c->bus);
    cf_ok(howdah_batch_ack(batch, &cf_error)); /* it is acked: nothing more happens */
    assert_batch(batch, "1 2 3");
    howdah_batch_free(batch);
    assert_int_equal(look(c->bus).lag, 0);
    howdah_close(i.own);
}

static void a_group_that_was_paused_does_not_go_on(void **state)
{
    cf *c = *state;
    howdah_member *member = join_small(c->bus, 2);
    howdah_batch *batch;

    append_n(c->bus, "a", 8);
    batch = exchange(member, fetch(member));
    cf_ok(howdah_subscription_pause(c->bus, NAME, NULL, &cf_error));
    assert_null(exchange(member, batch)); /* which acks it nevertheless */
    cf_ok(howdah_subscription_resume(c->bus, NAME, &cf_error));
    batch = fetch(member);
    assert_batch(batch, "5 6");
    ack(batch);
}

/* Each goes on with its own lot, on one bus and so on one session. */
static void members_in_turn_do_not_get_each_others_events(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();
    howdah_batch *batches[2];
    howdah_member *members[2];
    const char *streams[2] = {NULL, NULL};
    int seen = 0;

    o.max_events = 2;
    o.lanes = 1024; /* so that two streams are in two of them */
    for (int i = 0; i < 2; i++)
        members[i] = join_with(c->bus, o);
    append_n(c->bus, "a", 10);
    append_n(c->bus, "b", 10);
    for (int i = 0; i < 2; i++) {
        batches[i] = fetch(members[i]);
        assert_non_null(batches[i]);
        streams[i] =
            strcmp(howdah_event_stream(howdah_batch_event(batches[i], 0)), "a") ? "b" : "a";
    }
    assert_string_not_equal(streams[0], streams[1]);
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < 2; i++) {
            for (size_t k = 0; k < howdah_batch_size(batches[i]); k++, seen++) {
                const howdah_event *event = howdah_batch_event(batches[i], k);

                assert_string_equal(howdah_event_stream(event), streams[i]);
                assert_int_equal(howdah_event_version(event), 2 * round + (int)k + 1);
            }
            batches[i] = exchange(members[i], batches[i]);
        }
    assert_int_equal(seen, 20);
}

/* Payloads of this many bytes, in this order. */
static void expect_whole(cf *c, int64_t max_events, const size_t *bytes, size_t n)
{
    howdah_member *member = join_small(c->bus, max_events);
    size_t seen = 0;

    for (size_t i = 0; i < n; i++) {
        char *json = malloc(bytes[i] + 1);

        assert_non_null(json);
        memset(json, 'x', bytes[i]);
        json[0] = json[bytes[i] - 1] = '"';
        json[bytes[i]] = '\0';
        (void)cf_append(c->bus, "a", "t", json);
        free(json);
    }
    for (howdah_batch *batch = fetch(member); batch; batch = exchange(member, batch))
        for (size_t i = 0; i < howdah_batch_size(batch); i++, seen++) {
            size_t len = 0;

            assert_true(seen < n);
            assert_non_null(howdah_event_data(howdah_batch_event(batch, i), &len));
            assert_int_equal(len, bytes[seen]);
        }
    assert_int_equal(seen, n);
}

static void large_events_in_small_batches_come_whole(void **state)
{
    static const size_t bytes[] = {30000, 30000, 100,   100, 1000000, 20000, 50,
                                   50,    50,    30000, 50,  50,      900000};

    expect_whole(*state, 2, bytes, sizeof bytes / sizeof *bytes);
}

static void large_events_one_by_one_come_whole(void **state)
{
    static const size_t bytes[] = {50, 50, 30000, 50, 1000000, 1000000, 50, 50};

    expect_whole(*state, 1, bytes, sizeof bytes / sizeof *bytes);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(small_batches_that_follow_each_other_have_every_event_once),
    CF_SUB_TEST(what_waits_for_a_failed_event_does_not_follow),
    CF_SUB_TEST(a_group_that_was_put_back_does_not_go_on_where_it_was),
    CF_SUB_TEST(a_wait_that_is_interrupted_after_its_ack_leaves_the_batch_to_its_owner),
    CF_SUB_TEST(a_group_that_was_paused_does_not_go_on),
    CF_SUB_TEST(members_in_turn_do_not_get_each_others_events),
    CF_SUB_TEST(large_events_in_small_batches_come_whole),
    CF_SUB_TEST(large_events_one_by_one_come_whole),
};

cf_group cf_group_exchange_tests(void)
{
    return CF_GROUP(tests);
}
