/* dlq.c - howdah dlq: events and jobs that nobody could handle, and what becomes of them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/in/verbs.h"
#include "cli/out/events.h"
#include "cli/out/queues.h"
#include "cli/out/show.h"
#include "cli/out/subscriptions.h"

#define PAYLOAD_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any payload */
#define ROWS_HELD 1000

/* -------------------------------------------------------------------- JSON */

/* On one line; a line break is white space where JSON may have one. */
static void put_json_line(cli_out *out, const char *json, size_t len)
{
    while (len > 0) {
        const char *end = json;

        while (end < json + len && *end != '\n' && *end != '\r')
            end++;
        cli_out_put(out, json, (size_t)(end - json));
        len -= (size_t)(end - json);
        json = end;
        if (len > 0) {
            cli_out_puts(out, " ");
            json++;
            len--;
        }
    }
}

static void put_payload(cli_context *cli, const char *type, const char *data, size_t len)
{
    if (!type && data) {
        cli_out_puts(&cli->out, ",\"data\":");
        put_json_line(&cli->out, data, len);
    } else if (data) {
        hw_buf text = HW_BUF_INIT(PAYLOAD_BYTES_MAX);

        hw_base64_put(&text, data, len);
        cli_json_member(cli, "content_type", type);
        cli_out_puts(&cli->out, ",\"data_base64\":\"");
        cli_out_put(&cli->out, hw_buf_str(&text), text.len);
        cli_out_puts(&cli->out, "\"");
        hw_buf_done(&text);
    } else {
        cli_out_puts(&cli->out, ",\"data\":null");
    }
}

/* What became of it: the same of both. */
static void put_fate(cli_context *cli, const howdah_dead_letter *dead_letter)
{
    cli_out *out = &cli->out;

    cli_out_puts(out, ",\"error\":");
    cli_json_text(cli, dead_letter->error);
    cli_out_printf(out, ",\"attempts\":%" PRId64 ",\"redrives\":%" PRId64 ",\"state\":\"%s\"",
                   dead_letter->attempts, dead_letter->redrives, dead_letter->state);
    cli_json_member(cli, "reason", dead_letter->reason);
    cli_json_time(cli, "created_at", dead_letter->created_at_us);
    cli_json_time(cli, "last_attempt_at", dead_letter->last_attempt_at_us);
    if (dead_letter->resolved)
        cli_json_time(cli, "resolved_at", dead_letter->resolved_at_us);
    else
        cli_out_puts(out, ",\"resolved_at\":null");
    cli_json_member(cli, "resolved_by", dead_letter->resolved_by);
}

static void put_event(cli_context *cli, const howdah_dead_letter *dead_letter)
{
    cli_out *out = &cli->out;
    const howdah_event *event = dead_letter->event;
    char uuid[HOWDAH_UUID_SIZE];
    size_t len = 0;
    const char *data = howdah_event_data(event, &len);

    howdah_event_id(event, uuid);
    cli_json_member(cli, "subscriber_id", dead_letter->subscriber_id);
    cli_out_printf(out, ",\"event_id\":\"%s\",\"global_sequence\":%" PRId64, uuid,
                   howdah_event_global_sequence(event));
    cli_json_member(cli, "stream", howdah_event_stream(event));
    cli_out_printf(out, ",\"version\":%" PRId64, howdah_event_version(event));
    cli_json_member(cli, "type", howdah_event_type(event));
    put_fate(cli, dead_letter);
    put_payload(cli, howdah_event_content_type(event), data, len);
}

/* As it was pushed, and the event that it was made of. */
static void put_pushed(cli_context *cli, const howdah_job *job)
{
    cli_out *out = &cli->out;
    char uuid[HOWDAH_UUID_SIZE];
    int64_t pushed_us = 0;
    size_t len = 0;
    const char *text;

    cli_json_member(cli, "key", howdah_job_key(job));
    cli_json_member(cli, "dedup", howdah_job_dedup(job));
    cli_json_member(cli, "correlation_id", howdah_job_correlation(job));
    cli_json_member(cli, "causation_id", howdah_job_causation(job, uuid) ? uuid : NULL);
    if (howdah_job_event_sequence(job) > 0)
        cli_out_printf(out, ",\"event_sequence\":%" PRId64, howdah_job_event_sequence(job));
    else
        cli_out_puts(out, ",\"event_sequence\":null");
    cli_json_member(cli, "stream", howdah_job_event_stream(job));
    cli_json_member(cli, "type", howdah_job_event_type(job));
    if (howdah_job_created_at(job, &pushed_us))
        cli_json_time(cli, "pushed_at", pushed_us);
    text = howdah_job_data(job, &len);
    put_payload(cli, howdah_job_content_type(job), text, len);
    text = howdah_job_headers(job, &len);
    cli_out_puts(out, ",\"headers\":");
    put_json_line(out, text, len);
}

static void put_job(cli_context *cli, const howdah_dead_letter *dead_letter)
{
    cli_json_member(cli, "queue", dead_letter->queue);
    cli_out_printf(&cli->out, ",\"job_id\":%" PRId64, dead_letter->job_id);
    put_fate(cli, dead_letter);
    if (dead_letter->job)
        put_pushed(cli, dead_letter->job);
    else
        cli_out_puts(&cli->out, ",\"data\":null");
}

static void dead_letter_json(cli_context *cli, const howdah_dead_letter *dead_letter)
{
    cli_out_printf(&cli->out, "{\"id\":%" PRId64, dead_letter->id);
    cli_json_member(cli, "source", dead_letter->source);
    if (dead_letter->event)
        put_event(cli, dead_letter);
    else
        put_job(cli, dead_letter);
    cli_out_puts(&cli->out, "}\n");
}

