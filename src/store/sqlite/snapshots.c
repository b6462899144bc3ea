/*
 * snapshots.c - states of streams, as the user has computed them.
 *
 *   I1  A snapshot and the end of those that it pushes out are one transaction.
 *   I2  The version that a snapshot names is in the log when it is stored.
 */
#include <assert.h>
#include <inttypes.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

#define PAYLOAD_BYTES_MAX (256 * 1024 * 1024)

#define VERSION_SQL "SELECT 1 FROM main.howdah_events WHERE stream = ?1 AND version = ?2"
#define PUT_SQL                                                                                    \
    "INSERT INTO main.howdah_snapshots (stream, version, taken_at, schema_version, content_type,"  \
    " data, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (stream, version) DO UPDATE"    \
    " SET taken_at = excluded.taken_at, schema_version = excluded.schema_version,"                 \
    " content_type = excluded.content_type, data = excluded.data, bytes = excluded.bytes"
/* ?1 stream, ?2 how many stay */
#define KEEP_SQL                                                                                   \
    "DELETE FROM main.howdah_snapshots WHERE stream = ?1 AND version <= (SELECT version"           \
    " FROM main.howdah_snapshots WHERE stream = ?1 ORDER BY version DESC LIMIT 1 OFFSET ?2)"
/* ?1 stream, ?2 version or 0 */
#define REMOVE_SQL                                                                                 \
    "DELETE FROM main.howdah_snapshots WHERE stream = ?1 AND (?2 = 0 OR version <= ?2)"

#define COLUMNS                                                                                    \
    "SELECT stream, version, taken_at, schema_version, content_type,"                              \
    " length(CAST(coalesce(data, bytes) AS BLOB))"
#define GET_SQL                                                                                    \
    COLUMNS ", data, bytes FROM main.howdah_snapshots"                                             \
            " WHERE stream = ?1 AND (?2 = 0 OR version <= ?2) ORDER BY version DESC LIMIT 1"
/* ?1 stream or NULL */
#define LIST_SQL                                                                                   \
    COLUMNS " FROM main.howdah_snapshots"                                                          \
            " WHERE (?1 IS NULL OR stream = ?1) AND (stream, version) > (?2, ?3)"                  \
            " ORDER BY stream, version LIMIT ?4"

enum {
    COL_STREAM,
    COL_VERSION,
    COL_TAKEN_AT,
    COL_SCHEMA_VERSION,
    COL_TYPE,
    COL_LEN,
    COL_DATA,
    COL_BYTES
};

/* ------------------------------------------------------------------ writing */

/* I2.  In the transaction that stores the snapshot: nothing can be removed in between. */
static int check_version(hw_sqlite *store, const howdah_snapshot *snapshot, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, VERSION_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, hw_str_of(snapshot->stream));
    (void)sqlite3_bind_int64(stmt, 2, snapshot->version);
    s = hw_sqlite_step(store, stmt, "store a snapshot", reterr);
    (void)sqlite3_finalize(stmt);
    if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "stream \"%s\" has no version %" PRId64,
                    snapshot->stream, snapshot->version);
    return s;
}

/* The same version again replaces the snapshot: the user has computed it anew. */
static int put(hw_sqlite *store, const howdah_snapshot *snapshot, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, PUT_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    assert(snapshot->data);
    hw_sqlite_bind_str(stmt, 1, hw_str_of(snapshot->stream));
    (void)sqlite3_bind_int64(stmt, 2, snapshot->version);
    (void)sqlite3_bind_int64(stmt, 3, hw_clock_wall_us());
    (void)sqlite3_bind_int64(stmt, 4, snapshot->schema_version);
    hw_sqlite_bind_str(stmt, 5, hw_str_of(snapshot->content_type));
    if (snapshot->content_type)
        (void)sqlite3_bind_blob64(stmt, 7, snapshot->data, snapshot->data_len, SQLITE_STATIC);
    else
        hw_sqlite_bind_str(stmt, 6, (hw_str){snapshot->data, snapshot->data_len});
    return hw_sqlite_finish(store, stmt, "store a snapshot", reterr);
}

/* DELETE with a stream and a number. */
static int erase(hw_sqlite *store, const char *sql, hw_str stream, int64_t number, int64_t *ret_n,
                 howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, sql, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, stream);
    (void)sqlite3_bind_int64(stmt, 2, number);
    s = hw_sqlite_finish(store, stmt, "remove snapshots", reterr);
    if (s >= 0)
        *ret_n = sqlite3_changes64(store->db);
    return s;
}

/* keep counts the snapshots of the stream that stay, this one included.  0: all. */
int hw_sqlite_snapshot_put(hw_store *base, const howdah_snapshot *snapshot, int64_t keep,
                           howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int64_t n = 0;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = check_version(store, snapshot, reterr);
    if (s >= 0)
        s = put(store, snapshot, reterr);
    if (s >= 0 && keep > 0)
        s = erase(store, KEEP_SQL, hw_str_of(snapshot->stream), keep, &n, reterr);
    return hw_sqlite_leave(store, s, reterr);
}

