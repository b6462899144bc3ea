/* test_checker.c - the checker lets right stories pass and names what is wrong in others. */
#include "../unit/unit.h"

#include "checker.h"

static world w;
static fake f;
static checker c;

/* Subscription 0 takes all; the log: 1 to 4 are versions 1 to 4 of stream a, 5 is in flight, 6 is
   dead, 7 is version 1 of b. */
static int start(void **state)
{
    int txn;
    int other;

    (void)state;
    world_init(&w, 1);
    fake_init(&f, &w);
    f.subs_n = 1;
    checker_init(&c, &w, &f);
    txn = world_begin(&w);
    for (int i = 0; i < 4; i++)
        assert_true(world_insert(&w, txn, 0, i % 2));
    world_commit(&w, txn);
    txn = world_begin(&w);
    assert_true(world_insert(&w, txn, 2, 0));
    other = world_begin(&w);
    assert_true(world_insert(&w, other, 3, 0));
    world_rollback(&w, other);
    other = world_begin(&w);
    assert_true(world_insert(&w, other, 1, 0));
    world_commit(&w, other);
    return 0;
}

static void deliver(int process, int64_t token, int64_t number)
{
    checker_delivered(&c, 0, process, token, number, w.numbers[number].life, false);
}

static void handle(int process, int64_t token, int64_t number)
{
    deliver(process, token, number);
    checker_handled(&c, 0, process, token, number, w.numbers[number].life);
}

static void stored(int64_t high, hw_range outstanding)
{
    f.subs[0].high = high;
    f.subs[0].outstanding[0] = outstanding;
    f.subs[0].outstanding_n = outstanding.first > 0;
    checker_stored(&c, 0);
}

#define assert_right() assert_string_equal(c.what, "")
#define assert_wrong(text)                                                                         \
    do {                                                                                           \
        assert_true(c.violated);                                                                   \
        assert_non_null(strstr(c.what, (text)));                                                   \
    } while (0)

static void a_story_in_order_with_a_repeated_suffix_is_right(void **state)
{
    (void)state;
    handle(0, 1, 1);
    handle(0, 1, 7);
    deliver(0, 1, 2); /* fails */
    handle(0, 1, 2);
    stored(2, (hw_range){0, 0});
    handle(0, 1, 3);
    handle(1, 2, 3); /* another owner, from where the checkpoint was */
    handle(1, 2, 4);
    handle(0, 1, 4); /* the old one does not know it yet */
    stored(7, (hw_range){5, 5});
    assert_right();
    assert_i64_equal(checker_unfinished(&c, 0), 0);
    assert_false(checker_is_at_end(&c, 0));
}

static void what_is_not_committed_must_not_come(void **state)
{
    (void)state;
    deliver(0, 1, 5);
    assert_wrong("number 5");
    assert_wrong("not committed");
}

static void what_does_not_match_must_not_come(void **state)
{
    (void)state;
    f.subs[0].has_pattern = true;
    (void)snprintf(f.subs[0].pattern, sizeof f.subs[0].pattern, "order.paid");
    deliver(0, 1, 2);
    assert_right();
    deliver(0, 1, 3);
    assert_wrong("does not match");
}

static void a_stream_must_not_be_out_of_order(void **state)
{
    (void)state;
    handle(0, 1, 1);
    deliver(0, 1, 3);
    assert_wrong("before an earlier event of its stream");
}

static void a_repeated_suffix_must_not_leave_one_out(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 3; n++)
        handle(0, 1, n);
    handle(1, 2, 1);
    assert_right();
    deliver(1, 2, 3);
    assert_wrong("not the next of its stream");
}

static void what_was_handled_must_not_come_again_in_the_same_stint(void **state)
{
    (void)state;
    handle(0, 1, 1);
    deliver(0, 1, 1);
    assert_wrong("again though it was handled");
}

