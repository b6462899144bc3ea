/* world.c - numbers, transactions and locks of the simulated server; see world.h. */
#include "world.h"

#include <assert.h>
#include <string.h>

#define LOGGED_AHEAD 32

const char *const world_stream_names[WORLD_STREAMS] = {"a", "b", "c", "d", "e", "f"};
const char *const world_type_names[WORLD_TYPES] = {"order.created", "order.paid", "stock.moved",
                                                   "stock.audit.done"};

void world_init(world *w, uint64_t seed)
{
    memset(w, 0, sizeof *w);
    w->dice.state = seed;
    w->now_us = 1000000;
    w->next_xid = 1000;
    w->numbers_max = WORLD_NUMBERS / 2;
    w->patience_us = INT64_C(180) * 1000000;
    for (int i = 0; i < WORLD_STREAMS; i++)
        w->streams[i].holder = WORLD_NOBODY;
    for (int i = 0; i < WORLD_WRITERS; i++)
        w->writers[i].txn = WORLD_NOBODY;
}

void world_note(world *w, uint64_t a, uint64_t b)
{
    w->trace = (w->trace ^ a) * UINT64_C(0x9E3779B97F4A7C15);
    w->trace =
        ((w->trace >> 29) ^ w->trace ^ b ^ (uint64_t)w->now_us) * UINT64_C(0xBF58476D1CE4E5B9);
}

/* ------------------------------------------------------------------ transactions */

int world_begin(world *w)
{
    for (int i = 0; i < WORLD_TXNS; i++) {
        if (w->txns[i].state == TXN_FREE) {
            w->txns[i] = (world_txn){.state = TXN_RUNNING,
                                     .virtual_id = ++w->next_virtual,
                                     .waits_for = WORLD_NOBODY,
                                     .since_us = w->now_us};
            return i;
        }
    }
    return WORLD_NOBODY;
}

static uint64_t draw_xid(world *w)
{
    return w->next_xid++;
}

void world_assign_xid(world *w, int txn)
{
    world_txn *t = &w->txns[txn];

    if (t->xid == 0)
        t->xid = t->top_xid = draw_xid(w);
}

/* The version that the stream has for this transaction: of its own rows the last one's. */
static int32_t version_seen(const world *w, int txn, int stream)
{
    int32_t version = w->streams[stream].version;

    for (int32_t n = w->txns[txn].last; n != 0; n = w->numbers[n].before) {
        const world_number *number = &w->numbers[n];

        if (number->state == NUMBER_IN_FLIGHT && number->stored && number->stream == stream)
            return number->version > version ? number->version : version;
    }
    return version;
}

static void store_row(world *w, int txn, world_number *number)
{
    world_txn *t = &w->txns[txn];

    if (t->xid == 0) /* only when ids are lazy */
        world_assign_xid(w, txn);
    t->steps++;
    if (t->depth > 0)
        t->top_xid = draw_xid(w); /* a savepoint that writes has one of its own */
    number->stored = true;
    w->streams[number->stream].holder = txn;
    t->waits_for = WORLD_NOBODY;
}

/* Whether waiting for the stream would close a circle. */
static bool is_deadlock(const world *w, int txn, int stream)
{
    for (int i = 0; i < WORLD_TXNS && stream != WORLD_NOBODY; i++) {
        int holder = w->streams[stream].holder;

        if (holder == txn)
            return true;
        if (holder == WORLD_NOBODY)
            return false;
        stream = w->txns[holder].waits_for;
    }
    return false;
}

static int32_t draw_number(world *w, int txn)
{
    world_txn *t = &w->txns[txn];

    if (!w->lazy_ids)
        world_assign_xid(w, txn);
    t->locks = true;
    t->steps++;
    w->drawn++;
    if (w->drawn > w->logged) { /* writes to the log, so it needs an id in any case */
        w->logged = w->drawn + LOGGED_AHEAD;
        world_assign_xid(w, txn);
    }
    return w->drawn;
}

