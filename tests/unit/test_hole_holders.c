/* test_hole_holders.c - proof by holders: which numbers may still appear, and which may have. */
#include <string.h>

#include "unit.h"

#include "engine/hole_holders.h"

#define IDLE 7

typedef struct range {
    int64_t first;
    int64_t last;
} range;

static void look(hw_holders *h, int64_t drawn, const hw_holder *seen, size_t n)
{
    assert_int_equal(hw_holders_look(h, drawn, seen, n, NULL), HOWDAH_OK);
}

#define look_at(h, drawn, ...)                                                                     \
    do {                                                                                           \
        const hw_holder unit_seen[] = {__VA_ARGS__};                                               \
        look((h), (drawn), unit_seen, COUNT_OF(unit_seen));                                        \
    } while (0)

static void check(const hw_ranges *set, const range *expected, size_t n, int line)
{
    if (set->n != n)
        fail_msg("line %d: %zu ranges, should be %zu", line, set->n, n);
    for (size_t i = 0; i < n; i++) {
        if (set->items[i].first != expected[i].first || set->items[i].last != expected[i].last)
            fail_msg("line %d: range %zu is %lld..%lld", line, i, (long long)set->items[i].first,
                     (long long)set->items[i].last);
    }
}

#define assert_ranges(set, ...)                                                                    \
    do {                                                                                           \
        const range unit_ranges[] = {__VA_ARGS__};                                                 \
        check((set), unit_ranges, COUNT_OF(unit_ranges), __LINE__);                                \
    } while (0)

#define assert_none(set) check((set), NULL, 0, __LINE__)

static void with_nobody_there_only_what_was_not_drawn_is_alive(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 20, NULL, 0);
    assert_ranges(&h.alive, {21, INT64_MAX});
    assert_none(&h.freed);
    look(&h, INT64_MAX, NULL, 0); /* a store that gives its numbers out in order */
    assert_none(&h.alive);
    hw_holders_done(&h);
}

static void one_that_was_there_at_the_first_look_may_have_drawn_anything(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look_at(&h, 20, {1, 100, 0});
    assert_ranges(&h.alive, {1, INT64_MAX});
    hw_holders_done(&h);
}

static void one_that_came_later_has_drawn_nothing_of_what_was_drawn_before(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 20, NULL, 0);
    look_at(&h, 30, {1, 100, 0});
    assert_ranges(&h.alive, {21, INT64_MAX}); /* between the two looks it may have drawn 21 */
    look_at(&h, 40, {1, 100, 0}, {2, 101, 0});
    assert_ranges(&h.alive, {21, INT64_MAX});
    look_at(&h, 50, {2, 101, 0});
    assert_ranges(&h.alive, {31, INT64_MAX});
    assert_ranges(&h.freed, {21, INT64_MAX});
    hw_holders_done(&h);
}

static void one_that_is_prepared_draws_no_more(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 10, NULL, 0);
    look_at(&h, 12, {1, 100, 0});
    look_at(&h, 15, {0, 100, 1}); /* it may have drawn up to here, and prepared then */
    assert_ranges(&h.alive, {11, INT64_MAX});
    look_at(&h, 1000, {0, 100, 1});
    assert_ranges(&h.alive, {11, INT64_MAX});
    look_at(&h, 2000000, {0, 100, 1});
    assert_ranges(&h.alive, {11, 1000}, {2000001, INT64_MAX});
    look(&h, 2000000, NULL, 0);
    assert_ranges(&h.freed, {11, 1000});
    assert_ranges(&h.alive, {2000001, INT64_MAX});
    hw_holders_done(&h);
}

static void one_that_is_idle_has_drawn_nothing_meanwhile_until_it_moves_again(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 10, NULL, 0);
    look_at(&h, 12, {1, 100, IDLE});
    look_at(&h, 20, {1, 100, IDLE});
    assert_ranges(&h.alive, {11, INT64_MAX}); /* 11 to 20, and what was not drawn */
    look_at(&h, 30, {1, 100, IDLE});
    assert_ranges(&h.alive, {11, 20}, {31, INT64_MAX});
    look_at(&h, 40, {1, 100, IDLE + 1});
    assert_ranges(&h.alive, {11, INT64_MAX});
    look_at(&h, 50, {1, 100, 0}); /* whoever cannot be told is not idle */
    look_at(&h, 60, {1, 100, 0});
    assert_ranges(&h.alive, {11, INT64_MAX});
    hw_holders_done(&h);
}

