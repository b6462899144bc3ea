/*
 * queue_verify.c - whether every job is in exactly one place (0003_queue.sql, I1, I3, I5).
 *
 * It reads every job: it is for howdah verify, not for a look now and then.
 */
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* One statement is one moment. */
#define WRONG_SQL                                                                                  \
    "WITH wrong (queue_id, what) AS ("                                                             \
    " SELECT d.queue_id, 'jobs are nowhere: not ready, not under a lease, not in the history'"     \
    "  FROM main.howdah_job_data d"                                                                \
    "  WHERE NOT EXISTS (SELECT 1 FROM main.howdah_jobs j WHERE j.id = d.id)"                      \
    "  AND NOT EXISTS (SELECT 1 FROM main.howdah_event_log l WHERE l.job_id = d.id)"               \
    " UNION ALL SELECT j.queue_id, 'jobs are in two places at once' FROM main.howdah_jobs j"       \
    "  WHERE EXISTS (SELECT 1 FROM main.howdah_event_log l WHERE l.job_id = j.id)"                 \
    " UNION ALL SELECT p.queue_id, 'jobs have no payload' FROM"                                    \
    "  (SELECT id, queue_id FROM main.howdah_jobs"                                                 \
    "   UNION SELECT job_id, queue_id FROM main.howdah_event_log) p"                               \
    "  WHERE NOT EXISTS (SELECT 1 FROM main.howdah_job_data d WHERE d.id = p.id)"                  \
    " UNION ALL SELECT j.queue_id, 'jobs wait behind nobody of their key' FROM main.howdah_jobs j" \
    "  WHERE j.aside = 1 AND NOT EXISTS (SELECT 1 FROM main.howdah_jobs f"                         \
    "   WHERE f.queue_id = j.queue_id AND f.key = j.key AND f.aside = 0)"                          \
    "  AND NOT EXISTS (SELECT 1 FROM main.howdah_key_holds h"                                      \
    "   WHERE h.queue_id = j.queue_id AND h.key = j.key)"                                          \
    " UNION ALL SELECT j.queue_id, 'jobs do not wait although their key is held'"                  \
    "  FROM main.howdah_jobs j JOIN main.howdah_key_holds h"                                       \
    "  ON h.queue_id = j.queue_id AND h.key = j.key WHERE j.aside = 0)"                            \
    " SELECT coalesce(q.name, 'number ' || w.queue_id), w.what, count(*) FROM wrong w"             \
    " LEFT JOIN main.howdah_queues q ON q.queue_id = w.queue_id GROUP BY 1, 2 ORDER BY 1, 2"

/*
 * A row for each queue and kind of fault; none when all is well.  A queue that is missing itself
 * is named by its number.
 */
int hw_sqlite_queue_verify(hw_store *base, hw_wrong_fn fn, void *ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sqlite3_stmt *stmt = NULL;
    bool stop = false;
    int s = hw_sqlite_ready_to_read(store, reterr);

    if (s >= 0)
        s = hw_sqlite_prepare(store, WRONG_SQL, &stmt, reterr);
    if (s < 0)
        return s;
    while (!stop && (s = hw_sqlite_step(store, stmt, "verify queues", reterr)) == HOWDAH_OK) {
        hw_str queue = hw_sqlite_borrow(stmt, 0);
        hw_str what = hw_sqlite_borrow(stmt, 1);

        if (!queue.s || !what.s)
            s = hw_fail_no_memory(reterr);
        stop = s < 0 || fn(ctx, queue, what, sqlite3_column_int64(stmt, 2)) != 0;
    }
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}
