-- log_completed(of_queue integer, started_at timestamptz, worker text, ids bigint[], tries smallint[])
--     -> void
--
-- Writes the history of jobs that were completed together, all without a result.
-- ids are ascending.
-- Writes: history.
CREATE OR REPLACE FUNCTION @schema@.log_completed(
    of_queue integer, started_at timestamptz, worker text, ids bigint[], tries smallint[])
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    n    constant integer := cardinality(ids);
    upto integer;
BEGIN
    FOR start IN 1..n BY 1000 LOOP
        upto := least(start + 999, n);
        INSERT INTO @schema@.history (first_id, last_id, started_at, queue_id, jobs, worker, attempts, ids)
        VALUES (ids[start], ids[upto], log_completed.started_at, of_queue, upto - start + 1, log_completed.worker,
                CASE WHEN 1 <> ANY (tries[start:upto]) THEN tries[start:upto] END,
                CASE WHEN ids[upto] - ids[start] <> upto - start THEN log_completed.ids[start:upto] END);
    END LOOP;
END
$howdah$;

-- promote_keys(of_queue integer, hashes bigint[]) -> boolean
--
-- Makes the earliest job of each of these keys due now, if it was set aside.  The claim that takes it
-- checks whether the key is free.  False: there was none.
-- Reads, writes: jobs.  Locks: those jobs, in the order of their keys: whoever has some of the same keys comes the same way.
CREATE OR REPLACE FUNCTION @schema@.promote_keys(of_queue integer, hashes bigint[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $howdah$
BEGIN
    WITH g AS MATERIALIZED (
        SELECT DISTINCT u.hash FROM unnest(hashes) AS u(hash) WHERE u.hash IS NOT NULL ORDER BY u.hash
    )
    UPDATE @schema@.jobs AS j SET due_at = clock_timestamp(), promoted = true
    FROM g,
         LATERAL (SELECT e.ctid, e.due_at FROM @schema@.jobs AS e
                  WHERE e.queue_id = of_queue AND e.key_hash = g.hash ORDER BY e.id LIMIT 1) AS earliest
    WHERE j.ctid = earliest.ctid AND earliest.due_at = 'infinity';
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM @schema@.ring_queue(of_queue);
    RETURN true;
END
$howdah$;

-- wake_keys(of_queue integer, limit_n integer) -> boolean
--
-- Looks at up to limit_n keys for which jobs were set aside, starting at a random one, and makes the earliest job
-- due now if its key is free.  This is needed because a transaction that gives a key back with an old snapshot
-- (REPEATABLE READ, SERIALIZABLE) cannot see what was set aside for that key meanwhile.  One session at a time.
-- True: there was one.
-- Reads: key_holders.  Reads, writes: jobs.
CREATE OR REPLACE FUNCTION @schema@.wake_keys(of_queue integer, limit_n integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    least_key constant bigint := -9223372036854775808;
    anywhere  constant bigint := ((random() - 0.5) * 18446744073709549568)::bigint;
    waiting   bigint[];
    hashes    bigint[] := '{}';
BEGIN
    IF NOT EXISTS (SELECT FROM @schema@.jobs AS j WHERE j.queue_id = of_queue AND j.due_at = 'infinity')
       OR NOT pg_try_advisory_xact_lock(@jobs_text@::regclass::oid::integer, of_queue) THEN
        RETURN false;
    END IF;
    -- From there to the last key, then from the first key on.
    FOREACH waiting SLICE 1 IN ARRAY ARRAY[ARRAY[anywhere, NULL], ARRAY[least_key, anywhere]] LOOP
        hashes := hashes || ARRAY(
            WITH RECURSIVE key(hash, n) AS (
                SELECT waiting[1], 0
                UNION ALL
                SELECT (SELECT j.key_hash FROM @schema@.jobs AS j
                        WHERE j.queue_id = of_queue AND j.due_at = 'infinity' AND j.key_hash > k.hash
                        ORDER BY j.key_hash LIMIT 1), k.n + 1
                FROM key AS k WHERE k.hash IS NOT NULL AND k.n < limit_n AND (k.hash > waiting[2]) IS NOT TRUE
            )
            SELECT k.hash FROM key AS k WHERE k.hash IS NOT NULL AND k.n > 0);
        EXIT WHEN cardinality(hashes) >= limit_n;
    END LOOP;
    RETURN @schema@.promote_keys(of_queue, ARRAY(
        SELECT u.hash FROM unnest(hashes) AS u(hash)
        WHERE NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                          WHERE h.queue_id = of_queue AND h.key_hash = u.hash)));
END
$howdah$;

-- free_keys(of_queue integer, hashes bigint[], holders bigint[]) -> void
--
-- Gives back the keys that these jobs hold, and for each of them makes the earliest job that was set aside due.
-- Reads, writes: key_holders, jobs.  Locks: the rows of the keys.  It waits for a claim that is looking at one
-- of them, so that it sees what this claim sets aside.
CREATE OR REPLACE FUNCTION @schema@.free_keys(of_queue integer, hashes bigint[], holders bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $howdah$
BEGIN
    DELETE FROM @schema@.key_holders AS h USING unnest(hashes, holders) AS g(hash, job_id)
    WHERE h.queue_id = of_queue AND h.key_hash = g.hash AND h.job_id = g.job_id;
    -- A statement of its own, so that its snapshot is newer than the locks.
    PERFORM @schema@.promote_keys(of_queue, hashes);
END
$howdah$;

-- purged_note(job bigint) -> text
--
-- The error of a job that does not complete and whose event was purged while a worker had it: without its payload
-- it cannot be tried again.  NULL: go on, and the event will not be purged before the caller's transaction ends.
-- Reads: job_data, purges.  Locks: the event, see purge_of().
CREATE OR REPLACE FUNCTION @schema@.purged_note(job bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    sequence constant bigint := (SELECT p.event_sequence FROM @schema@.job_data AS p WHERE p.id = job);
    number   bigint;
BEGIN
    IF sequence IS NOT NULL THEN
        number := @schema@.purge_of(sequence);
    END IF;
    RETURN (SELECT 'cancelled: purged: ' || r.reason FROM @schema@.purges AS r WHERE r.id = number);
END
$howdah$;

-- end_jobs(jobs leased_job[]) -> void
--
-- Writes the history of jobs that are in no other place any more: COMPLETED (verdict 0) or FAILED.  A failed
-- job gets a dead letter, unless its event was purged.  Gives back their dedup keys and keys.  When a job was
-- tried again for a dead letter and completes, the dead letter is resolved.
-- Reads: queues, job_data.  Writes: history, job_dead_letters, dedups, key_holders, jobs.
CREATE OR REPLACE FUNCTION @schema@.end_jobs(ended @schema@.leased_job[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $howdah$
DECLARE
    one      record;
    lettered boolean := false; -- one of them was tried again for its dead letter
BEGIN
    PERFORM @schema@.log_completed(t.queue_id, t.started_at, t.worker, t.ids, t.tries)
    FROM (SELECT r.queue_id, r.started_at, r.worker, array_agg(r.id ORDER BY r.id) AS ids,
                 array_agg(r.attempts ORDER BY r.id) AS tries
          FROM unnest(ended) AS r WHERE r.verdict = 0 AND r.note IS NULL
          GROUP BY r.token, r.queue_id, r.started_at, r.worker) AS t;
    INSERT INTO @schema@.history (first_id, last_id, started_at, queue_id, attempts, failed, worker, error, result)
    SELECT r.id, r.id, r.started_at, r.queue_id, ARRAY[r.attempts], r.verdict <> 0, r.worker,
           CASE WHEN r.verdict <> 0 THEN r.note END, CASE WHEN r.verdict = 0 THEN r.note END
    FROM unnest(ended) AS r WHERE r.verdict <> 0 OR r.note IS NOT NULL;
    IF EXISTS (SELECT FROM unnest(ended) AS r WHERE NOT r.plain) THEN
        -- In the order in which job_dead_letters_set_state() locks them.
        PERFORM FROM unnest(ended) AS r JOIN @schema@.job_dead_letters AS l ON l.job_id = r.id
        WHERE NOT r.plain AND l.resolved_at IS NULL ORDER BY l.id FOR UPDATE OF l;
        lettered := FOUND;
    END IF;
    INSERT INTO @schema@.job_dead_letters AS l (job_id, queue_id, attempts, error)
    SELECT r.id, r.queue_id, r.attempts, r.note FROM unnest(ended) AS r WHERE r.verdict = 1
    ON CONFLICT (job_id) DO UPDATE
    SET attempts = l.attempts + excluded.attempts, error = excluded.error, failed_at = clock_timestamp(),
        redrives = l.redrives + (l.state = 'redrive')::int, state = 'dead', reason = NULL, resolved_at = NULL,
        resolved_by = NULL;
    IF EXISTS (SELECT FROM unnest(ended) AS r WHERE NOT r.plain) THEN
        DELETE FROM @schema@.dedups AS d USING unnest(ended) AS r, @schema@.job_data AS p
        WHERE NOT r.plain AND p.id = r.id AND d.queue_id = p.queue_id AND d.dedup = p.dedup AND d.job_id = p.id;
        IF lettered THEN
            UPDATE @schema@.job_dead_letters AS l
            SET state = 'redriven', attempts = l.attempts + r.attempts, redrives = l.redrives + 1,
                resolved_at = clock_timestamp(), resolved_by = r.worker
            FROM unnest(ended) AS r
            WHERE NOT r.plain AND r.verdict = 0 AND l.job_id = r.id AND l.state = 'redrive';
        END IF;
        FOR one IN SELECT r.queue_id, q.hold_key,
                          array_agg(r.key_hash) FILTER (WHERE NOT (q.hold_key AND r.verdict = 1)) AS freed,
                          array_agg(r.id) FILTER (WHERE NOT (q.hold_key AND r.verdict = 1)) AS freeing,
                          array_agg(r.id) FILTER (WHERE q.hold_key AND r.verdict = 1) AS holding
                   FROM unnest(ended) AS r JOIN @schema@.queues AS q ON q.queue_id = r.queue_id
                   WHERE r.key_hash IS NOT NULL GROUP BY r.queue_id, q.hold_key LOOP
            UPDATE @schema@.key_holders AS h SET on_hold = true
            FROM unnest(ended) AS r
            WHERE r.id = ANY (one.holding) AND h.queue_id = one.queue_id AND h.key_hash = r.key_hash
              AND h.job_id = r.id;
            IF one.freed IS NOT NULL THEN
                PERFORM @schema@.free_keys(one.queue_id, one.freed, one.freeing);
            END IF;
        END LOOP;
    END IF;
END
$howdah$;

-- end_lease(held leases) -> void
--
-- The same as end_jobs(), for a whole lease whose jobs are all completed without a result.
-- Reads: job_data.  Writes: history, job_dead_letters, dedups, key_holders, jobs.
CREATE OR REPLACE FUNCTION @schema@.end_lease(held @schema@.leases) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $howdah$
BEGIN
    PERFORM @schema@.log_completed(held.queue_id, held.started_at, held.worker, held.ids, held.attempts);
    IF held.plain THEN
        RETURN;
    END IF;
    PERFORM FROM @schema@.job_dead_letters AS l
    WHERE l.job_id = ANY (held.ids) AND l.resolved_at IS NULL ORDER BY l.id FOR UPDATE;
    IF FOUND THEN
        UPDATE @schema@.job_dead_letters AS l
        SET state = 'redriven', attempts = l.attempts + held.attempts[array_position(held.ids, l.job_id)],
            redrives = l.redrives + 1, resolved_at = clock_timestamp(), resolved_by = held.worker
        WHERE l.job_id = ANY (held.ids) AND l.state = 'redrive';
    END IF;
    DELETE FROM @schema@.dedups AS d USING @schema@.job_data AS p
    WHERE p.id = ANY (held.ids) AND d.queue_id = held.queue_id AND d.dedup = p.dedup AND d.job_id = p.id;
    PERFORM @schema@.free_keys(held.queue_id, held.keys, held.ids);
END
$howdah$;

-- requeue_jobs(given leased_job[]) -> void
--
-- Makes jobs that are in no other place any more ready again: after after_ms (negative: the back-off of
-- their queue), with the attempts that are given.
-- Reads: queues, job_data, job_dead_letters.  Writes: jobs, key_holders.
CREATE OR REPLACE FUNCTION @schema@.requeue_jobs(given @schema@.leased_job[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $howdah$
DECLARE
    one record;
BEGIN
    INSERT INTO @schema@.jobs (due_at, id, queue_id, priority, attempts, suspect, plain, key_hash, error)
    SELECT clock_timestamp()
           + CASE WHEN r.after_ms >= 0 THEN r.after_ms
                  ELSE least(q.backoff_initial_ms * power(2, least(greatest(r.attempts, 1) - 1, 40)), q.backoff_max_ms)
                       * (1 + q.backoff_jitter / 100.0 * (2 * random() - 1)) END * interval '1 millisecond',
           r.id, r.queue_id, p.priority, r.attempts, r.suspect,
           r.plain OR p.key IS NULL AND p.dedup IS NULL
                      AND NOT EXISTS (SELECT FROM @schema@.job_dead_letters AS l WHERE l.job_id = r.id AND l.state = 'redrive'),
           r.key_hash, r.note
    FROM unnest(given) AS r
    JOIN @schema@.queues AS q ON q.queue_id = r.queue_id
    JOIN @schema@.job_data AS p ON p.id = r.id;
    -- Mostly the job itself is the earliest of its key, but not if an earlier one was tried again.
    FOR one IN SELECT r.queue_id, array_agg(r.key_hash) AS freed, array_agg(r.id) AS freeing
               FROM unnest(given) AS r
               WHERE r.key_hash IS NOT NULL GROUP BY r.queue_id LOOP
        PERFORM @schema@.free_keys(one.queue_id, one.freed, one.freeing);
    END LOOP;
END
$howdah$;

-- attempts_of(of_queue integer, job bigint) -> integer
--
-- How often a job may be tried.
-- Reads: queues, job_data.
CREATE OR REPLACE FUNCTION @schema@.attempts_of(of_queue integer, job bigint) RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE WHEN p.max_attempts > 0 THEN p.max_attempts ELSE q.max_attempts END
    FROM @schema@.job_data AS p, @schema@.queues AS q WHERE p.id = job AND q.queue_id = of_queue
$howdah$;

-- give_back(of_queue integer, limit_n integer) -> integer
--
-- Ends leases that ran out.  Their jobs are ready again, as suspects, or FAILED when they have no attempt left or
-- their event was purged.  Returns how many leases there were, at most limit_n.  A lease that somebody is acking
-- now, or with a job whose event is being purged now, is left alone.
-- Reads, writes: leases, jobs, job_data, queues, history, job_dead_letters, dedups, key_holders.
CREATE OR REPLACE FUNCTION @schema@.give_back(of_queue integer, limit_n integer) RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    lost    @schema@.leases;
    made_of bigint[];
    parts   @schema@.leased_job[];
    n       integer := 0;
BEGIN
    FOR lost IN SELECT * FROM @schema@.leases AS l
                WHERE l.queue_id = of_queue AND l.until < clock_timestamp()
                LIMIT limit_n FOR UPDATE SKIP LOCKED LOOP
        made_of := ARRAY(SELECT p.event_sequence FROM @schema@.job_data AS p
                         WHERE p.id = ANY (lost.ids) AND p.event_sequence IS NOT NULL);
        CONTINUE WHEN cardinality(made_of) > 0 AND (
            SELECT count(*) FROM @schema@.events AS e WHERE e.global_sequence = ANY (made_of)) > (
            SELECT count(*) FROM (SELECT FROM @schema@.events AS e WHERE e.global_sequence = ANY (made_of)
                                  FOR SHARE SKIP LOCKED) AS x);
        DELETE FROM @schema@.leases AS l WHERE l.token = lost.token AND l.part = lost.part;
        SELECT array_agg(ROW(0, u.id, lost.token, lost.part, of_queue, u.attempts, u.key_hash, lost.plain, true,
                             lost.started_at, lost.worker,
                             CASE WHEN x.note IS NOT NULL THEN 5 WHEN u.attempts < m.attempts THEN 2 ELSE 1 END,
                             coalesce(x.note,
                                      format('abandoned: its worker did not answer for %s ms (attempt %s of %s)',
                                             lost.lease_ms, u.attempts, m.attempts)),
                             0)::@schema@.leased_job) INTO parts
        FROM unnest(lost.ids, lost.attempts, lost.keys) AS u(id, attempts, key_hash),
            LATERAL @schema@.attempts_of(of_queue, u.id) AS m(attempts),
            LATERAL @schema@.purged_note(u.id) AS x(note);
        PERFORM @schema@.requeue_jobs(ARRAY(SELECT r FROM unnest(parts) AS r WHERE r.verdict = 2));
        IF EXISTS (SELECT FROM unnest(parts) AS r WHERE r.verdict <> 2) THEN
            PERFORM @schema@.end_jobs(ARRAY(SELECT r FROM unnest(parts) AS r WHERE r.verdict <> 2));
        END IF;
        n := n + 1;
    END LOOP;
    RETURN n;
END
$howdah$;
