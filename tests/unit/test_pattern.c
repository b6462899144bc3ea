/*
 * test_pattern.c - which event types a pattern means.
 *
 * The table holds the hundred patterns of the subscription document's test plan, by its categories
 * and with its counts; where that document gives examples, they are here to the letter.
 */
#include "unit.h"

#include <regex.h>

#include "engine/pattern.h"
#include "engine/rules.h"

typedef struct pattern_case {
    const char *pattern;
    const char *matches; /* types, separated by spaces */
    const char *misses;
} pattern_case;

static const pattern_case trailing[] = {
    {"order.*", "order.created order.shipped", "orders.created order payment.received order.a.b"},
    {"user.*", "user.created user.1", "user users.created user.profile.updated"},
    {"payment.*", "payment.received payment.failed", "payment order.payment payment.card.declined"},
    {"user.profile.*", "user.profile.updated user.profile.deleted",
     "user.profile user.updated user.profile.photo.updated user.profiles.updated"},
    {"order.item.*", "order.item.added order.item.removed", "order.item order.items.added"},
    {"a.*", "a.b a.c", "a aa.b b.a a.b.c"},
    {"a.b.*", "a.b.c a.b.d", "a.b a.c.b a.b.c.d"},
    {"a.b.c.*", "a.b.c.d", "a.b.c a.b.c.d.e a.b.d.c"},
    {"a.b.c.d.*", "a.b.c.d.e a.b.c.d.f", "a.b.c.d a.b.c.e.d a.b.c.d.e.f"},
    {"inventory.*", "inventory.reserved inventory.released", "inventory inventory-x.reserved"},
    {"Order.*", "Order.Created Order.created", "order.created ORDER.created Order"},
    {"order-line.*", "order-line.added",
     "order.line order-line order-lines.added order.line.added"},
};

static const pattern_case leading[] = {
    {"*.created", "order.created payment.created", "order.shipped created order.item.created"},
    {"*.deleted", "user.deleted order.deleted", "deleted user.undeleted user.deleted.x"},
    {"*.shipped", "order.shipped", "order.created shipped order.shipped.late"},
    {"*.user.deleted", "app.user.deleted web.user.deleted",
     "user.deleted app.user.created app.web.user.deleted app.users.deleted"},
    {"*.item.added", "order.item.added cart.item.added", "item.added order.items.added"},
    {"*.a", "b.a a.a", "a b.b a.b a.a.a"},
    {"*.a.b", "x.a.b a.a.b", "a.b x.a.c x.y.a.b"},
    {"*.a.b.c", "x.a.b.c y.a.b.c", "a.b.c x.a.b.d x.a.b x.y.a.b.c"},
    {"*.completed", "payment.completed", "order.payment.completed completed payment.complete"},
    {"*.failed", "payment.failed shipping.failed", "failed payment.failed_once"},
    {"*.Created", "order.Created", "order.created Created"},
    {"*.payment-received", "shop.payment-received", "shop.payment.received payment-received"},
};

static const pattern_case middle[] = {
    {"order.*.completed", "order.payment.completed order.shipping.completed",
     "order.created order.completed order.payment.failed order.payment.card.completed"},
    {"order.*.failed", "order.payment.failed", "order.failed order.payment.completed"},
    {"user.*.updated", "user.profile.updated user.email.updated",
     "user.updated users.profile.updated user.profile.photo.updated"},
    {"user.*.profile.updated", "user.admin.profile.updated user.42.profile.updated",
     "user.profile.updated user.admin.profile.deleted user.a.b.profile.updated"},
    {"user.profile.*.updated", "user.profile.photo.updated",
     "user.profile.updated user.profile.photo.deleted user.account.photo.updated"},
    {"a.*.c", "a.b.c a.a.c a.c.c", "a.c a.b.d a.b.b.c b.b.c"},
    {"a.*.c.d", "a.b.c.d", "a.c.d a.b.c a.b.c.d.e"},
    {"a.b.*.d", "a.b.c.d a.b.d.d", "a.b.d a.c.c.d a.b.c.c.d"},
    {"payment.*.settled", "payment.card.settled", "payment.settled payment.card.declined"},
    {"shop.*.order.created", "shop.berlin.order.created",
     "shop.order.created shop.order.berlin.created"},
    {"cart.*.removed", "cart.item.removed", "cart.removed cart.items.all.removed"},
    {"log.*.line", "log.error.line log.info.line", "log.line log.error.lines logs.error.line"},
};

