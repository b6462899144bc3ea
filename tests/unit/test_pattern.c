/* test_pattern.c - which event types a pattern means; the table is in tests/patterns.h. */
#include "unit.h"

#include <regex.h>

#include "../patterns.h"
#include "engine/pattern.h"
#include "engine/rules.h"

static hw_str next_word(const char **list, char word[PATTERN_WORD_MAX])
{
    return hw_str_of(pattern_word(list, word));
}

static unsigned check_words(const pattern_case *row, const char *list, bool expected)
{
    char word[PATTERN_WORD_MAX];
    hw_str type;
    unsigned n = 0;

    while ((type = next_word(&list, word)).s) {
        if (hw_pattern_matches(hw_str_of(row->pattern), type) != expected)
            fail_msg("%s %s %s", row->pattern, expected ? "does not match" : "matches", type.s);
        n++;
    }
    return n;
}

static void the_hundred_planned_patterns_match_what_they_should(void **state)
{
    size_t patterns = 0;

    (void)state;
    for (size_t c = 0; c < COUNT_OF(pattern_categories); c++) {
        assert_i64_equal((int64_t)pattern_categories[c].n, (int64_t)pattern_categories[c].planned);
        patterns += pattern_categories[c].n;
        for (size_t i = 0; i < pattern_categories[c].n; i++) {
            const pattern_case *row = &pattern_categories[c].cases[i];

            assert_int_equal(hw_rule_pattern(hw_str_of(row->pattern), NULL), HOWDAH_OK);
            assert_true(check_words(row, row->matches, true) > 0);
            (void)check_words(row, row->misses, false);
        }
    }
    assert_i64_equal((int64_t)patterns, 100 + 6);
}

static void the_documents_test_cases_deliver_the_stated_number_of_events(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(pattern_stories); i++) {
        const pattern_story *row = &pattern_stories[i];
        const char *list = row->appended;
        char word[PATTERN_WORD_MAX];
        unsigned received = 0;
        hw_str type;

        while ((type = next_word(&list, word)).s)
            received += hw_pattern_matches(hw_str_of(row->pattern), type);
        assert_int_equal(received, row->received);
    }
}

/* ---- against the rule as it is written */

typedef struct dice {
    uint64_t state;
} dice;

static unsigned roll(dice *d, unsigned n)
{
    d->state = d->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(d->state >> 33) % n;
}

/* Few dead letters and few segments: much of what is rolled nearly matches. */
static void roll_text(dice *d, bool pattern, char text[PATTERN_WORD_MAX])
{
    static const char *const segments[] = {"a", "b", "ab", "A", "a_b", "a-b", "1"};
    unsigned n = 1 + roll(d, 5);

    text[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        const char *segment = segments[roll(d, COUNT_OF(segments))];

        if (pattern && roll(d, 3) == 0)
            segment = "*";
        if (pattern && i + 1 == n && roll(d, 5) == 0)
            segment = ">";
        (void)snprintf(text + strlen(text), PATTERN_WORD_MAX - strlen(text), "%s%s", i ? "." : "",
                       segment);
    }
}

static void the_matcher_agrees_with_a_naive_one_on_rolled_patterns(void **state)
{
    dice d = {2026};
    size_t matches = 0;
    size_t misses = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char pattern[PATTERN_WORD_MAX];
        char type[PATTERN_WORD_MAX];
        bool expected;

        roll_text(&d, true, pattern);
        roll_text(&d, false, type);
        assert_int_equal(hw_rule_pattern(hw_str_of(pattern), NULL), HOWDAH_OK);
        assert_int_equal(hw_rule_type(hw_str_of(type), NULL), HOWDAH_OK);
        expected = pattern_means(pattern, type) != 0;
        if (hw_pattern_matches(hw_str_of(pattern), hw_str_of(type)) != expected)
            fail_msg("%s %s %s", pattern, expected ? "does not match" : "matches", type);
        matches += expected;
        misses += !expected;
    }
    assert_true(matches > 5000 && misses > 5000);
}

static void check_against_regex(hw_str pattern, const regex_t *regex, const char *list)
{
    char word[PATTERN_WORD_MAX];
    hw_str type;

    while ((type = next_word(&list, word)).s) {
        bool good = regexec(regex, type.s, 0, NULL, 0) == 0;

        /* A list may hold what is no type ("order.created."): the regex is for types only. */
        if (hw_rule_type(type, NULL) != HOWDAH_OK)
            continue;
        if (good != hw_pattern_matches(pattern, type))
            fail_msg("%s and its regex disagree on %s", pattern.s, type.s);
    }
}

/* Every pattern of the table against every type of the table. */
static void the_regex_agrees_with_the_matcher_everywhere(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(pattern_categories); c++) {
        for (size_t i = 0; i < pattern_categories[c].n; i++) {
            hw_str pattern = hw_str_of(pattern_categories[c].cases[i].pattern);
            hw_buf text = HW_BUF_INIT(4096);
            regex_t regex;

            hw_pattern_regex(pattern, &text);
            assert_int_equal(regcomp(&regex, hw_buf_str(&text), REG_EXTENDED | REG_NOSUB), 0);
            for (size_t k = 0; k < COUNT_OF(pattern_categories); k++) {
                for (size_t j = 0; j < pattern_categories[k].n; j++) {
                    check_against_regex(pattern, &regex, pattern_categories[k].cases[j].matches);
                    check_against_regex(pattern, &regex, pattern_categories[k].cases[j].misses);
                }
            }
            regfree(&regex);
            hw_buf_done(&text);
        }
    }
}

