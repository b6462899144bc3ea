-- group_ranges_end(g, done bigint[], busy bigint[], lease_ms bigint, suspect boolean) -> rows of (sequence, token)
--
-- The ranges of whoever has reserved the group become lots by lane, without the events that are done (I10 of 0007_groups).
-- Those that are being handled (busy) become lots of their own, leased to the same member: their tokens are returned.
-- suspect: nobody knows which of the others were begun, so they are given out one by one.
-- Reads: events.  Writes: groups, group_lots, group_places.  The group's row is locked by the caller.
CREATE OR REPLACE FUNCTION @schema@.group_ranges_end(
    g @schema@.group_state, done bigint[], busy bigint[], lease_ms bigint, suspect boolean)
RETURNS TABLE (sequence bigint, token text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $howdah$
#variable_conflict use_column
DECLARE
    p      @schema@.group_places;
    depth  bigint;
    who    text;
    seqs   bigint[];
    tokens text[];
BEGIN
    SELECT k.* INTO p FROM @schema@.group_places AS k WHERE k.group_id = g.group_id ORDER BY k.deal DESC LIMIT 1 FOR UPDATE;
    UPDATE @schema@.groups AS k SET reserved = 0, wanted = false WHERE k.group_id = g.group_id RETURNING k.reserved_by INTO who;
    IF NOT EXISTS (SELECT FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.is_range) THEN
        RETURN;
    END IF;
    WITH u AS MATERIALIZED (
        SELECT e.global_sequence AS seq, e.ctid AS at, hashtext(e.stream) & (g.lanes - 1) AS lane
        FROM @schema@.group_lots AS l JOIN @schema@.events AS e ON e.global_sequence BETWEEN l.lo AND l.hi
        WHERE l.group_id = g.group_id AND l.is_range AND @matches@
          AND NOT EXISTS (SELECT FROM @schema@.group_holes AS h
                          WHERE h.group_id = g.group_id AND e.global_sequence BETWEEN h.first AND h.last)
        UNION ALL
        SELECT d.seq, NULL, NULL FROM unnest(done) AS d(seq)
    ), r AS MATERIALIZED (
        -- Grouped, not joined: how long the list is the planner does not know.  An event that came late is in two ranges.
        SELECT u.seq, (array_agg(u.at))[1] AS at, min(u.lane) AS lane, u.seq = ANY (busy) AS busy
        FROM u GROUP BY u.seq HAVING bool_and(u.at IS NOT NULL)
    ), b AS MATERIALIZED (
        SELECT r.seq, r.at, r.lane, row_number() OVER (PARTITION BY r.lane ORDER BY r.seq) AS nth, @new_token@ AS fence
        FROM r WHERE r.busy
    ), deep AS MATERIALIZED (
        SELECT coalesce(max(b.nth), 0) AS n FROM b
    ), leased AS (
        INSERT INTO @schema@.group_lots (group_id, lot, prev, n, lo, hi, last, tids, token, until, taken_at, taken, attempts, member)
        SELECT g.group_id, (p.deal + b.nth) * g.lanes + b.lane,
               NULL, 1, b.seq, b.seq, b.seq, ARRAY[b.at], b.fence, clock_timestamp() + lease_ms * interval '1 millisecond',
               clock_timestamp(), 1, 1, who
        FROM b
    ), free AS (
        -- Also without events, where some of its lane are busy: what is dealt next has to wait for all of them.
        INSERT INTO @schema@.group_lots (group_id, lot, n, lo, hi, tids, taken, untried, gate)
        SELECT g.group_id, (p.deal + deep.n + 1) * g.lanes + d.lane, d.n, d.lo, d.hi, coalesce(d.tids, '{}'),
               CASE WHEN suspect THEN d.n ELSE 0 END, suspect, g.by_stream AND d.some_busy
        FROM (SELECT r.lane, count(*) FILTER (WHERE NOT r.busy) AS n, min(r.seq) AS lo, max(r.seq) AS hi,
                     array_agg(r.at ORDER BY r.seq) FILTER (WHERE NOT r.busy) AS tids, bool_or(r.busy) AS some_busy
              FROM r GROUP BY r.lane) AS d, deep
    ), gone AS (
        DELETE FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.is_range
    ), named AS MATERIALIZED (
        SELECT array_agg(b.seq) AS seqs,
               array_agg('l' || (p.deal + b.nth) * g.lanes + b.lane || '-' || b.fence) AS tokens
        FROM b
    )
    SELECT deep.n, named.seqs, named.tokens INTO depth, seqs, tokens FROM deep, named;
    DELETE FROM @schema@.group_places AS k WHERE k.group_id = g.group_id AND k.deal <= p.deal;
    INSERT INTO @schema@.group_places (group_id, deal, high, floor)
    VALUES (g.group_id, p.deal + depth + 1, p.high, (p.deal + 1) * g.lanes);
    RETURN QUERY SELECT u.seq, u.token FROM unnest(seqs, tokens) AS u(seq, token);
END
$howdah$;

-- group_ranges_expired(g, process bigint, until timestamptz) -> boolean
--
-- For whoever wants to deal, and has the group's row locked.  True: it is reserved no more.  False: the one
-- who does is told that others want to take part.
-- Writes: groups; see group_ranges_end().
CREATE OR REPLACE FUNCTION @schema@.group_ranges_expired(g @schema@.group_state, process bigint, until timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF until < clock_timestamp() THEN
        PERFORM @schema@.group_ranges_end(g, '{}', '{}', 0, true);
        -- Whoever waited for its end may be its successor, and alone.
        UPDATE @schema@.groups AS k SET shared_at = '-infinity' WHERE k.group_id = g.group_id;
        RETURN true;
    END IF;
    IF process <> g.process THEN
        UPDATE @schema@.groups AS k SET wanted = true, shared_at = clock_timestamp() WHERE k.group_id = g.group_id AND NOT k.wanted;
    END IF;
    RETURN false;
END
$howdah$;

-- group_reserve(subscriber, member, process bigint, token bigint, lease_ms) -> boolean
--
-- For a process with many handlers: from now on only it deals, in ranges, until others want to take part
-- (I10 of 0007_groups).  process is a number that all its members give to group_fetch().  token is drawn by the
-- caller, at random, so that it knows it even when the answer is lost.  False: not now, because others take part or did
-- so a minute ago, or because events have failed.
-- Errors: UH003, UH004.
-- Writes: groups.  Locks: waits for whoever deals.
CREATE OR REPLACE FUNCTION @schema@.group_reserve(
    subscriber text, member text, process bigint, token bigint, lease_ms bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    k @schema@.groups;
BEGIN
    SELECT x.* INTO k FROM @schema@.groups AS x WHERE x.group_id = g.group_id FOR NO KEY UPDATE;
    IF NOT FOUND OR NOT g.in_place OR NOT g.sound OR g.status <> 'active' OR k.reserved <> 0
       OR k.shared_at > clock_timestamp() - interval '1 minute'
       OR EXISTS (SELECT FROM @schema@.group_retries AS r WHERE r.group_id = g.group_id)
       OR EXISTS (SELECT FROM @schema@.group_lots AS l
                  WHERE l.group_id = g.group_id AND l.until > clock_timestamp() AND l.member IS DISTINCT FROM group_reserve.member)
    THEN
        RETURN false;
    END IF;
    UPDATE @schema@.groups AS x
    SET reserved = group_reserve.token, reserved_until = clock_timestamp() + lease_ms * interval '1 millisecond',
        process = group_reserve.process, reserved_by = group_reserve.member, reserved_at = clock_timestamp(), wanted = false
    WHERE x.group_id = g.group_id;
    RETURN true;
END
$howdah$;

-- group_late(g, most integer, OUT first bigint, OUT last bigint, OUT edge bigint[])
--
-- Events that have appeared in holes: the numbers of the first ones without a gap.  And the numbers of the next events
-- of the log.  Both by one snapshot: an event is never seen without an earlier one of its stream.
-- Reads: events, group_holes.
CREATE OR REPLACE FUNCTION @schema@.group_late(
    g @schema@.group_state, high bigint, bound bigint, most integer, OUT first bigint, OUT last bigint, OUT edge bigint[])
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET jit = off
AS $howdah$
    -- LIMIT: each hole is looked up by its numbers.  Else the whole log can be read, for its order.
    WITH late AS MATERIALIZED (
        SELECT x.seq, x.seq - row_number() OVER (ORDER BY x.seq) AS island
        FROM @schema@.group_holes AS h,
             LATERAL (SELECT e.global_sequence AS seq FROM @schema@.events AS e
                      WHERE e.global_sequence BETWEEN h.first AND h.last ORDER BY e.global_sequence LIMIT most) AS x
        WHERE h.group_id = g.group_id
        ORDER BY x.seq LIMIT most
    )
    SELECT (SELECT min(l.seq) FROM late AS l),
           (SELECT max(l.seq) FROM late AS l WHERE l.island = (SELECT min(i.island) FROM late AS i)),
           ARRAY(SELECT e.global_sequence FROM @schema@.events AS e
                 WHERE e.global_sequence > high AND e.global_sequence <= bound ORDER BY e.global_sequence LIMIT most)
$howdah$;

-- group_deal_range(g, member, token bigint, numbers integer, OUT lot bigint, OUT lo bigint, OUT hi bigint, OUT gaps bigint[])
--
-- The next numbers of the log become a range with this token, or some in holes whose events have appeared.  gaps (first, last, first
-- ...) are those in between that had no event: what appears there comes later.  lot NULL: there is nothing.
-- Reads: events; see log_look().  Writes: group_lots, group_places, group_holes, skips.  The group's row is locked by
-- the caller.
CREATE OR REPLACE FUNCTION @schema@.group_deal_range(
    g @schema@.group_state, member text, token bigint, numbers integer, OUT lot bigint, OUT lo bigint, OUT hi bigint,
    OUT gaps bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    p      @schema@.group_places;
    look   record;
    proven bigint; -- all numbers up to here are decided
    holes  constant boolean := EXISTS (SELECT FROM @schema@.group_holes AS h WHERE h.group_id = g.group_id);
    late   record;
    top    bigint;
BEGIN
    SELECT k.* INTO p FROM @schema@.group_places AS k WHERE k.group_id = g.group_id ORDER BY k.deal DESC LIMIT 1 FOR UPDATE;
    look := @schema@.log_look(CASE WHEN holes THEN 20 ELSE 3600000 END);
    proven := least(look.drawn, (SELECT min(u.low) FROM unnest(look.lows) AS u(low)));
    IF proven <= p.high THEN
        look := @schema@.log_look(20);
        proven := least(look.drawn, (SELECT min(u.low) FROM unnest(look.lows) AS u(low)));
    END IF;
    top := p.high;
    IF holes OR proven <= p.high THEN
        SELECT l.* INTO late
        FROM @schema@.group_late(g, p.high, CASE WHEN g.total_order OR proven > p.high THEN 0 ELSE 9223372036854775806 END, numbers) AS l;
        lo := late.first;
        hi := late.last;
    END IF;
    IF lo IS NOT NULL THEN
        NULL; -- what came late first: later events of its stream may be next
    ELSIF proven > p.high THEN
        lo := p.high + 1;
        hi := least(p.high + numbers, proven);
        top := hi;
    ELSIF cardinality(late.edge) > 0 THEN
        lo := p.high + 1;
        hi := late.edge[cardinality(late.edge)];
        top := hi;
        gaps := ARRAY(SELECT u.one
                      FROM (SELECT lag(x.seq, 1, p.high) OVER (ORDER BY x.seq) + 1 AS first, x.seq - 1 AS last
                            FROM unnest(late.edge) AS x(seq)) AS y, LATERAL (VALUES (y.first), (y.last)) AS u(one)
                      WHERE y.first <= y.last);
    END IF;
    IF holes THEN
        -- When some have appeared, only those that are dealt now: there may be events in other holes, too, and these are not
        -- dead because nobody is left who could write them.
        PERFORM @schema@.group_resolve_holes(
            g, ARRAY(SELECT generate_series(late.first, late.last)), CASE WHEN late.first IS NULL THEN look.drawn ELSE 0 END,
            look.lows, look.untils);
    END IF;
    IF lo IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO @schema@.group_holes (group_id, first, last)
    SELECT g.group_id, a.low, a.high
    FROM generate_series(1, cardinality(gaps), 2) AS i, @schema@.log_alive(gaps[i], gaps[i + 1], look.drawn, look.lows, look.untils) AS a;
    lot := (p.deal + 1) * g.lanes;
    DELETE FROM @schema@.group_places AS k WHERE k.group_id = g.group_id AND k.deal <= p.deal;
    INSERT INTO @schema@.group_places (group_id, deal, high, floor)
    VALUES (g.group_id, p.deal + 1, top,
            coalesce((SELECT l.lot FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.lot >= p.floor
                      ORDER BY l.lot LIMIT 1), group_deal_range.lot));
    INSERT INTO @schema@.group_lots (group_id, lot, n, lo, hi, is_range, token, until, taken, taken_at, attempts, member)
    VALUES (g.group_id, group_deal_range.lot, hi - lo + 1, lo, hi, true, group_deal_range.token, 'infinity', hi - lo + 1,
            clock_timestamp(), 1, group_deal_range.member);
END
$howdah$;

-- group_take_range(subscriber, token bigint, fresh bigint, acked bigint, numbers integer, lease_ms bigint)
--     -> state, lot, lo, hi, gaps
--
-- For whoever has reserved the group: acks all its ranges up to the lot acked (NULL: none), and takes the next one, of so many
-- numbers at most.  state: range; none (there is nothing); wait (lots of before are left, and have to be taken first);
-- end (others want to take part, an event has to be tried again, or the subscription is not active: let it go); lost.
-- With a range, fresh is the token of the reservation from now on, and the range's: drawn by the caller, at random (I11 of
-- 0007_groups).
-- Errors: UH003, UH004.
-- Writes: groups, group_lots; see group_deal_range().  Locks: the group's row.
CREATE OR REPLACE FUNCTION @schema@.group_take_range(
    subscriber text, token bigint, fresh bigint, acked bigint, numbers integer, lease_ms bigint,
    OUT state text, OUT lot bigint, OUT lo bigint, OUT hi bigint, OUT gaps bigint[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g     @schema@.group_state := @schema@.group_of(subscriber);
    k     @schema@.groups;
    floor bigint;
    left_over boolean;
BEGIN
    IF NOT g.in_place THEN
        g := @schema@.group_adopt(g); -- which ends the reservation
    END IF;
    SELECT x.* INTO k FROM @schema@.groups AS x WHERE x.group_id = g.group_id AND x.reserved = group_take_range.token FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        state := 'lost';
        RETURN;
    END IF;
    floor := (SELECT p.floor FROM @schema@.group_places AS p WHERE p.group_id = g.group_id ORDER BY p.deal DESC LIMIT 1);
    DELETE FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.lot >= floor AND l.lot <= acked AND l.is_range;
    -- Before the retries: who fails an event and ends its lot does so in this order.
    left_over := EXISTS (SELECT FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.lot >= floor AND NOT l.is_range);
    IF k.wanted OR g.status <> 'active' OR EXISTS (SELECT FROM @schema@.group_retries AS r WHERE r.group_id = g.group_id)
       OR EXISTS (SELECT FROM @schema@.dead_letters AS d WHERE d.state = 'redrive' AND d.subscriber_id = g.subscriber_id) THEN
        state := 'end';
        RETURN;
    END IF;
    IF k.reserved_until < clock_timestamp() + lease_ms * 2 / 3 * interval '1 millisecond' THEN
        UPDATE @schema@.groups AS x SET reserved_until = clock_timestamp() + lease_ms * interval '1 millisecond'
        WHERE x.group_id = g.group_id;
    END IF;
    IF left_over THEN
        state := CASE WHEN k.reserved_at < clock_timestamp() - interval '1 second' THEN 'end' ELSE 'wait' END;
        RETURN;
    END IF;
    SELECT d.lot, d.lo, d.hi, d.gaps INTO lot, lo, hi, gaps
    FROM @schema@.group_deal_range(g, k.reserved_by, fresh, numbers) AS d;
    state := CASE WHEN lot IS NULL THEN 'none' ELSE 'range' END;
    UPDATE @schema@.groups AS x SET reserved = fresh WHERE x.group_id = g.group_id AND lot IS NOT NULL;
END
$howdah$;

-- group_has_range(subscriber, lot bigint, token bigint) -> boolean
--
-- For whoever reads a range, in the statement that reads it: true, or an error.  A server that knows the range has its
-- events, by any snapshot in which it is there; another one may have others with the same numbers.
-- Errors: UH003, UH004, UH007.
-- Reads: group_lots.
CREATE OR REPLACE FUNCTION @schema@.group_has_range(subscriber text, lot bigint, token bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF EXISTS (SELECT FROM @schema@.group_lots AS l JOIN @schema@.groups AS k USING (group_id)
               WHERE k.subscriber_id = subscriber AND l.lot = group_has_range.lot AND l.token = group_has_range.token) THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'UH007', MESSAGE = 'the server does not know the range: others have its events';
END
$howdah$;

-- group_reserve_extend(subscriber, token bigint, lease_ms bigint) -> text
--
-- The reservation is this process's for so long from now: kept; end (others want to take part); lost.
-- Errors: UH003, UH004.
-- Writes: groups.
CREATE OR REPLACE FUNCTION @schema@.group_reserve_extend(subscriber text, token bigint, lease_ms bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g   constant @schema@.group_state := @schema@.group_of(subscriber);
    ask boolean;
BEGIN
    UPDATE @schema@.groups AS k SET reserved_until = clock_timestamp() + lease_ms * interval '1 millisecond'
    WHERE k.group_id = g.group_id AND k.reserved = group_reserve_extend.token
    RETURNING k.wanted INTO ask;
    RETURN CASE WHEN ask IS NULL THEN 'lost' WHEN ask OR g.status <> 'active' THEN 'end' ELSE 'kept' END;
END
$howdah$;

-- group_end_ranges(subscriber, token, fresh, process, acked, upto, done, busy, lease_ms) -> rows of (sequence, token)
--
-- Ends the reservation: all its ranges up to the lot acked are handled, of the next one the numbers up to upto, and
-- after them the events in done.  Those in
-- busy are being handled: each is a batch of its own from now on, whose token is returned.  The others are free.  fresh
-- (0: none) was for a range whose answer has not come.  A row without sequence: the reservation is lost, and nothing has
-- happened; unless it is this process's, and the server has forgotten its last moments: then all its ranges are free.
-- Errors: UH003, UH004.
-- Writes: see group_ranges_end().  Locks: the group's row.
CREATE OR REPLACE FUNCTION @schema@.group_end_ranges(
    subscriber text, token bigint, fresh bigint, process bigint, acked bigint, upto bigint, done bigint[], busy bigint[],
    lease_ms bigint)
RETURNS TABLE (sequence bigint, batch_token text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g @schema@.group_state := @schema@.group_of(subscriber);
    k @schema@.groups;
BEGIN
    IF NOT g.in_place THEN
        g := @schema@.group_adopt(g);
    END IF;
    SELECT x.* INTO k FROM @schema@.groups AS x WHERE x.group_id = g.group_id FOR NO KEY UPDATE;
    IF coalesce(k.reserved, 0) = 0 OR (k.reserved IS DISTINCT FROM token AND k.reserved IS DISTINCT FROM fresh) THEN
        IF k.reserved <> 0 AND k.process = group_end_ranges.process THEN
            PERFORM @schema@.group_ranges_end(g, '{}', '{}', 0, false);
        END IF;
        RETURN QUERY SELECT NULL::bigint, NULL::text;
        RETURN;
    END IF;
    DELETE FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.lot <= acked AND l.is_range;
    UPDATE @schema@.group_lots AS l SET lo = greatest(l.lo, upto + 1)
    WHERE l.group_id = g.group_id AND l.is_range
      AND l.lot = (SELECT min(x.lot) FROM @schema@.group_lots AS x WHERE x.group_id = g.group_id AND x.is_range);
    RETURN QUERY SELECT * FROM @schema@.group_ranges_end(g, done, busy, lease_ms, false);
END
$howdah$;
