/* sanitize.c - see sanitize.h. */
#include "cli/out/sanitize.h"

#include <assert.h>
#include <stdio.h>
#include <wchar.h>

#include "base/text.h"

/* The caller has checked that it is well-formed, so no byte is checked here. */
size_t cli_point_decode(const char *s, unsigned *ret_point)
{
    const unsigned char *b = (const unsigned char *)s;

    if (b[0] < 0x80) {
        *ret_point = b[0];
        return 1;
    }
    if (b[0] < 0xe0) {
        *ret_point = (b[0] & 0x1fu) << 6 | (b[1] & 0x3fu);
        return 2;
    }
    if (b[0] < 0xf0) {
        *ret_point = (b[0] & 0x0fu) << 12 | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
        return 3;
    }
    *ret_point = (b[0] & 0x07u) << 18 | (b[1] & 0x3fu) << 12 | (b[2] & 0x3fu) << 6 | (b[3] & 0x3fu);
    return 4;
}

/* Marks that turn the writing direction, break lines, or take no room and so hide. */
static bool redirects_or_hides(unsigned point)
{
    return point == 0x061c || point == 0xfeff || (point >= 0x200b && point <= 0x200f) ||
           (point >= 0x2028 && point <= 0x202e) || (point >= 0x2060 && point <= 0x206f) ||
           (point >= 0xe0000 && point <= 0xe007f);
}

/* What the C library cannot measure could move the cursor in ways we do not know. */
bool cli_point_sanitize(unsigned point, bool utf8)
{
    if (point < 0x20 || (point >= 0x7f && point < 0xa0))
        return false;
    if (point < 0x7f)
        return true;
    return utf8 && !redirects_or_hides(point) && wcwidth((wchar_t)point) >= 0;
}

/* As JSON escapes it, above the first plane as a pair of surrogates. */
static void put_escaped(cli_sanitizer *h, unsigned point)
{
    char text[16];
    int n;

    if (point < 0x10000)
        n = snprintf(text, sizeof text, "\\u%04x", point);
    else
        n = snprintf(text, sizeof text, "\\u%04x\\u%04x", 0xd800 + ((point - 0x10000) >> 10),
                     0xdc00 + ((point - 0x10000) & 0x3ff));
    h->sink(h->ctx, text, (size_t)n);
}

/*
 * In JSON a control character is escaped, so that equal JSON comes out (I3); elsewhere it is a
 * "?".
 */
static void put_character(cli_sanitizer *h, const char *bytes, size_t n)
{
    unsigned point;

    (void)cli_point_decode(bytes, &point);
    if (cli_point_sanitize(point, h->utf8) || (point == '\n' && !h->one_line))
        h->sink(h->ctx, bytes, n);
    else if (point == '\n' || point == '\t' || point == '\r') /* in JSON: between tokens */
        h->sink(h->ctx, " ", 1);
    else if (h->json)
        put_escaped(h, point);
    else
        h->sink(h->ctx, "?", 1);
}

/* One mark for a character that is not one, however many bytes it had. */
static void put_broken(cli_sanitizer *h)
{
    if (h->json)
        put_escaped(h, 0xfffd);
    else
        h->sink(h->ctx, "?", 1);
}

/* What a first byte promises; 0: no character starts so. */
static size_t length_of(char first)
{
    unsigned char b = (unsigned char)first;

    if (b < 0x80)
        return 1;
    if (b < 0xc2 || b > 0xf4)
        return 0;
    return b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
}

void cli_sanitize_end(cli_sanitizer *h)
{
    if (h->held_n > 0)
        put_broken(h);
    h->held_n = 0;
}

/* Bytes are held until a character is complete: a text may be cut anywhere (I2). */
static void put_byte(cli_sanitizer *h, char byte)
{
    size_t wanted;

    if (h->held_n > 0 && ((unsigned char)byte & 0xc0u) != 0x80u)
        cli_sanitize_end(h);
    assert(h->held_n < sizeof h->held);
    h->held[h->held_n++] = byte;
    wanted = length_of(h->held[0]);
    if (h->held_n < wanted)
        return;
    if (wanted > 0 && hw_utf8_valid(h->held, wanted))
        put_character(h, h->held, wanted);
    else
        put_broken(h);
    h->held_n = 0;
}

/* Runs of plain ASCII, which is nearly everything, go on in one piece. */
void cli_sanitize_put(cli_sanitizer *h, const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n) {
        size_t from = i;

        while (h->held_n == 0 && i < n && bytes[i] >= 0x20 && bytes[i] < 0x7f)
            i++;
        if (i > from)
            h->sink(h->ctx, bytes + from, i - from);
        if (i < n)
            put_byte(h, bytes[i++]);
    }
}
