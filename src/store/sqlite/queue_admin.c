/*
 * queue_admin.c - what operators do to queues and jobs, what has to be done from time to time, and
 * the table of the queue's operations.
 *
 *   I1  A job is counted once: whoever removes the last trace of it adds it to a number of its
 *       queue (0003_queue.sql, I8).
 *   I2  History is removed from its old end, and stops at the first row that is young enough: it
 *       costs as much as there is to remove.  A job whose dead letter is open is passed by.
 */
#include <assert.h>
#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define MAINTAIN_MAX 1000
#define REASON_BYTES_MAX (1024 * 1024)

/* What is absent stays as it is.  The parameters have the numbers of the settings, from 1 on, in
   the order in which they are first named; "paused" only gives the commas something to follow. */
_Static_assert(HOWDAH_ABSENT == -1, "as PUT_SQL has it");
#define PUT_SETTING(key, member, unit, min, max, def, range, zero, help)                           \
    ", " #member " = iif(:" #member " = -1, " #member ", :" #member ")"
#define PUT_SQL                                                                                    \
    "UPDATE main.howdah_queues SET paused = paused" HOWDAH_QUEUE_SETTING_LIST(                     \
        PUT_SETTING) " WHERE queue_id = :queue_id"
#define PAUSE_SQL "UPDATE main.howdah_queues SET paused = ?2 WHERE queue_id = ?1"

/* Both ways a job can wait: in line, or aside because of its key. */
#define READY                                                                                      \
    "main.howdah_jobs INDEXED BY howdah_jobs_ready WHERE queue_id = ?1"                            \
    " AND token IS NULL AND aside = 0"
#define ASIDE "main.howdah_jobs INDEXED BY howdah_jobs_aside WHERE queue_id = ?1 AND aside = 1"
#define PURGE_DATA_SQL(which)                                                                      \
    "DELETE FROM main.howdah_job_data WHERE id IN (SELECT id FROM " which ")"
#define PURGE_SQL(which) "DELETE FROM " which
#define PURGED_SQL "UPDATE main.howdah_queues SET purged = purged + ?2 WHERE queue_id = ?1"
#define PURGED_DEAD_LETTERS_SQL                                                                    \
    "UPDATE main.howdah_job_dead_letters INDEXED BY howdah_job_dead_letters_open SET state = "     \
    "'discarded',"                                                                                 \
    " reason = 'purged', resolved_at = ?2, resolved_by = '" HW_SQLITE_BY_OPERATOR "'"              \
    " WHERE queue_id = ?1 AND resolved_at IS NULL AND state = 'redrive'"                           \
    " AND NOT EXISTS (SELECT 1 FROM main.howdah_job_data d WHERE d.id = job_id)"

/* I2. */
#define OLDEST_SQL                                                                                 \
    "SELECT l.position, l.job_id, l.failed, l.finished_at FROM main.howdah_event_log l"            \
    " INDEXED BY howdah_event_log_by_queue WHERE l.queue_id = ?1 AND l.position > ?2"              \
    " AND NOT EXISTS (SELECT 1 FROM main.howdah_job_dead_letters k WHERE k.job_id = l.job_id"      \
    "  AND k.resolved_at IS NULL) ORDER BY l.position LIMIT 1"
#define REMOVE_LOG_SQL "DELETE FROM main.howdah_event_log WHERE position = ?1"
#define REMOVE_DATA_SQL "DELETE FROM main.howdah_job_data WHERE id = ?1"
#define REMOVED_SQL                                                                                \
    "UPDATE main.howdah_queues SET completed_removed = completed_removed + ?2,"                    \
    " failed_removed = failed_removed + ?3 WHERE queue_id = ?1"

#define ERASED_SQL                                                                                 \
    "SELECT e.purge FROM main.howdah_job_data d JOIN main.howdah_events e"                         \
    " ON e.global_sequence = d.event_sequence WHERE d.id = ?1 AND e.purge IS NOT NULL"
