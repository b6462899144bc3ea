/*
 * shared.c - a shared subscription with a handler: some members of its group, as many as its
 * concurrency says, that this bus runs.
 *
 *   I1  A slot is one member.  It takes a batch, has its events handled one after the other, and
 *       acks it, all in one go: between two runs it holds nothing.
 *   I2  A slot is the worker's from the moment that it is handed out until the serving thread has
 *       collected it.  What both look at, the batch in hand, has a lock.
 *   I3  A lease is extended at a third of its time, counted from before it was asked for: between
 *       two events by whoever handles them, and while a handler runs by the serving thread, where
 *       there is one beside it.
 *   I4  One slot at a time looks whether there is something to do; the next one looks as soon as
 *       it has found something.  So work spreads at once, and idling costs one look.
 *   I5  An event that fails leaves out the later ones of its stream in the same batch: they wait
 *       for it in the store (store/groups.h I3).
 *   I6  An interrupt, or a store that is away, ends the work, not the storing of what was done:
 * what could not be stored is, before anything else is done with the slot.
 *   I7  In transactions nothing is acked but with its effect, by a store that knows of the acks
 *       before: one that has lost some of them, and the effects, gives those events out again.
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
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"
#include "engine/backoff.h"

#define TROUBLE_MS 50
#define TROUBLE_MAX_MS 5000
#define CONCURRENCY_MAX 1024
#define RESERVED_LOOK_MS 200

/* ------------------------------------------------------------------ a batch */

/* A batch on its way through the handler. */
typedef struct run {
    hw_slot *slot;
    hw_store *io;
    hw_store *tx; /* NULL: no transactions */
    hw_group_batch batch;
    hw_group_batch before; /* the batch that the next fetch acks; without done(): none */
    size_t *failed;        /* which events of it, in order */
    size_t failed_n;
    int64_t done;      /* the last event that is through; 0: none */
    int64_t committed; /* the last one whose effect is, with its ack; 0: none */
    bool ended;        /* it is not ours any more, or was given back */
} run;

static hw_batch_ref ref_of(const run *r)
{
    return (hw_batch_ref){hw_str_of(r->slot->shared->sub->id), hw_str_of(r->batch.token),
                          r->committed};
}

/* I2, I3: what the serving thread extends. */
void hw_slot_hold(hw_slot *slot, const char *token, int64_t since_ms)
{
    hw_shared *shared = slot->shared;

    (void)pthread_mutex_lock(&shared->lock);
    (void)snprintf(slot->token, sizeof slot->token, "%s", token);
    slot->leased_ms = since_ms;
    (void)pthread_mutex_unlock(&shared->lock);
}

static bool is_lease_due(const hw_slot *slot)
{
    return hw_clock_mono_ms() - slot->leased_ms >= slot->shared->sub->options.lease_ms / 3;
}

/* I6.  If its outcome is unknown, a second ack finds the token stale, which is as good. */
void hw_slot_leave(hw_slot *slot, const char *token, int64_t done, int status,
                   const howdah_error *err)
{
    if (status != HOWDAH_INTERRUPTED && !hw_service_passes(status, err))
        return;
    (void)snprintf(slot->left_token, sizeof slot->left_token, "%s", token);
    slot->left_done = done;
}

/* What can be acked without its effect: in transactions nothing (I7). */
static int64_t done_of(const run *r)
{
    return r->tx ? 0 : r->done;
}

/* What the store said of the batch is the run's end, unless all is well. */
static bool goes_on(run *r, int s, const howdah_error *err)
{
    if (s >= 0)
        return true;
    r->ended = true;
    if (s == HOWDAH_LOST) {
        hw_log(HOWDAH_LOG_WARN, "subscription %s: %s", r->slot->shared->sub->id, err->message);
        if (r->tx) { /* I7: if the batch is still ours, it is free at once */
            hw_batch_ref ref = ref_of(r);

            (void)r->io->ops->groups->release(r->io, &ref, NULL);
        }
        return false;
    }
    hw_slot_leave(r->slot, r->batch.token, done_of(r), s, err);
    r->slot->failed = s;
    hw_error_copy(&r->slot->error, err);
    return false;
}

