/* caller.c - the stores' own handles: appends in the caller's transaction, a handler's transaction.
 */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <string.h>

#include "base/error.h"
#include "bus/bus.h"
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
