/* events.c - see events.h. */
#include "cli/out/events.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/fields.h"

#define LINE_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any event the library can make */
#define YEAR_WIDTH 100u                            /* a terminal this wide shows the year */
#define SECONDS_WIDTH 70u                          /* and this wide, more than the day */

/* ------------------------------------------------------------------- fields */

/* An event is opaque: each of its fields comes from a function of the library. */
#define EVENT_TEXT(name, function)                                                                 \
    static void get_##name(const void *thing, cli_value *v)                                        \
    {                                                                                              \
        v->text = hw_str_of(function(thing));                                                      \
    }
#define EVENT_NUMBER(name, function)                                                               \
    static void get_##name(const void *thing, cli_value *v)                                        \
    {                                                                                              \
        v->number = function(thing);                                                               \
    }
#define EVENT_TIME(name, function)                                                                 \
    static void get_##name(const void *thing, cli_value *v)                                        \
    {                                                                                              \
        v->absent = !function(thing, &v->number);                                                  \
    }

EVENT_NUMBER(sequence, howdah_event_global_sequence)
EVENT_NUMBER(version, howdah_event_version)
EVENT_NUMBER(revision, howdah_event_revision)
EVENT_NUMBER(schema_version, howdah_event_schema_version)
EVENT_TEXT(stream, howdah_event_stream)
EVENT_TEXT(type, howdah_event_type)
EVENT_TEXT(correlation, howdah_event_correlation)
EVENT_TEXT(actor, howdah_event_actor)
EVENT_TIME(recorded_at, howdah_event_recorded_at)
EVENT_TIME(valid_time, howdah_event_valid_time)

/* Texts that the library writes go into the value's own room. */
static void get_id(const void *thing, cli_value *v)
{
    howdah_event_id(thing, v->small);
    v->text = hw_str_of(v->small);
}

static void get_causation(const void *thing, cli_value *v)
{
    if (howdah_event_causation(thing, v->small))
        v->text = hw_str_of(v->small);
}

/* About revisions there is nothing to say of an event that was never corrected. */
static bool is_corrected(const void *thing)
{
    return howdah_event_revision(thing) > 1;
}

static void get_shown_revision(const void *thing, cli_value *v)
{
    v->number = howdah_event_revision(thing);
    v->absent = !is_corrected(thing);
}

static void get_family(const void *thing, cli_value *v)
{
    howdah_event_family(thing, v->small);
    v->text = is_corrected(thing) ? hw_str_of(v->small) : HW_STR_NULL;
}

static void get_corrects(const void *thing, cli_value *v)
{
    if (is_corrected(thing) && howdah_event_corrects(thing, v->small))
        v->text = hw_str_of(v->small);
}

static void get_reason(const void *thing, cli_value *v)
{
    v->text = is_corrected(thing) ? hw_str_of(howdah_event_reason(thing)) : HW_STR_NULL;
}

static void get_headers(const void *thing, cli_value *v)
{
    size_t len = 0;
    const char *headers = howdah_event_headers(thing, &len);

    cli_value_headers(v, headers, len);
}

/* "01-31 09:30:00": where there is little width. */
static void get_recorded_short(const void *thing, cli_value *v)
{
    cli_event_moment(thing, false, v->small);
    v->text = hw_str_of(v->small);
}

static void get_payload(const void *thing, cli_value *v)
{
    char room[128];
    hw_str payload = cli_event_payload(thing, room, sizeof room);

    if (payload.s == room)
        hw_buf_put(&v->room, payload.s, payload.len);
    else
        v->text = payload;
}

/*
 * The payload, after "(rev 2)" when it is a correction: in the last column, so that live widths,
 * which are fixed before any row is seen, hold.
 */
static void get_marked_payload(const void *thing, cli_value *v)
{
    char room[128];
    hw_str payload;

    if (!is_corrected(thing)) {
        get_payload(thing, v);
        return;
    }
    payload = cli_event_payload(thing, room, sizeof room);
    hw_buf_printf(&v->room, "(rev %d) ", (int)howdah_event_revision(thing));
    hw_buf_put(&v->room, payload.s, payload.len);
}

