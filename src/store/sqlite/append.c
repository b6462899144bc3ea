/*
 * append.c - a batch into the log, whole or not at all.
 *
 *   I1  Everything happens under the write lock: versions that were read cannot change before
 *       the events are in, so a lost race (HW_APPEND_VERSION_TAKEN) does not exist here.
 *   I2  Whether an id is stored is told by the unique index when the event goes in, at no cost of
 *       its own; a SELECT for ids is made only after something failed.
 *   I3  A stored id comes before an unmet expectation: an append that is repeated has changed the
 *       very version that it expects.
 *   I4  All events of a batch have the same recorded time, which is never earlier than that of
 *       the event before them.
 *   I5  A correction is the next revision after the event it corrects, and recorded later than
 *       that one.  It comes alone, in a statement of its own: an ordinary append does not pay for
 *       it.
 *
 * Events go in many at a time: a statement costs about as much as a row, most of it for
 * AUTOINCREMENT and for opening the indexes.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define INTERRUPT_EVERY 1024 /* events between two looks at the interrupt */
#define MANY 32              /* rows of the larger INSERT */

/* Changes nothing, but takes the write lock. */
#define LOCK_SQL "UPDATE main.howdah_events SET purge = purge WHERE 0"
#define LAST_RECORDED_SQL                                                                          \
    "SELECT recorded_at FROM main.howdah_events ORDER BY global_sequence DESC LIMIT 1"
#define STREAM_VERSION_SQL                                                                         \
    "SELECT version FROM main.howdah_events WHERE stream = ?1 ORDER BY version DESC LIMIT 1"
/* ?1 the corrected event, ?2 the family, ?3 the revision in front of the new one */
#define CORRECTED_SQL                                                                              \
    "SELECT recorded_at FROM main.howdah_events WHERE id = ?1 AND coalesce(family, id) = ?2"       \
    " AND revision = ?3 AND (purge IS NOT NULL) = ?4 AND NOT EXISTS"                               \
    " (SELECT 1 FROM main.howdah_events n WHERE n.family = ?2 AND n.revision = ?3 + 1)"
#define INSERT_COLUMNS                                                                             \
    "INSERT INTO main.howdah_events (id, stream, version, type, recorded_at, schema_version,"      \
    " revision, valid_time, family, corrects, causation_id, correlation_id, actor, content_type,"  \
    " reason, headers, data, bytes, digest"
#define INSERT_INTO INSERT_COLUMNS ") VALUES "
#define ROW "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define ROW_PARAMETERS 19
#define ROWS_4 ROW ", " ROW ", " ROW ", " ROW
#define ROWS_16 ROWS_4 ", " ROWS_4 ", " ROWS_4 ", " ROWS_4
#define INSERT_ONE_SQL INSERT_INTO ROW
#define INSERT_CORRECTION_SQL                                                                      \
    INSERT_COLUMNS                                                                                 \
    ", retracts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
#define INSERT_MANY_SQL INSERT_INTO ROWS_16 ", " ROWS_16
#define MARK_SQL                                                                                   \
    "INSERT INTO main.howdah_imports (source, created_at, id, rows, updated_at)"                   \
    " VALUES (?1, ?2, ?3, ?4, ?5)"                                                                 \
    " ON CONFLICT (source) DO UPDATE SET created_at = excluded.created_at, id = excluded.id,"      \
    " rows = excluded.rows, updated_at = excluded.updated_at"

/* The first column of the only row, otherwise without one. */
static int read_number(hw_sqlite *store, sqlite3_stmt *stmt, int64_t otherwise, int64_t *ret_value,
                       howdah_error *reterr)
{
    int s = hw_sqlite_step(store, stmt, "append", reterr);

    if (s < 0)
        return s;
    *ret_value = otherwise;
    if (s == HOWDAH_OK) {
        *ret_value = sqlite3_column_int64(stmt, 0);
        (void)sqlite3_reset(stmt);
    }
    return HOWDAH_OK;
}

