/*
 * dlq.c - howdah dlq: events and jobs that nobody could handle, and what becomes of them.
 *
 * Dead letters of subscriptions and of queues share one sequence of ids, so one command lists,
 * shows, redrives and discards both.  A dead letter has either an event or a job; a job whose
 * payload is gone has neither.
 */
#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/in/verbs.h"
#include "cli/out/events.h"
#include "face/dead_letters.h"
#include "face/queues.h"

/* ---------------------------------------------------------------- ls, show */

static void dead_letter_json(cli_out *out, const howdah_dead_letter *dead_letter)
{
    face_dead_letter_json(cli_out_json(out), dead_letter);
    cli_out_json_put(out);
    cli_out_puts(out, "\n");
}

typedef struct listing {
    cli_context *cli;
    cli_table table;
    int64_t n;
} listing;

/* Not a cli_list: its line of JSON is made of two things. */
static int on_listed(void *ctx, const howdah_dead_letter *dead_letter)
{
    listing *l = ctx;

    l->n++;
    if (l->cli->out.json)
        dead_letter_json(&l->cli->out, dead_letter);
    else
        cli_fields_row(&l->table, face_dead_letter.fields, face_dead_letter.table, dead_letter);
    return cli_out_alive(&l->cli->out) ? 0 : 1;
}

/* A dead letter has one source, so asking for both sources would always be empty. */
static int check_whose(const cli_context *cli, howdah_error *reterr)
{
    if (cli_args_has(&cli->args, "sub") && cli_args_has(&cli->args, "queue"))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "--sub and --queue exclude each other: a dead letter belongs to one");
    return HOWDAH_OK;
}

/* Open ones unless --all-states: those that somebody has to look at. */
static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_dead_letters_options options = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    listing l = {.cli = cli};
    int s = cli_args_number(&cli->args, "limit", 1, INT64_MAX, &options.limit, reterr);

    (void)words_n;
    (void)words;
    options.subscriber_id = cli_args_text(&cli->args, "sub");
    options.queue = cli_args_text(&cli->args, "queue");
    options.resolved = cli_args_has(&cli->args, "all-states");
    if (s == HOWDAH_OK)
        s = check_whose(cli, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    cli_entity_table(&l.table, &cli->out, &face_dead_letter);
    if (s == HOWDAH_OK)
        s = howdah_dead_letters_walk(cli->bus, &options, on_listed, &l, reterr);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
    if (s >= 0 && l.n == 0 && !cli->out.json)
        cli_note(cli, "no dead letters");
    return s;
}

/* The event as howdah read --id shows it. */
static void show_event(cli_out *out, const howdah_event *event)
{
    cli_events events;

    cli_events_init(&events, out, false);
    (void)cli_events_show(&events, event, NULL); /* only JSON of it can fail */
    cli_events_done(&events);
}

/* First what became of it, then, after a blank line, what it is about. */
static void dead_letter_show(cli_context *cli, const howdah_dead_letter *dead_letter)
{
    cli_out *out = &cli->out;

    cli_entity_show(out, &face_dead_letter, dead_letter);
    cli_out_puts(out, "\n");
    if (dead_letter->event)
        show_event(out, dead_letter->event);
    else if (dead_letter->job)
        cli_entity_show(out, &face_job_pushed, dead_letter->job);
}

/* Called once at most: the walk was asked for one id. */
static int on_shown(void *ctx, const howdah_dead_letter *dead_letter)
{
    listing *l = ctx;

    l->n++;
    if (l->cli->out.json)
        dead_letter_json(&l->cli->out, dead_letter);
    else
        dead_letter_show(l->cli, dead_letter);
    return 0;
}

/* Also one that is resolved: its id was named. */
static int run_show(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_dead_letters_options options = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    listing l = {.cli = cli};
    int s = cli_word_id(words[0], &options.id, reterr);

    (void)words_n;
    options.resolved = true;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_dead_letters_walk(cli->bus, &options, on_shown, &l, reterr);
    if (s >= 0 && l.n == 0)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no dead letter %s", words[0]);
    return s;
}

/* -------------------------------------------------------- redrive, discard */

/* The words as ids, each once: what is named twice is marked once. */
static int take_ids(int words_n, char **words, int64_t **ret_ids, size_t *ret_n,
                    howdah_error *reterr)
{
    int64_t *ids = hw_calloc((size_t)words_n + 1, sizeof *ids);
    size_t n = 0;

    if (!ids)
        return hw_fail_no_memory(reterr);
    for (int i = 0; i < words_n; i++) {
        size_t at = 0;

        if (cli_word_id(words[i], &ids[n], reterr) < 0) {
            hw_free(ids);
            return HOWDAH_INVALID;
        }
        while (ids[at] != ids[n])
            at++;
        assert(at <= n);
        n += at == n;
    }
    *ret_ids = ids;
    *ret_n = n;
    return HOWDAH_OK;
}

