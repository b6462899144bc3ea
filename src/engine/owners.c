/*
 * owners.c - proof by owners that a missing number will never appear.
 *
 * What a look remembers is what it saw, each owner with the number of the look that saw it first:
 * a merge of two sorted lists.  The horizon follows from the smallest of those numbers.
 */
#include "engine/owners.h"

#include <assert.h>

#include "base/mem.h"

void hw_owners_init(hw_owners *owners)
{
    *owners = (hw_owners){0, NULL, 0, 0};
}

void hw_owners_done(hw_owners *owners)
{
    hw_free(owners->items);
    hw_owners_init(owners);
}

/* The look that saw id first; *at walks the old list along with the new one. */
static uint64_t seen_first(const hw_owners *owners, uint64_t id, size_t *at)
{
    while (*at < owners->n && owners->items[*at].id < id)
        (*at)++;
    if (*at < owners->n && owners->items[*at].id == id)
        return owners->items[*at].since;
    return owners->look + 1;
}

int hw_owners_look(hw_owners *owners, const uint64_t *ids, size_t n, howdah_error *reterr)
{
    hw_owner *items = NULL;
    size_t at = 0;

    if (n > HW_OWNERS_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT, "more than %d transactions hold numbers of the log",
                       HW_OWNERS_MAX);
    if (n > 0) {
        items = hw_calloc(n, sizeof *items);
        if (!items)
            return hw_fail_no_memory(reterr);
    }
    for (size_t i = 0; i < n; i++) {
        assert(i == 0 || ids[i - 1] < ids[i]);
        items[i] = (hw_owner){ids[i], seen_first(owners, ids[i], &at)};
    }
    hw_free(owners->items);
    *owners = (hw_owners){owners->look + 1, items, n, n};
    return HOWDAH_OK;
}

uint64_t hw_owners_fence(const hw_owners *owners)
{
    assert(owners->look > 0);
    return owners->look;
}

uint64_t hw_owners_horizon(const hw_owners *owners)
{
    uint64_t horizon = owners->look;

    for (size_t i = 0; i < owners->n; i++) {
        if (owners->items[i].since <= horizon)
            horizon = owners->items[i].since - 1;
    }
    return horizon;
}
