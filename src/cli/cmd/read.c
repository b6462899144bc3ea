/*
 * read.c - howdah read: events, counts, types and streams.
 *
 * What an answer is worth is asked for before its first row is read.  With --known-at it stands in
 * each line as "final", and a message tells when it is not.
 */
#include "cli/cmd/read.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/out/events.h"
#include "cli/out/fields.h"

typedef struct lookup {
    cli_context *cli;
    cli_read read;
    howdah_knowledge knowledge; /* of --known-at, */
    const char *tail;           /* as the last field of a line; "" without */
} lookup;

/* Only --known-at has an answer that can be final; any other is of now. */
static void take_tail(lookup *q)
{
    if (q->read.query.known_at_us != HOWDAH_NO_TIME)
        q->tail = q->knowledge.final ? ",\"final\":true" : ",\"final\":false";
}

/* ------------------------------------------------------------------- events */

/* Revisions of one event, for people: what each of them changed. */
static int print_history(lookup *q, howdah_reader *reader, howdah_error *reterr)
{
    cli_history history = {.out = &q->cli->out, .backward = q->read.query.backward};
    const howdah_event *event;
    int s = HOWDAH_OK;

    while (s == HOWDAH_OK && !q->read.nothing && cli_out_alive(&q->cli->out)) {
        s = howdah_reader_next(reader, &event, reterr);
        if (s == HOWDAH_OK)
            s = cli_history_put(&history, event, reterr);
    }
    cli_history_end(&history);
    return s < 0 ? s : HOWDAH_OK;
}

