/* test_frontier.c - how far the log is known: high and holes. */
#include "unit.h"

#include "engine/frontier.h"

typedef struct range {
    int64_t first;
    int64_t last;
} range;

#define assert_holes(frontier, ...)                                                                \
    do {                                                                                           \
        const range unit_holes[] = {__VA_ARGS__};                                                  \
        check_holes((frontier), unit_holes, COUNT_OF(unit_holes), __LINE__);                       \
    } while (0)

#define assert_no_holes(frontier) assert_i64_equal((int64_t)(frontier)->holes_n, 0)

static void check_holes(const hw_frontier *frontier, const range *holes, size_t n, int line)
{
    if (frontier->holes_n != n)
        fail_msg("line %d: %zu holes, should be %zu", line, frontier->holes_n, n);
    for (size_t i = 0; i < n; i++) {
        if (frontier->holes[i].first != holes[i].first || frontier->holes[i].last != holes[i].last)
            fail_msg("line %d: hole %zu is %lld..%lld", line, i,
                     (long long)frontier->holes[i].first, (long long)frontier->holes[i].last);
    }
}

static bool see_at(hw_frontier *frontier, int64_t sequence, int64_t now_ms)
{
    bool is_new = false;

    assert_int_equal(hw_frontier_see(frontier, sequence, now_ms, &is_new, NULL), HOWDAH_OK);
    return is_new;
}

static bool see(hw_frontier *frontier, int64_t sequence)
{
    return see_at(frontier, sequence, 0);
}

static void numbers_in_a_row_move_high_and_leave_no_hole(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    for (int64_t i = 1; i <= 100; i++)
        assert_true(see(&f, i));
    assert_i64_equal(f.high, 100);
    assert_no_holes(&f);
    assert_null(f.holes);
    hw_frontier_done(&f);
}

static void a_number_missing_below_a_visible_one_becomes_a_hole(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_true(see(&f, 1));
    assert_true(see(&f, 3));
    assert_i64_equal(f.high, 3);
    assert_holes(&f, {2, 2});
    assert_true(see(&f, 10));
    assert_i64_equal(f.high, 10);
    assert_holes(&f, {2, 2}, {4, 9});
    hw_frontier_done(&f);
}

static void the_first_number_may_leave_a_hole_above_the_start(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 500);
    assert_true(see(&f, 503));
    assert_holes(&f, {501, 502});
    assert_i64_equal(f.high, 503);
    hw_frontier_done(&f);
}

static void a_number_seen_again_is_no_news(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 5);
    assert_false(see(&f, 5));
    assert_false(see(&f, 1));
    assert_true(see(&f, 8));
    assert_false(see(&f, 8));
    assert_true(see(&f, 6));
    assert_false(see(&f, 6));
    assert_holes(&f, {7, 7});
    hw_frontier_done(&f);
}

static void a_late_number_shrinks_splits_and_closes_its_hole(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_true(see(&f, 11));
    assert_holes(&f, {1, 10});
    assert_true(see(&f, 1));
    assert_holes(&f, {2, 10});
    assert_true(see(&f, 10));
    assert_holes(&f, {2, 9});
    assert_true(see(&f, 5));
    assert_holes(&f, {2, 4}, {6, 9});
    assert_true(see(&f, 7));
    assert_holes(&f, {2, 4}, {6, 6}, {8, 9});
    assert_true(see(&f, 6));
    assert_holes(&f, {2, 4}, {8, 9});
    assert_i64_equal(f.high, 11);
    hw_frontier_done(&f);
}

/* Everything above a number, and these, may still appear. */
static int64_t keep(hw_frontier *frontier, const range *alive, size_t n)
{
    hw_ranges set = HW_RANGES_INIT;
    int64_t resolved = -1;

    for (size_t i = 0; i < n; i++)
        assert_int_equal(hw_ranges_add(&set, alive[i].first, alive[i].last, NULL), HOWDAH_OK);
    assert_int_equal(hw_frontier_keep(frontier, &set, &resolved, NULL), HOWDAH_OK);
    hw_ranges_done(&set);
    return resolved;
}

static void a_hole_dies_where_nobody_may_fill_it(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_true(see(&f, 3));
    assert_i64_equal(keep(&f, (range[]){{1, INT64_MAX}}, 1), 0);
    assert_holes(&f, {1, 2});
    assert_i64_equal(keep(&f, (range[]){{2, 2}, {4, INT64_MAX}}, 2), 1);
    assert_holes(&f, {2, 2});
    assert_i64_equal(keep(&f, (range[]){{4, INT64_MAX}}, 1), 1);
    assert_no_holes(&f);
    assert_i64_equal(f.high, 3);
    /* A dead number is known: it is not news any more. */
    assert_false(see(&f, 1));
    hw_frontier_done(&f);
}

