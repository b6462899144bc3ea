-- log_here(sequence bigint) -> (log, drawn, id), one row
--
-- Which log this is (cluster and timeline; a promoted standby begins a new one), the last number that
-- was drawn, and the id of the event with this number, NULL: there is none.  With it a reader without
-- rights on the tables knows when the server under its feet has become another one.
-- Reads: events, events_global_sequence_seq.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_here(sequence bigint, OUT log text, OUT drawn bigint, OUT id uuid)
RETURNS record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT s.system_identifier::text || '/'
           || CASE WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id::text FROM pg_control_checkpoint() AS c)
                   ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4::text END,
           CASE WHEN q.is_called THEN q.last_value ELSE 0 END,
           (SELECT e.id FROM @schema@.events AS e WHERE e.global_sequence = log_here.sequence)
    FROM @schema@.events_global_sequence_seq AS q, pg_control_system() AS s
$howdah$;

-- log_gaps(first bigint, last bigint, max_rows bigint) -> (before, seq) rows
--
-- Of the first max_rows events with numbers from first to last: those with a gap before them, and the
-- number that the gap begins behind; and the last of all, so that it is known how far it went.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_gaps(first bigint, last bigint, max_rows bigint)
RETURNS TABLE (before bigint, seq bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET enable_sort = off
AS $howdah$
    SELECT w.before, w.seq
    FROM (SELECT e.seq, lag(e.seq, 1, log_gaps.first - 1) OVER o AS before, lead(e.seq) OVER o AS behind
          FROM (SELECT e.global_sequence AS seq FROM @schema@.events AS e
                WHERE e.global_sequence BETWEEN log_gaps.first AND log_gaps.last
                ORDER BY e.global_sequence LIMIT log_gaps.max_rows) AS e
          WINDOW o AS (ORDER BY e.seq)) AS w
    WHERE w.seq > w.before + 1 OR w.behind IS NULL
    ORDER BY w.seq
$howdah$;

-- log_settled() -> (upto, holes), one row
--
-- What has been proven of the log's numbers: see settled in 0005_places.
-- Reads: settled.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_settled(OUT upto bigint, OUT holes bigint[])
RETURNS record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT k.upto, k.holes FROM @schema@.settled AS k
$howdah$;
