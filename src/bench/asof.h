/*
 * asof.h - what two times cost.
 *
 *   --of stream   as of (now, the last moment) of one stream of 100 facts, ten of them corrected,
 *                 against a plain read of that stream
 *   --of type     the same of a type with 10,000 current facts in a million events, against those
 *                 rows by their primary key
 *   --of append   batches into the log's columns and indexes, against the same rows in a table that
 *                 knows one time; by the bare driver on both sides
 *   --of append-valid   the same with a valid time for each event, on our side
 */
#ifndef HW_BENCH_ASOF_H
#define HW_BENCH_ASOF_H

#include "bench/site.h"

#define BENCH_FACT_TYPE "bench.fact"

/* How the kinds of questions are named; NULL after the last. */
extern const char *const bench_asof_names[];

/* append, or append-valid. */
bool bench_of_appends(const bench_plan *plan);

/* Fills the log, or makes the tables. */
int bench_asof_prepare(cli_context *cli, const bench_site *site, howdah_error *reterr);
/* A client of our side, or of the ceiling. */
int bench_asof_open(const bench_site *site, unsigned number, bool ceiling,
                    bench_client **ret_client, howdah_error *reterr);

#endif
