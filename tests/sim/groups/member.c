/* member.c - what members of a group do, well or badly. */
#include "sim.h"

#include <string.h>

static int64_t number_at(const sim_member *m, size_t i)
{
    return howdah_event_global_sequence(howdah_batch_event(m->batch, i));
}

static int64_t who(const group_sim *s, const sim_member *m)
{
    for (int i = 0; i < SIM_PROCESSES; i++)
        for (int k = 0; k < SIM_MEMBERS; k++)
            if (m == &s->processes[i].members[k])
                return i * 10 + k;
    return -1;
}

static bool happens(group_sim *s, uint32_t chance)
{
    return !s->healing && dice_chance(&s->dice, chance);
}

static void drop(sim_member *m)
{
    howdah_batch_free(m->batch);
    m->batch = NULL;
}

/* ---------------------------------------------------------------- processes */

static void join(group_sim *s, sim_process *p, sim_member *m)
{
    const sim_plan *plan = &s->plan;
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    int status;

    o.subscriber_id = SIM_GROUP;
    o.max_events = plan->max_events;
    o.lease_ms = plan->lease_ms;
    o.pattern = plan->pattern;
    o.stream = plan->stream;
    o.start = plan->start;
    o.key = plan->key;
    o.on_fail = plan->rules.on_fail;
    o.max_retries = plan->rules.max_retries;
    o.retry_delay_ms = plan->rules.retry_delay_ms;
    o.max_retry_delay_ms = plan->rules.max_retry_delay_ms;
    o.lanes = plan->lanes;
    *m = (sim_member){.held = -1};
    status = howdah_member_new(p->bus, &o, &m->member, &err);
    if (status < 0)
        sim_surprise(s, "join", status, &err);
}

void sim_start(group_sim *s, sim_process *p)
{
    p->bus = sim_log_bus(s);
    for (int i = 0; p->bus && i < s->plan.members; i++)
        join(s, p, &p->members[i]);
}

void sim_kill(group_sim *s, sim_process *p)
{
    if (!p->bus)
        return;
    sim_tell(s, "kill", p - s->processes, 0, 0);
    for (int i = 0; i < SIM_MEMBERS; i++) {
        drop(&p->members[i]);
        p->members[i] = (sim_member){.held = -1};
    }
    howdah_close(p->bus);
    p->bus = NULL;
    p->down_until_us = s->now_us + dice_between(&s->dice, 0, 2 * s->plan.lease_ms) * 1000;
    s->stats.kills++;
}

/* ----------------------------------------------------------------- verdicts */

/* What the library said to someone who named a token.  before: sim_version() before that. */
static bool is_verdict(group_sim *s, const sim_member *m, const char *call, int status,
                       int64_t before, const howdah_error *err)
{
    sim_tell(s, call, who(s, m), m->held, status);
    if (status == HOWDAH_LOST && sim_version(s) != before)
        checker_refused_wrote(&s->checker, m->held);
    if (status < 0 && status != HOWDAH_LOST)
        sim_surprise(s, call, status, err);
    s->stats.lost += status == HOWDAH_LOST;
    s->stats.late += status == HOWDAH_OK && s->checker.batches[m->held].until_us <= s->now_us;
    return status >= 0 || status == HOWDAH_LOST;
}

static int ack(group_sim *s, sim_member *m, int64_t upto)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t before = sim_version(s);
    int status = upto == INT64_MAX ? howdah_batch_ack(m->batch, &err)
                                   : howdah_batch_ack_upto(m->batch, upto, &err);

    if (is_verdict(s, m, "ack", status, before, &err))
        checker_acked(&s->checker, s->now_us, m->held, upto, status);
    sim_observe(s);
    return status;
}

/* True: the batch is gone. */
static bool ack_part(group_sim *s, sim_member *m)
{
    size_t upto = m->next - 1 - dice_roll(&s->dice, (uint32_t)m->next);
    int status = ack(s, m, number_at(m, upto));

    s->stats.parts++;
    for (size_t i = 0; i <= upto; i++)
        m->done[i] = false;
    if (status == HOWDAH_LOST || s->checker.batches[m->held].over)
        drop(m);
    return !m->batch;
}

static void release(group_sim *s, sim_member *m)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t before = sim_version(s);
    int status = howdah_batch_release(m->batch, &err);

    if (is_verdict(s, m, "release", status, before, &err))
        checker_released(&s->checker, s->now_us, m->held, status);
    s->stats.releases++;
    sim_observe(s);
    drop(m);
}

static void extend(group_sim *s, sim_member *m)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t before = sim_version(s);
    int64_t ms = dice_between(&s->dice, 1, 2 * s->plan.lease_ms);
    int status = howdah_batch_extend(m->batch, ms, &err);

    if (is_verdict(s, m, "extend", status, before, &err))
        checker_extended(&s->checker, s->now_us, m->held, s->now_us + ms * 1000, status);
    s->stats.extends++;
    if (status == HOWDAH_LOST)
        drop(m);
}

/* The event, and the later ones of its stream, are not this batch's matter any more. */
static void leave_out(const group_sim *s, sim_member *m, size_t at)
{
    const check_event *events = s->checker.events;
    int stream = events[number_at(m, at)].stream;

    for (size_t i = at; i < howdah_batch_size(m->batch); i++)
        if (i == at || (s->plan.rules.by_stream && events[number_at(m, i)].stream == stream)) {
            m->failed[i] = true;
            m->done[i] = false;
        }
}

