-- append(stream, type, data, ...) -> (global_sequence, event_id, version, revision, recorded_at, already_stored)
--
-- Appends one event in the caller's transaction.  Works in triggers, savepoints and before
-- PREPARE TRANSACTION.
--
--   expected_version -1 any (default), -2 the stream exists, 0 it has no event, N its last is N
--   id               default: a new UUIDv7.  If the same id is stored with the same content, nothing
--                    is stored again, and the stored position is returned
--   bytes, content_type  instead of data, for a payload that is not JSON (pass data => NULL)
--
-- Errors, reads, writes, locks: see append_arrays().
CREATE OR REPLACE FUNCTION @schema@.append(
    stream text, type text, data json DEFAULT '{}', headers json DEFAULT NULL,
    expected_version bigint DEFAULT -1, id uuid DEFAULT NULL, correlation_id text DEFAULT NULL,
    causation_id uuid DEFAULT NULL, actor text DEFAULT NULL, valid_time timestamptz DEFAULT NULL,
    schema_version integer DEFAULT 1, bytes bytea DEFAULT NULL, content_type text DEFAULT NULL,
    OUT global_sequence bigint, OUT event_id uuid, OUT version bigint, OUT revision integer,
    OUT recorded_at timestamptz, OUT already_stored boolean)
RETURNS record
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT * FROM @schema@.append_arrays(
        ARRAY[id], ARRAY[stream], ARRAY[type], ARRAY[data], ARRAY[headers], ARRAY[correlation_id],
        ARRAY[causation_id], ARRAY[actor], ARRAY[valid_time], ARRAY[schema_version], ARRAY[bytes],
        ARRAY[content_type], ARRAY[expected_version])
$howdah$;
