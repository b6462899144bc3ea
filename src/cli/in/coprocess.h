/*
 * coprocess.h - a command that runs for long: it gets lines on its stdin and answers with lines.
 *
 *   I1  Nobody waits for the other: what it has not read yet is kept here, and its answers are
 *       taken meanwhile.
 *   I2  It runs in a process group of its own, as every command does (exec.h I2).  Its stderr is
 *       passed on, and the last of it is kept (exec.h I3).
 *   I3  A line has at most CLI_ANSWER_MAX bytes.  A command that writes a longer one has ended, as
 *       far as we are concerned.
 */
#ifndef HW_CLI_IN_COPROCESS_H
#define HW_CLI_IN_COPROCESS_H

#include "cli/in/exec.h"

#define CLI_ANSWER_MAX ((size_t)1024 * 1024)

typedef struct cli_coprocess cli_coprocess;

typedef enum cli_answer {
    CLI_ANSWER_LINE,
    CLI_ANSWER_NONE, /* not within the time */
    CLI_ANSWER_ENDED /* it closed its output: there will be none */
} cli_answer;

/* Of the options: command, echo, pass_store, environment. */
int cli_coprocess_start(const cli_exec_options *options, cli_coprocess **ret_process,
                        howdah_error *reterr);
/* What it is to read next, line ends included.  NO_MEMORY, LIMIT. */
int cli_coprocess_send(cli_coprocess *process, hw_str text, howdah_error *reterr);
/* Feeds it, and waits up to ms for a line, which is valid until the next call. */
cli_answer cli_coprocess_answer(cli_coprocess *process, int ms, hw_str *ret_line);
/* It gets no more. */
void cli_coprocess_close_input(cli_coprocess *process);
/* Ends it, kindly first, unless the user is in a hurry, and tells its last lines on stderr, or how
   it ended; frees it. */
void cli_coprocess_end(cli_coprocess *process, char message[CLI_EXEC_MESSAGE_MAX + 1]);

#endif
