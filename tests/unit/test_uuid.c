/*
 * test_uuid.c - event ids.
 *
 * Clock and randomness are wrapped by the linker (--wrap), so that the clock can stand still and
 * step back, and randomness can run dry.
 */
#include "unit.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/uuid.h"

int64_t __real_hw_clock_wall_us(void);
int64_t __wrap_hw_clock_wall_us(void);
bool __real_hw_random_bytes(void *out, size_t n);
bool __wrap_hw_random_bytes(void *out, size_t n);

static int64_t clock_us = -1; /* -1: the real one */
static bool random_is_dry;
static int random_fill = -1; /* 0..255: every byte */

int64_t __wrap_hw_clock_wall_us(void)
{
    return clock_us < 0 ? __real_hw_clock_wall_us() : clock_us;
}

bool __wrap_hw_random_bytes(void *out, size_t n)
{
    if (random_is_dry)
        return false;
    if (random_fill < 0)
        return __real_hw_random_bytes(out, n);
    memset(out, random_fill, n);
    return true;
}

static int restore(void **state)
{
    (void)state;
    clock_us = -1;
    random_is_dry = false;
    random_fill = -1;
    return 0;
}

static int compare(const hw_uuid *a, const hw_uuid *b)
{
    return memcmp(a->b, b->b, sizeof a->b);
}

static uint64_t ms_of(const hw_uuid *uuid)
{
    uint64_t ms = 0;

    for (int i = 0; i < 6; i++)
        ms = ms << 8 | uuid->b[i];
    return ms;
}

static void an_id_has_version_7_the_variant_and_the_time(void **state)
{
    /* A disciplined clock may step back a little between two looks at it. */
    const uint64_t step_ms = 10;
    uint64_t before = (uint64_t)hw_clock_wall_us() / 1000;
    hw_uuid id;

    (void)state;
    assert_true(hw_uuid_v7(&id));
    assert_int_equal(id.b[6] >> 4, 7);
    assert_int_equal(id.b[8] >> 6, 2);
    assert_true(ms_of(&id) + step_ms >= before);
    assert_true(ms_of(&id) <= (uint64_t)hw_clock_wall_us() / 1000 + step_ms);
}

static void a_million_ids_of_a_thread_are_in_order(void **state)
{
    hw_uuid last;

    (void)state;
    assert_true(hw_uuid_v7(&last));
    for (int i = 0; i < 1000000; i++) {
        hw_uuid id;

        assert_true(hw_uuid_v7(&id));
        if (compare(&last, &id) >= 0 || id.b[6] >> 4 != 7 || id.b[8] >> 6 != 2)
            fail_msg("id %d is not behind the one before", i);
        last = id;
    }
}

static void ids_stay_in_order_when_the_clock_stands_or_steps_back(void **state)
{
    int64_t start = hw_clock_wall_us() + 3600000000;
    hw_uuid last;
    hw_uuid id;

    (void)state;
    clock_us = start;
    assert_true(hw_uuid_v7(&last));
    assert_true(ms_of(&last) == (uint64_t)start / 1000);
    for (int i = 0; i < 1000; i++) {
        clock_us = i < 500 ? start : start - 86400000000 * (i - 499);
        assert_true(hw_uuid_v7(&id));
        assert_true(compare(&last, &id) < 0);
        assert_true(ms_of(&id) == (uint64_t)start / 1000);
        last = id;
    }
    clock_us = start + 1000;
    assert_true(hw_uuid_v7(&id));
    assert_true(ms_of(&id) == (uint64_t)start / 1000 + 1);
}

static void fresh_randomness_is_in_every_id_of_a_millisecond(void **state)
{
    hw_uuid a;
    hw_uuid b;

    (void)state;
    clock_us = hw_clock_wall_us() + 7200000000;
    assert_true(hw_uuid_v7(&a));
    assert_true(hw_uuid_v7(&b));
    assert_true(ms_of(&a) == ms_of(&b));
    assert_memory_not_equal(a.b + 12, b.b + 12, 4);
}

