/*
 * page.c - rows of the log become events, a page of them at a time; what all cursors have in
 * common.
 *
 *   I1  The strings of a page lie in one block, which grows up to BLOCK_BYTES_MAX.  When the next
 *       row does not fit, the page ends before it; only a row that is larger by itself makes the
 *       block larger.
 *   I2  A row's texts are copied once, when all of them are there.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define BATCH_DEFAULT 1000
/* I1: most pages are small, so the block begins small. */
#define BLOCK_BYTES_FIRST (16 * 1024)
#define BLOCK_BYTES_MAX (4 * 1024 * 1024)

#define PAYLOAD_SQL "SELECT headers, data, bytes FROM main.howdah_events WHERE global_sequence = ?1"

#define TEXTS 8 /* hw_str members of an event */

/* ------------------------------------------------------------- the block */

/* One list of an event's texts, for measuring, copying and moving them. */
static hw_str *texts_of(howdah_event *event, size_t i)
{
    hw_str *const all[TEXTS] = {&event->stream,       &event->type,    &event->data,
                                &event->content_type, &event->headers, &event->correlation_id,
                                &event->actor,        &event->reason};

    return all[i];
}

/* A larger block with the same content.  The events' texts point into the old one, so they are
   moved along. */
static int grow_block(hw_sqlite_page *p, size_t room, howdah_error *reterr)
{
    char *block = hw_alloc(room);

    if (!block)
        return hw_fail_no_memory(reterr);
    if (p->block_used > 0)
        memcpy(block, p->block, p->block_used);
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < TEXTS; k++) {
            hw_str *text = texts_of(&p->events[i], k);
            if (text->s)
                text->s = block + (text->s - p->block);
        }
    hw_free(p->block);
    p->block = block;
    p->block_room = room;
    return HOWDAH_OK;
}

/* HOWDAH_OK: there is room for so many bytes more.  HOWDAH_END: the page is full before this row
   (I1). */
static int make_room(hw_sqlite_page *p, size_t bytes, howdah_error *reterr)
{
    size_t room = p->block_room > 0 ? p->block_room : BLOCK_BYTES_FIRST;

    if (bytes <= p->block_room - p->block_used)
        return HOWDAH_OK;
    if (p->n > 0 && p->block_used + bytes > BLOCK_BYTES_MAX)
        return HOWDAH_END;
    while (room < p->block_used + bytes)
        room *= 2;
    return grow_block(p, room, reterr);
}

/* Grows by doubling, but never beyond what the page is to hold. */
static int make_event_room(hw_sqlite_page *p, howdah_error *reterr)
{
    size_t room = p->events_room > 0 ? p->events_room * 2 : 16;
    howdah_event *events;

    assert(p->n < p->most); /* the caller stops at most */
    if (p->n < p->events_room)
        return HOWDAH_OK;
    room = room < p->most ? room : p->most;
    events = hw_realloc(p->events, room * sizeof *events);
    if (!events)
        return hw_fail_no_memory(reterr);
    p->events = events;
    p->events_room = room;
    return HOWDAH_OK;
}

/* ---------------------------------------------------------------- one row */

/* A row that breaks the schema is damage, not input.  Without memory SQLite also gives NULL: that
   is not damage. */
static int damaged(const hw_sqlite_page *p, sqlite3_stmt *stmt, const char *what,
                   howdah_error *reterr)
{
    hw_sqlite *store = p->store;

    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    return hw_fail(reterr, HOWDAH_CORRUPT, "read: %s: event %lld has a damaged %s", store->name,
                   (long long)sqlite3_column_int64(stmt, HW_SQLITE_COL_SEQUENCE), what);
}

/*
 * Values are taken as sqlite3_value and looked at from there: the same as sqlite3_column_...(), for
 * less, and allowed because a handle is used by one thread at a time.
 */

/* Borrowed from the statement until its next step; absent for NULL. */
hw_str hw_sqlite_borrow_value(sqlite3_stmt *stmt, int column)
{
    sqlite3_value *value = sqlite3_column_value(stmt, column);
    const char *text;

    if (sqlite3_value_type(value) == SQLITE_NULL)
        return HW_STR_NULL;
    text = (const char *)sqlite3_value_text(value);
    return text ? (hw_str){text, (size_t)sqlite3_value_bytes(value)} : HW_STR_NULL;
}

/* JSON is a text, everything else a blob; one of the two columns is NULL. */
static hw_str borrow_payload(sqlite3_stmt *stmt, int data_column, int bytes_column)
{
    hw_str data = hw_sqlite_borrow_value(stmt, data_column);
    sqlite3_value *value;
    const void *bytes;

    if (data.s)
        return data;
    value = sqlite3_column_value(stmt, bytes_column);
    if (sqlite3_value_type(value) == SQLITE_NULL)
        return HW_STR_NULL;
    bytes = sqlite3_value_blob(value); /* NULL for an empty one */
    return (hw_str){bytes ? bytes : "", (size_t)sqlite3_value_bytes(value)};
}

