/* test_upcast.c - old payloads, upcast on every way out. */
#include <stdio.h>
#include <string.h>

#include "conformance.h"

/* Contexts of steps. */
static char name_b[] = "b";
static char name_c[] = "c";
static char name_d[] = "d";
static char name_x[] = "x";

/* Adds a member, so that the steps taken and their order can be read: {"v":1} -> {"v":1,"b":2}. */
static int add_member(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    const char *member = ctx;
    size_t len = 0;
    const char *data = howdah_event_data(event, &len);
    char text[256];
    int n = snprintf(text, sizeof text, "%.*s,\"%s\":%d}", (int)len - 1, data, member,
                     howdah_event_schema_version(event) + 1);

    howdah_upcast_set_json(upcast, text, (size_t)n);
    return HOWDAH_OK;
}

static int to_bytes(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    (void)ctx;
    (void)event;
    howdah_upcast_set_bytes(upcast, "\x01\x02", 2, "application/x-two");
    return HOWDAH_OK;
}

static int refuse(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    (void)ctx;
    (void)event;
    return howdah_upcast_fail(upcast, "no such currency");
}

static int give_nothing(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    (void)ctx;
    (void)event;
    (void)upcast;
    return HOWDAH_OK;
}

static int give_garbage(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    (void)ctx;
    (void)event;
    howdah_upcast_set_json(upcast, "{\"a\":", 5);
    return HOWDAH_OK;
}

static howdah_position append(howdah_bus *bus, const char *type, int64_t schema_version)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_position p = HOWDAH_POSITION_INIT;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, type);
    howdah_builder_set_json(b, "{\"v\":1}", 7);
    howdah_builder_set_schema_version(b, schema_version);
    howdah_builder_set_correlation(b, "c");
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    p = cf_append_event(bus, event);
    howdah_event_free(event);
    howdah_builder_free(b);
    return p;
}

/* Two steps of type a: 1 to 2, 2 to 3. */
static void register_two(howdah_bus *bus)
{
    cf_ok(howdah_upcast_register(bus, "a", 2, add_member, name_c, &cf_error));
    cf_ok(howdah_upcast_register(bus, "a", 1, add_member, name_b, &cf_error));
}

static void assert_counts(const howdah_bus *bus, int64_t upcast, int64_t steps, int64_t missing,
                          int64_t failed)
{
    howdah_upcast_counts counts = HOWDAH_UPCAST_COUNTS_INIT;

    howdah_upcast_counts_get(bus, &counts);
    assert_int_equal(counts.upcast, upcast);
    assert_int_equal(counts.steps, steps);
    assert_int_equal(counts.missing, missing);
    assert_int_equal(counts.failed, failed);
}

