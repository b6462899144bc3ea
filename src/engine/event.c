/* event.c - the record that every layer passes around. */
#include "engine/event.h"

#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"

/*
 * Every text of an event.  Clone and its size walk the same table, so that a new field cannot be
 * forgotten in one of them.
 */
static const size_t text_fields[] = {
    offsetof(howdah_event, stream),  offsetof(howdah_event, type),
    offsetof(howdah_event, data),    offsetof(howdah_event, content_type),
    offsetof(howdah_event, headers), offsetof(howdah_event, correlation_id),
    offsetof(howdah_event, actor),   offsetof(howdah_event, reason),
};

#define TEXT_FIELDS (sizeof text_fields / sizeof text_fields[0])

void hw_event_init(howdah_event *event)
{
    memset(event, 0, sizeof *event);
    event->global_sequence = HOWDAH_ABSENT;
    event->version = HOWDAH_ABSENT;
    event->expected_version = HOWDAH_EXPECT_ANY;
    event->revision = 1;
    event->schema_version = 1;
    event->valid_time_us = HW_TIME_ABSENT;
    event->recorded_at_us = HW_TIME_ABSENT;
}

static const hw_str *text_of(const howdah_event *event, size_t i)
{
    return (const hw_str *)(const void *)((const char *)event + text_fields[i]);
}

/*
 * The bytes of the block that holds the event and its texts, each with its NUL; 0 on overflow.
 * The texts need no alignment, so they follow the struct without gaps.
 */
static size_t block_size(const howdah_event *event)
{
    size_t size = sizeof *event;

    for (size_t i = 0; i < TEXT_FIELDS; i++) {
        const hw_str *text = text_of(event, i);

        if (!text->s)
            continue;
        if (__builtin_add_overflow(size, text->len, &size) ||
            __builtin_add_overflow(size, 1, &size))
            return 0;
    }
    return size;
}

/*
 * I2: one allocation, so that one free ends it, and nothing of the source is borrowed any more.
 */
int hw_event_clone(const howdah_event *event, howdah_event **ret_event, howdah_error *reterr)
{
    size_t size = block_size(event);
    howdah_event *copy = size ? hw_alloc(size) : NULL;
    char *at;

    if (!copy)
        return hw_fail_no_memory(reterr);
    *copy = *event;
    at = (char *)(copy + 1);
    for (size_t i = 0; i < TEXT_FIELDS; i++) {
        const hw_str *text = text_of(event, i);
        hw_str *mine = (hw_str *)(void *)((char *)copy + text_fields[i]);

        if (!text->s)
            continue;
        memcpy(at, text->s, text->len);
        at[text->len] = '\0';
        *mine = (hw_str){at, text->len};
        at += text->len + 1;
    }
    assert(at == (char *)copy + size);
    *ret_event = copy;
    return HOWDAH_OK;
}

void hw_event_free(howdah_event *event)
{
    hw_free(event);
}

static bool same_id(bool has_a, const hw_uuid *a, bool has_b, const hw_uuid *b)
{
    return has_a == has_b && (!has_a || hw_uuid_equal(a, b));
}

/* The headers are a valid object, so a first member is all there is to ask for. */
static bool has_headers(const howdah_event *event)
{
    size_t pos = 0;
    hw_str name;
    hw_str value;

    return event->headers.s &&
           hw_json_member(event->headers.s, event->headers.len, &pos, &name, &value);
}

/* No headers and an empty object of headers are the same content. */
static bool same_headers(const howdah_event *a, const howdah_event *b)
{
    return hw_str_equal(a->headers, b->headers) || (!has_headers(a) && !has_headers(b));
}

/*
 * Decides whether an append with a stored id is a repeat (fine) or another event (an error).
 * What the store adds, sequence, version and recorded time, is not compared.
 */
bool hw_event_same_content(const howdah_event *sent, const howdah_event *stored)
{
    return hw_str_equal(sent->stream, stored->stream) && hw_str_equal(sent->type, stored->type) &&
           (stored->purged || (hw_str_equal(sent->data, stored->data) &&
                               hw_str_equal(sent->content_type, stored->content_type) &&
                               same_headers(sent, stored))) &&
           hw_str_equal(sent->correlation_id, stored->correlation_id) &&
           same_id(sent->has_causation, &sent->causation_id, stored->has_causation,
                   &stored->causation_id) &&
           hw_str_equal(sent->actor, stored->actor) &&
           sent->schema_version == stored->schema_version &&
           same_id(sent->has_corrects, &sent->corrects, stored->has_corrects, &stored->corrects) &&
           hw_str_equal(sent->reason, stored->reason) && sent->retracts == stored->retracts &&
           (sent->valid_time_us == HW_TIME_ABSENT || sent->valid_time_us == stored->valid_time_us);
}
