/*
 * handler_tx.c - a handler's effects and the checkpoint in one transaction.
 *
 *   I1  The store handle is the transaction's alone from begin() to commit() or rollback(); no
 *       other operation is called on it in between.  The handler works on its sqlite3.
 *   I2  The checkpoint goes in last, and its token is checked under the write lock that the
 *       transaction has had since its begin: one that is not the owner any more stores nothing.
 *   I3  A handler that ends the transaction itself, or an error that made SQLite roll it back,
 *       is found out at commit(): no checkpoint is stored then.
 */
#include "base/fault.h"
#include "store/sqlite/sqlite.h"

/* The log is compared before the handler runs: its effects must not go into another file. */
int hw_sqlite_tx_begin(hw_store *base, hw_str log, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_enter(store, true, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_is_log(store, log, reterr);
    if (s < 0)
        hw_sqlite_rollback(store);
    return s;
}

void *hw_sqlite_tx_handle(hw_store *base)
{
    return ((hw_sqlite *)base)->db;
}

/* I3. */
int hw_sqlite_tx_check(hw_sqlite *store, howdah_error *reterr)
{
    int s;

    if (store->db && store->writing && !sqlite3_get_autocommit(store->db))
        return HOWDAH_OK;
    store->writing = false;
    s = hw_fail(reterr, HOWDAH_MISUSE, "%s: the handler's transaction is not open any more",
                store->name);
    return hw_advise(
        reterr, s,
        "a handler must not commit or roll back; a disk error also ends the transaction");
}

/* I2. */
int hw_sqlite_tx_commit(hw_store *base, const hw_checkpoint *checkpoint, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_tx_check(store, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_put_checkpoint(store, checkpoint, reterr);
    return hw_sqlite_leave(store, s, reterr);
}

/* Nothing to do when the transaction is not open any more. */
void hw_sqlite_tx_rollback(hw_store *base)
{
    hw_sqlite *store = (hw_sqlite *)base;

    if (store->db && store->writing)
        hw_sqlite_rollback(store);
}
