/* test_checker.c - the checker lets right stories pass and names what is wrong in others. */
#include "../../unit/unit.h"

#include "checker.h"

#define LEASE_US 1000
#define ALL INT64_MAX

static group_checker c;
static int64_t now;

/* The log: 1, 2 and 4 are of stream 0, 3 and 5 of stream 1; 6 does not concern the group. */
static void begin(check_rules rules)
{
    static const int streams[] = {0, 0, 1, 0, 1, 2};

    now = 100000;
    checker_init(&c, &rules, 0);
    for (int i = 0; i < 6; i++)
        checker_appended(&c, streams[i], i < 5);
}

static int start(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 1, .on_fail = HOWDAH_FAIL_OPEN});
    return 0;
}

static int give_as(bool retry, int attempt, int n, int64_t a, int64_t b)
{
    const check_gift gift = {
        .retry = retry, .attempt = attempt, .until_us = now + LEASE_US, .n = n, .events = {a, b}};

    return checker_given(&c, now, &gift);
}

static int give(int64_t a)
{
    return give_as(false, 1, 1, a, 0);
}

static int give_both(int64_t a, int64_t b)
{
    return give_as(false, 1, 2, a, b);
}

static void ack(int batch)
{
    checker_acked(&c, now, batch, ALL, HOWDAH_OK);
}

static void nack(int batch, int64_t number)
{
    checker_nacked(&c, now, batch, number, -1, HOWDAH_OK);
}

/* Dead letters and halts are looked for after each call. */
static void look(void)
{
    checker_status(&c, now, false);
}

static void leases_end(void)
{
    now += LEASE_US;
}

#define assert_right() assert_string_equal(c.what, "")
#define assert_wrong(text)                                                                         \
    do {                                                                                           \
        assert_true(c.violated);                                                                   \
        assert_non_null(strstr(c.what, (text)));                                                   \
    } while (0)

static void a_story_with_all_kinds_of_trouble_is_right(void **state)
{
    int first = give_both(1, 2);
    int other = give_both(3, 5);

    (void)state;
    checker_begun(&c, now, first, 1);
    checker_acked(&c, now, first, 1, HOWDAH_OK);
    checker_extended(&c, now, first, now + 3 * LEASE_US, HOWDAH_OK);
    nack(other, 3); /* and 5 waits for it */
    look();
    ack(other);
    leases_end();
    other = give_as(true, 2, 1, 3, 0);
    nack(other, 3);
    checker_dead_letter(&c, now, 3);
    look();
    ack(give_as(true, 1, 1, 5, 0));
    leases_end();
    leases_end();
    other = give_as(false, 2, 1, 2, 0); /* a suspect */
    checker_acked(&c, now, first, ALL, HOWDAH_LOST);
    checker_released(&c, now, other, HOWDAH_OK);
    ack(give_as(false, 2, 1, 2, 0));
    checker_redrive(&c, 3);
    other = give_as(true, 3, 1, 3, 0);
    ack(give(4));
    checker_step(&c, now);
    ack(other);
    assert_right();
    assert_i64_equal(checker_unfinished(&c), 0);
}

/* ---- G1 */

static void what_is_not_handled_is_unfinished(void **state)
{
    (void)state;
    ack(give_both(1, 2));
    ack(give_both(3, 5));
    assert_i64_equal(checker_unfinished(&c), 4);
}

static void what_does_not_concern_the_group_must_not_come(void **state)
{
    (void)state;
    (void)give(6);
    assert_wrong("G1: it does not concern");
}

/* ---- G2 */

static void a_stream_must_be_in_order(void **state)
{
    (void)state;
    (void)give(2);
    assert_wrong("event 2: G2");
}

static void a_batch_must_be_in_order(void **state)
{
    (void)state;
    (void)give_both(2, 1);
    assert_wrong("G2: before an earlier one");
}

static void without_a_key_there_is_no_order(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = false, .max_retries = 1});
    (void)give(2);
    (void)give(1);
    assert_right();
}

/* ---- G3 */

static void an_event_must_not_have_two_holders(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = false, .max_retries = 1});
    (void)give(1);
    (void)give(1);
    assert_wrong("G3: it has two holders");
}

static void a_stream_must_not_have_two_holders(void **state)
{
    int first = give_both(1, 2);

    (void)state;
    checker_acked(&c, now, first, 1, HOWDAH_OK);
    (void)give(4);
    assert_wrong("event 4: G3: its stream has two holders");
}

static void a_lease_that_was_extended_runs(void **state)
{
    int first = give(1);

    (void)state;
    checker_extended(&c, now, first, now + 2 * LEASE_US, HOWDAH_OK);
    leases_end();
    (void)give_as(false, 2, 1, 1, 0);
    assert_wrong("G3");
}

static void two_holders_are_found_at_any_step(void **state)
{
    int first = give(1);
    int second;

    (void)state;
    leases_end();
    second = give_as(false, 2, 1, 1, 0);
    assert_right();
    c.batches[first].stale = false; /* as if an extension had been taken for good */
    c.batches[first].until_us = c.batches[second].until_us;
    checker_step(&c, now);
    assert_wrong("G3");
}

