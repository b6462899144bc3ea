/*
 * owners.h - proof by owners that a missing number will never appear.
 *
 * Whoever draws a number from the log's sequence holds a lock on that sequence until its
 * transaction ends, prepared transactions included.  A number that is missing below a visible one
 * was drawn earlier, so its owner is among the holders seen by any look taken afterwards, or has
 * ended.  When all holders of that look have ended, the number is there for rows read from now on,
 * or dead.
 *
 * Looks are counted.  An owner is remembered with the look that saw it first, and "no owner of
 * look L or of one before is left" is one comparison: L <= horizon.  So the numbers of looks serve
 * the frontier as fences (frontier.h), just as transaction ids do.
 *
 *   I1  An owner is named by its transaction id, which it keeps through PREPARE TRANSACTION.
 *   I2  A hole's fence is a look taken after the hole was seen; it may be the same look that
 *       gives the horizon.
 *   I3  Rows that decide are read after the look that gave the horizon.
 */
#ifndef HW_ENGINE_OWNERS_H
#define HW_ENGINE_OWNERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct hw_owner {
    uint64_t id;
    uint64_t since; /* the look that saw it first */
} hw_owner;

typedef struct hw_owners {
    uint64_t look; /* looks taken so far */
    hw_owner *items;
    size_t n;
    size_t room;
} hw_owners;

#define HW_OWNERS_MAX 100000

void hw_owners_init(hw_owners *owners);
void hw_owners_done(hw_owners *owners);

/*
 * One look: these transactions (sorted, each once) hold the lock now.  Errors: NO_MEMORY, LIMIT;
 * then the look does not count.
 */
int hw_owners_look(hw_owners *owners, const uint64_t *ids, size_t n, howdah_error *reterr);

/* The last look's number: the fence for holes seen before it. */
uint64_t hw_owners_fence(const hw_owners *owners);

/* The highest look of whose owners none is left; the last look itself when nobody holds the lock.
 */
uint64_t hw_owners_horizon(const hw_owners *owners);

#endif
