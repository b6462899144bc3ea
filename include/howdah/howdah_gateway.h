/*
 * howdah_gateway.h - what a gateway keeps in the store: who may use it, and whom it tells; part of
 * howdah.h, which includes it.
 *
 * A gateway (howdah serve) is one of many: what they have to agree on is in the store.
 *
 *   who may                 howdah_token_add(), howdah_tokens_walk(), howdah_token_revoke()
 *   whom it tells           howdah_webhook_set(), howdah_webhooks_walk(), howdah_webhook_remove()
 *   for those who send      howdah_webhook_secret(), howdah_webhook_report(),
 *                           howdah_webhook_disable()
 *
 * On PostgreSQL administrators ({schema}_admin) add and revoke tokens and look after webhooks.
 * Every role of the bus may look at tokens: of a token's secret only a hash is stored, and it is of
 * no use to anybody but those who compare.  Since 0.1.
 */
#include <howdah/howdah.h> /* before the guard: the other parts need what this one declares */

#ifndef HOWDAH_HOWDAH_GATEWAY_H
#define HOWDAH_HOWDAH_GATEWAY_H

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------- tokens */

/* What a token may do: a sum of these. */
#define HOWDAH_MAY_READ 1
#define HOWDAH_MAY_PUBLISH 2
#define HOWDAH_MAY_SUBSCRIBE 4
#define HOWDAH_MAY_WORK 8
#define HOWDAH_MAY_ADMIN 16 /* all of these, and what operators do */
#define HOWDAH_MAY_ALL 31

#define HOWDAH_TOKEN_SIZE 64      /* of a secret, with its NUL */
#define HOWDAH_TOKEN_HASH_SIZE 32 /* SHA-256 of the secret's text */
#define HOWDAH_TOKEN_SCOPES_MAX 100

/*
 * Scopes limit a token further, and an administrator's as well.  A list that is empty limits
 * nothing.  A pattern limits the types of events, as everywhere; a stream or a queue is a name, or
 * the beginning of names and "*".
 */
typedef struct howdah_token_options {
    size_t size;
    const char *name; /* required, 1 to 255 bytes */
    int64_t may;      /* required: HOWDAH_MAY_... */
    const char *const *patterns;
    size_t patterns_n; /* up to HOWDAH_TOKEN_SCOPES_MAX, as of the others */
    const char *const *streams;
    size_t streams_n;
    const char *const *queues;
    size_t queues_n;
} howdah_token_options;

#define HOWDAH_TOKEN_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_token_options), NULL, 0, NULL, 0, NULL, 0, NULL, 0                           \
    }

typedef struct howdah_token_info {
    size_t size;
    const char *name;
    const unsigned char *hash; /* HOWDAH_TOKEN_HASH_SIZE bytes */
    int64_t may;
    const char *const *patterns;
    size_t patterns_n;
    const char *const *streams;
    size_t streams_n;
    const char *const *queues;
    size_t queues_n;
    int64_t created_at_us;
    int64_t used_at_us;    /* about when it was used last: a day's beginning; HOWDAH_NO_TIME */
    int64_t revoked_at_us; /* HOWDAH_NO_TIME: it is good */
} howdah_token_info;

/*
 * Makes a token.  Its secret is given back here and never again: "hwd_" and 43 characters. CONFLICT
 * when there is one with this name that is good; one that was revoked is replaced.  When the
 * outcome is unknown the secret is not given back: revoke the name, and add it again.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_token_add(howdah_bus *bus,
                                                  const howdah_token_options *options,
                                                  char ret_secret[HOWDAH_TOKEN_SIZE],
                                                  howdah_error *reterr);
/* All tokens by name, revoked ones as well.  fn returns non-zero to stop. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_tokens_walk(howdah_bus *bus,
                                                    int (*fn)(void *ctx,
                                                              const howdah_token_info *info),
                                                    void *ctx, howdah_error *reterr);
/* It is good for nothing any more; gateways notice within two seconds.  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_token_revoke(howdah_bus *bus, const char *name,
                                                     howdah_error *reterr);
/* Keeps the day, for people who look which tokens are still in use.  Nothing without such a name.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_token_used(howdah_bus *bus, const char *name,
                                                   howdah_error *reterr);
/* The hash of a secret, as it is stored. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_token_hash(const char *secret,
                                                   unsigned char ret_hash[HOWDAH_TOKEN_HASH_SIZE],
                                                   howdah_error *reterr);

/* ----------------------------------------------------------------- webhooks */

