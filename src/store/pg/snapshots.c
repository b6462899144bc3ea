/* snapshots.c - states of streams on PostgreSQL; the functions are in snapshots.sql. */
#include "base/mem.h"
#include "store/pg/pg.h"

#define PAGE 1000

/* The columns of SNAPSHOT_GET; SNAPSHOT_LIST has the size of the data instead of the last two. */
enum column { STREAM, VERSION, CONTENT_TYPE, SCHEMA_VERSION, TAKEN_AT, DATA, BYTES };

/*
 * The function checks that the version is in the log and removes older ones, in one
 * transaction.
 */
int hw_pg_snapshot_put(hw_store *store, const howdah_snapshot *snapshot, int64_t keep,
                       howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SNAPSHOT_PUT, .writes = true};
    const hw_str data = {snapshot->data, snapshot->data_len};
    bool json = !snapshot->content_type;
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, hw_str_of(snapshot->stream));
    hw_pg_param_int8(&call, snapshot->version);
    hw_pg_param_str(&call, json ? data : HW_STR_NULL);
    hw_pg_param_int4(&call, (int32_t)snapshot->schema_version);
    hw_pg_param_int8(&call, keep);
    hw_pg_param_str(&call, json ? HW_STR_NULL : data);
    hw_pg_param_str(&call, hw_str_of(snapshot->content_type));
    s = hw_pg_exec(pg, &call, &result, reterr);
    PQclear(result);
    return s;
}

/* All but the data. */
static howdah_snapshot snapshot_of(const PGresult *r, int row)
{
    return (howdah_snapshot){
        .size = sizeof(howdah_snapshot),
        .stream = hw_pg_get_str(r, row, STREAM).s,
        .version = hw_pg_get_int8(r, row, VERSION),
        .content_type = hw_pg_get_str(r, row, CONTENT_TYPE).s,
        .schema_version = hw_pg_get_int4(r, row, SCHEMA_VERSION),
        .taken_at_us = hw_pg_get_time(r, row, TAKEN_AT),
    };
}

/* fn gets memory of the result, which is freed when it returns (times.h). */
int hw_pg_snapshot_get(hw_store *store, hw_str stream, int64_t version, hw_snapshot_fn fn,
                       void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SNAPSHOT_GET};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, stream);
    hw_pg_param_int8(&call, version);
    s = hw_pg_query(pg, &call, &r, reterr);
    if (s >= 0 && PQntuples(r) == 0) {
        s = HOWDAH_END;
    } else if (s >= 0) {
        howdah_snapshot snapshot = snapshot_of(r, 0);

        hw_str data = hw_pg_get_str(r, 0, snapshot.content_type ? BYTES : DATA);

        snapshot.data = data.s;
        snapshot.data_len = data.len;
        (void)fn(ctx, &snapshot);
    }
    PQclear(r);
    return s;
}

/* One page after a stream and version, which it moves; more: there may be another. */
static int list_page(hw_pg *pg, hw_str stream, hw_buf *after_stream, int64_t *after_version,
                     hw_snapshot_fn fn, void *ctx, bool *ret_more, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_SNAPSHOT_LIST};
    PGresult *r = NULL;
    int n;
    int s;

    hw_pg_param_str(&call, stream);
    hw_pg_param_str(&call, (hw_str){hw_buf_str(after_stream), after_stream->len});
    hw_pg_param_int8(&call, *after_version);
    hw_pg_param_int8(&call, PAGE);
    s = hw_pg_query(pg, &call, &r, reterr);
    n = s >= 0 ? PQntuples(r) : 0;
    *ret_more = n == PAGE;
    for (int i = 0; i < n; i++) {
        howdah_snapshot snapshot = snapshot_of(r, i);

        snapshot.data_len = (size_t)hw_pg_get_int8(r, i, DATA);
        if (fn(ctx, &snapshot) != 0) {
            *ret_more = false;
            break;
        }
    }
    if (*ret_more) {
        hw_str last = hw_pg_get_str(r, n - 1, STREAM);

        hw_buf_clear(after_stream);
        hw_buf_put(after_stream, last.s, last.len);
        *after_version = hw_pg_get_int8(r, n - 1, VERSION);
        s = hw_buf_check(after_stream, reterr);
    }
    PQclear(r);
    return s;
}

/*
 * By key (stream, version), a page at a time: data stays on the server, but snapshots can be
 * many.
 */
int hw_pg_snapshot_list(hw_store *store, hw_str stream, hw_snapshot_fn fn, void *ctx,
                        howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_buf after_stream = HW_BUF_INIT(4096);
    int64_t after_version = 0;
    bool more = true;
    int s = hw_pg_ready(pg, reterr);

    while (s >= 0 && more)
        s = list_page(pg, stream, &after_stream, &after_version, fn, ctx, &more, reterr);
    hw_buf_done(&after_stream);
    return s;
}

int hw_pg_snapshot_remove(hw_store *store, hw_str stream, int64_t upto, int64_t *ret_removed,
                          howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_SNAPSHOT_REMOVE, .writes = true};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, stream);
    hw_pg_param_int8(&call, upto);
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0 && ret_removed)
        *ret_removed = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s;
}
