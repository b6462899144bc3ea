/*
 * json.h - checks and cuts JSON without building a tree.
 *
 * Payloads pass through howdah as bytes, to the letter: 64-bit integers, long
 * numbers, key order and white space stay.  So the text is checked here, and
 * pieces of it are handed out as slices of the original.
 *
 * Accepted is RFC 8259 in UTF-8, less three things that other parsers and jsonb
 * cannot hold: depth over the limit, \u0000, and unpaired surrogates in \u
 * escapes.  NaN, Infinity, comments, trailing commas and a byte order mark are
 * not JSON.  Duplicate keys are.
 */
#ifndef HW_BASE_JSON_H
#define HW_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

#define HW_JSON_DEPTH_MAX 64

/* Why a text was refused: a constant text such as "invalid escape", and where. */
typedef struct hw_json_flaw {
    const char *why;
    size_t offset;
} hw_json_flaw;

/* An array or object of scalars has depth 1.  ret_flaw may be NULL. */
bool hw_json_valid(const char *text, size_t len, unsigned depth_max, hw_json_flaw *ret_flaw);

/*
 * Walks the members of a *valid* object.  Start with pos = 0; returns false at the end, or when
 * the document is no object.  key is the raw text between the quotes (still escaped); value the
 * raw text of the value, without the white space around it.
 */
bool hw_json_member(const char *text, size_t len, size_t *pos, hw_str *ret_key, hw_str *ret_value);

/*
 * Walks the items of an array in the same way.  Of a text that was not checked, each item has to be
 * checked by itself; *pos is then behind the last one, and hw_json_closes() says whether the array
 * ends there, and the text with it.
 */
bool hw_json_item(const char *text, size_t len, size_t *pos, hw_str *ret_item);
bool hw_json_closes(const char *text, size_t len, size_t pos);

/* 'o' object, 'a' array, 's' string, 'n' number, 't' true, 'f' false, '0' null, of a valid value.
 */
char hw_json_kind(const char *value, size_t len);

/* Appends the unescaped form of a valid string's inside (without its quotes). */
void hw_json_unescape(const char *raw, size_t len, hw_buf *out);

/* True when the unescaped key equals name. */
bool hw_json_key_is(hw_str raw_key, const char *name);

/* Appends text as a JSON string, quotes included; text is valid UTF-8. */
void hw_json_put_string(hw_buf *out, const char *text, size_t len);

#endif
