/* dice.h - all chance of a simulated run: a pure function of its seed. */
#ifndef HW_TESTS_SIM_DICE_H
#define HW_TESTS_SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sim_dice {
    uint64_t state;
} sim_dice;

/* splitmix64 */
static inline uint64_t dice_next(sim_dice *dice)
{
    uint64_t z = dice->state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* 0 to sides - 1 */
static inline uint32_t dice_roll(sim_dice *dice, uint32_t sides)
{
    return (uint32_t)(((dice_next(dice) >> 32) * sides) >> 32);
}

static inline int64_t dice_between(sim_dice *dice, int64_t low, int64_t high)
{
    return low + (int64_t)(dice_next(dice) % (uint64_t)(high - low + 1));
}

/* In so many of 10,000 cases. */
static inline bool dice_chance(sim_dice *dice, uint32_t of_10000)
{
    return of_10000 > 0 && dice_roll(dice, 10000) < of_10000;
}

/* A value of its own for a thing of the run, however often it is asked. */
static inline uint64_t dice_hash(uint64_t seed, uint64_t a, uint64_t b)
{
    sim_dice dice = {seed ^ (a * UINT64_C(0xD6E8FEB86659FD93)) ^
                     (b * UINT64_C(0xA0761D6478BD642F))};

    (void)dice_next(&dice);
    return dice_next(&dice);
}

#endif
