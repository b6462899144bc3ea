/* test_sanitize.c - what others wrote, made harmless on its way to a terminal. */
#include "unit.h"

#include <locale.h>

#include "base/buf.h"
#include "cli/out/sanitize.h"

typedef struct row {
    const char *in;
    const char *text;
    const char *json;
} row;

static const row rows[] = {
    {"plain \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80\n",
     "plain \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80\n",
     "plain \xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x98\x80\n"},
    {"a\tb\rc", "a b c", "a b c"},
    {"\033[31m\007\177", "?[31m??", "\\u001b[31m\\u0007\\u007f"},
    {"\xc2\x9b"
     "31m",
     "?31m", "\\u009b31m"},
    {"a\x9b"
     "31m",
     "a?31m", "a\\ufffd31m"},
    {"\xd8\x9c\xe2\x80\x8e\xe2\x80\xae\xe2\x81\xa9", "????", "\\u061c\\u200e\\u202e\\u2069"},
    {"\xf3\xa0\x80\x81", "?", "\\udb40\\udc01"},
    {"\xed\xa0\x80|\xc0\x80|\xf5\x80\x80\x80|\xe6\xbc|", "?|??|????|?|",
     "\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd|\\ufffd|"},
    {"\xe6\xbc", "?", "\\ufffd"},
};

static void into_buffer(void *ctx, const char *bytes, size_t n)
{
    hw_buf_put(ctx, bytes, n);
}

/* In pieces of so many bytes. */
static void assert_becomes(cli_sanitizer how, const char *in, size_t piece, const char *wanted)
{
    hw_buf out = HW_BUF_INIT(4096);
    size_t len = strlen(in);

    how.sink = into_buffer;
    how.ctx = &out;
    for (size_t i = 0; i < len; i += piece)
        cli_sanitize_put(&how, in + i, len - i < piece ? len - i : piece);
    cli_sanitize_end(&how);
    assert_string_equal(hw_buf_str(&out), wanted);
    hw_buf_done(&out);
}

static void what_steers_a_terminal_is_replaced_however_the_text_is_cut(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t piece = 1; piece <= 9; piece++)
            assert_becomes((cli_sanitizer){.utf8 = true}, rows[i].in, piece, rows[i].text);
}

static void in_json_it_is_escaped(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t piece = 1; piece <= 9; piece++)
            assert_becomes((cli_sanitizer){.utf8 = true, .json = true}, rows[i].in, piece,
                           rows[i].json);
}

static void without_utf8_all_is_ascii(void **state)
{
    (void)state;
    assert_becomes((cli_sanitizer){.utf8 = false}, "\xc3\xa9\x9b.\n", 1, "??.\n");
    assert_becomes((cli_sanitizer){.utf8 = false, .json = true}, "\xc3\xa9\xf0\x9f\x98\x80", 2,
                   "\\u00e9\\ud83d\\ude00");
}

static void a_cell_is_one_line(void **state)
{
    (void)state;
    assert_becomes((cli_sanitizer){.utf8 = true, .one_line = true}, "a\nb\tc", 2, "a b c");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_steers_a_terminal_is_replaced_however_the_text_is_cut),
        cmocka_unit_test(in_json_it_is_escaped),
        cmocka_unit_test(without_utf8_all_is_ascii),
        cmocka_unit_test(a_cell_is_one_line),
    };

    (void)setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
