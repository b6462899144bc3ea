/*
 * ranges.h - a set of numbers, kept as sorted, disjoint ranges that do not touch.
 *
 * A rolled-back batch of a million numbers is one range: whatever is done to it is done once.
 */
#ifndef HW_ENGINE_RANGES_H
#define HW_ENGINE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct hw_range {
    int64_t first;
    int64_t last;
} hw_range;

typedef struct hw_ranges {
    hw_range *items;
    size_t n;
    size_t room;
} hw_ranges;

#define HW_RANGES_INIT                                                                             \
    {                                                                                              \
        NULL, 0, 0                                                                                 \
    }

void hw_ranges_done(hw_ranges *set);
/* Empties, keeps the memory. */
void hw_ranges_clear(hw_ranges *set);
/* Room for extra ranges more: so many additions and removals cannot fail afterwards. */
int hw_ranges_reserve(hw_ranges *set, size_t extra, howdah_error *reterr);
bool hw_ranges_has(const hw_ranges *set, int64_t number);
/* The same, for numbers that mostly ascend: near remembers where the last one was looked for. */
bool hw_ranges_has_near(const hw_ranges *set, int64_t number, size_t *near);
/* first <= last.  Numbers that are there already stay.  Errors: NO_MEMORY, and the set is as it
 * was. */
int hw_ranges_add(hw_ranges *set, int64_t first, int64_t last, howdah_error *reterr);
/* Numbers that are not there are no error; NO_MEMORY (a split) leaves the set as it was. */
int hw_ranges_remove(hw_ranges *set, int64_t first, int64_t last, howdah_error *reterr);
/* set becomes a copy of from. */
int hw_ranges_copy(hw_ranges *set, const hw_ranges *from, howdah_error *reterr);
/*
 * Of two sets, in one walk over both: out becomes the numbers of both, of a without b, of either.
 * Sets of a million ranges are met here; out is neither of them.  Errors: NO_MEMORY, and out is
 * empty.
 */
int hw_ranges_intersect(hw_ranges *out, const hw_ranges *a, const hw_ranges *b,
                        howdah_error *reterr);
int hw_ranges_subtract(hw_ranges *out, const hw_ranges *a, const hw_ranges *b,
                       howdah_error *reterr);
int hw_ranges_unite(hw_ranges *out, const hw_ranges *a, const hw_ranges *b, howdah_error *reterr);
/* How many numbers, at most INT64_MAX. */
int64_t hw_ranges_count(const hw_ranges *set);
/* The index of the first range that ends at or above number; n when there is none. */
size_t hw_ranges_find(const hw_ranges *set, int64_t number);

#endif
