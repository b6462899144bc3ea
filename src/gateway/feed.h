/*
 * feed.h - the live end of the log, read once for any number of clients.
 *
 * One thread has one tail of all events.  What it brings is put into frames, text that is ready to
 * be sent, and the last frames are kept in a ring that all clients at the head share.
 *
 *   I1  A frame has the place of the feed after it.  So whoever has been sent it, and all before
 * it, can come back with that place and goes on after it, past events that commit late. I2  The
 * ring is bounded in frames and bytes.  A client that falls out of it is not waited for: it reads
 * for itself from its place (live.c), and joins again when it has caught up. I3  When the log is
 * replaced by one that knows less, numbers may be those of other events: the ring is emptied, and
 * everybody reads for himself from his place. I4  The feed needs the store, and waits for it as
 * long as it takes.  Meanwhile nothing is lost: it goes on from its own place.
 */
#ifndef HW_GATEWAY_FEED_H
#define HW_GATEWAY_FEED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"

typedef struct gw_feed gw_feed;
struct gw_gateway;

/* Where somebody stands, as a text; shared, because a thousand clients stand at the same place. */
typedef struct gw_spot {
    atomic_int refs;
    char text[HOWDAH_PLACE_SIZE];
} gw_spot;

gw_spot *gw_spot_new(const char *text);
gw_spot *gw_spot_keep(gw_spot *spot);
void gw_spot_free(gw_spot *spot);

typedef struct gw_frame {
    int64_t sequence;
    const char *type;
    const char *stream;
    bool original; /* no correction */
    hw_str text;   /* "id: ...\nevent: ...\ndata: {...}\n\n" */
    gw_spot *spot; /* after it */
} gw_frame;

/* One that listens.  It is in the feed's list while it is live; all of it is under the feed's lock.
 */
typedef struct gw_listener {
    struct gw_listener *next_listener;
    bool listed;
    /* Whether this frame is for it; no calls of the feed in it. */
    bool (*wants)(struct gw_listener *listener, const gw_frame *frame);
    /* Something that it wants is there, or beat_ms are over, or it is out of the ring. */
    void (*wake)(struct gw_listener *listener);
    uint64_t next; /* the number of the frame that comes next for it */
    uint64_t era;  /* of the ring in which that number means something */
    int64_t sent_ms;
    bool sleeps; /* it wants to be woken */
} gw_listener;

int gw_feed_new(struct gw_gateway *gateway, gw_feed **ret_feed, howdah_error *reterr);
/* All listeners are woken; what they find then is that the gateway is ending. */
void gw_feed_end(gw_feed *feed);
void gw_feed_free(gw_feed *feed);

void gw_feed_lock(gw_feed *feed);
void gw_feed_unlock(gw_feed *feed);

/* ---- under the lock */

/* False: the feed does not stand anywhere yet, because the store was not reached. */
bool gw_feed_stands(const gw_feed *feed);
/* At the end of the ring; *ret_spot is kept for the caller. */
void gw_feed_join_end(gw_feed *feed, gw_listener *listener, gw_spot **ret_spot);
/* As late as possible in the ring, so that nothing is missed of what this place does not cover.
   False: the ring does not reach so far back. */
bool gw_feed_join(gw_feed *feed, gw_listener *listener, const howdah_place *place);
/* The next frame; NULL: there is none now.  *ret_lost: the listener is out of the ring. */
const gw_frame *gw_feed_next(gw_feed *feed, gw_listener *listener, bool *ret_lost);
void gw_feed_leave(gw_feed *feed, gw_listener *listener);
size_t gw_feed_listeners(const gw_feed *feed);

#endif
