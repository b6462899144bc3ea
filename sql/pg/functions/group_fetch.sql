-- group_batch: what a member gets: n events, with numbers from lo to hi.  They are at tids; NULL: where group_tids()
-- says.  is_last: it is the beginning of a lot of the last deal, so the stock is low.  follows: it comes after the acked
-- batch in the same lot, which nobody has touched since.
DO $howdah$
BEGIN
    CREATE TYPE @schema@.group_batch AS (token text, attempt integer, tids tid[], lo bigint, hi bigint, is_last boolean, n integer,
                                         follows boolean);
EXCEPTION WHEN duplicate_object THEN
    -- An earlier one did not have n, and its functions had other parameters.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_type AS t JOIN pg_catalog.pg_namespace AS s ON s.oid = t.typnamespace
                   JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.typrelid
                   WHERE s.nspname = @schema_text@ AND t.typname = 'group_batch' AND a.attname = 'follows') THEN
        ALTER TYPE @schema@.group_batch ADD ATTRIBUTE n integer, ADD ATTRIBUTE follows boolean;
        DROP FUNCTION @schema@.group_take_retry(@schema@.group_state, integer, text, bigint);
        DROP FUNCTION @schema@.group_take(@schema@.group_state, integer, text, bigint);
        DROP FUNCTION @schema@.group_go_on(@schema@.group_state, text, integer, text, bigint);
        DROP FUNCTION @schema@.group_fetch(text, integer, text, interval, text, bigint);
    END IF;
END
$howdah$;

-- A number that no lease had before, and that nobody can guess (I3 of 0007_groups).
/* define @new_token@
1 + floor(random() * 281474976710656)::bigint
*/

-- group_wake_dead_letters(g) -> void
--
-- What people have decided about dead letters: another try for those that they asked it for, and streams that wait
-- for one which is resolved go on.
-- Reads: dead_letters.  Writes: group_retries.
CREATE OR REPLACE FUNCTION @schema@.group_wake_dead_letters(g @schema@.group_state) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    r @schema@.group_retries;
BEGIN
    FOR r IN SELECT k.* FROM @schema@.group_retries AS k
             WHERE k.group_id = g.group_id AND k.due = 'infinity'
               AND NOT EXISTS (SELECT FROM @schema@.dead_letters AS d WHERE d.id = k.dead_letter AND d.state = 'dead')
             ORDER BY k.retry LIMIT 100 FOR UPDATE SKIP LOCKED
    LOOP
        IF EXISTS (SELECT FROM @schema@.dead_letters AS d WHERE d.id = r.dead_letter AND d.state = 'redrive') THEN
            UPDATE @schema@.group_retries AS k SET due = clock_timestamp() WHERE k.group_id = r.group_id AND k.retry = r.retry;
        ELSE
            PERFORM @schema@.group_retry_on(g, r, r.sequence);
        END IF;
    END LOOP;
    IF NOT EXISTS (SELECT FROM @schema@.dead_letters AS d
                   WHERE d.state = 'redrive' AND d.subscriber_id = g.subscriber_id) THEN
        RETURN;
    END IF;
    -- Those for which no stream waits, or will when it comes to them.  The lock is for two members that see the same one.
    INSERT INTO @schema@.group_retries (group_id, lane, sequence, upto, attempts, due, dead_letter)
    SELECT g.group_id, 0, d.global_sequence, d.global_sequence, d.retry_count, clock_timestamp(), d.id
    FROM @schema@.dead_letters AS d
    WHERE d.state = 'redrive' AND d.subscriber_id = g.subscriber_id
      AND NOT EXISTS (SELECT FROM @schema@.group_retries AS k WHERE k.group_id = g.group_id AND k.dead_letter = d.id)
      AND NOT (g.on_fail = 'hold' AND EXISTS (SELECT FROM @schema@.group_retries AS k
                                              WHERE k.group_id = g.group_id AND k.stream = d.stream
                                                AND d.global_sequence BETWEEN k.sequence AND k.upto))
    ORDER BY d.subscriber_id, d.id LIMIT 100
    ON CONFLICT (group_id, sequence) WHERE stream IS NULL DO NOTHING;
END
$howdah$;

-- A retry that can be taken now.
/* define @is_due@
k.group_id = g.group_id AND k.due <= clock_timestamp() AND k.until < clock_timestamp()
          AND NOT EXISTS (SELECT FROM @schema@.group_lots AS q
                          WHERE q.group_id = k.group_id AND q.lot = k.prior_lot AND q.at < k.prior)
*/

-- group_take_retry(g, max_count, member, lease_ms, fresh) -> group_batch
--
-- Leases an event that is to be tried again, or the next events of its stream that waited for one that was handled.
-- A token of NULL: nothing is due.
-- Reads: events.  Writes: group_retries, dead_letters; see group_fail().  Locks: the row; rows that others have locked are passed over.
CREATE OR REPLACE FUNCTION @schema@.group_take_retry(
    g @schema@.group_state, max_count integer, member text, lease_ms bigint, fresh bigint) RETURNS @schema@.group_batch
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    r @schema@.group_retries;
    b @schema@.group_batch;
    dead record;
