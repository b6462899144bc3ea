/* test_queue.c - jobs in and out: push, claim, verdicts, leases that run out. */
#include <pthread.h>
#include <stdio.h>

#include "jobs.h"

/* ---- push and claim */

static void a_job_is_claimed_with_all_that_it_was_pushed_with(void **state)
{
    ss *t = *state;
    hw_push job = a_job("{\"a\":1}");
    int64_t before = hw_clock_wall_us();
    int64_t id;
    batch b;

    job.headers = S("{\"h\":\"x\"}");
    job.priority = 7;
    job.max_attempts = 3;
    job.key = S("k");
    job.dedup = S("d");
    job.correlation_id = S("c-1");
    job.has_causation = true;
    memset(job.causation_id.b, 0x5a, sizeof job.causation_id.b);
    id = push(t, job);
    b = claim(t, 10);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.jobs[0].job.id, id);
    assert_true(b.jobs[0].job.token > 0);
    assert_int_equal(b.jobs[0].job.state, HOWDAH_JOB_PROCESSING);
    assert_string_equal(b.jobs[0].queue, "q");
    assert_int_equal(b.jobs[0].job.priority, 7);
    assert_int_equal(b.jobs[0].job.attempts, 1);
    assert_int_equal(b.jobs[0].job.max_attempts, 3);
    assert_false(b.jobs[0].job.suspect);
    assert_string_equal(b.jobs[0].worker, "w");
    assert_string_equal(b.jobs[0].key, "k");
    assert_string_equal(b.jobs[0].dedup, "d");
    assert_string_equal(b.jobs[0].correlation_id, "c-1");
    assert_true(b.jobs[0].job.has_causation);
    assert_memory_equal(b.jobs[0].job.causation_id.b, job.causation_id.b, 16);
    assert_string_equal(b.jobs[0].headers, "{\"h\":\"x\"}");
    assert_string_equal(b.jobs[0].data, "{\"a\":1}");
    assert_string_equal(b.jobs[0].content_type, "-");
    assert_int_equal(b.jobs[0].job.event_sequence, 0);
    assert_int_equal(b.jobs[0].job.position, 0);
    assert_true(b.jobs[0].job.created_at_us >= before);
    assert_true(b.jobs[0].job.started_at_us >= b.jobs[0].job.created_at_us);
    assert_int_equal(b.jobs[0].job.lease_until_us - b.jobs[0].job.started_at_us, LONG_MS * 1000);
}

static void what_was_not_given_is_absent_and_defaults_are_the_queues(void **state)
{
    ss *t = *state;
    batch b;

    (void)push(t, a_job("1"));
    b = claim_from(t->store, "q", 1, 0);
    assert_int_equal(b.n, 1);
    assert_int_equal(b.jobs[0].job.max_attempts, 5);
    assert_int_equal(b.jobs[0].job.priority, 0);
    assert_string_equal(b.jobs[0].key, "-");
    assert_string_equal(b.jobs[0].dedup, "-");
    assert_string_equal(b.jobs[0].correlation_id, "-");
    assert_string_equal(b.jobs[0].headers, "-");
    assert_false(b.jobs[0].job.has_causation);
    assert_int_equal(b.jobs[0].job.lease_until_us - b.jobs[0].job.started_at_us, 300000 * 1000LL);
}

static int look_at_bytes(void *ctx, const howdah_job *job)
{
    int *seen = ctx;

    assert_int_equal(job->data.len, *seen == 0 ? 4 : 0);
    assert_memory_equal(job->data.s, "\0\xff\0x", *seen == 0 ? 5 : 1); /* the NUL behind it too */
    assert_string_equal(job->content_type.s, "application/x");
    (*seen)++;
    return 0;
}

static void bytes_come_back_as_they_were(void **state)
{
    ss *t = *state;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 5, .lease_ms = LONG_MS};
    hw_push job = a_job("");
    hw_claim_report report;
    int seen = 0;

    job.content_type = S("application/x");
    job.data = (hw_str){"\0\xff\0x", 4};
    (void)push(t, job);
    job.data = S("");
    (void)push(t, job);
    ok(jobs_ops(t)->exchange(t->store, NULL, 0, NULL, &ask, look_at_bytes, &seen, &report,
                             &ss_error));
    assert_int_equal(seen, 2);
}

