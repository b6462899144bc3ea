/*
 * append.c - append, over any store.
 *
 * A store makes one attempt and says what stood in its way; what that means is decided here,
 * once for all stores:
 *
 *   I1  An id that is stored with the same content is answered with its position, whatever the
 *       stream's version is by now: a repeated append must succeed however late it comes.
 *   I2  CONFLICT is reported only after the ids were looked up (I1) and the stream's version was
 *       read after the failed attempt.
 *   I3  A lost race is repeated while the expectations can still be met; the number of attempts
 *       is bounded, and after a few the store is asked to stand in line.
 *   I4  Nothing is repeated after an error: the store has said what is true (store.h I2, I3).
 */
#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/sized.h"
#include "bus/bus.h"
#include "engine/backoff.h"
#include "engine/batch.h"
#include "engine/rules.h"

/* With the pauses below about two seconds: a stream that is lost so long is overloaded. */
#define ATTEMPTS_MAX 40
#define LUCK_ATTEMPTS 2 /* after so many lost races the batch queues up */
#define RACE_PAUSE_MS 1
#define RACE_PAUSE_MAX_MS 50

/* One append on its way; by_id and stored are made only when an attempt has failed. */
typedef struct append_call {
    hw_store *store;
    const hw_interrupt *interrupt;
    const hw_import_place *mark;
    const howdah_event *const *events;
    size_t n;
    int64_t expected;
    bool correction; /* it is one: only then an event may say that it corrects another */
    howdah_position *positions;
    /* Filled by resolve_repeats(): which events are stored already. */
    bool *stored;
    size_t stored_n;
    struct by_id *by_id; /* the events, sorted by id */
} append_call;

typedef struct by_id {
    hw_uuid id;
    size_t index;
} by_id;

/*
 * An event that a builder made was checked when it was built, against the hard limit; only the
 * bus's own limit is left to ask.  One that a store handed out, or that we composed, is checked
 * in full.
 */
static int check_event(const howdah_event *e, bool correction, size_t payload_bytes_max,
                       howdah_error *reterr)
{
    if (e->has_corrects && !correction) {
        int s =
            hw_fail_field(reterr, HOWDAH_INVALID, "corrects", "an append cannot correct an event");

        return hw_advise(reterr, s, "howdah_correct() makes a correction");
    }
    if (!e->checked)
        return hw_rule_event(e, payload_bytes_max, reterr);
    return e->data.len <= payload_bytes_max ? HOWDAH_OK
                                            : hw_rule_bytes(e->data.len, payload_bytes_max, reterr);
}

/*
 * The whole batch is checked before the store is asked for anything.  The message names the event
 * only where there are several.
 */
static int check_events(const howdah_event *const *events, size_t n, bool correction,
                        size_t payload_bytes_max, howdah_error *reterr)
{
    for (size_t i = 0; i < n; i++) {
        int s;

        if (!events[i])
            return hw_fail(reterr, HOWDAH_MISUSE, "event %zu is NULL", i + 1);
        s = check_event(events[i], correction, payload_bytes_max, reterr);
        if (s < 0) {
            if (n > 1)
                hw_error_prefix(reterr, "event %zu", i + 1);
            hw_error_at(reterr, i);
            return s;
        }
    }
    return HOWDAH_OK;
}

/* Any order will do, as long as sorting and searching share it. */
static int compare_ids(const void *a, const void *b)
{
    return memcmp(((const by_id *)a)->id.b, ((const by_id *)b)->id.b, sizeof(hw_uuid));
}

/* Only when an append has failed: the usual append never pays for it. */
static int sort_by_id(append_call *call, howdah_error *reterr)
{
    call->by_id = hw_calloc(call->n, sizeof *call->by_id);
    if (!call->by_id)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < call->n; i++)
        call->by_id[i] = (by_id){call->events[i]->id, i};
    qsort(call->by_id, call->n, sizeof *call->by_id, compare_ids);
    return HOWDAH_OK;
}

/* The event that has this id, or n. */
static size_t index_of_id(const append_call *call, const hw_uuid *id)
{
    by_id key = {*id, 0};
    const by_id *found;

    assert(call->by_id); /* resolve_repeats() sorted them */
    found = bsearch(&key, call->by_id, call->n, sizeof *call->by_id, compare_ids);

    return found ? found->index : call->n;
}

int hw_append_match(const howdah_event *event, size_t index, const howdah_event *stored,
                    howdah_position *ret_position, howdah_error *reterr)
{
    char id[HW_UUID_TEXT + 1];
    int s;

    if (hw_event_same_content(event, stored)) {
        ret_position->global_sequence = stored->global_sequence;
        ret_position->version = stored->version;
        ret_position->recorded_at_us = stored->recorded_at_us;
        ret_position->revision = stored->revision;
        ret_position->already_stored = 1;
        return HOWDAH_OK;
    }
    hw_uuid_format(&stored->id, id);
    s = hw_fail(reterr, HOWDAH_ID_REUSED,
                "event id %s is stored with other content, at sequence %lld", id,
                (long long)stored->global_sequence);
    hw_error_at(reterr, index);
    return hw_advise(reterr, s,
                     "give a new event a new id; an id is reused only to repeat "
                     "the very same append");
}

