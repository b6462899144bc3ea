/* plan.c - what a seed stands for: the group, its members, their faults. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

const char *sim_stream_name(int stream)
{
    static const char *const names[] = {"ant", "bee", "cat", "dog", "elk", "fox"};

    _Static_assert(sizeof names / sizeof *names == SIM_STREAMS, "a name for each");
    return names[stream];
}

const char *sim_type_of(uint64_t seed, int64_t number)
{
    return dice_hash(seed, (uint64_t)number, 7) % 3 == 0 ? "thing.gone" : "thing.made";
}

bool sim_concerns(const sim_plan *plan, uint64_t seed, int64_t number, int stream)
{
    if (plan->pattern && strcmp(plan->pattern, "thing.made") == 0 &&
        strcmp(sim_type_of(seed, number), plan->pattern) != 0)
        return false;
    return !plan->stream || strcmp(plan->stream, sim_stream_name(stream)) == 0;
}

bool sim_is_poison(const group_sim *s, int64_t number)
{
    bool cured = s->healing && s->plan.rules.on_fail == HOWDAH_FAIL_CLOSED;

    return !cured && dice_hash(s->seed, (uint64_t)number, 1) % 10000 < s->plan.faults.poison;
}

bool sim_is_killer(const group_sim *s, int64_t number)
{
    return !s->healing && dice_hash(s->seed, (uint64_t)number, 2) % 10000 < s->plan.faults.killers;
}

/* In most runs a kind of trouble is not there at all: so the others show. */
static uint32_t some(sim_dice *dice, uint32_t of_10, uint32_t most)
{
    return dice_roll(dice, 10) < of_10 ? 1 + dice_roll(dice, most) : 0;
}

static sim_faults make_faults(sim_dice *dice)
{
    return (sim_faults){
        .fail = some(dice, 7, 3000),
        .regret = some(dice, 3, 1000),
        .kill = some(dice, 6, 600),
        .nap = some(dice, 6, 1500),
        .part = some(dice, 5, 3000),
        .extend = some(dice, 4, 1500),
        .release = some(dice, 4, 1000),
        .leave = some(dice, 3, 500),
        .again = some(dice, 5, 3000),
        .meddle = some(dice, 5, 1200),
        .reset = some(dice, 1, 200),
        .reboot = some(dice, 1, 150),
        .poison = some(dice, 4, 1500),
        .killers = some(dice, 3, 800),
    };
}

static check_rules make_rules(sim_dice *dice, howdah_order_key key)
{
    static const howdah_on_fail fates[] = {HOWDAH_FAIL_OPEN, HOWDAH_FAIL_OPEN, HOWDAH_FAIL_HOLD,
                                           HOWDAH_FAIL_CLOSED};

    return (check_rules){.by_stream = key == HOWDAH_ORDER_BY_STREAM,
                         .max_retries = (int)dice_roll(dice, 4),
                         .retry_delay_ms = dice_roll(dice, 2) ? dice_between(dice, 0, 300) : 0,
                         .max_retry_delay_ms = 400,
                         .on_fail = fates[dice_roll(dice, 4)]};
}

void sim_make_plan(sim_plan *plan, sim_dice *dice)
{
    *plan = (sim_plan){.processes = 1 + (int)dice_roll(dice, SIM_PROCESSES),
                       .members = 1 + (int)dice_roll(dice, SIM_MEMBERS),
                       .streams = 1 + (int)dice_roll(dice, SIM_STREAMS),
                       .events = dice_between(dice, 5, 50),
                       .steps = (int)dice_between(dice, 40, 120),
                       .lanes = INT64_C(1) << dice_roll(dice, 4),
                       .max_events = dice_between(dice, 1, dice_roll(dice, 3) ? 5 : 16),
                       .lease_ms = dice_between(dice, 20, dice_roll(dice, 2) ? 100 : 2000),
                       .key = dice_roll(dice, 5) ? HOWDAH_ORDER_BY_STREAM : HOWDAH_ORDER_NONE,
                       .pace_us = dice_between(dice, 100, 20000)};
    plan->rules = make_rules(dice, plan->key);
    plan->faults = make_faults(dice);
    if (dice_roll(dice, 4) == 0)
        plan->pattern = dice_roll(dice, 2) ? "thing.made" : "thing.*";
    if (dice_roll(dice, 12) == 0)
        plan->stream = sim_stream_name(0);
    if (dice_roll(dice, 4) == 0)
        plan->before = dice_between(dice, 1, 10);
    if (dice_roll(dice, 3) == 0)
        plan->start = dice_roll(dice, 2) ? HOWDAH_FROM_END : dice_between(dice, 0, plan->before);
}
