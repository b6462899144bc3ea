-- exchange_one(job, of_token, hurry, look, queue, worker, lease_ms, of_level, floor_due, floor_id) -> exchanged
--
-- "This job is done, give me the next": what ack_jobs() for one completed job without a result, and then
-- claim_jobs() for one job on one level, would do, for the library.  It handles only the plain case, and
-- leaves all others to those two functions:
--
--   NULL            nothing was done: the lease does not exist, or has other jobs too, or is not plain
--   searched false  the job is COMPLETED; nothing was claimed, because the queue is paused, has keys
--                   or a limit, or because a suspect is due that comes first, or because look found a job
--   token NULL      the job is COMPLETED; no other job is due on this level above the floor
--
--   hurry           the commit of the caller's transaction does not wait for the disk
--   look            whether to check for a due job that is more urgent than those of this level
--
-- The statements have few nodes and few columns, because nearly all of their cost is starting them.  The
-- payload is therefore read as a whole row.
--
-- Reads: queues, job_data, events.  Writes: leases, history, jobs.  Locks: the lease, the job it takes.
CREATE OR REPLACE FUNCTION @schema@.exchange_one(
    job bigint, of_token bigint, hurry boolean, look boolean, queue text, worker text, lease_ms bigint, of_level integer,
    floor_due timestamptz, floor_id bigint)
RETURNS @schema@.exchanged
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
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
    oldest constant xid8 := pg_snapshot_xmin(pg_current_snapshot());
    moment timestamptz;
    held   record;
    q      record;
    one    record;
    data   @schema@.job_data;
    t      @schema@.exchanged;
BEGIN
    IF hurry THEN
        PERFORM set_config('synchronous_commit', 'off', true);
    END IF;
    DELETE FROM @schema@.leases AS l WHERE l.token = of_token AND l.plain AND l.ids = ARRAY[job]
    RETURNING l.started_at, l.queue_id, l.worker, l.attempts INTO held;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO @schema@.history (first_id, last_id, started_at, queue_id, worker, attempts)
    VALUES (job, job, held.started_at, held.queue_id, held.worker,
            CASE WHEN held.attempts[1] <> 1 THEN held.attempts END);

    moment := clock_timestamp();
    SELECT x.queue_id, x.abandon_after_ms, x.max_attempts INTO q FROM @schema@.queues AS x
    WHERE x.name = queue AND NOT x.paused AND NOT x.keyed AND x.concurrency = 0
      AND NOT EXISTS (SELECT FROM @schema@.jobs AS j
                      WHERE j.queue_id = x.queue_id AND j.priority <= (of_level - 1) / 2 AND j.suspect
                        AND j.due_at <= moment);
    t.searched := FOUND;
    IF look AND FOUND THEN
        t.searched := cardinality((@schema@.next_levels(q.queue_id, moment, -2147483648, of_level, 1, NULL, NULL,
                                                        NULL)).levels) = 0;
    END IF;
    IF NOT t.searched THEN
        RETURN t;
    END IF;
    DELETE FROM @schema@.jobs AS j
    WHERE j.ctid = (SELECT i.ctid FROM @schema@.jobs AS i
                    WHERE i.queue_id = q.queue_id AND i.level = of_level
                      AND (i.due_at, i.id) > (floor_due, floor_id) AND i.due_at <= moment
                      AND NOT i.suspect AND i.key_hash IS NULL
                    ORDER BY i.due_at, i.id LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING j.id, j.due_at, (j.attempts + 1)::smallint AS attempts, j.plain INTO one;
    IF NOT FOUND THEN
        RETURN t;
    END IF;
    lease_ms := coalesce(nullif(lease_ms, 0), q.abandon_after_ms);
    t.token := nextval(@lease_text@) * 65536 + floor(random() * 65536)::bigint;
    t.lease_until := moment + lease_ms * interval '1 millisecond';
    INSERT INTO @schema@.leases (token, started_at, until, lease_ms, queue_id, plain, worker, ids, attempts)
    VALUES (t.token, moment, t.lease_until, exchange_one.lease_ms, q.queue_id, one.plain, exchange_one.worker, ARRAY[one.id],
            ARRAY[one.attempts]);
    SELECT p.* INTO data FROM @schema@.job_data AS p WHERE p.id = one.id;
    IF data.event_sequence IS NOT NULL THEN
        SELECT e.content_type, e.headers, e.data, e.bytes, e.type, e.stream
        INTO data.content_type, data.headers, data.data, data.bytes, t.event_type, t.event_stream
        FROM @schema@.events AS e WHERE e.global_sequence = data.event_sequence;
    END IF;
    RETURN ROW(true, t.token, one.attempts, CASE WHEN data.max_attempts > 0 THEN data.max_attempts ELSE q.max_attempts END,
               of_level, one.due_at, moment, t.lease_until, now(), pg_current_xact_id(), oldest, t.event_type,
               t.event_stream, data)::@schema@.exchanged;
END
$howdah$;
