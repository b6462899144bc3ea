/*
 * hole_evidence.c - what the server knows about numbers that are missing, and about its own past.
 *
 * A transaction that draws a number holds RowExclusiveLock on the sequence until it ends, also when
 * the number was drawn under a savepoint (the lock belongs to the whole transaction) and through
 * PREPARE TRANSACTION.  The transaction's id is a lock, too: ExclusiveLock on "transactionid", of
 * the same virtualtransaction; subtransactions have further ones, all of them younger.
 *
 *   I1  Holders come from one scan of pg_locks.  That scan first walks the fast-path locks of each
 *       backend and then takes the main table as a whole, so a lock that is held all the time is
 *       seen.  A transaction that ends in between may show its lock without its id.  Its rows are
 *       visible before its locks are gone: one that had ended when the scan began is no holder,
 *       whatever it still holds.
 *   I2  A transaction that calls nextval() itself, and not by the column's default, may have no id
 *       yet.  It is known by its virtual transaction, as every transaction is until it is prepared.
 *   I3  An id is 64 bits wide, counted from the snapshot's next one, so that it means one
 *       transaction for as long as the cluster lives.
 *   I4  How many numbers were drawn is read by a statement before the look at the locks.
 *   I5  Behind a pooler each statement may meet another server, a standby for instance, where
 *       nobody holds anything: evidence comes with the name of the log, from the same transaction.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log_hook.h"
#include "base/mem.h"
#include "store/pg/pg.h"

#define WALK_ROWS 50000 /* that one statement walks over */

int hw_pg_query_int8(hw_pg *pg, hw_pg_statement statement, int64_t *ret_value, howdah_error *reterr)
{
    hw_pg_call call = {.statement = (int)statement};
    PGresult *result = NULL;
    int s = hw_pg_query(pg, &call, &result, reterr);

    if (s >= 0)
        *ret_value = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s;
}

/* ------------------------------------------------------------------ the log */

/*
 * What was learnt belongs to another log.  A new session number tells the bus to load its state
 * again, though the connection is the same.
 */
static void forget_log(hw_pg *pg)
{
    pg->session++;
    pg->final_us = 0;
    hw_pg_know_nothing(pg);
    hw_pg_floors_forget(pg);
}

/*
 * Fewer numbers drawn than before is another log as well: the same cluster, put back to an
 * earlier time.  A name that ends with "?" is a standby's (sql.c), and a standby can be
 * promoted under us.
 */
void hw_pg_meet(hw_pg *pg, hw_str log, int64_t drawn)
{
    bool is_first = !pg->log[0];

    if (!is_first && (!hw_str_equal(log, hw_str_of(pg->log)) || drawn < pg->drawn)) {
        hw_log(HOWDAH_LOG_WARN,
               "this is another log: %.*s with %lld numbers drawn, before %s with %lld",
               (int)log.len, log.s, (long long)drawn, pg->log, (long long)pg->drawn);
        forget_log(pg);
    }
    (void)snprintf(pg->log, sizeof pg->log, "%.*s", (int)log.len, log.s);
    pg->drawn = drawn;
    pg->recovery = log.len > 0 && log.s[log.len - 1] == '?'; /* promoted, or led elsewhere, since */
}

static void meet_answer(hw_pg *pg, const PGresult *here)
{
    hw_pg_meet(pg, hw_pg_get_str(here, 0, 0), hw_pg_get_int8(here, 0, 1));
}

/*
 * What there is at a number (absent: nothing), how many numbers were drawn, and which log this
 * is: one statement, so that all three are of one server.
 */
static int ask_here(hw_pg *pg, int64_t sequence, bool *ret_there, hw_uuid *ret_id,
                    int64_t *ret_drawn, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_HERE};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    if (!pg->direct_state)
        call.statement = HW_PG_FN_HERE;
    hw_pg_param_int8(&call, sequence);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    *ret_drawn = hw_pg_get_int8(result, 0, 1);
    *ret_there = hw_pg_get_uuid(result, 0, 2, ret_id);
    meet_answer(pg, result);
    PQclear(result);
    return HOWDAH_OK;
}

/* The two statements of ask_both(). */
typedef struct log_call {
    const hw_pg_call *call;
    int here;
} log_call;

static int make_log_call(void *ctx, size_t i, hw_pg_call *call)
{
    const log_call *c = ctx;

    assert(i < 2);
    if (i == 0) {
        *call = *c->call;
    } else {
        call->statement = c->here;
        hw_pg_param_int8(call, 0);
    }
    return HOWDAH_OK;
}

/*
 * I5: in one pipeline the two statements are one transaction, and a pooler gives a transaction
 * to one server.
 */
static int ask_both(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    log_call c = {call, pg->direct_state ? HW_PG_HERE : HW_PG_FN_HERE};
    PGresult *results[2] = {NULL, NULL};
    int s = hw_pg_pipeline(pg, make_log_call, &c, 2, results, reterr);

    if (s >= 0)
        meet_answer(pg, results[1]);
    PQclear(results[1]);
    if (s < 0)
        PQclear(results[0]);
    else
        *ret_result = results[0];
    return s;
}

