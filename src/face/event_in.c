/*
 * event_in.c - see event_in.h.
 *
 * A field is a row of a table: its name and what is done with its value.  Values stay slices of
 * the text: a payload goes to the builder unchanged.  Events that were read have fields that the
 * store gives; they are skipped.
 */
#include "face/event_in.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "face/json_in.h"

typedef struct parse {
    face_event_in *in;
    howdah_builder *builder;
    hw_buf *scratch;
    bool has_data;
    hw_str base64;       /* absent: none */
    hw_str content_type; /* raw; absent: none */
} parse;

typedef struct field {
    const char *name;
    int (*take)(parse *p, const struct field *field, hw_str value, howdah_error *reterr);
    void (*set)(howdah_builder *builder, const char *text); /* of take_text */
} field;

/* The unescaped inside of a string, in the scratch buffer; NULL (and an error) for another kind. */
static const char *text_of(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (face_kind_of(value) != 's') {
        (void)hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
        return NULL;
    }
    hw_buf_clear(p->scratch);
    hw_json_unescape(value.s + 1, value.len - 2, p->scratch);
    return hw_buf_check(p->scratch, reterr) < 0 ? NULL : hw_buf_str(p->scratch);
}

/* null is the same as a field that is left out: that is how events are printed. */
static int take_text(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    assert(f->set); /* the table has it for every take_text */
    f->set(p->builder, text);
    return HOWDAH_OK;
}

/* Whether a line has an id decides whether it can be sent again. */
static int take_id(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (face_kind_of(value) != '0')
        p->in->has_id = true;
    return take_text(p, f, value, reterr);
}

/* The slice goes to the builder as it is: numbers and spaces stay as they were written. */
static int take_data(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (value.len > p->in->payload_max)
        return hw_fail_field(reterr, HOWDAH_LIMIT, f->name, "%zu bytes, the limit is %zu",
                             value.len, p->in->payload_max);
    howdah_builder_set_json(p->builder, value.s, value.len);
    p->has_data = true;
    return HOWDAH_OK;
}

/*
 * Both parts of a payload of bytes are needed before either can be used, in whatever order they
 * come.
 */
static int keep_raw(const field *f, hw_str value, hw_str *ret_raw, howdah_error *reterr)
{
    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (face_kind_of(value) != 's')
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
    *ret_raw = (hw_str){value.s + 1, value.len - 2};
    return HOWDAH_OK;
}

/* Kept until content_type is known as well. */
static int take_base64(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    return keep_raw(f, value, &p->base64, reterr);
}

static int take_content_type(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    return keep_raw(f, value, &p->content_type, reterr);
}

/* The builder checks the object; null is the same as none. */
static int take_headers(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)f;
    (void)reterr;
    if (face_kind_of(value) != '0') {
        howdah_builder_set_headers_json(p->builder, value.s, value.len);
        p->in->headers = value;
    }
    return HOWDAH_OK;
}

/* null leaves it to the store, which takes the time of recording. */
static int take_valid_time(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;
    int64_t time_us;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    if (!hw_time_parse(text, strlen(text), &time_us))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "not a time like %s",
                             "2026-01-31T09:30:00Z");
    howdah_builder_set_valid_time(p->builder, time_us);
    return HOWDAH_OK;
}

/* A number only: a text would be a mistake of the program that wrote the line. */
static int take_schema_version(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char text[FACE_NUMBER_TEXT];
    int64_t version;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (!face_number_text(value, text) || !hw_parse_i64(text, 1, INT32_MAX, &version))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a whole number, 1 to %d",
                             INT32_MAX);
    howdah_builder_set_schema_version(p->builder, version);
    return HOWDAH_OK;
}

/* A version may come as a number or as a text. */
static int take_expect(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char number[FACE_NUMBER_TEXT];
    const char *text = number;
    int64_t expected;
    int s;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (!face_number_text(value, number))
        text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    s = face_expect_parse(text, &expected, reterr);
    if (s == HOWDAH_OK)
        howdah_builder_set_expect(p->builder, expected);
    return s;
}

/* Fields that the store gives, and that an event read from another log has. */
static int skip(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)p;
    (void)f;
    (void)value;
    (void)reterr;
    return HOWDAH_OK;
}

/* A revision without its family would look like an original.  Advice is the face's. */
static int refuse_unless_null(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    int s;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (p->in->correction)
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name,
                             "only of a correction, which names an event in \"corrects\"");
    s = hw_fail_field(reterr, HOWDAH_INVALID, f->name, "a correction cannot be part of a batch");
    return p->in->correction_advice ? hw_advise(reterr, s, "%s", p->in->correction_advice) : s;
}

/* What is left of it is not what was appended. */
static int refuse_purged(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)p;
    if (face_kind_of(value) != 't')
        return HOWDAH_OK;
    return hw_advise(
        reterr,
        hw_fail_field(reterr, HOWDAH_INVALID, f->name, "the payload of this event was erased"),
        "leave its line out");
}

