/*
 * append.c - events come in: one, a list, or lines; as our own JSON or as CloudEvents.
 *
 *   I1  The events of one request are stored together or not at all, and in their order.
 *   I2  A payload goes to the store as it came, byte by byte.
 *   I3  A request that is repeated stores nothing twice: an event's id is its own, or made of the
 *       Idempotency-Key and its place in the request.  Without either the client cannot know, after
 *       an outcome that nobody knows; so the error then names the ids to repeat with.
 *   I4  An event without a trace gets the request's.  A request that is repeated is a new step of
 *       a trace; the event that it stored the first time has the trace of that time, and is the
 *       same event nevertheless.
 */
#include "gateway/append.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/uuid.h"
#include "face/event_in.h"
#include "face/events.h"
#include "face/json_in.h"
#include "gateway/handlers.h"
#include "gateway/meters.h"
#include "gateway/scope.h"
#include "gateway/server.h"

#define SCRATCH_MAX ((size_t)128 * 1024 * 1024)
#define PUBLISHER_SESSIONS 2 /* one stores while the other one waits for its commit */
#define KEY_SPACE "howdah idempotency key"

/* ------------------------------------------------------------------- events */

static int make_room(gw_incoming *in, howdah_error *reterr)
{
    size_t room = in->room > 0 ? in->room * 2 : 16;
    howdah_event **events;
    howdah_position *positions;

    if (in->n < in->room)
        return HOWDAH_OK;
    if (in->n == HOWDAH_BATCH_EVENTS_MAX)
        return hw_fail(reterr, HOWDAH_LIMIT, "more than %d events", HOWDAH_BATCH_EVENTS_MAX);
    events = hw_realloc(in->events, room * sizeof *events);
    if (events)
        in->events = events;
    positions = events ? hw_realloc(in->positions, room * sizeof *positions) : NULL;
    if (!positions)
        return hw_fail_no_memory(reterr);
    in->positions = positions;
    in->room = room;
    return HOWDAH_OK;
}

/* I4: the trace of the event that is stored with the id of the one in the builder, if there is. */
static int find_stored_trace(gw_incoming *in, gw_trace *trace, howdah_error *reterr)
{
    char id[HOWDAH_UUID_SIZE];
    howdah_event *event = NULL;
    hw_str headers;
    int s = howdah_builder_build(in->builder, &event, reterr);

    if (s < 0)
        return s;
    howdah_event_id(event, id);
    howdah_event_free(event);
    s = howdah_event_get(in->again, id, &event, reterr);
    if (s < 0)
        return s == HOWDAH_NOT_FOUND ? HOWDAH_OK : s;
    headers.s = howdah_event_headers(event, &headers.len);
    (void)gw_trace_of(headers, trace);
    howdah_event_free(event);
    return HOWDAH_OK;
}

static int add_trace(gw_incoming *in, howdah_error *reterr)
{
    gw_trace trace = *in->trace;
    int s = HOWDAH_OK;

    if (in->own_trace || !trace.parent[0])
        return HOWDAH_OK;
    if (in->again)
        s = find_stored_trace(in, &trace, reterr);
    if (s >= 0 && trace.parent[0])
        howdah_builder_add_header(in->builder, "traceparent", trace.parent);
    if (s >= 0 && trace.state[0])
        howdah_builder_add_header(in->builder, "tracestate", trace.state);
    return s;
}

int gw_incoming_add(gw_incoming *in, howdah_error *reterr)
{
    int s = make_room(in, reterr);

    if (s >= 0)
        s = add_trace(in, reterr);
    if (s >= 0)
        s = howdah_builder_build(in->builder, &in->events[in->n], reterr);
    if (s >= 0)
        in->n++;
    return s;
}

static void forget_events(gw_incoming *in)
{
    while (in->n > 0)
        howdah_event_free(in->events[--in->n]);
}

static void incoming_done(gw_incoming *in)
{
    forget_events(in);
    hw_free(in->events);
    hw_free(in->positions);
    howdah_builder_free(in->builder);
    hw_buf_done(&in->scratch);
}

