/*
 * run.h - measures both sides, in turn.
 *
 * Machines are noisy: other programs, the server's checkpoints and a cold cache come and go.  So
 * the sides take turns in short slices, ours first and the ceiling first by turns, and what is
 * compared is the sum of many slices.
 */
#ifndef HW_BENCH_RUN_H
#define HW_BENCH_RUN_H

#include "bench/clients.h"
#include "bench/site.h"

typedef struct bench_result {
    bench_tally ours;
    bench_tally ceiling; /* without one: no events */
    int64_t slices;      /* of each side */
    double ratio_min;    /* of two neighbouring slices: of their rates, or (latency) p50s */
    double ratio_median;
    double ratio_max;
    int64_t memory_bytes;   /* whole: by how much our side made this process grow; -1: not known */
    int64_t rss_bytes;      /* the most that this process had; -1: not known */
    int64_t slowest_us;     /* fanout: the longest that subscriptions were busy after a slice */
    double clean_rate;      /* queue, pinned: without the old snapshot; 0: not measured */
    double pinned_rate;     /* in the last seconds with it */
    int64_t wal_bytes;      /* group: of our slices; 0: not measured */
    bench_histogram waited; /* queue: from a push to the worker that waits for it */
    int64_t exact_us;       /* deliver, filtered: by the type's name, */
    int64_t wildcard_us;    /* and by a pattern; 0: not measured */
} bench_result;

/* Events a second. */
double bench_rate(const bench_tally *tally);

/* Errors: those of any client; INTERRUPTED after a signal. */
int bench_run(cli_context *cli, const bench_site *site, bench_result *ret_result,
              howdah_error *reterr);

#endif
