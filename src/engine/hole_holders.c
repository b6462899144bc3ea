/*
 * hole_holders.c - proof, by those who hold the log's sequence, that a missing number will
 * never appear.
 *
 * The invariants are in hole_holders.h.  There are few holders, as many as transactions append at
 * one moment; each look compares those it sees with those of the look before.
 */
#include "engine/hole_holders.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"

void hw_holders_init(hw_holders *holders)
{
    *holders = (hw_holders){0};
}

void hw_holders_done(hw_holders *holders)
{
    hw_free(holders->items);
    hw_ranges_done(&holders->alive);
    hw_ranges_done(&holders->freed);
    hw_holders_init(holders);
}

/* I5. */
static bool is_same(const hw_holder *a, const hw_holder *b)
{
    if (a->virtual_id != 0 && a->virtual_id == b->virtual_id)
        return true;
    return a->xid != 0 && a->xid == b->xid;
}

/* A walk: there are as many holders as transactions that append at one moment. */
static hw_known_holder *find(const hw_holders *holders, const hw_holder *seen)
{
    for (size_t i = 0; i < holders->n; i++) {
        if (is_same(&holders->items[i].seen, seen))
            return &holders->items[i];
    }
    return NULL;
}

/*
 * A prepared one that is not known may have been there before without an id (I5).  It may then be
 * any of those that had none, so the lowest of their bounds is taken.  Not of one that shows an id
 * of its own by now; but of one that still shows none, which may have been prepared while this look
 * was taken, and is seen twice (I6).
 */
static int64_t low_of_prepared(const hw_holders *holders, const hw_holder *seen, size_t n)
{
    int64_t low = holders->looks > 0 ? holders->drawn : 0;

    for (size_t i = 0; i < holders->n; i++) {
        const hw_known_holder *known = &holders->items[i];
        bool is_another = known->seen.xid != 0;

        for (size_t k = 0; k < n && !is_another; k++)
            is_another = seen[k].xid != 0 && is_same(&known->seen, &seen[k]);
        if (!is_another && known->low < low)
            low = known->low;
    }
    return low;
}

/*
 * What is known of one that this look sees (I1, I2); before: what was known of it, NULL: nothing.
 * On the first look nothing is known of anybody, and low is 0.
 */
static hw_known_holder know(const hw_holders *holders, int64_t drawn, const hw_holder *seen,
                            const hw_known_holder *before)
{
    hw_known_holder known = {*seen, holders->looks > 0 ? holders->drawn : 0, INT64_MAX};

    if (!before)
        return known;
    known.low = before->low;
    if (seen->xid == 0) /* its id is a lock of its own, which a look may miss at its end */
        known.seen.xid = before->seen.xid;
    if (seen->idle != 0 && seen->idle == before->seen.idle)
        known.until = before->until != INT64_MAX ? before->until : drawn;
    return known;
}

static int by_first(const void *a, const void *b)
{
    const hw_range *x = a;
    const hw_range *y = b;

    return x->first < y->first ? -1 : x->first > y->first;
}

/*
 * The numbers of all given, which are in no order; room for them is there.  It sorts the pieces
 * in place and allocates nothing, because it runs after the last step that may fail.
 */
static void join(hw_ranges *out, hw_range *pieces, size_t n)
{
    hw_range *items = out->items;

    hw_ranges_clear(out);
    if (!items || n == 0)
        return;
    qsort(pieces, n, sizeof *pieces, by_first);
    for (size_t i = 0; i < n; i++) {
        hw_range *last = out->n > 0 ? &items[out->n - 1] : NULL;

        if (pieces[i].first > pieces[i].last)
            continue;
        if (last && (last->last == INT64_MAX || pieces[i].first <= last->last + 1)) {
            if (pieces[i].last > last->last)
                last->last = pieces[i].last;
        } else {
            assert(out->n < out->room);
            items[out->n++] = pieces[i];
        }
    }
}

/* Empty (first > last) when no number was drawn between its two bounds; join() leaves it out. */
static hw_range numbers_of(const hw_known_holder *known)
{
    return (hw_range){known->low + 1, known->until};
}

/* I4: the first look frees nothing, for nothing was known before it. */
static size_t list_freed(const hw_holders *holders, const hw_known_holder *items, size_t n,
                         hw_range *out)
{
    size_t freed = 0;

    for (size_t i = 0; i < holders->n; i++) {
        bool there = false;

        for (size_t k = 0; k < n && !there; k++)
            there = is_same(&holders->items[i].seen, &items[k].seen);
        if (!there)
            out[freed++] = numbers_of(&holders->items[i]);
    }
    return freed;
}

/*
 * The evidence of a reader's round: rows must be read after it, and only then do alive and freed
 * mean anything for them.  The new list is built aside, so that a failed look leaves the old one.
 */
int hw_holders_look(hw_holders *holders, int64_t drawn, const hw_holder *seen, size_t n,
                    howdah_error *reterr)
{
    size_t most = n > holders->n ? n : holders->n;
    hw_known_holder *items = NULL;
    hw_range *pieces = NULL;
    int s = HOWDAH_OK;

    if (n > HW_HOLDERS_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT, "more than %d transactions hold numbers of the log",
                       HW_HOLDERS_MAX);
    items = hw_calloc(n + 1, sizeof *items);
    pieces = hw_calloc(most + 1, sizeof *pieces);
    if (!items || !pieces)
        s = hw_fail_no_memory(reterr);
    /* The last steps that may fail; after them the look counts. */
    hw_ranges_clear(&holders->freed);
    if (s >= 0)
        s = hw_ranges_reserve(&holders->freed, holders->n + 1, reterr);
    if (s >= 0)
        s = hw_ranges_reserve(&holders->alive, n + 1, reterr);
    if (s < 0) {
        hw_free(items);
        hw_free(pieces);
        return s;
    }
    holders->unsure = false;
    for (size_t i = 0; i < n; i++) {
        const hw_known_holder *before = find(holders, &seen[i]);

        holders->unsure |= before && before->seen.xid != 0 && seen[i].xid == 0;
        items[i] = know(holders, drawn, &seen[i], before);
        if (!before && seen[i].virtual_id == 0)
            items[i].low = low_of_prepared(holders, seen, n);
    }
    join(&holders->freed, pieces, list_freed(holders, items, n, pieces));
    for (size_t i = 0; i < n; i++)
        pieces[i] = numbers_of(&items[i]);
    if (drawn < INT64_MAX)
        pieces[n] = (hw_range){drawn + 1, INT64_MAX};
    hw_ranges_clear(&holders->alive);
    join(&holders->alive, pieces, n + (drawn < INT64_MAX));
    hw_free(pieces);
    hw_free(holders->items);
    holders->items = items;
    holders->n = n;
    holders->drawn = drawn;
    holders->looks++;
    return HOWDAH_OK;
}