bool world_insert(world *w, int txn, int stream, int type)
{
    world_txn *t = &w->txns[txn];
    world_number *number;
    int holder = w->streams[stream].holder;
    int32_t n;

    assert(t->state == TXN_RUNNING && t->waits_for == WORLD_NOBODY);
    if (w->drawn + LOGGED_AHEAD + 2 >= WORLD_NUMBERS ||
        version_seen(w, txn, stream) + 1 >= WORLD_NUMBERS / 4)
        return false;
    n = draw_number(w, txn);
    number = &w->numbers[n];
    *number = (world_number){.state = NUMBER_IN_FLIGHT,
                             .stream = (int8_t)stream,
                             .type = (int8_t)type,
                             .depth = (int8_t)t->depth,
                             .version = version_seen(w, txn, stream) + 1,
                             .before = t->last,
                             .life = w->life};
    t->last = n;
    world_note(w, 1, (uint64_t)n);
    if (holder != WORLD_NOBODY && holder != txn) {
        if (is_deadlock(w, txn, stream))
            return false;
        t->waits_for = stream;
        return true;
    }
    /* The row, and with it the id, comes a moment later. */
    if (w->lazy_ids && t->xid == 0) {
        t->waits_for = stream;
        return true;
    }
    store_row(w, txn, number);
    return true;
}

bool world_resume(world *w, int txn)
{
    world_txn *t = &w->txns[txn];
    world_number *number = &w->numbers[t->last];

    assert(t->waits_for == number->stream && !number->stored);
    if (w->streams[number->stream].holder != WORLD_NOBODY ||
        w->streams[number->stream].version + 1 != number->version)
        return false;
    store_row(w, txn, number);
    return true;
}

/* The transaction holds the stream no longer if nothing of it is left there. */
static void let_go_of_streams(world *w, int txn)
{
    for (int s = 0; s < WORLD_STREAMS; s++) {
        if (w->streams[s].holder == txn && version_seen(w, txn, s) == w->streams[s].version)
            w->streams[s].holder = WORLD_NOBODY;
    }
}

void world_savepoint(world *w, int txn)
{
    (void)w;
    if (w->txns[txn].depth < WORLD_SAVEPOINTS)
        w->txns[txn].depth++;
}

void world_rollback_to(world *w, int txn)
{
    world_txn *t = &w->txns[txn];

    assert(t->depth > 0);
    for (int32_t n = t->last; n != 0; n = w->numbers[n].before) {
        if (w->numbers[n].depth >= t->depth && w->numbers[n].state == NUMBER_IN_FLIGHT) {
            w->numbers[n].state = NUMBER_DEAD;
            world_note(w, 2, (uint64_t)n);
        }
    }
    t->waits_for = WORLD_NOBODY;
    let_go_of_streams(w, txn);
}

void world_release(world *w, int txn)
{
    world_txn *t = &w->txns[txn];

    assert(t->depth > 0);
    t->depth--;
    for (int32_t n = t->last; n != 0; n = w->numbers[n].before) {
        if (w->numbers[n].depth > t->depth)
            w->numbers[n].depth = (int8_t)t->depth;
    }
}

void world_prepare(world *w, int txn)
{
    assert(w->txns[txn].state == TXN_RUNNING && w->txns[txn].waits_for == WORLD_NOBODY);
    world_assign_xid(w, txn);
    w->txns[txn].state = TXN_PREPARED;
    world_note(w, 3, w->txns[txn].xid);
}

/* Rows in the order of their numbers: versions follow it. */
static void show_rows(world *w, int txn)
{
    int32_t mine[WORLD_NUMBERS / 2];
    int n = 0;

    for (int32_t i = w->txns[txn].last; i != 0; i = w->numbers[i].before) {
        if (w->numbers[i].state == NUMBER_IN_FLIGHT)
            mine[n++] = i;
    }
    while (n-- > 0) {
        world_number *number = &w->numbers[mine[n]];
        world_stream *stream = &w->streams[number->stream];

        assert(number->stored && number->version == stream->version + 1);
        assert(number->version < WORLD_NUMBERS / 4);
        stream->version++;
        w->by_version[number->stream][number->version] = mine[n];
        number->state = NUMBER_VISIBLE;
        number->order = ++w->orders;
        number->at_us = w->now_us;
        number->xid = w->txns[txn].xid;
        if (mine[n] > w->visible_high)
            w->visible_high = mine[n];
    }
}

