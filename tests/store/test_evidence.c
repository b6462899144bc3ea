/* test_evidence.c - what is missing in the log, and whether it is still the same log. */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "suite.h"

typedef struct gaps {
    char text[512];
    int stop_after; /* 0: never */
    int n;
} gaps;

static int keep_gap(void *ctx, hw_range range)
{
    gaps *g = ctx;
    size_t len = strlen(g->text);

    (void)snprintf(g->text + len, sizeof g->text - len, "%s%" PRId64 "-%" PRId64, len ? " " : "",
                   range.first, range.last);
    return ++g->n == g->stop_after;
}

static const char *gaps_of(const ss *t, int64_t first, int64_t last)
{
    static gaps g;

    g = (gaps){.n = 0};
    ok(t->subs->gaps(t->store, first, last, keep_gap, &g, &ss_error));
    return g.text;
}

static void gaps_are_the_numbers_without_a_row(void **state)
{
    ss *t = *state;
    gaps g = {.stop_after = 1};

    assert_string_equal(gaps_of(t, 1, 5), "1-5");
    ss_append_many(t->store, "a.b", 20);
    assert_string_equal(gaps_of(t, 1, 20), "");
    ss_sql(t, "DELETE FROM {events} WHERE global_sequence IN (1, 4, 5, 6, 10, 19, 20)");
    assert_string_equal(gaps_of(t, 1, 20), "1-1 4-6 10-10 19-20");
    assert_string_equal(gaps_of(t, 5, 10), "5-6 10-10");
    assert_string_equal(gaps_of(t, 2, 3), "");
    assert_string_equal(gaps_of(t, 5, 5), "5-5");
    assert_string_equal(gaps_of(t, 18, 30), "19-30");
    assert_string_equal(gaps_of(t, 100, 200), "100-200");
    assert_string_equal(gaps_of(t, 11, INT64_MAX), "19-9223372036854775807");
    ok(t->subs->gaps(t->store, 1, 20, keep_gap, &g, &ss_error));
    assert_string_equal(g.text, "1-1");
}

static int count_blocker(void *ctx, const hw_blocker *blocker)
{
    (void)blocker;
    (*(int *)ctx)++;
    return 0;
}

static void without_writers_nobody_holds_the_sequence(void **state)
{
    ss *t = *state;
    hw_holder *holders = NULL;
    int64_t drawn = 0;
    size_t n = 99;
    int blockers = 0;

    ss_append_many(t->store, "a.b", 3);
    expect(t->subs->holders(t->store, &drawn, &holders, &n, &ss_error), HOWDAH_OK);
    assert_int_equal(n, 0);
    assert_true(drawn >= 3);
    hw_free(holders);
    ok(t->subs->blockers(t->store, count_blocker, &blockers, &ss_error));
    assert_int_equal(blockers, 0);
}

static void the_timeline_is_the_same_for_every_handle(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    char a[HW_TIMELINE_SIZE] = "";
    char b[HW_TIMELINE_SIZE] = "";

    ok(t->subs->timeline(t->store, a, &ss_error));
    ok(other->ops->subs->timeline(other, b, &ss_error));
    assert_true(strlen(a) > 0);
    assert_string_equal(a, b);
    other->ops->close(other);
}

static void a_log_that_does_not_fit_the_checkpoint_is_found_out(void **state)
{
    ss *t = *state;
    howdah_event *first = ss_append(t->store, "s", "a.b", NULL);
    howdah_event *second = ss_append(t->store, "s", "a.b", NULL);
    hw_anchor none = {.sequence = 0};
    hw_anchor good = {second->global_sequence, second->id};
    hw_anchor other = {second->global_sequence, first->id};
    hw_anchor missing = {second->global_sequence + 5, second->id};

    ok(t->subs->verify(t->store, &none, 0, &ss_error));
    ok(t->subs->verify(t->store, &none, 2, &ss_error));
    ok(t->subs->verify(t->store, &good, 2, &ss_error));
    expect(t->subs->verify(t->store, &missing, 2, &ss_error), HOWDAH_NOT_FOUND);
    assert_non_null(strstr(ss_error.message, "7"));
    expect(t->subs->verify(t->store, &other, 2, &ss_error), HOWDAH_NOT_FOUND);
    assert_non_null(strstr(ss_error.message, "another"));
    expect(t->subs->verify(t->store, &good, 3, &ss_error), HOWDAH_NOT_FOUND);
    assert_non_null(strstr(ss_error.message, "3"));
    /* A number that was drawn counts, also when its row is gone. */
    ss_sql(t, "DELETE FROM {events} WHERE global_sequence = 2");
    ok(t->subs->verify(t->store, &none, 2, &ss_error));
    expect(t->subs->verify(t->store, &good, 2, &ss_error), HOWDAH_NOT_FOUND);
    hw_event_free(first);
    hw_event_free(second);
}

ss_group ss_evidence_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(gaps_are_the_numbers_without_a_row),
        SS_TEST(without_writers_nobody_holds_the_sequence),
        SS_TEST(the_timeline_is_the_same_for_every_handle),
        SS_TEST(a_log_that_does_not_fit_the_checkpoint_is_found_out),
    };
    return SS_GROUP(tests);
}
