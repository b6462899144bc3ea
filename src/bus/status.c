/* status.c - facts about a bus. */
#include "base/error.h"
#include "bus/bus.h"

/* The facts are the store's own: which there are differs between the engines. */
int howdah_facts_walk(howdah_bus *bus, int (*fn)(void *ctx, const howdah_fact *fact), void *ctx,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_facts_walk", reterr);

    if (s < 0)
        return s;
    if (!fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_facts_walk: an argument is NULL");
    return bus->store->ops->status(bus->store, fn, ctx, reterr);
}
