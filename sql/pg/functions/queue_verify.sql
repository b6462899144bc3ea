-- queue_findings() -> what is wrong, queue by queue; no row: nothing is wrong
--
-- Checks at one moment of a live store that every job that was pushed is in exactly one place, and that keys and
-- dedup keys belong to jobs that exist (I1, I5, I7 of 0003_queue).  What the next claim or tidying repairs is not
-- wrong: a lease that has run out, history that is too old, a job that was set aside for a key that is free by now
-- (see wake_keys()).
-- Reads: queues, job_data, jobs, leases, history, key_holders, dedups, all of them, so the tables themselves and
-- not their indexes.
CREATE OR REPLACE FUNCTION @schema@.queue_findings()
RETURNS TABLE (queue text, what text, n bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = on
AS $howdah$
    WITH leased AS MATERIALIZED (
        SELECT u.id, u.key_hash, l.queue_id FROM @schema@.leases AS l, unnest(l.ids, l.keys) AS u(id, key_hash)
    ), place AS MATERIALIZED (
        SELECT p.id, min(p.queue_id) AS queue_id, count(*) AS places
        FROM (SELECT j.id, j.queue_id FROM @schema@.jobs AS j
              UNION ALL SELECT l.id, l.queue_id FROM leased AS l
              UNION ALL SELECT e.job_id, e.queue_id FROM @schema@.event_log AS e) AS p
        GROUP BY p.id
    ), wrong AS (
        SELECT d.queue_id, 'jobs are nowhere: not ready, not under a lease, not in the history' AS what
        FROM @schema@.job_data AS d WHERE NOT EXISTS (SELECT FROM place AS p WHERE p.id = d.id)
        UNION ALL
        SELECT p.queue_id, 'jobs are in two places at once' FROM place AS p WHERE p.places > 1
        UNION ALL
        SELECT p.queue_id, 'jobs have no payload' FROM place AS p
        WHERE NOT EXISTS (SELECT FROM @schema@.job_data AS d WHERE d.id = p.id)
        UNION ALL
        SELECT l.queue_id, 'keys have two jobs under way at once' FROM leased AS l WHERE l.key_hash IS NOT NULL
        GROUP BY l.queue_id, l.key_hash HAVING count(*) > 1
        UNION ALL
        SELECT h.queue_id, 'keys are held by a job that is not under way' FROM @schema@.key_holders AS h
        WHERE NOT h.on_hold AND NOT EXISTS (SELECT FROM leased AS l WHERE l.id = h.job_id)
        UNION ALL
        SELECT l.queue_id, 'jobs under way do not hold their key' FROM leased AS l
        WHERE l.key_hash IS NOT NULL
          AND NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                          WHERE h.queue_id = l.queue_id AND h.key_hash = l.key_hash AND h.job_id = l.id)
        UNION ALL
        SELECT d.queue_id, 'dedup keys are held by a job that is over' FROM @schema@.dedups AS d
        WHERE NOT EXISTS (SELECT FROM leased AS l WHERE l.id = d.job_id)
          AND NOT EXISTS (SELECT FROM @schema@.jobs AS j WHERE j.queue_id = d.queue_id AND j.id = d.job_id)
    )
    SELECT coalesce(q.name::text, 'number ' || w.queue_id), w.what, count(*)
    FROM wrong AS w LEFT JOIN @schema@.queues AS q ON q.queue_id = w.queue_id
    GROUP BY 1, 2 ORDER BY 1, 2
$howdah$;
