-- schema_version() -> integer
--
-- The number of the last migration step that was applied.  A client without rights on any table checks
-- with it whether it fits the schema.
-- Reads: migrations.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.schema_version() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce(max(m.number), 0) FROM @schema@.migrations AS m
$howdah$;
