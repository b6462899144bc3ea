/*
 * range_board.h - which events a process that holds a group may handle next.
 *
 * The process takes ranges of the log, one after the other, and several threads read and handle
 * them at the same time.  The board says who may do what, so that each stream stays in order.  A
 * *lane* is a share of the streams; what the lane of an event is, is the caller's matter.
 *
 *   I1  Ranges are announced in the order of the log, before they are read.
 *   I2  A lane is handled by one thread at a time.
 *   I3  The events that a lane has in a range are handled when the lane has none left in earlier
 *       ranges; and a range that is announced but not read may have some of every lane.
 *   I4  Ranges are through in the order of the log, so what can be acked is everything up to one of
 *       them.
 *
 * Pure: no threads, no clock, no memory.  The caller has a lock.
 */
#ifndef HW_ENGINE_RANGE_BOARD_H
#define HW_ENGINE_RANGE_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HW_BOARD_LANES 64 /* the bits of a word */
#define HW_BOARD_RANGES 16

typedef struct hw_board_range {
    int64_t lot;
    uint64_t todo; /* lanes that have events which are not handled */
    bool read;
} hw_board_range;

/* Zeroed: an empty one. */
typedef struct hw_board {
    hw_board_range ranges[HW_BOARD_RANGES]; /* a ring */
    size_t first;
    size_t n;
    uint64_t busy; /* lanes that a thread has (I2) */
} hw_board;

/* A lane's part of a range. */
typedef struct hw_board_part {
    size_t range; /* its place in ranges */
    unsigned lane;
} hw_board_part;

bool hw_board_is_full(const hw_board *board);
/* I1: the next range.  Returns its place. */
size_t hw_board_announce(hw_board *board, int64_t lot);
/* It is read, and has events of these lanes. */
void hw_board_read(hw_board *board, size_t range, uint64_t lanes);
/* A part that the caller may handle now; false: there is none. */
bool hw_board_claim(hw_board *board, hw_board_part *ret_part);
/* Its events are handled; all false: not all of them. */
void hw_board_finish(hw_board *board, hw_board_part part, bool all);
/* I4: takes the first range away if it is through. */
bool hw_board_pop(hw_board *board, size_t *ret_range);

#endif
