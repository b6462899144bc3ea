/* test_queue_exchange.c - one job after the other, each acked with the claim of the next. */
#include <string.h>

#include "jobs.h"

/* One is done, the next one of a queue please. */
static batch exchange_for(const ss *t, const kept_job *done, const char *queue,
                          howdah_ack_outcome expected)
{
    hw_claim ask = {.queue = hw_str_of(queue), .worker = S("w"), .n = 1, .lease_ms = LONG_MS};
    hw_ack verdict = {done->job.id, done->job.token, HOWDAH_VERDICT_COMPLETE, HW_STR_NULL, 0};
    howdah_ack_outcome acked = HOWDAH_ACKED_FAILED;
    batch b = {.n = 0};

    ok(jobs_ops(t)->exchange(t->store, &verdict, 1, &acked, &ask, jobs_keep, &b, &b.report,
                             &ss_error));
    assert_int_equal(acked, expected);
    return b;
}

/* Pushes "0" to "9" and takes so many of them one at a time; the one in hand. */
static kept_job exchange_jobs(const ss *t, int n)
{
    static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};
    kept_job k;

    for (int i = 0; i < 10; i++)
        (void)push(t, a_job(names[i]));
    k = claim_one(t, "0");
    for (int i = 1; i < n; i++) {
        batch b = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE);

        assert_string_equal(b.names, names[i]);
        assert_int_equal(b.jobs[0].job.attempts, 1);
        k = b.jobs[0];
    }
    return k;
}

static void one_at_a_time_jobs_come_in_order_and_each_is_done_once(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 10);
    batch b = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE);

    assert_int_equal(b.n, 0);
    assert_false(b.report.more);
    assert_true(b.report.next_due_ms == -1);
    expect_counts(t, "0 0 0 10 0 0");
    k = load_job(t, k.job.id);
    assert_int_equal(k.job.state, HOWDAH_JOB_COMPLETED);
    assert_int_equal(k.job.attempts, 1);
    assert_string_equal(k.worker, "w");
}

static void one_at_a_time_a_job_has_all_that_it_was_pushed_with(void **state)
{
    ss *t = *state;
    hw_push job = a_job("\0\xff");
    kept_job k = exchange_jobs(t, 9);
    batch b;

    job.data = (hw_str){"\0\xff\0x", 4};
    job.content_type = S("a/b");
    job.headers = S("{\"h\":\"1\"}");
    job.dedup = S("d");
    job.correlation_id = S("c");
    job.has_causation = true;
    memset(job.causation_id.b, 7, sizeof job.causation_id.b);
    job.max_attempts = 3;
    job.run_at_us = HW_TIME_ABSENT;
    (void)push(t, job);
    k = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
    b = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE);
    assert_int_equal(b.n, 1);
    k = b.jobs[0];
    assert_int_equal(k.job.max_attempts, 3);
    assert_int_equal(k.job.priority, 0);
    assert_int_equal(k.job.data.len, 4);
    assert_string_equal(k.content_type, "a/b");
    assert_string_equal(k.headers, "{\"h\":\"1\"}");
    assert_string_equal(k.dedup, "d");
    assert_string_equal(k.correlation_id, "c");
    assert_string_equal(k.key, "-");
    assert_string_equal(k.worker, "w");
    assert_true(k.job.has_causation);
    assert_memory_equal(k.job.causation_id.b, job.causation_id.b, sizeof job.causation_id.b);
    assert_true(k.job.lease_until_us - k.job.started_at_us == LONG_MS * INT64_C(1000));
    assert_true(k.job.created_at_us <= k.job.started_at_us);
    assert_true(k.job.due_at_us <= k.job.started_at_us);
    assert_false(k.job.suspect);
    /* And its dedup key is given back. */
    (void)exchange_for(t, &k, "q", HOWDAH_ACKED_DONE);
    (void)push(t, job);
}

static void one_at_a_time_a_stale_token_is_lost_and_the_next_job_comes(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 6);
    kept_job stale = k;

    stale.job.token++;
    assert_string_equal(exchange_for(t, &stale, "q", HOWDAH_ACKED_LOST).names, "6");
    assert_string_equal(exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).names, "7");
    assert_string_equal(exchange_for(t, &k, "q", HOWDAH_ACKED_LOST).names, "8");
    expect_counts(t, "1 3 0 6 0 0");
}

#define SEEN_MS 100
#define MANY 1000

/*
 * Whoever asks later than that after the push gets it.  A look counts when it was begun, so that a
 * machine that is busy with other things only makes this easier.
 */
