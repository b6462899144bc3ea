/* test_clock.c - times and durations as text. */
#include "unit.h"

#include <time.h>

#include "base/clock.h"

#define S INT64_C(1000000)

static void times_are_parsed_to_the_microsecond(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.000001Z", 1},
        {"1969-12-31T23:59:59.999999Z", -1},
        {"2026-01-31T09:30:00.000000Z", INT64_C(1769851800) * S},
        {"2026-01-31t09:30:00z", INT64_C(1769851800) * S},
        {"2026-01-31T09:30:00.5Z", INT64_C(1769851800) * S + 500000},
        {"2026-01-31T09:30:00.123456Z", INT64_C(1769851800) * S + 123456},
        {"2026-01-31T09:30:00.123456999Z", INT64_C(1769851800) * S + 123456},
        {"2026-01-31T10:30:00+01:00", INT64_C(1769851800) * S},
        {"2026-01-31T04:00:00-05:30", INT64_C(1769851800) * S},
        {"2026-01-31T09:30:00-00:00", INT64_C(1769851800) * S},
        {"2000-02-29T12:00:00Z", INT64_C(951825600) * S},
        {"2024-02-29T23:59:59Z", INT64_C(1709251199) * S},
        {"0001-01-01T00:00:00Z", HW_TIME_MIN_US},
        {"9999-12-31T23:59:59.999999Z", HW_TIME_MAX_US},
        {"0001-01-01T23:59:00+23:59", HW_TIME_MIN_US},
        {"9999-12-31T00:00:59.999999-23:59", HW_TIME_MAX_US},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t us = 42;

        if (!hw_time_parse(rows[i].text, strlen(rows[i].text), &us))
            fail_msg("%s was refused", rows[i].text);
        assert_i64_equal(us, rows[i].us);
    }
}

static void what_is_no_rfc_3339_time_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "2026-01-31",
        "2026-01-31T09:30:00",  /* no offset */
        "2026-01-31 09:30:00Z", /* a space */
        "2026-01-31T09:30Z",    /* no seconds */
        "2026-1-31T09:30:00Z",  /* one digit */
        "0000-01-01T00:00:00Z", /* year 0 */
        "2026-00-31T09:30:00Z", /* month */
        "2026-13-31T09:30:00Z",
        "2026-01-00T09:30:00Z", /* day */
        "2026-01-32T09:30:00Z",
        "2026-02-29T09:30:00Z", /* no leap year */
        "1900-02-29T09:30:00Z",
        "2026-04-31T09:30:00Z",
        "2026-01-31T24:00:00Z", /* hour */
        "2026-01-31T09:60:00Z",
        "2016-12-31T23:59:60Z",  /* a leap second */
        "2026-01-31T09:30:00.Z", /* no digit */
        "2026-01-31T09:30:00,5Z",
        "2026-01-31T09:30:00.1234567890Z", /* ten digits */
        "2026-01-31T09:30:00+24:00",
        "2026-01-31T09:30:00+01:60",
        "2026-01-31T09:30:00+0100",
        "2026-01-31T09:30:00+01",
        "2026-01-31T09:30:00ZZ",
        "2026-01-31T09:30:00Z ",
        " 2026-01-31T09:30:00Z",
        "+2026-01-31T09:30:00Z",
        "-001-01-31T09:30:00Z",
        "12026-01-31T09:30:00Z",
        "0001-01-01T00:00:00+00:01", /* before year 1 */
        "9999-12-31T23:59:59-00:01", /* behind year 9999 */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t us = 42;

        if (hw_time_parse(rows[i], strlen(rows[i]), &us))
            fail_msg("%s was accepted", rows[i]);
        assert_i64_equal(us, 42);
    }
}

static void the_length_counts_not_the_terminator(void **state)
{
    int64_t us;

    (void)state;
    assert_true(hw_time_parse("1970-01-01T00:00:01Z???", 20, &us));
    assert_i64_equal(us, S);
    assert_false(hw_time_parse("1970-01-01T00:00:01Z\0", 21, &us));
}

