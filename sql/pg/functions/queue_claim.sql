-- claim_free(of_queue, n, levels, floor_dues, floor_ids, moment) -> picked, left_at
--
-- Of the jobs of a queue with keys: up to n that may run, locked, their keys taken.  A job whose
-- key is in use, or that has an earlier one of its key before it, is set aside, but only if the one
-- before it can be held still meanwhile: only then is it sure that it will be made due again.  Others
-- are left where they are; left_at is when the first of those was due, infinity without any.
-- Reads, writes: jobs, key_holders.
CREATE OR REPLACE FUNCTION @schema@.claim_free(
    of_queue integer, n integer, levels integer[], floor_dues timestamptz[], floor_ids bigint[],
    moment timestamptz, OUT picked tid[], OUT left_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    look  integer;
    seen  tid[];
    free  tid[];
    aside tid[];
    stays tid[] := '{}';
BEGIN
    picked := '{}';
    left_at := 'infinity';
    FOR round IN 1..100 LOOP
        -- A long row of jobs that have to wait is set aside in large steps.
        look := greatest(n - cardinality(picked), CASE WHEN round > 1 THEN 100 ELSE 0 END);
        seen := ARRAY(
            SELECT s.ctid FROM unnest(levels, floor_dues, floor_ids) AS f(level, due, id),
                LATERAL (SELECT j.ctid FROM @schema@.jobs AS j
                         WHERE j.queue_id = of_queue AND j.level = f.level AND (j.due_at, j.id) > (f.due, f.id)
                           AND j.due_at <= moment AND NOT j.suspect AND j.ctid <> ALL (picked || stays)
                         ORDER BY j.due_at, j.id LIMIT look FOR UPDATE SKIP LOCKED) AS s
            LIMIT look);
        EXIT WHEN cardinality(seen) = 0;
        free := ARRAY(
            SELECT s.ctid FROM @schema@.jobs AS s
            WHERE s.ctid = ANY (seen)
              AND (s.key_hash IS NULL
                   OR NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                                  WHERE h.queue_id = of_queue AND h.key_hash = s.key_hash)
                      AND NOT EXISTS (SELECT FROM @schema@.jobs AS e
                                      WHERE e.queue_id = of_queue AND e.key_hash = s.key_hash AND e.id < s.id))
            ORDER BY s.level, s.due_at, s.id LIMIT n - cardinality(picked));
        WITH taken AS (
            INSERT INTO @schema@.key_holders (queue_id, key_hash, job_id)
            SELECT of_queue, s.key_hash, s.id FROM @schema@.jobs AS s
            WHERE s.ctid = ANY (free) AND s.key_hash IS NOT NULL ORDER BY s.key_hash
            ON CONFLICT DO NOTHING RETURNING job_id
        )
        SELECT picked || array_agg(s.ctid) INTO picked FROM @schema@.jobs AS s
        WHERE s.ctid = ANY (free) AND (s.key_hash IS NULL OR s.id IN (SELECT t.job_id FROM taken AS t));
        picked := coalesce(picked, '{}');
        aside := ARRAY(
            SELECT s.ctid FROM @schema@.jobs AS s,
                LATERAL (SELECT FROM @schema@.key_holders AS h
                         WHERE h.queue_id = of_queue AND h.key_hash = s.key_hash AND h.job_id <> s.id
                         FOR KEY SHARE SKIP LOCKED) AS h
            WHERE s.ctid = ANY (seen) AND s.ctid <> ALL (picked));
        aside := aside || ARRAY(
            SELECT s.ctid FROM @schema@.jobs AS s,
                LATERAL (SELECT FROM @schema@.jobs AS e
                         WHERE e.queue_id = of_queue AND e.key_hash = s.key_hash AND e.id < s.id
                         ORDER BY e.id LIMIT 1 FOR KEY SHARE SKIP LOCKED) AS e
            WHERE s.ctid = ANY (seen) AND s.ctid <> ALL (picked) AND s.ctid <> ALL (aside));
        SELECT stays || coalesce(array_agg(s.ctid), '{}'), least(left_at, min(s.due_at)) INTO stays, left_at
        FROM @schema@.jobs AS s
        WHERE s.ctid = ANY (seen) AND s.ctid <> ALL (picked) AND s.ctid <> ALL (aside);
        UPDATE @schema@.jobs AS j SET due_at = 'infinity', promoted = false WHERE j.ctid = ANY (aside);
        EXIT WHEN cardinality(picked) >= n OR cardinality(stays) > 1000;
    END LOOP;
END
$howdah$;

