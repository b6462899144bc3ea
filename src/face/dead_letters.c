/*
 * dead_letters.c - see dead_letters.h.
 *
 * A dead letter has either an event or a job; a job whose payload is gone has neither.
 */
#include "face/dead_letters.h"

#include <assert.h>

#include "face/events.h"
#include "face/queues.h"

/* The number of what it is about: the event's in the log, or the job's. */
static void get_number(const void *thing, face_value *v)
{
    const howdah_dead_letter *dl = thing;

    v->number = dl->event ? howdah_event_global_sequence(dl->event) : dl->job_id;
}

/* Only a job's; the event of a subscription has its number in its own fields. */
static void get_job_id(const void *thing, face_value *v)
{
    const howdah_dead_letter *dl = thing;

    v->number = dl->job_id;
    v->absent = dl->event != NULL;
}

static void get_name(const void *thing, face_value *v)
{
    const howdah_dead_letter *dl = thing;

    v->text = hw_str_of(dl->event ? dl->subscriber_id : dl->queue);
}

/* Of the event, also of one that a binding made into a job. */
static void get_type(const void *thing, face_value *v)
{
    const howdah_dead_letter *dl = thing;

    if (dl->event)
        v->text = hw_str_of(howdah_event_type(dl->event));
    else if (dl->job)
        v->text = hw_str_of(howdah_job_event_type(dl->job));
}

static void get_resolved_at(const void *thing, face_value *v)
{
    const howdah_dead_letter *dl = thing;

    v->number = dl->resolved_at_us;
    v->absent = !dl->resolved;
}

#define AT(member) FACE_AT(howdah_dead_letter, member)

static const face_field fields[] = {
    {"id", FACE_NUMBER, "dead letter", "id", .style = FACE_ASIDE, AT(id)},
    {"source", FACE_WORD, .head = "of", .style = FACE_ASIDE, AT(source)},
    {"name", FACE_TEXT, .get = get_name},
    {"number", FACE_NUMBER, .head = "seq/job", .style = FACE_ASIDE, .get = get_number},
    {"type", FACE_TEXT, .style = FACE_NAME, .blank = "-", .get = get_type},
    {"subscriber_id", FACE_TEXT, "subscription", AT(subscriber_id)},
    {"queue", FACE_TEXT, AT(queue)},
    {"job_id", FACE_NUMBER, "job", .get = get_job_id},
    {"error", FACE_STRING, AT(error)},
    {"attempts", FACE_NUMBER, "tries", AT(attempts)},
    {"redrives", FACE_NUMBER, AT(redrives)},
    {"state", FACE_WORD, AT(state)},
    {"reason", FACE_TEXT, AT(reason)},
    {"created_at", FACE_TIME, "created at", AT(created_at_us)},
    {"last_attempt_at", FACE_TIME, "last try at", AT(last_attempt_at_us)},
    {"resolved_at", FACE_TIME, "resolved at", .get = get_resolved_at},
    {"resolved_by", FACE_TEXT, "resolved by", AT(resolved_by)},
    {.name = NULL},
};

const face_entity face_dead_letter = {
    fields,
    .show = "id subscriber_id queue job_id state reason error attempts redrives created_at "
            "last_attempt_at resolved_at resolved_by",
    .table = "id source name number type attempts state error",
};

/* One object of two things: the dead letter, and the event or the job that it is about. */
void face_dead_letter_json(hw_buf *out, const howdah_dead_letter *dl)
{
    static const char fate[] = "error attempts redrives state reason created_at last_attempt_at "
                               "resolved_at resolved_by";
    bool first = true;

    assert(!dl->event || !dl->job);
    hw_buf_puts(out, "{");
    face_fields_json(out, fields, dl->event ? "id source subscriber_id" : "id source queue job_id",
                     dl, &first);
    if (dl->event)
        face_fields_json(out, face_event_fields, "event_id global_sequence stream version type",
                         dl->event, &first);
    face_fields_json(out, fields, fate, dl, &first);
    if (dl->event)
        face_fields_json(out, face_event_fields, "data content_type data_base64", dl->event,
                         &first);
    else if (dl->job)
        face_fields_json(out, face_job_pushed.fields, face_job_pushed.json, dl->job, &first);
    else
        hw_buf_puts(out, ",\"data\":null");
    hw_buf_puts(out, "}");
}