static void a_dead_letter_and_a_skip_let_the_stream_go_on(void **state)
{
    (void)state;
    deliver(0, 1, 1);
    checker_dead_letter(&c, 0, 1, 0);
    handle(0, 1, 2);
    checker_skipped(&c, 0, (hw_range){3, 3});
    handle(0, 1, 4);
    stored(4, (hw_range){0, 0});
    checker_delivered(&c, 0, 0, 1, 1, 0, true);
    assert_right();
    checker_delivered(&c, 0, 0, 1, 2, 0, true);
    assert_wrong("no dead letter");
}

static void strict_order_is_the_order_of_numbers(void **state)
{
    (void)state;
    checker_expect(&c, 0, false, true);
    for (int64_t n = 1; n <= 4; n++)
        handle(0, 1, n);
    handle(0, 1, 7);
    assert_right();
    w.numbers[5].state = NUMBER_VISIBLE;
    w.numbers[5].version = 1;
    deliver(1, 2, 5);
    assert_wrong("when a later one was settled");
}

static void an_effect_must_not_exist_twice(void **state)
{
    (void)state;
    checker_effect(&c, 0, 1, 0);
    assert_right();
    checker_effect(&c, 0, 1, 0);
    assert_wrong("exists twice");
}

static void a_checkpoint_must_not_lead(void **state)
{
    (void)state;
    stored(1, (hw_range){1, 1});
    assert_right();
    stored(1, (hw_range){0, 0});
    assert_wrong("leads: it is not settled");
}

static void a_number_in_flight_must_be_outstanding(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 4; n++)
        handle(0, 1, n);
    stored(6, (hw_range){5, 5});
    assert_right();
    stored(6, (hw_range){0, 0});
    assert_wrong("number 5");
    assert_wrong("in flight");
}

static void a_checkpoint_must_not_be_above_all_that_was_drawn(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 4; n++)
        handle(0, 1, n);
    stored(8, (hw_range){5, 8});
    assert_wrong("not drawn yet");
}

static void with_transactions_only_the_effect_counts(void **state)
{
    (void)state;
    checker_expect(&c, 0, true, false);
    handle(0, 1, 1);
    assert_i64_equal(checker_unfinished(&c, 0), 1);
    checker_effect(&c, 0, 1, 0);
    assert_i64_equal(checker_unfinished(&c, 0), 2);
}

/* ---- another log */

static world image;
static checker then;

static void keep_image(void)
{
    image = w;
    then = c;
}

static void replace(void)
{
    checker_replace(&c, &then, &image);
    world_replace(&w, &image, true);
}

static void add_to_a(void)
{
    int txn = world_begin(&w);

    assert_true(world_insert(&w, txn, 0, 0));
    world_commit(&w, txn);
}

static void what_a_handler_did_stays_done_where_its_event_is_still_there(void **state)
{
    (void)state;
    keep_image();
    add_to_a(); /* 8 */
    for (int64_t n = 1; n <= 4; n++)
        handle(0, 1, n);
    handle(0, 1, 8);
    handle(0, 1, 7);
    image.logged = image.drawn;
    replace();
    checker_pass(&c, 0);
    assert_i64_equal(checker_unfinished(&c, 0), 0);
    add_to_a(); /* 8 again */
    assert_i64_equal(w.numbers[8].life, 1);
    assert_i64_equal(checker_unfinished(&c, 0), 8);
    handle(0, 1, 3); /* the row went back, the token came again */
    handle(0, 1, 4);
    handle(0, 1, 8);
    assert_right();
}

static void effects_and_dead_letters_go_back_with_their_database(void **state)
{
    (void)state;
    checker_expect(&c, 0, true, false);
    checker_effect(&c, 0, 1, 0);
    keep_image();
    checker_effect(&c, 0, 2, 0);
    checker_dead_letter(&c, 0, 3, 0);
    replace();
    assert_i64_equal(checker_unfinished(&c, 0), 2);
    checker_effect(&c, 0, 2, 0);
    assert_i64_equal(checker_unfinished(&c, 0), 3);
    assert_right();
    checker_effect(&c, 0, 1, 0);
    assert_wrong("exists twice");
}

static void an_effect_must_not_be_of_an_event_that_is_gone(void **state)
{
    (void)state;
    keep_image();
    add_to_a();
    replace();
    checker_effect(&c, 0, 8, 0);
    assert_wrong("not in the log");
}

