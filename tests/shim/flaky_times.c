/*
 * flaky_times.c - the part of the failing store that the two times need; see flaky.c.
 *
 *   I1  What would be handed over (types, streams, snapshots, records) is not when the operation is
 *       made to fail before it; a walk that is made to fail behind it has handed all of it over.
 */
#include "flaky_call.h"

#define TIMES_FORWARD(c, op, ...)                                                                  \
    ((c)->status < 0                                                                               \
         ? (c)->status                                                                             \
         : hw_flaky_end((c), (c)->inner->ops->times->op((c)->inner, __VA_ARGS__, (c)->reterr)))

static int flaky_knowledge(hw_store *store, int64_t known_at, howdah_knowledge *ret_knowledge,
                           howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    howdah_knowledge knowledge = HOWDAH_KNOWLEDGE_INIT;

    if (TIMES_FORWARD(&c, knowledge, known_at, &knowledge) >= 0)
        *ret_knowledge = knowledge;
    return c.status;
}

/* ------------------------------------------------------------------ queries */

static int flaky_query_open(hw_store *store, const hw_times_query *query, hw_cursor **ret_cursor,
                            howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    hw_cursor *inner = NULL;
    int s = TIMES_FORWARD(&c, query_open, query, &inner);

    return hw_flaky_cursor(store, inner, s, ret_cursor, reterr);
}

static int flaky_count(hw_store *store, const hw_times_query *query, int64_t *ret_count,
                       howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    int64_t count = 0;

    if (TIMES_FORWARD(&c, count, query, &count) >= 0)
        *ret_count = count;
    return c.status;
}

static int flaky_types(hw_store *store, const hw_times_query *query, hw_type_stats_fn fn, void *ctx,
                       howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return TIMES_FORWARD(&c, types, query, fn, ctx);
}

static int flaky_streams(hw_store *store, const hw_times_query *query, hw_str after, int64_t limit,
                         hw_stream_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return TIMES_FORWARD(&c, streams, query, after, limit, fn, ctx);
}

/* ---------------------------------------------------------------- snapshots */

static int flaky_snapshot_put(hw_store *store, const howdah_snapshot *snapshot, int64_t keep,
                              howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return TIMES_FORWARD(&c, snapshot_put, snapshot, keep);
}

static int flaky_snapshot_get(hw_store *store, hw_str stream, int64_t version, hw_snapshot_fn fn,
                              void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return TIMES_FORWARD(&c, snapshot_get, stream, version, fn, ctx);
}

static int flaky_snapshot_list(hw_store *store, hw_str stream, hw_snapshot_fn fn, void *ctx,
                               howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return TIMES_FORWARD(&c, snapshot_list, stream, fn, ctx);
}

static int flaky_snapshot_remove(hw_store *store, hw_str stream, int64_t upto, int64_t *ret_removed,
                                 howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    int64_t removed = 0;

    if (TIMES_FORWARD(&c, snapshot_remove, stream, upto, &removed) >= 0 && ret_removed)
        *ret_removed = removed;
    return c.status;
}

/* -------------------------------------------------------------------- purge */

static int flaky_purge(hw_store *store, const hw_purge *purge, howdah_purge_record *ret_record,
                       howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin_op(store, HW_FLAKY_WRITES, HW_FLAKY_OP_PURGE, reterr);
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;

    if (TIMES_FORWARD(&c, purge, purge, &record) >= 0 && ret_record)
        *ret_record = record;
    return c.status;
}

static int flaky_purges(hw_store *store, hw_purge_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return TIMES_FORWARD(&c, purges, fn, ctx);
}

static int flaky_verify(hw_store *store, hw_flaw_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return TIMES_FORWARD(&c, verify, fn, ctx);
}

const hw_times_ops hw_flaky_times_ops = {
    .knowledge = flaky_knowledge,
    .query_open = flaky_query_open,
    .count = flaky_count,
    .types = flaky_types,
    .streams = flaky_streams,
    .snapshot_put = flaky_snapshot_put,
    .snapshot_get = flaky_snapshot_get,
    .snapshot_list = flaky_snapshot_list,
    .snapshot_remove = flaky_snapshot_remove,
    .purge = flaky_purge,
    .purges = flaky_purges,
    .verify = flaky_verify,
};
