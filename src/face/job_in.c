/*
 * job_in.c - see job_in.h.
 *
 * A field is a row of a table.  The payload goes on unchanged; texts are unescaped into the
 * job's own memory, in which nothing moves: as much as the object has is reserved before the first.
 */
#include "face/job_in.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "face/json_in.h"

#define NAMES_ROOM                                                                                 \
    ((size_t)8 * 1024) /* six texts of at most 255 bytes, and longer ones to refuse */
#define HEADERS_ROOM ((size_t)128 * 1024)

typedef struct parse {
    face_job_in *job;
    size_t payload_max;
    hw_str base64; /* absent: none */
    bool has_data;
} parse;

typedef struct field {
    const char *name;
    int (*take)(parse *p, const struct field *field, hw_str value, howdah_error *reterr);
    size_t offset; /* in howdah_new_job, of take_text and take_number */
} field;

/* Three buffers of its own: a job of a transaction outlives its line. */
void face_job_in_init(face_job_in *job, size_t payload_max)
{
    *job = (face_job_in){HOWDAH_NEW_JOB_INIT, HW_BUF_INIT(payload_max + 1),
                         HW_BUF_INIT(HEADERS_ROOM), HW_BUF_INIT(NAMES_ROOM), NULL};
}

void face_job_in_done(face_job_in *job)
{
    hw_buf_done(&job->data);
    hw_buf_done(&job->headers);
    hw_buf_done(&job->names);
}

/* What it says holds until the object says something else. */
void face_job_in_inherit(face_job_in *job, const howdah_new_job *from)
{
    job->job = *from;
}

/* NULL (and an error) when it is no string, or too long for any of our texts. */
static const char *text_of(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    hw_buf *names = &p->job->names;
    size_t at = names->len;

    if (face_kind_of(value) != 's') {
        (void)hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
        return NULL;
    }
    if (value.len > NAMES_ROOM - names->len) { /* unescaping only shortens */
        (void)hw_fail_field(reterr, HOWDAH_INVALID, f->name, "must be 1 to 255 bytes, got %zu",
                            value.len - 2);
        return NULL;
    }
    hw_json_unescape(value.s + 1, value.len - 2, names);
    hw_buf_putc(names, '\0');
    return hw_buf_check(names, reterr) < 0 ? NULL : names->data + at;
}

/* null takes back what was inherited. */
static int take_text(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text = NULL;

    if (face_kind_of(value) != '0') {
        text = text_of(p, f, value, reterr);
        if (!text)
            return HOWDAH_INVALID;
    }
    assert(f->offset > 0); /* the first member is the size, and no field */
    memcpy((char *)&p->job->job + f->offset, &text, sizeof text);
    return HOWDAH_OK;
}

/* The library checks the range, and names the field. */
static int take_number(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    char text[FACE_NUMBER_TEXT];
    int64_t number = 0;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (!face_number_text(value, text) || !hw_parse_i64(text, INT64_MIN, INT64_MAX, &number))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a whole number");
    assert(f->offset > 0);
    memcpy((char *)&p->job->job + f->offset, &number, sizeof number);
    return HOWDAH_OK;
}

/* Replaces a time that was inherited. */
static int take_delay(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    if (!hw_duration_parse(text, &p->job->job.delay_ms))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name,
                             "expected a duration, like \"250ms\", \"5s\" or \"2m\"");
    p->job->job.run_at_us = HOWDAH_NO_TIME;
    return HOWDAH_OK;
}

/* Replaces a delay that was inherited. */
static int take_run_at(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    const char *text;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    text = text_of(p, f, value, reterr);
    if (!text)
        return HOWDAH_INVALID;
    if (!hw_time_parse(text, strlen(text), &p->job->job.run_at_us))
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "not a time like %s",
                             "2026-01-31T09:30:00Z");
    p->job->job.delay_ms = 0;
    return HOWDAH_OK;
}

static int too_long(size_t len, size_t max, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_LIMIT, "data", "%zu bytes, the limit is %zu", len, max);
}

/* Copied: the line is overwritten by the next one, before the transaction is stored. */
static int take_data(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    (void)f;
    if (value.len > p->payload_max)
        return too_long(value.len, p->payload_max, reterr);
    hw_buf_clear(&p->job->data);
    hw_buf_put(&p->job->data, value.s, value.len);
    p->has_data = true;
    return hw_buf_check(&p->job->data, reterr);
}

