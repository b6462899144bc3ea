/*
 * times_verify.c - whether families, streams, purges and snapshots hold together, no event is
 * missing, and each is as it was stored; the questions are in times_findings().
 */
#include "store/pg/pg.h"

int hw_pg_times_verify(hw_store *store, hw_flaw_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_TIMES_VERIFY};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_query(pg, &call, &r, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(r); i++)
        if (fn(ctx, hw_pg_get_str(r, i, 0), hw_pg_get_int8(r, i, 1)) != 0)
            break;
    PQclear(r);
    return s;
}
