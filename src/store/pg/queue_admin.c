/* admin.c - what operators ask of queues and jobs on PostgreSQL. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/pg.h"

#define PAGE 500
#define PAGE_BYTES (8 * 1024 * 1024)
#define FEWER                                                                                      \
    8 /* jobs, so many times, when one is too large for its share of a page (read.c I2)            \
       */

#define CHANGES_BYTES_MAX 4096 /* far above what the numbers of all settings need */

/* --------------------------------------------------------------------- jobs */

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
    KEY,
    DEDUP,
    CORRELATION_ID,
    CAUSATION_ID,
    EVENT_SEQUENCE,
    CONTENT_TYPE,
    HEADERS,
    DATA,
    BYTES,
    POSITION,
    FINISHED_AT,
    ERROR,
    RESULT,
    EVENT_TYPE,
    EVENT_STREAM,
    FITS /* of the history: the payload is there, or not wanted */
};

static const char *const state_names[] = {
    [HOWDAH_JOB_PENDING] = "pending",       [HOWDAH_JOB_SCHEDULED] = "scheduled",
    [HOWDAH_JOB_PROCESSING] = "processing", [HOWDAH_JOB_COMPLETED] = "completed",
    [HOWDAH_JOB_FAILED] = "failed",
};

static howdah_job_state state_of(hw_str name)
{
    for (int i = HOWDAH_JOB_PENDING; i < HOWDAH_JOB_FAILED; i++)
        if (hw_str_equal(name, hw_str_of(state_names[i])))
            return (howdah_job_state)i;
    return HOWDAH_JOB_FAILED;
}

static void decode_job(const PGresult *r, int row, howdah_job *job)
{
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
        .key = hw_pg_get_str(r, row, KEY),
        .dedup = hw_pg_get_str(r, row, DEDUP),
        .correlation_id = hw_pg_get_str(r, row, CORRELATION_ID),
        .event_sequence = hw_pg_get_int8_or(r, row, EVENT_SEQUENCE, 0),
        .event_type = hw_pg_get_str(r, row, EVENT_TYPE),
        .event_stream = hw_pg_get_str(r, row, EVENT_STREAM),
        .content_type = hw_pg_get_str(r, row, CONTENT_TYPE),
        .headers = hw_pg_get_str(r, row, HEADERS),
        .position = hw_pg_get_int8_or(r, row, POSITION, 0),
        .finished_at_us = hw_pg_get_time(r, row, FINISHED_AT),
        .error = hw_pg_get_str(r, row, ERROR),
        .result = hw_pg_get_str(r, row, RESULT),
    };
    job->has_causation = hw_pg_get_uuid(r, row, CAUSATION_ID, &job->causation_id);
    job->data = hw_pg_get_str(r, row, job->content_type.s ? BYTES : DATA);
}

static int no_such_job(int64_t id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no job %lld", (long long)id);
}

static int job_load(hw_store *store, int64_t id, hw_job_fn fn, void *ctx, howdah_error *reterr)
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
        s = no_such_job(id, reterr);
    } else if (s >= 0) {
        howdah_job job;

        decode_job(result, 0, &job);
        (void)fn(ctx, &job);
    }
    PQclear(result);
    return s;
}

/* word: the state that it is in instead. */
static int refuse_change(int64_t id, hw_str word, howdah_error *reterr)
{
    if (hw_str_equal(word, hw_str_of("processing")))
        return hw_fail(reterr, HOWDAH_CONFLICT, "job %lld is in a worker's hands", (long long)id);
    if (hw_str_equal(word, hw_str_of("purged")))
        return hw_fail(reterr, HOWDAH_CONFLICT,
                       "job %lld cannot be tried again: its event was purged", (long long)id);
    return hw_fail(reterr, HOWDAH_CONFLICT, "job %lld is %s%s", (long long)id,
                   hw_str_equal(word, hw_str_of("scheduled")) ? "" : "over: it has ", word.s);
}

/* Carries a change out that answers with one word: wanted, or why not. */
static int change_job(hw_pg *pg, const hw_pg_call *call, int64_t id, const char *wanted,
                      howdah_error *reterr)
{
    PGresult *result = NULL;
    hw_str word;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s < 0)
        return s;
    word = hw_pg_get_str(result, 0, 0);
    if (!word.s)
        s = no_such_job(id, reterr);
    else if (!hw_str_equal(word, hw_str_of(wanted)))
        s = refuse_change(id, word, reterr);
    PQclear(result);
    return s;
}

static int job_cancel(hw_store *store, int64_t id, hw_str reason, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_JOB_CANCEL, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_int8(&call, id);
    hw_pg_param_str(&call, reason);
    return change_job(pg, &call, id, "cancelled", reterr);
}

static int job_rerun(hw_store *store, int64_t id, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_JOB_RERUN, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_int8(&call, id);
    return change_job(pg, &call, id, "ready", reterr);
}

