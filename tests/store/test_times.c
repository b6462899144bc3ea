/* test_times.c - corrections, and what was known when: the queries of store/times.h. */
#include <stdio.h>

#include "engine/pattern.h"
#include "times.h"

#define DAY INT64_C(86400000000)

static howdah_event a_said_fact(const char *stream, const char *type, const char *data,
                                int64_t valid_time_us)
{
    howdah_event event = a_fact_at(stream, type, valid_time_us);

    event.data = S(data);
    return event;
}

/* Stores a fact of stream "s" and type "t" that says this. */
static howdah_event put(const ss *t, const char *data, int64_t valid_time_us)
{
    howdah_event event = a_said_fact("s", "t", data, valid_time_us);

    times_put(t, &event);
    return event;
}

/* Stores the next revision, which says this; NOT: the valid time stays. */
static howdah_event put_correction(const ss *t, const howdah_event *of, const char *data,
                                   int64_t valid_time_us)
{
    howdah_event event = a_correction_of(of);

    event.data = S(data);
    if (valid_time_us != NOT)
        event.valid_time_us = valid_time_us;
    times_put(t, &event);
    return event;
}

static howdah_event put_retraction(const ss *t, const howdah_event *of)
{
    howdah_event event = a_retraction_of(of);

    times_put(t, &event);
    return event;
}

static void expect_data(const ss *t, hw_times_query query, const char *data)
{
    assert_string_equal(times_data(t, &query), data);
}

/* ---- corrections */

static void a_correction_is_an_event_of_its_own_in_the_family_of_what_it_corrects(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", 5 * DAY);
    howdah_event second = put_correction(t, &first, "2", 6 * DAY);
    howdah_event *stored;

    (void)times_ops(t);
    assert_int_equal(second.version, first.version + 1);
    assert_true(second.global_sequence > first.global_sequence);
    assert_true(second.recorded_at_us > first.recorded_at_us);
    stored = times_load(t, &second.id);
    assert_int_equal(stored->revision, 2);
    assert_true(stored->has_family && stored->has_corrects);
    assert_memory_equal(stored->family.b, first.id.b, sizeof first.id.b);
    assert_memory_equal(stored->corrects.b, first.id.b, sizeof first.id.b);
    assert_string_equal(stored->reason.s, "a slip");
    assert_string_equal(stored->data.s, "2");
    assert_true(stored->valid_time_us == 6 * DAY);
    assert_false(stored->retracts || stored->purged);
    hw_event_free(stored);
}

static void a_retraction_says_so_wherever_it_is_read(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", NOT);
    howdah_event gone = put_retraction(t, &first);
    howdah_event *stored;

    (void)times_ops(t);
    stored = times_load(t, &gone.id);
    assert_true(stored->retracts);
    assert_string_equal(stored->data.s, "null");
    hw_event_free(stored);
    stored = times_load(t, &first.id);
    assert_false(stored->retracts);
    hw_event_free(stored);
}

static void only_the_newest_revision_can_be_corrected(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    howdah_event first = put(t, "1", NOT);
    howdah_event second = put_correction(t, &first, "2", NOT);
    howdah_event fork = a_correction_of(&first);
    hw_times_query all = all_events();

    (void)times_ops(t);
    assert_int_equal(times_try(t->store, &fork), HW_APPEND_REVISION_TAKEN);
    assert_int_equal(times_try(other, &fork), HW_APPEND_REVISION_TAKEN);
    assert_int_equal(times_count(t, &all), 2);
    (void)put_correction(t, &second, "3", NOT);
    other->ops->close(other);
}

static void a_correction_of_what_is_not_there_is_refused(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", NOT);
    howdah_event lost = a_correction_of(&first);
    hw_times_query all = all_events();

    (void)times_ops(t);
    assert_true(hw_uuid_v7(&lost.corrects));
    lost.family = lost.corrects;
    assert_int_equal(times_try(t->store, &lost), HW_APPEND_REVISION_TAKEN);
    assert_int_equal(times_count(t, &all), 1);
}

