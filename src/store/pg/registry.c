/* registry.c - tokens and webhooks on PostgreSQL; the functions are in registry.sql. */
#include <stdio.h>

#include "store/pg/pg.h"

static const Oid add_types[] = {HW_OID_TEXT, HW_OID_BYTEA, HW_OID_INT4,
                                HW_OID_TEXT, HW_OID_TEXT,  HW_OID_TEXT};
static const Oid set_types[] = {HW_OID_TEXT, HW_OID_TEXT, HW_OID_TEXT, HW_OID_BOOL, HW_OID_TEXT,
                                HW_OID_TEXT, HW_OID_TEXT, HW_OID_INT8, HW_OID_INT8, HW_OID_INT8,
                                HW_OID_INT8, HW_OID_TEXT, HW_OID_INT8};
static const Oid enable_types[] = {HW_OID_TEXT, HW_OID_BOOL, HW_OID_TEXT};
static const Oid report_types[] = {HW_OID_TEXT, HW_OID_INT4, HW_OID_TEXT};
static const Oid text_type[] = {HW_OID_TEXT};

#define TYPES(array) (array), (int)(sizeof(array) / sizeof(array)[0])

/* clang-format off */
const hw_pg_statement_row hw_pg_registry_statements[HW_PG_STATEMENT_COUNT] = {
    [HW_PG_TOKEN_ADD] = {"SELECT @schema@.token_add($1, $2, $3, $4, $5, $6)", TYPES(add_types)},
    [HW_PG_TOKEN_LIST] = {"SELECT t.name, t.hash, t.may, t.patterns, t.streams, t.queues, t.created_at,"
                          " t.used_at, t.revoked_at FROM @schema@.token_list() AS t", NULL, 0},
    [HW_PG_TOKEN_REVOKE] = {"SELECT @schema@.token_revoke($1)", TYPES(text_type)},
    [HW_PG_TOKEN_USED] = {"SELECT @schema@.token_used($1)", TYPES(text_type)},
    [HW_PG_WEBHOOK_SET] = {"SELECT @schema@.webhook_set($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,"
                           " $12, $13)", TYPES(set_types)},
    [HW_PG_WEBHOOK_LIST] = {"SELECT w.webhook, w.url, w.subscriber, w.pattern, w.stream, w.headers,"
                            " w.start, w.timeout_ms, w.max_retries, w.retry_delay_ms,"
                            " w.max_retry_delay_ms, w.enabled, w.reason, w.disabled_at, w.created_at,"
                            " w.changed_at, w.tried_at, w.last_status::bigint, w.last_error"
                            " FROM @schema@.webhook_list($1) AS w", TYPES(text_type)},
    [HW_PG_WEBHOOK_SECRET] = {"SELECT @schema@.webhook_secret($1)", TYPES(text_type)},
    [HW_PG_WEBHOOK_ENABLE] = {"SELECT @schema@.webhook_enable($1, $2, $3)", TYPES(enable_types)},
    [HW_PG_WEBHOOK_REPORT] = {"SELECT @schema@.webhook_report($1, $2, $3)", TYPES(report_types)},
    [HW_PG_WEBHOOK_REMOVE] = {"SELECT @schema@.webhook_remove($1)", TYPES(text_type)},
};
/* clang-format on */

static int none_of(const char *what, hw_str name, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no %s \"%.*s\"", what, (int)name.len,
                   name.s);
}

/* A call of which only its success matters, or the one truth that it answers. */
static int run(hw_pg *pg, const hw_pg_call *call, bool *ret_answer, howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = hw_pg_exec(pg, call, &result, reterr);

    if (s >= 0 && ret_answer)
        *ret_answer = hw_pg_get_bool(result, 0, 0);
    PQclear(result);
    return s;
}

/* ------------------------------------------------------------------- tokens */

static int token_add(hw_store *store, const hw_token *token, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_TOKEN_ADD, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, token->name);
    hw_pg_param_bin(&call, token->hash.s, token->hash.len);
    hw_pg_param_int4(&call, (int32_t)token->may);
    hw_pg_param_str(&call, token->patterns);
    hw_pg_param_str(&call, token->streams);
    hw_pg_param_str(&call, token->queues);
    return run(pg, &call, NULL, reterr);
}

static int token_list(hw_store *store, hw_token_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    const hw_pg_call call = {.statement = HW_PG_TOKEN_LIST};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    s = hw_pg_query(pg, &call, &r, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(r); i++) {
        const hw_token token = {
            .name = hw_pg_get_str(r, i, 0),
            .hash = hw_pg_get_str(r, i, 1),
            .may = hw_pg_get_int4(r, i, 2),
            .patterns = hw_pg_get_str(r, i, 3),
            .streams = hw_pg_get_str(r, i, 4),
            .queues = hw_pg_get_str(r, i, 5),
            .created_at_us = hw_pg_get_time(r, i, 6),
            .used_at_us = hw_pg_get_time(r, i, 7),
            .revoked_at_us = hw_pg_get_time(r, i, 8),
        };

        if (fn(ctx, &token) != 0)
            break;
    }
    PQclear(r);
    return s;
}

static int named(hw_store *store, int statement, hw_str name, bool *ret_answer,
                 howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = statement, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, name);
    return run(pg, &call, ret_answer, reterr);
}

static int token_revoke(hw_store *store, hw_str name, howdah_error *reterr)
{
    return named(store, HW_PG_TOKEN_REVOKE, name, NULL, reterr);
}

static int token_used(hw_store *store, hw_str name, howdah_error *reterr)
{
    return named(store, HW_PG_TOKEN_USED, name, NULL, reterr);
}

