-- calling_role() -> name
--
-- The role that called, for functions that run with their owner's rights and do more for some roles
-- than for others: the one that SET ROLE has chosen (only its members may choose it), else the login.
-- No role may call this itself.
CREATE OR REPLACE FUNCTION @schema@.calling_role() RETURNS name
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$howdah$;
