/*
 * loop.c - serving the subscriptions of a bus: what is due, pass after pass.  Who owns one is
 * ownership.c's matter, how a bus sleeps wakeup.c's.
 *
 *   I1  A pass asks for the session first.  In a new one nothing of the old is true: locks are
 *       gone, events may be (a server that lost its last moments), so every subscription is taken
 *       and loaded anew, after LISTEN.
 *   I2  LISTEN, then read, then wait: what commits in between has rung, or is read.
 *   I3  What one subscription cannot store is its own trouble: it rests and tries again, and the
 *       others are served.  A store that cannot be reached is everybody's.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"
#include "engine/backoff.h"
#include "engine/pattern.h"

/* How long a subscription that could read nothing, or could not accept what it read, waits before
   it reads for itself again. */
#define REST_MS 20
/* I3: the waits of a subscription whose work cannot be stored, from the first to the longest. */
#define TROUBLE_MS 50
#define TROUBLE_MAX_MS 5000
/* Channels that a session listens to at most; the patterns beyond use the general one. */
#define TYPES_MAX 256

/* Made when first needed: a bus that only appends has no reader, no owner's name and no bell. */
int hw_service_of(howdah_bus *bus, hw_service **ret_service, howdah_error *reterr)
{
    if (!hw_sub_ops_of(bus))
        return hw_fail(reterr, HOWDAH_MISUSE, "this store has no subscriptions");
    if (!bus->service) {
        hw_service *service = hw_calloc(1, sizeof *service);

        if (!service)
            return hw_fail_no_memory(reterr);
        hw_log_reader_init(&service->reader);
        hw_bus_sign(service->owner);
        hw_service_wait_init(service);
        bus->service = service;
    }
    *ret_service = bus->service;
    return HOWDAH_OK;
}

/* ---------------------------------------------------------------- one round */

/*
 * The session in which handlers' transactions run.  It is not the bus's own, where the reader and
 * the checkpoints go on while a handler's transaction is open; but a store that is alone (in
 * memory) has only one.
 */
int hw_service_second_session(howdah_bus *bus, howdah_error *reterr)
{
    if (!bus->service->tx && bus->store->alone) /* nothing else runs on it while a handler does */
        bus->service->tx = bus->store;
    if (bus->service->tx)
        return HOWDAH_OK;
    if (!bus->open_store)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "this bus cannot open a second session for handlers' transactions");
    return bus->open_store(bus->open_ctx, bus->interrupt, &bus->service->tx, reterr);
}

/* A page that was not brought to its end is read again: rows that were not offered are not lost. */
static void read_anew(howdah_subscription *sub, int64_t rest_ms)
{
    hw_service_drop_page(sub);
    hw_sub_catch_up(sub, rest_ms);
}

/* I3: what may concern only this subscription's writes, so that it rests alone.  Any other
   failure is the caller's to hear of. */
static bool is_own_trouble(int status)
{
    return status == HOWDAH_FULL || status == HOWDAH_TIMEOUT;
}

/* The wait grows while the trouble goes on.  end_delivery() starts it anew after the first
   success. */
static void rest(howdah_subscription *sub, int64_t now)
{
    hw_log(HOWDAH_LOG_WARN, "subscription %s waits for the store: %s", sub->id,
           sub->work.error.message);
    sub->schedule.trouble_ms = now + hw_backoff_ms(TROUBLE_MS, TROUBLE_MAX_MS,
                                                   sub->schedule.troubles++, 20, hw_random_u32());
}

/* A router that could not store its page has thrown its state away; it is taken again when the
   store has had a rest. */
static int end_route(howdah_subscription *sub, int failed, int64_t now, howdah_error *reterr)
{
    if (failed >= 0)
        return HOWDAH_OK;
    rest(sub, now);
    sub->schedule.take_ms = sub->schedule.trouble_ms;
    if (is_own_trouble(failed))
        return HOWDAH_OK;
    hw_error_copy(reterr, &sub->work.error);
    return failed;
}

/* How the work ended becomes the subscription's state.  What a lost token or session leaves is
   thrown away first (subscription.h I6): nothing of it may be stored or read on from. */