static void a_correction_that_is_repeated_is_known_by_its_id(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", NOT);
    howdah_event second = put_correction(t, &first, "2", NOT);
    howdah_event again = second;

    (void)times_ops(t);
    assert_int_equal(times_try(t->store, &again), HW_APPEND_ID_TAKEN);
    (void)put_correction(t, &second, "3", NOT);
    assert_int_equal(times_try(t->store, &again), HW_APPEND_ID_TAKEN);
}

static void a_correction_is_recorded_later_even_when_the_clock_is_behind(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", NOT);
    howdah_event second;
    howdah_event third;

    (void)times_ops(t);
    ss_sql(t, ss_is_pg() ? "UPDATE {events} SET recorded_at = recorded_at + interval '1 day'"
                         : "UPDATE {events} SET recorded_at = recorded_at + 86400000000");
    second = put_correction(t, &first, "2", NOT);
    assert_true(second.recorded_at_us == first.recorded_at_us + DAY + 1);
    third = put_correction(t, &second, "3", NOT);
    assert_true(third.recorded_at_us > second.recorded_at_us);
    expect_data(t, as_of(NOT, second.recorded_at_us - 1), "1");
    expect_data(t, as_of(NOT, second.recorded_at_us), "2");
    expect_data(t, as_of(NOT, third.recorded_at_us), "3");
}

/* ---- as of */

static void as_of_a_time_each_family_has_the_revision_that_was_known_then(void **state)
{
    ss *t = *state;
    howdah_event a = put(t, "\"a1\"", DAY);
    howdah_event b = put(t, "\"b1\"", DAY);
    howdah_event a2 = put_correction(t, &a, "\"a2\"", NOT);
    howdah_event b2 = put_correction(t, &b, "\"b2\"", NOT);
    howdah_event a3 = put_correction(t, &a2, "\"a3\"", NOT);

    expect_data(t, as_of(NOT, a.recorded_at_us - 1), "");
    expect_data(t, as_of(NOT, a.recorded_at_us), "\"a1\"");
    expect_data(t, as_of(NOT, b.recorded_at_us), "\"a1\" \"b1\"");
    expect_data(t, as_of(NOT, a2.recorded_at_us - 1), "\"a1\" \"b1\"");
    expect_data(t, as_of(NOT, a2.recorded_at_us), "\"b1\" \"a2\"");
    expect_data(t, as_of(NOT, b2.recorded_at_us), "\"a2\" \"b2\"");
    expect_data(t, as_of(NOT, a3.recorded_at_us - 1), "\"a2\" \"b2\"");
    expect_data(t, as_of(NOT, a3.recorded_at_us), "\"b2\" \"a3\"");
    expect_data(t, as_of(NOT, NOT), "\"b2\" \"a3\"");
}

static void facts_are_valid_from_their_valid_time_on(void **state)
{
    ss *t = *state;
    howdah_event open;

    (void)put(t, "5", 5 * DAY);
    (void)put(t, "3", 3 * DAY);
    open = put(t, "0", NOT);
    expect_data(t, as_of(3 * DAY - 1, NOT), "");
    expect_data(t, as_of(3 * DAY, NOT), "3");
    expect_data(t, as_of(5 * DAY, NOT), "5 3");
    expect_data(t, as_of(open.recorded_at_us - 1, NOT), "5 3");
    expect_data(t, as_of(open.recorded_at_us, NOT), "5 3 0");
}

static void a_correction_moves_a_fact_into_and_out_of_the_past(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", 5 * DAY);
    howdah_event later = put_correction(t, &first, "2", 9 * DAY);
    howdah_event sooner = put_correction(t, &later, "3", 2 * DAY);

    expect_data(t, as_of(5 * DAY, first.recorded_at_us), "1");
    expect_data(t, as_of(5 * DAY, later.recorded_at_us), "");
    expect_data(t, as_of(9 * DAY, later.recorded_at_us), "2");
    expect_data(t, as_of(5 * DAY, sooner.recorded_at_us), "3");
    expect_data(t, as_of(2 * DAY - 1, sooner.recorded_at_us), "");
}

