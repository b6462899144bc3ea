/*
 * group.h - what becomes of the events that members of a group have: lots, leases, failures.
 *
 * Pure: it decides about copies of rows, which a store reads and writes.  On PostgreSQL the same is
 * done by sql/pg/functions/group_*.sql, for members in any language; 0007_groups.sql says how
 * groups work, and both are held to the same tests.
 *
 *   I1  A lot is a list of events of one lane.  Its first "pos" events are acked, "taken" after
 *       them are out in a batch, or were when a lease ran out.
 *   I2  A batch that is out is known by its token.  Whoever does not name it changes nothing.
 *   I3  The attempt is counted by the lease, before anything is handled.  What was out when a lease
 *       ran out is given out one by one from then on, up to "careful".
 *   I4  An event has max_retries tries after the first one.  With none, the try of a lost batch
 * does not count where several of its events were left: most of them were not begun.
 */
#ifndef HW_ENGINE_GROUP_H
#define HW_ENGINE_GROUP_H

#include <howdah/howdah.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

typedef struct hw_group_rules {
    bool by_stream; /* false: in no order */
    int64_t max_retries;
    int64_t retry_delay_ms;
    int64_t max_retry_delay_ms;
    howdah_on_fail on_fail;
} hw_group_rules;

typedef struct hw_lot {
    int64_t number; /* deal * lanes + lane */
    int64_t lo;     /* its first and last event */
    int64_t hi;
    int64_t upto;       /* the list has all of its events up to this one */
    int64_t at;         /* the last event that is acked, 0: none */
    int64_t last;       /* of the batch that is out, or was */
    int64_t token;      /* 0: none is out */
    int64_t until_us;   /* the end of the lease; 0: it is free */
    int64_t *events;    /* the list */
    int64_t n;          /* of it */
    int64_t pos, taken; /* I1 */
    int64_t attempts;   /* of the next event */
    int64_t careful;    /* I3 */
} hw_lot;

/* The lane of a stream; lanes is a power of two. */
int64_t hw_group_lane(hw_str stream, int64_t lanes);

/* Takes the next batch of at most max events (I3, I4). */
void hw_lot_lease(hw_lot *lot, const hw_group_rules *rules, int64_t max, int64_t token,
                  int64_t until_us);
/* The one event of the batch has ended the lease of all who had it, as often as it may be tried. */
bool hw_lot_is_spent(const hw_lot *lot, const hw_group_rules *rules);
/* The batch is shorter than was taken: only its first n events. */
void hw_lot_shorten(hw_lot *lot, int64_t n);
/* The events of the batch up to this number are handled. */
void hw_lot_ack(hw_lot *lot, const hw_group_rules *rules, int64_t upto);
/* Takes the i-th event of the batch out of it: it is somebody else's matter from now on. */
void hw_lot_take_out(hw_lot *lot, const hw_group_rules *rules, int64_t i);
/* Nothing of it is left: it can go. */
bool hw_lot_is_over(const hw_lot *lot);
/* The list is through, but not the lot: the next part of the list is to be made. */
bool hw_lot_needs_list(const hw_lot *lot);
/* It was not taken. */
void hw_lot_release(hw_lot *lot);

/* What becomes of an event that has failed for the "tries"th time. */
typedef enum hw_group_fate {
    HW_FATE_RETRY,  /* tried again later */
    HW_FATE_DEAD,   /* a dead letter, and its stream goes on */
    HW_FATE_HELD,   /* a dead letter, and its stream waits for a person */
    HW_FATE_HALTED, /* the subscription halts */
    HW_FATE_WAITS   /* an earlier event of its stream has failed: it comes after that one */
} hw_group_fate;

/* keyed: it has a stream that can wait. */
hw_group_fate hw_group_fate_of(const hw_group_rules *rules, int64_t tries, bool keyed);
int64_t hw_group_delay_ms(const hw_group_rules *rules, int64_t tries, uint32_t random);

#endif
