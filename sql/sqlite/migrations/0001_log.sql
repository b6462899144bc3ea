-- 0001_log.sql - the log of one bus in one SQLite file.
--
-- Every name starts with howdah_, because the log may live in the caller's own file, beside the
-- caller's tables.  Times are microseconds since 1970 UTC.  Ids are the 16 bytes of a UUID.
--
-- Plain INSERTs into howdah_events are allowed: stream, version, type and data are enough.  The
-- library's own rules on names and documents (engine/rules.h) are stricter than the CHECKs here.

-- Facts about the bus itself: bus_id (a UUID, as text), created_at (RFC 3339).
CREATE TABLE howdah_meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The steps that were applied, with the SHA-256 of their text.
CREATE TABLE howdah_migrations (
    number     INTEGER NOT NULL PRIMARY KEY,
    name       TEXT    NOT NULL,
    hash       TEXT    NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT;

-- Short columns come first and the payload last, so that a filter never has to follow a row's
-- overflow pages.  AUTOINCREMENT: a number is never given twice, not even after the newest events
-- were removed.
CREATE TABLE howdah_events (
    global_sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    -- A version 4 UUID for plain INSERTs; the pieces have even lengths because || in a UTF-16 file
    -- drops an odd byte.
    id              BLOB    NOT NULL
                    DEFAULT (CAST(randomblob(6) || x'4f57' || x'8444' || randomblob(6) AS BLOB)),
    stream          TEXT    NOT NULL,
    version         INTEGER NOT NULL,
    type            TEXT    NOT NULL,
    recorded_at     INTEGER NOT NULL
                    DEFAULT (strftime('%s', 'now') * 1000000 + substr(strftime('%f', 'now'), 4) * 1000),
    valid_time      INTEGER,                    -- NULL: the same as recorded_at
    schema_version  INTEGER NOT NULL DEFAULT 1, -- of the payload
    revision        INTEGER NOT NULL DEFAULT 1,
    family          BLOB,                       -- NULL: the event's own id
    corrects        BLOB,
    causation_id    BLOB,
    correlation_id  TEXT,
    actor           TEXT,
    content_type    TEXT,                       -- NULL: the payload is JSON, in data
    reason          TEXT,
    headers         TEXT,
    data            TEXT,
    bytes           BLOB,
    CONSTRAINT howdah_events_sequence CHECK (global_sequence >= 1),
    CONSTRAINT howdah_events_id CHECK (length(id) = 16),
    CONSTRAINT howdah_events_stream CHECK (length(stream) BETWEEN 1 AND 255),
    CONSTRAINT howdah_events_version CHECK (version >= 1),
    CONSTRAINT howdah_events_type CHECK (length(type) BETWEEN 1 AND 255),
    CONSTRAINT howdah_events_revision CHECK (revision BETWEEN 1 AND 2147483647),
    CONSTRAINT howdah_events_schema_version CHECK (schema_version BETWEEN 1 AND 2147483647),
    -- The years 1 to 9999.
    CONSTRAINT howdah_events_times CHECK (
        recorded_at BETWEEN -62135596800000000 AND 253402300799999999
        AND (valid_time IS NULL
             OR valid_time BETWEEN -62135596800000000 AND 253402300799999999)),
    CONSTRAINT howdah_events_uuids CHECK (
        (family IS NULL OR length(family) = 16)
        AND (corrects IS NULL OR length(corrects) = 16)
        AND (causation_id IS NULL OR length(causation_id) = 16)),
    CONSTRAINT howdah_events_payload CHECK (
        (data IS NULL) = (content_type IS NOT NULL)
        AND (bytes IS NULL) = (content_type IS NULL)),
    CONSTRAINT howdah_events_json CHECK (data IS NULL OR json_valid(data)),
    CONSTRAINT howdah_events_headers CHECK (headers IS NULL OR json_valid(headers))
) STRICT;

CREATE UNIQUE INDEX howdah_events_by_id ON howdah_events (id);
CREATE UNIQUE INDEX howdah_events_by_stream ON howdah_events (stream, version);
CREATE INDEX howdah_events_by_type ON howdah_events (type, global_sequence);
CREATE INDEX howdah_events_by_correlation ON howdah_events (correlation_id, global_sequence)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX howdah_events_by_causation ON howdah_events (causation_id, global_sequence)
    WHERE causation_id IS NOT NULL;
-- Keeps the chain of corrections linear.  Events that correct nothing have no family of their own.
CREATE UNIQUE INDEX howdah_events_by_family ON howdah_events (family, revision)
    WHERE family IS NOT NULL;

-- How far each import has come; written in the transaction of its batch.
CREATE TABLE howdah_imports (
    source     TEXT    NOT NULL PRIMARY KEY,
    created_at TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    rows       INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
