/*
 * router.c - the routers of bindings: subscriptions that make jobs instead of calling a handler.
 *
 *   I1  A page becomes jobs by one operation of the store, which moves the checkpoint as well: what
 *       is stored has its jobs, each once.
 *   I2  In memory the page counts as handled before it is stored.  So whatever goes wrong with that
 *       throws the state away, and what is stored is loaded again: a page that was stored after all
 *       is not offered a second time, and one that was not is.
 *   I3  The bindings are compared before a router becomes the owner of its subscription.  To unbind
 *       takes the token away: nobody routes by what a binding was.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"
#include "engine/pattern.h"
#include "engine/rules.h"

/* Bindings are made by people, or at the start of a program: a second is soon enough. */
#define REFRESH_EVERY_MS 1000
#define ROUTE_BATCH 1000
/* Where the store has leases instead of locks, this is how long nobody routes after a crash. */
#define ROUTE_LEASE_MS 3000
/* Events that do not match make no jobs; its place is stored this often for their sake. */
#define ROUTE_DELAY_MS 200

void hw_route_free(hw_route *route)
{
    if (route)
        hw_free(route->queue);
    hw_free(route);
}

/* ------------------------------------------------------------------ a page */

/* One page on its way: the numbers that become jobs, in order. */
typedef struct routing {
    howdah_subscription *sub;
    int64_t *sequences;
    size_t n;
    int64_t now_ms;
} routing;

static int offer(const routing *r, const howdah_event *event, hw_offer *ret_offer,
                 howdah_error *reterr)
{
    howdah_subscription *sub = r->sub;

    return hw_delivery_offer(&sub->d, event->global_sequence, event->stream,
                             hw_filter_lets(&sub->filter, event), r->now_ms, ret_offer, reterr);
}

static int pass(const routing *r, int64_t upto, howdah_error *reterr)
{
    const hw_page *page = r->sub->work.page;

    return hw_delivery_pass(&r->sub->d, upto, page->holes, page->holes_n, r->now_ms, reterr);
}

/* The event becomes a job.  It counts as handled before it is stored (I2). */
static int collect(routing *r, const howdah_event *event, howdah_error *reterr)
{
    assert(r->n < r->sub->work.page->n);
    r->sequences[r->n++] = event->global_sequence;
    return hw_delivery_handled(&r->sub->d, event->global_sequence, r->now_ms, reterr);
}

/* As far as the engine accepts it; see deliver.c for why a row is offered twice. */
static int offer_page(routing *r, howdah_error *reterr)
{
    howdah_subscription *sub = r->sub;
    int s = HOWDAH_OK;

    for (; s >= 0 && sub->work.at < sub->work.page->n; sub->work.at++) {
        const howdah_event *event = &sub->work.page->events[sub->work.at];
        hw_offer verdict = HW_OFFER_SKIP;

        if (hw_stands_still(sub, event->global_sequence))
            continue;
        s = offer(r, event, &verdict, reterr);
        if (s >= 0 && verdict == HW_OFFER_WAIT) {
            s = pass(r, event->global_sequence - 1, reterr);
            if (s >= 0)
                s = offer(r, event, &verdict, reterr);
        }
        if (s >= 0 && verdict == HW_OFFER_WAIT) {
            hw_sub_work_end_as(sub, HW_END_WAITING);
            return HOWDAH_OK;
        }
        if (s >= 0 && verdict == HW_OFFER_DELIVER)
            s = collect(r, event, reterr);
        if (s >= 0)
            hw_stand_on(sub, &(hw_anchor){event->global_sequence, event->id});
    }
    if (s >= 0)
        s = pass(r, sub->work.page->upto, reterr);
    if (s < 0)
        return s;
    hw_stand_on(sub, &sub->work.page->anchor);
    hw_sub_work_end_as(sub, HW_END_PASSED);
    return HOWDAH_OK;
}

/* I1.  Only sequences are sent: the store makes the jobs from its own events, so payloads do not
   travel.  A page without jobs needs no statement; its checkpoint is stored when it is due. */