static bool keep_lease(run *r)
{
    hw_slot *slot = r->slot;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_batch_ref ref = ref_of(r);
    int64_t now = hw_clock_mono_ms();
    bool due;

    (void)pthread_mutex_lock(&slot->shared->lock);
    due = is_lease_due(slot);
    (void)pthread_mutex_unlock(&slot->shared->lock);
    if (!due)
        return true;
    if (!goes_on(r,
                 r->io->ops->groups->extend(r->io, &ref, slot->shared->sub->options.lease_ms, &err),
                 &err))
        return false;
    hw_slot_hold(slot, r->batch.token, now);
    return true;
}

/* What is through is acked, the rest is free again.  LOST is no news to who gives up. */
static int end_batch(hw_store *store, const hw_batch_ref *ref, int64_t done, howdah_error *reterr)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = done > 0 ? store->ops->groups->ack(store, ref, done, &err) : HOWDAH_OK;

    if (s >= 0 && done < INT64_MAX)
        s = store->ops->groups->release(store, ref, &err);
    if (s >= 0 || s == HOWDAH_LOST)
        return HOWDAH_OK;
    hw_error_copy(reterr, &err);
    return s;
}

static void give_back(run *r)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_batch_ref ref = ref_of(r);

    (void)goes_on(r, end_batch(r->io, &ref, done_of(r), &err), &err);
    r->ended = true;
}

/* ----------------------------------------------------------------- one event */

/* I5. */
static bool waits(const run *r, size_t i)
{
    for (size_t k = 0; k < r->failed_n; k++)
        if (hw_str_equal(r->batch.events[r->failed[k]].stream, r->batch.events[i].stream))
            return true;
    return false;
}

void hw_slot_tell(const hw_slot *slot, const howdah_event *event, hw_group_fate fate,
                  const char *message, int attempt)
{
    const howdah_subscribe_options *o = &slot->shared->sub->options;

    if ((fate == HW_FATE_DEAD || fate == HW_FATE_HELD) && o->on_dead_letter)
        o->on_dead_letter(o->ctx, event, message, attempt);
}

static bool fail(run *r, size_t i, const char *message)
{
    const howdah_event *event = &r->batch.events[i];
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_batch_ref ref = ref_of(r);
    hw_group_fate fate = HW_FATE_RETRY;
    int s = r->io->ops->groups->nack(r->io, &ref, event->global_sequence, hw_str_of(message), -1,
                                     &fate, &err);

    if (!goes_on(r, s, &err))
        return false;
    r->failed[r->failed_n++] = i;
    r->ended = r->ended || hw_batch_ends_with_nack(r->batch.token);
    hw_slot_tell(r->slot, event, fate, message, (int)r->batch.attempt);
    return !r->ended;
}

void hw_slot_halt(const hw_slot *slot, hw_store *io, const char *message)
{
    const howdah_subscription *sub = slot->shared->sub;
    const hw_hold anybody = {.subscriber_id = hw_str_of(sub->id)};
    howdah_error err = HOWDAH_ERROR_INIT;
    char reason[256];

    hw_utf8_copy(reason, sizeof reason, message);
    if (io->ops->subs->set_status(io, &anybody, HW_SUB_HALTED, hw_str_of(reason), &err) < 0)
        hw_log(HOWDAH_LOG_WARN, "subscription %s: %s", sub->id, err.message);
}

/* The transaction cannot be committed for what was done in it: see deliver.c. */
static bool is_refused(int status, const howdah_error *err)
{
    return !(err->flags & (HOWDAH_OUTCOME_UNKNOWN | HOWDAH_RETRYABLE)) &&
           (status == HOWDAH_INVALID || status == HOWDAH_FAILED || status == HOWDAH_MISUSE ||
            status == HOWDAH_CONFLICT || status == HOWDAH_LIMIT);
}

