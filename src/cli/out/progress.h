/*
 * progress.h - a line on stderr that says how far a long job is, and how fast.
 *
 * Drawn only when stderr is a terminal (not a dumb one) and without --quiet, ten times a second
 * at most, and taken away at the end.
 */
#ifndef HW_CLI_OUT_PROGRESS_H
#define HW_CLI_OUT_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"

typedef struct cli_progress {
    const cli_out *out;
    const char *noun; /* "events" */
    bool wanted;
    bool drawn;
    int64_t started_us;
    int64_t next_us;
} cli_progress;

void cli_progress_start(cli_progress *progress, const cli_context *cli, const char *noun);
/* total 0: not known. */
void cli_progress_update(cli_progress *progress, int64_t done, int64_t total);
/* Takes the line away; before any other message. */
void cli_progress_clear(cli_progress *progress);
/* done per second since the start. */
int64_t cli_progress_rate(const cli_progress *progress, int64_t done);

#endif
