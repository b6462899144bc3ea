/*
 * group_ack.c - what members say of their batches: ack, nack, extend, release; see group.h.
 *
 *   I1  Everything here names a token.  One that is not stored changes nothing, and is LOST.
 *   I2  So is a batch of which more is acked than this file knows: it was replaced by an older one.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/fault.h"
#include "store/sqlite/group.h"

#define BY_RETRY "k.retry = ?2"

/* A lot or a retry whose batch is named; HOWDAH_OK, or LOST. */
static int find_lot(hw_sqlite_group *g, const hw_sqlite_token *t, hw_lot *ret_lot,
                    howdah_error *reterr)
{
    int s = hw_sqlite_load_lot(g, "lot = ?2", t->number, ret_lot, reterr);

    if (s < 0)
        return s;
    if (s == HOWDAH_OK && ret_lot->token == t->fence &&
        (t->acked == 0 || ret_lot->taken == 0 || ret_lot->events[ret_lot->pos] > t->acked))
        return HOWDAH_OK;
    return hw_sqlite_fail_stale(g, reterr);
}

static int find_retry(hw_sqlite_group *g, const hw_sqlite_token *t, hw_sqlite_retry *ret_retry,
                      howdah_error *reterr)
{
    const hw_sqlite_value number = {.number = t->number};
    int s = hw_sqlite_load_retry(g, BY_RETRY, &number, ret_retry, reterr);

    if (s < 0)
        return s;
    return s == HOWDAH_OK && ret_retry->token == t->fence && ret_retry->sequence > t->acked
               ? HOWDAH_OK
               : hw_sqlite_fail_stale(g, reterr);
}

/* ----------------------------------------------------------------------- ack */

int hw_sqlite_lot_ack(hw_sqlite_group *g, hw_lot *lot, int64_t upto, howdah_error *reterr)
{
    hw_lot_ack(lot, &g->rules, upto);
    if (hw_lot_is_over(lot))
        return hw_sqlite_delete_lot(g, lot->number, reterr);
    return hw_sqlite_store_lot(g, lot, HW_STR_NULL, false, reterr);
}

/* A person asked for this try of a dead letter, and it succeeded. */
static int end_redrive(hw_sqlite_group *g, const hw_sqlite_retry *r, howdah_error *reterr)
{
    const int64_t numbers[] = {r->dead_letter, hw_clock_wall_us(), r->retry};

    if (r->dead_letter == 0)
        return HOWDAH_OK;
    return hw_sqlite_once(g->store,
                          "UPDATE main.howdah_dead_letters SET state = 'redriven',"
                          " redrives = redrives + 1, retry_count = retry_count + 1,"
                          " last_retry_at = ?2, resolved_at = ?2, resolved_by = (SELECT k.member"
                          " FROM main.howdah_group_retries k WHERE k.retry = ?3)"
                          " WHERE id = ?1 AND state = 'redrive'",
                          numbers, 3, reterr);
}

static int retry_ack(hw_sqlite_group *g, hw_sqlite_retry *r, int64_t upto, howdah_error *reterr)
{
    hw_sqlite_next next = {.sequence = 0};
    int s;

    if (upto < r->sequence)
        return HOWDAH_OK;
    s = end_redrive(g, r, reterr);
    if (s >= 0 && upto < r->last)
        s = hw_sqlite_next_of_stream(g, r->stream, upto, r->last, &next, reterr);
    if (s < 0)
        return s;
    if (next.sequence == 0)
        return hw_sqlite_retry_on(g, r, r->last, reterr);
    r->sequence = next.sequence;
    r->dead_letter = 0;
    return hw_sqlite_store_retry(g, r, HW_STR_NULL, HW_STR_NULL, reterr);
}

int hw_sqlite_token_ack(hw_sqlite_group *g, hw_str token, int64_t acked, int64_t upto,
                        howdah_error *reterr)
{
    hw_sqlite_token t = {.retry = false};
    int s = hw_sqlite_token_of(token, &t, reterr);

    if (s < 0)
        return s;
    t.acked = acked;
    if (t.retry) {
        hw_sqlite_retry r;

        s = find_retry(g, &t, &r, reterr);
        if (s >= 0)
            s = retry_ack(g, &r, upto, reterr);
        hw_sqlite_retry_done(&r);
    } else {
        hw_lot lot;

        s = find_lot(g, &t, &lot, reterr);
        if (s >= 0)
            s = hw_sqlite_lot_ack(g, &lot, upto, reterr);
        hw_sqlite_lot_done(&lot);
    }
    return s;
}

