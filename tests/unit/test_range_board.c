/* test_range_board.c - who may handle what, of a group that one process has reserved. */
#include "engine/range_board.h"
#include "unit.h"

#define BIT(lane) (UINT64_C(1) << (lane))

static hw_board_part claim(hw_board *board)
{
    hw_board_part part = {99, 99};

    assert_true(hw_board_claim(board, &part));
    return part;
}

static bool has_claim(hw_board *board)
{
    hw_board copy = *board;
    hw_board_part part;

    return hw_board_claim(&copy, &part);
}

static void a_lane_is_one_thread_s_at_a_time(void **state)
{
    hw_board board = {.n = 0};
    size_t range = hw_board_announce(&board, 16);
    hw_board_part first;
    hw_board_part second;

    (void)state;
    assert_false(has_claim(&board)); /* it is not read */
    hw_board_read(&board, range, BIT(3) | BIT(63));
    first = claim(&board);
    second = claim(&board);
    assert_int_equal(first.lane, 3);
    assert_int_equal(second.lane, 63);
    assert_false(has_claim(&board));
    hw_board_finish(&board, first, false); /* some of its events are left */
    assert_int_equal(claim(&board).lane, 3);
}

static void a_lane_waits_for_what_it_has_in_earlier_ranges(void **state)
{
    hw_board board = {.n = 0};
    size_t first = hw_board_announce(&board, 16);
    size_t second = hw_board_announce(&board, 32);
    hw_board_part part;

    (void)state;
    hw_board_read(&board, second, BIT(1) | BIT(2));
    assert_false(has_claim(&board)); /* the first may have events of any lane */
    hw_board_read(&board, first, BIT(1));
    part = claim(&board);
    assert_int_equal(part.range, first);
    assert_int_equal(claim(&board).lane, 2); /* the first has none of it */
    assert_false(has_claim(&board));
    hw_board_finish(&board, part, true);
    part = claim(&board);
    assert_int_equal(part.range, second);
    assert_int_equal(part.lane, 1);
}

static void ranges_are_through_in_their_order(void **state)
{
    hw_board board = {.n = 0};
    size_t first = hw_board_announce(&board, 16);
    size_t second = hw_board_announce(&board, 32);
    size_t popped = 99;

    (void)state;
    hw_board_read(&board, second, 0);
    assert_false(hw_board_pop(&board, &popped));
    hw_board_read(&board, first, BIT(7));
    assert_false(hw_board_pop(&board, &popped));
    hw_board_finish(&board, claim(&board), true);
    assert_true(hw_board_pop(&board, &popped));
    assert_int_equal(popped, first);
    assert_true(hw_board_pop(&board, &popped));
    assert_int_equal(popped, second);
    assert_false(hw_board_pop(&board, &popped));
}

static void it_is_full_and_has_room_again(void **state)
{
    hw_board board = {.n = 0};
    size_t popped = 0;

    (void)state;
    for (int64_t lot = 1; lot <= 3 * HW_BOARD_RANGES; lot++) {
        if (hw_board_is_full(&board))
            assert_true(hw_board_pop(&board, &popped));
        hw_board_read(&board, hw_board_announce(&board, lot), 0);
    }
    assert_true(hw_board_is_full(&board));
}

/* ---- a model: threads that take, read, handle and finish at random */

#define LANES 8
#define THREADS 5
#define RANGES_IN_ALL 60

typedef struct model {
    hw_board board;
    uint64_t lanes[HW_BOARD_RANGES]; /* what the announced ranges will have */
    int64_t lot[HW_BOARD_RANGES];
    int64_t reached[LANES]; /* the last range of which each lane was handled */
    bool busy[LANES];
    hw_board_part part[THREADS]; /* what each has, */
    bool has[THREADS];           /* if it has */
    int64_t announced;
    int64_t popped;
    size_t reading[HW_BOARD_RANGES];
    size_t reading_n;
    int parts; /* handled, and how many there are to handle */
    int parts_wanted;
} model;

static void take(model *m)
{
    size_t at;

    if (hw_board_is_full(&m->board) || m->announced == RANGES_IN_ALL)
        return;
    at = hw_board_announce(&m->board, ++m->announced);
    m->lot[at] = m->announced;
    m->lanes[at] = (uint64_t)rand() % (1u << LANES); /* NOLINT */
    m->parts_wanted += __builtin_popcountll(m->lanes[at]);
    m->reading[m->reading_n++] = at;
}

static void read_any(model *m)
{
    size_t i;

    if (m->reading_n == 0)
        return;
    i = (size_t)rand() % m->reading_n; /* NOLINT */
    hw_board_read(&m->board, m->reading[i], m->lanes[m->reading[i]]);
    m->reading[i] = m->reading[--m->reading_n];
}

static void begin(model *m, int thread)
{
    hw_board_part part;

    if (m->has[thread] || !hw_board_claim(&m->board, &part))
        return;
    assert_false(m->busy[part.lane]);
    assert_true(m->lanes[part.range] >> part.lane & 1);
    assert_true(m->reached[part.lane] <= m->lot[part.range]);
    for (size_t at = 0; at < m->board.n; at++) { /* nothing of it before */
        size_t range = (m->board.first + at) % HW_BOARD_RANGES;

        if (m->lot[range] < m->lot[part.range] && (m->lanes[range] >> part.lane & 1))
            assert_true(m->reached[part.lane] >= m->lot[range]);
    }
    m->busy[part.lane] = true;
    m->part[thread] = part;
    m->has[thread] = true;
}

static void end(model *m, int thread)
{
    hw_board_part part = m->part[thread];
    bool all = rand() % 3 > 0; /* NOLINT */
    size_t popped;

    if (!m->has[thread])
        return;
    m->has[thread] = false;
    m->busy[part.lane] = false;
    if (all) {
        m->reached[part.lane] = m->lot[part.range];
        m->parts++;
    }
    hw_board_finish(&m->board, part, all);
    while (hw_board_pop(&m->board, &popped))
        assert_i64_equal(m->lot[popped], ++m->popped);
}

static void whatever_threads_do_each_lane_stays_in_order_and_all_is_handled(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++) {
        model m = {.announced = 0};

        srand(seed);
        for (int step = 0; step < 100000 && m.popped < RANGES_IN_ALL; step++) {
            int what = rand() % 8; /* NOLINT */

            if (what == 0)
                take(&m);
            else if (what == 1)
                read_any(&m);
            else if (what < 5)
                begin(&m, rand() % THREADS); /* NOLINT */
            else
                end(&m, rand() % THREADS); /* NOLINT */
            if (m.reading_n == 0) {        /* a range without events is through when it is read */
                size_t popped;

                while (hw_board_pop(&m.board, &popped))
                    assert_i64_equal(m.lot[popped], ++m.popped);
            }
        }
        assert_i64_equal(m.popped, RANGES_IN_ALL);
        assert_int_equal(m.parts, m.parts_wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lane_is_one_thread_s_at_a_time),
        cmocka_unit_test(a_lane_waits_for_what_it_has_in_earlier_ranges),
        cmocka_unit_test(ranges_are_through_in_their_order),
        cmocka_unit_test(it_is_full_and_has_room_again),
        cmocka_unit_test(whatever_threads_do_each_lane_stays_in_order_and_all_is_handled),
    };

    return cmocka_run_group_tests_name("range board", tests, NULL, NULL);
}
