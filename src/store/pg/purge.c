/*
 * purge.c - erasing on PostgreSQL; the functions are in purge.sql.
 *
 * A purge takes many locks, and not always in the order in which others take them.  When the server
 * ends it because of that (a deadlock), nothing was erased, and it is tried again.
 */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "store/pg/pg.h"

#define PAGE 1000
#define ATTEMPTS 5

/* The columns of PURGE; those after REMAINING come with PURGES only. */
enum column {
    ID,
    PURGED_AT,
    EVENTS,
    DEAD_LETTERS,
    SNAPSHOTS,
    JOBS,
    REMAINING,
    ACTOR,
    REASON,
    STREAM
};

/* Without the texts: of PURGE there are none, of PURGES they live as long as the page. */
static void fill_record(const PGresult *r, int row, howdah_purge_record *record)
{
    record->id = hw_pg_get_int8(r, row, ID);
    record->purged_at_us = hw_pg_get_time(r, row, PURGED_AT);
    record->events = hw_pg_get_int8(r, row, EVENTS);
    record->dead_letters = hw_pg_get_int8(r, row, DEAD_LETTERS);
    record->snapshots = hw_pg_get_int8(r, row, SNAPSHOTS);
    record->jobs = hw_pg_get_int8(r, row, JOBS);
    record->left = hw_pg_get_int8(r, row, REMAINING);
}

/* NULL: a whole stream is meant, and the function finds its events. */
static int param_ids(hw_pg *pg, hw_pg_call *call, const hw_purge *purge, howdah_error *reterr)
{
    hw_pg_array array;
    int s;

    assert(purge->stream.s || purge->ids_n > 0);
    if (purge->stream.s) {
        hw_pg_param_null(call);
        return HOWDAH_OK;
    }
    hw_buf_clear(&pg->params);
    hw_pg_array_begin(&pg->params, HW_OID_UUID, purge->ids_n, &array);
    for (size_t i = 0; i < purge->ids_n; i++)
        hw_pg_array_put(&pg->params, purge->ids[i].b, sizeof purge->ids[i].b);
    s = hw_buf_check(&pg->params, reterr);
    hw_pg_param_bin(call, pg->params.data, pg->params.len);
    return s;
}

/* In the caller's transaction a repeat cannot work: the server has ended it. */
static int call_until_done(hw_pg *pg, const hw_pg_call *call, PGresult **ret_result,
                           howdah_error *reterr)
{
    for (int attempt = 1;; attempt++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s = hw_pg_exec(pg, call, ret_result, &err);

        if (s < 0 && !pg->caller_owned && attempt < ATTEMPTS &&
            (strcmp(err.sqlstate, "40P01") == 0 || strcmp(err.sqlstate, "40001") == 0))
            continue;
        if (s < 0)
            hw_error_copy(reterr, &err);
        return s;
    }
}

int hw_pg_purge(hw_store *store, const hw_purge *purge, howdah_purge_record *ret_record,
                howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_PURGE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, purge->stream);
    s = param_ids(pg, &call, purge, reterr);
    if (s < 0)
        return s;
    hw_pg_param_bool(&call, purge->families);
    hw_pg_param_str(&call, purge->reason);
    hw_pg_param_str(&call, purge->actor);
    s = call_until_done(pg, &call, &result, reterr);
    if (s >= 0 && ret_record)
        fill_record(result, 0, ret_record);
    PQclear(result);
    return s;
}

/* By id, a page at a time; records that are made meanwhile come last. */
int hw_pg_purges(hw_store *store, hw_purge_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int64_t after = 0;
    bool more = true;
    int s = hw_pg_ready(pg, reterr);

    while (s >= 0 && more) {
        hw_pg_call call = {.statement = HW_PG_PURGES};
        PGresult *r = NULL;

        hw_pg_param_int8(&call, after);
        hw_pg_param_int8(&call, PAGE);
        s = hw_pg_query(pg, &call, &r, reterr);
        more = s >= 0 && PQntuples(r) == PAGE;
        for (int i = 0; s >= 0 && i < PQntuples(r); i++) {
            howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;

            fill_record(r, i, &record);
            record.actor = hw_pg_get_str(r, i, ACTOR).s;
            record.reason = hw_pg_get_str(r, i, REASON).s;
            record.stream = hw_pg_get_str(r, i, STREAM).s;
            after = record.id;
            if (fn(ctx, &record) != 0) {
                more = false;
                break;
            }
        }
        PQclear(r);
    }
    return s;
}
