/*
 * contend.h - processes that append to one bus without a pause, and one that listens.
 *
 * On SQLite all of them want the one write lock that the file has, the subscription for its
 * checkpoints as well: what is to be seen is whether each gets its share, and how long the one
 * waits that waits longest.
 */
#ifndef HW_BENCH_CONTEND_H
#define HW_BENCH_CONTEND_H

#include "bench/meter.h"
#include "bench/site.h"

#define BENCH_WRITERS_MAX 64

typedef struct bench_contention {
    int64_t events[BENCH_WRITERS_MAX]; /* of each writer */
    int64_t total;
    int64_t us;
    bench_histogram waited; /* by an append */
    int64_t slowest_us;
    int64_t failures;
    char first_failure[512]; /* "" */
    int64_t heard;           /* by the subscription */
    bench_histogram hearing; /* from the call of the append to the handler */
    double alone_per_s;      /* one writer, with nobody beside it; 0: not measured */
} bench_contention;

/* The site is migrated.  Closes the command's bus: no process may be split with a file open. */
int bench_contend(cli_context *cli, const bench_site *site, bench_contention *ret_contention,
                  howdah_error *reterr);
void bench_contend_report(cli_context *cli, const bench_site *site,
                          const bench_contention *contention);

#endif
