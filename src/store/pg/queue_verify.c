/*
 * queue_verify.c - whether every job is in exactly one place (0003_queue.sql); the questions are in
 * queue_findings().
 */
#include "store/pg/pg.h"

int hw_pg_queue_verify(hw_store *store, hw_wrong_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_QUEUE_VERIFY};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_query(pg, &call, &r, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(r); i++)
        if (fn(ctx, hw_pg_get_str(r, i, 0), hw_pg_get_str(r, i, 1), hw_pg_get_int8(r, i, 2)) != 0)
            break;
    PQclear(r);
    return s;
}
