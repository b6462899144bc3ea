/* dead_letters.h - events and jobs that nobody could handle, as JSON, a row or fields. */
#ifndef HW_FACE_DEAD_LETTERS_H
#define HW_FACE_DEAD_LETTERS_H

#include <howdah/howdah.h>

#include "base/buf.h"
#include "face/fields.h"

/* Of a howdah_dead_letter, for people. */
extern const face_entity face_dead_letter;

/* Appends one object without a line break, of the dead letter and of what it is about. */
void face_dead_letter_json(hw_buf *out, const howdah_dead_letter *dl);

#endif