static void ids_ascend_within_a_push_and_from_push_to_push(void **state)
{
    ss *t = *state;
    hw_push jobs[3] = {a_job("1"), a_job("2"), a_job("3")};
    howdah_pushed pushed[3] = {{.id = 0}};
    int64_t last = push(t, a_job("0"));

    ok(jobs_ops(t)->push(t->store, S("q"), jobs, 3, pushed, &ss_error));
    for (int i = 0; i < 3; i++) {
        assert_true(pushed[i].id > last);
        assert_false(pushed[i].existed);
        last = pushed[i].id;
    }
    assert_true(push_to(t, "other", a_job("4")) > last);
    assert_string_equal(claim(t, 10).names, "0 1 2 3");
}

static void jobs_come_by_priority_then_due_then_id(void **state)
{
    static const struct {
        const char *data;
        int priority;
        int64_t run_at_us;
    } jobs[] = {{"a", 5, 0}, {"b", -3, 0}, {"c", 0, 0}, {"d", 0, 0}, {"e", 5, 0}, {"f", -3, 0}};
    ss *t = *state;
    batch b;

    (void)jobs_ops(t);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        char text[8];
        hw_push job;

        (void)snprintf(text, sizeof text, "\"%s\"", jobs[i].data);
        job = a_job(text);
        job.priority = jobs[i].priority;
        (void)push(t, job);
    }
    b = claim(t, 3);
    assert_string_equal(b.names, "\"b\" \"f\" \"c\"");
    assert_true(b.report.more);
    b = claim(t, 10);
    assert_string_equal(b.names, "\"d\" \"a\" \"e\"");
    assert_false(b.report.more);
}

static void a_job_that_was_due_earlier_comes_first_whatever_its_id(void **state)
{
    ss *t = *state;
    hw_push late = a_job("1");

    late.delay_us = 30 * 1000;
    (void)push(t, late);
    (void)push(t, a_job("2"));
    wait_ms(40);
    assert_string_equal(claim(t, 10).names, "2 1");
}

static void a_delayed_job_waits_and_the_claim_says_how_long(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");
    batch b;

    job.delay_us = 80 * 1000;
    (void)push(t, job);
    b = claim(t, 10);
    assert_int_equal(b.n, 0);
    assert_false(b.report.more);
    assert_in_range(b.report.next_due_ms, 1, 81);
    wait_ms(b.report.next_due_ms);
    assert_string_equal(claim(t, 10).names, "1");
}

static void a_time_to_run_in_the_past_is_now_and_one_ahead_is_kept(void **state)
{
    ss *t = *state;
    int64_t ahead_us = hw_clock_wall_us() + 3600 * 1000000LL;
    int64_t before_us = hw_clock_wall_us();
    hw_push job = a_job("1");
    int64_t id;

    job.run_at_us = 1000000;
    id = push(t, job);
    assert_true(load_job(t, id).job.due_at_us >= before_us);
    job = a_job("2");
    job.run_at_us = ahead_us;
    id = push(t, job);
    assert_true(load_job(t, id).job.due_at_us == ahead_us);
    expect_state(t, id, HOWDAH_JOB_SCHEDULED);
    assert_string_equal(claim(t, 10).names, "1");
}

static void a_scheduled_job_of_a_higher_priority_is_not_in_the_way(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");

    job.priority = -1;
    job.delay_us = 60 * 1000000LL;
    (void)push(t, job);
    (void)push(t, a_job("2"));
    assert_string_equal(claim(t, 10).names, "2");
}

static void a_queue_that_does_not_exist_is_empty(void **state)
{
    ss *t = *state;
    bool more = true;
    batch b = claim(t, 10);

    assert_int_equal(b.n, 0);
    assert_false(b.report.paused);
    assert_false(b.report.more);
    assert_int_equal(b.report.next_due_ms, -1);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    assert_false(more);
}

static void an_empty_queue_knows_of_nothing_but_its_leases(void **state)
{
    ss *t = *state;
    batch b;

    (void)push(t, a_job("1"));
    b = claim_from(t->store, "q", 2, 5000);
    assert_in_range(b.report.next_due_ms, 4000, 5000);
    b = claim(t, 1);
    assert_int_equal(b.n, 0);
    assert_in_range(b.report.next_due_ms, 1000, 5000);
}

static void every_claim_has_a_token_that_no_claim_had_before(void **state)
{
    ss *t = *state;
    kept_job one;
    kept_job two;
    kept_job again;

    (void)push(t, a_job("1"));
    (void)push(t, a_job("2"));
    one = claim_one(t, "1");
    two = claim_one(t, "2");
    assert_true(two.job.token > one.job.token);
    assert_int_equal(ack(t, &one, HOWDAH_VERDICT_RELEASE, NULL, 0), HOWDAH_ACKED_DONE);
    again = claim_one(t, "1");
    assert_true(again.job.token > two.job.token);
}

