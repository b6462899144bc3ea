/*
 * queue_rows.c - what the files of the queue share: a transaction about jobs, and its rows.
 *
 *   I1  The time of a transaction is asked for once, under the write lock: what is due, and which
 *       lease has run out, does not change on the way.
 *   I2  Texts of a job are copied: a statement is reset before anybody is called.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define QUEUE_COLUMNS                                                                              \
    "SELECT q.queue_id, q.paused" HOWDAH_QUEUE_SETTING_LIST(                                       \
        HW_QUEUE_SETTING_COLUMN) " FROM main.howdah_queues q"
#define QUEUE_BY_NAME_SQL QUEUE_COLUMNS " WHERE name = ?1"
#define QUEUE_BY_ID_SQL QUEUE_COLUMNS " WHERE queue_id = ?1"
#define MAKE_QUEUE_SQL "INSERT INTO main.howdah_queues (name, created_at) VALUES (?1, ?2)"
#define DRAW_SQL                                                                                   \
    "UPDATE main.howdah_counters SET value = value + ?2 WHERE name = ?1 RETURNING value"
/* What a verdict has to know of a job, without its payload. */
#define LOOK_SQL                                                                                   \
    "SELECT queue_id, attempts, max_attempts, token, lease_ms, key, dead_letter FROM "             \
    "main.howdah_jobs"                                                                             \
    " WHERE id = ?1"

/* HW_SQLITE_LIVE_COLUMNS, and those of the history in the same order. */
enum {
    COL_ID,
    COL_QUEUE,
    COL_ATTEMPTS,
    COL_MAX_ATTEMPTS,
    COL_DUE_AT,
    COL_STARTED_AT,
    COL_WORKER,
    COL_SUSPECT,
    COL_TOKEN,
    COL_LEASE_UNTIL,
    COL_ERROR,
    COL_POSITION,
    COL_FINISHED_AT,
    COL_FAILED,
    COL_RESULT,
    COL_CREATED_AT,
    COL_PRIORITY,
    COL_EVENT_SEQUENCE,
    COL_CAUSATION,
    COL_KEY,
    COL_DEDUP,
    COL_CORRELATION,
    COL_CONTENT_TYPE,
    COL_HEADERS,
    COL_DATA,
    COL_BYTES,
    COL_EVENT_TYPE,
    COL_EVENT_STREAM
};
_Static_assert(COL_EVENT_STREAM + 1 == HW_SQLITE_JOB_COLUMNS, "others go on after them");

#define LAST_PUSH_SQL "SELECT created_at FROM main.howdah_job_data ORDER BY id DESC LIMIT 1"
/* ?1 now, ?2 a time that the clock has shown before it was set back */
#define DUE_AGAIN_SQL                                                                              \
    "UPDATE main.howdah_jobs SET due_at = ?1 WHERE token IS NULL AND due_at > ?1 AND due_at <= ?2"
#define LEASES_AGAIN_SQL                                                                           \
    "UPDATE main.howdah_jobs SET lease_until = max(?1, lease_until - (?2 - ?1))"                   \
    " WHERE token IS NOT NULL AND lease_until > ?1"
#define PUSHED_AGAIN_SQL                                                                           \
    "UPDATE main.howdah_job_data SET created_at = ?1 WHERE created_at > ?1 AND ?2 > ?1"

/* ---------------------------------------------------------- the transaction */

/* When the last job was pushed; 0 without one. */
static int last_push(hw_sqlite *store, int64_t *ret_us, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_LAST_PUSH, LAST_PUSH_SQL, &stmt, reterr);

    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "look at the clock", reterr);
    if (s < 0)
        return s;
    *ret_us = s == HOWDAH_OK ? sqlite3_column_int64(stmt, 0) : 0;
    (void)sqlite3_reset(stmt);
    return HOWDAH_OK;
}

/*
 * The wall clock shows less than when the last job was pushed: it was set back.  What was due by
 * then is due now, leases end as long after now as they would have after that push, and nothing is
 * left that was pushed in the future, so that this happens once for each step.
 */
static int follow_clock(const hw_sqlite_jobs *jobs, int64_t pushed_us, howdah_error *reterr)
{
    static const char *const steps[] = {DUE_AGAIN_SQL, LEASES_AGAIN_SQL, PUSHED_AGAIN_SQL};
    int64_t times[] = {jobs->now_us, pushed_us};
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < sizeof steps / sizeof *steps; i++)
        s = hw_sqlite_once(jobs->store, steps[i], times, 2, reterr);
    return s;
}

