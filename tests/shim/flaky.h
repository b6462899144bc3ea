/*
 * flaky.h - a store that fails on purpose, over any store.
 *
 * The case that matters is the failure *after* the real commit: the caller hears
 * OUTCOME_UNKNOWN although everything is stored.
 */
#ifndef HW_STORE_SHIM_FLAKY_H
#define HW_STORE_SHIM_FLAKY_H

#include "store/store.h"

typedef enum hw_flaky_mode {
    HW_FLAKY_NEVER,
    HW_FLAKY_BEFORE,         /* fail without doing it: UNAVAILABLE, RETRYABLE */
    HW_FLAKY_BEFORE_UNKNOWN, /* fail without doing it, but say OUTCOME_UNKNOWN */
    HW_FLAKY_AFTER           /* do it, then say OUTCOME_UNKNOWN (reads: UNAVAILABLE) */
} hw_flaky_mode;

/* Takes the inner store over; closing the shim closes it. */
int hw_flaky_open(hw_store *inner, hw_store **ret_store, howdah_error *reterr);

/* The nth operation from now (1 = the next) fails in this way; once. */
void hw_flaky_plan(hw_store *flaky, unsigned nth, hw_flaky_mode mode);

/* The operations that store what a promise is about. */
typedef enum hw_flaky_op {
    HW_FLAKY_OP_ANY,
    HW_FLAKY_OP_APPEND,
    HW_FLAKY_OP_TAKE,
    HW_FLAKY_OP_RELEASE,
    HW_FLAKY_OP_CHECKPOINT,
    HW_FLAKY_OP_DEAD_LETTER,
    HW_FLAKY_OP_TX_COMMIT,
    HW_FLAKY_OP_PUSH,
    HW_FLAKY_OP_EXCHANGE,
    HW_FLAKY_OP_ROUTE,
    HW_FLAKY_OP_PURGE
} hw_flaky_op;

/* The nth operation of this kind from now fails in this way; once.  Takes the place of a plan. */
void hw_flaky_plan_op(hw_store *flaky, hw_flaky_op op, unsigned nth, hw_flaky_mode mode);

/* True while the plan is not carried out yet. */
bool hw_flaky_pending(const hw_store *flaky);

/* Operations carried out so far, the failed ones included. */
unsigned hw_flaky_count(const hw_store *flaky);

#endif
