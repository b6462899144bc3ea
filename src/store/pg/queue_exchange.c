/*
 * queue_exchange.c - a worker's round trip on PostgreSQL: verdicts on the jobs it had, and a claim.
 *
 *   I1  An exchange is one statement, so one transaction and one round trip.  For one job after
 *       another it is exchange_one()'s; if that finds that the queue is not a plain one, the claim
 *       is a second statement, and for the next second the general way is taken at once.  So it is
 *       if there is nothing on the only level that exchange_one() looks at.
 *   I2  It waits for the disk only if a job may fail by it; on the caller's connection that is the
 *       caller's business.
 *   I3  A claim that comes back short asks what is to come; one that comes back with nothing looks
 *       once more, from the beginning of the queue, if a lease has run out or if it started above
 *       floors and may walk (queue_floors.c).
 *   I4  A claim is bounded in bytes, by claim_jobs().  The next one asks for about as many jobs as
 *       that gave, so that not too many are taken and put back.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "store/pg/pg.h"

#define CLAIM_BYTES ((size_t)4 * 1024 * 1024) /* the same number is in queue_claim.sql */

/* ----------------------------------------------------------------- exchange */

/* The columns of CLAIMED (sql_queue.c), after the outcomes of the verdicts. */
enum claimed_column {
    OUTCOMES,
    ID,
    TOKEN,
    ATTEMPTS,
    MAX_ATTEMPTS,
    PRIORITY,
    SUSPECT,
    DUE_AT,
    CREATED_AT,
    STARTED_AT,
    LEASE_UNTIL,
    PUSHED, /* hw_pg_get_pushed() */
    EVENT_TYPE = PUSHED + HW_PG_PUSHED_N,
    EVENT_STREAM,
    LEVEL,
    XID,
    HORIZON,
    BEGUN_AT
};

/*
 * The texts are the result's.  Queue and worker are what was asked with: they do not travel back.
 */
static void decode_claimed(const PGresult *r, int row, const hw_claim *claim, howdah_job *job)
{
    *job = (howdah_job){
        .id = hw_pg_get_int8(r, row, ID),
        .token = hw_pg_get_int8(r, row, TOKEN),
        .state = HOWDAH_JOB_PROCESSING,
        .queue = claim->queue,
        .worker = claim->worker,
        .attempts = hw_pg_get_int8(r, row, ATTEMPTS),
        .max_attempts = hw_pg_get_int8(r, row, MAX_ATTEMPTS),
        .priority = hw_pg_get_int4(r, row, PRIORITY),
        .suspect = hw_pg_get_bool(r, row, SUSPECT),
        .due_at_us = hw_pg_get_time(r, row, DUE_AT),
        .created_at_us = hw_pg_get_time(r, row, CREATED_AT),
        .started_at_us = hw_pg_get_time(r, row, STARTED_AT),
        .lease_until_us = hw_pg_get_time(r, row, LEASE_UNTIL),
        .finished_at_us = HW_TIME_ABSENT,
    };
    hw_pg_get_pushed(r, row, PUSHED, EVENT_TYPE, job);
}

/* The last claimed job of a level is the place that the claim has passed (queue_floors.c). */
static bool is_last_of_level(const PGresult *r, int row)
{
    return row + 1 == PQntuples(r) ||
           hw_pg_get_int4(r, row, LEVEL) != hw_pg_get_int4(r, row + 1, LEVEL);
}

/* The rows come by level, due time and id. */
static void pass(hw_pg *pg, hw_str queue, const PGresult *r)
{
    for (int row = 0; row < PQntuples(r); row++) {
        if (PQgetisnull(r, row, ID) || hw_pg_get_bool(r, row, SUSPECT) || !is_last_of_level(r, row))
            continue;
        hw_pg_floors_pass(pg, queue,
                          &(hw_pg_passed){.level = hw_pg_get_int4(r, row, LEVEL),
                                          .due_us = hw_pg_get_time(r, row, DUE_AT),
                                          .id = hw_pg_get_int8(r, row, ID),
                                          .xid = hw_pg_get_int8(r, row, XID),
                                          .horizon = hw_pg_get_int8(r, row, HORIZON),
                                          .begun_at_us = hw_pg_get_time(r, row, BEGUN_AT)});
    }
}

