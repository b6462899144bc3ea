/* events.c - see events.h. */
#include "cli/out/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/out/show.h"

#define LINE_BYTES_MAX ((size_t)512 * 1024 * 1024) /* above any event the library can make */
#define YEAR_WIDTH 100u                            /* a terminal this wide shows the year */
#define SECONDS_WIDTH 70u                          /* and this wide, more than the day */

static void init_table(cli_events *events, bool live)
{
    unsigned width = events->out->width;
    cli_column columns[] = {
        {"seq", CLI_DIM, true, true, live ? 6 : 0},
        {"recorded (UTC)", CLI_DIM, false, true, 0},
        {"stream", CLI_PLAIN, false, false, live ? width / 5 : 0},
        {"ver", CLI_DIM, true, true, live ? 4 : 0},
        {"type", CLI_CYAN, false, false, live ? width / 5 : 0},
        {"data", CLI_PLAIN, false, false, 0},
    };
    size_t rows = events->out->height > 3 ? events->out->height - 2 : 1;

    cli_table_init(&events->table, events->out, columns, sizeof columns / sizeof *columns,
                   live ? 1 : rows);
}

/* Without room for both times the recorded one goes: the order tells most of it. */
static void init_table_times(cli_events *events)
{
    static const cli_column columns[] = {
        {"recorded (UTC)", CLI_DIM, false, true, 0},
        {"seq", CLI_DIM, true, true, 0},
        {"valid (UTC)", CLI_PLAIN, false, true, 0},
        {"stream", CLI_PLAIN, false, false, 0},
        {"rev", CLI_DIM, true, true, 0},
        {"type", CLI_CYAN, false, false, 0},
        {"data", CLI_PLAIN, false, false, 0},
    };
    size_t rows = events->out->height > 3 ? events->out->height - 2 : 1;
    size_t left_out = events->out->width < YEAR_WIDTH;

    cli_table_init(&events->table, events->out, columns + left_out,
                   sizeof columns / sizeof *columns - left_out, rows);
}

static void init_common(cli_events *events, cli_out *out, bool times)
{
    events->out = out;
    events->line = (hw_buf)HW_BUF_INIT(LINE_BYTES_MAX);
    events->count = 0;
    events->times = times;
    events->tail = "";
}

void cli_events_init(cli_events *events, cli_out *out, bool live)
{
    init_common(events, out, false);
    init_table(events, live);
}

