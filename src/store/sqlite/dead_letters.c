/*
 * dead_letters.c - dead letters and skips: what a subscription left aside, and why.
 *
 *   I1  A dead letter, or a skip, and the checkpoint that leaves its number out are one
 *       transaction, and that one waits for the disk.
 *   I2  A dead letter is resolved once.  Only a new failure of the same event opens it again.
 *   I3  What was purged does not come back as a dead letter: an owner that had the event in hand
 *       at the time stores it as it is now, without its payload.
 *   I4  Dead letters of jobs have ids of the same sequence (queue_dead_letters.c): a list, or a
 *       mark by id, deals with both.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

#define PAYLOAD_BYTES_MAX (256 * 1024 * 1024)

#define INSERT_DEAD_LETTER_SQL                                                                     \
    "INSERT INTO main.howdah_dead_letters (subscriber_id, error_message, retry_count, created_at," \
    " last_retry_at, " HW_SQLITE_COPY_COLUMNS ")"                                                  \
    " VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"     \
    " ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)"                                                     \
    " ON CONFLICT (subscriber_id, event_id) DO UPDATE SET state = 'dead',"                         \
    " error_message = excluded.error_message, retry_count = excluded.retry_count,"                 \
    " last_retry_at = excluded.last_retry_at, reason = NULL, resolved_at = NULL,"                  \
    " resolved_by = NULL RETURNING id"

/* After the last of them come the event's, in the order of its columns. */
enum { P_SUBSCRIBER = 1, P_ERROR, P_ATTEMPTS, P_NOW, P_EVENT };
#define P_OF(NAME) (P_EVENT + HW_SQLITE_COL_##NAME)
_Static_assert(P_OF(PURGE) == 25, "a parameter for each column");

/* ?1 sequence, ?2 id */
#define PURGE_OF_SQL "SELECT purge FROM main.howdah_events WHERE global_sequence = ?1 AND id = ?2"
#define PURGED_MEANWHILE "failed, and the event was purged meanwhile"

/* ?1 subscriber or NULL, ?2 id or 0, ?3 after, ?4 limit or -1, ?5 resolved too, ?6 redrives only */
#define DEAD_LETTERS_SQL                                                                           \
    "SELECT id, source, subscriber_id, state, error_message, retry_count, redrives, reason,"       \
    " created_at, last_retry_at, resolved_at, resolved_by, " HW_SQLITE_COPY_COLUMNS                \
    " FROM main.howdah_dead_letters"                                                               \
    " WHERE id > ?3 AND (?2 = 0 OR id = ?2) AND (?1 IS NULL OR subscriber_id = ?1)"                \
    " AND (?5 OR resolved_at IS NULL) AND (NOT ?6 OR state = 'redrive')"                           \
    " ORDER BY id LIMIT ?4"

enum {
    COL_ID,
    COL_SOURCE,
    COL_SUBSCRIBER,
    COL_STATE,
    COL_ERROR,
    COL_ATTEMPTS,
    COL_REDRIVES,
    COL_REASON,
    COL_CREATED_AT,
    COL_LAST_AT,
    COL_RESOLVED_AT,
    COL_RESOLVED_BY,
    COL_EVENT
};

/* ?1 id or NULL, ?2 subscriber or NULL, ?3 state, ?4 reason, ?5 now or NULL, ?6 by whom */
#define MARK_SQL                                                                                   \
    "UPDATE main.howdah_dead_letters SET state = ?3, reason = ?4, resolved_at = ?5,"               \
    " resolved_by = ?6 WHERE resolved_at IS NULL AND (?1 IS NULL OR id = ?1)"                      \
    " AND (?2 IS NULL OR subscriber_id = ?2)"
/* ?1 id, ?2 subscriber, ?3 state, ?4 error or NULL, ?5 now, ?6 resolved_at */
#define ACK_SQL                                                                                    \
    "UPDATE main.howdah_dead_letters SET state = ?3, error_message = coalesce(?4, error_message)," \
    " retry_count = retry_count + (state = 'redrive'),"                                            \
    " redrives = redrives + (state = 'redrive'), last_retry_at = ?5,"                              \
    " resolved_at = ?6, resolved_by = CASE WHEN ?6 IS NULL THEN NULL ELSE"                         \
    " (SELECT owner FROM main.howdah_subscriptions s WHERE s.subscriber_id = ?2) END"              \
    " WHERE id = ?1 AND subscriber_id = ?2 AND resolved_at IS NULL"
