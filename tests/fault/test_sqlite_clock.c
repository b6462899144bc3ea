/* test_sqlite_clock.c - the wall clock is set while jobs wait, and boots without a name. */
#include <howdah/howdah_queue.h>

#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "sqlite_help.h"

static int64_t wrong_by_s;
static int64_t booted_ago_s; /* added to the time since boot */

/* The library's clock_gettime() is this one: it is linked before that of the system. */
int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int result = (int)syscall(SYS_clock_gettime, clock_id, tp);

    if (clock_id == CLOCK_REALTIME)
        tp->tv_sec += (time_t)wrong_by_s;
    if (clock_id == CLOCK_BOOTTIME)
        tp->tv_sec += (time_t)booted_ago_s;
    return result;
}

static int64_t push(howdah_bus *bus, int64_t delay_ms)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;

    job.delay_ms = delay_ms;
    must(howdah_queue_push(bus, "q", &job, &pushed, &err), &err);
    return pushed.id;
}

/* The ids of what can be claimed, as "1 2 ". */
static const char *claim(howdah_bus *bus)
{
    static char text[64];
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;
    int s;

    o.lease_ms = 60000;
    text[0] = '\0';
    s = howdah_queue_claim(bus, "q", 10, &o, &jobs, &err);
    must(s, &err);
    for (size_t i = 0; s == HOWDAH_OK && i < howdah_jobs_count(jobs); i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%lld ",
                       (long long)howdah_job_id(howdah_jobs_at(jobs, i)));
    howdah_jobs_free(jobs);
    return text;
}

static void set_clock(int64_t s)
{
    wrong_by_s = s;
}

static void a_job_without_a_delay_is_due_at_once_whatever_the_clock_does(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);

    set_clock(0);
    assert_i64_equal(push(bus, 0), 1);
    assert_i64_equal(push(bus, 600000), 2);
    assert_i64_equal(push(bus, 0), 3);
    set_clock(-3600);
    assert_i64_equal(push(bus, 0), 4);
    assert_string_equal(claim(bus), "1 3 4 ");
    set_clock(-7200);
    assert_i64_equal(push(bus, 0), 5);
    assert_string_equal(claim(bus), "5 ");
    assert_string_equal(claim(bus), ""); /* of a delay the clock decides */
    howdah_close(bus);
    set_clock(0);
}

static void a_delay_that_begins_after_the_step_is_kept(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);

    set_clock(0);
    assert_i64_equal(push(bus, 0), 1);
    set_clock(-3600);
    assert_string_equal(claim(bus), "1 ");
    assert_i64_equal(push(bus, 30000), 2);
    assert_string_equal(claim(bus), "");
    assert_string_equal(claim(bus), "");
    set_clock(-3600 + 31);
    assert_string_equal(claim(bus), "2 ");
    howdah_close(bus);
    set_clock(0);
}

static void a_lease_ends_in_time_also_when_the_clock_is_set_back(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);

    set_clock(0);
    assert_i64_equal(push(bus, 0), 1);
    assert_string_equal(claim(bus), "1 ");
    set_clock(-3600);
    assert_string_equal(claim(bus), "");
    set_clock(-3600 + 58);
    assert_string_equal(claim(bus), "");
    set_clock(-3600 + 62);
    assert_string_equal(claim(bus), "1 ");
    howdah_close(bus);
    set_clock(0);
}

/* ------------------------------------------------------------------- boots */

static void another_boot_is_told_also_without_proc(void **state)
{
    char now[HW_BOOT_TEXT + 1];
    char again[HW_BOOT_TEXT + 1];
    char earlier[HW_BOOT_TEXT + 1];

    (void)state;
    hw_clock_boot_by("/nowhere/boot_id", now);
    hw_clock_boot_by("/nowhere/boot_id", again);
    assert_string_equal(now, again);
    booted_ago_s = 3600;
    hw_clock_boot_by("/nowhere/boot_id", earlier);
    booted_ago_s = 0;
    assert_string_not_equal(now, earlier);
    assert_true(strncmp(now, "about ", 6) == 0);
    hw_clock_boot(now);
    assert_int_equal(strlen(now), HW_BOOT_TEXT);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_without_a_delay_is_due_at_once_whatever_the_clock_does),
        TEST(a_delay_that_begins_after_the_step_is_kept),
        TEST(a_lease_ends_in_time_also_when_the_clock_is_set_back),
        TEST(another_boot_is_told_also_without_proc),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite clock", tests, NULL, NULL);
}
