/* fake_dead_letters.c - dead letters, skips and handlers' transactions of the simulated store. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "fake.h"

static fake *server_of(hw_store *base)
{
    return ((fake_store *)base)->client->server;
}

/* ------------------------------------------------------------------------- dead letters */

static fake_dead_row *find_dead_letter(fake *f, int sub, int64_t sequence)
{
    for (int i = 0; i < f->dead_letters_n; i++) {
        if (f->dead_letters[i].sub == sub && f->dead_letters[i].sequence == sequence)
            return &f->dead_letters[i];
    }
    return NULL;
}

static int64_t put_dead_letter(fake *f, int sub, const howdah_event *event, hw_str error,
                               int64_t attempts)
{
    int64_t sequence = event->global_sequence;
    fake_dead_row *dead_letter = find_dead_letter(f, sub, sequence);

    if (!dead_letter) {
        assert(f->dead_letters_n < FAKE_DEAD_LETTERS);
        dead_letter = &f->dead_letters[f->dead_letters_n++];
        *dead_letter = (fake_dead_row){.id = f->dead_letters_n, .sub = sub, .sequence = sequence};
    }
    dead_letter->attempts = attempts;
    dead_letter->state = HW_DEAD_LETTER_DEAD;
    dead_letter->resolved = false;
    (void)snprintf(dead_letter->error, sizeof dead_letter->error, "%.*s", (int)error.len, error.s);
    if (f->hooks.dead_letter)
        f->hooks.dead_letter(f->hooks.ctx, sub, sequence, fake_life(event));
    return dead_letter->id;
}

int fake_dead_letter(hw_store *base, const hw_checkpoint *checkpoint, const howdah_event *event,
                     hw_str error, int64_t attempts, int64_t *ret_id, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    if (s < 0)
        return s;
    sub = fake_place(f, checkpoint);
    if (sub == WORLD_NOBODY)
        return fake_leave(store, FAKE_WRITE, fake_lost(checkpoint->subscriber_id, reterr), reterr);
    if (f->world->bug != WORLD_BUG_DEAD_LETTER_ALONE)
        *ret_id = put_dead_letter(f, sub, event, error, attempts);
    fake_put(f, sub, checkpoint);
    fake_sync(f);
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static bool is_asked_for(const fake *f, const fake_dead_row *dead_letter,
                         const hw_dead_letter_query *q)
{
    if (q->subscriber_id.s && dead_letter->sub != fake_find(f, q->subscriber_id))
        return false;
    if ((q->id > 0 && dead_letter->id != q->id) || dead_letter->id <= q->after_id)
        return false;
    if (q->redrives)
        return dead_letter->state == HW_DEAD_LETTER_REDRIVE;
    return q->resolved || !dead_letter->resolved;
}

int fake_dead_letters(hw_store *base, const hw_dead_letter_query *query, hw_dead_letter_fn fn,
                      void *ctx, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_ASK, reterr);
    int64_t left = query->limit ? query->limit : INT64_MAX;

    for (int i = 0; s >= 0 && i < f->dead_letters_n && left > 0; i++) {
        const fake_dead_row *dead_letter = &f->dead_letters[i];
        howdah_event event;
        howdah_dead_letter shown;

        if (!is_asked_for(f, dead_letter, query))
            continue;
        left--;
        fake_event(f->world, dead_letter->sequence, &event);
        shown = (howdah_dead_letter){.size = sizeof shown,
                                     .id = dead_letter->id,
                                     .source = "sub",
                                     .subscriber_id = f->subs[dead_letter->sub].id,
                                     .event = &event,
                                     .error = dead_letter->error,
                                     .attempts = dead_letter->attempts,
                                     .redrives = dead_letter->redrives,
                                     .state = hw_dead_letter_state_name(dead_letter->state),
                                     .reason = "",
                                     .resolved = dead_letter->resolved,
                                     .resolved_at_us = dead_letter->resolved,
                                     .resolved_by = ""};
        if (fn(ctx, &shown) != 0)
            break;
    }
    return s < 0 ? s : fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

static bool is_named(const fake *f, const fake_dead_row *dead_letter, const int64_t *ids, size_t n,
                     hw_str subscriber_id)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == dead_letter->id)
            return true;
    }
    return n == 0 && (!subscriber_id.s || dead_letter->sub == fake_find(f, subscriber_id));
}