/* Some of those named were not open: that is not what was asked for. */
static int answer(cli_context *cli, const char *state, int64_t marked, size_t wanted,
                  howdah_error *reterr)
{
    if (cli->out.json)
        cli_out_printf(&cli->out, "{\"marked\":%" PRId64 ",\"state\":\"%s\"}\n", marked, state);
    else
        cli_out_printf(&cli->out, "%" PRId64 " dead letter%s: %s\n", marked, marked == 1 ? "" : "s",
                       state);
    assert(marked >= 0);
    if ((size_t)marked >= wanted)
        return HOWDAH_OK;
    return hw_advise(
        reterr,
        hw_fail(reterr, HOWDAH_NOT_FOUND,
                "%zu of the dead letters do not exist, are resolved already, or belong to "
                "jobs whose dedup key another job has",
                wanted - (size_t)marked),
        "howdah dlq ls --all-states lists them all");
}

/* Ids, or --all with at most one of --sub and --queue; "whose": --all needs one of them. */
static int check_which(const cli_context *cli, int words_n, bool whose, const char *usage,
                       howdah_error *reterr)
{
    bool all = cli_args_has(&cli->args, "all");
    bool named = cli_args_has(&cli->args, "sub") || cli_args_has(&cli->args, "queue");
    int s;

    if (all ? words_n == 0 && (named || !whose) : words_n > 0 && !named)
        return check_whose(cli, reterr);
    s = hw_fail(reterr, HOWDAH_MISUSE, "say which dead letters: ids, or --all%s",
                whose ? " of a queue" : "");
    return hw_advise(reterr, s, "usage: howdah %s", usage);
}

#define REDRIVE_USAGE "dlq redrive ID... | --all [--sub NAME | --queue NAME]"
#define DISCARD_USAGE "dlq discard ID... | --all --queue NAME --reason TEXT"

/* A whole queue is redriven by its name, without listing ids. */
static int run_redrive(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    const char *queue = cli_args_text(&cli->args, "queue");
    int64_t *ids = NULL;
    size_t n = 0;
    int64_t marked = 0;
    int s = check_which(cli, words_n, false, REDRIVE_USAGE, reterr);

    if (s == HOWDAH_OK)
        s = take_ids(words_n, words, &ids, &n, reterr);
    if (s < 0)
        return s;
    s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = queue ? howdah_queue_dead_letters_redrive(cli->bus, queue, &marked, reterr)
                  : howdah_dead_letters_redrive(cli->bus, ids, n, cli_args_text(&cli->args, "sub"),
                                                &marked, reterr);
    hw_free(ids);
    return s < 0 ? s : answer(cli, "redrive", marked, n, reterr);
}

/* What is discarded will not be tried again, so it needs a reason, and --all needs a queue. */
static int run_discard(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    const char *queue = cli_args_text(&cli->args, "queue");
    const char *reason = cli_args_text(&cli->args, "reason");
    int64_t *ids = NULL;
    size_t n = 0;
    int64_t marked = 0;
    int s = check_which(cli, words_n, true, DISCARD_USAGE, reterr);

    if (s == HOWDAH_OK && !reason)
        s = hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "dlq discard needs --reason"),
                      "usage: howdah %s", DISCARD_USAGE);
    if (s == HOWDAH_OK)
        s = take_ids(words_n, words, &ids, &n, reterr);
    if (s < 0)
        return s;
    s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = queue ? howdah_queue_dead_letters_discard(cli->bus, queue, reason, &marked, reterr)
                  : howdah_dead_letters_discard(cli->bus, ids, n, reason, &marked, reterr);
    hw_free(ids);
    return s < 0 ? s : answer(cli, "discarded", marked, n, reterr);
}

int cmd_dlq(cli_context *cli, int argc, char **argv)
{
    static const cli_verb verbs[] = {
        {"ls", "dlq ls [--sub NAME | --queue NAME] [--all-states] [--limit N]",
         "sub queue all-states limit", 0, 0, run_ls},
        {"show", "dlq show ID", "", 1, 1, run_show},
        {"redrive", REDRIVE_USAGE, "all sub queue", 0, CLI_WORDS_ANY, run_redrive},
        {"discard", DISCARD_USAGE, "all queue reason", 0, CLI_WORDS_ANY, run_discard},
        {NULL, NULL, NULL, 0, 0, NULL},
    };

    (void)argc;
    (void)argv;
    return cli_verbs_run(cli, verbs);
}
