/* test_world.c - the simulated server behaves as PostgreSQL does where it matters. */
#include "../unit/unit.h"

#include "world.h"

static world w;

static int start(void **state)
{
    (void)state;
    world_init(&w, 1);
    return 0;
}

static int begin(void)
{
    int txn = world_begin(&w);

    assert_true(txn >= 0);
    return txn;
}

static int32_t insert(int txn, int stream)
{
    assert_true(world_insert(&w, txn, stream, 0));
    return w.txns[txn].last;
}

static void commit(int txn)
{
    world_commit(&w, txn);
    if (w.txns[txn].state == TXN_ENDED)
        world_unlock(&w, txn);
}

/* ---------------------------------------------------------------------- visibility */

static void a_row_is_visible_when_its_transaction_has_committed(void **state)
{
    int a = begin();
    int b = begin();
    int32_t n1 = insert(a, 0);
    int32_t n2 = insert(b, 1);

    (void)state;
    assert_int_equal(n1, 1);
    assert_int_equal(n2, 2);
    assert_false(world_is_visible(&w, 1));
    commit(b);
    assert_false(world_is_visible(&w, 1));
    assert_true(world_is_visible(&w, 2));
    commit(a);
    assert_true(world_is_visible(&w, 1));
    assert_int_equal(w.visible_high, 2);
    assert_true(w.numbers[1].order > w.numbers[2].order);
}

static void a_number_is_drawn_once_whatever_becomes_of_it(void **state)
{
    int a = begin();

    (void)state;
    (void)insert(a, 0);
    world_rollback(&w, a);
    assert_int_equal(w.numbers[1].state, NUMBER_DEAD);
    a = begin();
    assert_int_equal(insert(a, 0), 2);
    assert_int_equal(w.numbers[2].version, 1);
}

static void what_was_rolled_back_to_a_savepoint_is_dead_and_the_rest_commits(void **state)
{
    int a = begin();

    (void)state;
    (void)insert(a, 0);
    world_savepoint(&w, a);
    (void)insert(a, 0);
    (void)insert(a, 1);
    assert_int_equal(w.numbers[2].version, 2);
    world_rollback_to(&w, a);
    assert_int_equal(w.numbers[2].state, NUMBER_DEAD);
    assert_int_equal(w.streams[1].holder, WORLD_NOBODY);
    assert_int_equal(w.streams[0].holder, a);
    (void)insert(a, 0);
    assert_int_equal(w.numbers[4].version, 2);
    commit(a);
    assert_true(world_is_visible(&w, 1));
    assert_false(world_is_visible(&w, 2));
    assert_true(world_is_visible(&w, 4));
    assert_int_equal(w.by_version[0][2], 4);
}

static void a_released_savepoint_belongs_to_what_is_around_it(void **state)
{
    int a = begin();

    (void)state;
    world_savepoint(&w, a);
    (void)insert(a, 0);
    world_savepoint(&w, a);
    (void)insert(a, 0);
    world_release(&w, a);
    world_rollback_to(&w, a);
    assert_int_equal(w.numbers[1].state, NUMBER_DEAD);
    assert_int_equal(w.numbers[2].state, NUMBER_DEAD);
    commit(a);
    assert_int_equal(w.visible_high, 0);
}

/* ------------------------------------------------------------------------- streams */

static void who_meets_an_uncommitted_version_waits_with_its_number_drawn(void **state)
{
    int a = begin();
    int b = begin();

    (void)state;
    (void)insert(a, 0);
    assert_int_equal(insert(b, 0), 2);
    assert_int_equal(w.txns[b].waits_for, 0);
    assert_int_equal(w.numbers[2].state, NUMBER_IN_FLIGHT);
    /* The first one rolls back: the version is free. */
    world_rollback(&w, a);
    assert_true(world_resume(&w, b));
    commit(b);
    assert_int_equal(w.by_version[0][1], 2);
}

static void a_version_that_was_taken_meanwhile_is_refused(void **state)
{
    int a = begin();
    int b = begin();

    (void)state;
    (void)insert(a, 0);
    (void)insert(b, 0);
    commit(a);
    assert_false(world_resume(&w, b));
    world_rollback(&w, b);
    assert_int_equal(w.streams[0].version, 1);
    assert_int_equal(w.numbers[2].state, NUMBER_DEAD);
}

static void a_circle_of_waiting_is_refused(void **state)
{
    int a = begin();
    int b = begin();

    (void)state;
    (void)insert(a, 0);
    (void)insert(b, 1);
    (void)insert(a, 1);
    assert_int_equal(w.txns[a].waits_for, 1);
    assert_false(world_insert(&w, b, 0, 0));
    world_rollback(&w, b);
    assert_true(world_resume(&w, a));
}

/* --------------------------------------------------------------- ids and snapshots */

