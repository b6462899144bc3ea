/*
 * queue_dead_letters.c - dead letters of jobs: listed, tried again, discarded, resolved.
 *
 *   I1  A dead letter that is tried again is in state 'redrive' as long as its job is live.
 * Whatever ends the job ends that: it completes (redriven), fails (dead, queue_ack.c), is cancelled
 * or purged (discarded).  Only then the try is counted, with its attempts. I2  The live job knows
 * its dead letter, so that the end of one that has none costs nothing more.
 */
#include <assert.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* As hw_sqlite_take_job() reads them; where nothing is left of a job, those of d are NULL. */
#define JOB_COLUMNS                                                                                \
    " k.job_id, q.name, k.attempts, coalesce(nullif(d.max_attempts, 0), q.max_attempts),"          \
    " NULL, NULL, NULL, 0, NULL, NULL, k.error, 0, NULL, 0, NULL," HW_SQLITE_DATA_COLUMNS(         \
        HW_SQLITE_OF_JOB("headers"), HW_SQLITE_OF_JOB("data"), HW_SQLITE_OF_JOB("bytes"))
#define DEAD_LETTER_COLUMNS                                                                        \
    ", k.id, d.id, k.state, k.redrives, k.reason, k.created_at,"                                   \
    " iif(k.state = 'redriven', k.resolved_at, k.failed_at), k.resolved_at, k.resolved_by"
#define JOINS                                                                                      \
    " CROSS JOIN main.howdah_queues q ON q.queue_id = k.queue_id"                                  \
    " LEFT JOIN main.howdah_job_data d ON d.id = k.job_id" HW_SQLITE_JOIN_EVENT

/* ?1 queue or NULL, ?2 last id, ?3 after id, ?4 limit or -1, ?5 resolved ones too */
#define LIST_SQL(index, which)                                                                     \
    "SELECT" JOB_COLUMNS DEAD_LETTER_COLUMNS " FROM main.howdah_job_dead_letters k " index JOINS   \
    " WHERE k.id > ?3 AND k.id <= ?2 AND " which " ORDER BY k.id LIMIT ?4"
#define OF_QUEUE "k.queue_id = (SELECT n.queue_id FROM main.howdah_queues n WHERE n.name = ?1)"
#define LIST_ALL_SQL                                                                               \
    LIST_SQL("NOT INDEXED", "(?1 IS NULL OR " OF_QUEUE ") AND (?5 OR k.resolved_at IS NULL)")
#define LIST_OPEN_SQL                                                                              \
    LIST_SQL("INDEXED BY howdah_job_dead_letters_open", OF_QUEUE " AND k.resolved_at IS NULL")

enum {
    COL_DEAD_LETTER_ID = HW_SQLITE_JOB_COLUMNS,
    COL_KEPT,
    COL_STATE,
    COL_REDRIVES,
    COL_REASON,
    COL_CREATED_AT,
    COL_LAST_AT,
    COL_RESOLVED_AT,
    COL_RESOLVED_BY
};

/* The next open dead letter: ?1 after id; of one queue: ?2; or that with one id. */
#define OPEN_COLUMNS "SELECT id, job_id, state = 'dead' FROM main.howdah_job_dead_letters "
#define NEXT_SQL                                                                                   \
    OPEN_COLUMNS "NOT INDEXED WHERE id > ?1 AND resolved_at IS NULL ORDER BY id LIMIT 1"
#define NEXT_OF_QUEUE_SQL                                                                          \
    OPEN_COLUMNS "INDEXED BY howdah_job_dead_letters_open WHERE id > ?1 AND queue_id = ?2"         \
                 " AND resolved_at IS NULL ORDER BY id LIMIT 1"
#define ONE_SQL OPEN_COLUMNS "WHERE id = ?1 AND resolved_at IS NULL"

#define DISCARD_SQL                                                                                \
    "UPDATE main.howdah_job_dead_letters SET state = 'discarded', reason = ?2, resolved_at = ?3,"  \
    " resolved_by = '" HW_SQLITE_BY_OPERATOR "' WHERE id = ?1"
#define REDRIVEN_SQL                                                                               \
    "UPDATE main.howdah_job_dead_letters SET state = 'redriven', attempts = attempts + ?2,"        \
    " redrives = redrives + 1, resolved_at = ?3, resolved_by = (SELECT l.worker"                   \
    "  FROM main.howdah_event_log l WHERE l.job_id = howdah_job_dead_letters.job_id)"              \
    " WHERE id = ?1 AND state = 'redrive'"
#define CANCELLED_SQL                                                                              \
    "UPDATE main.howdah_job_dead_letters SET state = 'discarded', reason = ?4,"                    \
    " attempts = attempts + ?2, redrives = redrives + (?2 > 0), resolved_at = ?3,"                 \
    " resolved_by = '" HW_SQLITE_BY_OPERATOR "' WHERE id = ?1 AND state = 'redrive'"

/* ------------------------------------------------------------------ listing */

/*
 * One dead letter is the range from the id before it up to its own.  Open ones of a queue have an
 * index.
 */
