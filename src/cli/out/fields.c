/*
 * fields.c - see fields.h.
 *
 * Three printers over one table.  Each goes through a list of names, finds the field, takes its
 * value and formats it: put_value() for JSON, people_text() for "show" and for cells.  A name is
 * looked up in the table every time; a table has two dozen rows, and a line is written to a file or
 * a terminal after that.
 */
#include "cli/out/fields.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/out/show.h"

#define ROWS_HELD 1000 /* above any number that a person reads as a table */
#define TEXT_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any payload */

/* -------------------------------------------------------------------- lists */

/* The field of the next name of a list; NULL at its end. */
static const cli_field *next_field(const cli_field *fields, const char **names)
{
    size_t len = strcspn(*names, " ");
    const cli_field *f = fields;

    if (len == 0)
        return NULL;
    while (f->name && (strncmp(f->name, *names, len) != 0 || f->name[len]))
        f++;
    assert(f->name); /* I1 */
    *names += len;
    *names += **names == ' ';
    return f;
}

/* ------------------------------------------------------------------- values */

/* The type of the member decides; CLI_AT() took it from the struct itself. */
static void take_stored(const cli_field *f, const void *thing, cli_value *v)
{
    const void *at = (const char *)thing + f->offset;

    switch (f->stored) {
    case CLI_STORED_TEXT:
        v->text = hw_str_of(*(const char *const *)at);
        break;
    case CLI_STORED_INT64:
        v->number = *(const int64_t *)at;
        break;
    case CLI_STORED_INT:
        v->number = *(const int *)at;
        break;
    case CLI_STORED_SIZE:
        v->number = (int64_t) * (const size_t *)at;
        break;
    case CLI_STORED_BOOL:
        v->number = *(const bool *)at;
        break;
    case CLI_COMPUTED:
        assert(f->kind == CLI_OBJECT); /* its members have values, it has none */
        break;
    }
}

static bool is_text(cli_kind kind)
{
    return kind == CLI_TEXT || kind == CLI_STRING || kind == CLI_WORD || kind == CLI_JSON;
}

/* The same for JSON, "show" and rows: what a field has is decided in one place. */
static void value_take(const cli_field *f, const void *thing, cli_value *v)
{
    *v = (cli_value){.text = HW_STR_NULL, .room = HW_BUF_INIT(TEXT_BYTES_MAX)};
    if (f->get)
        f->get(thing, v);
    else
        take_stored(f, thing, v);
    if (!v->text.s && v->room.len > 0)
        v->text = (hw_str){hw_buf_str(&v->room), v->room.len};
    v->absent = v->absent || v->left_out || (is_text(f->kind) && v->text.len == 0);
    assert(v->absent || !is_text(f->kind) || v->text.s);
}

static void value_done(cli_value *v)
{
    hw_buf_done(&v->room);
}

/* --------------------------------------------------------------------- JSON */

/* On one line: where JSON may have a line break, a space is as good. */
static void put_json_line(cli_out *out, hw_str json)
{
    while (json.len > 0) {
        size_t n = 0;

        while (n < json.len && json.s[n] != '\n' && json.s[n] != '\r')
            n++;
        cli_out_put(out, json.s, n);
        if (n < json.len) {
            cli_out_puts(out, " ");
            n++;
        }
        json.s += n;
        json.len -= n;
    }
}

/* Only a value that is there; null and "" are the caller's. */
static void put_value(cli_out *out, const cli_field *f, const cli_value *v)
{
    char time[HOWDAH_TIME_SIZE];

    switch (f->kind) {
    case CLI_TEXT:
    case CLI_STRING:
    case CLI_WORD:
        cli_json_text(out, v->text.s);
        break;
    case CLI_NUMBER:
    case CLI_COUNT:
    case CLI_DURATION:
        cli_out_printf(out, "%" PRId64, v->number);
        break;
    case CLI_BOOL:
        cli_out_puts(out, v->number ? "true" : "false");
        break;
    case CLI_TIME:
    case CLI_MOMENT:
    case CLI_DAY:
        howdah_time_format(v->number, time);
        cli_out_printf(out, "\"%s\"", time);
        break;
    case CLI_AGE:
        cli_out_printf(out, "%" PRId64 ".%03d", v->number / 1000, (int)(v->number % 1000));
        break;
    case CLI_JSON:
        put_json_line(out, v->text);
        break;
    case CLI_OBJECT:
        break; /* cli_fields_json() prints it */
    }
}

/* A value is freed before the next is taken: one payload is held, not all. */
void cli_fields_json(cli_out *out, const cli_field *fields, const char *names, const void *thing,
                     bool *first)
{
    const cli_field *f;

    while ((f = next_field(fields, &names))) {
        cli_value v;

        value_take(f, thing, &v);
        if (!v.left_out) {
            cli_out_printf(out, "%s\"%s\":", *first ? "" : ",", f->name);
            *first = false;
            if (f->kind == CLI_OBJECT)
                cli_entity_json(out, &(cli_entity){.fields = fields, .json = f->members}, thing,
                                "");
            else if (v.absent)
                cli_out_puts(out, f->kind == CLI_STRING ? "\"\"" : "null");
            else
                put_value(out, f, &v);
        }
        value_done(&v);
    }
}

