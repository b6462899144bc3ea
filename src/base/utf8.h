/* utf8.h - one step of UTF-8, for the few files of base that walk text byte by byte. */
#ifndef HW_BASE_UTF8_H
#define HW_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * The length of the well-formed sequence at p (1..4), 0 when there is none before end.  The second
 * byte carries all the odd rules: E0 and F0 forbid overlong forms, ED surrogates, F4 what lies
 * above U+10FFFF (Unicode, table 3-7).
 */
static inline size_t hw_utf8_step(const uint8_t *p, const uint8_t *end)
{
    uint8_t lead = *p;
    size_t left = (size_t)(end - p);
    size_t n;
    uint8_t low = 0x80;
    uint8_t high = 0xBF;

    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4)
        return 0;
    n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (left < n)
        return 0;
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    if (p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    }
    return n;
}

/*
 * The longest prefix of text that has at most max bytes and does not cut a character.  A text that
 * is not UTF-8 may lose up to three bytes more; nothing depends on it.
 */
static inline size_t hw_utf8_cut(const char *text, size_t len, size_t max)
{
    size_t n = max;

    if (len <= max)
        return len;
    while (n > 0 && max - n < 3 && ((uint8_t)text[n] & 0xC0) == 0x80)
        n--;
    return n;
}

/* Eight bytes at once: non-zero when one of them has its top bit set. */
static inline uint64_t hw_load_u64(const void *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof v);
    return v;
}

#define HW_U64_TOPS UINT64_C(0x8080808080808080)
#define HW_U64_ONES UINT64_C(0x0101010101010101)

#endif
