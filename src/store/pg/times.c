/*
 * times.c - the two times on PostgreSQL: what an answer is worth, counts, types and streams.
 *
 *   I1  knowledge() is a statement of its own, and comes first (times.h I3): the snapshots of
 *       later statements see what all transactions that had ended by then have written.
 *   I2  What was final once is final for ever, and so is all that was known before: a session of
 *       ours remembers how far that goes, and then asks for the time only.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/pg/pg.h"

/*
 * I2.  Not in a transaction, whose snapshot may be an old one, nor behind a pooler or on the
 * caller's connection.
 */
static bool is_final(const hw_pg *pg, int64_t known_at)
{
    return pg->final_us > 0 && known_at != HW_TIME_ABSENT && known_at <= pg->final_us &&
           !pg->caller_owned && !pg->pooled && !pg->in_handler;
}

/*
 * I2: the clock alone, where the answer is known.  A query can reconnect; what the old session
 * knew does not count for the new one, so it is asked in full.
 */
static int look(hw_pg *pg, int64_t known_at, PGresult **ret_result, howdah_error *reterr)
{
    hw_pg_call call = {.statement = HW_PG_KNOWLEDGE};
    uint64_t session = pg->session;
    int s;

    if (is_final(pg, known_at)) {
        call.statement = HW_PG_CLOCK;
        s = hw_pg_query(pg, &call, ret_result, reterr);
        if (s < 0 || pg->session == session)
            return s;
        PQclear(*ret_result); /* another session, perhaps of another server */
        call.statement = HW_PG_KNOWLEDGE;
    }
    hw_pg_param_time(&call, known_at);
    return hw_pg_query(pg, &call, ret_result, reterr);
}

/* Judges nothing: whether known_at may be asked for is the bus's to say (times.h). */
static int knowledge(hw_store *store, int64_t known_at, howdah_knowledge *ret_knowledge,
                     howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    PGresult *result = NULL;
    hw_str who;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = look(pg, known_at, &result, reterr);
    if (s < 0)
        return s;
    ret_knowledge->known_at_us = known_at;
    ret_knowledge->asked_at_us = hw_pg_get_time(result, 0, 0);
    ret_knowledge->final = hw_pg_get_bool(result, 0, 1);
    if (ret_knowledge->final && known_at > pg->final_us)
        pg->final_us = known_at;
    who = hw_pg_get_str(result, 0, 2);
    hw_utf8_copy(ret_knowledge->waits_for, sizeof ret_knowledge->waits_for, who.s ? who.s : "");
    PQclear(result);
    return HOWDAH_OK;
}

/* One statement about a query; more adds the parameters after those of the query. */
static int ask(hw_pg *pg, hw_pg_statement statement, const hw_times_query *q,
               void (*more)(hw_pg_call *call, const void *ctx), const void *ctx,
               PGresult **ret_result, howdah_error *reterr)
{
    hw_pg_call call = {.statement = (int)statement};
    hw_pg_times_query *query = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = hw_pg_times_query_new(q, &query, reterr);
    if (s < 0)
        return s;
    hw_pg_param_query(&call, query);
    if (more)
        more(&call, ctx);
    s = hw_pg_query(pg, &call, ret_result, reterr);
    hw_pg_times_query_free(query);
    return s;
}

static int count(hw_store *store, const hw_times_query *query, int64_t *ret_count,
                 howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = ask((hw_pg *)store, HW_PG_QUERY_COUNT, query, NULL, NULL, &result, reterr);

    if (s >= 0)
        *ret_count = hw_pg_get_int8(result, 0, 0);
    PQclear(result);
    return s;
}

/* Sums of one statement, so of one moment. */
static int types(hw_store *store, const hw_times_query *query, hw_type_stats_fn fn, void *ctx,
                 howdah_error *reterr)
{
    PGresult *r = NULL;
    int s = ask((hw_pg *)store, HW_PG_QUERY_TYPES, query, NULL, NULL, &r, reterr);

    for (int i = 0; s >= 0 && i < PQntuples(r); i++) {
        const howdah_type_stats stats = {
            .size = sizeof stats,
            .type = hw_pg_get_str(r, i, 0).s,
            .events = hw_pg_get_int8(r, i, 1),
            .corrections = hw_pg_get_int8(r, i, 2),
            .retractions = hw_pg_get_int8(r, i, 3),
            .streams = hw_pg_get_int8(r, i, 4),
            .first_valid_us = hw_pg_get_time(r, i, 5),
            .last_valid_us = hw_pg_get_time(r, i, 6),
            .first_recorded_us = hw_pg_get_time(r, i, 7),
            .last_recorded_us = hw_pg_get_time(r, i, 8),
        };

        if (fn(ctx, &stats) != 0)
            break;
    }
    PQclear(r);
    return s;
}

/* What streams() asks for besides its query. */
typedef struct stream_page {
    hw_str after;
    int64_t limit;
} stream_page;

static void param_page(hw_pg_call *call, const void *ctx)
{
    const stream_page *page = ctx;

    assert(page->limit > 0);
    hw_pg_param_str(call, page->after);
    hw_pg_param_int8(call, page->limit);
}

/* One page; the caller asks for the next with the last name that it got. */
static int streams(hw_store *store, const hw_times_query *query, hw_str after, int64_t limit,
                   hw_stream_fn fn, void *ctx, howdah_error *reterr)
{
    const stream_page page = {after, limit};
    PGresult *r = NULL;
    int s = ask((hw_pg *)store, HW_PG_QUERY_STREAMS, query, param_page, &page, &r, reterr);

    for (int i = 0; s >= 0 && i < PQntuples(r); i++)
        if (fn(ctx, hw_pg_get_str(r, i, 0)) != 0)
            break;
    PQclear(r);
    return s;
}

const hw_times_ops hw_pg_times_ops = {
    .knowledge = knowledge,
    .query_open = hw_pg_query_open,
    .count = count,
    .types = types,
    .streams = streams,
    .snapshot_put = hw_pg_snapshot_put,
    .snapshot_get = hw_pg_snapshot_get,
    .snapshot_list = hw_pg_snapshot_list,
    .snapshot_remove = hw_pg_snapshot_remove,
    .purge = hw_pg_purge,
    .purges = hw_pg_purges,
    .verify = hw_pg_times_verify,
};
