/*
 * test_patterns.c - the patterns of tests/patterns.h as real subscriptions: one log with all types,
 * every pattern a subscription, all of them on one bus.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../patterns.h"
#include "conformance.h"
#include "engine/rules.h"

#define TYPES_MAX 600
#define SUBS_MAX 128

typedef struct log_types {
    char names[TYPES_MAX][PATTERN_WORD_MAX];
    size_t n;
} log_types;

/* Which events a subscription saw, by number; each one's type and payload were those appended. */
typedef struct catcher {
    const char *pattern;
    const log_types *types;
    unsigned char times[2 * TYPES_MAX + 1];
    int64_t last;
    size_t n;
    size_t out_of_order;
    size_t altered;
} catcher;

static void payload_of(const char *type, char text[PATTERN_WORD_MAX + 16])
{
    (void)snprintf(text, PATTERN_WORD_MAX + 16, "{\"type\":\"%s\"}", type);
}

static int catch_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    catcher *c = ctx;
    int64_t sequence = howdah_event_global_sequence(event);
    const char *type = c->types->names[(size_t)(sequence - 1) % c->types->n];
    char payload[PATTERN_WORD_MAX + 16];
    size_t len = 0;
    const void *data = howdah_event_data(event, &len);

    (void)delivery;
    payload_of(type, payload);
    assert_in_range(sequence, 1, 2 * c->types->n);
    c->times[sequence]++;
    c->out_of_order += sequence <= c->last;
    c->last = sequence;
    c->altered += strcmp(howdah_event_type(event), type) != 0 || len != strlen(payload) ||
                  memcmp(data, payload, len) != 0;
    c->n++;
    return HOWDAH_HANDLED;
}

static void add_types(log_types *types, const char *list)
{
    char word[PATTERN_WORD_MAX];

    while (pattern_word(&list, word)) {
        size_t i = 0;

        if (hw_rule_type(hw_str_of(word), NULL) != HOWDAH_OK)
            continue; /* "order.created." is there to be missed by the matcher */
        while (i < types->n && strcmp(types->names[i], word) != 0)
            i++;
        assert_true(i < TYPES_MAX);
        if (i == types->n)
            memcpy(types->names[types->n++], word, sizeof word);
    }
}

static log_types *all_types(void)
{
    log_types *types = calloc(1, sizeof *types);

    assert_non_null(types);
    for (size_t c = 0; c < PATTERNS_COUNT(pattern_categories); c++) {
        for (size_t i = 0; i < pattern_categories[c].n; i++) {
            add_types(types, pattern_categories[c].cases[i].matches);
            add_types(types, pattern_categories[c].cases[i].misses);
        }
    }
    for (size_t i = 0; i < PATTERNS_COUNT(pattern_stories); i++)
        add_types(types, pattern_stories[i].appended);
    return types;
}

/* All types once, in one batch. */
static void append_types(howdah_bus *bus, const log_types *types)
{
    howdah_event **events = calloc(types->n, sizeof *events);

    assert_non_null(events);
    for (size_t i = 0; i < types->n; i++) {
        char payload[PATTERN_WORD_MAX + 16];

        payload_of(types->names[i], payload);
        events[i] = cf_event("s", types->names[i], payload);
    }
    cf_ok(howdah_append_batch(bus, (const howdah_event *const *)events, types->n, NULL, NULL,
                              &cf_error));
    for (size_t i = 0; i < types->n; i++)
        howdah_event_free(events[i]);
    free(events);
}

static howdah_subscription *subscribe(howdah_bus *bus, catcher *c, size_t number)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    char id[32];

    (void)snprintf(id, sizeof id, "pattern:%zu", number);
    o.subscriber_id = id;
    o.pattern = c->pattern;
    o.handler = catch_event;
    o.ctx = c;
    o.checkpoint = HOWDAH_CHECKPOINT_BATCHED;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    return sub;
}

static void catch_up(howdah_subscription *const *subs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(howdah_subscription_wait(subs[i], 60000, &cf_error), HOWDAH_OK);
}

/* Every event up to the last one: caught once if its type is meant, never if not. */
static void check_catch(const catcher *c, size_t events)
{
    size_t expected = 0;

    for (size_t i = 1; i <= events; i++) {
        const char *type = c->types->names[(i - 1) % c->types->n];
        int meant = pattern_means(c->pattern, type);

        if (c->times[i] != meant)
            fail_msg("%s got %s %d times", c->pattern ? c->pattern : "(all)", type, c->times[i]);
        expected += (size_t)meant;
    }
    assert_int_equal(c->n, expected);
    assert_int_equal(c->out_of_order, 0);
    assert_int_equal(c->altered, 0);
}

/* The table's own words: "matches" arrived, "misses" did not. */
static void check_words(const catcher *c, const char *list, int expected)
{
    char word[PATTERN_WORD_MAX];

    while (pattern_word(&list, word)) {
        for (size_t i = 0; i < c->types->n; i++) {
            if (strcmp(c->types->names[i], word) == 0 && c->times[i + 1] != expected)
                fail_msg("%s got %s %d times, not %d", c->pattern, word, c->times[i + 1], expected);
        }
    }
}

