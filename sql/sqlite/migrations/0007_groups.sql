-- 0007_groups: subscriptions that many members share.
--
-- PostgreSQL has its tables here.  SQLite has none of them yet: this step only keeps the numbers of both stores alike.
SELECT 1;
