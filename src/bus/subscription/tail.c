/*
 * tail.c - a live tail: a subscription that nobody stores.
 *
 * It is one of the bus's subscriptions as far as the reader is concerned: it reads for itself while
 * it is behind, takes the window's pages when it is at the head, and hears the bell.  What it has
 * handed out counts as handled.
 *
 *   I1  Nothing of it is stored, so what it knows is all there is.  After a new session it looks
 *       whether the last event that it has seen is still in the log, and goes on after it.
 *   I2  If it is not, the log is another one, or was put back: it goes back to the last event that
 *       this log has as well, says so, and hands out all that follows, numbers that it has seen
 *       before included.  For that it remembers some events of the way: many of the last ones, ever
 *       fewer of those before.
 *   I3  A log can be put back under a session that goes on, say by a restore into its tables.
 *       Nothing that is stored tells a tail so: it looks itself, after each page that has rows, and
 *       every CHECK_EVERY_MS without any.  Nor does it move its anchor by a page before it has
 *       looked: the event that the page ends with would be found for ever.
 *   I4  A place, as a text (engine/place.h), is what is outstanding at that moment, and an excerpt
 *       of what is remembered.  A tail that goes on from one looks whether the newest event is
 *       there, with its id; whether the log has the name that it had; and whether it has given out
 *       all numbers up to high.  Only then does the place count as it is.  If not, I2: nothing
 *       above the event that both have counts as handed out.  That is sound because a number below
 *       a visible event that did not get its event in the one log does not get one in the other:
 *       whoever could still write it then is gone with the server that it was on, or is prepared,
 *       and so was outstanding.  (A prepared transaction that one server has rolled back and its
 *       successor commits is beyond that, for tails as for subscriptions.)
 *   I5  An event counts as handed out when nothing can keep it from the caller any more.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/bus.h"
#include "bus/log/upcast.h"
#include "bus/subscription/subscription.h"
#include "engine/place.h"
#include "engine/rules.h"

/* Events that it remembers.  The gaps between the older ones grow, so that a tail that runs for
   days still finds a place not too far back. */
#define PAST 64
#define CHECK_EVERY_MS 1000 /* I3 */
/* Of them a place has the newest, and each next one about so many times as far back. */
#define PAST_STEP 16
/* No event has a number above it: what counts on from there does not overflow. */
#define HIGH_MAX (INT64_MAX - 2)
/* A set that stands still can have millions of ranges; a place has of it what fits into a text. */
#define STILL_RANGES 64

struct howdah_tail {
    hw_closing closing; /* the first member: closing it is closing the tail */
    howdah_bus *bus;
    howdah_subscription *sub;
    hw_anchor past[PAST]; /* ascending */
    size_t past_n;
    int64_t check_ms; /* I3: when to look without a page */
    int64_t returns;  /* how often it went back (I2) */
    /* I4, what costs something to find out and seldom changes: */
    int64_t passed;    /* above it, what is missing has not been compared with the page's holes */
    howdah_place here; /* the log that its knowledge is of, and scratch for the rest */
    hw_place_anchor older[HW_PLACE_ANCHORS - 1]; /* the excerpt of past, the newest first */
    size_t older_n;
    hw_still *still;               /* of this set */
    hw_range joined[STILL_RANGES]; /* these are the numbers, and some between them */
    size_t joined_n;
};

/* ------------------------------------------------------------- where it was */

/* What a place has of the past: near ones, and far ones in case that those are gone. */
static void excerpt(howdah_tail *tail)
{
    int64_t behind = 0; /* the next one has to be so far behind the newest */

    tail->older_n = 0;
    for (size_t i = tail->past_n; i-- > 0 && tail->older_n < HW_PLACE_ANCHORS - 1;) {
        const hw_anchor *anchor = &tail->past[i];

        if (tail->past[tail->past_n - 1].sequence - anchor->sequence < behind)
            continue;
        tail->older[tail->older_n++] =
            (hw_place_anchor){anchor->sequence, hw_place_hash(anchor->id.b, sizeof anchor->id.b)};
        behind = behind == 0 ? 1 : behind * PAST_STEP;
    }
}

