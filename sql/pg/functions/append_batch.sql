-- append_batch(events json) -> one row per event, in order
--
-- Appends a JSON array of events, all or none, in the caller's transaction:
--
--   SELECT * FROM howdah.append_batch('[{"stream":"order-7","type":"order.created","data":{"total":12}},
--                                       {"stream":"order-7","type":"order.paid"}]');
--
-- Members: stream, type, data, headers, id, correlation_id, causation_id, actor, valid_time,
-- schema_version, data_base64 with content_type, expect ("any", "none", "exists" or a version).
-- The text of data is kept to the letter.  A member of another name is refused (UH006).
-- Errors, reads, writes, locks: see append_arrays().
CREATE OR REPLACE FUNCTION @schema@.append_batch(events json)
RETURNS TABLE (global_sequence bigint, id uuid, version bigint, revision integer,
               recorded_at timestamptz, already_stored boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    unknown record;
BEGIN
    IF json_typeof(events) IS DISTINCT FROM 'array' THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'events: must be a JSON array of objects';
    END IF;
    SELECT e.ord, k.key INTO unknown
    FROM json_array_elements(events) WITH ORDINALITY AS e(one, ord),
         LATERAL json_object_keys(e.one) AS k(key)
    WHERE k.key NOT IN ('stream', 'type', 'data', 'headers', 'id', 'correlation_id', 'causation_id',
                        'actor', 'valid_time', 'schema_version', 'data_base64', 'content_type', 'expect')
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006',
            MESSAGE = format('event %s: unknown member, %s bytes', unknown.ord, octet_length(unknown.key)),
            HINT = 'Members are stream, type, data, headers, id, correlation_id, causation_id, actor, '
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
                 array_agg((one->>'valid_time')::timestamptz ORDER BY ord) AS valid_times,
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
