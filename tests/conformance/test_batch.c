/* test_batch.c - many events at once: all or none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

#define MANY 2500 /* more than one statement carries */

typedef struct many {
    howdah_event *events[MANY];
    howdah_position positions[MANY];
    size_t n;
} many;

static void add(many *m, const char *stream, int64_t expect)
{
    howdah_builder *b = NULL;

    assert_true(m->n < MANY);
    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, "t");
    if (expect != HOWDAH_EXPECT_ANY)
        howdah_builder_set_expect(b, expect);
    cf_ok(howdah_builder_build(b, &m->events[m->n], &cf_error));
    m->n++;
    howdah_builder_free(b);
}

static many *new_many(void)
{
    many *m = calloc(1, sizeof *m);

    assert_non_null(m);
    m->positions[0] = (howdah_position)HOWDAH_POSITION_INIT;
    return m;
}

static void free_many(many *m)
{
    for (size_t i = 0; i < m->n; i++)
        howdah_event_free(m->events[i]);
    free(m);
}

static int append_many(howdah_bus *bus, many *m, int64_t expected, howdah_error *err)
{
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;

    options.expected_version = expected;
    return howdah_append_batch(bus, (const howdah_event *const *)m->events, m->n, &options,
                               m->positions, err);
}

static void a_batch_over_several_streams_has_consecutive_versions_in_each(void **state)
{
    static const char *const streams[] = {"a", "b", "a", "c", "b", "a"};
    static const int64_t versions[] = {2, 1, 3, 1, 2, 4};
    cf *c = *state;
    many *m = new_many();

    (void)cf_append(c->bus, "a", "t", NULL);
    for (size_t i = 0; i < 6; i++)
        add(m, streams[i], HOWDAH_EXPECT_ANY);
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &cf_error));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(m->positions[i].version, versions[i]);
        assert_int_equal(m->positions[i].global_sequence, 2 + (int64_t)i);
    }
    free_many(m);
}

static void a_large_batch_is_one_transaction_in_order(void **state)
{
    cf *c = *state;
    many *m = new_many();
    int64_t next[7] = {0};

    for (int i = 0; i < MANY; i++) {
        char stream[16];

        (void)snprintf(stream, sizeof stream, "s-%d", i % 7);
        add(m, stream, HOWDAH_EXPECT_ANY);
    }
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_NONE, &cf_error));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(m->positions[i].version, ++next[i % 7]);
        assert_true(i == 0 ||
                    m->positions[i].global_sequence > m->positions[i - 1].global_sequence);
    }
    assert_int_equal(cf_count(c->bus), MANY);
    free_many(m);
}

static void one_unmet_expectation_stores_nothing_of_the_batch(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)cf_append(c->bus, "b", "t", NULL);
    add(m, "a", HOWDAH_EXPECT_NONE);
    add(m, "b", HOWDAH_EXPECT_NONE);
    add(m, "c", HOWDAH_EXPECT_ANY);
    assert_int_equal(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    assert_int_equal(err.event_index, 1);
    assert_int_equal(cf_count(c->bus), 1);
    free_many(m);
}

static void an_unmet_expectation_far_behind_stores_nothing_either(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)cf_append(c->bus, "late", "t", NULL);
    for (int i = 0; i < MANY - 1; i++)
        add(m, "a", HOWDAH_EXPECT_ANY);
    add(m, "late", 5);
    assert_int_equal(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &err), HOWDAH_CONFLICT);
    assert_int_equal(err.actual_version, 1);
    assert_int_equal(err.event_index, MANY - 1);
    assert_int_equal(cf_count(c->bus), 1);
    free_many(m);
}

static void each_event_may_have_its_own_expectation(void **state)
{
    cf *c = *state;
    many *m = new_many();

    (void)cf_append(c->bus, "a", "t", NULL);
    add(m, "a", 1);
    add(m, "b", HOWDAH_EXPECT_NONE);
    add(m, "a", 2);
    add(m, "a", HOWDAH_EXPECT_EXISTS);
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &cf_error));
    assert_int_equal(m->positions[3].version, 4);
    free_many(m);
}

static void contradicting_expectations_are_refused(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_error err = HOWDAH_ERROR_INIT;

    add(m, "a", HOWDAH_EXPECT_NONE);
    add(m, "a", 7);
    assert_int_equal(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &err), HOWDAH_INVALID);
    assert_int_equal(err.event_index, 1);
    assert_int_equal(cf_count(c->bus), 0);
    free_many(m);
}

static void an_exact_version_for_several_streams_is_refused(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_error err = HOWDAH_ERROR_INIT;

    add(m, "a", HOWDAH_EXPECT_ANY);
    add(m, "b", HOWDAH_EXPECT_ANY);
    assert_int_equal(append_many(c->bus, m, 1, &err), HOWDAH_INVALID);
    assert_int_equal(cf_count(c->bus), 0);
    free_many(m);
}

