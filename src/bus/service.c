/*
 * service.c - serving the subscriptions of a bus: ownership, turns, checkpoints, waiting.
 *
 *   I1  A pass asks for the session first.  In a new one nothing of the old is true: locks are
 *       gone, events may be (a server that lost its last moments), so every subscription is taken
 *       and loaded anew, after LISTEN.
 *   I2  LISTEN, then read, then wait: what commits in between has rung, or is read.
 *   I3  What the store is asked for regularly it is asked once for all subscriptions.
 *   I4  Before the first sleep the bell is armed and the log looked at once more.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "bus/subscription.h"
#include "engine/backoff.h"
#include "engine/pattern.h"

#define TAKE_EVERY_MS 500
#define POLL_EVERY_MS 1000
#define REST_MS 20
#define ROWS_FIRST 64
/* How long the log is looked at often before the bell is armed. */
#define HOLD_OFF_MS 50
#define STORE_BACKOFF_MAX_MS 5000
#define NEWS_AT_ONCE 256

static const hw_sub_ops *ops_of(const howdah_bus *bus)
{
    return bus->store->ops->subs;
}

static void sign(hw_service *service)
{
    char host[64] = "";

    if (gethostname(host, sizeof host - 1) != 0)
        host[0] = '\0';
    (void)snprintf(service->owner, sizeof service->owner, "%.60s/%ld/%08x", host, (long)getpid(),
                   (unsigned)hw_random_u32());
}

int hw_service_of(howdah_bus *bus, hw_service **ret_service, howdah_error *reterr)
{
    if (!ops_of(bus))
        return hw_fail(reterr, HOWDAH_MISUSE, "this store has no subscriptions");
    if (!bus->service) {
        hw_service *service = hw_calloc(1, sizeof *service);

        if (!service)
            return hw_fail_no_memory(reterr);
        hw_feed_init(&service->feed);
        sign(service);
        service->pause_ms = 1;
        bus->service = service;
    }
    *ret_service = bus->service;
    return HOWDAH_OK;
}

/* ----------------------------------------------------------------- phases */

/* The turn's own members, ready for the next. */
static void clear_turn(howdah_subscription *sub)
{
    hw_page_drop(sub->bus, sub->page);
    sub->page = NULL;
    sub->at = 0;
    sub->again = false;
    sub->passed = false;
    sub->waiting = false;
    sub->worked = false;
    sub->failed = HOWDAH_OK;
}

void hw_service_drop_page(howdah_subscription *sub)
{
    clear_turn(sub);
    if (sub->stream)
        sub->bus->store->ops->read_close(sub->stream);
    sub->stream = NULL;
}

/* A lock of this session would stay, whatever the row says. */
static void unlock(howdah_subscription *sub)
{
    howdah_error err = HOWDAH_ERROR_INIT;

    if (ops_of(sub->bus)->release(sub->bus->store, hw_str_of(sub->id), sub->token,
                                  (hw_instance)sub->options.instance, &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "subscription %s: %s", sub->id, err.message);
}

/* The state is thrown away; whoever owns it next, perhaps we, loads what is stored. */
static void step_down(howdah_subscription *sub, int64_t take_ms)
{
    hw_service_drop_page(sub);
    sub->phase = HW_PHASE_OUT;
    sub->reload = false;
    sub->stale = false;
    sub->halt = false;
    sub->redrives = false;
    sub->take_ms = take_ms;
}

static void go_behind(howdah_subscription *sub)
{
    sub->phase = HW_PHASE_BEHIND;
    sub->rest_ms = 0;
}

/* The store remembers it, so that everybody sees why and a restart does not run into it again. */
static void stop_here(howdah_subscription *sub)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = ops_of(sub->bus)->set_status(sub->bus->store, hw_str_of(sub->id), sub->token,
                                         HW_SUB_HALTED, hw_str_of(sub->reason), &err);

    hw_log(HOWDAH_LOG_ERROR, "subscription %s is halted: %s", sub->id, sub->reason);
    if (s < 0)
        hw_log(HOWDAH_LOG_ERROR, "subscription %s: its halt is not stored: %s", sub->id,
               err.message);
    hw_service_drop_page(sub);
    sub->halt = false;
    sub->phase = HW_PHASE_HALTED;
}

/* -------------------------------------------------------------- ownership */

