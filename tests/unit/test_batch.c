/* test_batch.c - what an append is about to do. */
#include "unit.h"

#include "base/clock.h"
#include "engine/batch.h"

/* A batch of events on the stack; ids differ by their number. */
typedef struct fixture {
    howdah_event *events;
    const howdah_event **list;
    size_t n;
} fixture;

static void fixture_init(fixture *f, size_t n)
{
    f->n = n;
    f->events = calloc(n, sizeof *f->events);
    f->list = calloc(n, sizeof *f->list);
    if (!f->events || !f->list)
        abort();
    for (size_t i = 0; i < n; i++) {
        hw_event_init(&f->events[i]);
        memcpy(f->events[i].id.b + 8, &i, sizeof i);
        f->events[i].stream = HW_STR_LIT("s");
        f->events[i].type = HW_STR_LIT("t");
        f->events[i].data = HW_STR_LIT("{}");
        f->list[i] = &f->events[i];
    }
}

static void fixture_done(fixture *f)
{
    free(f->events);
    free(f->list);
}

static void expect(fixture *f, size_t i, int64_t version)
{
    f->events[i].expects = true;
    f->events[i].expected_version = version;
}

static void one_event_is_the_first_of_the_first_stream(void **state)
{
    unit_allocator a;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, 1);
    f.events[0].headers = HW_STR_LIT("{\"a\":\"b\"}");
    unit_allocator_start(&a, 0);
    assert_int_equal(hw_batch_init(&batch, f.list, 1, 41, NULL), HOWDAH_OK);
    assert_i64_equal(a.asked, 1); /* no table */
    assert_ptr_equal(batch.events, f.list);
    assert_i64_equal((int64_t)batch.n, 1);
    assert_i64_equal((int64_t)batch.streams_n, 1);
    assert_str_is(batch.streams[0].name, "s");
    assert_i64_equal(batch.streams[0].expected, 41);
    assert_int_equal(batch.stream_no[0], 0);
    assert_int_equal(batch.nth[0], 1);
    assert_i64_equal((int64_t)batch.bytes, 2 + 9);
    hw_batch_done(&batch);
    unit_allocator_stop(&a);
    fixture_done(&f);
}

static void streams_are_numbered_by_first_appearance(void **state)
{
    static const char *const names[] = {"b", "a", "b", "c", "a", "b", "B", "bb"};
    static const uint32_t stream_no[] = {0, 1, 0, 2, 1, 0, 3, 4};
    static const uint32_t nth[] = {1, 1, 2, 1, 2, 3, 1, 1};
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, COUNT_OF(names));
    for (size_t i = 0; i < f.n; i++)
        f.events[i].stream = hw_str_of(names[i]);
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)batch.streams_n, 5);
    for (size_t i = 0; i < f.n; i++) {
        assert_int_equal(batch.stream_no[i], stream_no[i]);
        assert_int_equal(batch.nth[i], nth[i]);
        assert_str_is(batch.streams[batch.stream_no[i]].name, names[i]);
    }
    assert_i64_equal((int64_t)batch.bytes, 16);
    hw_batch_done(&batch);
    assert_null(batch.streams);
    hw_batch_done(&batch); /* harmless */
    fixture_done(&f);
}

static void the_same_id_twice_is_refused(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, 5);
    f.events[3].id = f.events[1].id;
    f.events[3].stream = HW_STR_LIT("other");
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "id");
    assert_string_equal(err.message, "id: event 4 of the batch has the id of event 2");
    hw_batch_done(&batch); /* a failed init leaves an empty batch */
    fixture_done(&f);
}

