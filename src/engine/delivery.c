/*
 * delivery.c - the state of one subscription; its invariants are in delivery.h.
 *
 * On the healthy path (rows in a row, every handler succeeds) missing and retries are empty and
 * pending holds one number for the time that its handler runs: each step is a few comparisons.
 *
 * Streams that stand still are entries of retries, found by walking them: they are few, or else
 * something is so wrong that pending_max ends it.  An entry is the queue of its stream: the event
 * that is tried next, and those after it in order.
 */
#include "engine/delivery.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/mem.h"
#include "engine/backoff.h"

#define ROOM_FIRST 8
/* A row may leave a gap and become pending; with less nothing would ever fit. */
#define OUTSTANDING_LEAST 2

/* ------------------------------------------------------------------ beginning and end */

void hw_delivery_init(hw_delivery *d, const hw_delivery_config *config)
{
    *d = (hw_delivery){.config = *config};
    if (d->config.outstanding_max == 0)
        d->config.outstanding_max = HW_OUTSTANDING_MAX;
    else if (d->config.outstanding_max < OUTSTANDING_LEAST)
        d->config.outstanding_max = OUTSTANDING_LEAST;
    if (d->config.pending_max == 0)
        d->config.pending_max = HW_PENDING_MAX;
}

/* The entries only: retries itself is kept for the next load. */
static void forget_retries(hw_delivery *d)
{
    for (size_t i = 0; i < d->retries_n; i++)
        hw_free(d->retries[i].behind);
    d->retries_n = 0;
    d->waiting = 0;
}

void hw_delivery_done(hw_delivery *d)
{
    forget_retries(d);
    hw_free(d->retries);
    hw_ranges_done(&d->missing);
    hw_ranges_done(&d->pending);
    hw_ranges_done(&d->spare);
    *d = (hw_delivery){.config = d->config};
}

/*
 * The next "missing" is built in spare and swapped in at the end, so that a failure on the way
 * leaves the state as it was (I6), and neither array is allocated anew for each page.
 */
static void swap_missing(hw_delivery *d)
{
    hw_ranges missing = d->missing;

    d->missing = d->spare;
    d->spare = missing;
}

/*
 * Ranges come from the store, so they are checked and not asserted.  Nothing of the old state is
 * touched before all of them have been read (I6).  The attempts made by the owner before are not
 * known here, so every event starts with all its tries.
 */
int hw_delivery_load(hw_delivery *d, int64_t high, const hw_range *outstanding,
                     size_t outstanding_n, int64_t suspects, howdah_error *reterr)
{
    int64_t before = 0;
    int s;

    hw_ranges_clear(&d->spare);
    if (high < 0)
        return hw_fail(reterr, HOWDAH_CORRUPT, "a checkpoint is at %lld, below 0", (long long)high);
    for (size_t i = 0; i < outstanding_n; i++) {
        if (outstanding[i].first <= before || outstanding[i].first > outstanding[i].last ||
            outstanding[i].last > high)
            return hw_fail(reterr, HOWDAH_CORRUPT,
                           "a checkpoint at %lld has %lld to %lld outstanding after %lld",
                           (long long)high, (long long)outstanding[i].first,
                           (long long)outstanding[i].last, (long long)before);
        before = outstanding[i].last;
        s = hw_ranges_add(&d->spare, outstanding[i].first, outstanding[i].last, reterr);
        if (s < 0)
            return s;
    }
    forget_retries(d);
    hw_ranges_clear(&d->pending);
    swap_missing(d);
    d->high = high;
    d->in_hand = 0;
    d->suspects = suspects;
    hw_delivery_checkpointed(d);
    return HOWDAH_OK;
}

/* ------------------------------------------------------- streams that stand still */

/*
 * FNV-1a.  Names are kept as hashes only: an entry needs no memory for the text, and two streams
 * of one hash only wait for each other.
 */
static uint64_t hash_of(hw_str stream)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < stream.len; i++)
        hash = (hash ^ (uint8_t)stream.s[i]) * UINT64_C(1099511628211);
    return hash;
}