typedef struct taken {
    howdah_subscription *sub;
    hw_sub_status status;
    hw_anchor anchor;
    int64_t high;
    int64_t lowest; /* of what is owed, or high + 1 */
    int result;
    howdah_error *reterr;
} taken;

/* How many events the owner before us may have had in its hands: those not stored as handled. */
static int64_t count_suspects(const howdah_subscription *sub, const hw_sub_row *row)
{
    int64_t n = sub->options.checkpoint == HOWDAH_CHECKPOINT_BATCHED ? sub->options.batch_size : 1;

    if (!row->owner.s)
        return 0;
    for (size_t i = 0; i < row->owed_n && n < sub->options.owed_max * 2; i++)
        n += row->owed[i].last - row->owed[i].first + 1;
    return n;
}

static int on_taken(void *ctx, const hw_sub_row *row)
{
    taken *t = ctx;
    howdah_subscription *sub = t->sub;

    sub->token = row->token;
    sub->anchor = row->anchor;
    sub->suspect_sequence = row->suspect_sequence;
    sub->suspect_attempts = row->suspect_attempts;
    sub->suspect_stored = row->suspect_sequence > 0;
    (void)snprintf(sub->reason, sizeof sub->reason, "%.*s", (int)row->reason.len,
                   row->reason.s ? row->reason.s : "");
    t->status = row->status;
    t->result = hw_delivery_load(&sub->d, row->high, row->owed, row->owed_n,
                                 count_suspects(sub, row), t->reterr);
    if (row->owner.s)
        hw_log(HOWDAH_LOG_WARN, "subscription %s: taken over from %.*s, which did not give it up",
               sub->id, (int)row->owner.len, row->owner.s);
    return 0;
}

