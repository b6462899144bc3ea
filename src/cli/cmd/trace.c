/*
 * trace.c - howdah trace: a causation tree.
 *
 * In a pipe each event is printed as it comes.  The drawing in a terminal needs to know whether a
 * sister follows, so there the rows are kept: at most HOWDAH_CAUSATION_MAX short ones.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/out/events.h"
#include "face/events.h"

#define DRAWN_DEPTH_MAX 32 /* deeper levels are told by number: the terminal is not that wide */
#define ROW_BYTES_MAX 512u

typedef struct row {
    int level; /* 0: the root */
    bool self; /* the event that was asked for */
    char *text;
} row;

typedef struct trace {
    cli_context *cli;
    hw_buf line;
    row *rows;
    size_t rows_n;
    int depth_min;
    int status;
    howdah_error *reterr;
} trace;

static int print_json(trace *t, int depth, const howdah_event *event)
{
    hw_buf_clear(&t->line);
    t->status = face_trace_json(depth, event, &t->line, t->reterr);
    if (t->status < 0)
        return 1;
    cli_out_put(&t->cli->out, t->line.data, t->line.len);
    cli_out_puts(&t->cli->out, "\n");
    return cli_out_alive(&t->cli->out) ? 0 : 1;
}

/* One row of text, clean already: drawing only cuts it. */
static void describe(trace *t, const howdah_event *event)
{
    char id[HOWDAH_UUID_SIZE];
    char moment[CLI_MOMENT_SIZE];
    char payload[128];
    bool utf8 = t->cli->out.utf8;

    hw_buf_clear(&t->line);
    howdah_event_id(event, id);
    cli_event_moment(event, true, moment);
    cli_text_clean(&t->line, hw_str_of(howdah_event_type(event)), ROW_BYTES_MAX, utf8);
    hw_buf_puts(&t->line, "  ");
    cli_text_clean(&t->line, hw_str_of(howdah_event_stream(event)), ROW_BYTES_MAX, utf8);
    hw_buf_printf(&t->line, "@%" PRId64 "  %s  %s  ", howdah_event_version(event), id, moment);
    cli_text_clean(&t->line, cli_event_payload(event, payload, sizeof payload), ROW_BYTES_MAX,
                   utf8);
}

/* Causes come with negative depths, the root first, so its depth makes level 0. */
static int keep_row(trace *t, int depth, const howdah_event *event)
{
    row *rows = t->rows;

    if (t->rows_n % 64 == 0)
        rows = hw_realloc(t->rows, (t->rows_n + 64) * sizeof *rows);
    if (rows) {
        t->rows = rows;
        describe(t, event);
        rows[t->rows_n].text = hw_strdup(hw_buf_str(&t->line));
    }
    if (!rows || !rows[t->rows_n].text) {
        t->status = hw_fail_no_memory(t->reterr);
        return 1;
    }
    if (t->rows_n == 0)
        t->depth_min = depth;
    assert(depth >= t->depth_min); /* the root came first */
    rows[t->rows_n].level = depth - t->depth_min;
    rows[t->rows_n].self = depth == 0;
    t->rows_n++;
    return 0;
}

static int on_event(void *ctx, int depth, const howdah_event *event)
{
    trace *t = ctx;

    return t->cli->out.json ? print_json(t, depth, event) : keep_row(t, depth, event);
}

/* open[level]: whether a later row hangs on the same line at that level. */
static void draw_prefix(hw_buf *line, const row *r, const bool *open, bool utf8)
{
    static const char *const marks[2][3] = {
        {"|  ", "|- ", "`- "},
        {"\xe2\x94\x82  ", "\xe2\x94\x9c\xe2\x94\x80 ", "\xe2\x94\x94\xe2\x94\x80 "}};
    const char *const *mark = marks[utf8];

    if (r->level > DRAWN_DEPTH_MAX) {
        hw_buf_printf(line, "(%d) ", r->level);
        return;
    }
    for (int level = 1; level < r->level; level++)
        hw_buf_puts(line, open[level] ? mark[0] : "   ");
    if (r->level > 0)
        hw_buf_puts(line, open[r->level] ? mark[1] : mark[2]);
}

/* Whether the row has a sister further down: the next row that is not below it. */
static bool has_sister(const trace *t, size_t i)
{
    for (size_t n = i + 1; n < t->rows_n; n++)
        if (t->rows[n].level <= t->rows[i].level)
            return t->rows[n].level == t->rows[i].level;
    return false;
}

/* The event that was asked for is bold: in a long tree it is not at the top. */
static void draw(trace *t)
{
    cli_out *out = &t->cli->out;
    bool open[DRAWN_DEPTH_MAX + 1] = {false};

    for (size_t i = 0; i < t->rows_n; i++) {
        const row *r = &t->rows[i];
        size_t fits;

        if (r->level <= DRAWN_DEPTH_MAX)
            open[r->level] = has_sister(t, i);
        hw_buf_clear(&t->line);
        draw_prefix(&t->line, r, open, out->utf8);
        hw_buf_puts(&t->line, r->text);
        fits = cli_text_fit(hw_buf_str(&t->line), out->width);
        if (r->self)
            cli_out_style(out, CLI_BOLD);
        cli_out_put(out, hw_buf_str(&t->line), fits);
        if (r->self)
            cli_out_style(out, CLI_PLAIN);
        cli_out_puts(out, "\n");
    }
}

static void trace_done(trace *t)
{
    for (size_t i = 0; i < t->rows_n; i++)
        hw_free(t->rows[i].text);
    hw_free(t->rows);
    hw_buf_done(&t->line);
}

int cmd_trace(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    trace t = {.cli = cli, .line = HW_BUF_INIT((size_t)512 * 1024 * 1024), .reterr = &err};
    int s;

    (void)argc;
    s = cli_args_words(&cli->args, 1, 1, &err);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_causation_walk(cli->bus, argv[1], on_event, &t, &err);
    if (s >= 0)
        s = t.status;
    if (s >= 0 && !cli->out.json)
        draw(&t);
    trace_done(&t);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
