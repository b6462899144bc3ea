/*
 * registry.c - tokens and webhooks: what gateways have to agree on.
 *
 *   I1  A secret is made here, from the system's randomness, and handed out once.  It is in no
 *       error, no log and no statement's text.
 *   I2  A secret whose store has an unknown outcome is not handed out: nobody would know whether
 *       it is good.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/bus.h"
#include "engine/rules.h"

#define SECRET_BYTES 32
#define TOKEN_PREFIX "hwd_"
#define WEBHOOK_PREFIX "whsec_"
#define LINES_BYTES_MAX ((size_t)HOWDAH_TOKEN_SCOPES_MAX * 256)
#define ERROR_BYTES_MAX 1000
#define WEBHOOK_NAME_MAX 200
#define HEADER_BYTES_MAX 4000 /* of a name, and of a value */

static const hw_registry_ops *ops_of(const howdah_bus *bus)
{
    return bus->store->ops->registry;
}

static int enter_named(hw_entry *entry, howdah_bus **bus, unsigned what, const char *name,
                       const char *call, howdah_error *reterr)
{
    int s = hw_enter(entry, bus, what, call, reterr);

    if (s >= 0 && !ops_of(*bus))
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: this store keeps nothing for gateways", call);
    return s < 0 || !name ? s : hw_rule_name("name", hw_str_of(name), reterr);
}

/* ------------------------------------------------------------------ secrets */

/* prefix and base64, of the kind for URLs: without padding, with - and _. */
static int make_secret(const char *prefix, bool for_urls, char *ret_secret, size_t room,
                       howdah_error *reterr)
{
    uint8_t bytes[SECRET_BYTES];
    hw_buf text = HW_BUF_INIT(256);
    int s;

    if (!hw_random_bytes(bytes, sizeof bytes))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness");
    hw_buf_puts(&text, prefix);
    hw_base64_put(&text, bytes, sizeof bytes);
    OPENSSL_cleanse(bytes, sizeof bytes);
    s = hw_buf_check(&text, reterr);
    if (s >= 0) {
        (void)snprintf(ret_secret, room, "%s", hw_buf_str(&text));
        for (char *c = ret_secret; for_urls && *c; c++)
            *c = *c == '+' ? '-' : *c == '/' ? '_' : *c == '=' ? '\0' : *c;
        OPENSSL_cleanse(text.data, text.len);
    }
    hw_buf_done(&text);
    return s;
}

