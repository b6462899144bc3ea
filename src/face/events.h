/* events.h - events as JSON, alone and as part of what is said about them. */
#ifndef HW_FACE_EVENTS_H
#define HW_FACE_EVENTS_H

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/error.h"
#include "face/fields.h"

/* What a dead letter tells of a howdah_event; a whole event is face_event_json(). */
extern const face_field face_event_fields[];

/* All of these append one object without a line break.  NO_MEMORY; LIMIT of the buffer. */

int face_event_json(const howdah_event *event, hw_buf *out, howdah_error *reterr);
/* A line of a causation tree: the event, and before it how far it is from the one asked for. */
int face_trace_json(int depth, const howdah_event *event, hw_buf *out, howdah_error *reterr);
/* A line of a diff.  before: NULL when there was none. */
int face_change_json(howdah_change change, const howdah_event *before, const howdah_event *after,
                     bool final, hw_buf *out, howdah_error *reterr);

/*
 * Where an event is: {"global_sequence":7,"id":"...","stream":"order-1","version":3,"revision":1}.
 * By hand, not from a table of fields: a batch says it of every event, by the million.
 */
void face_position_json(hw_buf *out, const char *stream, const howdah_position *position);

#endif
