/*
 * queue_admin.c - what operators do to queues and jobs on PostgreSQL, and the table of the queue's
 * operations.
 *
 *   I1  The work is done by the functions of sql/pg/functions/queue_*.sql, one statement each.  A
 *       job that is in the wrong state, or not there, is answered with a word or with NULL; here
 *       that becomes an error.
 */
#include <assert.h>
#include <inttypes.h>

#include "store/pg/pg.h"

#define CHANGES_BYTES_MAX 4096 /* far above what the numbers of all settings need */

/* --------------------------------------------------------------------- jobs */

/* word: the state that it is in instead. */
static int refuse_change(int64_t id, hw_str word, howdah_error *reterr)
{
    if (hw_str_equal(word, hw_str_of("processing")))
        return hw_fail(reterr, HOWDAH_CONFLICT, "job %lld is under way", (long long)id);
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
    assert(PQntuples(result) == 1);
    word = hw_pg_get_str(result, 0, 0);
    if (!word.s)
        s = hw_pg_no_such_job(id, reterr);
    else if (!hw_str_equal(word, hw_str_of(wanted)))
        s = refuse_change(id, word, reterr);
    PQclear(result);
    return s;
}

/* The function writes "cancelled" and the reason into the history itself. */
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

/* ------------------------------------------------------------------- queues */

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

/* Only whether there is a queue counts. */
static int one_of_them(void *ctx, const howdah_queue_info *row)
{
    (void)row;
    *(bool *)ctx = true;
    return 0;
}

/* queue_set() would make a queue that is not there, so it is looked for first. */
static int queue_pause(hw_store *store, hw_str queue, bool paused, howdah_error *reterr)
{
    static const howdah_queue_options keep = HOWDAH_QUEUE_OPTIONS_INIT;
    bool there = false;
    int s = hw_pg_queue_load(store, queue, one_of_them, &there, reterr);

    return s < 0 ? s : set((hw_pg *)store, queue, &keep, &paused, reterr);
}

/* NULL: there is no such queue. */
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

/* Gives leases back and removes history, a bounded number of each: queue_tidy(). */
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

const hw_queue_ops hw_pg_queue_ops = {
    .push = hw_pg_push,
    .exchange = hw_pg_exchange,
    .maintain = maintain,
    .queue_put = queue_put,
    .queue_pause = queue_pause,
    .queue_load = hw_pg_queue_load,
    .queue_list = hw_pg_queue_list,
    .queue_summary = hw_pg_queue_summary,
    .queue_purge = queue_purge,
    .job_load = hw_pg_job_load,
    .job_cancel = job_cancel,
    .job_rerun = job_rerun,
    .log = hw_pg_queue_log,
    .dead_letters_set_state = hw_pg_job_dead_letters_set_state,
    .verify = hw_pg_queue_verify,
    .bind = hw_pg_queue_bind,
    .unbind = hw_pg_queue_unbind,
    .bindings = hw_pg_queue_bindings,
    .route = hw_pg_route,
};
