/* process.c - the processes of a run: their handlers, their deaths, their turns. */
#include <assert.h>
#include <string.h>

#include "bus/bus.h"
#include "bus/subscription/subscription.h"
#include "sim.h"

/* Where the bell is to be enough; the store is asked for news of a subscription every second. */
#define BELL_POLL_MS 60000
/* An operation that is slow. */
#define SLOW_US 30000

/* ------------------------------------------------------------------- what happens */

void sim_kill(sim *s, sim_process *p)
{
    if (p->client.dead)
        return;
    p->client.dead = true;
    s->stats.kills++;
    sim_tell(s, "p%d is killed", p->client.number);
    world_note(&s->world, 50, (uint64_t)p->client.number);
}

static void crash_server(sim *s)
{
    sim_tell(s, "the server crashes");
    world_crash(&s->world);
    fake_crash(&s->server, dice_roll(&s->world.dice, 2) == 0);
    s->world.down_until_us = s->world.now_us + dice_between(&s->world.dice, 0, 1500000);
    s->stats.restarts++;
}

static void keep_image(sim *s)
{
    sim_image *image = &s->images[dice_roll(&s->world.dice, SIM_IMAGES)];

    image->there = true;
    image->world = s->world;
    fake_save(&image->server, &s->server);
    image->checker = s->checker;
    s->stats.images++;
    sim_tell(s, "an image is kept: %d drawn, high %d", (int)s->world.drawn,
             (int)s->world.visible_high);
}

/* A fail-over to a standby that lagged, or a restore: nothing of what came after is there. */
static void replace_server(sim *s)
{
    const sim_image *image = &s->images[dice_roll(&s->world.dice, SIM_IMAGES)];
    bool told = !s->untold;

    if (!image->there)
        return;
    checker_replace(&s->checker, &image->checker, &image->world);
    world_replace(&s->world, &image->world, told);
    fake_replace(&s->server, &image->server);
    if (!s->server.pooled)
        s->world.down_until_us = s->world.now_us + dice_between(&s->world.dice, 0, 1500000);
    sim_tell(s, "the server is replaced%s: %d drawn, high %d", told ? "" : ", and does not say so",
             (int)s->world.drawn, (int)s->world.visible_high);
    for (int i = 0; i < SIM_IMAGES; i++)
        s->images[i].there = false;
    s->checker.weak = s->checker.weak || (!told && s->server.pooled && !s->all);
    s->replacements--;
    s->stats.replaced++;
    s->stats.hidden += s->server.pooled;
    s->stats.untold += !told;
}

static void maybe_replace(sim *s)
{
    if (s->replacements == 0 || s->server.subs_n < s->plans_n)
        return;
    if (dice_chance(&s->world.dice, s->faults.replace))
        replace_server(s);
    else if (dice_chance(&s->world.dice, s->faults.image))
        keep_image(s);
}

/* The other process gets its turn, in the middle of ours. */
static void serve_others(sim *s)
{
    for (int i = 0; i < SIM_PROCESSES; i++) {
        if (!s->processes[i].on_stack && s->processes[i].wake_us <= s->world.now_us)
            sim_serve(s, i);
    }
}

void sim_pass_time(sim *s, int64_t us)
{
    world *w = &s->world;
    int64_t until_us = w->now_us + us;

    while (w->now_us < until_us) {
        int64_t next_us = writers_next_us(w);

        for (int i = 0; i < SIM_PROCESSES && s->depth < 2; i++) {
            if (!s->processes[i].on_stack && s->processes[i].wake_us < next_us)
                next_us = s->processes[i].wake_us;
        }
        if (next_us > w->now_us)
            w->now_us = next_us < until_us ? next_us : until_us;
        (void)writers_step(w);
        if (s->depth < 2)
            serve_others(s);
        w->now_us += 50;
    }
}

static fake_verdict fault(sim *s, sim_process *p, fake_op op)
{
    sim_dice *dice = &s->world.dice;
    const sim_faults *f = &s->faults;

    if (dice_chance(dice, f->kill)) {
        sim_kill(s, p);
        return dice_roll(dice, 2) == 0 ? FAKE_FAIL_BEFORE : FAKE_FAIL_AFTER;
    }
    if (op == FAKE_COMMIT && dice_chance(dice, f->late_commit)) {
        s->stats.late++;
        return FAKE_LATE;
    }
    if (dice_chance(dice, f->refuse)) {
        s->stats.refusals++;
        return FAKE_REFUSE;
    }
    if (dice_chance(dice, f->cut_before)) {
        s->stats.cuts++;
        return FAKE_FAIL_BEFORE;
    }
    if (dice_chance(dice, f->cut_after)) {
        s->stats.cuts++;
        return FAKE_FAIL_AFTER;
    }
    return FAKE_GO;
}

