/*
 * http.h - what the way over HTTP costs.
 *
 * A gateway of our own serves the bench's bus, and our side's clients speak HTTP with it.
 *
 *   --of append   one event a request; the ceiling: single-row INSERTs, as that of bench append
 *   --of batch    batches; the ceiling: the library's, by as many clients
 *   --of read     the whole log as JSON lines; the ceiling: lines that the library reads, and we
 *                 format
 *   --of group    batches of a shared subscription, fetched and acked until the log is drained; the
 *                 ceiling: members of the library
 *   --of live     one event to many clients that listen: until the last one has it (http_live.h)
 *   --of idle     memory of the gateway while clients listen and nothing happens
 */
#ifndef HW_BENCH_HTTP_H
#define HW_BENCH_HTTP_H

#include "bench/site.h"

/* By bench_over; NULL after the last. */
extern const char *const bench_over_names[];

/* A client of append, batch, read or group. */
int bench_http_client_open(const bench_site *site, unsigned number, bench_client **ret_client,
                           howdah_error *reterr);

#endif
