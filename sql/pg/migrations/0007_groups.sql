-- 0007_groups: subscriptions that many members share.
--
-- A group is a subscription with a row in groups.  Its members take batches of the log under a lease and
-- ack them; no event is copied and no row is written for an event that is handled.
--
-- Somebody who finds nothing to take *deals*: it reads the next events of the log and puts them into lots,
-- one for each lane.  A lane is a share of the streams (by the hash of their names), so all events of a
-- stream are in one lane.  A lot is a list of events, as row addresses (ctid), in the order of their
-- numbers.  A batch is the part of a lot that a member has at the moment.
--
--   I1  Dealing is one transaction, one at a time for each group (who locks its row): the new lots, the
--       place up to which the log is dealt, and the holes below it.  Every number up to high was dealt, or
--       does not concern the group, or will never have an event, or is in group_holes.
--   I2  The lots of a lane are taken in order: the lot "prev" must be gone.  Within a lot, batches are
--       taken in order.  So of each lane, and of each stream, one batch at a time is out.
--   I3  A batch is known by its token: the lot, and a random number that the lease has drawn.  An ack
--       that does not name the number that is stored changes nothing.  It is random, not counted: a
--       server that has lost its last moments, or a standby that took over, cannot give it out again.
--       It may know the batch and have forgotten acks of parts of it, with their effects: a member that
--       acks in parts says up to where it has (group_stands()).
--   I4  A lease ends by the database's clock.  The attempt is counted by the lease, before anything is
--       handled.  Events of a batch whose lease ran out are *suspects*: they are given out one by one
--       ("careful"), so that one which kills its member costs the others nothing.  With max_retries = 0
--       each of several that were left has that one try: most were not begun.
--   I5  A stream with an event that failed is *stuck*: it has one row in group_retries, with the event
--       that is tried next and the last number (upto) that waits for it.  These leave their lot.  Members
--       that get a later lot do not get its events: upto grows instead.  When nothing waits any more, the
--       row goes.  Earlier events of the stream that were in the same batch stay in the lot; nothing is
--       tried before they are acked (prior_lot, prior).
--   I6  Nothing that is indexed changes while events are taken and acked, and the places and lots that
--       are gone are not walked over: the newest place says which lot is the first (floor).  So an old
--       snapshot that somebody holds open does not slow members down.
--   I7  Addresses of rows are hints.  They are worthless when the table is written anew (its file node
--       changes), in a copy that was restored (the row in group_marks has another xmin there), and for
--       an event that was purged (which moves its row).  Then lots are made anew from the numbers that
--       they cover.
--   I8  looks has one row: the last look at those who hold the log's sequence, with what they may have
--       drawn.  See log_look().
--   I9  A shared subscription has the owner "(shared)" and a lease without end, so that no single process takes
--       it.  Whoever resets it gives its row a new place and a new token, as of any subscription: the next
--       member that fetches finds the token changed, and the group goes to that place.
--   I10 A process with many handlers can *reserve* a group: its row has the process's token and the end of its
--       lease.  Then only this process deals, in *ranges*: lots that are all numbers from lo to hi, of every lane.
--       It keeps streams in order by itself, and acks its ranges in the order of the log.  There are no other lots
--       while there are ranges.  A member that comes finds nothing to take, and says so (wanted).  The process ends
--       the reservation, or its lease ends; then what is left of its ranges becomes lots by lane.  Events that are
--       being handled then are lots of their own, which may end in any order: the next lot of their lane is a
--       gate, and waits for all of them.  Of a process that died nobody knows which events were begun; most were
--       not, so they are suspects whose attempts are counted anew.
--   I11 The process keeps in memory what it has done of its ranges: numbers, which mean something only in the log that it
--       has read.  So the reservation's token changes with each range, at random, and the range has it, too.  A server
--       that has forgotten a range does not know the token; nothing that it is told of its ranges is believed then.

CREATE TABLE @schema@.groups (
    group_id           integer GENERATED ALWAYS AS IDENTITY,
    subscriber_id      @schema@.name NOT NULL,
    lanes              integer NOT NULL DEFAULT 16,
    by_stream          boolean NOT NULL DEFAULT true,   -- false: events are in no order
    total_order        boolean NOT NULL DEFAULT false,  -- nothing is dealt after a number that may still appear
    max_retries        integer NOT NULL DEFAULT 3,
    retry_delay_ms     bigint NOT NULL DEFAULT 1000,
    max_retry_delay_ms bigint NOT NULL DEFAULT 60000,
    gap_timeout_ms     bigint,                          -- gap_policy timeout; NULL: proof
    on_fail            text NOT NULL DEFAULT 'open',
    token              bigint NOT NULL DEFAULT 0,       -- of its subscription (I9)
    file_node          oid NOT NULL DEFAULT 0,          -- I7
    mark               text NOT NULL DEFAULT '',
    reserved           bigint NOT NULL DEFAULT 0,       -- the token of a reservation (I10); 0: none
    process            bigint NOT NULL DEFAULT 0,       -- whose it is
    reserved_until     timestamptz NOT NULL DEFAULT '-infinity',
    reserved_at        timestamptz,
    reserved_by        text,
    wanted             boolean NOT NULL DEFAULT false,  -- others want to take part
    shared_at          timestamptz NOT NULL DEFAULT '-infinity', -- when they last said so
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT groups_pkey PRIMARY KEY (group_id),
    CONSTRAINT groups_subscriber_key UNIQUE (subscriber_id),
    CONSTRAINT groups_lanes_check CHECK (lanes >= 1 AND lanes <= 1024 AND lanes & (lanes - 1) = 0),
    CONSTRAINT groups_on_fail_check CHECK (on_fail IN ('open', 'hold', 'closed'))
) WITH (fillfactor = 50);

