/*
 * queue_push.c - jobs into a queue.
 *
 *   I1  A push waits for the disk.
 *   I2  A job whose key another one has, or that is on hold, is set aside: hw_sqlite_pass_key()
 *       makes it ready.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define INTERRUPT_EVERY 1024 /* jobs between two looks at the interrupt */

/* I2: ?6 is the key; aside is computed where the row is written, under the write lock. */
#define INSERT_SQL                                                                                 \
    "INSERT INTO main.howdah_jobs (id, queue_id, priority, due_at, max_attempts, key, dedup,"      \
    " aside) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?6 IS NOT NULL AND ("                             \
    " EXISTS (SELECT 1 FROM main.howdah_jobs INDEXED BY howdah_jobs_first"                         \
    "  WHERE queue_id = ?2 AND key = ?6 AND aside = 0)"                                            \
    " OR EXISTS (SELECT 1 FROM main.howdah_key_holds WHERE queue_id = ?2 AND key = ?6)))"
#define INSERT_DATA_SQL                                                                            \
    "INSERT INTO main.howdah_job_data (id, queue_id, created_at, priority, max_attempts,"          \
    " causation_id, key, dedup, correlation_id, content_type, headers, data, bytes)"               \
    " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)"
#define DEDUP_SQL                                                                                  \
    "SELECT id FROM main.howdah_jobs INDEXED BY howdah_jobs_dedup WHERE queue_id = ?1"             \
    " AND dedup = ?2"

/* HOWDAH_END: there is no live job with this dedup key. */
static int find_twin(hw_sqlite_jobs *jobs, hw_str dedup, int64_t *ret_id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_DEDUP, DEDUP_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    hw_sqlite_bind_str(stmt, 2, dedup);
    s = hw_sqlite_step(jobs->store, stmt, "look for a job", reterr);
    if (s == HOWDAH_OK)
        *ret_id = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

/*
 * A time in the past is now: the order of jobs is that of their due times.  None is later than the
 * last time there is.
 */
static int64_t due_at_us(const hw_push *push, int64_t now_us)
{
    if (push->run_at_us != HW_TIME_ABSENT)
        return push->run_at_us > now_us ? push->run_at_us : now_us;
    assert(push->delay_us >= 0);
    return push->delay_us < HW_TIME_MAX_US - now_us ? now_us + push->delay_us : HW_TIME_MAX_US;
}

/* The row that moves: small, because a claim and a verdict write it anew. */
static int insert_job(hw_sqlite_jobs *jobs, const hw_push *push, int64_t id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_INSERT, INSERT_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    (void)sqlite3_bind_int64(stmt, 2, jobs->queue.id);
    (void)sqlite3_bind_int(stmt, 3, push->priority);
    (void)sqlite3_bind_int64(stmt, 4, due_at_us(push, jobs->now_us));
    (void)sqlite3_bind_int(stmt, 5, push->max_attempts);
    hw_sqlite_bind_str(stmt, 6, push->key);
    hw_sqlite_bind_str(stmt, 7, push->dedup);
    s = hw_sqlite_step(jobs->store, stmt, "push", reterr);
    (void)sqlite3_clear_bindings(stmt);
    return s;
}

/* The payload, written once; it stays until history is removed. */
static int insert_data(hw_sqlite_jobs *jobs, const hw_push *push, int64_t id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_DATA_INSERT, INSERT_DATA_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, id);
    (void)sqlite3_bind_int64(stmt, 2, jobs->queue.id);
    (void)sqlite3_bind_int64(stmt, 3, jobs->now_us);
    (void)sqlite3_bind_int(stmt, 4, push->priority);
    (void)sqlite3_bind_int(stmt, 5, push->max_attempts);
    if (push->has_causation)
        hw_sqlite_bind_uuid(stmt, 6, &push->causation_id);
    hw_sqlite_bind_str(stmt, 7, push->key);
    hw_sqlite_bind_str(stmt, 8, push->dedup);
    hw_sqlite_bind_str(stmt, 9, push->correlation_id);
    hw_sqlite_bind_str(stmt, 10, push->content_type);
    hw_sqlite_bind_str(stmt, 11, push->headers);
    if (!push->content_type.s)
        hw_sqlite_bind_str(stmt, 12, push->data);
    else
        (void)sqlite3_bind_blob64(stmt, 13, push->data.s, push->data.len, SQLITE_STATIC);
    s = hw_sqlite_step(jobs->store, stmt, "push", reterr);
    (void)sqlite3_clear_bindings(stmt); /* the texts are the caller's */
    return s;
}

/* A job with the same dedup key is the answer; the new number is left unused. */
static int push_one(hw_sqlite_jobs *jobs, const hw_push *push, int64_t id,
                    howdah_pushed *ret_pushed, howdah_error *reterr)
{
    int s = HOWDAH_END;

    assert(push->data.s);
    *ret_pushed = (howdah_pushed){.id = id};
    if (push->dedup.s)
        s = find_twin(jobs, push->dedup, &ret_pushed->id, reterr);
    if (s != HOWDAH_END) {
        ret_pushed->existed = s == HOWDAH_OK;
        return s;
    }
    s = insert_job(jobs, push, id, reterr);
    if (s >= 0)
        s = insert_data(jobs, push, id, reterr);
    jobs->readied = true;
    return s < 0 ? s : HOWDAH_OK;
}

/* Numbers of jobs that existed already are not used. */
static int push_all(hw_sqlite_jobs *jobs, hw_str queue, const hw_push *list, size_t n,
                    howdah_pushed *ret_pushed, howdah_error *reterr)
{
    int64_t first = 0;
    int s = hw_sqlite_make_queue(jobs, queue, reterr);

    if (s >= 0)
        s = hw_sqlite_draw(jobs->store, "job", (int64_t)n, &first, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++) {
        s = push_one(jobs, &list[i], first + (int64_t)i, &ret_pushed[i], reterr);
        if (s >= 0 && (i + 1) % INTERRUPT_EVERY == 0)
            s = hw_sqlite_check_interrupt(jobs->store, reterr);
    }
    return s;
}

/* All of them, or none: one transaction. */
int hw_sqlite_push(hw_store *base, hw_str queue, const hw_push *list, size_t n,
                   howdah_pushed *ret_pushed, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    s = push_all(&jobs, queue, list, n, ret_pushed, reterr);
    return hw_sqlite_jobs_leave(&jobs, s, reterr);
}