static void a_batch_has_at_least_one_event_and_at_most_the_limit(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, HOWDAH_BATCH_EVENTS_MAX + 1);
    assert_int_equal(hw_batch_init(&batch, f.list, 0, HOWDAH_EXPECT_ANY, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "events: must be at least one");
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err), HOWDAH_LIMIT);
    assert_string_equal(err.field, "events");
    assert_string_equal(err.message, "events: must be at most 100000, got 100001");
    assert_int_equal(hw_batch_init(&batch, f.list, f.n - 1, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    assert_int_equal(batch.nth[HOWDAH_BATCH_EVENTS_MAX - 1], HOWDAH_BATCH_EVENTS_MAX);
    hw_batch_done(&batch);
    fixture_done(&f);
}

static void payloads_and_headers_together_have_a_limit(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, 3);
    /* Only lengths are looked at. */
    f.events[0].data.len = HOWDAH_BATCH_BYTES_MAX - 5;
    f.events[1].headers = (hw_str){"{}", 1};
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)batch.bytes, HOWDAH_BATCH_BYTES_MAX);
    hw_batch_done(&batch);
    f.events[1].headers.len = 2;
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err), HOWDAH_LIMIT);
    assert_string_equal(err.message, "events: payloads and headers must be at most 268435456 bytes "
                                     "in total, event 3 of 3 passes that");
    f.events[1].data.len = SIZE_MAX;
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err), HOWDAH_LIMIT);
    fixture_done(&f);
}

/* What the events of one stream expect, one after the other, and what becomes of it. */
#define NOTHING INT64_C(-100) /* the event expects nothing of its own */
#define REFUSED INT64_C(-200)

static void expectations_fold_into_one_about_the_version_before(void **state)
{
    enum { ANY = HOWDAH_EXPECT_ANY, EXISTS = HOWDAH_EXPECT_EXISTS };
    static const struct {
        int64_t option;
        int64_t events[3];
        int64_t folded;
    } rows[] = {
        {ANY, {NOTHING, NOTHING, NOTHING}, ANY},
        {EXISTS, {NOTHING, NOTHING, NOTHING}, EXISTS},
        {0, {NOTHING, NOTHING, NOTHING}, 0},
        {7, {NOTHING, NOTHING, NOTHING}, 7},
        /* an event's own expectation is about the stream before that event */
        {ANY, {5, NOTHING, NOTHING}, 5},
        {ANY, {NOTHING, 5, NOTHING}, 4},
        {ANY, {NOTHING, NOTHING, 5}, 3},
        {ANY, {NOTHING, NOTHING, 2}, 0},
        {ANY, {5, 6, 7}, 5},
        {5, {NOTHING, 6, 7}, 5},
        {0, {NOTHING, 1, 2}, 0},
        /* the first event's own wins over the option */
        {7, {5, NOTHING, NOTHING}, 5},
        {7, {ANY, NOTHING, NOTHING}, ANY},
        {0, {EXISTS, NOTHING, NOTHING}, EXISTS},
        /* the batch itself makes the stream exist */
        {ANY, {NOTHING, EXISTS, NOTHING}, ANY},
        {0, {NOTHING, EXISTS, EXISTS}, 0},
        /* exists and a version */
        {EXISTS, {NOTHING, 5, NOTHING}, 4},
        {EXISTS, {EXISTS, ANY, 7}, 5},
        {EXISTS, {NOTHING, 1, NOTHING}, REFUSED}, /* exists, but 0 before */
        /* contradictions */
        {ANY, {5, 5, NOTHING}, REFUSED},
        {ANY, {5, 7, NOTHING}, REFUSED},
        {5, {NOTHING, 7, NOTHING}, REFUSED},
        {ANY, {NOTHING, 0, NOTHING}, REFUSED}, /* no stream, behind an event of it */
        {ANY, {NOTHING, NOTHING, 1}, REFUSED}, /* version 1 behind two events */
        {0, {NOTHING, NOTHING, 5}, REFUSED},
        {-3, {NOTHING, NOTHING, NOTHING}, REFUSED},
        {ANY, {NOTHING, -3, NOTHING}, REFUSED},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        fixture f;
        hw_batch batch;
        int s;

        fixture_init(&f, 3);
        for (size_t k = 0; k < 3; k++) {
            if (rows[i].events[k] != NOTHING)
                expect(&f, k, rows[i].events[k]);
        }
        s = hw_batch_init(&batch, f.list, f.n, rows[i].option, &err);
        if (rows[i].folded == REFUSED) {
            if (s != HOWDAH_INVALID)
                fail_msg("row %zu was accepted", i);
            assert_string_equal(err.field, "expected_version");
        } else if (s != HOWDAH_OK || batch.streams[0].expected != rows[i].folded) {
            fail_msg("row %zu: status %d, expected %lld", i, s,
                     s == HOWDAH_OK ? (long long)batch.streams[0].expected : 0LL);
        }
        hw_batch_done(&batch);
        fixture_done(&f);
    }
}

