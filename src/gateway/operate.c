/* operate.c - looking after the bus: subscriptions, dead letters, status, checks. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/text.h"
#include "face/dead_letters.h"
#include "face/findings.h"
#include "face/json_in.h"
#include "face/status.h"
#include "face/subscriptions.h"
#include "gateway/fields_in.h"
#include "gateway/handlers.h"
#include "gateway/parking.h"
#include "gateway/scope.h"
#include "gateway/server.h"

#define N(fields) (sizeof(fields) / sizeof *(fields))
#define PAGE_DEFAULT 100
#define PAGE_MAX 1000
#define PAGE_BYTES ((size_t)4 * 1024 * 1024)
#define IDS_MAX 10000

/* A list as it is put into an answer. */
typedef struct listing {
    hw_buf *out;
    int64_t n;
    int64_t last;
    const gw_request *r;
} listing;

/* ------------------------------------------------------------ subscriptions */

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    listing *l = ctx;

    if (!gw_scope_has_filter(l->r, NULL, info->pattern, info->stream))
        return 0;
    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    face_entity_json(l->out, &face_subscription, info, "");
    return 0;
}

int gw_subscriptions(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    listing l = {&r->answer.body, 0, 0, r};
    int s;

    hw_buf_puts(l.out, "{\"subscriptions\":[");
    s = howdah_subscriptions_walk(bus, NULL, on_subscription, &l, reterr);
    hw_buf_puts(l.out, "]}\n");
    gw_answer_json(r, 200);
    return s;
}

typedef struct showing {
    hw_buf *out;
    face_members members;
    bool shared;
} showing;

static int on_is_shared(void *ctx, const howdah_subscription_info *info)
{
    ((showing *)ctx)->shared = info->shared;
    return 0;
}

static int on_member(void *ctx, const howdah_member_info *info)
{
    face_members_add(&((showing *)ctx)->members, info);
    return 0;
}

static int on_shown(void *ctx, const howdah_subscription_info *info)
{
    showing *w = ctx;
    const face_subscription_shown shown = {*info, hw_buf_str(&w->members.json), w->members.n};

    face_entity_json(w->out, &face_subscription_with_members, &shown, "");
    return 0;
}

/* Its members first: they are a part of the one object. */
int gw_put_subscription(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    showing w = {&r->answer.body, FACE_MEMBERS_INIT, false};
    const char *name = r->vars[0];
    int s = howdah_subscriptions_walk(bus, name, on_is_shared, &w, reterr);

    if (s >= 0 && w.shared)
        s = howdah_members_walk(bus, name, on_member, &w, reterr);
    face_members_end(&w.members);
    if (s >= 0)
        s = hw_buf_check(&w.members.json, reterr);
    if (s >= 0)
        s = howdah_subscriptions_walk(bus, name, on_shown, &w, reterr);
    face_members_done(&w.members);
    hw_buf_putc(w.out, '\n');
    gw_answer_json(r, 200);
    return s;
}

int gw_subscription_show(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    return gw_put_subscription(r, bus, reterr);
}

int gw_subscription_remove(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    r->answer.http_status = 204;
    return howdah_subscription_remove(bus, r->vars[0], reterr);
}

int gw_subscription_pause(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    const char *reason = NULL;
    const gw_field fields[] = {{"reason", GW_FIELD_TEXT, .text = &reason}};
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0)
        s = howdah_subscription_pause(bus, r->vars[0], reason, reterr);
    return s < 0 ? s : gw_put_subscription(r, bus, reterr);
}

int gw_subscription_resume(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = howdah_subscription_resume(bus, r->vars[0], reterr);

    gw_waiting_wake(r->gateway->waiting);
    return s < 0 ? s : gw_put_subscription(r, bus, reterr);
}

