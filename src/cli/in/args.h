/*
 * args.h - options and words of a command line, by tables.
 *
 * "--name VALUE", "--name=VALUE", "--flag"; "--" ends the options.  A lone "-" and a negative
 * number are words.  Options of every command (cli_global_options) may stand anywhere, also before
 * the command; the command's own ones come after it, and hide those of every command there.
 */
#ifndef HW_CLI_IN_ARGS_H
#define HW_CLI_IN_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

struct cli_command;

#define CLI_REPEATS 0x1u /* may be given more than once, all count; of others the last one does */
#define CLI_SECRET 0x4u  /* a URL that may have a password: it is overwritten in argv */
#define CLI_LATER 0x2u   /* part of the contract, not of this version: refused, not shown */

typedef struct cli_option {
    const char *name;    /* without the dashes; NULL ends a table */
    const char *value;   /* what the help calls its value; NULL: a flag */
    const char *choices; /* the values to complete, separated by spaces; NULL: free text */
    const char *help;
    unsigned flags;
} cli_option;

#define CLI_OPTIONS_END                                                                            \
    {                                                                                              \
        NULL, NULL, NULL, NULL, 0                                                                  \
    }

typedef struct cli_given {
    const cli_option *option;
    const char *value; /* NULL for a flag */
    char *kept;        /* NULL, or our own copy of value: argv's is not fit for everybody */
} cli_given;

typedef struct cli_args {
    const struct cli_command *command; /* NULL when none was named */
    cli_given *given;
    size_t given_n;
    char **words; /* words[0] is the command's name */
    int words_n;
} cli_args;

extern const cli_option cli_global_options[];

/* Whether the command has an option of its own with the name of this one of every command. */
bool cli_option_is_hidden(const struct cli_command *command, const cli_option *global);

/*
 * The strings stay argv's, but for a --store with a password: argv is what every user of the
 * machine can read (ps), so the password is overwritten there.  Errors: MISUSE (unknown option or
 * command, naming the nearest).
 */
int cli_args_parse(cli_args *args, int argc, char **argv, howdah_error *reterr);
void cli_args_done(cli_args *args);

/* For "did you mean": start with {NULL, 0}; word is the candidate nearest to what was given. */
typedef struct cli_guess {
    const char *word; /* NULL: none is near enough */
    unsigned distance;
} cli_guess;
void cli_guess_try(cli_guess *best, const char *given, const char *candidate);

bool cli_args_has(const cli_args *args, const char *name);
/* The option of every command, not the command's own of the same name. */
bool cli_args_has_global(const cli_args *args, const char *name);
/* The value given last; NULL when there is none. */
const char *cli_args_text(const cli_args *args, const char *name);
/* The values in turn: start with *pos = 0; NULL after the last. */
const char *cli_args_next(const cli_args *args, const char *name, size_t *pos);
/* These leave *ret_value alone when the option was not given.  Errors: INVALID, naming the option.
 */
int cli_args_number(const cli_args *args, const char *name, int64_t min, int64_t max,
                    int64_t *ret_value, howdah_error *reterr);
int cli_args_duration(const cli_args *args, const char *name, int64_t *ret_ms,
                      howdah_error *reterr);
/* RFC 3339 with an offset, as microseconds since 1970. */
int cli_args_time(const cli_args *args, const char *name, int64_t *ret_time_us,
                  howdah_error *reterr);
/* The option's value is one of those of its row in the table; which, counted from 0. */
int cli_args_choice(const cli_args *args, const char *name, int *ret_index, howdah_error *reterr);

/* start, end, or a sequence; leaves *ret_position alone when the option was not given. */
int cli_args_position(const cli_args *args, const char *option, int64_t *ret_position,
                      howdah_error *reterr);

/* MISUSE unless min to max words follow the command's name; the advice is its usage line. */
int cli_args_words(const cli_args *args, int min, int max, howdah_error *reterr);

#endif
