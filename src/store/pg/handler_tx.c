/*
 * handler_tx.c - a transaction that a handler shares with its checkpoint.
 *
 *   I1  The handler's statements see the session as its role has it (search_path, planner): what
 *       the library sets for itself is taken back for the length of the transaction.
 *   I2  The checkpoint's token is checked inside the transaction, by the statement that takes the
 *       row's lock: between that and the commit nobody can take the subscription over.
 *   I3  Effects wait for the disk.
 *   I4  Events that the handler appends ring inside the transaction, which is safe here: NOTIFY
 *       cannot be part of a prepared transaction, and nobody prepares this one.
 *   I5  howdah.ring is "on" for this transaction only: at its end the setting tells whether it is
 *       still the transaction that we began.
 */
#include <assert.h>
#include <string.h>

#include "store/pg/pg.h"

/* I1, I5.  What conn.c sets for the session goes back to the role's own values. */
static const char begin_sql[] =
    "BEGIN ISOLATION LEVEL READ COMMITTED;"
    "SET LOCAL search_path TO DEFAULT; SET LOCAL plan_cache_mode TO DEFAULT;"
    "SET LOCAL enable_sort TO DEFAULT; SET LOCAL enable_bitmapscan TO DEFAULT;"
    "SET LOCAL enable_seqscan TO DEFAULT;"
    "SET LOCAL jit TO DEFAULT; SET LOCAL \"TimeZone\" TO DEFAULT;"
    "SET LOCAL \"DateStyle\" TO DEFAULT; SET LOCAL bytea_output TO DEFAULT;"
    "SET LOCAL howdah.ring = 'on'";

/* The handler had a blocking connection, as libpq gives it by default; ours is non-blocking. */
void hw_pg_tx_leave(hw_pg *pg)
{
    pg->in_handler = false;
    if (pg->conn)
        (void)PQsetnonblocking(pg->conn, 1);
}

/* Nobody polls with this handle, so behind a pooler its log may have changed unnoticed: before the
   caller is told that its log is another one, the server is asked again. */
static int meet_log(hw_pg *pg, hw_str log, howdah_error *reterr)
{
    char text[HW_TIMELINE_SIZE];
    int s = hw_pg_ready_to_move(pg, reterr);

    if (s < 0 || !log.s || hw_str_equal(log, hw_str_of(pg->log)))
        return s;
    return hw_pg_timeline(&pg->base, text, reterr);
}

/*
 * SUB_MOVE is prepared before BEGIN, while a failure costs nothing: in the transaction it would
 * cost the handler's work.
 */
int hw_pg_begin(hw_store *store, hw_str log, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int s = meet_log(pg, log, reterr);

    if (s >= 0 && log.s && !hw_str_equal(log, hw_str_of(pg->log)))
        s = hw_fail(reterr, HOWDAH_LOST, "this is another log: %s now, %.*s before", pg->log,
                    (int)log.len, log.s);
    if (s >= 0)
        s = hw_pg_prepare(pg, HW_PG_SUB_MOVE, reterr);
    if (s >= 0)
        s = hw_pg_command(pg, begin_sql, reterr);
    if (s >= 0 && PQsetnonblocking(pg->conn, 0) != 0)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "cannot make the connection blocking");
    if (s < 0) {
        hw_pg_abandon(pg);
        return s;
    }
    pg->in_handler = true;
    return HOWDAH_OK;
}

void *hw_pg_handle(hw_store *store)
{
    return ((hw_pg *)store)->conn;
}

/* The handler has the raw connection and may have done anything with it, short of telling us. */
int hw_pg_tx_check(hw_pg *pg, howdah_error *reterr)
{
    switch (pg->conn ? PQtransactionStatus(pg->conn) : PQTRANS_UNKNOWN) {
    case PQTRANS_INTRANS:
        return HOWDAH_OK;
    case PQTRANS_INERROR:
        return hw_fail(reterr, HOWDAH_FAILED,
                       "a statement of the handler failed: its transaction cannot be committed");
    case PQTRANS_UNKNOWN:
        return hw_fail(reterr, HOWDAH_UNAVAILABLE,
                       "the handler's connection to PostgreSQL is lost");
    case PQTRANS_IDLE:
    case PQTRANS_ACTIVE:
        break;
    }
    return hw_fail(reterr, HOWDAH_MISUSE, "the handler has ended the transaction, or left it busy");
}

/* I2, I5.  Stores the checkpoint; ret_moved is false when the token is another one. */
static int move(hw_pg *pg, const hw_checkpoint *checkpoint, bool *ret_moved, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SUB_MOVE};
    PGresult *result = NULL;
    int s = hw_pg_param_checkpoint(pg, &call, checkpoint, &pg->params, reterr);

    if (s < 0)
        return s;
    s = hw_pg_exec(pg, &call, &result, reterr);
    *ret_moved = s >= 0 && PQntuples(result) == 1;
    if (*ret_moved && strcmp(PQgetvalue(result, 0, 0), "on") != 0) /* I5 */
        s = hw_fail(reterr, HOWDAH_MISUSE,
                    "the handler has ended the transaction and begun another");
    PQclear(result);
    return s;
}

/* I3.  The one statement here whose outcome can be unknown. */
static int commit_now(hw_pg *pg, howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1, .sql = "COMMIT", .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, &call, &result, reterr);

    if (s >= 0 && strcmp(PQcmdStatus(result), "COMMIT") != 0)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "PostgreSQL rolled the transaction back");
    PQclear(result);
    return s;
}

int hw_pg_tx_end(hw_pg *pg, int s, howdah_error *reterr)
{
    if (s >= 0)
        s = commit_now(pg, reterr);
    else
        hw_pg_rollback(&pg->base);
    hw_pg_abandon(pg);
    return s;
}

/*
 * When the token is lost, the handler's effects are rolled back: the new owner handles the
 * event.  The reason is looked up afterwards, outside the transaction.
 */
int hw_pg_commit(hw_store *store, const hw_checkpoint *checkpoint, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    bool moved = false;
    int s = hw_pg_tx_check(pg, reterr);

    hw_pg_tx_leave(pg);
    if (s >= 0)
        s = move(pg, checkpoint, &moved, reterr);
    if (s < 0 || moved)
        return hw_pg_tx_end(pg, s, reterr);
    hw_pg_rollback(store);
    s = hw_pg_why_not_moved(pg, checkpoint, reterr);
    hw_pg_abandon(pg);
    return s;
}

/* Cannot fail: a connection that does not roll back is dropped, and the server does it then. */
void hw_pg_rollback(hw_store *store)
{
    hw_pg *pg = (hw_pg *)store;

    hw_pg_tx_leave(pg);
    if (pg->conn && PQtransactionStatus(pg->conn) != PQTRANS_IDLE &&
        hw_pg_command(pg, "ROLLBACK", NULL) < 0 && pg->conn)
        hw_pg_disconnect(pg);
    hw_pg_abandon(pg);
    assert(!pg->in_handler);
}
