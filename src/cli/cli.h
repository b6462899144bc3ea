/*
 * cli.h - what every command gets: its arguments, its output, and the bus when it asks for one.
 *
 * A command reports its first error with cli_fail() and returns the exit code that gives.
 */
#ifndef HW_CLI_CLI_H
#define HW_CLI_CLI_H

#include <stdbool.h>

#include <howdah/howdah.h>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/in/args.h"
#include "cli/out/out.h"

typedef struct cli_context {
    cli_args args;
    cli_out out;
    bool quiet;
    howdah_settings *settings; /* NULL until cli_settings() */
    howdah_bus *bus;           /* NULL until cli_open() */
} cli_context;

/* The store's URL: --store, $HOWDAH_STORE, or the default. */
const char *cli_store(const cli_context *cli);

/* Fills cli->settings: the environment, then --schema and --set.  Idempotent. */
int cli_settings(cli_context *cli, howdah_error *reterr);
/* Opens cli->bus; a signal interrupts it from now on.  main closes it. */
int cli_open(cli_context *cli, howdah_error *reterr);
/* One more of the same, after cli_open(): no signal interrupts it, and the caller closes it. */
int cli_open_another(cli_context *cli, howdah_bus **ret_bus, howdah_error *reterr);

/* The largest payload that the settings allow; needs cli_settings(). */
size_t cli_payload_max(const cli_context *cli);

/* Says what went wrong on stderr; returns the exit code.  An interrupt is told by its code. */
int cli_fail(cli_context *cli, const howdah_error *err);
/* A remark on stderr, unless --quiet. */
void cli_note(cli_context *cli, const char *fmt, ...) HW_PRINTF(2, 3);

#endif
