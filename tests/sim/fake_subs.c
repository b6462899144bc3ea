/* fake_subs.c - rows of subscriptions, evidence and bell of the simulated store; see fake.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "engine/pattern.h"
#include "fake.h"

static fake *server_of(hw_store *base)
{
    return ((fake_store *)base)->client->server;
}

static bool is_text(const char *text, hw_str s)
{
    return strlen(text) == s.len && memcmp(text, s.s, s.len) == 0;
}

static void copy_text(char *out, size_t size, hw_str s)
{
    (void)snprintf(out, size, "%.*s", (int)s.len, s.s ? s.s : "");
}

int fake_find(const fake *f, hw_str id)
{
    for (int i = 0; i < f->subs_n; i++) {
        if (is_text(f->subs[i].id, id))
            return i;
    }
    return WORLD_NOBODY;
}

bool fake_matches(const fake_sub *sub, const world *w, int64_t sequence)
{
    return !sub->has_pattern ||
           hw_pattern_matches(hw_str_of(sub->pattern),
                              hw_str_of(world_type_names[w->numbers[sequence].type]));
}

static bool has(const hw_range *ranges, size_t n, int64_t sequence)
{
    for (size_t i = 0; i < n && ranges[i].first <= sequence; i++) {
        if (sequence <= ranges[i].last)
            return true;
    }
    return false;
}

bool fake_is_outstanding(const fake_sub *sub, int64_t sequence)
{
    return has(sub->outstanding, sub->outstanding_n, sequence) ||
           has(sub->still, sub->still_n, sequence);
}

/* ---------------------------------------------------------------------- durability */

static void copy_sub(fake_sub *to, const fake_sub *from)
{
    memcpy(to, from, offsetof(fake_sub, outstanding));
    memcpy(to->outstanding, from->outstanding, from->outstanding_n * sizeof *from->outstanding);
    memcpy(to->still, from->still, from->still_n * sizeof *from->still);
    memcpy(&to->outstanding_n, &from->outstanding_n,
           sizeof *to - offsetof(fake_sub, outstanding_n));
}

static void copy_proven(fake_proven *to, const fake_proven *from)
{
    to->upto = from->upto;
    to->holes_n = from->holes_n;
    memcpy(to->holes, from->holes, from->holes_n * sizeof *from->holes);
}

/* I4 */
static void end_sessions(fake *f)
{
    for (uint64_t i = 1; i <= f->sessions_n; i++) {
        fake_session *session = &f->sessions[i % FAKE_SESSIONS];

        session->alive = session->alive && f->pooled && !session->in_transaction;
        session->listens = false;
    }
}

void fake_sync(fake *f)
{
    if (!f->dirty)
        return;
    for (int i = 0; i < f->subs_n; i++)
        copy_sub(&f->durable[i], &f->subs[i]);
    copy_proven(&f->durable_proven, &f->proven);
    f->dirty = false;
}

/* What this operation did is durable, and with it all before. */
static void changed(fake *f)
{
    f->dirty = true;
    fake_sync(f);
}

void fake_crash(fake *f, bool lose_tail)
{
    for (int i = 0; i < f->subs_n; i++) {
        if (f->late[i].open) /* its COMMIT was not written */
            f->late[i].open = false;
        if (lose_tail && f->dirty)
            copy_sub(&f->subs[i], &f->durable[i]);
        f->subs[i].lock = 0;
    }
    if (lose_tail && f->dirty)
        copy_proven(&f->proven, &f->durable_proven);
    if (lose_tail)
        f->dirty = false;
    end_sessions(f);
    f->armed = false;
}

static void copy_rows(fake *to, const fake *from)
{
    copy_proven(&to->proven, &from->proven);
    to->subs_n = from->subs_n;
    for (int i = 0; i < from->subs_n; i++)
        copy_sub(&to->subs[i], &from->subs[i]);
    to->dead_letters_n = from->dead_letters_n;
    memcpy(to->dead_letters, from->dead_letters,
           (size_t)from->dead_letters_n * sizeof *from->dead_letters);
    to->skips_n = from->skips_n;
    memcpy(to->skips, from->skips, (size_t)from->skips_n * sizeof *from->skips);
}

void fake_save(fake *image, const fake *f)
{
    copy_rows(image, f);
}