static int end_delivery(howdah_subscription *sub, howdah_error *reterr)
{
    hw_service *service = sub->bus->service;
    int64_t now = hw_clock_mono_ms();
    bool page = sub->work.kind == HW_WORK_PAGE;
    bool ask_soon = sub->work.told != HW_SUB_ACTIVE || sub->heard == HW_HEARD_NEWS;
    bool lost = sub->heard == HW_HEARD_LOST;
    hw_sub_work_end end = sub->work.end;
    int64_t joins = page && sub->work.page->number == 0 ? sub->work.page->joins : 0;
    int failed = sub->work.failed;

    assert(!hw_sub_is_busy(sub) && sub->work.kind != HW_WORK_NONE);
    if (sub->work.delivered > 0) {
        service->worked = true;
        service->pause.event_us = hw_clock_mono_us();
    }
    hw_sub_work_clear(sub);
    sub->heard = HW_HEARD_NOTHING;
    if (end == HW_END_RELOAD && !lost)
        hw_service_unlock(sub);
    if (end == HW_END_RELOAD || lost) {
        hw_service_step_down(sub, now);
        return sub->kind == HW_KIND_ROUTER ? end_route(sub, failed, now, reterr) : HOWDAH_OK;
    }
    if (end == HW_END_HALT) {
        hw_service_stop(sub);
        return HOWDAH_OK;
    }
    if (page && end != HW_END_PASSED)
        read_anew(sub, end == HW_END_WAITING ? now + REST_MS : 0);
    else if (joins > 0 && hw_sub_is_catching_up(sub))
        hw_sub_go_live(sub, joins);
    if (ask_soon) /* news came while a worker had it, or in the middle of its page */
        sub->schedule.poll_ms = 0;
    if (failed >= 0) {
        sub->schedule.troubles = 0;
        return HOWDAH_OK;
    }
    if (is_own_trouble(failed)) {
        rest(sub, now);
        return HOWDAH_OK;
    }
    hw_error_copy(reterr, &sub->work.error);
    return failed;
}

/*
 * With a runner a worker does it, and hw_service_collect() ends it; else it is done here and now.
 */
static int dispatch(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    bool transactional = sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL;
    int s = HOWDAH_OK;

    if (bus->service->runner) {
        hw_sub_work_hand_out(sub);
        hw_runner_push(bus->service->runner, sub);
        return HOWDAH_OK;
    }
    if (transactional)
        s = hw_service_second_session(bus, reterr);
    if (s < 0) { /* the window's page was taken: it is read again */
        read_anew(sub, 0);
        return s;
    }
    hw_deliver_run(sub, bus->store, transactional ? bus->service->tx : NULL);
    return end_delivery(sub, reterr);
}

/* Retries that are due, and followers of events that are out of the way. */
static int read_due(howdah_subscription *sub, howdah_error *reterr)
{
    hw_page *page = NULL;
    int s;

    sub->work.asked_n =
        hw_delivery_due(&sub->d, hw_clock_mono_ms(), sub->work.asked, HW_AGAIN_ROWS);
    if (sub->work.asked_n == 0)
        return HOWDAH_OK;
    s = hw_log_reader_read_again(sub, &page, reterr);
    if (s >= 0)
        hw_sub_work_begin(sub, HW_WORK_ROWS_AGAIN, page);
    return s;
}

/* A page that it reads for itself.  When nothing is left to read and nothing is missing, it goes
   live with the next page of the window. */
static int read_own(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_log_reader *reader = &sub->bus->service->reader;
    int64_t now = hw_clock_mono_ms();
    hw_page *page = NULL;
    int s;

    if (now < sub->schedule.rest_ms)
        return HOWDAH_OK;
    s = hw_log_reader_read_own(sub, &page, reterr);
    if (s < 0)
        return s;
    if (s == HOWDAH_END) {
        sub->schedule.rest_ms = now + REST_MS;
        return HOWDAH_OK;
    }
    if (page) {
        if (page->n == 0 && page->joins == 0 && page->upto <= sub->d.high && sub->d.missing.n > 0)
            sub->schedule.rest_ms = now + REST_MS; /* what is missing is still missing */
        hw_sub_work_begin(sub, HW_WORK_PAGE, page);
    } else if (reader->started && sub->d.high == reader->frontier.high && sub->d.missing.n == 0) {
        hw_sub_go_live(sub, reader->pages + 1);
    } else { /* a page of the window may have had what is missing: it goes on reading for itself */
        sub->schedule.rest_ms = now + REST_MS;
    }
    return HOWDAH_OK;
}

