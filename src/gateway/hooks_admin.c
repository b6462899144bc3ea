/*
 * hooks_admin.c - looking after webhooks: set, show, enable, disable, remove, test.
 *
 *   I1  A secret is in the one answer that made it.
 *   I2  A test is sent as an event is, by the same rules about addresses and times.  It is no
 *       event: nothing is stored, and nothing waits for it.
 */
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "face/events.h"
#include "face/webhooks.h"
#include "gateway/fields_in.h"
#include "gateway/handlers.h"
#include "gateway/server.h"
#include "gateway/webhook_request.h"

#define N(fields) (sizeof(fields) / sizeof *(fields))
#define TEST_MAX_MS 20000 /* a client waits for it */
#define TEST_BYTES_MAX ((size_t)64 * 1024)
#define TEST_TYPE "howdah.test"

/* ---------------------------------------------------------------------- show */

typedef struct listing {
    hw_buf *out;
    int64_t n;
} listing;

static int on_listed(void *ctx, const howdah_webhook_info *info)
{
    listing *l = ctx;

    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    face_entity_json(l->out, &face_webhook, info, "");
    return 0;
}

int gw_webhooks_list(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    listing l = {&r->answer.body, 0};
    int s;

    hw_buf_puts(l.out, "{\"webhooks\":[");
    s = howdah_webhooks_walk(bus, NULL, on_listed, &l, reterr);
    hw_buf_puts(l.out, "]}\n");
    gw_answer_json(r, 200);
    return s;
}

typedef struct showing {
    hw_buf *out;
    const char *tail;
} showing;

static void on_shown(void *ctx, const face_webhook_shown *shown)
{
    const showing *w = ctx;

    face_entity_json(w->out, &face_webhook_with_lag, shown, w->tail);
}

static int put_webhook(gw_request *r, howdah_bus *bus, const char *tail, howdah_error *reterr)
{
    showing w = {&r->answer.body, tail};
    int s = face_webhook_show(bus, r->vars[0], on_shown, &w, reterr);

    hw_buf_putc(&r->answer.body, '\n');
    gw_answer_json(r, 200);
    return s;
}

int gw_webhook_show(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    return put_webhook(r, bus, "", reterr);
}

/* ----------------------------------------------------------------------- set */

/* What came as JSON, and is not a text of its own in the body. */
static int copy_headers(const char *raw, size_t len, char **ret_headers, howdah_error *reterr)
{
    if (!raw)
        return HOWDAH_OK;
    *ret_headers = hw_strndup(raw, len);
    return *ret_headers ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

static int take_options(gw_request *r, howdah_webhook_options *o, char **ret_headers,
                        howdah_error *reterr)
{
    const char *headers = NULL;
    size_t headers_n = 0;
    const gw_field fields[] = {
        {"url", GW_FIELD_TEXT, .text = &o->url},
        {"subscription", GW_FIELD_TEXT, .text = &o->subscriber_id},
        {"pattern", GW_FIELD_TEXT, .text = &o->pattern},
        {"stream", GW_FIELD_TEXT, .text = &o->stream},
        {"headers", GW_FIELD_RAW, .text = &headers, .length = &headers_n},
        {"start", GW_FIELD_PLACE, .number = &o->start},
        {"timeout", GW_FIELD_DURATION, .number = &o->timeout_ms},
        {"max_retries", GW_FIELD_NUMBER, .number = &o->max_retries, .max = 1000000},
        {"retry_delay", GW_FIELD_DURATION, .number = &o->retry_delay_ms},
        {"max_retry_delay", GW_FIELD_DURATION, .number = &o->max_retry_delay_ms},
        {"new_secret", GW_FIELD_FLAG, .flag = &o->new_secret},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    o->name = r->vars[0];
    if (s >= 0)
        s = copy_headers(headers, headers_n, ret_headers, reterr);
    o->headers = *ret_headers;
    return s;
}

int gw_webhook_put(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_webhook_options o = HOWDAH_WEBHOOK_OPTIONS_INIT;
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE] = "";
    char tail[HOWDAH_WEBHOOK_SECRET_SIZE + 16] = "";
    char *headers = NULL;
    int s = take_options(r, &o, &headers, reterr);

    if (s >= 0)
        s = face_webhook_set(bus, &o, secret, reterr);
    if (s >= 0 && secret[0])
        (void)snprintf(tail, sizeof tail, ",\"secret\":\"%s\"", secret);
    if (s >= 0)
        s = put_webhook(r, bus, tail, reterr);
    OPENSSL_cleanse(secret, sizeof secret);
    OPENSSL_cleanse(tail, sizeof tail);
    hw_free(headers);
    gw_webhooks_poke(r->gateway->webhooks);
    return s;
}

int gw_webhook_remove(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_webhook_remove(bus, r->vars[0], reterr);

    r->answer.http_status = 204;
    gw_webhooks_poke(r->gateway->webhooks);
    return s;
}

int gw_webhook_enable(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_webhook_enable(bus, r->vars[0], reterr);

    gw_webhooks_poke(r->gateway->webhooks);
    return s < 0 ? s : put_webhook(r, bus, "", reterr);
}

int gw_webhook_disable(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *reason = NULL;
    const gw_field fields[] = {{"reason", GW_FIELD_TEXT, .text = &reason}};
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0)
        s = howdah_webhook_disable(bus, r->vars[0], reason, reterr);
    gw_webhooks_poke(r->gateway->webhooks);
    return s < 0 ? s : put_webhook(r, bus, "", reterr);
}

