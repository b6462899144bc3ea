/* filter.h - which events concern a subscription: its pattern, its stream, its view. */
#ifndef HW_ENGINE_FILTER_H
#define HW_ENGINE_FILTER_H

#include "engine/event.h"

/* All parts are joined by AND. */
typedef struct hw_filter {
    hw_str pattern; /* absent: every type */
    hw_str stream;  /* absent: every stream */
    bool originals; /* no corrections: first revisions only */
} hw_filter;

#define HW_FILTER_ALL ((hw_filter){HW_STR_NULL, HW_STR_NULL, false})

bool hw_filter_lets(const hw_filter *filter, const howdah_event *event);
bool hw_filter_equal(const hw_filter *a, const hw_filter *b);

#endif
