/*
 * import.c - reads a table of the same file in the order (created_at, id).
 *
 *   I1  Order and comparison are SQLite's own, on the stored values: so a mark must give back not
 *       only a value's text but also its type.  The text of created_at carries both types in front,
 *       "it:1700000000" for an integer time beside a text id.
 *   I2  Rows are read ahead into memory, bounded in number and bytes: on a table without an index
 *       in that order each statement sorts the whole table, so there must be few of them.
 *   I3  Rows read ahead are used only to go on after a row that was handed out; every import
 *       starts by asking for the columns, and that forgets them.
 *
 * What created_at may be:
 *   INTEGER  seconds, milliseconds, microseconds or nanoseconds since 1970, told by magnitude:
 *            below 10^11, 10^14, 10^17, above.  (10^11 seconds is the year 5138, 10^11
 *            milliseconds is March 1973.)
 *   REAL     a Julian day from 1721425.5 to 5373484.5 (the years 1 to 9999, as SQLite's own
 *            julianday() gives it); anything else as for INTEGER, with a fraction.
 *   TEXT     RFC 3339, or YYYY-MM-DD[ HH:MM[:SS[.fff]]], which is UTC when it has no offset.
 */
#include <assert.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* I2: the bounds of what is read ahead. */
#define AHEAD_ROWS_MAX 65536
#define AHEAD_BYTES_MAX (16 * 1024 * 1024)
/* Texts are kept in chunks of this size; a larger one gets a chunk of its own. */
#define CHUNK_BYTES (1024 * 1024)
#define SQL_BYTES_MAX (64 * 1024)

#define JULIAN_YEAR_1 1721425.5
#define JULIAN_YEAR_10000 5373484.5
#define JULIAN_1970 2440587.5
#define DAY_MS 86400000.0

/* Parameters of the statement: constants of the fields first, then these. */
#define PARAM_CREATED_AT (HW_IMPORT_FIELDS + 1)
#define PARAM_ID (HW_IMPORT_FIELDS + 2)
#define PARAM_LIMIT (HW_IMPORT_FIELDS + 3)

/* Memory whose addresses stay: texts of rows point into it. */
typedef struct chunk {
    struct chunk *next;
    size_t used;
    size_t room;
    char bytes[];
} chunk;

struct hw_sqlite_rows {
    hw_import_row *rows;
    size_t n;
    size_t at; /* the next row to hand out */
    size_t room;
    chunk *chunks; /* the newest first */
    size_t bytes;
};

/* ------------------------------------------------------------ rows ahead */

/* The rows' own array stays: it is used again for the next rows. */
static void forget_rows(struct hw_sqlite_rows *ahead)
{
    while (ahead->chunks) {
        chunk *next = ahead->chunks->next;

        hw_free(ahead->chunks);
        ahead->chunks = next;
    }
    ahead->n = 0;
    ahead->at = 0;
    ahead->bytes = 0;
}

void hw_sqlite_import_free(struct hw_sqlite_rows *rows)
{
    if (!rows)
        return;
    forget_rows(rows);
    hw_free(rows->rows);
    hw_free(rows);
}

/* Room for n bytes and a NUL after them, which is set.  NULL: no memory. */
static char *reserve(struct hw_sqlite_rows *ahead, size_t n)
{
    chunk *c = ahead->chunks;
    char *room;

    if (!c || c->room - c->used < n + 1) {
        size_t bytes = n + 1 > CHUNK_BYTES ? n + 1 : CHUNK_BYTES;

        c = hw_alloc(sizeof *c + bytes);
        if (!c)
            return NULL;
        *c = (chunk){.next = ahead->chunks, .used = 0, .room = bytes};
        ahead->chunks = c;
    }
    assert(c->room - c->used >= n + 1);
    room = c->bytes + c->used;
    room[n] = '\0';
    c->used += n + 1;
    ahead->bytes += n + 1;
    return room;
}

