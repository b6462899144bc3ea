/* webhook_request.h - one event as a request of a webhook: what it says about itself, and signed.
 */
#ifndef HW_GATEWAY_WEBHOOK_REQUEST_H
#define HW_GATEWAY_WEBHOOK_REQUEST_H

#include <howdah/howdah.h>

#include "base/str.h"
#include "gateway/posts.h"

/* What makes a post a webhook's request: headers as Standard Webhooks says.  body is there. */
typedef struct gw_webhook_request {
    const char *secret;
    const char *id;      /* of the event */
    const char *headers; /* of the webhook; NULL: none */
    hw_str event_headers;
} gw_webhook_request;

int gw_webhook_prepare(gw_post *post, const gw_webhook_request *request, howdah_error *reterr);

#endif
