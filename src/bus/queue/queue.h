/* queue.h - what a bus has because of the work queue. */
#ifndef HW_BUS_QUEUE_QUEUE_H
#define HW_BUS_QUEUE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "bus/bus.h"
#include "engine/pause.h"

/* A job that howdah_queue_poll() gave out. */
typedef struct hw_held {
    int64_t id;
    int64_t token;
} hw_held;

#define HW_HELD_MAX 10000

/* What the names of routers begin with; see bindings.c. */
#define HW_ROUTER_PREFIX "queue:"

typedef struct hw_queues {
    char signature[HW_SIGNATURE_SIZE];
    /* wakeup.c: */
    bool listens;
    int64_t listens_to; /* the queue's number; 0: everything */
    uint64_t session;   /* in which it listens */
    bool cannot_listen; /* this session cannot hear the bell */
    hw_pause pause;     /* what arrives are jobs */
    /* claim.c: */
    hw_held *held; /* oldest first */
    size_t held_n;
    size_t held_room;
    struct howdah_worker *worker; /* NULL: none */
} hw_queues;

/* Checks the bus for a call on its queues; *ret_queues is made when first needed, or is NULL. */
int hw_queues_of(howdah_bus *bus, const char *call, hw_queues **ret_queues, howdah_error *reterr);
void hw_queues_close(howdah_bus *bus);

static inline const hw_queue_ops *hw_queue_ops_of(const howdah_bus *bus)
{
    return bus->store->ops->queue;
}

/* ---- push.c: the whole of a push over any store */
int hw_push_to(hw_store *store, size_t payload_bytes_max, hw_str queue,
               const howdah_new_job *const *jobs, size_t n, howdah_pushed *ret_pushed,
               howdah_error *reterr);

/* ---- settings.c */

/* INVALID: one of them is out of its range.  HOWDAH_ABSENT is not. */
int hw_queue_settings_check(const howdah_queue_options *options, howdah_error *reterr);

/* ---- ack.c */

/* Checks and carries out; outcomes are written. */
int hw_ack_on(hw_store *store, howdah_job_ack *acks, size_t n, howdah_error *reterr);
/* One: HOWDAH_OK, HOWDAH_END (RETRY that has FAILED), LOST. */
int hw_ack_one(hw_store *store, const howdah_job_ack *ack, howdah_error *reterr);

/* ---- wakeup.c */

void hw_queue_bell_init(hw_queues *queues);
/* Something came: the next looks are close to one another. */
void hw_queue_bell_heard(howdah_bus *bus);
/*
 * Listens to the queue's bell and arms it; true when that was not so before: look once more before
 * sleeping.  queue_id: as in hw_claim_report.
 */
bool hw_queue_bell_arm(howdah_bus *bus, int64_t queue_id);
/*
 * How long to sleep at most, by what the last claim said (next_due_ms: as in hw_claim_report) and
 * by how long nothing came.
 */
int64_t hw_queue_bell_pause(const howdah_bus *bus, int64_t next_due_ms);
/* HOWDAH_OK when the bell rang; HOWDAH_END: ms are over, or extra_fd (-1: none) is readable;
   INTERRUPTED. */
int hw_queue_bell_sleep(howdah_bus *bus, int64_t ms, int extra_fd, howdah_error *reterr);

#endif