/* T14: a checkpoint of another log, or of a later moment of this one, must not skip events. */
static int check_anchor(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = ops_of(sub->bus)->verify(sub->bus->store, &sub->anchor, sub->d.high, &err);

    if (s == HOWDAH_NOT_FOUND) {
        (void)snprintf(sub->reason, sizeof sub->reason, "%.150s; howdah sub reset %.60s",
                       err.message, sub->id);
        stop_here(sub);
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

static int enter(howdah_subscription *sub, const taken *t, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();

    sub->poll_ms = now;
    sub->renewed_ms = now;
    sub->owner[0] = '\0';
    sub->rows = (size_t)(sub->options.catch_up_batch < ROWS_FIRST ? sub->options.catch_up_batch
                                                                  : ROWS_FIRST);
    sub->alarmed_first = 0;
    if (t->status == HW_SUB_PAUSED) {
        sub->phase = HW_PHASE_PAUSED;
        return HOWDAH_OK;
    }
    if (t->status == HW_SUB_HALTED) {
        sub->phase = HW_PHASE_HALTED;
        return HOWDAH_OK;
    }
    go_behind(sub);
    return check_anchor(sub, reterr);
}

static int try_take(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    hw_take take = {.subscriber_id = hw_str_of(sub->id),
                    .instance = (hw_instance)sub->options.instance,
                    .owner = hw_str_of(bus->service->owner),
                    .lease_ms = sub->options.lease_ms};
    taken t = {.sub = sub, .reterr = reterr};
    int s = ops_of(bus)->take(bus->store, &take, on_taken, &t, reterr);

    sub->take_ms = hw_clock_mono_ms() + TAKE_EVERY_MS - (int64_t)(hw_random_u32() % 100);
    if (s == HOWDAH_NOT_FOUND) {
        (void)snprintf(sub->reason, sizeof sub->reason, "the subscription was removed");
        sub->token = 0;
        sub->phase = HW_PHASE_HALTED;
        return HOWDAH_OK;
    }
    if (s != HOWDAH_OK)
        return s < 0 ? s : HOWDAH_OK;
    s = t.result < 0 ? t.result : enter(sub, &t, reterr);
    if (s < 0) {
        unlock(sub);
        step_down(sub, sub->take_ms);
    }
    return s;
}

static bool is_owned(const howdah_subscription *sub)
{
    return sub->phase != HW_PHASE_OUT && sub->token > 0;
}

/* ------------------------------------------------------- checkpoints, news */

static void hear(howdah_subscription *sub, const hw_sub_news *news)
{
    if (news->lost) {
        hw_log(HOWDAH_LOG_WARN, "subscription %s has another owner, or was reset", sub->id);
        unlock(sub);
        step_down(sub, hw_clock_mono_ms());
        return;
    }
    sub->redrives = news->redrives;
    if (news->status == HW_SUB_ACTIVE && sub->phase == HW_PHASE_PAUSED) {
        sub->reason[0] = '\0';
        go_behind(sub);
    } else if (news->status == HW_SUB_ACTIVE && sub->phase == HW_PHASE_HALTED) {
        unlock(sub); /* loaded anew: tries are counted from the start again */
        step_down(sub, hw_clock_mono_ms());
    } else if (news->status == HW_SUB_PAUSED && sub->phase != HW_PHASE_PAUSED) {
        hw_service_drop_page(sub);
        sub->phase = HW_PHASE_PAUSED;
    } else if (news->status == HW_SUB_HALTED && sub->phase != HW_PHASE_HALTED) {
        hw_service_drop_page(sub);
        sub->phase = HW_PHASE_HALTED;
    }
}

/* Checkpoints or questions of several subscriptions, for one statement (I3). */
typedef struct news_bag {
    howdah_subscription *subs[NEWS_AT_ONCE];
    hw_checkpoint checkpoints[NEWS_AT_ONCE];
    hw_ranges owed[NEWS_AT_ONCE];
    hw_sub_news news[NEWS_AT_ONCE];
    size_t n;
} news_bag;

static int send_bag(howdah_bus *bus, news_bag *bag, bool store, howdah_error *reterr)
{
    int64_t before = hw_clock_mono_ms();
    int64_t lease_ms = bag->n > 0 ? bag->subs[0]->options.lease_ms : 0;
    int s = HOWDAH_OK;

    for (size_t i = 0; i < bag->n; i++) {
        if (bag->subs[i]->options.lease_ms < lease_ms)
            lease_ms = bag->subs[i]->options.lease_ms;
        memset(&bag->news[i], 0, sizeof bag->news[i]);
    }
    if (bag->n > 0)
        s = store ? ops_of(bus)->checkpoint(bus->store, bag->checkpoints, bag->n, lease_ms,
                                            bag->news, reterr)
                  : ops_of(bus)->poll(bus->store, bag->checkpoints, bag->n, lease_ms, bag->news,
                                      reterr);
    for (size_t i = 0; i < bag->n; i++) {
        howdah_subscription *sub = bag->subs[i];

        hw_ranges_done(&bag->owed[i]);
        if (s < 0)
            continue;
        if (store && !bag->news[i].lost)
            hw_delivery_checkpointed(&sub->d);
        sub->renewed_ms = before;
        sub->poll_ms =
            before +
            (sub->options.lease_ms / 3 < POLL_EVERY_MS ? sub->options.lease_ms / 3 : POLL_EVERY_MS);
        hear(sub, &bag->news[i]);
    }
    bag->n = 0;
    return s < 0 ? s : HOWDAH_OK;
}

static int put_into_bag(news_bag *bag, howdah_subscription *sub, bool store, howdah_error *reterr)
{
    hw_checkpoint *c = &bag->checkpoints[bag->n];
    hw_ranges *owed = &bag->owed[bag->n];
    int s = HOWDAH_OK;

    *owed = (hw_ranges)HW_RANGES_INIT;
    *c = (hw_checkpoint){.subscriber_id = hw_str_of(sub->id), .token = sub->token};
    if (store)
        s = hw_turn_checkpoint(sub, owed, c, reterr);
    if (s < 0) {
        hw_ranges_done(owed);
        return s;
    }
    bag->subs[bag->n++] = sub;
    return HOWDAH_OK;
}

/* store: those whose checkpoint is due; else those that have not asked for long. */
static int send_news(howdah_bus *bus, news_bag *bag, bool store, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    bag->n = 0;
    for (howdah_subscription *sub = bus->service->subs; s >= 0 && sub; sub = sub->next) {
        if (!is_owned(sub) || atomic_load(&sub->busy))
            continue;
        if (store ? !hw_delivery_checkpoint_due(&sub->d, now) : now < sub->poll_ms)
            continue;
        s = put_into_bag(bag, sub, store, reterr);
        if (s >= 0 && bag->n == NEWS_AT_ONCE)
            s = send_bag(bus, bag, store, reterr);
    }
    if (s >= 0)
        return send_bag(bus, bag, store, reterr);
    while (bag->n > 0)
        hw_ranges_done(&bag->owed[--bag->n]);
    return s;
}

static int exchange_news(howdah_bus *bus, howdah_error *reterr)
{
    news_bag *bag = hw_calloc(1, sizeof *bag);
    int s;

    if (!bag)
        return hw_fail_no_memory(reterr);
    s = send_news(bus, bag, true, reterr);
    if (s >= 0)
        s = send_news(bus, bag, false, reterr);
    hw_free(bag);
    return s;
}

/* True when somebody's checkpoint or question is due: mostly nobody's is. */
static bool is_news_due(const howdah_bus *bus)
{
    int64_t now = hw_clock_mono_ms();

    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (is_owned(sub) && !atomic_load(&sub->busy) &&
            (now >= sub->poll_ms || hw_delivery_checkpoint_due(&sub->d, now)))
            return true;
    }
    return false;
}

int hw_service_let_go(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    hw_ranges owed = HW_RANGES_INIT;
    hw_sub_news news = {0};
    hw_checkpoint checkpoint;
    int s = HOWDAH_OK;

    hw_service_drop_page(sub);
    if (!is_owned(sub))
        return HOWDAH_OK;
    if (sub->d.unsaved > 0 || sub->d.moved) {
        s = hw_turn_checkpoint(sub, &owed, &checkpoint, reterr);
        if (s >= 0)
            s = ops_of(bus)->checkpoint(bus->store, &checkpoint, 1, 0, &news, reterr);
        if (s >= 0 && news.lost)
            s = hw_fail(reterr, HOWDAH_LOST,
                        "subscription %s has another owner: its last events "
                        "are delivered again",
                        sub->id);
        hw_ranges_done(&owed);
    }
    if (s >= 0 && sub->suspect_stored)
        s = ops_of(bus)->suspect(bus->store, hw_str_of(sub->id), sub->token, 0, 0, reterr);
    if (s >= 0)
        s = ops_of(bus)->release(bus->store, hw_str_of(sub->id), sub->token,
                                 (hw_instance)sub->options.instance, reterr);
    sub->phase = HW_PHASE_OUT;
    sub->token = 0;
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------- turns */

static int second_session(howdah_bus *bus, howdah_error *reterr)
{
    if (bus->service->tx)
        return HOWDAH_OK;
    if (!bus->open_store)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "this bus cannot open a second session for handlers' transactions");
    return bus->open_store(bus->open_ctx, &bus->service->tx, reterr);
}

/* A page that was not brought to its end is read again: rows that were not offered are not lost. */
static void read_anew(howdah_subscription *sub, int64_t rest_ms)
{
    hw_service_drop_page(sub);
    sub->phase = HW_PHASE_BEHIND;
    sub->rest_ms = rest_ms;
}

/* After a turn: what happened to it becomes the subscription's phase. */
static int end_turn(howdah_subscription *sub, howdah_error *reterr)
{
    hw_service *service = sub->bus->service;
    int64_t now = hw_clock_mono_ms();
    bool page = sub->page && !sub->again;
    bool passed = sub->passed;
    bool waiting = sub->waiting;
    int64_t joins = page && sub->page->number == 0 ? sub->page->joins : 0;
    int failed = sub->failed;

    if (sub->worked) {
        service->worked = true;
        service->event_ms = now;
    }
    clear_turn(sub);
    if (sub->reload && !sub->stale)
        unlock(sub);
    if (sub->reload || sub->stale) {
        step_down(sub, now);
        return HOWDAH_OK;
    }
    if (sub->halt) {
        stop_here(sub);
        return HOWDAH_OK;
    }
    if (page && !passed)
        read_anew(sub, waiting ? now + REST_MS : 0);
    else if (joins > 0 && sub->phase == HW_PHASE_BEHIND) {
        sub->phase = HW_PHASE_HEAD;
        sub->next_page = joins;
    }
    if (failed < 0)
        hw_error_copy(reterr, &sub->error);
    return failed;
}

static void run_turn(howdah_subscription *sub, hw_store *io, hw_store *tx)
{
    if (sub->redriving)
        hw_turn_redrive(sub, io, tx);
    else
        hw_turn_run(sub, io, tx);
    sub->redriving = false;
}

/* Here and now, or by a worker. */
static int dispatch(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    bool transactional = sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL;
    int s = HOWDAH_OK;

    if (bus->service->runner) {
        atomic_store(&sub->busy, true);
        hw_runner_push(bus->service->runner, sub);
        return HOWDAH_OK;
    }
    if (transactional)
        s = second_session(bus, reterr);
    if (s < 0) {
        hw_service_drop_page(sub);
        return s;
    }
    run_turn(sub, bus->store, transactional ? bus->service->tx : NULL);
    return end_turn(sub, reterr);
}

/* Retries that are due, and followers of events that are out of the way. */
static int read_due(howdah_subscription *sub, howdah_error *reterr)
{
    int s;

    sub->asked_n = hw_delivery_due(&sub->d, hw_clock_mono_ms(), sub->asked, HW_AGAIN_ROWS);
    if (sub->asked_n == 0)
        return HOWDAH_OK;
    s = hw_feed_read_again(sub, &sub->page, reterr);
    sub->again = s >= 0;
    return s;
}

static int read_behind(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_feed *feed = &sub->bus->service->feed;
    int64_t now = hw_clock_mono_ms();
    int s;

    if (now < sub->rest_ms)
        return HOWDAH_OK;
    s = hw_feed_read_own(sub, &sub->page, reterr);
    if (s < 0)
        return s;
    if (s == HOWDAH_END) {
        sub->rest_ms = now + REST_MS;
        return HOWDAH_OK;
    }
    if (sub->page && sub->page->n == 0 && sub->page->joins == 0 && !sub->stream &&
        sub->page->upto <= sub->d.high)
        sub->rest_ms = now + REST_MS; /* what is missing is still missing */
    if (!sub->page && feed->started && sub->d.high == feed->frontier.high) {
        sub->phase = HW_PHASE_HEAD;
        sub->next_page = feed->pages + 1;
    } else if (!sub->page) {
        sub->rest_ms = now + REST_MS;
    }
    return HOWDAH_OK;
}

/* The window's next page; one that is gone, or has holes while the order is strict, is not for us.
 */
static void take_page(howdah_subscription *sub)
{
    const hw_feed *feed = &sub->bus->service->feed;
    hw_page *page;

    if (sub->next_page > feed->pages)
        return;
    page = hw_feed_page(feed, sub->next_page);
    if (!page || (sub->d.config.ordering == HW_ORDERING_STRICT && page->holes_n > 0)) {
        go_behind(sub);
        return;
    }
    page->refs++;
    sub->page = page;
    sub->next_page++;
}

static int find_work(howdah_subscription *sub, howdah_error *reterr)
{
    int s;

    if (sub->redrives) {
        sub->redriving = true;
        return HOWDAH_OK;
    }
    s = read_due(sub, reterr);
    if (s >= 0 && !sub->page && sub->phase == HW_PHASE_BEHIND)
        s = read_behind(sub, reterr);
    if (s >= 0 && !sub->page && sub->phase == HW_PHASE_HEAD)
        take_page(sub);
    return s;
}

/* gap_policy=timeout: what has been missing for too long is given up, on the record. */
static int skip_overdue(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_frontier *f = &sub->bus->service->feed.frontier;
    hw_ranges owed = HW_RANGES_INIT;
    hw_range range;
    int64_t age_ms = 0;
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    while (s >= 0 && hw_delivery_overdue(&sub->d, f->holes, f->holes_n, now, &range, &age_ms)) {
        hw_checkpoint checkpoint;

        s = hw_turn_checkpoint(sub, &owed, &checkpoint, reterr);
        if (s >= 0)
            s = hw_delivery_owed_without(&sub->d, range.first, range.last, &owed, reterr);
        checkpoint.owed = owed.items;
        checkpoint.owed_n = owed.n;
        if (s >= 0)
            s = ops_of(sub->bus)->skip(sub->bus->store, &checkpoint, range, age_ms,
                                       hw_str_of("gap_timeout passed"), reterr);
        if (s == HOWDAH_LOST) {
            unlock(sub);
            step_down(sub, now);
            s = HOWDAH_OK;
            break;
        }
        if (s >= 0)
            s = hw_delivery_skipped(&sub->d, range, now, reterr);
    }
    hw_ranges_done(&owed);
    return s;
}

/* gap_policy=proof: nothing is given up, but somebody should know. */
static int on_blocker(void *ctx, const hw_blocker *blocker)
{
    const howdah_subscription *sub = ctx;

    hw_log(HOWDAH_LOG_WARN, "subscription %s: kept waiting by %.*s for %lld ms%s%.*s", sub->id,
           (int)blocker->name.len, blocker->name.s, (long long)blocker->age_ms,
           blocker->query.s ? ": " : "", (int)blocker->query.len,
           blocker->query.s ? blocker->query.s : "");
    return 1;
}

static void report_overdue(howdah_subscription *sub)
{
    const hw_frontier *f = &sub->bus->service->feed.frontier;
    int64_t now = hw_clock_mono_ms();

    if (f->holes_n == 0 || f->holes[0].first == sub->alarmed_first ||
        now - f->holes[0].since_ms < sub->options.gap_timeout_ms)
        return;
    sub->alarmed_first = f->holes[0].first;
    hw_log(HOWDAH_LOG_WARN, "subscription %s: %lld to %lld are missing for %lld ms", sub->id,
           (long long)f->holes[0].first, (long long)f->holes[0].last,
           (long long)(now - f->holes[0].since_ms));
    (void)ops_of(sub->bus)->blockers(sub->bus->store, on_blocker, sub, NULL);
}

static int serve_one(howdah_subscription *sub, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (atomic_load(&sub->busy) || (sub->phase != HW_PHASE_BEHIND && sub->phase != HW_PHASE_HEAD))
        return HOWDAH_OK;
    if (sub->options.gap_policy == HOWDAH_GAP_TIMEOUT)
        s = skip_overdue(sub, reterr);
    else
        report_overdue(sub);
    if (s >= 0 && (sub->phase == HW_PHASE_BEHIND || sub->phase == HW_PHASE_HEAD))
        s = find_work(sub, reterr);
    if (s >= 0 && (sub->page || sub->redriving))
        s = dispatch(sub, reterr);
    return s;
}

/* ------------------------------------------------------------------ a pass */

static int new_session(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    uint64_t session = 0;
    int s = ops_of(bus)->session(bus->store, &session, reterr);

    if (s < 0 || session == service->session)
        return s;
    for (howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        if (atomic_load(&sub->busy))
            sub->stale = true;
        else if (sub->phase != HW_PHASE_OUT)
            step_down(sub, 0);
    }
    hw_feed_reset(bus);
    service->session = session;
    service->relisten = true;
    service->armed = false;
    return HOWDAH_OK;
}

static int relisten(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    hw_str types[NEWS_AT_ONCE];
    size_t n = 0;
    bool general = false;
    int s;

    if (!service->relisten)
        return HOWDAH_OK;
    for (const howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        if (sub->pattern && n < NEWS_AT_ONCE && hw_pattern_is_exact(hw_str_of(sub->pattern)))
            types[n++] = hw_str_of(sub->pattern);
        else
            general = true;
    }
    s = ops_of(bus)->listen(bus->store, general, types, n, reterr);
    if (s < 0)
        return s;
    service->deaf = s == HOWDAH_END;
    service->relisten = false;
    return HOWDAH_OK;
}

static int take_all(howdah_bus *bus, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    for (howdah_subscription *sub = bus->service->subs; s >= 0 && sub; sub = sub->next) {
        if (sub->phase == HW_PHASE_OUT && !atomic_load(&sub->busy) && now >= sub->take_ms)
            s = try_take(sub, reterr);
    }
    return s;
}

/* Turns that a worker has brought back. */
int hw_service_collect(howdah_bus *bus, howdah_error *reterr)
{
    int first = HOWDAH_OK;

    for (howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (!atomic_load(&sub->busy) && (sub->page || sub->redriving)) {
            int s;

            sub->redriving = false;
            s = end_turn(sub, first < 0 ? NULL : reterr);
            first = first < 0 ? first : s;
        }
    }
    return first;
}

static bool anybody_at_the_edge(const howdah_bus *bus)
{
    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (sub->phase == HW_PHASE_HEAD || (sub->phase == HW_PHASE_BEHIND && sub->rest_ms > 0))
            return bus->service->feed.started;
    }
    return false;
}

