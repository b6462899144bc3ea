/*
 * deliver.c - one page of a subscription through its handler.
 *
 *   I1  The checkpoint is written after the effect, or with it (TRANSACTIONAL), never before.
 *   I2  A dead letter and the checkpoint without its event are one transaction; when they cannot
 *       be stored, the event stays outstanding.
 *   I3  After an owner died, each event that may have been in its hands is named in the store
 *       before its handler runs: one that ends the process every time becomes a dead letter.
 *   I4  Another try of a dead letter is counted before its handler runs, and the dead letter is
 *       dead meanwhile: one that ends the process is not tried for ever.
 *   I5  A refused token, or an answer that did not come, ends the run and throws the state away
 *       (subscription.h I6).
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "bus/subscription/subscription.h"
#include "engine/pattern.h"

/* One run of hw_deliver_run().  io writes checkpoints and dead letters; tx is for the handler's
   transaction, NULL unless TRANSACTIONAL. */
typedef struct delivery_run {
    howdah_subscription *sub;
    hw_store *io;
    hw_store *tx;
    hw_ranges outstanding; /* scratch */
    int64_t now_ms;        /* asked for once an event, when its handler is back */
    howdah_error err; /* what goes wrong on the way of every event: cleared once, not each time */
} delivery_run;

/* ------------------------------------------------------------ what went wrong */

/* Either what is stored is not known any more (I5), or the store cannot do it now. */
static void give_up(delivery_run *t, int status, const howdah_error *err)
{
    howdah_subscription *sub = t->sub;

    assert(status < 0);
    if (status == HOWDAH_LOST || (err->flags & HOWDAH_OUTCOME_UNKNOWN)) {
        hw_log(HOWDAH_LOG_WARN, "subscription %s starts again from its stored place: %s", sub->id,
               err->message);
        hw_sub_work_end_as(sub, HW_END_RELOAD);
        return;
    }
    sub->work.failed = status;
    hw_error_copy(&sub->work.error, err);
}

/* The event in hand is outstanding again, and due at once. */
static void put_back(delivery_run *t, const howdah_event *event)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_delivery_put_back(&t->sub->d, event->global_sequence, event->stream,
                                 hw_clock_mono_ms(), &err);

    if (s < 0) /* no memory to remember it by: what is stored owes it */
        hw_sub_work_end_as(t->sub, HW_END_RELOAD);
}

/* The reason is stored when the run is collected (hw_service_stop()), by the serving thread. */
static void halt(delivery_run *t, const char *why)
{
    howdah_subscription *sub = t->sub;

    hw_sub_work_end_as(sub, HW_END_HALT);
    hw_utf8_copy(sub->reason, sizeof sub->reason, why);
}

/* ------------------------------------------------------------- checkpoints */

/* Token, log, anchor and the place it follows let the store refuse what another owner, or another
   log, has overtaken (subscription.h I7). */
static void fill_checkpoint(const howdah_subscription *sub, const hw_ranges *outstanding,
                            const hw_anchor *anchor, hw_checkpoint *c)
{
    *c = (hw_checkpoint){.subscriber_id = hw_str_of(sub->id),
                         .token = sub->ownership.token,
                         .log = hw_str_of(sub->ownership.log),
                         .high = sub->d.high,
                         .outstanding = outstanding->items,
                         .outstanding_n = outstanding->n,
                         .still = hw_still_ranges(sub->place.still)->items,
                         .still_n = hw_still_ranges(sub->place.still)->n,
                         .keeps_still = sub->place.still_saved,
                         .follows = sub->place.moves + 1,
                         .anchor = *anchor};
}

int hw_deliver_checkpoint(const howdah_subscription *sub, hw_ranges *outstanding,
                          hw_checkpoint *ret, howdah_error *reterr)
{
    int s = hw_delivery_outstanding(&sub->d, outstanding, reterr);

    if (s >= 0)
        fill_checkpoint(sub, outstanding, &sub->place.anchor, ret);
    return s;
}

/* The checkpoint as it will be once this event is done: it is stored in the same transaction as
   the event's effect or its dead letter, before the delivery state may change. */
