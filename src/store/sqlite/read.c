/*
 * read.c - events out of the log, a batch at a time; causation trees; the head.
 *
 *   I1  A batch is one or more finished statements: between two calls nothing is held open, so a
 *       slow reader is in nobody's way, checkpoints included.
 *   I2  A cursor is a list of ranges of positions (versions in one stream, else sequences).  A row
 *       that was looked at moves its range's edge; so a statement can end anywhere, and an error
 *       loses nothing that was copied.
 *   I3  The rows of a batch are a page (page.c): when the next one does not fit, the batch ends
 *       before it.
 *   I4  A filter that has no index of its own is applied here, before the payload is touched.
 *       SQLite copies every column of a row before we see the first, so such a read is lean: it
 *       walks rows without headers and payload, and fetches those of a row that is wanted.
 *       As long as most rows are wanted it takes them whole, which is cheaper then.
 *   I5  Several ranges, and a sparse read, look at the log through one read transaction a batch.
 *       Later batches see more, but all of it comes after what the earlier ones saw: numbers
 *       appear in order.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/pattern.h"
#include "store/sqlite/sqlite.h"

#define SCAN_ROWS_MAX 16384 /* rows that one statement looks at */

#define LEAN_ROWS_MIN 64     /* rows after which it is decided anew whether payloads come along */
#define SPARSE_ROWS_MIN 2048 /* fewer rows are walked rather than looked up */
#define JUDGED_ROWS_MIN 32   /* fewer that were looked up do not tell how far apart they are */
#define SPARSE_WANT_MAX 1024 /* numbers that are collected at once */

/* Which index leads the way; its two statements differ by direction only. */
typedef enum way {
    BY_SEQUENCE,
    BY_TYPE,
    BY_STREAM,
    BY_CORRELATION,
    OF_STREAM, /* sequences of one stream, whose versions have the same order */
    WAYS
} way;

#define LEAN_WAYS 2 /* the first two ways have lean statements as well */

_Static_assert(HW_SLOT_READ + (WAYS + LEAN_WAYS) * 2 == HW_SLOT_COUNT,
               "a slot for each way and direction");

#define COLUMNS "SELECT " HW_SQLITE_EVENT_COLUMNS " FROM main.howdah_events WHERE "
#define LEAN_COLUMNS "SELECT " HW_SQLITE_LEAN_COLUMNS " FROM main.howdah_events WHERE "
#define IN_RANGE(position, rest) position " BETWEEN ?1 AND ?2" rest " ORDER BY " position
#define BOTH(sql) sql, sql " DESC"

/* Forward and backward for each way; then the same again, lean, for the first two. */
static const char *const read_sql[(WAYS + LEAN_WAYS) * 2] = {
    BOTH(COLUMNS IN_RANGE("global_sequence", "")),
    BOTH(COLUMNS IN_RANGE("global_sequence", " AND type = ?3")),
    BOTH(COLUMNS IN_RANGE("version", " AND stream = ?3")),
    BOTH(COLUMNS IN_RANGE("global_sequence", " AND correlation_id = ?3")),
    BOTH(COLUMNS "stream = ?3 AND version >= ?4 AND global_sequence BETWEEN ?1 AND ?2"
                 " ORDER BY version"),
    BOTH(LEAN_COLUMNS IN_RANGE("global_sequence", "")),
    BOTH(LEAN_COLUMNS IN_RANGE("global_sequence", " AND type = ?3")),
};

typedef struct cursor {
    hw_sqlite_cursor base;
    way way;
    bool backward;
    hw_str key;     /* of the way: stream, correlation or type */
    int64_t from;   /* OF_STREAM: the first version that is wanted */
    hw_str type;    /* filters that the way does not cover */
    hw_str pattern; /* likewise */
    hw_str correlation_id;
    hw_str *payload_of; /* lean: payloads of these patterns only; n = 0: of all */
    size_t payload_of_n;
    char *texts;     /* what all of the above point into */
    bool picky;      /* I4: not every row is wanted, or not with its payload */
    bool lean;       /* the present statement is a lean one */
    size_t looked;   /* rows since that was decided, */
    size_t payloads; /* and how many of their payloads were wanted */
    bool sparse;     /* the pattern's types are looked up, */
    bool judged;     /* which is decided anew by what each statement shows */
    bool snapshot;   /* I5 */

    hw_range *ranges; /* what is still to be read (I2) */
    size_t ranges_n;
    size_t range_no;
} cursor;

/* ---------------------------------------------------------------- one row */

