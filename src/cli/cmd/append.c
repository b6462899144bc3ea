/*
 * append.c - howdah append: one event.
 *
 * The flags fill a builder of the library, which checks them all: names, sizes, JSON.  Only what is
 * about the command line itself is checked here.  --correct and --batch have files of their own.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cmd/append.h"
#include "cli/in/payload.h"
#include "face/event_in.h"
#include "face/events.h"

void cli_position_json(cli_context *cli, const char *stream, const howdah_position *position)
{
    face_position_json(cli_out_json(&cli->out), stream, position);
    cli_out_json_put(&cli->out);
    cli_out_puts(&cli->out, "\n");
}

/* ---- the payload */

/* The builder copies the payload, so the room for a file or for stdin is freed at once. */
static int set_payload(cli_context *cli, howdah_builder *builder, const char *word,
                       howdah_error *reterr)
{
    const char *bytes_type = cli_args_text(&cli->args, "bytes");
    hw_buf room;
    hw_str data;
    int s;

    cli_payload_init(&room, cli_payload_max(cli));
    s = cli_payload_read(word, bytes_type != NULL, cli_payload_max(cli), &room, &data, reterr);
    if (s == HOWDAH_OK && bytes_type)
        howdah_builder_set_bytes(builder, data.s, data.len, bytes_type);
    else if (s == HOWDAH_OK)
        howdah_builder_set_json(builder, data.s, data.len);
    hw_buf_done(&room);
    return s;
}

/* ---- the other fields */

/* The value may contain "=": only the first one separates. */
static int add_header(howdah_builder *builder, const char *pair, howdah_error *reterr)
{
    const char *equals = strchr(pair, '=');
    char *name;

    if (!equals)
        return hw_fail(reterr, HOWDAH_MISUSE, "--header needs NAME=VALUE");
    name = hw_strndup(pair, (size_t)(equals - pair));
    if (!name)
        return hw_fail_no_memory(reterr);
    howdah_builder_add_header(builder, name, equals + 1);
    hw_free(name);
    return HOWDAH_OK;
}