/* The window's next page.  A page that is gone, or has holes while the order is strict, is not
   for this subscription: it reads for itself again. */
static int take_page(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_log_reader *reader = &sub->bus->service->reader;
    hw_page *page;
    int s;

    if (sub->reading.next_page > reader->pages)
        return HOWDAH_OK;
    page = hw_log_reader_page(reader, sub->reading.next_page);
    if (page && sub->d.config.ordering == HOWDAH_ORDERING_STRICT &&
        (page->holes_n > 0 || page->still))
        page = NULL;
    s = page ? hw_holes_adopt(sub, page, false, reterr) : HOWDAH_END;
    if (s == HOWDAH_END) {
        hw_sub_catch_up(sub, 0);
        return HOWDAH_OK;
    }
    if (s < 0)
        return s;
    assert(page->refs > 0); /* the window's own */
    page->refs++;
    hw_sub_work_begin(sub, HW_WORK_PAGE, page);
    sub->reading.next_page++;
    return HOWDAH_OK;
}

/* Dead letters first: somebody waits for them.  Then what is due again, then what is new. */
static int find_work(howdah_subscription *sub, howdah_error *reterr)
{
    int s;

    if (sub->redrives) {
        hw_sub_work_begin(sub, HW_WORK_DEAD_LETTERS, NULL);
        return HOWDAH_OK;
    }
    s = read_due(sub, reterr);
    if (s >= 0 && !sub->work.page && hw_sub_is_catching_up(sub))
        s = read_own(sub, reterr);
    if (s >= 0 && !sub->work.page && hw_sub_is_live(sub))
        s = take_page(sub, reterr);
    return s;
}

/* gap_policy=timeout: a number that has been missing for too long is given up, on the record.
   The skip and the checkpoint without it are one operation of the store. */
static int skip_overdue(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_frontier *f = &sub->bus->service->reader.frontier;
    hw_ranges outstanding = HW_RANGES_INIT;
    hw_range range;
    int64_t age_ms = 0;
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    while (s >= 0 && hw_delivery_overdue(&sub->d, f->holes, f->holes_n, now, &range, &age_ms)) {
        hw_checkpoint checkpoint;

        s = hw_deliver_checkpoint(sub, &outstanding, &checkpoint, reterr);
        if (s >= 0)
            s = hw_delivery_outstanding_without(&sub->d, range.first, range.last, &outstanding,
                                                reterr);
        checkpoint.outstanding = outstanding.items;
        checkpoint.outstanding_n = outstanding.n;
        if (s >= 0)
            s = hw_sub_ops_of(sub->bus)->skip(sub->bus->store, &checkpoint, range, age_ms,
                                              hw_str_of("gap_timeout passed"), reterr);
        if (s == HOWDAH_LOST) {
            hw_service_unlock(sub);
            hw_service_step_down(sub, now);
            s = HOWDAH_OK;
            break;
        }
        if (s >= 0) {
            hw_place_stored(sub);
            s = hw_delivery_skipped(&sub->d, range, now, reterr);
        }
    }
    hw_ranges_done(&outstanding);
    return s;
}

/* The first one is enough: it is the oldest transaction that keeps us waiting. */
static int on_blocker(void *ctx, const hw_blocker *blocker)
{
    const howdah_subscription *sub = ctx;

    hw_log(HOWDAH_LOG_WARN, "subscription %s: kept waiting by %.*s for %lld ms%s%.*s", sub->id,
           (int)blocker->name.len, blocker->name.s, (long long)blocker->age_ms,
           blocker->query.s ? ": " : "", (int)blocker->query.len,
           blocker->query.s ? blocker->query.s : "");
    return 1;
}

/* gap_policy=proof: nothing is given up, but an operator should know.  Each hole is reported
   once. */
