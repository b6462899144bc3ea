/* test_mem.c - allocation through the caller's hook. */
#include <malloc.h>

#include "unit.h"

static void the_hook_gets_every_allocation_and_its_context(void **state)
{
    unit_allocator a;
    void *one;
    char *two;

    (void)state;
    unit_allocator_start(&a, 0);
    one = hw_alloc(10);
    two = hw_strdup("text");
    assert_non_null(one);
    assert_string_equal(two, "text");
    assert_i64_equal(a.asked, 2);
    assert_i64_equal(a.alive, 2);
    one = hw_realloc(one, 100);
    assert_i64_equal(a.asked, 3);
    assert_i64_equal(a.alive, 2);
    hw_free(one);
    hw_free(two);
    hw_free(NULL);
    unit_allocator_stop(&a);
}

static void an_incomplete_hook_is_misuse_and_changes_nothing(void **state)
{
    howdah_allocator hooks = {sizeof hooks, unit_alloc, unit_realloc, NULL, NULL};
    void *block;

    (void)state;
    assert_int_equal(hw_mem_set_allocator(&hooks), HOWDAH_MISUSE);
    hooks.free = unit_free;
    hooks.size = sizeof hooks - 1;
    assert_int_equal(hw_mem_set_allocator(&hooks), HOWDAH_MISUSE);
    hooks.size = sizeof hooks + 8;
    assert_int_equal(hw_mem_set_allocator(&hooks), HOWDAH_MISUSE);
    block = hw_alloc(1);
    assert_non_null(block);
    hw_free(block);
}

static void a_product_that_overflows_is_no_memory(void **state)
{
    (void)state;
    assert_null(hw_calloc(SIZE_MAX / 2, 3));
    assert_null(hw_strndup("x", SIZE_MAX));
}

static void zero_bytes_are_an_allocation_too(void **state)
{
    void *a = hw_alloc(0);
    void *b = hw_calloc(0, 8);
    void *c = hw_realloc(NULL, 0);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    c = hw_realloc(c, 0);
    assert_non_null(c);
    hw_free(a);
    hw_free(b);
    hw_free(c);
}

static void calloc_is_zeroed_and_strndup_is_terminated(void **state)
{
    static const char zeros[64];
    char *block = hw_calloc(8, 8);
    char *text = hw_strndup("abcdef", 3);

    (void)state;
    assert_memory_equal(block, zeros, 64);
    assert_string_equal(text, "abc");
    hw_free(block);
    hw_free(text);
}

/* Freed memory stays in the heap, so that the next page does not have to fetch it again. */
static void a_tuned_allocator_keeps_what_is_freed(void **state)
{
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct mallinfo2 before;
    struct mallinfo2 after;
    char *block;

    howdah_malloc_tune();
    block = malloc(16 * 1024 * 1024);
    assert_non_null(block);
    before = mallinfo2();
    free(block);
    after = mallinfo2();
    assert_int_equal(before.hblks, 0); /* not by mmap() */
    assert_int_equal(after.arena, before.arena);
#endif
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hook_gets_every_allocation_and_its_context),
        cmocka_unit_test(an_incomplete_hook_is_misuse_and_changes_nothing),
        cmocka_unit_test(a_product_that_overflows_is_no_memory),
        cmocka_unit_test(zero_bytes_are_an_allocation_too),
        cmocka_unit_test(calloc_is_zeroed_and_strndup_is_terminated),
        cmocka_unit_test(a_tuned_allocator_keeps_what_is_freed),
    };

    return cmocka_run_group_tests_name("mem", tests, NULL, NULL);
}