static void a_hundred_patterns_get_what_they_mean_behind_and_live(void **state)
{
    cf *c = *state;
    log_types *types = all_types();
    catcher *catchers = calloc(SUBS_MAX, sizeof *catchers);
    howdah_subscription *subs[SUBS_MAX] = {NULL};
    howdah_bus *bus = cf_open(c);
    size_t n = 0;

    assert_non_null(catchers);
    append_types(c->bus, types);
    catchers[n++] = (catcher){.types = types}; /* all */
    for (size_t k = 0; k < PATTERNS_COUNT(pattern_categories); k++)
        for (size_t i = 0; i < pattern_categories[k].n; i++)
            catchers[n++] =
                (catcher){.pattern = pattern_categories[k].cases[i].pattern, .types = types};
    assert_int_equal(n, 107);
    for (size_t i = 0; i < n; i++)
        subs[i] = subscribe(bus, &catchers[i], i);
    catch_up(subs, n);
    for (size_t i = 0; i < n; i++)
        check_catch(&catchers[i], types->n);
    assert_int_equal(catchers[0].n, types->n);
    append_types(c->bus, types); /* live */
    catch_up(subs, n);
    for (size_t i = 0; i < n; i++)
        check_catch(&catchers[i], 2 * types->n);
    for (size_t k = 0, i = 1; k < PATTERNS_COUNT(pattern_categories); k++) {
        for (size_t j = 0; j < pattern_categories[k].n; j++, i++) {
            check_words(&catchers[i], pattern_categories[k].cases[j].matches, 1);
            check_words(&catchers[i], pattern_categories[k].cases[j].misses, 0);
        }
    }
    howdah_close(bus);
    free(catchers);
    free(types);
}

/* Payloads are read for those who want them: few patterns, live, and one that comes later. */
static void payloads_are_there_for_whoever_is_meant(void **state)
{
    static const char *const patterns[] = {"order.*", "payment.received", "*.item.>"};
    cf *c = *state;
    log_types *types = all_types();
    catcher *catchers = calloc(4, sizeof *catchers);
    howdah_subscription *subs[4];
    howdah_bus *bus = cf_open(c);

    assert_non_null(catchers);
    for (size_t i = 0; i < 3; i++) {
        catchers[i] = (catcher){.pattern = patterns[i], .types = types};
        subs[i] = subscribe(bus, &catchers[i], i);
    }
    catch_up(subs, 3);
    append_types(c->bus, types);
    catch_up(subs, 3);
    append_types(c->bus, types);
    cf_ok(howdah_service(bus, NULL, &cf_error)); /* the window has rows without payloads now */
    catchers[3] = (catcher){.pattern = "user.>", .types = types};
    subs[3] = subscribe(bus, &catchers[3], 3);
    catch_up(subs, 4);
    for (size_t i = 0; i < 4; i++)
        check_catch(&catchers[i], 2 * types->n);
    howdah_close(bus);
    free(catchers);
    free(types);
}

/* ---- the ten cases, each on an empty log, its subscribers live before anything is appended */

typedef struct counter {
    const char *pattern;
    unsigned n;
    unsigned strangers;
} counter;

static int count_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    counter *c = ctx;

    (void)delivery;
    c->n++;
    c->strangers += !pattern_means(c->pattern, howdah_event_type(event));
    return HOWDAH_HANDLED;
}

static howdah_subscription *count(howdah_bus *bus, counter *c, const char *id)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = id;
    o.pattern = c->pattern;
    o.handler = count_event;
    o.ctx = c;
    o.start = HOWDAH_FROM_END;
    cf_ok(howdah_subscribe(bus, &o, &sub, &cf_error));
    assert_int_equal(howdah_subscription_wait(sub, 60000, &cf_error), HOWDAH_OK);
    return sub;
}

static void run_story(const cf *c, int number)
{
    counter counters[4] = {0};
    howdah_subscription *subs[4];
    const pattern_story *rows[4];
    howdah_bus *bus = cf_open(c);
    const char *list = NULL;
    char word[PATTERN_WORD_MAX];
    size_t n = 0;

    for (size_t i = 0; i < PATTERNS_COUNT(pattern_stories); i++) {
        char id[32];

        if (pattern_stories[i].number != number)
            continue;
        rows[n] = &pattern_stories[i];
        counters[n].pattern = rows[n]->pattern;
        (void)snprintf(id, sizeof id, "story:%d:%zu", number, n);
        subs[n] = count(bus, &counters[n], id);
        list = rows[n++]->appended;
    }
    assert_true(n > 0);
    while (pattern_word(&list, word))
        (void)cf_append(c->bus, "s", word, NULL);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(howdah_subscription_wait(subs[i], 60000, &cf_error), HOWDAH_OK);
        assert_int_equal(counters[i].n, rows[i]->received);
        assert_int_equal(counters[i].strangers, 0);
    }
    cf_ok(howdah_run(bus, 30, &cf_error)); /* nothing comes twice */
    for (size_t i = 0; i < n; i++)
        assert_int_equal(counters[i].n, rows[i]->received);
    howdah_close(bus);
}

static void the_ten_cases_of_the_document_deliver_what_it_says(void **state)
{
    for (int number = 1; number <= 10; number++)
        run_story(*state, number);
}

static const struct CMUnitTest tests[] = {
    CF_SUB_TEST(a_hundred_patterns_get_what_they_mean_behind_and_live),
    CF_SUB_TEST(payloads_are_there_for_whoever_is_meant),
    CF_SUB_TEST(the_ten_cases_of_the_document_deliver_what_it_says),
};

cf_group cf_patterns_tests(void)
{
    return CF_GROUP(tests);
}
