/*
 * rules.c - the one verdict on names, documents and numbers.
 *
 * Every refusal goes through hw_fail_field(), with the rule and the length; none prints the value.
 */
#include "engine/rules.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

/* --------------------------------------------------------------------- names */

/* 1..max bytes, UTF-8, no control characters.  what is "", or says which part of the field. */
static int check_text(const char *field, const char *what, hw_str text, size_t max,
                      howdah_error *reterr)
{
    if (text.len < 1 || text.len > max)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "%smust be 1 to %zu bytes, got %zu",
                             what, max, text.len);
    if (!hw_utf8_valid(text.s, text.len))
        return hw_fail_field(reterr, HOWDAH_INVALID, field,
                             "%smust be UTF-8, got %zu bytes that are not", what, text.len);
    if (hw_utf8_has_control(text.s, text.len))
        return hw_fail_field(reterr, HOWDAH_INVALID, field,
                             "%smust not have control characters, got %zu bytes with one", what,
                             text.len);
    return HOWDAH_OK;
}

/* Absent and empty are different mistakes, and get different messages. */
static int check_name(const char *field, hw_str name, size_t max, howdah_error *reterr)
{
    if (!name.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "is required");
    return check_text(field, "", name, max, reterr);
}

int hw_rule_stream(hw_str stream, howdah_error *reterr)
{
    return check_name("stream", stream, HW_NAME_MAX, reterr);
}

int hw_rule_name(const char *field, hw_str name, howdah_error *reterr)
{
    return check_name(field, name, HW_NAME_MAX, reterr);
}

int hw_rule_reason(hw_str reason, howdah_error *reterr)
{
    return check_name("reason", reason, HW_REASON_MAX, reterr);
}

/*
 * PostgreSQL keeps pg_ for itself. 48 bytes leave room for "_control" and "_events" in the names
 * of channels, which PostgreSQL cuts at 63.
 */
int hw_rule_schema_name(hw_str name, howdah_error *reterr)
{
    int s = check_name("schema", name, HW_SCHEMA_NAME_MAX, reterr);

    if (s < 0)
        return s;
    if (name.len >= 3 && memcmp(name.s, "pg_", 3) == 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, "schema",
                             "must not start with pg_, in a name of %zu bytes", name.len);
    /* The bodies of our SQL functions name the schema, and this quotes them: it would end one. */
    if (memmem(name.s, name.len, HW_BODY_QUOTE, strlen(HW_BODY_QUOTE)))
        return hw_fail_field(reterr, HOWDAH_INVALID, "schema",
                             "must not contain " HW_BODY_QUOTE ", in a name of %zu bytes",
                             name.len);
    return HOWDAH_OK;
}

/* -------------------------------------------------------- types and patterns */

static bool is_type_byte(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/*
 * What is wrong with one segment, or NULL.  A wildcard is a whole segment; "or*" is neither a
 * type nor a pattern.
 */
static const char *segment_flaw(hw_str segment, bool wild, bool last)
{
    if (segment.len == 0)
        return "is empty";
    if (wild && segment.len == 1 && segment.s[0] == '*')
        return NULL;
    if (wild && segment.len == 1 && segment.s[0] == '>')
        return last ? NULL : "is a > but not the last";
    for (size_t i = 0; i < segment.len; i++) {
        if (!is_type_byte(segment.s[i]))
            return "has a byte outside A-Z a-z 0-9 _ -";
    }
    return NULL;
}

/*
 * field is also the noun: "type", "pattern".  The number of the segment is in the message,
 * because the text itself is not.
 */
static int check_segments(const char *field, hw_str text, bool wild, howdah_error *reterr)
{
    const char *p = text.s;
    const char *end;

    if (!text.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "is required");
    if (text.len < 1 || text.len > HW_NAME_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "must be 1 to %d bytes, got %zu",
                             HW_NAME_MAX, text.len);
    end = p + text.len;
    for (unsigned number = 1;; number++) {
        const char *dot = memchr(p, '.', (size_t)(end - p));
        hw_str segment = {p, (size_t)((dot ? dot : end) - p)};
        const char *why = segment_flaw(segment, wild, dot == NULL);

        if (number > HW_TYPE_SEGMENTS_MAX)
            return hw_fail_field(reterr, HOWDAH_INVALID, field,
                                 "must have at most %d segments, in a %s of %zu bytes",
                                 HW_TYPE_SEGMENTS_MAX, field, text.len);
        if (why)
            return hw_fail_field(reterr, HOWDAH_INVALID, field,
                                 "segment %u %s, in a %s of %zu bytes", number, why, field,
                                 text.len);
        if (!dot)
            return HOWDAH_OK;
        p = dot + 1;
    }
}

int hw_rule_type(hw_str type, howdah_error *reterr)
{
    return check_segments("type", type, false, reterr);
}

int hw_rule_pattern(hw_str pattern, howdah_error *reterr)
{
    return check_segments("pattern", pattern, true, reterr);
}

/* ------------------------------------------------------------------ documents */

/* Only the form is checked; whether the type is registered anywhere is not asked. */
int hw_rule_content_type(hw_str content_type, howdah_error *reterr)
{
    const char *slash;

    if (!content_type.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "content_type", "is required");
    if (content_type.len < 3 || content_type.len > HW_NAME_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "content_type",
                             "must be 3 to %d bytes, got %zu", HW_NAME_MAX, content_type.len);
    for (size_t i = 0; i < content_type.len; i++) {
        if (content_type.s[i] < 0x20 || content_type.s[i] > 0x7E)
            return hw_fail_field(reterr, HOWDAH_INVALID, "content_type",
                                 "must be printable ASCII, got %zu bytes that are not",
                                 content_type.len);
    }
    slash = memchr(content_type.s + 1, '/', content_type.len - 2);
    if (!slash)
        return hw_fail_field(reterr, HOWDAH_INVALID, "content_type",
                             "must have a / inside, got %zu bytes without", content_type.len);
    return HOWDAH_OK;
}

/* The place is a byte offset, so that a user can find it without our printing the document. */
static int fail_json(const char *field, const hw_json_flaw *flaw, size_t len, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_INVALID, field, "not valid JSON at byte %zu of %zu: %s",
                         flaw->offset, len, flaw->why);
}

