-- snapshot_store(stream, version, data, schema_version, keep, bytes, content_type) -> bigint
--
-- Stores the state of a stream at one of its versions, as the caller has computed it.  It replaces a
-- snapshot of the same version.  keep > 0: afterwards only the newest "keep" snapshots of the stream are
-- left.  Returns how many were removed.  It is for publishers, like append(): readers trust both.
-- Errors: UH004 (the stream has no such version), UH006.
-- Reads: events, meta.  Writes: snapshots.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.snapshot_store(
    stream text, version bigint, data json, schema_version integer DEFAULT 1, keep bigint DEFAULT 0,
    bytes bytea DEFAULT NULL, content_type text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    problem text := @schema@.event_problem(snapshot_store.stream, 't', snapshot_store.data, NULL, NULL, NULL, NULL,
                                           snapshot_store.schema_version, snapshot_store.bytes,
                                           snapshot_store.content_type, @schema@.library_payload_max());
    n       bigint;
BEGIN
    problem := coalesce(problem, CASE
        WHEN coalesce(snapshot_store.version, 0) < 1 THEN 'version: must be 1 or more'
        WHEN coalesce(keep, 0) < 0 THEN 'keep: must not be negative' END);
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    ELSIF NOT EXISTS (SELECT FROM @schema@.events AS e
                      WHERE e.stream = snapshot_store.stream AND e.version = snapshot_store.version) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH004',
            MESSAGE = format('stream "%s" has no version %s', snapshot_store.stream, snapshot_store.version);
    END IF;
    INSERT INTO @schema@.snapshots (stream, version, schema_version, content_type, data, bytes)
    VALUES (snapshot_store.stream, snapshot_store.version, snapshot_store.schema_version,
            snapshot_store.content_type, snapshot_store.data, snapshot_store.bytes)
    ON CONFLICT (stream, version) DO UPDATE
    SET schema_version = excluded.schema_version, content_type = excluded.content_type, data = excluded.data,
        bytes = excluded.bytes, taken_at = clock_timestamp();
    DELETE FROM @schema@.snapshots AS s
    WHERE keep > 0 AND s.stream = snapshot_store.stream
      AND s.version < (SELECT min(k.version) FROM (SELECT x.version FROM @schema@.snapshots AS x
                                                   WHERE x.stream = snapshot_store.stream
                                                   ORDER BY x.version DESC LIMIT keep) AS k);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$howdah$;

-- snapshot_load(stream, version) -> a row, or none
--
-- The nearest snapshot at or below a version (0: the newest).  Then read the later events with
-- read_stream().
-- Reads: snapshots.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.snapshot_load(stream text, version bigint DEFAULT 0)
RETURNS TABLE (of_stream text, of_version bigint, data json, bytes bytea, content_type text, schema_version integer,
               taken_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT s.stream::text, s.version::bigint, s.data, s.bytes, s.content_type, s.schema_version, s.taken_at
    FROM @schema@.snapshots AS s
    WHERE s.stream = snapshot_load.stream
      AND s.version <= coalesce(nullif(snapshot_load.version, 0), 9223372036854775807)
    ORDER BY s.version DESC LIMIT 1
$howdah$;

-- snapshot_list(stream, after_stream, after_version, max_count) -> rows, by stream and version
--
-- The snapshots of one stream (NULL: of all) after (after_stream, after_version), without their data but
-- with its size in bytes.
-- Reads: snapshots.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.snapshot_list(
    stream text DEFAULT NULL, after_stream text DEFAULT '', after_version bigint DEFAULT 0,
    max_count bigint DEFAULT NULL)
RETURNS TABLE (of_stream text, of_version bigint, data_bytes bigint, content_type text, schema_version integer,
               taken_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT s.stream::text, s.version::bigint, coalesce(octet_length(s.data::text), octet_length(s.bytes))::bigint,
           s.content_type, s.schema_version, s.taken_at
    FROM @schema@.snapshots AS s
    WHERE (snapshot_list.stream IS NULL OR s.stream = snapshot_list.stream)
      AND (s.stream, s.version) > (after_stream, after_version)
    ORDER BY s.stream, s.version LIMIT max_count
$howdah$;

-- snapshot_remove(stream, upto) -> bigint
--
-- Removes the snapshots of a stream up to a version (0: all) and returns how many.
-- Reads, writes: snapshots.  Locks: their rows.
CREATE OR REPLACE FUNCTION @schema@.snapshot_remove(stream text, upto bigint DEFAULT 0) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    n bigint;
BEGIN
    DELETE FROM @schema@.snapshots AS s
    WHERE s.stream = snapshot_remove.stream AND s.version <= coalesce(nullif(upto, 0), 9223372036854775807);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$howdah$;
