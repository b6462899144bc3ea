/*
 * queue_read.c - queues, jobs and history for those who look.
 *
 *   I1  One statement is one moment: the counts of a queue add up, and a job that moves meanwhile
 *       is found in one of its places.
 *   I2  None runs while a callback does (buffered_rows.c).
 */
#include <assert.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* Each count is a range of an index, named here: no statistics can lead elsewhere. */
#define READY "main.howdah_jobs INDEXED BY howdah_jobs_ready"
#define OF_QUEUE " WHERE queue_id = q.queue_id AND "
#define FAILURES                                                                                   \
    "(SELECT count(*) FROM main.howdah_event_log INDEXED BY howdah_event_log_by_failure" OF_QUEUE  \
    "failed = 1)"

/* ?1 now, ?2 the name */
#define ROW_COLUMNS(completed, failed)                                                             \
    "SELECT q.name, q.paused" HOWDAH_QUEUE_SETTING_LIST(                                           \
        HW_QUEUE_SETTING_COLUMN) ", q.created_at,"                                                 \
                                 " (SELECT count(*) FROM " READY OF_QUEUE                          \
                                 "token IS NULL AND aside = 0 AND due_at <= ?1),"                  \
                                 " (SELECT count(*) FROM main.howdah_jobs INDEXED BY "             \
                                 "howdah_jobs_leased" OF_QUEUE "  token IS NOT NULL),"             \
                                 " (SELECT count(*) FROM " READY OF_QUEUE                          \
                                 "token IS NULL AND aside = 0 AND due_at > ?1)"                    \
                                 " + (SELECT count(*) FROM main.howdah_jobs INDEXED BY "           \
                                 "howdah_jobs_aside" OF_QUEUE "aside = 1),"                        \
                                 " " completed ", " failed ", q.purged,"                           \
                                 " (SELECT ?1 - min(due_at) FROM " READY OF_QUEUE                  \
                                 "token IS NULL AND aside = 0"                                     \
                                 "  AND due_at <= ?1),"                                            \
                                 " (SELECT count(*) FROM main.howdah_job_dead_letters INDEXED BY " \
                                 "howdah_job_dead_letters_open" OF_QUEUE "  resolved_at IS NULL)"  \
                                 " FROM main.howdah_queues q"
/* Failures have an index of their own; the rest of the history has completed. */
#define COUNT_COMPLETED                                                                            \
    "q.completed_removed - " FAILURES " + (SELECT count(*) FROM main.howdah_event_log"             \
    " INDEXED BY howdah_event_log_by_queue WHERE queue_id = q.queue_id)"
#define COUNT_FAILED "q.failed_removed + " FAILURES
#define ROW_SQL ROW_COLUMNS(COUNT_COMPLETED, COUNT_FAILED) " WHERE q.name = ?2 LIMIT ?3"
/* ?2 after this name, ?3 limit */
#define BY_NAME " WHERE q.name > ?2 ORDER BY q.name LIMIT ?3"
#define ROWS_SQL ROW_COLUMNS(COUNT_COMPLETED, COUNT_FAILED) BY_NAME
#define SUMMARY_SQL ROW_COLUMNS("-1", "-1") BY_NAME

#define HISTORY_COLUMNS(headers, data, bytes)                                                      \
    " l.job_id, q.name, l.attempts, coalesce(nullif(d.max_attempts, 0), q.max_attempts), NULL,"    \
    " l.started_at, l.worker, 0, NULL, NULL, l.error, l.position, l.finished_at, l.failed,"        \
    " l.result," HW_SQLITE_DATA_COLUMNS(headers, data, bytes)
#define POSITION_COLUMN 11 /* of those */
#define BEHIND_LOG                                                                                 \
    " CROSS JOIN main.howdah_job_data d ON d.id = l.job_id"                                        \
    " CROSS JOIN main.howdah_queues q ON q.queue_id = l.queue_id" HW_SQLITE_JOIN_EVENT
#define JOB_SQL                                                                                    \
    "SELECT" HW_SQLITE_LIVE_COLUMNS(                                                               \
        "q.name", "q.max_attempts") " FROM main.howdah_jobs j CROSS JOIN main.howdah_job_data d "  \
                                    "ON d.id = j.id"                                               \
                                    " CROSS JOIN main.howdah_queues q ON q.queue_id = "            \
                                    "j.queue_id" HW_SQLITE_JOIN_EVENT " WHERE j.id = ?1"           \
                                    " UNION ALL SELECT" HISTORY_COLUMNS(                           \
                                        HW_SQLITE_OF_JOB("headers"), HW_SQLITE_OF_JOB("data"),     \
                                        HW_SQLITE_OF_JOB(                                          \
                                            "bytes")) " FROM main.howdah_event_log l" BEHIND_LOG   \
                                                      " WHERE l.job_id = ?1 LIMIT ?2"

