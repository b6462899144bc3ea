/* test_queue.c - the work queue: pushing, claiming, settling. */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "queue_help.h"

/* ---------------------------------------------------------------------- push */

static void a_job_is_claimed_with_all_that_it_was_pushed_with(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;
    howdah_jobs *jobs;
    const howdah_job *got;
    char uuid[HOWDAH_UUID_SIZE];
    size_t len = 0;
    int64_t created = 0;
    int64_t started = 0;
    int64_t until = 0;

    job.data = "{\"b\": 1.50, \"a\":12345678901234567890}";
    job.data_len = strlen(job.data);
    job.headers = "{\"trace\":\"t1\"}";
    job.headers_len = strlen(job.headers);
    job.priority = -1;
    job.max_attempts = 7;
    job.key = "customer-7";
    job.dedup = "mail-1";
    job.correlation_id = "order-7";
    job.causation_id = "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a";
    cf_ok(howdah_queue_push(c->bus, "mail", &job, &pushed, &cf_error));
    assert_int_equal(pushed.existed, 0);
    jobs = q_claim(c->bus, "mail", 10, 60000);
    assert_int_equal(howdah_jobs_count(jobs), 1);
    assert_null(howdah_jobs_at(jobs, 1));
    got = howdah_jobs_at(jobs, 0);
    assert_int_equal(howdah_job_id(got), pushed.id);
    assert_true(howdah_job_token(got) > 0);
    assert_int_equal(howdah_job_state_get(got), HOWDAH_JOB_PROCESSING);
    assert_text(howdah_job_queue(got), "mail");
    assert_int_equal(howdah_job_attempt(got), 1);
    assert_int_equal(howdah_job_max_attempts(got), 7);
    assert_int_equal(howdah_job_priority(got), -1);
    assert_false(howdah_job_is_suspect(got));
    assert_text(howdah_job_data(got, &len), job.data);
    assert_int_equal(len, job.data_len);
    assert_null(howdah_job_content_type(got));
    assert_text(howdah_job_headers(got, &len), job.headers);
    assert_text(howdah_job_key(got), "customer-7");
    assert_text(howdah_job_dedup(got), "mail-1");
    assert_text(howdah_job_correlation(got), "order-7");
    assert_true(howdah_job_causation(got, uuid));
    assert_string_equal(uuid, job.causation_id);
    assert_int_equal(howdah_job_event_sequence(got), 0);
    assert_int_equal(howdah_job_position(got), 0);
    assert_true(howdah_job_created_at(got, &created));
    assert_true(howdah_job_started_at(got, &started));
    assert_true(howdah_job_lease_until(got, &until));
    assert_false(howdah_job_finished_at(got, NULL));
    assert_true(created <= started);
    assert_int_equal(until - started, 60000000);
    howdah_jobs_free(jobs);
}

static void a_job_without_anything_has_an_empty_object(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_jobs *jobs;
    const howdah_job *got;
    char uuid[HOWDAH_UUID_SIZE];

    (void)q_push_job(c->bus, "mail", &job);
    jobs = q_claim(c->bus, "mail", 1, 0);
    got = howdah_jobs_at(jobs, 0);
    assert_text(howdah_job_data(got, NULL), "{}");
    assert_text(howdah_job_headers(got, NULL), "{}");
    assert_int_equal(howdah_job_max_attempts(got), 5);
    assert_int_equal(howdah_job_priority(got), 0);
    assert_null(howdah_job_key(got));
    assert_null(howdah_job_dedup(got));
    assert_null(howdah_job_correlation(got));
    assert_null(howdah_job_error(got));
    assert_null(howdah_job_result(got));
    assert_false(howdah_job_causation(got, uuid));
    howdah_jobs_free(jobs);
}

static void bytes_come_back_to_the_byte(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_jobs *jobs;
    char json[1024];
    size_t len = 0;

    job.data = "a\0b\xff";
    job.data_len = 4;
    job.content_type = "application/octet-stream";
    (void)q_push_job(c->bus, "mail", &job);
    jobs = q_claim(c->bus, "mail", 1, 0);
    assert_memory_equal(howdah_job_data(howdah_jobs_at(jobs, 0), &len), "a\0b\xff", 5);
    assert_int_equal(len, 4);
    assert_text(howdah_job_content_type(howdah_jobs_at(jobs, 0)), "application/octet-stream");
    assert_true(howdah_job_json(howdah_jobs_at(jobs, 0), json, sizeof json) < sizeof json);
    assert_non_null(strstr(
        json, ",\"content_type\":\"application/octet-stream\",\"data_base64\":\"YQBi/w==\""));
    howdah_jobs_free(jobs);
}

