/* bindings.c - bindings by queue and pattern, from any process; who serves them is router.c's
 * matter. */
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/queue/queue.h"
#include "bus/subscription/subscription.h"
#include "engine/rules.h"

#define NAME_SIZE 256 /* a subscriber id, with its NUL */
#define HASH_BYTES 16

static const char *const key_names[] = {[HOWDAH_KEY_STREAM] = "stream",
                                        [HOWDAH_KEY_CORRELATION] = "correlation",
                                        [HOWDAH_KEY_NONE] = "none"};

const char *howdah_binding_key_name(howdah_binding_key key)
{
    return (size_t)key < sizeof key_names / sizeof key_names[0] ? key_names[key] : "unknown";
}

static int check(howdah_bus *bus, const char *call, const char *queue, const char *pattern,
                 howdah_error *reterr)
{
    int s = hw_queues_of(bus, call, NULL, reterr);

    if (s >= 0)
        s = hw_rule_queue(hw_str_of(queue), reterr);
    if (s >= 0 && !pattern)
        s = hw_fail(reterr, HOWDAH_MISUSE, "%s: the pattern is NULL", call);
    return s < 0 ? s : hw_rule_pattern(hw_str_of(pattern), reterr);
}

/* "queue:QUEUE:PATTERN"; a pattern has no colon, so no two bindings have one name.  One that would
   be too long is cut, and ends with a hash of the whole. */
static int name_router(const char *queue, const char *pattern, char ret_name[NAME_SIZE],
                       howdah_error *reterr)
{
    char whole[2 * NAME_SIZE + 8];
    uint8_t digest[HW_SHA256_BYTES];
    int len = snprintf(whole, sizeof whole, HW_ROUTER_PREFIX "%s:%s", queue, pattern);
    size_t at;

    if (len < NAME_SIZE) {
        memcpy(ret_name, whole, (size_t)len + 1);
        return HOWDAH_OK;
    }
    if (!hw_sha256(whole, (size_t)len, digest))
        return hw_fail_no_memory(reterr);
    hw_utf8_copy(ret_name, NAME_SIZE - 1 - 2 * HASH_BYTES, whole);
    at = strlen(ret_name);
    ret_name[at++] = ':';
    for (size_t i = 0; i < HASH_BYTES; i++, at += 2)
        (void)snprintf(ret_name + at, NAME_SIZE - at, "%02x", digest[i]);
    return HOWDAH_OK;
}

static int check_options(const howdah_bind_options *o, howdah_error *reterr)
{
    if ((size_t)o->key > HOWDAH_KEY_NONE)
        return hw_fail_field(reterr, HOWDAH_INVALID, "key", "must be stream, correlation or none");
    if (o->start < HOWDAH_FROM_END)
        return hw_fail_field(reterr, HOWDAH_INVALID, "start", "must be a sequence, 0 or more");
    return HOWDAH_OK;
}

