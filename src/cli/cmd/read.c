/* read.c - howdah read. */
#include <string.h>

#include "cli/cli.h"
#include "cli/cmd/read.h"
#include "cli/out/events.h"

typedef struct request {
    howdah_reader_options options;
    const char *id; /* --id */
    bool last;      /* --last */
    bool nothing;   /* a range or a limit that leaves no event */
} request;

/* --from, --to, --since: in the library 0 means "open", here it is a position like any other. */
static int parse_range(const cli_args *args, request *r, howdah_error *reterr)
{
    int64_t since = 0;
    int64_t to = HOWDAH_ABSENT;
    int s = cli_args_number(args, "from", 0, INT64_MAX, &r->options.from, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_number(args, "to", 0, INT64_MAX, &to, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "since", 0, INT64_MAX, &since, reterr);
    if (s < 0)
        return s;
    if (cli_args_has(args, "since")) {
        if (cli_args_has(args, "from"))
            return hw_fail(reterr, HOWDAH_MISUSE, "--since and --from exclude each other");
        r->nothing = since == INT64_MAX;
        r->options.from = r->nothing ? since : since + 1;
    }
    if (to != HOWDAH_ABSENT) {
        r->nothing = r->nothing || to == 0 || to < r->options.from;
        r->options.to = to;
    }
    return HOWDAH_OK;
}

static bool any_of(const cli_args *args, const char *const *names)
{
    for (; *names; names++)
        if (cli_args_has(args, *names))
            return true;
    return false;
}

/* --id and --last name one event, so nothing else may choose. */
static int check_combination(const cli_args *args, const request *r, howdah_error *reterr)
{
    static const char *const choosing[] = {"from", "to",          "since",    "limit", "pattern",
                                           "type", "correlation", "backward", NULL};

    if (r->last && !r->options.stream)
        return hw_fail(reterr, HOWDAH_MISUSE, "--last needs --stream");
    if (r->id && (r->options.stream || any_of(args, choosing)))
        return hw_fail(reterr, HOWDAH_MISUSE, "--id names one event: no other choice beside it");
    if (r->last && any_of(args, choosing))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "--last names one event: no other choice beside --stream");
    return HOWDAH_OK;
}

static int parse_request(const cli_args *args, request *r, howdah_error *reterr)
{
    int64_t limit = HOWDAH_ABSENT;
    int s;

    *r = (request){HOWDAH_READER_OPTIONS_INIT, NULL, false, false};
    r->options.stream = cli_args_text(args, "stream");
    r->options.type = cli_args_text(args, "type");
    r->options.pattern = cli_args_text(args, "pattern");
    r->options.correlation_id = cli_args_text(args, "correlation");
    r->options.backward = cli_args_has(args, "backward");
    r->id = cli_args_text(args, "id");
    r->last = cli_args_has(args, "last");
    s = cli_args_words(args, 0, 0, reterr);
    if (s == HOWDAH_OK)
        s = parse_range(args, r, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_number(args, "limit", 0, INT64_MAX, &limit, reterr);
    if (s < 0)
        return s;
    if (limit != HOWDAH_ABSENT)
        r->options.limit = limit;
    r->nothing = r->nothing || limit == 0;
    return check_combination(args, r, reterr);
}

static int read_one(cli_context *cli, const request *r, cli_events *events, howdah_error *reterr)
{
    howdah_event *event = NULL;
    int s = r->id ? howdah_event_get(cli->bus, r->id, &event, reterr)
                  : howdah_event_get_last(cli->bus, r->options.stream, &event, reterr);

    if (s < 0)
        return s;
    s = cli_events_show(events, event, reterr);
    howdah_event_free(event);
    return s;
}

static int read_many(cli_context *cli, const request *r, cli_events *events, howdah_error *reterr)
{
    howdah_reader *reader = NULL;
    const howdah_event *event;
    int s = howdah_reader_open(cli->bus, &r->options, &reader, reterr);

    /* An empty range is opened too: names and patterns get the same verdict as any other. */
    while (s == HOWDAH_OK && !r->nothing && cli_out_alive(&cli->out)) {
        s = howdah_reader_next(reader, &event, reterr);
        if (s == HOWDAH_OK)
            s = cli_events_put(events, event, reterr);
    }
    howdah_reader_close(reader);
    return s < 0 ? s : HOWDAH_OK;
}

int cmd_read(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    cli_events events;
    request r;
    int s;

    (void)argc;
    (void)argv;
    if (cli_query_wanted(&cli->args))
        return cli_query_run(cli, &err) < 0 ? cli_fail(cli, &err) : 0;
    s = parse_request(&cli->args, &r, &err);
    if (s == HOWDAH_OK)
        s = cli_open(cli, &err);
    if (s < 0)
        return cli_fail(cli, &err);
    cli_events_init(&events, &cli->out, false);
    s = r.id || r.last ? read_one(cli, &r, &events, &err) : read_many(cli, &r, &events, &err);
    cli_events_flush(&events);
    if (s == HOWDAH_OK && events.count == 0 && !cli->out.json)
        cli_note(cli, "no events");
    cli_events_done(&events);
    return s < 0 ? cli_fail(cli, &err) : 0;
}