/* Every payload of a read, as "{...}/schema_version ..."; the last status is left in *ret_end. */
static const char *read_all(howdah_bus *bus, int *ret_end)
{
    static char text[4096];
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    size_t at = 0;

    text[0] = '\0';
    cf_ok(howdah_reader_open_since(bus, 0, &reader, &cf_error));
    while ((*ret_end = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s/%d", at ? " " : "",
                               howdah_event_data(event, NULL), howdah_event_schema_version(event));
    howdah_reader_close(reader);
    return text;
}

static void old_payloads_are_upcast_step_by_step_when_they_are_read(void **state)
{
    cf *c = *state;
    int end = 0;

    (void)append(c->bus, "a", 1);
    (void)append(c->bus, "b", 1);
    (void)append(c->bus, "a", 2);
    (void)append(c->bus, "a", 3);
    (void)append(c->bus, "a", 4);
    register_two(c->bus);
    assert_string_equal(read_all(c->bus, &end),
                        "{\"v\":1,\"b\":2,\"c\":3}/3 {\"v\":1}/1 {\"v\":1,\"c\":3}/3 {\"v\":1}/3"
                        " {\"v\":1}/4");
    assert_int_equal(end, HOWDAH_END);
    assert_counts(c->bus, 2, 3, 0, 0);
}

static int keep_payload(void *ctx, int depth, const howdah_event *event)
{
    assert_int_equal(depth, 0);
    (void)snprintf(ctx, 64, "%s", howdah_event_data(event, NULL));
    return 0;
}

static void every_way_of_reading_upcasts(void **state)
{
    static const char upcast[] = "{\"v\":1,\"b\":2,\"c\":3}";
    cf *c = *state;
    howdah_position p = append(c->bus, "a", 1);
    howdah_tail_options since = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *tail = NULL;
    const howdah_event *borrowed = NULL;
    howdah_event *event = NULL;
    char text[64] = "";

    register_two(c->bus);
    cf_ok(howdah_event_get(c->bus, p.id, &event, &cf_error));
    assert_string_equal(howdah_event_data(event, NULL), upcast);
    howdah_event_free(event);
    cf_ok(howdah_event_get_last(c->bus, "s", &event, &cf_error));
    assert_string_equal(howdah_event_data(event, NULL), upcast);
    howdah_event_free(event);
    cf_ok(howdah_causation_walk(c->bus, p.id, keep_payload, text, &cf_error));
    assert_string_equal(text, upcast);
    since.since = 0;
    cf_ok(howdah_tail_open(c->bus, &since, &tail, &cf_error));
    assert_int_equal(howdah_tail_next(tail, 5000, &borrowed, &cf_error), HOWDAH_OK);
    assert_string_equal(howdah_event_data(borrowed, NULL), upcast);
    howdah_tail_close(tail);
    assert_counts(c->bus, 4, 8, 0, 0);
}

static void a_step_may_change_the_kind_of_payload(void **state)
{
    cf *c = *state;
    howdah_event *event = NULL;
    howdah_position p = append(c->bus, "a", 1);
    size_t len = 0;

    cf_ok(howdah_upcast_register(c->bus, "a", 1, to_bytes, NULL, &cf_error));
    cf_ok(howdah_event_get(c->bus, p.id, &event, &cf_error));
    assert_string_equal(howdah_event_content_type(event), "application/x-two");
    assert_memory_equal(howdah_event_data(event, &len), "\x01\x02", 2);
    assert_int_equal(len, 2);
    assert_int_equal(howdah_event_schema_version(event), 2);
    howdah_event_free(event);
}

static void a_missing_step_is_an_error_that_names_type_and_version(void **state)
{
    cf *c = *state;
    int end = 0;

    (void)append(c->bus, "a", 1);
    cf_ok(howdah_upcast_register(c->bus, "a", 1, add_member, name_b, &cf_error));
    cf_ok(howdah_upcast_register(c->bus, "a", 3, add_member, name_d, &cf_error));
    assert_string_equal(read_all(c->bus, &end), "");
    assert_int_equal(end, HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "schema_version");
    assert_string_equal(cf_error.message,
                        "schema_version: a, event 1: no step is registered from version 2");
    assert_counts(c->bus, 0, 1, 1, 0);
}

static void a_type_that_begins_like_another_has_steps_of_its_own(void **state)
{
    cf *c = *state;
    int end = 0;

    (void)append(c->bus, "a", 1);
    (void)append(c->bus, "a.b", 1);
    (void)append(c->bus, "ab", 1);
    cf_ok(howdah_upcast_register(c->bus, "a.b", 1, add_member, name_x, &cf_error));
    assert_string_equal(read_all(c->bus, &end), "{\"v\":1}/1 {\"v\":1,\"x\":2}/2 {\"v\":1}/1");
    assert_counts(c->bus, 1, 1, 0, 0);
}

static void a_step_that_fails_is_an_error_with_its_reason(void **state)
{
    static const struct {
        howdah_upcast_fn fn;
        const char *why;
    } bad[] = {{refuse, "no such currency"},
               {give_nothing, "it gave no payload"},
               {give_garbage, "data: not valid JSON"}};
    cf *c = *state;

    (void)append(c->bus, "a", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        howdah_bus *bus = cf_open(c);
        int end = 0;

        cf_ok(howdah_upcast_register(bus, "a", 1, bad[i].fn, NULL, &cf_error));
        assert_string_equal(read_all(bus, &end), "");
        assert_int_equal(end, HOWDAH_INVALID);
        assert_non_null(strstr(cf_error.message, "the step from version 1 has failed: "));
        assert_non_null(strstr(cf_error.message, bad[i].why));
        assert_counts(bus, 0, 0, 0, 1);
        howdah_close(bus);
    }
}

static void a_step_is_registered_once_and_with_a_rule(void **state)
{
    cf *c = *state;

    cf_ok(howdah_upcast_register(c->bus, "a", 1, add_member, name_b, &cf_error));
    assert_int_equal(howdah_upcast_register(c->bus, "a", 1, add_member, name_b, &cf_error),
                     HOWDAH_CONFLICT);
    assert_int_equal(howdah_upcast_register(c->bus, "a", 0, add_member, name_b, &cf_error),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_upcast_register(c->bus, "a", INT32_MAX, add_member, name_b, &cf_error),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_upcast_register(c->bus, "a b", 1, add_member, name_b, &cf_error),
                     HOWDAH_INVALID);
    assert_int_equal(howdah_upcast_register(c->bus, "a", 2, NULL, NULL, &cf_error), HOWDAH_MISUSE);
    assert_int_equal(howdah_upcast_register(NULL, "a", 2, add_member, name_b, &cf_error),
                     HOWDAH_MISUSE);
}

/* ------------------------------------------------------------ subscriptions */

typedef struct seen {
    char text[1024];
    size_t len;
} seen;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;

    (void)delivery;
    s->len += (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "%s%lld:%s",
                               s->len ? " " : "", (long long)howdah_event_global_sequence(event),
                               howdah_event_data(event, NULL));
    return HOWDAH_HANDLED;
}

