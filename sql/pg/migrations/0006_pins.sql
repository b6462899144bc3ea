-- 0006_pins: all pages of one answer are of one moment.
--
--   I1  query.pin is for an answer as of some time in several pages: {upto, proven, seen ...}.
--       The answer has nothing after upto, and of the corrections after proven only those that were
--       visible when the first page was read: see query_pin().  NULL: no such limit.
--
-- SQLite does not need this, because numbers become visible there in their order.  There this step adds
-- a digest of each event.  Here the server itself keeps checksums of its pages, and a digest of every
-- row would cost every append something.

ALTER TYPE @schema@.query RENAME ATTRIBUTE upto TO pin;
ALTER TYPE @schema@.query ALTER ATTRIBUTE pin TYPE bigint[];