static void an_id_comes_before_the_number_unless_ids_are_lazy(void **state)
{
    int a = begin();
    hw_holder seen[WORLD_TXNS];

    (void)state;
    assert_true(w.txns[a].xid == 0);
    (void)insert(a, 0);
    assert_true(w.txns[a].xid != 0);
    commit(a);
    w.lazy_ids = true;
    a = begin();
    (void)insert(a, 0);
    assert_true(w.txns[a].xid == 0);
    assert_int_equal(world_holders(&w, true, seen), 1);
    assert_true(seen[0].xid == 0);
    assert_true(seen[0].virtual_id == w.txns[a].virtual_id);
    assert_true(world_resume(&w, a));
    assert_true(w.txns[a].xid != 0);
}

/* ------------------------------------------------------------------------- holders */

static void who_executes_nothing_keeps_its_stamp(void **state)
{
    int a = begin();
    hw_holder first[WORLD_TXNS];
    hw_holder again[WORLD_TXNS];

    (void)state;
    (void)insert(a, 0);
    assert_int_equal(world_holders(&w, true, first), 1);
    assert_int_equal(world_holders(&w, true, again), 1);
    assert_true(first[0].idle != 0 && first[0].idle == again[0].idle);
    (void)insert(a, 0);
    assert_int_equal(world_holders(&w, true, again), 1);
    assert_true(first[0].idle != again[0].idle);
    assert_int_equal(world_holders(&w, false, again), 1);
    assert_true(again[0].idle == 0);
    world_prepare(&w, a);
    assert_int_equal(world_holders(&w, false, again), 1);
    assert_true(again[0].idle == 1 && again[0].virtual_id == 0);
}

static void who_has_drawn_holds_the_lock_through_prepare_and_a_crash(void **state)
{
    int a = begin();
    int b = begin();
    hw_holder seen[WORLD_TXNS];

    (void)state;
    assert_int_equal(world_holders(&w, true, seen), 0);
    world_assign_xid(&w, b); /* it writes, but draws no number */
    (void)insert(a, 0);
    assert_int_equal(world_holders(&w, true, seen), 1);
    assert_true(seen[0].xid == w.txns[a].xid);
    world_prepare(&w, a);
    assert_int_equal(world_holders(&w, true, seen), 1);
    world_crash(&w);
    assert_int_equal(w.txns[a].state, TXN_PREPARED);
    assert_int_equal(w.txns[b].state, TXN_FREE);
    assert_int_equal(world_holders(&w, true, seen), 1);
    assert_true(seen[0].xid == w.txns[a].xid);
    world_commit(&w, a);
    assert_true(world_is_visible(&w, 1));
    assert_int_equal(world_holders(&w, true, seen), 0); /* though it still has its lock */
    world_unlock(&w, a);
    assert_int_equal(world_holders(&w, true, seen), 0);
}

static void a_rollback_to_a_savepoint_keeps_the_lock(void **state)
{
    int a = begin();
    hw_holder seen[WORLD_TXNS];

    (void)state;
    world_savepoint(&w, a);
    (void)insert(a, 0);
    world_rollback_to(&w, a);
    assert_int_equal(world_holders(&w, true, seen), 1);
}

/* -------------------------------------------------------------------------- crashes */

static void a_crash_rolls_back_what_runs_and_the_numbers_jump(void **state)
{
    int a = begin();
    int b = begin();
    int32_t before;

    (void)state;
    (void)insert(a, 0);
    (void)insert(b, 1);
    commit(b);
    world_crash(&w);
    assert_int_equal(w.numbers[1].state, NUMBER_DEAD);
    assert_true(world_is_visible(&w, 2));
    assert_true(w.drawn > 2 && w.drawn <= 2 + 32);
    for (int32_t n = 3; n <= w.drawn; n++)
        assert_int_equal(w.numbers[n].state, NUMBER_NONE);
    before = w.drawn;
    a = begin();
    assert_int_equal(insert(a, 0), before + 1);
    assert_int_equal(w.numbers[before + 1].version, 1);
}

/* --------------------------------------------------------------------------- writers */

static uint64_t trace_of(uint64_t seed)
{
    world_init(&w, seed);
    writers_init(&w);
    for (int i = 0; i < 2000; i++) {
        if (!writers_step(&w)) {
            int64_t next_us = writers_next_us(&w);

            if (next_us == INT64_MAX)
                break;
            w.now_us = next_us;
        }
        if (i % 300 == 299 && seed % 2 == 0)
            world_crash(&w);
    }
    return w.trace;
}

static void the_same_seed_gives_the_same_story(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t trace = trace_of(seed);

        assert_true(trace_of(seed + 1) != trace);
        assert_true(trace_of(seed) == trace);
    }
}

/* What every reader relies on, looked at after every statement of many random ones. */
static void check_streams(void)
{
    for (int s = 0; s < WORLD_STREAMS; s++) {
        int32_t before = 0;

        for (int32_t v = 1; v <= w.streams[s].version; v++) {
            int32_t n = w.by_version[s][v];

            assert_true(world_is_visible(&w, n));
            assert_true(w.numbers[n].version == v && w.numbers[n].stream == s);
            assert_true(n > before);
            before = n;
        }
    }
}

