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

/* Callers reserve before they begin, so that a series of changes cannot fail half-way. */
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

/* The upper end is looked at first: most numbers are above everything that is there. */
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

/* Is the range at index i the first that ends at or above number? */
static bool is_first_from(const hw_ranges *set, size_t i, int64_t number)
{
    return i < set->n && set->items[i].last >= number &&
           (i == 0 || set->items[i - 1].last < number);
}

bool hw_ranges_has_near(const hw_ranges *set, int64_t number, size_t *near)
{
    size_t i = *near;

    if (!is_first_from(set, i, number))
        i = is_first_from(set, i + 1, number) ? i + 1 : hw_ranges_find(set, number);
    *near = i;
    return i < set->n && set->items[i].first <= number;
}

/* Makes room for one at index i; the caller has reserved it. */
static void open_at(hw_ranges *set, size_t i)
{
    assert(i <= set->n && set->n < set->room);
    memmove(set->items + i + 1, set->items + i, (set->n - i) * sizeof *set->items);
    set->n++;
}

static void close_at(hw_ranges *set, size_t i, size_t count)
{
    assert(i + count <= set->n);
    memmove(set->items + i, set->items + i + count, (set->n - i - count) * sizeof *set->items);
    set->n -= count;
}

/*
 * Ranges that touch become one, so that a set of numbers has one form only and can be compared.
 */
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

/* Only a removal from the middle of one range needs memory, for the second half. */
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

/* memmove(), because set and from may be the same. */
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

/* ------------------------------------------------------------------- two sets */

/* Adds after all that out has, touching or overlapping the last one at most. */
static int append(hw_ranges *out, int64_t first, int64_t last, howdah_error *reterr)
{
    int s;

    if (out->n > 0 && first - 1 <= out->items[out->n - 1].last) {
        if (last > out->items[out->n - 1].last)
            out->items[out->n - 1].last = last;
        return HOWDAH_OK;
    }
    s = hw_ranges_reserve(out, 1, reterr);
    if (s >= 0)
        out->items[out->n++] = (hw_range){first, last};
    return s;
}

/* A result that is half done must not be taken for one. */
static int end(hw_ranges *out, int s)
{
    if (s < 0)
        hw_ranges_clear(out);
    return s;
}

int hw_ranges_intersect(hw_ranges *out, const hw_ranges *a, const hw_ranges *b,
                        howdah_error *reterr)
{
    size_t i = 0;
    size_t k = 0;
    int s = HOWDAH_OK;

    assert(out != a && out != b);
    hw_ranges_clear(out);
    while (s >= 0 && i < a->n && k < b->n) {
        hw_range x = a->items[i];
        hw_range y = b->items[k];
        int64_t first = x.first > y.first ? x.first : y.first;
        int64_t last = x.last < y.last ? x.last : y.last;

        if (first <= last)
            s = append(out, first, last, reterr);
        if (x.last < y.last)
            i++;
        else
            k++;
    }
    return end(out, s);
}

/*
 * k stays at the first range of b that can still matter to a; m runs over those within one of a.
 */
int hw_ranges_subtract(hw_ranges *out, const hw_ranges *a, const hw_ranges *b, howdah_error *reterr)
{
    size_t k = 0;
    int s = HOWDAH_OK;

    assert(out != a && out != b);
    hw_ranges_clear(out);
    for (size_t i = 0; s >= 0 && i < a->n; i++) {
        int64_t first = a->items[i].first;
        int64_t last = a->items[i].last;

        while (k < b->n && b->items[k].last < first)
            k++;
        for (size_t m = k; s >= 0 && first <= last; m++) {
            if (m == b->n || b->items[m].first > last) {
                s = append(out, first, last, reterr);
                break;
            }
            if (b->items[m].first > first)
                s = append(out, first, b->items[m].first - 1, reterr);
            if (b->items[m].last >= last)
                break;
            first = b->items[m].last + 1;
        }
    }
    return end(out, s);
}

int hw_ranges_unite(hw_ranges *out, const hw_ranges *a, const hw_ranges *b, howdah_error *reterr)
{
    size_t i = 0;
    size_t k = 0;
    int s = HOWDAH_OK;

    assert(out != a && out != b);
    hw_ranges_clear(out);
    while (s >= 0 && (i < a->n || k < b->n)) {
        bool from_a = k == b->n || (i < a->n && a->items[i].first <= b->items[k].first);
        hw_range next = from_a ? a->items[i++] : b->items[k++];

        s = append(out, next.first, next.last, reterr);
    }
    return end(out, s);
}
