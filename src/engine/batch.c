/*
 * batch.c - what an append is about to do, worked out before any store is asked.
 *
 * Equal ids and equal streams are found by one routine: first_equal() gives for each event the
 * index of the first one with the same key.  It hashes, in O(n).  The hash is not secret (nothing
 * in the engine is random), so a sender could choose keys that all collide; a probe that takes too
 * long therefore gives up, and a heap sort does the same in O(n log n), whatever the keys are.
 */
#include "engine/batch.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "engine/rules.h"

/* With half of the slots free, honest keys need a few probes; 64 in a row means chosen keys. */
#define PROBES_MAX 64
#define NONE UINT32_MAX

typedef hw_str (*key_fn)(const howdah_event *event);

static hw_str id_key(const howdah_event *event)
{
    return (hw_str){(const char *)event->id.b, sizeof event->id.b};
}

static hw_str stream_key(const howdah_event *event)
{
    return event->stream;
}

/* ------------------------------------------------------------ the first equal */

/* Memory for the search: the table of the hash doubles as the heap of the sort. */
typedef struct search {
    const howdah_event *const *events;
    uint32_t n;
    uint32_t *first; /* the result, n entries */
    uint32_t *slots; /* slots_n entries, a power of two, at least 2 n */
    uint32_t slots_n;
} search;

/*
 * One block for both arrays. n is at most HOWDAH_BATCH_EVENTS_MAX, so 32 bits hold every index
 * and no sum here overflows.
 */
static bool search_init(search *find, const howdah_event *const *events, size_t n)
{
    uint32_t slots_n = 4;
    uint32_t *block;

    while (slots_n < 2 * n)
        slots_n *= 2;
    assert(n < NONE && slots_n >= 2 * n);
    block = hw_calloc(n + slots_n, sizeof *block);
    if (!block)
        return false;
    *find = (search){events, (uint32_t)n, block, block + n, slots_n};
    return true;
}

static void search_done(search *find)
{
    hw_free(find->first);
}

/* Eight bytes a round, multiplied and folded; the ends of UUIDs and of numbered streams spread. */
static uint64_t hash(hw_str key)
{
    uint64_t h = UINT64_C(0x9E3779B97F4A7C15) ^ key.len;
    const char *p = key.s;
    size_t left = key.len;

    while (left > 0) {
        size_t n = left < 8 ? left : 8;
        uint64_t word = 0;

        memcpy(&word, p, n);
        h = (h ^ word) * UINT64_C(0xD6E8FEB86659FD93);
        h ^= h >> 32;
        p += n;
        left -= n;
    }
    return h * UINT64_C(0xD6E8FEB86659FD93) >> 32;
}

/*
 * Open addressing: a slot holds the index of the first event with its key.  False when the keys
 * collide too often; "first" is then half filled, and the sort fills it again from the start.
 */
static bool first_equal_by_hash(search *find, key_fn key_of)
{
    memset(find->slots, 0xFF, find->slots_n * sizeof *find->slots);
    for (uint32_t i = 0; i < find->n; i++) {
        hw_str key = key_of(find->events[i]);
        uint32_t at = (uint32_t)hash(key) & (find->slots_n - 1);
        unsigned probes = 0;

        while (find->slots[at] != NONE &&
               !hw_str_equal(key_of(find->events[find->slots[at]]), key)) {
            if (++probes > PROBES_MAX)
                return false;
            at = (at + 1) & (find->slots_n - 1);
        }
        if (find->slots[at] == NONE)
            find->slots[at] = i;
        find->first[i] = find->slots[at];
    }
    return true;
}

/*
 * By key, then by index, so that of equal keys the first event comes first.  Any order of keys is
 * good enough, and comparing lengths before bytes is the quickest.
 */
static bool sorts_before(const search *find, key_fn key_of, uint32_t a, uint32_t b)
{
    hw_str x = key_of(find->events[a]);
    hw_str y = key_of(find->events[b]);
    int c;

    if (x.len != y.len)
        return x.len < y.len;
    c = memcmp(x.s, y.s, x.len);
    return c != 0 ? c < 0 : a < b;
}