static const field fields[] = {
    {"stream", take_text, howdah_builder_set_stream},
    {"type", take_text, howdah_builder_set_type},
    {"data", take_data, NULL},
    {"data_base64", take_base64, NULL},
    {"content_type", take_content_type, NULL},
    {"headers", take_headers, NULL},
    {"id", take_id, howdah_builder_set_id},
    {"correlation_id", take_text, howdah_builder_set_correlation},
    {"causation_id", take_text, howdah_builder_set_causation},
    {"actor", take_text, howdah_builder_set_actor},
    {"valid_time", take_valid_time, NULL},
    {"schema_version", take_schema_version, NULL},
    {"expect", take_expect, NULL},
    {"global_sequence", skip, NULL},
    {"version", skip, NULL},
    {"recorded_at", skip, NULL},
    {"family", skip, NULL},
    {"revision", skip, NULL},
    {"corrects", refuse_unless_null, NULL},
    {"reason", refuse_unless_null, NULL},
    {"retraction", skip, NULL}, /* has "corrects" beside it */
    {"purged", refuse_purged, NULL},
    {"final", skip, NULL},
};
#define FIELDS_N (sizeof fields / sizeof *fields)

/* A linear search: there are two dozen fields, and most are found early. */
static int take_member(parse *p, hw_str key, hw_str value, howdah_error *reterr)
{
    for (size_t i = 0; i < FIELDS_N; i++)
        if (hw_json_key_is(key, fields[i].name))
            return fields[i].take(p, &fields[i], value, reterr);
    return face_unknown_field(key, fields, sizeof *fields, FIELDS_N, NULL, reterr);
}

/* data_base64 and content_type belong together, and exclude data. */
static int take_bytes(parse *p, howdah_error *reterr)
{
    hw_buf type = HW_BUF_INIT(4096);
    int s;

    if (!p->base64.s && !p->content_type.s)
        return HOWDAH_OK;
    if (!p->base64.s || !p->content_type.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, p->base64.s ? "content_type" : "data_base64",
                             "data_base64 and content_type need each other");
    if (p->has_data)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data",
                             "data and data_base64 exclude each "
                             "other");
    hw_buf_clear(p->scratch);
    if (!hw_base64_get(p->base64.s, p->base64.len, p->scratch))
        return hw_fail_field(reterr, HOWDAH_INVALID, "data_base64", "not base64");
    if (p->scratch->len > p->in->payload_max)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "data", "%zu bytes, the limit is %zu",
                             p->scratch->len, p->in->payload_max);
    hw_json_unescape(p->content_type.s, p->content_type.len, &type);
    s = hw_buf_check(&type, reterr);
    if (s == HOWDAH_OK)
        s = hw_buf_check(p->scratch, reterr);
    if (s == HOWDAH_OK)
        howdah_builder_set_bytes(p->builder, hw_buf_str(p->scratch), p->scratch->len,
                                 hw_buf_str(&type));
    hw_buf_done(&type);
    return s;
}

/* The same line at the same place gets the same id, in every run. */
static int give_id(parse *p, howdah_error *reterr)
{
    hw_uuid uuid;
    char text[HW_UUID_TEXT + 1];

    if (p->in->has_id || !p->in->id_space)
        return HOWDAH_OK;
    hw_buf_clear(p->scratch);
    hw_buf_printf(p->scratch, "%" PRId64 ":", p->in->number);
    hw_buf_put(p->scratch, p->in->text.s, p->in->text.len);
    if (hw_buf_check(p->scratch, reterr) < 0)
        return HOWDAH_NO_MEMORY;
    if (!hw_uuid_from_name(p->in->id_space, hw_buf_str(p->scratch), p->scratch->len, &uuid))
        return hw_fail_no_memory(reterr);
    hw_uuid_format(&uuid, text);
    howdah_builder_set_id(p->builder, text);
    p->in->has_id = true;
    return HOWDAH_OK;
}

/* The same words in --expect and in the "expect" field of a batch line. */
int face_expect_parse(const char *text, int64_t *ret_expected, howdah_error *reterr)
{
    if (strcmp(text, "any") == 0)
        *ret_expected = HOWDAH_EXPECT_ANY;
    else if (strcmp(text, "none") == 0)
        *ret_expected = HOWDAH_EXPECT_NONE;
    else if (strcmp(text, "exists") == 0)
        *ret_expected = HOWDAH_EXPECT_EXISTS;
    else if (!hw_parse_i64(text, 0, INT64_MAX, ret_expected))
        return hw_fail_field(reterr, HOWDAH_INVALID, "expect",
                             "expected any, none, exists or a version");
    return HOWDAH_OK;
}

/* It is one by what it corrects; a reason alone is refused with the field's name. */
static bool is_correction(hw_str object)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;

    while (hw_json_member(object.s, object.len, &pos, &key, &value))
        if (hw_json_key_is(key, "corrects") && face_kind_of(value) != '0')
            return true;
    return false;
}

/* Checked as a whole before any field is taken: slices of broken JSON could be anything. */
int face_event_in_parse(face_event_in *in, howdah_builder *builder, hw_buf *scratch,
                        howdah_error *reterr)
{
    parse p = {in, builder, scratch, false, HW_STR_NULL, HW_STR_NULL};
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s = face_object_check(in->text, reterr);

    in->has_id = false;
    in->headers = HW_STR_NULL;
    in->is_correction = s == HOWDAH_OK && in->correction && is_correction(in->text);
    if (in->is_correction) {
        s = face_correction_in_parse(in->correction, in->text, in->payload_max, reterr);
        in->has_id = s == HOWDAH_OK && in->correction->correction.id;
        return s;
    }
    while (s == HOWDAH_OK && hw_json_member(in->text.s, in->text.len, &pos, &key, &value))
        s = take_member(&p, key, value, reterr);
    if (s == HOWDAH_OK)
        s = take_bytes(&p, reterr);
    if (s == HOWDAH_OK)
        s = give_id(&p, reterr);
    return s;
}
