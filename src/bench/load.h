/*
 * load.h - the events that a client appends.
 *
 * A client has some streams of its own and takes them in turn, so that the version it expects is
 * known without asking and no two clients are in each other's way.
 */
#ifndef HW_BENCH_LOAD_H
#define HW_BENCH_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

#define BENCH_STREAMS_DEFAULT 10
#define BENCH_STREAMS_MAX 100000
#define BENCH_TYPE "bench.order.placed"
/* The one that is rare, and a pattern that only it matches. */
#define BENCH_RARE_TYPE "bench.order.returned"
#define BENCH_RARE_PATTERN "bench.*.returned"
#define BENCH_PAYLOAD_MIN 2

typedef struct bench_load {
    char stream_name[40]; /* of the stream in use */
    unsigned number;
    int64_t *version; /* of each stream */
    size_t streams;
    size_t current; /* the stream in use */
    char *payload;
    size_t payload_len;
    int64_t count;
} bench_load;

/* The events of client number; after a failure there is nothing to be undone. */
int bench_load_init(bench_load *load, unsigned number, size_t streams, size_t payload_len,
                    howdah_error *reterr);
void bench_load_done(bench_load *load);

/* Goes on to the next stream; returns the version that it is at. */
int64_t bench_load_advance(bench_load *load);
/* Or to any of them, with some luck (2^32 at most) a busy one: the busiest of 10,000 gets 5 %. */
void bench_load_pick(bench_load *load, uint32_t luck);
hw_str bench_load_stream(const bench_load *load);
/* The next event of this stream: its payload, valid until the next call, and its version. */
hw_str bench_load_next(bench_load *load, int64_t *ret_version);

#endif
