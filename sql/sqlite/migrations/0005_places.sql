-- 0005_places.sql - how often a place was stored.
--
--   I1  moves counts the places that were stored.  A write that stores a place says which one it follows.
--       So when a restored backup brings an old row back, it is not moved on from a place that it never
--       had.
--
-- On PostgreSQL this step also stores which numbers open transactions leave undecided.  Here there is
-- one writer at a time, and no number is undecided.

ALTER TABLE howdah_subscriptions ADD COLUMN moves INTEGER NOT NULL DEFAULT 0;
