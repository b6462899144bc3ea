/*
 * routing.h - events of bindings become jobs also where all workers speak HTTP.
 *
 * A worker of the library routes for its queue.  Clients that claim over HTTP cannot, so the
 * gateway does, for all queues, with a session of its own.  Whoever else routes already goes on:
 * one process at a time does, and another one takes over when it ends.
 */
#ifndef HW_GATEWAY_ROUTING_H
#define HW_GATEWAY_ROUTING_H

#include <howdah/howdah.h>

typedef struct gw_routing gw_routing;
struct gw_gateway;

int gw_routing_new(struct gw_gateway *gateway, gw_routing **ret_routing, howdah_error *reterr);
/* Gives up what it routes, and waits for that. */
void gw_routing_free(gw_routing *routing);

#endif
