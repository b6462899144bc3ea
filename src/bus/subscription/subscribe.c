/* subscribe.c - subscribing, unsubscribing, and what a handler and a user can ask. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/group/group.h"
#include "bus/subscription/subscription.h"
#include "engine/rules.h"

/* ---------------------------------------------------------------- options */

/* Limits that no setting of sense reaches: they keep arithmetic on these numbers from
   overflowing, and typing errors from becoming waits of years. */
static int check_numbers(const howdah_subscribe_options *o, howdah_error *reterr)
{
    const int64_t day_ms = INT64_C(24) * 3600 * 1000;
    const hw_number_rule rules[] = {
        {"start", o->start, HOWDAH_FROM_END, INT64_MAX - 1, ""},
        {"instance", (int64_t)o->instance, 0, HOWDAH_INSTANCE_SHARED, ""},
        {"checkpoint", (int64_t)o->checkpoint, 0, HOWDAH_CHECKPOINT_TRANSACTIONAL, ""},
        {"batch_size", o->batch_size, 1, 1000000, ""},
        {"max_delay", o->max_delay_ms, 1, day_ms, " ms"},
        {"max_retries", o->max_retries, 0, 1000, ""},
        {"retry_delay", o->retry_delay_ms, 0, day_ms, " ms"},
        {"max_retry_delay", o->max_retry_delay_ms, 0, day_ms, " ms"},
        {"on_fail", (int64_t)o->on_fail, 0,
         o->instance == HOWDAH_INSTANCE_SHARED ? HOWDAH_FAIL_HOLD : HOWDAH_FAIL_CLOSED, ""},
        {"ordering", (int64_t)o->ordering, 0, HOWDAH_ORDERING_STRICT, ""},
        {"gap_policy", (int64_t)o->gap_policy, 0, HOWDAH_GAP_TIMEOUT, ""},
        {"gap_timeout", o->gap_timeout_ms, 1, day_ms, " ms"},
        {"catch_up_batch", o->catch_up_batch, 1,
         o->instance == HOWDAH_INSTANCE_SHARED ? HOWDAH_BATCH_MAX : 100000, ""},
        {"outstanding_max", o->outstanding_max, 1, 1000000, ""},
        {"lease", o->lease_ms, 500, day_ms, " ms"},
        {"concurrency", o->concurrency, 1, 1024, ""},
    };

    return hw_rule_numbers(rules, sizeof rules / sizeof *rules, reterr);
}

/* Options come from outside, so everything about them is checked before the store is asked. */
static int check(const howdah_subscribe_options *o, howdah_error *reterr)
{
    int s;

    if (!o->handler)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_subscribe: the handler is NULL");
    s = hw_rule_name("subscriber_id", hw_str_of(o->subscriber_id), reterr);
    if (s >= 0 && o->pattern)
        s = hw_rule_pattern(hw_str_of(o->pattern), reterr);
    if (s >= 0 && o->stream)
        s = hw_rule_stream(hw_str_of(o->stream), reterr);
    return s < 0 ? s : check_numbers(o, reterr);
}

/* What the engine has to know.  It gets numbers, not options: it knows nothing of the bus. */
static hw_delivery_config config_of(const howdah_subscribe_options *o)
{
    return (hw_delivery_config){
        .ordering = o->ordering,
        .gap_policy = o->gap_policy,
        .gap_timeout_ms = o->gap_timeout_ms,
        .mode = o->checkpoint,
        .batch_size = o->batch_size,
        .max_delay_ms = o->max_delay_ms,
        .max_retries = (unsigned)o->max_retries,
        .retry_delay_ms = o->retry_delay_ms,
        .max_retry_delay_ms = o->max_retry_delay_ms,
        .jitter_percent = 10,
        .fail_closed = o->on_fail == HOWDAH_FAIL_CLOSED,
        .outstanding_max = (size_t)o->outstanding_max,
    };
}

/* ------------------------------------------------------------- subscribing */

/* Its page and its stream were dropped before: hw_service_let_go(), or hw_service_drop_page() for
   a tail. */
void hw_subscription_free(howdah_subscription *sub)
{
    if (!sub)
        return;
    assert(!hw_sub_is_busy(sub) && !sub->work.page && !sub->reading.stream);
    hw_delivery_done(&sub->d);
    hw_still_drop(sub->place.still);
    hw_free(sub->id);
    hw_free(sub->pattern);
    hw_free(sub->stream_name);
    hw_upcast_event_done(&sub->work.upcast);
    hw_route_free(sub->route);
    hw_shared_free(sub->shared);
    hw_free(sub);
}