static int checkpoint_without(delivery_run *t, const howdah_event *event, hw_anchor *anchor,
                              hw_checkpoint *ret, howdah_error *reterr)
{
    howdah_subscription *sub = t->sub;
    int64_t sequence = event->global_sequence;
    int s = hw_delivery_outstanding_without(&sub->d, sequence, sequence, &t->outstanding, reterr);

    *anchor = sequence > sub->place.anchor.sequence ? (hw_anchor){sequence, event->id}
                                                    : sub->place.anchor;
    if (s >= 0)
        fill_checkpoint(sub, &t->outstanding, anchor, ret);
    return s;
}

/* What the store tells in passing.  false: the run ends, because somebody has paused or halted
   the subscription. */
static bool heed(howdah_subscription *sub, const hw_sub_news *news)
{
    sub->work.told = news->status;
    return news->status == HW_SUB_ACTIVE;
}

/* For this subscription alone, on the run's own store handle.  The lease counts from before the
   statement was sent: the store may have renewed it at any time since.  false: the run ends. */
static bool store_checkpoint(delivery_run *t)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_sub_news news = {0};
    hw_checkpoint checkpoint;
    int64_t before = hw_clock_mono_ms();
    int s = hw_deliver_checkpoint(sub, &t->outstanding, &checkpoint, &err);

    HW_FAULT_POINT("sub.before_checkpoint");
    if (s >= 0)
        s = t->io->ops->subs->checkpoint(t->io, &checkpoint, 1, sub->options.lease_ms, &news, &err);
    if (s >= 0 && news.lost)
        s = hw_fail(&err, HOWDAH_LOST, "its token is not the newest any more");
    if (s < 0) {
        give_up(t, s, &err);
        return false;
    }
    HW_FAULT_POINT("sub.after_checkpoint");
    hw_delivery_checkpointed(&sub->d);
    hw_place_stored(sub);
    sub->ownership.renewed_ms = before;
    return heed(sub, &news);
}

/* A handler that takes long must not cost the lease: it is renewed between two events when a
   third of it has passed.  false: the run ends. */
static bool keep_lease(delivery_run *t)
{
    howdah_subscription *sub = t->sub;
    hw_sub_news news = {0};
    hw_checkpoint self;
    int64_t before = t->now_ms;
    int s;

    if (before - sub->ownership.renewed_ms < sub->options.lease_ms / 3)
        return true;
    self = (hw_checkpoint){.subscriber_id = hw_str_of(sub->id),
                           .token = sub->ownership.token,
                           .log = hw_str_of(sub->ownership.log)};
    s = t->io->ops->subs->poll(t->io, &self, 1, sub->options.lease_ms, &news, &t->err);
    if (s >= 0 && news.lost)
        s = hw_fail(&t->err, HOWDAH_LOST, "its token is not the newest any more");
    if (s < 0) {
        give_up(t, s, &t->err);
        return false;
    }
    sub->ownership.renewed_ms = before;
    return heed(sub, &news);
}

/* ---------------------------------------------------------------- one event */

static void take_anchor(howdah_subscription *sub, const howdah_event *event)
{
    hw_stand_on(sub, &(hw_anchor){event->global_sequence, event->id});
}

/* The user's function counts as a handler: it must not drive the bus that is calling it. */
static void tell_dead_letter(howdah_subscription *sub, const howdah_event *event, const char *error,
                             int attempts)
{
    hw_handling handling;

    hw_handling_begin(&handling, sub->bus, NULL, sub);
    sub->options.on_dead_letter(sub->options.ctx, event, error, attempts);
    hw_handling_end(&handling);
}

/* I2: dead letter and checkpoint in one transaction.  The user is told only after both are
   stored. */
static bool store_dead_letter(delivery_run *t, const howdah_event *event, const char *error,
                              int64_t attempts)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_checkpoint checkpoint;
    hw_anchor anchor;
    int64_t id = 0;
    int s = checkpoint_without(t, event, &anchor, &checkpoint, &err);

    HW_FAULT_POINT("sub.before_dead_letter");
    if (s >= 0)
        s = t->io->ops->subs->dead_letter(t->io, &checkpoint, event, hw_str_of(error), attempts,
                                          &id, &err);
    HW_FAULT_POINT("sub.after_dead_letter");
    if (s >= 0)
        s = hw_delivery_dead_lettered(&sub->d, event->global_sequence, hw_clock_mono_ms(), &err);
    if (s < 0) {
        give_up(t, s, &err);
        if (sub->work.end != HW_END_RELOAD)
            put_back(t, event);
        return false;
    }
    take_anchor(sub, event);
    hw_place_stored(sub);
    hw_log(HOWDAH_LOG_WARN, "subscription %s: event %lld is dead letter %lld: %s", sub->id,
           (long long)event->global_sequence, (long long)id, error);
    if (sub->options.on_dead_letter)
        tell_dead_letter(sub, event, error, (int)attempts);
    return true;
}