static void get_data(const void *thing, cli_value *v)
{
    size_t len = 0;
    const char *data = howdah_event_data(thing, &len);

    cli_value_data(v, howdah_event_content_type(thing), data, len);
}

static void get_content_type(const void *thing, cli_value *v)
{
    size_t len = 0;

    cli_value_content_type(v, howdah_event_content_type(thing), howdah_event_data(thing, &len));
}

static void get_base64(const void *thing, cli_value *v)
{
    size_t len = 0;
    const char *data = howdah_event_data(thing, &len);

    cli_value_base64(v, howdah_event_content_type(thing), data, len);
}

const cli_field cli_event_fields[] = {
    {"global_sequence", CLI_NUMBER, "sequence", "seq", CLI_DIM, .get = get_sequence},
    {"event_id", CLI_TEXT, "id", .get = get_id},
    {"stream", CLI_TEXT, .get = get_stream},
    {"version", CLI_NUMBER, "version", "ver", CLI_DIM, .get = get_version},
    {"type", CLI_TEXT, .style = CLI_CYAN, .get = get_type},
    {"recorded_at", CLI_MOMENT, "recorded at", "recorded (UTC)", CLI_DIM, .get = get_recorded_at},
    {"recorded_short", CLI_WORD, NULL, "recorded (UTC)", CLI_DIM, .get = get_recorded_short},
    {"valid_time", CLI_MOMENT, "valid time", "valid (UTC)", .get = get_valid_time},
    {"valid_day", CLI_DAY, .head = "valid (UTC)", .get = get_valid_time},
    {"revision", CLI_NUMBER, .head = "rev", .style = CLI_DIM, .get = get_revision},
    {"shown_revision", CLI_NUMBER, "revision", .get = get_shown_revision},
    {"family", CLI_TEXT, .get = get_family},
    {"corrects", CLI_TEXT, .get = get_corrects},
    {"reason", CLI_TEXT, .get = get_reason},
    {"correlation_id", CLI_TEXT, "correlation", .get = get_correlation},
    {"causation_id", CLI_TEXT, "causation", .get = get_causation},
    {"actor", CLI_TEXT, .get = get_actor},
    {"headers", CLI_TEXT, .get = get_headers},
    {"schema_version", CLI_NUMBER, "schema version", .get = get_schema_version},
    {"payload", CLI_TEXT, "data", .get = get_payload},
    {"marked_payload", CLI_TEXT, .head = "data", .get = get_marked_payload},
    {"data", CLI_JSON, .get = get_data},
    {"content_type", CLI_TEXT, .get = get_content_type},
    {"data_base64", CLI_JSON, .get = get_base64},
    {.name = NULL},
};

/* A line of JSON is the library's own, cli_event_json(): the same in every face. */
static const cli_entity event_entity = {
    cli_event_fields,
    .show = "global_sequence event_id stream version type recorded_at valid_time shown_revision "
            "family corrects reason correlation_id causation_id actor headers schema_version "
            "payload",
};

/* ------------------------------------------------------------------- tables */

/* Names of columns, chosen once by the width of the terminal. */
static const char *columns_of(const cli_out *out)
{
    return out->width >= YEAR_WIDTH
               ? "global_sequence recorded_at stream version type marked_payload"
               : "global_sequence recorded_short stream version type marked_payload";
}

/*
 * Without room for both times the recorded one goes: the order tells most of it.  A valid time is
 * often of another year than its neighbours, so it has its year, and where there is little width
 * only the day.
 */
static const char *columns_of_times(const cli_out *out)
{
    if (out->width < SECONDS_WIDTH)
        return "global_sequence valid_day stream revision type payload";
    if (out->width < YEAR_WIDTH)
        return "global_sequence valid_time stream revision type payload";
    return "recorded_at global_sequence valid_time stream revision type payload";
}

/* Live widths are fixed before the first row, from the terminal's width alone. */
static void widen_live(const cli_out *out, cli_column columns[CLI_COLUMNS_MAX])
{
    assert(strcmp(columns[4].head, "type") == 0); /* the order of columns_of() */
    columns[0].width_min = 6;
    columns[2].width_min = out->width / 5;
    columns[3].width_min = 4;
    columns[4].width_min = out->width / 5;
}

