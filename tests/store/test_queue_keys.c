/* test_queue_keys.c - jobs of one key: one at a time, in the order in which they were pushed. */
#include <stdio.h>

#include "jobs.h"

static void push_keyed(const ss *t, const char *data, const char *key)
{
    (void)push(t, a_keyed_job(data, key));
}

static void jobs_of_one_key_come_one_at_a_time_in_push_order(void **state)
{
    ss *t = *state;
    char text[8];

    for (int i = 1; i <= 4; i++) {
        (void)snprintf(text, sizeof text, "%d", i);
        push_keyed(t, text, "k");
    }
    for (int i = 1; i <= 4; i++) {
        batch b = claim(t, 10);

        (void)snprintf(text, sizeof text, "%d", i);
        assert_string_equal(b.names, text);
        assert_int_equal(claim(t, 10).n, 0);
        complete(t, &b.jobs[0]);
    }
    expect_counts(t, "0 0 0 4 0 0");
}

static void jobs_of_one_push_are_kept_apart_as_well(void **state)
{
    ss *t = *state;
    hw_push jobs[5] = {a_keyed_job("1", "a"), a_keyed_job("2", "a"), a_keyed_job("3", "b"),
                       a_job("4"), a_keyed_job("5", "b")};
    howdah_pushed pushed[5];

    ok(jobs_ops(t)->push(t->store, S("q"), jobs, 5, pushed, &ss_error));
    assert_string_equal(claim(t, 10).names, "1 3 4");
}

static void a_key_does_not_hold_up_other_keys_nor_those_of_other_queues(void **state)
{
    ss *t = *state;

    push_keyed(t, "1", "a");
    push_keyed(t, "2", "a");
    push_keyed(t, "3", "b");
    (void)push(t, a_job("4"));
    (void)push(t, a_job("5"));
    (void)push_to(t, "other", a_keyed_job("6", "a"));
    assert_string_equal(claim(t, 10).names, "1 3 4 5");
    assert_string_equal(claim_from(t->store, "other", 10, LONG_MS).names, "6");
    assert_int_equal(claim(t, 10).n, 0);
}

static void priority_and_due_time_do_not_overtake_within_a_key(void **state)
{
    ss *t = *state;
    hw_push job = a_keyed_job("1", "k");
    kept_job k;

    job.priority = 9;
    (void)push(t, job);
    job = a_keyed_job("2", "k");
    job.priority = -9;
    (void)push(t, job);
    k = claim_one(t, "1");
    assert_int_equal(claim(t, 1).n, 0);
    complete(t, &k);
    (void)claim_one(t, "2");
}

static void a_scheduled_job_holds_back_the_later_ones_of_its_key(void **state)
{
    ss *t = *state;
    hw_push job = a_keyed_job("1", "k");
    kept_job k;
    int64_t id;

    job.delay_us = 60 * 1000;
    (void)push(t, job);
    id = push(t, a_keyed_job("2", "k"));
    assert_int_equal(claim(t, 10).n, 0);
    expect_state(t, id, HOWDAH_JOB_SCHEDULED);
    assert_true(load_job(t, id).job.due_at_us == HW_TIME_ABSENT);
    wait_ms(65);
    k = claim_one(t, "1");
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    (void)claim_one(t, "2");
}

static void a_delay_is_kept_while_a_job_waits_for_its_key(void **state)
{
    ss *t = *state;
    hw_push job = a_keyed_job("2", "k");
    kept_job k;
    batch b;

    push_keyed(t, "1", "k");
    job.delay_us = 60 * 1000000LL;
    (void)push(t, job);
    k = claim_one(t, "1");
    complete(t, &k);
    b = claim(t, 10);
    assert_int_equal(b.n, 0);
    assert_in_range(b.report.next_due_ms, 1000, 60000);
}

static void a_retried_job_keeps_its_key(void **state)
{
    ss *t = *state;
    kept_job k;

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    k = claim_one(t, "1");
    retry_after(t, &k, 60);
    assert_int_equal(claim(t, 10).n, 0);
    wait_ms(65);
    k = claim_one(t, "1");
    assert_int_equal(ack(t, &k, HOWDAH_VERDICT_RELEASE, NULL, 0), HOWDAH_ACKED_DONE);
    k = claim_one(t, "1");
    retry_after(t, &k, 0);
    k = claim_one(t, "1");
    complete(t, &k);
    (void)claim_one(t, "2");
}

