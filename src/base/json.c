/*
 * json.c - checks and cuts JSON without building a tree.
 *
 * The check is one pass without recursion.  What the containers around the present position are is
 * a stack of bits, 1 for an object; hence the depth of 64.  Strings, most of a payload's bytes,
 * are passed eight bytes at a time while nothing in them is special.
 *
 *   I1  Each take_...() starts at its first byte and leaves p after its last; on a flaw, p is at
 *       the byte that is wrong (or at the end) and why says what.
 *   I2  p <= end always; nothing reads *end.
 */
#include "base/json.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

typedef struct scan {
    const uint8_t *p;
    const uint8_t *end;
    const char *why;
    uint64_t objects; /* bit i: the container at depth i + 1 is an object */
    unsigned depth;
    unsigned depth_max;
} scan;

static const char too_short[] = "unexpected end";

/* At the end of the text every flaw is the same one, whatever was expected there. */
static bool flaw(scan *s, const char *why)
{
    s->why = s->p == s->end ? too_short : why;
    return false;
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static void skip_space(scan *s)
{
    while (s->p < s->end && is_space(*s->p))
        s->p++;
}

/* ------------------------------------------------------------------- strings */

static int hex_value(uint8_t c)
{
    if (is_digit(c))
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hex digits at p, or -1. */
static int hex4(const uint8_t *p, const uint8_t *end)
{
    int v = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_value(p[i]);

        if (digit < 0)
            return -1;
        v = v << 4 | digit;
    }
    return v;
}

static bool is_high_surrogate(int unit)
{
    return unit >= 0xD800 && unit <= 0xDBFF;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xDC00 && unit <= 0xDFFF;
}

/* The low half that must follow a high one: "\uDC00" to "\uDFFF" at p, or -1. */
static int low_half(const uint8_t *p, const uint8_t *end)
{
    int unit;

    if (end - p < 6 || p[0] != '\\' || p[1] != 'u')
        return -1;
    unit = hex4(p + 2, end);
    return is_low_surrogate(unit) ? unit : -1;
}

/*
 * p is at the backslash.  Two escapes that RFC 8259 allows are refused, because jsonb and other
 * parsers cannot hold them: \u0000, and half of a surrogate pair.
 */
static bool take_escape(scan *s)
{
    int unit;

    if (s->end - s->p < 2) {
        s->p = s->end;
        return flaw(s, NULL);
    }
    switch (s->p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't':
        s->p += 2;
        return true;
    case 'u':
        break;
    default:
        return flaw(s, "invalid escape");
    }
    unit = hex4(s->p + 2, s->end);
    if (unit < 0)
        return flaw(s, "invalid \\u escape");
    if (unit == 0)
        return flaw(s, "\\u0000 cannot be stored");
    if (is_low_surrogate(unit))
        return flaw(s, "unpaired surrogate");
    if (is_high_surrogate(unit)) {
        if (low_half(s->p + 6, s->end) < 0)
            return flaw(s, "unpaired surrogate");
        s->p += 6;
    }
    s->p += 6;
    return true;
}

/*
 * A byte is plain when it is ASCII, no control character, no quote and no backslash.  In a word of
 * eight, (v - n * ones) & ~v has the top bit of each byte below n set, and (v ^ c * ones) makes
 * the bytes equal to c zero; a borrow can only raise a false alarm, and only above a true one.
 */
static uint64_t special_bytes(uint64_t v)
{
    uint64_t quote = v ^ (HW_U64_ONES * '"');
    uint64_t backslash = v ^ (HW_U64_ONES * '\\');
    uint64_t found = (v - HW_U64_ONES * 0x20) & ~v;

    found |= (quote - HW_U64_ONES) & ~quote;
    found |= (backslash - HW_U64_ONES) & ~backslash;
    return (found | v) & HW_U64_TOPS;
}

/* The same for one byte. */
static const bool plain[256] = {
    [0x20 ... 0x21] = true,
    [0x23 ... 0x5B] = true,
    [0x5D ... 0x7F] = true,
};

/* A special word is not searched for its byte: the loop over single bytes finds it. */
static void skip_plain(scan *s)
{
    while (s->end - s->p >= 8 && special_bytes(hw_load_u64(s->p)) == 0)
        s->p += 8;
    while (s->p < s->end && plain[*s->p])
        s->p++;
}

/* p is at the opening quote.  A key is taken by the same rules as a value. */
static bool take_string(scan *s)
{
    assert(*s->p == '"');
    s->p++;
    for (;;) {
        size_t n;

        skip_plain(s);
        if (s->p == s->end)
            return flaw(s, NULL);
        if (*s->p == '"') {
            s->p++;
            return true;
        }
        if (*s->p == '\\') {
            if (!take_escape(s))
                return false;
            continue;
        }
        if (*s->p < 0x20)
            return flaw(s, "control character in a string");
        n = hw_utf8_step(s->p, s->end);
        if (n == 0)
            return flaw(s, "invalid UTF-8");
        s->p += n;
    }
}

/* ------------------------------------------------------------ other scalars */

static bool take_digits(scan *s)
{
    const uint8_t *start = s->p;

    while (s->p < s->end && is_digit(*s->p))
        s->p++;
    return s->p > start || flaw(s, "invalid number");
}

static bool take_number(scan *s)
{
    if (*s->p == '-')
        s->p++;
    /* A leading 0 stands alone: in 012 the 1 is then an unexpected character. */
    if (s->p < s->end && *s->p == '0')
        s->p++;
    else if (!take_digits(s))
        return false;
    if (s->p < s->end && *s->p == '.') {
        s->p++;
        if (!take_digits(s))
            return false;
    }
    if (s->p < s->end && (*s->p == 'e' || *s->p == 'E')) {
        s->p++;
        if (s->p < s->end && (*s->p == '+' || *s->p == '-'))
            s->p++;
        if (!take_digits(s))
            return false;
    }
    return true;
}

static bool take_word(scan *s, const char *word)
{
    size_t n = strlen(word);

    if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0)
        return flaw(s, "unexpected character");
    s->p += n;
    return true;
}

