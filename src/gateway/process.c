/* process.c - see process.h. */
#include "gateway/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <howdah/howdah.h>

#include "base/text.h"

/* The n-th number of a file of the kernel, in pages. */
static int64_t memory_bytes(int field)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[256];
    char *at = line;
    char *number = NULL;
    int64_t pages = 0;

    if (!file)
        return HOWDAH_ABSENT;
    if (!fgets(line, sizeof line, file))
        line[0] = '\0';
    (void)fclose(file);
    for (int i = 0; i <= field; i++)
        number = strsep(&at, " \n");
    return number && hw_parse_i64(number, 0, INT64_MAX / 65536, &pages)
               ? pages * sysconf(_SC_PAGESIZE)
               : HOWDAH_ABSENT;
}

/* ".", ".." and the folder itself are not counted. */
static int64_t open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t n = -3;

    if (!folder)
        return HOWDAH_ABSENT;
    while (readdir(folder)) /* NOLINT(concurrency-mt-unsafe): a folder of its own */
        n++;
    (void)closedir(folder);
    return n;
}

static int64_t most_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return HOWDAH_ABSENT;
    return (int64_t)limit.rlim_cur;
}

static int64_t processor_us(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return HOWDAH_ABSENT;
    return (int64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000 +
           usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

void gw_process_print(hw_buf *out, face_metrics_form form, int64_t started_us)
{
    static const face_metric started = {"process_start_time_seconds", FACE_GAUGE,
                                        "When the gateway was started"};
    static const face_metric cpu = {"process_cpu_seconds_total", FACE_COUNTER,
                                    "Processor time that was used"};
    static const face_metric resident = {"process_resident_memory_bytes", FACE_GAUGE,
                                         "Memory that it has in the machine"};
    static const face_metric size = {"process_virtual_memory_bytes", FACE_GAUGE,
                                     "Memory that it has addresses for"};
    static const face_metric files = {"process_open_fds", FACE_GAUGE, "Open file descriptors"};
    static const face_metric limit = {"process_max_fds", FACE_GAUGE, "Most open file descriptors"};

    face_metric_alone(out, form, &started, started_us, 6);
    face_metric_alone(out, form, &cpu, processor_us(), 6);
    face_metric_alone(out, form, &resident, memory_bytes(1), 0);
    face_metric_alone(out, form, &size, memory_bytes(0), 0);
    face_metric_alone(out, form, &files, open_files(), 0);
    face_metric_alone(out, form, &limit, most_files(), 0);
}
