/*
 * read_query.c - howdah read with a question about the two times: as-of, revisions, headers, spans,
 * other orders, counts, types and streams.
 *
 * What an answer is worth is asked for before its first row is read.  With --known-at it stands in
 * each line as "final", and a message tells when it is not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cmd/read.h"
#include "cli/out/events.h"
#include "cli/out/fields.h"
#include "cli/out/times.h"

static const char *const as_of_options[] = {"valid-at", "known-at", "current", NULL};
/* The forms of the answer other than events. */
static const char *const forms[] = {"count", "stats", "streams", NULL};

typedef struct lookup {
    cli_context *cli;
    howdah_query_options options;
    cli_pairs headers;
    bool nothing;               /* --limit 0 */
    howdah_knowledge knowledge; /* of --known-at, */
    const char *tail;           /* as the last field of a line; "" without */
} lookup;

/* ------------------------------------------------------------------ options */

/* The first of the names that is given; NULL: none. */
static const char *given_of(const cli_args *args, const char *const *names)
{
    for (; *names; names++)
        if (cli_args_has(args, *names))
            return *names;
    return NULL;
}

/* The first option that makes it a question; NULL: none does. */
static const char *query_of(const cli_args *args)
{
    static const char *const names[] = {
        "versions",     "originals",     "causation",       "header", "valid-from",
        "valid-before", "recorded-from", "recorded-before", "order",  NULL};

    const char *given = given_of(args, as_of_options);

    if (!given)
        given = given_of(args, forms);
    return given ? given : given_of(args, names);
}

bool cli_query_wanted(const cli_args *args)
{
    return query_of(args) != NULL;
}

static int fail_both(const char *one, const char *other, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_MISUSE, "--%s and --%s exclude each other", one, other);
}

static int check_positions(const cli_args *args, howdah_error *reterr)
{
    static const char *const positions[] = {"from", "to", "since", "id", "last", NULL};
    const char *given = given_of(args, positions);
    int s;

    if (!given)
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_MISUSE, "--%s goes without --%s", given, query_of(args));
    if (strcmp(given, "id") == 0)
        return hw_advise(reterr, s, "--versions UUID shows all revisions of that event");
    if (strcmp(given, "last") == 0)
        return given_of(args, forms) ? s : hw_advise(reterr, s, "--backward --limit 1 gives it");
    return hw_advise(reterr, s, "--recorded-from and --recorded-before choose by time");
}

/* --versions names all there is to see. */
static int check_versions(const cli_args *args, howdah_error *reterr)
{
    static const char *const others[] = {"stream",        "type",
                                         "pattern",       "correlation",
                                         "valid-at",      "known-at",
                                         "current",       "originals",
                                         "causation",     "header",
                                         "valid-from",    "valid-before",
                                         "recorded-from", "recorded-before",
                                         "order",         "stats",
                                         "streams",       NULL};
    const char *given = given_of(args, others);

    if (!given || !cli_args_has(args, "versions"))
        return HOWDAH_OK;
    return hw_advise(reterr, fail_both("versions", given, reterr),
                     "--versions prints every revision of one event; --backward, --limit and "
                     "--count go with it");
}

static int check_forms(const cli_args *args, howdah_error *reterr)
{
    static const char *const of_types[] = {"order", "backward", "limit", NULL};
    static const char *const of_streams[] = {"order", "backward", NULL};
    const char *form = given_of(args, forms);
    const char *given = NULL;

    if (!form)
        return HOWDAH_OK;
    for (size_t i = 0; forms[i]; i++)
        if (cli_args_has(args, forms[i]) && strcmp(forms[i], form) != 0)
            return fail_both(form, forms[i], reterr);
    if (strcmp(form, "stats") == 0)
        given = given_of(args, of_types);
    else if (strcmp(form, "streams") == 0)
        given = given_of(args, of_streams);
    return given ? fail_both(form, given, reterr) : HOWDAH_OK;
}

static int check_combination(const cli_args *args, howdah_error *reterr)
{
    const char *as_of = given_of(args, as_of_options);
    int s = cli_args_words(args, 0, 0, reterr);

    if (s == HOWDAH_OK)
        s = check_positions(args, reterr);
    if (s == HOWDAH_OK)
        s = check_versions(args, reterr);
    if (s == HOWDAH_OK && as_of && cli_args_has(args, "originals"))
        s = fail_both("originals", as_of, reterr);
    if (s == HOWDAH_OK && cli_args_has(args, "current") && cli_args_has(args, "known-at"))
        s = fail_both("current", "known-at", reterr);
    return s == HOWDAH_OK ? check_forms(args, reterr) : s;
}