static void nack(group_sim *s, sim_member *m, size_t at)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t after_ms = dice_roll(&s->dice, 3) ? -1 : dice_between(&s->dice, 0, 200);
    int64_t before = sim_version(s);
    int status = howdah_batch_nack(m->batch, number_at(m, at), "no", after_ms, &err);

    sim_tell(s, "nack of", who(s, m), number_at(m, at), after_ms);
    if (is_verdict(s, m, "nack", status, before, &err))
        checker_nacked(&s->checker, s->now_us, m->held, number_at(m, at), after_ms, status);
    s->stats.fails++;
    leave_out(s, m, at);
    sim_observe(s);
    if (status == HOWDAH_LOST || s->checker.batches[m->held].over)
        drop(m);
}

/* ----------------------------------------------------------------- fetching */

static void begin(group_sim *s, sim_member *m, howdah_batch *batch)
{
    check_gift gift = {.retry = howdah_batch_token(batch)[0] == 'r',
                       .attempt = howdah_batch_attempt(batch),
                       .until_us = s->now_us + s->plan.lease_ms * 1000,
                       .n = (int)howdah_batch_size(batch)};
    howdah_member *member = m->member;

    *m = (sim_member){.member = member, .batch = batch};
    if (gift.n > CHECK_BATCH_EVENTS || gift.n > s->plan.max_events) {
        checker_violate(&s->checker, number_at(m, 0), "the batch is too large");
        return;
    }
    for (int i = 0; i < gift.n; i++) {
        gift.events[i] = number_at(m, (size_t)i);
        sim_tell(s, gift.retry ? "again" : "given", who(s, m), gift.events[i], gift.attempt);
    }
    m->held = checker_given(&s->checker, s->now_us, &gift);
    if (m->held < 0)
        checker_violate(&s->checker, 0, "there are too many batches");
    s->stats.batches++;
    s->stats.retries += gift.retry;
    s->stats.suspects += gift.attempt > 1 && !gift.retry;
}

/* HOWDAH_OK: there is something. */
static bool fetch(group_sim *s, sim_member *m)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_batch *batch = NULL;
    int status = howdah_member_fetch(m->member, 0, &batch, &err);

    if (status < 0)
        sim_surprise(s, "fetch", status, &err);
    sim_observe(s);
    if (status == HOWDAH_OK)
        begin(s, m, batch);
    return status == HOWDAH_OK;
}

static void exchange(group_sim *s, sim_member *m)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_batch *batch = NULL;
    int64_t before = sim_version(s);
    int status = howdah_member_exchange(m->member, m->batch, 0, &batch, &err);

    s->stats.exchanges++;
    if (is_verdict(s, m, "exchange", status == HOWDAH_END ? HOWDAH_OK : status, before, &err))
        checker_acked(&s->checker, s->now_us, m->held, INT64_MAX,
                      status == HOWDAH_END ? HOWDAH_OK : status);
    sim_observe(s);
    if (status < 0)
        drop(m);
    m->batch = NULL;
    if (status == HOWDAH_OK)
        begin(s, m, batch);
}

/* ----------------------------------------------------------------- handling */

static void finish(group_sim *s, sim_member *m)
{
    if (dice_roll(&s->dice, 4) == 0) {
        exchange(s, m);
        return;
    }
    if (ack(s, m, INT64_MAX) == HOWDAH_OK && happens(s, s->plan.faults.again)) {
        s->stats.agains++;
        (void)ack(s, m, INT64_MAX);
    }
    drop(m);
}

static void handle(group_sim *s, sim_process *p, sim_member *m)
{
    size_t at = m->next++;
    int64_t number = number_at(m, at);

    if (m->failed[at])
        return;
    checker_begun(&s->checker, s->now_us, m->held, number);
    sim_tell(s, "handle", who(s, m), number, 0);
    if (sim_is_killer(s, number) || happens(s, s->plan.faults.kill)) {
        sim_kill(s, p);
    } else if (sim_is_poison(s, number) || happens(s, s->plan.faults.fail)) {
        nack(s, m, at);
    } else {
        m->done[at] = true;
        s->stats.handled++;
    }
}

/* One that it took for handled has failed after all. */
static bool regret(group_sim *s, sim_member *m)
{
    size_t at = dice_roll(&s->dice, (uint32_t)m->next);

    if (!m->done[at])
        return false;
    nack(s, m, at);
    return true;
}

static void leave(group_sim *s, sim_member *m)
{
    if (dice_roll(&s->dice, 2))
        release(s, m);
    else
        drop(m);
    howdah_member_free(m->member);
    m->member = NULL;
    s->stats.leaves++;
}

/* What members do besides handling.  True: that was its step. */
static bool stray(group_sim *s, sim_member *m)
{
    const sim_faults *f = &s->plan.faults;

    if (happens(s, f->nap)) {
        m->nap_until_us = s->checker.batches[m->held].until_us +
                          dice_between(&s->dice, 0, s->plan.lease_ms * 1000);
        s->stats.naps++;
    } else if (happens(s, f->extend)) {
        extend(s, m);
    } else if (happens(s, f->release)) {
        release(s, m);
    } else if (happens(s, f->leave)) {
        leave(s, m);
    } else if (m->next > 0 && happens(s, f->part)) {
        (void)ack_part(s, m);
    } else {
        return m->next > 0 && happens(s, f->regret) && regret(s, m);
    }
    return true;
}

bool sim_member_step(group_sim *s, sim_process *p, sim_member *m)
{
    if (s->now_us < m->nap_until_us && !s->healing)
        return false;
    if (!m->member) {
        join(s, p, m);
        return true;
    }
    if (!m->batch)
        return fetch(s, m);
    if (stray(s, m))
        return true;
    if (m->next < howdah_batch_size(m->batch))
        handle(s, p, m);
    else
        finish(s, m);
    if (p->bus && happens(s, s->plan.faults.kill / 4))
        sim_kill(s, p); /* with an answer that nobody has read */
    return true;
}
