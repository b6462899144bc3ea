/*
 * state.c - a subscription's life, and who has the work that it has in hand.
 *
 *   I1  The state is the serving thread's; every change of it goes through hw_sub_move(), and is
 *       one that the table allows.
 *   I2  Work goes round: the serving thread begins it, and ends it itself or hands it out to a
 *       worker and collects it when that one is through.
 */
#include <assert.h>

#include "bus/subscription/subscription.h"

#define TO(state) (1U << (unsigned)HW_STATE_##state)

/* From each state, the states it may be followed by. */
static const unsigned moves[HW_STATES] = {
    [HW_STATE_OUT] = TO(TAKEN) | TO(PAUSED) | TO(HALTED) | TO(ENDED),
    [HW_STATE_TAKEN] = TO(OUT) | TO(CATCHING_UP) | TO(PAUSED) | TO(HALTED),
    [HW_STATE_CATCHING_UP] = TO(OUT) | TO(LIVE) | TO(PAUSED) | TO(HALTED),
    [HW_STATE_LIVE] = TO(OUT) | TO(CATCHING_UP) | TO(PAUSED) | TO(HALTED),
    /* Back to work leads through OUT: who knows what was done to the log meanwhile. */
    [HW_STATE_PAUSED] = TO(OUT) | TO(HALTED),
    [HW_STATE_HALTED] = TO(OUT) | TO(PAUSED),
    [HW_STATE_ENDED] = TO(OUT),
};

bool hw_sub_may_move(hw_sub_state from, hw_sub_state to)
{
    assert((unsigned)from < HW_STATES && (unsigned)to < HW_STATES);
    return (moves[from] & (1U << (unsigned)to)) != 0;
}

/* I1.  Relaxed order is enough: other threads show the state, they do not act on it. */
void hw_sub_move(howdah_subscription *sub, hw_sub_state to)
{
    assert(hw_sub_state_of(sub) == to || hw_sub_may_move(hw_sub_state_of(sub), to));
    assert(to == HW_STATE_CATCHING_UP || !hw_sub_is_busy(sub)); /* a worker may have a page of it */
    atomic_store_explicit(&sub->state, to, memory_order_relaxed);
}

void hw_sub_go_live(howdah_subscription *sub, int64_t next_page)
{
    hw_sub_move(sub, HW_STATE_LIVE);
    sub->reading.next_page = next_page;
}

/* One that was loaded and has read nothing yet stays TAKEN: its first read still has to look at
   the holders before it (holes.c I5). */
void hw_sub_catch_up(howdah_subscription *sub, int64_t rest_ms)
{
    if (hw_sub_state_of(sub) != HW_STATE_TAKEN)
        hw_sub_move(sub, HW_STATE_CATCHING_UP);
    sub->schedule.rest_ms = rest_ms;
}

void hw_sub_work_begin(howdah_subscription *sub, hw_sub_work_kind kind, hw_page *page)
{
    hw_sub_work *work = &sub->work;

    assert(!hw_sub_is_busy(sub) && work->kind == HW_WORK_NONE && !work->page);
    assert((page == NULL) == (kind == HW_WORK_DEAD_LETTERS));
    work->kind = kind;
    work->page = page;
}

/* I2: from here until hw_sub_work_collect() the serving thread does not look at the work. */
void hw_sub_work_hand_out(howdah_subscription *sub)
{
    assert(!hw_sub_is_busy(sub) && sub->work.kind != HW_WORK_NONE);
    sub->work.handed_out = true;
}

void hw_sub_work_collect(howdah_subscription *sub)
{
    assert(hw_sub_is_busy(sub) && sub->work.kind != HW_WORK_NONE);
    sub->work.handed_out = false;
}

/* Ends are in order of weight: a run that had to halt stays halted, even if it also passed its
   page. */
void hw_sub_work_end_as(howdah_subscription *sub, hw_sub_work_end end)
{
    if (end > sub->work.end)
        sub->work.end = end;
}

/* The page's reference is given back here; its count is the serving thread's, so a worker never
   does this. */
void hw_sub_work_clear(howdah_subscription *sub)
{
    hw_sub_work *work = &sub->work;

    assert(!hw_sub_is_busy(sub));
    hw_page_drop(sub->bus, work->page);
    work->page = NULL;
    work->kind = HW_WORK_NONE;
    work->at = 0;
    work->delivered = 0;
    work->end = HW_END_EARLY;
    work->failed = HOWDAH_OK;
    work->told = HW_SUB_ACTIVE;
}
