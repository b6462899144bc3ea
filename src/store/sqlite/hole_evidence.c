/*
 * hole_evidence.c - what is known of missing numbers, and whether the log is still the same.
 *
 *   I1  There is one writer at a time and its numbers appear with its commit, all at once.  So a
 *       number that is missing below a visible one is dead: nobody owns it, nobody blocks it.
 *       Such numbers come from removed rows and from explicit ones only.
 *   I2  A number that was drawn is at or below sqlite_sequence, also when its row is gone.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log_hook.h"
#include "store/sqlite/sqlite.h"

#define GAPS_SQL                                                                                   \
    "SELECT global_sequence FROM main.howdah_events WHERE global_sequence BETWEEN ?1 AND ?2"       \
    " ORDER BY global_sequence"
#define BUS_ID_SQL "SELECT value FROM main.howdah_meta WHERE key = 'bus_id'"
#define DRAWN_SQL "SELECT seq FROM main.sqlite_sequence WHERE name = 'howdah_events'"
#define ID_AT_SQL "SELECT id FROM main.howdah_events WHERE global_sequence = ?1"

/* I1: nobody holds numbers, and all that are missing count as drawn. */
int hw_sqlite_holders(hw_store *base, int64_t *ret_drawn, hw_holder **ret_holders, size_t *ret_n,
                      howdah_error *reterr)
{
    (void)base;
    (void)reterr;
    *ret_drawn = INT64_MAX; /* I1 */
    *ret_holders = NULL;
    *ret_n = 0;
    return HOWDAH_OK;
}

/* I1: there is nothing to be proven, and so nothing to be written down. */
int hw_sqlite_proven(hw_store *base, int64_t *ret_upto, hw_ranges *ret_holes, howdah_error *reterr)
{
    (void)base;
    (void)reterr;
    *ret_upto = 0;
    hw_ranges_clear(ret_holes);
    return HOWDAH_OK;
}

/* See hw_sqlite_proven(). */
int hw_sqlite_store_proven(hw_store *base, hw_str log, const hw_anchor *top, int64_t upto,
                           const hw_ranges *holes, howdah_error *reterr)
{
    (void)base;
    (void)log;
    (void)top;
    (void)upto;
    (void)holes;
    (void)reterr;
    return HOWDAH_OK;
}

/* I1: nobody keeps anybody waiting. */
int hw_sqlite_blockers(hw_store *base, hw_blocker_fn fn, void *ctx, howdah_error *reterr)
{
    (void)base;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return HOWDAH_OK;
}

/* The rows of stmt, ascending, are what is there of first..last.  fn gets the ranges between
   them. */
static int walk_gaps(hw_sqlite *store, sqlite3_stmt *stmt, int64_t first, int64_t last,
                     hw_range_fn fn, void *ctx, howdah_error *reterr)
{
    int s;

    assert(first <= last);
    while ((s = hw_sqlite_step(store, stmt, "look for gaps", reterr)) == HOWDAH_OK) {
        int64_t sequence = sqlite3_column_int64(stmt, 0);

        if (sequence > first && fn(ctx, (hw_range){first, sequence - 1}) != 0)
            return HOWDAH_OK;
        if (sequence == last)
            return HOWDAH_OK;
        first = sequence + 1;
    }
    if (s == HOWDAH_END)
        (void)fn(ctx, (hw_range){first, last});
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_gaps(hw_store *base, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                   howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0 || first > last)
        return s;
    s = hw_sqlite_prepare(store, GAPS_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, first);
    (void)sqlite3_bind_int64(stmt, 2, last);
    s = walk_gaps(store, stmt, first, last, fn, ctx, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

/*
 * Which log the open file is: the bus's own id, which a copy of the file carries along, and the
 * file itself, which it does not.  A connection keeps its file, even if another one takes its
 * place at the path; so it is asked once a connection.
 */
static int learn_log(hw_sqlite *store, howdah_error *reterr)
{
    struct stat st = {0};
    sqlite3_stmt *stmt = NULL;
    int s;

    if (store->log[0])
        return HOWDAH_OK;
    s = hw_sqlite_prepare(store, BUS_ID_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    s = hw_sqlite_step(store, stmt, "read the bus's id", reterr);
    if (s >= 0) {
        const char *text = s == HOWDAH_OK ? (const char *)sqlite3_column_text(stmt, 0) : NULL;

        if (store->path)
            (void)stat(store->path, &st);
        (void)snprintf(store->log, sizeof store->log, "%.36s/%" PRIx64 ":%" PRIx64,
                       text ? text : "", (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_timeline(hw_store *base, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = learn_log(store, reterr);
    if (s >= 0)
        memcpy(ret_text, store->log, sizeof store->log);
    return s;
}

/* For every write of a subscription (store/subscriptions.h I7): what was learnt from another log
   must not be stored in this one. */
int hw_sqlite_is_log(hw_sqlite *store, hw_str log, howdah_error *reterr)
{
    int s = learn_log(store, reterr);

    if (s < 0 || !log.s || log.len == 0 || hw_str_equal(log, hw_str_of(store->log)))
        return s;
    return hw_fail(reterr, HOWDAH_LOST, "%s: this is another log: %s now, %.*s before", store->name,
                   store->log, (int)log.len, log.s);
}

/* By sequence and id: after a restore another event may have the same number. */
int hw_sqlite_stands_on(hw_sqlite *store, const hw_anchor *anchor, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s;

    if (anchor->sequence == 0)
        return HOWDAH_OK;
    s = hw_sqlite_stmt(store, HW_SLOT_ID_AT, ID_AT_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, anchor->sequence);
    s = hw_sqlite_step(store, stmt, "look for the anchor", reterr);
    if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND,
                    "the anchor's event is gone: there is none at %" PRId64, anchor->sequence);
    else if (s == HOWDAH_OK &&
             (sqlite3_column_bytes(stmt, 0) != (int)sizeof anchor->id.b ||
              memcmp(sqlite3_column_blob(stmt, 0), anchor->id.b, sizeof anchor->id.b) != 0))
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "another event is at the anchor's position %" PRId64,
                    anchor->sequence);
    (void)sqlite3_reset(stmt);
    return s;
}

/* A place above all numbers that were ever drawn (I2) comes from another log, or from a later
   moment of this one. */
int hw_sqlite_verify(hw_store *base, const hw_anchor *anchor, int64_t high, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int64_t drawn = 0;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = hw_sqlite_stands_on(store, anchor, reterr);
    if (s >= 0)
        s = hw_sqlite_number(store, DRAWN_SQL, 0, &drawn, reterr);
    if (s >= 0 && high > drawn && high > anchor->sequence)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND,
                    "the checkpoint is ahead of the log: it is at %" PRId64
                    ", the log has given out %" PRId64,
                    high, drawn);
    return s;
}

/*
 * Every statement of a connection reads the file that it has opened, and session() looks whether
 * that is still the one at its path.  What is left is a backup that was restored into the open
 * file: then the session's number changes, and the caller starts anew.
 */
int hw_sqlite_confirm(hw_store *base, const hw_anchor *top, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_stands_on(store, top, &err);
    if (s == HOWDAH_NOT_FOUND) {
        hw_log(HOWDAH_LOG_WARN, "%s: this is another log: %s", store->name, err.message);
        store->session++;
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s < 0 ? s : HOWDAH_OK;
}
