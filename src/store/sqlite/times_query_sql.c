/*
 * times_query_sql.c - a question about the two times as SQL.
 *
 * A statement is put together from fragments, one for each filter that is there; what the user
 * gave is bound, never written into the text.
 *
 *   I1  e is the event in question.  It is current at K when it was recorded by K and the next
 *       revision of its family was not (times.h, I1): one probe of howdah_events_by_family,
 *       which holds corrections only, and no grouping.
 *   I2  The filter that is likely to find least leads the way by its index, and INDEXED BY insists
 *       on it: the plan does not depend on statistics.
 *   I3  A pattern is narrowed down here, to what GLOB can say, and decided by hw_pattern_matches():
 *       the caller that steps the statement asks hw_sqlite_select_matches() about each row.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "engine/pattern.h"
#include "store/sqlite/sqlite.h"

#define SQL_BYTES_MAX (64 * 1024)

#define VALID_TIME "coalesce(e.valid_time, e.recorded_at)"

/* ?, ? how many, and ?, ? their ids, one after the other. */
#define OF_FAMILIES                                                                                \
    " AND e.global_sequence IN (WITH RECURSIVE f (i, id) AS (SELECT 1, substr(?, 1, 16)"           \
    " WHERE ? > 0 UNION ALL SELECT i + 1, substr(?, i * 16 + 1, 16) FROM f WHERE i < ?)"           \
    " SELECT x.global_sequence FROM f CROSS JOIN main.howdah_events x ON x.id = f.id"              \
    " WHERE x.family IS NULL UNION SELECT x.global_sequence FROM f"                                \
    " CROSS JOIN main.howdah_events x ON x.family = f.id)"

/* The last one of this name counts, as it does when the headers are read into a map. */
#define HEADER_IS                                                                                  \
    " AND e.headers IS NOT NULL AND (SELECT h.value FROM json_each(e.headers) h WHERE h.key = ?"   \
    " ORDER BY h.id DESC LIMIT 1) = ?"

/* ---------------------------------------------------------------- fragments */

void hw_sqlite_select_init(hw_sqlite_select *ask)
{
    *ask = (hw_sqlite_select){.sql = HW_BUF_INIT(SQL_BYTES_MAX)};
}

void hw_sqlite_select_done(hw_sqlite_select *ask)
{
    hw_buf_done(&ask->sql);
}

void hw_sqlite_select_add(hw_sqlite_select *ask, const char *sql)
{
    hw_buf_puts(&ask->sql, sql);
}

/* The number of values is bounded by the number of filters, so the array need not grow. */
static void bind_value(hw_sqlite_select *ask, hw_sqlite_value value)
{
    assert(ask->n < HW_SQLITE_SELECT_VALUES);
    ask->values[ask->n++] = value;
}

void hw_sqlite_select_number(hw_sqlite_select *ask, int64_t number)
{
    bind_value(ask, (hw_sqlite_value){.number = number});
}

void hw_sqlite_select_text(hw_sqlite_select *ask, hw_str text)
{
    assert(text.s);
    bind_value(ask, (hw_sqlite_value){.bytes = text});
}

/* An empty blob is bound as one: a NULL pointer would be bound as NULL. */
static void select_blob(hw_sqlite_select *ask, const void *bytes, size_t n)
{
    bind_value(ask, (hw_sqlite_value){.bytes = {bytes ? bytes : "", n}, .is_blob = true});
}

/* A filter that is absent adds nothing to the statement. */
static void add_text(hw_sqlite_select *ask, const char *sql, hw_str text)
{
    if (!text.s)
        return;
    hw_sqlite_select_add(ask, sql);
    hw_sqlite_select_text(ask, text);
}

static void add_time(hw_sqlite_select *ask, const char *sql, int64_t time)
{
    if (time == HW_TIME_ABSENT)
        return;
    hw_sqlite_select_add(ask, sql);
    hw_sqlite_select_number(ask, time);
}

/* ------------------------------------------------------------------ filters */

