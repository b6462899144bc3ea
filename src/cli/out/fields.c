/*
 * fields.c - see fields.h.
 *
 * Two printers over the tables of face/fields.h.  Each goes through a list of names, finds the
 * field, takes its value and makes it a text for people: people_text().
 */
#include "cli/out/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/show.h"

#define ROWS_HELD 1000 /* above any number that a person reads as a table */

/* --------------------------------------------------------------------- JSON */

/* In the buffer of the output first, which is one for all lines. */
void cli_entity_json(cli_out *out, const face_entity *entity, const void *thing, const char *tail)
{
    face_entity_json(cli_out_json(out), entity, thing, tail);
    cli_out_json_put(out);
}

/* --------------------------------------------------------------- for people */

/* 90 ms, 1.5 s, 3 m, 2 h. */
static void age_text(int64_t ms, char *out, size_t room)
{
    if (ms < 1000)
        (void)snprintf(out, room, "%" PRId64 " ms", ms);
    else if (ms < 60000)
        (void)snprintf(out, room, "%" PRId64 ".%d s", ms / 1000, (int)(ms % 1000 / 100));
    else if (ms < 3600000)
        (void)snprintf(out, room, "%" PRId64 " m", ms / 60000);
    else
        (void)snprintf(out, room, "%" PRId64 " h", ms / 3600000);
}

/* As "queue set" takes it, to the millisecond, in the largest unit that is exact. */
static void duration_text(int64_t ms, char *out, size_t room)
{
    static const struct {
        int64_t ms;
        const char *name;
    } units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t i = 0;

    while (ms % units[i].ms != 0)
        i++;
    (void)snprintf(out, room, "%" PRId64 "%s", ms / units[i].ms, units[i].name);
}

/* 2026-01-31T09:30:00.000000Z, and in a cell 2026-01-31 09:30:00 or 2026-01-31. */
static void time_text(face_kind kind, bool cell, int64_t time_us, char ret_text[HOWDAH_TIME_SIZE])
{
    howdah_time_format(time_us, ret_text);
    if (!cell || kind == FACE_TIME)
        return;
    ret_text[10] = ' ';
    ret_text[kind == FACE_DAY ? 10 : 19] = '\0';
}

/* The value as a person reads it.  It may be in v->small. */
static hw_str people_text(const face_field *f, face_value *v, bool cell)
{
    if (f->zero && v->number == 0)
        return hw_str_of(f->zero);
    switch (f->kind) {
    case FACE_TEXT:
    case FACE_STRING:
    case FACE_WORD:
    case FACE_JSON:
    case FACE_OBJECT:
        return v->text;
    case FACE_BOOL:
        return hw_str_of(v->number ? "true" : "false");
    case FACE_NUMBER:
    case FACE_COUNT:
        if (cell && f->kind == FACE_COUNT)
            cli_count_text(v->number, v->small);
        else
            (void)snprintf(v->small, sizeof v->small, "%" PRId64, v->number);
        break;
    case FACE_TIME:
    case FACE_MOMENT:
    case FACE_DAY:
        time_text(f->kind, cell, v->number, v->small);
        break;
    case FACE_AGE:
        age_text(v->number, v->small, sizeof v->small);
        break;
    case FACE_DURATION:
        duration_text(v->number, v->small, sizeof v->small);
        break;
    }
    return hw_str_of(v->small);
}

/* A field without a text prints no line, so there is no list of empty labels. */
void cli_entity_show(cli_out *out, const face_entity *entity, const void *thing)
{
    const char *names = entity->show;
    const face_field *f;

    assert(names);
    while ((f = face_field_next(entity->fields, &names))) {
        face_value v;

        face_value_take(f, thing, &v);
        cli_show_text(out, f->label ? f->label : f->name,
                      v.absent ? hw_str_of(f->none) : people_text(f, &v, false));
        face_value_done(&v);
    }
}

void cli_entity_put(cli_out *out, const face_entity *entity, const void *thing)
{
    if (!out->json) {
        cli_entity_show(out, entity, thing);
        return;
    }
    cli_entity_json(out, entity, thing, "");
    cli_out_puts(out, "\n");
}

/* ------------------------------------------------------------------- tables */

static cli_style style_of(face_style style)
{
    return style == FACE_NAME ? CLI_CYAN : style == FACE_ASIDE ? CLI_DIM : CLI_PLAIN;
}

/* Numbers stand on the right and are never cut: half a number is a wrong number. */
static cli_column column_of(const face_field *f)
{
    const char *label = f->label ? f->label : f->name;
    bool number =
        f->kind == FACE_NUMBER || f->kind == FACE_COUNT || f->kind == FACE_AGE || f->right;
    bool text = f->kind == FACE_TEXT || f->kind == FACE_STRING || f->kind == FACE_JSON;

    return (cli_column){
        .head = f->head ? f->head : label,
        .style = style_of(f->style),
        .right = number,
        .whole = number || !text,
    };
}

size_t cli_fields_columns(const face_field *fields, const char *names,
                          cli_column ret_columns[CLI_COLUMNS_MAX])
{
    const face_field *f;
    size_t n = 0;

    while ((f = face_field_next(fields, &names))) {
        assert(n < CLI_COLUMNS_MAX);
        ret_columns[n++] = column_of(f);
    }
    return n;
}

/* Lists are read to their end before they are printed, unless they are very long. */
void cli_entity_table(cli_table *table, cli_out *out, const face_entity *entity)
{
    cli_column columns[CLI_COLUMNS_MAX];
    size_t n = cli_fields_columns(entity->fields, entity->table, columns);

    cli_table_init(table, out, columns, n, ROWS_HELD);
}

/* All values of a row live until the table has copied them. */
void cli_fields_row(cli_table *table, const face_field *fields, const char *names,
                    const void *thing)
{
    face_value values[CLI_COLUMNS_MAX];
    hw_str cells[CLI_COLUMNS_MAX];
    const face_field *f;
    size_t n = 0;

    while ((f = face_field_next(fields, &names))) {
        assert(n < table->columns_n);
        face_value_take(f, thing, &values[n]);
        cells[n] = values[n].absent ? hw_str_of(f->blank ? f->blank : "")
                                    : people_text(f, &values[n], true);
        n++;
    }
    assert(n == table->columns_n);
    cli_table_row(table, cells);
    while (n > 0)
        face_value_done(&values[--n]);
}

/* -------------------------------------------------------------------- lists */

/* Also when the store could not be opened: an empty list prints nothing. */
void cli_list_begin(cli_list *list, cli_context *cli, const face_entity *entity)
{
    *list = (cli_list){.cli = cli, .entity = entity, .tail = ""};
    cli_entity_table(&list->table, &cli->out, entity);
}

/* Walks end early when nobody reads: howdah dlq ls | head. */
int cli_list_put(cli_list *list, const void *thing)
{
    cli_out *out = &list->cli->out;

    list->n++;
    if (out->json) {
        cli_entity_json(out, list->entity, thing, list->tail);
        cli_out_puts(out, "\n");
    } else {
        cli_fields_row(&list->table, list->entity->fields, list->entity->table, thing);
    }
    return cli_out_alive(out) ? 0 : 1;
}

/* An empty answer is empty in a pipe; a person is told that it is. */
void cli_list_end(cli_list *list, int status, const char *note_when_empty)
{
    cli_table_flush(&list->table);
    cli_table_done(&list->table);
    if (status >= 0 && list->n == 0 && !list->cli->out.json && note_when_empty)
        cli_note(list->cli, "%s", note_when_empty);
}