void cli_events_init_times(cli_events *events, cli_out *out)
{
    init_common(events, out, true);
    init_table_times(events);
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

static void moment(int64_t at_us, bool with_year, char ret_text[CLI_MOMENT_SIZE])
{
    char text[HOWDAH_TIME_SIZE];

    howdah_time_format(at_us, text);
    text[10] = ' ';
    text[19] = '\0'; /* no fraction */
    memcpy(ret_text, with_year ? text : text + 5, with_year ? 20 : 15);
}

void cli_event_moment(const howdah_event *event, bool with_year, char ret_text[CLI_MOMENT_SIZE])
{
    int64_t at_us;

    ret_text[0] = '\0';
    if (howdah_event_recorded_at(event, &at_us))
        moment(at_us, with_year, ret_text);
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

/*
 * A valid time is often of another year than its neighbours, so it has its year, and where there is
 * little width only the day.
 */
static void put_row_times(cli_events *events, const howdah_event *event)
{
    char sequence[24];
    char revision[24];
    char recorded[CLI_MOMENT_SIZE];
    char valid[CLI_MOMENT_SIZE] = "";
    char payload[128];
    const hw_str *cells;
    int64_t at_us;

    (void)snprintf(sequence, sizeof sequence, "%" PRId64, howdah_event_global_sequence(event));
    (void)snprintf(revision, sizeof revision, "%d", howdah_event_revision(event));
    cli_event_moment(event, true, recorded);
    if (howdah_event_valid_time(event, &at_us))
        moment(at_us, true, valid);
    if (events->out->width < SECONDS_WIDTH)
        valid[10] = '\0';
    cells = (hw_str[]){hw_str_of(recorded),
                       hw_str_of(sequence),
                       hw_str_of(valid),
                       hw_str_of(howdah_event_stream(event)),
                       hw_str_of(revision),
                       hw_str_of(howdah_event_type(event)),
                       cli_event_payload(event, payload, sizeof payload)};
    cli_table_row(&events->table, cells + (events->out->width < YEAR_WIDTH));
}

/*
 * The payload, behind "(rev 2)" when it is a correction: in the last column, so that live widths,
 * which stand before any row is seen, hold.  Valid until the next call.
 */
static hw_str marked_payload(cli_events *events, const howdah_event *event, char *room,
                             size_t room_n)
{
    hw_str payload = cli_event_payload(event, room, room_n);
    hw_buf *line = &events->line; /* of JSON, which this is not */

    if (howdah_event_revision(event) < 2)
        return payload;
    hw_buf_clear(line);
    hw_buf_printf(line, "(rev %d) ", (int)howdah_event_revision(event));
    hw_buf_put(line, payload.s, payload.len);
    return line->broken ? payload : (hw_str){line->data, line->len};
}

static void put_row(cli_events *events, const howdah_event *event)
{
    char sequence[24];
    char version[24];
    char moment[CLI_MOMENT_SIZE];
    char payload[128];

    (void)snprintf(sequence, sizeof sequence, "%" PRId64, howdah_event_global_sequence(event));
    (void)snprintf(version, sizeof version, "%" PRId64, howdah_event_version(event));
    cli_event_moment(event, events->out->width >= YEAR_WIDTH, moment);
    cli_table_row(&events->table,
                  (hw_str[]){hw_str_of(sequence), hw_str_of(moment),
                             hw_str_of(howdah_event_stream(event)), hw_str_of(version),
                             hw_str_of(howdah_event_type(event)),
                             marked_payload(events, event, payload, sizeof payload)});
}

int cli_events_put(cli_events *events, const howdah_event *event, howdah_error *reterr)
{
    int s;

    events->count++;
    if (!events->out->json) {
        if (events->times)
            put_row_times(events, event);
        else
            put_row(events, event);
        return HOWDAH_OK;
    }
    s = cli_event_json(event, &events->line, reterr);
    if (s < 0)
        return s;
    cli_out_put(events->out, events->line.data, events->line.len - 1);
    cli_out_puts(events->out, events->tail);
    cli_out_puts(events->out, "}\n");
    return HOWDAH_OK;
}

static void show_times(cli_out *out, const howdah_event *event)
{
    int64_t at_us;

    if (howdah_event_recorded_at(event, &at_us))
        cli_show_time(out, "recorded at", at_us);
    if (howdah_event_valid_time(event, &at_us))
        cli_show_time(out, "valid time", at_us);
}

/* Of an event that was never corrected there is nothing to say. */
static void show_revision(cli_out *out, const howdah_event *event)
{
    char uuid[HOWDAH_UUID_SIZE];

    if (howdah_event_revision(event) < 2)
        return;
    cli_show_number(out, "revision", howdah_event_revision(event));
    howdah_event_family(event, uuid);
    cli_show_text(out, "family", hw_str_of(uuid));
    if (howdah_event_corrects(event, uuid))
        cli_show_text(out, "corrects", hw_str_of(uuid));
    cli_show_text(out, "reason", hw_str_of(howdah_event_reason(event)));
}

int cli_events_show(cli_events *events, const howdah_event *event, howdah_error *reterr)
{
    char uuid[HOWDAH_UUID_SIZE];
    char payload[128];
    size_t len;
    const char *headers = howdah_event_headers(event, &len);

    if (events->out->json)
        return cli_events_put(events, event, reterr);
    events->count++;
    howdah_event_id(event, uuid);
    cli_show_number(events->out, "sequence", howdah_event_global_sequence(event));
    cli_show_text(events->out, "id", hw_str_of(uuid));
    cli_show_text(events->out, "stream", hw_str_of(howdah_event_stream(event)));
    cli_show_number(events->out, "version", howdah_event_version(event));
    cli_show_text(events->out, "type", hw_str_of(howdah_event_type(event)));
    show_times(events->out, event);
    show_revision(events->out, event);
    cli_show_text(events->out, "correlation", hw_str_of(howdah_event_correlation(event)));
    if (howdah_event_causation(event, uuid))
        cli_show_text(events->out, "causation", hw_str_of(uuid));
    cli_show_text(events->out, "actor", hw_str_of(howdah_event_actor(event)));
    if (len > 2) /* more than {} */
        cli_show_text(events->out, "headers", (hw_str){headers, len});
    cli_show_number(events->out, "schema version", howdah_event_schema_version(event));
    cli_show_text(events->out, "data", cli_event_payload(event, payload, sizeof payload));
    return HOWDAH_OK;
}