-- claim_suspect(of_queue, moment) -> tid[]
--
-- The first suspect that may run, locked, its key taken; or none.
-- Reads, writes: jobs, key_holders.
CREATE OR REPLACE FUNCTION @schema@.claim_suspect(of_queue integer, moment timestamptz) RETURNS tid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    picked tid[];
BEGIN
    picked := ARRAY(SELECT j.ctid FROM @schema@.jobs AS j
                    WHERE j.queue_id = of_queue AND j.suspect AND j.due_at <= moment
                      AND (j.key_hash IS NULL
                           OR NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                                          WHERE h.queue_id = of_queue AND h.key_hash = j.key_hash)
                              AND NOT EXISTS (SELECT FROM @schema@.jobs AS e
                                              WHERE e.queue_id = of_queue AND e.key_hash = j.key_hash
                                                AND e.id < j.id))
                    ORDER BY j.priority, j.due_at, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED);
    IF cardinality(picked) = 0 THEN
        RETURN NULL;
    END IF;
    INSERT INTO @schema@.key_holders (queue_id, key_hash, job_id)
    SELECT of_queue, j.key_hash, j.id FROM @schema@.jobs AS j
    WHERE j.ctid = ANY (picked) AND j.key_hash IS NOT NULL
    ON CONFLICT DO NOTHING;
    picked := ARRAY(SELECT j.ctid FROM @schema@.jobs AS j
                    WHERE j.ctid = ANY (picked)
                      AND (j.key_hash IS NULL
                           OR EXISTS (SELECT FROM @schema@.key_holders AS h
                                      WHERE h.queue_id = of_queue AND h.key_hash = j.key_hash
                                        AND h.job_id = j.id)));
    RETURN CASE WHEN cardinality(picked) > 0 THEN picked END;
END
$howdah$;

-- claim_jobs(queue, n, worker, lease_ms, tidy, levels, floor_dues, floor_ids) -> jobs, in order
--
-- Up to n jobs that are due, by priority, due time and id: what claim() and the library stand on.
-- They are leased together, under one token.  A suspect comes first, and alone.  When the payloads of those
-- taken pass 4 MiB, the others stay as they were: ready, the attempt not counted.  The commit does not
-- wait for the disk, and a crash that undoes it takes the sequence back: it is the lower 16 bits, by
-- chance, that keep the next claim of the same job from getting the token that somebody still has.
--
--   tidy        also gives leases back that ran out
--   levels      of priorities (see jobs.level), ascending, in which nothing is left up to (floor_due,
--               floor_id) each: where the search starts.  With tidy, with keys, and without any levels
--               it goes through all others as well
--   xid, horizon, begun_at  what the library moves its floors by; begun_at is not behind a job that
--               was left where it is
--
-- Reads: queues, queue_levels, job_data, events.  Writes: jobs, leases, key_holders; see also
-- give_back().  Locks: the jobs it takes; with a limit of concurrency the row of the queue.
CREATE OR REPLACE FUNCTION @schema@.claim_jobs(
    queue text, n integer, worker text, lease_ms bigint, tidy boolean, levels integer[],
    floor_dues timestamptz[], floor_ids bigint[])
