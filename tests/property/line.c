/*
 * line.c - a case as a JSON line, and for people.
 *
 * The payload comes last and the headers before it: what is wrong with them cannot change what
 * stands before.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "property.h"

#define HEADERS_MAX 65536

/* ------------------------------------------------------------------ the members */

/* One UTF-8 character as \uXXXX, or as two. */
static size_t put_spelt(hw_buf *out, const uint8_t *p)
{
    uint32_t c = p[0];
    size_t n = 1;

    if (c >= 0xF0) {
        c = (c & 7u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
        n = 4;
    } else if (c >= 0xE0) {
        c = (c & 0xFu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        n = 3;
    } else if (c >= 0xC0) {
        c = (c & 0x1Fu) << 6 | (p[1] & 0x3Fu);
        n = 2;
    }
    if (c >= 0x10000)
        hw_buf_printf(out, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                      0xDC00 + ((c - 0x10000) & 0x3FF));
    else
        hw_buf_printf(out, "\\u%04X", c);
    return n;
}

/* The same string, sometimes spelt in another way. */
static void put_string(hw_buf *out, const hw_buf *value, dice *d)
{
    const char *s = hw_buf_str(value);

    if (!hw_utf8_valid(s, value->len) || !dice_percent(d, 15)) {
        hw_json_put_string(out, s, value->len);
        return;
    }
    hw_buf_putc(out, '"');
    for (size_t i = 0; i < value->len;)
        i += put_spelt(out, (const uint8_t *)s + i);
    hw_buf_putc(out, '"');
}

static bool replaced(const candidate *c, const char *member)
{
    return c->line_only && strcmp(hw_buf_str(&c->raw_member.buf), member) == 0;
}

static void put_member(hw_buf *out, const char *member)
{
    if (out->len > 1)
        hw_buf_putc(out, ',');
    hw_buf_printf(out, "\"%s\":", member);
}

static void put_texts(const candidate *c, dice *d, hw_buf *out)
{
    const struct {
        const char *member;
        const text *value;
    } rows[] = {{"id", &c->id},
                {"stream", &c->stream},
                {"type", &c->type},
                {"correlation_id", &c->correlation},
                {"causation_id", &c->causation},
                {"actor", &c->actor},
                {"valid_time", &c->valid_time},
                {"content_type", &c->content_type}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].value->has || replaced(c, rows[i].member))
            continue;
        put_member(out, rows[i].member);
        put_string(out, &rows[i].value->buf, d);
    }
}

static void put_valid_time(const candidate *c, hw_buf *out)
{
    char formatted[HW_TIME_TEXT + 1];
    const char *value = formatted;

    if (!c->has_valid_time_us || c->valid_time.has)
        return;
    if (c->valid_time_us > HW_TIME_MAX_US)
        value = "10000-01-01T00:00:00Z";
    else if (c->valid_time_us < HW_TIME_MIN_US)
        value = "0000-12-31T23:59:59.999999Z";
    else
        hw_time_format(c->valid_time_us, formatted);
    put_member(out, "valid_time");
    hw_buf_printf(out, "\"%s\"", value);
}

static void put_expect(const candidate *c, dice *d, hw_buf *out)
{
    if (!c->expects)
        return;
    put_member(out, "expect");
    if (c->expected == HOWDAH_EXPECT_ANY)
        hw_buf_puts(out, "\"any\"");
    else if (c->expected == HOWDAH_EXPECT_EXISTS)
        hw_buf_puts(out, "\"exists\"");
    else if (c->expected == HOWDAH_EXPECT_NONE && dice_percent(d, 50))
        hw_buf_puts(out, "\"none\"");
    else if (dice_percent(d, 30))
        hw_buf_printf(out, "\"%" PRId64 "\"", c->expected);
    else
        hw_buf_printf(out, "%" PRId64, c->expected);
}

/* -------------------------------------------------------------------- the line */

static bool document_valid(const text *t)
{
    return !t->has || hw_json_valid(hw_buf_str(&t->buf), t->buf.len, HW_JSON_DEPTH_MAX, NULL);
}

static hw_str trimmed(const hw_buf *b)
{
    const char *s = hw_buf_str(b);
    size_t n = b->len;

    while (n > 0 && memchr(" \t\r\n", s[n - 1], 4))
        n--;
    while (n > 0 && memchr(" \t\r\n", *s, 4)) {
        s++;
        n--;
    }
    return (hw_str){s, n};
}

