/* sim.c - one run from its seed to its verdict. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bus/bus.h"
#include "wraps.h"

/* A run's chaos ends when the writers are through, or after so much. */
#define CHAOS_SERVICES 400
#define CHAOS_US (INT64_C(600) * 1000000)
/* Where nothing fails: a poll interval, and then some. */
#define SOON_US (INT64_C(3) * 1000000)
/* Where the bell tells of every event. */
#define BELL_SOON_US (INT64_C(250) * 1000)
/* A hole is a reason to look without a bell. */
#define BELL_WRITERS 2
/* Until then a process may take to be there. */
#define START_US (INT64_C(1500) * 1000)
/* Healing must come to its end within. */
#define HEAL_SERVICES 4000
#define HEAL_BURST 20000
#define HEAL_WEAK 200 /* it need not */
#define HEAL_US (INT64_C(600) * 1000000)

void sim_tell(const sim *s, const char *fmt, ...)
{
    va_list args;

    if (!s->show)
        return;
    printf("# %11.6f  ", (double)s->world.now_us / 1e6);
    va_start(args, fmt);
    (void)vprintf(fmt, args);
    va_end(args);
    (void)putchar('\n');
}

static void tell_place(const sim *s, const char *what, int sub)
{
    const fake_sub *row = &s->server.subs[sub];

    if (!s->show)
        return;
    printf("# %11.6f  sub%d %s: token %lld, high %lld, outstanding", (double)s->world.now_us / 1e6,
           sub, what, (long long)row->token, (long long)row->high);
    for (size_t i = 0; i < row->outstanding_n; i++)
        printf(" %lld-%lld", (long long)row->outstanding[i].first,
               (long long)row->outstanding[i].last);
    printf("%s", row->still_n > 0 ? ", still" : "");
    for (size_t i = 0; i < row->still_n; i++)
        printf(" %lld-%lld", (long long)row->still[i].first, (long long)row->still[i].last);
    (void)putchar('\n');
}

/* ---------------------------------------------------------------------------- hooks */

static void on_created(void *ctx, int sub)
{
    sim *s = ctx;

    tell_place(s, "created", sub);
    checker_created(&s->checker, sub, s->plans[sub].from_end);
}

static void on_stored(void *ctx, int sub)
{
    sim *s = ctx;

    s->stats.checkpoints++;
    tell_place(s, "stored", sub);
    checker_stored(&s->checker, sub);
}

static void on_effect(void *ctx, int sub, int64_t sequence, uint32_t life)
{
    checker_effect(&((sim *)ctx)->checker, sub, sequence, life);
}

static void on_dead_letter(void *ctx, int sub, int64_t sequence, uint32_t life)
{
    sim *s = ctx;

    s->stats.dead_letters++;
    checker_dead_letter(&s->checker, sub, sequence, life);
}

static void on_skipped(void *ctx, int sub, hw_range range)
{
    sim *s = ctx;

    s->stats.skips++;
    checker_skipped(&s->checker, sub, range);
}

static void on_wrong(void *ctx, int sub, const char *what)
{
    checker_suspect(&((sim *)ctx)->checker, sub, 0, what);
}

/* The log is durable up to here, and the bell rings: at once, late, or not at all. */
static void on_commit(void *ctx, int32_t first_order)
{
    sim *s = ctx;

    sim_tell(s, "committed: %d rows, high %d", (int)(s->world.orders - first_order + 1),
             (int)s->world.visible_high);
    for (int64_t n = 1; s->show && n <= s->world.visible_high; n++) {
        const world_number *number = &s->world.numbers[n];

        if (number->state == NUMBER_VISIBLE && number->order >= first_order)
            sim_tell(s, "    %lld: %s %d %s", (long long)n, world_stream_names[number->stream],
                     (int)number->version, world_type_names[number->type]);
    }
    fake_sync(&s->server);
    if (!s->server.armed)
        return;
    s->server.armed = false;
    for (int i = 0; i < SIM_PROCESSES; i++) {
        sim_process *p = &s->processes[i];
        int64_t at_us = s->world.now_us + dice_between(&s->world.dice, 0, 20000);

        if (!p->bus || !fake_listens(p->bus->store) ||
            (!s->bell && dice_roll(&s->world.dice, 4) == 0))
            continue;
        if (p->client.bell_us == 0)
            p->client.bell_us = at_us;
        if (at_us < p->wake_us)
            p->wake_us = at_us;
    }
}