/* An event that its handler never gets to see: it cannot be decoded or upcast, or it has ended
   the process too often. */
static bool give_up_event(delivery_run *t, const howdah_event *event, const char *why,
                          int64_t attempts)
{
    if (t->sub->options.on_fail == HOWDAH_FAIL_OPEN)
        return store_dead_letter(t, event, why, attempts);
    halt(t, why);
    put_back(t, event);
    return false;
}

/* Another try later, a dead letter, or a halt: the engine says which. */
static bool on_failure(delivery_run *t, const howdah_event *event, const howdah_delivery *delivery)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_failed verdict = HW_FAILED_RETRY;
    int s = hw_delivery_failed(&sub->d, event->global_sequence, event->stream, hw_clock_mono_ms(),
                               hw_random_u32(), &verdict, &err);

    if (s < 0) {
        give_up(t, s, &err);
        return false;
    }
    if (verdict == HW_FAILED_DEAD_LETTER)
        return store_dead_letter(t, event, delivery->message, delivery->attempt);
    if (verdict == HW_FAILED_HALT) {
        halt(t, delivery->message);
        return false;
    }
    return true;
}

/* The engine notes it; the checkpoint that stores it comes later (I1), unless it was part of the
   handler's transaction. */
static bool on_handled(delivery_run *t, const howdah_event *event)
{
    howdah_subscription *sub = t->sub;
    int s = hw_delivery_handled(&sub->d, event->global_sequence, t->now_ms, &t->err);

    if (s < 0) {
        give_up(t, s, &t->err);
        return false;
    }
    take_anchor(sub, event);
    return true;
}

/* While it runs, the bus knows that this thread is inside a handler (hw_handling): the calls that
   a handler must not make are refused. */
static int call_handler(delivery_run *t, const howdah_event *event, howdah_delivery *delivery)
{
    howdah_subscription *sub = t->sub;
    hw_handling handling;
    int result;

    delivery->message[0] = '\0';
    HW_FAULT_POINT("sub.before_handler");
    hw_handling_begin(&handling, sub->bus, delivery->tx, sub);
    result = sub->options.handler(sub->options.ctx, event, delivery);
    hw_handling_end(&handling);
    HW_FAULT_POINT("sub.after_handler");
    if (result != HOWDAH_HANDLED && !delivery->message[0])
        (void)snprintf(delivery->message, sizeof delivery->message, "the handler gave no reason");
    t->now_ms = hw_clock_mono_ms();
    sub->delivered++;
    sub->work.delivered++;
    return result;
}

/* The transaction cannot be committed for what was done in it: a deferred constraint, a statement
   that had failed, an end of its own.  What the store cannot do is another matter. */
static bool is_refused(int status, const howdah_error *err)
{
    return !(err->flags & (HOWDAH_OUTCOME_UNKNOWN | HOWDAH_RETRYABLE)) &&
           (status == HOWDAH_INVALID || status == HOWDAH_FAILED || status == HOWDAH_MISUSE ||
            status == HOWDAH_CONFLICT || status == HOWDAH_LIMIT);
}

/*
 * Effect and checkpoint in one transaction (I1).  If the commit is refused because of what the
 * handler did, that is a failure of the handler; anything else is the store's trouble, and the
 * event is outstanding again.
 */
static bool commit_effect(delivery_run *t, const howdah_event *event, howdah_delivery *delivery)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_checkpoint checkpoint;
    hw_anchor anchor;
    int s;

    assert(t->tx);
    s = checkpoint_without(t, event, &anchor, &checkpoint, &err);
    HW_FAULT_POINT("sub.before_commit");
    if (s >= 0)
        s = t->tx->ops->subs->commit(t->tx, &checkpoint, &err);
    else
        t->tx->ops->subs->rollback(t->tx);
    HW_FAULT_POINT("sub.after_commit");
    t->now_ms = hw_clock_mono_ms();
    if (s < 0 && is_refused(s, &err)) {
        (void)howdah_delivery_fail(delivery, err.message);
        return on_failure(t, event, delivery);
    }
    if (s < 0) {
        give_up(t, s, &err);
        if (t->sub->work.end != HW_END_RELOAD)
            put_back(t, event);
        return false;
    }
    hw_place_stored(t->sub);
    return on_handled(t, event);
}

