/*
 * worker.h - the inside of a worker.
 *
 * One thread, the driver, calls howdah_worker_run(): it alone talks to the store.  Handlers run in
 * the pool's threads, or, without any, in the driver itself.  A queue with bindings has a router
 * beside it, with a bus and a thread of its own.
 *
 *   I1  A job in hand is in one place: waiting or running or done in the pool, then with the driver
 *       (taken), which acks and forgets it.  There are never more than "capacity" of them.
 *   I2  No lock is held while a handler runs (pool.h I3).
 *   I3  What a handler leaves in its howdah_work is read by the driver only after it has taken it
 *       back from the pool (pool.h I2).
 *   I4  A lease is extended at a third of its time, from when we asked for it: not from when the
 *       answer came.
 *   I5  A job whose lease is lost is not begun, and not acked.   One whose lease is over by our
 *       own clock is not begun, either: it is given back, if it still is ours.
 *   I6  A suspect, which may end this process, runs alone: it is held until nothing else in hand
 *       is unfinished, and while there is one nothing is claimed.
 */
#ifndef HW_BUS_QUEUE_WORKER_WORKER_H
#define HW_BUS_QUEUE_WORKER_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bus/pool.h"
#include "bus/queue/job.h"
#include "bus/queue/queue.h"

/* One job in hand. */
struct howdah_work {
    howdah_worker *worker;
    howdah_job *job;
    hw_pool_item item; /* of the pool */
    atomic_bool lost;
    /* The driver's: */
    bool taken;                /* back from the pool */
    bool over;                 /* acked */
    bool held;                 /* a suspect that waits until it is alone */
    bool uncertain;            /* an ack of it got no answer: it may be over */
    int64_t lease_ms;          /* how long a lease is */
    _Atomic int64_t leased_ms; /* when it was asked for, by our clock */
    size_t bytes;              /* of its payload */
    /* The handler's, I3: */
    int verdict; /* HOWDAH_WORK_... */
    int64_t after_ms;
    char *text; /* NULL: none */
};

/* ---- handlers.c */

/* Its threads, or none: then the driver runs handlers. */
int hw_worker_pool_init(howdah_worker *worker, size_t low, howdah_error *reterr);
/* To the pool. */
void hw_work_begin(howdah_work *work);
void hw_work_free(howdah_work *work);

/* ---- router_thread.c */

typedef struct hw_worker_router {
    howdah_bus *bus;
    pthread_t thread;
    bool runs;
    atomic_bool stop;
    atomic_bool failing; /* its last slice of time ended with an error */
    int64_t look_ms;     /* when bindings are looked for next, while there were none */
} hw_worker_router;

/* Starts the router when the queue has a binding. */
int hw_worker_route(howdah_worker *worker, howdah_error *reterr);
/* Whether events that are there are still to become jobs of the queue. */
int hw_worker_awaits_route(howdah_worker *worker, bool *ret_awaits, howdah_error *reterr);
void hw_worker_route_end(howdah_worker *worker);

/* ---- worker.c */

struct howdah_worker {
    howdah_bus *bus;
    howdah_worker_options options;
    char *queue;
    char *name;
    hw_pool pool;
    size_t capacity;
    howdah_work **hand; /* room for twice the capacity: those being acked, and new ones */
    size_t hand_n;
    size_t hand_bytes; /* of their payloads */
    hw_ack *acks;      /* room for the capacity, as the next two */
    howdah_ack_outcome *acked;
    howdah_work **acking;
    atomic_bool stopping;
    int64_t look_ms;             /* no claim before */
    int64_t next_due_ms;         /* as the last claim said, */
    int64_t queue_id;            /* and for the bell */
    int64_t maintain_ms;         /* when the queue is looked after next */
    int64_t retries_outstanding; /* sent back for another try, and not seen again */
    int64_t extend_ms;           /* no lease in hand has to be extended before */
    bool owes;                   /* some in hand are taken */
    bool suspects;               /* one of them is one (I6) */
    bool found_none;             /* by the last claim */
    bool awaits_route;           /* until_empty: only the router has something left to do */
    unsigned failures;           /* of the store, in a row */
    hw_worker_router router;
    howdah_worker_info info;
};

/* ---- lease.c */

/* Of a job that was just claimed; asked_ms: before the claim was sent. */
void hw_lease_begin(const howdah_worker *worker, howdah_work *work, const howdah_job *record,
                    int64_t asked_ms);
/* Its handler may still need it. */
bool hw_lease_is_needed(const howdah_work *work);
/* When it is to be extended: at a third of its time. */
int64_t hw_lease_extend_ms(const howdah_work *work);
/* The earliest of those in hand, INT64_MAX: none. */
int64_t hw_lease_first_ms(const howdah_worker *worker);
/* Whether one of them is to be extended by now. */
bool hw_lease_is_due(howdah_worker *worker, int64_t now);
/* By our own clock: the job may be another worker's. */
bool hw_lease_is_over(const howdah_work *work);
/* The store said so. */
void hw_lease_lost(howdah_worker *worker, howdah_work *work);

/* ---- exchange.c */

/*
 * Takes what is done, and if anything is due, or flush is set and something is done, makes one
 * round trip: acks, extends, claims (only with may_claim).
 */
int hw_worker_exchange(howdah_worker *worker, bool may_claim, bool flush, howdah_error *reterr);
/* Extends everything in hand now. */
int hw_worker_extend(howdah_worker *worker, howdah_error *reterr);
/* How long nothing is due, by our clock; needs what the pool looks like. */
int64_t hw_worker_rest_ms(const howdah_worker *worker, const hw_pool_view *view, bool may_claim);
/* How many more could be claimed, 0: it is not worth a claim. */
int64_t hw_worker_wants(const howdah_worker *worker, const hw_pool_view *view);

#endif
