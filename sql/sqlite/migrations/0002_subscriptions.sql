-- 0002_subscriptions.sql - named cursors over the log, and the events and numbers they gave up.
--
-- Numbers are those of howdah_events.global_sequence.  Times are microseconds since 1970 UTC, except
-- lease_until (I4).  Only the library keeps these invariants when it writes.  A person may read
-- everything here, but should change it only with the howdah command.
--
--   I1  A subscription is at (high, outstanding): every number up to high was handled, or does not
--       concern it, or is in outstanding.  outstanding is text, "3-5,9,12-20": ascending, disjoint
--       ranges at or below high that do not touch; '' for none.  Text, because it is nearly always
--       short, and because a person who repairs a bus with the sqlite3 shell can read it.
--   I2  token grows with every take-over and every reset, and a write that moves the row must name it.
--       It never starts again: when a row is removed its token goes to howdah_meta
--       ('token_floor'), and a row made later starts there.
--   I3  anchor_sequence and anchor_id name the last event that was handled before the checkpoint,
--       timeline the bus it was read from (howdah_meta 'bus_id').  If the log does not agree, it is
--       another log, or it was restored to an earlier state.
--   I4  A lease is (owner, lease_until, lease_boot).  It is held while lease_until is after the
--       machine's time since boot (CLOCK_BOOTTIME, microseconds) and lease_boot is the present boot.
--       All processes that have the file open run on one machine, so they share that clock; it never
--       steps, and a reboot ends every lease.  NULL: no lease (instance "single", or no owner).
--   I5  owner stays when its process dies, so the next owner sees that it did not end cleanly.  A
--       clean end sets it to NULL.
--   I6  A dead letter has a copy of the whole event and no foreign key: it outlives the event and the
--       subscription.  There is one for each (subscriber, event).
--   I7  state and resolved_at of a dead letter agree: dead and redrive are open, redriven and
--       discarded are resolved.

CREATE TABLE howdah_subscriptions (
    subscriber_id    TEXT    NOT NULL PRIMARY KEY,
    pattern          TEXT,                       -- NULL: every type
    high             INTEGER NOT NULL,
    anchor_sequence  INTEGER NOT NULL DEFAULT 0, -- 0: nothing was handled yet
    anchor_id        BLOB,
    timeline         TEXT    NOT NULL DEFAULT '',
    token            INTEGER NOT NULL,
    owner            TEXT,
    lease_until      INTEGER,
    lease_boot       TEXT,
    status           TEXT    NOT NULL DEFAULT 'active',
    reason           TEXT,                       -- why it is paused or halted
    suspect_sequence INTEGER NOT NULL DEFAULT 0, -- the event that was being handled when an owner died
    suspect_attempts INTEGER NOT NULL DEFAULT 0,
    created_at       INTEGER NOT NULL,
    updated_at       INTEGER NOT NULL,
    outstanding             TEXT    NOT NULL DEFAULT '',
    CONSTRAINT howdah_subscriptions_id CHECK (length(subscriber_id) BETWEEN 1 AND 255),
    CONSTRAINT howdah_subscriptions_high CHECK (high >= 0),
    CONSTRAINT howdah_subscriptions_token CHECK (token >= 0),
    CONSTRAINT howdah_subscriptions_anchor CHECK (
        anchor_sequence >= 0 AND (anchor_sequence = 0) = (anchor_id IS NULL)
        AND (anchor_id IS NULL OR length(anchor_id) = 16)),
    CONSTRAINT howdah_subscriptions_lease CHECK (
        (lease_until IS NULL) = (lease_boot IS NULL)
        AND (lease_until IS NULL OR owner IS NOT NULL)),
    CONSTRAINT howdah_subscriptions_status CHECK (status IN ('active', 'paused', 'halted')),
    CONSTRAINT howdah_subscriptions_suspect CHECK (
        suspect_sequence >= 0 AND suspect_attempts >= 0)
) STRICT, WITHOUT ROWID;

-- The payload comes last, as in howdah_events.  When data and bytes are both NULL, the event itself was
-- broken, and its dead letter says so.  AUTOINCREMENT: an id never names another dead letter later.
CREATE TABLE howdah_dead_letters (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    source          TEXT    NOT NULL DEFAULT 'sub',
    subscriber_id   TEXT    NOT NULL,
    event_id        BLOB    NOT NULL,
    global_sequence INTEGER NOT NULL,
    state           TEXT    NOT NULL DEFAULT 'dead',
    error_message   TEXT    NOT NULL,
    retry_count     INTEGER NOT NULL,           -- attempts in all, redrives included
    redrives        INTEGER NOT NULL DEFAULT 0,
    reason          TEXT,                       -- of a discard
    created_at      INTEGER NOT NULL,
    last_retry_at   INTEGER NOT NULL,
    resolved_at     INTEGER,                    -- NULL: open
    resolved_by     TEXT,
    -- The event, column by column; its own reason is event_reason.
    stream          TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    type            TEXT    NOT NULL,
    recorded_at     INTEGER NOT NULL,
    valid_time      INTEGER,
    schema_version  INTEGER NOT NULL,
    revision        INTEGER NOT NULL,
    family          BLOB,
    corrects        BLOB,
    causation_id    BLOB,
    correlation_id  TEXT,
    actor           TEXT,
    content_type    TEXT,
    event_reason    TEXT,
    headers         TEXT,
    data            TEXT,
    bytes           BLOB,
    CONSTRAINT howdah_dead_letters_once UNIQUE (subscriber_id, event_id),
    CONSTRAINT howdah_dead_letters_event CHECK (length(event_id) = 16 AND global_sequence >= 1),
    CONSTRAINT howdah_dead_letters_counts CHECK (retry_count >= 0 AND redrives >= 0),
    CONSTRAINT howdah_dead_letters_state CHECK (
        state IN ('dead', 'redrive', 'redriven', 'discarded')
        AND (state IN ('redriven', 'discarded')) = (resolved_at IS NOT NULL))
) STRICT;

-- For the question that an owner asks with every checkpoint ("is there one to try again?"), and for lists.
CREATE INDEX howdah_dead_letters_open ON howdah_dead_letters (subscriber_id, state)
    WHERE resolved_at IS NULL;

-- Numbers that a subscription with gap_policy = timeout stopped waiting for.
CREATE TABLE howdah_skips (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    subscriber_id  TEXT    NOT NULL,
    first_sequence INTEGER NOT NULL,
    last_sequence  INTEGER NOT NULL,
    age_ms         INTEGER NOT NULL, -- how long they had been missing
    reason         TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    resolved_at    INTEGER,          -- NULL: open
    resolution     TEXT,
    CONSTRAINT howdah_skips_range CHECK (first_sequence >= 1 AND first_sequence <= last_sequence),
    CONSTRAINT howdah_skips_resolved CHECK ((resolved_at IS NULL) = (resolution IS NULL))
) STRICT;

CREATE INDEX howdah_skips_open ON howdah_skips (subscriber_id, id) WHERE resolved_at IS NULL;