int fake_dead_letters_set_state(hw_store *base, const int64_t *ids, size_t n, hw_str subscriber_id,
                                hw_dead_letter_state state, hw_str reason, int64_t *ret_n,
                                howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int64_t marked = 0;

    (void)reason;
    for (int i = 0; s >= 0 && i < f->dead_letters_n; i++) {
        fake_dead_row *dead_letter = &f->dead_letters[i];

        if (dead_letter->resolved || !is_named(f, dead_letter, ids, n, subscriber_id))
            continue;
        dead_letter->state = state;
        dead_letter->resolved = state == HW_DEAD_LETTER_DISCARDED;
        dead_letter->redrives += state == HW_DEAD_LETTER_REDRIVE;
        marked++;
    }
    if (s < 0)
        return s;
    if (ret_n)
        *ret_n = marked;
    fake_sync(f);
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

static void end_redrive(fake *f, int64_t id, hw_dead_letter_state state)
{
    fake_dead_row *dead_letter = &f->dead_letters[id - 1];

    dead_letter->attempts += dead_letter->state == HW_DEAD_LETTER_REDRIVE;
    dead_letter->state = state;
    dead_letter->resolved = state == HW_DEAD_LETTER_REDRIVEN;
    fake_sync(f);
}

int fake_redrive_end(hw_store *base, const hw_hold *hold, int64_t id, hw_dead_letter_state state,
                     hw_str error, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, store->in_transaction ? FAKE_ASK : FAKE_WRITE, reterr);

    (void)error;
    if (s < 0)
        return s;
    if (fake_row(f, hold) == WORLD_NOBODY)
        return fake_leave(store, FAKE_WRITE, fake_lost(hold->subscriber_id, reterr), reterr);
    if (id > f->dead_letters_n || f->dead_letters[id - 1].resolved)
        return fake_leave(
            store, FAKE_WRITE,
            hw_fail(reterr, HOWDAH_NOT_FOUND, "letter %lld is resolved", (long long)id), reterr);
    if (store->in_transaction) {
        store->work.dead_letter = id;
        store->work.state = state;
    } else {
        end_redrive(f, id, state);
    }
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

/* --------------------------------------------------------------------------- skips */

int fake_do_skip(hw_store *base, const hw_checkpoint *checkpoint, hw_range range, int64_t age_ms,
                 hw_str reason, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);
    int sub;

    (void)reason;
    if (s < 0)
        return s;
    sub = fake_place(f, checkpoint);
    if (sub == WORLD_NOBODY)
        return fake_leave(store, FAKE_WRITE, fake_lost(checkpoint->subscriber_id, reterr), reterr);
    assert(f->skips_n < FAKE_SKIPS);
    f->skips[f->skips_n++] = (fake_skip){.sub = sub, .range = range, .age_ms = age_ms};
    if (f->hooks.skipped)
        f->hooks.skipped(f->hooks.ctx, sub, range);
    fake_put(f, sub, checkpoint);
    fake_sync(f);
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

int fake_skips(hw_store *base, hw_str subscriber_id, bool resolved, hw_skip_fn fn, void *ctx,
               howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_ASK, reterr);

    for (int i = 0; s >= 0 && i < f->skips_n; i++) {
        const fake_skip *skip = &f->skips[i];
        howdah_skip shown = {.size = sizeof shown,
                             .id = i + 1,
                             .subscriber_id = f->subs[skip->sub].id,
                             .first = skip->range.first,
                             .last = skip->range.last,
                             .age_ms = skip->age_ms,
                             .reason = "",
                             .resolution = "",
                             .resolved_at_us = skip->resolved};

        if (skip->sub != fake_find(f, subscriber_id) || (skip->resolved && !resolved))
            continue;
        if (fn(ctx, &shown) != 0)
            break;
    }
    return s < 0 ? s : fake_leave(store, FAKE_ASK, HOWDAH_OK, reterr);
}

int fake_skip_resolve(hw_store *base, int64_t id, hw_str resolution, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    int s = fake_enter(store, FAKE_WRITE, reterr);

    (void)resolution;
    if (s < 0)
        return s;
    if (id < 1 || id > f->skips_n)
        return hw_fail(reterr, HOWDAH_NOT_FOUND, "there is no skip %lld", (long long)id);
    f->skips[id - 1].resolved = true;
    return fake_leave(store, FAKE_WRITE, HOWDAH_OK, reterr);
}

/* ---------------------------------------------------------- handlers' transactions */

static bool is_log(const fake_store *store, hw_str log)
{
    return !log.s || hw_str_equal(log, hw_str_of(store->log));
}

