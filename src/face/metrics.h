/*
 * metrics.h - what a monitor wants to know about a store: asked for at one moment, printed as
 * often as wanted.
 *
 *   I1  How many series there can be is bounded: FACE_METRICS_NAMED_MAX subscriptions and as many
 *       queues have lines of their own, those with the most to do; the others are counted together
 *       under the name FACE_METRICS_OTHERS.  No label is made of a stream, an id or an error.
 *   I2  It is all there or not at all: what was collected before a failure is not printed.
 *   I3  What this user may not see has no lines, and howdah_visible says so.
 */
#ifndef HW_FACE_METRICS_H
#define HW_FACE_METRICS_H

#include <stdint.h>

#include <howdah/howdah.h>

#include "base/buf.h"
#include "face/metrics_text.h"

#define FACE_METRICS_NAMED_MAX 500
/* Of these the members are asked for, one question each: those that are furthest behind. */
#define FACE_METRICS_GROUPS_MAX 50
#define FACE_METRICS_OTHERS "(other)"
/* That the text of a store can have. */
#define FACE_METRICS_BYTES_MAX ((size_t)16 * 1024 * 1024)

typedef struct face_metrics face_metrics;

/*
 * Does not begin another question when for_ms are over.  Errors: TIMEOUT, and those of the walks;
 * DENIED only when nothing at all may be seen.
 */
int face_metrics_collect(howdah_bus *bus, int64_t for_ms, face_metrics **ret_metrics,
                         howdah_error *reterr);
void face_metrics_free(face_metrics *metrics);

/* metrics NULL: the store is away.  What face_metrics_end() writes comes after it. */
void face_metrics_print(hw_buf *out, face_metrics_form form, const face_metrics *metrics);

#endif