int howdah_token_hash(const char *secret, unsigned char ret_hash[HOWDAH_TOKEN_HASH_SIZE],
                      howdah_error *reterr)
{
    if (!secret || !ret_hash)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_token_hash: an argument is NULL");
    return hw_sha256(secret, strlen(secret), ret_hash) ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* ------------------------------------------------------------------- tokens */

/* "order-*": the star is no part of the name. */
static int check_prefix(const char *field, const char *text, howdah_error *reterr)
{
    return hw_rule_name(field, hw_str_of(text), reterr);
}

static int check_pattern(const char *field, const char *text, howdah_error *reterr)
{
    (void)field;
    return hw_rule_pattern(hw_str_of(text), reterr);
}

/* A list as the store keeps it. */
static int join(const char *field, const char *const *list, size_t n,
                int (*check)(const char *field, const char *text, howdah_error *reterr),
                hw_buf *out, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (n > 0 && !list)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_token_add: %s is NULL", field);
    if (n > HOWDAH_TOKEN_SCOPES_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, field, "must be at most %d",
                             HOWDAH_TOKEN_SCOPES_MAX);
    for (size_t i = 0; s >= 0 && i < n; i++) {
        s = check(field, list[i], reterr);
        hw_buf_puts(out, i > 0 ? "\n" : "");
        hw_buf_puts(out, s >= 0 ? list[i] : "");
    }
    return s < 0 ? s : hw_buf_check(out, reterr);
}

static int add_token(howdah_bus *bus, const howdah_token_options *o, hw_buf lists[3],
                     char ret_secret[HOWDAH_TOKEN_SIZE], howdah_error *reterr)
{
    uint8_t hash[HW_SHA256_BYTES];
    char secret[HOWDAH_TOKEN_SIZE];
    hw_token token = {.name = hw_str_of(o->name), .may = o->may};
    int s = join("pattern", o->patterns, o->patterns_n, check_pattern, &lists[0], reterr);

    if (s >= 0)
        s = join("stream", o->streams, o->streams_n, check_prefix, &lists[1], reterr);
    if (s >= 0)
        s = join("queue", o->queues, o->queues_n, check_prefix, &lists[2], reterr);
    if (s >= 0)
        s = make_secret(TOKEN_PREFIX, true, secret, sizeof secret, reterr);
    if (s >= 0)
        s = howdah_token_hash(secret, hash, reterr);
    if (s < 0)
        return s;
    token.hash = (hw_str){(const char *)hash, sizeof hash};
    token.patterns = (hw_str){hw_buf_str(&lists[0]), lists[0].len};
    token.streams = (hw_str){hw_buf_str(&lists[1]), lists[1].len};
    token.queues = (hw_str){hw_buf_str(&lists[2]), lists[2].len};
    s = ops_of(bus)->token_add(bus->store, &token, reterr);
    if (s >= 0)
        memcpy(ret_secret, secret, sizeof secret);
    OPENSSL_cleanse(secret, sizeof secret);
    return s;
}

int howdah_token_add(howdah_bus *bus, const howdah_token_options *options,
                     char ret_secret[HOWDAH_TOKEN_SIZE], howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_token_options own = HOWDAH_TOKEN_OPTIONS_INIT;
    hw_buf lists[3] = {HW_BUF_INIT(LINES_BYTES_MAX), HW_BUF_INIT(LINES_BYTES_MAX),
                       HW_BUF_INIT(LINES_BYTES_MAX)};
    int s = enter_named(&entry, &bus, HW_WRITES, NULL, "howdah_token_add", reterr);

    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_token_add", reterr);
    if (s >= 0 && !ret_secret)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_token_add: ret_secret is NULL");
    if (s >= 0)
        s = hw_rule_name("name", hw_str_of(own.name), reterr);
    if (s >= 0 && (own.may < 1 || own.may > HOWDAH_MAY_ALL))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "may", "must be a sum of HOWDAH_MAY_...");
    if (s >= 0)
        s = add_token(bus, &own, lists, ret_secret, reterr);
    for (size_t i = 0; i < 3; i++)
        hw_buf_done(&lists[i]);
    return s;
}

/* A token on its way to the caller. */
typedef struct giving {
    int (*fn)(void *ctx, const howdah_token_info *info);
    void *ctx;
    hw_buf texts;
    const char *list[3][HOWDAH_TOKEN_SCOPES_MAX];
    int status;
    howdah_error *reterr;
} giving;

/* The lines, each ended with a NUL, in memory that does not move: room was made before. */
static size_t split(giving *g, hw_str lines, const char **list)
{
    size_t n = 0;

    while (lines.len > 0 && n < HOWDAH_TOKEN_SCOPES_MAX) {
        const char *end = memchr(lines.s, '\n', lines.len);
        size_t len = end ? (size_t)(end - lines.s) : lines.len;

        list[n++] = hw_buf_str(&g->texts) + g->texts.len;
        hw_buf_put(&g->texts, lines.s, len);
        hw_buf_putc(&g->texts, '\0');
        len += end != NULL;
        lines = (hw_str){lines.s + len, lines.len - len};
    }
    return n;
}

