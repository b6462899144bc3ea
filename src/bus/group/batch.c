/* batch.c - a batch in a member's hands: its events, and what became of them; see group.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "bus/group/group.h"
#include "bus/log/upcast.h"
#include "engine/rules.h"

#define ERROR_MAX 500

/* ---------------------------------------------------------------- making one */

static void free_batch(howdah_batch *batch)
{
    for (size_t i = 0; batch->upcasts && i < batch->held.n; i++)
        hw_upcast_event_done(&batch->upcasts[i]);
    hw_free(batch->upcasts);
    batch->held.done(&batch->held);
    hw_free(batch->events);
    hw_free(batch->subscriber_id);
    hw_free(batch);
}

static hw_batch_ref ref_of(const howdah_batch *batch)
{
    return (hw_batch_ref){hw_str_of(batch->subscriber_id), hw_str_of(batch->held.token), 0};
}

/* Whether an earlier event of this one's stream was left out. */
static bool waits(const howdah_batch *batch, const bool *left_out, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (left_out[k] && hw_str_equal(batch->held.events[k].stream, batch->held.events[i].stream))
            return true;
    return false;
}

/* One that has no newest form fails as if a handler had refused it. */
static int upcast_one(howdah_batch *batch, size_t i, bool *ret_out, howdah_error *reterr)
{
    const howdah_event *event = &batch->held.events[i];
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_batch_ref ref = ref_of(batch);
    hw_group_fate fate;
    int s =
        hw_upcast(batch->bus->upcasts, event, &batch->upcasts[i], &batch->events[batch->n], &err);

    *ret_out = s < 0;
    if (s >= 0) {
        batch->n++;
        return HOWDAH_OK;
    }
    return hw_group_ops_of(batch->bus)
        ->nack(batch->bus->store, &ref, event->global_sequence, hw_str_of(err.message), -1, &fate,
               reterr);
}

static int upcast_all(howdah_batch *batch, howdah_error *reterr)
{
    bool *left_out = hw_calloc(batch->held.n + 1, sizeof *left_out);
    int s = HOWDAH_OK;

    batch->upcasts = hw_calloc(batch->held.n + 1, sizeof *batch->upcasts);
    if (!left_out || !batch->upcasts) {
        hw_free(left_out);
        return hw_fail_no_memory(reterr);
    }
    for (size_t i = 0; i < batch->held.n; i++)
        hw_upcast_event_init(&batch->upcasts[i]);
    for (size_t i = 0; s >= 0 && i < batch->held.n; i++) {
        left_out[i] = waits(batch, left_out, i);
        if (!left_out[i])
            s = upcast_one(batch, i, &left_out[i], reterr);
    }
    hw_free(left_out);
    return s;
}

int hw_batch_new(howdah_member *member, hw_group_batch *held, howdah_batch **ret_batch,
                 howdah_error *reterr)
{
    howdah_bus *bus = member->bus;
    howdah_batch *batch = hw_calloc(1, sizeof *batch);
    int s = HOWDAH_OK;

    if (!batch) {
        held->done(held);
        return hw_fail_no_memory(reterr);
    }
    *batch = (howdah_batch){.bus = bus, .lease_ms = member->options.lease_ms, .held = *held};
    batch->subscriber_id = hw_strdup(member->options.subscriber_id);
    batch->events = hw_calloc(held->n + 1, sizeof *batch->events);
    if (!batch->subscriber_id || !batch->events)
        s = hw_fail_no_memory(reterr);
    if (s >= 0 && bus->upcasts)
        s = upcast_all(batch, reterr);
    for (size_t i = 0; s >= 0 && !bus->upcasts && i < held->n; i++)
        batch->events[batch->n++] = &batch->held.events[i];
    if (s >= 0 && batch->n == 0) {
        hw_batch_ref ref = ref_of(batch);

        s = hw_group_ops_of(bus)->ack(bus->store, &ref, INT64_MAX, reterr);
        if (s >= 0)
            s = HOWDAH_END;
    }
    if (s == HOWDAH_OK)
        *ret_batch = batch;
    else
        free_batch(batch);
    return s;
}

/* ------------------------------------------------------------------- looking */

size_t howdah_batch_size(const howdah_batch *batch)
{
    return batch ? batch->n : 0;
}

const howdah_event *howdah_batch_event(const howdah_batch *batch, size_t i)
{
    return batch && i < batch->n ? batch->events[i] : NULL;
}

const char *howdah_batch_token(const howdah_batch *batch)
{
    return batch ? batch->held.token : NULL;
}

