/* test_append.c - appending single events. */
#include <stdio.h>
#include <string.h>

#include "conformance.h"

static void an_append_returns_sequence_version_revision_and_id(void **state)
{
    cf *c = *state;
    howdah_event *event = cf_event("order-1", "order.created", "{\"total\":12}");
    howdah_position p = cf_append_event(c->bus, event);
    char id[HOWDAH_UUID_SIZE];

    howdah_event_id(event, id);
    assert_int_equal(p.global_sequence, 1);
    assert_int_equal(p.version, 1);
    assert_int_equal(p.revision, 1);
    assert_int_equal(p.already_stored, 0);
    assert_string_equal(p.id, id);
    assert_true(p.recorded_at_us > INT64_C(1577836800000000));
    howdah_event_free(event);
}

static void versions_count_per_stream_and_sequences_grow_across_streams(void **state)
{
    cf *c = *state;
    howdah_position a1 = cf_append(c->bus, "a", "t", "1");
    howdah_position b1 = cf_append(c->bus, "b", "t", "2");
    howdah_position a2 = cf_append(c->bus, "a", "t", "3");

    assert_int_equal(a1.version, 1);
    assert_int_equal(b1.version, 1);
    assert_int_equal(a2.version, 2);
    assert_true(a1.global_sequence < b1.global_sequence);
    assert_true(b1.global_sequence < a2.global_sequence);
}

static void append_expecting(howdah_bus *bus, const char *stream, int64_t expected, int64_t version)
{
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = cf_event(stream, "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    options.expected_version = expected;
    cf_ok(howdah_append(bus, event, &options, &p, &cf_error));
    assert_int_equal(p.version, version);
    howdah_event_free(event);
}

static void a_met_expectation_appends(void **state)
{
    cf *c = *state;

    append_expecting(c->bus, "s", HOWDAH_EXPECT_NONE, 1);
    append_expecting(c->bus, "s", HOWDAH_EXPECT_EXISTS, 2);
    append_expecting(c->bus, "s", HOWDAH_EXPECT_ANY, 3);
    append_expecting(c->bus, "s", 3, 4);
    append_expecting(c->bus, "other", HOWDAH_EXPECT_ANY, 1);
}

static void an_unmet_expectation_names_the_actual_version_and_stores_nothing(void **state)
{
    static const struct {
        const char *stream;
        int64_t expected;
        int64_t actual;
    } cases[] = {{"s", HOWDAH_EXPECT_NONE, 2}, {"s", 1, 2},   {"s", 3, 2},
                 {"s", INT64_MAX - 1, 2},      {"new", 1, 0}, {"new", HOWDAH_EXPECT_EXISTS, 0}};
    cf *c = *state;

    (void)cf_append(c->bus, "s", "t", NULL);
    (void)cf_append(c->bus, "s", "t", NULL);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *event = cf_event(cases[i].stream, "t", NULL);

        cf_append_fails(c->bus, event, cases[i].expected, HOWDAH_CONFLICT, &err);
        assert_int_equal(err.actual_version, cases[i].actual);
        assert_int_equal(err.flags, 0);
        howdah_event_free(event);
    }
    assert_int_equal(cf_count(c->bus), 2);
}

static void what_a_handle_appended_itself_is_still_checked_against_others(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *other = cf_open(c);
    howdah_event *event = cf_event("s", "t", NULL);

    append_expecting(c->bus, "s", HOWDAH_EXPECT_NONE, 1);
    append_expecting(c->bus, "s", 1, 2);
    append_expecting(other, "s", 2, 3);
    cf_append_fails(c->bus, event, 2, HOWDAH_CONFLICT, &err);
    assert_int_equal(err.actual_version, 3);
    append_expecting(c->bus, "s", 3, 4);
    append_expecting(c->bus, "s", 4, 5);
    cf_append_fails(c->bus, event, 4, HOWDAH_CONFLICT, &err);
    cf_append_fails(c->bus, event, 6, HOWDAH_CONFLICT, &err);
    assert_int_equal(err.actual_version, 5);
    cf_append_fails(other, event, 3, HOWDAH_CONFLICT, &err);
    assert_int_equal(cf_count(c->bus), 5);
    howdah_event_free(event);
    howdah_close(other);
}