static void what_has_left_its_batch_must_not_be_handled(void **state)
{
    int first = give_both(1, 2);

    (void)state;
    nack(first, 1);
    checker_begun(&c, now, first, 2);
    assert_wrong("event 2: G3");
}

/* ---- G4 */

static void a_stale_token_must_not_be_good(void **state)
{
    int first = give(1);

    (void)state;
    leases_end();
    (void)give_as(false, 2, 1, 1, 0);
    ack(first);
    assert_wrong("G4: a stale token was good");
}

static void a_batch_that_is_over_must_not_be_good(void **state)
{
    int first = give(1);

    (void)state;
    ack(first);
    ack(first);
    assert_wrong("G4: a stale token was good");
}

static void a_token_of_before_a_reset_must_not_be_good(void **state)
{
    int first = give(1);

    (void)state;
    checker_reset(&c, 0);
    checker_released(&c, now, first, HOWDAH_OK);
    assert_wrong("G4: a stale token was good");
}

static void a_lease_that_runs_must_not_be_lost(void **state)
{
    (void)state;
    checker_acked(&c, now, give(1), ALL, HOWDAH_LOST);
    assert_wrong("G4: the lease runs");
}

static void a_late_token_is_good_as_long_as_nobody_else_has_its_events(void **state)
{
    int first = give(1);

    (void)state;
    leases_end();
    ack(first);
    assert_right();
    first = give(2);
    leases_end();
    checker_acked(&c, now, first, ALL, HOWDAH_LOST);
    assert_wrong("G4: nobody else has it");
}

static void who_is_refused_must_not_write(void **state)
{
    (void)state;
    checker_refused_wrote(&c, give(1));
    assert_wrong("G4: a stale token has changed something");
}

/* ---- G5 */

static void a_try_must_be_counted_when_a_lease_runs_out(void **state)
{
    (void)state;
    (void)give(1);
    leases_end();
    (void)give(1);
    assert_wrong("G5: a try was not counted");
}

static void what_is_given_back_must_not_count(void **state)
{
    (void)state;
    checker_released(&c, now, give(1), HOWDAH_OK);
    (void)give_as(false, 2, 1, 1, 0);
    assert_wrong("G5: tries are counted that were not its own");
}

static void suspects_must_be_alone(void **state)
{
    (void)state;
    (void)give_both(1, 2);
    leases_end();
    ack(give_as(false, 2, 1, 1, 0));
    assert_right();
    c.events[2].lot_tries = 0; /* as if the first of them were no suspect */
    (void)give_both(2, 4);
    assert_wrong("G5: a suspect is not alone");
}

static void what_is_tried_again_must_be_alone(void **state)
{
    (void)state;
    (void)give_both(1, 2);
    leases_end();
    (void)give_as(false, 2, 2, 1, 2);
    assert_wrong("G5: it is tried again, and not alone");
}

static void there_must_be_no_dead_letter_before_the_last_try(void **state)
{
    (void)state;
    (void)give(1);
    leases_end();
    checker_dead_letter(&c, now, 1);
    assert_wrong("G5: a dead letter before its last try");
}

static void after_the_last_try_there_must_be_a_dead_letter(void **state)
{
    (void)state;
    nack(give(1), 1);
    look();
    nack(give_as(true, 2, 1, 1, 0), 1);
    assert_right();
    look();
    assert_wrong("G5: its last try has failed");
}

static void after_the_last_try_the_group_must_halt(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 0, .on_fail = HOWDAH_FAIL_CLOSED});
    nack(give(1), 1);
    look();
    assert_wrong("G5: a last try has failed, and the group is not halted");
}

static void a_group_must_not_halt_for_nothing(void **state)
{
    (void)state;
    checker_status(&c, now, true);
    assert_wrong("G5: the group is halted for nothing");
}

static void a_retry_must_not_come_before_it_is_due(void **state)
{
    int first = give(1);

    (void)state;
    checker_nacked(&c, now, first, 1, 50, HOWDAH_OK);
    look();
    now += 49999;
    (void)give_as(true, 2, 1, 1, 0);
    assert_wrong("G5: it is not due");
}

static void after_a_reboot_every_lease_is_over_and_every_retry_due(void **state)
{
    int first = give_both(1, 3);

    (void)state;
    checker_nacked(&c, now, first, 1, 50, HOWDAH_OK);
    look();
    checker_rebooted(&c, now);
    (void)give_as(true, 2, 1, 1, 0);
    (void)give_as(false, 2, 1, 3, 0);
    assert_right();
}

/* ---- G6 */

static void a_held_stream_must_wait(void **state)
{
    int first;

    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 0, .on_fail = HOWDAH_FAIL_HOLD});
    first = give_both(1, 2);
    nack(first, 1);
    checker_dead_letter(&c, now, 1);
    look();
    ack(first);
    assert_right();
    (void)give_as(true, 1, 1, 2, 0);
    assert_wrong("event 2: G6: its stream is held");
}