static void a_batch_has_ascending_ids_and_a_live_dedup_key_gives_the_first_job(void **state)
{
    cf *c = *state;
    howdah_new_job plain = HOWDAH_NEW_JOB_INIT;
    howdah_new_job twin = HOWDAH_NEW_JOB_INIT;
    const howdah_new_job *jobs[] = {&plain, &twin, &plain, &twin};
    howdah_pushed pushed[4] = {HOWDAH_PUSHED_INIT};
    q_ref ref;

    twin.dedup = "once";
    cf_ok(howdah_queue_push_batch(c->bus, "mail", jobs, 4, pushed, &cf_error));
    assert_true(pushed[0].id < pushed[1].id && pushed[1].id < pushed[2].id);
    assert_int_equal(pushed[3].id, pushed[1].id);
    assert_int_equal(pushed[1].existed, 0);
    assert_int_equal(pushed[3].existed, 1);
    assert_string_equal(q_counts(c->bus, "mail"), "3 0 0 0 0");
    ref = q_claim_one(c->bus, "mail", 0);
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(ref.id, pushed[1].id);
    cf_ok(howdah_queue_push(c->bus, "mail", &twin, pushed, &cf_error));
    assert_int_equal(pushed[0].existed, 1); /* it is under way, not over */
    cf_ok(howdah_job_complete(c->bus, ref.id, ref.token, NULL, &cf_error));
    cf_ok(howdah_queue_push(c->bus, "mail", &twin, pushed, &cf_error));
    assert_int_equal(pushed[0].existed, 0);
    assert_true(pushed[0].id > ref.id);
}

static void jobs_come_by_priority_then_due_time_then_id(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    int64_t ids[4];
    howdah_jobs *jobs;

    ids[0] = q_push_job(c->bus, "mail", &job);
    job.priority = -5;
    ids[1] = q_push_job(c->bus, "mail", &job);
    job.priority = 5;
    ids[2] = q_push_job(c->bus, "mail", &job);
    job.priority = 0;
    ids[3] = q_push_job(c->bus, "mail", &job);
    jobs = q_claim(c->bus, "mail", 10, 0);
    assert_int_equal(howdah_jobs_count(jobs), 4);
    assert_int_equal(howdah_job_id(howdah_jobs_at(jobs, 0)), ids[1]);
    assert_int_equal(howdah_job_id(howdah_jobs_at(jobs, 1)), ids[0]);
    assert_int_equal(howdah_job_id(howdah_jobs_at(jobs, 2)), ids[3]);
    assert_int_equal(howdah_job_id(howdah_jobs_at(jobs, 3)), ids[2]);
    howdah_jobs_free(jobs);
}

static void a_job_that_is_due_later_waits_until_then(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_jobs *jobs = NULL;
    int64_t far;

    job.delay_ms = 300;
    (void)q_push_job(c->bus, "mail", &job);
    job.delay_ms = 0;
    job.run_at_us = hw_clock_wall_us() + INT64_C(3600) * 1000000;
    far = q_push_job(c->bus, "mail", &job);
    assert_null(q_claim(c->bus, "mail", 10, 0));
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 2 0 0");
    cf_ok(howdah_queue_claim_wait(c->bus, "mail", 10, 60000, NULL, &jobs, &cf_error));
    assert_int_equal(howdah_jobs_count(jobs), 1);
    assert_true(howdah_job_id(howdah_jobs_at(jobs, 0)) < far);
    howdah_jobs_free(jobs);
    cf_ok(howdah_job_rerun(c->bus, far, &cf_error)); /* now */
    assert_int_equal(q_claim_one(c->bus, "mail", 0).id, far);
}

typedef struct bad_push {
    const char *field;
    const char *message;
    void (*spoil)(howdah_new_job *job);
    int status;
} bad_push;

static void not_json(howdah_new_job *job)
{
    job->data = "{";
    job->data_len = 1;
}

static void too_long(howdah_new_job *job)
{
    static char data[1024 * 1024 + 1];

    job->data = memset(data, '1', sizeof data);
    job->data_len = sizeof data;
}

static void headers_of_numbers(howdah_new_job *job)
{
    job->headers = "{\"a\":1}";
    job->headers_len = 7;
}

static void long_delay(howdah_new_job *job)
{
    job->delay_ms = INT64_C(11) * 366 * 24 * 3600 * 1000;
}

static void delay_and_time(howdah_new_job *job)
{
    job->delay_ms = 1;
    job->run_at_us = 1;
}

static void high_priority(howdah_new_job *job)
{
    job->priority = 32768;
}

static void many_attempts(howdah_new_job *job)
{
    job->max_attempts = 32768;
}

static void empty_key(howdah_new_job *job)
{
    job->key = "";
}

static void dedup_with_a_newline(howdah_new_job *job)
{
    job->dedup = "a\nb";
}

static void causation_that_is_none(howdah_new_job *job)
{
    job->causation_id = "x";
}

