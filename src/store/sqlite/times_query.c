/*
 * times_query.c - events by what was known when, in any order, a page at a time.
 *
 *   I1  Between two calls no statement is open and no transaction: a statement is made for each
 *       page, with the place after which it begins.
 *   I2  In the order of the log an index leads through the rows that are asked for, and the page
 *       is taken from it.
 *   I3  In the order of a time, which has no index of its own, the keys come first: one scan finds
 *       the first KEYS_MAX of (time, sequence) after the place, or as many as are wanted at all,
 *       in a heap; then the rows are fetched one by one.  n rows cost n / KEYS_MAX scans.
 *   I4  A query as of some time looks at the log as it was when it was opened: numbers become
 *       visible in order, so its head says it all.  No family comes twice because it was corrected
 *       between two pages.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define KEYS_MAX 50000
#define KEYS_FIRST 256
#define GO_ON_EVERY 16384 /* rows between two looks at interrupt and deadline */

#define FETCH_SQL                                                                                  \
    "SELECT " HW_SQLITE_EVENT_COLUMNS " FROM main.howdah_events WHERE global_sequence = ?1"

typedef struct key {
    int64_t time; /* 0 in the order of the log */
    int64_t sequence;
} key;

typedef struct cursor {
    hw_sqlite_cursor base;
    hw_times_query query;  /* a copy; */
    char *texts;           /* its texts, */
    hw_header_is *headers; /* and lists */
    hw_uuid *families;
    hw_sqlite_lead lead;
    int64_t head; /* I4; 0: all */
    bool by_keys; /* I3 */
    bool begun;   /* there is a place: */
    key at;       /* after which to go on; in one stream sequence is the version */

    key *keys;
    size_t keys_n;
    size_t keys_room;
    size_t keys_most; /* of the present scan */
    size_t key_no;    /* the next one to fetch */
} cursor;

/* ----------------------------------------------------------------- the keys */

/* Many events can have the same time: the sequence decides, so that a page begins at one exact
   place. */
static int compare_keys(const void *a, const void *b)
{
    const key *x = a;
    const key *y = b;

    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static int compare_backward(const void *a, const void *b)
{
    return compare_keys(b, a);
}

/* Whether a comes after b in the order of the query. */
static bool is_behind(const cursor *c, const key *a, const key *b)
{
    return (c->query.backward ? compare_backward(a, b) : compare_keys(a, b)) > 0;
}

/* A heap whose first is the last one in the order: the one to give up for a better. */
static void sift_down(cursor *c, size_t i)
{
    key moved = c->keys[i];

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= c->keys_n)
            break;
        if (child + 1 < c->keys_n && is_behind(c, &c->keys[child + 1], &c->keys[child]))
            child++;
        if (!is_behind(c, &c->keys[child], &moved))
            break;
        c->keys[i] = c->keys[child];
        i = child;
    }
    c->keys[i] = moved;
}

/* Most queries find few keys, so the array begins small. */
static int make_key_room(cursor *c, howdah_error *reterr)
{
    size_t room = c->keys_room > 0 ? c->keys_room * 2 : KEYS_FIRST;
    key *keys;

    assert(c->keys_n < KEYS_MAX); /* keys_most is not larger */
    if (c->keys_n < c->keys_room)
        return HOWDAH_OK;
    room = room < KEYS_MAX ? room : KEYS_MAX;
    keys = hw_realloc(c->keys, room * sizeof *keys);
    if (!keys)
        return hw_fail_no_memory(reterr);
    c->keys = keys;
    c->keys_room = room;
    return HOWDAH_OK;
}

/* I3.  The heap is built once there are as many keys as are kept; before that, order does not
   matter. */
