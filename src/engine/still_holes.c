/* still_holes.c - missing numbers that stand still; see still_holes.h. */
#include "engine/still_holes.h"

#include <assert.h>

#include "base/mem.h"

/*
 * The ranges are handed over, not copied: there may be millions of them.  On failure they stay
 * with the caller.
 */
int hw_still_new(hw_ranges *ranges, uint64_t version, hw_still **ret_still, howdah_error *reterr)
{
    hw_still *still;

    if (ranges->n > HW_STILL_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT,
                       "more than %d ranges of numbers are missing under open transactions",
                       HW_STILL_MAX);
    still = hw_calloc(1, sizeof *still);
    if (!still)
        return hw_fail_no_memory(reterr);
    *still = (hw_still){1, version, *ranges};
    *ranges = (hw_ranges)HW_RANGES_INIT;
    *ret_still = still;
    return HOWDAH_OK;
}

/* The counter is no atomic: one thread counts (I4). */
hw_still *hw_still_share(hw_still *still)
{
    assert(!still || still->refs > 0);
    if (still)
        still->refs++;
    return still;
}

void hw_still_drop(hw_still *still)
{
    if (!still || --still->refs > 0)
        return;
    assert(still->refs == 0);
    hw_ranges_done(&still->ranges);
    hw_free(still);
}

const hw_ranges *hw_still_ranges(const hw_still *still)
{
    static const hw_ranges none = HW_RANGES_INIT;

    return still ? &still->ranges : &none;
}

void hw_late_init(hw_late *late, uint64_t since)
{
    *late = (hw_late){.since = since};
}

void hw_late_done(hw_late *late)
{
    hw_free(late->items);
    hw_late_init(late, late->since);
}

/* False both without memory and beyond the limit: hw_late_note() has the same answer to both. */
static bool reserve(hw_late *late, size_t extra)
{
    size_t room = late->room ? late->room : 16;
    hw_late_piece *items;

    if (late->n + extra > HW_LATE_MAX)
        return false;
    while (room < late->n + extra)
        room *= 2;
    if (room == late->room)
        return true;
    items = hw_realloc(late->items, room * sizeof *items);
    if (!items)
        return false;
    late->items = items;
    late->room = room;
    return true;
}

/*
 * Forgetting all is safe: with a later "since", older versions are simply unknown (I3), and their
 * owners have to find out in another way.
 */
void hw_late_note(hw_late *late, uint64_t version, const hw_ranges *visible)
{
    assert(version >= late->since);
    if (!reserve(late, visible->n)) {
        late->n = 0;
        late->since = version;
        return;
    }
    for (size_t i = 0; i < visible->n; i++)
        late->items[late->n++] = (hw_late_piece){version, visible->items[i]};
}

/*
 * END: the notes do not reach back so far, or the version's age is unknown (0).  The caller then
 * has to ask the store what became of the numbers.
 */
int hw_late_between(const hw_late *late, uint64_t version, uint64_t upto, hw_ranges *out,
                    howdah_error *reterr)
{
    int s = HOWDAH_OK;

    hw_ranges_clear(out);
    if (version == 0 || version < late->since)
        return HOWDAH_END;
    for (size_t i = 0; s >= 0 && i < late->n; i++) {
        const hw_late_piece *piece = &late->items[i];

        if (piece->version > version && piece->version <= upto)
            s = hw_ranges_add(out, piece->range.first, piece->range.last, reterr);
    }
    return s;
}
