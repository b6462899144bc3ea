/* face_c.c - the rules, the builder, and appending through the library. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "base/uuid.h"
#include "engine/event.h"
#include "engine/rules.h"
#include "property.h"

static hw_str str_of(const text *t)
{
    return t->has ? (hw_str){hw_buf_str(&t->buf), t->buf.len} : HW_STR_NULL;
}

static const char *c_str(const text *t)
{
    return t->has ? hw_buf_str(&t->buf) : NULL;
}

/* ------------------------------------------------------------------------ rules */

bool candidate_time(const candidate *c, int64_t *ret_us)
{
    if (c->valid_time.has)
        return hw_time_parse(hw_buf_str(&c->valid_time.buf), c->valid_time.buf.len, ret_us);
    *ret_us = c->valid_time_us;
    return true;
}

static bool breaks_rule(const candidate *c, field f)
{
    hw_uuid uuid;
    int64_t us;

    switch (f) {
    case F_STREAM:
        return hw_rule_stream(str_of(&c->stream), NULL) < 0;
    case F_TYPE:
        return hw_rule_type(str_of(&c->type), NULL) < 0;
    case F_DATA:
        return (c->content_type.has ? hw_rule_bytes(c->data.buf.len, PAYLOAD_MAX, NULL)
                                    : hw_rule_json(str_of(&c->data), PAYLOAD_MAX, NULL)) < 0;
    case F_CONTENT_TYPE:
        return c->content_type.has && hw_rule_content_type(str_of(&c->content_type), NULL) < 0;
    case F_HEADERS:
        return c->headers.has && hw_rule_headers(str_of(&c->headers), NULL) < 0;
    case F_CORRELATION:
        return c->correlation.has && hw_rule_name("x", str_of(&c->correlation), NULL) < 0;
    case F_ACTOR:
        return c->actor.has && hw_rule_name("x", str_of(&c->actor), NULL) < 0;
    case F_ID:
        return !hw_uuid_parse(hw_buf_str(&c->id.buf), c->id.buf.len, &uuid);
    case F_CAUSATION:
        return c->causation.has &&
               !hw_uuid_parse(hw_buf_str(&c->causation.buf), c->causation.buf.len, &uuid);
    case F_VALID_TIME:
        return (c->valid_time.has || c->has_valid_time_us) &&
               (!candidate_time(c, &us) || hw_rule_valid_time(us, NULL) < 0);
    case F_SCHEMA_VERSION:
        return c->has_schema_version && hw_rule_schema_version(c->schema_version, NULL) < 0;
    case F_EXPECTED:
        return c->expects && hw_rule_expected(c->expected, NULL) < 0;
    default:
        return false;
    }
}

static bool is_sql_text(const text *t)
{
    hw_str s = str_of(t);

    return !s.s || (hw_utf8_valid(s.s, s.len) && !memchr(s.s, '\0', s.len));
}

static bool cannot_be_sql(const candidate *c)
{
    const text *const texts[] = {&c->stream,  &c->type,        &c->content_type,
                                 &c->headers, &c->correlation, &c->actor};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!is_sql_text(texts[i]))
            return true;
    return !c->content_type.has && !is_sql_text(&c->data);
}

void judge_by_rules(const candidate *c, judgement *j)
{
    /* The order of hw_rule_event(). */
    static const field order[] = {F_STREAM,         F_TYPE,        F_CONTENT_TYPE, F_DATA,
                                  F_HEADERS,        F_CORRELATION, F_ACTOR,        F_VALID_TIME,
                                  F_SCHEMA_VERSION, F_EXPECTED,    F_ID,           F_CAUSATION};

    memset(j, 0, sizeof *j);
    j->first = F_NONE;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (!breaks_rule(c, order[i]))
            continue;
        if (j->first == F_NONE)
            j->first = order[i];
        j->faults |= BIT(order[i]);
    }
    j->outcome = j->faults ? REFUSED : STORED;
    if (!j->faults && c->expects && c->expected != HOWDAH_EXPECT_ANY &&
        !(c->expected == HOWDAH_EXPECT_EXISTS ? c->before > 0 : c->expected == c->before))
        j->outcome = CONFLICT;
    j->cannot_be_sql = cannot_be_sql(c);
    j->by[FACE_RULES] = (verdict){.outcome = j->outcome, .field = j->first, .actual = c->before};
}

/* ---------------------------------------------------------------------- verdicts */