/* A text that was not given is not set: the builder tells absent from empty. */
static int set_texts(const cli_args *args, howdah_builder *builder, howdah_error *reterr)
{
    static const struct {
        const char *option;
        void (*set)(howdah_builder *builder, const char *text);
    } texts[] = {
        {"id", howdah_builder_set_id},
        {"correlation", howdah_builder_set_correlation},
        {"causation", howdah_builder_set_causation},
        {"actor", howdah_builder_set_actor},
    };
    const char *pair;
    size_t pos = 0;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (cli_args_has(args, texts[i].option))
            texts[i].set(builder, cli_args_text(args, texts[i].option));
    while ((pair = cli_args_next(args, "header", &pos))) {
        int s = add_header(builder, pair, reterr);

        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/*
 * The valid time stays unset without the option: then the store sets it when it records the event.
 */
static int set_numbers(const cli_args *args, howdah_builder *builder, howdah_error *reterr)
{
    const char *expect = cli_args_text(args, "expect");
    int64_t value = 1;
    int64_t valid_time_us = HOWDAH_NO_TIME;
    int s = cli_args_number(args, "schema-version", 1, INT32_MAX, &value, reterr);

    if (s < 0)
        return s;
    howdah_builder_set_schema_version(builder, value);
    if (expect) {
        s = face_expect_parse(expect, &value, reterr);
        if (s < 0)
            return s;
        howdah_builder_set_expect(builder, value);
    }
    s = cli_args_time(args, "valid-time", &valid_time_us, reterr);
    if (s == HOWDAH_OK && valid_time_us != HOWDAH_NO_TIME)
        howdah_builder_set_valid_time(builder, valid_time_us);
    return s;
}

/* The words of the command are stream, type and, at will, the payload; argv ends with NULL. */
static int build(cli_context *cli, char **argv, howdah_builder *builder, howdah_event **ret_event,
                 howdah_error *reterr)
{
    int s = set_texts(&cli->args, builder, reterr);

    assert(cli->args.words_n >= 3); /* cmd_append() counted them */
    howdah_builder_set_stream(builder, argv[1]);
    howdah_builder_set_type(builder, argv[2]);
    if (s == HOWDAH_OK)
        s = set_numbers(&cli->args, builder, reterr);
    if (s == HOWDAH_OK && argv[3])
        s = set_payload(cli, builder, argv[3], reterr);
    else if (s == HOWDAH_OK && cli_args_has(&cli->args, "bytes"))
        s = hw_fail(reterr, HOWDAH_MISUSE, "--bytes needs a payload: -, @FILE or the bytes");
    if (s == HOWDAH_OK)
        s = howdah_builder_build(builder, ret_event, reterr);
    return s;
}

/* ---- the command */

/* That an id was stored before is a note, not a failure: the caller has what it asked for. */
void cli_append_say(cli_context *cli, const char *stream, const howdah_position *place)
{
    char sequence[CLI_COUNT_SIZE];
    char revision[32] = "";

    if (cli->out.json) {
        cli_position_json(cli, stream, place);
    } else {
        cli_count_text(place->global_sequence, sequence);
        if (place->revision > 1)
            (void)snprintf(revision, sizeof revision, ", revision %" PRId32, place->revision);
        cli_out_printf(&cli->out, "%s version %" PRId64 ", sequence %s, id %s%s\n", stream,
                       place->version, sequence, place->id, revision);
    }
    if (place->already_stored)
        cli_note(cli, "this id was stored before with the same content; nothing was added");
}

/*
 * When the outcome is unknown the id is told: the same id is never stored twice, so repeating is
 * safe.
 */
static int append_one(cli_context *cli, const howdah_event *event, howdah_error *reterr)
{
    howdah_position place = HOWDAH_POSITION_INIT;
    char id[HOWDAH_UUID_SIZE];
    int s = cli_open(cli, reterr);

    assert(event);
    if (s == HOWDAH_OK)
        s = howdah_append(cli->bus, event, NULL, &place, reterr);
    if (s == HOWDAH_OK) {
        cli_append_say(cli, howdah_event_stream(event), &place);
    } else if (reterr->flags & HOWDAH_OUTCOME_UNKNOWN) {
        howdah_event_id(event, id);
        return hw_advise(reterr, s,
                         "it may have been stored; to find out, run the same command with --id %s",
                         id);
    }
    return s;
}

/* Options of --batch and --correct would be ignored without them, so they are refused. */
static int check_flags(const cli_args *args, howdah_error *reterr)
{
    static const struct {
        const char *option;
        const char *needs;
    } parts[] = {
        {"tx-size", "batch"},           {"id-space", "batch"}, {"positions", "batch"},
        {"dry-run", "batch"},           {"reason", "correct"}, {"retract", "correct"},
        {"expect-revision", "correct"},
    };

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (cli_args_has(args, parts[i].option) && !cli_args_has(args, parts[i].needs))
            return hw_fail(reterr, HOWDAH_MISUSE, "--%s needs --%s", parts[i].option,
                           parts[i].needs);
    return HOWDAH_OK;
}

int cmd_append(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *builder = NULL;
    howdah_event *event = NULL;
    int s;

    (void)argc;
    if (cli_args_has(&cli->args, "correct"))
        return cli_append_correct(cli);
    s = check_flags(&cli->args, &err);
    if (s == HOWDAH_OK && cli_args_has(&cli->args, "batch"))
        return cli_append_batch(cli);
    if (s == HOWDAH_OK)
        s = cli_args_words(&cli->args, 2, 3, &err);
    if (s == HOWDAH_OK)
        s = cli_settings(cli, &err);
    if (s == HOWDAH_OK)
        s = howdah_builder_new(&builder, &err);
    if (s == HOWDAH_OK)
        s = build(cli, argv, builder, &event, &err);
    if (s == HOWDAH_OK)
        s = append_one(cli, event, &err);
    howdah_event_free(event);
    howdah_builder_free(builder);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
