/*
 * purge.c - erasing payload and headers of events, and what was derived from them.
 *
 *   I1  One transaction with the record.  An event that is purged has its number in "purge", and
 *       what else is erased is found by it.
 *   I2  While it runs, secure_delete is on: what a row, or a page, held is overwritten with zeros
 *       when it is let go, so that nothing of it stays in the file's free space.  It does not reach
 *       what earlier changes of a row left there on a connection without it: VACUUM does.
 *   I3  The write-ahead log still has the pages as they were.  So it is emptied right after the
 *       commit; when a reader is in the way, the next checkpoint does it.
 *   I4  A job in a worker's hands is left alone, but for its dead letter: it has read its event
 *       already.
 */
#include <assert.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "base/uuid.h"
#include "store/sqlite/sqlite.h"

#define LIST_BYTES_MAX (64 * 1024 * 1024)
#define SQL_BYTES_MAX (8 * 1024)
#define REASON_BYTES_MAX (1024 * 1024)

/* ?1 the stream, or a list of numbers */
#define OF_STREAM                                                                                  \
    "(SELECT e.global_sequence FROM main.howdah_events e INDEXED BY howdah_events_by_stream"       \
    " WHERE e.stream = ?1"
#define OF_LIST                                                                                    \
    "(SELECT e.global_sequence FROM json_each(?1) j CROSS JOIN main.howdah_events e"               \
    " ON e.global_sequence = j.value"
/* ?2 the purge, NULL: not purged */
#define OF_PURGE " AND e.purge IS ?2)"
#define ALL_OF_THEM ")"

#define FIND_SQL                                                                                   \
    "SELECT global_sequence, coalesce(family, id) FROM main.howdah_events WHERE id = ?1"
#define FAMILY_SQL                                                                                 \
    "SELECT global_sequence FROM main.howdah_events WHERE id = ?1"                                 \
    " UNION SELECT global_sequence FROM main.howdah_events WHERE family = ?1"
#define STREAM_SQL "SELECT 1 FROM main.howdah_events WHERE stream = ?1 LIMIT 1"

/* ?3 the new purge */
#define ERASED                                                                                     \
    " headers = NULL, data = iif(content_type IS NULL, 'null', NULL),"                             \
    " bytes = iif(content_type IS NULL, NULL, x'')"
#define EVENTS_SQL                                                                                 \
    "UPDATE main.howdah_events SET purge = ?3, digest = NULL," ERASED " WHERE global_sequence IN "
/* ?3 now, ?4 who, ?5 why */
#define DEAD_LETTERS_SQL                                                                           \
    "UPDATE main.howdah_dead_letters SET purge = ?2," ERASED ", error_message = '',"               \
    " state = iif(resolved_at IS NULL, 'discarded', state),"                                       \
    " reason = iif(resolved_at IS NULL, ?5, reason),"                                              \
    " resolved_by = iif(resolved_at IS NULL, ?4, resolved_by),"                                    \
    " resolved_at = coalesce(resolved_at, ?3) WHERE global_sequence IN "
#define SNAPSHOTS_SQL                                                                              \
    "WITH low (stream, version) AS (SELECT stream, min(version) FROM main.howdah_events"           \
    " WHERE global_sequence IN "
#define SNAPSHOTS_TAIL                                                                             \
    " GROUP BY stream) DELETE FROM main.howdah_snapshots WHERE (stream, version) IN"               \
    " (SELECT s.stream, s.version FROM low CROSS JOIN main.howdah_snapshots s"                     \
    " ON s.stream = low.stream AND s.version >= low.version)"
#define JOBS_SQL "SELECT id FROM main.howdah_job_data WHERE event_sequence IN "
#define LEFT_SQL                                                                                   \
    "WITH families (id) AS (SELECT DISTINCT coalesce(family, id) FROM main.howdah_events"          \
    " WHERE global_sequence IN "
