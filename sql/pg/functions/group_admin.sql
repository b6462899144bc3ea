-- group_place(g, at bigint, outstanding bigint[]) -> void
--
-- Puts a group at a place, and forgets all that was dealt: events after "at" come, and those with numbers in
-- outstanding (first, last, first ...).  Batches that are out are lost to their members.  Dead letters stay; they say nothing
-- of the pass that begins, which is the later one, whatever the clock says.
-- Reads: dead_letters.  Writes: group_places, group_lots, group_holes, group_retries, groups, group_marks.
-- Locks: waits for whoever deals at the moment.
CREATE OR REPLACE FUNCTION @schema@.group_place(g @schema@.group_state, at bigint, outstanding bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    last_deal bigint;
BEGIN
    PERFORM FROM @schema@.groups AS k WHERE k.group_id = g.group_id FOR NO KEY UPDATE;
    UPDATE @schema@.groups AS k SET reserved = 0, wanted = false WHERE k.group_id = g.group_id AND k.reserved <> 0;
    UPDATE @schema@.groups AS k
    SET created_at = greatest(clock_timestamp(), (SELECT max(coalesce(d.last_retry_at, d.created_at)) FROM @schema@.dead_letters AS d
                                                  WHERE d.subscriber_id = g.subscriber_id) + interval '1 microsecond')
    WHERE k.group_id = g.group_id;
    SELECT max(k.deal) INTO last_deal FROM @schema@.group_places AS k WHERE k.group_id = g.group_id;
    DELETE FROM @schema@.group_lots AS k WHERE k.group_id = g.group_id;
    DELETE FROM @schema@.group_holes AS k WHERE k.group_id = g.group_id;
    DELETE FROM @schema@.group_retries AS k WHERE k.group_id = g.group_id;
    DELETE FROM @schema@.group_places AS k WHERE k.group_id = g.group_id;
    -- Numbers of deals go on, so that no lot has the name of another one.
    INSERT INTO @schema@.group_places (group_id, deal, high, floor)
    VALUES (g.group_id, coalesce(last_deal, 0) + 1, at, (coalesce(last_deal, 0) + 1) * g.lanes);
    INSERT INTO @schema@.group_holes (group_id, first, last)
    SELECT g.group_id, outstanding[i], outstanding[i + 1] FROM generate_series(1, cardinality(outstanding), 2) AS i;
    PERFORM @schema@.group_remake(g);
END
$howdah$;

-- log_end(OUT high bigint, OUT holes bigint[])
--
-- The end of the log: the last event that is visible, and the numbers below it that may still get one.
-- Reads: events; see log_look().
CREATE OR REPLACE FUNCTION @schema@.log_end(OUT high bigint, OUT holes bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    look record;
    low  bigint;
BEGIN
    look := @schema@.log_look(0);
    low := least(look.drawn, (SELECT min(u.low) FROM unnest(look.lows) AS u(low)));
    WITH t AS MATERIALIZED (SELECT coalesce(max(e.global_sequence), 0) AS top FROM @schema@.events AS e)
    SELECT t.top, ARRAY(
        SELECT u.one
        FROM (SELECT lag(x.seq, 1, low) OVER (ORDER BY x.seq) + 1 AS first, x.seq - 1 AS last
              FROM (SELECT e.global_sequence AS seq FROM @schema@.events AS e WHERE e.global_sequence > low
                    UNION ALL SELECT t.top + 1 WHERE t.top >= low) AS x) AS y,
             @schema@.log_alive(y.first, y.last, look.drawn, look.lows, look.untils) AS a,
             LATERAL (VALUES (a.low), (a.high)) AS u(one)
        WHERE y.first <= y.last)
    INTO high, holes FROM t;
END
$howdah$;

-- start_place(start text, OUT high bigint, OUT holes bigint[])
--
-- The place that a start means: start, end, the number of the last event that is not wanted, or a moment (RFC 3339):
-- everything that was recorded then or later is wanted.  A number that the log has not reached is a mistake: numbers
-- up to there would be done before they are drawn, and nothing could be appended any more (UH008).
-- Errors: UH006.
CREATE OR REPLACE FUNCTION @schema@.start_place(start text, OUT high bigint, OUT holes bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    head bigint;
BEGIN
    IF start = 'end' THEN
        SELECT e.high, e.holes INTO high, holes FROM @schema@.log_end() AS e;
    ELSIF start = 'start' OR start ~ '^[0-9]{1,18}$' THEN
        high := CASE WHEN start = 'start' THEN 0 ELSE start::bigint END;
        holes := '{}';
        head := CASE WHEN high > 0 THEN (SELECT max(e.global_sequence) FROM @schema@.events AS e) END;
        IF high > 0 AND high > coalesce(head, 0) THEN
            RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format('start: is beyond the log''s head, %s', coalesce(head, 0));
        END IF;
    ELSIF start ~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?([Zz]|[+-][0-9]{2}:[0-9]{2})$' THEN
        SELECT e.high, e.holes INTO high, holes FROM @schema@.log_end() AS e;
        high := least(high, nullif(@schema@.first_since(start::timestamptz), 0) - 1);
        -- What is missing below may have been recorded at any time.
        holes := ARRAY(SELECT least(holes[i], high) FROM generate_series(1, cardinality(holes)) AS i
                       WHERE holes[i - 1 + i % 2] <= high ORDER BY i);
    ELSE
        RAISE EXCEPTION USING ERRCODE = 'UH006',
            MESSAGE = format('start: must be start, end, a number, or a moment like 2026-01-31T09:30:00Z, in %s bytes',
                             coalesce(octet_length(start), 0));
    END IF;
END
$howdah$;

-- subscribe_problem(...) -> void
--
-- The rules of subscribe(): raises UH006, naming field, rule and length.
CREATE OR REPLACE FUNCTION @schema@.subscribe_problem(
    subscriber text, pattern text, stream text, key text, on_fail text, max_retries integer, retry_delay interval,
    max_retry_delay interval, ordering text, gap_policy text, gap_timeout interval, lanes integer)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    bad text;
BEGIN
    bad := CASE
        WHEN subscriber IS NULL OR octet_length(subscriber) NOT BETWEEN 1 AND 255
            THEN format('subscriber_id: must have 1 to 255 bytes, in %s bytes', coalesce(octet_length(subscriber), 0))
        WHEN subscriber ~ '[\x01-\x1f\x7f]'
            THEN format('subscriber_id: must not contain control characters, in %s bytes', octet_length(subscriber))
        WHEN octet_length(stream) NOT BETWEEN 1 AND 255
            THEN format('stream: must have 1 to 255 bytes, in %s bytes', octet_length(stream))
        WHEN key IS NULL OR key NOT IN ('stream', 'none') THEN 'key: must be stream or none'
        WHEN on_fail IS NULL OR on_fail NOT IN ('open', 'hold', 'closed') THEN 'on_fail: must be open, hold or closed'
        WHEN ordering IS NULL OR ordering NOT IN ('ahead', 'strict') THEN 'ordering: must be ahead or strict'
        WHEN gap_policy IS NULL OR gap_policy NOT IN ('proof', 'timeout') THEN 'gap_policy: must be proof or timeout'
        WHEN max_retries IS NULL OR max_retries NOT BETWEEN 0 AND 1000000 THEN 'max_retries: must be 0 to 1000000'
        WHEN retry_delay IS NULL OR retry_delay NOT BETWEEN interval '0' AND interval '24 hours'
            THEN 'retry_delay: must be 0 to 24 hours'
        WHEN max_retry_delay IS NULL OR max_retry_delay NOT BETWEEN interval '0' AND interval '24 hours'
            THEN 'max_retry_delay: must be 0 to 24 hours'
        WHEN gap_timeout IS NULL OR gap_timeout NOT BETWEEN interval '1 millisecond' AND interval '24 hours'
            THEN 'gap_timeout: must be 1 ms to 24 hours'
        WHEN lanes IS NULL OR lanes NOT BETWEEN 1 AND 1024 OR lanes & (lanes - 1) <> 0
            THEN 'lanes: must be a power of two, 1 to 1024'
        END;
    IF bad IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = bad;
    END IF;
    PERFORM @schema@.pattern_regex(pattern);
END
$howdah$;

-- subscription_is_free(s) -> boolean
--
-- Whether no process runs a subscription that is not shared: nobody has its lock (see LOCK_HASH in
-- src/store/pg/sql_subscriptions.c), and no lease is on it.  The lock is the caller's then, until its transaction ends.
CREATE OR REPLACE FUNCTION @schema@.subscription_is_free(s @schema@.subscriptions) RETURNS boolean
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT (s.lease_until IS NULL OR s.lease_until < clock_timestamp())
           AND pg_try_advisory_xact_lock(('x' || substr(k.hash, 1, 8))::bit(32)::int4, ('x' || substr(k.hash, 9, 8))::bit(32)::int4)
    FROM (SELECT md5(CASE WHEN @schema_text@ = 'howdah' THEN convert_to(s.subscriber_id, 'UTF8')
                          ELSE convert_to(@schema_text@, 'UTF8') || decode('00', 'hex') || convert_to(s.subscriber_id, 'UTF8') END) AS hash) AS k
$howdah$;

-- subscribe(subscriber, pattern, stream, start, ...) -> boolean
--
-- Makes a shared subscription: a group whose members fetch() and ack().  True: it is new.  One that exists is left as
-- it is, and has to have the filter that is named, if one is; one that is not shared, and that no process runs, becomes shared, and goes on where it is.
--
--   pattern, stream, originals   which events: of these types, of this stream, no corrections; NULL: all
--   start                        start, end, a number (events after it), or a moment (recorded then or later)
--   key                          stream: events of one stream one at a time and in order; none: in no order
--   on_fail                      after the last retry: open, hold or closed; see nack()
--   max_retries, retry_delay, max_retry_delay   the schedule: tries after the first one; doubled each time
--   ordering                     ahead, or strict: nothing is given out after a number that may still appear
--   gap_policy, gap_timeout      proof, or timeout: gives a missing number up after that time (a skip)
--   lanes                        how many batches can be out at once: a power of two, 1 to 1024
--
-- Errors: UH003 a process runs it, or it has another filter; UH006.
-- Reads: events, for the start.  Writes: subscriptions, groups; see group_place().
CREATE OR REPLACE FUNCTION @schema@.subscribe(
    subscriber text, pattern text DEFAULT NULL, stream text DEFAULT NULL, start text DEFAULT 'start',
    originals boolean DEFAULT false, key text DEFAULT 'stream', on_fail text DEFAULT 'open',
    max_retries integer DEFAULT 3, retry_delay interval DEFAULT '1 second', max_retry_delay interval DEFAULT '1 minute',
    ordering text DEFAULT 'ahead', gap_policy text DEFAULT 'proof', gap_timeout interval DEFAULT '5 seconds',
    lanes integer DEFAULT 16)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    made boolean;
    s    @schema@.subscriptions;
    p    record;
BEGIN
    -- Of one that was removed by its row alone.
    DELETE FROM @schema@.groups AS k
    WHERE k.subscriber_id = subscriber
      AND NOT EXISTS (SELECT FROM @schema@.subscriptions AS x WHERE x.subscriber_id = k.subscriber_id);
    PERFORM @schema@.subscribe_problem(subscriber, pattern, stream, key, on_fail, max_retries, retry_delay, max_retry_delay,
                                       ordering, gap_policy, gap_timeout, lanes);
    SELECT k.* INTO s FROM @schema@.subscriptions AS k WHERE k.subscriber_id = subscriber;
    IF FOUND AND (subscribe.pattern <> coalesce(s.pattern, '') OR subscribe.stream <> coalesce(s.stream, '')
                  OR subscribe.originals AND NOT s.originals) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH003',
            MESSAGE = format('the subscription %s is shared with another filter', subscriber),
            HINT = 'join with its pattern and stream (howdah sub show), or use another name';
    END IF;
    IF EXISTS (SELECT FROM @schema@.groups AS k WHERE k.subscriber_id = subscriber) THEN
        RETURN false;
    END IF;
    SELECT x.high, x.holes INTO p FROM @schema@.start_place(start) AS x;
    INSERT INTO @schema@.subscriptions (subscriber_id, pattern, stream, originals, high, outstanding)
    VALUES (subscriber, subscribe.pattern, subscribe.stream, coalesce(subscribe.originals, false), p.high, p.holes)
    ON CONFLICT (subscriber_id) DO NOTHING;
    made := FOUND;
    SELECT k.* INTO s FROM @schema@.subscriptions AS k WHERE k.subscriber_id = subscriber FOR UPDATE;
    INSERT INTO @schema@.groups (subscriber_id, lanes, by_stream, total_order, max_retries, retry_delay_ms, max_retry_delay_ms,
                                 gap_timeout_ms, on_fail)
    VALUES (subscriber, subscribe.lanes, key = 'stream', ordering = 'strict', subscribe.max_retries,
            extract(epoch FROM retry_delay) * 1000, extract(epoch FROM max_retry_delay) * 1000,
            CASE WHEN gap_policy = 'timeout' THEN extract(epoch FROM gap_timeout) * 1000 END, subscribe.on_fail)
    ON CONFLICT (subscriber_id) DO NOTHING;
    IF NOT FOUND THEN
        -- Somebody else has made it meanwhile.
        RETURN @schema@.subscribe(subscriber, pattern, stream, start, originals, key, on_fail, max_retries, retry_delay, max_retry_delay,
                                  ordering, gap_policy, gap_timeout, lanes);
    END IF;
    UPDATE @schema@.groups AS k SET token = s.token WHERE k.subscriber_id = subscriber;
    PERFORM @schema@.group_adopt(@schema@.group_of(subscriber));
    RETURN made;
END
$howdah$;

-- subscription_arm(subscriber text) -> text
--
-- For a member that is about to sleep.  The next append of an event that may concern the subscription rings, once, by a
-- NOTIFY on the channel that is returned.  LISTEN there first, then call this, fetch() once more, and only then wait.
-- Not for ever, because a ring is a hint that may be lost, and retries come due without one.
-- Errors: UH003, UH004.
-- Writes: bell, at once, whether the transaction commits or not.
CREATE OR REPLACE FUNCTION @schema@.subscription_arm(subscriber text) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
BEGIN
    PERFORM setval(@bell_text@, b.last_value | @schema@.bell_bit(g.type)) FROM @schema@.bell AS b
    WHERE b.last_value & @schema@.bell_bit(g.type) = 0;
    RETURN @schema@.channel(g.type);
END
$howdah$;

-- subscription_set_status(subscriber, status, reason) -> void: what subscription_pause() and _resume() do.
CREATE OR REPLACE FUNCTION @schema@.subscription_set_status(subscriber text, status text, reason text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    UPDATE @schema@.subscriptions AS s
    SET status = subscription_set_status.status, reason = left(subscription_set_status.reason, 255), updated_at = clock_timestamp()
    WHERE s.subscriber_id = subscriber;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH004', MESSAGE = format('there is no subscription %s', subscriber);
    END IF;
    PERFORM pg_notify(@schema_text@ || '_control', '');
END
$howdah$;

-- group_members(subscriber) -> rows of (member, batches, events, oldest_age_s)
--
-- The members that have batches whose lease has not ended, by name ('' for those without one).  None when the
-- subscription was reset since: the batches are lost.
-- Errors: UH003, UH004.
-- Reads: group_places, group_lots, group_retries.
CREATE OR REPLACE FUNCTION @schema@.group_members(
    subscriber text, OUT member text, OUT batches bigint, OUT events bigint, OUT oldest_age_s double precision)
RETURNS SETOF record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
BEGIN
    RETURN QUERY
    SELECT coalesce(x.member, ''), count(*), sum(x.taken)::bigint,
           greatest(max(extract(epoch FROM clock_timestamp() - x.taken_at)), 0)::double precision
    FROM (SELECT l.member, l.taken, l.taken_at FROM @schema@.group_lots AS l
          WHERE l.group_id = g.group_id AND l.until > clock_timestamp()
            AND (NOT l.is_range OR (SELECT k.reserved_until FROM @schema@.groups AS k WHERE k.group_id = g.group_id) > clock_timestamp())
            AND l.lot >= (SELECT max(p.floor) FROM @schema@.group_places AS p WHERE p.group_id = g.group_id)
          UNION ALL
          SELECT r.member, r.taken, r.taken_at FROM @schema@.group_retries AS r
          WHERE r.group_id = g.group_id AND r.until > clock_timestamp()) AS x
    WHERE g.in_place
    GROUP BY coalesce(x.member, '') ORDER BY 1;
END
$howdah$;

-- group_outlook(subscriber, OUT status text, OUT due_ms bigint)
--
-- For a member that found nothing to do: whether the subscription is active, and how long until a retry is due or a
-- lease ends.  NULL: nothing is known of.
-- Errors: UH003, UH004.
-- Reads: group_places, group_lots, group_retries.
CREATE OR REPLACE FUNCTION @schema@.group_outlook(subscriber text, OUT status text, OUT due_ms bigint)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
BEGIN
    status := g.status;
    -- NULL stays NULL: greatest() would make 0 of it, and who sleeps would look a thousand times a second.
    due_ms := (SELECT CASE WHEN min(x.at) IS NOT NULL
                           THEN ceil(greatest(extract(epoch FROM min(x.at) - clock_timestamp()), 0) * 1000) END
               FROM (SELECT l.until AS at FROM @schema@.group_lots AS l
                     WHERE l.group_id = g.group_id AND l.until > '-infinity' AND NOT l.is_range
                       AND l.lot >= (SELECT max(p.floor) FROM @schema@.group_places AS p WHERE p.group_id = g.group_id)
                     UNION ALL
                     -- Whoever has reserved it lets it go as soon as it hears that somebody waits.
                     SELECT least(k.reserved_until, clock_timestamp() + interval '20 milliseconds') FROM @schema@.groups AS k
                     WHERE k.group_id = g.group_id AND k.reserved <> 0
                     UNION ALL
                     SELECT greatest(r.due, r.until) FROM @schema@.group_retries AS r
                     WHERE r.group_id = g.group_id AND r.due < 'infinity') AS x);
END
$howdah$;

-- subscription_pause(subscriber, reason) -> void, subscription_resume(subscriber) -> void
--
-- Paused, a subscription gives nothing out; batches that are out can be acked.  resume also lets a halted one go on.
-- For any subscription, shared or not: its owner notices within a second.
-- Errors: UH004.
-- Writes: subscriptions.  Notifies {schema}_control.
CREATE OR REPLACE FUNCTION @schema@.subscription_pause(subscriber text, reason text DEFAULT NULL) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT @schema@.subscription_set_status(subscriber, 'paused', reason)
$howdah$;

CREATE OR REPLACE FUNCTION @schema@.subscription_resume(subscriber text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT @schema@.subscription_set_status(subscriber, 'active', NULL)
$howdah$;

-- subscription_reset(subscriber, start) -> void
--
-- Puts a shared subscription at start, end, after a number, or at a moment (see subscribe()).  Batches that are out are lost to their members.
-- Errors: UH003 it is not shared, UH004, UH006.
-- Writes: see group_place().
CREATE OR REPLACE FUNCTION @schema@.subscription_reset(subscriber text, start text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    p record;
BEGIN
    SELECT x.high, x.holes INTO p FROM @schema@.start_place(start) AS x;
    PERFORM @schema@.group_place(g, p.high, p.holes);
    PERFORM pg_notify(@schema_text@ || '_control', '');
END
$howdah$;

-- group_idle(subscriber) -> group_state
--
-- The group, locked, when no member has a batch of it.
-- Errors: UH003, UH004.
CREATE OR REPLACE FUNCTION @schema@.group_idle(subscriber text) RETURNS @schema@.group_state
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    held record; -- who has reserved it
BEGIN
    SELECT k.reserved, k.process, k.reserved_until INTO held FROM @schema@.groups AS k WHERE k.group_id = g.group_id FOR UPDATE;
    IF held.reserved <> 0 THEN
        PERFORM @schema@.group_ranges_expired(g, held.process, held.reserved_until);
    END IF;
    IF EXISTS (SELECT FROM @schema@.group_members(subscriber)) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH003', MESSAGE = format('members have batches of the subscription %s', subscriber),
            HINT = 'stop them, or wait until their leases end';
    END IF;
    RETURN g;
END
$howdah$;

-- group_drop(g) -> void: removes what makes a subscription a group.
-- Writes: groups; see group_place().
CREATE OR REPLACE FUNCTION @schema@.group_drop(g @schema@.group_state) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    PERFORM @schema@.group_place(g, 0, '{}');
    DELETE FROM @schema@.group_places AS k WHERE k.group_id = g.group_id;
    DELETE FROM @schema@.group_marks AS k WHERE k.group_id = g.group_id;
    DELETE FROM @schema@.groups AS k WHERE k.group_id = g.group_id;
END
$howdah$;

-- subscription_remove(subscriber) -> void
--
-- Removes a shared subscription; its dead letters stay.
-- Errors: UH003 a member has a batch of it, or it is not shared; UH004.
-- Writes: subscriptions, groups, skips; see group_place().
CREATE OR REPLACE FUNCTION @schema@.subscription_remove(subscriber text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    PERFORM @schema@.group_drop(@schema@.group_idle(subscriber));
    DELETE FROM @schema@.skips AS k WHERE k.subscriber_id = subscriber;
    DELETE FROM @schema@.subscriptions AS k WHERE k.subscriber_id = subscriber;
END
$howdah$;

-- group_outstanding(g) -> bigint[]
--
-- The numbers up to the group's high that are not handled: in lots, behind failed events, missing.  As ranges: first,
-- last, first, last ...
-- Reads: group_lots, group_retries, group_holes, events.
CREATE OR REPLACE FUNCTION @schema@.group_outstanding(g @schema@.group_state) RETURNS bigint[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
    WITH dealt AS MATERIALIZED (
        SELECT CASE WHEN l.tids IS NULL OR NOT g.sound THEN @schema@.group_lot_tids(g, l) ELSE l.tids[l.pos + 1 : l.n] END AS tids
        FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id
    ), ranges AS (
        SELECT e.global_sequence AS first, e.global_sequence AS last
        FROM dealt AS d, unnest(d.tids) AS u(at), @schema@.events AS e WHERE e.ctid = u.at
        UNION ALL
        SELECT e.global_sequence, e.global_sequence FROM @schema@.group_retries AS r, @schema@.events AS e
        WHERE r.group_id = g.group_id AND r.stream IS NOT NULL AND e.stream = r.stream
          AND e.global_sequence BETWEEN r.sequence AND r.upto
          AND (r.dead_letter IS NULL OR e.global_sequence > r.sequence) AND @matches@
          AND (e.global_sequence = r.sequence OR (SELECT d.id @its_dead_letter@) IS NULL)
        UNION ALL
        SELECT r.sequence, r.sequence FROM @schema@.group_retries AS r
        WHERE r.group_id = g.group_id AND r.stream IS NULL AND r.dead_letter IS NULL
        UNION ALL
        SELECT h.first, h.last FROM @schema@.group_holes AS h WHERE h.group_id = g.group_id
    ), islands AS (
        SELECT min(i.first) AS first, max(i.last) AS last
        FROM (SELECT x.first, x.last, count(*) FILTER (WHERE x.first > x.reached + 1) OVER (ORDER BY x.first, x.last) AS island
              FROM (SELECT r.first, r.last, max(r.last) OVER (ORDER BY r.first, r.last
                                                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
                    FROM ranges AS r) AS x) AS i
        GROUP BY i.island
    )
    SELECT coalesce(array_agg(u.one ORDER BY u.one), '{}') FROM islands AS i, LATERAL (VALUES (i.first), (i.last)) AS u(one)
$howdah$;

-- group_progress(subscriber, OUT high bigint, OUT outstanding bigint[])
--
-- The place of a group as that of any subscription: every number up to high was handled, does not concern it, or is
-- in outstanding (first, last, first ...).  For people: nothing is locked, so members may be ahead of it by now.
-- Reads: see group_outstanding().
CREATE OR REPLACE FUNCTION @schema@.group_progress(subscriber text, OUT high bigint, OUT outstanding bigint[])
LANGUAGE plpgsql VOLATILE STRICT SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
BEGIN
    IF g.in_place THEN
        high := (SELECT max(p.high) FROM @schema@.group_places AS p WHERE p.group_id = g.group_id);
        outstanding := @schema@.group_outstanding(g);
    END IF;
END
$howdah$;

-- lag_age_s(high, outstanding, still) -> double precision
--
-- For how many seconds the oldest event that is above high, or in one of the ranges (first, last, first ...), has been
-- in the log.  NULL: there is none.  For people: of more than 1,000 ranges only the first are looked into, and what the
-- subscription does not take counts, too.  Each range costs one descent of the primary key.
-- Reads: events.
CREATE OR REPLACE FUNCTION @schema@.lag_age_s(high bigint, outstanding bigint[] DEFAULT '{}', still bigint[] DEFAULT '{}')
RETURNS double precision
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
DECLARE
    range  record;
    oldest timestamptz;
BEGIN
    FOR range IN
        (SELECT u.ranges[i] AS first, least(u.ranges[i + 1], high) AS last
         FROM (VALUES (outstanding), (still)) AS u(ranges), generate_series(1, cardinality(u.ranges), 2) AS i
         WHERE u.ranges[i] <= high ORDER BY 1 LIMIT 1000)
        UNION ALL SELECT high + 1, 9223372036854775807
        ORDER BY 1
    LOOP
        SELECT e.recorded_at INTO oldest FROM @schema@.events AS e
        WHERE e.global_sequence BETWEEN range.first AND range.last ORDER BY e.global_sequence LIMIT 1;
        EXIT WHEN FOUND;
    END LOOP;
    RETURN CASE WHEN oldest IS NOT NULL THEN greatest(extract(epoch FROM clock_timestamp() - oldest), 0) END;
END
$howdah$;

-- unshare(subscriber) -> void
--
-- A shared subscription becomes one of a single process, and goes on where it is: what was not handled is outstanding.
-- Events that were waiting for a retry are tried as often as new ones.
-- Errors: UH003 members have batches of it, or it is not shared; UH004.
-- Writes: subscriptions, groups; see group_place().
CREATE OR REPLACE FUNCTION @schema@.unshare(subscriber text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g    @schema@.group_state := @schema@.group_idle(subscriber);
    left_over bigint[];
BEGIN
    IF NOT g.in_place THEN
        g := @schema@.group_adopt(g);
    END IF;
    IF NOT g.sound THEN
        g := @schema@.group_mend(g);
    END IF;
    left_over := @schema@.group_outstanding(g);
    UPDATE @schema@.subscriptions AS s
    SET high = (SELECT max(p.high) FROM @schema@.group_places AS p WHERE p.group_id = g.group_id), outstanding = left_over,
        still = '{}', anchor_sequence = 0, anchor_id = NULL, timeline = '', owner = NULL, lease_until = NULL,
        token = greatest(s.token + 1, nextval(@token_text@::regclass)), updated_at = clock_timestamp()
    WHERE s.subscriber_id = subscriber;
    PERFORM @schema@.group_drop(g);
    PERFORM pg_notify(@schema_text@ || '_control', '');
END
$howdah$;
