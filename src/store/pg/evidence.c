/*
 * evidence.c - what the server knows about numbers that are missing, and about its own past.
 *
 * Whoever draws a number holds RowExclusiveLock on the sequence until its transaction ends, also
 * when it was drawn under a savepoint (the lock belongs to the whole transaction) and through
 * PREPARE TRANSACTION.  The transaction's id is a lock, too: ExclusiveLock on "transactionid", of
 * the same virtualtransaction; subtransactions have further ones, all of them younger.
 *
 *   I1  Owners come from one scan of pg_locks.  That scan first walks the fast-path locks of each
 *       backend and then takes the main table as a whole, so a lock that is held all the time is
 *       seen, but a transaction that ends in between, or gives its locks up one by one just then,
 *       shows its lock without its id.
 *   I2  Such a one has ended: locks are given up after the transaction is visible as ended, its
 *       virtual one first.  Or it never had an id: it has drawn a number past the default of the
 *       column.  Whoever is alive by its virtual transaction, and without an id, in a second scan
 *       as well, is of that kind, and then nothing can be told by owners.
 *   I3  An id is 64 bits wide, counted from the snapshot's next one, so that it means one
 *       transaction for as long as the cluster lives.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store/pg/pg.h"

#define GAP_ROWS 50000 /* numbers that one statement walks over */

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

/* --------------------------------------------------------- transaction ids */

int hw_pg_horizon(hw_store *store, uint64_t *ret_horizon, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int64_t horizon = 0;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_query_int8(pg, HW_PG_HORIZON, &horizon, reterr);
    if (s >= 0)
        *ret_horizon = (uint64_t)horizon;
    return s;
}

/* A standby cannot draw a transaction id: there a hole is never proven dead, and stays open. */
int hw_pg_fence(hw_store *store, uint64_t *ret_fence, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int64_t fence = -1; /* UINT64_MAX */
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0 && !pg->recovery)
        s = hw_pg_query_int8(pg, HW_PG_FENCE, &fence, reterr);
    if (s >= 0)
        *ret_fence = (uint64_t)fence;
    return s;
}

/* ------------------------------------------------------------------- owners */

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* One row for each holder: its virtual transaction, its id or NULL, whether it lives. */
static int look(hw_pg *pg, PGresult **ret_result, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_OWNERS};

    return hw_pg_query(pg, &call, ret_result, reterr);
}

static bool is_nameless(const PGresult *result, int row)
{
    return PQgetisnull(result, row, 1) && hw_pg_get_bool(result, row, 2);
}

static bool is_alive(const PGresult *result, hw_str holder)
{
    for (int i = 0; i < PQntuples(result); i++)
        if (hw_str_equal(hw_pg_get_str(result, i, 0), holder))
            return hw_pg_get_bool(result, i, 2);
    return false;
}

/* I2: whether somebody of the first look who had no id still lives in a second one. */
static int find_nameless(hw_pg *pg, const PGresult *first, bool *ret_found, howdah_error *reterr)
{
    PGresult *second = NULL;
    int s = HOWDAH_OK;

    *ret_found = false;
    for (int i = 0; s >= 0 && !*ret_found && i < PQntuples(first); i++) {
        if (!is_nameless(first, i))
            continue;
        if (!second)
            s = look(pg, &second, reterr);
        if (s >= 0)
            *ret_found = is_alive(second, hw_pg_get_str(first, i, 0));
    }
    PQclear(second);
    return s;
}

static int take_ids(const PGresult *result, uint64_t **ret_ids, size_t *ret_n, howdah_error *reterr)
{
    uint64_t *ids = hw_calloc((size_t)PQntuples(result) + 1, sizeof *ids);
    size_t n = 0;
    size_t kept = 0;

    if (!ids)
        return hw_fail_no_memory(reterr);
    for (int i = 0; i < PQntuples(result); i++)
        if (!PQgetisnull(result, i, 1))
            ids[n++] = (uint64_t)hw_pg_get_int8(result, i, 1);
    qsort(ids, n, sizeof *ids, compare);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || ids[i] != ids[i - 1])
            ids[kept++] = ids[i];
    *ret_ids = ids;
    *ret_n = kept;
    return HOWDAH_OK;
}

int hw_pg_owners(hw_store *store, uint64_t **ret_ids, size_t *ret_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    PGresult *result = NULL;
    bool nameless = false;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    if (pg->recovery)
        return HOWDAH_END; /* the holders are on another server */
    s = look(pg, &result, reterr);
    if (s >= 0)
        s = find_nameless(pg, result, &nameless, reterr);
    if (s >= 0)
        s = nameless ? HOWDAH_END : take_ids(result, ret_ids, ret_n, reterr);
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

/* Walks over one page of rows; ret_behind: the number behind the last, first when there was none.
 */
static int walk_gaps(hw_pg *pg, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                     int64_t *ret_behind, bool *ret_stop, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_GAPS};
    PGresult *result = NULL;
    int s;

    hw_pg_param_int8(&call, first);
    hw_pg_param_int8(&call, last);
    hw_pg_param_int8(&call, GAP_ROWS);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    *ret_behind = first;
    for (int i = 0; i < PQntuples(result) && !*ret_stop; i++) {
        int64_t before = hw_pg_get_int8(result, i, 0);
        int64_t sequence = hw_pg_get_int8(result, i, 1);

        if (before + 1 < sequence)
            *ret_stop = fn(ctx, (hw_range){before + 1, sequence - 1}) != 0;
        *ret_behind = sequence + 1;
    }
    PQclear(result);
    return HOWDAH_OK;
}

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

static void forget_log(hw_pg *pg)
{
    pg->session++;
    pg->final_us = 0;
    hw_pg_know_nothing(pg);
    hw_pg_floors_forget(pg);
}

void hw_pg_meet(hw_pg *pg, hw_str log, int64_t drawn)
{
    bool is_first = !pg->log[0];

    if (!is_first && (!hw_str_equal(log, hw_str_of(pg->log)) || drawn < pg->drawn)) {
        hw_log(HOWDAH_LOG_WARN,
               "the log is another one: %.*s with %lld numbers drawn, before %s with %lld",
               (int)log.len, log.s, (long long)drawn, pg->log, (long long)pg->drawn);
        forget_log(pg);
    }
    (void)snprintf(pg->log, sizeof pg->log, "%.*s", (int)log.len, log.s);
    pg->drawn = drawn;
}

/* What there is at a number (absent: nothing), and how many numbers were drawn. */
static int ask_here(hw_pg *pg, int64_t sequence, bool *ret_there, hw_uuid *ret_id,
                    int64_t *ret_drawn, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_HERE};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_int8(&call, sequence);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    *ret_drawn = hw_pg_get_int8(result, 0, 1);
    *ret_there = hw_pg_get_uuid(result, 0, 2, ret_id);
    hw_pg_meet(pg, hw_pg_get_str(result, 0, 0), *ret_drawn);
    PQclear(result);
    return HOWDAH_OK;
}

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

/* A session of our own is one server's until it ends. */
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
        hw_log(HOWDAH_LOG_WARN, "the log is another one: event %lld is %s",
               (long long)top->sequence, there ? "not the one that was there" : "gone");
        forget_log(pg);
    }
    return s;
}

int hw_pg_verify(hw_store *store, const hw_anchor *anchor, int64_t high, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_uuid id;
    int64_t drawn = 0;
    bool there = false;
    int s = ask_here(pg, anchor->sequence, &there, &id, &drawn, reterr);

    if (s < 0)
        return s;
    if (high > drawn)
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
