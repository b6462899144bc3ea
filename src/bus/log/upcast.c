/* upcast.c - steps from one schema version of a type to the next. */
#include "bus/log/upcast.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "bus/bus.h"
#include "engine/rules.h"

#define MESSAGE_SIZE 501

typedef struct upcast_step {
    char *type;
    int32_t from;
    howdah_upcast_fn fn;
    void *ctx;
} upcast_step;

/*
 * Steps do not change once anybody reads (I3); the counters are atomic because threads share
 * them.
 */
struct hw_upcasts {
    upcast_step *steps; /* by type and version */
    size_t n;
    atomic_int_fast64_t upcast;
    atomic_int_fast64_t taken;
    atomic_int_fast64_t missing;
    atomic_int_fast64_t failed;
};

/* One step under way. */
struct howdah_upcast {
    hw_buf *payload;
    hw_buf *content_type;
    bool given;
    char message[MESSAGE_SIZE];
};

/* ------------------------------------------------------------ registration */

/* Like strcmp() of the types, then by version; the type is a slice with a length. */
static int compare(hw_str type, int32_t from, const upcast_step *step)
{
    int order = strncmp(type.s, step->type, type.len);

    if (order == 0 && step->type[type.len] != '\0')
        order = -1;
    return order != 0 ? order : (from > step->from) - (from < step->from);
}

/* The first step that is not before (type, from). */
static size_t find_place(const hw_upcasts *u, hw_str type, int32_t from)
{
    size_t low = 0;
    size_t high = u->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(type, from, &u->steps[middle]) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const hw_upcasts *u, size_t at, hw_str type, int32_t from)
{
    return at < u->n && compare(type, from, &u->steps[at]) == 0;
}

/* Steps are few and registered at the start, so each one costs a reallocation. */
static int insert(hw_upcasts *u, size_t at, const upcast_step *step, howdah_error *reterr)
{
    upcast_step *steps = hw_realloc(u->steps, (u->n + 1) * sizeof *steps);

    if (!steps)
        return hw_fail_no_memory(reterr);
    u->steps = steps;
    assert(at <= u->n);
    memmove(&steps[at + 1], &steps[at], (u->n - at) * sizeof *steps);
    steps[at] = *step;
    u->n++;
    return HOWDAH_OK;
}

/* Not after the first subscription: threads of a runner read the steps without a lock (I3). */
int howdah_upcast_register(howdah_bus *bus, const char *type, int64_t schema_version,
                           howdah_upcast_fn fn, void *ctx, howdah_error *reterr)
{
    HW_ENTRY(entry);
    upcast_step step = {.fn = fn, .ctx = ctx};
    size_t at;
    int s = hw_enter(&entry, &bus, HW_DRIVES, "howdah_upcast_register", reterr);

    if (s < 0)
        return s;
    if (!type || !fn)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_upcast_register: an argument is NULL");
    if (bus->service)
        return hw_fail(
            reterr, HOWDAH_MISUSE,
            "howdah_upcast_register: the bus has subscriptions already; register before them");
    s = hw_rule_type(hw_str_of(type), reterr);
    if (s >= 0)
        s = hw_rule_schema_version(schema_version, reterr);
    if (s >= 0 && schema_version == INT32_MAX)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "schema_version",
                          "must be below %d: there is no version after it", INT32_MAX);
    if (s >= 0 && !bus->upcasts && !(bus->upcasts = hw_calloc(1, sizeof *bus->upcasts)))
        s = hw_fail_no_memory(reterr);
    if (s < 0)
        return s;
    step.from = (int32_t)schema_version;
    at = find_place(bus->upcasts, hw_str_of(type), step.from);
    if (is_at(bus->upcasts, at, hw_str_of(type), step.from))
        return hw_fail(reterr, HOWDAH_CONFLICT,
                       "howdah_upcast_register: type %s has a step from schema version %d already",
                       type, (int)step.from);
    step.type = hw_strdup(type);
    if (!step.type)
        return hw_fail_no_memory(reterr);
    s = insert(bus->upcasts, at, &step, reterr);
    if (s < 0)
        hw_free(step.type);
    return s;
}

void hw_upcasts_free(hw_upcasts *u)
{
    if (!u)
        return;
    for (size_t i = 0; i < u->n; i++)
        hw_free(u->steps[i].type);
    hw_free(u->steps);
    hw_free(u);
}

/*
 * Does not enter the bus: the counters are atomic, so that a monitor in another thread may ask.
 */
int howdah_upcast_counts_get(const howdah_bus *bus, howdah_upcast_counts *ret_counts)
{
    howdah_upcast_counts counts = HOWDAH_UPCAST_COUNTS_INIT;
    hw_upcasts *u = bus ? bus->upcasts : NULL;

    if (u) {
        counts.upcast = atomic_load(&u->upcast);
        counts.steps = atomic_load(&u->taken);
        counts.missing = atomic_load(&u->missing);
        counts.failed = atomic_load(&u->failed);
    }
    return bus ? hw_sized_give(ret_counts, &counts, sizeof counts) : HOWDAH_MISUSE;
}

/* --------------------------------------------------------- inside a step */

/* The last call counts; an earlier payload and its content type are forgotten. */
void howdah_upcast_set_json(howdah_upcast *output, const char *json, size_t len)
{
    if (!output || (!json && len > 0))
        return; /* no payload is given, which fails the step */
    hw_buf_clear(output->payload);
    hw_buf_clear(output->content_type);
    hw_buf_put(output->payload, json, len);
    output->given = true;
}

