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

typedef struct hw_group_batch hw_group_batch;

typedef struct hw_group_take {
    hw_str subscriber_id;
    int64_t max_events; /* 1 to HOWDAH_BATCH_MAX */
    hw_str member;      /* a name for people; absent: none */
    int64_t lease_ms;
    hw_str acked;                /* the token of a batch that is acked first; absent: none */
    const hw_group_batch *prior; /* that batch, if it is still there: a store may have read ahead */
    int64_t process; /* a number that all members of a process have that reserves; 0: none */
} hw_group_take;

/* What a member has. */
struct hw_group_batch {
    char token[HW_BATCH_TOKEN_SIZE];
    int64_t attempt;            /* 1 for the first one */
    const howdah_event *events; /* by number; they live until done() */
    size_t n;
    void *memory;                               /* the store's, */
    void (*done)(struct hw_group_batch *batch); /* and who frees it; before the store is closed */
};

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
    bool acked;     /* also with an error: the batch before is acked, as far as is known */
} hw_group_outlook;

/*
 * A group that one process has reserved, for its many handlers: it takes ranges of the log, and
 * keeps streams in order by itself (engine/range_board.h), until others want to take part.
 */
typedef struct hw_reservation {
    hw_str subscriber_id;
    int64_t token;
    int64_t fresh;   /* for take: its token with the next range; for end: one that may have become
                        that; 0: none */
    int64_t process; /* as it was reserved */
    int64_t lease_ms;
} hw_reservation;

typedef enum hw_range_state {
    HW_RANGE_TAKEN,
    HW_RANGE_NONE, /* there is nothing */
    HW_RANGE_WAIT, /* batches of before have to be taken first */
    HW_RANGE_OVER /* end the reservation: others want to take part, or an event has to be retried */
} hw_range_state;

#define HW_RANGE_PARTS 64

/* Numbers that are the process's to handle, by engine/range_board.h's order of lots. */
typedef struct hw_group_range {
    hw_range_state state;
    int64_t lot;
    int64_t token; /* the store's that has taken it; another one does not know it */
    hw_range parts[HW_RANGE_PARTS]; /* what comes in between comes later */
    size_t parts_n;
} hw_group_range;

/* How things stand when a reservation ends. */
typedef struct hw_group_end {
    int64_t acked;       /* all ranges up to this lot are handled; 0: none */
    int64_t upto;        /* of the range after them, the numbers up to this one; 0: none */
    const int64_t *done; /* events after them that are handled, too */
    size_t done_n;
    const int64_t *busy; /* events that are being handled: each becomes a batch of its own */
    size_t busy_n;
} hw_group_end;

typedef struct hw_reserve_ops {
    /* The token is drawn by the caller, at random: it knows it even when the answer is lost.  OK;
       END: not now. */
    int (*reserve)(struct hw_store *store, const hw_group_take *as, int64_t token,
                   howdah_error *reterr);
    /* Acks all ranges up to a lot (0: none), and takes the next one, of so many numbers at most.
       With it the reservation's token changes to the fresh one: a store that has forgotten a range
       says so.  LOST. */
    int (*take)(struct hw_store *store, const hw_reservation *reservation, int64_t acked,
                int64_t numbers, hw_group_range *ret_range, howdah_error *reterr);
    /* The events of a range, without those in its gaps; of other types some may be there as well.
       END: they are more than a batch may have.  LOST: the store does not know the range. */
    int (*read)(struct hw_store *store, const hw_reservation *reservation,
                const hw_group_range *range, const hw_filter *filter, hw_group_batch *ret_batch,
                howdah_error *reterr);
    /* ret_over: it has to end.  LOST. */
    int (*extend)(struct hw_store *store, const hw_reservation *reservation, bool *ret_over,
                  howdah_error *reterr);
    /* fn gets the token of each batch that was made for an event that is busy.  LOST. */
    int (*end)(struct hw_store *store, const hw_reservation *reservation, const hw_group_end *end,
               void (*fn)(void *ctx, int64_t sequence, const char *token), void *ctx,
               howdah_error *reterr);
} hw_reserve_ops;

/* A batch, for those who have only its token. */
typedef struct hw_batch_ref {
    hw_str subscriber_id;
    hw_str token;
    /* The last event of it that is acked already, with its effects; 0: none, or no matter.  A store
       that does not know of that has lost the effects, too: LOST, for ack, nack and commit. */
    int64_t acked;
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
    const hw_reserve_ops *reservations; /* NULL: this store has none */
    /* With all it had but its dead letters.  CONFLICT while members have batches. */
    int (*remove)(struct hw_store *store, hw_str subscriber_id, howdah_error *reterr);
} hw_group_ops;

#endif
