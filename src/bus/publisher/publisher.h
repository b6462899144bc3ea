/*
 * publisher.h - the inside of a publisher: many callers, few commits.
 *
 * A call becomes a *submission* in the publisher's line.  A session's thread takes what waits there
 * as one round, has it stored (publish.c), and answers each submission; publisher.c keeps the line,
 * the threads and the time.
 *
 *   I1  A submission is in one place: with its caller, in the line, in a round, or answered.  It is
 *       answered exactly once, and never touched afterwards: its memory is the caller's, or freed.
 *   I2  HOWDAH_OK is answered only after the COMMIT has returned.  What is refused was looked up:
 *       its ids are not stored, and the versions that refuse it are.
 *   I3  Of one stream the submissions are decided in the order in which they came.  A round takes
 *       none that has a stream of another round, nor of one that was passed over before it.
 *   I4  A round whose COMMIT got no answer stays together, and is repeated as it was, until a
 *       server has answered for all of it or the time of its first caller is over.  Only as a whole
 *       it is sure to meet what may still be under way: the same ids, the same versions.  What was
 *       part of it is told OUTCOME_UNKNOWN, unless it gets a verdict of its own.
 *   I5  Every wait ends: the watch answers what has waited too long, and interrupts a round that
 *       takes too long.
 *   I6  What an open transaction of others keeps from being stored steps aside, with whatever comes
 *       behind it in its streams, and is tried again by itself.  Nobody else waits for it.
 */
#ifndef HW_BUS_PUBLISHER_PUBLISHER_H
#define HW_BUS_PUBLISHER_PUBLISHER_H

#include <semaphore.h>

#include "bus/bus.h"
#include "engine/batch.h"

/* Of one round; a submission that is larger goes alone. */
#define HW_ROUND_EVENTS_MAX 1000
#define HW_ROUND_BYTES_MAX ((size_t)8 * 1024 * 1024)

/* Streams by a hash: two that share a slot wait for each other, which costs time only. */
#define HW_STREAM_SLOTS 1024
size_t hw_stream_slot(hw_str stream);

typedef struct hw_submission {
    struct hw_submission *next; /* in the line */
    const howdah_event *const *events;
    size_t n;
    int64_t expected;
    hw_batch batch;
    howdah_position *positions; /* the caller's; NULL: nobody wants them */
    int64_t deadline_ms;
    int64_t aside_until_ms; /* I6; 0: it did not step aside */
    unsigned aside_n;       /* how often it did */
    bool blocked;           /* in this round: it is to step aside */
    bool doubtful;          /* a commit with it got no answer, and it has no verdict since */
    /* Who is told: a callback, or a caller that waits. */
    howdah_published_fn done;
    void *ctx;
    sem_t *answered;
    int *status;
    howdah_error *reterr;
} hw_submission;

/* What a round needs to know. */
typedef struct hw_publishing {
    hw_store *store;
    const hw_interrupt *interrupt;
    size_t payload_bytes_max;
    int64_t until_ms;    /* the earliest deadline (I4) */
    unsigned lock_waits; /* so many may end in vain; then all that is left steps aside (I6) */
    /* The submission is gone then.  err is NULL with HOWDAH_OK. */
    void (*answer)(void *ctx, hw_submission *submission, int status, const howdah_error *err);
    void *ctx;
    bool held[HW_STREAM_SLOTS]; /* streams of what has stepped aside; zero at first */
} hw_publishing;

/*
 * Stores what can be stored and answers; a submission that was answered becomes NULL in the array.
 * What is left when this returns was not stored: with HOWDAH_OK it is blocked (I6), otherwise the
 * error says why, and is nobody's fault.
 */
int hw_publish(hw_publishing *p, hw_submission **submissions, size_t n, howdah_error *reterr);

#endif