static void report_overdue(howdah_subscription *sub)
{
    const hw_frontier *f = &sub->bus->service->reader.frontier;
    int64_t now = hw_clock_mono_ms();

    if (f->holes_n == 0 || f->holes[0].first == sub->alarmed_first ||
        now - f->holes[0].since_ms < sub->options.gap_timeout_ms)
        return;
    sub->alarmed_first = f->holes[0].first;
    hw_log(HOWDAH_LOG_WARN, "subscription %s: numbers %lld to %lld have been missing for %lld ms",
           sub->id, (long long)f->holes[0].first, (long long)f->holes[0].last,
           (long long)(now - f->holes[0].since_ms));
    (void)hw_sub_ops_of(sub->bus)->blockers(sub->bus->store, on_blocker, sub, NULL);
}

/* One piece of work for a subscription that can do some now. */
static int serve_one(howdah_subscription *sub, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (hw_sub_is_busy(sub) || sub->kind == HW_KIND_TAIL || !hw_sub_is_active(sub))
        return HOWDAH_OK;
    if (hw_clock_mono_ms() < sub->schedule.trouble_ms)
        return HOWDAH_OK;
    if (sub->options.gap_policy == HOWDAH_GAP_TIMEOUT)
        s = skip_overdue(sub, reterr);
    else
        report_overdue(sub);
    if (s >= 0 && hw_sub_is_active(sub))
        s = find_work(sub, reterr);
    if (s >= 0 && sub->work.kind != HW_WORK_NONE)
        s = dispatch(sub, reterr);
    return s;
}

/* ------------------------------------------------------------------ a pass */

/* I1.  A worker that has the work is not disturbed: its subscription is marked, and loaded anew
   when the work is collected. */
int hw_service_meet(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    uint64_t session = 0;
    int s = hw_sub_ops_of(bus)->session(bus->store, &session, reterr);

    if (s < 0 || session == service->session)
        return s;
    for (howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        bool tail = sub->kind == HW_KIND_TAIL;

        if (hw_sub_is_busy(sub) || tail)
            sub->heard = HW_HEARD_LOST;
        else if (hw_sub_state_of(sub) != HW_STATE_OUT)
            hw_service_step_down(sub, 0);
        if (tail)
            hw_service_drop_page(sub);
    }
    hw_log_reader_reset(bus);
    s = hw_sub_ops_of(bus)->timeline(bus->store, service->log, reterr);
    if (s < 0)
        return s;
    service->session = session;
    service->relisten = true;
    service->pause.armed = false;
    return HOWDAH_OK;
}

/* Exact patterns have channels of their own; one that has none needs the general one. */
static int relisten(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    hw_str types[TYPES_MAX];
    size_t n = 0;
    bool general = false;
    int s;

    if (!service->relisten)
        return HOWDAH_OK;
    for (const howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        if (sub->pattern && n < TYPES_MAX && hw_pattern_is_exact(hw_str_of(sub->pattern)))
            types[n++] = hw_str_of(sub->pattern);
        else
            general = true;
    }
    for (const howdah_subscription *sub = service->shared; sub; sub = sub->next) {
        if (sub->pattern && n < TYPES_MAX && hw_pattern_is_exact(hw_str_of(sub->pattern)))
            types[n++] = hw_str_of(sub->pattern);
        else
            general = true;
    }
    s = bus->wakeup == HW_WAKEUP_POLL
            ? HOWDAH_END
            : hw_sub_ops_of(bus)->listen(bus->store, general, types, n, reterr);
    hw_group_bell_lost(bus);
    if (s == HOWDAH_END && bus->wakeup == HW_WAKEUP_NOTIFY)
        s = hw_fail(reterr, HOWDAH_FAILED,
                    "wakeup=notify, but this session gets no notifications (is there a pooler?)");
    if (s < 0)
        return s;
    service->cannot_listen = s == HOWDAH_END;
    service->relisten = false;
    return HOWDAH_OK;
}

/* Those whose time has come; between two tries there is a pause, so that standing by costs
   little. */
static int take_all(howdah_bus *bus, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    for (howdah_subscription *sub = bus->service->subs; s >= 0 && sub; sub = sub->next) {
        if (hw_sub_state_of(sub) == HW_STATE_OUT && now >= sub->schedule.take_ms)
            s = hw_service_take(sub, reterr);
    }
    return s;
}