/* Without patterns every payload is wanted. */
static bool wants_payload(const cursor *c, hw_str type)
{
    for (size_t i = 0; i < c->payload_of_n; i++)
        if (hw_pattern_matches(c->payload_of[i], type))
            return true;
    return c->payload_of_n == 0;
}

/* The row becomes the next event of the batch.  HOWDAH_END: it belongs to the next batch.  How
   many payloads were wanted decides how the next rows are read (I4). */
static int take_row(cursor *c, sqlite3_stmt *stmt, howdah_error *reterr)
{
    hw_sqlite_payload how = c->lean ? HW_PAYLOAD_FETCH : HW_PAYLOAD_HERE;

    if (c->payload_of_n > 0 && !wants_payload(c, hw_sqlite_borrow_value(stmt, HW_SQLITE_COL_TYPE)))
        how = HW_PAYLOAD_NONE;
    c->payloads += how != HW_PAYLOAD_NONE;
    return hw_sqlite_page_take(&c->base.page, stmt, how, reterr);
}

/* I4: the filters that no index covers, judged by columns that come before the payload. */
static bool matches(const cursor *c, sqlite3_stmt *stmt)
{
    if (c->type.s || c->pattern.s) {
        hw_str type = hw_sqlite_borrow_value(stmt, HW_SQLITE_COL_TYPE);

        if (!type.s || (c->type.s && !hw_str_equal(type, c->type)) ||
            (c->pattern.s && !hw_pattern_matches(c->pattern, type)))
            return false;
    }
    return !c->correlation_id.s ||
           hw_str_equal(hw_sqlite_borrow_value(stmt, HW_SQLITE_COL_CORRELATION), c->correlation_id);
}

/* ---------------------------------------------------------------- a batch */

/* I2: moves the range's edge past a position.  False when nothing is left of the range. */
static bool step_over(const cursor *c, hw_range *range, int64_t position)
{
    if (c->backward) {
        range->last = position - 1; /* positions start at 1 */
        return range->first <= range->last;
    }
    if (position == INT64_MAX)
        return false;
    range->first = position + 1;
    return range->first <= range->last;
}

/* The last number is included, as BETWEEN does. */
static void bind_range(const cursor *c, sqlite3_stmt *stmt, hw_range range)
{
    (void)sqlite3_bind_int64(stmt, 1, range.first);
    (void)sqlite3_bind_int64(stmt, 2, range.last);
    if (c->key.s)
        hw_sqlite_bind_str(stmt, 3, c->key);
    if (c->way == OF_STREAM)
        (void)sqlite3_bind_int64(stmt, 4, c->from);
}

/* Whether the next statement goes by the types: of so many numbers n were wanted. */
static void judge_pattern(cursor *c, int64_t numbers, size_t n)
{
    if (c->judged)
        c->sparse = numbers / HW_SPARSE_BELOW > (int64_t)n;
}

/*
 * Reads on in the present range with one statement, until the batch is full, the range is used up
 * (HOWDAH_END) or enough rows were looked at.  The last bounds the time for which a snapshot is
 * held.
 */
static int scan(cursor *c, sqlite3_stmt *stmt, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    hw_range *range = &c->ranges[c->range_no];
    int column = c->way == BY_STREAM ? HW_SQLITE_COL_VERSION : HW_SQLITE_COL_SEQUENCE;
    size_t before = c->base.page.n;
    int rows;

    assert(c->range_no < c->ranges_n && before < want);
    bind_range(c, stmt, *range);
    for (rows = 0; rows < SCAN_ROWS_MAX && c->base.page.n < want; rows++) {
        int64_t position;
        int s = hw_sqlite_step(store, stmt, "read", reterr);

        if (s != HOWDAH_OK)
            return s;
        position = sqlite3_column_int64(stmt, column);
        c->looked++;
        if (matches(c, stmt)) {
            s = take_row(c, stmt, reterr);
            if (s != HOWDAH_OK)
                return s < 0 ? s : HOWDAH_OK;
        }
        if (!step_over(c, range, position))
            return HOWDAH_END;
    }
    if (rows >= SPARSE_ROWS_MIN)
        judge_pattern(c, rows, c->base.page.n - before);
    return HOWDAH_OK;
}

/* ------------------------------------------------------------ sparse reads */

/* The rows of the numbers, one by one, until the batch is full.  all: the range has no other rows
   that match. */
