-- push_problem(...) -> text or NULL
--
-- The verdict on one job, the same as that of the library (src/engine/rules.c), in the same order.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.push_problem(
    data json, bytes bytea, content_type text, headers json, delay_us bigint, run_at timestamptz,
    priority integer, max_attempts integer, key text, dedup text, correlation_id text,
    payload_max integer)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    problem text;
BEGIN
    problem := coalesce(
        -- The rules of payload, headers and correlation are those of events.
        @schema@.event_problem('-', 'a', data, headers, correlation_id, NULL, NULL, 1, bytes, content_type,
                               payload_max),
        @schema@.name_problem(key, 'key', 255),
        @schema@.name_problem(dedup, 'dedup', 255));
    IF problem IS NOT NULL THEN
        RETURN problem;
    ELSIF priority NOT BETWEEN -32768 AND 32767 THEN
        RETURN 'priority: must be -32768 to 32767';
    ELSIF max_attempts NOT BETWEEN 0 AND 32767 THEN
        RETURN 'max_attempts: must be 1 to 32767, or 0 for that of the queue';
    ELSIF delay_us NOT BETWEEN 0 AND 316224000000000 THEN -- HOWDAH_DELAY_MAX_MS
        RETURN 'delay: must be 0 to 10 years';
    ELSIF run_at IS NOT NULL AND NOT (run_at >= '0001-01-01 00:00:00+00' AND run_at < '10000-01-01 00:00:00+00') THEN
        RETURN 'run_at: must be within the years 1 to 9999';
    END IF;
    RETURN NULL;
END
$howdah$;

-- ring_queue(of_queue integer) -> void
--
-- Wakes workers that sleep until the queue has something for them.  The setting howdah.ring_queues says that
-- the session never prepares a transaction, as sessions of the library do; see ring_inside().
-- Reads, writes, locks: see ring().
CREATE OR REPLACE FUNCTION @schema@.ring_queue(of_queue integer) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF (SELECT b.last_value FROM @schema@.bell AS b) = 0 THEN
        RETURN;
    ELSIF current_setting('howdah.ring_queues', true) = 'on' THEN
        PERFORM @schema@.ring(ARRAY['queue.' || of_queue]);
    ELSE
        PERFORM @schema@.ring_inside(ARRAY['queue.' || of_queue]);
    END IF;
END
$howdah$;

-- queue_of(queue text) -> queues
--
-- The row of a queue, which is created with default settings if there is none.
-- Errors: UH006.
-- Reads, writes: queues, removed_jobs.  Locks: the rows it makes.
CREATE OR REPLACE FUNCTION @schema@.queue_of(queue text) RETURNS @schema@.queues
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    found_row @schema@.queues;
    problem   text;
BEGIN
    SELECT * INTO found_row FROM @schema@.queues AS q WHERE q.name = queue;
    IF NOT FOUND THEN
        problem := @schema@.name_problem(coalesce(queue, ''), 'queue', 255);
        IF problem IS NOT NULL THEN
            RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
        END IF;
        INSERT INTO @schema@.queues (name) VALUES (queue) ON CONFLICT DO NOTHING;
        SELECT * INTO found_row FROM @schema@.queues AS q WHERE q.name = queue;
        INSERT INTO @schema@.removed_jobs (queue_id) VALUES (found_row.queue_id) ON CONFLICT DO NOTHING;
    END IF;
    RETURN found_row;
END
$howdah$;

-- push_arrays(queue, datas, ...) -> one row per job, in order
--
-- Pushes jobs given as parallel arrays, all or none; what push() and the library use.  A NULL array means
-- NULL for every job.
--
--   delays_us, run_ats  when it is due: after so many microseconds, or at a time; else at once
--   priorities          lower runs first; default 0
--   max_attemptses      0 or NULL: the queue's
--   keys                jobs of one key run one after the other, in the order of their ids
--   dedups              while another job with the same dedup key has not ended, its id is returned
--                       (existed), and nothing is stored
--
-- Errors: UH006 invalid input.
-- Reads: queues, meta, bell.  Writes: queues (a new one, and the first key of one), job_data, jobs,
-- dedups; rings (see ring_queue()).
-- Locks: the rows it makes; a dedup key that another transaction has just taken is waited for.
CREATE OR REPLACE FUNCTION @schema@.push_arrays(
    queue text, datas json[], byteses bytea[], content_types text[], headerses json[],
    delays_us bigint[], run_ats timestamptz[], priorities integer[], max_attemptses integer[],
    keys text[], dedups text[], correlation_ids text[], causation_ids uuid[])