/* What workers are through with. */
int hw_service_collect(howdah_bus *bus, howdah_error *reterr)
{
    hw_runner *runner = bus->service->runner;
    int first = HOWDAH_OK;

    for (hw_pool_item *item = runner ? hw_runner_take_done(runner) : NULL; item;
         item = item->next) {
        howdah_error *own = first < 0 ? NULL : reterr;
        int s;

        if (item->of_slot) {
            s = hw_slot_end(item->owner, own);
        } else {
            hw_sub_work_collect(item->owner);
            s = end_delivery(item->owner, own);
        }
        first = first < 0 ? first : s;
    }
    return first;
}

/* Whether a round of the reader is worth its statements: somebody takes its pages, or waits for
   one of its holes. */
static bool anybody_at_the_edge(const howdah_bus *bus)
{
    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (hw_sub_is_live(sub) || (hw_sub_is_catching_up(sub) && sub->schedule.rest_ms > 0))
            return bus->service->reader.started;
    }
    return false;
}

/* One that cannot go on does not stop the others, unless nobody can (I3). */
static int serve_all(howdah_bus *bus, howdah_error *reterr)
{
    int first = HOWDAH_OK;

    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        int s = serve_one(sub, first < 0 ? NULL : reterr);

        first = first < 0 ? first : s;
        if (s == HOWDAH_UNAVAILABLE || s == HOWDAH_READ_ONLY || s == HOWDAH_INTERRUPTED)
            break;
    }
    return first;
}

/* A pass for a tail alone.  The other subscriptions of the bus are not served: the caller asked
   for an event, not for handlers to run. */
int hw_service_bring(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    bool news = false;
    int s = relisten(bus, reterr);

    bus->service->reader.session = bus->service->session;
    if (s >= 0 && anybody_at_the_edge(bus))
        s = hw_log_reader_round(bus, &news, reterr);
    if (s >= 0 && news)
        hw_service_heard(bus, true);
    if (s >= 0 && hw_sub_is_catching_up(sub))
        s = read_own(sub, reterr);
    if (s >= 0 && !sub->work.page && hw_sub_is_live(sub))
        s = take_page(sub, reterr);
    return s;
}

/* The order is that of I1 and I2: session, bell, ownership, then reading.  in_vain notes a look
   without news, so that wakeup.c can tell a ring that was lost. */
