/*
 * times_verify.c - whether families, streams, purges and snapshots hold together
 * (0004_times.sql), no event is missing, and each is as it was stored (0006_pins.sql).
 *
 * Numbers are given out with the commit that stores their events, and none is given twice: what
 * was given out is there, or was removed.
 */
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* One statement is one moment. */
#define WRONG_SQL                                                                                  \
    "WITH chained (linked, later, alike, reasoned) AS MATERIALIZED ("                              \
    " SELECT p.id IS NOT NULL AND p.revision = c.revision - 1"                                     \
    "  AND coalesce(p.family, p.id) IS c.family, c.recorded_at > p.recorded_at,"                   \
    "  c.stream IS p.stream AND c.type IS p.type, c.reason IS NOT NULL"                            \
    " FROM main.howdah_events c LEFT JOIN main.howdah_events p ON p.id = c.corrects"               \
    " WHERE c.family IS NOT NULL OR c.corrects IS NOT NULL OR c.revision <> 1),"                   \
    " wrong (what) AS ("                                                                           \
    " SELECT 'corrections do not follow the revision before them' FROM chained WHERE NOT linked"   \
    " UNION ALL SELECT 'corrections are not recorded later than what they correct' FROM chained"   \
    "  WHERE linked AND NOT later"                                                                 \
    " UNION ALL SELECT 'corrections are of another stream or type than what they correct'"         \
    "  FROM chained WHERE linked AND NOT alike"                                                    \
    " UNION ALL SELECT 'corrections have no reason' FROM chained WHERE linked AND NOT reasoned"    \
    " UNION ALL SELECT 'streams lack some of their versions' FROM main.howdah_events"              \
    "  GROUP BY stream HAVING max(version) <> count(*)"                                            \
    " UNION ALL SELECT 'purged events still have a payload' FROM main.howdah_events"               \
    "  WHERE purge IS NOT NULL AND (data <> 'null' OR length(bytes) > 0 OR headers IS NOT NULL)"   \
    " UNION ALL SELECT 'dead letters of purged events still have a payload'"                       \
    "  FROM main.howdah_dead_letters d JOIN main.howdah_events e ON e.id = d.event_id"             \
    "  WHERE e.purge IS NOT NULL"                                                                  \
    "  AND (d.data <> 'null' OR length(d.bytes) > 0 OR d.headers IS NOT NULL)"                     \
    " UNION ALL SELECT 'snapshots are of versions that are not in the log'"                        \
    "  FROM main.howdah_snapshots s WHERE NOT EXISTS (SELECT 1 FROM main.howdah_events e"          \
    "   WHERE e.stream = s.stream AND e.version = s.version))"                                     \
    " SELECT what, count(*) FROM wrong GROUP BY what"                                              \
    " UNION ALL SELECT 'events are missing: their numbers were given out',"                        \
    "  q.seq - (SELECT count(*) FROM main.howdah_events) FROM main.sqlite_sequence q"              \
    "  WHERE q.name = 'howdah_events' AND q.seq > (SELECT count(*) FROM main.howdah_events)"       \
    " ORDER BY 1"

/* Last, because it reads every payload. */
static int tell_changed(hw_sqlite *store, hw_flaw_fn fn, void *ctx, howdah_error *reterr)
{
    int64_t changed = 0;
    int s = hw_sqlite_count_changed(store, &changed, reterr);

    if (s >= 0 && changed > 0)
        (void)fn(ctx, HW_STR_LIT("events are not as they were stored"), changed);
    return s;
}

/* Each flaw is told once, with how often it is there. */
int hw_sqlite_times_verify(hw_store *base, hw_flaw_fn fn, void *ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    bool stop = false;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, WRONG_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    while (!stop && (s = hw_sqlite_step(store, stmt, "verify two times", reterr)) == HOWDAH_OK) {
        hw_str what = hw_sqlite_borrow(stmt, 0);

        if (!what.s)
            s = hw_fail_no_memory(reterr);
        stop = s < 0 || fn(ctx, what, sqlite3_column_int64(stmt, 1)) != 0;
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 || stop ? (s < 0 ? s : HOWDAH_OK) : tell_changed(store, fn, ctx, reterr);
}
