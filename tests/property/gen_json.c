/*
 * gen_json.c - documents: made by the grammar, then broken on purpose.
 *
 * What the grammar makes is sound (GOOD); of what a random change makes of it nothing is known
 * (UNSURE), except where the change is one that no reader may forgive (BAD).
 */
#include <string.h>

#include "property.h"

#define DEPTH_MAX 64

/* --------------------------------------------------------------------- scalars */

static void put_sound_number(dice *d, hw_buf *out)
{
    static const char *const odd[] = {
        "0",
        "-0",
        "-0.0",
        "0e0",
        "1e999999",
        "-1E+999999",
        "1e-999999",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "18446744073709551616",
        "123456789012345678901234567890123456789012345678901234567890",
        "0.1",
        "1.0",
        "1e5",
        "1E5",
        "1e+05",
        "0.000000000000000000000000000000000000000001",
        "3.141592653589793238462643383279502884197169399375105820974944",
        "1.7976931348623157e308",
        "5e-324"};

    if (dice_percent(d, 60))
        hw_buf_puts(out, DICE_PICK(d, odd));
    else
        hw_buf_printf(out, "%d", (int)dice_below(d, 100000) - 50000);
}

static void put_sound_escape(dice *d, hw_buf *out)
{
    static const char *const odd[] = {"\\\"",
                                      "\\\\",
                                      "\\/",
                                      "\\b",
                                      "\\f",
                                      "\\n",
                                      "\\r",
                                      "\\t",
                                      "\\u0001",
                                      "\\u001f",
                                      "\\u007f",
                                      "\\u0085",
                                      "\\u00e9",
                                      "\\uD7FF",
                                      "\\ue000",
                                      "\\uFFFF",
                                      "\\ud83d\\ude00",
                                      "\\uDBFF\\uDFFF",
                                      "\\uD800\\uDC00",
                                      "\\\\u0000",
                                      "\\\\\\\\u0000",
                                      "\\\\ud800",
                                      "\\u0030",
                                      "\\u005c",
                                      "\\u005cu0000",
                                      "\\u0022",
                                      "\\\\\\\""};

    hw_buf_puts(out, DICE_PICK(d, odd));
}

void put_sound_string(dice *d, hw_buf *out)
{
    static const char *const odd[] = {"[",
                                      "]",
                                      "{",
                                      "}",
                                      ":",
                                      ",",
                                      "//",
                                      "\x7F",
                                      "\xC2\x85",
                                      "\xEF\xBB\xBF",
                                      "\xF0\x9F\x90\x98",
                                      "\xE2\x80\xA8",
                                      "'",
                                      " ",
                                      "\xF4\x8F\xBF\xBF",
                                      "\xC2\xA0"};
    uint32_t parts = dice_below(d, 6);

    hw_buf_putc(out, '"');
    for (uint32_t i = 0; i < parts; i++) {
        switch (dice_below(d, 4)) {
        case 0:
            put_sound_escape(d, out);
            break;
        case 1:
            hw_buf_puts(out, DICE_PICK(d, odd));
            break;
        case 2: /* long enough for the reader's stride of eight */
            hw_buf_puts(out, &"abcdefghijklmnop"[dice_below(d, 16)]);
            break;
        default:
            put_code_point(out, 0xA0 + dice_below(d, 0x3000));
            break;
        }
    }
    hw_buf_putc(out, '"');
}

static void put_sound_scalar(dice *d, hw_buf *out)
{
    static const char *const words[] = {"true", "false", "null"};

    switch (dice_below(d, 3)) {
    case 0:
        put_sound_number(d, out);
        break;
    case 1:
        put_sound_string(d, out);
        break;
    default:
        hw_buf_puts(out, DICE_PICK(d, words));
        break;
    }
}

/* ------------------------------------------------------------------- documents */

void put_space(dice *d, hw_buf *out)
{
    if (dice_percent(d, 10))
        hw_buf_putc(out, " \t\r\n"[dice_below(d, 4)]);
}

