/* test_buf.c - a byte buffer that grows up to a maximum. */
#include "unit.h"

#include "base/buf.h"

static void an_empty_buffer_reads_as_the_empty_text_and_owns_nothing(void **state)
{
    hw_buf b = HW_BUF_INIT(10);

    (void)state;
    assert_null(b.data);
    assert_string_equal(hw_buf_str(&b), "");
    assert_int_equal(hw_buf_check(&b, NULL), HOWDAH_OK);
    hw_buf_done(&b);
}

static void content_is_terminated_after_every_write(void **state)
{
    hw_buf b = HW_BUF_INIT(SIZE_MAX);
    char expected[400] = "";

    (void)state;
    for (size_t i = 0; i < 100; i++) {
        hw_buf_puts(&b, "ab");
        hw_buf_putc(&b, 'c');
        strcat(expected, "abc");
        assert_i64_equal((int64_t)b.len, (int64_t)(3 * (i + 1)));
        assert_string_equal(hw_buf_str(&b), expected);
    }
    hw_buf_done(&b);
}

static void bytes_may_hold_a_nul(void **state)
{
    hw_buf b = HW_BUF_INIT(10);

    (void)state;
    hw_buf_put(&b, "a\0b", 3);
    assert_i64_equal((int64_t)b.len, 3);
    assert_memory_equal(b.data, "a\0b", 4);
    hw_buf_put(&b, NULL, 0);
    assert_i64_equal((int64_t)b.len, 3);
    hw_buf_done(&b);
}

static void the_maximum_can_be_reached_but_not_passed(void **state)
{
    hw_buf b = HW_BUF_INIT(5);
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    hw_buf_puts(&b, "12345");
    assert_int_equal(hw_buf_check(&b, NULL), HOWDAH_OK);
    assert_i64_equal((int64_t)b.room, 6);
    hw_buf_putc(&b, '6');
    hw_buf_puts(&b, "");
    assert_int_equal(hw_buf_check(&b, &err), HOWDAH_LIMIT);
    assert_string_equal(err.message, "buffer would pass 5 bytes");
    assert_string_equal(hw_buf_str(&b), "12345");
    assert_null(hw_buf_take(&b));
    hw_buf_clear(&b);
    assert_int_equal(hw_buf_check(&b, NULL), HOWDAH_OK);
    assert_string_equal(hw_buf_str(&b), "");
    hw_buf_puts(&b, "abc");
    assert_string_equal(hw_buf_str(&b), "abc");
    hw_buf_done(&b);
}

static void a_huge_reservation_is_refused_without_overflow(void **state)
{
    hw_buf b = HW_BUF_INIT(SIZE_MAX);

    (void)state;
    hw_buf_putc(&b, 'x');
    assert_false(hw_buf_reserve(&b, SIZE_MAX - 1));
    assert_int_equal(b.broken, HOWDAH_LIMIT);
    hw_buf_done(&b);
}

static void printf_grows_and_keeps_the_limit(void **state)
{
    hw_buf b = HW_BUF_INIT(200);
    char long_text[151];

    (void)state;
    memset(long_text, 'x', 150);
    long_text[150] = '\0';
    hw_buf_printf(&b, "%d-%s", 42, "ab");
    assert_string_equal(hw_buf_str(&b), "42-ab");
    hw_buf_printf(&b, "%s", long_text);
    assert_i64_equal((int64_t)b.len, 155);
    assert_string_equal(hw_buf_str(&b) + 5, long_text);
    hw_buf_printf(&b, "%s", long_text);
    assert_int_equal(b.broken, HOWDAH_LIMIT);
    assert_i64_equal((int64_t)b.len, 155);
    assert_i64_equal((int64_t)strlen(hw_buf_str(&b)), 155);
    hw_buf_done(&b);
}

static void integers_are_big_endian(void **state)
{
    hw_buf b = HW_BUF_INIT(100);

    (void)state;
    hw_buf_put_u16(&b, 0x0102);
    hw_buf_put_u32(&b, 0x03040506);
    hw_buf_put_u64(&b, UINT64_C(0x0708090A0B0C0D0E));
    assert_i64_equal((int64_t)b.len, 14);
    assert_memory_equal(b.data, "\1\2\3\4\5\6\7\x8\x9\xA\xB\xC\xD\xE", 14);
    hw_buf_done(&b);
}

static void take_hands_the_text_over_and_leaves_an_empty_buffer(void **state)
{
    hw_buf b = HW_BUF_INIT(100);
    char *text;

    (void)state;
    hw_buf_puts(&b, "mine");
    text = hw_buf_take(&b);
    assert_string_equal(text, "mine");
    assert_null(b.data);
    assert_string_equal(hw_buf_str(&b), "");
    hw_free(text);
    text = hw_buf_take(&b);
    assert_non_null(text);
    assert_string_equal(text, "");
    hw_free(text);
    hw_buf_done(&b);
}

/* The Nth allocation fails, for every N until the body succeeds. */
static void a_buffer_that_gets_no_memory_says_so_and_leaks_nothing(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        hw_buf b = HW_BUF_INIT(100000);
        howdah_error err = HOWDAH_ERROR_INIT;
        char *text;
        int s;

        unit_allocator_start(&a, ++n);
        for (int i = 0; i < 1000; i++)
            hw_buf_printf(&b, "line %d;", i);
        s = hw_buf_check(&b, &err);
        assert_int_equal(s, a.failed ? HOWDAH_NO_MEMORY : HOWDAH_OK);
        assert_int_equal(err.flags, a.failed ? HOWDAH_RETRYABLE : 0);
        text = hw_buf_take(&b);
        assert_int_equal(text == NULL, a.failed);
        hw_free(text);
        hw_buf_done(&b);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_true(n > 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_reads_as_the_empty_text_and_owns_nothing),
        cmocka_unit_test(content_is_terminated_after_every_write),
        cmocka_unit_test(bytes_may_hold_a_nul),
        cmocka_unit_test(the_maximum_can_be_reached_but_not_passed),
        cmocka_unit_test(a_huge_reservation_is_refused_without_overflow),
        cmocka_unit_test(printf_grows_and_keeps_the_limit),
        cmocka_unit_test(integers_are_big_endian),
        cmocka_unit_test(take_hands_the_text_over_and_leaves_an_empty_buffer),
        cmocka_unit_test(a_buffer_that_gets_no_memory_says_so_and_leaks_nothing),
    };

    return cmocka_run_group_tests_name("buf", tests, NULL, NULL);
}