static int serve_all(howdah_bus *bus, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (howdah_subscription *sub = bus->service->subs; s >= 0 && sub; sub = sub->next)
        s = serve_one(sub, reterr);
    return s;
}

int hw_service_pass(howdah_bus *bus, bool *ret_worked, howdah_error *reterr)
{
    hw_service *service = bus->service;
    bool news = false;
    int s = hw_service_collect(bus, reterr);

    service->worked = false;
    if (s >= 0)
        s = new_session(bus, reterr);
    if (s >= 0)
        s = relisten(bus, reterr);
    if (s >= 0)
        s = take_all(bus, reterr);
    if (s >= 0 && is_news_due(bus))
        s = exchange_news(bus, reterr);
    if (s >= 0 && anybody_at_the_edge(bus))
        s = hw_feed_round(bus, &news, reterr);
    if (s >= 0)
        s = serve_all(bus, reterr);
    if (news)
        service->worked = true;
    if (service->worked) {
        service->pause_ms = 1;
        service->event_ms = hw_clock_mono_ms();
    }
    if (ret_worked)
        *ret_worked = service->worked;
    return s < 0 ? s : HOWDAH_OK;
}

/* ----------------------------------------------------------------- waiting */

static int64_t next_of(const howdah_subscription *sub, int64_t now)
{
    int64_t at = INT64_MAX;

    if (atomic_load(&sub->busy))
        return INT64_MAX;
    if (sub->phase == HW_PHASE_OUT)
        return sub->take_ms;
    if (is_owned(sub))
        at = sub->poll_ms;
    if (sub->phase == HW_PHASE_BEHIND || sub->phase == HW_PHASE_HEAD) {
        int64_t next = hw_delivery_next_ms(&sub->d);

        at = next < at ? next : at;
    }
    if (sub->phase == HW_PHASE_BEHIND)
        at = sub->rest_ms > now && sub->rest_ms < at ? sub->rest_ms : sub->rest_ms > now ? at : now;
    if (sub->redrives)
        at = now;
    return at;
}

