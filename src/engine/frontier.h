/*
 * frontier.h - how far the log is known.
 *
 * A sequence number is drawn before its transaction commits, so numbers become visible out of
 * order, and some never do.  The frontier is (high, holes): every number up to high has been
 * seen, or lies in a hole.
 *
 *   I1  Holes are disjoint, sorted ranges up to high, never adjacent with the same fence and age.
 *   I2  A number leaves a hole only when its event was seen, or when the hole is proven dead.
 *   I3  A hole is dead when its number is missing from rows read after every transaction that
 *       could have drawn it has ended.  The proof is a fence, taken after the number was seen
 *       missing, and a later horizon that has reached it.  Both are either looks at the owners of
 *       numbers (owners.h), or transaction ids: one that the reader drew itself, and the oldest
 *       running one.  One frontier never mixes the two.
 *   I4  Nothing here knows a clock: time never kills a hole.
 *
 * The reader's round, in this order:
 *     1. the evidence, only while there are holes: a look at the owners, hw_frontier_fence() for
 *        the holes without a fence, horizon = hw_owners_horizon(); or horizon = the oldest running
 *        transaction
 *     2. read rows above high, and rows inside holes           (a later statement than 1)
 *     3. hw_frontier_see() for each row, in sequence order
 *     4. hw_frontier_bury(horizon), if 2 has read all there was
 *     5. by transaction ids only: fence = one drawn now; hw_frontier_fence() for the new holes
 */
#ifndef HW_ENGINE_FRONTIER_H
#define HW_ENGINE_FRONTIER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct hw_hole {
    int64_t first;
    int64_t last;
    uint64_t fence;   /* 0: not fenced yet */
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

/* Gives every hole without a fence this one. */
void hw_frontier_fence(hw_frontier *frontier, uint64_t fence);

/* Forgets the holes whose fence is at or below the horizon (I3); returns how many numbers. */
int64_t hw_frontier_bury(hw_frontier *frontier, uint64_t horizon);

/* True when some hole has no fence yet. */
bool hw_frontier_wants_fence(const hw_frontier *frontier);

#endif
