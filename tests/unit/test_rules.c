/* test_rules.c - the one verdict on names, documents and numbers. */
#include "unit.h"

#include "base/buf.h"
#include "engine/rules.h"

/* A refusal: status, field and the whole message. */
#define assert_refused(call, the_status, the_field, the_message)                                   \
    do {                                                                                           \
        howdah_error err = HOWDAH_ERROR_INIT;                                                      \
        assert_int_equal((call), (the_status));                                                    \
        assert_int_equal(err.status, (the_status));                                                \
        assert_string_equal(err.message, (the_message));                                           \
        assert_string_equal(err.field, (the_field));                                               \
    } while (0)

#define assert_accepted(call)                                                                      \
    do {                                                                                           \
        howdah_error err = HOWDAH_ERROR_INIT;                                                      \
        int unit_s = (call);                                                                       \
        if (unit_s != HOWDAH_OK)                                                                   \
            fail_msg("%s: %s", #call, err.message);                                                \
    } while (0)

/* n times the byte c. */
static hw_str times(char c, size_t n)
{
    static char text[HW_HEADERS_MAX + 100];

    assert_true(n < sizeof text);
    memset(text, c, n);
    text[n] = '\0';
    return (hw_str){text, n};
}

static void a_stream_is_1_to_255_bytes_of_utf8_without_control_characters(void **state)
{
    (void)state;
    assert_accepted(hw_rule_stream(HW_STR_LIT("o"), &err));
    assert_accepted(hw_rule_stream(HW_STR_LIT("order-7"), &err));
    assert_accepted(hw_rule_stream(times('x', 255), &err));
    assert_accepted(hw_rule_stream(HW_STR_LIT("'; DROP TABLE events;-- %s $1 \\ \" _%"), &err));
    assert_accepted(hw_rule_stream(HW_STR_LIT("\xF0\x9F\x90\x98 \xE2\x80\x8F"), &err));
    assert_accepted(hw_rule_stream(HW_STR_LIT(" "), &err));
    assert_refused(hw_rule_stream(HW_STR_NULL, &err), HOWDAH_INVALID, "stream",
                   "stream: is required");
    assert_refused(hw_rule_stream(HW_STR_LIT(""), &err), HOWDAH_INVALID, "stream",
                   "stream: must be 1 to 255 bytes, got 0");
    assert_refused(hw_rule_stream(times('x', 256), &err), HOWDAH_INVALID, "stream",
                   "stream: must be 1 to 255 bytes, got 256");
    assert_refused(hw_rule_stream(times('x', 300), &err), HOWDAH_INVALID, "stream",
                   "stream: must be 1 to 255 bytes, got 300");
    assert_refused(hw_rule_stream(HW_STR_LIT("a\nb"), &err), HOWDAH_INVALID, "stream",
                   "stream: must not have control characters, got 3 bytes with one");
    assert_refused(hw_rule_stream((hw_str){"a\0b", 3}, &err), HOWDAH_INVALID, "stream",
                   "stream: must not have control characters, got 3 bytes with one");
    assert_refused(hw_rule_stream(HW_STR_LIT("a\xC2\x85"), &err), HOWDAH_INVALID, "stream",
                   "stream: must not have control characters, got 3 bytes with one");
    assert_refused(hw_rule_stream(HW_STR_LIT("a\xFF"), &err), HOWDAH_INVALID, "stream",
                   "stream: must be UTF-8, got 2 bytes that are not");
}

static void a_name_is_refused_under_its_own_field(void **state)
{
    (void)state;
    assert_accepted(hw_rule_name("actor", HW_STR_LIT("me"), &err));
    assert_refused(hw_rule_name("correlation_id", HW_STR_LIT(""), &err), HOWDAH_INVALID,
                   "correlation_id", "correlation_id: must be 1 to 255 bytes, got 0");
    assert_accepted(hw_rule_reason(times('r', 1000), &err));
    assert_refused(hw_rule_reason(times('r', 1001), &err), HOWDAH_INVALID, "reason",
                   "reason: must be 1 to 1000 bytes, got 1001");
}

static void a_type_is_segments_joined_by_dots(void **state)
{
    static const char *const good[] = {"order", "order.created", "A.b_c.d-e.9", "_", "-", "1.2.3"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_accepted(hw_rule_type(hw_str_of(good[i]), &err));
    assert_accepted(hw_rule_type(times('x', 255), &err));
    assert_refused(hw_rule_type(HW_STR_NULL, &err), HOWDAH_INVALID, "type", "type: is required");
    assert_refused(hw_rule_type(HW_STR_LIT(""), &err), HOWDAH_INVALID, "type",
                   "type: must be 1 to 255 bytes, got 0");
    assert_refused(hw_rule_type(times('x', 256), &err), HOWDAH_INVALID, "type",
                   "type: must be 1 to 255 bytes, got 256");
    assert_refused(hw_rule_type(HW_STR_LIT("order.cr eated"), &err), HOWDAH_INVALID, "type",
                   "type: segment 2 has a byte outside A-Z a-z 0-9 _ -, in a type of 14 bytes");
    assert_refused(hw_rule_type(HW_STR_LIT("order."), &err), HOWDAH_INVALID, "type",
                   "type: segment 2 is empty, in a type of 6 bytes");
    assert_refused(hw_rule_type(HW_STR_LIT(".order"), &err), HOWDAH_INVALID, "type",
                   "type: segment 1 is empty, in a type of 6 bytes");
    assert_refused(hw_rule_type(HW_STR_LIT("a..b"), &err), HOWDAH_INVALID, "type",
                   "type: segment 2 is empty, in a type of 4 bytes");
    assert_refused(hw_rule_type(HW_STR_LIT("."), &err), HOWDAH_INVALID, "type",
                   "type: segment 1 is empty, in a type of 1 bytes");
    assert_refused(hw_rule_type(HW_STR_LIT("order.*"), &err), HOWDAH_INVALID, "type",
                   "type: segment 2 has a byte outside A-Z a-z 0-9 _ -, in a type of 7 bytes");
    assert_refused(hw_rule_type((hw_str){"a\0b", 3}, &err), HOWDAH_INVALID, "type",
                   "type: segment 1 has a byte outside A-Z a-z 0-9 _ -, in a type of 3 bytes");
    assert_refused(hw_rule_type(HW_STR_LIT("\xC3\xA4"), &err), HOWDAH_INVALID, "type",
                   "type: segment 1 has a byte outside A-Z a-z 0-9 _ -, in a type of 2 bytes");
}

static void a_type_has_at_most_32_segments(void **state)
{
    char text[100] = "a";

    (void)state;
    for (int i = 1; i < 32; i++)
        strcat(text, ".a");
    assert_accepted(hw_rule_type(hw_str_of(text), &err));
    assert_accepted(hw_rule_pattern(hw_str_of(text), &err));
    strcat(text, ".a");
    assert_refused(hw_rule_type(hw_str_of(text), &err), HOWDAH_INVALID, "type",
                   "type: must have at most 32 segments, in a type of 65 bytes");
    assert_refused(hw_rule_pattern(hw_str_of(text), &err), HOWDAH_INVALID, "pattern",
                   "pattern: must have at most 32 segments, in a pattern of 65 bytes");
}

static void a_pattern_takes_whole_wildcard_segments_only(void **state)
{
    static const char *const good[] = {"order", "*", ">", "order.*", "*.*", "a.>", "*.>", "a.*.b"};
    static const struct {
        const char *text;
        const char *message;
    } bad[] = {
        {"", "pattern: must be 1 to 255 bytes, got 0"},
        {"order*",
         "pattern: segment 1 has a byte outside A-Z a-z 0-9 _ -, in a pattern of 6 bytes"},
        {"a.*b", "pattern: segment 2 has a byte outside A-Z a-z 0-9 _ -, in a pattern of 4 bytes"},
        {"a.**", "pattern: segment 2 has a byte outside A-Z a-z 0-9 _ -, in a pattern of 4 bytes"},
        {">.a", "pattern: segment 1 is a > but not the last, in a pattern of 3 bytes"},
        {"a.>.>", "pattern: segment 2 is a > but not the last, in a pattern of 5 bytes"},
        {"a.>>", "pattern: segment 2 has a byte outside A-Z a-z 0-9 _ -, in a pattern of 4 bytes"},
        {"a..b", "pattern: segment 2 is empty, in a pattern of 4 bytes"},
        {"a.#", "pattern: segment 2 has a byte outside A-Z a-z 0-9 _ -, in a pattern of 3 bytes"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_accepted(hw_rule_pattern(hw_str_of(good[i]), &err));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_refused(hw_rule_pattern(hw_str_of(bad[i].text), &err), HOWDAH_INVALID, "pattern",
                       bad[i].message);
    assert_refused(hw_rule_pattern(HW_STR_NULL, &err), HOWDAH_INVALID, "pattern",
                   "pattern: is required");
}

static void a_content_type_is_printable_with_a_slash_inside(void **state)
{
    (void)state;
    assert_accepted(hw_rule_content_type(HW_STR_LIT("a/b"), &err));
    assert_accepted(hw_rule_content_type(HW_STR_LIT("text/plain; charset=utf-8"), &err));
    assert_refused(hw_rule_content_type(HW_STR_NULL, &err), HOWDAH_INVALID, "content_type",
                   "content_type: is required");
    assert_refused(hw_rule_content_type(HW_STR_LIT("a/"), &err), HOWDAH_INVALID, "content_type",
                   "content_type: must be 3 to 255 bytes, got 2");
    assert_refused(hw_rule_content_type(times('/', 256), &err), HOWDAH_INVALID, "content_type",
                   "content_type: must be 3 to 255 bytes, got 256");
    assert_refused(hw_rule_content_type(HW_STR_LIT("/ab"), &err), HOWDAH_INVALID, "content_type",
                   "content_type: must have a / inside, got 3 bytes without");
    assert_refused(hw_rule_content_type(HW_STR_LIT("ab/"), &err), HOWDAH_INVALID, "content_type",
                   "content_type: must have a / inside, got 3 bytes without");
    assert_refused(hw_rule_content_type(HW_STR_LIT("a/\n"), &err), HOWDAH_INVALID, "content_type",
                   "content_type: must be printable ASCII, got 3 bytes that are not");
    assert_refused(hw_rule_content_type(HW_STR_LIT("a/\xC3\xA4"), &err), HOWDAH_INVALID,
                   "content_type",
                   "content_type: must be printable ASCII, got 4 bytes that are not");
}

static void headers_are_an_object_of_strings(void **state)
{
    (void)state;
    assert_accepted(hw_rule_headers(HW_STR_LIT("{}"), &err));
    assert_accepted(hw_rule_headers(HW_STR_LIT("{\"a\":\"\",\"b\":\"line\\nline\"}"), &err));
    assert_refused(hw_rule_headers(HW_STR_NULL, &err), HOWDAH_INVALID, "headers",
                   "headers: is required");
    assert_refused(hw_rule_headers(HW_STR_LIT("[]"), &err), HOWDAH_INVALID, "headers",
                   "headers: must be a JSON object, got 2 bytes of another kind");
    assert_refused(hw_rule_headers(HW_STR_LIT("{\"a\":1}"), &err), HOWDAH_INVALID, "headers",
                   "headers: every value must be a string, got 1 bytes of another kind");
    assert_refused(hw_rule_headers(HW_STR_LIT("{\"a\":\"\",\"b\":null}"), &err), HOWDAH_INVALID,
                   "headers", "headers: every value must be a string, got 4 bytes of another kind");
    assert_refused(hw_rule_headers(HW_STR_LIT("{\"a\":{\"b\":\"\"}}"), &err), HOWDAH_INVALID,
                   "headers", "headers: every value must be a string, got 8 bytes of another kind");
    assert_refused(hw_rule_headers(HW_STR_LIT("{\"a\":\"\",}"), &err), HOWDAH_INVALID, "headers",
                   "headers: not valid JSON at byte 8 of 9: expected a key");
    assert_refused(hw_rule_headers(HW_STR_LIT("{\"\":\"\"}"), &err), HOWDAH_INVALID, "headers",
                   "headers: a name must be 1 to 255 bytes, got 0");
    assert_refused(hw_rule_headers(HW_STR_LIT("{\"a\\nb\":\"\"}"), &err), HOWDAH_INVALID, "headers",
                   "headers: a name must not have control characters, got 3 bytes with one");
}

/* "{<name>":""}" with a name of n times the unit. */
static hw_str header_named(hw_buf *out, const char *unit, int n)
{
    hw_buf_clear(out);
    hw_buf_puts(out, "{\"");
    for (int i = 0; i < n; i++)
        hw_buf_puts(out, unit);
    hw_buf_puts(out, "\":\"\"}");
    assert_int_equal(hw_buf_check(out, NULL), HOWDAH_OK);
    return (hw_str){out->data, out->len};
}

static void a_header_name_counts_unescaped(void **state)
{
    hw_buf out = HW_BUF_INIT(100000);

    (void)state;
    assert_accepted(hw_rule_headers(header_named(&out, "n", 255), &err));
    assert_accepted(hw_rule_headers(header_named(&out, "\\u006e", 255), &err));
    assert_refused(hw_rule_headers(header_named(&out, "n", 256), &err), HOWDAH_INVALID, "headers",
                   "headers: a name must be 1 to 255 bytes, got 256");
    assert_refused(hw_rule_headers(header_named(&out, "\\u006e", 256), &err), HOWDAH_INVALID,
                   "headers", "headers: a name must be 1 to 255 bytes, got 256");
    assert_refused(hw_rule_headers(header_named(&out, "\\u0085", 1), &err), HOWDAH_INVALID,
                   "headers",
                   "headers: a name must not have control characters, got 2 bytes with one");
    hw_buf_done(&out);
}

static void headers_have_64_kib(void **state)
{
    hw_buf out = HW_BUF_INIT(100000);
    hw_str text;

    (void)state;
    hw_buf_puts(&out, "{\"a\":\"");
    for (int i = 0; i < HW_HEADERS_MAX - 8; i++)
        hw_buf_putc(&out, 'x');
    hw_buf_puts(&out, "\"}");
    text = (hw_str){out.data, out.len};
    assert_i64_equal((int64_t)text.len, HW_HEADERS_MAX);
    assert_accepted(hw_rule_headers(text, &err));
    hw_buf_putc(&out, ' ');
    text = (hw_str){out.data, out.len};
    assert_refused(hw_rule_headers(text, &err), HOWDAH_INVALID, "headers",
                   "headers: must be at most 65536 bytes, got 65537");
    hw_buf_done(&out);
}

static void json_is_refused_with_its_place_and_never_its_text(void **state)
{
    (void)state;
    assert_accepted(hw_rule_json(HW_STR_LIT("{}"), 100, &err));
    assert_accepted(hw_rule_json(HW_STR_LIT("null"), 4, &err));
    assert_refused(
        hw_rule_json(HW_STR_LIT("{\"data\":\"abcdefgh\\q\",\"more\":\"abcdefghi\"}"), 100, &err),
        HOWDAH_INVALID, "data", "data: not valid JSON at byte 17 of 40: invalid escape");
    assert_refused(hw_rule_json(HW_STR_NULL, 100, &err), HOWDAH_INVALID, "data",
                   "data: is required");
    assert_refused(hw_rule_json(HW_STR_LIT(""), 100, &err), HOWDAH_INVALID, "data",
                   "data: not valid JSON at byte 0 of 0: unexpected end");
    assert_refused(hw_rule_json(HW_STR_LIT("[\"\\u0000\"]"), 100, &err), HOWDAH_INVALID, "data",
                   "data: not valid JSON at byte 2 of 10: \\u0000 cannot be stored");
    assert_refused(hw_rule_json(times('[', 65), 100, &err), HOWDAH_INVALID, "data",
                   "data: not valid JSON at byte 64 of 65: nested too deep");
}

static void a_payload_over_its_limit_is_a_limit_not_invalid(void **state)
{
    (void)state;
    assert_accepted(hw_rule_bytes(0, 10, &err));
    assert_accepted(hw_rule_bytes(10, 10, &err));
    assert_refused(hw_rule_bytes(11, 10, &err), HOWDAH_LIMIT, "data",
                   "data: must be at most 10 bytes, got 11");
    assert_refused(hw_rule_json(times('[', 11), 10, &err), HOWDAH_LIMIT, "data",
                   "data: must be at most 10 bytes, got 11");
    assert_accepted(hw_rule_bytes(HW_PAYLOAD_HARD_MAX, SIZE_MAX, &err));
    assert_refused(hw_rule_bytes((size_t)HW_PAYLOAD_HARD_MAX + 1, SIZE_MAX, &err), HOWDAH_LIMIT,
                   "data", "data: must be at most 67108864 bytes, got 67108865");
}

static void numbers_have_their_ranges(void **state)
{
    (void)state;
    assert_accepted(hw_rule_valid_time(HW_TIME_MIN_US, &err));
    assert_accepted(hw_rule_valid_time(HW_TIME_MAX_US, &err));
    assert_refused(hw_rule_valid_time(HW_TIME_MIN_US - 1, &err), HOWDAH_INVALID, "valid_time",
                   "valid_time: must be within the years 1 to 9999");
    assert_refused(hw_rule_valid_time(HW_TIME_MAX_US + 1, &err), HOWDAH_INVALID, "valid_time",
                   "valid_time: must be within the years 1 to 9999");
    assert_accepted(hw_rule_schema_version(1, &err));
    assert_accepted(hw_rule_schema_version(2147483647, &err));
    assert_refused(hw_rule_schema_version(0, &err), HOWDAH_INVALID, "schema_version",
                   "schema_version: must be 1 to 2147483647");
    assert_refused(hw_rule_schema_version(2147483648, &err), HOWDAH_INVALID, "schema_version",
                   "schema_version: must be 1 to 2147483647");
    for (int64_t expected = -2; expected < 3; expected++)
        assert_accepted(hw_rule_expected(expected, &err));
    assert_refused(hw_rule_expected(-3, &err), HOWDAH_INVALID, "expected_version",
                   "expected_version: must be a version, 0 (no stream), -1 (any) or -2 (stream "
                   "exists)");
}

static void a_schema_name_leaves_postgresqls_own_alone(void **state)
{
    (void)state;
    assert_accepted(hw_rule_schema_name(HW_STR_LIT("howdah"), &err));
    assert_accepted(hw_rule_schema_name(HW_STR_LIT("p"), &err));
    assert_accepted(hw_rule_schema_name(HW_STR_LIT("pg"), &err));
    assert_accepted(hw_rule_schema_name(HW_STR_LIT("Tenant \"1\"; --"), &err));
    assert_accepted(hw_rule_schema_name(times('s', 48), &err));
    assert_refused(hw_rule_schema_name(times('s', 49), &err), HOWDAH_INVALID, "schema",
                   "schema: must be 1 to 48 bytes, got 49");
    assert_refused(hw_rule_schema_name(HW_STR_LIT("pg_mine"), &err), HOWDAH_INVALID, "schema",
                   "schema: must not start with pg_, in a name of 7 bytes");
    assert_refused(hw_rule_schema_name(HW_STR_LIT("pg_"), &err), HOWDAH_INVALID, "schema",
                   "schema: must not start with pg_, in a name of 3 bytes");
    assert_accepted(hw_rule_schema_name(HW_STR_LIT("$howdah"), &err));
    assert_refused(hw_rule_schema_name(HW_STR_LIT("a$howdah$b"), &err), HOWDAH_INVALID, "schema",
                   "schema: must not contain $howdah$, in a name of 10 bytes");
}

static void fill(howdah_event *event)
{
    hw_event_init(event);
    event->stream = HW_STR_LIT("s");
    event->type = HW_STR_LIT("t");
    event->data = HW_STR_LIT("{}");
}

static void an_event_is_judged_field_by_field(void **state)
{
    static const char *const fields[] = {
        "stream", "type",       "data",           "content_type",     "headers", "correlation_id",
        "actor",  "valid_time", "schema_version", "expected_version", "reason"};
    howdah_event event;

    (void)state;
    fill(&event);
    assert_accepted(hw_rule_event(&event, 100, &err));
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        fill(&event);
        switch (i) {
        case 0:
            event.stream = HW_STR_NULL;
            break;
        case 1:
            event.type = HW_STR_NULL;
            break;
        case 2:
            event.data = HW_STR_LIT("{");
            break;
        case 3:
            event.content_type = HW_STR_LIT("png");
            break;
        case 4:
            event.headers = HW_STR_LIT("[]");
            break;
        case 5:
            event.correlation_id = HW_STR_LIT("");
            break;
        case 6:
            event.actor = HW_STR_LIT("\t");
            break;
        case 7:
            event.valid_time_us = HW_TIME_MAX_US + 1;
            break;
        case 8:
            event.schema_version = 0;
            break;
        case 9:
            event.expects = true;
            event.expected_version = -3;
            break;
        default:
            event.reason = HW_STR_LIT("");
            break;
        }
        assert_int_equal(hw_rule_event(&event, 100, &err), HOWDAH_INVALID);
        assert_string_equal(err.field, fields[i]);
    }
}

static void bytes_with_a_content_type_need_not_be_json(void **state)
{
    howdah_event event;

    (void)state;
    fill(&event);
    event.content_type = HW_STR_LIT("image/png");
    event.data = (hw_str){"\x89PNG\0", 5};
    assert_accepted(hw_rule_event(&event, 5, &err));
    event.data = HW_STR_LIT("");
    assert_accepted(hw_rule_event(&event, 5, &err));
    event.data = HW_STR_NULL;
    assert_refused(hw_rule_event(&event, 5, &err), HOWDAH_INVALID, "data", "data: is required");
    event.data = HW_STR_LIT("123456");
    assert_refused(hw_rule_event(&event, 5, &err), HOWDAH_LIMIT, "data",
                   "data: must be at most 5 bytes, got 6");
}

/* A secret in each refusable text; no message may hold it. */
static void no_refusal_repeats_the_value(void **state)
{
    howdah_error errs[8];
    const char *secret = "hunter2";

    (void)state;
    for (size_t i = 0; i < COUNT_OF(errs); i++)
        errs[i] = (howdah_error)HOWDAH_ERROR_INIT;
    assert_true(hw_rule_stream(HW_STR_LIT("hunter2\n"), &errs[0]) < 0);
    assert_true(hw_rule_type(HW_STR_LIT("hunter2!"), &errs[1]) < 0);
    assert_true(hw_rule_pattern(HW_STR_LIT("hunter2*"), &errs[2]) < 0);
    assert_true(hw_rule_json(HW_STR_LIT("hunter2"), 100, &errs[3]) < 0);
    assert_true(hw_rule_headers(HW_STR_LIT("{\"hunter2\":1}"), &errs[4]) < 0);
    assert_true(hw_rule_content_type(HW_STR_LIT("hunter2"), &errs[5]) < 0);
    assert_true(hw_rule_name("actor", HW_STR_LIT("hunter2\xFF"), &errs[6]) < 0);
    assert_true(hw_rule_schema_name(HW_STR_LIT("pg_hunter2"), &errs[7]) < 0);
    for (size_t i = 0; i < COUNT_OF(errs); i++) {
        assert_true(strlen(errs[i].message) > 0);
        assert_null(strstr(errs[i].message, secret));
        assert_null(strstr(errs[i].advice, secret));
    }
}

static void headers_without_memory_fail_as_such_and_leak_nothing(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        howdah_error err = HOWDAH_ERROR_INIT;
        int s;

        unit_allocator_start(&a, ++n);
        s = hw_rule_headers(HW_STR_LIT("{\"a\\u0062\":\"x\",\"\\u0063\":\"y\"}"), &err);
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 3);
}

static void a_queue_is_named_like_a_stream(void **state)
{
    (void)state;
    assert_accepted(hw_rule_queue(HW_STR_LIT("m"), &err));
    assert_accepted(hw_rule_queue(HW_STR_LIT("mail/\xC3\xBC'; --"), &err));
    assert_accepted(hw_rule_queue(times('x', 255), &err));
    assert_refused(hw_rule_queue(HW_STR_NULL, &err), HOWDAH_INVALID, "queue", "queue: is required");
    assert_refused(hw_rule_queue(HW_STR_LIT(""), &err), HOWDAH_INVALID, "queue",
                   "queue: must be 1 to 255 bytes, got 0");
    assert_refused(hw_rule_queue(times('x', 256), &err), HOWDAH_INVALID, "queue",
                   "queue: must be 1 to 255 bytes, got 256");
    assert_refused(hw_rule_queue(HW_STR_LIT("a\tb"), &err), HOWDAH_INVALID, "queue",
                   "queue: must not have control characters, got 3 bytes with one");
    assert_refused(hw_rule_queue(HW_STR_LIT("a\xC0"), &err), HOWDAH_INVALID, "queue",
                   "queue: must be UTF-8, got 2 bytes that are not");
}

static void numbers_of_a_job_have_their_ranges(void **state)
{
    (void)state;
    assert_accepted(hw_rule_priority(-32768, &err));
    assert_accepted(hw_rule_priority(32767, &err));
    assert_refused(hw_rule_priority(-32769, &err), HOWDAH_INVALID, "priority",
                   "priority: must be -32768 to 32767, not -32769");
    assert_refused(hw_rule_priority(32768, &err), HOWDAH_INVALID, "priority",
                   "priority: must be -32768 to 32767, not 32768");
    assert_accepted(hw_rule_max_attempts(0, &err));
    assert_accepted(hw_rule_max_attempts(32767, &err));
    assert_refused(hw_rule_max_attempts(-1, &err), HOWDAH_INVALID, "max_attempts",
                   "max_attempts: must be 0 to 32767, not -1");
    assert_refused(hw_rule_max_attempts(32768, &err), HOWDAH_INVALID, "max_attempts",
                   "max_attempts: must be 0 to 32767, not 32768");
    assert_accepted(hw_rule_delay("delay", 0, &err));
    assert_accepted(hw_rule_delay("delay", INT64_C(316224000000), &err));
    assert_refused(hw_rule_delay("delay", INT64_C(316224000001), &err), HOWDAH_INVALID, "delay",
                   "delay: must be 0 to 10 years, not 316224000001 ms");
    assert_refused(hw_rule_delay("lease", -1, &err), HOWDAH_INVALID, "lease",
                   "lease: must be 0 to 10 years, not -1 ms");
    assert_accepted(hw_rule_run_at(0, &err));
    assert_accepted(hw_rule_run_at(HW_TIME_MAX_US, &err));
    assert_refused(hw_rule_run_at(HW_TIME_MAX_US + 1, &err), HOWDAH_INVALID, "run_at",
                   "run_at: must be within the years 1 to 9999");
    assert_refused(hw_rule_run_at(HW_TIME_ABSENT, &err), HOWDAH_INVALID, "run_at",
                   "run_at: must be within the years 1 to 9999");
}

static void a_payload_is_json_unless_it_has_a_content_type(void **state)
{
    (void)state;
    assert_accepted(hw_rule_payload(HW_STR_LIT("[1]"), HW_STR_NULL, 3, &err));
    assert_accepted(hw_rule_payload((hw_str){"\0", 1}, HW_STR_LIT("a/b"), 3, &err));
    assert_accepted(hw_rule_payload(HW_STR_LIT(""), HW_STR_LIT("a/b"), 3, &err));
    assert_refused(hw_rule_payload(HW_STR_NULL, HW_STR_LIT("a/b"), 3, &err), HOWDAH_INVALID, "data",
                   "data: is required");
    assert_refused(hw_rule_payload(HW_STR_LIT(""), HW_STR_LIT("ab"), 3, &err), HOWDAH_INVALID,
                   "content_type", "content_type: must be 3 to 255 bytes, got 2");
    assert_refused(hw_rule_payload(HW_STR_LIT("[10]"), HW_STR_NULL, 3, &err), HOWDAH_LIMIT, "data",
                   "data: must be at most 3 bytes, got 4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_is_1_to_255_bytes_of_utf8_without_control_characters),
        cmocka_unit_test(a_name_is_refused_under_its_own_field),
        cmocka_unit_test(a_type_is_segments_joined_by_dots),
        cmocka_unit_test(a_type_has_at_most_32_segments),
        cmocka_unit_test(a_pattern_takes_whole_wildcard_segments_only),
        cmocka_unit_test(a_content_type_is_printable_with_a_slash_inside),
        cmocka_unit_test(headers_are_an_object_of_strings),
        cmocka_unit_test(a_header_name_counts_unescaped),
        cmocka_unit_test(headers_have_64_kib),
        cmocka_unit_test(json_is_refused_with_its_place_and_never_its_text),
        cmocka_unit_test(a_payload_over_its_limit_is_a_limit_not_invalid),
        cmocka_unit_test(numbers_have_their_ranges),
        cmocka_unit_test(a_schema_name_leaves_postgresqls_own_alone),
        cmocka_unit_test(an_event_is_judged_field_by_field),
        cmocka_unit_test(bytes_with_a_content_type_need_not_be_json),
        cmocka_unit_test(no_refusal_repeats_the_value),
        cmocka_unit_test(headers_without_memory_fail_as_such_and_leak_nothing),
        cmocka_unit_test(a_queue_is_named_like_a_stream),
        cmocka_unit_test(numbers_of_a_job_have_their_ranges),
        cmocka_unit_test(a_payload_is_json_unless_it_has_a_content_type),
    };

    return cmocka_run_group_tests_name("rules", tests, NULL, NULL);
}
