-- read_events(stream, type, pattern, correlation_id, first, last, max_count, backward)
--     -> rows of all_events
--
-- The page that all reads use.  Filters that are NULL do not filter.  first and last are versions
-- when a stream is given, else global sequences, both included, NULL = open; rows come in that
-- order.  Each branch is an index scan that ends after max_count rows: it is written so that only
-- one index gives its order, and sorting is switched off, whatever the statistics say.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.read_events(
    stream text, type text, pattern text, correlation_id text, first bigint, last bigint,
    max_count bigint, backward boolean)
RETURNS SETOF @schema@.all_events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_sort = off
SET enable_bitmapscan = off
AS $howdah$
#variable_conflict use_column
DECLARE
    s     constant text := read_events.stream;
    t     constant text := coalesce(read_events.type, CASE WHEN pattern IS NOT NULL THEN @schema@.pattern_type(pattern) END);
    c     constant text := read_events.correlation_id;
    regex constant text := CASE WHEN pattern IS NOT NULL THEN @schema@.pattern_regex(pattern) END;
    lo    constant bigint := coalesce(first, 0);
    hi    constant bigint := coalesce(nullif(last, 0), 9223372036854775807);
    n     constant bigint := coalesce(max_count, 9223372036854775807);
    back  constant boolean := coalesce(backward, false);
BEGIN
    IF s IS NOT NULL AND NOT back THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE e.stream = s AND e.version BETWEEN lo AND hi
              AND (t IS NULL OR e.type = t) AND (regex IS NULL OR e.type ~ regex)
              AND (c IS NULL OR e.correlation_id = c)
            ORDER BY e.version LIMIT n;
    ELSIF s IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE e.stream = s AND e.version BETWEEN lo AND hi
              AND (t IS NULL OR e.type = t) AND (regex IS NULL OR e.type ~ regex)
              AND (c IS NULL OR e.correlation_id = c)
            ORDER BY e.version DESC LIMIT n;
    ELSIF c IS NOT NULL AND NOT back THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE e.correlation_id IS NOT NULL
              AND (e.correlation_id, e.global_sequence) >= (c, lo)
              AND (e.correlation_id, e.global_sequence) <= (c, hi)
              AND (t IS NULL OR e.type = t) AND (regex IS NULL OR e.type ~ regex)
            ORDER BY e.correlation_id, e.global_sequence LIMIT n;
    ELSIF c IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE e.correlation_id IS NOT NULL
              AND (e.correlation_id, e.global_sequence) >= (c, lo)
              AND (e.correlation_id, e.global_sequence) <= (c, hi)
              AND (t IS NULL OR e.type = t) AND (regex IS NULL OR e.type ~ regex)
            ORDER BY e.correlation_id DESC, e.global_sequence DESC LIMIT n;
    ELSIF t IS NOT NULL AND NOT back THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE (e.type, e.global_sequence) >= (t, lo) AND (e.type, e.global_sequence) <= (t, hi)
              AND (regex IS NULL OR e.type ~ regex)
            ORDER BY e.type, e.global_sequence LIMIT n;
    ELSIF t IS NOT NULL THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE (e.type, e.global_sequence) >= (t, lo) AND (e.type, e.global_sequence) <= (t, hi)
              AND (regex IS NULL OR e.type ~ regex)
            ORDER BY e.type DESC, e.global_sequence DESC LIMIT n;
    ELSIF NOT back THEN
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE e.global_sequence BETWEEN lo AND hi AND (regex IS NULL OR e.type ~ regex)
            ORDER BY e.global_sequence LIMIT n;
    ELSE
        RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
            WHERE e.global_sequence BETWEEN lo AND hi AND (regex IS NULL OR e.type ~ regex)
            ORDER BY e.global_sequence DESC LIMIT n;
    END IF;
END
$howdah$;
