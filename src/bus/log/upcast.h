/*
 * upcast.h - old payloads as new code wants them.
 *
 *   I1  What is stored is never changed: an event is upcast on its way out, each time.
 *   I2  A type that has no step is handed out as it is.  Of a type that has steps every event below
 *       the newest version that can be reached is upcast there, or is an error.
 *   I3  Steps are registered before anybody reads and are never changed: they are read without a
 *       lock, by all threads of a runner.
 */
#ifndef HW_BUS_LOG_UPCAST_H
#define HW_BUS_LOG_UPCAST_H

#include "base/buf.h"
#include "engine/event.h"

typedef struct hw_upcasts hw_upcasts;

/* Where a upcast event lives until the next one is upcast there.  Starts with
   hw_upcast_event_init(). */
typedef struct hw_upcast_event {
    howdah_event event;
    hw_buf payload[2]; /* a step reads from one and writes to the other */
    hw_buf content_type[2];
} hw_upcast_event;

void hw_upcast_event_init(hw_upcast_event *upcast);
void hw_upcast_event_done(hw_upcast_event *upcast);

/*
 * *ret_event is the event itself, or the upcast one, borrowed from the event and from lifted.
 * upcasts may be NULL.  INVALID when a step is missing or fails.
 */
int hw_upcast(hw_upcasts *upcasts, const howdah_event *event, hw_upcast_event *upcast,
              const howdah_event **ret_event, howdah_error *reterr);

void hw_upcasts_free(hw_upcasts *upcasts);

#endif
