/* test_json.c - checking and cutting JSON without a tree. */
#include "unit.h"

#include "base/json.h"
#include "base/text.h"

static bool valid(const char *text, size_t len)
{
    /* A copy of exactly this size, so that a sanitizer sees any byte read behind it. */
    char *copy = malloc(len ? len : 1);
    bool good;

    assert_non_null(copy);
    memcpy(copy, text, len);
    good = hw_json_valid(copy, len, HW_JSON_DEPTH_MAX, NULL);
    free(copy);
    return good;
}

static void documents_of_rfc_8259_are_accepted(void **state)
{
    static const char *const rows[] = {
        "{}",
        "[]",
        "\"\"",
        "0",
        "-0",
        "-1",
        "42",
        "null",
        "true",
        "false",
        " \t\r\n{} \t\r\n",
        "[[]   ]",
        "[\"\"]",
        "[\"a\"]",
        "[1\n]",
        " [1]",
        "[1,null,null,null,2]",
        "[2] ",
        "[123e65]",
        "[0e+1]",
        "[0e1]",
        "[ 4]",
        "[-0.000000000000000000000000000000000000000000000000000000000000000000000000000001]",
        "[20e1]",
        "[-123]",
        "[1E22]",
        "[1E-2]",
        "[1E+2]",
        "[123.456e78]",
        "[123.456789]",
        "[9007199254740993, 18446744073709551616, 1e400]",
        "{\"asd\":\"sdf\", \"dfg\":\"fgh\"}",
        "{\"a\":\"b\",\"a\":\"c\"}",
        "{\"\":0}",
        "{\"foo\\u0062ar\": 42}",
        "{ \"min\": -1.0e+28, \"max\": 1.0e+28 }",
        "{\"x\":[{\"id\": \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}]}",
        "{\"a\":[]}",
        "{\n\"a\": \"b\"\n}",
        "[\"\\u0060\\u012a\\u12AB\"]",
        "[\"\\uD801\\udc37\"]",
        "[\"\\ud83d\\ude39\\ud83d\\udc8d\"]",
        "[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"]",
        "[\"\\\\u0000\"]",
        "[\"\\\"\"]",
        "[\"a/*b*/c/*d//e\"]",
        "[\"\\u0012\"]",
        "[\"\\uFFFF\"]",
        "[\"asd \"]",
        "[\"\xf4\x8f\xbf\xbf\"]",
        "[\"\xef\xbf\xbf\"]",
        "[\"\\u0821\"]",
        "[\"\xCF\x80\"]",
        "[\"\xF0\x9B\xBF\xBF\"]",
        "\" \"",
        "[\"\\uDBFF\\uDFFF\"]",
        "[\"new\\u00A0line\"]",
        "[\"\xe2\x80\xa8\xe2\x80\xa9\"]",
        "[\"\x7f\"]",
        "[\"\xef\xbb\xbf\"]", /* a byte order mark inside a string is a character */
        "[[[[[[[[[[]]]]]]]]]]",
        "{\"a\":{\"b\":{\"c\":[{}]}}}",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (!valid(rows[i], strlen(rows[i])))
            fail_msg("refused: %s", rows[i]);
    }
}

