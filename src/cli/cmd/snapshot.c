/*
 * snapshot.c - howdah snapshot: the state of a stream at one of its versions.
 *
 * The library keeps what it is given and computes nothing: a snapshot is the user's own sum of the
 * events up to a version.
 */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "cli/in/payload.h"
#include "cli/in/verbs.h"
#include "cli/out/events.h"
#include "cli/out/fields.h"
#include "face/snapshots.h"

/* A version as a word, or by --version. */
static int word_version(const char *word, int64_t *ret_version, howdah_error *reterr)
{
    if (hw_parse_i64(word, 1, INT64_MAX, ret_version))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "version",
                         "expected a whole number, 1 or more; got something else, %zu bytes long",
                         strlen(word));
}

/* ----------------------------------------------------------------------- ls */

/* A list has the sizes of the data, not the data. */
static int on_listed(void *ctx, const howdah_snapshot *s)
{
    return cli_list_put(ctx, s);
}

static int run_ls(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    cli_list_begin(&list, cli, &face_snapshot);
    if (s == HOWDAH_OK)
        s = howdah_snapshots_walk(cli->bus, words_n > 0 ? words[0] : NULL, on_listed, &list,
                                  reterr);
    cli_list_end(&list, s, "no snapshots");
    return s;
}

/* ---------------------------------------------------------------- put, get, rm */

/* The data live in room, which ends with this call; the answer has their size only. */
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

/* The version must be one that the stream has: the library checks it. */
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
        cli_entity_put(&cli->out, &face_snapshot, &snapshot);
    } else {
        cli_out_printf(&cli->out, "%s: snapshot at version %" PRId64 ", %zu bytes\n",
                       snapshot.stream, snapshot.version, snapshot.data_len);
    }
    return HOWDAH_OK;
}

/* The nearest one at or below the version: the caller reads the events after it. */
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
    cli_entity_put(&cli->out, &face_snapshot, snapshot);
    howdah_snapshot_free(snapshot);
    return HOWDAH_OK;
}

/* --yes, because computing them again may take long; nothing else is lost. */
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
        cli_json_text(&cli->out, words[0]);
        cli_out_printf(&cli->out, ",\"removed\":%" PRId64 "}\n", removed);
    } else {
        cli_out_printf(&cli->out, "%s: %" PRId64 " snapshot%s removed\n", words[0], removed,
                       removed == 1 ? "" : "s");
    }
    return HOWDAH_OK;
}

/* -------------------------------------------------------------------- state */

/* The first line is always there, so that a script knows which line is the snapshot. */
static void print_snapshot(cli_context *cli, const howdah_snapshot *snapshot)
{
    if (!cli->out.json) {
        if (snapshot)
            cli_entity_show(&cli->out, &face_snapshot, snapshot);
        else
            cli_out_puts(&cli->out, "no snapshot");
        cli_out_puts(&cli->out, "\n");
        return;
    }
    cli_out_puts(&cli->out, "{\"snapshot\":");
    if (snapshot)
        cli_entity_json(&cli->out, &face_snapshot, snapshot, "");
    else
        cli_out_puts(&cli->out, "null");
    cli_out_puts(&cli->out, "}\n");
}

/* The events after the snapshot, as howdah read prints them. */
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
        cli_note(cli, "no events after it");
    cli_events_done(&events);
    return s < 0 ? s : HOWDAH_OK;
}

/* Snapshot and events are opened in one call, so that they fit together. */
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
    assert(reader);
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
