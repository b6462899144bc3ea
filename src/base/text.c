/* text.c - UTF-8, numbers, base64, nearest word, masked URLs: small text things. */
#include "base/text.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/utf8.h"

/* --------------------------------------------------------------------- UTF-8 */

/*
 * Most text is ASCII, so eight bytes are looked at together as long as none has its top bit set.
 */
bool hw_utf8_valid(const char *s, size_t len)
{
    const uint8_t *p = (const uint8_t *)s;
    const uint8_t *end = p + len;

    while (p < end) {
        size_t n;

        if (end - p >= 8 && (hw_load_u64(p) & HW_U64_TOPS) == 0) {
            p += 8;
            continue;
        }
        n = hw_utf8_step(p, end);
        if (n == 0)
            return false;
        p += n;
    }
    return true;
}

/*
 * For texts that others wrote and that we store, such as a handler's error message: PostgreSQL
 * refuses a row with a byte that is not UTF-8, and a message is no reason to lose the row.
 */
void hw_utf8_copy(char *out, size_t room, const char *text)
{
    const uint8_t *p = (const uint8_t *)text;
    const uint8_t *end = p + strlen(text);
    size_t at = 0;

    assert(room > 0);
    while (p < end) {
        size_t n = hw_utf8_step(p, end);
        size_t put = n > 0 ? n : 1;

        if (at + put >= room)
            break;
        if (n > 0)
            memcpy(out + at, p, n);
        else
            out[at] = '?';
        at += put;
        p += put;
    }
    out[at] = '\0';
}

bool hw_utf8_has_control(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)s[i];

        if (c < 0x20 || c == 0x7F)
            return true;
        /* U+0080-009F are C2 80 to C2 9F. */
        if (c == 0xC2 && i + 1 < len && (uint8_t)s[i + 1] < 0xA0)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------- numbers */

/* Digits from *p on.  A negative number is built downwards from 0, so that INT64_MIN fits. */
static bool take_number(const char **p, bool negative, int64_t *ret_value)
{
    const char *start = *p;
    int64_t value = 0;

    for (; **p >= '0' && **p <= '9'; (*p)++) {
        int digit = **p - '0';

        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *ret_value = value;
    return *p != start;
}

/*
 * strtoll() would accept spaces, '+' and trailing text; what people type is checked to the end.
 */
bool hw_parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret_value)
{
    bool negative = *text == '-';
    const char *p = negative ? text + 1 : text;
    int64_t value = 0;

    if (!take_number(&p, negative, &value) || *p != '\0' || value < min || value > max)
        return false;
    *ret_value = value;
    return true;
}

bool hw_parse_bytes(const char *text, int64_t *ret_bytes)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    const char *p = text;
    int64_t value;

    if (!take_number(&p, false, &value))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(p, units[i].name) != 0)
            continue;
        if (__builtin_mul_overflow(value, units[i].bytes, &value))
            return false;
        *ret_bytes = value;
        return true;
    }
    return false;
}

/* -------------------------------------------------------------------- base64 */

