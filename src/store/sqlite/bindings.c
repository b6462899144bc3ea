/*
 * bindings.c - bindings on SQLite, and the router's page.
 *
 *   I1  A page of events becomes jobs in the transaction that moves the router's checkpoint, which
 *       goes first: with another token there is nothing to undo.
 *   I2  Payloads are not copied: a job names its event (queue_read.c, HW_SQLITE_DATA_COLUMNS).
 *   I3  Its commit does not wait for the disk: what a power cut undoes is routed anew.
 */
#include <assert.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define FIND_SQL "SELECT key_from FROM main.howdah_bindings WHERE queue_id = ?1 AND pattern = ?2"
#define TAKEN_SQL "SELECT 1 FROM main.howdah_subscriptions WHERE subscriber_id = ?1"
#define BIND_SQL                                                                                   \
    "INSERT INTO main.howdah_bindings (queue_id, pattern, key_from, subscriber_id, created_at)"    \
    " VALUES (?1, ?2, ?3, ?4, ?5)"
#define UNBIND_SQL                                                                                 \
    "DELETE FROM main.howdah_bindings WHERE queue_id = ?1 AND pattern = ?2 RETURNING "             \
    "subscriber_id"
/* ?1 the queue or NULL, after (?2, ?3), ?4 limit */
#define BINDINGS_SQL                                                                               \
    "SELECT q.name, b.pattern, b.key_from, b.subscriber_id, b.created_at, coalesce(s.high, 0),"    \
    " s.outstanding, coalesce(s.status, 'active'), s.reason, s.owner FROM main.howdah_bindings b"  \
    " JOIN main.howdah_queues q ON q.queue_id = b.queue_id"                                        \
    " LEFT JOIN main.howdah_subscriptions s ON s.subscriber_id = b.subscriber_id"                  \
    " WHERE (?1 IS NULL OR q.name = ?1) AND (q.name, b.pattern) > (?2, ?3)"                        \
    " ORDER BY q.name, b.pattern LIMIT ?4"

/* ?1 the event, ?2 id, ?3 queue, ?4 now, ?5 the kind of key */
#define ROUTED_KEY "CASE ?5 WHEN 0 THEN e.stream WHEN 1 THEN e.correlation_id END"
#define ROUTE_DATA_SQL                                                                             \
    "INSERT INTO main.howdah_job_data (id, queue_id, created_at, priority, max_attempts,"          \
    " event_sequence, causation_id, key, correlation_id) SELECT ?2, ?3, ?4, 0, 0,"                 \
    " e.global_sequence, e.id, " ROUTED_KEY ", e.correlation_id FROM main.howdah_events e"         \
    " WHERE e.global_sequence = ?1 RETURNING id"
/* As a push would make it, with the key of the row above. */
#define ROUTE_SQL                                                                                  \
    "INSERT INTO main.howdah_jobs (id, queue_id, priority, due_at, key, aside)"                    \
    " SELECT d.id, d.queue_id, 0, d.created_at, d.key, d.key IS NOT NULL AND ("                    \
    " EXISTS (SELECT 1 FROM main.howdah_jobs j INDEXED BY howdah_jobs_first"                       \
    "  WHERE j.queue_id = d.queue_id AND j.key = d.key AND j.aside = 0)"                           \
    " OR EXISTS (SELECT 1 FROM main.howdah_key_holds h WHERE h.queue_id = d.queue_id"              \
    "  AND h.key = d.key)) FROM main.howdah_job_data d WHERE d.id = ?1"

static const char *const key_names[] = {[HOWDAH_KEY_STREAM] = "stream",
                                        [HOWDAH_KEY_CORRELATION] = "correlation",
                                        [HOWDAH_KEY_NONE] = "none"};

static howdah_binding_key key_of(hw_str name)
{
    for (int i = HOWDAH_KEY_STREAM; i < HOWDAH_KEY_NONE; i++)
        if (hw_str_equal(name, hw_str_of(key_names[i])))
            return (howdah_binding_key)i;
    return HOWDAH_KEY_NONE;
}

/* --------------------------------------------------------------------- bind */

/* HOWDAH_END: the pattern is not bound to the queue. */
static int find_binding(hw_sqlite_jobs *jobs, const hw_binding *binding, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, FIND_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    hw_sqlite_bind_str(stmt, 2, binding->pattern);
    s = hw_sqlite_step(jobs->store, stmt, "look at a binding", reterr);
    if (s == HOWDAH_OK && key_of(hw_sqlite_borrow(stmt, 0)) != binding->key)
        s = hw_fail(reterr, HOWDAH_CONFLICT,
                    "%.*s is bound to queue %.*s with another key: unbind it first",
                    (int)binding->pattern.len, binding->pattern.s, (int)binding->queue.len,
                    binding->queue.s);
    (void)sqlite3_finalize(stmt);
    return s;
}