RETURNS TABLE (id bigint, existed boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    n           constant integer := greatest(coalesce(cardinality(datas), 0), coalesce(cardinality(byteses), 0));
    payload_max constant integer := coalesce(
        (SELECT m.value::integer FROM @schema@.meta AS m WHERE m.key = 'payload_bytes_max'), 1048576);
    simple      constant text := '^[A-Za-z0-9_.:/@-]{1,255}$';
    q           @schema@.queues;
    problem     text;
    new_ids     bigint[];
    taken       bigint;
    twins       boolean[];
    spot        integer;
BEGIN
    IF n > 100000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format('jobs: at most 100000 in a batch, got %s', n);
    END IF;
    -- Most jobs are valid at first sight and need no function call.
    SELECT CASE WHEN n > 1 THEN format('job %s: ', v.i) ELSE '' END || v.problem INTO problem
    FROM (SELECT g.i, CASE WHEN g.content_type IS NULL AND g.bytes IS NULL AND g.headers IS NULL
                                AND coalesce(g.key ~ simple, true) AND coalesce(g.dedup ~ simple, true)
                                AND coalesce(g.correlation_id ~ simple, true) AND g.run_at IS NULL
                                AND coalesce(g.delay_us, 0) BETWEEN 0 AND 315360000000000
                                AND coalesce(g.priority, 0) BETWEEN -32768 AND 32767
                                AND coalesce(g.max_attempts, 0) BETWEEN 0 AND 32767
                                AND octet_length(g.data::text) <= payload_max
                                AND position(E'\\u' IN g.data::text) = 0
                                AND octet_length(g.data::text)
                                    - octet_length(replace(replace(g.data::text, '[', ''), '{', '')) <= 64
                           THEN NULL
                           ELSE @schema@.push_problem(
                               g.data, g.bytes, g.content_type, g.headers, coalesce(g.delay_us, 0), g.run_at,
                               coalesce(g.priority, 0), coalesce(g.max_attempts, 0), g.key, g.dedup,
                               g.correlation_id, payload_max) END AS problem
          FROM unnest(datas, byteses, content_types, headerses, delays_us, run_ats, priorities, max_attemptses,
                      keys, dedups, correlation_ids) WITH ORDINALITY
               AS g(data, bytes, content_type, headers, delay_us, run_at, priority, max_attempts, key, dedup,
                    correlation_id, i)) AS v
    WHERE v.problem IS NOT NULL LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    q := @schema@.queue_of(queue);
    -- The xid comes before the time, which the INSERT takes under its lock: see I4 of 0003_queue.
    PERFORM pg_current_xact_id();
    new_ids := ARRAY(SELECT nextval(@job_text@) FROM generate_series(1, n));

    IF NOT q.keyed AND EXISTS (SELECT FROM unnest(keys) AS k(key) WHERE k.key IS NOT NULL) THEN
        UPDATE @schema@.queues AS u SET keyed = true WHERE u.queue_id = q.queue_id AND NOT u.keyed;
    END IF;

    -- In the order of the keys, so that two batches do not wait for each other.
    FOR spot IN SELECT d.i FROM unnest(dedups) WITH ORDINALITY AS d(dedup, i)
                WHERE d.dedup IS NOT NULL ORDER BY d.dedup COLLATE "C", d.i LOOP
        twins := coalesce(twins, array_fill(false, ARRAY[n]));
        LOOP
            INSERT INTO @schema@.dedups (queue_id, dedup, job_id)
            VALUES (q.queue_id, dedups[spot], new_ids[spot]) ON CONFLICT DO NOTHING;
            EXIT WHEN FOUND;
            SELECT d.job_id INTO taken FROM @schema@.dedups AS d
            WHERE d.queue_id = q.queue_id AND d.dedup = dedups[spot];
            IF FOUND THEN
                new_ids[spot] := taken;
                twins[spot] := true;
                EXIT;
            END IF;
            -- The job that had it has just ended: try again.
        END LOOP;
    END LOOP;

    WITH given AS MATERIALIZED (
        SELECT g.* FROM unnest(new_ids, twins, datas, byteses, content_types, headerses, delays_us, run_ats,
                               priorities, max_attemptses, keys, dedups, correlation_ids, causation_ids)
            AS g(id, twin, data, bytes, content_type, headers, delay_us, run_at, priority, max_attempts, key,
                 dedup, correlation_id, causation_id)
        WHERE g.twin IS NOT TRUE
    ), stored AS (
        INSERT INTO @schema@.job_data (id, queue_id, priority, max_attempts, key, dedup, correlation_id,
                                       causation_id, content_type, headers, data, bytes)
        SELECT g.id, q.queue_id, coalesce(g.priority, 0), coalesce(g.max_attempts, 0), g.key, g.dedup,
               g.correlation_id, g.causation_id, g.content_type, g.headers, g.data, g.bytes
        FROM given AS g
    )
    INSERT INTO @schema@.jobs (due_at, id, queue_id, priority, plain, key_hash)
    SELECT greatest(t.moment, coalesce(g.run_at, t.moment + coalesce(g.delay_us, 0) * interval '1 microsecond')),
           g.id, q.queue_id, coalesce(g.priority, 0), g.key IS NULL AND g.dedup IS NULL,
           hashtextextended(g.key, q.queue_id)
    FROM (SELECT clock_timestamp() AS moment OFFSET 0) AS t, given AS g;

    PERFORM @schema@.ring_queue(q.queue_id);
    RETURN QUERY SELECT g.id, g.twin IS TRUE FROM unnest(new_ids, twins) AS g(id, twin);
END
$howdah$;

-- push(queue, data, ...) -> the job's id
--
-- Pushes one job in the caller's transaction: the job runs only if that commits.  See push_arrays().
CREATE OR REPLACE FUNCTION @schema@.push(
    queue text, data json DEFAULT '{}', headers json DEFAULT NULL, delay interval DEFAULT NULL,
    run_at timestamptz DEFAULT NULL, priority integer DEFAULT 0, key text DEFAULT NULL,
    dedup text DEFAULT NULL, max_attempts integer DEFAULT 0, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, bytes bytea DEFAULT NULL, content_type text DEFAULT NULL)
RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT p.id FROM @schema@.push_arrays(
        queue, ARRAY[data], ARRAY[bytes], ARRAY[content_type], ARRAY[headers],
        ARRAY[(extract(epoch FROM delay) * 1000000)::bigint], ARRAY[run_at], ARRAY[priority],
        ARRAY[max_attempts], ARRAY[key], ARRAY[dedup], ARRAY[correlation_id], ARRAY[causation_id]) AS p
$howdah$;

-- push_batch(queue, datas, delay, priority) -> the jobs' ids, in order
--
-- Many jobs that differ only in their data.  See push_arrays().
CREATE OR REPLACE FUNCTION @schema@.push_batch(
    queue text, datas json[], delay interval DEFAULT NULL, priority integer DEFAULT 0)
RETURNS SETOF bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT p.id FROM @schema@.push_arrays(
        queue, datas, NULL, NULL, NULL,
        array_fill((extract(epoch FROM delay) * 1000000)::bigint, ARRAY[cardinality(datas)]), NULL,
        array_fill(priority, ARRAY[cardinality(datas)]), NULL, NULL, NULL, NULL, NULL) AS p
$howdah$;

-- publish(queue, data) -> the job's id: the oldest name of push().
CREATE OR REPLACE FUNCTION @schema@.publish(queue text, data json) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT @schema@.push(queue, data)
$howdah$;