#define OUTCOME_SQL "SELECT failed FROM main.howdah_event_log WHERE job_id = ?1"
#define TWIN_SQL                                                                                   \
    "SELECT j.id FROM main.howdah_job_data d JOIN main.howdah_jobs j ON j.queue_id = d.queue_id"   \
    " AND j.dedup = d.dedup WHERE d.id = ?1"
/* Aside until it is its turn: hw_sqlite_pass_key(). */
#define REVIVE_SQL                                                                                 \
    "INSERT INTO main.howdah_jobs (id, queue_id, priority, due_at, max_attempts, key, dedup,"      \
    " aside, error, dead_letter) SELECT d.id, d.queue_id, d.priority, ?2, d.max_attempts, d.key,"  \
    " d.dedup, d.key IS NOT NULL, l.error, (SELECT k.id FROM main.howdah_job_dead_letters k"       \
    "  WHERE k.job_id = d.id AND k.resolved_at IS NULL) FROM main.howdah_job_data d"               \
    " JOIN main.howdah_event_log l ON l.job_id = d.id WHERE d.id = ?1"
#define FORGET_SQL "DELETE FROM main.howdah_event_log WHERE job_id = ?1"
#define REDRIVE_SQL                                                                                \
    "UPDATE main.howdah_job_dead_letters SET state = 'redrive'"                                    \
    " WHERE job_id = ?1 AND resolved_at IS NULL"
#define DUE_NOW_SQL "UPDATE main.howdah_jobs SET due_at = min(due_at, ?2) WHERE id = ?1"

/* The first column of the only row; HOWDAH_END without one. */
static int find_number(hw_sqlite *store, const char *sql, int64_t about, int64_t *ret_value,
                       howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, sql, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, about);
    s = hw_sqlite_step(store, stmt, "look at a job", reterr);
    if (s == HOWDAH_OK)
        *ret_value = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return s;
}

/* ------------------------------------------------------------------- queues */

/* The queue is jobs->queue. */
static int put_settings(hw_sqlite_jobs *jobs, const howdah_queue_options *settings,
                        howdah_error *reterr)
{
    int64_t numbers[HW_QUEUE_SETTING_COUNT + 1];

    assert(jobs->queue.id > 0);
    for (size_t i = 0; i < HW_QUEUE_SETTING_COUNT; i++)
        numbers[i] = hw_queue_setting_get(settings, i);
    numbers[HW_QUEUE_SETTING_COUNT] = jobs->queue.id;
    jobs->readied = true; /* a limit may be higher now */
    return hw_sqlite_once(jobs->store, PUT_SQL, numbers, HW_QUEUE_SETTING_COUNT + 1, reterr);
}

/* A queue that was just made has the defaults of its table; what is given replaces them. */
static int queue_put(hw_store *base, hw_str queue, const howdah_queue_options *settings,
                     howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_make_queue(&jobs, queue, reterr);
    if (s >= 0)
        s = put_settings(&jobs, settings, reterr);
    return hw_sqlite_jobs_leave(&jobs, s, reterr);
}

/* NOT_FOUND without the queue. */
static int need_queue(hw_sqlite_jobs *jobs, hw_str queue, howdah_error *reterr)
{
    int s = hw_sqlite_find_queue(jobs, queue, reterr);

    return s == HOWDAH_END ? hw_sqlite_no_queue(queue, reterr) : s;
}

/* A queue that goes on rings: its workers may sleep until a job is due. */
static int queue_pause(hw_store *base, hw_str queue, bool paused, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    s = need_queue(&jobs, queue, reterr);
    if (s >= 0)
        s = hw_sqlite_once(jobs.store, PAUSE_SQL, (int64_t[]){jobs.queue.id, paused}, 2, reterr);
    jobs.readied = !paused;
    return hw_sqlite_jobs_leave(&jobs, s, reterr);
}

