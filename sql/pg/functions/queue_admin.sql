-- queue_states(queue text) -> one row per queue
--
-- Settings and counts of one queue (NULL: of all, by name), at one moment.  Every job that was pushed is
-- counted in exactly one of pending, processing, scheduled, completed, failed and purged.
-- Reads: queues, jobs, leases, history, removed_jobs, job_dead_letters.
CREATE OR REPLACE FUNCTION @schema@.queue_states(queue text DEFAULT NULL)
RETURNS TABLE (name text, paused boolean, max_attempts integer, backoff_jitter integer, concurrency integer,
               abandon_after_ms bigint, backoff_initial_ms bigint, backoff_max_ms bigint, history_ms bigint,
               hold_key boolean, created_at timestamptz, pending bigint, processing bigint, scheduled bigint,
               completed bigint, failed bigint, purged bigint, oldest_age_ms bigint, dead_letters bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT q.name, q.paused, q.max_attempts, q.backoff_jitter, q.concurrency, q.abandon_after_ms,
           q.backoff_initial_ms, q.backoff_max_ms, q.history_ms, q.hold_key, q.created_at,
           j.due, coalesce(l.jobs, 0)::bigint, j.jobs - j.due, h.jobs - h.failed + coalesce(r.completed, 0),
           h.failed + coalesce(r.failed, 0), q.purged,
           (extract(epoch FROM clock_timestamp() - j.oldest) * 1000)::bigint, d.dead_letters
    FROM @schema@.queues AS q
    CROSS JOIN LATERAL (
        -- A job that has an earlier one of its key waits, whenever it is due.
        SELECT count(*) AS jobs, count(*) FILTER (WHERE x.due_at <= now() AND NOT x.waits) AS due,
               min(x.due_at) FILTER (WHERE x.due_at <= now() AND NOT x.waits) AS oldest
        FROM (SELECT y.due_at,
                     q.keyed AND y.key_hash IS NOT NULL
                     AND (row_number() OVER (PARTITION BY y.key_hash ORDER BY y.id) > 1
                          OR EXISTS (SELECT FROM @schema@.key_holders AS h
                                     WHERE h.queue_id = q.queue_id AND h.key_hash = y.key_hash)) AS waits
              FROM @schema@.jobs AS y WHERE y.queue_id = q.queue_id) AS x) AS j
    CROSS JOIN LATERAL (
        SELECT sum(cardinality(x.ids)) AS jobs FROM @schema@.leases AS x WHERE x.queue_id = q.queue_id) AS l
    CROSS JOIN LATERAL (
        SELECT coalesce(sum(x.jobs), 0) AS jobs, count(*) FILTER (WHERE x.failed) AS failed
        FROM @schema@.history AS x WHERE x.queue_id = q.queue_id) AS h
    LEFT JOIN @schema@.removed_jobs AS r ON r.queue_id = q.queue_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS dead_letters FROM @schema@.job_dead_letters AS x
        WHERE x.queue_id = q.queue_id AND x.resolved_at IS NULL) AS d
    WHERE queue_states.queue IS NULL OR q.name = queue_states.queue
    ORDER BY q.name
$howdah$;

-- queue_outlook(queue text, look_at_leases boolean, levels integer[]) -> one row, or none if there is no such queue
--
-- For a worker that found too few jobs: whether the queue is paused; how long until the next job is due;
-- if asked for, how long until the next lease may run out (NULL: not known).
--
--   levels    for which the caller has floors (see claim_jobs()), ascending: their beginning is not searched
--
-- Reads: queues, jobs, leases.
CREATE OR REPLACE FUNCTION @schema@.queue_outlook(
    queue text, look_at_leases boolean DEFAULT true, levels integer[] DEFAULT NULL)
