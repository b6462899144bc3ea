-- contradiction(streams, expected) -> bigint or NULL
--
-- The first event of a batch, from 1, whose expectation cannot be true if those of earlier events of the same stream
-- are.  A version that an event expects is one that the earlier ones of the batch have raised; that it exists says
-- nothing but of the first one.  The same as hw_batch_init() of the library.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.contradiction(streams text[], expected bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    WITH given AS (
        SELECT u.i, u.stream, u.x, row_number() OVER (PARTITION BY u.stream ORDER BY u.i) - 1 AS before
        FROM unnest(streams, expected) WITH ORDINALITY AS u(stream, x, i)
    ), exact AS (
        SELECT g.i, g.stream, g.x - g.before AS base, first_value(g.x - g.before) OVER (PARTITION BY g.stream ORDER BY g.i) AS first_base
        FROM given AS g WHERE g.x >= 0
    )
    SELECT min(e.i) FROM exact AS e
    WHERE e.base < 0 OR e.base <> e.first_base
       OR e.base = 0 AND EXISTS (SELECT FROM given AS g WHERE g.stream = e.stream AND g.before = 0 AND g.x = -2)
$howdah$;

-- append_arrays(ids, streams, types, ...) -> one row per event, in order
--
-- Appends events given as parallel arrays, all or none, with consecutive versions per stream;
-- append(), append_batch() and clients without table rights use it.
--
--   ids              NULL elements get a new UUIDv7
--   expected         per event, about its stream just before that event: -1 or NULL any, -2 it
--                    exists, 0 it has no event, N its last version is N
--
-- Errors: UH003 conflict (DETAIL: the actual version), UH009 id stored with other content,
-- UH006 invalid input, UH008 the sequence is lower than the numbers in use (see sequence_problem()).
-- Reads: events, meta, subscriptions, bell.  Writes: events, events_global_sequence_seq; rings (see ring_inside()).
-- Locks: only the rows it inserts.  After two lost races for a stream, also an advisory transaction
-- lock (one of 512 that the streams share), so that many writers take turns.
CREATE OR REPLACE FUNCTION @schema@.append_arrays(
    ids uuid[], streams text[], types text[], datas json[], headerses json[],
    correlation_ids text[], causation_ids uuid[], actors text[], valid_times timestamptz[],
    schema_versions integer[], byteses bytea[], content_types text[], expected bigint[])
RETURNS TABLE (global_sequence bigint, id uuid, version bigint, revision integer,
               recorded_at timestamptz, already_stored boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    n           constant integer := coalesce(array_length(streams, 1), 0);
    payload_max constant integer := coalesce(
        (SELECT m.value::integer FROM @schema@.meta AS m WHERE m.key = 'payload_bytes_max'), 1048576);
    problem     text;
    prefix      text;
    stored      @schema@.events;
    actual      bigint;
    wanted      bigint;
    lost_races  integer;
    event_id    uuid;
    touched     text[] := '{}';
    contradicts bigint;
    earlier     bigint;
BEGIN
    IF n > 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format('events: at most 100000 in a batch, got %s', n);
    END IF;
    FOR i IN 1..n LOOP
        problem := @schema@.event_problem(
            streams[i], types[i], datas[i], headerses[i], correlation_ids[i], actors[i],
            valid_times[i], coalesce(schema_versions[i], 1), byteses[i], content_types[i], payload_max);
        IF problem IS NULL AND coalesce(expected[i], -1) < -2 THEN
            problem := 'expected_version: must be a version, 0 (no stream), -1 (any) or -2 (stream exists)';
        END IF;
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'UH006',
                MESSAGE = CASE WHEN n > 1 THEN format('event %s: ', i) ELSE '' END || problem;
        END IF;
    END LOOP;
    -- This session has not checked the sequence yet, or the sequence went back since.
    IF coalesce(pg_sequence_last_value(@sequence_text@::regclass), 0)
       < coalesce(nullif(current_setting('howdah.sequence_' || @sequence_text@::regclass::oid::text, true), '')::bigint,
                  9223372036854775807) THEN
        PERFORM @schema@.check_sequence(false);
    END IF;
    IF EXISTS (SELECT FROM unnest(ids) AS u(one) WHERE u.one IS NOT NULL GROUP BY u.one HAVING count(*) > 1) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format(
            'event %s: id: two events of the batch have the same id',
            (SELECT min(v.i) FROM (SELECT u.i, row_number() OVER (PARTITION BY u.one ORDER BY u.i) AS nth
                                   FROM unnest(ids) WITH ORDINALITY AS u(one, i) WHERE u.one IS NOT NULL) AS v
             WHERE v.nth = 2));
    END IF;
    IF n > 1 AND EXISTS (SELECT FROM unnest(expected) AS u(x) WHERE u.x >= 0) THEN
        contradicts := @schema@.contradiction(streams, expected);
        IF contradicts IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format(
                'event %s: expected_version: contradicts what earlier events of the batch expect of the same stream',
                contradicts);
        END IF;
    END IF;

    FOR i IN 1..n LOOP
        prefix := CASE WHEN n > 1 THEN format('event %s: ', i) ELSE '' END;
        event_id := coalesce(ids[i], @schema@.uuid_v7());
        lost_races := 0;
        LOOP
            IF ids[i] IS NOT NULL THEN
                SELECT * INTO stored FROM @schema@.events AS e WHERE e.id = event_id;
                IF FOUND THEN
                    -- A purged event has no payload to compare.
                    IF (stored.stream, stored.type,
                        CASE WHEN stored.purge IS NULL THEN stored.data::text ELSE datas[i]::text END,
                        CASE WHEN stored.purge IS NULL THEN stored.bytes ELSE byteses[i] END,
                        CASE WHEN stored.purge IS NULL THEN stored.content_type ELSE content_types[i] END,
                        coalesce(CASE WHEN stored.purge IS NULL THEN stored.headers::text ELSE headerses[i]::text END, '{}'),
                        stored.correlation_id, stored.causation_id,
                        stored.actor, stored.schema_version,
                        coalesce(valid_times[i], stored.valid_time, stored.recorded_at))
                       IS DISTINCT FROM
                       (streams[i], types[i], datas[i]::text, byteses[i], content_types[i],
                        coalesce(headerses[i]::text, '{}'), correlation_ids[i], causation_ids[i],
                        actors[i], coalesce(schema_versions[i], 1),
                        coalesce(stored.valid_time, stored.recorded_at)) THEN
                        RAISE EXCEPTION USING ERRCODE = 'UH009',
                            MESSAGE = prefix || format('event id %s is stored with other content, at sequence %s',
                                                       event_id, stored.global_sequence);
                    END IF;
                    touched := touched || streams[i];
                    RETURN QUERY SELECT stored.global_sequence, event_id, stored.version::bigint, stored.revision,
                                        stored.recorded_at, true;
                    EXIT;
                END IF;
            END IF;
            -- Not max(): while the log is small it is planned as a walk over the whole stream, and the plan is kept.
            actual := coalesce((SELECT e.version FROM @schema@.events AS e WHERE e.stream = streams[i]
                                ORDER BY e.version DESC LIMIT 1), 0);
            wanted := CASE WHEN streams[i] = ANY (touched) THEN -1 ELSE coalesce(expected[i], -1) END;
            IF NOT (wanted = -1 OR (wanted = -2 AND actual > 0) OR wanted = actual) THEN
                -- As if none of the batch were stored: that is what its caller finds.
                earlier := (SELECT count(*) FROM unnest(streams[1 : i - 1]) AS u(one) WHERE u.one = streams[i]);
                actual := actual - earlier;
                wanted := CASE WHEN wanted < 0 THEN wanted ELSE wanted - earlier END;
                RAISE EXCEPTION USING ERRCODE = 'UH003',
                    MESSAGE = prefix || format('stream is at version %s, expected %s', actual,
                                               CASE wanted WHEN -2 THEN 'one that exists'
                                                           WHEN 0 THEN 'no stream'
                                                           ELSE wanted::text END),
                    DETAIL = actual::text;
            END IF;
            RETURN QUERY
            INSERT INTO @schema@.events AS e
                (id, stream, version, type, data, headers, correlation_id, causation_id, actor,
                 valid_time, schema_version, bytes, content_type)
            VALUES (event_id, streams[i], actual + 1, types[i], datas[i], headerses[i],
                    correlation_ids[i], causation_ids[i], actors[i], valid_times[i],
                    coalesce(schema_versions[i], 1), byteses[i], content_types[i])
            ON CONFLICT DO NOTHING
            RETURNING e.global_sequence, e.id, e.version::bigint, e.revision, e.recorded_at, false;
            EXIT WHEN FOUND;
            PERFORM @schema@.check_sequence(true);
            lost_races := lost_races + 1;
            IF lost_races = 2 THEN
                -- The same key as in LOCK_STREAMS in src/store/pg/sql.c.
                PERFORM pg_advisory_xact_lock((hashtextextended('howdah streams ' || @schema_text@, 0) & -512)
                                              | (hashtextextended(streams[i], 0) & 511));
            ELSIF lost_races > 40 THEN
                RAISE EXCEPTION USING ERRCODE = '40001',
                    MESSAGE = 'lost the race for a stream 40 times; nothing was stored';
            END IF;
        END LOOP;
    END LOOP;
    IF (SELECT b.last_value FROM @schema@.bell AS b) <> 0 THEN
        PERFORM @schema@.ring_inside(types);
    END IF;
END
$howdah$;
