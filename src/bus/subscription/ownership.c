/*
 * ownership.c - becoming, staying and ceasing to be the owner of a subscription.
 *
 *   I1  What the store is asked for regularly it is asked once for all subscriptions.
 *   I2  A process that loses the ownership, or no longer knows what is stored, throws its state
 *       away and gives the session's lock back.
 *   I3  Of two that run without a lock (SINGLE) the later one goes on.  The one that lost the
 *       ownership does not take it back, or they would pass the same events to and fro for ever.
 *   I4  A checkpoint that does not fit the log stops the subscription, in the store, for everybody.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "base/utf8.h"
#include "bus/subscription/subscription.h"

/* How often a process that stands by tries to become the owner, and how often an owner asks for
   news at least. */
#define TAKE_EVERY_MS 500
#define POLL_EVERY_MS 1000
/* Subscriptions in one statement; the bag that holds them is allocated once a pass. */
#define NEWS_AT_ONCE 256

/* ----------------------------------------------------------------- states */

/* Before a state is left: neither the page in hand nor the cursor of a stream may be used after
   it. */
void hw_service_drop_page(howdah_subscription *sub)
{
    hw_sub_work_clear(sub);
    if (sub->reading.stream)
        sub->bus->store->ops->read_close(sub->reading.stream);
    sub->reading.stream = NULL;
}

/* The row can have another owner already, but a lock of this session would stay, and keep
   everybody else out. */
void hw_service_unlock(howdah_subscription *sub)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_hold hold = hw_hold_of(sub);
    int s = hw_sub_ops_of(sub->bus)->release(sub->bus->store, &hold, sub->options.instance, &err);

    if (s == HOWDAH_INTERRUPTED) /* let_go() makes up for it */
        sub->ownership.unreleased = sub->ownership.token;
    else if (s < 0)
        hw_log(HOWDAH_LOG_WARN, "subscription %s: %s", sub->id, err.message);
}

/* The state is thrown away (I2).  The next owner, perhaps this process again, loads what is
   stored. */
void hw_service_step_down(howdah_subscription *sub, int64_t take_ms)
{
    assert(!hw_sub_is_busy(sub) && sub->kind != HW_KIND_TAIL);
    hw_service_drop_page(sub);
    hw_still_drop(sub->place.still);
    sub->place.still = NULL;
    hw_sub_move(sub, HW_STATE_OUT);
    sub->heard = HW_HEARD_NOTHING;
    sub->redrives = false;
    sub->schedule.trouble_ms = 0;
    sub->schedule.take_ms = take_ms;
    sub->reading.met_sequence = sub->reading.met_version = 0;
}

/* Small pages and the index of the type to begin with, until the first page tells what rows weigh
   and how many match. */
void hw_service_begin(howdah_subscription *sub)
{
    sub->reading.rows =
        (size_t)(sub->options.catch_up_batch < HW_ROWS_FIRST ? sub->options.catch_up_batch
                                                             : HW_ROWS_FIRST);
    sub->alarmed_first = 0;
    sub->reading.sparse = sub->pattern != NULL; /* until its first page tells */
    hw_sub_move(sub, HW_STATE_TAKEN);
    sub->schedule.rest_ms = 0;
}

/* The store remembers the halt, so that everybody sees why, and so that a restart does not run
   into the same trouble. */
void hw_service_stop(howdah_subscription *sub)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_hold hold = hw_hold_of(sub);
    int s = hw_sub_ops_of(sub->bus)->set_status(sub->bus->store, &hold, HW_SUB_HALTED,
                                                hw_str_of(sub->reason), &err);

    hw_log(HOWDAH_LOG_ERROR, "subscription %s is halted: %s", sub->id, sub->reason);
    if (s < 0)
        hw_log(HOWDAH_LOG_ERROR, "subscription %s: its halt is not stored: %s", sub->id,
               err.message);
    hw_service_drop_page(sub);
    hw_sub_move(sub, HW_STATE_HALTED);
}

/* -------------------------------------------------------------- ownership */

/* What on_taken() leaves for take_now(): the row is gone when the store's call returns. */
typedef struct taken {
    howdah_subscription *sub;
    hw_sub_status status;
    bool elsewhere; /* its checkpoint was stored in another log */
    int result;
    howdah_error *reterr;
} taken;