/* The blanks around a value are not part of it in a line, but are where it stands alone. */
static bool blanks_matter(const candidate *c)
{
    hw_str headers = trimmed(&c->headers.buf);

    if (!c->content_type.has && c->data.buf.len > PAYLOAD_MAX &&
        trimmed(&c->data.buf).len <= PAYLOAD_MAX)
        return true;
    if (!c->headers.has)
        return false;
    if (c->headers.buf.len > HEADERS_MAX && headers.len <= HEADERS_MAX)
        return true;
    return hw_str_equal(headers, HW_STR_LIT("null")); /* which means "none" in a line */
}

bool candidate_line_unreadable(const candidate *c)
{
    const text *const texts[] = {&c->id,    &c->stream,     &c->type,         &c->correlation,
                                 &c->actor, &c->valid_time, &c->content_type, &c->causation};

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i]->has && !hw_utf8_valid(hw_buf_str(&texts[i]->buf), texts[i]->buf.len))
            return true;
    if (c->line_only && (!hw_json_valid(hw_buf_str(&c->raw_value.buf), c->raw_value.buf.len,
                                        HW_JSON_DEPTH_MAX, NULL) ||
                         strcmp(hw_buf_str(&c->raw_member.buf), "\\u0000") == 0))
        return true;
    return (!c->content_type.has && !document_valid(&c->data)) || !document_valid(&c->headers);
}

bool candidate_line(const candidate *c, dice *d, hw_buf *out)
{
    hw_buf_clear(out);
    hw_buf_putc(out, '{');
    put_texts(c, d, out);
    put_valid_time(c, out);
    if (c->has_schema_version) {
        put_member(out, "schema_version");
        hw_buf_printf(out, "%" PRId64, c->schema_version);
    }
    put_expect(c, d, out);
    if (c->line_only) {
        put_member(out, hw_buf_str(&c->raw_member.buf));
        hw_buf_put(out, hw_buf_str(&c->raw_value.buf), c->raw_value.buf.len);
    }
    if (c->headers.has) {
        put_member(out, "headers");
        hw_buf_put(out, hw_buf_str(&c->headers.buf), c->headers.buf.len);
    }
    if (c->content_type.has && !replaced(c, "data_base64")) {
        put_member(out, "data_base64");
        hw_buf_putc(out, '"');
        hw_base64_put(out, hw_buf_str(&c->data.buf), c->data.buf.len);
        hw_buf_putc(out, '"');
    } else if (!c->content_type.has) {
        put_member(out, "data");
        hw_buf_put(out, hw_buf_str(&c->data.buf), c->data.buf.len);
    }
    hw_buf_putc(out, '}');
    if (memchr(out->data, '\n', out->len) || blanks_matter(c))
        return false;
    /* A broken document that makes a sound line together with what is around it. */
    return !(candidate_line_unreadable(c) &&
             hw_json_valid(out->data, out->len, HW_JSON_DEPTH_MAX, NULL));
}

/* -------------------------------------------------------------------- for people */

static void print_text(const char *name, const text *t)
{
    if (!t->has)
        return;
    (void)printf("#   %-15s %zu bytes: ", name, t->buf.len);
    for (size_t i = 0; i < t->buf.len && i < 400; i++) {
        unsigned char byte = (unsigned char)t->buf.data[i];

        if (byte >= 0x20 && byte < 0x7F && byte != '\\')
            (void)putchar(byte);
        else
            (void)printf(byte == '\\' ? "\\\\" : "\\x%02X", byte);
    }
    (void)printf("%s\n", t->buf.len > 400 ? " ..." : "");
}

void candidate_print(const candidate *c)
{
    print_text("id", &c->id);
    print_text("stream", &c->stream);
    print_text("type", &c->type);
    print_text("content_type", &c->content_type);
    print_text("data", &c->data);
    print_text("headers", &c->headers);
    print_text("correlation_id", &c->correlation);
    print_text("causation_id", &c->causation);
    print_text("actor", &c->actor);
    print_text("valid_time", &c->valid_time);
    if (c->has_valid_time_us)
        (void)printf("#   valid_time      %" PRId64 " us\n", c->valid_time_us);
    if (c->has_schema_version)
        (void)printf("#   schema_version  %" PRId64 "\n", c->schema_version);
    if (c->expects)
        (void)printf("#   expected        %" PRId64 ", with %u events before\n", c->expected,
                     c->before);
    if (c->line_only) {
        (void)printf("#   only in a line: \"%s\": %s\n", hw_buf_str(&c->raw_member.buf),
                     hw_buf_str(&c->raw_value.buf));
    }
    if (c->header_pairs)
        (void)printf("#   the headers are given one by one (%zu)\n", c->pairs_n);
}
