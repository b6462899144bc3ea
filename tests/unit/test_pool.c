/* test_pool.c - threads that run what one other thread gives them. */
#include "unit.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "bus/pool.h"

#define ITEMS 1000
#define THREADS 4

typedef struct thing {
    hw_pool_item item;
    int runs;
    size_t thread;
} thing;

typedef struct stage {
    hw_pool pool;
    thing things[ITEMS];
    atomic_int begun;
    atomic_bool blocks; /* whoever runs waits */
} stage;

static void run(void *ctx, size_t thread, hw_pool_item *item)
{
    stage *st = ctx;
    thing *t = item->owner;

    atomic_fetch_add(&st->begun, 1);
    while (atomic_load(&st->blocks))
        (void)poll(NULL, 0, 1);
    t->runs++;
    t->thread = thread;
}

static stage *open_stage(size_t threads, size_t low)
{
    stage *st = calloc(1, sizeof *st);
    hw_pool_options options = {
        .whose = "test", .run = run, .ctx = st, .threads = threads, .low = low};

    assert_non_null(st);
    for (size_t i = 0; i < ITEMS; i++)
        st->things[i].item.owner = &st->things[i];
    assert_int_equal(hw_pool_init(&st->pool, &options, NULL), HOWDAH_OK);
    return st;
}

static void close_stage(stage *st)
{
    hw_pool_done(&st->pool);
    free(st);
}

static bool rings(const stage *st, int wait_ms)
{
    struct pollfd fd = {.fd = st->pool.done_fd, .events = POLLIN};

    return poll(&fd, 1, wait_ms) == 1;
}

static void without_threads_items_are_run_in_order_by_the_driver(void **state)
{
    stage *st = open_stage(0, 0);
    hw_pool_item *item;
    size_t n = 0;

    (void)state;
    assert_false(hw_pool_run_one(&st->pool));
    for (size_t i = 0; i < 3; i++)
        hw_pool_push(&st->pool, &st->things[i].item);
    assert_int_equal(hw_pool_look(&st->pool).waiting_n, 3);
    while (hw_pool_run_one(&st->pool))
        ;
    assert_int_equal(hw_pool_look(&st->pool).done_n, 3);
    for (item = hw_pool_take_done(&st->pool); item; item = item->next)
        assert_ptr_equal(item->owner, &st->things[n++]);
    assert_int_equal(n, 3);
    assert_null(hw_pool_take_done(&st->pool));
    close_stage(st);
}

static void every_item_is_run_once_and_comes_back(void **state)
{
    stage *st = open_stage(THREADS, 0);
    size_t back = 0;

    (void)state;
    for (size_t i = 0; i < ITEMS; i++)
        hw_pool_push(&st->pool, &st->things[i].item);
    while (back < ITEMS) {
        assert_true(rings(st, 60000));
        hw_pool_clear(&st->pool);
        for (hw_pool_item *item = hw_pool_take_done(&st->pool); item; item = item->next) {
            const thing *t = item->owner;

            assert_int_equal(t->runs, 1);
            assert_true(t->thread < THREADS);
            back++;
        }
    }
    assert_int_equal(hw_pool_look(&st->pool).running_n, 0);
    close_stage(st);
}

static void an_item_can_make_the_way_many_times(void **state)
{
    stage *st = open_stage(2, 0);

    (void)state;
    for (int i = 1; i <= 100; i++) {
        hw_pool_push(&st->pool, &st->things[0].item);
        assert_true(rings(st, 60000));
        hw_pool_clear(&st->pool);
        assert_ptr_equal(hw_pool_take_done(&st->pool), &st->things[0].item);
        assert_int_equal(st->things[0].runs, i);
    }
    close_stage(st);
}

/* Pushes some while the only thread is blocked by the first; returns when it has begun. */
static void block(stage *st, size_t n)
{
    atomic_store(&st->blocks, true);
    for (size_t i = 0; i < n; i++)
        hw_pool_push(&st->pool, &st->things[i].item);
    while (atomic_load(&st->begun) == 0)
        (void)poll(NULL, 0, 1);
}

static void what_waits_can_be_taken_back(void **state)
{
    stage *st = open_stage(1, 0);
    size_t n = 1;

    (void)state;
    block(st, 5);
    for (hw_pool_item *item = hw_pool_take_waiting(&st->pool); item; item = item->next)
        assert_ptr_equal(item->owner, &st->things[n++]);
    assert_int_equal(n, 5);
    assert_int_equal(hw_pool_look(&st->pool).waiting_n, 0);
    assert_int_equal(hw_pool_look(&st->pool).running_n, 1);
    atomic_store(&st->blocks, false);
    close_stage(st);
}

static void draining_runs_what_waits(void **state)
{
    stage *st = open_stage(1, 0);

    (void)state;
    block(st, 5);
    atomic_store(&st->blocks, false);
    hw_pool_drain(&st->pool);
    assert_int_equal(hw_pool_look(&st->pool).done_n, 5);
    close_stage(st);
}

static void the_driver_is_woken_when_little_is_left(void **state)
{
    stage *st = open_stage(0, 2);

    (void)state;
    for (size_t i = 0; i < 5; i++)
        hw_pool_push(&st->pool, &st->things[i].item);
    for (size_t done = 1; done <= 5; done++) {
        assert_true(hw_pool_run_one(&st->pool));
        assert_int_equal(rings(st, 0), done == 1 || done >= 3);
        hw_pool_clear(&st->pool);
    }
    close_stage(st);
}

static void without_a_free_file_there_is_no_pool_and_it_is_said(void **state)
{
    hw_pool pool;
    hw_pool_options options = {.whose = "test", .run = run, .threads = 1};
    howdah_error err = HOWDAH_ERROR_INIT;
    struct rlimit before;
    struct rlimit none;
    int s;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    s = hw_pool_init(&pool, &options, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(s, HOWDAH_FAILED);
    assert_string_equal(err.message, "no open file for the test: Too many open files");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_threads_items_are_run_in_order_by_the_driver),
        cmocka_unit_test(every_item_is_run_once_and_comes_back),
        cmocka_unit_test(an_item_can_make_the_way_many_times),
        cmocka_unit_test(what_waits_can_be_taken_back),
        cmocka_unit_test(draining_runs_what_waits),
        cmocka_unit_test(the_driver_is_woken_when_little_is_left),
        cmocka_unit_test(without_a_free_file_there_is_no_pool_and_it_is_said),
    };

    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