BEGIN
    LOOP
        SELECT k.* INTO r FROM @schema@.group_retries AS k WHERE @is_due@
        ORDER BY k.due LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
        IF r.dead_letter IS NOT NULL THEN
            SELECT d.state, d.retry_count INTO dead FROM @schema@.dead_letters AS d WHERE d.id = r.dead_letter;
            IF NOT FOUND OR dead.state NOT IN ('dead', 'redrive') THEN
                PERFORM @schema@.group_retry_on(g, r, r.sequence); -- a person wanted another try, and does not any more
                CONTINUE;
            END IF;
            IF r.taken > 0 AND dead.state = 'redrive' AND r.attempts > dead.retry_count + g.max_retries THEN
                -- Each member that tried it has lost its lease: a person is asked again.
                UPDATE @schema@.dead_letters AS d
                SET state = 'dead', redrives = d.redrives + 1, retry_count = r.attempts, last_retry_at = clock_timestamp(),
                    error_message = format('the lease ran out, after %s tries', r.attempts)
                WHERE d.id = r.dead_letter;
                IF r.stream IS NULL THEN
                    DELETE FROM @schema@.group_retries AS k WHERE k.group_id = r.group_id AND k.retry = r.retry;
                ELSE
                    UPDATE @schema@.group_retries AS k SET due = 'infinity', until = '-infinity', taken = 0, token = 0
                    WHERE k.group_id = r.group_id AND k.retry = r.retry;
                END IF;
                CONTINUE;
            END IF;
        END IF;
        IF r.taken > 0 AND r.dead_letter IS NULL AND r.attempts > g.max_retries THEN
            -- The last try has ended with its member.
            PERFORM @schema@.group_fail(g, r.sequence, r.stream, r.upto, r.attempts,
                                        format('the lease ran out, after %s tries', r.attempts), NULL, r);
            CONTINUE;
        END IF;
        -- What was never tried, and whose first one was not out when a lease ran out, goes several at a time, without
        -- those that are dead letters by now; see group_next().
        IF r.attempts = 0 AND r.taken = 0 AND r.dead_letter IS NULL AND max_count > 1 AND r.upto > r.sequence THEN
            SELECT array_agg(x.ctid), min(x.seq), max(x.seq) INTO b.tids, b.lo, b.hi
            FROM (SELECT y.ctid, y.seq, bool_or(y.is_dead) OVER (ORDER BY y.seq) AS is_held
                  FROM (SELECT e.ctid, e.global_sequence AS seq,
                               e.global_sequence > r.sequence AND g.on_fail = 'hold' AND (SELECT d.id @its_dead_letter@) IS NOT NULL AS is_dead
                        FROM @schema@.events AS e
                        WHERE e.stream = r.stream
                          AND e.version >= (SELECT v.version FROM @schema@.events AS v WHERE v.global_sequence = r.sequence)
                          AND e.global_sequence <= r.upto AND @matches@
                          AND (e.global_sequence = r.sequence
                               OR (SELECT d.id @its_dead_letter@ AND NOT (g.on_fail = 'hold' AND d.resolved_at IS NULL)) IS NULL)
                        ORDER BY e.stream, e.version LIMIT max_count) AS y) AS x
            WHERE NOT x.is_held;
        ELSE
            SELECT array_agg(e.ctid), min(e.global_sequence), max(e.global_sequence) INTO b.tids, b.lo, b.hi
            FROM @schema@.events AS e WHERE e.global_sequence = r.sequence;
        END IF;
        IF b.tids IS NULL THEN
            PERFORM @schema@.group_retry_on(g, r, r.sequence); -- it was removed
            CONTINUE;
        END IF;
        UPDATE @schema@.group_retries AS k
        SET attempts = k.attempts + 1, token = fresh, until = clock_timestamp() + lease_ms * interval '1 millisecond',
            taken = cardinality(b.tids), last = b.hi, taken_at = clock_timestamp(), member = group_take_retry.member
        WHERE k.group_id = r.group_id AND k.retry = r.retry;
        b.token := 'r' || r.retry || '-' || fresh;
        b.attempt := r.attempts + 1;
        b.n := cardinality(b.tids);
        RETURN b;
    END LOOP;
END
$howdah$;

