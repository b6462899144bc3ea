/*
 * main.c - runs seeds.
 *
 *     sim [--from SEED] [--seeds N] [--bug NUMBER] [--show] [--all]
 *     sim --planted
 *
 * Without arguments: 1,000 seeds, and every fiftieth twice: the same seed is the same story.  A
 * seed that fails is named; "sim --from SEED --seeds 1 --show" tells its story.  --planted: each
 * mistake that is made on purpose must be found within 5,000 seeds, and none in 1,000 when none is
 * made.
 * --all: what is not promised (checker.h) is judged as well.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "sim.h"

#define PLANTED_SEEDS 5000
#define HONEST_SEEDS 1000
#define FAILED_MAX 10
#define TWICE_EVERY 50

static sim the_sim;
static volatile sig_atomic_t seed_now; /* for the one who finds a core */

static int64_t number_after(int argc, char **argv, const char *name, int64_t otherwise)
{
    for (int i = 1; i + 1 < argc; i++) {
        int64_t value;

        if (strcmp(argv[i], name) == 0 && hw_parse_i64(argv[i + 1], 0, INT32_MAX, &value))
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

/* An assertion of the library: which seed? */
static void on_abort(int signal)
{
    char text[] = "sim: aborted in seed            \n";
    int seed = seed_now;

    (void)signal;
    for (size_t at = sizeof text - 3; seed > 0; at--, seed /= 10)
        text[at] = (char)('0' + seed % 10);
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
}

static void log_line(void *ctx, int level, const char *message)
{
    (void)ctx, (void)level;
    sim_tell(&the_sim, "%s", message);
}

static void run(int64_t seed, const sim_bug *bug, sim_result *result)
{
    seed_now = (sig_atomic_t)seed;
    sim_run(&the_sim, (uint64_t)seed, bug, result);
}

/* ------------------------------------------------------------------------------ seeds */

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
           "\n# kills %" PRId64 ", refusals %" PRId64 ", cuts %" PRId64 ", late %" PRId64
           ", restarts %" PRId64 ", halts %" PRId64 ", services %" PRId64 ", operations %" PRId64
           "\n# bursts %" PRId64 ", images %" PRId64 ", replaced %" PRId64
           ", behind a pooler %" PRId64 ", untold %" PRId64 "\n",
           s->events, s->deliveries, s->handled, s->dead_letters, s->redrives, s->skips, s->takes,
           s->checkpoints, s->kills, s->refusals, s->cuts, s->late, s->restarts, s->halts,
           s->services, s->operations, s->bursts, s->images, s->replaced, s->hidden, s->untold);
}

/* Each kind of trouble has been there. */
static bool is_everywhere(const sim_stats *s)
{
    const int64_t *numbers = (const int64_t *)s;

    for (size_t i = 0; i < sizeof *s / sizeof *numbers; i++) {
        if (numbers[i] == 0)
            return false;
    }
    return true;
}

static int run_seeds(int64_t from, int64_t seeds, const sim_bug *bug)
{
    sim_stats sum = {0};
    int failed = 0;
    int differ = 0;

    for (int64_t seed = from; seed < from + seeds && failed < FAILED_MAX; seed++) {
        sim_result result;
        sim_result again;

        run(seed, bug, &result);
        add(&sum, &result.stats);
        if (result.violated) {
            printf("# seed %" PRId64 ": %s\n", seed, result.what);
            failed++;
        }
        if (the_sim.show)
            printf("# seed %" PRId64 ", trace %016" PRIx64 "\n", seed, result.trace);
        if (seed % TWICE_EVERY != 0)
            continue;
        run(seed, bug, &again);
        differ += again.trace != result.trace;
    }
    show(&sum);
    printf("%sok 1 - every promise holds in %" PRId64 " seeds\n", failed ? "not " : "", seeds);
    printf("%sok 2 - the same seed is the same story\n", differ ? "not " : "");
    printf("%sok 3 - every kind of trouble has been there%s\n", is_everywhere(&sum) ? "" : "not ",
           seeds < 1000 ? " # SKIP too few seeds" : "");
    return failed || differ || (seeds >= 1000 && !is_everywhere(&sum));
}

/* ---------------------------------------------------------------------------- planted */

/* 0: nothing was found. */
static int64_t find(const sim_bug *bug, int64_t seeds, sim_result *result)
{
    for (int64_t seed = 1; seed <= seeds; seed++) {
        run(seed, bug, result);
        if (result->violated)
            return seed;
    }
    return 0;
}

static int run_planted(void)
{
    int failed = 0;

    printf("1..%d\n", sim_bugs_n);
    for (int bug = 0; bug < sim_bugs_n; bug++) {
        sim_result result;
        int64_t seed = find(&sim_bugs[bug], bug > 0 ? PLANTED_SEEDS : HONEST_SEEDS, &result);
        bool ok = (seed > 0) == (bug > 0);

        if (seed > 0)
            printf("# seed %" PRId64 ": %s\n", seed, result.what);
        printf("%sok %d - planted: %s\n", ok ? "" : "not ", bug + 1, sim_bugs[bug].name);
        failed += !ok;
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};
    int failed;

    (void)sigaction(SIGABRT, &action, NULL);
    the_sim.show = has(argc, argv, "--show");
    the_sim.all = has(argc, argv, "--all");
    if (the_sim.show)
        howdah_log_set(log_line, NULL);
    if (has(argc, argv, "--planted")) {
        failed = run_planted();
    } else {
        printf("1..3\n");
        failed = run_seeds(number_after(argc, argv, "--from", 1),
                           number_after(argc, argv, "--seeds", 1000),
                           &sim_bugs[number_after(argc, argv, "--bug", 0) % sim_bugs_n]);
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