static void what_is_retracted_is_gone_until_it_is_taken_up_again(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", DAY);
    howdah_event gone = put_retraction(t, &first);
    howdah_event back = put_correction(t, &gone, "2", NOT);
    hw_times_query shown = as_of(NOT, gone.recorded_at_us);

    expect_data(t, as_of(NOT, first.recorded_at_us), "1");
    expect_data(t, as_of(NOT, gone.recorded_at_us), "");
    expect_data(t, as_of(NOT, back.recorded_at_us), "2");
    shown.retractions = true;
    expect_data(t, shown, "null");
    shown.known_at = back.recorded_at_us;
    expect_data(t, shown, "2");
}

static void the_log_has_every_revision_and_originals_only_the_first(void **state)
{
    ss *t = *state;
    howdah_event a = put(t, "1", NOT);
    howdah_event b = put(t, "2", NOT);
    hw_times_query originals = all_events();

    (void)put_correction(t, &a, "3", NOT);
    (void)put_retraction(t, &b);
    originals.view = HOWDAH_VIEW_ORIGINALS;
    expect_data(t, all_events(), "1 2 3 null");
    expect_data(t, originals, "1 2");
}

static void filters_look_at_the_revision_that_was_chosen(void **state)
{
    ss *t = *state;
    howdah_event first = put(t, "1", 5 * DAY);
    howdah_event second = a_correction_of(&first);
    hw_header_is is = {S("k"), S("v")};
    hw_times_query q = as_of(NOT, NOT);

    second.data = S("2");
    second.valid_time_us = 9 * DAY;
    second.headers = S("{\"k\":\"v\"}");
    times_put(t, &second);
    q.valid = (hw_time_span){5 * DAY, 6 * DAY};
    expect_data(t, q, "");
    q.known_at = first.recorded_at_us;
    expect_data(t, q, "1");
    q = as_of(NOT, NOT);
    q.headers = &is;
    q.headers_n = 1;
    expect_data(t, q, "2");
    q.known_at = first.recorded_at_us;
    expect_data(t, q, "");
}

/* ---- filters */

static void ranges_include_their_beginning_and_not_their_end(void **state)
{
    ss *t = *state;
    howdah_event events[4];
    hw_times_query q = all_events();

    for (int i = 0; i < 4; i++) {
        static const char *const data[] = {"1", "2", "3", "4"};

        events[i] = put(t, data[i], (i + 1) * DAY);
    }
    q.valid = (hw_time_span){2 * DAY, 4 * DAY};
    expect_data(t, q, "2 3");
    q.valid = (hw_time_span){2 * DAY, NOT};
    expect_data(t, q, "2 3 4");
    q.valid = (hw_time_span){NOT, 2 * DAY};
    expect_data(t, q, "1");
    q.valid = (hw_time_span){4 * DAY, 2 * DAY};
    expect_data(t, q, "");
    q = all_events();
    q.recorded = (hw_time_span){events[1].recorded_at_us, events[3].recorded_at_us};
    expect_data(t, q, "2 3");
    q.recorded.before = NOT;
    expect_data(t, q, "2 3 4");
    q.recorded = (hw_time_span){NOT, events[1].recorded_at_us};
    expect_data(t, q, "1");
    q.recorded = (hw_time_span){events[1].recorded_at_us, NOT};
    q.valid = (hw_time_span){NOT, 4 * DAY};
    expect_data(t, q, "2 3");
}

/* Four events that differ in everything. */
static void put_the_four(const ss *t, howdah_event *e)
{
    e[0] = a_said_fact("a", "order.created", "1", NOT);
    times_put(t, &e[0]);
    e[1] = a_said_fact("b", "order.item.added", "2", NOT);
    e[1].correlation_id = S("c");
    e[1].has_causation = true;
    e[1].causation_id = e[0].id;
    times_put(t, &e[1]);
    e[2] = a_said_fact("a", "order.paid", "3", NOT);
    e[2].has_causation = true;
    e[2].causation_id = e[0].id;
    times_put(t, &e[2]);
    e[3] = a_said_fact("b", "user.created", "4", NOT);
    e[3].correlation_id = S("c");
    times_put(t, &e[3]);
}

