/* backoff.h - how long to wait before the next try; randomness comes from the caller. */
#ifndef HW_ENGINE_BACKOFF_H
#define HW_ENGINE_BACKOFF_H

#include <stdint.h>

/*
 * min(initial * 2^attempt, max), then spread by +-jitter_percent with random as its source.
 * No overflow at any attempt.  attempt counts from 0.
 */
int64_t hw_backoff_ms(int64_t initial_ms, int64_t max_ms, unsigned attempt, unsigned jitter_percent,
                      uint32_t random);

#endif
