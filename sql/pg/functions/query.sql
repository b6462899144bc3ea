-- What query_events() and the library use.  "query" is the type of 0004_times.
--
--   I1  A revision is in the answer as of K exactly when it was recorded by K and the next one of
--       its family was not: one probe of events_family_revision_key for each row.  Nothing is
--       grouped and nothing is kept in memory.  In a short stream it is one walk.
--   I2  In the order of the log, a page is an index scan that ends with the page.  For every other
--       order, and for a range of times over the whole log, the keys come first: (time, sequence) of
--       many rows are sorted without the rows, which are then fetched by sequence.
--   I3  Pages of an answer as of some time are of one moment, that of query_pin(): the answer ends with
--       the highest sequence that was visible then, and has no correction that was not.  So no family
--       comes twice, or not at all, because it is corrected between two pages.
--   I4  Plans do not depend on statistics: kinds of scans that do not belong there are switched off.

-- pattern_prefix(pattern text) -> text
--
-- The common beginning of all types that a pattern matches, up to and including a dot; NULL: there is
-- none.  All of these types sort before the same text with a slash in place of that dot.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.pattern_prefix(pattern text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT substring(pattern FROM '^((?:[^.*>]+[.])+)')
$howdah$;

-- The parameters of query_conditions(), from $1 on.
/* define @filters@
q.stream, q.type, regex, q.correlation_id, q.causation_id, q.families, q.header_names, q.header_values,
              q.valid_from, q.valid_before, q.recorded_from, q.recorded_before, q.valid_at, q.known_at
*/

-- query_conditions(q query) -> text
--
-- The conditions on a row e of events, or of all_events, as the text after WHERE.  Values are parameters:
-- $1 stream, $2 type, $3 the pattern's regular expression, $4 correlation_id, $5 causation_id,
-- $6 families, $7 header_names, $8 header_values, $9 valid_from, $10 valid_before, $11 recorded_from,
-- $12 recorded_before, $13 valid_at, $14 known_at, then those of the caller ($15 to $17), and
-- $18, $19 where the pattern's types begin and end, $20 pin (0006_pins).
-- Errors: UH006.  Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_conditions(q @schema@.query) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    events constant text := quote_ident(@schema_text@) || '.events';
    valid  constant text := 'coalesce(e.valid_time, e.recorded_at)';
    whole  constant boolean := q.stream IS NULL AND q.type IS NULL AND q.correlation_id IS NULL
                               AND q.causation_id IS NULL AND q.families IS NULL;
    made   text := 'true';
BEGIN
    IF q.view NOT IN ('log', 'as_of', 'originals') THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'view: must be log, as_of or originals';
    ELSIF coalesce(cardinality(q.header_names), 0) <> coalesce(cardinality(q.header_values), 0) THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'headers: every name needs a value';
    END IF;
    IF q.stream IS NOT NULL THEN
        made := made || ' AND e.stream = $1';
    END IF;
    IF q.type IS NOT NULL THEN
        made := made || ' AND e.type = $2';
    END IF;
    IF q.pattern IS NOT NULL THEN
        made := made || ' AND e.type ~ $3';
        IF whole AND @schema@.pattern_prefix(q.pattern) IS NOT NULL THEN
            made := made || ' AND e.type >= $18 AND e.type < $19';
        END IF;
    END IF;
    IF q.correlation_id IS NOT NULL THEN
        made := made || ' AND e.correlation_id = $4';
    END IF;
    IF q.causation_id IS NOT NULL THEN
        made := made || ' AND e.causation_id = $5';
    END IF;
    IF cardinality(q.header_names) > 0 THEN
        made := made || ' AND NOT EXISTS (SELECT FROM unnest($7, $8) AS h(name, value)'
                        ' WHERE e.headers ->> h.name IS DISTINCT FROM h.value)';
    END IF;
    IF q.valid_from IS NOT NULL OR q.valid_before IS NOT NULL THEN
        IF whole THEN
            -- Two plain conditions, because the index on both times cannot be used with a coalesce().
            made := made || ' AND (e.valid_time >= coalesce($9, ''-infinity'') AND e.valid_time < coalesce($10, ''infinity'')'
                            ' OR e.valid_time IS NULL AND e.recorded_at >= coalesce($9, ''-infinity'')'
                            ' AND e.recorded_at < coalesce($10, ''infinity''))';
        ELSE
            made := made || ' AND ' || valid || ' >= coalesce($9, ''-infinity'')'
                            ' AND ' || valid || ' < coalesce($10, ''infinity'')';
        END IF;
    END IF;
    IF q.recorded_from IS NOT NULL THEN
        made := made || ' AND e.recorded_at >= $11';
    END IF;
    IF q.recorded_before IS NOT NULL THEN
        made := made || ' AND e.recorded_at < $12';
    END IF;
    IF q.view = 'originals' THEN
        made := made || ' AND e.revision = 1';
    ELSIF q.view = 'as_of' THEN
        IF q.valid_at IS NOT NULL THEN
            made := made || ' AND ' || valid || ' <= $13';
        END IF;
        IF q.known_at IS NOT NULL THEN
            made := made || ' AND e.recorded_at <= $14';
        END IF;
        IF q.pin IS NOT NULL THEN -- "+ 0": no index scan by the pin
            made := made || ' AND e.global_sequence + 0 <= $20[1]'
                            ' AND (e.revision = 1 OR e.global_sequence + 0 <= $20[2] OR e.global_sequence + 0 IN (SELECT unnest($20[3:])))';
        END IF;
        IF q.retractions IS NOT TRUE THEN
            made := made || ' AND e.retracts IS NOT TRUE';
        END IF;
        -- I1
        made := made || ' AND NOT EXISTS (SELECT FROM ' || events || ' AS n WHERE n.family = coalesce(e.family, e.id)'
                        ' AND n.revision = e.revision + 1'
                     || CASE WHEN q.known_at IS NOT NULL THEN ' AND n.recorded_at <= $14' ELSE '' END
                     || CASE WHEN q.pin IS NOT NULL
                             THEN ' AND n.global_sequence + 0 <= $20[1]'
                                  ' AND (n.global_sequence + 0 <= $20[2] OR n.global_sequence + 0 IN (SELECT unnest($20[3:])))'
                             ELSE '' END || ')';
    END IF;
    RETURN made;
END
$howdah$;

-- query_source(q query) -> text
--
-- The rows to which query_conditions() applies, as the text after FROM.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_source(q @schema@.query) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE WHEN (q).families IS NULL THEN n.events || ' AS e'
                ELSE '(SELECT DISTINCT u.one FROM unnest($6) AS u(one)) AS f CROSS JOIN LATERAL (SELECT x.* FROM '
                     || n.events || ' AS x WHERE x.id = f.one AND x.family IS NULL UNION ALL SELECT y.* FROM '
                     || n.events || ' AS y WHERE y.family = f.one) AS e' END
    FROM (SELECT quote_ident(@schema_text@) || '.events' AS events) AS n
$howdah$;

-- query_is_narrow(q query) -> boolean
--
-- Whether an index finds the rows of a query; otherwise the whole log is read.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_is_narrow(q @schema@.query) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT coalesce((q).stream, (q).type, (q).correlation_id, @schema@.pattern_prefix((q).pattern)) IS NOT NULL
           OR (q).causation_id IS NOT NULL OR (q).families IS NOT NULL
           OR coalesce((q).valid_from, (q).valid_before, (q).recorded_from, (q).recorded_before) IS NOT NULL
$howdah$;

-- query_keys(q, order_by, backward, max_count, after_time, after_sequence) -> (at, global_sequence)
--
-- The keys of a query's rows after a given key, in the order asked for (sequence, valid, recorded), at
-- most max_count.  at is NULL in the order of sequences.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_keys(
    q @schema@.query, order_by text, backward boolean, max_count bigint, after_time timestamptz,
    after_sequence bigint)
RETURNS TABLE (at timestamptz, global_sequence bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET jit = off
SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off
SET enable_bitmapscan = on
SET enable_sort = on
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
DECLARE
    behind constant text := CASE WHEN backward THEN ' < ' ELSE ' > ' END;
    reach  constant text := CASE WHEN backward THEN ' <= $15' ELSE ' >= $15' END;
    down   constant text := CASE WHEN backward THEN ' DESC' ELSE '' END;
    regex  constant text := CASE WHEN q.pattern IS NOT NULL THEN @schema@.pattern_regex(q.pattern) END;
    prefix constant text := @schema@.pattern_prefix(q.pattern);
    key    text;
    sql    text;
BEGIN
    key := CASE order_by WHEN 'sequence' THEN 'NULL::timestamptz'
                         WHEN 'valid' THEN 'coalesce(e.valid_time, e.recorded_at)'
                         WHEN 'recorded' THEN 'e.recorded_at' END;
    IF key IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = 'order_by: must be sequence, valid or recorded';
    END IF;
    sql := 'SELECT ' || key || ', e.global_sequence FROM ' || @schema@.query_source(q)
           || ' WHERE ' || @schema@.query_conditions(q);
    IF after_sequence IS NOT NULL AND order_by = 'sequence' THEN
        sql := sql || ' AND e.global_sequence' || behind || '$16';
    ELSIF after_sequence IS NOT NULL THEN
        sql := sql || ' AND (' || key || ', e.global_sequence)' || behind || '($15, $16)';
    END IF;
    IF NOT @schema@.query_is_narrow(q) THEN
        -- The whole log is read: rows before the key can be left out.
        IF after_sequence IS NOT NULL AND order_by = 'recorded' THEN
            sql := sql || ' AND e.recorded_at' || reach;
        ELSIF after_sequence IS NOT NULL AND order_by = 'valid' THEN
            sql := sql || ' AND (e.valid_time' || reach || ' OR e.valid_time IS NULL AND e.recorded_at' || reach || ')';
        END IF;
        -- Until the end of this function: a hash join is better than one probe for each row of the log.
        PERFORM set_config('enable_seqscan', 'on', true), set_config('enable_hashjoin', 'on', true);
    END IF;
    -- "+ 0": do not walk the whole index on sequences to find a few rows.
    sql := sql || ' ORDER BY ' || CASE order_by WHEN 'sequence' THEN 'e.global_sequence + 0' || down
                                                ELSE '1' || down || ', 2' || down END || ' LIMIT $17';
    RETURN QUERY EXECUTE sql
        USING @filters@,
              after_time, after_sequence, max_count, prefix, left(prefix, -1) || '/', q.pin;
END
$howdah$;

-- query_rows(sequences bigint[]) -> rows of all_events, in the order given
--
-- Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_rows(sequences bigint[]) RETURNS SETOF @schema@.all_events
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT e.*
    FROM unnest(sequences) WITH ORDINALITY AS k(sequence, n),
         LATERAL (SELECT * FROM @schema@.all_events AS x WHERE x.global_sequence = k.sequence LIMIT 1) AS e
    ORDER BY k.n
$howdah$;

-- Conditions of query_page() on rows in the view as_of, shared as text: a SQL function would change the
-- plans, which are kept.  The variables are those of query_page().
/* define @in_sight@
x.recorded_at <= known AND x.global_sequence + 0 <= upto
                  AND (x.global_sequence + 0 <= done OR x.global_sequence + 0 IN (SELECT unnest(seen)))
*/
-- The revision itself was known.
/* define @is_known@
e.recorded_at <= known AND e.valid_time <= valid AND (gone OR NOT e.retracts)
                  AND e.global_sequence + 0 <= upto
                  AND (e.revision = 1 OR e.global_sequence + 0 <= done OR e.global_sequence + 0 IN (SELECT unnest(seen)))
*/
-- I1: the revision was known, and the next one was not.
/* define @is_current@
@is_known@
                  AND NOT EXISTS (SELECT FROM @schema@.events AS x WHERE x.family = e.family
                                  AND x.revision = e.revision + 1 AND @in_sight@)
*/

-- query_page(q, order_by, backward, max_count, after_time, after_sequence) -> rows of all_events
--
-- One page of a query: at most max_count rows (NULL: all) after a key.  The key is the time of the page
-- before's last row in this order, and its sequence.  In the order of sequences the time is ignored.
-- Errors: UH006.  Reads: events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.query_page(
    q @schema@.query, order_by text, backward boolean, max_count bigint, after_time timestamptz,
    after_sequence bigint)
RETURNS SETOF @schema@.all_events
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET max_parallel_workers_per_gather = 0
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_sort = off
SET enable_hashjoin = off
SET enable_mergejoin = off
AS $howdah$
#variable_conflict use_column
DECLARE
    t      constant text := q.type;
    n      constant bigint := coalesce(max_count, 9223372036854775807);
    top    constant bigint := 9223372036854775807;
    ranged constant boolean := coalesce(q.valid_from, q.valid_before, q.recorded_from, q.recorded_before) IS NOT NULL;
    known  constant timestamptz := coalesce(q.known_at, 'infinity');
    upto   constant bigint := coalesce(q.pin[1], top);
    done   constant bigint := coalesce(q.pin[2], top);
    seen   constant bigint[] := q.pin[3:]; -- used as IN (SELECT unnest()), which is hashed; = ANY is not
    valid  constant timestamptz := coalesce(q.valid_at, 'infinity');
    gone   constant boolean := coalesce(q.retractions, false);
    behind constant text := CASE WHEN backward THEN ' < ' ELSE ' > ' END;
    down   constant text := CASE WHEN backward THEN ' DESC' ELSE '' END;
    old    uuid[]; -- events that a known revision corrects
    first  bigint;
    regex  text;
    prefix text;
    sql    text;
    at     bigint;
BEGIN
    IF order_by <> 'sequence' OR q.families IS NOT NULL
       OR ranged AND coalesce(q.stream, t, q.correlation_id) IS NULL AND q.causation_id IS NULL THEN
        RETURN QUERY SELECT e.*
            FROM @schema@.query_keys(q, order_by, backward, max_count, after_time, after_sequence)
                     WITH ORDINALITY AS k(at, sequence, n),
                 LATERAL (SELECT * FROM @schema@.all_events AS x WHERE x.global_sequence = k.sequence LIMIT 1) AS e
            ORDER BY k.n;
        RETURN;
    END IF;
    IF q.stream IS NOT NULL AND after_sequence IS NOT NULL THEN
        -- In a stream a later version has a later number.
        SELECT e.version INTO at FROM @schema@.events AS e
        WHERE e.global_sequence = after_sequence AND e.stream = q.stream;
        IF NOT FOUND THEN
            -- It is another stream's.  Its place here is between two versions, mostly near the end.
            SELECT e.version INTO at FROM @schema@.events AS e
            WHERE e.stream = q.stream AND e.global_sequence + 0 < after_sequence
            ORDER BY e.version DESC LIMIT 1;
            at := coalesce(at, 0) + backward::integer;
        END IF;
    ELSE
        at := after_sequence;
    END IF;
    at := coalesce(at, CASE WHEN backward THEN top ELSE 0 END);

    -- The most common queries have plans that are kept.
    IF q.view = 'as_of' AND coalesce(q.stream, t) IS NOT NULL AND q.pattern IS NULL AND NOT ranged
       AND q.correlation_id IS NULL AND q.causation_id IS NULL AND q.header_names IS NULL THEN
        IF q.stream IS NOT NULL THEN
            -- A correction is in the same stream as its event, and later.  In a short stream one walk finds them.
            first := CASE WHEN backward THEN 0 ELSE at END;
            IF (SELECT e.version FROM @schema@.events AS e WHERE e.stream = q.stream
                ORDER BY e.version DESC LIMIT 1) <= first + 1000 THEN
                old := ARRAY(SELECT x.corrects FROM @schema@.events AS x
                             WHERE x.stream = q.stream AND x.version > first AND x.corrects IS NOT NULL
                               AND @in_sight@);
            END IF;
        END IF;
        IF old IS NOT NULL AND NOT backward THEN
            RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
                WHERE e.stream = q.stream AND e.version > at AND (t IS NULL OR e.type = t)
                  AND @is_known@ AND e.id NOT IN (SELECT unnest(old))
                ORDER BY e.version LIMIT n;
        ELSIF old IS NOT NULL THEN
            RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
                WHERE e.stream = q.stream AND e.version < at AND (t IS NULL OR e.type = t)
                  AND @is_known@ AND e.id NOT IN (SELECT unnest(old))
                ORDER BY e.version DESC LIMIT n;
        ELSIF q.stream IS NOT NULL AND NOT backward THEN
            RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
                WHERE e.stream = q.stream AND e.version > at AND (t IS NULL OR e.type = t) AND @is_current@
                ORDER BY e.version LIMIT n;
        ELSIF q.stream IS NOT NULL THEN
            RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
                WHERE e.stream = q.stream AND e.version < at AND (t IS NULL OR e.type = t) AND @is_current@
                ORDER BY e.version DESC LIMIT n;
        ELSIF NOT backward THEN
            RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
                WHERE (e.type, e.global_sequence) > (t, at) AND (e.type, e.global_sequence) <= (t, top) AND @is_current@
                ORDER BY e.type, e.global_sequence LIMIT n;
        ELSE
            RETURN QUERY SELECT e.* FROM @schema@.all_events AS e
                WHERE (e.type, e.global_sequence) >= (t, 0) AND (e.type, e.global_sequence) < (t, at) AND @is_current@
                ORDER BY e.type DESC, e.global_sequence DESC LIMIT n;
        END IF;
        RETURN;
    END IF;

    regex := CASE WHEN q.pattern IS NOT NULL THEN @schema@.pattern_regex(q.pattern) END;
    prefix := @schema@.pattern_prefix(q.pattern);
    -- A range of rows, ordered by both columns, so that only the index on both can be used.
    sql := 'SELECT e.* FROM ' || quote_ident(@schema_text@) || '.all_events AS e WHERE '
           || @schema@.query_conditions(q);
    IF q.stream IS NOT NULL THEN
        sql := sql || ' AND e.version' || behind || '$16 ORDER BY e.version' || down;
    ELSIF q.correlation_id IS NOT NULL THEN
        sql := sql || ' AND e.correlation_id IS NOT NULL AND (e.correlation_id, e.global_sequence)' || behind
               || '($4, $16) AND (e.correlation_id, e.global_sequence)'
               || CASE WHEN backward THEN ' >= ($4, 0)' ELSE ' <= ($4, 9223372036854775807)' END
               || ' ORDER BY e.correlation_id' || down || ', e.global_sequence' || down;
    ELSIF q.causation_id IS NOT NULL THEN
        sql := sql || ' AND e.causation_id IS NOT NULL AND (e.causation_id, e.global_sequence)' || behind
               || '($5, $16) AND (e.causation_id, e.global_sequence)'
               || CASE WHEN backward THEN ' >= ($5, 0)' ELSE ' <= ($5, 9223372036854775807)' END
               || ' ORDER BY e.causation_id' || down || ', e.global_sequence' || down;
    ELSIF t IS NOT NULL THEN
        sql := sql || ' AND (e.type, e.global_sequence)' || behind || '($2, $16) AND (e.type, e.global_sequence)'
               || CASE WHEN backward THEN ' >= ($2, 0)' ELSE ' <= ($2, 9223372036854775807)' END
               || ' ORDER BY e.type' || down || ', e.global_sequence' || down;
    ELSE
        sql := sql || ' AND e.global_sequence' || behind || '$16 ORDER BY e.global_sequence' || down;
    END IF;
    RETURN QUERY EXECUTE sql || ' LIMIT $17'
        USING @filters@, after_time, at, n, prefix, left(prefix, -1) || '/', q.pin;
END
$howdah$;
