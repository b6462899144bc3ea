/*
 * tail.c - a live tail: the frontier's round over a store, without a checkpoint.
 *
 *   I1  One round reads, in one snapshot, the rows inside holes and the rows above high.  A
 *       stream's version v is visible in every snapshot that shows v + 1, so handing a round's
 *       rows out in sequence order keeps every stream's order.
 *   I2  The horizon is taken before the rows are read (frontier.h I3).
 *   I3  A tail that starts "now" looks a little back for numbers that are drawn and not yet
 *       committed: jumping to the highest visible number would jump over those in flight.
 */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "bus/bus.h"
#include "bus/upcast.h"
#include "engine/frontier.h"
#include "engine/pattern.h"
#include "engine/rules.h"

#define LOOK_BACK 1000 /* numbers, see I3 */
/* Most rows of a round.  Few, because a round is one page whatever its events weigh; and no more
   than a store's first page, so that a full round is told from the last one. */
#define ROUND_ROWS 64
#define FIRST_PAUSE_MS 1

struct howdah_tail {
    howdah_bus *bus;
    char *pattern;
    hw_frontier frontier;
    hw_cursor *cursor; /* of the round whose rows are being handed out */
    const howdah_event *events;
    size_t n;
    size_t at;
    bool more;        /* the last round was full: look again at once */
    int64_t pause_ms; /* before the next look; grows while nothing comes, whoever asks */
    hw_lifted lifted; /* the event handed out last, if it was lifted */
};

static void end_round(howdah_tail *tail)
{
    if (tail->cursor)
        tail->bus->store->ops->read_close(tail->cursor);
    tail->cursor = NULL;
    tail->n = tail->at = 0;
}

static int read_rows(howdah_tail *tail, hw_query *query, howdah_error *reterr)
{
    const hw_store_ops *ops = tail->bus->store->ops;
    int s;

    query->batch = tail->bus->read_batch < ROUND_ROWS ? tail->bus->read_batch : ROUND_ROWS;
    query->limit = (int64_t)query->batch;
    s = ops->read_open(tail->bus->store, query, &tail->cursor, reterr);

    if (s < 0)
        return s;
    s = ops->read_next(tail->cursor, &tail->events, &tail->n, reterr);
    if (s == HOWDAH_END)
        tail->n = 0;
    tail->at = 0;
    tail->more = s == HOWDAH_OK && (tail->n == query->batch || tail->cursor->more);
    return s < 0 ? s : HOWDAH_OK;
}

/* I1: the holes, oldest first, and all that is above high. */
static int read_ranges(howdah_tail *tail, howdah_error *reterr)
{
    const hw_frontier *f = &tail->frontier;
    hw_range *ranges = hw_calloc(f->holes_n + 1, sizeof *ranges);
    int s;

    if (!ranges)
        return hw_fail_no_memory(reterr);
    for (size_t i = 0; i < f->holes_n; i++)
        ranges[i] = (hw_range){f->holes[i].first, f->holes[i].last};
    ranges[f->holes_n] = (hw_range){f->high + 1, INT64_MAX};
    s = read_rows(tail, &(hw_query){.ranges = ranges, .ranges_n = f->holes_n + 1}, reterr);
    hw_free(ranges);
    return s;
}

static int read_above(howdah_tail *tail, howdah_error *reterr)
{
    return read_rows(tail, &(hw_query){.from = tail->frontier.high + 1}, reterr);
}

/*
 * One round: evidence, rows, verdict.  The rows are handed out afterwards, but the frontier sees
 * them now, so that holes are buried against the very rows that lack them.
 */
static int read_round(howdah_tail *tail, howdah_error *reterr)
{
    hw_frontier *f = &tail->frontier;
    const hw_store_ops *ops = tail->bus->store->ops;
    uint64_t horizon = 0;
    int s = HOWDAH_OK;

    end_round(tail);
    if (f->holes_n > 0)
        s = ops->horizon(tail->bus->store, &horizon, reterr);
    if (s < 0)
        return s;
    if (horizon == UINT64_MAX)
        (void)hw_frontier_bury(f, horizon);
    s = f->holes_n > 0 ? read_ranges(tail, reterr) : read_above(tail, reterr);
    for (size_t i = 0; s >= 0 && i < tail->n; i++) {
        bool is_new = false;

        s = hw_frontier_see(f, tail->events[i].global_sequence, hw_clock_mono_ms(), &is_new,
                            reterr);
    }
    if (s < 0)
        return s;
    /* A full round may have left rows inside holes unread: no verdict from it. */
    if (!tail->more)
        (void)hw_frontier_bury(f, horizon);
    if (hw_frontier_wants_fence(f)) {
        uint64_t fence = 0;

        s = ops->fence(tail->bus->store, &fence, reterr);
        if (s >= 0)
            hw_frontier_fence(f, fence);
    }
    return s < 0 ? s : HOWDAH_OK;
}

/*
 * The last visible number at or below at, 0 without one: a batch in flight is one gap however
 * large it is, so the look back must not begin inside it.
 */
