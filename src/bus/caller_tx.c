/* caller_tx.c - the stores' own handles: what is done in the caller's transaction, and a handler's.
 */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <string.h>

#include "base/error.h"
#include "base/sized.h"
#include "bus/bus.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"
#include "engine/rules.h"
#include "store/pg/pg.h"
#include "store/sqlite/sqlite.h"

/* What is done in one call on a transaction: one of these is not NULL. */
typedef struct tx_call {
    size_t payload_bytes_max;
    const howdah_event *const *events; /* n of them are appended, */
    const howdah_append_options *append_options;
    const howdah_correction *correction;
    howdah_position *ret_positions;
    const howdah_new_job *const *jobs; /* or n of them pushed, */
    const char *queue;
    howdah_pushed *ret_pushed;
    const howdah_job_ack *ack; /* or a job ended, */
    const hw_batch_ref *batch; /* or a batch acked */
    int64_t upto;
    size_t n;
} tx_call;

/* Without an interrupt: the transaction is the caller's, and so is its time. */
static int append(hw_store *store, const tx_call *call, howdah_error *reterr)
{
    howdah_append_options own = HOWDAH_APPEND_OPTIONS_INIT;
    int s =
        hw_sized_take(&own, sizeof own, call->append_options, "appending in a transaction", reterr);

    return s < 0 ? s
                 : hw_append_to(store, NULL, call->payload_bytes_max, call->events, call->n, &own,
                                NULL, call->ret_positions, reterr);
}

/*
 * The wrapped store lives for one call.  Closing it closes only the wrapping: the caller's handle,
 * and its transaction, are left as they were.
 */
static int call_and_unwrap(hw_store *store, const tx_call *call, howdah_error *reterr)
{
    int s;

    if (call->events)
        s = append(store, call, reterr);
    else if (call->correction)
        s = hw_correct_on(store, NULL, call->payload_bytes_max, call->correction,
                          call->ret_positions, reterr);
    else if (call->batch)
        s = store->ops->groups->ack(store, call->batch, call->upto, reterr);
    else if (!store->ops->queue)
        s = hw_fail(reterr, HOWDAH_MISUSE, "this store has no work queue");
    else if (call->ack)
        s = hw_ack_one(store, call->ack, reterr);
    else
        s = hw_push_to(store, call->payload_bytes_max, hw_str_of(call->queue), call->jobs, call->n,
                       call->ret_pushed, reterr);
    store->ops->close(store);
    return s;
}

/* The pointers come from the caller: none of them may be there. */
static bool is_empty(const tx_call *call)
{
    return !call->events && !call->correction && !call->jobs && !call->ack && !call->batch;
}

/* A connection that died cannot go on, and its transaction is lost: HANDLE_DEAD says so. */
static int pg_call(PGconn *conn, const char *schema, const tx_call *call, howdah_error *reterr)
{
    hw_store *store = NULL;
    int s;

    if (!conn || is_empty(call))
        return hw_fail(reterr, HOWDAH_MISUSE, "a call in a transaction: an argument is NULL");
    s = hw_pg_wrap(conn, schema ? schema : "howdah", &store, reterr);
    if (s >= 0)
        s = call_and_unwrap(store, call, reterr);
    if (s < 0 && PQstatus(conn) == CONNECTION_BAD)
        hw_error_flag(reterr, HOWDAH_HANDLE_DEAD);
    return s;
}

static int sqlite_call(sqlite3 *db, const tx_call *call, howdah_error *reterr)
{
    hw_store *store = NULL;
    int s;

    if (!db || is_empty(call))
        return hw_fail(reterr, HOWDAH_MISUSE, "a call in a transaction: an argument is NULL");
    s = hw_sqlite_wrap(db, &store, reterr);
    return s < 0 ? s : call_and_unwrap(store, call, reterr);
}

/* ---- the calls */

/* Nothing at all is no mistake. */
static bool is_nothing(const void *handle, size_t n)
{
    return handle && n == 0;
}

int howdah_pg_append(PGconn *conn, const char *schema, const howdah_event *const *events, size_t n,
                     const howdah_append_options *options, howdah_position *ret_positions,
                     howdah_error *reterr)
{
    const tx_call call = {HW_PAYLOAD_DEFAULT, events, options, .ret_positions = ret_positions,
                          .n = n};

    return is_nothing(conn, n) ? HOWDAH_OK : pg_call(conn, schema, &call, reterr);
}

int howdah_sqlite_append(sqlite3 *db, const howdah_event *const *events, size_t n,
                         const howdah_append_options *options, howdah_position *ret_positions,
                         howdah_error *reterr)
{
    const tx_call call = {HW_PAYLOAD_DEFAULT, events, options, .ret_positions = ret_positions,
                          .n = n};

    return is_nothing(db, n) ? HOWDAH_OK : sqlite_call(db, &call, reterr);
}

int howdah_pg_correct(PGconn *conn, const char *schema, const howdah_correction *correction,
                      howdah_position *ret_position, howdah_error *reterr)
{
    return pg_call(
        conn, schema,
        &(tx_call){HW_PAYLOAD_DEFAULT, .correction = correction, .ret_positions = ret_position},
        reterr);
}