/* The levels that have a floor. */
static void put_levels(hw_pg_arrays *a, const hw_pg_floor *floors, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, floors[i].level);
}

/* A floor is a place in the index: level, due time and id, an array of each. */
static void put_floors(hw_pg_arrays *a, const hw_pg_floor *floors, size_t n)
{
    hw_pg_array array;

    put_levels(a, floors, n);
    hw_pg_arrays_begin(a, HW_OID_TIMESTAMPTZ, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, floors[i].due_us - HW_PG_EPOCH_US);
    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, floors[i].id);
}

/* Without notes and times the function has less to look at. */
typedef struct ack_shape {
    bool notes;
    bool afters;
    bool may_fail;
} ack_shape;

/* RETRY may fail, too: the job may have no attempt left. */
static ack_shape shape_of(const hw_ack *acks, size_t n)
{
    ack_shape shape = {0};

    for (size_t i = 0; i < n; i++) {
        shape.notes |= acks[i].text.s != NULL;
        shape.afters |=
            acks[i].verdict == HOWDAH_VERDICT_RETRY || acks[i].verdict == HOWDAH_VERDICT_EXTEND;
        shape.may_fail |=
            acks[i].verdict == HOWDAH_VERDICT_FAIL || acks[i].verdict == HOWDAH_VERDICT_RETRY;
    }
    return shape;
}

/* Ids, tokens and verdicts; texts and pauses only if there are any. */
static void put_acks(hw_pg_arrays *a, const hw_ack *acks, size_t n, ack_shape shape)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, acks[i].id);
    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, acks[i].token);
    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, (int32_t)acks[i].verdict);
    if (shape.notes) {
        hw_pg_arrays_begin(a, HW_OID_TEXT, n, &array);
        for (size_t i = 0; i < n; i++) {
            if (acks[i].text.s)
                hw_pg_array_put(a->out, acks[i].text.s, acks[i].text.len);
            else
                hw_pg_array_put_null(a->out, &array);
        }
    }
    if (shape.afters) {
        hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
        for (size_t i = 0; i < n; i++)
            hw_pg_array_put_int8(a->out, acks[i].after_ms);
    }
}

/* A slice of the arrays that were written, as the call's next parameters. */
static void param_slice(hw_pg_call *call, const hw_pg_arrays *a, int from, int n)
{
    assert(from >= 0 && from + n <= a->n);
    for (int i = from; i < from + n; i++) {
        size_t end = i + 1 < a->n ? a->start[i + 1] : a->out->len;

        hw_pg_param_bin(call, a->out->data + a->start[i], end - a->start[i]);
    }
}

/* A round trip on its way: what was asked, and how the claim looks for jobs. */
typedef struct exchange {
    hw_pg *pg;
    const hw_ack *acks;
    size_t n;
    const hw_claim *claim;
    bool tidy;
    bool look; /* for levels without a floor */
    bool walk; /* from the beginning, floors or not */
    size_t floors_n;
    int64_t asked; /* jobs */
} exchange;

/* ret_next: the first array that comes after those of the verdicts. */
static void param_acks(hw_pg_call *call, const hw_pg_arrays *a, ack_shape shape, int *ret_next)
{
    int next = 3;

    param_slice(call, a, 0, 3);
    if (shape.notes)
        param_slice(call, a, next++, 1);
    else
        hw_pg_param_null(call);
    if (shape.afters)
        param_slice(call, a, next++, 1);
    else
        hw_pg_param_null(call);
    *ret_next = next;
}

/*
 * One statement of three: verdicts and a claim, or only one of them (I1).  The parameters of each
 * are those of the function that it calls, in its order.
 */
