-- knowledge_of(known_at) -> (known_at, asked_at, final, waits_for), one row
--
-- Whether the knowledge of a moment can still grow.  asked_at is the clock before any lock is looked at.
-- An append first draws a number, and from then on holds a lock on the sequence until its transaction
-- ends, prepared or not.  Only after that does it take the time that is recorded.  So a transaction that is
-- not seen below has ended, and every later statement sees what it did; or it will record a time at or
-- after asked_at.  A transaction that certainly began after known_at cannot record an earlier time either;
-- when a prepared one began is not known.  All of this needs a clock that is not set back, and does not
-- hold for raw INSERTs that set recorded_at themselves.
--
--   final      also false without known_at, for a known_at at or after the clock, on a standby (the lock
--              holders are on another server), and above READ COMMITTED, where the transaction keeps an
--              old snapshot
--   waits_for  the oldest transaction that could still add something; NULL: not known
--
-- Read in the next statement: the statement that calls this has an older snapshot.
-- Reads: the clock, pg_locks, pg_stat_activity, pg_prepared_xacts.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.knowledge_of(
    INOUT known_at timestamptz, OUT asked_at timestamptz, OUT final boolean, OUT waits_for text)
RETURNS record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
DECLARE
    here constant oid := (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database());
    numbers constant regclass := @sequence_text@::regclass;
BEGIN
    asked_at := clock_timestamp();
    final := false;
    IF known_at IS NULL OR known_at >= asked_at OR pg_is_in_recovery()
       OR current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RETURN;
    END IF;
    -- Mostly there is no holder, and that is quick to see.
    PERFORM FROM pg_locks AS l
    WHERE l.locktype = 'relation' AND l.relation = numbers AND l.database = here
      AND l.mode = 'RowExclusiveLock' AND l.granted;
    IF NOT FOUND THEN
        final := true;
        RETURN;
    END IF;
    WITH l AS MATERIALIZED (SELECT * FROM pg_locks AS x WHERE x.granted)
    SELECT coalesce('pid ' || l.pid, 'prepared ' || p.gid, 'a prepared transaction')
           || coalesce(' of ' || coalesce(a.usename, p.owner), '')
           || coalesce(' (' || nullif(a.application_name, '') || ')', '')
           || coalesce(', open for ' || round(extract(epoch FROM clock_timestamp() - b.since)::numeric, 1) || ' s', '')
    INTO waits_for
    FROM l
    LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
    LEFT JOIN LATERAL (SELECT p.gid, p.owner, p.prepared FROM pg_prepared_xacts AS p
                       JOIN l AS x ON x.transactionid = p.transaction AND x.locktype = 'transactionid'
                       WHERE x.virtualtransaction = l.virtualtransaction LIMIT 1) AS p ON l.pid IS NULL
    CROSS JOIN LATERAL (SELECT coalesce(a.xact_start, p.prepared) AS since) AS b
    WHERE l.locktype = 'relation' AND l.relation = numbers AND l.database = here AND l.mode = 'RowExclusiveLock'
      AND NOT coalesce(a.xact_start > known_at, false)
    ORDER BY b.since LIMIT 1;
    final := NOT FOUND;
END
$howdah$;

-- check_known_at(known_at, field) -> void
--
-- Refuses a known_at in the future: its answer is not known yet.
-- Errors: UH006.  Reads: the clock.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.check_known_at(known_at timestamptz, field text DEFAULT 'known_at') RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF known_at > clock_timestamp() THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = field || ': is in the future';
    END IF;
END
$howdah$;

-- knowledge(known_at) -> (known_at, asked_at, final, waits_for), one row
--
-- How far an answer as of known_at can be relied on: when it is final, the same question has the same
-- answer for ever.  NULL: the present, which is never final.  Call this first, then ask the question in a
-- statement of its own; see knowledge_of().
-- Errors: UH006.  Reads: see knowledge_of().  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.knowledge(
    INOUT known_at timestamptz DEFAULT NULL, OUT asked_at timestamptz, OUT final boolean, OUT waits_for text)
RETURNS record
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_variable
BEGIN
    PERFORM @schema@.check_known_at(known_at);
    SELECT k.asked_at, k.final, k.waits_for INTO asked_at, final, waits_for FROM @schema@.knowledge_of(known_at) AS k;
END
$howdah$;
