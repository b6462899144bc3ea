/*
 * delivery.h - the state of one subscription: what was handled, what is still outstanding to it,
 * what is to be done next.  Pure: rows, results, time and randomness come from the caller.
 *
 * (high, missing, pending) say all: every number up to high has been handled or does not concern
 * the subscription, unless it is
 *     missing   no row was seen for it, and it may still appear (a hole of the frontier), or
 *     pending   its row was seen and accepted, and its handler has not succeeded yet: it is in
 *               hand, waits for its retry, or waits behind an earlier event of its stream.
 * outstanding = missing + pending is what the checkpoint stores beside high.
 *
 *   I1  A number is accepted at most once: only from above high or out of missing.
 *   I2  A number leaves pending only by hw_delivery_handled() or hw_delivery_dead_lettered(), and
 *       missing only by its row or by a proof (pass) or, where the policy says so, by a recorded
 *       skip.  So a checkpoint may lag, it never leads.
 *   I3  Events of one stream come to the handler in the order of their numbers: behind a pending
 *       event every later event of its stream waits (ordering AHEAD), or everything (STRICT).
 *   I4  What is outstanding is bounded.  At outstanding_max ranges nothing is accepted that would
 *       add one (but for one event at the edge of a missing range, which is the way out of it); at
 *       pending_max events that are not handled no further one is accepted.  What is outstanding
 *       already may fall into more ranges: a gap turns out to be several holes, the middle one of
 *       three is handled.  So there are never more than the frontier has holes, plus
 *       outstanding_max, plus pending_max.
 *   I5  A page's rows are offered in ascending order; page and pass belong to one snapshot.
 *   I6  Whatever can fail for want of memory fails before it changes anything, and once DELIVER is
 *       the answer, nothing that may follow it fails: a handler's success is never forgotten.
 *
 * How a caller drives it, one page at a time:
 *     read      rows of hw_delivery_wanted(), up to a known frontier, in one snapshot
 *     offer     each row, in order.  HW_OFFER_DELIVER: run the handler, then handled / failed.
 *               HW_OFFER_WAIT: pass up to the number before it, and offer it once more (the gap
 *               before it may have been no hole); WAIT again: the page ends there
 *     pass      the page is done: up to here everything is accounted for, but for these holes
 *     due       retries whose time has come, and followers whose leader is out of the way: their
 *               rows are read again by number and offered with hw_delivery_retry()
 *     checkpoint_due / checkpointed   when it is time to store (high, outstanding)
 * A pass may come at any place between two rows of a page, with the number of the last one
 * offered, or of the next one less one.
 */
#ifndef HW_ENGINE_DELIVERY_H
#define HW_ENGINE_DELIVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/frontier.h"
#include "engine/ranges.h"

typedef struct hw_delivery_config {
    howdah_ordering ordering;
    howdah_gap_policy gap_policy;
    int64_t gap_timeout_ms;
    howdah_checkpoint_mode mode;
    int64_t batch_size;   /* BATCHED: events handled between two checkpoints at most */
    int64_t max_delay_ms; /* BATCHED: the oldest handled event waits at most this long */
    unsigned max_retries; /* tries after the first one */
    int64_t retry_delay_ms;
    int64_t max_retry_delay_ms;
    unsigned jitter_percent;
    bool fail_closed;       /* halt instead of writing a dead letter */
    size_t outstanding_max; /* ranges, 2 at least; 0: HW_OUTSTANDING_MAX */
    size_t pending_max;     /* events accepted and not handled; 0: HW_PENDING_MAX */
} hw_delivery_config;

#define HW_OUTSTANDING_MAX 10000
#define HW_PENDING_MAX 10000

/*
 * A stream that stands still: its first pending event, and those behind it.  A stream is known by
 * the hash of its name; two of one hash would wait for each other, which costs time and no order.
 */
typedef struct hw_retry {
    int64_t sequence;
    unsigned attempts; /* made so far; 0: never, it only waited behind another */
    int64_t due_ms;
    uint64_t stream;
    int64_t *behind;  /* behind[behind_at..behind_n - 1], ascending */
    size_t behind_at; /* those before it have moved up */
    size_t behind_n;
    size_t behind_room;
} hw_retry;