static void a_regex_is_anchored_and_free_of_backslashes(void **state)
{
    static const struct {
        const char *pattern;
        const char *regex;
    } rows[] = {
        {"order.created", "^order[.]created$"},
        {"order.*", "^order[.][^.]+$"},
        {"*.created", "^[^.]+[.]created$"},
        {"order.>", "^order[.].+$"},
        {">", "^.+$"},
        {NULL, "^.+$"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_buf text = HW_BUF_INIT(4096);

        hw_pattern_regex(hw_str_of(rows[i].pattern), &text);
        assert_string_equal(hw_buf_str(&text), rows[i].regex);
        hw_buf_done(&text);
    }
}

static void prefix_and_exactness_follow_the_first_wildcard(void **state)
{
    static const struct {
        const char *pattern;
        const char *prefix;
        bool exact;
    } rows[] = {
        {"order.created", "order.created", true},
        {"order", "order", true},
        {"order.*", "order.", false},
        {"order.>", "order.", false},
        {"order.item.*", "order.item.", false},
        {"order.*.completed", "order.", false},
        {"a.b.*.d.*", "a.b.", false},
        {"*.created", "", false},
        {"*", "", false},
        {">", "", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_str pattern = hw_str_of(rows[i].pattern);

        assert_str_is(hw_pattern_prefix(pattern), rows[i].prefix);
        assert_int_equal(hw_pattern_is_exact(pattern), rows[i].exact);
    }
    assert_null(hw_pattern_prefix(HW_STR_NULL).s);
    assert_false(hw_pattern_is_exact(HW_STR_NULL));
}

static void a_pattern_without_a_wildcard_becomes_the_type_where_none_is_given(void **state)
{
    hw_str type = HW_STR_NULL;
    hw_str pattern = HW_STR_LIT("order.created");

    (void)state;
    hw_pattern_to_type(&type, &pattern);
    assert_str_is(type, "order.created");
    assert_null(pattern.s);
    hw_pattern_to_type(&type, &pattern); /* no pattern: nothing changes */
    assert_str_is(type, "order.created");
    pattern = HW_STR_LIT("order.paid");
    hw_pattern_to_type(&type, &pattern); /* both are asked for: nothing matches both */
    assert_str_is(type, "order.created");
    assert_str_is(pattern, "order.paid");
    type = HW_STR_NULL;
    pattern = HW_STR_LIT("order.*");
    hw_pattern_to_type(&type, &pattern);
    assert_null(type.s);
    assert_str_is(pattern, "order.*");
}

static void every_matching_type_starts_with_the_prefix(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(pattern_categories); c++) {
        for (size_t i = 0; i < pattern_categories[c].n; i++) {
            const char *list = pattern_categories[c].cases[i].matches;
            hw_str prefix = hw_pattern_prefix(hw_str_of(pattern_categories[c].cases[i].pattern));
            char word[PATTERN_WORD_MAX];
            hw_str type;

            while ((type = next_word(&list, word)).s)
                assert_memory_equal(type.s, prefix.s, prefix.len);
        }
    }
}

/* A slice of a longer text: the length counts, not the NUL. */
static void patterns_and_types_need_no_terminator(void **state)
{
    (void)state;
    assert_true(hw_pattern_matches((hw_str){"order.*xxx", 7}, (hw_str){"order.created.x", 13}));
    assert_false(hw_pattern_matches((hw_str){"order.*xxx", 7}, (hw_str){"order.created.x", 15}));
}

static void thirty_two_wildcards_cost_one_walk(void **state)
{
    char pattern[64] = "*";
    char type[64] = "a";

    (void)state;
    for (int i = 1; i < 32; i++) {
        strcat(pattern, ".*");
        strcat(type, ".a");
    }
    assert_int_equal(hw_rule_pattern(hw_str_of(pattern), NULL), HOWDAH_OK);
    for (int i = 0; i < 100000; i++)
        assert_true(hw_pattern_matches(hw_str_of(pattern), hw_str_of(type)));
    type[61] = '\0';
    assert_false(hw_pattern_matches(hw_str_of(pattern), hw_str_of(type)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hundred_planned_patterns_match_what_they_should),
        cmocka_unit_test(the_documents_test_cases_deliver_the_stated_number_of_events),
        cmocka_unit_test(the_matcher_agrees_with_a_naive_one_on_rolled_patterns),
        cmocka_unit_test(the_regex_agrees_with_the_matcher_everywhere),
        cmocka_unit_test(a_regex_is_anchored_and_free_of_backslashes),
        cmocka_unit_test(prefix_and_exactness_follow_the_first_wildcard),
        cmocka_unit_test(a_pattern_without_a_wildcard_becomes_the_type_where_none_is_given),
        cmocka_unit_test(every_matching_type_starts_with_the_prefix),
        cmocka_unit_test(patterns_and_types_need_no_terminator),
        cmocka_unit_test(thirty_two_wildcards_cost_one_walk),
    };

    return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