static hw_retry *find_stream(const hw_delivery *d, uint64_t stream)
{
    for (size_t i = 0; i < d->retries_n; i++) {
        if (d->retries[i].stream == stream)
            return &d->retries[i];
    }
    return NULL;
}

/* The entry whose next event this is; not those in which it waits after another one. */
static hw_retry *find_leader(const hw_delivery *d, int64_t sequence)
{
    for (size_t i = 0; i < d->retries_n; i++) {
        if (d->retries[i].sequence == sequence)
            return &d->retries[i];
    }
    return NULL;
}

/* Called before DELIVER is answered: when the handler fails, park() needs the entry (I6). */
static int reserve_retry(hw_delivery *d, howdah_error *reterr)
{
    size_t room = d->retries_room ? d->retries_room * 2 : ROOM_FIRST;
    hw_retry *retries;

    if (d->retries_n < d->retries_room)
        return HOWDAH_OK;
    retries = hw_realloc(d->retries, room * sizeof *retries);
    if (!retries)
        return hw_fail_no_memory(reterr);
    d->retries = retries;
    d->retries_room = room;
    return HOWDAH_OK;
}

/*
 * Room for one more.  A queue whose head has moved on has room at its front, which stand_behind()
 * uses.
 */
static int reserve_behind(hw_retry *retry, howdah_error *reterr)
{
    size_t room = retry->behind_room ? retry->behind_room * 2 : ROOM_FIRST;
    int64_t *behind;

    if (retry->behind_at > 0 || retry->behind_n < retry->behind_room)
        return HOWDAH_OK;
    behind = hw_realloc(retry->behind, room * sizeof *behind);
    if (!behind)
        return hw_fail_no_memory(reterr);
    retry->behind = behind;
    retry->behind_room = room;
    return HOWDAH_OK;
}

/* Puts a number into the queue after the leader, in order (I3); there is room. */
static void stand_behind(hw_retry *retry, int64_t sequence)
{
    size_t n = retry->behind_n - retry->behind_at;
    size_t at;

    if (retry->behind_n == retry->behind_room) {
        memmove(retry->behind, retry->behind + retry->behind_at, n * sizeof *retry->behind);
        retry->behind_at = 0;
        retry->behind_n = n;
    }
    assert(retry->behind_n < retry->behind_room);
    at = retry->behind_n++;
    /* Later events come later, so this ends at once. */
    for (; at > retry->behind_at && retry->behind[at - 1] > sequence; at--)
        retry->behind[at] = retry->behind[at - 1];
    retry->behind[at] = sequence;
}

/*
 * The leader is out of the way: the next one moves up and is due at once, or the stream is free.
 * The last entry takes the place of one that is over; entries are in no order.
 */
static void move_up(hw_delivery *d, hw_retry *retry, int64_t now_ms)
{
    assert(d->waiting > 0);
    d->waiting--;
    if (retry->behind_at < retry->behind_n) {
        retry->sequence = retry->behind[retry->behind_at++];
        retry->attempts = 0;
        retry->due_ms = now_ms;
        return;
    }
    hw_free(retry->behind);
    *retry = d->retries[--d->retries_n];
}

/*
 * A new entry, or the head of the queue that its stream has.  In the second case the event in
 * hand is the earlier one: it filled a hole below the event that has waited so far (I3).
 */
static hw_retry *lead(hw_delivery *d, uint64_t stream)
{
    hw_retry *retry = find_stream(d, stream);

    assert(!retry || retry->sequence > d->in_hand);
    if (retry) {
        stand_behind(retry, retry->sequence);
    } else {
        assert(d->retries_n < d->retries_room); /* deliver() reserved it */
        retry = &d->retries[d->retries_n++];
        *retry = (hw_retry){.stream = stream};
    }
    retry->sequence = d->in_hand;
    d->waiting++;
    return retry;
}