/* I2: in the order of how few rows each is likely to find. */
hw_sqlite_lead hw_sqlite_select_lead(const hw_times_query *query)
{
    assert(query->type.s || !hw_pattern_is_exact(query->pattern));
    if (query->families)
        return HW_LEAD_FAMILIES;
    if (query->stream.s)
        return HW_LEAD_STREAM;
    if (query->correlation_id.s)
        return HW_LEAD_CORRELATION;
    if (query->has_causation)
        return HW_LEAD_CAUSATION;
    if (query->type.s)
        return HW_LEAD_TYPE;
    return HW_LEAD_NONE;
}

/* I2.  Without a leading filter: along the log when the rows are wanted in that order, else
   SQLite chooses. */
static const char *from_sql(hw_sqlite_lead lead, bool walk)
{
    switch (lead) {
    case HW_LEAD_STREAM:
        return " FROM main.howdah_events e INDEXED BY howdah_events_by_stream WHERE 1";
    case HW_LEAD_CORRELATION:
        return " FROM main.howdah_events e INDEXED BY howdah_events_by_correlation WHERE 1";
    case HW_LEAD_CAUSATION:
        return " FROM main.howdah_events e INDEXED BY howdah_events_by_causation WHERE 1";
    case HW_LEAD_TYPE:
        return " FROM main.howdah_events e INDEXED BY howdah_events_by_type WHERE 1";
    case HW_LEAD_FAMILIES:
        return " FROM main.howdah_events e NOT INDEXED WHERE 1";
    case HW_LEAD_NONE:
    default:
        return walk ? " FROM main.howdah_events e NOT INDEXED WHERE 1"
                    : " FROM main.howdah_events e WHERE 1";
    }
}

/* I3.  A prefix ends with a dot, and "/" is the character after it: so the two comparisons are a
   range of the index.  Where the type is known, the range is not needed. */
static void add_pattern(hw_sqlite_select *ask, const hw_times_query *query)
{
    hw_str pattern = query->pattern;
    hw_str prefix = hw_pattern_prefix(pattern);

    if (prefix.len > 0 && !query->type.s) {
        assert(prefix.s[prefix.len - 1] == '.');
        hw_sqlite_select_add(ask, " AND e.type >= ?");
        hw_sqlite_select_text(ask, prefix);
        hw_sqlite_select_add(ask, " AND e.type < ? || '/'");
        hw_sqlite_select_text(ask, (hw_str){prefix.s, prefix.len - 1});
    }
    hw_sqlite_select_add(ask, " AND +e.type GLOB replace(?, '>', '*')");
    hw_sqlite_select_text(ask, pattern);
}

/* The ids are cut out of one blob, since a statement has only so many parameters. */
static void add_families(hw_sqlite_select *ask, const hw_times_query *query)
{
    size_t bytes = query->families_n * sizeof *query->families;

    hw_sqlite_select_add(ask, OF_FAMILIES);
    for (int i = 0; i < 2; i++) {
        select_blob(ask, query->families, bytes);
        hw_sqlite_select_number(ask, (int64_t)query->families_n);
    }
}

/* I1.  head > 0: what has a higher number does not count, neither as the event nor as its next
   revision. */
static void add_as_of(hw_sqlite_select *ask, const hw_times_query *query, int64_t head)
{
    add_time(ask, " AND e.recorded_at <= ?", query->known_at);
    if (head > 0) {
        hw_sqlite_select_add(ask, " AND e.global_sequence <= ?");
        hw_sqlite_select_number(ask, head);
    }
    hw_sqlite_select_add(ask, " AND NOT EXISTS (SELECT 1 FROM main.howdah_events n"
                              " INDEXED BY howdah_events_by_family"
                              " WHERE n.family = coalesce(e.family, e.id)"
                              " AND n.revision = e.revision + 1");
    add_time(ask, " AND n.recorded_at <= ?", query->known_at);
    if (head > 0) {
        hw_sqlite_select_add(ask, " AND n.global_sequence <= ?");
        hw_sqlite_select_number(ask, head);
    }
    hw_sqlite_select_add(ask, ")");
    if (!query->retractions)
        hw_sqlite_select_add(ask, " AND e.retracts IS NOT 1");
    add_time(ask, " AND " VALID_TIME " <= ?", query->valid_at);
}