typedef struct hw_delivery {
    hw_delivery_config config;
    int64_t high;
    hw_ranges missing;
    hw_ranges pending;
    hw_ranges spare;   /* pass() builds the next missing here */
    hw_retry *retries; /* in no order; few */
    size_t retries_n;
    size_t retries_room;
    size_t waiting;            /* events in retries, those behind included */
    int64_t in_hand;           /* the number that the handler has now, 0: none */
    unsigned in_hand_attempts; /* made before this one */
    int64_t last_sequence;     /* the last event handled since the checkpoint was stored, 0: none */
    int64_t unsaved;           /* events handled since the checkpoint was stored */
    int64_t unsaved_since_ms;
    bool moved; /* high or outstanding changed since the checkpoint was stored, events or not */
    int64_t moved_since_ms;
    int64_t suspects; /* the next so many events are handled one by one (an owner died on one) */
} hw_delivery;

void hw_delivery_init(hw_delivery *d, const hw_delivery_config *config);
void hw_delivery_done(hw_delivery *d);

/*
 * Takes a stored checkpoint over: all that it owes counts as missing until its rows are read.
 * Everything else is forgotten.  suspects > 0 after an unclean take-over: that many events, at
 * most, may have been in the dead owner's hands; it counts down as events leave pending.  Errors:
 * CORRUPT (ranges that are not sorted and disjoint within 1..high), NO_MEMORY; nothing changed.
 */
int hw_delivery_load(hw_delivery *d, int64_t high, const hw_range *outstanding,
                     size_t outstanding_n, int64_t suspects, howdah_error *reterr);

typedef enum hw_offer {
    HW_OFFER_SKIP,    /* handled before, or not this subscription's business */
    HW_OFFER_DELIVER, /* run the handler now; handled() or failed() must follow */
    HW_OFFER_HELD,    /* accepted, waits behind a failed event of its stream */
    HW_OFFER_WAIT /* not accepted: too much is outstanding, or (STRICT) something before it is; the
                     caller may pass up to the number before it and try once more, else it
                     offers nothing further of this page and does not pass beyond it */
} hw_offer;

/*
 * A row that is visible, in ascending order within a page, nothing being in hand.  matches: the
 * pattern lets it through.  Numbers between high and it count as missing until the next pass says
 * which of them are holes.
 */
int hw_delivery_offer(hw_delivery *d, int64_t sequence, hw_str stream, bool matches, int64_t now_ms,
                      hw_offer *ret_offer, howdah_error *reterr);

/* A pending number's row, read again because hw_delivery_due() named it: DELIVER, or SKIP (also
   when it stands behind an event that has failed again meanwhile). */
int hw_delivery_retry(hw_delivery *d, int64_t sequence, hw_offer *ret_offer, howdah_error *reterr);

/* The event in hand succeeded.  TRANSACTIONAL: and the checkpoint of
   hw_delivery_outstanding_without() was stored in the same transaction.  Never fails. */
int hw_delivery_handled(hw_delivery *d, int64_t sequence, int64_t now_ms, howdah_error *reterr);

typedef enum hw_failed {
    HW_FAILED_RETRY,       /* it waits; its stream waits behind it */
    HW_FAILED_DEAD_LETTER, /* still in hand: store the dead letter and the checkpoint of
                              hw_delivery_outstanding_without() in one transaction, then call
                              hw_delivery_dead_lettered(); put it back if that fails */
    HW_FAILED_HALT         /* fail_closed: the subscription ends here, the event stays pending; it
                              is the first thing due when the subscription goes on */
} hw_failed;

/* The event in hand failed, for the (in_hand_attempts + 1)th time.  Never fails itself. */
int hw_delivery_failed(hw_delivery *d, int64_t sequence, hw_str stream, int64_t now_ms,
                       uint32_t random, hw_failed *ret_failed, howdah_error *reterr);

/* The dead letter of the event in hand, and the checkpoint with it, are stored. */
int hw_delivery_dead_lettered(hw_delivery *d, int64_t sequence, int64_t now_ms,
                              howdah_error *reterr);