static void end(world *w, int txn)
{
    world_txn *t = &w->txns[txn];

    for (int s = 0; s < WORLD_STREAMS; s++) {
        if (w->streams[s].holder == txn)
            w->streams[s].holder = WORLD_NOBODY;
    }
    t->waits_for = WORLD_NOBODY;
    t->state = t->locks ? TXN_ENDED : TXN_FREE;
}

void world_commit(world *w, int txn)
{
    world_txn *t = &w->txns[txn];
    int32_t orders = w->orders;

    assert(t->waits_for == WORLD_NOBODY);
    if (w->bug == WORLD_BUG_UNLOCKS_FIRST && t->state != TXN_COMMITTING && t->locks) {
        t->locks = false;
        t->state = TXN_COMMITTING;
        return;
    }
    world_note(w, 4, (uint64_t)t->last);
    show_rows(w, txn);
    end(w, txn);
    if (w->orders > orders && w->on_commit)
        w->on_commit(w->on_commit_ctx, orders + 1);
}

void world_rollback(world *w, int txn)
{
    for (int32_t n = w->txns[txn].last; n != 0; n = w->numbers[n].before) {
        if (w->numbers[n].state == NUMBER_IN_FLIGHT)
            w->numbers[n].state = NUMBER_DEAD;
    }
    world_note(w, 5, (uint64_t)w->txns[txn].last);
    end(w, txn);
}

void world_unlock(world *w, int txn)
{
    assert(w->txns[txn].state == TXN_ENDED);
    w->txns[txn].state = TXN_FREE;
}

void world_crash(world *w)
{
    for (int i = 0; i < WORLD_TXNS; i++) {
        txn_state state = w->txns[i].state;

        if (state == TXN_RUNNING || state == TXN_COMMITTING)
            world_rollback(w, i);
        if (state != TXN_PREPARED)
            w->txns[i].state = TXN_FREE;
    }
    for (int i = 0; i < w->writers_n; i++) {
        int txn = w->writers[i].txn;

        if (txn != WORLD_NOBODY && w->txns[txn].state != TXN_PREPARED)
            w->writers[i].txn = WORLD_NOBODY;
        w->writers[i].batch = 0;
    }
    w->drawn = w->logged > w->drawn ? w->logged : w->drawn; /* what is jumped over stays NONE */
    w->restarts++;
    world_note(w, 6, (uint64_t)w->drawn);
}

void world_replace(world *w, const world *image, bool told)
{
    world_writer now[WORLD_WRITERS];

    memcpy(now, w->writers, sizeof now);
    /* the log, the transactions, the writers */
    memcpy((char *)w + offsetof(world, numbers), (const char *)image + offsetof(world, numbers),
           offsetof(world, writers_n) - offsetof(world, numbers));
    for (int i = 0; i < WORLD_WRITERS; i++)
        w->writers[i].wake_us = now[i].wake_us == INT64_MAX ? w->now_us : now[i].wake_us;
    w->life++;
    if (told)
        w->timeline = ++w->timelines;
    /* A copy that was shut down knows exactly what it has given out. */
    if (dice_roll(&w->dice, 2) == 0)
        w->logged = w->drawn;
    world_crash(w);
    world_note(w, 7, w->life);
}

/* -------------------------------------------------------------------- questions */

bool world_is_visible(const world *w, int64_t number)
{
    return number >= 1 && number < WORLD_NUMBERS && w->numbers[number].state == NUMBER_VISIBLE;
}

size_t world_holders(const world *w, bool sees_idle, hw_holder *out)
{
    size_t n = 0;

    for (int i = 0; i < WORLD_TXNS; i++) {
        const world_txn *t = &w->txns[i];
        bool prepared = t->state == TXN_PREPARED;

        if (t->state == TXN_FREE || !t->locks || (prepared && w->bug == WORLD_BUG_PREPARED_UNSEEN))
            continue;
        if (t->state == TXN_ENDED && t->xid != 0) /* its lock outlives it */
            continue;
        out[n++] = (hw_holder){.virtual_id = prepared ? 0 : t->virtual_id,
                               .xid = t->xid,
                               .idle = prepared || w->bug == WORLD_BUG_IDLE_LIES ? 1
                                       : sees_idle && t->state == TXN_RUNNING    ? 2 + t->steps
                                                                                 : 0};
    }
    return n;
}
