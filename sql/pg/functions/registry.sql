-- token_add(name, hash, may, patterns, streams, queues)
--
-- A token for gateways.  hash: SHA-256 of its secret, which stays with its owner.  may: a sum, see 0008_registry.
-- The lists have one entry a line; '' limits nothing.  A token of this name that was revoked is replaced.
-- Errors: UH003 (there is one that is good), UH006.
-- Reads, writes: tokens.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.token_add(
    name text, hash bytea, may integer, patterns text DEFAULT '', streams text DEFAULT '', queues text DEFAULT '')
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    problem constant text := coalesce(@schema@.name_problem(coalesce(token_add.name, ''), 'name', 255), CASE
        WHEN octet_length(token_add.hash) IS DISTINCT FROM 32 THEN 'hash: must be 32 bytes, a SHA-256'
        WHEN token_add.may BETWEEN 1 AND 31 THEN NULL
        ELSE 'may: must be 1 to 31' END);
BEGIN
    IF problem IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'UH006', MESSAGE = problem;
    END IF;
    INSERT INTO @schema@.tokens AS t (name, hash, may, patterns, streams, queues)
    VALUES (token_add.name, token_add.hash, token_add.may, coalesce(token_add.patterns, ''),
            coalesce(token_add.streams, ''), coalesce(token_add.queues, ''))
    ON CONFLICT (name) DO UPDATE
    SET hash = excluded.hash, may = excluded.may, patterns = excluded.patterns, streams = excluded.streams,
        queues = excluded.queues, created_at = clock_timestamp(), used_at = NULL, revoked_at = NULL
    WHERE t.revoked_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH003',
            MESSAGE = format('there is a token "%s" already', token_add.name), HINT = 'revoke it first';
    END IF;
END
$howdah$;