#define EXISTS_SQL                                                                                 \
    "SELECT 1 FROM main.howdah_dead_letters WHERE id = ?1 AND subscriber_id = ?2"                  \
    " AND resolved_at IS NULL"

/* Once, also when the caller did not hear of its commit and repeats it. */
#define INSERT_SKIP_SQL                                                                            \
    "INSERT INTO main.howdah_skips (subscriber_id, first_sequence, last_sequence, age_ms, reason," \
    " created_at) SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS (SELECT 1 FROM main.howdah_skips" \
    " WHERE subscriber_id = ?1 AND first_sequence = ?2 AND last_sequence = ?3"                     \
    " AND resolved_at IS NULL)"
#define SKIPS_SQL                                                                                  \
    "SELECT id, subscriber_id, first_sequence, last_sequence, age_ms, reason, created_at,"         \
    " resolved_at, resolution FROM main.howdah_skips"                                              \
    " WHERE (?1 IS NULL OR subscriber_id = ?1) AND (?2 OR resolved_at IS NULL) AND id > ?3"        \
    " ORDER BY id LIMIT ?4"
#define RESOLVE_SQL                                                                                \
    "UPDATE main.howdah_skips SET resolved_at = ?2, resolution = ?3"                               \
    " WHERE id = ?1 AND resolved_at IS NULL"
#define SKIP_EXISTS_SQL "SELECT 1 FROM main.howdah_skips WHERE id = ?1"

/* -------------------------------------------------------- writing a dead letter */

static void bind_uuid_if(sqlite3_stmt *stmt, int index, bool present, const hw_uuid *uuid)
{
    if (present)
        hw_sqlite_bind_uuid(stmt, index, uuid);
}

/* Parameters that are not bound are NULL: the payload of a broken event stays away. */
static void bind_event(sqlite3_stmt *stmt, const howdah_event *event)
{
    hw_sqlite_bind_uuid(stmt, P_OF(ID), &event->id);
    (void)sqlite3_bind_int64(stmt, P_OF(SEQUENCE), event->global_sequence);
    hw_sqlite_bind_str(stmt, P_OF(STREAM), event->stream);
    (void)sqlite3_bind_int64(stmt, P_OF(VERSION), event->version);
    hw_sqlite_bind_str(stmt, P_OF(TYPE), event->type);
    (void)sqlite3_bind_int64(stmt, P_OF(RECORDED_AT), event->recorded_at_us);
    if (event->valid_time_us != HW_TIME_ABSENT && event->valid_time_us != event->recorded_at_us)
        (void)sqlite3_bind_int64(stmt, P_OF(VALID_TIME), event->valid_time_us);
    (void)sqlite3_bind_int(stmt, P_OF(SCHEMA_VERSION), event->schema_version);
    (void)sqlite3_bind_int(stmt, P_OF(REVISION), event->revision);
    bind_uuid_if(stmt, P_OF(FAMILY), event->has_family, &event->family);
    bind_uuid_if(stmt, P_OF(CORRECTS), event->has_corrects, &event->corrects);
    bind_uuid_if(stmt, P_OF(CAUSATION), event->has_causation, &event->causation_id);
    hw_sqlite_bind_str(stmt, P_OF(CORRELATION), event->correlation_id);
    hw_sqlite_bind_str(stmt, P_OF(ACTOR), event->actor);
    hw_sqlite_bind_str(stmt, P_OF(CONTENT_TYPE), event->content_type);
    hw_sqlite_bind_str(stmt, P_OF(REASON), event->reason);
    hw_sqlite_bind_str(stmt, P_OF(HEADERS), event->headers);
    if (event->retracts)
        (void)sqlite3_bind_int(stmt, P_OF(RETRACTS), 1);
    if (event->broken)
        return;
    if (!event->content_type.s)
        hw_sqlite_bind_str(stmt, P_OF(DATA), event->data);
    else
        (void)sqlite3_bind_blob64(stmt, P_OF(BYTES), event->data.s, event->data.len, SQLITE_STATIC);
}

