/*
 * frontier.h - how far the log is known.
 *
 * A sequence number is drawn before its transaction commits, so numbers become visible out of
 * order, and some never do.  The frontier is (high, holes): every number up to high has been
 * seen, or lies in a hole.
 *
 *   I1  Holes are disjoint, sorted ranges up to high, never adjacent with the same age.
 *   I2  A number leaves a hole only when its event was seen, or when it is proven dead, or when it
 *       is put aside (still_holes.h).
 *   I3  A number is dead when it is missing from rows read after everybody who could have drawn it
 *       has ended (hole_holders.h), and a number that was not drawn yet is not dead.
 *   I4  Nothing here knows a clock: time never kills a hole.
 *
 * The reader's round, in this order:
 *     1. the evidence, only while there are holes: a look at the holders
 *     2. read rows above high, and rows inside holes           (a later statement than 1)
 *     3. hw_frontier_see() for each row, in sequence order
 *     4. hw_frontier_keep(alive), if 2 has read all there was
 */
#ifndef HW_ENGINE_FRONTIER_H
#define HW_ENGINE_FRONTIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/ranges.h"

typedef struct hw_hole {
    int64_t first;
    int64_t last;
    int64_t since_ms; /* when it was first seen missing, by the caller's clock; only reported */
} hw_hole;

#define HW_HOLES_MAX 100000

typedef struct hw_frontier {
    int64_t high;
    hw_hole *holes;
    size_t holes_n;
    size_t holes_room;
} hw_frontier;

void hw_frontier_init(hw_frontier *frontier, int64_t high);
void hw_frontier_done(hw_frontier *frontier);

/*
 * A row with this number is visible.  ret_new says whether it is news: above high (the numbers
 * between become a hole) or inside a hole.  LIMIT when there would be more than HW_HOLES_MAX holes.
 */
int hw_frontier_see(hw_frontier *frontier, int64_t sequence, int64_t now_ms, bool *ret_new,
                    howdah_error *reterr);

/*
 * The numbers first..last, at or below high, are missing too (found by a look back); what is in a
 * hole already stays there.  Errors: LIMIT, NO_MEMORY, and the frontier is as it was.
 */
int hw_frontier_add(hw_frontier *frontier, int64_t first, int64_t last, int64_t now_ms,
                    howdah_error *reterr);

/* Forgets of the holes what is not alive (I3); returns how many numbers.  Errors: NO_MEMORY, LIMIT,
   and the frontier is as it was. */
int hw_frontier_keep(hw_frontier *frontier, const hw_ranges *alive, int64_t *ret_resolved,
                     howdah_error *reterr);

/* Takes all holes up to a number out, into out, which they are behind.  Errors: NO_MEMORY. */
int hw_frontier_put_aside(hw_frontier *frontier, int64_t upto, hw_ranges *out,
                          howdah_error *reterr);

#endif
