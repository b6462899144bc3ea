/*
 * queue_ack.c - how a lease ends: by its worker's verdict, or because it ran out.
 *
 *   I1  Whoever acks a job names the token it was claimed with.  A lease that ran out, and that
 *       nobody has given back yet, is still its worker's: the token decides, not the clock.
 *   I2  What ends a job moves it to the history, writes its dead letter and passes its key on, in
 *       one transaction (store/queue.h, I1).
 *   I3  A job whose event was purged while a worker had it can complete.  If it does not, it is
 *       cancelled, as those were that waited: it has no payload that it could be tried again with.
 *   I4  When a job leaves its lease, the earliest of its key is first again: one that was tried
 *       again by an operator may have come in front of it.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/random.h"
#include "engine/backoff.h"
#include "store/sqlite/sqlite.h"

#define ABANDONED_TEXT 128

#define LOG_SQL                                                                                    \
    "INSERT INTO main.howdah_event_log (job_id, queue_id, started_at, finished_at, attempts,"      \
    " failed, worker, error, result)"                                                              \
    " SELECT id, queue_id, started_at, ?2, attempts, ?3, worker, ?4, ?5 FROM main.howdah_jobs"     \
    " WHERE id = ?1"
#define DELETE_SQL "DELETE FROM main.howdah_jobs WHERE id = ?1"
/* ?2 due, ?3 attempts, ?4 is a suspect, ?5 error or NULL */
#define READY_SQL                                                                                  \
    "UPDATE main.howdah_jobs SET token = NULL, lease_until = NULL, lease_ms = NULL, due_at = ?2,"  \
    " attempts = ?3, suspect = max(suspect, ?4), error = coalesce(?5, error) WHERE id = ?1"
#define PURGED_SQL                                                                                 \
    "SELECT 'cancelled: purged: ' || p.reason FROM main.howdah_job_data d"                         \
    " CROSS JOIN main.howdah_events e ON e.global_sequence = d.event_sequence"                     \
    " CROSS JOIN main.howdah_purges p ON p.id = e.purge WHERE d.id = ?1"
#define EXTEND_SQL "UPDATE main.howdah_jobs SET lease_until = ?2 WHERE id = ?1"
#define EXPIRED_SQL                                                                                \
    "SELECT id FROM main.howdah_jobs INDEXED BY howdah_jobs_leased"                                \
    " WHERE queue_id = ?1 AND token IS NOT NULL AND lease_until <= ?2"                             \
    " ORDER BY lease_until, id LIMIT 1"

#define KEY_SQL                                                                                    \
    "SELECT"                                                                                       \
    " (SELECT id FROM main.howdah_jobs INDEXED BY howdah_jobs_first"                               \
    "  WHERE queue_id = ?1 AND key = ?2 AND aside = 0),"                                           \
    " (SELECT token FROM main.howdah_jobs INDEXED BY howdah_jobs_first"                            \
    "  WHERE queue_id = ?1 AND key = ?2 AND aside = 0),"                                           \
    " (SELECT id FROM main.howdah_jobs INDEXED BY howdah_jobs_aside"                               \
    "  WHERE queue_id = ?1 AND key = ?2 AND aside = 1 ORDER BY id LIMIT 1),"                       \
    " EXISTS (SELECT 1 FROM main.howdah_key_holds WHERE queue_id = ?1 AND key = ?2)"
#define ASIDE_SQL "UPDATE main.howdah_jobs SET aside = ?2 WHERE id = ?1"
#define HOLD_SQL                                                                                   \
    "INSERT OR REPLACE INTO main.howdah_key_holds (queue_id, key, job_id) VALUES (?1, ?2, ?3)"
#define HELD_SQL                                                                                   \
    "SELECT d.queue_id, d.key FROM main.howdah_job_data d"                                         \
    " JOIN main.howdah_key_holds h ON h.queue_id = d.queue_id AND h.key = d.key AND h.job_id = "   \
    "d.id"                                                                                         \
    " WHERE d.id = ?1"
#define END_HOLD_SQL "DELETE FROM main.howdah_key_holds WHERE queue_id = ?1 AND key = ?2"

/* A second failure of a job renews its letter. */
#define RENEW_DEAD_LETTER_SQL                                                                      \
    "UPDATE main.howdah_job_dead_letters SET redrives = redrives + (state = 'redrive'),"           \
    " state = 'dead', error = ?2, attempts = attempts + ?3, failed_at = ?4, reason = NULL, "       \
    "resolved_at = NULL, resolved_by = NULL WHERE job_id = ?1"