/* What remains of a key is leased, so nobody waits for its turn afterwards. */
static int purge(hw_sqlite_jobs *jobs, int64_t *ret_n, howdah_error *reterr)
{
    static const char *const sqls[] = {PURGE_DATA_SQL(READY), PURGE_SQL(READY),
                                       PURGE_DATA_SQL(ASIDE), PURGE_SQL(ASIDE)};
    int64_t numbers[2] = {jobs->queue.id, 0};
    int s = HOWDAH_OK;

    for (int i = 0; s >= 0 && i < 4; i++) {
        s = hw_sqlite_once(jobs->store, sqls[i], numbers, 1, reterr);
        if (s >= 0 && i % 2 == 1)
            numbers[1] += sqlite3_changes64(jobs->store->db);
    }
    *ret_n = numbers[1];
    if (s >= 0)
        s = hw_sqlite_once(jobs->store, PURGED_SQL, numbers, 2, reterr);
    numbers[1] = jobs->now_us;
    return s < 0 ? s : hw_sqlite_once(jobs->store, PURGED_DEAD_LETTERS_SQL, numbers, 2, reterr);
}

/* The number counts only once it is committed. */
static int queue_purge(hw_store *base, hw_str queue, int64_t *ret_n, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int64_t n = 0;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    s = need_queue(&jobs, queue, reterr);
    if (s >= 0)
        s = purge(&jobs, &n, reterr);
    s = hw_sqlite_jobs_leave(&jobs, s, reterr);
    if (s >= 0 && ret_n)
        *ret_n = n;
    return s;
}

/* -------------------------------------------------------------- maintenance */

/* A row of the history that may have to go. */
typedef struct old_job {
    int64_t position;
    int64_t id;
    bool failed;
    int64_t finished_at_us;
} old_job;

/* The oldest of the history after this position that may be removed; HOWDAH_END: none. */
static int find_oldest(hw_sqlite_jobs *jobs, sqlite3_stmt *stmt, int64_t after, old_job *ret_job,
                       howdah_error *reterr)
{
    int s;

    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    (void)sqlite3_bind_int64(stmt, 2, after);
    s = hw_sqlite_step(jobs->store, stmt, "look at history", reterr);
    if (s != HOWDAH_OK)
        return s;
    *ret_job = (old_job){.position = sqlite3_column_int64(stmt, 0),
                         .id = sqlite3_column_int64(stmt, 1),
                         .failed = sqlite3_column_int(stmt, 2) != 0,
                         .finished_at_us = sqlite3_column_int64(stmt, 3)};
    (void)sqlite3_reset(stmt);
    return HOWDAH_OK;
}

/* I1, I2. */
static int remove_history(hw_sqlite_jobs *jobs, int64_t *ret_n, howdah_error *reterr)
{
    int64_t keep_us = jobs->queue.settings.history_ms;
    int64_t removed[3] = {jobs->queue.id, 0, 0}; /* completed, failed */
    sqlite3_stmt *stmt = NULL;
    old_job job = {.position = 0};
    int s;

    assert(jobs->queue.id > 0);
    *ret_n = 0;
    if (keep_us == 0 || keep_us > jobs->now_us / 1000)
        return HOWDAH_OK;
    keep_us = jobs->now_us - keep_us * 1000;
    s = hw_sqlite_prepare(jobs->store, OLDEST_SQL, &stmt, reterr);
    while (s >= 0 && *ret_n < MAINTAIN_MAX) {
        s = find_oldest(jobs, stmt, job.position, &job, reterr);
        if (s != HOWDAH_OK || job.finished_at_us > keep_us)
            break;
        s = hw_sqlite_once(jobs->store, REMOVE_LOG_SQL, &job.position, 1, reterr);
        if (s >= 0)
            s = hw_sqlite_once(jobs->store, REMOVE_DATA_SQL, &job.id, 1, reterr);
        removed[job.failed ? 2 : 1]++;
        (*ret_n)++;
    }
    (void)sqlite3_finalize(stmt);
    if (s >= 0 && *ret_n > 0)
        s = hw_sqlite_once(jobs->store, REMOVED_SQL, removed, 3, reterr);
    return s < 0 ? s : HOWDAH_OK;
}

