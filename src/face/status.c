/* status.c - see status.h. */
#include "face/status.h"

#include <inttypes.h>

#include "face/fields.h"
#include "face/queues.h"
#include "face/subscriptions.h"

/* ----------------------------------------------------------------- the walk */

static int on_fact(void *ctx, const howdah_fact *fact)
{
    const face_status_look *look = ctx;

    look->fact(look->ctx, fact);
    look->sums->facts++;
    return 0;
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    const face_status_look *look = ctx;

    look->subscription(look->ctx, info);
    look->sums->subscriptions++;
    look->sums->dead_letters += info->dead_letters;
    look->sums->skips += info->skips;
    return 0;
}

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    const face_status_look *look = ctx;

    look->queue(look->ctx, info);
    look->sums->queues++;
    look->sums->dead_letters += info->dead_letters;
    return 0;
}

static void begin(const face_status_look *look, face_status_part part)
{
    if (look->part)
        look->part(look->ctx, part);
}

/* Without a fact there is nothing that the rest could belong to. */
int face_status_walk(howdah_bus *bus, const face_status_look *look, howdah_error *reterr)
{
    face_status_look ctx = *look;
    int s;

    *look->sums = (face_status_sums){0};
    s = howdah_facts_walk(bus, on_fact, &ctx, reterr);
    if (s < 0 || look->sums->facts == 0)
        return s;
    begin(look, FACE_STATUS_SUBSCRIPTIONS);
    s = howdah_subscriptions_walk(bus, NULL, on_subscription, &ctx, reterr);
    if (s == HOWDAH_DENIED)
        look->sums->subscriptions = HOWDAH_ABSENT;
    else if (s < 0)
        return s;
    begin(look, FACE_STATUS_QUEUES);
    s = howdah_queue_summaries_walk(bus, on_queue, &ctx, reterr);
    if (s == HOWDAH_DENIED)
        look->sums->queues = HOWDAH_ABSENT;
    else if (s < 0)
        return s;
    begin(look, FACE_STATUS_SUMS);
    return HOWDAH_OK;
}

/* --------------------------------------------------------------------- JSON */

typedef struct printer {
    hw_buf *out;
    face_status_send *send;
    void *send_ctx;
    face_status_sums sums;
} printer;

static void sent(printer *p)
{
    if (p->send)
        p->send(p->send_ctx, p->out);
}

/*
 * Not from a table of fields: which facts there are is the store's to say, and their keys are its
 * own.
 */
static void fact_json(void *ctx, const howdah_fact *fact)
{
    printer *p = ctx;

    hw_buf_putc(p->out, p->sums.facts > 0 ? ',' : '{');
    face_json_text(p->out, fact->key);
    hw_buf_putc(p->out, ':');
    if (!fact->value)
        hw_buf_puts(p->out, "null");
    else if (fact->number)
        hw_buf_puts(p->out, fact->value);
    else
        face_json_text(p->out, fact->value);
    sent(p);
}

static void subscription_json(void *ctx, const howdah_subscription_info *info)
{
    printer *p = ctx;

    hw_buf_puts(p->out, p->sums.subscriptions > 0 ? "," : "");
    face_entity_json(p->out, &face_subscription, info, "");
    sent(p);
}

static void queue_json(void *ctx, const howdah_queue_info *info)
{
    printer *p = ctx;

    hw_buf_puts(p->out, p->sums.queues > 0 ? "," : "");
    face_entity_json(p->out, &face_queue_summary, info, "");
    sent(p);
}

/* null where this user may not see what would be summed. */
static void sum_json(printer *p, const char *name, bool known, int64_t sum)
{
    if (known)
        hw_buf_printf(p->out, ",\"%s\":%" PRId64, name, sum);
    else
        hw_buf_printf(p->out, ",\"%s\":null", name);
}

static void part_json(void *ctx, face_status_part part)
{
    printer *p = ctx;
    bool subscriptions = p->sums.subscriptions != HOWDAH_ABSENT;

    if (part == FACE_STATUS_SUBSCRIPTIONS) {
        hw_buf_puts(p->out, ",\"subscriptions\":[");
    } else if (part == FACE_STATUS_QUEUES) {
        hw_buf_puts(p->out, "],\"queues\":[");
    } else {
        hw_buf_puts(p->out, "]");
        sum_json(p, "dead_letters", subscriptions || p->sums.queues != HOWDAH_ABSENT,
                 p->sums.dead_letters);
        sum_json(p, "skips", subscriptions, p->sums.skips);
    }
}

int face_status_json(howdah_bus *bus, hw_buf *out, face_status_send *send, void *ctx,
                     howdah_error *reterr)
{
    printer p = {.out = out, .send = send, .send_ctx = ctx};
    const face_status_look look = {
        fact_json, part_json, subscription_json, queue_json, &p, &p.sums,
    };
    int s = face_status_walk(bus, &look, reterr);

    if (p.sums.facts > 0) {
        hw_buf_putc(out, '}');
        sent(&p);
    }
    return s < 0 ? s : hw_buf_check(out, reterr);
}
