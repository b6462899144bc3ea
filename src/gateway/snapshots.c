/* snapshots.c - states of streams that clients have computed, and what came after them. */
#include <string.h>

#include "base/error.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "base/text.h"
#include "face/events.h"
#include "face/snapshots.h"
#include "gateway/fields_in.h"
#include "gateway/handlers.h"
#include "gateway/server.h"

#define ANSWER_BYTES ((size_t)64 * 1024 * 1024)

static int on_snapshot(void *ctx, const howdah_snapshot *snapshot)
{
    hw_buf *out = ctx;

    hw_buf_puts(out, out->data[out->len - 1] == '[' ? "" : ",");
    face_entity_json(out, &face_snapshot, snapshot, "");
    return 0;
}

/* Without their data. */
int gw_snapshots(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int s;

    hw_buf_puts(&r->answer.body, "{\"snapshots\":[");
    s = howdah_snapshots_walk(bus, r->vars[0], on_snapshot, &r->answer.body, reterr);
    hw_buf_puts(&r->answer.body, "]}\n");
    gw_answer_json(r, 200);
    return s;
}

static int take_version(const char *text, int64_t *ret_version, howdah_error *reterr)
{
    if (hw_parse_i64(text, 1, INT64_MAX, ret_version))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, "version", "expected a version, 1 or more");
}

/* The data as it came: JSON, or text with its content type. */
int gw_snapshot_put(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    howdah_snapshot snapshot = HOWDAH_SNAPSHOT_INIT;
    int64_t keep = 0;
    int s = take_version(r->vars[1], &snapshot.version, reterr);

    if (s >= 0)
        s = gw_arg_number(r, "keep", 1, INT32_MAX, &keep, reterr);
    if (s >= 0)
        s = gw_arg_number(r, "schema_version", 1, INT32_MAX, &snapshot.schema_version, reterr);
    if (s < 0)
        return s;
    snapshot.stream = r->vars[0];
    snapshot.data = hw_buf_str(&r->body);
    snapshot.data_len = r->body.len;
    if (!gw_body_is(r, "application/json"))
        snapshot.content_type = gw_header(r, "Content-Type");
    r->answer.http_status = 204;
    return howdah_snapshot_store(bus, &snapshot, keep, reterr);
}

int gw_snapshots_remove(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    int64_t upto = 0;
    int64_t n = 0;
    int s = gw_arg_number(r, "upto", 0, INT64_MAX, &upto, reterr);

    if (s >= 0)
        s = howdah_snapshots_remove(bus, r->vars[0], upto, &n, reterr);
    hw_buf_printf(&r->answer.body, "{\"count\":%lld}\n", (long long)n);
    gw_answer_json(r, 200);
    return s;
}

static int put_events(gw_request *r, howdah_reader *reader, howdah_error *reterr)
{
    hw_buf *out = &r->answer.body;
    const howdah_event *event = NULL;
    bool first = true;
    int s;

    while ((s = howdah_reader_next(reader, &event, reterr)) == HOWDAH_OK) {
        hw_buf_puts(out, first ? "" : ",");
        first = false;
        s = face_event_json(event, out, reterr);
        if (s < 0)
            return s;
        if (out->len > ANSWER_BYTES) {
            s = hw_fail(reterr, HOWDAH_LIMIT, "the answer is over %zu bytes", ANSWER_BYTES);
            return hw_advise(reterr, s, "store a snapshot nearer to this version");
        }
    }
    return s < 0 ? s : HOWDAH_OK;
}

/* The nearest snapshot, and the events after it. */
int gw_stream_state(gw_request *r, howdah_bus *bus, howdah_error *reterr)
{
    hw_buf *out = &r->answer.body;
    howdah_snapshot *snapshot = NULL;
    howdah_reader *reader = NULL;
    int64_t version = 0;
    int s = gw_arg_number(r, "version", 0, INT64_MAX, &version, reterr);

    if (s >= 0)
        s = howdah_state_open(bus, r->vars[0], version, &snapshot, &reader, reterr);
    if (s < 0)
        return s;
    hw_buf_puts(out, "{\"snapshot\":");
    if (snapshot)
        face_entity_json(out, &face_snapshot, snapshot, "");
    else
        hw_buf_puts(out, "null");
    hw_buf_puts(out, ",\"events\":[");
    s = put_events(r, reader, reterr);
    hw_buf_puts(out, "]}\n");
    howdah_reader_close(reader);
    howdah_snapshot_free(snapshot);
    gw_answer_json(r, 200);
    return s;
}