/* ---------------------------------------------------------------------- test */

typedef struct trial {
    gw_post post; /* the first member */
    gw_request *r;
    char *url;
    char *headers;
    char secret[HOWDAH_WEBHOOK_SECRET_SIZE];
} trial;

static void free_trial(trial *t)
{
    OPENSSL_cleanse(t->secret, sizeof t->secret);
    gw_post_clear(&t->post);
    hw_free(t->url);
    hw_free(t->headers);
    hw_free(t);
}

/* In the thread of the posts.  After gw_request_done() the request may be gone. */
static void on_tested(gw_post *post)
{
    trial *t = (trial *)post;
    gw_request *r = t->r;
    hw_buf *out = &r->answer.body;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = HOWDAH_OK;

    if (post->given_up)
        s = hw_fail(&err, HOWDAH_UNAVAILABLE, "the gateway is being stopped");
    hw_buf_printf(out, "{\"ok\":%s", post->error[0] ? "false" : "true");
    hw_json_write_number(out, "status", post->http_status);
    hw_json_write_text(out, "error", hw_str_of(post->error[0] ? post->error : NULL));
    hw_json_write_number(out, "duration_ms", post->duration_ms);
    hw_buf_puts(out, "}\n");
    gw_answer_json(r, 200);
    free_trial(t);
    gw_request_done(r, s, &err);
}

static int on_target(void *ctx, const howdah_webhook_info *info)
{
    trial *t = ctx;

    t->url = hw_strdup(info->url);
    t->headers = info->headers ? hw_strdup(info->headers) : NULL;
    t->post.url = t->url;
    t->post.timeout_ms = info->timeout_ms < TEST_MAX_MS ? info->timeout_ms : TEST_MAX_MS;
    return 0;
}

static int make_event(howdah_event **ret_event, howdah_error *reterr)
{
    static const char data[] = "{\"test\":true}";
    howdah_builder *builder = NULL;
    int s = howdah_builder_new(&builder, reterr);

    if (s < 0)
        return s;
    howdah_builder_set_stream(builder, TEST_TYPE);
    howdah_builder_set_type(builder, TEST_TYPE);
    howdah_builder_set_json(builder, data, sizeof data - 1);
    s = howdah_builder_build(builder, ret_event, reterr);
    howdah_builder_free(builder);
    return s;
}

static int prepare(trial *t, howdah_error *reterr)
{
    char id[HOWDAH_UUID_SIZE];
    const gw_webhook_request request = {t->secret, id, t->headers, HW_STR_NULL};
    howdah_event *event = NULL;
    int s = t->url ? make_event(&event, reterr) : hw_fail_no_memory(reterr);

    if (s < 0)
        return s;
    howdah_event_id(event, id);
    s = face_event_json(event, &t->post.body, reterr);
    if (s >= 0)
        s = gw_webhook_prepare(&t->post, &request, reterr);
    howdah_event_free(event);
    return s;
}

int gw_webhook_test(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    trial *t;
    int s;

    if (!r->gateway->webhooks)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_UNAVAILABLE, "this gateway sends no webhooks"),
                         "ask one that runs without --no-webhooks");
    t = hw_calloc(1, sizeof *t);
    if (!t)
        return hw_fail_no_memory(reterr);
    t->r = r;
    t->post.body = (hw_buf)HW_BUF_INIT(TEST_BYTES_MAX);
    t->post.done = on_tested;
    s = howdah_webhooks_walk(bus, r->vars[0], on_target, t, reterr);
    if (s >= 0)
        s = howdah_webhook_secret(bus, r->vars[0], t->secret, reterr);
    if (s >= 0)
        s = prepare(t, reterr);
    if (s >= 0 && gw_webhooks_post(r->gateway->webhooks, &t->post))
        return GW_SUBMITTED;
    if (s >= 0)
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "too much is being sent at the moment");
    free_trial(t);
    return s;
}