static void one_at_a_time_an_urgent_job_of_a_new_priority_is_seen_soon(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 10);
    hw_push urgent = a_job("77");
    static hw_push jobs[MANY];
    static howdah_pushed pushed[MANY];
    int64_t pushed_us;
    bool found = false;

    for (int i = 0; i < MANY; i++)
        jobs[i] = a_job("10");
    ok(jobs_ops(t)->push(t->store, S("q"), jobs, MANY, pushed, &ss_error));
    for (int i = 0; i < 20; i++)
        k = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
    urgent.priority = -7;
    (void)push(t, urgent);
    pushed_us = hw_clock_mono_us();
    for (int i = 0; i < MANY - 20 && !found; i++) {
        int64_t begun_us = hw_clock_mono_us();

        k = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
        found = strcmp(k.data, "77") == 0;
        if (!found)
            assert_true(begun_us - pushed_us < SEEN_MS * 1000);
    }
    assert_true(found);
}

/* Nothing is left on the only level that is known: others are looked at. */
static void one_at_a_time_less_urgent_jobs_come_when_the_others_are_done(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 9);
    hw_push late = a_job("88");

    late.priority = 7;
    (void)push(t, late);
    (void)push(t, late);
    k = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
    assert_string_equal(k.data, "9");
    for (int i = 0; i < 2; i++) {
        batch b = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE);

        assert_string_equal(b.names, "88");
        k = b.jobs[0];
    }
    assert_int_equal(exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).n, 0);
}

static void one_at_a_time_a_queue_that_is_paused_gives_nothing(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 6);
    batch b;

    ok(jobs_ops(t)->queue_pause(t->store, S("q"), true, &ss_error));
    b = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE);
    assert_int_equal(b.n, 0);
    assert_true(b.report.paused);
    expect_counts(t, "4 0 0 6 0 0");
    ok(jobs_ops(t)->queue_pause(t->store, S("q"), false, &ss_error));
    (void)claim_one(t, "6");
}

static void one_at_a_time_a_limit_counts_the_job_that_is_done(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();
    kept_job k = exchange_jobs(t, 6);
    kept_job other = claim_one(t, "6");

    settings.concurrency = 1;
    put_queue(t, "q", settings);
    assert_int_equal(exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).n, 0);
    for (int i = 7; i < 10; i++) {
        batch b = exchange_for(t, &other, "q", HOWDAH_ACKED_DONE);

        assert_int_equal(b.n, 1);
        assert_int_equal(b.names[0], '0' + i);
        other = b.jobs[0];
    }
    expect_counts(t, "0 1 0 9 0 0");
}

static void one_at_a_time_keys_are_kept_apart_as_soon_as_there_are_any(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 8);
    kept_job first;

    (void)push(t, a_keyed_job("10", "k"));
    (void)push(t, a_keyed_job("11", "k"));
    k = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
    k = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
    first = exchange_for(t, &k, "q", HOWDAH_ACKED_DONE).jobs[0];
    assert_string_equal(first.data, "10");
    assert_int_equal(claim(t, 1).n, 0);
    assert_string_equal(exchange_for(t, &first, "q", HOWDAH_ACKED_DONE).names, "11");
}

static void one_at_a_time_the_next_may_come_from_another_queue(void **state)
{
    ss *t = *state;
    kept_job k = exchange_jobs(t, 6);
    batch b;

    (void)push_to(t, "other", a_job("20"));
    b = exchange_for(t, &k, "other", HOWDAH_ACKED_DONE);
    assert_string_equal(b.names, "20");
    b = exchange_for(t, &b.jobs[0], "q", HOWDAH_ACKED_DONE);
    assert_string_equal(b.names, "6");
    assert_int_equal(load_queue(t, "other").completed, 1);
    assert_int_equal(exchange_for(t, &b.jobs[0], "nobody", HOWDAH_ACKED_DONE).n, 0);
    expect_counts(t, "3 0 0 7 0 0");
}

ss_group ss_queue_exchange_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(one_at_a_time_jobs_come_in_order_and_each_is_done_once),
        SS_TEST(one_at_a_time_a_job_has_all_that_it_was_pushed_with),
        SS_TEST(one_at_a_time_a_stale_token_is_lost_and_the_next_job_comes),
        SS_TEST(one_at_a_time_an_urgent_job_of_a_new_priority_is_seen_soon),
        SS_TEST(one_at_a_time_less_urgent_jobs_come_when_the_others_are_done),
        SS_TEST(one_at_a_time_a_queue_that_is_paused_gives_nothing),
        SS_TEST(one_at_a_time_a_limit_counts_the_job_that_is_done),
        SS_TEST(one_at_a_time_keys_are_kept_apart_as_soon_as_there_are_any),
        SS_TEST(one_at_a_time_the_next_may_come_from_another_queue),
    };
    return SS_GROUP(tests);
}
