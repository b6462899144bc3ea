/* read.c - readers, single events, causation trees. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/log/read.h"
#include "engine/pattern.h"
#include "engine/rules.h"

static int check_position(const char *field, int64_t value, howdah_error *reterr)
{
    if (value < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "must be 0 or more");
    return HOWDAH_OK;
}

/*
 * Options as the store's terms.  Every name is checked by the rule of the field, so that a
 * question for a name that cannot exist is an error and not an empty answer.
 */
static int to_query(const howdah_reader_options *o, hw_query *q, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    *q = (hw_query){.stream = hw_str_of(o->stream),
                    .type = hw_str_of(o->type),
                    .pattern = hw_str_of(o->pattern),
                    .correlation_id = hw_str_of(o->correlation_id),
                    .from = o->from,
                    .to = o->to,
                    .limit = o->limit,
                    .backward = o->backward};
    if (s == HOWDAH_OK && q->stream.s)
        s = hw_rule_stream(q->stream, reterr);
    if (s == HOWDAH_OK && q->type.s)
        s = hw_rule_type(q->type, reterr);
    if (s == HOWDAH_OK && q->pattern.s)
        s = hw_rule_pattern(q->pattern, reterr);
    if (s == HOWDAH_OK && q->correlation_id.s)
        s = hw_rule_name("correlation_id", q->correlation_id, reterr);
    if (s == HOWDAH_OK)
        s = check_position("from", q->from, reterr);
    if (s == HOWDAH_OK)
        s = check_position("to", q->to, reterr);
    if (s == HOWDAH_OK)
        s = check_position("limit", q->limit, reterr);
    if (s < 0)
        return s;
    hw_pattern_to_type(&q->type, &q->pattern);
    q->sparse = q->pattern.s != NULL; /* until its first page tells */
    return HOWDAH_OK;
}

/* Called when nobody is inside the reader any more (entry.h I6). */
static void close_reader(hw_closing *closing)
{
    howdah_reader *reader = (howdah_reader *)closing; /* its first member */

    _Static_assert(offsetof(howdah_reader, closing) == 0, "closing it is closing the reader");
    reader->store->ops->read_close(reader->cursor);
    hw_upcast_event_done(&reader->upcast);
    hw_free(reader);
}

/* A reader over a cursor, which it takes over: on failure the cursor is closed. */
static int make_reader(howdah_bus *bus, hw_cursor *cursor, howdah_reader **ret_reader,
                       howdah_error *reterr)
{
    howdah_reader *reader = hw_calloc(1, sizeof *reader);

    if (!reader) {
        bus->store->ops->read_close(cursor);
        return hw_fail_no_memory(reterr);
    }
    reader->bus = bus;
    reader->closing.close = close_reader;
    reader->store = bus->store;
    reader->cursor = cursor;
    reader->upcasts = bus->upcasts;
    reader->knowledge = (howdah_knowledge)HOWDAH_KNOWLEDGE_INIT;
    hw_upcast_event_init(&reader->upcast);
    *ret_reader = reader;
    return HOWDAH_OK;
}

int hw_reader_open(howdah_bus *bus, hw_query *query, howdah_reader **ret_reader,
                   howdah_error *reterr)
{
    hw_cursor *cursor = NULL;
    int s;

    query->batch = bus->read_batch;
    s = bus->store->ops->read_open(bus->store, query, &cursor, reterr);
    return s < 0 ? s : make_reader(bus, cursor, ret_reader, reterr);
}

int hw_reader_open_times(howdah_bus *bus, hw_times_query *query, howdah_reader **ret_reader,
                         howdah_error *reterr)
{
    hw_cursor *cursor = NULL;
    int s;

    query->batch = bus->read_batch;
    s = bus->store->ops->times->query_open(bus->store, query, &cursor, reterr);
    return s < 0 ? s : make_reader(bus, cursor, ret_reader, reterr);
}

int howdah_reader_open(howdah_bus *bus, const howdah_reader_options *options,
                       howdah_reader **ret_reader, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_reader_options own = HOWDAH_READER_OPTIONS_INIT;
    hw_query query;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_reader_open", reterr);

    if (s < 0)
        return s;
    if (!ret_reader)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_reader_open: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_reader_open", reterr);
    if (s >= 0)
        s = to_query(&own, &query, reterr);
    return s < 0 ? s : hw_reader_open(bus, &query, ret_reader, reterr);
}

/* "Since" excludes the sequence itself, so that the last one seen can be handed in again. */
int howdah_reader_open_since(howdah_bus *bus, int64_t since, howdah_reader **ret_reader,
                             howdah_error *reterr)
{
    howdah_reader_options options = HOWDAH_READER_OPTIONS_INIT;

    if (since < 0 || since == INT64_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "since", "must be a sequence, 0 or more");
    options.from = since + 1;
    return howdah_reader_open(bus, &options, ret_reader, reterr);
}

/* The events are borrowed from the cursor until its next call. */
static int next_batch(howdah_reader *reader, howdah_error *reterr)
{
    reader->at = reader->n = 0;
    return reader->store->ops->read_next(reader->cursor, &reader->events, &reader->n, reterr);
}

/*
 * An upcast step is the user's code and may close this very reader: while it runs, closing is put
 * off (entry.h I6).  After an error the position is unknown, so every later call fails, too.
 */
