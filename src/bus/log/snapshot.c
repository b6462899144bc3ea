/* snapshot.c - snapshots of a stream's state, and the state at a version. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/log/query.h"
#include "engine/rules.h"

/* Version 0 is no bound here; howdah_snapshot_store() refuses it itself. */
static int check_stream(const howdah_bus *bus, const char *stream, int64_t version,
                        const char *call, howdah_error *reterr)
{
    int s = hw_times_check(bus, call, reterr);

    if (s >= 0 && !stream)
        s = hw_fail(reterr, HOWDAH_MISUSE, "%s: an argument is NULL", call);
    if (s >= 0)
        s = hw_rule_stream(hw_str_of(stream), reterr);
    if (s >= 0 && version < 0)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "version", "must be 0 or more");
    return s;
}

/* A copy, because a store needs a NUL after the data and the caller's need not have one. */
static int store_copy(howdah_bus *bus, const howdah_snapshot *from, int64_t keep,
                      howdah_error *reterr)
{
    howdah_snapshot snapshot = *from;
    char *data = hw_alloc(from->data_len + 1);
    int s;

    assert(from->data && from->version > 0 && keep >= 0);
    if (!data)
        return hw_fail_no_memory(reterr);
    memcpy(data, from->data, from->data_len);
    data[from->data_len] = '\0';
    snapshot.data = data;
    s = bus->store->ops->times->snapshot_put(bus->store, &snapshot, keep, reterr);
    hw_free(data);
    return s;
}

/* Checked like an event's payload, and against the same limit. */
int howdah_snapshot_store(howdah_bus *bus, const howdah_snapshot *snapshot, int64_t keep,
                          howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_snapshot own = HOWDAH_SNAPSHOT_INIT;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_snapshot_store", reterr);

    if (s < 0)
        return s;
    if (!snapshot)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_snapshot_store: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, snapshot, "howdah_snapshot_store", reterr);
    snapshot = &own;
    if (s >= 0)
        s = check_stream(bus, snapshot->stream, snapshot->version, "howdah_snapshot_store", reterr);
    if (s >= 0 && snapshot->version == 0)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "version", "must be 1 or more");
    if (s >= 0 && keep < 0)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "keep", "must be 0 (all) or more");
    if (s >= 0)
        s = hw_rule_schema_version(snapshot->schema_version, reterr);
    if (s >= 0)
        s = hw_rule_payload((hw_str){snapshot->data, snapshot->data_len},
                            hw_str_of(snapshot->content_type), bus->payload_bytes_max, reterr);
    return s < 0 ? s : store_copy(bus, snapshot, keep, reterr);
}

/* ------------------------------------------------------------------ loading */

/* A snapshot and its texts, in one block. */
typedef struct owned_snapshot {
    howdah_snapshot snapshot;
    char texts[];
} owned_snapshot;

/* What keep_copy() is given, and what it leaves. */
typedef struct loading {
    howdah_snapshot *result;
    int failed;
    howdah_error *reterr;
} loading;

/* A text at *at, with a NUL; NULL stays NULL. */
static const char *put(char **at, const char *text, size_t len)
{
    const char *start = *at;

    if (!text)
        return NULL;
    memcpy(*at, text, len);
    (*at)[len] = '\0';
    *at += len + 1;
    return start;
}

/* The store's texts live only during this call, so all of them are copied. */
static int keep_copy(void *ctx, const howdah_snapshot *s)
{
    loading *l = ctx;
    size_t stream_len = strlen(s->stream);
    size_t type_len = s->content_type ? strlen(s->content_type) : 0;
    owned_snapshot *copy = hw_alloc(sizeof *copy + stream_len + s->data_len + type_len + 3);
    char *at;

    if (!copy) {
        l->failed = hw_fail_no_memory(l->reterr);
        return 1;
    }
    at = copy->texts;
    copy->snapshot = *s;
    copy->snapshot.stream = put(&at, s->stream, stream_len);
    copy->snapshot.data = put(&at, s->data, s->data_len);
    copy->snapshot.content_type = put(&at, s->content_type, type_len);
    assert((size_t)(at - copy->texts) <= stream_len + s->data_len + type_len + 3);
    l->result = &copy->snapshot;
    return 0;
}