/* On the caller's connection the last rowid is the caller's: it is put back when we leave. */
int hw_sqlite_jobs_enter(hw_sqlite_jobs *jobs, hw_sqlite *store, bool synced, howdah_error *reterr)
{
    int64_t pushed_us = 0;
    int s;

    *jobs = (hw_sqlite_jobs){.store = store, .key = HW_BUF_INIT(HW_SQLITE_KEY_MAX)};
    if (store->borrowed)
        jobs->last_rowid = sqlite3_last_insert_rowid(store->db);
    s = hw_sqlite_enter(store, synced || store->borrowed, reterr);
    jobs->now_us = hw_clock_wall_us();
    if (s < 0)
        return s;
    s = last_push(store, &pushed_us, reterr);
    if (s >= 0 && pushed_us > jobs->now_us)
        s = follow_clock(jobs, pushed_us, reterr);
    if (s < 0)
        hw_sqlite_rollback(store);
    return s;
}

/* The bell of a queue has the name of a type: "queue.7". */
static int ring(const hw_sqlite_jobs *jobs, howdah_error *reterr)
{
    char type[32];
    hw_str types;

    (void)snprintf(type, sizeof type, "queue.%" PRId64, jobs->queue.id);
    types = hw_str_of(type);
    return hw_sqlite_ring(&jobs->store->base, &types, 1, reterr);
}

/* The bell rings after the commit, or those whom it wakes would find nothing. */
int hw_sqlite_jobs_leave(hw_sqlite_jobs *jobs, int s, howdah_error *reterr)
{
    hw_sqlite *store = jobs->store;

    hw_buf_done(&jobs->key);
    if (store->borrowed)
        sqlite3_set_last_insert_rowid(store->db, jobs->last_rowid);
    if (s < 0) {
        hw_sqlite_rollback(store);
        return s;
    }
    HW_FAULT_POINT("sqlite.queue_before_commit");
    s = hw_sqlite_commit(store, reterr);
    HW_FAULT_POINT("sqlite.queue_after_commit");
    return s >= 0 && jobs->readied ? ring(jobs, reterr) : s;
}

/* --------------------------------------------------------------- statements */

/* Parameters from 1 on. */
static void bind_numbers(sqlite3_stmt *stmt, const int64_t *numbers, int n)
{
    assert(n <= sqlite3_bind_parameter_count(stmt));
    for (int i = 0; i < n; i++)
        (void)sqlite3_bind_int64(stmt, i + 1, numbers[i]);
}

/* With a statement that is kept: for what every job needs. */
int hw_sqlite_run_numbers(hw_sqlite *store, hw_sqlite_slot slot, const char *sql,
                          const int64_t *numbers, int n, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, slot, sql, &stmt, reterr);

    if (s < 0)
        return s;
    bind_numbers(stmt, numbers, n);
    s = hw_sqlite_step(store, stmt, "move a job", reterr);
    return s < 0 ? s : HOWDAH_OK;
}

/* With one that is thrown away: for what is rare. */
int hw_sqlite_once(hw_sqlite *store, const char *sql, const int64_t *numbers, int n,
                   howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, sql, &stmt, reterr);

    if (s < 0)
        return s;
    bind_numbers(stmt, numbers, n);
    return hw_sqlite_finish(store, stmt, "change a queue", reterr);
}

/* n numbers in a row; a rollback gives them back. */
int hw_sqlite_draw(hw_sqlite *store, const char *counter, int64_t n, int64_t *ret_first,
                   howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_COUNTER, DRAW_SQL, &stmt, reterr);

    assert(n > 0);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, hw_str_of(counter));
    (void)sqlite3_bind_int64(stmt, 2, n);
    s = hw_sqlite_step(store, stmt, "draw a number", reterr);
    if (s == HOWDAH_OK)
        *ret_first = sqlite3_column_int64(stmt, 0) - n + 1;
    else if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_CORRUPT, "%s: the counter of %ss is missing", store->name,
                    counter);
    (void)sqlite3_reset(stmt);
    return s;
}

/* None is later than the last time there is. */
int64_t hw_sqlite_later_us(int64_t now_us, int64_t ms)
{
    return ms < (HW_TIME_MAX_US - now_us) / 1000 ? now_us + ms * 1000 : HW_TIME_MAX_US;
}

/* ------------------------------------------------------------------- queues */

void hw_sqlite_take_settings(sqlite3_stmt *stmt, int first, howdah_queue_options *ret_settings)
{
    assert(first + HW_QUEUE_SETTING_COUNT <= sqlite3_column_count(stmt));
    ret_settings->size = sizeof *ret_settings;
    for (int i = 0; i < HW_QUEUE_SETTING_COUNT; i++)
        hw_queue_setting_put(ret_settings, (size_t)i, sqlite3_column_int64(stmt, first + i));
}

