/* admin.c - subscriptions, skips and dead letters by name, from any process. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/queue/job.h"
#include "bus/subscription/subscription.h"
#include "engine/rules.h"

/* The public list of holes is pairs of numbers: the ranges are handed out as they are. */
_Static_assert(sizeof(hw_range) == 2 * sizeof(int64_t), "a range is a pair of numbers");

/* A name that no subscription can have is refused before the store is asked. */
static int check_named(const char *subscriber_id, howdah_error *reterr)
{
    return hw_rule_name("subscriber_id", hw_str_of(subscriber_id), reterr);
}

/* ----------------------------------------------------------- subscriptions */

/*
 * For on_row().  head is the same for all rows; status and reterr carry an error out of the walk.
 */
typedef struct info_walk {
    int (*fn)(void *ctx, const howdah_subscription_info *info);
    void *ctx;
    int64_t head;
    hw_ranges holes; /* of the row at hand */
    int status;
    howdah_error *reterr;
} info_walk;

/* All that a row owes: what it says, and what stands still up to its high. */
static int gather_holes(info_walk *w, const hw_sub_row *row)
{
    int s = HOWDAH_OK;

    hw_ranges_clear(&w->holes);
    for (size_t i = 0; s >= 0 && i < row->outstanding_n; i++)
        s = hw_ranges_add(&w->holes, row->outstanding[i].first, row->outstanding[i].last,
                          w->reterr);
    for (size_t i = 0; s >= 0 && i < row->still_n && row->still[i].first <= row->high; i++) {
        int64_t last = row->still[i].last < row->high ? row->still[i].last : row->high;

        s = hw_ranges_add(&w->holes, row->still[i].first, last, w->reterr);
    }
    return s;
}

/* What another process can tell from the row.  An owner whose place is at the head counts as
   live. */
static howdah_subscription_state state_of(const hw_sub_row *row, int64_t head)
{
    if (row->status == HW_SUB_PAUSED)
        return HOWDAH_SUBSCRIPTION_PAUSED;
    if (row->status == HW_SUB_HALTED)
        return HOWDAH_SUBSCRIPTION_HALTED;
    if (row->shared && row->outstanding_n > 0)
        return HOWDAH_SUBSCRIPTION_BEHIND;
    if (!row->held && !row->shared)
        return HOWDAH_SUBSCRIPTION_WAITING;
    return row->high >= head ? HOWDAH_SUBSCRIPTION_LIVE : HOWDAH_SUBSCRIPTION_BEHIND;
}

/* One row, as the user's function sees it.  Its texts and holes are valid during the call only. */
static int on_row(void *ctx, const hw_sub_row *row)
{
    info_walk *w = ctx;
    howdah_subscription_info info;

    w->status = gather_holes(w, row);
    if (w->status < 0)
        return 1;
    info = (howdah_subscription_info){
        .size = sizeof info,
        .subscriber_id = row->subscriber_id.s,
        .pattern = row->filter.pattern.s,
        .state = state_of(row, w->head),
        .reason = row->reason.s ? row->reason.s : "",
        .owner = row->owner.s && !row->shared ? row->owner.s : "",
        .token = row->token,
        .high = row->high,
        .contiguous = w->holes.n > 0 ? w->holes.items[0].first - 1 : row->high,
        .holes = (const int64_t *)w->holes.items,
        .holes_n = w->holes.n,
        .head = w->head,
        .lag = hw_ranges_count(&w->holes) + (w->head > row->high ? w->head - row->high : 0),
        .dead_letters = row->dead_letters,
        .skips = row->skips,
        .updated_at_us = row->updated_at_us,
        .stream = row->filter.stream.s,
        .originals_only = row->filter.originals,
        .shared = row->shared,
        .lag_age_ms = HOWDAH_ABSENT,
    };
    if (info.lag > 0) /* else it is of an event that came since the head was read */
        info.lag_age_ms = row->lag_age_ms;

    return w->fn(w->ctx, &info);
}

/* The head is read first, once for all rows: so a lag can be too small by what came since, but it
   is never negative. */
