/*
 * queue_exchange.c - a worker's round trip: verdicts on the jobs it had (queue_ack.c), and a claim.
 *
 *   I1  An exchange in which a job has FAILED waits for the disk.  Others do not: a power cut can
 *       undo them, and their jobs run again.  Whether one has to wait is known only at its end, and
 *       cannot be changed by then: it is rolled back and made anew.
 *   I2  A claim goes through the priorities one by one and reads what is due from the front of
 *       each, however many jobs come after: scheduled ones, leased ones, jobs set aside.
 *   I3  A claim hands its jobs over after its commit.  Until then they are copied, so many bytes of
 *       them at most; what does not fit is left for the next claim.
 *   I4  A suspect goes alone, before the others of its priority and after all that are more
 *       urgent.
 *   I5  Leases that ran out are given back by every claim: to find none is one look into an index.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define GIVE_BACK_MAX 1000
#define CLAIM_BYTES_MAX (4 * 1024 * 1024)

/* The next priority after ?2, and when the first job of it is due. */
#define LEVEL_SQL                                                                                  \
    "SELECT priority, due_at FROM main.howdah_jobs INDEXED BY howdah_jobs_ready"                   \
    " WHERE queue_id = ?1 AND priority > ?2 AND token IS NULL AND aside = 0"                       \
    " ORDER BY priority, due_at LIMIT 1"
/* ?1 queue, ?2 priority, ?3 now, ?4 how many, ?5 and ?6 the queue's name and attempts */
#define DUE_SQL                                                                                    \
    "SELECT" HW_SQLITE_LIVE_COLUMNS(                                                               \
        "?5",                                                                                      \
        "?6") " FROM main.howdah_jobs j INDEXED BY howdah_jobs_ready"                              \
              " CROSS JOIN main.howdah_job_data d ON d.id = j.id" HW_SQLITE_JOIN_EVENT             \
              " WHERE j.queue_id = ?1 AND j.priority = ?2 AND j.token IS NULL AND j.aside = 0"     \
              " AND j.due_at <= ?3 ORDER BY j.due_at, j.id LIMIT ?4"
#define CLAIM_SQL                                                                                  \
    "UPDATE main.howdah_jobs SET token = ?2, started_at = ?3, lease_until = ?4, lease_ms = ?5,"    \
    " worker = ?6, attempts = attempts + 1 WHERE id = ?1"
#define LEASES_SQL                                                                                 \
    "SELECT min(lease_until) FROM main.howdah_jobs INDEXED BY howdah_jobs_leased"                  \
    " WHERE queue_id = ?1 AND token IS NOT NULL"
#define COUNT_SQL                                                                                  \
    "SELECT count(*) FROM main.howdah_jobs INDEXED BY howdah_jobs_leased"                          \
    " WHERE queue_id = ?1 AND token IS NOT NULL"

/* -------------------------------------------------------------------- claim */

/* A copy of a job (I3), and the block that its texts lie in. */
typedef struct claimed {
    howdah_job job;
    char *texts;
} claimed;

/* A claim on its way. */
typedef struct claiming {
    hw_sqlite_jobs *jobs;
    const hw_claim *claim;
    claimed *list;
    size_t n;
    size_t room;
    size_t bytes;
    int64_t want;
    bool over; /* nothing can be added: a suspect goes alone, or there are bytes enough */
} claiming;

/* The list itself stays: a second try uses it again. */
static void drop_claimed(claiming *c)
{
    for (size_t i = 0; i < c->n; i++)
        hw_free(c->list[i].texts);
    c->n = 0;
    c->bytes = 0;
}

/* Doubling: a claim of one job should not pay for 10,000. */
static bool make_room(claiming *c)
{
    size_t room = c->room > 0 ? 2 * c->room : 16;
    claimed *list;

    assert(c->n <= c->room);
    if (c->n < c->room)
        return true;
    list = hw_realloc(c->list, room * sizeof *list);
    if (!list)
        return false;
    c->list = list;
    c->room = room;
    return true;
}

