/*
 * fuzz_bodies.c - what clients send as bodies: events, corrections, jobs, CloudEvents, small
 * objects.
 *
 * The first byte chooses.  What is taken has to be whole: an event that was built is printed as
 * valid JSON.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "face/correction_in.h"
#include "face/event_in.h"
#include "face/events.h"
#include "face/job_in.h"
#include "gateway/append.h"
#include "gateway/fields_in.h"

#define PAYLOAD_MAX ((size_t)65536)

/* Nothing that sanitizers would see: said aloud. */
static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_event(const howdah_event *event)
{
    hw_buf text = HW_BUF_INIT((size_t)16 * 1024 * 1024);
    hw_json_flaw flaw = {"", 0};

    /* The object around a payload that is as deep as it may be is one level too deep. */
    if (face_event_json(event, &text, NULL) >= 0 &&
        !hw_json_valid(hw_buf_str(&text), text.len, HW_JSON_DEPTH_MAX, &flaw))
        must(strstr(flaw.why, "deep") != NULL);
    hw_buf_done(&text);
}

static void try_event(hw_str object, bool corrections)
{
    hw_buf scratch = HW_BUF_INIT((size_t)1024 * 1024);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *builder = NULL;
    howdah_event *event = NULL;
    face_correction_in correction;
    face_event_in in = {.text = object, .payload_max = PAYLOAD_MAX};

    face_correction_in_init(&correction, PAYLOAD_MAX);
    in.correction = corrections ? &correction : NULL;
    if (howdah_builder_new(&builder, NULL) >= 0 &&
        face_event_in_parse(&in, builder, &scratch, &err) >= 0 && !in.is_correction &&
        howdah_builder_build(builder, &event, &err) >= 0)
        check_event(event);
    howdah_event_free(event);
    howdah_builder_free(builder);
    face_correction_in_done(&correction);
    hw_buf_done(&scratch);
}

static void try_job(hw_str object)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    face_job_in job;

    face_job_in_init(&job, PAYLOAD_MAX);
    if (face_job_in_parse(&job, object, PAYLOAD_MAX, &err) >= 0 && job.job.data)
        must(strlen(job.job.data) <= job.job.data_len);
    face_job_in_done(&job);
}

static void try_cloudevent(hw_str object)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    gw_incoming in = {.scratch = HW_BUF_INIT((size_t)1024 * 1024), .payload_max = PAYLOAD_MAX};
    static const gw_trace no_trace;

    in.trace = &no_trace;
    if (howdah_builder_new(&in.builder, NULL) >= 0 &&
        gw_cloudevent_object(object, &in, &err) >= 0) {
        must(in.n == 1);
        check_event(in.events[0]);
    }
    for (size_t i = 0; i < in.n; i++)
        howdah_event_free(in.events[i]);
    hw_free(in.events);
    hw_free(in.positions);
    howdah_builder_free(in.builder);
    hw_buf_done(&in.scratch);
}

static void try_fields(hw_str object)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const char *text = NULL;
    const char *raw = NULL;
    size_t raw_n = 0;
    int64_t n = 0;
    int64_t ms = 0;
    int64_t time_us = 0;
    int64_t place = 0;
    int64_t choice = 0;
    bool flag = false;
    const gw_field fields[] = {
        {"text", GW_FIELD_TEXT, .text = &text},
        {"n", GW_FIELD_NUMBER, .number = &n, .min = 1, .max = 1000},
        {"d", GW_FIELD_DURATION, .number = &ms},
        {"t", GW_FIELD_TIME, .number = &time_us},
        {"p", GW_FIELD_PLACE, .number = &place},
        {"c", GW_FIELD_CHOICE, .number = &choice, .choices = "one two three"},
        {"f", GW_FIELD_FLAG, .flag = &flag},
        {"r", GW_FIELD_RAW, .text = &raw, .length = &raw_n},
    };
    char *room = hw_alloc(2 * object.len + 2);
    char *at = room;

    if (room && gw_object_take(object, fields, sizeof fields / sizeof *fields, &at, &err) >= 0) {
        must(at <= room + object.len + 1);
        must(n >= 0 && n <= 1000 && choice >= 0 && choice < 3);
        must(!raw || hw_json_valid(raw, raw_n, HW_JSON_DEPTH_MAX, NULL));
    }
    hw_free(room);
}

/* Items of a list that nobody has checked. */
static void try_list(hw_str list)
{
    hw_str item;
    size_t pos = 0;

    while (hw_json_item(list.s, list.len, &pos, &item)) {
        must(item.s >= list.s && item.s + item.len <= list.s + list.len);
        try_event(item, false);
    }
    (void)hw_json_closes(list.s, list.len, pos);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text;
    hw_str object;

    if (size < 1)
        return 0;
    text = malloc(size); /* as bodies are: a NUL behind the last byte */
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    object = (hw_str){text, size - 1};
    switch (data[0] % 6) {
    case 0:
        try_event(object, false);
        break;
    case 1:
        try_event(object, true);
        break;
    case 2:
        try_job(object);
        break;
    case 3:
        try_cloudevent(object);
        break;
    case 4:
        try_fields(object);
        break;
    default:
        try_list(object);
        break;
    }
    free(text);
    return 0;
}