int howdah_subscriptions_walk(howdah_bus *bus, const char *subscriber_id,
                              int (*fn)(void *ctx, const howdah_subscription_info *info), void *ctx,
                              howdah_error *reterr)
{
    HW_ENTRY(entry);
    info_walk w = {.fn = fn, .ctx = ctx, .reterr = reterr};
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_subscriptions_walk", reterr);

    if (s >= 0 && subscriber_id)
        s = check_named(subscriber_id, reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_subscriptions_walk: fn is NULL");
    if (s >= 0)
        s = bus->store->ops->head(bus->store, &w.head, reterr);
    if (s < 0)
        return s;
    s = subscriber_id
            ? hw_sub_ops_of(bus)->load(bus->store, hw_str_of(subscriber_id), on_row, &w, reterr)
            : hw_sub_ops_of(bus)->list(bus->store, on_row, &w, reterr);
    hw_ranges_done(&w.holes);
    return s < 0 ? s : w.status < 0 ? w.status : s;
}

/* By an operator, whoever owns it: a hold without a token fits every owner. */
static int set_status(howdah_bus *bus, const char *subscriber_id, hw_sub_status status,
                      hw_str reason, howdah_error *reterr)
{
    hw_hold anybody = {.subscriber_id = hw_str_of(subscriber_id)};

    return hw_sub_ops_of(bus)->set_status(bus->store, &anybody, status, reason, reterr);
}

/* The owner hears of it with its next checkpoint or question, and stops then; nobody waits for it
   here. */
int howdah_subscription_pause(howdah_bus *bus, const char *subscriber_id, const char *reason,
                              howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_subscription_pause", reterr);

    if (s >= 0)
        s = check_named(subscriber_id, reterr);
    return s < 0 ? s : set_status(bus, subscriber_id, HW_SUB_PAUSED, hw_str_of(reason), reterr);
}

int howdah_subscription_resume(howdah_bus *bus, const char *subscriber_id, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_subscription_resume", reterr);

    if (s >= 0)
        s = check_named(subscriber_id, reterr);
    return s < 0 ? s : set_status(bus, subscriber_id, HW_SUB_ACTIVE, HW_STR_NULL, reterr);
}

/*
 * Numbers below the first event that are still missing may have been recorded at any time: they are
 * delivered when they appear.
 */
static int place_since(howdah_bus *bus, int64_t time_us, int64_t *ret_high, hw_ranges *ret_holes,
                       howdah_error *reterr)
{
    int64_t first = 0;
    int s =
        hw_log_reader_end(bus, ret_high, ret_holes, reterr); /* before: what comes is after it */

    if (s >= 0)
        s = bus->store->ops->first_since(bus->store, time_us, &first, reterr);
    if (s < 0 || first == 0 || first > *ret_high)
        return s;
    *ret_high = first - 1;
    while (ret_holes->n > 0 && ret_holes->items[ret_holes->n - 1].first > *ret_high)
        ret_holes->n--;
    if (ret_holes->n > 0 && ret_holes->items[ret_holes->n - 1].last > *ret_high)
        ret_holes->items[ret_holes->n - 1].last = *ret_high;
    return HOWDAH_OK;
}

int howdah_subscription_reset_since(howdah_bus *bus, const char *subscriber_id, int64_t time_us,
                                    howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_service *service = NULL;
    hw_ranges outstanding = HW_RANGES_INIT;
    int64_t high = 0;
    int s = hw_enter(&entry, &bus, HW_WRITES | HW_WAITS, "howdah_subscription_reset_since", reterr);

    if (s >= 0)
        s = check_named(subscriber_id, reterr);
    if (s >= 0 && (time_us < HW_TIME_MIN_US || time_us > HW_TIME_MAX_US))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "since", "must be within the years 1 to 9999");
    if (s >= 0)
        s = hw_service_of(bus, &service, reterr);
    if (s >= 0)
        s = place_since(bus, time_us, &high, &outstanding, reterr);
    if (s >= 0)
        s = hw_sub_ops_of(bus)->reset(bus->store, hw_str_of(subscriber_id), high, outstanding.items,
                                      outstanding.n, reterr);
    hw_ranges_done(&outstanding);
    return s;
}

/* The store takes the token away with the place: an owner that runs hears of it with its next
   question or checkpoint, and starts anew. */
int howdah_subscription_reset(howdah_bus *bus, const char *subscriber_id, int64_t to,
                              howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_service *service = NULL;
    hw_ranges outstanding = HW_RANGES_INIT;
    int64_t high = to;
    int64_t head = 0;
    int s = hw_enter(&entry, &bus, HW_WRITES | HW_WAITS, "howdah_subscription_reset", reterr);

    if (s >= 0)
        s = check_named(subscriber_id, reterr);
    if (s >= 0 && to < HOWDAH_FROM_END)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "to", "must be a sequence, 0 or more");
    if (s >= 0)
        s = bus->store->ops->head(bus->store, &head, reterr);
    if (s >= 0 && to > head)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "to", "is beyond the log's head, %lld",
                          (long long)head);
    if (s >= 0)
        s = hw_service_of(bus, &service, reterr);
    if (s >= 0 && to == HOWDAH_FROM_END)
        s = hw_log_reader_end(bus, &high, &outstanding, reterr);
    if (s >= 0)
        s = hw_sub_ops_of(bus)->reset(bus->store, hw_str_of(subscriber_id), high, outstanding.items,
                                      outstanding.n, reterr);
    hw_ranges_done(&outstanding);
    return s;
}

static int note_shared(void *ctx, const hw_sub_row *row)
{
    *(bool *)ctx = row->shared;
    return 0;
}

/* A binding's router is refused: unbind removes both, and removing the row alone would leave a
   binding that routes nothing.  A shared one has more than its row. */