/* Steps a statement whose parameters are bound. */
static int take_queue(hw_sqlite_jobs *jobs, sqlite3_stmt *stmt, howdah_error *reterr)
{
    int s = hw_sqlite_step(jobs->store, stmt, "look at a queue", reterr);

    jobs->queue = (hw_sqlite_queue){.id = 0};
    if (s == HOWDAH_OK) {
        jobs->queue = (hw_sqlite_queue){.id = sqlite3_column_int64(stmt, 0),
                                        .paused = sqlite3_column_int(stmt, 1) != 0};
        hw_sqlite_take_settings(stmt, 2, &jobs->queue.settings);
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

int hw_sqlite_find_queue(hw_sqlite_jobs *jobs, hw_str name, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_QUEUE_BY_NAME, QUEUE_BY_NAME_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, name);
    return take_queue(jobs, stmt, reterr);
}

/* The queue of a job that exists: it has to be there. */
int hw_sqlite_load_queue(hw_sqlite_jobs *jobs, int64_t queue_id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s;

    if (jobs->queue.id == queue_id)
        return HOWDAH_OK;
    s = hw_sqlite_stmt(jobs->store, HW_SLOT_QUEUE_BY_ID, QUEUE_BY_ID_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, queue_id);
    s = take_queue(jobs, stmt, reterr);
    return s == HOWDAH_END ? hw_fail(reterr, HOWDAH_CORRUPT, "%s: queue %" PRId64 " is missing",
                                     jobs->store->name, queue_id)
                           : s;
}

int hw_sqlite_no_queue(hw_str name, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no queue %.*s", (int)name.len, name.s);
}

/* The defaults of its settings are those of the table's columns. */
int hw_sqlite_make_queue(hw_sqlite_jobs *jobs, hw_str name, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_find_queue(jobs, name, reterr);

    if (s != HOWDAH_END)
        return s;
    s = hw_sqlite_prepare(jobs->store, MAKE_QUEUE_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, name);
    (void)sqlite3_bind_int64(stmt, 2, jobs->now_us);
    s = hw_sqlite_finish(jobs->store, stmt, "make a queue", reterr);
    return s < 0 ? s : hw_sqlite_find_queue(jobs, name, reterr);
}

/* --------------------------------------------------------------------- jobs */

/* The key is copied to jobs->key, for hw_sqlite_pass_key(). */
int hw_sqlite_look_at_job(hw_sqlite_jobs *jobs, int64_t id, hw_sqlite_live *ret_live,
                          howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    hw_str key;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_LOOK, LOOK_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    s = hw_sqlite_step(jobs->store, stmt, "look at a job", reterr);
    if (s != HOWDAH_OK)
        return s;
    *ret_live = (hw_sqlite_live){.id = id,
                                 .queue_id = sqlite3_column_int64(stmt, 0),
                                 .attempts = sqlite3_column_int64(stmt, 1),
                                 .max_attempts = sqlite3_column_int64(stmt, 2),
                                 .token = sqlite3_column_int64(stmt, 3),
                                 .lease_ms = sqlite3_column_int64(stmt, 4),
                                 .keyed = sqlite3_column_type(stmt, 5) != SQLITE_NULL,
                                 .dead_letter = sqlite3_column_int64(stmt, 6)};
    hw_buf_clear(&jobs->key);
    key = hw_sqlite_borrow(stmt, 5);
    if (ret_live->keyed && !key.s)
        s = hw_fail_no_memory(reterr);
    else if (ret_live->keyed)
        hw_buf_put(&jobs->key, key.s, key.len);
    (void)sqlite3_reset(stmt);
    return s < 0 ? s : hw_buf_check(&jobs->key, reterr);
}

/* Where a job lies says what it does; see store/queue.h. */
static howdah_job_state state_of(sqlite3_stmt *stmt, const howdah_job *job, int64_t now_us)
{
    if (job->position > 0)
        return sqlite3_column_int(stmt, COL_FAILED) ? HOWDAH_JOB_FAILED : HOWDAH_JOB_COMPLETED;
    if (job->token > 0)
        return HOWDAH_JOB_PROCESSING;
    return job->due_at_us != HW_TIME_ABSENT && job->due_at_us <= now_us ? HOWDAH_JOB_PENDING
                                                                        : HOWDAH_JOB_SCHEDULED;
}

/* The texts are still the statement's. */
static howdah_job borrow_job(sqlite3_stmt *stmt, int64_t now_us)
{
    howdah_job job = {.id = sqlite3_column_int64(stmt, COL_ID),
                      .token = sqlite3_column_int64(stmt, COL_TOKEN),
                      .queue = hw_sqlite_borrow(stmt, COL_QUEUE),
                      .priority = sqlite3_column_int(stmt, COL_PRIORITY),
                      .attempts = sqlite3_column_int64(stmt, COL_ATTEMPTS),
                      .max_attempts = sqlite3_column_int64(stmt, COL_MAX_ATTEMPTS),
                      .created_at_us = sqlite3_column_int64(stmt, COL_CREATED_AT),
                      .due_at_us = hw_sqlite_time(stmt, COL_DUE_AT),
                      .started_at_us = hw_sqlite_time(stmt, COL_STARTED_AT),
                      .lease_until_us = hw_sqlite_time(stmt, COL_LEASE_UNTIL),
                      .suspect = sqlite3_column_int(stmt, COL_SUSPECT) != 0,
                      .worker = hw_sqlite_borrow(stmt, COL_WORKER),
                      .key = hw_sqlite_borrow(stmt, COL_KEY),
                      .dedup = hw_sqlite_borrow(stmt, COL_DEDUP),
                      .correlation_id = hw_sqlite_borrow(stmt, COL_CORRELATION),
                      .headers = hw_sqlite_borrow(stmt, COL_HEADERS),
                      .data = hw_sqlite_borrow(stmt, COL_DATA),
                      .content_type = hw_sqlite_borrow(stmt, COL_CONTENT_TYPE),
                      .event_sequence = sqlite3_column_int64(stmt, COL_EVENT_SEQUENCE),
                      .event_type = hw_sqlite_borrow(stmt, COL_EVENT_TYPE),
                      .event_stream = hw_sqlite_borrow(stmt, COL_EVENT_STREAM),
                      .position = sqlite3_column_int64(stmt, COL_POSITION),
                      .finished_at_us = hw_sqlite_time(stmt, COL_FINISHED_AT),
                      .error = hw_sqlite_borrow(stmt, COL_ERROR),
                      .result = hw_sqlite_borrow(stmt, COL_RESULT)};

    if (sqlite3_column_type(stmt, COL_BYTES) == SQLITE_BLOB) {
        const char *bytes = sqlite3_column_blob(stmt, COL_BYTES);

        /* No bytes at all are NULL to SQLite, but they are not absent. */
        job.data = (hw_str){bytes ? bytes : "", (size_t)sqlite3_column_bytes(stmt, COL_BYTES)};
    }
    job.has_causation = sqlite3_column_bytes(stmt, COL_CAUSATION) == (int)sizeof job.causation_id.b;
    if (job.has_causation)
        memcpy(job.causation_id.b, sqlite3_column_blob(stmt, COL_CAUSATION),
               sizeof job.causation_id.b);
    job.state = state_of(stmt, &job, now_us);
    return job;
}

#define TEXTS 12

/* All texts of a job, so that one loop measures and one copies them. */
static void list_texts(howdah_job *job, hw_str *texts[TEXTS])
{
    hw_str *all[TEXTS] = {&job->queue,  &job->worker,       &job->key,
                          &job->dedup,  &job->headers,      &job->correlation_id,
                          &job->data,   &job->content_type, &job->error,
                          &job->result, &job->event_type,   &job->event_stream};

    memcpy(texts, all, sizeof all);
}

/* I2.  One block for all texts, each with a NUL after it; the caller frees *ret_texts. */
int hw_sqlite_take_job(const hw_sqlite *store, sqlite3_stmt *stmt, int64_t now_us,
                       howdah_job *ret_job, char **ret_texts, size_t *ret_bytes,
                       howdah_error *reterr)
{
    howdah_job job = borrow_job(stmt, now_us);
    hw_str *texts[TEXTS];
    size_t bytes = 0;
    char *at;

    assert(sqlite3_column_count(stmt) >= HW_SQLITE_JOB_COLUMNS);
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    list_texts(&job, texts);
    for (int i = 0; i < TEXTS; i++)
        bytes += texts[i]->len + 1;
    at = hw_alloc(bytes);
    if (!at)
        return hw_fail_no_memory(reterr);
    *ret_texts = at;
    for (int i = 0; i < TEXTS; i++)
        if (texts[i]->s) {
            memcpy(at, texts[i]->s, texts[i]->len);
            at[texts[i]->len] = '\0';
            texts[i]->s = at;
            at += texts[i]->len + 1;
        }
    *ret_job = job;
    *ret_bytes = bytes;
    return HOWDAH_OK;
}