static int keep(struct hw_sqlite_rows *ahead, const void *bytes, size_t n, hw_str *ret_text,
                howdah_error *reterr)
{
    char *copy = reserve(ahead, n);

    if (!copy)
        return hw_fail_no_memory(reterr);
    if (n > 0)
        memcpy(copy, bytes, n);
    *ret_text = (hw_str){copy, n};
    return HOWDAH_OK;
}

/* -------------------------------------------------------- values as text */

/* Ids in a BLOB: 16 bytes are a UUID, anything else becomes hexadecimal. */
static int keep_blob_id(struct hw_sqlite_rows *ahead, const uint8_t *bytes, size_t n,
                        hw_str *ret_text, howdah_error *reterr)
{
    static const char digits[] = "0123456789abcdef";
    bool is_uuid = n == sizeof(hw_uuid);
    char *text = reserve(ahead, is_uuid ? HW_UUID_TEXT : n * 2);

    if (!text)
        return hw_fail_no_memory(reterr);
    *ret_text = (hw_str){text, is_uuid ? HW_UUID_TEXT : n * 2};
    if (is_uuid) {
        hw_uuid uuid;

        memcpy(uuid.b, bytes, sizeof uuid.b);
        hw_uuid_format(&uuid, text);
        return HOWDAH_OK;
    }
    for (size_t i = 0; i < n; i++) {
        text[i * 2] = digits[bytes[i] >> 4];
        text[i * 2 + 1] = digits[bytes[i] & 15];
    }
    return HOWDAH_OK;
}

/* Any value as text; absent for NULL.  A REAL keeps every digit, so that a mark finds it again. */
static int keep_value(struct hw_sqlite_rows *ahead, sqlite3_stmt *stmt, int column, bool is_id,
                      hw_str *ret_text, howdah_error *reterr)
{
    char number[32];
    const void *bytes;
    size_t n;

    *ret_text = HW_STR_NULL;
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL:
        return HOWDAH_OK;
    case SQLITE_FLOAT:
        (void)sqlite3_snprintf(sizeof number, number, "%!.17g",
                               sqlite3_column_double(stmt, column));
        return keep(ahead, number, strlen(number), ret_text, reterr);
    case SQLITE_BLOB:
        bytes = sqlite3_column_blob(stmt, column);
        break;
    default:
        bytes = sqlite3_column_text(stmt, column);
        break;
    }
    n = (size_t)sqlite3_column_bytes(stmt, column);
    if (!bytes && n > 0)
        return hw_fail_no_memory(reterr);
    if (is_id && sqlite3_column_type(stmt, column) == SQLITE_BLOB)
        return keep_blob_id(ahead, bytes, n, ret_text, reterr);
    return keep(ahead, bytes, n, ret_text, reterr);
}

/* ----------------------------------------------------------------- times */

/* Halves are rounded away from zero. */
static int64_t nearest(double value)
{
    return (int64_t)(value < 0 ? value - 0.5 : value + 0.5);
}

/* In whole numbers, since a double has 53 bits only; the magnitude tells the unit. */
static bool time_of_integer(int64_t value, int64_t *ret_us)
{
    double size = value < 0 ? -(double)value : (double)value;

    if (size >= 1e17)
        *ret_us = value / 1000;
    else if (size >= 1e14)
        *ret_us = value;
    else
        *ret_us = value * (size < 1e11 ? 1000000 : 1000);
    return *ret_us >= HW_TIME_MIN_US && *ret_us <= HW_TIME_MAX_US;
}

/* As for integers, with a fraction.  A value in the range of Julian days is taken for one: as
   seconds it would mean the first weeks of 1970. */
