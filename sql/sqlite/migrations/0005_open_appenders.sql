-- 0005_open_appenders.sql - nothing to do: there is one writer at a time, so no number is ever
-- undecided.  The step is here because steps have the same numbers in both stores.
SELECT 1;