int howdah_batch_attempt(const howdah_batch *batch)
{
    return batch ? (int)batch->held.attempt : 0;
}

void howdah_batch_free(howdah_batch *batch)
{
    if (batch)
        free_batch(batch);
}

/* -------------------------------------------------------- what became of them */

/* *bus is the one to use: in a handler, a side of the batch's own. */
static int enter(hw_entry *entry, const howdah_batch *batch, const char *call, howdah_bus **bus,
                 howdah_error *reterr)
{
    if (!batch)
        return hw_fail(reterr, HOWDAH_MISUSE, "%s: the batch is NULL", call);
    *bus = batch->bus;
    return hw_enter(entry, bus, HW_WRITES, call, reterr);
}

static int ack(howdah_batch *batch, int64_t upto, const char *call, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = NULL;
    hw_batch_ref ref;
    int s = enter(&entry, batch, call, &bus, reterr);

    if (s < 0 || batch->over)
        return s;
    ref = ref_of(batch);
    return hw_group_ops_of(bus)->ack(bus->store, &ref, upto, reterr);
}

int howdah_batch_ack(howdah_batch *batch, howdah_error *reterr)
{
    return ack(batch, INT64_MAX, "howdah_batch_ack", reterr);
}

int howdah_batch_ack_upto(howdah_batch *batch, int64_t global_sequence, howdah_error *reterr)
{
    return ack(batch, global_sequence, "howdah_batch_ack_upto", reterr);
}

int howdah_batch_nack(howdah_batch *batch, int64_t global_sequence, const char *error,
                      int64_t retry_after_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = NULL;
    char text[ERROR_MAX + 1];
    hw_group_fate fate;
    hw_batch_ref ref;
    int s = enter(&entry, batch, "howdah_batch_nack", &bus, reterr);

    if (s >= 0 && retry_after_ms != -1)
        s = hw_rule_delay("retry_after", retry_after_ms, reterr);
    if (s < 0 || batch->over) /* this one waits for the one that has failed */
        return s;
    hw_utf8_copy(text, sizeof text, error ? error : "");
    ref = ref_of(batch);
    s = hw_group_ops_of(bus)->nack(bus->store, &ref, global_sequence, hw_str_of(text),
                                   retry_after_ms, &fate, reterr);
    batch->over = s >= 0 && hw_batch_ends_with_nack(batch->held.token);
    return s;
}

int howdah_batch_extend(howdah_batch *batch, int64_t lease_ms, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = NULL;
    hw_batch_ref ref;
    int s = enter(&entry, batch, "howdah_batch_extend", &bus, reterr);

    if (s < 0)
        return s;
    if (lease_ms < 0 || lease_ms > INT64_C(24) * 3600 * 1000)
        return hw_fail_field(reterr, HOWDAH_INVALID, "lease",
                             "must be 1 ms to 24 hours, not %lld ms", (long long)lease_ms);
    ref = ref_of(batch);
    return hw_group_ops_of(bus)->extend(bus->store, &ref, lease_ms > 0 ? lease_ms : batch->lease_ms,
                                        reterr);
}

int howdah_batch_release(howdah_batch *batch, howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_bus *bus = NULL;
    hw_batch_ref ref;
    int s = enter(&entry, batch, "howdah_batch_release", &bus, reterr);

    if (s < 0 || batch->over)
        return s;
    ref = ref_of(batch);
    return hw_group_ops_of(bus)->release(bus->store, &ref, reterr);
}

/* ------------------------------------------------------------------- operate */

int howdah_members_walk(howdah_bus *bus, const char *subscriber_id,
                        int (*fn)(void *ctx, const howdah_member_info *info), void *ctx,
                        howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_members_walk", reterr);

    if (s < 0)
        return s;
    if (!fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_members_walk: an argument is NULL");
    s = hw_rule_name("subscriber_id", hw_str_of(subscriber_id), reterr);
    if (s >= 0)
        s = hw_groups_of(bus, "howdah_members_walk", reterr);
    return s < 0 ? s
                 : hw_group_ops_of(bus)->members(bus->store, hw_str_of(subscriber_id), fn, ctx,
                                                 reterr);
}

int howdah_subscription_unshare(howdah_bus *bus, const char *subscriber_id, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_subscription_unshare", reterr);

    if (s >= 0)
        s = hw_rule_name("subscriber_id", hw_str_of(subscriber_id), reterr);
    if (s >= 0)
        s = hw_groups_of(bus, "howdah_subscription_unshare", reterr);
    return s < 0 ? s : hw_group_ops_of(bus)->unshare(bus->store, hw_str_of(subscriber_id), reterr);
}
