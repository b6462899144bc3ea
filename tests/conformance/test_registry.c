/* test_registry.c - what gateways agree on: tokens and webhooks. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "conformance.h"

#define DAY_US INT64_C(86400000000)

static void put_list(char *text, const char *const *list, size_t n)
{
    (void)strcat(text, "[");
    for (size_t i = 0; i < n; i++) {
        (void)strcat(text, i > 0 ? "," : "");
        (void)strcat(text, list[i]);
    }
    (void)strcat(text, "]");
}

static int on_token(void *ctx, const howdah_token_info *info)
{
    char *text = ctx;

    (void)snprintf(text + strlen(text), 50, "%s %d ", info->name, (int)info->may);
    put_list(text, info->patterns, info->patterns_n);
    put_list(text, info->streams, info->streams_n);
    put_list(text, info->queues, info->queues_n);
    (void)strcat(text, info->revoked_at_us == HOWDAH_NO_TIME ? "; " : " revoked; ");
    return 0;
}

static const char *tokens(howdah_bus *bus)
{
    static char text[1000];

    text[0] = '\0';
    cf_ok(howdah_tokens_walk(bus, on_token, text, &cf_error));
    return text;
}

static int add(howdah_bus *bus, const char *name, char secret[HOWDAH_TOKEN_SIZE])
{
    howdah_token_options o = HOWDAH_TOKEN_OPTIONS_INIT;

    o.name = name;
    o.may = HOWDAH_MAY_READ | HOWDAH_MAY_WORK;
    return howdah_token_add(bus, &o, secret, &cf_error);
}

static int keep_hash(void *ctx, const howdah_token_info *info)
{
    memcpy(ctx, info->hash, HOWDAH_TOKEN_HASH_SIZE);
    return 1;
}

static int keep_times(void *ctx, const howdah_token_info *info)
{
    *(howdah_token_info *)ctx = *info;
    return 1;
}

static void a_tokens_secret_is_told_once_and_its_hash_is_stored(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    char first[HOWDAH_TOKEN_SIZE];
    char second[HOWDAH_TOKEN_SIZE];
    unsigned char expected[HOWDAH_TOKEN_HASH_SIZE];
    unsigned char stored[HOWDAH_TOKEN_HASH_SIZE];

    cf_ok(add(admin, "a", first));
    cf_ok(add(admin, "b", second));
    assert_int_equal(strlen(first), 47);
    assert_memory_equal(first, "hwd_", 4);
    assert_int_equal(
        strspn(first, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 47);
    assert_string_not_equal(first, second);
    assert_true(hw_sha256(first, strlen(first), expected));
    cf_ok(howdah_tokens_walk(c->bus, keep_hash, stored, &cf_error));
    assert_memory_equal(stored, expected, sizeof expected);
    cf_ok(howdah_token_hash(first, stored, &cf_error));
    assert_memory_equal(stored, expected, sizeof expected);
    (void)howdah_close(admin);
}

static void scopes_come_back_as_they_were_given(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    const char *const patterns[] = {"order.*", "payment.>"};
    const char *const streams[] = {"order-*"};
    const char *const queues[] = {"mails", "m\xc3\xa4rz", "*"};
    howdah_token_options o = HOWDAH_TOKEN_OPTIONS_INIT;
    char secret[HOWDAH_TOKEN_SIZE];

    o.name = "shop";
    o.may = HOWDAH_MAY_ALL;
    o.patterns = patterns;
    o.patterns_n = 2;
    o.streams = streams;
    o.streams_n = 1;
    o.queues = queues;
    o.queues_n = 3;
    cf_ok(howdah_token_add(admin, &o, secret, &cf_error));
    cf_ok(add(admin, "all", secret));
    assert_string_equal(tokens(c->bus), "all 9 [][][]; shop 31 [order.*,payment.>][order-*]"
                                        "[mails,m\xc3\xa4rz,*]; ");
    (void)howdah_close(admin);
}

static void a_name_is_taken_until_its_token_is_revoked(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    char secret[HOWDAH_TOKEN_SIZE] = "untouched";
    char other[HOWDAH_TOKEN_SIZE];

    cf_ok(add(admin, "a", other));
    assert_int_equal(add(admin, "a", secret), HOWDAH_CONFLICT);
    assert_string_equal(secret, "untouched");
    cf_ok(howdah_token_revoke(admin, "a", &cf_error));
    cf_ok(howdah_token_revoke(admin, "a", &cf_error));
    assert_string_equal(tokens(c->bus), "a 9 [][][] revoked; ");
    cf_ok(add(admin, "a", secret));
    assert_string_equal(tokens(c->bus), "a 9 [][][]; ");
    assert_string_not_equal(secret, other);
    assert_int_equal(howdah_token_revoke(admin, "b", &cf_error), HOWDAH_NOT_FOUND);
    (void)howdah_close(admin);
}

static void what_is_no_token_is_refused(void **state)
{
    cf *c = *state;
    const char *const bad[] = {"order..x"};
    const char *const line[] = {"a\nb"};
    howdah_token_options o = HOWDAH_TOKEN_OPTIONS_INIT;
    char secret[HOWDAH_TOKEN_SIZE];

    assert_int_equal(howdah_token_add(c->bus, &o, secret, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "name");
    o.name = "a";
    assert_int_equal(howdah_token_add(c->bus, &o, secret, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "may");
    o.may = 32;
    assert_int_equal(howdah_token_add(c->bus, &o, secret, &cf_error), HOWDAH_INVALID);
    o.may = 1;
    o.patterns = bad;
    o.patterns_n = 1;
    assert_int_equal(howdah_token_add(c->bus, &o, secret, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "pattern");
    o.patterns_n = 0;
    o.streams = line;
    o.streams_n = 1;
    assert_int_equal(howdah_token_add(c->bus, &o, secret, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "stream");
    assert_string_equal(tokens(c->bus), "");
}

static void the_day_on_which_a_token_is_used_is_kept(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_token_info info;
    char secret[HOWDAH_TOKEN_SIZE];

    cf_ok(add(admin, "a", secret));
    cf_ok(howdah_tokens_walk(c->bus, keep_times, &info, &cf_error));
    assert_int_equal(info.used_at_us, HOWDAH_NO_TIME);
    cf_ok(howdah_token_used(c->bus, "a", &cf_error));
    cf_ok(howdah_token_used(c->bus, "nobody", &cf_error));
    cf_ok(howdah_tokens_walk(c->bus, keep_times, &info, &cf_error));
    assert_int_equal(info.used_at_us % DAY_US, 0);
    assert_in_range(info.created_at_us - info.used_at_us, 0, DAY_US);
    (void)howdah_close(admin);
}

/* ----------------------------------------------------------------- webhooks */

