/*
 * test_times_subs.c - subscriptions among corrections: the ten cases of the subscription model with
 * corrections in between, originals only, one stream.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../patterns.h"
#include "conformance.h"

/* What a handler saw, as "type/revision type/revision". */
typedef struct seen {
    char text[4096];
    size_t len;
} seen;

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    seen *s = ctx;
    char family[HOWDAH_UUID_SIZE];
    char id[HOWDAH_UUID_SIZE];
    char corrects[HOWDAH_UUID_SIZE];

    (void)delivery;
    s->len +=
        (size_t)snprintf(s->text + s->len, sizeof s->text - s->len, "%s%s/%d", s->len ? " " : "",
                         howdah_event_type(event), howdah_event_revision(event));
    howdah_event_id(event, id);
    howdah_event_family(event, family);
    assert_int_equal(howdah_event_corrects(event, corrects), howdah_event_revision(event) > 1);
    assert_int_equal(strcmp(family, id) == 0, howdah_event_revision(event) == 1);
    if (howdah_event_revision(event) == 2)
        assert_string_equal(corrects, family);
    assert_int_equal(howdah_event_reason(event) != NULL, howdah_event_revision(event) > 1);
    return HOWDAH_HANDLED;
}

static howdah_subscription *subscribe(howdah_bus *bus, const char *id, const char *pattern,
                                      const char *stream, bool originals_only, seen *s)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = id;
    o.pattern = pattern;
    o.stream = stream;
    o.originals_only = originals_only;
    o.handler = on_event;
    o.ctx = s;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    return sub;
}

static void catch_up(howdah_subscription *sub)
{
    assert_int_equal(howdah_subscription_wait(sub, 10000, &cf_error), HOWDAH_OK);
}

static howdah_position correct(howdah_bus *bus, const char *id)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;
    howdah_position p = HOWDAH_POSITION_INIT;

    c.event_id = id;
    c.reason = "a typing error";
    c.data = "{\"corrected\":true}";
    c.data_len = strlen(c.data);
    cf_ok(howdah_correct(bus, &c, &p, &cf_error));
    return p;
}

/* Appends the types of a case; each one is corrected as soon as the next is appended. */
static void append_and_correct(howdah_bus *bus, const char *types)
{
    char word[PATTERN_WORD_MAX];
    howdah_position before = HOWDAH_POSITION_INIT;

    while (pattern_word(&types, word)) {
        howdah_position p = cf_append(bus, "s", word, NULL);

        if (before.global_sequence > 0)
            (void)correct(bus, before.id);
        before = p;
    }
    (void)correct(bus, before.id);
}

/* The same case twice: caught up behind the events, and live while they come. */
static void run_case(cf *c, const char *const *patterns, size_t n, const char *types,
                     const char *const *all, const char *const *originals)
{
    howdah_bus *bus = cf_open(c);
    seen *s = calloc(4 * n, sizeof *s);
    howdah_subscription *sub[8];
    char id[32];

    assert_non_null(s);
    assert_true(2 * n <= 8);
    for (size_t i = 0; i < 2 * n; i++) { /* live */
        (void)snprintf(id, sizeof id, "live:%zu", i);
        sub[i] = subscribe(bus, id, patterns[i % n], NULL, i >= n, &s[i]);
        catch_up(sub[i]);
    }
    append_and_correct(c->bus, types);
    for (size_t i = 0; i < 2 * n; i++) {
        catch_up(sub[i]);
        assert_string_equal(s[i].text, i < n ? all[i] : originals[i % n]);
    }
    for (size_t i = 0; i < 2 * n; i++) { /* behind */
        howdah_subscription *late;

        (void)snprintf(id, sizeof id, "late:%zu", i);
        late = subscribe(bus, id, patterns[i % n], NULL, i >= n, &s[2 * n + i]);
        catch_up(late);
        assert_string_equal(s[2 * n + i].text, i < n ? all[i] : originals[i % n]);
    }
    howdah_close(bus);
    free(s);
}

#define ORDERS "order.created order.shipped payment.received"

static void one_type_comes_with_its_corrections_and_nothing_else(void **state)
{
    run_case(*state, (const char *const[]){"order.created"}, 1, ORDERS,
             (const char *const[]){"order.created/1 order.created/2"},
             (const char *const[]){"order.created/1"});
}

static void all_events_come_with_their_corrections_in_the_order_of_the_log(void **state)
{
    run_case(*state, (const char *const[]){NULL}, 1, ORDERS,
             (const char *const[]){"order.created/1 order.shipped/1 order.created/2"
                                   " payment.received/1 order.shipped/2 payment.received/2"},
             (const char *const[]){"order.created/1 order.shipped/1 payment.received/1"});
}

