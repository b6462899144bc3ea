/* test_read.c - reading: streams, everything, types, patterns, correlations, trees. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "conformance.h"

static howdah_reader_options options(void)
{
    return (howdah_reader_options)HOWDAH_READER_OPTIONS_INIT;
}

/* Sequences 1..6: a1 b1 a2 a3 b2 a4 */
static void six_events(howdah_bus *bus)
{
    static const char *const streams[] = {"a", "b", "a", "a", "b", "a"};
    static const char *const types[] = {"order.created", "order.paid", "payment.created",
                                        "order.shipped", "order.a.b",  "order"};

    for (int i = 0; i < 6; i++)
        assert_int_equal(cf_append(bus, streams[i], types[i], "{}").global_sequence, i + 1);
}

static void a_stream_is_read_forward_backward_and_in_ranges(void **state)
{
    cf *c = *state;
    howdah_reader_options o = options();

    six_events(c->bus);
    o.stream = "a";
    assert_string_equal(cf_read(c->bus, &o), "1 2 3 4");
    o.backward = true;
    assert_string_equal(cf_read(c->bus, &o), "4 3 2 1");
    o.from = 2;
    o.to = 3;
    assert_string_equal(cf_read(c->bus, &o), "3 2");
    o.backward = false;
    assert_string_equal(cf_read(c->bus, &o), "2 3");
    o.to = 0;
    o.limit = 1;
    assert_string_equal(cf_read(c->bus, &o), "2");
    o.from = 5;
    assert_string_equal(cf_read(c->bus, &o), "");
    o.from = 3;
    o.to = 2;
    assert_string_equal(cf_read(c->bus, &o), "");
    o = options();
    o.stream = "none";
    assert_string_equal(cf_read(c->bus, &o), "");
}

static void everything_is_read_by_sequence(void **state)
{
    cf *c = *state;
    howdah_reader_options o = options();

    assert_string_equal(cf_read(c->bus, &o), "");
    six_events(c->bus);
    assert_string_equal(cf_read(c->bus, &o), "1 2 3 4 5 6");
    o.backward = true;
    o.limit = 2;
    assert_string_equal(cf_read(c->bus, &o), "6 5");
    o.to = 4;
    assert_string_equal(cf_read(c->bus, &o), "4 3");
    o = options();
    o.from = 2;
    o.to = 4;
    assert_string_equal(cf_read(c->bus, &o), "2 3 4");
    o.to = INT64_MAX;
    o.from = INT64_MAX;
    assert_string_equal(cf_read(c->bus, &o), "");
}

static int64_t first_since(howdah_bus *bus, int64_t since, int *ret_n)
{
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t first = 0;
    int s;

    *ret_n = 0;
    cf_ok(howdah_reader_open_since(bus, since, &reader, &cf_error));
    while ((s = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK)
        if ((*ret_n)++ == 0)
            first = howdah_event_global_sequence(event);
    cf_ok(s);
    howdah_reader_close(reader);
    return first;
}

static void all_since_a_sequence_returns_what_follows_and_zero_returns_all(void **state)
{
    cf *c = *state;
    int n = 0;

    six_events(c->bus);
    assert_int_equal(first_since(c->bus, 2, &n), 3);
    assert_int_equal(n, 4);
    assert_int_equal(first_since(c->bus, 0, &n), 1);
    assert_int_equal(n, 6);
    assert_int_equal(first_since(c->bus, 6, &n), 0);
    assert_int_equal(n, 0);
}

static void types_and_patterns_select(void **state)
{
    static const struct {
        const char *pattern;
        const char *sequences;
    } cases[] = {{"order.*", "1 2 4"},  {"*.created", "1 3"}, {"order.>", "1 2 4 5"},
                 {"order", "6"},        {"*", "6"},           {"*.*", "1 2 3 4"},
                 {"order.*.b", "5"},    {">", "1 2 3 4 5 6"}, {"Order.*", ""},
                 {"order.created", "1"}};
    cf *c = *state;
    howdah_reader_options o = options();

    six_events(c->bus);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        o.pattern = cases[i].pattern;
        assert_string_equal(cf_read(c->bus, &o), cases[i].sequences);
    }
    o = options();
    o.type = "order.paid";
    assert_string_equal(cf_read(c->bus, &o), "2");
    o.backward = true;
    o.type = "order";
    assert_string_equal(cf_read(c->bus, &o), "6");
    o = options();
    o.stream = "a";
    o.pattern = "order.*";
    assert_string_equal(cf_read(c->bus, &o), "1 3");
}

