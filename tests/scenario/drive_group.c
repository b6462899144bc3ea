/* drive_group.c - the steps of shared subscriptions: batches by their tokens, and dead letters. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "drive.h"
#include "face/dead_letters.h"
#include "face/events.h"
#include "face/subscriptions.h"

#define IDS_MAX 64

/* The index of a word among others; what is none of them no C caller can say. */
static int choice_arg(step *s, const char *name, const char *const *words, size_t n, int none)
{
    const char *text = text_arg(s, name, NULL);

    for (size_t i = 0; text && i < n; i++)
        if (strcmp(text, words[i]) == 0)
            return (int)i;
    if (text)
        s->unsayable = name;
    return none;
}

static int subscribe(step *s, howdah_error *reterr)
{
    static const char *const on_fail[] = {"open", "closed", "hold"};
    static const char *const key[] = {"stream", "none"};
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    bool created = false;
    int status;

    o.subscriber_id = text_arg(s, "name", NULL);
    o.pattern = text_arg(s, "pattern", NULL);
    o.stream = text_arg(s, "stream", NULL);
    o.originals_only = flag_arg(s, "originals");
    o.start = place_arg(s, "start");
    o.key = (howdah_order_key)choice_arg(s, "key", key, 2, HOWDAH_ORDER_BY_STREAM);
    o.on_fail = (howdah_on_fail)choice_arg(s, "on_fail", on_fail, 3, HOWDAH_FAIL_OPEN);
    o.max_retries = number_arg(s, "max_retries", o.max_retries);
    o.retry_delay_ms = duration_arg(s, "retry_delay", o.retry_delay_ms);
    o.max_retry_delay_ms = duration_arg(s, "max_retry_delay", o.max_retry_delay_ms);
    o.lanes = number_arg(s, "lanes", o.lanes);
    if (s->unsayable)
        return HOWDAH_OK;
    status = howdah_group_create(s->bus, &o, &created, reterr);
    hw_buf_printf(s->out, "{\"created\":%s}", created ? "true" : "false");
    return status;
}

static void put_batch(step *s, const howdah_batch *batch, howdah_error *reterr)
{
    hw_buf *out = s->out;

    hw_buf_puts(out, "{\"token\":");
    if (batch) {
        hw_json_put_string(out, howdah_batch_token(batch), strlen(howdah_batch_token(batch)));
        hw_buf_printf(out, ",\"attempt\":%d", howdah_batch_attempt(batch));
    } else {
        hw_buf_puts(out, "null");
    }
    hw_buf_puts(out, ",\"events\":[");
    for (size_t i = 0; batch && i < howdah_batch_size(batch); i++) {
        hw_buf_puts(out, i > 0 ? "," : "");
        (void)face_event_json(howdah_batch_event(batch, i), out, reterr);
    }
    hw_buf_puts(out, "]}");
}

static int fetch(step *s, howdah_error *reterr)
{
    howdah_batch *batch = NULL;
    int status = howdah_group_fetch(s->bus, text_arg(s, "name", NULL), text_arg(s, "member", NULL),
                                    number_arg(s, "max", 100), duration_arg(s, "lease", 30000),
                                    &batch, reterr);

    if (status >= 0)
        put_batch(s, batch, reterr);
    howdah_batch_free(batch);
    return status;
}

static int ack(step *s, howdah_error *reterr)
{
    return howdah_group_ack(s->bus, text_arg(s, "name", NULL), text_arg(s, "token", NULL),
                            number_arg(s, "upto", 0), reterr);
}

static int nack(step *s, howdah_error *reterr)
{
    return howdah_group_nack(s->bus, text_arg(s, "name", NULL), text_arg(s, "token", NULL),
                             number_arg(s, "global_sequence", 0), text_arg(s, "error", NULL),
                             duration_arg(s, "retry_after", -1), reterr);
}

static int extend(step *s, howdah_error *reterr)
{
    return howdah_group_extend(s->bus, text_arg(s, "name", NULL), text_arg(s, "token", NULL),
                               duration_arg(s, "lease", 30000), reterr);
}

