/*
 * trace_context.h - W3C Trace Context: to which trace what happens belongs.
 *
 * It travels as the headers "traceparent" and "tracestate" of an event or a job, under the names
 * that HTTP gives them, so whoever takes the event can go on with the trace.  What is not well
 * formed is left out: a trace that is broken is no reason to refuse an event.
 */
#ifndef HW_GW_TRACE_CONTEXT_H
#define HW_GW_TRACE_CONTEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define GW_TRACE_PARENT_TEXT 55
#define GW_TRACE_ID_TEXT 32
#define GW_TRACE_STATE_MAX 512
/* What both headers add to an object at most; every byte of a state could be a quote. */
#define GW_TRACE_BYTES_MAX (2 * GW_TRACE_STATE_MAX + 128)

typedef struct gw_trace {
    char parent[GW_TRACE_PARENT_TEXT + 1]; /* "": there is none */
    char state[GW_TRACE_STATE_MAX + 1];    /* "": there is none */
} gw_trace;

/* Either may be NULL.  False: no valid traceparent of version 00; then there is no state either. */
bool gw_trace_take(gw_trace *trace, const char *traceparent, const char *tracestate);
/* Of a trace that is there. */
void gw_trace_id(const gw_trace *trace, char ret_id[GW_TRACE_ID_TEXT + 1]);
/* Whether a trace is there, and headers (valid JSON, or nothing) name none and have room for it. */
bool gw_trace_wanted(const gw_trace *trace, hw_str headers);
/* Takes it from such headers.  False: they have none, or none that is valid. */
bool gw_trace_of(hw_str headers, gw_trace *trace);
/* Adds one that is wanted to headers: a valid object, or an empty buffer. */
void gw_trace_add(hw_buf *headers, const gw_trace *trace);

#endif
