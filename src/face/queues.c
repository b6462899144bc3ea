/*
 * queues.c - see queues.h.
 *
 * A queue is a public struct, so its fields are read at their offsets.  A job is opaque: a
 * function of the library gets each field.  A job's JSON is the library's; its fields serve "show",
 * the table of the log, and the part of a dead letter that tells how the job was pushed.
 */
#include "face/queues.h"

#include <assert.h>
#include <inttypes.h>

/* ------------------------------------------------------------------- queues */

/* For people; JSON has "paused" instead. */
static void get_queue_state(const void *thing, face_value *v)
{
    const howdah_queue_info *info = thing;

    v->text = hw_str_of(info->paused ? "paused" : "open");
}

/* A queue without a due job has no age. */
static void get_oldest(const void *thing, face_value *v)
{
    const howdah_queue_info *info = thing;

    v->number = info->oldest_age_ms;
    v->absent = info->oldest_age_ms < 0;
}

#define AT(member) FACE_AT(howdah_queue_info, member)

/* One row for each setting of the list.  Its label is the key that "queue set" takes. */
#define KIND_DURATION FACE_DURATION
#define KIND_COUNT FACE_NUMBER
#define KIND_PERCENT FACE_NUMBER
#define KIND_BOOLEAN FACE_BOOL
/* What 0 is shown as; NULL: as any other value. */
#define ZERO_DURATION(zero) (sizeof(zero) > 1 ? "0s (" zero ")" : "0s")
#define ZERO_COUNT(zero) (sizeof(zero) > 1 ? "0 (" zero ")" : NULL)
#define ZERO_PERCENT(zero) NULL
#define ZERO_BOOLEAN(zero) NULL
#define SETTING_NAME(key, member, unit, min, max, def, range, at_zero, help) #member " "
#define SETTING_FIELD(key, member, unit, min, max, def, range, at_zero, help)                      \
    {#member, KIND_##unit, #key, .zero = ZERO_##unit(at_zero), AT(settings.member)},

static const face_field queue_fields[] = {
    {"queue", FACE_TEXT, .style = FACE_NAME, AT(queue)},
    {"state", FACE_WORD, .get = get_queue_state},
    {"pending", FACE_NUMBER, AT(pending)},
    {"processing", FACE_NUMBER, AT(processing)},
    {"scheduled", FACE_NUMBER, AT(scheduled)},
    {"completed", FACE_NUMBER, AT(completed)},
    {"failed", FACE_NUMBER, AT(failed)},
    {"oldest_age_s", FACE_AGE, "oldest", .style = FACE_ASIDE, .blank = "-", .get = get_oldest},
    {"paused", FACE_BOOL, AT(paused)},
    {"purged", FACE_NUMBER, .zero = "", AT(purged)},
    {"dead_letters", FACE_NUMBER, "dead letters", "dead", AT(dead_letters)},
    {"created_at", FACE_TIME, "created at", AT(created_at_us)},
    {"settings", FACE_OBJECT, .members = HOWDAH_QUEUE_SETTING_LIST(SETTING_NAME)},
    HOWDAH_QUEUE_SETTING_LIST(SETTING_FIELD){.name = NULL},
};

const face_entity face_queue = {
    queue_fields,
    .json = "queue pending processing scheduled completed failed oldest_age_s paused purged "
            "dead_letters created_at settings",
    .show = "queue state pending processing scheduled completed failed purged dead_letters "
            "oldest_age_s created_at " HOWDAH_QUEUE_SETTING_LIST(SETTING_NAME),
    .table = "queue state pending processing scheduled completed failed oldest_age_s",
};

const face_entity face_queue_summary = {
    queue_fields,
    .json = "queue pending processing scheduled oldest_age_s paused dead_letters",
    .table = "queue state pending processing scheduled dead_letters oldest_age_s",
};

/* --------------------------------------------------------------------- jobs */

FACE_GET_NUMBER(id, howdah_job_id)
FACE_GET_NUMBER(position, howdah_job_position)
FACE_GET_NUMBER(attempts, howdah_job_attempt)
FACE_GET_NUMBER(max_attempts, howdah_job_max_attempts)
FACE_GET_NUMBER(priority, howdah_job_priority)
FACE_GET_TEXT(queue, howdah_job_queue)
FACE_GET_TEXT(worker, howdah_job_worker)
FACE_GET_TEXT(key, howdah_job_key)
FACE_GET_TEXT(dedup, howdah_job_dedup)
FACE_GET_TEXT(correlation, howdah_job_correlation)
FACE_GET_TEXT(stream, howdah_job_event_stream)
FACE_GET_TEXT(type, howdah_job_event_type)
FACE_GET_TEXT(error, howdah_job_error)
FACE_GET_TEXT(result, howdah_job_result)
FACE_GET_TEXT(any_content_type, howdah_job_content_type)
FACE_GET_TIME(created_at, howdah_job_created_at)
FACE_GET_TIME(due_at, howdah_job_due_at)
FACE_GET_TIME(started_at, howdah_job_started_at)
FACE_GET_TIME(lease_until, howdah_job_lease_until)
FACE_GET_TIME(finished_at, howdah_job_finished_at)

static void get_status(const void *thing, face_value *v)
{
    v->text = hw_str_of(howdah_job_state_name(howdah_job_state_get(thing)));
}

/* Only a job that says what caused it. */
static void get_causation(const void *thing, face_value *v)
{
    if (howdah_job_causation(thing, v->small))
        v->text = hw_str_of(v->small);
}

/* Only a job that a binding made has an event. */
static void get_event_sequence(const void *thing, face_value *v)
{
    v->number = howdah_job_event_sequence(thing);
    v->absent = v->number <= 0;
}

/* A job without the time of its push does not get a null for it. */
static void get_pushed_at(const void *thing, face_value *v)
{
    v->left_out = !howdah_job_created_at(thing, &v->number);
}

/* One column for both: a job has either a result or an error. */
static void get_outcome(const void *thing, face_value *v)
{
    bool completed = howdah_job_state_get(thing) == HOWDAH_JOB_COMPLETED;

    v->text = hw_str_of(completed ? howdah_job_result(thing) : howdah_job_error(thing));
}

/* Left out for bytes, which have "data_base64". */
static void get_data(const void *thing, face_value *v)
{
    size_t len = 0;
    const char *data = howdah_job_data(thing, &len);

    face_value_data(v, howdah_job_content_type(thing), data, len);
}

/* In JSON only beside data_base64: payloads of JSON need no type. */
static void get_content_type(const void *thing, face_value *v)
{
    size_t len = 0;

    face_value_content_type(v, howdah_job_content_type(thing), howdah_job_data(thing, &len));
}

static void get_base64(const void *thing, face_value *v)
{
    size_t len = 0;
    const char *data = howdah_job_data(thing, &len);

    face_value_base64(v, howdah_job_content_type(thing), data, len);
}

/* For people the payload as it is, of whatever type. */
static void get_payload(const void *thing, face_value *v)
{
    v->text.s = howdah_job_data(thing, &v->text.len);
}

/* In JSON always an object, {} without headers. */
static void get_headers(const void *thing, face_value *v)
{
    v->text.s = howdah_job_headers(thing, &v->text.len);
}

/* For people: no line when there are none. */
static void get_shown_headers(const void *thing, face_value *v)
{
    size_t len = 0;
    const char *headers = howdah_job_headers(thing, &len);

    face_value_headers(v, headers, len);
}

static const face_field job_fields[] = {
    {"id", FACE_NUMBER, "job", .get = get_id},
    {"position", FACE_NUMBER, .style = FACE_ASIDE, .get = get_position},
    {"queue", FACE_TEXT, .get = get_queue},
    {"status", FACE_WORD, .get = get_status},
    {"attempts", FACE_NUMBER, .get = get_attempts},
    {"max_attempts", FACE_NUMBER, "max attempts", .get = get_max_attempts},
    {"priority", FACE_NUMBER, .get = get_priority},
    {"worker", FACE_TEXT, .get = get_worker},
    {"key", FACE_TEXT, .get = get_key},
    {"dedup", FACE_TEXT, .get = get_dedup},
    {"correlation_id", FACE_TEXT, "correlation", .get = get_correlation},
    {"causation_id", FACE_TEXT, "causation", .get = get_causation},
    {"event_sequence", FACE_NUMBER, "event", .get = get_event_sequence},
    {"stream", FACE_TEXT, .get = get_stream},
    {"type", FACE_TEXT, .get = get_type},
    {"pushed_at", FACE_TIME, "pushed at", .get = get_pushed_at},
    {"created_at", FACE_TIME, "created at", .get = get_created_at},
    {"due_at", FACE_TIME, "due at", .get = get_due_at},
    {"started_at", FACE_TIME, "started at", .get = get_started_at},
    {"lease_until", FACE_TIME, "lease until", .get = get_lease_until},
    {"finished_at", FACE_TIME, "finished at", .style = FACE_ASIDE, .get = get_finished_at},
    {"error", FACE_TEXT, .get = get_error},
    {"result", FACE_TEXT, .get = get_result},
    {"outcome", FACE_TEXT, .head = "error or result", .get = get_outcome},
    {"data", FACE_JSON, .get = get_data},
    {"content_type", FACE_TEXT, .get = get_content_type},
    {"data_base64", FACE_JSON, .get = get_base64},
    {"headers", FACE_JSON, .get = get_headers},
    {"shown_headers", FACE_TEXT, "headers", .get = get_shown_headers},
    {"shown_type", FACE_TEXT, "content type", .get = get_any_content_type},
    {"payload", FACE_TEXT, "data", .get = get_payload},
    {.name = NULL},
};

/* Its JSON is the library's: face_job_json(). */
const face_entity face_job = {
    job_fields,
    .show = "id queue status attempts max_attempts priority worker key dedup correlation_id "
            "causation_id event_sequence created_at due_at started_at lease_until finished_at "
            "error result shown_headers shown_type payload",
    .table = "position id status attempts finished_at outcome",
};

/* What a dead letter says about its job; the state of the job itself is not part of it. */
const face_entity face_job_pushed = {
    job_fields,
    .json = "key dedup correlation_id causation_id event_sequence stream type pushed_at data "
            "content_type data_base64 headers",
    .show = "priority key dedup correlation_id causation_id event_sequence type stream pushed_at "
            "shown_headers shown_type payload",
};

/* The library makes it, so that every face prints the same.  Its length is asked for first. */
int face_job_json(const howdah_job *job, hw_buf *out, howdah_error *reterr)
{
    size_t len = howdah_job_json(job, NULL, 0);

    if (len == 0)
        return hw_fail_no_memory(reterr);
    if (!hw_buf_reserve(out, len))
        return hw_buf_check(out, reterr);
    (void)howdah_job_json(job, out->data + out->len, len + 1);
    out->len += len;
    assert(out->data[out->len - 1] == '}' && out->data[out->len] == '\0');
    return HOWDAH_OK;
}

void face_pushed_json(hw_buf *out, const char *queue, const howdah_pushed *pushed)
{
    hw_buf_printf(out, "{\"id\":%" PRId64 ",\"queue\":", pushed->id);
    face_json_text(out, queue);
    hw_buf_puts(out, pushed->existed ? ",\"existed\":true}" : "}");
}