static void the_counter_starts_low_enough_to_go_up(void **state)
{
    hw_uuid id;

    (void)state;
    clock_us = hw_clock_wall_us() + 10800000000;
    random_fill = 0xFF;
    assert_true(hw_uuid_v7(&id));
    assert_int_equal(id.b[6], 0x77);
    assert_int_equal(id.b[7], 0xFF);
    assert_int_equal(id.b[8], 0xBF);
    assert_true(hw_uuid_v7(&id));
    assert_int_equal(id.b[6], 0x78);
    assert_int_equal(id.b[7], 0x00);
    assert_int_equal(id.b[8], 0x80);
    assert_int_equal(id.b[11], 0x00);
}

static void without_randomness_there_is_no_id(void **state)
{
    hw_uuid id;
    hw_uuid untouched;

    (void)state;
    memset(&id, 0x5A, sizeof id);
    untouched = id;
    random_is_dry = true;
    assert_false(hw_uuid_v7(&id));
    assert_true(hw_uuid_equal(&id, &untouched));
}

#define FORK_IDS 2000

static void make_ids(hw_uuid *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!hw_uuid_v7(&ids[i]))
            abort();
    }
}

static int compare_ids(const void *a, const void *b)
{
    return compare(a, b);
}

/*
 * The clock stands still and every random byte is 7, in both processes: only the rule about
 * fork() itself can keep parent and child apart.
 */
static void a_child_does_not_repeat_its_parents_ids(void **state)
{
    static hw_uuid ids[2 * FORK_IDS];
    hw_uuid before;
    int pipes[2];
    int status;
    size_t got = 0;
    pid_t child;

    (void)state;
    clock_us = hw_clock_wall_us() + 14400000000;
    assert_true(hw_uuid_v7(&before));
    random_fill = 7;
    assert_int_equal(pipe(pipes), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        make_ids(ids, FORK_IDS);
        for (size_t put = 0; put < FORK_IDS * sizeof *ids;) {
            ssize_t n = write(pipes[1], (const char *)ids + put, FORK_IDS * sizeof *ids - put);

            if (n <= 0)
                _exit(1);
            put += (size_t)n;
        }
        _exit(0);
    }
    (void)close(pipes[1]);
    make_ids(ids, FORK_IDS);
    while (got < FORK_IDS * sizeof *ids) {
        ssize_t n = read(pipes[0], (char *)(ids + FORK_IDS) + got, FORK_IDS * sizeof *ids - got);

        assert_true(n > 0);
        got += (size_t)n;
    }
    (void)close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(compare(&before, &ids[0]) < 0);
    assert_true(compare(&before, &ids[FORK_IDS]) < 0);
    assert_true(ms_of(&ids[FORK_IDS]) == ms_of(&before) + 1);
    qsort(ids, 2 * FORK_IDS, sizeof *ids, compare_ids);
    for (size_t i = 1; i < 2 * FORK_IDS; i++)
        assert_true(compare(&ids[i - 1], &ids[i]) < 0);
}

#define THREADS 4
#define THREAD_IDS 20000

static hw_uuid thread_ids[THREADS][THREAD_IDS];

static void *thread_main(void *arg)
{
    make_ids(arg, THREAD_IDS);
    return NULL;
}

static void ids_of_several_threads_differ(void **state)
{
    pthread_t threads[THREADS];
    hw_uuid *all = &thread_ids[0][0];

    (void)state;
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_main, thread_ids[i]), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    qsort(all, (size_t)THREADS * THREAD_IDS, sizeof *all, compare_ids);
    for (size_t i = 1; i < (size_t)THREADS * THREAD_IDS; i++)
        assert_true(compare(&all[i - 1], &all[i]) < 0);
}