static bool time_of_real(double value, int64_t *ret_us)
{
    double size = value < 0 ? -value : value;
    double scale = size < 1e11 ? 1e6 : size < 1e14 ? 1e3 : size < 1e17 ? 1 : 1e-3;

    /* SQLite's Julian days are good to a millisecond. */
    if (value >= JULIAN_YEAR_1 && value < JULIAN_YEAR_10000) {
        *ret_us = nearest((value - JULIAN_1970) * DAY_MS) * 1000;
        return true;
    }
    if (!(value * scale >= (double)HW_TIME_MIN_US && value * scale <= (double)HW_TIME_MAX_US))
        return false; /* NaN and infinity as well */
    *ret_us = nearest(value * scale);
    return true;
}

/* The zone after a time: none is UTC, and +hh and +hhmm get their colon. */
static void put_zone(hw_buf *out, const char *zone, size_t len)
{
    if (len == 0) {
        hw_buf_putc(out, 'Z');
    } else if (len == 5 && zone[3] != ':') {
        hw_buf_put(out, zone, 3);
        hw_buf_putc(out, ':');
        hw_buf_put(out, zone + 3, 2);
    } else {
        hw_buf_put(out, zone, len);
        if (len == 3)
            hw_buf_puts(out, ":00");
    }
}

/* Makes RFC 3339 of what databases and languages commonly write, and leaves the rest to the one
   parser. */
static bool time_of_text(const char *text, size_t len, int64_t *ret_us)
{
    hw_buf out = HW_BUF_INIT(128);
    size_t zone = 11;
    bool good;

    if (len < 10 || len > 64 || (len > 10 && !memchr(" Tt", text[10], 3)))
        return false;
    hw_buf_put(&out, text, 10);
    hw_buf_putc(&out, 'T');
    while (zone < len && !memchr("Zz+-", text[zone], 4))
        zone++;
    if (len <= 11)
        hw_buf_puts(&out, "00:00:00");
    else
        hw_buf_put(&out, text + 11, zone - 11);
    if (zone - 11 == 5)
        hw_buf_puts(&out, ":00");
    put_zone(&out, text + zone, len > zone ? len - zone : 0);
    good = !out.broken && hw_time_parse(hw_buf_str(&out), out.len, ret_us);
    hw_buf_done(&out);
    return good;
}

/* By the stored type, not by the column's: SQLite lets each row have its own. */
static bool time_of_value(sqlite3_stmt *stmt, int column, int64_t *ret_us)
{
    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_INTEGER:
        return time_of_integer(sqlite3_column_int64(stmt, column), ret_us);
    case SQLITE_FLOAT:
        return time_of_real(sqlite3_column_double(stmt, column), ret_us);
    case SQLITE_TEXT: {
        const char *text = (const char *)sqlite3_column_text(stmt, column);

        return text && time_of_text(text, (size_t)sqlite3_column_bytes(stmt, column), ret_us);
    }
    default:
        return false;
    }
}

/* ----------------------------------------------------------------- marks */

/* The types in a mark (I1). */
static char kind_of_type(int type)
{
    return type == SQLITE_INTEGER ? 'i'
           : type == SQLITE_FLOAT ? 'r'
           : type == SQLITE_BLOB  ? 'b'
                                  : 't';
}

/* I1: the two types, a colon and the value, such as "it:1700000000". */
static int keep_order_key(struct hw_sqlite_rows *ahead, sqlite3_stmt *stmt, hw_str created_at,
                          hw_str *ret_key, howdah_error *reterr)
{
    char *key = reserve(ahead, created_at.len + 3);

    if (!key)
        return hw_fail_no_memory(reterr);
    key[0] = kind_of_type(sqlite3_column_type(stmt, HW_IMPORT_CREATED_AT));
    key[1] = kind_of_type(sqlite3_column_type(stmt, HW_IMPORT_ID));
    key[2] = ':';
    memcpy(key + 3, created_at.s, created_at.len);
    *ret_key = (hw_str){key, created_at.len + 3};
    return HOWDAH_OK;
}

/* Of a digit that we wrote ourselves; anything else counts as 0. */
static unsigned hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10 : 0;
}