-- group_lot_tids(g, l) -> tid[]: the addresses of the events of a lot after those that are acked (I7 of 0007_groups).
-- Reads: events, group_holes.
CREATE OR REPLACE FUNCTION @schema@.group_lot_tids(g @schema@.group_state, l @schema@.group_lots) RETURNS tid[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce(array_agg(x.ctid), '{}')
    FROM (SELECT e.ctid FROM @schema@.events AS e
          WHERE e.global_sequence BETWEEN greatest(l.lo, l.at + 1) AND l.hi
            AND (l.is_range OR hashtext(e.stream) & (g.lanes - 1) = l.lot % g.lanes) AND @matches@
            AND NOT EXISTS (SELECT FROM @schema@.group_holes AS h
                            WHERE h.group_id = g.group_id AND e.global_sequence BETWEEN h.first AND h.last)
          ORDER BY e.global_sequence) AS x
$howdah$;

-- group_without_stuck(g, l, INOUT page tid[]) -> page, or NULL
--
-- Leaves out of a page of lot l the events of stuck streams, which wait from now on, and events that are retried by
-- themselves.  NULL: another transaction has such a stream in hand, so that it cannot be told.
-- Reads: events.  Writes, locks: group_retries.
CREATE OR REPLACE FUNCTION @schema@.group_without_stuck(g @schema@.group_state, l @schema@.group_lots, INOUT page tid[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    there  text[];
    held   text[];
BEGIN
    IF NOT g.by_stream THEN
        page := ARRAY(SELECT e.ctid FROM @schema@.events AS e
                      WHERE e.ctid = ANY (page)
                        AND NOT EXISTS (SELECT FROM @schema@.group_retries AS k
                                        WHERE k.group_id = g.group_id AND k.stream IS NULL AND k.sequence = e.global_sequence)
                      ORDER BY e.global_sequence);
        RETURN;
    END IF;
    -- What comes before the event that is tried next is not concerned.
    there := ARRAY(SELECT DISTINCT e.stream FROM @schema@.events AS e, @schema@.group_retries AS k
                   WHERE e.ctid = ANY (page) AND k.group_id = g.group_id AND k.stream = e.stream || ''
                     AND e.global_sequence + 0 >= k.sequence);
    IF there = '{}' THEN
        RETURN;
    END IF;
    held := ARRAY(SELECT k.stream FROM @schema@.group_retries AS k
                  WHERE k.group_id = g.group_id AND k.stream = ANY (there) ORDER BY k.stream FOR UPDATE SKIP LOCKED);
    -- All or none: what is told to wait has to leave the lot.
    IF (SELECT count(*) FROM @schema@.group_retries AS k WHERE k.group_id = g.group_id AND k.stream = ANY (there))
       > cardinality(held) THEN
        page := NULL;
        RETURN;
    END IF;
    UPDATE @schema@.group_retries AS k
    SET upto = greatest(k.upto, (SELECT max(e.global_sequence) FROM @schema@.events AS e
                                 WHERE e.ctid = ANY (page) AND e.stream || '' = k.stream))
    WHERE k.group_id = g.group_id AND k.stream = ANY (held);
    page := ARRAY(SELECT e.ctid FROM @schema@.events AS e
                  WHERE e.ctid = ANY (page)
                    AND NOT EXISTS (SELECT FROM @schema@.group_retries AS k
                                    WHERE k.group_id = g.group_id AND k.stream = e.stream || '' AND k.stream = ANY (held)
                                      AND e.global_sequence + 0 >= k.sequence)
                  ORDER BY e.global_sequence);
END
$howdah$;

-- group_take(g, max_count, member, lease_ms, fresh, places) -> group_batch
--
-- Leases the next batch, with the number fresh in its token: of a retry that is due, or of the first lot that is free.  A
-- token of NULL: there is none.  Without places it does not say where the events of a lot are: group_tids() does.
-- A first retry goes before lots.  Later ones do every second time, by the toss of a coin: else a few streams that fail
-- again and again would have all members to themselves.
-- Reads: group_places, events.  Writes: group_lots; see group_take_retry(), group_deal().
-- Locks: the lot; those that others have locked are passed over.
CREATE OR REPLACE FUNCTION @schema@.group_take(
    g @schema@.group_state, max_count integer, member text, lease_ms bigint, fresh bigint, places boolean)
RETURNS @schema@.group_batch
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    first   bigint; -- no lot before this one is left
    after   bigint;
    newest  bigint; -- the first lot of the last deal
    retries boolean;
    late    boolean := false; -- retries come after lots
    dealt   boolean := false;
    l       @schema@.group_lots;
    b       @schema@.group_batch;
    spent   text;
BEGIN
    SELECT k.floor, k.floor - 1, k.deal * g.lanes,
           (SELECT r.retry FROM @schema@.group_retries AS r WHERE r.group_id = k.group_id LIMIT 1) IS NOT NULL
    INTO first, after, newest, retries
    FROM @schema@.group_places AS k WHERE k.group_id = g.group_id ORDER BY k.deal DESC LIMIT 1;
    -- A high bit of the number: up to PostgreSQL 14 the lowest ones of random() take turns.
    IF retries AND (fresh >> 40) % 2 = 1 THEN
        late := NOT EXISTS (SELECT FROM @schema@.group_retries AS k WHERE @is_due@ AND k.attempts < 2)
                AND EXISTS (SELECT FROM @schema@.group_retries AS k WHERE @is_due@);
    END IF;
    IF retries AND NOT late THEN
        b := @schema@.group_take_retry(g, max_count, member, lease_ms, fresh);
        IF b.token IS NOT NULL THEN
            RETURN b;
        END IF;
    END IF;
    LOOP
        -- Materialized: where it were run for each row, it would lock another lot each time.
        WITH c AS MATERIALIZED (
            SELECT f.lot, CASE WHEN f.taken > 0 OR f.careful > f.pos THEN 1 ELSE least(max_count, f.n - f.pos) END AS take
            FROM @schema@.group_lots AS f
            WHERE f.group_id = g.group_id AND f.lot > after AND f.until < clock_timestamp()
              AND (SELECT q.lot FROM @schema@.group_lots AS q WHERE q.group_id = g.group_id AND q.lot = f.prev) IS NULL
              AND NOT (f.gate AND EXISTS (SELECT FROM @schema@.group_lots AS q
                                          WHERE q.group_id = g.group_id AND q.lot >= first AND q.lot < f.lot
                                            AND q.lot % g.lanes = f.lot % g.lanes))
            ORDER BY f.lot LIMIT 1 FOR UPDATE SKIP LOCKED
        )
        UPDATE @schema@.group_lots AS k
        SET until = clock_timestamp() + lease_ms * interval '1 millisecond',
            attempts = 1 + CASE WHEN k.taken > 1 AND g.max_retries = 0 THEN 0 ELSE k.attempts END,
            token = fresh, member = group_take.member, taken_at = clock_timestamp(),
            careful = CASE WHEN k.taken > 0 THEN greatest(k.careful, k.pos + k.taken) ELSE k.careful END,
            taken = c.take,
            last = CASE WHEN k.pos + c.take >= k.n THEN k.hi
                        ELSE coalesce((SELECT e.global_sequence FROM @schema@.events AS e
                                       WHERE e.ctid = k.tids[k.pos + c.take]), 0) END
        FROM c
        WHERE k.group_id = g.group_id AND k.lot = c.lot
        RETURNING k.* INTO l;
        IF l.lot IS NULL AND late AND NOT dealt THEN
            dealt := true;
            PERFORM @schema@.group_deal(g, 225); -- they come after what is not dealt yet, too
            CONTINUE;
        ELSIF l.lot IS NULL THEN
            RETURN CASE WHEN late THEN @schema@.group_take_retry(g, max_count, member, lease_ms, fresh) END;
        END IF;
        IF l.tids IS NULL OR l.last = 0 THEN
            l.tids := @schema@.group_lot_tids(g, l);
            l.careful := CASE WHEN l.careful > l.pos THEN least(l.careful - l.pos, cardinality(l.tids)) ELSE 0 END;
            l.pos := 0;
            l.n := cardinality(l.tids);
            l.taken := CASE WHEN l.careful > 0 THEN 1 ELSE least(max_count, l.n) END;
            l.last := CASE WHEN l.taken >= l.n THEN l.hi -- an empty lot ends here
                           ELSE (SELECT e.global_sequence FROM @schema@.events AS e WHERE e.ctid = l.tids[l.taken]) END;
            UPDATE @schema@.group_lots AS k
            SET tids = l.tids, n = l.n, pos = 0, careful = l.careful, taken = l.taken, last = l.last
            WHERE k.group_id = g.group_id AND k.lot = l.lot;
        END IF;
        b.n := l.taken;
        b.lo := greatest(l.lo, l.at + 1);
        b.hi := l.last;
        IF l.careful > l.pos AND l.attempts > g.max_retries + 1 THEN
            spent := @schema@.group_spent(g, l, b.hi);
            IF spent = 'halted' THEN
                RETURN NULL;
            END IF;
            CONTINUE;
        END IF;
        -- Asked now, not before: a stream of this lane can have got stuck until the lot before was acked.
        IF EXISTS (SELECT FROM @schema@.group_retries AS k WHERE k.group_id = g.group_id) THEN
            b.tids := @schema@.group_without_stuck(g, l, l.tids[l.pos + 1 : l.pos + l.taken]);
            b.n := cardinality(b.tids);
        ELSIF places THEN
            b.tids := l.tids[l.pos + 1 : l.pos + l.taken];
        END IF;
        IF b.n BETWEEN 1 AND l.taken - 1 THEN
            -- Those that wait from now on leave the lot: else they would come once more if this member died.
            UPDATE @schema@.group_lots AS k
            SET tids = l.tids[1 : l.pos] || b.tids || l.tids[l.pos + l.taken + 1 : l.n], taken = b.n, n = l.n - l.taken + b.n
            WHERE k.group_id = g.group_id AND k.lot = l.lot;
        END IF;
        IF b.n > 0 THEN
            b.token := 'l' || l.lot || '-' || l.token;
            b.attempt := l.attempts;
            b.is_last := l.lot >= newest AND l.pos = 0;
            RETURN b;
        ELSIF b.n IS NULL THEN
            -- Not to be had now: as if it had not been taken.
            UPDATE @schema@.group_lots AS k
            SET until = '-infinity', attempts = k.attempts - 1, taken = 0, token = 0
            WHERE k.group_id = g.group_id AND k.lot = l.lot;
            after := l.lot;
        ELSE
            PERFORM @schema@.group_lot_ack(g, l.lot, l.token, b.hi);
        END IF;
    END LOOP;
END
$howdah$;

-- group_spent(g, l, seq bigint) -> text
--
-- The one event of a page has ended the lease of each member that had it, as often as it may be tried: it fails for
-- good (see group_fail()), and the lot goes on after it.  Where its stream is stuck before it, it waits as others do, and
-- has its tries when it is its turn.
-- Writes: group_lots, group_retries; see group_fail().
CREATE OR REPLACE FUNCTION @schema@.group_spent(g @schema@.group_state, l @schema@.group_lots, seq bigint) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    r       @schema@.group_retries;
    outcome text;
    victim  record;
BEGIN
    SELECT e.global_sequence AS seq, CASE WHEN g.by_stream THEN e.stream END AS stream INTO victim
    FROM @schema@.events AS e WHERE e.ctid = l.tids[l.pos + 1];
    IF FOUND THEN
        SELECT k.* INTO r FROM @schema@.group_retries AS k
        WHERE k.group_id = g.group_id AND (k.stream = victim.stream OR victim.stream IS NULL AND k.sequence = victim.seq)
        FOR UPDATE;
        IF r.retry IS NULL OR victim.seq < r.sequence THEN
            outcome := @schema@.group_fail(g, victim.seq, victim.stream, victim.seq, l.attempts - 1,
                                           format('the lease ran out, after %s tries', l.attempts - 1), NULL, r);
        ELSE
            UPDATE @schema@.group_retries AS k SET upto = greatest(k.upto, victim.seq)
            WHERE k.group_id = r.group_id AND k.retry = r.retry;
        END IF;
    END IF;
    PERFORM @schema@.group_lot_ack(g, l.lot, l.token, seq);
    RETURN outcome;
END
$howdah$;

-- group_take_new(g, max_count, member, lease_ms, fresh, places) -> group_batch
--
-- The short way of members that keep up: nothing is left in lots, and the log has a few new events, without gaps, or
-- none.  They are dealt, and those of the first one's lane are leased at once.  A token of NULL and n = 0: there is nothing
-- to do.  n = NULL: it is not that simple, and group_take() and group_deal() have to look.
-- Reads: groups, group_holes, group_retries, dead_letters, events.  Writes: group_lots, group_places.
-- Locks: the row of the group, as group_deal() does; when somebody else has it, it is not that simple.
CREATE OR REPLACE FUNCTION @schema@.group_take_new(
    g @schema@.group_state, max_count integer, member text, lease_ms bigint, fresh bigint, places boolean)
RETURNS @schema@.group_batch
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    few  constant integer := 8;
    p    record;
    f    record; -- the events: numbers, places and lanes; those that do not match have no lane
    seqs bigint[]; -- of one lane
    tids tid[];
    n    integer;
    lot  bigint;
    b    @schema@.group_batch;
BEGIN
    SELECT k.deal, k.high, (SELECT v.global_sequence FROM @schema@.events AS v WHERE v.global_sequence > k.high
                            ORDER BY v.global_sequence LIMIT 1) AS next
    INTO p
    FROM (SELECT q.deal, q.high, q.floor FROM @schema@.group_places AS q WHERE q.group_id = g.group_id
          ORDER BY q.deal DESC LIMIT 1) AS k
    WHERE (SELECT l.lot FROM @schema@.group_lots AS l WHERE l.group_id = g.group_id AND l.lot >= k.floor LIMIT 1) IS NULL
      AND (SELECT r.retry FROM @schema@.group_retries AS r WHERE r.group_id = g.group_id LIMIT 1) IS NULL
      AND (SELECT h.first FROM @schema@.group_holes AS h WHERE h.group_id = g.group_id LIMIT 1) IS NULL
      AND (SELECT d.id FROM @schema@.dead_letters AS d WHERE d.state = 'redrive' AND d.subscriber_id = g.subscriber_id LIMIT 1) IS NULL
      AND (SELECT x.reserved FROM @schema@.groups AS x WHERE x.group_id = g.group_id) = 0;
    IF NOT FOUND OR p.next > p.high + 1 THEN
        RETURN NULL;
    ELSIF p.next IS NULL THEN
        b.n := 0;
        RETURN b;
    END IF;
    PERFORM FROM @schema@.groups AS k WHERE k.group_id = g.group_id AND k.reserved = 0 FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    PERFORM pg_try_advisory_xact_lock(@groups_text@::regclass::oid::integer, g.group_id);
    -- After the lock: a purge, which waits for it, moves rows.
    SELECT array_agg(x.seq) AS seqs, array_agg(x.at) AS tids, array_agg(x.lane) AS lanes INTO f
    FROM (SELECT e.global_sequence AS seq, e.ctid AS at, CASE WHEN @matches@ THEN hashtext(e.stream) & (g.lanes - 1) END AS lane
          FROM @schema@.events AS e WHERE e.global_sequence > p.high ORDER BY e.global_sequence LIMIT few + 1) AS x;
    IF f.seqs IS NULL OR cardinality(f.seqs) > few OR f.seqs[cardinality(f.seqs)] <> p.high + cardinality(f.seqs) THEN
        RETURN NULL;
    END IF;
    -- Whoever has dealt in between has replaced it.  (REPEATABLE READ: 40001.)
    DELETE FROM @schema@.group_places AS k WHERE k.group_id = g.group_id AND k.deal = p.deal;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    INSERT INTO @schema@.group_places (group_id, deal, high, floor)
    VALUES (g.group_id, p.deal + 1, p.high + cardinality(f.seqs), (p.deal + 1) * g.lanes);
    b.n := 0;
    -- A statement for each lane: most often there is one event, and a plan that sorted them out would take longer.
    FOR i IN 1 .. cardinality(f.seqs) LOOP
        CONTINUE WHEN f.lanes[i] IS NULL OR f.lanes[i] = ANY (f.lanes[1 : i - 1]);
        seqs := '{}';
        tids := '{}';
        FOR j IN i .. cardinality(f.seqs) LOOP
            IF f.lanes[j] = f.lanes[i] THEN
                seqs := seqs || f.seqs[j];
                tids := tids || f.tids[j];
            END IF;
        END LOOP;
        n := cardinality(seqs);
        lot := (p.deal + 1) * g.lanes + f.lanes[i];
        IF b.n > 0 THEN
            INSERT INTO @schema@.group_lots (group_id, lot, n, lo, hi, tids) VALUES (g.group_id, lot, n, seqs[1], seqs[n], tids);
        ELSE
            b.n := least(max_count, n);
            b.token := 'l' || lot || '-' || fresh;
            b.attempt := 1;
            b.lo := seqs[1];
            b.hi := seqs[b.n];
            b.tids := CASE WHEN places THEN tids[1 : b.n] END;
            INSERT INTO @schema@.group_lots (group_id, lot, n, lo, hi, tids, taken, last, attempts, token, until, taken_at, member)
            VALUES (g.group_id, lot, n, b.lo, seqs[n], tids, b.n, b.hi, 1, fresh,
                    clock_timestamp() + lease_ms * interval '1 millisecond', clock_timestamp(), group_take_new.member);
        END IF;
    END LOOP;
    RETURN b;
END
$howdah$;

-- group_adopt(g) -> group_state
--
-- The group goes to the place of its subscription's row, and takes it from whoever might run it alone (I9 of 0007_groups).
-- Errors: UH003 a process runs it.
-- Writes: subscriptions, groups; see group_place().
CREATE OR REPLACE FUNCTION @schema@.group_adopt(INOUT g @schema@.group_state)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    s @schema@.subscriptions;
BEGIN
    PERFORM FROM @schema@.groups AS k WHERE k.group_id = g.group_id FOR NO KEY UPDATE;
    SELECT k.* INTO s FROM @schema@.subscriptions AS k WHERE k.subscriber_id = g.subscriber_id FOR UPDATE;
    IF s.lease_until IS DISTINCT FROM 'infinity' AND NOT @schema@.subscription_is_free(s) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH003', MESSAGE = format('a process runs the subscription %s', g.subscriber_id),
            HINT = 'stop it first: only a subscription that nobody runs can be shared';
    END IF;
    IF s.lease_until IS DISTINCT FROM 'infinity' THEN
        -- Whoever ran it, and has not heard of it yet, does not go on beside the members.
        s.token := greatest(s.token + 1, nextval(@token_text@::regclass));
    END IF;
    IF s.token <> (SELECT k.token FROM @schema@.groups AS k WHERE k.group_id = g.group_id) OR s.lease_until IS DISTINCT FROM 'infinity' THEN
        PERFORM @schema@.group_place(g, s.high, s.outstanding || ARRAY(
            SELECT least(s.still[i], s.high) FROM generate_series(1, cardinality(s.still)) AS i
            WHERE s.still[i - 1 + i % 2] <= s.high));
        UPDATE @schema@.groups AS k SET token = s.token WHERE k.group_id = g.group_id;
        UPDATE @schema@.subscriptions AS k SET token = s.token, owner = '(shared)', lease_until = 'infinity'
        WHERE k.subscriber_id = g.subscriber_id;
    END IF;
    g := @schema@.group_of(g.subscriber_id);
END
$howdah$;

-- group_fetch(subscriber, max_count, member, lease, acked, process, fence) -> group_batch
--
-- What fetch() does, but for reading the events: that takes a later statement, which sees all that was dealt.  process
-- is the caller's (see group_reserve()); 0: any.  fence: the number in the batch's token, which the caller has drawn at
-- random; then it is not told where the events of a lot are, and asks group_tids().  0: none is given.
-- Errors, reads, writes: see fetch().
CREATE OR REPLACE FUNCTION @schema@.group_fetch(
    subscriber text, max_count integer, member text, lease interval, acked text, process bigint DEFAULT 0, fence bigint DEFAULT 0)
RETURNS @schema@.group_batch
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    places   constant boolean := fence = 0;
    fresh    constant bigint := CASE WHEN places THEN @new_token@ ELSE fence END;
    lease_ms constant bigint := extract(epoch FROM lease) * 1000;
    plain    constant boolean := coalesce(acked ~ '^l[0-9]{1,18}-[1-9][0-9]{0,17}$', false); -- the token of a lot's batch
    acked_lot constant bigint := CASE WHEN plain THEN substr(split_part(acked, '-', 1), 2)::bigint END;
    acked_fence constant bigint := CASE WHEN plain THEN split_part(acked, '-', 2)::bigint END;
    g        @schema@.group_state;
    b        @schema@.group_batch;
    is_acked boolean := acked IS NULL;
    quick    boolean := false; -- the acked batch has taken less than 250 us an event
    per_lane integer;
BEGIN
    IF max_count IS NULL OR max_count < 1 OR max_count > 10000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'max_count: must be 1 to 10000';
    END IF;
    IF lease_ms IS NULL OR lease_ms < 1 OR lease_ms > 86400000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'lease: must be 1 ms to 24 hours';
    END IF;
    IF octet_length(member) > 255 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006',
            MESSAGE = format('member: must have at most 255 bytes, in %s bytes', octet_length(member));
    END IF;
    IF fence IS NULL OR fence < 0 OR fence > 999999999999999999 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'fence: must be 0 to 999999999999999999';
    END IF;
    -- The usual way of small batches: one statement acks a batch and leases the next one of the same lot.  Whatever
    -- needs care finds no row here, and goes the long way.  (Conditions on the group: see group_of().)
    IF plain THEN
        UPDATE @schema@.group_lots AS k
        SET at = k.last, pos = k.pos + k.taken, taken = least(max_count, k.n - k.pos - k.taken), attempts = 1, token = fresh,
            until = clock_timestamp() + lease, taken_at = clock_timestamp(), member = group_fetch.member,
            last = CASE WHEN k.pos + k.taken + max_count >= k.n THEN k.hi
                        ELSE coalesce((SELECT e.global_sequence FROM @schema@.events AS e
                                       WHERE e.ctid = k.tids[k.pos + k.taken + max_count]), 0) END
        -- A subquery: the group is looked up first, whatever the server believes of the tables.
        WHERE k.group_id = (SELECT f.group_id FROM @schema@.groups AS f, @schema@.subscriptions AS s
                            WHERE f.subscriber_id = subscriber AND s.subscriber_id = subscriber AND s.status = 'active'
                              AND s.token = f.token AND s.lease_until = 'infinity'
                              AND f.file_node = pg_relation_filenode(@events_text@::regclass)
                              AND f.mark = (SELECT m.xmin::text FROM @schema@.group_marks AS m WHERE m.group_id = f.group_id)
                              AND (SELECT r.retry FROM @schema@.group_retries AS r WHERE r.group_id = f.group_id LIMIT 1) IS NULL)
          AND k.lot = acked_lot AND k.token = acked_fence
          AND k.pos + k.taken < k.n AND k.careful <= k.pos + k.taken AND k.tids IS NOT NULL
        RETURNING 'l' || k.lot || '-' || fresh, 1, CASE WHEN places THEN k.tids[k.pos + 1 : k.pos + k.taken] END, k.at + 1,
                  k.last, false, k.taken, true
        INTO b;
        -- Asked once more, now that the lot is ours: whoever nacked an event of it in another session may have been first.
        IF b.hi > 0 AND NOT EXISTS (SELECT FROM @schema@.group_retries AS r
                                    WHERE r.group_id = (SELECT f.group_id FROM @schema@.groups AS f WHERE f.subscriber_id = subscriber)) THEN
            RETURN b;
        END IF;
        -- Acked; but something needs care: group_take() leaves out what waits, and makes the lot anew where no event is
        -- where the last one of the next batch should be.
        is_acked := b.token IS NOT NULL;
    END IF;
    g := @schema@.group_of(subscriber);
    IF NOT g.sound THEN
        g := @schema@.group_mend(g);
    END IF;
    IF NOT g.in_place THEN
        g := @schema@.group_adopt(g);
    END IF;
    g.process := process;
    IF b.token IS NOT NULL THEN
        UPDATE @schema@.group_lots AS k SET until = '-infinity', attempts = 0, taken = 0, token = 0
        WHERE k.group_id = g.group_id AND k.lot = acked_lot AND k.token = fresh;
    ELSIF plain THEN
        -- What group_lot_ack() does first.
        DELETE FROM @schema@.group_lots AS k
        WHERE k.group_id = g.group_id AND k.lot = acked_lot AND k.token = acked_fence AND k.last = k.hi
        RETURNING true, clock_timestamp() - k.taken_at < k.taken * interval '250 microseconds' INTO is_acked, quick;
    END IF;
    IF is_acked IS NOT TRUE AND NOT @schema@.group_ack(g, acked, NULL) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH007', MESSAGE = 'the lease of the batch is lost: another member has its events',
            HINT = 'roll back what was done for it, and fetch again';
    END IF;
    IF g.status <> 'active' THEN
        RETURN NULL;
    END IF;
    IF acked IS NULL THEN
        b := @schema@.group_take_new(g, max_count, member, lease_ms, fresh, places);
        IF b.n IS NOT NULL THEN
            RETURN b;
        END IF;
    END IF;
    b := @schema@.group_take(g, max_count, member, lease_ms, fresh, places);
    IF b.token IS NULL OR b.is_last THEN
        -- A lot has several batches: the next one of the same lot costs a fraction of another lot.  But a lane is one
        -- member's for as long as its lot lasts, so it is long only where members are quick.
        per_lane := CASE WHEN quick AND max_count >= 50 THEN 2000
                         WHEN quick OR g.by_stream AND max_count >= 50 THEN least(greatest(max_count * 9 / 10, 900), 1000)
                         ELSE least(greatest(max_count * 9 / 10, 225), 1000) END;
    END IF;
    IF b.token IS NULL THEN
        IF @schema@.group_deal(g, per_lane) IS NULL THEN
            PERFORM @schema@.group_await_deal(g);
            b := @schema@.group_take(g, max_count, member, lease_ms, fresh, places);
            IF b.token IS NOT NULL THEN
                RETURN b;
            END IF;
            PERFORM @schema@.group_wake_dead_letters(g);
        END IF;
        b := @schema@.group_take(g, max_count, member, lease_ms, fresh, places);
    ELSIF b.is_last THEN
        -- Who finds nothing to take has to wait for whoever deals: so one deal ahead.
        PERFORM @schema@.group_deal(g, per_lane);
    END IF;
    RETURN b;
END
$howdah$;

-- group_tids(subscriber text, fence bigint, ahead integer) -> tid[]
--
-- Where the events of the batch are that a member has taken from a lot, with this number in its token, and those of the lot
-- that come after it: so many in all.  Empty: there is no such batch.
-- Reads: groups, group_places, group_lots.
CREATE OR REPLACE FUNCTION @schema@.group_tids(subscriber text, fence bigint, ahead integer) RETURNS tid[]
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
BEGIN
    RETURN coalesce((
        SELECT l.tids[l.pos + 1 : l.pos + greatest(l.taken, ahead)]
        FROM @schema@.groups AS g,
             LATERAL (SELECT p.floor FROM @schema@.group_places AS p WHERE p.group_id = g.group_id ORDER BY p.deal DESC LIMIT 1) AS p,
             @schema@.group_lots AS l
        WHERE g.subscriber_id = subscriber AND l.group_id = g.group_id AND l.lot >= p.floor AND l.token = fence), '{}');
END
$howdah$;

-- group_moved(subscriber text, b) -> boolean
--
-- Some events of a batch were not where they should be.  True: they were purged since the batch was taken, and its lot
-- knows their new places; or others are there, and the lot is made anew.  False: they are gone.
-- Reads: group_lots, events.  Writes: group_lots.
CREATE OR REPLACE FUNCTION @schema@.group_moved(subscriber text, b @schema@.group_batch) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    t constant record := @schema@.group_token_parts(b.token);
BEGIN
    IF t.kind = 'l' AND EXISTS (SELECT FROM @schema@.events AS e
                                WHERE e.ctid = ANY (b.tids) AND e.global_sequence + 0 NOT BETWEEN b.lo AND b.hi) THEN
        UPDATE @schema@.group_lots AS l SET tids = NULL
        WHERE l.group_id = g.group_id AND l.lot = t.number AND l.token = t.fence;
        RETURN true;
    END IF;
    RETURN NOT EXISTS (SELECT FROM @schema@.group_lots AS l
                       WHERE t.kind = 'l' AND l.group_id = g.group_id AND l.lot = t.number AND l.tids @> b.tids);
END
$howdah$;

-- fetch(subscriber, max_count, member, lease, acked) -> token, attempt and the columns of all_events
--
-- Takes the next batch of a shared subscription: up to max_count events, in the order of their numbers, all with
-- the same token.  They are this member's until the lease ends, unless ack(), nack() or extend_lease() is called
-- with the token before.  No rows: there is nothing to do now.
--
--   member  a name for people, as in "howdah sub show"
--   acked   the token of the batch before: acks it first, in the same transaction.  When that token is stale,
--           the call fails with UH007, and nothing has happened.
--
-- attempt is above 1 for events that were taken before.  Commit before you handle the events: only then is the
-- attempt counted, and other members go on meanwhile.  Whoever has nothing to do waits for a notification:
-- LISTEN to channel(type), or to channel() when the pattern has a wildcard, then fetch() once more, then wait.
-- Errors: UH003, UH004, UH006, UH007.
-- Reads: groups, subscriptions, events, dead_letters.  Writes: see group_take(), group_deal().
CREATE OR REPLACE FUNCTION @schema@.fetch(
    subscriber text, max_count integer DEFAULT 100, member text DEFAULT NULL, lease interval DEFAULT '30 seconds',
    acked text DEFAULT NULL)
RETURNS TABLE (token text, attempt integer, global_sequence bigint, id uuid, stream text, version bigint, type text,
               data json, bytes bytea, content_type text, headers json, correlation_id text, causation_id uuid,
               actor text, valid_time timestamptz, recorded_at timestamptz, family uuid, revision integer,
               corrects uuid, reason text, schema_version integer, retracts boolean, purged boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER ROWS 100
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
#variable_conflict use_column
DECLARE
    b @schema@.group_batch := @schema@.group_fetch(subscriber, max_count, member, lease, acked);
    n bigint;
BEGIN
    RETURN QUERY
    SELECT b.token, b.attempt, e.global_sequence, e.id, e.stream::text, e.version::bigint, e.type::text, e.data, e.bytes,
           e.content_type, e.headers, e.correlation_id, e.causation_id, e.actor, coalesce(e.valid_time, e.recorded_at),
           e.recorded_at, coalesce(e.family, e.id), e.revision, e.corrects, e.reason, e.schema_version,
           coalesce(e.retracts, false), e.purge IS NOT NULL
    FROM @schema@.events AS e
    -- + 0: by their places, not by the index of numbers.
    WHERE e.ctid = ANY (b.tids) AND e.global_sequence + 0 BETWEEN b.lo AND b.hi
    ORDER BY e.global_sequence + 0;
    GET DIAGNOSTICS n = ROW_COUNT;
    IF (CASE WHEN n < cardinality(b.tids) THEN @schema@.group_moved(subscriber, b) END) THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE = 'events of the batch were purged while it was taken',
            HINT = 'nothing has happened: fetch again';
    END IF;
END
$howdah$;
