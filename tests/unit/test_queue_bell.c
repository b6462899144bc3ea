/* test_queue_bell.c - how long whoever waits for jobs sleeps: a table of numbers. */
#include "unit.h"

#include "bus/bus.h"
#include "bus/queue/queue.h"

static void a_sleep_ends_when_the_next_job_is_due(void **state)
{
    static const struct {
        bool armed;
        int64_t pause_ms; /* as long as these have grown */
        int64_t next_due_ms;
        int64_t ms;
    } rows[] = {
        /* Nothing is known to come: up to the poll interval, or a pause where no bell rings. */
        {true, 1, -1, 5000},
        {true, 5000, -1, 5000},
        {false, 1, -1, 1},
        {false, 512, -1, 512},
        {false, 8192, -1, 5000},
        /* It comes sooner than that, however long the pauses are. */
        {true, 1, 700, 700},
        {true, 4096, 700, 700},
        {true, 5000, 1, 1},
        {false, 4096, 700, 700},
        {false, 512, 700, 512},
        /* Later. */
        {true, 1, 5000, 5000},
        {true, 1, 60000, 5000},
        {false, 8, 60000, 8},
        /* Due, and not to be had. */
        {true, 1, 0, 1},
        {true, 512, 0, 512},
        {false, 512, 0, 512},
        {true, 8192, 0, 5000},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_queues queues = {.pause = {.armed = rows[i].armed, .pause_us = rows[i].pause_ms * 1000}};
        howdah_bus bus = {.poll_interval_ms = 5000, .queues = &queues};

        assert_i64_equal(hw_queue_bell_pause(&bus, rows[i].next_due_ms), rows[i].ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sleep_ends_when_the_next_job_is_due),
    };

    return cmocka_run_group_tests_name("queue_bell", tests, NULL, NULL);
}
