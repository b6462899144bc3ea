/* test_queue_admin.c - queues as operators see and change them, history, and failing stores. */
#include <stdio.h>

#include "flaky.h"
#include "jobs.h"

/* ---- settings */

static void a_queue_is_made_with_defaults_and_changed_field_by_field(void **state)
{
    ss *t = *state;
    int64_t before = hw_clock_wall_us();
    howdah_queue_options settings = keep_all();
    howdah_queue_info found;

    put_queue(t, "q", settings);
    found = load_queue(t, "q");
    assert_false(found.paused);
    assert_int_equal(found.settings.abandon_after_ms, 300000);
    assert_int_equal(found.settings.max_attempts, 5);
    assert_int_equal(found.settings.backoff_initial_ms, 1000);
    assert_int_equal(found.settings.backoff_max_ms, 3600000);
    assert_int_equal(found.settings.backoff_jitter, 10);
    assert_int_equal(found.settings.concurrency, 0);
    assert_int_equal(found.settings.history_ms, 0);
    assert_int_equal(found.settings.hold_key, 0);
    assert_true(found.created_at_us >= before);
    assert_int_equal(found.oldest_age_ms, -1);
    settings = (howdah_queue_options){sizeof settings, 1000, 7, 20, 500, 0, 3, 60000, 1};
    put_queue(t, "q", settings);
    settings = keep_all();
    settings.max_attempts = 8;
    put_queue(t, "q", settings);
    found = load_queue(t, "q");
    assert_int_equal(found.settings.abandon_after_ms, 1000);
    assert_int_equal(found.settings.max_attempts, 8);
    assert_int_equal(found.settings.backoff_initial_ms, 20);
    assert_int_equal(found.settings.backoff_max_ms, 500);
    assert_int_equal(found.settings.backoff_jitter, 0);
    assert_int_equal(found.settings.concurrency, 3);
    assert_int_equal(found.settings.history_ms, 60000);
    assert_int_equal(found.settings.hold_key, 1);
}

static void a_new_queue_takes_the_settings_that_are_given(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();

    settings.concurrency = 2;
    settings.backoff_jitter = 0;
    put_queue(t, "q", settings);
    assert_int_equal(load_queue(t, "q").settings.concurrency, 2);
    assert_int_equal(load_queue(t, "q").settings.backoff_jitter, 0);
    assert_int_equal(load_queue(t, "q").settings.max_attempts, 5);
}

static int join_names(void *ctx, const howdah_queue_info *queue)
{
    char *names = ctx;
    size_t len = strlen(names);

    assert_int_equal(queue->size, sizeof *queue);
    assert_int_equal(queue->settings.size, sizeof queue->settings);
    (void)snprintf(names + len, 128 - len, "%s%s:%lld", len > 0 ? " " : "", queue->queue,
                   (long long)queue->pending);
    return strcmp(queue->queue, "c") == 0;
}

static void queues_are_listed_by_name(void **state)
{
    ss *t = *state;
    char names[128] = "";

    (void)push_to(t, "c", a_job("1"));
    (void)push_to(t, "a", a_job("1"));
    (void)push_to(t, "a", a_job("2"));
    put_queue(t, "b", keep_all());
    (void)push_to(t, "d", a_job("1"));
    ok(jobs_ops(t)->queue_list(t->store, join_names, names, &ss_error));
    assert_string_equal(names, "a:2 b:0 c:1");
}

typedef struct kept_rows {
    size_t n;
    char names[4][8];
    howdah_queue_info rows[4];
} kept_rows;

static int keep_row(void *ctx, const howdah_queue_info *queue)
{
    kept_rows *r = ctx;

    assert_true(r->n < 4);
    (void)snprintf(r->names[r->n], sizeof r->names[0], "%s", queue->queue);
    r->rows[r->n++] = *queue;
    return 0;
}

