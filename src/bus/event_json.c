/* event_json.c - an event as one line of JSON, and times as text. */
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "engine/event.h"
#include "engine/rules.h"

/* Payload in base64 plus headers plus names, all escaped: far below this. */
#define LINE_BYTES_MAX ((size_t)4 * HW_PAYLOAD_HARD_MAX)

static void put_text(hw_buf *out, const char *key, hw_str value)
{
    hw_buf_printf(out, ",\"%s\":", key);
    if (value.s)
        hw_json_put_string(out, value.s, value.len);
    else
        hw_buf_puts(out, "null");
}

static void put_number(hw_buf *out, const char *key, int64_t value)
{
    if (value == HOWDAH_ABSENT)
        hw_buf_printf(out, ",\"%s\":null", key);
    else
        hw_buf_printf(out, ",\"%s\":%lld", key, (long long)value);
}

static void put_uuid(hw_buf *out, const char *key, bool has, const hw_uuid *uuid)
{
    char text[HW_UUID_TEXT + 1];

    if (!has) {
        hw_buf_printf(out, ",\"%s\":null", key);
        return;
    }
    hw_uuid_format(uuid, text);
    hw_buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

static void put_time(hw_buf *out, const char *key, int64_t time_us)
{
    char text[HW_TIME_TEXT + 1];

    if (time_us == HW_TIME_ABSENT) {
        hw_buf_printf(out, ",\"%s\":null", key);
        return;
    }
    hw_time_format(time_us, text);
    hw_buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

/*
 * JSON text to the letter, but on one line: a raw line break in valid JSON is white space
 * between tokens, so a space in its place means the same.
 */
static void put_json(hw_buf *out, hw_str json)
{
    size_t start = out->len;

    hw_buf_put(out, json.s, json.len);
    if (out->broken)
        return;
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
}

static void put_payload(hw_buf *out, const howdah_event *e)
{
    if (!e->content_type.s) {
        hw_buf_puts(out, ",\"data\":");
        put_json(out, e->data);
        return;
    }
    put_text(out, "content_type", e->content_type);
    hw_buf_puts(out, ",\"data_base64\":\"");
    hw_base64_put(out, e->data.s, e->data.len);
    hw_buf_putc(out, '"');
}

static void put_event(hw_buf *out, const howdah_event *e)
{
    if (e->global_sequence == HOWDAH_ABSENT)
        hw_buf_puts(out, "{\"global_sequence\":null");
    else
        hw_buf_printf(out, "{\"global_sequence\":%lld", (long long)e->global_sequence);
    put_uuid(out, "id", true, &e->id);
    put_text(out, "stream", e->stream);
    put_number(out, "version", e->version);
    put_text(out, "type", e->type);
    put_payload(out, e);
    hw_buf_puts(out, ",\"headers\":");
    put_json(out, e->headers.s ? e->headers : HW_STR_LIT("{}"));
    put_text(out, "correlation_id", e->correlation_id);
    put_uuid(out, "causation_id", e->has_causation, &e->causation_id);
    put_time(out, "valid_time", e->valid_time_us);
    put_time(out, "recorded_at", e->recorded_at_us);
    put_uuid(out, "family", true, e->has_family ? &e->family : &e->id);
    put_number(out, "revision", e->revision);
    put_uuid(out, "corrects", e->has_corrects, &e->corrects);
    put_text(out, "reason", e->reason);
    put_text(out, "actor", e->actor);
    put_number(out, "schema_version", e->schema_version);
    hw_buf_putc(out, '}');
}

size_t howdah_event_json(const howdah_event *event, char *out, size_t room)
{
    hw_buf line = {out, 0, room, room > 0 ? room - 1 : 0, HOWDAH_OK};
    size_t len;

    /* Straight into the caller's room, which is enough almost always. */
    if (room > 0) {
        put_event(&line, event);
        if (!line.broken)
            return line.len;
    }
    line = (hw_buf)HW_BUF_INIT(LINE_BYTES_MAX);
    put_event(&line, event);
    len = line.broken ? 0 : line.len;
    if (room > 0) {
        size_t n = len < room - 1 ? len : room - 1;

        if (n > 0)
            memcpy(out, line.data, n);
        out[n] = '\0';
    }
    hw_buf_done(&line);
    return len;
}

void howdah_time_format(int64_t time_us, char ret_text[HOWDAH_TIME_SIZE])
{
    if (time_us < HW_TIME_MIN_US)
        time_us = HW_TIME_MIN_US;
    if (time_us > HW_TIME_MAX_US)
        time_us = HW_TIME_MAX_US;
    hw_time_format(time_us, ret_text);
}

int howdah_time_parse(const char *text, int64_t *ret_time_us, howdah_error *reterr)
{
    if (!text || !ret_time_us)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_time_parse: an argument is NULL");
    if (!hw_time_parse(text, strlen(text), ret_time_us))
        return hw_fail_field(reterr, HOWDAH_INVALID, "time",
                             "not RFC 3339 with an offset, like 2026-01-31T09:30:00Z, in a text "
                             "of %zu bytes",
                             strlen(text));
    return HOWDAH_OK;
}
