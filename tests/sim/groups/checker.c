/* checker.c - what must hold of a group; see checker.h. */
#include "checker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define JITTER_PERCENT 10

void checker_violate(group_checker *c, int64_t number, const char *what)
{
    if (c->violated)
        return;
    c->violated = true;
    (void)snprintf(c->what, sizeof c->what, "event %lld: %s", (long long)number, what);
}

void checker_init(group_checker *c, const check_rules *rules, int64_t start)
{
    *c = (group_checker){.rules = *rules, .start = start};
}

void checker_appended(group_checker *c, int stream, bool concerns)
{
    assert(c->n < CHECK_EVENTS);
    c->events[++c->n] = (check_event){.stream = stream, .concerns = concerns};
}

/* ------------------------------------------------------------------- batches */

static bool is_live(const check_batch *b)
{
    return !b->over && !b->stale;
}

static bool runs(const check_batch *b, int64_t now_us)
{
    return is_live(b) && b->until_us > now_us;
}

/* Its place among those that are still in the batch; -1: it is not there. */
static int place_in(const check_batch *b, int64_t number)
{
    for (int i = 0; i < b->n; i++)
        if (b->events[i] == number && !b->out[i])
            return i;
    return -1;
}

static int first_left(const check_batch *b)
{
    int i = 0;

    while (i < b->n && b->out[i])
        i++;
    return i;
}

/* The first that may still matter. */
static void move_on(group_checker *c)
{
    while (c->first < c->batches_n && !is_live(&c->batches[c->first]))
        c->first++;
}

/* Whether one of another's batch keeps this one from being given out: itself, or its stream.  A
   dead letter that is tried again holds up nobody, unless its stream waits for it. */
static bool is_in_the_way(const group_checker *c, const check_batch *b, int i, int64_t number,
                          bool redrive)
{
    bool alone = c->rules.on_fail != HOWDAH_FAIL_HOLD && (redrive || b->redrive);

    if (b->out[i])
        return false;
    if (b->events[i] == number)
        return true;
    return c->rules.by_stream && !alone &&
           c->events[b->events[i]].stream == c->events[number].stream;
}

/* G3. */
static void check_alone(group_checker *c, int64_t now_us, int64_t number, bool redrive, int but)
{
    for (int k = c->first; k < c->batches_n; k++) {
        const check_batch *b = &c->batches[k];

        for (int i = 0; k != but && runs(b, now_us) && i < b->n; i++)
            if (is_in_the_way(c, b, i, number, redrive))
                checker_violate(c, number,
                                b->events[i] == number ? "G3: it has two holders"
                                                       : "G3: its stream has two holders");
    }
}

void checker_step(group_checker *c, int64_t now_us)
{
    move_on(c);
    for (int k = c->first; k < c->batches_n; k++) {
        const check_batch *b = &c->batches[k];

        for (int i = 0; runs(b, now_us) && i < b->n; i++)
            if (!b->out[i])
                check_alone(c, now_us, b->events[i], b->redrive, k);
    }
}

static int left_of(const check_batch *b)
{
    int left = 0;

    for (int i = 0; i < b->n; i++)
        left += !b->out[i];
    return left;
}

/* What had it before has lost it, and all that was with it is suspect (G5). */
static void make_stale(group_checker *c, int64_t now_us, int64_t number)
{
    for (int k = c->first; k < c->batches_n; k++) {
        check_batch *b = &c->batches[k];

        if (!is_live(b) || runs(b, now_us) || place_in(b, number) < 0)
            continue;
        b->stale = true;
        for (int i = 0; i < b->n; i++) {
            if (b->out[i])
                continue;
            c->events[b->events[i]].suspect = true;
            if (c->rules.max_retries == 0 && !b->retry && left_of(b) > 1)
                c->events[b->events[i]].lot_tries = 0;
        }
    }
}

/* ------------------------------------------------------------------- fetching */

static bool is_over(const group_checker *c, const check_event *e)
{
    return e->state == CHECK_HANDLED || e->state == CHECK_RESOLVED ||
           (e->state == CHECK_DEAD && c->rules.on_fail != HOWDAH_FAIL_HOLD);
}

/* G2, G6. */
static void check_order(group_checker *c, const check_gift *gift, int at)
{
    int64_t number = gift->events[at];

    for (int64_t k = c->start + 1; k < number; k++) {
        const check_event *e = &c->events[k];
        bool before = e->stream != c->events[number].stream || !e->concerns || is_over(c, e);

        for (int i = 0; i < at && !before; i++)
            before = gift->events[i] == k;
        if (!before)
            checker_violate(c, number,
                            e->state == CHECK_DEAD ? "G6: its stream is held"
                                                   : "G2: before an earlier one of its stream");
    }
}

