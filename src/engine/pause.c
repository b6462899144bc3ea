/* pause.c - see pause.h. */
#include "engine/pause.h"

#include <assert.h>

/* While things come, a look is due some times between two of them (I2). */
static void shorten(hw_pause *pause)
{
    const hw_pause_rules *rules = pause->rules;
    int64_t us = pause->gap_us / 4;

    if (us < rules->short_us_min)
        us = rules->short_us_min;
    pause->pause_us = us < rules->short_us_max ? us : rules->short_us_max;
}

void hw_pause_init(hw_pause *pause, const hw_pause_rules *rules, int64_t gap_us)
{
    assert(rules->short_us_min > 0 && rules->short_us_min <= rules->short_us_max);
    assert(rules->armed_us > 0 && rules->armed_growth > 1);
    *pause = (hw_pause){.rules = rules, .gap_us = gap_us, .pause_us = rules->short_us_max};
}

/*
 * Where things are rare the bell is armed at once: a ring costs little there, and saves the
 * looks.
 */
bool hw_pause_is_quiet(const hw_pause *pause, int64_t now_us)
{
    return pause->gap_us >= HW_PAUSE_RARE_US || now_us - pause->event_us >= HW_PAUSE_HOLD_OFF_US;
}

/* The bell may be missed (a ring is only a hint), so looks go on, with longer pauses. */
void hw_pause_arm(hw_pause *pause)
{
    pause->armed = true;
    pause->pause_us = pause->rules->armed_us;
}

void hw_pause_ring(hw_pause *pause)
{
    pause->armed = false;
    shorten(pause);
}

/*
 * Only what has newly come tells how often things come; working off a backlog does not.  The gap
 * is a moving average with a bound, so that one long silence is soon outweighed.
 */
void hw_pause_event(hw_pause *pause, int64_t now_us, bool arrived)
{
    int64_t gap_us = now_us - pause->arrival_us;

    if (arrived) { /* a moving average: the last gap counts for a fourth */
        if (gap_us > HW_PAUSE_GAP_US_MAX)
            gap_us = HW_PAUSE_GAP_US_MAX;
        pause->gap_us = (3 * pause->gap_us + gap_us) / 4;
        pause->arrival_us = now_us;
    }
    pause->event_us = now_us;
    shorten(pause);
}

/*
 * I3.  While things are rare and no bell is armed, a hold-off of the caller's keeps the pauses
 * short.
 */
static bool may_grow(const hw_pause *pause, int64_t now_us)
{
    int64_t hold_off_us =
        pause->gap_us >= HW_PAUSE_RARE_US ? pause->rules->rare_hold_off_us : HW_PAUSE_HOLD_OFF_US;

    return pause->armed || now_us - pause->event_us >= hold_off_us;
}

void hw_pause_grow(hw_pause *pause, int64_t now_us, int64_t us_max)
{
    if (!may_grow(pause, now_us))
        return;
    pause->pause_us *= pause->armed ? pause->rules->armed_growth : 2;
    if (pause->pause_us > us_max)
        pause->pause_us = us_max;
    assert(pause->pause_us > 0); /* I1 */
}