#define DEAD_LETTER_SQL                                                                            \
    "INSERT INTO main.howdah_job_dead_letters (job_id, error, attempts, created_at, failed_at,"    \
    " queue_id, id) VALUES (?1, ?2, ?3, ?4, ?4, ?5,"                                               \
    " (SELECT seq FROM main.sqlite_sequence WHERE name = 'howdah_dead_letters'))"
#define NEXT_DEAD_LETTER_SQL                                                                       \
    "UPDATE main.sqlite_sequence SET seq = seq + 1 WHERE name = 'howdah_dead_letters'"
#define FIRST_DEAD_LETTER_SQL                                                                      \
    "INSERT INTO main.sqlite_sequence (name, seq) VALUES ('howdah_dead_letters', 1)"

/* --------------------------------------------------------------------- keys */

/* Who is first of a key, and who could be; 0: nobody. */
typedef struct contest {
    int64_t first;
    int64_t token; /* of the first */
    int64_t waiting;
    bool held;
} contest;

/* Always one row: its columns are NULL, which reads as 0, where there is nobody. */
static int look_at_key(hw_sqlite *store, int64_t queue_id, hw_str key, contest *ret_contest,
                       howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_KEY_LOOK, KEY_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, queue_id);
    hw_sqlite_bind_str(stmt, 2, key);
    s = hw_sqlite_step(store, stmt, "look at a key", reterr);
    if (s == HOWDAH_OK)
        *ret_contest = (contest){.first = sqlite3_column_int64(stmt, 0),
                                 .token = sqlite3_column_int64(stmt, 1),
                                 .waiting = sqlite3_column_int64(stmt, 2),
                                 .held = sqlite3_column_int(stmt, 3) != 0};
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

static int set_aside(hw_sqlite *store, int64_t id, bool aside, howdah_error *reterr)
{
    return hw_sqlite_run_numbers(store, HW_SLOT_KEY_ASIDE, ASIDE_SQL, (int64_t[]){id, aside}, 2,
                                 reterr);
}

/*
 * The earliest job of a key is its first, unless the key is on hold or its first is leased: a
 * worker that has it keeps it.
 */
int hw_sqlite_pass_key(hw_sqlite_jobs *jobs, int64_t queue_id, hw_str key, howdah_error *reterr)
{
    contest c = {.first = 0};
    int s = look_at_key(jobs->store, queue_id, key, &c, reterr);

    if (s < 0 || c.token > 0 || c.held || c.waiting == 0 || (c.first > 0 && c.first < c.waiting))
        return s;
    if (c.first > 0)
        s = set_aside(jobs->store, c.first, true, reterr);
    if (s >= 0)
        s = set_aside(jobs->store, c.waiting, false, reterr);
    jobs->readied = true;
    return s;
}

/* The key of the job that was looked at last. */
static hw_str key_of(const hw_sqlite_jobs *jobs)
{
    return (hw_str){hw_buf_str(&jobs->key), jobs->key.len};
}

/* Jobs without a key have nobody who waits for them. */
static int pass_key_of(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, howdah_error *reterr)
{
    return live->keyed ? hw_sqlite_pass_key(jobs, live->queue_id, key_of(jobs), reterr) : HOWDAH_OK;
}

/* A queue with hold_key: others of this key wait until the dead letter is resolved. */
static int hold_key(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, HOLD_SQL, &stmt, reterr);

    assert(live->keyed);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, live->queue_id);
    hw_sqlite_bind_str(stmt, 2, key_of(jobs));
    (void)sqlite3_bind_int64(stmt, 3, live->id);
    return hw_sqlite_finish(jobs->store, stmt, "hold a key", reterr);
}