static void who_ends_the_handing_over_still_holds_the_leases(void **state)
{
    ss *t = *state;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 5, .lease_ms = LONG_MS};
    batch b = {.stop_after = 1};

    for (int i = 0; i < 3; i++)
        (void)push(t, a_job("1"));
    ok(jobs_ops(t)->exchange(t->store, NULL, 0, NULL, &ask, jobs_keep, &b, &b.report, &ss_error));
    assert_int_equal(b.n, 1);
    assert_int_equal(b.report.n, 3);
    expect_counts(t, "0 3 0 0 0 0");
}

/* ---- verdicts */

static void a_completed_job_is_in_the_history_with_its_result(void **state)
{
    ss *t = *state;
    int64_t ids[2] = {push(t, a_job("1")), push(t, a_job("2"))};
    batch b = claim(t, 2);
    kept_job k;

    assert_int_equal(ack(t, &b.jobs[0], HOWDAH_VERDICT_COMPLETE, "fine", 0), HOWDAH_ACKED_DONE);
    complete(t, &b.jobs[1]);
    k = load_job(t, ids[0]);
    assert_int_equal(k.job.state, HOWDAH_JOB_COMPLETED);
    assert_string_equal(k.result, "fine");
    assert_string_equal(k.error, "-");
    assert_string_equal(k.worker, "w");
    assert_string_equal(k.data, "1");
    assert_int_equal(k.job.attempts, 1);
    assert_int_equal(k.job.token, 0);
    assert_true(k.job.position > 0);
    assert_true(k.job.started_at_us == b.jobs[0].job.started_at_us);
    assert_true(k.job.finished_at_us >= k.job.started_at_us);
    assert_string_equal(load_job(t, ids[1]).result, "-");
    assert_true(load_job(t, ids[1]).job.position > k.job.position);
    assert_int_equal(claim(t, 10).n, 0);
    expect_counts(t, "0 0 0 2 0 0");
}

static void a_failed_job_is_in_the_history_and_has_a_dead_letter(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    kept_job k = claim_one(t, "1");

    fail_for_good(t, &k, "no such thing");
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_FAILED);
    assert_string_equal(k.error, "no such thing");
    assert_string_equal(k.result, "-");
    assert_int_equal(k.job.attempts, 1);
    assert_true(open_dead_letter(t, id) > 0);
    assert_int_equal(load_queue(t, "q").dead_letters, 1);
    expect_counts(t, "0 0 0 0 1 0");
}

static void a_retried_job_comes_after_its_time_with_its_error(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    kept_job k = claim_one(t, "1");
    batch b;

    retry_after(t, &k, 60);
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_SCHEDULED);
    assert_int_equal(k.job.attempts, 1);
    assert_int_equal(k.job.token, 0);
    assert_string_equal(k.error, "again");
    b = claim(t, 1);
    assert_int_equal(b.n, 0);
    assert_in_range(b.report.next_due_ms, 1, 61);
    wait_ms(b.report.next_due_ms);
    k = claim_one(t, "1");
    assert_int_equal(k.job.attempts, 2);
    retry_after(t, &k, 0);
    assert_int_equal(claim_one(t, "1").job.attempts, 3);
}

/* How far ahead of its start the job is due, in milliseconds, after a back-off. */
static int64_t backoff_of(const ss *t, const kept_job *k)
{
    retry_after(t, k, HOWDAH_AFTER_BACKOFF);
    return (load_job(t, k->job.id).job.due_at_us - k->job.started_at_us) / 1000;
}

static void back_off_doubles_up_to_its_maximum_and_does_not_overflow(void **state)
{
    static const int64_t expected[] = {10000, 20000, 40000, 70000, 70000};
    ss *t = *state;
    howdah_queue_options settings = keep_all();
    hw_push job = a_job("1");
    int64_t id;

    settings.backoff_initial_ms = 10000;
    settings.backoff_max_ms = 70000;
    settings.backoff_jitter = 0;
    put_queue(t, "q", settings);
    job.max_attempts = 100;
    id = push(t, job);
    for (size_t i = 0; i < 5; i++) {
        kept_job k = claim_one(t, "1");

        assert_in_range(backoff_of(t, &k), expected[i], expected[i] + 5000);
        ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    }
    for (int i = 5; i < 80; i++) {
        kept_job k = claim_one(t, "1");

        assert_int_equal(k.job.attempts, i + 1);
        retry_after(t, &k, 0);
    }
    ss_sql(t, "UPDATE {queues} SET backoff_max_ms = 9000000000000000");
    {
        kept_job k = claim_one(t, "1");

        retry_after(t, &k, HOWDAH_AFTER_BACKOFF);
    }
    expect_state(t, id, HOWDAH_JOB_SCHEDULED);
}