/* The length is checked before it is copied: a damaged file may have anything there. */
bool hw_sqlite_take_uuid(sqlite3_stmt *stmt, int column, hw_uuid *ret_uuid, bool *ret_present)
{
    sqlite3_value *value = sqlite3_column_value(stmt, column);
    const void *bytes;

    *ret_present = sqlite3_value_type(value) != SQLITE_NULL;
    if (!*ret_present)
        return true;
    bytes = sqlite3_value_blob(value);
    *ret_present = bytes && sqlite3_value_bytes(value) == (int)sizeof ret_uuid->b;
    if (!*ret_present)
        return false;
    memcpy(ret_uuid->b, bytes, sizeof ret_uuid->b);
    return true;
}

/* False: at least one of them is there, but is no UUID. */
static bool take_references(sqlite3_stmt *stmt, int first, howdah_event *event)
{
    bool family =
        hw_sqlite_take_uuid(stmt, first + HW_SQLITE_COL_FAMILY, &event->family, &event->has_family);
    bool corrects = hw_sqlite_take_uuid(stmt, first + HW_SQLITE_COL_CORRECTS, &event->corrects,
                                        &event->has_corrects);
    bool causation = hw_sqlite_take_uuid(stmt, first + HW_SQLITE_COL_CAUSATION,
                                         &event->causation_id, &event->has_causation);

    return family && corrects && causation;
}

/* An event without a valid time of its own was valid when it was recorded. */
static void take_numbers(sqlite3_stmt *stmt, int first, howdah_event *event)
{
    event->global_sequence = sqlite3_column_int64(stmt, first + HW_SQLITE_COL_SEQUENCE);
    event->version = sqlite3_column_int64(stmt, first + HW_SQLITE_COL_VERSION);
    event->recorded_at_us = sqlite3_column_int64(stmt, first + HW_SQLITE_COL_RECORDED_AT);
    event->valid_time_us =
        sqlite3_column_type(stmt, first + HW_SQLITE_COL_VALID_TIME) == SQLITE_NULL
            ? event->recorded_at_us
            : sqlite3_column_int64(stmt, first + HW_SQLITE_COL_VALID_TIME);
    event->schema_version = sqlite3_column_int(stmt, first + HW_SQLITE_COL_SCHEMA_VERSION);
    event->revision = sqlite3_column_int(stmt, first + HW_SQLITE_COL_REVISION);
    event->retracts = sqlite3_column_int(stmt, first + HW_SQLITE_COL_RETRACTS) != 0;
    event->purged = sqlite3_column_type(stmt, first + HW_SQLITE_COL_PURGE) != SQLITE_NULL;
}

/* first: where the event's columns begin.  Other columns may come before them, as in a dead
   letter. */
const char *hw_sqlite_borrow_event(sqlite3_stmt *stmt, int first, howdah_event *event)
{
    bool has_id = false;
    bool has_references;

    hw_event_init(event);
    take_numbers(stmt, first, event);
    (void)hw_sqlite_take_uuid(stmt, first + HW_SQLITE_COL_ID, &event->id, &has_id);
    has_references = take_references(stmt, first, event);
    event->stream = hw_sqlite_borrow_value(stmt, first + HW_SQLITE_COL_STREAM);
    event->type = hw_sqlite_borrow_value(stmt, first + HW_SQLITE_COL_TYPE);
    event->correlation_id = hw_sqlite_borrow_value(stmt, first + HW_SQLITE_COL_CORRELATION);
    event->actor = hw_sqlite_borrow_value(stmt, first + HW_SQLITE_COL_ACTOR);
    event->content_type = hw_sqlite_borrow_value(stmt, first + HW_SQLITE_COL_CONTENT_TYPE);
    event->reason = hw_sqlite_borrow_value(stmt, first + HW_SQLITE_COL_REASON);
    if (!has_id)
        return "id";
    if (!has_references)
        return "reference";
    return event->stream.s && event->type.s ? NULL : "stream or type";
}

/* I2: copies the texts into the block, each with its NUL.  HOWDAH_END when they do not fit into
   this page. */
static int take_texts(hw_sqlite_page *p, howdah_event *event, howdah_error *reterr)
{
    size_t bytes = 0;
    char *at;
    int s;

    for (size_t i = 0; i < TEXTS; i++)
        bytes += texts_of(event, i)->s ? texts_of(event, i)->len + 1 : 0;
    s = make_room(p, bytes, reterr);
    if (s != HOWDAH_OK)
        return s;
    at = p->block + p->block_used;
    for (size_t i = 0; i < TEXTS; i++) {
        hw_str *text = texts_of(event, i);

        if (!text->s)
            continue;
        memcpy(at, text->s, text->len);
        at[text->len] = '\0';
        text->s = at;
        at += text->len + 1;
    }
    p->block_used += bytes;
    assert(at == p->block + p->block_used && p->block_used <= p->block_room);
    return HOWDAH_OK;
}

