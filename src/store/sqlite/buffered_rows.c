/*
 * buffered_rows.c - rows that were read, apart from the statement that read them.
 *
 *   I1  While a callback looks at a row no table is being read: no snapshot is open that would hold
 *       the write-ahead log back, and no deadline runs.  A reader may take its time.
 *   I2  What is held is bounded, in rows and in bytes (one row at least, whatever its size), unless
 *       the caller knows that the whole is small.
 *   I3  The next page begins after the key of the last row that was handed over.  So a walk sees
 *       a row that is there all the time once.  A row that comes, goes or changes its key while
 *       the walk is under way may be seen or not.  A page is one moment.
 *
 * A held row is handed over as the row of a statement that has nothing but parameters, so that the
 * functions that take rows apart need not know the difference.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define COLUMNS_MAX 64
#define BYTES_MAX (1024 * 1024)

struct hw_sqlite_row {
    sqlite3_value *values[COLUMNS_MAX];
};

/* Ready for the next page, too: hw_sqlite_hold() begins with it. */
void hw_sqlite_held_done(hw_sqlite_held *held)
{
    (void)sqlite3_finalize(held->carrier);
    held->carrier = NULL;
    for (size_t i = 0; i < held->n; i++)
        for (int k = 0; k < held->columns; k++)
            sqlite3_value_free(held->rows[i].values[k]);
    hw_free(held->rows);
    held->rows = NULL;
    held->n = 0;
    held->at = 0;
}

/* The bytes of the row, for the bound (I2); -1: no memory. */
static int64_t copy_row(sqlite3_stmt *stmt, struct hw_sqlite_row *row, int columns)
{
    int64_t bytes = 0;

    for (int k = 0; k < columns; k++) {
        row->values[k] = sqlite3_value_dup(sqlite3_column_value(stmt, k));
        if (!row->values[k])
            return -1;
        bytes += sqlite3_value_bytes(row->values[k]);
    }
    return bytes;
}

/* New rows are zeroed, so that a row that was copied only in part can be freed. */
static int grow(hw_sqlite_held *held, size_t *room, howdah_error *reterr)
{
    size_t more = *room ? *room * 2 : 8;
    struct hw_sqlite_row *rows = hw_realloc(held->rows, more * sizeof *rows);

    if (!rows)
        return hw_fail_no_memory(reterr);
    memset(rows + *room, 0, (more - *room) * sizeof *rows);
    held->rows = rows;
    *room = more;
    return HOWDAH_OK;
}

/* "SELECT ?1, ?2, ...": it reads no table, so stepping it opens no snapshot (I1). */
static int prepare_carrier(hw_sqlite_held *held, hw_sqlite *store, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(COLUMNS_MAX * 8);
    int s;

    hw_buf_puts(&sql, "SELECT ?1");
    for (int k = 1; k < held->columns; k++)
        hw_buf_printf(&sql, ",?%d", k + 1);
    s = hw_buf_check(&sql, reterr);
    if (s >= 0)
        s = hw_sqlite_prepare(store, hw_buf_str(&sql), &held->carrier, reterr);
    hw_buf_done(&sql);
    return s;
}

/* I2: stops after the row that reaches the bound; held->cut says that the statement had more. */
int hw_sqlite_hold(hw_sqlite_held *held, hw_sqlite *store, sqlite3_stmt *stmt, const char *doing,
                   howdah_error *reterr)
{
    int64_t bytes = 0;
    size_t room = 0;
    int s = HOWDAH_OK;

    hw_sqlite_held_done(held);
    held->columns = sqlite3_column_count(stmt);
    assert(held->columns > 0 && held->columns <= COLUMNS_MAX);
    while (s >= 0 && (bytes < BYTES_MAX || held->whole) &&
           (s = hw_sqlite_step(store, stmt, doing, reterr)) == HOWDAH_OK) {
        int64_t of_row;

        if (held->n == room)
            s = grow(held, &room, reterr);
        if (s < 0)
            break;
        of_row = copy_row(stmt, &held->rows[held->n++], held->columns);
        if (of_row < 0)
            s = hw_fail_no_memory(reterr);
        bytes += of_row;
    }
    held->cut = s == HOWDAH_OK;
    (void)sqlite3_reset(stmt);
    return s < 0 ? s : prepare_carrier(held, store, reterr);
}