/* I3: a key that is a UUID is the id of a single event; any other is a name for it. */
static int give_id(gw_incoming *in, bool has_id, howdah_error *reterr)
{
    char name[512];
    char text[HW_UUID_TEXT + 1];
    hw_uuid uuid;
    int n;

    if (has_id || !in->key)
        return HOWDAH_OK;
    if (!in->many && hw_uuid_parse(in->key, strlen(in->key), &uuid)) {
        howdah_builder_set_id(in->builder, in->key);
        return HOWDAH_OK;
    }
    n = snprintf(name, sizeof name, "%zu:%s", in->n, in->key);
    if (!hw_uuid_from_name(KEY_SPACE, name, (size_t)n, &uuid))
        return hw_fail_no_memory(reterr);
    hw_uuid_format(&uuid, text);
    howdah_builder_set_id(in->builder, text);
    return HOWDAH_OK;
}

/* --------------------------------------------------------------- our own JSON */

static int add_object(gw_incoming *in, hw_str object, howdah_error *reterr)
{
    face_event_in one = {.text = object, .number = (int64_t)in->n, .payload_max = in->payload_max};
    int s;

    howdah_builder_reset(in->builder);
    s = face_event_in_parse(&one, in->builder, &in->scratch, reterr);
    in->own_trace = !gw_trace_wanted(in->trace, one.headers);
    if (s >= 0)
        s = give_id(in, one.has_id, reterr);
    return s < 0 ? s : gw_incoming_add(in, reterr);
}

typedef int add_fn(gw_incoming *in, hw_str object, howdah_error *reterr);

static int add_cloudevent(gw_incoming *in, hw_str object, howdah_error *reterr)
{
    howdah_builder_reset(in->builder);
    return gw_cloudevent_object(object, in, reterr);
}

static int add_list(gw_incoming *in, hw_str body, add_fn *add, howdah_error *reterr)
{
    hw_str item;
    size_t pos = 0;
    int s = HOWDAH_OK;

    in->many = true;
    while (s >= 0 && hw_json_item(body.s, body.len, &pos, &item)) {
        s = add(in, item, reterr);
        if (s < 0)
            hw_error_at(reterr, in->n);
    }
    if (s >= 0 && !hw_json_closes(body.s, body.len, pos))
        s = hw_fail(reterr, HOWDAH_INVALID, "not valid JSON: the list is not closed at byte %zu",
                    pos);
    return s;
}

