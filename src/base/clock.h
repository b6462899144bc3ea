/* clock.h - the only place that asks for the time; and times and durations as text. */
#ifndef HW_BASE_CLOCK_H
#define HW_BASE_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Microseconds since 1970 UTC. */
int64_t hw_clock_wall_us(void);
/* Milliseconds of CLOCK_BOOTTIME: goes on while the machine sleeps, never back. */
int64_t hw_clock_mono_ms(void);
/* The same in microseconds, for measuring. */
int64_t hw_clock_mono_us(void);

/* How long a piece of work of this thread takes, also on a machine that has much else to do: by the
   processor's time while the thread does not wait for anything, by the clock if it does. */
typedef struct hw_clock_work {
    int64_t wall_us;
    int64_t processor_us;
    int64_t waits;
} hw_clock_work;

hw_clock_work hw_clock_work_begin(void);
int64_t hw_clock_work_us(const hw_clock_work *begun);

/* When that many are over, by the clock above; for ever: negative, or more than there are. */
int64_t hw_clock_end_ms(int64_t for_ms);

/*
 * Names the present boot of this machine, to tell whether a stored time of the clocks above still
 * means anything: by the id that the kernel gives it, or, where /proc is missing, by when it was.
 */
#define HW_BOOT_TEXT 36
void hw_clock_boot(char ret_text[HW_BOOT_TEXT + 1]);
/* The same, with the file that holds the id. */
void hw_clock_boot_by(const char *path, char ret_text[HW_BOOT_TEXT + 1]);

/* Sleeps; a signal cuts it short. */
void hw_clock_sleep_ms(int64_t ms);

/* Years 0001 to 9999. */
#define HW_TIME_MIN_US INT64_C(-62135596800000000)
#define HW_TIME_MAX_US INT64_C(253402300799999999)
#define HW_TIME_ABSENT INT64_MIN /* HOWDAH_NO_TIME */
#define HW_TIME_TEXT 27

/* RFC 3339 with an offset, up to 9 decimals (beyond 6 cut off); no leap second, no year 0. */
bool hw_time_parse(const char *text, size_t len, int64_t *ret_us);
/* "2026-01-31T09:30:00.000000Z"; time_us within the range above. */
void hw_time_format(int64_t time_us, char ret_text[HW_TIME_TEXT + 1]);

/* 250ms, 5s, 2m, 1h; a bare number is refused (which unit?).  false on anything else or overflow.
 */
bool hw_duration_parse(const char *text, int64_t *ret_ms);

#endif