static void one_without_an_id_is_known_by_its_virtual_transaction(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 10, NULL, 0);
    look_at(&h, 12, {5, 0, 0});
    look_at(&h, 20, {5, 0, 0});
    assert_none(&h.freed);
    assert_ranges(&h.alive, {11, INT64_MAX});
    look_at(&h, 30, {5, 100, 0}); /* now it has one, */
    assert_none(&h.freed);
    look_at(&h, 40, {0, 100, 1}); /* and now it is prepared */
    assert_none(&h.freed);
    look_at(&h, 50, {5, 0, 0}); /* the same backend's next one would have another name */
    assert_ranges(&h.freed, {11, INT64_MAX});
    hw_holders_done(&h);
}

static void a_look_that_misses_the_id_does_not_forget_it_and_says_so(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 10, NULL, 0);
    look_at(&h, 12, {5, 100, 0});
    assert_false(h.unsure);
    look_at(&h, 14, {5, 0, 0});
    assert_true(h.unsure);
    look_at(&h, 16, {0, 100, 1});
    assert_false(h.unsure);
    assert_none(&h.freed);
    assert_ranges(&h.alive, {11, INT64_MAX});
    hw_holders_done(&h);
}

static void one_that_is_prepared_during_a_look_is_seen_twice_and_keeps_its_numbers(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 10, NULL, 0);
    look_at(&h, 12, {5, 0, 0}); /* it has drawn 11 or 12, and has no id yet */
    look_at(&h, 20, {5, 0, 0}, {0, 100, 1});
    look_at(&h, 30, {0, 100, 1});
    assert_ranges(&h.alive, {11, INT64_MAX});
    look_at(&h, 40, {0, 100, 1});
    assert_ranges(&h.alive, {11, 30}, {41, INT64_MAX});
    hw_holders_done(&h);
}

static void one_that_shows_an_id_of_its_own_is_not_the_prepared_one(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 10, NULL, 0);
    look_at(&h, 12, {5, 0, 0});
    look_at(&h, 20, {5, 101, 0}, {0, 100, 1});
    look(&h, 30, NULL, 0);
    look_at(&h, 40, {0, 100, 1});
    assert_ranges(&h.alive, {31, INT64_MAX});
    hw_holders_done(&h);
}

static void too_many_are_a_limit_and_the_look_does_not_count(void **state)
{
    hw_holders h;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    hw_holders_init(&h);
    look_at(&h, 5, {1, 100, 0});
    assert_int_equal(hw_holders_look(&h, 6, NULL, HW_HOLDERS_MAX + 1, &err), HOWDAH_LIMIT);
    assert_i64_equal(h.drawn, 5);
    assert_ranges(&h.alive, {1, INT64_MAX});
    hw_holders_done(&h);
}

/* ------------------------------------------------------------------ beside a model */

enum { NUMBERS = 400, TXNS = 6 };

typedef struct model {
    uint64_t dice;
    int32_t drawn;
    int owner[NUMBERS + 1];     /* whose it is, TXNS: of one that has ended */
    int64_t ended[NUMBERS + 1]; /* the step in which it appeared or died; INT64_MAX: not yet */
    struct {
        bool open;
        bool prepared;
        bool locks;
        uint64_t name;
        uint64_t xid;
        uint64_t steps;
    } txns[TXNS];
    uint64_t names;
} model;

static uint32_t roll(model *m, uint32_t sides)
{
    m->dice = m->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(m->dice >> 33) % sides;
}

static void end_of(model *m, int txn, int64_t step)
{
    for (int n = 1; n <= m->drawn; n++) {
        if (m->owner[n] == txn) {
            m->owner[n] = TXNS;
            m->ended[n] = step;
        }
    }
    memset(&m->txns[txn], 0, sizeof m->txns[txn]);
}

static void step(model *m, int64_t now)
{
    int txn = (int)roll(m, TXNS);

    if (!m->txns[txn].open) {
        m->txns[txn].open = true;
        m->txns[txn].name = ++m->names;
        return;
    }
    if (roll(m, 8) == 0) {
        end_of(m, txn, now);
        return;
    }
    if (m->txns[txn].prepared)
        return;
    if (roll(m, 12) == 0 && m->txns[txn].locks) {
        m->txns[txn].prepared = true;
        m->txns[txn].xid = m->txns[txn].xid ? m->txns[txn].xid : 1000 + m->txns[txn].name;
        return;
    }
    if (roll(m, 3) == 0) /* it is only idle */
        return;
    m->txns[txn].steps++;
    if (m->drawn == NUMBERS)
        return;
    m->txns[txn].locks = true;
    m->owner[++m->drawn] = txn;
    m->ended[m->drawn] = INT64_MAX;
    if (roll(m, 2) == 0)
        m->txns[txn].xid = 1000 + m->txns[txn].name;
}

/* A look goes through those that are not prepared, and then, some steps later, through the ids and
   those that are: see hole_evidence.c, I1. */
