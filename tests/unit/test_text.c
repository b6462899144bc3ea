/* test_text.c - UTF-8, numbers, base64, nearest word, masked URLs. */
#include "unit.h"

#include <limits.h>

#include "base/text.h"
#include "base/utf8.h"

static void utf8_is_what_postgresql_calls_utf8(void **state)
{
    static const struct {
        const char *text;
        bool valid;
    } rows[] = {
        {"", true},
        {"plain", true},
        {"\x7F", true},
        {"\xC2\x80", true},          /* U+0080 */
        {"\xDF\xBF", true},          /* U+07FF */
        {"\xE0\xA0\x80", true},      /* U+0800 */
        {"\xED\x9F\xBF", true},      /* U+D7FF */
        {"\xEE\x80\x80", true},      /* U+E000 */
        {"\xEF\xBF\xBF", true},      /* U+FFFF */
        {"\xF0\x90\x80\x80", true},  /* U+10000 */
        {"\xF4\x8F\xBF\xBF", true},  /* U+10FFFF */
        {"\x80", false},             /* a continuation alone */
        {"\xC0\x80", false},         /* overlong NUL */
        {"\xC1\xBF", false},         /* overlong */
        {"\xE0\x9F\xBF", false},     /* overlong */
        {"\xF0\x8F\xBF\xBF", false}, /* overlong */
        {"\xED\xA0\x80", false},     /* U+D800 */
        {"\xED\xBF\xBF", false},     /* U+DFFF */
        {"\xF4\x90\x80\x80", false}, /* U+110000 */
        {"\xF5\x80\x80\x80", false},
        {"\xFF", false},
        {"\xC3", false}, /* cut */
        {"\xE2\x82", false},
        {"\xF0\x9F\x98", false},
        {"\xC3(", false},
        {"\xE2\x82(", false},
        {"\xF0\x9F\x98(", false},
    };
    char padded[64];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t len = strlen(rows[i].text);

        /* At every place of the word-wise scan. */
        for (size_t before = 0; before < 20; before++) {
            memset(padded, 'x', sizeof padded);
            memcpy(padded + before, rows[i].text, len);
            if (hw_utf8_valid(padded, before + len) != rows[i].valid)
                fail_msg("row %zu behind %zu bytes", i, before);
        }
    }
    assert_true(hw_utf8_valid("a\0b", 3));
}

/* All sequences of up to three bytes, against the definition by code points. */
static void every_short_sequence_is_judged_by_its_code_point(void **state)
{
    unsigned valid = 0;

    (void)state;
    for (unsigned v = 0; v < 0x1000000; v += v < 0xC00000 ? 0x10000 : 1) {
        const char b[3] = {(char)(v >> 16), (char)(v >> 8), (char)v};

        if ((uint8_t)b[0] >= 0xE0 && hw_utf8_valid(b, 3))
            valid++;
    }
    /* U+0800 to U+FFFF without the surrogates. */
    assert_int_equal(valid, 0x10000 - 0x800 - 0x800);
}

