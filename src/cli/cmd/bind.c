/* bind.c - howdah bind, unbind and bindings: events that become jobs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/subscriptions.h"
#include "cli/out/table.h"

#define ROWS_HELD 1000

/* -------------------------------------------------------------------- lines */

static void put_json(cli_context *cli, const howdah_binding_info *info)
{
    cli_out *out = &cli->out;

    cli_out_puts(out, "{\"queue\":");
    cli_json_text(cli, info->queue);
    cli_json_member(cli, "pattern", info->pattern);
    cli_json_member(cli, "key", howdah_binding_key_name(info->key));
    cli_json_member(cli, "subscriber_id", info->subscriber_id);
    cli_out_printf(out, ",\"high\":%" PRId64 ",\"head\":%" PRId64 ",\"lag\":%" PRId64, info->high,
                   info->head, info->lag);
    cli_json_member(cli, "state", cli_sub_state(info->state));
    cli_json_member(cli, "owner", info->owner);
    cli_json_time(cli, "created_at", info->created_at_us);
    cli_json_member(cli, "reason", info->reason);
    cli_out_puts(out, "}\n");
}

static void put_row(cli_table *table, const howdah_binding_info *info)
{
    char at[24];
    char lag[24];

    (void)snprintf(at, sizeof at, "%" PRId64, info->high);
    (void)snprintf(lag, sizeof lag, "%" PRId64, info->lag);
    cli_table_row(table, (hw_str[]){hw_str_of(info->queue), hw_str_of(info->pattern),
                                    hw_str_of(howdah_binding_key_name(info->key)),
                                    hw_str_of(cli_sub_state(info->state)), hw_str_of(at),
                                    hw_str_of(lag), hw_str_of(info->owner[0] ? info->owner : "-")});
}

/* ------------------------------------------------------------- bind, unbind */

typedef struct wanted {
    cli_context *cli;
    const char *pattern;
} wanted;

static int on_wanted(void *ctx, const howdah_binding_info *info)
{
    const wanted *w = ctx;

    if (strcmp(info->pattern, w->pattern) == 0)
        put_json(w->cli, info);
    return 0;
}

/* In a pipe the binding as it is now, in a terminal a sentence. */
static int answer(cli_context *cli, char **words, const char *sentence, howdah_error *reterr)
{
    wanted w = {cli, words[1]};

    if (cli->out.json)
        return howdah_bindings_walk(cli->bus, words[0], on_wanted, &w, reterr);
    cli_out_printf(&cli->out, "%s %s %s\n", words[1], sentence, words[0]);
    return HOWDAH_OK;
}

static int get_position(const cli_args *args, const char *option, int64_t *ret_position,
                        howdah_error *reterr)
{
    const char *text = cli_args_text(args, option);

    if (!text)
        return HOWDAH_OK;
    if (strcmp(text, "beginning") == 0)
        *ret_position = HOWDAH_FROM_START;
    else if (cli_position(args, option, ret_position, NULL) < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, option,
                             "wanted beginning, end, or a sequence, 0 or more, not these %zu bytes",
                             strlen(text));
    return HOWDAH_OK;
}

static int advise_binding(int s, howdah_error *reterr)
{
    return s == HOWDAH_NOT_FOUND ? hw_advise(reterr, s, "howdah bindings lists them") : s;
}

static int replay(cli_context *cli, char **words, howdah_error *reterr)
{
    int64_t to = 0;
    int s;

    if (cli_args_has(&cli->args, "from") || cli_args_has(&cli->args, "key"))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "--replay is for a binding that is there: without "
                       "--from and --key");
    s = get_position(&cli->args, "replay", &to, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = advise_binding(howdah_binding_replay(cli->bus, words[0], words[1], to, reterr), reterr);
    return s < 0 ? s : answer(cli, words, "is read again from there for", reterr);
}

static int run_bind(cli_context *cli, char **words, howdah_error *reterr)
{
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;
    int key = (int)o.key;
    int s;

    if (cli_args_has(&cli->args, "replay"))
        return replay(cli, words, reterr);
    s = get_position(&cli->args, "from", &o.start, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_choice(&cli->args, "key", &key, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s < 0)
        return s;
    o.key = (howdah_binding_key)key;
    s = howdah_queue_bind(cli->bus, words[0], words[1], &o, reterr);
    if (s < 0)
        return s;
    if (s == HOWDAH_END)
        cli_note(cli, "it was bound before and stays where it is");
    return answer(cli, words, "makes jobs of", reterr);
}

static int run_unbind(cli_context *cli, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    if (s == HOWDAH_OK)
        s = advise_binding(howdah_queue_unbind(cli->bus, words[0], words[1], reterr), reterr);
    if (s < 0)
        return s;
    if (!cli->out.json)
        return answer(cli, words, "makes no more jobs of", reterr);
    cli_out_puts(&cli->out, "{\"queue\":");
    cli_json_text(cli, words[0]);
    cli_json_member(cli, "pattern", words[1]);
    cli_out_puts(&cli->out, ",\"removed\":true}\n");
    return HOWDAH_OK;
}

static int run_pair(cli_context *cli, char **argv,
                    int (*run)(cli_context *cli, char **words, howdah_error *reterr))
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_args_words(&cli->args, 2, 2, &err);

    if (s >= 0)
        s = run(cli, argv + 1, &err);
    return s < 0 ? cli_fail(cli, &err) : 0;
}

int cmd_bind(cli_context *cli, int argc, char **argv)
{
    (void)argc;
    return run_pair(cli, argv, run_bind);
}

int cmd_unbind(cli_context *cli, int argc, char **argv)
{
    (void)argc;
    return run_pair(cli, argv, run_unbind);
}

/* ----------------------------------------------------------------- bindings */

typedef struct listing {
    cli_context *cli;
    cli_table table;
    size_t n;
} listing;

static int on_listed(void *ctx, const howdah_binding_info *info)
{
    listing *l = ctx;

    l->n++;
    if (l->cli->out.json)
        put_json(l->cli, info);
    else
        put_row(&l->table, info);
    return cli_out_alive(&l->cli->out) ? 0 : 1;
}

int cmd_bindings(cli_context *cli, int argc, char **argv)
{
    static const cli_column columns[] = {
        {"queue", CLI_CYAN, false, false, 0}, {"pattern", CLI_PLAIN, false, false, 0},
        {"key", CLI_PLAIN, false, true, 0},   {"state", CLI_PLAIN, false, true, 0},
        {"at", CLI_PLAIN, true, true, 0},     {"lag", CLI_PLAIN, true, true, 0},
        {"owner", CLI_DIM, false, false, 0},
    };
    howdah_error err = HOWDAH_ERROR_INIT;
    listing l = {.cli = cli};
    int s = cli_args_words(&cli->args, 0, 1, &err);

    cli_table_init(&l.table, &cli->out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
    if (s >= 0)
        s = cli_open(cli, &err);
    if (s >= 0)
        s = howdah_bindings_walk(cli->bus, argc > 1 ? argv[1] : NULL, on_listed, &l, &err);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
    if (s >= 0 && l.n == 0 && !cli->out.json)
        cli_note(cli, "no bindings; howdah bind QUEUE PATTERN makes one");
    return s < 0 ? cli_fail(cli, &err) : 0;
}