static void formatted_times_have_six_decimals(void **state)
{
    char text[HW_TIME_TEXT + 1];

    (void)state;
    hw_time_format(INT64_C(1769851800) * S, text);
    assert_string_equal(text, "2026-01-31T09:30:00.000000Z");
    hw_time_format(-1, text);
    assert_string_equal(text, "1969-12-31T23:59:59.999999Z");
    hw_time_format(HW_TIME_MIN_US, text);
    assert_string_equal(text, "0001-01-01T00:00:00.000000Z");
    hw_time_format(HW_TIME_MAX_US, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
    hw_time_format(INT64_MIN, text);
    assert_string_equal(text, "0001-01-01T00:00:00.000000Z");
    hw_time_format(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
}

/* Every day of the range against the C library's calendar. */
static void every_day_from_year_1_to_9999_agrees_with_gmtime(void **state)
{
    const int64_t day_us = 86400 * S;

    (void)state;
    for (int64_t us = HW_TIME_MIN_US; us <= HW_TIME_MAX_US; us += day_us) {
        time_t t = (time_t)(us / S);
        char text[HW_TIME_TEXT + 1];
        char expected[64];
        struct tm tm;
        int64_t back;

        assert_non_null(gmtime_r(&t, &tm));
        snprintf(expected, sizeof expected, "%04d-%02d-%02dT00:00:00.000000Z", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday);
        hw_time_format(us, text);
        if (strcmp(text, expected) != 0)
            fail_msg("%s should be %s", text, expected);
        assert_true(hw_time_parse(text, HW_TIME_TEXT, &back));
        assert_true(back == us);
    }
}

static void durations_need_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t ms; /* -1: refused */
    } rows[] = {
        {"250ms", 250},
        {"5s", 5000},
        {"2m", 120000},
        {"1h", 3600000},
        {"0ms", 0},
        {"0s", 0},
        {"9223372036854775807ms", INT64_MAX},
        {"9223372036854775808ms", -1},
        {"9223372036854775s", INT64_C(9223372036854775000)},
        {"9223372036854776s", -1},
        {"2562047788015h", INT64_C(9223372036854000000)},
        {"2562047788016h", -1},
        {"", -1},
        {"5", -1},
        {"s", -1},
        {"-5s", -1},
        {"+5s", -1},
        {"5 s", -1},
        {"5S", -1},
        {"5sec", -1},
        {"1.5s", -1},
        {"1m30s", -1},
        {" 5s", -1},
        {"1d", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms = -1;
        bool good = hw_duration_parse(rows[i].text, &ms);

        if (good != (rows[i].ms >= 0) || ms != rows[i].ms)
            fail_msg("\"%s\" became %lld", rows[i].text, (long long)ms);
    }
}

static void the_clocks_go_forward_and_agree_on_their_unit(void **state)
{
    int64_t wall = hw_clock_wall_us();
    int64_t us = hw_clock_mono_us();
    int64_t ms = hw_clock_mono_ms();

    (void)state;
    assert_true(wall > INT64_C(1700000000) * S && wall < HW_TIME_MAX_US);
    assert_true(ms >= us / 1000 && ms < us / 1000 + 60000);
    for (int i = 0; i < 1000; i++) {
        int64_t next = hw_clock_mono_us();

        assert_true(next >= us);
        us = next;
    }
}

static void work_that_waits_takes_as_long_as_the_clock_says(void **state)
{
    hw_clock_work begun = hw_clock_work_begin();

    (void)state;
    hw_clock_sleep_ms(20);
    assert_true(hw_clock_work_us(&begun) >= 20000);
}

static void work_that_does_not_wait_takes_no_longer_than_its_processor_time(void **state)
{
    hw_clock_work begun = hw_clock_work_begin();
    hw_clock_work now;

    (void)state;
    do
        now = hw_clock_work_begin();
    while (now.processor_us - begun.processor_us < 5000);
    if (now.waits == begun.waits) /* else a page was fetched from a disk */
        assert_in_range(hw_clock_work_us(&begun), 5000, 1000000);
    assert_true(now.wall_us - begun.wall_us >= 4999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_parsed_to_the_microsecond),
        cmocka_unit_test(what_is_no_rfc_3339_time_is_refused),
        cmocka_unit_test(the_length_counts_not_the_terminator),
        cmocka_unit_test(formatted_times_have_six_decimals),
        cmocka_unit_test(every_day_from_year_1_to_9999_agrees_with_gmtime),
        cmocka_unit_test(durations_need_a_unit),
        cmocka_unit_test(the_clocks_go_forward_and_agree_on_their_unit),
        cmocka_unit_test(work_that_waits_takes_as_long_as_the_clock_says),
        cmocka_unit_test(work_that_does_not_wait_takes_no_longer_than_its_processor_time),
    };

    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
