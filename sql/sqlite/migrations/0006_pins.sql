-- 0006_pins.sql - whether an event is still the one that was stored.
--
--   I1  digest covers everything that was stored of the event except its number; howdah verify computes
--       it again.  It reveals damage and changes by hand, but not a deliberate forgery.
--   I2  NULL: there is nothing to compare with.  The event is older than this step, was inserted by
--       plain SQL, or is purged.
--
-- On PostgreSQL this step keeps all pages of one answer at one moment (pins).  Here that needs nothing,
-- because numbers become visible in their order.

ALTER TABLE howdah_events ADD COLUMN digest INTEGER;
