/*
 * writers.c - sessions that write, by chance: one statement a step.
 *
 * They sleep inside transactions, mostly for milliseconds, sometimes for minutes; they roll back,
 * also to savepoints, prepare and forget, and meet each other on streams.  Where the world wants it
 * the first one stays open for minutes, and the second burns hundreds of numbers at once.
 */
#include <assert.h>

#include "world.h"

/* Steep: most are short, and the long ones are very long. */
static int64_t nap_us(world *w)
{
    uint32_t roll = dice_roll(&w->dice, 100);
    int64_t us;

    if (roll < 65)
        us = dice_between(&w->dice, 0, 4000);
    else if (roll < 88)
        us = dice_between(&w->dice, 4000, 200000);
    else if (roll < 96)
        us = dice_between(&w->dice, 200000, 5000000);
    else
        us = dice_between(&w->dice, 5000000, 180000000);
    return us < w->patience_us ? us : w->patience_us;
}

void writers_init(world *w)
{
    w->writers_n = 1 + (int)dice_roll(&w->dice, WORLD_WRITERS);
    for (int i = 0; i < w->writers_n; i++)
        w->writers[i] = (world_writer){.txn = WORLD_NOBODY,
                                       .wake_us = w->now_us + dice_between(&w->dice, 0, 200000)};
}

static void forget(world_writer *writer)
{
    writer->txn = WORLD_NOBODY;
    writer->batch = 0;
}

static void begin(world *w, world_writer *writer)
{
    if (w->healing || w->drawn >= w->numbers_max) {
        writer->wake_us = INT64_MAX;
        return;
    }
    writer->txn = world_begin(w);
    if (writer->txn != WORLD_NOBODY && dice_roll(&w->dice, 2) == 0)
        world_assign_xid(w, writer->txn); /* it has written something else before */
}

static void insert(world *w, world_writer *writer)
{
    /* Few streams get most of the events. */
    int stream = (int)dice_roll(&w->dice, 1 + dice_roll(&w->dice, WORLD_STREAMS));
    int type = (int)dice_roll(&w->dice, WORLD_TYPES);

    if (writer->batch > 0) {
        writer->batch--;
        stream = writer->batch_stream;
    } else if (dice_roll(&w->dice, 12) == 0) {
        writer->batch = (int)dice_roll(&w->dice, 12);
        writer->batch_stream = stream;
    }
    if (!world_insert(w, writer->txn, stream, type)) {
        world_rollback(w, writer->txn);
        forget(writer);
    } else if (w->txns[writer->txn].waits_for != WORLD_NOBODY && dice_roll(&w->dice, 2) == 0) {
        writer->wake_us += nap_us(w); /* its number is drawn, and there is no row for long */
    }
}

/* Every second number is dead at once, the others come with the commit: as many holes as rows. */
static void burn(world *w, world_writer *writer)
{
    int32_t n = w->burst / 2 + (int32_t)dice_roll(&w->dice, (uint32_t)w->burst / 8 + 1);
    int stream = (int)dice_roll(&w->dice, WORLD_STREAMS);

    w->bursts++;
    w->burst = dice_roll(&w->dice, 2) == 0 ? w->burst : 0; /* perhaps not the last one */
    for (int32_t i = 0; i < n; i++) {
        int txn = writer->txn;

        /* Where it would have to wait it does not write. */
        for (int k = 0; k < WORLD_STREAMS && w->streams[stream].holder != txn &&
                        w->streams[stream].holder != WORLD_NOBODY;
             k++)
            stream = (stream + 1) % WORLD_STREAMS;
        if (w->streams[stream].holder != txn && w->streams[stream].holder != WORLD_NOBODY)
            return;
        world_savepoint(w, txn);
        if (!world_insert(w, txn, stream, 0))
            return;
        world_rollback_to(w, txn);
        world_release(w, txn);
        if (!world_insert(w, txn, stream, (int)dice_roll(&w->dice, WORLD_TYPES)))
            return;
        stream = (stream + 1) % WORLD_STREAMS;
    }
}

static void commit(world *w, world_writer *writer)
{
    world_commit(w, writer->txn);
    if (w->txns[writer->txn].state == TXN_COMMITTING)
        return; /* planted: the rest a moment later */
    forget(writer);
}

static void finish(world *w, world_writer *writer)
{
    if (dice_roll(&w->dice, 4) == 0) {
        world_rollback(w, writer->txn);
        forget(writer);
    } else {
        commit(w, writer);
    }
}

static void savepoint(world *w, world_writer *writer)
{
    if (w->txns[writer->txn].depth == 0 || dice_roll(&w->dice, 3) == 0)
        world_savepoint(w, writer->txn);
    else if (dice_roll(&w->dice, 2) == 0)
        world_rollback_to(w, writer->txn);
    else
        world_release(w, writer->txn);
}

