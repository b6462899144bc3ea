/*
 * batch.h - what an append is about to do, worked out before any store is asked.
 *
 *   I1  Streams are numbered by first appearance; event i is the nth[i]-th (from 1) of stream
 *       stream_no[i] in this batch.
 *   I2  All expectations of a stream's events are folded into one about the version that the
 *       stream has before the batch.  Contradictions are refused here.
 *   I3  No id occurs twice.
 */
#ifndef HW_ENGINE_BATCH_H
#define HW_ENGINE_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "engine/event.h"

typedef struct hw_batch_stream {
    hw_str name;
    int64_t expected; /* HOWDAH_EXPECT_ANY, _EXISTS, or the version before the batch (0: none) */
} hw_batch_stream;

typedef struct hw_batch {
    const howdah_event *const *events; /* borrowed */
    size_t n;
    uint32_t *stream_no;
    uint32_t *nth;
    hw_batch_stream *streams;
    size_t streams_n;
    size_t bytes;  /* of payloads and headers together */
    bool queue_up; /* races were lost: stand in line for the streams instead of trying luck again */
    bool combined; /* made of several appends (round.h), which must not be judged as one */
} hw_batch;

/*
 * Errors: INVALID (same id twice, contradicting expectations), LIMIT (events, bytes), NO_MEMORY.
 * The events must outlive the batch.  Needs O(n) time and memory.
 */
int hw_batch_init(hw_batch *batch, const howdah_event *const *events, size_t n,
                  int64_t expected_version, howdah_error *reterr);
void hw_batch_done(hw_batch *batch);

/*
 * For each event the index of the first one with the same id, or of the same stream.  O(n), and
 * O(n log n) for keys that were chosen to collide.  *ret_first has n entries; free it with
 * hw_free().
 */
typedef enum hw_equal_by { HW_EQUAL_ID, HW_EQUAL_STREAM } hw_equal_by;
int hw_first_equal(const howdah_event *const *events, size_t n, hw_equal_by by,
                   uint32_t **ret_first, howdah_error *reterr);

/*
 * What an expectation behind "before" events of a stream says about the stream without them.  False
 * when these events make it impossible.
 */
bool hw_expectation_rebase(int64_t expected, uint32_t before, int64_t *ret_expected);
/* Both expectations as one; false when no version meets both. */
bool hw_expectation_fold(int64_t *expected, int64_t more);

/* Whether a stream that is at version actual meets the expectation. */
bool hw_expectation_met(int64_t expected, int64_t actual);

/* Fills a CONFLICT that says what was expected and what is; returns HOWDAH_CONFLICT. */
int hw_batch_conflict(hw_str stream, int64_t expected, int64_t actual, howdah_error *reterr);

#endif
