-- 0003_queue.sql - jobs that workers share, each handled by one of them.
--
-- A job is in one of two places: howdah_jobs (ready, or leased) or howdah_event_log (ended).  Its
-- payload is in howdah_job_data from the push on, and never changes.  There is one writer at a time,
-- so a claim marks rows in place: no other claim can conflict with it, and no old snapshot keeps the
-- old versions of the rows.  Times are microseconds since 1970 UTC, by the clock of the machine, which
-- all processes with the file share.
--
--   I1  One transaction moves a job from place to place.  Every job of howdah_job_data is in exactly
--       one of the two, and the two have no other jobs.
--   I2  A job is leased while it has a token.  Tokens come from one counter: no two claims have the
--       same, and an ack names the token that the job was claimed with.
--   I3  Of the live jobs of one key, at most one is not set aside: howdah_jobs_first enforces it.
--       That job is leased, or it is the earliest of them.  While the key is on hold, all are set
--       aside.  A job is set aside when it is pushed and taken back when it may run, so that no claim
--       ever looks at a job that it could not have.
--   I4  A job that is set aside keeps the due_at that it was pushed with: a delay is not forgotten.
--   I5  A key is on hold while howdah_key_holds has it: its job has failed, and the queue holds
--       keys.
--   I6  howdah_event_log.position is drawn when the job ends, so a reader of the history in this
--       order does not miss a job because it took long.  AUTOINCREMENT: no position is given twice.
--   I7  A dedup key is taken while its job is live.
--   I8  A queue's jobs are those of howdah_jobs and of howdah_event_log, and those of which only the
--       count is left: completed_removed, failed_removed, purged.

