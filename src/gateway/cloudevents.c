/*
 * cloudevents.c - CloudEvents 1.0 as events of ours: in headers, as an object, as a list of them.
 *
 *   I1  (source, id) names a CloudEvent.  An id that is a UUID becomes the event's id; of any
 *       other the id is made of source and id, so the same CloudEvent is stored once.
 *   I2  The type is the type; subject, or else source, is the stream, unless an extension "stream"
 *       names it; time is the valid time.  What has no field of ours is kept as a header "ce-NAME".
 *   I3  Attributes that the specification forbids are refused: a mistake of the sender would
 *       otherwise be stored for good.
 */
#include <assert.h>
#include <microhttpd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/uuid.h"
#include "face/event_in.h"
#include "face/json_in.h"
#include "gateway/append.h"

#define TEXT_MAX 4096 /* of one attribute */
#define ATTRIBUTES_MAX 32

typedef struct attribute {
    char name[24];
    char *value;
} attribute;

/* A CloudEvent, wherever it was. */
typedef struct cloudevent {
    attribute attributes[ATTRIBUTES_MAX];
    size_t n;
    hw_str data; /* JSON, or bytes; absent: none */
    bool is_bytes;
} cloudevent;

static void done(cloudevent *e)
{
    for (size_t i = 0; i < e->n; i++)
        hw_free(e->attributes[i].value);
}

static const char *get(const cloudevent *e, const char *name)
{
    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->attributes[i].name, name) == 0)
            return e->attributes[i].value;
    return NULL;
}

/* I3: lower-case letters and digits, at most 20 of them. */
static bool name_is_good(hw_str name)
{
    if (name.len == 0 || name.len > 20)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if (!((name.s[i] >= 'a' && name.s[i] <= 'z') || (name.s[i] >= '0' && name.s[i] <= '9')))
            return false;
    return true;
}

/* Takes the value over. */
static int set(cloudevent *e, hw_str name, char *value, howdah_error *reterr)
{
    attribute *a = &e->attributes[e->n];
    int s = HOWDAH_OK;

    if (!value)
        return hw_fail_no_memory(reterr);
    if (!name_is_good(name))
        s = hw_fail(reterr, HOWDAH_INVALID,
                    "the name of an attribute is 1 to 20 of a-z and 0-9, got %zu bytes", name.len);
    else if (e->n == ATTRIBUTES_MAX)
        s = hw_fail(reterr, HOWDAH_INVALID, "more than %d attributes", ATTRIBUTES_MAX);
    if (s < 0) {
        hw_free(value);
        return s;
    }
    memcpy(a->name, name.s, name.len);
    a->name[name.len] = '\0';
    a->value = value;
    e->n++;
    return HOWDAH_OK;
}

/* -------------------------------------------------------------- to an event */

static int need(const cloudevent *e, const char *name, howdah_error *reterr)
{
    const char *value = get(e, name);

    return value && *value
               ? HOWDAH_OK
               : hw_fail_field(reterr, HOWDAH_INVALID, name, "a CloudEvent needs this attribute");
}

/* I1. */
static int set_id(const cloudevent *e, howdah_builder *builder, howdah_error *reterr)
{
    const char *id = get(e, "id");
    char text[HW_UUID_TEXT + 1];
    hw_uuid uuid;

    if (hw_uuid_parse(id, strlen(id), &uuid)) {
        howdah_builder_set_id(builder, id);
        return HOWDAH_OK;
    }
    if (!hw_uuid_from_name(get(e, "source"), id, strlen(id), &uuid))
        return hw_fail_no_memory(reterr);
    hw_uuid_format(&uuid, text);
    howdah_builder_set_id(builder, text);
    howdah_builder_add_header(builder, "ce-id", id);
    return HOWDAH_OK;
}

static bool is_json_type(const char *type)
{
    size_t n = type ? strcspn(type, "; ") : 0;

    return !type || (n == 16 && strncasecmp(type, "application/json", n) == 0) ||
           (n > 5 && strncasecmp(type + n - 5, "+json", 5) == 0);
}