/* MAINTAIN_MAX of each, so that nobody waits long for the write lock. */
static int maintain(hw_store *base, hw_str queue, bool *ret_more, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int64_t given_back = 0;
    int64_t removed = 0;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_find_queue(&jobs, queue, reterr);
    if (s == HOWDAH_OK) {
        s = hw_sqlite_give_back(&jobs, MAINTAIN_MAX, &given_back, reterr);
        if (s >= 0)
            s = remove_history(&jobs, &removed, reterr);
    }
    s = hw_sqlite_jobs_leave(&jobs, s, reterr);
    if (s >= 0)
        *ret_more = given_back == MAINTAIN_MAX || removed == MAINTAIN_MAX;
    return s < 0 ? s : HOWDAH_OK;
}

/* --------------------------------------------------------------------- jobs */

/* As the PostgreSQL store says it. */
static int no_job(int64_t id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no job %" PRId64, id);
}

/* A worker has it: it has to end it, or its lease has to run out. */
static int is_leased(int64_t id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_CONFLICT, "job %" PRId64 " is under way", id);
}

/* Why a job that is not live cannot be cancelled. */
static int refuse_cancel(hw_sqlite *store, int64_t id, howdah_error *reterr)
{
    int64_t failed = 0;
    int s = find_number(store, OUTCOME_SQL, id, &failed, reterr);

    if (s == HOWDAH_END)
        return no_job(id, reterr);
    return s < 0 ? s
                 : hw_fail(reterr, HOWDAH_CONFLICT, "job %" PRId64 " is over: it has %s", id,
                           failed ? "failed" : "completed");
}

/* The queue is loaded so that its bell can ring: another job of the key may be ready now. */
static int cancel(hw_sqlite_jobs *jobs, int64_t id, hw_str error, howdah_error *reterr)
{
    hw_sqlite_live live = {.id = 0};
    int s = hw_sqlite_look_at_job(jobs, id, &live, reterr);

    if (s == HOWDAH_END)
        return refuse_cancel(jobs->store, id, reterr);
    if (s >= 0 && live.token > 0)
        return is_leased(id, reterr);
    if (s >= 0)
        s = hw_sqlite_load_queue(jobs, live.queue_id, reterr);
    return s < 0 ? s : hw_sqlite_cancel_live(jobs, &live, error, reterr);
}

static int job_cancel(hw_store *base, int64_t id, hw_str reason, howdah_error *reterr)
{
    hw_buf error = HW_BUF_INIT(REASON_BYTES_MAX);
    hw_sqlite_jobs jobs;
    int s;

    hw_buf_puts(&error, reason.s ? "cancelled: " : "cancelled");
    if (reason.s)
        hw_buf_put(&error, reason.s, reason.len);
    s = hw_buf_check(&error, reterr);
    if (s >= 0)
        s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);
    if (s >= 0) {
        s = cancel(&jobs, id, (hw_str){hw_buf_str(&error), error.len}, reterr);
        s = hw_sqlite_jobs_leave(&jobs, s, reterr);
    }
    hw_buf_done(&error);
    return s;
}

/* CONFLICT unless it has failed, has its payload, and nobody has taken its dedup key meanwhile. */
static int check_revival(hw_sqlite *store, int64_t id, howdah_error *reterr)
{
    int64_t number = 0;
    int s = find_number(store, OUTCOME_SQL, id, &number, reterr);

    if (s != HOWDAH_OK)
        return s;
    if (!number)
        return hw_fail(reterr, HOWDAH_CONFLICT, "job %" PRId64 " is over: it has completed", id);
    s = find_number(store, ERASED_SQL, id, &number, reterr);
    if (s == HOWDAH_OK)
        return hw_fail(reterr, HOWDAH_CONFLICT,
                       "job %" PRId64 " cannot be tried again: its event was purged", id);
    if (s < 0)
        return s;
    s = find_number(store, TWIN_SQL, id, &number, reterr);
    if (s == HOWDAH_OK)
        return hw_fail(reterr, HOWDAH_CONFLICT,
                       "job %" PRId64 " cannot be tried again: job %" PRId64 " has its dedup key",
                       id, number);
    return s < 0 ? s : HOWDAH_OK;
}

