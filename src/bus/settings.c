/* settings.c - parses, checks and describes settings by their rows. */
#include "bus/settings.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/text.h"
#include "engine/rules.h"

typedef enum kind { TEXT, DURATION, BYTES, COUNT, BOOLEAN } kind;

typedef struct row {
    const char *key;
    kind kind;
    int64_t min; /* of the value; of the length for a text */
    int64_t max;
    const char *default_value;
    const char *help;
} row;

static const row rows[HW_SETTING_COUNT] = {
#define SETTING_ROW(name, kind, min, max, def, help) {#name, kind, min, max, def, help},
    HW_SETTINGS(SETTING_ROW)
#undef SETTING_ROW
};

static const char *const kind_names[] = {"text", "duration", "bytes", "count", "boolean"};

/* Written out and not made of min and max, which would read "100 to 3600000 ms". */
static const char *range_text(const row *r)
{
    static const char *const texts[HW_SETTING_COUNT] = {
        [HW_SETTING_schema] = "1 to 48 bytes",
        [HW_SETTING_application_name] = "1 to 63 bytes",
        [HW_SETTING_connect_timeout] = "100ms to 1h",
        [HW_SETTING_statement_timeout] = "10ms to 24h",
        [HW_SETTING_busy_timeout] = "0ms to 1h",
        [HW_SETTING_payload_bytes_max] = "1 to 64MiB",
        [HW_SETTING_read_batch] = "1 to 100000",
        [HW_SETTING_poll_interval] = "1ms to 1m",
        [HW_SETTING_wakeup] = "auto, notify or poll",
        [HW_SETTING_read_only] = "true or false",
        [HW_SETTING_allow_lossy] = "true or false",
    };
    assert(r >= rows && r < rows + HW_SETTING_COUNT);
    return texts[r - rows];
}

/* HOWDAH_ + the key in capitals; out has room for 64 bytes. */
static void environment_name(const row *r, char out[64])
{
    int n = snprintf(out, 64, "HOWDAH_%s", r->key);

    for (int i = 0; i < n && i < 63; i++)
        out[i] = (char)toupper((unsigned char)out[i]);
}

static const row *find_row(const char *key)
{
    for (size_t i = 0; i < HW_SETTING_COUNT; i++)
        if (strcmp(rows[i].key, key) == 0)
            return &rows[i];
    return NULL;
}

/* For "did you mean": there is always an answer, if a poor one. */
static const row *nearest_row(const char *key)
{
    const row *best = &rows[0];
    unsigned best_distance = hw_word_distance(key, best->key);

    for (size_t i = 1; i < HW_SETTING_COUNT; i++) {
        unsigned distance = hw_word_distance(key, rows[i].key);

        if (distance < best_distance) {
            best_distance = distance;
            best = &rows[i];
        }
    }
    return best;
}

static bool parse_boolean(const char *text, int64_t *ret_value)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "on") == 0 || strcmp(text, "1") == 0)
        *ret_value = 1;
    else if (strcmp(text, "false") == 0 || strcmp(text, "off") == 0 || strcmp(text, "0") == 0)
        *ret_value = 0;
    else
        return false;
    return true;
}

/* A text has no number; its length is checked by the caller. */
static bool parse_value(const row *r, const char *text, int64_t *ret_value)
{
    switch (r->kind) {
    case TEXT:
        *ret_value = 0;
        return true;
    case DURATION:
        return hw_duration_parse(text, ret_value);
    case BYTES:
        return hw_parse_bytes(text, ret_value);
    case COUNT:
        return hw_parse_i64(text, INT64_MIN, INT64_MAX, ret_value);
    case BOOLEAN:
        return parse_boolean(text, ret_value);
    }
    return false;
}

/* Two settings have a rule beyond their row; the row's range is checked for all. */
static int check_value(const row *r, const char *text, int64_t *ret_value, howdah_error *reterr)
{
    size_t len = strlen(text);
    int64_t value = 0;

    if (r == &rows[HW_SETTING_schema]) {
        int s = hw_rule_schema_name((hw_str){text, len}, reterr);
        if (s < 0)
            return s;
    }
    if (r == &rows[HW_SETTING_wakeup] && strcmp(text, "auto") != 0 && strcmp(text, "notify") != 0 &&
        strcmp(text, "poll") != 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, r->key, "must be %s", range_text(r));
    if (!parse_value(r, text, &value))
        return hw_fail_field(reterr, HOWDAH_INVALID, r->key, "not a %s: %zu bytes given, wanted %s",
                             kind_names[r->kind], len, range_text(r));
    if (r->kind == TEXT ? (int64_t)len < r->min || (int64_t)len > r->max
                        : value < r->min || value > r->max)
        return hw_fail_field(reterr, HOWDAH_INVALID, r->key, "out of range: wanted %s",
                             range_text(r));
    *ret_value = value;
    return HOWDAH_OK;
}

