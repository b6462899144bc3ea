/*
 * main.c - runs seeds.
 *
 *     sim_groups [--from SEED] [--seeds N] [--bug NUMBER] [--show] [--board]
 *     sim_groups_planted --planted
 *
 * Each seed is a run of a group over the store, and every fiftieth is run twice: the same seed is
 * the same story.  --board: runs of the board instead, which are much quicker.  A seed that fails
 * is named; "sim_groups --from SEED --seeds 1 --show" tells its story.  --planted: each mistake
 * that is made on purpose must be found within 1,000 seeds, by a promise that it breaks.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "board.h"
#include "sim.h"

#define PLANTED_SEEDS 1000
#define FAILED_MAX 10
#define TWICE_EVERY 50
#define ENOUGH_SEEDS 300 /* for every kind of trouble */

static group_sim the_sim;
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
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

/* An assertion of the library: which seed? */
static void on_abort(int signal)
{
    char text[] = "sim_groups: aborted in seed            \n";
    int seed = seed_now;

    (void)signal;
    for (size_t at = sizeof text - 3; seed > 0; at--, seed /= 10)
        text[at] = (char)('0' + seed % 10);
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
}

static void run(int64_t seed, planted_bug bug, bool board, sim_result *result)
{
    seed_now = (sig_atomic_t)seed;
    if (board)
        board_run((uint64_t)seed, bug, the_sim.show, result);
    else
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
    printf("# events %" PRId64 ", batches %" PRId64 ", retries %" PRId64 ", suspects %" PRId64
           ", handled %" PRId64 ", fails %" PRId64 ", kills %" PRId64 ", naps %" PRId64 "\n",
           s->events, s->batches, s->retries, s->suspects, s->handled, s->fails, s->kills, s->naps);
    printf("# lost %" PRId64 ", late %" PRId64 ", parts %" PRId64 ", extends %" PRId64
           ", releases %" PRId64 ", leaves %" PRId64 ", acks again %" PRId64 ", exchanges %" PRId64
           "\n",
           s->lost, s->late, s->parts, s->extends, s->releases, s->leaves, s->agains, s->exchanges);
    printf("# dead letters %" PRId64 ", redrives %" PRId64 ", discards %" PRId64 ", pauses %" PRId64
           ", halts %" PRId64 ", resets %" PRId64 ", reboots %" PRId64 "\n",
           s->dead_letters, s->redrives, s->discards, s->pauses, s->halts, s->resets, s->reboots);
}

/* Each kind of trouble has been there. */
static bool is_everywhere(const sim_stats *s)
{
    const int64_t *numbers = (const int64_t *)s;

    for (size_t i = 0; i < sizeof *s / sizeof *numbers; i++)
        if (numbers[i] == 0)
            return false;
    return true;
}

static int run_seeds(int64_t from, int64_t seeds, planted_bug bug, bool board)
{
    sim_stats sum = {0};
    int failed = 0;
    int differ = 0;
    bool counts = !board && seeds >= ENOUGH_SEEDS;
    bool everywhere;

    printf("1..%d\n", counts ? 3 : 2);
    for (int64_t seed = from; seed < from + seeds && failed < FAILED_MAX; seed++) {
        sim_result result;
        sim_result again;

        run(seed, bug, board, &result);
        add(&sum, &result.stats);
        if (result.violated) {
            printf("# seed %" PRId64 ": %s\n", seed, result.what);
            failed++;
        }
        if (the_sim.show)
            printf("# seed %" PRId64 ", trace %016" PRIx64 "\n", seed, result.trace);
        if (seed % TWICE_EVERY != 0)
            continue;
        run(seed, bug, board, &again);
        differ += again.trace != result.trace;
    }
    if (!board)
        show(&sum);
    everywhere = !counts || is_everywhere(&sum);
    printf("%sok 1 - every promise holds in %" PRId64 " seeds\n", failed ? "not " : "", seeds);
    printf("%sok 2 - the same seed is the same story\n", differ ? "not " : "");
    if (counts)
        printf("%sok 3 - every kind of trouble has been there\n", everywhere ? "" : "not ");
    return failed || differ || !everywhere;
}

/* ---------------------------------------------------------------------------- planted */

/* The promise that a violation names: "G", a digit, a colon. */
static bool is_broken(const planted_row *row, const char *what)
{
    const char *at = strstr(what, ": G");
    char name[3] = "";

    if (at)
        memcpy(name, at + 2, 2);
    return at && strstr(row->breaks, name);
}

static bool is_found(const planted_row *row)
{
    for (int64_t seed = 1; seed <= PLANTED_SEEDS; seed++) {
        sim_result result;

        run(seed, row->bug, row->board, &result);
        if (result.violated) {
            printf("# seed %" PRId64 ": %s\n", seed, result.what);
            return is_broken(row, result.what);
        }
    }
    return false;
}

static int run_planted(void)
{
    int failed = 0;

    printf("1..%d\n", planted_rows_n - 1);
    for (int i = 1; i < planted_rows_n; i++) {
        bool ok = is_found(&planted_rows[i]);

        printf("%sok %d - planted: %s\n", ok ? "" : "not ", i, planted_rows[i].name);
        failed += !ok;
    }
    return failed;
}

int main(int argc, char **argv)
{
    struct sigaction action = {.sa_handler = on_abort, .sa_flags = (int)SA_RESETHAND};
    int64_t bug = number_after(argc, argv, "--bug", 0) % planted_rows_n;
    int failed;

    (void)sigaction(SIGABRT, &action, NULL);
    the_sim.show = has(argc, argv, "--show");
    if (!sim_log_init()) {
        (void)fprintf(stderr, "sim_groups: there is no place for a log\n");
        return EXIT_FAILURE;
    }
    if (has(argc, argv, "--planted")) {
        failed = run_planted();
    } else {
        failed = run_seeds(number_after(argc, argv, "--from", 1),
                           number_after(argc, argv, "--seeds", 1000), planted_rows[bug].bug,
                           has(argc, argv, "--board"));
    }
    sim_log_done();
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
