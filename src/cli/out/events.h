/* events.h - events on stdout: a line of JSON each, or rows of a table in a terminal. */
#ifndef HW_CLI_OUT_EVENTS_H
#define HW_CLI_OUT_EVENTS_H

#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/out/fields.h"

typedef struct cli_events {
    cli_out *out;
    hw_buf line;
    cli_table table;
    int64_t count;
    const char *columns; /* names of fields */
    const char *tail;    /* more fields of each line of JSON, ",\"name\":value"; "": none */
} cli_events;

/* live: every event is shown at once, so the widths come from the terminal alone. */
void cli_events_init(cli_events *events, cli_out *out, bool live);
void cli_events_init_times(cli_events *events, cli_out *out);
int cli_events_put(cli_events *events, const howdah_event *event, howdah_error *reterr);
/* For one event alone: in a terminal all of it, a line a field. */
int cli_events_show(cli_events *events, const howdah_event *event, howdah_error *reterr);
void cli_events_flush(cli_events *events);
void cli_events_done(cli_events *events);

/* "2026-01-31 09:30:00", or "01-31 09:30:00" when there is little width; "" when not recorded. */
#define CLI_MOMENT_SIZE 20
void cli_event_moment(const howdah_event *event, bool with_year, char ret_text[CLI_MOMENT_SIZE]);
/* The payload for a terminal: JSON text as it is, bytes as their type and size in room, a mark for
   what is retracted or purged. */
hw_str cli_event_payload(const howdah_event *event, char *room, size_t room_n);

#endif