/* The reverse of keep_blob_id(). */
static bool bind_blob_id(sqlite3_stmt *stmt, int index, hw_str text)
{
    hw_uuid uuid;
    uint8_t *bytes;

    if (hw_uuid_parse(text.s, text.len, &uuid))
        return sqlite3_bind_blob(stmt, index, uuid.b, sizeof uuid.b, SQLITE_TRANSIENT) == SQLITE_OK;
    bytes = sqlite3_malloc64(text.len / 2 + 1);
    if (!bytes)
        return false;
    for (size_t i = 0; i + 1 < text.len; i += 2)
        bytes[i / 2] = (uint8_t)(hex_value(text.s[i]) << 4 | hex_value(text.s[i + 1]));
    return sqlite3_bind_blob64(stmt, index, bytes, text.len / 2, sqlite3_free) == SQLITE_OK;
}

/* By the rules of C, whatever the program's locale takes for a decimal point. */
static bool bind_real(sqlite3_stmt *stmt, int index, const char *text)
{
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    int rc;

    if (!plain)
        return false;
    rc = sqlite3_bind_double(stmt, index, strtod_l(text, NULL, plain));
    freelocale(plain);
    return rc == SQLITE_OK;
}

/* Gives a value of a mark its type back (I1).  The mark is our own, so it is not judged. */
static bool bind_typed(sqlite3_stmt *stmt, int index, char kind, hw_str text)
{
    switch (kind) {
    case 'i':
        return sqlite3_bind_int64(stmt, index, strtoll(text.s, NULL, 10)) == SQLITE_OK;
    case 'r':
        return bind_real(stmt, index, text.s);
    case 'b':
        return bind_blob_id(stmt, index, text);
    default:
        hw_sqlite_bind_str(stmt, index, text);
        return true;
    }
}

/* A mark that was stored without its types cannot be compared with the rows: it is damaged. */
static int bind_mark(sqlite3_stmt *stmt, const hw_import_place *after, howdah_error *reterr)
{
    hw_str key = after->created_at;

    if (key.len < 3 || key.s[2] != ':' || !after->id.s)
        return hw_fail(reterr, HOWDAH_CORRUPT, "import: the stored mark of %s is damaged",
                       after->source.s ? after->source.s : "the table");
    if (!bind_typed(stmt, PARAM_CREATED_AT, key.s[0], (hw_str){key.s + 3, key.len - 3}) ||
        !bind_typed(stmt, PARAM_ID, key.s[1], after->id))
        return hw_fail_no_memory(reterr);
    return HOWDAH_OK;
}

/* --------------------------------------------------------- the statement */

/* Quoted, and qualified by put_field(): SQLite takes a lone "name" that is no column for a text. */
static void put_name(hw_buf *sql, hw_str name)
{
    hw_buf_putc(sql, '"');
    for (size_t i = 0; i < name.len; i++) {
        if (name.s[i] == '"')
            hw_buf_putc(sql, '"');
        hw_buf_putc(sql, name.s[i]);
    }
    hw_buf_putc(sql, '"');
}

static void put_table(hw_buf *sql, const hw_import_source *source)
{
    put_name(sql, source->schema.s ? source->schema : HW_STR_LIT("main"));
    hw_buf_putc(sql, '.');
    put_name(sql, source->table);
}

/* A column, a constant of the user's, which is bound, or NULL. */
static void put_field(hw_buf *sql, const hw_import_source *source, hw_import_field field)
{
    if (source->column[field].s) {
        hw_buf_puts(sql, "t.");
        put_name(sql, source->column[field]);
    } else if (source->constant[field].s) {
        hw_buf_printf(sql, "?%d", (int)field + 1);
    } else {
        hw_buf_puts(sql, "NULL");
    }
}

/* Column i of the result is field i.  The row values after WHERE are compared as ORDER BY sorts
   them, so a page begins exactly after the mark. */
