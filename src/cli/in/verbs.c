/*
 * verbs.c - see verbs.h.
 *
 * A command with verbs has one table of options for all of them; each verb lists, by name, those
 * that it takes.
 */
#include "cli/in/verbs.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"

/* The nearest verb when one is near, else all of them. */
static int unknown_verb(const cli_context *cli, const cli_verb *verbs, const char *name,
                        howdah_error *reterr)
{
    const char *command = cli->args.command->name;
    cli_guess best = {NULL, 0};
    int s = hw_fail(reterr, HOWDAH_MISUSE, "%s: unknown verb %.64s", command, name);

    for (const cli_verb *v = verbs; v->name; v++)
        cli_guess_try(&best, name, v->name);
    if (best.word)
        return hw_advise(reterr, s, "did you mean %s %s?", command, best.word);
    return hw_advise(reterr, s, "there are: %s", cli->args.command->words);
}

/* Whole words of a list separated by spaces. */
static bool is_in(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

/* By the option itself: a command may have one of the same name. */
static bool is_global(const cli_option *option)
{
    for (const cli_option *o = cli_global_options; o->name; o++)
        if (o == option)
            return true;
    return false;
}

/* An option that another verb takes would be ignored here, which is never what was meant. */
static int check_options(const cli_context *cli, const cli_verb *verb, howdah_error *reterr)
{
    for (size_t i = 0; i < cli->args.given_n; i++) {
        const cli_option *option = cli->args.given[i].option;

        if (!is_global(option) && !is_in(verb->options, option->name))
            return hw_advise(reterr,
                             hw_fail(reterr, HOWDAH_MISUSE, "%s %s does not take --%s",
                                     cli->args.command->name, verb->name, option->name),
                             "usage: howdah %s", verb->usage);
    }
    return HOWDAH_OK;
}

/* Words are counted after the verb, as the usage line shows them. */
static int check_words(const cli_context *cli, const cli_verb *verb, howdah_error *reterr)
{
    int n = cli->args.words_n - 2;
    int s;

    assert(n >= 0); /* the command and the verb were found */
    if (n >= verb->words_min && n <= verb->words_max)
        return HOWDAH_OK;
    if (n < verb->words_min)
        s = hw_fail(reterr, HOWDAH_MISUSE, "%s %s: an argument is missing", cli->args.command->name,
                    verb->name);
    else
        s = hw_fail(reterr, HOWDAH_MISUSE, "%s %s: one argument too many: %.64s",
                    cli->args.command->name, verb->name, cli->args.words[2 + verb->words_max]);
    return hw_advise(reterr, s, "usage: howdah %s", verb->usage);
}

/* Options and words are checked before the verb opens the store. */
static int run(cli_context *cli, const cli_verb *verbs, howdah_error *reterr)
{
    const char *name = cli->args.words_n > 1 ? cli->args.words[1] : NULL;
    const cli_verb *verb = verbs;
    int s;

    if (!name)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_MISUSE, "%s needs a verb", cli->args.command->name),
                         "there are: %s", cli->args.command->words);
    while (verb->name && strcmp(verb->name, name) != 0)
        verb++;
    if (!verb->name)
        return unknown_verb(cli, verbs, name, reterr);
    s = check_options(cli, verb, reterr);
    if (s == HOWDAH_OK)
        s = check_words(cli, verb, reterr);
    return s < 0 ? s : verb->run(cli, cli->args.words_n - 2, cli->args.words + 2, reterr);
}

int cli_verbs_run(cli_context *cli, const cli_verb *verbs)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    return run(cli, verbs, &err) < 0 ? cli_fail(cli, &err) : 0;
}

/* Ids start at 1 everywhere: 0 is never one. */
int cli_word_id(const char *word, int64_t *ret_id, howdah_error *reterr)
{
    if (hw_parse_i64(word, 1, INT64_MAX, ret_id))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "id",
                         "expected a whole number, 1 or more; got something else, %zu bytes long",
                         strlen(word));
}
