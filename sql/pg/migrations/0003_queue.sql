-- 0003_queue: jobs that workers share, each handled by one of them.
--
-- A job is in one of three places: jobs (can be claimed when it is due), leases (claimed), or
-- history (ended; event_log shows it job by job).  Its payload is in job_data from the push on, and
-- never changes.
--
--   I1  One transaction moves a job from place to place.  Every job of job_data is in exactly one of
--       the three, and the three have no other jobs.
--   I2  A lease is one row for all jobs of a claim, and history is one row for all jobs of a lease
--       that were completed together without a result: a claim deletes narrow rows and inserts one,
--       their end deletes that one and inserts one.  No row is updated on the way, and no index has a
--       column that a claim, an extension or the end of a job changes.  So a snapshot that is held
--       open for an hour does not change how many rows a claim looks at.
--   I3  A token is a number of one sequence, followed by 16 random bits, because a crash of the
--       server can set the sequence back: no two claims have the same token.  A lease has several
--       parts when it was split because only some of its jobs were extended.
--   I4  due_at is set after the transaction has its xid and its lock on jobs, and is never before
--       that moment.  So once all older transactions that have written to jobs have ended, no job can
--       still appear at a place that a claim has passed: the next claim starts after it (see
--       src/store/pg/queue_floors.c).
--   I5  key_holders has one row for each key that has a job under way or on hold: its primary key
--       keeps two jobs of one key from running at once.  A job whose key is held is set aside
--       (due_at = infinity).  The transaction that gives the key back makes the earliest of these due,
--       on a level of its own before the others of its priority, because it was due before them.  A
--       job that this transaction missed, because its snapshot was old, is found by tidying
--       (wake_keys).
--   I6  history.position is drawn when the job ends.  So a reader of the history in this order does
--       not miss a job because it took long (but may miss one whose end is in a transaction that is
--       still open).  It counts in steps of 1000, the most jobs that a row can have: the jobs of
--       a row have the positions from its own on.
--   I7  A dedup key is taken until its job has ended.

CREATE SEQUENCE @schema@.jobs_id_seq AS bigint CACHE 1;
CREATE SEQUENCE @schema@.leases_token_seq AS bigint CACHE 1;

CREATE TABLE @schema@.queues (
    queue_id           integer GENERATED ALWAYS AS IDENTITY,
    paused             boolean NOT NULL DEFAULT false,
    keyed              boolean NOT NULL DEFAULT false, -- a job with a key was pushed at least once
    hold_key           boolean NOT NULL DEFAULT false, -- a failed job holds its key
    max_attempts       integer NOT NULL DEFAULT 5,
    backoff_jitter     integer NOT NULL DEFAULT 10,    -- percent
    concurrency        integer NOT NULL DEFAULT 0,     -- jobs leased at once, 0: no limit
    abandon_after_ms   bigint NOT NULL DEFAULT 300000,
    backoff_initial_ms bigint NOT NULL DEFAULT 1000,
    backoff_max_ms     bigint NOT NULL DEFAULT 3600000,
    history_ms         bigint NOT NULL DEFAULT 0,      -- 0: for ever
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    purged             bigint NOT NULL DEFAULT 0,      -- jobs of which only the count is left
    name               @schema@.name NOT NULL,
    CONSTRAINT queues_pkey PRIMARY KEY (queue_id),
    CONSTRAINT queues_name_key UNIQUE (name),
    CONSTRAINT queues_settings_check CHECK (
        max_attempts >= 1 AND max_attempts <= 32767 AND backoff_jitter >= 0 AND backoff_jitter <= 100
        AND concurrency >= 0
        AND abandon_after_ms > 0 AND backoff_initial_ms >= 0 AND backoff_max_ms >= 0
        AND history_ms >= 0)
);

-- Counts of the jobs whose history was removed.  Not in the row of the queue: a transaction that
-- removes history may stay open, and the queue can be paused meanwhile.
CREATE TABLE @schema@.removed_jobs (
    queue_id  integer NOT NULL,
    completed bigint NOT NULL DEFAULT 0,
    failed    bigint NOT NULL DEFAULT 0,
    spared    bigint NOT NULL DEFAULT 0,   -- how far this round has looked at history, as a position
    CONSTRAINT removed_jobs_pkey PRIMARY KEY (queue_id)
) WITH (fillfactor = 10);