static int give_token(void *ctx, const hw_token *token)
{
    giving *g = ctx;
    howdah_token_info info = {.size = sizeof info,
                              .may = token->may,
                              .created_at_us = token->created_at_us,
                              .used_at_us = token->used_at_us,
                              .revoked_at_us = token->revoked_at_us};

    hw_buf_clear(&g->texts);
    if (token->hash.len != HOWDAH_TOKEN_HASH_SIZE ||
        !hw_buf_reserve(&g->texts, token->name.len + token->patterns.len + token->streams.len +
                                       token->queues.len + 8)) {
        g->status = hw_buf_check(&g->texts, g->reterr);
        if (g->status >= 0)
            g->status = hw_fail(g->reterr, HOWDAH_CORRUPT, "a token has a damaged hash");
        return 1;
    }
    info.name = hw_buf_str(&g->texts);
    hw_buf_put(&g->texts, token->name.s, token->name.len);
    hw_buf_putc(&g->texts, '\0');
    info.hash = (const unsigned char *)token->hash.s;
    info.patterns = g->list[0];
    info.patterns_n = split(g, token->patterns, g->list[0]);
    info.streams = g->list[1];
    info.streams_n = split(g, token->streams, g->list[1]);
    info.queues = g->list[2];
    info.queues_n = split(g, token->queues, g->list[2]);
    return g->fn(g->ctx, &info);
}

int howdah_tokens_walk(howdah_bus *bus, int (*fn)(void *ctx, const howdah_token_info *info),
                       void *ctx, howdah_error *reterr)
{
    HW_ENTRY(entry);
    giving g = {.fn = fn, .ctx = ctx, .texts = HW_BUF_INIT(4 * LINES_BYTES_MAX), .reterr = reterr};
    int s = enter_named(&entry, &bus, HW_READS, NULL, "howdah_tokens_walk", reterr);

    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_tokens_walk: fn is NULL");
    if (s >= 0)
        s = ops_of(bus)->token_list(bus->store, give_token, &g, reterr);
    hw_buf_done(&g.texts);
    return g.status < 0 ? g.status : s;
}

static int check_given(const char *name, const char *call, howdah_error *reterr)
{
    return name ? HOWDAH_OK : hw_fail(reterr, HOWDAH_MISUSE, "%s: the name is NULL", call);
}

int howdah_token_revoke(howdah_bus *bus, const char *name, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_WRITES, name, "howdah_token_revoke", reterr);

    if (s >= 0)
        s = check_given(name, "howdah_token_revoke", reterr);
    return s < 0 ? s : ops_of(bus)->token_revoke(bus->store, hw_str_of(name), reterr);
}

int howdah_token_used(howdah_bus *bus, const char *name, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_WRITES, name, "howdah_token_used", reterr);

    if (s >= 0)
        s = check_given(name, "howdah_token_used", reterr);
    return s < 0 ? s : ops_of(bus)->token_used(bus->store, hw_str_of(name), reterr);
}

/* ----------------------------------------------------------------- webhooks */

static int check_url(const char *url, howdah_error *reterr)
{
    size_t len = url ? strlen(url) : 0;
    size_t skip = url && strncmp(url, "https://", 8) == 0  ? 8
                  : url && strncmp(url, "http://", 7) == 0 ? 7
                                                           : 0;
    bool printable = true;

    for (size_t i = 0; i < len; i++)
        printable = printable && url[i] > 0x20 && url[i] < 0x7f;
    if (!url)
        return hw_fail_field(reterr, HOWDAH_INVALID, "url", "is required");
    if (len > HOWDAH_WEBHOOK_URL_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "url", "must be at most %d bytes, got %zu",
                             HOWDAH_WEBHOOK_URL_MAX, len);
    if (skip == 0 || len == skip || url[skip] == '/' || !printable)
        return hw_fail_field(reterr, HOWDAH_INVALID, "url",
                             "must be http:// or https:// and a host, in printable ASCII");
    /* Programs disagree about where such a host ends, and a password would be shown. */
    if (memchr(url + skip, '@', strcspn(url + skip, "/?#")) || strchr(url, '\\'))
        return hw_advise(reterr,
                         hw_fail_field(reterr, HOWDAH_INVALID, "url",
                                       "must have no user and password, and no backslash"),
                         "a header can say who asks: Authorization");
    return HOWDAH_OK;
}

