/*
 * planted.h - mistakes that the library makes on purpose: the simulator must find each of them.
 *
 * They are planted in copies of its sources (plant.py), which only sim_planted is made of.
 */
#ifndef HW_TESTS_SIM_PLANTED_H
#define HW_TESTS_SIM_PLANTED_H

typedef enum planted_bug {
    PLANTED_NONE,
    PLANTED_GAP_TIMEOUT,
    PLANTED_AHEAD_IN_MEMORY,
    PLANTED_STILL_FORGOTTEN,
    PLANTED_ROWS_BEFORE_PROOF,
    PLANTED_FULL_PAGE_WHOLE,
    PLANTED_CHECKPOINT_FIRST,
    PLANTED_CATCH_UP_FIRST,
} planted_bug;

/* The one of this run. */
extern planted_bug planted_now;

#define PLANTED(name) (planted_now == PLANTED_##name)

#endif
