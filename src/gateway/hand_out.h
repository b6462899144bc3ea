/*
 * hand_out.h - GET /v1/subscriptions/{name}/stream: batches as server-sent events, acks by POST.
 *
 *   I1  A stream is given no more than "window" batches that nobody has spoken for; a client that
 *       never acks gets no others until their leases are over.
 *   I2  A batch is spoken for by its token, on whatever connection.  Acks that go through another
 *       gateway are not seen here: then the place in the window is free when the lease is over.
 */
#ifndef HW_GATEWAY_HAND_OUT_H
#define HW_GATEWAY_HAND_OUT_H

#include "gateway/request.h"

/* Somebody has acked, failed or given back the batch with this token: whoever was given it may have
   another one. */
void gw_hand_out_spoken_for(struct gw_gateway *gateway, const char *token);

#endif
