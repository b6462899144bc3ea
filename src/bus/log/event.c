/*
 * event.c - events as a user meets them: builder, copies, views, getters.
 *
 * A builder owns one buffer per text field and a record whose strings are pointed at those
 * buffers only while an event is built.  The first bad value is remembered and reported by
 * build, so that a caller checks once.
 */
#include "engine/event.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "engine/rules.h"

/*
 * One byte more than the rule allows is kept, so that build can report the length.  Names longer
 * than that are refused in the setter.
 */
#define NAME_BUF_MAX (HW_REASON_MAX + 1)

enum { STREAM, TYPE, CONTENT_TYPE, CORRELATION, ACTOR, REASON, NAMES };

/*
 * Buffers are kept over reset, so that one builder makes many events without allocating for each.
 */
struct howdah_builder {
    howdah_event record; /* the fields that are no text */
    bool has_id;
    hw_buf name[NAMES];
    bool has_name[NAMES];
    hw_buf data;
    bool has_data;
    hw_buf headers; /* a JSON object, or empty */
    howdah_error first_error;
};

/* In the order of the enum above; assembled() has the same order. */
static const char *const name_fields[NAMES] = {"stream",         "type",  "content_type",
                                               "correlation_id", "actor", "reason"};

/* Everything but the buffers, which their owner clears. */
static void start(howdah_builder *b)
{
    hw_event_init(&b->record);
    b->has_id = false;
    b->has_data = false;
    memset(b->has_name, 0, sizeof b->has_name);
    b->first_error = (howdah_error)HOWDAH_ERROR_INIT;
}

int howdah_builder_new(howdah_builder **ret_builder, howdah_error *reterr)
{
    howdah_builder *b;

    if (!ret_builder)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_builder_new: ret_builder is NULL");
    b = hw_calloc(1, sizeof *b);
    if (!b)
        return hw_fail_no_memory(reterr);
    for (int i = 0; i < NAMES; i++)
        b->name[i].len_max = NAME_BUF_MAX;
    b->data.len_max = HW_PAYLOAD_HARD_MAX;
    b->headers.len_max = (size_t)HW_HEADERS_MAX + 1;
    start(b);
    *ret_builder = b;
    return HOWDAH_OK;
}

void howdah_builder_free(howdah_builder *b)
{
    if (!b)
        return;
    for (int i = 0; i < NAMES; i++)
        hw_buf_done(&b->name[i]);
    hw_buf_done(&b->data);
    hw_buf_done(&b->headers);
    hw_free(b);
}

void howdah_builder_reset(howdah_builder *b)
{
    if (!b)
        return;
    for (int i = 0; i < NAMES; i++)
        hw_buf_clear(&b->name[i]);
    hw_buf_clear(&b->data);
    hw_buf_clear(&b->headers);
    start(b);
}

/* Remembers the first error only: it is the one nearest to its cause. */
static howdah_error *error_slot(howdah_builder *b)
{
    return b->first_error.status ? NULL : &b->first_error;
}

/* NULL takes a value back.  A value that is far too long is not copied, only reported. */
static void set_name(howdah_builder *b, int which, hw_str value)
{
    assert(which >= 0 && which < NAMES);
    if (!b)
        return;
    hw_buf_clear(&b->name[which]);
    b->has_name[which] = value.s != NULL;
    if (!value.s)
        return;
    if (value.len > NAME_BUF_MAX) {
        (void)hw_fail_field(error_slot(b), HOWDAH_INVALID, name_fields[which],
                            "must be 1 to %d bytes, got %zu",
                            which == REASON ? HW_REASON_MAX : HW_NAME_MAX, value.len);
        return;
    }
    hw_buf_put(&b->name[which], value.s, value.len);
}

void howdah_builder_set_stream(howdah_builder *b, const char *stream)
{
    set_name(b, STREAM, hw_str_of(stream));
}

void howdah_builder_set_type(howdah_builder *b, const char *type)
{
    set_name(b, TYPE, hw_str_of(type));
}