int howdah_sqlite_correct(sqlite3 *db, const howdah_correction *correction,
                          howdah_position *ret_position, howdah_error *reterr)
{
    return sqlite_call(
        db, &(tx_call){HW_PAYLOAD_DEFAULT, .correction = correction, .ret_positions = ret_position},
        reterr);
}

int howdah_pg_queue_push(PGconn *conn, const char *schema, const char *queue,
                         const howdah_new_job *const *jobs, size_t n, howdah_pushed *ret_pushed,
                         howdah_error *reterr)
{
    const tx_call call = {HW_PAYLOAD_DEFAULT, .queue = queue, .jobs = jobs, .n = n,
                          .ret_pushed = ret_pushed};

    return pg_call(conn, schema, &call, reterr);
}

int howdah_sqlite_queue_push(sqlite3 *db, const char *queue, const howdah_new_job *const *jobs,
                             size_t n, howdah_pushed *ret_pushed, howdah_error *reterr)
{
    const tx_call call = {HW_PAYLOAD_DEFAULT, .queue = queue, .jobs = jobs, .n = n,
                          .ret_pushed = ret_pushed};

    return sqlite_call(db, &call, reterr);
}

int howdah_pg_job_complete(PGconn *conn, const char *schema, int64_t id, int64_t token,
                           const char *result, howdah_error *reterr)
{
    howdah_job_ack one = {
        .id = id, .token = token, .verdict = HOWDAH_VERDICT_COMPLETE, .text = result};

    return pg_call(conn, schema, &(tx_call){.ack = &one}, reterr);
}

int howdah_sqlite_job_complete(sqlite3 *db, int64_t id, int64_t token, const char *result,
                               howdah_error *reterr)
{
    howdah_job_ack one = {
        .id = id, .token = token, .verdict = HOWDAH_VERDICT_COMPLETE, .text = result};

    return sqlite_call(db, &(tx_call){.ack = &one}, reterr);
}

/* upto 0: all of it. */
static tx_call call_of_batch(const hw_batch_ref *batch, int64_t upto)
{
    return (tx_call){.batch = batch->subscriber_id.s && batch->token.s ? batch : NULL,
                     .upto = upto > 0 ? upto : INT64_MAX};
}

int howdah_pg_batch_ack(PGconn *conn, const char *schema, const char *subscriber_id,
                        const char *token, int64_t upto, howdah_error *reterr)
{
    const hw_batch_ref batch = {hw_str_of(subscriber_id), hw_str_of(token), 0};
    const tx_call call = call_of_batch(&batch, upto);

    return pg_call(conn, schema, &call, reterr);
}

int howdah_sqlite_batch_ack(sqlite3 *db, const char *subscriber_id, const char *token, int64_t upto,
                            howdah_error *reterr)
{
    const hw_batch_ref batch = {hw_str_of(subscriber_id), hw_str_of(token), 0};
    const tx_call call = call_of_batch(&batch, upto);

    return sqlite_call(db, &call, reterr);
}

/* ---- handlers */

/*
 * The transaction of the handler that runs, if it has one, and on that store.  A program may be
 * linked for both stores and ask for the wrong one: it gets NULL.
 */
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

/* ---- a handler's calls on its own bus */

/*
 * A handler's own bus has the limits and the schema; a bus that a test made over a store has no
 * settings, and then the default schema counts.
 */
static int join(const howdah_bus *bus, hw_store *tx, tx_call *call, howdah_error *reterr)
{
    void *handle = tx->ops->subs->handle(tx);

    call->payload_bytes_max = bus->payload_bytes_max;
    if (strcmp(tx->ops->name, "sqlite") == 0)
        return sqlite_call(handle, call, reterr);
    return pg_call(handle,
                   bus->settings ? hw_settings_text(bus->settings, HW_SETTING_schema) : NULL, call,
                   reterr);
}

int hw_join_append(const howdah_bus *bus, hw_store *tx, const howdah_event *const *events, size_t n,
                   const howdah_append_options *options, howdah_position *ret_positions,
                   howdah_error *reterr)
{
    tx_call call = {
        .events = events, .append_options = options, .n = n, .ret_positions = ret_positions};

    return n == 0 ? HOWDAH_OK : join(bus, tx, &call, reterr);
}

int hw_join_correct(const howdah_bus *bus, hw_store *tx, const howdah_correction *correction,
                    howdah_position *ret_position, howdah_error *reterr)
{
    tx_call call = {.correction = correction, .ret_positions = ret_position};

    return join(bus, tx, &call, reterr);
}

int hw_join_push(const howdah_bus *bus, hw_store *tx, const char *queue,
                 const howdah_new_job *const *jobs, size_t n, howdah_pushed *ret_pushed,
                 howdah_error *reterr)
{
    tx_call call = {.queue = queue, .jobs = jobs, .n = n, .ret_pushed = ret_pushed};

    return join(bus, tx, &call, reterr);
}

int hw_join_complete(const howdah_bus *bus, hw_store *tx, const howdah_job_ack *ack,
                     howdah_error *reterr)
{
    tx_call call = {.ack = ack};

    return join(bus, tx, &call, reterr);
}