static void on_sleep(void *ctx, int64_t ms)
{
    sim_pass_time(ctx, ms * 1000);
}

/* ------------------------------------------------------------------------- the run */

static void begin(sim *s, uint64_t seed, const sim_bug *bug)
{
    s->seed = seed;
    world_init(&s->world, seed * UINT64_C(0x9E3779B97F4A7C15) + 1);
    s->world.bug = bug->world;
    planted_now = bug->library;
    fake_init(&s->server, &s->world);
    checker_init(&s->checker, &s->world, &s->server);
    s->depth = 0;
    s->healing = false;
    s->stats = (sim_stats){0};
    for (int i = 0; i < SIM_IMAGES; i++)
        s->images[i].there = false;
    sim_plan_run(s);
    for (int i = 0; i < s->plans_n; i++)
        checker_expect(&s->checker, i,
                       s->plans[i].options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL,
                       s->plans[i].options.ordering == HOWDAH_ORDERING_STRICT);
    s->server.hooks = (fake_hooks){.ctx = s,
                                   .before = sim_before,
                                   .created = on_created,
                                   .stored = on_stored,
                                   .effect = on_effect,
                                   .dead_letter = on_dead_letter,
                                   .skipped = on_skipped,
                                   .wrong = on_wrong};
    s->world.on_commit = on_commit;
    s->world.on_commit_ctx = s;
    wraps_use(&s->world.now_us, seed, on_sleep, s);
    writers_init(&s->world);
    if ((s->world.burst > 0 || s->world.sleeper) && s->world.writers_n < 2)
        s->world.writers_n = 2;
    if (s->bell && s->world.writers_n > BELL_WRITERS)
        s->world.writers_n = BELL_WRITERS;
    for (int i = 0; i < SIM_PROCESSES; i++)
        s->processes[i] =
            (sim_process){.client = {.server = &s->server, .number = i, .dead = true},
                          .wake_us = s->world.now_us + dice_between(&s->world.dice, 0, 300000)};
    for (int i = 1; s->bell && i < SIM_PROCESSES; i++)
        s->processes[i].wake_us = INT64_MAX; /* not before all is healed */
    s->soon_from_us = s->world.now_us + START_US;
}

static int next_process(const sim *s)
{
    int next = 0;

    for (int i = 1; i < SIM_PROCESSES; i++) {
        if (s->processes[i].wake_us < s->processes[next].wake_us)
            next = i;
    }
    return next;
}

/* C6, for subscriptions that wait for nothing but their own events. */
static void check_soon(sim *s)
{
    if (!s->calm || s->healing || s->world.now_us < s->soon_from_us)
        return;
    for (int i = 0; i < s->server.subs_n; i++) {
        const howdah_subscribe_options *o = &s->plans[i].options;

        if (o->ordering == HOWDAH_ORDERING_AHEAD && o->outstanding_max > 100)
            checker_soon(&s->checker, i, s->bell ? BELL_SOON_US : SOON_US);
    }
}

/* Whoever is next: the writers or a process. */
static void go_on(sim *s)
{
    world *w = &s->world;
    int process = next_process(s);
    int64_t writers_us = writers_next_us(w);
    int64_t process_us = s->processes[process].wake_us;

    if (writers_us <= process_us) {
        if (writers_us > w->now_us)
            w->now_us = writers_us;
        (void)writers_step(w);
        w->now_us += dice_between(&w->dice, 10, 500);
        return;
    }
    if (process_us > w->now_us)
        w->now_us = process_us;
    check_soon(s); /* before it makes good for being late */
    sim_serve(s, process);
}