-- The last number that was given: 'job' for ids, 'token' for claims.
CREATE TABLE howdah_counters (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO howdah_counters (name, value) VALUES ('job', 0), ('token', 0);

CREATE TABLE howdah_queues (
    queue_id           INTEGER PRIMARY KEY AUTOINCREMENT,
    name               TEXT    NOT NULL,
    paused             INTEGER NOT NULL DEFAULT 0,
    hold_key           INTEGER NOT NULL DEFAULT 0,       -- a failed job holds its key
    max_attempts       INTEGER NOT NULL DEFAULT 5,
    backoff_jitter     INTEGER NOT NULL DEFAULT 10,      -- percent
    concurrency        INTEGER NOT NULL DEFAULT 0,       -- jobs leased at once, 0: no limit
    abandon_after_ms   INTEGER NOT NULL DEFAULT 300000,
    backoff_initial_ms INTEGER NOT NULL DEFAULT 1000,
    backoff_max_ms     INTEGER NOT NULL DEFAULT 3600000,
    history_ms         INTEGER NOT NULL DEFAULT 0,       -- 0: for ever
    created_at         INTEGER NOT NULL,
    completed_removed  INTEGER NOT NULL DEFAULT 0,
    failed_removed     INTEGER NOT NULL DEFAULT 0,
    purged             INTEGER NOT NULL DEFAULT 0,
    CONSTRAINT howdah_queues_once UNIQUE (name),
    CONSTRAINT howdah_queues_name CHECK (length(name) BETWEEN 1 AND 255),
    CONSTRAINT howdah_queues_flags CHECK (paused IN (0, 1) AND hold_key IN (0, 1)),
    CONSTRAINT howdah_queues_settings CHECK (
        max_attempts BETWEEN 1 AND 32767 AND backoff_jitter BETWEEN 0 AND 100 AND concurrency >= 0
        AND abandon_after_ms > 0 AND backoff_initial_ms >= 0 AND backoff_max_ms >= 0
        AND history_ms >= 0)
) STRICT;

-- The payload comes last, as in howdah_events.
CREATE TABLE howdah_job_data (
    id             INTEGER PRIMARY KEY,
    queue_id       INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    max_attempts   INTEGER NOT NULL,            -- 0: the queue's
    event_sequence INTEGER,                     -- a binding made it from this event, and it has its payload
    causation_id   BLOB,
    key            TEXT,
    dedup          TEXT,
    correlation_id TEXT,
    content_type   TEXT,                        -- NULL: the payload is JSON, in data
    headers        TEXT,
    data           TEXT,
    bytes          BLOB,
    CONSTRAINT howdah_job_data_causation CHECK (causation_id IS NULL OR length(causation_id) = 16),
    CONSTRAINT howdah_job_data_payload CHECK (
        CASE WHEN event_sequence IS NULL
             THEN (data IS NULL) = (content_type IS NOT NULL)
                  AND (bytes IS NULL) = (content_type IS NULL)
             ELSE coalesce(content_type, headers, data, bytes) IS NULL END)
) STRICT;
CREATE INDEX howdah_job_data_by_correlation ON howdah_job_data (correlation_id)
    WHERE correlation_id IS NOT NULL;

CREATE TABLE howdah_jobs (
    id           INTEGER PRIMARY KEY,
    queue_id     INTEGER NOT NULL,
    priority     INTEGER NOT NULL,
    due_at       INTEGER NOT NULL,
    aside        INTEGER NOT NULL DEFAULT 0,    -- waits for another job of its key, or for a key on hold
    attempts     INTEGER NOT NULL DEFAULT 0,
    max_attempts INTEGER NOT NULL DEFAULT 0,    -- 0: the queue's
    dead_letter       INTEGER,                       -- the one that is resolved when the job completes
    suspect      INTEGER NOT NULL DEFAULT 0,    -- a lease of it ran out: claimed alone
    token        INTEGER,                       -- NULL: ready
    lease_until  INTEGER,
    lease_ms     INTEGER,                       -- the length of the lease at the claim
    started_at   INTEGER,                       -- of the last attempt; worker made it
    worker       TEXT,
    key          TEXT,
    dedup        TEXT,
    error        TEXT,                          -- of the last attempt
    CONSTRAINT howdah_jobs_flags CHECK (aside IN (0, 1) AND suspect IN (0, 1)),
    CONSTRAINT howdah_jobs_aside_has_key CHECK (aside = 0 OR (key IS NOT NULL AND token IS NULL)),
    CONSTRAINT howdah_jobs_lease CHECK (
        (token IS NULL) = (lease_until IS NULL) AND (token IS NULL) = (lease_ms IS NULL))
) STRICT;
-- What a claim walks, one priority after another.
CREATE INDEX howdah_jobs_ready ON howdah_jobs (queue_id, priority, due_at)
    WHERE token IS NULL AND aside = 0;
CREATE INDEX howdah_jobs_leased ON howdah_jobs (queue_id, lease_until) WHERE token IS NOT NULL;
CREATE UNIQUE INDEX howdah_jobs_first ON howdah_jobs (queue_id, key)
    WHERE key IS NOT NULL AND aside = 0;
CREATE INDEX howdah_jobs_aside ON howdah_jobs (queue_id, key) WHERE aside = 1;
CREATE UNIQUE INDEX howdah_jobs_dedup ON howdah_jobs (queue_id, dedup) WHERE dedup IS NOT NULL;

CREATE TABLE howdah_key_holds (
    queue_id INTEGER NOT NULL,
    key      TEXT    NOT NULL,
    job_id   INTEGER NOT NULL,
    PRIMARY KEY (queue_id, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE howdah_event_log (
    position    INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id      INTEGER NOT NULL,
    queue_id    INTEGER NOT NULL,
    started_at  INTEGER,                        -- of the last attempt, NULL: there was none
    finished_at INTEGER NOT NULL,
    attempts    INTEGER NOT NULL,
    failed      INTEGER NOT NULL,
    worker      TEXT,
    error       TEXT,
    result      TEXT,
    CONSTRAINT howdah_event_log_failed CHECK (failed IN (0, 1))
) STRICT;
CREATE INDEX howdah_event_log_by_queue ON howdah_event_log (queue_id);
CREATE INDEX howdah_event_log_by_failure ON howdah_event_log (queue_id) WHERE failed = 1;
CREATE UNIQUE INDEX howdah_event_log_by_job ON howdah_event_log (job_id);

-- A job that failed.  Its payload is that of the job, whose history is kept while the dead letter is
-- open.  Ids are drawn from the sequence of howdah_dead_letters, so that one number names one dead
-- letter.
CREATE TABLE howdah_job_dead_letters (
    id          INTEGER PRIMARY KEY,
    job_id      INTEGER NOT NULL,
    queue_id    INTEGER NOT NULL,
    state       TEXT    NOT NULL DEFAULT 'dead',
    error       TEXT,
    attempts    INTEGER NOT NULL,               -- in all, redrives included
    redrives    INTEGER NOT NULL DEFAULT 0,
    reason      TEXT,                           -- of a discard
    created_at  INTEGER NOT NULL,
    failed_at   INTEGER NOT NULL,
    resolved_at INTEGER,                        -- NULL: open
    resolved_by TEXT,
    CONSTRAINT howdah_job_dead_letters_once UNIQUE (job_id),
    CONSTRAINT howdah_job_dead_letters_counts CHECK (attempts >= 0 AND redrives >= 0),
    CONSTRAINT howdah_job_dead_letters_state CHECK (
        state IN ('dead', 'redrive', 'redriven', 'discarded')
        AND (state IN ('redriven', 'discarded')) = (resolved_at IS NOT NULL))
) STRICT;
CREATE INDEX howdah_job_dead_letters_open ON howdah_job_dead_letters (queue_id) WHERE resolved_at IS NULL;

-- Which events become jobs of which queue: the router is a subscription of this name.
CREATE TABLE howdah_bindings (
    queue_id      INTEGER NOT NULL,
    pattern       TEXT    NOT NULL,
    key_from      TEXT    NOT NULL DEFAULT 'stream', -- what orders its jobs: stream, correlation, none
    subscriber_id TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    PRIMARY KEY (queue_id, pattern),
    CONSTRAINT howdah_bindings_subscriber UNIQUE (subscriber_id),
    CONSTRAINT howdah_bindings_key CHECK (key_from IN ('stream', 'correlation', 'none'))
) STRICT, WITHOUT ROWID;