/* The values are copied into the carrier, which the caller reads like the row itself. */
int hw_sqlite_held_next(hw_sqlite_held *held, hw_sqlite *store, sqlite3_stmt **ret_row,
                        howdah_error *reterr)
{
    int s;

    if (held->at == held->n)
        return HOWDAH_END;
    assert(held->at < held->n && held->carrier);
    (void)sqlite3_reset(held->carrier);
    for (int k = 0; k < held->columns; k++) {
        int rc = sqlite3_bind_value(held->carrier, k + 1, held->rows[held->at].values[k]);

        if (rc != SQLITE_OK)
            return hw_sqlite_fail(store, rc, "read a row", reterr);
    }
    held->at++;
    s = hw_sqlite_step(store, held->carrier, "read a row", reterr);
    *ret_row = held->carrier;
    return s;
}

/* ------------------------------------------------------------------ a walk */

/* The parameters of one page: those of the walk, the key that it begins after, and how many rows.
   The connection is made ready each time: between two pages anything may have happened to it. */
static int ask_page(hw_sqlite *store, const hw_sqlite_walk *walk, sqlite3_value *const *after,
                    int64_t limit, sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, walk->sql, ret_stmt, reterr);
    if (s < 0)
        return s;
    if (walk->bind)
        walk->bind(walk->ctx, *ret_stmt);
    for (int k = 0; k < walk->keys; k++) {
        int param = walk->key_param[k];

        if (after[k])
            (void)sqlite3_bind_value(*ret_stmt, param, after[k]);
        else if (walk->first[k].bytes.s)
            hw_sqlite_bind_str(*ret_stmt, param, walk->first[k].bytes);
        else
            (void)sqlite3_bind_int64(*ret_stmt, param, walk->first[k].number);
    }
    (void)sqlite3_bind_int64(*ret_stmt, walk->limit_param, limit);
    return HOWDAH_OK;
}

/* I3: a copy, because the held rows are gone when the next page is asked for. */
static int keep_key(const hw_sqlite_walk *walk, sqlite3_stmt *row, sqlite3_value **after,
                    howdah_error *reterr)
{
    for (int k = 0; k < walk->keys; k++) {
        sqlite3_value_free(after[k]);
        after[k] = sqlite3_value_dup(sqlite3_column_value(row, walk->key_column[k]));
        if (!after[k])
            return hw_fail_no_memory(reterr);
    }
    return HOWDAH_OK;
}

static int hand_page(hw_sqlite *store, const hw_sqlite_walk *walk, hw_sqlite_held *held,
                     sqlite3_value **after, bool *ret_stop, howdah_error *reterr)
{
    sqlite3_stmt *row = NULL;
    int s = HOWDAH_OK;

    while (s >= 0 && !*ret_stop &&
           (s = hw_sqlite_held_next(held, store, &row, reterr)) == HOWDAH_OK) {
        s = keep_key(walk, row, after, reterr);
        if (s >= 0)
            s = walk->row(walk->ctx, row, ret_stop, reterr);
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* A page with fewer rows than were asked for, and that was not cut, is the last one. */
int hw_sqlite_walk_rows(hw_sqlite *store, const hw_sqlite_walk *walk, howdah_error *reterr)
{
    sqlite3_value *after[HW_SQLITE_WALK_KEYS] = {NULL};
    hw_sqlite_held held = {.n = 0};
    int64_t left = walk->limit > 0 ? walk->limit : INT64_MAX;
    bool stop = false;
    int s = HOWDAH_OK;

    assert(walk->keys > 0 && walk->keys <= HW_SQLITE_WALK_KEYS && walk->row);
    while (s >= 0 && !stop && left > 0) {
        int64_t limit = left < HW_SQLITE_HELD_ROWS ? left : HW_SQLITE_HELD_ROWS;
        sqlite3_stmt *stmt = NULL;

        s = ask_page(store, walk, after, limit, &stmt, reterr);
        if (s >= 0)
            s = hw_sqlite_hold(&held, store, stmt, walk->doing, reterr);
        (void)sqlite3_finalize(stmt);
        if (s < 0)
            break;
        left -= (int64_t)held.n;
        stop = false;
        s = hand_page(store, walk, &held, after, &stop, reterr);
        stop = stop || (!held.cut && (int64_t)held.n < limit);
    }
    hw_sqlite_held_done(&held);
    for (int k = 0; k < HW_SQLITE_WALK_KEYS; k++)
        sqlite3_value_free(after[k]);
    return s;
}
