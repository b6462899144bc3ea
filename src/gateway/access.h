/* access.h - who may ask: what is wrong with a request before its route is looked for. */
#ifndef HW_GATEWAY_ACCESS_H
#define HW_GATEWAY_ACCESS_H

#include <howdah/howdah.h>

#include "gateway/request.h"

/*
 * The shape of a request that two programs on the way could read in two ways (INVALID), and those
 * that a page of somebody else makes a browser send (DENIED): a Host that is not ours, an Origin
 * that is another one.
 */
int gw_access_check_shape(const gw_request *r, howdah_error *reterr);

/* Whether a Host header (or NULL) names this machine's loopback: "localhost:4460", "127.0.0.1",
   "[::1]:80". */
bool gw_host_is_loopback(const char *host);

#endif
