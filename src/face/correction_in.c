/*
 * correction_in.c - see correction_in.h.
 *
 * A field is a row of a table.  Texts are unescaped into memory in which nothing moves: as much as
 * the object has is reserved before the first.
 */
#include "face/correction_in.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "face/json_in.h"

#define TEXTS_ROOM ((size_t)8 * 1024) /* a reason of 1,000 bytes, six names, and longer ones */
#define HEADERS_ROOM ((size_t)128 * 1024)

typedef struct parse {
    face_correction_in *in;
    size_t payload_max;
    hw_str base64; /* absent: none */
} parse;

typedef struct field {
    const char *name;
    int (*take)(parse *p, const struct field *field, hw_str value, howdah_error *reterr);
    size_t offset; /* in face_correction_in, of take_text and take_number */
} field;

/* Three buffers of its own, as a job has them. */
void face_correction_in_init(face_correction_in *in, size_t payload_max)
{
    *in = (face_correction_in){
        HOWDAH_CORRECTION_INIT, NULL, NULL, HW_BUF_INIT(payload_max + 1), HW_BUF_INIT(HEADERS_ROOM),
        HW_BUF_INIT(TEXTS_ROOM)};
}

void face_correction_in_done(face_correction_in *in)
{
    hw_buf_done(&in->data);
    hw_buf_done(&in->headers);
    hw_buf_done(&in->texts);
}

/* NULL (and an error) when it is no string, or too long for any of our texts. */
static const char *text_of(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    hw_buf *texts = &p->in->texts;
    size_t at = texts->len;

    if (face_kind_of(value) != 's') {
        (void)hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
        return NULL;
    }
    if (value.len > TEXTS_ROOM - texts->len) { /* unescaping only shortens */
        (void)hw_fail_field(reterr, HOWDAH_INVALID, f->name, "too long: %zu bytes", value.len - 2);
        return NULL;
    }
    hw_json_unescape(value.s + 1, value.len - 2, texts);
    hw_buf_putc(texts, '\0');
    return hw_buf_check(texts, reterr) < 0 ? NULL : texts->data + at;
}

static int take_text(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    memcpy((char *)p->in + f->offset, &text, sizeof text);
    return HOWDAH_OK;
}

/* A number only, as in an event: a text would be a mistake of the program that wrote it. */
static int take_number(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char text[FACE_NUMBER_TEXT];
    int64_t number;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (!face_number_text(value, text) || !hw_parse_i64(text, 1, INT32_MAX, &number))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a whole number, 1 to %d",
                             INT32_MAX);
    memcpy((char *)p->in + f->offset, &number, sizeof number);
    return HOWDAH_OK;
}

static int take_valid_time(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    if (!hw_time_parse(text, strlen(text), &p->in->correction.valid_time_us))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "not a time like %s",
                             "2026-01-31T09:30:00Z");
    return HOWDAH_OK;
}

static int too_long(size_t len, size_t max, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_LIMIT, "data", "%zu bytes, the limit is %zu", len, max);
}

/* As it is written; null is a payload, too. */
static int take_data(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    hw_buf *data = &p->in->data;

    (void)f;
    if (value.len > p->payload_max)
        return too_long(value.len, p->payload_max, reterr);
    hw_buf_clear(data);
    hw_buf_put(data, value.s, value.len);
    p->in->correction.data = hw_buf_str(data);
    p->in->correction.data_len = data->len;
    return hw_buf_check(data, reterr);
}

/* Decoded at the end: content_type, which it needs, may come after it. */
static int take_base64(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (face_kind_of(value) != 's')
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
    p->base64 = (hw_str){value.s + 1, value.len - 2};
    return HOWDAH_OK;
}

/* The library checks what is in it, and the exact limit. */
static int take_headers(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    hw_buf *headers = &p->in->headers;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (value.len > HEADERS_ROOM)
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name,
                             "must be at most 65536 bytes, got %zu", value.len);
    hw_buf_clear(headers);
    hw_buf_put(headers, value.s, value.len);
    p->in->correction.headers = hw_buf_str(headers);
    return hw_buf_check(headers, reterr);
}

