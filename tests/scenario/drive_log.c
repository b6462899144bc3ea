/* drive_log.c - the steps that append and read. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/mem.h"
#include "drive.h"
#include "face/events.h"
#include "face/snapshots.h"

#define BATCH_MAX 64

/* -------------------------------------------------------------------- append */

/* any, none, exists or a number; a word that is none of them no C caller can say. */
static int64_t expect_arg(step *s)
{
    static const struct {
        const char *word;
        int64_t value;
    } words[] = {
        {"any", HOWDAH_EXPECT_ANY}, {"none", HOWDAH_EXPECT_NONE}, {"exists", HOWDAH_EXPECT_EXISTS}};
    const char *text;
    hw_str value;

    if (!given(s, "expect", &value))
        return HOWDAH_EXPECT_ANY;
    if (hw_json_kind(value.s, value.len) != 's')
        return number_arg(s, "expect", HOWDAH_EXPECT_ANY);
    text = text_arg(s, "expect", NULL);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i].word) == 0)
            return words[i].value;
    s->unsayable = "expect";
    return HOWDAH_EXPECT_ANY;
}

static void set_payload(step *s, howdah_builder *b)
{
    const char *content_type = text_arg(s, "content_type", NULL);
    size_t len = 0;
    const char *data = bytes_arg(s, "data_base64", &len);

    if (data && !content_type)
        s->unsayable = "content_type";
    if (content_type && !data)
        s->unsayable = "data_base64";
    if (data)
        howdah_builder_set_bytes(b, data, len, content_type);
    data = text_arg(s, "data_text", &len);
    if (data)
        howdah_builder_set_json(b, data, len);
}

static int fill(step *s, howdah_builder *b, howdah_error *reterr)
{
    static const struct {
        const char *name;
        void (*set)(howdah_builder *builder, const char *text);
    } texts[] = {{"stream", howdah_builder_set_stream},
                 {"type", howdah_builder_set_type},
                 {"id", howdah_builder_set_id},
                 {"correlation_id", howdah_builder_set_correlation},
                 {"causation_id", howdah_builder_set_causation},
                 {"actor", howdah_builder_set_actor}};
    int64_t valid = HOWDAH_NO_TIME;
    size_t len = 0;
    const char *headers = raw_arg(s, "headers", &len);
    int status = time_arg(s, "valid_time", &valid, reterr);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = text_arg(s, texts[i].name, NULL);

        if (text)
            texts[i].set(b, text);
    }
    if (headers)
        howdah_builder_set_headers_json(b, headers, len);
    if (valid != HOWDAH_NO_TIME)
        howdah_builder_set_valid_time(b, valid);
    howdah_builder_set_schema_version(b, number_arg(s, "schema_version", 1));
    howdah_builder_set_expect(b, expect_arg(s));
    set_payload(s, b);
    return status;
}

static int build(step *s, howdah_event **ret_event, howdah_error *reterr)
{
    howdah_builder *b = NULL;
    int status = howdah_builder_new(&b, reterr);

    if (status >= 0)
        status = fill(s, b, reterr);
    if (status >= 0 && !s->unsayable)
        status = howdah_builder_build(b, ret_event, reterr);
    howdah_builder_free(b);
    return status;
}

static int append(step *s, howdah_error *reterr)
{
    howdah_position position = HOWDAH_POSITION_INIT;
    howdah_event *event = NULL;
    int status = build(s, &event, reterr);

    if (status >= 0 && event)
        status = howdah_append(s->bus, event, NULL, &position, reterr);
    if (status >= 0 && event)
        face_position_json(s->out, howdah_event_stream(event), &position);
    howdah_event_free(event);
    return status;
}