RETURNS TABLE (id bigint, token bigint, attempts smallint, max_attempts smallint, priority smallint,
               suspect boolean, due_at timestamptz, created_at timestamptz, started_at timestamptz,
               lease_until timestamptz, key text, dedup text, correlation_id text, causation_id uuid,
               event_sequence bigint, content_type text, headers json, data json, bytes bytea,
               event_type text, event_stream text, level integer, xid bigint, horizon bigint, begun_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan is the same on an empty table and on a full one, with statistics and without.
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
#variable_conflict use_column
DECLARE
    oldest  constant bigint := pg_snapshot_xmin(pg_current_snapshot())::text::bigint;
    moment  timestamptz := clock_timestamp();
    q       record;
    wanted  integer := n;
    span    bigint;
    one     record;
    picked  tid[];
    left_at timestamptz := 'infinity';
BEGIN
    SELECT x.*, EXISTS (SELECT FROM @schema@.jobs AS j
                        WHERE j.queue_id = x.queue_id AND j.suspect AND j.due_at <= moment) AS suspects
    INTO q FROM @schema@.queues AS x WHERE x.name = queue;
    IF NOT FOUND OR q.paused THEN
        RETURN;
    END IF;
    span := coalesce(nullif(lease_ms, 0), q.abandon_after_ms);
    IF tidy AND @schema@.give_back(q.queue_id, 100) > 0 THEN
        q.suspects := true;
    END IF;
    IF q.concurrency > 0 THEN
        PERFORM FROM @schema@.queues AS x WHERE x.queue_id = q.queue_id FOR NO KEY UPDATE;
        SELECT least(wanted, q.concurrency - coalesce(sum(cardinality(l.ids)), 0)) INTO wanted
        FROM @schema@.leases AS l WHERE l.queue_id = q.queue_id;
    END IF;
    IF wanted <= 0 THEN
        RETURN;
    END IF;
    -- What was given back, or pushed while we waited for the limit, is due as well.
    moment := clock_timestamp();
    IF tidy OR q.keyed OR coalesce(cardinality(levels), 0) = 0 THEN
        -- Of a queue with keys, those that waited come before the others of their priority.
        SELECT array_agg(v.level ORDER BY v.level), array_agg(coalesce(f.due, '-infinity') ORDER BY v.level),
               array_agg(coalesce(f.id, 0) ORDER BY v.level)
        INTO levels, floor_dues, floor_ids
        FROM (SELECT 2 * x.priority + l.lane AS level FROM @schema@.queue_levels AS x, (VALUES (0), (1)) AS l(lane)
              WHERE x.queue_id = q.queue_id AND (q.keyed OR l.lane = 1)) AS v
        LEFT JOIN unnest(levels, floor_dues, floor_ids) AS f(level, due, id) ON f.level = v.level;
    END IF;
    IF q.suspects THEN
        picked := @schema@.claim_suspect(q.queue_id, moment);
    END IF;
    IF q.keyed AND coalesce(cardinality(picked), 0) = 0 THEN
        SELECT c.picked, c.left_at INTO picked, left_at
        FROM @schema@.claim_free(q.queue_id, wanted, levels, floor_dues, floor_ids, moment) AS c;
    END IF;

    IF wanted = 1 AND picked IS NULL THEN
        -- One plain job: statements so small that they cost half of those for many.
        FOR spot IN 1..coalesce(cardinality(levels), 0) LOOP
            DELETE FROM @schema@.jobs AS j
            WHERE j.ctid = (SELECT i.ctid FROM @schema@.jobs AS i
                            WHERE i.queue_id = q.queue_id AND i.level = levels[spot]
                              AND (i.due_at, i.id) > (floor_dues[spot], floor_ids[spot]) AND i.due_at <= moment
                              AND NOT i.suspect AND i.key_hash IS NULL
                            ORDER BY i.due_at, i.id LIMIT 1 FOR UPDATE SKIP LOCKED)
            RETURNING j.id, j.priority, j.level, j.due_at, (j.attempts + 1)::smallint AS attempts, j.plain,
                      nextval(@lease_text@) * 65536 + floor(random() * 65536)::bigint AS token INTO one;
            IF FOUND THEN
                INSERT INTO @schema@.leases (token, started_at, until, lease_ms, queue_id, plain, worker, ids, attempts)
                VALUES (one.token, moment, moment + span * interval '1 millisecond', span, q.queue_id, one.plain,
                        worker, ARRAY[one.id], ARRAY[one.attempts]);
                SELECT one.id, one.token, one.attempts,
                       CASE WHEN p.max_attempts > 0 THEN p.max_attempts ELSE q.max_attempts::smallint END,
                       one.priority, false, one.due_at, p.created_at, moment,
                       moment + span * interval '1 millisecond', p.key, p.dedup, p.correlation_id, p.causation_id,
                       p.event_sequence, p.content_type, p.headers, p.data, p.bytes, one.level,
                       pg_current_xact_id()::text::bigint, oldest, now()
                INTO id, token, attempts, max_attempts, priority, suspect, due_at, created_at, started_at,
                     lease_until, key, dedup, correlation_id, causation_id, event_sequence, content_type, headers,
                     data, bytes, level, xid, horizon, begun_at
                FROM @schema@.job_data AS p WHERE p.id = one.id;
                -- Only if there is one: each table that is touched is a lock more (16 of them are cheap).
                IF event_sequence IS NOT NULL THEN
                    SELECT e.content_type, e.headers, e.data, e.bytes, e.type, e.stream
                    INTO content_type, headers, data, bytes, event_type, event_stream
                    FROM @schema@.events AS e WHERE e.global_sequence = event_sequence;
                END IF;
                RETURN NEXT;
                RETURN;
            END IF;
        END LOOP;
        RETURN;
    END IF;

    -- Payloads that are kept out of line have files of their own, named after their table; mostly these are empty,
    -- and bytes need not be counted.  Expressions, not a query: that would cost twice as much.
    IF pg_relation_size(('pg_toast.pg_toast_' || @job_data_text@::regclass::oid)::regclass) = 0
       AND pg_relation_size(('pg_toast.pg_toast_' || @events_text@::regclass::oid)::regclass) = 0 THEN
        RETURN QUERY
        WITH gone AS (
            DELETE FROM @schema@.jobs AS j
            WHERE j.ctid = ANY (CASE WHEN picked IS NOT NULL THEN picked ELSE ARRAY(
                SELECT s.ctid FROM unnest(levels, floor_dues, floor_ids) AS f(level, due, id),
                    LATERAL (SELECT i.ctid FROM @schema@.jobs AS i
                             WHERE i.queue_id = q.queue_id AND i.level = f.level
                               AND (i.due_at, i.id) > (f.due, f.id) AND i.due_at <= moment
                               AND NOT i.suspect AND i.key_hash IS NULL
                             ORDER BY i.due_at, i.id LIMIT wanted FOR UPDATE SKIP LOCKED) AS s
                LIMIT wanted) END)
            RETURNING j.id, j.priority, j.level, j.due_at, (j.attempts + 1)::smallint AS attempts, j.suspect, j.plain, j.key_hash
        ), lease AS (
            INSERT INTO @schema@.leases AS l (token, started_at, until, lease_ms, queue_id, plain, suspect, worker, ids,
                                              attempts, keys)
            SELECT nextval(@lease_text@) * 65536 + floor(random() * 65536)::bigint, moment,
                   moment + span * interval '1 millisecond', span, q.queue_id, bool_and(g.plain), bool_or(g.suspect),
                   worker, array_agg(g.id), array_agg(g.attempts),
                   CASE WHEN NOT bool_and(g.plain) THEN array_agg(g.key_hash) END
            FROM (SELECT * FROM gone ORDER BY gone.id) AS g HAVING count(*) > 0
            RETURNING l.token, l.until
        )
        SELECT g.id, l.token, g.attempts,
               CASE WHEN p.max_attempts > 0 THEN p.max_attempts ELSE q.max_attempts::smallint END, g.priority,
               g.suspect, g.due_at, p.created_at, moment, l.until, p.key, p.dedup, p.correlation_id, p.causation_id,
               p.event_sequence, coalesce(p.content_type, e.content_type), coalesce(p.headers, e.headers),
               coalesce(p.data, e.data), coalesce(p.bytes, e.bytes), e.type::text, e.stream::text,
               g.level, pg_current_xact_id()::text::bigint, oldest, least(now(), left_at)
        FROM lease AS l, gone AS g
        JOIN @schema@.job_data AS p ON p.id = g.id
        LEFT JOIN @schema@.events AS e ON e.global_sequence = p.event_sequence
        ORDER BY g.level, g.due_at, g.id;
        RETURN;
    END IF;

    RETURN QUERY
    WITH gone AS (
        DELETE FROM @schema@.jobs AS j
        WHERE j.ctid = ANY (CASE WHEN picked IS NOT NULL THEN picked ELSE ARRAY(
            SELECT s.ctid FROM unnest(levels, floor_dues, floor_ids) AS f(level, due, id),
                LATERAL (SELECT i.ctid FROM @schema@.jobs AS i
                         WHERE i.queue_id = q.queue_id AND i.level = f.level
                           AND (i.due_at, i.id) > (f.due, f.id) AND i.due_at <= moment
                           AND NOT i.suspect AND i.key_hash IS NULL
                         ORDER BY i.due_at, i.id LIMIT wanted FOR UPDATE SKIP LOCKED) AS s
            LIMIT wanted) END)
        RETURNING j.id, j.priority, j.level, j.due_at, j.attempts, j.suspect, j.plain, j.key_hash, j.promoted, j.error
    ), loaded AS (
        -- Bytes of what comes before each: a text of some size may be compressed, 100 to 1, so it is measured;
        -- of a large one it is enough to know that it is.
        SELECT g.*, p.max_attempts, p.created_at, p.key, p.dedup, p.correlation_id, p.causation_id, p.event_sequence,
               coalesce(p.content_type, e.content_type) AS content_type, coalesce(p.headers, e.headers) AS headers,
               coalesce(p.data, e.data) AS data, coalesce(p.bytes, e.bytes) AS bytes, e.type, e.stream,
               sum(CASE WHEN pg_column_size(coalesce(p.data, e.data)) <= 512 THEN 512
                        WHEN pg_column_size(coalesce(p.data, e.data)) <= 65536
                            THEN octet_length(coalesce(p.data, e.data)::text)
                        ELSE coalesce(4 * pg_column_size(coalesce(p.data, e.data)),
                                      octet_length(coalesce(p.bytes, e.bytes)), 0) END)
                   OVER (ORDER BY g.level, g.due_at, g.id
                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM gone AS g
        JOIN @schema@.job_data AS p ON p.id = g.id
        LEFT JOIN @schema@.events AS e ON e.global_sequence = p.event_sequence
    ), back AS (
        INSERT INTO @schema@.jobs (due_at, id, queue_id, priority, attempts, suspect, plain, promoted, key_hash, error)
        SELECT d.due_at, d.id, q.queue_id, d.priority, d.attempts, d.suspect, d.plain, d.promoted, d.key_hash, d.error
        FROM loaded AS d WHERE d.before >= 4194304
        RETURNING id, key_hash
    ), unheld AS (
        DELETE FROM @schema@.key_holders AS h USING back AS b
        WHERE b.key_hash IS NOT NULL AND h.queue_id = q.queue_id AND h.key_hash = b.key_hash AND h.job_id = b.id
    ), lease AS (
        INSERT INTO @schema@.leases AS l (token, started_at, until, lease_ms, queue_id, plain, suspect, worker, ids,
                                          attempts, keys)
        SELECT nextval(@lease_text@) * 65536 + floor(random() * 65536)::bigint, moment,
               moment + span * interval '1 millisecond', span, q.queue_id, bool_and(g.plain), bool_or(g.suspect),
               worker, array_agg(g.id), array_agg((g.attempts + 1)::smallint),
               CASE WHEN NOT bool_and(g.plain) THEN array_agg(g.key_hash) END
        FROM (SELECT * FROM loaded AS d WHERE d.before < 4194304 IS NOT FALSE ORDER BY d.id) AS g HAVING count(*) > 0
        RETURNING l.token, l.until
    )
    SELECT d.id, l.token, (d.attempts + 1)::smallint,
           CASE WHEN d.max_attempts > 0 THEN d.max_attempts ELSE q.max_attempts::smallint END, d.priority,
           d.suspect, d.due_at, d.created_at, moment, l.until, d.key, d.dedup, d.correlation_id, d.causation_id,
           d.event_sequence, d.content_type, d.headers, d.data, d.bytes, d.type::text, d.stream::text,
           d.level, pg_current_xact_id()::text::bigint, oldest, least(now(), left_at)
    FROM lease AS l, loaded AS d
    WHERE d.before < 4194304 IS NOT FALSE
    ORDER BY d.level, d.due_at, d.id;
END
$howdah$;

-- claim(queue, n, worker, lease) -> jobs
--
-- Up to n jobs that are due, each with the token that complete(), fail(), retry(), release() and
-- extend() want back before the lease is over.  Fewer come when their payloads pass 4 MiB: claim again.
-- Errors: UH006.  Reads, writes, locks: see claim_jobs().
CREATE OR REPLACE FUNCTION @schema@.claim(
    queue text, n integer DEFAULT 1, worker text DEFAULT NULL, lease interval DEFAULT NULL)
RETURNS TABLE (id bigint, token bigint, attempts smallint, max_attempts smallint, data json, headers json,
               bytes bytea, content_type text, key text, correlation_id text, causation_id uuid,
               created_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
BEGIN
    IF coalesce(n, 0) NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'n: must be 1 to 10000';
    END IF;
    IF lease <= interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'lease: must be longer than nothing';
    END IF;
    RETURN QUERY
    SELECT c.id, c.token, c.attempts, c.max_attempts, c.data, c.headers, c.bytes, c.content_type, c.key,
           c.correlation_id, c.causation_id, c.created_at, c.lease_until
    FROM @schema@.claim_jobs(queue, n, coalesce(worker, 'pid ' || pg_backend_pid()),
                             coalesce((extract(epoch FROM lease) * 1000)::bigint, 0), true, NULL, NULL, NULL) AS c;
END
$howdah$;

-- poll(queue) -> one job, or no row; finalize() ends it.
--
-- The token is kept in the session, in the setting howdah.job_{id}.
-- Reads, writes, locks: see claim_jobs().
CREATE OR REPLACE FUNCTION @schema@.poll(queue text)
RETURNS TABLE (id bigint, token bigint, attempts smallint, data json, headers json)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    SELECT c.id, c.token, c.attempts, c.data, c.headers INTO id, token, attempts, data, headers
    FROM @schema@.claim(queue, 1) AS c;
    IF FOUND THEN
        PERFORM set_config('howdah.job_' || id, token::text, false);
        RETURN NEXT;
    END IF;
END
$howdah$;
