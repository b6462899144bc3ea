/*
 * error.h - report once, at the origin.
 *
 *     return hw_fail(reterr, HOWDAH_LIMIT, "buffer would pass %zu bytes", max);
 *
 * Each function fills *reterr (which may be NULL) and returns the status, so that
 * a failing call is one statement.  Long texts are cut at a character boundary.
 */
#ifndef HW_BASE_ERROR_H
#define HW_BASE_ERROR_H

#include <howdah/howdah.h>

#define HW_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* NO_MEMORY and UNAVAILABLE, TIMEOUT, FULL get HOWDAH_RETRYABLE by themselves. */
int hw_fail(howdah_error *reterr, int status, const char *fmt, ...) HW_PRINTF(3, 4);

/* For INVALID and LIMIT: names the field; the message becomes "field: text". */
int hw_fail_field(howdah_error *reterr, int status, const char *field, const char *fmt, ...)
    HW_PRINTF(4, 5);

/* Inline, so that static analysis sees that the result is negative. */
static inline int hw_fail_no_memory(howdah_error *reterr)
{
    (void)hw_fail(reterr, HOWDAH_NO_MEMORY, "out of memory");
    return HOWDAH_NO_MEMORY;
}

/* Adds what to do next to an error already filled; returns its status. */
int hw_advise(howdah_error *reterr, int status, const char *fmt, ...) HW_PRINTF(3, 4);

/* Adds a flag to an error already filled. */
void hw_error_flag(howdah_error *reterr, unsigned flag);

/* Says which event of a batch an error already filled is about. */
void hw_error_at(howdah_error *reterr, size_t event_index);

/* Hands an error that was filled aside to the caller: no more than reterr->size of it. */
void hw_error_copy(howdah_error *reterr, const howdah_error *err);

/* Puts "prefix: " before the message of an error already filled (for "event 3: ..."). */
void hw_error_prefix(howdah_error *reterr, const char *fmt, ...) HW_PRINTF(2, 3);

#endif