static int add_lines(gw_incoming *in, hw_str body, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    in->many = true;
    in->lines = true;
    while (s >= 0 && body.len > 0) {
        const char *end = memchr(body.s, '\n', body.len);
        hw_str line = {body.s, end ? (size_t)(end - body.s) : body.len};
        size_t n = line.len + (end != NULL);

        if (line.len > 0 && line.s[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0)
            s = add_object(in, line, reterr);
        if (s < 0)
            hw_error_at(reterr, in->n);
        body = (hw_str){body.s + n, body.len - n};
    }
    return s;
}

/* A list has brackets, whatever it is called. */
static int add_json(gw_incoming *in, hw_str body, add_fn *add, howdah_error *reterr)
{
    if (hw_json_kind(body.s, body.len) == 'a')
        return add_list(in, body, add, reterr);
    return add(in, body, reterr);
}

static int take_body(gw_request *r, gw_incoming *in, howdah_error *reterr)
{
    hw_str body = {hw_buf_str(&r->body), r->body.len};
    int s;

    if (gw_body_is(r, "application/cloudevents+json"))
        return add_json(in, body, add_cloudevent, reterr);
    if (gw_body_is(r, "application/cloudevents-batch+json"))
        return add_list(in, body, add_cloudevent, reterr);
    if (gw_is_cloudevent(r))
        return gw_cloudevent_headers(r, in, reterr);
    if (gw_body_is(r, "application/x-ndjson"))
        return add_lines(in, body, reterr);
    if (gw_body_is(r, "application/json"))
        return add_json(in, body, add_object, reterr);
    s = hw_fail_field(reterr, HOWDAH_INVALID, "Content-Type",
                      "expected application/json, application/x-ndjson or a CloudEvent");
    return hw_advise(reterr, s, "send -H 'Content-Type: application/json'");
}

/* ------------------------------------------------------------- expectations */

/* If-Match: "3" or *; If-None-Match: *; or ?expect=.  They mean the first event of each stream. */
static int take_expectation(const gw_request *r, int64_t *ret_expected, howdah_error *reterr)
{
    const char *match = gw_header(r, "If-Match");
    const char *none = gw_header(r, "If-None-Match");
    const char *text = gw_arg_text(r, "expect");
    size_t n = match ? strlen(match) : 0;
    char number[32];

    if ((match != NULL) + (none != NULL) + (text != NULL) > 1)
        return hw_fail_field(reterr, HOWDAH_INVALID, "expect",
                             "expect, If-Match and If-None-Match exclude each other");
    if (none && strcmp(none, "*") != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "If-None-Match",
                             "only * is known: no event yet");
    if (none)
        text = "none";
    if (match && strcmp(match, "*") == 0) {
        text = "exists";
    } else if (match) {
        if (n < 3 || n >= sizeof number || match[0] != '"' || match[n - 1] != '"')
            return hw_fail_field(reterr, HOWDAH_INVALID, "If-Match",
                                 "expected * or a version in quotes: \"3\"");
        memcpy(number, match + 1, n - 2);
        number[n - 2] = '\0';
        text = number;
    }
    return text ? face_expect_parse(text, ret_expected, reterr) : HOWDAH_OK;
}

/* -------------------------------------------------------------------- answer */

static void put_positions(gw_request *r, const gw_incoming *in)
{
    hw_buf *out = &r->answer.body;
    const char *separator = in->lines ? "\n" : ",";

    hw_buf_puts(out, in->many && !in->lines ? "[" : "");
    for (size_t i = 0; i < in->n; i++) {
        hw_buf_puts(out, i > 0 ? separator : "");
        face_position_json(out, howdah_event_stream(in->events[i]), &in->positions[i]);
    }
    hw_buf_puts(out, in->many && !in->lines ? "]\n" : "\n");
    gw_answer_json(r, in->n > 0 ? 201 : 200);
    gw_count(r, GW_METER_APPENDS, in->n > 0);
    gw_count(r, GW_METER_EVENTS_APPENDED, (int64_t)in->n);
    if (in->lines)
        r->answer.content_type = "application/x-ndjson";
    if (in->n == 1) {
        gw_answer_header(r, "ETag", "\"%" PRId64 "\"", in->positions[0].version);
        gw_answer_header(r, "Location", "/v1/events/%s", in->positions[0].id);
    }
}

/* I3: what to repeat, when nobody knows whether it is stored. */
static void tell_ids(const gw_incoming *in, howdah_error *reterr)
{
    char id[HOWDAH_UUID_SIZE];

    if (!(reterr->flags & HOWDAH_OUTCOME_UNKNOWN) || in->n == 0)
        return;
    howdah_event_id(in->events[0], id);
    if (in->n == 1)
        (void)hw_advise(reterr, reterr->status, "repeat it with the header Idempotency-Key: %s",
                        id);
    else
        (void)hw_advise(reterr, reterr->status,
                        "repeat it with the same ids, or the same Idempotency-Key");
}

/* ------------------------------------------------------------------ storing */

/* One request's events, on their way. */
typedef struct appending {
    gw_request *r;
    gw_incoming in;
    howdah_append_options options;
} appending;

static int begin(gw_request *r, gw_incoming *in, howdah_error *reterr)
{
    *in =
        (gw_incoming){.scratch = HW_BUF_INIT(SCRATCH_MAX), .key = gw_header(r, "Idempotency-Key")};
    in->payload_max = gw_payload_max(r->gateway);
    in->trace = &r->trace;
    if (in->key && (strlen(in->key) == 0 || strlen(in->key) > 255))
        return hw_fail_field(reterr, HOWDAH_INVALID, "Idempotency-Key",
                             "must be 1 to 255 bytes, got %zu", strlen(in->key));
    return howdah_builder_new(&in->builder, reterr);
}

static int check_scope(gw_request *r, const gw_incoming *in, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < in->n; i++) {
        s = gw_scope_check_event(r, in->events[i], reterr);
        if (s < 0 && in->many)
            hw_error_at(reterr, i);
    }
    return s;
}

