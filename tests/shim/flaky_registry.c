/* flaky_registry.c - the part of the failing store that gateways need; see flaky.c. */
#include <string.h>

#include "flaky_call.h"

#define REGISTRY_FORWARD(c, op, ...)                                                               \
    ((c)->status < 0                                                                               \
         ? (c)->status                                                                             \
         : hw_flaky_end((c), (c)->inner->ops->registry->op((c)->inner, __VA_ARGS__, (c)->reterr)))

static int flaky_token_add(hw_store *store, const hw_token *token, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return REGISTRY_FORWARD(&c, token_add, token);
}

static int flaky_token_list(hw_store *store, hw_token_fn fn, void *ctx, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return REGISTRY_FORWARD(&c, token_list, fn, ctx);
}

static int flaky_token_revoke(hw_store *store, hw_str name, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return REGISTRY_FORWARD(&c, token_revoke, name);
}

static int flaky_token_used(hw_store *store, hw_str name, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return REGISTRY_FORWARD(&c, token_used, name);
}

static int flaky_webhook_set(hw_store *store, const howdah_webhook_options *options, hw_str secret,
                             bool *ret_stored, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);
    bool stored = false;

    if (REGISTRY_FORWARD(&c, webhook_set, options, secret, &stored) >= 0)
        *ret_stored = stored;
    return c.status;
}

static int flaky_webhook_list(hw_store *store, hw_str name, hw_webhook_fn fn, void *ctx,
                              howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);

    return REGISTRY_FORWARD(&c, webhook_list, name, fn, ctx);
}

static int flaky_webhook_secret(hw_store *store, hw_str name, char *ret_secret,
                                howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_READS, reterr);
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE] = "";

    if (REGISTRY_FORWARD(&c, webhook_secret, name, secret) >= 0)
        memcpy(ret_secret, secret, sizeof secret);
    return c.status;
}

static int flaky_webhook_enable(hw_store *store, hw_str name, bool enabled, hw_str reason,
                                howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return REGISTRY_FORWARD(&c, webhook_enable, name, enabled, reason);
}

static int flaky_webhook_report(hw_store *store, hw_str name, int64_t http_status, hw_str error,
                                howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return REGISTRY_FORWARD(&c, webhook_report, name, http_status, error);
}

static int flaky_webhook_remove(hw_store *store, hw_str name, howdah_error *reterr)
{
    hw_flaky_call c = hw_flaky_begin(store, HW_FLAKY_WRITES, reterr);

    return REGISTRY_FORWARD(&c, webhook_remove, name);
}

const hw_registry_ops hw_flaky_registry_ops = {
    .token_add = flaky_token_add,
    .token_list = flaky_token_list,
    .token_revoke = flaky_token_revoke,
    .token_used = flaky_token_used,
    .webhook_set = flaky_webhook_set,
    .webhook_list = flaky_webhook_list,
    .webhook_secret = flaky_webhook_secret,
    .webhook_enable = flaky_webhook_enable,
    .webhook_report = flaky_webhook_report,
    .webhook_remove = flaky_webhook_remove,
};