/* When the next thing is due that no bell tells. */
static int64_t next_due(const howdah_bus *bus, int64_t now)
{
    const hw_service *service = bus->service;
    int64_t at = now + service->pause_ms;

    if (service->feed.frontier.holes_n > 0 && at > now + REST_MS)
        at = now + REST_MS;
    for (const howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        int64_t next = next_of(sub, now);

        at = next < at ? next : at;
    }
    return at;
}

/* I4; true when the log has to be looked at once more before sleeping. */
static bool arm(howdah_bus *bus, int64_t now)
{
    hw_service *service = bus->service;

    if (service->armed || service->deaf || now - service->event_ms < HOLD_OFF_MS)
        return false;
    if (ops_of(bus)->arm(bus->store, NULL) < 0)
        return false; /* the pauses find what the bell would have told */
    service->armed = true;
    service->pause_ms = 1;
    return true;
}

static void grow_pause(howdah_bus *bus, int64_t now)
{
    hw_service *service = bus->service;

    if (now - service->event_ms < HOLD_OFF_MS)
        service->pause_ms = service->pause_ms < 2 ? service->pause_ms + 1 : 2;
    else if (service->pause_ms * 2 < bus->poll_interval_ms)
        service->pause_ms *= 2;
    else
        service->pause_ms = bus->poll_interval_ms;
}