static void put_key(dice *d, hw_buf *out)
{
    static const char *const keys[] = {"a", "b", "total", "", "a"}; /* duplicates are fine */

    if (dice_percent(d, 30))
        put_sound_string(d, out);
    else
        hw_buf_printf(out, "\"%s\"", DICE_PICK(d, keys));
}

/* Recursive, but its depth is counted down. */
static void put_sound_value(dice *d, hw_buf *out, unsigned depth)
{
    uint32_t n = dice_below(d, 4);
    bool object = dice_percent(d, 60);

    put_space(d, out);
    if (depth == 0 || dice_percent(d, 30)) {
        put_sound_scalar(d, out);
    } else {
        hw_buf_putc(out, object ? '{' : '[');
        for (uint32_t i = 0; i < n; i++) {
            if (i > 0)
                hw_buf_putc(out, ',');
            put_space(d, out);
            if (object) {
                put_key(d, out);
                put_space(d, out);
                hw_buf_putc(out, ':');
            }
            put_sound_value(d, out, depth - 1);
        }
        put_space(d, out);
        hw_buf_putc(out, object ? '}' : ']');
    }
    put_space(d, out);
}

void gen_plain_json(dice *d, hw_buf *out)
{
    hw_buf_clear(out);
    hw_buf_printf(out, "{\"total\":%u,\"name\":\"n%u\"}", dice_below(d, 1000), dice_below(d, 1000));
}

/* Nested around the limit; brackets in strings, and containers side by side, do not count. */
static belief put_deep(dice *d, hw_buf *out)
{
    unsigned depth = 61 + dice_below(d, 7);
    bool beside = false;
    char closing[80];

    for (unsigned i = 0; i < depth; i++) {
        bool object = dice_percent(d, 50);

        if (dice_percent(d, 20))
            put_space(d, out);
        hw_buf_puts(out, object ? "{\"[{\":" : "[");
        closing[depth - 1 - i] = object ? '}' : ']';
        beside = !object && dice_percent(d, 20);
        if (beside)
            hw_buf_puts(out, "[],{},\"]]\\\"[\",");
    }
    if (closing[0] == '}' || beside)
        hw_buf_puts(out, "0");
    hw_buf_put(out, closing, depth);
    /* Beside the innermost there may be one more level. */
    return depth < DEPTH_MAX ? GOOD : depth > DEPTH_MAX ? BAD : UNSURE;
}

/* To a length around the limit, by blanks or by a long string. */
static belief put_long(dice *d, hw_buf *out)
{
    size_t len = PAYLOAD_MAX - 2 + dice_below(d, 5);

    if (dice_percent(d, 50)) {
        hw_buf_putc(out, '"');
        while (out->len < len - 1)
            hw_buf_putc(out, 'x');
        hw_buf_putc(out, '"');
    } else {
        hw_buf_putc(out, '[');
        while (out->len < len - 1)
            hw_buf_putc(out, ' ');
        hw_buf_putc(out, ']');
    }
    return len <= PAYLOAD_MAX ? GOOD : BAD;
}

/* --------------------------------------------------------------------- breaking */

/* bytes may be a piece of out itself. */
static void insert(hw_buf *out, size_t at, const char *bytes, size_t n)
{
    hw_buf rest = HW_BUF_INIT(SIZE_MAX);

    hw_buf_put(&rest, bytes, n);
    if (out->len > at)
        hw_buf_put(&rest, out->data + at, out->len - at);
    out->len = at;
    hw_buf_put(out, hw_buf_str(&rest), rest.len);
    hw_buf_done(&rest);
}

