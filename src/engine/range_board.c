/* range_board.c - see range_board.h. */
#include "engine/range_board.h"

#include <assert.h>

bool hw_board_is_full(const hw_board *board)
{
    return board->n == HW_BOARD_RANGES;
}

size_t hw_board_announce(hw_board *board, int64_t lot)
{
    size_t at = (board->first + board->n) % HW_BOARD_RANGES;

    assert(!hw_board_is_full(board));
    assert(board->n == 0 ||
           board->ranges[(at + HW_BOARD_RANGES - 1) % HW_BOARD_RANGES].lot < lot); /* I1 */
    board->ranges[at] = (hw_board_range){.lot = lot};
    board->n++;
    return at;
}

void hw_board_read(hw_board *board, size_t range, uint64_t lanes)
{
    assert(range < HW_BOARD_RANGES && !board->ranges[range].read);
    board->ranges[range].todo = lanes;
    board->ranges[range].read = true;
}

bool hw_board_claim(hw_board *board, hw_board_part *ret_part)
{
    uint64_t taken = board->busy; /* and what earlier ranges still have: I3 */

    for (size_t i = 0; i < board->n; i++) {
        size_t at = (board->first + i) % HW_BOARD_RANGES;
        const hw_board_range *r = &board->ranges[at];
        uint64_t free = r->todo & ~taken;

        if (!r->read)
            return false;
        if (free != 0) {
            *ret_part = (hw_board_part){at, (unsigned)__builtin_ctzll(free)};
            board->busy |= UINT64_C(1) << ret_part->lane;
            return true;
        }
        taken |= r->todo;
    }
    return false;
}

void hw_board_finish(hw_board *board, hw_board_part part, bool all)
{
    uint64_t lane = UINT64_C(1) << part.lane;

    assert(board->busy & lane);
    assert(board->ranges[part.range].todo & lane);
    board->busy &= ~lane;
    if (all)
        board->ranges[part.range].todo &= ~lane;
}

bool hw_board_pop(hw_board *board, size_t *ret_range)
{
    const hw_board_range *r = &board->ranges[board->first];

    if (board->n == 0 || !r->read || r->todo != 0)
        return false;
    *ret_range = board->first;
    board->first = (board->first + 1) % HW_BOARD_RANGES;
    board->n--;
    return true;
}