/*
 * One stored event that has the id of one of ours: the same event (I1), or a mistake.  An event
 * that was found before is not compared again, because a later round reads all ids once more.
 */
static int match_stored(append_call *call, const howdah_event *stored, howdah_error *reterr)
{
    size_t i = index_of_id(call, &stored->id);
    int s;

    assert(call->stored);
    if (i == call->n || call->stored[i])
        return HOWDAH_OK;
    s = hw_append_match(call->events[i], i, stored, &call->positions[i], reterr);
    if (s < 0)
        return s;
    call->stored[i] = true;
    call->stored_n++;
    return HOWDAH_OK;
}

/*
 * Looks up which of the ids are stored; what is known from before stays known.  Reads the events
 * and not only their positions, because the content decides (I1).
 */
static int resolve_repeats(append_call *call, howdah_error *reterr)
{
    const hw_store_ops *ops = call->store->ops;
    hw_uuid *ids = hw_calloc(call->n, sizeof *ids);
    hw_cursor *cursor = NULL;
    int s = HOWDAH_OK;

    if (!call->stored)
        call->stored = hw_calloc(call->n, sizeof *call->stored);
    if (!ids || !call->stored)
        s = hw_fail_no_memory(reterr);
    else if (!call->by_id)
        s = sort_by_id(call, reterr);
    if (s < 0) {
        hw_free(ids);
        return s;
    }
    for (size_t i = 0; i < call->n; i++)
        ids[i] = call->events[i]->id;
    s = ops->read_open(call->store, &(hw_query){.ids = ids, .ids_n = call->n, .batch = 1000},
                       &cursor, reterr);
    while (s == HOWDAH_OK) {
        const howdah_event *events = NULL;
        size_t n = 0;

        s = ops->read_next(cursor, &events, &n, reterr);
        for (size_t i = 0; s == HOWDAH_OK && i < n; i++)
            s = match_stored(call, &events[i], reterr);
    }
    if (cursor)
        ops->read_close(cursor);
    hw_free(ids);
    return s == HOWDAH_END ? HOWDAH_OK : s;
}

/*
 * The events that are not stored yet, as a batch of their own.  An expectation about a stream
 * that already holds some of our events was met when those were stored; it is not asked again.
 */
static int plan_rest(const append_call *call, const hw_batch *whole, const howdah_event **rest,
                     hw_batch *ret_batch, howdah_error *reterr)
{
    bool *touched = hw_calloc(whole->streams_n, sizeof *touched);
    size_t rest_n = 0;
    int s;

    if (!touched)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < call->n; i++) {
        if (call->stored[i])
            touched[whole->stream_no[i]] = true;
        else
            rest[rest_n++] = call->events[i];
    }
    assert(rest_n > 0 && rest_n == call->n - call->stored_n);
    s = hw_batch_init(ret_batch, rest, rest_n, HOWDAH_EXPECT_ANY, reterr);
    for (size_t i = 0, j = 0; s >= 0 && i < call->n; i++) {
        uint32_t stream = whole->stream_no[i];

        if (call->stored[i])
            continue;
        if (!touched[stream])
            ret_batch->streams[ret_batch->stream_no[j]].expected = whole->streams[stream].expected;
        j++;
    }
    hw_free(touched);
    return s;
}

/* A conflict about a stream of this batch: the stream's first event carries the expectation. */
static int conflict(const append_call *call, const hw_batch *batch, size_t stream_no,
                    int64_t actual, howdah_error *reterr)
{
    const hw_batch_stream *stream = &batch->streams[stream_no];
    int s = hw_batch_conflict(stream->name, stream->expected, actual, reterr);
    size_t first = 0;
    size_t index = 0;

    while (first < batch->n && batch->stream_no[first] != stream_no)
        first++;
    assert(first < batch->n);
    while (index < call->n && call->events[index] != batch->events[first])
        index++;
    assert(index < call->n);
    hw_error_at(reterr, index);
    return s;
}

/*
 * Why the attempt failed, if it was for a version: CONFLICT, or HOWDAH_OK to try again.  A
 * version that the store has read in the failed attempt itself is good enough; all others are
 * read now (I2).
 */