/* again: to look for what is stored already; NULL: it is not. */
static int take(appending *a, howdah_bus *again, howdah_error *reterr)
{
    int s = begin(a->r, &a->in, reterr);

    a->in.again = again;
    if (s >= 0)
        s = take_expectation(a->r, &a->options.expected_version, reterr);
    if (s >= 0)
        s = take_body(a->r, &a->in, reterr);
    return s < 0 ? s : check_scope(a->r, &a->in, reterr);
}

static void appending_free(appending *a)
{
    incoming_done(&a->in);
    hw_free(a);
}

/* In a thread of the publisher. */
static void on_published(void *ctx, int status, const howdah_error *error)
{
    appending *a = ctx;
    gw_request *r = a->r;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (status == HOWDAH_ID_REUSED && r->trace.parent[0] && !a->in.again) { /* I4 */
        appending_free(a);
        r->ids_in_use = true;
        gw_request_again(r);
        return;
    }
    if (status < 0) {
        hw_error_copy(&err, error);
        tell_ids(&a->in, &err);
    } else {
        put_positions(r, &a->in);
    }
    appending_free(a);
    gw_request_done(r, status, &err);
}

/* Opened by the first worker that needs it; NULL in the thread that speaks HTTP, until then. */
static int publisher_of(gw_gateway *g, bool may_open, howdah_publisher **ret_publisher,
                        howdah_error *reterr)
{
    howdah_publisher_options o = HOWDAH_PUBLISHER_OPTIONS_INIT;
    howdah_publisher *made = NULL;
    int s = HOWDAH_OK;

    o.sessions = PUBLISHER_SESSIONS;

    *ret_publisher = atomic_load(&g->publisher);
    if (*ret_publisher || !may_open)
        return HOWDAH_OK;
    (void)pthread_mutex_lock(&g->publisher_lock);
    *ret_publisher = atomic_load(&g->publisher);
    if (!*ret_publisher)
        s = howdah_publisher_new(g->url, g->options.settings, &o, &made, reterr);
    if (made) {
        atomic_store(&g->publisher, made);
        *ret_publisher = made;
    }
    (void)pthread_mutex_unlock(&g->publisher_lock);
    return s;
}

/* Hands over; the array of positions belongs to what is on its way. */
static int submit(appending *a, howdah_publisher *publisher, howdah_error *reterr)
{
    int s;

    a->in.positions[0].size = sizeof *a->in.positions;
    s = howdah_publisher_submit(publisher, (const howdah_event *const *)a->in.events, a->in.n,
                                &a->options, a->in.positions, on_published, a, reterr);
    return s < 0 ? s : GW_SUBMITTED;
}

int gw_events_append(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_publisher *publisher;
    howdah_bus *again;
    appending *a;
    int s = publisher_of(r->gateway, bus != NULL, &publisher, reterr);

    if (s < 0)
        return s;
    if (!publisher)
        return GW_AGAIN;
    a = hw_calloc(1, sizeof *a);
    if (!a)
        return hw_fail_no_memory(reterr);
    a->r = r;
    again = r->ids_in_use ? bus : NULL;
    a->options = (howdah_append_options)HOWDAH_APPEND_OPTIONS_INIT;
    s = take(a, again, reterr);
    if (s >= 0 && a->in.n > 0) {
        s = submit(a, publisher, reterr);
        if (s == GW_SUBMITTED)
            return s;
    } else if (s >= 0) {
        put_positions(r, &a->in);
    }
    appending_free(a);
    return s;
}