static void woken(hw_service *service)
{
    service->armed = false;
    service->pause_ms = 1;
    service->event_ms = hw_clock_mono_ms();
}

int hw_service_wait(howdah_bus *bus, int64_t at_most_ms, int extra_fd, howdah_error *reterr)
{
    hw_service *service = bus->service;
    int64_t now = hw_clock_mono_ms();
    int64_t ms;
    struct pollfd fds[3];
    int s;

    if (arm(bus, now))
        return HOWDAH_OK;
    ms = next_due(bus, now) - now;
    ms = ms < at_most_ms ? ms : at_most_ms;
    s = ops_of(bus)->wait(bus->store, 0, reterr);
    if (s == HOWDAH_OK)
        woken(service);
    if (s != HOWDAH_END || ms <= 0)
        return s < 0 ? s : HOWDAH_OK;
    fds[0] = (struct pollfd){.fd = bus->interrupt.fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = ops_of(bus)->fd(bus->store), .events = POLLIN};
    fds[2] = (struct pollfd){.fd = extra_fd, .events = POLLIN};
    if (poll(fds, 3, (int)ms) < 0 && errno != EINTR)
        return hw_fail(reterr, HOWDAH_FAILED, "waiting for events: %s", strerrordesc_np(errno));
    if (fds[0].revents)
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    grow_pause(bus, hw_clock_mono_ms());
    if (!fds[1].revents)
        return HOWDAH_OK;
    s = ops_of(bus)->wait(bus->store, 0, reterr);
    if (s == HOWDAH_OK)
        woken(service);
    return s < 0 ? s : HOWDAH_OK;
}