static int send_exchange(exchange *t, PGresult **ret_result, howdah_error *reterr)
{
    hw_pg *pg = t->pg;
    ack_shape shape = shape_of(t->acks, t->n);
    bool hurry = !pg->caller_owned && !pg->in_handler && !shape.may_fail; /* I2 */
    hw_pg_call call = {.statement = !t->claim  ? HW_PG_JOB_ACK
                                    : t->n > 0 ? HW_PG_JOB_EXCHANGE
                                               : HW_PG_JOB_CLAIM,
                       .writes = true};
    hw_pg_arrays a = {.out = &pg->params};
    hw_pg_floor floors[HW_PG_FLOORS_MAX];
    int next = 0;
    int s;

    t->floors_n = t->claim && !t->walk ? hw_pg_floors_get(pg, t->claim->queue, floors) : 0;
    hw_buf_clear(a.out);
    if (t->n > 0)
        put_acks(&a, t->acks, t->n, shape);
    if (t->claim)
        put_floors(&a, floors, t->floors_n);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    if (t->n > 0) {
        param_acks(&call, &a, shape, &next);
        hw_pg_param_bool(&call, hurry);
    }
    if (t->claim) {
        hw_pg_param_str(&call, t->claim->queue);
        t->asked =
            pg->claim_rows > 0 && pg->claim_rows < t->claim->n ? pg->claim_rows : t->claim->n;
        hw_pg_param_int4(&call, (int32_t)t->asked);
        hw_pg_param_str(&call, t->claim->worker);
        hw_pg_param_int8(&call, t->claim->lease_ms);
        hw_pg_param_bool(&call, t->tidy);
        hw_pg_param_bool(&call, t->look);
        param_slice(&call, &a, next, 3);
        if (t->n == 0)
            hw_pg_param_bool(&call, hurry);
    }
    return hw_pg_exec(pg, &call, ret_result, reterr);
}

/* One digit for each verdict, in the order in which they were sent. */
static void take_outcomes(const PGresult *r, size_t n, howdah_ack_outcome *ret_acked)
{
    hw_str digits = PQntuples(r) > 0 ? hw_pg_get_str(r, 0, 0) : HW_STR_NULL;

    assert(digits.len == n);
    for (size_t i = 0; i < n && i < digits.len; i++)
        ret_acked[i] = digits.s[i] == '0'   ? HOWDAH_ACKED_LOST
                       : digits.s[i] == '1' ? HOWDAH_ACKED_DONE
                                            : HOWDAH_ACKED_FAILED;
}

/*
 * I4.  What is left of a claim was put back by claim_jobs() after so many bytes; it counts them by
 * what is stored, and large ones fourfold, because they may be compressed.
 */
static void judge_bytes(exchange *t, int64_t n, size_t bytes, hw_claim_report *report)
{
    bool cut = n < t->asked && bytes >= CLAIM_BYTES / 4;

    report->more |= cut || (n > 0 && n == t->asked);
    if (cut)
        t->pg->claim_rows = 2 * n;
    else if (n > 0)
        t->pg->claim_rows = bytes < CLAIM_BYTES / 4 ? 0 : t->pg->claim_rows;
}

/* fn may want no more of them; they are claimed all the same. */
static void hand_over(exchange *t, const PGresult *r, hw_job_fn fn, void *ctx,
                      hw_claim_report *report)
{
    int64_t before = report->n;
    size_t bytes = 0;
    bool wanted = true;

    assert(PQnfields(r) == BEGUN_AT + 1);
    for (int row = 0; row < PQntuples(r); row++) {
        howdah_job job;

        if (PQgetisnull(r, row, ID))
            continue; /* only outcomes */
        report->n++;
        /* A suspect comes alone, whatever else there is. */
        report->more |= hw_pg_get_bool(r, row, SUSPECT);
        if (!wanted)
            continue;
        decode_claimed(r, row, t->claim, &job);
        bytes += job.data.len;
        wanted = fn(ctx, &job) == 0;
    }
    judge_bytes(t, report->n - before, bytes, report);
}

/*
 * When it pays to ask again: the next job that is due, or the next lease that may run out.  Leases
 * are looked at only now and then (queue_floors.c); between two looks the last answer counts down.
 */
