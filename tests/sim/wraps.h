/* wraps.h - the library's clocks and dice are those of the simulated world. */
#ifndef HW_TESTS_SIM_WRAPS_H
#define HW_TESTS_SIM_WRAPS_H

#include "world.h"

/* on_sleep (may be NULL: time just passes) is called when the library sleeps. */
void wraps_use(world *w, uint64_t seed, void (*on_sleep)(void *ctx, int64_t ms), void *ctx);

#endif
