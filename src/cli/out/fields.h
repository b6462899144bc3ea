/*
 * fields.h - a thing on stdout, by its table of fields (face/fields.h): JSON, rows, a line a field.
 */
#ifndef HW_CLI_OUT_FIELDS_H
#define HW_CLI_OUT_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "cli/cli.h"
#include "cli/out/table.h"
#include "face/fields.h"

/* One object without a line break; tail is "" or more members: ",\"name\":value". */
void cli_entity_json(cli_out *out, const face_entity *entity, const void *thing, const char *tail);
/* A line a field. */
void cli_entity_show(cli_out *out, const face_entity *entity, const void *thing);
/* In a pipe a line of JSON, in a terminal a line a field. */
void cli_entity_put(cli_out *out, const face_entity *entity, const void *thing);

/* The columns of a list, for a table with widths of its own; returns their number. */
size_t cli_fields_columns(const face_field *fields, const char *names,
                          cli_column ret_columns[CLI_COLUMNS_MAX]);
void cli_entity_table(cli_table *table, cli_out *out, const face_entity *entity);
void cli_fields_row(cli_table *table, const face_field *fields, const char *names,
                    const void *thing);

/* ---- a list of things: JSON lines in a pipe, a table in a terminal */

typedef struct cli_list {
    cli_context *cli;
    const face_entity *entity;
    const char *tail; /* of each line of JSON */
    cli_table table;
    int64_t n;
} cli_list;

void cli_list_begin(cli_list *list, cli_context *cli, const face_entity *entity);
/* Returns 0, or 1 once nobody reads the output: what a walk's function returns. */
int cli_list_put(cli_list *list, const void *thing);
/* Prints what is held.  After a good status and no thing a terminal gets the note. */
void cli_list_end(cli_list *list, int status, const char *note_when_empty);

#endif