static int build_all(step *s, howdah_event **events, size_t *ret_n, howdah_error *reterr)
{
    hw_str list;
    hw_str item;
    size_t pos = 0;
    int status = HOWDAH_OK;

    if (!given(s, "events", &list))
        return HOWDAH_OK;
    while (status >= 0 && !s->unsayable && *ret_n < BATCH_MAX &&
           hw_json_item(list.s, list.len, &pos, &item)) {
        step one = {.bus = s->bus, .with = item};

        status = build(&one, &events[*ret_n], reterr);
        s->unsayable = one.unsayable;
        for (size_t i = 0; i < one.texts_n; i++)
            hw_free(one.texts[i]);
        if (status < 0 && reterr->event_index == HOWDAH_ABSENT)
            reterr->event_index = (int64_t)*ret_n;
        *ret_n += events[*ret_n] != NULL;
    }
    return status;
}

static int append_batch(step *s, howdah_error *reterr)
{
    howdah_position positions[BATCH_MAX] = {HOWDAH_POSITION_INIT};
    howdah_event *events[BATCH_MAX] = {NULL};
    size_t n = 0;
    int status = build_all(s, events, &n, reterr);

    if (status >= 0 && !s->unsayable)
        status = howdah_append_batch(s->bus, (const howdah_event *const *)events, n, NULL,
                                     positions, reterr);
    hw_buf_puts(s->out, "{\"events\":[");
    for (size_t i = 0; i < n; i++) {
        hw_buf_puts(s->out, i > 0 ? "," : "");
        face_position_json(s->out, howdah_event_stream(events[i]), &positions[i]);
        howdah_event_free(events[i]);
    }
    hw_buf_puts(s->out, "]}");
    return status;
}

/* ---------------------------------------------------------------------- read */

static int put_events(step *s, howdah_reader *reader, howdah_error *reterr)
{
    const howdah_event *event = NULL;
    bool first = true;
    int status;

    hw_buf_puts(s->out, "\"events\":[");
    while ((status = howdah_reader_next(reader, &event, reterr)) == HOWDAH_OK) {
        hw_buf_puts(s->out, first ? "" : ",");
        first = false;
        status = face_event_json(event, s->out, reterr);
        if (status < 0)
            return status;
    }
    hw_buf_puts(s->out, "]");
    return status;
}

static int read_log(step *s, howdah_error *reterr)
{
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    int64_t since = number_arg(s, "since", HOWDAH_ABSENT);
    int status;

    o.stream = text_arg(s, "stream", NULL);
    o.type = text_arg(s, "type", NULL);
    o.pattern = text_arg(s, "pattern", NULL);
    o.correlation_id = text_arg(s, "correlation", NULL);
    o.from = since != HOWDAH_ABSENT ? since + 1 : number_arg(s, "from", 0);
    o.to = number_arg(s, "to", 0);
    o.limit = number_arg(s, "limit", 0);
    o.backward = flag_arg(s, "backward");
    if (s->unsayable)
        return HOWDAH_OK;
    status = howdah_reader_open(s->bus, &o, &reader, reterr);
    hw_buf_puts(s->out, "{");
    if (status >= 0)
        status = put_events(s, reader, reterr);
    hw_buf_puts(s->out, "}");
    howdah_reader_close(reader);
    return status;
}

static int get(step *s, howdah_error *reterr)
{
    howdah_event *event = NULL;
    int status = howdah_event_get(s->bus, text_arg(s, "id", NULL), &event, reterr);

    if (status >= 0)
        status = face_event_json(event, s->out, reterr);
    howdah_event_free(event);
    return status;
}

static int on_trace(void *ctx, int depth, const howdah_event *event)
{
    step *s = ctx;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (s->out->data[s->out->len - 1] != '[')
        hw_buf_puts(s->out, ",");
    return face_trace_json(depth, event, s->out, &err);
}

static int trace(step *s, howdah_error *reterr)
{
    int status;

    hw_buf_puts(s->out, "{\"events\":[");
    status = howdah_causation_walk(s->bus, text_arg(s, "id", NULL), on_trace, s, reterr);
    hw_buf_puts(s->out, "]}");
    return status;
}

/* ----------------------------------------------------------------- two times */

