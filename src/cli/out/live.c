/* live.c - see live.h. */
#include "cli/out/live.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/out/table.h"
#include "face/subscriptions.h"

#define INTERVAL_US 100000
#define SAMPLE_US 1000000
#define LINE_BYTES_MAX 4096u

/* The first line comes after an interval: a short run shows none. */
void cli_live_start(cli_live *live, const cli_context *cli)
{
    int64_t now_us = hw_clock_mono_us();

    *live = (cli_live){.cli = cli, .next_us = now_us + INTERVAL_US, .sample_us = now_us};
    live->wanted = cli->out.err_terminal && !cli->out.err_dumb && !cli->quiet;
    live->shared = cli->out.terminal;
}

/* Over a second or more: a rate of shorter spans jumps. */
static void take_rate(cli_live *live, int64_t now_us, int64_t count)
{
    int64_t spent_us = now_us - live->sample_us;

    if (spent_us < SAMPLE_US)
        return;
    live->rate = (count - live->sample_count) * 1000000 / spent_us;
    live->sample_us = now_us;
    live->sample_count = count;
}

/* The rate is taken also when nothing is drawn. */
bool cli_live_due(cli_live *live, int64_t count)
{
    int64_t now_us;

    if (!live->wanted)
        return false;
    now_us = hw_clock_mono_us();
    take_rate(live, now_us, count);
    if (now_us < live->next_us)
        return false;
    live->next_us = now_us + INTERVAL_US;
    return true;
}

/* One column is left free: a full line would wrap, and a rewind could not take it back. */
void cli_live_draw(cli_live *live, const char *text)
{
    const cli_out *out = &live->cli->out;
    hw_buf clean = HW_BUF_INIT(LINE_BYTES_MAX);

    assert(live->wanted);
    cli_text_clean(&clean, hw_str_of(text), LINE_BYTES_MAX / 2, out->utf8);
    cli_err_rewind(out);
    cli_err_printf(out, "%.*s",
                   (int)cli_text_fit(hw_buf_str(&clean), out->width > 1 ? out->width - 1 : 1),
                   hw_buf_str(&clean));
    cli_err_flush(out);
    hw_buf_done(&clean);
    live->drawn = true;
}

/* The name gets a third of the line, so that the numbers are always there. */
void cli_live_update(cli_live *live, const howdah_subscription_info *info, int64_t count)
{
    char text[512];
    char at[CLI_COUNT_SIZE];
    char lag[CLI_COUNT_SIZE];
    char rate[CLI_COUNT_SIZE];

    if (!cli_live_due(live, count))
        return;
    cli_count_text(info->high, at);
    cli_count_text(info->lag, lag);
    cli_count_text(live->rate, rate);
    (void)snprintf(text, sizeof text, "%.*s  %s  at %s  lag %s  %s/s",
                   (int)cli_text_fit(info->subscriber_id, live->cli->out.width / 3),
                   info->subscriber_id, face_subscription_state(info->state), at, lag, rate);
    cli_live_draw(live, text);
}

/* Nothing when no line is drawn: other output is not to be erased. */
void cli_live_clear(cli_live *live)
{
    if (!live->drawn)
        return;
    cli_err_rewind(&live->cli->out);
    live->drawn = false;
}
