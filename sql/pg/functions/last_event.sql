-- last_event(stream text) -> the last row of all_events of a stream, or nothing
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.last_event(stream text) RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.read_events(coalesce(stream, ''), NULL, NULL, NULL, NULL, NULL, 1, true)
$howdah$;
