/* snapshot.c - howdah snapshot: the state of a stream at one of its versions. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/in/payload.h"
#include "cli/in/verbs.h"
#include "cli/out/events.h"
#include "cli/out/show.h"
#include "cli/out/subscriptions.h"

#define ROWS_HELD 1000
#define BASE64_BYTES_MAX ((size_t)512 * 1024 * 1024)

/* A version as a word, or by --version. */
static int word_version(const char *word, int64_t *ret_version, howdah_error *reterr)
{
    if (hw_parse_i64(word, 1, INT64_MAX, ret_version))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "version",
                         "wanted a whole number from 1 on, not these %zu bytes", strlen(word));
}

/* ----------------------------------------------------------------- printing */

static void data_json(cli_context *cli, const howdah_snapshot *s)
{
    hw_buf base64 = HW_BUF_INIT(BASE64_BYTES_MAX);

    if (!s->content_type) {
        cli_out_puts(&cli->out, ",\"data\":");
        cli_out_put(&cli->out, s->data, s->data_len);
        return;
    }
    hw_base64_put(&base64, s->data, s->data_len);
    cli_out_puts(&cli->out, ",\"data\":null");
    cli_json_member(cli, "content_type", s->content_type);
    cli_out_printf(&cli->out, ",\"data_base64\":\"%s\"", hw_buf_str(&base64));
    hw_buf_done(&base64);
}

/* One object, without a line break; with its data when it has them. */
static void snapshot_json(cli_context *cli, const howdah_snapshot *s)
{
    cli_out_puts(&cli->out, "{\"stream\":");
    cli_json_text(cli, s->stream);
    cli_out_printf(&cli->out, ",\"version\":%" PRId64, s->version);
    if (s->data)
        data_json(cli, s);
    else if (s->content_type)
        cli_json_member(cli, "content_type", s->content_type);
    cli_out_printf(&cli->out, ",\"bytes\":%zu,\"schema_version\":%" PRId64, s->data_len,
                   s->schema_version);
    if (s->taken_at_us != HOWDAH_NO_TIME)
        cli_json_time(cli, "taken_at", s->taken_at_us);
    cli_out_puts(&cli->out, "}");
}

static void snapshot_show(cli_out *out, const howdah_snapshot *s)
{
    char text[128];

    cli_show_text(out, "stream", hw_str_of(s->stream));
    cli_show_number(out, "version", s->version);
    cli_show_number(out, "schema version", s->schema_version);
    cli_show_time(out, "taken at", s->taken_at_us);
    if (s->content_type) {
        (void)snprintf(text, sizeof text, "(%.80s, %zu bytes)", s->content_type, s->data_len);
        cli_show_text(out, "data", hw_str_of(text));
    } else {
        cli_show_text(out, "data", (hw_str){s->data, s->data_len});
    }
}

/* ----------------------------------------------------------------------- ls */

typedef struct listing {
    cli_context *cli;
    cli_table table;
    int64_t n;
} listing;

static int on_listed(void *ctx, const howdah_snapshot *s)
{
    listing *l = ctx;
    char version[24];
    char schema_version[24];
    char bytes[CLI_COUNT_SIZE];
    char taken_at[HOWDAH_TIME_SIZE];

    l->n++;
    if (l->cli->out.json) {
        snapshot_json(l->cli, s);
        cli_out_puts(&l->cli->out, "\n");
        return cli_out_alive(&l->cli->out) ? 0 : 1;
    }
    (void)snprintf(version, sizeof version, "%" PRId64, s->version);
    (void)snprintf(schema_version, sizeof schema_version, "%" PRId64, s->schema_version);
    cli_count_text((long long)s->data_len, bytes);
    howdah_time_format(s->taken_at_us, taken_at);
    taken_at[10] = ' ';
    taken_at[19] = '\0';
    cli_table_row(&l->table, (hw_str[]){hw_str_of(s->stream), hw_str_of(version), hw_str_of(bytes),
                                        hw_str_of(schema_version), hw_str_of(taken_at)});
    return cli_out_alive(&l->cli->out) ? 0 : 1;
}

static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    static const cli_column columns[] = {
        {"stream", CLI_CYAN, false, false, 0},       {"version", CLI_PLAIN, true, true, 0},
        {"bytes", CLI_PLAIN, true, true, 0},         {"schema", CLI_DIM, true, true, 0},
        {"taken at (UTC)", CLI_DIM, false, true, 0},
    };
    listing l = {.cli = cli};
    int s = cli_open(cli, reterr);

    cli_table_init(&l.table, &cli->out, columns, sizeof columns / sizeof *columns, ROWS_HELD);
    if (s == HOWDAH_OK)
        s = howdah_snapshots_walk(cli->bus, words_n > 0 ? words[0] : NULL, on_listed, &l, reterr);
    cli_table_flush(&l.table);
    cli_table_done(&l.table);
    if (s >= 0 && l.n == 0 && !cli->out.json)
        cli_note(cli, "no snapshots");
    return s;
}

/* ---------------------------------------------------------------- put, get, rm */

static int store_word(cli_context *cli, howdah_snapshot *snapshot, const char *word, int64_t keep,
                      howdah_error *reterr)
{
    hw_buf room;
    hw_str data;
    int s;

    cli_payload_init(&room, cli_payload_max(cli));
    s = cli_payload_read(word, snapshot->content_type != NULL, cli_payload_max(cli), &room, &data,
                         reterr);
    if (s == HOWDAH_OK) {
        snapshot->data = data.s;
        snapshot->data_len = data.len;
        s = cli_open(cli, reterr);
    }
    if (s == HOWDAH_OK)
        s = howdah_snapshot_store(cli->bus, snapshot, keep, reterr);
    hw_buf_done(&room);
    snapshot->data = NULL;
    return s;
}

