/*
 * fields_in.h - a small JSON body: each field by name, and nothing that nobody knows.
 *
 *     const char *token = NULL;
 *     int64_t upto = 0;
 *     const gw_field fields[] = {{"token", GW_FIELD_TEXT, .text = &token},
 *                                {"upto", GW_FIELD_NUMBER, .number = &upto, .max = INT64_MAX}};
 *     s = gw_fields_take(r, fields, 2, reterr);
 *
 * What is not named, or null, stays as it was.  Texts live as long as the request.
 */
#ifndef HW_GATEWAY_FIELDS_IN_H
#define HW_GATEWAY_FIELDS_IN_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/request.h"

typedef enum gw_field_kind {
    GW_FIELD_TEXT,
    GW_FIELD_NUMBER,   /* whole, min to max */
    GW_FIELD_DURATION, /* "30s", or a number of milliseconds */
    GW_FIELD_FLAG,
    GW_FIELD_TIME,   /* RFC 3339 */
    GW_FIELD_PLACE,  /* "start", "end", or a sequence */
    GW_FIELD_CHOICE, /* the index of one of the words in choices */
    GW_FIELD_RAW     /* any JSON, as it came: text and length */
} gw_field_kind;

typedef struct gw_field {
    const char *name;
    gw_field_kind kind;
    const char **text;
    size_t *length;
    int64_t *number; /* of all kinds but texts and flags */
    bool *flag;
    int64_t min;
    int64_t max;
    const char *choices; /* separated by single spaces */
} gw_field;

/* Errors: INVALID, with the field's name.  No body is an empty object. */
int gw_fields_take(gw_request *r, const gw_field *fields, size_t n, howdah_error *reterr);

/* The same of an object that is somewhere in the body; texts go to *at, which moves on.  It has
   room behind the body's length in r->fields: texts of objects in a list are parts of the body. */
int gw_object_take(hw_str object, const gw_field *fields, size_t n, char **at,
                   howdah_error *reterr);

#endif
