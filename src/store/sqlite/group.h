/*
 * group.h - what the files of groups share; see 0007_groups.sql and engine/group.h.
 *
 *   I1  An operation is one write transaction: it loads the group, then the rows that it is about,
 *       changes copies of them by the rules of engine/group.h, and stores them.
 *   I2  Leases and acks do not wait for the disk: a power cut can undo them, and their events come
 *       again.  What ends an event for good (a dead letter) waits.
 */
#ifndef HW_STORE_SQLITE_GROUP_H
#define HW_STORE_SQLITE_GROUP_H

#include "engine/filter.h"
#include "engine/group.h"
#include "store/groups.h"
#include "store/sqlite/sqlite.h"

#define HW_NEVER_US INT64_MAX /* due: a person has to act */

/* A group as a transaction found it. */
typedef struct hw_sqlite_group {
    hw_sqlite *store;
    int64_t id;
    hw_str subscriber_id; /* the caller's */
    int64_t lanes;
    hw_group_rules rules;
    hw_filter filter; /* its texts are in texts */
    hw_sub_status status;
    int64_t high;
    int64_t deal;
    int64_t now_us; /* since boot */
    bool retries;   /* there are some */
    bool in_place;  /* false: the subscription was reset, and no member has followed */
    hw_buf texts;
} hw_sqlite_group;

/* What a token names. */
typedef struct hw_sqlite_token {
    bool retry; /* of a retry, else of a lot */
    int64_t number;
    int64_t fence;
    int64_t acked; /* of hw_batch_ref */
} hw_sqlite_token;

/* ---- group_rows.c */

/* Begins a transaction about a group.  NOT_FOUND; CONFLICT: the subscription is not shared. */
int hw_sqlite_group_enter(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id, bool synced,
                          howdah_error *reterr);
/* Loads it, without a transaction of its own. */
int hw_sqlite_group_load(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id,
                         howdah_error *reterr);
/* The same, and whether something is to be done about the group before its rows mean anything. */
int hw_sqlite_group_peek(hw_sqlite_group *g, hw_sqlite *store, hw_str subscriber_id,
                         bool *ret_stale, howdah_error *reterr);
/* Ends the transaction as hw_sqlite_leave() does. */
int hw_sqlite_group_leave(hw_sqlite_group *g, int s, howdah_error *reterr);
void hw_sqlite_group_done(hw_sqlite_group *g);

/* INVALID when it is none that fetch() has given out. */
int hw_sqlite_token_of(hw_str text, hw_sqlite_token *ret_token, howdah_error *reterr);
void hw_sqlite_put_token(char ret_text[HW_BATCH_TOKEN_SIZE], char kind, int64_t number,
                         int64_t fence);
/* A number that no lease had before, and that nobody can guess. */
int64_t hw_sqlite_new_fence(void);
int hw_sqlite_fail_stale(const hw_sqlite_group *g, howdah_error *reterr);

/* A lot with its list, which is freed with hw_sqlite_lot_done().  where: "lot = ?2" and so on. */
int hw_sqlite_load_lot(hw_sqlite_group *g, const char *where, int64_t parameter, hw_lot *ret_lot,
                       howdah_error *reterr);
void hw_sqlite_lot_done(hw_lot *lot);
/* Stores all of it but its list; with_list: the list, too.  member absent: as it is. */
int hw_sqlite_store_lot(hw_sqlite_group *g, const hw_lot *lot, hw_str member, bool with_list,
                        howdah_error *reterr);
int hw_sqlite_insert_lot(hw_sqlite_group *g, const hw_lot *lot, howdah_error *reterr);
int hw_sqlite_delete_lot(hw_sqlite_group *g, int64_t number, howdah_error *reterr);

/* A stuck stream, or an event that is tried again by itself. */
typedef struct hw_sqlite_retry {
    int64_t retry;
    hw_str stream; /* in its buffer; absent: nothing waits */
    int64_t sequence;
    int64_t upto;
    int64_t last;
    int64_t dead_letter; /* 0: none */
    int64_t token;
    int64_t due_us;
    int64_t until_us;
    int64_t attempts;
    int64_t taken;
    hw_buf text;
} hw_sqlite_retry;

/* HOWDAH_END: there is none.  where has one parameter, ?2. */
int hw_sqlite_load_retry(hw_sqlite_group *g, const char *where, const hw_sqlite_value *parameter,
                         hw_sqlite_retry *ret_retry, howdah_error *reterr);
