/*
 * queue_read.c - queues, jobs and history on PostgreSQL for those who look.
 *
 *   I1  One statement is one moment: the counts of a queue add up, and a job that moves meanwhile
 *       is found in one of its places.
 *   I2  History comes in pages that are bounded in rows and in bytes.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/pg.h"

#define PAGE 500
#define PAGE_BYTES (8 * 1024 * 1024)
/* So many times fewer jobs when one is too large for its share of a page (read.c, I2). */
#define FEWER 8

/* --------------------------------------------------------------------- jobs */

/* The columns of JOB_LOAD and JOB_LOG (sql_queue.c). */
enum job_column {
    ID,
    STATE,
    QUEUE,
    TOKEN,
    PRIORITY,
    ATTEMPTS,
    MAX_ATTEMPTS,
    SUSPECT,
    CREATED_AT,
    DUE_AT,
    STARTED_AT,
    LEASE_UNTIL,
    WORKER,
    PUSHED, /* hw_pg_get_pushed() */
    POSITION = PUSHED + HW_PG_PUSHED_N,
    FINISHED_AT,
    ERROR,
    RESULT,
    EVENT_TYPE,
    EVENT_STREAM,
    FITS /* of the history: the payload is there, or not wanted */
};

/* By howdah_job_state, as job_states() writes them. */
static const char *const state_names[] = {
    [HOWDAH_JOB_PENDING] = "pending",       [HOWDAH_JOB_SCHEDULED] = "scheduled",
    [HOWDAH_JOB_PROCESSING] = "processing", [HOWDAH_JOB_COMPLETED] = "completed",
    [HOWDAH_JOB_FAILED] = "failed",
};

/* The words come from our own functions; there are no others. */
static howdah_job_state state_of(hw_str name)
{
    for (int i = HOWDAH_JOB_PENDING; i < HOWDAH_JOB_FAILED; i++)
        if (hw_str_equal(name, hw_str_of(state_names[i])))
            return (howdah_job_state)i;
    return HOWDAH_JOB_FAILED;
}

void hw_pg_get_pushed(const PGresult *r, int row, int first, int event_type, howdah_job *job)
{
    job->key = hw_pg_get_str(r, row, first + HW_PG_PUSHED_KEY);
    job->dedup = hw_pg_get_str(r, row, first + HW_PG_PUSHED_DEDUP);
    job->correlation_id = hw_pg_get_str(r, row, first + HW_PG_PUSHED_CORRELATION_ID);
    job->has_causation =
        hw_pg_get_uuid(r, row, first + HW_PG_PUSHED_CAUSATION_ID, &job->causation_id);
    job->event_sequence = hw_pg_get_int8_or(r, row, first + HW_PG_PUSHED_EVENT_SEQUENCE, 0);
    job->content_type = hw_pg_get_str(r, row, first + HW_PG_PUSHED_CONTENT_TYPE);
    job->headers = hw_pg_get_str(r, row, first + HW_PG_PUSHED_HEADERS);
    job->data = hw_pg_get_str(
        r, row, first + (job->content_type.s ? HW_PG_PUSHED_BYTES : HW_PG_PUSHED_DATA));
    job->event_type = hw_pg_get_str(r, row, event_type);
    job->event_stream = hw_pg_get_str(r, row, event_type + 1);
}

/* The texts are the result's, so the job lives as long as that. */
static void decode_job(const PGresult *r, int row, howdah_job *job)
{
    assert(PQnfields(r) == EVENT_STREAM + 1 || PQnfields(r) == FITS + 1);
    *job = (howdah_job){
        .id = hw_pg_get_int8(r, row, ID),
        .state = state_of(hw_pg_get_str(r, row, STATE)),
        .queue = hw_pg_get_str(r, row, QUEUE),
        .token = hw_pg_get_int8_or(r, row, TOKEN, 0),
        .priority = hw_pg_get_int4(r, row, PRIORITY),
        .attempts = hw_pg_get_int8(r, row, ATTEMPTS),
        .max_attempts = hw_pg_get_int8(r, row, MAX_ATTEMPTS),
        .suspect = hw_pg_get_bool(r, row, SUSPECT),
        .created_at_us = hw_pg_get_time(r, row, CREATED_AT),
        .due_at_us = hw_pg_get_time(r, row, DUE_AT),
        .started_at_us = hw_pg_get_time(r, row, STARTED_AT),
        .lease_until_us = hw_pg_get_time(r, row, LEASE_UNTIL),
        .worker = hw_pg_get_str(r, row, WORKER),
        .position = hw_pg_get_int8_or(r, row, POSITION, 0),
        .finished_at_us = hw_pg_get_time(r, row, FINISHED_AT),
        .error = hw_pg_get_str(r, row, ERROR),
        .result = hw_pg_get_str(r, row, RESULT),
    };
    hw_pg_get_pushed(r, row, PUSHED, EVENT_TYPE, job);
}

int hw_pg_no_such_job(int64_t id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no job %lld", (long long)id);
}

/* One statement looks into all places, so a job that moves is found once (I1). */
int hw_pg_job_load(hw_store *store, int64_t id, hw_job_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_JOB_LOAD};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_int8(&call, id);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0 && PQntuples(result) == 0) {
        s = hw_pg_no_such_job(id, reterr);
    } else if (s >= 0) {
        howdah_job job;

        decode_job(result, 0, &job);
        (void)fn(ctx, &job);
    }
    PQclear(result);
    return s;
}

/* ------------------------------------------------------------------ history */

