/* place.c - places to be compared, for who has one tail for many clients; see engine/place.h. */
#include "engine/place.h"

#include "base/error.h"
#include "base/mem.h"

int howdah_place_new(const char *text, howdah_place **ret_place, howdah_error *reterr)
{
    howdah_place *place;
    int s;

    if (!text || !ret_place)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_place_new: an argument is NULL");
    place = hw_calloc(1, sizeof *place);
    s = place ? hw_place_parse(hw_str_of(text), place, reterr) : hw_fail_no_memory(reterr);
    if (s < 0) {
        hw_free(place);
        return s;
    }
    *ret_place = place;
    return HOWDAH_OK;
}

void howdah_place_free(howdah_place *place)
{
    if (place)
        hw_ranges_done(&place->outstanding);
    hw_free(place);
}

bool howdah_place_covers(const howdah_place *place, int64_t sequence)
{
    return place && sequence <= place->high && !hw_ranges_has(&place->outstanding, sequence);
}

/* What place lacks of 1..upto has to be outstanding for the other one as well.  Its ranges do not
   touch, so one of ours lies within one of them. */
static bool lacks(const howdah_place *other, int64_t first, int64_t last)
{
    const hw_ranges *set = &other->outstanding;
    size_t i = hw_ranges_find(set, first);

    return first > last ||
           (i < set->n && set->items[i].first <= first && set->items[i].last >= last);
}

bool howdah_place_includes(const howdah_place *place, const howdah_place *other)
{
    const hw_ranges *set = place ? &place->outstanding : NULL;

    if (!place || !other || place->log != other->log || !lacks(other, place->high + 1, other->high))
        return false;
    for (size_t i = 0; i < set->n && set->items[i].first <= other->high; i++) {
        int64_t last = set->items[i].last < other->high ? set->items[i].last : other->high;

        if (!lacks(other, set->items[i].first, last))
            return false;
    }
    return true;
}