int hw_sqlite_job_dead_letters(hw_sqlite *store, const hw_dead_letter_query *query,
                               sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    bool open = query->queue.s && !query->resolved;
    int64_t after =
        query->id > 0 && query->id - 1 > query->after_id ? query->id - 1 : query->after_id;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, open ? LIST_OPEN_SQL : LIST_ALL_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, query->queue);
    (void)sqlite3_bind_int64(stmt, 2, query->id > 0 ? query->id : INT64_MAX);
    (void)sqlite3_bind_int64(stmt, 3, after);
    (void)sqlite3_bind_int64(stmt, 4, query->limit > 0 ? query->limit : -1);
    if (!open)
        (void)sqlite3_bind_int(stmt, 5, query->resolved);
    *ret_stmt = stmt;
    return HOWDAH_OK;
}

int64_t hw_sqlite_job_dead_letter_id(sqlite3_stmt *stmt)
{
    return sqlite3_column_int64(stmt, COL_DEAD_LETTER_ID);
}

/* The texts are the statement's until its next step, or the job's. */
static int take_dead_letter(const hw_sqlite *store, sqlite3_stmt *stmt, howdah_job *job,
                            howdah_dead_letter *ret_dead_letter, howdah_error *reterr)
{
    hw_dead_letter_state state = HW_DEAD_LETTER_DEAD;
    howdah_dead_letter dead_letter = {.size = sizeof dead_letter,
                                      .id = hw_sqlite_job_dead_letter_id(stmt),
                                      .source = "queue",
                                      .queue = job->queue.s,
                                      .job_id = job->id,
                                      .error = job->error.s ? job->error.s : "",
                                      .attempts = job->attempts,
                                      .redrives = sqlite3_column_int64(stmt, COL_REDRIVES),
                                      .created_at_us = sqlite3_column_int64(stmt, COL_CREATED_AT),
                                      .last_attempt_at_us = sqlite3_column_int64(stmt, COL_LAST_AT),
                                      .reason = hw_sqlite_text(stmt, COL_REASON),
                                      .resolved =
                                          sqlite3_column_type(stmt, COL_RESOLVED_AT) != SQLITE_NULL,
                                      .resolved_at_us = hw_sqlite_time(stmt, COL_RESOLVED_AT),
                                      .resolved_by = hw_sqlite_text(stmt, COL_RESOLVED_BY)};

    if (!hw_dead_letter_state_of(hw_sqlite_borrow(stmt, COL_STATE), &state))
        return sqlite3_errcode(store->db) == SQLITE_NOMEM
                   ? hw_fail_no_memory(reterr)
                   : hw_fail(reterr, HOWDAH_CORRUPT, "%s: dead letter %" PRId64 " is damaged",
                             store->name, dead_letter.id);
    if (sqlite3_errcode(store->db) == SQLITE_NOMEM)
        return hw_fail_no_memory(reterr);
    dead_letter.state = hw_dead_letter_state_name(state);
    if (sqlite3_column_type(stmt, COL_KEPT) != SQLITE_NULL) {
        job->state = hw_job_state_by_dead_letter(state);
        dead_letter.job = job;
    }
    *ret_dead_letter = dead_letter;
    return HOWDAH_OK;
}

/* The first columns are those of a job, so hw_sqlite_take_job() reads them. */
int hw_sqlite_hand_job_dead_letter(hw_sqlite *store, sqlite3_stmt *stmt, hw_dead_letter_fn fn,
                                   void *ctx, bool *ret_stop, howdah_error *reterr)
{
    char *texts = NULL;
    size_t bytes = 0;
    howdah_dead_letter dead_letter;
    howdah_job job;
    int s = hw_sqlite_take_job(store, stmt, 0, &job, &texts, &bytes, reterr);

    if (s >= 0)
        s = take_dead_letter(store, stmt, &job, &dead_letter, reterr);
    if (s >= 0)
        *ret_stop = fn(ctx, &dead_letter) != 0;
    hw_free(texts);
    return s;
}

/* ------------------------------------------------------------------ marking */

typedef struct open_dead_letter {
    int64_t id;
    int64_t job_id;
    bool dead; /* otherwise it is tried again already */
} open_dead_letter;

/* HOWDAH_END: there is none.  Resets the statement. */
static int take_open(hw_sqlite *store, sqlite3_stmt *stmt, open_dead_letter *ret_dead_letter,
                     howdah_error *reterr)
{
    int s = hw_sqlite_step(store, stmt, "look at a dead letter", reterr);

    if (s == HOWDAH_OK)
        *ret_dead_letter = (open_dead_letter){.id = sqlite3_column_int64(stmt, 0),
                                              .job_id = sqlite3_column_int64(stmt, 1),
                                              .dead = sqlite3_column_int(stmt, 2) != 0};
    (void)sqlite3_reset(stmt);
    return s;
}

