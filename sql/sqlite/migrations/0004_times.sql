-- 0004_times.sql - corrections, snapshots, purges.
--
--   I1  A family is one chain.  Its first event has family NULL and revision 1; each correction names
--       the family (the first event's id), the next revision, the event it corrects, and a reason.
--       (family, revision) is unique: the guard against a fork.
--   I2  A correction is recorded later than what it corrects, whatever the clock does.
--   I3  Stream, type, correlation and causation are the same in all revisions of a family.
--   I4  An ordinary append pays for none of this: new columns are NULL, which takes no room after
--       the payload, and there is no index on times.  A question about times is about one stream,
--       type or correlation, or reads the log once (src/store/sqlite/times_query.c).
--   I5  A purged event has purge set and no payload: data is the JSON null, or bytes are empty, and
--       headers are NULL.  The same is true of its dead letters.

ALTER TABLE howdah_events ADD COLUMN retracts INTEGER; -- 1: this revision says that it never happened
ALTER TABLE howdah_events ADD COLUMN purge INTEGER;    -- of howdah_purges.id; NULL: not purged

ALTER TABLE howdah_dead_letters ADD COLUMN retracts INTEGER;
ALTER TABLE howdah_dead_letters ADD COLUMN purge INTEGER;

ALTER TABLE howdah_subscriptions ADD COLUMN stream TEXT;                         -- NULL: every stream
ALTER TABLE howdah_subscriptions ADD COLUMN originals INTEGER NOT NULL DEFAULT 0; -- 1: no corrections

CREATE TABLE howdah_snapshots (
    stream         TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    taken_at       INTEGER NOT NULL,
    schema_version INTEGER NOT NULL DEFAULT 1,
    content_type   TEXT,
    data           TEXT,
    bytes          BLOB,
    PRIMARY KEY (stream, version),
    CONSTRAINT howdah_snapshots_version CHECK (version >= 1),
    CONSTRAINT howdah_snapshots_payload CHECK (
        (data IS NULL) = (content_type IS NOT NULL)
        AND (bytes IS NULL) = (content_type IS NULL))
) STRICT, WITHOUT ROWID;

-- Who erased what, when and why.  Kept for ever.
CREATE TABLE howdah_purges (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    purged_at INTEGER NOT NULL,
    events    INTEGER NOT NULL,
    dead_letters   INTEGER NOT NULL,
    snapshots INTEGER NOT NULL,
    jobs      INTEGER NOT NULL,
    remaining INTEGER NOT NULL, -- revisions of the same families that kept their payload
    actor     TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    stream    TEXT
) STRICT;
