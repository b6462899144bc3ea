/* test_event.c - event objects: builder, copies, views.  The same on every store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance.h"

static howdah_event *event_42(void)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_id(b, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a");
    howdah_builder_set_stream(b, "order-7");
    howdah_builder_set_type(b, "order.created");
    howdah_builder_set_json(b, "{\"order\": {\"total\": 12.50}, \"x\":1}", 34);
    howdah_builder_add_header(b, "k", "v \"quoted\"");
    howdah_builder_add_header(b, "l", "w");
    howdah_builder_set_correlation(b, "c");
    howdah_builder_set_causation(b, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6b");
    howdah_builder_set_actor(b, "ann");
    howdah_builder_set_valid_time(b, 1500000);
    howdah_builder_set_schema_version(b, 3);
    howdah_builder_set_global_sequence(b, 42);
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    howdah_builder_free(b);
    return event;
}

static char *json_of(const howdah_event *event)
{
    size_t len = howdah_event_json(event, NULL, 0);
    char *text = malloc(len + 1);

    assert_non_null(text);
    assert_int_equal(howdah_event_json(event, text, len + 1), len);
    assert_int_equal(strlen(text), len);
    return text;
}

static void a_builder_without_a_global_sequence_builds_an_event_without_one(void **state)
{
    howdah_event *event = cf_event("s", "t", NULL);

    (void)state;
    assert_int_equal(howdah_event_global_sequence(event), HOWDAH_ABSENT);
    assert_int_equal(howdah_event_version(event), HOWDAH_ABSENT);
    assert_false(howdah_event_recorded_at(event, NULL));
    assert_false(howdah_event_valid_time(event, NULL));
    howdah_event_free(event);
}

static void a_builder_with_a_global_sequence_keeps_it(void **state)
{
    howdah_event *event = event_42();

    (void)state;
    assert_int_equal(howdah_event_global_sequence(event), 42);
    howdah_event_free(event);
}

static void a_copy_and_a_builder_from_an_event_keep_every_field(void **state)
{
    howdah_event *event = event_42();
    char *whole = json_of(event);
    howdah_event *copy = NULL;
    howdah_event *rebuilt = NULL;
    howdah_builder *b = NULL;
    char *text;

    (void)state;
    cf_ok(howdah_event_copy(event, &copy, &cf_error));
    cf_ok(howdah_builder_from_event(event, &b, &cf_error));
    howdah_event_free(event);
    cf_ok(howdah_builder_build(b, &rebuilt, &cf_error));
    howdah_builder_free(b);
    text = json_of(copy);
    assert_string_equal(text, whole);
    free(text);
    text = json_of(rebuilt);
    assert_string_equal(text, whole);
    assert_int_equal(howdah_event_global_sequence(rebuilt), 42);
    free(text);
    free(whole);
    howdah_event_free(copy);
    howdah_event_free(rebuilt);
}

static void narrowing_and_widening_keep_everything_but_the_payload(void **state)
{
    howdah_event *event = event_42();
    howdah_event *narrow = NULL;
    howdah_event *wide = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    cf_ok(howdah_event_narrow(event, "order", &narrow, &cf_error));
    assert_string_equal(howdah_event_data(narrow, NULL), "{\"total\": 12.50}");
    assert_int_equal(howdah_event_global_sequence(narrow), 42);
    assert_string_equal(howdah_event_stream(narrow), "order-7");
    cf_ok(howdah_event_widen(narrow, "or\"der", &wide, &cf_error));
    assert_string_equal(howdah_event_data(wide, NULL), "{\"or\\\"der\":{\"total\": 12.50}}");
    assert_int_equal(howdah_event_global_sequence(wide), 42);
    assert_string_equal(howdah_event_headers(wide, NULL),
                        "{\"k\":\"v \\\"quoted\\\"\",\"l\":\"w\"}");
    howdah_event_free(narrow);
    howdah_event_free(wide);
    assert_int_equal(howdah_event_narrow(event, "none", &narrow, &err), HOWDAH_NOT_FOUND);
    howdah_event_free(event);
}

static void an_event_is_one_line_of_json_in_the_fields_order(void **state)
{
    howdah_event *event = event_42();
    char *text = json_of(event);

    (void)state;
    assert_string_equal(
        text, "{\"global_sequence\":42,\"id\":\"0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a\","
              "\"stream\":\"order-7\",\"version\":null,\"type\":\"order.created\","
              "\"data\":{\"order\": {\"total\": 12.50}, \"x\":1},"
              "\"headers\":{\"k\":\"v \\\"quoted\\\"\",\"l\":\"w\"},\"correlation_id\":\"c\","
              "\"causation_id\":\"0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6b\","
              "\"valid_time\":\"1970-01-01T00:00:01.500000Z\",\"recorded_at\":null,"
              "\"family\":\"0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a\",\"revision\":1,"
              "\"corrects\":null,\"reason\":null,\"actor\":\"ann\",\"schema_version\":3}");
    free(text);
    howdah_event_free(event);
    event = cf_event("s", "t", "[1,\n 2]");
    text = json_of(event);
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text, "\"data\":[1,  2]"));
    free(text);
    howdah_event_free(event);
}

static void every_event_built_has_an_id_of_its_own(void **state)
{
    howdah_builder *b = NULL;
    howdah_event *one = NULL;
    howdah_event *two = NULL;
    char a[HOWDAH_UUID_SIZE];
    char z[HOWDAH_UUID_SIZE];

    (void)state;
    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "t");
    cf_ok(howdah_builder_build(b, &one, &cf_error));
    cf_ok(howdah_builder_build(b, &two, &cf_error));
    howdah_event_id(one, a);
    howdah_event_id(two, z);
    assert_true(strcmp(a, z) < 0);
    assert_int_equal(a[14], '7');
    howdah_event_free(one);
    howdah_event_free(two);
    howdah_builder_free(b);
}

/* What a setter was given that build must refuse, and the field that it names. */
typedef struct bad_value {
    const char *field;
    void (*set)(howdah_builder *b);
} bad_value;

