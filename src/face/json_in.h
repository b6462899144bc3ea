/* json_in.h - what the readers of a JSON object share: events, corrections and jobs. */
#ifndef HW_FACE_JSON_IN_H
#define HW_FACE_JSON_IN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/str.h"

/*
 * Whether the text is one JSON object whose members are of no more than the depth that a payload
 * may have: the object is one level around them.  INVALID.
 */
int face_object_check(hw_str text, howdah_error *reterr);

/* Of a value in a valid object: hw_json_kind(). */
char face_kind_of(hw_str value);

/* A number's text by itself; false when it is none, or too long to be a whole one. */
#define FACE_NUMBER_TEXT 32
bool face_number_text(hw_str value, char ret_text[FACE_NUMBER_TEXT]);

/*
 * INVALID: the key, when it can be shown, and the nearest name that is known.  fields is a table
 * whose rows begin with their name: n rows of row_size bytes.  advice: where a face lists the
 * fields; NULL: none.
 */
int face_unknown_field(hw_str key, const void *fields, size_t row_size, size_t n,
                       const char *advice, howdah_error *reterr);

#endif
