/*
 * live.h - a line on stderr that says how it goes: where a subscription is, what a worker does.
 *
 * Rewritten in place, only when stderr is a terminal that can do that and without --quiet.
 */
#ifndef HW_CLI_OUT_LIVE_H
#define HW_CLI_OUT_LIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"

typedef struct cli_live {
    const cli_context *cli;
    bool wanted;
    bool shared; /* results go to the same terminal: they must not run into the line */
    bool drawn;
    int64_t next_us;
    int64_t sample_us; /* the rate is taken from sample to sample */
    int64_t sample_count;
    int64_t rate;
} cli_live;

void cli_live_start(cli_live *live, const cli_context *cli);
/* Ten times a second at most. */
void cli_live_update(cli_live *live, const howdah_subscription_info *info, int64_t count);
/* The same for any text; due says whether it would be drawn now, and takes the rate. */
bool cli_live_due(cli_live *live, int64_t count);
void cli_live_draw(cli_live *live, const char *text);
/* Takes the line away; before any other message. */
void cli_live_clear(cli_live *live);

#endif
