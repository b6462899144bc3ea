/* append.h - what the forms of "howdah append" share. */
#ifndef HW_CLI_CMD_APPEND_H
#define HW_CLI_CMD_APPEND_H

#include "base/buf.h"
#include "base/str.h"
#include "cli/cli.h"

/* any, none, exists or a version.  INVALID otherwise. */
int cli_expect_parse(const char *text, int64_t *ret_expected, howdah_error *reterr);

/* {"global_sequence":7,"id":"...","stream":"order-1","version":3,"revision":1} and a line end. */
void cli_position_json(cli_context *cli, const char *stream, const howdah_position *position);

/* Where an event is: the above, or a sentence in a terminal. */
void cli_append_say(cli_context *cli, const char *stream, const howdah_position *place);

/* howdah append --correct: the exit code. */
int cli_append_correct(cli_context *cli);

/* howdah append --batch: the exit code. */
int cli_append_batch(cli_context *cli);

/* One line of --batch. */
typedef struct cli_event_line {
    hw_str text;
    int64_t number;
    size_t payload_max;
    const char *id_space; /* NULL: a line without id gets a random one */
    bool has_id;          /* out: it named its id, or got one from id_space */
} cli_event_line;

/*
 * Fills a reset builder from the line; scratch is any buffer.  Errors: INVALID, LIMIT, with the
 * field's name; what the builder finds comes when it builds.
 */
int cli_event_line_parse(cli_event_line *line, howdah_builder *builder, hw_buf *scratch,
                         howdah_error *reterr);

#endif
