/* fields_in.c - see fields_in.h. */
#include "gateway/fields_in.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "face/json_in.h"

#define TEXT_MAX ((size_t)1024 * 1024)

static int expected(const gw_field *f, const char *what, howdah_error *reterr)
{
    return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected %s", what);
}

/* Unescaped, behind what is kept for this request already. */
static int text_of(hw_str value, char **at, const char **ret_text, howdah_error *reterr)
{
    hw_buf text = HW_BUF_INIT(TEXT_MAX);
    int s;

    hw_json_unescape(value.s + 1, value.len - 2, &text);
    s = hw_buf_check(&text, reterr);
    if (s >= 0) { /* unescaping only shortens: it has room where the value has */
        memcpy(*at, hw_buf_str(&text), text.len + 1);
        *ret_text = *at;
        *at += text.len + 1;
    }
    hw_buf_done(&text);
    return s;
}

/* A text will do: there are languages whose numbers lose digits above 2^53. */
static int take_number(const gw_field *f, hw_str value, const char *text, howdah_error *reterr)
{
    char number[FACE_NUMBER_TEXT];

    if (!text && face_number_text(value, number))
        text = number;
    if (text && hw_parse_i64(text, f->min, f->max, f->number))
        return HOWDAH_OK;
    return hw_fail_field(reterr, HOWDAH_INVALID, f->name,
                         "expected a whole number, %" PRId64 " to %" PRId64, f->min, f->max);
}

static int take_duration(const gw_field *f, hw_str value, const char *text, howdah_error *reterr)
{
    char number[FACE_NUMBER_TEXT];

    if (text ? hw_duration_parse(text, f->number)
             : face_number_text(value, number) && hw_parse_i64(number, 0, INT64_MAX, f->number))
        return HOWDAH_OK;
    return expected(f, "a duration like 250ms, 5s or 2m, or milliseconds", reterr);
}

static int take_place(const gw_field *f, hw_str value, const char *text, howdah_error *reterr)
{
    char number[FACE_NUMBER_TEXT];

    if (text && strcmp(text, "start") == 0)
        *f->number = HOWDAH_FROM_START;
    else if (text && strcmp(text, "end") == 0)
        *f->number = HOWDAH_FROM_END;
    else if (text || !face_number_text(value, number) ||
             !hw_parse_i64(number, 0, INT64_MAX - 1, f->number))
        return expected(f, "start, end, or a sequence, 0 or more", reterr);
    return HOWDAH_OK;
}

static int take_choice(const gw_field *f, const char *text, howdah_error *reterr)
{
    const char *word = f->choices;
    int64_t i = 0;

    for (; text && *word; i++) {
        size_t n = strcspn(word, " ");

        if (strlen(text) == n && strncmp(word, text, n) == 0) {
            *f->number = i;
            return HOWDAH_OK;
        }
        word += n + (word[n] == ' ');
    }
    return hw_fail_field(reterr, HOWDAH_INVALID, f->name, "expected one of: %s", f->choices);
}

static int take(const gw_field *f, hw_str value, char **at, howdah_error *reterr)
{
    char kind = face_kind_of(value);
    const char *text = NULL;
    int64_t time_us;
    int s = kind == 's' ? text_of(value, at, &text, reterr) : HOWDAH_OK;

    if (s < 0 || kind == '0')
        return s;
    switch (f->kind) {
    case GW_FIELD_TEXT:
        if (!text)
            return expected(f, "a string", reterr);
        *f->text = text;
        return HOWDAH_OK;
    case GW_FIELD_NUMBER:
        return take_number(f, value, text, reterr);
    case GW_FIELD_DURATION:
        return take_duration(f, value, text, reterr);
    case GW_FIELD_FLAG:
        if (kind != 't' && kind != 'f')
            return expected(f, "true or false", reterr);
        *f->flag = kind == 't';
        return HOWDAH_OK;
    case GW_FIELD_TIME:
        if (!text || !hw_time_parse(text, strlen(text), &time_us))
            return expected(f, "a time like 2026-01-31T09:30:00Z", reterr);
        *f->number = time_us;
        return HOWDAH_OK;
    case GW_FIELD_PLACE:
        return take_place(f, value, text, reterr);
    case GW_FIELD_RAW:
        *f->text = value.s;
        *f->length = value.len;
        return HOWDAH_OK;
    case GW_FIELD_CHOICE:
        return take_choice(f, text, reterr);
    }
    return HOWDAH_OK;
}

int gw_object_take(hw_str object, const gw_field *fields, size_t n, char **at, howdah_error *reterr)
{
    hw_str key;
    hw_str value;
    size_t pos = 0;
    int s = face_object_check(object, reterr);

    while (s >= 0 && hw_json_member(object.s, object.len, &pos, &key, &value)) {
        size_t i = 0;

        while (i < n && !hw_json_key_is(key, fields[i].name))
            i++;
        s = i < n ? take(&fields[i], value, at, reterr)
                  : face_unknown_field(key, fields, sizeof *fields, n, NULL, reterr);
    }
    return s;
}

/* Room for the texts of the body, and once more for those of objects in it. */
int gw_fields_take(gw_request *r, const gw_field *fields, size_t n, howdah_error *reterr)
{
    hw_str body = {hw_buf_str(&r->body), r->body.len};
    char *at;

    if (body.len == 0)
        return HOWDAH_OK;
    hw_free(r->fields);
    r->fields = at = hw_alloc(2 * body.len + 2);
    return at ? gw_object_take(body, fields, n, &at, reterr) : hw_fail_no_memory(reterr);
}
