/* test_delivery.c - the state of one subscription, step by step. */
#include "unit.h"

#include "delivery_help.h"

#define BATCHED .mode = HOWDAH_CHECKPOINT_BATCHED

/* ------------------------------------------------------------------ the healthy path */

static void rows_in_a_row_are_delivered_and_nothing_is_outstanding(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    for (int64_t i = 1; i <= 100; i++) {
        assert_int_equal(offer(&d, i, "s"), HW_OFFER_DELIVER);
        assert_outstanding(&d, {i, i});
        assert_i64_equal(hw_delivery_contiguous(&d), i - 1);
        handled(&d, i);
        assert_owes_nothing(&d);
    }
    assert_i64_equal(d.high, 100);
    assert_i64_equal(hw_delivery_contiguous(&d), 100);
    assert_i64_equal(d.unsaved, 100);
    assert_i64_equal(d.last_sequence, 100);
    hw_delivery_done(&d);
}

static void the_healthy_path_allocates_nothing_once_it_runs(void **state)
{
    unit_allocator a;
    hw_delivery d;
    unsigned asked = 0;

    (void)state;
    unit_allocator_start(&a, 0);
    start(&d, &(hw_delivery_config){BATCHED});
    for (int64_t i = 1; i <= 1000; i++) {
        if (i == 3) /* missing and its spare have changed places */
            asked = a.asked;
        assert_int_equal(offer(&d, i, "s"), HW_OFFER_DELIVER);
        handled(&d, i);
        pass(&d, i, NULL, 0);
    }
    assert_int_equal(a.asked, asked);
    hw_delivery_done(&d);
    unit_allocator_stop(&a);
}

static void what_does_not_match_is_done_at_once(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer_other(&d, 1), HW_OFFER_SKIP);
    assert_i64_equal(d.high, 1);
    assert_owes_nothing(&d);
    assert_true(d.moved);
    assert_i64_equal(d.unsaved, 0);
    hw_delivery_done(&d);
}

static void a_number_is_accepted_once(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 3, "s"), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_int_equal(offer(&d, 3, "s"), HW_OFFER_SKIP);
    assert_outstanding(&d, {1, 2});
    assert_int_equal(offer(&d, 2, "s"), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_int_equal(offer(&d, 2, "s"), HW_OFFER_SKIP);
    assert_outstanding(&d, {1, 1});
    assert_i64_equal(d.high, 3);
    hw_delivery_done(&d);
}

/* ---------------------------------------------------------------------- holes, pass */

static void a_gap_counts_as_missing_until_a_pass_says_what_is_a_hole(void **state)
{
    const hw_hole holes[] = {{3, 3, 0}, {8, 9, 0}, {20, 30, 0}};
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 5, "s"), HW_OFFER_DELIVER);
    handled(&d, 5);
    assert_int_equal(offer_other(&d, 7), HW_OFFER_SKIP);
    assert_outstanding(&d, {1, 4}, {6, 6});
    pass(&d, 25, holes, 3);
    assert_i64_equal(d.high, 25);
    assert_outstanding(&d, {3, 3}, {8, 9}, {20, 25});
    assert_i64_equal(hw_delivery_contiguous(&d), 2);
    /* 8 has appeared, 3 is proven dead: the next page has 8 in it. */
    assert_int_equal(offer(&d, 8, "s"), HW_OFFER_DELIVER);
    handled(&d, 8);
    pass(&d, 25, (const hw_hole[]){{9, 9, 0}, {20, 30, 0}}, 2);
    assert_outstanding(&d, {9, 9}, {20, 25});
    pass(&d, 40, NULL, 0);
    assert_owes_nothing(&d);
    assert_i64_equal(d.high, 40);
    hw_delivery_done(&d);
}

/* As a pass up to the last row would, but the state stays as it is. */
static void amid_a_page_only_its_holes_and_what_was_missing_before_are_outstanding(void **state)
{
    const hw_hole holes[] = {{2, 2, 0}, {8, 9, 0}, {20, 30, 0}};
    const hw_range before[] = {{2, 3}, {5, 5}};
    hw_ranges out = HW_RANGES_INIT;
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(hw_delivery_load(&d, 5, before, 2, 0, NULL), HOWDAH_OK);
    assert_int_equal(offer(&d, 3, "s"), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_int_equal(offer(&d, 12, "s"), HW_OFFER_DELIVER); /* 6 to 11 are not looked at yet, */
    handled(&d, 12);
    assert_int_equal(hw_delivery_outstanding_amid(&d, 5, holes, 3, &out, NULL), HOWDAH_OK);
    assert_int_equal(out.n, 3);
    assert_i64_equal(out.items[0].last, 2);
    assert_i64_equal(out.items[1].first, 5);
    assert_i64_equal(out.items[1].last, 5); /* which touches the next one */
    assert_i64_equal(out.items[2].first, 8);
    assert_i64_equal(out.items[2].last, 9);
    assert_outstanding(&d, {2, 2}, {5, 11});
    hw_ranges_done(&out);
    hw_delivery_done(&d);
}

static void a_pass_decides_nothing_above_its_end_and_never_goes_back(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 4, "s"), HW_OFFER_DELIVER);
    handled(&d, 4);
    assert_int_equal(offer(&d, 10, "s"), HW_OFFER_DELIVER);
    handled(&d, 10);
    assert_outstanding(&d, {1, 3}, {5, 9});
    pass(&d, 6, (const hw_hole[]){{2, 2, 0}}, 1);
    assert_i64_equal(d.high, 10);
    assert_outstanding(&d, {2, 2}, {7, 9});
    /* Nor of a range above that lies in a hole which begins below. */
    pass(&d, 6, (const hw_hole[]){{4, 9, 0}}, 1);
    assert_outstanding(&d, {7, 9});
    hw_delivery_done(&d);
}

