/* snapshots.h - states of streams, as JSON, a row or fields. */
#ifndef HW_FACE_SNAPSHOTS_H
#define HW_FACE_SNAPSHOTS_H

#include <howdah/howdah.h>

#include "face/fields.h"

/* Of a howdah_snapshot.  One without data, or without its time, is printed without them. */
extern const face_entity face_snapshot;

#endif
