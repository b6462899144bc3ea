/*
 * routes.h - the one table of what can be asked: who may ask it, with which arguments, and what
 * does it.  The OpenAPI document is made of the same rows.
 */
#ifndef HW_GATEWAY_ROUTES_H
#define HW_GATEWAY_ROUTES_H

#include <stdbool.h>
#include <stddef.h>

#include <howdah/howdah.h>

#include "gateway/request.h"

typedef enum gw_right { GW_ANYBODY, GW_READ, GW_PUBLISH, GW_SUBSCRIBE, GW_WORK, GW_ADMIN } gw_right;

/* Does it in a worker, or, of a route that needs no store, in the thread that speaks HTTP (bus is
   NULL then). */
typedef int gw_handler(gw_request *r, howdah_bus *bus, howdah_error *reterr);

#define GW_NO_STORE 0x1u
#define GW_WRITES 0x2u /* refused by a gateway that is read-only */
#define GW_WAITS 0x4u  /* may be parked: its deadline is its own */
/* Its handler is called in the thread that speaks HTTP first, with no bus; it hands over and
   returns GW_SUBMITTED, or returns GW_AGAIN to be called in a worker. */
#define GW_SUBMITS 0x8u
/* On loopback it is answered also while nobody knows who may, because the store is away: it says
   nothing of the store then. */
#define GW_UNSURE 0x20u
#define GW_WHOLE 0x10u /* shows the whole bus: not for a token with scopes */

typedef struct gw_route {
    const char *method;
    const char *path; /* "/v1/events/{id}" */
    gw_right right;
    unsigned flags;
    gw_handler *handler;
    const char *args;   /* names, separated by single spaces; NULL: none */
    const char *body;   /* content types, separated by single spaces; NULL: there is no body */
    const char *schema; /* of the body and of the answer, in OpenAPI's components: "Ack Acked" */
    const char *summary;
} gw_route;

extern const gw_route gw_routes[];
extern const size_t gw_routes_n;

/* A name of an argument, its type in OpenAPI, and what it means: the same wherever it stands. */
typedef struct gw_arg_text_row {
    const char *name;
    const char *type;
    const char *help;
} gw_arg_row;

extern const gw_arg_row gw_arg_rows[];
extern const size_t gw_arg_rows_n;

/*
 * The route of a path (raw, without its query); *ret_vars are its raw variables.  NULL: there is no
 * such path, or none for this method, and ret_allowed (room for GW_ALLOWED_SIZE) says which there
 * are ("": none).
 */
#define GW_ALLOWED_SIZE 64
const gw_route *gw_route_find(const char *method, hw_str path, hw_str ret_vars[GW_VARS_MAX],
                              char ret_allowed[GW_ALLOWED_SIZE]);

const char *gw_right_name(gw_right right);

#endif