static void a_summary_tells_what_the_list_does_but_for_history(void **state)
{
    ss *t = *state;
    kept_rows list = {0};
    kept_rows summary = {0};
    hw_push later = a_job("2");
    kept_job k;

    later.delay_us = INT64_C(3600000000);
    for (int i = 0; i < 3; i++)
        (void)push(t, a_keyed_job("1", "k"));
    (void)push(t, later);
    (void)push(t, a_job("3"));
    k = claim_one(t, "1");
    fail_for_good(t, &k, "no");
    (void)claim_one(t, "1");
    expect_counts(t, "1 1 2 0 1 0");
    (void)push_to(t, "other", a_job("1"));
    ok(jobs_ops(t)->queue_list(t->store, keep_row, &list, &ss_error));
    ok(jobs_ops(t)->queue_summary(t->store, keep_row, &summary, &ss_error));
    assert_int_equal(list.n, 2);
    assert_int_equal(summary.n, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(summary.names[i], list.names[i]);
        assert_int_equal(summary.rows[i].pending, list.rows[i].pending);
        assert_int_equal(summary.rows[i].scheduled, list.rows[i].scheduled);
        assert_int_equal(summary.rows[i].processing, list.rows[i].processing);
        assert_int_equal(summary.rows[i].dead_letters, list.rows[i].dead_letters);
        assert_int_equal(summary.rows[i].oldest_age_ms >= 0, list.rows[i].oldest_age_ms >= 0);
        assert_int_equal(summary.rows[i].completed, HOWDAH_ABSENT);
        assert_int_equal(summary.rows[i].failed, HOWDAH_ABSENT);
    }
}

static void a_queue_that_does_not_exist_is_not_found_by_operators(void **state)
{
    ss *t = *state;
    const hw_queue_ops *q = jobs_ops(t);
    char names[128] = "";

    expect(q->queue_load(t->store, S("q"), join_names, names, &ss_error), HOWDAH_NOT_FOUND);
    expect(q->queue_pause(t->store, S("q"), true, &ss_error), HOWDAH_NOT_FOUND);
    assert_string_equal(names, "");
}

static void a_paused_queue_gives_nothing_and_takes_everything(void **state)
{
    ss *t = *state;
    kept_job k;
    batch b;

    (void)push(t, a_job("1"));
    (void)push(t, a_job("2"));
    k = claim_one(t, "1");
    ok(jobs_ops(t)->queue_pause(t->store, S("q"), true, &ss_error));
    assert_true(load_queue(t, "q").paused);
    (void)push(t, a_job("3"));
    b = claim(t, 10);
    assert_int_equal(b.n, 0);
    assert_true(b.report.paused);
    assert_false(b.report.more);
    complete(t, &k);
    expect_counts(t, "2 0 0 1 0 0");
    ok(jobs_ops(t)->queue_pause(t->store, S("q"), false, &ss_error));
    b = claim(t, 10);
    assert_string_equal(b.names, "2 3");
    assert_false(b.report.paused);
}

static void no_more_jobs_are_leased_at_once_than_the_queue_allows(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();
    batch b;

    settings.concurrency = 2;
    put_queue(t, "q", settings);
    for (int i = 0; i < 4; i++)
        (void)push(t, a_job("1"));
    b = claim_from(t->store, "q", 10, 5000);
    assert_int_equal(b.n, 2);
    assert_false(b.report.more);
    assert_in_range(b.report.next_due_ms, 1000, 5000);
    assert_int_equal(claim(t, 10).n, 0);
    complete(t, &b.jobs[0]);
    assert_int_equal(claim(t, 10).n, 1);
    assert_int_equal(claim(t, 10).n, 0);
    settings.concurrency = 0;
    put_queue(t, "q", settings);
    assert_int_equal(claim(t, 10).n, 1);
    expect_counts(t, "0 3 0 1 0 0");
}

/* ---- counts */

