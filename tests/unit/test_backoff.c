/* test_backoff.c - how long to wait before the next try: a table of numbers. */
#include "unit.h"

#include "engine/backoff.h"

/* The first four rows are "retry_delay_calculation" of the reliability plan. */
static void delays_double_up_to_the_maximum(void **state)
{
    static const struct {
        unsigned attempt;
        int64_t ms;
    } rows[] = {
        {0, 1000},   {1, 2000},   {2, 4000},   {10, 60000},          {3, 8000},
        {4, 16000},  {5, 32000},  {6, 60000},  {62, 60000},          {63, 60000},
        {64, 60000}, {65, 60000}, {96, 60000}, {4000000000u, 60000}, {UINT32_MAX, 60000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_i64_equal(hw_backoff_ms(1000, 60000, rows[i].attempt, 0, 12345), rows[i].ms);
}

static void no_combination_overflows(void **state)
{
    static const int64_t initials[] = {1, 3, 1000, INT64_MAX / 2, INT64_MAX};
    static const uint32_t randoms[] = {0, 1, UINT32_MAX / 2, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(initials); i++) {
        for (unsigned attempt = 0; attempt < 130; attempt++) {
            assert_true(hw_backoff_ms(initials[i], INT64_MAX, attempt, 0, 0) >= initials[i]);
            for (size_t k = 0; k < COUNT_OF(randoms); k++)
                assert_true(hw_backoff_ms(initials[i], INT64_MAX, attempt, 100, randoms[k]) >= 0);
        }
    }
    assert_i64_equal(hw_backoff_ms(1, INT64_MAX, 62, 0, 0), INT64_C(1) << 62);
    assert_i64_equal(hw_backoff_ms(1, INT64_MAX, 63, 0, 0), INT64_MAX);
    assert_i64_equal(hw_backoff_ms(INT64_MAX, INT64_MAX, 0, 100, UINT32_MAX), INT64_MAX);
}

static void jitter_spreads_evenly_to_both_sides(void **state)
{
    static const struct {
        unsigned percent;
        uint32_t random;
        int64_t ms;
    } rows[] = {
        {20, 0, 800},
        {20, UINT32_MAX, 1200},
        {20, 0x80000000u, 1000},
        {50, 0, 500},
        {50, UINT32_MAX, 1500},
        {100, 0, 0},
        {100, UINT32_MAX, 2000},
        {1000, UINT32_MAX, 2000},
        {0, UINT32_MAX, 1000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_i64_equal(hw_backoff_ms(1000, 60000, 0, rows[i].percent, rows[i].random),
                         rows[i].ms);
}

static void a_maximum_below_the_initial_delay_wins(void **state)
{
    (void)state;
    assert_i64_equal(hw_backoff_ms(1000, 300, 0, 0, 0), 300);
    assert_i64_equal(hw_backoff_ms(1000, 1000, 0, 0, 0), 1000);
    assert_i64_equal(hw_backoff_ms(0, 1000, 5, 50, 7), 0);
    assert_i64_equal(hw_backoff_ms(-5, 1000, 5, 50, 7), 0);
    assert_i64_equal(hw_backoff_ms(1000, 0, 5, 50, 7), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(delays_double_up_to_the_maximum),
        cmocka_unit_test(no_combination_overflows),
        cmocka_unit_test(jitter_spreads_evenly_to_both_sides),
        cmocka_unit_test(a_maximum_below_the_initial_delay_wins),
    };

    return cmocka_run_group_tests_name("backoff", tests, NULL, NULL);
}