static void what_a_handle_has_read_is_still_checked_against_others(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *other = cf_open(c);
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_reader_options forward = {.size = sizeof forward, .stream = "s"};
    howdah_reader_options backward = {.size = sizeof backward, .stream = "s", .backward = true};

    append_expecting(other, "s", HOWDAH_EXPECT_NONE, 1);
    append_expecting(other, "s", 1, 2);
    assert_string_equal(cf_read(c->bus, &forward), "1 2");
    append_expecting(other, "s", 2, 3);
    cf_append_fails(c->bus, event, 2, HOWDAH_CONFLICT, &err);
    assert_int_equal(err.actual_version, 3);
    append_expecting(c->bus, "s", 3, 4);
    append_expecting(other, "s", 4, 5);
    assert_string_equal(cf_read(c->bus, &backward), "5 4 3 2 1");
    append_expecting(c->bus, "s", 5, 6);
    cf_append_fails(c->bus, event, 7, HOWDAH_CONFLICT, &err);
    assert_int_equal(err.actual_version, 6);
    assert_int_equal(cf_count(c->bus), 6);
    howdah_event_free(event);
    howdah_close(other);
}

static void the_same_event_again_is_answered_with_its_position(void **state)
{
    cf *c = *state;
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = cf_event("s", "t", "{\"n\": 1}");
    howdah_position first = cf_append_event(c->bus, event);
    howdah_position again = HOWDAH_POSITION_INIT;

    (void)cf_append(c->bus, "s", "t", NULL);
    again = cf_append_event(c->bus, event);
    assert_int_equal(again.global_sequence, first.global_sequence);
    assert_int_equal(again.version, 1);
    assert_int_equal(again.recorded_at_us, first.recorded_at_us);
    assert_int_equal(again.already_stored, 1);

    /* However late it comes: the expectation was about the first time. */
    options.expected_version = HOWDAH_EXPECT_NONE;
    cf_ok(howdah_append(c->bus, event, &options, &again, &cf_error));
    assert_int_equal(again.global_sequence, first.global_sequence);
    assert_int_equal(again.already_stored, 1);
    assert_int_equal(cf_count(c->bus), 2);
    howdah_event_free(event);
}

/* The id of a stored event with one field changed; which says which. */
static howdah_event *variant(const char *id, int which)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_id(b, id);
    howdah_builder_set_stream(b, which == 1 ? "other" : "s");
    howdah_builder_set_type(b, which == 2 ? "u" : "t");
    howdah_builder_set_json(b, which == 3 ? "{\"n\":1 }" : "{\"n\":1}", which == 3 ? 8 : 7);
    howdah_builder_add_header(b, "k", which == 4 ? "w" : "v");
    howdah_builder_set_correlation(b, which == 5 ? "c2" : "c1");
    howdah_builder_set_causation(b, which == 6 ? "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6b"
                                               : "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a");
    howdah_builder_set_actor(b, which == 7 ? NULL : "ann");
    howdah_builder_set_valid_time(b, which == 8 ? 2000000 : 1000000);
    howdah_builder_set_schema_version(b, which == 9 ? 2 : 1);
    if (which == 10)
        howdah_builder_set_bytes(b, "{\"n\":1}", 7, "application/json");
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    howdah_builder_free(b);
    return event;
}

static void an_id_with_any_other_content_is_refused_and_changes_nothing(void **state)
{
    static const char id[] = "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b60";
    cf *c = *state;
    howdah_event *event = variant(id, 0);

    (void)cf_append_event(c->bus, event);
    howdah_event_free(event);
    event = variant(id, 0);
    assert_int_equal(cf_append_event(c->bus, event).already_stored, 1);
    howdah_event_free(event);
    for (int which = 1; which <= 10; which++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        event = variant(id, which);
        cf_append_fails(c->bus, event, HOWDAH_EXPECT_ANY, HOWDAH_ID_REUSED, &err);
        howdah_event_free(event);
    }
    assert_int_equal(cf_count(c->bus), 1);
}