static void a_hole_below_high_that_was_handled_is_not_outstanding_again(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    for (int64_t i = 1; i <= 3; i++) {
        assert_int_equal(offer(&d, i, "s"), HW_OFFER_DELIVER);
        handled(&d, i);
    }
    /* An older look at the frontier still has 2 as a hole. */
    pass(&d, 3, (const hw_hole[]){{2, 2, 0}}, 1);
    assert_owes_nothing(&d);
    hw_delivery_done(&d);
}

static void wanted_is_what_is_missing_and_what_is_above(void **state)
{
    const hw_hole holes[] = {{3, 3, 0}, {12, 13, 0}};
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_wanted(&d, 20, NULL, 0, {1, 20});
    pass(&d, 10, holes, 2);
    assert_wanted(&d, 20, holes, 2, {3, 3}, {11, 20});
    assert_wanted(&d, 10, holes, 2, {3, 3});
    /* Where the frontier is not known nothing can be told from a missing row. */
    assert_wants_nothing(&d, 2, holes, 2);
    assert_wanted(&d, 3, holes, 2, {3, 3});
    pass(&d, 10, NULL, 0);
    assert_wants_nothing(&d, 10, NULL, 0);
    hw_delivery_done(&d);
}

/* ------------------------------------------------------------------ failures, streams */

static void a_failed_event_holds_its_stream_and_no_other(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_HELD);
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_int_equal(offer(&d, 4, "a"), HW_OFFER_HELD);
    assert_outstanding(&d, {1, 2}, {4, 4});
    assert_due(&d, 999); /* nothing before its time */
    assert_due(&d, 1000, 1);
    assert_i64_equal(hw_delivery_next_ms(&d), 1000);
    assert_int_equal(retry(&d, 2), HW_OFFER_SKIP);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    handled(&d, 1);
    /* Those behind are free, all of them in one page. */
    assert_due(&d, 0, 2, 4);
    assert_int_equal(retry(&d, 2), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_int_equal(offer(&d, 5, "a"), HW_OFFER_HELD);
    assert_int_equal(retry(&d, 4), HW_OFFER_DELIVER);
    handled(&d, 4);
    assert_due(&d, 0, 5);
    assert_int_equal(retry(&d, 5), HW_OFFER_DELIVER);
    handled(&d, 5);
    assert_owes_nothing(&d);
    assert_i64_equal((int64_t)d.retries_n, 0);
    assert_i64_equal((int64_t)d.waiting, 0);
    assert_int_equal(offer(&d, 6, "a"), HW_OFFER_DELIVER);
    handled(&d, 6);
    hw_delivery_done(&d);
}

static void a_follower_that_fails_holds_those_behind_it(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_HELD);
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_HELD);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    handled(&d, 1);
    assert_due(&d, 0, 2, 3);
    assert_int_equal(retry(&d, 2), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 2, "a"), HW_FAILED_RETRY);
    assert_int_equal(retry(&d, 3), HW_OFFER_SKIP);
    assert_due(&d, 0);
    assert_due(&d, 1000, 2);
    assert_outstanding(&d, {2, 3});
    hw_delivery_done(&d);
}

static void an_earlier_event_of_a_stream_that_stands_still_goes_first(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 5, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 5, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 7, "a"), HW_OFFER_HELD);
    assert_int_equal(offer(&d, 6, "a"), HW_OFFER_HELD);
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 3, "a"), HW_FAILED_RETRY);
    assert_due(&d, 1000, 3);
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_int_equal(retry(&d, 3), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_due(&d, 0, 5, 6, 7);
    assert_outstanding(&d, {1, 1}, {4, 7});
    hw_delivery_done(&d);
}

