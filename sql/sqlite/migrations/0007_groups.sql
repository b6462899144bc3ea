-- 0007_groups.sql - subscriptions that many members share.
--
-- A group is a subscription with a row in howdah_groups.  Whoever finds nothing to take *deals*: it puts
-- the next events of the log into lots, one for each lane; a lane is a share of the streams.  A member
-- takes a batch of a lot under a lease, and acks it.  src/engine/group.h says what becomes of a lot,
-- the step of the same name on PostgreSQL says why.
--
--   I1  Every number up to high was dealt, or does not concern the group.
--   I2  Of each lane only the first lot is given out.  So of each stream one batch at a time is out.
--   I3  Times (until, due, taken_at) are microseconds of the machine's time since boot, and mean nothing
--       after another boot: then every lease is over and every retry is due.
--   I4  A stream with an event that failed has one row in howdah_group_retries: the event that is tried
--       next (sequence), and the last one that waits for it (upto).  These leave their lot.  Earlier ones
--       stay there, and nothing is tried before they are acked (prior_lot, prior).
--   I5  When the subscription's token is another one than the group's, somebody has put the subscription
--       elsewhere, and the next member that comes puts the group there.

CREATE TABLE howdah_groups (
    group_id           INTEGER PRIMARY KEY AUTOINCREMENT,
    subscriber_id      TEXT    NOT NULL UNIQUE,
    lanes              INTEGER NOT NULL,
    by_stream          INTEGER NOT NULL,          -- 0: events are in no order
    max_retries        INTEGER NOT NULL,
    retry_delay_ms     INTEGER NOT NULL,
    max_retry_delay_ms INTEGER NOT NULL,
    on_fail            TEXT    NOT NULL,
    token              INTEGER NOT NULL,          -- I5
    high               INTEGER NOT NULL,          -- I1
    deal               INTEGER NOT NULL,
    boot               TEXT    NOT NULL,          -- I3
    created_at         INTEGER NOT NULL,
    CONSTRAINT howdah_groups_lanes CHECK (lanes BETWEEN 1 AND 1024 AND lanes & (lanes - 1) = 0),
    CONSTRAINT howdah_groups_on_fail CHECK (on_fail IN ('open', 'hold', 'closed'))
) STRICT;

CREATE TABLE howdah_group_lots (
    group_id INTEGER NOT NULL,
    lot      INTEGER NOT NULL,                    -- deal * lanes + lane
    lane     INTEGER NOT NULL,
    lo       INTEGER NOT NULL,                    -- its first and last number
    hi       INTEGER NOT NULL,
    upto     INTEGER NOT NULL,                    -- events lists all of them up to this one
    at       INTEGER NOT NULL DEFAULT 0,          -- the last number that is acked; 0: none
    last     INTEGER NOT NULL DEFAULT 0,          -- of the batch that is out, or was
    token    INTEGER NOT NULL DEFAULT 0,
    until    INTEGER NOT NULL DEFAULT 0,          -- the end of the lease; 0: free
    taken_at INTEGER NOT NULL DEFAULT 0,
    pos      INTEGER NOT NULL DEFAULT 0,          -- so many of events are acked
    taken    INTEGER NOT NULL DEFAULT 0,          -- so many after them are out, or were
    attempts INTEGER NOT NULL DEFAULT 0,          -- of the next one
    careful  INTEGER NOT NULL DEFAULT 0,          -- up to this one they are given out one by one
    member   TEXT,
    events   BLOB    NOT NULL,                    -- numbers, 8 bytes each, the lowest byte first
    PRIMARY KEY (group_id, lot),
    CONSTRAINT howdah_group_lots_events CHECK (length(events) % 8 = 0 AND (pos + taken) * 8 <= length(events))
) STRICT, WITHOUT ROWID;

CREATE INDEX howdah_group_lots_by_lane ON howdah_group_lots (group_id, lane, lot);

CREATE TABLE howdah_group_retries (
    retry       INTEGER PRIMARY KEY AUTOINCREMENT,
    group_id    INTEGER NOT NULL,
    stream      TEXT,                             -- NULL: nothing waits for it
    sequence    INTEGER NOT NULL,                 -- the event that is tried next
    upto        INTEGER NOT NULL,                 -- the last one that waits for it
    last        INTEGER NOT NULL DEFAULT 0,       -- of the batch that is out, or was
    dead_letter INTEGER,                          -- of the event; NULL: it is none yet
    token       INTEGER NOT NULL DEFAULT 0,
    due         INTEGER NOT NULL,                 -- the highest number: a person has to act
    until       INTEGER NOT NULL DEFAULT 0,
    taken_at    INTEGER NOT NULL DEFAULT 0,
    attempts    INTEGER NOT NULL DEFAULT 0,
    taken       INTEGER NOT NULL DEFAULT 0,
    member      TEXT,
    error       TEXT,
    prior_lot   INTEGER,                          -- NULL, or not before this lot
    prior       INTEGER                           -- is acked up to this event
) STRICT;

CREATE UNIQUE INDEX howdah_group_retries_by_stream ON howdah_group_retries (group_id, stream)
    WHERE stream IS NOT NULL;
CREATE UNIQUE INDEX howdah_group_retries_by_sequence ON howdah_group_retries (group_id, sequence)
    WHERE stream IS NULL;
CREATE INDEX howdah_group_retries_by_due ON howdah_group_retries (group_id, due);
