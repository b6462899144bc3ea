/*
 * exec.h - runs the user's command for one event or job.  Safe in several threads at once.
 *
 *   I1  However much the command reads or writes, nobody waits for the other: its stdin is fed and
 *       its output read by one poll.  A command that does not read its input is no error.
 *   I2  It runs in a process group of its own: Ctrl-C reaches us, not it, and we end after it.  One
 *       that is ended takes its whole group with it: SIGTERM, and SIGKILL for what is left
 *       after a while, also when its shell has gone before.
 *   I3  What of its stderr is kept is bounded, well-formed UTF-8, and the last of it; of its stdout
 *       it is the first.
 *   I4  Only an end that was seen, with 0, is a success.
 */
#ifndef HW_CLI_IN_EXEC_H
#define HW_CLI_IN_EXEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

#define CLI_EXEC_MESSAGE_MAX 480

typedef struct cli_exec_options {
    const char *command; /* for sh -c */
    hw_str input;        /* on its stdin */
    bool echo;           /* its stderr is passed on to ours */
    bool pass_store;     /* HOWDAH_STORE is handed on as it is; else without a password */
    /* "NAME=VALUE" texts beside, and instead of, those of our own environment; NULL ends them. */
    const char *const *environment;
    hw_buf *output;     /* takes its stdout, up to its len_max; NULL: that is ours */
    int64_t timeout_ms; /* it is ended after this time; 0: never */
    /* Asked now and then; true: it is ended.  May be NULL. */
    bool (*give_up)(void *ctx);
    void *ctx;
} cli_exec_options;

typedef struct cli_exec_result {
    bool ok;                                /* it ended with 0 */
    bool gave_up;                           /* it was ended because give_up() said so */
    bool timed_out;                         /* or because of the time */
    int exit_code;                          /* -1: it was ended by a signal */
    char message[CLI_EXEC_MESSAGE_MAX + 1]; /* why not: its last lines on stderr, or its end */
} cli_exec_result;

/* What a command has said on stderr: the last of it (I3). */
#define CLI_TAIL_ROOM 8192u
typedef struct cli_tail {
    size_t n;
    char text[CLI_TAIL_ROOM];
} cli_tail;
/* n is at most half of the room. */
void cli_tail_keep(cli_tail *tail, const char *bytes, size_t n);
/* Its last lines, as one harmless text; false: there is nothing in them. */
bool cli_tail_message(const cli_tail *tail, char message[CLI_EXEC_MESSAGE_MAX + 1]);

/* Only starts it, with these as its standard descriptors (out -1: ours); an errno, 0: it runs. */
int cli_spawn(const cli_exec_options *options, int in, int out, int err, pid_t *ret_pid);
/* Runs it and waits for its end.  FAILED only when it could not be started. */
int cli_exec(const cli_exec_options *options, cli_exec_result *ret_result, howdah_error *reterr);

#endif
