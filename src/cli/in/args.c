/* args.c - reads a command line by the tables of commands.c. */
#include "cli/in/args.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "cli/commands.h"

/* A guess further away than this is no help; short words are near to each other by chance. */
#define GUESS_DISTANCE_MAX 3u
#define GUESS_DISTANCE_SHORT 2u
#define GUESS_SHORT 6u

void cli_guess_try(cli_guess *best, const char *given, const char *candidate)
{
    unsigned distance = hw_word_distance(given, candidate);
    unsigned max = strlen(given) <= GUESS_SHORT ? GUESS_DISTANCE_SHORT : GUESS_DISTANCE_MAX;

    if (distance <= max && distance < strlen(candidate) &&
        (!best->word || distance < best->distance))
        *best = (cli_guess){candidate, distance};
}

static const cli_option *find_in(const cli_option *table, const char *name, size_t len)
{
    for (; table && table->name; table++)
        if (strlen(table->name) == len && memcmp(table->name, name, len) == 0)
            return table;
    return NULL;
}

static const cli_option *find_option(const cli_command *command, const char *name, size_t len)
{
    const cli_option *option = command ? find_in(command->options, name, len) : NULL;

    return option ? option : find_in(cli_global_options, name, len);
}

/* A command's own option of the same name wins. */
bool cli_option_is_hidden(const cli_command *command, const cli_option *global)
{
    return find_in(command->options, global->name, strlen(global->name)) != NULL;
}

/* Options of a later version are no help: they would be refused. */
static void guess_in(cli_guess *best, const char *name, const cli_option *table)
{
    for (; table && table->name; table++)
        if (!(table->flags & CLI_LATER))
            cli_guess_try(best, name, table->name);
}

/* For the advice about options before the command. */
static bool some_command_has(const char *name, size_t len)
{
    for (const cli_command *c = cli_commands; c->name; c++)
        if (find_in(c->options, name, len))
            return true;
    return false;
}

/* The name is cut: it may be a whole URL, or anything else that was pasted. */
static int unknown_option(const cli_args *args, const char *name, size_t len, howdah_error *reterr)
{
    char word[64];
    cli_guess best = {NULL, 0};
    int s;

    (void)snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : sizeof word - 1),
                   name);
    guess_in(&best, word, cli_global_options);
    if (args->command)
        guess_in(&best, word, args->command->options);
    s = hw_fail(reterr, HOWDAH_MISUSE, "unknown option --%s", word);
    if (!args->command && some_command_has(name, len))
        return hw_advise(reterr, s, "the options of a command come after the command");
    if (best.word)
        return hw_advise(reterr, s, "did you mean --%s?", best.word);
    return hw_advise(reterr, s, "see: howdah help%s%s", args->command ? " " : "",
                     args->command ? args->command->name : "");
}

/* A URL that lost its --store is taken for a command; its password is not repeated. */
int cli_command_unknown(const char *name, howdah_error *reterr)
{
    cli_guess best = {NULL, 0};
    char *masked;
    int s;

    if (cli_command_is_later(name))
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: not in this version", name);
    for (const cli_command *c = cli_commands; c->name; c++)
        cli_guess_try(&best, name, c->name);
    masked = hw_url_mask(name); /* a URL without its --store, perhaps */
    s = hw_fail(reterr, HOWDAH_MISUSE, "unknown command %.64s", masked ? masked : "");
    hw_free(masked);
    if (best.word)
        return hw_advise(reterr, s, "did you mean %s?", best.word);
    return hw_advise(reterr, s, "see: howdah help");
}