/* G1, G6, G7: it may come at all. */
static bool check_may_come(group_checker *c, int64_t now_us, int64_t number)
{
    check_event *e;

    if (number <= c->start || number > c->n || !c->events[number].concerns) {
        checker_violate(c, number, "G1: it does not concern the group");
        return false;
    }
    e = &c->events[number];
    if (c->paused || c->halted)
        checker_violate(c, number, "G6: the group is paused or halted");
    if (e->state != CHECK_WAITS && !e->redrive)
        checker_violate(c, number,
                        e->state == CHECK_HANDLED ? "G7: it was acked"
                                                  : "G7: nobody wants this dead letter");
    if (now_us < e->due_us)
        checker_violate(c, number, "G5: it is not due");
    return true;
}

/* G5: how often the first one was tried, and what may be together. */
static void check_tries(group_checker *c, const check_gift *gift)
{
    const check_event *e = &c->events[gift->events[0]];
    int tries = gift->retry ? e->retry_tries : e->lot_tries;

    if (!e->redrive && gift->attempt != tries + 1)
        checker_violate(c, gift->events[0],
                        gift->attempt > tries + 1 ? "G5: tries are counted that were not its own"
                                                  : "G5: a try was not counted");
    if (gift->n > 1 && gift->attempt > 1)
        checker_violate(c, gift->events[0], "G5: it is tried again, and not alone");
    for (int i = 0; !gift->retry && gift->n > 1 && i < gift->n; i++)
        if (c->events[gift->events[i]].suspect)
            checker_violate(c, gift->events[i], "G5: a suspect is not alone");
}

static void count_tries(group_checker *c, const check_gift *gift)
{
    for (int i = 0; i < gift->n && !gift->retry; i++)
        c->events[gift->events[i]].lot_tries++;
    if (gift->retry)
        c->events[gift->events[0]].retry_tries = gift->attempt;
}

/* A dead letter that is tried again comes in no order, unless its stream waits for it. */
static bool is_in_order(const group_checker *c, bool redrive)
{
    return c->rules.by_stream && (!redrive || c->rules.on_fail == HOWDAH_FAIL_HOLD);
}

int checker_given(group_checker *c, int64_t now_us, const check_gift *gift)
{
    check_batch *b = &c->batches[c->batches_n];
    bool redrive = gift->n > 0 && c->events[gift->events[0]].redrive;

    if (c->batches_n == CHECK_BATCHES || c->violated)
        return -1;
    assert(gift->n > 0 && gift->n <= CHECK_BATCH_EVENTS);
    for (int i = 0; i < gift->n; i++) {
        if (!check_may_come(c, now_us, gift->events[i]))
            return -1;
        check_alone(c, now_us, gift->events[i], redrive, -1);
        if (is_in_order(c, redrive))
            check_order(c, gift, i);
        make_stale(c, now_us, gift->events[i]);
    }
    check_tries(c, gift);
    count_tries(c, gift);
    *b = (check_batch){.retry = gift->retry,
                       .redrive = redrive,
                       .attempt = gift->attempt,
                       .until_us = gift->until_us,
                       .n = gift->n};
    memcpy(b->events, gift->events, sizeof b->events);
    return c->batches_n++;
}

void checker_begun(group_checker *c, int64_t now_us, int batch, int64_t number)
{
    const check_batch *b = &c->batches[batch];
    const check_event *e = &c->events[number];

    if (!runs(b, now_us))
        return; /* its member does not know yet that it is late */
    if (place_in(b, number) < 0 || (e->state != CHECK_WAITS && !b->redrive))
        checker_violate(c, number, "G3: it is handled, and not its batch's matter any more");
    check_alone(c, now_us, number, b->redrive, batch);
}

/* ------------------------------------------------------ those who name a token */

/* G4.  True: the operation was done. */
static bool judge(group_checker *c, int64_t now_us, check_batch *b, int verdict)
{
    bool lost = verdict == HOWDAH_LOST;
    int64_t number = b->events[0];

    if (!lost && !is_live(b))
        checker_violate(c, number, "G4: a stale token was good");
    if (lost && runs(b, now_us))
        checker_violate(c, number, "G4: the lease runs, and the token is stale");
    else if (lost && is_live(b) && !b->doubtful && first_left(b) < b->n)
        checker_violate(c, number, "G4: nobody else has it, and the token is stale");
    if (lost)
        b->over = true;
    return !lost && !c->violated;
}