/*
 * The event in hand waits for another try; there is room, since DELIVER was the answer (I6).  One
 * that was read again for its retry has an entry already.
 */
static void park(hw_delivery *d, hw_str stream, unsigned attempts, int64_t due_ms)
{
    hw_retry *retry = find_leader(d, d->in_hand);

    if (!retry)
        retry = lead(d, hash_of(stream));
    retry->attempts = attempts;
    retry->due_ms = due_ms;
    d->in_hand = 0;
}

/* ------------------------------------------------------------------------- offers */

static int64_t add_ms(int64_t when_ms, int64_t delay_ms)
{
    return delay_ms > INT64_MAX - when_ms ? INT64_MAX : when_ms + delay_ms;
}

/* More is accounted for than the stored checkpoint says; the time limit runs from the first. */
static void mark_moved(hw_delivery *d, int64_t now_ms)
{
    if (!d->moved)
        d->moved_since_ms = now_ms;
    d->moved = true;
}

/*
 * I4, for a number of a missing range.  Alone in it, it takes the range's place among the pending;
 * inside, it splits the range; at the edge of a full set it may pass when nothing else is pending,
 * or a subscription that is full of holes would never be rid of them.
 */
static bool fits_inside(const hw_delivery *d, int64_t sequence, bool matches)
{
    hw_range range = d->missing.items[hw_ranges_find(&d->missing, sequence)];
    bool inside = range.first < sequence && sequence < range.last;
    bool alone = range.first == range.last;
    size_t count = d->missing.n + d->pending.n + matches + inside;

    if (alone || (!matches && !inside) || count <= d->config.outstanding_max)
        return true;
    return !inside && d->pending.n == 0;
}

/* I4.  A number above high + 1 leaves a gap, which is one range more. */
static bool fits(const hw_delivery *d, int64_t sequence, bool matches)
{
    size_t count = d->missing.n + d->pending.n + matches;

    if (matches && d->waiting >= d->config.pending_max)
        return false;
    if (sequence <= d->high)
        return fits_inside(d, sequence, matches);
    return count + (sequence > d->high + 1) <= d->config.outstanding_max;
}

/* STRICT: whether something before it is outstanding, or not accounted for. */
static bool out_of_order(const hw_delivery *d, int64_t sequence)
{
    return d->pending.n > 0 || sequence > d->high + 1 ||
           (d->missing.n > 0 && d->missing.items[0].first < sequence);
}

/*
 * The number is accounted for from now on, if only as pending (I1). reserve() was called, so that
 * neither set needs memory and nothing fails here (I6).
 */
static void accept(hw_delivery *d, int64_t sequence, bool pending)
{
    int s = HOWDAH_OK;

    if (sequence > d->high + 1)
        s = hw_ranges_add(&d->missing, d->high + 1, sequence - 1, NULL);
    else if (sequence <= d->high)
        s = hw_ranges_remove(&d->missing, sequence, sequence, NULL);
    assert(s == HOWDAH_OK);
    if (sequence > d->high)
        d->high = sequence;
    if (pending)
        s = hw_ranges_add(&d->pending, sequence, sequence, NULL);
    assert(s == HOWDAH_OK);
    (void)s;
}

/* One for accept() in each set, one more for the split when the number leaves pending. */
static int reserve(hw_delivery *d, howdah_error *reterr)
{
    int s = hw_ranges_reserve(&d->missing, 1, reterr);

    return s < 0 ? s : hw_ranges_reserve(&d->pending, 2, reterr);
}

/* Its stream has failed before: the event waits without a try of its own (I3). */
static int hold(hw_delivery *d, hw_retry *retry, int64_t sequence, howdah_error *reterr)
{
    int s = reserve_behind(retry, reterr);

    if (s < 0)
        return s;
    accept(d, sequence, true);
    stand_behind(retry, sequence);
    d->waiting++;
    return HOWDAH_OK;
}

/*
 * leading: the entry of its stream, whose events are later ones; NULL: there is none.  All that a
 * failure of the handler would need is reserved first (I6).
 */