/* ------------------------------------------------------------------ history */

static void call_of_log(hw_str queue, const howdah_queue_log_options *q, int64_t after,
                        int64_t limit, hw_pg_call *call)
{
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

static int job_log(hw_store *store, hw_str queue, const howdah_queue_log_options *options,
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

/* What is to change as a JSON object: what is absent stays as it is, and nobody counts parameters.
 */
static void put_changes(hw_buf *json, const howdah_queue_options *settings, const bool *paused)
{
    static const char *const names[] = {HOWDAH_QUEUE_SETTING_LIST(HW_QUEUE_SETTING_NAME)};

    hw_buf_printf(json, "{\"paused\":%s", !paused ? "null" : *paused ? "true" : "false");
    for (size_t i = 0; i < HW_QUEUE_SETTING_COUNT; i++) {
        int64_t value = hw_queue_setting_get(settings, i);

        if (value != HOWDAH_ABSENT)
            hw_buf_printf(json, ",\"%s\":%" PRId64, names[i], value);
    }
    hw_buf_puts(json, "}");
}

/* paused, NULL: as it is. */
static int set(hw_pg *pg, hw_str queue, const howdah_queue_options *settings, const bool *paused,
               howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_SET, .writes = true};
    hw_buf changes = HW_BUF_INIT(CHANGES_BYTES_MAX);
    PGresult *result = NULL;
    int s;

    put_changes(&changes, settings, paused);
    s = hw_buf_check(&changes, reterr);
    if (s >= 0) {
        hw_pg_param_str(&call, queue);
        hw_pg_param_bin(&call, changes.data, changes.len);
        s = hw_pg_exec(pg, &call, &result, reterr);
    }
    PQclear(result);
    hw_buf_done(&changes);
    return s;
}

static int queue_put(hw_store *store, hw_str queue, const howdah_queue_options *settings,
                     howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int s = hw_pg_ready(pg, reterr);

    return s < 0 ? s : set(pg, queue, settings, NULL, reterr);
}

static int one_of_them(void *ctx, const howdah_queue_info *row)
{
    (void)row;
    *(bool *)ctx = true;
    return 0;
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

static int queue_load(hw_store *store, hw_str queue, hw_queue_fn fn, void *ctx,
                      howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_STATES};
    int n = 0;
    int s;

    hw_pg_param_str(&call, queue);
    s = walk_queues((hw_pg *)store, &call, fn, ctx, &n, reterr);
    return s >= 0 && n == 0 ? hw_pg_no_such_queue(queue, reterr) : s;
}

static int queue_list(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_STATES};
    int n = 0;

    hw_pg_param_null(&call);
    return walk_queues((hw_pg *)store, &call, fn, ctx, &n, reterr);
}

static int queue_summary(hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_SUMMARY};
    int n = 0;

    return walk_queues((hw_pg *)store, &call, fn, ctx, &n, reterr);
}

static int queue_pause(hw_store *store, hw_str queue, bool paused, howdah_error *reterr)
{
    static const howdah_queue_options keep = HOWDAH_QUEUE_OPTIONS_INIT;
    bool there = false;
    int s = queue_load(store, queue, one_of_them, &there, reterr);

    return s < 0 ? s : set((hw_pg *)store, queue, &keep, &paused, reterr);
}

static int queue_purge(hw_store *store, hw_str queue, int64_t *ret_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_PURGE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, queue);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && PQgetisnull(result, 0, 0))
        s = hw_pg_no_such_queue(queue, reterr);
    else if (s >= 0 && ret_n)
        *ret_n = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s;
}

static int maintain(hw_store *store, hw_str queue, bool *ret_more, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_TIDY, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, queue);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_more = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

static int verify(hw_store *store, hw_wrong_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_VERIFY};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_query(pg, &call, &r, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(r); i++)
        if (fn(ctx, hw_pg_get_str(r, i, 0), hw_pg_get_str(r, i, 1), hw_pg_get_int8(r, i, 2)) != 0)
            break;
    PQclear(r);
    return s;
}

const hw_queue_ops hw_pg_queue_ops = {
    .push = hw_pg_push,
    .exchange = hw_pg_exchange,
    .maintain = maintain,
    .queue_put = queue_put,
    .queue_pause = queue_pause,
    .queue_load = queue_load,
    .queue_list = queue_list,
    .queue_summary = queue_summary,
    .queue_purge = queue_purge,
    .job_load = job_load,
    .job_cancel = job_cancel,
    .job_rerun = job_rerun,
    .log = job_log,
    .dead_letters_set_state = hw_pg_job_dead_letters_mark,
    .verify = verify,
    .bind = hw_pg_queue_bind,
    .unbind = hw_pg_queue_unbind,
    .bindings = hw_pg_queue_bindings,
    .route = hw_pg_route,
};
