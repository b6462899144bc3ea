/* gen_text.c - names, types, content types, UUIDs and times near the edges of their rules. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "property.h"

#define NAME_MAX_BYTES 255

void put_code_point(hw_buf *out, uint32_t c)
{
    if (c < 0x80) {
        hw_buf_putc(out, (char)c);
    } else if (c < 0x800) {
        hw_buf_putc(out, (char)(0xC0 | c >> 6));
        hw_buf_putc(out, (char)(0x80 | (c & 0x3F)));
    } else if (c < 0x10000) {
        hw_buf_putc(out, (char)(0xE0 | c >> 12));
        hw_buf_putc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        hw_buf_putc(out, (char)(0x80 | (c & 0x3F)));
    } else {
        hw_buf_putc(out, (char)(0xF0 | c >> 18));
        hw_buf_putc(out, (char)(0x80 | (c >> 12 & 0x3F)));
        hw_buf_putc(out, (char)(0x80 | (c >> 6 & 0x3F)));
        hw_buf_putc(out, (char)(0x80 | (c & 0x3F)));
    }
}

/* ----------------------------------------------------------------------- names */

/* No control characters, however odd they look. */
static uint32_t pick_good_char(dice *d)
{
    static const uint32_t odd[] = {0x20,    0x22,     0x27,   0x5C,   0x7E,   0xA0,   0xAD,
                                   0xFF,    0x100,    0x7FF,  0x800,  0x200B, 0x2028, 0x2029,
                                   0xD7FF,  0xE000,   0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x10000,
                                   0x1F418, 0x10FFFF, 0x2E,   0x2F,   0x25,   0x5F,   0x2A};

    switch (dice_below(d, 4)) {
    case 0:
        return DICE_PICK(d, odd);
    case 1:
        return 0xA1 + dice_below(d, 0x600);
    case 2:
        return 0x4E00 + dice_below(d, 0x1000);
    default:
        return 'a' + dice_below(d, 26);
    }
}

static void put_control(dice *d, hw_buf *out)
{
    static const uint32_t edges[] = {1, 9, 10, 13, 0x1F, 0x7F, 0x80, 0x85, 0x9F};

    put_code_point(out, dice_percent(d, 70)   ? DICE_PICK(d, edges)
                        : dice_percent(d, 50) ? 1 + dice_below(d, 31)
                                              : 0x7F + dice_below(d, 33));
}

static void put_bad_utf8(dice *d, hw_buf *out)
{
    static const char *const bad[] = {
        "\xC0\x80",         "\xC1\xBF",         "\xC2",     "\x80",     "\xBF",
        "\xE0\x80\x80",     "\xE0\x9F\xBF",     "\xE2\x82", "\xFF",     "\xFE",
        "\xED\xA0\x80",     "\xED\xBF\xBF",     "\xEF\xBF", "\xF5",     "\xF0\x9F\x90",
        "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xC2\x41", "\xC3\x28", "\xF8\x88\x80\x80\x80"};

    hw_buf_puts(out, DICE_PICK(d, bad));
}

/* Whole characters up to exactly len bytes. */
static void put_good_chars(dice *d, hw_buf *out, size_t len)
{
    bool ascii = dice_percent(d, 30);

    while (out->len < len) {
        size_t before = out->len;

        put_code_point(out, ascii ? 'a' + dice_below(d, 26) : pick_good_char(d));
        if (out->len > len) {
            out->len = before;
            hw_buf_putc(out, 'z');
        }
    }
}

static size_t pick_length(dice *d)
{
    static const uint16_t edges[] = {0,   1,   2,   3,   4,   5,   7,   8,    9,    253,  254, 255,
                                     256, 257, 258, 259, 510, 511, 512, 1000, 1001, 1002, 3000};

    return dice_percent(d, 60) ? DICE_PICK(d, edges) : 1 + dice_below(d, 40);
}

belief gen_name(dice *d, hw_buf *out)
{
    size_t len = pick_length(d);
    size_t at = len ? dice_below(d, (uint32_t)len) : 0;
    uint32_t kind = dice_below(d, 10);

    hw_buf_clear(out);
    if (kind > 3 || len == 0) {
        put_good_chars(d, out, len);
        return len >= 1 && len <= NAME_MAX_BYTES ? GOOD : BAD;
    }
    put_good_chars(d, out, dice_percent(d, 30) ? 0 : at);
    if (kind < 2)
        put_control(d, out);
    else if (kind == 2)
        put_bad_utf8(d, out);
    else
        put_code_point(out, 0xA0); /* the first that is no control character */
    if (dice_percent(d, 60))
        put_good_chars(d, out, len);
    if (kind == 3)
        return out->len <= NAME_MAX_BYTES ? GOOD : BAD;
    return BAD;
}