static const pattern_case multiple[] = {
    {"*.*", "order.created a.b", "order a.b.c"},
    {"*.order.*", "foo.order.bar abc.order.xyz", "order.created order foo.orders.bar foo.order"},
    {"*.*.*", "a.b.c order.item.added", "a.b a.b.c.d a"},
    {"*.*.*.*", "a.b.c.d", "a.b.c a.b.c.d.e"},
    {"user.*.*.action", "user.a.b.action user.1.2.action",
     "user.a.action user.a.b.c.action user.a.b.actions"},
    {"*.*.created", "shop.order.created", "order.created shop.order.shipped a.b.order.created"},
    {"order.*.*", "order.item.added order.a.b", "order.created orders.item.added order.a.b.c"},
    {"*.b.*.d", "a.b.c.d x.b.y.d", "a.b.d b.c.d a.b.c.e"},
    {"a.*.c.*", "a.b.c.d a.x.c.y", "a.b.c a.b.d.c b.b.c.d"},
    {"*.a.*.b.*", "1.a.2.b.3", "a.2.b.3 1.a.b.3 1.a.2.b"},
    {"*.*.a", "x.y.a a.a.a", "x.a a x.y.z.a"},
    {"a.*.*", "a.b.c a.a.a", "a a.b a.b.c.d"},
    {"*.user.*.*", "app.user.profile.updated",
     "user.profile.updated app.user.updated app.x.user.y.z"},
    {"*.*.*.*.*", "a.b.c.d.e", "a.b.c.d a.b.c.d.e.f"},
    {"*", "order created a_b", "order.created a.b.c"},
};

static const pattern_case deep[] = {
    {"a.b.c.d.e.*", "a.b.c.d.e.f", "a.b.c.d.e a.b.c.d.e.f.g a.b.c.d.f.e"},
    {"*.a.b.c.d.e", "x.a.b.c.d.e", "a.b.c.d.e x.a.b.c.d.f x.y.a.b.c.d.e"},
    {"a.*.b.*.c.*.d", "a.1.b.2.c.3.d", "a.b.c.d a.1.b.2.c.d a.1.b.2.c.3.e a.1.b.2.c.3.4.d"},
    {"a.b.c.d.e", "a.b.c.d.e", "a.b.c.d a.b.c.d.e.f a.b.c.d.x"},
    {"a.b.*.d.e", "a.b.c.d.e a.b.x.d.e", "a.b.d.e a.b.c.c.d.e"},
    {"*.*.*.*.*.*", "a.b.c.d.e.f", "a.b.c.d.e a.b.c.d.e.f.g"},
    {"com.example.shop.order.*.created", "com.example.shop.order.web.created",
     "com.example.shop.order.created com.example.shop.orders.web.created"},
    {"*.example.*.order.*.created", "com.example.shop.order.web.created",
     "com.example.shop.order.created com.sample.shop.order.web.created"},
    {"a.b.c.d.e.f.g.h.i.j", "a.b.c.d.e.f.g.h.i.j", "a.b.c.d.e.f.g.h.i a.b.c.d.e.f.g.h.i.k"},
    {"a.*.c.*.e.*.g.*.i.*", "a.b.c.d.e.f.g.h.i.j", "a.b.c.d.e.f.g.h.i a.b.c.d.e.f.g.h.j.i"},
};

static const pattern_case collision[] = {
    {"my.channel", "my.channel", "my_channel my-channel mychannel"},
    {"my_channel", "my_channel", "my.channel my-channel"},
    {"order.item.created", "order.item.created", "order_item.created order.item_created"},
    {"order_item.created", "order_item.created", "order.item.created order_item_created"},
    {"order.item_created", "order.item_created", "order.item.created order_item.created"},
    {"order_item.*", "order_item.created", "order.item.created order_items.created order.item"},
    {"*.item_created", "order.item_created", "order.item.created order_item.created"},
    {"a_b.c_d", "a_b.c_d", "a.b.c.d a_b_c_d a.b_c.d"},
    {"a.b_c.d", "a.b_c.d", "a_b.c_d a.b.c.d a_b_c_d"},
    {"*.*.channel", "a.my.channel", "a.my_channel my.channel a_my.channel"},
};

