-- 0002_subscriptions: named cursors over the log, the events and numbers they gave up, and the bell.
--
-- Numbers are those of events.global_sequence.  Only the library keeps these invariants when it
-- writes.  A person may read everything here, but should change it only with the howdah command.
--
--   I1  A subscription is at (high, outstanding): every number up to high was handled, or does not
--       concern it, or is in outstanding.  outstanding is first, last, first, last ...: ascending,
--       disjoint ranges at or below high that do not touch.
--   I2  A write that moves the row names its token.  If that is not the stored token, nothing moves.
--       Tokens come from one sequence, so they grow with every take-over and every reset, and do not
--       start again when a subscription is removed and created again.
--   I3  anchor_sequence and anchor_id name the last event that was handled before the checkpoint,
--       timeline the cluster and its timeline.  If the log does not agree, it is another log, or it
--       was restored to an earlier state.
--   I4  owner stays when its process dies, so the next owner sees that it did not end cleanly.  A
--       clean end sets it to NULL.  lease_until is NULL for an owner that holds a session lock
--       instead of a lease.
--   I5  No index has a column that a checkpoint changes, and pages are kept mostly empty.  So a
--       checkpoint is a HOT update, and its old row versions go without a vacuum.
--   I6  A dead letter has a copy of the whole event and no foreign key: it outlives the event and the
--       subscription.  There is one for each (subscriber, event).
--   I7  state and resolved_at of a dead letter agree: dead and redrive are open, redriven and
--       discarded are resolved.
--   I8  The bell's mark is last_value of a sequence, because that changes at once for every session,
--       whether the transaction commits or not.  Bit 0 is for sleepers that wait for any event, bits
--       1 to 62 for those that wait for a type (by its hash).  It is a hint: two sessions that change
--       it at the same time may undo each other's change, which costs a sleeper one poll interval.

CREATE SEQUENCE @schema@.subscriptions_token_seq AS bigint CACHE 1;

CREATE TABLE @schema@.subscriptions (
    high             bigint NOT NULL CHECK (high >= 0),
    token            bigint NOT NULL DEFAULT 0,
    anchor_sequence  bigint NOT NULL DEFAULT 0, -- 0: nothing was handled yet
    lease_until      timestamptz,
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    suspect_sequence bigint NOT NULL DEFAULT 0, -- the event that was being handled when an owner died
    suspect_attempts bigint NOT NULL DEFAULT 0,
    anchor_id        uuid,
    subscriber_id    @schema@.name NOT NULL,
    pattern          text COLLATE "C",          -- NULL: every type
    timeline         text NOT NULL DEFAULT '',
    owner            text,
    status           text NOT NULL DEFAULT 'active',
    reason           text,                      -- why it is paused or halted
    outstanding             bigint[] NOT NULL DEFAULT '{}',
    CONSTRAINT subscriptions_pkey PRIMARY KEY (subscriber_id),
    CONSTRAINT subscriptions_status_check CHECK (status IN ('active', 'paused', 'halted')),
    CONSTRAINT subscriptions_anchor_check CHECK ((anchor_sequence = 0) = (anchor_id IS NULL))
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE @schema@.dead_letters (
    id              bigint GENERATED ALWAYS AS IDENTITY,
    source          text NOT NULL DEFAULT 'sub',
    subscriber_id   @schema@.name NOT NULL,
    event_id        uuid NOT NULL,
    global_sequence bigint NOT NULL,
    error_message   text,
    retry_count     bigint NOT NULL DEFAULT 0,  -- attempts in all, redrives included
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_retry_at   timestamptz,
    state           text NOT NULL DEFAULT 'dead',
    redrives        bigint NOT NULL DEFAULT 0,
    reason          text,                       -- of a discard
    resolved_at     timestamptz,                -- NULL: open
    resolved_by     text,
    -- The event, column by column; its own reason is event_reason.  When data and bytes are both
    -- NULL, the event itself was broken.
    version         bigint NOT NULL,
    recorded_at     timestamptz NOT NULL,
    valid_time      timestamptz,
    causation_id    uuid,
    family          uuid,
    corrects        uuid,
    revision        integer NOT NULL,
    schema_version  integer NOT NULL,
    stream          text COLLATE "C" NOT NULL,
    type            text COLLATE "C" NOT NULL,
    correlation_id  text COLLATE "C",
    actor           text,
    event_reason    text,
    content_type    text,
    headers         json,
    data            json,
    bytes           bytea,
    CONSTRAINT dead_letters_pkey PRIMARY KEY (id),
    CONSTRAINT dead_letters_subscriber_event_key UNIQUE (subscriber_id, event_id),
    CONSTRAINT dead_letters_state_check CHECK (
        state IN ('dead', 'redrive', 'redriven', 'discarded')
        AND (state IN ('redriven', 'discarded')) = (resolved_at IS NOT NULL))
);

-- The first is for counts and lists, the second for the question that an owner asks with every checkpoint.
CREATE INDEX dead_letters_open_idx ON @schema@.dead_letters (subscriber_id, id)
    WHERE resolved_at IS NULL;
CREATE INDEX dead_letters_redrive_idx ON @schema@.dead_letters (subscriber_id, id)
    WHERE state = 'redrive';

-- Numbers that a subscription with gap_policy = timeout stopped waiting for.
CREATE TABLE @schema@.skips (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    subscriber_id  @schema@.name NOT NULL,
    first_sequence bigint NOT NULL,
    last_sequence  bigint NOT NULL,
    age_ms         bigint NOT NULL,             -- how long they had been missing
    reason         text NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolved_at    timestamptz,                 -- NULL: open
    resolution     text,
    CONSTRAINT skips_pkey PRIMARY KEY (id),
    CONSTRAINT skips_range_check CHECK (first_sequence >= 1 AND first_sequence <= last_sequence),
    CONSTRAINT skips_resolved_check CHECK ((resolved_at IS NULL) = (resolution IS NULL))
);

CREATE INDEX skips_open_idx ON @schema@.skips (subscriber_id, id) WHERE resolved_at IS NULL;

CREATE SEQUENCE @schema@.bell AS bigint MINVALUE 0 START 0 CACHE 1;
