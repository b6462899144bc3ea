/* checker.c - the invariants of checker.h. */
#include "checker.h"

#include <stdio.h>
#include <string.h>

void checker_init(checker *c, const world *w, const fake *f)
{
    memset(c, 0, sizeof *c);
    c->world = w;
    c->server = f;
}

void checker_expect(checker *c, int sub, bool transactional, bool strict)
{
    c->subs[sub].transactional = transactional;
    c->subs[sub].strict = strict;
}

void checker_violate(checker *c, int sub, int64_t number, const char *what)
{
    if (c->violated)
        return;
    c->violated = true;
    (void)snprintf(c->what, sizeof c->what, "subscription %d, number %lld, at %.3f s: %s", sub,
                   (long long)number, (double)c->world->now_us / 1e6, what);
}

void checker_suspect(checker *c, int sub, int64_t number, const char *what)
{
    if (!c->weak)
        checker_violate(c, sub, number, what);
}

static bool is_acked(const checker *c, int sub, int64_t number)
{
    const check_sub *s = &c->subs[sub];
    bool done = s->transactional ? s->effects[number] > 0 : s->handled[number] > 0;

    return done || s->dead_letter[number] || s->skipped[number] || s->exempt[number];
}

static bool matches(const checker *c, int sub, int64_t number)
{
    return fake_matches(&c->server->subs[sub], c->world, number);
}

static bool is_in_log(const checker *c, int64_t number, uint32_t life)
{
    return world_is_visible(c->world, number) && c->world->numbers[number].life == life;
}

/* ---------------------------------------------------------------------- another log */

void checker_pass(checker *c, int process)
{
    c->pass_life[process] = c->world->life;
}

/* The same event is in the image, or may still appear there. */
static bool stays(const world_number *now, const world_number *image)
{
    return now->life == image->life &&
           (image->state == NUMBER_VISIBLE || image->state == NUMBER_IN_FLIGHT);
}

void checker_replace(checker *c, const checker *then, const world *image)
{
    for (int32_t n = 1; n <= c->world->visible_high; n++) {
        const world_number *now = &c->world->numbers[n];

        if (now->state == NUMBER_VISIBLE && image->numbers[n].state != NUMBER_VISIBLE &&
            c->lost_n < CHECK_LOST)
            c->lost[c->lost_n++] = (check_lost){n, now->life, now->type};
    }
    for (int i = 0; i < FAKE_SUBS; i++) {
        check_sub *s = &c->subs[i];
        const check_sub *t = &then->subs[i];

        memcpy(s->effects, t->effects, sizeof s->effects);
        memcpy(s->dead_letter, t->dead_letter, sizeof s->dead_letter);
        memcpy(s->skipped, t->skipped, sizeof s->skipped);
        memcpy(s->exempt, t->exempt, sizeof s->exempt);
        memset(s->recent, 0, sizeof s->recent);
        memset(s->stints, 0, sizeof s->stints);
        for (int32_t n = 1; n <= c->world->drawn; n++) {
            if (!stays(&c->world->numbers[n], &image->numbers[n]))
                s->handled[n] = 0;
        }
    }
}

/* It is not in the log: it was in one that is gone, and comes from a memory of it. */
static void check_lost_one(checker *c, int sub, int process, int64_t number, uint32_t life)
{
    const check_lost *lost = NULL;

    for (int i = 0; i < c->lost_n && !lost; i++) {
        if (c->lost[i].number == number && c->lost[i].life == life)
            lost = &c->lost[i];
    }
    if (!lost)
        checker_violate(c, sub, number, "delivered, but not committed");
    else if (c->pass_life[process] == c->world->life)
        checker_suspect(c, sub, number, "delivered, but it is in a log that is gone");
}

/* ------------------------------------------------------------------------ deliveries */

/* The version before in the stream that concerns the subscription; 0: there is none.  Those that
   were skipped or that it began behind are passed over. */
static int32_t version_before(const checker *c, int sub, int64_t number)
{
    const check_sub *s = &c->subs[sub];
    const world_number *n = &c->world->numbers[number];

    for (int32_t v = n->version - 1; v > 0; v--) {
        int64_t m = c->world->by_version[n->stream][v];

        if (matches(c, sub, m) && !s->skipped[m] && !s->exempt[m])
            return v;
    }
    return 0;
}

static check_stint *stint_of(checker *c, int sub, int process, int64_t token)
{
    check_stint *stint = &c->subs[sub].stints[process];

    if (stint->token != token)
        *stint = (check_stint){.token = token};
    return stint;
}

static void check_stream(checker *c, int sub, check_stint *stint, int64_t number)
{
    const world_number *n = &c->world->numbers[number];
    int32_t before = version_before(c, sub, number);
    int32_t last = stint->version[n->stream];

    if (before > 0 && !is_acked(c, sub, c->world->by_version[n->stream][before]))
        checker_suspect(c, sub, number, "delivered before an earlier event of its stream");
    if (last == n->version) {
        if (stint->handled[n->stream] && !c->subs[sub].transactional)
            checker_suspect(c, sub, number, "delivered again though it was handled");
    } else if (last > 0 && last != before &&
               !c->subs[sub].exempt[c->world->by_version[n->stream][last]]) {
        /* one that it began behind may come when it has to go back in another history */
        checker_suspect(c, sub, number, "not the next of its stream");
    }
    stint->version[n->stream] = n->version;
    stint->handled[n->stream] = false;
}