/* ---------------------------------------------------------------- structure */

typedef enum state {
    WANT_VALUE,
    WANT_ITEM_OR_CLOSE, /* after '[' */
    WANT_KEY,
    WANT_KEY_OR_CLOSE, /* after '{' */
    WANT_COMMA_OR_CLOSE
} state;

static bool in_object(const scan *s)
{
    return s->depth > 0 && (s->objects >> (s->depth - 1) & 1) != 0;
}

/*
 * The bit of this depth may still be set from a container that is closed: it is always written.
 */
static bool open_container(scan *s, bool object, state *ret_next)
{
    uint64_t bit;

    if (s->depth == s->depth_max)
        return flaw(s, "nested too deep");
    assert(s->depth < HW_JSON_DEPTH_MAX); /* one bit of "objects" each */
    bit = UINT64_C(1) << s->depth++;
    s->objects = object ? s->objects | bit : s->objects & ~bit;
    s->p++;
    *ret_next = object ? WANT_KEY_OR_CLOSE : WANT_ITEM_OR_CLOSE;
    return true;
}

/* A byte order mark gets a message of its own: editors add it, and nobody can see it. */
static bool take_value(scan *s, state *ret_next)
{
    *ret_next = WANT_COMMA_OR_CLOSE;
    switch (*s->p) {
    case '{':
        return open_container(s, true, ret_next);
    case '[':
        return open_container(s, false, ret_next);
    case '"':
        return take_string(s);
    case 't':
        return take_word(s, "true");
    case 'f':
        return take_word(s, "false");
    case 'n':
        return take_word(s, "null");
    default:
        if (*s->p == '-' || is_digit(*s->p))
            return take_number(s);
        return flaw(s, *s->p == 0xEF ? "byte order mark" : "unexpected character");
    }
}

static bool take_key(scan *s, state *ret_next)
{
    if (*s->p != '"')
        return flaw(s, "expected a key");
    if (!take_string(s))
        return false;
    skip_space(s);
    if (s->p == s->end || *s->p != ':')
        return flaw(s, "expected a colon");
    s->p++;
    *ret_next = WANT_VALUE;
    return true;
}

static bool take_comma_or_close(scan *s, state *ret_next)
{
    bool object = in_object(s);

    assert(s->depth > 0);
    if (*s->p == ',') {
        s->p++;
        *ret_next = object ? WANT_KEY : WANT_VALUE;
        return true;
    }
    if (*s->p != (object ? '}' : ']'))
        return flaw(s, "expected a comma or the end of the object or array");
    s->p++;
    s->depth--;
    *ret_next = WANT_COMMA_OR_CLOSE;
    return true;
}