/* The purge that erased the event's payload, 0: none did. */
static int find_purge(hw_sqlite *store, const howdah_event *event, int64_t *ret_purge,
                      howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, PURGE_OF_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, event->global_sequence);
    hw_sqlite_bind_uuid(stmt, 2, &event->id);
    s = hw_sqlite_step(store, stmt, "store a dead letter", reterr);
    if (s >= 0)
        *ret_purge = s == HOWDAH_OK ? sqlite3_column_int64(stmt, 0) : 0;
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* I2: an event that has a dead letter already opens that one again, with the new error. */
int hw_sqlite_insert_dead_letter(hw_sqlite *store, hw_str subscriber_id, const howdah_event *event,
                                 hw_str error, int64_t attempts, int64_t *ret_id,
                                 howdah_error *reterr)
{
    howdah_event erased = *event;
    sqlite3_stmt *stmt = NULL;
    int64_t purge = 0;
    int s = find_purge(store, event, &purge, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, INSERT_DEAD_LETTER_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    if (purge > 0) { /* I3 */
        if (!event->purged)
            error = HW_STR_LIT(PURGED_MEANWHILE);
        erased.headers = HW_STR_NULL;
        erased.data = event->content_type.s ? HW_STR_LIT("") : HW_STR_LIT("null");
        erased.broken = false;
        event = &erased;
        (void)sqlite3_bind_int64(stmt, P_OF(PURGE), purge);
    }
    hw_sqlite_bind_str(stmt, P_SUBSCRIBER, subscriber_id);
    hw_sqlite_bind_str(stmt, P_ERROR, error.s ? error : HW_STR_LIT(""));
    (void)sqlite3_bind_int64(stmt, P_ATTEMPTS, attempts);
    (void)sqlite3_bind_int64(stmt, P_NOW, hw_clock_wall_us());
    bind_event(stmt, event);
    s = hw_sqlite_step(store, stmt, "store a dead letter", reterr);
    if (s == HOWDAH_OK) {
        *ret_id = sqlite3_column_int64(stmt, 0);
        s = hw_sqlite_step(store, stmt, "store a dead letter", reterr);
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* I1.  The checkpoint first: it refuses an owner that has lost its token before anything is
   written. */
int hw_sqlite_dead_letter(hw_store *base, const hw_checkpoint *checkpoint,
                          const howdah_event *event, hw_str error, int64_t attempts,
                          int64_t *ret_id, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int64_t id = 0;
    int s;

    assert(event->global_sequence > 0 && !event->no_payload && event->data.s);
    s = hw_sqlite_enter(store, true, reterr);
    if (s < 0)
        return s;
    s = hw_sqlite_put_checkpoint(store, checkpoint, reterr);
    if (s >= 0)
        s = hw_sqlite_insert_dead_letter(store, checkpoint->subscriber_id, event, error, attempts,
                                         &id, reterr);
    s = hw_sqlite_leave(store, s, reterr);
    if (s >= 0 && ret_id)
        *ret_id = id;
    return s;
}

/* --------------------------------------------------------- reading dead letters */

/* A blob has no NUL after it, which every text of an event has: it is copied to bytes. */
static hw_str take_payload(sqlite3_stmt *stmt, hw_buf *bytes)
{
    int data = COL_EVENT + HW_SQLITE_COL_DATA;
    int blob = COL_EVENT + HW_SQLITE_COL_BYTES;

    if (sqlite3_column_type(stmt, data) != SQLITE_NULL)
        return hw_sqlite_borrow(stmt, data);
    if (sqlite3_column_type(stmt, blob) == SQLITE_NULL)
        return HW_STR_NULL;
    hw_buf_clear(bytes);
    hw_buf_put(bytes, sqlite3_column_blob(stmt, blob), (size_t)sqlite3_column_bytes(stmt, blob));
    return (hw_str){hw_buf_str(bytes), bytes->len};
}

/* An id or a reference that is damaged is left out: the dead letter is worth having without it.
   One whose payload is missing is shown as broken. */
static void take_event(sqlite3_stmt *stmt, hw_buf *bytes, howdah_event *event)
{
    (void)hw_sqlite_borrow_event(stmt, COL_EVENT, event);
    event->headers = hw_sqlite_borrow(stmt, COL_EVENT + HW_SQLITE_COL_HEADERS);
    event->data = take_payload(stmt, bytes);
    event->broken = !event->data.s;
    if (event->broken)
        event->data = event->content_type.s ? HW_STR_LIT("") : HW_STR_LIT("null");
}

const char *hw_sqlite_text(sqlite3_stmt *stmt, int column)
{
    hw_str text = hw_sqlite_borrow(stmt, column);

    return text.s ? text.s : "";
}

/* The texts of dead letter and event are the statement's until its next step, or are in bytes.  A
   row that breaks the schema is damage, and is reported as such. */
static int take_dead_letter(const hw_sqlite *store, sqlite3_stmt *stmt, hw_buf *bytes,
                            howdah_event *event, howdah_dead_letter *dead_letter,
                            howdah_error *reterr)
{
    hw_dead_letter_state state = HW_DEAD_LETTER_DEAD;

    take_event(stmt, bytes, event);
    *dead_letter =
        (howdah_dead_letter){.size = sizeof *dead_letter,
                             .id = sqlite3_column_int64(stmt, COL_ID),
                             .source = hw_sqlite_text(stmt, COL_SOURCE),
                             .subscriber_id = hw_sqlite_borrow(stmt, COL_SUBSCRIBER).s,
                             .event = event,
                             .error = hw_sqlite_text(stmt, COL_ERROR),
                             .attempts = sqlite3_column_int64(stmt, COL_ATTEMPTS),
                             .redrives = sqlite3_column_int64(stmt, COL_REDRIVES),
                             .created_at_us = sqlite3_column_int64(stmt, COL_CREATED_AT),
                             .last_attempt_at_us = sqlite3_column_int64(stmt, COL_LAST_AT),
                             .reason = hw_sqlite_text(stmt, COL_REASON),
                             .resolved = sqlite3_column_type(stmt, COL_RESOLVED_AT) != SQLITE_NULL,
                             .resolved_at_us = hw_sqlite_time(stmt, COL_RESOLVED_AT),
                             .resolved_by = hw_sqlite_text(stmt, COL_RESOLVED_BY)};
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    if (!event->stream.s || !event->type.s ||
        !hw_dead_letter_state_of(hw_sqlite_borrow(stmt, COL_STATE), &state))
        return hw_fail(reterr, HOWDAH_CORRUPT, "%s: dead letter %" PRId64 " is damaged",
                       store->name, dead_letter->id);
    dead_letter->state = hw_dead_letter_state_name(state);
    return hw_buf_check(bytes, reterr);
}

/* The payload's buffer lives for the call only: fn copies what it wants to keep. */
static int hand_dead_letter(hw_sqlite *store, sqlite3_stmt *stmt, hw_dead_letter_fn fn, void *ctx,
                            bool *ret_stop, howdah_error *reterr)
{
    hw_buf bytes = HW_BUF_INIT(PAYLOAD_BYTES_MAX);
    howdah_event event;
    howdah_dead_letter dead_letter;
    int s = take_dead_letter(store, stmt, &bytes, &event, &dead_letter, reterr);

    if (s >= 0)
        *ret_stop = fn(ctx, &dead_letter) != 0;
    hw_buf_done(&bytes);
    return s;
}

/* A page of those of subscriptions; the other source is hw_sqlite_job_dead_letters(). */
static int prepare_dead_letters(hw_sqlite *store, const hw_dead_letter_query *query,
                                sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, DEAD_LETTERS_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, query->subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, query->id);
    (void)sqlite3_bind_int64(stmt, 3, query->after_id);
    (void)sqlite3_bind_int64(stmt, 4, query->limit > 0 ? query->limit : -1);
    (void)sqlite3_bind_int(stmt, 5, query->resolved);
    (void)sqlite3_bind_int(stmt, 6, query->redrives);
    *ret_stmt = stmt;
    return HOWDAH_OK;
}

/* I4: one of the two sources of dead letters, page by page. */
typedef struct source {
    bool of_jobs;
    bool dry; /* nothing is left after what is held */
    hw_sqlite_held held;
    sqlite3_stmt *row; /* one that was not handed over yet; NULL: none */
} source;

/* A page of those after the last one that was handed over, whichever source that was from.  No
   statement stays open while fn runs (buffered_rows.c I1). */
static int fill(hw_sqlite *store, source *from, const hw_dead_letter_query *query, int64_t after,
                int64_t left, howdah_error *reterr)
{
    hw_dead_letter_query page = *query;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready_to_read(store, reterr);

    page.after_id = after;
    page.limit = left < HW_SQLITE_HELD_ROWS ? left : HW_SQLITE_HELD_ROWS;
    if (s >= 0)
        s = from->of_jobs ? hw_sqlite_job_dead_letters(store, &page, &stmt, reterr)
                          : prepare_dead_letters(store, &page, &stmt, reterr);
    if (s >= 0)
        s = hw_sqlite_hold(&from->held, store, stmt, "read dead letters", reterr);
    (void)sqlite3_finalize(stmt);
    from->dry = s >= 0 && !from->held.cut && (int64_t)from->held.n < page.limit;
    return s;
}

/* Makes sure that the source has a row to compare, if it has any left. */
static int advance(hw_sqlite *store, source *from, const hw_dead_letter_query *query, int64_t after,
                   int64_t left, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (from->row)
        return HOWDAH_OK;
    if (from->held.at == from->held.n && !from->dry)
        s = fill(store, from, query, after, left, reterr);
    if (s >= 0)
        s = hw_sqlite_held_next(&from->held, store, &from->row, reterr);
    if (s != HOWDAH_OK)
        from->row = NULL;
    return s < 0 ? s : HOWDAH_OK;
}

/* A source without rows comes last. */
static int64_t next_id(const source *from)
{
    return !from->row      ? INT64_MAX
           : from->of_jobs ? hw_sqlite_job_dead_letter_id(from->row)
                           : sqlite3_column_int64(from->row, COL_ID);
}

/* Merges the two sources by id, so that pages by after_id work over both. */
static int merge(hw_sqlite *store, source *subs, source *jobs, const hw_dead_letter_query *query,
                 hw_dead_letter_fn fn, void *ctx, howdah_error *reterr)
{
    int64_t left = query->limit > 0 ? query->limit : INT64_MAX;
    int64_t after = query->after_id;
    bool stop = false;
    int s = HOWDAH_OK;

    assert(!subs->of_jobs && jobs->of_jobs);
    while (s >= 0 && !stop && left > 0) {
        source *from;

        s = advance(store, subs, query, after, left, reterr);
        if (s >= 0)
            s = advance(store, jobs, query, after, left, reterr);
        if (s < 0 || (!subs->row && !jobs->row))
            break;
        from = next_id(subs) < next_id(jobs) ? subs : jobs;
        after = next_id(from);
        s = from->of_jobs ? hw_sqlite_hand_job_dead_letter(store, from->row, fn, ctx, &stop, reterr)
                          : hand_dead_letter(store, from->row, fn, ctx, &stop, reterr);
        from->row = NULL;
        left--;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* A source that the filter rules out is dry from the start.  Redrives are for owners of
   subscriptions: jobs go back to their queue when they are asked for. */
int hw_sqlite_dead_letters(hw_store *base, const hw_dead_letter_query *query, hw_dead_letter_fn fn,
                           void *ctx, howdah_error *reterr)
{
    source subs = {.dry = query->queue.s != NULL};
    source jobs = {.of_jobs = true, .dry = query->subscriber_id.s || query->redrives};
    int s = merge((hw_sqlite *)base, &subs, &jobs, query, fn, ctx, reterr);

    hw_sqlite_held_done(&subs.held);
    hw_sqlite_held_done(&jobs.held);
    return s;
}

/* ------------------------------------------------------ marking, resolving */

/* One dead letter (id > 0), or all that the bound subscriber names; adds to *ret_n how many
   changed. */
static int mark(hw_sqlite *store, sqlite3_stmt *stmt, int64_t id, int64_t *ret_n,
                howdah_error *reterr)
{
    int s;

    if (id > 0)
        (void)sqlite3_bind_int64(stmt, 1, id);
    s = hw_sqlite_step(store, stmt, "mark a dead letter", reterr);
    if (s >= 0)
        *ret_n += sqlite3_changes(store->db);
    return s < 0 ? s : HOWDAH_OK;
}

/* I4: the dead letter of a subscription with this id, else that of a job.  id 0: all of both. */
static int mark_any(hw_sqlite *store, sqlite3_stmt *stmt, int64_t id, hw_dead_letter_state state,
                    hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    int64_t before = *ret_n;
    int s = mark(store, stmt, id, ret_n, reterr);

    if (s < 0 || (id > 0 && *ret_n > before))
        return s;
    return hw_sqlite_set_job_dead_letters(store, id, state, reason, ret_n, reterr);
}

/* Ids that are not positive name nothing.  With a subscriber only dead letters of subscriptions
   count. */
static int mark_all(hw_sqlite *store, const int64_t *ids, size_t n, hw_str subscriber_id,
                    hw_dead_letter_state state, hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, MARK_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 2, subscriber_id);
    hw_sqlite_bind_str(stmt, 3, hw_str_of(hw_dead_letter_state_name(state)));
    if (state == HW_DEAD_LETTER_DISCARDED) {
        hw_sqlite_bind_str(stmt, 4, reason);
        (void)sqlite3_bind_int64(stmt, 5, hw_clock_wall_us());
        hw_sqlite_bind_str(stmt, 6, HW_STR_LIT(HW_SQLITE_BY_OPERATOR));
    }
    for (size_t i = 0; s >= 0 && i < (n > 0 ? n : 1); i++) {
        int64_t id = n > 0 ? ids[i] : 0;

        if (n > 0 && id <= 0)
            continue;
        s = subscriber_id.s ? mark(store, stmt, id, ret_n, reterr)
                            : mark_any(store, stmt, id, state, reason, ret_n, reterr);
    }
    (void)sqlite3_finalize(stmt);
    return s;
}

/* Rings after the commit: an owner that sleeps has to look for redrives. */
int hw_sqlite_dead_letters_set_state(hw_store *base, const int64_t *ids, size_t n,
                                     hw_str subscriber_id, hw_dead_letter_state state,
                                     hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int64_t marked = 0;
    int s;

    assert(state == HW_DEAD_LETTER_REDRIVE || state == HW_DEAD_LETTER_DISCARDED);
    s = hw_sqlite_enter(store, true, reterr);
    if (s < 0)
        return s;
    s = mark_all(store, ids, n, subscriber_id, state, reason, &marked, reterr);
    s = hw_sqlite_leave(store, s, reterr);
    if (s < 0)
        return s;
    if (ret_n)
        *ret_n = marked;
    return hw_sqlite_ring(base, NULL, 0, reterr);
}

/* NOT_FOUND unless the statement, with its parameters bound, has a row.  Finalizes it. */
static int must_exist(hw_sqlite *store, sqlite3_stmt *stmt, const char *what, int64_t id,
                      howdah_error *reterr)
{
    int s = hw_sqlite_step(store, stmt, "look", reterr);

    (void)sqlite3_finalize(stmt);
    if (s != HOWDAH_END)
        return s;
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no %s %" PRId64, what, id);
}

/* Open, and of this subscription: anything else was resolved meanwhile. */
static int dead_letter_exists(hw_sqlite *store, hw_str subscriber_id, int64_t id,
                              howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, EXISTS_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    hw_sqlite_bind_str(stmt, 2, subscriber_id);
    return must_exist(store, stmt, "dead letter", id, reterr);
}

/* The first end of a try counts it: the state is REDRIVE only until then. */
static int end_redrive(hw_sqlite *store, hw_str subscriber_id, int64_t id,
                       hw_dead_letter_state state, hw_str error, howdah_error *reterr)
{
    int64_t now = hw_clock_wall_us();
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, ACK_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    hw_sqlite_bind_str(stmt, 2, subscriber_id);
    hw_sqlite_bind_str(stmt, 3, hw_str_of(hw_dead_letter_state_name(state)));
    hw_sqlite_bind_str(stmt, 4, error);
    (void)sqlite3_bind_int64(stmt, 5, now);
    if (state == HW_DEAD_LETTER_REDRIVEN)
        (void)sqlite3_bind_int64(stmt, 6, now);
    return hw_sqlite_finish(store, stmt, "resolve a dead letter", reterr);
}

/* Inside a handler's transaction it becomes part of it, and commits or goes with it. */
int hw_sqlite_redrive_end(hw_store *base, const hw_hold *hold, int64_t id,
                          hw_dead_letter_state state, hw_str error, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    bool joins = store->db && store->writing; /* it is part of the handler's transaction */
    int s;

    assert(state == HW_DEAD_LETTER_REDRIVEN || state == HW_DEAD_LETTER_DEAD);
    s = joins ? HOWDAH_OK : hw_sqlite_enter(store, true, reterr);
    if (s < 0)
        return s;
    s = hw_sqlite_check_hold(store, hold, reterr);
    if (s >= 0)
        s = dead_letter_exists(store, hold->subscriber_id, id, reterr);
    if (s >= 0)
        s = end_redrive(store, hold->subscriber_id, id, state, error, reterr);
    return joins ? s : hw_sqlite_leave(store, s, reterr);
}

/* ------------------------------------------------------------------- skips */

/* Once, even if the caller did not hear of its commit and repeats it: see INSERT_SKIP_SQL. */
static int insert_skip(hw_sqlite *store, hw_str subscriber_id, hw_range range, int64_t age_ms,
                       hw_str reason, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, INSERT_SKIP_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    (void)sqlite3_bind_int64(stmt, 2, range.first);
    (void)sqlite3_bind_int64(stmt, 3, range.last);
    (void)sqlite3_bind_int64(stmt, 4, age_ms);
    hw_sqlite_bind_str(stmt, 5, reason.s ? reason : HW_STR_LIT(""));
    (void)sqlite3_bind_int64(stmt, 6, hw_clock_wall_us());
    return hw_sqlite_finish(store, stmt, "record a skip", reterr);
}

/* I1, as for a dead letter. */
int hw_sqlite_skip(hw_store *base, const hw_checkpoint *checkpoint, hw_range range, int64_t age_ms,
                   hw_str reason, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    assert(range.first <= range.last);
    if (s < 0)
        return s;
    s = hw_sqlite_put_checkpoint(store, checkpoint, reterr);
    if (s >= 0)
        s = insert_skip(store, checkpoint->subscriber_id, range, age_ms, reason, reterr);
    return hw_sqlite_leave(store, s, reterr);
}

/* What bind_skips() and hand_skip() need of the call. */
typedef struct skip_walk {
    hw_str subscriber_id; /* absent: of all */
    bool resolved;
    hw_skip_fn fn;
    void *ctx;
} skip_walk;

static void bind_skips(void *ctx, sqlite3_stmt *stmt)
{
    const skip_walk *w = ctx;

    hw_sqlite_bind_str(stmt, 1, w->subscriber_id);
    (void)sqlite3_bind_int(stmt, 2, w->resolved);
}

/* Texts are the row's: they are valid during the call. */
static int hand_skip(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    const skip_walk *w = ctx;
    howdah_skip skip = {.size = sizeof skip,
                        .id = sqlite3_column_int64(stmt, 0),
                        .subscriber_id = hw_sqlite_borrow(stmt, 1).s,
                        .first = sqlite3_column_int64(stmt, 2),
                        .last = sqlite3_column_int64(stmt, 3),
                        .age_ms = sqlite3_column_int64(stmt, 4),
                        .reason = hw_sqlite_text(stmt, 5),
                        .created_at_us = sqlite3_column_int64(stmt, 6),
                        .resolved_at_us = hw_sqlite_time(stmt, 7),
                        .resolution = hw_sqlite_text(stmt, 8)};

    (void)reterr;
    *ret_stop = w->fn(w->ctx, &skip) != 0;
    return HOWDAH_OK;
}

int hw_sqlite_skips(hw_store *base, hw_str subscriber_id, bool resolved, hw_skip_fn fn, void *ctx,
                    howdah_error *reterr)
{
    skip_walk w = {subscriber_id, resolved, fn, ctx};
    const hw_sqlite_walk walk = {.sql = SKIPS_SQL,
                                 .doing = "read skips",
                                 .keys = 1,
                                 .key_column = {0},
                                 .key_param = {3},
                                 .limit_param = 4,
                                 .bind = bind_skips,
                                 .row = hand_skip,
                                 .ctx = &w};

    return hw_sqlite_walk_rows((hw_sqlite *)base, &walk, reterr);
}

static int skip_exists(hw_sqlite *store, int64_t id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, SKIP_EXISTS_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    return must_exist(store, stmt, "skip", id, reterr);
}

/* Resolving twice is no error, and keeps the first resolution. */
int hw_sqlite_skip_resolve(hw_store *base, int64_t id, hw_str resolution, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = skip_exists(store, id, reterr);
    if (s >= 0)
        s = hw_sqlite_prepare(store, RESOLVE_SQL, &stmt, reterr);
    if (s >= 0) {
        (void)sqlite3_bind_int64(stmt, 1, id);
        (void)sqlite3_bind_int64(stmt, 2, hw_clock_wall_us());
        hw_sqlite_bind_str(stmt, 3, resolution.s ? resolution : HW_STR_LIT(""));
        s = hw_sqlite_finish(store, stmt, "resolve a skip", reterr);
    }
    return hw_sqlite_leave(store, s, reterr);
}