static void jitter_spreads_the_back_off_by_so_many_percent(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();
    int64_t least = INT64_MAX;
    int64_t most = 0;

    settings.backoff_initial_ms = 1000000;
    settings.backoff_jitter = 50;
    put_queue(t, "q", settings);
    for (int i = 0; i < 20; i++) {
        kept_job k;
        int64_t ms;

        (void)push(t, a_job("1"));
        k = claim_one(t, "1");
        ms = backoff_of(t, &k);
        assert_in_range(ms, 500000, 1505000);
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    assert_true(most - least > 10000);
}

static void a_retry_without_an_attempt_left_is_a_failure(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");
    int64_t id;
    kept_job k;

    job.max_attempts = 2;
    id = push(t, job);
    k = claim_one(t, "1");
    retry_after(t, &k, 0);
    k = claim_one(t, "1");
    assert_int_equal(ack(t, &k, HOWDAH_VERDICT_RETRY, "too often", 0), HOWDAH_ACKED_FAILED);
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_FAILED);
    assert_int_equal(k.job.attempts, 2);
    assert_string_equal(k.error, "too often");
    assert_true(open_dead_letter(t, id) > 0);
    expect_counts(t, "0 0 0 0 1 0");
}

static void a_released_job_has_its_attempt_back_and_is_due(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    kept_job k = claim_one(t, "1");

    assert_int_equal(ack(t, &k, HOWDAH_VERDICT_RELEASE, NULL, 0), HOWDAH_ACKED_DONE);
    expect_state(t, id, HOWDAH_JOB_PENDING);
    assert_int_equal(load_job(t, id).job.attempts, 0);
    assert_int_equal(claim_one(t, "1").job.attempts, 1);
}

static void an_extension_moves_the_lease_of_the_named_jobs_only(void **state)
{
    ss *t = *state;
    int64_t ids[2] = {push(t, a_job("1")), push(t, a_job("2"))};
    batch b = claim_from(t->store, "q", 2, 5000);
    int64_t until_us = b.jobs[0].job.lease_until_us;

    assert_int_equal(ack(t, &b.jobs[0], HOWDAH_VERDICT_EXTEND, NULL, LONG_MS), HOWDAH_ACKED_DONE);
    assert_in_range(load_job(t, ids[0]).job.lease_until_us, until_us + (LONG_MS - 5000) * 1000,
                    until_us + LONG_MS * 1000);
    assert_true(load_job(t, ids[1]).job.lease_until_us == until_us);
    assert_int_equal(load_job(t, ids[0]).job.token, b.jobs[0].job.token);
    /* As claimed. */
    wait_ms(2);
    assert_int_equal(ack(t, &b.jobs[1], HOWDAH_VERDICT_EXTEND, NULL, 0), HOWDAH_ACKED_DONE);
    assert_in_range(load_job(t, ids[1]).job.lease_until_us, until_us + 1000, until_us + 5000000);
    complete(t, &b.jobs[0]);
    complete(t, &b.jobs[1]);
}

static void an_extended_lease_does_not_run_out_at_its_first_time(void **state)
{
    ss *t = *state;
    batch b;

    (void)push(t, a_job("1"));
    (void)push(t, a_job("2"));
    b = claim_from(t->store, "q", 2, SHORT_MS);
    assert_int_equal(ack(t, &b.jobs[1], HOWDAH_VERDICT_EXTEND, NULL, LONG_MS), HOWDAH_ACKED_DONE);
    wait_ms(SHORT_MS + 10);
    assert_string_equal(claim(t, 10).names, "1");
    complete(t, &b.jobs[1]);
}