void hw_sqlite_retry_done(hw_sqlite_retry *r);
/* member and error: NULL where they are absent. */
int hw_sqlite_store_retry(hw_sqlite_group *g, const hw_sqlite_retry *r, hw_str member, hw_str error,
                          howdah_error *reterr);
int hw_sqlite_insert_retry(hw_sqlite_group *g, const hw_sqlite_retry *r, hw_str error,
                           howdah_error *reterr);
int hw_sqlite_delete_retry(hw_sqlite_group *g, int64_t retry, howdah_error *reterr);

/* ---- group_deal.c */

/* Puts the next events into lots, about per_lane for each lane. */
int hw_sqlite_group_deal(hw_sqlite_group *g, int64_t per_lane, howdah_error *reterr);
/* Puts the group at a place, and forgets what was dealt. */
int hw_sqlite_group_place(hw_sqlite_group *g, int64_t high, const hw_range *outstanding, size_t n,
                          howdah_error *reterr);
/* The next part of a lot's list; see hw_lot_needs_list(). */
int hw_sqlite_list_more(hw_sqlite_group *g, hw_lot *lot, howdah_error *reterr);

/* ---- group_fail.c */

/* An event of a stream; 0: there is none. */
typedef struct hw_sqlite_next {
    int64_t sequence;
    int64_t dead_letter; /* it is this one already, and the stream is held there; 0: none */
    bool redrive;        /* of which a person wants another try */
    int64_t tries;       /* so many it had */
} hw_sqlite_next;

/* The first event of the stream after one number and up to another that concerns the group.  An
   event can be a dead letter while one before it is still to be tried: it is passed over, unless
   the stream has to wait for a person there (on_fail = hold). */
int hw_sqlite_next_of_stream(hw_sqlite_group *g, hw_str stream, int64_t after, int64_t upto,
                             hw_sqlite_next *ret_next, howdah_error *reterr);
/* The stuck stream is past this event: the next one is due, or held, or the stream is free again.
 */
int hw_sqlite_retry_on(hw_sqlite_group *g, hw_sqlite_retry *r, int64_t after, howdah_error *reterr);

typedef struct hw_sqlite_failure {
    int64_t sequence;
    hw_str stream; /* absent: events are in no order */
    int64_t upto;  /* what waits for it, of its batch */
    int64_t tries;
    hw_str error;
    int64_t after_ms; /* < 0: by the schedule */
} hw_sqlite_failure;

/* An event has failed; r is the row of its retries, NULL: it has none yet. */
int hw_sqlite_group_fail(hw_sqlite_group *g, const hw_sqlite_failure *f, hw_sqlite_retry *r,
                         hw_group_fate *ret_fate, howdah_error *reterr);

/* ---- group_ack.c */

/* Another try that a person asked for: the dead letter is as it was, with more attempts. */
int hw_sqlite_redrive_failed(hw_sqlite_group *g, hw_sqlite_retry *r, hw_str error,
                             hw_group_fate *ret_fate, howdah_error *reterr);
int hw_sqlite_lot_ack(hw_sqlite_group *g, hw_lot *lot, int64_t upto, howdah_error *reterr);
/* Acks by a token.  LOST. */
int hw_sqlite_token_ack(hw_sqlite_group *g, hw_str token, int64_t acked, int64_t upto,
                        howdah_error *reterr);
int hw_sqlite_group_ack(hw_store *base, const hw_batch_ref *batch, int64_t upto,
                        howdah_error *reterr);
int hw_sqlite_group_nack(hw_store *base, const hw_batch_ref *batch, int64_t sequence, hw_str error,
                         int64_t after_ms, hw_group_fate *ret_fate, howdah_error *reterr);
int hw_sqlite_group_extend(hw_store *base, const hw_batch_ref *batch, int64_t lease_ms,
                           howdah_error *reterr);
int hw_sqlite_group_release(hw_store *base, const hw_batch_ref *batch, howdah_error *reterr);
int hw_sqlite_group_commit(hw_store *base, const hw_batch_ref *batch, int64_t upto,
                           howdah_error *reterr);

/* ---- group_fetch.c */

int hw_sqlite_group_fetch(hw_store *base, const hw_group_take *take, hw_group_batch *ret_batch,
                          hw_group_outlook *ret_outlook, howdah_error *reterr);
/* One event with its payload into the page; HOWDAH_END: it is gone, or does not fit (page_full). */
int hw_sqlite_page_event(hw_sqlite_group *g, hw_sqlite_page *page, int64_t sequence, bool *ret_full,
                         howdah_error *reterr);

#endif