/* The values were computed with Python's hashlib; they must never change. */
static void a_name_gives_the_same_id_for_ever(void **state)
{
    static const struct {
        const char *space;
        const char *name;
        const char *id;
    } rows[] = {
        {"howdah.import", "42", "129fdf04-9d22-83c7-9076-c6eb54001152"},
        {"howdah.import", "", "1d966989-2271-8727-882f-c51f09403dda"},
        {"howdah.import4", "2", "d18fecea-b942-88e3-a0a5-4c71c154761e"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[HW_UUID_TEXT + 1];
        hw_uuid id;

        assert_true(hw_uuid_from_name(rows[i].space, rows[i].name, strlen(rows[i].name), &id));
        hw_uuid_format(&id, text);
        assert_string_equal(text, rows[i].id);
    }
}

static void a_name_without_memory_gives_no_id(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        char name[500];
        hw_uuid id;
        bool done;

        memset(name, 'n', sizeof name);
        unit_allocator_start(&a, ++n);
        done = hw_uuid_from_name("space", name, sizeof name, &id);
        assert_int_equal(done, !a.failed);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 3);
}

static void text_is_read_in_either_case_and_written_in_lower_case(void **state)
{
    const char *lower = "01234567-89ab-cdef-0123-456789abcdef";
    const char *upper = "01234567-89AB-CDEF-0123-456789ABCDEF";
    static const uint8_t bytes[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
                                      0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    char text[HW_UUID_TEXT + 1];
    hw_uuid a;
    hw_uuid b;

    (void)state;
    assert_true(hw_uuid_parse(lower, 36, &a));
    assert_true(hw_uuid_parse(upper, 36, &b));
    assert_memory_equal(a.b, bytes, 16);
    assert_true(hw_uuid_equal(&a, &b));
    hw_uuid_format(&b, text);
    assert_string_equal(text, lower);
}

static void what_is_no_uuid_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "01234567-89ab-cdef-0123-456789abcde",
        "01234567-89ab-cdef-0123-456789abcdef0",
        "{01234567-89ab-cdef-0123-456789abcde}",
        "0123456789abcdef0123456789abcdef0123",
        "01234567_89ab-cdef-0123-456789abcdef",
        "0123456-789ab-cdef-0123-456789abcdef",
        "01234567-89ab-cdef-0123-456789abcdeg",
        "g1234567-89ab-cdef-0123-456789abcdef",
        " 1234567-89ab-cdef-0123-456789abcdef",
        "01234567-89ab-cdef-0123-4567-9abcdef",
    };
    hw_uuid id;

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (hw_uuid_parse(rows[i], strlen(rows[i]), &id))
            fail_msg("%s was accepted", rows[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_id_has_version_7_the_variant_and_the_time, restore),
        cmocka_unit_test_teardown(a_million_ids_of_a_thread_are_in_order, restore),
        cmocka_unit_test_teardown(ids_stay_in_order_when_the_clock_stands_or_steps_back, restore),
        cmocka_unit_test_teardown(fresh_randomness_is_in_every_id_of_a_millisecond, restore),
        cmocka_unit_test_teardown(the_counter_starts_low_enough_to_go_up, restore),
        cmocka_unit_test_teardown(without_randomness_there_is_no_id, restore),
        cmocka_unit_test_teardown(a_child_does_not_repeat_its_parents_ids, restore),
        cmocka_unit_test_teardown(ids_of_several_threads_differ, restore),
        cmocka_unit_test_teardown(a_name_gives_the_same_id_for_ever, restore),
        cmocka_unit_test_teardown(a_name_without_memory_gives_no_id, restore),
        cmocka_unit_test_teardown(text_is_read_in_either_case_and_written_in_lower_case, restore),
        cmocka_unit_test_teardown(what_is_no_uuid_is_refused, restore),
    };

    return cmocka_run_group_tests_name("uuid", tests, NULL, NULL);
}