/* Lets heap[i] sink within heap[0..n) to where it belongs. */
static void sink(const search *find, key_fn key_of, uint32_t i, uint32_t n)
{
    uint32_t *heap = find->slots;
    uint32_t moving = heap[i];

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= n)
            break;
        if (child + 1 < n && sorts_before(find, key_of, heap[child], heap[child + 1]))
            child++;
        if (!sorts_before(find, key_of, moving, heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moving;
}

/* A heap sort: no recursion, no memory beyond the slots, and no input that makes it slow. */
static void first_equal_by_sort(search *find, key_fn key_of)
{
    uint32_t *heap = find->slots;

    for (uint32_t i = 0; i < find->n; i++)
        heap[i] = i;
    for (uint32_t i = find->n / 2; i > 0; i--)
        sink(find, key_of, i - 1, find->n);
    for (uint32_t n = find->n; n > 1; n--) {
        uint32_t greatest = heap[0];

        heap[0] = heap[n - 1];
        heap[n - 1] = greatest;
        sink(find, key_of, 0, n - 1);
    }
    for (uint32_t i = 0; i < find->n; i++) {
        bool same =
            i > 0 && hw_str_equal(key_of(find->events[heap[i]]), key_of(find->events[heap[i - 1]]));

        find->first[heap[i]] = same ? find->first[heap[i - 1]] : heap[i];
    }
}

static void first_equal(search *find, key_fn key_of)
{
    if (!first_equal_by_hash(find, key_of))
        first_equal_by_sort(find, key_of);
}

int hw_first_equal(const howdah_event *const *events, size_t n, hw_equal_by by,
                   uint32_t **ret_first, howdah_error *reterr)
{
    search find;

    if (!search_init(&find, events, n))
        return hw_fail_no_memory(reterr);
    first_equal(&find, by == HW_EQUAL_ID ? id_key : stream_key);
    *ret_first = find.first;
    return HOWDAH_OK;
}

/* ----------------------------------------------------------- expectations (I2) */

bool hw_expectation_rebase(int64_t expected, uint32_t before, int64_t *ret_expected)
{
    if (expected == HOWDAH_EXPECT_ANY || before == 0) {
        *ret_expected = expected;
        return true;
    }
    /* The events before it in the batch make the stream exist. */
    if (expected == HOWDAH_EXPECT_EXISTS) {
        *ret_expected = HOWDAH_EXPECT_ANY;
        return true;
    }
    *ret_expected = expected - before;
    return *ret_expected >= 0;
}

/* The stricter one stays: a version says more than EXISTS, and EXISTS more than ANY. */
bool hw_expectation_fold(int64_t *expected, int64_t more)
{
    if (more == HOWDAH_EXPECT_ANY || more == *expected)
        return true;
    if (*expected == HOWDAH_EXPECT_ANY || (*expected == HOWDAH_EXPECT_EXISTS && more > 0)) {
        *expected = more;
        return true;
    }
    return more == HOWDAH_EXPECT_EXISTS && *expected > 0;
}

/*
 * An event's own expectation goes before that of the call.  The call's is about the stream before
 * the batch, so only the first event of each stream carries it.  The error names the later of two
 * events that contradict each other.
 */
static int fold_expectations(hw_batch *batch, int64_t expected_version, howdah_error *reterr)
{
    for (size_t i = 0; i < batch->n; i++) {
        const howdah_event *event = batch->events[i];
        int64_t expected = HOWDAH_EXPECT_ANY;
        int s;

        if (event->expects)
            expected = event->expected_version;
        else if (batch->nth[i] == 1)
            expected = expected_version;
        s = hw_rule_expected(expected, reterr);
        if (s < 0)
            return s;
        if (!hw_expectation_rebase(expected, batch->nth[i] - 1, &expected) ||
            !hw_expectation_fold(&batch->streams[batch->stream_no[i]].expected, expected)) {
            s = hw_fail_field(
                reterr, HOWDAH_INVALID, "expected_version",
                "event %zu of the batch contradicts what earlier events expect of the "
                "same stream",
                i + 1);
            hw_error_at(reterr, i);
            return s;
        }
    }
    return HOWDAH_OK;
}

/* -------------------------------------------------------------------- the batch */

/*
 * Both limits bound the memory that one batch takes in a store.  Checked before anything is
 * allocated or hashed.
 */
static int check_size(hw_batch *batch, howdah_error *reterr)
{
    if (batch->n < 1)
        return hw_fail_field(reterr, HOWDAH_INVALID, "events", "must be at least one");
    if (batch->n > HOWDAH_BATCH_EVENTS_MAX)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "events", "must be at most %d, got %zu",
                             HOWDAH_BATCH_EVENTS_MAX, batch->n);
    for (size_t i = 0; i < batch->n; i++) {
        const howdah_event *event = batch->events[i];

        if (__builtin_add_overflow(batch->bytes, event->data.len, &batch->bytes) ||
            __builtin_add_overflow(batch->bytes, event->headers.len, &batch->bytes) ||
            batch->bytes > HOWDAH_BATCH_BYTES_MAX)
            return hw_fail_field(
                reterr, HOWDAH_LIMIT, "events",
                "payloads and headers must be at most %d bytes in total, event %zu "
                "of %zu passes that",
                HOWDAH_BATCH_BYTES_MAX, i + 1, batch->n);
    }
    return HOWDAH_OK;
}

/*
 * One block: the streams, then both arrays of numbers.  A batch has at most n streams.  The
 * streams come first because they need the wider alignment.
 */
