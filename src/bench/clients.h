/* clients.h - the clients of both sides, a thread for each pair; they work in slices. */
#ifndef HW_BENCH_CLIENTS_H
#define HW_BENCH_CLIENTS_H

#include "bench/meter.h"
#include "bench/site.h"

enum { BENCH_OURS, BENCH_CEILING, BENCH_SIDES };

typedef struct bench_clients bench_clients;

typedef struct bench_tally {
    int64_t events;
    int64_t us;
    int64_t cpu_us;          /* of this process */
    int64_t pushed;          /* queue: jobs, before the slice, */
    int64_t push_us;         /* and how long it took */
    bench_histogram latency; /* of one piece of work, or from an append to its hearer */
} bench_tally;

int bench_clients_open(const bench_site *site, bench_clients **ret_clients, howdah_error *reterr);
void bench_clients_close(bench_clients *clients);

/* One side works; where there are subscribers, until they have heard everything (us is without
   that). Errors: those of any client; INTERRUPTED after a signal. */
int bench_clients_slice(bench_clients *clients, int side, int64_t slice_ms, bench_tally *ret_slice,
                        howdah_error *reterr);

/* How long our subscribers were busy after the last append of a slice, at most. */
int64_t bench_clients_slowest_us(const bench_clients *clients);

#endif
