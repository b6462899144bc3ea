-- queue_summary() -> one row per queue, by name
--
-- The same as queue_states() for all queues, but without counting their history: completed and failed are NULL.
-- Its cost depends on the jobs that wait, not on those that have ended.  The jobs of a queue without keys are
-- counted in any order; in a queue with keys, the rows with a key are read in the order of jobs_key_idx, so that
-- nothing is sorted.
-- Reads: queues, jobs, key_holders, leases, job_dead_letters.
CREATE OR REPLACE FUNCTION @schema@.queue_summary()
RETURNS TABLE (name text, paused boolean, max_attempts integer, backoff_jitter integer, concurrency integer,
               abandon_after_ms bigint, backoff_initial_ms bigint, backoff_max_ms bigint, history_ms bigint,
               hold_key boolean, created_at timestamptz, pending bigint, processing bigint, scheduled bigint,
               completed bigint, failed bigint, purged bigint, oldest_age_ms bigint, dead_letters bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $howdah$
    SELECT q.name, q.paused, q.max_attempts, q.backoff_jitter, q.concurrency, q.abandon_after_ms,
           q.backoff_initial_ms, q.backoff_max_ms, q.history_ms, q.hold_key, q.created_at,
           j.due, coalesce(l.jobs, 0)::bigint, j.jobs - j.due, NULL::bigint, NULL::bigint, q.purged,
           (extract(epoch FROM clock_timestamp() - j.oldest) * 1000)::bigint, d.dead_letters
    FROM @schema@.queues AS q
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, count(*) FILTER (WHERE x.due) AS due,
               min(x.due_at) FILTER (WHERE x.due) AS oldest
        FROM (SELECT y.due_at, y.due_at <= now() AS due
              FROM @schema@.jobs AS y
              WHERE y.queue_id = q.queue_id AND (y.key_hash IS NULL OR NOT q.keyed)
              UNION ALL
              -- A job that has an earlier one of its key waits, whenever it is due.
              SELECT z.due_at,
                     z.due_at <= now() AND row_number() OVER (PARTITION BY z.key_hash ORDER BY z.id) = 1
                     AND NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                                     WHERE h.queue_id = q.queue_id AND h.key_hash = z.key_hash)
              FROM @schema@.jobs AS z
              WHERE q.keyed AND z.queue_id = q.queue_id AND z.key_hash IS NOT NULL) AS x) AS j
    CROSS JOIN LATERAL (
        SELECT sum(cardinality(x.ids)) AS jobs FROM @schema@.leases AS x WHERE x.queue_id = q.queue_id) AS l
    CROSS JOIN LATERAL (
        SELECT count(*) AS dead_letters FROM @schema@.job_dead_letters AS x
        WHERE x.queue_id = q.queue_id AND x.resolved_at IS NULL) AS d
    ORDER BY q.name
$howdah$;