static verdict verdict_of(int status, const howdah_error *err)
{
    verdict v = {.outcome = STORED, .field = F_NONE};

    if (status >= 0)
        return v;
    v.outcome = BROKEN;
    if (status == HOWDAH_CONFLICT) {
        v.outcome = CONFLICT;
        v.actual = err->actual_version;
    } else if (status == HOWDAH_INVALID || status == HOWDAH_LIMIT) {
        v.outcome = REFUSED;
        v.field = field_of(hw_str_of(err->field));
    }
    (void)snprintf(v.text, sizeof v.text, "%s %.150s", howdah_status_name(status), err->message);
    return v;
}

static void set_headers(const candidate *c, howdah_builder *b)
{
    if (c->header_pairs) {
        for (size_t i = 0; i < c->pairs_n; i++)
            howdah_builder_add_header(b, hw_buf_str(&c->pair_name[i].buf),
                                      hw_buf_str(&c->pair_value[i].buf));
    } else if (c->headers.has) {
        howdah_builder_set_headers_json(b, hw_buf_str(&c->headers.buf), c->headers.buf.len);
    }
}

static int fill(const candidate *c, howdah_builder *b, howdah_error *err)
{
    int64_t us = 0;

    howdah_builder_reset(b);
    howdah_builder_set_id(b, c_str(&c->id));
    howdah_builder_set_stream(b, c_str(&c->stream));
    howdah_builder_set_type(b, c_str(&c->type));
    if (c->content_type.has)
        howdah_builder_set_bytes(b, hw_buf_str(&c->data.buf), c->data.buf.len,
                                 c_str(&c->content_type));
    else
        howdah_builder_set_json(b, hw_buf_str(&c->data.buf), c->data.buf.len);
    set_headers(c, b);
    howdah_builder_set_correlation(b, c_str(&c->correlation));
    howdah_builder_set_causation(b, c_str(&c->causation));
    howdah_builder_set_actor(b, c_str(&c->actor));
    if (c->valid_time.has) {
        int s = howdah_time_parse(hw_buf_str(&c->valid_time.buf), &us, err);

        if (s < 0)
            return s;
        howdah_builder_set_valid_time(b, us);
    } else if (c->has_valid_time_us) {
        howdah_builder_set_valid_time(b, c->valid_time_us);
    }
    if (c->has_schema_version)
        howdah_builder_set_schema_version(b, c->schema_version);
    if (c->expects)
        howdah_builder_set_expect(b, c->expected);
    return HOWDAH_OK;
}

void judge_by_builder(const candidate *c, howdah_builder *builder, judgement *j,
                      howdah_event **ret_event)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = NULL;
    int s = fill(c, builder, &err);

    if (s < 0) /* a time by itself is "time" */
        (void)snprintf(err.field, sizeof err.field, "valid_time");
    if (s == HOWDAH_OK)
        s = howdah_builder_build(builder, &event, &err);
    /* The builder knows only the hard limit of a payload; a bus has its own. */
    if (s == HOWDAH_OK)
        s = hw_rule_event(event, PAYLOAD_MAX, &err);
    j->by[FACE_BUILDER] = verdict_of(s, &err);
    j->by[FACE_BUILDER].unordered = true; /* setters report before rules */
    if (j->by[FACE_BUILDER].outcome == STORED)
        j->by[FACE_BUILDER].outcome = j->outcome == CONFLICT ? CONFLICT : STORED;
    j->by[FACE_BUILDER].actual = c->before;
    *ret_event = event;
}

/* --------------------------------------------------------------------- appending */

verdict judge_by_append(store *s, const howdah_event *event)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_position place = HOWDAH_POSITION_INIT;
    verdict v = verdict_of(howdah_append(s->bus, event, NULL, &place, &err), &err);

    if (v.outcome == STORED)
        s->stored++;
    return v;
}

bool raw_event_possible(const candidate *c)
{
    int64_t us;

    return !breaks_rule(c, F_ID) && !breaks_rule(c, F_CAUSATION) && candidate_time(c, &us) &&
           (!c->has_valid_time_us || c->valid_time_us != HW_TIME_ABSENT) &&
           c->schema_version >= INT32_MIN && c->schema_version <= INT32_MAX;
}

