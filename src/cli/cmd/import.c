/*
 * import.c - howdah import: events of an existing table.
 *
 * The library does the work, in batches that it can continue after; here are the options, the
 * progress and the summary.
 */
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/in/signals.h"
#include "cli/out/progress.h"

#define BATCH_MAX 100000

/* A signal ends it between two batches: not 0 stops the import. */
static int on_progress(void *ctx, int64_t done, int64_t total)
{
    cli_progress_update(ctx, done, total);
    return cli_signal_caught();
}

/* map has room for every option that was given, so for each --map. */
static int parse(const cli_args *args, const char **map, howdah_import_options *options,
                 howdah_error *reterr)
{
    const char *pair;
    size_t pos = 0;
    int s = cli_args_words(args, 0, 0, reterr);

    options->table = cli_args_text(args, "table");
    if (s == HOWDAH_OK && !options->table)
        return hw_fail(reterr, HOWDAH_MISUSE, "import: --table is missing");
    while ((pair = cli_args_next(args, "map", &pos)))
        map[options->map_n++] = pair;
    options->map = map;
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "batch", 1, BATCH_MAX, &options->batch, reterr);
    return s;
}

/* An interrupt is no loss: the import remembers its last row. */
static int import(cli_context *cli, const howdah_import_options *wanted, howdah_error *reterr)
{
    howdah_import_options options = *wanted;
    cli_progress progress;
    char count[CLI_COUNT_SIZE];
    char rate[CLI_COUNT_SIZE];
    int64_t imported = 0;
    int s = cli_open(cli, reterr);

    if (s < 0)
        return s;
    cli_progress_start(&progress, cli, "rows");
    options.progress = on_progress;
    options.progress_ctx = &progress;
    s = howdah_import(cli->bus, &options, &imported, reterr);
    cli_progress_clear(&progress);
    if (s == HOWDAH_INTERRUPTED)
        cli_note(cli, "interrupted; the batches so far are stored; run it again to continue");
    if (s < 0)
        return s;
    cli_count_text(imported, count);
    cli_count_text(cli_progress_rate(&progress, imported), rate);
    if (cli->out.json)
        cli_out_printf(&cli->out, "{\"imported\":%lld}\n", (long long)imported);
    else
        cli_out_printf(&cli->out, "%s events imported (%s/s)\n", count, rate);
    return HOWDAH_OK;
}

/* The pairs of --map are pointers into argv; only their list is ours. */
int cmd_import(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_import_options options = HOWDAH_IMPORT_OPTIONS_INIT;
    const char **map = hw_calloc(cli->args.given_n + 1, sizeof *map);
    int s;

    (void)argc;
    (void)argv;
    s = map ? parse(&cli->args, map, &options, &err) : hw_fail_no_memory(&err);
    if (s == HOWDAH_OK)
        s = import(cli, &options, &err);
    hw_free(map);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