/* What the sender says itself, or what would change where a request begins and ends. */
static bool is_reserved(const char *name)
{
    static const char *const names[] = {
        "connection",        "content-length",   "content-type", "expect",     "host",
        "keep-alive",        "proxy-connection", "te",           "trailer",    "traceparent",
        "transfer-encoding", "tracestate",       "upgrade",      "user-agent",
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasecmp(names[i], name) == 0)
            return true;
    return strncasecmp(name, "webhook-", 8) == 0;
}

static int check_header(hw_str raw_name, hw_str raw_value, howdah_error *reterr)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    hw_buf name = HW_BUF_INIT(HEADER_BYTES_MAX);
    hw_buf value = HW_BUF_INIT(HEADER_BYTES_MAX);
    int s = HOWDAH_OK;

    hw_json_unescape(raw_name.s, raw_name.len, &name);
    hw_json_unescape(raw_value.s + 1, raw_value.len - 2, &value);
    if (name.broken == HOWDAH_NO_MEMORY || value.broken == HOWDAH_NO_MEMORY)
        s = hw_fail_no_memory(reterr);
    else if (name.broken || value.broken)
        s = hw_fail_field(reterr, HOWDAH_LIMIT, "headers",
                          "a name, and a value, must be less than %d bytes", HEADER_BYTES_MAX);
    if (s >= 0 && (name.len == 0 || strspn(hw_buf_str(&name), token) != name.len))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "headers", "a name must be a token of HTTP");
    if (s >= 0 && is_reserved(hw_buf_str(&name)))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "headers", "%s is set by the sender",
                          hw_buf_str(&name));
    if (s >= 0 && (hw_utf8_has_control(hw_buf_str(&value), value.len)))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "headers",
                          "a value must be one line without control characters");
    hw_buf_done(&name);
    hw_buf_done(&value);
    return s;
}

static int check_headers(hw_str headers, howdah_error *reterr)
{
    hw_str name;
    hw_str value;
    size_t pos = 0;
    int s = hw_rule_headers(headers, reterr);

    while (s >= 0 && hw_json_member(headers.s, headers.len, &pos, &name, &value))
        s = check_header(name, value, reterr);
    return s;
}

static int check_webhook(const howdah_webhook_options *o, howdah_error *reterr)
{
    const int64_t day_ms = INT64_C(24) * 3600 * 1000;
    const hw_number_rule rules[] = {
        {"start", o->start, HOWDAH_FROM_END, INT64_C(999999999999999999), ""},
        {"timeout", o->timeout_ms, 100, 5 * 60 * 1000, " ms"},
        {"max_retries", o->max_retries, 0, 1000000, ""},
        {"retry_delay", o->retry_delay_ms, 0, day_ms, " ms"},
        {"max_retry_delay", o->max_retry_delay_ms, 0, day_ms, " ms"},
    };
    int s = hw_rule_name("name", hw_str_of(o->name), reterr);

    if (s >= 0 && strlen(o->name) > WEBHOOK_NAME_MAX)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "name", "must be 1 to %d bytes, got %zu",
                          WEBHOOK_NAME_MAX, strlen(o->name));
    if (s >= 0)
        s = check_url(o->url, reterr);
    if (s >= 0 && o->subscriber_id)
        s = hw_rule_name("subscriber_id", hw_str_of(o->subscriber_id), reterr);
    if (s >= 0 && o->pattern)
        s = hw_rule_pattern(hw_str_of(o->pattern), reterr);
    if (s >= 0 && o->stream)
        s = hw_rule_stream(hw_str_of(o->stream), reterr);
    if (s >= 0 && o->headers)
        s = check_headers(hw_str_of(o->headers), reterr);
    return s < 0 ? s : hw_rule_numbers(rules, sizeof rules / sizeof *rules, reterr);
}

