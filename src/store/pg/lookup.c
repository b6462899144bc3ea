/*
 * lookup.c - single values of the log: its head, versions of streams, the first number since a
 * time, an event's tree.
 */
#include <string.h>

#include "base/mem.h"
#include "store/pg/pg.h"

int hw_pg_head(hw_store *store, int64_t *ret_head, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int s = hw_pg_ready(pg, reterr);

    return s < 0 ? s
                 : hw_pg_query_int8(pg, pg->direct_read ? HW_PG_HEAD : HW_PG_FN_HEAD, ret_head,
                                    reterr);
}

/* What was read here is stored: known_versions.c remembers it for the next append. */
static int stream_version(hw_pg *pg, hw_str stream, int64_t *ret_version, howdah_error *reterr)
{
    hw_pg_call call = {.statement =
                           pg->direct_read ? HW_PG_STREAM_VERSION : HW_PG_FN_STREAM_VERSION};
    PGresult *result = NULL;
    int s;

    hw_pg_param_str(&call, stream);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_version = hw_pg_get_int8(result, 0, 0);
    if (s >= 0 && *ret_version > 0)
        hw_pg_know(pg, stream, *ret_version);
    PQclear(result);
    return s;
}

/* Many in one statement; whoever has no rights on the table asks the function, one by one. */
int hw_pg_stream_versions(hw_store *store, const hw_str *streams, size_t n, int64_t *ret_versions,
                          howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_STREAM_VERSIONS};
    hw_pg_array array;
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    if (n == 1 || !pg->direct_read) {
        for (size_t i = 0; i < n && s >= 0; i++)
            s = stream_version(pg, streams[i], &ret_versions[i], reterr);
        return s;
    }
    hw_buf_clear(&pg->params);
    hw_pg_array_begin(&pg->params, HW_OID_TEXT, n, &array);
    for (size_t i = 0; i < n; i++)
        hw_pg_array_put(&pg->params, streams[i].s, streams[i].len);
    s = hw_buf_check(&pg->params, reterr);
    if (s < 0)
        return s;
    hw_pg_param_bin(&call, pg->params.data, pg->params.len);
    s = hw_pg_query(pg, &call, &result, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        ret_versions[i] = hw_pg_get_int8(result, (int)i, 0);
    PQclear(result);
    return s;
}

int hw_pg_first_since(hw_store *store, int64_t time_us, int64_t *ret_sequence, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_FIRST_SINCE};
    PGresult *result = NULL;
    int s = hw_pg_ready(pg, reterr);

    hw_pg_param_time(&call, time_us);
    if (s >= 0)
        s = hw_pg_query(pg, &call, &result, reterr);
    if (s >= 0)
        *ret_sequence = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s;
}

/*
 * The function gives causes, the event and effects in the order of the contract.  One element
 * more than n: an allocation of nothing may be NULL.
 */
int hw_pg_tree(hw_store *store, const hw_uuid *id, hw_uuid **ret_ids, int **ret_depths,
               size_t *ret_n, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_TREE};
    PGresult *result = NULL;
    hw_uuid *ids;
    int *depths;
    size_t n;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_bin(&call, id->b, sizeof id->b);
    s = hw_pg_query(pg, &call, &result, reterr);
    if (s < 0)
        return s;
    n = (size_t)PQntuples(result);
    ids = hw_calloc(n + 1, sizeof *ids);
    depths = hw_calloc(n + 1, sizeof *depths);
    if (!ids || !depths) {
        hw_free(ids);
        hw_free(depths);
        PQclear(result);
        return hw_fail_no_memory(reterr);
    }
    for (size_t i = 0; i < n; i++) {
        depths[i] = hw_pg_get_int4(result, (int)i, 0);
        (void)hw_pg_get_uuid(result, (int)i, 1, &ids[i]);
    }
    PQclear(result);
    *ret_ids = ids;
    *ret_depths = depths;
    *ret_n = n;
    return HOWDAH_OK;
}