/* ------------------------------------------------------------------------ types */

static void put_segment(dice *d, hw_buf *out, size_t len)
{
    static const char bytes[] = "ABCXYZabcxyz0129_-";

    for (size_t i = 0; i < len; i++)
        hw_buf_putc(out, bytes[dice_below(d, sizeof bytes - 1)]);
}

/* segments of the given length each; returns how many bytes that is. */
static void put_segments(dice *d, hw_buf *out, size_t n, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            hw_buf_putc(out, '.');
        put_segment(d, out, len);
    }
}

static belief gen_odd_type(dice *d, hw_buf *out)
{
    static const char *const bad[] = {" ",        "*",        ">",        "/",  ":",
                                      "\n",       "\r",       "~",        "@",  "\x7F",
                                      "\xC2\x85", "\xC3\xA9", "\xFF",     "\t", "..",
                                      "\\",       "\"",       "\xC2\xA0", ",",  "\xF0\x9F\x90\x98"};
    size_t at;

    put_segments(d, out, 1 + dice_below(d, 3), 1 + dice_below(d, 6));
    switch (dice_below(d, 4)) {
    case 0:
        hw_buf_putc(out, '.');
        return BAD;
    case 1:
        hw_buf_puts(out, DICE_PICK(d, bad));
        return BAD;
    case 2:
        at = dice_below(d, (uint32_t)out->len);
        if (out->data[at] == '.')
            return GOOD;
        out->data[at] = "./ *>\n\x01\x7F"[dice_below(d, 8)];
        return out->data[at] == '.' ? UNSURE : BAD;
    default:
        hw_buf_clear(out);
        hw_buf_putc(out, '.');
        put_segments(d, out, 1 + dice_below(d, 2), dice_below(d, 3));
        return BAD;
    }
}

belief gen_type(dice *d, hw_buf *out)
{
    static const uint8_t counts[] = {1, 2, 3, 30, 31, 32, 33, 34, 64};
    size_t n;
    size_t len;

    hw_buf_clear(out);
    switch (dice_below(d, 4)) {
    case 0:
        return gen_odd_type(d, out);
    case 1:
        n = DICE_PICK(d, counts);
        put_segments(d, out, n, 1 + dice_below(d, 7));
        return n <= 32 && out->len <= NAME_MAX_BYTES ? GOOD : BAD;
    case 2:
        len = pick_length(d);
        put_segment(d, out, len);
        return len >= 1 && len <= NAME_MAX_BYTES ? GOOD : BAD;
    default:
        put_segments(d, out, 1 + dice_below(d, 5), 1 + dice_below(d, 9));
        return GOOD;
    }
}

belief gen_content_type(dice *d, hw_buf *out)
{
    static const char *const good[] = {"image/png", "a/b", " / ", "text/plain; charset=utf-8",
                                       "a//b",      "~/~", "///"};
    static const char *const bad[] = {"",     "/",     "a/",          "/b",      "png",
                                      "a b",  "a/b\n", "a/b\xC3\xA9", "a\x7F/b", "\x01/b",
                                      "a/\t", "//",    "a\xFF/b"};
    size_t len;

    hw_buf_clear(out);
    switch (dice_below(d, 4)) {
    case 0:
        hw_buf_puts(out, DICE_PICK(d, good));
        return GOOD;
    case 1:
        hw_buf_puts(out, DICE_PICK(d, bad));
        return BAD;
    default:
        len = 3 + (dice_percent(d, 50) ? dice_below(d, 20) : 250 + dice_below(d, 5));
        for (size_t i = 0; i < len; i++)
            hw_buf_putc(out, (char)(0x20 + dice_below(d, 95)));
        out->data[1 + dice_below(d, (uint32_t)len - 2)] = '/';
        return len <= NAME_MAX_BYTES ? GOOD : BAD;
    }
}

/* -------------------------------------------------------------- UUIDs and times */

belief gen_uuid_text(dice *d, const char *own, hw_buf *out)
{
    size_t at = dice_below(d, HOWDAH_UUID_SIZE - 1);

    hw_buf_clear(out);
    hw_buf_puts(out, own);
    switch (dice_below(d, 8)) {
    case 0: /* capitals are the same UUID */
        for (size_t i = 0; i < out->len; i++)
            if (out->data[i] >= 'a' && out->data[i] <= 'f')
                out->data[i] = (char)(out->data[i] - 0x20);
        return GOOD;
    case 1:
        hw_buf_putc(out, "0 \n-"[dice_below(d, 4)]);
        return BAD;
    case 2:
        out->data[--out->len] = '\0';
        return BAD;
    case 3:
        out->data[at] = "gG- _{"[dice_below(d, 6)];
        return out->data[at] == '-' ? UNSURE : BAD;
    case 4: /* PostgreSQL itself would take this one */
        hw_buf_clear(out);
        for (const char *p = own; *p; p++)
            if (*p != '-')
                hw_buf_putc(out, *p);
        return BAD;
    case 5: /* and this */
        hw_buf_clear(out);
        hw_buf_printf(out, "{%s}", own);
        return BAD;
    case 6:
        hw_buf_clear(out);
        return BAD;
    default:
        return GOOD;
    }
}