static void append_correlated(howdah_bus *bus, const char *stream, const char *type,
                              const char *correlation)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, type);
    howdah_builder_set_correlation(b, correlation);
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    (void)cf_append_event(bus, event);
    howdah_event_free(event);
    howdah_builder_free(b);
}

static void a_correlation_selects(void **state)
{
    cf *c = *state;
    howdah_reader_options o = options();

    append_correlated(c->bus, "a", "x", "one");
    append_correlated(c->bus, "b", "y", "two");
    append_correlated(c->bus, "b", "x", "one");
    append_correlated(c->bus, "a", "y", NULL);
    o.correlation_id = "one";
    assert_string_equal(cf_read(c->bus, &o), "1 3");
    o.backward = true;
    assert_string_equal(cf_read(c->bus, &o), "3 1");
    o.backward = false;
    o.stream = "b";
    assert_string_equal(cf_read(c->bus, &o), "2");
    o.stream = NULL;
    o.type = "x";
    o.from = 2;
    assert_string_equal(cf_read(c->bus, &o), "3");
    o.correlation_id = "three";
    assert_string_equal(cf_read(c->bus, &o), "");
}

#define SOME 2300

static void append_some(howdah_bus *bus)
{
    static howdah_event *events[SOME];

    for (int i = 0; i < SOME; i++)
        events[i] = cf_event(i % 2 ? "odd" : "even", i % 10 ? "common" : "rare.type", "{\"i\":1}");
    cf_ok(
        howdah_append_batch(bus, (const howdah_event *const *)events, SOME, NULL, NULL, &cf_error));
    for (int i = 0; i < SOME; i++)
        howdah_event_free(events[i]);
}

