-- The dead letter d of event e, where it is about this pass over the log: the event has failed for good, or was tried again,
-- since the group was put at its place (groups.created_at, see group_place()), or a person wants it to be.  After a reset
-- events come again, whatever became of them before.
/* define @its_dead_letter@
FROM @schema@.dead_letters AS d
            WHERE d.subscriber_id = g.subscriber_id AND d.event_id = e.id
              AND (d.state = 'redrive' OR coalesce(d.last_retry_at, d.created_at)
                                          >= (SELECT p.created_at FROM @schema@.groups AS p WHERE p.group_id = g.group_id))
*/

-- group_next(g, of_stream text, base bigint, after bigint, upto bigint) -> bigint
--
-- The first event of a stream after one number and up to another that concerns the group; NULL: there is none.  base is
-- an event of the stream that is not after it: where to begin to look.  An event can be a dead letter while one before it
-- is still to be tried: it is passed over, unless the stream has to wait for a person there (on_fail = hold).
-- Reads: events, dead_letters.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.group_next(g @schema@.group_state, of_stream text, base bigint, after bigint, upto bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF of_stream IS NULL OR after >= upto THEN
        RETURN NULL;
    END IF;
    -- In a stream, versions and numbers grow together.
    RETURN (SELECT e.global_sequence FROM @schema@.events AS e
            WHERE e.stream = of_stream
              AND e.version > coalesce((SELECT v.version FROM @schema@.events AS v WHERE v.global_sequence = base AND v.stream = of_stream), 0)
              AND e.global_sequence > after AND e.global_sequence <= upto AND @matches@
              AND (SELECT d.id @its_dead_letter@ AND NOT (g.on_fail = 'hold' AND d.resolved_at IS NULL)) IS NULL
            ORDER BY e.stream, e.version LIMIT 1);
END
$howdah$;

-- group_retry_on(g, r, after bigint) -> void
--
-- A stuck stream is past the event "after": the next one that waits is due at once; without one the stream is
-- free again.  Where the next one is a dead letter already, the stream is held there.  What it had to wait for in its lot
-- (prior) it still waits for: a person may have ended the event "after" before that is acked.
-- Reads: events, dead_letters.  Writes: group_retries.
CREATE OR REPLACE FUNCTION @schema@.group_retry_on(g @schema@.group_state, r @schema@.group_retries, after bigint) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    next constant bigint := @schema@.group_next(g, r.stream, least(r.sequence, after), after, r.upto);
    dead record; -- whatever a person has made of it since: group_wake_dead_letters() will see
BEGIN
    IF next IS NULL THEN
        DELETE FROM @schema@.group_retries AS k WHERE k.group_id = r.group_id AND k.retry = r.retry;
    ELSE
        SELECT x.id, x.state, x.retry_count, x.error_message INTO dead
        FROM @schema@.events AS e, LATERAL (SELECT d.* @its_dead_letter@) AS x WHERE e.global_sequence = next;
        UPDATE @schema@.group_retries AS k
        SET sequence = next, last = 0, taken = 0, attempts = least(coalesce(dead.retry_count, 0), 1000000), token = 0,
            due = CASE WHEN dead.state <> 'redrive' THEN 'infinity' ELSE clock_timestamp() END, until = '-infinity',
            dead_letter = dead.id, error = left(dead.error_message, 500), member = NULL
        WHERE k.group_id = r.group_id AND k.retry = r.retry;
    END IF;
END
$howdah$;

-- group_dead_letter(g, seq bigint, why text, tries integer) -> bigint
--
-- Stores the dead letter of an event, or renews the one that it has: its id; NULL: there is no such event any more.
-- Of a purged event neither payload nor error is kept.
-- Reads: events.  Writes: dead_letters.  Locks: the event, as purge_of() does.
CREATE OR REPLACE FUNCTION @schema@.group_dead_letter(g @schema@.group_state, seq bigint, why text, tries integer) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    gone constant bigint := @schema@.purge_of(seq);
    made bigint;
BEGIN
    INSERT INTO @schema@.dead_letters AS d (
        subscriber_id, error_message, retry_count, created_at, last_retry_at, global_sequence, event_id, stream, version,
        type, data, bytes, content_type, headers, correlation_id, causation_id, actor, valid_time, recorded_at, family,
        revision, corrects, event_reason, schema_version, retracts, purge)
    SELECT g.subscriber_id, CASE WHEN gone IS NULL THEN left(why, 500) END, tries, t.now, t.now, e.global_sequence, e.id, e.stream,
           e.version, e.type, e.data, e.bytes, e.content_type, e.headers, e.correlation_id, e.causation_id, e.actor,
           e.valid_time, e.recorded_at, e.family, e.revision, e.corrects, e.reason, e.schema_version, e.retracts, e.purge
    FROM @schema@.events AS e, (SELECT clock_timestamp() AS now) AS t
    WHERE e.global_sequence = seq
    ON CONFLICT (subscriber_id, event_id) DO UPDATE
    SET state = 'dead', error_message = excluded.error_message, retry_count = excluded.retry_count,
        last_retry_at = excluded.last_retry_at, reason = NULL, resolved_at = NULL, resolved_by = NULL
    RETURNING d.id INTO made;
    RETURN made;
END
$howdah$;

-- group_fail(g, seq, of_stream, upto, tries, why, after_ms, INOUT r) -> what became of it
--
-- An event has failed for the "tries"th time: retry (after_ms, or by the schedule when NULL), dead, held or halted.
-- r is the row of its retries; without one (r.retry is NULL) it is made, and what waits for it, up to "upto", with it.
-- Writes: group_retries, dead_letters, subscriptions.
CREATE OR REPLACE FUNCTION @schema@.group_fail(
    g @schema@.group_state, seq bigint, of_stream text, upto bigint, tries integer, why text, after_ms bigint,
    r @schema@.group_retries)
RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    retries constant boolean := tries <= g.max_retries;
    outcome constant text := CASE WHEN retries THEN 'retry' WHEN g.on_fail = 'open' THEN 'dead'
                                  WHEN g.on_fail = 'hold' AND of_stream IS NOT NULL THEN 'held'
                                  WHEN g.on_fail = 'hold' THEN 'dead' ELSE 'halted' END;
    dead  bigint;
    due_at  timestamptz;
BEGIN
    IF outcome IN ('dead', 'held') THEN
        dead := @schema@.group_dead_letter(g, seq, why, tries);
    END IF;
    IF outcome = 'halted' THEN
        UPDATE @schema@.subscriptions AS s
        SET status = 'halted', reason = left(format('event %s failed %s %s: %s', seq, tries, CASE WHEN tries = 1 THEN 'time' ELSE 'times' END, why), 255), updated_at = clock_timestamp()
        WHERE s.subscriber_id = g.subscriber_id;
        PERFORM pg_notify(@schema_text@ || '_control', '');
    END IF;
    IF r.retry IS NOT NULL AND outcome = 'dead' THEN
        PERFORM @schema@.group_retry_on(g, r, seq);
        RETURN outcome;
    END IF;
    due_at := CASE outcome WHEN 'held' THEN 'infinity' WHEN 'halted' THEN clock_timestamp()
                           WHEN 'dead' THEN clock_timestamp()
                           ELSE clock_timestamp() + interval '1 millisecond' * coalesce(after_ms,
                                least(g.max_retry_delay_ms, g.retry_delay_ms * 2.0 ^ least(tries - 1, 40)) * (0.9 + 0.2 * random())) END;
    IF r.retry IS NOT NULL THEN
        UPDATE @schema@.group_retries AS k
        SET sequence = seq, attempts = CASE WHEN outcome = 'halted' THEN 0 ELSE tries END, due = due_at, dead_letter = dead,
            token = 0, until = '-infinity', last = 0, taken = 0, member = NULL, error = left(why, 500)
        WHERE k.group_id = r.group_id AND k.retry = r.retry;
        RETURN outcome;
    END IF;
    IF outcome = 'dead' THEN
        -- It is over; only what would have waited for it in this batch has to come again.
        seq := @schema@.group_next(g, of_stream, seq, seq, upto);
        IF seq IS NULL THEN
            RETURN outcome;
        END IF;
        tries := 0;
        why := NULL;
        dead := NULL; -- it is not the next one's
    ELSIF outcome = 'halted' THEN
        tries := 0;
    END IF;
    INSERT INTO @schema@.group_retries (group_id, lane, stream, sequence, upto, attempts, due, dead_letter, error)
    VALUES (g.group_id, coalesce(hashtext(of_stream) & (g.lanes - 1), 0), of_stream, seq, greatest(upto, seq), tries, due_at, dead, left(why, 500));
    RETURN outcome;
END
$howdah$;
