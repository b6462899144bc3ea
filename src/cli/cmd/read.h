/* read.h - the second half of "howdah read": questions about the two times. */
#ifndef HW_CLI_CMD_READ_H
#define HW_CLI_CMD_READ_H

#include "cli/cli.h"

/* Whether an option is given that howdah_reader_open() does not know. */
bool cli_query_wanted(const cli_args *args);
/* Answers it.  Returns a status. */
int cli_query_run(cli_context *cli, howdah_error *reterr);

#endif