/* Its key, if it holds one, is free for the next job. */
static int discard(hw_sqlite_jobs *jobs, const open_dead_letter *dead_letter, hw_str reason,
                   howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, DISCARD_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, dead_letter->id);
    hw_sqlite_bind_str(stmt, 2, reason);
    (void)sqlite3_bind_int64(stmt, 3, jobs->now_us);
    s = hw_sqlite_finish(jobs->store, stmt, "discard a dead letter", reterr);
    return s < 0 ? s : hw_sqlite_end_hold(jobs, dead_letter->job_id, reterr);
}

/* HOWDAH_END: it was left as it is. */
static int mark(hw_sqlite_jobs *jobs, const open_dead_letter *dead_letter,
                hw_dead_letter_state state, hw_str reason, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    assert(state == HW_DEAD_LETTER_REDRIVE || state == HW_DEAD_LETTER_DISCARDED);
    if (state == HW_DEAD_LETTER_DISCARDED)
        return discard(jobs, dead_letter, reason, reterr);
    if (!dead_letter->dead)
        return HOWDAH_OK;
    s = hw_sqlite_revive(jobs, dead_letter->job_id, &err);
    if (s == HOWDAH_CONFLICT)
        return HOWDAH_END;
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* Every open dead letter; queue_id 0: of all queues. */
static int mark_all(hw_sqlite_jobs *jobs, int64_t queue_id, hw_dead_letter_state state,
                    hw_str reason, int64_t *n, howdah_error *reterr)
{
    open_dead_letter dead_letter = {.id = 0};
    sqlite3_stmt *stmt = NULL;
    int s =
        hw_sqlite_prepare(jobs->store, queue_id > 0 ? NEXT_OF_QUEUE_SQL : NEXT_SQL, &stmt, reterr);

    while (s >= 0) {
        (void)sqlite3_bind_int64(stmt, 1, dead_letter.id);
        if (queue_id > 0)
            (void)sqlite3_bind_int64(stmt, 2, queue_id);
        s = take_open(jobs->store, stmt, &dead_letter, reterr);
        if (s == HOWDAH_END)
            break;
        if (s >= 0)
            s = mark(jobs, &dead_letter, state, reason, reterr);
        *n += s == HOWDAH_OK;
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* None of that id, or none that is open: nothing is counted. */
static int mark_one(hw_sqlite_jobs *jobs, int64_t id, hw_dead_letter_state state, hw_str reason,
                    int64_t *n, howdah_error *reterr)
{
    open_dead_letter dead_letter = {.id = 0};
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, ONE_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    s = take_open(jobs->store, stmt, &dead_letter, reterr);
    (void)sqlite3_finalize(stmt);
    if (s == HOWDAH_OK)
        s = mark(jobs, &dead_letter, state, reason, reterr);
    *n += s == HOWDAH_OK;
    return s < 0 ? s : HOWDAH_OK;
}

/* The caller's transaction: dead_letters.c does the same for those of subscriptions in it. */
int hw_sqlite_set_job_dead_letters(hw_sqlite *store, int64_t id, hw_dead_letter_state state,
                                   hw_str reason, int64_t *n, howdah_error *reterr)
{
    hw_sqlite_jobs jobs = {
        .store = store, .now_us = hw_clock_wall_us(), .key = HW_BUF_INIT(HW_SQLITE_KEY_MAX)};
    int s = id > 0 ? mark_one(&jobs, id, state, reason, n, reterr)
                   : mark_all(&jobs, 0, state, reason, n, reterr);

    hw_buf_done(&jobs.key);
    return s;
}

int hw_sqlite_job_dead_letters_set_state(hw_store *base, hw_str queue, hw_dead_letter_state state,
                                         hw_str reason, int64_t *ret_n, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int64_t n = 0;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_find_queue(&jobs, queue, reterr);
    if (s == HOWDAH_END)
        s = hw_sqlite_no_queue(queue, reterr);
    if (s >= 0)
        s = mark_all(&jobs, jobs.queue.id, state, reason, &n, reterr);
    s = hw_sqlite_jobs_leave(&jobs, s, reterr);
    if (s >= 0 && ret_n)
        *ret_n = n;
    return s;
}

/* ---------------------------------------------------------------- resolving */

/* The attempts of this try are added to those before; see store/queue.h, job_rerun(). */
int hw_sqlite_dead_letter_redriven(hw_sqlite_jobs *jobs, const hw_sqlite_live *live,
                                   howdah_error *reterr)
{
    int64_t numbers[] = {live->dead_letter, live->attempts, jobs->now_us};

    return hw_sqlite_once(jobs->store, REDRIVEN_SQL, numbers, 3, reterr);
}

/* A try that nobody has begun is not counted. */
int hw_sqlite_dead_letter_cancelled(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str reason,
                                    howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, CANCELLED_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, live->dead_letter);
    (void)sqlite3_bind_int64(stmt, 2, live->attempts);
    (void)sqlite3_bind_int64(stmt, 3, jobs->now_us);
    hw_sqlite_bind_str(stmt, 4, reason);
    return hw_sqlite_finish(jobs->store, stmt, "discard a dead letter", reterr);
}