/* Counts, and checks that the order is right all the way. */
static int count_in_order(howdah_bus *bus, const howdah_reader_options *o)
{
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t last = o->backward ? INT64_MAX : 0;
    int n = 0;
    int s;

    cf_ok(howdah_reader_open(bus, o, &reader, &cf_error));
    while ((s = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK) {
        int64_t at = o->stream ? howdah_event_version(event) : howdah_event_global_sequence(event);

        assert_true(o->backward ? at < last : at > last);
        last = at;
        n++;
    }
    cf_ok(s);
    howdah_reader_close(reader);
    return n;
}

static void many_pages_are_read_without_a_gap_or_a_repeat(void **state)
{
    cf *c = *state;
    howdah_bus *bus;
    howdah_reader_options o = options();

    append_some(c->bus);
    cf_ok(howdah_settings_set(c->settings, "read_batch", "7", &cf_error));
    bus = cf_open(c);
    assert_int_equal(count_in_order(bus, &o), SOME);
    o.backward = true;
    assert_int_equal(count_in_order(bus, &o), SOME);
    o.stream = "odd";
    assert_int_equal(count_in_order(bus, &o), SOME / 2);
    o = options();
    o.pattern = "rare.*";
    assert_int_equal(count_in_order(bus, &o), SOME / 10);
    o.limit = 15;
    assert_int_equal(count_in_order(bus, &o), 15);
    o = options();
    o.from = 100;
    o.to = 1100;
    assert_int_equal(count_in_order(bus, &o), 1001);
    howdah_close(bus);
}

static void readers_and_appends_share_a_bus(void **state)
{
    cf *c = *state;
    howdah_reader_options o = options();
    howdah_reader *one = NULL;
    howdah_reader *two = NULL;
    const howdah_event *event = NULL;

    append_some(c->bus);
    cf_ok(howdah_settings_set(c->settings, "read_batch", "10", &cf_error));
    howdah_close(c->bus);
    c->bus = cf_open(c);
    cf_ok(howdah_reader_open(c->bus, &o, &one, &cf_error));
    o.backward = true;
    cf_ok(howdah_reader_open(c->bus, &o, &two, &cf_error));
    for (int64_t i = 1; i <= 500; i++) {
        assert_int_equal(howdah_reader_next(one, &event, &cf_error), HOWDAH_OK);
        assert_int_equal(howdah_event_global_sequence(event), i);
        assert_int_equal(howdah_reader_next(two, &event, &cf_error), HOWDAH_OK);
        assert_int_equal(howdah_event_global_sequence(event), SOME + 1 - i);
        if (i % 50 == 0)
            (void)cf_append(c->bus, "between", "t", NULL);
    }
    howdah_reader_close(one);
    howdah_reader_close(two);
    o = options();
    o.stream = "between";
    assert_string_equal(cf_read(c->bus, &o), "1 2 3 4 5 6 7 8 9 10");
}

static void large_payloads_are_streamed(void **state)
{
    enum { BYTES = 700 * 1024 };
    static char json[BYTES + 1];
    cf *c = *state;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int n = 0;

    memset(json, 'y', BYTES);
    json[0] = json[BYTES - 1] = '"';
    for (int i = 0; i < 40; i++)
        (void)cf_append(c->bus, "s", "t", json);
    cf_ok(howdah_reader_open_since(c->bus, 0, &reader, &cf_error));
    while (howdah_reader_next(reader, &event, &cf_error) == HOWDAH_OK) {
        size_t len = 0;

        assert_memory_equal(howdah_event_data(event, &len), json, BYTES);
        assert_int_equal(len, BYTES);
        n++;
    }
    assert_int_equal(n, 40);
    howdah_reader_close(reader);
}

static void the_last_event_of_a_stream_and_an_event_by_id(void **state)
{
    cf *c = *state;
    howdah_event *event = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_position p = HOWDAH_POSITION_INIT;

    six_events(c->bus);
    cf_ok(howdah_event_get_last(c->bus, "b", &event, &cf_error));
    assert_int_equal(howdah_event_global_sequence(event), 5);
    howdah_event_free(event);
    p = cf_append(c->bus, "z", "t", NULL);
    cf_ok(howdah_event_get(c->bus, p.id, &event, &cf_error));
    assert_int_equal(howdah_event_global_sequence(event), 7);
    howdah_event_free(event);
    assert_int_equal(howdah_event_get_last(c->bus, "none", &event, &err), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_event_get(c->bus, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a", &event, &err),
                     HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_event_get(c->bus, "nonsense", &event, &err), HOWDAH_INVALID);
    assert_string_equal(err.field, "id");
}

static void bad_questions_are_refused(void **state)
{
    cf *c = *state;
    howdah_reader *reader = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    struct {
        howdah_reader_options o;
        const char *field;
    } cases[] = {{options(), "stream"},         {options(), "type"},   {options(), "pattern"},
                 {options(), "from"},           {options(), "limit"},  {options(), "to"},
                 {options(), "correlation_id"}, {options(), "pattern"}};

    cases[0].o.stream = "";
    cases[1].o.type = "a..b";
    cases[2].o.pattern = "a.>.b";
    cases[3].o.from = -1;
    cases[4].o.limit = -5;
    cases[5].o.to = INT64_MIN;
    cases[6].o.correlation_id = "a\nb";
    cases[7].o.pattern = "a*";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(howdah_reader_open(c->bus, &cases[i].o, &reader, &err), HOWDAH_INVALID);
        assert_string_equal(err.field, cases[i].field);
    }
    assert_int_equal(howdah_reader_open_since(c->bus, -1, &reader, &err), HOWDAH_INVALID);
}

/* ---- trees */

static const char *const uuids[] = {
    "00000000-0000-7000-8000-000000000000", "00000000-0000-7000-8000-000000000001",
    "00000000-0000-7000-8000-000000000002", "00000000-0000-7000-8000-000000000003",
    "00000000-0000-7000-8000-000000000004", "00000000-0000-7000-8000-000000000005",
    "00000000-0000-7000-8000-000000000006", "00000000-0000-7000-8000-000000000007",
    "00000000-0000-7000-8000-000000000008", "00000000-0000-7000-8000-000000000009"};

static void append_caused(howdah_bus *bus, int id, int cause)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "t");
    howdah_builder_set_id(b, uuids[id]);
    if (cause >= 0)
        howdah_builder_set_causation(b, uuids[cause]);
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    (void)cf_append_event(bus, event);
    howdah_event_free(event);
    howdah_builder_free(b);
}

