-- causation_tree(id uuid) -> (depth integer, event_id uuid), in reading order
--
-- The causes of an event (root first, depth < 0), the event (0), and everything it caused, each after
-- its cause, siblings by sequence.  A cause that is not stored ends the walk upwards.  A circle is
-- walked once, and an event shown as a cause is not shown again.  At most 10000 events, those nearest
-- to the root of the effects first.
--
-- It walks step by step, with one index lookup each, and remembers only the way from the event to the
-- present step.  So time and memory grow with what is shown, however deep or wide the tree is.
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.causation_tree(id uuid)
RETURNS TABLE (depth integer, event_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    most     constant integer := 10000;
    start    constant uuid := causation_tree.id;
    causes   uuid[] := '{}'; -- the nearest first
    cause    uuid;
    circle   boolean := false; -- the causes lead back to the event
    way      uuid[] := ARRAY[start]; -- from the event down to where we are
    reached  bigint[] := '{0}'; -- the last child that was shown, at each step of the way
    level    integer := 1;
    child    record;
    shown    integer := 1;
BEGIN
    SELECT e.causation_id INTO cause FROM @schema@.events AS e WHERE e.id = start;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    WHILE cause IS NOT NULL AND shown < most LOOP
        circle := cause = start;
        EXIT WHEN circle;
        SELECT e.id, e.causation_id INTO child FROM @schema@.events AS e WHERE e.id = cause;
        EXIT WHEN NOT FOUND;
        causes := causes || child.id;
        shown := shown + 1;
        cause := child.causation_id;
    END LOOP;
    IF shown = most THEN
        -- A way this long may be a circle that does not go through the event.
        SELECT array_agg(c.id ORDER BY c.nth) INTO causes
        FROM (SELECT u.id, min(u.nth) AS nth FROM unnest(causes) WITH ORDINALITY AS u(id, nth) GROUP BY u.id) AS c;
        shown := 1 + cardinality(causes);
    END IF;
    FOR i IN REVERSE cardinality(causes)..1 LOOP
        depth := -i;
        event_id := causes[i];
        RETURN NEXT;
    END LOOP;
    depth := 0;
    event_id := start;
    RETURN NEXT;

    WHILE level > 0 AND shown < most LOOP
        -- A range of rows: only the index on both columns can be used.
        SELECT e.id, e.global_sequence INTO child
        FROM @schema@.events AS e
        WHERE e.causation_id IS NOT NULL AND e.id <> start
          AND (e.causation_id, e.global_sequence) > (way[level], reached[level])
          AND (e.causation_id, e.global_sequence) <= (way[level], 9223372036854775807)
        ORDER BY e.causation_id, e.global_sequence LIMIT 1;
        IF NOT FOUND THEN
            level := level - 1;
            CONTINUE;
        END IF;
        IF NOT circle OR child.id <> ALL (causes) THEN
            depth := level;
            event_id := child.id;
            RETURN NEXT;
            shown := shown + 1;
        END IF;
        reached[level] := child.global_sequence;
        level := level + 1;
        way[level] := child.id;
        reached[level] := 0;
    END LOOP;
END
$howdah$;
