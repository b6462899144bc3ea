/* progress.c - see progress.h. */
#include "cli/out/progress.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"

#define INTERVAL_US 100000
#define BAR 24

/* Nothing is drawn in the first interval: what is done by then needs no progress. */
void cli_progress_start(cli_progress *progress, const cli_context *cli, const char *noun)
{
    progress->out = &cli->out;
    progress->noun = noun;
    /* Taking a line away needs the same kind of terminal as colours do; NO_COLOR is no reason. */
    progress->wanted = cli->out.err_terminal && !cli->out.err_dumb && !cli->quiet;
    progress->drawn = false;
    progress->started_us = hw_clock_mono_us();
    progress->next_us = progress->started_us + INTERVAL_US;
}

/* Over the whole time, not the last second: it is also the rate of the summary. */
int64_t cli_progress_rate(const cli_progress *progress, int64_t done)
{
    int64_t spent_us = hw_clock_mono_us() - progress->started_us;

    return spent_us > 0 ? (int64_t)((double)done * 1e6 / (double)spent_us) : 0;
}

/* More than all can be done when rows are added meanwhile: it stays at 100. */
static void draw_bar(const cli_out *out, int64_t done, int64_t total)
{
    char bar[BAR + 1];
    int64_t part = done >= total ? BAR : done * BAR / total;

    assert(part >= 0 && part <= BAR);
    memset(bar, '-', BAR);
    memset(bar, '#', (size_t)part);
    bar[BAR] = '\0';
    cli_err_printf(out, "[%s] %3d%%  ", bar, (int)(done >= total ? 100 : done * 100 / total));
}

/* Called for every event, so that it must be cheap when nothing is drawn. */
void cli_progress_update(cli_progress *progress, int64_t done, int64_t total)
{
    char count[CLI_COUNT_SIZE];
    char rate[CLI_COUNT_SIZE];
    int64_t now_us;

    if (!progress->wanted)
        return;
    now_us = hw_clock_mono_us();
    if (now_us < progress->next_us)
        return;
    progress->next_us = now_us + INTERVAL_US;
    progress->drawn = true;
    cli_count_text(done, count);
    cli_count_text(cli_progress_rate(progress, done), rate);
    cli_err_rewind(progress->out);
    if (total > 0)
        draw_bar(progress->out, done, total);
    cli_err_printf(progress->out, "%s %s  %s/s", count, progress->noun, rate);
    cli_err_flush(progress->out);
}

void cli_progress_clear(cli_progress *progress)
{
    if (progress->drawn)
        cli_err_rewind(progress->out);
    progress->drawn = false;
}
