/* backoff.c - how long to wait before the next try; randomness comes from the caller. */
#include "engine/backoff.h"

#include <assert.h>

/*
 * range * random / 2^32 without a wider type: the two halves of range one after the other.  Exact
 * enough: what the lower half loses is less than 1.
 */
static uint64_t scale(uint64_t range, uint32_t random)
{
    return (range >> 32) * random + (((range & UINT32_MAX) * random) >> 32);
}

/*
 * min(initial * 2^attempt, max).  Shifting max down cannot overflow; shifting initial up could.
 */
static int64_t doubled(int64_t initial_ms, int64_t max_ms, unsigned attempt)
{
    if (attempt >= 63 || initial_ms > (max_ms >> attempt))
        return max_ms;
    return initial_ms << attempt;
}

/*
 * Jitter spreads both ways around the delay, so that many that failed together do not come back
 * together, and the average stays what was asked for.
 */
int64_t hw_backoff_ms(int64_t initial_ms, int64_t max_ms, unsigned attempt, unsigned jitter_percent,
                      uint32_t random)
{
    uint64_t delay_ms;
    uint64_t spread_ms;
    uint64_t jittered_ms;

    if (initial_ms <= 0 || max_ms <= 0)
        return 0; /* a policy without delays */
    delay_ms = (uint64_t)doubled(initial_ms, max_ms, attempt);
    if (jitter_percent > 100)
        jitter_percent = 100;
    spread_ms = delay_ms / 100 * jitter_percent + delay_ms % 100 * jitter_percent / 100;
    assert(spread_ms <= delay_ms);
    /* At most twice INT64_MAX, which an unsigned type holds. */
    jittered_ms = delay_ms - spread_ms + scale(2 * spread_ms + 1, random);
    return jittered_ms > INT64_MAX ? INT64_MAX : (int64_t)jittered_ms;
}
