/*
 * exec.h - runs the user's command for one event.
 *
 *   I1  However much the command reads or writes, nobody waits for the other: its stdin is fed
 *       and its stderr read by one poll.  A command that does not read its input is no error.
 *   I2  It runs in a process group of its own: Ctrl-C reaches us, not it, and we end after it.
 *   I3  What of its stderr is kept is bounded, well-formed UTF-8, and the last of it.
 */
#ifndef HW_CLI_EXEC_H
#define HW_CLI_EXEC_H

#include <stdbool.h>

#include "base/error.h"
#include "base/str.h"

#define CLI_EXEC_MESSAGE_MAX 480

typedef struct cli_exec_result {
    bool ok;                                /* it ended with 0 */
    char message[CLI_EXEC_MESSAGE_MAX + 1]; /* why not: its last lines on stderr, or its end */
} cli_exec_result;

/*
 * Runs sh -c command with input on its stdin and waits for it.  Its stdout is ours; its stderr
 * is passed on to ours when echo is set.  FAILED only when it could not be started.
 */
int cli_exec(const char *command, hw_str input, bool echo, cli_exec_result *ret_result,
             howdah_error *reterr);

#endif
