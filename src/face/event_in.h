/*
 * event_in.h - an event from a JSON object, as faces take it: a line, or a body.
 *
 * Its fields are those that face_event_json() prints; the ones that the store gives are passed
 * over, and one that nobody knows is refused, because it would be lost.
 */
#ifndef HW_FACE_EVENT_IN_H
#define HW_FACE_EVENT_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"
#include "face/correction_in.h"

typedef struct face_event_in {
    hw_str text;
    int64_t number; /* of the line, or of the object in its list: part of an id from id_space */
    size_t payload_max;
    const char *id_space;           /* NULL: an object without id gets a random one */
    face_correction_in *correction; /* where an object that corrects goes; NULL: it is refused, */
    const char *correction_advice;  /* with this; NULL: with no advice */
    hw_str headers;                 /* out: as they stand in the text; absent: none */
    bool has_id;                    /* out: it named its id, or got one from id_space */
    bool is_correction;             /* out: it is in *correction, and the builder has nothing */
} face_event_in;

/*
 * Fills a reset builder, or *in->correction; scratch is any buffer.  Errors: INVALID, LIMIT, with
 * the field's name; what the builder finds comes when it builds.
 */
int face_event_in_parse(face_event_in *in, howdah_builder *builder, hw_buf *scratch,
                        howdah_error *reterr);

/* any, none, exists or a version.  INVALID otherwise. */
int face_expect_parse(const char *text, int64_t *ret_expected, howdah_error *reterr);

#endif