static void retries_follow_the_schedule_and_end_in_a_dead_letter(void **state)
{
    static const int64_t delays[] = {1000, 2000, 4000, 5000, 5000};
    hw_delivery d;
    int64_t now_ms = 50;
    hw_failed what = HW_FAILED_HALT;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .max_retries = 5, .max_retry_delay_ms = 5000});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    for (size_t i = 0; i < COUNT_OF(delays); i++) {
        assert_int_equal(hw_delivery_failed(&d, 1, hw_str_of("a"), now_ms, 0, &what, NULL),
                         HOWDAH_OK);
        assert_int_equal(what, HW_FAILED_RETRY);
        assert_i64_equal(hw_delivery_next_ms(&d), now_ms + delays[i]);
        now_ms += delays[i];
        assert_due(&d, now_ms - 1);
        assert_due(&d, now_ms, 1);
        assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
        assert_int_equal(d.in_hand_attempts, i + 1);
    }
    assert_int_equal(hw_delivery_failed(&d, 1, hw_str_of("a"), now_ms, 0, &what, NULL), HOWDAH_OK);
    assert_int_equal(what, HW_FAILED_DEAD_LETTER);
    assert_outstanding(&d, {1, 1});
    assert_outstanding_without(&d, 1, 1);
    assert_int_equal(hw_delivery_dead_lettered(&d, 1, now_ms, NULL), HOWDAH_OK);
    assert_owes_nothing(&d);
    assert_false(d.moved);
    assert_i64_equal(hw_delivery_next_ms(&d), INT64_MAX);
    hw_delivery_done(&d);
}

static void no_attempt_is_too_many_for_the_schedule(void **state)
{
    hw_delivery d;
    hw_failed what = HW_FAILED_HALT;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .max_retries = UINT32_MAX,
                                    .max_retry_delay_ms = INT64_MAX});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(hw_delivery_failed(&d, 1, hw_str_of("a"), INT64_MAX / 2, 0, &what, NULL),
                         HOWDAH_OK);
        assert_int_equal(what, HW_FAILED_RETRY);
        assert_true(hw_delivery_next_ms(&d) > INT64_MAX / 2);
        assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    }
    d.in_hand_attempts = UINT32_MAX;
    assert_int_equal(hw_delivery_failed(&d, 1, hw_str_of("a"), INT64_MAX - 1, 0, &what, NULL),
                     HOWDAH_OK);
    assert_i64_equal(hw_delivery_next_ms(&d), INT64_MAX);
    assert_int_equal(d.retries[0].attempts, UINT32_MAX);
    hw_delivery_done(&d);
}

static void jitter_comes_from_the_caller(void **state)
{
    hw_delivery d;
    hw_failed what = HW_FAILED_HALT;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .jitter_percent = 20});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(hw_delivery_failed(&d, 1, hw_str_of("a"), 0, UINT32_MAX, &what, NULL),
                     HOWDAH_OK);
    assert_i64_equal(hw_delivery_next_ms(&d), 1200);
    hw_delivery_done(&d);
}

static void a_dead_letter_frees_its_stream(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .max_retries = 1});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_HELD);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_DEAD_LETTER);
    assert_outstanding_without(&d, 1, 1, {2, 2});
    assert_int_equal(hw_delivery_dead_lettered(&d, 1, 0, NULL), HOWDAH_OK);
    assert_due(&d, 0, 2);
    assert_int_equal(retry(&d, 2), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_owes_nothing(&d);
    hw_delivery_done(&d);
}

static void fail_closed_halts_and_the_event_stays_outstanding(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .max_retries = HELP_NONE, .fail_closed = true});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_HALT);
    assert_outstanding(&d, {1, 1});
    /* Resumed, it is the first to be tried, as if for the first time. */
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_HELD);
    assert_due(&d, 0, 1, 2);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    assert_int_equal(d.in_hand_attempts, 0);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_HALT);
    assert_int_equal(hw_delivery_load(&d, 1, (const hw_range[]){{1, 1}}, 1, 0, NULL), HOWDAH_OK);
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(d.in_hand_attempts, 0);
    handled(&d, 1);
    hw_delivery_done(&d);
}

static void what_is_put_back_is_due_at_once_and_was_no_attempt(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(hw_delivery_put_back(&d, 1, hw_str_of("a"), 30, NULL), HOWDAH_OK);
    assert_outstanding(&d, {1, 1});
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_HELD);
    assert_i64_equal(hw_delivery_next_ms(&d), 30);
    assert_due(&d, 30, 1, 2);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    assert_int_equal(d.in_hand_attempts, 0);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    assert_int_equal(d.in_hand_attempts, 1);
    assert_int_equal(hw_delivery_put_back(&d, 1, hw_str_of("a"), 40, NULL), HOWDAH_OK);
    assert_due(&d, 40, 1);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    assert_int_equal(d.in_hand_attempts, 1);
    handled(&d, 1);
    hw_delivery_done(&d);
}

