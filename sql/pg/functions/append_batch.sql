-- time_of(value text) -> timestamptz or NULL
--
-- RFC 3339 with an offset, years 1 to 9999, as hw_time_parse() in src/base/clock.c reads it: digits
-- after the microsecond are cut off, and there is no leap second.  NULL for anything else.  A cast to
-- timestamptz would accept 'tomorrow', and no offset over 15:59.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.time_of(value text) RETURNS timestamptz
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    p      constant text[] := regexp_match(value COLLATE "C",
        '^([0-9]{4})-(0[1-9]|1[0-2])-([0-9]{2})[Tt]([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])'
        '(?:[.]([0-9]{1,9}))?(?:[Zz]|([+-])([01][0-9]|2[0-3]):([0-5][0-9]))$');
    result timestamptz;
BEGIN
    IF p IS NULL OR p[1] = '0000' OR p[3]::integer < 1
       OR p[3]::integer > extract(day FROM make_date(p[1]::integer, p[2]::integer, 1)
                                           + interval '1 month' - interval '1 day') THEN
        RETURN NULL;
    END IF;
    result := format('%s-%s-%s %s:%s:%s.%s+00', p[1], p[2], p[3], p[4], p[5], p[6],
                     rpad(left(coalesce(p[7], ''), 6), 6, '0'))::timestamptz;
    IF p[8] IS NOT NULL THEN
        result := result + make_interval(hours => p[9]::integer, mins => p[10]::integer)
                           * CASE p[8] WHEN '+' THEN -1 ELSE 1 END;
    END IF;
    RETURN CASE WHEN result >= '0001-01-01 00:00:00+00' AND result < '10000-01-01 00:00:00+00'
                THEN result END;
END
$howdah$;