/*
 * The rule for a header's name is about what it means, not how it is escaped.  Most names have no
 * escape and need no memory.
 */
static int check_header_name(hw_str raw, howdah_error *reterr)
{
    hw_buf name = HW_BUF_INIT(HW_HEADERS_MAX); /* unescaping only shortens */
    int s;

    if (!memchr(raw.s, '\\', raw.len))
        return check_text("headers", "a name ", raw, HW_NAME_MAX, reterr);
    hw_json_unescape(raw.s, raw.len, &name);
    s = hw_buf_check(&name, reterr);
    if (s == HOWDAH_OK)
        s = check_text("headers", "a name ", (hw_str){name.data, name.len}, HW_NAME_MAX, reterr);
    hw_buf_done(&name);
    return s;
}

/* The walk over the members is allowed only after the whole text was found valid. */
int hw_rule_headers(hw_str headers, howdah_error *reterr)
{
    hw_json_flaw flaw;
    hw_str name;
    hw_str value;
    size_t pos = 0;

    if (!headers.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "is required");
    if (headers.len > HW_HEADERS_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers", "must be at most %d bytes, got %zu",
                             HW_HEADERS_MAX, headers.len);
    if (!hw_json_valid(headers.s, headers.len, HW_JSON_DEPTH_MAX, &flaw))
        return fail_json("headers", &flaw, headers.len, reterr);
    if (hw_json_kind(headers.s, headers.len) != 'o')
        return hw_fail_field(reterr, HOWDAH_INVALID, "headers",
                             "must be a JSON object, got %zu bytes of another kind", headers.len);
    while (hw_json_member(headers.s, headers.len, &pos, &name, &value)) {
        int s = check_header_name(name, reterr);

        if (s < 0)
            return s;
        if (hw_json_kind(value.s, value.len) != 's')
            return hw_fail_field(reterr, HOWDAH_INVALID, "headers",
                                 "every value must be a string, got %zu bytes of another kind",
                                 value.len);
    }
    return HOWDAH_OK;
}

/* The lower of the setting and the hard limit counts. */
static int check_payload_size(size_t len, size_t bytes_max, howdah_error *reterr)
{
    size_t max = bytes_max < HW_PAYLOAD_HARD_MAX ? bytes_max : HW_PAYLOAD_HARD_MAX;

    if (len > max)
        return hw_fail_field(reterr, HOWDAH_LIMIT, "data", "must be at most %zu bytes, got %zu",
                             max, len);
    return HOWDAH_OK;
}

