/* commands.h - every command is a row; help, completion and dispatch read the rows. */
#ifndef HW_CLI_COMMANDS_H
#define HW_CLI_COMMANDS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/in/args.h"

struct cli_context;

#define CLI_LINES_MAX 8 /* of usage and of examples */

typedef struct cli_command {
    const char *name; /* NULL ends the table */
    const char *group;
    const char *summary;
    const char *usage[CLI_LINES_MAX]; /* after "howdah "; NULL ends it */
    const char *about;                /* what the summary leaves out; may be NULL */
    const char *words;                /* first words to complete, separated by spaces; NULL: none */
    const cli_option *options;        /* its own; NULL: none */
    const char *examples[CLI_LINES_MAX]; /* whole command lines; NULL ends it */
    /*
     * argv[0] is the command's name, the words follow; the options are in cli->args.  The result
     * is the exit code.
     */
    int (*run)(struct cli_context *cli, int argc, char **argv);
} cli_command;

extern const cli_command cli_commands[];

/* NULL when there is none of that name. */
const cli_command *cli_command_find(const char *name);
/* Whether the contract has this command and this version does not. */
bool cli_command_is_later(const char *name);
/* Fills the error for a name that is no command, with the nearest one; returns MISUSE. */
int cli_command_unknown(const char *name, howdah_error *reterr);

int cmd_init(struct cli_context *cli, int argc, char **argv);
int cmd_migrate(struct cli_context *cli, int argc, char **argv);
int cmd_append(struct cli_context *cli, int argc, char **argv);
int cmd_diff(struct cli_context *cli, int argc, char **argv);
int cmd_purge(struct cli_context *cli, int argc, char **argv);
int cmd_snapshot(struct cli_context *cli, int argc, char **argv);
int cmd_read(struct cli_context *cli, int argc, char **argv);
int cmd_follow(struct cli_context *cli, int argc, char **argv);
int cmd_subscribe(struct cli_context *cli, int argc, char **argv);
int cmd_sub(struct cli_context *cli, int argc, char **argv);
int cmd_dlq(struct cli_context *cli, int argc, char **argv);
int cmd_push(struct cli_context *cli, int argc, char **argv);
int cmd_work(struct cli_context *cli, int argc, char **argv);
int cmd_queue(struct cli_context *cli, int argc, char **argv);
int cmd_job(struct cli_context *cli, int argc, char **argv);
int cmd_log(struct cli_context *cli, int argc, char **argv);
int cmd_trace(struct cli_context *cli, int argc, char **argv);
int cmd_bind(struct cli_context *cli, int argc, char **argv);
int cmd_unbind(struct cli_context *cli, int argc, char **argv);
int cmd_bindings(struct cli_context *cli, int argc, char **argv);
int cmd_import(struct cli_context *cli, int argc, char **argv);
int cmd_serve(struct cli_context *cli, int argc, char **argv);
int cmd_webhook(struct cli_context *cli, int argc, char **argv);
int cmd_metrics(struct cli_context *cli, int argc, char **argv);
int cmd_status(struct cli_context *cli, int argc, char **argv);
int cmd_doctor(struct cli_context *cli, int argc, char **argv);
int cmd_verify(struct cli_context *cli, int argc, char **argv);
int cmd_settings(struct cli_context *cli, int argc, char **argv);
int cmd_completion(struct cli_context *cli, int argc, char **argv);
int cmd_help(struct cli_context *cli, int argc, char **argv);
int cmd_bench(struct cli_context *cli, int argc, char **argv);

#endif