static void the_same_id_twice_in_a_batch_is_refused_and_stores_nothing(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_error err = HOWDAH_ERROR_INIT;

    for (int i = 0; i < 5; i++)
        add(m, "a", HOWDAH_EXPECT_ANY);
    howdah_event_free(m->events[3]);
    cf_ok(howdah_event_copy(m->events[1], &m->events[3], &cf_error));
    assert_int_equal(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "id");
    if (cf_is_owner())
        assert_int_equal(err.event_index, 3);
    assert_int_equal(cf_count(c->bus), 0);
    free_many(m);
}

static void a_stored_id_with_other_content_in_the_middle_stores_nothing(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *other = NULL;
    howdah_builder *b = NULL;

    for (int i = 0; i < 5; i++)
        add(m, "a", HOWDAH_EXPECT_ANY);
    cf_ok(howdah_builder_from_event(m->events[2], &b, &cf_error));
    howdah_builder_set_json(b, "[1]", 3);
    cf_ok(howdah_builder_build(b, &other, &cf_error));
    howdah_builder_free(b);
    (void)cf_append_event(c->bus, other);
    howdah_event_free(other);
    assert_int_equal(append_many(c->bus, m, HOWDAH_EXPECT_ANY, &err), HOWDAH_ID_REUSED);
    assert_int_equal(err.event_index, 2);
    assert_int_equal(cf_count(c->bus), 1);
    free_many(m);
}

static void a_repeated_batch_is_answered_with_the_same_positions(void **state)
{
    cf *c = *state;
    many *m = new_many();
    howdah_position *first = calloc(MANY, sizeof *first);

    assert_non_null(first);
    for (int i = 0; i < MANY; i++)
        add(m, i % 3 ? "a" : "b", HOWDAH_EXPECT_ANY);
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_NONE, &cf_error));
    memcpy(first, m->positions, MANY * sizeof *first);
    (void)cf_append(c->bus, "a", "t", NULL);
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_NONE, &cf_error));
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(m->positions[i].global_sequence, first[i].global_sequence);
        assert_int_equal(m->positions[i].version, first[i].version);
        assert_int_equal(m->positions[i].already_stored, 1);
    }
    assert_int_equal(cf_count(c->bus), MANY + 1);
    free(first);
    free_many(m);
}

static void a_batch_that_is_partly_stored_stores_the_rest(void **state)
{
    cf *c = *state;
    many *m = new_many();

    for (int i = 0; i < 10; i++)
        add(m, i < 8 ? "a" : "b", HOWDAH_EXPECT_ANY);
    m->n = 4;
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_NONE, &cf_error));
    m->n = 10;
    cf_ok(append_many(c->bus, m, HOWDAH_EXPECT_NONE, &cf_error));
    for (size_t i = 0; i < 10; i++) {
        assert_int_equal(m->positions[i].already_stored, i < 4);
        assert_int_equal(m->positions[i].version, i < 8 ? (int64_t)i + 1 : (int64_t)i - 7);
    }
    assert_int_equal(cf_count(c->bus), 10);
    free_many(m);
}

static void no_events_are_stored_without_a_word(void **state)
{
    cf *c = *state;

    cf_ok(howdah_append_batch(c->bus, NULL, 0, NULL, NULL, &cf_error));
    assert_int_equal(cf_count(c->bus), 0);
}

static void a_batch_over_the_limit_is_refused(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = cf_event("s", "t", NULL);
    const howdah_event **events = calloc(HOWDAH_BATCH_EVENTS_MAX + 1, sizeof *events);

    assert_non_null(events);
    for (size_t i = 0; i <= HOWDAH_BATCH_EVENTS_MAX; i++)
        events[i] = event;
    assert_int_equal(
        howdah_append_batch(c->bus, events, HOWDAH_BATCH_EVENTS_MAX + 1, NULL, NULL, &err),
        HOWDAH_LIMIT);
    assert_int_equal(cf_count(c->bus), 0);
    free(events);
    howdah_event_free(event);
}

cf_group cf_batch_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(a_batch_over_several_streams_has_consecutive_versions_in_each),
        CF_TEST(a_large_batch_is_one_transaction_in_order),
        CF_TEST(one_unmet_expectation_stores_nothing_of_the_batch),
        CF_TEST(an_unmet_expectation_far_behind_stores_nothing_either),
        CF_TEST(each_event_may_have_its_own_expectation),
        CF_TEST(contradicting_expectations_are_refused),
        CF_TEST(an_exact_version_for_several_streams_is_refused),
        CF_TEST(the_same_id_twice_in_a_batch_is_refused_and_stores_nothing),
        CF_TEST(a_stored_id_with_other_content_in_the_middle_stores_nothing),
        CF_TEST(a_repeated_batch_is_answered_with_the_same_positions),
        CF_TEST(a_batch_that_is_partly_stored_stores_the_rest),
        CF_TEST(no_events_are_stored_without_a_word),
        CF_TEST(a_batch_over_the_limit_is_refused),
    };
    return CF_GROUP(tests);
}