/* Things that look like JSON to somebody. */
static void insert_token(dice *d, hw_buf *out)
{
    static const char *const tokens[] = {"NaN",
                                         "Infinity",
                                         "-Infinity",
                                         "+1",
                                         "01",
                                         "-01",
                                         "1.",
                                         ".5",
                                         "1e",
                                         "1e+",
                                         "-",
                                         "0x1F",
                                         "1_000",
                                         "//c",
                                         "/**/",
                                         "'a'",
                                         "undefined",
                                         "TRUE",
                                         "nul",
                                         "tru",
                                         ",",
                                         ",,",
                                         "\xEF\xBB\xBF",
                                         "\x0B",
                                         "\x0C",
                                         "\xC2\xA0",
                                         "\xFF",
                                         "\"\\u0000\"",
                                         "\"\\ud800\"",
                                         "\"\\udc00\"",
                                         "\"\\ud800\\ud800\"",
                                         "\"\\ud83d\\\\\\ude00\"",
                                         "\"\\udc00\\ud800\"",
                                         "\"\\ud83d x\\ude00\"",
                                         "\"\\x41\"",
                                         "\"\\u12\"",
                                         "\"\\u12g4\"",
                                         "\"\\U0041\"",
                                         "\"\\\"",
                                         "\"\t\"",
                                         "\"\x01\"",
                                         "\"\xED\xA0\x80\"",
                                         "\"\xC0\x80\"",
                                         "\"",
                                         "[",
                                         "]",
                                         "{",
                                         "}",
                                         ":",
                                         "\"a\":1",
                                         "1",
                                         "#",
                                         ";",
                                         "\"\\ud83d\\u0041\"",
                                         "\\u0031",
                                         "\"\\ud83d\n\\ude00\"",
                                         "1e1.5",
                                         "1.5.5",
                                         "--1",
                                         "00",
                                         "0e",
                                         "\"\\\n\"",
                                         "\"\\0\""};
    const char *token = DICE_PICK(d, tokens);

    insert(out, dice_below(d, (uint32_t)out->len + 1), token, strlen(token));
}

/* A whole document made of one odd token, in an array or alone. */
static void put_token_alone(dice *d, hw_buf *out)
{
    bool array = dice_percent(d, 50);

    hw_buf_clear(out);
    if (array)
        hw_buf_putc(out, '[');
    insert_token(d, out);
    if (array)
        hw_buf_putc(out, ']');
}

static void change_byte(dice *d, hw_buf *out)
{
    static const char bytes[] = "\"\\{}[]:,0-.eEu/ \n\t\x01\x7F\xC2\x80\xFFnt";

    if (out->len > 0)
        out->data[dice_below(d, (uint32_t)out->len)] = bytes[dice_below(d, sizeof bytes - 1)];
}

void break_document(dice *d, hw_buf *out)
{
    uint32_t len = (uint32_t)out->len;
    size_t at = len ? dice_below(d, len) : 0;

    switch (dice_below(d, 9)) {
    case 0:
        insert(out, dice_below(d, len + 1), "\0", 1);
        break;
    case 1:
    case 2:
        insert_token(d, out);
        break;
    case 3:
        put_token_alone(d, out);
        break;
    case 4:
    case 5:
        change_byte(d, out);
        break;
    case 6:
        if (len > 0) {
            memmove(out->data + at, out->data + at + 1, out->len - at);
            out->len--;
        }
        break;
    case 7: /* cut off, or emptied */
        out->len = at;
        break;
    default: /* a piece of it twice */
        if (len > 0)
            insert(out, dice_below(d, len), out->data + at, 1 + dice_below(d, len - (uint32_t)at));
        break;
    }
    if (out->data)
        out->data[out->len] = '\0';
}

belief gen_json(dice *d, hw_buf *out)
{
    belief known = GOOD;

    hw_buf_clear(out);
    switch (dice_below(d, 12)) {
    case 0:
        known = put_deep(d, out);
        break;
    case 1:
        known = put_long(d, out);
        break;
    default:
        put_sound_value(d, out, 1 + dice_below(d, 5));
        if (out->len > PAYLOAD_MAX)
            known = BAD;
        break;
    }
    if (dice_percent(d, 55)) {
        break_document(d, out);
        if (dice_percent(d, 15))
            break_document(d, out);
        known = UNSURE;
    }
    return known;
}