/* 0 for a stream without events: its first version is 1. */
static int read_stream_version(hw_sqlite *store, hw_str stream, int64_t *ret_version,
                               howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_STREAM_VERSION, STREAM_VERSION_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, stream);
    return read_number(store, stmt, 0, ret_version, reterr);
}

/* I1.  Our own transactions begin with the lock.  A caller's transaction that has only read so
   far holds none yet; if it cannot have it now, it fails here, before anything was written. */
static int take_lock(hw_sqlite *store, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s;

    if (sqlite3_txn_state(store->db, "main") == SQLITE_TXN_WRITE)
        return HOWDAH_OK;
    s = hw_sqlite_prepare(store, LOCK_SQL, &stmt, reterr);
    return s < 0 ? s : hw_sqlite_finish(store, stmt, "append", reterr);
}

/* I4.  The clock is read after the lock was taken: so a reader that finds the lock free, and
   reads the clock after that, knows that no earlier time will be stored any more (times.c I1). */
static int choose_recorded_at(hw_sqlite *store, int64_t *ret_us, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t now = 0;
    int64_t last = 0;
    int s = take_lock(store, reterr);

    if (s >= 0)
        s = hw_sqlite_stmt(store, HW_SLOT_LAST_RECORDED, LAST_RECORDED_SQL, &stmt, reterr);
    now = hw_clock_wall_us();
    if (s >= 0)
        s = read_number(store, stmt, now, &last, reterr);
    if (s >= 0)
        *ret_us = last > now ? last : now;
    return s;
}

/* I3: an expectation is not met.  If one of the ids is stored, the batch is a repeated one, and
   the bus compares it with what is stored. */
static int report_unexpected(hw_sqlite *store, const hw_batch *batch, size_t stream_no,
                             int64_t actual, hw_append_report *report, howdah_error *reterr)
{
    int64_t stored = 0;

    for (size_t i = 0; i < batch->n && stored == 0; i++) {
        int s = hw_sqlite_find(store, &batch->events[i]->id, &stored, reterr);
        if (s < 0)
            return s;
    }
    report->outcome = stored > 0 ? HW_APPEND_ID_TAKEN : HW_APPEND_UNEXPECTED;
    report->stream_no = stream_no;
    report->actual_version = actual;
    return HOWDAH_OK;
}

/* The present version of each stream.  It stops at the first one that is not as expected; the
   report says which. */
static int read_versions(hw_sqlite *store, const hw_batch *batch, int64_t *versions,
                         hw_append_report *report, howdah_error *reterr)
{
    for (size_t i = 0; i < batch->streams_n; i++) {
        const hw_batch_stream *stream = &batch->streams[i];
        int s = read_stream_version(store, stream->name, &versions[i], reterr);

        if (s < 0)
            return s;
        /* Only a plain INSERT can have brought it there. */
        if (versions[i] > INT64_MAX - (int64_t)batch->n)
            return hw_fail_field(reterr, HOWDAH_LIMIT, "version", "the stream has no version left");
        if (!hw_expectation_met(stream->expected, versions[i]))
            return report_unexpected(store, batch, i, versions[i], report, reterr);
    }
    return HOWDAH_OK;
}

/*
 * I5.  When the correction is not the next one, it may be stored itself: then it is repeated, which
 * comes first, as in I3.
 */
static int check_correction(hw_sqlite *store, const hw_batch *batch, int64_t *recorded_at_us,
                            hw_append_report *report, howdah_error *reterr)
{
    const howdah_event *event = batch->events[0];
    sqlite3_stmt *stmt = NULL;
    int64_t stored = 0;
    int s = hw_sqlite_prepare(store, CORRECTED_SQL, &stmt, reterr);

    assert(batch->n == 1 && event->has_family && event->revision > 1);
    if (s < 0)
        return s;
    hw_sqlite_bind_uuid(stmt, 1, &event->corrects);
    hw_sqlite_bind_uuid(stmt, 2, &event->family);
    (void)sqlite3_bind_int64(stmt, 3, (int64_t)event->revision - 1);
    (void)sqlite3_bind_int(stmt, 4, event->purged);
    s = hw_sqlite_step(store, stmt, "append", reterr);
    if (s == HOWDAH_OK && sqlite3_column_int64(stmt, 0) >= *recorded_at_us)
        *recorded_at_us = sqlite3_column_int64(stmt, 0) + 1;
    (void)sqlite3_finalize(stmt);
    if (s != HOWDAH_END)
        return s;
    s = hw_sqlite_find(store, &event->id, &stored, reterr);
    report->outcome = stored > 0 ? HW_APPEND_ID_TAKEN : HW_APPEND_REVISION_TAKEN;
    return s;
}