static const char base64_digits[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Room is made once for the whole text; the puts below then never allocate. */
void hw_base64_put(hw_buf *out, const void *bytes, size_t n)
{
    const uint8_t *p = bytes;

    if (n > (SIZE_MAX - 4) / 4 * 3) {
        out->broken = HOWDAH_LIMIT;
        return;
    }
    if (!hw_buf_reserve(out, (n + 2) / 3 * 4))
        return;
    for (; n > 0; p += 3) {
        uint32_t v = (uint32_t)p[0] << 16;
        char quad[4];

        v |= n > 1 ? (uint32_t)p[1] << 8 : 0;
        v |= n > 2 ? (uint32_t)p[2] : 0;
        quad[0] = base64_digits[v >> 18];
        quad[1] = base64_digits[v >> 12 & 0x3F];
        quad[2] = n > 1 ? base64_digits[v >> 6 & 0x3F] : '=';
        quad[3] = n > 2 ? base64_digits[v & 0x3F] : '=';
        hw_buf_put(out, quad, sizeof quad);
        n -= n > 3 ? 3 : n;
    }
}

static int base64_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/*
 * Four digits, of which the last "padding" ones are '='. The bits that these leave over must be
 * 0: otherwise several texts would mean the same bytes.
 */
static bool take_quad(const char *text, size_t padding, hw_buf *out)
{
    uint32_t v = 0;
    char bytes[3];

    assert(padding <= 2);
    for (size_t i = 0; i < 4; i++) {
        int digit = i < 4 - padding ? base64_value(text[i]) : 0;

        if (digit < 0)
            return false;
        v = v << 6 | (uint32_t)digit;
    }
    if ((v & ((1u << 8 * padding) - 1)) != 0)
        return false;
    bytes[0] = (char)(v >> 16);
    bytes[1] = (char)(v >> 8 & 0xFF);
    bytes[2] = (char)(v & 0xFF);
    hw_buf_put(out, bytes, 3 - padding);
    return true;
}

/*
 * Padding is allowed in the last quad only; elsewhere '=' is no digit and take_quad() refuses it.
 */
bool hw_base64_get(const char *text, size_t len, hw_buf *out)
{
    if (len % 4 != 0)
        return false;
    for (size_t i = 0; i < len; i += 4) {
        size_t padding = 0;

        if (i + 4 == len && text[i + 3] == '=')
            padding = text[i + 2] == '=' ? 2 : 1;
        if (!take_quad(text + i, padding, out))
            return false;
    }
    return true;
}

/* -------------------------------------------------------------- nearest word */

#define WORD_MAX 63

/* Levenshtein with one row of the table instead of all of it. */
unsigned hw_word_distance(const char *a, const char *b)
{
    unsigned row[WORD_MAX + 1]; /* distance of a's first i bytes to each prefix of b */
    size_t a_len = strlen(a);
    size_t b_len = strlen(b);

    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return UINT_MAX;
    for (unsigned j = 0; j <= b_len; j++)
        row[j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        unsigned diagonal = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= b_len; j++) {
            unsigned best = diagonal + (a[i - 1] != b[j - 1]);

            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[b_len];
}

/* --------------------------------------------------------------- masked URLs */

/*
 * Three rules mark bytes to hide.  Each marked run is then written as ***; or, to strip a URL of
 * its passwords, it is left out together with what leads to it (":", "key=", and the "&" after it).
 *
 *   user info  from the first ':' after "scheme://" to the last '@'.  A password may hold any
 *              of : / ? @ unencoded by mistake, so everything between them is taken for it.
 *   query      the value of a key that is secret, or that hides its name in %xx.
 *   words      the value of a secret key of a connection string; up to the next "key=", because
 *              a password with a forgotten quote goes on after its space.
 */

static bool is_key_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '%';
}

/*
 * A secret word anywhere in the key is enough ("sslpassword", "scram_client_key"), in either
 * case. libpq decodes %xx in a key and we do not, so a key with a % counts as secret.
 */
static bool is_secret_key(const char *key, size_t len)
{
    static const char *const secret[] = {"password", "passwd", "pwd", "secret", "scram_", "token"};

    for (size_t i = 0; i < len; i++) {
        if (key[i] == '%')
            return true;
        for (size_t k = 0; k < sizeof secret / sizeof secret[0]; k++) {
            size_t n = strlen(secret[k]);

            if (len - i >= n && strncasecmp(key + i, secret[k], n) == 0)
                return true;
        }
    }
    return false;
}

/* If "key =" starts at p: where its value starts, else NULL. ret_key_len is set in both cases. */
static const char *value_behind_key(const char *p, size_t *ret_key_len)
{
    const char *key = p;

    while (is_key_char(*p))
        p++;
    *ret_key_len = (size_t)(p - key);
    if (p == key)
        return NULL;
    while (isspace((unsigned char)*p))
        p++;
    if (*p != '=')
        return NULL;
    p++;
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

/* Where the value of a connection string's key ends; see "words" above. */
static const char *word_value_end(const char *p)
{
    char quote = *p == '\'' ? '\'' : '\0';
    size_t key_len;

    if (quote)
        p++;
    for (; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
        } else if (quote) {
            if (*p != quote)
                continue;
            quote = '\0';
            /* A quote inside the password: where it ends cannot be told. */
            if (p[1] && !isspace((unsigned char)p[1]))
                return p + strlen(p);
        } else if (isspace((unsigned char)*p)) {
            const char *next = p;

            while (isspace((unsigned char)*next))
                next++;
            if (*next == '\0' || value_behind_key(next, &key_len))
                return p;
        }
    }
    return p;
}

/* For masking the ':' stays, so that a reader sees that there was a password. */
static void hide_user_info(const char *url, bool strip, char *hide)
{
    const char *scheme = strstr(url, "://");
    const char *from = strchr(scheme ? scheme + 3 : url, ':');
    const char *to = strrchr(url, '@');
    const char *equals = strchr(url, '=');

    if (!from || !to || to < from)
        return;
    /* host=a user=b@c: a connection string, not a URL without its scheme. */
    if (!scheme && equals && equals < from)
        return;
    from += strip ? 0 : 1;
    memset(hide + (from - url), 1, (size_t)(to - from));
}

/* A key that is not secret is skipped as a whole, so that none is looked for in its middle. */
static void hide_values(const char *url, bool strip, char *hide)
{
    bool is_url = strstr(url, "://") != NULL;
    const char *p = url;

    while (*p) {
        size_t key_len;
        const char *value = value_behind_key(p, &key_len);
        const char *end;

        if (value && is_secret_key(p, key_len)) {
            end = is_url ? value + strcspn(value, "&") : word_value_end(value);
            end += strip && *end == '&';
            value = strip ? p : value;
            memset(hide + (value - url), 1, (size_t)(end - value));
            p = end;
        } else {
            p += key_len ? key_len : 1;
        }
    }
}

/* Marks first and writes afterwards, because the rules may mark the same bytes. */
static char *copy_without_secrets(const char *url, bool strip)
{
    const char *instead = strip ? "" : "***";
    bool is_file = strncmp(url, "sqlite:", 7) == 0;
    hw_buf out = HW_BUF_INIT(SIZE_MAX);
    size_t len = strlen(url);
    char *hide = hw_calloc(len + 1, 1); /* one byte for each of url: 1 = do not show */
    char *masked;

    if (!hide)
        return NULL;
    /* A file name has no user info; and with a part left out it would name another file. */
    if (!is_file)
        hide_user_info(url, strip, hide);
    if (!is_file || !strip)
        hide_values(url, strip, hide);
    for (size_t i = 0; i < len; i++) {
        if (!hide[i])
            hw_buf_putc(&out, url[i]);
        else if (i == 0 || !hide[i - 1])
            hw_buf_puts(&out, instead);
    }
    hw_free(hide);
    masked = hw_buf_take(&out);
    hw_buf_done(&out);
    return masked;
}

char *hw_url_mask(const char *url)
{
    return copy_without_secrets(url, false);
}

char *hw_url_strip(const char *url)
{
    return copy_without_secrets(url, true);
}
