-- log_look(every_ms integer) -> (drawn, lows, untils), one row
--
-- Which missing numbers can still get an event.  In every statement after this one, a number up to drawn that has
-- no event will never have one, unless it is above lows[i] and not above untils[i] for some i.
--
-- Whoever draws a number holds a lock on the log's sequence until its transaction ends, prepared or not.  So the
-- numbers drawn are read first, then the holders.  A holder that was not there at the look before has drawn nothing
-- up to what had been drawn before that look (its low).  One that has been idle since the look before has drawn
-- nothing since (its until).  PREPARE TRANSACTION changes the name of a holder, so a prepared one that is new may be
-- any of those that were there.  src/engine/hole_holders.h says the same at more length.
--
-- A look takes about a millisecond and is stored, so that all sessions share it: it is taken when the last one is
-- older than every_ms.  A transaction with one snapshot (REPEATABLE READ, SERIALIZABLE) takes none, because its
-- snapshot would be older: what it can see of the stored one was stored before its snapshot, so that one holds.
-- Reads: events_global_sequence_seq, pg_locks, pg_stat_activity.  Writes: looks.  Locks: the row of looks, without waiting.
CREATE OR REPLACE FUNCTION @schema@.log_look(
    every_ms integer, OUT drawn bigint, OUT lows bigint[], OUT untils bigint[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    top    constant bigint := 9223372036854775807;
    before @schema@.looks;
    names  text[];
    stamps bigint[];
    free   boolean;
BEGIN
    SELECT k.* INTO before FROM @schema@.looks AS k;
    IF clock_timestamp() < before.looked_at + every_ms * interval '1 millisecond'
       OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        drawn := before.drawn;
        lows := before.lows;
        untils := before.untils;
        RETURN;
    END IF;
    -- Somebody who looks at the same time, or did in a transaction that is still open, stores; we do not wait.
    PERFORM FROM @schema@.looks AS k FOR UPDATE SKIP LOCKED;
    free := FOUND;
    SELECT k.* INTO before FROM @schema@.looks AS k;
    SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END INTO drawn
    FROM @schema@.events_global_sequence_seq AS q;
    -- In a statement of its own, after the numbers were read.
    WITH h AS MATERIALIZED (
        SELECT l.virtualtransaction AS name, l.pid,
               (SELECT (extract(epoch FROM a.state_change) * 1000000)::bigint
                FROM pg_stat_get_activity(l.pid) AS a WHERE a.state = 'idle in transaction') AS idle
        FROM pg_locks AS l
        WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted
          AND l.relation = @sequence_text@::regclass
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    ), k AS MATERIALIZED (
        SELECT h.name, CASE WHEN h.pid IS NULL THEN 0 ELSE h.idle END AS idle, b.low, b.until,
               b.idle AS idle_before, h.pid IS NULL AS prepared
        FROM h LEFT JOIN unnest(before.holders, before.lows, before.untils, before.idles) AS b(name, low, until, idle)
            ON b.name = h.name
    )
    SELECT coalesce(array_agg(k.name), '{}'), coalesce(array_agg(k.idle), '{}'),
           coalesce(array_agg(CASE WHEN k.low IS NOT NULL THEN k.low
                                   WHEN k.prepared THEN least(before.drawn, (SELECT min(u.low) FROM unnest(before.lows) AS u(low)))
                                   ELSE before.drawn END), '{}'),
           coalesce(array_agg(CASE WHEN k.idle IS NOT NULL AND k.idle = k.idle_before THEN least(k.until, log_look.drawn)
                                   ELSE top END), '{}')
    INTO names, stamps, lows, untils
    FROM k;
    UPDATE @schema@.looks AS k
    SET drawn = log_look.drawn, looked_at = clock_timestamp(), holders = names, lows = log_look.lows,
        untils = log_look.untils, idles = stamps
    WHERE free;
END
$howdah$;

-- log_alive(first bigint, last bigint, drawn bigint, lows bigint[], untils bigint[]) -> rows of (first, last)
--
-- The parts of a range of missing numbers that can still get events, by what log_look() has told.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_alive(first bigint, last bigint, drawn bigint, lows bigint[], untils bigint[])
RETURNS TABLE (low bigint, high bigint)
LANGUAGE sql IMMUTABLE ROWS 1
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT min(i.low), max(i.high)
    FROM (SELECT p.low, p.high, count(*) FILTER (WHERE p.low > p.reached + 1) OVER (ORDER BY p.low, p.high) AS island
          FROM (SELECT c.low, c.high,
                       max(c.high) OVER (ORDER BY c.low, c.high ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
                FROM (SELECT greatest(log_alive.first, h.low + 1) AS low, least(log_alive.last, h.until) AS high
                      FROM (SELECT u.low, u.until FROM unnest(log_alive.lows, log_alive.untils) AS u(low, until)
                            UNION ALL SELECT log_alive.drawn, 9223372036854775807) AS h) AS c
                WHERE c.low <= c.high) AS p) AS i
    GROUP BY i.island ORDER BY 1
$howdah$;