#define LEFT_TAIL                                                                                  \
    "), revisions (sequence) AS (SELECT r.global_sequence FROM families f"                         \
    " CROSS JOIN main.howdah_events r ON r.id = f.id UNION SELECT r.global_sequence"               \
    " FROM families f CROSS JOIN main.howdah_events r ON r.family = f.id)"                         \
    " SELECT count(*) FROM revisions CROSS JOIN main.howdah_events r"                              \
    " ON r.global_sequence = sequence WHERE r.purge IS NULL AND (r.retracts IS NOT 1"              \
    " OR r.headers IS NOT NULL OR r.data <> 'null' OR length(r.bytes) > 0)"

/* ?1 the job */
#define JOB_ENDED_SQL                                                                              \
    "UPDATE main.howdah_event_log SET error = NULL, result = NULL WHERE job_id = ?1"
#define JOB_ERROR_SQL "UPDATE main.howdah_jobs SET error = NULL WHERE id = ?1"
#define JOB_DEAD_LETTER_SQL "SELECT id FROM main.howdah_job_dead_letters WHERE job_id = ?1"
/* ?1 the dead letter, ?2 who: of one that is resolved by this purge */
#define JOB_DEAD_LETTER_ERROR_SQL                                                                  \
    "UPDATE main.howdah_job_dead_letters SET error = NULL WHERE id = ?1"
#define JOB_DEAD_LETTER_BY_SQL                                                                     \
    "UPDATE main.howdah_job_dead_letters SET resolved_by = ?2 WHERE id = ?1 AND resolved_at IS "   \
    "NOT "                                                                                         \
    "NULL"

#define RECORD_SQL                                                                                 \
    "INSERT INTO main.howdah_purges (purged_at, events, dead_letters, snapshots, jobs, remaining," \
    " actor, reason, stream) VALUES (?1, 0, 0, 0, 0, 0, ?2, ?3, ?4)"
#define COUNTS_SQL                                                                                 \
    "UPDATE main.howdah_purges SET events = ?2, dead_letters = ?3, snapshots = ?4, jobs = ?5,"     \
    " remaining = ?6 WHERE id = ?1"
#define PURGES_SQL                                                                                 \
    "SELECT id, purged_at, events, dead_letters, snapshots, jobs, remaining, actor, reason, "      \
    "stream"                                                                                       \
    " FROM main.howdah_purges WHERE id > ?1 ORDER BY id LIMIT ?2"

/* One purge.  record counts while it works, and is handed to the caller at the end. */
typedef struct purging {
    hw_sqlite_jobs jobs; /* the transaction */
    const hw_purge *purge;
    hw_str actor;
    hw_buf list;  /* numbers, as a JSON array */
    hw_buf error; /* of jobs that are cancelled */
    howdah_purge_record record;
} purging;

/* --------------------------------------------------------------- statements */

/* A statement of three parts: what comes before, the events in question (of a stream, or of a
   list), and the tail.  Its first parameter is bound. */
static int prepare_of(purging *p, const char *before, const char *which, const char *tail,
                      sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    bool by_stream = p->purge->stream.s != NULL;
    int s;

    hw_buf_puts(&sql, before);
    hw_buf_puts(&sql, by_stream ? OF_STREAM : OF_LIST);
    hw_buf_puts(&sql, which);
    hw_buf_puts(&sql, tail);
    s = hw_buf_check(&sql, reterr);
    if (s >= 0)
        s = hw_sqlite_prepare(p->jobs.store, hw_buf_str(&sql), ret_stmt, reterr);
    hw_buf_done(&sql);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(*ret_stmt, 1,
                       by_stream ? p->purge->stream : (hw_str){hw_buf_str(&p->list), p->list.len});
    return HOWDAH_OK;
}

/* I1: before the events are erased it means those without a purge, afterwards those with this
   one.  So every step finds the same events. */
static int prepare(purging *p, const char *before, const char *tail, sqlite3_stmt **ret_stmt,
                   howdah_error *reterr)
{
    int s = prepare_of(p, before, OF_PURGE, tail, ret_stmt, reterr);

    if (s >= 0 && p->record.events > 0)
        (void)sqlite3_bind_int64(*ret_stmt, 2, p->record.id);
    return s;
}