static void counts_are_exact_in_every_place_at_once(void **state)
{
    ss *t = *state;
    hw_push later = a_job("9");
    howdah_queue_info found;
    int64_t n = 0;
    batch b;

    (void)push(t, a_job("0"));
    ok(jobs_ops(t)->queue_purge(t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, 1);
    later.delay_us = 60 * 1000000LL;
    (void)push(t, later);
    for (int i = 0; i < 8; i++)
        (void)push(t, a_job("1"));
    b = claim(t, 5);
    complete(t, &b.jobs[0]);
    complete(t, &b.jobs[1]);
    fail_for_good(t, &b.jobs[2], "x");
    retry_after(t, &b.jobs[3], LONG_MS);
    wait_ms(3);
    /* Pushed 10: 1 purged, 2 + 1 over, 1 leased, 3 due, the one that waits and the retried later.
     */
    expect_counts(t, "3 1 2 2 1 1");
    found = load_queue(t, "q");
    assert_int_equal(found.dead_letters, 1);
    assert_true(found.oldest_age_ms >= 2);
}

static void a_purge_removes_all_that_is_not_leased_and_counts_it(void **state)
{
    ss *t = *state;
    hw_push later = a_job("2");
    int64_t id;
    int64_t n = 0;
    batch b = {.n = 0};
    kept_job k;

    (void)push(t, a_job("1"));
    k = claim_one(t, "1");
    later.delay_us = 60 * 1000000LL;
    id = push(t, later);
    (void)push(t, a_job("3"));
    (void)push_to(t, "other", a_job("4"));
    ok(jobs_ops(t)->queue_purge(t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, 2);
    expect(jobs_ops(t)->job_load(t->store, id, jobs_keep, &b, &ss_error), HOWDAH_NOT_FOUND);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {job_data}"), 2);
    complete(t, &k);
    expect_counts(t, "0 0 0 1 0 2");
    assert_int_equal(load_queue(t, "other").pending, 1);
    ok(jobs_ops(t)->queue_purge(t->store, S("q"), &n, &ss_error));
    assert_int_equal(n, 0);
}

/* ---- history */

static void history_over_its_time_is_removed_but_counted_and_open_dead_letters_stay(void **state)
{
    ss *t = *state;
    howdah_queue_options settings = keep_all();
    int64_t ids[4];
    int64_t dead_letter;
    bool more = true;
    batch b;

    for (int i = 0; i < 4; i++)
        ids[i] = push(t, a_job("1"));
    b = claim(t, 4);
    complete(t, &b.jobs[0]);
    fail_for_good(t, &b.jobs[1], "open");
    fail_for_good(t, &b.jobs[2], "discarded");
    dead_letter = open_dead_letter(t, ids[2]);
    ok(t->subs->dead_letters_set_state(t->store, &dead_letter, 1, HW_STR_NULL,
                                       HW_DEAD_LETTER_DISCARDED, S("x"), NULL, &ss_error));
    settings.history_ms = 40;
    put_queue(t, "q", settings);
    wait_ms(45);
    complete(t, &b.jobs[3]);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    assert_false(more);
    b.n = 0;
    expect(jobs_ops(t)->job_load(t->store, ids[0], jobs_keep, &b, &ss_error), HOWDAH_NOT_FOUND);
    expect_state(t, ids[1], HOWDAH_JOB_FAILED);
    expect(jobs_ops(t)->job_load(t->store, ids[2], jobs_keep, &b, &ss_error), HOWDAH_NOT_FOUND);
    expect_state(t, ids[3], HOWDAH_JOB_COMPLETED);
    assert_int_equal(ss_sql_number(t, "SELECT count(*) FROM {job_data}"), 2);
    expect_counts(t, "0 0 0 2 2 0");
}

static void history_without_a_limit_stays(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));
    kept_job k = claim_one(t, "1");
    bool more = true;

    complete(t, &k);
    wait_ms(2);
    ok(jobs_ops(t)->maintain(t->store, S("q"), &more, &ss_error));
    expect_state(t, id, HOWDAH_JOB_COMPLETED);
}

static batch read_log(const ss *t, howdah_queue_history_options options)
{
    batch b = {.n = 0};

    ok(jobs_ops(t)->log(t->store, S("q"), &options, jobs_keep, &b, &ss_error));
    return b;
}

/* Jobs 1 to 6 end in the order 2 1 4 3 6 5; 1, 4 and 5 fail. */
static void make_log(const ss *t)
{
    static const int order[] = {2, 1, 4, 3, 6, 5};
    batch b;

    for (int i = 1; i <= 6; i++) {
        char text[8];

        (void)snprintf(text, sizeof text, "%d", i);
        (void)push(t, a_job(text));
    }
    b = claim(t, 6);
    for (int i = 0; i < 6; i++) {
        const kept_job *k = &b.jobs[order[i] - 1];

        if (order[i] == 1 || order[i] == 4 || order[i] == 5)
            fail_for_good(t, k, "x");
        else
            complete(t, k);
    }
    (void)push_to(t, "other", a_job("7"));
    b = claim_from(t->store, "other", 1, LONG_MS);
    complete(t, &b.jobs[0]);
}

