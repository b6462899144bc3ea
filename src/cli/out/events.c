/* events.c - see events.h. */
#include "cli/out/events.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/fields.h"
#include "face/events.h"

#define LINE_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any event the library can make */
#define YEAR_WIDTH 100u                            /* a terminal this wide shows the year */
#define SECONDS_WIDTH 70u                          /* and this wide, more than the day */

/* ------------------------------------------------------------------- fields */

FACE_GET_NUMBER(sequence, howdah_event_global_sequence)
FACE_GET_NUMBER(version, howdah_event_version)
FACE_GET_NUMBER(revision, howdah_event_revision)
FACE_GET_NUMBER(schema_version, howdah_event_schema_version)
FACE_GET_TEXT(stream, howdah_event_stream)
FACE_GET_TEXT(type, howdah_event_type)
FACE_GET_TEXT(correlation, howdah_event_correlation)
FACE_GET_TEXT(actor, howdah_event_actor)
FACE_GET_TIME(recorded_at, howdah_event_recorded_at)
FACE_GET_TIME(valid_time, howdah_event_valid_time)

/* Texts that the library writes go into the value's own room. */
static void get_id(const void *thing, face_value *v)
{
    howdah_event_id(thing, v->small);
    v->text = hw_str_of(v->small);
}

static void get_causation(const void *thing, face_value *v)
{
    if (howdah_event_causation(thing, v->small))
        v->text = hw_str_of(v->small);
}

/* About revisions there is nothing to say of an event that was never corrected. */
static bool is_corrected(const void *thing)
{
    return howdah_event_revision(thing) > 1;
}

static void get_shown_revision(const void *thing, face_value *v)
{
    v->number = howdah_event_revision(thing);
    v->absent = !is_corrected(thing);
}

static void get_family(const void *thing, face_value *v)
{
    howdah_event_family(thing, v->small);
    v->text = is_corrected(thing) ? hw_str_of(v->small) : HW_STR_NULL;
}

static void get_corrects(const void *thing, face_value *v)
{
    if (is_corrected(thing) && howdah_event_corrects(thing, v->small))
        v->text = hw_str_of(v->small);
}

static void get_reason(const void *thing, face_value *v)
{
    v->text = is_corrected(thing) ? hw_str_of(howdah_event_reason(thing)) : HW_STR_NULL;
}

static void get_headers(const void *thing, face_value *v)
{
    size_t len = 0;
    const char *headers = howdah_event_headers(thing, &len);

    face_value_headers(v, headers, len);
}

/* "01-31 09:30:00": where there is little width. */
static void get_recorded_short(const void *thing, face_value *v)
{
    cli_event_moment(thing, false, v->small);
    v->text = hw_str_of(v->small);
}

static void get_payload(const void *thing, face_value *v)
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
static void get_marked_payload(const void *thing, face_value *v)
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

static const face_field event_fields[] = {
    {"global_sequence", FACE_NUMBER, "sequence", "seq", FACE_ASIDE, .get = get_sequence},
    {"event_id", FACE_TEXT, "id", .get = get_id},
    {"stream", FACE_TEXT, .get = get_stream},
    {"version", FACE_NUMBER, "version", "ver", FACE_ASIDE, .get = get_version},
    {"type", FACE_TEXT, .style = FACE_NAME, .get = get_type},
    {"recorded_at", FACE_MOMENT, "recorded at", "recorded (UTC)", FACE_ASIDE,
     .get = get_recorded_at},
    {"recorded_short", FACE_WORD, NULL, "recorded (UTC)", FACE_ASIDE, .get = get_recorded_short},
    {"valid_time", FACE_MOMENT, "valid time", "valid (UTC)", .get = get_valid_time},
    {"valid_day", FACE_DAY, .head = "valid (UTC)", .get = get_valid_time},
    {"revision", FACE_NUMBER, .head = "rev", .style = FACE_ASIDE, .get = get_revision},
    {"shown_revision", FACE_NUMBER, "revision", .get = get_shown_revision},
    {"family", FACE_TEXT, .get = get_family},
    {"corrects", FACE_TEXT, .get = get_corrects},
    {"reason", FACE_TEXT, .get = get_reason},
    {"correlation_id", FACE_TEXT, "correlation", .get = get_correlation},
    {"causation_id", FACE_TEXT, "causation", .get = get_causation},
    {"actor", FACE_TEXT, .get = get_actor},
    {"headers", FACE_TEXT, .get = get_headers},
    {"schema_version", FACE_NUMBER, "schema version", .get = get_schema_version},
    {"payload", FACE_TEXT, "data", .get = get_payload},
    {"marked_payload", FACE_TEXT, .head = "data", .get = get_marked_payload},
    {.name = NULL},
};

/* A line of JSON is the library's own: face_event_json(). */
static const face_entity event_entity = {
    event_fields,
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
    size_t n = cli_fields_columns(event_fields, names, columns);
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
        cli_fields_row(&events->table, event_fields, events->columns, event);
        return HOWDAH_OK;
    }
    hw_buf_clear(&events->line);
    s = face_event_json(event, &events->line, reterr);
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