static void an_abandoned_job_keeps_its_key_until_it_fails(void **state)
{
    ss *t = *state;
    hw_push job = a_keyed_job("1", "k");
    batch b;

    job.max_attempts = 2;
    (void)push(t, job);
    push_keyed(t, "2", "k");
    for (int i = 0; i < 2; i++) {
        b = claim_from(t->store, "q", 10, SHORT_MS);
        assert_string_equal(b.names, "1");
        wait_ms(SHORT_MS + 10);
    }
    assert_string_equal(claim(t, 10).names, "2");
    expect_counts(t, "0 1 0 0 1 0");
}

static void a_failed_or_cancelled_job_lets_the_next_go_on(void **state)
{
    ss *t = *state;
    int64_t id;
    kept_job k;

    push_keyed(t, "1", "k");
    id = push(t, a_keyed_job("2", "k"));
    push_keyed(t, "3", "k");
    push_keyed(t, "4", "k");
    k = claim_one(t, "1");
    fail_for_good(t, &k, "x");
    expect_state(t, id, HOWDAH_JOB_PENDING);
    ok(jobs_ops(t)->job_cancel(t->store, id, HW_STR_NULL, &ss_error));
    k = claim_one(t, "3");
    assert_int_equal(ack(t, &k, HOWDAH_VERDICT_RELEASE, NULL, 0), HOWDAH_ACKED_DONE);
    k = claim_one(t, "3");
    complete(t, &k);
    (void)claim_one(t, "4");
}

static void a_cancelled_job_that_waited_for_its_key_is_passed_by(void **state)
{
    ss *t = *state;
    int64_t id;
    kept_job k;

    push_keyed(t, "1", "k");
    id = push(t, a_keyed_job("2", "k"));
    push_keyed(t, "3", "k");
    k = claim_one(t, "1");
    ok(jobs_ops(t)->job_cancel(t->store, id, HW_STR_NULL, &ss_error));
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    (void)claim_one(t, "3");
}

static void one_turn_completes_a_job_and_claims_the_next_of_its_key(void **state)
{
    ss *t = *state;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 10, .lease_ms = LONG_MS};
    howdah_ack_outcome acked = HOWDAH_ACKED_LOST;
    hw_ack one;
    kept_job k;
    batch b = {.n = 0};

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    push_keyed(t, "3", "k");
    k = claim_one(t, "1");
    one = (hw_ack){k.job.id, k.job.token, HOWDAH_VERDICT_COMPLETE, HW_STR_NULL, 0};
    ok(jobs_ops(t)->exchange(t->store, &one, 1, &acked, &ask, jobs_keep, &b, &b.report, &ss_error));
    assert_int_equal(acked, HOWDAH_ACKED_DONE);
    assert_string_equal(b.names, "2");
}

static void a_job_that_waited_for_its_key_has_not_lost_its_place(void **state)
{
    ss *t = *state;
    hw_push urgent = a_job("9");
    batch b;

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    push_keyed(t, "3", "k");
    for (int i = 4; i <= 8; i++) {
        char text[8];

        (void)snprintf(text, sizeof text, "%d", i);
        (void)push(t, a_job(text));
    }
    b = claim(t, 2);
    assert_string_equal(b.names, "1 4");
    complete(t, &b.jobs[0]);
    b = claim(t, 2);
    assert_string_equal(b.names, "2 5");
    complete(t, &b.jobs[0]);
    urgent.priority = -1;
    (void)push(t, urgent);
    assert_string_equal(claim(t, 10).names, "9 3 6 7 8");
}

static void a_job_that_waited_for_its_key_waits_again_if_it_has_to(void **state)
{
    ss *t = *state;
    kept_job k;

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    push_keyed(t, "3", "k");
    k = claim_one(t, "1");
    assert_int_equal(claim(t, 10).n, 0);
    fail_for_good(t, &k, "no");
    k = claim_one(t, "2"); /* 3 waits for it, and 1 for both */
    ok(jobs_ops(t)->job_rerun(t->store, load_job(t, k.job.id - 1).job.id, &ss_error));
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    k = claim_one(t, "1");
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    assert_string_equal(claim(t, 10).names, "3");
}