/*
 * The handler of the event in hand did not run to its end, so it is pending again and due at once.
 * Not after a COMMIT whose outcome is unknown: load the stored checkpoint, which tells.
 */
int hw_delivery_put_back(hw_delivery *d, int64_t sequence, hw_str stream, int64_t now_ms,
                         howdah_error *reterr);

/*
 * Every row up to upto that was visible in the page's snapshot (and that the pattern lets through)
 * has been offered, upto is not above the frontier, and holes are the frontier's at a moment before
 * that snapshot, or what this very snapshot has made of them.  high becomes upto if that is more
 * (less far when too much would be outstanding, I4); missing keeps, up to upto, only what is a
 * hole. Errors: NO_MEMORY, nothing changed.
 */
int hw_delivery_pass(hw_delivery *d, int64_t upto, const hw_hole *holes, size_t holes_n,
                     int64_t now_ms, howdah_error *reterr);

/*
 * Numbers that are missing and stand still are somebody else's to remember
 * (engine/still_holes.h): they are not missing here any more; those of owes, up to high, are.
 * Errors: NO_MEMORY, nothing changed.
 */
int hw_delivery_put_aside(hw_delivery *d, const hw_ranges *still, const hw_ranges *owes,
                          int64_t now_ms, howdah_error *reterr);

/*
 * What to read next, nothing above to, which is how far the frontier is known (it may be less than
 * high: another process was further): fills out with missing and, unless the bound is reached
 * (I4), everything above high.  STRICT: nothing above the first hole, nothing at all while an event
 * is pending.  Empty: nothing to read.  ret_upto: when all of it has been read and offered, a pass
 * may go so far and no further.
 */
int hw_delivery_wanted(const hw_delivery *d, int64_t to, const hw_hole *holes, size_t holes_n,
                       hw_ranges *out, int64_t *ret_upto, howdah_error *reterr);

/*
 * The numbers, at most room, whose rows are to be read again and offered with
 * hw_delivery_retry(); returns how many.  Ascending, the lowest there are: a stream that is free
 * again comes with those that stand behind.
 */
size_t hw_delivery_due(const hw_delivery *d, int64_t now_ms, int64_t *out, size_t room);
/* When the next retry or checkpoint is due; INT64_MAX: never. */
int64_t hw_delivery_next_ms(const hw_delivery *d);

/*
 * gap_policy TIMEOUT: the first range of missing that has been a hole for gap_timeout; false
 * without one.  Record the skip, and the checkpoint of hw_delivery_outstanding_without(), in one
 * transaction, then call hw_delivery_skipped().
 */
bool hw_delivery_overdue(const hw_delivery *d, const hw_hole *holes, size_t holes_n, int64_t now_ms,
                         hw_range *ret_range, int64_t *ret_age_ms);
int hw_delivery_skipped(hw_delivery *d, hw_range range, int64_t now_ms, howdah_error *reterr);

bool hw_delivery_checkpoint_due(const hw_delivery *d, int64_t now_ms);
/* What the checkpoint says: missing + pending, and the same without the range first..last (0, 0:
   nothing is left out). */
int hw_delivery_outstanding(const hw_delivery *d, hw_ranges *out, howdah_error *reterr);
int hw_delivery_outstanding_without(const hw_delivery *d, int64_t first, int64_t last,
                                    hw_ranges *out, howdah_error *reterr);
/*
 * The same in the middle of a page with these holes, nothing being pending: of what is missing
 * above passed, which was high when the page began, only the holes.  What a pass up to the last row
 * that was offered would leave.
 */
int hw_delivery_outstanding_amid(const hw_delivery *d, int64_t passed, const hw_hole *holes,
                                 size_t holes_n, hw_ranges *out, howdah_error *reterr);
/* It is stored, and nothing has happened since it was asked for. */
void hw_delivery_checkpointed(hw_delivery *d);

/* The number below the lowest one outstanding: the seeds' contiguous checkpoint. */
int64_t hw_delivery_contiguous(const hw_delivery *d);

#endif
