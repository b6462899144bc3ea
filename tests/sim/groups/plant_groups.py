#!/usr/bin/env python3
"""Plants mistakes in copies of what groups are made of; see ../plant.py.

  plant_groups.py SOURCE... COPY...

Sizes become variables as well, so that a lane can have many lots of few events.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import plant


def size(name, value, small):
    return ("#define %s %d" % (name, value),
            "#define %s PLANTED_SIZE(%d, %d)" % (name, value, small))


EDITS = [
    size("SHORT_LOT", 250, 3),
    size("LOTS_OF_A_LANE", 4, 2),
    size("LOOK_ROWS", 50000, 6),
    size("LIST_MAX", 10000, 2),
    size("PER_LANE_MIN", 225, 2),

    # ---- tokens and leases
    ("if (s == HOWDAH_OK && ret_lot->token == t->fence &&",
     "if (s == HOWDAH_OK && (PLANTED(TOKEN_UNCHECKED) || ret_lot->token == t->fence) &&"),
    ("s = hw_sqlite_load_lot(t->g, where, t->g->now_us, &lot, reterr);",
     """s = hw_sqlite_load_lot(t->g, where, PLANTED(LEASE_UNSEEN) ? INT64_MAX : t->g->now_us, &lot,
                            reterr);"""),
    ("if (s >= 0 && p.elsewhere)", "if (s >= 0 && p.elsewhere && !PLANTED(RESET_UNHEARD))"),
    ("if (lot->taken > 0) lot->attempts--;",
     """if (PLANTED(REST_LOST))
         lot->pos += lot->taken;
     if (lot->taken > 0 && !PLANTED(RELEASE_COUNTS)) lot->attempts--;"""),

    # ---- order
    ("const char *where = t->g->rules.by_stream ? FREE_LOT",
     "const char *where = t->g->rules.by_stream && !PLANTED(LOT_BEHIND) ? FREE_LOT"),
    ("out = hw_str_equal(name, f->stream);",
     "out = hw_str_equal(name, f->stream) && !PLANTED(STREAM_LEFT);"),
    ("if (s >= 0 && prior > 0)", "if (s >= 0 && prior > 0 && !PLANTED(NO_PRIOR))"),
    ("s = without_stuck(t, lot, reterr);",
     "s = PLANTED(STUCK_UNSEEN) ? HOWDAH_OK : without_stuck(t, lot, reterr);"),
    ("lot->upto = l.hand.n >= LIST_MAX || l.looked_at >= LOOK_ROWS ?",
     "lot->upto = (l.hand.n >= LIST_MAX || l.looked_at >= LOOK_ROWS) && !PLANTED(LIST_CUT) ?"),

    # ---- tries
    ("set_taken(lot, lot->careful > lot->pos ?",
     "set_taken(lot, lot->careful > lot->pos && !PLANTED(SUSPECTS_TOGETHER) ?"),
    ("lot->attempts++;", "lot->attempts += !PLANTED(ATTEMPT_AFTER);"),
    ("t->attempt = lot->attempts;", "t->attempt = lot->attempts + PLANTED(ATTEMPT_AFTER);"),
    ("f->tries = lot->attempts;", "f->tries = lot->attempts + PLANTED(ATTEMPT_AFTER);"),
    ("if (tries <= rules->max_retries)",
     "if (tries <= rules->max_retries + PLANTED(LAST_TRY_FREE))"),
    ("return fate == HW_FATE_RETRY ?", "return fate == HW_FATE_RETRY && !PLANTED(RETRY_EARLY) ?"),

    ("if (lot->taken == 0) count_anew(lot, rules);",
     "if (lot->taken == 0 && !PLANTED(NEIGHBOUR_SPENT)) count_anew(lot, rules);"),

    # ---- people
    ("hw_sqlite_bind_str(stmt, 4, g->subscriber_id); (void)sqlite3_bind_int(stmt, 5,",
     """if (!PLANTED(DEAD_UNSEEN))
         hw_sqlite_bind_str(stmt, 4, g->subscriber_id);
     (void)sqlite3_bind_int(stmt, 5,"""),
    ("return rules->on_fail == HOWDAH_FAIL_HOLD && keyed ?",
     "return rules->on_fail == HOWDAH_FAIL_HOLD && keyed && !PLANTED(HOLD_GOES_ON) ?"),
    ("int s = g->retries ? wake_held(g, reterr)",
     "int s = g->retries && !PLANTED(HELD_FOREVER) ? wake_held(g, reterr)"),
    ("found && s == HOWDAH_END && t->g->status == HW_SUB_ACTIVE;) { hw_lot lot;",
     """found && s == HOWDAH_END &&
        (t->g->status == HW_SUB_ACTIVE || PLANTED(PAUSE_UNHEARD));) { hw_lot lot;"""),

    # ---- the board
    ("uint64_t taken = board->busy;", "uint64_t taken = PLANTED(LANE_BUSY) ? 0 : board->busy;"),
    ("if (!r->read) return false;",
     """if (!r->read && PLANTED(UNREAD_PASSED))
         continue;
     @"""),
    ("for (size_t i = 0; i < board->n; i++) { size_t at = (board->first + i) % HW_BOARD_RANGES;",
     """for (size_t i = 0; i < board->n; i++) {
         size_t at = (board->first + (PLANTED(NEWEST_FIRST) ? board->n - 1 - i : i)) %
                     HW_BOARD_RANGES;"""),
    ("if (board->n == 0 || !r->read || r->todo != 0)",
     "if (board->n == 0 || !r->read || (r->todo != 0 && !PLANTED(POP_ANY)))"),
    ("if (all) board->ranges[part.range].todo &= ~lane;",
     "if (all || PLANTED(FINISH_ALL)) board->ranges[part.range].todo &= ~lane;"),
]

if __name__ == "__main__":
    plant.EDITS[:] = EDITS
    plant.main(sys.argv[1:])
