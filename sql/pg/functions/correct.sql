-- payload_max() -> integer
--
-- The largest payload that the functions take.
-- Reads: meta.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.payload_max() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce((SELECT m.value::integer FROM @schema@.meta AS m WHERE m.key = 'payload_bytes_max'), 1048576)
$howdah$;

-- library_payload_max() -> integer
--
-- The same for the library, which has a limit of its own: a role that may write to the table directly
-- has no limit here.
-- Reads: meta, the catalogue.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.library_payload_max() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE WHEN has_table_privilege(session_user, (quote_ident(@schema_text@) || '.events')::regclass, 'INSERT')
                THEN 67108864 ELSE @schema@.payload_max() END
$howdah$;

-- append_correction(corrects, id, data, headers, actor, valid_time, schema_version, bytes,
--                   content_type, reason, retracts, was_purged)
--     -> (global_sequence, id, version, revision, recorded_at, already_stored, mark), or no row
--
-- Appends a whole event as the next revision after the one it corrects, with the same stream, type,
-- correlation and causation.  It is recorded later than that one, whatever the clock does.  No row: there
-- is no such event, or it is not the newest of its family (any more), or it was purged meanwhile.
-- was_purged says whether it was purged when its payload was copied.  mark is the bell's mark afterwards: a
-- caller that rings by itself sees whether somebody sleeps.
--
-- The event that is corrected is locked, so that a purge waits for the correction that copies its payload,
-- or the correction waits for the purge.  Other corrections do not wait for that lock; the unique key
-- decides between them.  The INSERT leaves global_sequence, the first column of the table, to its default: so
-- the number is drawn, and the lock that knowledge_of() looks for is taken, before the time is.
-- Errors: UH006, UH008 (see sequence_problem()), UH009.
-- Reads: events, meta, subscriptions, bell.  Writes: events, events_global_sequence_seq; rings (see ring_inside()).
-- Locks: the event that is corrected, FOR SHARE; after two lost races the stream, as append_arrays() does.
CREATE OR REPLACE FUNCTION @schema@.append_correction(
    corrects uuid, id uuid, data json, headers json, actor text, valid_time timestamptz, schema_version integer,
    bytes bytea, content_type text, reason text, retracts boolean, was_purged boolean)
