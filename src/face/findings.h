/* findings.h - what a check of the bus found, as JSON. */
#ifndef HW_FACE_FINDINGS_H
#define HW_FACE_FINDINGS_H

#include <howdah/howdah.h>

#include "face/fields.h"

/* Of a howdah_finding of howdah_doctor() or howdah_verify(). */
extern const face_entity face_finding;

#endif
