/* webhooks.c - see webhooks.h. */
#include "face/webhooks.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "face/subscriptions.h"

#define HEADERS_BYTES_MAX ((size_t)256 * 1024)
#define NAME_SIZE 256

static void get_start(const void *thing, face_value *v)
{
    const howdah_webhook_info *info = thing;

    if (info->start == HOWDAH_FROM_START || info->start == HOWDAH_FROM_END)
        (void)snprintf(v->small, sizeof v->small, "%s",
                       info->start == HOWDAH_FROM_END ? "end" : "start");
    else
        (void)snprintf(v->small, sizeof v->small, "%lld", (long long)info->start);
    v->text = hw_str_of(v->small);
}

static void get_headers(const void *thing, face_value *v)
{
    hw_str headers = hw_str_of(((const howdah_webhook_info *)thing)->headers);
    hw_str name;
    hw_str value;
    size_t pos = 0;
    size_t n = 0;

    v->absent = !headers.s;
    if (v->absent)
        return;
    v->room = (hw_buf)HW_BUF_INIT(HEADERS_BYTES_MAX);
    hw_buf_putc(&v->room, '{');
    while (hw_json_member(headers.s, headers.len, &pos, &name, &value))
        hw_buf_printf(&v->room, "%s\"%.*s\":\"***\"", n++ > 0 ? "," : "", (int)name.len, name.s);
    hw_buf_putc(&v->room, '}');
}

static void get_last_status(const void *thing, face_value *v)
{
    v->number = ((const howdah_webhook_info *)thing)->last_status;
    v->absent = v->number == HOWDAH_ABSENT;
}

static void get_disabled_at(const void *thing, face_value *v)
{
    v->number = ((const howdah_webhook_info *)thing)->disabled_at_us;
    v->absent = v->number == HOWDAH_NO_TIME;
}

static void get_tried_at(const void *thing, face_value *v)
{
    v->number = ((const howdah_webhook_info *)thing)->tried_at_us;
    v->absent = v->number == HOWDAH_NO_TIME;
}

static void get_state(const void *thing, face_value *v)
{
    const face_webhook_shown *shown = thing;

    v->absent = !shown->subscribed;
    if (shown->subscribed)
        v->text = hw_str_of(face_subscription_state(shown->state));
}

static void get_lag(const void *thing, face_value *v)
{
    v->number = ((const face_webhook_shown *)thing)->lag;
    v->absent = !((const face_webhook_shown *)thing)->subscribed;
}

static void get_dead_letters(const void *thing, face_value *v)
{
    v->number = ((const face_webhook_shown *)thing)->dead_letters;
    v->absent = !((const face_webhook_shown *)thing)->subscribed;
}

#define AT(member) FACE_AT(howdah_webhook_info, member)

static const face_field fields[] = {
    {"name", FACE_TEXT, .style = FACE_NAME, AT(name)},
    {"url", FACE_TEXT, AT(url)},
    {"subscriber_id", FACE_TEXT, "subscription", AT(subscriber_id)},
    {"pattern", FACE_TEXT, .blank = "-", AT(pattern)},
    {"stream", FACE_TEXT, AT(stream)},
    {"headers", FACE_JSON, .get = get_headers},
    {"start", FACE_WORD, .get = get_start},
    {"timeout_ms", FACE_DURATION, "timeout", AT(timeout_ms)},
    {"max_retries", FACE_NUMBER, "max retries", AT(max_retries)},
    {"retry_delay_ms", FACE_DURATION, "retry delay", AT(retry_delay_ms)},
    {"max_retry_delay_ms", FACE_DURATION, "max retry delay", AT(max_retry_delay_ms)},
    {"enabled", FACE_BOOL, AT(enabled)},
    {"reason", FACE_TEXT, AT(reason)},
    {"disabled_at", FACE_TIME, "disabled at", .get = get_disabled_at},
    {"created_at", FACE_TIME, "created at", AT(created_at_us)},
    {"changed_at", FACE_TIME, "changed at", AT(changed_at_us)},
    {"tried_at", FACE_MOMENT, "tried at", .blank = "-", .get = get_tried_at},
    {"last_status", FACE_NUMBER, "last status", "status", .blank = "-", .get = get_last_status},
    {"last_error", FACE_TEXT, "last error", "error", .style = FACE_ASIDE, AT(last_error)},
    {"state", FACE_WORD, .get = get_state},
    {"lag", FACE_NUMBER, .get = get_lag},
    {"dead_letters", FACE_NUMBER, "dead letters", .get = get_dead_letters},
    {.name = NULL},
};

