-- by_correlation(correlation_id text, max_count bigint) -> rows of all_events, by sequence
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.by_correlation(correlation_id text, max_count bigint DEFAULT NULL)
RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.read_events(NULL, NULL, NULL, coalesce(correlation_id, ''), NULL, NULL, max_count, false)
$howdah$;