/* Nothing happens when this job holds no key. */
int hw_sqlite_end_hold(hw_sqlite_jobs *jobs, int64_t job_id, howdah_error *reterr)
{
    sqlite3_stmt *held = NULL;
    sqlite3_stmt *end = NULL;
    int s = hw_sqlite_prepare(jobs->store, HELD_SQL, &held, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(held, 1, job_id);
    s = hw_sqlite_step(jobs->store, held, "look for a hold", reterr);
    if (s == HOWDAH_OK)
        s = hw_sqlite_prepare(jobs->store, END_HOLD_SQL, &end, reterr);
    if (s == HOWDAH_OK) {
        int64_t queue_id = sqlite3_column_int64(held, 0);
        hw_str key = hw_sqlite_borrow(held, 1);

        (void)sqlite3_bind_int64(end, 1, queue_id);
        hw_sqlite_bind_str(end, 2, key);
        s = hw_sqlite_finish(jobs->store, end, "end a hold", reterr);
        if (s >= 0)
            s = hw_sqlite_pass_key(jobs, queue_id, key, reterr);
    }
    (void)sqlite3_finalize(held);
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------ into history */

/* Takes the job out of howdah_jobs, and into the history. */
static int end_job(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, bool failed, hw_str error,
                   hw_str result, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_LOG, LOG_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, live->id);
    (void)sqlite3_bind_int64(stmt, 2, jobs->now_us);
    (void)sqlite3_bind_int(stmt, 3, failed);
    hw_sqlite_bind_str(stmt, 4, error);
    hw_sqlite_bind_str(stmt, 5, result);
    s = hw_sqlite_step(jobs->store, stmt, "end a job", reterr);
    (void)sqlite3_clear_bindings(stmt);
    assert(s < 0 || sqlite3_changes(jobs->store->db) == 1);
    if (s >= 0)
        s = hw_sqlite_run_numbers(jobs->store, HW_SLOT_JOB_DELETE, DELETE_SQL, &live->id, 1,
                                  reterr);
    jobs->failed = jobs->failed || failed;
    return s;
}

/* With or without the queue's id, which is its fifth parameter. */
static int write_dead_letter(hw_sqlite_jobs *jobs, const char *sql, const hw_sqlite_live *live,
                             hw_str error, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, sql, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, live->id);
    hw_sqlite_bind_str(stmt, 2, error);
    (void)sqlite3_bind_int64(stmt, 3, live->attempts);
    (void)sqlite3_bind_int64(stmt, 4, jobs->now_us);
    if (sqlite3_bind_parameter_count(stmt) >= 5)
        (void)sqlite3_bind_int64(stmt, 5, live->queue_id);
    return hw_sqlite_finish(jobs->store, stmt, "store a dead letter", reterr);
}

/*
 * Dead letters of jobs and of subscriptions share one sequence of ids, so that an id names one.
 * SQLite keeps it for the other table; here it is moved on by hand.
 */
static int put_dead_letter(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str error,
                           howdah_error *reterr)
{
    hw_sqlite *store = jobs->store;
    int s = write_dead_letter(jobs, RENEW_DEAD_LETTER_SQL, live, error, reterr);

    if (s < 0 || sqlite3_changes(store->db) > 0)
        return s;
    s = hw_sqlite_once(store, NEXT_DEAD_LETTER_SQL, NULL, 0, reterr);
    if (s >= 0 && sqlite3_changes(store->db) == 0)
        s = hw_sqlite_once(store, FIRST_DEAD_LETTER_SQL, NULL, 0, reterr);
    return s < 0 ? s : write_dead_letter(jobs, DEAD_LETTER_SQL, live, error, reterr);
}

/* FAILED with a letter.  jobs->queue is the job's. */
static int fail_job(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str error,
                    howdah_error *reterr)
{
    int s = end_job(jobs, live, true, error, HW_STR_NULL, reterr);

    assert(jobs->queue.id == live->queue_id);
    if (s >= 0)
        s = put_dead_letter(jobs, live, error, reterr);
    if (s >= 0 && live->keyed && jobs->queue.settings.hold_key)
        s = hold_key(jobs, live, reterr);
    return s < 0 ? s : pass_key_of(jobs, live, reterr);
}

/* An operator tried it again because of a dead letter: that is resolved now. */
static int complete_job(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str result,
                        howdah_error *reterr)
{
    int s = end_job(jobs, live, false, HW_STR_NULL, result, reterr);

    if (s >= 0 && live->dead_letter > 0)
        s = hw_sqlite_dead_letter_redriven(jobs, live, reterr);
    return s < 0 ? s : pass_key_of(jobs, live, reterr);
}

/* FAILED, but without a dead letter: nobody has to see to it. */
int hw_sqlite_cancel_live(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, hw_str error,
                          howdah_error *reterr)
{
    int s = end_job(jobs, live, true, error, HW_STR_NULL, reterr);

    if (s >= 0 && live->dead_letter > 0)
        s = hw_sqlite_dead_letter_cancelled(jobs, live, error, reterr);
    return s < 0 ? s : pass_key_of(jobs, live, reterr);
}