static void each_filter_lets_its_own_through(void **state)
{
    ss *t = *state;
    howdah_event e[4];
    hw_times_query base;

    put_the_four(t, e);
    for (int view = 0; view < 2; view++)
        for (int order = 0; order < 3; order++) {
            hw_times_query q;

            base = view == 0 ? all_events() : as_of(NOT, NOT);
            base.order = (howdah_order)order;
            q = base;
            q.stream = S("a");
            expect_data(t, q, "1 3");
            q = base;
            q.type = S("order.paid");
            expect_data(t, q, "3");
            q = base;
            q.pattern = S("order.*");
            expect_data(t, q, "1 3");
            q.pattern = S("order.>");
            expect_data(t, q, "1 2 3");
            q.pattern = S("*.created");
            expect_data(t, q, "1 4");
            q.pattern = S("user.created");
            hw_pattern_to_type(&q.type, &q.pattern);
            expect_data(t, q, "4");
            q.type = HW_STR_NULL;
            q.pattern = S("Order.*");
            expect_data(t, q, "");
            q = base;
            q.correlation_id = S("c");
            expect_data(t, q, "2 4");
            q = base;
            q.has_causation = true;
            q.causation_id = e[0].id;
            expect_data(t, q, "2 3");
            q.stream = S("b");
            expect_data(t, q, "2");
            q.pattern = S("order.*");
            expect_data(t, q, "");
        }
}

static void families_are_found_by_the_id_of_their_first_event(void **state)
{
    ss *t = *state;
    howdah_event e[4];
    howdah_event second;
    hw_uuid wanted[3];
    hw_times_query q = all_events();

    put_the_four(t, e);
    second = put_correction(t, &e[1], "5", NOT);
    wanted[0] = e[3].id;
    wanted[1] = e[1].id;
    wanted[2] = second.id; /* no family's */
    q.families = wanted;
    q.families_n = 3;
    expect_data(t, q, "2 4 5");
    q.backward = true;
    q.batch = 1;
    expect_data(t, q, "5 4 2");
    q.stream = S("b");
    q.type = S("user.created");
    expect_data(t, q, "4");
    q = as_of(NOT, NOT);
    q.families = wanted;
    q.families_n = 3;
    expect_data(t, q, "4 5");
    q.families_n = 0;
    expect_data(t, q, "");
    assert_int_equal(times_count(t, &q), 0);
}

static void headers_are_compared_by_name_and_value_whatever_the_name(void **state)
{
    static const struct {
        const char *json, *name, *value;
    } rows[] = {
        {"{\"plain\":\"1\"}", "plain", "1"},
        {"{\"a.b[0]\":\"2\"}", "a.b[0]", "2"},
        {"{\"it's \\\"q\\\"\":\"3\"}", "it's \"q\"", "3"},
        {"{\"\\u00e4 %s\":\"4\"}", "\xc3\xa4 %s", "4"},
        {"{\"$\":\"5\"}", "$", "5"},
        {"{\"twice\":\"x\",\"twice\":\"6\"}", "twice", "6"},
        {"{\"v\":\"7 \\\"\\\\\"}", "v", "7 \"\\"},
        {"{\"-\\ud83d\\ude00-\":\"8\"}", "-\xf0\x9f\x98\x80-", "8"},
    };
    ss *t = *state;
    char data[2] = "0";

    (void)put(t, "9", NOT);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        howdah_event event = a_fact("s", "t");

        data[0] = (char)('1' + i);
        event.data = S(data);
        event.headers = S(rows[i].json);
        times_put(t, &event);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        hw_header_is is[2] = {{S(rows[i].name), S(rows[i].value)}, {S("plain"), S("1")}};
        hw_times_query q = all_events();

        data[0] = (char)('1' + i);
        q.headers = is;
        q.headers_n = 1;
        expect_data(t, q, data);
        assert_int_equal(times_count(t, &q), 1);
        q.headers_n = 2;
        expect_data(t, q, i == 0 ? "1" : "");
        is[0].value = S("x");
        q.headers_n = 1;
        expect_data(t, q, "");
    }
}