int howdah_queue_bind(howdah_bus *bus, const char *queue, const char *pattern,
                      const howdah_bind_options *options, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bind_options own = HOWDAH_BIND_OPTIONS_INIT;
    const howdah_bind_options *o = &own;
    hw_binding binding = {.queue = hw_str_of(queue), .pattern = hw_str_of(pattern)};
    hw_service *service = NULL;
    hw_ranges outstanding = HW_RANGES_INIT;
    char name[NAME_SIZE];
    int64_t high = 0;
    bool made = false;
    int s = hw_enter(&entry, &bus, HW_WRITES | HW_WAITS, "howdah_queue_bind", reterr);

    if (s >= 0)
        s = check(bus, "howdah_queue_bind", queue, pattern, reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_queue_bind", reterr);
    if (s >= 0)
        s = check_options(o, reterr);
    if (s >= 0)
        s = name_router(queue, pattern, name, reterr);
    if (s >= 0)
        s = hw_service_of(bus, &service, reterr);
    if (s >= 0)
        s = hw_subscription_start(bus, o->start, &high, &outstanding, reterr);
    if (s >= 0) {
        binding.key = o->key;
        binding.subscriber_id = hw_str_of(name);
        s = hw_queue_ops_of(bus)->bind(bus->store, &binding, high, outstanding.items, outstanding.n,
                                       &made, reterr);
    }
    hw_ranges_done(&outstanding);
    return s < 0 ? s : made ? HOWDAH_OK : HOWDAH_END;
}

int howdah_queue_unbind(howdah_bus *bus, const char *queue, const char *pattern,
                        howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_unbind", reterr);

    if (s >= 0)
        s = check(bus, "howdah_queue_unbind", queue, pattern, reterr);
    return s < 0 ? s
                 : hw_queue_ops_of(bus)->unbind(bus->store, hw_str_of(queue), hw_str_of(pattern),
                                                reterr);
}

int howdah_binding_replay(howdah_bus *bus, const char *queue, const char *pattern, int64_t to,
                          howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_error err = HOWDAH_ERROR_INIT;
    char name[NAME_SIZE];
    int s = hw_enter(&entry, &bus, HW_WRITES | HW_WAITS, "howdah_binding_replay", reterr);

    if (s >= 0)
        s = check(bus, "howdah_binding_replay", queue, pattern, reterr);
    if (s >= 0)
        s = name_router(queue, pattern, name, reterr);
    if (s < 0)
        return s;
    s = howdah_subscription_reset(bus, name, to, &err);
    if (s == HOWDAH_NOT_FOUND)
        return hw_fail(reterr, s, "%s is not bound to queue %s", pattern, queue);
    if (s < 0)
        hw_error_copy(reterr, &err);
    return s;
}

/* ----------------------------------------------------------------- the list */

typedef struct walk {
    int (*fn)(void *ctx, const howdah_binding_info *info);
    void *ctx;
    int64_t head;
} walk;

static howdah_subscription_state state_of(const hw_binding *binding, int64_t lag)
{
    if (binding->status == HW_SUB_PAUSED)
        return HOWDAH_SUBSCRIPTION_PAUSED;
    if (binding->status == HW_SUB_HALTED)
        return HOWDAH_SUBSCRIPTION_HALTED;
    if (!binding->owner.s)
        return HOWDAH_SUBSCRIPTION_WAITING;
    return lag > 0 ? HOWDAH_SUBSCRIPTION_BEHIND : HOWDAH_SUBSCRIPTION_LIVE;
}

static int on_binding(void *ctx, const hw_binding *binding)
{
    const walk *w = ctx;
    int64_t lag = binding->outstanding + (w->head > binding->high ? w->head - binding->high : 0);
    howdah_binding_info info = {
        .size = sizeof info,
        .queue = binding->queue.s,
        .pattern = binding->pattern.s,
        .key = binding->key,
        .subscriber_id = binding->subscriber_id.s,
        .owner = binding->owner.s ? binding->owner.s : "",
        .state = state_of(binding, lag),
        .reason = binding->reason.s ? binding->reason.s : "",
        .high = binding->high,
        .lag = lag,
        .head = w->head,
        .created_at_us = binding->created_at_us,
    };

    return w->fn(w->ctx, &info);
}

int howdah_bindings_walk(howdah_bus *bus, const char *queue,
                         int (*fn)(void *ctx, const howdah_binding_info *info), void *ctx,
                         howdah_error *reterr)
{
    HW_ENTRY(entry);
    walk w = {.fn = fn, .ctx = ctx};
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_bindings_walk", reterr);

    if (s >= 0)
        s = hw_queues_of(bus, "howdah_bindings_walk", NULL, reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_bindings_walk: fn is NULL");
    if (s >= 0 && queue)
        s = hw_rule_queue(hw_str_of(queue), reterr);
    if (s >= 0)
        s = bus->store->ops->head(bus->store, &w.head, reterr);
    return s < 0 ? s
                 : hw_queue_ops_of(bus)->bindings(bus->store, hw_str_of(queue), on_binding, &w,
                                                  reterr);
}
