/*
 * round.h - several batches that are to be stored together: which of them can be, as one batch.
 *
 * Each batch came from another caller and has a verdict of its own.  What can go together is merged
 * into one batch, which a store takes as any other: all or nothing.  Nothing is known of the
 * streams at first, so the plan believes: the first expectation about a stream is met.  The store
 * checks it when it stores the merged batch.  When it finds that it is not so, the caller looks up
 * the versions (hw_round_know()) and plans again, this time with certainty.
 *
 *   I1  The verdicts are those of the batches one after the other, in the order given.  A batch
 *       that is refused changes nothing for those behind it.
 *   I2  What is refused here is refused because of batches that go: it stays so if these are
 *       stored. Or because of a version that was looked up.
 *   I3  No id goes twice.
 *   I4  The merged batch keeps the order of the batches and of their events.
 */
#ifndef HW_ENGINE_ROUND_H
#define HW_ENGINE_ROUND_H

#include "engine/batch.h"

typedef enum hw_round_verdict {
    HW_ROUND_GOES,
    HW_ROUND_REFUSED, /* a stream is not at the expected version (I2) */
    HW_ROUND_REPEATS, /* has an id of a batch that goes */
    HW_ROUND_OVER     /* said by the caller: takes no part any more */
} hw_round_verdict;

typedef struct hw_round_item {
    const hw_batch *batch; /* borrowed */
    hw_round_verdict verdict;
    size_t first;       /* its first event, among those of all items */
    size_t at;          /* GOES: its first event in the merged batch */
    uint32_t stream_no; /* REFUSED: of its batch */
    uint32_t before;    /* REFUSED: the events of that stream that go before it */
} hw_round_item;

typedef struct hw_round_stream {
    hw_str name;
    int64_t known;      /* its version without the round; HOWDAH_ABSENT: not looked up */
    int64_t expected;   /* by those that go, about the version without the round */
    uint32_t count;     /* events that go */
    uint32_t merged_no; /* in the merged batch, valid with count > 0 */
    uint32_t merged_at; /* its first event there */
    bool asked;         /* somebody has an expectation of it */
} hw_round_stream;

typedef struct hw_round {
    hw_round_item *items;
    size_t items_n;
    size_t events_n; /* of all items */
    hw_batch batch;  /* of those that go; n == 0: none does */
    hw_round_stream *streams;
    size_t streams_n;
    const howdah_event **events; /* of the merged batch */
    uint32_t *id_first;          /* per event: the first one with its id */
    uint32_t *stream_of;         /* per event: its number in streams */
    bool *id_goes;               /* per id (by its first event) */
} hw_round;

/* The batches must outlive the round.  At most HOWDAH_BATCH_EVENTS_MAX events together. */
int hw_round_init(hw_round *round, const hw_batch *const *batches, size_t n, howdah_error *reterr);
void hw_round_done(hw_round *round);

/* Gives every item that is not OVER a verdict and makes the merged batch.  Any number of times. */
void hw_round_plan(hw_round *round);

/* The version of a stream (by its number in streams) was read. */
void hw_round_know(hw_round *round, size_t stream, int64_t version);

/*
 * The version that refused the item: what was looked up, or what the stream had when the merged
 * batch was stored at these positions.
 */
int64_t hw_round_actual(const hw_round *round, size_t item, const howdah_position *positions);

#endif
