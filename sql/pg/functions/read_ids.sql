-- read_ids(ids uuid[]) -> rows of all_events, by sequence
--
-- One lookup for each id, whatever the planner estimates: "id = ANY (ids)" ordered by sequence can
-- become a walk through the whole log.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.read_ids(ids uuid[]) RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT e.*
    FROM (SELECT DISTINCT i.one FROM unnest(ids) AS i(one)) AS u,
         LATERAL (SELECT * FROM @schema@.all_events AS x WHERE x.id = u.one LIMIT 1) AS e
    ORDER BY e.global_sequence
$howdah$;

-- read_ranges(firsts bigint[], lasts bigint[], max_count bigint, type, pattern)
--     -> rows of all_events, by sequence
--
-- The events inside any of the sequence ranges (disjoint, in any order), in one snapshot.  A live tail
-- reads numbers that were committed late with it.  type and pattern filter, unless NULL.
-- Reads: events.  Writes, locks: nothing.
DO $howdah$
BEGIN -- drops the old one with three parameters; DROP ... IF EXISTS would give every user a notice
    IF to_regprocedure(quote_ident(@schema_text@) || '.read_ranges(bigint[], bigint[], bigint)') IS NOT NULL THEN
        DROP FUNCTION @schema@.read_ranges(bigint[], bigint[], bigint);
    END IF;
END
$howdah$;
CREATE OR REPLACE FUNCTION @schema@.read_ranges(
    firsts bigint[], lasts bigint[], max_count bigint, type text DEFAULT NULL, pattern text DEFAULT NULL)
RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT e.*
    FROM (SELECT CASE WHEN read_ranges.pattern IS NOT NULL
                      THEN @schema@.pattern_regex(read_ranges.pattern) END AS regex) AS p,
         unnest(firsts, lasts) AS r(first, last),
         LATERAL (SELECT * FROM @schema@.all_events AS x
                  WHERE x.global_sequence BETWEEN r.first AND r.last
                    AND (read_ranges.type IS NULL OR x.type = read_ranges.type)
                    AND (p.regex IS NULL OR x.type ~ p.regex)
                  ORDER BY x.global_sequence LIMIT max_count) AS e
    ORDER BY e.global_sequence LIMIT max_count
$howdah$;

-- stream_version(stream text) -> bigint: the version of a stream's last event, 0 if it has none.
-- head() -> bigint: the highest visible sequence, 0 in an empty log.
-- Read: events.  Write, lock: nothing.
CREATE OR REPLACE FUNCTION @schema@.stream_version(stream text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce((SELECT e.version FROM @schema@.events AS e WHERE e.stream = stream_version.stream
                     ORDER BY e.version DESC LIMIT 1), 0)
$howdah$;

CREATE OR REPLACE FUNCTION @schema@.head() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce(max(e.global_sequence), 0) FROM @schema@.events AS e
$howdah$;

-- first_since(moment timestamptz) -> bigint
--
-- The number of the first event that was recorded at a moment or after it; 0: there is none.  Moments of recording do
-- not always grow with the numbers: some events after it may have been recorded before.
-- Reads: events.
CREATE OR REPLACE FUNCTION @schema@.first_since(moment timestamptz) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    -- + 0: by the index of moments, not from the beginning of the log.
    SELECT coalesce(min(e.global_sequence + 0), 0) FROM @schema@.events AS e WHERE e.recorded_at >= moment
$howdah$;