int hw_sqlite_group_ack(hw_store *base, const hw_batch_ref *batch, int64_t upto,
                        howdah_error *reterr)
{
    hw_sqlite_group g;
    int s = hw_sqlite_group_enter(&g, (hw_sqlite *)base, batch->subscriber_id, false, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_token_ack(&g, batch->token, batch->acked, upto, reterr);
    HW_FAULT_POINT("sqlite.group_before_commit");
    return hw_sqlite_group_leave(&g, s, reterr);
}

/* Inside the handler's transaction, which is open. */
int hw_sqlite_group_commit(hw_store *base, const hw_batch_ref *batch, int64_t upto,
                           howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_group g;
    int s = hw_sqlite_tx_check(store, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_group_load(&g, store, batch->subscriber_id, reterr);
    if (s >= 0)
        s = hw_sqlite_token_ack(&g, batch->token, batch->acked, upto, reterr);
    hw_sqlite_group_done(&g);
    return hw_sqlite_leave(store, s, reterr);
}

/* ---------------------------------------------------------------------- nack */

static int not_in_batch(int64_t sequence, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_INVALID, "global_sequence",
                         "event %lld is not in the batch", (long long)sequence);
}

int hw_sqlite_redrive_failed(hw_sqlite_group *g, hw_sqlite_retry *r, hw_str error,
                             hw_group_fate *ret_fate, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(g->store,
                              "UPDATE main.howdah_dead_letters SET state = 'dead',"
                              " redrives = redrives + 1, retry_count = ?4,"
                              " error_message = coalesce(?2, ''), last_retry_at = ?3"
                              " WHERE id = ?1 AND state = 'redrive'",
                              &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, r->dead_letter);
    hw_sqlite_bind_str(stmt, 2, error);
    (void)sqlite3_bind_int64(stmt, 3, hw_clock_wall_us());
    (void)sqlite3_bind_int64(stmt, 4, r->attempts);
    s = hw_sqlite_finish(g->store, stmt, "store a dead letter", reterr);
    *ret_fate = r->stream.s ? HW_FATE_HELD : HW_FATE_DEAD;
    if (s < 0 || !r->stream.s)
        return s < 0 ? s : hw_sqlite_delete_retry(g, r->retry, reterr);
    r->due_us = HW_NEVER_US;
    r->until_us = r->taken = r->token = 0;
    return hw_sqlite_store_retry(g, r, HW_STR_NULL, error, reterr);
}

/* Those before it in the batch are done. */
static int nack_retry(hw_sqlite_group *g, const hw_sqlite_token *t, hw_sqlite_failure *f,
                      hw_group_fate *ret_fate, howdah_error *reterr)
{
    const hw_sqlite_value number = {.number = t->number};
    hw_sqlite_retry r;
    int s = find_retry(g, t, &r, reterr);

    if (s >= 0 && (f->sequence < r.sequence || f->sequence > r.last))
        s = not_in_batch(f->sequence, reterr);
    if (s >= 0 && f->sequence > r.sequence) {
        s = retry_ack(g, &r, f->sequence - 1, reterr);
        hw_sqlite_retry_done(&r);
        if (s >= 0)
            s = hw_sqlite_load_retry(g, BY_RETRY, &number, &r, reterr);
        r.attempts = 1;
    }
    if (s >= 0 && r.sequence != f->sequence)
        s = not_in_batch(f->sequence, reterr);
    f->tries = r.attempts;
    f->stream = r.stream;
    f->upto = r.upto;
    if (s >= 0)
        s = r.dead_letter > 0 ? hw_sqlite_redrive_failed(g, &r, f->error, ret_fate, reterr)
                              : hw_sqlite_group_fail(g, f, &r, ret_fate, reterr);
    hw_sqlite_retry_done(&r);
    return s;
}

/* The stream of an event; HOWDAH_END: there is no such event. */
static int stream_of(hw_sqlite_group *g, sqlite3_stmt *stmt, int64_t sequence, hw_str *ret_stream,
                     howdah_error *reterr)
{
    int s;

    (void)sqlite3_reset(stmt);
    (void)sqlite3_bind_int64(stmt, 1, sequence);
    s = hw_sqlite_step(g->store, stmt, "look at an event", reterr);
    *ret_stream = s == HOWDAH_OK ? hw_sqlite_borrow(stmt, 0) : HW_STR_NULL;
    return s;
}

/* The event, and the later ones of its stream, leave the batch: they are its retry's matter.  upto
   is the last of them.  HOWDAH_END: it is not in the batch. */
static int take_out(hw_sqlite_group *g, hw_lot *lot, hw_sqlite_failure *f, sqlite3_stmt *stmt,
                    howdah_error *reterr)
{
    bool found = false;
    int s = HOWDAH_OK;

    for (int64_t i = 0; s >= 0 && i < lot->taken;) {
        int64_t sequence = lot->events[lot->pos + i];
        hw_str name = HW_STR_NULL;
        bool out = sequence == f->sequence;

        if (sequence > f->sequence && f->stream.s) {
            s = stream_of(g, stmt, sequence, &name, reterr);
            out = hw_str_equal(name, f->stream);
        }
        found = found || sequence == f->sequence;
        if (out) {
            f->upto = sequence;
            hw_lot_take_out(lot, &g->rules, i);
        } else {
            i++;
        }
    }
    return s < 0 ? s : found ? HOWDAH_OK : HOWDAH_END;
}

/* The last event of the stream before this one that is still in the batch: nothing is tried before
   it is acked.  0: none. */
static int find_prior(hw_sqlite_group *g, const hw_lot *lot, const hw_sqlite_failure *f,
                      sqlite3_stmt *stmt, int64_t *ret_prior, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    *ret_prior = 0;
    for (int64_t i = lot->pos;
         f->stream.s && s >= 0 && i < lot->pos + lot->taken && lot->events[i] < f->sequence; i++) {
        hw_str name = HW_STR_NULL;

        s = stream_of(g, stmt, lot->events[i], &name, reterr);
        if (hw_str_equal(name, f->stream))
            *ret_prior = lot->events[i];
    }
    return s < 0 ? s : HOWDAH_OK;
}

static int store_prior(hw_sqlite_group *g, const hw_lot *lot, const hw_sqlite_failure *f,
                       int64_t prior, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(g->store,
                              "UPDATE main.howdah_group_retries SET prior_lot = ?3, prior = ?4"
                              " WHERE group_id = ?1 AND stream = ?2",
                              &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, g->id);
    hw_sqlite_bind_str(stmt, 2, f->stream);
    (void)sqlite3_bind_int64(stmt, 3, lot->number);
    (void)sqlite3_bind_int64(stmt, 4, prior);
    return hw_sqlite_finish(g->store, stmt, "store a retry", reterr);
}

/* r: of its stream, whose next event comes later than this one; NULL: there is none. */
static int fail_of_lot(hw_sqlite_group *g, hw_lot *lot, hw_sqlite_failure *f, hw_sqlite_retry *r,
                       sqlite3_stmt *stmt, hw_group_fate *ret_fate, howdah_error *reterr)
{
    int64_t prior = 0;
    int s;

    f->tries = lot->attempts; /* before it leaves the lot, which counts the next one's then */
    s = take_out(g, lot, f, stmt, reterr);
    if (s == HOWDAH_END)
        return not_in_batch(f->sequence, reterr);
    if (s >= 0)
        s = find_prior(g, lot, f, stmt, &prior, reterr);
    if (s >= 0)
        s = hw_sqlite_group_fail(g, f, r, ret_fate, reterr);
    if (s >= 0 && prior > 0)
        s = store_prior(g, lot, f, prior, reterr);
    return s < 0 ? s : hw_sqlite_store_lot(g, lot, HW_STR_NULL, true, reterr);
}

/* Unless its stream waits for an event before it, or for itself. */
static int fail_unless_waiting(hw_sqlite_group *g, hw_lot *lot, hw_sqlite_failure *f,
                               sqlite3_stmt *stmt, hw_group_fate *ret_fate, howdah_error *reterr)
{
    const hw_sqlite_value what = {.bytes = f->stream, .number = f->sequence};
    hw_sqlite_retry r;
    int s = hw_sqlite_load_retry(
        g, f->stream.s ? "k.stream = ?2" : "k.stream IS NULL AND k.sequence = ?2", &what, &r,
        reterr);
    bool there = s == HOWDAH_OK;

    *ret_fate = HW_FATE_WAITS;
    if (s >= 0 && !(there && f->sequence >= r.sequence))
        s = fail_of_lot(g, lot, f, there ? &r : NULL, stmt, ret_fate, reterr);
    hw_sqlite_retry_done(&r);
    return s < 0 ? s : HOWDAH_OK;
}

static int nack_lot(hw_sqlite_group *g, const hw_sqlite_token *t, hw_sqlite_failure *f,
                    hw_group_fate *ret_fate, howdah_error *reterr)
{
    hw_buf stream = HW_BUF_INIT(1024);
    sqlite3_stmt *stmt = NULL;
    hw_str name = HW_STR_NULL;
    hw_lot lot;
    int s = find_lot(g, t, &lot, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(g->store,
                              "SELECT stream FROM main.howdah_events WHERE global_sequence = ?1",
                              &stmt, reterr);
    if (s >= 0)
        s = stream_of(g, stmt, f->sequence, &name, reterr);
    if (s == HOWDAH_END)
        s = not_in_batch(f->sequence, reterr);
    if (s >= 0 && g->rules.by_stream) {
        hw_buf_put(&stream, name.s, name.len);
        f->stream = (hw_str){hw_buf_str(&stream), stream.len};
        s = hw_buf_check(&stream, reterr);
    }
    if (s >= 0)
        s = fail_unless_waiting(g, &lot, f, stmt, ret_fate, reterr);
    (void)sqlite3_finalize(stmt);
    hw_sqlite_lot_done(&lot);
    hw_buf_done(&stream);
    return s;
}

/* Waits for the disk: it may end the event for good. */
int hw_sqlite_group_nack(hw_store *base, const hw_batch_ref *batch, int64_t sequence, hw_str error,
                         int64_t after_ms, hw_group_fate *ret_fate, howdah_error *reterr)
{
    hw_sqlite_failure f = {.sequence = sequence, .error = error, .after_ms = after_ms};
    hw_sqlite_token t = {.retry = false};
    hw_sqlite_group g;
    int s = hw_sqlite_token_of(batch->token, &t, reterr);

    if (s >= 0)
        s = hw_sqlite_group_enter(&g, (hw_sqlite *)base, batch->subscriber_id, true, reterr);
    if (s < 0)
        return s;
    t.acked = batch->acked;
    s = t.retry ? nack_retry(&g, &t, &f, ret_fate, reterr) : nack_lot(&g, &t, &f, ret_fate, reterr);
    return hw_sqlite_group_leave(&g, s, reterr);
}

/* ---------------------------------------------------------- extend, release */

/* Changes the lease of a batch: extended by lease_ms, or given back (0). */
static int change_lease(hw_sqlite_group *g, const hw_sqlite_token *t, int64_t lease_ms,
                        howdah_error *reterr)
{
    int64_t until_us = hw_sqlite_later_us(g->now_us, lease_ms);
    hw_sqlite_retry r;
    hw_lot lot;
    int s;

    if (!t->retry) {
        s = find_lot(g, t, &lot, reterr);
        if (s >= 0 && lease_ms > 0)
            lot.until_us = until_us;
        else if (s >= 0)
            hw_lot_release(&lot);
        if (s >= 0)
            s = hw_sqlite_store_lot(g, &lot, HW_STR_NULL, false, reterr);
        hw_sqlite_lot_done(&lot);
        return s;
    }
    s = find_retry(g, t, &r, reterr);
    if (s >= 0 && lease_ms > 0) {
        r.until_us = until_us;
    } else if (s >= 0) {
        r.attempts--;
        r.until_us = r.taken = r.token = r.last = 0;
    }
    if (s >= 0)
        s = hw_sqlite_store_retry(g, &r, HW_STR_NULL, HW_STR_NULL, reterr);
    hw_sqlite_retry_done(&r);
    return s;
}

static int lease(hw_store *base, const hw_batch_ref *batch, int64_t lease_ms, howdah_error *reterr)
{
    hw_sqlite_token t = {.retry = false};
    hw_sqlite_group g;
    int s = hw_sqlite_token_of(batch->token, &t, reterr);

    if (s >= 0)
        s = hw_sqlite_group_enter(&g, (hw_sqlite *)base, batch->subscriber_id, false, reterr);
    if (s < 0)
        return s;
    return hw_sqlite_group_leave(&g, change_lease(&g, &t, lease_ms, reterr), reterr);
}

int hw_sqlite_group_extend(hw_store *base, const hw_batch_ref *batch, int64_t lease_ms,
                           howdah_error *reterr)
{
    assert(lease_ms > 0);
    return lease(base, batch, lease_ms, reterr);
}

int hw_sqlite_group_release(hw_store *base, const hw_batch_ref *batch, howdah_error *reterr)
{
    int s = lease(base, batch, 0, reterr);

    return s < 0 ? s : hw_sqlite_ring(base, NULL, 0, reterr);
}
