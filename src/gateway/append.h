/* append.h - events that a request brings: parsed, and not stored yet. */
#ifndef HW_GATEWAY_APPEND_H
#define HW_GATEWAY_APPEND_H

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/str.h"
#include "gateway/request.h"

/* The events of one request, in the order in which they came. */
typedef struct gw_incoming {
    howdah_event **events;
    howdah_position *positions; /* room for as many */
    size_t n;
    size_t room;
    howdah_builder *builder;
    hw_buf scratch;
    size_t payload_max;
    const gw_trace *trace;
    const char *key;   /* Idempotency-Key; NULL: none */
    const char *next;  /* what the next event without an id gets it from; see give_id() */
    bool own_trace;    /* the event in the builder names one, or has no room for one */
    howdah_bus *again; /* the ids were in use: those that are stored keep the trace they have */
    bool many;         /* it was a list: so is the answer */
    bool lines;
} gw_incoming;

/* Builds the event that is in in->builder. */
int gw_incoming_add(gw_incoming *in, howdah_error *reterr);

/* cloudevents.c: CloudEvents 1.0 in the three ways of HTTP. */
bool gw_is_cloudevent(const gw_request *r); /* in headers */
int gw_cloudevent_headers(const gw_request *r, gw_incoming *in, howdah_error *reterr);
int gw_cloudevent_object(hw_str object, gw_incoming *in, howdah_error *reterr);

#endif
