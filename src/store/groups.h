/*
 * groups.h - the part of the store's contract that is about groups: subscriptions that many members
 * share.  See store.h for what holds of every operation; 0007_groups.sql of each store says how it
 * is kept.
 *
 *   I1  Every committed event that matches is given out at least once.  Events of one stream are
 *       given out in order, and one batch of a stream at a time (key = none: in no order).
 *   I2  A batch is its member's until its lease ends, by the store's clock.  After that its events
 *       may be another's: the token is stale from the moment when they are given out again, and an
 *       operation that names a stale token changes nothing and says LOST.
 *   I3  An event that has failed keeps the later ones of its stream waiting, and nobody else.
 *   I4  A lost answer to fetch() costs the lease's time, a lost answer to ack() nothing: a second
 *       ack says LOST, and what was acked does not come again.
 */
#ifndef HW_STORE_GROUPS_H
#define HW_STORE_GROUPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/group.h"
#include "store/subscriptions.h"

/* A letter, two numbers of at most 18 digits, a hyphen and a NUL. */
#define HW_BATCH_TOKEN_SIZE 40

typedef struct hw_group_take {
    hw_str subscriber_id;
    int64_t max_events; /* 1 to HOWDAH_BATCH_MAX */
    hw_str member;      /* a name for people; absent: none */
    int64_t lease_ms;
    hw_str acked; /* the token of a batch that is acked first; absent: none */
} hw_group_take;

/* What a member has. */
typedef struct hw_group_batch {
    char token[HW_BATCH_TOKEN_SIZE];
    int64_t attempt;            /* 1 for the first one */
    const howdah_event *events; /* by number; they live until done() */
    size_t n;
    void *memory;                               /* the store's, */
    void (*done)(struct hw_group_batch *batch); /* and who frees it; before the store is closed */
} hw_group_batch;

/*
 * Whether a nack ends the batch with this token: its events are of one stream that is stuck, so
 * those after the one that has failed wait for it.
 */
static inline bool hw_batch_ends_with_nack(const char *token)
{
    return token[0] == 'r';
}

/* Why there is nothing to do, and for how long. */
typedef struct hw_group_outlook {
    hw_sub_status status;
    int64_t due_ms; /* until a retry is due or a lease ends; -1: nobody knows of any */
} hw_group_outlook;

/* A batch, for those who have only its token. */
typedef struct hw_batch_ref {
    hw_str subscriber_id;
    hw_str token;
} hw_batch_ref;

typedef int (*hw_member_fn)(void *ctx, const howdah_member_info *info);

typedef struct hw_group_ops {
    /*
     * Makes the group if there is none: of a subscription that nobody runs, at its place, or of a
     * new one, at options->start.  One that exists is left as it is, and its filter goes to fn:
     * ret_created is false then.  CONFLICT while a process runs the subscription by itself.
     */
    int (*create)(struct hw_store *store, const howdah_member_options *options, bool *ret_created,
                  void (*fn)(void *ctx, const hw_filter *filter), void *ctx, howdah_error *reterr);
    /*
     * The next batch: HOWDAH_OK; HOWDAH_END when there is nothing for this member now, and
     * ret_outlook says why.  The batch before is acked first if the take says so: LOST when that
     * token is stale, and then nothing was taken.  A batch has as many bytes as a page, or one
     * event.  NOT_FOUND, CONFLICT (it is not shared).
     */
    int (*fetch)(struct hw_store *store, const hw_group_take *take, hw_group_batch *ret_batch,
                 hw_group_outlook *ret_outlook, howdah_error *reterr);
    /* upto: the last event that is handled; INT64_MAX: all of them.  LOST. */
    int (*ack)(struct hw_store *store, const hw_batch_ref *batch, int64_t upto,
               howdah_error *reterr);
    /* after_ms < 0: by the schedule.  INVALID when the event is not in the batch; LOST.  What was
       before the event in a batch that ends by it is handled. */
    int (*nack)(struct hw_store *store, const hw_batch_ref *batch, int64_t sequence, hw_str error,
                int64_t after_ms, hw_group_fate *ret_fate, howdah_error *reterr);
    int (*extend)(struct hw_store *store, const hw_batch_ref *batch, int64_t lease_ms,
                  howdah_error *reterr);
    int (*release)(struct hw_store *store, const hw_batch_ref *batch, howdah_error *reterr);
    /* Acks inside the transaction that begin() of hw_sub_ops has begun, and commits as commit()
       does: LOST, and rolled back, when the token is stale. */
    int (*commit)(struct hw_store *store, const hw_batch_ref *batch, int64_t upto,
                  howdah_error *reterr);
    /* The members that have batches, by name. */
    int (*members)(struct hw_store *store, hw_str subscriber_id, hw_member_fn fn, void *ctx,
                   howdah_error *reterr);
    /* It becomes a subscription of one process, at the same place.  CONFLICT while members have
       batches. */
    int (*unshare)(struct hw_store *store, hw_str subscriber_id, howdah_error *reterr);
    /* With all it had but its dead letters.  CONFLICT while members have batches. */
    int (*remove)(struct hw_store *store, hw_str subscriber_id, howdah_error *reterr);
} hw_group_ops;

#endif