static void what_breaks_a_rule_is_refused_by_name_and_nothing_is_stored(void **state)
{
    static const bad_push cases[] = {
        {"data", "job 2: data: not valid JSON at byte 1 of 1: unexpected end", not_json,
         HOWDAH_INVALID},
        {"data", "job 2: data: must be at most 1048576 bytes, got 1048577", too_long, HOWDAH_LIMIT},
        {"headers", "job 2: headers: every value must be a string, got 1 bytes of another kind",
         headers_of_numbers, HOWDAH_INVALID},
        {"delay", "job 2: delay: must be 0 to 10 years, not 347846400000 ms", long_delay,
         HOWDAH_INVALID},
        {"run_at", "job 2: run_at: cannot be given together with a delay", delay_and_time,
         HOWDAH_INVALID},
        {"priority", "job 2: priority: must be -32768 to 32767, not 32768", high_priority,
         HOWDAH_INVALID},
        {"max_attempts", "job 2: max_attempts: must be 0 to 32767, not 32768", many_attempts,
         HOWDAH_INVALID},
        {"key", "job 2: key: must be 1 to 255 bytes, got 0", empty_key, HOWDAH_INVALID},
        {"dedup", "job 2: dedup: must not have control characters, got 3 bytes with one",
         dedup_with_a_newline, HOWDAH_INVALID},
        {"causation_id",
         "job 2: causation_id: not a UUID: wanted 36 characters like "
         "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a, got 1",
         causation_that_is_none, HOWDAH_INVALID},
    };
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        howdah_new_job good = HOWDAH_NEW_JOB_INIT;
        howdah_new_job bad = HOWDAH_NEW_JOB_INIT;
        const howdah_new_job *jobs[] = {&good, &bad};

        cases[i].spoil(&bad);
        assert_int_equal(howdah_queue_push_batch(c->bus, "mail", jobs, 2, NULL, &err),
                         cases[i].status);
        assert_string_equal(err.message, cases[i].message);
        assert_string_equal(err.field, cases[i].field);
        assert_int_equal(err.event_index, 1);
    }
    assert_int_equal(howdah_queue_publish(c->bus, "", "{}", NULL, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "queue: must be 1 to 255 bytes, got 0");
    assert_int_equal(howdah_queue_publish(c->bus, NULL, "{}", NULL, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "queue: is required");
    assert_int_equal(howdah_queues_walk(c->bus, "mail", q_keep_info, NULL, &err), HOWDAH_NOT_FOUND);
}

/* -------------------------------------------------------------------- ack */

static void an_empty_or_unknown_queue_gives_nothing(void **state)
{
    cf *c = *state;
    howdah_jobs *jobs = NULL;
    howdah_job *job = NULL;
    q_ref ref;

    assert_int_equal(howdah_queue_claim(c->bus, "nobody", 1, NULL, &jobs, &cf_error), HOWDAH_END);
    assert_int_equal(howdah_queue_poll(c->bus, "nobody", &job, &cf_error), HOWDAH_END);
    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(howdah_queue_claim(c->bus, "mail", 1, NULL, &jobs, &cf_error), HOWDAH_END);
    cf_ok(howdah_job_complete(c->bus, ref.id, ref.token, NULL, &cf_error));
    assert_int_equal(howdah_queue_claim(c->bus, "mail", 1, NULL, &jobs, &cf_error), HOWDAH_END);
    assert_null(jobs);
}

static void a_completed_job_is_in_the_history_with_its_result(void **state)
{
    cf *c = *state;
    int64_t id = q_push(c->bus, "mail", "{\"n\":1}");
    q_ref ref = q_claim_one(c->bus, "mail", 0);
    howdah_job *job;
    int64_t started = 0;
    int64_t finished = 0;

    assert_int_equal(ref.id, id);
    cf_ok(howdah_job_complete(c->bus, ref.id, ref.token, "sent\nas \xE2\x82\xAC", &cf_error));
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_COMPLETED);
    assert_text(howdah_job_result(job), "sent\nas \xE2\x82\xAC");
    assert_null(howdah_job_error(job));
    assert_int_equal(howdah_job_attempt(job), 1);
    assert_true(howdah_job_position(job) > 0);
    assert_true(howdah_job_started_at(job, &started));
    assert_true(howdah_job_finished_at(job, &finished));
    assert_true(finished >= started);
    assert_text(howdah_job_data(job, NULL), "{\"n\":1}");
    howdah_job_free(job);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 1 0");
}

static void a_failed_job_is_in_the_history_with_its_error(void **state)
{
    cf *c = *state;
    int64_t id = q_push(c->bus, "mail", "{}");
    q_ref ref = q_claim_one(c->bus, "mail", 0);
    howdah_job *job;

    cf_ok(howdah_job_fail(c->bus, ref.id, ref.token, "no such address", &cf_error));
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_FAILED);
    assert_text(howdah_job_error(job), "no such address");
    howdah_job_free(job);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 0 1");
    assert_int_equal(q_info(c->bus, "mail").dead_letters, 1);
    cf_ok(howdah_job_rerun(c->bus, id, &cf_error));
    assert_string_equal(q_counts(c->bus, "mail"), "1 0 0 0 0");
    assert_int_equal(q_claim_one(c->bus, "mail", 0).attempt, 1);
}

