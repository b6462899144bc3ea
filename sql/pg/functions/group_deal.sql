-- group_state: a group, its subscription, and what its members need to know of both.
DO $howdah$
BEGIN
    CREATE TYPE @schema@.group_state AS (
        group_id integer, subscriber_id text, status text, lanes integer, by_stream boolean, total_order boolean,
        max_retries integer, retry_delay_ms bigint, max_retry_delay_ms bigint, gap_timeout_ms bigint, on_fail text,
        type text, regex text, stream text, originals boolean, sound boolean, in_place boolean, process bigint);
EXCEPTION WHEN duplicate_object THEN
    NULL;
END
$howdah$;

-- group_of(subscriber text) -> group_state
--
-- The group of this name.  sound is false when the addresses in its lots may be worthless (I7 of 0007_groups),
-- in_place when its subscription was put elsewhere, or is new (I9).  process is the caller's (see
-- group_reserve()); 0: any.
-- Errors: UH004 there is no such subscription, UH003 it is not shared, UH006.
-- Reads: groups, group_marks, subscriptions.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.group_of(subscriber text) RETURNS @schema@.group_state
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g @schema@.group_state;
BEGIN
    SELECT k.group_id, k.subscriber_id, s.status, k.lanes, k.by_stream, k.total_order, k.max_retries, k.retry_delay_ms,
           k.max_retry_delay_ms, k.gap_timeout_ms, k.on_fail,
           CASE WHEN s.pattern IS NOT NULL AND s.pattern !~ '[*>]' THEN s.pattern END,
           CASE WHEN s.pattern ~ '[*>]' THEN @schema@.pattern_regex(s.pattern) END,
           s.stream, s.originals,
           k.file_node = pg_relation_filenode(@events_text@::regclass)
               AND k.mark = (SELECT m.xmin::text FROM @schema@.group_marks AS m WHERE m.group_id = k.group_id),
           s.token = k.token AND s.lease_until = 'infinity', 0
    INTO g
    FROM @schema@.groups AS k JOIN @schema@.subscriptions AS s ON s.subscriber_id = k.subscriber_id
    WHERE k.subscriber_id = subscriber;
    IF g.group_id IS NOT NULL THEN
        RETURN g;
    END IF;
    IF subscriber IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'subscriber_id: must have 1 to 255 bytes, in 0 bytes';
    END IF;
    IF EXISTS (SELECT FROM @schema@.subscriptions AS s WHERE s.subscriber_id = subscriber) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH003', MESSAGE = format('the subscription %s is not shared', subscriber),
            HINT = format('SELECT %s.subscribe(%L) makes a group of it while no process runs it',
                          quote_ident(@schema_text@), subscriber);
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'UH004', MESSAGE = format('there is no subscription %s', subscriber),
        HINT = format('SELECT %s.subscribe(%L) creates it', quote_ident(@schema_text@), subscriber);
END
$howdah$;

/* define @matches@
(g.type IS NULL OR e.type = g.type) AND (g.regex IS NULL OR e.type ~ g.regex)
              AND (g.stream IS NULL OR e.stream = g.stream) AND (NOT g.originals OR e.revision = 1)
*/