void fake_replace(fake *f, const fake *image)
{
    copy_rows(f, image);
    f->dirty = true;
    fake_sync(f);
    fake_crash(f, false);
}

/* ------------------------------------------------------------------------- evidence */

/* Which log this is; static: the simulator has one thread. */
const char *fake_log(const fake *f)
{
    static char text[HW_TIMELINE_SIZE];

    (void)snprintf(text, sizeof text, "simulated/%u", (unsigned)f->world->timeline);
    return text;
}

#define NOT_DRAWN 1000 /* planted: so many numbers count as drawn that were not */

/* Two statements: between them the world goes on. */
static int holders(hw_store *base, int64_t *ret_drawn, hw_holder **ret_holders, size_t *ret_n,
                   howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    hw_holder seen[WORLD_TXNS];
    int64_t drawn;
    size_t n;
    int s = fake_enter(store, FAKE_ASK, reterr);

    if (s < 0)
        return s;
    drawn = f->world->drawn + (f->world->bug == WORLD_BUG_DRAWN_UNKNOWN ? NOT_DRAWN : 0);
    fake_meet(store, f->world->drawn);
    s = fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
    if (s >= 0)
        s = fake_enter(store, FAKE_ASK, reterr);
    if (s < 0)
        return s;
    n = world_holders(f->world, f->sees_idle, seen);
    s = fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
    if (s < 0)
        return s;
    *ret_holders = hw_calloc(n + 1, sizeof *seen);
    if (!*ret_holders)
        return hw_fail_no_memory(reterr);
    memcpy(*ret_holders, seen, n * sizeof *seen);
    *ret_n = n;
    *ret_drawn = drawn;
    return HOWDAH_OK;
}

static int proven(hw_store *base, int64_t *ret_upto, hw_ranges *ret_holes, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    const fake_proven *k = &server_of(base)->proven;
    int s = fake_enter(store, FAKE_ASK, reterr);

    if (s < 0)
        return s;
    *ret_upto = k->upto;
    hw_ranges_clear(ret_holes);
    for (size_t i = 0; s >= 0 && i < k->holes_n; i++)
        s = hw_ranges_add(ret_holes, k->holes[i].first, k->holes[i].last, reterr);
    return fake_leave(store, FAKE_ASK, s, reterr);
}

static int store_proven(hw_store *base, hw_str log, const hw_anchor *top, int64_t upto,
                        const hw_ranges *holes, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);

    if (s < 0)
        return s;
    if (is_text(fake_log(f), log) && fake_stands_on(f->world, top) && upto >= f->proven.upto) {
        if (f->world->bug == WORLD_BUG_PROVEN_TOO_HIGH)
            upto = f->world->drawn;
        f->proven.upto = upto;
        if (holes) {
            assert(holes->n <= FAKE_OUTSTANDING);
            f->proven.holes_n = holes->n;
            if (holes->n > 0)
                memcpy(f->proven.holes, holes->items, holes->n * sizeof *holes->items);
        }
        f->dirty = true;
        if (holes)
            fake_sync(f);
    }
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static int gaps(hw_store *base, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    const world *w = server_of(base)->world;
    int s = fake_enter(store, FAKE_ASK, reterr);

    if (s < 0)
        return s;
    for (int64_t n = first; n <= last;) {
        hw_range gap = {n, n};

        if (world_is_visible(w, n)) {
            n++;
            continue;
        }
        while (gap.last < last && !world_is_visible(w, gap.last + 1))
            gap.last++;
        if (fn(ctx, gap) != 0)
            break;
        n = gap.last + 1;
    }
    return fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

static int blockers(hw_store *base, hw_blocker_fn fn, void *ctx, howdah_error *reterr)
{
    (void)base, (void)fn, (void)ctx, (void)reterr;
    return HOWDAH_OK;
}

static int timeline(hw_store *base, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    int s = fake_enter(store, FAKE_ASK, reterr);

    if (s < 0)
        return s;
    fake_meet(store, server_of(base)->world->drawn);
    (void)snprintf(ret_text, HW_TIMELINE_SIZE, "%s", store->log);
    return fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

static int verify(hw_store *base, const hw_anchor *anchor, int64_t high, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    const world *w = server_of(base)->world;
    int s = fake_enter(store, FAKE_ASK, reterr);

    if (s < 0)
        return s;
    fake_meet(store, w->drawn);
    if (high > w->drawn)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "no number above %d was drawn", (int)w->drawn);
    else if (!fake_stands_on(w, anchor))
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "event %lld is another one",
                    (long long)anchor->sequence);
    return fake_leave(store, FAKE_ASK, s, reterr);
}