/* I2: when there is no room left, every second one of the older half goes. */
static void remember(howdah_tail *tail)
{
    const hw_anchor *last = &tail->sub->place.anchor;

    if (last->sequence == 0 ||
        (tail->past_n > 0 && tail->past[tail->past_n - 1].sequence >= last->sequence))
        return;
    if (tail->past_n == PAST) {
        size_t kept = 0;

        for (size_t i = 0; i < PAST; i++) {
            if (i >= PAST / 2 || i % 2 == 0)
                tail->past[kept++] = tail->past[i];
        }
        tail->past_n = kept;
    }
    assert(tail->past_n < PAST);
    tail->past[tail->past_n++] = *last;
    excerpt(tail);
}

/* What it knows is true in the log of this session. */
static void note_log(howdah_tail *tail)
{
    const char *log = tail->bus->service->log;

    tail->here.log = hw_place_hash(log, strlen(log));
}

/* The place becomes this: high, and what is outstanding below it. */
static int stand_at(howdah_tail *tail, int64_t high, const hw_ranges *outstanding,
                    howdah_error *reterr)
{
    int s = hw_delivery_load(&tail->sub->d, high, outstanding->items, outstanding->n, 0, reterr);

    if (s >= 0)
        tail->passed = high;
    return s;
}

/* The place becomes that of the anchor, with what is outstanding below it.  What was above is
   read again, whatever its numbers are in this log. */
static int go_back_to(howdah_tail *tail, const hw_anchor *anchor, hw_ranges *outstanding,
                      howdah_error *reterr)
{
    int s = hw_ranges_remove(outstanding, anchor->sequence + 1, INT64_MAX, reterr);

    if (s >= 0)
        s = stand_at(tail, anchor->sequence, outstanding, reterr);
    if (s < 0)
        return s;
    tail->sub->place.anchor = *anchor;
    tail->returns++;
    return HOWDAH_OK;
}

/* HOWDAH_NOT_FOUND: this log does not have it, or has not given out all numbers up to high. */
static int has(const howdah_tail *tail, const hw_anchor *anchor, int64_t high, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_sub_ops_of(tail->bus)->verify(tail->bus->store, anchor, high, &err);

    if (s < 0 && s != HOWDAH_NOT_FOUND)
        hw_error_copy(reterr, &err);
    return s;
}

/* I1, I2: the newest remembered event that this log has.  If it has none of them, everything in
   it is new. */
static int find_again(howdah_tail *tail, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    hw_anchor anchor = sub->place.anchor;
    int64_t seen = anchor.sequence;
    hw_ranges outstanding = HW_RANGES_INIT;
    int s = has(tail, &anchor, 0, reterr);

    remember(tail);
    while (s == HOWDAH_NOT_FOUND) {
        if (tail->past_n > 0)
            tail->past_n--;
        anchor = tail->past_n > 0 ? tail->past[tail->past_n - 1] : (hw_anchor){.sequence = 0};
        s = has(tail, &anchor, 0, reterr);
    }
    if (s >= 0 && seen > 0 && anchor.sequence < sub->d.high) {
        s = hw_delivery_outstanding(&sub->d, &outstanding, reterr);
        if (s >= 0)
            s = go_back_to(tail, &anchor, &outstanding, reterr);
        hw_ranges_done(&outstanding);
    }
    if (s < 0)
        return s;
    excerpt(tail);
    if (anchor.sequence < seen)
        hw_log(HOWDAH_LOG_WARN,
               "the log was replaced: event %lld, seen here, is not in it; going on after %lld",
               (long long)seen, (long long)anchor.sequence);
    note_log(tail);
    sub->heard = HW_HEARD_NOTHING;
    hw_sub_catch_up(sub, 0);
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------ opening */

/* A subscription has to have a handler; hw_deliver_run() is never called for a tail. */
static int never_called(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    return howdah_delivery_fail(delivery, "a tail has no handler");
}

/* A subscription without a row: nothing about it is stored, so no other process knows of it. */
static int new_sub(howdah_bus *bus, const howdah_tail_options *options,
                   howdah_subscription **ret_sub, howdah_error *reterr)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    int s;

    o.subscriber_id = ""; /* nobody else has this one */
    o.pattern = options->pattern;
    o.stream = options->stream;
    o.originals_only = options->originals_only;
    o.handler = never_called;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.catch_up_batch = (int)bus->read_batch;
    o.outstanding_max = HW_HOLES_MAX; /* on a standby nobody can tell which of them are dead */
    s = hw_subscription_new(bus, &o, ret_sub, reterr);
    if (s >= 0)
        (*ret_sub)->kind = HW_KIND_TAIL;
    return s;
}

