/*
 * hole_holders.h - proof, by those who hold the log's sequence, that a missing number will
 * never appear.
 *
 * Whoever draws a number holds a lock on the sequence until its transaction ends, prepared ones
 * included.  A look reads how many numbers were drawn, and then who holds the lock.  A number at or
 * below that count was drawn before the look, so whoever drew it is among the holders seen, or has
 * ended: rows read after the look show the number, or it is dead.
 *
 * What makes one open transaction harmless to all other numbers is that a holder cannot have drawn
 * any number there is:
 *
 *   I1  One that was not among the holders of the look before has drawn nothing up to the count
 *       that was read before that look: only numbers above "low".
 *   I2  One that has not executed anything between two looks (it is prepared, or idle) has drawn
 *       nothing meanwhile: only numbers up to "until", the count that was read in between.  When it
 *       moves again, until is open again.
 *   I3  alive are the numbers that may still appear: those that some holder may have drawn, and all
 *       that were not drawn yet.  Whatever is missing elsewhere from rows read after the look is
 *       dead.
 *   I4  freed are the numbers that holders which have gone since the look before may have drawn:
 *       what is missing there may have appeared.  Nowhere else can anything have appeared that was
 *       drawn before the look before.
 *   I5  A holder is known by its virtual transaction, which it has from the first moment on, and
 *       by its transaction id, which it keeps through PREPARE TRANSACTION.  One that got its id
 *       after the look before, and was prepared since, has changed both: it may be any that had
 *       none.
 *   I6  One that had an id and shows none ends just now, or is being prepared: which of them it is
 *       the next look tells.  Until then its rows may be visible though it is among the holders.
 *       One that is prepared while a look is taken can be seen twice, before and after.
 */
#ifndef HW_ENGINE_HOLE_HOLDERS_H
#define HW_ENGINE_HOLE_HOLDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/ranges.h"

/* As a look sees it. */
typedef struct hw_holder {
    uint64_t virtual_id; /* 0: none: it is prepared */
    uint64_t xid;        /* 0: none yet, or not seen */
    uint64_t idle;       /* since when it has executed nothing, as a stamp; 0: it may be drawing */
} hw_holder;

typedef struct hw_known_holder {
    hw_holder seen;
    int64_t low;   /* I1 */
    int64_t until; /* I2; INT64_MAX: open */
} hw_known_holder;

typedef struct hw_holders {
    uint64_t looks; /* taken so far */
    int64_t drawn;  /* the count that was read before the last one */
    hw_known_holder *items;
    size_t n;
    hw_ranges alive; /* I3 */
    hw_ranges freed; /* I4 */
    bool unsure;     /* I6: of somebody */
} hw_holders;

#define HW_HOLDERS_MAX 10000

void hw_holders_init(hw_holders *holders);
void hw_holders_done(hw_holders *holders);

/*
 * One look: so many numbers were drawn, and then these held the lock.  Errors: NO_MEMORY, LIMIT;
 * then the look does not count.
 */
int hw_holders_look(hw_holders *holders, int64_t drawn, const hw_holder *seen, size_t n,
                    howdah_error *reterr);

#endif
