/* test_still_holes.c - numbers that stand still, and what has left them. */
#include "unit.h"

#include "engine/still_holes.h"

static hw_ranges set_of(const hw_range *items, size_t n)
{
    hw_ranges set = HW_RANGES_INIT;

    for (size_t i = 0; i < n; i++)
        assert_int_equal(hw_ranges_add(&set, items[i].first, items[i].last, NULL), HOWDAH_OK);
    return set;
}

#define SET(...) set_of((hw_range[]){__VA_ARGS__}, COUNT_OF(((hw_range[]){__VA_ARGS__})))

static void a_set_takes_its_ranges_over_and_is_freed_by_the_last(void **state)
{
    hw_ranges ranges = SET({3, 4}, {9, 9});
    hw_still *still = NULL;
    hw_still *shared;

    (void)state;
    assert_int_equal(hw_still_new(&ranges, 5, &still, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)ranges.n, 0);
    assert_null(ranges.items);
    shared = hw_still_share(still);
    assert_ptr_equal(shared, still);
    hw_still_drop(still);
    assert_true(hw_ranges_has(hw_still_ranges(shared), 9));
    assert_false(hw_ranges_has(hw_still_ranges(shared), 5));
    hw_still_drop(shared);
}

static void none_is_a_set_without_numbers(void **state)
{
    (void)state;
    assert_i64_equal((int64_t)hw_still_ranges(NULL)->n, 0);
    assert_null(hw_still_share(NULL));
    hw_still_drop(NULL);
}

static void what_became_visible_is_told_by_versions(void **state)
{
    hw_late late;
    hw_ranges a = SET({5, 6});
    hw_ranges b = SET({1, 1}, {9, 9});
    hw_ranges out = HW_RANGES_INIT;

    (void)state;
    hw_late_init(&late, 10);
    hw_late_note(&late, 11, &a);
    hw_late_note(&late, 13, &b);
    assert_int_equal(hw_late_between(&late, 10, 13, &out, NULL), HOWDAH_OK);
    assert_i64_equal(hw_ranges_count(&out), 4);
    assert_int_equal(hw_late_between(&late, 11, 13, &out, NULL), HOWDAH_OK);
    assert_i64_equal(hw_ranges_count(&out), 2);
    assert_false(hw_ranges_has(&out, 5));
    assert_int_equal(hw_late_between(&late, 10, 12, &out, NULL), HOWDAH_OK);
    assert_i64_equal(hw_ranges_count(&out), 2);
    assert_true(hw_ranges_has(&out, 5));
    assert_int_equal(hw_late_between(&late, 13, 13, &out, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)out.n, 0);
    hw_ranges_done(&out);
    hw_ranges_done(&a);
    hw_ranges_done(&b);
    hw_late_done(&late);
}

static void of_versions_before_nothing_is_known(void **state)
{
    hw_late late;
    hw_ranges out = HW_RANGES_INIT;

    (void)state;
    hw_late_init(&late, 10);
    assert_int_equal(hw_late_between(&late, 9, 12, &out, NULL), HOWDAH_END);
    assert_int_equal(hw_late_between(&late, 0, 12, &out, NULL), HOWDAH_END); /* as it was stored */
    assert_int_equal(hw_late_between(&late, 10, 12, &out, NULL), HOWDAH_OK);
    hw_late_done(&late);
    hw_ranges_done(&out);
}

static void too_much_is_forgotten_and_said_to_be(void **state)
{
    hw_late late;
    hw_ranges one = SET({7, 7});
    hw_ranges out = HW_RANGES_INIT;

    (void)state;
    hw_late_init(&late, 1);
    for (uint64_t version = 2; version <= HW_LATE_MAX + 1; version++)
        hw_late_note(&late, version, &one);
    assert_int_equal(hw_late_between(&late, 1, HW_LATE_MAX + 1, &out, NULL), HOWDAH_OK);
    hw_late_note(&late, HW_LATE_MAX + 2, &one);
    assert_int_equal(hw_late_between(&late, HW_LATE_MAX + 1, HW_LATE_MAX + 2, &out, NULL),
                     HOWDAH_END);
    assert_int_equal(hw_late_between(&late, HW_LATE_MAX + 2, HW_LATE_MAX + 2, &out, NULL),
                     HOWDAH_OK);
    hw_late_done(&late);
    hw_ranges_done(&out);
    hw_ranges_done(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_takes_its_ranges_over_and_is_freed_by_the_last),
        cmocka_unit_test(none_is_a_set_without_numbers),
        cmocka_unit_test(what_became_visible_is_told_by_versions),
        cmocka_unit_test(of_versions_before_nothing_is_known),
        cmocka_unit_test(too_much_is_forgotten_and_said_to_be),
    };

    return cmocka_run_group_tests_name("still", tests, NULL, NULL);
}