-- One row for each queue that has, or had, a concurrency limit.  Every claim changes it, so claims take
-- turns, and a claim whose snapshot is too old to see the one before it fails.
CREATE TABLE @schema@.claim_locks (
    queue_id integer NOT NULL,
    claims   bigint NOT NULL DEFAULT 1,
    CONSTRAINT claim_locks_pkey PRIMARY KEY (queue_id)
) WITH (fillfactor = 10);

CREATE TABLE @schema@.job_data (
    id             bigint NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    event_sequence bigint,                      -- a binding made it from this event, and it has its payload
    causation_id   uuid,
    queue_id       integer NOT NULL,
    priority       smallint NOT NULL,
    max_attempts   smallint NOT NULL,           -- 0: the queue's
    key            text COLLATE "C",
    dedup          text COLLATE "C",
    correlation_id text COLLATE "C",
    content_type   text,                        -- NULL: data is JSON
    headers        json,
    data           json,
    bytes          bytea,
    CONSTRAINT job_data_pkey PRIMARY KEY (id)
);
CREATE INDEX job_data_correlation_idx ON @schema@.job_data (correlation_id)
    WHERE correlation_id IS NOT NULL;

CREATE TABLE @schema@.jobs (
    due_at       timestamptz NOT NULL,          -- infinity: set aside until its key is free
    id           bigint NOT NULL,
    queue_id     integer NOT NULL,
    priority     smallint NOT NULL,
    attempts     smallint NOT NULL DEFAULT 0,
    suspect      boolean NOT NULL DEFAULT false, -- a lease of it ran out: claimed alone
    plain        boolean NOT NULL DEFAULT true, -- neither key nor dedup key, nor a dead letter to resolve
    promoted     boolean NOT NULL DEFAULT false, -- was due before, and had to wait for its key
    level        integer NOT NULL GENERATED ALWAYS AS (2 * priority + CASE WHEN promoted THEN 0 ELSE 1 END) STORED,
    key_hash     bigint,                        -- two keys of one hash are one key
    error        text                           -- of the last attempt
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 10000,
        autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX jobs_claim_idx ON @schema@.jobs (queue_id, level, due_at, id);
CREATE INDEX jobs_key_idx ON @schema@.jobs (queue_id, key_hash, id) WHERE key_hash IS NOT NULL;
-- Jobs that wait for their key.  A search for free keys looks once at each key.
CREATE INDEX jobs_aside_idx ON @schema@.jobs (queue_id, key_hash) WHERE due_at = 'infinity';
CREATE INDEX jobs_suspect_idx ON @schema@.jobs (queue_id, priority, due_at, id) WHERE suspect;

CREATE TABLE @schema@.leases (
    token      bigint NOT NULL,
    started_at timestamptz NOT NULL,
    until      timestamptz NOT NULL,
    lease_ms   bigint NOT NULL,
    queue_id   integer NOT NULL,
    part       smallint NOT NULL DEFAULT 0,
    plain      boolean NOT NULL,                -- all of its jobs are plain
    suspect    boolean NOT NULL DEFAULT false,  -- its only job is suspect
    worker     text,
    ids        bigint[] NOT NULL,               -- ascending; attempts and keys are in the same order
    attempts   smallint[] NOT NULL,
    keys       bigint[],                        -- NULL: none of them has a key
    CONSTRAINT leases_pkey PRIMARY KEY (token, part)
) WITH (fillfactor = 70, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.0,
        autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- The session that poll() gave a job to, and the token, until finalize() ends the job.  Not in leases: an
-- index more would slow down its hot paths.  If the job ends in another way, its row here is removed with
-- its history.
CREATE TABLE @schema@.polled_jobs (
    job_id  bigint NOT NULL,
    token   bigint NOT NULL,
    session bigint NOT NULL,
    CONSTRAINT polled_jobs_pkey PRIMARY KEY (job_id)
);

CREATE TABLE @schema@.key_holders (
    queue_id integer NOT NULL,
    key_hash bigint NOT NULL,
    job_id   bigint NOT NULL,
    on_hold  boolean NOT NULL DEFAULT false,    -- its job has failed, and the queue holds keys
    CONSTRAINT key_holders_pkey PRIMARY KEY (queue_id, key_hash)
);

CREATE TABLE @schema@.dedups (
    queue_id integer NOT NULL,
    job_id   bigint NOT NULL,
    dedup    text COLLATE "C" NOT NULL,
    CONSTRAINT dedups_pkey PRIMARY KEY (queue_id, dedup)
);

-- first_id and last_id find a job: it is in one of the first rows whose last_id is not below its id.
-- A row has 1 to 1000 jobs, and only one if it has a result or an error.  No CHECK enforces this: the
-- server would read and plan it anew with every statement, a tenth of the cost of an exchange.
CREATE TABLE @schema@.history (
    position    bigint GENERATED ALWAYS AS IDENTITY (INCREMENT BY 1000),
    first_id    bigint NOT NULL,
    last_id     bigint NOT NULL,
    started_at  timestamptz,                    -- of the last attempt, NULL: there was none
    finished_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    queue_id    integer NOT NULL,
    jobs        smallint NOT NULL DEFAULT 1,
    failed      boolean NOT NULL DEFAULT false, -- a failed job has a row of its own
    worker      text,
    error       text,
    result      text,
    attempts    smallint[],                     -- NULL: one each
    ids         bigint[],                       -- ascending, NULL: all from first_id to last_id
    CONSTRAINT history_pkey PRIMARY KEY (queue_id, position)
) WITH (toast_tuple_target = 8160);
CREATE INDEX history_last_idx ON @schema@.history (last_id);
CREATE INDEX history_failed_idx ON @schema@.history (queue_id, position) WHERE failed;

-- A job that failed.  Its payload is that of the job, whose history is kept while the dead letter is
-- open.  Ids come from the sequence of dead_letters, so that one number names one dead letter.
CREATE TABLE @schema@.job_dead_letters (
    id          bigint NOT NULL DEFAULT nextval(@dead_letter_text@),
    job_id      bigint NOT NULL,
    attempts    bigint NOT NULL,                -- in all, redrives included
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    failed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    resolved_at timestamptz,                    -- NULL: open
    redrives    bigint NOT NULL DEFAULT 0,
    queue_id    integer NOT NULL,
    state       text NOT NULL DEFAULT 'dead',
    error       text,
    reason      text,                           -- of a discard
    resolved_by text,
    CONSTRAINT job_dead_letters_pkey PRIMARY KEY (id),
    CONSTRAINT job_dead_letters_job_key UNIQUE (job_id),
    CONSTRAINT job_dead_letters_state_check CHECK (
        state IN ('dead', 'redrive', 'redriven', 'discarded')
        AND (state IN ('redriven', 'discarded')) = (resolved_at IS NOT NULL))
);
CREATE INDEX job_dead_letters_open_idx ON @schema@.job_dead_letters (queue_id, id) WHERE resolved_at IS NULL;

-- A claimed job and the ack of it, as the functions pass it to each other.
CREATE TYPE @schema@.leased_job AS (
    n          integer,     -- the place in the caller's list, 0: none
    id         bigint,
    token      bigint,
    part       smallint,
    queue_id   integer,
    attempts   smallint,
    key_hash   bigint,
    plain      boolean,
    suspect    boolean,
    started_at timestamptz,
    worker     text,
    verdict    smallint,    -- 0 complete, 1 fail, 2 retry, 3 release, 4 extend, 5 its event was purged
    note       text,        -- result or error
    after_ms   bigint
);

-- What exchange_one() answers.
CREATE TYPE @schema@.exchanged AS (
    searched     boolean,     -- false: claim_jobs() has to find the next job
    token        bigint,      -- NULL: no job was claimed
    attempts     bigint,
    max_attempts bigint,
    level        integer,
    due_at       timestamptz,
    started_at   timestamptz,
    lease_until  timestamptz,
    begun_at     timestamptz,
    xid          xid8,
    horizon      xid8,
    event_type   text,
    event_stream text,
    job          @schema@.job_data
);

-- Which events become jobs of which queue: the router is a subscription of this name.
CREATE TABLE @schema@.bindings (
    queue_id      integer NOT NULL,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    pattern       text COLLATE "C" NOT NULL,
    key_from      text NOT NULL DEFAULT 'stream', -- what orders its jobs: stream, correlation, none
    subscriber_id @schema@.name NOT NULL,
    CONSTRAINT bindings_pkey PRIMARY KEY (queue_id, pattern),
    CONSTRAINT bindings_subscriber_key UNIQUE (subscriber_id),
    CONSTRAINT bindings_key_check CHECK (key_from IN ('stream', 'correlation', 'none'))
);