/* ?1 queue, ?2 after this position, ?3 limit or -1, ?4 with the payload */
#define LOG_SQL(index, status, behind, order)                                                      \
    "SELECT" HISTORY_COLUMNS(                                                                      \
        "iif(?4, " HW_SQLITE_OF_JOB("headers") ", NULL)",                                          \
        "iif(?4, " HW_SQLITE_OF_JOB("data") ", NULL)",                                             \
        "iif(?4, " HW_SQLITE_OF_JOB(                                                               \
            "bytes") ", NULL)") " FROM main.howdah_event_log l INDEXED BY " index BEHIND_LOG       \
                                " WHERE l.queue_id = ?1 AND l.position " behind " ?2" status       \
                                " ORDER BY l.position " order " LIMIT ?3"
#define LOG_SQLS(index, status)                                                                    \
    {                                                                                              \
        LOG_SQL(index, status, ">", "ASC"), LOG_SQL(index, status, "<", "DESC")                    \
    }

/* All, COMPLETED, FAILED; forward and backward. */
static const char *const log_sqls[3][2] = {
    LOG_SQLS("howdah_event_log_by_queue", ""),
    LOG_SQLS("howdah_event_log_by_queue", " AND l.failed = 0"),
    LOG_SQLS("howdah_event_log_by_failure", " AND l.failed = 1"),
};

/* ------------------------------------------------------------------- queues */

/* The columns of ROW_COLUMNS. */
enum {
    NAME,
    PAUSED,
    SETTINGS,
    CREATED_AT = SETTINGS + HW_QUEUE_SETTING_COUNT,
    PENDING,
    PROCESSING,
    SCHEDULED,
    COMPLETED,
    FAILED,
    PURGED,
    OLDEST_AGE_US,
    DEAD_LETTERS,
    QUEUE_COLUMNS
};

/* The name is the statement's until its next step. */
static howdah_queue_info take_row(sqlite3_stmt *stmt)
{
    howdah_queue_info info = {.size = sizeof info,
                              .queue = hw_sqlite_borrow(stmt, NAME).s,
                              .paused = sqlite3_column_int(stmt, PAUSED) != 0,
                              .created_at_us = sqlite3_column_int64(stmt, CREATED_AT),
                              .pending = sqlite3_column_int64(stmt, PENDING),
                              .processing = sqlite3_column_int64(stmt, PROCESSING),
                              .scheduled = sqlite3_column_int64(stmt, SCHEDULED),
                              .completed = sqlite3_column_int64(stmt, COMPLETED),
                              .failed = sqlite3_column_int64(stmt, FAILED),
                              .purged = sqlite3_column_int64(stmt, PURGED),
                              .oldest_age_ms = HOWDAH_ABSENT,
                              .dead_letters = sqlite3_column_int64(stmt, DEAD_LETTERS)};

    assert(sqlite3_column_count(stmt) == QUEUE_COLUMNS);
    hw_sqlite_take_settings(stmt, SETTINGS, &info.settings);
    if (sqlite3_column_type(stmt, OLDEST_AGE_US) != SQLITE_NULL)
        info.oldest_age_ms = sqlite3_column_int64(stmt, OLDEST_AGE_US) / 1000;
    return info;
}

/* n: how many were found, so that none can be told. */
typedef struct queue_walk {
    hw_queue_fn fn;
    void *ctx;
    size_t n;
} queue_walk;

static void bind_now(void *ctx, sqlite3_stmt *stmt)
{
    (void)ctx;
    (void)sqlite3_bind_int64(stmt, 1, hw_clock_wall_us());
}

/* The walk ends where fn wants no more. */
static int hand_queue(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    queue_walk *w = ctx;
    howdah_queue_info row = take_row(stmt);

    w->n++;
    if (!row.queue)
        return hw_fail_no_memory(reterr);
    *ret_stop = w->fn(w->ctx, &row) != 0;
    return HOWDAH_OK;
}

/* By name, from the one given: a page, the calls, then the next page after the last name (I2). */
static int walk_queues(hw_sqlite *store, const char *sql, hw_str name, queue_walk *w,
                       howdah_error *reterr)
{
    const hw_sqlite_walk walk = {.sql = sql,
                                 .doing = "read queues",
                                 .keys = 1,
                                 .key_column = {0},
                                 .key_param = {2},
                                 .first = {{.bytes = name}},
                                 .limit_param = 3,
                                 .bind = bind_now,
                                 .row = hand_queue,
                                 .ctx = w};

    return hw_sqlite_walk_rows(store, &walk, reterr);
}