/* ----------------------------------------------------------------- webhooks */

static int webhook_set(hw_store *store, const howdah_webhook_options *o, hw_str secret,
                       bool *ret_stored, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_WEBHOOK_SET, .writes = true};
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, hw_str_of(o->name));
    hw_pg_param_str(&call, hw_str_of(o->url));
    hw_pg_param_str(&call, secret);
    hw_pg_param_bool(&call, o->new_secret);
    hw_pg_param_str(&call, hw_str_of(o->subscriber_id));
    hw_pg_param_str(&call, hw_str_of(o->pattern));
    hw_pg_param_str(&call, hw_str_of(o->stream));
    hw_pg_param_int8(&call, o->start);
    hw_pg_param_int8(&call, o->max_retries);
    hw_pg_param_int8(&call, o->retry_delay_ms);
    hw_pg_param_int8(&call, o->max_retry_delay_ms);
    hw_pg_param_str(&call, hw_str_of(o->headers));
    hw_pg_param_int8(&call, o->timeout_ms);
    return run(pg, &call, ret_stored, reterr);
}

/* Texts of a result end with a NUL; absent ones are NULL. */
static howdah_webhook_info info_of(const PGresult *r, int i)
{
    return (howdah_webhook_info){
        .size = sizeof(howdah_webhook_info),
        .name = hw_pg_get_str(r, i, 0).s,
        .url = hw_pg_get_str(r, i, 1).s,
        .subscriber_id = hw_pg_get_str(r, i, 2).s,
        .pattern = hw_pg_get_str(r, i, 3).s,
        .stream = hw_pg_get_str(r, i, 4).s,
        .headers = hw_pg_get_str(r, i, 5).s,
        .start = hw_pg_get_int8(r, i, 6),
        .timeout_ms = hw_pg_get_int8(r, i, 7),
        .max_retries = hw_pg_get_int8(r, i, 8),
        .retry_delay_ms = hw_pg_get_int8(r, i, 9),
        .max_retry_delay_ms = hw_pg_get_int8(r, i, 10),
        .enabled = hw_pg_get_bool(r, i, 11),
        .reason = hw_pg_get_str(r, i, 12).s,
        .disabled_at_us = hw_pg_get_time(r, i, 13),
        .created_at_us = hw_pg_get_time(r, i, 14),
        .changed_at_us = hw_pg_get_time(r, i, 15),
        .tried_at_us = hw_pg_get_time(r, i, 16),
        .last_status = hw_pg_get_int8_or(r, i, 17, HOWDAH_ABSENT),
        .last_error = hw_pg_get_str(r, i, 18).s,
    };
}

static int webhook_list(hw_store *store, hw_str name, hw_webhook_fn fn, void *ctx,
                        howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_WEBHOOK_LIST};
    PGresult *r = NULL;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, name);
    s = hw_pg_query(pg, &call, &r, reterr);
    if (s >= 0 && name.s && PQntuples(r) == 0)
        s = none_of("webhook", name, reterr);
    for (int i = 0; s >= 0 && i < PQntuples(r); i++) {
        const howdah_webhook_info info = info_of(r, i);

        if (fn(ctx, &info) != 0)
            break;
    }
    PQclear(r);
    return s;
}

static int webhook_secret(hw_store *store, hw_str name, char *ret_secret, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_WEBHOOK_SECRET};
    PGresult *r = NULL;
    hw_str secret;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, name);
    s = hw_pg_query(pg, &call, &r, reterr);
    secret = s >= 0 ? hw_pg_get_str(r, 0, 0) : HW_STR_NULL;
    if (s >= 0 && !secret.s)
        s = none_of("webhook", name, reterr);
    else if (s >= 0)
        (void)snprintf(ret_secret, HOWDAH_WEBHOOK_SECRET_SIZE, "%s", secret.s);
    PQclear(r);
    return s;
}

static int webhook_enable(hw_store *store, hw_str name, bool enabled, hw_str reason,
                          howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_WEBHOOK_ENABLE, .writes = true};
    bool there = false;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, name);
    hw_pg_param_bool(&call, enabled);
    hw_pg_param_str(&call, reason);
    s = run(pg, &call, &there, reterr);
    return s < 0 || there ? s : none_of("webhook", name, reterr);
}

static int webhook_report(hw_store *store, hw_str name, int64_t http_status, hw_str error,
                          howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    hw_pg_call call = {.statement = HW_PG_WEBHOOK_REPORT, .writes = true};
    bool there = false;
    int s = hw_pg_ready(pg, reterr);

    if (s < 0)
        return s;
    hw_pg_param_str(&call, name);
    if (http_status < 0)
        hw_pg_param_null(&call);
    else
        hw_pg_param_int4(&call, (int32_t)http_status);
    hw_pg_param_str(&call, error);
    s = run(pg, &call, &there, reterr);
    return s < 0 || there ? s : none_of("webhook", name, reterr);
}

static int webhook_remove(hw_store *store, hw_str name, howdah_error *reterr)
{
    bool there = false;
    int s = named(store, HW_PG_WEBHOOK_REMOVE, name, &there, reterr);

    return s < 0 || there ? s : none_of("webhook", name, reterr);
}

const hw_registry_ops hw_pg_registry_ops = {
    .token_add = token_add,
    .token_list = token_list,
    .token_revoke = token_revoke,
    .token_used = token_used,
    .webhook_set = webhook_set,
    .webhook_list = webhook_list,
    .webhook_secret = webhook_secret,
    .webhook_enable = webhook_enable,
    .webhook_report = webhook_report,
    .webhook_remove = webhook_remove,
};
