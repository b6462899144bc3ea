/*
 * checkpoint.c - moving subscriptions on PostgreSQL.
 *
 *   I1  A checkpoint names its token; with another one nothing is moved.  Under the same token high
 *       never goes back: an earlier checkpoint that comes late says nothing new and is not stored;
 *       a dead letter or a skip that comes with such a checkpoint is refused.
 *   I2  Any number of subscriptions are moved by one statement, and a lost one does not keep the
 *       others back.
 *   I3  Its commit does not wait for the disk: the log of the server is one prefix, so a checkpoint
 *       that survived a crash had its events survive, too.
 *   I4  The log that it was learnt from, and the event that it stands on, are compared by the
 *       statement that stores it (sql_subscriptions.c, I4).
 */
#include <assert.h>
#include <string.h>

#include "store/pg/pg.h"

static const char *const status_names[] = {
    [HW_SUB_ACTIVE] = "active", [HW_SUB_PAUSED] = "paused", [HW_SUB_HALTED] = "halted"};

/* A status that this version does not know counts as halted: it must not run. */
hw_sub_status hw_pg_sub_status_of(hw_str name)
{
    for (int i = HW_SUB_ACTIVE; i < HW_SUB_HALTED; i++)
        if (hw_str_equal(name, hw_str_of(status_names[i])))
            return (hw_sub_status)i;
    return HW_SUB_HALTED;
}

hw_str hw_pg_sub_status_name(hw_sub_status status)
{
    assert(status <= HW_SUB_HALTED);
    return hw_str_of(status_names[status]);
}

/* First and last of each range, one after the other, in one array. */
void hw_pg_put_outstanding(hw_buf *out, const hw_range *outstanding, size_t n)
{
    hw_pg_array array;

    hw_pg_array_begin(out, HW_OID_INT8, 2 * n, &array);
    for (size_t i = 0; i < n; i++) {
        hw_pg_array_put_int8(out, outstanding[i].first);
        hw_pg_array_put_int8(out, outstanding[i].last);
    }
}

/*
 * A place is stored together with the name of its log (I4), which a new session has to ask for.
 */
int hw_pg_ready_to_move(hw_pg *pg, howdah_error *reterr)
{
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0 && !pg->log[0]) {
        char text[HW_TIMELINE_SIZE];

        s = hw_pg_timeline(&pg->base, text, reterr);
    }
    return s;
}

/* "": the caller does not say which log, and it is not compared. */
void hw_pg_param_hold(hw_pg_call *call, const hw_hold *hold)
{
    assert(call->n == 0);
    hw_pg_param_str(call, hold->subscriber_id);
    hw_pg_param_int8(call, hold->token);
    hw_pg_param_str(call, hold->log.s ? hold->log : HW_STR_LIT(""));
}

/* A caller that does not say which log it is about means that of the session. */
static hw_str log_of(const hw_pg *pg, const hw_checkpoint *checkpoint)
{
    return checkpoint->log.s ? checkpoint->log : hw_str_of(pg->log);
}

/*
 * Both arrays lie in out, one after the other; their addresses are taken when the buffer no
 * longer moves.
 */
int hw_pg_param_checkpoint(hw_pg *pg, hw_pg_call *call, const hw_checkpoint *checkpoint,
                           hw_buf *out, howdah_error *reterr)
{
    size_t still_at; /* where the second array starts */
    int s;

    assert(call->n == 0);
    hw_buf_clear(out);
    hw_pg_put_outstanding(out, checkpoint->outstanding, checkpoint->outstanding_n);
    still_at = out->len;
    if (!checkpoint->keeps_still)
        hw_pg_put_outstanding(out, checkpoint->still, checkpoint->still_n);
    s = hw_buf_check(out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_str(call, checkpoint->subscriber_id);
    hw_pg_param_int8(call, checkpoint->token);
    hw_pg_param_int8(call, checkpoint->high);
    hw_pg_param_bin(call, out->data, still_at);
    hw_pg_param_int8(call, checkpoint->anchor.sequence);
    hw_pg_param_uuid(call, checkpoint->anchor.sequence > 0, &checkpoint->anchor.id);
    hw_pg_param_str(call, log_of(pg, checkpoint));
    if (checkpoint->keeps_still)
        hw_pg_param_null(call);
    else
        hw_pg_param_bin(call, out->data + still_at, out->len - still_at);
    hw_pg_param_int8(call, checkpoint->follows);
    return HOWDAH_OK;
}

/*
 * The statement that refused says only that it did.  The row may have changed since: the answer
 * explains, and nothing is decided by it.
 */
int hw_pg_why_not_moved(hw_pg *pg, const hw_checkpoint *checkpoint, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SUB_STATE};
    PGresult *result = NULL;
    hw_str log = log_of(pg, checkpoint);
    int s;

    hw_pg_param_str(&call, checkpoint->subscriber_id);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    if (PQntuples(result) != 1 || hw_pg_get_int8(result, 0, 0) != checkpoint->token)
        s = hw_fail(reterr, HOWDAH_LOST, "the subscription has another owner, or was removed");
    else if (!hw_str_equal(hw_pg_get_str(result, 0, 2), log))
        s = hw_fail(reterr, HOWDAH_LOST, "this is another log: %s now, %.*s before",
                    PQgetvalue(result, 0, 2), (int)log.len, log.s);
    else if (hw_pg_get_int8(result, 0, 1) > checkpoint->high &&
             hw_str_equal(hw_pg_get_str(result, 0, 3), log))
        s = hw_fail(reterr, HOWDAH_MISUSE,
                    "a checkpoint at %lld is lower than the stored one at %lld",
                    (long long)checkpoint->high, (long long)hw_pg_get_int8(result, 0, 1));
    else
        s = hw_fail(
            reterr, HOWDAH_LOST,
            "event %lld, the checkpoint's anchor, is not in the log, or the stored checkpoint is "
            "not the one that this one follows",
            (long long)checkpoint->anchor.sequence);
    PQclear(result);
    return s;
}