static void a_held_stream_goes_on_when_its_dead_letter_is_discarded(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 0, .on_fail = HOWDAH_FAIL_HOLD});
    nack(give_both(1, 2), 1);
    checker_dead_letter(&c, now, 1);
    look();
    checker_discarded(&c, 1);
    (void)give_as(true, 1, 1, 2, 0);
    assert_right();
}

static void a_paused_group_must_give_nothing_out(void **state)
{
    (void)state;
    checker_paused(&c, true);
    (void)give(1);
    assert_wrong("G6: the group is paused or halted");
}

static void a_halted_group_must_give_nothing_out(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 0, .on_fail = HOWDAH_FAIL_CLOSED});
    nack(give(1), 1);
    checker_status(&c, now, true);
    assert_right();
    (void)give(3);
    assert_wrong("G6: the group is paused or halted");
}

/* ---- G7 */

static void what_was_acked_must_not_come_again(void **state)
{
    (void)state;
    ack(give(1));
    (void)give(1);
    assert_wrong("G7: it was acked");
}

static void what_was_acked_comes_again_after_a_reset(void **state)
{
    (void)state;
    ack(give_both(1, 2));
    checker_reset(&c, 1);
    (void)give(2);
    assert_right();
}

static void a_dead_letter_must_not_come_unless_somebody_asks(void **state)
{
    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 0});
    nack(give(1), 1);
    checker_dead_letter(&c, now, 1);
    look();
    checker_redrive(&c, 1);
    nack(give_as(true, 2, 1, 1, 0), 1);
    assert_right();
    (void)give_as(true, 3, 1, 1, 0);
    assert_wrong("G7: nobody wants this dead letter");
}

static void a_dead_letter_must_not_come_with_an_earlier_event_that_fails_later(void **state)
{
    int first;

    (void)state;
    begin((check_rules){.by_stream = true, .max_retries = 0, .on_fail = HOWDAH_FAIL_HOLD});
    first = give_both(1, 2);
    nack(first, 2);
    checker_dead_letter(&c, now, 2);
    look();
    nack(first, 1);
    checker_dead_letter(&c, now, 1);
    look();
    checker_discarded(&c, 1);
    assert_right();
    (void)give_as(true, 1, 2, 2, 4);
    assert_wrong("event 2: G7: nobody wants this dead letter");
}

static void what_was_acked_must_not_be_a_dead_letter(void **state)
{
    (void)state;
    ack(give(1));
    checker_dead_letter(&c, now, 1);
    assert_wrong("G7: it was over");
}

#define CASE(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_story_with_all_kinds_of_trouble_is_right),
        CASE(what_is_not_handled_is_unfinished),
        CASE(what_does_not_concern_the_group_must_not_come),
        CASE(a_stream_must_be_in_order),
        CASE(a_batch_must_be_in_order),
        CASE(without_a_key_there_is_no_order),
        CASE(an_event_must_not_have_two_holders),
        CASE(a_stream_must_not_have_two_holders),
        CASE(a_lease_that_was_extended_runs),
        CASE(two_holders_are_found_at_any_step),
        CASE(what_has_left_its_batch_must_not_be_handled),
        CASE(a_stale_token_must_not_be_good),
        CASE(a_batch_that_is_over_must_not_be_good),
        CASE(a_token_of_before_a_reset_must_not_be_good),
        CASE(a_lease_that_runs_must_not_be_lost),
        CASE(a_late_token_is_good_as_long_as_nobody_else_has_its_events),
        CASE(who_is_refused_must_not_write),
        CASE(a_try_must_be_counted_when_a_lease_runs_out),
        CASE(what_is_given_back_must_not_count),
        CASE(suspects_must_be_alone),
        CASE(what_is_tried_again_must_be_alone),
        CASE(there_must_be_no_dead_letter_before_the_last_try),
        CASE(after_the_last_try_there_must_be_a_dead_letter),
        CASE(after_the_last_try_the_group_must_halt),
        CASE(a_group_must_not_halt_for_nothing),
        CASE(a_retry_must_not_come_before_it_is_due),
        CASE(after_a_reboot_every_lease_is_over_and_every_retry_due),
        CASE(a_held_stream_must_wait),
        CASE(a_held_stream_goes_on_when_its_dead_letter_is_discarded),
        CASE(a_paused_group_must_give_nothing_out),
        CASE(a_halted_group_must_give_nothing_out),
        CASE(what_was_acked_must_not_come_again),
        CASE(what_was_acked_comes_again_after_a_reset),
        CASE(a_dead_letter_must_not_come_unless_somebody_asks),
        CASE(a_dead_letter_must_not_come_with_an_earlier_event_that_fails_later),
        CASE(what_was_acked_must_not_be_a_dead_letter),
    };

    return cmocka_run_group_tests_name("group checker", tests, NULL, NULL);
}