static void the_log_is_read_in_the_order_in_which_jobs_ended_both_ways(void **state)
{
    ss *t = *state;
    batch b;

    make_log(t);
    b = read_log(t, (howdah_queue_history_options){.status = HOWDAH_ABSENT, .payload = true});
    assert_string_equal(b.names, "2 1 4 3 6 5");
    for (size_t i = 1; i < b.n; i++)
        assert_true(b.jobs[i].job.position > b.jobs[i - 1].job.position);
    b = read_log(t, (howdah_queue_history_options){
                        .status = HOWDAH_ABSENT, .payload = true, .backward = true});
    assert_string_equal(b.names, "5 6 3 4 1 2");
}

static void the_log_is_read_by_status_and_page(void **state)
{
    ss *t = *state;
    howdah_queue_history_options query = {.status = HOWDAH_JOB_FAILED, .payload = true, .limit = 2};
    batch b;

    make_log(t);
    b = read_log(t, query);
    assert_string_equal(b.names, "1 4");
    query.after = b.jobs[1].job.position;
    b = read_log(t, query);
    assert_string_equal(b.names, "5");
    query.after = b.jobs[0].job.position;
    assert_int_equal(read_log(t, query).n, 0);
    query = (howdah_queue_history_options){
        .status = HOWDAH_JOB_COMPLETED, .payload = true, .limit = 2, .backward = true};
    b = read_log(t, query);
    assert_string_equal(b.names, "6 3");
    query.after = b.jobs[1].job.position;
    b = read_log(t, query);
    assert_string_equal(b.names, "2");
    query = (howdah_queue_history_options){.status = HOWDAH_ABSENT, .payload = true, .limit = 4};
    b = read_log(t, query);
    assert_string_equal(b.names, "2 1 4 3");
    query.after = b.jobs[3].job.position;
    b = read_log(t, query);
    assert_string_equal(b.names, "6 5");
}

static void the_log_leaves_the_payload_out_unless_it_is_asked_for(void **state)
{
    ss *t = *state;
    howdah_queue_history_options options = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    batch b;

    make_log(t);
    b = read_log(t, (howdah_queue_history_options){.status = HOWDAH_ABSENT, .limit = 1});
    assert_int_equal(b.n, 1);
    assert_string_equal(b.jobs[0].data, "-");
    assert_string_equal(b.jobs[0].headers, "-");
    assert_string_equal(b.jobs[0].queue, "q");
    assert_int_equal(b.jobs[0].job.attempts, 1);
    b = (batch){.stop_after = 2};
    ok(jobs_ops(t)->log(t->store, S("q"), &options, jobs_keep, &b, &ss_error));
    assert_int_equal(b.n, 2);
    b.n = 0;
    ok(jobs_ops(t)->log(t->store, S("nowhere"), &options, jobs_keep, &b, &ss_error));
    assert_int_equal(b.n, 0);
}

/* ---- single jobs */