static void what_is_alive_cuts_holes_to_pieces_of_their_age(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_int_equal(hw_frontier_see(&f, 100, 5, &(bool){false}, NULL), HOWDAH_OK);
    assert_int_equal(hw_frontier_see(&f, 200, 6, &(bool){false}, NULL), HOWDAH_OK);
    assert_i64_equal(keep(&f, (range[]){{10, 19}, {30, 30}, {90, 110}, {199, 300}}, 4), 166);
    assert_holes(&f, {10, 19}, {30, 30}, {90, 99}, {101, 110}, {199, 199});
    assert_i64_equal(f.holes[2].since_ms, 5);
    assert_i64_equal(f.holes[3].since_ms, 6);
    assert_true(see(&f, 15));
    assert_holes(&f, {10, 14}, {16, 19}, {30, 30}, {90, 99}, {101, 110}, {199, 199});
    hw_frontier_done(&f);
}

static void what_is_put_aside_is_no_hole_any_more(void **state)
{
    hw_ranges out = HW_RANGES_INIT;
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_true(see(&f, 3));
    assert_true(see(&f, 5));
    assert_true(see(&f, 10));
    assert_int_equal(hw_frontier_put_aside(&f, 8, &out, NULL), HOWDAH_OK); /* whole ones only */
    assert_holes(&f, {6, 9});
    assert_i64_equal(hw_ranges_count(&out), 3);
    assert_true(hw_ranges_has(&out, 1) && hw_ranges_has(&out, 2) && hw_ranges_has(&out, 4));
    assert_false(see(&f, 4));
    assert_i64_equal(f.high, 10);
    hw_ranges_done(&out);
    hw_frontier_done(&f);
}

static void a_rolled_back_batch_of_a_million_is_one_hole_and_one_burial(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_true(see(&f, 1000001));
    assert_holes(&f, {1, 1000000});
    assert_i64_equal(keep(&f, (range[]){{1000002, INT64_MAX}}, 1), 1000000);
    assert_no_holes(&f);
    hw_frontier_done(&f);
}

static void the_highest_number_of_all_is_fine(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, INT64_MAX - 2);
    assert_true(see(&f, INT64_MAX));
    assert_holes(&f, {INT64_MAX - 1, INT64_MAX - 1});
    assert_false(see(&f, INT64_MAX));
    assert_true(see(&f, INT64_MAX - 1));
    assert_no_holes(&f);
    hw_frontier_done(&f);
}

static void holes_have_a_maximum_and_passing_it_changes_nothing(void **state)
{
    hw_frontier f;
    howdah_error err = HOWDAH_ERROR_INIT;
    bool is_new = false;

    (void)state;
    hw_frontier_init(&f, 0);
    assert_true(see(&f, 4)); /* a hole that can be split: 1..3 */
    for (int64_t i = 1; i < HW_HOLES_MAX; i++)
        assert_true(see(&f, 4 + 2 * i));
    assert_i64_equal((int64_t)f.holes_n, HW_HOLES_MAX);
    assert_int_equal(hw_frontier_see(&f, f.high + 2, 0, &is_new, &err), HOWDAH_LIMIT);
    assert_string_equal(err.message, "more than 100000 holes in the log's numbers");
    assert_int_equal(hw_frontier_see(&f, 2, 0, &is_new, NULL), HOWDAH_LIMIT);
    assert_false(is_new);
    assert_i64_equal(f.high, 4 + 2 * (HW_HOLES_MAX - 1));
    assert_i64_equal((int64_t)f.holes_n, HW_HOLES_MAX);
    assert_i64_equal(f.holes[0].first, 1);
    assert_i64_equal(f.holes[0].last, 3);
    /* What needs no further hole still works. */
    assert_true(see(&f, f.high + 1));
    assert_true(see(&f, 1));
    hw_frontier_done(&f);
}

static void no_memory_changes_nothing_and_leaks_nothing(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        howdah_error err = HOWDAH_ERROR_INIT;
        hw_frontier f;
        int s = HOWDAH_OK;
        int64_t next = 2;

        unit_allocator_start(&a, ++n);
        hw_frontier_init(&f, 0);
        for (; s == HOWDAH_OK && next <= 200; next += 2) {
            bool is_new = false;

            s = hw_frontier_see(&f, next, 0, &is_new, &err);
            assert_int_equal(is_new, s == HOWDAH_OK);
        }
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        if (a.failed) {
            assert_int_equal(err.status, HOWDAH_NO_MEMORY);
            assert_i64_equal(f.high, next - 4);
            assert_i64_equal((int64_t)f.holes_n, next / 2 - 2);
        }
        hw_frontier_done(&f);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 5); /* rooms of 16, 32, 64 and 128, then none fails */
}