void howdah_builder_set_correlation(howdah_builder *b, const char *correlation_id)
{
    set_name(b, CORRELATION, hw_str_of(correlation_id));
}

void howdah_builder_set_actor(howdah_builder *b, const char *actor)
{
    set_name(b, ACTOR, hw_str_of(actor));
}

/*
 * Checked against the hard limit only: which limit the bus has is known when the event is
 * appended.
 */
static void set_data(howdah_builder *b, const void *bytes, size_t len)
{
    if (len > HW_PAYLOAD_HARD_MAX) {
        (void)hw_rule_bytes(len, HW_PAYLOAD_HARD_MAX, error_slot(b));
        return;
    }
    hw_buf_clear(&b->data);
    hw_buf_put(&b->data, bytes ? bytes : "", len);
    b->has_data = true;
}

void howdah_builder_set_json(howdah_builder *b, const char *json, size_t len)
{
    if (!b)
        return;
    set_name(b, CONTENT_TYPE, HW_STR_NULL);
    set_data(b, json, len);
}

/*
 * An absent content type becomes an empty one, which the rules refuse: bytes without a type would
 * read as JSON.
 */
void howdah_builder_set_bytes(howdah_builder *b, const void *bytes, size_t len,
                              const char *content_type)
{
    if (!b)
        return;
    set_name(b, CONTENT_TYPE, hw_str_of(content_type ? content_type : ""));
    set_data(b, bytes, len);
}

/* Whether the object has no member: nothing but white space between its braces. */
static bool object_is_empty(const hw_buf *object)
{
    assert(object->len > 0);
    for (size_t i = 1; i + 1 < object->len; i++)
        if (!strchr(" \t\r\n", object->data[i]))
            return false;
    return true;
}

/*
 * Adds to the JSON text itself, so that headers set as JSON and headers added one by one can be
 * mixed.  If that text is no object the rules say so when the event is built.
 */
void howdah_builder_add_header(howdah_builder *b, const char *name, const char *value)
{
    if (!b)
        return;
    if (!name || !value || !hw_utf8_valid(name, strlen(name)) ||
        !hw_utf8_valid(value, strlen(value))) {
        (void)hw_fail_field(error_slot(b), HOWDAH_INVALID, "headers",
                            "a name and a value in UTF-8 are needed");
        return;
    }
    if (b->headers.len == 0) {
        hw_buf_putc(&b->headers, '{');
    } else if (b->headers.data[b->headers.len - 1] == '}') {
        bool empty = object_is_empty(&b->headers);

        b->headers.data[--b->headers.len] = '\0';
        if (!empty)
            hw_buf_putc(&b->headers, ',');
    }
    hw_json_put_string(&b->headers, name, strlen(name));
    hw_buf_putc(&b->headers, ':');
    hw_json_put_string(&b->headers, value, strlen(value));
    hw_buf_putc(&b->headers, '}');
}

void howdah_builder_set_headers_json(howdah_builder *b, const char *json, size_t len)
{
    if (!b)
        return;
    hw_buf_clear(&b->headers);
    if (!json)
        return;
    if (len > HW_HEADERS_MAX) {
        (void)hw_fail_field(error_slot(b), HOWDAH_INVALID, "headers",
                            "must be at most %d bytes, got %zu", HW_HEADERS_MAX, len);
        return;
    }
    /* An empty text is no object; a space keeps it from counting as "no headers". */
    hw_buf_put(&b->headers, len ? json : " ", len ? len : 1);
}

/* False leaves the first error in the builder, and the field unset. */
static bool parse_uuid(howdah_builder *b, const char *field, const char *text, hw_uuid *ret_uuid)
{
    size_t len = text ? strlen(text) : 0;

    if (hw_uuid_parse(text ? text : "", len, ret_uuid))
        return true;
    (void)hw_fail_field(error_slot(b), HOWDAH_INVALID, field,
                        "not a UUID: wanted 36 characters like "
                        "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a, got %zu",
                        len);
    return false;
}

