/*
 * registry.h - the part of the store's contract that is about what gateways agree on: tokens and
 * webhooks.  See store.h for what holds of every operation.
 *
 *   I1  Names are unique.  A token that was revoked keeps its name until another one takes it.
 *   I2  Of a token's secret a store sees the hash alone.
 *   I3  A list (patterns, streams, queues) is a text with one entry a line; "" is none.
 */
#ifndef HW_STORE_REGISTRY_H
#define HW_STORE_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"

struct hw_store;

typedef struct hw_token {
    hw_str name;
    hw_str hash;
    int64_t may;
    hw_str patterns;
    hw_str streams;
    hw_str queues;
    int64_t created_at_us; /* these three are the store's */
    int64_t used_at_us;
    int64_t revoked_at_us;
} hw_token;

typedef int (*hw_token_fn)(void *ctx, const hw_token *token);
typedef int (*hw_webhook_fn)(void *ctx, const howdah_webhook_info *info);

typedef struct hw_registry_ops {
    /* CONFLICT when there is one that is good. */
    int (*token_add)(struct hw_store *store, const hw_token *token, howdah_error *reterr);
    /* By name, in one snapshot. */
    int (*token_list)(struct hw_store *store, hw_token_fn fn, void *ctx, howdah_error *reterr);
    /* NOT_FOUND. */
    int (*token_revoke)(struct hw_store *store, hw_str name, howdah_error *reterr);
    int (*token_used)(struct hw_store *store, hw_str name, howdah_error *reterr);
    /*
     * Makes or changes one.  The secret is stored when it is new, or when options->new_secret says
     * so: ret_stored tells.  CONFLICT when another one has the subscription.
     */
    int (*webhook_set)(struct hw_store *store, const howdah_webhook_options *options, hw_str secret,
                       bool *ret_stored, howdah_error *reterr);
    /* One, or all of them when the name is absent. */
    int (*webhook_list)(struct hw_store *store, hw_str name, hw_webhook_fn fn, void *ctx,
                        howdah_error *reterr);
    /* Of all that follow: NOT_FOUND.  ret_secret has HOWDAH_WEBHOOK_SECRET_SIZE bytes. */
    int (*webhook_secret)(struct hw_store *store, hw_str name, char *ret_secret,
                          howdah_error *reterr);
    int (*webhook_enable)(struct hw_store *store, hw_str name, bool enabled, hw_str reason,
                          howdah_error *reterr);
    /* http_status < 0: none. */
    int (*webhook_report)(struct hw_store *store, hw_str name, int64_t http_status, hw_str error,
                          howdah_error *reterr);
    int (*webhook_remove)(struct hw_store *store, hw_str name, howdah_error *reterr);
} hw_registry_ops;

#endif