static int diagnose(const append_call *call, const hw_batch *batch, const hw_append_report *report,
                    howdah_error *reterr)
{
    assert(report->outcome == HW_APPEND_UNEXPECTED || report->outcome == HW_APPEND_VERSION_TAKEN);
    for (size_t i = 0; i < batch->streams_n; i++) {
        const hw_batch_stream *stream = &batch->streams[i];
        int64_t actual = 0;
        int s;

        if (report->outcome == HW_APPEND_UNEXPECTED && report->stream_no == i &&
            !hw_expectation_met(stream->expected, report->actual_version))
            return conflict(call, batch, i, report->actual_version, reterr);
        if (stream->expected == HOWDAH_EXPECT_ANY)
            continue;
        s = call->store->ops->stream_versions(call->store, &stream->name, 1, &actual, reterr);
        if (s < 0)
            return s;
        if (!hw_expectation_met(stream->expected, actual))
            return conflict(call, batch, i, actual, reterr);
    }
    return HOWDAH_OK;
}

/* Jitter of a half, so that writers that lost the same race do not meet again. */
static int pause_before(const append_call *call, unsigned attempt, howdah_error *reterr)
{
    int64_t ms = hw_backoff_ms(RACE_PAUSE_MS, RACE_PAUSE_MAX_MS, attempt, 50, hw_random_u32());

    return hw_sleep(call->interrupt, ms, reterr);
}

/*
 * Copies the positions of a stored rest back to where its events are in the call.  Those of
 * events that were found stored are there already.
 */
static void place_rest(const append_call *call, const howdah_position *rest)
{
    for (size_t i = 0, j = 0; i < call->n; i++)
        if (!call->stored[i])
            call->positions[i] = rest[j++];
}

/*
 * Tries until the batch is stored, refused, or found stored (I3, I4). ret_rest says that some of
 * its events are stored by now, and the others must go as a batch of their own.
 *
 * The ids come before anything else (I2): after a commit whose answer was lost, the repeat meets
 * its own events, and that must look like success and not like a conflict.
 */
static int try_batch(append_call *call, hw_batch *batch, howdah_position *positions, bool *ret_rest,
                     howdah_error *reterr)
{
    size_t stored_before = call->stored_n;

    for (unsigned attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
        hw_append_report report = {HW_APPEND_STORED, 0, HOWDAH_ABSENT};
        int s =
            call->store->ops->append(call->store, batch, call->mark, positions, &report, reterr);

        if (s < 0 || report.outcome == HW_APPEND_STORED)
            return s;
        s = resolve_repeats(call, reterr);
        if (s < 0)
            return s;
        if (call->stored_n > stored_before) {
            *ret_rest = true;
            return HOWDAH_OK;
        }
        if (report.outcome == HW_APPEND_REVISION_TAKEN)
            return hw_fail(reterr, HOWDAH_CONFLICT, "somebody else has corrected this event");
        if (report.outcome != HW_APPEND_ID_TAKEN) {
            s = diagnose(call, batch, &report, reterr);
            if (s < 0)
                return s;
        }
        batch->queue_up = attempt + 1 >= LUCK_ATTEMPTS; /* I3 */
        s = attempt ? pause_before(call, attempt, reterr) : HOWDAH_OK;
        if (s < 0)
            return s;
    }
    {
        int s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                        "lost the race for a stream %d times; nothing was stored", ATTEMPTS_MAX);

        if (reterr && reterr->size >= offsetof(howdah_error, field))
            (void)strcpy(reterr->sqlstate, "40001"); /* as the server itself says it */
        return hw_advise(reterr, s, "many writers share one stream: spread them, or repeat later");
    }
}

/*
 * One round for the events that are not stored. ret_rest: another writer that repeats the same
 * append has stored more of it meanwhile.
 */
static int append_rest(append_call *call, const hw_batch *whole, bool *ret_rest,
                       howdah_error *reterr)
{
    size_t rest_n = call->n - call->stored_n;
    const howdah_event **rest;
    howdah_position *positions;
    hw_batch batch;
    int s;

    *ret_rest = false;
    if (rest_n == 0)
        return HOWDAH_OK;
    rest = hw_calloc(rest_n, sizeof *rest);
    positions = hw_calloc(rest_n, sizeof *positions);
    if (!rest || !positions) {
        s = hw_fail_no_memory(reterr);
    } else {
        s = plan_rest(call, whole, rest, &batch, reterr);
        if (s >= 0) {
            s = try_batch(call, &batch, positions, ret_rest, reterr);
            if (s >= 0 && !*ret_rest)
                place_rest(call, positions);
            hw_batch_done(&batch);
        }
    }
    hw_free(rest);
    hw_free(positions);
    return s;
}

