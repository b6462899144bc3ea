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
} hw_batch;

/*
 * Errors: INVALID (same id twice, contradicting expectations), LIMIT (events, bytes), NO_MEMORY.
 * The events must outlive the batch.  Needs O(n) time and memory.
 */
int hw_batch_init(hw_batch *batch, const howdah_event *const *events, size_t n,
                  int64_t expected_version, howdah_error *reterr);
void hw_batch_done(hw_batch *batch);

/* Whether a stream that is at version actual meets the expectation. */
bool hw_expectation_met(int64_t expected, int64_t actual);

/* Fills a CONFLICT that says what was expected and what is; returns HOWDAH_CONFLICT. */
int hw_batch_conflict(hw_str stream, int64_t expected, int64_t actual, howdah_error *reterr);

#endif