/* seen is the event as the handler sees it, upcast to the newest schema version; event is what
   the log has, and what a dead letter would keep. */
static bool run_handler(delivery_run *t, const howdah_event *event, const howdah_event *seen)
{
    howdah_subscription *sub = t->sub;
    howdah_delivery delivery; /* its message is long: not cleared for every event */
    int s =
        t->tx ? t->tx->ops->subs->begin(t->tx, hw_str_of(sub->ownership.log), &t->err) : HOWDAH_OK;
    int result;

    if (s < 0) {
        give_up(t, s, &t->err);
        put_back(t, event);
        return false;
    }
    delivery.sub = sub;
    delivery.attempt = (int)sub->d.in_hand_attempts + 1;
    delivery.redrive = false;
    delivery.tx = t->tx;
    result = call_handler(t, seen, &delivery);
    if (result == HOWDAH_HANDLED)
        return t->tx ? commit_effect(t, event, &delivery) : on_handled(t, event);
    if (t->tx)
        t->tx->ops->subs->rollback(t->tx);
    if (result == HOWDAH_PUT_BACK) {
        put_back(t, event);
        return false;
    }
    if (result == HOWDAH_HALT) {
        halt(t, delivery.message);
        put_back(t, event);
        return false;
    }
    return on_failure(t, event, &delivery);
}

/* I3.  True when the handler may run, or when the event has become a dead letter instead
   (*ret_dead). */
static bool name_suspect(delivery_run *t, const howdah_event *event, bool *ret_dead)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t begun = sub->suspect.sequence == event->global_sequence ? sub->suspect.attempts : 0;
    hw_hold hold = hw_hold_of(sub);
    int s;

    /* Twice at least: an owner can end for other reasons while it has an event in hand. */
    if (begun > sub->options.max_retries && begun > 1) {
        char why[128];

        (void)snprintf(why, sizeof why, "its handler was begun %lld times and never ended",
                       (long long)begun);
        *ret_dead = true;
        return give_up_event(t, event, why, begun);
    }
    s = t->io->ops->subs->suspect(t->io, &hold, event->global_sequence, begun + 1, &err);
    if (s < 0) {
        give_up(t, s, &err);
        put_back(t, event);
        return false;
    }
    sub->suspect.named = event->global_sequence;
    return true;
}

/* The row names no suspect any more once all that could be one are handled. */
static bool clear_suspect(delivery_run *t)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_hold hold = hw_hold_of(sub);
    int s;

    if (sub->suspect.named == 0 || sub->d.suspects > 0)
        return true;
    s = t->io->ops->subs->suspect(t->io, &hold, 0, 0, &err);
    if (s < 0) {
        give_up(t, s, &err);
        return false;
    }
    sub->suspect.named = 0;
    sub->suspect.sequence = 0;
    return true;
}

/* One event.  False: the run ends; the event is handled, outstanding again, or will be known
   after the state is loaded anew. */
static bool deliver(delivery_run *t, const howdah_event *event)
{
    howdah_subscription *sub = t->sub;
    const howdah_event *seen = event;
    bool suspected = sub->d.suspects > 0;
    bool dead = false;
    bool ok;
    int s;

    if (!keep_lease(t)) {
        if (sub->work.end != HW_END_RELOAD)
            put_back(t, event);
        return false;
    }
    if (event->broken)
        return give_up_event(t, event, "the stored event cannot be decoded", 1);
    /* Not an error of its own: to clear one for every event would be felt. */
    s = hw_upcast(sub->bus->upcasts, event, &sub->work.upcast, &seen, &t->err);
    if (s == HOWDAH_INVALID) /* another try would end the same way */
        return give_up_event(t, event, t->err.message, 1);
    if (s < 0) {
        give_up(t, s, &t->err);
        put_back(t, event);
        return false;
    }
    if (suspected && !name_suspect(t, event, &dead))
        return false;
    ok = dead || run_handler(t, event, seen);
    if (ok && suspected)
        ok = (t->tx || store_checkpoint(t)) && clear_suspect(t);
    else if (ok && hw_delivery_checkpoint_due(&sub->d, t->now_ms))
        ok = store_checkpoint(t);
    return ok;
}

/* ------------------------------------------------------------------ a page */