static int write_node(void *ctx, int depth, const howdah_event *event)
{
    char *text = ctx;
    char id[HOWDAH_UUID_SIZE];

    howdah_event_id(event, id);
    (void)sprintf(text + strlen(text), "%s%d:%c", text[0] ? " " : "", depth, id[35]);
    return 0;
}

static const char *tree_of(howdah_bus *bus, int id)
{
    static char text[512];

    text[0] = '\0';
    cf_ok(howdah_causation_walk(bus, uuids[id], write_node, text, &cf_error));
    return text;
}

static void a_causation_tree_shows_ancestors_self_and_descendants(void **state)
{
    cf *c = *state;

    append_caused(c->bus, 0, -1);
    append_caused(c->bus, 1, 0);
    append_caused(c->bus, 2, 1);
    append_caused(c->bus, 3, 2);
    append_caused(c->bus, 4, 1);
    append_caused(c->bus, 5, 3);
    append_caused(c->bus, 6, 2);
    append_caused(c->bus, 7, -1);
    assert_string_equal(tree_of(c->bus, 2), "-2:0 -1:1 0:2 1:3 2:5 1:6");
    assert_string_equal(tree_of(c->bus, 0), "0:0 1:1 2:2 3:3 4:5 3:6 2:4");
    assert_string_equal(tree_of(c->bus, 5), "-4:0 -3:1 -2:2 -1:3 0:5");
    assert_string_equal(tree_of(c->bus, 7), "0:7");
}

static void a_cause_that_is_not_stored_or_a_circle_ends_the_walk(void **state)
{
    cf *c = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    char text[64] = "";

    append_caused(c->bus, 1, 9);
    append_caused(c->bus, 2, 3);
    append_caused(c->bus, 3, 2);
    append_caused(c->bus, 4, 4);
    assert_string_equal(tree_of(c->bus, 1), "0:1");
    assert_string_equal(tree_of(c->bus, 2), "-1:3 0:2");
    assert_string_equal(tree_of(c->bus, 4), "0:4");
    assert_int_equal(howdah_causation_walk(c->bus, uuids[8], write_node, text, &err),
                     HOWDAH_NOT_FOUND);
}

static int stop_at_two(void *ctx, int depth, const howdah_event *event)
{
    (void)depth;
    (void)event;
    return ++*(int *)ctx == 2;
}

static void a_tree_walk_can_be_stopped(void **state)
{
    cf *c = *state;
    int n = 0;

    for (int i = 0; i < 5; i++)
        append_caused(c->bus, i, i - 1);
    cf_ok(howdah_causation_walk(c->bus, uuids[0], stop_at_two, &n, &cf_error));
    assert_int_equal(n, 2);
}

/* ------------------------------------------------------------ rare patterns */

#define MANY 40000
#define PER_BATCH 10000
#define RARE_EVERY 9999 /* four of them */
#define TRIES 5

static void fill_with_rare(howdah_bus *bus)
{
    howdah_event **events = calloc(PER_BATCH, sizeof *events);

    assert_non_null(events);
    for (int i = 0; i < MANY; i += PER_BATCH) {
        for (int k = 0; k < PER_BATCH; k++) {
            char type[32];

            (void)snprintf(type, sizeof type,
                           (i + k + 1) % RARE_EVERY == 0 ? "rare.%d" : "usual.%d", (i + k) % 7);
            events[k] = cf_event("s", type, "{\"some\":\"thing\"}");
        }
        cf_ok(howdah_append_batch(bus, (const howdah_event *const *)events, PER_BATCH, NULL, NULL,
                                  &cf_error));
        for (int k = 0; k < PER_BATCH; k++)
            howdah_event_free(events[k]);
    }
    free(events);
}

