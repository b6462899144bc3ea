/* group_help.h - what the tests of members of groups share. */
#ifndef HW_TESTS_GROUP_HELP_H
#define HW_TESTS_GROUP_HELP_H

#include <stdio.h>
#include <string.h>

#include "conformance.h"

#define NAME "mails"

static inline howdah_member *join_with(howdah_bus *bus, howdah_member_options o)
{
    howdah_member *member = NULL;

    if (!o.subscriber_id)
        o.subscriber_id = NAME;
    cf_ok(howdah_member_new(bus, &o, &member, &cf_error));
    return member;
}

static inline howdah_member_options defaults(void)
{
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;

    o.retry_delay_ms = 0;
    o.lanes = 1; /* so that what comes in one batch is known */
    return o;
}

static inline howdah_member *join(howdah_bus *bus)
{
    return join_with(bus, defaults());
}

/* What comes at once, NULL: nothing. */
static inline howdah_batch *fetch(howdah_member *member)
{
    howdah_batch *batch = NULL;
    int s = howdah_member_fetch(member, 0, &batch, &cf_error);

    cf_ok(s);
    assert_true((s == HOWDAH_OK) == (batch != NULL));
    return batch;
}

/* What comes in the end. */
static inline howdah_batch *await(howdah_member *member)
{
    howdah_batch *batch = NULL;

    cf_ok(howdah_member_fetch(member, CF_PATIENCE_MS, &batch, &cf_error));
    assert_non_null(batch);
    return batch;
}

/* "1 2 3": the numbers of a batch. */
static inline const char *numbers(const howdah_batch *batch)
{
    static char text[1000];
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < howdah_batch_size(batch) && len < sizeof text - 24; i++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%s%lld", i > 0 ? " " : "",
                             (long long)howdah_event_global_sequence(howdah_batch_event(batch, i)));
    return text;
}

#define assert_batch(batch, expected)                                                              \
    do {                                                                                           \
        assert_non_null(batch);                                                                    \
        assert_string_equal(numbers(batch), (expected));                                           \
    } while (0)

static inline void ack(howdah_batch *batch)
{
    cf_ok(howdah_batch_ack(batch, &cf_error));
    howdah_batch_free(batch);
}

static inline void nack(howdah_batch *batch, int64_t sequence, const char *why)
{
    cf_ok(howdah_batch_nack(batch, sequence, why, -1, &cf_error));
}

static inline void expect_nothing(howdah_member *member)
{
    assert_null(fetch(member));
}

static inline void append_n(howdah_bus *bus, const char *stream, int n)
{
    for (int i = 0; i < n; i++)
        (void)cf_append(bus, stream, "t.x", "{}");
}

typedef struct seen_info {
    howdah_subscription_state state;
    int64_t lag;
    int64_t high;
    int64_t contiguous;
    int64_t lag_age_ms;
} seen_info;

static inline int keep_info(void *ctx, const howdah_subscription_info *info)
{
    *(seen_info *)ctx =
        (seen_info){info->state, info->lag, info->high, info->contiguous, info->lag_age_ms};
    return 0;
}

static inline seen_info look(howdah_bus *bus)
{
    seen_info info = {HOWDAH_SUBSCRIPTION_WAITING, -1, -1, -1, -2};

    cf_ok(howdah_subscriptions_walk(bus, NAME, keep_info, &info, &cf_error));
    return info;
}

#endif