/* All texts are copied: the caller's options may be gone when the call returns. */
int hw_subscription_new(howdah_bus *bus, const howdah_subscribe_options *o,
                        howdah_subscription **ret_sub, howdah_error *reterr)
{
    howdah_subscription *sub = hw_calloc(1, sizeof *sub);
    hw_delivery_config config = config_of(o);

    if (!sub)
        return hw_fail_no_memory(reterr);
    sub->bus = bus;
    sub->item.owner = sub;
    sub->options = *o;
    hw_delivery_init(&sub->d, &config);
    sub->id = hw_strdup(o->subscriber_id);
    hw_upcast_event_init(&sub->work.upcast);
    sub->pattern = o->pattern ? hw_strdup(o->pattern) : NULL;
    sub->stream_name = o->stream ? hw_strdup(o->stream) : NULL;
    if (!sub->id || (o->pattern && !sub->pattern) || (o->stream && !sub->stream_name)) {
        hw_subscription_free(sub);
        return hw_fail_no_memory(reterr);
    }
    sub->options.subscriber_id = sub->id;
    sub->options.pattern = sub->pattern;
    sub->options.stream = sub->stream_name;
    sub->filter = (hw_filter){.pattern = hw_str_of(sub->pattern),
                              .stream = hw_str_of(sub->stream_name),
                              .originals = o->originals_only};
    sub->work.error = (howdah_error)HOWDAH_ERROR_INIT;
    *ret_sub = sub;
    return HOWDAH_OK;
}

/* A place that the log has not reached is a mistake, as it is for a reset: the subscription would
   skip the events up to there when they come. */
static int check_start(howdah_bus *bus, int64_t start, howdah_error *reterr)
{
    int64_t head = 0;
    int s = bus->store->ops->head(bus->store, &head, reterr);

    if (s >= 0 && start > head)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "start", "is beyond the log's head, %lld",
                          (long long)head);
    return s;
}

/* The place that "start" means: a number, or the end with what may still appear below it. */
int hw_subscription_start(howdah_bus *bus, int64_t start, int64_t *ret_high,
                          hw_ranges *ret_outstanding, howdah_error *reterr)
{
    if (start == HOWDAH_FROM_END)
        return hw_log_reader_end(bus, ret_high, ret_outstanding, reterr);
    *ret_high = start;
    return start > 0 ? check_start(bus, start, reterr) : HOWDAH_OK;
}

/* Only whether there is a row is asked, and whether it is shared. */
static int note_shared(void *ctx, const hw_sub_row *row)
{
    *(bool *)ctx = row->shared;
    return 0;
}

/* Creates the row.  A row that is there keeps its place, whatever start says: then the start is
   not even looked for, since the end of the log is dear to find. */
static int store_row(const howdah_subscription *sub, howdah_error *reterr)
{
    howdah_bus *bus = sub->bus;
    hw_ranges outstanding = HW_RANGES_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t high = 0;
    bool shared = false;
    int s = hw_sub_ops_of(bus)->load(bus->store, hw_str_of(sub->id), note_shared, &shared, &err);

    if (shared) {
        s = hw_fail(reterr, HOWDAH_CONFLICT, "the subscription %s is shared", sub->id);
        return hw_advise(reterr, s,
                         "join it as a member, or make it one of a single process first:"
                         " howdah sub unshare");
    }
    if (s == HOWDAH_NOT_FOUND)
        s = hw_subscription_start(bus, sub->options.start, &high, &outstanding, reterr);
    else if (s < 0)
        hw_error_copy(reterr, &err);
    if (s >= 0)
        s = bus->store->ops->subs->create(bus->store, hw_str_of(sub->id), &sub->filter, high,
                                          outstanding.items, outstanding.n, NULL, reterr);
    hw_ranges_done(&outstanding);
    return s;
}

