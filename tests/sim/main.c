/*
 * main.c - runs seeds.
 *
 *     sim [--from SEED] [--seeds N] [--bug NUMBER] [--show]
 *
 * Without arguments: 1,000 seeds.  A seed that fails is named; "sim --from SEED --seeds 1 --show"
 * repeats it, to the letter.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sim.h"

static sim the_sim;

static int64_t number_after(int argc, char **argv, const char *name, int64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        int64_t value;

        if (strcmp(argv[i], name) == 0 && hw_parse_i64(argv[i + 1], 0, INT64_MAX, &value))
            return value;
    }
    return otherwise;
}

static bool has(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0)
            return true;
    }
    return false;
}

static void add(sim_stats *sum, const sim_stats *one)
{
    int64_t *to = (int64_t *)sum;
    const int64_t *from = (const int64_t *)one;

    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += from[i];
}

static void show(const sim_stats *s)
{
    printf("# events %" PRId64 ", deliveries %" PRId64 ", handled %" PRId64 ", letters %" PRId64
           ", redrives %" PRId64 ", skips %" PRId64 ", takes %" PRId64 ", checkpoints %" PRId64
           "\n# kills %" PRId64 ", cuts %" PRId64 ", late %" PRId64 ", restarts %" PRId64
           ", halts %" PRId64 ", services %" PRId64 ", operations %" PRId64 "\n",
           s->events, s->deliveries, s->handled, s->letters, s->redrives, s->skips, s->takes,
           s->checkpoints, s->kills, s->cuts, s->late, s->restarts, s->halts, s->services,
           s->operations);
}

static void log_line(void *ctx, int level, const char *message)
{
    (void)ctx;
    printf("# %10.6f  [%d] %s\n", (double)the_sim.world.now_us / 1e6, level, message);
}

int main(int argc, char **argv)
{
    int64_t from = number_after(argc, argv, "--from", 1);
    int64_t seeds = number_after(argc, argv, "--seeds", 1000);
    world_bug bug = (world_bug)number_after(argc, argv, "--bug", 0);
    sim_stats sum = {0};
    int failed = 0;

    the_sim.show = has(argc, argv, "--show");
    if (the_sim.show)
        howdah_set_log(log_line, NULL);
    for (int64_t seed = from; seed < from + seeds; seed++) {
        sim_result result;

        sim_run(&the_sim, (uint64_t)seed, bug, &result);
        add(&sum, &result.stats);
        if (result.violated) {
            printf("# seed %" PRId64 ": %s\n", seed, result.what);
            if (++failed == 10)
                break;
        }
        if (the_sim.show)
            printf("# seed %" PRId64 " trace %016" PRIx64 "\n", seed, result.trace);
    }
    show(&sum);
    printf("1..1\n%sok 1 - %" PRId64 " seeds\n", failed ? "not " : "", seeds);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
