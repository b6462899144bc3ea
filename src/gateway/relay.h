/*
 * relay.h - the live end of the log, read once for any number of clients.
 *
 * One thread has one tail of all events.  What it brings is put into frames, text that is ready to
 * be sent, and the last frames are kept in a ring that all clients at the head share.
 *
 *   I1  A frame has the place of the relay after it.  So whoever has been sent it, and all before
 *       it, can come back with that place and goes on after it, past events that commit late.
 *   I2  The ring is bounded in frames and bytes.  A client that falls out of it is not waited for:
 *       it reads for itself from its place (live.c), and joins again when it has caught up.
 *   I3  When the log is replaced by one that knows less, numbers may be those of other events: the
 *       ring is emptied, and everybody reads for himself from his place.  So it is, too, while
 *       nobody listens and nobody has wanted to for a while: then events are only gone past, and
 *       no frames are made of them.
 *   I4  The relay needs the store, and waits for it as long as it takes.  Meanwhile nothing is
 *       lost: it goes on from its own place.
 */
#ifndef HW_GATEWAY_RELAY_H
#define HW_GATEWAY_RELAY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/str.h"

typedef struct gw_relay gw_relay;
struct gw_gateway;

/* Where somebody stands, as a text; shared, because a thousand clients stand at the same place. */
typedef struct gw_spot {
    atomic_int refs;
    char text[]; /* with a NUL, and no longer than it is: thousands may stand somewhere */
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

/* One that listens.  It is in the relay's list while it is live; all of it is under the relay's
 * lock.
 */
typedef struct gw_listener {
    struct gw_listener *next_listener;
    bool listed;
    /* Whether this frame is for it; no calls of the relay in it. */
    bool (*wants)(struct gw_listener *listener, const gw_frame *frame);
    /* Something that it wants is there, or beat_ms are over, or it is out of the ring. */
    void (*wake)(struct gw_listener *listener);
    uint64_t next; /* the number of the frame that comes next for it */
    uint64_t era;  /* of the ring in which that number means something */
    int64_t sent_ms;
    bool sleeps; /* it wants to be woken */
} gw_listener;

int gw_relay_new(struct gw_gateway *gateway, gw_relay **ret_relay, howdah_error *reterr);
/* All listeners are woken; what they find then is that the gateway is ending. */
void gw_relay_end(gw_relay *relay);
void gw_relay_free(gw_relay *relay);

void gw_relay_lock(gw_relay *relay);
void gw_relay_unlock(gw_relay *relay);

/* ---- under the lock */

/* False: the relay does not stand anywhere yet, because the store was not reached. */
bool gw_relay_stands(const gw_relay *relay);
/* At the end of the ring; *ret_spot is kept for the caller. */
void gw_relay_join_end(gw_relay *relay, gw_listener *listener, gw_spot **ret_spot);
/* As late as possible in the ring, so that nothing is missed of what this place does not cover.
   False: the ring does not reach so far back. */
bool gw_relay_join(gw_relay *relay, gw_listener *listener, const howdah_place *place);
/* The next frame; NULL: there is none now.  *ret_lost: the listener is out of the ring. */
const gw_frame *gw_relay_next(gw_relay *relay, gw_listener *listener, bool *ret_lost);
void gw_relay_leave(gw_relay *relay, gw_listener *listener);
size_t gw_relay_listeners(const gw_relay *relay);

#endif