/* An id that was set and is no UUID is an error of build, not an id that build makes. */
void howdah_builder_set_id(howdah_builder *b, const char *uuid)
{
    if (b)
        b->has_id = parse_uuid(b, "id", uuid, &b->record.id);
}

/* NULL takes it back; a text that is no UUID is an error of build. */
void howdah_builder_set_causation(howdah_builder *b, const char *uuid)
{
    if (!b)
        return;
    b->record.has_causation = uuid && parse_uuid(b, "causation_id", uuid, &b->record.causation_id);
}

void howdah_builder_set_valid_time(howdah_builder *b, int64_t valid_time_us)
{
    if (!b)
        return;
    if (hw_rule_valid_time(valid_time_us, error_slot(b)) == HOWDAH_OK)
        b->record.valid_time_us = valid_time_us;
}

void howdah_builder_set_schema_version(howdah_builder *b, int64_t schema_version)
{
    if (!b)
        return;
    if (hw_rule_schema_version(schema_version, error_slot(b)) == HOWDAH_OK)
        b->record.schema_version = (int32_t)schema_version;
}

void howdah_builder_set_expect(howdah_builder *b, int64_t expected_version)
{
    if (!b)
        return;
    if (hw_rule_expected(expected_version, error_slot(b)) == HOWDAH_OK) {
        b->record.expected_version = expected_version;
        b->record.expects = true;
    }
}

/* An append ignores it: the store gives the number. */
void howdah_builder_set_global_sequence(howdah_builder *b, int64_t global_sequence)
{
    if (!b)
        return;
    if (global_sequence < 1 && global_sequence != HOWDAH_ABSENT)
        (void)hw_fail_field(error_slot(b), HOWDAH_INVALID, "global_sequence", "must be 1 or more");
    else
        b->record.global_sequence = global_sequence;
}

/* Takes everything over, id included: the copy is the same event until the caller changes it. */
int howdah_builder_from_event(const howdah_event *event, howdah_builder **ret_builder,
                              howdah_error *reterr)
{
    howdah_builder *b = NULL;
    int s;

    if (!event || !ret_builder)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_builder_from_event: an argument is NULL");
    s = howdah_builder_new(&b, reterr);
    if (s < 0)
        return s;
    b->record = *event;
    b->has_id = true;
    set_name(b, STREAM, event->stream);
    set_name(b, TYPE, event->type);
    set_name(b, CONTENT_TYPE, event->content_type);
    set_name(b, CORRELATION, event->correlation_id);
    set_name(b, ACTOR, event->actor);
    set_name(b, REASON, event->reason);
    set_data(b, event->data.s, event->data.len);
    howdah_builder_set_headers_json(b, event->headers.s, event->headers.len);
    *ret_builder = b;
    return HOWDAH_OK;
}

/*
 * The record with its strings pointing into the builder's buffers: valid until the next setter.
 * An event without data gets an empty object.
 */
static howdah_event assembled(const howdah_builder *b)
{
    howdah_event e = b->record;
    hw_str *const fields[NAMES] = {&e.stream,         &e.type,  &e.content_type,
                                   &e.correlation_id, &e.actor, &e.reason};

    assert(!b->first_error.status); /* build would have said so */
    for (int i = 0; i < NAMES; i++)
        *fields[i] =
            b->has_name[i] ? (hw_str){hw_buf_str(&b->name[i]), b->name[i].len} : HW_STR_NULL;
    e.data = b->has_data ? (hw_str){hw_buf_str(&b->data), b->data.len} : HW_STR_LIT("{}");
    e.headers = b->headers.len ? (hw_str){hw_buf_str(&b->headers), b->headers.len} : HW_STR_NULL;
    return e;
}

