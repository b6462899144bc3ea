/*
 * queue.c - howdah queue: listing, setting, pausing and purging queues.
 *
 * A change answers with the queue as it is now (in a pipe), so a script need not ask again.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/in/verbs.h"
#include "cli/out/fields.h"
#include "face/queues.h"

/* Walks take functions of the library's types; the list takes any thing. */
static int on_listed(void *ctx, const howdah_queue_info *info)
{
    return cli_list_put(ctx, info);
}

static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    (void)words_n;
    (void)words;
    cli_list_begin(&list, cli, &face_queue);
    if (s == HOWDAH_OK)
        s = howdah_queues_walk(cli->bus, NULL, on_listed, &list, reterr);
    cli_list_end(&list, s, "no queues; howdah push QUEUE makes one");
    return s;
}

/* The same object for show, set, pause and resume: a script sees what is in force now. */
static int on_shown(void *ctx, const howdah_queue_info *info)
{
    cli_context *cli = ctx;

    cli_entity_put(&cli->out, &face_queue, info);
    return 0;
}

/* A queue that is not there is mostly a spelling mistake, so the advice is the list. */
static int advise_queue(int s, howdah_error *reterr)
{
    return s == HOWDAH_NOT_FOUND ? hw_advise(reterr, s, "howdah queue ls lists them") : s;
}

/* By its name: the library walks one queue, or says that it is not there. */
static int show_queue(cli_context *cli, const char *queue, howdah_error *reterr)
{
    return advise_queue(howdah_queues_walk(cli->bus, queue, on_shown, cli, reterr), reterr);
}

static int run_show(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    return s < 0 ? s : show_queue(cli, words[0], reterr);
}

/* In a pipe the queue as it is now, in a terminal a sentence. */
static int answer(cli_context *cli, const char *queue, const char *sentence, howdah_error *reterr)
{
    if (cli->out.json)
        return show_queue(cli, queue, reterr);
    cli_out_printf(&cli->out, "%s %s\n", queue, sentence);
    return HOWDAH_OK;
}

/* The library knows the keys and their ranges; the help lists them. */
static int set_pair(howdah_queue_options *options, const char *pair, howdah_error *reterr)
{
    const char *equals = strchr(pair, '=');
    char *key;
    int s;

    if (!equals)
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "queue set needs KEY=VALUE"),
                         "usage: howdah queue set QUEUE KEY=VALUE...");
    key = hw_strndup(pair, (size_t)(equals - pair));
    if (!key)
        return hw_fail_no_memory(reterr);
    s = howdah_queue_options_set(options, key, equals + 1, reterr);
    hw_free(key);
    return s < 0 ? hw_advise(reterr, s, "howdah queue --help lists the settings") : s;
}

/* All pairs are checked before the store is opened, and set together. */
static int run_set(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_queue_options options = HOWDAH_QUEUE_OPTIONS_INIT;
    int s = HOWDAH_OK;

    for (int i = 1; s == HOWDAH_OK && i < words_n; i++)
        s = set_pair(&options, words[i], reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_queue_configure(cli->bus, words[0], &options, reterr);
    return s < 0 ? s : answer(cli, words[0], "is set", reterr);
}

/* Workers notice with their next claim. */
static int run_pause(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = advise_queue(howdah_queue_pause(cli->bus, words[0], reterr), reterr);
    return s < 0 ? s : answer(cli, words[0], "is paused; jobs under way continue", reterr);
}

/* Jobs that became due meanwhile are handed out at once. */
static int run_resume(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = advise_queue(howdah_queue_resume(cli->bus, words[0], reterr), reterr);
    return s < 0 ? s : answer(cli, words[0], "is resumed", reterr);
}

/* Jobs under way stay: a command that runs cannot be called back. */
static int run_purge(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int64_t n = 0;
    int s;

    (void)words_n;
    if (!cli_args_has(&cli->args, "yes"))
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "queue purge needs --yes"),
                         "it removes for good every job that is not under way");
    s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = advise_queue(howdah_queue_purge(cli->bus, words[0], &n, reterr), reterr);
    if (s < 0)
        return s;
    if (cli->out.json) {
        cli_out_puts(&cli->out, "{\"queue\":");
        cli_json_text(&cli->out, words[0]);
        cli_out_printf(&cli->out, ",\"purged\":%" PRId64 "}\n", n);
    } else {
        cli_out_printf(&cli->out, "%s: %" PRId64 " job%s removed\n", words[0], n,
                       n == 1 ? "" : "s");
    }
    return HOWDAH_OK;
}

int cmd_queue(cli_context *cli, int argc, char **argv)
{
    static const cli_verb verbs[] = {
        {"ls", "queue ls", "", 0, 0, run_ls},
        {"show", "queue show QUEUE", "", 1, 1, run_show},
        {"set", "queue set QUEUE [KEY=VALUE]...", "", 1, CLI_WORDS_ANY, run_set},
        {"pause", "queue pause QUEUE", "", 1, 1, run_pause},
        {"resume", "queue resume QUEUE", "", 1, 1, run_resume},
        {"purge", "queue purge QUEUE --yes", "yes", 1, 1, run_purge},
        {NULL, NULL, NULL, 0, 0, NULL},
    };

    (void)argc;
    (void)argv;
    return cli_verbs_run(cli, verbs);
}
