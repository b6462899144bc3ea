/*
 * bug.h - mistakes that the simulator has the library make on purpose: it must find each of them.
 *
 *     if (HW_BUG(ROWS_BEFORE_PROOF)) ...
 *
 * Only tests/sim compiles with HW_SIM_BUGS, objects of its own; elsewhere HW_BUG() is false, and
 * nothing of it is left.
 */
#ifndef HW_BASE_BUG_H
#define HW_BASE_BUG_H

#include <stdbool.h>

typedef enum hw_bug {
    HW_BUG_NONE,
    HW_BUG_GAP_TIMEOUT,       /* a hole is dropped when it is old, without proof or record */
    HW_BUG_AHEAD_IN_MEMORY,   /* the checkpoint does not say what is outstanding */
    HW_BUG_STILL_FORGOTTEN,   /* what stands still is not looked for when its holder has gone */
    HW_BUG_ROWS_BEFORE_PROOF, /* rows, then evidence, then the verdict */
    HW_BUG_FULL_PAGE_WHOLE,   /* a page that is full tells what is missing behind it, too */
    HW_BUG_CHECKPOINT_FIRST,  /* the checkpoint is stored before the handler runs */
    HW_BUG_CATCH_UP_FIRST,    /* LISTEN when there is nothing left to read */
} hw_bug;

#ifdef HW_SIM_BUGS
extern hw_bug hw_sim_bug;
#define HW_BUG(name) (hw_sim_bug == HW_BUG_##name)
#else
#define HW_BUG(name) false
#endif

#endif
