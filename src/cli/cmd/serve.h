/* serve.h - the parts of howdah serve. */
#ifndef HW_CLI_CMD_SERVE_H
#define HW_CLI_CMD_SERVE_H

#include "cli/cli.h"

/* howdah serve token add|ls|rm: words are those after "token".  Returns the exit code. */
int cmd_serve_token(cli_context *cli, int words_n, char **words);

/* ---- service_manager.c: what systemd and its kin pass and are told */

/* The socket that was passed and listens, for this process; -1: none.  Errors: INVALID. */
int cli_listen_fd(int *ret_fd, howdah_error *reterr);
/* "READY=1" to $NOTIFY_SOCKET; without one nothing happens. */
void cli_notify(const char *state);

#endif
