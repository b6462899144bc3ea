/* test_trace_context.c - which traces are taken, and what they add to headers. */
#include "unit.h"

#include "gateway/trace_context.h"

#define ID "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00-" ID "-00f067aa0ba902b7-01"

static void a_valid_traceparent_is_taken_and_names_its_trace(void **state)
{
    gw_trace trace;
    char id[GW_TRACE_ID_TEXT + 1];

    (void)state;
    assert_true(gw_trace_take(&trace, PARENT, NULL));
    assert_string_equal(trace.parent, PARENT);
    assert_string_equal(trace.state, "");
    gw_trace_id(&trace, id);
    assert_string_equal(id, ID);
    assert_true(gw_trace_take(&trace, "00-" ID "-00f067aa0ba902b7-00", NULL));
    assert_true(gw_trace_take(&trace, "00-" ID "-00f067aa0ba902b7-ff", NULL));
}

static void anything_else_is_no_trace(void **state)
{
    static const char *const wrong[] = {
        "",
        "00",
        ID,
        "01-" ID "-00f067aa0ba902b7-01",
        "ff-" ID "-00f067aa0ba902b7-01",
        "00-" ID "-00f067aa0ba902b7-0",
        "00-" ID "-00f067aa0ba902b7-011",
        "00-" ID "-00f067aa0ba902b7-01-x",
        "00-" ID "-00f067aa0ba902b7-0g",
        "00-" ID "-00F067AA0BA902B7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-" ID "-0000000000000000-01",
        "00_" ID "-00f067aa0ba902b7-01",
        "00-" ID "_00f067aa0ba902b7-01",
        "00-" ID "-00f067aa0ba902b7_01",
        " " PARENT,
        PARENT " ",
    };
    gw_trace trace;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        if (gw_trace_take(&trace, wrong[i], "a=1"))
            fail_msg("taken: \"%s\"", wrong[i]);
        assert_string_equal(trace.parent, "");
        assert_string_equal(trace.state, "");
    }
    assert_false(gw_trace_take(&trace, NULL, "a=1"));
}

static void a_tracestate_is_kept_as_it_came(void **state)
{
    static const char *const good[] = {"a=1",
                                       "congo=t61rcWkgMzE,rojo=00f0",
                                       "a=1 , b=2",
                                       "a=1,,b=2",
                                       "tenant@vendor=x y",
                                       "0a-b_c*d/e=1",
                                       "a=1, \tb=2, ",
                                       "a=!~"};
    gw_trace trace;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        assert_true(gw_trace_take(&trace, PARENT, good[i]));
        assert_string_equal(trace.state, good[i]);
    }
}

static void a_wrong_tracestate_is_dropped_alone(void **state)
{
    static const char *const wrong[] = {"",      ",",     "a",     "a=",         "=1",  "A=1",
                                        "a=1=2", "a b=1", "a=1,b", "a=\xc3\xa9", "-a=1"};
    char *longer = calloc(1, 600);
    char *many = calloc(1, 600);
    gw_trace trace;

    (void)state;
    assert_true(longer && many);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_true(gw_trace_take(&trace, PARENT, wrong[i]));
        if (trace.state[0])
            fail_msg("kept: \"%s\"", wrong[i]);
    }
    memset(longer, 'a', 513);
    memcpy(longer, "a=", 2);
    assert_true(gw_trace_take(&trace, PARENT, longer));
    assert_string_equal(trace.state, "");
    for (int i = 0; i < 32; i++)
        memcpy(many + i * 4, "a=1,", 4);
    assert_true(gw_trace_take(&trace, PARENT, many));
    assert_string_equal(trace.state, many);
    memcpy(many + 128, "a=1", 3);
    assert_true(gw_trace_take(&trace, PARENT, many));
    assert_string_equal(trace.state, "");
    free(longer);
    free(many);
}

static void assert_added(const char *headers, const char *tracestate, const char *expected)
{
    hw_buf buf = HW_BUF_INIT(4096);
    gw_trace trace;

    assert_true(gw_trace_take(&trace, PARENT, tracestate));
    hw_buf_puts(&buf, headers);
    gw_trace_add(&buf, &trace);
    assert_string_equal(hw_buf_str(&buf), expected);
    hw_buf_done(&buf);
}

static void it_is_added_to_whatever_headers_there_are(void **state)
{
    (void)state;
    assert_added("", NULL, "{\"traceparent\":\"" PARENT "\"}");
    assert_added("{}", NULL, "{\"traceparent\":\"" PARENT "\"}");
    assert_added("{ }", "a=1", "{ \"traceparent\":\"" PARENT "\",\"tracestate\":\"a=1\"}");
    assert_added("{\"x\": \"y\"} ", NULL, "{\"x\": \"y\",\"traceparent\":\"" PARENT "\"}");
    assert_added("{}", "a=\"\\", "{\"traceparent\":\"" PARENT "\",\"tracestate\":\"a=\\\"\\\\\"}");
    assert_added("[1]", NULL, "[1]");
}

static void it_is_wanted_by_headers_without_one_that_have_room(void **state)
{
    hw_buf large = HW_BUF_INIT(100000);
    gw_trace none;
    gw_trace trace;

    (void)state;
    assert_false(gw_trace_take(&none, NULL, NULL));
    assert_true(gw_trace_take(&trace, PARENT, NULL));
    assert_true(gw_trace_wanted(&trace, HW_STR_NULL));
    assert_true(gw_trace_wanted(&trace, HW_STR_LIT("{\"x\":\"traceparent\"}")));
    assert_false(gw_trace_wanted(&none, HW_STR_NULL));
    assert_false(gw_trace_wanted(&trace, HW_STR_LIT("{\"traceparent\":\"mine\"}")));
    assert_false(gw_trace_wanted(&trace, HW_STR_LIT("{\"tr\\u0061ceparent\":\"mine\"}")));
    hw_buf_puts(&large, "{\"x\":\"");
    while (large.len < 65000)
        hw_buf_putc(&large, 'x');
    hw_buf_puts(&large, "\"}");
    assert_false(gw_trace_wanted(&trace, (hw_str){large.data, large.len}));
    hw_buf_done(&large);
}

static void it_is_found_in_headers(void **state)
{
    gw_trace trace;

    (void)state;
    assert_true(gw_trace_of(
        HW_STR_LIT("{\"a\":\"b\",\"traceparent\":\"" PARENT "\",\"tracestate\":\"c=\\\"d\"}"),
        &trace));
    assert_string_equal(trace.parent, PARENT);
    assert_string_equal(trace.state, "c=\"d");
    assert_false(gw_trace_of(HW_STR_LIT("{\"a\":\"b\"}"), &trace));
    assert_false(gw_trace_of(HW_STR_LIT("{\"traceparent\":\"mine\"}"), &trace));
    assert_false(gw_trace_of(HW_STR_LIT("{\"traceparent\":1}"), &trace));
    assert_false(gw_trace_of(HW_STR_LIT("{\"traceparent\":\"" PARENT "0\"}"), &trace));
    assert_false(gw_trace_of(HW_STR_NULL, &trace));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_valid_traceparent_is_taken_and_names_its_trace),
        cmocka_unit_test(anything_else_is_no_trace),
        cmocka_unit_test(a_tracestate_is_kept_as_it_came),
        cmocka_unit_test(a_wrong_tracestate_is_dropped_alone),
        cmocka_unit_test(it_is_added_to_whatever_headers_there_are),
        cmocka_unit_test(it_is_wanted_by_headers_without_one_that_have_room),
        cmocka_unit_test(it_is_found_in_headers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