static void everything_else_is_refused(void **state)
{
    static const char *const rows[] = {
        "",
        " ",
        "[",
        "]",
        "{",
        "}",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[,]",
        "[1,,2]",
        "[1 2]",
        "[1:2]",
        "[1 true]",
        "[a]",
        "[\"\": 1]",
        "[\"a\",\n4\n,1,",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{,\"a\":1}",
        "{\"a\" \"b\"}",
        "{\"a\",1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1,,\"b\":2}",
        "{a:1}",
        "{1:1}",
        "{'a':1}",
        "{null:1}",
        "{\"a\":\"b\"}/**/",
        "{\"a\":\"b\"}#",
        "{\"a\":/*c*/\"b\"}",
        "// c\n{}",
        "{}{}",
        "{}}",
        "[]]",
        "1 2",
        "\"a\" \"b\"",
        "nul",
        "nulll",
        "NULL",
        "True",
        "tru",
        "fals",
        "truefalse",
        "NaN",
        "-NaN",
        "Infinity",
        "-Infinity",
        "Inf",
        "+1",
        "-",
        "--1",
        "- 1",
        "01",
        "-01",
        "00",
        "1.",
        ".1",
        "-.1",
        "1.e1",
        "1e",
        "1e+",
        "1E-",
        "1e1.5",
        "1eE2",
        "0x1F",
        "1_000",
        "1a",
        "\xEF\xBC\x91", /* a full width digit */
        "\"",
        "\"a",
        "'a'",
        "\"\\\"",
        "\"\\",
        "\"\\a\"",
        "\"\\x00\"",
        "\"\\'\"",
        "\"\\ \"",
        "\"\\U0041\"",
        "\"\\u\"",
        "\"\\u0\"",
        "\"\\u00\"",
        "\"\\u004\"",
        "\"\\u004g\"",
        "\"\\u 041\"",
        "\"\\u+041\"",
        "\"\\",
        "\"\\u",
        "\"\\u00",
        "\"\\u0041",
        "\"tab\t\"",
        "\"newline\n\"",
        "\"\x01\"",
        "\"\x1f\"",
        "\xEF\xBB\xBF{}",
        "\xEF\xBB\xBF",
        "\xFF\xFE{",
        "{}\x0c",
        "\x0b[]",
        "\xC2\xA0[]",     /* a no-break space */
        "[\xE2\x81\xA0]", /* a word joiner */
        "\"\x80\"",       /* not UTF-8 */
        "\"\xC0\xAF\"",
        "\"\xED\xA0\x80\"",
        "\"\xF4\x90\x80\x80\"",
        "\"\xE2\x82\"",
        "\"\xE2\x82",
        "\xE2\x82",
        "[\"\xFF\"]",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (valid(rows[i], strlen(rows[i])))
            fail_msg("accepted: %s", rows[i]);
    }
    assert_false(valid("\0", 1));
    assert_false(valid("{}\0", 3));
    assert_false(valid("\"a\0b\"", 5));
    assert_false(valid("[\0]", 3));
}

static void a_refusal_says_why_and_where(void **state)
{
    static const struct {
        const char *text;
        const char *why;
        size_t offset;
    } rows[] = {
        {"", "unexpected end", 0},
        {"  ", "unexpected end", 2},
        {"[1,", "unexpected end", 3},
        {"\"abc", "unexpected end", 4},
        {"\"abc\\", "unexpected end", 5},
        {"{\"a\":1", "unexpected end", 6},
        {"{\"a\"", "unexpected end", 4},
        {"-", "unexpected end", 1},
        {"{\"a\":nul}", "unexpected character", 5},
        {"[1,]", "unexpected character", 3},
        {"{\"a\":1,}", "expected a key", 7},
        {"{1:2}", "expected a key", 1},
        {"{\"a\" 1}", "expected a colon", 5},
        {"[1 2]", "expected a comma or the end of the object or array", 3},
        {"{} x", "text after the document", 3},
        {"01", "text after the document", 1},
        {"-x", "invalid number", 1},
        {"1.x", "invalid number", 2},
        {"\xEF\xBB\xBF{}", "byte order mark", 0},
        {"{\"data\":\"abcdefgh\\q\"}", "invalid escape", 17},
        {"\"\\u12G4\"", "invalid \\u escape", 1},
        {"\"\\u0000\"", "\\u0000 cannot be stored", 1},
        {"\"x\\ud800\"", "unpaired surrogate", 2},
        {"\"x\\udc00\"", "unpaired surrogate", 2},
        {"\"a\tb\"", "control character in a string", 2},
        {"\"0123456789\xFF\"", "invalid UTF-8", 11},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_json_flaw flaw = {NULL, 999};

        assert_false(hw_json_valid(rows[i].text, strlen(rows[i].text), 64, &flaw));
        assert_string_equal(flaw.why, rows[i].why);
        if (flaw.offset != rows[i].offset)
            fail_msg("row %zu: at %zu, should be %zu", i, flaw.offset, rows[i].offset);
    }
}

static void the_three_refusals_hold_in_keys_and_values(void **state)
{
    static const char *const rows[] = {
        "{\"\\u0000\":1}",
        "{\"a\":\"\\u0000\"}",
        "[\"x\\u0000y\"]",
        "[\"\\ud800\"]",
        "[\"\\uD800\\u0041\"]",
        "[\"\\uD800\\uD800\\uDC00\"]",
        "[\"\\uD800x\"]",
        "[\"\\uD800\\n\"]",
        "[\"\\uDC00\\uD800\"]",
        "[\"\\udbff\\ue000\"]",
        "[\"\\ud800\\udc0\"]",
        "{\"\\udfff\":1}",
        "\"\\ud800",
        "\"\\ud800\\",
        "\"\\ud800\\u",
        "\"\\ud800\\udc00",
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (valid(rows[i], strlen(rows[i])))
            fail_msg("accepted: %s", rows[i]);
    }
}

/* open n times, close n times, alternating between the two kinds when mixed. */
static size_t nest(char *out, unsigned n, bool mixed)
{
    size_t len = 0;

    for (unsigned i = 0; i < n; i++) {
        bool object = mixed && i % 2 == 1;

        len += (size_t)sprintf(out + len, object ? "{\"k\":" : "[");
    }
    out[len++] = '1';
    for (unsigned i = n; i > 0; i--)
        out[len++] = mixed && (i - 1) % 2 == 1 ? '}' : ']';
    out[len] = '\0';
    return len;
}

static void depth_counts_containers_and_stops_at_the_limit(void **state)
{
    char text[1000];
    hw_json_flaw flaw;

    (void)state;
    for (unsigned depth = 0; depth <= 70; depth++) {
        for (int mixed = 0; mixed < 2; mixed++) {
            size_t len = nest(text, depth, mixed != 0);

            assert_int_equal(hw_json_valid(text, len, 64, NULL), depth <= 64);
            assert_int_equal(hw_json_valid(text, len, 1, NULL), depth <= 1);
            assert_int_equal(hw_json_valid(text, len, 0, NULL), depth == 0);
        }
    }
    assert_false(hw_json_valid(text, nest(text, 65, false), 64, &flaw));
    assert_string_equal(flaw.why, "nested too deep");
    assert_i64_equal((int64_t)flaw.offset, 64);
    /* Siblings do not add up. */
    assert_true(hw_json_valid("[[],[],[[]],{}]", 15, 3, NULL));
}

static void a_hundred_thousand_brackets_are_refused_without_recursion(void **state)
{
    size_t n = 100000;
    char *text = malloc(n);

    (void)state;
    assert_non_null(text);
    memset(text, '[', n);
    assert_false(hw_json_valid(text, n, 64, NULL));
    free(text);
}

static void a_special_byte_is_seen_at_every_place_of_a_word(void **state)
{
    (void)state;
    for (size_t at = 1; at < 30; at++) {
        for (int c = 0; c < 256; c++) {
            char text[33];
            bool plain = c >= 0x20 && c != '"' && c != '\\' && c < 0x80;

            memset(text, 'x', sizeof text);
            text[0] = '"';
            text[31] = '"';
            text[at] = (char)c;
            if (valid(text, 32) != plain)
                fail_msg("byte %d at %zu", c, at);
        }
    }
}

/* ------------------------------------------------- the naive reference parser */

/* The grammar of RFC 8259 word by word, recursive, slow: to compare with. */
typedef struct naive {
    const char *p;
    const char *end;
    int depth;
} naive;

static bool naive_value(naive *n);

static void naive_space(naive *n)
{
    while (n->p < n->end && memchr(" \t\r\n", *n->p, 4))
        n->p++;
}

static bool naive_eat(naive *n, const char *text)
{
    size_t len = strlen(text);

    if ((size_t)(n->end - n->p) < len || memcmp(n->p, text, len) != 0)
        return false;
    n->p += len;
    return true;
}

static bool naive_digits(naive *n)
{
    const char *start = n->p;

    while (n->p < n->end && *n->p >= '0' && *n->p <= '9')
        n->p++;
    return n->p > start;
}

static bool naive_number(naive *n)
{
    (void)naive_eat(n, "-");
    if (!naive_eat(n, "0") && !naive_digits(n))
        return false;
    if (naive_eat(n, ".") && !naive_digits(n))
        return false;
    if (naive_eat(n, "e") || naive_eat(n, "E")) {
        if (!naive_eat(n, "+"))
            (void)naive_eat(n, "-");
        return naive_digits(n);
    }
    return true;
}

static long naive_unit(naive *n)
{
    char hex[5] = "";
    char *end;
    long unit;

    if (!naive_eat(n, "\\u") || n->end - n->p < 4)
        return -1;
    memcpy(hex, n->p, 4);
    if (strspn(hex, "0123456789abcdefABCDEF") != 4)
        return -1;
    unit = strtol(hex, &end, 16);
    n->p += 4;
    return unit;
}

static bool naive_escape(naive *n)
{
    long unit;

    if (n->end - n->p >= 2 && n->p[1] && strchr("\"\\/bfnrt", n->p[1])) {
        n->p += 2;
        return true;
    }
    unit = naive_unit(n);
    if (unit >= 0xD800 && unit < 0xDC00) {
        unit = naive_unit(n);
        return unit >= 0xDC00 && unit < 0xE000;
    }
    return unit > 0 && !(unit >= 0xDC00 && unit < 0xE000);
}

static bool naive_string(naive *n)
{
    const char *start = n->p;

    if (!naive_eat(n, "\""))
        return false;
    while (n->p < n->end && *n->p != '"') {
        if (*n->p == '\\') {
            if (!naive_escape(n))
                return false;
        } else if ((unsigned char)*n->p++ < 0x20) {
            return false;
        }
    }
    return naive_eat(n, "\"") && hw_utf8_valid(start, (size_t)(n->p - start));
}

static bool naive_member(naive *n, bool object)
{
    if (!object)
        return naive_value(n);
    naive_space(n);
    if (!naive_string(n))
        return false;
    naive_space(n);
    return naive_eat(n, ":") && naive_value(n);
}

static bool naive_container(naive *n, bool object)
{
    n->p++;
    if (++n->depth > 64)
        return false;
    naive_space(n);
    if (!naive_eat(n, object ? "}" : "]")) {
        do {
            if (!naive_member(n, object))
                return false;
        } while (naive_eat(n, ","));
        if (!naive_eat(n, object ? "}" : "]"))
            return false;
    }
    n->depth--;
    return true;
}

static bool naive_value(naive *n)
{
    bool good;

    naive_space(n);
    if (n->p == n->end)
        return false;
    if (*n->p == '{' || *n->p == '[')
        good = naive_container(n, *n->p == '{');
    else if (*n->p == '"')
        good = naive_string(n);
    else
        good = naive_eat(n, "true") || naive_eat(n, "false") || naive_eat(n, "null") ||
               naive_number(n);
    naive_space(n);
    return good;
}

static bool naive_valid(const char *text, size_t len)
{
    naive n = {text, text + len, 0};

    return naive_value(&n) && n.p == n.end;
}

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static size_t mutate(char *text, size_t len, uint64_t *seed)
{
    static const char alphabet[] = "{}[]\",:\\u0d8cDF-+.eE1 tnfr\n\x80\xC3\xED\xA0";
    size_t changes = 1 + next_random(seed) % 3;

    while (changes-- > 0 && len > 1) {
        size_t at = next_random(seed) % len;
        char c = alphabet[next_random(seed) % (sizeof alphabet - 1)];

        switch (next_random(seed) % 3) {
        case 0:
            text[at] = c;
            break;
        case 1:
            memmove(text + at, text + at + 1, len - at - 1);
            len--;
            break;
        default:
            memmove(text + at + 1, text + at, len - at);
            text[at] = c;
            len++;
            break;
        }
    }
    return len;
}

static void mutated_documents_get_the_verdict_of_a_naive_parser(void **state)
{
    static const char *const seeds[] = {
        "{\"a\":[1,-2.5e3,true,false,null],\"b\":{\"c\":\"d\\u00e9\\n\"}}",
        "[\"\\ud83d\\ude00\",\"\\\\\",\"\xC3\xA9\xED\x95\x9C\"]",
        "[[[[{\"x\":[]}]]]]",
        "\"0123456789abcdef\\\"0123456789\"",
        " [ 0 , -0.0 , 1e10 , 1E+2 ] ",
        "{\"\":{},\"k\":[{\"k\":[]}]}",
    };
    uint64_t seed = 1;
    unsigned accepted = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char text[200];
        const char *from = seeds[next_random(&seed) % COUNT_OF(seeds)];
        size_t len = strlen(from);
        bool good;

        memcpy(text, from, len);
        len = mutate(text, len, &seed);
        good = naive_valid(text, len);
        accepted += good;
        if (hw_json_valid(text, len, 64, NULL) != good)
            fail_msg("%s: %.*s", good ? "refused" : "accepted", (int)len, text);
    }
    /* Both verdicts occur often enough to mean something. */
    assert_true(accepted > 10000 && accepted < 190000);
}

