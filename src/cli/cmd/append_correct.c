/*
 * append_correct.c - howdah append --correct: the next revision of an event's family.
 *
 * Words: [STREAM TYPE] [JSON | - | @FILE].  Stream and type are the family's; who names them is
 * told when they are not.  The correction's id is made here, so that a call whose outcome is not
 * known can be repeated with it.
 */
#include <assert.h>
#include <string.h>

#include "base/uuid.h"
#include "cli/cmd/append.h"
#include "cli/in/payload.h"
#include "cli/out/times.h"

typedef struct correct_request {
    howdah_correction c;
    const char *stream; /* NULL: not named */
    const char *type;
    const char *payload; /* NULL: none */
    char id[HW_UUID_TEXT + 1];
    hw_buf headers;
    hw_buf room;
} correct_request;

/* Options of an append that a correction does not take. */
static int check_flags(const cli_args *args, howdah_error *reterr)
{
    static const char *const appending[] = {"expect",  "correlation", "causation", "batch",
                                            "tx-size", "id-space",    "positions", "dry-run"};

    for (size_t i = 0; i < sizeof appending / sizeof *appending; i++)
        if (cli_args_has(args, appending[i]))
            return hw_fail(reterr, HOWDAH_MISUSE, "--%s and --correct exclude each other",
                           appending[i]);
    if (!cli_args_has(args, "reason"))
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "--correct needs --reason"),
                         "usage: howdah %s", args->command->usage[1]);
    return HOWDAH_OK;
}

/* What can only begin a payload: JSON, a file, or stdin. */
static bool is_payload(const char *word)
{
    return strchr("{[\"@", word[0]) || strcmp(word, "-") == 0;
}

/* One word is a payload, two are stream and type, three are all of them. */
static int take_words(const cli_args *args, correct_request *r, howdah_error *reterr)
{
    int n = args->words_n - 1;
    /* Of two words the first is a stream, which hardly anybody calls so. */
    int s = cli_args_words(args, 0, n == 2 && is_payload(args->words[1]) ? 1 : 3, reterr);

    if (s < 0)
        return hw_advise(reterr, s, "usage: howdah %s", args->command->usage[1]);
    if (n >= 2) {
        r->stream = args->words[1];
        r->type = args->words[2];
    }
    if (n == 1 || n == 3)
        r->payload = args->words[n];
    if (!r->payload && cli_args_has(args, "bytes"))
        return hw_fail(reterr, HOWDAH_MISUSE, "--bytes needs a payload: -, @FILE or the bytes");
    return HOWDAH_OK;
}

static int take_id(const cli_args *args, correct_request *r, howdah_error *reterr)
{
    hw_uuid id;

    r->c.id = cli_args_text(args, "id");
    if (r->c.id)
        return HOWDAH_OK;
    if (!hw_uuid_v7(&id))
        return hw_fail(reterr, HOWDAH_FAILED, "cannot get random bytes for an id");
    hw_uuid_format(&id, r->id);
    r->c.id = r->id;
    return HOWDAH_OK;
}

/* The texts point into argv and into r->headers, which outlive the call of the library. */
static int take_options(const cli_args *args, correct_request *r, howdah_error *reterr)
{
    int s = check_flags(args, reterr);

    if (s == HOWDAH_OK)
        s = take_words(args, r, reterr);
    if (s == HOWDAH_OK)
        s = take_id(args, r, reterr);
    if (s == HOWDAH_OK)
        s = cli_headers_json(args, &r->headers, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_time(args, "valid-time", &r->c.valid_time_us, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "schema-version", 1, INT32_MAX, &r->c.schema_version, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "expect-revision", 1, INT32_MAX, &r->c.expected_revision, reterr);
    r->c.event_id = cli_args_text(args, "correct");
    r->c.reason = cli_args_text(args, "reason");
    r->c.actor = cli_args_text(args, "actor");
    r->c.retract = cli_args_has(args, "retract");
    r->c.headers = r->headers.len > 0 ? hw_buf_str(&r->headers) : NULL;
    return s;
}

/* No payload: the one of the newest revision stays. */
static int take_payload(cli_context *cli, correct_request *r, howdah_error *reterr)
{
    hw_str data;
    int s;

    if (!r->payload)
        return HOWDAH_OK;
    r->c.content_type = cli_args_text(&cli->args, "bytes");
    cli_payload_init(&r->room, cli_payload_max(cli));
    s = cli_payload_read(r->payload, r->c.content_type != NULL, cli_payload_max(cli), &r->room,
                         &data, reterr);
    if (s == HOWDAH_OK) {
        r->c.data = data.s;
        r->c.data_len = data.len;
    }
    return s;
}

/*
 * The user who names the stream expects that event; a correction of another one would be hard to
 * undo.
 */
static int check_name(const char *field, const char *given, const char *stored,
                      howdah_error *reterr)
{
    if (!given || strcmp(given, stored) == 0)
        return HOWDAH_OK;
    return hw_advise(reterr,
                     hw_fail_field(reterr, HOWDAH_INVALID, field, "differs from that of the event"),
                     "leave out stream and type: a correction has those of its family");
}

/* The event is read first: for its stream, which the answer names, and to check the names given. */
static int correct(cli_context *cli, const correct_request *r, howdah_error *reterr)
{
    howdah_event *event = NULL;
    howdah_position place = HOWDAH_POSITION_INIT;
    int s = howdah_event_get(cli->bus, r->c.event_id, &event, reterr);

    assert(r->c.id && r->c.reason);
    if (s < 0)
        return s;
    s = check_name("stream", r->stream, howdah_event_stream(event), reterr);
    if (s == HOWDAH_OK)
        s = check_name("type", r->type, howdah_event_type(event), reterr);
    if (s == HOWDAH_OK) {
        s = howdah_correct(cli->bus, &r->c, &place, reterr);
        if (s == HOWDAH_OK)
            cli_append_say(cli, howdah_event_stream(event), &place);
        else if (reterr->flags & HOWDAH_OUTCOME_UNKNOWN)
            (void)hw_advise(
                reterr, s,
                "it may have been stored; to find out, run the same command with --id %s", r->c.id);
    }
    howdah_event_free(event);
    return s;
}

int cli_append_correct(cli_context *cli)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    correct_request r = {
        .c = HOWDAH_CORRECTION_INIT, .headers = HW_BUF_INIT(0), .room = HW_BUF_INIT(0)};
    int s = take_options(&cli->args, &r, &err);

    if (s == HOWDAH_OK)
        s = cli_settings(cli, &err);
    if (s == HOWDAH_OK)
        s = take_payload(cli, &r, &err);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s == HOWDAH_OK)
        s = correct(cli, &r, &err);
    hw_buf_done(&r.headers);
    hw_buf_done(&r.room);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
