/* test_scope.c - what is inside a token's scope. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/pattern.h"
#include "gateway/scope.h"

#define DEPTH 4 /* segments of a type; one more than a pattern has */
#define TEXT_SIZE 32
#define MANY 2000

/* All texts of one to "depth" segments out of these; "last" may stand at the end alone. */
static size_t make_all(const char *segments, char last, int depth, char out[MANY][TEXT_SIZE])
{
    size_t n = 0;
    size_t begin = 0;

    for (int d = 1; d <= depth; d++) {
        size_t end = n;

        for (size_t i = begin; i < end || (d == 1 && i == begin); i++) {
            const char *before = d == 1 ? "" : out[i];

            if (strchr(before, last))
                continue;
            for (const char *c = segments; *c; c++)
                (void)snprintf(out[n++], TEXT_SIZE, "%.20s%s%c", before, d == 1 ? "" : ".", *c);
            if (last != '!')
                (void)snprintf(out[n++], TEXT_SIZE, "%.20s%s%c", before, d == 1 ? "" : ".", last);
        }
        begin = end;
    }
    assert_true(n < MANY);
    return n;
}

static void a_pattern_is_inside_when_all_that_it_matches_is(void **state)
{
    static char types[MANY][TEXT_SIZE];
    static char patterns[MANY][TEXT_SIZE];
    /* x is in no pattern: whatever a star can stand for is among the types. */
    size_t types_n = make_all("abx", '!', DEPTH, types);
    size_t n = make_all("ab*", '>', DEPTH - 1, patterns);

    (void)state;
    assert_int_equal(types_n, 3 + 9 + 27 + 81);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            bool all = true;

            for (size_t t = 0; all && t < types_n; t++)
                all = !hw_pattern_matches(hw_str_of(patterns[i]), hw_str_of(types[t])) ||
                      hw_pattern_matches(hw_str_of(patterns[k]), hw_str_of(types[t]));
            if (gw_pattern_inside(patterns[i], patterns[k]) != all)
                fail_msg("%s in %s: %d", patterns[i], patterns[k], all);
        }
}

static void a_name_is_inside_itself_and_the_beginning_before_a_star(void **state)
{
    (void)state;
    assert_true(gw_name_inside("order-1", "order-1"));
    assert_true(gw_name_inside("order-1", "order-*"));
    assert_true(gw_name_inside("order-", "order-*"));
    assert_true(gw_name_inside("order-*", "order-*"));
    assert_true(gw_name_inside("any", "*"));
    assert_false(gw_name_inside("order", "order-*"));
    assert_false(gw_name_inside("Order-1", "order-*"));
    assert_false(gw_name_inside("order-12", "order-1"));
    assert_false(gw_name_inside("order-1", "order-12"));
    assert_false(gw_name_inside("order-1", "*-1"));
    assert_false(gw_name_inside("any", ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pattern_is_inside_when_all_that_it_matches_is),
        cmocka_unit_test(a_name_is_inside_itself_and_the_beginning_before_a_star),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
