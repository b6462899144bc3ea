/*
 * http_live.h - many clients that listen to the gateway's live events, by one thread.
 *
 *   live   one event after the other, each when all have had the one before: from the beginning of
 *          the POST until the last of them has it
 *   idle   nothing happens: what memory the gateway has for them
 */
#ifndef HW_BENCH_HTTP_LIVE_H
#define HW_BENCH_HTTP_LIVE_H

#include "bench/meter.h"
#include "bench/site.h"

typedef struct bench_listening {
    int64_t events;
    int64_t us;
    int64_t cpu_us;        /* of the gateway */
    bench_histogram heard; /* live: by the last of them */
    int64_t slowest_us;
    int64_t memory_before; /* of the gateway, with nobody there; -1: not known */
    int64_t memory;        /* with all of them, at the end */
} bench_listening;

/* The site's gateway runs.  INTERRUPTED after a signal. */
int bench_http_listen(cli_context *cli, const bench_site *site, bench_listening *ret_listening,
                      howdah_error *reterr);
void bench_http_listen_report(cli_context *cli, const bench_site *site,
                              const bench_listening *listening);

#endif
