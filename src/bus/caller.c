/* caller.c - the stores' own handles: what is done in the caller's transaction, and a handler's. */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <string.h>

#include "base/error.h"
#include "bus/bus.h"
#include "bus/queue.h"
#include "bus/subscription.h"
#include "engine/rules.h"
#include "store/pg/pg.h"
#include "store/sqlite/sqlite.h"

static int check(const void *handle, const howdah_event *const *events, size_t n,
                 const howdah_append_options *options, howdah_error *reterr)
{
    if (!handle || (n > 0 && !events))
        return hw_fail(reterr, HOWDAH_MISUSE, "appending in a transaction: an argument is NULL");
    return hw_check_options(options, sizeof *options, "appending in a transaction", reterr);
}

/* The wrapped store lives for one call; the caller's handle is left as it was. */
static int append_and_unwrap(hw_store *store, const howdah_event *const *events, size_t n,
                             const howdah_append_options *options, howdah_position *ret_positions,
                             howdah_error *reterr)
{
    int s = hw_append_to(store, NULL, HW_PAYLOAD_DEFAULT, events, n, options, NULL, ret_positions,
                         reterr);

    store->ops->close(store);
    return s;
}

int howdah_pg_append(PGconn *conn, const char *schema, const howdah_event *const *events, size_t n,
                     const howdah_append_options *options, howdah_position *ret_positions,
                     howdah_error *reterr)
{
    hw_store *store = NULL;
    int s = check(conn, events, n, options, reterr);

    if (s < 0 || n == 0)
        return s;
    s = hw_pg_wrap(conn, schema ? schema : "howdah", &store, reterr);
    if (s >= 0)
        s = append_and_unwrap(store, events, n, options, ret_positions, reterr);
    if (s < 0 && reterr && PQstatus(conn) == CONNECTION_BAD)
        reterr->flags |= HOWDAH_HANDLE_DEAD;
    return s;
}

int howdah_sqlite_append(sqlite3 *db, const howdah_event *const *events, size_t n,
                         const howdah_append_options *options, howdah_position *ret_positions,
                         howdah_error *reterr)
{
    hw_store *store = NULL;
    int s = check(db, events, n, options, reterr);

    if (s < 0 || n == 0)
        return s;
    s = hw_sqlite_wrap(db, &store, reterr);
    return s < 0 ? s : append_and_unwrap(store, events, n, options, ret_positions, reterr);
}

/* ---- corrections */

static int correct_and_unwrap(hw_store *store, const howdah_correction *correction,
                              howdah_position *ret_position, howdah_error *reterr)
{
    int s = hw_correct_on(store, NULL, HW_PAYLOAD_DEFAULT, correction, ret_position, reterr);

    store->ops->close(store);
    return s;
}

