-- route_events(queue, key_from, sequences) -> how many jobs were made
--
-- Makes a job from each of these events, in the order given, due now.  An event that does not exist any more
-- makes none.  The router's statement moves its checkpoint as well, so that both happen or neither.
--
--   key_from   what orders the jobs: stream, correlation (an event without one: no key), none
--
-- The job has no payload of its own: claim_jobs() and the like read that of the event.  So the caller must
-- be allowed to read the log.
-- Errors: UH006, 42501.
-- Reads: queues, events, bell.  Writes: queues (a new one, and the first key of one), job_data, jobs;
-- rings (see ring_queue()).  Locks: the rows it makes.
CREATE OR REPLACE FUNCTION @schema@.route_events(queue text, key_from text, sequences bigint[])
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    q      @schema@.queues;
    n      bigint;
BEGIN
    IF key_from IS NULL OR key_from NOT IN ('stream', 'correlation', 'none') THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'key: must be stream, correlation or none';
    END IF;
    IF NOT has_table_privilege(@schema@.calling_role(), @events_text@, 'SELECT') THEN
        RAISE EXCEPTION USING ERRCODE = '42501',
            MESSAGE = 'permission denied: a role that makes jobs from events must be allowed to read events',
            HINT = 'grant the role ' || @schema_text@ || '_subscribe';
    END IF;
    q := @schema@.queue_of(queue);
    -- The xid comes before the time, which the INSERT takes under its lock: see I4 of 0003_queue.
    PERFORM pg_current_xact_id();
    IF NOT q.keyed AND key_from <> 'none' THEN
        UPDATE @schema@.queues AS u SET keyed = true WHERE u.queue_id = q.queue_id AND NOT u.keyed;
    END IF;

    WITH given AS MATERIALIZED (
        SELECT nextval(@job_text@) AS id, g.*
        FROM (SELECT e.global_sequence, e.id AS event_id, e.correlation_id,
                     CASE key_from WHEN 'stream' THEN e.stream WHEN 'correlation' THEN e.correlation_id END AS key
              FROM unnest(sequences) WITH ORDINALITY AS s(sequence, i)
              JOIN @schema@.events AS e ON e.global_sequence = s.sequence
              ORDER BY s.i) AS g
    ), stored AS (
        INSERT INTO @schema@.job_data (id, queue_id, priority, max_attempts, key, correlation_id, causation_id,
                                       event_sequence)
        SELECT g.id, q.queue_id, 0, 0, g.key, g.correlation_id, g.event_id, g.global_sequence FROM given AS g
    ), ready AS (
        INSERT INTO @schema@.jobs (due_at, id, queue_id, priority, plain, key_hash)
        SELECT t.moment, g.id, q.queue_id, 0, g.key IS NULL, hashtextextended(g.key, q.queue_id)
        FROM (SELECT clock_timestamp() AS moment OFFSET 0) AS t, given AS g
    )
    SELECT count(*) INTO n FROM given;
    IF n > 0 THEN
        PERFORM @schema@.ring_queue(q.queue_id);
    END IF;
    RETURN n;
END
$howdah$;

-- queue_bind(queue, pattern, key_from, subscriber_id, high, outstanding) -> text
--
-- Binds a pattern to a queue, which is created if it does not exist, and creates the router's subscription
-- at (high, outstanding).  Returns 'made'; 'there': it was bound with the same key, nothing was changed;
-- 'other key': it is bound with another key; 'taken': the subscription name belongs to something else.
-- Errors: UH006.
-- Reads, writes: queues, bindings, subscriptions.  Locks: the rows it makes.
CREATE OR REPLACE FUNCTION @schema@.queue_bind(
    queue text, pattern text, key_from text, subscriber_id text, high bigint, outstanding bigint[])
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
DECLARE
    q     @schema@.queues;
    bound @schema@.bindings;
BEGIN
    PERFORM @schema@.pattern_regex(pattern);
    q := @schema@.queue_of(queue);
    LOOP
        SELECT * INTO bound FROM @schema@.bindings AS b WHERE b.queue_id = q.queue_id AND b.pattern = pattern;
        IF FOUND THEN
            RETURN CASE WHEN bound.key_from = key_from THEN 'there' ELSE 'other key' END;
        ELSIF EXISTS (SELECT FROM @schema@.subscriptions AS s WHERE s.subscriber_id = subscriber_id) THEN
            RETURN 'taken';
        END IF;
        INSERT INTO @schema@.bindings (queue_id, pattern, key_from, subscriber_id)
        VALUES (q.queue_id, pattern, key_from, subscriber_id) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        -- Another session has bound it meanwhile.
    END LOOP;
    INSERT INTO @schema@.subscriptions (subscriber_id, pattern, high, outstanding)
    VALUES (subscriber_id, pattern, high, outstanding);
    RETURN 'made';
END
$howdah$;

-- queue_unbind(queue, pattern) -> boolean
--
-- Removes the binding and the subscription of its router, even while a process owns it: a page that is
-- being routed makes no more jobs.  Jobs that were made stay.  false: there is no such binding.
-- Reads, writes: queues, bindings, subscriptions, skips.  Locks: the rows.
CREATE OR REPLACE FUNCTION @schema@.queue_unbind(queue text, pattern text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
DECLARE
    router text;
BEGIN
    DELETE FROM @schema@.bindings AS b USING @schema@.queues AS q
    WHERE q.name = queue AND b.queue_id = q.queue_id AND b.pattern = pattern
    RETURNING b.subscriber_id INTO router;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM @schema@.subscriptions AS s WHERE s.subscriber_id = router;
    DELETE FROM @schema@.skips AS k WHERE k.subscriber_id = router;
    RETURN true;
END
$howdah$;

-- queue_bindings(queue) -> one row per binding
--
-- The bindings of one queue (NULL: of all), by queue and pattern, and where their routers are.  outstanding
-- is how many numbers at or below high are not routed yet.
-- Reads: queues, bindings, subscriptions.
CREATE OR REPLACE FUNCTION @schema@.queue_bindings(queue text DEFAULT NULL)
RETURNS TABLE (name text, pattern text, key_from text, subscriber_id text, created_at timestamptz, high bigint,
               outstanding bigint, status text, reason text, owner text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT q.name, b.pattern, b.key_from, b.subscriber_id, b.created_at, coalesce(s.high, 0),
           (SELECT coalesce(sum(CASE WHEN o.i % 2 = 0 THEN o.number + 1 ELSE -o.number END), 0)
            FROM unnest(s.outstanding) WITH ORDINALITY AS o(number, i))::bigint,
           coalesce(s.status, 'active'), s.reason, s.owner
    FROM @schema@.bindings AS b
    JOIN @schema@.queues AS q ON q.queue_id = b.queue_id
    LEFT JOIN @schema@.subscriptions AS s ON s.subscriber_id = b.subscriber_id
    WHERE queue_bindings.queue IS NULL OR q.name = queue_bindings.queue
    ORDER BY q.name COLLATE "C", b.pattern
$howdah$;