static void a_job_is_shown_in_every_state(void **state)
{
    ss *t = *state;
    hw_push later = a_job("1");
    int64_t id;
    kept_job k;
    batch b = {.n = 0};

    later.delay_us = 60 * 1000000LL;
    id = push(t, later);
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_SCHEDULED);
    assert_true(k.job.due_at_us - k.job.created_at_us >= 60 * 1000000LL - 1000000);
    assert_true(k.job.started_at_us == HW_TIME_ABSENT);
    assert_true(k.job.lease_until_us == HW_TIME_ABSENT);
    assert_true(k.job.finished_at_us == HW_TIME_ABSENT);
    assert_int_equal(k.job.attempts, 0);
    assert_int_equal(k.job.token, 0);
    id = push(t, a_job("2"));
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_PENDING);
    assert_string_equal(k.data, "2");
    k = claim_one(t, "2");
    assert_int_equal(load_job(t, id).job.state, HOWDAH_JOB_PROCESSING);
    assert_int_equal(load_job(t, id).job.token, k.job.token);
    assert_int_equal(load_job(t, id).job.attempts, 1);
    assert_string_equal(load_job(t, id).worker, "w");
    assert_true(load_job(t, id).job.lease_until_us == k.job.lease_until_us);
    complete(t, &k);
    expect_state(t, id, HOWDAH_JOB_COMPLETED);
    id = push(t, a_job("3"));
    k = claim_one(t, "3");
    fail_for_good(t, &k, "x");
    expect_state(t, id, HOWDAH_JOB_FAILED);
    expect(jobs_ops(t)->job_load(t->store, id + 1000, jobs_keep, &b, &ss_error), HOWDAH_NOT_FOUND);
    assert_int_equal(b.n, 0);
}

static void a_cancelled_job_has_failed_without_a_dead_letter(void **state)
{
    ss *t = *state;
    hw_push later = a_job("2");
    int64_t ids[2];
    kept_job k;

    ids[0] = push(t, a_job("1"));
    later.delay_us = 60 * 1000000LL;
    ids[1] = push(t, later);
    ok(jobs_ops(t)->job_cancel(t->store, ids[0], HW_STR_NULL, &ss_error));
    ok(jobs_ops(t)->job_cancel(t->store, ids[1], S("not needed"), &ss_error));
    k = load_job(t, ids[0]);
    assert_int_equal(k.job.state, HOWDAH_JOB_FAILED);
    assert_string_equal(k.error, "cancelled");
    assert_int_equal(k.job.attempts, 0);
    assert_true(k.job.started_at_us == HW_TIME_ABSENT);
    assert_string_equal(load_job(t, ids[1]).error, "cancelled: not needed");
    assert_int_equal(open_dead_letter(t, ids[0]), 0);
    assert_int_equal(load_queue(t, "q").dead_letters, 0);
    assert_int_equal(claim(t, 10).n, 0);
    expect_counts(t, "0 0 0 0 2 0");
}

static void a_job_that_is_leased_or_over_is_not_cancelled(void **state)
{
    ss *t = *state;
    const hw_queue_ops *q = jobs_ops(t);
    int64_t ids[2] = {push(t, a_job("1")), push(t, a_job("2"))};
    batch b = claim(t, 2);

    expect(q->job_cancel(t->store, ids[0], HW_STR_NULL, &ss_error), HOWDAH_CONFLICT);
    expect_state(t, ids[0], HOWDAH_JOB_PROCESSING);
    complete(t, &b.jobs[0]);
    fail_for_good(t, &b.jobs[1], "x");
    expect(q->job_cancel(t->store, ids[0], HW_STR_NULL, &ss_error), HOWDAH_CONFLICT);
    expect(q->job_cancel(t->store, ids[1], HW_STR_NULL, &ss_error), HOWDAH_CONFLICT);
    assert_string_equal(load_job(t, ids[1]).error, "x");
    expect(q->job_cancel(t->store, ids[1] + 1000, HW_STR_NULL, &ss_error), HOWDAH_NOT_FOUND);
}

static void a_job_that_waits_is_due_at_once_when_it_is_tried_again(void **state)
{
    ss *t = *state;
    hw_push later = a_job("1");
    int64_t id;
    kept_job k;

    later.delay_us = 60 * 1000000LL;
    id = push(t, later);
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    k = claim_one(t, "1");
    retry_after(t, &k, LONG_MS);
    assert_int_equal(claim(t, 1).n, 0);
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    assert_int_equal(claim_one(t, "1").job.attempts, 2);
}