/* ---- orders and pages */

static void every_order_goes_both_ways_over_pages_and_equal_times_go_by_number(void **state)
{
    static const struct {
        howdah_order order;
        const char *forward;
        const char *backward;
    } orders[] = {
        {HOWDAH_ORDER_SEQUENCE, "1 2 3 4 5 6 7", "7 6 5 4 3 2 1"},
        {HOWDAH_ORDER_VALID, "3 1 2 5 4 7 6", "6 7 4 5 2 1 3"},
        {HOWDAH_ORDER_RECORDED, "1 2 3 4 5 6 7", "7 6 5 4 3 2 1"},
    };
    ss *t = *state;
    howdah_event e[7];
    int64_t later = hw_clock_wall_us() + DAY;

    (void)times_ops(t);
    e[0] = a_said_fact("s", "t", "1", 2 * DAY);
    e[1] = a_said_fact("s", "t", "2", 2 * DAY);
    e[2] = a_said_fact("s", "t", "3", DAY);
    e[3] = a_said_fact("s", "u", "4", NOT);
    e[4] = a_said_fact("s", "t", "5", 3 * DAY);
    e[5] = a_said_fact("s", "t", "6", later);
    e[6] = a_said_fact("s", "t", "7", later - 1);
    times_put_all(t, e, 7);
    for (size_t i = 0; i < 3; i++)
        for (size_t batch = 0; batch < 9; batch++) {
            hw_times_query q = batch % 2 == 0 ? all_events() : as_of(NOT, NOT);

            q.order = orders[i].order;
            q.batch = batch;
            expect_data(t, q, orders[i].forward);
            q.stream = S("s");
            expect_data(t, q, orders[i].forward);
            q.backward = true;
            expect_data(t, q, orders[i].backward);
            q.stream = HW_STR_NULL;
            expect_data(t, q, orders[i].backward);
        }
}

static void a_limit_ends_a_query_whatever_the_page(void **state)
{
    ss *t = *state;

    for (int i = 0; i < 9; i++)
        (void)put(t, "1", (9 - i) * DAY);
    for (size_t batch = 1; batch < 5; batch++)
        for (int order = 0; order < 3; order++) {
            hw_times_query q = all_events();

            q.order = (howdah_order)order;
            q.batch = batch;
            q.limit = 4;
            assert_string_equal(times_sequences(t, &q),
                                order == HOWDAH_ORDER_VALID ? "9 8 7 6" : "1 2 3 4");
            q.backward = true;
            assert_string_equal(times_sequences(t, &q),
                                order == HOWDAH_ORDER_VALID ? "1 2 3 4" : "9 8 7 6");
            q.limit = 40;
            q.backward = false;
            assert_string_equal(times_sequences(t, &q), order == HOWDAH_ORDER_VALID
                                                            ? "9 8 7 6 5 4 3 2 1"
                                                            : "1 2 3 4 5 6 7 8 9");
        }
}

static void other_operations_go_on_between_two_pages(void **state)
{
    ss *t = *state;
    const hw_times_ops *ops = times_ops(t);
    hw_times_query q = all_events();
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    hw_store *other = ss_open(t);
    howdah_event more = a_fact("s", "t");
    size_t n = 0;

    (void)put(t, "1", 2 * DAY);
    (void)put(t, "2", 3 * DAY);
    q.batch = 1;
    q.order = HOWDAH_ORDER_VALID;
    ok(ops->query_open(t->store, &q, &cursor, &ss_error));
    expect(cursor->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_OK);
    assert_string_equal(events[0].data.s, "1");
    (void)put(t, "0", DAY);
    assert_int_equal(times_try(other, &more), HW_APPEND_STORED);
    if (!ss_is_pg()) /* nobody reads: the log can be emptied */
        assert_int_equal(ss_sql_number(t, "PRAGMA wal_checkpoint(TRUNCATE)"), 0);
    expect(cursor->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_OK);
    assert_string_equal(events[0].data.s, "2");
    cursor->store->ops->read_close(cursor);
    other->ops->close(other);
}