/* Defaults are parsed by the same code as values of the user, so the table holds them as text. */
void hw_settings_init(howdah_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    for (size_t i = 0; i < HW_SETTING_COUNT; i++)
        (void)parse_value(&rows[i], rows[i].default_value, &settings->value[i]);
}

void hw_settings_done(howdah_settings *settings)
{
    for (size_t i = 0; i < HW_SETTING_COUNT; i++)
        hw_free(settings->text[i]);
}

int howdah_settings_new(howdah_settings **ret_settings, howdah_error *reterr)
{
    howdah_settings *settings;

    if (!ret_settings)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_settings_new: ret_settings is NULL");
    settings = hw_alloc(sizeof *settings);
    if (!settings)
        return hw_fail_no_memory(reterr);
    hw_settings_init(settings);
    *ret_settings = settings;
    return HOWDAH_OK;
}

void howdah_settings_free(howdah_settings *settings)
{
    if (!settings)
        return;
    hw_settings_done(settings);
    hw_free(settings);
}

/* The old value stays until the new one is checked and copied. */
static int set_row(howdah_settings *settings, const row *r, const char *value, howdah_error *reterr)
{
    size_t index = (size_t)(r - rows);
    int64_t parsed = 0;
    char *copy;
    int s = check_value(r, value, &parsed, reterr);

    if (s < 0)
        return s;
    copy = hw_strdup(value);
    if (!copy)
        return hw_fail_no_memory(reterr);
    hw_free(settings->text[index]);
    settings->text[index] = copy;
    settings->value[index] = parsed;
    return HOWDAH_OK;
}

int howdah_settings_set(howdah_settings *settings, const char *key, const char *value,
                        howdah_error *reterr)
{
    const row *r;

    if (!settings || !key || !value)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_settings_set: an argument is NULL");
    r = find_row(key);
    if (!r) {
        int s = hw_fail_field(reterr, HOWDAH_INVALID, "setting",
                              "there is no setting of that name (%zu bytes); the nearest is %s",
                              strlen(key), nearest_row(key)->key);
        return hw_advise(reterr, s, "howdah settings lists them all");
    }
    return set_row(settings, r, value, reterr);
}

/* An empty variable counts as not set.  Stops at the first bad value, and names its variable. */
int howdah_settings_load_environment(howdah_settings *settings, howdah_error *reterr)
{
    if (!settings)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_settings_load_environment: settings is NULL");
    for (size_t i = 0; i < HW_SETTING_COUNT; i++) {
        char name[64];
        const char *value;

        environment_name(&rows[i], name);
        value = getenv(name); /* NOLINT(concurrency-mt-unsafe): documented as start-up work */
        if (value && *value) {
            int s = set_row(settings, &rows[i], value, reterr);
            if (s < 0)
                return hw_advise(reterr, s, "it comes from the environment variable %s", name);
        }
    }
    return HOWDAH_OK;
}

/* NULL in the list means that nobody has set it. */
const char *hw_settings_text(const howdah_settings *settings, int index)
{
    assert(index >= 0 && index < HW_SETTING_COUNT);
    return settings->text[index] ? settings->text[index] : rows[index].default_value;
}

const char *howdah_settings_get(const howdah_settings *settings, const char *key)
{
    const row *r = settings && key ? find_row(key) : NULL;

    return r ? hw_settings_text(settings, (int)(r - rows)) : NULL;
}

int howdah_settings_describe(size_t index, howdah_setting_info *ret_info)
{
    /* Names are made on demand; the table is small and constant, so one buffer a row is enough. */
    static _Thread_local char environment[HW_SETTING_COUNT][64];
    howdah_setting_info info = HOWDAH_SETTING_INFO_INIT;
    const row *r;

    if (index >= HW_SETTING_COUNT)
        return HOWDAH_END;
    r = &rows[index];
    environment_name(r, environment[index]);
    info.key = r->key;
    info.environment = environment[index];
    info.unit = kind_names[r->kind];
    info.range = range_text(r);
    info.default_value = r->default_value;
    info.help = r->help;
    return hw_sized_give(ret_info, &info, sizeof info);
}