int howdah_subscription_remove(howdah_bus *bus, const char *subscriber_id, howdah_error *reterr)
{
    HW_ENTRY(entry);
    bool shared = false;
    hw_str name;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_subscription_remove", reterr);

    if (s >= 0)
        s = check_named(subscriber_id, reterr);
    if (s >= 0)
        s = hw_route_refuse(bus, subscriber_id, reterr);
    name = hw_str_of(subscriber_id);
    if (s >= 0)
        s = hw_sub_ops_of(bus)->load(bus->store, name, note_shared, &shared, reterr);
    if (s < 0)
        return s;
    return shared ? bus->store->ops->groups->remove(bus->store, name, reterr)
                  : hw_sub_ops_of(bus)->remove(bus->store, name, reterr);
}

/* ------------------------------------------------------------------- skips */

int howdah_skips_walk(howdah_bus *bus, const char *subscriber_id, bool resolved,
                      int (*fn)(void *ctx, const howdah_skip *skip), void *ctx,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_skips_walk", reterr);

    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_skips_walk: fn is NULL");
    if (s >= 0 && subscriber_id)
        s = hw_rule_name("subscriber_id", hw_str_of(subscriber_id), reterr);
    return s < 0 ? s
                 : hw_sub_ops_of(bus)->skips(bus->store, hw_str_of(subscriber_id), resolved, fn,
                                             ctx, reterr);
}

/* A person has looked at the gap, and says what became of it. */
int howdah_skip_resolve(howdah_bus *bus, int64_t id, const char *resolution, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_skip_resolve", reterr);

    if (s >= 0)
        s = hw_rule_reason(hw_str_of(resolution), reterr);
    return s < 0 ? s
                 : hw_sub_ops_of(bus)->skip_resolve(bus->store, id, hw_str_of(resolution), reterr);
}

/* ------------------------------------------------------------ dead letters */

/* One walk for dead letters of subscriptions and of queues; the two filters exclude each other. */
int howdah_dead_letters_walk(howdah_bus *bus, const howdah_dead_letters_options *options,
                             int (*fn)(void *ctx, const howdah_dead_letter *dead_letter), void *ctx,
                             howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_dead_letters_options own = HOWDAH_DEAD_LETTERS_OPTIONS_INIT;
    hw_dead_letter_query query;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_dead_letters_walk", reterr);

    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_dead_letters_walk: fn is NULL");
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_dead_letters_walk", reterr);
    options = &own;
    if (s >= 0 && options->subscriber_id)
        s = hw_rule_name("subscriber_id", hw_str_of(options->subscriber_id), reterr);
    if (s >= 0 && options->queue)
        s = hw_rule_queue(hw_str_of(options->queue), reterr);
    if (s >= 0 && options->queue && options->subscriber_id)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "queue",
                          "a dead letter is of a subscription or of a queue, not of both");
    if (s >= 0 && (options->id < 0 || options->after_id < 0 || options->limit < 0))
        s = hw_fail_field(reterr, HOWDAH_INVALID, "id", "must be 0 or more");
    if (s < 0)
        return s;
    query = (hw_dead_letter_query){.subscriber_id = hw_str_of(options->subscriber_id),
                                   .queue = hw_str_of(options->queue),
                                   .id = options->id,
                                   .after_id = options->after_id,
                                   .limit = options->limit,
                                   .resolved = options->resolved};
    return hw_sub_ops_of(bus)->dead_letters(bus->store, &query, fn, ctx, reterr);
}

/* *ret_n is written only on success, and only if the caller wants it. */
static int mark(howdah_bus *bus, const int64_t *ids, size_t n, const char *subscriber_id,
                hw_dead_letter_state state, const char *reason, int64_t *ret_n,
                howdah_error *reterr)
{
    int64_t marked = 0;
    int s = hw_sub_ops_of(bus)->dead_letters_set_state(bus->store, ids, n, hw_str_of(subscriber_id),
                                                       state, hw_str_of(reason), &marked, reterr);

    if (s >= 0 && ret_n)
        *ret_n = marked;
    return s;
}

/* Only a mark in the store: the owner finds it and tries again.  With ids the subscriber is
   ignored. */
int howdah_dead_letters_redrive(howdah_bus *bus, const int64_t *ids, size_t n,
                                const char *subscriber_id, int64_t *ret_n, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_dead_letters_redrive", reterr);

    if (s >= 0 && n > 0 && !ids)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_dead_letters_redrive: ids is NULL");
    if (s >= 0 && subscriber_id)
        s = hw_rule_name("subscriber_id", hw_str_of(subscriber_id), reterr);
    return s < 0 ? s
                 : mark(bus, ids, n, n > 0 ? NULL : subscriber_id, HW_DEAD_LETTER_REDRIVE, NULL,
                        ret_n, reterr);
}

/* Only by id and with a reason: nobody throws away by accident what nobody has looked at. */
int howdah_dead_letters_discard(howdah_bus *bus, const int64_t *ids, size_t n, const char *reason,
                                int64_t *ret_n, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_dead_letters_discard", reterr);

    if (s >= 0 && (n == 0 || !ids))
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_dead_letters_discard: no ids");
    if (s >= 0)
        s = hw_rule_reason(hw_str_of(reason), reterr);
    return s < 0 ? s : mark(bus, ids, n, NULL, HW_DEAD_LETTER_DISCARDED, reason, ret_n, reterr);
}