/* Gives up those that were chosen with this priority, the last ones: a suspect comes first. */
static void drop_priority(claiming *c, int32_t priority)
{
    while (c->n > 0 && c->list[c->n - 1].job.priority == priority)
        hw_free(c->list[--c->n].texts);
}

/* Adds the statement's row (I4). */
static int choose(claiming *c, sqlite3_stmt *stmt, howdah_error *reterr)
{
    claimed one = {.texts = NULL};
    size_t bytes = 0;
    int s = hw_sqlite_take_job(c->jobs->store, stmt, c->jobs->now_us, &one.job, &one.texts, &bytes,
                               reterr);

    if (s < 0)
        return s;
    if (one.job.suspect)
        drop_priority(c, one.job.priority);
    c->over = one.job.suspect && c->n > 0;
    if (c->over || !make_room(c)) {
        hw_free(one.texts);
        return c->over ? HOWDAH_OK : hw_fail_no_memory(reterr);
    }
    c->list[c->n++] = one;
    c->bytes += bytes;
    assert((int64_t)c->n <= c->want);
    c->over = one.job.suspect || c->bytes >= CLAIM_BYTES_MAX;
    return HOWDAH_OK;
}

/* The statement ends when there is enough; that it was not read to its end does not matter. */
static int choose_of_level(claiming *c, int64_t priority, howdah_error *reterr)
{
    hw_sqlite *store = c->jobs->store;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, HW_SLOT_JOB_DUE, DUE_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, c->jobs->queue.id);
    (void)sqlite3_bind_int64(stmt, 2, priority);
    (void)sqlite3_bind_int64(stmt, 3, c->jobs->now_us);
    (void)sqlite3_bind_int64(stmt, 4, c->want - (int64_t)c->n);
    hw_sqlite_bind_str(stmt, 5, c->claim->queue);
    (void)sqlite3_bind_int64(stmt, 6, c->jobs->queue.settings.max_attempts);
    while (!c->over && (s = hw_sqlite_step(store, stmt, "claim", reterr)) == HOWDAH_OK) {
        s = choose(c, stmt, reterr);
        if (s < 0)
            break;
    }
    (void)sqlite3_reset(stmt);
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* The first priority after the one given, and when its first job is due; HOWDAH_END: none. */
static int next_level(hw_sqlite_jobs *jobs, int64_t *priority, int64_t *ret_due_us,
                      howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_LEVEL, LEVEL_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    (void)sqlite3_bind_int64(stmt, 2, *priority);
    s = hw_sqlite_step(jobs->store, stmt, "claim", reterr);
    if (s == HOWDAH_OK) {
        assert(sqlite3_column_int64(stmt, 0) > *priority); /* so that it ends */
        *priority = sqlite3_column_int64(stmt, 0);
        *ret_due_us = sqlite3_column_int64(stmt, 1);
        (void)sqlite3_reset(stmt);
    }
    return s;
}

