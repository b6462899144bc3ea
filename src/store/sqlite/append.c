/*
 * append.c - a batch into the log, whole or not at all.
 *
 *   I1  Everything happens behind the write lock: versions that were read cannot change before
 *       the events are in, so a lost race (HW_APPEND_VERSION_TAKEN) does not exist here.
 *   I2  Whether an id is stored is told by the unique index when the event goes in, at no cost of
 *       its own; a SELECT for ids is made only after something failed.
 *   I3  A stored id comes before an unmet expectation: an append that is repeated has changed the
 *       very version that it expects.
 *   I4  All events of a batch have the same recorded time, never before that of the event in front
 *       of them.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define INTERRUPT_EVERY 1024 /* events between two looks at the interrupt */

#define LAST_RECORDED_SQL                                                                          \
    "SELECT recorded_at FROM main.howdah_events ORDER BY global_sequence DESC LIMIT 1"
#define STREAM_VERSION_SQL                                                                         \
    "SELECT version FROM main.howdah_events WHERE stream = ?1 ORDER BY version DESC LIMIT 1"
#define INSERT_SQL                                                                                 \
    "INSERT INTO main.howdah_events (id, stream, version, type, recorded_at, valid_time,"          \
    " schema_version, revision, family, corrects, causation_id, correlation_id, actor,"            \
    " content_type, reason, headers, data, bytes)"                                                 \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)"
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

/* I4. */
static int choose_recorded_at(hw_sqlite *store, int64_t *ret_us, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t now = hw_clock_wall_us();
    int64_t last = 0;
    int s = hw_sqlite_stmt(store, HW_SLOT_LAST_RECORDED, LAST_RECORDED_SQL, &stmt, reterr);

    if (s >= 0)
        s = read_number(store, stmt, now, &last, reterr);
    if (s >= 0)
        *ret_us = last > now ? last : now;
    return s;
}

/* I3: an expectation is not met; is it because the batch is stored already? */
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

/* The present version of each stream; stops at the first that is not as expected. */
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

static void bind_optional_uuid(sqlite3_stmt *stmt, int index, bool present, const hw_uuid *uuid)
{
    if (present)
        hw_sqlite_bind_uuid(stmt, index, uuid);
    else
        (void)sqlite3_bind_null(stmt, index);
}

/* A column is bound by number, in the order of INSERT_SQL. */
static void bind_event(sqlite3_stmt *stmt, const howdah_event *event, int64_t version,
                       int64_t recorded_at_us)
{
    bool json = !event->content_type.s;

    assert(event->stream.s && event->type.s && event->data.s && version >= 1);
    hw_sqlite_bind_uuid(stmt, 1, &event->id);
    hw_sqlite_bind_str(stmt, 2, event->stream);
    (void)sqlite3_bind_int64(stmt, 3, version);
    hw_sqlite_bind_str(stmt, 4, event->type);
    (void)sqlite3_bind_int64(stmt, 5, recorded_at_us);
    if (event->valid_time_us == HW_TIME_ABSENT)
        (void)sqlite3_bind_null(stmt, 6);
    else
        (void)sqlite3_bind_int64(stmt, 6, event->valid_time_us);
    (void)sqlite3_bind_int(stmt, 7, event->schema_version);
    (void)sqlite3_bind_int(stmt, 8, event->revision);
    bind_optional_uuid(stmt, 9, event->has_family, &event->family);
    bind_optional_uuid(stmt, 10, event->has_corrects, &event->corrects);
    bind_optional_uuid(stmt, 11, event->has_causation, &event->causation_id);
    hw_sqlite_bind_str(stmt, 12, event->correlation_id);
    hw_sqlite_bind_str(stmt, 13, event->actor);
    hw_sqlite_bind_str(stmt, 14, event->content_type);
    hw_sqlite_bind_str(stmt, 15, event->reason);
    hw_sqlite_bind_str(stmt, 16, event->headers);
    hw_sqlite_bind_str(stmt, 17, json ? event->data : HW_STR_NULL);
    if (json)
        (void)sqlite3_bind_null(stmt, 18);
    else
        (void)sqlite3_bind_blob64(stmt, 18, event->data.s, event->data.len, SQLITE_STATIC);
}