static int last_visible(howdah_tail *tail, int64_t at, int64_t *ret_sequence, howdah_error *reterr)
{
    const hw_store_ops *ops = tail->bus->store->ops;
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;
    int s;

    *ret_sequence = 0;
    if (at <= 0)
        return HOWDAH_OK;
    s = ops->read_open(tail->bus->store,
                       &(hw_query){.to = at, .limit = 1, .batch = 1, .backward = true}, &cursor,
                       reterr);
    if (s < 0)
        return s;
    s = ops->read_next(cursor, &events, &n, reterr);
    if (s == HOWDAH_OK)
        *ret_sequence = events[0].global_sequence;
    ops->read_close(cursor);
    return s < 0 ? s : HOWDAH_OK;
}

/* I3: marks what is visible near the head as seen; what is missing there becomes holes. */
static int start_now(howdah_tail *tail, howdah_error *reterr)
{
    const hw_store_ops *ops = tail->bus->store->ops;
    int64_t head = 0;
    int64_t first = 0;
    int s = ops->head(tail->bus->store, &head, reterr);

    if (s >= 0)
        s = last_visible(tail, head - LOOK_BACK, &first, reterr);
    if (s < 0)
        return s;
    hw_frontier_init(&tail->frontier, first);
    while (s >= 0 && tail->frontier.high < head) {
        int64_t before = tail->frontier.high;

        s = read_rows(tail, &(hw_query){.from = before + 1, .to = head}, reterr);
        for (size_t i = 0; s >= 0 && i < tail->n; i++) {
            bool is_new = false;

            s = hw_frontier_see(&tail->frontier, tail->events[i].global_sequence,
                                hw_clock_mono_ms(), &is_new, reterr);
        }
        end_round(tail);
        if (tail->frontier.high == before)
            break;
    }
    return s;
}

int howdah_tail_open(howdah_bus *bus, const howdah_tail_options *options, howdah_tail **ret_tail,
                     howdah_error *reterr)
{
    howdah_tail_options defaults = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *tail;
    int s = HOWDAH_OK;

    if (!bus || !ret_tail)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_open: an argument is NULL");
    if (!options)
        options = &defaults;
    s = hw_check_options(options, sizeof *options, "howdah_tail_open", reterr);
    if (s < 0)
        return s;
    if (options->since < HOWDAH_ABSENT)
        return hw_fail_field(reterr, HOWDAH_INVALID, "since", "must be a sequence, 0 or more");
    if (options->pattern)
        s = hw_rule_pattern(hw_str_of(options->pattern), reterr);
    if (s < 0)
        return s;
    tail = hw_calloc(1, sizeof *tail);
    if (!tail)
        return hw_fail_no_memory(reterr);
    tail->bus = bus;
    tail->pause_ms = FIRST_PAUSE_MS;
    hw_lifted_init(&tail->lifted);
    if (options->pattern && !(tail->pattern = hw_strdup(options->pattern)))
        s = hw_fail_no_memory(reterr);
    else if (options->since == HOWDAH_ABSENT)
        s = start_now(tail, reterr);
    else
        hw_frontier_init(&tail->frontier, options->since);
    if (s < 0) {
        howdah_tail_close(tail);
        return s;
    }
    *ret_tail = tail;
    return HOWDAH_OK;
}

/* The next row of the round that the pattern lets through. */
static const howdah_event *take(howdah_tail *tail)
{
    hw_str pattern = hw_str_of(tail->pattern);

    while (tail->at < tail->n) {
        const howdah_event *event = &tail->events[tail->at++];

        if (hw_pattern_matches(pattern, event->type))
            return event;
    }
    return NULL;
}

static int64_t next_pause(const howdah_tail *tail)
{
    int64_t longer = tail->pause_ms * 2;

    return longer < tail->bus->poll_interval_ms ? longer : tail->bus->poll_interval_ms;
}

int howdah_tail_next(howdah_tail *tail, int wait_ms, const howdah_event **ret_event,
                     howdah_error *reterr)
{
    int64_t until = wait_ms < 0 ? INT64_MAX : hw_clock_mono_ms() + wait_ms;
    bool looked = false; /* every call looks at least once, also one that does not wait */

    if (!tail || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_next: an argument is NULL");
    for (;;) {
        const howdah_event *event = take(tail);
        int64_t left;
        int s;

        if (event) {
            tail->pause_ms = FIRST_PAUSE_MS;
            return hw_upcast(tail->bus->upcasts, event, &tail->lifted, ret_event, reterr);
        }
        if (!tail->more) {
            left = until - hw_clock_mono_ms();
            if (left <= 0 && looked)
                return HOWDAH_END;
            looked = true;
            s = hw_sleep(&tail->bus->interrupt, tail->pause_ms < left ? tail->pause_ms : left,
                         reterr);
            if (s < 0)
                return s;
            tail->pause_ms = next_pause(tail);
        }
        s = read_round(tail, reterr);
        if (s < 0)
            return s;
    }
}

void howdah_tail_close(howdah_tail *tail)
{
    if (!tail)
        return;
    end_round(tail);
    hw_frontier_done(&tail->frontier);
    hw_lifted_done(&tail->lifted);
    hw_free(tail->pattern);
    hw_free(tail);
}