int howdah_webhook_set(howdah_bus *bus, const howdah_webhook_options *options,
                       char ret_secret[HOWDAH_WEBHOOK_SECRET_SIZE], howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_webhook_options own = HOWDAH_WEBHOOK_OPTIONS_INIT;
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE] = "";
    char subscriber[256];
    bool stored = false;
    int s = enter_named(&entry, &bus, HW_WRITES, NULL, "howdah_webhook_set", reterr);

    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_webhook_set", reterr);
    if (s >= 0 && !ret_secret)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_webhook_set: ret_secret is NULL");
    if (s >= 0)
        s = check_webhook(&own, reterr);
    if (s >= 0)
        s = make_secret(WEBHOOK_PREFIX, false, secret, sizeof secret, reterr);
    if (s < 0)
        return s;
    (void)snprintf(subscriber, sizeof subscriber, "webhook.%s", own.name);
    if (!own.subscriber_id)
        own.subscriber_id = subscriber;
    s = ops_of(bus)->webhook_set(bus->store, &own, hw_str_of(secret), &stored, reterr);
    if (s >= 0)
        (void)snprintf(ret_secret, HOWDAH_WEBHOOK_SECRET_SIZE, "%s", stored ? secret : "");
    OPENSSL_cleanse(secret, sizeof secret);
    return s;
}

int howdah_webhooks_walk(howdah_bus *bus, const char *name,
                         int (*fn)(void *ctx, const howdah_webhook_info *info), void *ctx,
                         howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_READS, name, "howdah_webhooks_walk", reterr);

    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_webhooks_walk: fn is NULL");
    return s < 0 ? s : ops_of(bus)->webhook_list(bus->store, hw_str_of(name), fn, ctx, reterr);
}

int howdah_webhook_secret(howdah_bus *bus, const char *name,
                          char ret_secret[HOWDAH_WEBHOOK_SECRET_SIZE], howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_READS, name, "howdah_webhook_secret", reterr);

    if (s >= 0 && (!name || !ret_secret))
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_webhook_secret: an argument is NULL");
    return s < 0 ? s : ops_of(bus)->webhook_secret(bus->store, hw_str_of(name), ret_secret, reterr);
}

int howdah_webhook_remove(howdah_bus *bus, const char *name, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_WRITES, name, "howdah_webhook_remove", reterr);

    if (s >= 0)
        s = check_given(name, "howdah_webhook_remove", reterr);
    return s < 0 ? s : ops_of(bus)->webhook_remove(bus->store, hw_str_of(name), reterr);
}

int howdah_webhook_disable(howdah_bus *bus, const char *name, const char *reason,
                           howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_WRITES, name, "howdah_webhook_disable", reterr);

    if (s >= 0)
        s = check_given(name, "howdah_webhook_disable", reterr);
    if (s >= 0 && reason)
        s = hw_rule_reason(hw_str_of(reason), reterr);
    return s < 0 ? s
                 : ops_of(bus)->webhook_enable(bus->store, hw_str_of(name), false,
                                               hw_str_of(reason), reterr);
}

int howdah_webhook_enable(howdah_bus *bus, const char *name, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = enter_named(&entry, &bus, HW_WRITES, name, "howdah_webhook_enable", reterr);

    if (s >= 0)
        s = check_given(name, "howdah_webhook_enable", reterr);
    return s < 0 ? s
                 : ops_of(bus)->webhook_enable(bus->store, hw_str_of(name), true, HW_STR_NULL,
                                               reterr);
}

/* An error comes from outside: it is made fit to be stored. */
int howdah_webhook_report(howdah_bus *bus, const char *name, int64_t http_status, const char *error,
                          howdah_error *reterr)
{
    HW_ENTRY(entry);
    char text[ERROR_BYTES_MAX + 1] = "";
    int s = enter_named(&entry, &bus, HW_WRITES, name, "howdah_webhook_report", reterr);

    if (s >= 0)
        s = check_given(name, "howdah_webhook_report", reterr);
    if (s >= 0 && (http_status < HOWDAH_ABSENT || http_status > 999))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "http_status", "must be a status of HTTP");
    if (s < 0)
        return s;
    if (error)
        hw_utf8_copy(text, sizeof text, error);
    return ops_of(bus)->webhook_report(bus->store, hw_str_of(name), http_status,
                                       error ? hw_str_of(text) : HW_STR_NULL, reterr);
}
