/*
 * fields.c - see fields.h.
 *
 * The printer goes through a list of names, finds the field, takes its value and appends it.
 */
#include "face/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"

#define TEXT_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any payload */

/* -------------------------------------------------------------------- lists */

/* A linear search each time: a table has two dozen rows. */
const face_field *face_field_next(const face_field *fields, const char **names)
{
    size_t len = strcspn(*names, " ");
    const face_field *f = fields;

    if (len == 0)
        return NULL;
    while (f->name && (strncmp(f->name, *names, len) != 0 || f->name[len]))
        f++;
    assert(f->name); /* I1 */
    *names += len;
    *names += **names == ' ';
    return f;
}

/* ------------------------------------------------------------------- values */

/* The type of the member decides; FACE_AT() took it from the struct itself. */
static void take_stored(const face_field *f, const void *thing, face_value *v)
{
    const void *at = (const char *)thing + f->offset;

    switch (f->stored) {
    case FACE_STORED_TEXT:
        v->text = hw_str_of(*(const char *const *)at);
        break;
    case FACE_STORED_INT64:
        v->number = *(const int64_t *)at;
        break;
    case FACE_STORED_INT:
        v->number = *(const int *)at;
        break;
    case FACE_STORED_SIZE:
        v->number = (int64_t) * (const size_t *)at;
        break;
    case FACE_STORED_BOOL:
        v->number = *(const bool *)at;
        break;
    case FACE_COMPUTED:
        assert(f->kind == FACE_OBJECT); /* its members have values, it has none */
        break;
    }
}

static bool is_text(face_kind kind)
{
    return kind == FACE_TEXT || kind == FACE_STRING || kind == FACE_WORD || kind == FACE_JSON;
}

/* Its own room, for texts that a getter makes; an empty text is nothing. */
void face_value_take(const face_field *f, const void *thing, face_value *v)
{
    *v = (face_value){.text = HW_STR_NULL, .room = HW_BUF_INIT(TEXT_BYTES_MAX)};
    if (f->get)
        f->get(thing, v);
    else
        take_stored(f, thing, v);
    if (!v->text.s && v->room.len > 0)
        v->text = (hw_str){hw_buf_str(&v->room), v->room.len};
    v->absent = v->absent || v->left_out || (is_text(f->kind) && v->text.len == 0);
    assert(v->absent || !is_text(f->kind) || v->text.s);
}

void face_value_done(face_value *v)
{
    hw_buf_done(&v->room);
}

/* --------------------------------------------------------------------- JSON */

/* A file name or what a program said may be anything, JSON may not. */
void face_json_text(hw_buf *out, const char *text)
{
    if (hw_utf8_valid(text, strlen(text))) {
        hw_json_put_string(out, text, strlen(text));
        return;
    }
    hw_buf_putc(out, '"');
    for (const char *c = text; *c; c++)
        hw_buf_putc(out, *c > ' ' && *c < 0x7f && *c != '"' && *c != '\\' ? *c : '?');
    hw_buf_putc(out, '"');
}

/* Only a value that is there; null and "" are the caller's. */
static void put_value(hw_buf *out, const face_field *f, const face_value *v)
{
    char time[HOWDAH_TIME_SIZE];

    switch (f->kind) {
    case FACE_TEXT:
    case FACE_STRING:
    case FACE_WORD:
        face_json_text(out, v->text.s);
        break;
    case FACE_NUMBER:
    case FACE_COUNT:
    case FACE_DURATION:
        hw_buf_printf(out, "%" PRId64, v->number);
        break;
    case FACE_BOOL:
        hw_buf_puts(out, v->number ? "true" : "false");
        break;
    case FACE_TIME:
    case FACE_MOMENT:
    case FACE_DAY:
        howdah_time_format(v->number, time);
        hw_buf_printf(out, "\"%s\"", time);
        break;
    case FACE_AGE:
        hw_buf_printf(out, "%" PRId64 ".%03d", v->number / 1000, (int)(v->number % 1000));
        break;
    case FACE_JSON:
        hw_json_write_line(out, v->text);
        break;
    case FACE_OBJECT:
        break; /* face_fields_json() prints it */
    }
}

/* A value is freed before the next is taken: beside the buffer one payload is held. */
void face_fields_json(hw_buf *out, const face_field *fields, const char *names, const void *thing,
                      bool *first)
{
    const face_field *f;

    while ((f = face_field_next(fields, &names))) {
        face_value v;

        face_value_take(f, thing, &v);
        if (!v.left_out) {
            hw_buf_printf(out, "%s\"%s\":", *first ? "" : ",", f->name);
            *first = false;
            if (f->kind == FACE_OBJECT)
                face_entity_json(out, &(face_entity){.fields = fields, .json = f->members}, thing,
                                 "");
            else if (v.absent)
                hw_buf_puts(out, f->kind == FACE_STRING ? "\"\"" : "null");
            else
                put_value(out, f, &v);
        }
        face_value_done(&v);
    }
}

/* The tail stands inside the object, after its last member. */
void face_entity_json(hw_buf *out, const face_entity *entity, const void *thing, const char *tail)
{
    bool first = true;

    assert(entity->json);
    hw_buf_puts(out, "{");
    face_fields_json(out, entity->fields, entity->json, thing, &first);
    hw_buf_puts(out, tail);
    hw_buf_puts(out, "}");
}

/* ----------------------------------------------------------------- payloads */

/* Bytes have no "data": a script that wants JSON does not get base64 by accident. */
void face_value_data(face_value *value, const char *content_type, const char *data, size_t len)
{
    value->text = (hw_str){data, len};
    value->left_out = data && content_type;
}

void face_value_content_type(face_value *value, const char *content_type, const char *data)
{
    value->text = hw_str_of(content_type);
    value->left_out = !data || !content_type;
}

void face_value_base64(face_value *value, const char *content_type, const char *data, size_t len)
{
    value->left_out = !data || !content_type;
    if (value->left_out)
        return;
    hw_buf_putc(&value->room, '"');
    hw_base64_put(&value->room, data, len);
    hw_buf_putc(&value->room, '"');
}

void face_value_headers(face_value *value, const char *headers, size_t len)
{
    value->text = (hw_str){headers, len};
    value->absent = len <= 2; /* no more than {} */
}
