/*
 * group.h - a log through the members of a group.
 *
 * A slice brings the whole log to a group that was put back to the beginning before: the members
 * take batches until all events are acked.
 */
#ifndef HW_BENCH_GROUP_H
#define HW_BENCH_GROUP_H

#include "bench/site.h"

#define BENCH_GROUP "bench"

/* By bench_through and bench_against; NULL after the last. */
extern const char *const bench_through_names[];
extern const char *const bench_against_names[];

/* A member, or (number 0) the subscription whose handlers are the members. */
int bench_group_open(const bench_site *site, unsigned number, bench_client **ret_client,
                     howdah_error *reterr);

/* Makes the group, before any client is opened. */
int bench_group_prepare(cli_context *cli, howdah_error *reterr);

#endif
