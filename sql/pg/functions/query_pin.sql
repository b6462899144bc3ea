-- query_pin() -> bigint[]
--
-- What all pages of an answer as of some time look at, so that they are of one moment: {upto,
-- proven, seen ...} of 0006_pins.
--
-- A number is drawn under a lock on the sequence that lasts until its transaction ends.  The last number
-- drawn is read first, then the locks, then the rows.  If nobody holds the lock, every number up to
-- the last one drawn has its event by now, or never will.  Otherwise the mark in "proven" is used, which
-- subscriptions keep.  A correction after the mark that the last statement does not see may still appear,
-- with a number below others that are seen: it is not part of this answer.
-- Reads: events_global_sequence_seq, pg_locks, proven, events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_pin() RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET enable_seqscan = off
SET enable_bitmapscan = off
AS $howdah$
DECLARE
    here    constant oid := (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());
    numbers constant regclass := @sequence_text@::regclass;
    drawn   bigint;
    proven bigint;
BEGIN
    SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END INTO drawn
    FROM @schema@.events_global_sequence_seq AS q;
    proven := drawn;
    PERFORM FROM pg_locks AS l
    WHERE l.locktype = 'relation' AND l.relation = numbers AND l.database = here
      AND l.mode = 'RowExclusiveLock' AND l.granted;
    IF FOUND OR pg_is_in_recovery() THEN -- a standby does not see the locks
        proven := coalesce((SELECT least(CASE WHEN cardinality(k.holes) > 0 THEN k.holes[1] - 1 ELSE k.upto END, drawn)
                             FROM @schema@.proven AS k), 0);
    END IF;
    -- One statement is one moment.  A few numbers are walked; for many the index on corrections is used.
    IF drawn - proven <= 10000 THEN
        RETURN (SELECT ARRAY[coalesce((SELECT h.global_sequence FROM @schema@.events AS h
                                       ORDER BY h.global_sequence DESC LIMIT 1), 0), proven]
                       || ARRAY(SELECT e.global_sequence FROM @schema@.events AS e
                                WHERE e.global_sequence > proven AND e.corrects IS NOT NULL));
    END IF;
    RETURN (SELECT ARRAY[coalesce((SELECT h.global_sequence FROM @schema@.events AS h
                                   ORDER BY h.global_sequence DESC LIMIT 1), 0), proven]
                   || ARRAY(SELECT e.global_sequence FROM @schema@.events AS e
                            WHERE e.family IS NOT NULL AND e.global_sequence + 0 > proven));
END
$howdah$;