int howdah_pg_correct(PGconn *conn, const char *schema, const howdah_correction *correction,
                      howdah_position *ret_position, howdah_error *reterr)
{
    hw_store *store = NULL;
    int s;

    if (!conn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_pg_correct: an argument is NULL");
    s = hw_pg_wrap(conn, schema ? schema : "howdah", &store, reterr);
    if (s >= 0)
        s = correct_and_unwrap(store, correction, ret_position, reterr);
    if (s < 0 && reterr && PQstatus(conn) == CONNECTION_BAD)
        reterr->flags |= HOWDAH_HANDLE_DEAD;
    return s;
}

int howdah_sqlite_correct(sqlite3 *db, const howdah_correction *correction,
                          howdah_position *ret_position, howdah_error *reterr)
{
    hw_store *store = NULL;
    int s;

    if (!db)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_sqlite_correct: an argument is NULL");
    s = hw_sqlite_wrap(db, &store, reterr);
    return s < 0 ? s : correct_and_unwrap(store, correction, ret_position, reterr);
}

/* ---- jobs */

typedef struct job_call {
    const char *queue; /* a push, */
    const howdah_new_job *const *jobs;
    size_t n;
    howdah_pushed *ret_pushed;
    const howdah_settlement *settlement; /* or, unless NULL, the end of a job */
} job_call;

static int check_push(const void *handle, const job_call *call, howdah_error *reterr)
{
    if (!handle || (call->n > 0 && !call->jobs))
        return hw_fail(reterr, HOWDAH_MISUSE, "a job in a transaction: an argument is NULL");
    return HOWDAH_OK;
}

static int call_and_unwrap(hw_store *store, const job_call *call, howdah_error *reterr)
{
    int s;

    if (!store->ops->queue)
        s = hw_fail(reterr, HOWDAH_MISUSE, "this store has no work queue");
    else if (call->settlement)
        s = hw_settle_one(store, call->settlement, reterr);
    else
        s = hw_push_to(store, HW_PAYLOAD_DEFAULT, hw_str_of(call->queue), call->jobs, call->n,
                       call->ret_pushed, reterr);
    store->ops->close(store);
    return s;
}

static int pg_call(PGconn *conn, const char *schema, const job_call *call, howdah_error *reterr)
{
    hw_store *store = NULL;
    int s = check_push(conn, call, reterr);

    if (s >= 0)
        s = hw_pg_wrap(conn, schema ? schema : "howdah", &store, reterr);
    if (s >= 0)
        s = call_and_unwrap(store, call, reterr);
    if (s < 0 && reterr && conn && PQstatus(conn) == CONNECTION_BAD)
        reterr->flags |= HOWDAH_HANDLE_DEAD;
    return s;
}

static int sqlite_call(sqlite3 *db, const job_call *call, howdah_error *reterr)
{
    hw_store *store = NULL;
    int s = check_push(db, call, reterr);

    if (s >= 0)
        s = hw_sqlite_wrap(db, &store, reterr);
    return s < 0 ? s : call_and_unwrap(store, call, reterr);
}

int howdah_pg_push(PGconn *conn, const char *schema, const char *queue,
                   const howdah_new_job *const *jobs, size_t n, howdah_pushed *ret_pushed,
                   howdah_error *reterr)
{
    return pg_call(conn, schema, &(job_call){queue, jobs, n, ret_pushed, NULL}, reterr);
}

int howdah_sqlite_push(sqlite3 *db, const char *queue, const howdah_new_job *const *jobs, size_t n,
                       howdah_pushed *ret_pushed, howdah_error *reterr)
{
    return sqlite_call(db, &(job_call){queue, jobs, n, ret_pushed, NULL}, reterr);
}

int howdah_pg_complete(PGconn *conn, const char *schema, int64_t id, int64_t token,
                       const char *result, howdah_error *reterr)
{
    howdah_settlement one = {
        .id = id, .token = token, .verdict = HOWDAH_VERDICT_COMPLETE, .text = result};

    return pg_call(conn, schema, &(job_call){.settlement = &one}, reterr);
}

int howdah_sqlite_complete(sqlite3 *db, int64_t id, int64_t token, const char *result,
                           howdah_error *reterr)
{
    howdah_settlement one = {
        .id = id, .token = token, .verdict = HOWDAH_VERDICT_COMPLETE, .text = result};

    return sqlite_call(db, &(job_call){.settlement = &one}, reterr);
}

/* ---- handlers */

/* The transaction of the handler that runs, if it has one, and on that store. */
static void *handle_of(const howdah_delivery *delivery, const char *store)
{
    if (!delivery || !delivery->tx || strcmp(delivery->tx->ops->name, store) != 0)
        return NULL;
    return delivery->tx->ops->subs->handle(delivery->tx);
}

PGconn *howdah_delivery_pg(const howdah_delivery *delivery)
{
    return handle_of(delivery, "postgresql");
}

sqlite3 *howdah_delivery_sqlite(const howdah_delivery *delivery)
{
    return handle_of(delivery, "sqlite");
}