CREATE TABLE @schema@.group_marks (
    group_id integer NOT NULL,
    CONSTRAINT group_marks_pkey PRIMARY KEY (group_id)
);

-- The newest one counts.  Rows are inserted and deleted, never changed (I6).
CREATE TABLE @schema@.group_places (
    group_id integer NOT NULL,
    deal     bigint NOT NULL,
    high     bigint NOT NULL,
    floor    bigint NOT NULL,                           -- no lot before this one is left
    CONSTRAINT group_places_pkey PRIMARY KEY (group_id, deal)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);

CREATE TABLE @schema@.group_lots (
    lot      bigint NOT NULL,                           -- deal * lanes + lane
    prev     bigint,                                    -- the lot before it in its lane; NULL: none
    lo       bigint NOT NULL,                           -- its first and last number
    hi       bigint NOT NULL,
    at       bigint NOT NULL DEFAULT 0,                 -- the last number that is acked; 0: none
    last     bigint NOT NULL DEFAULT 0,                 -- the last number of the batch that is out, or was
    token    bigint NOT NULL DEFAULT 0,
    until    timestamptz NOT NULL DEFAULT '-infinity',  -- the end of the lease; -infinity: free
    taken_at timestamptz,
    group_id integer NOT NULL,
    n        integer NOT NULL,                          -- events
    pos      integer NOT NULL DEFAULT 0,                -- so many are acked
    taken    integer NOT NULL DEFAULT 0,                -- so many after them are out, or were
    attempts integer NOT NULL DEFAULT 0,                -- of the next one
    careful  integer NOT NULL DEFAULT 0,                -- up to this one they are given out one by one (I4)
    is_range boolean NOT NULL DEFAULT false,            -- I10
    gate     boolean NOT NULL DEFAULT false,            -- not before all earlier lots of its lane are gone (I10)
    untried  boolean NOT NULL DEFAULT false,            -- of most of its events no attempt has begun (I10)
    member   text,
    tids     tid[],                                     -- NULL: to be made anew (I7), or a range
    CONSTRAINT group_lots_pkey PRIMARY KEY (group_id, lot)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0);
-- Out of line and as it is: a lease does not write it again.
ALTER TABLE @schema@.group_lots ALTER COLUMN tids SET STORAGE EXTERNAL;

-- Numbers up to high that have no event yet and may still get one.
CREATE TABLE @schema@.group_holes (
    group_id integer NOT NULL,
    first    bigint NOT NULL,
    last     bigint NOT NULL,
    since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT group_holes_pkey PRIMARY KEY (group_id, first)
);

CREATE TABLE @schema@.group_retries (
    retry       bigint GENERATED ALWAYS AS IDENTITY,
    sequence    bigint NOT NULL,                        -- the event that is tried next
    upto        bigint NOT NULL,                        -- the last one that waits for it
    last        bigint NOT NULL DEFAULT 0,              -- of the batch that is out: its last event
    dead_letter bigint,                                 -- of the event; NULL: it is none yet
    token       bigint NOT NULL DEFAULT 0,
    due         timestamptz NOT NULL,                   -- infinity: a person has to act (on_fail = hold)
    until       timestamptz NOT NULL DEFAULT '-infinity',
    taken_at    timestamptz,
    group_id    integer NOT NULL,
    lane        integer NOT NULL,
    attempts    integer NOT NULL DEFAULT 0,
    taken       integer NOT NULL DEFAULT 0,
    stream      text COLLATE "C",                       -- NULL: nothing waits for it
    member      text,
    error       text,
    prior_lot   bigint,                                 -- NULL, or not before this lot
    prior       bigint,                                 -- is acked up to this event
    CONSTRAINT group_retries_pkey PRIMARY KEY (group_id, retry)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX group_retries_stream_key ON @schema@.group_retries (group_id, stream) WHERE stream IS NOT NULL;
CREATE UNIQUE INDEX group_retries_sequence_key ON @schema@.group_retries (group_id, sequence) WHERE stream IS NULL;
CREATE INDEX group_retries_due_idx ON @schema@.group_retries (group_id, due);

CREATE TABLE @schema@.looks (
    only_row  boolean NOT NULL DEFAULT true CHECK (only_row),
    drawn     bigint NOT NULL DEFAULT 0,                -- numbers, before the look
    looked_at timestamptz NOT NULL DEFAULT '-infinity',
    holders   text[] NOT NULL DEFAULT '{}',             -- virtual transactions
    lows      bigint[] NOT NULL DEFAULT '{}',           -- each has drawn nothing up to its low,
    untils    bigint[] NOT NULL DEFAULT '{}',           -- nor after its until (the highest bigint: not known)
    idles     bigint[] NOT NULL DEFAULT '{}',           -- since when it has executed nothing; NULL: it may be drawing
    CONSTRAINT looks_pkey PRIMARY KEY (only_row)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

INSERT INTO @schema@.looks DEFAULT VALUES;