/* The insert failed on a unique key: which one?  I2. */
static int explain_constraint(hw_sqlite *store, const howdah_event *event, int rc, const char *why,
                              hw_append_report *report, howdah_error *reterr)
{
    int64_t stored = 0;
    int s = hw_sqlite_find(store, &event->id, &stored, reterr);

    if (s < 0)
        return s;
    if (stored > 0) {
        report->outcome = HW_APPEND_ID_TAKEN;
        return HOWDAH_OK;
    }
    if (event->has_family && rc == SQLITE_CONSTRAINT_UNIQUE) {
        s = hw_fail(reterr, HOWDAH_CONFLICT, "revision %d of this event is stored already",
                    event->revision);
        return hw_advise(reterr, s, "somebody else has corrected it: read it again, then correct");
    }
    return hw_fail(reterr, HOWDAH_FAILED, "append: %s refuses the event: %s (SQLite code %d)",
                   store->name, why, rc);
}

static int insert_event(hw_sqlite *store, sqlite3_stmt *stmt, const howdah_event *event,
                        hw_append_report *report, howdah_error *reterr)
{
    char why[128];
    int rc = sqlite3_step(stmt);
    int s = HOWDAH_OK;

    if (rc == SQLITE_DONE) {
        (void)sqlite3_reset(stmt);
        return HOWDAH_OK;
    }
    if ((rc & 0xff) != SQLITE_CONSTRAINT) {
        s = hw_sqlite_fail(store, rc, "append", reterr);
        (void)sqlite3_reset(stmt);
        return s;
    }
    rc = sqlite3_extended_errcode(store->db);
    (void)sqlite3_snprintf(sizeof why, why, "%s", sqlite3_errmsg(store->db));
    (void)sqlite3_reset(stmt);
    return explain_constraint(store, event, rc, why, report, reterr);
}

static int insert_events(hw_sqlite *store, const hw_batch *batch, const int64_t *versions,
                         int64_t recorded_at_us, howdah_position *positions,
                         hw_append_report *report, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_INSERT, INSERT_SQL, &stmt, reterr);

    for (size_t i = 0; s >= 0 && report->outcome == HW_APPEND_STORED && i < batch->n; i++) {
        const howdah_event *event = batch->events[i];
        int64_t version = versions[batch->stream_no[i]] + batch->nth[i];

        if (i % INTERRUPT_EVERY == INTERRUPT_EVERY - 1) {
            s = hw_sqlite_check_interrupt(store, reterr);
            if (s < 0)
                break;
        }
        bind_event(stmt, event, version, recorded_at_us);
        s = insert_event(store, stmt, event, report, reterr);
        positions[i].global_sequence = sqlite3_last_insert_rowid(store->db);
        positions[i].version = version;
        positions[i].recorded_at_us = recorded_at_us;
        positions[i].revision = event->revision;
        positions[i].already_stored = 0;
    }
    /* The events are the caller's: keep no pointer to them. */
    if (stmt)
        (void)sqlite3_clear_bindings(stmt);
    return s;
}

static int store_mark(hw_sqlite *store, const hw_import_mark *mark, int64_t now_us,
                      howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_IMPORT_MARK, MARK_SQL, &stmt, reterr);

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

/* All that happens inside the transaction. */
static int fill(hw_sqlite *store, const hw_batch *batch, const hw_import_mark *mark,
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
    if (s >= 0 && report->outcome == HW_APPEND_STORED)
        s = insert_events(store, batch, versions, recorded_at_us, positions, report, reterr);
    if (versions != &one)
        hw_free(versions);
    if (s >= 0 && report->outcome == HW_APPEND_STORED && mark)
        s = store_mark(store, mark, recorded_at_us, reterr);
    return s;
}

int hw_sqlite_append(hw_store *base, const hw_batch *batch, const hw_import_mark *mark,
                     howdah_position *ret_positions, hw_append_report *report, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_int64 last_rowid;
    int s = hw_sqlite_ready(store, HW_NEED_WRITE, reterr);

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
    return s;
}

int hw_sqlite_stream_version(hw_store *base, hw_str stream, int64_t *ret_version,
                             howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = hw_sqlite_check_schema(store, reterr);
    return s < 0 ? s : read_stream_version(store, stream, ret_version, reterr);
}
