-- Rights.  Publishers and readers may EXECUTE and nothing else: only the owner writes to the log's
-- table.  A subscriber runs the library's own statements on the tables of subscriptions.  It also reads
-- the log's table, because catching up through functions is slow.
--
--   {schema}_publish    append and correct, store snapshots
--   {schema}_read       read and query, load snapshots
--   {schema}_subscribe  read, and the rows of subscriptions, dead letters and skips; be a member of groups
--   {schema}_work       push jobs, claim and ack them, look at queues; with _subscribe, route events
--   {schema}_admin      all of these, change queues, purge events, tokens and webhooks of gateways
--
-- A role is created only if the role that migrates may do so.  Otherwise a notice says what is missing,
-- and the first migration after somebody has created the role grants the rights.
REVOKE ALL ON ALL TABLES IN SCHEMA @schema@ FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;

DO $howdah$
DECLARE
    may_create constant boolean := (SELECT r.rolcreaterole OR r.rolsuper FROM pg_catalog.pg_roles AS r
                                    WHERE r.rolname = current_user);
    schema     constant text := @schema_text@;
    appends    constant text[] := ARRAY['append', 'append_batch', 'append_arrays', 'schema_version',
                                        'sequence_problem', 'log_numbers', 'event_problem', 'json_problem', 'escape_problem', 'name_problem',
                                        'headers_problem', 'push_problem',
                                        'uuid_v7', 'ring', 'ring_inside', 'channel',
                                        'append_correction', 'correct', 'retract', 'snapshot_store', 'snapshot_remove'];
    reads      constant text[] := ARRAY['read_events', 'read_ids', 'read_ranges', 'read_stream', 'read_all',
                                        'last_event', 'by_correlation', 'causation_tree', 'stream_version',
                                        'head', 'first_since', 'pattern_regex', 'schema_version', 'channel',
                                        'query_events', 'query_pin', 'query_page', 'query_keys', 'query_rows', 'query_count',
                                        'query_types', 'query_streams', 'as_of', 'current_events', 'versions', 'diff',
                                        'type_stats', 'streams_of_type', 'family_of', 'knowledge', 'knowledge_of',
                                        'log_here', 'log_stored', 'log_proven',
                                        'snapshot_load', 'snapshot_list', 'times_findings', 'sequence_problem', 'log_numbers'];
    pushes     constant text[] := ARRAY['push', 'push_batch', 'push_arrays', 'publish',
                                        'schema_version', 'ring'];
    works      constant text[] := ARRAY['claim', 'claim_jobs', 'poll', 'ack_jobs', 'exchange_one', 'complete', 'fail', 'retry',
                                        'release', 'extend', 'finalize', 'queue_outlook', 'queue_arm', 'push_horizon', 'queue_states',
                                        'queue_summary',
                                        'queue_tidy', 'queue_findings', 'queue_history', 'job_states', 'channel', 'queue_bindings',
                                        'route_events', 'job_dead_letter_states',
                                        'head', 'first_since']; -- how far a binding is behind the log
    manages    constant text[] := ARRAY['queue_set', 'queue_purge', 'job_cancel', 'job_rerun', 'job_dead_letters_set_state',
                                        'queue_bind', 'queue_unbind', 'purge_events', 'purge_records',
                                        'token_add', 'token_revoke', 'webhook_set', 'webhook_list', 'webhook_secret',
                                        'webhook_enable', 'webhook_report', 'webhook_remove'];
    shares     constant text[] := ARRAY['subscribe', 'unshare', 'fetch', 'ack', 'nack', 'extend_lease', 'release_batch', 'shorten_batch',
                                        'group_fetch', 'group_reserve', 'group_take_range', 'group_has_range', 'group_reserve_extend', 'group_end_ranges', 'group_nack', 'group_stands', 'group_moved', 'group_tids', 'group_outlook', 'group_progress', 'lag_age_s', 'group_members', 'subscription_arm', 'subscription_pause',
                                        'subscription_resume', 'subscription_reset', 'subscription_remove'];
    -- What subscribers may do with each table or sequence.
    tables     constant text[] := ARRAY[
        'SELECT ON TABLE events', 'SELECT ON TABLE meta',
        'SELECT, INSERT, UPDATE, DELETE ON TABLE subscriptions',
        'SELECT, INSERT, UPDATE, DELETE ON TABLE dead_letters',
        'SELECT, INSERT, UPDATE, DELETE ON TABLE skips', 'SELECT, UPDATE ON TABLE proven',
        'SELECT ON SEQUENCE events_global_sequence_seq',
        'USAGE ON SEQUENCE subscriptions_token_seq', 'SELECT, UPDATE ON SEQUENCE bell'];
    gates      constant text[] := ARRAY['token_list', 'token_used']; -- what every gateway needs
    right_on   text;
    role       record;
BEGIN
    FOR role IN
        SELECT schema || '_publish' AS name, appends || pushes || gates AS functions, false AS subscribes
        UNION ALL SELECT schema || '_read', reads || gates, false
        UNION ALL SELECT schema || '_subscribe', reads || shares || gates || ARRAY['ring', 'purge_of'], true
        UNION ALL SELECT schema || '_work', pushes || works || gates, false
        UNION ALL SELECT schema || '_admin', appends || reads || pushes || works || shares || manages || gates || ARRAY['purge_of'], true
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
                NULL; -- another migration has created it meanwhile
            END;
        END IF;
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', schema, role.name);
        -- One statement for all functions: each GRANT of its own costs at least a tenth of a millisecond.
        EXECUTE (SELECT format('GRANT EXECUTE ON FUNCTION %s TO %I', string_agg(p.oid::regprocedure::text, ', '), role.name)
                 FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
                 WHERE n.nspname = schema AND p.proname = ANY (role.functions));
        CONTINUE WHEN NOT role.subscribes;
        FOREACH right_on IN ARRAY tables LOOP
            EXECUTE format(regexp_replace('GRANT ' || right_on, '(TABLE|SEQUENCE) ', '\1 %1$I.') || ' TO %2$I',
                           schema, role.name);
        END LOOP;
    END LOOP;
END
$howdah$;
