/* test_ranges.c - a set of numbers as ranges. */
#include "unit.h"

#include "engine/ranges.h"

#define assert_ranges(set, ...)                                                                    \
    do {                                                                                           \
        const hw_range unit_ranges[] = {__VA_ARGS__};                                              \
        check_ranges((set), unit_ranges, COUNT_OF(unit_ranges), __LINE__);                         \
    } while (0)

#define assert_empty(set) assert_i64_equal((int64_t)(set)->n, 0)

static void check_ranges(const hw_ranges *set, const hw_range *ranges, size_t n, int line)
{
    if (set->n != n)
        fail_msg("line %d: %zu ranges, should be %zu", line, set->n, n);
    for (size_t i = 0; i < n; i++) {
        if (set->items[i].first != ranges[i].first || set->items[i].last != ranges[i].last)
            fail_msg("line %d: range %zu is %lld..%lld", line, i, (long long)set->items[i].first,
                     (long long)set->items[i].last);
    }
}

static void add(hw_ranges *set, int64_t first, int64_t last)
{
    assert_int_equal(hw_ranges_add(set, first, last, NULL), HOWDAH_OK);
}

static void take(hw_ranges *set, int64_t first, int64_t last)
{
    assert_int_equal(hw_ranges_remove(set, first, last, NULL), HOWDAH_OK);
}

static void ranges_that_touch_or_overlap_become_one(void **state)
{
    hw_ranges set = HW_RANGES_INIT;

    (void)state;
    add(&set, 10, 12);
    add(&set, 20, 22);
    assert_ranges(&set, {10, 12}, {20, 22});
    add(&set, 13, 13);
    assert_ranges(&set, {10, 13}, {20, 22});
    add(&set, 19, 19);
    assert_ranges(&set, {10, 13}, {19, 22});
    add(&set, 1, 5);
    assert_ranges(&set, {1, 5}, {10, 13}, {19, 22});
    add(&set, 12, 20);
    assert_ranges(&set, {1, 5}, {10, 22});
    add(&set, 3, 4);
    assert_ranges(&set, {1, 5}, {10, 22});
    add(&set, 6, 9);
    assert_ranges(&set, {1, 22});
    add(&set, 30, 31);
    add(&set, 40, 41);
    add(&set, 0, 100);
    assert_ranges(&set, {0, 100});
    hw_ranges_done(&set);
    assert_null(set.items);
}

static void what_is_removed_trims_splits_and_spans(void **state)
{
    hw_ranges set = HW_RANGES_INIT;

    (void)state;
    take(&set, 1, 5);
    assert_empty(&set);
    add(&set, 10, 20);
    take(&set, 1, 9);
    take(&set, 21, 30);
    assert_ranges(&set, {10, 20});
    take(&set, 5, 10);
    assert_ranges(&set, {11, 20});
    take(&set, 20, 25);
    assert_ranges(&set, {11, 19});
    take(&set, 15, 15);
    assert_ranges(&set, {11, 14}, {16, 19});
    add(&set, 30, 31);
    take(&set, 14, 30);
    assert_ranges(&set, {11, 13}, {31, 31});
    take(&set, 31, 31);
    assert_ranges(&set, {11, 13});
    take(&set, 0, 100);
    assert_empty(&set);
    hw_ranges_done(&set);
}

static void a_million_numbers_are_one_range_and_the_ends_of_the_type_are_numbers_too(void **state)
{
    hw_ranges set = HW_RANGES_INIT;

    (void)state;
    add(&set, 1, 1000000);
    assert_i64_equal(hw_ranges_count(&set), 1000000);
    add(&set, 2000000, INT64_MAX);
    assert_ranges(&set, {1, 1000000}, {2000000, INT64_MAX});
    assert_true(hw_ranges_has(&set, INT64_MAX));
    add(&set, 1000001, 1999999);
    assert_ranges(&set, {1, INT64_MAX});
    assert_i64_equal(hw_ranges_count(&set), INT64_MAX);
    add(&set, INT64_MIN, 0);
    assert_ranges(&set, {INT64_MIN, INT64_MAX});
    assert_i64_equal(hw_ranges_count(&set), INT64_MAX);
    take(&set, 5, INT64_MAX);
    assert_ranges(&set, {INT64_MIN, 4});
    take(&set, INT64_MIN, 2);
    assert_ranges(&set, {3, 4});
    assert_i64_equal(hw_ranges_count(&set), 2);
    hw_ranges_done(&set);
}

static void find_names_the_first_range_that_ends_at_or_above(void **state)
{
    hw_ranges set = HW_RANGES_INIT;

    (void)state;
    assert_i64_equal((int64_t)hw_ranges_find(&set, 1), 0);
    assert_false(hw_ranges_has(&set, 1));
    add(&set, 10, 12);
    add(&set, 20, 22);
    assert_i64_equal((int64_t)hw_ranges_find(&set, 1), 0);
    assert_i64_equal((int64_t)hw_ranges_find(&set, 12), 0);
    assert_i64_equal((int64_t)hw_ranges_find(&set, 13), 1);
    assert_i64_equal((int64_t)hw_ranges_find(&set, 22), 1);
    assert_i64_equal((int64_t)hw_ranges_find(&set, 23), 2);
    assert_false(hw_ranges_has(&set, 13));
    assert_true(hw_ranges_has(&set, 20));
    hw_ranges_done(&set);
}

