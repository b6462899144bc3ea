/* access.h - who may ask: what is wrong with a request before its route is looked for. */
#ifndef HW_GATEWAY_ACCESS_H
#define HW_GATEWAY_ACCESS_H

#include <howdah/howdah.h>

#include "base/str.h"
#include "gateway/request.h"

struct MHD_Response;

/*
 * The shape of a request that two programs on the way could read in two ways (INVALID), and those
 * that a page of somebody else makes a browser send (DENIED): a Host that is not ours, an Origin
 * that is another one.  Also finds out who the client is.
 */
int gw_access_check_shape(gw_request *r, howdah_error *reterr);

/* A browser asks whether a page of a listed origin may ask (CORS).  True: it is answered. */
bool gw_access_preflight(gw_request *r, hw_str path);
/* What a browser wants to see before it hands the answer to such a page. */
void gw_access_headers(const gw_request *r, struct MHD_Response *response);

/*
 * Whether the client may use the route of the request: its token, and the token's right.  With
 * tokens that are not fresh nothing is said, and r->unsure is set: gw_access_make_sure() says it.
 * On failure the request says with which status of HTTP (refused).
 */
int gw_access_check_right(gw_request *r, howdah_error *reterr);
/* Whether only this machine's programs can ask, and nobody said that they need a token. */
bool gw_access_is_local(const struct gw_gateway *gateway);
/* In a worker, before anything is done. */
int gw_access_make_sure(gw_request *r, howdah_bus *bus, howdah_error *reterr);
/* Of a request that goes on for long: whether its token is still good, as far as is known. */
bool gw_access_still_may(gw_request *r);
void gw_access_done(gw_request *r);

/* Whether a Host header (or NULL) names this machine's loopback: "localhost:4460", "127.0.0.1",
   "[::1]:80". */
bool gw_host_is_loopback(const char *host);

#endif
