-- query_count(q query) -> bigint
--
-- How many rows a query has.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_count(q @schema@.query) RETURNS bigint
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    regex  constant text := CASE WHEN q.pattern IS NOT NULL THEN @schema@.pattern_regex(q.pattern) END;
    prefix constant text := @schema@.pattern_prefix(q.pattern);
    n      bigint;
BEGIN
    PERFORM set_config('enable_seqscan', (NOT @schema@.query_is_narrow(q))::text, true);
    EXECUTE 'SELECT count(*) FROM ' || @schema@.query_source(q) || ' WHERE ' || @schema@.query_conditions(q) INTO n
        USING @filters@,
              NULL::timestamptz, NULL::bigint, NULL::bigint, prefix, left(prefix, -1) || '/', q.pin;
    RETURN n;
END
$howdah$;

-- query_types(q query) -> a row for each type, by name
--
-- For each type in a query's rows: events, corrections (revisions above the first), retractions,
-- distinct streams, and the first and last of both times.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_types(q @schema@.query)
RETURNS TABLE (type text, events bigint, corrections bigint, retractions bigint, streams bigint,
               first_valid timestamptz, last_valid timestamptz, first_recorded timestamptz, last_recorded timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    regex  constant text := CASE WHEN q.pattern IS NOT NULL THEN @schema@.pattern_regex(q.pattern) END;
    prefix constant text := @schema@.pattern_prefix(q.pattern);
BEGIN
    PERFORM set_config('enable_seqscan', (NOT @schema@.query_is_narrow(q))::text, true);
    -- Grouped by stream first: count(DISTINCT) would sort all rows.
    RETURN QUERY EXECUTE
        'SELECT s.type::text, sum(s.events)::bigint, sum(s.corrections)::bigint, sum(s.retractions)::bigint, count(*),'
        ' min(s.first_valid), max(s.last_valid), min(s.first_recorded), max(s.last_recorded)'
        ' FROM (SELECT e.type, e.stream, count(*) AS events, count(*) FILTER (WHERE e.revision > 1) AS corrections,'
        '  count(*) FILTER (WHERE e.retracts) AS retractions, min(coalesce(e.valid_time, e.recorded_at)) AS first_valid,'
        '  max(coalesce(e.valid_time, e.recorded_at)) AS last_valid, min(e.recorded_at) AS first_recorded,'
        '  max(e.recorded_at) AS last_recorded FROM ' || @schema@.query_source(q)
        || ' WHERE ' || @schema@.query_conditions(q) || ' GROUP BY e.type, e.stream) AS s GROUP BY s.type ORDER BY s.type'
        USING @filters@,
              NULL::timestamptz, NULL::bigint, NULL::bigint, prefix, left(prefix, -1) || '/', q.pin;
END
$howdah$;

-- query_streams(q query, after text, max_count bigint) -> setof text
--
-- Distinct streams of a query's rows by name, those after "after" (NULL: from the first).  Without
-- filters, each is found by one index lookup after the one before.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_streams(q @schema@.query, after text, max_count bigint) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    regex  constant text := CASE WHEN q.pattern IS NOT NULL THEN @schema@.pattern_regex(q.pattern) END;
    prefix constant text := @schema@.pattern_prefix(q.pattern);
    known  constant timestamptz := coalesce(q.known_at, 'infinity');
    valid  constant timestamptz := coalesce(q.valid_at, 'infinity');
    gone   constant boolean := coalesce(q.retractions, false);
    every  constant boolean := NOT @schema@.query_is_narrow(q) AND q.pattern IS NULL AND q.header_names IS NULL;
    name   text := coalesce(after, '');
    n      bigint := 0;
BEGIN
    WHILE every AND n < coalesce(max_count, 9223372036854775807) LOOP
        SELECT e.stream INTO name FROM @schema@.events AS e WHERE e.stream > name ORDER BY e.stream LIMIT 1;
        EXIT WHEN name IS NULL;
        IF q.view = 'as_of' THEN
            -- All its facts may be later than the moment, or retracted.
            PERFORM FROM @schema@.events AS e
            WHERE e.stream = name AND e.recorded_at <= known AND coalesce(e.valid_time, e.recorded_at) <= valid
              AND (gone OR e.retracts IS NOT TRUE)
              AND NOT EXISTS (SELECT FROM @schema@.events AS x WHERE x.family = coalesce(e.family, e.id)
                              AND x.revision = e.revision + 1 AND x.recorded_at <= known)
            ORDER BY e.version LIMIT 1; -- in this order it is a walk that ends at the first match
            CONTINUE WHEN NOT FOUND;
        END IF;
        RETURN NEXT name;
        n := n + 1;
    END LOOP;
    IF every THEN
        RETURN;
    END IF;
    PERFORM set_config('enable_seqscan', (NOT @schema@.query_is_narrow(q))::text, true);
    RETURN QUERY EXECUTE
        -- The concatenation with '' keeps the planner from walking the index on streams to find a few rows.
        'SELECT DISTINCT (e.stream || '''') COLLATE "C" AS stream FROM ' || @schema@.query_source(q)
        || ' WHERE ' || @schema@.query_conditions(q) || ' AND (e.stream || '''') COLLATE "C" > $15 ORDER BY stream LIMIT $17'
        USING @filters@,
              coalesce(after, ''), NULL::bigint, max_count, prefix, left(prefix, -1) || '/', q.pin;
END
$howdah$;