fake_verdict sim_before(void *ctx, fake_store *store, fake_op op)
{
    sim *s = ctx;
    sim_process *p = &s->processes[store->client->number];
    uint32_t steps = dice_roll(&s->world.dice, 3);

    if (dice_roll(&s->world.dice, 20) == 0) /* transactions begin and end between two statements */
        steps += dice_roll(&s->world.dice, 50);
    s->stats.operations++;
    s->world.now_us += 20 + dice_roll(&s->world.dice, 300);
    while (steps-- > 0)
        (void)writers_step(&s->world);
    if (s->healing)
        return FAKE_GO;
    /* Where events are to come soon they are read and handled at full speed. */
    if ((!s->bell || op == FAKE_ASK) && dice_chance(&s->world.dice, s->faults.slow))
        sim_pass_time(s, dice_between(&s->world.dice, 0, SLOW_US));
    if (s->depth < 2 && dice_chance(&s->world.dice, s->faults.switches))
        serve_others(s);
    maybe_replace(s);
    return fault(s, p, op);
}

/* ----------------------------------------------------------------------- handlers */

bool sim_is_poison(const sim *s, int sub, int64_t number)
{
    /* One that halts its subscription is mended some day. */
    if (s->healing && s->plans[sub].options.on_fail == HOWDAH_FAIL_CLOSED)
        return false;
    return dice_hash(s->seed, (uint64_t)sub + 1, (uint64_t)number) % 10000 < s->faults.poison;
}

static bool is_killer(const sim *s, int sub, int64_t number)
{
    if (s->healing && s->plans[sub].options.on_fail == HOWDAH_FAIL_CLOSED)
        return false;
    return dice_hash(s->seed, (uint64_t)sub + 101, (uint64_t)number) % 10000 < s->faults.killers;
}

static int succeed(sim *s, const sim_handler *h, const howdah_event *event,
                   const howdah_delivery *delivery)
{
    int64_t token = delivery->sub->ownership.token;

    if (delivery->tx) {
        if (!((fake_store *)delivery->tx)->in_transaction)
            return HOWDAH_NOT_HANDLED;
        fake_effect(delivery->tx, event->global_sequence, fake_life(event));
    } else {
        checker_handled(&s->checker, h->sub, h->process, token, event->global_sequence,
                        fake_life(event));
    }
    s->stats.handled++;
    return HOWDAH_HANDLED;
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    const sim_handler *h = ctx;
    sim *s = h->sim;
    sim_process *p = &s->processes[h->process];
    sim_dice *dice = &s->world.dice;
    int64_t number = event->global_sequence;

    if (p->client.dead)
        return HOWDAH_HALT; /* there is nobody any more: what it would do never happens */
    sim_tell(s, "p%d sub%d delivers %lld (%s %lld), token %lld, attempt %d", h->process, h->sub,
             (long long)number, event->stream.s, (long long)event->version,
             (long long)delivery->sub->ownership.token, delivery->attempt);
    s->stats.deliveries++;
    s->stats.redrives += delivery->redrive;
    world_note(&s->world, 60 + (uint64_t)h->process, (uint64_t)number);
    checker_delivered(&s->checker, h->sub, h->process, delivery->sub->ownership.token, number,
                      fake_life(event), delivery->redrive);
    if (is_killer(s, h->sub, number)) {
        sim_kill(s, p);
        return HOWDAH_HANDLED; /* nobody hears it */
    }
    if (!s->healing && dice_chance(dice, s->faults.handler_nap))
        sim_pass_time(s, dice_between(dice, 0, 6000000));
    if (sim_is_poison(s, h->sub, number))
        return howdah_delivery_fail(delivery, "poison");
    if (!s->healing && dice_chance(dice, s->faults.handler_fail))
        return HOWDAH_NOT_HANDLED;
    if (!s->healing && dice_chance(dice, s->faults.handler_halt)) {
        s->stats.halts++;
        return HOWDAH_HALT;
    }
    if (succeed(s, h, event, delivery) != HOWDAH_HANDLED)
        return HOWDAH_NOT_HANDLED;
    if (!s->healing && dice_chance(dice, s->faults.handler_kill))
        sim_kill(s, p);
    return HOWDAH_HANDLED;
}

/* --------------------------------------------------------------------- processes */