/* Two pages of one event each, and in between a correction of the older one. */
static void read_while_it_is_corrected(ss *t, hw_times_query q, const char *name)
{
    static const char *const data[] = {"1", "2"};
    const hw_times_ops *ops = times_ops(t);
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    howdah_event facts[2];
    size_t n = 0;

    for (size_t i = 0; i < 2; i++) {
        facts[i] = a_said_fact(name, name, data[i], NOT);
        times_put(t, &facts[i]);
    }
    q.batch = 1;
    ok(ops->query_open(t->store, &q, &cursor, &ss_error));
    expect(cursor->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_OK);
    assert_string_equal(events[0].data.s, data[q.backward]);
    (void)put_correction(t, &facts[0], "3", NOT);
    expect(cursor->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_OK);
    assert_string_equal(events[0].data.s, data[!q.backward]);
    expect(cursor->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_END);
    cursor->store->ops->read_close(cursor);
    expect_data(t, q, q.backward ? "3 2" : "2 3");
}

/* A query as of now is one picture of the log, however many pages it has. */
static void a_family_that_is_corrected_between_two_pages_comes_once(void **state)
{
    ss *t = *state;

    for (int i = 0; i < 6; i++) {
        hw_times_query q = as_of(NOT, NOT);
        char type[16];
        char pattern[16];

        (void)snprintf(type, sizeof type, "t%d.x", i);
        (void)snprintf(pattern, sizeof pattern, "t%d.*", i);
        q.backward = i % 2 == 1;
        if (i / 2 == 0)
            q.stream = S(type);
        else if (i / 2 == 1)
            q.type = S(type);
        else
            q.pattern = S(pattern);
        read_while_it_is_corrected(t, q, type);
    }
}

/* More than the keys of one scan. */
static void a_long_answer_in_the_order_of_a_time_is_complete(void **state)
{
    enum { ROUNDS = 860, EACH = 60 };
    ss *t = *state;
    const hw_times_ops *ops = times_ops(t);
    hw_times_query q = all_events();
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    int64_t last = INT64_MIN;
    int64_t total = 0;
    size_t n = 0;
    int s;

    if (ss_is_pg())
        ss_sql(t, "INSERT INTO {events} (stream, version, type, data, valid_time)"
                  " SELECT 's', n, 't', json '{}', to_timestamp((n * 7919) % 20011)"
                  " FROM generate_series(1, 51600) n");
    else
        ss_sql(t, "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c"
                  " WHERE n < 51600) INSERT INTO {events} (stream, version, type, data, valid_time)"
                  " SELECT 's', n, 't', '{}', (n * 7919) % 20011 FROM c");
    q.order = HOWDAH_ORDER_VALID;
    for (int backward = 0; backward < 2; backward++) {
        int64_t sequence = 0;

        q.backward = backward == 1;
        total = 0;
        last = q.backward ? INT64_MAX : INT64_MIN;
        ok(ops->query_open(t->store, &q, &cursor, &ss_error));
        while ((s = cursor->store->ops->read_next(cursor, &events, &n, &ss_error)) == HOWDAH_OK)
            for (size_t i = 0; i < n; i++, total++) {
                int64_t time = events[i].valid_time_us;

                assert_true(q.backward ? time <= last : time >= last);
                if (time == last)
                    assert_true(q.backward ? events[i].global_sequence < sequence
                                           : events[i].global_sequence > sequence);
                last = time;
                sequence = events[i].global_sequence;
            }
        expect(s, HOWDAH_END);
        cursor->store->ops->read_close(cursor);
        assert_int_equal(total, ROUNDS * EACH);
    }
}

/* ---- counts, types, streams */

static int count_type(void *ctx, const howdah_type_stats *stats)
{
    char *text = ctx;
    size_t len = strlen(text);

    assert_int_equal(stats->size, sizeof *stats);
    (void)snprintf(text + len, 1024 - len, "%s %lld/%lld/%lld/%lld %lld..%lld\n", stats->type,
                   (long long)stats->events, (long long)stats->corrections,
                   (long long)stats->retractions, (long long)stats->streams,
                   (long long)(stats->first_valid_us / DAY),
                   (long long)(stats->last_valid_us / DAY));
    return strcmp(stats->type, "stop") == 0;
}