/* Parameters of a row, in the order of INSERT_INTO; from the eighth on they can be NULL, but for
   the digest. */
enum {
    P_ID = 1,
    P_STREAM,
    P_VERSION,
    P_TYPE,
    P_RECORDED_AT,
    P_SCHEMA_VERSION,
    P_REVISION,
    P_VALID_TIME,
    P_FAMILY,
    P_CORRECTS,
    P_CAUSATION,
    P_CORRELATION,
    P_ACTOR,
    P_CONTENT_TYPE,
    P_REASON,
    P_HEADERS,
    P_DATA,
    P_BYTES,
    P_DIGEST,
    P_RETRACTS /* of a correction only */
};

_Static_assert(P_RETRACTS == ROW_PARAMETERS + 1, "a parameter for each column");

/* The batch on its way in. */
typedef struct insertion {
    hw_sqlite *store;
    const hw_batch *batch;
    const int64_t *versions; /* of the streams, before the batch */
    int64_t recorded_at_us;
    unsigned uses;         /* bit P_...: some event of the batch has a value for it */
    int64_t last_sequence; /* of the event that went in last, 0 before the first */
    howdah_position *positions;
    hw_append_report *report;
} insertion;

#define USES(parameter, present) ((present) ? 1u << (parameter) : 0u)

/* Columns that are NULL in every row need not be bound again and again. */
static unsigned find_uses(const hw_batch *batch)
{
    unsigned uses = 0;

    for (size_t i = 0; i < batch->n; i++) {
        const howdah_event *e = batch->events[i];

        uses |= USES(P_VALID_TIME, e->valid_time_us != HW_TIME_ABSENT) |
                USES(P_FAMILY, e->has_family) | USES(P_CORRECTS, e->has_corrects) |
                USES(P_CAUSATION, e->has_causation) | USES(P_CORRELATION, e->correlation_id.s) |
                USES(P_ACTOR, e->actor.s) | USES(P_REASON, e->reason.s) |
                USES(P_HEADERS, e->headers.s) | USES(P_DATA, !e->content_type.s) |
                USES(P_CONTENT_TYPE, e->content_type.s) | USES(P_BYTES, e->content_type.s);
    }
    return uses;
}

/*
 * NULL has to be bound as well: the same statement may have had a value there for the row before.
 */
static void bind_uuid_if(sqlite3_stmt *stmt, int index, bool present, const hw_uuid *uuid)
{
    if (present)
        hw_sqlite_bind_uuid(stmt, index, uuid);
    else
        (void)sqlite3_bind_null(stmt, index);
}

/* base is the number of parameters before those of this row.  Only columns that some event of the
   batch uses are bound; the others stay NULL from the last sqlite3_clear_bindings(). */