/* --------------------------------------------------------------------- cutting */

static void members_are_cut_to_the_dead_letter(void **state)
{
    const char *text =
        " { \"a\" : 1 ,\"b\":\"x,}\\\"y\" , \"\":{\"c\":[1,\"]\"]}\n,\"d\\u0065\":[ ],"
        "\"n\":-1.50e3,\"t\":true }";
    static const struct {
        const char *key;
        const char *value;
        char kind;
    } rows[] = {
        {"a", "1", 'n'},          {"b", "\"x,}\\\"y\"", 's'}, {"", "{\"c\":[1,\"]\"]}", 'o'},
        {"d\\u0065", "[ ]", 'a'}, {"n", "-1.50e3", 'n'},      {"t", "true", 't'},
    };
    size_t pos = 0;
    hw_str key;
    hw_str value;

    (void)state;
    assert_true(hw_json_valid(text, strlen(text), 64, NULL));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_true(hw_json_member(text, strlen(text), &pos, &key, &value));
        assert_str_is(key, rows[i].key);
        assert_str_is(value, rows[i].value);
        assert_int_equal(hw_json_kind(value.s, value.len), rows[i].kind);
    }
    assert_false(hw_json_member(text, strlen(text), &pos, &key, &value));
    assert_false(hw_json_member(text, strlen(text), &pos, &key, &value));
    assert_str_is(key, "t");
}

