/*
 * fields.h - one table of fields per kind of thing, from which its JSON follows.
 *
 * A thing is what the library reports: a queue, a dead letter, a snapshot.  Its table of fields
 * says for each field what it is called, of what kind it is and how to get it.  An entity then
 * lists, by name and in order, the fields of a line of JSON.  Every face of the bus prints the same
 * JSON, because this is where it comes from.  The command also takes its tables and its "show" from
 * here (cli/out/fields.h): labels, headings and the like are plain words of a row.
 *
 *   I1  Every name in a list is in the table of fields, and it is the field's name in JSON: scripts
 *       rely on it.  Labels and headings are for people and may differ.
 *   I2  A field that has nothing is null in JSON, is not shown, and is an empty cell, unless
 *       "none" or "blank" says otherwise.
 *   I3  What is printed is appended to a buffer, and nothing here writes anywhere else.  A buffer
 *       that has no more room is broken: who sends it asks hw_buf_check() first.
 */
#ifndef HW_FACE_FIELDS_H
#define HW_FACE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/str.h"

typedef enum face_kind {
    FACE_TEXT,     /* a column of it may be cut; "" counts as nothing */
    FACE_STRING,   /* a text that is "" in JSON, not null, when it is empty */
    FACE_WORD,     /* a short text that is never cut */
    FACE_NUMBER,   /* on the right of its column, never cut */
    FACE_COUNT,    /* a number; 1,234 in a column */
    FACE_BOOL,     /* true or false */
    FACE_TIME,     /* microseconds since 1970 */
    FACE_MOMENT,   /* a time; to the second in a column */
    FACE_DAY,      /* a time; the day alone in a column */
    FACE_AGE,      /* milliseconds; seconds in JSON, "1.5 s" for people */
    FACE_DURATION, /* milliseconds; for people as settings take it: "90s" */
    FACE_JSON,     /* text that is JSON already */
    FACE_OBJECT    /* an object in JSON, of the fields that "members" lists */
} face_kind;

/* What a field has, of one thing. */
typedef struct face_value {
    bool absent;   /* nothing */
    bool left_out; /* nothing, and JSON does not even name it */
    int64_t number;
    hw_str text;
    char small[64]; /* for a short text that get() makes */
    hw_buf room;    /* for a long one; becomes the text when text is not set */
} face_value;

typedef void face_get(const void *thing, face_value *value);

typedef enum face_stored {
    FACE_COMPUTED, /* by get() */
    FACE_STORED_TEXT,
    FACE_STORED_INT64,
    FACE_STORED_INT,
    FACE_STORED_SIZE,
    FACE_STORED_BOOL
} face_stored;

/* Where the thing's struct has the field.  The member's type decides how it is read. */
#define FACE_AT(type, member)                                                                      \
    .offset = offsetof(type, member), .stored = _Generic(((type *)0)->member,                      \
                                                         const char *: FACE_STORED_TEXT,           \
                                                         int64_t: FACE_STORED_INT64,               \
                                                         int: FACE_STORED_INT,                     \
                                                         size_t: FACE_STORED_SIZE,                 \
                                                         bool: FACE_STORED_BOOL)

/* A thing that is opaque has a function of the library for each field: get_NAME() calls it. */
#define FACE_GET_TEXT(name, function)                                                              \
    static void get_##name(const void *thing, face_value *v)                                       \
    {                                                                                              \
        v->text = hw_str_of(function(thing));                                                      \
    }
#define FACE_GET_NUMBER(name, function)                                                            \
    static void get_##name(const void *thing, face_value *v)                                       \
    {                                                                                              \
        v->number = function(thing);                                                               \
    }
#define FACE_GET_TIME(name, function)                                                              \
    static void get_##name(const void *thing, face_value *v)                                       \
    {                                                                                              \
        v->absent = !function(thing, &v->number);                                                  \
    }

/* What a column is to its reader. */
typedef enum face_style {
    FACE_PLAIN,
    FACE_NAME, /* it names the thing */
    FACE_ASIDE /* less is lost without it than without others */
} face_style;

typedef struct face_field {
    const char *name; /* in lists and in JSON; NULL ends the table */
    face_kind kind;
    const char *label; /* of "show"; NULL: the name */
    const char *head;  /* of the column; NULL: the label, or the name */
    face_style style;  /* of the column */
    bool right;        /* a text on the right of its column, never cut */
    face_get *get;     /* NULL: FACE_AT() says where it is */
    size_t offset;
    face_stored stored;
    const char *zero;    /* for people instead of the number 0; "": "show" leaves it out */
    const char *none;    /* shown instead of nothing */
    const char *blank;   /* in a cell instead of nothing */
    const char *members; /* of an object */
} face_field;

/* Names are separated by single spaces.  A list that is not used may be NULL. */
typedef struct face_entity {
    const face_field *fields;
    const char *json;
    const char *show;
    const char *table;
} face_entity;

/* One object without a line break; tail is "" or more members: ",\"name\":value". */
void face_entity_json(hw_buf *out, const face_entity *entity, const void *thing, const char *tail);
/* The members alone, for an object made of several things.  *first: no comma before the next. */
void face_fields_json(hw_buf *out, const face_field *fields, const char *names, const void *thing,
                      bool *first);
/* Text as a JSON string, whatever bytes it is made of. */
void face_json_text(hw_buf *out, const char *text);

/* ---- for other printers over the same tables */

/* The field of the next name of a list; NULL at its end. */
const face_field *face_field_next(const face_field *fields, const char **names);
/* The same for JSON and for people: what a field has is decided in one place. */
void face_value_take(const face_field *field, const void *thing, face_value *value);
void face_value_done(face_value *value);

/* ---- values that more than one entity has */

/*
 * A payload: "data" when it is JSON; "content_type" and "data_base64" when it is bytes.  Data and
 * its base64, quoted, are of the kind FACE_JSON.
 */
void face_value_data(face_value *value, const char *content_type, const char *data, size_t len);
void face_value_content_type(face_value *value, const char *content_type, const char *data);
void face_value_base64(face_value *value, const char *content_type, const char *data, size_t len);
/* Headers for people: nothing when there are none. */
void face_value_headers(face_value *value, const char *headers, size_t len);

#endif
