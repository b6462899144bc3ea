/*
 * serve_token.c - howdah serve token: who may use the gateway.
 *
 * The secret is printed once, by "add", to stdout alone.  It is stored nowhere, and it is no
 * option: every user of the machine can read a command line.
 */
#include <openssl/crypto.h>
#include <string.h>

#include "cli/cmd/serve.h"
#include "cli/out/fields.h"
#include "face/tokens.h"

typedef struct verb {
    const char *name;
    const char *usage;
    const char *options; /* separated by spaces */
    int words;           /* after the verb */
    int (*run)(cli_context *cli, char **words, howdah_error *reterr);
} verb;

/* ---------------------------------------------------------------------- add */

/* The values of an option that repeats. */
static size_t take_list(const cli_args *args, const char *name,
                        const char *list[HOWDAH_TOKEN_SCOPES_MAX + 1])
{
    size_t pos = 0;
    size_t n = 0;
    const char *value;

    while (n <= HOWDAH_TOKEN_SCOPES_MAX && (value = cli_args_next(args, name, &pos)))
        list[n++] = value;
    return n; /* one too many is the library's to refuse */
}

static void tell_secret(cli_context *cli, const char *name, const char *secret)
{
    if (cli->out.json) {
        cli_out_puts(&cli->out, "{\"name\":");
        cli_json_text(&cli->out, name);
        cli_out_printf(&cli->out, ",\"token\":\"%s\"}\n", secret);
    } else {
        cli_out_printf(&cli->out, "%s\n", secret);
    }
    cli_note(cli,
             "this is the only time that the token of %s is shown; send it as "
             "Authorization: Bearer TOKEN",
             name);
}

static int run_add(cli_context *cli, char **words, howdah_error *reterr)
{
    const char *lists[3][HOWDAH_TOKEN_SCOPES_MAX + 1];
    howdah_token_options o = HOWDAH_TOKEN_OPTIONS_INIT;
    const char *may = cli_args_text(&cli->args, "may");
    char secret[HOWDAH_TOKEN_SIZE];
    int s;

    o.name = words[0];
    o.patterns = lists[0];
    o.patterns_n = take_list(&cli->args, "pattern", lists[0]);
    o.streams = lists[1];
    o.streams_n = take_list(&cli->args, "stream", lists[1]);
    o.queues = lists[2];
    o.queues_n = take_list(&cli->args, "queue", lists[2]);
    if (!may)
        return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "serve token add needs --may"),
                         "like --may publish,read");
    s = face_rights_parse(may, &o.may, reterr);
    if (s >= 0)
        s = cli_open(cli, reterr);
    if (s >= 0)
        s = howdah_token_add(cli->bus, &o, secret, reterr);
    if (s >= 0)
        tell_secret(cli, o.name, secret);
    OPENSSL_cleanse(secret, sizeof secret);
    return s;
}

/* ------------------------------------------------------------------- ls, rm */

static int on_token(void *ctx, const howdah_token_info *info)
{
    return cli_list_put(ctx, info);
}

static int run_ls(cli_context *cli, char **words, howdah_error *reterr)
{
    cli_list list;
    int s = cli_open(cli, reterr);

    (void)words;
    cli_list_begin(&list, cli, &face_token);
    if (s >= 0)
        s = howdah_tokens_walk(cli->bus, on_token, &list, reterr);
    cli_list_end(&list, s, "no tokens; howdah serve token add NAME --may RIGHTS makes one");
    return s;
}

static int run_rm(cli_context *cli, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    if (s >= 0)
        s = howdah_token_revoke(cli->bus, words[0], reterr);
    if (s == HOWDAH_NOT_FOUND)
        return hw_advise(reterr, s, "howdah serve token ls lists them");
    if (s < 0)
        return s;
    if (cli->out.json) {
        cli_out_puts(&cli->out, "{\"name\":");
        cli_json_text(&cli->out, words[0]);
        cli_out_puts(&cli->out, ",\"revoked\":true}\n");
    } else {
        cli_out_printf(&cli->out, "the token of %s is revoked; gateways notice within 2 seconds\n",
                       words[0]);
    }
    return HOWDAH_OK;
}

/* ----------------------------------------------------------------- dispatch */

static const verb verbs[] = {
    {"add", "serve token add NAME --may RIGHTS [--pattern P] [--stream S] [--queue Q]",
     "may pattern stream queue", 1, run_add},
    {"ls", "serve token ls", "", 0, run_ls},
    {"rm", "serve token rm NAME", "", 1, run_rm},
};

static bool is_in(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

static bool is_global(const cli_option *option)
{
    for (const cli_option *o = cli_global_options; o->name; o++)
        if (o == option)
            return true;
    return false;
}

static int check(const cli_context *cli, const verb *v, int words_n, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < cli->args.given_n; i++) {
        const cli_option *option = cli->args.given[i].option;

        if (!is_global(option) && !is_in(v->options, option->name))
            s = hw_fail(reterr, HOWDAH_MISUSE, "serve token %s does not take --%s", v->name,
                        option->name);
    }
    if (s >= 0 && words_n != v->words)
        s = hw_fail(reterr, HOWDAH_MISUSE, "serve token %s: %s", v->name,
                    words_n < v->words ? "a name is missing" : "one argument too many");
    return s < 0 ? hw_advise(reterr, s, "usage: howdah %s", v->usage) : s;
}

static int run(cli_context *cli, int words_n, char **words, howdah_error *reterr)
{
    for (size_t i = 0; words_n > 0 && i < sizeof verbs / sizeof *verbs; i++) {
        int s;

        if (strcmp(verbs[i].name, words[0]) != 0)
            continue;
        s = check(cli, &verbs[i], words_n - 1, reterr);
        return s < 0 ? s : verbs[i].run(cli, words + 1, reterr);
    }
    return hw_advise(reterr, hw_fail(reterr, HOWDAH_MISUSE, "serve token needs add, ls or rm"),
                     "usage: howdah %s", verbs[0].usage);
}

int cmd_serve_token(cli_context *cli, int words_n, char **words)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    return run(cli, words_n, words, &err) < 0 ? cli_fail(cli, &err) : 0;
}
