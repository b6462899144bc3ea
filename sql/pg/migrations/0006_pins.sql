-- 0006_pins: an answer in several pages is of one moment.
--
--   I1  query.pin, of an answer as of some time in several pages: {upto, proven, seen ...}.  Nothing
--       after upto is in it, and of the corrections after proven only those that were seen when
--       the first page was asked for: see query_pin().  NULL: all that there is.
--
-- On SQLite, where numbers become visible in their order, this needs nothing; there this step adds a
-- digest of each event.  Here the server keeps checksums of its pages itself, and a digest of every
-- row would cost each append.

ALTER TYPE @schema@.query RENAME ATTRIBUTE upto TO pin;
ALTER TYPE @schema@.query ALTER ATTRIBUTE pin TYPE bigint[];