static void a_stale_token_changes_nothing_and_the_others_are_acked(void **state)
{
    ss *t = *state;
    howdah_ack_outcome acked[5];
    hw_ack acks[5];
    int64_t ids[3];
    batch b;

    for (int i = 0; i < 3; i++)
        ids[i] = push(t, a_job("1"));
    b = claim(t, 3);
    for (int i = 0; i < 3; i++)
        acks[i] = (hw_ack){ids[i], b.jobs[i].job.token, HOWDAH_VERDICT_COMPLETE, HW_STR_NULL, 0};
    acks[1].token += 1000;
    acks[3] = acks[0]; /* a second time */
    acks[4] = acks[0];
    acks[4].id = ids[2] + 1000;
    ok(jobs_ops(t)->exchange(t->store, acks, 5, acked, NULL, NULL, NULL, NULL, &ss_error));
    assert_int_equal(acked[0], HOWDAH_ACKED_DONE);
    assert_int_equal(acked[1], HOWDAH_ACKED_LOST);
    assert_int_equal(acked[2], HOWDAH_ACKED_DONE);
    assert_int_equal(acked[3], HOWDAH_ACKED_LOST);
    assert_int_equal(acked[4], HOWDAH_ACKED_LOST);
    expect_state(t, ids[1], HOWDAH_JOB_PROCESSING);
    expect_counts(t, "0 1 0 2 0 0");
}

static void every_verdict_with_a_stale_token_is_lost(void **state)
{
    static const howdah_verdict verdicts[] = {HOWDAH_VERDICT_COMPLETE, HOWDAH_VERDICT_FAIL,
                                              HOWDAH_VERDICT_RETRY, HOWDAH_VERDICT_RELEASE,
                                              HOWDAH_VERDICT_EXTEND};
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    kept_job stale = claim_one(t, "1");
    kept_job k;

    assert_int_equal(ack(t, &stale, HOWDAH_VERDICT_RELEASE, NULL, 0), HOWDAH_ACKED_DONE);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ack(t, &stale, verdicts[i], "x", 0), HOWDAH_ACKED_LOST);
    expect_state(t, id, HOWDAH_JOB_PENDING);
    k = claim_one(t, "1");
    for (int i = 0; i < 5; i++)
        assert_int_equal(ack(t, &stale, verdicts[i], "x", 0), HOWDAH_ACKED_LOST);
    assert_int_equal(load_job(t, id).job.token, k.job.token);
    assert_true(load_job(t, id).job.lease_until_us == k.job.lease_until_us);
    complete(t, &k);
    for (int i = 0; i < 5; i++)
        assert_int_equal(ack(t, &k, verdicts[i], "x", 0), HOWDAH_ACKED_LOST);
    expect_counts(t, "0 0 0 1 0 0");
}

static void one_turn_acks_jobs_of_several_queues_and_claims(void **state)
{
    ss *t = *state;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 5, .lease_ms = LONG_MS};
    howdah_ack_outcome acked[2];
    hw_ack acks[2];
    batch of[2];
    batch b = {.n = 0};

    (void)push(t, a_job("1"));
    (void)push_to(t, "other", a_job("2"));
    of[0] = claim_from(t->store, "q", 1, LONG_MS);
    of[1] = claim_from(t->store, "other", 1, LONG_MS);
    (void)push(t, a_job("3"));
    for (int i = 0; i < 2; i++)
        acks[i] = (hw_ack){of[i].jobs[0].job.id, of[i].jobs[0].job.token, HOWDAH_VERDICT_COMPLETE,
                           HW_STR_NULL, 0};
    acks[0].verdict = HOWDAH_VERDICT_RELEASE;
    ok(jobs_ops(t)->exchange(t->store, acks, 2, acked, &ask, jobs_keep, &b, &b.report, &ss_error));
    assert_int_equal(acked[0], HOWDAH_ACKED_DONE);
    assert_int_equal(acked[1], HOWDAH_ACKED_DONE);
    assert_int_equal(b.n, 2);
    assert_int_equal(load_queue(t, "other").completed, 1);
    expect_counts(t, "0 2 0 0 0 0");
}

/* ---- leases that run out */

static void an_abandoned_job_is_ready_again_as_a_suspect(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    batch b = claim_from(t->store, "q", 2, HELD_MS);
    kept_job k;

    assert_in_range(b.report.next_due_ms, 1, HELD_MS);
    assert_int_equal(claim(t, 1).n, 0);
    wait_ms(HELD_MS + 10);
    k = claim_one(t, "1");
    assert_int_equal(k.job.id, id);
    assert_true(k.job.suspect);
    assert_int_equal(k.job.attempts, 2);
    assert_true(k.job.token > b.jobs[0].job.token);
    assert_true(k.job.started_at_us > b.jobs[0].job.started_at_us);
    assert_int_equal(ack(t, &b.jobs[0], HOWDAH_VERDICT_COMPLETE, NULL, 0), HOWDAH_ACKED_LOST);
    complete(t, &k);
}

