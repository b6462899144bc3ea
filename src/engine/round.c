/* round.c - see round.h. */
#include "engine/round.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"

/* -------------------------------------------------------------------- making */

/* All events behind one another, to find equal ids and equal streams among them. */
static void gather(hw_round *round, const hw_batch *const *batches)
{
    size_t at = 0;

    for (size_t i = 0; i < round->items_n; i++) {
        round->items[i] = (hw_round_item){.batch = batches[i], .first = at};
        memcpy(round->events + at, batches[i]->events, batches[i]->n * sizeof *round->events);
        at += batches[i]->n;
    }
    assert(at == round->events_n);
}

/* first: per event the first one of its stream.  It becomes the number of its stream. */
static void number_streams(hw_round *round, uint32_t *first)
{
    for (size_t i = 0; i < round->events_n; i++) {
        if (first[i] == i) {
            round->streams[round->streams_n] =
                (hw_round_stream){.name = round->events[i]->stream, .known = HOWDAH_ABSENT};
            first[i] = (uint32_t)round->streams_n++;
        } else {
            first[i] = first[first[i]]; /* an earlier event's, which is a number by now */
        }
    }
    round->stream_of = first;
}

/* The events of a stream of an item's batch: any will do, to find the stream's number here. */
static void note_asked(hw_round *round)
{
    for (size_t i = 0; i < round->items_n; i++) {
        const hw_round_item *item = &round->items[i];

        for (size_t e = 0; e < item->batch->n; e++)
            if (item->batch->streams[item->batch->stream_no[e]].expected != HOWDAH_EXPECT_ANY)
                round->streams[round->stream_of[item->first + e]].asked = true;
    }
}

/* The arrays of the merged batch are as long as all events; its streams as all streams. */
static int allocate(hw_round *round, howdah_error *reterr)
{
    size_t n = round->events_n;

    round->items = hw_calloc(round->items_n, sizeof *round->items);
    round->events = hw_calloc(n, sizeof *round->events);
    round->streams = hw_calloc(n, sizeof *round->streams);
    round->id_goes = hw_calloc(n, sizeof *round->id_goes);
    round->batch.streams = hw_calloc(n, sizeof *round->batch.streams);
    round->batch.stream_no = hw_calloc(n, 2 * sizeof *round->batch.stream_no);
    if (!round->items || !round->events || !round->streams || !round->id_goes ||
        !round->batch.streams || !round->batch.stream_no)
        return hw_fail_no_memory(reterr);
    round->batch.nth = round->batch.stream_no + n;
    return HOWDAH_OK;
}

int hw_round_init(hw_round *round, const hw_batch *const *batches, size_t n, howdah_error *reterr)
{
    uint32_t *first = NULL;
    int s;

    *round = (hw_round){.items_n = n};
    for (size_t i = 0; i < n; i++)
        round->events_n += batches[i]->n;
    assert(n > 0 && round->events_n <= HOWDAH_BATCH_EVENTS_MAX);
    s = allocate(round, reterr);
    if (s >= 0) {
        gather(round, batches);
        s = hw_first_equal(round->events, round->events_n, HW_EQUAL_ID, &round->id_first, reterr);
    }
    if (s >= 0)
        s = hw_first_equal(round->events, round->events_n, HW_EQUAL_STREAM, &first, reterr);
    if (s < 0) {
        hw_round_done(round);
        return s;
    }
    number_streams(round, first);
    note_asked(round);
    return HOWDAH_OK;
}

void hw_round_done(hw_round *round)
{
    hw_free(round->items);
    hw_free((void *)round->events);
    hw_free(round->streams);
    hw_free(round->id_goes);
    hw_free(round->id_first);
    hw_free(round->stream_of);
    hw_free(round->batch.streams);
    hw_free(round->batch.stream_no);
    *round = (hw_round){.items = NULL};
}

/* ------------------------------------------------------------------ planning */

static hw_round_stream *stream_of(hw_round *round, const hw_round_item *item, size_t event)
{
    return &round->streams[round->stream_of[item->first + event]];
}

static bool repeats(const hw_round *round, const hw_round_item *item)
{
    for (size_t e = 0; e < item->batch->n; e++)
        if (round->id_goes[round->id_first[item->first + e]])
            return true;
    return false;
}

