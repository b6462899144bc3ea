/* text.h - UTF-8, numbers, base64, nearest word, masked URLs: small text things. */
#ifndef HW_BASE_TEXT_H
#define HW_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Well-formed UTF-8 as PostgreSQL sees it: no overlong form, no surrogate, nothing above U+10FFFF.
 */
bool hw_utf8_valid(const char *s, size_t len);
/* True when well-formed s holds a control character: U+0000-001F, U+007F-009F. */
bool hw_utf8_has_control(const char *s, size_t len);

/* Copies text, cut to room, fit to be stored: whole characters, "?" for what is none. */
void hw_utf8_copy(char *out, size_t room, const char *text);

/* The whole text is one decimal number within [min, max]; no sign but '-', no spaces. */
bool hw_parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret_value);
/* 512, 64KiB, 1MiB, 1GiB. */
bool hw_parse_bytes(const char *text, int64_t *ret_bytes);

void hw_base64_put(hw_buf *out, const void *bytes, size_t n);
/* Standard alphabet with padding; false on anything else. */
bool hw_base64_get(const char *text, size_t len, hw_buf *out);

/* Edit distance, for "did you mean"; words over 63 bytes count as far away. */
unsigned hw_word_distance(const char *a, const char *b);

/*
 * A copy of a store URL or connection string fit for people and logs: the password in
 * user:password@, password=... (also quoted, also in the query) is replaced by ***.
 * When in doubt it masks more.  NULL only without memory.
 */
char *hw_url_mask(const char *url);
/* A copy without any password, and without the key or colon in front of it; a file has none. */
char *hw_url_strip(const char *url);

#endif