static void a_retry_comes_again_and_the_last_one_has_failed(void **state)
{
    cf *c = *state;
    howdah_new_job new_job = HOWDAH_NEW_JOB_INIT;
    int64_t id;
    q_ref ref;
    howdah_job *job;

    new_job.max_attempts = 2;
    id = q_push_job(c->bus, "mail", &new_job);
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(howdah_job_retry(c->bus, id, ref.token, 0, "busy", &cf_error), HOWDAH_OK);
    job = q_show(c->bus, id);
    assert_text(howdah_job_error(job), "busy");
    assert_int_equal(howdah_job_attempt(job), 1);
    howdah_job_free(job);
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(ref.id, id);
    assert_int_equal(ref.attempt, 2);
    assert_int_equal(howdah_job_retry(c->bus, id, ref.token, 0, "busy again", &cf_error),
                     HOWDAH_END);
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_FAILED);
    assert_text(howdah_job_error(job), "busy again");
    assert_int_equal(howdah_job_attempt(job), 2);
    howdah_job_free(job);
}

static void a_retry_by_back_off_is_not_due_at_once(void **state)
{
    cf *c = *state;
    howdah_queue_options o = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;
    q_ref ref;

    o.backoff_initial_ms = 300;
    o.backoff_jitter = 0;
    cf_ok(howdah_queue_configure(c->bus, "mail", &o, &cf_error));
    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 0);
    cf_ok(howdah_job_retry(c->bus, ref.id, ref.token, HOWDAH_AFTER_BACKOFF, NULL, &cf_error));
    assert_null(q_claim(c->bus, "mail", 1, 0));
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 1 0 0");
    cf_ok(howdah_queue_claim_wait(c->bus, "mail", 1, 60000, NULL, &jobs, &cf_error));
    assert_int_equal(howdah_job_attempt(howdah_jobs_at(jobs, 0)), 2);
    howdah_jobs_free(jobs);
}

static void a_released_job_does_not_count_the_attempt(void **state)
{
    cf *c = *state;
    q_ref ref;
    int64_t before;

    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 0);
    before = ref.token;
    cf_ok(howdah_job_release(c->bus, ref.id, ref.token, &cf_error));
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(ref.attempt, 1);
    assert_true(ref.token > before);
}

static void a_stale_token_is_lost_and_changes_nothing(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t id = q_push(c->bus, "mail", "{}");
    q_ref old = q_claim_one(c->bus, "mail", 0);
    q_ref ref;
    char message[128];

    cf_ok(howdah_job_release(c->bus, id, old.token, &cf_error));
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(howdah_job_complete(c->bus, id, old.token, "late", &err), HOWDAH_LOST);
    (void)snprintf(message, sizeof message, "job %lld is not leased under token %lld",
                   (long long)id, (long long)old.token);
    assert_string_equal(err.message, message);
    assert_int_equal(howdah_job_fail(c->bus, id, old.token, "late", &err), HOWDAH_LOST);
    assert_int_equal(howdah_job_retry(c->bus, id, old.token, 0, "late", &err), HOWDAH_LOST);
    assert_int_equal(howdah_job_release(c->bus, id, old.token, &err), HOWDAH_LOST);
    assert_int_equal(howdah_job_extend(c->bus, id, old.token, 0, &err), HOWDAH_LOST);
    assert_int_equal(howdah_job_complete(c->bus, id + 1000, ref.token, NULL, &err), HOWDAH_LOST);
    assert_string_equal(q_counts(c->bus, "mail"), "0 1 0 0 0");
    cf_ok(howdah_job_complete(c->bus, id, ref.token, NULL, &cf_error));
    assert_int_equal(howdah_job_complete(c->bus, id, ref.token, NULL, &err), HOWDAH_LOST);
}

static void a_ack_says_of_each_job_what_became_of_it(void **state)
{
    cf *c = *state;
    howdah_job_ack s[6] = {HOWDAH_JOB_ACK_INIT};
    howdah_jobs *jobs;

    q_push_many(c->bus, "mail", 6);
    jobs = q_claim(c->bus, "mail", 6, 60000);
    for (size_t i = 0; i < 6; i++) {
        s[i].id = howdah_job_id(howdah_jobs_at(jobs, i));
        s[i].token = howdah_job_token(howdah_jobs_at(jobs, i));
    }
    s[0].verdict = HOWDAH_VERDICT_COMPLETE;
    s[1].verdict = HOWDAH_VERDICT_FAIL;
    s[1].text = "broken";
    s[2].verdict = HOWDAH_VERDICT_RETRY;
    s[2].after_ms = 60000;
    s[3].verdict = HOWDAH_VERDICT_RELEASE;
    s[4].verdict = HOWDAH_VERDICT_EXTEND;
    s[5].verdict = HOWDAH_VERDICT_COMPLETE;
    s[5].token += 1000;
    cf_ok(howdah_jobs_ack(c->bus, s, 6, &cf_error));
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(s[i].outcome, HOWDAH_ACKED_DONE);
    assert_int_equal(s[5].outcome, HOWDAH_ACKED_LOST);
    assert_string_equal(q_counts(c->bus, "mail"), "1 2 1 1 1");
    howdah_jobs_free(jobs);
}

