/*
 * subscriptions.c - the rows of subscriptions: whether one is there, and who owns it.
 *
 *   I1  Everything that changes a row happens under the write lock (BEGIN IMMEDIATE), after a look
 *       at its token there: what was found cannot change before the commit.
 *   I2  There are no locks of a session in SQLite: COORDINATED is a lease as LEASE is.  A lease
 *       ends by the machine's clock of time since boot, which all processes with the file share;
 *       see 0002_subscriptions.sql, I4.  A lease that has run out and that nobody took is still its
 *       owner's: the token decides, not the clock.
 *   I3  All of it waits for the disk; moving on does not (checkpoint.c).
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* A lease of an earlier boot is over: its owner was on the machine that went down. */
#define IS_HELD "s.lease_until IS NOT NULL AND s.lease_until > ?2 AND s.lease_boot = ?3"
#define IS_SHARED                                                                                  \
    "EXISTS (SELECT 1 FROM main.howdah_groups g WHERE g.subscriber_id = s.subscriber_id)"

/* ?1 the subscriber, or after whom, ?2 now since boot, ?3 the boot, ?4 limit. */
#define ROW_COLUMNS                                                                                \
    "SELECT s.subscriber_id, s.pattern, s.high, s.outstanding, s.anchor_sequence, s.anchor_id,"    \
    " s.timeline, s.token, s.owner, " IS_HELD ", s.status, s.reason, s.suspect_sequence,"          \
    " s.suspect_attempts, s.created_at, s.updated_at,"                                             \
    " (SELECT count(*) FROM main.howdah_dead_letters d"                                            \
    "  WHERE d.subscriber_id = s.subscriber_id AND d.resolved_at IS NULL),"                        \
    " (SELECT count(*) FROM main.howdah_skips k"                                                   \
    "  WHERE k.subscriber_id = s.subscriber_id AND k.resolved_at IS NULL),"                        \
    " s.stream, s.originals, s.moves, " IS_SHARED " FROM main.howdah_subscriptions s"
#define ROW_SQL ROW_COLUMNS " WHERE s.subscriber_id = ?1 LIMIT ?4"
#define ROWS_SQL ROW_COLUMNS " WHERE s.subscriber_id > ?1 ORDER BY s.subscriber_id LIMIT ?4"

/* The columns of ROW_COLUMNS. */
enum {
    COL_SUBSCRIBER,
    COL_PATTERN,
    COL_HIGH,
    COL_OUTSTANDING,
    COL_ANCHOR_SEQUENCE,
    COL_ANCHOR_ID,
    COL_TIMELINE,
    COL_TOKEN,
    COL_OWNER,
    COL_HELD,
    COL_STATUS,
    COL_REASON,
    COL_SUSPECT_SEQUENCE,
    COL_SUSPECT_ATTEMPTS,
    COL_CREATED_AT,
    COL_UPDATED_AT,
    COL_DEAD_LETTERS,
    COL_SKIPS,
    COL_STREAM,
    COL_ORIGINALS,
    COL_MOVES,
    COL_SHARED
};

/* Without the list of outstanding numbers, which may be long. */
#define LOOK_SQL                                                                                   \
    "SELECT s.token, s.high, s.status, s.lease_until, s.lease_boot, s.pattern, s.owner,"           \
    " EXISTS (SELECT 1 FROM main.howdah_dead_letters d WHERE d.subscriber_id = s.subscriber_id"    \
    "  AND d.state = 'redrive' AND d.resolved_at IS NULL), s.stream, s.originals, s.timeline,"     \
    " s.moves, " IS_SHARED " FROM main.howdah_subscriptions s WHERE s.subscriber_id = ?1"

#define INSERT_SQL                                                                                 \
    "INSERT INTO main.howdah_subscriptions (subscriber_id, pattern, stream, originals, high,"      \
    " outstanding, token, created_at, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6,"                 \
    " coalesce((SELECT CAST(value AS INTEGER) FROM main.howdah_meta WHERE key = 'token_floor'),"   \
    " 0), ?7, ?7)"