static void a_failed_job_is_ready_again_with_all_its_attempts_and_counted_once(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");
    int64_t dead_letter;
    int64_t id;
    kept_job k;

    job.max_attempts = 1;
    id = push(t, job);
    k = claim_one(t, "1");
    assert_int_equal(ack(t, &k, HOWDAH_VERDICT_RETRY, "once", 0), HOWDAH_ACKED_FAILED);
    dead_letter = open_dead_letter(t, id);
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    expect_counts(t, "1 0 0 0 0 0");
    assert_int_equal(open_dead_letter(t, id), dead_letter);
    assert_int_equal(
        ss_sql_number(t, "SELECT count(*) FROM {job_dead_letters} WHERE state = 'redrive'"), 1);
    k = load_job(t, id);
    assert_int_equal(k.job.state, HOWDAH_JOB_PENDING);
    assert_int_equal(k.job.attempts, 0);
    k = claim_one(t, "1");
    assert_int_equal(k.job.id, id);
    assert_int_equal(k.job.attempts, 1);
    fail_for_good(t, &k, "twice");
    assert_int_equal(open_dead_letter(t, id), dead_letter);
    assert_int_equal(ss_sql_number(t, "SELECT attempts FROM {job_dead_letters}"), 2);
    expect_counts(t, "0 0 0 0 1 0");
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    k = claim_one(t, "1");
    complete(t, &k);
    expect_counts(t, "0 0 0 1 0 0");
    assert_int_equal(open_dead_letter(t, id), 0);
    assert_int_equal(load_queue(t, "q").dead_letters, 0);
}

static void a_cancelled_job_can_be_tried_again(void **state)
{
    ss *t = *state;
    int64_t id = push(t, a_job("1"));

    ok(jobs_ops(t)->job_cancel(t->store, id, HW_STR_NULL, &ss_error));
    ok(jobs_ops(t)->job_rerun(t->store, id, &ss_error));
    assert_int_equal(claim_one(t, "1").job.id, id);
    expect_counts(t, "0 1 0 0 0 0");
}

static void a_job_that_is_leased_or_completed_is_not_tried_again(void **state)
{
    ss *t = *state;
    const hw_queue_ops *q = jobs_ops(t);
    int64_t id = push(t, a_job("1"));
    kept_job k = claim_one(t, "1");

    expect(q->job_rerun(t->store, id, &ss_error), HOWDAH_CONFLICT);
    complete(t, &k);
    expect(q->job_rerun(t->store, id, &ss_error), HOWDAH_CONFLICT);
    expect(q->job_rerun(t->store, id + 1000, &ss_error), HOWDAH_NOT_FOUND);
    expect_counts(t, "0 0 0 1 0 0");
}

static void a_failed_job_is_not_tried_again_while_another_has_its_dedup_key(void **state)
{
    ss *t = *state;
    hw_push job = a_job("1");
    int64_t id;
    kept_job k;

    job.dedup = S("d");
    id = push(t, job);
    k = claim_one(t, "1");
    fail_for_good(t, &k, "x");
    (void)push(t, job);
    expect(jobs_ops(t)->job_rerun(t->store, id, &ss_error), HOWDAH_CONFLICT);
    expect_counts(t, "1 0 0 0 1 0");
}

static void dead_letters_of_jobs_and_of_subscriptions_do_not_share_an_id(void **state)
{
    ss *t = *state;
    int64_t ids[4] = {0};
    int64_t token;

    ss_create(t, "s");
    token = ss_take(t->store, "s", "o");
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0) {
            int64_t id = push(t, a_job("1"));
            kept_job k = claim_one(t, "1");

            fail_for_good(t, &k, "x");
            ids[i] = open_dead_letter(t, id);
        } else {
            howdah_event *event = ss_append(t->store, "st", "a.b", NULL);
            hw_checkpoint c = ss_behind("s", token, event);

            ok(t->subs->dead_letter(t->store, &c, event, S("e"), 1, &ids[i], &ss_error));
            hw_event_free(event);
        }
        assert_true(ids[i] > (i > 0 ? ids[i - 1] : 0));
    }
}

/* ---- failing before and after the commit */

typedef struct plan {
    hw_flaky_mode mode;
    bool stored;
    unsigned flags;
} plan;

static const plan plans[] = {
    {HW_FLAKY_BEFORE, false, HOWDAH_RETRYABLE},
    {HW_FLAKY_BEFORE_UNKNOWN, false, HOWDAH_OUTCOME_UNKNOWN},
    {HW_FLAKY_AFTER, true, HOWDAH_OUTCOME_UNKNOWN},
};