int hw_sqlite_queue_load(hw_store *base, hw_str queue, hw_queue_fn fn, void *ctx,
                         howdah_error *reterr)
{
    queue_walk w = {fn, ctx, 0};
    int s = walk_queues((hw_sqlite *)base, ROW_SQL, queue, &w, reterr);

    return s >= 0 && w.n == 0 ? hw_sqlite_no_queue(queue, reterr) : s;
}

int hw_sqlite_queue_list(hw_store *base, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    queue_walk w = {fn, ctx, 0};

    return walk_queues((hw_sqlite *)base, ROWS_SQL, HW_STR_LIT(""), &w, reterr);
}

int hw_sqlite_queue_summary(hw_store *base, hw_queue_fn fn, void *ctx, howdah_error *reterr)
{
    queue_walk w = {fn, ctx, 0};

    return walk_queues((hw_sqlite *)base, SUMMARY_SQL, HW_STR_LIT(""), &w, reterr);
}

/* --------------------------------------------------------------------- jobs */

typedef struct job_walk {
    hw_sqlite *store;
    hw_job_fn fn;
    void *ctx;
    size_t n;
    int64_t id; /* of a queue, or of a job */
    bool payload;
} job_walk;

/* The texts are copied for fn, which may use the store meanwhile. */
static int hand_job(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    job_walk *w = ctx;
    char *texts = NULL;
    size_t bytes = 0;
    howdah_job job;
    int s = hw_sqlite_take_job(w->store, stmt, hw_clock_wall_us(), &job, &texts, &bytes, reterr);

    w->n++;
    if (s >= 0)
        *ret_stop = w->fn(w->ctx, &job) != 0;
    hw_free(texts);
    return s;
}

int hw_sqlite_job_load(hw_store *base, int64_t id, hw_job_fn fn, void *ctx, howdah_error *reterr)
{
    job_walk w = {.store = (hw_sqlite *)base, .fn = fn, .ctx = ctx};
    const hw_sqlite_walk walk = {.sql = JOB_SQL,
                                 .doing = "read jobs",
                                 .keys = 1,
                                 .key_column = {0},
                                 .key_param = {1},
                                 .first = {{.number = id}},
                                 .limit_param = 2,
                                 .row = hand_job,
                                 .ctx = &w};
    int s = hw_sqlite_walk_rows(w.store, &walk, reterr);

    return s >= 0 && w.n == 0 ? hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no job %" PRId64, id)
                              : s;
}

static const char *log_sql(const howdah_queue_history_options *options)
{
    int which = options->status == HOWDAH_ABSENT          ? 0
                : options->status == HOWDAH_JOB_COMPLETED ? 1
                                                          : 2;

    assert(which < 2 || options->status == HOWDAH_JOB_FAILED);
    return log_sqls[which][options->backward ? 1 : 0];
}

static void bind_log(void *ctx, sqlite3_stmt *stmt)
{
    const job_walk *w = ctx;

    (void)sqlite3_bind_int64(stmt, 1, w->id);
    (void)sqlite3_bind_int(stmt, 4, w->payload);
}

/* From the end: below the highest position there can be. */
int hw_sqlite_queue_log(hw_store *base, hw_str queue, const howdah_queue_history_options *options,
                        hw_job_fn fn, void *ctx, howdah_error *reterr)
{
    job_walk w = {.store = (hw_sqlite *)base, .fn = fn, .ctx = ctx, .payload = options->payload};
    bool from_end = options->backward && options->after == 0;
    const hw_sqlite_walk walk = {.sql = log_sql(options),
                                 .doing = "read jobs",
                                 .keys = 1,
                                 .key_column = {POSITION_COLUMN},
                                 .key_param = {2},
                                 .first = {{.number = from_end ? INT64_MAX : options->after}},
                                 .limit_param = 3,
                                 .limit = options->limit,
                                 .bind = bind_log,
                                 .row = hand_job,
                                 .ctx = &w};
    hw_sqlite_jobs jobs = {.store = w.store};
    int s = hw_sqlite_ready_to_read(w.store, reterr);

    if (s >= 0)
        s = hw_sqlite_find_queue(&jobs, queue, reterr);
    if (s != HOWDAH_OK)
        return s < 0 ? s : HOWDAH_OK;
    w.id = jobs.queue.id;
    return hw_sqlite_walk_rows(w.store, &walk, reterr);
}