#define FILTER_SQL                                                                                 \
    "UPDATE main.howdah_subscriptions SET pattern = ?2, stream = ?3, originals = ?4,"              \
    " updated_at = ?5 WHERE subscriber_id = ?1"
#define TAKE_SQL                                                                                   \
    "UPDATE main.howdah_subscriptions SET token = ?2, owner = ?3, lease_until = ?4,"               \
    " lease_boot = ?5, updated_at = ?6 WHERE subscriber_id = ?1"
#define RELEASE_SQL                                                                                \
    "UPDATE main.howdah_subscriptions SET owner = NULL, lease_until = NULL, lease_boot = NULL,"    \
    " updated_at = ?2 WHERE subscriber_id = ?1"
#define SUSPECT_SQL                                                                                \
    "UPDATE main.howdah_subscriptions SET suspect_sequence = ?2, suspect_attempts = ?3"            \
    " WHERE subscriber_id = ?1"
#define STATUS_SQL                                                                                 \
    "UPDATE main.howdah_subscriptions SET status = ?2, reason = ?3, updated_at = ?4"               \
    " WHERE subscriber_id = ?1"
#define RESET_SQL                                                                                  \
    "UPDATE main.howdah_subscriptions SET high = ?2, outstanding = ?3, anchor_sequence = 0,"       \
    " anchor_id = NULL, timeline = '', token = token + 1, owner = NULL, lease_until = NULL,"       \
    " lease_boot = NULL, suspect_sequence = 0, suspect_attempts = 0, updated_at = ?4"              \
    " WHERE subscriber_id = ?1"
/* 0002_subscriptions.sql, I2.  Above the last one: whoever had it may not know yet. */
#define FLOOR_SQL                                                                                  \
    "INSERT INTO main.howdah_meta (key, value)"                                                    \
    " SELECT 'token_floor', CAST(token + 1 AS TEXT) FROM main.howdah_subscriptions"                \
    " WHERE subscriber_id = ?1"                                                                    \
    " ON CONFLICT (key) DO UPDATE SET value = excluded.value"                                      \
    " WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)"
#define REMOVE_SKIPS_SQL "DELETE FROM main.howdah_skips WHERE subscriber_id = ?1"
#define REMOVE_SQL "DELETE FROM main.howdah_subscriptions WHERE subscriber_id = ?1"

/* By hw_sub_status. */
static const char *const status_names[] = {"active", "paused", "halted"};

static void bind_int_or_null(sqlite3_stmt *stmt, int index, bool present, int64_t value)
{
    if (present)
        (void)sqlite3_bind_int64(stmt, index, value);
    else
        (void)sqlite3_bind_null(stmt, index);
}

/* One text for all the ways in which a token can be outdated. */
int hw_sqlite_fail_lost(hw_str subscriber_id, int64_t token, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_LOST,
                   "subscription %.*s: token %" PRId64
                   " is not the newest any more: another instance owns it, or it was reset",
                   (int)subscriber_id.len, subscriber_id.s, token);
}

static int fail_not_found(hw_str subscriber_id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no subscription %.*s",
                   (int)subscriber_id.len, subscriber_id.s);
}

/* ------------------------------------------------------------------ a row */

/* What only a foreign hand, or a broken disk, can have written. */
static int damaged(const hw_sqlite *store, const char *what, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_CORRUPT, "%s: a subscription has a damaged %s", store->name,
                   what);
}

/* False: a word that we do not write. */
static bool parse_status(hw_str text, hw_sub_status *ret_status)
{
    for (size_t i = 0; i < sizeof status_names / sizeof *status_names; i++)
        if (text.s && strcmp(text.s, status_names[i]) == 0) {
            *ret_status = (hw_sub_status)i;
            return true;
        }
    return false;
}

/* False: an id that is none. */
static bool take_anchor(sqlite3_stmt *stmt, hw_anchor *anchor)
{
    anchor->sequence = sqlite3_column_int64(stmt, COL_ANCHOR_SEQUENCE);
    if (anchor->sequence == 0)
        return true;
    if (sqlite3_column_bytes(stmt, COL_ANCHOR_ID) != (int)sizeof anchor->id.b)
        return false;
    memcpy(anchor->id.b, sqlite3_column_blob(stmt, COL_ANCHOR_ID), sizeof anchor->id.b);
    return true;
}