static int open_second(void *ctx, const hw_interrupt *interrupt, hw_store **ret_store,
                       howdah_error *reterr)
{
    (void)interrupt;
    (void)reterr;
    *ret_store = fake_open(ctx);
    return HOWDAH_OK;
}

void sim_stop(sim *s, sim_process *p)
{
    (void)s;
    howdah_close(p->bus);
    p->bus = NULL;
    memset(p->subs, 0, sizeof p->subs);
}

static bool start(sim *s, sim_process *p)
{
    int s_open;

    p->client.dead = false;
    p->client.bell_us = 0;
    s_open = hw_bus_over(fake_open(&p->client), NULL, &p->bus, NULL);
    assert(s_open == HOWDAH_OK);
    (void)s_open;
    p->bus->open_store = open_second;
    if (s->bell)
        p->bus->poll_interval_ms = BELL_POLL_MS;
    p->bus->open_ctx = &p->client;
    for (int i = 0; i < s->plans_n; i++) {
        howdah_subscribe_options o = s->plans[i].options;
        howdah_error err = HOWDAH_ERROR_INIT;

        p->handlers[i] = (sim_handler){s, p->client.number, i};
        o.handler = on_event;
        o.ctx = &p->handlers[i];
        if (howdah_subscribe(p->bus, &o, &p->subs[i], &err) < 0)
            return false;
    }
    return true;
}

static bool ensure_started(sim *s, sim_process *p)
{
    if (p->bus && p->client.dead)
        sim_stop(s, p);
    if (p->bus)
        return true;
    if (start(s, p))
        return true;
    p->client.dead = true;
    sim_stop(s, p);
    return false;
}

/* An operator looks in. */
static void meddle(sim *s, sim_process *p)
{
    const char *id = s->plans[dice_roll(&s->world.dice, (uint32_t)s->plans_n)].id;

    switch (dice_roll(&s->world.dice, 4)) {
    case 0:
        (void)howdah_subscription_pause(p->bus, id, "a break", NULL);
        break;
    case 1:
        (void)howdah_dead_letters_redrive(p->bus, NULL, 0, id, NULL, NULL);
        break;
    default:
        (void)howdah_subscription_resume(p->bus, id, NULL);
        break;
    }
}

/* When it wants to be served again, and when it will be. */
static int64_t next_pass_us(sim *s, const sim_process *p, bool worked)
{
    int64_t ms = worked ? 0 : howdah_timeout_ms(p->bus);
    uint32_t factor = 1 + dice_roll(&s->world.dice, (uint32_t)s->pace);
    int64_t at_us;

    if (ms < 0 || ms > 60000)
        ms = 60000;
    at_us = s->world.now_us + (s->healing ? ms : ms * factor) * 1000 + 1;
    if (p->client.bell_us > 0 && p->client.bell_us < at_us)
        at_us = p->client.bell_us;
    return at_us > s->world.now_us ? at_us : s->world.now_us + 1;
}

static void service(sim *s, sim_process *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    bool worked = false;
    int status;

    if (s->rows > 0)
        p->bus->service->reader.rows = s->rows;
    checker_pass(&s->checker, p->client.number);
    status = howdah_service(p->bus, &worked, &err);
    s->stats.services++;
    if (status < 0)
        sim_tell(s, "p%d: %s", p->client.number, err.message);
    if (status < 0)
        p->wake_us = s->world.now_us + dice_between(&s->world.dice, 1000, 300000);
    else
        p->wake_us = next_pass_us(s, p, worked);
    if (!s->healing && dice_chance(&s->world.dice, s->faults.pause))
        p->wake_us = s->world.now_us + dice_between(&s->world.dice, 0, 8000000);
    if (!s->healing && !p->client.dead && dice_chance(&s->world.dice, s->faults.meddle))
        meddle(s, p);
    if (!s->healing && !p->client.dead && dice_chance(&s->world.dice, s->faults.leave)) {
        sim_tell(s, "p%d leaves", p->client.number);
        sim_stop(s, p);
    }
    if (!p->bus || p->client.dead) /* it is started again some time */
        p->wake_us = s->world.now_us + dice_between(&s->world.dice, 1000, 3000000);
}

void sim_serve(sim *s, int process)
{
    sim_process *p = &s->processes[process];

    assert(!p->on_stack);
    p->on_stack = true;
    s->depth++;
    if (ensure_started(s, p))
        service(s, p);
    else
        p->wake_us = s->world.now_us + dice_between(&s->world.dice, 1000, 500000);
    if (!s->healing && dice_chance(&s->world.dice, s->faults.restart))
        crash_server(s);
    s->depth--;
    p->on_stack = false;
}