static belief gen_odd_time(dice *d, hw_buf *out)
{
    static const char *const good[] = {"2026-01-31T09:30:00Z",
                                       "2026-01-31t09:30:00z",
                                       "2026-01-31T09:30:00.5Z",
                                       "2026-01-31T09:30:00.123456789+23:59",
                                       "2024-02-29T00:00:00-23:59",
                                       "2000-02-29T23:59:59.999999999Z",
                                       "0001-01-01T00:00:00Z",
                                       "9999-12-31T23:59:59.999999Z",
                                       "0001-01-01T01:00:00+01:00",
                                       "9999-12-31T23:00:00-00:59",
                                       "1969-12-31T23:59:59.999999Z",
                                       "2026-01-31T09:30:00.1234565Z",
                                       "2026-01-31T09:30:00.000000-00:00",
                                       "2026-01-31T09:30:00+16:00"};
    static const char *const bad[] = {"2026-01-31",
                                      "2026-01-31 09:30:00Z",
                                      "2026-01-31T09:30:00",
                                      "2026-01-31T09:30Z",
                                      "2026-02-29T00:00:00Z",
                                      "2100-02-29T00:00:00Z",
                                      "2026-13-01T00:00:00Z",
                                      "2026-00-01T00:00:00Z",
                                      "2026-01-32T00:00:00Z",
                                      "2026-01-00T00:00:00Z",
                                      "2026-04-31T00:00:00Z",
                                      "2026-01-31T24:00:00Z",
                                      "2026-01-31T23:60:00Z",
                                      "2026-01-31T23:59:60Z",
                                      "2026-01-31T09:30:00+24:00",
                                      "0000-01-01T00:00:00Z",
                                      "10000-01-01T00:00:00Z",
                                      "2026-01-31T09:30:00+0100",
                                      "2026-01-31T09:30:00.Z",
                                      "2026-01-31T09:30:00,5Z",
                                      "2026-01-31T09:30:00.1234567890Z",
                                      "infinity",
                                      "-infinity",
                                      "now",
                                      "today",
                                      "epoch",
                                      "",
                                      "1767225600",
                                      "2026-01-31T09:30:00+01",
                                      "2026-01-31T09:30:00Z ",
                                      " 2026-01-31T09:30:00Z",
                                      "20260131T093000Z",
                                      "2026-01-31T09:30:00 UTC",
                                      "0001-01-01T00:30:00+01:00",
                                      "9999-12-31T23:30:00-01:00",
                                      "2026-01-31T09:30:00+01:60",
                                      "2026-1-31T09:30:00Z",
                                      "-2026-01-31T09:30:00Z",
                                      "2026-01-31T9:30:00Z",
                                      "0044-03-15 BC",
                                      "2026-01-31T09:30:00Z\n",
                                      "2026-01-31T09:30:00\xE2\x88\x92:0100"};

    if (dice_percent(d, 40)) {
        hw_buf_puts(out, DICE_PICK(d, good));
        return GOOD;
    }
    hw_buf_puts(out, DICE_PICK(d, bad));
    return BAD;
}

belief gen_time_text(dice *d, hw_buf *out)
{
    char plain[HW_TIME_TEXT + 1];
    size_t at;

    hw_buf_clear(out);
    if (dice_percent(d, 60))
        return gen_odd_time(d, out);
    hw_time_format(HW_TIME_MIN_US + (int64_t)(dice_u64(d) % 315537897600000000u), plain);
    plain[HW_TIME_TEXT - 1] = '\0';
    hw_buf_puts(out, plain);
    if (dice_percent(d, 50))
        hw_buf_putc(out, 'Z');
    else
        hw_buf_printf(out, "%c%02u:%02u", "+-"[dice_below(d, 2)], dice_below(d, 25),
                      dice_below(d, 61));
    if (dice_percent(d, 30)) {
        at = dice_below(d, (uint32_t)out->len);
        out->data[at] = "0123456789T:-+. "[dice_below(d, 16)];
    }
    return UNSURE;
}
