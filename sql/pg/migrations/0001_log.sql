-- 0001_log: the event log of one bus.
--
-- @schema@ is the bus's schema, quoted; @schema_text@ the same as a string literal.
--
--   I1  Only a transaction that has an xid draws a number: the default expression of global_sequence
--       asks for the xid first, so raw INSERTs obey too.  Readers rely on this to prove that a
--       missing number will never appear.
--   I2  The sequence hands out numbers one by one (CACHE 1), so that within a stream a later version
--       has a later number.
--   I3  (stream, version) is unique.  Every expected version relies on it.
--   I4  No transaction id is stored: xids mean nothing after dump and restore.
--   I5  Columns that an ordinary event does not use are NULL and cost nothing: valid_time NULL means
--       the recorded time, family NULL means its own id.

CREATE TABLE @schema@.meta (
    key   text PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO @schema@.meta (key, value)
VALUES ('bus_id', gen_random_uuid()::text);

CREATE SEQUENCE @schema@.events_global_sequence_seq AS bigint CACHE 1;

-- The least that a raw INSERT must obey.  Domains, not CHECKs of the table: the server plans CHECKs
-- anew for every statement, which costs a single append a quarter of its time.
CREATE DOMAIN @schema@.name AS text COLLATE "C" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);
CREATE DOMAIN @schema@.positive AS bigint CHECK (VALUE > 0);

CREATE TABLE @schema@.events (
    global_sequence bigint NOT NULL
        DEFAULT nextval(CASE WHEN pg_current_xact_id() IS NOT NULL
                             THEN @sequence_text@::regclass END),
    version         @schema@.positive NOT NULL,
    recorded_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    valid_time      timestamptz,
    id              uuid NOT NULL DEFAULT gen_random_uuid(),
    causation_id    uuid,
    family          uuid,
    corrects        uuid,
    revision        integer NOT NULL DEFAULT 1,
    schema_version  integer NOT NULL DEFAULT 1,
    stream          @schema@.name NOT NULL,
    type            @schema@.name NOT NULL,
    correlation_id  text COLLATE "C",
    actor           text,
    reason          text,
    content_type    text,
    headers         json,
    data            json,
    bytes           bytea,
    CONSTRAINT events_pkey PRIMARY KEY (global_sequence),
    CONSTRAINT events_stream_version_key UNIQUE (stream, version),
    CONSTRAINT events_id_key UNIQUE (id)
);

ALTER SEQUENCE @schema@.events_global_sequence_seq OWNED BY @schema@.events.global_sequence;

CREATE INDEX events_type_idx ON @schema@.events (type, global_sequence);
CREATE INDEX events_correlation_idx ON @schema@.events (correlation_id, global_sequence)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX events_causation_idx ON @schema@.events (causation_id, global_sequence)
    WHERE causation_id IS NOT NULL;
CREATE UNIQUE INDEX events_family_revision_key ON @schema@.events (family, revision)
    WHERE family IS NOT NULL;

-- An append-only table needs no room for updates.  But vacuum must freeze it and keep its visibility
-- map up to date, although it has no dead rows.
ALTER TABLE @schema@.events SET (autovacuum_vacuum_insert_scale_factor = 0.05);

CREATE TABLE @schema@.imports (
    source     text PRIMARY KEY,
    created_at text NOT NULL,
    id         text NOT NULL,
    rows       bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