static int take_retraction(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char kind = face_kind_of(value);

    if (kind != 't' && kind != 'f' && kind != '0')
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected true or false");
    p->in->correction.retract = kind == 't';
    return HOWDAH_OK;
}

/* Given by the store. */
static int skip(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)p;
    (void)f;
    (void)value;
    (void)reterr;
    return HOWDAH_OK;
}

/* What a correction has from its family cannot be changed by it, so it must not look as if. */
static int refuse_unless_null(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)p;
    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "not of a correction: leave it out");
}

#define AT(member) offsetof(face_correction_in, member)

static const field fields[] = {
    {"corrects", take_text, AT(correction.event_id)},
    {"reason", take_text, AT(correction.reason)},
    {"stream", take_text, AT(stream)},
    {"type", take_text, AT(type)},
    {"data", take_data, 0},
    {"data_base64", take_base64, 0},
    {"content_type", take_text, AT(correction.content_type)},
    {"headers", take_headers, 0},
    {"id", take_text, AT(correction.id)},
    {"actor", take_text, AT(correction.actor)},
    {"valid_time", take_valid_time, 0},
    {"schema_version", take_number, AT(correction.schema_version)},
    {"expect_revision", take_number, AT(correction.expected_revision)},
    {"retraction", take_retraction, 0},
    {"correlation_id", refuse_unless_null, 0},
    {"causation_id", refuse_unless_null, 0},
    {"expect", refuse_unless_null, 0},
    {"global_sequence", skip, 0},
    {"version", skip, 0},
    {"recorded_at", skip, 0},
    {"family", skip, 0},
    {"revision", skip, 0},
    {"final", skip, 0},
};
#define FIELDS_N (sizeof fields / sizeof *fields)

/* A linear search: there are two dozen fields. */
static int take_member(parse *p, hw_str key, hw_str value, howdah_error *reterr)
{
    for (size_t i = 0; i < FIELDS_N; i++)
        if (hw_json_key_is(key, fields[i].name))
            return fields[i].take(p, &fields[i], value, reterr);
    return face_unknown_field(key, fields, sizeof *fields, FIELDS_N, NULL, reterr);
}

/* data_base64 and content_type belong together, and exclude data. */
static int finish_payload(parse *p, howdah_error *reterr)
{
    howdah_correction *c = &p->in->correction;
    hw_buf *data = &p->in->data;

    if ((p->base64.s != NULL) != (c->content_type != NULL))
        return hw_fail_field(reterr, HOWDAH_INVALID, p->base64.s ? "content_type" : "data_base64",
                             "data_base64 and content_type need each other");
    if (!p->base64.s)
        return HOWDAH_OK;
    if (c->data)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data",
                             "data and data_base64 exclude each other");
    hw_buf_clear(data);
    if (!hw_base64_get(p->base64.s, p->base64.len, data))
        return hw_fail_field(reterr, HOWDAH_INVALID, "data_base64", "not base64");
    if (data->broken == HOWDAH_LIMIT || data->len > p->payload_max)
        return too_long(p->base64.len / 4 * 3, p->payload_max, reterr);
    c->data = hw_buf_str(data);
    c->data_len = data->len;
    return hw_buf_check(data, reterr);
}

/* Room for all texts is made first: later texts must not move earlier ones. */
int face_correction_in_parse(face_correction_in *in, hw_str object, size_t payload_max,
                             howdah_error *reterr)
{
    parse p = {.in = in, .payload_max = payload_max};
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s = HOWDAH_OK;

    in->correction = (howdah_correction)HOWDAH_CORRECTION_INIT;
    in->stream = in->type = NULL;
    hw_buf_clear(&in->texts);
    if (!hw_buf_reserve(&in->texts, object.len < TEXTS_ROOM ? object.len : TEXTS_ROOM))
        return hw_buf_check(&in->texts, reterr);
    while (s == HOWDAH_OK && hw_json_member(object.s, object.len, &pos, &key, &value))
        s = take_member(&p, key, value, reterr);
    return s < 0 ? s : finish_payload(&p, reterr);
}