static int release(step *s, howdah_error *reterr)
{
    return howdah_group_release(s->bus, text_arg(s, "name", NULL), text_arg(s, "token", NULL),
                                reterr);
}

/* ------------------------------------------------------------------- operate */

static int do_pause(step *s, howdah_error *reterr)
{
    return howdah_subscription_pause(s->bus, text_arg(s, "name", NULL), text_arg(s, "reason", NULL),
                                     reterr);
}

static int resume(step *s, howdah_error *reterr)
{
    return howdah_subscription_resume(s->bus, text_arg(s, "name", NULL), reterr);
}

static int reset(step *s, howdah_error *reterr)
{
    return howdah_subscription_reset(s->bus, text_arg(s, "name", NULL), place_arg(s, "to"), reterr);
}

static int remove_it(step *s, howdah_error *reterr)
{
    return howdah_subscription_remove(s->bus, text_arg(s, "name", NULL), reterr);
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    face_entity_json(((step *)ctx)->out, &face_subscription, info, "");
    return 0;
}

static int show(step *s, howdah_error *reterr)
{
    return howdah_subscriptions_walk(s->bus, text_arg(s, "name", NULL), on_subscription, s, reterr);
}

/* -------------------------------------------------------------- dead letters */

static int on_dead_letter(void *ctx, const howdah_dead_letter *dl)
{
    step *s = ctx;

    if (s->out->data[s->out->len - 1] != '[')
        hw_buf_puts(s->out, ",");
    face_dead_letter_json(s->out, dl);
    return 0;
}

static int dead_letters(step *s, howdah_error *reterr)
{
    howdah_dead_letters_options o = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    int status;

    o.subscriber_id = text_arg(s, "name", NULL);
    o.queue = text_arg(s, "queue", NULL);
    o.resolved = flag_arg(s, "all");
    hw_buf_puts(s->out, "{\"dead_letters\":[");
    status = howdah_dead_letters_walk(s->bus, &o, on_dead_letter, s, reterr);
    hw_buf_puts(s->out, "]}");
    return status;
}

static size_t ids_arg(step *s, int64_t *ids)
{
    hw_str list;
    hw_str item;
    size_t pos = 0;
    size_t n = 0;

    if (!given(s, "ids", &list))
        return 0;
    while (n < IDS_MAX && hw_json_item(list.s, list.len, &pos, &item)) {
        char text[32] = "";

        if (item.len < sizeof text)
            memcpy(text, item.s, item.len);
        if (!hw_parse_i64(text, INT64_MIN, INT64_MAX, &ids[n++]))
            s->unsayable = "ids";
    }
    return n;
}

static int redrive(step *s, howdah_error *reterr)
{
    const char *queue = text_arg(s, "queue", NULL);
    int64_t ids[IDS_MAX];
    int64_t n = 0;
    int status = queue ? howdah_queue_dead_letters_redrive(s->bus, queue, &n, reterr)
                       : howdah_dead_letters_redrive(s->bus, ids, ids_arg(s, ids),
                                                     text_arg(s, "name", NULL), &n, reterr);

    hw_buf_printf(s->out, "{\"count\":%" PRId64 "}", n);
    return status;
}

static int discard(step *s, howdah_error *reterr)
{
    const char *queue = text_arg(s, "queue", NULL);
    const char *reason = text_arg(s, "reason", NULL);
    int64_t ids[IDS_MAX];
    int64_t n = 0;
    int status =
        queue ? howdah_queue_dead_letters_discard(s->bus, queue, reason, &n, reterr)
              : howdah_dead_letters_discard(s->bus, ids, ids_arg(s, ids), reason, &n, reterr);

    hw_buf_printf(s->out, "{\"count\":%" PRId64 "}", n);
    return status;
}

const action group_actions[] = {{"subscribe", subscribe},
                                {"fetch", fetch},
                                {"ack", ack},
                                {"nack", nack},
                                {"extend", extend},
                                {"release", release},
                                {"pause", do_pause},
                                {"resume", resume},
                                {"reset", reset},
                                {"remove", remove_it},
                                {"show_subscription", show},
                                {"dead_letters", dead_letters},
                                {"redrive", redrive},
                                {"discard", discard},
                                {NULL, NULL}};
