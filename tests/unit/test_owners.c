/* test_owners.c - proof by owners: looks, fences, horizons. */
#include "unit.h"

#include "engine/frontier.h"
#include "engine/owners.h"

#define look(owners, ...)                                                                          \
    do {                                                                                           \
        const uint64_t unit_ids[] = {__VA_ARGS__};                                                 \
        assert_int_equal(hw_owners_look((owners), unit_ids, COUNT_OF(unit_ids), NULL), HOWDAH_OK); \
    } while (0)

static void look_at_nobody(hw_owners *owners)
{
    assert_int_equal(hw_owners_look(owners, NULL, 0, NULL), HOWDAH_OK);
}

static int64_t horizon(const hw_owners *owners)
{
    return (int64_t)hw_owners_horizon(owners);
}

static void a_look_that_finds_nobody_is_its_own_horizon(void **state)
{
    hw_owners o;

    (void)state;
    hw_owners_init(&o);
    assert_i64_equal(horizon(&o), 0);
    look_at_nobody(&o);
    assert_i64_equal((int64_t)hw_owners_fence(&o), 1);
    assert_i64_equal(horizon(&o), 1);
    look_at_nobody(&o);
    assert_i64_equal(horizon(&o), 2);
    hw_owners_done(&o);
}

static void the_horizon_stays_below_the_look_that_saw_the_oldest_owner_first(void **state)
{
    hw_owners o;

    (void)state;
    hw_owners_init(&o);
    look(&o, 100, 200);
    assert_i64_equal(horizon(&o), 0);
    look(&o, 50, 200, 300); /* 100 has ended; 50 has begun to draw later, whatever its id */
    assert_i64_equal(horizon(&o), 0);
    look(&o, 50, 300);
    assert_i64_equal((int64_t)hw_owners_fence(&o), 3);
    assert_i64_equal(horizon(&o), 1); /* none of the first look is left */
    look(&o, 300, 400);
    assert_i64_equal(horizon(&o), 1);
    look(&o, 400, 500);
    assert_i64_equal(horizon(&o), 3);
    look(&o, 500);
    assert_i64_equal(horizon(&o), 4);
    look_at_nobody(&o);
    assert_i64_equal(horizon(&o), 7);
    hw_owners_done(&o);
}

static void a_hole_dies_when_the_owners_of_its_look_have_ended_though_others_came(void **state)
{
    hw_owners o;
    hw_frontier f;
    bool is_new;

    (void)state;
    hw_owners_init(&o);
    hw_frontier_init(&f, 0);
    assert_int_equal(hw_frontier_see(&f, 3, 0, &is_new, NULL), HOWDAH_OK);
    look(&o, 10, 11);
    hw_frontier_fence(&f, hw_owners_fence(&o));
    assert_i64_equal(hw_frontier_bury(&f, hw_owners_horizon(&o)), 0);
    look(&o, 11, 12);
    assert_i64_equal(hw_frontier_bury(&f, hw_owners_horizon(&o)), 0);
    look(&o, 12, 13);
    assert_i64_equal(hw_frontier_bury(&f, hw_owners_horizon(&o)), 2);
    hw_frontier_done(&f);
    hw_owners_done(&o);
}

static void the_look_that_fences_a_hole_may_bury_it(void **state)
{
    hw_owners o;
    hw_frontier f;
    bool is_new;

    (void)state;
    hw_owners_init(&o);
    hw_frontier_init(&f, 0);
    assert_int_equal(hw_frontier_see(&f, 2, 0, &is_new, NULL), HOWDAH_OK);
    look_at_nobody(&o);
    hw_frontier_fence(&f, hw_owners_fence(&o));
    assert_i64_equal(hw_frontier_bury(&f, hw_owners_horizon(&o)), 1);
    hw_frontier_done(&f);
    hw_owners_done(&o);
}

static void a_look_that_fails_does_not_count(void **state)
{
    unit_allocator a;
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_owners o;
    const uint64_t one = 7;

    (void)state;
    unit_allocator_start(&a, 2);
    hw_owners_init(&o);
    look(&o, 5, 6);
    assert_int_equal(hw_owners_look(&o, &one, 1, &err), HOWDAH_NO_MEMORY);
    assert_i64_equal((int64_t)hw_owners_fence(&o), 1);
    assert_i64_equal((int64_t)o.n, 2);
    assert_i64_equal(horizon(&o), 0);
    assert_int_equal(hw_owners_look(&o, &one, HW_OWNERS_MAX + 1, &err), HOWDAH_LIMIT);
    assert_string_equal(err.message, "more than 100000 transactions hold numbers of the log");
    assert_i64_equal((int64_t)hw_owners_fence(&o), 1);
    look(&o, 7);
    assert_i64_equal(horizon(&o), 1);
    hw_owners_done(&o);
    unit_allocator_stop(&a);
}

/* The plain meaning: every look's set is kept, and L is past when none of the sets up to L meets
   the present one. */
enum { LOOKS = 40, IDS = 24 };

static void random_looks_agree_with_all_looks_remembered(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int run = 0; run < 100; run++) {
        bool seen[LOOKS + 1][IDS] = {{false}};
        bool ended[IDS] = {false};
        hw_owners o;

        hw_owners_init(&o);
        for (int l = 1; l <= LOOKS; l++) {
            uint64_t ids[IDS];
            size_t n = 0;
            int expected = 0;

            for (int i = 0; i < IDS; i++) {
                seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
                /* An owner that has ended does not come back. */
                if (!ended[i] && (seed >> 33) % 8 == 0 && (l == 1 || seen[l - 1][i]))
                    ended[i] = true;
                seen[l][i] = !ended[i] && ((l > 1 && seen[l - 1][i]) || (seed >> 45) % 16 == 0);
                if (seen[l][i])
                    ids[n++] = (uint64_t)i + 1;
            }
            assert_int_equal(hw_owners_look(&o, ids, n, NULL), HOWDAH_OK);
            for (int k = 1; k <= l; k++) {
                bool left = false;

                for (int i = 0; i < IDS; i++)
                    left = left || (seen[k][i] && seen[l][i]);
                if (left)
                    break;
                expected = k;
            }
            assert_i64_equal(horizon(&o), expected);
        }
        hw_owners_done(&o);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_look_that_finds_nobody_is_its_own_horizon),
        cmocka_unit_test(the_horizon_stays_below_the_look_that_saw_the_oldest_owner_first),
        cmocka_unit_test(a_hole_dies_when_the_owners_of_its_look_have_ended_though_others_came),
        cmocka_unit_test(the_look_that_fences_a_hole_may_bury_it),
        cmocka_unit_test(a_look_that_fails_does_not_count),
        cmocka_unit_test(random_looks_agree_with_all_looks_remembered),
    };

    return cmocka_run_group_tests_name("owners", tests, NULL, NULL);
}
