-- purge_of(sequence bigint) -> bigint
--
-- The purge that erased an event.  NULL: none, and none will before the caller's transaction ends.
-- Call this before storing a copy of an event that was read earlier.
-- Reads: events.  Writes: nothing.  Locks: the event, FOR SHARE: the purge waits for the caller, or the
-- caller for the purge.
CREATE OR REPLACE FUNCTION @schema@.purge_of(sequence bigint) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT e.purge FROM @schema@.events AS e WHERE e.global_sequence = sequence FOR SHARE
$howdah$;

-- purge_take(queue_ids integer[], made bigint[]) -> rows of jobs
--
-- Takes those of these jobs that nobody has claimed out of their queues.  There is no index on a job's
-- id, so it walks once through each queue, however many jobs are asked for.
-- Reads, writes, locks: jobs.
CREATE OR REPLACE FUNCTION @schema@.purge_take(queue_ids integer[], made bigint[]) RETURNS SETOF @schema@.jobs
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_nestloop = off
AS $howdah$
    DELETE FROM @schema@.jobs AS j
    WHERE j.queue_id = ANY (queue_ids) AND j.id IN (SELECT u.one FROM unnest(made) AS u(one))
    RETURNING j.*
$howdah$;

-- purge_jobs(sequences bigint[], reason text, actor text, OUT jobs bigint, OUT dead_letters bigint)
--
-- The part of purge_events() for the jobs that bindings made from the events.  Jobs that wait are
-- cancelled, as job_cancel() does.  Results and errors of jobs that have ended are erased, and so are the
-- dead letters of both; open ones are discarded.  A job that a worker has at the moment is left to it: it
-- can complete, and is cancelled otherwise (see purged_note()).
-- Reads: job_data, leases.  Reads, writes: jobs, history, job_dead_letters, dedups, key_holders, queues; see
-- job_dead_letters_set_state().
-- Locks: dead letters by id, as job_dead_letters_set_state() and job_rerun() do; then queues, keys and jobs;
-- then the history.  A transaction that acks jobs of several keys at the same time, or redrives dead letters
-- of purged events, can deadlock with this one.  The server ends one of the two, which can be tried again.
CREATE OR REPLACE FUNCTION @schema@.purge_jobs(
    sequences bigint[], reason text, actor text, OUT jobs bigint, OUT dead_letters bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
#variable_conflict use_variable
DECLARE
    made      constant bigint[] := ARRAY(
        SELECT p.id FROM @schema@.job_data AS p
        WHERE p.event_sequence >= (SELECT min(u.one) FROM unnest(sequences) AS u(one))
          AND p.event_sequence <= (SELECT max(u.one) FROM unnest(sequences) AS u(one))
          AND p.event_sequence IN (SELECT u.one FROM unnest(sequences) AS u(one))
        ORDER BY p.queue_id, p.id);
    why       constant text := 'cancelled: purged: ' || reason;
    queue_ids constant integer[] := ARRAY(
        SELECT DISTINCT p.queue_id FROM @schema@.job_data AS p WHERE p.id = ANY (made));
    held      bigint[];   -- keys that a job holds, of one queue each
    held_of   integer[];
    gone      @schema@.jobs[];
    cancelled bigint[];
    ended     bigint[];   -- or a worker's
    open      bigint[];
BEGIN
    PERFORM FROM @schema@.job_dead_letters AS l WHERE l.job_id = ANY (made) ORDER BY l.id FOR UPDATE;
    PERFORM FROM @schema@.queues AS q WHERE q.queue_id = ANY (queue_ids) ORDER BY q.queue_id FOR NO KEY UPDATE;
    -- A transaction that gives a key back now waits for us, or we wait for it: one of the two makes the next job due.
    WITH locked AS (
        SELECT h.queue_id, h.key_hash FROM @schema@.key_holders AS h
        WHERE (h.queue_id, h.key_hash) IN (
            SELECT p.queue_id, hashtextextended(p.key, p.queue_id) FROM @schema@.job_data AS p
            WHERE p.id = ANY (made) AND p.key IS NOT NULL)
        ORDER BY h.queue_id, h.key_hash FOR KEY SHARE OF h
    ) SELECT array_agg(l.queue_id), array_agg(l.key_hash) INTO held_of, held FROM locked AS l;
    gone := ARRAY(SELECT t FROM @schema@.purge_take(queue_ids, made) AS t);
    cancelled := ARRAY(SELECT g.id FROM unnest(gone) AS g ORDER BY g.id);
    ended := ARRAY(SELECT u.one FROM unnest(made) AS u(one) EXCEPT SELECT u.one FROM unnest(cancelled) AS u(one));
    INSERT INTO @schema@.history (first_id, last_id, queue_id, attempts, failed, error)
    SELECT g.id, g.id, g.queue_id, ARRAY[g.attempts], true, why FROM unnest(gone) AS g ORDER BY g.queue_id, g.id;
    DELETE FROM @schema@.dedups AS d USING @schema@.job_data AS p
    WHERE p.id = ANY (cancelled) AND d.queue_id = p.queue_id AND d.dedup = p.dedup AND d.job_id = p.id;
    UPDATE @schema@.job_dead_letters AS l
    SET state = 'discarded', reason = why, attempts = l.attempts + g.attempts,
        redrives = l.redrives + (g.attempts > 0)::int, resolved_at = clock_timestamp(), resolved_by = session_user
    FROM unnest(gone) AS g
    WHERE l.job_id = ANY (cancelled) AND l.job_id = g.id AND l.state = 'redrive';
    PERFORM @schema@.promote_keys(k.queue_id, array_agg(k.key_hash))
    FROM (SELECT g.queue_id, g.key_hash FROM unnest(gone) AS g WHERE g.key_hash IS NOT NULL
          EXCEPT SELECT h.queue_id, h.key_hash FROM unnest(held_of, held) AS h(queue_id, key_hash)) AS k
    GROUP BY k.queue_id;
    jobs := cardinality(cancelled) + (
        SELECT count(*)
        FROM (SELECT u.one FROM unnest(ended) AS u(one)
              EXCEPT SELECT unnest(l.ids) FROM @schema@.leases AS l WHERE l.queue_id = ANY (queue_ids)) AS e
        WHERE EXISTS (SELECT FROM @schema@.history AS h
                      WHERE h.last_id >= e.one AND h.first_id <= e.one AND (h.ids IS NULL OR e.one = ANY (h.ids))
                      ORDER BY h.last_id LIMIT 1));

    open := ARRAY(SELECT l.id FROM @schema@.job_dead_letters AS l
                  WHERE l.job_id = ANY (made) AND l.resolved_at IS NULL ORDER BY l.id);
    PERFORM @schema@.job_dead_letters_set_state(open, NULL, 'discarded', reason);
    UPDATE @schema@.job_dead_letters AS l SET error = NULL WHERE l.job_id = ANY (made);
    GET DIAGNOSTICS dead_letters = ROW_COUNT;
    UPDATE @schema@.job_dead_letters AS l SET resolved_by = actor WHERE l.id = ANY (open);
    UPDATE @schema@.history AS h SET error = NULL, result = NULL
    WHERE h.last_id = ANY (ended) AND h.jobs = 1 AND (h.error IS NOT NULL OR h.result IS NOT NULL);
END
$howdah$;

-- purge_lots(sequences bigint[], places tid[]) -> void
--
-- The rows of these events have moved: the lots of groups, which name events by the place of their rows, get the new
-- places.  Nobody may deal meanwhile.
-- Reads: events, groups.  Writes: group_lots.
CREATE OR REPLACE FUNCTION @schema@.purge_lots(sequences bigint[], places tid[]) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    UPDATE @schema@.group_lots AS l
    SET tids = ARRAY(SELECT coalesce((SELECT e.ctid FROM unnest(places, sequences) AS m(place, seq)
                                      JOIN @schema@.events AS e ON e.global_sequence = m.seq
                                      WHERE m.place = t.place), t.place)
                     FROM unnest(l.tids) WITH ORDINALITY AS t(place, i) ORDER BY t.i)
    WHERE l.tids && places
$howdah$;

-- purge_events(stream, ids, families, reason, actor)
--     -> (id, purged_at, events, dead_letters, snapshots, jobs, remaining), one row
--
-- Erases payload and headers of all events of a stream, or of those with these ids (families: of
-- every revision of their families), and what was derived from them.  Dead letters lose their payload and
-- error, and open ones are discarded.  Snapshots of the streams from the first of these events on are
-- removed.  For jobs see purge_jobs().  Who, when and why is kept for ever in purges.  id 0: everything was
-- purged before, and nothing is recorded.  It cannot be undone.  The server's files keep the payload until
-- the next VACUUM.
--
--   actor      NULL: the user of the session
--   remaining  revisions of the same families that still have a payload or headers, even when there was
--              nothing to erase
--
-- A correction that is under way holds a lock on the event it corrects.  Either it ends before us, and the
-- next look finds it; or it waits for us, and then finds no payload to copy.
-- Errors: UH004 (nothing is erased), UH006 (also above READ COMMITTED).
-- Reads, writes: events, dead_letters, snapshots, purges, job_data, jobs, history, job_dead_letters, queues.
-- Locks: events by sequence, dead letters by id, then see purge_jobs().
CREATE OR REPLACE FUNCTION @schema@.purge_events(
    stream text DEFAULT NULL, ids uuid[] DEFAULT NULL, families boolean DEFAULT false, reason text DEFAULT NULL,
    actor text DEFAULT NULL,
    OUT id bigint, OUT purged_at timestamptz, OUT events bigint, OUT dead_letters bigint, OUT snapshots bigint,
    OUT jobs bigint, OUT remaining bigint)
RETURNS record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
#variable_conflict use_variable
DECLARE
    whose     constant text := coalesce(actor, session_user::text);
    number    bigint;
    problem   text;
    missing   uuid;
    of_family uuid[];
    sequences bigint[] := '{}';
    page      bigint[];
    places    tid[] := '{}'; -- of the rows, before they are changed
    event_ids uuid[];
    found_dead_letters bigint[];
    of_jobs   bigint;
BEGIN
    problem := CASE
        WHEN stream IS NULL AND ids IS NULL THEN 'stream: a stream or ids are required'
        WHEN stream IS NOT NULL AND ids IS NOT NULL THEN 'stream: cannot be given together with ids'
        WHEN stream IS NOT NULL THEN @schema@.name_problem(stream, 'stream', 255)
        WHEN cardinality(ids) NOT BETWEEN 1 AND 10000 OR array_position(ids, NULL) IS NOT NULL
            THEN format('ids: must be 1 to 10000, none of them NULL, got %s', cardinality(ids)) END;
    problem := coalesce(problem, @schema@.name_problem(coalesce(reason, ''), 'reason', 1000),
                        @schema@.name_problem(actor, 'actor', 255));
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        -- The next look would not find such a correction.
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'transaction: a purge needs READ COMMITTED';
    END IF;
    IF stream IS NOT NULL THEN
        IF NOT EXISTS (SELECT FROM @schema@.events AS e WHERE e.stream = stream) THEN
            RAISE EXCEPTION USING ERRCODE = 'UH004', MESSAGE = format('stream "%s" has no event', stream);
        END IF;
    ELSE
        SELECT u.one INTO missing FROM unnest(ids) AS u(one)
        WHERE NOT EXISTS (SELECT FROM @schema@.events AS e WHERE e.id = u.one) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION USING ERRCODE = 'UH004', MESSAGE = format('no event has the id %s', missing);
        END IF;
        of_family := ARRAY(SELECT DISTINCT coalesce(e.family, e.id) FROM unnest(ids) AS u(one)
                           JOIN @schema@.events AS e ON e.id = u.one);
    END IF;

    -- Nobody deals while rows change their place: see purge_lots().
    PERFORM FROM @schema@.groups AS g ORDER BY g.group_id FOR NO KEY UPDATE;
    -- Until a look finds nothing new: see above.
    LOOP
        page := ARRAY(
            SELECT e.global_sequence FROM @schema@.events AS e
            WHERE e.purge IS NULL
              AND e.global_sequence = ANY (ARRAY(
                  SELECT x.global_sequence FROM @schema@.events AS x WHERE x.stream = stream
                  UNION SELECT x.global_sequence FROM @schema@.events AS x WHERE x.id = ANY (ids)
                  UNION SELECT x.global_sequence FROM @schema@.events AS x WHERE families AND x.id = ANY (of_family)
                  UNION SELECT x.global_sequence FROM @schema@.events AS x WHERE families AND x.family = ANY (of_family)))
            ORDER BY e.global_sequence FOR NO KEY UPDATE);
        EXIT WHEN cardinality(page) = 0;
        number := coalesce(number, nextval(@purge_text@::regclass));
        places := places || ARRAY(SELECT e.ctid FROM @schema@.events AS e WHERE e.global_sequence = ANY (page)
                                  ORDER BY e.global_sequence);
        UPDATE @schema@.events AS e
        SET data = CASE WHEN e.content_type IS NULL THEN 'null'::json END,
            bytes = CASE WHEN e.content_type IS NOT NULL THEN ''::bytea END, headers = NULL, purge = number
        WHERE e.global_sequence = ANY (page);
        sequences := sequences || page;
    END LOOP;
    purged_at := clock_timestamp();
    SELECT 0, cardinality(sequences), 0, 0, 0 INTO id, events, dead_letters, snapshots, jobs;
    -- All of a family is in one stream.  A retraction may have headers, those of the event that it retracts.
    remaining := (SELECT count(*) FROM @schema@.events AS e
                  WHERE e.global_sequence = ANY (ARRAY(
                            SELECT x.global_sequence FROM @schema@.events AS x WHERE x.stream = stream
                            UNION SELECT x.global_sequence FROM @schema@.events AS x WHERE x.id = ANY (of_family)
                            UNION SELECT x.global_sequence FROM @schema@.events AS x WHERE x.family = ANY (of_family)))
                    AND e.purge IS NULL
                    AND (e.retracts IS NOT TRUE OR e.headers IS NOT NULL OR e.data::text <> 'null' OR length(e.bytes) > 0));
    IF events = 0 THEN
        RETURN;
    END IF;
    id := number;
    PERFORM @schema@.purge_lots(sequences, places);

    event_ids := ARRAY(SELECT e.id FROM @schema@.events AS e WHERE e.global_sequence = ANY (sequences));
    found_dead_letters := ARRAY(SELECT d.id FROM @schema@.dead_letters AS d
                           WHERE d.event_id = ANY (event_ids) AND d.purge IS NULL ORDER BY d.id FOR UPDATE);
    UPDATE @schema@.dead_letters AS d
    SET data = CASE WHEN d.content_type IS NULL THEN 'null'::json END,
        bytes = CASE WHEN d.content_type IS NOT NULL THEN ''::bytea END, headers = NULL, error_message = NULL,
        purge = number, state = CASE WHEN d.resolved_at IS NULL THEN 'discarded' ELSE d.state END,
        reason = CASE WHEN d.resolved_at IS NULL THEN reason ELSE d.reason END,
        resolved_by = CASE WHEN d.resolved_at IS NULL THEN whose ELSE d.resolved_by END,
        resolved_at = coalesce(d.resolved_at, purged_at)
    WHERE d.id = ANY (found_dead_letters);
    DELETE FROM @schema@.snapshots AS s
    USING (SELECT e.stream, min(e.version) AS version FROM @schema@.events AS e
           WHERE e.global_sequence = ANY (sequences) GROUP BY e.stream) AS p
    WHERE s.stream = p.stream AND s.version >= p.version;
    GET DIAGNOSTICS snapshots = ROW_COUNT;
    SELECT p.jobs, p.dead_letters INTO jobs, of_jobs FROM @schema@.purge_jobs(sequences, reason, whose) AS p;
    dead_letters := cardinality(found_dead_letters) + of_jobs;
    INSERT INTO @schema@.purges (id, purged_at, events, dead_letters, snapshots, jobs, remaining, actor, reason, stream)
    OVERRIDING SYSTEM VALUE
    VALUES (number, purged_at, events, dead_letters, snapshots, jobs, remaining, whose, reason, stream);
END
$howdah$;

-- purge_records(after bigint, max_count bigint) -> rows of purges, by id
--
-- Reads: purges.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.purge_records(after bigint DEFAULT 0, max_count bigint DEFAULT NULL)
RETURNS SETOF @schema@.purges
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT p.* FROM @schema@.purges AS p WHERE p.id > after ORDER BY p.id LIMIT max_count
$howdah$;
