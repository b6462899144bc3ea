/*
 * queue.h - the part of the store's contract that the work queue needs.
 *
 * A job is in exactly one place: ready (to be claimed when it is due), leased (a claim holds it),
 * or in the history.  Its payload lies apart, written once.
 *
 *   I1  A job is moved from place to place by one transaction; it is never in two, and never in
 *       none.  What was pushed is what is ready, leased or in the history: verify() counts.
 *   I2  A claim gives a job a token that no claim had before, and counts the attempt before the
 *       handler runs.  What acks a job names (id, token); with another token nothing changes,
 *       and the caller is told, job by job.
 *   I3  Times are by the database's clock: when a job is due, when a lease runs out.
 *   I4  Of the jobs of one key at most one is leased, and it is the earliest pushed that is not in
 *       the history.
 *   I5  A claim, and an ack, may be committed without waiting for the disk: a crash of the server
 *       can undo them, and the job runs again.  A push and a failure wait.
 *   I6  The next maintain() or claim gives a lease back that ran out: the job is ready again, or
 *       FAILED when it has no attempt left.  It is a suspect from then on, and is claimed alone,
 *       before others of its priority, but after those that are more urgent: what killed its worker
 *       does not cost its neighbours their attempts.
 *   I7  A job whose event was purged while it was leased can be completed.  If it is not, it is
 *       cancelled: FAILED, "cancelled: purged: " and why, without a dead letter.
 */
#ifndef HW_STORE_QUEUE_H
#define HW_STORE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"
#include "base/uuid.h"
#include "store/queue_settings.h"
#include "store/subscriptions.h"

struct hw_store;

/* ---- push */

/*
 * What howdah_new_job says, judged: texts have their length, the id is parsed, and two ways to name
 * a time have become microseconds.
 */
typedef struct hw_push {
    hw_str data;
    hw_str content_type; /* absent: data is JSON */
    hw_str headers;
    int64_t delay_us;     /* from now on, 0: none; */
    int64_t run_at_us;    /* or until this time, HW_TIME_ABSENT: see delay */
    int32_t priority;     /* lower first */
    int32_t max_attempts; /* 0: the queue's */
    hw_str key;
    hw_str dedup;
    hw_str correlation_id;
    bool has_causation;
    hw_uuid causation_id;
} hw_push;

/* ---- jobs */

/*
 * A job as a store hands it to a callback: its texts, each with a NUL after it, live as long as
 * that call.  Those that a user holds are copies (bus/queue/job.h).
 */
struct howdah_job {
    int64_t id;
    int64_t token; /* 0: not leased */
    howdah_job_state state;
    hw_str queue;
    int32_t priority;
    int64_t attempts; /* this one included */
    int64_t max_attempts;
    int64_t created_at_us;
    int64_t due_at_us; /* HW_TIME_ABSENT: it waits for another job of its key */
    int64_t started_at_us;
    int64_t lease_until_us;
    bool suspect; /* a lease of it ran out */
    hw_str worker;
    hw_str key;
    hw_str dedup;
    hw_str correlation_id;
    bool has_causation;
    hw_uuid causation_id;
    hw_str headers;
    hw_str data;
    hw_str content_type;
    int64_t event_sequence; /* of the event it was made of by a binding, 0: pushed */
    hw_str event_type;      /* of that event, absent when it is gone from the log */
    hw_str event_stream;
    /* In the history. */
    int64_t position; /* 0: not there */
    int64_t finished_at_us;
    hw_str error;  /* the last one */
    hw_str result; /* what the handler left */
};

typedef int (*hw_job_fn)(void *ctx, const howdah_job *job);

typedef struct hw_claim {
    hw_str queue;
    hw_str worker; /* host, process and bus: for people */
    int64_t n;     /* 1 to HOWDAH_JOBS_MAX; fewer come when their payloads are some MB: then more is
                      true, and what is left is ready as before */
    int64_t lease_ms; /* 0: the queue's abandon_after */
} hw_claim;