/*
 * A session of our own is one server's until it ends, and needs no second question.  After a
 * reconnect it may be a session of either kind.
 */
int hw_pg_query_log(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (!pg->pooled || pg->caller_owned || !pg->conn)
        return hw_pg_query(pg, call, ret_result, reterr);
    s = ask_both(pg, call, ret_result, &err);
    if (s == HOWDAH_UNAVAILABLE && !pg->conn) {
        s = hw_pg_ready(pg, &err);
        if (s >= 0)
            s = pg->pooled ? ask_both(pg, call, ret_result, &err)
                           : hw_pg_exec(pg, call, ret_result, &err);
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* ------------------------------------------------------------------ holders */

/*
 * "3/4711" of a backend becomes one number, never 0.  A prepared transaction has kept its own,
 * or has "-1/815" instead: that is 0, and its xid identifies it.
 */
static uint64_t virtual_id(const char *text)
{
    char *end = NULL;
    long backend = strtol(text, &end, 10);
    unsigned long local = *end == '/' ? strtoul(end + 1, NULL, 10) : 0;

    return backend < 0 ? 0 : ((uint64_t)backend << 32) + local + 1;
}

/* An id that is not there yet (I2), or an idle time that we may not see, is 0. */
static uint64_t number_or_0(const PGresult *result, int row, int column)
{
    return PQgetisnull(result, row, column) ? 0 : (uint64_t)hw_pg_get_int8(result, row, column);
}

/*
 * The array becomes the caller's.  One element more: none is an answer, too, and must not be
 * NULL.
 */
static int take_holders(const PGresult *result, hw_holder **ret_holders, size_t *ret_n,
                        howdah_error *reterr)
{
    size_t n = (size_t)PQntuples(result);
    hw_holder *holders = hw_calloc(n + 1, sizeof *holders);

    if (!holders)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < n; i++)
        holders[i] = (hw_holder){.virtual_id = virtual_id(PQgetvalue(result, (int)i, 0)),
                                 .xid = number_or_0(result, (int)i, 1),
                                 .idle = number_or_0(result, (int)i, 2)};
    *ret_holders = holders;
    *ret_n = n;
    return HOWDAH_OK;
}

/*
 * I4: the numbers first, then the locks.  If the log changed in between, the two do not belong
 * together, and nothing is proven by them.
 */
int hw_pg_holders(hw_store *store, int64_t *ret_drawn, hw_holder **ret_holders, size_t *ret_n,
                  howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_HOLDERS};
    PGresult *result = NULL;
    uint64_t session;
    hw_uuid id;
    bool there = false;
    int s = ask_here(pg, 0, &there, &id, ret_drawn, reterr); /* I4 */

    if (s < 0)
        return s;
    if (pg->recovery)
        return HOWDAH_END; /* the holders are on another server */
    session = pg->session;
    s = hw_pg_query_log(pg, &call, &result, reterr);
    if (s >= 0 && pg->session != session)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "the connection leads to another log now");
    if (s >= 0)
        s = take_holders(result, ret_holders, ret_n, reterr);
    PQclear(result);
    return s;
}

int hw_pg_blockers(hw_store *store, hw_blocker_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_BLOCKERS};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_query(pg, &call, &result, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(result); i++) {
        hw_blocker blocker = {.name = hw_pg_get_str(result, i, 0),
                              .age_ms = hw_pg_get_int8(result, i, 1),
                              .query = hw_pg_get_str(result, i, 2)};

        if (fn(ctx, &blocker) != 0)
            break;
    }
    PQclear(result);
    return s;
}

/* --------------------------------------------------------------------- gaps */

/*
 * Walks over one page of rows.  *ret_behind: the number after the last one, or first when there was
 * none.  The server's array is checked on the way: a gap that is reported wrongly is taken for dead
 * later.
 */
