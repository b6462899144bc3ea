/*
 * row_digest.c - whether an event is still the one that was stored: 0006_pins.sql.
 *
 *   I1  The same digest is made of an event that goes in, and of its row: the values of COLUMNS in
 *       this order, each by its kind and content.
 *   I2  A look at all rows is made in pages, each a statement of its own, so that no reader holds
 *       the write-ahead log back.  Rows do not change, but for a purge, which takes the
 *       digest away.
 */
#include "base/digest.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define PAGE_ROWS 1000
#define COLUMNS                                                                                    \
    "id, stream, version, type, recorded_at, schema_version, revision, valid_time, family,"        \
    " corrects, causation_id, correlation_id, actor, content_type, reason, headers, data, bytes,"  \
    " retracts"
#define COLUMNS_N 19
#define ROWS_SQL                                                                                   \
    "SELECT " COLUMNS ", digest, global_sequence FROM main.howdah_events"                          \
    " WHERE global_sequence > ?1 AND digest IS NOT NULL ORDER BY global_sequence LIMIT ?2"

/* I1: the kind goes into the digest before the content, so that a number is not taken for a text
   of the same bytes, nor NULL for an empty one. */
enum { NOTHING = 1, NUMBER, TEXT, BYTES };

static uint64_t put_nothing(uint64_t h)
{
    return hw_quick_number(h, NOTHING);
}

/* The kind, then the value: see the enum. */
static uint64_t put_number(uint64_t h, int64_t value)
{
    return hw_quick_number(hw_quick_number(h, NUMBER), (uint64_t)value);
}

static uint64_t put_bytes(uint64_t h, int kind, const void *bytes, size_t n)
{
    return hw_quick_bytes(hw_quick_number(h, (uint64_t)kind), bytes, n);
}

static uint64_t put_text(uint64_t h, hw_str text)
{
    return text.s ? put_bytes(h, TEXT, text.s, text.len) : put_nothing(h);
}

static uint64_t put_uuid(uint64_t h, bool present, const hw_uuid *uuid)
{
    return present ? put_bytes(h, BYTES, uuid->b, sizeof uuid->b) : put_nothing(h);
}

/* I1: the columns in the order of COLUMNS, as bind_row() of append.c binds them. */
int64_t hw_sqlite_event_digest(const howdah_event *e, int64_t version, int64_t recorded_at_us)
{
    bool json = !e->content_type.s;
    uint64_t h = put_uuid(0, true, &e->id);

    h = put_number(put_text(h, e->stream), version);
    h = put_number(put_text(h, e->type), recorded_at_us);
    h = put_number(put_number(h, e->schema_version), e->revision);
    h = e->valid_time_us == HW_TIME_ABSENT ? put_nothing(h) : put_number(h, e->valid_time_us);
    h = put_uuid(h, e->has_family, &e->family);
    h = put_uuid(h, e->has_corrects, &e->corrects);
    h = put_uuid(h, e->has_causation, &e->causation_id);
    h = put_text(put_text(h, e->correlation_id), e->actor);
    h = put_text(put_text(h, e->content_type), e->reason);
    h = put_text(put_text(h, e->headers), json ? e->data : HW_STR_NULL);
    h = json ? put_nothing(h) : put_bytes(h, BYTES, e->data.s, e->data.len);
    return (int64_t)(e->retracts ? put_number(h, 1) : put_nothing(h));
}

/*
 * I1: as the value is stored.  A column of another type than it should have gives another digest.
 */
static uint64_t put_column(uint64_t h, sqlite3_stmt *stmt, int column)
{
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL:
        return put_nothing(h);
    case SQLITE_INTEGER:
        return put_number(h, sqlite3_column_int64(stmt, column));
    case SQLITE_BLOB:
        return put_bytes(h, BYTES, sqlite3_column_blob(stmt, column),
                         (size_t)sqlite3_column_bytes(stmt, column));
    default:
        return put_text(h, hw_sqlite_borrow(stmt, column));
    }
}

/* A digest finds damage and carelessness.  It has no secret: it does not find somebody who
   changes both on purpose. */
static bool is_as_stored(sqlite3_stmt *stmt)
{
    uint64_t h = 0;

    for (int i = 0; i < COLUMNS_N; i++)
        h = put_column(h, stmt, i);
    return (int64_t)h == sqlite3_column_int64(stmt, COLUMNS_N);
}

/* Of the rows after *at, which moves on.  *ret_rows: how many there were. */
static int count_page(hw_sqlite *store, sqlite3_stmt *stmt, int64_t *at, int *ret_rows,
                      int64_t *changed, howdah_error *reterr)
{
    int s;

    *ret_rows = 0;
    (void)sqlite3_bind_int64(stmt, 1, *at);
    (void)sqlite3_bind_int(stmt, 2, PAGE_ROWS);
    while ((s = hw_sqlite_step(store, stmt, "verify events", reterr)) == HOWDAH_OK) {
        *changed += !is_as_stored(stmt);
        *at = sqlite3_column_int64(stmt, COLUMNS_N + 1);
        ++*ret_rows;
    }
    (void)sqlite3_reset(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* I2.  Events from before digests were kept have none, and are not looked at. */
int hw_sqlite_count_changed(hw_sqlite *store, int64_t *ret_changed, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t at = 0;
    int rows = PAGE_ROWS;
    int s = hw_sqlite_prepare(store, ROWS_SQL, &stmt, reterr);

    *ret_changed = 0;
    while (s >= 0 && rows == PAGE_ROWS)
        s = count_page(store, stmt, &at, &rows, ret_changed, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}