static void due_names_the_lowest_that_there_is_room_for(void **state)
{
    hw_delivery d;
    int64_t out[3];

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    for (int64_t i = 1; i <= 6; i++) {
        const char *stream = i <= 3 ? "a" : i == 4 ? "d" : "e";

        if (offer(&d, i, stream) == HW_OFFER_DELIVER)
            assert_int_equal(hw_delivery_put_back(&d, i, hw_str_of(stream), 0, NULL), HOWDAH_OK);
    }
    assert_due(&d, 0, 1, 2, 3, 4, 5, 6);
    assert_i64_equal((int64_t)hw_delivery_due(&d, 0, out, 3), 3);
    assert_i64_equal(out[0], 1);
    assert_i64_equal(out[2], 3);
    assert_i64_equal((int64_t)hw_delivery_due(&d, 0, out, 0), 0);
    hw_delivery_done(&d);
}

/* ------------------------------------------------------------------------- strict */

static void strict_ordering_waits_for_holes(void **state)
{
    const hw_hole holes[] = {{2, 3, 0}, {6, 6, 0}};
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .ordering = HOWDAH_ORDERING_STRICT});
    assert_wanted(&d, 9, holes, 2, {1, 3});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    handled(&d, 1);
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_WAIT);
    assert_i64_equal(d.high, 1);
    pass(&d, 2, holes, 2);
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_WAIT);
    /* 2 is proven dead, 3 has appeared. */
    assert_wanted(&d, 9, holes + 1, 1, {2, 6});
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_WAIT);
    pass(&d, 2, holes + 1, 1);
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_int_equal(offer(&d, 5, "b"), HW_OFFER_WAIT);
    pass(&d, 4, holes + 1, 1);
    assert_int_equal(offer(&d, 5, "b"), HW_OFFER_DELIVER);
    handled(&d, 5);
    assert_int_equal(offer(&d, 7, "b"), HW_OFFER_WAIT);
    pass(&d, 6, holes + 1, 1);
    assert_outstanding(&d, {6, 6});
    assert_wanted(&d, 9, holes + 1, 1, {6, 6});
    assert_int_equal(offer(&d, 7, "b"), HW_OFFER_WAIT);
    assert_int_equal(offer(&d, 6, "b"), HW_OFFER_DELIVER);
    handled(&d, 6);
    assert_wanted(&d, 9, NULL, 0, {7, 9});
    assert_int_equal(offer(&d, 7, "b"), HW_OFFER_DELIVER);
    handled(&d, 7);
    hw_delivery_done(&d);
}

static void strict_ordering_waits_for_a_failed_event_of_any_stream(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .ordering = HOWDAH_ORDERING_STRICT});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_wants_nothing(&d, 9, NULL, 0);
    assert_int_equal(offer(&d, 2, "b"), HW_OFFER_WAIT);
    assert_int_equal(offer_other(&d, 2), HW_OFFER_SKIP);
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_WAIT);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    handled(&d, 1);
    assert_wanted(&d, 9, NULL, 0, {3, 9});
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_owes_nothing(&d);
    hw_delivery_done(&d);
}

/* ------------------------------------------------------------------------- bounds */

static void too_many_ranges_stop_what_would_add_one(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .outstanding_max = 3});
    assert_int_equal(offer_other(&d, 11), HW_OFFER_SKIP); /* 1..10 missing */
    assert_int_equal(offer(&d, 13, "a"), HW_OFFER_DELIVER);
    handled(&d, 13);
    assert_outstanding(&d, {1, 10}, {12, 12});
    assert_wanted(&d, 20, NULL, 0, {1, 10}, {12, 12}); /* a gap and an event might be too much */
    assert_int_equal(offer(&d, 15, "a"), HW_OFFER_WAIT);
    assert_int_equal(offer(&d, 14, "a"), HW_OFFER_DELIVER);
    handled(&d, 14);
    assert_int_equal(offer_other(&d, 16), HW_OFFER_SKIP);
    assert_outstanding(&d, {1, 10}, {12, 12}, {15, 15});
    assert_int_equal(offer(&d, 17, "a"), HW_OFFER_WAIT);
    assert_int_equal(offer_other(&d, 18), HW_OFFER_WAIT);
    assert_int_equal(offer_other(&d, 17), HW_OFFER_SKIP);
    /* Inside a range: a split is one range more. */
    assert_int_equal(offer(&d, 5, "a"), HW_OFFER_WAIT);
    assert_int_equal(offer_other(&d, 5), HW_OFFER_WAIT);
    /* At its edge there is a way out, for one event at a time. */
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_i64_equal((int64_t)(d.missing.n + d.pending.n), 4);
    assert_int_equal(offer(&d, 2, "b"), HW_OFFER_WAIT);
    assert_int_equal(offer_other(&d, 2), HW_OFFER_SKIP);
    assert_int_equal(offer(&d, 12, "b"), HW_OFFER_DELIVER); /* a range for a range */
    handled(&d, 12);
    assert_int_equal(retry(&d, 1), HW_OFFER_DELIVER);
    handled(&d, 1);
    assert_int_equal(offer(&d, 3, "b"), HW_OFFER_DELIVER);
    handled(&d, 3);
    assert_outstanding(&d, {4, 10}, {15, 15});
    hw_delivery_done(&d);
}

