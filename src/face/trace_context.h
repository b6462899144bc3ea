/*
 * trace_context.h - W3C Trace Context: to which trace what happens belongs.
 *
 * It travels as the headers "traceparent" and "tracestate" of an event or a job, under the names
 * that HTTP gives them, so whoever takes the event can go on with the trace.  What is not well
 * formed is left out: a trace that is broken is no reason to refuse an event.
 */
#ifndef HW_FACE_TRACE_CONTEXT_H
#define HW_FACE_TRACE_CONTEXT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define FACE_TRACE_PARENT_TEXT 55
#define FACE_TRACE_ID_TEXT 32
#define FACE_TRACE_STATE_MAX 512

typedef struct face_trace {
    char parent[FACE_TRACE_PARENT_TEXT + 1]; /* "": there is none */
    char state[FACE_TRACE_STATE_MAX + 1];    /* "": there is none */
} face_trace;

/* Either may be NULL.  False: no valid traceparent of version 00; then there is no state either. */
bool face_trace_take(face_trace *trace, const char *traceparent, const char *tracestate);
/* Of a trace that is there. */
void face_trace_id(const face_trace *trace, char ret_id[FACE_TRACE_ID_TEXT + 1]);
/* Whether headers (a JSON object that was checked, or nothing) name a trace. */
bool face_trace_is_in(hw_str headers);
/* Takes it from such headers.  False: they have none, or none that is valid. */
bool face_trace_of(hw_str headers, face_trace *trace);
/* Adds a trace that is there to headers that have none: a valid object, or an empty buffer. */
void face_trace_add(hw_buf *headers, const face_trace *trace);

#endif
