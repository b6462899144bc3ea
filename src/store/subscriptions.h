/*
 * subscriptions.h - the part of the store's contract that subscriptions need.
 *
 *   I1  Everything that moves a subscription carries the token of its owner and is refused with
 *       HOWDAH_LOST (nothing stored) when the token stored is another one.  Tokens only grow.
 *   I2  A checkpoint is stored whole (high, outstanding, anchor) or not at all, and never lowers
 *       high under the same token.
 *   I3  A dead letter, or a skip, and the checkpoint that moves past its number are one
 *       transaction.
 *   I4  Leases and ages are by the database's clock.
 *   I5  A checkpoint may be committed without waiting for the disk: it can be lost in a crash,
 *       as if it had not been written yet, but what it follows cannot.  Dead letters wait.  So
 *       does a checkpoint that says what stands still (and store_proven() with holes): later
 *       ones keep what is stored, and a pooler may have hidden the crash from their writer.
 *   I6  Reads and takes are not repaired by a silent reconnect: after a lost connection
 *       session() is another number, and locks and LISTEN are gone.
 *   I7  What an owner knows it has learnt from one log.  Everything that it stores names that
 *       log, and the event that its place stands on; the very statement that stores compares
 *       both with the log it meets, and is refused with HOWDAH_LOST when either is not there.  A
 *       connection that was made anew, or that a pooler led elsewhere, cannot put an old place
 *       into another log.  Nor into an older copy of this one: a place also says which stored
 *       place it follows.
 */
#ifndef HW_STORE_SUBSCRIPTIONS_H
#define HW_STORE_SUBSCRIPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"
#include "base/uuid.h"
#include "engine/filter.h"
#include "engine/hole_holders.h"
#include "engine/ranges.h"

struct hw_store;

#define HW_TIMELINE_SIZE 96

/* The last event that was seen at or below the checkpoint: tells another log, or a rewound one. */
typedef struct hw_anchor {
    int64_t sequence; /* 0: none was seen yet */
    hw_uuid id;
} hw_anchor;

/* What an owner shows to prove that it is the owner (I1, I7). */
typedef struct hw_hold {
    hw_str subscriber_id;
    int64_t token;
    hw_str log; /* hw_sub_row.log of its take(); absent: any log will do */
} hw_hold;

typedef struct hw_checkpoint {
    hw_str subscriber_id;
    int64_t token;
    hw_str log; /* as in hw_hold */
    int64_t high;
    const hw_range *outstanding;
    size_t outstanding_n;
    /* Of these, too, those up to high are outstanding: numbers that stand still
       (engine/still_holes.h).  What is above high says nothing.  keeps_still: as they are
       stored. */
    const hw_range *still;
    size_t still_n;
    bool keeps_still;
    hw_anchor anchor;
    int64_t follows; /* hw_sub_row.moves + 1 of the place that is stored; 0: any */
} hw_checkpoint;

/* What is stored.  howdah_subscription_state, which users see, is made of it: a subscription that
   is active waits, is behind or is live, depending on its owner and the head of the log. */
typedef enum hw_sub_status {
    HW_SUB_ACTIVE,
    HW_SUB_PAUSED,
    HW_SUB_HALTED /* fail=closed, or an anchor that does not fit: waits for release or repair */
} hw_sub_status;

#define HW_LAG_RANGES_MAX 1000

/* A subscription as it is stored.  Texts and outstanding live as long as the call's callback, or in
   buf: see each operation. */
typedef struct hw_sub_row {
    hw_str subscriber_id;
    hw_filter filter;
    int64_t high;
    const hw_range *outstanding;
    size_t outstanding_n;
    const hw_range *still; /* see hw_checkpoint */
    size_t still_n;
    int64_t moves; /* how many places were stored */
    hw_anchor anchor;
    hw_str timeline; /* the log of the last checkpoint, "" before the first */
    hw_str log;      /* take(): the one that it was taken from; else absent */
    int64_t token;
    hw_str owner; /* absent: nobody */
    bool held;    /* a lock or a lease that has not run out is there now */
    hw_sub_status status;
    hw_str reason;            /* why it is halted or paused, absent: none */
    int64_t suspect_sequence; /* an event whose handler was begun after an unclean end, 0: none */
    int64_t suspect_attempts; /* how often it was begun */
    int64_t created_at_us;
    int64_t updated_at_us;
    int64_t dead_letters; /* not resolved yet */
    int64_t skips;        /* not resolved yet */
    bool shared;          /* members of a group take its events: high and outstanding are the
                             group's, and nobody owns it */
    int64_t lag_age_ms;   /* load(), list(): how long the oldest event above high, outstanding or in
                             still has been there, by the store's clock; HOWDAH_ABSENT: none is.  Of
                             more than HW_LAG_RANGES_MAX ranges only the first are looked into */
} hw_sub_row;