static hw_store *open_flaky(const ss *t)
{
    hw_store *store = ss_open(t);

    (void)jobs_ops(t);
    ok(hw_flaky_open(store, &store, &ss_error));
    return store;
}

static void expect_failure(hw_store *flaky, int status, const plan *p)
{
    assert_int_equal(status, HOWDAH_UNAVAILABLE);
    assert_int_equal(ss_error.flags, p->flags);
    assert_false(hw_flaky_pending(flaky));
}

static void a_push_that_fails_is_stored_or_not_and_repeated_by_its_dedup_key(void **state)
{
    ss *t = *state;

    put_queue(t, "q", keep_all());
    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        howdah_pushed pushed = {.id = -1};
        hw_push job = a_job("1");
        char dedup[8];

        (void)snprintf(dedup, sizeof dedup, "%d", i);
        job.dedup = S(dedup);
        hw_flaky_plan_op(flaky, HW_FLAKY_OP_PUSH, 1, plans[i].mode);
        expect_failure(flaky, flaky->ops->queue->push(flaky, S("q"), &job, 1, &pushed, &ss_error),
                       &plans[i]);
        assert_int_equal(pushed.id, -1);
        assert_int_equal(load_queue(t, "q").pending, i + plans[i].stored);
        ok(flaky->ops->queue->push(flaky, S("q"), &job, 1, &pushed, &ss_error));
        assert_int_equal(pushed.existed, plans[i].stored);
        assert_int_equal(load_queue(t, "q").pending, i + 1);
        flaky->ops->close(flaky);
    }
}

static void a_turn_that_fails_is_done_or_not_and_hands_nothing_over(void **state)
{
    ss *t = *state;
    hw_claim ask = {.queue = S("q"), .worker = S("w"), .n = 1, .lease_ms = LONG_MS};

    for (int i = 0; i < 3; i++) {
        hw_store *flaky = open_flaky(t);
        howdah_ack_outcome acked = HOWDAH_ACKED_FAILED;
        batch b = {.report = {.n = -1}};
        hw_ack one;
        kept_job k;
        int64_t id = push(t, a_job("1"));

        k = claim_one(t, "1");
        (void)push(t, a_job("2"));
        one = (hw_ack){id, k.job.token, HOWDAH_VERDICT_COMPLETE, HW_STR_NULL, 0};
        hw_flaky_plan_op(flaky, HW_FLAKY_OP_EXCHANGE, 1, plans[i].mode);
        expect_failure(flaky,
                       flaky->ops->queue->exchange(flaky, &one, 1, &acked, &ask, jobs_keep, &b,
                                                   &b.report, &ss_error),
                       &plans[i]);
        assert_int_equal(b.n, 0);
        assert_int_equal(b.report.n, -1);
        assert_int_equal(acked, HOWDAH_ACKED_FAILED);
        expect_state(t, id, plans[i].stored ? HOWDAH_JOB_COMPLETED : HOWDAH_JOB_PROCESSING);
        assert_int_equal(load_queue(t, "q").pending, plans[i].stored ? 0 : 1);
        ok(flaky->ops->queue->exchange(flaky, &one, 1, &acked, &ask, jobs_keep, &b, &b.report,
                                       &ss_error));
        assert_int_equal(acked, plans[i].stored ? HOWDAH_ACKED_LOST : HOWDAH_ACKED_DONE);
        assert_string_equal(b.names, plans[i].stored ? "" : "2");
        expect_state(t, id, HOWDAH_JOB_COMPLETED);
        if (b.n > 0)
            complete(t, &b.jobs[0]);
        flaky->ops->close(flaky);
    }
}

/* ---- verify */

/* What was found: "queue: n what", one a line. */
static int note_wrong(void *ctx, hw_str queue, hw_str what, int64_t n)
{
    char *text = ctx;
    size_t len = strlen(text);

    (void)snprintf(text + len, 1000 - len, "%.*s: %lld %.*s\n", (int)queue.len, queue.s,
                   (long long)n, (int)what.len, what.s);
    return 0;
}

static void expect_wrong(const ss *t, const char *wanted)
{
    char text[1000] = "";

    ok(jobs_ops(t)->verify(t->store, note_wrong, text, &ss_error));
    assert_string_equal(text, wanted);
}