/* The engine decides: deliver, skip or wait.  A row that was read again was offered before, so
   the engine is only told that it is back. */
static int offer(const delivery_run *t, const howdah_event *event, hw_offer *ret_offer,
                 howdah_error *reterr)
{
    howdah_subscription *sub = t->sub;
    bool matches = hw_filter_lets(&sub->filter, event);

    if (sub->work.kind == HW_WORK_ROWS_AGAIN)
        return hw_delivery_retry(&sub->d, event->global_sequence, ret_offer, reterr);
    /* Its payload was not asked for when the page was read: the subscription reads it itself. */
    if (matches && event->no_payload) {
        *ret_offer = HW_OFFER_WAIT;
        return HOWDAH_OK;
    }
    return hw_delivery_offer(&sub->d, event->global_sequence, event->stream, matches, t->now_ms,
                             ret_offer, reterr);
}

/* The numbers before a row that has to wait may turn out to be no holes at all.  Then they are
   not in its way any more, and it is offered once more. */
static int offer_after_pass(const delivery_run *t, const howdah_event *event, hw_offer *ret_offer,
                            howdah_error *reterr)
{
    const hw_page *page = t->sub->work.page;
    int s = hw_delivery_pass(&t->sub->d, event->global_sequence - 1, page->holes, page->holes_n,
                             t->now_ms, reterr);

    return s < 0 ? s : offer(t, event, ret_offer, reterr);
}

/* Asked between two handlers, so that an interrupt or a stop waits for one handler at most. */
static bool is_to_end(const howdah_subscription *sub)
{
    return hw_interrupted(sub->bus->interrupt) || hw_runner_is_stopping(sub->bus);
}

/* True: every row was offered.  False: something is in the way, and sub->work says what. */
static bool run_page(delivery_run *t)
{
    howdah_subscription *sub = t->sub;
    bool again = sub->work.kind == HW_WORK_ROWS_AGAIN;

    assert(sub->work.page && sub->work.at <= sub->work.page->n);
    for (; sub->work.at < sub->work.page->n; sub->work.at++) {
        const howdah_event *event = &sub->work.page->events[sub->work.at];
        hw_offer verdict = HW_OFFER_SKIP;
        int s;

        if (is_to_end(sub))
            return false;
        if (!again && hw_stands_still(sub, event->global_sequence))
            continue;
        s = offer(t, event, &verdict, &t->err);
        if (s >= 0 && verdict == HW_OFFER_WAIT)
            s = offer_after_pass(t, event, &verdict, &t->err);
        if (s < 0) {
            give_up(t, s, &t->err);
            return false;
        }
        if (verdict == HW_OFFER_WAIT) {
            hw_sub_work_end_as(sub, HW_END_WAITING);
            return false;
        }
        if (verdict == HW_OFFER_DELIVER && !deliver(t, event))
            return false;
        if (!again)
            take_anchor(sub, event);
    }
    return true;
}

static bool is_on_page(const hw_page *page, int64_t sequence)
{
    for (size_t i = 0; i < page->n; i++) {
        if (page->events[i].global_sequence == sequence)
            return true;
    }
    return false;
}

/*
 * Events that were there once, failed, and have been removed from the log since, by hand: nobody
 * can deliver them, so they count as handled.  A page that was cut off tells nothing of what
 * comes after its last row.
 */
static int forget_gone(howdah_subscription *sub, howdah_error *reterr)
{
    const hw_page *page = sub->work.page;
    int64_t told = page->full ? page->events[page->n - 1].global_sequence : INT64_MAX;
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < sub->work.asked_n; i++) {
        hw_offer verdict = HW_OFFER_SKIP;

        if (sub->work.asked[i] > told || is_on_page(page, sub->work.asked[i]))
            continue;
        hw_log(HOWDAH_LOG_WARN, "subscription %s: event %lld is gone from the log", sub->id,
               (long long)sub->work.asked[i]);
        s = hw_delivery_retry(&sub->d, sub->work.asked[i], &verdict, reterr);
        if (s >= 0 && verdict == HW_OFFER_DELIVER)
            s = hw_delivery_handled(&sub->d, sub->work.asked[i], hw_clock_mono_ms(), reterr);
    }
    return s;
}

