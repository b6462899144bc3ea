/*
 * dead_letters.c - dead letters and skips on PostgreSQL.
 *
 *   I1  A dead letter or a skip and the checkpoint that moves past its number are one statement.
 *   I2  Repeating it after a lost answer changes nothing more: the dead letter is renewed with what
 *       it has already.
 *   I3  A page of dead letters is bounded in bytes as one of events is (read.c I2).
 *   I4  Dead letters of jobs have ids of the same sequence (queue_dead_letters.c): listing or
 *       marking dead letters by id deals with both kinds.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/pg.h"

#define PAGE 100 /* dead letters carry whole events */
#define PAGE_BYTES (8 * 1024 * 1024)
#define FEWER 8 /* so many times fewer rows, when one is too large for its share of a page */

/* A state that this version does not know is shown as dead. */
hw_dead_letter_state hw_pg_dead_letter_state(hw_str name)
{
    hw_dead_letter_state state = HW_DEAD_LETTER_DEAD;

    (void)hw_dead_letter_state_of(name, &state);
    return state;
}

const char *hw_pg_text(const PGresult *r, int row, int column)
{
    return PQgetisnull(r, row, column) ? "" : PQgetvalue(r, row, column);
}

/* --------------------------------------------------------------- one dead letter */

/*
 * The event as it was read, in the order of columns.h.  One without a payload keeps none: a
 * made-up "null" would look like what was appended.
 */
static void param_event(hw_pg_call *call, const howdah_event *e)
{
    bool json = !e->content_type.s;

    hw_pg_param_int8(call, e->global_sequence);
    hw_pg_param_uuid(call, true, &e->id);
    hw_pg_param_str(call, e->stream);
    hw_pg_param_int8(call, e->version);
    hw_pg_param_str(call, e->type);
    hw_pg_param_str(call, json && !e->broken ? e->data : HW_STR_NULL);
    hw_pg_param_str(call, json || e->broken ? HW_STR_NULL : e->data);
    hw_pg_param_str(call, e->content_type);
    hw_pg_param_str(call, e->headers);
    hw_pg_param_str(call, e->correlation_id);
    hw_pg_param_uuid(call, e->has_causation, &e->causation_id);
    hw_pg_param_str(call, e->actor);
    hw_pg_param_time(call, e->valid_time_us);
    hw_pg_param_time(call, e->recorded_at_us);
    hw_pg_param_uuid(call, e->has_family, &e->family);
    hw_pg_param_int4(call, e->revision);
    hw_pg_param_uuid(call, e->has_corrects, &e->corrects);
    hw_pg_param_str(call, e->reason);
    hw_pg_param_int4(call, e->schema_version);
    hw_pg_param_bool(call, e->retracts);
    hw_pg_param_bool(call, e->purged);
}

/*
 * I1.  The statement answers with the id of what was stored, or with nothing when the place was
 * not moved.
 */
static int store_and_move(hw_pg *pg, const hw_pg_call *call, const hw_checkpoint *checkpoint,
                          int64_t *ret_id, howdah_error *reterr)
{
    PGresult *result = NULL;
    bool moved = false;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s >= 0)
        moved = PQntuples(result) == 1;
    if (moved && ret_id)
        *ret_id = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s < 0 || moved ? s : hw_pg_why_not_moved(pg, checkpoint, reterr);
}

int hw_pg_dead_letter(hw_store *store, const hw_checkpoint *checkpoint, const howdah_event *event,
                      hw_str error, int64_t attempts, int64_t *ret_id, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_DEAD_LETTER_PUT, .writes = true};
    int s = hw_pg_ready_to_move(pg, reterr);

    if (s >= 0)
        s = hw_pg_param_checkpoint(pg, &call, checkpoint, &pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(&call, error);
    hw_pg_param_int8(&call, attempts);
    param_event(&call, event);
    return store_and_move(pg, &call, checkpoint, ret_id, reterr);
}

/*
 * The columns of DEAD_LETTER_COLUMNS in sql_subscriptions.c; those of the event come after
 * EVENT.
 */
enum dead_letter_column {
    DEAD_LETTER_ID,
    SOURCE,
    SUBSCRIBER_ID,
    ERROR_MESSAGE,
    RETRY_COUNT,
    REDRIVES,
    CREATED_AT,
    LAST_RETRY_AT,
    STATE,
    REASON,
    RESOLVED_AT,
    RESOLVED_BY,
    EVENT
};