RETURNS TABLE (global_sequence bigint, event_id uuid, version bigint, revision integer,
               recorded_at timestamptz, already_stored boolean, mark bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    wanted     constant uuid := coalesce(append_correction.id, @schema@.uuid_v7());
    old        @schema@.events;
    stored     @schema@.events;
    problem    text := @schema@.name_problem(coalesce(append_correction.reason, ''), 'reason', 1000);
    lost_races integer := 0;
    last       bigint;
BEGIN
    -- This session has not checked the sequence yet, or the sequence went back since.
    IF coalesce(pg_sequence_last_value(@sequence_text@::regclass), 0)
       < coalesce(nullif(current_setting('howdah.sequence_' || @sequence_text@::regclass::oid::text, true), '')::bigint,
                  9223372036854775807) THEN
        PERFORM @schema@.check_sequence(false);
    END IF;
    LOOP
        SELECT * INTO stored FROM @schema@.events AS e WHERE e.id = wanted;
        IF FOUND THEN
            -- An event that was purged meanwhile has no payload to compare.
            IF (stored.corrects, stored.reason, coalesce(stored.retracts, false), stored.actor,
                stored.schema_version, stored.content_type,
                CASE WHEN stored.purge IS NULL THEN stored.data::text END,
                CASE WHEN stored.purge IS NULL THEN stored.bytes END,
                CASE WHEN stored.purge IS NULL THEN coalesce(stored.headers::text, '{}') END,
                coalesce(append_correction.valid_time, stored.valid_time, stored.recorded_at))
               IS DISTINCT FROM
               (append_correction.corrects, append_correction.reason, coalesce(append_correction.retracts, false),
                append_correction.actor, coalesce(append_correction.schema_version, 1), append_correction.content_type,
                CASE WHEN stored.purge IS NULL THEN append_correction.data::text END,
                CASE WHEN stored.purge IS NULL THEN append_correction.bytes END,
                CASE WHEN stored.purge IS NULL THEN coalesce(append_correction.headers::text, '{}') END,
                coalesce(stored.valid_time, stored.recorded_at)) THEN
                RAISE EXCEPTION USING ERRCODE = 'UH009',
                    MESSAGE = format('event id %s is stored with other content, at sequence %s', wanted,
                                     stored.global_sequence);
            END IF;
            RETURN QUERY SELECT stored.global_sequence, stored.id, stored.version::bigint, stored.revision,
                                stored.recorded_at, true, 0::bigint;
            RETURN;
        END IF;
        SELECT * INTO old FROM @schema@.events AS e WHERE e.id = append_correction.corrects FOR SHARE;
        IF NOT FOUND OR (old.purge IS NOT NULL) <> was_purged
           OR EXISTS (SELECT FROM @schema@.events AS n WHERE n.family = coalesce(old.family, old.id)
                      AND n.revision = old.revision + 1) THEN
            RETURN;
        END IF;
        IF append_correction.retracts AND append_correction.data::text IS DISTINCT FROM 'null' THEN
            problem := coalesce(problem, 'data: a retraction has none');
        END IF;
        problem := coalesce(problem, @schema@.event_problem(
            old.stream, old.type, append_correction.data, append_correction.headers, NULL, append_correction.actor,
            append_correction.valid_time, coalesce(append_correction.schema_version, 1), append_correction.bytes,
            append_correction.content_type, @schema@.library_payload_max()));
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
        END IF;
        SELECT e.version INTO last FROM @schema@.events AS e WHERE e.stream = old.stream ORDER BY e.version DESC LIMIT 1;
        INSERT INTO @schema@.events AS e
            (id, stream, version, type, data, headers, correlation_id, causation_id, actor, valid_time,
             schema_version, bytes, content_type, family, corrects, revision, reason, retracts, recorded_at)
        VALUES (wanted, old.stream, last + 1, old.type, append_correction.data, append_correction.headers,
                old.correlation_id, old.causation_id, append_correction.actor, append_correction.valid_time,
                coalesce(append_correction.schema_version, 1), append_correction.bytes,
                append_correction.content_type, coalesce(old.family, old.id), old.id, old.revision + 1,
                append_correction.reason, CASE WHEN append_correction.retracts THEN true END,
                greatest(clock_timestamp(), old.recorded_at + interval '1 microsecond'))
        ON CONFLICT DO NOTHING
        RETURNING e.global_sequence, e.id, e.version, e.revision, e.recorded_at, false
        INTO global_sequence, event_id, version, revision, recorded_at, already_stored;
        EXIT WHEN FOUND;
        PERFORM @schema@.check_sequence(true);
        lost_races := lost_races + 1;
        IF lost_races = 2 THEN
            -- The same key as in LOCK_STREAMS in src/store/pg/sql.c.
            PERFORM pg_advisory_xact_lock((hashtextextended('howdah streams ' || @schema_text@, 0) & -512)
                                          | (hashtextextended(old.stream, 0) & 511));
        ELSIF lost_races > 40 THEN
            RAISE EXCEPTION USING ERRCODE = '40001',
                MESSAGE = 'lost the race for a stream 40 times; nothing was stored';
        END IF;
    END LOOP;
    SELECT b.last_value INTO mark FROM @schema@.bell AS b;
    IF mark <> 0 AND @schema@.ring_inside(ARRAY[old.type::text]) THEN
        SELECT b.last_value INTO mark FROM @schema@.bell AS b;
    END IF;
    RETURN NEXT;
END
$howdah$;

-- correct(event_id, data, valid_time, reason, ...)
--     -> (global_sequence, correction_id, version, revision, recorded_at, already_stored)
--
-- Appends the next revision of a family, which is named by any of its events, in the caller's
-- transaction.  An argument that is NULL leaves that part as it is.
--
--   reason             1 to 1000 bytes
--   retract            says that it never happened: takes no data and no valid time.  A later correction
--                      with data brings a retracted family back
--   id                 of the correction; the same correction again returns its stored position
--   bytes, content_type  instead of data
--   expected_revision  the newest revision that the caller knows; NULL or 0: any
--
-- Errors: UH003 (the newest revision is not the expected one, or somebody else corrected at the same
-- time; DETAIL: the newest revision), UH004 (no such event), UH006, UH009.
-- Reads, writes, locks: see append_correction().
CREATE OR REPLACE FUNCTION @schema@.correct(
    event_id uuid, data json DEFAULT NULL, valid_time timestamptz DEFAULT NULL, reason text DEFAULT NULL,
    retract boolean DEFAULT false, headers json DEFAULT NULL, actor text DEFAULT NULL, id uuid DEFAULT NULL,
    schema_version integer DEFAULT NULL, bytes bytea DEFAULT NULL, content_type text DEFAULT NULL,
    expected_revision integer DEFAULT NULL,
    OUT global_sequence bigint, OUT correction_id uuid, OUT version bigint, OUT revision integer,
    OUT recorded_at timestamptz, OUT already_stored boolean)
RETURNS record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    gone     constant boolean := coalesce(retract, false);
    anew     constant boolean := correct.data IS NOT NULL OR correct.bytes IS NOT NULL;
    of_family uuid;
    newest   @schema@.events;
    stored   @schema@.events;
    problem  text := @schema@.name_problem(coalesce(correct.reason, ''), 'reason', 1000);
    found_it boolean;
BEGIN
    problem := coalesce(problem, CASE
        WHEN gone AND anew THEN 'data: a retraction has none'
        WHEN gone AND correct.content_type IS NOT NULL THEN 'content_type: a retraction has none'
        WHEN gone AND correct.valid_time IS NOT NULL THEN 'valid_time: a retraction has none'
        WHEN NOT anew AND correct.content_type IS NOT NULL THEN 'data: a content type needs bytes and no JSON'
        WHEN NOT gone AND NOT anew AND correct.valid_time IS NULL AND correct.headers IS NULL
             AND correct.schema_version IS NULL THEN 'data: there is nothing to correct'
        WHEN correct.schema_version < 1 THEN 'schema_version: must be 1 to 2147483647'
        WHEN correct.expected_revision < 0 THEN 'expected_revision: must be a revision, or 0'
        WHEN anew THEN @schema@.event_problem('s', 't', correct.data, NULL, NULL, NULL, NULL, 1, correct.bytes,
                                              correct.content_type, @schema@.payload_max()) END);
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    of_family := @schema@.family_of(correct.event_id);
    IF of_family IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH004',
            MESSAGE = format('no event has the id %s', coalesce(correct.event_id::text, 'NULL'));
    END IF;
    IF correct.id IS NOT NULL THEN
        SELECT * INTO stored FROM @schema@.events AS e WHERE e.id = correct.id;
        IF FOUND THEN
            -- Parts that the caller left out are not compared, nor is a payload that was purged meanwhile.
            IF stored.corrects IS NULL OR coalesce(stored.family, stored.id) <> of_family
               OR (stored.reason, coalesce(stored.retracts, false), stored.actor)
                  IS DISTINCT FROM (correct.reason, gone, correct.actor)
               OR anew AND stored.purge IS NULL
                  AND (stored.data::text, stored.bytes, stored.content_type)
                      IS DISTINCT FROM (correct.data::text, correct.bytes, correct.content_type)
               OR stored.purge IS NULL AND correct.headers IS NOT NULL
                  AND coalesce(stored.headers::text, '{}') IS DISTINCT FROM correct.headers::text
               OR stored.valid_time <> correct.valid_time OR stored.schema_version <> correct.schema_version THEN
                RAISE EXCEPTION USING ERRCODE = 'UH009',
                    MESSAGE = format('event id %s is stored with other content, at sequence %s', correct.id,
                                     stored.global_sequence);
            END IF;
            SELECT stored.global_sequence, stored.id, stored.version, stored.revision, stored.recorded_at, true
            INTO global_sequence, correction_id, version, revision, recorded_at, already_stored;
            RETURN;
        END IF;
    END IF;

    -- Read again under a lock, so that no purge can change it any more.
    SELECT * INTO newest FROM @schema@.events AS e WHERE e.family = of_family
    ORDER BY e.family DESC, e.revision DESC LIMIT 1 FOR SHARE;
    IF NOT FOUND THEN
        SELECT * INTO newest FROM @schema@.events AS e WHERE e.id = of_family FOR SHARE;
    END IF;
    IF coalesce(nullif(correct.expected_revision, 0), newest.revision) <> newest.revision THEN
        RAISE EXCEPTION USING ERRCODE = 'UH003',
            MESSAGE = format('the event is at revision %s, expected %s', newest.revision, correct.expected_revision),
            DETAIL = newest.revision::text;
    END IF;
    problem := CASE WHEN gone AND newest.retracts THEN 'retract: the event is retracted already'
                    WHEN NOT gone AND NOT anew AND newest.retracts THEN 'data: is required: the event is retracted'
                    WHEN NOT gone AND NOT anew AND newest.purge IS NOT NULL THEN 'data: is required: the event is purged' END;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    SELECT c.global_sequence, c.event_id, c.version, c.revision, c.recorded_at, c.already_stored
    INTO global_sequence, correction_id, version, revision, recorded_at, already_stored
    FROM @schema@.append_correction(
        newest.id, correct.id,
        CASE WHEN gone THEN 'null'::json WHEN anew THEN correct.data ELSE newest.data END,
        coalesce(correct.headers, newest.headers), correct.actor,
        coalesce(correct.valid_time, newest.valid_time, newest.recorded_at),
        coalesce(correct.schema_version, newest.schema_version),
        CASE WHEN gone THEN NULL WHEN anew THEN correct.bytes ELSE newest.bytes END,
        CASE WHEN gone THEN NULL WHEN anew THEN correct.content_type ELSE newest.content_type END,
        correct.reason, gone, newest.purge IS NOT NULL) AS c;
    IF global_sequence IS NULL THEN
        SELECT max(e.revision) INTO revision FROM @schema@.events AS e WHERE e.family = of_family;
        RAISE EXCEPTION USING ERRCODE = 'UH003',
            MESSAGE = format('somebody else has corrected this event: it is at revision %s', revision),
            DETAIL = revision::text;
    END IF;
END
$howdah$;

-- retract(event_id, reason, actor, id, expected_revision, headers) -> see correct()
--
-- Appends a revision that says that the event never happened.
CREATE OR REPLACE FUNCTION @schema@.retract(
    event_id uuid, reason text, actor text DEFAULT NULL, id uuid DEFAULT NULL,
    expected_revision integer DEFAULT NULL, headers json DEFAULT NULL,
    OUT global_sequence bigint, OUT correction_id uuid, OUT version bigint, OUT revision integer,
    OUT recorded_at timestamptz, OUT already_stored boolean)
RETURNS record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.correct(event_id, reason => reason, retract => true, headers => headers, actor => actor,
                                   id => id, expected_revision => expected_revision)
$howdah$;
