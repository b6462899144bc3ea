-- complete_plain(ids, tokens) -> the ids and tokens of those that are over now
--
-- Completes jobs of leases in which no job has a key or a dedup key.  A lease shrinks, or is removed when
-- no job is left in it.
-- Writes: leases, history.  Locks: the leases.
CREATE OR REPLACE FUNCTION @schema@.complete_plain(INOUT ids bigint[], INOUT tokens bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    WITH given AS MATERIALIZED (
        SELECT DISTINCT u.id, u.token FROM unnest(ids, tokens) AS u(id, token)
    ), held AS MATERIALIZED (
        SELECT l.* FROM @schema@.leases AS l
        WHERE l.plain AND l.token = ANY (ARRAY(SELECT DISTINCT u.token FROM unnest(tokens) AS u(token)))
        FOR UPDATE
    ), every AS MATERIALIZED (
        SELECT h.token, h.part, h.queue_id, h.started_at, h.worker, u.id, u.attempts, g.id IS NOT NULL AS done
        FROM held AS h CROSS JOIN LATERAL unnest(h.ids, h.attempts) AS u(id, attempts)
        LEFT JOIN given AS g ON g.token = h.token AND g.id = u.id
    ), rest AS MATERIALIZED (
        SELECT e.token, e.part, array_agg(e.id ORDER BY e.id) FILTER (WHERE NOT e.done) AS ids,
               array_agg(e.attempts ORDER BY e.id) FILTER (WHERE NOT e.done) AS attempts
        FROM every AS e GROUP BY e.token, e.part
    ), gone AS (
        DELETE FROM @schema@.leases AS l USING rest AS r
        WHERE l.token = r.token AND l.part = r.part AND r.ids IS NULL
    ), cut AS (
        UPDATE @schema@.leases AS l SET ids = r.ids, attempts = r.attempts, keys = NULL FROM rest AS r
        WHERE l.token = r.token AND l.part = r.part AND r.ids IS NOT NULL
    ), logged AS MATERIALIZED (
        SELECT d.ids, d.tokens, @schema@.log_completed(d.queue_id, d.started_at, d.worker, d.ids, d.attempts)
        FROM (SELECT e.queue_id, e.started_at, e.worker, array_agg(e.id ORDER BY e.id) AS ids,
                     array_agg(e.token) AS tokens, array_agg(e.attempts ORDER BY e.id) AS attempts
              FROM every AS e WHERE e.done GROUP BY e.token, e.part, e.queue_id, e.started_at, e.worker) AS d
    )
    SELECT array_agg(u.id), array_agg(u.token) INTO ids, tokens
    FROM logged AS d, unnest(d.ids, d.tokens) AS u(id, token);
END
$howdah$;

-- ack_jobs(ids, tokens, verdicts, notes, afters_ms) -> smallint[], one for each, in order
--
-- Acks jobs that a claim gave out.  Verdicts: 0 complete (note: the result), 1 fail (note: the error),
-- 2 retry after so many milliseconds (negative: the back-off of the queue; FAILED without an attempt
-- left), 3 release (as if it had not been claimed), 4 extend by so many milliseconds from now (0: the
-- length it was claimed with).  notes and afters_ms may be NULL.  Answers: 0 the token is stale, nothing
-- was changed; 1 done; 2 it was to be retried or released, but has FAILED.
--
-- A job whose event was purged meanwhile can still be completed.  With 1, 2 or 3 it FAILS without a dead
-- letter, with the error "cancelled: purged: " and the reason.
--
-- Errors: UH006.
-- Reads: queues, job_data, purges.  Writes: leases, history, jobs, job_dead_letters, dedups, key_holders.
-- Locks: the leases, then the events from which such jobs were made; see purged_note().
CREATE OR REPLACE FUNCTION @schema@.ack_jobs(
    ids bigint[], tokens bigint[], verdicts integer[], notes text[], afters_ms bigint[])
RETURNS smallint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    n        constant integer := coalesce(cardinality(ids), 0);
    done     bigint := 0;
    held     @schema@.leases;
    parts    bigint;
    locked   bigint;
    whole    bigint[]; -- tokens of leases that are completed already,
    ended    bigint[]; -- and jobs that are completed already, with their tokens
    under    bigint[];
    outcomes smallint[];
    mine     @schema@.leased_job[];
BEGIN
    IF n <> coalesce(cardinality(tokens), 0) OR n <> coalesce(cardinality(verdicts), 0)
       OR n <> cardinality(notes) OR n <> cardinality(afters_ms)
       OR array_position(verdicts, NULL) IS NOT NULL OR NOT 0 <= ALL (verdicts) OR NOT 4 >= ALL (verdicts) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'verdicts: must be 0 to 4, as many as ids and tokens';
    END IF;
    IF tokens[1] <> ANY (tokens) THEN
        -- All sessions that ack some of the same leases lock them in the same order.
        PERFORM FROM @schema@.leases AS l WHERE l.token = ANY (tokens) ORDER BY l.token, l.part FOR UPDATE;
    END IF;
    IF 0 = ALL (verdicts) AND notes IS NULL THEN
        -- Nearly all acks are like this: done, without a result.  First whole leases,
        IF tokens[1] = ALL (tokens) THEN
            DELETE FROM @schema@.leases AS l
            WHERE l.token = tokens[1]
              AND l.ids = CASE WHEN n = 1 THEN ack_jobs.ids
                               ELSE ARRAY(SELECT u.id FROM unnest(ack_jobs.ids) AS u(id) ORDER BY u.id) END
            RETURNING l.* INTO held;
            IF held.plain AND n = 1 THEN
                INSERT INTO @schema@.history (first_id, last_id, started_at, queue_id, worker, attempts)
                VALUES (ids[1], ids[1], held.started_at, held.queue_id, held.worker,
                        CASE WHEN held.attempts[1] <> 1 THEN held.attempts END);
                RETURN ARRAY[1::smallint];
            ELSIF held.token IS NOT NULL THEN
                PERFORM @schema@.end_lease(held);
                RETURN array_fill(1::smallint, ARRAY[n]);
            END IF;
        ELSE
            FOR held IN
                DELETE FROM @schema@.leases AS l
                USING (SELECT u.token, array_agg(u.id ORDER BY u.id) AS ids
                       FROM unnest(ack_jobs.ids, tokens) AS u(id, token) GROUP BY u.token) AS g
                WHERE l.token = g.token AND l.plain AND l.ids = g.ids
                RETURNING l.*
            LOOP
                PERFORM @schema@.end_lease(held);
                whole := whole || held.token;
                done := done + cardinality(held.ids);
            END LOOP;
            IF done = n THEN
                RETURN array_fill(1::smallint, ARRAY[n]);
            END IF;
        END IF;
        -- then parts of leases.
        SELECT c.ids, c.tokens INTO ended, under FROM @schema@.complete_plain(ids, tokens) AS c;
    END IF;

    -- A lease that was split while we waited has a new part, which only the next look can lock.
    LOOP
        SELECT count(*) INTO locked
        FROM (SELECT FROM @schema@.leases AS l WHERE l.token = ANY (tokens) ORDER BY l.token, l.part FOR UPDATE) AS l;
        SELECT count(*) INTO parts FROM @schema@.leases AS l WHERE l.token = ANY (tokens);
        EXIT WHEN parts = locked;
    END LOOP;
    SELECT array_agg(ROW(g.n, g.id, g.token, l.part, l.queue_id, l.attempts, l.key_hash, l.plain, l.suspect,
                         l.started_at, l.worker,
                         CASE WHEN x.note IS NOT NULL THEN 5
                              WHEN g.verdict = 2 AND l.attempts >= @schema@.attempts_of(l.queue_id, g.id)
                              THEN 1 ELSE g.verdict END,
                         coalesce(x.note, g.note),
                         CASE WHEN g.verdict = 3 THEN 0
                              WHEN g.verdict = 4 AND coalesce(g.after_ms, 0) = 0 THEN l.lease_ms
                              ELSE coalesce(g.after_ms, -1) END)::@schema@.leased_job)
    INTO mine
    FROM (SELECT DISTINCT ON (v.id, v.token) v.* FROM unnest(ids, tokens, verdicts, notes, afters_ms)
          WITH ORDINALITY AS v(id, token, verdict, note, after_ms, n) ORDER BY v.id, v.token, v.n) AS g
    JOIN (SELECT x.token, x.part, x.queue_id, x.plain, x.suspect, x.started_at, x.worker, x.lease_ms, y.id, y.attempts, y.key_hash
          FROM @schema@.leases AS x, unnest(x.ids, x.attempts, x.keys) AS y(id, attempts, key_hash)
          WHERE x.token = ANY (tokens) OFFSET 0) AS l ON l.token = g.token AND l.id = g.id
    CROSS JOIN LATERAL (SELECT CASE WHEN g.verdict IN (1, 2, 3) THEN @schema@.purged_note(g.id) END AS note) AS x;
    mine := coalesce(mine, '{}');

    -- Extended jobs leave their lease for a new part, unless they are the whole lease.
    UPDATE @schema@.leases AS l SET until = clock_timestamp() + x.after_ms * interval '1 millisecond'
    FROM (SELECT r.token, r.part, count(*) AS jobs, max(r.after_ms) AS after_ms FROM unnest(mine) AS r
          WHERE r.verdict = 4 GROUP BY r.token, r.part HAVING min(r.after_ms) = max(r.after_ms)) AS x
    WHERE l.token = x.token AND l.part = x.part AND cardinality(l.ids) = x.jobs;
    IF EXISTS (SELECT FROM unnest(mine) AS r WHERE r.verdict = 4) THEN
        INSERT INTO @schema@.leases (token, part, started_at, until, lease_ms, queue_id, plain, suspect, worker,
                                     ids, attempts, keys)
        SELECT x.token, (SELECT max(t.part) FROM @schema@.leases AS t WHERE t.token = x.token)
                        + row_number() OVER (PARTITION BY x.token ORDER BY x.part, x.after_ms),
               l.started_at, clock_timestamp() + x.after_ms * interval '1 millisecond', l.lease_ms, l.queue_id,
               l.plain, l.suspect, l.worker, x.ids, x.attempts, CASE WHEN l.keys IS NOT NULL THEN x.keys END
        FROM (SELECT r.token, r.part, r.after_ms, array_agg(r.id ORDER BY r.id) AS ids,
                     array_agg(r.attempts ORDER BY r.id) AS attempts,
                     array_agg(r.key_hash ORDER BY r.id) AS keys
              FROM unnest(mine) AS r WHERE r.verdict = 4 GROUP BY r.token, r.part, r.after_ms) AS x
        JOIN @schema@.leases AS l ON l.token = x.token AND l.part = x.part
        WHERE cardinality(l.ids) > cardinality(x.ids);
    END IF;
    DELETE FROM @schema@.leases AS l
    USING (SELECT r.token, r.part, count(*) AS jobs, bool_and(r.verdict = 4) AS extended
           FROM unnest(mine) AS r GROUP BY r.token, r.part) AS x
    WHERE l.token = x.token AND l.part = x.part AND cardinality(l.ids) = x.jobs
      AND NOT (x.extended AND (SELECT count(DISTINCT r.after_ms) FROM unnest(mine) AS r
                               WHERE r.token = x.token AND r.part = x.part) = 1);
    UPDATE @schema@.leases AS l SET (ids, attempts, keys) = (
        SELECT array_agg(u.id ORDER BY u.id), array_agg(u.attempts ORDER BY u.id),
               CASE WHEN l.keys IS NOT NULL THEN array_agg(u.key_hash ORDER BY u.id) END
        FROM unnest(l.ids, l.attempts, l.keys) AS u(id, attempts, key_hash) WHERE u.id <> ALL (x.ids))
    FROM (SELECT r.token, r.part, array_agg(r.id) AS ids FROM unnest(mine) AS r GROUP BY r.token, r.part) AS x
    WHERE l.token = x.token AND l.part = x.part AND cardinality(l.ids) > cardinality(x.ids);

    IF EXISTS (SELECT FROM unnest(mine) AS r WHERE r.verdict IN (2, 3)) THEN
        PERFORM @schema@.requeue_jobs(
            ARRAY(SELECT ROW(r.n, r.id, r.token, r.part, r.queue_id,
                             CASE r.verdict WHEN 3 THEN r.attempts - 1 ELSE r.attempts END, r.key_hash, r.plain,
                             r.suspect, r.started_at, r.worker, r.verdict, r.note, r.after_ms)::@schema@.leased_job
                  FROM unnest(mine) AS r WHERE r.verdict IN (2, 3)));
    END IF;
    IF EXISTS (SELECT FROM unnest(mine) AS r WHERE r.verdict IN (0, 1, 5)) THEN
        PERFORM @schema@.end_jobs(ARRAY(SELECT r FROM unnest(mine) AS r WHERE r.verdict IN (0, 1, 5)));
    END IF;

    SELECT array_agg(CASE WHEN r.n IS NOT NULL
                              THEN CASE WHEN v.verdict IN (2, 3) AND r.verdict IN (1, 5) THEN 2 ELSE 1 END
                          WHEN v.nth = 1 AND (e.id IS NOT NULL OR v.token = ANY (whole)) THEN 1
                          ELSE 0 END::smallint ORDER BY v.n)
    INTO outcomes
    FROM (SELECT g.*, row_number() OVER (PARTITION BY g.id, g.token ORDER BY g.n) AS nth
          FROM unnest(ids, tokens, verdicts) WITH ORDINALITY AS g(id, token, verdict, n)) AS v
    LEFT JOIN unnest(mine) AS r ON r.n = v.n
    LEFT JOIN unnest(ended, under) AS e(id, token) ON e.id = v.id AND e.token = v.token;
    RETURN coalesce(outcomes, '{}');
END
$howdah$;

-- complete(id, token, result), fail(id, token, error), retry(id, token, after, error),
-- release(id, token), extend(id, token, lease) -> boolean
--
-- An ack of one job that claim() gave out; false: the token is stale, nothing was changed.  It runs in the
-- caller's transaction, so that the other effects of this transaction happen exactly once, together with
-- the ack.  retry() without "after" waits as the queue says, and fails the job when it has no attempt left.
-- Reads, writes, locks: see ack_jobs().
CREATE OR REPLACE FUNCTION @schema@.complete(id bigint, token bigint, result text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT 0 <> ALL (@schema@.ack_jobs(ARRAY[id], ARRAY[token], ARRAY[0],
                                          CASE WHEN result IS NOT NULL THEN ARRAY[left(result, 65536)] END, NULL))
$howdah$;

CREATE OR REPLACE FUNCTION @schema@.fail(id bigint, token bigint, error text DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT 0 <> ALL (@schema@.ack_jobs(ARRAY[id], ARRAY[token], ARRAY[1], ARRAY[left(error, 65536)], NULL))
$howdah$;

CREATE OR REPLACE FUNCTION @schema@.retry(id bigint, token bigint, after interval DEFAULT NULL, error text DEFAULT NULL)
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT 0 <> ALL (@schema@.ack_jobs(
        ARRAY[id], ARRAY[token], ARRAY[2], ARRAY[left(error, 65536)],
        ARRAY[CASE WHEN after IS NULL THEN -1 ELSE greatest((extract(epoch FROM after) * 1000)::bigint, 0) END]))
$howdah$;

CREATE OR REPLACE FUNCTION @schema@.release(id bigint, token bigint) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT 0 <> ALL (@schema@.ack_jobs(ARRAY[id], ARRAY[token], ARRAY[3], NULL, NULL))
$howdah$;

CREATE OR REPLACE FUNCTION @schema@.extend(id bigint, token bigint, lease interval DEFAULT NULL) RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT 0 <> ALL (@schema@.ack_jobs(
        ARRAY[id], ARRAY[token], ARRAY[4], NULL,
        ARRAY[CASE WHEN lease IS NULL THEN 0 ELSE greatest((extract(epoch FROM lease) * 1000)::bigint, 1) END]))
$howdah$;

-- complete(ids, tokens) -> boolean[], in order: many at once.
CREATE OR REPLACE FUNCTION @schema@.complete(ids bigint[], tokens bigint[]) RETURNS boolean[]
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT array_agg(o.outcome <> 0 ORDER BY o.n)
    FROM unnest(@schema@.ack_jobs(ids, tokens, array_fill(0, ARRAY[cardinality(ids)]), NULL, NULL))
         WITH ORDINALITY AS o(outcome, n)
$howdah$;

-- finalize(id, success) -> boolean
--
-- Ends a job that poll() gave to this session: COMPLETED, or FAILED.  False: the job does not belong to
-- this session any more.
-- Errors: UH006.  Writes: polled_jobs.  Reads, writes, locks: see ack_jobs().
CREATE OR REPLACE FUNCTION @schema@.finalize(id bigint, success boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
AS $howdah$
DECLARE
    mine    constant bigint := nullif(current_setting('howdah.session', true), '')::bigint;
    token   bigint;
BEGIN
    IF success IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'success: must be true or false';
    END IF;
    DELETE FROM @schema@.polled_jobs AS p WHERE p.job_id = finalize.id AND p.session = mine
    RETURNING p.token INTO token;
    RETURN FOUND AND 0 <> ALL (@schema@.ack_jobs(
        ARRAY[id], ARRAY[token], ARRAY[CASE WHEN success THEN 0 ELSE 1 END],
        CASE WHEN NOT success THEN ARRAY['failed'] END, NULL));
END
$howdah$;