static bool commit_effect(run *r, size_t i)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_batch_ref ref = ref_of(r);
    int s;

    HW_FAULT_POINT("group.before_commit");
    s = r->tx->ops->groups->commit(r->tx, &ref, r->batch.events[i].global_sequence, &err);
    HW_FAULT_POINT("group.after_commit");
    if (s < 0 && is_refused(s, &err))
        return fail(r, i, err.message);
    if (s >= 0)
        r->committed = r->batch.events[i].global_sequence;
    return goes_on(r, s, &err);
}

int hw_slot_call(hw_slot *slot, const howdah_event *seen, howdah_delivery *delivery)
{
    howdah_subscription *sub = slot->shared->sub;
    hw_handling handling;
    int result;

    delivery->message[0] = '\0';
    HW_FAULT_POINT("group.before_handler");
    hw_handling_begin(&handling, sub->bus, delivery->tx, sub);
    result = sub->options.handler(sub->options.ctx, seen, delivery);
    hw_handling_end(&handling);
    HW_FAULT_POINT("group.after_handler");
    if (result != HOWDAH_HANDLED && !delivery->message[0])
        (void)snprintf(delivery->message, sizeof delivery->message, "the handler gave no reason");
    slot->delivered++;
    return result;
}

/* False: the run ends. */
static bool run_handler(run *r, size_t i, const howdah_event *seen)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_delivery delivery; /* its message is long: not cleared for every event */
    int result;

    if (r->tx && !goes_on(r, r->tx->ops->subs->begin(r->tx, HW_STR_NULL, &err), &err))
        return false;
    delivery.sub = r->slot->shared->sub;
    delivery.attempt = (int)r->batch.attempt;
    delivery.redrive = false;
    delivery.tx = r->tx;
    result = hw_slot_call(r->slot, seen, &delivery);
    if (result == HOWDAH_HANDLED)
        return !r->tx || commit_effect(r, i);
    if (r->tx)
        r->tx->ops->subs->rollback(r->tx);
    if (result != HOWDAH_PUT_BACK && result != HOWDAH_HALT)
        return fail(r, i, delivery.message);
    if (result == HOWDAH_HALT)
        hw_slot_halt(r->slot, r->io, delivery.message);
    give_back(r);
    return false;
}

static bool handle(run *r, size_t i)
{
    const howdah_event *event = &r->batch.events[i];
    const howdah_event *seen = event;
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (event->broken)
        return fail(r, i, "the stored event cannot be decoded");
    s = hw_upcast(r->slot->shared->sub->bus->upcasts, event, &r->slot->upcast, &seen, &err);
    if (s == HOWDAH_INVALID)
        return fail(r, i, err.message);
    return goes_on(r, s, &err) && keep_lease(r) && run_handler(r, i, seen);
}

bool hw_slot_is_to_end(const hw_slot *slot)
{
    const howdah_bus *bus = slot->shared->sub->bus;

    return hw_interrupted(bus->interrupt) || hw_runner_is_stopping(bus);
}

/* Its events one after the other. */
static void run_batch(run *r)
{
    for (size_t i = 0; !r->ended && i < r->batch.n; i++) {
        if (hw_slot_is_to_end(r->slot)) {
            give_back(r);
            return;
        }
        if (!waits(r, i) && !handle(r, i))
            return;
        r->done = r->batch.events[i].global_sequence;
    }
}

/* ------------------------------------------------------------------- a slot */

static void forget_before(run *r)
{
    if (r->before.done)
        r->before.done(&r->before);
    r->before.done = NULL;
}

