/* json_write.h - members of a line of JSON, for events and jobs alike. */
#ifndef HW_BASE_JSON_WRITE_H
#define HW_BASE_JSON_WRITE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/uuid.h"

/* ",\"key\":value"; null for what is absent: a NULL text, HOWDAH_ABSENT, HW_TIME_ABSENT. */
void hw_json_write_text(hw_buf *out, const char *key, hw_str value);
void hw_json_write_number(hw_buf *out, const char *key, int64_t value);
void hw_json_write_uuid(hw_buf *out, const char *key, bool has, const hw_uuid *uuid);
void hw_json_write_time(hw_buf *out, const char *key, int64_t time_us);

/*
 * JSON text to the letter, but on one line: a raw line break in valid JSON is white space between
 * tokens, so a space in its place means the same.
 */
void hw_json_write_line(hw_buf *out, hw_str json);

/* "data", or for bytes "content_type" and "data_base64". */
void hw_json_write_payload(hw_buf *out, hw_str data, hw_str content_type);

/*
 * What put writes about thing, in the way of snprintf(): at most room bytes, the NUL included, and
 * the length that the whole has is returned.
 */
size_t hw_json_print(void (*put)(hw_buf *out, const void *thing), const void *thing, char *out,
                     size_t room);

#endif