/* Each round of the rest has fewer events than the one before, so this ends. */
static int run(append_call *call, howdah_error *reterr)
{
    hw_batch batch;
    bool rest = false;
    int s = hw_batch_init(&batch, call->events, call->n, call->expected, reterr);

    if (s < 0)
        return s;
    s = try_batch(call, &batch, call->positions, &rest, reterr);
    assert(s < 0 || rest == (call->stored_n > 0));
    while (s >= 0 && rest)
        s = append_rest(call, &batch, &rest, reterr);
    hw_batch_done(&batch);
    return s;
}

/* What can be judged without asking the store. */
int hw_append_check(const howdah_event *const *events, size_t n, int64_t expected, bool correction,
                    size_t payload_bytes_max, const howdah_position *ret_positions,
                    howdah_error *reterr)
{
    int s;

    if (n > HOWDAH_BATCH_EVENTS_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "events", "at most %d in a batch, got %zu",
                             HOWDAH_BATCH_EVENTS_MAX, n);
    s = hw_sized_check(ret_positions, n == 1 ? "howdah_append" : "howdah_append_batch", reterr);
    if (s >= 0)
        s = hw_rule_expected(expected, reterr);
    if (s >= 0)
        s = check_events(events, n, correction, payload_bytes_max, reterr);
    return s;
}

void hw_append_give(const howdah_event *const *events, size_t n, howdah_position *positions,
                    howdah_position *ret_positions)
{
    for (size_t i = 0; ret_positions && i < n; i++) {
        hw_uuid_format(&events[i]->id, positions[i].id);
        hw_sized_give_at(ret_positions, i, &positions[i], sizeof *positions);
    }
}

/*
 * The whole of it, for appends, corrections and imports.  Positions are collected aside and
 * handed out at the end, so that the caller's array stays as it was on failure; a single event,
 * the usual case, needs no memory for that.
 */
static int carry_out(append_call *call, size_t payload_bytes_max, howdah_position *ret_positions,
                     howdah_error *reterr)
{
    howdah_position one = {0};
    int s = hw_append_check(call->events, call->n, call->expected, call->correction,
                            payload_bytes_max, ret_positions, reterr);

    if (s < 0)
        return s;
    call->positions = call->n > 1 ? hw_calloc(call->n, sizeof *call->positions) : &one;
    if (!call->positions)
        return hw_fail_no_memory(reterr);
    s = run(call, reterr);
    if (s >= 0)
        hw_append_give(call->events, call->n, call->positions, ret_positions);
    if (call->n > 1)
        hw_free(call->positions);
    call->positions = NULL;
    hw_free(call->stored);
    hw_free(call->by_id);
    return s;
}

/* For any store: the bus's own, or one around a transaction of the caller's. */
int hw_append_to(hw_store *store, const hw_interrupt *interrupt, size_t payload_bytes_max,
                 const howdah_event *const *events, size_t n, const howdah_append_options *options,
                 const hw_import_place *mark, howdah_position *ret_positions, howdah_error *reterr)
{
    append_call call = {.store = store,
                        .interrupt = interrupt,
                        .mark = mark,
                        .events = events,
                        .n = n,
                        .expected = options ? options->expected_version : HOWDAH_EXPECT_ANY};

    return carry_out(&call, payload_bytes_max, ret_positions, reterr);
}

/* The one way in for events that correct another; an ordinary append refuses them. */
int hw_append_correction(hw_store *store, const hw_interrupt *interrupt, size_t payload_bytes_max,
                         const howdah_event *event, howdah_position *ret_position,
                         howdah_error *reterr)
{
    append_call call = {.store = store,
                        .interrupt = interrupt,
                        .events = &event,
                        .n = 1,
                        .expected = HOWDAH_EXPECT_ANY,
                        .correction = true};

    return carry_out(&call, payload_bytes_max, ret_position, reterr);
}

/* Inside a handler with a transaction the append joins that transaction (entry.h I4). */
int howdah_append_batch(howdah_bus *bus, const howdah_event *const *events, size_t n,
                        const howdah_append_options *options, howdah_position *ret_positions,
                        howdah_error *reterr)
{
    hw_store *tx = hw_handling_tx(bus);
    HW_ENTRY(entry);
    howdah_append_options own = HOWDAH_APPEND_OPTIONS_INIT;
    int s;

    if (tx)
        return hw_join_append(bus, tx, events, n, options, ret_positions, reterr);
    s = hw_enter(&entry, &bus, HW_WRITES, "howdah_append_batch", reterr);
    if (s < 0)
        return s;
    if (n > 0 && !events)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_append_batch: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_append_batch", reterr);
    if (s < 0 || n == 0)
        return s;
    return hw_append_to(bus->store, bus->interrupt, bus->payload_bytes_max, events, n, &own, NULL,
                        ret_positions, reterr);
}

int howdah_append(howdah_bus *bus, const howdah_event *event, const howdah_append_options *options,
                  howdah_position *ret_position, howdah_error *reterr)
{
    return howdah_append_batch(bus, &event, 1, options, ret_position, reterr);
}
