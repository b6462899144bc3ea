/*
 * scope.h - what a token's scopes leave of the bus.
 *
 *   I1  A filter is inside a scope when everything that it could ever match is.  It has to be
 *       inside one pattern of the scope: two that cover it together are not noticed.
 *   I2  Case counts, and texts are compared after they were decoded, byte by byte: what reaches
 *       the store is what was compared.
 *   I3  Types and streams limit what has to do with events, queues what has to do with jobs.
 *   I4  What has a name is refused (403).  What has an id is not there (404): ids cannot be
 *       probed.
 */
#ifndef HW_GATEWAY_SCOPE_H
#define HW_GATEWAY_SCOPE_H

#include <howdah/howdah.h>

#include "gateway/request.h"
#include "gateway/tokens.h"

/* Whether everything that the pattern matches is matched by the other one. */
bool gw_pattern_inside(const char *pattern, const char *outer);
/* "order-7" and "order-*" are inside "order-*"; a star elsewhere is itself. */
bool gw_name_inside(const char *name, const char *outer);

/* Whether the request's token is limited at all. */
bool gw_scope_is_limited(const gw_request *r);
bool gw_scope_has_queue(const gw_request *r, const char *queue);
bool gw_scope_has_type(const gw_request *r, const char *type, const char *stream);
bool gw_scope_has_event(const gw_request *r, const howdah_event *event);
/* Any of them may be NULL: no filter.  type and pattern are joined by AND. */
bool gw_scope_has_filter(const gw_request *r, const char *type, const char *pattern,
                         const char *stream);
bool gw_scope_has_dead_letter(const gw_request *r, const howdah_dead_letter *dl);

/* The same as errors, which are sent as 403. */
int gw_scope_check_queue(gw_request *r, const char *queue, howdah_error *reterr);
int gw_scope_check_event(gw_request *r, const howdah_event *event, howdah_error *reterr);
int gw_scope_check_filter(gw_request *r, const char *type, const char *pattern, const char *stream,
                          howdah_error *reterr);
/* The filter of a subscription as it is stored.  NOT_FOUND. */
int gw_scope_check_subscription(gw_request *r, howdah_bus *bus, const char *name,
                                howdah_error *reterr);

/*
 * What a route's path and arguments name, before its handler sees it.  A route that is not known
 * here is not for a token that is limited.  Handlers check what bodies name, and leave out of lists
 * what is out of scope.
 */
int gw_scope_check_route(gw_request *r, howdah_bus *bus, howdah_error *reterr);
/* NOT_FOUND for what is out of it, as if it did not exist. */
int gw_scope_find_dead_letter(gw_request *r, howdah_bus *bus, int64_t id, howdah_error *reterr);

#endif
