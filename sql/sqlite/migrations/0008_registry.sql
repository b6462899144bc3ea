-- 0008_registry.sql - what gateways have to agree on.
--
--   I1  Of a token only the SHA-256 of its secret is here.  The secret has 256 random bits: the hash says
--       nothing about it.
--   I2  A webhook's secret is here as it is, because requests are signed with it: who reads the file reads it.
--   I3  Lists (patterns, streams, queues) are texts with one entry a line: no name has a line break.

CREATE TABLE howdah_tokens (
    name       TEXT    NOT NULL PRIMARY KEY,
    hash       BLOB    NOT NULL UNIQUE,
    may        INTEGER NOT NULL,               -- a sum: 1 read, 2 publish, 4 subscribe, 8 work, 16 admin
    patterns   TEXT    NOT NULL,               -- '': no limit
    streams    TEXT    NOT NULL,
    queues     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER,                        -- the beginning of the day, UTC
    revoked_at INTEGER,
    CONSTRAINT howdah_tokens_hash CHECK (length(hash) = 32),
    CONSTRAINT howdah_tokens_may CHECK (may BETWEEN 1 AND 31)
) STRICT, WITHOUT ROWID;

CREATE TABLE howdah_webhooks (
    name               TEXT    NOT NULL PRIMARY KEY,
    url                TEXT    NOT NULL,
    secret             TEXT    NOT NULL,
    subscriber_id      TEXT    NOT NULL UNIQUE,
    pattern            TEXT,                   -- what follows up to max_retry_delay_ms is for the subscription
    stream             TEXT,
    start              INTEGER NOT NULL,
    max_retries        INTEGER NOT NULL,
    retry_delay_ms     INTEGER NOT NULL,
    max_retry_delay_ms INTEGER NOT NULL,
    headers            TEXT,                   -- a JSON object of texts
    timeout_ms         INTEGER NOT NULL,
    enabled            INTEGER NOT NULL DEFAULT 1,
    reason             TEXT,
    disabled_at        INTEGER,
    created_at         INTEGER NOT NULL,
    changed_at         INTEGER NOT NULL,
    tried_at           INTEGER,
    last_status        INTEGER,
    last_error         TEXT
) STRICT, WITHOUT ROWID;