/* Texts are the statement's until its next step; *ret_outstanding is freed by the caller. */
static int take_row(const hw_sqlite *store, sqlite3_stmt *stmt, hw_sub_row *row,
                    hw_range **ret_outstanding, howdah_error *reterr)
{
    int s;

    *row = (hw_sub_row){.subscriber_id = hw_sqlite_borrow(stmt, COL_SUBSCRIBER),
                        .filter = {.pattern = hw_sqlite_borrow(stmt, COL_PATTERN),
                                   .stream = hw_sqlite_borrow(stmt, COL_STREAM),
                                   .originals = sqlite3_column_int(stmt, COL_ORIGINALS) != 0},
                        .high = sqlite3_column_int64(stmt, COL_HIGH),
                        .timeline = hw_sqlite_borrow(stmt, COL_TIMELINE),
                        .token = sqlite3_column_int64(stmt, COL_TOKEN),
                        .owner = hw_sqlite_borrow(stmt, COL_OWNER),
                        .held = sqlite3_column_int(stmt, COL_HELD) != 0,
                        .reason = hw_sqlite_borrow(stmt, COL_REASON),
                        .suspect_sequence = sqlite3_column_int64(stmt, COL_SUSPECT_SEQUENCE),
                        .suspect_attempts = sqlite3_column_int64(stmt, COL_SUSPECT_ATTEMPTS),
                        .created_at_us = sqlite3_column_int64(stmt, COL_CREATED_AT),
                        .updated_at_us = sqlite3_column_int64(stmt, COL_UPDATED_AT),
                        .dead_letters = sqlite3_column_int64(stmt, COL_DEAD_LETTERS),
                        .skips = sqlite3_column_int64(stmt, COL_SKIPS),
                        .moves = sqlite3_column_int64(stmt, COL_MOVES),
                        .shared = sqlite3_column_int(stmt, COL_SHARED) != 0};
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    if (!parse_status(hw_sqlite_borrow(stmt, COL_STATUS), &row->status))
        return damaged(store, "status", reterr);
    if (!take_anchor(stmt, &row->anchor))
        return damaged(store, "anchor", reterr);
    s = hw_sqlite_parse_outstanding(hw_sqlite_borrow(stmt, COL_OUTSTANDING), ret_outstanding,
                                    &row->outstanding_n);
    if (s < 0)
        return s == HOWDAH_NO_MEMORY ? hw_fail_no_memory(reterr)
                                     : damaged(store, "list of outstanding numbers", reterr);
    row->outstanding = *ret_outstanding;
    return HOWDAH_OK;
}

hw_str hw_sqlite_boot(hw_sqlite *store)
{
    if (!store->boot[0])
        hw_clock_boot(store->boot);
    return hw_str_of(store->boot);
}

/* n: how many were found, so that none can be told. */
typedef struct row_walk {
    hw_sqlite *store;
    hw_sub_row_fn fn;
    void *ctx;
    size_t n;
} row_walk;

/* IS_HELD's parameters: now, and which boot it is. */
static void bind_lease(hw_sqlite *store, sqlite3_stmt *stmt)
{
    (void)sqlite3_bind_int64(stmt, 2, hw_clock_mono_us());
    hw_sqlite_bind_str(stmt, 3, hw_sqlite_boot(store));
}

static void bind_walk(void *ctx, sqlite3_stmt *stmt)
{
    bind_lease(((row_walk *)ctx)->store, stmt);
}

/* The place of a shared one is its group's. */
static int take_group_place(hw_sqlite *store, hw_sub_row *row, hw_range **outstanding,
                            howdah_error *reterr)
{
    return hw_sqlite_group_place_of(store, row->subscriber_id, &row->high, outstanding,
                                    &row->outstanding_n, reterr);
}