/* What the batch expects of the stream of this event, which is its first of that stream. */
static bool meets(hw_round *round, const hw_round_item *item, size_t event, int64_t *ret_folded)
{
    const hw_round_stream *stream = stream_of(round, item, event);
    int64_t expected = item->batch->streams[item->batch->stream_no[event]].expected;

    *ret_folded = stream->expected;
    return hw_expectation_rebase(expected, stream->count, &expected) &&
           hw_expectation_fold(ret_folded, expected);
}

/* Nothing is changed before all of its streams were asked: a batch goes whole or not at all. */
static bool is_met(hw_round *round, hw_round_item *item)
{
    for (size_t e = 0; e < item->batch->n; e++) {
        int64_t folded;

        if (item->batch->nth[e] == 1 && !meets(round, item, e, &folded)) {
            item->stream_no = item->batch->stream_no[e];
            item->before = stream_of(round, item, e)->count;
            return false;
        }
    }
    return true;
}

/* Puts an event behind those of its stream that go already. */
static void merge_event(hw_round *round, hw_round_stream *stream, const howdah_event *event)
{
    hw_batch *batch = &round->batch;

    if (stream->count == 0) {
        stream->merged_no = (uint32_t)batch->streams_n++;
        stream->merged_at = (uint32_t)batch->n;
    }
    round->events[batch->n] = event;
    batch->stream_no[batch->n] = stream->merged_no;
    batch->nth[batch->n] = ++stream->count;
    batch->bytes += event->data.len + event->headers.len;
    batch->n++;
}

/* The first event of each stream folds the expectation in, while the count is what was before. */
static void merge(hw_round *round, hw_round_item *item)
{
    item->at = round->batch.n;
    for (size_t e = 0; e < item->batch->n; e++) {
        hw_round_stream *stream = stream_of(round, item, e);

        if (item->batch->nth[e] == 1)
            (void)meets(round, item, e, &stream->expected);
        round->id_goes[round->id_first[item->first + e]] = true;
        merge_event(round, stream, item->batch->events[e]);
    }
}

/* What was looked up is what the store has to find, wherever somebody relies on it. */
static void forget_plan(hw_round *round)
{
    round->batch.events = round->events;
    round->batch.n = 0;
    round->batch.streams_n = 0;
    round->batch.bytes = 0;
    round->batch.combined = true;
    memset(round->id_goes, 0, round->events_n * sizeof *round->id_goes);
    for (size_t i = 0; i < round->streams_n; i++) {
        hw_round_stream *stream = &round->streams[i];

        stream->count = 0;
        stream->expected = stream->asked && stream->known >= 0 ? stream->known : HOWDAH_EXPECT_ANY;
    }
}

void hw_round_plan(hw_round *round)
{
    forget_plan(round);
    for (size_t i = 0; i < round->items_n; i++) {
        hw_round_item *item = &round->items[i];

        if (item->verdict == HW_ROUND_OVER)
            continue;
        if (repeats(round, item)) {
            item->verdict = HW_ROUND_REPEATS;
        } else if (!is_met(round, item)) {
            item->verdict = HW_ROUND_REFUSED;
        } else {
            item->verdict = HW_ROUND_GOES;
            merge(round, item);
        }
    }
    for (size_t i = 0; i < round->streams_n; i++) {
        const hw_round_stream *stream = &round->streams[i];

        if (stream->count > 0)
            round->batch.streams[stream->merged_no] =
                (hw_batch_stream){stream->name, stream->expected};
    }
}

void hw_round_know(hw_round *round, size_t stream, int64_t version)
{
    assert(stream < round->streams_n && version >= 0);
    round->streams[stream].known = version;
}

/* The event that the item expected something of: the first of its stream in its batch. */
static const hw_round_stream *refusing_stream(const hw_round *round, const hw_round_item *item)
{
    size_t e = 0;

    while (item->batch->stream_no[e] != item->stream_no)
        e++;
    assert(e < item->batch->n);
    return &round->streams[round->stream_of[item->first + e]];
}

int64_t hw_round_actual(const hw_round *round, size_t item, const howdah_position *positions)
{
    const hw_round_item *refused = &round->items[item];
    const hw_round_stream *stream = refusing_stream(round, refused);

    assert(refused->verdict == HW_ROUND_REFUSED);
    assert(stream->count > 0 || stream->known >= 0); /* I2 */
    if (stream->count > 0)
        return positions[stream->merged_at].version - 1 + refused->before;
    return stream->known;
}
