/* test_subscription_state.c - a subscription's life, and the round that its work makes. */
#include "unit.h"

#include "bus/subscription/subscription.h"

static void only_an_owner_that_has_read_becomes_live(void **state)
{
    (void)state;
    for (int from = 0; from < HW_STATES; from++)
        assert_int_equal(hw_sub_may_move((hw_sub_state)from, HW_STATE_LIVE),
                         from == HW_STATE_CATCHING_UP);
}

static void every_state_leads_out(void **state)
{
    (void)state;
    for (int from = 0; from < HW_STATES; from++)
        assert_int_equal(hw_sub_may_move((hw_sub_state)from, HW_STATE_OUT), from != HW_STATE_OUT);
}

static void what_was_stopped_does_not_go_on_without_being_taken_again(void **state)
{
    static const hw_sub_state stopped[] = {HW_STATE_PAUSED, HW_STATE_HALTED, HW_STATE_ENDED};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(stopped); i++) {
        assert_false(hw_sub_may_move(stopped[i], HW_STATE_TAKEN));
        assert_false(hw_sub_may_move(stopped[i], HW_STATE_CATCHING_UP));
    }
    assert_false(hw_sub_may_move(HW_STATE_LIVE, HW_STATE_ENDED));
}

static void who_has_read_nothing_yet_stays_so_when_a_page_is_given_up(void **state)
{
    howdah_subscription sub = {.state = HW_STATE_OUT};

    (void)state;
    hw_sub_move(&sub, HW_STATE_TAKEN);
    hw_sub_catch_up(&sub, 7);
    assert_int_equal(hw_sub_state_of(&sub), HW_STATE_TAKEN);
    assert_i64_equal(sub.schedule.rest_ms, 7);
    hw_sub_move(&sub, HW_STATE_CATCHING_UP);
    hw_sub_go_live(&sub, 3);
    assert_i64_equal(sub.reading.next_page, 3);
    hw_sub_catch_up(&sub, 0);
    assert_int_equal(hw_sub_state_of(&sub), HW_STATE_CATCHING_UP);
}

static void work_is_busy_until_it_is_collected(void **state)
{
    howdah_subscription sub = {.state = HW_STATE_LIVE};

    (void)state;
    hw_sub_work_begin(&sub, HW_WORK_DEAD_LETTERS, NULL);
    assert_false(hw_sub_is_busy(&sub));
    hw_sub_work_hand_out(&sub);
    assert_true(hw_sub_is_busy(&sub));
    hw_sub_move(&sub,
                HW_STATE_CATCHING_UP); /* what is handed out may lose its page of the window */
    assert_true(hw_sub_is_busy(&sub));
    hw_sub_work_collect(&sub);
    assert_false(hw_sub_is_busy(&sub));
    assert_int_equal(sub.work.kind, HW_WORK_DEAD_LETTERS);
}

static void the_gravest_end_of_work_counts(void **state)
{
    howdah_subscription sub = {.state = HW_STATE_LIVE};

    (void)state;
    hw_sub_work_begin(&sub, HW_WORK_DEAD_LETTERS, NULL);
    assert_int_equal(sub.work.end, HW_END_EARLY);
    hw_sub_work_end_as(&sub, HW_END_PASSED);
    assert_int_equal(sub.work.end, HW_END_PASSED);
    hw_sub_work_end_as(&sub, HW_END_RELOAD);
    hw_sub_work_end_as(&sub, HW_END_HALT);
    assert_int_equal(sub.work.end, HW_END_RELOAD);
    hw_sub_work_clear(&sub);
    assert_int_equal(sub.work.end, HW_END_EARLY);
    assert_int_equal(sub.work.kind, HW_WORK_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_an_owner_that_has_read_becomes_live),
        cmocka_unit_test(every_state_leads_out),
        cmocka_unit_test(what_was_stopped_does_not_go_on_without_being_taken_again),
        cmocka_unit_test(who_has_read_nothing_yet_stays_so_when_a_page_is_given_up),
        cmocka_unit_test(work_is_busy_until_it_is_collected),
        cmocka_unit_test(the_gravest_end_of_work_counts),
    };

    return cmocka_run_group_tests_name("subscription_state", tests, NULL, NULL);
}