static char long_name[257];

static void bad_stream_empty(howdah_builder *b)
{
    howdah_builder_set_stream(b, "");
}
static void bad_stream_long(howdah_builder *b)
{
    howdah_builder_set_stream(b, long_name);
}
static void bad_stream_control(howdah_builder *b)
{
    howdah_builder_set_stream(b, "a\x01");
}
static void bad_stream_c1(howdah_builder *b)
{
    howdah_builder_set_stream(b, "a\xc2\x85");
}
static void bad_stream_utf8(howdah_builder *b)
{
    howdah_builder_set_stream(b, "a\xff");
}
static void bad_stream_absent(howdah_builder *b)
{
    howdah_builder_set_stream(b, NULL);
}
static void bad_type_segment(howdah_builder *b)
{
    howdah_builder_set_type(b, "a..b");
}
static void bad_type_star(howdah_builder *b)
{
    howdah_builder_set_type(b, "a.*");
}
static void bad_type_many(howdah_builder *b)
{
    howdah_builder_set_type(b, "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a");
}
static void bad_json(howdah_builder *b)
{
    howdah_builder_set_json(b, "{\"a\":NaN}", 9);
}
static void bad_json_nul(howdah_builder *b)
{
    howdah_builder_set_json(b, "\"\\u0000\"", 8);
}
static void bad_json_raw_nul(howdah_builder *b)
{
    howdah_builder_set_json(b, "\"\0\"", 3);
}
static void bad_json_surrogate(howdah_builder *b)
{
    howdah_builder_set_json(b, "\"\\ud800\"", 8);
}
static void bad_json_depth(howdah_builder *b)
{
    char deep[131];

    memset(deep, '[', 65);
    memset(deep + 65, ']', 65);
    howdah_builder_set_json(b, deep, 130);
}
static void bad_json_empty(howdah_builder *b)
{
    howdah_builder_set_json(b, "", 0);
}
static void bad_content_type(howdah_builder *b)
{
    howdah_builder_set_bytes(b, "x", 1, "png");
}
static void bad_content_type_absent(howdah_builder *b)
{
    howdah_builder_set_bytes(b, "x", 1, NULL);
}
static void bad_headers(howdah_builder *b)
{
    howdah_builder_set_headers_json(b, "{\"a\":1}", 7);
}
static void bad_headers_array(howdah_builder *b)
{
    howdah_builder_set_headers_json(b, "[]", 2);
}
static void bad_headers_empty(howdah_builder *b)
{
    howdah_builder_set_headers_json(b, "", 0);
}
static void bad_id(howdah_builder *b)
{
    howdah_builder_set_id(b, "{0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a}");
}
static void bad_causation(howdah_builder *b)
{
    howdah_builder_set_causation(b, "order-7");
}
static void bad_correlation(howdah_builder *b)
{
    howdah_builder_set_correlation(b, "");
}
static void bad_actor(howdah_builder *b)
{
    howdah_builder_set_actor(b, long_name);
}
static void bad_valid_time(howdah_builder *b)
{
    howdah_builder_set_valid_time(b, INT64_MAX);
}
static void bad_schema_version(howdah_builder *b)
{
    howdah_builder_set_schema_version(b, 0);
}
static void bad_schema_version_large(howdah_builder *b)
{
    howdah_builder_set_schema_version(b, INT64_C(2147483648));
}
static void bad_expect(howdah_builder *b)
{
    howdah_builder_set_expect(b, -3);
}
static void bad_sequence(howdah_builder *b)
{
    howdah_builder_set_global_sequence(b, 0);
}