/*
 * HOWDAH_END without one.  A failure of our own callback comes before the store's verdict, which
 * only knows that the callback wanted no more.
 */
static int load(howdah_bus *bus, const char *stream, int64_t version,
                howdah_snapshot **ret_snapshot, howdah_error *reterr)
{
    loading l = {.reterr = reterr};
    int s = bus->store->ops->times->snapshot_get(bus->store, hw_str_of(stream), version, keep_copy,
                                                 &l, reterr);

    if (l.failed)
        return l.failed;
    if (s == HOWDAH_OK)
        *ret_snapshot = l.result;
    else
        howdah_snapshot_free(l.result);
    return s;
}

int howdah_snapshot_load(howdah_bus *bus, const char *stream, int64_t version,
                         howdah_snapshot **ret_snapshot, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_snapshot_load", reterr);

    if (s < 0)
        return s;
    if (!ret_snapshot)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_snapshot_load: an argument is NULL");
    s = check_stream(bus, stream, version, "howdah_snapshot_load", reterr);
    if (s >= 0)
        s = load(bus, stream, version, ret_snapshot, reterr);
    if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "the stream has no snapshot%s",
                    version > 0 ? " at or below this version" : "");
    return s;
}

/* The snapshot is the first member of its block. */
void howdah_snapshot_free(howdah_snapshot *snapshot)
{
    hw_free(snapshot);
}

/* Without a snapshot the reader starts at the first event, so a caller has one way for both. */
int howdah_state_open(howdah_bus *bus, const char *stream, int64_t version,
                      howdah_snapshot **ret_snapshot, howdah_reader **ret_reader,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_snapshot *snapshot = NULL;
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_state_open", reterr);

    if (s < 0)
        return s;
    if (!ret_snapshot || !ret_reader)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_state_open: an argument is NULL");
    s = check_stream(bus, stream, version, "howdah_state_open", reterr);
    if (s >= 0)
        s = load(bus, stream, version, &snapshot, reterr);
    if (s < 0)
        return s;
    o.stream = stream;
    o.from = snapshot ? snapshot->version + 1 : 1;
    o.to = version;
    s = howdah_reader_open(bus, &o, ret_reader, reterr);
    if (s < 0) {
        howdah_snapshot_free(snapshot);
        return s;
    }
    *ret_snapshot = snapshot;
    return HOWDAH_OK;
}

/* --------------------------------------------------------------- all of them */

int howdah_snapshots_walk(howdah_bus *bus, const char *stream,
                          int (*fn)(void *ctx, const howdah_snapshot *snapshot), void *ctx,
                          howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_snapshots_walk", reterr);

    if (s >= 0)
        s = stream ? check_stream(bus, stream, 0, "howdah_snapshots_walk", reterr)
                   : hw_times_check(bus, "howdah_snapshots_walk", reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_snapshots_walk: an argument is NULL");
    return s < 0 ? s
                 : bus->store->ops->times->snapshot_list(bus->store, hw_str_of(stream), fn, ctx,
                                                         reterr);
}

/* upto 0 is no bound: all of the stream's snapshots. */
int howdah_snapshots_remove(howdah_bus *bus, const char *stream, int64_t upto, int64_t *ret_removed,
                            howdah_error *reterr)
{
    HW_ENTRY(entry);
    int64_t removed = 0;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_snapshots_remove", reterr);

    if (s >= 0)
        s = check_stream(bus, stream, upto, "howdah_snapshots_remove", reterr);
    if (s >= 0)
        s = bus->store->ops->times->snapshot_remove(bus->store, hw_str_of(stream), upto, &removed,
                                                    reterr);
    if (s >= 0 && ret_removed)
        *ret_removed = removed;
    return s;
}
