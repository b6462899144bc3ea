/*
 * frontier.c - how far the log is known.
 *
 * The invariants are in frontier.h.  Holes are kept sorted in one array: a batch in flight is one
 * hole however large it is, so there are few, and a binary search finds the one that a late row
 * fills.
 *
 * Two holes of the same age are never adjacent (I1): a new one joins a neighbour of its age, and a
 * split leaves a seen or dead number between its halves.
 */
#include "engine/frontier.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

#define ROOM_FIRST 16

/* high is where the reader starts: everything up to it counts as known. */
void hw_frontier_init(hw_frontier *frontier, int64_t high)
{
    assert(high >= 0);
    *frontier = (hw_frontier){high, NULL, 0, 0};
}

void hw_frontier_done(hw_frontier *frontier)
{
    hw_free(frontier->holes);
    *frontier = (hw_frontier){frontier->high, NULL, 0, 0};
}

/*
 * Room for so many holes more.  The limit keeps a log that is full of holes from filling the
 * memory.
 */
static int reserve(hw_frontier *frontier, size_t extra, howdah_error *reterr)
{
    size_t room = frontier->holes_room ? frontier->holes_room * 2 : ROOM_FIRST;
    size_t needed = frontier->holes_n + extra;
    hw_hole *holes;

    if (needed > HW_HOLES_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT, "more than %d holes in the log's numbers",
                       HW_HOLES_MAX);
    if (needed <= frontier->holes_room)
        return HOWDAH_OK;
    if (room < needed)
        room = needed;
    if (room > HW_HOLES_MAX)
        room = HW_HOLES_MAX;
    holes = hw_realloc(frontier->holes, room * sizeof *holes);
    if (!holes)
        return hw_fail_no_memory(reterr);
    frontier->holes = holes;
    frontier->holes_room = room;
    return HOWDAH_OK;
}

