-- next_levels(of_queue, moment, after, below, n, levels, floor_dues, floor_ids) -> levels, floor_dues, floor_ids
--
-- The next levels of a queue (see jobs.level) after "after" and before "below", ascending, at most n: those that
-- are given (ascending; nothing is left in them up to their (floor_due, floor_id)), and all others on which a job
-- is due.  The first index entry of a level shows both where the level is and when its first job is due.  So a
-- level costs one lookup, however many jobs it has, and a priority that is not used any more costs none.
-- Reads: jobs.
CREATE OR REPLACE FUNCTION @schema@.next_levels(
    of_queue integer, moment timestamptz, after integer, below integer, n integer,
    INOUT levels integer[], INOUT floor_dues timestamptz[], INOUT floor_ids bigint[])
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    known      constant integer[] := coalesce(levels, '{}');
    known_dues constant timestamptz[] := floor_dues;
    known_ids  constant bigint[] := floor_ids;
    spot       integer := 1;
    place      integer := after;
    first      record;
BEGIN
    SELECT '{}', '{}', '{}' INTO levels, floor_dues, floor_ids;
    WHILE cardinality(levels) < n LOOP
        WHILE known[spot] <= place LOOP
            spot := spot + 1;
        END LOOP;
        -- Not on the given levels: the index may still have many dead entries at their beginning.
        SELECT j.level, j.due_at INTO first FROM @schema@.jobs AS j
        WHERE j.queue_id = of_queue AND j.level > place AND j.level < least(known[spot], below)
        ORDER BY j.level, j.due_at, j.id LIMIT 1;
        IF FOUND THEN
            place := first.level;
            IF first.due_at <= moment THEN
                levels := levels || place;
                floor_dues := floor_dues || '-infinity'::timestamptz;
                floor_ids := floor_ids || 0::bigint;
            END IF;
        ELSIF known[spot] < below THEN
            place := known[spot];
            levels := levels || place;
            floor_dues := floor_dues || known_dues[spot];
            floor_ids := floor_ids || known_ids[spot];
        ELSE
            EXIT;
        END IF;
    END LOOP;
END
$howdah$;

-- claim_free(of_queue, n, levels, floor_dues, floor_ids, moment) -> picked, left_at
--
-- For a queue with keys: up to n jobs that may run, locked, with their keys taken.  A job whose key is in use,
-- or that has an earlier job of its key, is set aside, but only if the key's row or the earlier job can be locked
-- meanwhile: only then is it certain that somebody makes it due again.  Other such jobs are left where they are;
-- left_at is when the first of those was due, infinity if there is none.
--
-- The levels are walked once, up to some hundred jobs at a time, until n are found.  However many jobs of a key
-- in use come first, nothing is found only if there is nothing.  Once one job is found, the walk ends after ten
-- thousand.
-- Reads, writes: jobs, key_holders.
CREATE OR REPLACE FUNCTION @schema@.claim_free(
    of_queue integer, n integer, levels integer[], floor_dues timestamptz[], floor_ids bigint[],
    moment timestamptz, OUT picked tid[], OUT left_at timestamptz)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    look   integer := n;
    looked integer := 0;
    seen   tid[];
    last   record;  -- the last of the jobs in seen
    free   tid[];
    taken  tid[];
    rest   tid[];
    aside  tid[];