/* ----------------------------------------------------------------------------- rows */

static void show_row(const fake *f, const fake_sub *sub, hw_sub_row *ret_row)
{
    *ret_row = (hw_sub_row){
        .subscriber_id = hw_str_of(sub->id),
        .filter = {.pattern = sub->has_pattern ? hw_str_of(sub->pattern) : HW_STR_NULL},
        .high = sub->high,
        .outstanding = sub->outstanding,
        .outstanding_n = sub->outstanding_n,
        .still = sub->still,
        .still_n = sub->still_n,
        .moves = sub->moves,
        .anchor = sub->anchor,
        .timeline = hw_str_of(sub->timeline),
        .token = sub->token,
        .owner = sub->owned ? hw_str_of(sub->owner) : HW_STR_NULL,
        .held = fake_session_alive(f, sub->lock) || sub->lease_until_us > fake_clock_us(f),
        .status = sub->status,
        .reason = sub->reason[0] ? hw_str_of(sub->reason) : HW_STR_NULL,
        .suspect_sequence = sub->suspect_sequence,
        .suspect_attempts = sub->suspect_attempts,
    };
}

int fake_lost(hw_str id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_LOST, "the token of %.*s is another one", (int)id.len, id.s);
}

static int fail_not_found(hw_str id, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no subscription %.*s", (int)id.len, id.s);
}

int fake_row(fake *f, const hw_hold *hold)
{
    int sub = fake_find(f, hold->subscriber_id);

    if (sub == WORLD_NOBODY)
        return WORLD_NOBODY;
    fake_prove_late(f, sub); /* whoever needs the row waits for the one who has it */
    if (f->subs[sub].token != hold->token && f->world->bug != WORLD_BUG_TOKEN_UNCHECKED)
        return WORLD_NOBODY;
    if (hold->log.s && !is_text(fake_log(f), hold->log) && f->world->bug != WORLD_BUG_LOG_UNCHECKED)
        return WORLD_NOBODY;
    return sub;
}

int fake_place(fake *f, const hw_checkpoint *c)
{
    hw_hold hold = {c->subscriber_id, c->token, c->log};
    int sub = fake_row(f, &hold);

    if (sub != WORLD_NOBODY && !fake_stands_on(f->world, &c->anchor) &&
        f->world->bug != WORLD_BUG_LOG_UNCHECKED)
        return WORLD_NOBODY;
    if (sub != WORLD_NOBODY && c->follows > 0 && c->follows != f->subs[sub].moves + 1 &&
        f->world->bug != WORLD_BUG_LOG_UNCHECKED && f->world->bug != WORLD_BUG_TOKEN_UNCHECKED)
        return WORLD_NOBODY;
    return sub;
}

static void put_place(fake_sub *sub, int64_t high, const hw_range *outstanding,
                      size_t outstanding_n)
{
    assert(outstanding_n <= FAKE_OUTSTANDING);
    sub->high = high;
    sub->outstanding_n = outstanding_n;
    for (size_t i = 0; i < outstanding_n; i++) {
        assert(outstanding[i].first >= 1 && outstanding[i].first <= outstanding[i].last &&
               outstanding[i].last <= high);
        assert(i == 0 || outstanding[i - 1].last < outstanding[i].first);
        sub->outstanding[i] = outstanding[i];
    }
}

void fake_put(fake *f, int sub, const hw_checkpoint *checkpoint)
{
    if (checkpoint->high < f->subs[sub].high && f->hooks.wrong &&
        strcmp(f->subs[sub].timeline, fake_log(f)) == 0)
        f->hooks.wrong(f->hooks.ctx, sub, "a checkpoint lowers high");
    put_place(&f->subs[sub], checkpoint->high, checkpoint->outstanding, checkpoint->outstanding_n);
    if (!checkpoint->keeps_still) {
        assert(checkpoint->still_n <= FAKE_OUTSTANDING);
        f->subs[sub].still_n = checkpoint->still_n;
        if (checkpoint->still_n > 0)
            memcpy(f->subs[sub].still, checkpoint->still,
                   checkpoint->still_n * sizeof *checkpoint->still);
    }
    f->subs[sub].moves++;
    f->subs[sub].anchor = checkpoint->anchor;
    copy_text(f->subs[sub].timeline, sizeof f->subs[sub].timeline, hw_str_of(fake_log(f)));
    world_note(f->world, 30 + (uint64_t)sub, (uint64_t)checkpoint->high);
    f->dirty = true;
    if (f->hooks.stored)
        f->hooks.stored(f->hooks.ctx, sub);
}

