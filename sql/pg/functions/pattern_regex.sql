-- pattern_type(pattern text) -> text
--
-- A pattern without a wildcard is one type, which has an index: returns it.  NULL: it has a wildcard.
-- The same as hw_pattern_is_exact() in src/engine/pattern.c.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.pattern_type(pattern text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE WHEN pattern !~ '[*>]' THEN pattern END
$howdah$;

-- pattern_regex(pattern text) -> text
--
-- The regular expression of a pattern: "*" is exactly one segment, a trailing ">" one or more.
-- The same as hw_pattern_regex() in src/engine/pattern.c.  Errors: UH006.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.pattern_regex(pattern text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF octet_length(pattern) > 255
       OR pattern COLLATE "C"
          !~ '^(([A-Za-z0-9_-]+|[*])([.]([A-Za-z0-9_-]+|[*])){0,31}|((([A-Za-z0-9_-]+|[*])[.]){0,31}>))$' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006',
            MESSAGE = format('pattern: must be segments of A-Z a-z 0-9 _ - or *, the last may be >, in %s bytes',
                             octet_length(pattern));
    END IF;
    RETURN '^' || replace(replace(replace(pattern, '.', '[.]'), '*', '[^.]+'), '>', '.+') || '$';
END
$howdah$;
