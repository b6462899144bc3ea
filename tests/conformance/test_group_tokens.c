/* test_group_tokens.c - batches that are named by their tokens, from any bus: members elsewhere. */
#include <stdio.h>
#include <string.h>

#include "group_help.h"

static bool create(howdah_bus *bus, howdah_member_options o)
{
    bool created = false;

    o.subscriber_id = NAME;
    cf_ok(howdah_group_create(bus, &o, &created, &cf_error));
    return created;
}

/* The token of a batch that nobody keeps; its events, as numbers, in expected. */
static const char *take(howdah_bus *bus, int64_t max, const char *expected)
{
    static char token[64];
    howdah_batch *batch = NULL;

    cf_ok(howdah_group_fetch(bus, NAME, "elsewhere", max, 60000, &batch, &cf_error));
    assert_batch(batch, expected);
    (void)snprintf(token, sizeof token, "%s", howdah_batch_token(batch));
    howdah_batch_free(batch);
    return token;
}

static void expect_none(howdah_bus *bus)
{
    howdah_batch *batch = NULL;

    assert_int_equal(howdah_group_fetch(bus, NAME, NULL, 10, 1000, &batch, &cf_error), HOWDAH_END);
    assert_null(batch);
}

static void a_group_is_made_once(void **state)
{
    cf *c = *state;
    howdah_member_options o = defaults();

    assert_true(create(c->bus, o));
    assert_false(create(c->bus, o));
    o.pattern = "other.*";
    o.subscriber_id = NAME;
    assert_int_equal(howdah_group_create(c->bus, &o, NULL, &cf_error), HOWDAH_CONFLICT);
    o.pattern = "no good";
    assert_int_equal(howdah_group_create(c->bus, &o, NULL, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "pattern");
}

static void a_batch_that_one_bus_took_is_acked_by_another(void **state)
{
    cf *c = *state;
    howdah_bus *other = cf_open(c);
    const char *token;

    (void)create(c->bus, defaults());
    expect_none(c->bus);
    append_n(c->bus, "a", 5);
    token = take(c->bus, 3, "1 2 3");
    cf_ok(howdah_group_ack(other, NAME, token, 2, &cf_error));
    assert_int_equal(look(c->bus).contiguous, 2);
    cf_ok(howdah_group_extend(other, NAME, token, 60000, &cf_error));
    cf_ok(howdah_group_ack(other, NAME, token, 0, &cf_error));
    assert_int_equal(howdah_group_ack(other, NAME, token, 0, &cf_error), HOWDAH_LOST);
    assert_int_equal(howdah_group_extend(c->bus, NAME, token, 1000, &cf_error), HOWDAH_LOST);
    token = take(other, 3, "4 5");
    cf_ok(howdah_group_release(c->bus, NAME, token, &cf_error));
    token = take(other, 3, "4 5");
    cf_ok(howdah_group_ack(c->bus, NAME, token, 0, &cf_error));
    expect_none(other);
    howdah_close(other);
}

static void an_event_of_it_fails_by_token(void **state)
{
    cf *c = *state;
    const char *token;

    (void)create(c->bus, defaults());
    append_n(c->bus, "a", 2);
    append_n(c->bus, "b", 1);
    token = take(c->bus, 10, "1 2 3");
    assert_int_equal(howdah_group_nack(c->bus, NAME, token, 9, "no", -1, &cf_error),
                     HOWDAH_INVALID);
    cf_ok(howdah_group_nack(c->bus, NAME, token, 1, "no", 0, &cf_error));
    cf_ok(howdah_group_ack(c->bus, NAME, token, 0, &cf_error));
    token = take(c->bus, 10, "1");
    cf_ok(howdah_group_ack(c->bus, NAME, token, 0, &cf_error));
    (void)take(c->bus, 10, "2");
}

static void what_is_not_a_batch_is_told(void **state)
{
    cf *c = *state;
    howdah_batch *batch = NULL;

    assert_int_equal(howdah_group_fetch(c->bus, NAME, NULL, 10, 1000, &batch, &cf_error),
                     HOWDAH_NOT_FOUND);
    (void)create(c->bus, defaults());
    assert_int_equal(howdah_group_ack(c->bus, NAME, "no token", 0, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "token");
    assert_int_equal(howdah_group_fetch(c->bus, NAME, NULL, 0, 1000, &batch, &cf_error),
                     HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "max_events");
    assert_int_equal(howdah_group_extend(c->bus, NAME, "l1-1", 0, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "lease");
    assert_int_equal(howdah_group_ack(c->bus, NAME, "l1-1", -1, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "upto");
}

static void a_pattern_means_types(void **state)
{
    (void)state;
    assert_true(howdah_pattern_matches("order.*", "order.paid"));
    assert_false(howdah_pattern_matches("order.*", "order"));
    assert_false(howdah_pattern_matches("order.*", "order.paid.late"));
    assert_true(howdah_pattern_matches("order.>", "order.paid.late"));
    assert_true(howdah_pattern_matches(NULL, "order"));
    assert_false(howdah_pattern_matches("order. ", "order.paid"));
    assert_false(howdah_pattern_matches("*", "no good"));
    assert_false(howdah_pattern_matches("*", NULL));
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_group_is_made_once),
    CF_SUB_TEST(a_batch_that_one_bus_took_is_acked_by_another),
    CF_SUB_TEST(an_event_of_it_fails_by_token),
    CF_SUB_TEST(what_is_not_a_batch_is_told),
    CF_SUB_TEST(a_pattern_means_types),
};

cf_group cf_group_tokens_tests(void)
{
    return CF_GROUP(tests);
}
