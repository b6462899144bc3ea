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
 *       every CHECK_EVERY_MS without any.
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
#include "engine/rules.h"

/* Events that it remembers.  The gaps between the older ones grow, so that a tail that runs for
   days still finds a place not too far back. */
#define PAST 64
#define CHECK_EVERY_MS 1000 /* I3 */

struct howdah_tail {
    hw_closing closing; /* the first member: closing it is closing the tail */
    howdah_bus *bus;
    howdah_subscription *sub;
    hw_anchor past[PAST];
    size_t past_n;
    int64_t check_ms; /* I3: when to look without a page */
};

/* ------------------------------------------------------------- where it was */

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
}

/* The place becomes that of the anchor, with what is outstanding below it.  What was above is
   read again, whatever its numbers are in this log. */
static int go_back_to(howdah_tail *tail, const hw_anchor *anchor, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    hw_ranges outstanding = HW_RANGES_INIT;
    int s = hw_delivery_outstanding(&sub->d, &outstanding, reterr);

    if (s >= 0)
        s = hw_ranges_remove(&outstanding, anchor->sequence + 1, INT64_MAX, reterr);
    if (s >= 0)
        s = hw_delivery_load(&sub->d, anchor->sequence, outstanding.items, outstanding.n, 0,
                             reterr);
    if (s >= 0)
        sub->place.anchor = *anchor;
    hw_ranges_done(&outstanding);
    return s;
}

/* I1, I2: the newest remembered event that this log has.  If it has none of them, everything in
   it is new. */
static int find_again(howdah_tail *tail, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    const hw_anchor none = {.sequence = 0};
    int64_t seen = sub->place.anchor.sequence;
    int s = HOWDAH_NOT_FOUND;

    remember(tail);
    while (s == HOWDAH_NOT_FOUND && tail->past_n > 0) {
        const hw_anchor *anchor = &tail->past[tail->past_n - 1];
        howdah_error err = HOWDAH_ERROR_INIT;

        s = hw_sub_ops_of(tail->bus)->verify(tail->bus->store, anchor, 0, &err);
        if (s >= 0)
            s = go_back_to(tail, anchor, &err);
        if (s == HOWDAH_NOT_FOUND)
            tail->past_n--;
        else if (s < 0)
            hw_error_copy(reterr, &err);
    }
    if (s == HOWDAH_NOT_FOUND && seen > 0) /* nothing is left of what it knew: all is new */
        s = go_back_to(tail, &none, reterr);
    if (s < 0 && s != HOWDAH_NOT_FOUND)
        return s;
    if (sub->place.anchor.sequence < seen)
        hw_log(HOWDAH_LOG_WARN,
               "the log was replaced: event %lld, seen here, is not in it; going on after %lld",
               (long long)seen, (long long)sub->place.anchor.sequence);
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
static int new_sub(howdah_bus *bus, const char *pattern, howdah_subscription **ret_sub,
                   howdah_error *reterr)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    int s;

    o.subscriber_id = ""; /* nobody else has this one */
    o.pattern = pattern;
    o.handler = never_called;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.catch_up_batch = (int)bus->read_batch;
    o.outstanding_max = HW_HOLES_MAX; /* on a standby nobody can tell which of them are dead */
    s = hw_subscription_new(bus, &o, ret_sub, reterr);
    if (s >= 0)
        (*ret_sub)->kind = HW_KIND_TAIL;
    return s;
}

/* The end of the log, or the place right after a number. */
static int find_start(howdah_tail *tail, int64_t since, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    hw_ranges outstanding = HW_RANGES_INIT;
    int64_t high = since;
    int s = HOWDAH_OK;

    if (since == HOWDAH_ABSENT) {
        s = hw_log_reader_end(tail->bus, &high, &outstanding, reterr);
        sub->place.anchor = tail->bus->service->reader.top;
    }
    if (s >= 0)
        s = hw_delivery_load(&sub->d, high, outstanding.items, outstanding.n, 0, reterr);
    hw_ranges_done(&outstanding);
    hw_service_begin(sub);
    remember(tail);
    return s;
}