static int put_key(cursor *c, key k, howdah_error *reterr)
{
    if (c->keys_n < c->keys_most) {
        int s = make_key_room(c, reterr);

        if (s < 0)
            return s;
        c->keys[c->keys_n++] = k;
        for (size_t i = c->keys_n / 2; c->keys_n == c->keys_most && i > 0; i--)
            sift_down(c, i - 1);
    } else if (is_behind(c, &c->keys[0], &k)) {
        c->keys[0] = k;
        sift_down(c, 0);
    }
    return HOWDAH_OK;
}

/* The first part of the key.  In the order of the log it is 0 for every row. */
static const char *time_sql(const cursor *c)
{
    switch (c->query.order) {
    case HOWDAH_ORDER_VALID:
        return "coalesce(e.valid_time, e.recorded_at)";
    case HOWDAH_ORDER_RECORDED:
        return "e.recorded_at";
    case HOWDAH_ORDER_SEQUENCE:
    default:
        return "0";
    }
}

/* Only keys and types are read, no payloads: the scan may look at the whole log. */
static void ask_for_keys(const cursor *c, hw_sqlite_select *ask)
{
    hw_sqlite_select_add(ask, "SELECT ");
    hw_sqlite_select_add(ask, time_sql(c));
    hw_sqlite_select_add(ask, ", e.global_sequence, e.type");
    hw_sqlite_select_from(ask, &c->query, c->lead, false, c->head);
    if (!c->begun)
        return;
    hw_sqlite_select_add(ask, " AND (");
    hw_sqlite_select_add(ask, time_sql(c));
    hw_sqlite_select_add(ask, c->query.backward ? ", e.global_sequence) < (?, ?)"
                                                : ", e.global_sequence) > (?, ?)");
    hw_sqlite_select_number(ask, c->at.time);
    hw_sqlite_select_number(ask, c->at.sequence);
}

/* A scan may take long, so interrupt and deadline are looked at now and then. */
static int scan_keys(cursor *c, sqlite3_stmt *stmt, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    int s;

    for (int64_t rows = 1; (s = hw_sqlite_step(store, stmt, "read", reterr)) == HOWDAH_OK; rows++) {
        key k = {sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1)};

        if (hw_sqlite_select_matches(&c->query, stmt, 2))
            s = put_key(c, k, reterr);
        if (s >= 0 && rows % GO_ON_EVERY == 0)
            s = hw_sqlite_go_on(store, reterr);
        if (s < 0)
            break;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* I3: the next keys after the place, in order.  After an error there are none: the next call
   scans again. */
static int find_keys(cursor *c, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    hw_sqlite_select ask;
    int s;

    c->keys_n = c->key_no = 0;
    assert(c->base.left > 0);
    c->keys_most = c->base.left < KEYS_MAX ? (size_t)c->base.left : KEYS_MAX;
    hw_sqlite_select_init(&ask);
    ask_for_keys(c, &ask);
    s = hw_sqlite_select_prepare(c->base.page.store, &ask, &stmt, reterr);
    if (s >= 0)
        s = scan_keys(c, stmt, reterr);
    hw_sqlite_select_over(c->base.page.store, stmt);
    hw_sqlite_select_done(&ask);
    if (s < 0) {
        c->keys_n = 0;
        return s;
    }
    if (c->keys_n > 0)
        qsort(c->keys, c->keys_n, sizeof *c->keys,
              c->query.backward ? compare_backward : compare_keys);
    return HOWDAH_OK;
}

/* The row of a key.  A row that is gone since the scan is passed over. */
static int fetch(cursor *c, sqlite3_stmt *stmt, const key *k, howdah_error *reterr)
{
    int s;

    (void)sqlite3_bind_int64(stmt, 1, k->sequence);
    s = hw_sqlite_step(c->base.page.store, stmt, "read", reterr);
    if (s == HOWDAH_END)
        return HOWDAH_OK;
    if (s >= 0)
        s = hw_sqlite_page_take(&c->base.page, stmt, HW_PAYLOAD_HERE, reterr);
    (void)sqlite3_reset(stmt);
    return s;
}

/* HOWDAH_END: the page is full by bytes.  All in one transaction, since one for each row would
   cost as much as the row. */
static int fetch_rows(cursor *c, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    bool begins = sqlite3_get_autocommit(store->db) != 0;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, FETCH_SQL, &stmt, reterr);

    if (s >= 0 && begins)
        s = hw_sqlite_begin_read(store, reterr);
    while (s == HOWDAH_OK && c->base.page.n < want && c->key_no < c->keys_n) {
        s = fetch(c, stmt, &c->keys[c->key_no], reterr);
        if (s == HOWDAH_OK) {
            c->begun = true;
            c->at = c->keys[c->key_no++];
        }
    }
    (void)sqlite3_finalize(stmt);
    if (begins)
        hw_sqlite_end_read(store);
    return s;
}