static void set_data(const cloudevent *e, howdah_builder *builder)
{
    const char *type = get(e, "datacontenttype");

    if (!e->data.s)
        howdah_builder_set_json(builder, "null", 4);
    else if (e->is_bytes)
        howdah_builder_set_bytes(builder, e->data.s, e->data.len,
                                 type ? type : "application/octet-stream");
    else
        howdah_builder_set_json(builder, e->data.s, e->data.len);
}

/* I2. */
static void set_headers(const cloudevent *e, howdah_builder *builder)
{
    static const char *const ours[] = {"specversion",   "id",         "type", "time", "stream",
                                       "correlationid", "causationid"};
    char name[32] = "ce-";

    for (size_t i = 0; i < e->n; i++) {
        const attribute *a = &e->attributes[i];
        bool is_ours = strcmp(a->name, "datacontenttype") == 0 && e->is_bytes;

        for (size_t k = 0; k < sizeof ours / sizeof *ours; k++)
            is_ours = is_ours || strcmp(a->name, ours[k]) == 0;
        if (is_ours)
            continue;
        if (strcmp(a->name, "traceparent") == 0 || strcmp(a->name, "tracestate") == 0) {
            howdah_builder_add_header(builder, a->name, a->value);
            continue;
        }
        (void)snprintf(name, sizeof name, "ce-%s", a->name);
        howdah_builder_add_header(builder, name, a->value);
    }
}

static int set_time(const cloudevent *e, howdah_builder *builder, howdah_error *reterr)
{
    const char *text = get(e, "time");
    int64_t time_us;

    if (!text)
        return HOWDAH_OK;
    if (!hw_time_parse(text, strlen(text), &time_us))
        return hw_fail_field(reterr, HOWDAH_INVALID, "time", "not a time like %s",
                             "2026-01-31T09:30:00Z");
    howdah_builder_set_valid_time(builder, time_us);
    return HOWDAH_OK;
}

static int build(const cloudevent *e, gw_incoming *in, howdah_error *reterr)
{
    const char *stream = get(e, "stream");
    const char *version = get(e, "specversion");
    int s = need(e, "specversion", reterr);

    if (s >= 0 && strcmp(version, "1.0") != 0)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "specversion", "only 1.0 is known here");
    if (s >= 0)
        s = need(e, "id", reterr);
    if (s >= 0)
        s = need(e, "source", reterr);
    if (s >= 0)
        s = need(e, "type", reterr);
    if (s >= 0 && e->data.len > in->payload_max)
        s = hw_fail_field(reterr, HOWDAH_LIMIT, "data", "%zu bytes, the limit is %zu", e->data.len,
                          in->payload_max);
    if (s < 0)
        return s;
    if (!stream)
        stream = get(e, "subject");
    howdah_builder_set_stream(in->builder, stream ? stream : get(e, "source"));
    howdah_builder_set_type(in->builder, get(e, "type"));
    if (get(e, "correlationid"))
        howdah_builder_set_correlation(in->builder, get(e, "correlationid"));
    if (get(e, "causationid"))
        howdah_builder_set_causation(in->builder, get(e, "causationid"));
    set_data(e, in->builder);
    set_headers(e, in->builder);
    in->own_trace = get(e, "traceparent") != NULL;
    s = set_id(e, in->builder, reterr);
    if (s >= 0)
        s = set_time(e, in->builder, reterr);
    return s < 0 ? s : gw_incoming_add(in, reterr);
}

/* ---------------------------------------------------------------- in headers */

bool gw_is_cloudevent(const gw_request *r)
{
    return gw_header(r, "ce-specversion") != NULL || gw_header(r, "ce-id") != NULL;
}

typedef struct collecting {
    cloudevent *e;
    howdah_error *err;
    int status;
} collecting;

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-encoded in a header, as the specification says; what is no escape stays as it is. */
static char *decoded(const char *value)
{
    char *text = hw_strdup(value);
    size_t n = 0;

    for (const char *c = value; text && *c; c++) {
        int high = c[0] == '%' ? hex(c[1]) : -1;
        int low = high >= 0 ? hex(c[2]) : -1;

        if (low >= 0 && high + low > 0) {
            text[n++] = (char)(high << 4 | low);
            c += 2;
        } else {
            text[n++] = *c;
        }
    }
    if (text)
        text[n] = '\0';
    return text;
}