static int check(const howdah_tail_options *options, howdah_error *reterr)
{
    if (options->since < HOWDAH_ABSENT)
        return hw_fail_field(reterr, HOWDAH_INVALID, "since", "must be a sequence, 0 or more");
    return options->pattern ? hw_rule_pattern(hw_str_of(options->pattern), reterr) : HOWDAH_OK;
}

/* May run later than howdah_tail_close(), by another thread that may use the bus (entry.h I6). */
static void close_tail(hw_closing *closing)
{
    howdah_tail *tail = (howdah_tail *)closing; /* its first member */
    howdah_subscription **at;

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
int howdah_tail_open(howdah_bus *bus, const howdah_tail_options *options, howdah_tail **ret_tail,
                     howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_tail_options own = HOWDAH_TAIL_OPTIONS_INIT;
    hw_service *service = NULL;
    howdah_tail *tail = NULL;
    int s = hw_enter(&entry, &bus, HW_WAITS, "howdah_tail_open", reterr);

    if (s < 0)
        return s;
    if (!ret_tail)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_tail_open: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_tail_open", reterr);
    options = &own;
    if (s >= 0)
        s = check(options, reterr);
    if (s >= 0)
        s = hw_service_of(bus, &service, reterr);
    if (s >= 0 && !(tail = hw_calloc(1, sizeof *tail)))
        s = hw_fail_no_memory(reterr);
    if (s < 0)
        return s;
    tail->bus = bus;
    tail->closing.close = close_tail;
    s = new_sub(bus, options->pattern, &tail->sub, reterr);
    if (s >= 0) {
        tail->sub->next = service->subs;
        service->subs = tail->sub;
        service->relisten = true;
        s = hw_service_meet(bus, reterr);
    }
    if (s >= 0)
        s = find_start(tail, options->since, reterr);
    if (s < 0) {
        close_tail(&tail->closing);
        return s;
    }
    *ret_tail = tail;
    return HOWDAH_OK;
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

/* The next row of the page that is for us.  *ret_event NULL: there is none left, or the page was
   given up and is read again.  It counts as handled when it is handed out. */
static int take(howdah_tail *tail, const howdah_event **ret_event, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    int s = HOWDAH_OK;

    *ret_event = NULL;
    while (s >= 0 && sub->work.page && sub->work.at < sub->work.page->n) {
        const howdah_event *event = &sub->work.page->events[sub->work.at];
        hw_offer verdict = HW_OFFER_SKIP;

        if (hw_stands_still(sub, event->global_sequence)) {
            sub->work.at++;
            continue;
        }
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
            *ret_event = event;
            return s;
        }
    }
    return s >= 0 && sub->work.page ? pass(tail, reterr) : s;
}

/* I3.  The page, if there is one, was read before this look, and nothing of it is handed out yet:
   so nothing of a replaced log gets out. */
static int check_place(howdah_tail *tail, howdah_error *reterr)
{
    howdah_subscription *sub = tail->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t now = hw_clock_mono_ms();
    int s;

    if (sub->place.anchor.sequence == 0 ||
        (now < tail->check_ms && !(sub->work.page && sub->work.page->n > 0)))
        return HOWDAH_OK;
    s = hw_sub_ops_of(tail->bus)->verify(tail->bus->store, &sub->place.anchor, 0, &err);
    if (s < 0 && s != HOWDAH_NOT_FOUND) {
        hw_error_copy(reterr, &err);
        return s;
    }
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

        if (s >= 0 && event)
            return upcast(tail, event, ret_event, reterr);
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

void howdah_tail_close(howdah_tail *tail)
{
    if (tail)
        hw_close_soon(tail->bus, &tail->closing);
}