#define MEMBERS                                                                                    \
    "name url subscriber_id pattern stream headers start timeout_ms max_retries retry_delay_ms "   \
    "max_retry_delay_ms enabled reason disabled_at created_at changed_at tried_at last_status "    \
    "last_error"

const face_entity face_webhook = {
    fields,
    .json = MEMBERS,
    .table = "name url pattern enabled tried_at last_status last_error",
};

const face_entity face_webhook_with_lag = {
    fields,
    .json = MEMBERS " state lag dead_letters",
    .show = MEMBERS " state lag dead_letters",
};

/* ------------------------------------------------------------------- showing */

typedef struct showing {
    face_webhook_shown shown;
    char subscriber[NAME_SIZE];
    void (*fn)(void *ctx, const face_webhook_shown *shown);
    void *ctx;
} showing;

static int on_named(void *ctx, const howdah_webhook_info *info)
{
    showing *w = ctx;

    (void)snprintf(w->subscriber, sizeof w->subscriber, "%s", info->subscriber_id);
    return 0;
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    showing *w = ctx;

    w->shown.subscribed = true;
    w->shown.state = info->state;
    w->shown.lag = info->lag;
    w->shown.dead_letters = info->dead_letters;
    return 0;
}

static int on_shown(void *ctx, const howdah_webhook_info *info)
{
    showing *w = ctx;

    w->shown.info = *info;
    w->fn(w->ctx, &w->shown);
    return 0;
}

int face_webhook_show(howdah_bus *bus, const char *name,
                      void (*fn)(void *ctx, const face_webhook_shown *shown), void *ctx,
                      howdah_error *reterr)
{
    showing w = {.subscriber = "", .fn = fn, .ctx = ctx};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = howdah_webhooks_walk(bus, name, on_named, &w, reterr);

    if (s < 0)
        return s;
    s = howdah_subscriptions_walk(bus, w.subscriber, on_subscription, &w, &err);
    if (s < 0 && s != HOWDAH_NOT_FOUND) {
        hw_error_copy(reterr, &err);
        return s;
    }
    return howdah_webhooks_walk(bus, name, on_shown, &w, reterr);
}

/* ------------------------------------------------------------------- setting */

static int subscribe(howdah_bus *bus, const char *subscriber, const char *pattern,
                     const char *stream, int64_t start, const int64_t retries[3],
                     howdah_error *reterr)
{
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;

    o.subscriber_id = subscriber;
    o.pattern = pattern;
    o.stream = stream;
    o.start = start;
    o.max_retries = retries[0];
    o.retry_delay_ms = retries[1];
    o.max_retry_delay_ms = retries[2];
    return howdah_group_create(bus, &o, NULL, reterr);
}

int face_webhook_subscribe(howdah_bus *bus, const howdah_webhook_info *info, howdah_error *reterr)
{
    return subscribe(
        bus, info->subscriber_id, info->pattern, info->stream, info->start,
        (const int64_t[]){info->max_retries, info->retry_delay_ms, info->max_retry_delay_ms},
        reterr);
}

static int subscribe_by(howdah_bus *bus, const howdah_webhook_options *o, howdah_error *reterr)
{
    char name[NAME_SIZE];

    (void)snprintf(name, sizeof name, "webhook.%s", o->name);
    return subscribe(
        bus, o->subscriber_id ? o->subscriber_id : name, o->pattern, o->stream, o->start,
        (const int64_t[]){o->max_retries, o->retry_delay_ms, o->max_retry_delay_ms}, reterr);
}

static int on_there(void *ctx, const howdah_webhook_info *info)
{
    (void)ctx;
    (void)info;
    return 0;
}

/* A new one is stored first: only that judges what it is made of.  One that exists keeps its secret
   when the subscription refuses. */
int face_webhook_set(howdah_bus *bus, const howdah_webhook_options *options,
                     char ret_secret[HOWDAH_WEBHOOK_SECRET_SIZE], howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int there = options->name ? howdah_webhooks_walk(bus, options->name, on_there, NULL, &err)
                              : HOWDAH_NOT_FOUND;
    int s = HOWDAH_OK;

    if (there < 0 && there != HOWDAH_NOT_FOUND) {
        hw_error_copy(reterr, &err);
        return there;
    }
    if (there >= 0)
        s = subscribe_by(bus, options, reterr);
    if (s >= 0)
        s = howdah_webhook_set(bus, options, ret_secret, reterr);
    if (s < 0 || there >= 0)
        return s;
    s = subscribe_by(bus, options, reterr);
    if (s < 0) {
        if (howdah_webhook_remove(bus, options->name, &err) < 0)
            (void)hw_advise(reterr, s, "the webhook is stored all the same: remove it");
        ret_secret[0] = '\0';
    }
    return s;
}