/* I3.  HOWDAH_END: its event was not purged, nothing was done. */
static int end_if_purged(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_PURGED, PURGED_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, live->id);
    s = hw_sqlite_step(jobs->store, stmt, "look for a purge", reterr);
    if (s == HOWDAH_OK)
        s = hw_sqlite_cancel_live(jobs, live, hw_sqlite_borrow(stmt, 0), reterr);
    (void)sqlite3_reset(stmt);
    return s;
}

/* ------------------------------------------------------------- ready again */

/* How a job becomes ready again. */
typedef struct comeback {
    int64_t due_at_us;
    int64_t attempts;
    bool suspect;
    hw_str error; /* absent: the one before stays */
} comeback;

static int make_ready(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, const comeback *c,
                      howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_READY, READY_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, live->id);
    (void)sqlite3_bind_int64(stmt, 2, c->due_at_us);
    (void)sqlite3_bind_int64(stmt, 3, c->attempts);
    (void)sqlite3_bind_int(stmt, 4, c->suspect);
    hw_sqlite_bind_str(stmt, 5, c->error);
    s = hw_sqlite_step(jobs->store, stmt, "give a job back", reterr);
    (void)sqlite3_clear_bindings(stmt);
    if (c->due_at_us <= jobs->now_us)
        jobs->readied = true;
    return s < 0 ? s : pass_key_of(jobs, live, reterr); /* I4 */
}

/* A job's own number goes before the queue's. */
static int64_t max_attempts_of(const hw_sqlite_jobs *jobs, const hw_sqlite_live *live)
{
    assert(jobs->queue.id == live->queue_id);
    return live->max_attempts > 0 ? live->max_attempts : jobs->queue.settings.max_attempts;
}

/* The pause that the worker asked for, or the queue's back-off for this attempt. */
static int64_t retry_after_ms(const hw_sqlite_jobs *jobs, const hw_sqlite_live *live,
                              int64_t after_ms)
{
    const howdah_queue_options *q = &jobs->queue.settings;

    if (after_ms != HOWDAH_AFTER_BACKOFF)
        return after_ms;
    return hw_backoff_ms(q->backoff_initial_ms, q->backoff_max_ms,
                         live->attempts > 1 ? (unsigned)(live->attempts - 1) : 0,
                         (unsigned)q->backoff_jitter, hw_random_u32());
}

/* FAILED when no attempt is left: the worker is told so. */
static int retry_job(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, const hw_ack *ack,
                     howdah_ack_outcome *ret_acked, howdah_error *reterr)
{
    comeback c = {.attempts = live->attempts, .error = ack->text};

    if (live->attempts >= max_attempts_of(jobs, live)) {
        *ret_acked = HOWDAH_ACKED_FAILED;
        return fail_job(jobs, live, ack->text, reterr);
    }
    c.due_at_us = hw_sqlite_later_us(jobs->now_us, retry_after_ms(jobs, live, ack->after_ms));
    return make_ready(jobs, live, &c, reterr);
}

/* The worker gives it back unrun, so the attempt that the claim counted is taken back. */
static int release_job(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, howdah_error *reterr)
{
    comeback c = {.attempts = live->attempts > 0 ? live->attempts - 1 : 0,
                  .due_at_us = jobs->now_us};

    return make_ready(jobs, live, &c, reterr);
}

/* From now on, by the lease that was asked for or else by that of the claim. */
static int extend_job(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, int64_t after_ms,
                      howdah_error *reterr)
{
    int64_t ms = after_ms > 0 ? after_ms : live->lease_ms;
    int64_t numbers[] = {live->id, hw_sqlite_later_us(jobs->now_us, ms)};

    return hw_sqlite_run_numbers(jobs->store, HW_SLOT_JOB_EXTEND, EXTEND_SQL, numbers, 2, reterr);
}

/* --------------------------------------------------------------- a verdict */