/* STRICT: a number that was in flight below a settled one shows up here when it comes. */
static void check_total(checker *c, int sub, check_stint *stint, int64_t number)
{
    const check_sub *s = &c->subs[sub];

    if (number < stint->number)
        checker_suspect(c, sub, number, "delivered after a later one in strict order");
    for (int64_t m = number + 1; m <= s->delivered_high && !is_acked(c, sub, number); m++) {
        bool done = s->transactional ? s->effects[m] > 0 : s->recent[m];

        if ((done || s->dead_letter[m]) && !s->exempt[m] && !s->skipped[m])
            checker_suspect(c, sub, number, "came when a later one was settled already");
    }
    stint->number = number;
}

void checker_delivered(checker *c, int sub, int process, int64_t token, int64_t number,
                       uint32_t life, bool redrive)
{
    check_sub *s = &c->subs[sub];
    check_stint *stint;

    if (!is_in_log(c, number, life)) {
        check_lost_one(c, sub, process, number, life);
        return;
    }
    if (!matches(c, sub, number))
        checker_violate(c, sub, number, "delivered, but does not match");
    if (c->pass_life[process] != c->world->life)
        return; /* what was before it in the log that is gone was done there */
    if (redrive) {
        if (!s->dead_letter[number])
            checker_suspect(c, sub, number, "redriven, but no dead letter");
        return;
    }
    stint = stint_of(c, sub, process, token);
    check_stream(c, sub, stint, number);
    if (s->strict)
        check_total(c, sub, stint, number);
    if (number > s->delivered_high)
        s->delivered_high = number;
}

void checker_handled(checker *c, int sub, int process, int64_t token, int64_t number, uint32_t life)
{
    check_sub *s = &c->subs[sub];
    check_stint *stint;
    const world_number *n = &c->world->numbers[number];

    if (!is_in_log(c, number, life))
        return;
    if (s->handled[number] < UINT8_MAX)
        s->handled[number]++;
    if (c->pass_life[process] != c->world->life)
        return;
    s->recent[number] = true;
    stint = stint_of(c, sub, process, token);
    if (stint->version[n->stream] == n->version)
        stint->handled[n->stream] = true;
}

void checker_effect(checker *c, int sub, int64_t number, uint32_t life)
{
    check_sub *s = &c->subs[sub];

    if (!is_in_log(c, number, life)) {
        checker_suspect(c, sub, number, "the effect of an event that is not in the log");
        return;
    }
    if (++s->effects[number] > 1)
        checker_suspect(c, sub, number, "its effect exists twice");
}

void checker_dead_letter(checker *c, int sub, int64_t number, uint32_t life)
{
    if (!is_in_log(c, number, life))
        checker_suspect(c, sub, number, "a dead letter of an event that is not in the log");
    c->subs[sub].dead_letter[number] = true;
}

void checker_skipped(checker *c, int sub, hw_range range)
{
    for (int64_t n = range.first; n <= range.last && n < WORLD_NUMBERS; n++)
        c->subs[sub].skipped[n] = true;
}

/* ----------------------------------------------------------------------- checkpoints */

void checker_created(checker *c, int sub, bool from_end)
{
    const fake_sub *row = &c->server->subs[sub];

    for (int64_t n = 1; from_end && n <= row->high; n++)
        c->subs[sub].exempt[n] = world_is_visible(c->world, n) && !fake_is_outstanding(row, n);
    checker_stored(c, sub);
}

/* C4 for one number that is not outstanding. */
static void check_accounted(checker *c, int sub, int64_t number)
{
    const world_number *n = &c->world->numbers[number];

    if (n->state == NUMBER_IN_FLIGHT && !c->subs[sub].skipped[number])
        checker_suspect(c, sub, number, "the checkpoint leads: it is in flight");
    else if (n->state == NUMBER_VISIBLE && matches(c, sub, number) && !is_acked(c, sub, number))
        checker_suspect(c, sub, number, "the checkpoint leads: it is not settled");
}

/* Asked of ascending numbers: *at is the first range that does not end before. */
static bool is_within(const hw_range *ranges, size_t n, size_t *at, int64_t number)
{
    while (*at < n && ranges[*at].last < number)
        ++*at;
    return *at < n && ranges[*at].first <= number;
}

void checker_stored(checker *c, int sub)
{
    const fake_sub *row = &c->server->subs[sub];
    size_t outstanding = 0;
    size_t still = 0;

    if (row->high > c->world->drawn) {
        checker_suspect(c, sub, row->high, "the checkpoint leads: not drawn yet");
        return;
    }
    if (!fake_stands_on(c->world, &row->anchor))
        checker_violate(c, sub, row->anchor.sequence, "a place on an event that is not in the log");
    for (int64_t n = 1; n <= row->high; n++) {
        if (!is_within(row->outstanding, row->outstanding_n, &outstanding, n) &&
            !is_within(row->still, row->still_n, &still, n))
            check_accounted(c, sub, n);
    }
}

/* ------------------------------------------------------------------------ the end */

int64_t checker_unfinished(const checker *c, int sub)
{
    for (int64_t n = 1; n <= c->world->visible_high; n++) {
        if (world_is_visible(c->world, n) && matches(c, sub, n) && !is_acked(c, sub, n))
            return n;
    }
    return 0;
}

void checker_soon(checker *c, int sub, int64_t within_us)
{
    int64_t before_us = c->world->now_us - within_us;

    for (int64_t n = 1; n <= c->world->visible_high; n++) {
        const world_number *number = &c->world->numbers[n];

        if (number->state == NUMBER_VISIBLE && number->at_us < before_us && matches(c, sub, n) &&
            !is_acked(c, sub, n)) {
            checker_suspect(c, sub, n, "late: nothing stands in its way");
            return;
        }
    }
}

bool checker_is_at_end(const checker *c, int sub)
{
    const fake_sub *row = &c->server->subs[sub];

    return row->high >= c->world->visible_high && row->outstanding_n == 0 && row->still_n == 0;
}
