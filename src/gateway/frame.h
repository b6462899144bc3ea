/* frame.h - an event as a server-sent event. */
#ifndef HW_GATEWAY_FRAME_H
#define HW_GATEWAY_FRAME_H

#include <howdah/howdah.h>

#include "base/buf.h"

/* "id: PLACE\nevent: TYPE\ndata: {...}\n\n".  JSON of an event has no line breaks. */
int gw_frame_put(hw_buf *out, const howdah_event *event, const char *place, howdah_error *reterr);

#endif
