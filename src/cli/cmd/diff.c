/*
 * diff.c - howdah diff: what changed in our knowledge between two moments.
 *
 * The library compares as-of answers and hands over each event that differs, before and after.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/events.h"
#include "cli/out/times.h"
#include "face/events.h"

#define NAME_BYTES_MAX 1024u

typedef struct diff {
    cli_context *cli;
    howdah_diff_options options;
    bool nothing; /* --limit 0 */
    hw_buf line;
    bool final;
    int64_t n;
    int status;
    howdah_error *reterr;
} diff;

/* --------------------------------------------------------------------- JSON */

/* d->line is one for all changes. */
static void change_json(diff *d, howdah_change change, const howdah_event *before,
                        const howdah_event *after)
{
    hw_buf_clear(&d->line);
    d->status = face_change_json(change, before, after, d->final, &d->line, d->reterr);
    if (d->status < 0)
        return;
    cli_out_put(&d->cli->out, d->line.data, d->line.len);
    cli_out_puts(&d->cli->out, "\n");
}

/* ----------------------------------------------------------------- terminal */

/* The sign tells the kind of change where there are no colours. */
static void put_heading(cli_out *out, howdah_change change, const howdah_event *after)
{
    static const struct {
        const char *sign;
        cli_style style;
    } marks[] = {[HOWDAH_CHANGE_ADDED] = {"+", CLI_GREEN},
                 [HOWDAH_CHANGE_CORRECTED] = {"~", CLI_YELLOW},
                 [HOWDAH_CHANGE_RETRACTED] = {"-", CLI_RED},
                 [HOWDAH_CHANGE_RESTORED] = {"^", CLI_CYAN}};
    hw_buf names = HW_BUF_INIT(4 * NAME_BYTES_MAX);

    assert((size_t)change < sizeof marks / sizeof *marks && marks[change].sign);
    cli_out_style(out, marks[change].style);
    cli_out_printf(out, "%s %-9s", marks[change].sign, howdah_change_name(change));
    cli_out_style(out, CLI_PLAIN);
    hw_buf_puts(&names, "  ");
    cli_text_clean(&names, hw_str_of(howdah_event_stream(after)), NAME_BYTES_MAX, out->utf8);
    hw_buf_puts(&names, "  ");
    cli_text_clean(&names, hw_str_of(howdah_event_type(after)), NAME_BYTES_MAX, out->utf8);
    cli_out_style(out, CLI_BOLD);
    cli_out_put(out, hw_buf_str(&names),
                cli_text_fit(hw_buf_str(&names), out->width > 31 ? out->width - 11 : 20));
    cli_out_style(out, CLI_PLAIN);
    cli_out_puts(out, "\n");
    hw_buf_done(&names);
}

/* The valid time of a new event is shown here; a changed one is among the changes. */
static void change_show(cli_out *out, howdah_change change, const howdah_event *before,
                        const howdah_event *after)
{
    char text[64];
    int64_t at_us;

    put_heading(out, change, after);
    howdah_event_family(after, text);
    cli_fact(out, "family", CLI_DIM, hw_str_of(text));
    if (before) {
        (void)snprintf(text, sizeof text, "%d %s %d", howdah_event_revision(before),
                       out->utf8 ? "\xe2\x86\x92" : "->", howdah_event_revision(after));
        cli_fact(out, "revision", CLI_PLAIN, hw_str_of(text));
    }
    if (howdah_event_recorded_at(after, &at_us))
        cli_fact_time(out, "recorded", at_us);
    if (!before && howdah_event_valid_time(after, &at_us))
        cli_fact_time(out, "valid", at_us);
    cli_fact(out, "by", CLI_PLAIN, hw_str_of(howdah_event_actor(after)));
    cli_fact_whole(out, "reason", CLI_CYAN, hw_str_of(howdah_event_reason(after)));
    cli_changes(out, before, after);
}

/* An event that cannot be printed ends the walk; d->status keeps why. */
static int on_change(void *ctx, howdah_change change, const howdah_event *before,
                     const howdah_event *after)
{
    diff *d = ctx;

    if (d->nothing)
        return 1;
    d->n++;
    if (d->cli->out.json)
        change_json(d, change, before, after);
    else
        change_show(&d->cli->out, change, before, after);
    return d->status < 0 || !cli_out_alive(&d->cli->out);
}

/* -------------------------------------------------------------- the command */

/* --known-at is required: a diff has no useful default for its beginning. */
static int parse(diff *d, howdah_error *reterr)
{
    const cli_args *args = &d->cli->args;
    howdah_diff_options *o = &d->options;
    int64_t limit = HOWDAH_ABSENT;
    int s = cli_args_words(args, 0, 0, reterr);

    if (s == HOWDAH_OK && !cli_args_has(args, "known-at"))
        s = hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "diff needs --known-at"),
                      "usage: howdah %s", args->command->usage[0]);
    if (s == HOWDAH_OK)
        s = cli_args_time(args, "known-at", &o->known_at_us, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_time(args, "to", &o->to_us, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "limit", 0, INT64_MAX, &limit, reterr);
    d->nothing = limit == 0; /* the library's 0 is no limit */
    if (limit != HOWDAH_ABSENT)
        o->limit = limit;
    o->stream = cli_args_text(args, "stream");
    o->type = cli_args_text(args, "type");
    o->pattern = cli_args_text(args, "pattern");
    return s;
}

/*
 * Each line says whether it is final, so it is asked for before the first one; what is final then
 * stays it.  An error is that of the diff itself, which comes next and names its own fields.
 */
static void ask_knowledge(diff *d)
{
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_knowledge knowledge = HOWDAH_KNOWLEDGE_INIT;
    howdah_reader *reader = NULL;

    if (d->options.to_us == HOWDAH_NO_TIME)
        return;
    o.view = HOWDAH_VIEW_AS_OF;
    o.known_at_us = d->options.to_us;
    o.limit = 1;
    if (howdah_query_open(d->cli->bus, &o, &reader, NULL) < 0)
        return;
    howdah_reader_knowledge(reader, &knowledge);
    d->final = knowledge.final;
    howdah_reader_close(reader);
}

/* The note that an answer is not final comes after the answer. */
static int run(diff *d, howdah_error *reterr)
{
    howdah_knowledge knowledge = HOWDAH_KNOWLEDGE_INIT;
    int s = parse(d, reterr);

    if (s == HOWDAH_OK)
        s = cli_open(d->cli, reterr);
    if (s < 0)
        return s;
    ask_knowledge(d);
    s = howdah_diff(d->cli->bus, &d->options, on_change, d, &knowledge, reterr);
    if (s < 0 && reterr->advice[0] && strcmp(reterr->field, "known_at") == 0)
        return hw_advise(reterr, s, "it is the earlier of the two moments: give one in the past");
    if (s >= 0)
        s = d->status;
    if (s < 0)
        return s;
    cli_out_flush(&d->cli->out);
    if (d->n == 0 && !d->nothing && !d->cli->out.json)
        cli_note(d->cli, "no change");
    if (!d->final)
        cli_knowledge_note(d->cli, &knowledge);
    return HOWDAH_OK;
}

int cmd_diff(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    diff d = {.cli = cli,
              .options = HOWDAH_DIFF_OPTIONS_INIT,
              .line = HW_BUF_INIT((size_t)1024 * 1024 * 1024),
              .reterr = &err};
    int s = run(&d, &err);

    (void)argc;
    (void)argv;
    hw_buf_done(&d.line);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