/* What a claim says beside its jobs. */
typedef struct hw_claim_report {
    int64_t n;
    bool paused;
    bool more;           /* worth asking again at once */
    int64_t next_due_ms; /* until the next job is due or a lease may run out, -1: nothing is known
                                (a claim that got all it asked for may not have looked) */
    int64_t queue_id;    /* its bell rings as the type "queue.ID"; 0: not known, listen to all */
} hw_claim_report;

/* ---- acking */

/* A howdah_job_ack whose text was checked and cut to what is kept of it. */
typedef struct hw_ack {
    int64_t id;
    int64_t token;
    howdah_verdict verdict;
    hw_str text;      /* COMPLETE: the result; FAIL, RETRY: the error; may be absent */
    int64_t after_ms; /* RETRY: or HOWDAH_AFTER_BACKOFF; EXTEND: from now on, 0: as claimed */
} hw_ack;

/* ---- queues */

/* Texts live as long as the callback. */
typedef int (*hw_queue_fn)(void *ctx, const howdah_queue_info *info);

/* ---- bindings: events become jobs */

/*
 * As it is stored.  How far its router lags behind, and so the state of howdah_binding_info,
 * follows from the head of the log, which the bus knows.
 */
typedef struct hw_binding {
    hw_str queue;
    hw_str pattern;
    howdah_binding_key key;
    hw_str subscriber_id; /* of the router */
    int64_t created_at_us;
    /* Where the router is. */
    int64_t high;
    int64_t outstanding; /* numbers up to high that are still to come */
    hw_sub_status status;
    hw_str reason; /* why it is halted or paused, absent: none */
    hw_str owner;  /* absent: nobody */
} hw_binding;

typedef int (*hw_binding_fn)(void *ctx, const hw_binding *binding);

/* What a dead letter says of the state of its job. */
static inline howdah_job_state hw_job_state_by_dead_letter(hw_dead_letter_state state)
{
    return state == HW_DEAD_LETTER_REDRIVE    ? HOWDAH_JOB_PENDING
           : state == HW_DEAD_LETTER_REDRIVEN ? HOWDAH_JOB_COMPLETED
                                              : HOWDAH_JOB_FAILED;
}

/* Something that verify() found: so many of this queue. */
typedef int (*hw_wrong_fn)(void *ctx, hw_str queue, hw_str what, int64_t n);