bool hw_service_bears(howdah_bus *bus, int status, const howdah_error *err)
{
    bool passing = status == HOWDAH_UNAVAILABLE || status == HOWDAH_TIMEOUT ||
                   status == HOWDAH_FULL || (err->flags & HOWDAH_RETRYABLE) != 0;
    hw_service *service = bus->service;

    if (!passing)
        return false;
    hw_log(HOWDAH_LOG_WARN, "subscriptions wait for the store: %s", err->message);
    (void)hw_sleep(
        &bus->interrupt,
        hw_backoff_ms(50, STORE_BACKOFF_MAX_MS, service->failures++, 20, hw_random_u32()), NULL);
    return true;
}

/* ------------------------------------------------------------------- faces */

static int enter_service(howdah_bus *bus, const char *call, howdah_error *reterr)
{
    if (!bus)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: the bus is NULL", call);
    if (!bus->service || !bus->service->subs)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: nothing is subscribed on this bus", call);
    if (bus->service->runner)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: the bus belongs to its runner", call);
    if (bus->service->serving)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s was called by a handler of the same bus", call);
    return HOWDAH_OK;
}

static int pass(howdah_bus *bus, bool *ret_worked, howdah_error *reterr)
{
    int s;

    if (hw_interrupted(&bus->interrupt))
        return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    bus->service->serving = true;
    s = hw_service_pass(bus, ret_worked, reterr);
    bus->service->serving = false;
    if (s >= 0)
        bus->service->failures = 0;
    return s;
}