/* *ret_n: how many rows changed. */
static int finish(purging *p, sqlite3_stmt *stmt, int64_t *ret_n, howdah_error *reterr)
{
    int s = hw_sqlite_finish(p->jobs.store, stmt, "purge", reterr);

    if (s >= 0)
        *ret_n = sqlite3_changes64(p->jobs.store->db);
    return s;
}

/* --------------------------------------------------------- what is asked for */

static int no_event(const hw_uuid *id, howdah_error *reterr)
{
    char text[HW_UUID_TEXT + 1];

    hw_uuid_format(id, text);
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "no event has the id %s", text);
}

/* The list is a JSON array, so that one parameter carries any number of events. */
static void list_number(purging *p, int64_t number)
{
    hw_buf_printf(&p->list, "%s%" PRId64, p->list.len > 1 ? "," : "", number);
}

/* All revisions: an event that was corrected has its payload in several rows. */
static int list_family(purging *p, const void *family, sqlite3_stmt *stmt, howdah_error *reterr)
{
    int s;

    (void)sqlite3_bind_blob(stmt, 1, family, sizeof(hw_uuid), SQLITE_TRANSIENT);
    while ((s = hw_sqlite_step(p->jobs.store, stmt, "purge", reterr)) == HOWDAH_OK)
        list_number(p, sqlite3_column_int64(stmt, 0));
    return s < 0 ? s : HOWDAH_OK;
}

/* An id that is not in the log fails the whole purge: the user has to know that nothing was
   erased for it. */
static int list_id(purging *p, const hw_uuid *id, sqlite3_stmt *find, sqlite3_stmt *family,
                   howdah_error *reterr)
{
    int s;

    hw_sqlite_bind_uuid(find, 1, id);
    s = hw_sqlite_step(p->jobs.store, find, "purge", reterr);
    if (s == HOWDAH_END)
        return no_event(id, reterr);
    if (s < 0)
        return s;
    if (!p->purge->families)
        list_number(p, sqlite3_column_int64(find, 0));
    else if (sqlite3_column_bytes(find, 1) == (int)sizeof *id)
        s = list_family(p, sqlite3_column_blob(find, 1), family, reterr);
    (void)sqlite3_reset(find);
    return s;
}

