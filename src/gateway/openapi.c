/*
 * openapi.c - the interface as an OpenAPI 3.1 document, made of the table that routes.
 *
 * What the table does not know, the forms of bodies and answers, is in schemas.c, by name.
 */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "gateway/handlers.h"
#include "gateway/schemas.h"

static void put_text(hw_buf *out, const char *text)
{
    hw_json_put_string(out, text, strlen(text));
}

/* The n-th word of a list; false: there is none. */
static bool word_at(const char *list, size_t n, char *word, size_t room)
{
    while (list && *list) {
        size_t len = strcspn(list, " ");

        if (n-- == 0) {
            (void)snprintf(word, room, "%.*s", (int)len, list);
            return true;
        }
        list += len + (list[len] == ' ');
    }
    return false;
}

static const gw_arg_row *arg_row(const char *name)
{
    for (size_t i = 0; i < gw_arg_rows_n; i++)
        if (strcmp(gw_arg_rows[i].name, name) == 0)
            return &gw_arg_rows[i];
    return NULL;
}

/* The few arguments that may not be left out. */
static bool is_needed(const gw_route *route, const char *name)
{
    return (route->handler == gw_diff && strcmp(name, "known_at") == 0) ||
           (route->handler == gw_event_purge && strcmp(name, "reason") == 0);
}

static void put_parameter(hw_buf *out, const char *name, const char *in, bool needed,
                          const char *type, const char *help, bool *first)
{
    hw_buf_puts(out, *first ? "" : ",");
    *first = false;
    hw_buf_puts(out, "{\"name\":");
    put_text(out, name);
    hw_buf_printf(out, ",\"in\":\"%s\",\"required\":%s,\"schema\":{\"type\":\"%s\"}", in,
                  needed ? "true" : "false", type);
    if (help) {
        hw_buf_puts(out, ",\"description\":");
        put_text(out, help);
    }
    hw_buf_putc(out, '}');
}

static void put_parameters(hw_buf *out, const gw_route *route)
{
    const char *at = route->path;
    char name[64];
    bool first = true;

    hw_buf_puts(out, ",\"parameters\":[");
    while ((at = strchr(at, '{'))) {
        size_t len = strcspn(++at, "}");

        (void)snprintf(name, sizeof name, "%.*s", (int)len, at);
        put_parameter(out, name, "path", true, "string", NULL, &first);
    }
    for (size_t i = 0; word_at(route->args, i, name, sizeof name); i++) {
        const gw_arg_row *row = arg_row(name);

        put_parameter(out, name, "query", is_needed(route, name), row ? row->type : "string",
                      row ? row->help : NULL, &first);
    }
    hw_buf_putc(out, ']');
}

static void put_reference(hw_buf *out, const char *schema)
{
    hw_buf_printf(out, "{\"schema\":{\"$ref\":\"#/components/schemas/%s\"}}", schema);
}

static void put_body(hw_buf *out, const gw_route *route, const char *schema)
{
    char type[64];

    if (!route->body)
        return;
    hw_buf_puts(out, ",\"requestBody\":{\"content\":{");
    for (size_t i = 0; word_at(route->body, i, type, sizeof type); i++) {
        hw_buf_puts(out, i > 0 ? "," : "");
        put_text(out, type);
        hw_buf_putc(out, ':');
        put_reference(out, strcmp(type, "application/json") == 0 ? schema : "Any");
    }
    hw_buf_puts(out, "}}");
}

static void put_content(hw_buf *out, const char *type, const char *schema)
{
    hw_buf_printf(out, "\"%s\":", type);
    put_reference(out, schema);
}

/* Lists of these are also answered a line each, to who asks or has sent them so. */
static bool has_lines(const char *schema)
{
    return strcmp(schema, "Events") == 0 || strcmp(schema, "Positions") == 0 ||
           strcmp(schema, "Pushed") == 0;
}

static void put_contents(hw_buf *out, const char *schema)
{
    if (strcmp(schema, "Text") == 0)
        put_content(out, "text/plain", schema);
    else if (strcmp(schema, "EventStream") == 0)
        put_content(out, "text/event-stream", schema);
    else
        put_content(out, "application/json", schema);
    if (has_lines(schema)) {
        hw_buf_putc(out, ',');
        put_content(out, "application/x-ndjson", "Lines");
    }
}

