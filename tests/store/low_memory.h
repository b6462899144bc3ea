/* low_memory.h - a malloc that fails when it is told to, for tests of what runs out of memory. */
#ifndef HW_TESTS_STORE_POOR_H
#define HW_TESTS_STORE_POOR_H

#include <stdbool.h>

#include <howdah/howdah.h>

extern long poor_left;   /* allocations until one fails; negative: none does */
extern bool poor_failed; /* some call had no memory */

extern const howdah_allocator poor_hooks;

/* Success, or no memory. */
bool fine(int status);

#endif
