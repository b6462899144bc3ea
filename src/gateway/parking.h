/* parking.h - for handlers that may find nothing yet. */
#ifndef HW_GATEWAY_PARKING_H
#define HW_GATEWAY_PARKING_H

#include <howdah/howdah.h>

#include "gateway/request.h"

/*
 * Whether to return GW_AGAIN: the client waits for wait_ms from the first try, and this was not the
 * last one.  Without a wake-up it is tried again after look_ms.
 */
bool gw_parking_wanted(gw_request *r, int64_t wait_ms, int64_t look_ms);

/* Whether the client has hung up: what it was given would be held until the lease ends. */
bool gw_client_is_gone(const gw_request *r);

/* consume.c: {"token":...,"attempt":...,"events":[...]}\n; NULL: the one without events. */
int gw_put_batch(const gw_request *r, hw_buf *out, const howdah_batch *batch, howdah_error *reterr);

/* operate.c: the subscription that the path names, as the answer. */
int gw_put_subscription(gw_request *r, howdah_bus *bus, howdah_error *reterr);

#endif
