/* json_write.c - see json_write.h. */
#include "base/json_write.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"

/*
 * The largest payload (64 MiB) in base64, with headers and names, all escaped, is far below this.
 */
#define LINE_BYTES_MAX ((size_t)256 * 1024 * 1024)

/* key is one of our own names, so it is written without escapes. */
void hw_json_write_text(hw_buf *out, const char *key, hw_str value)
{
    hw_buf_printf(out, ",\"%s\":", key);
    if (value.s)
        hw_json_put_string(out, value.s, value.len);
    else
        hw_buf_puts(out, "null");
}

void hw_json_write_number(hw_buf *out, const char *key, int64_t value)
{
    if (value == HOWDAH_ABSENT)
        hw_buf_printf(out, ",\"%s\":null", key);
    else
        hw_buf_printf(out, ",\"%s\":%lld", key, (long long)value);
}

void hw_json_write_uuid(hw_buf *out, const char *key, bool has, const hw_uuid *uuid)
{
    char text[HW_UUID_TEXT + 1];

    if (!has) {
        hw_buf_printf(out, ",\"%s\":null", key);
        return;
    }
    hw_uuid_format(uuid, text);
    hw_buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

void hw_json_write_time(hw_buf *out, const char *key, int64_t time_us)
{
    char text[HW_TIME_TEXT + 1];

    if (time_us == HW_TIME_ABSENT) {
        hw_buf_printf(out, ",\"%s\":null", key);
        return;
    }
    hw_time_format(time_us, text);
    hw_buf_printf(out, ",\"%s\":\"%s\"", key, text);
}

/* Lines are what readers of our output split at, so none may lie inside a document. */
void hw_json_write_line(hw_buf *out, hw_str json)
{
    size_t start = out->len;

    hw_buf_put(out, json.s, json.len);
    if (out->broken)
        return;
    for (size_t i = start; i < out->len; i++)
        if (out->data[i] == '\n' || out->data[i] == '\r')
            out->data[i] = ' ';
}

void hw_json_write_payload(hw_buf *out, hw_str data, hw_str content_type)
{
    if (!content_type.s) {
        hw_buf_puts(out, ",\"data\":");
        hw_json_write_line(out, data);
        return;
    }
    hw_json_write_text(out, "content_type", content_type);
    hw_buf_puts(out, ",\"data_base64\":\"");
    hw_base64_put(out, data.s, data.len);
    hw_buf_putc(out, '"');
}

/* Twice when the room is too small: the caller is told the whole length, as by snprintf(). */
size_t hw_json_print(void (*put)(hw_buf *out, const void *thing), const void *thing, char *out,
                     size_t room)
{
    hw_buf line = {out, 0, room, room > 0 ? room - 1 : 0, HOWDAH_OK};
    size_t len;

    /* Straight into the caller's room, which is enough almost always. */
    if (room > 0) {
        put(&line, thing);
        if (!line.broken)
            return line.len;
    }
    line = (hw_buf)HW_BUF_INIT(LINE_BYTES_MAX);
    put(&line, thing);
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