static int correct(step *s, howdah_error *reterr)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;
    howdah_event *event = NULL;
    size_t len = 0;
    int status = time_arg(s, "valid_time", &c.valid_time_us, reterr);

    if (status < 0)
        return status;
    c.event_id = text_arg(s, "id", NULL);
    c.reason = text_arg(s, "reason", NULL);
    c.data = text_arg(s, "data_text", &c.data_len);
    c.headers = raw_arg(s, "headers", &len);
    c.actor = text_arg(s, "actor", NULL);
    c.id = text_arg(s, "correction_id", NULL);
    c.retract = flag_arg(s, "retract");
    c.schema_version = number_arg(s, "schema_version", 0);
    c.expected_revision = number_arg(s, "expect_revision", 0);
    if (s->unsayable)
        return HOWDAH_OK;
    status = howdah_correct(s->bus, &c, &position, reterr);
    if (status >= 0)
        status = howdah_event_get(s->bus, position.id, &event, reterr);
    if (status >= 0)
        face_position_json(s->out, howdah_event_stream(event), &position);
    howdah_event_free(event);
    return status;
}

static const char *const orders[] = {"sequence", "valid", "recorded"};

static int query_of(step *s, howdah_query_options *o, howdah_error *reterr)
{
    const char *order = text_arg(s, "order", NULL);
    hw_str value;
    int status = time_arg(s, "valid_at", &o->valid_at_us, reterr);

    if (status >= 0)
        status = time_arg(s, "known_at", &o->known_at_us, reterr);
    if (status >= 0)
        status = time_arg(s, "valid_from", &o->valid_from_us, reterr);
    if (status >= 0)
        status = time_arg(s, "valid_before", &o->valid_before_us, reterr);
    o->stream = text_arg(s, "stream", NULL);
    o->type = text_arg(s, "type", NULL);
    o->pattern = text_arg(s, "pattern", NULL);
    o->correlation_id = text_arg(s, "correlation", NULL);
    o->causation_id = text_arg(s, "causation", NULL);
    o->family = text_arg(s, "versions", NULL);
    o->backward = flag_arg(s, "backward");
    o->limit = number_arg(s, "limit", 0);
    if (flag_arg(s, "originals"))
        o->view = HOWDAH_VIEW_ORIGINALS;
    else if (flag_arg(s, "current") || given(s, "known_at", &value) || given(s, "valid_at", &value))
        o->view = HOWDAH_VIEW_AS_OF;
    for (size_t i = 0; order && i < sizeof orders / sizeof *orders; i++)
        if (strcmp(order, orders[i]) == 0)
            o->order = (howdah_order)i;
    return status;
}

static int as_of(step *s, howdah_error *reterr)
{
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_knowledge k = HOWDAH_KNOWLEDGE_INIT;
    howdah_reader *reader = NULL;
    const char *pair[2] = {text_arg(s, "header_name", NULL), text_arg(s, "header_value", NULL)};
    int status = query_of(s, &o, reterr);

    o.headers = pair;
    o.headers_n = pair[0] ? 1 : 0;
    if (s->unsayable)
        return HOWDAH_OK;
    if (status >= 0)
        status = howdah_query_open(s->bus, &o, &reader, reterr);
    if (status >= 0)
        (void)howdah_reader_knowledge(reader, &k);
    hw_buf_printf(s->out, "{\"final\":%s,", k.final ? "true" : "false");
    if (status >= 0)
        status = put_events(s, reader, reterr);
    hw_buf_puts(s->out, "}");
    howdah_reader_close(reader);
    return status;
}

static int on_change(void *ctx, howdah_change change, const howdah_event *before,
                     const howdah_event *after)
{
    step *s = ctx;
    howdah_error err = HOWDAH_ERROR_INIT;

    if (s->out->data[s->out->len - 1] != '[')
        hw_buf_puts(s->out, ",");
    return face_change_json(change, before, after, false, s->out, &err);
}

