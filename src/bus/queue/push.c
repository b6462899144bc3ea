/* push.c - jobs into a queue: checked here, once for all stores. */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/queue/queue.h"
#include "engine/rules.h"

/* ---------------------------------------------------------------- the rules */

/* Keys, dedup keys and correlations follow the rules of all names, so that they can be typed and
   printed. */
static int check_names(const howdah_new_job *job, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (job->key)
        s = hw_rule_name("key", hw_str_of(job->key), reterr);
    if (s >= 0 && job->dedup)
        s = hw_rule_name("dedup", hw_str_of(job->dedup), reterr);
    if (s >= 0 && job->correlation_id)
        s = hw_rule_name("correlation_id", hw_str_of(job->correlation_id), reterr);
    return s;
}

/* A delay counts from the store's clock, run_at is a time of its own: both together contradict. */
static int check_times(const howdah_new_job *job, howdah_error *reterr)
{
    int s = hw_rule_delay("delay", job->delay_ms, reterr);

    if (s < 0 || job->run_at_us == HOWDAH_NO_TIME)
        return s;
    if (job->delay_ms != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "run_at",
                             "cannot be given together with a delay");
    return hw_rule_run_at(job->run_at_us, reterr);
}

/* Text outside, sixteen bytes in the store. */
static int take_causation(const howdah_new_job *job, hw_push *push, howdah_error *reterr)
{
    size_t len = job->causation_id ? strlen(job->causation_id) : 0;

    if (!job->causation_id)
        return HOWDAH_OK;
    if (!hw_uuid_parse(job->causation_id, len, &push->causation_id))
        return hw_fail_field(reterr, HOWDAH_INVALID, "causation_id",
                             "not a UUID: wanted 36 characters like "
                             "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a, got %zu",
                             len);
    push->has_causation = true;
    return HOWDAH_OK;
}

/* Texts stay the caller's: they are valid until the push returns, and nothing is copied. */
static int take_job(const howdah_new_job *given, size_t payload_bytes_max, hw_push *push,
                    howdah_error *reterr)
{
    howdah_new_job own = HOWDAH_NEW_JOB_INIT;
    const howdah_new_job *job = &own;
    int s = hw_sized_take(&own, sizeof own, given, "howdah_queue_push", reterr);

    if (s < 0)
        return s;
    *push = (hw_push){
        .data = job->data ? (hw_str){job->data, job->data_len} : HW_STR_LIT("{}"),
        .content_type = hw_str_of(job->content_type),
        .headers = job->headers ? (hw_str){job->headers, job->headers_len} : HW_STR_NULL,
        .run_at_us = job->run_at_us,
        .priority = (int32_t)job->priority,
        .max_attempts = (int32_t)job->max_attempts,
        .key = hw_str_of(job->key),
        .dedup = hw_str_of(job->dedup),
        .correlation_id = hw_str_of(job->correlation_id),
    };
    s = hw_rule_payload(push->data, push->content_type, payload_bytes_max, reterr);
    if (s >= 0 && push->headers.s)
        s = hw_rule_headers(push->headers, reterr);
    if (s >= 0)
        s = check_times(job, reterr);
    if (s >= 0) {
        push->delay_us = job->delay_ms * 1000;
        s = hw_rule_priority(job->priority, reterr);
    }
    if (s >= 0)
        s = hw_rule_max_attempts(job->max_attempts, reterr);
    if (s >= 0)
        s = check_names(job, reterr);
    return s < 0 ? s : take_causation(job, push, reterr);
}

/* All are checked before any is stored.  The error names the job, and its index, when there are
   several. */
