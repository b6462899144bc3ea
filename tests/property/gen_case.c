/*
 * gen_case.c - a whole case: a sound event of which one field, or a few, are near an edge.
 *
 * Most cases probe one field, so that its verdict does not hide behind another's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/uuid.h"
#include "property.h"

/* ---------------------------------------------------------------------- texts */

static void text_done(text *t)
{
    hw_buf_done(&t->buf);
}

static void text_clear(text *t)
{
    t->buf.len_max = SIZE_MAX;
    hw_buf_clear(&t->buf);
    t->has = false;
}

static void believe(candidate *c, field f, belief known)
{
    c->good &= ~BIT(f);
    c->bad &= ~BIT(f);
    if (known == GOOD)
        c->good |= BIT(f);
    if (known == BAD)
        c->bad |= BIT(f);
}

#define EACH_TEXT(c)                                                                               \
    {                                                                                              \
        &(c)->stream, &(c)->type, &(c)->data, &(c)->content_type, &(c)->headers,                   \
            &(c)->correlation, &(c)->actor, &(c)->id, &(c)->causation, &(c)->valid_time,           \
            &(c)->raw_member, &(c)->raw_value, &(c)->pair_name[0], &(c)->pair_name[1],             \
            &(c)->pair_name[2], &(c)->pair_value[0], &(c)->pair_value[1], &(c)->pair_value[2]      \
    }

void candidate_done(candidate *c)
{
    text *const texts[] = EACH_TEXT(c);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        text_done(texts[i]);
}

static void clear(candidate *c)
{
    text *const texts[] = EACH_TEXT(c);

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        text_clear(texts[i]);
    c->has_valid_time_us = c->has_schema_version = c->expects = false;
    c->header_pairs = c->line_only = false;
    c->valid_time_us = c->schema_version = c->expected = 0;
    c->before = 0;
    c->pairs_n = 0;
    c->good = BIT(FIELD_COUNT) - 1; /* what is not probed is sound */
    c->bad = 0;
}

/* ------------------------------------------------------------------------- ids */

/* "case" in letters, the kth event before, the number. */
void candidate_id(uint64_t number, unsigned k, char ret_uuid[HOWDAH_UUID_SIZE])
{
    (void)snprintf(ret_uuid, HOWDAH_UUID_SIZE, "63617365-%04x-7000-8000-%012" PRIx64, k,
                   number & UINT64_C(0xFFFFFFFFFFFF));
}

bool candidate_of_id(const char *uuid, uint64_t *ret_number, unsigned *ret_k)
{
    return sscanf(uuid, "63617365-%4x-7000-8000-%12" SCNx64, ret_k, ret_number) == 2;
}

/* --------------------------------------------------------------------- probing */

static void probe_name(candidate *c, dice *d, text *t, field f)
{
    t->has = true;
    believe(c, f, gen_name(d, &t->buf));
}

static void probe_stream(candidate *c, dice *d)
{
    probe_name(c, d, &c->stream, F_STREAM);
    if (dice_percent(d, 2)) {
        c->stream.has = false;
        believe(c, F_STREAM, BAD);
    }
}

static void probe_type(candidate *c, dice *d)
{
    c->type.has = true;
    believe(c, F_TYPE, gen_type(d, &c->type.buf));
    if (dice_percent(d, 2)) {
        c->type.has = false;
        believe(c, F_TYPE, BAD);
    }
}

static void probe_data(candidate *c, dice *d)
{
    c->content_type.has = false;
    believe(c, F_CONTENT_TYPE, GOOD);
    believe(c, F_DATA, gen_json(d, &c->data.buf));
}

static void probe_bytes(candidate *c, dice *d)
{
    size_t len = dice_percent(d, 20) ? PAYLOAD_MAX - 1 + dice_below(d, 3) : dice_below(d, 20);

    hw_buf_clear(&c->data.buf);
    while (c->data.buf.len < len)
        hw_buf_putc(&c->data.buf, (char)dice_below(d, 256));
    believe(c, F_DATA, len <= PAYLOAD_MAX ? GOOD : BAD);
    c->content_type.has = true;
    believe(c, F_CONTENT_TYPE, gen_content_type(d, &c->content_type.buf));
}

static void probe_headers(candidate *c, dice *d)
{
    c->headers.has = true;
    c->header_pairs = false;
    believe(c, F_HEADERS, gen_headers(d, &c->headers.buf));
}