static const char *types_of(const ss *t, const hw_times_query *query)
{
    static char text[1024];

    text[0] = '\0';
    ok(times_ops(t)->types(t->store, query, count_type, text, &ss_error));
    return text;
}

static void types_are_counted_with_their_times(void **state)
{
    ss *t = *state;
    howdah_event e[4] = {a_fact_at("a", "x.y", 3 * DAY), a_fact_at("b", "x.y", 2 * DAY),
                         a_fact_at("a", "B", 4 * DAY), a_fact_at("a", "x.y", 9 * DAY)};
    howdah_event second;
    hw_times_query q = all_events();

    (void)times_ops(t);
    times_put_all(t, e, 4);
    second = put_correction(t, &e[0], "1", 7 * DAY);
    (void)put_retraction(t, &second);
    assert_string_equal(types_of(t, &q), "B 1/0/0/1 4..4\nx.y 5/2/1/2 2..9\n");
    q.pattern = S("*.*");
    assert_string_equal(types_of(t, &q), "x.y 5/2/1/2 2..9\n");
    q = as_of(NOT, NOT);
    assert_string_equal(types_of(t, &q), "B 1/0/0/1 4..4\nx.y 2/0/0/2 2..9\n");
    q.known_at = second.recorded_at_us;
    assert_string_equal(types_of(t, &q), "B 1/0/0/1 4..4\nx.y 3/1/0/2 2..9\n");
    q.valid_at = DAY;
    assert_string_equal(types_of(t, &q), "");
}

static void the_walk_over_types_ends_when_it_is_told_to(void **state)
{
    ss *t = *state;
    howdah_event e[3] = {a_fact_at("a", "again", 0), a_fact_at("a", "stop", 0),
                         a_fact_at("a", "then", 0)};
    hw_times_query q = all_events();

    (void)times_ops(t);
    times_put_all(t, e, 3);
    assert_string_equal(types_of(t, &q), "again 1/0/0/1 0..0\nstop 1/0/0/1 0..0\n");
}

static int add_name(void *ctx, hw_str stream)
{
    char *text = ctx;
    size_t len = strlen(text);

    assert_int_equal(stream.s[stream.len], '\0');
    (void)snprintf(text + len, 256 - len, "%s%s", len > 0 ? " " : "", stream.s);
    return strcmp(stream.s, "stop") == 0;
}

static const char *streams_of(const ss *t, const hw_times_query *query, const char *after,
                              int64_t limit)
{
    static char text[256];

    text[0] = '\0';
    ok(times_ops(t)->streams(t->store, query, S(after), limit, add_name, text, &ss_error));
    return text;
}

static void streams_come_by_name_behind_the_one_that_is_named(void **state)
{
    static const char *const names[] = {"b", "a", "\xc3\xa4", "B", "b", "stop", "b", "z"};
    ss *t = *state;
    hw_times_query q = all_events();
    howdah_event gone;

    (void)times_ops(t);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        howdah_event event = a_fact(names[i], i % 2 == 0 ? "even.t" : "odd.t");

        times_put(t, &event);
        if (i == 1)
            gone = event;
    }
    assert_string_equal(streams_of(t, &q, NULL, 10), "B a b stop");
    assert_string_equal(streams_of(t, &q, "stop", 10), "z \xc3\xa4");
    assert_string_equal(streams_of(t, &q, "a", 1), "b");
    assert_string_equal(streams_of(t, &q, NULL, 2), "B a");
    assert_string_equal(streams_of(t, &q, "\xc3\xa4", 10), "");
    q.type = S("odd.t");
    assert_string_equal(streams_of(t, &q, NULL, 3), "B a stop");
    q.type = HW_STR_NULL;
    q.pattern = S("even.*");
    assert_string_equal(streams_of(t, &q, NULL, 10), "b \xc3\xa4");
    q = as_of(NOT, NOT);
    (void)put_retraction(t, &gone);
    assert_string_equal(streams_of(t, &q, NULL, 2), "B b");
    q.stream = S("z");
    assert_string_equal(streams_of(t, &q, NULL, 2), "z");
    assert_string_equal(streams_of(t, &q, "z", 2), "");
}