static int outlook(hw_pg *pg, hw_str queue, hw_claim_report *report, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_QUEUE_OUTLOOK};
    hw_pg_floor floors[HW_PG_FLOORS_MAX];
    hw_pg_arrays a = {.out = &pg->params};
    bool leases = hw_pg_floors_may_see_leases(pg, queue);
    int64_t before_us = hw_clock_mono_us();
    int64_t lease_ms = -1;
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, queue);
    hw_pg_param_bool(&call, leases);
    hw_buf_clear(a.out);
    put_levels(&a, floors, hw_pg_floors_get(pg, queue, floors));
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    param_slice(&call, &a, 0, 1);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && PQntuples(result) == 1) {
        report->queue_id = hw_pg_get_int4(result, 0, 3);
        report->paused = hw_pg_get_bool(result, 0, 0);
        report->next_due_ms = hw_pg_get_int8_or(result, 0, 1, -1);
        lease_ms = hw_pg_get_int8_or(result, 0, 2, -1);
        if (leases)
            hw_pg_floors_saw_leases(pg, queue, lease_ms, hw_clock_mono_us() - before_us);
        else
            lease_ms = hw_pg_floors_lease_ms(pg, queue);
        report->more |= !report->paused && lease_ms == 0;
        if (lease_ms >= 0 && (report->next_due_ms < 0 || lease_ms < report->next_due_ms))
            report->next_due_ms = lease_ms;
    }
    PQclear(result);
    return s;
}

/* Of use for later claims only: whether it could be done does not matter to this one. */
static void free_floors(hw_pg *pg, hw_str queue)
{
    hw_pg_call call = {.statement = HW_PG_PUSH_HORIZON};
    int64_t before_us = hw_clock_mono_us();
    PGresult *result = NULL;

    if (hw_pg_exec(pg, &call, &result, NULL) >= 0)
        hw_pg_floors_rise(pg, queue, hw_pg_get_int8(result, 0, 0), hw_clock_mono_us() - before_us);
    PQclear(result);
}

/*
 * The second look of I3: from the beginning of the queue, and leases that ran out are given back.
 */
static int claim_again(exchange *t, hw_job_fn fn, void *ctx, hw_claim_report *report,
                       howdah_error *reterr)
{
    hw_claim rest = *t->claim;
    exchange again = {.pg = t->pg, .claim = &rest, .walk = true, .tidy = true};
    int64_t before_us = hw_clock_mono_us();
    PGresult *result = NULL;
    int s;

    assert(report->n == 0); /* a claim that got something is not repeated */
    rest.n -= report->n;
    s = send_exchange(&again, &result, reterr);
    if (s >= 0) {
        hw_pg_floors_walked(t->pg, rest.queue, hw_clock_mono_us() - before_us);
        pass(t->pg, rest.queue, result);
        hand_over(&again, result, fn, ctx, report);
    }
    PQclear(result);
    return s;
}

/* I3 */
static int look_around(exchange *t, hw_job_fn fn, void *ctx, hw_claim_report *report,
                       howdah_error *reterr)
{
    hw_str queue = t->claim->queue;
    int s;

    if (report->n == t->claim->n || (report->n > 0 && report->more))
        return HOWDAH_OK;
    s = outlook(t->pg, queue, report, reterr);
    if (s < 0 || report->n > 0 || report->paused)
        return s;
    /* Leases that ran out, or a job that the floors hide. */
    if (report->more || (t->floors_n > 0 && hw_pg_floors_may_walk(t->pg, queue)))
        s = claim_again(t, fn, ctx, report, reterr);
    return s;
}