/* The first hole that ends at or above sequence, or holes_n. */
static size_t find_from(const hw_frontier *frontier, int64_t sequence)
{
    size_t low = 0;
    size_t high = frontier->holes_n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (frontier->holes[middle].last < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The hole that holds sequence, or holes_n. */
static size_t find(const hw_frontier *frontier, int64_t sequence)
{
    size_t i = find_from(frontier, sequence);

    if (i < frontier->holes_n && frontier->holes[i].first <= sequence)
        return i;
    return frontier->holes_n;
}

/*
 * A hole of its own at index at, or a piece of a neighbour of the same age (I1).  Holes of
 * different ages stay apart: since_ms is reported, and must stay true for each number.
 */
static void add_between(hw_frontier *frontier, size_t at, int64_t first, int64_t last,
                        int64_t now_ms)
{
    hw_hole *hole = frontier->holes + at;
    bool joins_left = at > 0 && hole[-1].last + 1 == first && hole[-1].since_ms == now_ms;
    bool joins_right =
        at < frontier->holes_n && hole->first - 1 == last && hole->since_ms == now_ms;

    assert(at <= frontier->holes_n && first <= last);
    if (joins_left && joins_right) {
        hole[-1].last = hole->last;
        memmove(hole, hole + 1, (frontier->holes_n - at - 1) * sizeof *hole);
        frontier->holes_n--;
    } else if (joins_left) {
        hole[-1].last = last;
    } else if (joins_right) {
        hole->first = first;
    } else {
        memmove(hole + 1, hole, (frontier->holes_n - at) * sizeof *hole);
        *hole = (hw_hole){first, last, now_ms};
        frontier->holes_n++;
    }
}

/*
 * The numbers between high and the row were drawn, since a later one was, and are not visible
 * yet.
 */
static int see_above(hw_frontier *frontier, int64_t sequence, int64_t now_ms, howdah_error *reterr)
{
    if (sequence > frontier->high + 1) {
        int s = reserve(frontier, 1, reterr);

        if (s < 0)
            return s;
        add_between(frontier, frontier->holes_n, frontier->high + 1, sequence - 1, now_ms);
    }
    frontier->high = sequence;
    return HOWDAH_OK;
}

/* The number leaves hole i, which shrinks, splits or vanishes (I2).  Both halves keep its age. */
static int see_inside(hw_frontier *frontier, size_t i, int64_t sequence, howdah_error *reterr)
{
    hw_hole *hole = &frontier->holes[i];
    size_t behind = frontier->holes_n - i - 1;
    int s;

    assert(hole->first <= sequence && sequence <= hole->last);
    if (hole->first == hole->last) {
        memmove(hole, hole + 1, behind * sizeof *hole);
        frontier->holes_n--;
    } else if (sequence == hole->first) {
        hole->first++;
    } else if (sequence == hole->last) {
        hole->last--;
    } else {
        s = reserve(frontier, 1, reterr);
        if (s < 0)
            return s;
        hole = &frontier->holes[i];
        memmove(hole + 2, hole + 1, behind * sizeof *hole);
        hole[1] = (hw_hole){sequence + 1, hole->last, hole->since_ms};
        hole->last = sequence - 1;
        frontier->holes_n++;
    }
    return HOWDAH_OK;
}

/* A row at or below high that lies in no hole is no news. */
int hw_frontier_see(hw_frontier *frontier, int64_t sequence, int64_t now_ms, bool *ret_new,
                    howdah_error *reterr)
{
    bool above = sequence > frontier->high;
    size_t i = above ? 0 : find(frontier, sequence);
    int s;

    if (!above && i == frontier->holes_n) {
        *ret_new = false;
        return HOWDAH_OK;
    }
    s = above ? see_above(frontier, sequence, now_ms, reterr)
              : see_inside(frontier, i, sequence, reterr);
    if (s < 0)
        return s;
    *ret_new = true;
    return HOWDAH_OK;
}

/*
 * The first piece of first..last that no hole holds, and the index where it belongs; false when
 * there is none.
 */
static bool next_piece(const hw_frontier *frontier, int64_t first, int64_t last, hw_hole *ret_piece,
                       size_t *ret_at)
{
    size_t i = find_from(frontier, first);

    while (i < frontier->holes_n && frontier->holes[i].first <= first) {
        if (frontier->holes[i].last >= last)
            return false;
        first = frontier->holes[i++].last + 1;
    }
    *ret_at = i;
    ret_piece->first = first;
    ret_piece->last = i < frontier->holes_n && frontier->holes[i].first <= last
                          ? frontier->holes[i].first - 1
                          : last;
    return true;
}

int hw_frontier_add(hw_frontier *frontier, int64_t first, int64_t last, int64_t now_ms,
                    howdah_error *reterr)
{
    hw_hole piece = {0};
    size_t pieces = 0;
    size_t at = 0;
    int s;

    assert(first >= 1 && first <= last && last <= frontier->high);
    /* Counted first, so that a failure comes before anything has changed. */
    for (int64_t from = first; next_piece(frontier, from, last, &piece, &at);) {
        pieces++;
        if (piece.last == last)
            break;
        from = piece.last + 1;
    }
    s = reserve(frontier, pieces, reterr);
    if (s < 0)
        return s;
    for (; pieces > 0 && next_piece(frontier, first, last, &piece, &at); pieces--) {
        add_between(frontier, at, piece.first, piece.last, now_ms);
        first = piece.last;
    }
    return HOWDAH_OK;
}

/*
 * How many pieces of holes are alive, and, into out unless it is NULL, which; *ret_numbers: how
 * many numbers.  Both lists are sorted, so k only moves up; one range may reach into several
 * holes.
 */
static size_t cut(const hw_frontier *frontier, const hw_ranges *alive, hw_hole *out,
                  int64_t *ret_numbers)
{
    size_t n = 0;
    size_t k = 0;

    *ret_numbers = 0;
    for (size_t i = 0; i < frontier->holes_n; i++) {
        hw_hole hole = frontier->holes[i];

        while (k < alive->n && alive->items[k].last < hole.first)
            k++;
        for (size_t m = k; m < alive->n && alive->items[m].first <= hole.last; m++) {
            hw_hole piece = hole;

            if (alive->items[m].first > piece.first)
                piece.first = alive->items[m].first;
            if (alive->items[m].last < piece.last)
                piece.last = alive->items[m].last;
            *ret_numbers += piece.last - piece.first + 1;
            if (out)
                out[n] = piece;
            n++;
        }
    }
    return n;
}

static int64_t count(const hw_frontier *frontier)
{
    int64_t numbers = 0;

    for (size_t i = 0; i < frontier->holes_n; i++)
        numbers += frontier->holes[i].last - frontier->holes[i].first + 1;
    return numbers;
}

/* Cuts twice, first to count: most looks resolve nothing, and then nothing is allocated. */
int hw_frontier_keep(hw_frontier *frontier, const hw_ranges *alive, int64_t *ret_resolved,
                     howdah_error *reterr)
{
    int64_t before = count(frontier);
    int64_t left = 0;
    size_t n = cut(frontier, alive, NULL, &left);
    hw_hole *holes;

    *ret_resolved = before - left;
    if (*ret_resolved == 0)
        return HOWDAH_OK;
    if (n > HW_HOLES_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT, "more than %d holes in the log's numbers",
                       HW_HOLES_MAX);
    holes = hw_calloc(n + 1, sizeof *holes);
    if (!holes)
        return hw_fail_no_memory(reterr);
    assert(left <= before);
    (void)cut(frontier, alive, holes, &left);
    hw_free(frontier->holes);
    frontier->holes = holes;
    frontier->holes_n = n;
    frontier->holes_room = n + 1;
    return HOWDAH_OK;
}

/* A hole that reaches beyond upto stays as a whole. out is complete before a hole leaves (I2). */
int hw_frontier_put_aside(hw_frontier *frontier, int64_t upto, hw_ranges *out, howdah_error *reterr)
{
    size_t n = 0;
    int s;

    while (n < frontier->holes_n && frontier->holes[n].last <= upto)
        n++;
    s = hw_ranges_reserve(out, n, reterr);
    for (size_t i = 0; s >= 0 && i < n; i++)
        s = hw_ranges_add(out, frontier->holes[i].first, frontier->holes[i].last, reterr);
    if (s < 0)
        return s;
    memmove(frontier->holes, frontier->holes + n,
            (frontier->holes_n - n) * sizeof *frontier->holes);
    frontier->holes_n -= n;
    return HOWDAH_OK;
}