static void a_pass_stops_before_the_hole_that_is_too_many(void **state)
{
    const hw_hole holes[] = {{2, 2, 0}, {4, 4, 0}, {6, 6, 0}, {8, 8, 0}};
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .outstanding_max = 2});
    pass(&d, 9, holes, 4);
    assert_i64_equal(d.high, 5);
    assert_outstanding(&d, {2, 2}, {4, 4});
    assert_wanted(&d, 9, holes, 4, {2, 2}, {4, 4});
    pass(&d, 9, holes + 1, 3);
    assert_i64_equal(d.high, 7);
    assert_outstanding(&d, {4, 4}, {6, 6});
    pass(&d, 9, NULL, 0);
    assert_i64_equal(d.high, 9);
    assert_owes_nothing(&d);
    hw_delivery_done(&d);
}

static void a_bound_too_low_to_go_on_with_is_raised(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .outstanding_max = 1});
    assert_wanted(&d, 9, NULL, 0, {1, 9});
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_outstanding(&d, {1, 1});
    hw_delivery_done(&d);
}

static void too_many_events_that_are_not_handled_stop_further_ones(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .pending_max = 3});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 1, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 2, "b"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 2, "b"), HW_FAILED_RETRY);
    assert_wanted(&d, 9, NULL, 0, {3, 9});
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_HELD);
    assert_int_equal(offer(&d, 4, "c"), HW_OFFER_WAIT);
    assert_int_equal(offer(&d, 4, "a"), HW_OFFER_WAIT);
    assert_int_equal(offer_other(&d, 4), HW_OFFER_SKIP);
    assert_wants_nothing(&d, 9, NULL, 0);
    assert_int_equal(retry(&d, 2), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_int_equal(offer(&d, 5, "c"), HW_OFFER_DELIVER);
    handled(&d, 5);
    assert_outstanding(&d, {1, 1}, {3, 3});
    hw_delivery_done(&d);
}

/* --------------------------------------------------------------------- checkpoints */

static void synchronous_checkpoints_are_due_after_every_event(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){.mode = HOWDAH_CHECKPOINT_SYNC, .max_delay_ms = 100});
    assert_false(hw_delivery_checkpoint_due(&d, 0));
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    assert_false(hw_delivery_checkpoint_due(&d, 1000));
    handled_at(&d, 1, 10);
    assert_true(hw_delivery_checkpoint_due(&d, 10));
    assert_i64_equal(hw_delivery_next_ms(&d), 10);
    hw_delivery_checkpointed(&d);
    assert_false(hw_delivery_checkpoint_due(&d, 1000));
    assert_i64_equal(d.last_sequence, 0);
    /* Nothing of ours, but the position moved: no hurry. */
    assert_int_equal(offer_other(&d, 2), HW_OFFER_SKIP);
    assert_i64_equal(hw_delivery_next_ms(&d), 100);
    assert_false(hw_delivery_checkpoint_due(&d, 99));
    assert_true(hw_delivery_checkpoint_due(&d, 100));
    hw_delivery_done(&d);
}

static void batched_checkpoints_are_due_by_count_or_by_the_oldest_event(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .batch_size = 3, .max_delay_ms = 100});
    for (int64_t i = 1; i <= 3; i++) {
        assert_false(hw_delivery_checkpoint_due(&d, 50));
        assert_int_equal(offer(&d, i, "a"), HW_OFFER_DELIVER);
        handled_at(&d, i, 10 * i);
    }
    assert_true(hw_delivery_checkpoint_due(&d, 30));
    hw_delivery_checkpointed(&d);
    assert_i64_equal(hw_delivery_next_ms(&d), INT64_MAX);
    assert_int_equal(offer(&d, 4, "a"), HW_OFFER_DELIVER);
    handled_at(&d, 4, 1000);
    assert_int_equal(offer(&d, 5, "a"), HW_OFFER_DELIVER);
    handled_at(&d, 5, 1090);
    assert_i64_equal(hw_delivery_next_ms(&d), 1100);
    assert_false(hw_delivery_checkpoint_due(&d, 1099));
    assert_true(hw_delivery_checkpoint_due(&d, 1100));
    assert_i64_equal(d.last_sequence, 5);
    hw_delivery_done(&d);
}