/* What a checkpoint and a poll have in common: whom they are about. */
static void put_names_and_tokens(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_TEXT, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put(a->out, c[i].subscriber_id.s, c[i].subscriber_id.len);
    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].token);
}

/* log: what counts for those that do not say. */
static void put_logs(hw_pg_arrays *a, const hw_checkpoint *c, size_t n, hw_str log)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_TEXT, n, &array);
    for (size_t i = 0; i < n; i++) {
        hw_str text = c[i].log.s ? c[i].log : log;

        hw_pg_array_put(a->out, text.s, text.len);
    }
}

/* An anchor at 0 has no id: the subscription has seen no event yet. */
static void put_positions(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].high);
    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].anchor.sequence);
    hw_pg_arrays_begin(a, HW_OID_UUID, n, &array);
    for (size_t i = 0; i < n; i++) {
        if (c[i].anchor.sequence > 0)
            hw_pg_array_put(a->out, c[i].anchor.id.b, sizeof c[i].anchor.id.b);
        else
            hw_pg_array_put_null(a->out, &array);
    }
}

static void put_ranges(hw_pg_arrays *a, const hw_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hw_pg_array_put_int8(a->out, ranges[i].first);
        hw_pg_array_put_int8(a->out, ranges[i].last);
    }
}

/*
 * An array of arrays would have to be rectangular.  So all that is outstanding is one array,
 * and two more say which of its elements (from 1) are whose.
 */
static void put_all_outstanding(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;
    size_t all = 0;

    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; all += 2 * c[i].outstanding_n, i++)
        hw_pg_array_put_int4(a->out, (int32_t)(all + 1));
    all = 0;
    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, (int32_t)(all += 2 * c[i].outstanding_n));
    hw_pg_arrays_begin(a, HW_OID_INT8, all, &array);
    for (size_t i = 0; i < n; i++)
        put_ranges(a, c[i].outstanding, c[i].outstanding_n);
}

/* How many array elements: two for each range. */
static size_t still_of(const hw_checkpoint *c)
{
    return c->keeps_still ? 0 : 2 * c->still_n;
}

/* The same for what stands still; NULL for those who leave it as it is stored. */
static void put_all_still(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;
    size_t all = 0;

    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; all += still_of(&c[i]), i++) {
        if (c[i].keeps_still)
            hw_pg_array_put_null(a->out, &array);
        else
            hw_pg_array_put_int4(a->out, (int32_t)(all + 1));
    }
    all = 0;
    hw_pg_arrays_begin(a, HW_OID_INT4, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int4(a->out, (int32_t)(all += still_of(&c[i])));
    hw_pg_arrays_begin(a, HW_OID_INT8, all, &array);
    for (size_t i = 0; i < n; i++) {
        if (!c[i].keeps_still)
            put_ranges(a, c[i].still, c[i].still_n);
    }
}