/* Only a page whose rows were all offered moves high up to what it covers (hw_delivery_pass()). */
static void offer_page(delivery_run *t)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    bool again = sub->work.kind == HW_WORK_ROWS_AGAIN;
    int s;

    if (!run_page(t))
        return;
    s = again ? forget_gone(sub, &err)
              : hw_delivery_pass(&sub->d, sub->work.page->upto, sub->work.page->holes,
                                 sub->work.page->holes_n, hw_clock_mono_ms(), &err);
    if (s < 0)
        give_up(t, s, &err);
    else if (!again)
        hw_stand_on(sub, &sub->work.page->anchor);
    if (s >= 0)
        hw_sub_work_end_as(sub, HW_END_PASSED);
}

/* --------------------------------------------------------------- redriving */

/* With the token, so that an owner that was replaced meanwhile changes nothing. */
static int end_redrive(delivery_run *t, const howdah_dead_letter *dead_letter, hw_store *store,
                       bool handled, const char *message, howdah_error *reterr)
{
    hw_hold hold = hw_hold_of(t->sub);

    return store->ops->subs->redrive_end(store, &hold, dead_letter->id,
                                         handled ? HW_DEAD_LETTER_REDRIVEN : HW_DEAD_LETTER_DEAD,
                                         handled ? HW_STR_NULL : hw_str_of(message), reterr);
}

/* In a transactional subscription the end of the redrive is part of the handler's transaction, as
   the checkpoint is part of an ordinary event's. */
static int commit_again(delivery_run *t, const howdah_dead_letter *dead_letter,
                        howdah_error *reterr)
{
    hw_checkpoint checkpoint;
    int s;

    assert(t->tx);
    s = end_redrive(t, dead_letter, t->tx, true, NULL, reterr);
    if (s >= 0)
        s = hw_deliver_checkpoint(t->sub, &t->outstanding, &checkpoint, reterr);
    if (s < 0) {
        t->tx->ops->subs->rollback(t->tx);
        return s;
    }
    s = t->tx->ops->subs->commit(t->tx, &checkpoint, reterr);
    if (s >= 0)
        hw_place_stored(t->sub);
    return s;
}

/* It had no try, or one whose end is not known: it waits for another try, as before. */
static int ask_again(delivery_run *t, const howdah_dead_letter *dead_letter, howdah_error *reterr)
{
    return t->io->ops->subs->dead_letters_set_state(
        t->io, &dead_letter->id, 1, HW_STR_NULL, HW_DEAD_LETTER_REDRIVE, HW_STR_NULL, NULL, reterr);
}

/* An interrupt ends the work, but must not lose what was done: hw_service_let_go() stores it
   later. */
static void note_unstored(howdah_subscription *sub, const howdah_dead_letter *dead_letter,
                          bool handled, const char *message)
{
    hw_redrive_end *unstored = &sub->unstored;

    unstored->id = dead_letter->id;
    unstored->end = handled   ? HW_REDRIVE_HANDLED
                    : message ? HW_REDRIVE_FAILED
                              : HW_REDRIVE_NOT_TRIED;
    hw_utf8_copy(unstored->error, sizeof unstored->error, message ? message : "");
}

/* Any other error is not reported: the dead letter then stays dead, and somebody can ask again. */
static void ask_again_or_note(delivery_run *t, const howdah_dead_letter *dead_letter)
{
    if (ask_again(t, dead_letter, NULL) == HOWDAH_INTERRUPTED)
        note_unstored(t->sub, dead_letter, false, NULL);
}

/* The handler's try.  The dead letter is already marked dead again (I4). */
static int try_dead(delivery_run *t, const howdah_dead_letter *dead_letter, howdah_error *reterr)
{
    howdah_delivery delivery = {
        .sub = t->sub, .attempt = (int)dead_letter->attempts + 1, .redrive = true, .tx = t->tx};
    const howdah_event *seen = dead_letter->event;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_upcast(t->sub->bus->upcasts, dead_letter->event, &t->sub->work.upcast, &seen, &err);
    int result;

    if (s == HOWDAH_INVALID)
        return end_redrive(t, dead_letter, t->io, false, err.message, reterr);
    if (s < 0) {
        hw_error_copy(reterr, &err);
        return s;
    }
    s = t->tx ? t->tx->ops->subs->begin(t->tx, hw_str_of(t->sub->ownership.log), reterr)
              : HOWDAH_OK;
    if (s < 0)
        return s;
    result = call_handler(t, seen, &delivery);
    if (t->tx && result == HOWDAH_HANDLED)
        return commit_again(t, dead_letter, reterr);
    if (t->tx)
        t->tx->ops->subs->rollback(t->tx);
    if (result == HOWDAH_PUT_BACK) {
        ask_again_or_note(t, dead_letter);
        return HOWDAH_OK;
    }
    s = end_redrive(t, dead_letter, t->io, result == HOWDAH_HANDLED, delivery.message, reterr);
    if (s == HOWDAH_INTERRUPTED)
        note_unstored(t->sub, dead_letter, result == HOWDAH_HANDLED, delivery.message);
    return s;
}

