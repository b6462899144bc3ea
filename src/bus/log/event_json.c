/* event_json.c - an event as one line of JSON, and times as text. */
#include <string.h>

#include "base/error.h"
#include "base/json_write.h"
#include "engine/event.h"

/*
 * Every line has the same keys, null where something is absent; only the two marks at the end are
 * there or not.
 */
static void put_event(hw_buf *out, const void *thing)
{
    const howdah_event *e = thing;

    if (e->global_sequence == HOWDAH_ABSENT)
        hw_buf_puts(out, "{\"global_sequence\":null");
    else
        hw_buf_printf(out, "{\"global_sequence\":%lld", (long long)e->global_sequence);
    hw_json_write_uuid(out, "id", true, &e->id);
    hw_json_write_text(out, "stream", e->stream);
    hw_json_write_number(out, "version", e->version);
    hw_json_write_text(out, "type", e->type);
    hw_json_write_payload(out, e->data, e->content_type);
    hw_buf_puts(out, ",\"headers\":");
    hw_json_write_line(out, e->headers.s ? e->headers : HW_STR_LIT("{}"));
    hw_json_write_text(out, "correlation_id", e->correlation_id);
    hw_json_write_uuid(out, "causation_id", e->has_causation, &e->causation_id);
    hw_json_write_time(out, "valid_time", e->valid_time_us);
    hw_json_write_time(out, "recorded_at", e->recorded_at_us);
    hw_json_write_uuid(out, "family", true, e->has_family ? &e->family : &e->id);
    hw_json_write_number(out, "revision", e->revision);
    hw_json_write_uuid(out, "corrects", e->has_corrects, &e->corrects);
    hw_json_write_text(out, "reason", e->reason);
    hw_json_write_text(out, "actor", e->actor);
    hw_json_write_number(out, "schema_version", e->schema_version);
    if (e->retracts)
        hw_buf_puts(out, ",\"retraction\":true");
    if (e->purged)
        hw_buf_puts(out, ",\"purged\":true");
    hw_buf_putc(out, '}');
}

/* Like snprintf(): a caller asks for the length with no room at all. */
size_t howdah_event_json(const howdah_event *event, char *out, size_t room)
{
    return event ? hw_json_print(put_event, event, out, out ? room : 0) : 0;
}

/* Public, so a time outside of the range is possible; it is shown as the nearest one inside. */
_Static_assert(HW_TIME_ABSENT == HOWDAH_NO_TIME, "one \"no time\", inside and outside");

void howdah_time_format(int64_t time_us, char ret_text[HOWDAH_TIME_SIZE])
{
    if (!ret_text)
        return;
    if (time_us < HW_TIME_MIN_US)
        time_us = HW_TIME_MIN_US;
    if (time_us > HW_TIME_MAX_US)
        time_us = HW_TIME_MAX_US;
    hw_time_format(time_us, ret_text);
}

int howdah_time_parse(const char *text, int64_t *ret_time_us, howdah_error *reterr)
{
    if (!text || !ret_time_us)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_time_parse: an argument is NULL");
    if (!hw_time_parse(text, strlen(text), ret_time_us))
        return hw_fail_field(reterr, HOWDAH_INVALID, "time",
                             "not RFC 3339 with an offset, like 2026-01-31T09:30:00Z, in a text "
                             "of %zu bytes",
                             strlen(text));
    return HOWDAH_OK;
}