static void what_only_moved_is_stored_after_the_delay(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .batch_size = 3, .max_delay_ms = 100});
    assert_int_equal(hw_delivery_pass(&d, 0, NULL, 0, 5, NULL), HOWDAH_OK);
    assert_false(d.moved);
    assert_int_equal(hw_delivery_pass(&d, 50, (const hw_hole[]){{7, 7, 0}}, 1, 20, NULL),
                     HOWDAH_OK);
    assert_int_equal(hw_delivery_pass(&d, 60, (const hw_hole[]){{7, 7, 0}}, 1, 90, NULL),
                     HOWDAH_OK);
    assert_false(hw_delivery_checkpoint_due(&d, 119));
    assert_true(hw_delivery_checkpoint_due(&d, 120));
    hw_delivery_checkpointed(&d);
    /* The same again is no move; a hole that is proven dead is. */
    assert_int_equal(hw_delivery_pass(&d, 60, (const hw_hole[]){{7, 7, 0}}, 1, 200, NULL),
                     HOWDAH_OK);
    assert_false(d.moved);
    assert_int_equal(hw_delivery_pass(&d, 60, NULL, 0, 300, NULL), HOWDAH_OK);
    assert_i64_equal(hw_delivery_next_ms(&d), 400);
    hw_delivery_done(&d);
}

static void a_transactional_handler_leaves_nothing_unsaved(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){.mode = HOWDAH_CHECKPOINT_TRANSACTIONAL, .max_delay_ms = 100});
    assert_int_equal(offer_other(&d, 1), HW_OFFER_SKIP);
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 3, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 4, "b"), HW_OFFER_DELIVER);
    assert_outstanding(&d, {2, 4});
    assert_outstanding_without(&d, 4, 4, {2, 3}); /* goes into the handler's transaction */
    handled(&d, 4);
    assert_outstanding(&d, {2, 3});
    assert_i64_equal(d.unsaved, 0);
    assert_false(d.moved);
    assert_false(hw_delivery_checkpoint_due(&d, 10000));
    assert_int_equal(offer_other(&d, 5), HW_OFFER_SKIP);
    assert_true(hw_delivery_checkpoint_due(&d, 100));
    hw_delivery_done(&d);
}

static void an_endless_delay_never_comes(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .batch_size = 3, .max_delay_ms = INT64_MAX});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_DELIVER);
    handled_at(&d, 1, 1000);
    assert_i64_equal(hw_delivery_next_ms(&d), INT64_MAX);
    assert_false(hw_delivery_checkpoint_due(&d, INT64_MAX));
    hw_delivery_done(&d);
}

static void the_outstanding_set_joins_what_is_missing_and_what_is_pending(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 3, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 6, "b"), HW_OFFER_DELIVER);
    assert_outstanding(&d, {1, 6});
    assert_outstanding_without(&d, 6, 6, {1, 5});
    assert_outstanding_without(&d, 3, 3, {1, 2}, {4, 6});
    assert_outstanding_without(&d, 2, 4, {1, 1}, {5, 6});
    handled(&d, 6);
    assert_i64_equal(hw_delivery_contiguous(&d), 0);
    pass(&d, 6, NULL, 0);
    assert_i64_equal(hw_delivery_contiguous(&d), 2);
    hw_delivery_done(&d);
}

/* ------------------------------------------------------------------------ load */

static void a_loaded_checkpoint_owes_its_ranges_as_missing(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(offer(&d, 100, "z"), HW_OFFER_DELIVER);
    assert_int_equal(
        hw_delivery_load(&d, 10, (const hw_range[]){{2, 3}, {4, 4}, {7, 7}}, 3, 0, NULL),
        HOWDAH_OK);
    assert_i64_equal(d.high, 10);
    assert_i64_equal(d.in_hand, 0);
    assert_outstanding(&d, {2, 4}, {7, 7});
    assert_wanted(&d, 12, NULL, 0, {2, 4}, {7, 7}, {11, 12});
    assert_int_equal(offer(&d, 1, "a"), HW_OFFER_SKIP);
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 3, "a"), HW_FAILED_RETRY);
    assert_int_equal(offer(&d, 7, "a"), HW_OFFER_HELD);
    assert_int_equal(offer(&d, 8, "a"), HW_OFFER_SKIP);
    assert_outstanding(&d, {2, 4}, {7, 7});
    pass(&d, 10, NULL, 0);
    assert_outstanding(&d, {3, 3}, {7, 7});
    assert_int_equal(hw_delivery_load(&d, 10, NULL, 0, 0, NULL), HOWDAH_OK);
    assert_owes_nothing(&d);
    assert_i64_equal((int64_t)d.waiting, 0);
    assert_due(&d, INT64_MAX);
    hw_delivery_done(&d);
}

