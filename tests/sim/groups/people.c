/* people.c - those who operate the group, in the midst of its work and in the end. */
#include "sim.h"

static void tell_status(group_sim *s, const char *call, int status, const howdah_error *err)
{
    sim_tell(s, call, 0, 0, status);
    if (status < 0)
        sim_surprise(s, call, status, err);
    s->seen_version = -1; /* it is this bus that has written */
    sim_observe(s);
}

static void resume(group_sim *s)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    tell_status(s, "resume", howdah_subscription_resume(s->bus, SIM_GROUP, &err), &err);
}

static void pause(group_sim *s)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    s->stats.pauses++;
    tell_status(s, "pause", howdah_subscription_pause(s->bus, SIM_GROUP, "a test", &err), &err);
}

static void redrive(group_sim *s, const sim_dead_letter *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t n = 0;
    int status = howdah_dead_letters_redrive(s->bus, &d->id, 1, NULL, &n, &err);

    sim_tell(s, "redrive", d->id, d->number, n);
    if (n > 0) {
        checker_redrive(&s->checker, d->number);
        s->stats.redrives++;
    }
    tell_status(s, "redriven", status, &err);
}

static void discard(group_sim *s, const sim_dead_letter *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t n = 0;
    int status = howdah_dead_letters_discard(s->bus, &d->id, 1, "a test", &n, &err);

    sim_tell(s, "discard", d->id, d->number, n);
    if (n > 0) {
        checker_discarded(&s->checker, d->number);
        s->stats.discards++;
    }
    tell_status(s, "discarded", status, &err);
}

/* One that is open; NULL: the dice do not find any. */
static const sim_dead_letter *any_dead_letter(group_sim *s)
{
    const sim_dead_letter *d = NULL;

    if (s->found_n > 0)
        d = &s->found[dice_roll(&s->dice, (uint32_t)s->found_n)];
    return d && d->open ? d : NULL;
}

void sim_meddle(group_sim *s)
{
    const sim_dead_letter *d = any_dead_letter(s);
    uint32_t what = dice_roll(&s->dice, 5);

    if (what == 0)
        pause(s);
    else if (d && what == 1)
        discard(s, d);
    else if (d && what <= 3)
        redrive(s, d);
    else
        resume(s);
}

/* Dead letters of before would be taken for new ones. */
static void discard_all(group_sim *s)
{
    for (int i = 0; i < s->found_n; i++)
        if (s->found[i].open)
            discard(s, &s->found[i]);
}

void sim_reset(group_sim *s)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t to = dice_between(&s->dice, 0, s->checker.n);
    int status;

    discard_all(s);
    status = howdah_subscription_reset(s->bus, SIM_GROUP, to, &err);
    sim_tell(s, "reset", 0, to, 0);
    checker_reset(&s->checker, to);
    s->stats.resets++;
    tell_status(s, "reset", status, &err);
}

void sim_mend(group_sim *s)
{
    if (s->checker.paused || s->checker.halted)
        resume(s);
    if (s->plan.rules.on_fail == HOWDAH_FAIL_HOLD)
        discard_all(s);
}
