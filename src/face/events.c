/*
 * events.c - see events.h.
 *
 * An event is opaque, and its line of JSON is the library's own: the same in every face.
 */
#include "face/events.h"

#include <assert.h>
#include <inttypes.h>

/* ------------------------------------------------------------------- fields */

FACE_GET_NUMBER(sequence, howdah_event_global_sequence)
FACE_GET_NUMBER(version, howdah_event_version)
FACE_GET_TEXT(stream, howdah_event_stream)
FACE_GET_TEXT(type, howdah_event_type)

/* The library writes it; the value has room for it. */
static void get_id(const void *thing, face_value *v)
{
    howdah_event_id(thing, v->small);
    v->text = hw_str_of(v->small);
}

static void get_data(const void *thing, face_value *v)
{
    size_t len = 0;
    const char *data = howdah_event_data(thing, &len);

    face_value_data(v, howdah_event_content_type(thing), data, len);
}

static void get_content_type(const void *thing, face_value *v)
{
    size_t len = 0;

    face_value_content_type(v, howdah_event_content_type(thing), howdah_event_data(thing, &len));
}

static void get_base64(const void *thing, face_value *v)
{
    size_t len = 0;
    const char *data = howdah_event_data(thing, &len);

    face_value_base64(v, howdah_event_content_type(thing), data, len);
}

const face_field face_event_fields[] = {
    {"global_sequence", FACE_NUMBER, .get = get_sequence},
    {"event_id", FACE_TEXT, .get = get_id},
    {"stream", FACE_TEXT, .get = get_stream},
    {"version", FACE_NUMBER, .get = get_version},
    {"type", FACE_TEXT, .get = get_type},
    {"data", FACE_JSON, .get = get_data},
    {"content_type", FACE_TEXT, .get = get_content_type},
    {"data_base64", FACE_JSON, .get = get_base64},
    {.name = NULL},
};

/* -------------------------------------------------------------- whole events */

/* The library cuts what does not fit; the buffer still ends where it ended. */
static size_t print_event(const howdah_event *event, hw_buf *out)
{
    size_t len = howdah_event_json(event, out->data + out->len, out->room - out->len);

    if (len == 0 || len >= out->room - out->len)
        out->data[out->len] = '\0';
    return len;
}

/* In the buffer's present room first: most events fit, and need no second pass. */
int face_event_json(const howdah_event *event, hw_buf *out, howdah_error *reterr)
{
    size_t len;

    if (!hw_buf_reserve(out, 1)) /* then it has memory, and is not broken */
        return hw_buf_check(out, reterr);
    len = print_event(event, out);
    if (len >= out->room - out->len) {
        if (!hw_buf_reserve(out, len))
            return hw_buf_check(out, reterr);
        len = print_event(event, out);
    }
    if (len == 0)
        return hw_fail_no_memory(reterr);
    out->len += len;
    assert(out->len < out->room && out->data[out->len] == '\0');
    return HOWDAH_OK;
}

/* The event's object, opened anew: {"depth":1,"global_sequence":... */
int face_trace_json(int depth, const howdah_event *event, hw_buf *out, howdah_error *reterr)
{
    size_t brace;
    int s;

    hw_buf_printf(out, "{\"depth\":%d", depth);
    brace = out->len;
    s = face_event_json(event, out, reterr);
    if (s < 0)
        return s;
    assert(out->data[brace] == '{');
    out->data[brace] = ',';
    return HOWDAH_OK;
}

/* null where there was no event before. */
static int put_event(const char *key, const howdah_event *event, hw_buf *out, howdah_error *reterr)
{
    hw_buf_printf(out, ",\"%s\":", key);
    if (event)
        return face_event_json(event, out, reterr);
    hw_buf_puts(out, "null");
    return HOWDAH_OK;
}

/* By hand: it holds two whole events, which are the library's own JSON. */
int face_change_json(howdah_change change, const howdah_event *before, const howdah_event *after,
                     bool final, hw_buf *out, howdah_error *reterr)
{
    char family[HOWDAH_UUID_SIZE];
    int s;

    assert(after);
    howdah_event_family(after, family);
    hw_buf_printf(out, "{\"change\":\"%s\",\"family\":\"%s\"", howdah_change_name(change), family);
    s = put_event("before", before, out, reterr);
    if (s == HOWDAH_OK)
        s = put_event("after", after, out, reterr);
    hw_buf_printf(out, ",\"final\":%s}", final ? "true" : "false");
    return s < 0 ? s : hw_buf_check(out, reterr);
}

/* ----------------------------------------------------------------- positions */

void face_position_json(hw_buf *out, const char *stream, const howdah_position *position)
{
    hw_buf_printf(out, "{\"global_sequence\":%" PRId64 ",\"id\":\"%s\",\"stream\":",
                  position->global_sequence, position->id);
    face_json_text(out, stream);
    hw_buf_printf(out, ",\"version\":%" PRId64 ",\"revision\":%" PRId32 "}", position->version,
                  position->revision);
}