#define HOWDAH_WEBHOOK_SECRET_SIZE 64 /* with its NUL */
#define HOWDAH_WEBHOOK_URL_MAX 2048   /* bytes */

/*
 * A webhook is a shared subscription whose events a gateway sends to an address.  What belongs to
 * the subscription (filter, start, retries) is used when a gateway makes it; one that exists stays
 * as it is.
 */
typedef struct howdah_webhook_options {
    size_t size;
    const char *name;          /* required, 1 to 200 bytes */
    const char *url;           /* required: http:// or https://, without user and password */
    const char *subscriber_id; /* NULL: "webhook." and the name */
    const char *pattern;       /* NULL: all */
    const char *stream;        /* NULL: all */
    const char *headers;       /* a JSON object of texts that are sent along, but for those that the
                                  sender sets itself; NULL: none */
    int64_t start;             /* HOWDAH_FROM_START, HOWDAH_FROM_END, or N: events after N */
    int64_t timeout_ms;        /* 10000: of one request, 100 ms to 5 minutes */
    int64_t max_retries;       /* 10 */
    int64_t retry_delay_ms;    /* 5000 */
    int64_t max_retry_delay_ms; /* 3600000 */
    bool new_secret;            /* one that exists gets another secret */
} howdah_webhook_options;

#define HOWDAH_WEBHOOK_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(howdah_webhook_options), NULL, NULL, NULL, NULL, NULL, NULL, HOWDAH_FROM_END,       \
            10000, 10, 5000, 3600000, false                                                        \
    }

typedef struct howdah_webhook_info {
    size_t size;
    const char *name;
    const char *url;
    const char *subscriber_id;
    const char *pattern; /* NULL: all */
    const char *stream;
    const char *headers; /* NULL: none */
    int64_t start;
    int64_t timeout_ms;
    int64_t max_retries;
    int64_t retry_delay_ms;
    int64_t max_retry_delay_ms;
    bool enabled;
    const char *reason; /* why it is disabled; NULL: nobody said */
    int64_t disabled_at_us;
    int64_t created_at_us;
    int64_t changed_at_us;
    int64_t tried_at_us;    /* what the last request came to; HOWDAH_NO_TIME: none was sent */
    int64_t last_status;    /* of HTTP; HOWDAH_ABSENT: there was no answer */
    const char *last_error; /* NULL: it was taken */
} howdah_webhook_info;

/*
 * Makes a webhook, enabled, or changes one that exists, which stays enabled or disabled.
 * ret_secret: of a new one, or with new_secret, the secret that its requests are signed with, as
 * Standard Webhooks says: "whsec_" and base64 of 32 bytes.  It is given back here and never again
 * for people; "" when it has not changed.  CONFLICT when another webhook has the subscription.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhook_set(howdah_bus *bus,
                                                    const howdah_webhook_options *options,
                                                    char ret_secret[HOWDAH_WEBHOOK_SECRET_SIZE],
                                                    howdah_error *reterr);
/* By name; NULL: all of them, else NOT_FOUND without it.  fn returns non-zero to stop. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhooks_walk(howdah_bus *bus, const char *name,
                                                      int (*fn)(void *ctx,
                                                                const howdah_webhook_info *info),
                                                      void *ctx, howdah_error *reterr);
/* For who signs.  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhook_secret(howdah_bus *bus, const char *name,
                                                       char ret_secret[HOWDAH_WEBHOOK_SECRET_SIZE],
                                                       howdah_error *reterr);
/* The subscription stays, with its place: remove it as any other.  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhook_remove(howdah_bus *bus, const char *name,
                                                       howdah_error *reterr);
/* Nothing is sent until it is enabled again.  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhook_disable(howdah_bus *bus, const char *name,
                                                        const char *reason, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhook_enable(howdah_bus *bus, const char *name,
                                                       howdah_error *reterr);
/* What a request came to: a status of HTTP or HOWDAH_ABSENT, and what went wrong (NULL: nothing; up
   to 1,000 bytes are kept).  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_webhook_report(howdah_bus *bus, const char *name,
                                                       int64_t http_status, const char *error,
                                                       howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