static void bind_optional(sqlite3_stmt *stmt, int base, const howdah_event *event, unsigned uses)
{
    bool json = !event->content_type.s;

    if (uses & USES(P_VALID_TIME, true)) {
        if (event->valid_time_us == HW_TIME_ABSENT)
            (void)sqlite3_bind_null(stmt, base + P_VALID_TIME);
        else
            (void)sqlite3_bind_int64(stmt, base + P_VALID_TIME, event->valid_time_us);
    }
    if (uses & USES(P_FAMILY, true))
        bind_uuid_if(stmt, base + P_FAMILY, event->has_family, &event->family);
    if (uses & USES(P_CORRECTS, true))
        bind_uuid_if(stmt, base + P_CORRECTS, event->has_corrects, &event->corrects);
    if (uses & USES(P_CAUSATION, true))
        bind_uuid_if(stmt, base + P_CAUSATION, event->has_causation, &event->causation_id);
    if (uses & USES(P_CORRELATION, true))
        hw_sqlite_bind_str(stmt, base + P_CORRELATION, event->correlation_id);
    if (uses & USES(P_ACTOR, true))
        hw_sqlite_bind_str(stmt, base + P_ACTOR, event->actor);
    if (uses & USES(P_REASON, true))
        hw_sqlite_bind_str(stmt, base + P_REASON, event->reason);
    if (uses & USES(P_HEADERS, true))
        hw_sqlite_bind_str(stmt, base + P_HEADERS, event->headers);
    if (uses & USES(P_DATA, true))
        hw_sqlite_bind_str(stmt, base + P_DATA, json ? event->data : HW_STR_NULL);
    if (uses & USES(P_BYTES, true)) {
        hw_sqlite_bind_str(stmt, base + P_CONTENT_TYPE, event->content_type);
        if (json)
            (void)sqlite3_bind_null(stmt, base + P_BYTES);
        else
            (void)sqlite3_bind_blob64(stmt, base + P_BYTES, event->data.s, event->data.len,
                                      SQLITE_STATIC);
    }
}

/* Texts and blobs are bound without a copy: the caller's events outlive the statement's step. */
static void bind_row(const insertion *in, sqlite3_stmt *stmt, size_t row, size_t i)
{
    const howdah_event *event = in->batch->events[i];
    int64_t version = in->versions[in->batch->stream_no[i]] + in->batch->nth[i];
    int base = (int)row * ROW_PARAMETERS;

    assert(in->batch->stream_no[i] < in->batch->streams_n);
    assert(event->stream.s && event->type.s && event->data.s && version >= 1);
    hw_sqlite_bind_uuid(stmt, base + P_ID, &event->id);
    hw_sqlite_bind_str(stmt, base + P_STREAM, event->stream);
    (void)sqlite3_bind_int64(stmt, base + P_VERSION, version);
    hw_sqlite_bind_str(stmt, base + P_TYPE, event->type);
    (void)sqlite3_bind_int64(stmt, base + P_RECORDED_AT, in->recorded_at_us);
    (void)sqlite3_bind_int(stmt, base + P_SCHEMA_VERSION, event->schema_version);
    (void)sqlite3_bind_int(stmt, base + P_REVISION, event->revision);
    bind_optional(stmt, base, event, in->uses);
    (void)sqlite3_bind_int64(stmt, base + P_DIGEST,
                             hw_sqlite_event_digest(event, version, in->recorded_at_us));
    in->positions[i] = (howdah_position){
        .version = version, .recorded_at_us = in->recorded_at_us, .revision = event->revision};
}

/* I2: the insert failed on a key or a check.  Which one is found out only now: a stored id, a
   revision that is taken, or a trigger or check that this library does not know. */
static int explain_constraint(insertion *in, size_t first, size_t rows, int rc, const char *why,
                              howdah_error *reterr)
{
    const howdah_event *const *events = in->batch->events + first;
    bool corrects = false;

    for (size_t i = 0; i < rows; i++) {
        int64_t stored = 0;
        int s = hw_sqlite_find(in->store, &events[i]->id, &stored, reterr);

        if (s < 0)
            return s;
        if (stored > 0) {
            in->report->outcome = HW_APPEND_ID_TAKEN;
            return HOWDAH_OK;
        }
        corrects = corrects || events[i]->has_family;
    }
    if (corrects && rc == SQLITE_CONSTRAINT_UNIQUE) {
        in->report->outcome = HW_APPEND_REVISION_TAKEN;
        return HOWDAH_OK;
    }
    return hw_fail(reterr, HOWDAH_FAILED, "append: %s refuses the event: %s (SQLite code %d)",
                   in->store->name, why, rc);
}

/* A broken constraint ends only the statement, so that its reason can be looked for in the same
   transaction.  The message is copied before the reset clears it. */