/* A loop with the state in a variable and no recursion, so that no text can exhaust the stack. */
static bool take_document(scan *s)
{
    state now = WANT_VALUE;
    bool good = true;

    while (good && !(now == WANT_COMMA_OR_CLOSE && s->depth == 0)) {
        skip_space(s);
        if (s->p == s->end)
            return flaw(s, NULL);
        switch (now) {
        case WANT_KEY_OR_CLOSE:
            good = *s->p == '}' ? take_comma_or_close(s, &now) : take_key(s, &now);
            break;
        case WANT_ITEM_OR_CLOSE:
            good = *s->p == ']' ? take_comma_or_close(s, &now) : take_value(s, &now);
            break;
        case WANT_KEY:
            good = take_key(s, &now);
            break;
        case WANT_VALUE:
            good = take_value(s, &now);
            break;
        case WANT_COMMA_OR_CLOSE:
            good = take_comma_or_close(s, &now);
            break;
        }
    }
    if (!good)
        return false;
    skip_space(s);
    return s->p == s->end || flaw(s, "text after the document");
}

bool hw_json_valid(const char *text, size_t len, unsigned depth_max, hw_json_flaw *ret_flaw)
{
    const uint8_t *start = (const uint8_t *)text;
    scan s = {start, start + len, NULL, 0, 0, depth_max};

    assert(depth_max <= HW_JSON_DEPTH_MAX);
    if (take_document(&s))
        return true;
    if (ret_flaw)
        *ret_flaw = (hw_json_flaw){s.why, (size_t)(s.p - start)};
    return false;
}

/* -------------------------------------------------------------------- cutting */

/*
 * From the opening quote to after the closing one.  The text was checked before; the bounds hold
 * for any text all the same.
 */
static void skip_string(scan *s)
{
    s->p++;
    while (s->p < s->end && *s->p != '"')
        s->p += *s->p == '\\' && s->end - s->p > 1 ? 2 : 1;
    if (s->p < s->end)
        s->p++;
}

static bool ends_scalar(uint8_t c)
{
    return is_space(c) || c == ',' || c == '}' || c == ']';
}

/* Counts brackets without telling the two kinds apart: in a valid document they match. */
static void skip_value(scan *s)
{
    size_t open = 0;

    if (s->p < s->end && *s->p != '{' && *s->p != '[' && *s->p != '"') {
        while (s->p < s->end && !ends_scalar(*s->p))
            s->p++;
        return;
    }
    while (s->p < s->end) {
        uint8_t c = *s->p;

        if (c == '"') {
            skip_string(s);
        } else {
            open += c == '{' || c == '[';
            open -= open > 0 && (c == '}' || c == ']');
            s->p++;
        }
        if (open == 0)
            return;
    }
}

static bool skip_char(scan *s, uint8_t c)
{
    skip_space(s);
    if (s->p == s->end || *s->p != c)
        return false;
    s->p++;
    return true;
}

/* pos is 0 only before the first member, so it also tells whether '{' or ',' is due. */
bool hw_json_member(const char *text, size_t len, size_t *pos, hw_str *ret_key, hw_str *ret_value)
{
    const uint8_t *start = (const uint8_t *)text;
    scan s = {start + *pos, start + len, NULL, 0, 0, 0};
    const uint8_t *from;
    hw_str key;

    if (!skip_char(&s, *pos == 0 ? '{' : ','))
        return false;
    skip_space(&s);
    if (s.p == s.end || *s.p != '"')
        return false;
    from = s.p + 1;
    skip_string(&s);
    key = (hw_str){text + (from - start), (size_t)(s.p - from) - 1};
    if (!skip_char(&s, ':'))
        return false;
    skip_space(&s);
    from = s.p;
    skip_value(&s);
    *ret_key = key;
    *ret_value = (hw_str){text + (from - start), (size_t)(s.p - from)};
    *pos = (size_t)(s.p - start);
    return true;
}

/* An empty array has no item; after the first one a ',' is due. */
bool hw_json_item(const char *text, size_t len, size_t *pos, hw_str *ret_item)
{
    const uint8_t *start = (const uint8_t *)text;
    scan s = {start + *pos, start + len, NULL, 0, 0, 0};
    const uint8_t *from;

    if (!skip_char(&s, *pos == 0 ? '[' : ','))
        return false;
    skip_space(&s);
    from = s.p;
    if (*pos == 0 && s.p < s.end && *s.p == ']') {
        *pos = (size_t)(s.p - start);
        return false;
    }
    skip_value(&s);
    *ret_item = (hw_str){text + (from - start), (size_t)(s.p - from)};
    *pos = (size_t)(s.p - start);
    return true;
}