static void what_is_no_object_has_no_members(void **state)
{
    static const char *const rows[] = {"{}", " { } ", "[]", "[1]", "1", "\"{\"", "null", "true"};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        size_t pos = 0;
        hw_str key;
        hw_str value;

        assert_false(hw_json_member(rows[i], strlen(rows[i]), &pos, &key, &value));
    }
}

/* The contract asks for valid text; a mistake of ours must still not read outside. */
static void cutting_broken_text_stays_inside_it(void **state)
{
    const char *text = "{\"key\\\":\"a\":[{\"b\":\"c\\\"\"}],\"d\":1}";

    (void)state;
    for (size_t len = 0; len <= strlen(text); len++) {
        char *copy = malloc(len + 1);
        size_t pos = 0;
        hw_str key;
        hw_str value;

        assert_non_null(copy);
        memcpy(copy, text, len);
        copy = realloc(copy, len ? len : 1);
        assert_non_null(copy);
        for (int i = 0; i < 5 && hw_json_member(copy, len, &pos, &key, &value); i++) {
            assert_true(key.s >= copy && key.s + key.len <= copy + len);
            assert_true(value.s >= copy && value.s + value.len <= copy + len);
        }
        free(copy);
    }
}

static void kinds_are_told_by_the_first_byte(void **state)
{
    static const struct {
        const char *text;
        char kind;
    } rows[] = {{"{}", 'o'}, {" []", 'a'},  {"\"x\"", 's'}, {"0", 'n'},
                {"-1", 'n'}, {"true", 't'}, {"false", 'f'}, {"null", '0'}};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(hw_json_kind(rows[i].text, strlen(rows[i].text)), rows[i].kind);
}

