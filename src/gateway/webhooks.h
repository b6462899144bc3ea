/*
 * webhooks.h - sends events to the webhooks that the store lists.
 *
 * A webhook is a group, and the sender one of its members: it takes events under a lease, a thread
 * of its own speaks to the store, and posts.h to the endpoints.
 *
 *     store ──fetch──▶ webhooks.c ──post──▶ posts.c ──▶ endpoint
 *           ◀──ack, nack, release──        ◀──outcome──
 *
 *   I1  Everything that must not be lost is in the store: an event is acked after its endpoint has
 *       answered with 2xx, and not before.  Whatever is killed, it comes again when its lease
 *       ends.
 *   I2  An event is in one flight at a time, with any number of gateways: that is what a lease
 *       says, and it is longer than the request may take.  Each stream comes in order, because the
 *       group gives out the next event of a stream after the one before.
 *   I3  What a flight is for, it brings along: subscription, token, which webhook it was begun
 *       for. A webhook that was changed meanwhile is another one, and its flights speak for the
 *       old.
 *   I4  While the store is away, outcomes wait for it, until their leases are over; nothing more
 *       is fetched.  A server that knows less refuses their tokens, and the events come again.
 *   I5  Bounded are: flights of a webhook, flights and bytes of all, webhooks, and the time of
 *       each request, of an outcome that waits, and of the end.
 *   I6  A secret goes from the store into a signature, and nowhere else.
 */
#ifndef HW_GATEWAY_WEBHOOKS_H
#define HW_GATEWAY_WEBHOOKS_H

#include <howdah/howdah.h>

#include "gateway/posts.h"

typedef struct gw_webhooks gw_webhooks;
struct gw_gateway;

int gw_webhooks_new(struct gw_gateway *gateway, gw_webhooks **ret_webhooks, howdah_error *reterr);
/* Something about the webhooks was changed in the store: looks soon.  NULL does nothing. */
void gw_webhooks_poke(gw_webhooks *webhooks);
/* Fetches nothing more.  What is under way has time until then, by hw_clock_mono_ms(). */
void gw_webhooks_end(gw_webhooks *webhooks, int64_t until_ms);
/* After gw_webhooks_end(): waits a little longer than until then. */
void gw_webhooks_free(gw_webhooks *webhooks);

/* For hooks_admin.c: false when it cannot be sent now. */
bool gw_webhooks_post(gw_webhooks *webhooks, gw_post *post);

#endif
