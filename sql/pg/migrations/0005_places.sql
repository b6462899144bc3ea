-- 0005_places: what is proven of the log's numbers, and what open transactions leave undecided.
--
--   I1  proven has one row: every number up to upto has its event in the log, or will never have
--       one, or is in holes (first, last, first, last ...).  A reader that has proven more may write
--       it.  It never becomes untrue, because a number is drawn only once.  Everything it relies on
--       was written before it, so it is true of a standby and of a restored copy as well.  No
--       reader has to prove the history again.
--   I2  subscriptions.still is the part of the outstanding numbers that does not change from one
--       checkpoint to the next: numbers that may appear when a transaction ends that has been open
--       for long.  Those up to high are outstanding, like those in the column outstanding.  Those
--       above high mean nothing.  A large value is stored out of line, and a checkpoint that does not
--       change it does not write it again.
--   I3  subscriptions.moves counts the places that were stored.  A write that stores a place says
--       which one it follows.  So when an older copy of the database brings an old row back, the row
--       is not moved on from a place that it never had, with effects that this copy does not have.
--   I4  Sets of numbers are not compressed: for a million ranges that takes two seconds, and saves
--       little more than half.

CREATE TABLE @schema@.proven (
    only_row   boolean NOT NULL DEFAULT true CHECK (only_row),
    upto       bigint NOT NULL CHECK (upto >= 0),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    holes      bigint[] NOT NULL DEFAULT '{}',
    CONSTRAINT proven_pkey PRIMARY KEY (only_row)
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);

INSERT INTO @schema@.proven (upto) VALUES (0);

ALTER TABLE @schema@.subscriptions ADD COLUMN moves bigint NOT NULL DEFAULT 0;
ALTER TABLE @schema@.subscriptions ADD COLUMN still bigint[] NOT NULL DEFAULT '{}';

ALTER TABLE @schema@.proven ALTER COLUMN holes SET STORAGE EXTERNAL;
ALTER TABLE @schema@.subscriptions ALTER COLUMN still SET STORAGE EXTERNAL;
ALTER TABLE @schema@.subscriptions ALTER COLUMN outstanding SET STORAGE EXTERNAL;
