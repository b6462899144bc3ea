/* append.h - what the forms of "howdah append" share. */
#ifndef HW_CLI_CMD_APPEND_H
#define HW_CLI_CMD_APPEND_H

#include "cli/cli.h"

/* {"global_sequence":7,"id":"...","stream":"order-1","version":3,"revision":1} and a line end. */
void cli_position_json(cli_context *cli, const char *stream, const howdah_position *position);

/* Where an event is: the above, or a sentence in a terminal. */
void cli_append_say(cli_context *cli, const char *stream, const howdah_position *place);

/* howdah append --correct: the exit code. */
int cli_append_correct(cli_context *cli);

/* howdah append --batch: the exit code. */
int cli_append_batch(cli_context *cli);

#endif