static int take_times(const cli_args *args, howdah_query_options *o, howdah_error *reterr)
{
    const struct {
        const char *option;
        int64_t *time_us;
    } times[] = {
        {"valid-at", &o->valid_at_us},           {"known-at", &o->known_at_us},
        {"valid-from", &o->valid_from_us},       {"valid-before", &o->valid_before_us},
        {"recorded-from", &o->recorded_from_us}, {"recorded-before", &o->recorded_before_us},
    };

    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int s = cli_args_time(args, times[i].option, times[i].time_us, reterr);

        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/* The choices of --order stand in the order of the library's values. */
static int take_numbers(const cli_args *args, lookup *q, howdah_error *reterr)
{
    int order = (int)q->options.order;
    int64_t limit = HOWDAH_ABSENT;
    int s = cli_args_choice(args, "order", &order, reterr);

    if (s == HOWDAH_OK)
        s = cli_args_number(args, "limit", 0, INT64_MAX, &limit, reterr);
    q->options.order = (howdah_order)order;
    q->nothing = limit == 0;
    if (limit != HOWDAH_ABSENT)
        q->options.limit = limit;
    return s;
}

static int take_query(lookup *q, howdah_error *reterr)
{
    const cli_args *args = &q->cli->args;
    howdah_query_options *o = &q->options;
    int s = check_combination(args, reterr);

    if (s == HOWDAH_OK)
        s = take_times(args, o, reterr);
    if (s == HOWDAH_OK)
        s = take_numbers(args, q, reterr);
    if (s == HOWDAH_OK)
        s = cli_pairs_take(args, &q->headers, reterr);
    if (given_of(args, as_of_options))
        o->view = HOWDAH_VIEW_AS_OF;
    else if (cli_args_has(args, "originals"))
        o->view = HOWDAH_VIEW_ORIGINALS;
    o->stream = cli_args_text(args, "stream");
    o->type = cli_args_text(args, "type");
    o->pattern = cli_args_text(args, "pattern");
    o->correlation_id = cli_args_text(args, "correlation");
    o->causation_id = cli_args_text(args, "causation");
    o->family = cli_args_text(args, "versions");
    o->headers = q->headers.texts;
    o->headers_n = q->headers.n;
    o->backward = cli_args_has(args, "backward");
    return s;
}

/* ------------------------------------------------------------------ answers */

static void take_knowledge(lookup *q, const howdah_reader *reader)
{
    howdah_reader_knowledge(reader, &q->knowledge);
    if (q->options.known_at_us != HOWDAH_NO_TIME)
        q->tail = q->knowledge.final ? ",\"final\":true" : ",\"final\":false";
}

static int print_history(lookup *q, howdah_reader *reader, howdah_error *reterr)
{
    cli_history history = {.out = &q->cli->out, .backward = q->options.backward};
    const howdah_event *event;
    int s = HOWDAH_OK;

    while (s == HOWDAH_OK && !q->nothing && cli_out_alive(&q->cli->out)) {
        s = howdah_reader_next(reader, &event, reterr);
        if (s == HOWDAH_OK)
            s = cli_history_put(&history, event, reterr);
    }
    cli_history_end(&history);
    return s < 0 ? s : HOWDAH_OK;
}

static int print_events(lookup *q, howdah_reader *reader, howdah_error *reterr)
{
    cli_events events;
    const howdah_event *event;
    int s = HOWDAH_OK;

    cli_events_init_times(&events, &q->cli->out);
    events.tail = q->tail;
    while (s == HOWDAH_OK && !q->nothing && cli_out_alive(&q->cli->out)) {
        s = howdah_reader_next(reader, &event, reterr);
        if (s == HOWDAH_OK)
            s = cli_events_put(&events, event, reterr);
    }
    cli_events_flush(&events);
    if (s >= 0 && events.count == 0 && !q->cli->out.json)
        cli_note(q->cli, "no events");
    cli_events_done(&events);
    return s < 0 ? s : HOWDAH_OK;
}

static int answer_events(lookup *q, howdah_error *reterr)
{
    howdah_reader *reader = NULL;
    int s = howdah_query_open(q->cli->bus, &q->options, &reader, reterr);

    if (s < 0)
        return s;
    take_knowledge(q, reader);
    if (q->options.family && !q->cli->out.json)
        s = print_history(q, reader, reterr);
    else
        s = print_events(q, reader, reterr);
    howdah_reader_close(reader);
    return s;
}

static int answer_count(lookup *q, howdah_error *reterr)
{
    int64_t count = 0;
    char text[CLI_COUNT_SIZE];
    int s = howdah_query_count(q->cli->bus, &q->options, &count, &q->knowledge, reterr);

    if (s < 0)
        return s;
    if (q->nothing)
        count = 0;
    if (q->options.known_at_us != HOWDAH_NO_TIME)
        q->tail = q->knowledge.final ? ",\"final\":true" : ",\"final\":false";
    cli_count_text(count, text);
    if (q->cli->out.json)
        cli_out_printf(&q->cli->out, "{\"count\":%" PRId64 "%s}\n", count, q->tail);
    else
        cli_out_printf(&q->cli->out, "%s event%s\n", text, count == 1 ? "" : "s");
    return HOWDAH_OK;
}

/* Types and streams come without it: a reader of the same question is asked, before them. */
static int ask_knowledge(lookup *q, howdah_error *reterr)
{
    howdah_query_options o = q->options;
    howdah_reader *reader = NULL;
    int s;

    if (o.known_at_us == HOWDAH_NO_TIME)
        return HOWDAH_OK;
    o.limit = 1;
    s = howdah_query_open(q->cli->bus, &o, &reader, reterr);
    if (s < 0)
        return s;
    take_knowledge(q, reader);
    howdah_reader_close(reader);
    return HOWDAH_OK;
}

#define AT(member) CLI_AT(howdah_type_stats, member)

static const cli_field type_fields[] = {
    {"type", CLI_TEXT, .style = CLI_CYAN, AT(type)},
    {"events", CLI_COUNT, AT(events)},
    {"corrections", CLI_COUNT, AT(corrections)},
    {"retractions", CLI_COUNT, AT(retractions)},
    {"streams", CLI_COUNT, AT(streams)},
    {"first_valid_time", CLI_DAY, .head = "valid from", .style = CLI_DIM, AT(first_valid_us)},
    {"last_valid_time", CLI_DAY, .head = "to", .style = CLI_DIM, AT(last_valid_us)},
    {"first_recorded_at", CLI_TIME, AT(first_recorded_us)},
    {"last_recorded_at", CLI_TIME, AT(last_recorded_us)},
    {NULL},
};

static const cli_entity type_entity = {
    type_fields,
    .json = "type events corrections retractions streams first_valid_time last_valid_time "
            "first_recorded_at last_recorded_at",
    .table = "type events corrections retractions streams first_valid_time last_valid_time",
};

static int on_type(void *ctx, const howdah_type_stats *stats)
{
    return cli_list_put(ctx, stats);
}

/* A stream is its name. */
static void get_stream(const void *thing, cli_value *v)
{
    v->text = hw_str_of(thing);
}

static const cli_field stream_fields[] = {
    {"stream", CLI_TEXT, .get = get_stream},
    {NULL},
};

static const cli_entity stream_entity = {stream_fields, .json = "stream", .table = "stream"};

static int on_stream(void *ctx, const char *stream)
{
    return cli_list_put(ctx, stream);
}

/* --stats and --streams: what the events that were asked for have in common. */
static int answer_list(lookup *q, bool types, howdah_error *reterr)
{
    cli_list list;
    int s = ask_knowledge(q, reterr);

    cli_list_begin(&list, q->cli, types ? &type_entity : &stream_entity);
    list.tail = q->tail;
    if (s == HOWDAH_OK && types)
        s = howdah_query_types(q->cli->bus, &q->options, on_type, &list, reterr);
    else if (s == HOWDAH_OK && !q->nothing)
        s = howdah_query_streams(q->cli->bus, &q->options, on_stream, &list, reterr);
    cli_list_end(&list, s, "no events");
    return s;
}

static int answer(lookup *q, howdah_error *reterr)
{
    const cli_args *args = &q->cli->args;

    if (cli_args_has(args, "count"))
        return answer_count(q, reterr);
    if (cli_args_has(args, "stats") || cli_args_has(args, "streams"))
        return answer_list(q, cli_args_has(args, "stats"), reterr);
    return answer_events(q, reterr);
}

int cli_query_run(cli_context *cli, howdah_error *reterr)
{
    lookup q = {.cli = cli,
                .options = HOWDAH_QUERY_OPTIONS_INIT,
                .knowledge = HOWDAH_KNOWLEDGE_INIT,
                .tail = ""};
    int s = take_query(&q, reterr);

    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = answer(&q, reterr);
    if (s >= 0) {
        cli_out_flush(&cli->out); /* the remark stands behind what it is about */
        cli_knowledge_note(cli, &q.knowledge);
    }
    cli_pairs_done(&q.headers);
    return s;
}
