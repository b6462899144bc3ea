/* plan.c - what a seed stands for: subscriptions, their options, and what goes wrong how often. */
#include <stdio.h>

#include "sim.h"

static const char *const patterns[] = {NULL, NULL, "order.*", "stock.>", "order.paid", "*.moved"};

static void plan_subscription(sim *s, int i)
{
    sim_dice *dice = &s->world.dice;
    sim_plan *plan = &s->plans[i];
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    (void)snprintf(plan->id, sizeof plan->id, "sub%d", i);
    plan->pattern = patterns[dice_roll(dice, sizeof patterns / sizeof patterns[0])];
    plan->from_end = dice_roll(dice, 6) == 0;
    o.subscriber_id = plan->id;
    o.pattern = plan->pattern;
    o.start = plan->from_end ? HOWDAH_FROM_END : HOWDAH_FROM_START;
    o.instance = dice_roll(dice, 2) == 0 ? HOWDAH_INSTANCE_COORDINATED : HOWDAH_INSTANCE_LEASE;
    o.checkpoint = (howdah_checkpoint_mode)dice_roll(dice, 3);
    o.batch_size = dice_between(dice, 1, 20);
    o.max_delay_ms = dice_between(dice, 1, 2000);
    o.max_retries = dice_between(dice, 0, 3);
    o.retry_delay_ms = dice_between(dice, 0, 500);
    o.max_retry_delay_ms = 2000;
    o.on_fail = dice_roll(dice, 5) == 0 ? HOWDAH_FAIL_CLOSED : HOWDAH_FAIL_OPEN;
    o.ordering = dice_roll(dice, 4) == 0 ? HOWDAH_ORDERING_STRICT : HOWDAH_ORDERING_AHEAD;
    o.gap_policy = dice_roll(dice, 10) == 0 ? HOWDAH_GAP_TIMEOUT : HOWDAH_GAP_PROOF;
    o.gap_timeout_ms = dice_between(dice, 1, 3000);
    o.catch_up_batch = dice_between(dice, 1, 30);
    o.outstanding_max = dice_roll(dice, 4) == 0 ? dice_between(dice, 1, 8) : 4096;
    o.lease_ms = dice_between(dice, 500, 4000);
    plan->options = o;
    sim_tell(s,
             "%s: pattern %s, start %lld, instance %d, checkpoint %d (%lld, %lld ms), retries %lld,"
             " on_fail %d, ordering %d, gap_policy %d (%lld ms), batch %lld, outstanding_max %lld, "
             "lease %lld",
             plan->id, o.pattern ? o.pattern : "-", (long long)o.start, (int)o.instance,
             (int)o.checkpoint, (long long)o.batch_size, (long long)o.max_delay_ms,
             (long long)o.max_retries, (int)o.on_fail, (int)o.ordering, (int)o.gap_policy,
             (long long)o.gap_timeout_ms, (long long)o.catch_up_batch, (long long)o.outstanding_max,
             (long long)o.lease_ms);
}

/* One seed in a few has a kind of fault at all, and then it may be rare or frequent. */
static uint32_t some(sim *s, uint32_t one_in, uint32_t most)
{
    if (dice_roll(&s->world.dice, one_in) != 0)
        return 0;
    return 1 + dice_roll(&s->world.dice, most);
}

static void plan_faults(sim *s)
{
    s->faults = (sim_faults){
        .refuse = some(s, 2, 100),
        .cut_before = some(s, 2, 100),
        .cut_after = some(s, 2, 100),
        .late_commit = some(s, 2, 1000),
        .kill = some(s, 3, 50),
        .slow = some(s, 2, 5000),
        .switches = some(s, 1, 1500),
        .handler_kill = some(s, 3, 100),
        .handler_nap = some(s, 2, 500),
        .handler_fail = some(s, 2, 3000),
        .handler_halt = some(s, 8, 100),
        .pause = some(s, 2, 100),
        .restart = some(s, 3, 60),
        .leave = some(s, 3, 100),
        .meddle = some(s, 3, 200),
        .poison = some(s, 4, 300),
        .killers = some(s, 8, 100),
    };
}

/* One subscription in one process, which has few other reasons to wake up. */
static void plan_bell(sim *s)
{
    s->plans_n = 1;
    s->plans[0].options.lease_ms = 4000;
    s->plans[0].options.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    s->faults.slow = 10000;
}

/* The server is replaced under the processes, one to three times. */
static void plan_replacements(sim *s)
{
    sim_dice *dice = &s->world.dice;

    s->replacements = 0;
    s->untold = false;
    s->world.prepares = false;
    s->server.pooled = false;
    if (s->calm)
        return;
    s->server.pooled = dice_roll(dice, 5) == 0;
    /* Crashes that a pooler hides, and what outlives them. */
    s->world.prepares = s->server.pooled && dice_roll(dice, 2) == 0;
    if (s->world.prepares) {
        s->faults.restart = 300;
        s->world.patience_us = INT64_C(180) * 1000000;
        return;
    }
    if (dice_roll(dice, 5) >= 2)
        return;
    s->server.pooled = s->server.pooled || dice_roll(dice, 4) == 0;
    s->replacements = 1 + (int)dice_roll(dice, 3);
    s->untold = dice_roll(dice, 5) == 0;
    s->faults.image = 1 + dice_roll(dice, 200);
    s->faults.replace = 1 + dice_roll(dice, 60);
}

/* Hundreds of numbers are missing at once, under transactions that are open for minutes. */
static void plan_burst(sim *s)
{
    world *w = &s->world;

    w->sleeper = dice_roll(&w->dice, 6) == 0;
    w->burst = 0;
    w->bursts = 0;
    if (s->calm || dice_roll(&w->dice, 12) != 0)
        return;
    w->sleeper = true;
    w->burst = (int32_t)dice_between(&w->dice, 100, 700);
    w->numbers_max += w->burst;
    w->patience_us = INT64_C(180) * 1000000;
}

void sim_plan_run(sim *s)
{
    sim_dice *dice = &s->world.dice;

    s->plans_n = 1 + (int)dice_roll(dice, FAKE_SUBS);
    for (int i = 0; i < s->plans_n; i++)
        plan_subscription(s, i);
    s->calm = dice_roll(dice, 6) == 0;
    if (s->calm)
        s->faults = (sim_faults){0};
    else
        plan_faults(s);
    s->bell = s->calm && dice_roll(dice, 3) != 0;
    if (s->bell)
        plan_bell(s);
    s->pace = s->calm || dice_roll(dice, 3) == 0 ? 1 : 12;
    s->rows = s->bell || dice_roll(dice, 2) == 0 ? 0 : 1 + dice_roll(dice, 8);
    s->server.sees_idle = dice_roll(dice, 3) != 0;
    s->world.lazy_ids = dice_roll(dice, 4) == 0;
    s->world.numbers_max = (int32_t)dice_between(dice, 20, 160);
    s->world.patience_us = dice_roll(dice, 2) == 0 ? 2000000 : INT64_C(180) * 1000000;
    plan_burst(s);
    plan_replacements(s);
}