static void a_damaged_checkpoint_is_refused_and_changes_nothing(void **state)
{
    static const hw_range bad[][2] = {
        {{0, 1}, {3, 3}}, {{3, 2}, {4, 4}}, {{1, 3}, {3, 4}}, {{4, 4}, {1, 1}}, {{1, 1}, {4, 6}},
    };
    hw_delivery d;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED});
    assert_int_equal(hw_delivery_load(&d, 9, (const hw_range[]){{2, 3}}, 1, 0, NULL), HOWDAH_OK);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(hw_delivery_load(&d, 5, bad[i], 2, 0, &err), HOWDAH_CORRUPT);
        assert_i64_equal(d.high, 9);
        assert_outstanding(&d, {2, 3});
    }
    assert_string_equal(err.message, "a checkpoint at 5 has 4 to 6 outstanding after 1");
    assert_int_equal(hw_delivery_load(&d, -1, NULL, 0, 0, NULL), HOWDAH_CORRUPT);
    hw_delivery_done(&d);
}

static void suspects_count_down_as_events_are_done_with(void **state)
{
    hw_delivery d;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .batch_size = 100, .max_delay_ms = 1000,
                                    .max_retries = 1});
    assert_int_equal(hw_delivery_load(&d, 0, NULL, 0, 3, NULL), HOWDAH_OK);
    assert_int_equal(offer_other(&d, 1), HW_OFFER_SKIP);
    assert_i64_equal(d.suspects, 3);
    assert_int_equal(offer(&d, 2, "a"), HW_OFFER_DELIVER);
    handled(&d, 2);
    assert_i64_equal(d.suspects, 2);
    assert_true(hw_delivery_checkpoint_due(&d, 0)); /* one by one */
    hw_delivery_checkpointed(&d);
    assert_int_equal(offer(&d, 3, "a"), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 3, "a"), HW_FAILED_RETRY);
    assert_i64_equal(d.suspects, 2);
    assert_int_equal(retry(&d, 3), HW_OFFER_DELIVER);
    assert_int_equal(failed(&d, 3, "a"), HW_FAILED_DEAD_LETTER);
    assert_int_equal(hw_delivery_dead_lettered(&d, 3, 0, NULL), HOWDAH_OK);
    assert_i64_equal(d.suspects, 1);
    assert_int_equal(offer(&d, 4, "a"), HW_OFFER_DELIVER);
    handled(&d, 4);
    assert_i64_equal(d.suspects, 0);
    assert_int_equal(offer(&d, 5, "a"), HW_OFFER_DELIVER);
    handled(&d, 5);
    assert_i64_equal(d.suspects, 0);
    assert_false(hw_delivery_checkpoint_due(&d, 999));
    assert_true(hw_delivery_checkpoint_due(&d, 1000));
    hw_delivery_done(&d);
}

/* ------------------------------------------------------------------------- gap policy */

static void time_skips_only_where_the_policy_says_so(void **state)
{
    const hw_hole holes[] = {{2, 2, 3000}, {5, 8, 1000}};
    hw_delivery d;
    hw_range range = {0, 0};
    int64_t age_ms = 0;

    (void)state;
    start(&d, &(hw_delivery_config){BATCHED, .gap_timeout_ms = 5000});
    pass(&d, 7, holes, 2);
    assert_false(hw_delivery_overdue(&d, holes, 2, INT64_MAX, &range, &age_ms));
    hw_delivery_done(&d);

    start(&d,
          &(hw_delivery_config){BATCHED, .gap_policy = HOWDAH_GAP_TIMEOUT, .gap_timeout_ms = 5000});
    pass(&d, 7, holes, 2);
    assert_false(hw_delivery_overdue(&d, holes, 2, 5999, &range, &age_ms));
    assert_true(hw_delivery_overdue(&d, holes, 2, 6000, &range, &age_ms));
    assert_i64_equal(range.first, 5);
    assert_i64_equal(range.last, 7); /* 8 is above high: not its business yet */
    assert_i64_equal(age_ms, 5000);
    assert_outstanding_without(&d, 5, 7, {2, 2});
    assert_int_equal(hw_delivery_skipped(&d, range, 6000, NULL), HOWDAH_OK);
    assert_outstanding(&d, {2, 2});
    assert_false(d.moved);
    assert_false(hw_delivery_overdue(&d, holes, 2, 7999, &range, &age_ms));
    assert_true(hw_delivery_overdue(&d, holes, 2, 8001, &range, &age_ms));
    assert_i64_equal(range.first, 2);
    assert_i64_equal(age_ms, 5001);
    /* What was skipped stays skipped, though it is a hole still, and when it appears. */
    pass(&d, 7, holes, 2);
    assert_outstanding(&d, {2, 2});
    assert_int_equal(offer(&d, 6, "a"), HW_OFFER_SKIP);
    hw_delivery_done(&d);
}

/* -------------------------------------------------------------------------- no memory */

