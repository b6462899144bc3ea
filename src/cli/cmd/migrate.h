/* migrate.h - what init and "migrate up" share. */
#ifndef HW_CLI_CMD_MIGRATE_H
#define HW_CLI_CMD_MIGRATE_H

#include "cli/cli.h"

/* Opens the bus, migrates it and says what was done. */
int cli_migrate_up(cli_context *cli, howdah_error *reterr);

#endif
