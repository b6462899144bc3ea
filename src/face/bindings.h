/* bindings.h - events that become jobs, as JSON or a row. */
#ifndef HW_FACE_BINDINGS_H
#define HW_FACE_BINDINGS_H

#include <howdah/howdah.h>

#include "face/fields.h"

/* Of a howdah_binding_info. */
extern const face_entity face_binding;
/* Of the same: what a binding is named by, of one that is gone. */
extern const face_entity face_binding_named;

#endif