static int list_ids(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *find = NULL;
    sqlite3_stmt *family = NULL;
    int s = hw_sqlite_prepare(p->jobs.store, FIND_SQL, &find, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(p->jobs.store, FAMILY_SQL, &family, reterr);
    hw_buf_putc(&p->list, '[');
    for (size_t i = 0; s >= 0 && i < p->purge->ids_n; i++)
        s = list_id(p, &p->purge->ids[i], find, family, reterr);
    hw_buf_putc(&p->list, ']');
    (void)sqlite3_finalize(find);
    (void)sqlite3_finalize(family);
    return s < 0 ? s : hw_buf_check(&p->list, reterr);
}

/* As for ids: a purge of nothing is a mistake. */
static int check_stream(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(p->jobs.store, STREAM_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, p->purge->stream);
    s = hw_sqlite_step(p->jobs.store, stmt, "purge", reterr);
    (void)sqlite3_finalize(stmt);
    return s == HOWDAH_END
               ? hw_fail(reterr, HOWDAH_NOT_FOUND, "stream \"%s\" has no event", p->purge->stream.s)
               : s;
}

/* HOWDAH_END: none of them has a payload left.  Then nothing is recorded: a purge that is
   repeated leaves one record. */
static int look_for_payload(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = prepare(p, "SELECT 1 WHERE EXISTS ", "", &stmt, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_step(p->jobs.store, stmt, "purge", reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

/* ------------------------------------------------------------------ erasing */

/* First, because its number marks the events (I1); its counts are filled in at the end. */
static int add_record(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(p->jobs.store, RECORD_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, p->record.purged_at_us);
    hw_sqlite_bind_str(stmt, 2, p->actor);
    hw_sqlite_bind_str(stmt, 3, p->purge->reason);
    hw_sqlite_bind_str(stmt, 4, p->purge->stream);
    s = hw_sqlite_finish(p->jobs.store, stmt, "purge", reterr);
    if (s >= 0)
        p->record.id = sqlite3_last_insert_rowid(p->jobs.store->db);
    return s;
}

/* The digest goes too: the row is not the one that was stored any more (row_digest.c). */
static int erase_events(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t n = 0;
    int s = prepare(p, EVENTS_SQL, "", &stmt, reterr);

    if (s < 0)
        return s;
    assert(p->record.id > 0 && p->record.events == 0);
    (void)sqlite3_bind_int64(stmt, 3, p->record.id);
    s = finish(p, stmt, &n, reterr);
    p->record.events = n;
    return s;
}

/* A dead letter has a copy of the payload, and its error may quote it.  Open ones are discarded:
   nobody can deliver them any more. */
static int erase_dead_letters(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = prepare(p, DEAD_LETTERS_SQL, "", &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 3, p->record.purged_at_us);
    hw_sqlite_bind_str(stmt, 4, p->actor);
    hw_sqlite_bind_str(stmt, 5, p->purge->reason);
    return finish(p, stmt, &p->record.dead_letters, reterr);
}

/* A snapshot at or after an erased version may have been computed from its payload. */
static int remove_snapshots(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = prepare(p, SNAPSHOTS_SQL, SNAPSHOTS_TAIL, &stmt, reterr);

    return s < 0 ? s : finish(p, stmt, &p->record.snapshots, reterr);
}

/* --------------------------------------------------------------------- jobs */

/* The dead letter of a job; 0: it has none. */
static int find_dead_letter(purging *p, int64_t job_id, int64_t *ret_id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(p->jobs.store, JOB_DEAD_LETTER_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, job_id);
    s = hw_sqlite_step(p->jobs.store, stmt, "purge", reterr);
    if (s >= 0)
        *ret_id = s == HOWDAH_OK ? sqlite3_column_int64(stmt, 0) : 0;
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* Names the user of the purge instead of "operator". */
static int resolved_by(purging *p, int64_t dead_letter, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(p->jobs.store, JOB_DEAD_LETTER_BY_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, dead_letter);
    hw_sqlite_bind_str(stmt, 2, p->actor);
    return hw_sqlite_finish(p->jobs.store, stmt, "purge", reterr);
}

/* The job's dead letter loses its text.  If it is open it is discarded; discarded > 0 says that
   cancelling the job has done that already. */
static int erase_job_dead_letter(purging *p, int64_t job_id, int64_t discarded,
                                 howdah_error *reterr)
{
    int64_t dead_letter = 0;
    int s = find_dead_letter(p, job_id, &dead_letter, reterr);

    if (s < 0 || dead_letter == 0)
        return s;
    if (discarded == 0)
        s = hw_sqlite_set_job_dead_letters(p->jobs.store, dead_letter, HW_DEAD_LETTER_DISCARDED,
                                           p->purge->reason, &discarded, reterr);
    if (s >= 0 && discarded > 0)
        s = resolved_by(p, dead_letter, reterr);
    if (s >= 0)
        s = hw_sqlite_once(p->jobs.store, JOB_DEAD_LETTER_ERROR_SQL, &dead_letter, 1, reterr);
    p->record.dead_letters++;
    return s;
}

/* I4.  A job that waits is cancelled: it would find an event without payload. */
static int erase_job(purging *p, int64_t id, howdah_error *reterr)
{
    hw_sqlite_live live = {.id = 0};
    int s = hw_sqlite_look_at_job(&p->jobs, id, &live, reterr);
    bool leased = s == HOWDAH_OK && live.token > 0;

    if (s == HOWDAH_END) {
        s = hw_sqlite_once(p->jobs.store, JOB_ENDED_SQL, &id, 1, reterr);
    } else if (leased) {
        s = hw_sqlite_once(p->jobs.store, JOB_ERROR_SQL, &id, 1, reterr);
    } else if (s >= 0) {
        s = hw_sqlite_load_queue(&p->jobs, live.queue_id, reterr);
        if (s >= 0)
            s = hw_sqlite_cancel_live(&p->jobs, &live,
                                      (hw_str){hw_buf_str(&p->error), p->error.len}, reterr);
    }
    p->record.jobs += !leased;
    return s < 0 ? s : erase_job_dead_letter(p, id, !leased && live.dead_letter > 0, reterr);
}

/* The ids are collected first: cancelling changes the tables that the statement reads. */
static int collect_jobs(purging *p, hw_buf *ids, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = prepare(p, JOBS_SQL, "", &stmt, reterr);

    while (s >= 0 && (s = hw_sqlite_step(p->jobs.store, stmt, "purge", reterr)) == HOWDAH_OK) {
        int64_t id = sqlite3_column_int64(stmt, 0);

        hw_buf_put(ids, &id, sizeof id);
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : hw_buf_check(ids, reterr);
}

static int erase_jobs(purging *p, howdah_error *reterr)
{
    hw_buf ids = HW_BUF_INIT(LIST_BYTES_MAX);
    int s = collect_jobs(p, &ids, reterr);

    hw_buf_puts(&p->error, "cancelled: purged: ");
    hw_buf_put(&p->error, p->purge->reason.s, p->purge->reason.len);
    if (s >= 0)
        s = hw_buf_check(&p->error, reterr);
    for (size_t at = 0; s >= 0 && at < ids.len; at += sizeof(int64_t)) {
        int64_t id;

        memcpy(&id, ids.data + at, sizeof id);
        s = erase_job(p, id, reterr);
    }
    hw_buf_done(&ids);
    return s < 0 ? s : HOWDAH_OK;
}

/* ---------------------------------------------------------------- the purge */

/* Revisions of the same families that still have a payload: the user asked for some, and may not
   know of the others. */
static int count_left(purging *p, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = prepare_of(p, LEFT_SQL, ALL_OF_THEM, LEFT_TAIL, &stmt, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_step(p->jobs.store, stmt, "purge", reterr);
    if (s == HOWDAH_OK)
        p->record.left = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* The order matters: the record gives the number, the events get it, and everything else is found
   by it (I1). */
static int erase_all(purging *p, howdah_error *reterr)
{
    static int (*const steps[])(purging *, howdah_error *) = {
        add_record, erase_events, erase_dead_letters, remove_snapshots, erase_jobs, count_left};
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < sizeof steps / sizeof *steps; i++)
        s = steps[i](p, reterr);
    if (s >= 0)
        s = hw_sqlite_once(p->jobs.store, COUNTS_SQL,
                           (int64_t[]){p->record.id, p->record.events, p->record.dead_letters,
                                       p->record.snapshots, p->record.jobs, p->record.left},
                           6, reterr);
    return s;
}

/* HOWDAH_END: everything was purged before; other revisions may be left. */
static int run(purging *p, howdah_error *reterr)
{
    int s = p->purge->stream.s ? check_stream(p, reterr) : list_ids(p, reterr);

    if (s >= 0)
        s = look_for_payload(p, reterr);
    if (s == HOWDAH_END) {
        s = count_left(p, reterr);
        return s < 0 ? s : HOWDAH_END;
    }
    return s < 0 ? s : erase_all(p, reterr);
}

/* The time of the record is that of the transaction, under the write lock. */
static int transact(purging *p, hw_sqlite *store, howdah_error *reterr)
{
    int s = hw_sqlite_jobs_enter(&p->jobs, store, true, reterr);

    if (s < 0)
        return s;
    p->record.purged_at_us = p->jobs.now_us;
    s = run(p, reterr);
    if (s == HOWDAH_END)
        p->record.purged_at_us = HOWDAH_NO_TIME; /* nothing is recorded */
    return hw_sqlite_jobs_leave(&p->jobs, s, reterr);
}

/* I2.  0, 1 and 2 are SQLite's OFF, ON and FAST; a caller's handle gets back what it had. */
static int set_secure_delete(hw_sqlite *store, int64_t value, howdah_error *reterr)
{
    return hw_sqlite_exec(store,
                          value == 0   ? "PRAGMA main.secure_delete = OFF"
                          : value == 1 ? "PRAGMA main.secure_delete = ON"
                                       : "PRAGMA main.secure_delete = FAST",
                          "purge", reterr);
}

#define USER_SIZE 256

/* A file has no users of its own, so the record names the user of the process. */
static hw_str name_user(char room[USER_SIZE])
{
    struct passwd entry;
    struct passwd *found = NULL;
    char texts[1024];

    if (getpwuid_r(geteuid(), &entry, texts, sizeof texts, &found) == 0 && found)
        hw_utf8_copy(room, USER_SIZE, entry.pw_name);
    else
        (void)snprintf(room, USER_SIZE, "user %u", (unsigned)geteuid());
    return hw_str_of(room);
}

/* secure_delete is on around the transaction only (I2): it makes every other write slower. */
int hw_sqlite_purge(hw_store *base, const hw_purge *purge, howdah_purge_record *ret_record,
                    howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    char user[USER_SIZE];
    purging p = {.purge = purge,
                 .actor = purge->actor.s ? purge->actor : name_user(user),
                 .list = HW_BUF_INIT(LIST_BYTES_MAX),
                 .error = HW_BUF_INIT(REASON_BYTES_MAX),
                 .record = HOWDAH_PURGE_RECORD_INIT};
    int64_t before = 1;
    int s = hw_sqlite_ready(store, HW_NEED_WRITE, reterr);

    if (s >= 0)
        s = hw_sqlite_number(store, "PRAGMA main.secure_delete", 0, &before, reterr);
    if (s >= 0)
        s = set_secure_delete(store, 1, reterr);
    if (s < 0)
        return s;
    s = transact(&p, store, reterr);
    if (store->db && before != 1)
        (void)set_secure_delete(store, before, NULL);
    if (s >= 0 && p.record.events > 0)
        hw_sqlite_empty_log(store); /* I3 */
    hw_buf_done(&p.list);
    hw_buf_done(&p.error);
    if (s < 0)
        return s;
    if (ret_record)
        *ret_record = p.record;
    return HOWDAH_OK;
}

/* ---------------------------------------------------------------- afterwards */

typedef struct record_walk {
    hw_sqlite *store;
    hw_purge_fn fn;
    void *ctx;
} record_walk;

/* Texts are the row's: they are valid during the call. */
static int hand_record(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    const record_walk *w = ctx;
    howdah_purge_record record = {.size = sizeof record,
                                  .id = sqlite3_column_int64(stmt, 0),
                                  .purged_at_us = sqlite3_column_int64(stmt, 1),
                                  .events = sqlite3_column_int64(stmt, 2),
                                  .dead_letters = sqlite3_column_int64(stmt, 3),
                                  .snapshots = sqlite3_column_int64(stmt, 4),
                                  .jobs = sqlite3_column_int64(stmt, 5),
                                  .left = sqlite3_column_int64(stmt, 6),
                                  .actor = hw_sqlite_borrow(stmt, 7).s,
                                  .reason = hw_sqlite_borrow(stmt, 8).s,
                                  .stream = hw_sqlite_borrow(stmt, 9).s};

    if (sqlite3_errcode(w->store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    *ret_stop = w->fn(w->ctx, &record) != 0;
    return HOWDAH_OK;
}

int hw_sqlite_purges(hw_store *base, hw_purge_fn fn, void *ctx, howdah_error *reterr)
{
    record_walk w = {(hw_sqlite *)base, fn, ctx};
    const hw_sqlite_walk walk = {.sql = PURGES_SQL,
                                 .doing = "list purges",
                                 .keys = 1,
                                 .key_column = {0},
                                 .key_param = {1},
                                 .limit_param = 2,
                                 .row = hand_record,
                                 .ctx = &w};

    return hw_sqlite_walk_rows(w.store, &walk, reterr);
}