static void put_answers(hw_buf *out, const char *schema)
{
    if (strcmp(schema, "Nothing") == 0) {
        hw_buf_puts(out, ",\"responses\":{\"204\":{\"description\":\"done\"}");
    } else {
        hw_buf_puts(out, ",\"responses\":{\"2XX\":{\"description\":\"done\",\"headers\":{"
                         "\"X-Request-Id\":{\"description\":\"of this request, as in the log\","
                         "\"schema\":{\"type\":\"string\"}}},\"content\":{");
        put_contents(out, schema);
        hw_buf_puts(out, "}}");
    }
    hw_buf_puts(out, ",\"4XX\":{\"$ref\":\"#/components/responses/Problem\"}"
                     ",\"5XX\":{\"$ref\":\"#/components/responses/Problem\"}}");
}

/* "get-v1-events-id": unique, because a method and a path are. */
static void put_operation_id(hw_buf *out, const gw_route *route)
{
    bool gap = true;

    hw_buf_puts(out, "\"operationId\":\"");
    for (const char *c = route->method; *c; c++)
        hw_buf_putc(out, (char)(*c | 0x20));
    for (const char *c = route->path; *c; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');

        if (plain && gap)
            hw_buf_putc(out, '-');
        if (plain)
            hw_buf_putc(out, *c);
        gap = !plain;
    }
    hw_buf_putc(out, '"');
}

static void put_operation(hw_buf *out, const gw_route *route)
{
    char first[64] = "Any";
    char second[64] = "";
    const char *answer;

    (void)word_at(route->schema, 0, first, sizeof first);
    answer = word_at(route->schema, 1, second, sizeof second) ? second : first;
    hw_buf_putc(out, '"');
    for (const char *c = route->method; *c; c++)
        hw_buf_putc(out, (char)(*c | 0x20));
    hw_buf_puts(out, "\":{");
    put_operation_id(out, route);
    hw_buf_puts(out, ",\"summary\":");
    put_text(out, route->summary);
    hw_buf_printf(out, ",\"x-right\":\"%s\"%s", gw_right_name(route->right),
                  route->right == GW_ANYBODY ? ",\"security\":[]" : "");
    put_parameters(out, route);
    put_body(out, route, first);
    put_answers(out, answer);
    hw_buf_putc(out, '}');
}

/* All methods of a path stand together, where the table has the first of them. */
static void put_paths(hw_buf *out)
{
    bool first_path = true;

    for (size_t i = 0; i < gw_routes_n; i++) {
        bool seen = false;
        bool first = true;

        for (size_t k = 0; k < i; k++)
            seen = seen || strcmp(gw_routes[k].path, gw_routes[i].path) == 0;
        if (seen)
            continue;
        hw_buf_puts(out, first_path ? "" : ",");
        first_path = false;
        put_text(out, gw_routes[i].path);
        hw_buf_puts(out, ":{");
        for (size_t k = i; k < gw_routes_n; k++) {
            if (strcmp(gw_routes[k].path, gw_routes[i].path) != 0)
                continue;
            hw_buf_puts(out, first ? "" : ",");
            first = false;
            put_operation(out, &gw_routes[k]);
        }
        hw_buf_putc(out, '}');
    }
}

int gw_openapi(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    hw_buf *out = &r->answer.body;

    (void)bus;
    (void)reterr;
    hw_buf_printf(out,
                  "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"howdah\",\"version\":\"%s\","
                  "\"description\":\"An event bus over HTTP.\",\"license\":{\"name\":"
                  "\"PostgreSQL\",\"identifier\":\"PostgreSQL\"}},\"servers\":[{\"url\":\"/\"}],"
                  "\"security\":[{\"token\":[]},{}],"
                  "\"paths\":{",
                  howdah_version());
    put_paths(out);
    hw_buf_puts(out,
                "},\"components\":{\"securitySchemes\":{\"token\":{\"type\":\"http\","
                "\"scheme\":\"bearer\"}},\"responses\":{\"Problem\":{\"description\":\"what went "
                "wrong, and what to do\",\"headers\":{\"Retry-After\":{\"description\":"
                "\"seconds; with 429, 503 and 504\",\"schema\":{\"type\":\"integer\"}}},"
                "\"content\":{\"application/problem+json\":");
    put_reference(out, "Problem");
    hw_buf_puts(out, "}}},\"schemas\":{");
    gw_schemas_put(out);
    hw_buf_puts(out, "}}}\n");
    gw_answer_json(r, 200);
    gw_answer_header(r, "Cache-Control", "max-age=60");
    return HOWDAH_OK;
}
