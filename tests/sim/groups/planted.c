/* planted.c - the mistakes that are made on purpose, and the promises that they break. */
#include "planted.h"

planted_bug planted_now;
bool planted_short;

const planted_row planted_rows[] = {
    {"none", PLANTED_NONE, "", false},
    /* of the store */
    {"an ack does not compare the token", PLANTED_TOKEN_UNCHECKED, "G4", false},
    {"the end of a lease is not looked at", PLANTED_LEASE_UNSEEN, "G3", false},
    {"a lot is given out while the one before it is in hand", PLANTED_LOT_BEHIND, "G2 G3", false},
    {"what is given back is lost", PLANTED_REST_LOST, "G1 G2", false},
    {"suspects are given out together", PLANTED_SUSPECTS_TOGETHER, "G5", false},
    {"a try is counted when it has ended", PLANTED_ATTEMPT_AFTER, "G5", false},
    {"a held stream goes on", PLANTED_HOLD_GOES_ON, "G6", false},
    {"later events of a stream that failed stay in their batch", PLANTED_STREAM_LEFT, "G1 G2 G4 G7",
     false},
    {"a retry does not wait for what was before it in its batch", PLANTED_NO_PRIOR, "G2 G3", false},
    {"a lot gives out events of a stuck stream", PLANTED_STUCK_UNSEEN, "G2 G3 G6", false},
    {"there is one try too many", PLANTED_LAST_TRY_FREE, "G5", false},
    {"what is given back counts as tried", PLANTED_RELEASE_COUNTS, "G5", false},
    {"a retry comes at once", PLANTED_RETRY_EARLY, "G5", false},
    {"a stream that was held is never woken", PLANTED_HELD_FOREVER, "G1", false},
    {"a group does not go where its subscription is put", PLANTED_RESET_UNHEARD, "G1 G4 G7", false},
    {"tries of an event that left its lot count for the next one", PLANTED_NEIGHBOUR_SPENT, "G5",
     false},
    {"of a list that is made later only the first part is seen", PLANTED_LIST_CUT, "G1 G2", false},
    {"an exchange does not look whether the group is paused", PLANTED_PAUSE_UNHEARD, "G6", false},
    {"a dead letter comes with those that waited for an earlier event", PLANTED_DEAD_UNSEEN,
     "G3 G6 G7", false},
    /* of the board */
    {"a lane that a thread has is given to another", PLANTED_LANE_BUSY, "G3", true},
    {"a range that is not read holds up nobody", PLANTED_UNREAD_PASSED, "G2 G3", true},
    {"a lane has its newest range first", PLANTED_NEWEST_FIRST, "G2", true},
    {"a range is through before its events are", PLANTED_POP_ANY, "G1", true},
    {"a part that is left halfway is through", PLANTED_FINISH_ALL, "G1 G2", true},
};

const int planted_rows_n = (int)(sizeof planted_rows / sizeof planted_rows[0]);
