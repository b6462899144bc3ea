/*
 * group.h - what a bus has because of groups: its members, and how they wait.
 *
 *   I1  A member keeps nothing in memory that a batch depends on: who has which events is the
 *       store's to know, and every call about a batch names its token.  So a member may die, change
 *       servers or be replaced at any moment.
 *   I2  A wait listens, arms the bell, looks once more and then sleeps, never longer than the poll
 *       interval or the time until something is due.  A bell that is not heard costs a pause.
 */
#ifndef HW_BUS_GROUP_GROUP_H
#define HW_BUS_GROUP_GROUP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bus/bus.h"
#include "bus/log/upcast.h"
#include "bus/pool.h"
#include "engine/pause.h"

typedef struct hw_groups {
    howdah_member *members;
    howdah_member *listener; /* whose events the session listens for; NULL: nobody's */
    uint64_t session;        /* in which it does */
    bool cannot_listen;      /* this session cannot hear the bell */
    hw_pause pause;
    int64_t due_ms; /* as the last fetch in vain said; -1: nothing is known of */
} hw_groups;

struct howdah_member {
    howdah_bus *bus;
    howdah_member_options options; /* its texts are in texts */
    char *texts;
    howdah_member *next;
};

struct howdah_batch {
    howdah_bus *bus;
    char *subscriber_id;
    int64_t lease_ms;
    hw_group_batch held;
    const howdah_event **events;     /* in their newest form */
    struct hw_upcast_event *upcasts; /* NULL: none was needed */
    size_t n;
    bool over; /* a nack has ended it */
};

static inline const hw_group_ops *hw_group_ops_of(const howdah_bus *bus)
{
    return bus->store->ops->groups;
}

/* Checks the bus for a call about groups; bus->groups is made when first needed. */
int hw_groups_of(howdah_bus *bus, const char *call, howdah_error *reterr);
void hw_groups_close(howdah_bus *bus);
/* Makes the group if there is none; CONFLICT when it has another filter. */
int hw_group_join(howdah_bus *bus, const howdah_member_options *options, bool *ret_created,
                  howdah_error *reterr);
int hw_member_check(const howdah_member_options *options, howdah_error *reterr);

/* ---- shared.c: handlers */

/* One member that a shared subscription with a handler runs. */
typedef struct hw_slot {
    struct hw_shared *shared;
    hw_pool_item item;
    /* The serving thread's: */
    bool busy;   /* it is handed out */
    bool spread; /* it has found something, and another one may look */
    /* Of both, under the lock: the batch in hand ("": none), and when its lease was asked for. */
    char token[HW_BATCH_TOKEN_SIZE];
    int64_t leased_ms;
    /* Whoever has it: */
    hw_upcast_event upcast;
    int64_t delivered;
    bool found;
    int failed;
    howdah_error error;
    hw_group_outlook outlook;
    /* What an interrupt kept from being stored ("": nothing): a batch that is handled up to here.
     */
    char left_token[HW_BATCH_TOKEN_SIZE];
    int64_t left_done;
    /* reserved.c: the event that became a batch of its own; 0: none. */
    int64_t declared;
} hw_slot;

/* ---- reserved.c: the group is this process's alone */

typedef struct hw_reserved hw_reserved;

typedef struct hw_shared {
    howdah_subscription *sub;
    hw_slot *slots;
    size_t slots_n;
    pthread_mutex_t lock;
    atomic_bool spread;
    hw_reserved *reserved; /* NULL: the store has no reservations, or handlers have transactions */
    char member[HW_SIGNATURE_SIZE];
    int64_t process; /* as which it reserves, at random */
    /* The serving thread's: */
    bool look;          /* a slot has to look at once, */
    int64_t look_us;    /* or at this time */
    int64_t trouble_ms; /* but not before this one */
    unsigned troubles;
    hw_sub_status status; /* as the last look in vain found it */
} hw_shared;

int hw_shared_new(howdah_subscription *sub, howdah_error *reterr);
void hw_shared_free(hw_shared *shared);
/* A worker has found a batch. */
void hw_shared_spread(hw_shared *shared);
/* Each has to look again: the bell rang, or was armed just now. */
void hw_shared_wake(const howdah_bus *bus);
/* All of them look for themselves, as reserved groups do: a bell would ring for nothing. */
bool hw_shared_is_awake(const howdah_bus *bus);
/* When the first of them has to be looked at. */
int64_t hw_shared_next_us(howdah_bus *bus, int64_t now_us);
/* Stores what an interrupt has left; nothing of it runs. */
int hw_shared_let_go(hw_shared *shared, howdah_error *reterr);
/* Starts what can be started, extends what runs. */
int hw_shared_pass(howdah_bus *bus, howdah_error *reterr);
/* The batch in hand ("": none), whose lease the serving thread extends. */
void hw_slot_hold(hw_slot *slot, const char *token, int64_t since_ms);
/* What could not be stored of a batch is, later: it is handled up to this event. */
void hw_slot_leave(hw_slot *slot, const char *token, int64_t done, int status,
                   const howdah_error *err);
/* What the handler makes of the event; delivery says why not. */
int hw_slot_call(hw_slot *slot, const howdah_event *seen, howdah_delivery *delivery);
/* on_dead_letter hears of it if it became one. */
void hw_slot_tell(const hw_slot *slot, const howdah_event *event, hw_group_fate fate,
                  const char *message, int attempt);
void hw_slot_halt(const hw_slot *slot, hw_store *io, const char *message);
bool hw_slot_is_to_end(const hw_slot *slot);
/* In a worker's thread, or in the serving one. */
void hw_slot_run(hw_slot *slot, hw_store *io, hw_store *tx, bool again);
int hw_slot_end(hw_slot *slot, howdah_error *reterr);

int hw_reserved_new(hw_shared *shared, howdah_error *reterr);
void hw_reserved_free(hw_reserved *v);
/* The token of the reservation; 0: there is none. */
int64_t hw_reserved_token(hw_reserved *v);
/* After a batch of n events, each of which took so long: reserves the group when that seems worth
   it. */
void hw_reserved_consider(hw_reserved *v, hw_store *io, size_t n, int64_t event_us);
/* In a worker's thread: until the reservation is over, there are lots to be taken first, or the
   slot has failed. */
void hw_reserved_run(hw_slot *slot, hw_store *io);
/* The serving thread, while handlers run. */
void hw_reserved_extend(hw_reserved *v, hw_store *store);
/* Ends the reservation; no thread runs. */
int hw_reserved_let_go(hw_reserved *v, hw_store *store, howdah_error *reterr);

/* ---- batch.c */

/*
 * The events in their newest form.  One that cannot be brought into it has failed, and waits with
 * the later ones of its stream.  HOWDAH_END: none is left, and the batch is acked and freed.
 */
int hw_batch_new(howdah_member *member, hw_group_batch *held, howdah_batch **ret_batch,
                 howdah_error *reterr);

/* ---- wakeup.c */

void hw_group_bell_init(hw_groups *groups);
/* Something else has told the session what to listen for. */
void hw_group_bell_lost(howdah_bus *bus);
/* A batch was taken. */
void hw_group_bell_heard(howdah_bus *bus);
/* Listens and arms; true when that was not so before: look once more before sleeping. */
bool hw_group_bell_arm(howdah_member *member);
/* Sleeps up to ms, less when something may be due.  HOWDAH_OK, or INTERRUPTED. */
int hw_group_bell_sleep(howdah_bus *bus, int64_t ms, howdah_error *reterr);
/* For a caller's own loop: how long it would sleep now. */
int64_t hw_group_bell_timeout_ms(howdah_bus *bus);

#endif