static void bad_values_are_refused_by_field(void **state)
{
    static const bad_value values[] = {
        {"stream", bad_stream_empty},
        {"stream", bad_stream_long},
        {"stream", bad_stream_control},
        {"stream", bad_stream_c1},
        {"stream", bad_stream_utf8},
        {"stream", bad_stream_absent},
        {"type", bad_type_segment},
        {"type", bad_type_star},
        {"type", bad_type_many},
        {"data", bad_json},
        {"data", bad_json_nul},
        {"data", bad_json_raw_nul},
        {"data", bad_json_surrogate},
        {"data", bad_json_depth},
        {"data", bad_json_empty},
        {"content_type", bad_content_type},
        {"content_type", bad_content_type_absent},
        {"headers", bad_headers},
        {"headers", bad_headers_array},
        {"headers", bad_headers_empty},
        {"id", bad_id},
        {"causation_id", bad_causation},
        {"correlation_id", bad_correlation},
        {"actor", bad_actor},
        {"valid_time", bad_valid_time},
        {"schema_version", bad_schema_version},
        {"schema_version", bad_schema_version_large},
        {"expected_version", bad_expect},
        {"global_sequence", bad_sequence},
    };
    howdah_builder *b = NULL;

    (void)state;
    memset(long_name, 'x', 256);
    cf_ok(howdah_builder_new(&b, &cf_error));
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *event = NULL;
        int s;

        howdah_builder_reset(b);
        howdah_builder_set_stream(b, "s");
        howdah_builder_set_type(b, "t");
        values[i].set(b);
        s = howdah_builder_build(b, &event, &err);
        if (s != HOWDAH_INVALID || strcmp(err.field, values[i].field) != 0)
            fail_msg("case %zu (%s): %s, field %s: %s", i, values[i].field, howdah_status_name(s),
                     err.field, err.message);
        assert_null(event);
        assert_int_equal(howdah_status_exit_code(s), 6);
    }
    howdah_builder_free(b);
}

static void a_payload_over_the_hard_limit_is_refused_without_a_copy(void **state)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "t");
    /* The length alone decides: the bytes are never looked at. */
    howdah_builder_set_json(b, "1", (size_t)64 * 1024 * 1024 + 1);
    assert_int_equal(howdah_builder_build(b, &event, &err), HOWDAH_LIMIT);
    assert_string_equal(err.field, "data");
    howdah_builder_free(b);
}

static void settings_are_checked_and_the_nearest_is_named(void **state)
{
    howdah_settings *settings = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_setting_info info = HOWDAH_SETTING_INFO_INIT;
    size_t n = 0;

    (void)state;
    cf_ok(howdah_settings_new(&settings, &cf_error));
    assert_int_equal(howdah_settings_set(settings, "read_bach", "5", &err), HOWDAH_INVALID);
    assert_non_null(strstr(err.message, "read_batch"));
    assert_int_equal(howdah_settings_set(settings, "read_batch", "0", &err), HOWDAH_INVALID);
    assert_int_equal(howdah_settings_set(settings, "read_batch", "x", &err), HOWDAH_INVALID);
    assert_int_equal(howdah_settings_set(settings, "connect_timeout", "5", &err), HOWDAH_INVALID);
    assert_int_equal(howdah_settings_set(settings, "payload_bytes_max", "65MiB", &err),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_settings_set(settings, "schema", "pg_x", &err), HOWDAH_INVALID);
    assert_int_equal(howdah_settings_set(settings, "read_only", "maybe", &err), HOWDAH_INVALID);
    assert_string_equal(howdah_settings_get(settings, "read_batch"), "1000");
    cf_ok(howdah_settings_set(settings, "read_batch", "5", &cf_error));
    assert_string_equal(howdah_settings_get(settings, "read_batch"), "5");
    assert_null(howdah_settings_get(settings, "nonsense"));
    while (howdah_settings_describe(n, &info) == HOWDAH_OK) {
        /* Every default passes its own check. */
        cf_ok(howdah_settings_set(settings, info.key, info.default_value, &cf_error));
        assert_int_equal(strncmp(info.environment, "HOWDAH_", 7), 0);
        n++;
    }
    assert_int_equal(n, 11);
    howdah_settings_free(settings);
}

static void unknown_schemes_are_refused(void **state)
{
    static const char *const urls[] = {"",        "mysql://x", "orders.db", "sqlite",
                                       "sqlite:", "http://x",  "postgres"};

    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_bus *bus = NULL;

        assert_int_equal(howdah_open(urls[i], NULL, &bus, &err), HOWDAH_INVALID);
        assert_string_equal(err.field, "store");
        assert_true(strlen(err.advice) > 0);
    }
}

cf_group cf_event_tests(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_builder_without_a_global_sequence_builds_an_event_without_one),
        cmocka_unit_test(a_builder_with_a_global_sequence_keeps_it),
        cmocka_unit_test(a_copy_and_a_builder_from_an_event_keep_every_field),
        cmocka_unit_test(narrowing_and_widening_keep_everything_but_the_payload),
        cmocka_unit_test(an_event_is_one_line_of_json_in_the_fields_order),
        cmocka_unit_test(every_event_built_has_an_id_of_its_own),
        cmocka_unit_test(bad_values_are_refused_by_field),
        cmocka_unit_test(a_payload_over_the_hard_limit_is_refused_without_a_copy),
        cmocka_unit_test(settings_are_checked_and_the_nearest_is_named),
        cmocka_unit_test(unknown_schemes_are_refused),
    };
    return CF_GROUP(tests);
}