static void a_contradiction_names_its_event(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, 3);
    expect(&f, 0, 5);
    expect(&f, 2, 8);
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "expected_version: event 3 of the batch contradicts what "
                                     "earlier events expect of the same stream");
    fixture_done(&f);
}

static void an_option_is_for_the_first_event_of_each_stream(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, 4);
    f.events[1].stream = HW_STR_LIT("other");
    f.events[3].stream = HW_STR_LIT("third");
    expect(&f, 3, 9);
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_NONE, NULL), HOWDAH_OK);
    assert_i64_equal(batch.streams[0].expected, 0);
    assert_i64_equal(batch.streams[1].expected, 0);
    assert_i64_equal(batch.streams[2].expected, 9);
    hw_batch_done(&batch);
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, 7, &err), HOWDAH_INVALID);
    assert_string_equal(
        err.message, "expected_version: a version needs all events on one stream, got 3 streams");
    fixture_done(&f);
}

static void many_streams_and_events_are_grouped_right(void **state)
{
    enum { N = 50000, STREAMS = 777 };
    static char names[STREAMS][24];
    static uint32_t counts[STREAMS];
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, N);
    for (size_t i = 0; i < STREAMS; i++)
        snprintf(names[i], sizeof names[i], "customer-order-%zu", i);
    for (size_t i = 0; i < N; i++)
        f.events[i].stream = hw_str_of(names[i * 31 % STREAMS]);
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)batch.streams_n, STREAMS);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(batch.stream_no[i], i < STREAMS ? i : batch.stream_no[i % STREAMS]);
        assert_int_equal(batch.nth[i], ++counts[i * 31 % STREAMS]);
    }
    hw_batch_done(&batch);
    fixture_done(&f);
}

/*
 * The hash is no secret: with its constants, a second word can be chosen for any first one so that
 * all ids have the same hash.  Then the sort has to do it, and in good time.
 */
static void make_ids_collide(fixture *f)
{
    for (size_t i = 0; i < f->n; i++) {
        uint64_t first = i;
        uint64_t h = UINT64_C(0x9E3779B97F4A7C15) ^ 16;
        uint64_t second;

        h = (h ^ first) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
        second = h ^ UINT64_C(0x1234);
        memcpy(f->events[i].id.b, &first, 8);
        memcpy(f->events[i].id.b + 8, &second, 8);
    }
}

static void ids_that_all_collide_cost_no_quadratic_time(void **state)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t start_ms = hw_clock_mono_ms();
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&f, HOWDAH_BATCH_EVENTS_MAX);
    make_ids_collide(&f);
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    hw_batch_done(&batch);
    f.events[99999].id = f.events[500].id;
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "id: event 100000 of the batch has the id of event 501");
    assert_true(hw_clock_mono_ms() - start_ms < 5000);
    fixture_done(&f);
}

/* The same trick with 16-byte stream names: grouping by sort must equal grouping by hash. */
static void streams_that_all_collide_are_grouped_right(void **state)
{
    enum { STREAMS = 500, N = 5000 };
    fixture ids;
    fixture f;
    hw_batch batch;

    (void)state;
    fixture_init(&ids, STREAMS);
    make_ids_collide(&ids);
    fixture_init(&f, N);
    for (size_t i = 0; i < N; i++)
        f.events[i].stream = (hw_str){(const char *)ids.events[i * 7 % STREAMS].id.b, 16};
    assert_int_equal(hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)batch.streams_n, STREAMS);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(batch.stream_no[i], i % STREAMS);
        assert_int_equal(batch.nth[i], i / STREAMS + 1);
    }
    hw_batch_done(&batch);
    fixture_done(&f);
    fixture_done(&ids);
}