/* A scan that found fewer keys than it could keep has found the last ones. */
static int fill_by_keys(cursor *c, size_t want, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    while (s == HOWDAH_OK && c->base.page.n < want && !c->base.over) {
        if (c->key_no == c->keys_n)
            s = find_keys(c, reterr);
        if (s == HOWDAH_OK)
            s = fetch_rows(c, want, reterr);
        c->base.over = s >= 0 && c->key_no == c->keys_n && c->keys_n < c->keys_most;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------- in the log's order */

/* I2.  Within one stream the order of versions is that of the log, and its index leads there. */
static void ask_for_rows(const cursor *c, hw_sqlite_select *ask)
{
    bool by_version = c->lead == HW_LEAD_STREAM;
    const char *place = by_version ? "e.version" : "e.global_sequence";

    hw_sqlite_select_add(ask, "SELECT " HW_SQLITE_EVENT_COLUMNS);
    hw_sqlite_select_from(ask, &c->query, c->lead, true, c->head);
    if (c->begun) {
        hw_sqlite_select_add(ask, " AND ");
        hw_sqlite_select_add(ask, place);
        hw_sqlite_select_add(ask, c->query.backward ? " < ?" : " > ?");
        hw_sqlite_select_number(ask, c->at.sequence);
    }
    hw_sqlite_select_add(ask, " ORDER BY ");
    hw_sqlite_select_add(ask, place);
    hw_sqlite_select_add(ask, c->query.backward ? " DESC" : "");
}

/* HOWDAH_END: the page is full by bytes, or there are no more rows (over).  The place moves with
   each row, so that an error loses nothing. */
static int take_rows(cursor *c, sqlite3_stmt *stmt, size_t want, howdah_error *reterr)
{
    hw_sqlite *store = c->base.page.store;
    int column = c->lead == HW_LEAD_STREAM ? HW_SQLITE_COL_VERSION : HW_SQLITE_COL_SEQUENCE;

    for (int64_t rows = 1; c->base.page.n < want; rows++) {
        key k = {.time = 0};
        int s = hw_sqlite_step(store, stmt, "read", reterr);

        if (s == HOWDAH_END)
            c->base.over = true;
        if (s != HOWDAH_OK)
            return s;
        k.sequence = sqlite3_column_int64(stmt, column);
        if (hw_sqlite_select_matches(&c->query, stmt, HW_SQLITE_COL_TYPE))
            s = hw_sqlite_page_take(&c->base.page, stmt, HW_PAYLOAD_HERE, reterr);
        if (s != HOWDAH_OK)
            return s;
        c->begun = true;
        c->at = k;
        if (rows % GO_ON_EVERY == 0 && (s = hw_sqlite_go_on(store, reterr)) < 0)
            return s;
    }
    return HOWDAH_OK;
}

static int fill_by_rows(cursor *c, size_t want, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    hw_sqlite_select ask;
    int s;

    if (c->base.over)
        return HOWDAH_OK;
    hw_sqlite_select_init(&ask);
    ask_for_rows(c, &ask);
    s = hw_sqlite_select_prepare(c->base.page.store, &ask, &stmt, reterr);
    if (s >= 0)
        s = take_rows(c, stmt, want, reterr);
    hw_sqlite_select_over(c->base.page.store, stmt); /* I1 */
    hw_sqlite_select_done(&ask);
    return s < 0 ? s : HOWDAH_OK;
}

/* -------------------------------------------------------------------- pages */

/* The connection is made ready for each page: between two anything may have happened to it. */
static int fill(hw_sqlite_cursor *base, size_t want, howdah_error *reterr)
{
    cursor *c = (cursor *)base;
    int s = hw_sqlite_ready_to_read(base->page.store, reterr);

    if (s < 0)
        return s;
    return c->by_keys ? fill_by_keys(c, want, reterr) : fill_by_rows(c, want, reterr);
}

/* ------------------------------------------------------------------ cursors */

static void done(hw_sqlite_cursor *base)
{
    cursor *c = (cursor *)base;

    hw_free(c->texts);
    hw_free(c->headers);
    hw_free(c->families);
    hw_free(c->keys);
}

static void copy_text(char **at, hw_str *text)
{
    if (!text->s)
        return;
    memcpy(*at, text->s, text->len);
    (*at)[text->len] = '\0';
    text->s = *at;
    *at += text->len + 1;
}

/* Each text with its NUL. */
static size_t text_bytes(const hw_times_query *query)
{
    size_t bytes =
        query->stream.len + query->type.len + query->pattern.len + query->correlation_id.len + 4;

    for (size_t i = 0; i < query->headers_n; i++)
        bytes += query->headers[i].name.len + query->headers[i].value.len + 2;
    return bytes;
}

/* What the query points to is copied: the caller's may be gone before the second page. */
static int copy_query(cursor *c, const hw_times_query *query, howdah_error *reterr)
{
    char *at;

    c->query = *query;
    c->texts = hw_alloc(text_bytes(query));
    c->headers = hw_calloc(query->headers_n + 1, sizeof *c->headers);
    c->families = query->families ? hw_calloc(query->families_n + 1, sizeof *c->families) : NULL;
    if (!c->texts || !c->headers || (query->families && !c->families))
        return hw_fail_no_memory(reterr);
    at = c->texts;
    copy_text(&at, &c->query.stream);
    copy_text(&at, &c->query.type);
    copy_text(&at, &c->query.pattern);
    copy_text(&at, &c->query.correlation_id);
    for (size_t i = 0; i < query->headers_n; i++) {
        c->headers[i] = query->headers[i];
        copy_text(&at, &c->headers[i].name);
        copy_text(&at, &c->headers[i].value);
    }
    if (c->families && query->families && query->families_n > 0)
        memcpy(c->families, query->families, query->families_n * sizeof *c->families);
    c->query.headers = c->headers;
    c->query.families = c->families;
    return HOWDAH_OK;
}

/* I4: an empty log has nothing as of any time, and a head of 0 would mean "all". */
static int set_cursor(cursor *c, const hw_times_query *query, howdah_error *reterr)
{
    int s = copy_query(c, query, reterr);

    if (s < 0)
        return s;
    c->lead = hw_sqlite_select_lead(query);
    c->by_keys = query->order != HOWDAH_ORDER_SEQUENCE || c->lead == HW_LEAD_FAMILIES;
    if (query->view == HOWDAH_VIEW_AS_OF) {
        s = hw_sqlite_read_head(c->base.page.store, &c->head, reterr); /* I4 */
        c->base.over = c->head == 0;
    }
    return s;
}

/* The schema is checked here; the cursor's first page comes with read_next. */
int hw_sqlite_query_open(hw_store *base, const hw_times_query *query, hw_cursor **ret_cursor,
                         howdah_error *reterr)
{
    hw_sqlite_cursor *c;
    int s = hw_sqlite_ready_to_read((hw_sqlite *)base, reterr);

    if (s < 0)
        return s;
    c = hw_sqlite_cursor_new(sizeof(cursor), base, query->batch, query->limit);
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