BEGIN
    picked := '{}';
    left_at := 'infinity';
    LOOP
        seen := ARRAY(
            SELECT s.ctid FROM unnest(levels, floor_dues, floor_ids) AS f(level, due, id),
                LATERAL (SELECT j.ctid FROM @schema@.jobs AS j
                         WHERE j.queue_id = of_queue AND j.level = f.level AND (j.due_at, j.id) > (f.due, f.id)
                           AND j.due_at <= moment AND NOT j.suspect
                         ORDER BY j.due_at, j.id LIMIT look FOR UPDATE SKIP LOCKED) AS s
            LIMIT look);
        EXIT WHEN cardinality(seen) = 0;
        SELECT j.level, j.due_at, j.id INTO last FROM @schema@.jobs AS j WHERE j.ctid = seen[cardinality(seen)];
        free := ARRAY(
            SELECT s.ctid FROM @schema@.jobs AS s
            WHERE s.ctid = ANY (seen)
              AND (s.key_hash IS NULL
                   OR NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                                  WHERE h.queue_id = of_queue AND h.key_hash = s.key_hash)
                      AND NOT EXISTS (SELECT FROM @schema@.jobs AS e
                                      WHERE e.queue_id = of_queue AND e.key_hash = s.key_hash AND e.id < s.id))
            ORDER BY s.level, s.due_at, s.id LIMIT n - cardinality(picked));
        WITH held AS (
            INSERT INTO @schema@.key_holders (queue_id, key_hash, job_id)
            SELECT of_queue, s.key_hash, s.id FROM @schema@.jobs AS s
            WHERE s.ctid = ANY (free) AND s.key_hash IS NOT NULL ORDER BY s.key_hash
            ON CONFLICT DO NOTHING RETURNING job_id
        )
        SELECT coalesce(array_agg(s.ctid), '{}') INTO taken FROM @schema@.jobs AS s
        WHERE s.ctid = ANY (free) AND (s.key_hash IS NULL OR s.id IN (SELECT t.job_id FROM held AS t));
        picked := picked || taken;
        rest := ARRAY(SELECT u.one FROM unnest(seen) AS u(one) EXCEPT ALL SELECT u.one FROM unnest(taken) AS u(one));
        IF cardinality(rest) > 0 THEN
            aside := ARRAY(
                SELECT s.ctid FROM @schema@.jobs AS s,
                    LATERAL (SELECT FROM @schema@.key_holders AS h
                             WHERE h.queue_id = of_queue AND h.key_hash = s.key_hash AND h.job_id <> s.id
                             FOR KEY SHARE SKIP LOCKED) AS h
                WHERE s.ctid = ANY (rest));
            rest := ARRAY(SELECT u.one FROM unnest(rest) AS u(one) EXCEPT ALL SELECT u.one FROM unnest(aside) AS u(one));
            aside := aside || ARRAY(
                SELECT s.ctid FROM @schema@.jobs AS s,
                    LATERAL (SELECT FROM @schema@.jobs AS e
                             WHERE e.queue_id = of_queue AND e.key_hash = s.key_hash AND e.id < s.id
                             ORDER BY e.id LIMIT 1 FOR KEY SHARE SKIP LOCKED) AS e
                WHERE s.ctid = ANY (rest));
            left_at := least(left_at, (
                SELECT min(s.due_at) FROM @schema@.jobs AS s
                WHERE s.ctid = ANY (ARRAY(SELECT u.one FROM unnest(rest) AS u(one)
                                          EXCEPT ALL SELECT u.one FROM unnest(aside) AS u(one)))));
            UPDATE @schema@.jobs AS j SET due_at = 'infinity', promoted = false WHERE j.ctid = ANY (aside);
        END IF;
        looked := looked + cardinality(seen);
        EXIT WHEN cardinality(picked) >= n OR cardinality(seen) < look OR cardinality(picked) > 0 AND looked >= 10000;
        -- Go on after these.  Many jobs in a row that have to wait are set aside in large steps.
        look := greatest(n - cardinality(picked), least(2 * greatest(look, 50), 500));
        SELECT array_agg(f.level ORDER BY f.level),
               array_agg(CASE WHEN f.level = last.level THEN last.due_at ELSE f.due END ORDER BY f.level),
               array_agg(CASE WHEN f.level = last.level THEN last.id ELSE f.id END ORDER BY f.level)
        INTO levels, floor_dues, floor_ids
        FROM unnest(levels, floor_dues, floor_ids) AS f(level, due, id) WHERE f.level >= last.level;
    END LOOP;
END
$howdah$;