static int on_webhook(void *ctx, const howdah_webhook_info *i)
{
    char *text = ctx;

    (void)snprintf(text + strlen(text), 500,
                   "%s %s %s %s %s %s %lld %lld %lld %lld %lld %s %s %s %lld %s; ", i->name, i->url,
                   i->subscriber_id, i->pattern ? i->pattern : "-", i->stream ? i->stream : "-",
                   i->headers ? i->headers : "-", (long long)i->start, (long long)i->timeout_ms,
                   (long long)i->max_retries, (long long)i->retry_delay_ms,
                   (long long)i->max_retry_delay_ms, i->enabled ? "on" : "off",
                   i->reason ? i->reason : "-", i->disabled_at_us == HOWDAH_NO_TIME ? "-" : "since",
                   (long long)i->last_status, i->last_error ? i->last_error : "-");
    return 0;
}

static const char *webhooks(howdah_bus *bus, const char *name)
{
    static char text[2000];

    text[0] = '\0';
    cf_ok(howdah_webhooks_walk(bus, name, on_webhook, text, &cf_error));
    return text;
}

static howdah_webhook_options webhook(const char *name)
{
    howdah_webhook_options o = HOWDAH_WEBHOOK_OPTIONS_INIT;

    o.name = name;
    o.url = "https://shop.example/hooks";
    return o;
}

static void a_webhook_is_made_and_changed_and_keeps_its_secret(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_webhook_options o = webhook("shop");
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE];
    char again[HOWDAH_WEBHOOK_SECRET_SIZE];

    cf_ok(howdah_webhook_set(admin, &o, secret, &cf_error));
    assert_int_equal(strlen(secret), 6 + 44);
    assert_memory_equal(secret, "whsec_", 6);
    assert_string_equal(webhooks(admin, NULL),
                        "shop https://shop.example/hooks webhook.shop - - - -1 10000 10 5000 "
                        "3600000 on - - -1 -; ");
    o.url = "http://127.0.0.1:1/x";
    o.subscriber_id = "mine";
    o.pattern = "order.*";
    o.stream = "s";
    o.headers = "{\"A\":\"b\"}";
    o.start = 7;
    o.timeout_ms = 100;
    o.max_retries = 0;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 2;
    cf_ok(howdah_webhook_set(admin, &o, again, &cf_error));
    assert_string_equal(again, "");
    assert_string_equal(webhooks(admin, "shop"),
                        "shop http://127.0.0.1:1/x mine order.* s {\"A\":\"b\"} 7 100 0 1 2 on - - "
                        "-1 -; ");
    cf_ok(howdah_webhook_secret(admin, "shop", again, &cf_error));
    assert_string_equal(again, secret);
    o.new_secret = true;
    cf_ok(howdah_webhook_set(admin, &o, again, &cf_error));
    assert_string_not_equal(again, secret);
    cf_ok(howdah_webhook_secret(admin, "shop", secret, &cf_error));
    assert_string_equal(again, secret);
    (void)howdah_close(admin);
}