/* ---- keys on hold */

static void hold_keys(const ss *t)
{
    howdah_queue_options settings = keep_all();

    settings.hold_key = 1;
    put_queue(t, "q", settings);
}

/* Two jobs of a key that is on hold since the first has failed; its id. */
static int64_t make_hold(const ss *t)
{
    kept_job k;

    hold_keys(t);
    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    k = claim_one(t, "1");
    fail_for_good(t, &k, "x");
    assert_int_equal(claim(t, 10).n, 0);
    return k.job.id;
}

static void a_failed_job_holds_its_key_until_it_is_tried_again(void **state)
{
    ss *t = *state;
    int64_t id = make_hold(t);
    kept_job k;

    push_keyed(t, "3", "k");
    push_keyed(t, "4", "other");
    assert_string_equal(claim(t, 10).names, "4");
    expect_counts(t, "0 1 2 0 1 0");
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    k = claim_one(t, "1");
    assert_int_equal(k.job.id, id);
    complete(t, &k);
    k = claim_one(t, "2");
    complete(t, &k);
    (void)claim_one(t, "3");
}

static void a_failed_job_holds_its_key_until_its_dead_letter_is_discarded(void **state)
{
    ss *t = *state;
    int64_t dead_letter = open_dead_letter(t, make_hold(t));
    int64_t n = 0;

    assert_true(dead_letter > 0);
    ok(t->subs->dead_letters_set_state(t->store, &dead_letter, 1, HW_STR_NULL,
                                       HW_DEAD_LETTER_DISCARDED, S("spam"), &n, &ss_error));
    assert_int_equal(n, 1);
    (void)claim_one(t, "2");
    assert_int_equal(load_queue(t, "q").dead_letters, 0);
    expect_counts(t, "0 1 0 0 1 0");
}

static void a_dead_letter_that_is_redriven_tries_its_job_again(void **state)
{
    ss *t = *state;
    int64_t dead_letter = open_dead_letter(t, make_hold(t));
    int64_t n = 0;
    kept_job k;

    ok(t->subs->dead_letters_set_state(t->store, &dead_letter, 1, HW_STR_NULL,
                                       HW_DEAD_LETTER_REDRIVE, HW_STR_NULL, &n, &ss_error));
    assert_int_equal(n, 1);
    k = claim_one(t, "1");
    assert_int_equal(load_queue(t, "q").dead_letters, 1);
    complete(t, &k);
    assert_int_equal(load_queue(t, "q").dead_letters, 0);
    (void)claim_one(t, "2");
}

static void an_abandoned_job_that_fails_holds_its_key_and_a_cancelled_one_does_not(void **state)
{
    ss *t = *state;
    hw_push job = a_keyed_job("1", "k");
    int64_t id;
    bool more = false;

    hold_keys(t);
    job.max_attempts = 1;
    (void)push(t, job);
    push_keyed(t, "2", "k");
    id = push(t, a_keyed_job("3", "l"));
    push_keyed(t, "4", "l");
    ok(jobs_ops(t)->job_cancel(t->store, id, HW_STR_NULL, &ss_error));
    assert_string_equal(claim_from(t->store, "q", 1, SHORT_MS).names, "1");
    wait_ms(SHORT_MS + 10);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    assert_string_equal(claim(t, 10).names, "4");
}

/* ---- back from the history */

static void a_job_that_is_tried_again_comes_before_the_later_ones_of_its_key(void **state)
{
    ss *t = *state;
    kept_job first;
    kept_job k;

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    push_keyed(t, "3", "k");
    first = claim_one(t, "1");
    fail_for_good(t, &first, "x");
    ok(jobs_ops(t)->job_rerun(t->store, first.job.id, &ss_error));
    k = claim_one(t, "1");
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    (void)claim_one(t, "2");
}

static void a_job_that_is_tried_again_waits_for_the_one_that_is_under_way(void **state)
{
    ss *t = *state;
    kept_job first;
    kept_job k;

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    push_keyed(t, "3", "k");
    first = claim_one(t, "1");
    fail_for_good(t, &first, "x");
    k = claim_one(t, "2");
    ok(jobs_ops(t)->job_rerun(t->store, first.job.id, &ss_error));
    assert_int_equal(claim(t, 10).n, 0);
    retry_after(t, &k, 0);
    k = claim_one(t, "1");
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    k = claim_one(t, "2");
    complete(t, &k);
    (void)claim_one(t, "3");
}