-- member_problem(key text, value json) -> text or NULL
--
-- Whether a field of an event's JSON object has the right kind and form: NULL if so, else the reason.
-- The same verdict as that of src/face/event_in.c.  A field that is the JSON null counts as absent,
-- except for data.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.member_problem(key text, value json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    kind constant text := json_typeof(value);
    t    constant text COLLATE "C" := value #>> '{}';
BEGIN
    -- Fields that the store sets, in lines that "howdah read" printed, are ignored.
    IF key IN ('data', 'headers', 'global_sequence', 'version', 'recorded_at', 'family', 'revision',
               'retraction', 'final') THEN
        RETURN NULL;
    ELSIF key NOT IN ('stream', 'type', 'id', 'correlation_id', 'causation_id', 'actor', 'valid_time',
                      'schema_version', 'data_base64', 'content_type', 'expect', 'corrects', 'reason', 'purged') THEN
        RETURN format('unknown field with a name of %s bytes', octet_length(key));
    ELSIF kind = 'null' THEN
        RETURN NULL;
    ELSIF key IN ('corrects', 'reason') THEN
        RETURN format('%s: a correction cannot be part of a batch', key);
    ELSIF key = 'purged' THEN
        RETURN CASE WHEN kind = 'boolean' AND t = 'true' THEN 'purged: the payload of this event was erased' END;
    ELSIF key = 'schema_version' THEN
        IF kind <> 'number' OR t !~ '^[0-9]{1,10}$' OR t::bigint NOT BETWEEN 1 AND 2147483647 THEN
            RETURN 'schema_version: must be a whole number, 1 to 2147483647';
        END IF;
    ELSIF key = 'expect' AND (kind = 'number' OR t NOT IN ('any', 'none', 'exists')) THEN
        IF kind NOT IN ('number', 'string') OR t !~ '^-?[0-9]+$'
           OR t::numeric NOT BETWEEN 0 AND 9223372036854775807 THEN
            RETURN 'expect: must be any, none, exists or a version';
        END IF;
    ELSIF kind <> 'string' THEN
        RETURN format('%s: must be a string', key);
    ELSIF key IN ('id', 'causation_id') AND t !~ '^[0-9A-Fa-f]{8}-([0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$' THEN
        RETURN format('%s: not a UUID of 36 characters, %s bytes', key, octet_length(t));
    ELSIF key = 'valid_time' AND @schema@.time_of(t) IS NULL THEN
        RETURN format('valid_time: not a time like 2026-01-31T09:30:00Z, %s bytes', octet_length(t));
    END IF;
    RETURN NULL;
END
$howdah$;

-- members_problem(one json) -> text or NULL
--
-- Whether an event's JSON object is accepted: its fields, and which of them go together.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.members_problem(one json) RETURNS text
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    why          constant text := CASE WHEN position(E'\\u' IN one::text) > 0
                                       THEN @schema@.escape_problem(one::text) END;
    member       record;
    has_data     boolean := false;
    content_type boolean := false;
    base64       text;
BEGIN
    IF json_typeof(one) <> 'object' THEN
        RETURN format('must be a JSON object, got %s bytes of another kind', octet_length(one::text));
    ELSIF why IS NOT NULL THEN
        RETURN format('not valid JSON, %s bytes: %s', octet_length(one::text), why);
    END IF;
    FOR member IN
        SELECT m.key, m.value, @schema@.member_problem(m.key, m.value) AS problem FROM json_each(one) AS m
    LOOP
        IF member.problem IS NOT NULL THEN
            RETURN member.problem;
        END IF;
        has_data := has_data OR member.key = 'data';
        content_type := content_type OR (member.key = 'content_type' AND json_typeof(member.value) = 'string');
        IF member.key = 'data_base64' THEN
            base64 := member.value #>> '{}';
        END IF;
    END LOOP;
    RETURN CASE
        WHEN base64 IS NOT NULL AND NOT content_type THEN 'content_type: data_base64 needs it'
        WHEN base64 IS NULL AND content_type THEN 'data_base64: content_type needs it'
        WHEN base64 IS NOT NULL AND has_data THEN 'data: data and data_base64 exclude each other'
        WHEN base64 COLLATE "C"
             !~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?$'
            THEN format('data_base64: not base64, %s bytes', octet_length(base64)) END;
END
$howdah$;

-- append_batch(events json) -> one row per event, in order
--
-- Appends a JSON array of events, all or none, in the caller's transaction:
--
--   SELECT * FROM howdah.append_batch('[{"stream":"order-7","type":"order.created","data":{"total":12}},
--                                       {"stream":"order-7","type":"order.paid"}]');
--
-- Fields: stream, type, data, headers, id, correlation_id, causation_id, actor, valid_time
-- (RFC 3339), schema_version, data_base64 with content_type instead of data, expect ("any",
-- "none", "exists" or a version).  The text of data is stored unchanged.  What "howdah read" prints for
-- an ordinary event is accepted: global_sequence, version, recorded_at, family, revision, retraction and
-- final are ignored.  Refused with UH006: a correction (corrects or reason is not null; correct() makes
-- one), a purged event, an unknown field, and a value that the command would refuse.
-- Errors, reads, writes, locks: see append_arrays().
CREATE OR REPLACE FUNCTION @schema@.append_batch(events json)
RETURNS TABLE (global_sequence bigint, id uuid, version bigint, revision integer,
               recorded_at timestamptz, already_stored boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    refused record;
BEGIN
    IF json_typeof(events) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'events: must be a JSON array of objects';
    END IF;
    SELECT e.ord, p.problem INTO refused
    FROM json_array_elements(events) WITH ORDINALITY AS e(one, ord),
         LATERAL @schema@.members_problem(e.one) AS p(problem)
    WHERE p.problem IS NOT NULL
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006',
            MESSAGE = CASE WHEN json_array_length(events) > 1 THEN format('event %s: ', refused.ord) ELSE '' END
                      || refused.problem,
            HINT = 'The fields are stream, type, data, headers, id, correlation_id, causation_id, actor, '
                   'valid_time, schema_version, data_base64, content_type, expect.';
    END IF;
    RETURN QUERY
    SELECT a.*
    FROM (SELECT array_agg((one->>'id')::uuid ORDER BY ord) AS ids,
                 array_agg(one->>'stream' ORDER BY ord) AS streams,
                 array_agg(one->>'type' ORDER BY ord) AS types,
                 array_agg(CASE WHEN one->>'content_type' IS NULL
                                THEN coalesce(one->'data', '{}'::json) END ORDER BY ord) AS datas,
                 array_agg(CASE WHEN json_typeof(one->'headers') <> 'null' THEN one->'headers' END
                           ORDER BY ord) AS headerses,
                 array_agg(one->>'correlation_id' ORDER BY ord) AS correlation_ids,
                 array_agg((one->>'causation_id')::uuid ORDER BY ord) AS causation_ids,
                 array_agg(one->>'actor' ORDER BY ord) AS actors,
                 array_agg(@schema@.time_of(one->>'valid_time') ORDER BY ord) AS valid_times,
                 array_agg((one->>'schema_version')::integer ORDER BY ord) AS schema_versions,
                 array_agg(decode(one->>'data_base64', 'base64') ORDER BY ord) AS byteses,
                 array_agg(one->>'content_type' ORDER BY ord) AS content_types,
                 array_agg(CASE coalesce(one->>'expect', 'any')
                               WHEN 'any' THEN -1 WHEN 'none' THEN 0 WHEN 'exists' THEN -2
                               ELSE (one->>'expect')::bigint END ORDER BY ord) AS expected
          FROM json_array_elements(events) WITH ORDINALITY AS e(one, ord)) AS b,
         LATERAL @schema@.append_arrays(b.ids, b.streams, b.types, b.datas, b.headerses,
             b.correlation_ids, b.causation_ids, b.actors, b.valid_times, b.schema_versions,
             b.byteses, b.content_types, b.expected) AS a
    WHERE b.streams IS NOT NULL;
END
$howdah$;