static int hand_dead_letter(const PGresult *r, int row, hw_dead_letter_fn fn, void *ctx)
{
    howdah_event event;
    howdah_dead_letter dead_letter = {
        .size = sizeof dead_letter,
        .id = hw_pg_get_int8(r, row, DEAD_LETTER_ID),
        .source = hw_pg_text(r, row, SOURCE),
        .subscriber_id = hw_pg_get_str(r, row, SUBSCRIBER_ID).s,
        .event = &event,
        .error = hw_pg_text(r, row, ERROR_MESSAGE),
        .attempts = hw_pg_get_int8(r, row, RETRY_COUNT),
        .redrives = hw_pg_get_int8(r, row, REDRIVES),
        .created_at_us = hw_pg_get_time(r, row, CREATED_AT),
        .last_attempt_at_us = hw_pg_get_time(r, row, LAST_RETRY_AT),
        .state = hw_dead_letter_state_name(hw_pg_dead_letter_state(hw_pg_get_str(r, row, STATE))),
        .reason = hw_pg_text(r, row, REASON),
        .resolved = !PQgetisnull(r, row, RESOLVED_AT),
        .resolved_at_us = hw_pg_get_time(r, row, RESOLVED_AT),
        .resolved_by = hw_pg_text(r, row, RESOLVED_BY),
    };

    hw_pg_decode_event(r, row, EVENT, &event);
    return fn(ctx, &dead_letter);
}

/*
 * An owner lists its open ones or its redrives by a partial index of their own; everything else
 * walks by id.  A single id is a page that begins just below it.
 */
static void call_of_dead_letters(const hw_dead_letter_query *q, int64_t after, int64_t limit,
                                 int32_t cap, hw_pg_call *call)
{
    int64_t first = q->id > 0 && q->id - 1 > after ? q->id - 1 : after;
    bool mine = q->subscriber_id.s != NULL;

    *call = (hw_pg_call){.statement = mine && q->redrives    ? HW_PG_DEAD_LETTER_LIST_REDRIVES
                                      : mine && !q->resolved ? HW_PG_DEAD_LETTER_LIST_OPEN
                                                             : HW_PG_DEAD_LETTER_LIST};
    hw_pg_param_str(call, q->subscriber_id);
    hw_pg_param_int8(call, q->id > 0 ? q->id : INT64_MAX);
    hw_pg_param_int8(call, first);
    hw_pg_param_int8(call, limit);
    if (call->statement == HW_PG_DEAD_LETTER_LIST) {
        hw_pg_param_bool(call, q->resolved);
        hw_pg_param_bool(call, q->redrives);
    }
    hw_pg_param_int4(call, cap);
}

/* One of the two sources of dead letters, page by page. */
typedef struct source {
    bool of_jobs;
    bool denied_is_none; /* a role that may not look at them sees none */
    bool dry;            /* nothing is left after the page */
    int64_t rows;        /* to ask for */
    PGresult *page;
    int n; /* rows of it that can be used (I3) */
    int at;
} source;

/* I3: a single row may have any size. */
static int ask(hw_pg *pg, source *s, const hw_dead_letter_query *query, int64_t after,
               int64_t limit, howdah_error *reterr)
{
    int32_t cap = limit <= 1 ? INT32_MAX : (int32_t)(PAGE_BYTES / limit);
    hw_pg_call call;

    assert(limit > 0);
    PQclear(s->page);
    s->page = NULL;
    s->n = s->at = 0;
    if (s->of_jobs)
        hw_pg_call_of_job_dead_letters(query, after, limit, cap, &call);
    else
        call_of_dead_letters(query, after, limit, cap, &call);
    return hw_pg_query(pg, &call, &s->page, reterr);
}

/*
 * I3: the last column tells whether a row came whole.  The page ends before the first that did
 * not, and fewer rows are asked for next; then more again, step by step.
 */
static void judge(source *s, int64_t limit)
{
    int n = PQntuples(s->page);
    int fits = PQnfields(s->page) - 1;

    while (s->n < n && hw_pg_get_bool(s->page, s->n, fits))
        s->n++;
    s->dry = n < limit && s->n == n;
    if (s->n < n)
        s->rows = limit > FEWER ? limit / FEWER : 1;
    else
        s->rows = 2 * s->rows < PAGE ? 2 * s->rows : PAGE;
}

