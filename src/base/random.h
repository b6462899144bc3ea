/* random.h - the system's randomness. */
#ifndef HW_BASE_RANDOM_H
#define HW_BASE_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool hw_random_bytes(void *out, size_t n);
/* For jitter only: never fails (falls back to the clock). */
uint32_t hw_random_u32(void);

#endif