static int store_page(const routing *r, hw_store *io, howdah_error *reterr)
{
    howdah_subscription *sub = r->sub;
    hw_ranges outstanding = HW_RANGES_INIT;
    hw_checkpoint checkpoint;
    int s;

    if (r->n == 0)
        return HOWDAH_OK;
    s = hw_deliver_checkpoint(sub, &outstanding, &checkpoint, reterr);
    HW_FAULT_POINT("route.before_store");
    if (s >= 0)
        s = io->ops->queue->route(io, &checkpoint, hw_str_of(sub->route->queue), sub->route->key,
                                  r->sequences, r->n, reterr);
    HW_FAULT_POINT("route.after_store");
    hw_ranges_done(&outstanding);
    if (s < 0)
        return s;
    hw_delivery_checkpointed(&sub->d);
    hw_place_stored(sub);
    sub->delivered += (int64_t)r->n;
    sub->work.delivered += (int64_t)r->n;
    return HOWDAH_OK;
}

/* Called in the place of a handler's run (hw_deliver_run()), in whatever thread that is. */
void hw_route_run(howdah_subscription *sub, hw_store *io)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    routing r = {.sub = sub,
                 .sequences = hw_calloc(sub->work.page->n + 1, sizeof *r.sequences),
                 .now_ms = hw_clock_mono_ms()};
    int s;

    assert(sub->kind == HW_KIND_ROUTER && sub->work.kind == HW_WORK_PAGE);
    s = r.sequences ? offer_page(&r, &err) : hw_fail_no_memory(&err);
    if (s >= 0)
        s = store_page(&r, io, &err);
    hw_free(r.sequences);
    if (s >= 0)
        return;
    /* I2 */
    hw_sub_work_end_as(sub, HW_END_RELOAD);
    hw_delivery_checkpointed(&sub->d); /* nobody stores this state */
    if (s == HOWDAH_LOST || (err.flags & HOWDAH_OUTCOME_UNKNOWN)) {
        hw_log(HOWDAH_LOG_WARN, "subscription %s starts again from its stored place: %s", sub->id,
               err.message);
        return;
    }
    sub->work.failed = s;
    hw_error_copy(&sub->work.error, &err);
}

/* ------------------------------------------------------------ whose it is */

/* For hw_route_refuse(): which binding a subscription belongs to. */
typedef struct lookup {
    hw_str subscriber_id;
    char binding[600]; /* "QUEUE PATTERN" */
} lookup;

/* Which binding the subscription belongs to, for the advice in the error. */
static int on_asked(void *ctx, const hw_binding *binding)
{
    lookup *q = ctx;

    if (!hw_str_equal(binding->subscriber_id, q->subscriber_id))
        return 0;
    (void)snprintf(q->binding, sizeof q->binding, "%s %s", binding->queue.s, binding->pattern.s);
    return 1;
}

/* Only names with the routers' prefix are looked up: no other subscription pays for this. */
int hw_route_refuse(howdah_bus *bus, const char *subscriber_id, howdah_error *reterr)
{
    lookup q = {.subscriber_id = hw_str_of(subscriber_id)};
    int s;

    if (strncmp(subscriber_id, HW_ROUTER_PREFIX, strlen(HW_ROUTER_PREFIX)) != 0 ||
        !hw_queue_ops_of(bus))
        return HOWDAH_OK;
    /* A user without rights on the queues is not told. */
    s = hw_queue_ops_of(bus)->bindings(bus->store, HW_STR_NULL, on_asked, &q, NULL);
    if (s < 0 || !q.binding[0])
        return HOWDAH_OK;
    s = hw_fail(reterr, HOWDAH_CONFLICT, "subscription %.200s belongs to a binding", subscriber_id);
    return hw_advise(reterr, s, "howdah unbind %.200s", q.binding);
}

/* ----------------------------------------------------- bindings come and go */

/* For on_binding(); status and reterr carry an error out of the walk. */
typedef struct refreshing {
    howdah_bus *bus;
    int status;
    howdah_error *reterr;
} refreshing;

/* A subscription has to have a handler; a router's pages go to hw_route_run() instead. */
static int never_called(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    return howdah_delivery_fail(delivery, "a router has no handler");
}