/* Asks until there is a row that can be used, or none at all; a single row always can. */
static int fill(hw_pg *pg, source *s, const hw_dead_letter_query *query, int64_t after,
                int64_t left, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int status;

    do {
        int64_t limit = left < s->rows ? left : s->rows;

        status = ask(pg, s, query, after, limit, &err);
        if (status >= 0)
            judge(s, limit);
    } while (status >= 0 && s->n == 0 && !s->dry);
    if (status >= 0)
        return HOWDAH_OK;
    s->dry = true;
    if (status == HOWDAH_DENIED && s->denied_is_none)
        return HOWDAH_OK;
    hw_error_copy(reterr, &err);
    return status;
}

/* The id of the next dead letter of this source; INT64_MAX when its page is used up. */
static int64_t next_id(const source *s)
{
    return s->page && s->at < s->n ? hw_pg_get_int8(s->page, s->at, DEAD_LETTER_ID) : INT64_MAX;
}

/*
 * Merges the two by id (I4).  A page is asked for after the last dead letter that was handed over,
 * whichever source that came from: ids handed over only grow.
 */
static int merge(hw_pg *pg, source *subs, source *jobs, const hw_dead_letter_query *query,
                 hw_dead_letter_fn fn, void *ctx, howdah_error *reterr)
{
    source *const both[] = {subs, jobs};
    int64_t left = query->limit > 0 ? query->limit : INT64_MAX;
    int64_t after = query->after_id;
    int s = HOWDAH_OK;

    assert(!subs->of_jobs && jobs->of_jobs);
    while (left > 0) {
        source *from;
        int stop;

        for (int i = 0; s >= 0 && i < 2; i++)
            if (next_id(both[i]) == INT64_MAX && !both[i]->dry)
                s = fill(pg, both[i], query, after, left, reterr);
        if (s < 0)
            return s;
        from = next_id(subs) < next_id(jobs) ? subs : jobs;
        after = next_id(from);
        if (after == INT64_MAX)
            return HOWDAH_OK;
        stop = from->of_jobs ? hw_pg_hand_job_dead_letter(from->page, from->at++, fn, ctx)
                             : hand_dead_letter(from->page, from->at++, fn, ctx);
        if (stop)
            return HOWDAH_OK;
        left--;
    }
    return HOWDAH_OK;
}

/*
 * A source that the query cannot mean is dry from the start.  A role that may not look at jobs
 * sees none of theirs, unless a queue was named: then DENIED is the answer.
 */
int hw_pg_dead_letters(hw_store *store, const hw_dead_letter_query *query, hw_dead_letter_fn fn,
                       void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    source subs = {.rows = PAGE, .dry = query->queue.s != NULL};
    source jobs = {.of_jobs = true,
                   .rows = PAGE,
                   .denied_is_none = !query->queue.s,
                   .dry = query->subscriber_id.s || query->redrives};
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = merge(pg, &subs, &jobs, query, fn, ctx, reterr);
    PQclear(subs.page);
    PQclear(jobs.page);
    return s;
}

/* ---------------------------------------------------------------- operators */

/*
 * I4: those of jobs.  A role that may not see to jobs marks none; for the others that is no
 * error.
 */
