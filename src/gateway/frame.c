/* frame.c - see frame.h. */
#include "gateway/frame.h"

#include "face/events.h"

/* A type is of letters, digits, dots and hyphens: it cannot break a line. */
int gw_frame_put(hw_buf *out, const howdah_event *event, const char *place, howdah_error *reterr)
{
    int s;

    hw_buf_printf(out, "id: %s\nevent: %s\ndata: ", place, howdah_event_type(event));
    s = face_event_json(event, out, reterr);
    hw_buf_puts(out, "\n\n");
    return s;
}