/* The record as it is, unchecked: what a builder would not have let through. */
verdict judge_raw_by_append(store *s, const candidate *c)
{
    howdah_event e;

    hw_event_init(&e);
    e.stream = str_of(&c->stream);
    e.type = str_of(&c->type);
    e.data = str_of(&c->data);
    e.content_type = str_of(&c->content_type);
    e.headers = str_of(&c->headers);
    e.correlation_id = str_of(&c->correlation);
    e.actor = str_of(&c->actor);
    (void)hw_uuid_parse(hw_buf_str(&c->id.buf), c->id.buf.len, &e.id);
    if (c->causation.has)
        e.has_causation =
            hw_uuid_parse(hw_buf_str(&c->causation.buf), c->causation.buf.len, &e.causation_id);
    if (c->valid_time.has || c->has_valid_time_us)
        (void)candidate_time(c, &e.valid_time_us);
    if (c->has_schema_version)
        e.schema_version = (int32_t)c->schema_version;
    e.expects = c->expects;
    e.expected_version = c->expected;
    return judge_by_append(s, &e);
}

howdah_event *plain_event(const candidate *c, unsigned k)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    char id[HOWDAH_UUID_SIZE];
    char stream[64];

    candidate_id(c->number, k, id);
    (void)snprintf(stream, sizeof stream, "case-%" PRIu64, c->number);
    if (howdah_builder_new(&b, &err) < 0)
        die("%s", err.message);
    howdah_builder_set_id(b, id);
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, "case.before");
    if (howdah_builder_build(b, &event, &err) < 0)
        die("%s", err.message);
    howdah_builder_free(b);
    return event;
}

size_t append_all(store *s, howdah_event *const *events, size_t n, verdict *ret_verdict)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const howdah_event *const *all = (const howdah_event *const *)events;

    if (n == 0 || howdah_append_batch(s->bus, all, n, NULL, NULL, &err) >= 0) {
        s->stored += (int64_t)n;
        return n;
    }
    for (size_t i = 0; i < n; i++) {
        *ret_verdict = judge_by_append(s, events[i]);
        if (ret_verdict->outcome != STORED)
            return i;
    }
    *ret_verdict = (verdict){.outcome = BROKEN};
    (void)snprintf(ret_verdict->text, sizeof ret_verdict->text,
                   "refused together, stored one by one: %.120s", err.message);
    return 0;
}

/* ------------------------------------------------------------------- coming back */

static bool same(hw_str a, const char *b, size_t b_len)
{
    return a.s ? b && a.len == b_len && memcmp(a.s, b, b_len) == 0 : b == NULL;
}

static bool same_text(const text *t, const char *stored)
{
    return same(str_of(t), stored, stored ? strlen(stored) : 0);
}

static hw_str trim(hw_str s)
{
    while (s.len > 0 && memchr(" \t\r\n", s.s[s.len - 1], 4))
        s.len--;
    while (s.len > 0 && memchr(" \t\r\n", *s.s, 4)) {
        s.s++;
        s.len--;
    }
    return s;
}

static bool same_document(hw_str sent, bool trimmed, const char *stored, size_t len)
{
    return same(trimmed ? trim(sent) : sent, stored, len);
}

static bool same_valid_time(const candidate *c, const howdah_event *event)
{
    int64_t sent;
    int64_t stored;

    if (!c->valid_time.has && !c->has_valid_time_us)
        return true;
    return candidate_time(c, &sent) && howdah_event_valid_time(event, &stored) && sent == stored;
}

static bool same_causation(const candidate *c, const howdah_event *event)
{
    char stored[HOWDAH_UUID_SIZE];

    if (!howdah_event_causation(event, stored))
        return !c->causation.has;
    return c->causation.has && strcasecmp(stored, hw_buf_str(&c->causation.buf)) == 0;
}

const char *differs_from_case(const howdah_event *event, const candidate *c, bool trimmed)
{
    size_t data_len;
    size_t headers_len;
    const char *data = howdah_event_data(event, &data_len);
    const char *headers = howdah_event_headers(event, &headers_len);
    hw_str sent_headers = c->headers.has ? str_of(&c->headers) : HW_STR_LIT("{}");

    if (!same_text(&c->stream, howdah_event_stream(event)))
        return "stream";
    if (!same_text(&c->type, howdah_event_type(event)))
        return "type";
    if (!same_text(&c->content_type, howdah_event_content_type(event)))
        return "content_type";
    if (!same_document(str_of(&c->data), trimmed && !c->content_type.has, data, data_len))
        return "data";
    if (!same_document(sent_headers, trimmed, headers, headers_len))
        return "headers";
    if (!same_text(&c->correlation, howdah_event_correlation(event)))
        return "correlation_id";
    if (!same_text(&c->actor, howdah_event_actor(event)))
        return "actor";
    if (!same_causation(c, event))
        return "causation_id";
    if (!same_valid_time(c, event))
        return "valid_time";
    if (howdah_event_schema_version(event) != (c->has_schema_version ? c->schema_version : 1))
        return "schema_version";
    return NULL;
}