static howdah_subscription *subscribe(howdah_bus *bus, seen *s, howdah_on_fail on_fail)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = "p";
    o.handler = on_event;
    o.ctx = s;
    o.on_fail = on_fail;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    return sub;
}

static void a_handler_sees_upcast_events(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    seen s = {.len = 0};

    (void)append(c->bus, "a", 1);
    (void)append(c->bus, "b", 1);
    register_two(bus);
    assert_int_equal(
        howdah_subscription_wait(subscribe(bus, &s, HOWDAH_FAIL_OPEN), 10000, &cf_error),
        HOWDAH_OK);
    assert_string_equal(s.text, "1:{\"v\":1,\"b\":2,\"c\":3} 2:{\"v\":1}");
    assert_int_equal(howdah_upcast_register(bus, "b", 1, add_member, name_b, &cf_error),
                     HOWDAH_MISUSE);
    howdah_close(bus);
}

static int keep_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    (void)snprintf(ctx, 256, "%s|%d|%lld|%s", howdah_event_data(dead_letter->event, NULL),
                   howdah_event_schema_version(dead_letter->event),
                   (long long)dead_letter->attempts, dead_letter->error);
    return 0;
}

static void an_event_that_cannot_be_upcast_is_a_dead_letter_as_it_is_stored(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    seen s = {.len = 0};
    char dead_letter[256] = "";
    int64_t n = 0;

    (void)append(c->bus, "a", 1);
    (void)append(c->bus, "b", 1);
    cf_ok(howdah_upcast_register(bus, "a", 1, refuse, NULL, &cf_error));
    assert_int_equal(
        howdah_subscription_wait(subscribe(bus, &s, HOWDAH_FAIL_OPEN), 10000, &cf_error),
        HOWDAH_OK);
    assert_string_equal(s.text, "2:{\"v\":1}");
    assert_counts(bus, 0, 0, 0, 1);
    howdah_close(bus);
    cf_ok(howdah_dead_letters_walk(c->bus, NULL, keep_dead_letter, dead_letter, &cf_error));
    assert_string_equal(dead_letter,
                        "{\"v\":1}|1|1|schema_version: a, event 1: the step from version 1"
                        " has failed: no such currency");

    /* Another release of the program knows better. */
    cf_ok(howdah_dead_letters_redrive(c->bus, NULL, 0, "p", &n, &cf_error));
    assert_int_equal(n, 1);
    bus = cf_open(c);
    cf_ok(howdah_upcast_register(bus, "a", 1, add_member, name_b, &cf_error));
    (void)subscribe(bus, &s, HOWDAH_FAIL_OPEN);
    for (int i = 0; i < 500 && !strstr(s.text, "\"b\""); i++)
        cf_ok(howdah_run(bus, 20, &cf_error));
    assert_string_equal(s.text, "2:{\"v\":1} 1:{\"v\":1,\"b\":2}");
    howdah_close(bus);
}

static void a_subscription_that_fails_closed_halts_at_what_cannot_be_upcast(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    seen s = {.len = 0};
    howdah_subscription *sub;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    (void)append(c->bus, "b", 1);
    (void)append(c->bus, "a", 1);
    (void)append(c->bus, "b", 1);
    cf_ok(howdah_upcast_register(bus, "a", 2, add_member, name_c, &cf_error));
    sub = subscribe(bus, &s, HOWDAH_FAIL_CLOSED);
    cf_ok(howdah_run(bus, 10000, &cf_error)); /* until everything is halted */
    assert_string_equal(s.text, "1:{\"v\":1}");
    howdah_subscription_info_get(sub, &info);
    assert_int_equal(info.state, HOWDAH_SUBSCRIPTION_HALTED);
    assert_string_equal(info.reason,
                        "schema_version: a, event 2: no step is registered from version 1");
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    CF_TEST(old_payloads_are_upcast_step_by_step_when_they_are_read),
    CF_TEST(every_way_of_reading_upcasts),
    CF_TEST(a_step_may_change_the_kind_of_payload),
    CF_TEST(a_missing_step_is_an_error_that_names_type_and_version),
    CF_TEST(a_type_that_begins_like_another_has_steps_of_its_own),
    CF_TEST(a_step_that_fails_is_an_error_with_its_reason),
    CF_TEST(a_step_is_registered_once_and_with_a_rule),
    CF_SUB_TEST(a_handler_sees_upcast_events),
    CF_SUB_TEST(an_event_that_cannot_be_upcast_is_a_dead_letter_as_it_is_stored),
    CF_SUB_TEST(a_subscription_that_fails_closed_halts_at_what_cannot_be_upcast),
};

cf_group cf_upcast_tests(void)
{
    return CF_GROUP(tests);
}