static void a_wrong_ack_is_refused_whole(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_job_ack s[2] = {HOWDAH_JOB_ACK_INIT,
                           {.id = 1, .token = 0, .verdict = HOWDAH_VERDICT_COMPLETE}};
    q_ref ref;

    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 0);
    s[0].id = ref.id;
    s[0].token = ref.token;
    assert_int_equal(howdah_jobs_ack(c->bus, s, 2, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "token: must be 1 or more");
    assert_int_equal(err.event_index, 1);
    s[1].token = 1;
    s[1].verdict = (howdah_verdict)9;
    assert_int_equal(howdah_jobs_ack(c->bus, s, 2, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "verdict: there is no verdict 9");
    assert_int_equal(howdah_job_retry(c->bus, ref.id, ref.token, -2, NULL, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "after: must be 0 to 10 years, not -2 ms");
    assert_string_equal(q_counts(c->bus, "mail"), "0 1 0 0 0");
}

static void a_result_over_64_kib_is_cut_at_a_character(void **state)
{
    enum { MAX = 64 * 1024 };
    cf *c = *state;
    char *text = malloc(MAX + 100);
    int64_t id = q_push(c->bus, "mail", "{}");
    q_ref ref = q_claim_one(c->bus, "mail", 0);
    howdah_job *job;

    assert_non_null(text);
    memset(text, 'x', MAX + 99);
    text[MAX + 99] = '\0';
    memcpy(text + MAX - 1, "\xE2\x82\xAC", 3); /* would be cut in the middle */
    cf_ok(howdah_job_complete(c->bus, id, ref.token, text, &cf_error));
    job = q_show(c->bus, id);
    assert_int_equal(strlen(howdah_job_result(job)), MAX - 1);
    howdah_job_free(job);
    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 0);
    cf_ok(howdah_job_fail(c->bus, ref.id, ref.token, "a\xFFz", &cf_error));
    job = q_show(c->bus, ref.id);
    assert_text(howdah_job_error(job), "a?z");
    howdah_job_free(job);
    free(text);
}

/* -------------------------------------------------------------------- leases */

static void a_lease_that_ran_out_gives_the_job_to_the_next_with_the_attempt_counted(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;
    int64_t id = q_push(c->bus, "mail", "{}");
    q_ref old = q_claim_one(c->bus, "mail", 200);
    const howdah_job *job;

    o.lease_ms = 60000;
    cf_ok(howdah_queue_claim_wait(c->bus, "mail", 1, 60000, &o, &jobs, &cf_error));
    job = howdah_jobs_at(jobs, 0);
    assert_non_null(job);
    assert_int_equal(howdah_job_id(job), id);
    assert_int_equal(howdah_job_attempt(job), 2);
    assert_true(howdah_job_token(job) > old.token);
    assert_true(howdah_job_is_suspect(job));
    assert_int_equal(howdah_job_complete(c->bus, id, old.token, NULL, &err), HOWDAH_LOST);
    cf_ok(howdah_job_complete(c->bus, id, howdah_job_token(job), NULL, &cf_error));
    howdah_jobs_free(jobs);
}

static void an_extended_lease_does_not_run_out(void **state)
{
    cf *c = *state;
    q_ref ref;

    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 400);
    cf_ok(howdah_job_extend(c->bus, ref.id, ref.token, 60000, &cf_error));
    q_nap(600);
    assert_null(q_claim(c->bus, "mail", 1, 0));
    cf_ok(howdah_job_complete(c->bus, ref.id, ref.token, NULL, &cf_error));
}

static void jobs_of_one_key_run_one_at_a_time_in_the_order_of_their_push(void **state)
{
    cf *c = *state;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    int64_t first;
    int64_t second;
    int64_t other;
    howdah_jobs *jobs;
    q_ref ref;

    job.key = "a";
    first = q_push_job(c->bus, "mail", &job);
    second = q_push_job(c->bus, "mail", &job);
    job.key = "b";
    other = q_push_job(c->bus, "mail", &job);
    jobs = q_claim(c->bus, "mail", 10, 0);
    assert_int_equal(howdah_jobs_count(jobs), 2);
    assert_int_equal(howdah_job_id(howdah_jobs_at(jobs, 0)), first);
    assert_int_equal(howdah_job_id(howdah_jobs_at(jobs, 1)), other);
    assert_null(q_claim(c->bus, "mail", 10, 0));
    ref = (q_ref){first, howdah_job_token(howdah_jobs_at(jobs, 0)), 1};
    howdah_jobs_free(jobs);
    cf_ok(howdah_job_retry(c->bus, first, ref.token, 0, "again", &cf_error));
    ref = q_claim_one(c->bus, "mail", 0);
    assert_int_equal(ref.id, first);
    cf_ok(howdah_job_complete(c->bus, first, ref.token, NULL, &cf_error));
    assert_int_equal(q_claim_one(c->bus, "mail", 0).id, second);
}

/* ------------------------------------------------------------------- waiting */

typedef struct pusher {
    const cf *c;
    int64_t pushed_ms;
} pusher;

static void *push_later(void *arg)
{
    pusher *p = arg;
    howdah_bus *bus = cf_open(p->c);

    q_nap(300);
    p->pushed_ms = hw_clock_mono_ms();
    (void)q_push(bus, "mail", "{\"n\":1}");
    howdah_close(bus);
    return NULL;
}