static void a_webhook_is_disabled_enabled_and_removed(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_webhook_options o = webhook("a");
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE];

    cf_ok(howdah_webhook_set(admin, &o, secret, &cf_error));
    cf_ok(howdah_webhook_report(admin, "a", 503, "busy", &cf_error));
    cf_ok(howdah_webhook_disable(admin, "a", "410 Gone", &cf_error));
    assert_non_null(strstr(webhooks(admin, "a"), " off 410 Gone since 503 busy; "));
    cf_ok(howdah_webhook_set(admin, &o, secret, &cf_error)); /* it stays disabled */
    assert_non_null(strstr(webhooks(admin, "a"), " off 410 Gone since 503 busy; "));
    cf_ok(howdah_webhook_enable(admin, "a", &cf_error));
    cf_ok(howdah_webhook_report(admin, "a", 200, NULL, &cf_error));
    assert_non_null(strstr(webhooks(admin, "a"), " on - - 200 -; "));
    cf_ok(howdah_webhook_report(admin, "a", HOWDAH_ABSENT, "no answer", &cf_error));
    assert_non_null(strstr(webhooks(admin, "a"), " on - - -1 no answer; "));
    cf_ok(howdah_webhook_remove(admin, "a", &cf_error));
    assert_string_equal(webhooks(admin, NULL), "");
    assert_int_equal(howdah_webhook_remove(admin, "a", &cf_error), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_webhook_enable(admin, "a", &cf_error), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_webhook_disable(admin, "a", NULL, &cf_error), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_webhook_report(admin, "a", 1, NULL, &cf_error), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_webhook_secret(admin, "a", secret, &cf_error), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_webhooks_walk(admin, "a", on_webhook, NULL, &cf_error),
                     HOWDAH_NOT_FOUND);
    (void)howdah_close(admin);
}

static void two_webhooks_have_two_subscriptions(void **state)
{
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_webhook_options o = webhook("a");
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE];

    cf_ok(howdah_webhook_set(admin, &o, secret, &cf_error));
    o.name = "b";
    o.subscriber_id = "webhook.a";
    assert_int_equal(howdah_webhook_set(admin, &o, secret, &cf_error), HOWDAH_CONFLICT);
    o.subscriber_id = NULL;
    cf_ok(howdah_webhook_set(admin, &o, secret, &cf_error));
    (void)howdah_close(admin);
}

static void what_is_no_webhook_is_refused(void **state)
{
    static const char *const urls[] = {"ftp://x/",       "https://",    "http:///x",
                                       "https://a b",    "x",           "https://\xc3\xa4",
                                       "https://u:p@x/", "https://u@x", "http://a\\b/"};
    static const char *const headers[] = {"[]",
                                          "{\"A\":1}",
                                          "{\"Host\":\"b\"}",
                                          "{\"Webhook-Id\":\"1\"}",
                                          "{\"a b\":\"c\"}",
                                          "{\"A\":\"b\\r\\nC: d\"}"};
    cf *c = *state;
    howdah_bus *admin = cf_open_admin(c);
    howdah_webhook_options o = webhook("a");
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE];

    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        o.url = urls[i];
        assert_int_equal(howdah_webhook_set(admin, &o, secret, &cf_error), HOWDAH_INVALID);
        assert_string_equal(cf_error.field, "url");
    }
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        o = webhook("a");
        o.headers = headers[i];
        assert_int_equal(howdah_webhook_set(admin, &o, secret, &cf_error), HOWDAH_INVALID);
        assert_string_equal(cf_error.field, "headers");
    }
    o = webhook("a");
    o.timeout_ms = 99;
    assert_int_equal(howdah_webhook_set(admin, &o, secret, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "timeout");
    assert_string_equal(webhooks(admin, NULL), "");
    (void)howdah_close(admin);
}

/* The login of pg-functions may publish and read. */
static void only_administrators_add_tokens_and_see_webhooks(void **state)
{
    cf *c = *state;
    char secret[HOWDAH_TOKEN_SIZE];
    char text[100] = "";

    if (cf_is_owner())
        return;
    assert_int_equal(add(c->bus, "a", secret), HOWDAH_DENIED);
    assert_int_equal(howdah_token_revoke(c->bus, "a", &cf_error), HOWDAH_DENIED);
    assert_int_equal(howdah_webhooks_walk(c->bus, NULL, on_webhook, text, &cf_error),
                     HOWDAH_DENIED);
    assert_int_equal(howdah_webhook_secret(c->bus, "a", secret, &cf_error), HOWDAH_DENIED);
}

static const struct CMUnitTest tests_of_registry[] = {
    CF_TEST(a_tokens_secret_is_told_once_and_its_hash_is_stored),
    CF_TEST(scopes_come_back_as_they_were_given),
    CF_TEST(a_name_is_taken_until_its_token_is_revoked),
    CF_TEST(what_is_no_token_is_refused),
    CF_TEST(the_day_on_which_a_token_is_used_is_kept),
    CF_TEST(a_webhook_is_made_and_changed_and_keeps_its_secret),
    CF_TEST(a_webhook_is_disabled_enabled_and_removed),
    CF_TEST(two_webhooks_have_two_subscriptions),
    CF_TEST(what_is_no_webhook_is_refused),
    CF_TEST(only_administrators_add_tokens_and_see_webhooks),
};

cf_group cf_registry_tests(void)
{
    return CF_GROUP(tests_of_registry);
}