/* The anchors of a place that this log has, with their ids, are what is remembered. */
static int recall(howdah_tail *tail, const howdah_place *place, howdah_error *reterr)
{
    hw_anchor there[HW_PLACE_ANCHORS];
    size_t n = place->anchors_n;
    size_t there_n = 0;
    int s;

    tail->past_n = 0;
    for (size_t i = 0; i < n; i++)
        there[i].sequence = place->anchors[n - 1 - i].sequence;
    s = hw_log_reader_events_at(tail->bus, there, n, &there_n, reterr);
    for (size_t i = 0, k = n; s >= 0 && i < there_n; i++) {
        do {
            k--;
        } while (place->anchors[k].sequence != there[i].sequence);
        if (hw_place_hash(there[i].id.b, sizeof there[i].id.b) == place->anchors[k].hash)
            tail->past[tail->past_n++] = there[i];
    }
    excerpt(tail);
    return s < 0 ? s : HOWDAH_OK;
}

/* I4.  *ret_fits: the place counts as it is. */
static int judge(const howdah_tail *tail, const howdah_place *place, const hw_anchor *newest,
                 bool *ret_fits, howdah_error *reterr)
{
    int64_t last = place->anchors_n > 0 ? place->anchors[0].sequence : 0;
    int s = HOWDAH_NOT_FOUND;

    if (newest->sequence == last && place->log == tail->here.log)
        s = has(tail, newest, place->high, reterr);
    *ret_fits = s >= 0 || (s == HOWDAH_NOT_FOUND && newest->sequence == place->high);
    return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s;
}

/* The bus's reader may know a log that is gone by now: then it starts anew, and we ask again. */
static int recall_here(howdah_tail *tail, const howdah_place *place, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = recall(tail, place, &err);

    if (s == HOWDAH_UNAVAILABLE)
        s = hw_service_meet(tail->bus, reterr);
    else if (s < 0)
        hw_error_copy(reterr, &err);
    else
        return s;
    return s < 0 ? s : recall(tail, place, reterr);
}

static int find_place(howdah_tail *tail, howdah_place *place, howdah_error *reterr)
{
    hw_anchor newest = {.sequence = 0};
    bool fits = false;
    int s = recall_here(tail, place, reterr);

    note_log(tail);
    if (tail->past_n > 0)
        newest = tail->past[tail->past_n - 1];
    if (s >= 0)
        s = judge(tail, place, &newest, &fits, reterr);
    if (s < 0)
        return s;
    if (fits) {
        tail->sub->place.anchor = newest;
        return stand_at(tail, place->high, &place->outstanding, reterr);
    }
    hw_log(HOWDAH_LOG_WARN,
           "the place is of another log, or of a later moment of this one: it is at %lld; going on"
           " after %lld",
           (long long)place->high, (long long)newest.sequence);
    return go_back_to(tail, &newest, &place->outstanding, reterr);
}

