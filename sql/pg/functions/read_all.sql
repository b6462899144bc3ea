-- read_all(since, max_count, pattern, last, backward) -> rows of all_events
--
-- All events after the sequence "since" (0 = all), by sequence, optionally of types that match a
-- pattern.  A page: call again with the last sequence of the page before.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.read_all(
    since bigint DEFAULT 0, max_count bigint DEFAULT NULL, pattern text DEFAULT NULL,
    last bigint DEFAULT NULL, backward boolean DEFAULT false)
RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.read_events(NULL, NULL, pattern, NULL,
                                       least(coalesce(since, 0), 9223372036854775806) + 1, last, max_count, backward)
$howdah$;
