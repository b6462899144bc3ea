/*
 * board.h - a process that has reserved a group: its threads, the board, late commits.
 *
 * SQLite has no reservations, and one writer at a time, so what is particular to PostgreSQL is
 * simulated here with the part of it that is pure (engine/range_board.h).  Writers draw numbers and
 * commit later, in any order; only a stream has one writer at a time.  The store is a list of what
 * was given out and what is done.  Threads announce pages, read them later, handle parts of them,
 * and let go of some halfway; the process is killed, or the reservation ends.
 *
 * G1, G2 and G3 of checker.h are judged on every step.
 */
#ifndef HW_TESTS_SIM_GROUPS_BOARD_H
#define HW_TESTS_SIM_GROUPS_BOARD_H

#include "sim.h"

void board_run(uint64_t seed, planted_bug bug, bool show, sim_result *ret_result);

#endif
