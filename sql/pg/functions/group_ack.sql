-- group_lot_ack(g, of_lot bigint, fence bigint, upto bigint) -> boolean
--
-- Acks the batch of a lot, up to the event with this number; NULL: all of it.  False: the token is stale.
-- Reads: events, when only a part is acked.  Writes: group_lots.
CREATE OR REPLACE FUNCTION @schema@.group_lot_ack(g @schema@.group_state, of_lot bigint, fence bigint, upto bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    l    @schema@.group_lots;
    more integer;
BEGIN
    DELETE FROM @schema@.group_lots AS k
    WHERE k.group_id = g.group_id AND k.lot = of_lot AND k.token = fence AND k.last = k.hi AND (upto IS NULL OR upto >= k.hi);
    IF FOUND THEN
        RETURN true;
    END IF;
    UPDATE @schema@.group_lots AS k
    SET at = k.last, pos = k.pos + k.taken, taken = 0, until = '-infinity', token = 0,
        attempts = CASE WHEN k.pos + k.taken < k.careful AND NOT k.untried AND g.max_retries > 0 THEN 1 ELSE 0 END
    WHERE k.group_id = g.group_id AND k.lot = of_lot AND k.token = fence AND (upto IS NULL OR upto >= k.last);
    IF FOUND OR upto IS NULL THEN
        RETURN FOUND;
    END IF;
    SELECT k.* INTO l FROM @schema@.group_lots AS k
    WHERE k.group_id = g.group_id AND k.lot = of_lot AND k.token = fence FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF l.tids IS NULL OR NOT g.sound THEN
        -- Its rows have moved: nothing is known of the page but its numbers.
        UPDATE @schema@.group_lots AS k SET at = greatest(k.at, upto), tids = NULL
        WHERE k.group_id = g.group_id AND k.lot = of_lot;
        RETURN true;
    END IF;
    SELECT max(t.i) INTO more
    FROM unnest(l.tids[l.pos + 1 : l.pos + l.taken]) WITH ORDINALITY AS t(at, i), @schema@.events AS e
    WHERE e.ctid = t.at AND e.global_sequence <= upto;
    IF coalesce(more, 0) >= l.taken THEN
        -- All of it, though those that have failed were its last.
        RETURN @schema@.group_lot_ack(g, of_lot, fence, NULL);
    END IF;
    UPDATE @schema@.group_lots AS k SET at = upto, pos = k.pos + more, taken = k.taken - more
    WHERE k.group_id = g.group_id AND k.lot = of_lot AND more > 0;
    RETURN true;
END
$howdah$;

-- group_retry_ack(g, of_retry bigint, fence bigint, upto bigint) -> boolean
--
-- The same for a batch of a stuck stream.
-- Writes: group_retries, dead_letters.
CREATE OR REPLACE FUNCTION @schema@.group_retry_ack(g @schema@.group_state, of_retry bigint, fence bigint, upto bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    r    @schema@.group_retries;
    next bigint;
BEGIN
    SELECT k.* INTO r FROM @schema@.group_retries AS k
    WHERE k.group_id = g.group_id AND k.retry = of_retry AND k.token = fence FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF upto < r.sequence THEN
        RETURN true;
    END IF;
    UPDATE @schema@.dead_letters AS d
    SET state = 'redriven', redrives = d.redrives + 1, retry_count = d.retry_count + 1, last_retry_at = clock_timestamp(),
        resolved_at = clock_timestamp(), resolved_by = r.member
    WHERE d.id = r.dead_letter AND d.state = 'redrive';
    next := CASE WHEN upto < r.last THEN @schema@.group_next(g, r.stream, r.sequence, upto, r.last) END;
    IF next IS NULL THEN
        PERFORM @schema@.group_retry_on(g, r, r.last);
    ELSE
        UPDATE @schema@.group_retries AS k SET sequence = next, dead_letter = NULL
        WHERE k.group_id = g.group_id AND k.retry = of_retry;
    END IF;
    RETURN true;
END
$howdah$;

-- group_token_parts(token text) -> kind, number, fence
--
-- What a token says: kind l and a lot, or kind r and a retry; and the number that the lease has drawn.
-- Errors: UH006.
CREATE OR REPLACE FUNCTION @schema@.group_token_parts(token text, OUT kind text, OUT number bigint, OUT fence bigint)
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF token IS NULL OR token !~ '^[lr][0-9]{1,18}-[1-9][0-9]{0,17}$' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006',
            MESSAGE = format('token: must be one that fetch() has given, in %s bytes', coalesce(octet_length(token), 0));
    END IF;
    kind := left(token, 1);
    number := substr(split_part(token, '-', 1), 2)::bigint;
    fence := split_part(token, '-', 2)::bigint;
END
$howdah$;

-- group_ack(g, token text, upto bigint) -> boolean: what ack() does.
CREATE OR REPLACE FUNCTION @schema@.group_ack(g @schema@.group_state, token text, upto bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    t constant record := @schema@.group_token_parts(token);
BEGIN
    IF NOT g.in_place THEN
        RETURN false; -- it was put elsewhere: the next fetch() gives all batches up
    END IF;
    RETURN CASE t.kind WHEN 'l' THEN @schema@.group_lot_ack(g, t.number, t.fence, upto)
                       ELSE @schema@.group_retry_ack(g, t.number, t.fence, upto) END;
END
$howdah$;

-- ack(subscriber, token, upto) -> boolean
--
-- The events of a batch are handled: all of them, or those up to the number "upto"; the others stay leased.  An event
-- for which nack() was called, and the later ones of its stream, come again nevertheless.
--
-- In the transaction that stores what the events have caused, this makes each effect happen exactly once: false means
-- that the lease is lost and another member has, or had, the events.  Then roll back.
-- Errors: UH003, UH004, UH006.
-- Writes: group_lots, group_retries, dead_letters.
CREATE OR REPLACE FUNCTION @schema@.ack(subscriber text, token text, upto bigint DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
BEGIN
    RETURN @schema@.group_ack(@schema@.group_of(subscriber), token, upto);
END
$howdah$;

-- group_stands(subscriber, token, acked bigint) -> boolean
--
-- For a member that acks the events of a batch one by one, each in the transaction of its effects: whether those up to
-- this number are acked here.  A server that has lost its last moments, or a standby that took over, may know the batch
-- and not that: the effects are lost, too, and must happen again.
-- Errors: UH003, UH004, UH006.
-- Locks: the lot or the retry, as ack() does.
CREATE OR REPLACE FUNCTION @schema@.group_stands(subscriber text, token text, acked bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    t constant record := @schema@.group_token_parts(token);
BEGIN
    IF t.kind = 'l' THEN
        PERFORM FROM @schema@.group_lots AS k
        WHERE k.group_id = g.group_id AND k.lot = t.number AND k.token = t.fence AND k.at >= acked FOR UPDATE;
    ELSE
        PERFORM FROM @schema@.group_retries AS k
        WHERE k.group_id = g.group_id AND k.retry = t.number AND k.token = t.fence AND k.sequence > acked FOR UPDATE;
    END IF;
    RETURN FOUND;
END
$howdah$;

-- group_lot_without(g, l, seq bigint, of_stream text) -> void
--
-- Takes an event that has failed out of the batch of a lot, with the later ones of its stream, which wait: from now on
-- they are group_retries' matter, whether the rest of the batch is acked or given back.  When nothing of it is left, what
-- was counted for the batch is not the next event's: a suspect has its one try, any other none.
-- Reads: events.  Writes: group_lots.
CREATE OR REPLACE FUNCTION @schema@.group_lot_without(g @schema@.group_state, l @schema@.group_lots, seq bigint, of_stream text)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    kept tid[];
BEGIN
    IF l.tids IS NULL OR NOT g.sound THEN
        RETURN; -- nothing is known of the batch but its numbers
    END IF;
    kept := ARRAY(SELECT u.at FROM unnest(l.tids[l.pos + 1 : l.pos + l.taken]) WITH ORDINALITY AS u(at, i)
                  WHERE NOT EXISTS (SELECT FROM @schema@.events AS e
                                    WHERE e.ctid = u.at AND e.global_sequence >= seq
                                      AND (e.global_sequence = seq OR e.stream || '' = of_stream))
                  ORDER BY u.i);
    UPDATE @schema@.group_lots AS k
    SET tids = l.tids[1 : l.pos] || kept || l.tids[l.pos + l.taken + 1 : l.n], taken = cardinality(kept),
        n = l.n - l.taken + cardinality(kept),
        careful = CASE WHEN l.careful > l.pos THEN greatest(l.pos, l.careful - l.taken + cardinality(kept)) ELSE l.careful END,
        attempts = CASE WHEN cardinality(kept) > 0 THEN l.attempts
                        WHEN l.careful > l.pos + l.taken AND NOT l.untried AND g.max_retries > 0 THEN 1 ELSE 0 END
    WHERE k.group_id = g.group_id AND k.lot = l.lot;
END
$howdah$;

-- group_nack(subscriber, token, sequence, error, after_ms) -> text
--
-- What nack() does; the answer says what became of the event: retry, dead (a dead letter, and its stream goes on),
-- held (a dead letter, and its stream waits), halted, waits (an earlier event of its stream has failed as well);
-- lost: the token is stale.
-- Errors: UH003, UH004, UH006.
-- Reads: events.  Writes: group_lots, group_retries, dead_letters, subscriptions.
CREATE OR REPLACE FUNCTION @schema@.group_nack(subscriber text, token text, sequence bigint, error text, after_ms bigint)
RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g      constant @schema@.group_state := @schema@.group_of(subscriber);
    t      constant record := @schema@.group_token_parts(token);
    l      @schema@.group_lots;
    r      @schema@.group_retries;
    failed record;
    outcome text;
BEGIN
    IF sequence IS NULL OR after_ms < 0 OR after_ms > 315360000000 THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = CASE WHEN sequence IS NULL THEN 'global_sequence: must name an event of the batch'
                                                                ELSE 'retry_after: must be 0 ms to 10 years' END;
    END IF;
    IF NOT g.in_place THEN
        RETURN 'lost'; -- it was put elsewhere: the next fetch() gives all batches up
    END IF;
    IF t.kind = 'r' THEN
        SELECT k.* INTO r FROM @schema@.group_retries AS k
        WHERE k.group_id = g.group_id AND k.retry = t.number AND k.token = t.fence FOR UPDATE;
        IF NOT FOUND THEN
            RETURN 'lost';
        ELSIF sequence < r.sequence OR sequence > r.last THEN
            RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format('global_sequence: event %s is not in the batch', sequence);
        END IF;
        -- Those before it in the batch are done.
        IF sequence > r.sequence THEN
            PERFORM @schema@.group_retry_ack(g, t.number, t.fence, sequence - 1);
            SELECT k.* INTO r FROM @schema@.group_retries AS k WHERE k.group_id = g.group_id AND k.retry = t.number;
            r.attempts := 1;
        END IF;
        IF r.dead_letter IS NOT NULL THEN
            -- Another try that a person asked for: the dead letter is as it was, with one attempt more.
            UPDATE @schema@.dead_letters AS d
            SET state = 'dead', redrives = d.redrives + 1, retry_count = r.attempts, error_message = left(error, 500),
                last_retry_at = clock_timestamp()
            WHERE d.id = r.dead_letter AND d.state = 'redrive';
            IF r.stream IS NULL THEN
                DELETE FROM @schema@.group_retries AS k WHERE k.group_id = g.group_id AND k.retry = r.retry;
            ELSE
                UPDATE @schema@.group_retries AS k
                SET due = 'infinity', until = '-infinity', taken = 0, token = 0, error = left(group_nack.error, 500)
                WHERE k.group_id = g.group_id AND k.retry = r.retry;
            END IF;
            RETURN CASE WHEN r.stream IS NULL THEN 'dead' ELSE 'held' END;
        END IF;
        RETURN @schema@.group_fail(g, sequence, r.stream, r.upto, r.attempts, error, after_ms, r);
    END IF;
    SELECT k.* INTO l FROM @schema@.group_lots AS k
    WHERE k.group_id = g.group_id AND k.lot = t.number AND k.token = t.fence FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'lost';
    END IF;
    SELECT e.global_sequence AS seq, CASE WHEN g.by_stream THEN e.stream END AS stream,
           CASE WHEN g.by_stream THEN (SELECT max(x.global_sequence) FROM @schema@.events AS x
                                       WHERE x.ctid = ANY (l.tids[l.pos + 1 : l.pos + l.taken]) AND x.stream || '' = e.stream) END AS upto
    INTO failed FROM @schema@.events AS e
    WHERE e.global_sequence = group_nack.sequence AND e.global_sequence BETWEEN greatest(l.lo, l.at + 1) AND l.last
      AND hashtext(e.stream) & (g.lanes - 1) = l.lot % g.lanes;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = format('global_sequence: event %s is not in the batch', sequence);
    END IF;
    SELECT k.* INTO r FROM @schema@.group_retries AS k
    WHERE k.group_id = g.group_id AND (k.stream = failed.stream OR failed.stream IS NULL AND k.sequence = failed.seq)
    FOR UPDATE;
    IF r.retry IS NOT NULL AND failed.seq >= r.sequence THEN
        RETURN 'waits';
    END IF;
    outcome := @schema@.group_fail(g, failed.seq, failed.stream, coalesce(failed.upto, failed.seq), l.attempts, error, after_ms, r);
    UPDATE @schema@.group_retries AS k SET prior_lot = l.lot, prior = x.seq
    FROM (SELECT max(e.global_sequence) AS seq FROM @schema@.events AS e
          WHERE e.ctid = ANY (l.tids[l.pos + 1 : l.pos + l.taken]) AND e.stream || '' = failed.stream
            AND e.global_sequence + 0 < failed.seq) AS x
    WHERE k.group_id = g.group_id AND k.stream = failed.stream;
    PERFORM @schema@.group_lot_without(g, l, failed.seq, failed.stream);
    RETURN outcome;
END
$howdah$;

-- nack(subscriber, token, global_sequence, error, retry_after) -> boolean
--
-- An event of a batch has failed.  It is tried again after retry_after (NULL: by the subscription's schedule), and
-- the later events of its stream wait: leave out those that are in the same batch.  After the last try it becomes a
-- dead letter (on_fail = open, or hold: then its stream waits for a person), or the subscription halts (closed).
-- The rest of the batch is not concerned: ack() it.  False: the lease is lost, and nothing was changed.
-- Errors: UH003, UH004, UH006.
-- Writes: see group_nack().
CREATE OR REPLACE FUNCTION @schema@.nack(
    subscriber text, token text, global_sequence bigint, error text DEFAULT NULL, retry_after interval DEFAULT NULL)
RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT @schema@.group_nack(subscriber, token, global_sequence, error, (extract(epoch FROM retry_after) * 1000)::bigint) <> 'lost'
$howdah$;

-- extend_lease(subscriber, token, lease) -> boolean
--
-- The batch stays this member's for so long from now.  False: the lease is lost.
-- Errors: UH003, UH004, UH006.
-- Writes: group_lots, group_retries.
CREATE OR REPLACE FUNCTION @schema@.extend_lease(subscriber text, token text, lease interval DEFAULT '30 seconds') RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    t constant record := @schema@.group_token_parts(token);
BEGIN
    IF lease IS NULL OR lease < interval '1 millisecond' OR lease > interval '24 hours' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'lease: must be 1 ms to 24 hours';
    END IF;
    IF NOT g.in_place THEN
        RETURN false; -- it was put elsewhere: the next fetch() gives all batches up
    END IF;
    IF t.kind = 'l' THEN
        UPDATE @schema@.group_lots AS k SET until = clock_timestamp() + lease
        WHERE k.group_id = g.group_id AND k.lot = t.number AND k.token = t.fence;
    ELSE
        UPDATE @schema@.group_retries AS k SET until = clock_timestamp() + lease
        WHERE k.group_id = g.group_id AND k.retry = t.number AND k.token = t.fence;
    END IF;
    RETURN FOUND;
END
$howdah$;

-- release_batch(subscriber, token) -> boolean
--
-- The events of the batch that are not acked are free again, at once, and this attempt does not count.  False: the
-- lease is lost.
-- Errors: UH003, UH004, UH006.
-- Writes: group_lots, group_retries.
CREATE OR REPLACE FUNCTION @schema@.release_batch(subscriber text, token text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    t constant record := @schema@.group_token_parts(token);
BEGIN
    IF NOT g.in_place THEN
        RETURN false; -- it was put elsewhere: the next fetch() gives all batches up
    END IF;
    IF t.kind = 'l' THEN
        UPDATE @schema@.group_lots AS k
        SET until = '-infinity', attempts = k.attempts - CASE WHEN k.taken > 0 THEN 1 ELSE 0 END, taken = 0, token = 0
        WHERE k.group_id = g.group_id AND k.lot = t.number AND k.token = t.fence;
    ELSE
        UPDATE @schema@.group_retries AS k
        SET until = '-infinity', attempts = k.attempts - 1, taken = 0, token = 0, last = 0
        WHERE k.group_id = g.group_id AND k.retry = t.number AND k.token = t.fence;
    END IF;
    RETURN FOUND;
END
$howdah$;

-- shorten_batch(subscriber, token, upto) -> boolean
--
-- The batch ends with the event "upto": the later ones are free again when it is acked, and are not counted as tried.
-- For a member that cannot take as much as it got.  False: the lease is lost.
-- Errors: UH003, UH004, UH006.
-- Reads: events.  Writes: group_lots, group_retries.
CREATE OR REPLACE FUNCTION @schema@.shorten_batch(subscriber text, token text, upto bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    g constant @schema@.group_state := @schema@.group_of(subscriber);
    t constant record := @schema@.group_token_parts(token);
BEGIN
    IF NOT g.in_place THEN
        RETURN false; -- it was put elsewhere: the next fetch() gives all batches up
    END IF;
    IF t.kind = 'l' THEN
        UPDATE @schema@.group_lots AS k
        SET taken = x.n, last = upto
        FROM (SELECT l.lot, count(*) AS n
              FROM @schema@.group_lots AS l, unnest(l.tids[l.pos + 1 : l.pos + l.taken]) AS u(at), @schema@.events AS e
              WHERE l.group_id = g.group_id AND l.lot = t.number AND e.ctid = u.at AND e.global_sequence <= upto
              GROUP BY l.lot) AS x
        WHERE k.group_id = g.group_id AND k.lot = x.lot AND k.token = t.fence AND k.last > upto;
        RETURN EXISTS (SELECT FROM @schema@.group_lots AS k
                       WHERE k.group_id = g.group_id AND k.lot = t.number AND k.token = t.fence);
    END IF;
    UPDATE @schema@.group_retries AS k SET last = least(k.last, upto)
    WHERE k.group_id = g.group_id AND k.retry = t.number AND k.token = t.fence AND upto >= k.sequence;
    RETURN FOUND;
END
$howdah$;
