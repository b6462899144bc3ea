/* jobs.c - pushing, claiming, acking and looking, for the tests of store/queue.h. */
#include "jobs.h"

#include <stdio.h>

const hw_queue_ops *jobs_ops(const ss *t)
{
    assert_non_null(t->store->ops->queue);
    return t->store->ops->queue;
}

static void keep_text(char *out, size_t size, hw_str text)
{
    if (text.s)
        assert_int_equal(text.s[text.len], '\0');
    assert_true(text.len < size);
    (void)snprintf(out, size, "%s", text.s ? text.s : "-");
}

int jobs_keep(void *ctx, const howdah_job *job)
{
    batch *b = ctx;
    kept_job *k = &b->jobs[b->n];
    size_t len = strlen(b->names);

    assert_true(b->n < sizeof b->jobs / sizeof b->jobs[0]);
    k->job = *job;
    keep_text(k->queue, sizeof k->queue, job->queue);
    keep_text(k->data, sizeof k->data, job->data);
    keep_text(k->worker, sizeof k->worker, job->worker);
    keep_text(k->key, sizeof k->key, job->key);
    keep_text(k->dedup, sizeof k->dedup, job->dedup);
    keep_text(k->correlation_id, sizeof k->correlation_id, job->correlation_id);
    keep_text(k->headers, sizeof k->headers, job->headers);
    keep_text(k->content_type, sizeof k->content_type, job->content_type);
    keep_text(k->error, sizeof k->error, job->error);
    keep_text(k->result, sizeof k->result, job->result);
    (void)snprintf(b->names + len, sizeof b->names - len, "%s%s", len > 0 ? " " : "", k->data);
    b->n++;
    return b->stop_after > 0 && b->n >= b->stop_after;
}

/* ---- push */

hw_push a_job(const char *data)
{
    return (hw_push){.data = S(data), .run_at_us = HW_TIME_ABSENT};
}

hw_push a_keyed_job(const char *data, const char *key)
{
    hw_push job = a_job(data);

    job.key = S(key);
    return job;
}

int64_t push_to(const ss *t, const char *queue, hw_push job)
{
    howdah_pushed pushed = {.id = 0};

    ok(jobs_ops(t)->push(t->store, S(queue), &job, 1, &pushed, &ss_error));
    assert_false(pushed.existed);
    assert_true(pushed.id > 0);
    return pushed.id;
}

int64_t push(const ss *t, hw_push job)
{
    return push_to(t, "q", job);
}

/* ---- claim */

batch claim_from(hw_store *store, const char *queue, int64_t n, int64_t lease_ms)
{
    hw_claim ask = {.queue = S(queue), .worker = S("w"), .n = n, .lease_ms = lease_ms};
    batch b = {.n = 0};

    ok(store->ops->queue->exchange(store, NULL, 0, NULL, &ask, jobs_keep, &b, &b.report,
                                   &ss_error));
    assert_int_equal(b.report.n, b.n);
    return b;
}

batch claim(const ss *t, int64_t n)
{
    (void)jobs_ops(t);
    return claim_from(t->store, "q", n, LONG_MS);
}

kept_job claim_one(const ss *t, const char *data)
{
    batch b = claim(t, 1);

    assert_string_equal(b.names, data);
    return b.jobs[0];
}

/* ---- ack */

howdah_ack_outcome ack(const ss *t, const kept_job *job, howdah_verdict verdict, const char *text,
                       int64_t after_ms)
{
    hw_ack one = {.id = job->job.id,
                  .token = job->job.token,
                  .verdict = verdict,
                  .text = S(text),
                  .after_ms = after_ms};
    howdah_ack_outcome acked = HOWDAH_ACKED_LOST;

    ok(jobs_ops(t)->exchange(t->store, &one, 1, &acked, NULL, NULL, NULL, NULL, &ss_error));
    return acked;
}

void complete(const ss *t, const kept_job *job)
{
    assert_int_equal(ack(t, job, HOWDAH_VERDICT_COMPLETE, NULL, 0), HOWDAH_ACKED_DONE);
}

void fail_for_good(const ss *t, const kept_job *job, const char *error)
{
    assert_int_equal(ack(t, job, HOWDAH_VERDICT_FAIL, error, 0), HOWDAH_ACKED_DONE);
}

void retry_after(const ss *t, const kept_job *job, int64_t after_ms)
{
    assert_int_equal(ack(t, job, HOWDAH_VERDICT_RETRY, "again", after_ms), HOWDAH_ACKED_DONE);
}

/* ---- looking */

kept_job load_job(const ss *t, int64_t id)
{
    batch b = {.n = 0};

    ok(jobs_ops(t)->job_load(t->store, id, jobs_keep, &b, &ss_error));
    assert_int_equal(b.n, 1);
    assert_int_equal(b.jobs[0].job.id, id);
    return b.jobs[0];
}

void expect_state(const ss *t, int64_t id, howdah_job_state state)
{
    assert_int_equal(load_job(t, id).job.state, state);
}

static int keep_queue(void *ctx, const howdah_queue_info *found)
{
    *(howdah_queue_info *)ctx = *found;
    return 0;
}

howdah_queue_info load_queue(const ss *t, const char *queue)
{
    howdah_queue_info found = {.pending = -1};

    ok(jobs_ops(t)->queue_load(t->store, S(queue), keep_queue, &found, &ss_error));
    assert_true(found.pending >= 0);
    return found;
}

void expect_counts(const ss *t, const char *counts)
{
    howdah_queue_info found = load_queue(t, "q");
    char text[128];

    (void)snprintf(text, sizeof text, "%lld %lld %lld %lld %lld %lld", (long long)found.pending,
                   (long long)found.processing, (long long)found.scheduled,
                   (long long)found.completed, (long long)found.failed, (long long)found.purged);
    assert_string_equal(text, counts);
}

howdah_queue_options keep_all(void)
{
    return (howdah_queue_options)HOWDAH_QUEUE_OPTIONS_INIT;
}

void put_queue(const ss *t, const char *queue, howdah_queue_options settings)
{
    ok(jobs_ops(t)->queue_put(t->store, S(queue), &settings, &ss_error));
}

void wait_ms(int64_t ms)
{
    int64_t until = hw_clock_mono_ms() + ms;

    while (hw_clock_mono_ms() < until)
        hw_clock_sleep_ms(until - hw_clock_mono_ms());
}

int64_t open_dead_letter(const ss *t, int64_t job_id)
{
    char sql[160];

    (void)snprintf(sql, sizeof sql,
                   "SELECT id FROM {job_dead_letters} WHERE job_id = %lld AND resolved_at IS NULL",
                   (long long)job_id);
    return ss_sql_number(t, sql);
}
