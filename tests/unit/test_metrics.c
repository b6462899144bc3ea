/* test_metrics.c - what a monitor gets of a bus that is made up: names, bounds, both forms. */
#include "unit.h"

#include "base/clock.h"
#include "base/error.h"
#include "face/metrics.h"

/* What the made-up bus says. */
static struct {
    int facts;
    int subscriptions;
    int queues;
    int members;
} status;
static const howdah_fact *facts;
static size_t facts_n;
static const howdah_subscription_info *subscriptions;
static size_t subscriptions_n;
static const howdah_queue_info *queues;
static size_t queues_n;
static size_t members_asked;
static bool slow; /* a walk takes longer than a millisecond */

int __wrap_howdah_facts_walk(howdah_bus *bus, int (*fn)(void *, const howdah_fact *), void *ctx,
                             howdah_error *reterr);
int __wrap_howdah_subscriptions_walk(howdah_bus *bus, const char *subscriber_id,
                                     int (*fn)(void *, const howdah_subscription_info *), void *ctx,
                                     howdah_error *reterr);
int __wrap_howdah_queue_summaries_walk(howdah_bus *bus,
                                       int (*fn)(void *, const howdah_queue_info *), void *ctx,
                                       howdah_error *reterr);
int __wrap_howdah_members_walk(howdah_bus *bus, const char *subscriber_id,
                               int (*fn)(void *, const howdah_member_info *), void *ctx,
                               howdah_error *reterr);

static int ended(int walk_status, howdah_error *reterr)
{
    return walk_status < 0 ? hw_fail(reterr, walk_status, "as made up") : HOWDAH_OK;
}

int __wrap_howdah_facts_walk(howdah_bus *bus, int (*fn)(void *, const howdah_fact *), void *ctx,
                             howdah_error *reterr)
{
    int64_t until_ms = hw_clock_mono_ms() + (slow ? 2 : 0);

    (void)bus;
    while (hw_clock_mono_ms() < until_ms)
        ;
    for (size_t i = 0; i < facts_n; i++)
        if (fn(ctx, &facts[i]) != 0)
            break;
    return ended(status.facts, reterr);
}

int __wrap_howdah_subscriptions_walk(howdah_bus *bus, const char *subscriber_id,
                                     int (*fn)(void *, const howdah_subscription_info *), void *ctx,
                                     howdah_error *reterr)
{
    (void)bus;
    (void)subscriber_id;
    for (size_t i = 0; i < subscriptions_n; i++)
        if (fn(ctx, &subscriptions[i]) != 0)
            break;
    return ended(status.subscriptions, reterr);
}

int __wrap_howdah_queue_summaries_walk(howdah_bus *bus,
                                       int (*fn)(void *, const howdah_queue_info *), void *ctx,
                                       howdah_error *reterr)
{
    (void)bus;
    for (size_t i = 0; i < queues_n; i++)
        if (fn(ctx, &queues[i]) != 0)
            break;
    return ended(status.queues, reterr);
}

int __wrap_howdah_members_walk(howdah_bus *bus, const char *subscriber_id,
                               int (*fn)(void *, const howdah_member_info *), void *ctx,
                               howdah_error *reterr)
{
    const howdah_member_info members[] = {{sizeof *members, "a", 2, 30, 1500},
                                          {sizeof *members, "b", 1, 5, 2750}};

    (void)bus;
    (void)subscriber_id;
    members_asked++;
    for (size_t i = 0; i < COUNT_OF(members); i++)
        (void)fn(ctx, &members[i]);
    return ended(status.members, reterr);
}

static int setup(void **state)
{
    (void)state;
    memset(&status, 0, sizeof status);
    slow = false;
    facts_n = subscriptions_n = queues_n = members_asked = 0;
    return 0;
}

/* ------------------------------------------------------------------ checks */

static char *text_of(face_metrics_form form)
{
    hw_buf out = HW_BUF_INIT(FACE_METRICS_BYTES_MAX);
    howdah_error err = HOWDAH_ERROR_INIT;
    face_metrics *metrics = NULL;

    assert_int_equal(face_metrics_collect(NULL, 60000, &metrics, &err), HOWDAH_OK);
    face_metrics_print(&out, form, metrics);
    face_metrics_end(&out, form);
    face_metrics_free(metrics);
    assert_int_equal(out.broken, HOWDAH_OK);
    return hw_buf_take(&out);
}

