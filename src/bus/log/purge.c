/* purge.c - erasing payloads for good, and the record of who did it. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/log/query.h"
#include "engine/rules.h"

/* All or none: on failure nothing is handed over. */
static int parse_ids(const howdah_purge_options *o, hw_uuid **ret_ids, howdah_error *reterr)
{
    hw_uuid *ids = hw_calloc(o->ids_n, sizeof *ids);
    int s = HOWDAH_OK;

    assert(o->ids_n > 0);
    if (!ids)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; s >= 0 && i < o->ids_n; i++) {
        if (!o->ids[i])
            s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_purge: id %zu is NULL", i + 1);
        else
            s = hw_parse_uuid("id", o->ids[i], &ids[i], reterr);
    }
    if (s < 0)
        hw_free(ids);
    else
        *ret_ids = ids;
    return s;
}

/*
 * A purge cannot be undone, so everything is checked before the store is asked: a stream or ids,
 * never both, and always a reason.
 */
static int check(const howdah_purge_options *o, howdah_error *reterr)
{
    int s = hw_rule_reason(hw_str_of(o->reason), reterr);

    if (s >= 0 && o->actor)
        s = hw_rule_name("actor", hw_str_of(o->actor), reterr);
    if (s >= 0 && o->stream)
        s = hw_rule_stream(hw_str_of(o->stream), reterr);
    if (s < 0)
        return s;
    if (!o->stream && o->ids_n == 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "stream", "a stream or ids are required");
    if (o->stream && (o->ids_n > 0 || o->families))
        return hw_fail_field(reterr, HOWDAH_INVALID, "stream",
                             "cannot be given together with ids or families");
    if (o->ids_n > HOWDAH_PURGE_IDS_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "ids", "at most %d in a purge, got %zu",
                             HOWDAH_PURGE_IDS_MAX, o->ids_n);
    if (o->ids_n > 0 && !o->ids)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_purge: ids is NULL");
    return HOWDAH_OK;
}

/* The store erases and writes the record in one transaction; who did it is part of the record. */
int howdah_purge(howdah_bus *bus, const howdah_purge_options *options,
                 howdah_purge_record *ret_record, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_purge_options own = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    hw_purge purge;
    hw_uuid *ids = NULL;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_purge", reterr);

    if (s < 0)
        return s;
    if (!options)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_purge: an argument is NULL");
    s = hw_times_check(bus, "howdah_purge", reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_purge", reterr);
    if (s >= 0)
        s = hw_sized_check(ret_record, "howdah_purge", reterr);
    options = &own;
    if (s >= 0)
        s = check(options, reterr);
    if (s >= 0 && options->ids_n > 0)
        s = parse_ids(options, &ids, reterr);
    if (s < 0)
        return s;
    purge = (hw_purge){.stream = hw_str_of(options->stream),
                       .ids = ids,
                       .ids_n = options->ids_n,
                       .families = options->families,
                       .reason = hw_str_of(options->reason),
                       .actor = hw_str_of(options->actor)};
    s = bus->store->ops->times->purge(bus->store, &purge, &record, reterr);
    hw_free(ids);
    if (s < 0)
        return s;
    if (record.id ==
        0) /* nothing was left to purge: a server has looked at its clock all the same */
        record.purged_at_us = HOWDAH_NO_TIME;
    if (ret_record)
        (void)hw_sized_give(ret_record, &record, sizeof record);
    return HOWDAH_OK;
}

int howdah_purges_walk(howdah_bus *bus, int (*fn)(void *ctx, const howdah_purge_record *record),
                       void *ctx, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_purges_walk", reterr);

    if (s >= 0)
        s = hw_times_check(bus, "howdah_purges_walk", reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_purges_walk: an argument is NULL");
    return s < 0 ? s : bus->store->ops->times->purges(bus->store, fn, ctx, reterr);
}