static void put_select(hw_buf *sql, const hw_import_source *source, bool behind_mark)
{
    hw_buf_puts(sql, "SELECT ");
    for (int i = 0; i < HW_IMPORT_FIELDS; i++) {
        hw_buf_puts(sql, i > 0 ? ", " : "");
        put_field(sql, source, (hw_import_field)i);
    }
    hw_buf_puts(sql, " FROM ");
    put_table(sql, source);
    hw_buf_puts(sql, " AS t");
    if (behind_mark) {
        hw_buf_puts(sql, " WHERE (");
        put_field(sql, source, HW_IMPORT_CREATED_AT);
        hw_buf_puts(sql, ", ");
        put_field(sql, source, HW_IMPORT_ID);
        hw_buf_printf(sql, ") > (?%d, ?%d)", PARAM_CREATED_AT, PARAM_ID);
    }
    hw_buf_puts(sql, " ORDER BY ");
    put_field(sql, source, HW_IMPORT_CREATED_AT);
    hw_buf_puts(sql, ", ");
    put_field(sql, source, HW_IMPORT_ID);
    hw_buf_printf(sql, " LIMIT ?%d", PARAM_LIMIT);
}

/* An error in the statement itself means that the user's map names something that is not there.
   Frees the text. */
static int prepare_sql(hw_sqlite *store, hw_buf *sql, sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    int s = hw_buf_check(sql, reterr);

    if (s >= 0) {
        int rc = sqlite3_prepare_v2(store->db, hw_buf_str(sql), -1, ret_stmt, NULL);

        if ((rc & 0xff) == SQLITE_ERROR)
            s = hw_fail_field(reterr, HOWDAH_INVALID, "map", "%s", sqlite3_errmsg(store->db));
        else if (rc != SQLITE_OK)
            s = hw_sqlite_fail(store, rc, "import", reterr);
    }
    hw_buf_done(sql);
    return s;
}