/* The end of the log. */
static int find_end(howdah_tail *tail, howdah_error *reterr)
{
    hw_ranges outstanding = HW_RANGES_INIT;
    int64_t high = 0;
    int s = hw_log_reader_end(tail->bus, &high, &outstanding, reterr);

    tail->sub->place.anchor = tail->bus->service->reader.top;
    if (s >= 0)
        s = stand_at(tail, high, &outstanding, reterr);
    hw_ranges_done(&outstanding);
    return s;
}

/* Right after a number.  The last event up to there was seen, as far as the caller is concerned; if
   the log is not so far yet, nothing was, and it is only a number. */
static int find_number(howdah_tail *tail, int64_t since, howdah_error *reterr)
{
    const hw_ranges none = HW_RANGES_INIT;
    int64_t high = since < HIGH_MAX ? since : HIGH_MAX;
    int64_t head = 0;
    int s = high > 0 ? tail->bus->store->ops->head(tail->bus->store, &head, reterr) : HOWDAH_OK;

    if (s >= 0 && high > 0 && high <= head)
        s = hw_log_reader_last(tail->bus, high, &tail->sub->place.anchor, reterr);
    return s < 0 ? s : stand_at(tail, high, &none, reterr);
}

static int find_start(howdah_tail *tail, int64_t since, howdah_place *place, howdah_error *reterr)
{
    int s;

    note_log(tail);
    if (place)
        s = find_place(tail, place, reterr);
    else if (since == HOWDAH_ABSENT)
        s = find_end(tail, reterr);
    else
        s = find_number(tail, since, reterr);
    hw_service_begin(tail->sub);
    remember(tail);
    return s;
}

/* The place is taken apart here, before anybody is asked anything. */
static int check(const howdah_tail_options *options, howdah_place *place, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (options->since < HOWDAH_ABSENT)
        return hw_fail_field(reterr, HOWDAH_INVALID, "since", "must be a sequence, 0 or more");
    if (options->since != HOWDAH_ABSENT && options->place)
        return hw_fail_field(reterr, HOWDAH_INVALID, "place", "cannot be given with since");
    if (options->pattern)
        s = hw_rule_pattern(hw_str_of(options->pattern), reterr);
    if (s >= 0 && options->stream)
        s = hw_rule_stream(hw_str_of(options->stream), reterr);
    if (s >= 0 && options->place)
        s = hw_place_parse(hw_str_of(options->place), place, reterr);
    return s;
}

/* May run later than howdah_tail_close(), by another thread that may use the bus (entry.h I6). */
static void close_tail(hw_closing *closing)
{
    howdah_tail *tail = (howdah_tail *)closing; /* its first member */
    howdah_subscription **at;

    hw_still_drop(tail->still);
    hw_place_done(&tail->here);
    if (tail->sub) {
        hw_service_drop_page(tail->sub);
        for (at = &tail->bus->service->subs; *at && *at != tail->sub; at = &(*at)->next)
            ;
        if (*at)
            *at = tail->sub->next;
        tail->bus->service->relisten = true;
        hw_subscription_free(tail->sub);
    }
    hw_free(tail);
}

/* It is in the bus's list from the start, so that the reader covers the log for it.  A failure
   takes it out again. */
static int open_checked(howdah_bus *bus, const howdah_tail_options *options, howdah_place *place,
                        howdah_tail **ret_tail, howdah_error *reterr)
{
    hw_service *service = NULL;
    howdah_tail *tail = NULL;
    int s = hw_service_of(bus, &service, reterr);

    if (s >= 0 && !(tail = hw_calloc(1, sizeof *tail)))
        s = hw_fail_no_memory(reterr);
    if (s < 0)
        return s;
    tail->bus = bus;
    tail->closing.close = close_tail;
    s = new_sub(bus, options, &tail->sub, reterr);
    if (s >= 0) {
        tail->sub->next = service->subs;
        service->subs = tail->sub;
        service->relisten = true;
        s = hw_service_meet(bus, reterr);
    }
    if (s >= 0)
        s = find_start(tail, options->since, options->place ? place : NULL, reterr);
    if (s < 0) {
        close_tail(&tail->closing);
        return s;
    }
    *ret_tail = tail;
    return HOWDAH_OK;
}

