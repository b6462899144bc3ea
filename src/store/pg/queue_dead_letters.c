/*
 * queue_dead_letters.c - dead letters of jobs on PostgreSQL.
 *
 *   I1  The functions of sql/pg/functions/queue_dead_letters.sql do the work; here their rows
 * become dead letters, and dead_letters.c walks over them with those of subscriptions. I2  A job
 * that is gone from the history has no payload any more: its dead letter comes without the job.
 */
#include <assert.h>

#include "base/clock.h"
#include "store/pg/pg.h"

/* The columns of JOB_DEAD_LETTER_LIST (sql_queue.c). */
enum dead_letter_column {
    DEAD_LETTER_ID,
    QUEUE,
    JOB_ID,
    STATE,
    ERROR,
    ATTEMPTS,
    REDRIVES,
    REASON,
    CREATED_AT,
    LAST_ATTEMPT_AT,
    RESOLVED_AT,
    RESOLVED_BY,
    KEPT,
    PRIORITY,
    MAX_ATTEMPTS,
    PUSHED_AT,
    PUSHED, /* hw_pg_get_pushed() */
    EVENT_TYPE = PUSHED + HW_PG_PUSHED_N,
    EVENT_STREAM
};

/* One dead letter is the page from the id before it up to its own. */
void hw_pg_call_of_job_dead_letters(const hw_dead_letter_query *query, int64_t after, int64_t limit,
                                    int32_t cap, hw_pg_call *ret_call)
{
    int64_t first = query->id > 0 && query->id - 1 > after ? query->id - 1 : after;

    *ret_call = (hw_pg_call){.statement = HW_PG_JOB_DEAD_LETTER_LIST};
    hw_pg_param_str(ret_call, query->queue);
    hw_pg_param_bool(ret_call, query->resolved);
    hw_pg_param_int8(ret_call, first);
    hw_pg_param_int8(ret_call, query->id > 0 ? query->id : INT64_MAX);
    hw_pg_param_int8(ret_call, limit);
    hw_pg_param_int4(ret_call, cap);
}

/*
 * The job as it was pushed, with what its last attempt left; its state follows from the letter's.
 */
static void decode_job(const PGresult *r, int row, const howdah_dead_letter *dead_letter,
                       hw_dead_letter_state state, howdah_job *job)
{
    *job = (howdah_job){
        .id = dead_letter->job_id,
        .state = hw_job_state_by_dead_letter(state),
        .queue = hw_pg_get_str(r, row, QUEUE),
        .priority = hw_pg_get_int4(r, row, PRIORITY),
        .attempts = dead_letter->attempts,
        .max_attempts = hw_pg_get_int8(r, row, MAX_ATTEMPTS),
        .created_at_us = hw_pg_get_time(r, row, PUSHED_AT),
        .due_at_us = HW_TIME_ABSENT,
        .started_at_us = HW_TIME_ABSENT,
        .lease_until_us = HW_TIME_ABSENT,
        .finished_at_us = HW_TIME_ABSENT,
        .error = hw_pg_get_str(r, row, ERROR),
    };
    hw_pg_get_pushed(r, row, PUSHED, EVENT_TYPE, job);
}

/* The texts are the result's: fn has to copy what it wants to keep. */
int hw_pg_hand_job_dead_letter(const PGresult *r, int row, hw_dead_letter_fn fn, void *ctx)
{
    hw_dead_letter_state state = hw_pg_dead_letter_state(hw_pg_get_str(r, row, STATE));
    howdah_dead_letter dead_letter = {
        .size = sizeof dead_letter,
        .id = hw_pg_get_int8(r, row, DEAD_LETTER_ID),
        .source = "queue",
        .queue = hw_pg_get_str(r, row, QUEUE).s,
        .job_id = hw_pg_get_int8(r, row, JOB_ID),
        .error = hw_pg_text(r, row, ERROR),
        .attempts = hw_pg_get_int8(r, row, ATTEMPTS),
        .redrives = hw_pg_get_int8(r, row, REDRIVES),
        .created_at_us = hw_pg_get_time(r, row, CREATED_AT),
        .last_attempt_at_us = hw_pg_get_time(r, row, LAST_ATTEMPT_AT),
        .state = hw_dead_letter_state_name(state),
        .reason = hw_pg_text(r, row, REASON),
        .resolved = !PQgetisnull(r, row, RESOLVED_AT),
        .resolved_at_us = hw_pg_get_time(r, row, RESOLVED_AT),
        .resolved_by = hw_pg_text(r, row, RESOLVED_BY),
    };
    howdah_job job;

    assert(PQnfields(r) > EVENT_STREAM);
    if (hw_pg_get_bool(r, row, KEPT)) {
        decode_job(r, row, &dead_letter, state, &job);
        dead_letter.job = &job;
    }
    return fn(ctx, &dead_letter);
}

/* NULL: there is no such queue. */
int hw_pg_job_dead_letters_set_state(hw_store *store, hw_str queue, hw_dead_letter_state state,
                                     hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_DEAD_LETTER_SET_JOBS, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    assert(state == HW_DEAD_LETTER_REDRIVE || state == HW_DEAD_LETTER_DISCARDED);
    hw_pg_param_null(&call); /* all ids */
    hw_pg_param_str(&call, queue);
    hw_pg_param_str(&call, hw_str_of(hw_dead_letter_state_name(state)));
    hw_pg_param_str(&call, reason);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && PQgetisnull(result, 0, 0))
        s = hw_pg_no_such_queue(queue, reterr);
    else if (s >= 0 && ret_n)
        *ret_n = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s;
}