/* How many events the owner before us may have had in its hands: those not stored as handled. */
static int64_t count_suspects(const howdah_subscription *sub, const hw_sub_row *row)
{
    int64_t n = sub->options.checkpoint == HOWDAH_CHECKPOINT_BATCHED ? sub->options.batch_size : 1;

    /* Given up cleanly, or ours: whatever we had in hand did not end this process.  A router has no
       handler that could have. */
    if (sub->kind == HW_KIND_ROUTER || !row->owner.s ||
        hw_str_equal(row->owner, hw_str_of(sub->bus->service->owner)))
        return 0;
    for (size_t i = 0; i < row->outstanding_n && n < sub->options.outstanding_max * 2; i++)
        n += row->outstanding[i].last - row->outstanding[i].first + 1;
    return n;
}

/* The set of the stored row.  Its age is not known here, so it has version 0 and the first read
   compares it with the reader's own (holes.c I5). */
static int load_still(howdah_subscription *sub, const hw_sub_row *row, howdah_error *reterr)
{
    hw_ranges ranges = HW_RANGES_INIT;
    hw_still *still = NULL;
    int s = hw_ranges_reserve(&ranges, row->still_n, reterr);

    for (size_t i = 0; s >= 0 && i < row->still_n; i++)
        ranges.items[ranges.n++] = row->still[i];
    if (s >= 0 && ranges.n > 0)
        s = hw_still_new(&ranges, 0, &still, reterr);
    hw_ranges_done(&ranges);
    if (s < 0)
        return s;
    hw_still_drop(sub->place.still);
    sub->place.still = still;
    sub->place.still_saved = true;
    sub->place.moves = row->moves;
    sub->reading.met_reader = 0;
    return HOWDAH_OK;
}

/* As much as there is room for, cut between characters. */
static void keep_reason(howdah_subscription *sub, hw_str reason)
{
    size_t n = reason.s ? hw_utf8_cut(reason.s, reason.len, sizeof sub->reason - 1) : 0;

    (void)snprintf(sub->reason, sizeof sub->reason, "%.*s", (int)n, reason.s ? reason.s : "");
}

/* The row of a subscription that is ours now becomes its state.  An owner in the row means that
   it did not give the subscription up: it crashed, or lost its session. */
static int on_taken(void *ctx, const hw_sub_row *row)
{
    taken *t = ctx;
    howdah_subscription *sub = t->sub;

    sub->ownership.token = row->token;
    sub->place.anchor = row->anchor;
    sub->suspect.sequence = row->suspect_sequence;
    sub->suspect.attempts = row->suspect_attempts;
    sub->suspect.named = row->suspect_sequence;
    keep_reason(sub, row->reason);
    t->status = row->status;
    t->elsewhere = row->timeline.len > 0 && !hw_str_equal(row->timeline, row->log);
    (void)snprintf(sub->ownership.log, sizeof sub->ownership.log, "%.*s", (int)row->log.len,
                   row->log.s ? row->log.s : "");
    t->result = hw_delivery_load(&sub->d, row->high, row->outstanding, row->outstanding_n,
                                 count_suspects(sub, row), t->reterr);
    if (t->result >= 0)
        t->result = load_still(sub, row, t->reterr);
    if (row->owner.s)
        hw_log(HOWDAH_LOG_WARN, "subscription %s: taken over from %.*s, which did not give it up",
               sub->id, (int)row->owner.len, row->owner.s);
    return 0;
}

/* I4: a checkpoint of another log, or of a later moment of this one, must not skip events.  Only
   an operator can decide where to go on. */
