-- channel(type text) -> text
--
-- The channel on which events of a type are announced; NULL: events of all types.  {schema}_events, or
-- {schema}_events_{type} with underscores for dots.  A name over 63 bytes is cut, and ends with eight
-- digits of the MD5 of the whole name before dots were replaced.  The same as hw_channel_name() in
-- src/engine/channel.c.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.channel(type text DEFAULT NULL) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE WHEN octet_length(n.whole) <= 63 THEN n.name
                ELSE convert_from(substring(convert_to(n.name, 'UTF8') FROM 1 FOR 54), 'UTF8')
                     || '_' || left(md5(convert_to(n.whole, 'UTF8')), 8) END
    FROM (SELECT @schema_text@ || '_events' || coalesce('_' || channel.type, '') AS whole,
                 @schema_text@ || '_events' || coalesce('_' || translate(channel.type, '.', '_'), '') AS name) AS n
$howdah$;

-- bell_bit(type text) -> bigint
--
-- The bit of the bell's mark for sleepers that wait for this type; NULL: for any event.  The same as
-- hw_channel_bit() in src/engine/channel.c.
-- Reads, writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.bell_bit(type text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT 1::bigint << coalesce(1 + get_byte(decode(md5(convert_to(bell_bit.type, 'UTF8')), 'hex'), 0) % 62, 0)
$howdah$;

-- ring(types text[]) -> boolean
--
-- Wakes the sessions that sleep until events of these types come, if there are any: one NOTIFY for the
-- general channel (without a payload), one for the channel of each type (the type is the payload, because
-- "a.b" and "a_b" share a channel).  True: somebody was woken.
-- Reads: bell.  Writes: bell.  Locks: at commit, the lock that all NOTIFYs share.
CREATE OR REPLACE FUNCTION @schema@.ring(types text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    mark  constant bigint := (SELECT b.last_value FROM @schema@.bell AS b);
    hit   bigint := mark & 1;
    heard text[] := '{}';
    bit   bigint;
    type  text;
BEGIN
    IF mark = 0 THEN
        RETURN false;
    END IF;
    IF mark <> 1 THEN
        FOREACH type IN ARRAY types LOOP
            -- bell_bit(type) written out: the call would cost more than the rest of this function.
            bit := 1::bigint << (1 + get_byte(decode(md5(convert_to(type, 'UTF8')), 'hex'), 0) % 62);
            IF mark & bit <> 0 AND type <> ALL (heard) THEN
                hit := hit | bit;
                heard := heard || type;
            END IF;
        END LOOP;
    END IF;
    IF hit = 0 THEN
        RETURN false;
    END IF;
    PERFORM setval(@bell_text@, mark & ~hit);
    IF hit & 1 <> 0 THEN
        PERFORM pg_notify(@schema@.channel(), '');
    END IF;
    FOREACH type IN ARRAY heard LOOP
        PERFORM pg_notify(@schema@.channel(type), type);
    END LOOP;
    RETURN true;
END
$howdah$;

-- ring_inside(types text[]) -> boolean
--
-- Calls ring() if a transaction that appended may ring: the setting howdah.ring says on or off.  A
-- transaction with a NOTIFY in it cannot be prepared.  So without the setting it rings only on a server
-- that has no prepared transactions (max_prepared_transactions = 0).  Elsewhere call ring() after
-- COMMIT PREPARED, or let the sleepers find out by polling.  append() and the functions like it call it.
-- Reads, writes, locks: see ring().
CREATE OR REPLACE FUNCTION @schema@.ring_inside(types text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
DECLARE
    wish constant text := coalesce(current_setting('howdah.ring', true), '');
BEGIN
    RETURN (wish = 'on' OR wish <> 'off' AND current_setting('max_prepared_transactions') = '0')
           AND @schema@.ring(types);
END
$howdah$;

-- ring_for_events(): the trigger of ring_for_raw_inserts().
-- Reads, writes, locks: see ring().
CREATE OR REPLACE FUNCTION @schema@.ring_for_events() RETURNS trigger
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    IF (SELECT b.last_value FROM @schema@.bell AS b) <> 0 THEN
        PERFORM @schema@.ring_inside(ARRAY(SELECT DISTINCT i.type::text FROM inserted AS i));
    END IF;
    RETURN NULL;
END
$howdah$;

-- ring_for_raw_inserts(wanted boolean) -> void
--
-- The functions and the library ring by themselves; an INSERT INTO events by hand does not.  true makes
-- it ring, by a trigger.  Any trigger, even one that finds nothing to do, costs every single append 6 to
-- 8 % of the server's time, the library's too.  That is why there is none by default.
-- Only the owner may call this.
-- Reads, writes: the catalogue.  Locks: events, SHARE ROW EXCLUSIVE: it waits for open appends.
CREATE OR REPLACE FUNCTION @schema@.ring_for_raw_inserts(wanted boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    DROP TRIGGER IF EXISTS ring_for_events ON @schema@.events;
    IF wanted THEN
        CREATE TRIGGER ring_for_events AFTER INSERT ON @schema@.events
            REFERENCING NEW TABLE AS inserted
            FOR EACH STATEMENT
            WHEN (current_setting('howdah.ring', true) IS DISTINCT FROM 'off')
            EXECUTE FUNCTION @schema@.ring_for_events();
    END IF;
END
$howdah$;