/* Overwrites the password of a URL in argv, and keeps a copy with it; whatever is left is cut. */
static int hide_password(cli_given *given, char *in_argv, howdah_error *reterr)
{
    size_t room = strlen(in_argv);
    char *masked = hw_url_mask(in_argv);
    char *kept = hw_strdup(in_argv);

    explicit_bzero(in_argv, room);
    if (masked)
        memcpy(in_argv, masked, strnlen(masked, room));
    hw_free(masked);
    given->value = given->kept = kept;
    return kept ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* Takes argv[*i], which starts with "--", and its value, which may be argv[*i + 1]. */
static int take_option(cli_args *args, int argc, char **argv, int *i, howdah_error *reterr)
{
    char *name = argv[*i] + 2;
    size_t len = strcspn(name, "=");
    char *value = name[len] ? name + len + 1 : NULL;
    const cli_option *option = find_option(args->command, name, len);

    if (!option)
        return unknown_option(args, name, len, reterr);
    if (option->flags & CLI_LATER)
        return hw_fail(reterr, HOWDAH_MISUSE, "--%s: not in this version", option->name);
    if (!option->value && value)
        return hw_fail(reterr, HOWDAH_MISUSE, "--%s takes no value", option->name);
    if (option->value && !value) {
        if (*i + 1 >= argc)
            return hw_fail(reterr, HOWDAH_MISUSE, "--%s needs a value: %s", option->name,
                           option->value);
        value = argv[++*i];
    }
    assert(args->given_n < (size_t)argc);
    args->given[args->given_n++] = (cli_given){option, value, NULL};
    if ((option->flags & CLI_SECRET) && value)
        return hide_password(&args->given[args->given_n - 1], value, reterr);
    return HOWDAH_OK;
}

/* The first word is the command; it decides which options are known after it. */
static int take_word(cli_args *args, char *word, howdah_error *reterr)
{
    if (!args->command) {
        args->command = cli_command_find(word);
        if (!args->command)
            return cli_command_unknown(word, reterr);
    }
    args->words[args->words_n++] = word;
    return HOWDAH_OK;
}

/* The two short options that hands type by habit. */
static const char *long_form(const char *arg)
{
    if (strcmp(arg, "-h") == 0)
        return "help";
    return strcmp(arg, "-V") == 0 ? "version" : NULL;
}

/* A lone "-" is stdin, and "-5" is a number: priorities may be negative. */
static bool is_word(const char *arg)
{
    return arg[0] != '-' || arg[1] == '\0' || isdigit((unsigned char)arg[1]);
}

static int take_short(cli_args *args, const char *arg, howdah_error *reterr)
{
    const char *name = long_form(arg);

    if (!name)
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "unknown option %.64s", arg),
                         "options have two dashes; -- ends them");
    args->given[args->given_n++] =
        (cli_given){find_in(cli_global_options, name, strlen(name)), NULL, NULL};
    return HOWDAH_OK;
}

/* Both arrays have room for all of argv, so nothing needs to grow. */
int cli_args_parse(cli_args *args, int argc, char **argv, howdah_error *reterr)
{
    bool options = true;
    int s = HOWDAH_OK;

    *args = (cli_args){NULL, NULL, 0, NULL, 0};
    args->given = hw_calloc((size_t)argc + 1, sizeof *args->given);
    args->words = hw_calloc((size_t)argc + 1, sizeof *args->words);
    if (!args->given || !args->words)
        return hw_fail_no_memory(reterr);
    for (int i = 1; i < argc && s == HOWDAH_OK; i++) {
        if (!options || is_word(argv[i]))
            s = take_word(args, argv[i], reterr);
        else if (strcmp(argv[i], "--") == 0)
            options = false;
        else if (argv[i][1] == '-')
            s = take_option(args, argc, argv, &i, reterr);
        else
            s = take_short(args, argv[i], reterr);
    }
    return s;
}

void cli_args_done(cli_args *args)
{
    for (size_t i = 0; i < args->given_n; i++)
        hw_free(args->given[i].kept);
    hw_free(args->given);
    hw_free(args->words);
    *args = (cli_args){NULL, NULL, 0, NULL, 0};
}

/* The last one counts, so that a script can append options to a command line. */
static const cli_given *last_given(const cli_args *args, const char *name)
{
    /* A misspelt name in a command's code would read as "not given" for ever. */
    assert(find_option(args->command, name, strlen(name)));
    for (size_t i = args->given_n; i > 0; i--)
        if (strcmp(args->given[i - 1].option->name, name) == 0)
            return &args->given[i - 1];
    return NULL;
}

bool cli_args_has(const cli_args *args, const char *name)
{
    return last_given(args, name) != NULL;
}

/* By the option itself, not by its name: a command may have one of the same name. */
bool cli_args_has_global(const cli_args *args, const char *name)
{
    const cli_option *option = find_in(cli_global_options, name, strlen(name));

    assert(option);
    for (size_t i = 0; i < args->given_n; i++)
        if (args->given[i].option == option)
            return true;
    return false;
}

const char *cli_args_text(const cli_args *args, const char *name)
{
    const cli_given *given = last_given(args, name);

    return given ? given->value : NULL;
}

/* In the order of the command line. */
const char *cli_args_next(const cli_args *args, const char *name, size_t *pos)
{
    while (*pos < args->given_n) {
        const cli_given *given = &args->given[(*pos)++];

        if (strcmp(given->option->name, name) == 0)
            return given->value;
    }
    return NULL;
}

/*
 * The value is not repeated in the message: it may be a secret in the wrong place, or hostile
 * text.
 */
