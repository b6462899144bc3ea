/* json_in.c - see json_in.h. */
#include "face/json_in.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"

/*
 * A payload of the full depth makes the object too deep for one check.  Then outside and inside are
 * checked apart: the object with an empty string for each value (a digit could go on with what
 * stands after it), and every value by itself.
 */
static bool is_valid_in_parts(hw_str text)
{
    hw_buf outside = HW_BUF_INIT(2 * text.len + 2); /* a value of one byte becomes two */
    hw_str key;
    hw_str value;
    size_t pos = 0;
    size_t done = 0;
    bool valid = true;

    while (valid && hw_json_member(text.s, text.len, &pos, &key, &value)) {
        valid = hw_json_valid(value.s, value.len, HW_JSON_DEPTH_MAX, NULL);
        hw_buf_put(&outside, text.s + done, (size_t)(value.s - text.s) - done);
        hw_buf_puts(&outside, "\"\"");
        done = pos;
    }
    hw_buf_put(&outside, text.s + done, text.len - done);
    valid = valid && !outside.broken && hw_json_valid(hw_buf_str(&outside), outside.len, 1, NULL);
    hw_buf_done(&outside);
    return valid;
}

int face_object_check(hw_str text, howdah_error *reterr)
{
    hw_json_flaw flaw;

    if (!hw_json_valid(text.s, text.len, HW_JSON_DEPTH_MAX, &flaw) && !is_valid_in_parts(text))
        return hw_fail(reterr, HOWDAH_INVALID, "not valid JSON: %s at byte %zu", flaw.why,
                       flaw.offset + 1);
    if (face_kind_of(text) != 'o')
        return hw_fail(reterr, HOWDAH_INVALID, "not a JSON object");
    return HOWDAH_OK;
}

char face_kind_of(hw_str value)
{
    return hw_json_kind(value.s, value.len);
}

bool face_number_text(hw_str value, char ret_text[FACE_NUMBER_TEXT])
{
    if (face_kind_of(value) != 'n' || value.len >= FACE_NUMBER_TEXT)
        return false;
    memcpy(ret_text, value.s, value.len);
    ret_text[value.len] = '\0';
    return true;
}

/* A name from outside goes into a message only if it is one: short, printable ASCII. */
static bool can_be_shown(hw_str key, size_t room)
{
    for (size_t i = 0; i < key.len; i++)
        if (key.len >= room || key.s[i] < 0x20 || key.s[i] >= 0x7f)
            return false;
    return true;
}

/* A misspelt field would be lost data, or a default that nobody notices. */
int face_unknown_field(hw_str key, const void *fields, size_t row_size, size_t n,
                       const char *advice, howdah_error *reterr)
{
    char name[32];
    const char *best = NULL;
    unsigned best_distance = 0;
    int s;

    if (!can_be_shown(key, sizeof name))
        return hw_fail(reterr, HOWDAH_INVALID, "unknown field with a name of %zu bytes", key.len);
    (void)snprintf(name, sizeof name, "%.*s", (int)key.len, key.s);
    for (size_t i = 0; i < n; i++) {
        const char *known;
        unsigned distance;

        memcpy(&known, (const char *)fields + i * row_size, sizeof known);
        distance = hw_word_distance(name, known);
        if (!best || distance < best_distance) {
            best = known;
            best_distance = distance;
        }
    }
    s = hw_fail_field(reterr, HOWDAH_INVALID, name, "unknown field; the nearest is %s", best);
    return advice ? hw_advise(reterr, s, "%s", advice) : s;
}
