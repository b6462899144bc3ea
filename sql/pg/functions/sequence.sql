-- log_numbers() -> (drawn, stored, done), one row
--
-- How far the log's sequence is, and how far the numbers in use are:
--
--   drawn   the last number that was drawn, 0: none
--   stored  the highest number of an event, 0: there is none
--   done    the highest number that a subscription, a group or "proven" counts as done, 0: none
--
-- In an intact log drawn is never the smallest: the other two are of the statement's snapshot, and it
-- is read afterwards.  A copy of the tables without their sequences is not intact.
-- Reads: events, subscriptions, group_places, proven, events_global_sequence_seq.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.log_numbers(OUT drawn bigint, OUT stored bigint, OUT done bigint)
RETURNS record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END,
           coalesce((SELECT max(e.global_sequence) FROM @schema@.events AS e), 0),
           greatest((SELECT max(s.high) FROM @schema@.subscriptions AS s), (SELECT max(p.high) FROM @schema@.group_places AS p),
                    (SELECT k.upto FROM @schema@.proven AS k), 0)
    FROM @schema@.events_global_sequence_seq AS q
$howdah$;

-- sequence_problem() -> text or NULL
--
-- Whether the next events would get numbers that count as done, and so would never be delivered.
-- A number up to a subscription's high is done unless it is in outstanding or stands still, one up to a
-- group's high unless it is in its holes.  A number up
-- to "proven" is done unless it is in its holes.  A number that an event already has is no case of this:
-- it collides, and check_sequence(true) reports it then.  Numbers above every high may be higher than the
-- sequence without harm, until the sequence gets there.
--
-- Mostly it looks only at the subscriptions, the places of groups, at "proven" and at the sequence.
-- Reads: subscriptions, group_places, group_holes, proven, events_global_sequence_seq; events, when the sequence is
-- too low.
-- Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.sequence_problem() RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    done  constant bigint := greatest((SELECT max(s.high) FROM @schema@.subscriptions AS s),
                                      (SELECT max(p.high) FROM @schema@.group_places AS p),
                                      (SELECT k.upto FROM @schema@.proven AS k));
    drawn constant bigint := (SELECT CASE WHEN q.is_called THEN q.last_value ELSE q.last_value - 1 END
                              FROM @schema@.events_global_sequence_seq AS q);
    high  bigint;
BEGIN
    IF done IS NULL OR done <= drawn THEN
        RETURN NULL;
    END IF;
    SELECT max(d.high) INTO high
    FROM (SELECT s.high, s.outstanding || s.still AS outstanding FROM @schema@.subscriptions AS s WHERE s.high > drawn
          UNION SELECT p.high, ARRAY(SELECT u.one FROM @schema@.group_holes AS h, LATERAL (VALUES (h.first), (h.last)) AS u(one)
                                     WHERE h.group_id = p.group_id ORDER BY u.one)
          FROM @schema@.group_places AS p WHERE p.high > drawn
          UNION SELECT k.upto, k.holes FROM @schema@.proven AS k WHERE k.upto > drawn) AS d
    WHERE d.high - drawn
          > (SELECT count(*) FROM @schema@.events AS e WHERE e.global_sequence > drawn AND e.global_sequence <= d.high)
          + (SELECT coalesce(sum(r.last - r.first + 1
                                 - (SELECT count(*) FROM @schema@.events AS e
                                    WHERE e.global_sequence BETWEEN r.first AND r.last)), 0)
             FROM (SELECT greatest(d.outstanding[i], drawn + 1) AS first, d.outstanding[i + 1] AS last
                   FROM generate_series(1, cardinality(d.outstanding), 2) AS g(i)) AS r
             WHERE r.last >= r.first);
    RETURN CASE WHEN high IS NOT NULL
                THEN format('the log''s sequence is lower than the numbers in use: it is at %s, and numbers up to %s are done',
                            drawn, high) END;
END
$howdah$;

-- check_sequence(drew boolean) -> void
--
-- For functions that append.  Before a number is drawn (drew is false): it must not be a number that is
-- done.  The session remembers how far the sequence was when all was well (howdah.sequence_...).  While
-- the sequence has not gone back from there, the answer stays the same, and nothing is looked at: a look at
-- every subscription would cost an append a twentieth of its time, and more than half where there are a
-- thousand.  After a number was drawn and nothing could be inserted (drew is true): it must not be the
-- number of another event, because then the cause is not a lost race.
-- Errors: UH008.  Reads: see sequence_problem(); events.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.check_sequence(drew boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    problem text;
BEGIN
    IF NOT drew THEN
        problem := @schema@.sequence_problem();
        PERFORM set_config('howdah.sequence_' || @sequence_text@::regclass::oid::text,
                           coalesce(pg_sequence_last_value(@sequence_text@::regclass), 0)::text, false);
    ELSIF EXISTS (SELECT FROM @schema@.events AS e WHERE e.global_sequence = currval(@sequence_text@::regclass)) THEN
        problem := format('the log''s sequence is lower than the numbers in use: it gave out %s, which an event already has',
                          currval(@sequence_text@::regclass));
    END IF;
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH008', MESSAGE = problem, HINT = 'Run: howdah migrate up';
    END IF;
END
$howdah$;
