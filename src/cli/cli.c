/* cli.c - settings, the bus, and words to the user. */
#include "cli/cli.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "cli/in/signals.h"

#define STORE_DEFAULT "sqlite:howdah.db"

/* An empty variable counts as not set: a shell that exports it without a value means no store. */
const char *cli_store(const cli_context *cli)
{
    const char *given = cli_args_text(&cli->args, "store");
    const char *environment = getenv("HOWDAH_STORE"); /* NOLINT(concurrency-mt-unsafe) */

    if (given)
        return given;
    return environment && *environment ? environment : STORE_DEFAULT;
}

/* One "key=value" of --set. */
static int set_one(howdah_settings *settings, const char *pair, howdah_error *reterr)
{
    const char *equals = strchr(pair, '=');
    char *key;
    int s;

    if (!equals || equals == pair)
        return hw_fail(reterr, HOWDAH_MISUSE, "--set needs KEY=VALUE");
    key = hw_strndup(pair, (size_t)(equals - pair));
    if (!key)
        return hw_fail_no_memory(reterr);
    s = howdah_settings_set(settings, key, equals + 1, reterr);
    hw_free(key);
    return s;
}

/* What is closer to the user wins: --set over --schema over the environment. */
static int fill_settings(const cli_context *cli, howdah_settings *settings, howdah_error *reterr)
{
    const char *schema = cli_args_text(&cli->args, "schema");
    const char *pair;
    size_t pos = 0;
    int s = howdah_settings_load_environment(settings, reterr);

    if (s == HOWDAH_OK && schema)
        s = howdah_settings_set(settings, "schema", schema, reterr);
    while (s == HOWDAH_OK && (pair = cli_args_next(&cli->args, "set", &pos)))
        s = set_one(settings, pair, reterr);
    return s;
}

/* Settings that are half filled are not kept: a later call starts again. */
int cli_settings(cli_context *cli, howdah_error *reterr)
{
    howdah_settings *settings = NULL;
    int s;

    if (cli->settings)
        return HOWDAH_OK;
    s = howdah_settings_new(&settings, reterr);
    if (s < 0)
        return s;
    s = fill_settings(cli, settings, reterr);
    if (s < 0) {
        howdah_settings_free(settings);
        return s;
    }
    cli->settings = settings;
    return HOWDAH_OK;
}

/*
 * The bus is handed to the signal handler as soon as there is one, so that no wait outlives a
 * Ctrl-C.
 */
int cli_open(cli_context *cli, howdah_error *reterr)
{
    int s = cli_settings(cli, reterr);

    assert(!cli->bus); /* one bus a command */
    if (s == HOWDAH_OK)
        s = howdah_open(cli_store(cli), cli->settings, &cli->bus, reterr);
    if (s == HOWDAH_OK)
        cli_signals_watch(cli->bus);
    return s;
}

int cli_open_another(cli_context *cli, howdah_bus **ret_bus, howdah_error *reterr)
{
    assert(cli->settings && cli->bus);
    return howdah_open(cli_store(cli), cli->settings, ret_bus, reterr);
}

size_t cli_payload_max(const cli_context *cli)
{
    const char *text = howdah_settings_get(cli->settings, "payload_bytes_max");
    int64_t bytes = 0;

    assert(cli->settings);
    /* It passed the setting's own check, so it parses. */
    if (!text || !hw_parse_bytes(text, &bytes) || bytes < 1)
        return 0;
    return (size_t)bytes;
}

/* A signal that ended the command is not a failure to explain. */
static int interrupted_exit_code(const howdah_error *err)
{
    return cli_signal_caught() ? cli_signals_exit_code() : howdah_status_exit_code(err->status);
}

/* The library's name of a field, "known_at", as the option that was given: "known-at". */
static void spell_as_options(const cli_args *args, char *text)
{
    for (size_t i = 0; i < args->given_n; i++) {
        const char *name = args->given[i].option->name;
        size_t len = strlen(name);
        char field[64];

        if (!strchr(name, '-') || len >= sizeof field)
            continue;
        for (size_t n = 0; n <= len; n++)
            field[n] = name[n] == '-' ? '_' : name[n];
        for (char *at = strstr(text, field); at; at = strstr(at + len, field))
            memcpy(at, name, len);
    }
}

/* The name of the program in red, the message plain: it may be copied into a search. */
static void say_failure(const cli_out *out, const char *message)
{
    cli_err_style(out, CLI_RED);
    cli_err_printf(out, "howdah:");
    cli_err_style(out, CLI_PLAIN);
    cli_err_printf(out, " %s\n", message);
}

/*
 * What the library says about its own field names is turned into the options that the user typed.
 * An interrupt by a signal is silent: the sender knows.
 */
int cli_fail(cli_context *cli, const howdah_error *err)
{
    howdah_error told = *err;
    bool interrupted = err->status == HOWDAH_INTERRUPTED;
    const char *arrow = cli->out.err_terminal && cli->out.utf8 ? "\xe2\x86\x92" : "->";

    assert(err->status < 0);
    spell_as_options(&cli->args, told.message);
    cli_out_flush(&cli->out); /* what was printed before it happened comes before it */
    if (!interrupted || !cli_signal_caught())
        say_failure(&cli->out, told.message[0] ? told.message : howdah_status_text(err->status));
    if (err->advice[0] && !interrupted)
        cli_err_printf(&cli->out, "  %s %s\n", arrow, err->advice);
    return interrupted ? interrupted_exit_code(err) : howdah_status_exit_code(err->status);
}

/* Notes never change an exit code, and --quiet removes them all. */
void cli_note(cli_context *cli, const char *fmt, ...)
{
    va_list args;

    if (cli->quiet)
        return;
    va_start(args, fmt);
    cli_err_printf(&cli->out, "howdah: ");
    cli_err_vprintf(&cli->out, fmt, args);
    cli_err_printf(&cli->out, "\n");
    va_end(args);
}