static void set_in_transaction(fake_store *store, bool is)
{
    store->in_transaction = is;
    if (store->session > 0)
        store->client->server->sessions[store->session % FAKE_SESSIONS].in_transaction = is;
}

int fake_begin(hw_store *base, hw_str log, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    const world *w = server_of(base)->world;
    int s = fake_enter(store, FAKE_ASK, reterr);

    assert(!store->in_transaction);
    store->work = (fake_work){0};
    if (s < 0)
        return s;
    /* What it has met may be long ago. */
    if (!store->log[0] || (!is_log(store, log) && w->bug != WORLD_BUG_LOG_KEPT))
        fake_meet(store, w->drawn);
    if (!is_log(store, log))
        s = hw_fail(reterr, HOWDAH_LOST, "this is another log");
    s = fake_leave(store, FAKE_ASK, s, reterr);
    set_in_transaction(store, s >= 0);
    return s;
}

void *fake_handle(hw_store *base)
{
    return base;
}

void fake_effect(hw_store *tx, int64_t sequence, uint32_t life)
{
    fake_store *store = (fake_store *)tx;

    assert(store->in_transaction && store->work.effect == 0);
    store->work.effect = sequence;
    store->work.effect_life = life;
}

void fake_rollback(hw_store *base)
{
    set_in_transaction((fake_store *)base, false);
}

static void carry_out(fake *f, int sub, const fake_work *work, const hw_checkpoint *checkpoint)
{
    if (work->effect > 0 && f->hooks.effect)
        f->hooks.effect(f->hooks.ctx, sub, work->effect, work->effect_life);
    if (work->dead_letter > 0)
        end_redrive(f, work->dead_letter, work->state);
    if (f->world->bug != WORLD_BUG_COMMIT_FORGETS)
        fake_put(f, sub, checkpoint);
    fake_sync(f);
}

static void keep_for_later(fake *f, int sub, const fake_work *work, const hw_checkpoint *checkpoint)
{
    fake_late *late = &f->late[sub];

    *late = (fake_late){.open = true,
                        .work = *work,
                        .token = checkpoint->token,
                        .high = checkpoint->high,
                        .outstanding_n = checkpoint->outstanding_n,
                        .still_n = checkpoint->still_n,
                        .keeps_still = checkpoint->keeps_still,
                        .anchor = checkpoint->anchor};
    assert(checkpoint->outstanding_n <= FAKE_OUTSTANDING &&
           checkpoint->still_n <= FAKE_OUTSTANDING);
    if (checkpoint->still_n > 0)
        memcpy(late->still, checkpoint->still, checkpoint->still_n * sizeof *late->still);
    if (checkpoint->outstanding_n > 0)
        memcpy(late->outstanding, checkpoint->outstanding,
               checkpoint->outstanding_n * sizeof *late->outstanding);
}

void fake_prove_late(fake *f, int sub)
{
    fake_late *late = &f->late[sub];
    hw_checkpoint checkpoint = {.subscriber_id = hw_str_of(f->subs[sub].id),
                                .token = late->token,
                                .high = late->high,
                                .outstanding = late->outstanding,
                                .outstanding_n = late->outstanding_n,
                                .still = late->still,
                                .still_n = late->still_n,
                                .keeps_still = late->keeps_still,
                                .anchor = late->anchor};

    if (!late->open)
        return;
    late->open = false;
    if (dice_roll(&f->world->dice, 2) == 0)
        carry_out(f, sub, &late->work, &checkpoint);
}

int fake_commit(hw_store *base, const hw_checkpoint *checkpoint, howdah_error *reterr)
{
    fake_store *store = (fake_store *)base;
    fake *f = server_of(base);
    bool was_open = store->in_transaction;
    int s = fake_enter(store, FAKE_COMMIT, reterr);
    int sub;

    if (s >= 0 && (!was_open || !store->in_transaction))
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "the transaction is gone with its session");
    if (s < 0) {
        set_in_transaction(store, false);
        return s;
    }
    sub = fake_place(f, checkpoint);
    set_in_transaction(store, false);
    if (sub == WORLD_NOBODY)
        return fake_leave(store, FAKE_COMMIT, fake_lost(checkpoint->subscriber_id, reterr), reterr);
    if (store->late) {
        keep_for_later(f, sub, &store->work, checkpoint);
        store->cut_after = true;
        return fake_leave(store, FAKE_COMMIT, HOWDAH_OK, reterr);
    }
    carry_out(f, sub, &store->work, checkpoint);
    return fake_leave(store, FAKE_COMMIT, HOWDAH_OK, reterr);
}
