-- Rights.  Nobody but the owner touches a table; what a role may do is EXECUTE.
--
--   {schema}_publish  append
--   {schema}_read     read
--   {schema}_admin    both, and whatever administration functions there are
--
-- A role is created only if the one who migrates may do so; otherwise a notice says what is
-- missing, and the rights are granted by the next migration after somebody has created it.
REVOKE ALL ON ALL TABLES IN SCHEMA @schema@ FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;

DO $howdah$
DECLARE
    may_create constant boolean := (SELECT r.rolcreaterole OR r.rolsuper FROM pg_catalog.pg_roles AS r
                                    WHERE r.rolname = current_user);
    schema     constant text := @schema_text@;
    appends    constant text[] := ARRAY['append', 'append_batch', 'append_arrays', 'schema_version',
                                        'event_problem', 'json_problem', 'escape_problem', 'name_problem',
                                        'headers_problem',
                                        'uuid_v7'];
    reads      constant text[] := ARRAY['read_events', 'read_ids', 'read_ranges', 'read_stream', 'read_all',
                                        'last_event', 'by_correlation', 'causation_tree', 'stream_version',
                                        'head', 'pattern_regex', 'schema_version'];
    role       record;
    signature  regprocedure;
BEGIN
    FOR role IN
        SELECT schema || '_publish' AS name, appends AS functions
        UNION ALL SELECT schema || '_read', reads
        UNION ALL SELECT schema || '_admin', appends || reads
    LOOP
        IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles AS r WHERE r.rolname = role.name) THEN
            IF NOT may_create THEN
                RAISE NOTICE 'role % not created: needs CREATEROLE; let an administrator run CREATE ROLE %, then run howdah init again',
                    role.name, quote_ident(role.name);
                CONTINUE;
            END IF;
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', role.name);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL; -- another bus's migration was quicker
            END;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', schema, role.name);
        FOR signature IN
            SELECT p.oid::regprocedure
            FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
            WHERE n.nspname = schema AND p.proname = ANY (role.functions)
        LOOP
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', signature, role.name);
        END LOOP;
    END LOOP;
END
$howdah$;