bool hw_json_closes(const char *text, size_t len, size_t pos)
{
    const uint8_t *start = (const uint8_t *)text;
    scan s = {start + pos, start + len, NULL, 0, 0, 0};

    if (!skip_char(&s, ']'))
        return false;
    skip_space(&s);
    return s.p == s.end;
}

/* In a valid value the first byte decides.  An empty text counts as null. */
char hw_json_kind(const char *value, size_t len)
{
    const uint8_t *start = (const uint8_t *)value;
    scan s = {start, start + len, NULL, 0, 0, 0};

    skip_space(&s);
    if (s.p == s.end)
        return '0';
    switch (*s.p) {
    case '{':
        return 'o';
    case '[':
        return 'a';
    case '"':
        return 's';
    case 't':
        return 't';
    case 'f':
        return 'f';
    case 'n':
        return '0';
    default:
        return 'n';
    }
}

/* ------------------------------------------------------------------- escapes */

/* c is a code point that four hex digits, or a pair of surrogates, can give: at most U+10FFFF. */
static size_t put_utf8(int c, char out[4])
{
    assert(c >= 0 && c <= 0x10FFFF);
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

/*
 * The escape at p (a backslash) as UTF-8; returns how many bytes of p it took.  A backslash that
 * starts no valid escape is copied as it is, and one byte was taken.
 */
static size_t unescape_one(const uint8_t *p, const uint8_t *end, char out[4], size_t *ret_n)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    const char *simple;
    int unit;
    int low;

    *ret_n = 1;
    out[0] = (char)p[0];
    if (end - p < 2)
        return 1;
    simple = p[1] ? strchr(from, p[1]) : NULL;
    if (simple) {
        out[0] = to[simple - from];
        return 2;
    }
    unit = p[1] == 'u' ? hex4(p + 2, end) : -1;
    if (unit < 0)
        return 1;
    low = is_high_surrogate(unit) ? low_half(p + 6, end) : -1;
    if (low >= 0)
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    *ret_n = put_utf8(unit, out);
    return low >= 0 ? 12 : 6;
}

void hw_json_unescape(const char *raw, size_t len, hw_buf *out)
{
    const char *p = raw;
    const char *end = raw + len;

    while (p < end) {
        const char *escape = memchr(p, '\\', (size_t)(end - p));
        char utf8[4];
        size_t n;

        hw_buf_put(out, p, (size_t)((escape ? escape : end) - p));
        if (!escape)
            return;
        p = escape + unescape_one((const uint8_t *)escape, (const uint8_t *)end, utf8, &n);
        hw_buf_put(out, utf8, n);
    }
}

/* Compares while it unescapes: a line of input has many keys, and none of them needs memory. */
bool hw_json_key_is(hw_str raw_key, const char *name)
{
    const uint8_t *p = (const uint8_t *)raw_key.s;
    const uint8_t *end = p + raw_key.len;
    size_t left = strlen(name);

    while (p < end) {
        char utf8[4];
        size_t n = 1;
        size_t took = 1;

        utf8[0] = (char)*p;
        if (*p == '\\')
            took = unescape_one(p, end, utf8, &n);
        if (n > left || memcmp(utf8, name, n) != 0)
            return false;
        p += took;
        name += n;
        left -= n;
    }
    return left == 0;
}

/* The short forms where JSON has one, as other writers do. */
static void put_escape(hw_buf *out, uint8_t c)
{
    switch (c) {
    case '"':
        hw_buf_puts(out, "\\\"");
        break;
    case '\\':
        hw_buf_puts(out, "\\\\");
        break;
    case '\b':
        hw_buf_puts(out, "\\b");
        break;
    case '\f':
        hw_buf_puts(out, "\\f");
        break;
    case '\n':
        hw_buf_puts(out, "\\n");
        break;
    case '\r':
        hw_buf_puts(out, "\\r");
        break;
    case '\t':
        hw_buf_puts(out, "\\t");
        break;
    default:
        hw_buf_printf(out, "\\u%04x", c);
        break;
    }
}

/* Copies whole runs: most texts need no escape at all. */
void hw_json_put_string(hw_buf *out, const char *text, size_t len)
{
    size_t from = 0; /* start of the run that needs no escape */

    hw_buf_putc(out, '"');
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];

        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        hw_buf_put(out, text + from, i - from);
        put_escape(out, c);
        from = i + 1;
    }
    hw_buf_put(out, text + from, len - from);
    hw_buf_putc(out, '"');
}