static void several_subscriptions_of_types_receive_only_theirs(void **state)
{
    run_case(*state, (const char *const[]){"order.created", "payment.received"}, 2, ORDERS,
             (const char *const[]){"order.created/1 order.created/2",
                                   "payment.received/1 payment.received/2"},
             (const char *const[]){"order.created/1", "payment.received/1"});
}

static void a_dot_and_an_underscore_are_told_apart(void **state)
{
    run_case(*state, (const char *const[]){"my.channel", "my_channel"}, 2, "my.channel my_channel",
             (const char *const[]){"my.channel/1 my.channel/2", "my_channel/1 my_channel/2"},
             (const char *const[]){"my.channel/1", "my_channel/1"});
}

static void each_revision_comes_once(void **state)
{
    run_case(*state, (const char *const[]){"test.event"}, 1, "test.event",
             (const char *const[]){"test.event/1 test.event/2"},
             (const char *const[]){"test.event/1"});
}

static void a_trailing_wildcard_sees_corrections(void **state)
{
    run_case(*state, (const char *const[]){"order.*"}, 1, ORDERS,
             (const char *const[]){"order.created/1 order.shipped/1 order.created/2"
                                   " order.shipped/2"},
             (const char *const[]){"order.created/1 order.shipped/1"});
}

static void a_leading_wildcard_sees_corrections(void **state)
{
    run_case(*state, (const char *const[]){"*.created"}, 1,
             "order.created payment.created order.shipped",
             (const char *const[]){"order.created/1 payment.created/1 order.created/2"
                                   " payment.created/2"},
             (const char *const[]){"order.created/1 payment.created/1"});
}

static void a_wildcard_in_the_middle_sees_corrections(void **state)
{
    run_case(*state, (const char *const[]){"order.*.completed"}, 1,
             "order.payment.completed order.shipping.completed order.created",
             (const char *const[]){"order.payment.completed/1 order.shipping.completed/1"
                                   " order.payment.completed/2 order.shipping.completed/2"},
             (const char *const[]){"order.payment.completed/1 order.shipping.completed/1"});
}

static void a_wildcard_matches_whole_segments_of_corrections(void **state)
{
    run_case(*state, (const char *const[]){"order.*"}, 1, "order.created orders.created order",
             (const char *const[]){"order.created/1 order.created/2"},
             (const char *const[]){"order.created/1"});
}

static void several_wildcards_see_corrections(void **state)
{
    run_case(*state, (const char *const[]){"*.order.*"}, 1,
             "foo.order.bar abc.order.xyz order.created",
             (const char *const[]){"foo.order.bar/1 abc.order.xyz/1 foo.order.bar/2"
                                   " abc.order.xyz/2"},
             (const char *const[]){"foo.order.bar/1 abc.order.xyz/1"});
}

/* ------------------------------------------------------------- one stream */

static void a_stream_of_its_own_stands_alone_or_with_a_pattern(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    seen s[6];
    howdah_subscription *sub[6];
    howdah_position p[4] = {HOWDAH_POSITION_INIT};

    memset(s, 0, sizeof s);
    sub[0] = subscribe(bus, "live", NULL, "a", false, &s[0]);
    sub[1] = subscribe(bus, "live:x", "x.*", "a", false, &s[1]);
    sub[2] = subscribe(bus, "live:x:originals", "x.*", "a", true, &s[2]);
    catch_up(sub[0]);
    p[0] = cf_append(c->bus, "a", "x.one", NULL);
    p[1] = cf_append(c->bus, "b", "x.two", NULL);
    p[2] = cf_append(c->bus, "a", "y.three", NULL);
    p[3] = cf_append(c->bus, "a", "x.four", NULL);
    for (int i = 0; i < 4; i++)
        (void)correct(c->bus, p[i].id);
    sub[3] = subscribe(bus, "late", NULL, "a", false, &s[3]);
    sub[4] = subscribe(bus, "late:x", "x.*", "a", false, &s[4]);
    sub[5] = subscribe(bus, "late:exact", "x.one", "a", false, &s[5]);
    for (int i = 0; i < 6; i++)
        catch_up(sub[i]);
    for (int i = 0; i < 6; i += 3)
        assert_string_equal(s[i].text, "x.one/1 y.three/1 x.four/1 x.one/2 y.three/2 x.four/2");
    for (int i = 1; i < 6; i += 3)
        assert_string_equal(s[i].text, "x.one/1 x.four/1 x.one/2 x.four/2");
    assert_string_equal(s[2].text, "x.one/1 x.four/1");
    assert_string_equal(s[5].text, "x.one/1 x.one/2");
    howdah_close(bus);
}

