/*
 * status.h - facts about the bus, its subscriptions and its queues, in one walk.
 *
 * Meant to be asked for every few seconds: it takes the summary of queues, which does not count
 * history.  What is closed to somebody who may read the log is left out: that is no failure.
 */
#ifndef HW_FACE_STATUS_H
#define HW_FACE_STATUS_H

#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"

/* What was seen so far. */
typedef struct face_status_sums {
    int64_t facts;
    int64_t subscriptions; /* HOWDAH_ABSENT: closed to this user */
    int64_t queues;        /* the same */
    int64_t dead_letters;  /* of what is open to this user */
    int64_t skips;
} face_status_sums;

typedef enum face_status_part {
    FACE_STATUS_SUBSCRIPTIONS,
    FACE_STATUS_QUEUES,
    FACE_STATUS_SUMS
} face_status_part;

/* Who looks.  The sums that it points to are of what came before each call. */
typedef struct face_status_look {
    void (*fact)(void *ctx, const howdah_fact *fact);
    void (*part)(void *ctx, face_status_part part); /* begins; NULL: not wanted */
    void (*subscription)(void *ctx, const howdah_subscription_info *info);
    void (*queue)(void *ctx, const howdah_queue_info *info);
    void *ctx;
    face_status_sums *sums;
} face_status_look;

/* Facts, subscriptions, queues; then the sums are whole. */
int face_status_walk(howdah_bus *bus, const face_status_look *look, howdah_error *reterr);

/* Sends what is in the buffer and empties it. */
typedef void face_status_send(void *ctx, hw_buf *out);

/*
 * One object without a line break.  send (NULL: all is collected) is called after each member of
 * it, so that a long list needs no long buffer.  An object that ends early, after an error, is
 * closed; without any fact there is none.  Errors: of the walks, and of the buffer.
 */
int face_status_json(howdah_bus *bus, hw_buf *out, face_status_send *send, void *ctx,
                     howdah_error *reterr);

#endif