/* I1: only this one is two statements if the next job is not for exchange_one() to find. */
static int exchange_of_one(exchange *t, howdah_ack_outcome *ret_acked, hw_job_fn fn, void *ctx,
                           hw_claim_report *report, hw_pg_one *ret_done, howdah_error *reterr)
{
    hw_pg *pg = t->pg;
    hw_pg_floor floor;
    int s;

    *ret_done = HW_PG_ONE_NOTHING;
    if (t->n != 1 || !t->claim || t->claim->n != 1 || t->tidy || pg->caller_owned ||
        pg->in_handler || t->acks->verdict != HOWDAH_VERDICT_COMPLETE || t->acks->text.s ||
        !hw_pg_floors_one(pg, t->claim->queue, &floor))
        return HOWDAH_OK;
    t->floors_n = 1;
    s = hw_pg_exchange_one(pg, t->acks, t->claim, &floor, t->look, fn, ctx, report, ret_done,
                           reterr);
    if (s < 0 || *ret_done == HW_PG_ONE_NOTHING)
        return s;
    assert(report->n == (*ret_done == HW_PG_ONE_CLAIMED));
    *ret_acked = HOWDAH_ACKED_DONE;
    t->n = 0; /* what is still to do is a claim alone */
    if (*ret_done == HW_PG_ONE_ACKED)
        hw_pg_floors_are_not_for_one(pg, t->claim->queue);
    if (*ret_done == HW_PG_ONE_CLAIMED && t->look)
        hw_pg_floors_looked(pg, t->claim->queue);
    else if (*ret_done != HW_PG_ONE_CLAIMED)
        t->look = true;
    return s;
}

/* What this claim has done for the floors is noted, so that the next ones need not do it again. */
static int exchange_of_many(exchange *t, howdah_ack_outcome *ret_acked, hw_job_fn fn, void *ctx,
                            hw_claim_report *report, howdah_error *reterr)
{
    int64_t before_us = hw_clock_mono_us();
    PGresult *result = NULL;
    int s = send_exchange(t, &result, reterr);

    if (s < 0)
        return s;
    if (t->n > 0)
        take_outcomes(result, t->n, ret_acked);
    if (t->claim) {
        hw_str queue = t->claim->queue;

        if (t->tidy)
            hw_pg_floors_tidied(t->pg, queue, hw_clock_mono_us() - before_us);
        if (t->look)
            hw_pg_floors_looked(t->pg, queue);
        if (t->floors_n == 0)
            hw_pg_floors_walked(t->pg, queue, hw_clock_mono_us() - before_us);
        pass(t->pg, queue, result);
        hand_over(t, result, fn, ctx, report);
    }
    PQclear(result);
    return s;
}

/*
 * Once verdicts are stored, the call has succeeded: an error after that must not make the worker
 * repeat them.
 */
int hw_pg_exchange(hw_store *store, const hw_ack *acks, size_t n, howdah_ack_outcome *ret_acked,
                   const hw_claim *claim, hw_job_fn fn, void *ctx, hw_claim_report *ret_report,
                   howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    exchange t = {.pg = pg, .acks = acks, .n = n, .claim = claim};
    hw_claim_report report = {.next_due_ms = -1};
    hw_pg_one done = HW_PG_ONE_NOTHING;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0 || (n == 0 && !claim))
        return s;
    assert(!claim || (claim->n >= 1 && claim->n <= HOWDAH_JOBS_MAX));
    t.tidy = claim && hw_pg_floors_may_tidy(pg, claim->queue);
    t.look = claim && hw_pg_floors_may_look(pg, claim->queue);
    s = exchange_of_one(&t, ret_acked, fn, ctx, &report, &done, reterr);
    if (s >= 0 && done != HW_PG_ONE_CLAIMED)
        s = exchange_of_many(&t, ret_acked, fn, ctx, &report, t.n == n ? reterr : NULL);
    if (s < 0 && done == HW_PG_ONE_NOTHING)
        return s;
    if (!claim)
        return HOWDAH_OK;
    if (report.n > 0 && hw_pg_floors_are_stuck(pg, claim->queue))
        free_floors(pg, claim->queue);
    if (s >= 0)
        s = look_around(&t, fn, ctx, &report, n > 0 ? NULL : reterr);
    report.more |= report.n == claim->n;
    *ret_report = report;
    /* The verdicts are stored: the next exchange will say what is wrong with the store. */
    return n > 0 ? HOWDAH_OK : s;
}