int howdah_tail_open(howdah_bus *bus, const howdah_tail_options *options, howdah_tail **ret_tail,
                     howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_tail_options own = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_place place = HW_PLACE_INIT;
    int s = hw_enter(&entry, &bus, HW_WAITS, "howdah_tail_open", reterr);

    if (s < 0)
        return s;
    if (!ret_tail)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_open: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_tail_open", reterr);
    if (s >= 0)
        s = check(&own, &place, reterr);
    if (s >= 0)
        s = open_checked(bus, &own, &place, ret_tail, reterr);
    hw_place_done(&place);
    return s;
}

/* -------------------------------------------------------------- handing out */

/* The page is through: up to here everything was handed out, or does not match. */
static int pass(howdah_tail *tail, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    const hw_page *page = sub->work.page;
    int64_t joins = page->number == 0 ? page->joins : 0;
    int s = hw_delivery_pass(&sub->d, page->upto, page->holes, page->holes_n, hw_clock_mono_ms(),
                             reterr);

    assert(sub->work.at == page->n); /* every row was offered */
    if (s < 0)
        return s;
    hw_stand_on(sub, &page->anchor);
    hw_delivery_checkpointed(&sub->d); /* there is nothing to be stored */
    hw_sub_work_clear(sub);
    if (joins > 0 && hw_sub_is_catching_up(sub))
        hw_sub_go_live(sub, joins);
    remember(tail);
    return HOWDAH_OK;
}

/* Without the payload it cannot be handed out: then the tail reads the event for itself. */
static int offer(howdah_subscription *sub, const howdah_event *event, hw_offer *ret_offer,
                 howdah_error *reterr)
{
    bool matches = hw_filter_lets(&sub->filter, event);

    if (matches && event->no_payload) { /* its payload was not asked for */
        *ret_offer = HW_OFFER_WAIT;
        return HOWDAH_OK;
    }
    return hw_delivery_offer(&sub->d, event->global_sequence, event->stream, matches,
                             hw_clock_mono_ms(), ret_offer, reterr);
}

/* As offer(), and once more when the numbers before it are out of the way. */
static int offer_twice(howdah_subscription *sub, const howdah_event *event, hw_offer *ret_offer,
                       howdah_error *reterr)
{
    const hw_page *page = sub->work.page;
    int s = offer(sub, event, ret_offer, reterr);

    if (s >= 0 && *ret_offer == HW_OFFER_WAIT && !event->no_payload) {
        s = hw_delivery_pass(&sub->d, event->global_sequence - 1, page->holes, page->holes_n,
                             hw_clock_mono_ms(), reterr);
        if (s >= 0)
            s = offer(sub, event, ret_offer, reterr);
    }
    return s;
}

/* The user's upcaster may close the tail that it is called for: then it is closed later (entry.h
   I6). */
static int upcast(howdah_tail *tail, const howdah_event *event, const howdah_event **ret_event,
                  howdah_error *reterr)
{
    int s;

    hw_closing_works(&tail->closing, true);
    s = hw_upcast(tail->bus->upcasts, event, &tail->sub->work.upcast, ret_event, reterr);
    hw_closing_works(&tail->closing, false);
    return s;
}

/* It may be handed out, so it has to be ready for that before it is accepted (I5). */
static int prepare(howdah_tail *tail, const howdah_event *event, const howdah_event **ret_event,
                   howdah_error *reterr)
{
    const hw_delivery *d = &tail->sub->d;
    int64_t sequence = event->global_sequence;

    if (event->no_payload || !hw_filter_lets(&tail->sub->filter, event) ||
        (sequence <= d->high && !hw_ranges_has(&d->missing, sequence)))
        return HOWDAH_OK;
    return upcast(tail, event, ret_event, reterr);
}

/* The next row of the page that is for us.  *ret_event NULL: there is none left, or the page was
   given up and is read again.  It counts as handled when it is handed out. */