static void a_push_wakes_who_waits(void **state)
{
    cf *c = *state;
    pusher p = {.c = c};
    howdah_jobs *jobs = NULL;
    pthread_t thread;
    int64_t woken_ms;

    howdah_close(c->bus);
    cf_ok(howdah_settings_set(c->settings, "poll_interval", "1m", &cf_error));
    c->bus = cf_open(c);
    q_push_many(c->bus, "mail", 1);
    howdah_jobs_free(q_claim(c->bus, "mail", 1, 0));
    assert_int_equal(pthread_create(&thread, NULL, push_later, &p), 0);
    cf_ok(howdah_queue_claim_wait(c->bus, "mail", 1, 30000, NULL, &jobs, &cf_error));
    woken_ms = hw_clock_mono_ms();
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(howdah_jobs_count(jobs), 1);
    assert_true(woken_ms - p.pushed_ms < 20000); /* a look every minute, if nobody wakes it */
    howdah_jobs_free(jobs);
}

static void *append_later(void *arg)
{
    const pusher *p = arg;
    howdah_bus *bus = cf_open(p->c);

    q_nap(300);
    (void)cf_append(bus, "s", "order.created", NULL);
    howdah_close(bus);
    return NULL;
}

static int end_run(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)event;
    (void)delivery;
    howdah_interrupt(ctx);
    return HOWDAH_HANDLED;
}

static void a_bus_with_a_subscription_hears_of_jobs_and_of_events(void **state)
{
    cf *c = *state;
    pusher p = {.c = c};
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_jobs *jobs = NULL;
    pthread_t thread;
    int64_t before;

    howdah_close(c->bus);
    cf_ok(howdah_settings_set(c->settings, "poll_interval", "1m", &cf_error));
    c->bus = cf_open(c);
    q_push_many(c->bus, "mail", 1);
    howdah_jobs_free(q_claim(c->bus, "mail", 1, 0));
    o.subscriber_id = "all";
    o.pattern = "order.created";
    o.handler = end_run;
    o.ctx = c->bus;
    cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
    cf_ok(howdah_run(c->bus, 100, &cf_error));
    for (int i = 0; i < 2; i++) {
        before = hw_clock_mono_ms();
        assert_int_equal(pthread_create(&thread, NULL, push_later, &p), 0);
        cf_ok(howdah_queue_claim_wait(c->bus, "mail", 1, 30000, NULL, &jobs, &cf_error));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(howdah_jobs_count(jobs), 1);
        howdah_jobs_free(jobs);
        assert_int_equal(pthread_create(&thread, NULL, append_later, &p), 0);
        assert_int_equal(howdah_run(c->bus, 30000, NULL), HOWDAH_INTERRUPTED);
        howdah_interrupt_clear(c->bus);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_true(hw_clock_mono_ms() - before < 40000);
    }
}