int howdah_service(howdah_bus *bus, bool *ret_worked, howdah_error *reterr)
{
    int s = enter_service(bus, "howdah_service", reterr);

    return s < 0 ? s : pass(bus, ret_worked, reterr);
}

int howdah_fd(howdah_bus *bus)
{
    return bus && bus->service ? ops_of(bus)->fd(bus->store) : -1;
}

int howdah_timeout_ms(howdah_bus *bus)
{
    int64_t now = hw_clock_mono_ms();
    int64_t ms;

    if (!bus || !bus->service)
        return -1;
    if (arm(bus, now))
        return 0;
    ms = next_due(bus, now) - now;
    if (!bus->service->worked)
        grow_pause(bus, now);
    return ms > 0 ? (int)ms : 0;
}

static bool can_go_on(const howdah_bus *bus)
{
    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (sub->phase != HW_PHASE_HALTED)
            return true;
    }
    return false;
}

/* Serves until the time is over or done() says so. */
static int run_until(howdah_bus *bus, int64_t for_ms, bool (*done)(const void *ctx),
                     const void *ctx, howdah_error *reterr)
{
    int64_t until = for_ms < 0 ? INT64_MAX : hw_clock_mono_ms() + for_ms;

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
        if (s < 0 && !hw_service_bears(bus, s, &err)) {
            hw_error_copy(reterr, &err);
            return s;
        }
    }
}

int howdah_run(howdah_bus *bus, int64_t for_ms, howdah_error *reterr)
{
    int s = enter_service(bus, "howdah_run", reterr);

    if (s >= 0)
        s = run_until(bus, for_ms, NULL, NULL, reterr);
    return s < 0 ? s : HOWDAH_OK;
}

typedef struct goal {
    const howdah_subscription *sub;
    int64_t head;
} goal;

static bool is_caught_up(const void *ctx)
{
    const goal *g = ctx;
    const hw_delivery *d = &g->sub->d;

    return g->sub->phase == HW_PHASE_HEAD && d->high >= g->head && d->pending.n == 0;
}

int howdah_wait_caught_up(howdah_subscription *subscription, int64_t for_ms, howdah_error *reterr)
{
    goal g = {.sub = subscription};
    int s = enter_service(subscription ? subscription->bus : NULL, "howdah_wait_caught_up", reterr);

    if (s >= 0)
        s = subscription->bus->store->ops->head(subscription->bus->store, &g.head, reterr);
    return s < 0 ? s : run_until(subscription->bus, for_ms, is_caught_up, &g, reterr);
}

int hw_service_close(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    int first;

    if (!service)
        return HOWDAH_OK;
    first = hw_runner_end(bus, reterr);
    howdah_resume(bus); /* an interrupt ends the work, not the storing of what was done */
    while (service->subs) {
        int s = howdah_unsubscribe(service->subs, first < 0 ? NULL : reterr);

        first = first < 0 ? first : s;
    }
    hw_feed_done(bus);
    if (service->tx)
        service->tx->ops->close(service->tx);
    hw_free(service);
    bus->service = NULL;
    return first;
}