/* A query shows both times; a read by position shows versions. */
static int print_events(lookup *q, howdah_reader *reader, howdah_error *reterr)
{
    cli_events events;
    const howdah_event *event;
    int s = HOWDAH_OK;

    if (q->read.is_query)
        cli_events_init_times(&events, &q->cli->out);
    else
        cli_events_init(&events, &q->cli->out, false);
    events.tail = q->tail;
    while (s == HOWDAH_OK && !q->read.nothing && cli_out_alive(&q->cli->out)) {
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

/* A plain read shares its choices with a query, and has a range instead of times. */
static int open_positions(const lookup *q, howdah_reader **ret_reader, howdah_error *reterr)
{
    const howdah_query_options *from = &q->read.query;
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;

    assert(!from->family && from->view == HOWDAH_VIEW_LOG); /* those make it a query */
    o.stream = from->stream;
    o.type = from->type;
    o.pattern = from->pattern;
    o.correlation_id = from->correlation_id;
    o.from = q->read.from;
    o.to = q->read.to;
    o.limit = from->limit;
    o.backward = from->backward;
    return howdah_reader_open(q->cli->bus, &o, ret_reader, reterr);
}

/* A range that leaves nothing is opened too: names and patterns get the same verdict as any. */
static int answer_events(lookup *q, howdah_error *reterr)
{
    howdah_reader *reader = NULL;
    int s = q->read.is_query ? howdah_query_open(q->cli->bus, &q->read.query, &reader, reterr)
                             : open_positions(q, &reader, reterr);

    if (s < 0)
        return s;
    if (q->read.is_query) {
        howdah_reader_knowledge(reader, &q->knowledge);
        take_tail(q);
    }
    if (q->read.query.family && !q->cli->out.json)
        s = print_history(q, reader, reterr);
    else
        s = print_events(q, reader, reterr);
    howdah_reader_close(reader);
    return s;
}

/* In a terminal one event is shown in full, a line a field. */
static int answer_one(lookup *q, howdah_error *reterr)
{
    howdah_event *event = NULL;
    cli_events events;
    int s = q->read.id ? howdah_event_get(q->cli->bus, q->read.id, &event, reterr)
                       : howdah_event_get_last(q->cli->bus, q->read.query.stream, &event, reterr);

    if (s < 0)
        return s;
    cli_events_init(&events, &q->cli->out, false);
    s = cli_events_show(&events, event, reterr);
    cli_events_flush(&events);
    cli_events_done(&events);
    howdah_event_free(event);
    return s;
}

/* --------------------------------------------------- counts, types, streams */

/* --limit 0 counts nothing, but still checks names and patterns. */
static int answer_count(lookup *q, howdah_error *reterr)
{
    int64_t count = 0;
    char text[CLI_COUNT_SIZE];
    int s = howdah_query_count(q->cli->bus, &q->read.query, &count, &q->knowledge, reterr);

    if (s < 0)
        return s;
    if (q->read.nothing)
        count = 0;
    take_tail(q);
    cli_count_text(count, text);
    if (q->cli->out.json)
        cli_out_printf(&q->cli->out, "{\"count\":%" PRId64 "%s}\n", count, q->tail);
    else
        cli_out_printf(&q->cli->out, "%s event%s\n", text, count == 1 ? "" : "s");
    return HOWDAH_OK;
}

/* Types and streams come without it: a reader of the same query is asked, before them. */
static int ask_knowledge(lookup *q, howdah_error *reterr)
{
    howdah_query_options o = q->read.query;
    howdah_reader *reader = NULL;
    int s;

    if (o.known_at_us == HOWDAH_NO_TIME)
        return HOWDAH_OK;
    o.limit = 1;
    s = howdah_query_open(q->cli->bus, &o, &reader, reterr);
    if (s < 0)
        return s;
    howdah_reader_knowledge(reader, &q->knowledge);
    take_tail(q);
    howdah_reader_close(reader);
    return HOWDAH_OK;
}

#define AT(member) FACE_AT(howdah_type_stats, member)

static const face_field type_fields[] = {
    {"type", FACE_TEXT, .style = FACE_NAME, AT(type)},
    {"events", FACE_COUNT, AT(events)},
    {"corrections", FACE_COUNT, AT(corrections)},
    {"retractions", FACE_COUNT, AT(retractions)},
    {"streams", FACE_COUNT, AT(streams)},
    {"first_valid_time", FACE_DAY, .head = "valid from", .style = FACE_ASIDE, AT(first_valid_us)},
    {"last_valid_time", FACE_DAY, .head = "to", .style = FACE_ASIDE, AT(last_valid_us)},
    {"first_recorded_at", FACE_TIME, AT(first_recorded_us)},
    {"last_recorded_at", FACE_TIME, AT(last_recorded_us)},
    {.name = NULL},
};

static const face_entity type_entity = {
    type_fields,
    .json = "type events corrections retractions streams first_valid_time last_valid_time "
            "first_recorded_at last_recorded_at",
    .table = "type events corrections retractions streams first_valid_time last_valid_time",
};

/* The walk ends when nobody reads any more. */
static int on_type(void *ctx, const howdah_type_stats *stats)
{
    return cli_list_put(ctx, stats);
}

/* A stream is its name. */
static void get_stream(const void *thing, face_value *v)
{
    v->text = hw_str_of(thing);
}

static const face_field stream_fields[] = {
    {"stream", FACE_TEXT, .get = get_stream},
    {.name = NULL},
};

static const face_entity stream_entity = {stream_fields, .json = "stream", .table = "stream"};

static int on_stream(void *ctx, const char *stream)
{
    return cli_list_put(ctx, stream);
}

/* --stats and --streams: the types or the streams of the events that were asked for. */
static int answer_list(lookup *q, howdah_error *reterr)
{
    bool types = q->read.form == CLI_READ_TYPES;
    cli_list list;
    int s = ask_knowledge(q, reterr);

    cli_list_begin(&list, q->cli, types ? &type_entity : &stream_entity);
    list.tail = q->tail;
    if (s == HOWDAH_OK && types)
        s = howdah_types_walk(q->cli->bus, &q->read.query, on_type, &list, reterr);
    else if (s == HOWDAH_OK && !q->read.nothing)
        s = howdah_streams_walk(q->cli->bus, &q->read.query, on_stream, &list, reterr);
    cli_list_end(&list, s, "no events");
    return s;
}

/* -------------------------------------------------------------- the command */

/* The parser has seen to it that no two forms are asked for. */
static int answer(lookup *q, howdah_error *reterr)
{
    switch (q->read.form) {
    case CLI_READ_ONE:
        return answer_one(q, reterr);
    case CLI_READ_COUNT:
        return answer_count(q, reterr);
    case CLI_READ_TYPES:
    case CLI_READ_STREAMS:
        return answer_list(q, reterr);
    case CLI_READ_EVENTS:
        break;
    }
    return answer_events(q, reterr);
}

static int run(lookup *q, howdah_error *reterr)
{
    int s = cli_read_parse(&q->cli->args, &q->read, reterr);

    if (s == HOWDAH_OK)
        s = cli_open(q->cli, reterr);
    if (s == HOWDAH_OK)
        s = answer(q, reterr);
    if (s >= 0) {
        cli_out_flush(&q->cli->out); /* the note comes after what it is about */
        cli_knowledge_note(q->cli, &q->knowledge);
    }
    cli_read_done(&q->read);
    return s;
}

int cmd_read(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    lookup q = {.cli = cli, .knowledge = HOWDAH_KNOWLEDGE_INIT, .tail = ""};

    (void)argc;
    (void)argv;
    return run(&q, &err) < 0 ? cli_fail(cli, &err) : 0;
}