/* The limit is that of the rows read ahead, not of the caller's page (I2). */
static int prepare_rows(hw_sqlite *store, const hw_import_source *source,
                        const hw_import_place *after, sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    int s;

    put_select(&sql, source, after != NULL);
    s = prepare_sql(store, &sql, &stmt, reterr);
    if (s < 0)
        return s;
    for (int i = 0; i < HW_IMPORT_FIELDS; i++)
        if (!source->column[i].s && source->constant[i].s)
            hw_sqlite_bind_str(stmt, i + 1, source->constant[i]);
    (void)sqlite3_bind_int(stmt, PARAM_LIMIT, AHEAD_ROWS_MAX);
    s = after ? bind_mark(stmt, after, reterr) : HOWDAH_OK;
    if (s < 0) {
        (void)sqlite3_finalize(stmt);
        return s;
    }
    *ret_stmt = stmt;
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------ rows */

/* Says which row: an import of millions is stopped by one, and somebody has to find it. */
static int refuse_row(const hw_import_row *row, howdah_error *reterr)
{
    hw_str id = row->field[HW_IMPORT_ID];
    int s;

    if (!id.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "id", "a row has none (NULL)");
    s = hw_fail_field(reterr, HOWDAH_INVALID, "created_at",
                      "row with id %.64s: neither a number of the years 1 to 9999 nor a time",
                      id.s);
    return hw_advise(reterr, s, "wanted RFC 3339, YYYY-MM-DD HH:MM:SS, or a number since 1970");
}

/* created_at is kept as its order key, beside the time that it means. */
static int take_row(struct hw_sqlite_rows *ahead, sqlite3_stmt *stmt, hw_import_row *row,
                    howdah_error *reterr)
{
    hw_str created_at;
    int s = HOWDAH_OK;

    for (int i = 0; s >= 0 && i < HW_IMPORT_FIELDS; i++)
        s = keep_value(ahead, stmt, i, i == HW_IMPORT_ID || i == HW_IMPORT_CAUSATION_ID,
                       &row->field[i], reterr);
    if (s < 0)
        return s;
    created_at = row->field[HW_IMPORT_CREATED_AT];
    if (!row->field[HW_IMPORT_ID].s || !created_at.s ||
        !time_of_value(stmt, HW_IMPORT_CREATED_AT, &row->created_at_us))
        return refuse_row(row, reterr);
    return keep_order_key(ahead, stmt, created_at, &row->field[HW_IMPORT_CREATED_AT], reterr);
}

static int make_row_room(struct hw_sqlite_rows *ahead, howdah_error *reterr)
{
    size_t room = ahead->room > 0 ? ahead->room * 2 : 256;
    hw_import_row *rows;

    if (ahead->n < ahead->room)
        return HOWDAH_OK;
    rows = hw_realloc(ahead->rows, room * sizeof *rows);
    if (!rows)
        return hw_fail_no_memory(reterr);
    ahead->rows = rows;
    ahead->room = room;
    return HOWDAH_OK;
}

/* I2.  A bad row after good ones is left for the next time: first the good ones are imported.
   The sort may be larger than memory, so it may use a file. */
static int read_ahead(hw_sqlite *store, const hw_import_source *source,
                      const hw_import_place *after, howdah_error *reterr)
{
    struct hw_sqlite_rows *ahead = store->import;
    howdah_error err = HOWDAH_ERROR_INIT;
    sqlite3_stmt *stmt = NULL;
    int s;

    hw_sqlite_temp_in_file(store, true);
    s = prepare_rows(store, source, after, &stmt, &err);
    forget_rows(ahead);
    while (s >= 0 && ahead->bytes < AHEAD_BYTES_MAX) {
        s = hw_sqlite_step(store, stmt, "import", &err);
        if (s == HOWDAH_OK)
            s = make_row_room(ahead, &err);
        if (s == HOWDAH_OK)
            s = take_row(ahead, stmt, &ahead->rows[ahead->n], &err);
        if (s != HOWDAH_OK)
            break;
        ahead->n++;
    }
    (void)sqlite3_finalize(stmt);
    hw_sqlite_temp_in_file(store, false);
    if (s >= 0 || (s == HOWDAH_INVALID && ahead->n > 0))
        return HOWDAH_OK;
    hw_error_copy(reterr, &err);
    return s;
}

/* I3: finds the mark's row among those that were handed out; what follows it is next.  False: the
   rows have to be read from the table. */
static bool go_on_behind(struct hw_sqlite_rows *ahead, const hw_import_place *after)
{
    for (size_t i = ahead->at; after && i > 0; i--) {
        const hw_import_row *row = &ahead->rows[i - 1];

        if (hw_str_equal(row->field[HW_IMPORT_CREATED_AT], after->created_at) &&
            hw_str_equal(row->field[HW_IMPORT_ID], after->id)) {
            ahead->at = i;
            return i < ahead->n;
        }
    }
    return false;
}

/* The rows are the store's own until the next call. */
int hw_sqlite_import_rows(hw_store *base, const hw_import_source *source,
                          const hw_import_place *after, size_t n, const hw_import_row **ret_rows,
                          size_t *ret_n, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    struct hw_sqlite_rows *ahead;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s < 0)
        return s;
    if (!store->import)
        store->import = hw_calloc(1, sizeof *store->import);
    ahead = store->import;
    if (!ahead)
        return hw_fail_no_memory(reterr);
    if (after && !after->created_at.s)
        after = NULL;
    if (!go_on_behind(ahead, after)) {
        s = read_ahead(store, source, after, reterr);
        if (s < 0)
            return s;
    }
    assert(ahead->at <= ahead->n);
    *ret_rows = ahead->rows + ahead->at;
    *ret_n = ahead->n - ahead->at < n ? ahead->n - ahead->at : n;
    ahead->at += *ret_n;
    return HOWDAH_OK;
}

/* -------------------------------------------------- columns, marks, total */

