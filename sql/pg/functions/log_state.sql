-- log_here(sequence bigint) -> (log, drawn, id), one row
--
-- Which log this is (cluster and timeline; a promoted standby begins a new timeline; on a standby it ends
-- with "?"), the last number that was drawn, and the id of the event with this number (NULL: there is
-- none).  With this a reader without rights on the tables notices that it is connected to another server
-- now.
-- Reads: events, events_global_sequence_seq.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_here(sequence bigint, OUT log text, OUT drawn bigint, OUT id uuid)
RETURNS record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT s.system_identifier::text || '/'
           || CASE WHEN pg_is_in_recovery() THEN (SELECT c.timeline_id::text || '?' FROM pg_control_checkpoint() AS c)
                   ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int4::text END,
           CASE WHEN q.is_called THEN q.last_value ELSE 0 END,
           (SELECT e.id FROM @schema@.events AS e WHERE e.global_sequence = log_here.sequence)
    FROM @schema@.events_global_sequence_seq AS q, pg_control_system() AS s
$howdah$;

-- log_stored(first bigint, last bigint, max_rows bigint) -> bigint[]
--
-- The numbers of the first max_rows events from first to last, ascending; NULL: there are none.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_stored(first bigint, last bigint, max_rows bigint) RETURNS bigint[]
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET enable_sort = off
AS $howdah$
    SELECT array_agg(e.seq)
    FROM (SELECT e.global_sequence AS seq FROM @schema@.events AS e
          WHERE e.global_sequence BETWEEN log_stored.first AND log_stored.last
          ORDER BY e.global_sequence LIMIT log_stored.max_rows) AS e
$howdah$;

-- log_proven() -> (upto, holes), one row
--
-- What has been proven of the log's numbers: see proven in 0005_places.
-- Reads: proven.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_proven(OUT upto bigint, OUT holes bigint[])
RETURNS record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT k.upto, k.holes FROM @schema@.proven AS k
$howdah$;
