/*
 * waiting.h - the clock: requests that are parked until something may be there, and connections
 * that take too long.
 *
 *   I1  A parked request is tried again when something was told to have come, after some time of
 *       its own, and at the end of its wait; then it is answered whatever there is.
 *   I2  Nothing that is parked holds a session of the store.
 */
#ifndef HW_GATEWAY_WAITING_H
#define HW_GATEWAY_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

typedef struct gw_waiting gw_waiting;
struct gw_gateway;
struct gw_request;

int gw_waiting_new(struct gw_gateway *gateway, gw_waiting **ret_waiting, howdah_error *reterr);
/* How often something was told to have come: a request takes it along before it looks. */
uint64_t gw_waiting_wakes(gw_waiting *waiting);
/* look_ms and wait_until_ms of the request say when; if something has come since it looked, at
 * once.
 */
void gw_waiting_park(gw_waiting *waiting, struct gw_request *r);
/* Something has come: all are tried again. */
void gw_waiting_wake(gw_waiting *waiting);
size_t gw_waiting_count(gw_waiting *waiting);
/* All are tried for the last time, and nobody waits any more. */
void gw_waiting_end(gw_waiting *waiting);
void gw_waiting_free(gw_waiting *waiting);

#endif