static void who_waits_in_vain_is_told_when_the_time_is_over(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_jobs *jobs = NULL;
    int64_t before = hw_clock_mono_ms();

    assert_int_equal(howdah_queue_claim_wait(c->bus, "mail", 1, 200, NULL, &jobs, &cf_error),
                     HOWDAH_END);
    assert_true(hw_clock_mono_ms() - before >= 200);
    assert_true(hw_clock_mono_ms() - before < 20000);
    howdah_interrupt(c->bus);
    assert_int_equal(howdah_queue_claim_wait(c->bus, "mail", 1, -1, NULL, &jobs, &err),
                     HOWDAH_INTERRUPTED);
    howdah_interrupt_clear(c->bus);
    assert_int_equal(howdah_queue_claim(c->bus, "mail", 0, NULL, &jobs, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "n: must be 1 to 10000, not 0");
}

/* --------------------------------------------------- publish, poll, finalize */

static void publish_poll_and_finalize_need_no_token(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_job *job = NULL;
    int64_t first = q_push(c->bus, "mail", "{\"n\":1}");
    int64_t second = q_push(c->bus, "mail", "{\"n\":2}");

    assert_int_equal(howdah_job_finalize(c->bus, first, true, &err), HOWDAH_LOST);
    cf_ok(howdah_queue_poll(c->bus, "mail", &job, &cf_error));
    assert_int_equal(howdah_job_id(job), first);
    assert_text(howdah_job_data(job, NULL), "{\"n\":1}");
    howdah_job_free(job);
    cf_ok(howdah_queue_poll(c->bus, "mail", &job, &cf_error));
    assert_int_equal(howdah_job_id(job), second);
    howdah_job_free(job);
    assert_int_equal(howdah_queue_poll(c->bus, "mail", &job, &cf_error), HOWDAH_END);
    cf_ok(howdah_job_finalize(c->bus, first, true, &cf_error));
    cf_ok(howdah_job_finalize(c->bus, second, false, &cf_error));
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 1 1");
    assert_int_equal(howdah_job_finalize(c->bus, first, true, &err), HOWDAH_LOST);
}

static void finalize_uses_no_token_but_its_own(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *other = cf_open(c);
    howdah_job *job = NULL;
    int64_t id = q_push(c->bus, "mail", "{}");

    cf_ok(howdah_queue_poll(c->bus, "mail", &job, &cf_error));
    assert_int_equal(howdah_job_finalize(other, id, true, &err), HOWDAH_LOST);
    cf_ok(howdah_job_release(c->bus, id, howdah_job_token(job), &cf_error));
    howdah_job_free(job);
    cf_ok(howdah_queue_poll(other, "mail", &job, &cf_error));
    howdah_job_free(job);
    assert_int_equal(howdah_job_finalize(c->bus, id, true, &err), HOWDAH_LOST);
    cf_ok(howdah_job_finalize(other, id, true, &cf_error));
    howdah_close(other);
}

/* -------------------------------------------------- the caller's transaction */

/* Runs a statement on the caller's own handle. */
typedef struct caller {
    const cf *c;
    PGconn *conn;
    sqlite3 *db;
} caller;

static void caller_open(caller *k, const cf *c)
{
    *k = (caller){.c = c};
    if (cf_is_pg()) {
        k->conn = PQconnectdb(c->admin_url);
        assert_int_equal(PQstatus(k->conn), CONNECTION_OK);
    } else {
        assert_int_equal(sqlite3_open(c->admin_url + strlen("sqlite:"), &k->db), SQLITE_OK);
        (void)sqlite3_busy_timeout(k->db, 5000);
    }
}

static void caller_close(caller *k)
{
    PQfinish(k->conn);
    (void)sqlite3_close(k->db);
}

static void caller_do(caller *k, const char *sql)
{
    if (k->conn) {
        PGresult *result = PQexec(k->conn, sql);

        assert_int_equal(PQresultStatus(result), PGRES_COMMAND_OK);
        PQclear(result);
    } else {
        assert_int_equal(sqlite3_exec(k->db, sql, NULL, NULL, NULL), SQLITE_OK);
    }
}

static int caller_push(caller *k, const char *queue, howdah_pushed *ret_pushed, howdah_error *err)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    const howdah_new_job *jobs[] = {&job};

    return k->conn ? howdah_pg_queue_push(k->conn, k->c->schema, queue, jobs, 1, ret_pushed, err)
                   : howdah_sqlite_queue_push(k->db, queue, jobs, 1, ret_pushed, err);
}

static int caller_complete(caller *k, const q_ref *ref, howdah_error *err)
{
    return k->conn ? howdah_pg_job_complete(k->conn, k->c->schema, ref->id, ref->token, "done", err)
                   : howdah_sqlite_job_complete(k->db, ref->id, ref->token, "done", err);
}

static void a_push_in_the_callers_transaction_exists_when_it_commits(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;
    caller k;

    caller_open(&k, c);
    caller_do(&k, "BEGIN");
    cf_ok(caller_push(&k, "mail", NULL, &cf_error));
    caller_do(&k, "ROLLBACK");
    assert_null(q_claim(c->bus, "mail", 1, 0));
    caller_do(&k, "BEGIN");
    cf_ok(caller_push(&k, "mail", &pushed, &cf_error));
    assert_int_equal(caller_push(&k, "", NULL, &err), HOWDAH_INVALID);
    caller_do(&k, "COMMIT");
    assert_int_equal(q_claim_one(c->bus, "mail", 0).id, pushed.id);
    cf_ok(caller_push(&k, "mail", &pushed, &cf_error)); /* a transaction of its own */
    assert_int_equal(q_claim_one(c->bus, "mail", 0).id, pushed.id);
    caller_close(&k);
}

static void a_job_completed_in_the_callers_transaction_is_over_when_it_commits(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    caller k;
    q_ref ref;

    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 60000);
    caller_open(&k, c);
    caller_do(&k, "BEGIN");
    cf_ok(caller_complete(&k, &ref, &cf_error));
    caller_do(&k, "ROLLBACK");
    assert_string_equal(q_counts(c->bus, "mail"), "0 1 0 0 0");
    caller_do(&k, "BEGIN");
    cf_ok(caller_complete(&k, &ref, &cf_error));
    caller_do(&k, "COMMIT");
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 1 0");
    caller_do(&k, "BEGIN");
    assert_int_equal(caller_complete(&k, &ref, &err), HOWDAH_LOST);
    caller_do(&k, "COMMIT"); /* it is the caller's to go on, or not */
    caller_close(&k);
}

/* -------------------------------------------------------------- large payloads */

#define LARGE_JOBS 40
#define LARGE_BYTES (1024 * 1024)