static int take_gathered(cursor *c, const int64_t *sequences, size_t n, bool all,
                         sqlite3_stmt *stmt, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    hw_range *range = &c->ranges[c->range_no];

    for (size_t i = 0; i < n; i++) {
        hw_range one = {sequences[i], sequences[i]};
        int s;

        bind_range(c, stmt, one);
        c->looked++;
        s = hw_sqlite_step(store, stmt, "read", reterr);
        if (s == HOWDAH_OK)
            s = take_row(c, stmt, reterr);
        (void)sqlite3_reset(stmt);
        if (s != HOWDAH_OK)
            return s < 0 ? s : HOWDAH_OK;
        if (!step_over(c, range, one.first))
            return HOWDAH_END;
    }
    return all ? HOWDAH_END : HOWDAH_OK;
}

/* As scan(), by the index of types.  If there are too many types for that, the cursor walks the
   log from here on. */
static int scan_sparsely(cursor *c, sqlite3_stmt *stmt, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    int64_t *sequences;
    size_t most = want - c->base.page.n < SPARSE_WANT_MAX ? want - c->base.page.n : SPARSE_WANT_MAX;
    size_t n = 0;
    int s;

    assert(want > c->base.page.n);
    sequences = hw_calloc(most * 2, sizeof *sequences);
    if (!sequences)
        return hw_fail_no_memory(reterr);
    s = hw_sqlite_gather(store, c->pattern, c->ranges[c->range_no], c->backward, most, sequences,
                         &n, reterr);
    if (s == HOWDAH_OK) {
        if (n == most && n >= JUDGED_ROWS_MIN)
            judge_pattern(c, llabs(sequences[n - 1] - sequences[0]), n);
        s = take_gathered(c, sequences, n, n < most, stmt, reterr);
    } else if (s == HOWDAH_END) {
        c->sparse = c->judged = false;
        s = scan(c, stmt, want, reterr);
    }
    hw_free(sequences);
    return s;
}

/* Whether looking types up can be worth it: only if there are many rows in the present range.  A
   range without an end is judged by the log's head. */
static int is_wide(cursor *c, bool *ret_wide, howdah_error *reterr)
{
    const hw_range *range = &c->ranges[c->range_no];
    int64_t head = 0;
    int s = HOWDAH_OK;

    *ret_wide = false;
    if (!c->sparse || range->last - range->first < SPARSE_ROWS_MIN)
        return HOWDAH_OK;
    s = hw_sqlite_read_head(c->base.page.store, &head, reterr);
    if (s >= 0 && head < range->last)
        *ret_wide = head - range->first >= SPARSE_ROWS_MIN;
    else
        *ret_wide = s >= 0;
    return s;
}

/* ----------------------------------------------------------------- batches */

/* I4: whole rows while at least half of their payloads are wanted.  Decided anew every
   LEAN_ROWS_MIN rows. */
static void choose_lean(cursor *c)
{
    if (!c->picky || c->looked < LEAN_ROWS_MIN)
        return;
    c->lean = c->payloads < c->looked / 2;
    c->looked = c->payloads = 0;
}

