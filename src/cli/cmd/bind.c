/*
 * bind.c - howdah bind, unbind and bindings: events that become jobs.
 *
 * A binding is a subscription that the library runs inside "howdah work": it has a place in the
 * log, an owner and a state.  Here it is made, moved, removed and listed, never run.
 */
#include <assert.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/out/fields.h"
#include "face/bindings.h"

/* ------------------------------------------------------------- bind, unbind */

typedef struct wanted {
    cli_context *cli;
    const char *pattern;
} wanted;

/* A queue may have several bindings; the answer is about one of them. */
static int on_wanted(void *ctx, const howdah_binding_info *info)
{
    const wanted *w = ctx;

    if (strcmp(info->pattern, w->pattern) == 0)
        cli_entity_put(&w->cli->out, &face_binding, info);
    return 0;
}

/* In a pipe the binding as it is now, in a terminal a sentence. */
static int answer(cli_context *cli, char **words, const char *sentence, howdah_error *reterr)
{
    wanted w = {cli, words[1]};

    if (cli->out.json)
        return howdah_bindings_walk(cli->bus, words[0], on_wanted, &w, reterr);
    cli_out_printf(&cli->out, "%s %s %s\n", words[1], sentence, words[0]);
    return HOWDAH_OK;
}

/* "beginning" here, "start" for subscriptions: both words are part of what scripts rely on. */
static int get_position(const cli_args *args, const char *option, int64_t *ret_position,
                        howdah_error *reterr)
{
    const char *text = cli_args_text(args, option);

    if (!text)
        return HOWDAH_OK;
    if (strcmp(text, "beginning") == 0)
        *ret_position = HOWDAH_FROM_START;
    else if (cli_args_position(args, option, ret_position, NULL) < 0)
        return hw_fail_field(
            reterr, HOWDAH_INVALID, option,
            "expected beginning, end, or a sequence, 0 or more; got something else, %zu bytes long",
            strlen(text));
    return HOWDAH_OK;
}

/* A name that is not there is mostly a spelling mistake, so the advice is the list. */
static int advise_binding(int s, howdah_error *reterr)
{
    return s == HOWDAH_NOT_FOUND ? hw_advise(reterr, s, "howdah bindings lists them") : s;
}

/*
 * --from and --key belong to a new binding; changing the key of an old one would break its order.
 */
static int replay(cli_context *cli, char **words, howdah_error *reterr)
{
    int64_t to = 0;
    int s;

    if (cli_args_has(&cli->args, "from") || cli_args_has(&cli->args, "key"))
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "--replay is for a binding that exists: it does not go with "
                       "--from and --key");
    s = get_position(&cli->args, "replay", &to, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s == HOWDAH_OK)
        s = advise_binding(howdah_binding_replay(cli->bus, words[0], words[1], to, reterr), reterr);
    return s < 0 ? s : answer(cli, words, "is read again from there for", reterr);
}

/* Binding twice is no failure, so that a deployment script can simply say what it wants. */
static int run_bind(cli_context *cli, char **words, howdah_error *reterr)
{
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;
    int key = (int)o.key;
    int s;

    if (cli_args_has(&cli->args, "replay"))
        return replay(cli, words, reterr);
    s = get_position(&cli->args, "from", &o.start, reterr);
    if (s == HOWDAH_OK)
        s = cli_args_choice(&cli->args, "key", &key, reterr);
    if (s == HOWDAH_OK)
        s = cli_open(cli, reterr);
    if (s < 0)
        return s;
    assert(key >= 0);
    o.key = (howdah_binding_key)key;
    s = howdah_queue_bind(cli->bus, words[0], words[1], &o, reterr);
    if (s < 0)
        return s;
    if (s == HOWDAH_END)
        cli_note(cli, "it was bound before; its place in the log stays");
    return answer(cli, words, "is bound to", reterr);
}

/* The binding is gone, so the answer repeats the words it was named with. */
static int run_unbind(cli_context *cli, char **words, howdah_error *reterr)
{
    int s = cli_open(cli, reterr);

    if (s == HOWDAH_OK)
        s = advise_binding(howdah_queue_unbind(cli->bus, words[0], words[1], reterr), reterr);
    if (s < 0)
        return s;
    if (!cli->out.json)
        return answer(cli, words, "is no longer bound to", reterr);
    cli_entity_json(&cli->out, &face_binding_named,
                    &(howdah_binding_info){.queue = words[0], .pattern = words[1]},
                    ",\"removed\":true");
    cli_out_puts(&cli->out, "\n");
    return HOWDAH_OK;
}

/* bind and unbind both take a queue and a pattern. */
static int run_pair(cli_context *cli, char **argv,
                    int (*run)(cli_context *cli, char **words, howdah_error *reterr))
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = cli_args_words(&cli->args, 2, 2, &err);

    if (s >= 0)
        s = run(cli, argv + 1, &err);
    return s < 0 ? cli_fail(cli, &err) : 0;
}

int cmd_bind(cli_context *cli, int argc, char **argv)
{
    (void)argc;
    return run_pair(cli, argv, run_bind);
}

int cmd_unbind(cli_context *cli, int argc, char **argv)
{
    (void)argc;
    return run_pair(cli, argv, run_unbind);
}

/* ----------------------------------------------------------------- bindings */

static int on_listed(void *ctx, const howdah_binding_info *info)
{
    return cli_list_put(ctx, info);
}

int cmd_bindings(cli_context *cli, int argc, char **argv)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    cli_list list;
    int s = cli_args_words(&cli->args, 0, 1, &err);

    cli_list_begin(&list, cli, &face_binding);
    if (s >= 0)
        s = cli_open(cli, &err);
    if (s >= 0)
        s = howdah_bindings_walk(cli->bus, argc > 1 ? argv[1] : NULL, on_listed, &list, &err);
    cli_list_end(&list, s, "no bindings; howdah bind QUEUE PATTERN makes one");
    return s < 0 ? cli_fail(cli, &err) : 0;
}