RETURNS TABLE (queue_id integer, paused boolean, next_ms bigint, lease_ms bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
    SELECT q.queue_id, q.paused,
           CASE WHEN v.due IS NOT NULL
                THEN greatest(ceil(extract(epoch FROM v.due - clock_timestamp()) * 1000), 0)::bigint END,
           CASE WHEN l.until IS NOT NULL
                THEN greatest(ceil(extract(epoch FROM l.until - clock_timestamp()) * 1000), 0)::bigint END
    FROM @schema@.queues AS q
    CROSS JOIN LATERAL (
        SELECT min(n.due_at) AS due
        FROM @schema@.next_levels(q.queue_id, 'infinity', -2147483648, 2147483647, 2147483647, queue_outlook.levels,
                                  NULL, NULL) AS k,
            unnest(k.levels) AS x(level)
        LEFT JOIN LATERAL (
            -- statement_timestamp() does not change, so the index search starts there and not at the first job.
            SELECT j.due_at FROM @schema@.jobs AS j
            WHERE j.queue_id = q.queue_id AND j.level = x.level AND j.due_at > statement_timestamp()
              AND j.due_at < 'infinity'
            ORDER BY j.due_at, j.id LIMIT 1) AS n ON true) AS v
    CROSS JOIN LATERAL (
        SELECT min(x.until) AS until FROM @schema@.leases AS x
        WHERE queue_outlook.look_at_leases AND x.queue_id = q.queue_id) AS l
    WHERE q.name = queue_outlook.queue
$howdah$;

-- push_horizon() -> bigint
--
-- The xid of the oldest open transaction that has written to jobs; without one, the next xid.  No older
-- transaction can still add a job that is due by now.  It is for sessions whose floors do not rise because a
-- transaction that has nothing to do with the queue is open for long.
-- Reads: pg_locks.
CREATE OR REPLACE FUNCTION @schema@.push_horizon() RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    WITH lock AS MATERIALIZED (
        SELECT l.locktype, l.database, l.relation, l.virtualtransaction AS owner, l.mode, l.granted,
               l.transactionid::text::bigint AS xid
        FROM pg_locks AS l
    ), next AS (
        SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xid
    ), owner AS (
        -- pg_locks has only the lower 32 bits: take the number that is nearest to the next xid.
        SELECT n.xid + (x.xid - n.xid % 4294967296 + 6442450944) % 4294967296 - 2147483648 AS xid
        FROM next AS n, lock AS r
        JOIN lock AS x ON x.owner = r.owner AND x.locktype = 'transactionid' AND x.mode = 'ExclusiveLock' AND x.granted
        WHERE r.locktype = 'relation' AND r.mode = 'RowExclusiveLock' AND r.granted
          AND r.relation = @jobs_text@::regclass
          AND r.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    )
    SELECT coalesce((SELECT min(o.xid) FROM owner AS o), (SELECT n.xid FROM next AS n))
$howdah$;

-- queue_set(queue, ...) -> void
--
-- Creates a queue, or changes the settings that are given.
-- Errors: UH006.  Reads, writes: queues.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.queue_set(
    queue text, abandon_after_ms bigint DEFAULT NULL, max_attempts bigint DEFAULT NULL,
    backoff_initial_ms bigint DEFAULT NULL, backoff_max_ms bigint DEFAULT NULL,
    backoff_jitter bigint DEFAULT NULL, concurrency bigint DEFAULT NULL, history_ms bigint DEFAULT NULL,
    hold_key boolean DEFAULT NULL, paused boolean DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
DECLARE
    q       constant @schema@.queues := @schema@.queue_of(queue);
    longest constant bigint := 316224000000; -- HOWDAH_DELAY_MAX_MS
    problem constant text := CASE
        WHEN abandon_after_ms NOT BETWEEN 100 AND longest THEN 'abandon_after: must be 100ms to 10 years'
        WHEN max_attempts NOT BETWEEN 1 AND 32767 THEN 'max_attempts: must be 1 to 32767'
        WHEN backoff_initial_ms NOT BETWEEN 0 AND longest THEN 'backoff_initial: must be 0ms to 10 years'
        WHEN backoff_max_ms NOT BETWEEN 0 AND longest THEN 'backoff_max: must be 0ms to 10 years'
        WHEN backoff_jitter NOT BETWEEN 0 AND 100 THEN 'backoff_jitter: must be 0 to 100 percent'
        WHEN concurrency NOT BETWEEN 0 AND 2147483647 THEN 'concurrency: must be 0 (no limit) to 2147483647'
        WHEN history_ms NOT BETWEEN 0 AND longest THEN 'history: must be 0ms (for ever) to 10 years' END;
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    UPDATE @schema@.queues AS u
    SET abandon_after_ms = coalesce(abandon_after_ms, u.abandon_after_ms),
        max_attempts = coalesce(max_attempts, u.max_attempts),
        backoff_initial_ms = coalesce(backoff_initial_ms, u.backoff_initial_ms),
        backoff_max_ms = coalesce(backoff_max_ms, u.backoff_max_ms),
        backoff_jitter = coalesce(backoff_jitter, u.backoff_jitter),
        concurrency = coalesce(concurrency, u.concurrency),
        history_ms = coalesce(history_ms, u.history_ms),
        hold_key = coalesce(hold_key, u.hold_key),
        paused = coalesce(paused, u.paused)
    WHERE u.queue_id = q.queue_id;
    PERFORM @schema@.ring_queue(q.queue_id);
END
$howdah$;

-- queue_purge(queue text) -> bigint
--
-- Removes every job of the queue that nobody has claimed, and returns how many; NULL: no such queue.
-- A dead letter whose job was waiting for another try is discarded.
-- Reads, writes: queues, jobs, job_data, dedups, job_dead_letters.  Locks: the jobs and the row of the queue.
CREATE OR REPLACE FUNCTION @schema@.queue_purge(queue text) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    of_queue integer;
    keys     bigint[];
    n        bigint;
BEGIN
    SELECT q.queue_id INTO of_queue FROM @schema@.queues AS q WHERE q.name = queue FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    WITH gone AS (
        DELETE FROM @schema@.jobs AS j WHERE j.queue_id = of_queue RETURNING j.id, j.key_hash
    ), keys AS (
        DELETE FROM @schema@.dedups AS d USING gone AS g WHERE d.queue_id = of_queue AND d.job_id = g.id
    ), data AS (
        DELETE FROM @schema@.job_data AS p USING gone AS g WHERE p.id = g.id
    ), polled AS (
        DELETE FROM @schema@.polled_jobs AS p USING gone AS g WHERE p.job_id = g.id
    )
    SELECT count(*), array_agg(DISTINCT g.key_hash) FILTER (WHERE g.key_hash IS NOT NULL) INTO n, keys FROM gone AS g;
    -- A job that was pushed meanwhile may have been set aside because of one of the removed jobs.
    PERFORM @schema@.promote_keys(of_queue, keys);
    UPDATE @schema@.queues AS q SET purged = q.purged + n WHERE q.queue_id = of_queue AND n > 0;
    UPDATE @schema@.job_dead_letters AS l
    SET state = 'discarded', reason = 'purged', resolved_at = clock_timestamp(), resolved_by = session_user
    WHERE l.queue_id = of_queue AND l.resolved_at IS NULL AND l.state = 'redrive'
      AND NOT EXISTS (SELECT FROM @schema@.job_data AS p WHERE p.id = l.job_id);
    RETURN n;
END
$howdah$;

-- remove_history(of_queue integer, older_than_ms bigint, limit_n integer) -> integer
--
-- Removes history that is too old, at most limit_n rows, except that of jobs with an open dead letter.
-- Returns how many rows.  One session at a time does this; others do not wait.  A call passes at most 500
-- rows that it has to keep.  The next call goes on after them, and starts again once the end is reached.
-- Reads, writes: history, job_data, job_dead_letters, removed_jobs, polled_jobs.
-- Locks: the queue's row of removed_jobs.
CREATE OR REPLACE FUNCTION @schema@.remove_history(of_queue integer, older_than_ms bigint, limit_n integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    young  constant timestamptz := clock_timestamp() - older_than_ms * interval '1 millisecond';
    begun  constant bigint := (SELECT r.spared FROM @schema@.removed_jobs AS r WHERE r.queue_id = of_queue);
    behind bigint := 0;
    spares integer := 0;
    one    record;
    old    bigint[] := '{}';
    n      bigint;
    bad    bigint;
BEGIN
    -- The oldest come first: the search ends at the first one that is young enough.
    FOR one IN SELECT e.position, e.finished_at, e.failed, e.last_id FROM @schema@.history AS e
               WHERE e.queue_id = of_queue AND e.position > begun ORDER BY e.position LOOP
        EXIT WHEN one.finished_at >= young OR cardinality(old) >= limit_n;
        IF one.failed AND EXISTS (SELECT FROM @schema@.job_dead_letters AS l
                                  WHERE l.job_id = one.last_id AND l.resolved_at IS NULL) THEN
            spares := spares + 1;
            IF spares >= 500 THEN
                behind := one.position;
                EXIT;
            END IF;
        ELSE
            old := old || one.position;
        END IF;
    END LOOP;
    IF cardinality(old) = 0 AND behind = begun THEN
        RETURN 0;
    END IF;
    PERFORM FROM @schema@.removed_jobs AS r WHERE r.queue_id = of_queue FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    WITH gone AS (
        DELETE FROM @schema@.history AS e WHERE e.queue_id = of_queue AND e.position = ANY (old)
        RETURNING e.jobs, e.failed, e.first_id, e.last_id, e.ids
    ), over AS MATERIALIZED (
        SELECT u.id FROM gone AS g,
            unnest(coalesce(g.ids, ARRAY(SELECT generate_series(g.first_id, g.last_id)))) AS u(id)
    ), data AS (
        DELETE FROM @schema@.job_data AS p USING over AS o WHERE p.id = o.id
    ), polled AS (
        DELETE FROM @schema@.polled_jobs AS p USING over AS o WHERE p.job_id = o.id
    )
    SELECT coalesce(sum(g.jobs), 0), count(*) FILTER (WHERE g.failed) INTO n, bad FROM gone AS g;
    UPDATE @schema@.removed_jobs AS r SET completed = r.completed + n - bad, failed = r.failed + bad, spared = behind
    WHERE r.queue_id = of_queue;
    RETURN cardinality(old);
END
$howdah$;

-- tidy_up(queue text, limit_n integer) -> woken, removed
--
-- Wakes jobs that wait although their key is free, and removes history that is too old: see wake_keys() and
-- remove_history().  When there is nothing to do it costs a few index lookups.
-- Reads: queues; see there.
CREATE OR REPLACE FUNCTION @schema@.tidy_up(queue text, limit_n integer, OUT woken boolean, OUT removed integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
AS $howdah$
DECLARE
    q @schema@.queues;
BEGIN
    woken := false;
    removed := 0;
    SELECT * INTO q FROM @schema@.queues AS x WHERE x.name = queue;
    IF q.keyed THEN
        woken := @schema@.wake_keys(q.queue_id, 1000);
    END IF;
    IF q.history_ms > 0 THEN
        removed := @schema@.remove_history(q.queue_id, q.history_ms, limit_n);
    END IF;
END
$howdah$;

-- queue_tidy(queue text, limit_n integer) -> boolean
--
-- Gives back leases that ran out, wakes jobs that wait although their key is free, and removes history that is
-- too old, at most limit_n rows of each; true: there is more to do.
-- Reads: queues.  Reads, writes: see give_back(), tidy_up().
CREATE OR REPLACE FUNCTION @schema@.queue_tidy(queue text, limit_n integer DEFAULT 1000) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    of_queue constant integer := (SELECT x.queue_id FROM @schema@.queues AS x WHERE x.name = queue);
    back     constant integer := @schema@.give_back(of_queue, limit_n);
BEGIN
    RETURN (SELECT t.removed >= limit_n FROM @schema@.tidy_up(queue, limit_n) AS t) OR back >= limit_n;
END
$howdah$;

-- queue_arm(queue text) -> text
--
-- For a worker that is about to sleep.  The next push from now on rings the bell of the queue, once, by a
-- NOTIFY on the channel that is returned (NULL: no such queue).  LISTEN there first, then call this, claim once
-- more, and only then wait.  Wait no longer than until the next job is due (queue_outlook()), and not for ever,
-- because a ring is a hint that may be lost.
-- Reads: queues.  Writes: bell, at once, whether the transaction commits or not.
CREATE OR REPLACE FUNCTION @schema@.queue_arm(queue text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    type constant text := (SELECT 'queue.' || x.queue_id FROM @schema@.queues AS x WHERE x.name = queue);
BEGIN
    IF type IS NOT NULL THEN
        PERFORM setval(@bell_text@, b.last_value | @schema@.bell_bit(type)) FROM @schema@.bell AS b
        WHERE b.last_value & @schema@.bell_bit(type) = 0;
    END IF;
    RETURN CASE WHEN type IS NOT NULL THEN @schema@.channel(type) END;
END
$howdah$;

-- job_states(id bigint) -> one row, or none
--
-- Everything about a job, wherever it is.  Its token is shown only to roles that manage queues: others know
-- their tokens from the claim.
-- Reads: queues, job_data, events, jobs, leases, history.
CREATE OR REPLACE FUNCTION @schema@.job_states(id bigint)
RETURNS TABLE (job_id bigint, state text, queue text, token bigint, priority smallint, attempts smallint,
               max_attempts integer, suspect boolean, created_at timestamptz, due_at timestamptz,
               started_at timestamptz, lease_until timestamptz, worker text, key text, dedup text,
               correlation_id text, causation_id uuid, event_sequence bigint, content_type text, headers json,
               data json, bytes bytea, "position" bigint, finished_at timestamptz, error text, result text, event_type text,
               event_stream text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
    SELECT p.id,
           CASE WHEN l.token IS NOT NULL THEN 'processing'
                WHEN j.id IS NOT NULL THEN
                    CASE WHEN j.due_at <= clock_timestamp()
                              AND (j.key_hash IS NULL
                                   OR NOT EXISTS (SELECT FROM @schema@.key_holders AS k
                                                  WHERE k.queue_id = j.queue_id AND k.key_hash = j.key_hash)
                                      AND NOT EXISTS (SELECT FROM @schema@.jobs AS b
                                                      WHERE b.queue_id = j.queue_id AND b.key_hash = j.key_hash
                                                        AND b.id < j.id))
                         THEN 'pending' ELSE 'scheduled' END
                WHEN h.failed THEN 'failed' WHEN h.position IS NOT NULL THEN 'completed' END,
           q.name,
           CASE WHEN has_function_privilege(@schema@.calling_role(), quote_ident(@schema_text@) || '.queue_purge(text)',
                                            'EXECUTE')
                THEN l.token END,
           p.priority,
           coalesce(l.attempts[array_position(l.ids, p.id)], j.attempts, h.tries),
           CASE WHEN p.max_attempts > 0 THEN p.max_attempts ELSE q.max_attempts END, coalesce(j.suspect, false),
           p.created_at, nullif(j.due_at, 'infinity'), coalesce(l.started_at, h.started_at), l.until,
           coalesce(l.worker, h.worker), p.key, p.dedup, p.correlation_id, p.causation_id, p.event_sequence,
           coalesce(p.content_type, e.content_type), coalesce(p.headers, e.headers), coalesce(p.data, e.data),
           coalesce(p.bytes, e.bytes), h.position, h.finished_at, coalesce(h.error, j.error), h.result,
           e.type::text, e.stream::text
    FROM @schema@.job_data AS p
    JOIN @schema@.queues AS q ON q.queue_id = p.queue_id
    LEFT JOIN @schema@.events AS e ON e.global_sequence = p.event_sequence
    LEFT JOIN @schema@.jobs AS j
        ON j.queue_id = p.queue_id AND j.level IN (2 * p.priority, 2 * p.priority + 1) AND j.id = p.id
    LEFT JOIN @schema@.leases AS l ON j.id IS NULL AND l.queue_id = p.queue_id AND p.id = ANY (l.ids)
    LEFT JOIN LATERAL (
        SELECT x.position + coalesce(array_position(x.ids, p.id), p.id - x.first_id + 1) - 1 AS position,
               coalesce(x.attempts[coalesce(array_position(x.ids, p.id), p.id - x.first_id + 1)], 1) AS tries,
               x.failed, x.started_at, x.finished_at, x.worker, x.error, x.result
        FROM @schema@.history AS x
        WHERE j.id IS NULL AND l.token IS NULL AND x.last_id >= p.id AND x.first_id <= p.id
          AND (x.ids IS NULL OR p.id = ANY (x.ids))
        ORDER BY x.last_id LIMIT 1) AS h ON true
    WHERE p.id = job_states.id
    LIMIT 1
$howdah$;

-- event_log: the history, a row for each job.  Jobs that ended together have the same batch.  Order by
-- (batch, position), which is the same as by position: then the index can be used.
CREATE OR REPLACE VIEW @schema@.event_log AS
SELECT h.position + u.n - 1 AS position, u.id AS job_id, h.started_at, h.finished_at, h.queue_id,
       coalesce(h.attempts[u.n], 1::smallint) AS attempts, h.failed, h.worker, h.error, h.result,
       h.position AS batch
FROM @schema@.history AS h
CROSS JOIN LATERAL unnest(coalesce(h.ids, ARRAY(SELECT generate_series(h.first_id, h.last_id))))
    WITH ORDINALITY AS u(id, n);

-- ended_jobs: the history, with the queue, the job and its event.
CREATE OR REPLACE VIEW @schema@.ended_jobs AS
SELECT q.name AS queue, h.queue_id, h.job_id, h.failed, h.attempts,
       CASE WHEN p.max_attempts > 0 THEN p.max_attempts ELSE q.max_attempts END AS max_attempts, p.priority,
       p.created_at, h.started_at, h.worker, p.key, p.dedup, p.correlation_id, p.causation_id, p.event_sequence,
       coalesce(p.content_type, e.content_type) AS content_type, coalesce(p.headers, e.headers) AS headers,
       coalesce(p.data, e.data) AS data, coalesce(p.bytes, e.bytes) AS bytes, h.position, h.finished_at, h.error,
       h.result, e.type::text AS event_type, e.stream::text AS event_stream, h.batch
FROM @schema@.event_log AS h
JOIN @schema@.queues AS q ON q.queue_id = h.queue_id
JOIN @schema@.job_data AS p ON p.id = h.job_id
LEFT JOIN @schema@.events AS e ON e.global_sequence = p.event_sequence;

-- queue_history(queue, only_failed, after, limit_n, backward) -> jobs that are over
--
-- By position, those above "after" (backward: below it; 0: from the first one in that direction).
-- Reads: queues, history, job_data, events.
CREATE OR REPLACE FUNCTION @schema@.queue_history(
    queue text, only_failed boolean DEFAULT NULL, after bigint DEFAULT 0, limit_n bigint DEFAULT NULL,
    backward boolean DEFAULT false)
RETURNS SETOF @schema@.ended_jobs
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_sort = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    of_queue constant integer := (SELECT q.queue_id FROM @schema@.queues AS q WHERE q.name = queue);
    below    constant bigint := CASE WHEN backward AND after > 0 THEN after ELSE 9223372036854775807 END;
    above    constant bigint := CASE WHEN backward THEN 0 ELSE greatest(after, 0) END;
BEGIN
    -- Failures are few, and have an index of their own.
    IF only_failed AND backward THEN
        RETURN QUERY SELECT v.* FROM @schema@.ended_jobs AS v
        WHERE v.queue_id = of_queue AND v.failed AND v.batch > above - 1000 AND v.batch < below AND v.position > above
          AND v.position < below
        ORDER BY v.batch DESC, v.position DESC LIMIT limit_n;
    ELSIF only_failed THEN
        RETURN QUERY SELECT v.* FROM @schema@.ended_jobs AS v
        WHERE v.queue_id = of_queue AND v.failed AND v.batch > above - 1000 AND v.batch < below AND v.position > above
          AND v.position < below
        ORDER BY v.batch, v.position LIMIT limit_n;
    ELSIF backward THEN
        RETURN QUERY SELECT v.* FROM @schema@.ended_jobs AS v
        WHERE v.queue_id = of_queue AND v.batch > above - 1000 AND v.batch < below AND v.position > above
          AND v.position < below AND (only_failed IS NULL OR NOT v.failed)
        ORDER BY v.batch DESC, v.position DESC LIMIT limit_n;
    ELSE
        RETURN QUERY SELECT v.* FROM @schema@.ended_jobs AS v
        WHERE v.queue_id = of_queue AND v.batch > above - 1000 AND v.batch < below AND v.position > above
          AND v.position < below AND (only_failed IS NULL OR NOT v.failed)
        ORDER BY v.batch, v.position LIMIT limit_n;
    END IF;
END
$howdah$;

-- job_cancel(id, reason) -> text
--
-- Ends a job that nobody has claimed: FAILED, without a dead letter.  If it was to be tried again for a dead
-- letter, that one is discarded.  Returns 'cancelled', or why not: 'processing', 'completed', 'failed', or
-- NULL if there is no such job.
-- Reads, writes: jobs, job_data, history, job_dead_letters, dedups, key_holders.  Locks: the job.
CREATE OR REPLACE FUNCTION @schema@.job_cancel(id bigint, reason text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    gone @schema@.jobs;
    held boolean;
BEGIN
    PERFORM FROM @schema@.queues AS q JOIN @schema@.job_data AS p ON p.queue_id = q.queue_id
    WHERE p.id = job_cancel.id FOR NO KEY UPDATE OF q;
    -- A transaction that gives the key back now waits for us, or we wait for it: one of the two makes the next job due.
    PERFORM FROM @schema@.job_data AS p
    JOIN @schema@.key_holders AS h ON h.queue_id = p.queue_id AND h.key_hash = hashtextextended(p.key, p.queue_id)
    WHERE p.id = job_cancel.id FOR KEY SHARE OF h;
    held := FOUND;
    DELETE FROM @schema@.jobs AS j USING @schema@.job_data AS p
    WHERE p.id = job_cancel.id AND j.queue_id = p.queue_id AND j.level IN (2 * p.priority, 2 * p.priority + 1)
      AND j.id = p.id
    RETURNING j.* INTO gone;
    IF NOT FOUND THEN
        RETURN (SELECT s.state FROM @schema@.job_states(job_cancel.id) AS s);
    END IF;
    INSERT INTO @schema@.history (first_id, last_id, queue_id, attempts, failed, error)
    VALUES (gone.id, gone.id, gone.queue_id, ARRAY[gone.attempts], true, 'cancelled' || coalesce(': ' || reason, ''));
    DELETE FROM @schema@.dedups AS d USING @schema@.job_data AS p
    WHERE p.id = gone.id AND d.queue_id = gone.queue_id AND d.dedup = p.dedup AND d.job_id = gone.id;
    UPDATE @schema@.job_dead_letters AS l
    SET state = 'discarded', reason = 'cancelled' || coalesce(': ' || job_cancel.reason, ''),
        attempts = l.attempts + gone.attempts, redrives = l.redrives + (gone.attempts > 0)::int,
        resolved_at = clock_timestamp(), resolved_by = session_user
    WHERE l.job_id = gone.id AND l.state = 'redrive';
    IF gone.key_hash IS NOT NULL AND NOT held THEN
        PERFORM @schema@.promote_keys(gone.queue_id, ARRAY[gone.key_hash]);
    END IF;
    RETURN 'cancelled';
END
$howdah$;

-- job_rerun(id) -> text
--
-- A job that waits becomes due now.  A job that has FAILED is ready again, with all its attempts, and first
-- of its key; an open dead letter of it is in state 'redrive' until the job has completed or failed again
-- (end_jobs).  Returns 'ready', or why not: 'processing', 'completed', 'purged' (its event was), or NULL if
-- there is no such job.
-- Errors: UH003 (another job has its dedup key now).
-- Reads, writes: jobs, job_data, history, job_dead_letters, dedups, key_holders.
-- Locks: the event it was made from, the job.
CREATE OR REPLACE FUNCTION @schema@.job_rerun(id bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    p    @schema@.job_data;
    gone @schema@.history;
BEGIN
    SELECT * INTO p FROM @schema@.job_data AS x WHERE x.id = job_rerun.id;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM pg_current_xact_id();
    IF @schema@.purged_note(p.id) IS NOT NULL
       AND (SELECT s.state FROM @schema@.job_states(job_rerun.id) AS s) = 'failed' THEN
        RETURN 'purged';
    END IF;
    -- Locked first, as job_dead_letters_set_state() does.
    PERFORM FROM @schema@.job_dead_letters AS l WHERE l.job_id = p.id AND l.resolved_at IS NULL FOR UPDATE;
    DELETE FROM @schema@.history AS e WHERE e.last_id = p.id AND e.failed RETURNING e.* INTO gone;
    IF NOT FOUND THEN
        UPDATE @schema@.jobs AS j SET due_at = clock_timestamp()
        WHERE j.queue_id = p.queue_id AND j.level IN (2 * p.priority, 2 * p.priority + 1) AND j.id = p.id
          AND j.due_at > clock_timestamp();
        IF NOT FOUND THEN
            -- Scheduled here: it is due, but another job of its key comes first.
            RETURN coalesce((SELECT CASE WHEN s.state IN ('pending', 'scheduled') THEN 'ready' ELSE s.state END
                             FROM @schema@.job_states(job_rerun.id) AS s), 'processing');
        END IF;
    ELSE
        IF p.dedup IS NOT NULL THEN
            INSERT INTO @schema@.dedups (queue_id, dedup, job_id) VALUES (p.queue_id, p.dedup, p.id)
            ON CONFLICT DO NOTHING;
            IF NOT FOUND THEN
                RAISE EXCEPTION USING ERRCODE = 'UH003', MESSAGE = format('job %s cannot be tried again: another job has its dedup key', p.id);
            END IF;
        END IF;
        INSERT INTO @schema@.jobs (due_at, id, queue_id, priority, plain, key_hash, error)
        VALUES (clock_timestamp(), p.id, p.queue_id, p.priority,
                p.key IS NULL AND p.dedup IS NULL
                AND NOT EXISTS (SELECT FROM @schema@.job_dead_letters AS l WHERE l.job_id = p.id AND l.resolved_at IS NULL),
                hashtextextended(p.key, p.queue_id), gone.error);
        IF p.key IS NOT NULL THEN
            PERFORM @schema@.free_keys(p.queue_id, ARRAY[hashtextextended(p.key, p.queue_id)], ARRAY[p.id]);
        END IF;
        UPDATE @schema@.job_dead_letters AS l SET state = 'redrive' WHERE l.job_id = p.id AND l.resolved_at IS NULL;
    END IF;
    PERFORM @schema@.ring_queue(p.queue_id);
    RETURN 'ready';
END
$howdah$;
