/*
 * subscribers.h - those who hear what is appended, while it is appended.
 *
 * They are one thread.  On our side it serves subscriptions, on the ceiling's it is a bare
 * loop.  It counts what it hears; an appender that wants to know how long that takes leaves the
 * time with the event's version first.
 *
 *   I1  The latencies are the listening thread's, and the main thread's once await() has returned:
 *       then everything appended was heard, and nothing further comes before the next append.
 */
#ifndef HW_BENCH_SUBSCRIBERS_H
#define HW_BENCH_SUBSCRIBERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "bench/meter.h"
#include "bench/site.h"

/* More than can be under way at once. */
#define BENCH_STAMPS 65536

typedef struct bench_subscribers_ops {
    /* Hears until base.stop is set, or interrupt is called. */
    int (*listen)(bench_subscribers *subscribers, howdah_error *reterr);
    /* May be NULL: then listen() looks at base.stop often enough. */
    void (*interrupt)(bench_subscribers *subscribers);
    void (*close)(bench_subscribers *subscribers);
} bench_subscribers_ops;

struct bench_subscribers {
    const bench_subscribers_ops *ops;
    int64_t hearers; /* each event is heard so many times */
    bool timed;      /* by one thread, whose latencies are kept */
    pthread_t thread;
    bool started;
    atomic_bool stop;
    atomic_bool failed; /* err says how */
    howdah_error err;
    int status;
    _Atomic int64_t heard;
    int64_t slowest_us; /* the longest that await() has waited */
    bench_histogram latency;
    _Atomic int64_t stamps[BENCH_STAMPS];
};

/* Starts to listen.  They are the caller's to close, also after a failure. */
int bench_subscribers_start(bench_subscribers *subscribers, howdah_error *reterr);
/* Stops listening and frees it; NULL is nobody. */
void bench_subscribers_close(bench_subscribers *subscribers);

/* By the appender, before it appends the event of this version. */
void bench_subscribers_stamp(bench_subscribers *subscribers, int64_t version);
/* By the listening thread, or by any when latencies are not kept, for each event. */
void bench_subscribers_hear(bench_subscribers *subscribers, int64_t version);

/* Until each hearer has heard that many events; errors: its own, INTERRUPTED, TIMEOUT. */
int bench_subscribers_await(bench_subscribers *subscribers, int64_t events, howdah_error *reterr);

/* Subscriptions on our bus. */
int bench_live_open(const bench_site *site, bench_subscribers **ret_subscribers,
                    howdah_error *reterr);

/* So many times a second, evenly; what was missed is not made up for. */
typedef struct bench_pace {
    int64_t rate;
    int64_t next_ns; /* 0: at once */
} bench_pace;

void bench_pace_wait(bench_pace *pace);

#endif