/* Headers and payload of a lean row, borrowed from the statement until it is reset. */
static int fetch_payload(const hw_sqlite_page *p, howdah_event *event, sqlite3_stmt **ret_stmt,
                         howdah_error *reterr)
{
    hw_sqlite *store = p->store;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_PAYLOAD, PAYLOAD_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, event->global_sequence);
    s = hw_sqlite_step(store, stmt, "read", reterr);
    if (s == HOWDAH_END) /* in the same snapshot: the index and the table disagree */
        s = hw_fail(reterr, HOWDAH_CORRUPT, "read: %s: event %lld is damaged", store->name,
                    (long long)event->global_sequence);
    if (s < 0)
        return s;
    event->headers = hw_sqlite_borrow_value(stmt, 0);
    event->data = borrow_payload(stmt, 1, 2);
    *ret_stmt = stmt;
    return HOWDAH_OK;
}

/* From the row itself, by another statement (*ret_stmt, to be reset after the copy), or not at
   all. */
static int take_payload(const hw_sqlite_page *p, sqlite3_stmt *stmt, hw_sqlite_payload how,
                        howdah_event *event, sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    if (how == HW_PAYLOAD_NONE) {
        event->no_payload = true;
        return HOWDAH_OK;
    }
    if (how == HW_PAYLOAD_FETCH)
        return fetch_payload(p, event, ret_stmt, reterr);
    event->headers = hw_sqlite_borrow_value(stmt, HW_SQLITE_COL_HEADERS);
    event->data = borrow_payload(stmt, HW_SQLITE_COL_DATA, HW_SQLITE_COL_BYTES);
    return HOWDAH_OK;
}

/* Neither JSON nor bytes: the event gets a payload that can be handed to anybody, and says that
   it is broken. */
static int take_broken(const hw_sqlite_page *p, howdah_event *event, howdah_error *reterr)
{
    if (sqlite3_errcode(p->store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    event->broken = true;
    event->data = event->content_type.s ? HW_STR_LIT("") : HW_STR_LIT("null");
    return HOWDAH_OK;
}

/* Nothing of the page changes unless the whole row fits. */
int hw_sqlite_page_take(hw_sqlite_page *p, sqlite3_stmt *stmt, hw_sqlite_payload how,
                        howdah_error *reterr)
{
    sqlite3_stmt *payload = NULL;
    const char *what;
    howdah_event event;
    int s = make_event_room(p, reterr);

    if (s < 0)
        return s;
    what = hw_sqlite_borrow_event(stmt, 0, &event);
    if (what)
        return damaged(p, stmt, what, reterr);
    s = take_payload(p, stmt, how, &event, &payload, reterr);
    if (s >= 0 && !event.no_payload && !event.data.s)
        s = take_broken(p, &event, reterr);
    if (s >= 0)
        s = take_texts(p, &event, reterr);
    if (s == HOWDAH_OK)
        p->events[p->n++] = event;
    (void)sqlite3_reset(payload);
    return s;
}

/* Its memory stays, for the next batch. */
void hw_sqlite_page_clear(hw_sqlite_page *p)
{
    p->n = 0;
    p->block_used = 0;
}

void hw_sqlite_page_done(hw_sqlite_page *p)
{
    hw_free(p->events);
    hw_free(p->block);
    *p = (hw_sqlite_page){.store = p->store};
}

/* ------------------------------------------------------------------ cursors */

/* size is that of the whole cursor, of which this is the first member. */
hw_sqlite_cursor *hw_sqlite_cursor_new(size_t size, hw_store *store, size_t batch, int64_t limit)
{
    hw_sqlite_cursor *c = hw_calloc(1, size);

    if (!c)
        return NULL;
    c->base.store = store;
    c->page.store = (hw_sqlite *)store;
    c->page.most = batch > 0 ? batch : BATCH_DEFAULT;
    c->left = limit > 0 ? limit : INT64_MAX;
    return c;
}

/* "more" says that the cursor has not come to its end: a short batch was cut off by bytes, or by
   the work of finding rows. */
int hw_sqlite_read_next(hw_cursor *base, const howdah_event **ret_events, size_t *ret_n,
                        howdah_error *reterr)
{
    hw_sqlite_cursor *c = (hw_sqlite_cursor *)base;
    const hw_sqlite *store = c->page.store;
    size_t want = (int64_t)c->page.most < c->left ? c->page.most : (size_t)c->left;

    hw_sqlite_page_clear(&c->page);
    for (bool repeated = false; want > 0; repeated = true) {
        int s = c->fill(c, want, reterr);

        if (s >= 0)
            break;
        /* A connection that went bad is made anew, once; what was read stays. */
        if (repeated || !store->sick || !store->path)
            return s;
    }
    if (c->page.n == 0)
        return HOWDAH_END;
    c->left -= (int64_t)c->page.n;
    c->base.more = !c->over && c->left > 0;
    *ret_events = c->page.events;
    *ret_n = c->page.n;
    return HOWDAH_OK;
}

void hw_sqlite_read_close(hw_cursor *base)
{
    hw_sqlite_cursor *c = (hw_sqlite_cursor *)base;

    if (!c)
        return;
    c->done(c);
    hw_sqlite_page_done(&c->page);
    hw_free(c);
}
