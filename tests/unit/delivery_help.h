/* delivery_help.h - short words for the tests of delivery. */
#ifndef HW_TESTS_UNIT_DELIVERY_HELP_H
#define HW_TESTS_UNIT_DELIVERY_HELP_H

#include "unit.h"

#include "engine/delivery.h"

/* Asks for no retries at all: 0 means the default here. */
#define HELP_NONE UINT32_MAX

/* The documented defaults, where the test does not say otherwise. */
static inline void start(hw_delivery *d, const hw_delivery_config *config)
{
    hw_delivery_config c = *config;

    if (c.max_retries == 0)
        c.max_retries = 3;
    else if (c.max_retries == HELP_NONE && c.fail_closed)
        c.max_retries = 0;
    if (c.retry_delay_ms == 0)
        c.retry_delay_ms = 1000;
    if (c.max_retry_delay_ms == 0)
        c.max_retry_delay_ms = 60000;
    if (c.max_delay_ms == 0)
        c.max_delay_ms = INT64_MAX;
    if (c.batch_size == 0)
        c.batch_size = INT64_MAX;
    hw_delivery_init(d, &c);
}

static inline hw_offer offer(hw_delivery *d, int64_t sequence, const char *stream)
{
    hw_offer what = HW_OFFER_WAIT;

    assert_int_equal(hw_delivery_offer(d, sequence, hw_str_of(stream), true, 0, &what, NULL),
                     HOWDAH_OK);
    return what;
}

/* One that the pattern does not let through. */
static inline hw_offer offer_other(hw_delivery *d, int64_t sequence)
{
    hw_offer what = HW_OFFER_WAIT;

    assert_int_equal(hw_delivery_offer(d, sequence, hw_str_of("other"), false, 0, &what, NULL),
                     HOWDAH_OK);
    return what;
}

static inline hw_offer retry(hw_delivery *d, int64_t sequence)
{
    hw_offer what = HW_OFFER_WAIT;

    assert_int_equal(hw_delivery_retry(d, sequence, &what, NULL), HOWDAH_OK);
    return what;
}

static inline void handled_at(hw_delivery *d, int64_t sequence, int64_t now_ms)
{
    assert_int_equal(hw_delivery_handled(d, sequence, now_ms, NULL), HOWDAH_OK);
}

static inline void handled(hw_delivery *d, int64_t sequence)
{
    handled_at(d, sequence, 0);
}

static inline hw_failed failed(hw_delivery *d, int64_t sequence, const char *stream)
{
    hw_failed what = HW_FAILED_HALT;

    assert_int_equal(hw_delivery_failed(d, sequence, hw_str_of(stream), 0, 0, &what, NULL),
                     HOWDAH_OK);
    return what;
}

static inline void pass(hw_delivery *d, int64_t upto, const hw_hole *holes, size_t holes_n)
{
    assert_int_equal(hw_delivery_pass(d, upto, holes, holes_n, 0, NULL), HOWDAH_OK);
}

static inline void check_ranges(const hw_ranges *set, const hw_range *ranges, size_t n, int line)
{
    if (set->n != n)
        fail_msg("line %d: %zu ranges, should be %zu", line, set->n, n);
    for (size_t i = 0; i < n; i++) {
        if (set->items[i].first != ranges[i].first || set->items[i].last != ranges[i].last)
            fail_msg("line %d: range %zu is %lld..%lld", line, i, (long long)set->items[i].first,
                     (long long)set->items[i].last);
    }
}

static inline void check_outstanding(const hw_delivery *d, int64_t first, int64_t last,
                                     const hw_range *ranges, size_t n, int line)
{
    hw_ranges out = HW_RANGES_INIT;

    assert_int_equal(hw_delivery_outstanding_without(d, first, last, &out, NULL), HOWDAH_OK);
    check_ranges(&out, ranges, n, line);
    hw_ranges_done(&out);
}

static inline void check_wanted(const hw_delivery *d, int64_t to, const hw_hole *holes,
                                size_t holes_n, const hw_range *ranges, size_t n, int line)
{
    hw_ranges out = HW_RANGES_INIT;
    int64_t upto = -1;

    assert_int_equal(hw_delivery_wanted(d, to, holes, holes_n, &out, &upto, NULL), HOWDAH_OK);
    check_ranges(&out, ranges, n, line);
    /* A pass goes as far as was read above high, or only over what is below it. */
    if (n > 0 && ranges[n - 1].last > d->high)
        assert_i64_equal(upto, ranges[n - 1].last);
    else
        assert_true(upto <= d->high && upto <= to);
    hw_ranges_done(&out);
}

static inline void check_due(const hw_delivery *d, int64_t now_ms, const int64_t *numbers, size_t n,
                             int line)
{
    int64_t out[64];
    size_t due_n = hw_delivery_due(d, now_ms, out, COUNT_OF(out));

    if (due_n != n)
        fail_msg("line %d: %zu numbers are due, should be %zu", line, due_n, n);
    for (size_t i = 0; i < n; i++) {
        if (out[i] != numbers[i])
            fail_msg("line %d: number %zu that is due is %lld", line, i, (long long)out[i]);
    }
}

/* The first entry of each list is only there so that a list may be empty. */
#define assert_outstanding_without(d, first, last, ...)                                            \
    do {                                                                                           \
        const hw_range unit_ranges[] = {{0, 0}, __VA_ARGS__};                                      \
        check_outstanding((d), (first), (last), unit_ranges + 1, COUNT_OF(unit_ranges) - 1,        \
                          __LINE__);                                                               \
    } while (0)
#define assert_outstanding(d, ...) assert_outstanding_without((d), 0, 0, __VA_ARGS__)
#define assert_owes_nothing(d) check_outstanding((d), 0, 0, NULL, 0, __LINE__)
#define assert_wanted(d, to, holes, holes_n, ...)                                                  \
    do {                                                                                           \
        const hw_range unit_ranges[] = {__VA_ARGS__};                                              \
        check_wanted((d), (to), (holes), (holes_n), unit_ranges, COUNT_OF(unit_ranges), __LINE__); \
    } while (0)
#define assert_wants_nothing(d, to, holes, holes_n)                                                \
    check_wanted((d), (to), (holes), (holes_n), NULL, 0, __LINE__)
#define assert_due(d, now_ms, ...)                                                                 \
    do {                                                                                           \
        const int64_t unit_numbers[] = {0, ##__VA_ARGS__};                                         \
        check_due((d), (now_ms), unit_numbers + 1, COUNT_OF(unit_numbers) - 1, __LINE__);          \
    } while (0)

#endif