/* HOWDAH_END: there is nothing to do.  acked: the token of the batch before, "": none. */
static int fetch(run *r, const char *acked, howdah_error *reterr)
{
    hw_slot *slot = r->slot;
    const howdah_subscribe_options *o = &slot->shared->sub->options;
    const hw_group_take take = {.subscriber_id = hw_str_of(o->subscriber_id),
                                .max_events = o->catch_up_batch,
                                .member = hw_str_of(slot->shared->member),
                                .lease_ms = o->lease_ms,
                                .process = slot->shared->process,
                                .acked = acked[0] ? hw_str_of(acked) : HW_STR_NULL,
                                .prior = acked[0] ? &r->before : NULL};
    int64_t now = hw_clock_mono_ms();
    int s = r->io->ops->groups->fetch(r->io, &take, &r->batch, &slot->outlook, reterr);

    forget_before(r);
    if (s != HOWDAH_OK)
        return s;
    hw_slot_hold(slot, r->batch.token, now);
    if (!slot->found)
        hw_shared_spread(slot->shared); /* I4 */
    slot->found = true;
    return HOWDAH_OK;
}

static void batch_over(run *r)
{
    hw_slot_hold(r->slot, "", 0);
    r->before = r->batch;
    r->batch = (hw_group_batch){.n = 0};
    r->failed_n = 0;
    r->done = r->committed = 0;
}

static bool is_reserved(const hw_slot *slot)
{
    return hw_reserved_token(slot->shared->reserved) != 0;
}

/* In transactions each event was acked with its effect; those that failed at the end were not. */
static bool ack_rest(run *r)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_batch_ref ref = ref_of(r);
    bool all = r->failed_n == 0 || r->failed[r->failed_n - 1] + 1 < r->batch.n;

    if (r->ended || (r->tx && all && !waits(r, r->batch.n - 1)))
        return !r->ended;
    return goes_on(r, r->io->ops->groups->ack(r->io, &ref, INT64_MAX, &err), &err);
}

/* The batch is through, and acked now, or (acked is its token) with the next fetch. */
static void end_run(run *r, bool again, char acked[HW_BATCH_TOKEN_SIZE])
{
    if (r->ended)
        return;
    if (r->tx || !again || hw_slot_is_to_end(r->slot) || is_reserved(r->slot))
        (void)ack_rest(r);
    else
        memcpy(acked, r->batch.token, sizeof r->batch.token);
}

/* One batch.  HOWDAH_END: there is none, or there was one that ends the run. */
static int run_one(run *r, bool again, char acked[HW_BATCH_TOKEN_SIZE], howdah_error *reterr)
{
    hw_slot *slot = r->slot;
    hw_reserved *reserved = again ? slot->shared->reserved : NULL;
    hw_clock_work work;
    int s = fetch(r, acked, reterr);

    if (s < 0 && s != HOWDAH_LOST && acked[0])
        hw_slot_leave(slot, acked, INT64_MAX, s, reterr);
    acked[0] = '\0';
    if (s != HOWDAH_OK)
        return s;
    r->ended = false;
    work = hw_clock_work_begin();
    run_batch(r);
    if (reserved && !r->ended)
        hw_reserved_consider(reserved, r->io, r->batch.n,
                             hw_clock_work_us(&work) / (int64_t)r->batch.n);
    end_run(r, again, acked);
    s = !again || r->ended || slot->failed < 0 || hw_slot_is_to_end(slot) ? HOWDAH_END : HOWDAH_OK;
    batch_over(r);
    return s;
}

/* Whoever has much to do leaves its thread to others after each batch. */
static bool is_to_leave(const hw_slot *slot)
{
    return hw_slot_is_to_end(slot) || hw_runner_is_wanted(slot->shared->sub->bus, slot->shared);
}

