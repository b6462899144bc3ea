-- 0005_places.sql - what a place stands on.
--
--   I1  moves counts the places that were stored.  A write that stores one says which it follows: a row
--       that a restored backup has brought back is not moved on from a place that it never had.
--
-- On PostgreSQL this step also writes down what open transactions leave undecided; here there is one
-- writer at a time, and nothing is.

ALTER TABLE howdah_subscriptions ADD COLUMN moves INTEGER NOT NULL DEFAULT 0;