static void to_ask_near_the_last_place_gives_the_same_answer_from_every_place(void **state)
{
    hw_ranges set = HW_RANGES_INIT;

    (void)state;
    for (int64_t n = 10; n <= 50; n += 10)
        assert_int_equal(hw_ranges_add(&set, n, n + 2, NULL), HOWDAH_OK);
    for (int64_t number = 0; number < 60; number++) {
        for (size_t from = 0; from <= set.n; from++) {
            size_t near = from;

            assert_int_equal(hw_ranges_has_near(&set, number, &near), hw_ranges_has(&set, number));
            assert_int_equal(near, hw_ranges_find(&set, number));
        }
    }
    hw_ranges_clear(&set); /* a place that is not there any more */
    assert_false(hw_ranges_has_near(&set, 10, &(size_t){4}));
    hw_ranges_done(&set);
}

static void a_copy_is_equal_and_independent(void **state)
{
    hw_ranges set = HW_RANGES_INIT;
    hw_ranges copy = HW_RANGES_INIT;
    hw_ranges empty = HW_RANGES_INIT;

    (void)state;
    add(&set, 1, 2);
    add(&set, 5, 6);
    assert_int_equal(hw_ranges_copy(&copy, &set, NULL), HOWDAH_OK);
    take(&set, 1, 6);
    assert_ranges(&copy, {1, 2}, {5, 6});
    assert_int_equal(hw_ranges_copy(&copy, &empty, NULL), HOWDAH_OK);
    assert_empty(&copy);
    assert_int_equal(hw_ranges_copy(&empty, &copy, NULL), HOWDAH_OK);
    assert_null(empty.items);
    hw_ranges_done(&set);
    hw_ranges_done(&copy);
}

static void no_memory_leaves_the_set_as_it_was_and_reserved_room_cannot_fail(void **state)
{
    unit_allocator a;

    (void)state;
    for (unsigned n = 1; n <= 2; n++) {
        hw_ranges set = HW_RANGES_INIT;
        hw_ranges copy = HW_RANGES_INIT;

        unit_allocator_start(&a, n);
        for (int64_t i = 0; i < 8 && n > 1; i++)
            add(&set, 10 * i, 10 * i + 5);
        assert_int_equal(hw_ranges_add(&set, 100, 100, NULL), HOWDAH_NO_MEMORY);
        assert_i64_equal((int64_t)set.n, n == 1 ? 0 : 8);
        hw_ranges_done(&set);
        hw_ranges_done(&copy);
        unit_allocator_stop(&a);
    }
    unit_allocator_start(&a, 2);
    {
        hw_ranges set = HW_RANGES_INIT;
        hw_ranges copy = HW_RANGES_INIT;

        for (int64_t i = 0; i < 8; i++)
            add(&set, 10 * i, 10 * i + 5);
        assert_int_equal(hw_ranges_remove(&set, 2, 2, NULL), HOWDAH_NO_MEMORY);
        assert_ranges(&set, {0, 5}, {10, 15}, {20, 25}, {30, 35}, {40, 45}, {50, 55}, {60, 65},
                      {70, 75});
        a.fail_at = a.asked + 1;
        assert_int_equal(hw_ranges_copy(&copy, &set, NULL), HOWDAH_NO_MEMORY);
        assert_empty(&copy);
        assert_int_equal(hw_ranges_reserve(&set, 3, NULL), HOWDAH_OK);
        a.fail_at = a.asked + 1;
        take(&set, 2, 2);
        take(&set, 12, 12);
        add(&set, 100, 100);
        assert_i64_equal((int64_t)set.n, 11);
        hw_ranges_done(&set);
        hw_ranges_done(&copy);
    }
    unit_allocator_stop(&a);
    assert_int_equal(hw_ranges_reserve(&(hw_ranges)HW_RANGES_INIT, SIZE_MAX, NULL),
                     HOWDAH_NO_MEMORY);
}

enum { NUMBERS = 128 };

static void check_against_map(const hw_ranges *set, const bool *map)
{
    int64_t count = 0;

    for (int64_t i = 0; i < NUMBERS; i++) {
        assert_true(hw_ranges_has(set, i) == map[i]);
        count += map[i];
    }
    assert_i64_equal(hw_ranges_count(set), count);
    for (size_t i = 0; i < set->n; i++) {
        assert_true(set->items[i].first <= set->items[i].last);
        assert_true(i == 0 || set->items[i - 1].last + 1 < set->items[i].first);
    }
}

static void random_steps_agree_with_a_map_of_numbers(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int run = 0; run < 100; run++) {
        hw_ranges set = HW_RANGES_INIT;
        bool map[NUMBERS] = {false};

        for (int step = 0; step < 200; step++) {
            int64_t first;
            int64_t last;
            bool adds;

            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            first = (int64_t)(seed >> 33) % NUMBERS;
            last = first + (int64_t)(seed >> 50) % 9;
            adds = (seed >> 41) % 2 == 0;
            if (last >= NUMBERS)
                last = NUMBERS - 1;
            if (adds)
                add(&set, first, last);
            else
                take(&set, first, last);
            for (int64_t i = first; i <= last; i++)
                map[i] = adds;
            check_against_map(&set, map);
        }
        hw_ranges_done(&set);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_touch_or_overlap_become_one),
        cmocka_unit_test(what_is_removed_trims_splits_and_spans),
        cmocka_unit_test(a_million_numbers_are_one_range_and_the_ends_of_the_type_are_numbers_too),
        cmocka_unit_test(find_names_the_first_range_that_ends_at_or_above),
        cmocka_unit_test(to_ask_near_the_last_place_gives_the_same_answer_from_every_place),
        cmocka_unit_test(a_copy_is_equal_and_independent),
        cmocka_unit_test(no_memory_leaves_the_set_as_it_was_and_reserved_room_cannot_fail),
        cmocka_unit_test(random_steps_agree_with_a_map_of_numbers),
    };

    return cmocka_run_group_tests_name("ranges", tests, NULL, NULL);
}