/* HOWDAH_END: the range has no event. */
static int oldest_in(hw_sqlite *store, sqlite3_stmt *stmt, int64_t first, int64_t last,
                     int64_t *ret_age_ms, howdah_error *reterr)
{
    int s;

    (void)sqlite3_bind_int64(stmt, 1, first);
    (void)sqlite3_bind_int64(stmt, 2, last);
    s = hw_sqlite_step(store, stmt, "read", reterr);
    if (s == HOWDAH_OK) {
        int64_t age_us = hw_clock_wall_us() - sqlite3_column_int64(stmt, 0);

        *ret_age_ms = age_us > 0 ? age_us / 1000 : 0;
    }
    (void)sqlite3_reset(stmt);
    return s;
}

/* See hw_sub_row. */
static int take_lag_age(hw_sqlite *store, hw_sub_row *row, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store,
                              "SELECT recorded_at FROM main.howdah_events WHERE global_sequence"
                              " BETWEEN ?1 AND ?2 ORDER BY global_sequence LIMIT 1",
                              &stmt, reterr);

    row->lag_age_ms = HOWDAH_ABSENT;
    if (s >= 0)
        s = HOWDAH_END;
    for (size_t i = 0; s == HOWDAH_END && i < row->outstanding_n && i < HW_LAG_RANGES_MAX; i++)
        s = oldest_in(store, stmt, row->outstanding[i].first, row->outstanding[i].last,
                      &row->lag_age_ms, reterr);
    if (s == HOWDAH_END)
        s = oldest_in(store, stmt, row->high + 1, INT64_MAX, &row->lag_age_ms, reterr);
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* The row's list of ranges lives as long as the call. */
static int hand_row(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    row_walk *w = ctx;
    hw_range *outstanding = NULL;
    hw_sub_row row;
    int s = take_row(w->store, stmt, &row, &outstanding, reterr);

    if (s >= 0 && row.shared) {
        s = take_group_place(w->store, &row, &outstanding, reterr);
        row.outstanding = outstanding;
    }
    if (s >= 0)
        s = take_lag_age(w->store, &row, reterr);
    w->n++;
    if (s >= 0)
        *ret_stop = w->fn(w->ctx, &row) != 0;
    hw_free(outstanding);
    return s;
}

static int walk_rows(row_walk *w, const char *sql, hw_str first, howdah_error *reterr)
{
    const hw_sqlite_walk walk = {.sql = sql,
                                 .doing = "read subscriptions",
                                 .keys = 1,
                                 .key_column = {COL_SUBSCRIBER},
                                 .key_param = {1},
                                 .first = {{.bytes = first}},
                                 .limit_param = 4,
                                 .bind = bind_walk,
                                 .row = hand_row,
                                 .ctx = w};

    return hw_sqlite_walk_rows(w->store, &walk, reterr);
}

int hw_sqlite_load(hw_store *base, hw_str subscriber_id, hw_sub_row_fn fn, void *ctx,
                   howdah_error *reterr)
{
    row_walk w = {(hw_sqlite *)base, fn, ctx, 0};
    int s = walk_rows(&w, ROW_SQL, subscriber_id, reterr);

    return s >= 0 && w.n == 0 ? fail_not_found(subscriber_id, reterr) : s;
}

int hw_sqlite_list(hw_store *base, hw_sub_row_fn fn, void *ctx, howdah_error *reterr)
{
    row_walk w = {(hw_sqlite *)base, fn, ctx, 0};

    return walk_rows(&w, ROWS_SQL, HW_STR_LIT(""), reterr);
}

/* ------------------------------------------------------------- a short look */

/* The columns of LOOK_SQL. */
static int take_look(hw_sqlite *store, sqlite3_stmt *stmt, const hw_sqlite_sub_about *a,
                     hw_sqlite_sub_look *l, howdah_error *reterr)
{
    hw_filter filter;

    l->there = true;
    l->token = sqlite3_column_int64(stmt, 0);
    l->high = sqlite3_column_int64(stmt, 1);
    l->leased = sqlite3_column_type(stmt, 3) != SQLITE_NULL;
    if (l->leased && hw_str_equal(hw_sqlite_borrow(stmt, 4), hw_sqlite_boot(store)))
        l->lease_left_us = sqlite3_column_int64(stmt, 3) - hw_clock_mono_us();
    filter = (hw_filter){hw_sqlite_borrow(stmt, 5), hw_sqlite_borrow(stmt, 8),
                         sqlite3_column_int(stmt, 9) != 0};
    l->same_filter = a && a->filter && hw_filter_equal(&filter, a->filter);
    l->same_owner = a && hw_str_equal(hw_sqlite_borrow(stmt, 6), a->owner);
    l->redrives = sqlite3_column_int(stmt, 7) != 0;
    l->same_log = hw_str_equal(hw_sqlite_borrow(stmt, 10), hw_str_of(store->log));
    l->moves = sqlite3_column_int64(stmt, 11);
    l->shared = sqlite3_column_int(stmt, 12) != 0;
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    return parse_status(hw_sqlite_borrow(stmt, 2), &l->status) ? HOWDAH_OK
                                                               : damaged(store, "status", reterr);
}