/* A page of one job has no cap: it has to come, however large it is. */
static void call_of_log(hw_str queue, const howdah_queue_history_options *q, int64_t after,
                        int64_t limit, hw_pg_call *call)
{
    assert(limit >= 1 && limit <= PAGE);
    *call = (hw_pg_call){.statement = HW_PG_JOB_LOG};
    hw_pg_param_str(call, queue);
    if (q->status == HOWDAH_ABSENT)
        hw_pg_param_null(call);
    else
        hw_pg_param_bool(call, q->status == HOWDAH_JOB_FAILED);
    hw_pg_param_int8(call, after);
    hw_pg_param_int8(call, limit);
    hw_pg_param_bool(call, q->backward);
    hw_pg_param_bool(call, q->payload);
    hw_pg_param_int4(call, limit <= 1 ? INT32_MAX : (int32_t)(PAGE_BYTES / limit));
}

/* Rows that come before the first one that is too large. */
static int count_fitting(const PGresult *result)
{
    int n = 0;

    while (n < PQntuples(result) && hw_pg_get_bool(result, n, FITS))
        n++;
    return n;
}

/*
 * I2.  The page shrinks when a payload does not fit into its share, and grows again afterwards;
 * the next one goes on after the last position that was handed over.
 */
int hw_pg_queue_log(hw_store *store, hw_str queue, const howdah_queue_history_options *options,
                    hw_job_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int64_t left = options->limit > 0 ? options->limit : INT64_MAX;
    int64_t after = options->after;
    int rows = PAGE;
    bool stop = false;
    int s = hw_pg_ready(pg, reterr);

    while (s >= 0 && left > 0 && !stop) {
        int asked = left < rows ? (int)left : rows;
        PGresult *result = NULL;
        hw_pg_call call;
        int n;

        call_of_log(queue, options, after, asked, &call);
        s = hw_pg_query(pg, &call, &result, reterr);
        if (s < 0)
            return s;
        n = count_fitting(result);
        stop = PQntuples(result) < asked && n == PQntuples(result);
        if (n < PQntuples(result))
            rows = asked > FEWER ? asked / FEWER : 1;
        else
            rows = 2 * rows < PAGE ? 2 * rows : PAGE;
        left -= n;
        for (int i = 0; i < n; i++) {
            howdah_job job;

            decode_job(result, i, &job);
            after = job.position;
            if (fn(ctx, &job) != 0) {
                stop = true;
                break;
            }
        }
        PQclear(result);
    }
    return s;
}

/* ------------------------------------------------------------------- queues */

int hw_pg_no_such_queue(hw_str queue, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no queue %.*s", (int)queue.len, queue.s);
}

/* The columns of QUEUE_STATES and QUEUE_SUMMARY. */
enum queue_column {
    NAME,
    PAUSED,
    SETTINGS,
    QUEUE_CREATED_AT = SETTINGS + HW_QUEUE_SETTING_COUNT,
    PENDING,
    PROCESSING,
    SCHEDULED,
    COMPLETED,
    FAILED,
    PURGED,
    OLDEST_AGE_MS,
    DEAD_LETTERS,
    QUEUE_COLUMNS
};

/* A summary has no counts of the history: they are NULL. */
static howdah_queue_info decode_queue(const PGresult *r, int row)
{
    howdah_queue_info info = {
        .size = sizeof info,
        .queue = hw_pg_get_str(r, row, NAME).s,
        .paused = hw_pg_get_bool(r, row, PAUSED),
        .settings = {.size = sizeof info.settings},
        .created_at_us = hw_pg_get_time(r, row, QUEUE_CREATED_AT),
        .pending = hw_pg_get_int8(r, row, PENDING),
        .processing = hw_pg_get_int8(r, row, PROCESSING),
        .scheduled = hw_pg_get_int8(r, row, SCHEDULED),
        .completed = hw_pg_get_int8_or(r, row, COMPLETED, HOWDAH_ABSENT),
        .failed = hw_pg_get_int8_or(r, row, FAILED, HOWDAH_ABSENT),
        .purged = hw_pg_get_int8(r, row, PURGED),
        .oldest_age_ms = hw_pg_get_int8_or(r, row, OLDEST_AGE_MS, HOWDAH_ABSENT),
        .dead_letters = hw_pg_get_int8(r, row, DEAD_LETTERS),
    };

    for (int i = 0; i < HW_QUEUE_SETTING_COUNT; i++)
        hw_queue_setting_put(&info.settings, (size_t)i, hw_pg_get_int8(r, row, SETTINGS + i));
    return info;
}

/* ret_n: how many there are, also when fn wants no more of them. */
static int walk_queues(hw_pg *pg, const hw_pg_call *call, hw_queue_fn fn, void *ctx, int *ret_n,
                       howdah_error *reterr)
{
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_query(pg, call, &r, reterr);
    if (s < 0)
        return s;
    assert(PQnfields(r) == QUEUE_COLUMNS);
    *ret_n = PQntuples(r);
    for (int i = 0; i < PQntuples(r); i++) {
        howdah_queue_info info = decode_queue(r, i);

        if (fn(ctx, &info) != 0)
            break;
    }
    PQclear(r);
    return HOWDAH_OK;
}

/* One queue by name, counted whole. */
int hw_pg_queue_load(hw_store *store, hw_str queue, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_STATES};
    int n = 0;
    int s;

    hw_pg_param_str(&call, queue);
    s = walk_queues((hw_pg *)store, &call, fn, ctx, &n, reterr);
    return s >= 0 && n == 0 ? hw_pg_no_such_queue(queue, reterr) : s;
}

/* NULL: all of them. */
int hw_pg_queue_list(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_STATES};
    int n = 0;

    hw_pg_param_null(&call);
    return walk_queues((hw_pg *)store, &call, fn, ctx, &n, reterr);
}

/* The history is not counted: it costs what waits, not what was. */
int hw_pg_queue_summary(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_SUMMARY};
    int n = 0;

    return walk_queues((hw_pg *)store, &call, fn, ctx, &n, reterr);
}