static void a_lease_that_ran_out_but_was_not_given_back_is_still_its_workers(void **state)
{
    ss *t = *state;
    batch b;

    (void)push(t, a_job("1"));
    b = claim_from(t->store, "q", 1, SHORT_MS);
    wait_ms(SHORT_MS + 10);
    complete(t, &b.jobs[0]);
    expect_counts(t, "0 0 0 1 0 0");
}

static void a_job_that_is_abandoned_too_often_fails_and_does_not_run_again(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");
    int64_t id;
    kept_job k;

    job.max_attempts = 2;
    id = push(t, job);
    for (int i = 1; i <= 2; i++) {
        batch b = claim_from(t->store, "q", 1, SHORT_MS);

        assert_int_equal(b.n, 1);
        assert_int_equal(b.jobs[0].job.attempts, i);
        wait_ms(SHORT_MS + 10);
    }
    assert_int_equal(claim(t, 1).n, 0);
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_FAILED);
    assert_int_equal(k.job.attempts, 2);
    assert_string_equal(k.error, "abandoned: its worker did not answer for 50 ms (attempt 2 of 2)");
    assert_true(open_dead_letter(t, id) > 0);
    expect_counts(t, "0 0 0 0 1 0");
}

static void maintenance_gives_leases_back_that_ran_out(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    bool more = true;

    (void)claim_from(t->store, "q", 1, HELD_MS);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    assert_false(more);
    expect_state(t, id, HOWDAH_JOB_PROCESSING);
    wait_ms(HELD_MS + 10);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    assert_false(more);
    expect_state(t, id, HOWDAH_JOB_PENDING);
    assert_true(load_job(t, id).job.suspect);
}

static void a_suspect_is_claimed_alone_and_before_the_others(void **state)
{
    ss *t = *state;
    bool more = false;
    batch b;

    for (int i = 1; i <= 4; i++) {
        char text[8];

        (void)snprintf(text, sizeof text, "%d", i);
        (void)push(t, a_job(text));
    }
    b = claim_from(t->store, "q", 2, SHORT_MS);
    assert_string_equal(b.names, "1 2");
    wait_ms(SHORT_MS + 10);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    for (int i = 0; i < 2; i++) {
        b = claim(t, 10);
        assert_int_equal(b.n, 1);
        assert_true(b.jobs[0].job.suspect);
        assert_true(b.report.more);
        complete(t, &b.jobs[0]);
    }
    b = claim(t, 10);
    assert_string_equal(b.names, "3 4");
}

static int64_t push_at(const ss *t, const char *data, int32_t priority)
{
    hw_push job = a_job(data);

    job.priority = priority;
    return push(t, job);
}

static void a_suspect_comes_behind_all_that_is_more_urgent(void **state)
{
    ss *t = *state;
    bool more = false;
    batch b;

    (void)push_at(t, "1", 5);
    assert_int_equal(claim_from(t->store, "q", 1, SHORT_MS).n, 1);
    wait_ms(SHORT_MS + 10);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    (void)push_at(t, "2", 5);
    (void)push_at(t, "3", 4);
    (void)push_at(t, "4", -1);
    assert_string_equal(claim(t, 1).names, "4");
    b = claim(t, 10);
    assert_string_equal(b.names, "3");
    b = claim(t, 10);
    assert_string_equal(b.names, "1");
    assert_true(b.jobs[0].job.suspect);
    assert_string_equal(claim(t, 10).names, "2");
}

static void a_suspect_that_is_released_or_retried_stays_one(void **state)
{
    ss *t = *state;
    bool more = false;
    batch b;

    (void)push(t, a_job("1"));
    (void)push(t, a_job("2"));
    (void)claim_from(t->store, "q", 1, SHORT_MS);
    wait_ms(SHORT_MS + 10);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    b = claim(t, 10);
    assert_string_equal(b.names, "1");
    assert_int_equal(ack(t, &b.jobs[0], HOWDAH_VERDICT_RELEASE, NULL, 0), HOWDAH_ACKED_DONE);
    b = claim(t, 10);
    assert_string_equal(b.names, "1");
    assert_true(b.jobs[0].job.suspect);
    retry_after(t, &b.jobs[0], 0);
    b = claim(t, 10);
    assert_string_equal(b.names, "1");
    assert_true(b.jobs[0].job.suspect);
    assert_string_equal(claim(t, 10).names, "2");
}