/* Names and values one by one; the text is what the builder must make of them. */
static void probe_header_pairs(candidate *c, dice *d)
{
    belief known = GOOD;

    c->pairs_n = 1 + dice_below(d, PAIRS_MAX);
    c->header_pairs = c->headers.has = true;
    hw_buf_clear(&c->headers.buf);
    for (size_t i = 0; i < c->pairs_n; i++) {
        hw_buf *name = &c->pair_name[i].buf;
        hw_buf *value = &c->pair_value[i].buf;

        if (gen_name(d, name) == BAD)
            known = BAD;
        /* A value may be empty, long, and have control characters; it must be UTF-8. */
        if (gen_name(d, value) == BAD && known == GOOD)
            known = UNSURE;
        hw_buf_putc(&c->headers.buf, i ? ',' : '{');
        hw_json_put_string(&c->headers.buf, hw_buf_str(name), name->len);
        hw_buf_putc(&c->headers.buf, ':');
        hw_json_put_string(&c->headers.buf, hw_buf_str(value), value->len);
    }
    hw_buf_putc(&c->headers.buf, '}');
    believe(c, F_HEADERS, known);
}

static void probe_valid_time(candidate *c, dice *d)
{
    static const int64_t edges[] = {HW_TIME_MIN_US,
                                    HW_TIME_MIN_US - 1,
                                    HW_TIME_MIN_US + 1,
                                    HW_TIME_MAX_US,
                                    HW_TIME_MAX_US + 1,
                                    HW_TIME_MAX_US - 1,
                                    INT64_MIN,
                                    INT64_MAX,
                                    0,
                                    -1,
                                    1,
                                    -1000001,
                                    INT64_MIN + 1,
                                    946684800000000,
                                    946684799999999};

    if (dice_percent(d, 60)) {
        c->valid_time.has = true;
        believe(c, F_VALID_TIME, gen_time_text(d, &c->valid_time.buf));
        return;
    }
    c->valid_time.has = false;
    c->has_valid_time_us = true;
    c->valid_time_us = dice_percent(d, 70) ? DICE_PICK(d, edges) : (int64_t)dice_u64(d);
    believe(c, F_VALID_TIME,
            c->valid_time_us >= HW_TIME_MIN_US && c->valid_time_us <= HW_TIME_MAX_US ? GOOD : BAD);
}

static void probe_schema_version(candidate *c, dice *d)
{
    static const int64_t edges[] = {0,         1,  2,         INT32_MAX, (int64_t)INT32_MAX + 1,
                                    INT32_MIN, -1, INT64_MAX, INT64_MIN, 4294967297,
                                    1000};

    c->has_schema_version = true;
    c->schema_version = DICE_PICK(d, edges);
    believe(c, F_SCHEMA_VERSION,
            c->schema_version >= 1 && c->schema_version <= INT32_MAX ? GOOD : BAD);
}

static void probe_expected(candidate *c, dice *d)
{
    static const int64_t edges[] = {-4, -3, -2, -1, 0, 1, 2, 3, INT64_MAX, INT64_MIN, -2, 0, 1, 2};

    c->before = dice_below(d, 4);
    c->expects = true;
    c->expected = DICE_PICK(d, edges);
    believe(c, F_EXPECTED, c->expected >= HOWDAH_EXPECT_EXISTS ? GOOD : BAD);
}

static void probe_causation(candidate *c, dice *d)
{
    c->causation.has = true;
    believe(c, F_CAUSATION,
            gen_uuid_text(d, "0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a", &c->causation.buf));
}

static void probe_id(candidate *c, dice *d)
{
    char own[HOWDAH_UUID_SIZE];

    candidate_id(c->number, 0, own);
    believe(c, F_ID, gen_uuid_text(d, own, &c->id.buf));
}

static void probe(candidate *c, dice *d)
{
    switch (dice_below(d, 24)) {
    case 0:
    case 1:
    case 2:
        probe_stream(c, d);
        break;
    case 3:
    case 4:
    case 5:
        probe_type(c, d);
        break;
    case 6:
    case 7:
        probe_name(c, d, &c->correlation, F_CORRELATION);
        break;
    case 8:
        probe_name(c, d, &c->actor, F_ACTOR);
        break;
    case 9:
        probe_bytes(c, d);
        break;
    case 10:
    case 11:
    case 12:
        probe_headers(c, d);
        break;
    case 13:
        probe_header_pairs(c, d);
        break;
    case 14:
        probe_valid_time(c, d);
        break;
    case 15:
        probe_schema_version(c, d);
        break;
    case 16:
        probe_expected(c, d);
        break;
    case 17:
        probe_causation(c, d);
        break;
    case 18:
        probe_id(c, d);
        break;
    default:
        probe_data(c, d);
        break;
    }
}

/* ---------------------------------------------------------------- lines only */