static int take(howdah_tail *tail, const howdah_event **ret_event, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    int s = HOWDAH_OK;

    *ret_event = NULL;
    while (s >= 0 && sub->work.page && sub->work.at < sub->work.page->n) {
        const howdah_event *event = &sub->work.page->events[sub->work.at];
        const howdah_event *ready = NULL;
        hw_offer verdict = HW_OFFER_SKIP;

        if (hw_stands_still(sub, event->global_sequence)) {
            sub->work.at++;
            continue;
        }
        s = prepare(tail, event, &ready, reterr);
        if (s >= 0)
            s = offer_twice(sub, event, &verdict, reterr);
        if (s < 0)
            return s;
        if (verdict == HW_OFFER_WAIT) {
            hw_service_drop_page(sub);
            hw_sub_catch_up(sub, 0);
            return HOWDAH_OK;
        }
        sub->work.at++;
        if (verdict == HW_OFFER_DELIVER)
            s = hw_delivery_handled(&sub->d, event->global_sequence, hw_clock_mono_ms(), reterr);
        hw_stand_on(sub, &(hw_anchor){event->global_sequence, event->id});
        if (verdict == HW_OFFER_DELIVER) {
            assert(ready);
            *ret_event = ready;
            return s;
        }
    }
    return s >= 0 && sub->work.page ? pass(tail, reterr) : s;
}

/* Whether it is time to look: before anything of a page gets out, or becomes the anchor (I3). */
static bool has_to_look(const howdah_tail *tail, int64_t now)
{
    const hw_page *page = tail->sub->work.page;
    int64_t stands_on = tail->sub->place.anchor.sequence;

    if (stands_on == 0)
        return false;
    return now >= tail->check_ms || (page && (page->n > 0 || page->anchor.sequence > stands_on));
}

/* I3.  The page, if there is one, was read before this look, and nothing of it is handed out yet:
   so nothing of a replaced log gets out. */
