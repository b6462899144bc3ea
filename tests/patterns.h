/*
 * patterns.h - the hundred patterns of the subscription document's test plan, by its categories and
 * with its counts, and its ten test cases.  Where that document gives examples, they are here to
 * the letter.  One list: the matcher is asked in tests/unit, real subscriptions in
 * tests/conformance.
 */
#ifndef HW_TESTS_PATTERNS_H
#define HW_TESTS_PATTERNS_H

#include <stddef.h>
#include <string.h>

#define PATTERNS_COUNT(a) (sizeof(a) / sizeof(a)[0])

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

typedef struct pattern_category {
    const pattern_case *cases;
    size_t n;
    size_t planned; /* the document's count */
} pattern_category;

static const pattern_category pattern_categories[] = {
    {trailing, PATTERNS_COUNT(trailing), 12},
    {leading, PATTERNS_COUNT(leading), 12},
    {middle, PATTERNS_COUNT(middle), 12},
    {multiple, PATTERNS_COUNT(multiple), 15},
    {deep, PATTERNS_COUNT(deep), 10},
    {collision, PATTERNS_COUNT(collision), 10},
    {numeric, PATTERNS_COUNT(numeric), 8},
    {underscore, PATTERNS_COUNT(underscore), 8},
    {non_matching, PATTERNS_COUNT(non_matching), 13},
    {rest, PATTERNS_COUNT(rest), 6},
};

/* Test cases 1 to 10 of the document: how many of the appended events arrive. */
typedef struct pattern_story {
    int number;          /* of the document */
    const char *pattern; /* NULL: all */
    const char *appended;
    unsigned received;
} pattern_story;

static const pattern_story pattern_stories[] = {
    {1, "order.created", "order.created order.shipped payment.received", 1},
    {2, NULL, "order.created order.shipped payment.received", 3},
    {3, "order.created", "order.created order.shipped payment.received", 1},
    {3, "payment.received", "order.created order.shipped payment.received", 1},
    {4, "my.channel", "my.channel my_channel", 1},
    {4, "my_channel", "my.channel my_channel", 1},
    {5, "test.event", "test.event", 1},
    {6, "order.*", "order.created order.shipped payment.received", 2},
    {7, "*.created", "order.created payment.created order.shipped", 2},
    {8, "order.*.completed", "order.payment.completed order.shipping.completed order.created", 2},
    {9, "order.*", "order.created orders.created order", 1},
    {10, "*.order.*", "foo.order.bar abc.order.xyz order.created", 2},
};

#define PATTERN_WORD_MAX 256

/* Cuts the next word off a list of them; NULL at its end. */
static inline const char *pattern_word(const char **list, char word[PATTERN_WORD_MAX])
{
    size_t len;

    *list += strspn(*list, " ");
    len = strcspn(*list, " ");
    if (len == 0 || len >= PATTERN_WORD_MAX)
        return NULL;
    memcpy(word, *list, len);
    word[len] = '\0';
    *list += len;
    return word;
}

/* How many segments, and the nth of them. */
static inline size_t pattern_segment(const char *text, size_t n, const char **ret, size_t *ret_len)
{
    size_t count = 1;

    *ret = "";
    *ret_len = 0;
    for (const char *p = text;; p += strcspn(p, ".") + 1) {
        if (count - 1 == n) {
            *ret = p;
            *ret_len = strcspn(p, ".");
        }
        if (p[strcspn(p, ".")] == '\0')
            return count;
        count++;
    }
}

/* What the rule says, word by word and without any cleverness: both are segments by number. */
static inline int pattern_means(const char *pattern, const char *type)
{
    const char *p = NULL;
    const char *t = NULL;
    size_t p_len = 0;
    size_t t_len = 0;
    size_t patterns;
    size_t types;

    if (!pattern)
        return 1;
    patterns = pattern_segment(pattern, 0, &p, &p_len);
    types = pattern_segment(type, 0, &t, &t_len);
    for (size_t i = 0; i < patterns; i++) {
        (void)pattern_segment(pattern, i, &p, &p_len);
        if (p_len == 1 && *p == '>' && i + 1 == patterns)
            return types > i;
        if (i >= types)
            return 0;
        (void)pattern_segment(type, i, &t, &t_len);
        if (!(p_len == 1 && *p == '*') && (p_len != t_len || memcmp(p, t, p_len) != 0))
            return 0;
    }
    return patterns == types;
}

#endif
