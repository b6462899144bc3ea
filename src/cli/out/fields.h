/*
 * fields.h - one table of fields per kind of thing; its table, its JSON and its "show" follow.
 *
 * A thing is what the library reports: a queue, a dead letter, a snapshot.  Its table of fields
 * says for each field what it is called, of what kind it is and how to get it.  An entity then
 * lists, by name and in order, the fields of a line of JSON, of "show" and of a row.
 *
 *   I1  Every name in a list is in the table of fields, and it is the field's name in JSON: scripts
 *       rely on it.  Labels and headings are for people and may differ.
 *   I2  A field that has nothing is null in JSON, is not shown, and is an empty cell, unless
 *       "none" or "blank" says otherwise.
 */
#ifndef HW_CLI_OUT_FIELDS_H
#define HW_CLI_OUT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/out/table.h"

typedef enum cli_kind {
    CLI_TEXT,     /* a column of it may be cut; "" counts as nothing */
    CLI_STRING,   /* a text that is "" in JSON, not null, when it is empty */
    CLI_WORD,     /* a short text that is never cut */
    CLI_NUMBER,   /* on the right of its column, never cut */
    CLI_COUNT,    /* a number; 1,234 in a column */
    CLI_BOOL,     /* true or false */
    CLI_TIME,     /* microseconds since 1970 */
    CLI_MOMENT,   /* a time; to the second in a column */
    CLI_DAY,      /* a time; the day alone in a column */
    CLI_AGE,      /* milliseconds; seconds in JSON, "1.5 s" for people */
    CLI_DURATION, /* milliseconds; for people as settings take it: "90s" */
    CLI_JSON,     /* text that is JSON already */
    CLI_OBJECT    /* an object in JSON, of the fields that "members" lists */
} cli_kind;

/* What a field has, of one thing. */
typedef struct cli_value {
    bool absent;   /* nothing */
    bool left_out; /* nothing, and JSON does not even name it */
    int64_t number;
    hw_str text;
    char small[64]; /* for a short text that get() makes */
    hw_buf room;    /* for a long one; becomes the text when text is not set */
} cli_value;

typedef void cli_get(const void *thing, cli_value *value);

typedef enum cli_stored {
    CLI_COMPUTED, /* by get() */
    CLI_STORED_TEXT,
    CLI_STORED_INT64,
    CLI_STORED_INT,
    CLI_STORED_SIZE,
    CLI_STORED_BOOL
} cli_stored;

/* Where the thing's struct has the field.  The member's type decides how it is read. */
#define CLI_AT(type, member)                                                                       \
    .offset = offsetof(type, member), .stored = _Generic(((type *)0)->member,                      \
                                                         const char *: CLI_STORED_TEXT,            \
                                                         int64_t: CLI_STORED_INT64,                \
                                                         int: CLI_STORED_INT,                      \
                                                         size_t: CLI_STORED_SIZE,                  \
                                                         bool: CLI_STORED_BOOL)

typedef struct cli_field {
    const char *name; /* in lists and in JSON; NULL ends the table */
    cli_kind kind;
    const char *label; /* of "show"; NULL: the name */
    const char *head;  /* of the column; NULL: the label, or the name */
    cli_style style;   /* of the column */
    bool right;        /* a text on the right of its column, never cut */
    cli_get *get;      /* NULL: CLI_AT() says where it is */
    size_t offset;
    cli_stored stored;
    const char *zero;    /* for people instead of the number 0; "": "show" leaves it out */
    const char *none;    /* shown instead of nothing */
    const char *blank;   /* in a cell instead of nothing */
    const char *members; /* of an object */
} cli_field;

/* Names are separated by single spaces.  A list that is not used may be NULL. */
typedef struct cli_entity {
    const cli_field *fields;
    const char *json;
    const char *show;
    const char *table;
} cli_entity;

/* One object without a line break; tail is "" or more members: ",\"name\":value". */
void cli_entity_json(cli_out *out, const cli_entity *entity, const void *thing, const char *tail);
/* The members alone, for an object made of several things.  *first: no comma before the next. */
void cli_fields_json(cli_out *out, const cli_field *fields, const char *names, const void *thing,
                     bool *first);
/* A line a field. */
void cli_entity_show(cli_out *out, const cli_entity *entity, const void *thing);
/* In a pipe a line of JSON, in a terminal a line a field. */
void cli_entity_put(cli_out *out, const cli_entity *entity, const void *thing);

/* The columns of a list, for a table with widths of its own; returns their number. */
size_t cli_fields_columns(const cli_field *fields, const char *names,
                          cli_column ret_columns[CLI_COLUMNS_MAX]);
void cli_entity_table(cli_table *table, cli_out *out, const cli_entity *entity);
void cli_fields_row(cli_table *table, const cli_field *fields, const char *names,
                    const void *thing);

/* ---- a list of things: JSON lines in a pipe, a table in a terminal */

typedef struct cli_list {
    cli_context *cli;
    const cli_entity *entity;
    const char *tail; /* of each line of JSON */
    cli_table table;
    int64_t n;
} cli_list;

void cli_list_begin(cli_list *list, cli_context *cli, const cli_entity *entity);
/* Returns 0, or 1 once nobody reads the output: what a walk's function returns. */
int cli_list_put(cli_list *list, const void *thing);
/* Prints what is held.  After a good status and no thing a terminal gets the note. */
void cli_list_end(cli_list *list, int status, const char *note_when_empty);

/* ---- values that more than one entity has */

/*
 * A payload: "data" when it is JSON; "content_type" and "data_base64" when it is bytes.  Data and
 * its base64, quoted, are of the kind CLI_JSON.
 */
void cli_value_data(cli_value *value, const char *content_type, const char *data, size_t len);
void cli_value_content_type(cli_value *value, const char *content_type, const char *data);
void cli_value_base64(cli_value *value, const char *content_type, const char *data, size_t len);
/* Headers for people: nothing when there are none. */
void cli_value_headers(cli_value *value, const char *headers, size_t len);

#endif
