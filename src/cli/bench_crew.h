/* bench_crew.h - the clients of both sides, a thread for each pair; they work in slices. */
#ifndef HW_CLI_BENCH_CREW_H
#define HW_CLI_BENCH_CREW_H

#include "cli/bench_meter.h"
#include "cli/bench_site.h"

enum { BENCH_OURS, BENCH_CEILING, BENCH_SIDES };

typedef struct bench_crew bench_crew;

typedef struct bench_tally {
    int64_t events;
    int64_t us;
    int64_t cpu_us;          /* of this process */
    int64_t pushed;          /* queue: jobs, before the slice, */
    int64_t push_us;         /* and how long it took */
    bench_histogram latency; /* of one piece of work, or from an append to its hearer */
} bench_tally;

int bench_crew_open(const bench_site *site, bench_crew **ret_crew, howdah_error *reterr);
void bench_crew_close(bench_crew *crew);

/* One side works; where there is an audience, until it has heard everything (us is without that).
   Errors: those of any client; INTERRUPTED after a signal. */
int bench_crew_slice(bench_crew *crew, int side, int64_t slice_ms, bench_tally *ret_slice,
                     howdah_error *reterr);

/* How long our audience was busy after the last append of a slice, at most. */
int64_t bench_crew_slowest_us(const bench_crew *crew);

#endif