/* On in the present range, with one statement or one set of them. */
static int scan_once(cursor *c, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    sqlite3_stmt *stmt = NULL;
    bool wide = false;
    int which;
    int s = is_wide(c, &wide, reterr);

    choose_lean(c);
    which = ((int)c->way + (c->lean ? WAYS : 0)) * 2 + (c->backward ? 1 : 0);
    if (s >= 0)
        s = hw_sqlite_stmt(store, (hw_sqlite_slot)(HW_SLOT_READ + which), read_sql[which], &stmt,
                           reterr);
    if (s < 0)
        return s;
    s = wide ? scan_sparsely(c, stmt, want, reterr) : scan(c, stmt, want, reterr);
    (void)sqlite3_reset(stmt); /* I1 */
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

/* Reads range after range.  A batch that has something is handed out at the first pause: the
   reader need not wait for it to be full. */
static int fill_batch(cursor *c, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;

    while (c->base.page.n < want && c->range_no < c->ranges_n) {
        int s =
            c->snapshot ? hw_sqlite_go_on(store, reterr) : hw_sqlite_ready_to_read(store, reterr);

        if (s >= 0)
            s = scan_once(c, want, reterr);
        if (s < 0)
            return s;
        if (s == HOWDAH_END)
            c->range_no++;
        else if (c->base.page.n > 0)
            break; /* full, by number or by bytes, or enough work for one call */
    }
    return HOWDAH_OK;
}

/* I5.  Inside a caller's transaction there is a snapshot already. */
static int fill_in_snapshot(cursor *c, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    bool begun;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    begun = sqlite3_get_autocommit(store->db) != 0;
    if (begun)
        s = hw_sqlite_begin_read(store, reterr);
    if (s >= 0)
        s = fill_batch(c, want, reterr);
    if (begun)
        hw_sqlite_end_read(store);
    return s;
}

static int fill(hw_sqlite_cursor *base, size_t want, howdah_error *reterr)
{
    cursor *c = (cursor *)base;
    int s = c->snapshot ? fill_in_snapshot(c, want, reterr) : fill_batch(c, want, reterr);

    base->over = c->range_no == c->ranges_n;
    return s;
}

/* ---------------------------------------------------------------- cursors */

/* The page is freed by hw_sqlite_read_close(). */
static void done(hw_sqlite_cursor *base)
{
    cursor *c = (cursor *)base;

    hw_free(c->texts);
    hw_free(c->payload_of);
    hw_free(c->ranges);
}

/* With its NUL, from *at on, which moves. */
static hw_str copy_text(char **at, hw_str text)
{
    hw_str copy = {*at, text.len};

    if (!text.s)
        return HW_STR_NULL;
    memcpy(*at, text.s, text.len);
    (*at)[text.len] = '\0';
    *at += text.len + 1;
    return copy;
}

/* The query's texts are copied into a block of the cursor: the caller's may be gone before the
   second batch. */
static int copy_texts(cursor *c, const hw_query *query, howdah_error *reterr)
{
    hw_str key = query->ranges ? query->only_stream : query->stream;
    size_t bytes = key.len + query->type.len + query->pattern.len + query->correlation_id.len + 4;
    char *at;

    for (size_t i = 0; i < query->payload_of_n; i++)
        bytes += query->payload_of[i].len + 1;
    c->texts = hw_alloc(bytes);
    c->payload_of =
        query->payload_of_n > 0 ? hw_calloc(query->payload_of_n, sizeof *c->payload_of) : NULL;
    if (!c->texts || (query->payload_of_n > 0 && !c->payload_of))
        return hw_fail_no_memory(reterr);
    at = c->texts;
    c->type = copy_text(&at, query->type);
    c->pattern = copy_text(&at, query->pattern);
    c->correlation_id = copy_text(&at, query->correlation_id);
    c->key = copy_text(&at, key);
    for (size_t i = 0; i < query->payload_of_n; i++)
        c->payload_of[i] = copy_text(&at, query->payload_of[i]);
    c->payload_of_n = query->payload_of_n;
    return HOWDAH_OK;
}

/* The way is that of one type; its payload is wanted of every row or of none. */
static void plan_by_type(cursor *c)
{
    c->key = c->type;
    c->type = HW_STR_NULL;
    c->way = BY_TYPE;
    c->lean = !wants_payload(c, c->key);
}

/* Chooses the way: the filter that is likely to find least leads, the others are checked row by
   row. */
static int plan(cursor *c, const hw_query *query, howdah_error *reterr)
{
    int s = copy_texts(c, query, reterr);

    assert(query->type.s || !hw_pattern_is_exact(query->pattern));
    if (s < 0)
        return s;
    if (c->key.s && query->ranges) {
        c->way = OF_STREAM;
        c->from = query->only_from;
    } else if (c->key.s) {
        c->way = BY_STREAM;
    } else if (c->correlation_id.s) {
        c->way = BY_CORRELATION;
        c->key = c->correlation_id;
        c->correlation_id = HW_STR_NULL;
    } else if (c->type.s) {
        plan_by_type(c);
    } else if (c->pattern.s || c->payload_of_n > 0) {
        c->picky = true;
        c->lean = true;
        c->sparse = query->sparse && c->pattern.s;
        c->judged = c->sparse && !query->ranges;
    }
    c->snapshot = c->sparse || query->ranges_n > 1;
    return HOWDAH_OK;
}

static int set_ranges(cursor *c, const hw_range *ranges, size_t n, howdah_error *reterr)
{
    c->ranges = hw_calloc(n, sizeof *ranges);
    if (!c->ranges)
        return hw_fail_no_memory(reterr);
    memcpy(c->ranges, ranges, n * sizeof *ranges);
    c->ranges_n = n;
    return HOWDAH_OK;
}

static int compare_ranges(const void *a, const void *b)
{
    const hw_range *x = a;
    const hw_range *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

/* Sorts single positions and joins equal and neighbouring ones, so that a list of ids becomes few
   statements. */
static size_t join_ranges(hw_range *ranges, size_t n)
{
    size_t joined = 0;

    qsort(ranges, n, sizeof *ranges, compare_ranges);
    for (size_t i = 0; i < n; i++) {
        if (joined > 0 && ranges[i].first <= ranges[joined - 1].last + 1)
            ranges[joined - 1].last = ranges[i].last;
        else
            ranges[joined++] = ranges[i];
    }
    return joined;
}

/* By the unique index of ids, which every append keeps anyway. */
int hw_sqlite_find(hw_sqlite *store, const hw_uuid *id, int64_t *ret_sequence, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_FIND_ID,
                           "SELECT global_sequence FROM main.howdah_events WHERE id = ?1", &stmt,
                           reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_uuid(stmt, 1, id);
    s = hw_sqlite_step(store, stmt, "read", reterr);
    if (s < 0)
        return s;
    *ret_sequence = s == HOWDAH_OK ? sqlite3_column_int64(stmt, 0) : 0;
    (void)sqlite3_reset(stmt);
    return HOWDAH_OK;
}

/* Ids become sequences, and these become ranges: from there on it is a read like any other.  Ids
   that are not stored are left out. */
static int find_ids(cursor *c, const hw_uuid *ids, size_t n, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    size_t found = 0;
    int s = HOWDAH_OK;

    c->ranges = hw_calloc(n, sizeof *c->ranges);
    if (!c->ranges)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; s >= 0 && i < n; i++) {
        int64_t sequence = 0;

        s = hw_sqlite_find(store, &ids[i], &sequence, reterr);
        if (s >= 0 && sequence > 0)
            c->ranges[found++] = (hw_range){sequence, sequence};
    }
    c->ranges_n = join_ranges(c->ranges, found);
    return s;
}

/* Numbers begin with 1; a range that is empty leaves the cursor without ranges, and it ends at
   once. */
static int set_cursor(cursor *c, const hw_query *query, howdah_error *reterr)
{
    hw_range whole = {query->from > 0 ? query->from : 1, query->to > 0 ? query->to : INT64_MAX};
    int s;

    if (query->ids)
        return find_ids(c, query->ids, query->ids_n, reterr);
    s = plan(c, query, reterr);
    if (s < 0)
        return s;
    if (query->ranges)
        return set_ranges(c, query->ranges, query->ranges_n, reterr);
    c->backward = query->backward;
    return whole.first > whole.last ? HOWDAH_OK : set_ranges(c, &whole, 1, reterr);
}

/* A list of ids has no limit of its own. */
int hw_sqlite_read_open(hw_store *base, const hw_query *query, hw_cursor **ret_cursor,
                        howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_cursor *c;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    if (s < 0)
        return s;
    c = hw_sqlite_cursor_new(sizeof(cursor), base, query->batch, query->ids ? 0 : query->limit);
    if (!c)
        return hw_fail_no_memory(reterr);
    c->fill = fill;
    c->done = done;
    s = set_cursor((cursor *)c, query, reterr);
    if (s < 0) {
        hw_sqlite_read_close(&c->base);
        return s;
    }
    *ret_cursor = &c->base;
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------ trees */

/*
 * Causes: a queue without order gives them in the order in which they were found, so the event
 * itself comes first and its root last.  UNION ends a circle.
 */
#define CAUSES_SQL                                                                                 \
    "WITH RECURSIVE up (id) AS ("                                                                  \
    " SELECT id FROM main.howdah_events WHERE id = ?1"                                             \
    " UNION SELECT c.id FROM up JOIN main.howdah_events e ON e.id = up.id"                         \
    " JOIN main.howdah_events c ON c.id = e.causation_id)"                                         \
    " SELECT id FROM up LIMIT ?2"

/*
 * Effects: the deepest first, so that each comes after its cause; siblings by sequence.  An event
 * has one cause, so a circle can only lead back to where we started, and there it is cut.  What a
 * circle shows as a cause already is not shown again.
 */
#define EFFECTS_SQL                                                                                \
    "WITH RECURSIVE up (id) AS ("                                                                  \
    " SELECT causation_id FROM main.howdah_events WHERE id = ?1 AND causation_id IS NOT NULL"      \
    " UNION SELECT e.causation_id FROM up JOIN main.howdah_events e ON e.id = up.id"               \
    " WHERE e.causation_id IS NOT NULL LIMIT ?2),"                                                 \
    " down (id, depth, sequence) AS ("                                                             \
    " SELECT ?1, 0, 0"                                                                             \
    " UNION ALL SELECT e.id, down.depth + 1, e.global_sequence"                                    \
    " FROM down JOIN main.howdah_events e ON e.causation_id = down.id WHERE e.id <> ?1"            \
    " ORDER BY 2 DESC, 3)"                                                                         \
    " SELECT id, depth FROM down WHERE depth > 0 AND id NOT IN (SELECT id FROM up) LIMIT ?2"

typedef struct tree {
    hw_uuid *ids;
    int *depths;
    size_t n;
} tree;

/* Appends what the statement finds, up to the tree's maximum.  Column 1, if there is one, is the
   depth. */
static int collect(hw_sqlite *store, const char *sql, const hw_uuid *id, tree *t,
                   howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);
    int s;

    if (rc != SQLITE_OK)
        return hw_sqlite_fail(store, rc, "read", reterr);
    hw_sqlite_bind_uuid(stmt, 1, id);
    (void)sqlite3_bind_int64(stmt, 2, (int64_t)(HOWDAH_CAUSATION_MAX - t->n));
    while ((s = hw_sqlite_step(store, stmt, "read", reterr)) == HOWDAH_OK) {
        bool present = false;

        if (!hw_sqlite_take_uuid(stmt, 0, &t->ids[t->n], &present) || !present) {
            s = hw_fail(reterr, HOWDAH_CORRUPT, "read: %s: an event has a damaged id", store->name);
            break;
        }
        t->depths[t->n++] = sqlite3_column_count(stmt) > 1 ? sqlite3_column_int(stmt, 1) : 0;
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* They are found from the event up to the root, and wanted the other way round.  Causes have
   negative depths, the event itself 0. */
static void reverse_causes(tree *t)
{
    for (size_t i = 0; i < t->n / 2; i++) {
        hw_uuid swap = t->ids[i];

        t->ids[i] = t->ids[t->n - 1 - i];
        t->ids[t->n - 1 - i] = swap;
    }
    for (size_t i = 0; i < t->n; i++)
        t->depths[i] = (int)i - (int)(t->n - 1);
}

/* The arrays are as large as a tree can be, and the caller's.  An event that is not stored gives
   none. */
int hw_sqlite_tree(hw_store *base, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
                   size_t *ret_n, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    tree t = {NULL, NULL, 0};
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    if (s < 0)
        return s;
    t.ids = hw_calloc(HOWDAH_CAUSATION_MAX, sizeof *t.ids);
    t.depths = hw_calloc(HOWDAH_CAUSATION_MAX, sizeof *t.depths);
    s = t.ids && t.depths ? collect(store, CAUSES_SQL, id, &t, reterr) : hw_fail_no_memory(reterr);
    if (s >= 0) {
        reverse_causes(&t);
        hw_sqlite_temp_in_file(store, true); /* one event may have millions of effects */
        if (t.n > 0 && t.n < HOWDAH_CAUSATION_MAX)
            s = collect(store, EFFECTS_SQL, id, &t, reterr);
        hw_sqlite_temp_in_file(store, false);
    }
    if (s < 0) {
        hw_free(t.ids);
        hw_free(t.depths);
        return s;
    }
    *ret_ids = t.ids;
    *ret_depths = t.depths;
    *ret_n = t.n;
    return HOWDAH_OK;
}

/* ------------------------------------------------------- head and frontier */

/* max() of the key is one look at the end of the table. */
int hw_sqlite_read_head(hw_sqlite *store, int64_t *ret_head, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_HEAD,
                           "SELECT coalesce(max(global_sequence), 0) FROM main.howdah_events",
                           &stmt, reterr);

    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "read", reterr);
    if (s < 0)
        return s;
    *ret_head = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt);
    return HOWDAH_OK;
}

int hw_sqlite_head(hw_store *base, int64_t *ret_head, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    return s < 0 ? s : hw_sqlite_read_head(store, ret_head, reterr);
}

/* Along the log: that there is no index of moments costs who resets, once, not who appends. */
int hw_sqlite_first_since(hw_store *base, int64_t time_us, int64_t *ret_sequence,
                          howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    if (s >= 0)
        s = hw_sqlite_stmt(store, HW_SLOT_FIRST_SINCE,
                           "SELECT coalesce((SELECT global_sequence FROM main.howdah_events WHERE"
                           " recorded_at >= ?1 ORDER BY global_sequence LIMIT 1), 0)",
                           &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, time_us);
    s = hw_sqlite_step(store, stmt, "read", reterr);
    if (s < 0)
        return s;
    *ret_sequence = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt);
    return HOWDAH_OK;
}