/* ---- dedup */

static hw_push a_deduped_job(const char *data, const char *dedup)
{
    hw_push job = a_job(data);

    job.dedup = S(dedup);
    return job;
}

static void a_second_push_with_a_live_dedup_key_gives_the_first_id(void **state)
{
    ss *t = *state;
    hw_push job = a_deduped_job("2", "d");
    int64_t id = push(t, a_deduped_job("1", "d"));
    howdah_pushed pushed = {.id = 0};
    kept_job k;

    for (int i = 0; i < 3; i++) {
        ok(jobs_ops(t)->push(t->store, S("q"), &job, 1, &pushed, &ss_error));
        assert_true(pushed.existed);
        assert_int_equal(pushed.id, id);
        if (i == 0)
            k = claim_one(t, "1");
        if (i == 1)
            retry_after(t, &k, LONG_MS);
    }
    (void)push_to(t, "other", job);
    expect_counts(t, "0 0 1 0 0 0");
}

static void a_dedup_key_is_free_when_its_job_is_over(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_deduped_job("1", "d"));
    kept_job k = claim_one(t, "1");
    int64_t n = 0;

    complete(t, &k);
    assert_true(push(t, a_deduped_job("2", "d")) > id);
    k = claim_one(t, "2");
    fail_for_good(t, &k, "x");
    id = push(t, a_deduped_job("3", "d"));
    ok(jobs_ops(t)->job_cancel(t->store, id, HW_STR_NULL, &ss_error));
    (void)push(t, a_deduped_job("4", "d"));
    ok(jobs_ops(t)->queue_purge(t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, 1);
    (void)push(t, a_deduped_job("5", "d"));
    expect_counts(t, "1 0 0 1 2 1");
}

static void dedup_keys_count_within_one_push_as_well(void **state)
{
    ss *t = *state;
    hw_push jobs[4] = {a_deduped_job("1", "d"), a_deduped_job("2", "e"), a_deduped_job("3", "d"),
                       a_job("4")};
    howdah_pushed pushed[4] = {{.id = 0}};

    ok(jobs_ops(t)->push(t->store, S("q"), jobs, 4, pushed, &ss_error));
    assert_false(pushed[0].existed || pushed[1].existed || pushed[3].existed);
    assert_true(pushed[2].existed);
    assert_int_equal(pushed[2].id, pushed[0].id);
    assert_true(pushed[1].id > pushed[0].id && pushed[3].id > pushed[1].id);
    assert_string_equal(claim(t, 10).names, "1 2 4");
}

/* ---- several at once */

#define WORKERS 3
#define SHARED_JOBS 300

typedef struct worker {
    hw_store *store;
    int64_t ids[SHARED_JOBS];
    size_t n;
    int status;
    howdah_error error;
} worker;

static int note_id(void *ctx, const howdah_job *job)
{
    worker *w = ctx;

    if (w->n < SHARED_JOBS)
        w->ids[w->n] = job->id;
    w->n++;
    return 0;
}

static void *work(void *ctx)
{
    worker *w = ctx;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 7, .lease_ms = LONG_MS};
    hw_claim_report report = {.n = 1};

    /* Two empty claims in a row: a row that another one was looking at may be free again. */
    for (int empty = 0; empty < 2 && w->status >= 0; empty = report.n == 0 ? empty + 1 : 0)
        w->status = w->store->ops->queue->exchange(w->store, NULL, 0, NULL, &ask, note_id, w,
                                                   &report, &w->error);
    return NULL;
}

static void two_workers_never_get_the_same_job(void **state)
{
    static worker workers[WORKERS];
    ss *t = *state;
    pthread_t threads[WORKERS];
    hw_push jobs[SHARED_JOBS];
    howdah_pushed pushed[SHARED_JOBS];
    size_t n = 0;

    for (int i = 0; i < SHARED_JOBS; i++)
        jobs[i] = a_job("1");
    ok(jobs_ops(t)->push(t->store, S("q"), jobs, SHARED_JOBS, pushed, &ss_error));
    for (int i = 0; i < WORKERS; i++)
        workers[i] = (worker){.store = ss_open(t), .error = HOWDAH_ERROR_INIT};
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < WORKERS; i++) {
        if (workers[i].status < 0)
            fail_msg("%s", workers[i].error.message);
        n += workers[i].n;
        for (size_t j = 0; j < workers[i].n; j++)
            for (int other = i + 1; other < WORKERS; other++)
                for (size_t k = 0; k < workers[other].n; k++)
                    assert_true(workers[i].ids[j] != workers[other].ids[k]);
        workers[i].store->ops->close(workers[i].store);
    }
    assert_int_equal(n, SHARED_JOBS);
    expect_counts(t, "0 300 0 0 0 0");
}