/* again: batch after batch, each acked with the next fetch; else one. */
void hw_slot_run(hw_slot *slot, hw_store *io, hw_store *tx, bool again)
{
    run r = {.slot = slot, .io = io, .tx = tx};
    howdah_error err = HOWDAH_ERROR_INIT;
    char acked[HW_BATCH_TOKEN_SIZE] = "";
    int s = HOWDAH_OK;

    slot->found = false;
    slot->failed = HOWDAH_OK;
    r.failed = hw_calloc((size_t)slot->shared->sub->options.catch_up_batch, sizeof *r.failed);
    if (!r.failed) {
        slot->failed = hw_fail_no_memory(&slot->error);
        return;
    }
    do {
        if (again && !acked[0] && is_reserved(slot)) {
            forget_before(&r);
            hw_reserved_run(slot, io);
        }
        if (slot->failed >= 0 && (acked[0] || !hw_slot_is_to_end(slot)))
            s = run_one(&r, again && !is_to_leave(slot), acked, &err);
    } while (s >= 0 && slot->failed >= 0 && (acked[0] || !is_to_leave(slot)) &&
             (s == HOWDAH_OK || (again && is_reserved(slot))));
    if (s == HOWDAH_LOST) { /* the batch before: its events come again */
        hw_log(HOWDAH_LOG_WARN, "subscription %s: %s", slot->shared->sub->id, err.message);
        slot->found = true;
    } else if (s < 0) {
        slot->failed = s;
        hw_error_copy(&slot->error, &err);
    }
    forget_before(&r);
    hw_free(r.failed);
}

/* ------------------------------------------------------- the serving thread */

int hw_shared_new(howdah_subscription *sub, howdah_error *reterr)
{
    hw_shared *shared = hw_calloc(1, sizeof *shared);
    size_t n = (size_t)sub->options.concurrency;

    assert(n >= 1 && n <= CONCURRENCY_MAX);
    if (shared)
        shared->slots = hw_calloc(n, sizeof *shared->slots);
    if (!shared || !shared->slots) {
        hw_free(shared);
        return hw_fail_no_memory(reterr);
    }
    shared->sub = sub;
    shared->slots_n = n;
    shared->look = true;
    hw_bus_sign(shared->member);
    shared->process = 1 + hw_random_u32();
    (void)pthread_mutex_init(&shared->lock, NULL);
    for (size_t i = 0; i < n; i++) {
        shared->slots[i].shared = shared;
        shared->slots[i].item = (hw_pool_item){.owner = &shared->slots[i], .of_slot = true};
        shared->slots[i].error = (howdah_error)HOWDAH_ERROR_INIT;
        hw_upcast_event_init(&shared->slots[i].upcast);
    }
    if (sub->bus->store->ops->groups->reservations &&
        sub->options.checkpoint != HOWDAH_CHECKPOINT_TRANSACTIONAL && n > 1 &&
        hw_reserved_new(shared, reterr) < 0) {
        hw_shared_free(shared);
        return HOWDAH_NO_MEMORY;
    }
    sub->shared = shared;
    return HOWDAH_OK;
}

void hw_shared_free(hw_shared *shared)
{
    if (!shared)
        return;
    for (size_t i = 0; i < shared->slots_n; i++) {
        assert(!shared->slots[i].busy);
        hw_upcast_event_done(&shared->slots[i].upcast);
    }
    hw_reserved_free(shared->reserved);
    (void)pthread_mutex_destroy(&shared->lock);
    hw_free(shared->slots);
    hw_free(shared);
}