static int keep_info(void *ctx, const howdah_subscription_info *info)
{
    (void)snprintf(ctx, 128, "%s %s %d", info->pattern ? info->pattern : "-",
                   info->stream ? info->stream : "-", info->originals_only);
    return 0;
}

static void the_filter_is_stored_and_renewed(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    seen s = {.len = 0};
    char text[128] = "";

    howdah_subscription_info_get(subscribe(bus, "p", "x.*", "a", true, &s), &info);
    assert_string_equal(info.stream, "a");
    assert_true(info.originals_only);
    cf_ok(howdah_subscriptions_walk(c->bus, "p", keep_info, text, &cf_error));
    assert_string_equal(text, "x.* a 1");
    howdah_close(bus);
    bus = cf_open(c);
    (void)subscribe(bus, "p", NULL, NULL, false, &s);
    cf_ok(howdah_subscriptions_walk(c->bus, "p", keep_info, text, &cf_error));
    assert_string_equal(text, "- - 0");
    howdah_close(bus);
}

static void a_stream_with_a_bad_name_is_refused(void **state)
{
    cf *c = *state;
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = "p";
    o.handler = on_event;
    o.stream = "";
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "stream");
}

/* A page holds a hundred events; those that fail are asked for again, below what was read. */
typedef struct counting {
    int64_t n;
    int64_t last_version;
    int64_t wrong; /* out of order */
    int64_t fail;  /* every so many fail once */
    int64_t failed;
} counting;

static int count_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    counting *k = ctx;
    int64_t version = howdah_event_version(event);

    if (version % k->fail == 0 && howdah_delivery_attempt(delivery) == 1) {
        k->failed++;
        return howdah_delivery_fail(delivery, "not yet");
    }
    k->wrong += version != k->last_version + 1 || strcmp(howdah_event_stream(event), "long") != 0;
    k->last_version = version;
    k->n++;
    return HOWDAH_HANDLED;
}

static void a_long_stream_among_others_is_caught_up_in_order_across_pages_and_failures(void **state)
{
    enum { EACH = 700 };
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_event *events[2 * EACH];
    counting k = {.fail = 97};

    for (int i = 0; i < 2 * EACH; i++)
        events[i] = cf_event(i % 2 ? "other" : "long", "t", "{}");
    cf_ok(howdah_append_batch(c->bus, (const howdah_event *const *)events, 2 * EACH, NULL, NULL,
                              &cf_error));
    for (int i = 0; i < 2 * EACH; i++)
        howdah_event_free(events[i]);
    o.subscriber_id = "p";
    o.stream = "long";
    o.handler = count_event;
    o.ctx = &k;
    o.retry_delay_ms = 1;
    o.max_retry_delay_ms = 5;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    assert_int_equal(howdah_subscription_wait(sub, 30000, &cf_error), HOWDAH_OK);
    assert_int_equal(k.n, EACH);
    assert_int_equal(k.wrong, 0);
    assert_int_equal(k.failed, EACH / 97);
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(one_type_comes_with_its_corrections_and_nothing_else),
    CF_SUB_TEST(all_events_come_with_their_corrections_in_the_order_of_the_log),
    CF_SUB_TEST(several_subscriptions_of_types_receive_only_theirs),
    CF_SUB_TEST(a_dot_and_an_underscore_are_told_apart),
    CF_SUB_TEST(each_revision_comes_once),
    CF_SUB_TEST(a_trailing_wildcard_sees_corrections),
    CF_SUB_TEST(a_leading_wildcard_sees_corrections),
    CF_SUB_TEST(a_wildcard_in_the_middle_sees_corrections),
    CF_SUB_TEST(a_wildcard_matches_whole_segments_of_corrections),
    CF_SUB_TEST(several_wildcards_see_corrections),
    CF_SUB_TEST(a_stream_of_its_own_stands_alone_or_with_a_pattern),
    CF_SUB_TEST(the_filter_is_stored_and_renewed),
    CF_SUB_TEST(a_stream_with_a_bad_name_is_refused),
    CF_SUB_TEST(a_long_stream_among_others_is_caught_up_in_order_across_pages_and_failures),
};

cf_group cf_times_subs_tests(void)
{
    return CF_GROUP(tests);
}
