-- escape_problem(document text) -> text or NULL
--
-- What is wrong with the \u escapes of a text that json itself has accepted: NUL and unpaired
-- surrogates, which json keeps but neither text nor jsonb can hold.  Strings with a backslash are
-- E'' strings here and below, so that they mean the same whatever standard_conforming_strings says.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.escape_problem(document text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    -- After an escaped backslash a "u" begins no escape, and the halves of a pair are not next to each other.
    escapes text := replace(document, E'\\\\', ' ');
BEGIN
    IF position(E'\\u0000' IN escapes) > 0 THEN
        RETURN E'a NUL (\\u0000) in a string';
    END IF;
    escapes := regexp_replace(escapes,
        E'\\\\u[dD][89abAB][0-9a-fA-F]{2}\\\\u[dD][c-fC-F][0-9a-fA-F]{2}', ' ', 'g');
    IF escapes ~ E'\\\\u[dD][89a-fA-F]' THEN
        RETURN 'an unpaired surrogate';
    END IF;
    RETURN NULL;
END
$howdah$;

-- json_problem(document text, field text) -> text or NULL
--
-- What is wrong with a text that json itself has accepted: the rules of src/engine/rules.c that
-- json does not check.  Brackets inside strings do not count, so strings are emptied first.  Then
-- each round of replace() removes one level of nesting.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.json_problem(document text, field text) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    why      text;
    brackets text;
BEGIN
    IF position(E'\\u' IN document) > 0 THEN
        why := @schema@.escape_problem(document);
    END IF;
    IF why IS NOT NULL THEN
        RETURN format('%s: not valid JSON, %s bytes: %s', field, octet_length(document), why);
    END IF;
    IF length(document) - length(translate(document, '[{', '')) > 64 THEN
        brackets := translate(
            regexp_replace(regexp_replace(document, E'"([^"\\\\]|\\\\.)*"', '', 'g'),
                           '[^][{}]+', '', 'g'),
            '{}', '[]');
        FOR level IN 1..64 LOOP
            EXIT WHEN brackets = '';
            brackets := replace(brackets, '[]', '');
        END LOOP;
        IF brackets <> '' THEN
            RETURN format('%s: nested deeper than 64, %s bytes', field, octet_length(document));
        END IF;
    END IF;
    RETURN NULL;
END
$howdah$;

-- name_problem(value text, field text, bytes_max integer) -> text or NULL
--
-- 1..bytes_max bytes, no control characters.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.name_problem(value text, field text, bytes_max integer)
RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE
        WHEN value IS NULL THEN NULL
        WHEN octet_length(value) NOT BETWEEN 1 AND bytes_max
            THEN format('%s: must be 1 to %s bytes, got %s', field, bytes_max, octet_length(value))
        WHEN value ~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
            THEN format('%s: has a control character, in %s bytes', field, octet_length(value))
    END
$howdah$;

-- event_problem(...) -> text or NULL
--
-- The verdict on one event, the same as that of the library (src/engine/rules.c), in the same
-- order: NULL when it may be stored, else a sentence with the field, the rule and the value's
-- length.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.event_problem(
    stream text, type text, data json, headers json, correlation_id text, actor text,
    valid_time timestamptz, schema_version integer, bytes bytea, content_type text,
    payload_max integer)
RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    problem text;
BEGIN
    problem := @schema@.name_problem(coalesce(stream, ''), 'stream', 255);
    IF problem IS NOT NULL THEN
        RETURN problem;
    END IF;
    IF octet_length(coalesce(type, '')) NOT BETWEEN 1 AND 255 THEN
        RETURN format('type: must be 1 to 255 bytes, got %s', octet_length(coalesce(type, '')));
    END IF;
    IF type COLLATE "C" !~ '^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+){0,31}$' THEN
        RETURN format('type: must be 1 to 32 segments of A-Z a-z 0-9 _ - joined by dots, in %s bytes',
                      octet_length(type));
    END IF;
    IF content_type IS NULL THEN
        IF data IS NULL OR bytes IS NOT NULL THEN
            RETURN 'data: must be JSON, or bytes with a content type';
        END IF;
        IF octet_length(data::text) > payload_max THEN
            RETURN format('data: must be at most %s bytes, got %s', payload_max, octet_length(data::text));
        END IF;
        problem := @schema@.json_problem(data::text, 'data');
        IF problem IS NOT NULL THEN
            RETURN problem;
        END IF;
    ELSIF bytes IS NULL OR data IS NOT NULL THEN
        RETURN 'data: a content type needs bytes and no JSON';
    ELSIF octet_length(content_type) NOT BETWEEN 3 AND 255 OR content_type COLLATE "C" !~ '^[ -~]+/[ -~]+$' THEN
        RETURN format('content_type: must be 3 to 255 printable bytes with a / inside, got %s',
                      octet_length(content_type));
    ELSIF octet_length(bytes) > payload_max THEN
        RETURN format('data: must be at most %s bytes, got %s', payload_max, octet_length(bytes));
    END IF;
    -- A call costs more than the test whether it is needed.
    problem := CASE WHEN headers IS NOT NULL THEN @schema@.headers_problem(headers) END;
    IF problem IS NULL AND correlation_id IS NOT NULL THEN
        problem := @schema@.name_problem(correlation_id, 'correlation_id', 255);
    END IF;
    IF problem IS NULL AND actor IS NOT NULL THEN
        problem := @schema@.name_problem(actor, 'actor', 255);
    END IF;
    IF problem IS NOT NULL THEN
        RETURN problem;
    END IF;
    IF valid_time IS NOT NULL
       AND NOT (valid_time >= '0001-01-01 00:00:00+00' AND valid_time < '10000-01-01 00:00:00+00') THEN
        RETURN 'valid_time: must be within the years 1 to 9999';
    END IF;
    IF schema_version IS NULL OR schema_version < 1 THEN
        RETURN 'schema_version: must be 1 to 2147483647';
    END IF;
    RETURN NULL;
END
$howdah$;

-- headers_problem(headers json) -> text or NULL
--
-- An object whose values are strings, names of 1..255 bytes, 64 KiB in all.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.headers_problem(headers json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    problem text;
    member  record;
BEGIN
    IF headers IS NULL THEN
        RETURN NULL;
    END IF;
    IF octet_length(headers::text) > 65536 THEN
        RETURN format('headers: must be at most 65536 bytes, got %s', octet_length(headers::text));
    END IF;
    IF json_typeof(headers) <> 'object' THEN
        RETURN format('headers: must be a JSON object of strings, got %s bytes', octet_length(headers::text));
    END IF;
    problem := @schema@.json_problem(headers::text, 'headers');
    IF problem IS NOT NULL THEN
        RETURN problem;
    END IF;
    FOR member IN SELECT m.key, json_typeof(m.value) AS kind FROM json_each(headers) AS m LOOP
        IF member.kind <> 'string' THEN
            RETURN format('headers: every value must be a string, in %s bytes', octet_length(headers::text));
        END IF;
        problem := @schema@.name_problem(member.key, 'headers', 255);
        IF problem IS NOT NULL THEN
            RETURN problem;
        END IF;
    END LOOP;
    RETURN NULL;
END
$howdah$;