static void add(hw_frontier *frontier, int64_t first, int64_t last, int64_t now_ms)
{
    assert_int_equal(hw_frontier_add(frontier, first, last, now_ms, NULL), HOWDAH_OK);
}

static void a_look_back_adds_holes_between_those_that_are_there(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 100);
    add(&f, 50, 59, 1);
    assert_holes(&f, {50, 59});
    assert_i64_equal(f.holes[0].since_ms, 1);
    add(&f, 100, 100, 1); /* high itself may be missing */
    add(&f, 40, 70, 2);
    assert_holes(&f, {40, 49}, {50, 59}, {60, 70}, {100, 100});
    assert_i64_equal(f.holes[1].since_ms, 1);
    assert_i64_equal(f.holes[2].since_ms, 2);
    add(&f, 1, 100, 3);
    assert_holes(&f, {1, 39}, {40, 49}, {50, 59}, {60, 70}, {71, 99}, {100, 100});
    add(&f, 1, 100, 4);
    add(&f, 55, 55, 4);
    assert_i64_equal((int64_t)f.holes_n, 6);
    assert_i64_equal(f.high, 100);
    hw_frontier_done(&f);
}

static void numbers_added_at_one_moment_join_their_neighbours(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, 100);
    add(&f, 10, 19, 7);
    add(&f, 20, 29, 7);
    assert_holes(&f, {10, 29});
    add(&f, 5, 9, 7);
    assert_holes(&f, {5, 29});
    add(&f, 35, 39, 7);
    add(&f, 30, 34, 7);
    assert_holes(&f, {5, 39});
    add(&f, 40, 41, 8); /* another age */
    assert_holes(&f, {5, 39}, {40, 41});
    add(&f, 98, 100, 9);
    assert_int_equal(hw_frontier_see(&f, 105, 9, &(bool){false}, NULL), HOWDAH_OK);
    assert_holes(&f, {5, 39}, {40, 41}, {98, 104});
    hw_frontier_done(&f);
}

static void an_addition_that_fails_adds_nothing(void **state)
{
    unit_allocator a;
    hw_frontier f;

    (void)state;
    unit_allocator_start(&a, 0);
    hw_frontier_init(&f, 0);
    for (int64_t i = 1; i <= HW_HOLES_MAX - 2; i++)
        assert_true(see(&f, 100 + 2 * i));
    assert_i64_equal((int64_t)f.holes_n, HW_HOLES_MAX - 2);
    assert_int_equal(hw_frontier_add(&f, 100, 106, 1, NULL), HOWDAH_LIMIT); /* 3 pieces more */
    assert_i64_equal((int64_t)f.holes_n, HW_HOLES_MAX - 2);
    add(&f, 100, 104, 1);
    assert_i64_equal((int64_t)f.holes_n, HW_HOLES_MAX);
    hw_frontier_done(&f);

    hw_frontier_init(&f, 1000);
    for (int64_t i = 1; i <= 15; i++)
        add(&f, 2 * i, 2 * i, 1);
    a.fail_at = a.asked + 1;
    assert_int_equal(hw_frontier_add(&f, 2, 6, 1, NULL), HOWDAH_NO_MEMORY);
    assert_i64_equal((int64_t)f.holes_n, 15);
    hw_frontier_done(&f);
    unit_allocator_stop(&a);
}

static void the_ends_of_the_type_can_be_added(void **state)
{
    hw_frontier f;

    (void)state;
    hw_frontier_init(&f, INT64_MAX);
    add(&f, INT64_MAX, INT64_MAX, 1);
    add(&f, INT64_MAX - 1, INT64_MAX, 2);
    add(&f, 1, INT64_MAX, 3);
    assert_holes(&f, {1, INT64_MAX - 2}, {INT64_MAX - 1, INT64_MAX - 1}, {INT64_MAX, INT64_MAX});
    hw_frontier_done(&f);
}

/* A map of single numbers does the same, slowly; compared after every step. */
enum { NUMBERS = 200 };

typedef struct model {
    bool seen[NUMBERS + 1];
    bool dead[NUMBERS + 1];
    int64_t since[NUMBERS + 1];
    int64_t high;
} model;

static void model_add(model *m, int64_t first, int64_t last, int64_t now)
{
    for (int64_t i = first; i <= last; i++) {
        if (m->seen[i] || m->dead[i])
            m->since[i] = now;
        m->seen[i] = m->dead[i] = false;
    }
}

