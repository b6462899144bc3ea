/* wraps.h - the library's clocks and dice are those of the simulated world. */
#ifndef HW_TESTS_SIM_WRAPS_H
#define HW_TESTS_SIM_WRAPS_H

#include <stdint.h>

/* now_us is the time of the world, also while the library sleeps; on_sleep (may be NULL: time just
   passes) is called then. */
void wraps_use(int64_t *now_us, uint64_t seed, void (*on_sleep)(void *ctx, int64_t ms), void *ctx);
/* The machine starts anew: its time since boot begins with 0. */
void wraps_reboot(void);

#endif