/* Every step either succeeds, or fails and changes nothing; what follows DELIVER never fails. */
static int scenario(hw_delivery *d)
{
    const hw_hole holes[] = {{2, 2, 0}, {4, 4, 0}};
    hw_ranges out = HW_RANGES_INIT;
    hw_offer offered = HW_OFFER_WAIT;
    int s = HOWDAH_OK;

    for (int64_t i = 1; s == HOWDAH_OK && i <= 40; i++) {
        size_t waiting = d->waiting;
        int64_t high = d->high;
        bool fails = i % 5 != 0;
        const char *stream = i % 4 == 0 ? "a" : i % 4 == 1 ? "b" : i % 4 == 2 ? "c" : "d";

        s = hw_delivery_offer(d, 2 * i, hw_str_of(stream), true, 0, &offered, NULL);
        if (s < 0) {
            assert_i64_equal(d->high, high);
            assert_i64_equal((int64_t)d->waiting, (int64_t)waiting);
        } else if (offered == HW_OFFER_DELIVER && fails) {
            assert_int_equal(failed(d, 2 * i, stream), HW_FAILED_RETRY);
        } else if (offered == HW_OFFER_DELIVER) {
            handled(d, 2 * i);
        }
    }
    if (s == HOWDAH_OK)
        s = hw_delivery_outstanding(d, &out, NULL);
    if (s == HOWDAH_OK)
        s = hw_delivery_wanted(d, 100, holes, 2, &out, &(int64_t){0}, NULL);
    if (s == HOWDAH_OK)
        s = hw_delivery_pass(d, 90, holes, 2, 0, NULL);
    if (s == HOWDAH_OK) {
        s = hw_delivery_retry(d, 2, &offered, NULL);
        if (s == HOWDAH_OK && offered == HW_OFFER_DELIVER)
            handled(d, 2);
    }
    hw_ranges_done(&out);
    return s;
}

static void no_memory_changes_nothing_and_leaks_nothing(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        hw_delivery d;
        int s;

        unit_allocator_start(&a, ++n);
        start(&d, &(hw_delivery_config){BATCHED});
        s = scenario(&d);
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        hw_delivery_done(&d);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_true(n > 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_in_a_row_are_delivered_and_nothing_is_outstanding),
        cmocka_unit_test(the_healthy_path_allocates_nothing_once_it_runs),
        cmocka_unit_test(what_does_not_match_is_done_at_once),
        cmocka_unit_test(a_number_is_accepted_once),
        cmocka_unit_test(a_gap_counts_as_missing_until_a_pass_says_what_is_a_hole),
        cmocka_unit_test(amid_a_page_only_its_holes_and_what_was_missing_before_are_outstanding),
        cmocka_unit_test(a_pass_decides_nothing_above_its_end_and_never_goes_back),
        cmocka_unit_test(a_hole_below_high_that_was_handled_is_not_outstanding_again),
        cmocka_unit_test(wanted_is_what_is_missing_and_what_is_above),
        cmocka_unit_test(a_failed_event_holds_its_stream_and_no_other),
        cmocka_unit_test(a_follower_that_fails_holds_those_behind_it),
        cmocka_unit_test(an_earlier_event_of_a_stream_that_stands_still_goes_first),
        cmocka_unit_test(retries_follow_the_schedule_and_end_in_a_dead_letter),
        cmocka_unit_test(no_attempt_is_too_many_for_the_schedule),
        cmocka_unit_test(jitter_comes_from_the_caller),
        cmocka_unit_test(a_dead_letter_frees_its_stream),
        cmocka_unit_test(fail_closed_halts_and_the_event_stays_outstanding),
        cmocka_unit_test(what_is_put_back_is_due_at_once_and_was_no_attempt),
        cmocka_unit_test(due_names_the_lowest_that_there_is_room_for),
        cmocka_unit_test(strict_ordering_waits_for_holes),
        cmocka_unit_test(strict_ordering_waits_for_a_failed_event_of_any_stream),
        cmocka_unit_test(too_many_ranges_stop_what_would_add_one),
        cmocka_unit_test(a_pass_stops_before_the_hole_that_is_too_many),
        cmocka_unit_test(a_bound_too_low_to_go_on_with_is_raised),
        cmocka_unit_test(too_many_events_that_are_not_handled_stop_further_ones),
        cmocka_unit_test(synchronous_checkpoints_are_due_after_every_event),
        cmocka_unit_test(batched_checkpoints_are_due_by_count_or_by_the_oldest_event),
        cmocka_unit_test(what_only_moved_is_stored_after_the_delay),
        cmocka_unit_test(a_transactional_handler_leaves_nothing_unsaved),
        cmocka_unit_test(an_endless_delay_never_comes),
        cmocka_unit_test(the_outstanding_set_joins_what_is_missing_and_what_is_pending),
        cmocka_unit_test(a_loaded_checkpoint_owes_its_ranges_as_missing),
        cmocka_unit_test(a_damaged_checkpoint_is_refused_and_changes_nothing),
        cmocka_unit_test(suspects_count_down_as_events_are_done_with),
        cmocka_unit_test(time_skips_only_where_the_policy_says_so),
        cmocka_unit_test(no_memory_changes_nothing_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("delivery", tests, NULL, NULL);
}