static bool missing(const model *m, int64_t i)
{
    return i >= 1 && i <= m->high && !m->seen[i] && !m->dead[i];
}

static void check_against_model(const hw_frontier *f, const model *m)
{
    size_t h = 0;

    assert_true(f->high == m->high);
    for (int64_t i = 1; i <= m->high; i++) {
        bool inside;

        while (h < f->holes_n && f->holes[h].last < i)
            h++;
        inside = h < f->holes_n && f->holes[h].first <= i;
        assert_true(inside == missing(m, i));
        if (inside)
            assert_true(f->holes[h].since_ms == m->since[i]);
    }
    for (size_t i = 0; i < f->holes_n; i++) {
        assert_true(f->holes[i].first <= f->holes[i].last);
        assert_true(f->holes[i].last <= f->high);
        if (i > 0)
            assert_true(f->holes[i - 1].last < f->holes[i].first);
        if (i > 0 && f->holes[i - 1].last + 1 == f->holes[i].first)
            assert_true(f->holes[i - 1].since_ms != f->holes[i].since_ms);
    }
}

/* Everything dies but first..last. */
static int64_t model_keep(model *m, int64_t first, int64_t last)
{
    int64_t resolved = 0;

    for (int64_t i = 1; i <= m->high; i++) {
        if (missing(m, i) && (i < first || i > last)) {
            m->dead[i] = true;
            resolved++;
        }
    }
    return resolved;
}

static void random_steps_agree_with_a_map_of_numbers(void **state)
{
    uint64_t seed = 42;

    (void)state;
    for (int run = 0; run < 200; run++) {
        model m = {.high = 0};
        hw_frontier f;

        hw_frontier_init(&f, 0);
        for (int step = 0; step < 150; step++) {
            unsigned what;

            seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            what = (unsigned)(seed >> 33) % 10;
            if (what <= 1) {
                int64_t first = 1 + (int64_t)(seed >> 40) % NUMBERS;
                int64_t last = what == 0 ? INT64_MAX : first + (int64_t)(seed >> 52) % 30;

                assert_true(keep(&f, (range[]){{first, last}}, 1) == model_keep(&m, first, last));
            } else if (what == 2 && m.high > 0) {
                int64_t first = 1 + (int64_t)(seed >> 40) % m.high;
                int64_t last = first + (int64_t)(seed >> 52) % 6;

                last = last < m.high ? last : m.high;
                add(&f, first, last, step);
                model_add(&m, first, last, step);
            } else {
                int64_t room = m.high + 8 < NUMBERS ? m.high + 8 : NUMBERS;
                int64_t number = 1 + (int64_t)(seed >> 40) % room;
                bool news = number > m.high || missing(&m, number);

                assert_int_equal(see_at(&f, number, step), news);
                for (int64_t i = m.high + 1; i < number; i++)
                    m.since[i] = step;
                if (news)
                    m.seen[number] = true;
                if (number > m.high)
                    m.high = number;
            }
            check_against_model(&f, &m);
        }
        hw_frontier_done(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_in_a_row_move_high_and_leave_no_hole),
        cmocka_unit_test(a_number_missing_below_a_visible_one_becomes_a_hole),
        cmocka_unit_test(the_first_number_may_leave_a_hole_above_the_start),
        cmocka_unit_test(a_number_seen_again_is_no_news),
        cmocka_unit_test(a_late_number_shrinks_splits_and_closes_its_hole),
        cmocka_unit_test(a_hole_dies_where_nobody_may_fill_it),
        cmocka_unit_test(what_is_alive_cuts_holes_to_pieces_of_their_age),
        cmocka_unit_test(what_is_put_aside_is_no_hole_any_more),
        cmocka_unit_test(a_rolled_back_batch_of_a_million_is_one_hole_and_one_burial),
        cmocka_unit_test(the_highest_number_of_all_is_fine),
        cmocka_unit_test(holes_have_a_maximum_and_passing_it_changes_nothing),
        cmocka_unit_test(no_memory_changes_nothing_and_leaks_nothing),
        cmocka_unit_test(a_look_back_adds_holes_between_those_that_are_there),
        cmocka_unit_test(numbers_added_at_one_moment_join_their_neighbours),
        cmocka_unit_test(an_addition_that_fails_adds_nothing),
        cmocka_unit_test(the_ends_of_the_type_can_be_added),
        cmocka_unit_test(random_steps_agree_with_a_map_of_numbers),
    };

    return cmocka_run_group_tests_name("frontier", tests, NULL, NULL);
}