int hw_service_pass(howdah_bus *bus, bool *ret_worked, howdah_error *reterr)
{
    hw_service *service = bus->service;
    bool news = false;
    int s = hw_service_collect(bus, reterr);

    service->worked = false;
    if (s >= 0)
        s = hw_service_meet(bus, reterr);
    if (s >= 0 && service->routes)
        s = hw_route_refresh(bus, reterr);
    if (s >= 0)
        s = relisten(bus, reterr);
    service->reader.session = service->session; /* of this pass: I1 */
    if (s >= 0)
        s = take_all(bus, reterr);
    if (s >= 0 && hw_service_is_news_due(bus))
        s = hw_service_exchange_news(bus, reterr);
    if (s >= 0 && anybody_at_the_edge(bus))
        s = hw_log_reader_round(bus, &news, reterr);
    if (s >= 0)
        s = serve_all(bus, reterr);
    if (s >= 0)
        s = hw_shared_pass(bus, reterr);
    if (news)
        service->worked = true;
    else
        service->in_vain = true;
    if (service->worked)
        hw_service_heard(bus, news);
    if (ret_worked)
        *ret_worked = service->worked;
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------- faces */

bool hw_service_is_subscribed(const howdah_bus *bus)
{
    return bus->service && (bus->service->subs || bus->service->shared || bus->service->routes);
}

static int check_subscribed(const howdah_bus *bus, const char *call, howdah_error *reterr)
{
    if (!hw_service_is_subscribed(bus))
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: nothing is subscribed on this bus", call);
    return HOWDAH_OK;
}

/* An interrupt is seen before any work begins, so that a loop around howdah_service() ends. */
static int pass(howdah_bus *bus, bool *ret_worked, howdah_error *reterr)
{
    int s;

    if (hw_interrupted(bus->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    s = hw_service_pass(bus, ret_worked, reterr);
    if (s >= 0)
        bus->service->failures = 0;
    return s;
}

int howdah_service(howdah_bus *bus, bool *ret_worked, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_service", reterr);

    if (s >= 0)
        s = check_subscribed(bus, "howdah_service", reterr);
    if (s < 0)
        return s;
    (void)hw_service_hear(bus);
    return pass(bus, ret_worked, reterr);
}

/* Whether a later pass may still serve somebody.  If not, howdah_run() returns instead of waiting
   for nothing. */
static bool can_go_on(const howdah_bus *bus)
{
    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        hw_sub_state state = hw_sub_state_of(sub);

        if (sub->kind != HW_KIND_TAIL && state != HW_STATE_HALTED && state != HW_STATE_ENDED)
            return true;
    }
    for (const howdah_subscription *sub = bus->service->shared; sub; sub = sub->next)
        if (sub->shared->status != HW_SUB_HALTED)
            return true;
    return bus->service->routes; /* a binding may come */
}

/* Serves until the time is over (HOWDAH_END) or done() says so; without done(), until nobody is
   left to be served.  Errors that may pass are waited out here. */
static int run_until(howdah_bus *bus, int64_t for_ms, bool (*done)(void *ctx), void *ctx,
                     howdah_error *reterr)
{
    int64_t until = hw_clock_end_ms(for_ms);

    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;
        bool worked = false;
        int s = pass(bus, &worked, &err);
        int64_t left = until - hw_clock_mono_ms();

        if (s >= 0 && (done ? done(ctx) : !can_go_on(bus)))
            return HOWDAH_OK;
        if (left <= 0)
            return HOWDAH_END;
        if (s >= 0 && !worked)
            s = hw_service_wait(bus, left, -1, &err);
        if (s < 0 && !hw_service_retries_after(bus, s, &err)) {
            hw_error_copy(reterr, &err);
            return s;
        }
    }
}

int howdah_run(howdah_bus *bus, int64_t for_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_run", reterr);

    if (s >= 0)
        s = check_subscribed(bus, "howdah_run", reterr);
    if (s >= 0)
        s = run_until(bus, for_ms, NULL, NULL, reterr);
    return s < 0 ? s : HOWDAH_OK;
}

/* What howdah_subscription_wait() waits for: this head, which was read when the wait began. */
typedef struct goal {
    const howdah_subscription *sub;
    int64_t head;
    bool reached;
} goal;

/* Of a shared one: other members may have events, so the store is asked. */
static int note_caught_up(void *ctx, const hw_sub_row *row)
{
    goal *g = ctx;

    g->reached =
        row->high >= g->head && (row->outstanding_n == 0 || row->outstanding[0].first > g->head);
    return 0;
}

static bool is_caught_up(void *ctx)
{
    goal *g = ctx;
    const hw_delivery *d = &g->sub->d;
    const howdah_bus *bus = g->sub->bus;

    if (g->sub->shared)
        return hw_sub_ops_of(bus)->load(bus->store, hw_str_of(g->sub->id), note_caught_up, g,
                                        NULL) >= 0 &&
               g->reached;
    return hw_sub_is_live(g->sub) && d->high >= g->head && d->pending.n == 0 && !g->sub->redrives;
}

int howdah_subscription_wait(howdah_subscription *subscription, int64_t for_ms,
                             howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = subscription ? subscription->bus : NULL;
    goal g = {.sub = subscription};
    int s;

    if (!subscription)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_subscription_wait: the subscription is NULL");
    s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_subscription_wait", reterr);
    if (s >= 0)
        s = check_subscribed(bus, "howdah_subscription_wait", reterr);
    if (s >= 0)
        s = bus->store->ops->head(bus->store, &g.head, reterr);
    return s < 0 ? s : run_until(bus, for_ms, is_caught_up, &g, reterr);
}

/* Each subscription stores what it did and gives its ownership up, even if one before it could
   not. */
int hw_service_close(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    int first = HOWDAH_OK;

    if (!service)
        return HOWDAH_OK;
    assert(!service->runner);    /* its threads ended before: hw_runner_end() */
    howdah_interrupt_clear(bus); /* an interrupt ends the work, not the storing of what was done */
    while (service->subs || service->shared) {
        int s = hw_unsubscribe(service->subs ? service->subs : service->shared,
                               first < 0 ? NULL : reterr);

        first = first < 0 ? first : s;
    }
    hw_log_reader_done(bus);
    if (service->tx && service->tx != bus->store)
        service->tx->ops->close(service->tx);
    hw_free(service->routes_queue);
    hw_free(service);
    bus->service = NULL;
    return first;
}