static int64_t count_matches(howdah_bus *bus, const howdah_reader_options *o)
{
    const howdah_event *event = NULL;
    howdah_reader *reader = NULL;
    int64_t n = 0;
    int s;

    cf_ok(howdah_reader_open(bus, o, &reader, &cf_error));
    while ((s = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK)
        n++;
    cf_ok(s);
    howdah_reader_close(reader);
    return n;
}

/* In the best of several tries. */
static int64_t reading_us(howdah_bus *bus, const howdah_reader_options *o, int64_t expected)
{
    int64_t best = INT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        int64_t began = hw_clock_mono_us();
        int64_t took;

        assert_int_equal(count_matches(bus, o), expected);
        took = hw_clock_mono_us() - began;
        best = took < best ? took : best;
    }
    return best;
}

/* The login without rights on the table asks a function, which does walk. */
static void a_rare_pattern_is_read_without_walking_the_log(void **state)
{
    cf *c = *state;
    howdah_reader_options o = options();
    int64_t all;

    fill_with_rare(c->bus);
    all = reading_us(c->bus, &o, MANY);
    o.pattern = "rare.*";
    assert_string_equal(cf_read(c->bus, &o), "9999 19998 29997 39996");
    if (cf_is_owner())
        assert_true(reading_us(c->bus, &o, 4) * 10 < all);
    o.backward = true;
    assert_string_equal(cf_read(c->bus, &o), "39996 29997 19998 9999");
    if (cf_is_owner())
        assert_true(reading_us(c->bus, &o, 4) * 10 < all);
    o.from = 10000;
    o.to = 39995;
    assert_string_equal(cf_read(c->bus, &o), "29997 19998");
    o.limit = 1;
    assert_string_equal(cf_read(c->bus, &o), "29997");
}

/* Whichever way a page takes, the next one goes on behind it. */
static void a_pattern_that_is_dense_here_and_rare_there_is_read_whole(void **state)
{
    cf *c = *state;
    howdah_reader_options o = options();

    fill_with_rare(c->bus);
    o.pattern = "usual.*";
    assert_int_equal(count_matches(c->bus, &o), MANY - 4);
    o.backward = true;
    assert_int_equal(count_matches(c->bus, &o), MANY - 4);
    o.pattern = "*.3"; /* one in seven, and no prefix */
    assert_int_equal(count_matches(c->bus, &o), 5714);
    o.backward = false;
    o.limit = 5000;
    assert_int_equal(count_matches(c->bus, &o), 5000);
}

cf_group cf_read_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(a_stream_is_read_forward_backward_and_in_ranges),
        CF_TEST(everything_is_read_by_sequence),
        CF_TEST(all_since_a_sequence_returns_what_follows_and_zero_returns_all),
        CF_TEST(types_and_patterns_select),
        CF_TEST(a_correlation_selects),
        CF_TEST(many_pages_are_read_without_a_gap_or_a_repeat),
        CF_TEST(readers_and_appends_share_a_bus),
        CF_TEST(large_payloads_are_streamed),
        CF_TEST(the_last_event_of_a_stream_and_an_event_by_id),
        CF_TEST(bad_questions_are_refused),
        CF_TEST(a_causation_tree_shows_ancestors_self_and_descendants),
        CF_TEST(a_cause_that_is_not_stored_or_a_circle_ends_the_walk),
        CF_TEST(a_tree_walk_can_be_stopped),
        CF_TEST(a_rare_pattern_is_read_without_walking_the_log),
        CF_TEST(a_pattern_that_is_dense_here_and_rare_there_is_read_whole),
    };
    return CF_GROUP(tests);
}