/* upto 0: all of the stream. */
int hw_sqlite_snapshot_remove(hw_store *base, hw_str stream, int64_t upto, int64_t *ret_removed,
                              howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int64_t n = 0;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_leave(store, erase(store, REMOVE_SQL, stream, upto, &n, reterr), reterr);
    if (s >= 0 && ret_removed)
        *ret_removed = n;
    return s;
}

/* ------------------------------------------------------------------ reading */

/* Everything but the data.  Texts are the statement's until its next step. */
static int take(hw_sqlite *store, sqlite3_stmt *stmt, howdah_snapshot *ret_snapshot,
                howdah_error *reterr)
{
    *ret_snapshot =
        (howdah_snapshot){.size = sizeof *ret_snapshot,
                          .stream = hw_sqlite_borrow(stmt, COL_STREAM).s,
                          .version = sqlite3_column_int64(stmt, COL_VERSION),
                          .taken_at_us = sqlite3_column_int64(stmt, COL_TAKEN_AT),
                          .schema_version = sqlite3_column_int(stmt, COL_SCHEMA_VERSION),
                          .content_type = hw_sqlite_borrow(stmt, COL_TYPE).s,
                          .data_len = (size_t)sqlite3_column_int64(stmt, COL_LEN)};
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    if (!ret_snapshot->stream)
        return hw_fail(reterr, HOWDAH_CORRUPT, "%s: a snapshot is damaged", store->name);
    return HOWDAH_OK;
}

/* A blob has no NUL after it, which every text has: it is copied to bytes. */
static int take_data(hw_sqlite *store, sqlite3_stmt *stmt, hw_buf *bytes, howdah_snapshot *snapshot,
                     howdah_error *reterr)
{
    hw_str data = hw_sqlite_borrow(stmt, COL_DATA);
    int s;

    snapshot->data = data.s;
    snapshot->data_len = data.len;
    if (data.s)
        return HOWDAH_OK;
    hw_buf_put(bytes, sqlite3_column_blob(stmt, COL_BYTES),
               (size_t)sqlite3_column_bytes(stmt, COL_BYTES));
    snapshot->data = hw_buf_str(bytes);
    snapshot->data_len = bytes->len;
    s = sqlite3_errcode(store->db) == SQLITE_NOMEM ? hw_fail_no_memory(reterr) : HOWDAH_OK;
    return s < 0 ? s : hw_buf_check(bytes, reterr);
}

/* fn is called while the statement is open: it is one row, and JSON need not be copied. */
int hw_sqlite_snapshot_get(hw_store *base, hw_str stream, int64_t version, hw_snapshot_fn fn,
                           void *ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_buf bytes = HW_BUF_INIT(PAYLOAD_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    howdah_snapshot snapshot;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, GET_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, stream);
    (void)sqlite3_bind_int64(stmt, 2, version);
    s = hw_sqlite_step(store, stmt, "load a snapshot", reterr);
    if (s == HOWDAH_OK) {
        s = take(store, stmt, &snapshot, reterr);
        if (s >= 0)
            s = take_data(store, stmt, &bytes, &snapshot, reterr);
        if (s >= 0)
            (void)fn(ctx, &snapshot);
    }
    (void)sqlite3_finalize(stmt);
    hw_buf_done(&bytes);
    return s;
}

/* What bind_stream() and hand() need of the call. */
typedef struct snapshot_walk {
    hw_sqlite *store;
    hw_str stream; /* absent: of all */
    hw_snapshot_fn fn;
    void *ctx;
} snapshot_walk;

static void bind_stream(void *ctx, sqlite3_stmt *stmt)
{
    hw_sqlite_bind_str(stmt, 1, ((snapshot_walk *)ctx)->stream);
}

static int hand(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    const snapshot_walk *w = ctx;
    howdah_snapshot snapshot;
    int s = take(w->store, stmt, &snapshot, reterr);

    if (s >= 0)
        *ret_stop = w->fn(w->ctx, &snapshot) != 0;
    return s;
}

/* Without the data, which may be large: page by page, with nothing open while fn runs
   (buffered_rows.c I1). */
int hw_sqlite_snapshot_list(hw_store *base, hw_str stream, hw_snapshot_fn fn, void *ctx,
                            howdah_error *reterr)
{
    snapshot_walk w = {(hw_sqlite *)base, stream, fn, ctx};
    const hw_sqlite_walk walk = {.sql = LIST_SQL,
                                 .doing = "list snapshots",
                                 .keys = 2,
                                 .key_column = {COL_STREAM, COL_VERSION},
                                 .key_param = {2, 3},
                                 .first = {{.bytes = HW_STR_LIT("")}, {.number = 0}},
                                 .limit_param = 4,
                                 .bind = bind_stream,
                                 .row = hand,
                                 .ctx = &w};

    return hw_sqlite_walk_rows(w.store, &walk, reterr);
}