-- find_suspect(of_queue, moment) -> spot, priority
--
-- The first suspect that may run, locked; NULL: there is none.
-- Reads: jobs, key_holders.  Locks: the job.
CREATE OR REPLACE FUNCTION @schema@.find_suspect(
    of_queue integer, moment timestamptz, OUT spot tid, OUT priority smallint)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
BEGIN
    SELECT j.ctid, j.priority INTO spot, priority FROM @schema@.jobs AS j
    WHERE j.queue_id = of_queue AND j.suspect AND j.due_at <= moment
      AND (j.key_hash IS NULL
           OR NOT EXISTS (SELECT FROM @schema@.key_holders AS h
                          WHERE h.queue_id = of_queue AND h.key_hash = j.key_hash)
              AND NOT EXISTS (SELECT FROM @schema@.jobs AS e
                              WHERE e.queue_id = of_queue AND e.key_hash = j.key_hash AND e.id < j.id))
    ORDER BY j.priority, j.due_at, j.id LIMIT 1 FOR UPDATE OF j SKIP LOCKED;
END
$howdah$;

-- claim_suspect(of_queue, spot) -> tid[]
--
-- Takes the key of the suspect that find_suspect() has found; NULL: another job has the key meanwhile.
-- Reads, writes: jobs, key_holders.
CREATE OR REPLACE FUNCTION @schema@.claim_suspect(of_queue integer, spot tid) RETURNS tid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    INSERT INTO @schema@.key_holders (queue_id, key_hash, job_id)
    SELECT of_queue, j.key_hash, j.id FROM @schema@.jobs AS j WHERE j.ctid = spot AND j.key_hash IS NOT NULL
    ON CONFLICT DO NOTHING;
    IF EXISTS (SELECT FROM @schema@.jobs AS j
               WHERE j.ctid = spot
                 AND (j.key_hash IS NULL
                      OR EXISTS (SELECT FROM @schema@.key_holders AS h
                                 WHERE h.queue_id = of_queue AND h.key_hash = j.key_hash AND h.job_id = j.id))) THEN
        RETURN ARRAY[spot];
    END IF;
    RETURN NULL;
END
$howdah$;

-- leased_jobs(of_queue integer) -> integer: how many jobs of a queue are leased.
-- Reads: leases.
CREATE OR REPLACE FUNCTION @schema@.leased_jobs(of_queue integer) RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce(sum(cardinality(l.ids)), 0)::integer FROM @schema@.leases AS l WHERE l.queue_id = of_queue
$howdah$;

-- claim_jobs(queue, n, worker, lease_ms, tidy, every, levels, floor_dues, floor_ids) -> jobs, in order
--
-- Up to n jobs that are due, by priority, due time and id: what claim() and the library use.
-- They are leased together, under one token.  A suspect comes before all others of its priority, and alone.
-- When the payloads of those taken pass 4 MiB, the others stay as they were: ready, and the attempt not counted.
-- The commit does not wait for the disk, and a crash that undoes it sets the sequence back.  Then the lower 16
-- bits, which are random, keep the next claim of the same job from getting a token that a worker still has.
--
--   tidy        also gives back leases that ran out
--   levels      of priorities (see jobs.level), ascending, in which nothing is left up to their (floor_due,
--               floor_id): where the search starts
--   every       searches all other levels as well.  This is also done with tidy, with keys, with a suspect, and
--               when there is nothing on the given levels
--   xid, horizon, begun_at  for the library to raise its floors; begun_at is not after the due time of a job
--               that was left where it is
--
-- Reads: queues, job_data, events.  Writes: jobs, leases, key_holders, claim_locks; see also
-- give_back().  Locks: the jobs it takes, and a suspect that it leaves; with a concurrency limit the row of the
-- queue in claim_locks.
CREATE OR REPLACE FUNCTION @schema@.claim_jobs(
    queue text, n integer, worker text, lease_ms bigint, tidy boolean, every boolean, levels integer[],
    floor_dues timestamptz[], floor_ids bigint[])