typedef struct hw_take {
    hw_str subscriber_id;
    howdah_instance instance;
    hw_str owner; /* host, process and bus: for people, and to recognise its own row */
    int64_t lease_ms;
} hw_take;

/* What the owner hears when it asks. */
typedef struct hw_sub_news {
    bool lost; /* the token is another one, or the row is gone */
    hw_sub_status status;
    bool redrives; /* dead letters of it wait for another try */
} hw_sub_news;

typedef enum hw_dead_letter_state {
    HW_DEAD_LETTER_DEAD,
    HW_DEAD_LETTER_REDRIVE, /* asked for: the owner tries it again, or the job is ready or leased */
    HW_DEAD_LETTER_REDRIVEN, /* handled on another try */
    HW_DEAD_LETTER_DISCARDED
} hw_dead_letter_state;

/* Their names, as they are stored and shown; false: it is none of them. */
const char *hw_dead_letter_state_name(hw_dead_letter_state state);
bool hw_dead_letter_state_of(hw_str name, hw_dead_letter_state *ret_state);

/* What howdah_dead_letters_options says, and what only owners ask for. */
typedef struct hw_dead_letter_query {
    hw_str subscriber_id; /* only those of this subscription; absent: all */
    hw_str queue;         /* only those of this queue's jobs; absent: all */
    int64_t id;           /* 0: any */
    int64_t after_id;     /* keyset */
    int64_t limit;        /* 0: all */
    bool resolved;        /* with the resolved ones */
    bool redrives;        /* only those that wait for another try by a subscription's owner */
} hw_dead_letter_query;

/* A session that keeps one of our holes open: for people. */
typedef struct hw_blocker {
    hw_str name; /* "pid 4711 (billing)", "prepared gid" */
    int64_t age_ms;
    hw_str query; /* may be absent */
} hw_blocker;

typedef int (*hw_sub_row_fn)(void *ctx, const hw_sub_row *row);
typedef int (*hw_dead_letter_fn)(void *ctx, const howdah_dead_letter *dead_letter);
typedef int (*hw_skip_fn)(void *ctx, const howdah_skip *skip);
typedef int (*hw_range_fn)(void *ctx, hw_range range);
typedef int (*hw_blocker_fn)(void *ctx, const hw_blocker *blocker);

