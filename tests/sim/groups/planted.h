/*
 * planted.h - mistakes that the library makes on purpose: the simulator must find each of them.
 *
 * They are planted in copies of its sources (plant_groups.py), which only sim_groups_planted is
 * made of.
 */
#ifndef HW_TESTS_SIM_GROUPS_PLANTED_H
#define HW_TESTS_SIM_GROUPS_PLANTED_H

#include <stdbool.h>
#include <stdint.h>

typedef enum planted_bug {
    PLANTED_NONE,
    PLANTED_TOKEN_UNCHECKED,
    PLANTED_LEASE_UNSEEN,
    PLANTED_LOT_BEHIND,
    PLANTED_REST_LOST,
    PLANTED_SUSPECTS_TOGETHER,
    PLANTED_ATTEMPT_AFTER,
    PLANTED_HOLD_GOES_ON,
    PLANTED_STREAM_LEFT,
    PLANTED_NO_PRIOR,
    PLANTED_STUCK_UNSEEN,
    PLANTED_LAST_TRY_FREE,
    PLANTED_RELEASE_COUNTS,
    PLANTED_RETRY_EARLY,
    PLANTED_HELD_FOREVER,
    PLANTED_RESET_UNHEARD,
    PLANTED_NEIGHBOUR_SPENT,
    PLANTED_LIST_CUT,
    PLANTED_PAUSE_UNHEARD,
    PLANTED_DEAD_UNSEEN,
    PLANTED_LANE_BUSY,
    PLANTED_UNREAD_PASSED,
    PLANTED_NEWEST_FIRST,
    PLANTED_POP_ANY,
    PLANTED_FINISH_ALL,
} planted_bug;

/* The one of this run. */
extern planted_bug planted_now;
/* Lots are short, so that lanes have many: else a run of some ten events never meets that code. */
extern bool planted_short;

#define PLANTED(name) (planted_now == PLANTED_##name)
#define PLANTED_SIZE(size, small) (planted_short ? (small) : (size))

typedef struct planted_row {
    const char *name; /* what is done wrong */
    planted_bug bug;
    const char *breaks; /* the promises that it breaks: each word is one that may be named first */
    bool board;         /* of the board, not of the store */
} planted_row;

extern const planted_row planted_rows[]; /* the first one is none */
extern const int planted_rows_n;

#endif