static void put_follows(hw_pg_arrays *a, const hw_checkpoint *c, size_t n)
{
    hw_pg_array array;

    hw_pg_arrays_begin(a, HW_OID_INT8, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put_int8(a->out, c[i].follows);
}

enum { NUMBER, STATUS, REDRIVES, LOG, DRAWN, HIGH }; /* the columns of a poll */

/*
 * One row for each that is not lost: its number (from 1), status, redrives.  A row without a number
 * says only which log it is.  refused: checkpoints that were not stored.  Of these, one whose high
 * is not below that of its row was refused for its log, its anchor, or the place it follows, and is
 * lost; so is one that names the place it follows.
 */
static void take_news(const PGresult *result, size_t n, const hw_checkpoint *refused,
                      hw_sub_news *news)
{
    for (size_t i = 0; i < n; i++)
        news[i] = (hw_sub_news){.lost = true};
    for (int row = 0; row < PQntuples(result); row++) {
        int64_t i;

        if (PQgetisnull(result, row, NUMBER))
            continue;
        i = hw_pg_get_int8(result, row, NUMBER) - 1;
        assert(i >= 0 && (size_t)i < n);
        if (refused &&
            (refused[i].follows > 0 || refused[i].high >= hw_pg_get_int8(result, row, HIGH)))
            continue;
        news[i] = (hw_sub_news){.status = hw_pg_sub_status_of(hw_pg_get_str(result, row, STATUS)),
                                .redrives = hw_pg_get_bool(result, row, REDRIVES)};
    }
}

/*
 * Asks for all, or for those that a checkpoint did not move.  Subscriptions without a log of
 * their own accept any: an empty text in the statement.
 */
static int poll_subs(hw_pg *pg, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                     const hw_checkpoint *refused, hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_pg_call call = {.statement = lease_ms > 0 ? HW_PG_SUB_RENEW : HW_PG_SUB_POLL};
    hw_pg_arrays a = {.out = &pg->params};
    PGresult *result = NULL;
    int s;

    assert(n > 0);
    hw_buf_clear(a.out);
    put_names_and_tokens(&a, subs, n);
    put_logs(&a, subs, n, HW_STR_LIT(""));
    assert(a.n == 3);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_arrays(&call, &a);
    if (lease_ms > 0)
        hw_pg_param_int8(&call, lease_ms);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0) {
        take_news(result, n, refused, ret_news);
        hw_pg_meet(pg, hw_pg_get_str(result, 0, LOG), hw_pg_get_int8(result, 0, DRAWN));
    }
    PQclear(result);
    return s;
}

/* With a lease it is renewed by the same statement. */
int hw_pg_poll(hw_store *store, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
               hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int s = hw_pg_ready(pg, reterr);

    return s < 0 || n == 0 ? s : poll_subs(pg, subs, n, lease_ms, NULL, ret_news, reterr);
}

/*
 * I1: a checkpoint that was not moved, and is not lost, comes late: it says nothing new.  One
 * question each, because this is rare; those that were moved keep what they have heard (I2).
 */
static int ask_refused(hw_pg *pg, const hw_checkpoint *checkpoints, size_t n, int64_t lease_ms,
                       hw_sub_news *ret_news, howdah_error *reterr)
{
    for (size_t i = 0; i < n; i++) {
        int s = ret_news[i].lost ? poll_subs(pg, &checkpoints[i], 1, lease_ms, &checkpoints[i],
                                             &ret_news[i], reterr)
                                 : HOWDAH_OK;

        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/*
 * The order of the arrays is that of checkpoint_types (sql_subscriptions.c).  The statement
 * answers only for those that it moved: take_news() calls the others lost until ask_refused()
 * has looked.
 */
int hw_pg_checkpoint(hw_store *store, const hw_checkpoint *checkpoints, size_t n, int64_t lease_ms,
                     hw_sub_news *ret_news, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SUB_CHECKPOINT, .writes = true};
    hw_pg_arrays a = {.out = &pg->params};
    PGresult *result = NULL;
    /* Pages under way are this session's, and the checkpoint can go behind them. */
    int s = pg->in_flight && pg->log[0] ? HOWDAH_OK : hw_pg_ready_to_move(pg, reterr);

    if (s < 0 || n == 0)
        return s;
    hw_buf_clear(a.out);
    put_names_and_tokens(&a, checkpoints, n);
    put_positions(&a, checkpoints, n);
    put_all_outstanding(&a, checkpoints, n);
    put_logs(&a, checkpoints, n, hw_str_of(pg->log));
    put_all_still(&a, checkpoints, n);
    put_follows(&a, checkpoints, n);
    s = hw_buf_check(a.out, reterr);
    if (s < 0)
        return s;
    hw_pg_param_arrays(&call, &a);
    hw_pg_param_int8(&call, lease_ms);
    s = hw_pg_exec_behind(pg, &call, &result, reterr);
    if (s >= 0)
        take_news(result, n, NULL, ret_news);
    PQclear(result);
    return s < 0 ? s : ask_refused(pg, checkpoints, n, lease_ms, ret_news, reterr);
}