/* Every filter is here once, for pages, keys, counts, types and streams alike. */
void hw_sqlite_select_from(hw_sqlite_select *ask, const hw_times_query *query, hw_sqlite_lead lead,
                           bool walk, int64_t head)
{
    assert(query->headers_n <= HOWDAH_QUERY_HEADERS_MAX);
    hw_sqlite_select_add(ask, from_sql(lead, walk));
    if (query->families)
        add_families(ask, query);
    add_text(ask, " AND e.stream = ?", query->stream);
    add_text(ask, " AND e.correlation_id = ?", query->correlation_id);
    if (query->has_causation) {
        hw_sqlite_select_add(ask, " AND e.causation_id = ?");
        select_blob(ask, query->causation_id.b, sizeof query->causation_id.b);
    }
    add_text(ask, " AND e.type = ?", query->type);
    if (query->pattern.s)
        add_pattern(ask, query);
    if (query->view == HOWDAH_VIEW_ORIGINALS)
        hw_sqlite_select_add(ask, " AND e.revision = 1");
    add_time(ask, " AND e.recorded_at >= ?", query->recorded.from);
    add_time(ask, " AND e.recorded_at < ?", query->recorded.before);
    add_time(ask, " AND " VALID_TIME " >= ?", query->valid.from);
    add_time(ask, " AND " VALID_TIME " < ?", query->valid.before);
    if (query->view == HOWDAH_VIEW_AS_OF)
        add_as_of(ask, query, head);
    for (size_t i = 0; i < query->headers_n; i++) {
        add_text(ask, HEADER_IS, query->headers[i].name);
        hw_sqlite_select_text(ask, query->headers[i].value);
    }
}

/* I3. */
bool hw_sqlite_select_matches(const hw_times_query *query, sqlite3_stmt *stmt, int type_column)
{
    hw_str type;

    if (!query->pattern.s)
        return true;
    type = hw_sqlite_borrow_value(stmt, type_column);
    return type.s && hw_pattern_matches(query->pattern, type);
}

/* One of the kept statements, which becomes the caller's.  NULL: none has this text. */
static sqlite3_stmt *take_kept(hw_sqlite *store, const char *sql)
{
    for (int i = 0; i < HW_SELECTS_KEPT && store->asked[i]; i++) {
        sqlite3_stmt *stmt = store->asked[i];

        if (strcmp(sqlite3_sql(stmt), sql) != 0)
            continue;
        memmove(&store->asked[i], &store->asked[i + 1],
                (size_t)(HW_SELECTS_KEPT - 1 - i) * sizeof store->asked[0]);
        store->asked[HW_SELECTS_KEPT - 1] = NULL;
        return stmt;
    }
    return NULL;
}

/* Preparing such a statement is not cheap, so the last few are kept; the oldest goes.  The
   bindings are cleared: the values were the caller's. */
void hw_sqlite_select_over(hw_sqlite *store, sqlite3_stmt *stmt)
{
    if (!stmt)
        return;
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    (void)sqlite3_finalize(store->asked[HW_SELECTS_KEPT - 1]);
    memmove(&store->asked[1], &store->asked[0], (HW_SELECTS_KEPT - 1) * sizeof store->asked[0]);
    store->asked[0] = stmt;
}

int hw_sqlite_select_prepare(hw_sqlite *store, const hw_sqlite_select *ask, sqlite3_stmt **ret_stmt,
                             howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_buf_check(&ask->sql, reterr);

    if (s < 0)
        return s;
    stmt = take_kept(store, hw_buf_str(&ask->sql));
    if (!stmt)
        s = hw_sqlite_prepare(store, hw_buf_str(&ask->sql), &stmt, reterr);
    if (s < 0)
        return s;
    assert(sqlite3_bind_parameter_count(stmt) == ask->n);
    for (int i = 0; i < ask->n; i++) {
        const hw_sqlite_value *v = &ask->values[i];

        if (v->is_blob)
            (void)sqlite3_bind_blob64(stmt, i + 1, v->bytes.s, v->bytes.len, SQLITE_STATIC);
        else if (v->bytes.s)
            hw_sqlite_bind_str(stmt, i + 1, v->bytes);
        else
            (void)sqlite3_bind_int64(stmt, i + 1, v->number);
    }
    *ret_stmt = stmt;
    return HOWDAH_OK;
}
