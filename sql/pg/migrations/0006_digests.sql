-- 0006_digests: whether an event is still the one that was stored.
--
-- Nothing here: the server keeps checksums of its pages itself (initdb --data-checksums), and a
-- digest of every row would cost each append.  On SQLite, which has none, this step adds one.

DO $howdah$ BEGIN END $howdah$;