static int deliver(hw_delivery *d, hw_retry *leading, int64_t sequence, howdah_error *reterr)
{
    int s = leading ? reserve_behind(leading, reterr) : reserve_retry(d, reterr);

    if (s < 0)
        return s;
    accept(d, sequence, true);
    d->in_hand = sequence;
    d->in_hand_attempts = 0;
    return HOWDAH_OK;
}

int hw_delivery_offer(hw_delivery *d, int64_t sequence, hw_str stream, bool matches, int64_t now_ms,
                      hw_offer *ret_offer, howdah_error *reterr)
{
    hw_retry *retry = NULL;
    hw_offer offer = HW_OFFER_SKIP;
    int s;

    assert(sequence > 0 && d->in_hand == 0);
    /* I1: it is pending, or done. */
    if (sequence <= d->high && !hw_ranges_has(&d->missing, sequence)) {
        *ret_offer = HW_OFFER_SKIP;
        return HOWDAH_OK;
    }
    if (!fits(d, sequence, matches) ||
        (matches && d->config.ordering == HOWDAH_ORDERING_STRICT && out_of_order(d, sequence))) {
        *ret_offer = HW_OFFER_WAIT;
        return HOWDAH_OK;
    }
    s = reserve(d, reterr);
    if (s < 0)
        return s;
    if (!matches) {
        accept(d, sequence, false);
        mark_moved(d, now_ms);
    } else {
        if (d->retries_n > 0)
            retry = find_stream(d, hash_of(stream));
        offer = retry && retry->sequence < sequence ? HW_OFFER_HELD : HW_OFFER_DELIVER;
        s = offer == HW_OFFER_HELD ? hold(d, retry, sequence, reterr)
                                   : deliver(d, retry, sequence, reterr);
    }
    if (s == HOWDAH_OK)
        *ret_offer = offer;
    return s;
}

/*
 * Between hw_delivery_due() and the row an earlier event of the stream may have turned up, or
 * failed again; then this one is no leader any more and waits. finish() may split a range of
 * pending: the room for that is reserved here (I6).
 */