int howdah_reader_next(howdah_reader *reader, const howdah_event **ret_event, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = reader ? reader->bus : NULL;
    int s;

    if (!reader || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_reader_next: an argument is NULL");
    s = hw_enter(&entry, &bus, HW_ITSELF, "howdah_reader_next", reterr);
    if (s < 0)
        return s;
    if (reader->failed)
        return hw_fail(reterr, reader->failed, "this reader has failed before: open another");
    if (reader->at == reader->n)
        s = next_batch(reader, reterr);
    assert(s != HOWDAH_OK || reader->at < reader->n);
    hw_closing_works(&reader->closing, true);
    if (s == HOWDAH_OK)
        s = hw_upcast(reader->upcasts, &reader->events[reader->at++], &reader->upcast, ret_event,
                      reterr);
    hw_closing_works(&reader->closing, false);
    if (s < 0)
        reader->failed = s;
    return s;
}

void howdah_reader_close(howdah_reader *reader)
{
    if (reader)
        hw_close_soon(reader->bus, &reader->closing);
}

/* The first event of a query, as a copy of its own; NOT_FOUND with this text without one. */
static int read_one(howdah_bus *bus, hw_query *query, const char *missing, howdah_event **ret_event,
                    howdah_error *reterr)
{
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s = hw_reader_open(bus, query, &reader, reterr);

    if (s < 0)
        return s;
    s = howdah_reader_next(reader, &event, reterr);
    if (s == HOWDAH_OK)
        s = hw_event_clone(event, ret_event, reterr);
    else if (s == HOWDAH_END)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "%s", missing);
    howdah_reader_close(reader);
    return s;
}

/* The text is not NULL: callers have checked it. */
int hw_parse_uuid(const char *field, const char *text, hw_uuid *ret_id, howdah_error *reterr)
{
    if (!hw_uuid_parse(text, strlen(text), ret_id))
        return hw_fail_field(reterr, HOWDAH_INVALID, field,
                             "not a UUID: wanted 36 characters, got %zu", strlen(text));
    return HOWDAH_OK;
}

int howdah_event_get(howdah_bus *bus, const char *uuid, howdah_event **ret_event,
                     howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_uuid id;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_event_get", reterr);

    if (s < 0)
        return s;
    if (!uuid || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_event_get: an argument is NULL");
    s = hw_parse_uuid("id", uuid, &id, reterr);
    if (s < 0)
        return s;
    return read_one(bus, &(hw_query){.ids = &id, .ids_n = 1}, "no event has this id", ret_event,
                    reterr);
}

/* Backward with a limit of 1: the store reads one row of an index. */
int howdah_event_get_last(howdah_bus *bus, const char *stream, howdah_event **ret_event,
                          howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_query query = {.stream = hw_str_of(stream), .backward = true, .limit = 1};
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_event_get_last", reterr);

    if (s < 0)
        return s;
    if (!stream || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_event_get_last: an argument is NULL");
    s = hw_rule_stream(query.stream, reterr);
    return s < 0 ? s : read_one(bus, &query, "the stream has no event", ret_event, reterr);
}

/* ------------------------------------------------------------------ trees */

/*
 * Events of a tree that are fetched together: a tree may be large, and a caller may stop early.
 */
#define TREE_SLICE 256

typedef int (*tree_fn)(void *ctx, int depth, const howdah_event *event);

/* Copies an event to the place of its id in the slice. */
static int keep_in_place(const howdah_event *event, const hw_uuid *ids, size_t n,
                         howdah_event **found, howdah_error *reterr)
{
    assert(event);
    for (size_t i = 0; i < n; i++)
        if (!found[i] && hw_uuid_equal(&ids[i], &event->id))
            return hw_event_clone(event, &found[i], reterr);
    return HOWDAH_OK;
}

/*
 * Fetches a slice of the tree and hands it out in tree order; the store answers by sequence.  An
 * event that was removed meanwhile is left out.
 */
static int walk_slice(howdah_bus *bus, const hw_uuid *ids, const int *depths, size_t n, tree_fn fn,
                      void *ctx, bool *ret_stop, howdah_error *reterr)
{
    howdah_event *found[TREE_SLICE] = {NULL};
    hw_query query = {.ids = ids, .ids_n = n};
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s = hw_reader_open(bus, &query, &reader, reterr);

    assert(n > 0 && n <= TREE_SLICE);
    if (s < 0)
        return s;
    while (s == HOWDAH_OK) {
        s = howdah_reader_next(reader, &event, reterr);
        if (s == HOWDAH_OK)
            s = keep_in_place(event, ids, n, found, reterr);
    }
    howdah_reader_close(reader);
    for (size_t i = 0; i < n; i++) {
        if (s == HOWDAH_END && found[i] && !*ret_stop)
            *ret_stop = fn(ctx, depths[i], found[i]) != 0;
        hw_event_free(found[i]);
    }
    return s == HOWDAH_END ? HOWDAH_OK : s;
}

/* The store finds ids and depths of the whole tree in one call; the events follow in slices. */
int howdah_causation_walk(howdah_bus *bus, const char *uuid, tree_fn fn, void *ctx,
                          howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_uuid id;
    hw_uuid *ids = NULL;
    int *depths = NULL;
    size_t n = 0;
    bool stop = false;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_causation_walk", reterr);

    if (s < 0)
        return s;
    if (!uuid || !fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_causation_walk: an argument is NULL");
    s = hw_parse_uuid("id", uuid, &id, reterr);
    if (s < 0)
        return s;
    s = bus->store->ops->tree(bus->store, &id, &ids, &depths, &n, reterr);
    if (s >= 0 && n == 0)
        s = hw_fail(reterr, HOWDAH_NOT_FOUND, "no event has this id");
    for (size_t at = 0; s >= 0 && !stop && at < n; at += TREE_SLICE) {
        size_t slice = n - at < TREE_SLICE ? n - at : TREE_SLICE;

        s = walk_slice(bus, ids + at, depths + at, slice, fn, ctx, &stop, reterr);
    }
    hw_free(ids);
    hw_free(depths);
    return s;
}