/* Its row was made when the pattern was bound; here is only what serves it. */
static int new_router(howdah_bus *bus, const hw_binding *binding, howdah_subscription **ret_sub,
                      howdah_error *reterr)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    hw_route *route = hw_calloc(1, sizeof *route);
    howdah_subscription *sub = NULL;
    int s;

    o.subscriber_id = binding->subscriber_id.s;
    o.pattern = binding->pattern.s;
    o.handler = never_called;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    o.max_delay_ms = ROUTE_DELAY_MS;
    o.catch_up_batch = ROUTE_BATCH;
    o.lease_ms = ROUTE_LEASE_MS;
    if (route)
        route->queue = hw_strndup(binding->queue.s, binding->queue.len);
    s = route && route->queue ? hw_subscription_new(bus, &o, &sub, reterr)
                              : hw_fail_no_memory(reterr);
    if (s < 0) {
        hw_route_free(route);
        return s;
    }
    assert(!sub->route && sub->kind == HW_KIND_HANDLER);
    route->key = binding->key;
    route->created_at_us = binding->created_at_us;
    route->bound = true;
    sub->route = route;
    sub->kind = HW_KIND_ROUTER;
    *ret_sub = sub;
    return HOWDAH_OK;
}

/* A binding that was removed and made again has the same name, but another time: its router is
   made anew (I3). */
static bool is_router_of(const howdah_subscription *sub, const hw_binding *binding)
{
    return sub->kind == HW_KIND_ROUTER && strcmp(sub->id, binding->subscriber_id.s) == 0 &&
           sub->route->created_at_us == binding->created_at_us && sub->route->key == binding->key;
}

/* A binding has its router already, or gets one now, at the end of the list. */
static int on_binding(void *ctx, const hw_binding *binding)
{
    refreshing *r = ctx;
    howdah_subscription **end;

    for (end = &r->bus->service->subs; *end; end = &(*end)->next) {
        if (is_router_of(*end, binding)) {
            (*end)->route->bound = true;
            return 0;
        }
    }
    r->status = new_router(r->bus, binding, end, r->reterr);
    r->bus->service->relisten = true;
    return r->status < 0;
}

/* Their bindings are gone.  One that a worker has in hand is let go in a later pass, when it is
   back. */
static void drop_unbound(howdah_bus *bus)
{
    howdah_subscription **at = &bus->service->subs;

    while (*at) {
        howdah_subscription *sub = *at;

        if (sub->kind != HW_KIND_ROUTER || sub->route->bound || hw_sub_is_busy(sub)) {
            at = &sub->next;
            continue;
        }
        if (hw_service_let_go(sub, NULL) < 0)
            hw_service_unlock(sub);
        *at = sub->next;
        hw_subscription_free(sub);
        bus->service->relisten = true;
    }
}

/* I3: it is time, or a router is about to become an owner. */
static bool is_due(const hw_service *service, int64_t now)
{
    for (const howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        if (sub->kind == HW_KIND_ROUTER && hw_sub_state_of(sub) == HW_STATE_OUT &&
            now >= sub->schedule.take_ms)
            return true;
    }
    return now >= service->routes_ms;
}

/* Marks and sweeps: every router that no binding claims any more is dropped.  After an error
   nothing is dropped, because the walk may have been cut short. */
int hw_route_refresh(howdah_bus *bus, howdah_error *reterr)
{
    hw_service *service = bus->service;
    refreshing r = {.bus = bus, .reterr = reterr};
    int64_t now = hw_clock_mono_ms();
    int s;

    if (!is_due(service, now))
        return HOWDAH_OK;
    for (howdah_subscription *sub = service->subs; sub; sub = sub->next) {
        if (sub->kind == HW_KIND_ROUTER)
            sub->route->bound = false;
    }
    s = bus->store->ops->queue->bindings(bus->store, hw_str_of(service->routes_queue), on_binding,
                                         &r, reterr);
    s = s < 0 ? s : r.status;
    if (s < 0)
        return s;
    drop_unbound(bus);
    service->routes_ms = now + REFRESH_EVERY_MS;
    return HOWDAH_OK;
}

/* Nothing is routed here yet: the first pass that serves the bus looks for bindings. */
int howdah_bindings_serve(howdah_bus *bus, const char *queue, howdah_error *reterr)
{
    HW_ENTRY(entry);
    hw_service *service = NULL;
    char *copy = NULL;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_bindings_serve", reterr);

    if (s >= 0)
        s = hw_queues_of(bus, "howdah_bindings_serve", NULL, reterr);
    if (s >= 0 && queue)
        s = hw_rule_queue(hw_str_of(queue), reterr);
    if (s >= 0)
        s = hw_service_of(bus, &service, reterr);
    if (s >= 0 && queue && !(copy = hw_strdup(queue)))
        s = hw_fail_no_memory(reterr);
    if (s < 0)
        return s;
    hw_free(service->routes_queue);
    service->routes_queue = copy;
    service->routes = true;
    service->routes_ms = 0;
    return HOWDAH_OK;
}