static const pattern_case numeric[] = {
    {"v1.*", "v1.created v1.1", "v1 v2.created v11.created v1.a.b"},
    {"*.v2.created", "order.v2.created", "order.v1.created v2.created order.v22.created"},
    {"api.v3.*.response", "api.v3.order.response api.v3.1.response",
     "api.v3.response api.v2.order.response api.v3.order.request"},
    {"1.2.3", "1.2.3", "1.2 1.2.3.4 1.2.4 123"},
    {"1.*", "1.2 1.0", "1 11.2 1.2.3"},
    {"*.1", "a.1 1.1", "1 a.11 a.b.1"},
    {"order.*.42", "order.id.42", "order.42 order.id.43 order.id.420"},
    {"2024.*.31", "2024.12.31 2024.01.31", "2024.31 2024.12.30 2025.12.31"},
};

static const pattern_case underscore[] = {
    {"user_service.*", "user_service.started",
     "user.service.started user_service user_services.started"},
    {"*.order_created", "shop.order_created",
     "shop.order.created order_created shop.order_created_v2"},
    {"payment.*.card_declined", "payment.eu.card_declined",
     "payment.card_declined payment.eu.card.declined payment.eu.card_decline"},
    {"_internal.*", "_internal.tick", "internal.tick _internal"},
    {"*._hidden", "a._hidden", "a.hidden _hidden"},
    {"a__b.*", "a__b.c", "a_b.c a.b.c a__b"},
    {"*.snake_case_type.*", "x.snake_case_type.y", "x.snake.case.type.y x.snake_case.y"},
    {"user_service.*.user_created", "user_service.v1.user_created",
     "user_service.user_created user.service.v1.user_created user_service.v1.user.created"},
};

static const pattern_case non_matching[] = {
    {"order.*", "order.x", "orders.created user.profile"},
    {"order.*", "order.y", "order preorder.created xorder.created"},
    {"*.created", "x.created", "x.recreated x.created2 created"},
    {"*.created", "y.created", "x.y.created"},
    {"order.*.completed", "order.z.completed", "order.completed order.a.b.completed"},
    {"*.order.*", "a.order.b", "order.b a.order a.preorder.b a.orders.b"},
    {"*.*", "a.z", "a a.b.c"},
    {"user.profile", "user.profile", "user.profiles user user.profile.updated xuser.profile"},
    {"User.profile", "User.profile", "user.profile USER.profile User.Profile"},
    {"order.created", "order.created", "order.create order.created. order_created"},
    {"a.b", "a.b", "a.bb aa.b b.a ab"},
    {"a-b.*", "a-b.c", "a.b.c a_b.c ab.c"},
    {"order.*.*.done", "order.a.b.done", "order.a.done order.done order.a.b.c.done"},
};

/* Ours, beyond the document: one or more further segments. */
static const pattern_case rest[] = {
    {">", "order order.created a.b.c.d.e", ""},
    {"order.>", "order.created order.item.added order.a.b.c.d", "order orders.created preorder.x"},
    {"*.>", "order.created a.b.c", "order"},
    {"*.item.>", "order.item.added order.item.a.b", "order.item item.added order.items.added"},
    {"a.*.>", "a.b.c a.b.c.d", "a.b a"},
    {"a.b.c.>", "a.b.c.d a.b.c.d.e.f", "a.b.c a.b.d.c"},
};

typedef struct category {
    const pattern_case *cases;
    size_t n;
    size_t planned; /* the document's count */
} category;

static const category categories[] = {
    {trailing, COUNT_OF(trailing), 12},
    {leading, COUNT_OF(leading), 12},
    {middle, COUNT_OF(middle), 12},
    {multiple, COUNT_OF(multiple), 15},
    {deep, COUNT_OF(deep), 10},
    {collision, COUNT_OF(collision), 10},
    {numeric, COUNT_OF(numeric), 8},
    {underscore, COUNT_OF(underscore), 8},
    {non_matching, COUNT_OF(non_matching), 13},
    {rest, COUNT_OF(rest), 6},
};

