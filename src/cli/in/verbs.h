/* verbs.h - commands that have verbs, "sub show NAME": a table of them, and its dispatch. */
#ifndef HW_CLI_IN_VERBS_H
#define HW_CLI_IN_VERBS_H

#include "cli/cli.h"

typedef struct cli_verb {
    const char *name; /* NULL ends the table */
    const char *usage;
    const char *options; /* those of the command that it takes, separated by spaces */
    int words_min;       /* after the verb */
    int words_max;
    /* words are those after the verb.  Returns a status. */
    int (*run)(cli_context *cli, int words_n, char **words, howdah_error *reterr);
} cli_verb;

#define CLI_WORDS_ANY 100000

/* Runs the verb that the command line names; returns the exit code. */
int cli_verbs_run(cli_context *cli, const cli_verb *verbs);

/* A word that is a positive number.  Errors: INVALID, naming the field. */
int cli_word_id(const char *word, int64_t *ret_id, howdah_error *reterr);

#endif