static int take_jobs(const howdah_new_job *const *jobs, size_t n, size_t payload_bytes_max,
                     hw_push *pushes, howdah_error *reterr)
{
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++) {
        int s = jobs[i] ? take_job(jobs[i], payload_bytes_max, &pushes[i], reterr)
                        : hw_fail(reterr, HOWDAH_MISUSE, "the job is NULL");

        bytes += s < 0 ? 0 : pushes[i].data.len + pushes[i].headers.len;
        if (s >= 0 && bytes > HOWDAH_BATCH_BYTES_MAX)
            s = hw_fail_field(reterr, HOWDAH_LIMIT, "data", "at most %d bytes in one push",
                              HOWDAH_BATCH_BYTES_MAX);
        if (s < 0) {
            if (n > 1)
                hw_error_prefix(reterr, "job %zu", i + 1);
            hw_error_at(reterr, i);
            return s;
        }
    }
    return HOWDAH_OK;
}

/* ----------------------------------------------------------------- the calls */

/* Also for a push inside a caller's or handler's transaction, which brings its own store.
   ret_pushed is filled only when all are stored. */
int hw_push_to(hw_store *store, size_t payload_bytes_max, hw_str queue,
               const howdah_new_job *const *jobs, size_t n, howdah_pushed *ret_pushed,
               howdah_error *reterr)
{
    hw_push *pushes = NULL;
    howdah_pushed *pushed = NULL;
    int s = hw_rule_queue(queue, reterr);

    if (s >= 0 && n > HOWDAH_JOBS_MAX)
        s = hw_fail_field(reterr, HOWDAH_LIMIT, "jobs", "at most %d in one push, got %zu",
                          HOWDAH_JOBS_MAX, n);
    if (s >= 0 && n > 0)
        s = hw_sized_check(ret_pushed, "howdah_queue_push", reterr);
    if (s < 0 || n == 0)
        return s;
    pushes = hw_calloc(n, sizeof *pushes);
    pushed = hw_calloc(n, sizeof *pushed);
    s = pushes && pushed ? take_jobs(jobs, n, payload_bytes_max, pushes, reterr)
                         : hw_fail_no_memory(reterr);
    assert(store->ops->queue); /* hw_queues_of() has looked, or the store is a caller's handle */
    if (s >= 0)
        s = store->ops->queue->push(store, queue, pushes, n, pushed, reterr);
    for (size_t i = 0; s >= 0 && ret_pushed && i < n; i++) {
        const howdah_pushed one = {sizeof one, pushed[i].id, pushed[i].existed};

        hw_sized_give_at(ret_pushed, i, &one, sizeof one);
    }
    hw_free(pushes);
    hw_free(pushed);
    return s;
}

/*
 * Inside a transactional handler the jobs are part of its transaction: they appear if it commits.
 */
int howdah_queue_push_batch(howdah_bus *bus, const char *queue, const howdah_new_job *const *jobs,
                            size_t n, howdah_pushed *ret_pushed, howdah_error *reterr)
{
    hw_store *tx = hw_handling_tx(bus);
    HW_ENTRY(entry);
    int s;

    if (tx)
        return hw_join_push(bus, tx, queue, jobs, n, ret_pushed, reterr);
    s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_push", reterr);
    if (s >= 0)
        s = hw_queues_of(bus, "howdah_queue_push", NULL, reterr);
    if (s >= 0 && n > 0 && !jobs)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_push: jobs is NULL");
    return s < 0 ? s
                 : hw_push_to(bus->store, bus->payload_bytes_max, hw_str_of(queue), jobs, n,
                              ret_pushed, reterr);
}

/* One job is a batch of one: the rules and the errors are the same. */
int howdah_queue_push(howdah_bus *bus, const char *queue, const howdah_new_job *job,
                      howdah_pushed *ret_pushed, howdah_error *reterr)
{
    return howdah_queue_push_batch(bus, queue, &job, 1, ret_pushed, reterr);
}

/* The first of the three calls of a plain queue; see howdah_queue_poll() and
   howdah_job_finalize(). */
int howdah_queue_publish(howdah_bus *bus, const char *queue, const char *json, int64_t *ret_id,
                         howdah_error *reterr)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;
    int s;

    job.data = json;
    job.data_len = json ? strlen(json) : 0;
    s = howdah_queue_push(bus, queue, &job, &pushed, reterr);
    if (s >= 0 && ret_id)
        *ret_id = pushed.id;
    return s;
}