static void nothing_is_wrong_with_jobs_in_every_place(void **state)
{
    ss *t = *state;
    hw_push keyed = a_job("2");
    batch b;

    expect_wrong(t, "");
    keyed.key = S("k");
    keyed.dedup = S("d");
    (void)push(t, keyed);
    keyed.dedup = HW_STR_NULL;
    for (int i = 0; i < 3; i++) {
        (void)push(t, keyed);
        (void)push(t, a_job("1"));
    }
    expect_wrong(t, "");
    b = claim(t, 3);
    expect_wrong(t, "");
    complete(t, &b.jobs[0]);
    fail_for_good(t, &b.jobs[1], "x");
    expect_wrong(t, "");
}

static void a_job_that_is_nowhere_or_in_two_places_is_found(void **state)
{
    ss *t = *state;
    kept_job k;

    for (int i = 1; i <= 3; i++)
        (void)push(t, a_job("1"));
    k = claim_one(t, "1");
    complete(t, &k);
    ss_sql(t, "DELETE FROM {jobs} WHERE id = (SELECT max(id) FROM {jobs})");
    expect_wrong(t, "q: 1 jobs are nowhere: not ready, not under a lease, not in the history\n");
    ss_sql(t, ss_is_pg() ? "UPDATE {history} SET (first_id, last_id) ="
                           " (SELECT max(id), max(id) FROM {jobs})"
                         : "UPDATE {event_log} SET job_id = (SELECT max(id) FROM {jobs})");
    expect_wrong(t, "q: 1 jobs are in two places at once\n"
                    "q: 2 jobs are nowhere: not ready, not under a lease, not in the history\n");
    ss_sql(t, "DELETE FROM {job_data}");
    expect_wrong(t, "q: 1 jobs are in two places at once\n"
                    "q: 1 jobs have no payload\n");
}

ss_group ss_queue_admin_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_queue_is_made_with_defaults_and_changed_field_by_field),
        SS_TEST(a_new_queue_takes_the_settings_that_are_given),
        SS_TEST(queues_are_listed_by_name),
        SS_TEST(a_summary_tells_what_the_list_does_but_for_history),
        SS_TEST(a_queue_that_does_not_exist_is_not_found_by_operators),
        SS_TEST(a_paused_queue_gives_nothing_and_takes_everything),
        SS_TEST(no_more_jobs_are_leased_at_once_than_the_queue_allows),
        SS_TEST(counts_are_exact_in_every_place_at_once),
        SS_TEST(a_purge_removes_all_that_is_not_leased_and_counts_it),
        SS_TEST(history_over_its_time_is_removed_but_counted_and_open_dead_letters_stay),
        SS_TEST(history_without_a_limit_stays),
        SS_TEST(the_log_is_read_in_the_order_in_which_jobs_ended_both_ways),
        SS_TEST(the_log_is_read_by_status_and_page),
        SS_TEST(the_log_leaves_the_payload_out_unless_it_is_asked_for),
        SS_TEST(a_job_is_shown_in_every_state),
        SS_TEST(a_cancelled_job_has_failed_without_a_dead_letter),
        SS_TEST(a_job_that_is_leased_or_over_is_not_cancelled),
        SS_TEST(a_job_that_waits_is_due_at_once_when_it_is_tried_again),
        SS_TEST(a_failed_job_is_ready_again_with_all_its_attempts_and_counted_once),
        SS_TEST(a_cancelled_job_can_be_tried_again),
        SS_TEST(a_job_that_is_leased_or_completed_is_not_tried_again),
        SS_TEST(a_failed_job_is_not_tried_again_while_another_has_its_dedup_key),
        SS_TEST(dead_letters_of_jobs_and_of_subscriptions_do_not_share_an_id),
        SS_TEST(nothing_is_wrong_with_jobs_in_every_place),
        SS_TEST(a_job_that_is_nowhere_or_in_two_places_is_found),
        SS_TEST(a_push_that_fails_is_stored_or_not_and_repeated_by_its_dedup_key),
        SS_TEST(a_turn_that_fails_is_done_or_not_and_hands_nothing_over),
    };
    return SS_GROUP(tests);
}