/* I3: a verdict that would keep the job, or fail it, first looks for a purge. */
static int carry_out(hw_sqlite_jobs *jobs, const hw_sqlite_live *live, const hw_ack *ack,
                     howdah_ack_outcome *ret_acked, howdah_error *reterr)
{
    bool goes_on = ack->verdict == HOWDAH_VERDICT_RETRY || ack->verdict == HOWDAH_VERDICT_RELEASE;

    if (goes_on || ack->verdict == HOWDAH_VERDICT_FAIL) {
        int s = end_if_purged(jobs, live, reterr);

        if (s == HOWDAH_OK && goes_on)
            *ret_acked = HOWDAH_ACKED_FAILED;
        if (s != HOWDAH_END)
            return s;
    }
    switch (ack->verdict) {
    case HOWDAH_VERDICT_COMPLETE:
        return complete_job(jobs, live, ack->text, reterr);
    case HOWDAH_VERDICT_FAIL:
        return fail_job(jobs, live, ack->text, reterr);
    case HOWDAH_VERDICT_RETRY:
        return retry_job(jobs, live, ack, ret_acked, reterr);
    case HOWDAH_VERDICT_RELEASE:
        return release_job(jobs, live, reterr);
    case HOWDAH_VERDICT_EXTEND:
        return extend_job(jobs, live, ack->after_ms, reterr);
    }
    return hw_fail(reterr, HOWDAH_MISUSE, "there is no verdict %d", (int)ack->verdict);
}

/* A job that is gone, or has another token, is LOST and stays as it is (I1). */
int hw_sqlite_ack_job(hw_sqlite_jobs *jobs, const hw_ack *ack, howdah_ack_outcome *ret_acked,
                      howdah_error *reterr)
{
    hw_sqlite_live live = {.id = 0};
    int s = hw_sqlite_look_at_job(jobs, ack->id, &live, reterr);

    *ret_acked = HOWDAH_ACKED_LOST;
    if (s < 0)
        return s;
    if (s == HOWDAH_END || ack->token <= 0 || live.token != ack->token)
        return HOWDAH_OK;
    *ret_acked = HOWDAH_ACKED_DONE;
    s = hw_sqlite_load_queue(jobs, live.queue_id, reterr);
    if (s < 0)
        return s;
    /* Another one may run in its place. */
    if (jobs->queue.settings.concurrency > 0 && ack->verdict != HOWDAH_VERDICT_EXTEND)
        jobs->readied = true;
    return carry_out(jobs, &live, ack, ret_acked, reterr);
}

/* ----------------------------------------------------- leases that ran out */

/* "5 s" when it is so many seconds, else "50 ms". */
static hw_str say_abandoned(char text[ABANDONED_TEXT], const hw_sqlite_live *live, int64_t max)
{
    bool whole = live->lease_ms % 1000 == 0;
    int len = snprintf(text, ABANDONED_TEXT,
                       "abandoned: its worker did not answer for %" PRId64 " %s (attempt %" PRId64
                       " of %" PRId64 ")",
                       whole ? live->lease_ms / 1000 : live->lease_ms, whole ? "s" : "ms",
                       live->attempts, max);

    assert(len > 0 && len < ABANDONED_TEXT);
    return (hw_str){text, (size_t)len};
}

/* One of jobs->queue. */
static int abandon(hw_sqlite_jobs *jobs, int64_t id, howdah_error *reterr)
{
    hw_sqlite_live live = {.id = 0};
    char text[ABANDONED_TEXT];
    comeback c;
    int64_t max;
    int s = hw_sqlite_look_at_job(jobs, id, &live, reterr);

    assert(s != HOWDAH_END);
    if (s >= 0)
        s = end_if_purged(jobs, &live, reterr);
    if (s != HOWDAH_END)
        return s;
    max = max_attempts_of(jobs, &live);
    c = (comeback){.due_at_us = jobs->now_us,
                   .attempts = live.attempts,
                   .suspect = true,
                   .error = say_abandoned(text, &live, max)};
    return live.attempts >= max ? fail_job(jobs, &live, c.error, reterr)
                                : make_ready(jobs, &live, &c, reterr);
}

/* One by one, from the lease that ran out first, so many at most: a transaction stays short. */
int hw_sqlite_give_back(hw_sqlite_jobs *jobs, int64_t max, int64_t *ret_n, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int64_t n = 0;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_EXPIRED, EXPIRED_SQL, &stmt, reterr);

    while (s >= 0 && n < max) {
        (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
        (void)sqlite3_bind_int64(stmt, 2, jobs->now_us);
        s = hw_sqlite_step(jobs->store, stmt, "look for leases that ran out", reterr);
        if (s == HOWDAH_END)
            break;
        if (s >= 0) {
            int64_t id = sqlite3_column_int64(stmt, 0);

            /* The statement must not see what is changed under it: it starts anew. */
            (void)sqlite3_reset(stmt);
            s = abandon(jobs, id, reterr);
            n++;
        }
    }
    *ret_n = n;
    return s < 0 ? s : HOWDAH_OK;
}
