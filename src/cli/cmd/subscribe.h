/* subscribe.h - what the files of howdah subscribe share. */
#ifndef HW_CLI_CMD_SUBSCRIBE_H
#define HW_CLI_CMD_SUBSCRIBE_H

#include "cli/cli.h"

typedef struct cli_lines_request {
    howdah_member_options member;
    const char *command;
    bool pass_store;
    int64_t concurrency;
    int64_t max;        /* HOWDAH_ABSENT: no end */
    int64_t timeout_ms; /* HOWDAH_ABSENT: no end */
    bool until;         /* caught up */
} cli_lines_request;

/* Runs members with long-lived commands until an end that the request names; cli->bus is open. */
int cli_subscribe_lines(cli_context *cli, const cli_lines_request *request, howdah_error *reterr);

#endif
