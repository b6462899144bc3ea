/* help.h - help texts, made from the tables. */
#ifndef HW_CLI_CMD_HELP_H
#define HW_CLI_CMD_HELP_H

#include "cli/commands.h"
#include "cli/out/out.h"

/* What the command is and what it can do: for "howdah" alone. */
void cli_help_overview(cli_out *out);
/* All about one command: for --help and "help COMMAND". */
void cli_help_command(cli_out *out, const cli_command *command);

#endif