/* A screen of rows decides the widths; live, the first row must not wait for others. */
static void init(cli_events *events, cli_out *out, const char *names, bool live)
{
    cli_column columns[CLI_COLUMNS_MAX];
    size_t n = cli_fields_columns(cli_event_fields, names, columns);
    size_t screen = out->height > 3 ? out->height - 2 : 1;

    events->out = out;
    events->line = (hw_buf)HW_BUF_INIT(LINE_BYTES_MAX);
    events->count = 0;
    events->columns = names;
    events->tail = "";
    if (live)
        widen_live(out, columns);
    cli_table_init(&events->table, out, columns, n, live ? 1 : screen);
}

void cli_events_init(cli_events *events, cli_out *out, bool live)
{
    init(events, out, columns_of(out), live);
}

void cli_events_init_times(cli_events *events, cli_out *out)
{
    init(events, out, columns_of_times(out), false);
}

void cli_events_done(cli_events *events)
{
    hw_buf_done(&events->line);
    cli_table_done(&events->table);
}

void cli_events_flush(cli_events *events)
{
    cli_table_flush(&events->table);
    cli_out_flush(events->out);
}

/* In the buffer's present room first: most events fit, and need no second pass. */
int cli_event_json(const howdah_event *event, hw_buf *buf, howdah_error *reterr)
{
    size_t len;

    hw_buf_clear(buf);
    len = howdah_event_json(event, buf->data, buf->room);
    if (len > 0 && len >= buf->room && hw_buf_reserve(buf, len + 1))
        len = howdah_event_json(event, buf->data, buf->room);
    if (len == 0 || len >= buf->room)
        return hw_fail_no_memory(reterr);
    buf->len = len;
    return HOWDAH_OK;
}

/* Fixed places: RFC 3339 in UTC always has the same width. */
void cli_event_moment(const howdah_event *event, bool with_year, char ret_text[CLI_MOMENT_SIZE])
{
    char text[HOWDAH_TIME_SIZE];
    int64_t at_us;

    ret_text[0] = '\0';
    if (!howdah_event_recorded_at(event, &at_us))
        return;
    howdah_time_format(at_us, text);
    text[10] = ' ';
    text[19] = '\0'; /* no fraction */
    memcpy(ret_text, with_year ? text : text + 5, with_year ? 20 : 15);
}

hw_str cli_event_payload(const howdah_event *event, char *room, size_t room_n)
{
    const char *type = howdah_event_content_type(event);
    size_t len;
    const char *data = howdah_event_data(event, &len);
    char count[CLI_COUNT_SIZE];

    if (howdah_event_is_purged(event))
        return HW_STR_LIT("(purged)");
    if (howdah_event_is_retraction(event))
        return HW_STR_LIT("(retracted)");
    if (!type)
        return (hw_str){data, len};
    cli_count_text((long long)len, count);
    (void)snprintf(room, room_n, "(%.80s, %s bytes)", type, count);
    return hw_str_of(room);
}

/* The object is closed here, so that a tail can be put before the brace. */
int cli_events_put(cli_events *events, const howdah_event *event, howdah_error *reterr)
{
    int s;

    events->count++;
    if (!events->out->json) {
        cli_fields_row(&events->table, cli_event_fields, events->columns, event);
        return HOWDAH_OK;
    }
    s = cli_event_json(event, &events->line, reterr);
    if (s < 0)
        return s;
    assert(events->line.data[events->line.len - 1] == '}');
    cli_out_put(events->out, events->line.data, events->line.len - 1);
    cli_out_puts(events->out, events->tail);
    cli_out_puts(events->out, "}\n");
    return HOWDAH_OK;
}

int cli_events_show(cli_events *events, const howdah_event *event, howdah_error *reterr)
{
    if (events->out->json)
        return cli_events_put(events, event, reterr);
    events->count++;
    cli_entity_show(events->out, &event_entity, event);
    return HOWDAH_OK;
}