/* Too many headers are the user's mistake and get the rule's message; other failures are ours. */
static int check_buffers(const howdah_builder *b, howdah_error *reterr)
{
    int s = hw_buf_check(&b->data, reterr);

    for (int i = 0; s == HOWDAH_OK && i < NAMES; i++)
        s = hw_buf_check(&b->name[i], reterr);
    if (s == HOWDAH_OK && b->headers.broken == HOWDAH_LIMIT)
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "must be at most %d bytes",
                             HW_HEADERS_MAX);
    return s == HOWDAH_OK ? hw_buf_check(&b->headers, reterr) : s;
}

/*
 * The id is given here and not by the append, so that the same event can be sent again after an
 * unknown outcome.  The builder itself is not changed and can build more.
 */
int howdah_builder_build(const howdah_builder *b, howdah_event **ret_event, howdah_error *reterr)
{
    howdah_event e;
    int s;

    if (!b || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_builder_build: an argument is NULL");
    if (b->first_error.status) {
        hw_error_copy(reterr, &b->first_error);
        return b->first_error.status;
    }
    s = check_buffers(b, reterr);
    if (s < 0)
        return s;
    e = assembled(b);
    if (!b->has_id && !hw_uuid_v7(&e.id))
        return hw_fail(reterr, HOWDAH_FAILED, "the system gives no random bytes for an id");
    s = hw_rule_event(&e, HW_PAYLOAD_HARD_MAX, reterr);
    if (s < 0)
        return s;
    e.checked = true;
    return hw_event_clone(&e, ret_event, reterr);
}

int howdah_event_copy(const howdah_event *event, howdah_event **ret_event, howdah_error *reterr)
{
    if (!event || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_event_copy: an argument is NULL");
    return hw_event_clone(event, ret_event, reterr);
}

void howdah_event_free(howdah_event *event)
{
    hw_event_free(event);
}

/* ------------------------------------------------------------------- views */

/* Views change the payload only; bytes of another type have no members. */
static int check_view(const howdah_event *event, const char *member, howdah_event **ret_event,
                      howdah_error *reterr)
{
    if (!event || !member || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "a view of an event: an argument is NULL");
    if (event->content_type.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data",
                             "only a JSON payload can be narrowed or widened, this is %zu bytes "
                             "of another type",
                             event->data.len);
    if (!hw_utf8_valid(member, strlen(member)))
        return hw_fail_field(reterr, HOWDAH_INVALID, "member", "must be UTF-8");
    return HOWDAH_OK;
}

/* The same event around another payload. */
static int with_data(const howdah_event *event, hw_str data, howdah_event **ret_event,
                     howdah_error *reterr)
{
    howdah_event view = *event;

    view.data = data;
    return hw_event_clone(&view, ret_event, reterr);
}

/* The value is a slice of the payload, copied as it is: numbers keep their digits. */
int howdah_event_narrow(const howdah_event *event, const char *member, howdah_event **ret_event,
                        howdah_error *reterr)
{
    hw_str key;
    hw_str value;
    hw_str found = HW_STR_NULL;
    size_t pos = 0;
    int s = check_view(event, member, ret_event, reterr);

    if (s < 0)
        return s;
    /* Of duplicate keys the last wins, as everywhere. */
    while (hw_json_member(event->data.s, event->data.len, &pos, &key, &value))
        if (hw_json_key_is(key, member))
            found = value;
    if (!found.s)
        return hw_fail(reterr, HOWDAH_NOT_FOUND, "the payload has no such member");
    return with_data(event, found, ret_event, reterr);
}

/* The result is checked: one level more may pass the depth, and the member the size. */
int howdah_event_widen(const howdah_event *event, const char *member, howdah_event **ret_event,
                       howdah_error *reterr)
{
    hw_buf wide = HW_BUF_INIT(HW_PAYLOAD_HARD_MAX);
    int s = check_view(event, member, ret_event, reterr);

    if (s < 0)
        return s;
    hw_buf_putc(&wide, '{');
    hw_json_put_string(&wide, member, strlen(member));
    hw_buf_putc(&wide, ':');
    hw_buf_put(&wide, event->data.s, event->data.len);
    hw_buf_putc(&wide, '}');
    s = hw_buf_check(&wide, reterr);
    if (s >= 0)
        s = hw_rule_json((hw_str){hw_buf_str(&wide), wide.len}, HW_PAYLOAD_HARD_MAX, reterr);
    if (s >= 0)
        s = with_data(event, (hw_str){hw_buf_str(&wide), wide.len}, ret_event, reterr);
    hw_buf_done(&wide);
    return s;
}

/* ----------------------------------------------------------------- getters */

/* Getters never fail: of no event everything is absent. */
static const howdah_event *seen(const howdah_event *event)
{
    static const howdah_event none = {.global_sequence = HOWDAH_ABSENT,
                                      .version = HOWDAH_ABSENT,
                                      .valid_time_us = HW_TIME_ABSENT,
                                      .recorded_at_us = HW_TIME_ABSENT};

    return event ? event : &none;
}

/* An empty string when there is none. */
static bool format_optional(bool has, const hw_uuid *uuid, char ret_uuid[HOWDAH_UUID_SIZE])
{
    if (ret_uuid)
        ret_uuid[0] = '\0';
    if (has && ret_uuid)
        hw_uuid_format(uuid, ret_uuid);
    return has;
}

int64_t howdah_event_global_sequence(const howdah_event *event)
{
    return seen(event)->global_sequence;
}

int64_t howdah_event_version(const howdah_event *event)
{
    return seen(event)->version;
}

void howdah_event_id(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE])
{
    (void)format_optional(event != NULL, &seen(event)->id, ret_uuid);
}

const char *howdah_event_stream(const howdah_event *event)
{
    return seen(event)->stream.s;
}

const char *howdah_event_type(const howdah_event *event)
{
    return seen(event)->type.s;
}

const char *howdah_event_data(const howdah_event *event, size_t *ret_len)
{
    if (ret_len)
        *ret_len = seen(event)->data.len;
    return seen(event)->data.s;
}

const char *howdah_event_content_type(const howdah_event *event)
{
    return seen(event)->content_type.s;
}

const char *howdah_event_headers(const howdah_event *event, size_t *ret_len)
{
    hw_str headers = seen(event)->headers.s ? event->headers : HW_STR_LIT("{}");

    if (ret_len)
        *ret_len = headers.len;
    return headers.s;
}

const char *howdah_event_correlation(const howdah_event *event)
{
    return seen(event)->correlation_id.s;
}

const char *howdah_event_actor(const howdah_event *event)
{
    return seen(event)->actor.s;
}

const char *howdah_event_reason(const howdah_event *event)
{
    return seen(event)->reason.s;
}

bool howdah_event_causation(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE])
{
    return format_optional(seen(event)->has_causation, &seen(event)->causation_id, ret_uuid);
}

bool howdah_event_corrects(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE])
{
    return format_optional(seen(event)->has_corrects, &seen(event)->corrects, ret_uuid);
}

void howdah_event_family(const howdah_event *event, char ret_uuid[HOWDAH_UUID_SIZE])
{
    (void)format_optional(event != NULL,
                          seen(event)->has_family ? &event->family : &seen(event)->id, ret_uuid);
}

int howdah_event_revision(const howdah_event *event)
{
    return seen(event)->revision;
}

int howdah_event_schema_version(const howdah_event *event)
{
    return seen(event)->schema_version;
}

/* False, and *ret_us untouched, without a time. */
static bool get_time(int64_t time_us, int64_t *ret_us)
{
    if (time_us == HW_TIME_ABSENT)
        return false;
    if (ret_us)
        *ret_us = time_us;
    return true;
}

bool howdah_event_valid_time(const howdah_event *event, int64_t *ret_us)
{
    return get_time(seen(event)->valid_time_us, ret_us);
}

bool howdah_event_recorded_at(const howdah_event *event, int64_t *ret_us)
{
    return get_time(seen(event)->recorded_at_us, ret_us);
}