RETURNS TABLE (id bigint, token bigint, attempts smallint, max_attempts smallint, priority smallint,
               suspect boolean, due_at timestamptz, created_at timestamptz, started_at timestamptz,
               lease_until timestamptz, key text, dedup text, correlation_id text, causation_id uuid,
               event_sequence bigint, content_type text, headers json, data json, bytes bytea,
               event_type text, event_stream text, level integer, xid bigint, horizon bigint, begun_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- These settings keep the plan the same on an empty table and a full one, with statistics and without.
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
    after   integer := -2147483648;
    below   integer := 2147483647;
    known   record;  -- levels and floors as they are given
    spot    tid;     -- of a suspect
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
        wanted := least(n, q.concurrency - @schema@.leased_jobs(q.queue_id));
        IF wanted > 0 THEN
            -- Claims take turns.  One that cannot see what the claim before it took must try again (40001).
            INSERT INTO @schema@.claim_locks AS c (queue_id) VALUES (q.queue_id)
            ON CONFLICT (queue_id) DO UPDATE SET claims = c.claims + 1;
            wanted := least(n, q.concurrency - @schema@.leased_jobs(q.queue_id));
        END IF;
    END IF;
    IF wanted <= 0 THEN
        RETURN;
    END IF;
    -- After the wait, so that jobs that were given back or pushed meanwhile are due as well.
    moment := clock_timestamp();
    IF q.suspects THEN
        SELECT s.spot, 2 * s.priority INTO spot, below FROM @schema@.find_suspect(q.queue_id, moment) AS s;
        below := coalesce(below, 2147483647);
    END IF;
    every := every OR tidy OR q.keyed OR q.suspects OR coalesce(cardinality(levels), 0) = 0;
    SELECT levels, floor_dues, floor_ids INTO known;

    -- Some levels at a time: first those before a suspect, then the suspect.
    LOOP
        IF every AND picked IS NULL THEN
            SELECT v.levels, v.floor_dues, v.floor_ids INTO levels, floor_dues, floor_ids
            FROM @schema@.next_levels(q.queue_id, moment, after, below, least(wanted, 1000), known.levels,
                                      known.floor_dues, known.floor_ids) AS v;
            after := levels[cardinality(levels)];
            IF cardinality(levels) = 0 THEN
                EXIT WHEN spot IS NULL;
                picked := @schema@.claim_suspect(q.queue_id, spot);
                SELECT NULL, 2147483647, below - 1 INTO spot, below, after;
                CONTINUE;
            END IF;
        END IF;
        IF q.keyed AND picked IS NULL THEN
            SELECT nullif(c.picked, '{}'), least(left_at, c.left_at) INTO picked, left_at
            FROM @schema@.claim_free(q.queue_id, wanted, levels, floor_dues, floor_ids, moment) AS c;
            CONTINUE WHEN picked IS NULL;
        END IF;

        IF wanted = 1 AND picked IS NULL THEN
            -- One plain job: these small statements cost half as much as those for many jobs.
            FOR nth IN 1..cardinality(levels) LOOP
                DELETE FROM @schema@.jobs AS j
                WHERE j.ctid = (SELECT i.ctid FROM @schema@.jobs AS i
                                WHERE i.queue_id = q.queue_id AND i.level = levels[nth]
                                  AND (i.due_at, i.id) > (floor_dues[nth], floor_ids[nth]) AND i.due_at <= moment
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
                    -- A statement of its own: each table that is touched takes one more lock (only the first 16 are cheap).
                    IF event_sequence IS NOT NULL THEN
                        SELECT e.content_type, e.headers, e.data, e.bytes, e.type, e.stream
                        INTO content_type, headers, data, bytes, event_type, event_stream
                        FROM @schema@.events AS e WHERE e.global_sequence = event_sequence;
                    END IF;
                    RETURN NEXT;
                    RETURN;
                END IF;
            END LOOP;
        -- Large payloads are stored out of line, in TOAST files named after their table.  Mostly these files are empty.
        -- Then bytes need not be counted, unless there are many jobs whose payloads may be compressed.  Expressions,
        -- because a query would cost twice as much.
        ELSIF wanted <= 100 AND pg_relation_size(('pg_toast.pg_toast_' || @job_data_text@::regclass::oid)::regclass) = 0
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
            EXIT WHEN FOUND OR picked IS NOT NULL;
        ELSE
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
                -- Bytes of the payloads before each job.  A medium text may be compressed, 100 to 1, so it is measured.
                -- For a large one an estimate is enough.
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
            EXIT WHEN FOUND OR picked IS NOT NULL;
        END IF;
        every := true;
    END LOOP;
END
$howdah$;

-- claim(queue, n, worker, lease) -> jobs
--
-- Up to n jobs that are due, each with the token that complete(), fail(), retry(), release() and
-- extend() need before the lease runs out.  Fewer come when their payloads pass 4 MiB: claim again.
--
-- Where workers use only these functions, nobody else tidies up.  So a claim that returns fewer than n jobs,
-- and one in thirty of the others, does part of what queue_tidy() does.
-- Errors: UH006.  Reads, writes, locks: see claim_jobs(), tidy_up().
CREATE OR REPLACE FUNCTION @schema@.claim(
    queue text, n integer DEFAULT 1, worker text DEFAULT NULL, lease interval DEFAULT NULL)
RETURNS TABLE (id bigint, token bigint, attempts smallint, max_attempts smallint, data json, headers json,
               bytes bytea, content_type text, key text, correlation_id text, causation_id uuid,
               created_at timestamptz, lease_until timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    got bigint := 0;
BEGIN
    IF coalesce(n, 0) NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'n: must be 1 to 10000';
    END IF;
    IF lease <= interval '0' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'lease: must be longer than 0';
    END IF;
    FOR try IN 1..2 LOOP
        RETURN QUERY
        SELECT c.id, c.token, c.attempts, c.max_attempts, c.data, c.headers, c.bytes, c.content_type, c.key,
               c.correlation_id, c.causation_id, c.created_at, c.lease_until
        FROM @schema@.claim_jobs(queue, n, coalesce(worker, 'pid ' || pg_backend_pid()),
                                 coalesce((extract(epoch FROM lease) * 1000)::bigint, 0), true, true, NULL, NULL,
                                 NULL) AS c;
        GET DIAGNOSTICS got = ROW_COUNT;
        EXIT WHEN try = 2 OR got = n AND random() >= 1.0 / 30;
        -- Claims the jobs that tidying has woken.
        EXIT WHEN NOT (SELECT t.woken FROM @schema@.tidy_up(queue, greatest(1000, 60 * n)) AS t) OR got > 0;
    END LOOP;
END
$howdah$;

-- poll(queue) -> one job, or no row; finalize() ends it.
--
-- bytes and content_type are those of a job that was pushed with them; data is NULL then.  The session that has
-- the job is identified by a number that is drawn once for each session, in the setting howdah.session.
-- Writes: polled_jobs.  Reads, writes, locks: see claim().
CREATE OR REPLACE FUNCTION @schema@.poll(queue text)
RETURNS TABLE (id bigint, token bigint, attempts smallint, data json, headers json, bytes bytea, content_type text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
BEGIN
    SELECT c.id, c.token, c.attempts, c.data, c.headers, c.bytes, c.content_type
    INTO id, token, attempts, data, headers, bytes, content_type
    FROM @schema@.claim(queue, 1) AS c;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF coalesce(current_setting('howdah.session', true), '') = '' THEN
        PERFORM set_config('howdah.session', floor(random() * 9007199254740992)::bigint::text, false);
    END IF;
    INSERT INTO @schema@.polled_jobs (job_id, token, session)
    VALUES (poll.id, poll.token, current_setting('howdah.session')::bigint)
    ON CONFLICT (job_id) DO UPDATE SET token = excluded.token, session = excluded.session;
    RETURN NEXT;
END
$howdah$;