int cli_args_number(const cli_args *args, const char *name, int64_t min, int64_t max,
                    int64_t *ret_value, howdah_error *reterr)
{
    const char *text = cli_args_text(args, name);

    assert(min <= max);
    if (!text || hw_parse_i64(text, min, max, ret_value))
        return HOWDAH_OK;
    if (max == INT64_MAX)
        return hw_fail_field(
            reterr, HOWDAH_INVALID, name,
            "expected a whole number, %lld or more; got something else, %zu bytes long",
            (long long)min, strlen(text));
    return hw_fail_field(
        reterr, HOWDAH_INVALID, name,
        "expected a whole number, %lld to %lld; got something else, %zu bytes long", (long long)min,
        (long long)max, strlen(text));
}

int cli_args_duration(const cli_args *args, const char *name, int64_t *ret_ms, howdah_error *reterr)
{
    const char *text = cli_args_text(args, name);

    if (!text || hw_duration_parse(text, ret_ms))
        return HOWDAH_OK;
    return hw_fail_field(
        reterr, HOWDAH_INVALID, name,
        "expected a duration, like 250ms, 5s or 2m; got something else, %zu bytes long",
        strlen(text));
}

/* 2026-01-31: four, two and two digits, and nothing else. */
static bool is_date(const char *text)
{
    static const char form[] = "dddd-dd-dd";

    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; i < sizeof form - 1; i++)
        if (form[i] == 'd' ? !isdigit((unsigned char)text[i]) : text[i] != form[i])
            return false;
    return true;
}

/* A date alone would need a time zone to be a moment, so it is refused with the way to write it. */
int cli_args_time(const cli_args *args, const char *name, int64_t *ret_time_us,
                  howdah_error *reterr)
{
    const char *text = cli_args_text(args, name);

    if (!text || hw_time_parse(text, strlen(text), ret_time_us))
        return HOWDAH_OK;
    if (is_date(text))
        return hw_fail_field(reterr, HOWDAH_INVALID, name,
                             "a date alone is not a moment; write %sT00:00:00Z, or use your own "
                             "offset",
                             text);
    return hw_fail_field(reterr, HOWDAH_INVALID, name,
                         "expected RFC 3339 with an offset, like 2026-01-31T09:30:00Z; got "
                         "something else, %zu bytes long",
                         strlen(text));
}

/* The place of word in a list separated by spaces; -1: it is not there. */
static int place_in(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (int place = 0; *list; place++) {
        size_t n = strcspn(list, " ");

        if (n == len && memcmp(list, word, n) == 0)
            return place;
        list += n;
        list += *list == ' ';
    }
    return -1;
}

/* The index is the library's value where the table says so. */
int cli_args_choice(const cli_args *args, const char *name, int *ret_index, howdah_error *reterr)
{
    const cli_given *given = last_given(args, name);
    int place;

    if (!given)
        return HOWDAH_OK;
    assert(given->option->choices);
    place = place_in(given->option->choices, given->value);
    if (place < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, name,
                             "expected one of: %s; got something else, %zu bytes long",
                             given->option->choices, strlen(given->value));
    *ret_index = place;
    return HOWDAH_OK;
}

/* 0 is before the first event, so "N" always means after N. */
int cli_args_position(const cli_args *args, const char *option, int64_t *ret_position,
                      howdah_error *reterr)
{
    const char *text = cli_args_text(args, option);

    if (!text)
        return HOWDAH_OK;
    if (strcmp(text, "start") == 0) {
        *ret_position = HOWDAH_FROM_START;
    } else if (strcmp(text, "end") == 0) {
        *ret_position = HOWDAH_FROM_END;
    } else if (!hw_parse_i64(text, 0, INT64_MAX - 1, ret_position)) {
        return hw_fail_field(
            reterr, HOWDAH_INVALID, option,
            "expected start, end, or a sequence, 0 or more; got something else, %zu bytes long",
            strlen(text));
    }
    return HOWDAH_OK;
}

/* The word that is too many may be a URL: it is masked. */
int cli_args_words(const cli_args *args, int min, int max, howdah_error *reterr)
{
    int n = args->words_n - 1;
    char *masked;
    int s;

    if (n >= min && n <= max)
        return HOWDAH_OK;
    if (n < min) {
        s = hw_fail(reterr, HOWDAH_MISUSE, "%s: an argument is missing", args->command->name);
    } else {
        masked = hw_url_mask(args->words[max + 1]);
        s = hw_fail(reterr, HOWDAH_MISUSE, "%s: one argument too many: %.64s", args->command->name,
                    masked ? masked : "");
        hw_free(masked);
    }
    return hw_advise(reterr, s, "usage: howdah %s", args->command->usage[0]);
}