static void a_payload_comes_back_to_the_dead_letter(void **state)
{
    static const char *const payloads[] = {
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "123456789012345678901234567890.123456789012345678901234567890e-10",
        "{\"b\":1,\"a\":2,\"b\":3}",
        "  [ 1 , 2.50 , 1E+5 ]\n\t",
        "\"\\u00e9 \\ud83d\\ude00 \\/ \xc3\xa9\"",
        "null",
        "true",
        "{}",
        "\"\"",
    };
    cf *c = *state;

    for (size_t i = 0; i < sizeof payloads / sizeof payloads[0]; i++) {
        howdah_event *event = NULL;
        size_t len = 0;

        (void)cf_append(c->bus, "s", "t", payloads[i]);
        cf_ok(howdah_event_get_last(c->bus, "s", &event, &cf_error));
        assert_string_equal(howdah_event_data(event, &len), payloads[i]);
        assert_int_equal(len, strlen(payloads[i]));
        assert_null(howdah_event_content_type(event));
        howdah_event_free(event);
    }
}

static void bytes_come_back_with_their_content_type(void **state)
{
    static const char bytes[] = {0, 1, (char)0xff, 0, 'a', '\n', (char)0x80};
    cf *c = *state;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    size_t len = 0;
    const char *data;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "t");
    for (int empty = 0; empty < 2; empty++) {
        howdah_builder_set_bytes(b, bytes, empty ? 0 : sizeof bytes, "image/png");
        cf_ok(howdah_builder_build(b, &event, &cf_error));
        (void)cf_append_event(c->bus, event);
        howdah_event_free(event);
        cf_ok(howdah_event_get_last(c->bus, "s", &event, &cf_error));
        data = howdah_event_data(event, &len);
        assert_int_equal(len, empty ? 0 : sizeof bytes);
        assert_memory_equal(data, bytes, len);
        assert_string_equal(howdah_event_content_type(event), "image/png");
        howdah_event_free(event);
    }
    howdah_builder_free(b);
}