/* "to" or "since" is needed: a default would throw a place away by accident. */
int gw_subscription_reset(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t to = INT64_MIN;
    int64_t since = HOWDAH_NO_TIME;
    const gw_field fields[] = {{"to", GW_FIELD_PLACE, .number = &to},
                               {"since", GW_FIELD_TIME, .number = &since}};
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s >= 0 && (to == INT64_MIN) == (since == HOWDAH_NO_TIME))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "to",
                          "expected either a position (to) or a time (since)");
    if (s >= 0)
        s = since != HOWDAH_NO_TIME
                ? howdah_subscription_reset_since(bus, r->vars[0], since, reterr)
                : howdah_subscription_reset(bus, r->vars[0], to, reterr);
    gw_waiting_wake(r->gateway->waiting);
    return s < 0 ? s : gw_put_subscription(r, bus, reterr);
}

/* ------------------------------------------------------------- dead letters */

static int on_dead_letter(void *ctx, const howdah_dead_letter *dl)
{
    listing *l = ctx;

    l->last = dl->id; /* a page goes on behind what is left out, too */
    if (!gw_scope_has_dead_letter(l->r, dl))
        return 0;
    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    face_dead_letter_json(l->out, dl);
    return l->out->len > PAGE_BYTES;
}

int gw_dead_letters(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    listing l = {&r->answer.body, 0, 0, r};
    int s = gw_arg_flag(r, "all", &o.resolved, reterr);

    o.subscriber_id = gw_arg_text(r, "subscription");
    o.queue = gw_arg_text(r, "queue");
    o.limit = PAGE_DEFAULT;
    if (s >= 0)
        s = gw_arg_number(r, "limit", 1, PAGE_MAX, &o.limit, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "after", 0, INT64_MAX, &o.after_id, reterr);
    hw_buf_puts(l.out, "{\"dead_letters\":[");
    if (s >= 0)
        s = howdah_dead_letters_walk(bus, &o, on_dead_letter, &l, reterr);
    hw_buf_puts(l.out, "]");
    hw_json_write_number(l.out, "last", l.last > 0 ? l.last : HOWDAH_ABSENT);
    hw_buf_puts(l.out, "}\n");
    gw_answer_json(r, 200);
    return s;
}

int gw_dead_letter_show(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    listing l = {&r->answer.body, 0, 0, r};
    int s;

    o.resolved = true;
    if (!hw_parse_i64(r->vars[0], 1, INT64_MAX, &o.id))
        return hw_fail_field(reterr, HOWDAH_INVALID, "id", "expected a dead letter's number");
    s = howdah_dead_letters_walk(bus, &o, on_dead_letter, &l, reterr);
    if (s >= 0 && l.n == 0)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no dead letter %s", r->vars[0]);
    hw_buf_putc(l.out, '\n');
    gw_answer_json(r, 200);
    return s;
}

/* Which ones: by id, all of a subscription, or all of a queue. */
typedef struct choice {
    int64_t *ids;
    size_t ids_n;
    const char *subscription;
    const char *queue;
    const char *reason;
} choice;

static int take_ids(hw_str list, choice *c, howdah_error *reterr)
{
    hw_str item;
    size_t pos = 0;

    c->ids = hw_calloc(IDS_MAX, sizeof *c->ids);
    if (!c->ids)
        return hw_fail_no_memory(reterr);
    while (hw_json_item(list.s, list.len, &pos, &item)) {
        char text[FACE_NUMBER_TEXT];

        if (c->ids_n == IDS_MAX || !face_number_text(item, text) ||
            !hw_parse_i64(text, 1, INT64_MAX, &c->ids[c->ids_n]))
            return hw_fail_field(reterr, HOWDAH_INVALID, "ids", "expected up to %d numbers",
                                 IDS_MAX);
        c->ids_n++;
    }
    return HOWDAH_OK;
}