static int check_anchor(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_sub_ops_of(sub->bus)->verify(sub->bus->store, &sub->place.anchor, sub->d.high, &err);

    if (s == HOWDAH_NOT_FOUND) {
        char why[512];

        (void)snprintf(why, sizeof why, "%.150s; howdah sub reset %.64s --to N, then sub resume",
                       err.message, sub->id);
        hw_utf8_copy(sub->reason, sizeof sub->reason, why);
        hw_service_stop(sub);
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/*
 * On another server, or in a later life of this one, numbers that we have passed may have been
 * given out again.  The anchor is there, and no event was seen between it and high: we go back to
 * the anchor.  That is stored with the next checkpoint, which may go back because its log is
 * another one.
 */
static int go_back_to_anchor(howdah_subscription *sub, howdah_error *reterr)
{
    hw_ranges outstanding = HW_RANGES_INIT;
    int64_t suspects = sub->d.suspects;
    size_t n = 0;
    int s = hw_delivery_outstanding(&sub->d, &outstanding, reterr);

    assert(sub->place.anchor.sequence > 0 && sub->place.anchor.sequence < sub->d.high);
    hw_log(HOWDAH_LOG_WARN,
           "subscription %s: the log has another history, going back from %lld to %lld", sub->id,
           (long long)sub->d.high, (long long)sub->place.anchor.sequence);
    while (n < outstanding.n && outstanding.items[n].first <= sub->place.anchor.sequence)
        n++;
    if (n > 0 && outstanding.items[n - 1].last > sub->place.anchor.sequence)
        outstanding.items[n - 1].last = sub->place.anchor.sequence;
    if (s >= 0)
        s = hw_delivery_load(&sub->d, sub->place.anchor.sequence, outstanding.items, n, suspects,
                             reterr);
    hw_ranges_done(&outstanding);
    return s;
}

/* Only for a subscription that is about to read, whose row was stored in another log, and only if
   there are numbers above the anchor. */
static int check_history(howdah_subscription *sub, const taken *t, howdah_error *reterr)
{
    if (hw_sub_state_of(sub) != HW_STATE_TAKEN || !t->elsewhere ||
        sub->place.anchor.sequence == 0 || sub->place.anchor.sequence >= sub->d.high)
        return HOWDAH_OK;
    return go_back_to_anchor(sub, reterr);
}

/* What the row says it is becomes the state; before it reads, its place is checked. */
static int enter(howdah_subscription *sub, const taken *t, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s;

    sub->schedule.poll_ms = now;
    sub->ownership.renewed_ms = now;
    if (t->status == HW_SUB_PAUSED) {
        hw_sub_move(sub, HW_STATE_PAUSED);
        return HOWDAH_OK;
    }
    if (t->status == HW_SUB_HALTED) {
        hw_sub_move(sub, HW_STATE_HALTED);
        return HOWDAH_OK;
    }
    hw_service_begin(sub);
    s = check_anchor(sub, reterr);
    return s < 0 ? s : check_history(sub, t, reterr);
}

/*
 * Called with the row as it is now; if another process is its owner, this subscription ends here.
 */
static int on_rival(void *ctx, const hw_sub_row *row)
{
    howdah_subscription *sub = ctx;

    if (!row->owner.s || hw_str_equal(row->owner, hw_str_of(sub->bus->service->owner)))
        return 0;
    (void)snprintf(sub->reason, sizeof sub->reason,
                   "%.*s runs it too: instance=single is for one process", (int)row->owner.len,
                   row->owner.s);
    hw_sub_move(sub, HW_STATE_ENDED);
    return 0;
}

/* I3.  After a reset the row has no owner, and after a lost connection it has us: both go on. */
static int look_for_rival(howdah_subscription *sub, howdah_error *reterr)
{
    int s;

    if (sub->options.instance != HOWDAH_INSTANCE_SINGLE || sub->ownership.token == 0)
        return HOWDAH_OK;
    s = hw_sub_ops_of(sub->bus)->load(sub->bus->store, hw_str_of(sub->id), on_rival, sub, reterr);
    if (hw_sub_state_of(sub) != HW_STATE_ENDED)
        return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s;
    hw_log(HOWDAH_LOG_ERROR, "subscription %s is halted: %s", sub->id, sub->reason);
    sub->ownership.token = 0; /* nothing of it is ours any more */
    return s;
}

/* Not being the owner is no error: somebody else runs it, and we stand by.  The time of the next
   try is spread, so that several that stand by do not all ask at once. */
static int take_now(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    hw_take take = {.subscriber_id = hw_str_of(sub->id),
                    .instance = sub->options.instance,
                    .owner = hw_str_of(bus->service->owner),
                    .lease_ms = sub->options.lease_ms};
    taken t = {.sub = sub, .reterr = reterr};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_sub_ops_of(bus)->take(bus->store, &take, on_taken, &t, &err);

    sub->schedule.take_ms = hw_clock_mono_ms() + TAKE_EVERY_MS - (int64_t)(hw_random_u32() % 100);
    if (s == HOWDAH_NOT_FOUND) {
        (void)snprintf(sub->reason, sizeof sub->reason, "the subscription was removed");
        sub->ownership.token = 0;
        hw_sub_move(sub, HW_STATE_ENDED);
        return HOWDAH_OK;
    }
    if (s == HOWDAH_CORRUPT) { /* this row: the others are served */
        hw_log(HOWDAH_LOG_ERROR, "subscription %s is halted: %s", sub->id, err.message);
        hw_utf8_copy(sub->reason, sizeof sub->reason, err.message);
        hw_service_unlock(sub);
        sub->ownership.token = 0;
        hw_sub_move(sub, HW_STATE_ENDED);
        return HOWDAH_OK;
    }
    if (s < 0)
        hw_error_copy(reterr, &err);
    if (s != HOWDAH_OK)
        return s < 0 ? s : HOWDAH_OK;
    sub->ownership.unreleased = 0;
    s = t.result < 0 ? t.result : enter(sub, &t, reterr);
    if (s < 0) {
        hw_service_unlock(sub);
        hw_service_step_down(sub, sub->schedule.take_ms);
    }
    return s;
}

int hw_service_take(howdah_subscription *sub, howdah_error *reterr)
{
    int s;

    assert(hw_sub_state_of(sub) == HW_STATE_OUT && !hw_sub_is_busy(sub));
    s = look_for_rival(sub, reterr);
    return s < 0 || hw_sub_state_of(sub) == HW_STATE_ENDED ? s : take_now(sub, reterr);
}

bool hw_service_is_owned(const howdah_subscription *sub)
{
    hw_sub_state state = hw_sub_state_of(sub);
    bool owned = sub->kind != HW_KIND_TAIL && state != HW_STATE_OUT && state != HW_STATE_ENDED;

    assert(!owned || sub->ownership.token > 0);
    return owned;
}

/* ------------------------------------------------------- checkpoints, news */

/* The reason that the operator gave, for howdah_subscription_info_get(). */
static int on_reason(void *ctx, const hw_sub_row *row)
{
    keep_reason(ctx, row->reason);
    return 0;
}

/* An operator has paused or halted it in the store.  The reason is asked for separately; without
   an answer it stays empty. */
static void stop_here(howdah_subscription *sub, hw_sub_state state)
{
    hw_service_drop_page(sub);
    hw_sub_move(sub, state);
    keep_reason(sub, HW_STR_NULL);
    (void)hw_sub_ops_of(sub->bus)->load(sub->bus->store, hw_str_of(sub->id), on_reason, sub, NULL);
}

/* The store's answer, for a subscription that no worker has. */
static void hear(howdah_subscription *sub, const hw_sub_news *news)
{
    hw_sub_state state = hw_sub_state_of(sub);

    if (news->lost) {
        hw_log(HOWDAH_LOG_WARN,
               "subscription %s has another owner, was reset, or this is another log", sub->id);
        hw_service_unlock(sub);
        hw_service_step_down(sub, hw_clock_mono_ms());
        return;
    }
    sub->redrives =
        news->redrives && sub->kind == HW_KIND_HANDLER; /* there is no handler to try again */
    if (news->status == HW_SUB_ACTIVE && (state == HW_STATE_PAUSED || state == HW_STATE_HALTED)) {
        /* Loaded anew, and its place checked: who knows what was done to the log meanwhile. */
        if (hw_service_let_go(sub, NULL) < 0)
            hw_service_unlock(sub);
        hw_service_step_down(sub, hw_clock_mono_ms());
    } else if (news->status == HW_SUB_PAUSED && state != HW_STATE_PAUSED) {
        stop_here(sub, HW_STATE_PAUSED);
    } else if (news->status == HW_SUB_HALTED && state != HW_STATE_HALTED) {
        stop_here(sub, HW_STATE_HALTED);
    }
}

/* A worker has the work: what was heard waits until it is collected.  A lost token is the
   gravest, and is not overwritten. */
static void hear_later(howdah_subscription *sub, const hw_sub_news *news)
{
    bool redrives = news->redrives && sub->kind == HW_KIND_HANDLER;

    if (sub->heard == HW_HEARD_LOST)
        return;
    if (news->lost) {
        hw_service_unlock(sub);
        sub->heard = HW_HEARD_LOST;
    } else if (redrives || news->status != HW_SUB_ACTIVE) {
        sub->heard = HW_HEARD_NEWS;
    }
}

/* Checkpoints or questions of several subscriptions, for one statement (I1). */
typedef struct news_bag {
    howdah_subscription *subs[NEWS_AT_ONCE];
    hw_checkpoint checkpoints[NEWS_AT_ONCE];
    hw_ranges outstanding[NEWS_AT_ONCE];
    hw_sub_news news[NEWS_AT_ONCE];
    bool busy[NEWS_AT_ONCE]; /* a worker has it: only its lease is renewed */
    size_t n;
} news_bag;

/* One statement for all in the bag (I1); then each hears its part of the answer.  The next
   question is due after a third of the lease at the latest. */
static int send_bag(howdah_bus *bus, news_bag *bag, bool store, howdah_error *reterr)
{
    int64_t before = hw_clock_mono_ms();
    int64_t lease_ms = bag->n > 0 ? bag->subs[0]->options.lease_ms : 0;
    int s = HOWDAH_OK;

    for (size_t i = 0; i < bag->n; i++)
        memset(&bag->news[i], 0, sizeof bag->news[i]);
    if (bag->n > 0)
        s = store ? hw_sub_ops_of(bus)->checkpoint(bus->store, bag->checkpoints, bag->n, lease_ms,
                                                   bag->news, reterr)
                  : hw_sub_ops_of(bus)->poll(bus->store, bag->checkpoints, bag->n, lease_ms,
                                             bag->news, reterr);
    for (size_t i = 0; i < bag->n; i++) {
        howdah_subscription *sub = bag->subs[i];

        hw_ranges_done(&bag->outstanding[i]);
        if (s < 0)
            continue;
        sub->schedule.poll_ms =
            before +
            (sub->options.lease_ms / 3 < POLL_EVERY_MS ? sub->options.lease_ms / 3 : POLL_EVERY_MS);
        /* A worker had it when it was asked for: all else waits until its work is collected. */
        if (bag->busy[i]) {
            hear_later(sub, &bag->news[i]);
            continue;
        }
        if (store && !bag->news[i].lost) {
            hw_delivery_checkpointed(&sub->d);
            hw_place_stored(sub);
        }
        sub->ownership.renewed_ms = before;
        hear(sub, &bag->news[i]);
    }
    bag->n = 0;
    return s < 0 ? s : HOWDAH_OK;
}

/* A checkpoint, or only the name and the token: then the store renews the lease and tells the
   news. */
static int put_into_bag(news_bag *bag, howdah_subscription *sub, bool store, howdah_error *reterr)
{
    hw_checkpoint *c = &bag->checkpoints[bag->n];
    hw_ranges *outstanding = &bag->outstanding[bag->n];
    int s = HOWDAH_OK;

    assert(bag->n < NEWS_AT_ONCE); /* a full bag was sent by send_news() */
    *outstanding = (hw_ranges)HW_RANGES_INIT;
    *c = (hw_checkpoint){.subscriber_id = hw_str_of(sub->id),
                         .token = sub->ownership.token,
                         .log = hw_str_of(sub->ownership.log)};
    if (store)
        s = hw_deliver_checkpoint(sub, outstanding, c, reterr);
    if (s < 0) {
        hw_ranges_done(outstanding);
        return s;
    }
    bag->subs[bag->n++] = sub;
    return HOWDAH_OK;
}

/* store: those whose checkpoint is due; a worker stores its own.  Else those whose next question
   is due, with or without a worker: their leases have to be renewed. */
static int send_news(howdah_bus *bus, news_bag *bag, bool store, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    int s = HOWDAH_OK;

    bag->n = 0;
    for (howdah_subscription *sub = bus->service->subs; s >= 0 && sub; sub = sub->next) {
        bool busy = hw_sub_is_busy(sub);

        if (!hw_service_is_owned(sub) || (store && busy))
            continue;
        if (store ? !hw_delivery_checkpoint_due(&sub->d, now) : now < sub->schedule.poll_ms)
            continue;
        /* One statement renews by one time. */
        if (bag->n > 0 && bag->subs[0]->options.lease_ms != sub->options.lease_ms)
            s = send_bag(bus, bag, store, reterr);
        if (s < 0)
            break;
        bag->busy[bag->n] = busy;
        s = put_into_bag(bag, sub, store, reterr);
        if (s >= 0 && bag->n == NEWS_AT_ONCE)
            s = send_bag(bus, bag, store, reterr);
    }
    if (s >= 0)
        return send_bag(bus, bag, store, reterr);
    while (bag->n > 0)
        hw_ranges_done(&bag->outstanding[--bag->n]);
    return s;
}

/* Checkpoints first: they renew the lease and bring the news too, so fewer questions are left. */
int hw_service_exchange_news(howdah_bus *bus, howdah_error *reterr)
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
bool hw_service_is_news_due(const howdah_bus *bus)
{
    int64_t now = hw_clock_mono_ms();

    for (const howdah_subscription *sub = bus->service->subs; sub; sub = sub->next) {
        if (!hw_service_is_owned(sub))
            continue;
        if (now >= sub->schedule.poll_ms ||
            (!hw_sub_is_busy(sub) && hw_delivery_checkpoint_due(&sub->d, now)))
            return true;
    }
    return false;
}

/* The end of a dead letter's try, which an interrupt kept from being stored.  It is not tried
   twice: if it fails now, the dead letter stays as the store has it. */
static int end_redrive_late(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_sub_ops *ops = hw_sub_ops_of(sub->bus);
    hw_store *store = sub->bus->store;
    hw_hold hold = hw_hold_of(sub);
    const hw_redrive_end *unstored = &sub->unstored;
    bool handled = unstored->end == HW_REDRIVE_HANDLED;
    int64_t id = unstored->id;
    int s;

    assert(id > 0);
    sub->unstored.id = 0;
    if (unstored->end == HW_REDRIVE_NOT_TRIED)
        s = ops->dead_letters_set_state(store, &id, 1, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE,
                                        HW_STR_NULL, NULL, reterr);
    else
        s = ops->redrive_end(store, &hold, id,
                             handled ? HW_DEAD_LETTER_REDRIVEN : HW_DEAD_LETTER_DEAD,
                             handled ? HW_STR_NULL : hw_str_of(unstored->error), reterr);
    return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s; /* resolved meanwhile */
}

/* In this order: what was done is stored before anybody else can take it. */
int hw_service_let_go(howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    howdah_instance instance = sub->options.instance;
    hw_hold hold = hw_hold_of(sub);
    hw_ranges outstanding = HW_RANGES_INIT;
    hw_sub_news news = {0};
    hw_checkpoint checkpoint;
    int s = HOWDAH_OK;

    hw_service_drop_page(sub);
    if (!hw_service_is_owned(sub)) {
        hold.token = sub->ownership.unreleased;
        sub->ownership.unreleased = 0;
        return hold.token > 0 ? hw_sub_ops_of(bus)->release(bus->store, &hold, instance, reterr)
                              : HOWDAH_OK;
    }
    if (sub->d.unsaved > 0 || sub->d.moved) {
        s = hw_deliver_checkpoint(sub, &outstanding, &checkpoint, reterr);
        if (s >= 0)
            s = hw_sub_ops_of(bus)->checkpoint(bus->store, &checkpoint, 1, 0, &news, reterr);
        if (s >= 0 && news.lost)
            s = hw_fail(
                reterr, HOWDAH_LOST,
                "subscription %s has another owner, or this is another log: its last events "
                "are delivered again",
                sub->id);
        hw_ranges_done(&outstanding);
    }
    if (s >= 0 && sub->unstored.id > 0)
        s = end_redrive_late(sub, reterr);
    if (s >= 0 && sub->suspect.named > 0)
        s = hw_sub_ops_of(bus)->suspect(bus->store, &hold, 0, 0, reterr);
    if (s >= 0)
        s = hw_sub_ops_of(bus)->release(bus->store, &hold, instance, reterr);
    hw_sub_move(sub, HW_STATE_OUT);
    sub->ownership.token = 0;
    return s < 0 ? s : HOWDAH_OK;
}