static void a_dead_letter_must_not_be_of_an_event_that_is_gone(void **state)
{
    (void)state;
    keep_image();
    add_to_a();
    replace();
    checker_dead_letter(&c, 0, 8, 0);
    assert_wrong("not in the log");
}

static void an_event_that_is_gone_comes_only_in_a_pass_that_had_begun(void **state)
{
    (void)state;
    keep_image();
    add_to_a();
    replace();
    checker_delivered(&c, 0, 0, 1, 8, 0, false);
    deliver(0, 1, 3); /* whatever it remembers of those before */
    assert_right();
    checker_pass(&c, 0);
    checker_delivered(&c, 0, 0, 1, 8, 0, false);
    assert_wrong("in a log that is gone");
}

static void what_was_never_committed_must_not_come_from_a_log_that_is_gone(void **state)
{
    (void)state;
    keep_image();
    replace();
    checker_delivered(&c, 0, 0, 1, 8, 0, false);
    assert_wrong("not committed");
}

static void a_place_must_stand_on_an_event_of_the_log(void **state)
{
    howdah_event event;

    (void)state;
    keep_image();
    add_to_a();
    fake_event(&w, 8, &event);
    f.subs[0].anchor = (hw_anchor){8, event.id};
    stored(0, (hw_range){0, 0});
    assert_right();
    image.logged = image.drawn;
    replace();
    add_to_a(); /* another one */
    stored(0, (hw_range){0, 0});
    assert_wrong("a place on an event that is not in the log");
}

static void where_nobody_can_tell_only_the_place_is_judged(void **state)
{
    (void)state;
    c.weak = true;
    checker_pass(&c, 0);
    deliver(0, 1, 3);
    stored(4, (hw_range){0, 0});
    assert_right();
    f.subs[0].anchor.sequence = 6;
    stored(4, (hw_range){0, 0});
    assert_wrong("a place on an event that is not in the log");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_story_in_order_with_a_repeated_suffix_is_right, start),
        cmocka_unit_test_setup(what_is_not_committed_must_not_come, start),
        cmocka_unit_test_setup(what_does_not_match_must_not_come, start),
        cmocka_unit_test_setup(a_stream_must_not_be_out_of_order, start),
        cmocka_unit_test_setup(a_repeated_suffix_must_not_leave_one_out, start),
        cmocka_unit_test_setup(what_was_handled_must_not_come_again_in_the_same_stint, start),
        cmocka_unit_test_setup(a_dead_letter_and_a_skip_let_the_stream_go_on, start),
        cmocka_unit_test_setup(strict_order_is_the_order_of_numbers, start),
        cmocka_unit_test_setup(an_effect_must_not_exist_twice, start),
        cmocka_unit_test_setup(a_checkpoint_must_not_lead, start),
        cmocka_unit_test_setup(a_number_in_flight_must_be_outstanding, start),
        cmocka_unit_test_setup(a_checkpoint_must_not_be_above_all_that_was_drawn, start),
        cmocka_unit_test_setup(with_transactions_only_the_effect_counts, start),
        cmocka_unit_test_setup(what_a_handler_did_stays_done_where_its_event_is_still_there, start),
        cmocka_unit_test_setup(effects_and_dead_letters_go_back_with_their_database, start),
        cmocka_unit_test_setup(an_effect_must_not_be_of_an_event_that_is_gone, start),
        cmocka_unit_test_setup(a_dead_letter_must_not_be_of_an_event_that_is_gone, start),
        cmocka_unit_test_setup(an_event_that_is_gone_comes_only_in_a_pass_that_had_begun, start),
        cmocka_unit_test_setup(what_was_never_committed_must_not_come_from_a_log_that_is_gone,
                               start),
        cmocka_unit_test_setup(a_place_must_stand_on_an_event_of_the_log, start),
        cmocka_unit_test_setup(where_nobody_can_tell_only_the_place_is_judged, start),
    };

    return cmocka_run_group_tests_name("sim_checker", tests, NULL, NULL);
}