static void a_purge_leaves_the_leased_job_and_its_key_in_order(void **state)
{
    ss *t = *state;
    int64_t n = 0;
    kept_job k;

    push_keyed(t, "1", "k");
    push_keyed(t, "2", "k");
    push_keyed(t, "3", "k");
    k = claim_one(t, "1");
    ok(jobs_ops(t)->queue_purge(t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, 2);
    push_keyed(t, "4", "k");
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &k);
    (void)claim_one(t, "4");
    expect_counts(t, "0 1 0 1 0 2");
}

#define BACKLOG 5000

/* Claims as long as it is worth it; completes what is not hot.  How many of those came. */
static int drain_cold(const ss *t)
{
    int cold = 0;
    batch b;

    do {
        b = claim(t, 10);
        for (size_t i = 0; i < b.n; i++)
            if (strcmp(b.jobs[i].key, "hot") != 0) {
                complete(t, &b.jobs[i]);
                cold++;
            }
    } while (b.report.more);
    return cold;
}

/* What a claim costs does not grow with what waits for a key: a walk would take minutes. */
static void a_long_backlog_of_one_key_is_not_in_the_way_of_others(void **state)
{
    ss *t = *state;
    hw_push *jobs = calloc(BACKLOG, sizeof *jobs);
    howdah_pushed *pushed = calloc(BACKLOG, sizeof *pushed);
    howdah_queue_info found;

    assert_true(jobs && pushed);
    for (int i = 0; i < BACKLOG; i++)
        jobs[i] = a_keyed_job("1", "hot");
    ok(jobs_ops(t)->push(t->store, S("q"), jobs, BACKLOG, pushed, &ss_error));
    for (int i = 0; i < 100; i++) {
        (void)push(t, a_job("2"));
        push_keyed(t, "3", "cold");
        assert_int_equal(drain_cold(t), 2);
    }
    found = load_queue(t, "q");
    assert_int_equal(found.processing, 1);
    assert_int_equal(found.completed, 200);
    assert_int_equal(found.pending + found.scheduled, BACKLOG - 1);
    free(jobs);
    free(pushed);
}

ss_group ss_queue_key_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(jobs_of_one_key_come_one_at_a_time_in_push_order),
        SS_TEST(jobs_of_one_push_are_kept_apart_as_well),
        SS_TEST(a_key_does_not_hold_up_other_keys_nor_those_of_other_queues),
        SS_TEST(priority_and_due_time_do_not_overtake_within_a_key),
        SS_TEST(a_scheduled_job_holds_back_the_later_ones_of_its_key),
        SS_TEST(a_delay_is_kept_while_a_job_waits_for_its_key),
        SS_TEST(a_retried_job_keeps_its_key),
        SS_TEST(an_abandoned_job_keeps_its_key_until_it_fails),
        SS_TEST(a_failed_or_cancelled_job_lets_the_next_go_on),
        SS_TEST(a_cancelled_job_that_waited_for_its_key_is_passed_by),
        SS_TEST(one_turn_completes_a_job_and_claims_the_next_of_its_key),
        SS_TEST(a_job_that_waited_for_its_key_has_not_lost_its_place),
        SS_TEST(a_job_that_waited_for_its_key_waits_again_if_it_has_to),
        SS_TEST(a_failed_job_holds_its_key_until_it_is_tried_again),
        SS_TEST(a_failed_job_holds_its_key_until_its_dead_letter_is_discarded),
        SS_TEST(a_dead_letter_that_is_redriven_tries_its_job_again),
        SS_TEST(an_abandoned_job_that_fails_holds_its_key_and_a_cancelled_one_does_not),
        SS_TEST(a_job_that_is_tried_again_comes_before_the_later_ones_of_its_key),
        SS_TEST(a_job_that_is_tried_again_waits_for_the_one_that_is_under_way),
        SS_TEST(a_purge_leaves_the_leased_job_and_its_key_in_order),
        SS_TEST(a_long_backlog_of_one_key_is_not_in_the_way_of_others),
    };
    return SS_GROUP(tests);
}
