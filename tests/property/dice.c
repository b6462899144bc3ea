/* dice.c - chance that can be repeated: splitmix64, started by seed and case number. */
#include "property.h"

static uint64_t mix(uint64_t v)
{
    v = (v ^ (v >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    v = (v ^ (v >> 27)) * UINT64_C(0x94D049BB133111EB);
    return v ^ (v >> 31);
}

void dice_start(dice *d, uint64_t seed, uint64_t number)
{
    d->state = mix(seed + UINT64_C(0x9E3779B97F4A7C15)) ^ mix(number * 2 + 1);
}

uint64_t dice_u64(dice *d)
{
    d->state += UINT64_C(0x9E3779B97F4A7C15);
    return mix(d->state);
}

uint32_t dice_below(dice *d, uint32_t n)
{
    return (uint32_t)((dice_u64(d) >> 32) * n >> 32);
}

bool dice_percent(dice *d, uint32_t percent)
{
    return dice_below(d, 100) < percent;
}
