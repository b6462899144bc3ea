/* schema.c - creating and migrating the schema, through whatever store there is. */
#include "base/error.h"
#include "base/sized.h"
#include "bus/bus.h"

/* The store takes its own lock: several processes may migrate at once. */
int howdah_migrate(howdah_bus *bus, const howdah_migrate_options *options, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_migrate_options own = HOWDAH_MIGRATE_OPTIONS_INIT;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_migrate", reterr);

    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_migrate", reterr);
    return s < 0 ? s : bus->store->ops->migrate(bus->store, own.note, own.note_ctx, reterr);
}

int howdah_migrations_walk(howdah_bus *bus, int (*fn)(void *ctx, const howdah_migration_info *step),
                           void *ctx, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_migrations_walk", reterr);

    if (s < 0)
        return s;
    if (!fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_migrations_walk: an argument is NULL");
    return bus->store->ops->migrate_status(bus->store, fn, ctx, reterr);
}