static int check_taken(hw_sqlite *store, hw_str subscriber_id, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(store, TAKEN_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    hw_sqlite_bind_str(stmt, 1, subscriber_id);
    s = hw_sqlite_step(store, stmt, "look at a subscription", reterr);
    (void)sqlite3_finalize(stmt);
    if (s == HOWDAH_OK)
        s = hw_fail(reterr, HOWDAH_CONFLICT,
                    "subscription %.*s exists and does not belong to a binding",
                    (int)subscriber_id.len, subscriber_id.s);
    return s < 0 ? s : HOWDAH_OK;
}

static int insert_binding(hw_sqlite_jobs *jobs, const hw_binding *binding, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_prepare(jobs->store, BIND_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    hw_sqlite_bind_str(stmt, 2, binding->pattern);
    hw_sqlite_bind_str(stmt, 3, hw_str_of(key_names[binding->key]));
    hw_sqlite_bind_str(stmt, 4, binding->subscriber_id);
    (void)sqlite3_bind_int64(stmt, 5, jobs->now_us);
    return hw_sqlite_finish(jobs->store, stmt, "bind", reterr);
}

/* HOWDAH_END: it was made. */
static int bind_pattern(hw_sqlite_jobs *jobs, const hw_binding *binding, int64_t high,
                        const hw_range *outstanding, size_t outstanding_n, howdah_error *reterr)
{
    int s = hw_sqlite_make_queue(jobs, binding->queue, reterr);

    if (s >= 0)
        s = find_binding(jobs, binding, reterr);
    if (s != HOWDAH_END)
        return s;
    s = check_taken(jobs->store, binding->subscriber_id, reterr);
    if (s >= 0)
        s = insert_binding(jobs, binding, reterr);
    if (s >= 0)
        s = hw_sqlite_insert_sub(jobs->store, binding->subscriber_id,
                                 &(hw_filter){.pattern = binding->pattern}, high, outstanding,
                                 outstanding_n, reterr);
    return s < 0 ? s : HOWDAH_END;
}

int hw_sqlite_queue_bind(hw_store *base, const hw_binding *binding, int64_t high,
                         const hw_range *outstanding, size_t outstanding_n, bool *ret_made,
                         howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int made;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    made = bind_pattern(&jobs, binding, high, outstanding, outstanding_n, reterr);
    s = hw_sqlite_jobs_leave(&jobs, made, reterr);
    if (s >= 0 && ret_made)
        *ret_made = made == HOWDAH_END;
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------- unbind */

static int no_binding(hw_str queue, hw_str pattern, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "%.*s is not bound to queue %.*s", (int)pattern.len,
                   pattern.s, (int)queue.len, queue.s);
}

static int unbind_pattern(hw_sqlite_jobs *jobs, hw_str queue, hw_str pattern, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_find_queue(jobs, queue, reterr);

    if (s != HOWDAH_OK)
        return s < 0 ? s : no_binding(queue, pattern, reterr);
    s = hw_sqlite_prepare(jobs->store, UNBIND_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, jobs->queue.id);
    hw_sqlite_bind_str(stmt, 2, pattern);
    s = hw_sqlite_step(jobs->store, stmt, "unbind", reterr);
    if (s == HOWDAH_OK)
        s = hw_sqlite_drop_sub(jobs->store, hw_sqlite_borrow(stmt, 0), reterr);
    else if (s == HOWDAH_END)
        s = no_binding(queue, pattern, reterr);
    (void)sqlite3_finalize(stmt);
    return s;
}

int hw_sqlite_queue_unbind(hw_store *base, hw_str queue, hw_str pattern, howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, true, reterr);

    if (s < 0)
        return s;
    return hw_sqlite_jobs_leave(&jobs, unbind_pattern(&jobs, queue, pattern, reterr), reterr);
}

/* ----------------------------------------------------------------- bindings */

static int count_outstanding(hw_str text, int64_t *ret_n)
{
    hw_range *outstanding = NULL;
    size_t n = 0;
    int s = text.s ? hw_sqlite_parse_outstanding(text, &outstanding, &n) : HOWDAH_OK;

    *ret_n = 0;
    for (size_t i = 0; s >= 0 && i < n; i++)
        *ret_n += outstanding[i].last - outstanding[i].first + 1;
    hw_free(outstanding);
    return s;
}

static int take_binding(const hw_sqlite *store, sqlite3_stmt *stmt, hw_binding *ret_binding,
                        howdah_error *reterr)
{
    hw_str status = hw_sqlite_borrow(stmt, 7);
    int s;

    *ret_binding = (hw_binding){
        .queue = hw_sqlite_borrow(stmt, 0),
        .pattern = hw_sqlite_borrow(stmt, 1),
        .key = key_of(hw_sqlite_borrow(stmt, 2)),
        .subscriber_id = hw_sqlite_borrow(stmt, 3),
        .created_at_us = sqlite3_column_int64(stmt, 4),
        .high = sqlite3_column_int64(stmt, 5),
        .status = hw_str_equal(status, hw_str_of("active"))   ? HW_SUB_ACTIVE
                  : hw_str_equal(status, hw_str_of("paused")) ? HW_SUB_PAUSED
                                                              : HW_SUB_HALTED,
        .reason = hw_sqlite_borrow(stmt, 8),
        .owner = hw_sqlite_borrow(stmt, 9),
    };
    if (!ret_binding->queue.s || !ret_binding->pattern.s || !ret_binding->subscriber_id.s)
        return hw_fail_no_memory(reterr);
    s = count_outstanding(hw_sqlite_borrow(stmt, 6), &ret_binding->outstanding);
    return s < 0
               ? hw_fail(reterr, s, "%s: a subscription has a damaged list of outstanding numbers",
                         store->name)
               : s;
}

typedef struct binding_walk {
    hw_sqlite *store;
    hw_str queue; /* absent: of all */
    hw_binding_fn fn;
    void *ctx;
} binding_walk;

static void bind_queue(void *ctx, sqlite3_stmt *stmt)
{
    hw_sqlite_bind_str(stmt, 1, ((binding_walk *)ctx)->queue);
}

static int hand_binding(void *ctx, sqlite3_stmt *stmt, bool *ret_stop, howdah_error *reterr)
{
    const binding_walk *w = ctx;
    hw_binding binding;
    int s = take_binding(w->store, stmt, &binding, reterr);

    if (s >= 0)
        *ret_stop = w->fn(w->ctx, &binding) != 0;
    return s;
}

int hw_sqlite_queue_bindings(hw_store *base, hw_str queue, hw_binding_fn fn, void *ctx,
                             howdah_error *reterr)
{
    binding_walk w = {(hw_sqlite *)base, queue, fn, ctx};
    const hw_sqlite_walk walk = {.sql = BINDINGS_SQL,
                                 .doing = "read bindings",
                                 .keys = 2,
                                 .key_column = {0, 1},
                                 .key_param = {2, 3},
                                 .first = {{.bytes = HW_STR_LIT("")}, {.bytes = HW_STR_LIT("")}},
                                 .limit_param = 4,
                                 .bind = bind_queue,
                                 .row = hand_binding,
                                 .ctx = &w};

    return hw_sqlite_walk_rows(w.store, &walk, reterr);
}

/* -------------------------------------------------------------------- route */

/* HOWDAH_END: the event is gone from the log. */
static int insert_data(hw_sqlite_jobs *jobs, howdah_binding_key key, int64_t sequence, int64_t id,
                       howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(jobs->store, HW_SLOT_ROUTE_DATA, ROUTE_DATA_SQL, &stmt, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_bind_int64(stmt, 1, sequence);
    (void)sqlite3_bind_int64(stmt, 2, id);
    (void)sqlite3_bind_int64(stmt, 3, jobs->queue.id);
    (void)sqlite3_bind_int64(stmt, 4, jobs->now_us);
    (void)sqlite3_bind_int(stmt, 5, (int)key);
    s = hw_sqlite_step(jobs->store, stmt, "route", reterr);
    (void)sqlite3_reset(stmt);
    return s;
}

static int make_jobs(hw_sqlite_jobs *jobs, hw_str queue, howdah_binding_key key,
                     const int64_t *sequences, size_t n, howdah_error *reterr)
{
    int64_t id = 0;
    int s = hw_sqlite_make_queue(jobs, queue, reterr);

    if (s >= 0)
        s = hw_sqlite_draw(jobs->store, "job", (int64_t)n, &id, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++, id++) {
        s = insert_data(jobs, key, sequences[i], id, reterr);
        if (s == HOWDAH_OK) {
            s = hw_sqlite_run_numbers(jobs->store, HW_SLOT_ROUTE, ROUTE_SQL, &id, 1, reterr);
            jobs->readied = true;
        }
    }
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_route(hw_store *base, const hw_checkpoint *checkpoint, hw_str queue,
                    howdah_binding_key key, const int64_t *sequences, size_t n,
                    howdah_error *reterr)
{
    hw_sqlite_jobs jobs;
    int s = hw_sqlite_jobs_enter(&jobs, (hw_sqlite *)base, false, reterr);

    assert(n <= HOWDAH_JOBS_MAX);
    if (s < 0)
        return s;
    s = hw_sqlite_put_checkpoint(jobs.store, checkpoint, reterr);
    if (s >= 0 && n > 0)
        s = make_jobs(&jobs, queue, key, sequences, n, reterr);
    return hw_sqlite_jobs_leave(&jobs, s, reterr);
}