/* Dead first, and counted: a handler that ends the process leaves it so (I4). */
static int try_again(delivery_run *t, const howdah_dead_letter *dead_letter, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s =
        end_redrive(t, dead_letter, t->io, false, NULL, reterr); /* with the error that it has */

    if (s < 0)
        return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s; /* resolved meanwhile */
    s = try_dead(t, dead_letter, &err);
    if (s == HOWDAH_NOT_FOUND) /* resolved while its handler ran */
        return HOWDAH_OK;
    if (s < 0 && t->tx && is_refused(s, &err))
        return end_redrive(t, dead_letter, t->io, false, err.message, reterr);
    if (s < 0 && t->sub->unstored.id == 0)
        ask_again_or_note(t, dead_letter);
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* Dead letters are collected first: a handler must not run inside the store's walk. */
typedef struct dead_letter_copy {
    howdah_dead_letter dead_letter;
    howdah_event *event;
} dead_letter_copy;

#define REDRIVES_AT_ONCE 100

typedef struct dead_letter_pile {
    dead_letter_copy items[REDRIVES_AT_ONCE];
    size_t n;
    int status;
    howdah_error *reterr;
} dead_letter_pile;

/* Only what a try needs is copied; the row's own memory ends with the callback. */
static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    dead_letter_pile *pile = ctx;
    dead_letter_copy *copy = &pile->items[pile->n];

    if (pile->n == REDRIVES_AT_ONCE)
        return 1;
    copy->dead_letter =
        (howdah_dead_letter){.id = dead_letter->id, .attempts = dead_letter->attempts};
    pile->status = hw_event_clone(dead_letter->event, &copy->event, pile->reterr);
    if (pile->status < 0)
        return 1;
    copy->dead_letter.event = copy->event;
    assert(pile->n < REDRIVES_AT_ONCE);
    pile->n++;
    return 0;
}

/* At most REDRIVES_AT_ONCE in one run, because they are held in memory.  What was not tried keeps
   its mark in the store, and is found again. */
static void redrive(delivery_run *t)
{
    howdah_subscription *sub = t->sub;
    howdah_error err = HOWDAH_ERROR_INIT;
    dead_letter_pile *pile = hw_calloc(1, sizeof *pile);
    hw_dead_letter_query query = {
        .subscriber_id = hw_str_of(sub->id), .limit = REDRIVES_AT_ONCE, .redrives = true};
    size_t done = 0;
    int s = pile ? HOWDAH_OK : hw_fail_no_memory(&err);

    if (s >= 0) {
        pile->reterr = &err;
        s = t->io->ops->subs->dead_letters(t->io, &query, on_dead_letter, pile, &err);
    }
    if (s >= 0)
        s = pile->status;
    for (; s >= 0 && done < pile->n; done++) {
        if (is_to_end(sub) || !keep_lease(t))
            break;
        s = try_again(t, &pile->items[done].dead_letter, &err);
    }
    if (s < 0)
        give_up(t, s, &err);
    sub->redrives = s >= 0 && done == REDRIVES_AT_ONCE; /* there may be more */
    for (size_t i = 0; pile && i < pile->n; i++)
        hw_event_free(pile->items[i].event);
    hw_free(pile);
}

void hw_deliver_run(howdah_subscription *sub, hw_store *io, hw_store *tx)
{
    delivery_run t = {
        .sub = sub, .io = io, .tx = tx, .now_ms = hw_clock_mono_ms(), .err = HOWDAH_ERROR_INIT};

    assert(sub->work.kind != HW_WORK_NONE && sub->kind != HW_KIND_TAIL);
    if (sub->kind == HW_KIND_ROUTER)
        hw_route_run(sub, io);
    else if (sub->work.kind == HW_WORK_DEAD_LETTERS)
        redrive(&t);
    else
        offer_page(&t);
    hw_ranges_done(&t.outstanding);
}