static int run_put(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_snapshot snapshot = HOWDAH_SNAPSHOT_INIT;
    int64_t keep = 0;
    int s = word_version(words[1], &snapshot.version, reterr);

    (void)words_n;
    snapshot.stream = words[0];
    snapshot.content_type = cli_args_text(&cli->args, "bytes");
    if (s == HOWDAH_OK)
        s = cli_args_number(&cli->args, "keep", 1, INT64_MAX, &keep, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(&cli->args, "schema-version", 1, INT32_MAX, &snapshot.schema_version,
                            reterr);
    if (s == HOWDAH_OK)
        s = cli_settings(cli, reterr);
    if (s == HOWDAH_OK)
        s = store_word(cli, &snapshot, words[2], keep, reterr);
    if (s < 0)
        return s;
    if (cli->out.json) {
        snapshot_json(cli, &snapshot);
        cli_out_puts(&cli->out, "\n");
    } else {
        cli_out_printf(&cli->out, "%s: snapshot at version %" PRId64 ", %zu bytes\n",
                       snapshot.stream, snapshot.version, snapshot.data_len);
    }
    return HOWDAH_OK;
}

static int run_get(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_snapshot *snapshot = NULL;
    int64_t version = 0;
    int s = cli_args_number(&cli->args, "version", 1, INT64_MAX, &version, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_snapshot_load(cli->bus, words[0], version, &snapshot, reterr);
    if (s < 0 || !snapshot)
        return s;
    if (cli->out.json) {
        snapshot_json(cli, snapshot);
        cli_out_puts(&cli->out, "\n");
    } else {
        snapshot_show(&cli->out, snapshot);
    }
    howdah_snapshot_free(snapshot);
    return HOWDAH_OK;
}

static int run_rm(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    int64_t upto = 0;
    int64_t removed = 0;
    int s = cli_args_number(&cli->args, "upto", 1, INT64_MAX, &upto, reterr);

    (void)words_n;
    if (s == HOWDAH_OK && !cli_args_has(&cli->args, "yes"))
        s = hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "snapshot rm needs --yes"),
                      "it removes the stream's snapshots; its events stay");
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_snapshots_remove(cli->bus, words[0], upto, &removed, reterr);
    if (s < 0)
        return s;
    if (cli->out.json) {
        cli_out_puts(&cli->out, "{\"stream\":");
        cli_json_text(cli, words[0]);
        cli_out_printf(&cli->out, ",\"removed\":%" PRId64 "}\n", removed);
    } else {
        cli_out_printf(&cli->out, "%s: %" PRId64 " snapshot%s removed\n", words[0], removed,
                       removed == 1 ? "" : "s");
    }
    return HOWDAH_OK;
}

/* -------------------------------------------------------------------- state */

static void print_snapshot(cli_context *cli, const howdah_snapshot *snapshot)
{
    if (!cli->out.json) {
        if (snapshot)
            snapshot_show(&cli->out, snapshot);
        else
            cli_out_puts(&cli->out, "no snapshot");
        cli_out_puts(&cli->out, "\n");
        return;
    }
    cli_out_puts(&cli->out, "{\"snapshot\":");
    if (snapshot)
        snapshot_json(cli, snapshot);
    else
        cli_out_puts(&cli->out, "null");
    cli_out_puts(&cli->out, "}\n");
}

static int print_events(cli_context *cli, howdah_reader *reader, howdah_error *reterr)
{
    cli_events events;
    const howdah_event *event;
    int s = HOWDAH_OK;

    cli_events_init(&events, &cli->out, false);
    while (s == HOWDAH_OK && cli_out_alive(&cli->out)) {
        s = howdah_reader_next(reader, &event, reterr);
        if (s == HOWDAH_OK)
            s = cli_events_put(&events, event, reterr);
    }
    cli_events_flush(&events);
    if (s >= 0 && events.count == 0 && !cli->out.json)
        cli_note(cli, "no events behind it");
    cli_events_done(&events);
    return s < 0 ? s : HOWDAH_OK;
}

static int run_state(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    howdah_snapshot *snapshot = NULL;
    howdah_reader *reader = NULL;
    int64_t version = 0;
    int s = cli_args_number(&cli->args, "version", 1, INT64_MAX, &version, reterr);

    (void)words_n;
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = howdah_state_open(cli->bus, words[0], version, &snapshot, &reader, reterr);
    if (s < 0)
        return s;
    print_snapshot(cli, snapshot);
    s = print_events(cli, reader, reterr);
    howdah_reader_close(reader);
    howdah_snapshot_free(snapshot);
    return s;
}

int cmd_snapshot(cli_context *cli, int argc, char **argv)
{
    static const cli_verb verbs[] = {
        {"ls", "snapshot ls [STREAM]", "", 0, 1, run_ls},
        {"put", "snapshot put STREAM VERSION JSON|-|@FILE [--keep N] [--schema-version N]",
         "keep schema-version bytes", 3, 3, run_put},
        {"get", "snapshot get STREAM [--version N]", "version", 1, 1, run_get},
        {"rm", "snapshot rm STREAM [--upto N] --yes", "upto yes", 1, 1, run_rm},
        {"state", "snapshot state STREAM [--version N]", "version", 1, 1, run_state},
        {NULL, NULL, NULL, 0, 0, NULL},
    };

    (void)argc;
    (void)argv;
    return cli_verbs_run(cli, verbs);
}
