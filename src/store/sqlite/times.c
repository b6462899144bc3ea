/*
 * times.c - what was known when, how much of it there is, and the table of these operations.
 *
 *   I1  What was known at K is final when no event can be recorded at or before K any more.
 *       Recorded times never decrease (append.c, I4), so this is so
 *         - when the last committed event was recorded after K, whatever the clock does, or
 *         - when K lies before the clock and nobody holds the write lock: a writer that takes it
 *           later reads the clock later.  A clock that is set back by hand, to before K, breaks
 *           this.
 *   I2  Inside an open transaction neither can be told: it may have written, or see an old
 *       snapshot, and it holds the only lock there is.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

#define GO_ON_EVERY 16384 /* rows between two looks at interrupt and deadline */

#define LAST_SQL "SELECT recorded_at FROM main.howdah_events ORDER BY global_sequence DESC LIMIT 1"

/* ---------------------------------------------------------------- knowledge */

/* Whether the write lock is free, without waiting for it.  Taking it is the only way to know. */
static int probe(hw_sqlite *store, bool *ret_free, howdah_error *reterr)
{
    int rc;

    store->impatient = true;
    rc = sqlite3_exec(store->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    store->impatient = false;
    *ret_free = rc == SQLITE_OK;
    if (rc == SQLITE_OK)
        hw_sqlite_end_read(store);
    else if ((rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_LOCKED)
        return hw_sqlite_fail(store, rc, "knowledge", reterr);
    return HOWDAH_OK;
}

/* For a person: who has to end before the answer is final. */
static void waits_for(howdah_knowledge *k, const char *whom)
{
    (void)sqlite3_snprintf(sizeof k->waits_for, k->waits_for, "%s", whom);
}

/* I1, for a time before the clock.  The last event is asked first: it needs no lock. */
static int judge(hw_sqlite *store, howdah_knowledge *k, howdah_error *reterr)
{
    int64_t last = HW_TIME_ABSENT;
    bool free = false;
    int s;

    if (!sqlite3_get_autocommit(store->db)) {
        waits_for(k, "the transaction that is open on this connection"); /* I2 */
        return HOWDAH_OK;
    }
    s = hw_sqlite_number(store, LAST_SQL, HW_TIME_ABSENT, &last, reterr);
    if (s < 0)
        return s;
    if (last != HW_TIME_ABSENT && k->known_at_us < last) {
        k->final = true;
        return HOWDAH_OK;
    }
    if (store->read_only || sqlite3_db_readonly(store->db, "main") == 1) {
        waits_for(k, "writers, which a read-only connection cannot see");
        return HOWDAH_OK;
    }
    s = probe(store, &free, reterr);
    if (s < 0)
        return s;
    k->final = free;
    if (!free)
        waits_for(k, "another connection, which is writing");
    return HOWDAH_OK;
}

/* The clock is read before the lock is looked at (I1).  A time that has not come yet is never
   final. */
static int knowledge(hw_store *base, int64_t known_at, howdah_knowledge *ret_knowledge,
                     howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    k.known_at_us = known_at;
    k.asked_at_us = hw_clock_wall_us(); /* before the look at writers */
    if (known_at != HW_TIME_ABSENT && known_at < k.asked_at_us)
        s = judge(store, &k, reterr);
    if (s >= 0)
        *ret_knowledge = k;
    return s;
}

/* ----------------------------------------------------------------- counting */

/* With a pattern that the statement cannot decide, the rows are counted here (times_query_sql.c
 * I3). */
static int count_rows(hw_sqlite *store, const hw_times_query *query, sqlite3_stmt *stmt,
                      int64_t *ret_count, howdah_error *reterr)
{
    int64_t n = 0;
    int s;

    for (int64_t rows = 1; (s = hw_sqlite_step(store, stmt, "count", reterr)) == HOWDAH_OK;
         rows++) {
        if (!query->pattern.s) {
            *ret_count = sqlite3_column_int64(stmt, 0);
            return HOWDAH_OK;
        }
        n += hw_sqlite_select_matches(query, stmt, 0);
        if (rows % GO_ON_EVERY == 0 && (s = hw_sqlite_go_on(store, reterr)) < 0)
            return s;
    }
    if (s == HOWDAH_END)
        *ret_count = n;
    return s < 0 ? s : HOWDAH_OK;
}

/* The statement counts by itself unless there is a pattern. */
static int count(hw_store *base, const hw_times_query *query, int64_t *ret_count,
                 howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_select ask;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    hw_sqlite_select_init(&ask);
    hw_sqlite_select_add(&ask, query->pattern.s ? "SELECT e.type" : "SELECT count(*)");
    hw_sqlite_select_from(&ask, query, hw_sqlite_select_lead(query), false, 0);
    s = hw_sqlite_select_prepare(store, &ask, &stmt, reterr);
    if (s >= 0)
        s = count_rows(store, query, stmt, ret_count, reterr);
    hw_sqlite_select_over(store, stmt);
    hw_sqlite_select_done(&ask);
    return s;
}

/* -------------------------------------------------------------------- types */

#define TYPES_SQL                                                                                  \
    "SELECT e.type, count(*), sum(e.revision > 1), sum(e.retracts IS 1), count(DISTINCT "          \
    "e.stream),"                                                                                   \
    " min(coalesce(e.valid_time, e.recorded_at)), max(coalesce(e.valid_time, e.recorded_at)),"     \
    " min(e.recorded_at), max(e.recorded_at)"

static int hand_type(sqlite3_stmt *stmt, hw_type_stats_fn fn, void *ctx, bool *ret_stop,
                     howdah_error *reterr)
{
    hw_str type = hw_sqlite_borrow_value(stmt, 0);
    howdah_type_stats stats = {.size = sizeof stats,
                               .type = type.s,
                               .events = sqlite3_column_int64(stmt, 1),
                               .corrections = sqlite3_column_int64(stmt, 2),
                               .retractions = sqlite3_column_int64(stmt, 3),
                               .streams = sqlite3_column_int64(stmt, 4),
                               .first_valid_us = sqlite3_column_int64(stmt, 5),
                               .last_valid_us = sqlite3_column_int64(stmt, 6),
                               .first_recorded_us = sqlite3_column_int64(stmt, 7),
                               .last_recorded_us = sqlite3_column_int64(stmt, 8)};

    if (!type.s)
        return hw_fail_no_memory(reterr);
    *ret_stop = fn(ctx, &stats) != 0;
    return HOWDAH_OK;
}

/* A pattern is asked about each type, not about each event. */
static int hand_types(hw_sqlite *store, const hw_times_query *query, hw_sqlite_held *held,
                      hw_type_stats_fn fn, void *ctx, howdah_error *reterr)
{
    sqlite3_stmt *row = NULL;
    bool stop = false;
    int s = HOWDAH_OK;

    while (s >= 0 && !stop && (s = hw_sqlite_held_next(held, store, &row, reterr)) == HOWDAH_OK)
        if (hw_sqlite_select_matches(query, row, 0))
            s = hand_type(row, fn, ctx, &stop, reterr);
    return s < 0 ? s : HOWDAH_OK;
}

/* All types are read before fn sees the first: the statement reads the log, and must not stay
   open. */
static int types(hw_store *base, const hw_times_query *query, hw_type_stats_fn fn, void *ctx,
                 howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_held held = {.whole = true}; /* types are few, and finding them reads the log */
    hw_sqlite_select ask;
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s < 0)
        return s;
    hw_sqlite_select_init(&ask);
    hw_sqlite_select_add(&ask, TYPES_SQL);
    /* Without a lead the log is read as it lies and sorted: the index of types would jump. */
    hw_sqlite_select_from(&ask, query, hw_sqlite_select_lead(query), true, 0);
    hw_sqlite_select_add(&ask, " GROUP BY e.type ORDER BY e.type");
    hw_sqlite_temp_in_file(store, true); /* streams may be many */
    s = hw_sqlite_select_prepare(store, &ask, &stmt, reterr);
    if (s >= 0)
        s = hw_sqlite_hold(&held, store, stmt, "look at types", reterr);
    hw_sqlite_select_over(store, stmt);
    hw_sqlite_temp_in_file(store, false);
    if (s >= 0)
        s = hand_types(store, query, &held, fn, ctx, reterr);
    hw_sqlite_held_done(&held);
    hw_sqlite_select_done(&ask);
    return s;
}

/* ------------------------------------------------------------------ streams */

/*
 * Where another filter leads, its rows are sorted once.  Otherwise the index of streams is
 * walked, and as soon as a stream has been found the statement begins again after it: the other
 * events of that stream are not looked at.
 */
typedef struct stream_walk {
    hw_sqlite *store;
    const hw_times_query *query;
    sqlite3_stmt *stmt;
    bool skips;    /* it begins again after each stream */
    int after_no;  /* the parameter */
    hw_buf stream; /* the last one */
    hw_buf found;  /* all, each ended by a NUL: nobody is called while the statement runs */
    bool begun;
} stream_walk;

#define STREAM_BYTES_MAX (64 * 1024)
#define STREAMS_BYTES_MAX (64 * 1024 * 1024)

/* The next stream, in w->stream.  HOWDAH_END: no more.  Several rows can be of the same stream:
   all but the first are passed over. */
static int next_stream(stream_walk *w, howdah_error *reterr)
{
    for (;;) {
        hw_str stream;
        int s = hw_sqlite_step(w->store, w->stmt, "look at streams", reterr);

        if (s != HOWDAH_OK)
            return s;
        stream = hw_sqlite_borrow_value(w->stmt, 0);
        if (!stream.s)
            return hw_fail_no_memory(reterr);
        if (!hw_sqlite_select_matches(w->query, w->stmt, 1) ||
            (w->begun && hw_str_equal(stream, (hw_str){hw_buf_str(&w->stream), w->stream.len})))
            continue;
        w->begun = true;
        hw_buf_clear(&w->stream);
        hw_buf_put(&w->stream, stream.s, stream.len);
        return hw_buf_check(&w->stream, reterr);
    }
}

/* All of them before fn sees the first: see the field found.  Each stream has a deadline of its
   own. */
static int find_streams(stream_walk *w, int64_t limit, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (int64_t n = 0; n < limit; n++) {
        hw_str stream;

        s = next_stream(w, reterr);
        if (s != HOWDAH_OK)
            break;
        stream = (hw_str){hw_buf_str(&w->stream), w->stream.len};
        hw_buf_put(&w->found, stream.s, stream.len + 1);
        if (w->skips) {
            (void)sqlite3_reset(w->stmt);
            (void)sqlite3_bind_text64(w->stmt, w->after_no, stream.s, stream.len, SQLITE_TRANSIENT,
                                      SQLITE_UTF8);
        }
        s = hw_sqlite_go_on(w->store, reterr);
        if (s < 0)
            break;
    }
    return s < 0 ? s : hw_buf_check(&w->found, reterr);
}

/* fn may use the store: nothing is open any more. */
static void hand_streams(const stream_walk *w, hw_stream_fn fn, void *ctx)
{
    const char *end = w->found.data + w->found.len;

    for (const char *at = w->found.data; at < end;) {
        hw_str stream = hw_str_of(at);

        if (fn(ctx, stream) != 0)
            return;
        at += stream.len + 1;
    }
}

/* The page begins after the stream "after". */
static int streams(hw_store *base, const hw_times_query *query, hw_str after, int64_t limit,
                   hw_stream_fn fn, void *ctx, howdah_error *reterr)
{
    hw_sqlite_lead lead = hw_sqlite_select_lead(query);
    stream_walk w = {.store = (hw_sqlite *)base,
                     .query = query,
                     .skips = lead == HW_LEAD_NONE || lead == HW_LEAD_STREAM,
                     .stream = HW_BUF_INIT(STREAM_BYTES_MAX),
                     .found = HW_BUF_INIT(STREAMS_BYTES_MAX)};
    hw_sqlite_select ask;
    int s = hw_sqlite_ready_to_read(w.store, reterr);

    assert(limit > 0);
    if (s < 0)
        return s;
    hw_sqlite_select_init(&ask);
    hw_sqlite_select_add(&ask,
                         w.skips ? "SELECT e.stream, e.type" : "SELECT DISTINCT e.stream, e.type");
    hw_sqlite_select_from(&ask, query, w.skips ? HW_LEAD_STREAM : lead, false, 0);
    hw_sqlite_select_add(&ask, " AND e.stream > ? ORDER BY e.stream");
    hw_sqlite_select_text(&ask, after.s ? after : HW_STR_LIT(""));
    w.after_no = ask.n;
    hw_sqlite_temp_in_file(w.store, true);
    s = hw_sqlite_select_prepare(w.store, &ask, &w.stmt, reterr);
    if (s >= 0)
        s = find_streams(&w, limit, reterr);
    hw_sqlite_select_over(w.store, w.stmt);
    hw_sqlite_temp_in_file(w.store, false);
    if (s >= 0)
        hand_streams(&w, fn, ctx);
    hw_buf_done(&w.stream);
    hw_buf_done(&w.found);
    hw_sqlite_select_done(&ask);
    return s;
}

const hw_times_ops hw_sqlite_times_ops = {
    .knowledge = knowledge,
    .query_open = hw_sqlite_query_open,
    .count = count,
    .types = types,
    .streams = streams,
    .snapshot_put = hw_sqlite_snapshot_put,
    .snapshot_get = hw_sqlite_snapshot_get,
    .snapshot_list = hw_sqlite_snapshot_list,
    .snapshot_remove = hw_sqlite_snapshot_remove,
    .purge = hw_sqlite_purge,
    .purges = hw_sqlite_purges,
    .verify = hw_sqlite_times_verify,
};