/* One member that is something else: wrong kinds, forms that only a line can have. */
static void make_line_only(candidate *c, dice *d)
{
    static const char *const members[] = {"stream",         "type",
                                          "headers",        "correlation_id",
                                          "actor",          "id",
                                          "causation_id",   "valid_time",
                                          "schema_version", "expect",
                                          "data_base64",    "content_type",
                                          "schema_version", "expect",
                                          "data_base64",    "valid_time",
                                          "causation_id",   "global_sequence",
                                          "version",        "recorded_at",
                                          "family",         "revision",
                                          "corrects",       "reason",
                                          "strem",          "Stream",
                                          "stream ",        "",
                                          "expected",       "a-name-that-no-event-has-0123456789",
                                          "\\u0061ctor",    "data_base64",
                                          "\\u0000",        "\xC3\xA9v\xC3\xA9nement"};
    static const char *const values[] = {"null",
                                         "true",
                                         "false",
                                         "0",
                                         "1",
                                         "-1",
                                         "-0",
                                         "1.0",
                                         "1e0",
                                         "5",
                                         "1E2",
                                         "2147483647",
                                         "2147483648",
                                         "99999999999999999999",
                                         "9223372036854775807",
                                         "9223372036854775808",
                                         "\"\"",
                                         "\"x\"",
                                         "\"5\"",
                                         "\"-1\"",
                                         "\" 5\"",
                                         "\"5 \"",
                                         "\"+5\"",
                                         "\"any\"",
                                         "\"ANY\"",
                                         "\"none\"",
                                         "\"exists\"",
                                         "\"0\"",
                                         "[]",
                                         "{}",
                                         "[1]",
                                         "{\"a\":\"b\"}",
                                         "{\"a\":1}",
                                         "\"aGk=\"",
                                         "\"aGk\"",
                                         "\"aGl=\"",
                                         "\"aG k=\"",
                                         "\"aGkh\"",
                                         "\"====\"",
                                         "\"a===\"",
                                         "\"aA==\"",
                                         "\"aB==\"",
                                         "\"aG\\nk=\"",
                                         "\"aGk-\"",
                                         "\"text/plain\"",
                                         "\"a/b\"",
                                         "\"0190a5c8-7b1e-7cc0-8000-1f2e3d4c5b6a\"",
                                         "\"2026-01-31T09:30:00Z\"",
                                         "\"a.b\"",
                                         "\"1e5\"",
                                         "\"007\"",
                                         "007",
                                         "\"\\u0035\"",
                                         "\"\\u0000\"",
                                         "\"a\\u0000b\"",
                                         "\"\\ud800\"",
                                         "\"\xEF\xBC\x95\"",
                                         "\"infinity\"",
                                         "1e999999",
                                         "\"9223372036854775808\""};
    const char *member = DICE_PICK(d, members);

    c->line_only = true;
    hw_buf_puts(&c->raw_member.buf, member);
    if (strcmp(member, "id") == 0) /* a good one would not be this case's */
        hw_buf_puts(&c->raw_value.buf, values[dice_below(d, 40)]);
    else
        hw_buf_puts(&c->raw_value.buf, DICE_PICK(d, values));
    /* Both parts of a payload that is no JSON. */
    if (dice_percent(d, 30)) {
        c->content_type.has = true;
        hw_buf_puts(&c->content_type.buf, "a/b");
        hw_buf_clear(&c->data.buf);
        hw_buf_puts(&c->data.buf, "hi");
    }
}

/* ------------------------------------------------------------------- the case */

void candidate_make(candidate *c, uint64_t seed, uint64_t number)
{
    static const uint8_t probes[] = {0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3};
    char id[HOWDAH_UUID_SIZE];
    dice d;

    dice_start(&d, seed, number);
    clear(c);
    c->number = number;
    candidate_id(number, 0, id);
    hw_buf_puts(&c->id.buf, id);
    hw_buf_printf(&c->stream.buf, "case-%" PRIu64, number);
    hw_buf_puts(&c->type.buf, "case.made");
    gen_plain_json(&d, &c->data.buf);
    c->id.has = c->stream.has = c->type.has = c->data.has = true;
    if (dice_percent(&d, 20)) {
        c->correlation.has = true;
        hw_buf_printf(&c->correlation.buf, "flow-%u", dice_below(&d, 50));
    }
    if (dice_percent(&d, 5)) {
        make_line_only(c, &d);
        return;
    }
    for (unsigned n = DICE_PICK(&d, probes); n > 0; n--)
        probe(c, &d);
    /* Whose stream is shared knows nothing about its version. */
    if (c->expects && (!c->stream.has || strncmp(hw_buf_str(&c->stream.buf), "case-", 5) != 0)) {
        c->before = 0;
        if (c->expected >= HOWDAH_EXPECT_EXISTS)
            c->expected = HOWDAH_EXPECT_ANY;
    }
}
