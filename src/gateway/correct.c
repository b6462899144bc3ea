/* correct.c - what was told wrong is told again, and what must be forgotten is erased. */
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "base/json_write.h"
#include "base/uuid.h"
#include "face/correction_in.h"
#include "face/events.h"
#include "face/json_in.h"
#include "gateway/handlers.h"
#include "gateway/server.h"

/* The path says what is corrected; a body that says something else is a mistake. */
static int take(gw_request *r, face_correction_in *in, howdah_error *reterr)
{
    hw_str body = {hw_buf_str(&r->body), r->body.len};
    howdah_correction *c = &in->correction;
    const char *key = gw_header(r, "Idempotency-Key");
    hw_uuid uuid;
    int s = face_object_check(body, reterr);

    if (s >= 0)
        s = face_correction_in_parse(in, body, gw_payload_max(r->gateway), reterr);
    if (s < 0)
        return s;
    if (c->event_id && strcmp(c->event_id, r->vars[0]) != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "corrects",
                             "is another event than the path's");
    c->event_id = r->vars[0];
    if (!key || c->id)
        return HOWDAH_OK;
    if (!hw_uuid_parse(key, strlen(key), &uuid))
        return hw_fail_field(reterr, HOWDAH_INVALID, "Idempotency-Key",
                             "must be a UUID: it becomes the correction's id");
    c->id = key;
    return HOWDAH_OK;
}

/* The answer names the stream of the family, which only the store knows. */
static int put(gw_request *r, howdah_bus *bus, const howdah_position *position,
               howdah_error *reterr)
{
    howdah_event *event = NULL;
    int s = howdah_event_get(bus, position->id, &event, reterr);

    if (s >= 0) {
        face_position_json(&r->answer.body, howdah_event_stream(event), position);
        hw_buf_putc(&r->answer.body, '\n');
        gw_answer_json(r, 201);
        gw_answer_header(r, "Location", "/v1/events/%s", position->id);
    }
    howdah_event_free(event);
    return s;
}

int gw_event_correct(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_position position = HOWDAH_POSITION_INIT;
    face_correction_in in;
    int s;

    face_correction_in_init(&in, gw_payload_max(r->gateway));
    s = take(r, &in, reterr);
    if (s >= 0)
        s = howdah_correct(bus, &in.correction, &position, reterr);
    if (s >= 0)
        s = put(r, bus, &position, reterr);
    face_correction_in_done(&in);
    return s;
}

int gw_event_purge(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_purge_record record = HOWDAH_PURGE_RECORD_INIT;
    hw_buf *out = &r->answer.body;
    int s;

    o.ids = &r->vars[0];
    o.ids_n = 1;
    o.families = true;
    o.reason = gw_arg_text(r, "reason");
    o.actor = gw_arg_text(r, "actor");
    if (!o.reason)
        return hw_fail_field(reterr, HOWDAH_INVALID, "reason", "is needed");
    s = howdah_purge(bus, &o, &record, reterr);
    if (s < 0)
        return s;
    hw_buf_printf(out, "{\"events\":%" PRId64, record.events);
    hw_json_write_number(out, "dead_letters", record.dead_letters);
    hw_json_write_number(out, "snapshots", record.snapshots);
    hw_json_write_number(out, "jobs", record.jobs);
    hw_json_write_number(out, "left", record.left);
    hw_buf_puts(out, "}\n");
    gw_answer_json(r, 200);
    return HOWDAH_OK;
}