/* The tail stands inside the object, after its last member. */
void cli_entity_json(cli_out *out, const cli_entity *entity, const void *thing, const char *tail)
{
    bool first = true;

    assert(entity->json);
    cli_out_puts(out, "{");
    cli_fields_json(out, entity->fields, entity->json, thing, &first);
    cli_out_puts(out, tail);
    cli_out_puts(out, "}");
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
static void time_text(cli_kind kind, bool cell, int64_t time_us, char ret_text[HOWDAH_TIME_SIZE])
{
    howdah_time_format(time_us, ret_text);
    if (!cell || kind == CLI_TIME)
        return;
    ret_text[10] = ' ';
    ret_text[kind == CLI_DAY ? 10 : 19] = '\0';
}

/* The value as a person reads it.  It may be in v->small. */
static hw_str people_text(const cli_field *f, cli_value *v, bool cell)
{
    if (f->zero && v->number == 0)
        return hw_str_of(f->zero);
    switch (f->kind) {
    case CLI_TEXT:
    case CLI_STRING:
    case CLI_WORD:
    case CLI_JSON:
    case CLI_OBJECT:
        return v->text;
    case CLI_BOOL:
        return hw_str_of(v->number ? "true" : "false");
    case CLI_NUMBER:
    case CLI_COUNT:
        if (cell && f->kind == CLI_COUNT)
            cli_count_text(v->number, v->small);
        else
            (void)snprintf(v->small, sizeof v->small, "%" PRId64, v->number);
        break;
    case CLI_TIME:
    case CLI_MOMENT:
    case CLI_DAY:
        time_text(f->kind, cell, v->number, v->small);
        break;
    case CLI_AGE:
        age_text(v->number, v->small, sizeof v->small);
        break;
    case CLI_DURATION:
        duration_text(v->number, v->small, sizeof v->small);
        break;
    }
    return hw_str_of(v->small);
}

/* A field without a text prints no line, so there is no list of empty labels. */
void cli_entity_show(cli_out *out, const cli_entity *entity, const void *thing)
{
    const char *names = entity->show;
    const cli_field *f;

    assert(names);
    while ((f = next_field(entity->fields, &names))) {
        cli_value v;

        value_take(f, thing, &v);
        cli_show_text(out, f->label ? f->label : f->name,
                      v.absent ? hw_str_of(f->none) : people_text(f, &v, false));
        value_done(&v);
    }
}

void cli_entity_put(cli_out *out, const cli_entity *entity, const void *thing)
{
    if (!out->json) {
        cli_entity_show(out, entity, thing);
        return;
    }
    cli_entity_json(out, entity, thing, "");
    cli_out_puts(out, "\n");
}

/* ------------------------------------------------------------------- tables */

/* Numbers stand on the right and are never cut: half a number is a wrong number. */
static cli_column column_of(const cli_field *f)
{
    const char *label = f->label ? f->label : f->name;
    bool number = f->kind == CLI_NUMBER || f->kind == CLI_COUNT || f->kind == CLI_AGE || f->right;
    bool text = f->kind == CLI_TEXT || f->kind == CLI_STRING || f->kind == CLI_JSON;

    return (cli_column){
        .head = f->head ? f->head : label,
        .style = f->style,
        .right = number,
        .whole = number || !text,
    };
}

size_t cli_fields_columns(const cli_field *fields, const char *names,
                          cli_column ret_columns[CLI_COLUMNS_MAX])
{
    const cli_field *f;
    size_t n = 0;

    while ((f = next_field(fields, &names))) {
        assert(n < CLI_COLUMNS_MAX);
        ret_columns[n++] = column_of(f);
    }
    return n;
}

/* Lists are read to their end before they are printed, unless they are very long. */
void cli_entity_table(cli_table *table, cli_out *out, const cli_entity *entity)
{
    cli_column columns[CLI_COLUMNS_MAX];
    size_t n = cli_fields_columns(entity->fields, entity->table, columns);

    cli_table_init(table, out, columns, n, ROWS_HELD);
}

/* All values of a row live until the table has copied them. */
void cli_fields_row(cli_table *table, const cli_field *fields, const char *names, const void *thing)
{
    cli_value values[CLI_COLUMNS_MAX];
    hw_str cells[CLI_COLUMNS_MAX];
    const cli_field *f;
    size_t n = 0;

    while ((f = next_field(fields, &names))) {
        assert(n < table->columns_n);
        value_take(f, thing, &values[n]);
        cells[n] = values[n].absent ? hw_str_of(f->blank ? f->blank : "")
                                    : people_text(f, &values[n], true);
        n++;
    }
    assert(n == table->columns_n);
    cli_table_row(table, cells);
    while (n > 0)
        value_done(&values[--n]);
}

/* -------------------------------------------------------------------- lists */

/* Also when the store could not be opened: an empty list prints nothing. */
void cli_list_begin(cli_list *list, cli_context *cli, const cli_entity *entity)
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

/* ----------------------------------------------------------------- payloads */

/* Bytes have no "data": a script that wants JSON does not get base64 by accident. */
void cli_value_data(cli_value *value, const char *content_type, const char *data, size_t len)
{
    value->text = (hw_str){data, len};
    value->left_out = data && content_type;
}

void cli_value_content_type(cli_value *value, const char *content_type, const char *data)
{
    value->text = hw_str_of(content_type);
    value->left_out = !data || !content_type;
}

void cli_value_base64(cli_value *value, const char *content_type, const char *data, size_t len)
{
    value->left_out = !data || !content_type;
    if (value->left_out)
        return;
    hw_buf_putc(&value->room, '"');
    hw_base64_put(&value->room, data, len);
    hw_buf_putc(&value->room, '"');
}

void cli_value_headers(cli_value *value, const char *headers, size_t len)
{
    value->text = (hw_str){headers, len};
    value->absent = len <= 2; /* no more than {} */
}
