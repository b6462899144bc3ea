-- calling_role() -> name
--
-- The role that called a function that runs with its owner's rights and allows more to some roles than
-- to others: the role that SET ROLE has chosen (only its members may choose it), else the login role.
-- No role may call this directly.
CREATE OR REPLACE FUNCTION @schema@.calling_role() RETURNS name
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT CASE current_setting('role') WHEN 'none' THEN session_user ELSE current_setting('role')::name END
$howdah$;
