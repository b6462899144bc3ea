/* filter.c - which events concern a subscription; see filter.h. */
#include "engine/filter.h"

#include "engine/pattern.h"

/*
 * Stores filter by the same parts.  The verdict is given here once more for every row, because rows
 * of the shared window were read for all subscriptions at once.
 */
bool hw_filter_lets(const hw_filter *filter, const howdah_event *event)
{
    return hw_pattern_matches(filter->pattern, event->type) &&
           (!filter->stream.s || hw_str_equal(filter->stream, event->stream)) &&
           (!filter->originals || event->revision == 1);
}

bool hw_filter_equal(const hw_filter *a, const hw_filter *b)
{
    return hw_str_equal(a->pattern, b->pattern) && hw_str_equal(a->stream, b->stream) &&
           a->originals == b->originals;
}
