-- read_stream(stream, first, last, max_count, backward) -> rows of all_events
--
-- The events of one stream by version; first and last included, NULL = open.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.read_stream(
    stream text, first bigint DEFAULT NULL, last bigint DEFAULT NULL,
    max_count bigint DEFAULT NULL, backward boolean DEFAULT false)
RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.read_events(coalesce(stream, ''), NULL, NULL, NULL, first, last, max_count, backward)
$howdah$;
