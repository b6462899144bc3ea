-- times_findings() -> what is wrong with families, streams, purges and snapshots; no row: nothing is wrong
--
-- Checks at one moment of a live store that every family is one chain (I1 to I3 of 0004_times), every
-- stream has all its versions, purged events have no payload, and snapshots are of versions that exist.
-- Reads: events, dead_letters, snapshots, all of them, so the tables themselves and not their indexes.
CREATE OR REPLACE FUNCTION @schema@.times_findings()
RETURNS TABLE (what text, n bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = on
AS $howdah$
    WITH chained AS MATERIALIZED (
        SELECT p.id IS NOT NULL AND p.revision = c.revision - 1 AND coalesce(p.family, p.id) = c.family AS linked,
               c.recorded_at > p.recorded_at AS later,
               (c.stream, c.type) IS NOT DISTINCT FROM (p.stream, p.type) AS alike,
               c.reason IS NOT NULL AS reasoned
        FROM @schema@.events AS c LEFT JOIN @schema@.events AS p ON p.id = c.corrects
        WHERE c.family IS NOT NULL OR c.corrects IS NOT NULL OR c.revision <> 1
    ), wrong AS (
        SELECT 'corrections do not follow the revision before them' AS what FROM chained AS c WHERE c.linked IS NOT true
        UNION ALL
        SELECT 'corrections are not recorded later than what they correct' FROM chained AS c WHERE c.linked AND NOT c.later
        UNION ALL
        SELECT 'corrections are of another stream or type than what they correct' FROM chained AS c
        WHERE c.linked AND NOT c.alike
        UNION ALL
        SELECT 'corrections have no reason' FROM chained AS c WHERE c.linked AND NOT c.reasoned
        UNION ALL
        SELECT 'streams lack some of their versions' FROM @schema@.events AS e GROUP BY e.stream
        HAVING max(e.version) <> count(*)
        UNION ALL
        SELECT 'purged events still have a payload' FROM @schema@.events AS e
        WHERE e.purge IS NOT NULL
          AND (e.data::text <> 'null' OR octet_length(e.bytes) > 0 OR e.headers IS NOT NULL)
        UNION ALL
        SELECT 'dead letters of purged events still have a payload'
        FROM @schema@.dead_letters AS d JOIN @schema@.events AS e ON e.id = d.event_id
        WHERE e.purge IS NOT NULL
          AND (d.data::text <> 'null' OR octet_length(d.bytes) > 0 OR d.headers IS NOT NULL)
        UNION ALL
        SELECT 'snapshots are of versions that are not in the log' FROM @schema@.snapshots AS s
        WHERE NOT EXISTS (SELECT FROM @schema@.events AS e WHERE e.stream = s.stream AND e.version = s.version)
    )
    SELECT w.what, count(*) FROM wrong AS w GROUP BY w.what ORDER BY w.what
$howdah$;
