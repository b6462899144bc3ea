/* meter.h - how long, how much processor time, how much memory. */
#ifndef HW_BENCH_METER_H
#define HW_BENCH_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Durations by their size: exact below 32 us, then 32 steps for each power of two (3 % apart), up
 * to 2^36 us.
 */
#define BENCH_STEPS 32
#define BENCH_OCTAVES 32
typedef struct bench_histogram {
    int64_t count[BENCH_STEPS * BENCH_OCTAVES];
} bench_histogram;

void bench_histogram_add(bench_histogram *histogram, int64_t us);
void bench_histogram_merge(bench_histogram *into, const bench_histogram *from);
/* The duration that this part (0 to 1) of all stay below; 0 without any. */
double bench_histogram_ms(const bench_histogram *histogram, double part);

/* Processor time of this process, all threads, user and system. */
int64_t bench_cpu_us(void);

/* What another process has now; -1 when the system does not tell. */
int64_t bench_memory_of(pid_t pid);
/* Gives back what is free and says what is in use; -1 when the system does not tell. */
int64_t bench_memory_now(void);
/* Forgets the peak, and asks for it: bytes; -1 when the system does not tell. */
void bench_memory_reset_peak(void);
int64_t bench_memory_peak(void);

#endif