/* I6. */
static int let_go(hw_slot *slot, howdah_error *reterr)
{
    hw_store *store = slot->shared->sub->bus->store;
    hw_batch_ref ref = {hw_str_of(slot->shared->sub->id), hw_str_of(slot->left_token), 0};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (slot->busy || !slot->left_token[0])
        return HOWDAH_OK;
    s = end_batch(store, &ref, slot->left_done, &err);
    if (s >= 0 || (s != HOWDAH_INTERRUPTED && !hw_service_passes(s, &err)))
        slot->left_token[0] = '\0'; /* else it is tried again, or its lease ends it */
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

int hw_shared_let_go(hw_shared *shared, howdah_error *reterr)
{
    int first = HOWDAH_OK;

    if (shared->reserved)
        first = hw_reserved_let_go(shared->reserved, shared->sub->bus->store, reterr);
    for (size_t i = 0; i < shared->slots_n; i++) {
        int s = let_go(&shared->slots[i], first < 0 ? NULL : reterr);

        first = first < 0 ? first : s;
    }
    return first;
}

/* I4.  In a worker's thread: the serving thread hears of it through the pool. */
void hw_shared_spread(hw_shared *shared)
{
    atomic_store(&shared->spread, true);
    hw_runner_wake(shared->sub->bus);
}

void hw_shared_wake(const howdah_bus *bus)
{
    for (howdah_subscription *sub = bus->service->shared; sub; sub = sub->next)
        sub->shared->look = true;
}

bool hw_shared_is_awake(const howdah_bus *bus)
{
    const howdah_subscription *sub = bus->service->shared;

    while (sub && hw_reserved_token(sub->shared->reserved) != 0)
        sub = sub->next;
    return bus->service->shared && !sub;
}

/* Whether one that looks is under way. */
static bool is_looking(const hw_shared *shared)
{
    for (size_t i = 0; i < shared->slots_n; i++)
        if (shared->slots[i].busy && !shared->slots[i].spread)
            return true;
    return false;
}

static hw_slot *idle_slot(const hw_shared *shared)
{
    for (size_t i = 0; i < shared->slots_n; i++)
        if (!shared->slots[i].busy)
            return &shared->slots[i];
    return NULL;
}

/* When it has to be looked at, in us of the monotonic clock. */
int64_t hw_shared_next_us(howdah_bus *bus, int64_t now_us)
{
    int64_t now = now_us / 1000;
    int64_t at = INT64_MAX; /* in ms */
    int64_t look_us = INT64_MAX;

    for (howdah_subscription *sub = bus->service->shared; sub; sub = sub->next) {
        hw_shared *shared = sub->shared;

        if (idle_slot(shared) && !is_looking(shared)) {
            int64_t next = shared->look ? now_us : shared->look_us;

            if (next < shared->trouble_ms * 1000)
                next = shared->trouble_ms * 1000;
            look_us = next < look_us ? next : look_us;
        }
        if (hw_reserved_token(shared->reserved) != 0) /* others may want to take part */
            at = now + RESERVED_LOOK_MS < at ? now + RESERVED_LOOK_MS : at;
        for (size_t i = 0; i < shared->slots_n; i++)
            if (shared->slots[i].busy) {
                int64_t third = sub->options.lease_ms / 3;

                at = now + third < at ? now + third : at;
            }
    }
    return look_us / 1000 < at ? look_us : at * 1000;
}

/* I3: those whose handlers run.  Where a handler's transaction keeps all others from writing, it
   keeps other members away as well, and an extension would wait for it. */
static void extend(howdah_bus *bus, hw_shared *shared)
{
    if (bus->store->one_writer &&
        shared->sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL)
        return;
    if (shared->reserved)
        hw_reserved_extend(shared->reserved, bus->store);
    for (size_t i = 0; i < shared->slots_n; i++) {
        hw_slot *slot = &shared->slots[i];
        char token[HW_BATCH_TOKEN_SIZE];
        int64_t now = hw_clock_mono_ms();
        hw_batch_ref ref = {hw_str_of(shared->sub->id), {token, 0}, 0};

        if (!slot->busy)
            continue;
        (void)pthread_mutex_lock(&shared->lock);
        memcpy(token, slot->token, sizeof token);
        if (token[0] && !is_lease_due(slot))
            token[0] = '\0';
        (void)pthread_mutex_unlock(&shared->lock);
        ref.token.len = strlen(token);
        if (ref.token.len == 0 || bus->store->ops->groups->extend(
                                      bus->store, &ref, shared->sub->options.lease_ms, NULL) < 0)
            continue; /* what is lost its own thread finds out */
        (void)pthread_mutex_lock(&shared->lock);
        if (strcmp(token, slot->token) == 0)
            slot->leased_ms = now;
        (void)pthread_mutex_unlock(&shared->lock);
    }
}

/* What a slot's run has brought.  An error that is everybody's is returned. */
int hw_slot_end(hw_slot *slot, howdah_error *reterr)
{
    hw_shared *shared = slot->shared;
    howdah_bus *bus = shared->sub->bus;
    int64_t now = hw_clock_mono_ms();
    int64_t due_ms;
    int64_t pause_us;

    slot->busy = false;
    shared->sub->delivered += slot->delivered;
    if (slot->delivered > 0) {
        bus->service->worked = true;
        hw_service_found(bus);
    }
    slot->delivered = 0;
    if (slot->failed < 0) {
        shared->trouble_ms = now + hw_backoff_ms(TROUBLE_MS, TROUBLE_MAX_MS, shared->troubles++, 20,
                                                 hw_random_u32());
        if (slot->failed == HOWDAH_INTERRUPTED) { /* the pass that saw it will tell */
            shared->trouble_ms = 0;
            shared->look = true;
            return HOWDAH_OK;
        }
        if (slot->failed == HOWDAH_FULL || slot->failed == HOWDAH_TIMEOUT ||
            (slot->error.flags & HOWDAH_RETRYABLE))
            return HOWDAH_OK;
        hw_error_copy(reterr, &slot->error);
        return slot->failed;
    }
    shared->troubles = 0;
    if (slot->found) {
        shared->look = true;
        return HOWDAH_OK;
    }
    shared->status = slot->outlook.status;
    due_ms = slot->outlook.due_ms > 0 ? slot->outlook.due_ms : 1;
    pause_us = bus->service->pause.pause_us;
    if (slot->outlook.due_ms >= 0 && due_ms < pause_us / 1000)
        pause_us = due_ms * 1000;
    shared->look_us = hw_clock_mono_us() + pause_us;
    return HOWDAH_OK;
}

static int start(howdah_bus *bus, hw_slot *slot, howdah_error *reterr)
{
    bool transactional = slot->shared->sub->options.checkpoint == HOWDAH_CHECKPOINT_TRANSACTIONAL;
    int s = HOWDAH_OK;

    s = let_go(slot, reterr);
    if (s < 0)
        return s;
    slot->shared->look = false;
    slot->busy = true;
    slot->spread = false;
    if (bus->service->runner) {
        hw_runner_push_item(bus->service->runner, &slot->item);
        return HOWDAH_OK;
    }
    if (transactional)
        s = hw_service_second_session(bus, reterr);
    if (s < 0) {
        slot->busy = false;
        return s;
    }
    hw_slot_run(slot, bus->store, transactional ? bus->service->tx : NULL, false);
    return hw_slot_end(slot, reterr);
}

/* I4: the one that looks has found something, and is none of those that look any more. */
static void note_spread(hw_shared *shared)
{
    if (!atomic_exchange(&shared->spread, false))
        return;
    for (size_t i = 0; i < shared->slots_n; i++)
        shared->slots[i].spread = shared->slots[i].busy;
    shared->look = true;
}

int hw_shared_pass(howdah_bus *bus, howdah_error *reterr)
{
    int first = HOWDAH_OK;

    for (howdah_subscription *sub = bus->service->shared; sub; sub = sub->next) {
        hw_shared *shared = sub->shared;
        int64_t now = hw_clock_mono_ms();
        hw_slot *slot;
        int s = HOWDAH_OK;

        note_spread(shared);
        if (bus->service->runner)
            extend(bus, shared);
        slot = idle_slot(shared);
        if (slot && now >= shared->trouble_ms && !is_looking(shared) &&
            (shared->look || hw_clock_mono_us() >= shared->look_us))
            s = start(bus, slot, first < 0 ? NULL : reterr);
        first = first < 0 ? first : s;
        if (s == HOWDAH_UNAVAILABLE || s == HOWDAH_READ_ONLY || s == HOWDAH_INTERRUPTED)
            break;
    }
    return first;
}