static void handle(group_checker *c, check_batch *b, int i)
{
    check_event *e = &c->events[b->events[i]];

    if (e->state == CHECK_HANDLED)
        checker_violate(c, b->events[i], "G7: it was acked twice");
    b->out[i] = true;
    e->state = CHECK_HANDLED;
    e->redrive = e->suspect = false;
}

static void handle_upto(group_checker *c, check_batch *b, int64_t upto)
{
    for (int i = 0; i < b->n; i++)
        if (!b->out[i] && b->events[i] <= upto)
            handle(c, b, i);
}

void checker_acked(group_checker *c, int64_t now_us, int batch, int64_t upto, int verdict)
{
    check_batch *b = &c->batches[batch];
    int first = first_left(b);

    if (!judge(c, now_us, b, verdict))
        return;
    handle_upto(c, b, upto);
    b->over = first_left(b) == b->n;
    if (b->retry && !b->over && first_left(b) != first)
        c->events[b->events[first_left(b)]].retry_tries = b->attempt; /* the lease was its own */
}

/* The soonest that the schedule lets it come, by the tries so far. */
static int64_t soonest_us(const group_checker *c, int64_t now_us, int tries, int64_t after_ms)
{
    int64_t ms = c->rules.retry_delay_ms;

    if (after_ms >= 0)
        return now_us + after_ms * 1000;
    for (int i = 1; i < tries && ms < c->rules.max_retry_delay_ms; i++)
        ms *= 2;
    if (ms > c->rules.max_retry_delay_ms)
        ms = c->rules.max_retry_delay_ms;
    return now_us + ms * (100 - JITTER_PERCENT) / 100 * 1000;
}

/* The later ones of its stream wait for it, wherever they were: what was counted of them, while
   they were tried by themselves, is forgotten. */
static void make_wait(group_checker *c, check_batch *b, int64_t number)
{
    for (int64_t k = number + 1; c->rules.by_stream && k <= c->n; k++) {
        check_event *e = &c->events[k];

        if (e->stream != c->events[number].stream)
            continue;
        if (e->state != CHECK_WAITS)
            continue;
        e->retry_tries = 0;
        e->due_us = 0;
        if (b && place_in(b, k) >= 0) {
            b->out[place_in(b, k)] = true;
            e->lot_tries = 0;
        }
    }
}

/* After its last try. */
static void condemn(group_checker *c, check_event *e)
{
    if (c->rules.on_fail == HOWDAH_FAIL_CLOSED) {
        e->retry_tries = 0; /* whoever resumes the group gives it all its tries again */
        c->halts = true;
    } else {
        e->condemned = true;
    }
}

void checker_nacked(group_checker *c, int64_t now_us, int batch, int64_t number, int64_t after_ms,
                    int verdict)
{
    check_batch *b = &c->batches[batch];
    check_event *e = &c->events[number];
    int tries = b->attempt;

    if (!judge(c, now_us, b, verdict))
        return;
    assert(place_in(b, number) >= 0);
    if (b->retry && place_in(b, number) > first_left(b)) {
        handle_upto(c, b, number - 1); /* a batch that ends by it: what is before it is handled */
        tries = 1;
    }
    b->out[place_in(b, number)] = true;
    b->over = b->retry;
    e->suspect = false;
    if (b->redrive) { /* as it was before */
        e->redrive = false;
        return;
    }
    make_wait(c, b, number);
    e->lot_tries = 0;
    e->retry_tries = tries;
    if (tries > c->rules.max_retries)
        condemn(c, e);
    else
        e->due_us = soonest_us(c, now_us, tries, after_ms);
}

void checker_extended(group_checker *c, int64_t now_us, int batch, int64_t until_us, int verdict)
{
    check_batch *b = &c->batches[batch];

    if (judge(c, now_us, b, verdict))
        b->until_us = until_us;
}

void checker_released(group_checker *c, int64_t now_us, int batch, int verdict)
{
    check_batch *b = &c->batches[batch];

    if (!judge(c, now_us, b, verdict))
        return;
    for (int i = 0; i < b->n && !b->retry; i++)
        if (!b->out[i])
            c->events[b->events[i]].lot_tries--;
    if (b->retry && first_left(b) < b->n)
        c->events[b->events[first_left(b)]].retry_tries = b->attempt - 1;
    b->over = true;
}