/* Every number in flight has an owner that holds the lock and has an id. */
static void check_owners(void)
{
    bool owned[WORLD_NUMBERS] = {false};

    for (int t = 0; t < WORLD_TXNS; t++) {
        bool open = w.txns[t].state == TXN_RUNNING || w.txns[t].state == TXN_PREPARED;

        for (int32_t n = w.txns[t].last; open && n != 0; n = w.numbers[n].before) {
            owned[n] = true;
            assert_true(w.txns[t].locks && w.txns[t].xid != 0);
        }
    }
    for (int32_t n = 1; n <= w.drawn; n++)
        assert_true(w.numbers[n].state != NUMBER_IN_FLIGHT || owned[n]);
}

static void random_writers_keep_versions_in_order_and_numbers_owned(void **state)
{
    int64_t visible = 0;
    int64_t dead = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        world_init(&w, seed);
        w.numbers_max = 200;
        writers_init(&w);
        for (int i = 0; i < 3000; i++) {
            if (i == 2500)
                writers_heal(&w);
            if (!writers_step(&w)) {
                if (writers_next_us(&w) == INT64_MAX)
                    break;
                w.now_us = writers_next_us(&w);
            }
            check_owners();
            if (i % 16 == 0)
                check_streams();
        }
        check_streams();
        for (int32_t n = 1; n <= w.drawn; n++) {
            visible += w.numbers[n].state == NUMBER_VISIBLE;
            dead += w.numbers[n].state == NUMBER_DEAD;
        }
    }
    assert_true(visible > 2000);
    assert_true(dead > 1000);
}

static void healed_writers_end_everything(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        (void)trace_of(seed);
        writers_heal(&w);
        for (int i = 0; i < 1000 && !writers_are_idle(&w); i++) {
            w.now_us += 2000;
            (void)writers_step(&w);
        }
        assert_true(writers_are_idle(&w));
        for (int32_t n = 1; n <= w.drawn; n++)
            assert_true(w.numbers[n].state != NUMBER_IN_FLIGHT);
    }
}

static void an_older_copy_gives_numbers_out_again_and_keeps_what_was_prepared(void **state)
{
    static world image;
    int prepared = begin();
    int open = begin();
    int other;

    (void)state;
    assert_i64_equal(insert(prepared, 0), 1);
    world_prepare(&w, prepared);
    assert_i64_equal(insert(open, 1), 2);
    other = begin();
    assert_i64_equal(insert(other, 2), 3);
    commit(other);
    image = w;
    image.logged = image.drawn;
    commit(prepared);
    commit(open);
    other = begin();
    assert_i64_equal(insert(other, 2), 4);
    commit(other);
    world_replace(&w, &image, true);
    assert_int_equal(w.txns[prepared].state, TXN_PREPARED);
    assert_int_equal(w.numbers[2].state, NUMBER_DEAD);
    assert_true(world_is_visible(&w, 3));
    assert_false(world_is_visible(&w, 4));
    assert_i64_equal(w.timeline, 1);
    other = begin();
    assert_i64_equal(insert(other, 2), 4);
    commit(other);
    assert_i64_equal(w.numbers[4].life, 1);
    assert_i64_equal(w.numbers[4].version, 2);
    commit(prepared);
    assert_true(world_is_visible(&w, 1));
    assert_i64_equal(w.numbers[1].life, 0);
    world_replace(&w, &image, false);
    assert_i64_equal(w.timeline, 0);
    assert_i64_equal(w.life, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_row_is_visible_when_its_transaction_has_committed, start),
        cmocka_unit_test_setup(a_number_is_drawn_once_whatever_becomes_of_it, start),
        cmocka_unit_test_setup(what_was_rolled_back_to_a_savepoint_is_dead_and_the_rest_commits,
                               start),
        cmocka_unit_test_setup(a_released_savepoint_belongs_to_what_is_around_it, start),
        cmocka_unit_test_setup(who_meets_an_uncommitted_version_waits_with_its_number_drawn, start),
        cmocka_unit_test_setup(a_version_that_was_taken_meanwhile_is_refused, start),
        cmocka_unit_test_setup(a_circle_of_waiting_is_refused, start),
        cmocka_unit_test_setup(who_executes_nothing_keeps_its_stamp, start),
        cmocka_unit_test_setup(an_id_comes_before_the_number_unless_ids_are_lazy, start),
        cmocka_unit_test_setup(who_has_drawn_holds_the_lock_through_prepare_and_a_crash, start),
        cmocka_unit_test_setup(a_rollback_to_a_savepoint_keeps_the_lock, start),
        cmocka_unit_test_setup(a_crash_rolls_back_what_runs_and_the_numbers_jump, start),
        cmocka_unit_test_setup(an_older_copy_gives_numbers_out_again_and_keeps_what_was_prepared,
                               start),
        cmocka_unit_test_setup(the_same_seed_gives_the_same_story, start),
        cmocka_unit_test_setup(random_writers_keep_versions_in_order_and_numbers_owned, start),
        cmocka_unit_test_setup(healed_writers_end_everything, start),
    };

    return cmocka_run_group_tests_name("sim_world", tests, NULL, NULL);
}