static int mark_job_dead_letters(hw_pg *pg, hw_pg_call *call, int64_t *ret_n, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    PGresult *result = NULL;
    int s;

    call->statement = HW_PG_DEAD_LETTER_SET_JOBS;
    s = hw_pg_exec(pg, call, &result, &err);
    if (s >= 0)
        *ret_n += hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    if (s == HOWDAH_DENIED)
        return HOWDAH_OK;
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/*
 * Two statements, and two transactions: those of subscriptions, then those of jobs, whose
 * function sees to the jobs as well.  If the second fails, the first stays: marking again is
 * harmless.
 */
int hw_pg_dead_letters_set_state(hw_store *store, const int64_t *ids, size_t n,
                                 hw_str subscriber_id, hw_dead_letter_state state, hw_str reason,
                                 int64_t *ret_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = n > 0 ? HW_PG_DEAD_LETTER_MARK : HW_PG_DEAD_LETTER_SET_OPEN,
                       .writes = true};
    PGresult *result = NULL;
    hw_pg_array array;
    int64_t marked = 0;
    int s = hw_pg_ready(pg, reterr);

    assert(state == HW_DEAD_LETTER_REDRIVE || state == HW_DEAD_LETTER_DISCARDED);
    if (s < 0)
        return s;
    hw_buf_clear(&pg->params);
    hw_pg_array_begin(&pg->params, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(&pg->params, ids[i]);
    s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    if (n > 0)
        hw_pg_param_bin(&call, pg->params.data, pg->params.len);
    else
        hw_pg_param_null(&call);
    hw_pg_param_str(&call, subscriber_id);
    hw_pg_param_str(&call, hw_str_of(hw_dead_letter_state_name(state)));
    hw_pg_param_str(&call, reason);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        marked = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    if (s >= 0 && !subscriber_id.s && (n == 0 || marked < (int64_t)n))
        s = mark_job_dead_letters(pg, &call, &marked, reterr);
    if (s >= 0 && ret_n)
        *ret_n = marked;
    return s;
}

/*
 * The owner's verdict on another try.  LOST and NOT_FOUND are told apart: the first ends the
 * ownership, the second only means that an operator was quicker.
 */
int hw_pg_redrive_end(hw_store *store, const hw_hold *hold, int64_t id, hw_dead_letter_state state,
                      hw_str error, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_REDRIVE_END, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    assert(state == HW_DEAD_LETTER_DEAD || state == HW_DEAD_LETTER_REDRIVEN);
    if (s < 0)
        return s;
    hw_pg_param_hold(&call, hold);
    hw_pg_param_int8(&call, id);
    hw_pg_param_str(&call, hw_str_of(hw_dead_letter_state_name(state)));
    hw_pg_param_str(&call, error);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && !hw_pg_get_bool(result, 0, 0))
        s = hw_fail(reterr, HOWDAH_LOST,
                    "the subscription has another owner or was removed, or this is another log");
    else if (s >= 0 && !hw_pg_get_bool(result, 0, 1))
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no such open dead letter");
    PQclear(result);
    return s;
}

/* -------------------------------------------------------------------- skips */

/* I1: numbers that are given up without an event; what they were is recorded with the move. */
int hw_pg_skip(hw_store *store, const hw_checkpoint *checkpoint, hw_range range, int64_t age_ms,
               hw_str reason, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SKIP_PUT, .writes = true};
    int s = hw_pg_ready_to_move(pg, reterr);

    if (s >= 0)
        s = hw_pg_param_checkpoint(pg, &call, checkpoint, &pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_int8(&call, range.first);
    hw_pg_param_int8(&call, range.last);
    hw_pg_param_int8(&call, age_ms);
    hw_pg_param_str(&call, reason);
    return store_and_move(pg, &call, checkpoint, NULL, reterr);
}

static int hand_skip(const PGresult *r, int row, hw_skip_fn fn, void *ctx)
{
    howdah_skip skip = {
        .size = sizeof skip,
        .id = hw_pg_get_int8(r, row, 0),
        .subscriber_id = hw_pg_get_str(r, row, 1).s,
        .first = hw_pg_get_int8(r, row, 2),
        .last = hw_pg_get_int8(r, row, 3),
        .age_ms = hw_pg_get_int8(r, row, 4),
        .reason = hw_pg_text(r, row, 5),
        .created_at_us = hw_pg_get_time(r, row, 6),
        .resolved_at_us = hw_pg_get_time(r, row, 7),
        .resolution = hw_pg_text(r, row, 8),
    };

    return fn(ctx, &skip);
}

/* By id, a page at a time: skips can be many after an outage, and fn may stop early. */
int hw_pg_skips(hw_store *store, hw_str subscriber_id, bool resolved, hw_skip_fn fn, void *ctx,
                howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int64_t after = 0;
    bool stop = false;
    int s = hw_pg_ready(pg, reterr);

    while (s >= 0 && !stop) {
        hw_pg_call call = {.statement = HW_PG_SKIP_LIST};
        PGresult *result = NULL;

        hw_pg_param_str(&call, subscriber_id);
        hw_pg_param_bool(&call, resolved);
        hw_pg_param_int8(&call, after);
        hw_pg_param_int8(&call, PAGE);
        s = hw_pg_query(pg, &call, &result, reterr);
        if (s < 0)
            return s;
        for (int i = 0; i < PQntuples(result) && !stop; i++) {
            after = hw_pg_get_int8(result, i, 0);
            stop = hand_skip(result, i, fn, ctx) != 0;
        }
        stop = stop || PQntuples(result) < PAGE;
        PQclear(result);
    }
    return s;
}

int hw_pg_skip_resolve(hw_store *store, int64_t id, hw_str resolution, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SKIP_RESOLVE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_int8(&call, id);
    hw_pg_param_str(&call, resolution);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && PQntuples(result) == 0)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no such open skip");
    PQclear(result);
    return s;
}