/* With a key each time, or never; all payloads are as large, and different. */
static void push_large(howdah_bus *bus, bool keys, bool compressible)
{
    char *json = malloc(LARGE_BYTES + 1);
    unsigned seed = 1;

    assert_non_null(json);
    for (int i = 0; i < LARGE_JOBS; i++) {
        howdah_new_job job = HOWDAH_NEW_JOB_INIT;
        char key[16];

        for (size_t k = 1; k + 1 < LARGE_BYTES; k++)
            json[k] = compressible ? 'x' : (char)('a' + rand_r(&seed) % 26);
        json[0] = json[LARGE_BYTES - 1] = '"';
        json[LARGE_BYTES] = '\0';
        (void)snprintf(key, sizeof key, "key-%d", i % 7);
        job.data = json;
        job.data_len = LARGE_BYTES;
        job.key = keys ? key : NULL;
        (void)q_push_job(bus, "mail", &job);
    }
    free(json);
}

/* Claims, completes, claims ... and returns how many claims it took. */
static int claim_all(howdah_bus *bus)
{
    int64_t last = 0;
    int claims = 0;
    int done = 0;

    while (done < LARGE_JOBS) {
        howdah_jobs *jobs = q_claim(bus, "mail", LARGE_JOBS, 60000);
        size_t n = howdah_jobs_count(jobs);
        howdah_queue_info info = q_info(bus, "mail");

        assert_in_range(n, 1, 12);
        assert_int_equal(info.processing, n);
        assert_int_equal(info.pending + info.processing + info.scheduled + done, LARGE_JOBS);
        for (size_t i = 0; i < n; i++) {
            const howdah_job *job = howdah_jobs_at(jobs, i);
            size_t len = 0;

            assert_non_null(howdah_job_data(job, &len));
            assert_int_equal(len, LARGE_BYTES);
            assert_int_equal(howdah_job_attempt(job), 1); /* being left behind does not count */
            assert_true(howdah_job_key(job) || howdah_job_id(job) > last);
            last = howdah_job_id(job);
            cf_ok(howdah_job_complete(bus, howdah_job_id(job), howdah_job_token(job), NULL,
                                      &cf_error));
        }
        howdah_jobs_free(jobs);
        done += (int)n;
        claims++;
    }
    assert_null(q_claim(bus, "mail", LARGE_JOBS, 60000));
    return claims;
}

static void a_claim_of_large_jobs_takes_some_mebibytes_and_leaves_the_rest_ready(void **state)
{
    cf *c = *state;

    for (int i = 0; i < 4; i++) {
        push_large(c->bus, i % 2 > 0, i / 2 > 0);
        assert_true(claim_all(c->bus) >= LARGE_JOBS / 12);
    }
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 160 0");
}

cf_group cf_queue_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_QUEUE_TEST(a_job_is_claimed_with_all_that_it_was_pushed_with),
        CF_QUEUE_TEST(a_job_without_anything_has_an_empty_object),
        CF_QUEUE_TEST(bytes_come_back_to_the_byte),
        CF_QUEUE_TEST(a_batch_has_ascending_ids_and_a_live_dedup_key_gives_the_first_job),
        CF_QUEUE_TEST(jobs_come_by_priority_then_due_time_then_id),
        CF_QUEUE_TEST(a_job_that_is_due_later_waits_until_then),
        CF_QUEUE_TEST(what_breaks_a_rule_is_refused_by_name_and_nothing_is_stored),
        CF_QUEUE_TEST(an_empty_or_unknown_queue_gives_nothing),
        CF_QUEUE_TEST(a_completed_job_is_in_the_history_with_its_result),
        CF_QUEUE_TEST(a_failed_job_is_in_the_history_with_its_error),
        CF_QUEUE_TEST(a_retry_comes_again_and_the_last_one_has_failed),
        CF_QUEUE_TEST(a_retry_by_back_off_is_not_due_at_once),
        CF_QUEUE_TEST(a_released_job_does_not_count_the_attempt),
        CF_QUEUE_TEST(a_stale_token_is_lost_and_changes_nothing),
        CF_QUEUE_TEST(a_ack_says_of_each_job_what_became_of_it),
        CF_QUEUE_TEST(a_wrong_ack_is_refused_whole),
        CF_QUEUE_TEST(a_result_over_64_kib_is_cut_at_a_character),
        CF_QUEUE_TEST(a_lease_that_ran_out_gives_the_job_to_the_next_with_the_attempt_counted),
        CF_QUEUE_TEST(an_extended_lease_does_not_run_out),
        CF_QUEUE_TEST(jobs_of_one_key_run_one_at_a_time_in_the_order_of_their_push),
        CF_QUEUE_TEST(a_push_wakes_who_waits),
        CF_QUEUE_TEST(a_bus_with_a_subscription_hears_of_jobs_and_of_events),
        CF_QUEUE_TEST(who_waits_in_vain_is_told_when_the_time_is_over),
        CF_QUEUE_TEST(publish_poll_and_finalize_need_no_token),
        CF_QUEUE_TEST(finalize_uses_no_token_but_its_own),
        CF_QUEUE_TEST(a_push_in_the_callers_transaction_exists_when_it_commits),
        CF_QUEUE_TEST(a_job_completed_in_the_callers_transaction_is_over_when_it_commits),
        CF_QUEUE_TEST(a_claim_of_large_jobs_takes_some_mebibytes_and_leaves_the_rest_ready),
    };

    return CF_GROUP(tests);
}
