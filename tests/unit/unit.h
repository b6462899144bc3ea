/* unit.h - what every unit test includes: cmocka with what it needs, and a few checks on top. */
#ifndef HW_TESTS_UNIT_UNIT_H
#define HW_TESTS_UNIT_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <howdah/howdah.h>

#include "base/mem.h"
#include "base/str.h"

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* cmocka compares through an unsigned type; these keep signs, widths and a readable message. */
#define assert_i64_equal(a, b)                                                                     \
    do {                                                                                           \
        int64_t unit_a = (a);                                                                      \
        int64_t unit_b = (b);                                                                      \
        if (unit_a != unit_b)                                                                      \
            fail_msg("%s is %lld, should be %lld", #a, (long long)unit_a, (long long)unit_b);      \
    } while (0)

#define assert_str_is(str, text)                                                                   \
    do {                                                                                           \
        hw_str unit_s = (str);                                                                     \
        assert_non_null(unit_s.s);                                                                 \
        assert_i64_equal((int64_t)unit_s.len, (int64_t)strlen(text));                              \
        assert_memory_equal(unit_s.s, (text), unit_s.len);                                         \
    } while (0)

/*
 * An allocator that fails the nth allocation (and reallocation) and counts what is alive.
 *
 *     unit_allocator a;
 *     for (unsigned n = 1; ; n++) {
 *         unit_allocator_start(&a, n);
 *         ... the body; it must fail with NO_MEMORY if a.failed, and succeed otherwise ...
 *         unit_allocator_stop(&a);      checks that nothing leaked
 *         if (!a.failed) break;
 *     }
 */
typedef struct unit_allocator {
    unsigned fail_at; /* 0: never */
    unsigned asked;
    bool failed;
    long alive;
} unit_allocator;

static inline bool unit_allocator_refuses(unit_allocator *a)
{
    if (++a->asked != a->fail_at)
        return false;
    a->failed = true;
    return true;
}

static inline void *unit_alloc(void *ctx, size_t bytes)
{
    unit_allocator *a = ctx;
    void *block = unit_allocator_refuses(a) ? NULL : malloc(bytes);

    a->alive += block != NULL;
    return block;
}

static inline void *unit_realloc(void *ctx, void *block, size_t bytes)
{
    return unit_allocator_refuses(ctx) ? NULL : realloc(block, bytes);
}

static inline void unit_free(void *ctx, void *block)
{
    unit_allocator *a = ctx;

    a->alive--;
    free(block);
}

static inline void unit_allocator_start(unit_allocator *a, unsigned fail_at)
{
    const howdah_allocator hooks = {sizeof hooks, unit_alloc, unit_realloc, unit_free, a};

    *a = (unit_allocator){fail_at, 0, false, 0};
    assert_int_equal(hw_mem_set_allocator(&hooks), HOWDAH_OK);
}

static inline void unit_allocator_stop(const unit_allocator *a)
{
    assert_int_equal(hw_mem_set_allocator(NULL), HOWDAH_OK);
    assert_i64_equal(a->alive, 0);
}

#endif