static int step_insert(insertion *in, sqlite3_stmt *stmt, size_t first, size_t rows,
                       howdah_error *reterr)
{
    sqlite3 *db = in->store->db;
    char why[128];
    int rc = sqlite3_step(stmt);
    int s;

    if (rc == SQLITE_DONE) {
        (void)sqlite3_reset(stmt);
        return HOWDAH_OK;
    }
    if ((rc & 0xff) != SQLITE_CONSTRAINT) {
        s = hw_sqlite_fail(in->store, rc, "append", reterr);
        (void)sqlite3_reset(stmt);
        return s;
    }
    rc = sqlite3_extended_errcode(db);
    (void)sqlite3_snprintf(sizeof why, why, "%s", sqlite3_errmsg(db));
    (void)sqlite3_reset(stmt);
    return explain_constraint(in, first, rows, rc, why, reterr);
}

/*
 * SQLite tells only the last row's sequence.  The others are the numbers before it, if as many
 * numbers as rows were given out.  If not (a caller's trigger writes events as well), each is
 * looked up by its id.
 */
static int place_rows(insertion *in, size_t first, size_t rows, howdah_error *reterr)
{
    int64_t last = sqlite3_last_insert_rowid(in->store->db);
    bool in_a_row = rows == 1 || last - in->last_sequence == (int64_t)rows;

    for (size_t i = 0; i < rows; i++) {
        howdah_position *p = &in->positions[first + i];
        int s = HOWDAH_OK;

        if (in_a_row)
            p->global_sequence = last - (int64_t)(rows - 1 - i);
        else
            s = hw_sqlite_find(in->store, &in->batch->events[first + i]->id, &p->global_sequence,
                               reterr);
        if (s < 0)
            return s;
    }
    in->last_sequence = last;
    return HOWDAH_OK;
}

/* One statement, for one row or for MANY. */
static int insert_rows(insertion *in, sqlite3_stmt *stmt, size_t first, size_t rows,
                       howdah_error *reterr)
{
    int s;

    assert((rows == 1 || rows == MANY) && first + rows <= in->batch->n);
    for (size_t i = 0; i < rows; i++)
        bind_row(in, stmt, i, first + i);
    s = step_insert(in, stmt, first, rows, reterr);
    if (s >= 0 && in->report->outcome == HW_APPEND_STORED)
        s = place_rows(in, first, rows, reterr);
    return s;
}

/* I5.  The bindings are cleared at once, because the statement is kept: the next correction may
   have no value where this one had. */