void howdah_upcast_set_bytes(howdah_upcast *output, const void *bytes, size_t len,
                             const char *content_type)
{
    howdah_upcast_set_json(output, bytes, len);
    if (output)
        hw_buf_puts(output->content_type, content_type ? content_type : "");
}

/* Returns what the step has to return, so that failing is one statement. */
int howdah_upcast_fail(howdah_upcast *output, const char *message)
{
    if (output)
        (void)snprintf(output->message, sizeof output->message, "%s", message ? message : "");
    return HOWDAH_FAILED;
}

/* ----------------------------------------------------------------- upcasting */

/* Two of each: see take_step(). */
void hw_upcast_event_init(hw_upcast_event *upcast)
{
    for (int i = 0; i < 2; i++) {
        upcast->payload[i] = (hw_buf)HW_BUF_INIT(HW_PAYLOAD_HARD_MAX);
        upcast->content_type[i] = (hw_buf)HW_BUF_INIT(HW_NAME_MAX + 1);
    }
}

void hw_upcast_event_done(hw_upcast_event *upcast)
{
    for (int i = 0; i < 2; i++) {
        hw_buf_done(&upcast->payload[i]);
        hw_buf_done(&upcast->content_type[i]);
    }
}

/* INVALID for whatever went wrong: to the reader the event's schema version cannot be read. */
static int fail_step(hw_upcasts *u, const howdah_event *event, const char *why,
                     howdah_error *reterr)
{
    atomic_fetch_add(&u->failed, 1);
    return hw_fail_field(reterr, HOWDAH_INVALID, "schema_version",
                         "%s, event %lld: the step from version %d has failed: %s", event->type.s,
                         (long long)event->global_sequence, (int)event->schema_version, why);
}

/*
 * The step's payload is checked as if it were appended: a reader must never get what could not be
 * stored.  Only a lack of memory is not the step's fault.
 */
static int check_payload(hw_upcasts *u, const howdah_event *event, const howdah_upcast *output,
                         hw_str data, hw_str content_type, howdah_error *reterr)
{
    howdah_error why = HOWDAH_ERROR_INIT;
    int s = hw_buf_check(output->payload, &why);

    if (s >= 0)
        s = hw_buf_check(output->content_type, &why);
    if (s >= 0)
        s = hw_rule_payload(data, content_type, HW_PAYLOAD_HARD_MAX, &why);
    if (s == HOWDAH_NO_MEMORY)
        return hw_fail_no_memory(reterr);
    return s < 0 ? fail_step(u, event, why.message, reterr) : HOWDAH_OK;
}

/*
 * The step reads from one side and writes to the other, so that its input stays valid while it
 * writes.
 */
static int take_step(hw_upcasts *u, const upcast_step *step, const howdah_event *event,
                     hw_upcast_event *upcast, int side, howdah_error *reterr)
{
    howdah_upcast output = {&upcast->payload[side], &upcast->content_type[side], false, ""};
    hw_str data;
    hw_str content_type = HW_STR_NULL;
    int s;

    assert((side == 0 || side == 1) && step->from == event->schema_version);
    if (step->fn(step->ctx, event, &output) != HOWDAH_OK)
        return fail_step(u, event, output.message[0] ? output.message : "no reason was given",
                         reterr);
    if (!output.given)
        return fail_step(u, event, "it gave no payload", reterr);
    data = (hw_str){hw_buf_str(output.payload), output.payload->len};
    if (output.content_type->len > 0)
        content_type = (hw_str){hw_buf_str(output.content_type), output.content_type->len};
    s = check_payload(u, event, &output, data, content_type, reterr);
    if (s < 0)
        return s;
    upcast->event = *event;
    upcast->event.data = data;
    upcast->event.content_type = content_type;
    upcast->event.schema_version++;
    atomic_fetch_add(&u->taken, 1);
    return HOWDAH_OK;
}

/* Whether a later step of the same type is registered from this place on. */
static bool has_later(const hw_upcasts *u, size_t at, hw_str type)
{
    return at < u->n && strlen(u->steps[at].type) == type.len &&
           memcmp(u->steps[at].type, type.s, type.len) == 0;
}

/*
 * I2.  Steps of a type are neighbours in order of version, so the chain is a walk.  It ends at
 * the newest version, or at a gap: then the event is refused, because code that has later steps
 * expects a newer payload.  An event without a payload of its own passes as it is.
 */
int hw_upcast(hw_upcasts *u, const howdah_event *event, hw_upcast_event *upcast,
              const howdah_event **ret_event, howdah_error *reterr)
{
    const howdah_event *now = event;
    size_t at;

    if (!u || event->purged || event->retracts || event->no_payload || event->broken) {
        *ret_event = event;
        return HOWDAH_OK;
    }
    at = find_place(u, event->type, event->schema_version);
    for (int side = 0; is_at(u, at, event->type, now->schema_version); side = 1 - side, at++) {
        int s = take_step(u, &u->steps[at], now, upcast, side, reterr);

        if (s < 0)
            return s;
        now = &upcast->event;
    }
    if (has_later(u, at, event->type)) {
        atomic_fetch_add(&u->missing, 1);
        return hw_fail_field(reterr, HOWDAH_INVALID, "schema_version",
                             "%s, event %lld: no step is registered from version %d", event->type.s,
                             (long long)event->global_sequence, (int)now->schema_version);
    }
    if (now != event)
        atomic_fetch_add(&u->upcast, 1);
    *ret_event = now;
    return HOWDAH_OK;
}