/*
 * When somebody who waits for another one looks again: not before one of those acts who do not
 * wait.  Looking each millisecond for minutes was half of what a run did.
 */
static int64_t next_look_us(const world *w)
{
    int64_t soonest_us = w->now_us + 1000;
    int64_t next_us = w->now_us + 1000000;

    for (int i = 0; i < w->writers_n; i++) {
        const world_writer *other = &w->writers[i];
        bool waits = other->txn != WORLD_NOBODY && w->txns[other->txn].waits_for != WORLD_NOBODY;

        if (!waits && other->wake_us < next_us)
            next_us = other->wake_us;
    }
    return next_us < soonest_us ? soonest_us : next_us;
}

/* The holder of the stream has ended: its version is taken, or free again. */
static void go_on(world *w, world_writer *writer)
{
    const world_txn *t = &w->txns[writer->txn];

    if (w->streams[t->waits_for].holder != WORLD_NOBODY) {
        writer->wake_us = next_look_us(w);
        return;
    }
    if (world_resume(w, writer->txn))
        return;
    writer->batch = 0;
    if (t->depth > 0) {
        world_rollback_to(w, writer->txn);
    } else {
        world_rollback(w, writer->txn);
        forget(writer);
    }
}

static void step(world *w, world_writer *writer)
{
    const world_txn *t = writer->txn == WORLD_NOBODY ? NULL : &w->txns[writer->txn];
    uint32_t roll;

    writer->wake_us = w->now_us;
    if (!t) {
        begin(w, writer);
        if (writer->txn == WORLD_NOBODY && writer->wake_us != INT64_MAX)
            writer->wake_us += 1000;
        return;
    }
    if (t->state == TXN_PREPARED || t->state == TXN_COMMITTING) {
        if (t->state == TXN_COMMITTING)
            commit(w, writer);
        else
            finish(w, writer);
        return;
    }
    if (t->waits_for != WORLD_NOBODY) {
        go_on(w, writer);
        return;
    }
    roll = w->healing ? 80 : dice_roll(&w->dice, 100);
    if (!w->healing && w->sleeper && writer == &w->writers[0] && t->last != 0 &&
        dice_roll(&w->dice, 2) == 0) {
        writer->wake_us += dice_between(&w->dice, 60000000, 300000000);
        return;
    }
    if (!w->healing && w->burst > 0 && writer == &w->writers[1] && t->depth == 0 && roll < 45 &&
        t->xid != 0 && w->drawn + w->burst * 5 / 4 < WORLD_NUMBERS - 100) {
        burn(w, writer);
        return;
    }
    if (writer->batch > 0 || roll < 45) {
        insert(w, writer);
    } else if (roll < 60) {
        writer->wake_us += nap_us(w);
    } else if (roll < 70) {
        savepoint(w, writer);
    } else if (roll < (w->prepares && !w->healing ? 85 : 74)) {
        world_prepare(w, writer->txn);
        writer->wake_us += nap_us(w);
    } else {
        finish(w, writer);
        writer->wake_us += w->healing ? 0 : nap_us(w) / 2;
    }
}

/* Locks of transactions that have ended go a moment later. */
static void unlock_some(world *w)
{
    for (int i = 0; i < WORLD_TXNS; i++) {
        if (w->txns[i].state == TXN_ENDED && (w->healing || dice_roll(&w->dice, 2) == 0))
            world_unlock(w, i);
    }
}

bool writers_step(world *w)
{
    int awake[WORLD_WRITERS];
    uint32_t n = 0;

    unlock_some(w);
    for (int i = 0; i < w->writers_n; i++) {
        if (w->writers[i].wake_us <= w->now_us)
            awake[n++] = i;
    }
    if (n == 0)
        return false;
    step(w, &w->writers[awake[dice_roll(&w->dice, n)]]);
    return true;
}

int64_t writers_next_us(const world *w)
{
    int64_t next_us = INT64_MAX;

    for (int i = 0; i < w->writers_n; i++) {
        if (w->writers[i].wake_us < next_us)
            next_us = w->writers[i].wake_us;
    }
    return next_us;
}

void writers_heal(world *w)
{
    w->healing = true;
    for (int i = 0; i < w->writers_n; i++) {
        if (w->writers[i].wake_us > w->now_us)
            w->writers[i].wake_us = w->now_us;
        w->writers[i].batch = 0;
    }
}

bool writers_are_idle(const world *w)
{
    for (int i = 0; i < WORLD_TXNS; i++) {
        if (w->txns[i].state != TXN_FREE)
            return false;
    }
    return true;
}