static int allocate(hw_batch *batch, howdah_error *reterr)
{
    size_t each = sizeof *batch->streams + sizeof *batch->stream_no + sizeof *batch->nth;

    assert(batch->n >= 1); /* check_size() */
    batch->streams = hw_calloc(batch->n, each);
    if (!batch->streams)
        return hw_fail_no_memory(reterr);
    batch->stream_no = (uint32_t *)(void *)(batch->streams + batch->n);
    batch->nth = batch->stream_no + batch->n;
    return HOWDAH_OK;
}

/* I1: event i is the next of the stream that event first started, or starts one. */
static void place(hw_batch *batch, size_t i, size_t first, uint32_t *counts)
{
    if (first == i) {
        batch->stream_no[i] = (uint32_t)batch->streams_n;
        batch->streams[batch->streams_n++] =
            (hw_batch_stream){batch->events[i]->stream, HOWDAH_EXPECT_ANY};
    } else {
        batch->stream_no[i] = batch->stream_no[first];
    }
    assert(first <= i && batch->stream_no[i] < batch->streams_n);
    batch->nth[i] = ++counts[batch->stream_no[i]];
}

/* I3, then I1.  A single event, the usual append, needs no search. */
static int group(hw_batch *batch, howdah_error *reterr)
{
    search find;
    uint32_t one = 0;
    int s = HOWDAH_OK;

    if (batch->n == 1) {
        place(batch, 0, 0, &one);
        return HOWDAH_OK;
    }
    if (!search_init(&find, batch->events, batch->n))
        return hw_fail_no_memory(reterr);
    first_equal(&find, id_key);
    for (size_t i = 0; i < batch->n && s == HOWDAH_OK; i++) {
        if (find.first[i] != i) {
            s = hw_fail_field(reterr, HOWDAH_INVALID, "id",
                              "event %zu of the batch has the id of event %zu", i + 1,
                              (size_t)find.first[i] + 1);
            hw_error_at(reterr, i);
        }
    }
    if (s == HOWDAH_OK) {
        first_equal(&find, stream_key);
        memset(find.slots, 0, find.slots_n * sizeof *find.slots); /* now: events per stream */
        for (size_t i = 0; i < batch->n; i++)
            place(batch, i, find.first[i], find.slots);
    }
    search_done(&find);
    return s;
}

/*
 * A version as the call's expectation can mean one stream only; "none", "any" and "exists" may be
 * said of several at once.
 */
int hw_batch_init(hw_batch *batch, const howdah_event *const *events, size_t n,
                  int64_t expected_version, howdah_error *reterr)
{
    hw_batch made = {.events = events, .n = n};
    int s = check_size(&made, reterr);

    if (s == HOWDAH_OK)
        s = allocate(&made, reterr);
    if (s == HOWDAH_OK)
        s = group(&made, reterr);
    if (s == HOWDAH_OK && expected_version > 0 && made.streams_n > 1)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "expected_version",
                          "a version needs all events on one stream, got %zu streams",
                          made.streams_n);
    if (s == HOWDAH_OK)
        s = fold_expectations(&made, expected_version, reterr);
    if (s < 0)
        hw_batch_done(&made); /* empty then, so that done after a failed init is harmless */
    *batch = made;
    return s;
}

void hw_batch_done(hw_batch *batch)
{
    hw_free(batch->streams);
    *batch = (hw_batch){.events = NULL};
}

/*
 * 0 is both EXPECT_NONE and the version of a stream without events, so the last line does for
 * both.
 */
bool hw_expectation_met(int64_t expected, int64_t actual)
{
    if (expected == HOWDAH_EXPECT_ANY)
        return true;
    if (expected == HOWDAH_EXPECT_EXISTS)
        return actual > 0;
    return expected == actual;
}

/*
 * The one text for a conflict, for all stores.  The caller reads the current version from
 * actual_version, if its struct has that member.
 */
int hw_batch_conflict(hw_str stream, int64_t expected, int64_t actual, howdah_error *reterr)
{
    const char *name = stream.s ? stream.s : "";
    int len = stream.len < HW_NAME_MAX ? (int)stream.len : HW_NAME_MAX;

    if (expected == HOWDAH_EXPECT_EXISTS)
        (void)hw_fail(reterr, HOWDAH_CONFLICT,
                      "stream \"%.*s\" was expected to exist, but has no events", len, name);
    else if (expected == HOWDAH_EXPECT_NONE)
        (void)hw_fail(reterr, HOWDAH_CONFLICT,
                      "stream \"%.*s\" was expected to have no events, but is at version %" PRId64,
                      len, name, actual);
    else
        (void)hw_fail(reterr, HOWDAH_CONFLICT,
                      "stream \"%.*s\" was expected at version %" PRId64 ", but is at %" PRId64,
                      len, name, expected, actual);
    if (reterr && reterr->size >= offsetof(howdah_error, sqlstate))
        reterr->actual_version = actual;
    return hw_advise(reterr, HOWDAH_CONFLICT,
                     "read the stream again, decide again, append with its current version");
}
