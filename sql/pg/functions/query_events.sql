-- family_of(event_id uuid) -> uuid
--
-- The family of any event; NULL: no event has this id.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.family_of(event_id uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce(e.family, e.id) FROM @schema@.events AS e WHERE e.id = event_id
$howdah$;

-- query_events(view, valid_at, known_at, stream, type, pattern, ...) -> rows of all_events
--
-- Every question that can be asked of the log.  Filters are joined by AND; NULL does not filter.
--
--   view             log: every event; originals: first revisions; as_of: of each family the revision
--                    that was known at known_at (NULL: now), unless the family is retracted then, and
--                    only those whose valid time is not after valid_at (NULL: all)
--   family           the id of any event of one family
--   headers          an object: each header equals its value
--   valid_from ...   both times, from included, before excluded
--   order_by         sequence (the log's), valid or recorded: that time, then the sequence
--   after_...        the next page: the last row's time in this order, and its sequence
--   retractions      as_of: retracted families are included, with the revision that retracts them
--
-- Whether an answer as of a time is final: call knowledge() before.
-- Errors: UH004 (family), UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_events(
    view text DEFAULT 'log', valid_at timestamptz DEFAULT NULL, known_at timestamptz DEFAULT NULL,
    stream text DEFAULT NULL, type text DEFAULT NULL, pattern text DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, family uuid DEFAULT NULL, headers json DEFAULT NULL,
    valid_from timestamptz DEFAULT NULL, valid_before timestamptz DEFAULT NULL,
    recorded_from timestamptz DEFAULT NULL, recorded_before timestamptz DEFAULT NULL,
    order_by text DEFAULT 'sequence', backward boolean DEFAULT false, max_count bigint DEFAULT NULL,
    after_time timestamptz DEFAULT NULL, after_sequence bigint DEFAULT NULL, retractions boolean DEFAULT false)
RETURNS SETOF @schema@.all_events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
DECLARE
    q        @schema@.query;
    families uuid[];
    problem  text;
BEGIN
    problem := CASE
        WHEN view IS NULL OR view NOT IN ('log', 'as_of', 'originals') THEN 'view: must be log, as_of or originals'
        WHEN order_by IS NULL OR order_by NOT IN ('sequence', 'valid', 'recorded')
            THEN 'order_by: must be sequence, valid or recorded'
        WHEN view <> 'as_of' AND valid_at IS NOT NULL THEN 'valid_at: only with the view as_of'
        WHEN view <> 'as_of' AND known_at IS NOT NULL THEN 'known_at: only with the view as_of'
        WHEN headers IS NOT NULL THEN @schema@.headers_problem(headers)
        WHEN max_count < 0 THEN 'max_count: must not be negative'
        WHEN after_sequence IS NULL AND after_time IS NOT NULL
             OR order_by <> 'sequence' AND after_sequence IS NOT NULL AND after_time IS NULL
            THEN 'after_sequence: the last row''s time and sequence go together' END;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    PERFORM @schema@.check_known_at(known_at);
    IF family IS NOT NULL THEN
        families := ARRAY[@schema@.family_of(family)];
        IF families[1] IS NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'UH004', MESSAGE = format('no event has the id %s', family);
        END IF;
    END IF;
    IF type IS NULL AND pattern IS NOT NULL AND @schema@.pattern_type(pattern) IS NOT NULL THEN
        PERFORM @schema@.pattern_regex(pattern);
        type := pattern;
        pattern := NULL;
    END IF;
    q := ROW(view, retractions, valid_at, known_at, stream, type, pattern, correlation_id, causation_id, families,
             (SELECT array_agg(h.key) FROM json_each_text(headers) AS h),
             (SELECT array_agg(h.value) FROM json_each_text(headers) AS h),
             valid_from, valid_before, recorded_from, recorded_before, NULL);
    RETURN QUERY SELECT * FROM @schema@.query_page(q, order_by, coalesce(backward, false), max_count, after_time,
                                                   after_sequence);
END
$howdah$;

-- as_of(valid_at, known_at, stream, type, pattern, correlation_id, max_count, order_by, backward,
--       after_time, after_sequence) -> rows of all_events
--
-- "What did we know at known_at about valid_at?": see query_events().
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.as_of(
    valid_at timestamptz DEFAULT NULL, known_at timestamptz DEFAULT NULL, stream text DEFAULT NULL,
    type text DEFAULT NULL, pattern text DEFAULT NULL, correlation_id text DEFAULT NULL,
    max_count bigint DEFAULT NULL, order_by text DEFAULT 'sequence', backward boolean DEFAULT false,
    after_time timestamptz DEFAULT NULL, after_sequence bigint DEFAULT NULL)
RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.query_events(
        'as_of', valid_at, known_at, stream, type, pattern, correlation_id, max_count => max_count,
        order_by => order_by, backward => backward, after_time => after_time, after_sequence => after_sequence)
$howdah$;

-- current_events(stream, type, pattern, correlation_id, max_count, after_sequence) -> rows of all_events
--
-- The facts as they are known now, by sequence: as_of() without times.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.current_events(
    stream text DEFAULT NULL, type text DEFAULT NULL, pattern text DEFAULT NULL, correlation_id text DEFAULT NULL,
    max_count bigint DEFAULT NULL, after_sequence bigint DEFAULT NULL)
RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.query_events('as_of', stream => stream, type => type, pattern => pattern,
                                        correlation_id => correlation_id, max_count => max_count,
                                        after_sequence => after_sequence)
$howdah$;

-- versions(event_id uuid) -> rows of all_events, by revision
--
-- All revisions of the family that this event belongs to; none: no event has this id.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.versions(event_id uuid) RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.query_page(
        ROW('log', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, ARRAY[@schema@.family_of(event_id)],
            NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.query, 'sequence', false, NULL, NULL, NULL)
$howdah$;

-- diff(known_at, known_to, stream, type, pattern, max_count) -> a row for each family that has changed
--
-- How knowledge changed between two moments (known_to NULL: now), ordered by the sequence of what is
-- known at the later moment.  change is added, corrected, retracted or restored; before_... are NULL for
-- added.  A family that was both added and retracted in between is no change.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.diff(
    known_at timestamptz, known_to timestamptz DEFAULT NULL, stream text DEFAULT NULL, type text DEFAULT NULL,
    pattern text DEFAULT NULL, max_count bigint DEFAULT NULL)
RETURNS TABLE (change text, family uuid, event_stream text, event_type text, reason text,
               before_id uuid, before_sequence bigint, before_revision integer, before_valid_time timestamptz,
               before_data json, before_bytes bytea,
               after_id uuid, after_sequence bigint, after_revision integer, after_valid_time timestamptz,
               after_data json, after_bytes bytea)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
#variable_conflict use_column
BEGIN
    IF diff.known_at IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'known_at: must be given';
    ELSIF diff.known_to < diff.known_at THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'known_to: is before known_at';
    ELSIF diff.max_count < 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'max_count: must not be negative';
    END IF;
    PERFORM @schema@.check_known_at(diff.known_at);
    PERFORM @schema@.check_known_at(diff.known_to, 'known_to');
    RETURN QUERY
    SELECT CASE WHEN b.id IS NULL THEN 'added' WHEN a.retracts THEN 'retracted' WHEN b.retracts THEN 'restored'
                ELSE 'corrected' END,
           a.family, a.stream::text, a.type::text, a.reason,
           b.id, b.global_sequence, b.revision, b.valid_time, b.data, b.bytes,
           a.id, a.global_sequence, a.revision, a.valid_time, a.data, a.bytes
    FROM @schema@.query_events('as_of', known_at => diff.known_to, stream => diff.stream, type => diff.type,
                               pattern => diff.pattern, recorded_from => diff.known_at + interval '1 microsecond',
                               retractions => true) WITH ORDINALITY AS a
    LEFT JOIN LATERAL (
        -- The newest revision that was known before: a correction by its key, else the first revision.
        SELECT * FROM (
            (SELECT x.id, x.global_sequence, x.revision, coalesce(x.valid_time, x.recorded_at) AS valid_time, x.data,
                    x.bytes, coalesce(x.retracts, false) AS retracts
             FROM @schema@.events AS x
             WHERE x.family = a.family AND x.revision < a.revision AND x.recorded_at <= diff.known_at
             ORDER BY x.family DESC, x.revision DESC LIMIT 1)
            UNION ALL
            (SELECT y.id, y.global_sequence, y.revision, coalesce(y.valid_time, y.recorded_at), y.data, y.bytes, false
             FROM @schema@.events AS y
             WHERE y.id = a.family AND a.revision > 1 AND y.recorded_at <= diff.known_at)) AS o
        ORDER BY o.revision DESC LIMIT 1) AS b ON true
    WHERE NOT (a.retracts AND coalesce(b.retracts, true))
    ORDER BY a.ordinality
    LIMIT diff.max_count;
END
$howdah$;

-- type_stats(view, valid_at, known_at, stream, type, pattern) -> a row for each type, by name
--
-- events, corrections (revisions above the first), retractions, distinct streams, and first and last
-- of both times, of what the filters let through: see query_events().
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.type_stats(
    view text DEFAULT 'log', valid_at timestamptz DEFAULT NULL, known_at timestamptz DEFAULT NULL,
    stream text DEFAULT NULL, type text DEFAULT NULL, pattern text DEFAULT NULL)
RETURNS TABLE (event_type text, events bigint, corrections bigint, retractions bigint, streams bigint,
               first_valid timestamptz, last_valid timestamptz, first_recorded timestamptz, last_recorded timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
BEGIN
    PERFORM @schema@.check_known_at(known_at);
    RETURN QUERY SELECT * FROM @schema@.query_types(
        ROW(coalesce(view, 'log'), false, valid_at, known_at, stream, type, pattern, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
            NULL, NULL)::@schema@.query);
END
$howdah$;

-- streams_of_type(type, after, max_count, current) -> setof text
--
-- Names of the streams that have events of a type (NULL: of any), by name, those after "after".
-- current: only streams in which one of these events is a fact now, corrected or not.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.streams_of_type(
    type text, after text DEFAULT NULL, max_count bigint DEFAULT NULL, current boolean DEFAULT false)
RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.query_streams(
        ROW(CASE WHEN streams_of_type.current THEN 'as_of' ELSE 'log' END, false, NULL, NULL, NULL, streams_of_type.type, NULL, NULL,
            NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::@schema@.query,
        streams_of_type.after, streams_of_type.max_count)
$howdah$;