static void a_push_wakes_who_sleeps(void **state)
{
    ss *t = *state;
    hw_store *sleeper = ss_open(t);
    const hw_sub_ops *subs = sleeper->ops->subs;
    char type[64];
    hw_str types;

    (void)push(t, a_job("1"));
    (void)snprintf(type, sizeof type, "queue.%lld",
                   (long long)ss_sql_number(t, "SELECT queue_id FROM {queues}"));
    types = S(type);
    expect(subs->listen(sleeper, false, &types, 1, &ss_error), HOWDAH_OK);
    ok(subs->arm(sleeper, &ss_error));
    while (subs->wait(sleeper, 20, &ss_error) == HOWDAH_OK)
        ok(subs->arm(sleeper, &ss_error));
    (void)push(t, a_job("2"));
    expect(subs->wait(sleeper, 10000, &ss_error), HOWDAH_OK);
    sleeper->ops->close(sleeper);
}

ss_group ss_queue_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_job_is_claimed_with_all_that_it_was_pushed_with),
        SS_TEST(what_was_not_given_is_absent_and_defaults_are_the_queues),
        SS_TEST(bytes_come_back_as_they_were),
        SS_TEST(ids_ascend_within_a_push_and_from_push_to_push),
        SS_TEST(jobs_come_by_priority_then_due_then_id),
        SS_TEST(a_job_that_was_due_earlier_comes_first_whatever_its_id),
        SS_TEST(a_delayed_job_waits_and_the_claim_says_how_long),
        SS_TEST(a_time_to_run_in_the_past_is_now_and_one_ahead_is_kept),
        SS_TEST(a_scheduled_job_of_a_higher_priority_is_not_in_the_way),
        SS_TEST(a_queue_that_does_not_exist_is_empty),
        SS_TEST(an_empty_queue_knows_of_nothing_but_its_leases),
        SS_TEST(every_claim_has_a_token_that_no_claim_had_before),
        SS_TEST(who_ends_the_handing_over_still_holds_the_leases),
        SS_TEST(a_completed_job_is_in_the_history_with_its_result),
        SS_TEST(a_failed_job_is_in_the_history_and_has_a_dead_letter),
        SS_TEST(a_retried_job_comes_after_its_time_with_its_error),
        SS_TEST(back_off_doubles_up_to_its_maximum_and_does_not_overflow),
        SS_TEST(jitter_spreads_the_back_off_by_so_many_percent),
        SS_TEST(a_retry_without_an_attempt_left_is_a_failure),
        SS_TEST(a_released_job_has_its_attempt_back_and_is_due),
        SS_TEST(an_extension_moves_the_lease_of_the_named_jobs_only),
        SS_TEST(an_extended_lease_does_not_run_out_at_its_first_time),
        SS_TEST(a_stale_token_changes_nothing_and_the_others_are_acked),
        SS_TEST(every_verdict_with_a_stale_token_is_lost),
        SS_TEST(one_turn_acks_jobs_of_several_queues_and_claims),
        SS_TEST(an_abandoned_job_is_ready_again_as_a_suspect),
        SS_TEST(a_lease_that_ran_out_but_was_not_given_back_is_still_its_workers),
        SS_TEST(a_job_that_is_abandoned_too_often_fails_and_does_not_run_again),
        SS_TEST(maintenance_gives_leases_back_that_ran_out),
        SS_TEST(a_suspect_that_is_released_or_retried_stays_one),
        SS_TEST(a_suspect_is_claimed_alone_and_before_the_others),
        SS_TEST(a_suspect_comes_behind_all_that_is_more_urgent),
        SS_TEST(a_second_push_with_a_live_dedup_key_gives_the_first_id),
        SS_TEST(a_dedup_key_is_free_when_its_job_is_over),
        SS_TEST(dedup_keys_count_within_one_push_as_well),
        SS_TEST(two_workers_never_get_the_same_job),
        SS_TEST(a_push_wakes_who_sleeps),
    };
    return SS_GROUP(tests);
}
