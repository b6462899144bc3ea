/*
 * settings.c - the settings of a queue: described, set by name and checked.
 *
 *   I1  Everything here comes from HOWDAH_QUEUE_SETTING_LIST: no setting is named in this file.
 */
#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/queue/queue.h"
#include "engine/rules.h"

_Static_assert(HOWDAH_DELAY_MAX_MS == HW_DELAY_MAX_MS, "the engine and the header know one limit");

typedef enum unit { DURATION, COUNT, PERCENT, BOOLEAN } unit;

/* As howdah_queue_setting_info names them; howdah_setting_info has the same words. */
static const char *const unit_names[] = {
    [DURATION] = "duration", [COUNT] = "count", [PERCENT] = "percent", [BOOLEAN] = "boolean"};

/* A row of the list as data, so that loops can look one up. */
typedef struct row {
    const char *key;
    const char *member;
    unit unit;
    int64_t min;
    int64_t max;
    const char *default_value;
    const char *range;
    const char *zero;
    const char *help;
} row;

#define ROW(key, member, unit, min, max, def, range, zero, help)                                   \
    {#key, #member, unit, min, max, def, range, zero, help},

static const row rows[HW_QUEUE_SETTING_COUNT] = {HOWDAH_QUEUE_SETTING_LIST(ROW)};

/* HW_QUEUE_SETTING_COUNT: there is none of that name. */
static size_t find_row(const char *key)
{
    size_t i = 0;

    while (i < HW_QUEUE_SETTING_COUNT && strcmp(rows[i].key, key) != 0)
        i++;
    return i;
}

/* What somebody who mistyped a key meant most likely. */
static const row *nearest_row(const char *key)
{
    const row *best = &rows[0];

    for (size_t i = 1; i < HW_QUEUE_SETTING_COUNT; i++)
        if (hw_word_distance(key, rows[i].key) < hw_word_distance(key, best->key))
            best = &rows[i];
    return best;
}

/* The same words as for settings of a bus. */
static bool parse_boolean(const char *text, int64_t *ret_value)
{
    *ret_value = strcmp(text, "true") == 0 || strcmp(text, "on") == 0 || strcmp(text, "1") == 0;
    return *ret_value || strcmp(text, "false") == 0 || strcmp(text, "off") == 0 ||
           strcmp(text, "0") == 0;
}

/* Only how it is written; the range is checked by is_in_range(). */
static bool parse_value(const row *r, const char *text, int64_t *ret_value)
{
    switch (r->unit) {
    case DURATION:
        return hw_duration_parse(text, ret_value);
    case COUNT:
    case PERCENT:
        return hw_parse_i64(text, INT64_MIN, INT64_MAX, ret_value);
    case BOOLEAN:
        break;
    }
    assert(r->unit == BOOLEAN);
    return parse_boolean(text, ret_value);
}

/* No range begins below 0, so HOWDAH_ABSENT is never a value. */
static bool is_in_range(const row *r, int64_t value)
{
    assert(r->min <= r->max && r->min > HOWDAH_ABSENT);
    return value >= r->min && value <= r->max;
}

/*
 * The caller's struct may be an older one: a setting that it has no room for is refused, not
 * dropped.
 */
int howdah_queue_options_set(howdah_queue_options *options, const char *key, const char *value,
                             howdah_error *reterr)
{
    howdah_queue_options own = HOWDAH_QUEUE_OPTIONS_INIT;
    int64_t number = 0;
    const row *r;
    size_t i;
    int s;

    if (!options || !key || !value)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_options_set: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_queue_options_set", reterr);
    if (s < 0)
        return s;
    i = find_row(key);
    if (i == HW_QUEUE_SETTING_COUNT)
        return hw_fail_field(reterr, HOWDAH_INVALID, "setting",
                             "a queue has no setting of that name (%zu bytes); the nearest is %s",
                             strlen(key), nearest_row(key)->key);
    r = &rows[i];
    if (!parse_value(r, value, &number) || !is_in_range(r, number))
        return hw_fail_field(reterr, HOWDAH_INVALID, r->key, "%zu bytes given, wanted %s%s",
                             strlen(value), r->range,
                             r->unit == DURATION ? ", like 250ms, 5s, 2m or 1h" : "");
    if (hw_queue_setting_offset(i) + sizeof number > options->size)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "howdah_queue_options_set: the program was built before there was %s",
                       r->key);
    hw_queue_setting_put(options, i, number);
    return HOWDAH_OK;
}

/* Through a copy of our own size: what an older caller's struct lacks is absent. */
int64_t howdah_queue_options_get(const howdah_queue_options *options, const char *key)
{
    howdah_queue_options own = HOWDAH_QUEUE_OPTIONS_INIT;
    size_t i;

    if (!options || !key ||
        hw_sized_take(&own, sizeof own, options, "howdah_queue_options_get", NULL) < 0)
        return HOWDAH_ABSENT;
    i = find_row(key);
    return i < HW_QUEUE_SETTING_COUNT ? hw_queue_setting_get(&own, i) : HOWDAH_ABSENT;
}

/* Programs fill the struct themselves, so numbers are checked here as texts are above. */
int hw_queue_settings_check(const howdah_queue_options *options, howdah_error *reterr)
{
    for (size_t i = 0; i < HW_QUEUE_SETTING_COUNT; i++) {
        int64_t value = hw_queue_setting_get(options, i);

        if (value != HOWDAH_ABSENT && !is_in_range(&rows[i], value))
            return hw_fail_field(reterr, HOWDAH_INVALID, rows[i].key, "out of range: wanted %s",
                                 rows[i].range);
    }
    return HOWDAH_OK;
}

int howdah_queue_settings_describe(size_t index, howdah_queue_setting_info *ret_info)
{
    howdah_queue_setting_info info = HOWDAH_QUEUE_SETTING_INFO_INIT;
    const row *r;

    if (index >= HW_QUEUE_SETTING_COUNT)
        return HOWDAH_END;
    r = &rows[index];
    info.key = r->key;
    info.member = r->member;
    info.unit = unit_names[r->unit];
    info.range = r->range;
    info.default_value = r->default_value;
    info.zero = r->zero;
    info.help = r->help;
    return hw_sized_give(ret_info, &info, sizeof info);
}
