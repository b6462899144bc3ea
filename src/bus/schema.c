/* schema.c - creating and migrating the schema, through whatever store there is. */
#include "base/error.h"
#include "bus/bus.h"

int howdah_migrate(howdah_bus *bus, const howdah_migrate_options *options, howdah_error *reterr)
{
    int s;

    if (!bus)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_migrate: bus is NULL");
    s = hw_check_options(options, sizeof *options, "howdah_migrate", reterr);
    if (s < 0)
        return s;
    return bus->store->ops->migrate(bus->store, options ? options->note : NULL,
                                    options ? options->note_ctx : NULL, reterr);
}

int howdah_migrate_status(howdah_bus *bus, int (*fn)(void *ctx, const howdah_step_info *step),
                          void *ctx, howdah_error *reterr)
{
    if (!bus || !fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_migrate_status: an argument is NULL");
    return bus->store->ops->migrate_status(bus->store, fn, ctx, reterr);
}