int hw_delivery_retry(hw_delivery *d, int64_t sequence, hw_offer *ret_offer, howdah_error *reterr)
{
    const hw_retry *retry = find_leader(d, sequence);
    int s;

    assert(d->in_hand == 0);
    if (!retry) {
        *ret_offer = HW_OFFER_SKIP;
        return HOWDAH_OK;
    }
    s = hw_ranges_reserve(&d->pending, 1, reterr);
    if (s < 0)
        return s;
    assert(hw_ranges_has(&d->pending, sequence));
    d->in_hand = sequence;
    d->in_hand_attempts = retry->attempts;
    *ret_offer = HW_OFFER_DELIVER;
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------------ results */

/* The event in hand leaves pending (I2). */
static void finish(hw_delivery *d, int64_t now_ms)
{
    hw_retry *retry = find_leader(d, d->in_hand);
    int s = hw_ranges_remove(&d->pending, d->in_hand, d->in_hand, NULL);

    assert(s == HOWDAH_OK); /* the room for a split was reserved */
    (void)s;
    if (retry)
        move_up(d, retry, now_ms);
    d->in_hand = 0;
    if (d->suspects > 0)
        d->suspects--;
}

/*
 * In a transaction of the handler's the checkpoint is stored already; otherwise it becomes due by
 * the rules of checkpoint_at_ms().
 */
int hw_delivery_handled(hw_delivery *d, int64_t sequence, int64_t now_ms, howdah_error *reterr)
{
    (void)reterr;
    (void)sequence; /* NDEBUG */
    assert(sequence != 0 && sequence == d->in_hand);
    finish(d, now_ms);
    if (d->config.mode == HOWDAH_CHECKPOINT_TRANSACTIONAL) {
        hw_delivery_checkpointed(d);
        return HOWDAH_OK;
    }
    if (d->unsaved == 0)
        d->unsaved_since_ms = now_ms;
    d->unsaved++;
    d->last_sequence = sequence;
    mark_moved(d, now_ms);
    return HOWDAH_OK;
}

/* The dead letter and the checkpoint were one transaction, so there is nothing left to store. */
int hw_delivery_dead_lettered(hw_delivery *d, int64_t sequence, int64_t now_ms,
                              howdah_error *reterr)
{
    (void)reterr;
    (void)sequence; /* NDEBUG */
    assert(sequence != 0 && sequence == d->in_hand);
    finish(d, now_ms);
    hw_delivery_checkpointed(d);
    return HOWDAH_OK;
}

/*
 * The delay grows with the tries made so far.  A dead letter is written by the caller while the
 * event is still in hand: until it is stored the event must stay outstanding (I2).
 */
int hw_delivery_failed(hw_delivery *d, int64_t sequence, hw_str stream, int64_t now_ms,
                       uint32_t random, hw_failed *ret_failed, howdah_error *reterr)
{
    unsigned tries = d->in_hand_attempts;
    int64_t delay_ms = hw_backoff_ms(d->config.retry_delay_ms, d->config.max_retry_delay_ms, tries,
                                     d->config.jitter_percent, random);

    (void)reterr;
    (void)sequence; /* NDEBUG */
    assert(sequence != 0 && sequence == d->in_hand);
    if (tries < UINT_MAX)
        tries++;
    if (tries <= d->config.max_retries) {
        park(d, stream, tries, add_ms(now_ms, delay_ms));
        *ret_failed = HW_FAILED_RETRY;
    } else if (d->config.fail_closed) {
        park(d, stream, 0, now_ms); /* released, it comes first and has all its tries again */
        *ret_failed = HW_FAILED_HALT;
    } else {
        *ret_failed = HW_FAILED_DEAD_LETTER;
    }
    return HOWDAH_OK;
}

/* No attempt is counted: the handler was stopped, it did not fail. */
int hw_delivery_put_back(hw_delivery *d, int64_t sequence, hw_str stream, int64_t now_ms,
                         howdah_error *reterr)
{
    (void)reterr;
    (void)sequence; /* NDEBUG */
    assert(sequence != 0 && sequence == d->in_hand);
    park(d, stream, d->in_hand_attempts, now_ms);
    return HOWDAH_OK;
}

/* -------------------------------------------------------------------------- pages */

/* The first hole that ends at or above number. */
static size_t find_hole(const hw_hole *holes, size_t holes_n, int64_t number)
{
    size_t low = 0;
    size_t high = holes_n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (holes[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static hw_range intersect(hw_range a, int64_t first, int64_t last)
{
    return (hw_range){a.first > first ? a.first : first, a.last < last ? a.last : last};
}

/*
 * Adds to out the part of range that is still missing: up to upto only what is a hole, because
 * a row that is neither seen nor in a hole will never come (I2); above upto all of it, as nothing
 * was read there.
 */
static int keep_holes(hw_ranges *out, hw_range range, int64_t upto, const hw_hole *holes,
                      size_t holes_n, howdah_error *reterr)
{
    int64_t last = range.last < upto ? range.last : upto;
    int s = HOWDAH_OK;

    if (range.first > upto)
        return hw_ranges_add(out, range.first, range.last, reterr);
    for (size_t i = find_hole(holes, holes_n, range.first);
         s == HOWDAH_OK && i < holes_n && holes[i].first <= last; i++) {
        hw_range kept = intersect((hw_range){range.first, last}, holes[i].first, holes[i].last);

        s = hw_ranges_add(out, kept.first, kept.last, reterr);
    }
    if (s == HOWDAH_OK && range.last > upto)
        s = hw_ranges_add(out, upto + 1, range.last, reterr);
    return s;
}

/*
 * Adds the holes above high to spare; *upto goes down when they would be too many (I4), and the
 * numbers from there on are read again later.
 */
static int add_holes(hw_delivery *d, int64_t *upto, const hw_hole *holes, size_t holes_n,
                     howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = find_hole(holes, holes_n, d->high + 1);
         s == HOWDAH_OK && i < holes_n && holes[i].first <= *upto; i++) {
        hw_range hole = intersect((hw_range){d->high + 1, *upto}, holes[i].first, holes[i].last);

        if (d->spare.n + d->pending.n >= d->config.outstanding_max) {
            *upto = hole.first - 1;
            break;
        }
        s = hw_ranges_add(&d->spare, hole.first, hole.last, reterr);
    }
    return s;
}

/*
 * Whether the pass changed nothing.  Then it makes no checkpoint due: an idle subscription with
 * an open hole would otherwise store the same one again and again.
 */
static bool spare_is_missing(const hw_delivery *d)
{
    return d->spare.n == d->missing.n &&
           (d->spare.n == 0 ||
            memcmp(d->spare.items, d->missing.items, d->spare.n * sizeof *d->spare.items) == 0);
}

int hw_delivery_pass(hw_delivery *d, int64_t upto, const hw_hole *holes, size_t holes_n,
                     int64_t now_ms, howdah_error *reterr)
{
    int64_t high = d->high;
    int s = HOWDAH_OK;

    hw_ranges_clear(&d->spare);
    for (size_t i = 0; s == HOWDAH_OK && i < d->missing.n; i++)
        s = keep_holes(&d->spare, d->missing.items[i], upto, holes, holes_n, reterr);
    if (s == HOWDAH_OK && upto > high) {
        s = add_holes(d, &upto, holes, holes_n, reterr);
        high = upto;
    }
    if (s < 0)
        return s;
    if (high != d->high || !spare_is_missing(d))
        mark_moved(d, now_ms);
    swap_missing(d);
    d->high = high;
    return HOWDAH_OK;
}

/*
 * The set that stands still is remembered once for all subscriptions (still_holes.h), so a
 * checkpoint need not repeat it.  Numbers of "owes" above high are not this subscription's yet.
 */
int hw_delivery_put_aside(hw_delivery *d, const hw_ranges *still, const hw_ranges *owes,
                          int64_t now_ms, howdah_error *reterr)
{
    hw_ranges left = HW_RANGES_INIT;
    int s = hw_ranges_subtract(&left, &d->missing, still, reterr);

    if (s == HOWDAH_OK)
        s = hw_ranges_unite(&d->spare, &left, owes, reterr);
    hw_ranges_done(&left);
    if (s == HOWDAH_OK && d->spare.n > 0 && d->spare.items[d->spare.n - 1].last > d->high)
        s = hw_ranges_remove(&d->spare, d->high + 1, INT64_MAX, reterr);
    if (s < 0)
        return s;
    swap_missing(d);
    mark_moved(d, now_ms);
    return HOWDAH_OK;
}

/*
 * STRICT: the last number of the first hole that concerns the subscription.  Nothing after it may
 * be delivered before the hole is filled or proven dead; the hole's own numbers may be read.
 */
static int64_t strict_end(const hw_delivery *d, const hw_hole *holes, size_t holes_n)
{
    size_t h = find_hole(holes, holes_n, d->high + 1);
    int64_t end = h < holes_n ? holes[h].last : INT64_MAX;

    for (size_t i = 0; i < d->missing.n; i++) {
        h = find_hole(holes, holes_n, d->missing.items[i].first);
        if (h < holes_n && holes[h].first <= d->missing.items[i].last)
            return holes[h].last;
    }
    return end;
}

/*
 * A number that is pending is not asked for again: hw_delivery_due() names it when its time
 * comes.
 */
int hw_delivery_wanted(const hw_delivery *d, int64_t to, const hw_hole *holes, size_t holes_n,
                       hw_ranges *out, int64_t *ret_upto, howdah_error *reterr)
{
    bool strict = d->config.ordering == HOWDAH_ORDERING_STRICT;
    int64_t end = strict ? strict_end(d, holes, holes_n) : INT64_MAX;
    int64_t upto = to < end ? to : end;
    int s = HOWDAH_OK;

    hw_ranges_clear(out);
    *ret_upto = 0;
    if ((strict && d->pending.n > 0) || d->waiting >= d->config.pending_max)
        return HOWDAH_OK;
    for (size_t i = 0; s == HOWDAH_OK && i < d->missing.n && d->missing.items[i].first <= upto;
         i++) {
        hw_range range = intersect(d->missing.items[i], 1, upto);

        s = hw_ranges_add(out, range.first, range.last, reterr);
    }
    if (upto > d->high &&
        d->missing.n + d->pending.n + OUTSTANDING_LEAST > d->config.outstanding_max)
        upto = d->high;
    if (s == HOWDAH_OK && upto > d->high)
        s = hw_ranges_add(out, d->high + 1, upto, reterr);
    if (s == HOWDAH_OK)
        *ret_upto = upto;
    return s;
}

/* ---------------------------------------------------------------------- due times */

/* Puts number into the sorted out; the highest falls off when it is full. */
static size_t insert(int64_t *out, size_t n, size_t room, int64_t number)
{
    size_t at;

    if (n == room) {
        if (out[n - 1] < number)
            return n;
        n--;
    }
    for (at = n; at > 0 && out[at - 1] > number; at--)
        out[at] = out[at - 1];
    out[at] = number;
    return n + 1;
}

/*
 * The lowest numbers first, so that a caller with little room keeps the order of a stream (I3).
 */
size_t hw_delivery_due(const hw_delivery *d, int64_t now_ms, int64_t *out, size_t room)
{
    size_t n = 0;

    for (size_t i = 0; i < d->retries_n && room > 0; i++) {
        const hw_retry *retry = &d->retries[i];

        if (retry->due_ms > now_ms || retry->sequence == d->in_hand)
            continue;
        n = insert(out, n, room, retry->sequence);
        /* One that has failed may fail again: those after it would be read for nothing. */
        if (retry->attempts > 0)
            continue;
        for (size_t k = retry->behind_at; k < retry->behind_n; k++) {
            if (n == room && out[n - 1] < retry->behind[k])
                break;
            n = insert(out, n, room, retry->behind[k]);
        }
    }
    return n;
}

/*
 * When to store; INT64_MAX: there is nothing to store.  With suspects each event is stored by
 * itself, because any of them may kill the process.
 */
static int64_t checkpoint_at_ms(const hw_delivery *d)
{
    int64_t at_ms = INT64_MAX;

    if (d->moved)
        at_ms = add_ms(d->moved_since_ms, d->config.max_delay_ms);
    if (d->unsaved == 0)
        return at_ms;
    if (d->config.mode != HOWDAH_CHECKPOINT_BATCHED || d->unsaved >= d->config.batch_size ||
        d->suspects > 0)
        return d->unsaved_since_ms;
    /* moved since then at the latest: at_ms is not above unsaved_since_ms + max_delay_ms */
    return at_ms;
}

int64_t hw_delivery_next_ms(const hw_delivery *d)
{
    int64_t next_ms = checkpoint_at_ms(d);

    for (size_t i = 0; i < d->retries_n; i++) {
        if (d->retries[i].due_ms < next_ms)
            next_ms = d->retries[i].due_ms;
    }
    return next_ms;
}

/* --------------------------------------------------------------------- checkpoints */

/* INT64_MAX means that there is nothing to store, whatever the time is. */
bool hw_delivery_checkpoint_due(const hw_delivery *d, int64_t now_ms)
{
    int64_t at_ms = checkpoint_at_ms(d);

    return at_ms <= now_ms && at_ms != INT64_MAX;
}

int hw_delivery_outstanding(const hw_delivery *d, hw_ranges *out, howdah_error *reterr)
{
    return hw_delivery_outstanding_without(d, 0, 0, out, reterr);
}

/*
 * For a checkpoint that shares a transaction with the handler's effect, a dead letter or a
 * recorded skip: it must already say what is true once that transaction has committed.  Missing
 * and pending are both sorted, and merged in one walk.
 */
int hw_delivery_outstanding_without(const hw_delivery *d, int64_t first, int64_t last,
                                    hw_ranges *out, howdah_error *reterr)
{
    const hw_range *m = d->missing.items;
    const hw_range *p = d->pending.items;
    size_t m_n = d->missing.n;
    size_t p_n = d->pending.n;
    int s;

    hw_ranges_clear(out);
    s = hw_ranges_reserve(out, m_n + p_n + 1, reterr); /* one for a split */
    while (s == HOWDAH_OK && (m_n > 0 || p_n > 0)) {
        bool from_missing = p_n == 0 || (m_n > 0 && m->first < p->first);
        hw_range range = from_missing ? *m : *p;

        if (from_missing) {
            m++;
            m_n--;
        } else {
            p++;
            p_n--;
        }
        assert(range.last <= d->high);
        s = hw_ranges_add(out, range.first, range.last, reterr);
    }
    if (s == HOWDAH_OK && last > 0)
        s = hw_ranges_remove(out, first, last, reterr);
    return s;
}

/*
 * What accept() has left between two rows is not looked through before the page is.
 */
int hw_delivery_outstanding_amid(const hw_delivery *d, int64_t passed, const hw_hole *holes,
                                 size_t holes_n, hw_ranges *out, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    assert(d->pending.n == 0);
    hw_ranges_clear(out);
    for (size_t i = 0; s == HOWDAH_OK && i < d->missing.n; i++) {
        hw_range range = d->missing.items[i];
        int64_t last = range.last < passed ? range.last : passed;

        if (range.first <= last)
            s = hw_ranges_add(out, range.first, last, reterr);
        if (s == HOWDAH_OK && range.last > passed)
            s = keep_holes(out, intersect(range, passed + 1, range.last), INT64_MAX, holes, holes_n,
                           reterr);
    }
    return s;
}

/* Also right after a load: what is in memory is what is stored. */
void hw_delivery_checkpointed(hw_delivery *d)
{
    d->last_sequence = 0;
    d->unsaved = 0;
    d->moved = false;
}

int64_t hw_delivery_contiguous(const hw_delivery *d)
{
    int64_t low = d->high;

    if (d->missing.n > 0 && d->missing.items[0].first <= low)
        low = d->missing.items[0].first - 1;
    if (d->pending.n > 0 && d->pending.items[0].first <= low)
        low = d->pending.items[0].first - 1;
    return low;
}

/* -------------------------------------------------------------------- gap_policy */

/*
 * The age is that of the frontier's hole, not of the subscription: a hole that was seen long ago
 * is overdue for a new subscription at once.
 */
bool hw_delivery_overdue(const hw_delivery *d, const hw_hole *holes, size_t holes_n, int64_t now_ms,
                         hw_range *ret_range, int64_t *ret_age_ms)
{
    if (d->config.gap_policy != HOWDAH_GAP_TIMEOUT)
        return false;
    for (size_t i = 0; i < d->missing.n; i++) {
        hw_range range = d->missing.items[i];

        for (size_t h = find_hole(holes, holes_n, range.first);
             h < holes_n && holes[h].first <= range.last; h++) {
            int64_t age_ms = now_ms - holes[h].since_ms;

            if (age_ms < d->config.gap_timeout_ms)
                continue;
            *ret_range = intersect(range, holes[h].first, holes[h].last);
            *ret_age_ms = age_ms;
            return true;
        }
    }
    return false;
}

/* The skip and the checkpoint without the range are stored (I2), so nothing is left to store. */
int hw_delivery_skipped(hw_delivery *d, hw_range range, int64_t now_ms, howdah_error *reterr)
{
    int s = hw_ranges_remove(&d->missing, range.first, range.last, reterr);

    (void)now_ms;
    assert(d->config.gap_policy == HOWDAH_GAP_TIMEOUT);
    if (s == HOWDAH_OK)
        hw_delivery_checkpointed(d);
    return s;
}