typedef struct hw_sub_ops {
    /* ---- the frontier */

    /*
     * How many numbers were drawn, and then, by a later statement, who holds the lock of the log's
     * sequence (engine/hole_holders.h): each once, in an array that the caller frees with
     * hw_free().  HOWDAH_END when that cannot be told (on a standby, whose holders are on the
     * primary).  A store whose numbers appear in order answers INT64_MAX and none.
     */
    int (*holders)(struct hw_store *store, int64_t *ret_drawn, hw_holder **ret_holders,
                   size_t *ret_n, howdah_error *reterr);
    /*
     * What is known of the log, no matter which process has proven it: each number up to *ret_upto
     * is visible, dead, or in ret_holes.  0 and nothing: not known.
     */
    int (*proven)(struct hw_store *store, int64_t *ret_upto, hw_ranges *ret_holes,
                  howdah_error *reterr);
    /*
     * Stores the same, unless more is known already, this is another log, or top is not in it.
     * holes NULL: as they are stored; then it need not wait for the disk (I5).
     */
    int (*store_proven)(struct hw_store *store, hw_str log, const hw_anchor *top, int64_t upto,
                        const hw_ranges *holes, howdah_error *reterr);
    /* Calls fn for each range of numbers within first..last that has no visible row, ascending. */
    int (*gaps)(struct hw_store *store, int64_t first, int64_t last, hw_range_fn fn, void *ctx,
                howdah_error *reterr);
    /* The sessions that holders() means, oldest first. */
    int (*blockers)(struct hw_store *store, hw_blocker_fn fn, void *ctx, howdah_error *reterr);
    /*
     * Which log this is and on which line of its history: cluster and timeline, or bus and file.
     * Changes with a fail-over or a restore.
     */
    int (*timeline)(struct hw_store *store, char ret_text[HW_TIMELINE_SIZE], howdah_error *reterr);
    /*
     * Whether the log still fits: HOWDAH_OK when the event at anchor->sequence has anchor->id (or
     * sequence is 0) and high is not above all numbers drawn; HOWDAH_NOT_FOUND when there is no
     * such event or another one; the message says which.
     */
    int (*verify)(struct hw_store *store, const hw_anchor *anchor, int64_t high,
                  howdah_error *reterr);

    /* ---- the rows */

    /*
     * Makes the row if there is none, at (high, outstanding); otherwise only its filter is renewed,
     * unless it is shared.  ret_created may be NULL.
     */
    int (*create)(struct hw_store *store, hw_str subscriber_id, const hw_filter *filter,
                  int64_t high, const hw_range *outstanding, size_t outstanding_n,
                  bool *ret_created, howdah_error *reterr);
    /* One row (NOT_FOUND), or all of them by name; fn's non-zero result ends the walk. */
    int (*load)(struct hw_store *store, hw_str subscriber_id, hw_sub_row_fn fn, void *ctx,
                howdah_error *reterr);
    int (*list)(struct hw_store *store, hw_sub_row_fn fn, void *ctx, howdah_error *reterr);
    /*
     * Tries to become the owner, without waiting: HOWDAH_OK, a token greater than any before, and
     * fn called with the row as it was before (its owner still there: it did not end cleanly) but
     * with the new token; HOWDAH_END when somebody else owns it; NOT_FOUND without the row.  On a
     * server in recovery: READ_ONLY.  A row whose owner has the same text as the taker is its own:
     * it is taken again, after an outcome that nobody heard of, without waiting for a lease.
     */
    int (*take)(struct hw_store *store, const hw_take *take, hw_sub_row_fn fn, void *ctx,
                howdah_error *reterr);
    /* Gives it up cleanly, and rings.  A token that is not ours changes nothing and is no error. */
    int (*release)(struct hw_store *store, const hw_hold *hold, howdah_instance instance,
                   howdah_error *reterr);
    /*
     * Stores n checkpoints in one statement; renews leases by lease_ms where lease_ms > 0 for
     * those that have one.  ret_news has n entries.  A lost one does not keep the others back, nor
     * does one that would lower high, which is not stored and not lost; high may go back when the
     * row's last checkpoint is of another log.
     */
    int (*checkpoint)(struct hw_store *store, const hw_checkpoint *checkpoints, size_t n,
                      int64_t lease_ms, hw_sub_news *ret_news, howdah_error *reterr);
    /* The same without moving anything: renews, and asks.  Only what a hold says is looked at. */
    int (*poll)(struct hw_store *store, const hw_checkpoint *subs, size_t n, int64_t lease_ms,
                hw_sub_news *ret_news, howdah_error *reterr);
    /* Before a suspect's handler runs: this event was begun so many times.  0: none any more. */
    int (*suspect)(struct hw_store *store, const hw_hold *hold, int64_t sequence, int64_t attempts,
                   howdah_error *reterr);
    /* By the owner (token > 0) or by an operator (token 0).  NOT_FOUND without the row. */
    int (*set_status)(struct hw_store *store, const hw_hold *hold, hw_sub_status status,
                      hw_str reason, howdah_error *reterr);
    /* Puts it at (high, outstanding), forgets the anchor, gives it a new token, so that its owner
       starts anew, and rings. */
    int (*reset)(struct hw_store *store, hw_str subscriber_id, int64_t high,
                 const hw_range *outstanding, size_t outstanding_n, howdah_error *reterr);
    /*
     * Removes row and skips; dead letters stay.  CONFLICT while somebody holds it (which SINGLE
     * does not).  Tokens do not start again when the row is made anew.
     */
    int (*remove)(struct hw_store *store, hw_str subscriber_id, howdah_error *reterr);

    /* ---- dead letters and skips */

    /*
     * One transaction: the dead letter (a second one of the same subscriber and event renews the
     * first) and the checkpoint.
     */
    int (*dead_letter)(struct hw_store *store, const hw_checkpoint *checkpoint,
                       const howdah_event *event, hw_str error, int64_t attempts, int64_t *ret_id,
                       howdah_error *reterr);
    /*
     * Dead letters of subscriptions and of jobs, by id.  A role that may not look at jobs gets
     * those of subscriptions only, unless a queue is named (DENIED).
     */
    int (*dead_letters)(struct hw_store *store, const hw_dead_letter_query *query,
                        hw_dead_letter_fn fn, void *ctx, howdah_error *reterr);
    /*
     * By an operator: asks for another try, or discards with a reason.  Of ids (n > 0) or of all
     * open ones of a subscriber (n 0; absent: of all, those of jobs included; for those of one
     * queue see hw_queue_ops).  ret_n: how many.  Resolved ones are left as they are.  So are those
     * of jobs when the role has no right on jobs, or when the job cannot be tried again because
     * another one has its dedup key.  Rings.
     */
    int (*dead_letters_set_state)(struct hw_store *store, const int64_t *ids, size_t n,
                                  hw_str subscriber_id, hw_dead_letter_state state, hw_str reason,
                                  int64_t *ret_n, howdah_error *reterr);
    /*
     * Another try of the owner: DEAD with the error, before it and when it fails, or REDRIVEN.
     * The first of these for a dead letter that waits for its try counts it: attempts + 1.
     */
    int (*redrive_end)(struct hw_store *store, const hw_hold *hold, int64_t id,
                       hw_dead_letter_state state, hw_str error, howdah_error *reterr);
    int (*skip)(struct hw_store *store, const hw_checkpoint *checkpoint, hw_range range,
                int64_t age_ms, hw_str reason, howdah_error *reterr);
    int (*skips)(struct hw_store *store, hw_str subscriber_id, bool resolved, hw_skip_fn fn,
                 void *ctx, howdah_error *reterr);
    int (*skip_resolve)(struct hw_store *store, int64_t id, hw_str resolution,
                        howdah_error *reterr);

    /* ---- the handler's transaction, on a store handle of its own */

    /* LOST when this session's log is another one: then no transaction was begun. */
    int (*begin)(struct hw_store *store, hw_str log, howdah_error *reterr);
    /* The PGconn or sqlite3 of the transaction. */
    void *(*handle)(struct hw_store *store);
    /*
     * Stores the checkpoint inside the transaction, token checked, and commits: HOWDAH_OK; LOST
     * and rolled back; an error, rolled back or (OUTCOME_UNKNOWN) one of the two.
     */
    int (*commit)(struct hw_store *store, const hw_checkpoint *checkpoint, howdah_error *reterr);
    void (*rollback)(struct hw_store *store);

    /* ---- the bell */

    /*
     * Changes with every new connection, and whenever an answer came from another log than the one
     * before; 0 before the first.  Connects if need be.
     */
    int (*session)(struct hw_store *store, uint64_t *ret_session, howdah_error *reterr);
    /*
     * After rows were read: makes sure that session() tells if they came from another log.  A store
     * asks its server only where a session can change servers (behind a pooler): which log it is,
     * how many numbers were drawn, and whether top is still there (sequence 0: none).
     */
    int (*confirm)(struct hw_store *store, const hw_anchor *top, howdah_error *reterr);
    /*
     * Listens for events of these types (general: for all), instead of what it listened to
     * before.  HOWDAH_END when this session cannot hear anything: poll then.
     */
    int (*listen)(struct hw_store *store, bool general, const hw_str *types, size_t types_n,
                  howdah_error *reterr);
    /* Says that somebody is about to sleep.  Look once more afterwards. */
    int (*arm)(struct hw_store *store, howdah_error *reterr);
    /* Wakes those that sleep, if anybody has armed the bell. */
    int (*ring)(struct hw_store *store, const hw_str *types, size_t types_n, howdah_error *reterr);
    /*
     * Sleeps until the bell rings, the connection says something, or ms are over: HOWDAH_OK when
     * it was woken, HOWDAH_END when the time is over, INTERRUPTED.
     */
    int (*wait)(struct hw_store *store, int64_t ms, howdah_error *reterr);
    /* A descriptor that becomes readable when wait() would return at once; -1: none. */
    int (*fd)(struct hw_store *store);
} hw_sub_ops;

#endif