static void an_empty_log_answers_nothing(void **state)
{
    ss *t = *state;

    for (int order = 0; order < 3; order++) {
        hw_times_query q = order == 1 ? as_of(NOT, NOT) : all_events();

        q.order = (howdah_order)order;
        expect_data(t, q, "");
        assert_int_equal(times_count(t, &q), 0);
        assert_string_equal(types_of(t, &q), "");
        assert_string_equal(streams_of(t, &q, NULL, 5), "");
    }
}

static void what_a_query_was_given_is_copied(void **state)
{
    ss *t = *state;
    const hw_times_ops *ops = times_ops(t);
    char stream[] = "s";
    char name[] = "k";
    char value[] = "v";
    hw_header_is is = {S(name), S(value)};
    howdah_event event = a_fact("s", "t");
    hw_uuid family;
    hw_times_query q = all_events();
    const howdah_event *events = NULL;
    hw_cursor *cursor = NULL;
    size_t n = 0;

    event.headers = S("{\"k\":\"v\"}");
    times_put(t, &event);
    family = event.id;
    q.stream = S(stream);
    q.headers = &is;
    q.headers_n = 1;
    q.families = &family;
    q.families_n = 1;
    ok(ops->query_open(t->store, &q, &cursor, &ss_error));
    stream[0] = name[0] = value[0] = '?';
    is = (hw_header_is){HW_STR_NULL, HW_STR_NULL};
    memset(&family, 0, sizeof family);
    memset(&q, 0, sizeof q);
    expect(cursor->store->ops->read_next(cursor, &events, &n, &ss_error), HOWDAH_OK);
    assert_int_equal(n, 1);
    cursor->store->ops->read_close(cursor);
}

ss_group ss_times_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_correction_is_an_event_of_its_own_in_the_family_of_what_it_corrects),
        SS_TEST(a_retraction_says_so_wherever_it_is_read),
        SS_TEST(only_the_newest_revision_can_be_corrected),
        SS_TEST(a_correction_of_what_is_not_there_is_refused),
        SS_TEST(a_correction_that_is_repeated_is_known_by_its_id),
        SS_TEST(a_correction_is_recorded_later_even_when_the_clock_is_behind),
        SS_TEST(as_of_a_time_each_family_has_the_revision_that_was_known_then),
        SS_TEST(facts_are_valid_from_their_valid_time_on),
        SS_TEST(a_correction_moves_a_fact_into_and_out_of_the_past),
        SS_TEST(what_is_retracted_is_gone_until_it_is_taken_up_again),
        SS_TEST(the_log_has_every_revision_and_originals_only_the_first),
        SS_TEST(filters_look_at_the_revision_that_was_chosen),
        SS_TEST(ranges_include_their_beginning_and_not_their_end),
        SS_TEST(each_filter_lets_its_own_through),
        SS_TEST(families_are_found_by_the_id_of_their_first_event),
        SS_TEST(headers_are_compared_by_name_and_value_whatever_the_name),
        SS_TEST(every_order_goes_both_ways_over_pages_and_equal_times_go_by_number),
        SS_TEST(a_limit_ends_a_query_whatever_the_page),
        SS_TEST(other_operations_go_on_between_two_pages),
        SS_TEST(a_family_that_is_corrected_between_two_pages_comes_once),
        SS_TEST(a_long_answer_in_the_order_of_a_time_is_complete),
        SS_TEST(types_are_counted_with_their_times),
        SS_TEST(the_walk_over_types_ends_when_it_is_told_to),
        SS_TEST(streams_come_by_name_behind_the_one_that_is_named),
        SS_TEST(an_empty_log_answers_nothing),
        SS_TEST(what_a_query_was_given_is_copied),
    };

    return SS_GROUP(tests);
}
