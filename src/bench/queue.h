/*
 * queue.h - jobs through a queue.
 *
 * A slice drains a backlog that was pushed before it: the workers of a side take and end jobs until
 * none is left.  What is pushed is timed, too, but apart.
 */
#ifndef HW_BENCH_QUEUE_H
#define HW_BENCH_QUEUE_H

#include "bench/meter.h"
#include "bench/run.h"
#include "bench/site.h"

/* A worker of our side. */
int bench_queue_open(const bench_site *site, unsigned number, bench_client **ret_client,
                     howdah_error *reterr);

/* group: a worker of a queue that is bound to the whole log. */
int bench_bound_open(const bench_site *site, unsigned number, bench_client **ret_client,
                     howdah_error *reterr);

/* From a push into a queue that somebody waits at to the moment that the job is in hand. */
int bench_queue_latency(const bench_site *site, bench_histogram *ret_latency, howdah_error *reterr);

#endif