int hw_sqlite_look_at_sub(hw_sqlite *store, hw_str subscriber_id, const hw_sqlite_sub_about *a,
                          hw_sqlite_sub_look *l, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_is_log(store, HW_STR_NULL, reterr); /* so that it is known */

    *l = (hw_sqlite_sub_look){.there = false};
    if (s >= 0)
        s = hw_sqlite_stmt(store, HW_SLOT_SUB_LOOK, LOOK_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    s = hw_sqlite_step(store, stmt, "look at a subscription", reterr);
    if (s == HOWDAH_OK)
        s = take_look(store, stmt, a, l, reterr);
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* SINGLE has no lease: such a row is never held.  A shared one always is. */
static bool is_held(const hw_sqlite_sub_look *l)
{
    return l->shared || (l->leased && l->lease_left_us > 0);
}

/* As hw_sqlite_look_at_sub(), but NOT_FOUND without the row. */
static int look_for(hw_sqlite *store, hw_str subscriber_id, const hw_sqlite_sub_about *a,
                    hw_sqlite_sub_look *l, howdah_error *reterr)
{
    int s = hw_sqlite_look_at_sub(store, subscriber_id, a, l, reterr);

    return s >= 0 && !l->there ? fail_not_found(subscriber_id, reterr) : s;
}

/* In another log the token may be the same by chance, so the log is compared as well. */
int hw_sqlite_check_hold(hw_sqlite *store, const hw_hold *hold, howdah_error *reterr)
{
    hw_sqlite_sub_look l;
    int s = hw_sqlite_look_at_sub(store, hold->subscriber_id, NULL, &l, reterr);

    if (s >= 0 && (!l.there || l.token != hold->token))
        s = hw_sqlite_fail_lost(hold->subscriber_id, hold->token, reterr);
    return s < 0 ? s : hw_sqlite_is_log(store, hold->log, reterr);
}

/* ------------------------------------------------------ being there, or not */

/* ?2 to ?4. */
static void bind_filter(sqlite3_stmt *stmt, const hw_filter *filter)
{
    hw_sqlite_bind_str(stmt, 2, filter->pattern);
    hw_sqlite_bind_str(stmt, 3, filter->stream);
    (void)sqlite3_bind_int(stmt, 4, filter->originals);
}

/* Its token starts at the floor of all that were removed (FLOOR_SQL). */
int hw_sqlite_insert_sub(hw_sqlite *store, hw_str subscriber_id, const hw_filter *filter,
                         int64_t high, const hw_range *outstanding, size_t outstanding_n,
                         howdah_error *reterr)
{
    hw_buf text = HW_BUF_INIT(HW_OUTSTANDING_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, INSERT_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    bind_filter(stmt, filter);
    (void)sqlite3_bind_int64(stmt, 5, high);
    (void)sqlite3_bind_int64(stmt, 7, hw_clock_wall_us());
    s = hw_sqlite_bind_outstanding(stmt, 6, &text, outstanding, outstanding_n, reterr);
    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "create a subscription", reterr);
    (void)sqlite3_finalize(stmt);
    hw_buf_done(&text);
    return s < 0 ? s : HOWDAH_OK;
}

/* The place stays: what passes the filter changes from here on. */
static int renew_filter(hw_sqlite *store, hw_str subscriber_id, const hw_filter *filter,
                        howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, FILTER_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    bind_filter(stmt, filter);
    (void)sqlite3_bind_int64(stmt, 5, hw_clock_wall_us());
    return hw_sqlite_finish(store, stmt, "renew a filter", reterr);
}

int hw_sqlite_create(hw_store *base, hw_str subscriber_id, const hw_filter *filter, int64_t high,
                     const hw_range *outstanding, size_t outstanding_n, bool *ret_created,
                     howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_sub_about a = {.filter = filter};
    hw_sqlite_sub_look l;
    int s = hw_sqlite_ready_to_read(store, reterr);

    /* Nearly always it is there and as it should be: no need to stand in line for the lock. */
    if (s >= 0)
        s = hw_sqlite_look_at_sub(store, subscriber_id, &a, &l, reterr);
    if (s >= 0 && !(l.there && (l.same_filter || l.shared))) {
        s = hw_sqlite_enter(store, true, reterr);
        if (s < 0)
            return s;
        s = hw_sqlite_look_at_sub(store, subscriber_id, &a, &l, reterr);
        if (s >= 0)
            s = l.there ? renew_filter(store, subscriber_id, filter, reterr)
                        : hw_sqlite_insert_sub(store, subscriber_id, filter, high, outstanding,
                                               outstanding_n, reterr);
        s = hw_sqlite_leave(store, s, reterr);
    }
    if (s >= 0 && ret_created)
        *ret_created = !l.there;
    return s;
}

/* Runs a statement whose only parameter is the subscriber. */
static int run_about(hw_sqlite *store, const char *sql, hw_str subscriber_id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, sql, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    return hw_sqlite_finish(store, stmt, "remove a subscription", reterr);
}

/* The floor of tokens outlives the row: a subscription of the same name goes on above it. */
int hw_sqlite_drop_sub(hw_sqlite *store, hw_str subscriber_id, howdah_error *reterr)
{
    int s = run_about(store, FLOOR_SQL, subscriber_id, reterr);

    if (s >= 0)
        s = run_about(store, REMOVE_SKIPS_SQL, subscriber_id, reterr);
    if (s >= 0)
        s = run_about(store, REMOVE_SQL, subscriber_id, reterr);
    return s;
}

/* Only what nobody holds: an owner would go on with a row that is gone. */
static int remove_row(hw_sqlite *store, hw_str subscriber_id, howdah_error *reterr)
{
    hw_sqlite_sub_look l;
    int s = look_for(store, subscriber_id, NULL, &l, reterr);

    if (s >= 0 && is_held(&l)) {
        s = hw_fail(reterr, HOWDAH_CONFLICT, "subscription %.*s is in use", (int)subscriber_id.len,
                    subscriber_id.s);
        return hw_advise(reterr, s, "stop its instances first");
    }
    return s < 0 ? s : hw_sqlite_drop_sub(store, subscriber_id, reterr);
}

int hw_sqlite_remove(hw_store *base, hw_str subscriber_id, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    return hw_sqlite_leave(store, remove_row(store, subscriber_id, reterr), reterr);
}

/* ------------------------------------------------------------- owning a row */

int64_t hw_sqlite_lease_until_us(int64_t lease_ms)
{
    assert(lease_ms >= 0);
    return hw_clock_mono_us() + lease_ms * 1000;
}

/* SINGLE has no lease: it takes the row from any owner. */
static int update_owner(hw_sqlite *store, const hw_take *take, int64_t token, howdah_error *reterr)
{
    bool leased = take->instance != HOWDAH_INSTANCE_SINGLE;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, TAKE_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, take->subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, token);
    hw_sqlite_bind_str(stmt, 3, take->owner);
    bind_int_or_null(stmt, 4, leased, hw_sqlite_lease_until_us(take->lease_ms));
    hw_sqlite_bind_str(stmt, 5, leased ? hw_sqlite_boot(store) : HW_STR_NULL);
    (void)sqlite3_bind_int64(stmt, 6, hw_clock_wall_us());
    return hw_sqlite_finish(store, stmt, "take a subscription", reterr);
}

/* What fn is called with after the commit; buf and outstanding are what the row points into. */
typedef struct taken {
    hw_sub_row row;
    hw_range *outstanding;
    char *texts;
} taken;

/* Copies a text with its NUL, and moves on. */
static hw_str keep(char **at, hw_str text)
{
    hw_str kept = {*at, text.len};

    if (!text.s)
        return HW_STR_NULL;
    memcpy(*at, text.s, text.len + 1);
    *at += text.len + 1;
    return kept;
}

/* One block for six texts, each with its NUL. */
static int keep_texts(taken *t, howdah_error *reterr)
{
    hw_sub_row *row = &t->row;
    size_t bytes = row->subscriber_id.len + row->filter.pattern.len + row->filter.stream.len +
                   row->timeline.len + row->owner.len + row->reason.len + 6;
    char *at;

    t->texts = hw_alloc(bytes);
    if (!t->texts)
        return hw_fail_no_memory(reterr);
    at = t->texts;
    row->subscriber_id = keep(&at, row->subscriber_id);
    row->filter.pattern = keep(&at, row->filter.pattern);
    row->filter.stream = keep(&at, row->filter.stream);
    row->timeline = keep(&at, row->timeline);
    row->owner = keep(&at, row->owner);
    row->reason = keep(&at, row->reason);
    assert(at <= t->texts + bytes);
    return HOWDAH_OK;
}

/* Read before it is taken: fn gets the place with the new token, but the owner before. */
static int keep_row(hw_sqlite *store, hw_str subscriber_id, taken *t, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, ROW_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    bind_lease(store, stmt);
    (void)sqlite3_bind_int(stmt, 4, 1);
    s = hw_sqlite_step(store, stmt, "take a subscription", reterr);
    if (s == HOWDAH_END)
        s = fail_not_found(subscriber_id, reterr);
    if (s >= 0)
        s = take_row(store, stmt, &t->row, &t->outstanding, reterr);
    if (s >= 0)
        s = keep_texts(t, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

/* What it holds itself (after a take whose outcome it never heard) keeps nobody out. */
static bool is_in_the_way(const hw_take *take, bool held, bool same_owner)
{
    return held && !same_owner && take->instance != HOWDAH_INSTANCE_SINGLE;
}

/* HOWDAH_OK: committed.  HOWDAH_END: somebody has it. */
static int try_take(hw_sqlite *store, const hw_take *take, taken *t, howdah_error *reterr)
{
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = keep_row(store, take->subscriber_id, t, reterr);
    if (s >= 0 && (t->row.shared ||
                   is_in_the_way(take, t->row.held, hw_str_equal(t->row.owner, take->owner)))) {
        hw_sqlite_rollback(store);
        return HOWDAH_END;
    }
    if (s >= 0)
        s = hw_sqlite_is_log(store, HW_STR_NULL, reterr);
    if (s >= 0)
        s = update_owner(store, take, ++t->row.token, reterr);
    t->row.log = hw_str_of(store->log);
    return hw_sqlite_leave(store, s, reterr);
}

/* Whether somebody holds it, without the write lock: a standby asks again and again. */
static int look_first(hw_sqlite *store, const hw_take *take, bool *ret_held, howdah_error *reterr)
{
    hw_sqlite_sub_about a = {.owner = take->owner};
    hw_sqlite_sub_look l = {.there = false};
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = look_for(store, take->subscriber_id, &a, &l, reterr);
    if (s >= 0)
        *ret_held = l.shared || is_in_the_way(take, is_held(&l), l.same_owner);
    return s;
}

/* fn runs after the commit: what it is told is stored. */
int hw_sqlite_take(hw_store *base, const hw_take *take, hw_sub_row_fn fn, void *ctx,
                   howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    taken t = {.outstanding = NULL};
    bool held = false;
    int s;

    assert(take->owner.s);
    assert(take->instance == HOWDAH_INSTANCE_SINGLE || take->lease_ms > 0);
    s = look_first(store, take, &held, reterr);
    if (s >= 0)
        s = held ? HOWDAH_END : try_take(store, take, &t, reterr);
    if (s == HOWDAH_OK)
        (void)fn(ctx, &t.row);
    hw_free(t.outstanding);
    hw_free(t.texts);
    return s;
}

/* An owner that has lost it has nothing to give back.  Standbys are called. */
int hw_sqlite_release(hw_store *base, const hw_hold *hold, howdah_instance instance,
                      howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    howdah_error err = HOWDAH_ERROR_INIT;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_enter(store, true, reterr);

    (void)instance;
    if (s < 0)
        return s;
    s = hw_sqlite_check_hold(store, hold, &err);
    if (s == HOWDAH_LOST) {
        hw_sqlite_rollback(store);
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    if (s >= 0)
        s = hw_sqlite_prepare(store, RELEASE_SQL, &stmt, reterr);
    if (s >= 0) {
        hw_sqlite_bind_str(stmt, 1, hold->subscriber_id);
        (void)sqlite3_bind_int64(stmt, 2, hw_clock_wall_us());
        s = hw_sqlite_finish(store, stmt, "release a subscription", reterr);
    }
    s = hw_sqlite_leave(store, s, reterr);
    return s < 0 ? s : hw_sqlite_ring(base, NULL, 0, reterr);
}

/* ------------------------------------------------------ the rest of a row */

static int update_suspect(hw_sqlite *store, hw_str subscriber_id, int64_t sequence,
                          int64_t attempts, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, SUSPECT_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, sequence);
    (void)sqlite3_bind_int64(stmt, 3, attempts);
    return hw_sqlite_finish(store, stmt, "name a suspect", reterr);
}

/* Before the event is handled: if the handler kills its process, the next one knows. */
int hw_sqlite_suspect(hw_store *base, const hw_hold *hold, int64_t sequence, int64_t attempts,
                      howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_check_hold(store, hold, reterr);
    if (s >= 0)
        s = update_suspect(store, hold->subscriber_id, sequence, attempts, reterr);
    return hw_sqlite_leave(store, s, reterr);
}

int hw_sqlite_update_status(hw_sqlite *store, hw_str subscriber_id, hw_sub_status status,
                            hw_str reason, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, STATUS_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    assert((size_t)status < sizeof status_names / sizeof *status_names);
    hw_sqlite_bind_str(stmt, 2, hw_str_of(status_names[status]));
    hw_sqlite_bind_str(stmt, 3, reason);
    (void)sqlite3_bind_int64(stmt, 4, hw_clock_wall_us());
    return hw_sqlite_finish(store, stmt, "set a status", reterr);
}

/* Token 0: an operator, who need not own it. */
int hw_sqlite_set_status(hw_store *base, const hw_hold *hold, hw_sub_status status, hw_str reason,
                         howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_sub_look l;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = look_for(store, hold->subscriber_id, NULL, &l, reterr);
    if (s >= 0 && hold->token > 0)
        s = hw_sqlite_check_hold(store, hold, reterr);
    if (s >= 0)
        s = hw_sqlite_update_status(store, hold->subscriber_id, status, reason, reterr);
    s = hw_sqlite_leave(store, s, reterr);
    return s < 0 ? s : hw_sqlite_ring(base, NULL, 0, reterr);
}

/*
 * The token grows, so the present owner loses it; its anchor and its suspect are of the old place.
 */
int hw_sqlite_reset_sub(hw_sqlite *store, hw_str subscriber_id, int64_t high,
                        const hw_range *outstanding, size_t outstanding_n, howdah_error *reterr)
{
    hw_buf text = HW_BUF_INIT(HW_OUTSTANDING_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    hw_sqlite_sub_look l;
    int s = look_for(store, subscriber_id, NULL, &l, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, RESET_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, high);
    (void)sqlite3_bind_int64(stmt, 4, hw_clock_wall_us());
    s = hw_sqlite_bind_outstanding(stmt, 3, &text, outstanding, outstanding_n, reterr);
    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "reset a subscription", reterr);
    (void)sqlite3_finalize(stmt);
    hw_buf_done(&text);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_reset(hw_store *base, hw_str subscriber_id, int64_t high, const hw_range *outstanding,
                    size_t outstanding_n, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_reset_sub(store, subscriber_id, high, outstanding, outstanding_n, reterr);
    s = hw_sqlite_leave(store, s, reterr);
    return s < 0 ? s : hw_sqlite_ring(base, NULL, 0, reterr);
}