static void escapes_become_utf8(void **state)
{
    static const struct {
        const char *raw;
        const char *text;
    } rows[] = {
        {"", ""},
        {"plain", "plain"},
        {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t"},
        {"\\u0041", "A"},
        {"a\\u00e9b", "a\xC3\xA9"
                      "b"},
        {"\\u20AC", "\xE2\x82\xAC"},
        {"\\uffff", "\xEF\xBF\xBF"},
        {"\\ud83d\\ude00!", "\xF0\x9F\x98\x80!"},
        {"\\uDBFF\\uDFFF", "\xF4\x8F\xBF\xBF"},
        {"\\\\u0041", "\\u0041"},
        {"\xC3\xA9\\t", "\xC3\xA9\t"},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        hw_buf out = HW_BUF_INIT(100);
        hw_str raw = hw_str_of(rows[i].raw);

        hw_json_unescape(raw.s, raw.len, &out);
        assert_string_equal(hw_buf_str(&out), rows[i].text);
        hw_buf_done(&out);
        assert_true(hw_json_key_is(raw, rows[i].text));
    }
}

static void a_key_is_compared_as_it_reads(void **state)
{
    (void)state;
    assert_true(hw_json_key_is(HW_STR_LIT("t\\u006ftal"), "total"));
    assert_false(hw_json_key_is(HW_STR_LIT("total"), "tota"));
    assert_false(hw_json_key_is(HW_STR_LIT("tota"), "total"));
    assert_false(hw_json_key_is(HW_STR_LIT(""), "x"));
    assert_false(hw_json_key_is(HW_STR_LIT("\\u20ac"), "\xE2\x82"));
    assert_false(hw_json_key_is(HW_STR_LIT("total"), "Total"));
}

static void written_strings_are_valid_and_read_back(void **state)
{
    char all[130];
    hw_buf out = HW_BUF_INIT(2000);
    hw_buf back = HW_BUF_INIT(2000);

    (void)state;
    hw_json_put_string(&out, "a\"b\\c\b\f\n\r\t\x01\x7F/\xC3\xA9", 15);
    assert_string_equal(hw_buf_str(&out), "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\\u0001\x7F/\xC3\xA9\"");
    hw_buf_clear(&out);
    hw_json_put_string(&out, "", 0);
    assert_string_equal(hw_buf_str(&out), "\"\"");
    hw_buf_clear(&out);
    for (int i = 1; i < 128; i++)
        all[i - 1] = (char)i;
    hw_json_put_string(&out, all, 127);
    assert_true(hw_json_valid(hw_buf_str(&out), out.len, 64, NULL));
    hw_json_unescape(hw_buf_str(&out) + 1, out.len - 2, &back);
    assert_i64_equal((int64_t)back.len, 127);
    assert_memory_equal(hw_buf_str(&back), all, 127);
    hw_buf_done(&out);
    hw_buf_done(&back);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_of_rfc_8259_are_accepted),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(a_refusal_says_why_and_where),
        cmocka_unit_test(the_three_refusals_hold_in_keys_and_values),
        cmocka_unit_test(depth_counts_containers_and_stops_at_the_limit),
        cmocka_unit_test(a_hundred_thousand_brackets_are_refused_without_recursion),
        cmocka_unit_test(a_special_byte_is_seen_at_every_place_of_a_word),
        cmocka_unit_test(mutated_documents_get_the_verdict_of_a_naive_parser),
        cmocka_unit_test(members_are_cut_to_the_dead_letter),
        cmocka_unit_test(what_is_no_object_has_no_members),
        cmocka_unit_test(cutting_broken_text_stays_inside_it),
        cmocka_unit_test(kinds_are_told_by_the_first_byte),
        cmocka_unit_test(escapes_become_utf8),
        cmocka_unit_test(a_key_is_compared_as_it_reads),
        cmocka_unit_test(written_strings_are_valid_and_read_back),
    };

    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
