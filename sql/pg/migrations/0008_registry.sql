-- 0008_registry: what gateways have to agree on.
--
--   I1  Of a token only the SHA-256 of its secret is here.  The secret has 256 random bits: the hash says
--       nothing about it.
--   I2  A webhook's secret is here as it is, because requests are signed with it.  Only the functions for
--       administrators read this table.
--   I3  Lists (patterns, streams, queues) are texts with one entry a line: no name has a line break.

CREATE TABLE @schema@.tokens (
    name       @schema@.name NOT NULL,
    hash       bytea NOT NULL,
    may        integer NOT NULL,             -- a sum: 1 read, 2 publish, 4 subscribe, 8 work, 16 admin
    patterns   text NOT NULL DEFAULT '',     -- '': no limit
    streams    text NOT NULL DEFAULT '',
    queues     text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    used_at    timestamptz,                  -- the beginning of the day, UTC
    revoked_at timestamptz,
    CONSTRAINT tokens_pkey PRIMARY KEY (name),
    CONSTRAINT tokens_hash_key UNIQUE (hash),
    CONSTRAINT tokens_hash_check CHECK (octet_length(hash) = 32),
    CONSTRAINT tokens_may_check CHECK (may BETWEEN 1 AND 31)
);

CREATE TABLE @schema@.webhooks (
    name               @schema@.name NOT NULL,
    url                text NOT NULL,
    secret             text NOT NULL,
    subscriber_id      @schema@.name NOT NULL,
    pattern            text,                 -- what follows up to max_retry_delay_ms is for the subscription
    stream             text,
    start              bigint NOT NULL,
    max_retries        bigint NOT NULL,
    retry_delay_ms     bigint NOT NULL,
    max_retry_delay_ms bigint NOT NULL,
    headers            text,                 -- a JSON object of texts
    timeout_ms         bigint NOT NULL,
    enabled            boolean NOT NULL DEFAULT true,
    reason             text,
    disabled_at        timestamptz,
    created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    tried_at           timestamptz,
    last_status        integer,
    last_error         text,
    CONSTRAINT webhooks_pkey PRIMARY KEY (name),
    CONSTRAINT webhooks_subscriber_key UNIQUE (subscriber_id)
) WITH (fillfactor = 70);