/*
 * It has all its attempts again, keeps its error and its dead letter, and lines up with its key:
 * the earliest of the key goes first, which it may be.
 */
int hw_sqlite_revive(hw_sqlite_jobs *jobs, int64_t id, howdah_error *reterr)
{
    static const char *const sqls[] = {REVIVE_SQL, FORGET_SQL, REDRIVE_SQL};
    int64_t numbers[] = {id, jobs->now_us};
    hw_sqlite_live live = {.id = 0};
    int s = check_revival(jobs->store, id, reterr);

    if (s != HOWDAH_OK)
        return s;
    for (int i = 0; s >= 0 && i < 3; i++)
        s = hw_sqlite_once(jobs->store, sqls[i], numbers, i == 0 ? 2 : 1, reterr);
    if (s >= 0)
        s = hw_sqlite_end_hold(jobs, id, reterr);
    if (s >= 0)
        s = hw_sqlite_look_at_job(jobs, id, &live, reterr);
    if (s >= 0)
        s = hw_sqlite_load_queue(jobs, live.queue_id, reterr);
    if (s >= 0 && live.keyed)
        s = hw_sqlite_pass_key(jobs, live.queue_id, (hw_str){hw_buf_str(&jobs->key), jobs->key.len},
                               reterr);
    jobs->readied = true;
    return s < 0 ? s : HOWDAH_OK;
}

/* A job that waits is due now; one that is over is revived. */
static int retry(hw_sqlite_jobs *jobs, int64_t id, howdah_error *reterr)
{
    hw_sqlite_live live = {.id = 0};
    int s = hw_sqlite_look_at_job(jobs, id, &live, reterr);

    if (s == HOWDAH_END) {
        s = hw_sqlite_revive(jobs, id, reterr);
        return s == HOWDAH_END ? no_job(id, reterr) : s;
    }
    if (s >= 0 && live.token > 0)
        return is_leased(id, reterr);
    if (s >= 0)
        s = hw_sqlite_load_queue(jobs, live.queue_id, reterr);
    jobs->readied = true;
    return s < 0
               ? s
               : hw_sqlite_once(jobs->store, DUE_NOW_SQL, (int64_t[]){id, jobs->now_us}, 2, reterr);
}

static int job_rerun(hw_store *base, int64_t id, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    return s < 0 ? s : hw_sqlite_jobs_leave(&jobs, retry(&jobs, id, reterr), reterr);
}

const hw_queue_ops hw_sqlite_queue_ops = {
    .push = hw_sqlite_push,
    .exchange = hw_sqlite_exchange,
    .maintain = maintain,
    .queue_put = queue_put,
    .queue_pause = queue_pause,
    .queue_load = hw_sqlite_queue_load,
    .queue_list = hw_sqlite_queue_list,
    .queue_summary = hw_sqlite_queue_summary,
    .queue_purge = queue_purge,
    .job_load = hw_sqlite_job_load,
    .job_cancel = job_cancel,
    .job_rerun = job_rerun,
    .log = hw_sqlite_queue_log,
    .dead_letters_set_state = hw_sqlite_job_dead_letters_set_state,
    .verify = hw_sqlite_queue_verify,
    .bind = hw_sqlite_queue_bind,
    .unbind = hw_sqlite_queue_unbind,
    .bindings = hw_sqlite_queue_bindings,
    .route = hw_sqlite_route,
};
