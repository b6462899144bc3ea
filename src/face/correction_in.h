/*
 * correction_in.h - a correction from a JSON object: an event with "corrects" and "reason".
 *
 * Its fields have the names that face_event_json() prints.  Beside them there is "expect_revision",
 * the newest revision that the caller knows.
 */
#ifndef HW_FACE_CORRECTION_IN_H
#define HW_FACE_CORRECTION_IN_H

#include <stddef.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/str.h"

/* A correction with the memory of its texts: the object may go before it does. */
typedef struct face_correction_in {
    howdah_correction correction;
    const char *stream; /* as named, to be compared with the family's; NULL: not named */
    const char *type;
    hw_buf data;
    hw_buf headers;
    hw_buf texts; /* reason, id, ... one after the other */
} face_correction_in;

void face_correction_in_init(face_correction_in *in, size_t payload_max);
void face_correction_in_done(face_correction_in *in);

/*
 * Fills a correction from an object that face_object_check() took; what was in it is gone.  Errors:
 * INVALID, LIMIT, with the field's name; howdah_correct() checks the rest.
 */
int face_correction_in_parse(face_correction_in *in, hw_str object, size_t payload_max,
                             howdah_error *reterr);

#endif
