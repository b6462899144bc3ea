-- causation_tree(id uuid) -> (depth integer, event_id uuid), in reading order
--
-- The causes of an event (root first, depth < 0), itself (0), and all that it caused, each
-- behind its cause, siblings by sequence.  A cause that is not stored ends the walk upwards; a
-- circle is walked once.  At most 10000 events.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.causation_tree(id uuid)
RETURNS TABLE (depth integer, event_id uuid)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    WITH RECURSIVE up(depth, event_id, causation_id, path) AS (
        SELECT 0, e.id, e.causation_id, ARRAY[e.id] FROM @schema@.events AS e WHERE e.id = causation_tree.id
        UNION ALL
        SELECT up.depth - 1, e.id, e.causation_id, up.path || e.id
        FROM up JOIN @schema@.events AS e ON e.id = up.causation_id
        WHERE e.id <> ALL (up.path) AND up.depth > -10000
    ), down(depth, event_id, place, path) AS (
        SELECT 0, e.id, ARRAY[e.global_sequence], ARRAY[e.id]
        FROM @schema@.events AS e WHERE e.id = causation_tree.id
        UNION ALL
        SELECT down.depth + 1, e.id, down.place || e.global_sequence, down.path || e.id
        FROM down JOIN @schema@.events AS e ON e.causation_id = down.event_id
        WHERE e.id <> ALL (down.path) AND down.depth < 10000
    )
    SELECT t.depth, t.event_id
    FROM (SELECT up.depth, up.event_id, NULL::bigint[] AS place FROM up WHERE up.depth < 0
          UNION ALL
          SELECT down.depth, down.event_id, down.place FROM down) AS t
    ORDER BY least(t.depth, 0), t.place
    LIMIT 10000
$howdah$;
