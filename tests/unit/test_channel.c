/* test_channel.c - under which names the bell rings.  That SQL has the same: tests/fault, pg bell.
 */
#include "unit.h"

#include "engine/channel.h"

static const char *name_of(const char *schema, const char *type)
{
    static char name[HW_CHANNEL_SIZE];

    assert_true(hw_channel_name(hw_str_of(schema), hw_str_of(type), name));
    return name;
}

static void a_short_name_says_what_it_is(void **state)
{
    (void)state;
    assert_string_equal(name_of("howdah", NULL), "howdah_events");
    assert_string_equal(name_of("howdah", "order.created"), "howdah_events_order_created");
    assert_string_equal(name_of("a.b", "c.d"), "a.b_events_c_d"); /* only the type's dots */
    assert_string_equal(name_of("h", "a_b"), "h_events_a_b");     /* as "a.b" */
}

static void a_name_over_63_bytes_is_cut_and_hashed(void **state)
{
    char type[256];
    char long_one[HW_CHANNEL_SIZE];

    (void)state;
    memset(type, 'x', sizeof type);
    type[49] = '\0'; /* howdah_events_ has 14 */
    assert_int_equal(strlen(name_of("howdah", type)), 63);
    assert_null(strstr(name_of("howdah", type) + 14, "_"));
    type[49] = 'x';
    type[50] = '\0';
    (void)strcpy(long_one, name_of("howdah", type));
    assert_int_equal(strlen(long_one), 63);
    assert_memory_equal(long_one, "howdah_events_xxxx", 18);
    assert_true(long_one[54] == '_');
    type[49] = 'y';
    assert_string_not_equal(name_of("howdah", type), long_one);
    /* The hash is of the name with its dots: what would share a channel when short does not here.
     */
    type[20] = '.';
    (void)strcpy(long_one, name_of("howdah", type));
    type[20] = '_';
    assert_string_not_equal(name_of("howdah", type), long_one);
    assert_memory_equal(name_of("howdah", type), long_one, 54);
}

static void the_longest_names_fit(void **state)
{
    char schema[49];
    char type[256];
    char control[HW_CHANNEL_SIZE];

    (void)state;
    memset(schema, 's', 48);
    memset(type, 't', 255);
    schema[48] = type[255] = '\0';
    assert_int_equal(strlen(name_of(schema, type)), 63);
    assert_int_equal(strlen(name_of(schema, NULL)), 55);
    hw_channel_control(hw_str_of(schema), control);
    assert_int_equal(strlen(control), 56);
    hw_channel_control(HW_STR_LIT("howdah"), control);
    assert_string_equal(control, "howdah_control");
}

static void bits_are_single_positive_and_the_first_is_for_any_event(void **state)
{
    int64_t all = 0;

    (void)state;
    assert_i64_equal(hw_channel_bit(HW_STR_NULL), 1);
    for (int i = 0; i < 5000; i++) {
        char type[16];
        int64_t bit;

        (void)snprintf(type, sizeof type, "t.%d", i);
        bit = hw_channel_bit(hw_str_of(type));
        assert_true(bit > 1);
        assert_i64_equal(bit & (bit - 1), 0);
        all |= bit;
    }
    assert_i64_equal(all, INT64_MAX - 1);
    /* MD5 of "abc" begins with 0x90. */
    assert_i64_equal(hw_channel_bit(HW_STR_LIT("abc")), INT64_C(1) << (1 + 0x90 % 62));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_name_says_what_it_is),
        cmocka_unit_test(a_name_over_63_bytes_is_cut_and_hashed),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(bits_are_single_positive_and_the_first_is_for_any_event),
    };

    return cmocka_run_group_tests_name("channel", tests, NULL, NULL);
}