static int create(hw_store *base, hw_str subscriber_id, const hw_filter *filter, int64_t high,
                  const hw_range *outstanding, size_t outstanding_n, bool *ret_created,
                  howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    if (s < 0)
        return s;
    sub = fake_find(f, subscriber_id);
    if (ret_created)
        *ret_created = sub == WORLD_NOBODY;
    if (sub == WORLD_NOBODY) {
        assert(f->subs_n < FAKE_SUBS);
        sub = f->subs_n++;
        memset(&f->subs[sub], 0, sizeof f->subs[sub]);
        copy_text(f->subs[sub].id, sizeof f->subs[sub].id, subscriber_id);
        put_place(&f->subs[sub], high, outstanding, outstanding_n);
        if (f->hooks.created)
            f->hooks.created(f->hooks.ctx, sub);
    }
    copy_text(f->subs[sub].pattern, sizeof f->subs[sub].pattern, filter->pattern);
    f->subs[sub].has_pattern = filter->pattern.s != NULL;
    changed(f);
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static int load(hw_store *base, hw_str subscriber_id, hw_sub_row_fn fn, void *ctx,
                howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_ASK, reterr);
    int sub;
    hw_sub_row row;

    if (s < 0)
        return s;
    sub = fake_find(f, subscriber_id);
    if (sub == WORLD_NOBODY)
        return fail_not_found(subscriber_id, reterr);
    s = fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
    if (s < 0)
        return s;
    show_row(f, &f->subs[sub], &row);
    (void)fn(ctx, &row);
    return HOWDAH_OK;
}

static int list(hw_store *base, hw_sub_row_fn fn, void *ctx, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_ASK, reterr);

    for (int i = 0; s >= 0 && i < f->subs_n; i++) {
        hw_sub_row row;

        show_row(f, &f->subs[i], &row);
        if (fn(ctx, &row) != 0)
            break;
    }
    return s < 0 ? s : fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

/* ------------------------------------------------------------------------ ownership */

static bool can_take(const fake *f, const fake_sub *sub, howdah_instance instance, uint64_t session)
{
    if (instance == HOWDAH_INSTANCE_COORDINATED)
        return sub->lock == session || !fake_session_alive(f, sub->lock);
    if (instance == HOWDAH_INSTANCE_LEASE)
        return !sub->owned || sub->lease_until_us <= fake_clock_us(f);
    return true;
}

static int take(hw_store *base, const hw_take *take, hw_sub_row_fn fn, void *ctx,
                howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    howdah_instance instance = f->pooled ? HOWDAH_INSTANCE_LEASE : take->instance;
    fake_sub *sub;
    hw_sub_row row;
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int at;

    if (s < 0)
        return s;
    at = fake_find(f, take->subscriber_id);
    if (at == WORLD_NOBODY)
        return fake_leave(store, FAKE_WRITE, fail_not_found(take->subscriber_id, reterr), reterr);
    sub = &f->subs[at];
    fake_meet(store, store->drawn);
    if (!can_take(f, sub, instance, store->session))
        return fake_leave(store, FAKE_WRITE, HOWDAH_END, reterr);
    fake_prove_late(f, at);
    show_row(f, sub, &row);
    row.token = ++sub->token;
    row.log = hw_str_of(fake_log(f));
    sub->lock = instance == HOWDAH_INSTANCE_COORDINATED ? store->session : 0;
    sub->lease_until_us =
        instance == HOWDAH_INSTANCE_LEASE ? fake_clock_us(f) + take->lease_ms * 1000 : 0;
    world_note(f->world, 40 + (uint64_t)at, (uint64_t)sub->token);
    s = fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
    if (s >= 0)
        (void)fn(ctx, &row); /* with the owner before */
    copy_text(sub->owner, sizeof sub->owner, take->owner);
    sub->owned = true;
    changed(f);
    return s;
}

