-- dead_lettered_jobs: dead letters of jobs, with their jobs.  When the job's history was removed, or the job was
-- purged, only its id is left (kept is false).
CREATE OR REPLACE VIEW @schema@.dead_lettered_jobs AS
SELECT l.id, q.name AS queue, l.queue_id, l.job_id, l.state, l.error, l.attempts, l.redrives, l.reason, l.created_at,
       CASE WHEN l.state = 'redriven' THEN l.resolved_at ELSE l.failed_at END AS last_attempt_at, l.resolved_at,
       l.resolved_by, p.id IS NOT NULL AS kept, p.priority,
       CASE WHEN p.max_attempts > 0 THEN p.max_attempts ELSE q.max_attempts END AS max_attempts,
       p.created_at AS pushed_at, p.key, p.dedup, p.correlation_id, p.causation_id, p.event_sequence,
       coalesce(p.content_type, e.content_type) AS content_type, coalesce(p.headers, e.headers) AS headers,
       coalesce(p.data, e.data) AS data, coalesce(p.bytes, e.bytes) AS bytes, e.type::text AS event_type,
       e.stream::text AS event_stream
FROM @schema@.job_dead_letters AS l
JOIN @schema@.queues AS q ON q.queue_id = l.queue_id
LEFT JOIN @schema@.job_data AS p ON p.id = l.job_id
LEFT JOIN @schema@.events AS e ON e.global_sequence = p.event_sequence;

-- job_dead_letter_states(queue, resolved, after, up_to, limit_n) -> dead letters of jobs, by id
--
-- The dead letters of one queue (NULL: of all) with ids above "after", up to "up_to": the open ones, or with
-- "resolved" all of them.
-- Reads: job_dead_letters, queues, job_data, events.
CREATE OR REPLACE FUNCTION @schema@.job_dead_letter_states(
    queue text DEFAULT NULL, resolved boolean DEFAULT false, after bigint DEFAULT 0,
    up_to bigint DEFAULT 9223372036854775807, limit_n bigint DEFAULT NULL)
RETURNS SETOF @schema@.dead_lettered_jobs
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_sort = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    every    constant boolean := queue IS NULL;
    of_queue constant integer := (SELECT q.queue_id FROM @schema@.queues AS q WHERE q.name = queue);
BEGIN
    -- Open ones are few, and have an index of their own, queue by queue.
    IF NOT every AND NOT resolved THEN
        RETURN QUERY SELECT v.* FROM @schema@.dead_lettered_jobs AS v
        WHERE v.queue_id = of_queue AND v.resolved_at IS NULL AND v.id > after AND v.id <= up_to
        ORDER BY v.id LIMIT limit_n;
    ELSE
        RETURN QUERY SELECT v.* FROM @schema@.dead_lettered_jobs AS v
        WHERE v.id > after AND v.id <= up_to AND (every OR v.queue_id = of_queue)
          AND (resolved OR v.resolved_at IS NULL)
        ORDER BY v.id LIMIT limit_n;
    END IF;
END
$howdah$;

-- job_dead_letters_set_state(dead_letter_ids bigint[], queue text, new_state text, reason text) -> bigint
--
-- Changes the state of open dead letters of jobs, those with these ids (NULL: all), of one queue (NULL: of all).
-- 'redrive' tries the job again, and changes nothing if that was asked for already.  'discarded' gives the job up
-- and gives back a key that it held.  A job whose dedup key another job has taken meanwhile is not tried again,
-- and not counted.  Returns how many were changed; NULL: no such queue.
-- Errors: UH006.  Reads, writes: job_dead_letters, queues; see job_rerun() and free_keys().
CREATE OR REPLACE FUNCTION @schema@.job_dead_letters_set_state(
    dead_letter_ids bigint[], queue text, new_state text, reason text)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    dead_letter record;
    n      bigint := 0;
BEGIN
    IF new_state IS NULL OR new_state NOT IN ('redrive', 'discarded') THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'new_state: must be redrive or discarded';
    ELSIF queue IS NOT NULL AND NOT EXISTS (SELECT FROM @schema@.queues AS q WHERE q.name = queue) THEN
        RETURN NULL;
    END IF;
    FOR dead_letter IN SELECT l.id, l.job_id, l.queue_id, l.state FROM @schema@.job_dead_letters AS l
                  JOIN @schema@.queues AS q ON q.queue_id = l.queue_id
                  WHERE (dead_letter_ids IS NULL OR l.id = ANY (dead_letter_ids)) AND l.resolved_at IS NULL
                    AND (queue IS NULL OR q.name = queue)
                  ORDER BY l.id FOR UPDATE OF l LOOP
        IF new_state = 'discarded' THEN
            UPDATE @schema@.job_dead_letters AS l
            SET state = 'discarded', reason = job_dead_letters_set_state.reason, resolved_at = clock_timestamp(),
                resolved_by = session_user
            WHERE l.id = dead_letter.id;
            PERFORM @schema@.free_keys(h.queue_id, ARRAY[h.key_hash], ARRAY[h.job_id]) FROM @schema@.key_holders AS h
            WHERE h.queue_id = dead_letter.queue_id AND h.job_id = dead_letter.job_id AND h.on_hold;
        ELSIF dead_letter.state = 'dead' THEN
            CONTINUE WHEN EXISTS (
                SELECT FROM @schema@.job_data AS p
                JOIN @schema@.dedups AS d ON d.queue_id = p.queue_id AND d.dedup = p.dedup
                WHERE p.id = dead_letter.job_id);
            PERFORM @schema@.job_rerun(dead_letter.job_id);
        END IF;
        n := n + 1;
    END LOOP;
    RETURN n;
END
$howdah$;