/* Cuts the next word off a list; absent at its end. */
static hw_str next_word(const char **list, char word[HW_NAME_MAX + 1])
{
    size_t len;

    *list += strspn(*list, " ");
    len = strcspn(*list, " ");
    if (len == 0)
        return HW_STR_NULL;
    assert_true(len <= HW_NAME_MAX);
    memcpy(word, *list, len);
    word[len] = '\0';
    *list += len;
    return (hw_str){word, len};
}

static unsigned check_words(const pattern_case *row, const char *list, bool expected)
{
    char word[HW_NAME_MAX + 1];
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
    for (size_t c = 0; c < COUNT_OF(categories); c++) {
        assert_i64_equal((int64_t)categories[c].n, (int64_t)categories[c].planned);
        patterns += categories[c].n;
        for (size_t i = 0; i < categories[c].n; i++) {
            const pattern_case *row = &categories[c].cases[i];

            assert_int_equal(hw_rule_pattern(hw_str_of(row->pattern), NULL), HOWDAH_OK);
            assert_true(check_words(row, row->matches, true) > 0);
            (void)check_words(row, row->misses, false);
        }
    }
    assert_i64_equal((int64_t)patterns, 100 + 6);
}

/* Test cases 1 to 10 of the document: how many of the appended events arrive. */
static void the_documents_test_cases_deliver_the_stated_number_of_events(void **state)
{
    static const struct {
        const char *pattern; /* NULL: all */
        const char *appended;
        unsigned received;
    } rows[] = {
        {"order.created", "order.created order.shipped payment.received", 1},
        {NULL, "order.created order.shipped payment.received", 3},
        {"payment.received", "order.created order.shipped payment.received", 1},
        {"my.channel", "my.channel my_channel", 1},
        {"my_channel", "my.channel my_channel", 1},
        {"test.event", "test.event", 1},
        {"order.*", "order.created order.shipped payment.received", 2},
        {"*.created", "order.created payment.created order.shipped", 2},
        {"order.*.completed", "order.payment.completed order.shipping.completed order.created", 2},
        {"order.*", "order.created orders.created order", 1},
        {"*.order.*", "foo.order.bar abc.order.xyz order.created", 2},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *list = rows[i].appended;
        char word[HW_NAME_MAX + 1];
        unsigned received = 0;
        hw_str type;

        while ((type = next_word(&list, word)).s)
            received += hw_pattern_matches(hw_str_of(rows[i].pattern), type);
        assert_int_equal(received, rows[i].received);
    }
}

static void check_against_regex(hw_str pattern, const regex_t *regex, const char *list)
{
    char word[HW_NAME_MAX + 1];
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
    for (size_t c = 0; c < COUNT_OF(categories); c++) {
        for (size_t i = 0; i < categories[c].n; i++) {
            hw_str pattern = hw_str_of(categories[c].cases[i].pattern);
            hw_buf text = HW_BUF_INIT(4096);
            regex_t regex;

            hw_pattern_regex(pattern, &text);
            assert_int_equal(regcomp(&regex, hw_buf_str(&text), REG_EXTENDED | REG_NOSUB), 0);
            for (size_t k = 0; k < COUNT_OF(categories); k++) {
                for (size_t j = 0; j < categories[k].n; j++) {
                    check_against_regex(pattern, &regex, categories[k].cases[j].matches);
                    check_against_regex(pattern, &regex, categories[k].cases[j].misses);
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

static void every_matching_type_starts_with_the_prefix(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(categories); c++) {
        for (size_t i = 0; i < categories[c].n; i++) {
            const char *list = categories[c].cases[i].matches;
            hw_str prefix = hw_pattern_prefix(hw_str_of(categories[c].cases[i].pattern));
            char word[HW_NAME_MAX + 1];
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
        cmocka_unit_test(the_regex_agrees_with_the_matcher_everywhere),
        cmocka_unit_test(a_regex_is_anchored_and_free_of_backslashes),
        cmocka_unit_test(prefix_and_exactness_follow_the_first_wildcard),
        cmocka_unit_test(every_matching_type_starts_with_the_prefix),
        cmocka_unit_test(patterns_and_types_need_no_terminator),
        cmocka_unit_test(thirty_two_wildcards_cost_one_walk),
    };

    return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