static size_t see(model *m, hw_holder *out, bool sees_idle, int64_t now, bool moves)
{
    bool seen[TXNS];
    uint64_t names[TXNS];
    size_t n = 0;

    for (int i = 0; i < TXNS; i++) {
        seen[i] = m->txns[i].open && m->txns[i].locks && !m->txns[i].prepared;
        names[i] = m->txns[i].name;
    }
    for (int i = 0; moves && i < 2 * TXNS; i++)
        step(m, now);
    for (int i = 0; i < TXNS; i++) {
        bool same = m->txns[i].open && m->txns[i].name == names[i];
        bool prepared = m->txns[i].open && m->txns[i].prepared;

        if (seen[i])
            out[n++] =
                (hw_holder){.virtual_id = names[i],
                            .xid = same && !prepared ? m->txns[i].xid : 0,
                            .idle = same && sees_idle && !prepared ? 2 + m->txns[i].steps : 0};
        if (prepared)
            out[n++] = (hw_holder){.xid = m->txns[i].xid, .idle = 1};
    }
    return n;
}

/* I3 and I4 for every number, at every look of many histories. */
static void whatever_may_appear_is_alive_and_whatever_ended_was_freed(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        model m = {.dice = seed};
        bool sees_idle = roll(&m, 3) != 0;
        int64_t looked = 0;     /* the step of the look before, */
        int64_t drawn_then = 0; /* and how many were drawn when that began */
        hw_holders h;

        hw_holders_init(&h);
        for (int64_t now = 1; now <= 500; now++) {
            hw_holder seen[2 * TXNS];
            bool moves = roll(&m, 3) == 0;
            int64_t drawn;
            size_t n;

            step(&m, now);
            if (roll(&m, 4) != 0)
                continue;
            drawn = m.drawn;
            if (roll(&m, 2) == 0)
                step(&m, now); /* between the two halves of a look */
            n = see(&m, seen, sees_idle, now, moves);
            look(&h, drawn, seen, n);
            for (int64_t i = 1; i <= NUMBERS; i++) {
                bool may_appear = i > m.drawn || m.ended[i] == INT64_MAX;

                if (may_appear && !hw_ranges_has(&h.alive, i))
                    fail_msg("seed %llu: %lld may appear", (unsigned long long)seed, (long long)i);
                /* What ends during a look is freed by the next one. */
                if (!moves && looked > 0 && i <= drawn_then && m.ended[i] > looked &&
                    m.ended[i] != INT64_MAX && !hw_ranges_has(&h.freed, i))
                    fail_msg("seed %llu: %lld was not freed", (unsigned long long)seed,
                             (long long)i);
            }
            looked = now;
            drawn_then = drawn;
        }
        hw_holders_done(&h);
    }
}

/* It would be sound to call everything alive: that is not what this is for. */
static void one_open_transaction_keeps_few_numbers_alive(void **state)
{
    hw_holders h;

    (void)state;
    hw_holders_init(&h);
    look(&h, 1000, NULL, 0);
    look_at(&h, 1002, {1, 100, IDLE});
    look_at(&h, 1003, {1, 100, IDLE});
    for (int64_t drawn = 2000; drawn <= 1000000; drawn += 1000)
        look_at(&h, drawn, {1, 100, IDLE}, {(uint64_t)drawn, (uint64_t)drawn, 0});
    look_at(&h, 1000000, {1, 100, IDLE});
    assert_ranges(&h.alive, {1001, 1003}, {1000001, INT64_MAX});
    hw_holders_done(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_nobody_there_only_what_was_not_drawn_is_alive),
        cmocka_unit_test(one_that_was_there_at_the_first_look_may_have_drawn_anything),
        cmocka_unit_test(one_that_came_later_has_drawn_nothing_of_what_was_drawn_before),
        cmocka_unit_test(one_that_is_prepared_draws_no_more),
        cmocka_unit_test(one_that_is_idle_has_drawn_nothing_meanwhile_until_it_moves_again),
        cmocka_unit_test(one_without_an_id_is_known_by_its_virtual_transaction),
        cmocka_unit_test(a_look_that_misses_the_id_does_not_forget_it_and_says_so),
        cmocka_unit_test(one_that_is_prepared_during_a_look_is_seen_twice_and_keeps_its_numbers),
        cmocka_unit_test(one_that_shows_an_id_of_its_own_is_not_the_prepared_one),
        cmocka_unit_test(too_many_are_a_limit_and_the_look_does_not_count),
        cmocka_unit_test(whatever_may_appear_is_alive_and_whatever_ended_was_freed),
        cmocka_unit_test(one_open_transaction_keeps_few_numbers_alive),
    };

    return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
