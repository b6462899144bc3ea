/*
 * still_holes.h - missing numbers that stand still.
 *
 * A number can appear only when a transaction ends that may have drawn it.  While those are open
 * there is no sense in looking for it, in remembering it for every subscription, or in storing it
 * with every checkpoint: after an hour of one forgotten transaction there can be a million such
 * numbers.  So holes that stay are put aside into one set, which all share and nobody changes.
 *
 *   I1  A set is never changed: whoever needs another one makes it.  So that two are the same is
 *       told by their address.
 *   I2  Of the numbers in a set none is seen: each is missing, and may still appear.
 *   I3  A set that follows another has a greater version, and what has left it is dead or became
 *       visible: "late" remembers the latter, and which version they are not in any more.
 *   I4  Sets are counted by one thread.
 */
#ifndef HW_ENGINE_STILL_HOLES_H
#define HW_ENGINE_STILL_HOLES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/ranges.h"

typedef struct hw_still {
    int refs;
    uint64_t version; /* 0: of unknown age, as it was stored */
    hw_ranges ranges;
} hw_still;

#define HW_STILL_MAX 4000000 /* ranges, of 16 bytes each */

/* Takes the ranges over (and leaves none behind).  Errors: NO_MEMORY, LIMIT; they stay where they
   are. */
int hw_still_new(hw_ranges *ranges, uint64_t version, hw_still **ret_still, howdah_error *reterr);
/* One more, or NULL. */
hw_still *hw_still_share(hw_still *still);
void hw_still_drop(hw_still *still);
/* The numbers; of NULL: none. */
const hw_ranges *hw_still_ranges(const hw_still *still);

typedef struct hw_late_piece {
    uint64_t version; /* the first one that it is not in */
    hw_range range;
} hw_late_piece;

/* What became visible (I3). */
typedef struct hw_late {
    uint64_t since; /* nothing is known of what left versions before this one */
    hw_late_piece *items;
    size_t n;
    size_t room;
} hw_late;

#define HW_LATE_MAX 10000

void hw_late_init(hw_late *late, uint64_t since);
void hw_late_done(hw_late *late);
/* These are visible, and not in this version any more.  Without memory, or when they are too many,
   all is forgotten: since becomes this version. */
void hw_late_note(hw_late *late, uint64_t version, const hw_ranges *visible);
/* What became visible after one version, up to another.  HOWDAH_END when that is not known.
   Errors: NO_MEMORY. */
int hw_late_between(const hw_late *late, uint64_t version, uint64_t upto, hw_ranges *out,
                    howdah_error *reterr);

#endif
