/* deliver.h - a log through a subscription's handler. */
#ifndef HW_BENCH_DELIVER_H
#define HW_BENCH_DELIVER_H

#include "bench/site.h"

/* A client whose work is to bring the whole log to a new subscription. */
int bench_deliver_open(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr);

/* How long a new subscription to the rare type takes, by its name and by a pattern: medians. */
int bench_deliver_filtered(cli_context *cli, const bench_site *site, int64_t *ret_exact_us,
                           int64_t *ret_wildcard_us, howdah_error *reterr);

#endif
