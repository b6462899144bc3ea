/* planted.c - the mistakes that are made on purpose, under the names of what they break. */
#include "sim.h"

planted_bug planted_now;

const sim_bug sim_bugs[] = {
    {.name = "none"},
    /* of the library */
    {.name = "gap time-out", .library = PLANTED_GAP_TIMEOUT},
    {.name = "in-memory ahead set", .library = PLANTED_AHEAD_IN_MEMORY},
    {.name = "numbers that stand still are never looked for", .library = PLANTED_STILL_FORGOTTEN},
    {.name = "rows read before the proof", .library = PLANTED_ROWS_BEFORE_PROOF},
    {.name = "a full page is taken for the whole", .library = PLANTED_FULL_PAGE_WHOLE},
    {.name = "checkpoint before effect", .library = PLANTED_CHECKPOINT_FIRST},
    {.name = "catch-up before LISTEN", .library = PLANTED_CATCH_UP_FIRST},
    /* of the server, or of a statement */
    {.name = "order by (xid, seq)", .world = WORLD_BUG_ORDER_BY_XID},
    {.name = "numbers not drawn yet are dead", .world = WORLD_BUG_DRAWN_UNKNOWN},
    {.name = "who draws seems idle", .world = WORLD_BUG_IDLE_LIES},
    {.name = "settled mark too high", .world = WORLD_BUG_PROVEN_TOO_HIGH},
    {.name = "reconnect keeps memory", .world = WORLD_BUG_LOG_UNCHECKED},
    {.name = "a pooler hides the change", .world = WORLD_BUG_POOLER_HIDES},
    {.name = "a handler's session never asks which log it is in", .world = WORLD_BUG_LOG_KEPT},
    {.name = "no token check", .world = WORLD_BUG_TOKEN_UNCHECKED},
    {.name = "dead letter outside the transaction", .world = WORLD_BUG_DEAD_LETTER_ALONE},
    {.name = "checkpoint outside the handler's transaction", .world = WORLD_BUG_COMMIT_FORGETS},
    {.name = "prepared transactions are no owners", .world = WORLD_BUG_PREPARED_UNSEEN},
    {.name = "lock given back before the rows are visible", .world = WORLD_BUG_UNLOCKS_FIRST},
    {.name = "holes and what is above read in two snapshots", .world = WORLD_BUG_TWO_SNAPSHOTS},
};

const int sim_bugs_n = (int)(sizeof sim_bugs / sizeof sim_bugs[0]);