static void assert_line(const char *text, const char *line)
{
    size_t n = strlen(line);

    for (const char *at = text; at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
        if (strncmp(at, line, n) == 0 && at[n] == '\n')
            return;
    fail_msg("\"%s\" is missing in:\n%s", line, text);
}

static size_t count_of(const char *text, const char *part)
{
    size_t n = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

static void facts_are_numbers_in_base_units(void **state)
{
    static const howdah_fact some[] = {
        {sizeof *some, "store", "postgresql", false},
        {sizeof *some, "server", "PostgreSQL 17.2", false},
        {sizeof *some, "schema_version", "7", true},
        {sizeof *some, "head", "1234567890123", true},
        {sizeof *some, "events", "99", true},
        {sizeof *some, "bytes", "8192", true},
        {sizeof *some, "last_recorded_at", "2026-01-31T09:30:00.250000Z", false},
        {sizeof *some, "open_writers", "2", true},
        {sizeof *some, "oldest_writer_age_s", "61.007", true},
        {sizeof *some, "oldest_writer", "pid 7 (a \"b\"\n\xc3\xa9)", false},
        {sizeof *some, "unheard_of", "1", true},
        {sizeof *some, "bus", NULL, false},
    };
    char *text;

    (void)state;
    facts = some;
    facts_n = COUNT_OF(some);
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_up 1");
    assert_line(text, "howdah_store_info{store=\"postgresql\",server=\"PostgreSQL 17.2\"} 1");
    assert_line(text, "howdah_schema_version 7");
    assert_line(text, "howdah_log_head 1234567890123");
    assert_line(text, "howdah_log_events 99");
    assert_line(text, "howdah_log_size_bytes 8192");
    assert_line(text, "howdah_log_last_recorded_timestamp_seconds 1769851800.250000");
    assert_line(text, "howdah_log_open_writers 2");
    assert_line(text, "howdah_log_oldest_writer_age_seconds 61.007");
    assert_line(text, "howdah_log_blocking_session_info{session=\"pid 7 (a \\\"b\\\"?\?\?)\"} 1");
    assert_line(text, "# TYPE howdah_log_blocking_session_info gauge");
    assert_line(text, "# HELP howdah_log_head The last visible number of the log");
    hw_free(text);
}

static void a_session_that_holds_a_number_for_a_moment_is_not_named(void **state)
{
    static const howdah_fact some[] = {{sizeof *some, "open_writers", "1", true},
                                       {sizeof *some, "oldest_writer_age_s", "4.999", true},
                                       {sizeof *some, "oldest_writer", "pid 7", false}};
    char *text;

    (void)state;
    facts = some;
    facts_n = COUNT_OF(some);
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_log_oldest_writer_age_seconds 4.999");
    assert_i64_equal((int64_t)count_of(text, "howdah_log_blocking_session_info{"), 0);
    hw_free(text);
}

static void a_subscription_has_lag_state_and_members(void **state)
{
    static const int64_t holes[] = {3, 3, 5, 9};
    static howdah_subscription_info one = HOWDAH_SUBSCRIPTION_INFO_INIT;
    char *text;

    (void)state;
    one.subscriber_id = "g";
    one.state = HOWDAH_SUBSCRIPTION_PAUSED;
    one.lag = 46;
    one.lag_age_ms = 90061;
    one.holes = holes;
    one.holes_n = 2;
    one.dead_letters = 4;
    one.skips = 1;
    one.shared = true;
    subscriptions = &one;
    subscriptions_n = 1;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_subscriptions 1");
    assert_line(text, "howdah_subscription_lag_events{subscription=\"g\"} 46");
    assert_line(text, "howdah_subscription_lag_seconds{subscription=\"g\"} 90.061");
    assert_line(text, "howdah_subscription_outstanding_events{subscription=\"g\"} 6");
    assert_line(text, "howdah_subscription_dead_letters{subscription=\"g\"} 4");
    assert_line(text, "howdah_subscription_skips{subscription=\"g\"} 1");
    assert_line(text, "howdah_subscription_state{subscription=\"g\",state=\"paused\"} 1");
    assert_line(text, "howdah_subscription_state{subscription=\"g\",state=\"live\"} 0");
    assert_line(text, "howdah_subscription_members{subscription=\"g\"} 2");
    assert_line(text, "howdah_subscription_leased_events{subscription=\"g\"} 35");
    assert_line(text, "howdah_subscription_leased_age_seconds{subscription=\"g\"} 2.750");
    hw_free(text);
    one.lag_age_ms = HOWDAH_ABSENT;
    one.shared = false;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_subscription_lag_seconds{subscription=\"g\"} 0.000");
    assert_i64_equal((int64_t)count_of(text, "howdah_subscription_members{"), 0);
    hw_free(text);
}

static void a_group_that_has_gone_has_no_members(void **state)
{
    static howdah_subscription_info one = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    face_metrics *metrics = NULL;

    (void)state;
    one.subscriber_id = "g";
    one.shared = true;
    subscriptions = &one;
    subscriptions_n = 1;
    status.members = HOWDAH_NOT_FOUND;
    hw_free(text_of(FACE_METRICS_PROMETHEUS));
    status.members = HOWDAH_UNAVAILABLE;
    assert_int_equal(face_metrics_collect(NULL, 60000, &metrics, &err), HOWDAH_UNAVAILABLE);
    assert_null(metrics);
}

static void labels_are_escaped(void **state)
{
    static howdah_queue_info one = {.size = sizeof one,
                                    .queue = "a\"b\\c\nd",
                                    .pending = 3,
                                    .processing = 2,
                                    .scheduled = 1,
                                    .dead_letters = 5,
                                    .oldest_age_ms = 1500,
                                    .paused = true};
    char *text;

    (void)state;
    queues = &one;
    queues_n = 1;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_queue_jobs{queue=\"a\\\"b\\\\c\\nd\",state=\"pending\"} 3");
    assert_line(text, "howdah_queue_jobs{queue=\"a\\\"b\\\\c\\nd\",state=\"processing\"} 2");
    assert_line(text, "howdah_queue_jobs{queue=\"a\\\"b\\\\c\\nd\",state=\"scheduled\"} 1");
    assert_line(text, "howdah_queue_oldest_age_seconds{queue=\"a\\\"b\\\\c\\nd\"} 1.500");
    assert_line(text, "howdah_queue_dead_letters{queue=\"a\\\"b\\\\c\\nd\"} 5");
    assert_line(text, "howdah_queue_paused{queue=\"a\\\"b\\\\c\\nd\"} 1");
    hw_free(text);
}

/* 700 of them; number i has a lag of i, so 200 to 699 have most to do. */
static void those_with_the_most_to_do_are_named_and_the_others_summed_up(void **state)
{
    howdah_subscription_info *many = calloc(700, sizeof *many);
    char(*names)[16] = calloc(700, sizeof *names);
    char *text;

    (void)state;
    assert_true(many && names);
    for (int i = 0; i < 700; i++) {
        (void)snprintf(names[i], sizeof names[i], "s%03d", i);
        many[i] = (howdah_subscription_info)HOWDAH_SUBSCRIPTION_INFO_INIT;
        many[i].subscriber_id = names[i];
        many[i].state = i < 10 ? HOWDAH_SUBSCRIPTION_HALTED : HOWDAH_SUBSCRIPTION_LIVE;
        many[i].lag = i;
        many[i].lag_age_ms = i * 1000;
        many[i].shared = true;
    }
    subscriptions = many;
    subscriptions_n = 700;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_subscriptions 700");
    assert_i64_equal((int64_t)count_of(text, "\nhowdah_subscription_lag_events{"), 501);
    assert_line(text, "howdah_subscription_lag_events{subscription=\"s200\"} 200");
    assert_line(text, "howdah_subscription_lag_events{subscription=\"s699\"} 699");
    assert_line(text, "howdah_subscription_lag_events{subscription=\"(other)\"} 19900");
    assert_line(text, "howdah_subscription_lag_seconds{subscription=\"(other)\"} 199.000");
    assert_line(text, "howdah_subscription_state{subscription=\"(other)\",state=\"halted\"} 10");
    assert_line(text, "howdah_subscription_state{subscription=\"(other)\",state=\"live\"} 190");
    assert_i64_equal((int64_t)members_asked, FACE_METRICS_GROUPS_MAX);
    assert_i64_equal((int64_t)count_of(text, "\nhowdah_subscription_members{"),
                     FACE_METRICS_GROUPS_MAX);
    assert_line(text, "howdah_subscription_members{subscription=\"s650\"} 2");
    hw_free(text);
    free(names);
    free(many);
}

static void with_equal_lag_the_first_by_name_stay(void **state)
{
    howdah_queue_info *many = calloc(600, sizeof *many);
    char(*names)[16] = calloc(600, sizeof *names);
    char *text;

    (void)state;
    assert_true(many && names);
    for (int i = 0; i < 600; i++) {
        (void)snprintf(names[i], sizeof names[i], "q%03d", i);
        many[i] = (howdah_queue_info){.size = sizeof *many, .queue = names[i], .scheduled = 1};
    }
    many[599].pending = 1;
    queues = many;
    queues_n = 600;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_queue_paused{queue=\"q498\"} 0");
    assert_line(text, "howdah_queue_paused{queue=\"q599\"} 0");
    assert_i64_equal((int64_t)count_of(text, "queue=\"q499\""), 0);
    assert_line(text, "howdah_queue_jobs{queue=\"(other)\",state=\"scheduled\"} 100");
    hw_free(text);
    free(names);
    free(many);
}

static void one_that_is_called_like_the_others_makes_no_second_series(void **state)
{
    static howdah_queue_info two[2] = {{.size = sizeof *two, .queue = "(other)", .pending = 5},
                                       {.size = sizeof *two, .queue = "a", .pending = 1}};
    char *text;

    (void)state;
    queues = two;
    queues_n = 2;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_i64_equal((int64_t)count_of(text, "{queue=\"(other)\",state=\"pending\"}"), 1);
    assert_line(text, "howdah_queue_jobs{queue=\"(other)\",state=\"pending\"} 5");
    hw_free(text);
}

static void what_is_closed_to_this_user_has_no_lines(void **state)
{
    char *text;

    (void)state;
    status.subscriptions = status.queues = HOWDAH_DENIED;
    text = text_of(FACE_METRICS_PROMETHEUS);
    assert_line(text, "howdah_up 1");
    assert_line(text, "howdah_visible{part=\"subscriptions\"} 0");
    assert_line(text, "howdah_visible{part=\"queues\"} 0");
    assert_i64_equal((int64_t)count_of(text, "\nhowdah_queues "), 0);
    assert_i64_equal((int64_t)count_of(text, "\nhowdah_subscriptions "), 0);
    assert_i64_equal((int64_t)count_of(text, "\nhowdah_log_head "), 0);
    hw_free(text);
}

static void a_store_that_fails_half_way_tells_nothing(void **state)
{
    static howdah_subscription_info one = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    face_metrics *metrics = NULL;
    hw_buf out = HW_BUF_INIT(4096);

    (void)state;
    one.subscriber_id = "a";
    subscriptions = &one;
    subscriptions_n = 1;
    status.queues = HOWDAH_UNAVAILABLE;
    assert_int_equal(face_metrics_collect(NULL, 60000, &metrics, &err), HOWDAH_UNAVAILABLE);
    assert_null(metrics);
    assert_string_equal(err.message, "as made up");
    face_metrics_print(&out, FACE_METRICS_PROMETHEUS, NULL);
    assert_line(hw_buf_str(&out), "howdah_up 0");
    assert_line(hw_buf_str(&out), "howdah_build_info{version=\"" HOWDAH_VERSION_STRING "\"} 1");
    assert_i64_equal((int64_t)count_of(hw_buf_str(&out), "TYPE"), 2);
    hw_buf_done(&out);
}

static void beyond_the_deadline_nothing_more_is_asked(void **state)
{
    static howdah_subscription_info one = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    face_metrics *metrics = NULL;

    (void)state;
    one.subscriber_id = "a";
    one.shared = true;
    subscriptions = &one;
    subscriptions_n = 1;
    slow = true;
    assert_int_equal(face_metrics_collect(NULL, 0, &metrics, &err), HOWDAH_TIMEOUT);
    assert_null(metrics);
    assert_i64_equal((int64_t)members_asked, 0);
}

static void openmetrics_names_families_without_endings_and_has_an_end(void **state)
{
    static const face_metric total = {"a_total", FACE_COUNTER, "Counts"};
    hw_buf out = HW_BUF_INIT(4096);
    char *text;

    (void)state;
    text = text_of(FACE_METRICS_OPENMETRICS);
    assert_line(text, "# TYPE howdah_build info");
    assert_line(text, "# HELP howdah_build What prints these numbers");
    assert_line(text, "howdah_build_info{version=\"" HOWDAH_VERSION_STRING "\"} 1");
    assert_string_equal(text + strlen(text) - 6, "# EOF\n");
    hw_free(text);
    face_metric_alone(&out, FACE_METRICS_OPENMETRICS, &total, 7, 0);
    assert_string_equal(hw_buf_str(&out), "# HELP a Counts\n# TYPE a counter\na_total 7\n");
    hw_buf_clear(&out);
    face_metric_alone(&out, FACE_METRICS_PROMETHEUS, &total, 7, 0);
    assert_string_equal(hw_buf_str(&out),
                        "# HELP a_total Counts\n# TYPE a_total counter\na_total 7\n");
    hw_buf_done(&out);
}

static void a_histogram_counts_up_and_ends_with_all(void **state)
{
    static const face_metric h = {"h_seconds", FACE_HISTOGRAM, "Takes"};
    static const int64_t bounds_us[] = {2500, 100000, 10000000};
    static const int64_t counts[] = {2, 0, 3, 1};
    hw_buf out = HW_BUF_INIT(4096);

    (void)state;
    face_metric_histogram(&out, &h, (face_label){"group", "read"}, bounds_us, 3, counts, 12345678);
    assert_string_equal(hw_buf_str(&out), "h_seconds_bucket{group=\"read\",le=\"0.0025\"} 2\n"
                                          "h_seconds_bucket{group=\"read\",le=\"0.1\"} 2\n"
                                          "h_seconds_bucket{group=\"read\",le=\"10.0\"} 5\n"
                                          "h_seconds_bucket{group=\"read\",le=\"+Inf\"} 6\n"
                                          "h_seconds_sum{group=\"read\"} 12.345678\n"
                                          "h_seconds_count{group=\"read\"} 6\n");
    hw_buf_done(&out);
}

static void values_have_their_decimals_in_any_locale(void **state)
{
    static const face_metric m = {"m", FACE_GAUGE, "M"};
    hw_buf out = HW_BUF_INIT(4096);

    (void)state;
    face_metric_put(&out, &m, NULL, -1500, 3);
    face_metric_put(&out, &m, NULL, 7, 6);
    face_metric_put(&out, &m, NULL, INT64_MIN, 0);
    assert_string_equal(hw_buf_str(&out), "m -1.500\nm 0.000007\nm -9223372036854775808\n");
    hw_buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(facts_are_numbers_in_base_units, setup),
        cmocka_unit_test_setup(a_session_that_holds_a_number_for_a_moment_is_not_named, setup),
        cmocka_unit_test_setup(a_subscription_has_lag_state_and_members, setup),
        cmocka_unit_test_setup(a_group_that_has_gone_has_no_members, setup),
        cmocka_unit_test_setup(labels_are_escaped, setup),
        cmocka_unit_test_setup(those_with_the_most_to_do_are_named_and_the_others_summed_up, setup),
        cmocka_unit_test_setup(with_equal_lag_the_first_by_name_stay, setup),
        cmocka_unit_test_setup(one_that_is_called_like_the_others_makes_no_second_series, setup),
        cmocka_unit_test_setup(what_is_closed_to_this_user_has_no_lines, setup),
        cmocka_unit_test_setup(a_store_that_fails_half_way_tells_nothing, setup),
        cmocka_unit_test_setup(beyond_the_deadline_nothing_more_is_asked, setup),
        cmocka_unit_test_setup(openmetrics_names_families_without_endings_and_has_an_end, setup),
        cmocka_unit_test_setup(a_histogram_counts_up_and_ends_with_all, setup),
        cmocka_unit_test_setup(values_have_their_decimals_in_any_locale, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