static void chaos(sim *s)
{
    int64_t until_us = s->world.now_us + CHAOS_US;

    while (s->stats.services < CHAOS_SERVICES && s->world.now_us < until_us &&
           !s->checker.violated) {
        go_on(s);
        if (writers_next_us(&s->world) == INT64_MAX && dice_roll(&s->world.dice, 40) == 0)
            break;
    }
}

static void heal(sim *s)
{
    sim_tell(s, "healing");
    s->healing = true;
    s->world.down_until_us = 0;
    writers_heal(&s->world);
    for (int i = 0; i < s->server.subs_n; i++)
        fake_prove_late(&s->server, i);
    for (int i = 0; i < SIM_PROCESSES; i++) {
        /* A crash that a pooler has hidden may have taken the last checkpoint of somebody who has
           nothing else to store: whoever comes next starts from what is there. */
        if (s->server.pooled && s->stats.restarts > 0)
            sim_kill(s, &s->processes[i]);
        s->processes[i].wake_us = s->world.now_us;
    }
}

static bool is_healed(const sim *s)
{
    if (!writers_are_idle(&s->world))
        return false;
    for (int i = 0; i < s->plans_n; i++) {
        if (checker_unfinished(&s->checker, i) != 0 || !checker_is_at_end(&s->checker, i))
            return false;
    }
    return true;
}

/* An operator who does not give up. */
static void resume_all(sim *s)
{
    for (int i = 0; i < s->server.subs_n; i++)
        s->server.subs[i].status = HW_SUB_ACTIVE;
}

static int64_t heal_services(const sim *s)
{
    if (s->checker.weak)
        return HEAL_WEAK;
    return s->world.bursts > 0 ? HEAL_BURST : HEAL_SERVICES;
}

/* C5 */
static void wait_for_the_end(sim *s)
{
    int64_t until_us = s->world.now_us + HEAL_US;
    int64_t until = s->stats.services + heal_services(s);

    while (!s->checker.violated && !is_healed(s)) {
        if (s->world.now_us > until_us || s->stats.services > until) {
            for (int i = 0; i < s->plans_n; i++) {
                int64_t number = checker_unfinished(&s->checker, i);

                if (number != 0)
                    checker_suspect(&s->checker, i, number, "lost: it is never settled");
                else if (!checker_is_at_end(&s->checker, i))
                    checker_suspect(&s->checker, i, s->server.subs[i].high,
                                    "its checkpoint does not get to the end");
            }
            checker_suspect(&s->checker, 0, 0, "writers never end");
            return;
        }
        resume_all(s);
        go_on(s);
    }
}

static void end(sim *s)
{
    for (int i = 0; i < SIM_PROCESSES; i++) {
        if (s->processes[i].bus)
            sim_stop(s, &s->processes[i]);
    }
    for (int i = 0; i < s->plans_n && !s->checker.violated; i++) {
        if (checker_unfinished(&s->checker, i) != 0)
            checker_suspect(&s->checker, i, 0, "closing lost something");
    }
}

void sim_run(sim *s, uint64_t seed, const sim_bug *bug, sim_result *ret_result)
{
    begin(s, seed, bug);
    chaos(s);
    heal(s);
    wait_for_the_end(s);
    end(s);
    s->stats.events = s->world.orders;
    s->stats.bursts = s->world.bursts;
    for (int i = 0; i < s->server.subs_n; i++)
        s->stats.takes += s->server.subs[i].token;
    ret_result->violated = s->checker.violated;
    memcpy(ret_result->what, s->checker.what, sizeof ret_result->what);
    ret_result->trace = s->world.trace;
    ret_result->stats = s->stats;
}
