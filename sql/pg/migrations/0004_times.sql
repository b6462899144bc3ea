-- 0004_times: corrections, snapshots, purges.
--
--   I1  A family is one chain.  Its first event has family NULL and revision 1; each correction names
--       the family (the first event's id), the next revision, the event it corrects, and a reason.
--       (family, revision) is unique: the guard against a fork.
--   I2  A correction is recorded later than what it corrects, whatever the clock does.
--   I3  Stream, type, correlation and causation are the same in all revisions of a family.
--   I4  An ordinary append pays for none of this: new columns are NULL, and the index on both times is a
--       BRIN, a summary of pages.
--   I5  A purged event has purge set and no payload: data is the JSON null, or bytes are empty, and
--       headers are NULL.  The same is true of its dead letters.

ALTER TABLE @schema@.events ADD COLUMN retracts boolean; -- true: this revision says that it never happened
ALTER TABLE @schema@.events ADD COLUMN purge bigint;     -- of purges.id; NULL: not purged

-- A B-tree on valid times would make an append with a valid time a third more expensive.
CREATE INDEX events_times_idx ON @schema@.events USING brin (recorded_at, valid_time)
    WITH (pages_per_range = 32, autosummarize = on);

ALTER TABLE @schema@.dead_letters ADD COLUMN retracts boolean;
ALTER TABLE @schema@.dead_letters ADD COLUMN purge bigint;

-- How a purge finds what was made from an event.  A BRIN is enough for jobs: bindings make them in the
-- order of the log.
CREATE INDEX dead_letters_event_idx ON @schema@.dead_letters (event_id);
CREATE INDEX job_data_event_idx ON @schema@.job_data USING brin (event_sequence)
    WITH (pages_per_range = 32, autosummarize = on);

ALTER TABLE @schema@.subscriptions ADD COLUMN stream text COLLATE "C";                 -- NULL: every stream
ALTER TABLE @schema@.subscriptions ADD COLUMN originals boolean NOT NULL DEFAULT false; -- no corrections

CREATE TABLE @schema@.snapshots (
    version        @schema@.positive NOT NULL,
    taken_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    schema_version integer NOT NULL DEFAULT 1,
    stream         @schema@.name NOT NULL,
    content_type   text,
    data           json,
    bytes          bytea,
    CONSTRAINT snapshots_pkey PRIMARY KEY (stream, version)
);

-- Who erased what, when and why.  Kept for ever.
CREATE TABLE @schema@.purges (
    id        bigint GENERATED ALWAYS AS IDENTITY,
    purged_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    events    bigint NOT NULL,
    dead_letters   bigint NOT NULL,
    snapshots bigint NOT NULL,
    jobs      bigint NOT NULL,
    remaining bigint NOT NULL,  -- revisions of the same families that kept their payload
    actor     text NOT NULL,
    reason    text NOT NULL,
    stream    text COLLATE "C", -- NULL: by ids
    CONSTRAINT purges_pkey PRIMARY KEY (id)
);

-- What a query asks for, as the functions pass it to each other.  NULL does not filter.
CREATE TYPE @schema@.query AS (
    view            text,        -- log, as_of, originals
    retractions     boolean,     -- as_of: retracted families are included
    valid_at        timestamptz, -- as_of
    known_at        timestamptz, -- as_of; NULL: all that is committed
    stream          text,
    type            text,
    pattern         text,
    correlation_id  text,
    causation_id    uuid,
    families        uuid[],
    header_names    text[],      -- each header equals the value at the same index
    header_values   text[],
    valid_from      timestamptz, -- included
    valid_before    timestamptz, -- not included
    recorded_from   timestamptz,
    recorded_before timestamptz,
    upto            bigint       -- as_of in several pages: nothing after this sequence
);