static int insert_correction(insertion *in, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s =
        hw_sqlite_stmt(in->store, HW_SLOT_INSERT_CORRECTION, INSERT_CORRECTION_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    in->uses = find_uses(in->batch);
    if (in->batch->events[0]->retracts)
        (void)sqlite3_bind_int(stmt, P_RETRACTS, 1);
    s = insert_rows(in, stmt, 0, 1, reterr);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

/* The first event goes alone: its sequence is the one that the others are counted from. */
static int insert_events(insertion *in, howdah_error *reterr)
{
    const hw_batch *batch = in->batch;
    sqlite3_stmt *one = NULL;
    sqlite3_stmt *many = NULL;
    size_t done = 0;
    bool by_many = batch->n > MANY && !in->store->borrowed; /* see hw_sqlite_temp_in_file() */
    int s = hw_sqlite_stmt(in->store, HW_SLOT_INSERT_ONE, INSERT_ONE_SQL, &one, reterr);

    if (s >= 0 && by_many)
        s = hw_sqlite_stmt(in->store, HW_SLOT_INSERT_MANY, INSERT_MANY_SQL, &many, reterr);
    in->uses = find_uses(batch);
    while (s >= 0 && in->report->outcome == HW_APPEND_STORED && done < batch->n) {
        size_t rows = by_many && done > 0 && batch->n - done >= MANY ? MANY : 1;

        s = insert_rows(in, rows == 1 ? one : many, done, rows, reterr);
        done += rows;
        if (s >= 0 && done % INTERRUPT_EVERY < rows)
            s = hw_sqlite_check_interrupt(in->store, reterr);
    }
    /* The events are the caller's: keep no pointer to them, nor a value of a column in uses. */
    if (one)
        (void)sqlite3_clear_bindings(one);
    if (many)
        (void)sqlite3_clear_bindings(many);
    return s;
}

/* In the same transaction as the events: an import that ends here goes on exactly after them. */
static int store_mark(hw_sqlite *store, const hw_import_place *mark, int64_t now_us,
                      howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_IMPORT_PLACE, MARK_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, mark->source);
    hw_sqlite_bind_str(stmt, 2, mark->created_at);
    hw_sqlite_bind_str(stmt, 3, mark->id);
    (void)sqlite3_bind_int64(stmt, 4, mark->rows);
    (void)sqlite3_bind_int64(stmt, 5, now_us);
    s = hw_sqlite_step(store, stmt, "import", reterr);
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* Everything that happens inside the transaction.  The schema is checked under the lock, so that
   no migration comes between. */
static int fill(hw_sqlite *store, const hw_batch *batch, const hw_import_place *mark,
                howdah_position *positions, hw_append_report *report, howdah_error *reterr)
{
    int64_t one = 0;
    int64_t *versions = &one;
    int64_t recorded_at_us = 0;
    int s = hw_sqlite_check_schema(store, reterr);

    if (s >= 0)
        s = choose_recorded_at(store, &recorded_at_us, reterr);
    if (s < 0)
        return s;
    if (batch->streams_n > 1) {
        versions = hw_calloc(batch->streams_n, sizeof *versions);
        if (!versions)
            return hw_fail_no_memory(reterr);
    }
    s = read_versions(store, batch, versions, report, reterr);
    if (s >= 0 && report->outcome == HW_APPEND_STORED && batch->events[0]->has_corrects)
        s = check_correction(store, batch, &recorded_at_us, report, reterr);
    if (s >= 0 && report->outcome == HW_APPEND_STORED) {
        insertion in = {.store = store,
                        .batch = batch,
                        .versions = versions,
                        .recorded_at_us = recorded_at_us,
                        .positions = positions,
                        .report = report};

        s = batch->events[0]->has_corrects ? insert_correction(&in, reterr)
                                           : insert_events(&in, reterr);
    }
    if (versions != &one)
        hw_free(versions);
    if (s >= 0 && report->outcome == HW_APPEND_STORED && mark)
        s = store_mark(store, mark, recorded_at_us, reterr);
    return s;
}

/* A batch that was not stored is rolled back whole, whether by an error or by what the report
   says. */
int hw_sqlite_append(hw_store *base, const hw_batch *batch, const hw_import_place *mark,
                     howdah_position *ret_positions, hw_append_report *report, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_int64 last_rowid;
    int s = hw_sqlite_ready(store, HW_NEED_WRITE, reterr);

    assert(batch->n > 0 && batch->streams_n > 0);
    report->outcome = HW_APPEND_STORED;
    if (s < 0)
        return s;
    last_rowid = sqlite3_last_insert_rowid(store->db);
    s = hw_sqlite_begin(store, reterr);
    if (s < 0)
        return s;
    s = fill(store, batch, mark, ret_positions, report, reterr);
    /* On a caller's handle our inserts leave no trace in last_insert_rowid(). */
    if (store->borrowed)
        sqlite3_set_last_insert_rowid(store->db, last_rowid);
    if (s < 0 || report->outcome != HW_APPEND_STORED) {
        hw_sqlite_rollback(store);
        return s;
    }
    HW_FAULT_POINT("sqlite.before_commit");
    s = hw_sqlite_commit(store, reterr);
    HW_FAULT_POINT("sqlite.after_commit");
    if (s < 0 && reterr && (reterr->flags & HOWDAH_OUTCOME_UNKNOWN))
        (void)hw_advise(reterr, s,
                        "the events may be stored or not: append the same events again, with "
                        "the same ids, to find out");
    return s;
}

int hw_sqlite_stream_versions(hw_store *base, const hw_str *streams, size_t n,
                              int64_t *ret_versions, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        s = read_stream_version(store, streams[i], &ret_versions[i], reterr);
    return s;
}
