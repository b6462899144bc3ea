/* sim.c - one run; see sim.h. */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../wraps.h"

#define BEGIN_US INT64_C(1000000000)
#define HEAL_ROUNDS 4000
#define IDLE_ROUNDS 15 /* nobody will get anything any more */
#define APPEND_CHANCE 2500

void sim_tell(group_sim *s, const char *what, int64_t who, int64_t number, int64_t more)
{
    uint64_t line = dice_hash((uint64_t)who, (uint64_t)number, (uint64_t)more);

    for (const char *at = what; *at; at++)
        line = line * 31 + (uint8_t)*at;
    s->trace = dice_hash(s->trace ^ (uint64_t)s->now_us, line, 0);
    if (s->show)
        printf("# %9.3f %-10s %3" PRId64 " %4" PRId64 " %4" PRId64 "\n",
               (double)(s->now_us - BEGIN_US) / 1000, what, who, number, more);
}

void sim_surprise(group_sim *s, const char *call, int status, const howdah_error *err)
{
    char what[CHECK_WHAT];

    (void)snprintf(what, sizeof what, "%s said %s: %.80s", call, howdah_status_name(status),
                   err->message);
    checker_violate(&s->checker, 0, what);
}

static void pass_time(group_sim *s)
{
    int64_t most = s->plan.pace_us;

    if (dice_roll(&s->dice, 20) == 0)
        most = s->plan.lease_ms * 2000;
    s->now_us += dice_between(&s->dice, 1, most); /* dead letters are told apart by their times */
}

static void reboot(group_sim *s)
{
    for (int i = 0; i < s->plan.processes; i++)
        sim_kill(s, &s->processes[i]);
    wraps_reboot();
    s->stats.reboots++;
    sim_tell(s, "reboot", 0, 0, 0);
    checker_rebooted(&s->checker, s->now_us);
}

static void any_member_step(group_sim *s)
{
    sim_process *p = &s->processes[dice_roll(&s->dice, (uint32_t)s->plan.processes)];

    if (!p->bus && s->now_us >= p->down_until_us)
        sim_start(s, p);
    if (p->bus)
        (void)sim_member_step(s, p, &p->members[dice_roll(&s->dice, (uint32_t)s->plan.members)]);
}

static void step(group_sim *s)
{
    const sim_faults *f = &s->plan.faults;

    if (s->checker.n < s->plan.events && dice_chance(&s->dice, APPEND_CHANCE))
        sim_append(s);
    else if (dice_chance(&s->dice, f->meddle))
        sim_meddle(s);
    else if (dice_chance(&s->dice, f->reset))
        sim_reset(s);
    else if (dice_chance(&s->dice, f->reboot))
        reboot(s);
    else
        any_member_step(s);
    pass_time(s);
    checker_step(&s->checker, s->now_us);
}

/* The first process, and whoever else has a batch: that is enough to get all of it done.  False:
   nobody had anything to do. */
static bool heal_round(group_sim *s)
{
    bool busy = false;

    sim_mend(s);
    if (!s->processes[0].bus)
        sim_start(s, &s->processes[0]);
    for (int i = 0; i < s->plan.processes; i++) {
        sim_process *p = &s->processes[i];

        for (int k = 0; p->bus && k < s->plan.members && !s->checker.violated; k++)
            if (i == 0 || p->members[k].batch)
                busy = sim_member_step(s, p, &p->members[k]) || busy;
    }
    checker_step(&s->checker, s->now_us);
    return busy;
}

static bool is_well(group_sim *s)
{
    for (int i = 0; i < s->plan.processes; i++)
        for (int k = 0; k < s->plan.members; k++)
            if (s->processes[i].members[k].batch)
                return false;
    return checker_unfinished(&s->checker) == 0 && sim_rows_left(s) == 0;
}

/* Leases run out, and retries become due: then all of it must come to its end (G1). */
static void heal(group_sim *s)
{
    int idle = 0;

    s->healing = true;
    sim_tell(s, "healing", 0, 0, 0);
    for (int i = 0; i < HEAL_ROUNDS && idle < IDLE_ROUNDS && !s->checker.violated && !is_well(s);
         i++) {
        idle = heal_round(s) ? 0 : idle + 1;
        s->now_us += idle ? 2 * s->plan.lease_ms * 1000 + 500000 : 100;
    }
    if (idle < IDLE_ROUNDS && !is_well(s))
        checker_violate(&s->checker, 0, "G1: the work has no end");
    if (checker_unfinished(&s->checker) > 0)
        checker_violate(&s->checker, checker_unfinished(&s->checker), "G1: it was never handled");
    else if (sim_rows_left(s) != 0)
        checker_violate(&s->checker, 0, "G1: rows are left that nobody will take");
}

/* The first process makes the group: events before that may not concern it. */
static void begin(group_sim *s)
{
    checker_init(&s->checker, &s->plan.rules, 0);
    for (int64_t i = 0; i < s->plan.before; i++)
        sim_append(s);
    s->checker.start = s->plan.start == HOWDAH_FROM_END ? s->plan.before : s->plan.start;
    sim_start(s, &s->processes[0]);
}

static void end(group_sim *s)
{
    for (int i = 0; i < s->plan.processes; i++)
        sim_kill(s, &s->processes[i]);
    sim_log_close(s);
}

void sim_run(group_sim *s, uint64_t seed, planted_bug bug, sim_result *ret_result)
{
    bool show = s->show;

    *s = (group_sim){.seed = seed, .now_us = BEGIN_US, .show = show, .seen_version = -1};
    s->dice.state = dice_hash(seed, 1, 1);
    planted_now = bug;
    planted_short = dice_roll(&s->dice, 2) == 0;
    sim_make_plan(&s->plan, &s->dice);
    wraps_use(&s->now_us, seed, NULL, NULL);
    if (sim_log_open(s))
        begin(s);
    else
        checker_violate(&s->checker, 0, "there is no log");
    for (int i = 0; i < s->plan.steps && !s->checker.violated; i++)
        step(s);
    if (!s->checker.violated)
        heal(s);
    end(s);
    *ret_result =
        (sim_result){.violated = s->checker.violated, .trace = s->trace, .stats = s->stats};
    memcpy(ret_result->what, s->checker.what, sizeof ret_result->what);
}
