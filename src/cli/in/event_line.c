/*
 * event_line.c - one JSON line as an event.
 *
 * A field is a row of a table: its name and what is done with its value.  Values stay slices of
 * the line: a payload goes to the builder unchanged.  Lines that "howdah read" printed have
 * fields that the store gives; they are skipped.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "cli/cmd/append.h"
#include "cli/in/lines.h"

#define NUMBER_TEXT_MAX 32

typedef struct parse {
    cli_event_line *line;
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

static char kind_of(hw_str value)
{
    return hw_json_kind(value.s, value.len);
}

/* The unescaped inside of a string, in the scratch buffer; NULL (and an error) for another kind. */
static const char *text_of(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (kind_of(value) != 's') {
        (void)hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
        return NULL;
    }
    hw_buf_clear(p->scratch);
    hw_json_unescape(value.s + 1, value.len - 2, p->scratch);
    return hw_buf_check(p->scratch, reterr) < 0 ? NULL : hw_buf_str(p->scratch);
}

/* null is the same as a field that is left out: that is how howdah read prints it. */
static int take_text(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;

    if (kind_of(value) == '0')
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
    if (kind_of(value) != '0')
        p->line->has_id = true;
    return take_text(p, f, value, reterr);
}

/* The slice goes to the builder as it is: numbers and spaces stay as they were written. */
static int take_data(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (value.len > p->line->payload_max)
        return hw_fail_field(reterr, HOWDAH_LIMIT, f->name, "%zu bytes, the limit is %zu",
                             value.len, p->line->payload_max);
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
    if (kind_of(value) == '0')
        return HOWDAH_OK;
    if (kind_of(value) != 's')
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
    if (kind_of(value) != '0')
        howdah_builder_set_headers_json(p->builder, value.s, value.len);
    return HOWDAH_OK;
}

/* null leaves it to the store, which takes the time of recording. */
static int take_valid_time(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;
    int64_t time_us;

    if (kind_of(value) == '0')
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

/* A number's text by itself; false when it is too long to be a whole one. */
static bool number_text(hw_str value, char ret_text[NUMBER_TEXT_MAX])
{
    if (kind_of(value) != 'n' || value.len >= NUMBER_TEXT_MAX)
        return false;
    memcpy(ret_text, value.s, value.len);
    ret_text[value.len] = '\0';
    return true;
}

/* A number only: a text would be a mistake of the program that wrote the line. */
static int take_schema_version(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char text[NUMBER_TEXT_MAX];
    int64_t version;

    if (kind_of(value) == '0')
        return HOWDAH_OK;
    if (!number_text(value, text) || !hw_parse_i64(text, 1, INT32_MAX, &version))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a whole number, 1 to %d",
                             INT32_MAX);
    howdah_builder_set_schema_version(p->builder, version);
    return HOWDAH_OK;
}

/* A version may come as a number or as a text. */
static int take_expect(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char number[NUMBER_TEXT_MAX];
    const char *text = number;
    int64_t expected;
    int s;

    if (kind_of(value) == '0')
        return HOWDAH_OK;
    if (!number_text(value, number))
        text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    s = cli_expect_parse(text, &expected, reterr);
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

/* A revision without its family would look like an original. */
static int refuse_unless_null(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)p;
    if (kind_of(value) == '0')
        return HOWDAH_OK;
    return hw_advise(
        reterr,
        hw_fail_field(reterr, HOWDAH_INVALID, f->name, "a correction cannot be part of a batch"),
        "howdah append --correct makes one");
}

/* What is left of it is not what was appended. */
static int refuse_purged(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)p;
    if (kind_of(value) != 't')
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

/* A misspelt field would be lost data, so it is refused, with the nearest name. */
static int unknown_field(hw_str key, howdah_error *reterr)
{
    char name[32];
    const field *best = &fields[0];
    unsigned best_distance;

    /* A name from outside goes into a message only if it is one: short, printable ASCII. */
    for (size_t i = 0; i < key.len; i++)
        if (key.len >= sizeof name || key.s[i] < 0x20 || key.s[i] >= 0x7f)
            return hw_fail(reterr, HOWDAH_INVALID, "unknown field with a name of %zu bytes",
                           key.len);
    (void)snprintf(name, sizeof name, "%.*s", (int)key.len, key.s);
    best_distance = hw_word_distance(name, best->name);
    for (size_t i = 1; i < FIELDS_N; i++)
        if (hw_word_distance(name, fields[i].name) < best_distance) {
            best = &fields[i];
            best_distance = hw_word_distance(name, best->name);
        }
    return hw_fail_field(reterr, HOWDAH_INVALID, name, "unknown field; the nearest is %s",
                         best->name);
}

/* A linear search: there are two dozen fields, and most are found early. */
static int take_member(parse *p, hw_str key, hw_str value, howdah_error *reterr)
{
    for (size_t i = 0; i < FIELDS_N; i++)
        if (hw_json_key_is(key, fields[i].name))
            return fields[i].take(p, &fields[i], value, reterr);
    return unknown_field(key, reterr);
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
    if (p->scratch->len > p->line->payload_max)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "data", "%zu bytes, the limit is %zu",
                             p->scratch->len, p->line->payload_max);
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

    if (p->line->has_id || !p->line->id_space)
        return HOWDAH_OK;
    hw_buf_clear(p->scratch);
    hw_buf_printf(p->scratch, "%" PRId64 ":", p->line->number);
    hw_buf_put(p->scratch, p->line->text.s, p->line->text.len);
    if (hw_buf_check(p->scratch, reterr) < 0)
        return HOWDAH_NO_MEMORY;
    if (!hw_uuid_from_name(p->line->id_space, hw_buf_str(p->scratch), p->scratch->len, &uuid))
        return hw_fail_no_memory(reterr);
    hw_uuid_format(&uuid, text);
    howdah_builder_set_id(p->builder, text);
    p->line->has_id = true;
    return HOWDAH_OK;
}

/* Checked as a whole before any field is taken: slices of broken JSON could be anything. */
int cli_event_line_parse(cli_event_line *line, howdah_builder *builder, hw_buf *scratch,
                         howdah_error *reterr)
{
    parse p = {line, builder, scratch, false, HW_STR_NULL, HW_STR_NULL};
    hw_json_flaw flaw;
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s = HOWDAH_OK;

    line->has_id = false;
    if (!cli_line_is_json(line->text, &flaw))
        return hw_fail(reterr, HOWDAH_INVALID, "not valid JSON: %s at byte %zu", flaw.why,
                       flaw.offset + 1);
    if (kind_of(line->text) != 'o')
        return hw_fail(reterr, HOWDAH_INVALID, "not a JSON object");
    while (s == HOWDAH_OK && hw_json_member(line->text.s, line->text.len, &pos, &key, &value))
        s = take_member(&p, key, value, reterr);
    if (s == HOWDAH_OK)
        s = take_bytes(&p, reterr);
    if (s == HOWDAH_OK)
        s = give_id(&p, reterr);
    return s;
}