static void every_field_comes_back(void **state)
{
    cf *c = *state;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_position p = HOWDAH_POSITION_INIT;
    char uuid[HOWDAH_UUID_SIZE];
    int64_t us = 0;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_id(b, "0190A5C8-7B1E-7CC0-8000-1F2E3D4C5B6A");
    howdah_builder_set_stream(b, "str\xc3\xa9"
                                 "am/1 'x' \"y\"");
    howdah_builder_set_type(b, "order.created");
    howdah_builder_set_headers_json(b, "{\"b\": \"1\",\"a\":\"\\u00e9\"}", 23);
    howdah_builder_set_correlation(b, "corr-1");
    howdah_builder_set_causation(b, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6b");
    howdah_builder_set_actor(b, "ann@example.org");
    howdah_builder_set_valid_time(b, INT64_C(-62135596800000000));
    howdah_builder_set_schema_version(b, 2147483647);
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    howdah_builder_free(b);
    p = cf_append_event(c->bus, event);
    howdah_event_free(event);

    cf_ok(howdah_event_get(c->bus, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a", &event, &cf_error));
    assert_int_equal(howdah_event_global_sequence(event), p.global_sequence);
    assert_int_equal(howdah_event_version(event), 1);
    howdah_event_id(event, uuid);
    assert_string_equal(uuid, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a");
    howdah_event_family(event, uuid);
    assert_string_equal(uuid, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a");
    assert_string_equal(howdah_event_stream(event), "str\xc3\xa9"
                                                    "am/1 'x' \"y\"");
    assert_string_equal(howdah_event_type(event), "order.created");
    assert_string_equal(howdah_event_data(event, NULL), "{}");
    assert_string_equal(howdah_event_headers(event, NULL), "{\"b\": \"1\",\"a\":\"\\u00e9\"}");
    assert_string_equal(howdah_event_correlation(event), "corr-1");
    assert_true(howdah_event_causation(event, uuid));
    assert_string_equal(uuid, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6b");
    assert_string_equal(howdah_event_actor(event), "ann@example.org");
    assert_true(howdah_event_valid_time(event, &us));
    assert_int_equal(us, INT64_C(-62135596800000000));
    assert_true(howdah_event_recorded_at(event, &us));
    assert_int_equal(us, p.recorded_at_us);
    assert_int_equal(howdah_event_schema_version(event), 2147483647);
    assert_int_equal(howdah_event_revision(event), 1);
    assert_false(howdah_event_corrects(event, uuid));
    assert_null(howdah_event_reason(event));
    howdah_event_free(event);
}

static void valid_time_is_the_recorded_time_unless_given(void **state)
{
    cf *c = *state;
    howdah_event *event = NULL;
    int64_t valid = 0;
    int64_t recorded = 0;

    (void)cf_append(c->bus, "s", "t", NULL);
    cf_ok(howdah_event_get_last(c->bus, "s", &event, &cf_error));
    assert_true(howdah_event_valid_time(event, &valid));
    assert_true(howdah_event_recorded_at(event, &recorded));
    assert_int_equal(valid, recorded);
    howdah_event_free(event);
}

static void recorded_time_never_runs_back_within_a_stream(void **state)
{
    cf *c = *state;
    int64_t last = 0;

    for (int i = 0; i < 50; i++) {
        int64_t at = cf_append(c->bus, "s", "t", NULL).recorded_at_us;

        assert_true(at >= last);
        last = at;
    }
}

static void a_payload_at_the_limit_is_stored_and_one_byte_more_is_refused(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *small = NULL;
    howdah_event *event;

    cf_ok(howdah_settings_set(c->settings, "payload_bytes_max", "64", &cf_error));
    small = cf_open(c);
    event =
        cf_event("s", "t", "\"01234567890123456789012345678901234567890123456789012345678901\"");
    (void)cf_append_event(small, event);
    howdah_event_free(event);
    event =
        cf_event("s", "t", "\"012345678901234567890123456789012345678901234567890123456789012\"");
    cf_append_fails(small, event, HOWDAH_EXPECT_ANY, HOWDAH_LIMIT, &err);
    assert_string_equal(err.field, "data");
    assert_non_null(strstr(err.message, "64"));
    assert_non_null(strstr(err.message, "65"));
    assert_int_equal(cf_count(small), 1);
    howdah_event_free(event);
    howdah_close(small);
}

static void a_megabyte_passes_and_a_byte_more_does_not(void **state)
{
    enum { MIB = 1024 * 1024 };
    static char json[MIB + 2];
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event;
    howdah_event *back = NULL;
    size_t len = 0;

    memset(json, 'x', MIB + 1);
    json[0] = json[MIB - 1] = '"';
    json[MIB] = '\0';
    event = cf_event("s", "t", json);
    (void)cf_append_event(c->bus, event);
    howdah_event_free(event);
    cf_ok(howdah_event_get_last(c->bus, "s", &back, &cf_error));
    assert_string_equal(howdah_event_data(back, &len), json);
    howdah_event_free(back);
    json[MIB - 1] = 'x';
    json[MIB] = '"';
    event = cf_event("s", "t", json);
    cf_append_fails(c->bus, event, HOWDAH_EXPECT_ANY, HOWDAH_LIMIT, &err);
    howdah_event_free(event);
    assert_int_equal(cf_count(c->bus), 1);
}

static void an_event_read_can_be_appended_elsewhere(void **state)
{
    cf *c = *state;
    howdah_event *event = NULL;
    howdah_builder *b = NULL;
    howdah_event *copy = NULL;

    (void)cf_append(c->bus, "s", "t", "{\"a\":1}");
    cf_ok(howdah_event_get_last(c->bus, "s", &event, &cf_error));
    assert_int_equal(cf_append_event(c->bus, event).already_stored, 1);
    cf_ok(howdah_builder_from_event(event, &b, &cf_error));
    howdah_builder_set_id(b, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a");
    cf_ok(howdah_builder_build(b, &copy, &cf_error));
    assert_int_equal(cf_append_event(c->bus, copy).version, 2);
    howdah_event_free(event);
    howdah_event_free(copy);
    howdah_builder_free(b);
}

static void misuse_is_told_and_stores_nothing(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_append_options bad = {0, HOWDAH_EXPECT_ANY};
    struct {
        howdah_append_options known;
        int64_t unknown; /* what a later version may add */
    } later = {HOWDAH_APPEND_OPTIONS_INIT, 0};
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    assert_int_equal(howdah_append(NULL, event, NULL, &p, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_append(c->bus, NULL, NULL, &p, &err), HOWDAH_MISUSE);
    assert_int_equal(howdah_append(c->bus, event, &bad, &p, &err), HOWDAH_MISUSE);
    cf_append_fails(c->bus, event, -3, HOWDAH_INVALID, &err);
    later.known.size = sizeof later;
    later.unknown = 1;
    assert_int_equal(howdah_append(c->bus, event, &later.known, &p, &err), HOWDAH_MISUSE);
    assert_non_null(strstr(err.message, "does not know"));
    assert_int_equal(cf_count(c->bus), 0);
    later.unknown = 0;
    cf_ok(howdah_append(c->bus, event, &later.known, &p, &cf_error));
    howdah_event_free(event);
}

static void an_interrupted_bus_answers_at_once_and_can_be_resumed(void **state)
{
    cf *c = *state;
    howdah_event *event = cf_event("s", "t", NULL);
    howdah_position p = HOWDAH_POSITION_INIT;

    if (!cf_is_pg()) {
        /* SQLite answers without waiting: only its waits are interruptible. */
        howdah_interrupt(c->bus);
        howdah_interrupt_clear(c->bus);
    } else {
        howdah_interrupt(c->bus);
        assert_int_equal(howdah_append(c->bus, event, NULL, &p, NULL), HOWDAH_INTERRUPTED);
        howdah_interrupt_clear(c->bus);
    }
    cf_ok(howdah_append(c->bus, event, NULL, &p, &cf_error));
    assert_int_equal(p.version, 1);
    howdah_event_free(event);
}

cf_group cf_append_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(an_append_returns_sequence_version_revision_and_id),
        CF_TEST(versions_count_per_stream_and_sequences_grow_across_streams),
        CF_TEST(a_met_expectation_appends),
        CF_TEST(an_unmet_expectation_names_the_actual_version_and_stores_nothing),
        CF_TEST(what_a_handle_appended_itself_is_still_checked_against_others),
        CF_TEST(what_a_handle_has_read_is_still_checked_against_others),
        CF_TEST(the_same_event_again_is_answered_with_its_position),
        CF_TEST(an_id_with_any_other_content_is_refused_and_changes_nothing),
        CF_TEST(a_payload_comes_back_to_the_dead_letter),
        CF_TEST(bytes_come_back_with_their_content_type),
        CF_TEST(every_field_comes_back),
        CF_TEST(valid_time_is_the_recorded_time_unless_given),
        CF_TEST(recorded_time_never_runs_back_within_a_stream),
        CF_TEST(a_payload_at_the_limit_is_stored_and_one_byte_more_is_refused),
        CF_TEST(a_megabyte_passes_and_a_byte_more_does_not),
        CF_TEST(an_event_read_can_be_appended_elsewhere),
        CF_TEST(misuse_is_told_and_stores_nothing),
        CF_TEST(an_interrupted_bus_answers_at_once_and_can_be_resumed),
    };
    return CF_GROUP(tests);
}