/* I2. */
static int choose_jobs(claiming *c, howdah_error *reterr)
{
    int64_t priority = INT64_MIN;
    int64_t due_us = 0;
    int s = HOWDAH_OK;

    while (!c->over && (int64_t)c->n < c->want) {
        s = next_level(c->jobs, &priority, &due_us, reterr);
        if (s == HOWDAH_OK && due_us <= c->jobs->now_us)
            s = choose_of_level(c, priority, reterr);
        if (s != HOWDAH_OK)
            break;
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* Marks what was chosen as leased, and says so in the copies. */
static int lease_jobs(claiming *c, howdah_error *reterr)
{
    const hw_claim *claim = c->claim;
    hw_sqlite_jobs *jobs = c->jobs;
    int64_t lease_ms =
        claim->lease_ms > 0 ? claim->lease_ms : jobs->queue.settings.abandon_after_ms;
    int64_t until_us = hw_sqlite_later_us(jobs->now_us, lease_ms);
    int64_t token = 0;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_draw(jobs->store, "token", 1, &token, reterr);

    assert(c->n > 0 && (s < 0 || token > 0));
    if (s >= 0)
        s = hw_sqlite_stmt(jobs->store, HW_SLOT_JOB_CLAIM, CLAIM_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 2, token);
    (void)sqlite3_bind_int64(stmt, 3, jobs->now_us);
    (void)sqlite3_bind_int64(stmt, 4, until_us);
    (void)sqlite3_bind_int64(stmt, 5, lease_ms);
    hw_sqlite_bind_str(stmt, 6, claim->worker);
    for (size_t i = 0; s >= 0 && i < c->n; i++) {
        howdah_job *job = &c->list[i].job;

        (void)sqlite3_bind_int64(stmt, 1, job->id);
        s = hw_sqlite_step(jobs->store, stmt, "claim", reterr);
        job->token = token;
        job->state = HOWDAH_JOB_PROCESSING;
        job->attempts++;
        job->started_at_us = jobs->now_us;
        job->lease_until_us = until_us;
        job->worker = claim->worker;
    }
    (void)sqlite3_clear_bindings(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* How many are leased, or when the first lease ends; otherwise when there is none. */
static int ask_leases(hw_sqlite_jobs *jobs, hw_sqlite_slot slot, const char *sql, int64_t otherwise,
                      int64_t *ret_value, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, slot, sql, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    s = hw_sqlite_step(jobs->store, stmt, "look at leases", reterr);
    *ret_value = s == HOWDAH_OK && sqlite3_column_type(stmt, 0) != SQLITE_NULL
                     ? sqlite3_column_int64(stmt, 0)
                     : otherwise;
    (void)sqlite3_reset(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* How many more may be leased. */
static int count_room(hw_sqlite_jobs *jobs, int64_t *ret_room, howdah_error *reterr)
{
    int64_t limit = jobs->queue.settings.concurrency;
    int64_t leased = 0;
    int s = HOWDAH_OK;

    if (limit > 0)
        s = ask_leases(jobs, HW_SLOT_JOB_COUNT, COUNT_SQL, 0, &leased, reterr);
    *ret_room = jobs->queue.paused ? 0
                : limit == 0       ? INT64_MAX
                : limit > leased   ? limit - leased
                                   : 0;
    return s;
}

/* When the first job that nobody has is due. */
static int first_due(hw_sqlite_jobs *jobs, int64_t *ret_us, howdah_error *reterr)
{
    int64_t priority = INT64_MIN;
    int64_t due_us = 0;
    int s;

    *ret_us = INT64_MAX;
    while ((s = next_level(jobs, &priority, &due_us, reterr)) == HOWDAH_OK &&
           *ret_us > jobs->now_us)
        if (due_us < *ret_us)
            *ret_us = due_us;
    return s < 0 ? s : HOWDAH_OK;
}

/* What a claim says beside its jobs.  Where none can be claimed, only leases matter. */
static int report_claim(claiming *c, int64_t room, hw_claim_report *report, howdah_error *reterr)
{
    hw_sqlite_jobs *jobs = c->jobs;
    int64_t now_us = jobs->now_us;
    int64_t due_us = INT64_MAX;
    int64_t lease_us = INT64_MAX;
    int s = HOWDAH_OK;

    if ((int64_t)c->n < room)
        s = first_due(jobs, &due_us, reterr);
    if (s >= 0)
        s = ask_leases(jobs, HW_SLOT_JOB_LEASES, LEASES_SQL, INT64_MAX, &lease_us, reterr);
    report->n = (int64_t)c->n;
    report->paused = jobs->queue.paused;
    report->queue_id = jobs->queue.id;
    report->more = due_us <= now_us;
    due_us = due_us < lease_us ? due_us : lease_us;
    /* Rounded up: who waits so long does not come too early. */
    report->next_due_ms = due_us == INT64_MAX ? -1
                          : due_us <= now_us  ? 0
                                              : (due_us - now_us - 1) / 1000 + 1;
    return s;
}

/*
 * A queue that does not exist is empty.  Leases that ran out come first (I5): their jobs may be
 * claimed at once.
 */
static int claim_jobs(claiming *c, hw_claim_report *report, howdah_error *reterr)
{
    int64_t given_back = 0;
    int64_t room = 0;
    int s = hw_sqlite_find_queue(c->jobs, c->claim->queue, reterr);

    if (s != HOWDAH_OK)
        return s < 0 ? s : HOWDAH_OK;
    s = hw_sqlite_give_back(c->jobs, GIVE_BACK_MAX, &given_back, reterr);
    if (s >= 0)
        s = count_room(c->jobs, &room, reterr);
    c->want = c->claim->n < room ? c->claim->n : room;
    if (s >= 0)
        s = choose_jobs(c, reterr);
    if (s >= 0 && c->n > 0)
        s = lease_jobs(c, reterr);
    return s < 0 ? s : report_claim(c, room, report, reterr);
}

/* ----------------------------------------------------------------- exchange */

/* What was asked, and where the answers go. */
typedef struct exchange {
    const hw_ack *acks;
    size_t n;
    howdah_ack_outcome *acked;
    const hw_claim *claim;
    hw_claim_report report;
} exchange;

/* All that happens inside the transaction. */
static int run_exchange(exchange *t, claiming *c, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < t->n; i++)
        s = hw_sqlite_ack_job(c->jobs, &t->acks[i], &t->acked[i], reterr);
    if (s >= 0 && t->claim)
        s = claim_jobs(c, &t->report, reterr);
    /* What this exchange has made ready it has taken itself, but for what it left. */
    c->jobs->readied = c->jobs->readied && (!t->claim || t->report.more);
    return s;
}

/* HOWDAH_END: a job has failed, and the commit would not wait for the disk (I1). */
static int try_exchange(hw_sqlite *store, exchange *t, bool synced, claiming *c,
                        howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, store, synced, reterr);
    bool again;

    if (s < 0)
        return s;
    *c = (claiming){.jobs = &jobs, .claim = t->claim, .list = c->list, .room = c->room};
    t->report = (hw_claim_report){.next_due_ms = -1};
    s = run_exchange(t, c, reterr);
    again = s >= 0 && jobs.failed && store->unsynced;
    s = hw_sqlite_jobs_leave(&jobs, again ? HOWDAH_FAILED : s, reterr);
    c->jobs = NULL;
    if (again)
        drop_claimed(c);
    return again ? HOWDAH_END : s;
}

/* Only FAIL is known beforehand; a RETRY may fail as well, and then I1 costs a second try. */
static bool has_failure(const hw_ack *acks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (acks[i].verdict == HOWDAH_VERDICT_FAIL)
            return true;
    return false;
}

/* fn runs after the commit, outside of any transaction (I3). */
int hw_sqlite_exchange(hw_store *base, const hw_ack *acks, size_t n, howdah_ack_outcome *ret_acked,
                       const hw_claim *claim, hw_job_fn fn, void *ctx, hw_claim_report *ret_report,
                       howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    exchange t = {.acks = acks, .n = n, .claim = claim};
    claiming c = {.list = NULL};
    int s;

    assert(!claim || (claim->n >= 1 && claim->n <= HOWDAH_JOBS_MAX));
    t.acked = ret_acked;
    s = try_exchange(store, &t, has_failure(acks, n), &c, reterr);
    if (s == HOWDAH_END)
        s = try_exchange(store, &t, true, &c, reterr);
    if (s >= 0 && ret_report)
        *ret_report = t.report;
    for (size_t i = 0; s >= 0 && i < c.n && fn(ctx, &c.list[i].job) == 0;)
        i++;
    drop_claimed(&c);
    hw_free(c.list);
    return s;
}