void checker_refused_wrote(group_checker *c, int batch)
{
    checker_violate(c, c->batches[batch].events[0], "G4: a stale token has changed something");
}

/* ------------------------------------------------------------ what the store says */

void checker_dead_letter(group_checker *c, int64_t now_us, int64_t number)
{
    check_event *e = &c->events[number];
    int most = e->lot_tries > e->retry_tries ? e->lot_tries : e->retry_tries;

    if (e->state == CHECK_DEAD && e->redrive) { /* each member that tried it has lost its lease */
        e->redrive = false;
        check_alone(c, now_us, number, true, -1);
        make_stale(c, now_us, number);
    }
    if (e->state == CHECK_DEAD)
        return;
    if (e->state != CHECK_WAITS)
        checker_violate(c, number, "G7: it was over, and is a dead letter");
    if (!e->condemned) {
        if (most <= c->rules.max_retries)
            checker_violate(c, number, "G5: a dead letter before its last try");
        check_alone(c, now_us, number, true, -1);
        make_stale(c, now_us, number);
        make_wait(c, NULL, number);
    }
    e->state = CHECK_DEAD;
    e->condemned = e->suspect = false;
}

static bool is_in_hand(const group_checker *c, int64_t now_us, int64_t number)
{
    for (int k = c->first; k < c->batches_n; k++)
        if (runs(&c->batches[k], now_us) && place_in(&c->batches[k], number) >= 0)
            return true;
    return false;
}

/* The last try of some event has ended with its member: a halt tells no more than that. */
static void halt_spent(group_checker *c, int64_t now_us)
{
    for (int64_t k = c->start + 1; k <= c->n; k++)
        if (c->events[k].state == CHECK_WAITS && c->events[k].retry_tries > c->rules.max_retries &&
            !is_in_hand(c, now_us, k)) {
            c->events[k].retry_tries = 0;
            make_wait(c, NULL, k);
        }
    for (int k = c->first; k < c->batches_n; k++)
        c->batches[k].doubtful = c->batches[k].doubtful || c->batches[k].until_us <= now_us;
}

void checker_status(group_checker *c, int64_t now_us, bool halted)
{
    for (int64_t k = c->start + 1; k <= c->n; k++)
        if (c->events[k].condemned)
            checker_violate(c, k, "G5: its last try has failed, and it is no dead letter");
    if (c->halts && !halted)
        checker_violate(c, 0, "G5: a last try has failed, and the group is not halted");
    if (halted && !c->halted && !c->halts) {
        if (c->rules.on_fail != HOWDAH_FAIL_CLOSED)
            checker_violate(c, 0, "G5: the group is halted for nothing");
        halt_spent(c, now_us);
    }
    c->halted = halted;
    c->halts = false;
}

/* ------------------------------------------------------------------------ people */

void checker_paused(group_checker *c, bool paused)
{
    c->paused = paused;
}

void checker_redrive(group_checker *c, int64_t number)
{
    c->events[number].redrive = true;
}

/* Whoever has begun another try of it may end it, until it is noticed that its lease has run out.
 */
void checker_discarded(group_checker *c, int64_t number)
{
    if (c->events[number].state != CHECK_DEAD)
        return;
    c->events[number].state = CHECK_RESOLVED;
    c->events[number].redrive = false;
    for (int k = c->first; k < c->batches_n; k++)
        if (c->batches[k].redrive && place_in(&c->batches[k], number) >= 0)
            c->batches[k].doubtful = true;
}

void checker_reset(group_checker *c, int64_t to)
{
    for (int64_t k = 1; k <= c->n; k++)
        c->events[k] =
            (check_event){.stream = c->events[k].stream, .concerns = c->events[k].concerns};
    for (int k = c->first; k < c->batches_n; k++)
        c->batches[k].stale = true;
    c->start = to;
}

void checker_rebooted(group_checker *c, int64_t now_us)
{
    for (int k = c->first; k < c->batches_n; k++)
        if (c->batches[k].until_us > now_us)
            c->batches[k].until_us = now_us;
    for (int64_t k = 1; k <= c->n; k++)
        c->events[k].due_us = 0;
}

int64_t checker_unfinished(const group_checker *c)
{
    for (int64_t k = c->start + 1; k <= c->n; k++)
        if (c->events[k].concerns && c->events[k].state == CHECK_WAITS)
            return k;
    return 0;
}
