-- uuid_v7() -> uuid
--
-- A new event id: 48 bits of Unix milliseconds, then random bits (RFC 9562 version 7).
-- Reads: the clock.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.uuid_v7() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT encode(
        set_byte(
            overlay(uuid_send(gen_random_uuid())
                    PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
                                      FROM 3)
                    FROM 1 FOR 6),
            6,
            -- gen_random_uuid() is version 4: 0x4_ becomes 0x7_.
            (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112),
        'hex')::uuid
$howdah$;

ALTER TABLE @schema@.events ALTER COLUMN id SET DEFAULT @schema@.uuid_v7();