static void no_memory_is_reported_and_leaks_nothing(void **state)
{
    unit_allocator a;
    unsigned n = 0;
    fixture f;

    (void)state;
    fixture_init(&f, 100);
    do {
        howdah_error err = HOWDAH_ERROR_INIT;
        hw_batch batch;
        int s;

        unit_allocator_start(&a, ++n);
        s = hw_batch_init(&batch, f.list, f.n, HOWDAH_EXPECT_ANY, &err);
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        assert_int_equal(err.status, s);
        hw_batch_done(&batch);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 3);
    fixture_done(&f);
}

static void an_expectation_is_met_or_not(void **state)
{
    (void)state;
    assert_true(hw_expectation_met(HOWDAH_EXPECT_ANY, 0));
    assert_true(hw_expectation_met(HOWDAH_EXPECT_ANY, 7));
    assert_false(hw_expectation_met(HOWDAH_EXPECT_EXISTS, 0));
    assert_true(hw_expectation_met(HOWDAH_EXPECT_EXISTS, 1));
    assert_true(hw_expectation_met(HOWDAH_EXPECT_NONE, 0));
    assert_false(hw_expectation_met(HOWDAH_EXPECT_NONE, 1));
    assert_true(hw_expectation_met(7, 7));
    assert_false(hw_expectation_met(7, 6));
    assert_false(hw_expectation_met(7, 8));
}

static void a_conflict_says_what_was_expected_and_what_is(void **state)
{
    static const struct {
        int64_t expected;
        int64_t actual;
        const char *message;
    } rows[] = {
        {41, 43, "stream \"order-7\" was expected at version 41, but is at 43"},
        {41, 0, "stream \"order-7\" was expected at version 41, but is at 0"},
        {HOWDAH_EXPECT_NONE, 3,
         "stream \"order-7\" was expected to have no events, but is at version 3"},
        {HOWDAH_EXPECT_EXISTS, 0, "stream \"order-7\" was expected to exist, but has no events"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        assert_int_equal(
            hw_batch_conflict((hw_str){"order-7xx", 7}, rows[i].expected, rows[i].actual, &err),
            HOWDAH_CONFLICT);
        assert_int_equal(err.status, HOWDAH_CONFLICT);
        assert_int_equal(err.flags, 0);
        assert_i64_equal(err.actual_version, rows[i].actual);
        assert_string_equal(err.message, rows[i].message);
        assert_string_equal(err.advice,
                            "read the stream again, decide again, append with its current version");
    }
    assert_int_equal(hw_batch_conflict(HW_STR_LIT("s"), 1, 2, NULL), HOWDAH_CONFLICT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_event_is_the_first_of_the_first_stream),
        cmocka_unit_test(streams_are_numbered_by_first_appearance),
        cmocka_unit_test(the_same_id_twice_is_refused),
        cmocka_unit_test(a_batch_has_at_least_one_event_and_at_most_the_limit),
        cmocka_unit_test(payloads_and_headers_together_have_a_limit),
        cmocka_unit_test(expectations_fold_into_one_about_the_version_before),
        cmocka_unit_test(a_contradiction_names_its_event),
        cmocka_unit_test(an_option_is_for_the_first_event_of_each_stream),
        cmocka_unit_test(many_streams_and_events_are_grouped_right),
        cmocka_unit_test(ids_that_all_collide_cost_no_quadratic_time),
        cmocka_unit_test(streams_that_all_collide_are_grouped_right),
        cmocka_unit_test(no_memory_is_reported_and_leaks_nothing),
        cmocka_unit_test(an_expectation_is_met_or_not),
        cmocka_unit_test(a_conflict_says_what_was_expected_and_what_is),
    };

    return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