/* Joins, or makes, the group. */
static int share(howdah_subscription *sub, howdah_error *reterr)
{
    const howdah_subscribe_options *o = &sub->options;
    howdah_member_options m = HOWDAH_MEMBER_OPTIONS_INIT;
    bool created = false;
    int s;

    m.subscriber_id = o->subscriber_id;
    m.max_events = o->catch_up_batch;
    m.lease_ms = o->lease_ms;
    m.pattern = o->pattern;
    m.stream = o->stream;
    m.originals_only = o->originals_only;
    m.start = o->start;
    m.key = o->key;
    m.on_fail = o->on_fail;
    m.max_retries = o->max_retries;
    m.retry_delay_ms = o->retry_delay_ms;
    m.max_retry_delay_ms = o->max_retry_delay_ms;
    m.ordering = o->ordering;
    m.gap_policy = o->gap_policy;
    m.gap_timeout_ms = o->gap_timeout_ms;
    while (m.lanes < 2 * o->concurrency && m.lanes < 1024)
        m.lanes *= 2;
    s = hw_group_join(sub->bus, &m, &created, reterr);
    return s < 0 ? s : hw_shared_new(sub, reterr);
}

/* Where it stands in its list: it is there already (CONFLICT), or its end. */
static int find_end(howdah_subscription **list, const char *id, howdah_subscription ***ret_end,
                    howdah_error *reterr)
{
    for (*ret_end = list; **ret_end; *ret_end = &(**ret_end)->next)
        if (strcmp((**ret_end)->id, id) == 0)
            return hw_fail(reterr, HOWDAH_CONFLICT,
                           "subscriber_id: \"%.64s\" is subscribed on this bus already", id);
    return HOWDAH_OK;
}

/* Only the row is made here.  The ownership is tried for by the first pass that serves the bus. */
int howdah_subscribe(howdah_bus *bus, const howdah_subscribe_options *options,
                     howdah_subscription **ret_subscription, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_subscribe_options own = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    hw_service *service = NULL;
    howdah_subscription *sub = NULL;
    howdah_subscription **end;
    bool shared;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_subscribe", reterr);

    if (s < 0)
        return s;
    if (!options || !ret_subscription)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_subscribe: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_subscribe", reterr);
    options = &own;
    if (s >= 0)
        s = check(options, reterr);
    if (s >= 0)
        s = hw_route_refuse(bus, options->subscriber_id, reterr);
    if (s >= 0)
        s = hw_service_of(bus, &service, reterr);
    if (s < 0)
        return s;
    shared = options->instance == HOWDAH_INSTANCE_SHARED;
    s = find_end(shared ? &service->subs : &service->shared, options->subscriber_id, &end, reterr);
    if (s >= 0)
        s = find_end(shared ? &service->shared : &service->subs, options->subscriber_id, &end,
                     reterr);
    if (s >= 0)
        s = hw_subscription_new(bus, options, &sub, reterr);
    if (s < 0)
        return s;
    s = shared ? share(sub, reterr) : store_row(sub, reterr);
    if (s < 0) {
        hw_subscription_free(sub);
        return s;
    }
    *end = sub;
    service->relisten = true;
    *ret_subscription = sub;
    return HOWDAH_OK;
}

/* It leaves the list and is freed even if the store could not be told: the lease or the session's
   end frees the ownership then. */
int hw_unsubscribe(howdah_subscription *subscription, howdah_error *reterr)
{
    hw_service *service = subscription->bus->service;
    howdah_subscription **at = subscription->shared ? &service->shared : &service->subs;
    int s = subscription->shared ? hw_shared_let_go(subscription->shared, reterr)
                                 : hw_service_let_go(subscription, reterr);

    for (; *at != subscription; at = &(*at)->next)
        assert(*at);
    *at = subscription->next;
    subscription->bus->service->relisten = true;
    hw_subscription_free(subscription);
    return s;
}

int howdah_unsubscribe(howdah_subscription *subscription, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = subscription ? subscription->bus : NULL;
    int s;

    if (!subscription)
        return HOWDAH_OK;
    s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_unsubscribe", reterr);
    return s < 0 ? s : hw_unsubscribe(subscription, reterr);
}

/* ------------------------------------------------------------- a delivery */

const char *howdah_delivery_subscriber(const howdah_delivery *delivery)
{
    return delivery ? delivery->sub->id : "";
}

int howdah_delivery_attempt(const howdah_delivery *delivery)
{
    return delivery ? delivery->attempt : 0;
}

bool howdah_delivery_is_redrive(const howdah_delivery *delivery)
{
    return delivery && delivery->redrive;
}

/* Cut to the message's room between characters; the result is for the handler to return. */
int howdah_delivery_fail(howdah_delivery *delivery, const char *message)
{
    if (delivery && message)
        hw_utf8_copy(delivery->message, sizeof delivery->message, message);
    return HOWDAH_NOT_HANDLED;
}

