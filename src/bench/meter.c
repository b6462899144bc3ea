/* meter.c - see meter.h. */
#include "bench/meter.h"

#include <assert.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * The top bits of the value, as in a floating-point number: constant relative width, no
 * logarithm.
 */
static size_t step_of(int64_t us)
{
    uint64_t value = us > 0 ? (uint64_t)us : 0;
    unsigned octave = 0;
    size_t step;

    while (value >> octave >= 2 * BENCH_STEPS)
        octave++;
    /* Below 64 a step is one microsecond; above, the upper 6 bits choose it. */
    step = (size_t)octave * BENCH_STEPS + (size_t)(value >> octave);
    return step < BENCH_STEPS * BENCH_OCTAVES ? step : BENCH_STEPS * BENCH_OCTAVES - 1;
}

/* The first duration after a step: a percentile is rounded up, never down. */
static double step_end_us(size_t step)
{
    size_t octave = step < 2 * BENCH_STEPS ? 0 : step / BENCH_STEPS - 1;

    assert(step < BENCH_STEPS * BENCH_OCTAVES);
    return (double)((step - octave * BENCH_STEPS + 1) << octave);
}

/* Never allocates and never fails: it is called inside of what is measured. */
void bench_histogram_add(bench_histogram *histogram, int64_t us)
{
    histogram->count[step_of(us)]++;
}

/* Steps are the same for all histograms, so merging loses nothing. */
void bench_histogram_merge(bench_histogram *into, const bench_histogram *from)
{
    for (size_t i = 0; i < BENCH_STEPS * BENCH_OCTAVES; i++)
        into->count[i] += from->count[i];
}

/* A step without any count is no answer, not even for part 0. */
double bench_histogram_ms(const bench_histogram *histogram, double part)
{
    int64_t total = 0;
    int64_t below = 0;

    for (size_t i = 0; i < BENCH_STEPS * BENCH_OCTAVES; i++)
        total += histogram->count[i];
    for (size_t i = 0; i < BENCH_STEPS * BENCH_OCTAVES; i++) {
        below += histogram->count[i];
        if (below > 0 && (double)below >= part * (double)total)
            return step_end_us(i) / 1000.0;
    }
    return 0;
}

/* All threads of the process: both sides run in it, but only one at a time. */
int64_t bench_cpu_us(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) < 0)
        return 0;
    return ((int64_t)usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

/* A line of /proc/PID/status, "VmHWM:   1234 kB", in bytes. */
static int64_t status_bytes(pid_t pid, const char *key)
{
    char path[64];
    FILE *file;
    char line[256];
    int64_t bytes = -1;

    (void)snprintf(path, sizeof path, "/proc/%lld/status", (long long)pid);
    file = fopen(path, "re");
    if (!file)
        return -1;
    while (bytes < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, strlen(key)) == 0)
            bytes = strtoll(line + strlen(key) + 1, NULL, 10) * 1024;
    }
    (void)fclose(file);
    return bytes;
}

int64_t bench_memory_of(pid_t pid)
{
    return status_bytes(pid, "VmRSS");
}

/* malloc_trim() first: free memory that malloc keeps would hide growth that comes later. */
int64_t bench_memory_now(void)
{
    (void)malloc_trim(0);
    return status_bytes(getpid(), "VmRSS");
}

/* Linux: writing 5 to clear_refs resets VmHWM.  Not every container allows it. */
void bench_memory_reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd < 0)
        return; /* the peak of the whole life is no less than that of a part */
    if (write(fd, "5", 1) < 0) {
        /* As above. */
    }
    (void)close(fd);
}

int64_t bench_memory_peak(void)
{
    return status_bytes(getpid(), "VmHWM");
}