static int walk_gaps(hw_pg *pg, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                     int64_t *ret_behind, bool *ret_stop, howdah_error *reterr)
{
    hw_pg_call call = {.statement = pg->direct_state ? HW_PG_STORED : HW_PG_FN_STORED};
    PGresult *result = NULL;
    const char *stored = NULL;
    int64_t behind = first;
    size_t n = 0;
    bool sound;
    int s;

    assert(first <= last && !*ret_stop);
    hw_pg_param_int8(&call, first);
    hw_pg_param_int8(&call, last);
    hw_pg_param_int8(&call, WALK_ROWS);
    s = hw_pg_query_log(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    sound = hw_pg_get_int8s(result, 0, 0, &stored, &n);
    for (size_t i = 0; sound && i < n && !*ret_stop; i++) {
        int64_t sequence = hw_pg_int8_at(stored, i);

        sound = sequence >= behind && sequence <= last;
        if (sound && sequence > behind)
            *ret_stop = fn(ctx, (hw_range){behind, sequence - 1}) != 0;
        behind = sequence + 1;
    }
    PQclear(result);
    *ret_behind = behind;
    return sound ? HOWDAH_OK
                 : hw_fail(reterr, HOWDAH_CORRUPT, "the numbers of the log do not come in order");
}

/* A page without rows ends the walk: all that is left is one gap. */
int hw_pg_gaps(hw_store *store, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
               howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    bool stop = false;
    int s = hw_pg_ready(pg, reterr);

    while (s >= 0 && !stop && first <= last) {
        int64_t behind = first;

        s = walk_gaps(pg, first, last, fn, ctx, &behind, &stop, reterr);
        if (s >= 0 && !stop && behind == first) {
            (void)fn(ctx, (hw_range){first, last});
            break;
        }
        first = behind;
    }
    return s;
}

/* ---------------------------------------------------------------- its past */

int hw_pg_timeline(hw_store *store, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_uuid id;
    int64_t drawn = 0;
    bool there = false;
    int s = ask_here(pg, 0, &there, &id, &drawn, reterr);

    if (s >= 0)
        memcpy(ret_text, pg->log, sizeof pg->log);
    return s;
}

/*
 * A session of our own is one server's until it ends, so only a pooled one is asked.
 * forget_log() makes it a new session: that is how the caller learns it.
 */
int hw_pg_confirm(hw_store *store, const hw_anchor *top, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_uuid id;
    int64_t drawn = 0;
    bool there = false;
    int s;

    if (!pg->pooled)
        return HOWDAH_OK;
    s = ask_here(pg, top->sequence, &there, &id, &drawn, reterr);
    if (s >= 0 && top->sequence > 0 && (!there || !hw_uuid_equal(&id, &top->id))) {
        hw_log(HOWDAH_LOG_WARN, "this is another log: event %lld is %s", (long long)top->sequence,
               there ? "not the one that was there" : "gone");
        forget_log(pg);
    }
    return s;
}

/*
 * Read-only and advisory: what is stored later compares the anchor again, in the statement
 * itself (sql_subscriptions.c I4).
 */
int hw_pg_verify(hw_store *store, const hw_anchor *anchor, int64_t high, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_uuid id;
    int64_t drawn = 0;
    bool there = false;
    int s = ask_here(pg, anchor->sequence, &there, &id, &drawn, reterr);

    if (s < 0)
        return s;
    if (high > drawn && high > anchor->sequence) /* a row can have a number that was not drawn */
        return hw_fail(reterr, HOWDAH_NOT_FOUND,
                       "the checkpoint is ahead of the log: it is at %" PRId64
                       ", the log has given out %" PRId64,
                       high, drawn);
    if (anchor->sequence > 0 && !there)
        return hw_fail(reterr, HOWDAH_NOT_FOUND,
                       "the anchor's event is gone: there is none at %" PRId64, anchor->sequence);
    if (anchor->sequence > 0 && !hw_uuid_equal(&id, &anchor->id))
        return hw_fail(reterr, HOWDAH_NOT_FOUND,
                       "another event is at the anchor's position %" PRId64, anchor->sequence);
    return HOWDAH_OK;
}

/* ------------------------------------------------------------- what is proven */

/*
 * The holes are checked like everything that is read (subscriptions.c I4); ret_holes takes them
 * over.
 */
int hw_pg_proven(hw_store *store, int64_t *ret_upto, hw_ranges *ret_holes, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_PROVEN};
    PGresult *result = NULL;
    hw_range *holes = NULL;
    size_t n = 0;
    int s = hw_pg_ready(pg, reterr);

    if (!pg->direct_state)
        call.statement = HW_PG_FN_PROVEN;
    if (s >= 0)
        s = hw_pg_query_log(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    *ret_upto = 0;
    hw_ranges_clear(ret_holes);
    if (PQntuples(result) > 0) {
        *ret_upto = hw_pg_get_int8(result, 0, 0);
        s = hw_pg_get_ranges(result, 0, 1, INT64_MAX, &holes, &n, reterr);
    }
    PQclear(result);
    if (s >= 0) {
        hw_ranges_done(ret_holes);
        *ret_holes = (hw_ranges){holes, n, n};
    }
    return s;
}

/*
 * A reader that may not write, or reads a standby, proves for itself alone: that is no error.
 * The statement compares log and top, so nothing proven elsewhere is stored here.
 */
int hw_pg_store_proven(hw_store *store, hw_str log, const hw_anchor *top, int64_t upto,
                       const hw_ranges *holes, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_STORE_PROVEN, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0 || pg->read_only || pg->recovery)
        return s;
    hw_buf_clear(&pg->params);
    if (holes)
        hw_pg_put_outstanding(&pg->params, holes->items, holes->n);
    s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_int8(&call, upto);
    if (holes)
        hw_pg_param_bin(&call, pg->params.data, pg->params.len);
    else
        hw_pg_param_null(&call);
    hw_pg_param_str(&call, log);
    hw_pg_param_int8(&call, top->sequence);
    hw_pg_param_uuid(&call, top->sequence > 0, &top->id);
    s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    return s;
}
