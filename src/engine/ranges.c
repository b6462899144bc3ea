/*
 * ranges.c - a set of numbers as sorted, disjoint ranges that do not touch.
 *
 * Sets grow and shrink at their upper end most of the time, so that end is looked at first; the
 * rest is found by binary search and moved by one memmove().
 */
#include "engine/ranges.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

#define ROOM_FIRST 8

void hw_ranges_done(hw_ranges *set)
{
    hw_free(set->items);
    *set = (hw_ranges)HW_RANGES_INIT;
}

void hw_ranges_clear(hw_ranges *set)
{
    set->n = 0;
}

int hw_ranges_reserve(hw_ranges *set, size_t extra, howdah_error *reterr)
{
    size_t room = set->room ? set->room : ROOM_FIRST;
    hw_range *items;

    if (extra <= set->room - set->n)
        return HOWDAH_OK;
    while (room - set->n < extra) {
        if (room > SIZE_MAX / sizeof *items / 2)
            return hw_fail_no_memory(reterr);
        room *= 2;
    }
    items = hw_realloc(set->items, room * sizeof *items);
    if (!items)
        return hw_fail_no_memory(reterr);
    set->items = items;
    set->room = room;
    return HOWDAH_OK;
}

size_t hw_ranges_find(const hw_ranges *set, int64_t number)
{
    size_t low = 0;
    size_t high = set->n;

    if (high == 0 || set->items[high - 1].last < number)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (set->items[middle].last < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool hw_ranges_has(const hw_ranges *set, int64_t number)
{
    size_t i = hw_ranges_find(set, number);

    return i < set->n && set->items[i].first <= number;
}

/* Makes room for one at index i, which reserve() has promised. */
static void open_at(hw_ranges *set, size_t i)
{
    memmove(set->items + i + 1, set->items + i, (set->n - i) * sizeof *set->items);
    set->n++;
}

static void close_at(hw_ranges *set, size_t i, size_t count)
{
    memmove(set->items + i, set->items + i + count, (set->n - i - count) * sizeof *set->items);
    set->n -= count;
}

int hw_ranges_add(hw_ranges *set, int64_t first, int64_t last, howdah_error *reterr)
{
    size_t i =
        hw_ranges_find(set, first > INT64_MIN ? first - 1 : first); /* touches, or is above */
    size_t end = i;
    int s;

    assert(first <= last);
    while (end < set->n && (last == INT64_MAX || set->items[end].first <= last + 1))
        end++;
    if (end == i) {
        s = hw_ranges_reserve(set, 1, reterr);
        if (s < 0)
            return s;
        open_at(set, i);
        set->items[i] = (hw_range){first, last};
        return HOWDAH_OK;
    }
    /* i to end - 1 become one. */
    if (first < set->items[i].first)
        set->items[i].first = first;
    set->items[i].last = last > set->items[end - 1].last ? last : set->items[end - 1].last;
    close_at(set, i + 1, end - i - 1);
    return HOWDAH_OK;
}

int hw_ranges_remove(hw_ranges *set, int64_t first, int64_t last, howdah_error *reterr)
{
    size_t i = hw_ranges_find(set, first);
    size_t end;
    int s;

    assert(first <= last);
    if (i == set->n || set->items[i].first > last)
        return HOWDAH_OK;
    if (set->items[i].first < first && set->items[i].last > last) {
        s = hw_ranges_reserve(set, 1, reterr);
        if (s < 0)
            return s;
        open_at(set, i);
        set->items[i].last = first - 1;
        set->items[i + 1].first = last + 1;
        return HOWDAH_OK;
    }
    if (set->items[i].first < first)
        set->items[i++].last = first - 1;
    for (end = i; end < set->n && set->items[end].last <= last;)
        end++;
    if (end < set->n && set->items[end].first <= last)
        set->items[end].first = last + 1;
    close_at(set, i, end - i);
    return HOWDAH_OK;
}

int hw_ranges_copy(hw_ranges *set, const hw_ranges *from, howdah_error *reterr)
{
    size_t extra = from->n > set->n ? from->n - set->n : 0;
    int s = hw_ranges_reserve(set, extra, reterr);

    if (s < 0)
        return s;
    if (from->n > 0)
        memmove(set->items, from->items, from->n * sizeof *from->items);
    set->n = from->n;
    return HOWDAH_OK;
}

int64_t hw_ranges_count(const hw_ranges *set)
{
    uint64_t count = 0;

    for (size_t i = 0; i < set->n; i++) {
        /* The distance fits an unsigned type whatever the signs. */
        uint64_t less_one = (uint64_t)set->items[i].last - (uint64_t)set->items[i].first;

        if (less_one >= (uint64_t)INT64_MAX - count)
            return INT64_MAX;
        count += less_one + 1;
    }
    return (int64_t)count;
}