int hw_rule_json(hw_str data, size_t bytes_max, howdah_error *reterr)
{
    hw_json_flaw flaw;
    int s;

    if (!data.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data", "is required");
    s = check_payload_size(data.len, bytes_max, reterr);
    if (s < 0)
        return s;
    if (!hw_json_valid(data.s, data.len, HW_JSON_DEPTH_MAX, &flaw))
        return fail_json("data", &flaw, data.len, reterr);
    return HOWDAH_OK;
}

int hw_rule_bytes(size_t len, size_t bytes_max, howdah_error *reterr)
{
    return check_payload_size(len, bytes_max, reterr);
}

int hw_rule_numbers(const hw_number_rule *rules, size_t n, howdah_error *reterr)
{
    for (size_t i = 0; i < n; i++)
        if (rules[i].value < rules[i].min || rules[i].value > rules[i].max)
            return hw_fail_field(reterr, HOWDAH_INVALID, rules[i].field,
                                 "must be %lld to %lld%s, not %lld%s", (long long)rules[i].min,
                                 (long long)rules[i].max, rules[i].unit, (long long)rules[i].value,
                                 rules[i].unit);
    return HOWDAH_OK;
}

/* No content type means JSON (event.h I3); with one the bytes are not looked at. */
int hw_rule_payload(hw_str data, hw_str content_type, size_t bytes_max, howdah_error *reterr)
{
    int s;

    if (!content_type.s)
        return hw_rule_json(data, bytes_max, reterr);
    if (!data.s)
        return hw_fail_field(reterr, HOWDAH_INVALID, "data", "is required");
    s = hw_rule_content_type(content_type, reterr);
    return s < 0 ? s : hw_rule_bytes(data.len, bytes_max, reterr);
}

/* -------------------------------------------------------------------- numbers */

int hw_rule_valid_time(int64_t valid_time_us, howdah_error *reterr)
{
    if (valid_time_us < HW_TIME_MIN_US || valid_time_us > HW_TIME_MAX_US)
        return hw_fail_field(reterr, HOWDAH_INVALID, "valid_time",
                             "must be within the years 1 to 9999");
    return HOWDAH_OK;
}

int hw_rule_schema_version(int64_t schema_version, howdah_error *reterr)
{
    if (schema_version < 1 || schema_version > INT32_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "schema_version", "must be 1 to %d",
                             INT32_MAX);
    return HOWDAH_OK;
}

/* Versions and the three special values share one number; everything below them is a mistake. */
int hw_rule_expected(int64_t expected_version, howdah_error *reterr)
{
    if (expected_version < HOWDAH_EXPECT_EXISTS)
        return hw_fail_field(reterr, HOWDAH_INVALID, "expected_version",
                             "must be a version, 0 (no stream), -1 (any) or -2 (stream exists)");
    return HOWDAH_OK;
}

/* ----------------------------------------------------------------------- jobs */

int hw_rule_queue(hw_str queue, howdah_error *reterr)
{
    return check_name("queue", queue, HW_NAME_MAX, reterr);
}

/* The range of a smallint, which is what PostgreSQL stores. */
int hw_rule_priority(int64_t priority, howdah_error *reterr)
{
    if (priority < INT16_MIN || priority > INT16_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "priority", "must be %d to %d, not %lld",
                             INT16_MIN, INT16_MAX, (long long)priority);
    return HOWDAH_OK;
}

int hw_rule_max_attempts(int64_t max_attempts, howdah_error *reterr)
{
    if (max_attempts < 0 || max_attempts > INT16_MAX)
        return hw_fail_field(reterr, HOWDAH_INVALID, "max_attempts", "must be 0 to %d, not %lld",
                             INT16_MAX, (long long)max_attempts);
    return HOWDAH_OK;
}

int hw_rule_delay(const char *field, int64_t delay_ms, howdah_error *reterr)
{
    if (delay_ms < 0 || delay_ms > HW_DELAY_MAX_MS)
        return hw_fail_field(reterr, HOWDAH_INVALID, field, "must be 0 to 10 years, not %lld ms",
                             (long long)delay_ms);
    return HOWDAH_OK;
}

int hw_rule_run_at(int64_t run_at_us, howdah_error *reterr)
{
    if (run_at_us < HW_TIME_MIN_US || run_at_us > HW_TIME_MAX_US)
        return hw_fail_field(reterr, HOWDAH_INVALID, "run_at",
                             "must be within the years 1 to 9999");
    return HOWDAH_OK;
}

/* ------------------------------------------------------------- the whole event */

/* Names that may be absent. */
static int check_optional_names(const howdah_event *event, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (event->correlation_id.s)
        s = hw_rule_name("correlation_id", event->correlation_id, reterr);
    if (s == HOWDAH_OK && event->actor.s)
        s = hw_rule_name("actor", event->actor, reterr);
    if (s == HOWDAH_OK && event->reason.s)
        s = hw_rule_reason(event->reason, reterr);
    return s;
}

/* In the order of event_problem.sql, so that of two mistakes both name the same one. */
int hw_rule_event(const howdah_event *event, size_t payload_bytes_max, howdah_error *reterr)
{
    int s = hw_rule_stream(event->stream, reterr);

    if (s == HOWDAH_OK)
        s = hw_rule_type(event->type, reterr);
    if (s == HOWDAH_OK)
        s = hw_rule_payload(event->data, event->content_type, payload_bytes_max, reterr);
    if (s == HOWDAH_OK && event->headers.s)
        s = hw_rule_headers(event->headers, reterr);
    if (s == HOWDAH_OK)
        s = check_optional_names(event, reterr);
    if (s == HOWDAH_OK && event->valid_time_us != HW_TIME_ABSENT)
        s = hw_rule_valid_time(event->valid_time_us, reterr);
    if (s == HOWDAH_OK)
        s = hw_rule_schema_version(event->schema_version, reterr);
    if (s == HOWDAH_OK && event->expects)
        s = hw_rule_expected(event->expected_version, reterr);
    return s;
}