/* Decoded at the end: content_type, which it needs, may come after it. */
static int take_base64(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (face_kind_of(value) != 's')
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected a string");
    p->base64 = (hw_str){value.s + 1, value.len - 2};
    return HOWDAH_OK;
}

/* The library checks what is in it, and the exact limit. */
static int take_headers(parse *p, const field *f, hw_str value, howdah_error *reterr)
{
    hw_buf *headers = &p->job->headers;

    if (face_kind_of(value) == '0')
        return HOWDAH_OK;
    if (value.len > HEADERS_ROOM)
        return hw_fail_field(reterr, HOWDAH_INVALID, f->name,
                             "must be at most 65536 bytes, got %zu", value.len);
    hw_buf_clear(headers);
    hw_buf_put(headers, value.s, value.len);
    p->job->job.headers = hw_buf_str(headers);
    p->job->job.headers_len = headers->len;
    return hw_buf_check(headers, reterr);
}

static const field fields[] = {
    {"data", take_data, 0},
    {"data_base64", take_base64, 0},
    {"content_type", take_text, offsetof(howdah_new_job, content_type)},
    {"headers", take_headers, 0},
    {"delay", take_delay, 0},
    {"run_at", take_run_at, 0},
    {"priority", take_number, offsetof(howdah_new_job, priority)},
    {"max_attempts", take_number, offsetof(howdah_new_job, max_attempts)},
    {"key", take_text, offsetof(howdah_new_job, key)},
    {"dedup", take_text, offsetof(howdah_new_job, dedup)},
    {"correlation_id", take_text, offsetof(howdah_new_job, correlation_id)},
    {"causation_id", take_text, offsetof(howdah_new_job, causation_id)},
};
#define FIELDS_N (sizeof fields / sizeof *fields)

/* A linear search: there are a dozen fields. */
static int take_member(parse *p, hw_str key, hw_str value, howdah_error *reterr)
{
    for (size_t i = 0; i < FIELDS_N; i++)
        if (hw_json_key_is(key, fields[i].name))
            return fields[i].take(p, &fields[i], value, reterr);
    return face_unknown_field(key, fields, sizeof *fields, FIELDS_N, p->job->advice, reterr);
}

/* The payload in its final form; data_base64 and content_type belong together, and exclude data. */
static int finish_payload(parse *p, howdah_error *reterr)
{
    hw_buf *data = &p->job->data;
    howdah_new_job *job = &p->job->job;

    if ((p->base64.s != NULL) != (job->content_type != NULL))
        return hw_fail_field(reterr, HOWDAH_INVALID, p->base64.s ? "content_type" : "data_base64",
                             "data_base64 and content_type need each other");
    if (p->base64.s && p->has_data)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data",
                             "data and data_base64 exclude each other");
    if (p->base64.s) {
        hw_buf_clear(data);
        if (!hw_base64_get(p->base64.s, p->base64.len, data))
            return hw_fail_field(reterr, HOWDAH_INVALID, "data_base64", "not base64");
        if (data->broken == HOWDAH_LIMIT || data->len > p->payload_max)
            return too_long(p->base64.len / 4 * 3, p->payload_max, reterr);
    }
    if (p->base64.s || p->has_data) {
        job->data = hw_buf_str(data);
        job->data_len = data->len;
    }
    return hw_buf_check(data, reterr);
}

/* Room for all texts is made first: later texts must not move earlier ones. */
int face_job_in_parse(face_job_in *job, hw_str text, size_t payload_max, howdah_error *reterr)
{
    parse p = {.job = job, .payload_max = payload_max};
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s;

    hw_buf_clear(&job->names);
    if (!hw_buf_reserve(&job->names, text.len < NAMES_ROOM ? text.len : NAMES_ROOM))
        return hw_buf_check(&job->names, reterr);
    s = face_object_check(text, reterr);
    while (s == HOWDAH_OK && hw_json_member(text.s, text.len, &pos, &key, &value))
        s = take_member(&p, key, value, reterr);
    return s < 0 ? s : finish_payload(&p, reterr);
}