-- group_resolve_holes(g, seen bigint[], drawn bigint, lows bigint[], untils bigint[]) -> void
--
-- Takes out of the holes what was seen (and dealt), and what can never appear by the look that log_look() took
-- before those rows were read.  With gap_policy timeout, what has been missing for too long becomes a skip.  drawn = 0: there
-- are events in holes that are not dealt yet, so nothing is judged.
-- Writes: group_holes, skips.
CREATE OR REPLACE FUNCTION @schema@.group_resolve_holes(
    g @schema@.group_state, seen bigint[], drawn bigint, lows bigint[], untils bigint[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    WITH old AS (
        -- Most stay as they are while a transaction is open.
        DELETE FROM @schema@.group_holes AS h
        WHERE h.group_id = g.group_id
          AND (EXISTS (SELECT FROM unnest(seen) AS f(seq) WHERE f.seq BETWEEN h.first AND h.last)
               OR h.first <= drawn
                  AND NOT EXISTS (SELECT FROM unnest(lows, untils) AS u(low, until) WHERE u.low < h.first AND u.until >= h.last))
        RETURNING h.first, h.last, h.since
    )
    INSERT INTO @schema@.group_holes (group_id, first, last, since)
    SELECT g.group_id, y.first, y.last, old.since
    FROM old, @schema@.log_alive(old.first, old.last, drawn, lows, untils) AS a,
         LATERAL (SELECT lag(x.seq, 1, a.low - 1) OVER (ORDER BY x.seq) + 1 AS first, x.seq - 1 AS last
                  FROM (SELECT f.seq FROM unnest(seen) AS f(seq) WHERE f.seq BETWEEN a.low AND a.high
                        UNION ALL SELECT a.high + 1) AS x) AS y
    WHERE y.first <= y.last;
    WITH old AS (
        DELETE FROM @schema@.group_holes AS h
        WHERE h.group_id = g.group_id AND drawn > 0
          AND h.since < clock_timestamp() - g.gap_timeout_ms * interval '1 millisecond'
        RETURNING h.first, h.last, h.since
    )
    INSERT INTO @schema@.skips (subscriber_id, first_sequence, last_sequence, age_ms, reason)
    SELECT g.subscriber_id, old.first, old.last, extract(epoch FROM clock_timestamp() - old.since) * 1000,
           'gap_timeout: no event came with these numbers in time'
    FROM old;
END
$howdah$;

-- group_remake(g) -> void
--
-- The addresses of events are worthless (I7 of 0007_groups): each lot is made anew from the numbers that it covers.  None
-- is left out.  A lot of events that came late covers all numbers in between as well: those of its lane come again.
-- Reads: events.  Writes: group_lots, groups, group_marks.
CREATE OR REPLACE FUNCTION @schema@.group_remake(g @schema@.group_state) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    xmin_now text;
BEGIN
    UPDATE @schema@.group_lots AS l SET tids = NULL WHERE l.group_id = g.group_id;
    DELETE FROM @schema@.group_marks AS m WHERE m.group_id = g.group_id;
    INSERT INTO @schema@.group_marks AS m (group_id) VALUES (g.group_id) RETURNING m.xmin::text INTO xmin_now;
    UPDATE @schema@.groups AS k SET file_node = pg_relation_filenode(@events_text@::regclass), mark = xmin_now
    WHERE k.group_id = g.group_id;
END
$howdah$;

-- group_mend(g) -> group_state
--
-- Has the lots made anew, unless somebody else has meanwhile.
-- Locks: waits for whoever deals.
CREATE OR REPLACE FUNCTION @schema@.group_mend(INOUT g @schema@.group_state)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    PERFORM FROM @schema@.groups AS k WHERE k.group_id = g.group_id FOR NO KEY UPDATE;
    g := @schema@.group_of(g.subscriber_id);
    IF NOT g.sound THEN
        PERFORM @schema@.group_remake(g);
        g := @schema@.group_of(g.subscriber_id);
    END IF;
END
$howdah$;

-- What the ways to deal share: d has what is to be dealt, a row for each lane; e.top is the number up to which it was
-- read.  A short lot that nobody has touched yet grows, so that a lane whose member is slow has few of them.
-- gaps are the numbers in between without an event that may still get one: first, last, first ...
/* define @deal_rows@
o AS MATERIALIZED (
        SELECT l.lot % g.lanes AS lane, max(l.lot) AS lot, min(l.lot) AS low FROM @schema@.group_lots AS l
        WHERE l.group_id = g.group_id AND l.lot >= p.floor GROUP BY 1
    ), small AS MATERIALIZED (
        SELECT k.lot, d.lane FROM d JOIN o ON o.lane = d.lane JOIN @schema@.group_lots AS k ON k.group_id = g.group_id AND k.lot = o.lot
        WHERE k.until = '-infinity' AND k.attempts = 0 AND k.pos = 0 AND k.n + d.n <= 250 AND k.hi < d.lo AND k.tids IS NOT NULL
        FOR UPDATE OF k SKIP LOCKED
    ), grown AS (
        UPDATE @schema@.group_lots AS k SET n = k.n + d.n, hi = d.hi, tids = k.tids || d.tids
        FROM small JOIN d ON d.lane = small.lane
        WHERE k.group_id = g.group_id AND k.lot = small.lot
    ), made AS (
        INSERT INTO @schema@.group_lots (group_id, lot, prev, n, lo, hi, tids)
        SELECT g.group_id, (p.deal + 1) * g.lanes + d.lane, CASE WHEN g.by_stream THEN o.lot END, d.n, d.lo, d.hi, d.tids
        FROM d LEFT JOIN o ON o.lane = d.lane
        WHERE NOT EXISTS (SELECT FROM small WHERE small.lane = d.lane)
    )
    SELECT e.top, coalesce((SELECT sum(d.n) FROM d), 0), (SELECT min(o.low) FROM o), e.in_holes,
           CASE WHEN e.top - greatest(p.high, proven) > e.seen THEN ARRAY(
               SELECT u.one FROM (SELECT lag(x.seq, 1, greatest(p.high, proven)) OVER (ORDER BY x.seq) + 1 AS first,
                                         x.seq - 1 AS last
                                  FROM (SELECT v.global_sequence AS seq FROM @schema@.events AS v
                                        WHERE v.global_sequence > greatest(p.high, proven) AND v.global_sequence <= e.top
                                        UNION ALL SELECT e.top + 1) AS x) AS y,
                    LATERAL (VALUES (y.first), (y.last)) AS u(one)
               WHERE y.first <= y.last) END
    INTO top, dealt, low, late, gaps FROM e
*/

-- group_deal(g, per_lane integer) -> boolean
--
-- Puts the next events of the log into lots, about per_lane for each lane, and those that have appeared in holes.
-- True: there are new lots.  False: there is nothing to deal.  NULL: somebody else deals at this moment.
-- Reads: events; see log_look().  Writes: group_lots, group_places, group_holes, skips.
-- The events of a lane are listed in the order in which they are read: by hashing, never by sorting for lanes.
-- Locks: the row of the group, until the transaction ends.  (Not an advisory lock: anybody could hold that.  Here it is
-- only what group_await_deal() waits for.)
CREATE OR REPLACE FUNCTION @schema@.group_deal(g @schema@.group_state, per_lane integer) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_sort = off
SET enable_hashagg = on
AS $howdah$
DECLARE
    whole   constant boolean := g.type IS NULL AND g.regex IS NULL AND g.stream IS NULL AND NOT g.originals;
    most    constant bigint := per_lane::bigint * g.lanes;
    proven bigint := 0; -- all numbers up to here are decided
    bound   bigint := 9223372036854775806;
    p       @schema@.group_places;
    look    record;
    holes   boolean;
    held    record; -- who has reserved it
    top     bigint;
    dealt   bigint;
    low     bigint;
    gaps    bigint[];
    late    bigint[]; -- numbers of events that were seen in holes
BEGIN
    SELECT k.reserved, k.process, k.reserved_until INTO held FROM @schema@.groups AS k
    WHERE k.group_id = g.group_id FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    ELSIF held.reserved <> 0 AND NOT @schema@.group_ranges_expired(g, held.process, held.reserved_until) THEN
        RETURN false;
    END IF;
    PERFORM pg_try_advisory_xact_lock(@groups_text@::regclass::oid::integer, g.group_id);
    PERFORM @schema@.group_wake_dead_letters(g);
    -- Locked: where the snapshot is older than the last deal (REPEATABLE READ), this fails with 40001.
    SELECT k.* INTO p FROM @schema@.group_places AS k WHERE k.group_id = g.group_id ORDER BY k.deal DESC LIMIT 1 FOR UPDATE;
    holes := EXISTS (SELECT FROM @schema@.group_holes AS h WHERE h.group_id = g.group_id);
    -- Members at the head of the log ask this all the time.
    IF whole AND NOT holes
       AND (SELECT v.global_sequence FROM @schema@.events AS v WHERE v.global_sequence > p.high
            ORDER BY v.global_sequence LIMIT 1) IS NULL THEN
        RETURN false;
    END IF;
    -- Before the rows.  An old look still tells of the history.
    look := @schema@.log_look(CASE WHEN holes OR g.total_order OR NOT whole THEN 20 ELSE 3600000 END);
    proven := least(look.drawn, (SELECT min(u.low) FROM unnest(look.lows) AS u(low)));
    IF g.total_order THEN
        bound := proven;
    ELSIF NOT whole AND g.type IS NULL THEN
        bound := p.high + 50000; -- rows that do not match are looked at, too
    END IF;
    IF whole AND NOT holes THEN
        -- In one pass: the events are not put anywhere in between.
        WITH a AS MATERIALIZED (
            SELECT r.lane, array_agg(r.at) AS tids
            FROM (SELECT v.ctid AS at, hashtext(v.stream) & (g.lanes - 1) AS lane
                  FROM @schema@.events AS v
                  WHERE v.global_sequence > p.high AND v.global_sequence <= bound ORDER BY v.global_sequence LIMIT most) AS r
            GROUP BY r.lane
        ), d AS MATERIALIZED (
            -- A question about each event costs a tenth of the deal, max() a quarter: what can be asked of the list is.
            SELECT a.lane, cardinality(a.tids) AS n, a.tids,
                   (SELECT v.global_sequence FROM @schema@.events AS v WHERE v.ctid = a.tids[1]) AS lo,
                   (SELECT v.global_sequence FROM @schema@.events AS v WHERE v.ctid = a.tids[cardinality(a.tids)]) AS hi
            FROM a
        ), e AS MATERIALIZED (
            -- Where part of it is proven, the numbers are looked through for gaps.
            SELECT max(d.hi) AS top, CASE WHEN proven <= p.high THEN coalesce(sum(d.n), 0) ELSE -1 END AS seen,
                   NULL::bigint[] AS in_holes
            FROM d
        ), @deal_rows@;
    ELSE
        WITH appeared AS MATERIALIZED (
            SELECT e.global_sequence AS seq, e.ctid AS at, hashtext(e.stream) & (g.lanes - 1) AS lane,
                   @matches@ AS matches
            FROM @schema@.group_holes AS h, @schema@.events AS e
            WHERE h.group_id = g.group_id AND e.global_sequence BETWEEN h.first AND h.last
        ), above AS MATERIALIZED (
            SELECT e.global_sequence AS seq, e.ctid AS at, hashtext(e.stream) & (g.lanes - 1) AS lane
            FROM @schema@.events AS e
            WHERE g.type IS NULL AND e.global_sequence > p.high AND e.global_sequence <= bound AND @matches@
            ORDER BY e.global_sequence LIMIT most
        ), of_type AS MATERIALIZED (
            SELECT e.global_sequence AS seq, e.ctid AS at, hashtext(e.stream) & (g.lanes - 1) AS lane
            FROM @schema@.events AS e
            WHERE e.type = g.type AND e.global_sequence > p.high AND e.global_sequence <= bound
              AND (g.stream IS NULL OR e.stream = g.stream) AND (NOT g.originals OR e.revision = 1)
            ORDER BY e.type, e.global_sequence LIMIT most
        ), r AS MATERIALIZED (
            SELECT x.seq, x.at, x.lane
            FROM (SELECT l.seq, l.at, l.lane FROM appeared AS l WHERE l.matches
                  UNION ALL SELECT * FROM above UNION ALL SELECT * FROM of_type) AS x
            ORDER BY x.seq
        ), d AS MATERIALIZED (
            SELECT r.lane, count(*) AS n, min(r.seq) AS lo, max(r.seq) AS hi, array_agg(r.at) AS tids FROM r GROUP BY r.lane
        ), e AS MATERIALIZED (
            -- When not all was found, up to the last one; else up to where the log is known, or was looked at.
            SELECT CASE WHEN count(*) = most THEN max(x.seq)
                        ELSE greatest(p.high, max(x.seq), least(bound, CASE WHEN g.total_order THEN proven ELSE look.drawn END)) END AS top,
                   -1 AS seen, ARRAY(SELECT l.seq FROM appeared AS l ORDER BY l.seq) AS in_holes
            FROM (SELECT a.seq FROM above AS a UNION ALL SELECT t.seq FROM of_type AS t) AS x
        ), @deal_rows@;
    END IF;
    top := greatest(top, p.high);
    IF holes THEN
        PERFORM @schema@.group_resolve_holes(g, late, look.drawn, look.lows, look.untils);
    END IF;
    IF cardinality(gaps) > 0 THEN
        INSERT INTO @schema@.group_holes (group_id, first, last)
        SELECT g.group_id, a.low, a.high
        FROM generate_series(1, cardinality(gaps), 2) AS i,
             @schema@.log_alive(gaps[i], gaps[i + 1], look.drawn, look.lows, look.untils) AS a;
    END IF;
    IF dealt > 0 OR top > p.high THEN
        DELETE FROM @schema@.group_places AS k WHERE k.group_id = g.group_id AND k.deal <= p.deal;
        INSERT INTO @schema@.group_places (group_id, deal, high, floor)
        VALUES (g.group_id, p.deal + 1, top, coalesce(low, (p.deal + 1) * g.lanes));
    END IF;
    RETURN dealt > 0;
END
$howdah$;

-- group_await_deal(g) -> void
--
-- Returns when the one who deals has ended its transaction, or soon.  Members that came again and again meanwhile
-- would take the processor from it.  Nothing but time depends on this lock: whoever else holds it delays others by
-- lock_timeout.
-- Locks: an advisory one, shared, and not kept: the block is undone.
CREATE OR REPLACE FUNCTION @schema@.group_await_deal(g @schema@.group_state) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $howdah$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(@groups_text@::regclass::oid::integer, g.group_id);
    RAISE EXCEPTION SQLSTATE 'UH000';
EXCEPTION WHEN lock_not_available OR deadlock_detected OR SQLSTATE 'UH000' THEN
    NULL;
END
$howdah$;