static int release(hw_store *base, const hw_hold *hold, howdah_instance instance,
                   howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    (void)instance;
    if (s < 0)
        return s;
    sub = fake_find(f, hold->subscriber_id);
    if (sub != WORLD_NOBODY && f->subs[sub].lock == store->session)
        f->subs[sub].lock = 0; /* the lock is the session's, whatever the token */
    sub = fake_row(f, hold);
    if (sub != WORLD_NOBODY && f->subs[sub].token == hold->token) {
        f->subs[sub].owned = false;
        f->subs[sub].lease_until_us = 0;
        changed(f);
    }
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static bool has_redrives(const fake *f, int sub)
{
    for (int i = 0; i < f->dead_letters_n; i++) {
        if (f->dead_letters[i].sub == sub && f->dead_letters[i].state == HW_DEAD_LETTER_REDRIVE)
            return true;
    }
    return false;
}

static void tell_news(fake *f, const hw_checkpoint *c, int64_t lease_ms, int sub,
                      hw_sub_news *ret_news)
{
    *ret_news = (hw_sub_news){.lost = sub == WORLD_NOBODY};
    (void)c;
    if (sub == WORLD_NOBODY)
        return;
    ret_news->status = f->subs[sub].status;
    ret_news->redrives = has_redrives(f, sub);
    if (lease_ms > 0 && f->subs[sub].lease_until_us > 0)
        f->subs[sub].lease_until_us = fake_clock_us(f) + lease_ms * 1000;
}

static int checkpoint(hw_store *base, const hw_checkpoint *checkpoints, size_t n, int64_t lease_ms,
                      hw_sub_news *ret_news, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);

    for (size_t i = 0; s >= 0 && i < n; i++) {
        int sub = fake_place(f, &checkpoints[i]);

        if (sub != WORLD_NOBODY)
            fake_put(f, sub, &checkpoints[i]);
        if (sub != WORLD_NOBODY && !checkpoints[i].keeps_still)
            fake_sync(f);
        if (sub == WORLD_NOBODY)
            fake_meet(store, f->world->drawn); /* why? */
        tell_news(f, &checkpoints[i], lease_ms, sub, &ret_news[i]);
    }
    return s < 0 ? s : fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static int poll(hw_store *base, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                hw_sub_news *ret_news, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);

    for (size_t i = 0; s >= 0 && i < n; i++) {
        hw_hold hold = {subs[i].subscriber_id, subs[i].token, subs[i].log};

        tell_news(f, &subs[i], lease_ms, fake_row(f, &hold), &ret_news[i]);
    }
    if (s >= 0)
        fake_meet(store, f->world->drawn);
    return s < 0 ? s : fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static int suspect(hw_store *base, const hw_hold *hold, int64_t sequence, int64_t attempts,
                   howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    if (s < 0)
        return s;
    sub = fake_row(f, hold);
    if (sub == WORLD_NOBODY)
        return fake_leave(store, FAKE_WRITE, fake_lost(hold->subscriber_id, reterr), reterr);
    f->subs[sub].suspect_sequence = sequence;
    f->subs[sub].suspect_attempts = attempts;
    changed(f);
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static int set_status(hw_store *base, const hw_hold *hold, hw_sub_status status, hw_str reason,
                      howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    if (s < 0)
        return s;
    sub = fake_find(f, hold->subscriber_id);
    if (sub == WORLD_NOBODY)
        s = fail_not_found(hold->subscriber_id, reterr);
    else if (hold->token > 0 && fake_row(f, hold) == WORLD_NOBODY)
        s = fake_lost(hold->subscriber_id, reterr);
    if (s >= 0) {
        f->subs[sub].status = status;
        copy_text(f->subs[sub].reason, sizeof f->subs[sub].reason, reason);
        changed(f);
    }
    return fake_leave(store, FAKE_WRITE, s, reterr);
}

static int reset(hw_store *base, hw_str subscriber_id, int64_t high, const hw_range *outstanding,
                 size_t outstanding_n, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    if (s < 0)
        return s;
    sub = fake_find(f, subscriber_id);
    if (sub == WORLD_NOBODY)
        return fake_leave(store, FAKE_WRITE, fail_not_found(subscriber_id, reterr), reterr);
    fake_prove_late(f, sub);
    put_place(&f->subs[sub], high, outstanding, outstanding_n);
    f->subs[sub].token++;
    f->subs[sub].anchor = (hw_anchor){0};
    f->subs[sub].timeline[0] = '\0';
    f->subs[sub].still_n = 0;
    f->subs[sub].owned = false;
    f->subs[sub].lease_until_us = 0;
    f->subs[sub].suspect_sequence = f->subs[sub].suspect_attempts = 0;
    changed(f);
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static int remove_sub(hw_store *base, hw_str subscriber_id, howdah_error *reterr)
{
    (void)base, (void)subscriber_id;
    return hw_fail(reterr, HOWDAH_READ_ONLY, "subscriptions of this world stay");
}

/* ------------------------------------------------------------------------- the bell */

static int session(hw_store *base, uint64_t *ret_session, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    int s = fake_enter(store, FAKE_READ, reterr);

    if (s < 0)
        return s;
    *ret_session = store->session;
    return fake_leave(store, FAKE_READ, HOWDAH_OK, reterr);
}

static int confirm(hw_store *base, const hw_anchor *top, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    const fake *f = server_of(base);
    int s;

    if (!f->pooled || f->world->bug == WORLD_BUG_POOLER_HIDES)
        return HOWDAH_OK; /* the session is one server's */
    s = fake_enter(store, FAKE_READ, reterr);
    if (s < 0)
        return s;
    fake_meet(store, f->world->drawn);
    if (!fake_stands_on(f->world, top))
        fake_forget(store);
    return fake_leave(store, FAKE_READ, HOWDAH_OK, reterr);
}

static int listen(hw_store *base, bool general, const hw_str *types, size_t types_n,
                  howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    int s = fake_enter(store, FAKE_ASK, reterr);

    (void)general, (void)types, (void)types_n;
    if (s < 0)
        return s;
    if (server_of(base)->pooled)
        return fake_leave(store, FAKE_ASK, HOWDAH_END, reterr);
    server_of(base)->sessions[store->session % FAKE_SESSIONS].listens = true;
    return fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

static int arm(hw_store *base, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    int s = fake_enter(store, FAKE_ASK, reterr);

    if (s < 0)
        return s;
    server_of(base)->armed = true;
    return fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

static int ring(hw_store *base, const hw_str *types, size_t types_n, howdah_error *reterr)
{
    (void)base, (void)types, (void)types_n, (void)reterr;
    return HOWDAH_OK;
}

static int wait_bell(hw_store *base, int64_t ms, howdah_error *reterr)
{
    fake_client *client = ((fake_store *)base)->client;
    bool rang = client->bell_us > 0 && client->bell_us <= fake_clock_us(client->server);

    (void)ms, (void)reterr;
    if (rang)
        client->bell_us = 0;
    return rang ? HOWDAH_OK : HOWDAH_END;
}

bool fake_listens(const hw_store *base)
{
    const fake_store *store = (const fake_store *)base;
    const fake *f = store->client->server;

    return fake_session_alive(f, store->session) &&
           f->sessions[store->session % FAKE_SESSIONS].listens;
}

static int no_fd(hw_store *base)
{
    (void)base;
    return -1;
}

const hw_sub_ops fake_sub_ops = {
    .holders = holders,
    .proven = proven,
    .store_proven = store_proven,
    .gaps = gaps,
    .blockers = blockers,
    .timeline = timeline,
    .verify = verify,
    .create = create,
    .load = load,
    .list = list,
    .take = take,
    .release = release,
    .checkpoint = checkpoint,
    .poll = poll,
    .suspect = suspect,
    .set_status = set_status,
    .reset = reset,
    .remove = remove_sub,
    .dead_letter = fake_dead_letter,
    .dead_letters = fake_dead_letters,
    .dead_letters_set_state = fake_dead_letters_set_state,
    .redrive_end = fake_redrive_end,
    .skip = fake_do_skip,
    .skips = fake_skips,
    .skip_resolve = fake_skip_resolve,
    .begin = fake_begin,
    .handle = fake_handle,
    .commit = fake_commit,
    .rollback = fake_rollback,
    .session = session,
    .confirm = confirm,
    .listen = listen,
    .arm = arm,
    .ring = ring,
    .wait = wait_bell,
    .fd = no_fd,
};