-- token_list() -> rows, by name
--
-- All tokens, revoked ones as well.  For gateways, which compare the hash of what a client sends.
-- Reads: tokens.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.token_list()
RETURNS TABLE (name text, hash bytea, may integer, patterns text, streams text, queues text, created_at timestamptz,
               used_at timestamptz, revoked_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT t.name::text, t.hash, t.may, t.patterns, t.streams, t.queues, t.created_at, t.used_at, t.revoked_at
    FROM @schema@.tokens AS t ORDER BY t.name
$howdah$;

-- token_revoke(name)
--
-- The token is good for nothing any more.  A second time changes nothing.
-- Errors: UH004.
-- Reads, writes: tokens.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.token_revoke(name text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    UPDATE @schema@.tokens AS t SET revoked_at = coalesce(t.revoked_at, clock_timestamp())
    WHERE t.name = token_revoke.name;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'UH004', MESSAGE = format('there is no token "%s"', token_revoke.name);
    END IF;
END
$howdah$;

-- token_used(name)
--
-- Keeps the day on which a token is used, once a day.
-- Reads, writes: tokens.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.token_used(name text) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    UPDATE @schema@.tokens AS t SET used_at = date_trunc('day', clock_timestamp(), 'UTC')
    WHERE t.name = token_used.name AND t.used_at IS DISTINCT FROM date_trunc('day', clock_timestamp(), 'UTC')
$howdah$;

-- webhook_set(name, url, secret, replace_secret, subscriber, pattern, stream, start, max_retries, retry_delay_ms,
--             max_retry_delay_ms, headers, timeout_ms) -> whether the secret is now the one that was given
--
-- Makes a webhook, or changes one that exists: its secret only with replace_secret.
-- Errors: UH003 (another webhook has the subscription).
-- Reads, writes: webhooks.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.webhook_set(
    name text, url text, secret text, replace_secret boolean, subscriber text, pattern text, stream text, start bigint,
    max_retries bigint, retry_delay_ms bigint, max_retry_delay_ms bigint, headers text, timeout_ms bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
#variable_conflict use_column
DECLARE
    given boolean;
BEGIN
    INSERT INTO @schema@.webhooks AS w (name, url, secret, subscriber_id, pattern, stream, start, max_retries,
                                        retry_delay_ms, max_retry_delay_ms, headers, timeout_ms)
    VALUES (webhook_set.name, webhook_set.url, webhook_set.secret, webhook_set.subscriber, webhook_set.pattern,
            webhook_set.stream, webhook_set.start, webhook_set.max_retries, webhook_set.retry_delay_ms,
            webhook_set.max_retry_delay_ms, webhook_set.headers, webhook_set.timeout_ms)
    ON CONFLICT ON CONSTRAINT webhooks_pkey DO UPDATE
    SET url = excluded.url, secret = CASE WHEN webhook_set.replace_secret THEN excluded.secret ELSE w.secret END,
        subscriber_id = excluded.subscriber_id, pattern = excluded.pattern, stream = excluded.stream,
        start = excluded.start, max_retries = excluded.max_retries, retry_delay_ms = excluded.retry_delay_ms,
        max_retry_delay_ms = excluded.max_retry_delay_ms, headers = excluded.headers,
        timeout_ms = excluded.timeout_ms, changed_at = clock_timestamp()
    RETURNING w.secret = webhook_set.secret INTO given;
    RETURN given;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION USING ERRCODE = 'UH003',
        MESSAGE = format('another webhook has the subscription "%s"', webhook_set.subscriber);
END
$howdah$;

-- webhook_list(name) -> rows, by name
--
-- One webhook, or all of them (NULL), without their secrets.
-- Reads: webhooks.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.webhook_list(name text DEFAULT NULL)
RETURNS TABLE (webhook text, url text, subscriber text, pattern text, stream text, start bigint, max_retries bigint,
               retry_delay_ms bigint, max_retry_delay_ms bigint, headers text, timeout_ms bigint, enabled boolean,
               reason text, disabled_at timestamptz, created_at timestamptz, changed_at timestamptz,
               tried_at timestamptz, last_status integer, last_error text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT w.name::text, w.url, w.subscriber_id::text, w.pattern, w.stream, w.start, w.max_retries, w.retry_delay_ms,
           w.max_retry_delay_ms, w.headers, w.timeout_ms, w.enabled, w.reason, w.disabled_at, w.created_at,
           w.changed_at, w.tried_at, w.last_status, w.last_error
    FROM @schema@.webhooks AS w WHERE webhook_list.name IS NULL OR w.name = webhook_list.name ORDER BY w.name
$howdah$;

-- webhook_secret(name) -> text
--
-- What its requests are signed with; NULL without such a webhook.
-- Reads: webhooks.  Writes, locks: nothing.
CREATE OR REPLACE FUNCTION @schema@.webhook_secret(name text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
    SELECT w.secret FROM @schema@.webhooks AS w WHERE w.name = webhook_secret.name
$howdah$;

-- webhook_enable(name, enabled, reason) -> whether there is one
--
-- Reads, writes: webhooks.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.webhook_enable(name text, enabled boolean, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    UPDATE @schema@.webhooks AS w
    SET enabled = webhook_enable.enabled,
        reason = CASE WHEN NOT webhook_enable.enabled THEN webhook_enable.reason END,
        disabled_at = CASE WHEN NOT webhook_enable.enabled THEN coalesce(w.disabled_at, clock_timestamp()) END
    WHERE w.name = webhook_enable.name;
    RETURN FOUND;
END
$howdah$;

-- webhook_report(name, http_status, error) -> whether there is one
--
-- What the last request came to.
-- Reads, writes: webhooks.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.webhook_report(name text, http_status integer, error text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    UPDATE @schema@.webhooks AS w
    SET tried_at = clock_timestamp(), last_status = webhook_report.http_status, last_error = webhook_report.error
    WHERE w.name = webhook_report.name;
    RETURN FOUND;
END
$howdah$;

-- webhook_remove(name) -> whether there was one
--
-- Its subscription stays, with its place.
-- Reads, writes: webhooks.  Locks: its row.
CREATE OR REPLACE FUNCTION @schema@.webhook_remove(name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $howdah$
BEGIN
    DELETE FROM @schema@.webhooks AS w WHERE w.name = webhook_remove.name;
    RETURN FOUND;
END
$howdah$;