static enum MHD_Result on_header(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    collecting *c = ctx;
    char lower[32];
    size_t n = strlen(name);

    (void)kind;
    if (strncasecmp(name, "ce-", 3) != 0)
        return MHD_YES;
    for (size_t i = 3; i <= n && i - 3 < sizeof lower; i++)
        lower[i - 3] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] | 0x20 : name[i]);
    lower[sizeof lower - 1] = '\0';
    c->status = set(c->e, hw_str_of(lower), decoded(value ? value : ""), c->err);
    return c->status >= 0 ? MHD_YES : MHD_NO;
}

int gw_cloudevent_headers(const gw_request *r, gw_incoming *in, howdah_error *reterr)
{
    cloudevent e = {.n = 0, .data = HW_STR_NULL};
    collecting c = {&e, reterr, HOWDAH_OK};
    const char *type = gw_header(r, "Content-Type");
    int s;

    (void)MHD_get_connection_values(r->connection, MHD_HEADER_KIND, on_header, &c);
    s = c.status;
    if (s >= 0 && type)
        s = set(&e, HW_STR_LIT("datacontenttype"), hw_strdup(type), reterr);
    if (r->body.len > 0) {
        e.data = (hw_str){hw_buf_str(&r->body), r->body.len};
        e.is_bytes = !is_json_type(type);
    }
    if (s >= 0)
        s = build(&e, in, reterr);
    done(&e);
    return s;
}

/* -------------------------------------------------------------- as an object */

/* A text, a number or a truth value, as text. */
static char *text_of(hw_str value)
{
    hw_buf text = HW_BUF_INIT(TEXT_MAX);

    if (hw_json_kind(value.s, value.len) == 's')
        hw_json_unescape(value.s + 1, value.len - 2, &text);
    else
        hw_buf_put(&text, value.s, value.len);
    if (text.broken || !hw_buf_reserve(&text, 1)) {
        hw_buf_done(&text);
        return NULL;
    }
    return hw_buf_take(&text);
}

static int take_member(cloudevent *e, gw_incoming *in, hw_str key, hw_str value,
                       howdah_error *reterr)
{
    char kind = hw_json_kind(value.s, value.len);

    if (hw_json_key_is(key, "data")) {
        e->data = value;
        return HOWDAH_OK;
    }
    if (hw_json_key_is(key, "data_base64")) {
        hw_buf_clear(&in->scratch);
        if (kind != 's' || !hw_base64_get(value.s + 1, value.len - 2, &in->scratch))
            return hw_fail_field(reterr, HOWDAH_INVALID, "data_base64", "not base64");
        e->data = (hw_str){hw_buf_str(&in->scratch), in->scratch.len};
        e->is_bytes = true;
        return HOWDAH_OK;
    }
    if (kind == '0')
        return HOWDAH_OK; /* as if it was not there */
    if (kind == 'o' || kind == 'a')
        return hw_fail(reterr, HOWDAH_INVALID, "an attribute is a text, a number or a truth value");
    if (value.len > TEXT_MAX)
        return hw_fail(reterr, HOWDAH_INVALID, "an attribute of %zu bytes, the limit is %d",
                       value.len, TEXT_MAX);
    return set(e, key, text_of(value), reterr);
}

int gw_cloudevent_object(hw_str object, gw_incoming *in, howdah_error *reterr)
{
    cloudevent e = {.n = 0, .data = HW_STR_NULL};
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s = face_object_check(object, reterr);

    while (s >= 0 && hw_json_member(object.s, object.len, &pos, &key, &value))
        s = take_member(&e, in, key, value, reterr);
    if (s >= 0)
        s = build(&e, in, reterr);
    done(&e);
    return s;
}