/* -------------------------------------------------------------------- info */

/*
 * As its own handler, or the thread that serves it, sees it.  A worker's thread must not look at
 * the reader, so with a runner the head is the one that was copied when the work was handed out.
 */
static howdah_subscription_info info_of(const howdah_subscription *subscription)
{
    static const howdah_subscription_state states[] = {
        [HW_STATE_OUT] = HOWDAH_SUBSCRIPTION_WAITING,
        [HW_STATE_TAKEN] = HOWDAH_SUBSCRIPTION_BEHIND,
        [HW_STATE_CATCHING_UP] = HOWDAH_SUBSCRIPTION_BEHIND,
        [HW_STATE_LIVE] = HOWDAH_SUBSCRIPTION_LIVE,
        [HW_STATE_PAUSED] = HOWDAH_SUBSCRIPTION_PAUSED,
        [HW_STATE_HALTED] = HOWDAH_SUBSCRIPTION_HALTED,
        [HW_STATE_ENDED] = HOWDAH_SUBSCRIPTION_HALTED,
    };
    _Static_assert(sizeof states / sizeof states[0] == HW_STATES, "each state has a public one");
    hw_sub_state state = hw_sub_state_of(subscription);
    const hw_delivery *d = &subscription->d;
    const hw_service *service = subscription->bus->service;
    int64_t known = service->runner           ? subscription->head
                    : service->reader.started ? service->reader.frontier.high
                                              : 0;
    const hw_ranges *still = hw_still_ranges(subscription->place.still);
    int64_t head = known > d->high ? known : d->high;
    int64_t contiguous = hw_delivery_contiguous(d);

    if (still->n > 0 && still->items[0].first <= contiguous)
        contiguous = still->items[0].first - 1;
    return (howdah_subscription_info){
        .size = sizeof(howdah_subscription_info),
        .subscriber_id = subscription->id,
        .pattern = subscription->pattern,
        .stream = subscription->stream_name,
        .originals_only = subscription->filter.originals,
        .state = states[state],
        .reason = subscription->reason,
        .owner = state == HW_STATE_OUT ? "" : subscription->bus->service->owner,
        .token = subscription->ownership.token,
        .high = d->high,
        .contiguous = contiguous,
        .holes = (const int64_t *)d->missing.items,
        .holes_n = d->missing.n,
        .head = head,
        .lag = head - d->high + hw_ranges_count(&d->missing) + hw_ranges_count(&d->pending),
        .delivered = subscription->delivered,
        .updated_at_us = HOWDAH_NO_TIME,
        .lag_age_ms = HOWDAH_ABSENT,
    };
}

/* Where the group stands only the store knows: howdah_subscriptions_walk(). */
static howdah_subscription_info shared_info_of(const howdah_subscription *subscription)
{
    static const howdah_subscription_state states[] = {
        [HW_SUB_ACTIVE] = HOWDAH_SUBSCRIPTION_LIVE,
        [HW_SUB_PAUSED] = HOWDAH_SUBSCRIPTION_PAUSED,
        [HW_SUB_HALTED] = HOWDAH_SUBSCRIPTION_HALTED,
    };

    return (howdah_subscription_info){
        .size = sizeof(howdah_subscription_info),
        .subscriber_id = subscription->id,
        .pattern = subscription->pattern,
        .stream = subscription->stream_name,
        .originals_only = subscription->filter.originals,
        .state = states[subscription->shared->status],
        .reason = subscription->reason,
        .owner = subscription->shared->member,
        .delivered = subscription->delivered,
        .updated_at_us = HOWDAH_NO_TIME,
        .lag_age_ms = HOWDAH_ABSENT,
        .shared = true,
    };
}

/*
 * A handler may ask about its own subscription without entering the bus: its thread has the work.
 */
int howdah_subscription_info_get(const howdah_subscription *subscription,
                                 howdah_subscription_info *ret_info)
{
    HW_ENTRY(entry);
    howdah_bus *bus = subscription ? subscription->bus : NULL;
    howdah_subscription_info info;

    if (!subscription ||
        (!hw_handling_is_about(subscription) &&
         hw_enter(&entry, &bus, HW_ITSELF, "howdah_subscription_info_get", NULL) < 0))
        return HOWDAH_MISUSE;
    info = subscription->shared ? shared_info_of(subscription) : info_of(subscription);
    return hw_sized_give(ret_info, &info, sizeof info);
}