/* ---------------------------------------------------------------- ls, show */

typedef struct listing {
    cli_context *cli;
    cli_table table;
    int64_t n;
} listing;

static int on_listed(void *ctx, const howdah_dead_letter *dead_letter)
{
    listing *l = ctx;
    char id[24];
    char number[24];
    char attempts[24];
    const char *type = "-";

    l->n++;
    if (l->cli->out.json) {
        dead_letter_json(l->cli, dead_letter);
        return cli_out_alive(&l->cli->out) ? 0 : 1;
    }
    (void)snprintf(id, sizeof id, "%" PRId64, dead_letter->id);
    (void)snprintf(number, sizeof number, "%" PRId64,
                   dead_letter->event ? howdah_event_global_sequence(dead_letter->event)
                                      : dead_letter->job_id);
    (void)snprintf(attempts, sizeof attempts, "%" PRId64, dead_letter->attempts);
    if (dead_letter->event)
        type = howdah_event_type(dead_letter->event);
    else if (dead_letter->job && howdah_job_event_type(dead_letter->job))
        type = howdah_job_event_type(dead_letter->job);
    cli_table_row(
        &l->table,
        (hw_str[]){hw_str_of(id), hw_str_of(dead_letter->source),
                   hw_str_of(dead_letter->event ? dead_letter->subscriber_id : dead_letter->queue),
                   hw_str_of(number), hw_str_of(type), hw_str_of(attempts),
                   hw_str_of(dead_letter->state), hw_str_of(dead_letter->error)});
    return cli_out_alive(&l->cli->out) ? 0 : 1;
}

static int check_whose(const cli_context *cli, howdah_error *reterr)
{
    if (cli_args_has(&cli->args, "sub") && cli_args_has(&cli->args, "queue"))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "--sub and --queue: a dead letter is of one or of the other");
    return HOWDAH_OK;
}

static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    static const cli_column columns[] = {
        {"id", CLI_DIM, true, true, 0},       {"of", CLI_DIM, false, true, 0},
        {"name", CLI_PLAIN, false, false, 0}, {"seq/job", CLI_DIM, true, true, 0},
        {"type", CLI_CYAN, false, false, 0},  {"tries", CLI_PLAIN, true, true, 0},
        {"state", CLI_PLAIN, false, true, 0}, {"error", CLI_PLAIN, false, false, 0},
    };
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
    cli_table_init(&l.table, &cli->out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
    if (s == HOWDAH_OK)
        s = howdah_dead_letters_walk(cli->bus, &options, on_listed, &l, reterr);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
    if (s >= 0 && l.n == 0 && !cli->out.json)
        cli_note(cli, "no dead letters");
    return s;
}

static void show_fate(cli_out *out, const howdah_dead_letter *dead_letter)
{
    cli_show_text(out, "state", hw_str_of(dead_letter->state));
    cli_show_text(out, "reason", hw_str_of(dead_letter->reason));
    cli_show_text(out, "error", hw_str_of(dead_letter->error));
    cli_show_number(out, "tries", dead_letter->attempts);
    cli_show_number(out, "redrives", dead_letter->redrives);
    cli_show_time(out, "created at", dead_letter->created_at_us);
    cli_show_time(out, "last try at", dead_letter->last_attempt_at_us);
    if (dead_letter->resolved)
        cli_show_time(out, "resolved at", dead_letter->resolved_at_us);
    cli_show_text(out, "resolved by", hw_str_of(dead_letter->resolved_by));
}

static void show_event(cli_out *out, const howdah_event *event)
{
    cli_events events;

    cli_events_init(&events, out, false);
    (void)cli_events_show(&events, event, NULL); /* only JSON of it can fail */
    cli_events_done(&events);
}

static void dead_letter_show(cli_context *cli, const howdah_dead_letter *dead_letter)
{
    cli_out *out = &cli->out;

    cli_show_number(out, "dead letter", dead_letter->id);
    cli_show_text(out, "subscription", hw_str_of(dead_letter->subscriber_id));
    cli_show_text(out, "queue", hw_str_of(dead_letter->queue));
    if (!dead_letter->event)
        cli_show_number(out, "job", dead_letter->job_id);
    show_fate(out, dead_letter);
    cli_out_puts(out, "\n");
    if (dead_letter->event)
        show_event(out, dead_letter->event);
    else if (dead_letter->job)
        cli_job_show_pushed(out, dead_letter->job);
}

static int on_shown(void *ctx, const howdah_dead_letter *dead_letter)
{
    listing *l = ctx;

    l->n++;
    if (l->cli->out.json)
        dead_letter_json(l->cli, dead_letter);
    else
        dead_letter_show(l->cli, dead_letter);
    return 0;
}

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
    if ((size_t)marked >= wanted)
        return HOWDAH_OK;
    return hw_advise(
        reterr,
        hw_fail(reterr, HOWDAH_NOT_FOUND,
                "%zu of the dead letters do not exist, are resolved already, or are of "
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
    s = hw_fail(reterr, HOWDAH_MISUSE, "which dead letters: ids, or --all%s",
                whose ? " of a queue" : "");
    return hw_advise(reterr, s, "usage: howdah %s", usage);
}

#define REDRIVE_USAGE "dlq redrive ID... | --all [--sub NAME | --queue NAME]"
#define DISCARD_USAGE "dlq discard ID... | --all --queue NAME --reason TEXT"

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