static int diff(step *s, howdah_error *reterr)
{
    howdah_diff_options o = HOWDAH_DIFF_OPTIONS_INIT;
    int status = time_arg(s, "known_at", &o.known_at_us, reterr);

    if (status >= 0)
        status = time_arg(s, "to", &o.to_us, reterr);
    if (status < 0)
        return status;
    o.stream = text_arg(s, "stream", NULL);
    o.type = text_arg(s, "type", NULL);
    o.pattern = text_arg(s, "pattern", NULL);
    o.limit = number_arg(s, "limit", 0);
    hw_buf_puts(s->out, "{\"changes\":[");
    status = howdah_diff(s->bus, &o, on_change, s, NULL, reterr);
    hw_buf_puts(s->out, "]}");
    return status;
}

static int purge(step *s, howdah_error *reterr)
{
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    howdah_purge_record r = HOWDAH_PURGE_RECORD_INIT;
    const char *id = text_arg(s, "id", NULL);
    int status;

    o.ids = &id;
    o.ids_n = 1;
    o.families = true;
    o.reason = text_arg(s, "reason", NULL);
    o.actor = text_arg(s, "actor", NULL);
    status = howdah_purge(s->bus, &o, &r, reterr);
    hw_buf_printf(s->out, "{\"events\":%" PRId64 ",\"dead_letters\":%" PRId64, r.events,
                  r.dead_letters);
    hw_json_write_number(s->out, "snapshots", r.snapshots);
    hw_json_write_number(s->out, "jobs", r.jobs);
    hw_json_write_number(s->out, "left", r.left);
    hw_buf_puts(s->out, "}");
    return status;
}

/* ----------------------------------------------------------------- snapshots */

static int snapshot_put(step *s, howdah_error *reterr)
{
    howdah_snapshot snapshot = HOWDAH_SNAPSHOT_INIT;

    snapshot.stream = text_arg(s, "stream", NULL);
    snapshot.version = number_arg(s, "version", 0);
    snapshot.data = text_arg(s, "data_text", &snapshot.data_len);
    snapshot.schema_version = number_arg(s, "schema_version", 1);
    return howdah_snapshot_store(s->bus, &snapshot, number_arg(s, "keep", 0), reterr);
}

static int on_snapshot(void *ctx, const howdah_snapshot *snapshot)
{
    step *s = ctx;

    if (s->out->data[s->out->len - 1] != '[')
        hw_buf_puts(s->out, ",");
    face_entity_json(s->out, &face_snapshot, snapshot, "");
    return 0;
}

static int snapshots(step *s, howdah_error *reterr)
{
    int status;

    hw_buf_puts(s->out, "{\"snapshots\":[");
    status = howdah_snapshots_walk(s->bus, text_arg(s, "stream", NULL), on_snapshot, s, reterr);
    hw_buf_puts(s->out, "]}");
    return status;
}

static int state(step *s, howdah_error *reterr)
{
    howdah_snapshot *snapshot = NULL;
    howdah_reader *reader = NULL;
    int status = howdah_state_open(s->bus, text_arg(s, "stream", NULL), number_arg(s, "version", 0),
                                   &snapshot, &reader, reterr);

    if (status < 0)
        return status;
    hw_buf_puts(s->out, "{\"snapshot\":");
    if (snapshot)
        face_entity_json(s->out, &face_snapshot, snapshot, "");
    else
        hw_buf_puts(s->out, "null");
    hw_buf_puts(s->out, ",");
    status = put_events(s, reader, reterr);
    hw_buf_puts(s->out, "}");
    howdah_reader_close(reader);
    howdah_snapshot_free(snapshot);
    return status;
}

static int on_fact(void *ctx, const howdah_fact *fact)
{
    step *s = ctx;

    if (strcmp(fact->key, "head") == 0)
        hw_buf_printf(s->out, "{\"head\":%s}", fact->value);
    return 0;
}

static int head(step *s, howdah_error *reterr)
{
    return howdah_facts_walk(s->bus, on_fact, s, reterr);
}

const action log_actions[] = {{"append", append},       {"append_batch", append_batch},
                              {"read", read_log},       {"get", get},
                              {"trace", trace},         {"correct", correct},
                              {"as_of", as_of},         {"diff", diff},
                              {"purge", purge},         {"snapshot_put", snapshot_put},
                              {"snapshots", snapshots}, {"state", state},
                              {"head", head},           {NULL, NULL}};
