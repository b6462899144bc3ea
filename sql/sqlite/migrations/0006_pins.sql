-- 0006_pins.sql - whether an event is still the one that was stored.
--
--   I1  digest is made of all that was stored of the event, but for its number: howdah verify makes it
--       again.  It tells of damage and of changes by hand, not of somebody who means to deceive.
--   I2  NULL: there is nothing to compare with.  The event is older than this step, was inserted by
--       plain SQL, or is purged.
--
-- On PostgreSQL this step sees to it that pages of one answer are of one moment (pins); here that needs
-- nothing, since numbers become visible in their order.

ALTER TABLE howdah_events ADD COLUMN digest INTEGER;