static int take_choice(gw_request *r, howdah_bus *bus, choice *c, howdah_error *reterr)
{
    const char *ids = NULL;
    size_t ids_len = 0;
    const gw_field fields[] = {
        {"ids", GW_FIELD_RAW, .text = &ids, .length = &ids_len},
        {"subscription", GW_FIELD_TEXT, .text = &c->subscription},
        {"queue", GW_FIELD_TEXT, .text = &c->queue},
        {"reason", GW_FIELD_TEXT, .text = &c->reason},
    };
    int s = gw_fields_take(r, fields, N(fields), reterr);

    if (s < 0)
        return s;
    if ((ids != NULL) + (c->subscription != NULL) + (c->queue != NULL) != 1)
        return hw_fail_field(reterr, HOWDAH_INVALID, "ids",
                             "expected one of ids, subscription and queue");
    if (c->queue)
        return gw_scope_check_queue(r, c->queue, reterr);
    if (c->subscription)
        return gw_scope_check_subscription(r, bus, c->subscription, reterr);
    if (hw_json_kind(ids, ids_len) != 'a')
        return hw_fail_field(reterr, HOWDAH_INVALID, "ids", "expected a list");
    s = take_ids((hw_str){ids, ids_len}, c, reterr);
    for (size_t i = 0; s >= 0 && i < c->ids_n; i++)
        s = gw_scope_find_dead_letter(r, bus, c->ids[i], reterr);
    return s;
}

static int put_count(gw_request *r, int status, int64_t n)
{
    if (status < 0)
        return status;
    hw_buf_printf(&r->answer.body, "{\"count\":%" PRId64 "}\n", n);
    gw_answer_json(r, 200);
    gw_waiting_wake(r->gateway->waiting);
    return HOWDAH_OK;
}

int gw_dead_letters_redrive(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    choice c = {0};
    int64_t n = 0;
    int s = take_choice(r, bus, &c, reterr);

    if (s >= 0 && c.queue)
        s = howdah_queue_dead_letters_redrive(bus, c.queue, &n, reterr);
    else if (s >= 0 && (c.subscription || c.ids_n > 0))
        s = howdah_dead_letters_redrive(bus, c.ids, c.ids_n, c.subscription, &n, reterr);
    hw_free(c.ids);
    return put_count(r, s, n);
}

int gw_dead_letters_discard(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    choice c = {0};
    int64_t n = 0;
    int s = take_choice(r, bus, &c, reterr);

    if (s >= 0 && !c.reason)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "reason", "is needed");
    if (s >= 0 && c.subscription)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "subscription",
                          "dead letters of a subscription are discarded by their ids");
    if (s >= 0 && c.queue)
        s = howdah_queue_dead_letters_discard(bus, c.queue, c.reason, &n, reterr);
    else if (s >= 0 && c.ids_n > 0)
        s = howdah_dead_letters_discard(bus, c.ids, c.ids_n, c.reason, &n, reterr);
    hw_free(c.ids);
    return put_count(r, s, n);
}

/* ----------------------------------------------------------- status, checks */

int gw_status(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s = face_status_json(bus, &r->answer.body, NULL, NULL, reterr);

    hw_buf_putc(&r->answer.body, '\n');
    gw_answer_json(r, 200);
    return s;
}

static int on_finding(void *ctx, const howdah_finding *finding)
{
    listing *l = ctx;

    hw_buf_puts(l->out, l->n++ > 0 ? "," : "");
    face_entity_json(l->out, &face_finding, finding, "");
    if (finding->severity > l->last)
        l->last = finding->severity;
    return 0;
}

/* As the exit code of the command: bad findings are no failure of the request. */
static int put_findings(gw_request *r, listing *l, int status)
{
    hw_buf_printf(l->out, "],\"good\":%s}\n", l->last == HOWDAH_BAD ? "false" : "true");
    gw_answer_json(r, 200);
    return status;
}

int gw_verify(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    listing l = {&r->answer.body, 0, 0, r};

    hw_buf_puts(l.out, "{\"findings\":[");
    return put_findings(r, &l, howdah_verify(bus, on_finding, &l, reterr));
}

int gw_doctor(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    listing l = {&r->answer.body, 0, 0, r};
    gw_gateway *g = r->gateway;

    (void)bus;
    hw_buf_puts(l.out, "{\"findings\":[");
    return put_findings(r, &l, howdah_doctor(g->url, g->options.settings, on_finding, &l, reterr));
}