typedef struct hw_queue_ops {
    /*
     * Stores the jobs in one transaction, ids ascending, and rings; makes the queue if there is
     * none.  ret_pushed has n entries.
     */
    int (*push)(struct hw_store *store, hw_str queue, const hw_push *jobs, size_t n,
                howdah_pushed *ret_pushed, howdah_error *reterr);
    /*
     * A worker's round trip, one transaction: n verdicts, of whatever queues (ret_acked has n
     * entries), then a claim (NULL: none) of up to claim->n jobs in the order (priority, due, id).
     * fn's non-zero result ends the handing over, not the lease.  A queue that does not exist is
     * empty.
     */
    int (*exchange)(struct hw_store *store, const hw_ack *acks, size_t n,
                    howdah_ack_outcome *ret_acked, const hw_claim *claim, hw_job_fn fn, void *ctx,
                    hw_claim_report *ret_report, howdah_error *reterr);
    /*
     * Gives leases of the queue back that ran out (I6), and removes history that is over its time,
     * at most a thousand of each.  ret_more: there is more to do.  claim() does the first by
     * itself, about once a second.
     */
    int (*maintain)(struct hw_store *store, hw_str queue, bool *ret_more, howdah_error *reterr);

    /* ---- operators */

    /* Makes the queue, or changes it.  Settings that are HOWDAH_ABSENT stay, or get the default. */
    int (*queue_put)(struct hw_store *store, hw_str queue, const howdah_queue_options *settings,
                     howdah_error *reterr);
    /* NOT_FOUND without the queue. */
    int (*queue_pause)(struct hw_store *store, hw_str queue, bool paused, howdah_error *reterr);
    /* One queue (NOT_FOUND), or all of them by name. */
    int (*queue_load)(struct hw_store *store, hw_str queue, hw_queue_fn fn, void *ctx,
                      howdah_error *reterr);
    int (*queue_list)(struct hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr);
    /* The same without counting history: completed and failed are HOWDAH_ABSENT. */
    int (*queue_summary)(struct hw_store *store, hw_queue_fn fn, void *ctx, howdah_error *reterr);
    /* Removes every job that is ready, and counts it as purged; a dead letter in state REDRIVE is
       discarded.  Leased ones go on. */
    int (*queue_purge)(struct hw_store *store, hw_str queue, int64_t *ret_n, howdah_error *reterr);
    /* NOT_FOUND without the job. */
    int (*job_load)(struct hw_store *store, int64_t id, hw_job_fn fn, void *ctx,
                    howdah_error *reterr);
    /* FAILED without a dead letter (one in state REDRIVE is discarded); CONFLICT while it is leased
       or when it is over. */
    int (*job_cancel)(struct hw_store *store, int64_t id, hw_str reason, howdah_error *reterr);
    /*
     * Due now; a FAILED one is ready again with all its attempts.  CONFLICT otherwise.  Its open
     * dead letter is in state REDRIVE until it has completed (REDRIVEN) or failed (DEAD): only then
     * the try is counted, with its attempts.
     */
    int (*job_rerun)(struct hw_store *store, int64_t id, howdah_error *reterr);
    /* The history, a page by its key (after) if need be.  A queue that does not exist has none. */
    int (*log)(struct hw_store *store, hw_str queue, const howdah_queue_history_options *options,
               hw_job_fn fn, void *ctx, howdah_error *reterr);
    /*
     * Of all open dead letters of the queue's jobs: REDRIVE, the job is ready again (a dead letter
     * that is in this state already stays so, and counts), or DISCARDED with a reason, a key that
     * is on hold is free.  A job whose dedup key another one has is left out.  ret_n: how many.
     * NOT_FOUND.
     */
    int (*dead_letters_set_state)(struct hw_store *store, hw_str queue, hw_dead_letter_state state,
                                  hw_str reason, int64_t *ret_n, howdah_error *reterr);

    /* Looks, at one moment, for what must not be (I1, I4): fn is called for each kind of it. */
    int (*verify)(struct hw_store *store, hw_wrong_fn fn, void *ctx, howdah_error *reterr);

    /* ---- bindings */

    /*
     * One transaction: the queue if there is none, the binding, and the router's subscription at
     * (high, outstanding).  Of the binding only queue, pattern, key and subscriber_id are looked
     * at.  One that is there with the same key stays as it is: ret_made is false then.  CONFLICT
     * with another key, or when a subscription of that name is there and no router's.
     */
    int (*bind)(struct hw_store *store, const hw_binding *binding, int64_t high,
                const hw_range *outstanding, size_t outstanding_n, bool *ret_made,
                howdah_error *reterr);
    /*
     * Removes the binding and the router's subscription, even if somebody owns it: what it routes
     * from then on is refused.  Jobs stay.  NOT_FOUND.
     */
    int (*unbind)(struct hw_store *store, hw_str queue, hw_str pattern, howdah_error *reterr);
    /* Those of one queue (absent: all), by queue and pattern.  fn's non-zero result ends it. */
    int (*bindings)(struct hw_store *store, hw_str queue, hw_binding_fn fn, void *ctx,
                    howdah_error *reterr);
    /*
     * One transaction: a job for each of these events, in the order given, due now, and the
     * router's checkpoint; rings.  The jobs refer to their event, whose payload they have; it does
     * not travel.  An event that is gone from the log makes no job.  LOST with another token than
     * the stored one: nothing is stored.  As with a checkpoint the commit need not wait for the
     * disk: a crash that undoes it undoes both, and the events are routed anew.
     */
    int (*route)(struct hw_store *store, const hw_checkpoint *checkpoint, hw_str queue,
                 howdah_binding_key key, const int64_t *sequences, size_t n, howdah_error *reterr);
} hw_queue_ops;

#endif