static int check_place(howdah_tail *tail, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    int64_t now = hw_clock_mono_ms();
    int s;

    if (!has_to_look(tail, now))
        return HOWDAH_OK;
    s = has(tail, &sub->place.anchor, 0, reterr);
    if (s < 0 && s != HOWDAH_NOT_FOUND)
        return s;
    tail->check_ms = now + CHECK_EVERY_MS;
    if (s == HOWDAH_NOT_FOUND) { /* what the reader knows is of the log before as well */
        hw_service_drop_page(sub);
        hw_log_reader_reset(tail->bus);
        s = find_again(tail, reterr);
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* Brings the next page, after whatever a new session demands (I1).  *ret_page: there is one. */
static int bring(howdah_tail *tail, bool *ret_page, howdah_error *reterr)
{
    int s = hw_service_meet(tail->bus, reterr);

    if (s >= 0 && tail->sub->heard == HW_HEARD_LOST)
        s = find_again(tail, reterr);
    if (s >= 0)
        s = hw_service_bring(tail->sub, reterr);
    if (s >= 0)
        s = check_place(tail, reterr);
    *ret_page = s >= 0 && tail->sub->work.page;
    if (*ret_page)
        tail->passed = tail->sub->d.high;
    return s;
}

/* The caller is told when another call makes sense: what is too much for now may pass. */
static int give_up(int status, howdah_error *err, howdah_error *reterr)
{
    if (hw_service_passes(status, err))
        err->flags |= HOWDAH_RETRYABLE;
    hw_error_copy(reterr, err);
    return status;
}

/* Every call looks at the store at least once, also one that does not wait: else a caller that
   polls with wait_ms = 0 would never see anything. */
int howdah_tail_next(howdah_tail *tail, int wait_ms, const howdah_event **ret_event,
                     howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = tail ? tail->bus : NULL;
    int64_t until = hw_clock_end_ms(wait_ms);
    howdah_error err = HOWDAH_ERROR_INIT;
    int entered;
    int looked = HOWDAH_OK; /* how the last look ended, */
    bool looks = true;      /* and every call looks at least once, also one that does not wait */

    if (!tail || !ret_event)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_next: an argument is NULL");
    entered = hw_enter(&entry, &bus, HW_ITSELF | HW_WAITS, "howdah_tail_next", reterr);
    if (entered < 0)
        return entered;
    for (;;) {
        const howdah_event *event = NULL;
        bool page = false;
        int s = take(tail, &event, &err);
        int64_t left = until - hw_clock_mono_ms();

        if (s >= 0 && event) {
            *ret_event = event;
            return HOWDAH_OK;
        }
        if (s >= 0 && left <= 0 && !looks) /* an error: whether there is nothing is not known */
            return looked < 0 ? give_up(looked, &err, reterr) : HOWDAH_END;
        if (s >= 0)
            looked = s = bring(tail, &page, &err);
        looks = false;
        if (s >= 0)
            tail->bus->service->failures = 0;
        if (s >= 0 && !page && left > 0)
            s = hw_service_wait(tail->bus, left, -1, &err);
        if (s < 0 && (left <= 0 || !hw_service_retries_after(tail->bus, s, &err)))
            return give_up(s, &err, reterr);
    }
}

/* ---------------------------------------------------------- as a text (I4) */

/* Joining is dear when many stand still, so it is done once for each set. */
static void join_still(howdah_tail *tail)
{
    hw_still *still = tail->sub->place.still;

    if (still == tail->still)
        return;
    hw_still_drop(tail->still);
    tail->still = hw_still_share(still);
    tail->joined_n = hw_place_join(tail->joined, hw_still_ranges(still), STILL_RANGES);
}

/* In the middle of a page the numbers between its rows count as missing; those that are no holes of
   the page never come, or do not match. */
static int outstanding(howdah_tail *tail, hw_ranges *out, howdah_error *reterr)
{
    const hw_delivery *d = &tail->sub->d;
    const hw_page *page = tail->sub->work.page;
    int s =
        hw_delivery_outstanding_amid(d, page ? tail->passed : INT64_MAX, page ? page->holes : NULL,
                                     page ? page->holes_n : 0, out, reterr);

    join_still(tail);
    for (size_t i = 0; s >= 0 && i < tail->joined_n && tail->joined[i].first <= d->high; i++) {
        hw_range range = tail->joined[i];

        s = hw_ranges_add(out, range.first, range.last < d->high ? range.last : d->high, reterr);
    }
    return s;
}

static void put_anchors(howdah_tail *tail)
{
    const hw_anchor *last = &tail->sub->place.anchor;
    howdah_place *here = &tail->here;

    here->anchors_n = 0;
    if (last->sequence == 0)
        return;
    here->anchors[here->anchors_n++] =
        (hw_place_anchor){last->sequence, hw_place_hash(last->id.b, sizeof last->id.b)};
    for (size_t i = 0; i < tail->older_n; i++) {
        if (tail->older[i].sequence < last->sequence)
            here->anchors[here->anchors_n++] = tail->older[i];
    }
}

int howdah_tail_place(howdah_tail *tail, char *ret_place, size_t room, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = tail ? tail->bus : NULL;
    int s;

    if (!tail || !ret_place)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_place: an argument is NULL");
    if (room < HOWDAH_PLACE_SIZE)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_place: needs room for %d bytes",
                       HOWDAH_PLACE_SIZE);
    s = hw_enter(&entry, &bus, HW_ITSELF | HW_WAITS, "howdah_tail_place", reterr);
    if (s >= 0)
        s = outstanding(tail, &tail->here.outstanding, reterr);
    if (s < 0)
        return s;
    tail->here.high = tail->sub->d.high;
    put_anchors(tail);
    (void)hw_place_write(&tail->here, ret_place);
    return HOWDAH_OK;
}

int64_t howdah_tail_returns(const howdah_tail *tail)
{
    return tail ? tail->returns : 0;
}

void howdah_tail_close(howdah_tail *tail)
{
    if (tail)
        hw_close_soon(tail->bus, &tail->closing);
}
