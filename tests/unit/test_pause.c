/* test_pause.c - when the bell is armed, and how long pauses are. */
#include "unit.h"

#include "engine/pause.h"

#define MAX_US 250000

static const hw_pause_rules rules = {
    .short_us_min = 250,
    .short_us_max = 1000,
    .armed_us = 2000,
    .armed_growth = 4,
    .rare_hold_off_us = HW_PAUSE_HOLD_OFF_US,
};

/* Things that come this far apart; returns when the last one came. */
static int64_t steady(hw_pause *pause, int64_t gap_us)
{
    int64_t now_us = 1000000;

    hw_pause_init(pause, &rules, 0);
    for (int i = 0; i < 100; i++)
        hw_pause_event(pause, now_us += gap_us, true);
    return now_us;
}

static void a_look_is_due_four_times_between_two_things(void **state)
{
    static const struct {
        int64_t gap_us;
        int64_t pause_us;
    } rows[] = {{10, 250}, {1000, 250}, {2000, 500}, {3900, 974}, {5000, 1000}, {1000000, 1000}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_pause pause;

        (void)steady(&pause, rows[i].gap_us);
        assert_i64_equal(pause.pause_us, rows[i].pause_us);
    }
}

static void the_bell_is_armed_at_once_where_things_are_rare(void **state)
{
    hw_pause pause;
    int64_t now_us = steady(&pause, 2 * HW_PAUSE_RARE_US);

    (void)state;
    assert_true(hw_pause_is_quiet(&pause, now_us));
}

static void under_traffic_the_bell_is_armed_after_the_hold_off(void **state)
{
    hw_pause pause;
    int64_t now_us = steady(&pause, 500);

    (void)state;
    assert_false(hw_pause_is_quiet(&pause, now_us));
    assert_false(hw_pause_is_quiet(&pause, now_us + HW_PAUSE_HOLD_OFF_US - 1));
    assert_true(hw_pause_is_quiet(&pause, now_us + HW_PAUSE_HOLD_OFF_US));
    hw_pause_event(&pause, now_us + HW_PAUSE_HOLD_OFF_US, false);
    assert_false(hw_pause_is_quiet(&pause, now_us + HW_PAUSE_HOLD_OFF_US));
}

static void one_long_silence_does_not_make_traffic_rare(void **state)
{
    hw_pause pause;
    int64_t now_us = steady(&pause, 10) + 3600LL * 1000000;

    (void)state;
    hw_pause_event(&pause, now_us, true);
    assert_i64_equal(pause.gap_us, 3000 + 7); /* a fourth of the longest gap there is */
    hw_pause_event(&pause, now_us + 10, true);
    assert_false(hw_pause_is_quiet(&pause, now_us + 10));
}

static void pauses_do_not_grow_before_the_hold_off(void **state)
{
    hw_pause pause;
    int64_t now_us = steady(&pause, 500);

    (void)state;
    hw_pause_grow(&pause, now_us + HW_PAUSE_HOLD_OFF_US - 1, MAX_US);
    assert_i64_equal(pause.pause_us, 250);
    hw_pause_grow(&pause, now_us + HW_PAUSE_HOLD_OFF_US, MAX_US);
    assert_i64_equal(pause.pause_us, 500);
}

static void whoever_wants_lets_them_grow_at_once_where_things_are_rare(void **state)
{
    hw_pause_rules eager = rules;
    hw_pause pause;
    int64_t now_us = steady(&pause, 2 * HW_PAUSE_RARE_US);

    (void)state;
    hw_pause_grow(&pause, now_us, MAX_US);
    assert_i64_equal(pause.pause_us, 1000);
    eager.rare_hold_off_us = 0;
    pause.rules = &eager;
    hw_pause_grow(&pause, now_us, MAX_US);
    assert_i64_equal(pause.pause_us, 2000);
}

static void armed_pauses_grow_up_to_the_maximum(void **state)
{
    static const int64_t us[] = {2000, 8000, 32000, 128000, MAX_US, MAX_US};
    hw_pause pause;
    int64_t now_us = steady(&pause, 2 * HW_PAUSE_RARE_US);

    (void)state;
    hw_pause_arm(&pause);
    for (size_t i = 0; i < COUNT_OF(us); i++) {
        assert_i64_equal(pause.pause_us, us[i]);
        hw_pause_grow(&pause, now_us, MAX_US);
    }
}

static void a_ring_disarms_and_makes_pauses_short(void **state)
{
    hw_pause pause;
    int64_t now_us = steady(&pause, 2 * HW_PAUSE_RARE_US);

    (void)state;
    hw_pause_arm(&pause);
    hw_pause_grow(&pause, now_us, MAX_US);
    hw_pause_ring(&pause);
    assert_false(pause.armed);
    assert_i64_equal(pause.pause_us, 1000);
    assert_i64_equal(pause.event_us, now_us);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_is_due_four_times_between_two_things),
        cmocka_unit_test(the_bell_is_armed_at_once_where_things_are_rare),
        cmocka_unit_test(under_traffic_the_bell_is_armed_after_the_hold_off),
        cmocka_unit_test(one_long_silence_does_not_make_traffic_rare),
        cmocka_unit_test(pauses_do_not_grow_before_the_hold_off),
        cmocka_unit_test(whoever_wants_lets_them_grow_at_once_where_things_are_rare),
        cmocka_unit_test(armed_pauses_grow_up_to_the_maximum),
        cmocka_unit_test(a_ring_disarms_and_makes_pauses_short),
    };

    return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