static void control_characters_are_c0_del_and_c1(void **state)
{
    static const struct {
        const char *text;
        bool control;
    } rows[] = {
        {"", false},         {"plain text", false}, {"tab\t", true},         {"\x1F", true},
        {"\x7F", true},      {"a\nb", true},        {"\xC2\x80", true},      {"x\xC2\x9Fx", true},
        {"\xC2\xA0", false}, {"\xC3\x85", false},   {"\xE2\x80\x8F", false}, {"~", false},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(hw_utf8_has_control(rows[i].text, strlen(rows[i].text)), rows[i].control);
    assert_true(hw_utf8_has_control("a\0b", 3));
}

static void a_cut_keeps_characters_whole(void **state)
{
    const char *text = "a\xE2\x82\xAC\xF0\x9F\x98\x80z"; /* 1 + 3 + 4 + 1 bytes */
    static const size_t cuts[] = {0, 1, 1, 1, 4, 4, 4, 4, 8, 9};

    (void)state;
    for (size_t max = 0; max < COUNT_OF(cuts); max++)
        assert_i64_equal((int64_t)hw_utf8_cut(text, 9, max), (int64_t)cuts[max]);
}

static void numbers_are_whole_decimal_and_in_range(void **state)
{
    static const struct {
        const char *text;
        int64_t min;
        int64_t max;
        bool good;
        int64_t value;
    } rows[] = {
        {"0", 0, 10, true, 0},
        {"10", 0, 10, true, 10},
        {"11", 0, 10, false, 0},
        {"-1", 0, 10, false, 0},
        {"-1", -1, 10, true, -1},
        {"-0", 0, 10, true, 0},
        {"007", 0, 10, true, 7},
        {"9223372036854775807", INT64_MIN, INT64_MAX, true, INT64_MAX},
        {"9223372036854775808", INT64_MIN, INT64_MAX, false, 0},
        {"-9223372036854775808", INT64_MIN, INT64_MAX, true, INT64_MIN},
        {"-9223372036854775809", INT64_MIN, INT64_MAX, false, 0},
        {"99999999999999999999999", INT64_MIN, INT64_MAX, false, 0},
        {"", INT64_MIN, INT64_MAX, false, 0},
        {"-", INT64_MIN, INT64_MAX, false, 0},
        {"+1", INT64_MIN, INT64_MAX, false, 0},
        {" 1", INT64_MIN, INT64_MAX, false, 0},
        {"1 ", INT64_MIN, INT64_MAX, false, 0},
        {"--1", INT64_MIN, INT64_MAX, false, 0},
        {"1x", INT64_MIN, INT64_MAX, false, 0},
        {"0x10", INT64_MIN, INT64_MAX, false, 0},
        {"1.0", INT64_MIN, INT64_MAX, false, 0},
        {"1e3", INT64_MIN, INT64_MAX, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t value = 42;
        bool good = hw_parse_i64(rows[i].text, rows[i].min, rows[i].max, &value);

        if (good != rows[i].good || value != (good ? rows[i].value : 42))
            fail_msg("\"%s\" became %lld", rows[i].text, (long long)value);
    }
}

static void sizes_take_binary_units(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes; /* -1: refused */
    } rows[] = {
        {"0", 0},
        {"512", 512},
        {"64KiB", 65536},
        {"1MiB", 1048576},
        {"1GiB", 1073741824},
        {"8589934591GiB", INT64_C(8589934591) << 30},
        {"8589934592GiB", -1},
        {"", -1},
        {"KiB", -1},
        {"64kib", -1},
        {"64KB", -1},
        {"64K", -1},
        {"64 KiB", -1},
        {"-1", -1},
        {"1.5MiB", -1},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t bytes = -1;
        bool good = hw_parse_bytes(rows[i].text, &bytes);

        if (good != (rows[i].bytes >= 0) || bytes != rows[i].bytes)
            fail_msg("\"%s\" became %lld", rows[i].text, (long long)bytes);
    }
}

static void base64_follows_the_test_vectors_of_rfc_4648(void **state)
{
    static const struct {
        const char *plain;
        const char *text;
    } rows[] = {
        {"", ""},
        {"f", "Zg=="},
        {"fo", "Zm8="},
        {"foo", "Zm9v"},
        {"foob", "Zm9vYg=="},
        {"fooba", "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
        {"\xFB\xFF\xBF", "+/+/"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_buf out = HW_BUF_INIT(100);

        hw_base64_put(&out, rows[i].plain, strlen(rows[i].plain));
        assert_string_equal(hw_buf_str(&out), rows[i].text);
        hw_buf_clear(&out);
        assert_true(hw_base64_get(rows[i].text, strlen(rows[i].text), &out));
        assert_string_equal(hw_buf_str(&out), rows[i].plain);
        hw_buf_done(&out);
    }
}

static void base64_brings_every_byte_back(void **state)
{
    uint8_t bytes[256];
    hw_buf text = HW_BUF_INIT(1000);
    hw_buf back = HW_BUF_INIT(1000);

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)i;
    for (size_t len = 0; len <= sizeof bytes; len++) {
        hw_buf_clear(&text);
        hw_buf_clear(&back);
        hw_base64_put(&text, bytes, len);
        assert_i64_equal((int64_t)text.len, (int64_t)((len + 2) / 3 * 4));
        assert_true(hw_base64_get(hw_buf_str(&text), text.len, &back));
        assert_i64_equal((int64_t)back.len, (int64_t)len);
        assert_memory_equal(hw_buf_str(&back), bytes, len);
    }
    hw_buf_done(&text);
    hw_buf_done(&back);
}

static void other_forms_of_base64_are_refused(void **state)
{
    static const char *const rows[] = {
        "Z",     "Zg",   "Zg=",  "Zg===",    "=",    "====", "Z===", "Zm9v\n",
        "Zm 9v", "Zm9-", "Zm9_", "Zg==Zg==", "Zh==", "Zm9=", "Zm=v",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_buf out = HW_BUF_INIT(100);

        if (hw_base64_get(rows[i], strlen(rows[i]), &out))
            fail_msg("%s was accepted", rows[i]);
        hw_buf_done(&out);
    }
}

static void the_distance_of_words_counts_edits(void **state)
{
    char word[80];

    (void)state;
    assert_int_equal(hw_word_distance("", ""), 0);
    assert_int_equal(hw_word_distance("same", "same"), 0);
    assert_int_equal(hw_word_distance("", "abc"), 3);
    assert_int_equal(hw_word_distance("abc", ""), 3);
    assert_int_equal(hw_word_distance("kitten", "sitting"), 3);
    assert_int_equal(hw_word_distance("sitting", "kitten"), 3);
    assert_int_equal(hw_word_distance("read_bach", "read_batch"), 1);
    assert_int_equal(hw_word_distance("schema", "shcema"), 2);
    memset(word, 'w', sizeof word);
    word[63] = '\0';
    assert_int_equal(hw_word_distance(word, "w"), 62);
    word[63] = 'w';
    word[64] = '\0';
    assert_int_equal(hw_word_distance(word, "w"), UINT_MAX);
    assert_int_equal(hw_word_distance("w", word), UINT_MAX);
}

static void passwords_are_masked_wherever_they_stand(void **state)
{
    static const struct {
        const char *url;
        const char *masked;
    } rows[] = {
        {"", ""},
        {"sqlite:orders.db", "sqlite:orders.db"},
        {"sqlite::memory:", "sqlite::memory:"},
        {"sqlite:/srv/a:b/c@d.db", "sqlite:/srv/a:b/c@d.db"},
        {"postgres://host/db", "postgres://host/db"},
        {"postgres://host:5432/db", "postgres://host:5432/db"},
        {"postgres://h1:5432,h2:5433/db", "postgres://h1:5432,h2:5433/db"},
        {"postgres://user@host:5432/db", "postgres://user@host:5432/db"},
        {"postgres://user:secret@host/db", "postgres://user:***@host/db"},
        {"postgresql://user:secret@h1:1,h2:2/db?sslmode=require",
         "postgresql://user:***@h1:1,h2:2/db?sslmode=require"},
        {"postgres://:secret@/db", "postgres://:***@/db"},
        {"postgres://user:@host/db", "postgres://user:@host/db"},
        {"postgres://user:pa:ss@host/db", "postgres://user:***@host/db"},
        {"postgres://user:p@ss@host/db", "postgres://user:***@host/db"},
        {"postgres://user:pa/ss@host/db", "postgres://user:***@host/db"},
        {"postgres://user:p@s/s@host/db", "postgres://user:***@host/db"},
        {"postgres://user:pa?ss@host/db", "postgres://user:***@host/db"},
        {"postgres://user:pa#ss@host/db", "postgres://user:***@host/db"},
        {"postgres://host/db?password=secret", "postgres://host/db?password=***"},
        {"postgres://host/db?user=a&password=secret&sslmode=require",
         "postgres://host/db?user=a&password=***&sslmode=require"},
        {"postgres://host/db?sslpassword=secret", "postgres://host/db?sslpassword=***"},
        {"postgres://host/db?PASSWORD=secret", "postgres://host/db?PASSWORD=***"},
        {"postgres://host/db?pass%77ord=secret", "postgres://host/db?pass%77ord=***"},
        {"postgres://u:one@host/db?password=two", "postgres://u:***@host/db?password=***"},
        {"postgre:/user:secret@host/db", "postgre:***@host/db"},
        {"user:secret@host/db", "user:***@host/db"},
        {"user:se=cret@host/db", "user:***@host/db"},
        {"host=h dbname=d", "host=h dbname=d"},
        {"host=h user=joe@corp options=-c:x", "host=h user=joe@corp options=-c:x"},
        {"host=h password=secret dbname=d", "host=h password=*** dbname=d"},
        {"password=secret", "password=***"},
        {"host=h password = secret dbname=d", "host=h password = *** dbname=d"},
        {"host=h password='sec ret' dbname=d", "host=h password=*** dbname=d"},
        {"host=h password='sec\\' ret x=1' dbname=d", "host=h password=*** dbname=d"},
        {"host=h password=sec\\ ret dbname=d", "host=h password=*** dbname=d"},
        {"host=h password=sec ret dbname=d", "host=h password=*** dbname=d"},
        {"host=h password='it's a=secret' dbname=d", "host=h password=***"},
        {"host=h password='secret dbname=d", "host=h password=***"},
        {"host=h sslpassword=secret dbname=d", "host=h sslpassword=*** dbname=d"},
        {"host=h password=a@b:c dbname=d", "host=h password=*** dbname=d"},
        {"password=a:b@c host=h", "password=*** host=h"},
        {"dbname=postgres://u:secret@h/d", "dbname=postgres://u:***@h/d"},
        {"host=h scram_client_key=secret", "host=h scram_client_key=***"},
        {"host=h oauth_client_secret=secret", "host=h oauth_client_secret=***"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *masked = hw_url_mask(rows[i].url);

        assert_string_equal(masked, rows[i].masked);
        hw_free(masked);
    }
}

static void a_url_is_stripped_of_its_passwords(void **state)
{
    static const struct {
        const char *url;
        const char *bare;
    } rows[] = {
        {"", ""},
        {"sqlite:/srv/a:b/c@password=d.db", "sqlite:/srv/a:b/c@password=d.db"},
        {"postgres://user@host:5432/db", "postgres://user@host:5432/db"},
        {"postgres://user:secret@host:5432/db", "postgres://user@host:5432/db"},
        {"postgres://user:p@s/s@host/db", "postgres://user@host/db"},
        {"postgres://user:@host/db", "postgres://user@host/db"},
        {"postgres://:secret@/db", "postgres://@/db"},
        {"postgres://host/db?password=secret", "postgres://host/db?"},
        {"postgres://host/db?password=secret&user=a", "postgres://host/db?user=a"},
        {"postgres://u:one@h/db?user=a&password=two&sslmode=require",
         "postgres://u@h/db?user=a&sslmode=require"},
        {"host=a password='se cret' user=b", "host=a  user=b"},
        {"host=a user=b password = secret", "host=a user=b "},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char *bare = hw_url_strip(rows[i].url);

        assert_string_equal(bare, rows[i].bare);
        hw_free(bare);
    }
}

static void masking_without_memory_gives_null_and_leaks_nothing(void **state)
{
    unit_allocator a;
    unsigned n = 0;

    (void)state;
    do {
        char *masked;

        unit_allocator_start(&a, ++n);
        masked =
            hw_url_mask("postgres://user:secret@a.rather.long.host.name.example.org:5432/database");
        assert_int_equal(masked == NULL, a.failed);
        hw_free(masked);
        unit_allocator_stop(&a);
    } while (a.failed);
    assert_int_equal(n, 4);
}

static void copies_hold_whole_characters_and_nothing_else(void **state)
{
    char out[8];

    (void)state;
    hw_utf8_copy(out, sizeof out, "seven..and more");
    assert_string_equal(out, "seven..");
    hw_utf8_copy(out, sizeof out, "six...\xc3\xa9");
    assert_string_equal(out, "six...");
    hw_utf8_copy(out, sizeof out, "five.\xc3\xa9!");
    assert_string_equal(out, "five.\xc3\xa9");
    hw_utf8_copy(out, sizeof out, "\xff\xc3(\xed\xa0\x80");
    assert_string_equal(out, "?"
                             "?(???");
    hw_utf8_copy(out, 1, "x");
    assert_string_equal(out, "");
    hw_utf8_copy(out, sizeof out, "");
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_is_what_postgresql_calls_utf8),
        cmocka_unit_test(every_short_sequence_is_judged_by_its_code_point),
        cmocka_unit_test(control_characters_are_c0_del_and_c1),
        cmocka_unit_test(a_cut_keeps_characters_whole),
        cmocka_unit_test(numbers_are_whole_decimal_and_in_range),
        cmocka_unit_test(sizes_take_binary_units),
        cmocka_unit_test(base64_follows_the_test_vectors_of_rfc_4648),
        cmocka_unit_test(base64_brings_every_byte_back),
        cmocka_unit_test(other_forms_of_base64_are_refused),
        cmocka_unit_test(the_distance_of_words_counts_edits),
        cmocka_unit_test(passwords_are_masked_wherever_they_stand),
        cmocka_unit_test(a_url_is_stripped_of_its_passwords),
        cmocka_unit_test(masking_without_memory_gives_null_and_leaks_nothing),
        cmocka_unit_test(copies_hold_whole_characters_and_nothing_else),
    };

    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