static int check_source(const hw_import_source *source, howdah_error *reterr)
{
    /* The log as its own source would never come to an end. */
    if (strncasecmp(source->table.s, "howdah_", 7) == 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "table", "is one of the log's own tables");
    return HOWDAH_OK;
}

/* The first call of every import: what is read ahead belongs to the one before (I3). */
int hw_sqlite_import_columns(hw_store *base, hw_import_source *source,
                             int (*fn)(void *ctx, const char *column), void *ctx,
                             howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    size_t columns = 0;
    int rc;
    int s = check_source(source, reterr);

    if (s >= 0)
        s = hw_sqlite_ready(store, HW_NEED_READ, reterr);
    if (s < 0)
        return s;
    if (store->import)
        forget_rows(store->import); /* a new import begins */
    rc = sqlite3_prepare_v2(store->db,
                            "SELECT name FROM pragma_table_xinfo(?1, ?2) WHERE hidden <> 1", -1,
                            &stmt, NULL);
    if (rc != SQLITE_OK)
        return hw_sqlite_fail(store, rc, "import", reterr);
    hw_sqlite_bind_str(stmt, 1, source->table);
    hw_sqlite_bind_str(stmt, 2, source->schema.s ? source->schema : HW_STR_LIT("main"));
    while ((s = hw_sqlite_step(store, stmt, "import", reterr)) == HOWDAH_OK) {
        const char *name = (const char *)sqlite3_column_text(stmt, 0);

        columns++;
        if (name && fn(ctx, name) != 0)
            break;
    }
    (void)sqlite3_finalize(stmt);
    if (s >= 0 && columns == 0)
        return hw_fail(reterr, HOWDAH_NOT_FOUND, "import: %s has no such table", store->name);
    return s < 0 ? s : HOWDAH_OK;
}

/* HOWDAH_END: this source was never imported.  Both texts lie in ret_buf, with a NUL between
   them. */
int hw_sqlite_import_place(hw_store *base, hw_str source, hw_buf *ret_buf,
                           hw_import_place *ret_place, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    int rc;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    if (s < 0)
        return s;
    rc = sqlite3_prepare_v2(
        store->db, "SELECT created_at, id, rows FROM main.howdah_imports WHERE source = ?1", -1,
        &stmt, NULL);
    if (rc != SQLITE_OK)
        return hw_sqlite_fail(store, rc, "import", reterr);
    hw_sqlite_bind_str(stmt, 1, source);
    s = hw_sqlite_step(store, stmt, "import", reterr);
    if (s == HOWDAH_OK) {
        const void *key = sqlite3_column_text(stmt, 0);
        const void *id = sqlite3_column_text(stmt, 1);
        size_t key_len = (size_t)sqlite3_column_bytes(stmt, 0);
        size_t id_len = (size_t)sqlite3_column_bytes(stmt, 1);

        hw_buf_put(ret_buf, key, key_len);
        hw_buf_putc(ret_buf, '\0');
        hw_buf_put(ret_buf, id, id_len);
        s = hw_buf_check(ret_buf, reterr);
        if (s >= 0)
            *ret_place = (hw_import_place){.source = source,
                                           .created_at = {ret_buf->data, key_len},
                                           .id = {ret_buf->data + key_len + 1, id_len},
                                           .rows = sqlite3_column_int64(stmt, 2)};
    }
    (void)sqlite3_finalize(stmt);
    return s;
}

/* For the progress that is shown; it may be off by what is written meanwhile. */
int hw_sqlite_import_total(hw_store *base, const hw_import_source *source, int64_t *ret_total,
                           howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s < 0)
        return s;
    hw_buf_puts(&sql, "SELECT count(*) FROM ");
    put_table(&sql, source);
    s = prepare_sql(store, &sql, &stmt, reterr);
    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "import", reterr);
    if (s == HOWDAH_OK)
        *ret_total = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return s;
}
