/* gen_headers.c - headers: an object of strings, or nearly. */
#include "base/json.h"
#include "property.h"

#define HEADERS_MAX 65536

/* A name as a JSON string; sometimes spelt with escapes. */
static belief put_header_name(dice *d, hw_buf *out)
{
    static const char *const escaped[] = {"\"\\u0041\"", "\"\\ud83d\\ude00\"", "\"a\\/b\"",
                                          "\"\\u00e9\""};
    static const char *const bad[] = {"\"\\u0000\"", "\"\\u0085\"", "\"\\n\"",   "\"\"",
                                      "\"\\u007f\"", "\"\\ud800\"", "\"a\\tb\"", "\"\\u001f\""};
    hw_buf name = HW_BUF_INIT(SIZE_MAX);
    belief known;

    switch (dice_below(d, 8)) {
    case 0:
        hw_buf_puts(out, DICE_PICK(d, escaped));
        return GOOD;
    case 1:
        hw_buf_puts(out, DICE_PICK(d, bad));
        return BAD;
    case 2: { /* 254 to 257 bytes, written as six each or as themselves */
        uint32_t n = 254 + dice_below(d, 4);
        bool spelt = dice_percent(d, 50);

        hw_buf_putc(out, '"');
        for (uint32_t i = 0; i < n; i++)
            hw_buf_puts(out, spelt ? "\\u0061" : "a");
        hw_buf_putc(out, '"');
        return n <= 255 ? GOOD : BAD;
    }
    case 3:
        known = gen_name(d, &name);
        hw_json_put_string(out, hw_buf_str(&name), name.len);
        hw_buf_done(&name);
        return known;
    default:
        hw_buf_printf(out, "\"h%u\"", dice_below(d, 20));
        return GOOD;
    }
}

static belief put_header_value(dice *d, hw_buf *out)
{
    if (dice_percent(d, 8)) {
        static const char *const bad[] = {"1", "null", "true", "[]", "{}", "[\"a\"]", "-0"};

        hw_buf_puts(out, DICE_PICK(d, bad));
        return BAD;
    }
    put_sound_string(d, out);
    return GOOD;
}

static belief put_header_object(dice *d, hw_buf *out)
{
    uint32_t n = dice_below(d, 4);
    belief known = GOOD;

    put_space(d, out);
    hw_buf_putc(out, '{');
    for (uint32_t i = 0; i < n; i++) {
        belief name;
        belief value;

        if (i > 0)
            hw_buf_putc(out, ',');
        put_space(d, out);
        name = put_header_name(d, out);
        put_space(d, out);
        hw_buf_putc(out, ':');
        put_space(d, out);
        value = put_header_value(d, out);
        put_space(d, out);
        if (name == BAD || value == BAD)
            known = BAD;
    }
    hw_buf_putc(out, '}');
    put_space(d, out);
    return known;
}

belief gen_headers(dice *d, hw_buf *out)
{
    static const char *const other[] = {"",
                                        " ",
                                        "[]",
                                        "\"a\"",
                                        "null",
                                        "1",
                                        "{",
                                        "}",
                                        "true",
                                        "[{\"a\":\"b\"}]",
                                        "{\"a\":\"b\"} {}"};
    belief known;

    hw_buf_clear(out);
    if (dice_percent(d, 10)) {
        hw_buf_puts(out, DICE_PICK(d, other));
        return BAD;
    }
    if (dice_percent(d, 2)) {
        size_t len = HEADERS_MAX - 1 + dice_below(d, 3);

        hw_buf_puts(out, "{\"big\":\"");
        while (out->len < len - 2)
            hw_buf_putc(out, 'x');
        hw_buf_puts(out, "\"}");
        return len <= HEADERS_MAX ? GOOD : BAD;
    }
    known = put_header_object(d, out);
    if (dice_percent(d, 25)) {
        break_document(d, out);
        known = UNSURE;
    }
    return known;
}
