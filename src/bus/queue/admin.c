/* admin.c - queues, jobs and their history by name, from any process. */
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/sized.h"
#include "base/text.h"
#include "bus/queue/job.h"
#include "bus/queue/queue.h"
#include "engine/rules.h"

/* ----------------------------------------------------------------- settings */

typedef enum kind { DURATION, COUNT, PERCENT, BOOLEAN } kind;

typedef struct row {
    const char *key;
    kind kind;
    size_t offset; /* in howdah_queue_options */
    int64_t min;
    int64_t max;
    const char *range;
} row;

#define ROW(key, kind, member, min, max, range)                                                    \
    {                                                                                              \
        key, kind, offsetof(howdah_queue_options, member), min, max, range                         \
    }

static const row rows[] = {
    ROW("abandon_after", DURATION, abandon_after_ms, 100, HW_DELAY_MAX_MS, "100ms to 10 years"),
    ROW("max_attempts", COUNT, max_attempts, 1, INT16_MAX, "1 to 32767"),
    ROW("backoff_initial", DURATION, backoff_initial_ms, 0, HW_DELAY_MAX_MS, "0ms to 10 years"),
    ROW("backoff_max", DURATION, backoff_max_ms, 0, HW_DELAY_MAX_MS, "0ms to 10 years"),
    ROW("backoff_jitter", PERCENT, backoff_jitter, 0, 100, "0 to 100 percent"),
    ROW("concurrency", COUNT, concurrency, 0, INT32_MAX, "0 (no limit) to 2147483647"),
    ROW("history", DURATION, history_ms, 0, HW_DELAY_MAX_MS, "0ms (for ever) to 10 years"),
    ROW("hold_key", BOOLEAN, hold_key, 0, 1, "true or false"),
};

#define ROWS (sizeof rows / sizeof rows[0])

static int64_t value_of(const howdah_queue_options *options, const row *r)
{
    int64_t value;

    memcpy(&value, (const char *)options + r->offset, sizeof value);
    return value;
}

static const row *nearest_row(const char *key)
{
    const row *best = &rows[0];

    for (size_t i = 1; i < ROWS; i++)
        if (hw_word_distance(key, rows[i].key) < hw_word_distance(key, best->key))
            best = &rows[i];
    return best;
}

static bool parse_boolean(const char *text, int64_t *ret_value)
{
    *ret_value = strcmp(text, "true") == 0 || strcmp(text, "on") == 0 || strcmp(text, "1") == 0;
    return *ret_value || strcmp(text, "false") == 0 || strcmp(text, "off") == 0 ||
           strcmp(text, "0") == 0;
}

static bool parse_value(const row *r, const char *text, int64_t *ret_value)
{
    switch (r->kind) {
    case DURATION:
        return hw_duration_parse(text, ret_value);
    case COUNT:
    case PERCENT:
        return hw_parse_i64(text, INT64_MIN, INT64_MAX, ret_value);
    case BOOLEAN:
        return parse_boolean(text, ret_value);
    }
    return false;
}

int howdah_queue_options_set(howdah_queue_options *options, const char *key, const char *value,
                             howdah_error *reterr)
{
    howdah_queue_options own = HOWDAH_QUEUE_OPTIONS_INIT;
    const row *r = NULL;
    int64_t number = 0;
    int s;

    if (!options || !key || !value)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_options_set: an argument is NULL");
    s = hw_sized_take(&own, sizeof own, options, "howdah_queue_options_set", reterr);
    if (s < 0)
        return s;
    for (size_t i = 0; i < ROWS && !r; i++)
        r = strcmp(rows[i].key, key) == 0 ? &rows[i] : NULL;
    if (!r) {
        r = nearest_row(key);
        return hw_fail_field(reterr, HOWDAH_INVALID, "setting",
                             "a queue has no setting of that name (%zu bytes); the nearest is %s",
                             strlen(key), r->key);
    }
    if (!parse_value(r, value, &number) || number < r->min || number > r->max)
        return hw_fail_field(reterr, HOWDAH_INVALID, r->key, "%zu bytes given, wanted %s%s",
                             strlen(value), r->range,
                             r->kind == DURATION ? ", like 250ms, 5s, 2m or 1h" : "");
    if (r->offset + sizeof number > options->size)
        return hw_fail(reterr, HOWDAH_MISUSE,
                       "howdah_queue_options_set: the program was built before there was %s",
                       r->key);
    memcpy((char *)options + r->offset, &number, sizeof number);
    return HOWDAH_OK;
}

static int check_settings(const howdah_queue_options *options, howdah_error *reterr)
{
    for (size_t i = 0; i < ROWS; i++) {
        int64_t value = value_of(options, &rows[i]);

        if (value != HOWDAH_ABSENT && (value < rows[i].min || value > rows[i].max))
            return hw_fail_field(reterr, HOWDAH_INVALID, rows[i].key, "out of range: wanted %s",
                                 rows[i].range);
    }
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------- queues */

static int check_named(howdah_bus *bus, const char *queue, const char *call, howdah_error *reterr)
{
    int s = hw_queues_of(bus, call, NULL, reterr);

    return s < 0 ? s : hw_rule_queue(hw_str_of(queue), reterr);
}

int howdah_queue_configure(howdah_bus *bus, const char *queue, const howdah_queue_options *options,
                           howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_queue_options own = HOWDAH_QUEUE_OPTIONS_INIT;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_configure", reterr);

    if (s >= 0)
        s = check_named(bus, queue, "howdah_queue_configure", reterr);
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_queue_configure", reterr);
    if (s >= 0)
        s = check_settings(&own, reterr);
    return s < 0 ? s : hw_queue_ops_of(bus)->queue_put(bus->store, hw_str_of(queue), &own, reterr);
}

static int set_paused(howdah_bus *bus, const char *queue, bool paused, const char *call,
                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, call, reterr);

    if (s >= 0)
        s = check_named(bus, queue, call, reterr);
    return s < 0 ? s
                 : hw_queue_ops_of(bus)->queue_pause(bus->store, hw_str_of(queue), paused, reterr);
}

int howdah_queue_pause(howdah_bus *bus, const char *queue, howdah_error *reterr)
{
    return set_paused(bus, queue, true, "howdah_queue_pause", reterr);
}

int howdah_queue_resume(howdah_bus *bus, const char *queue, howdah_error *reterr)
{
    return set_paused(bus, queue, false, "howdah_queue_resume", reterr);
}

int howdah_queue_purge(howdah_bus *bus, const char *queue, int64_t *ret_n, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int64_t n = 0;
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_purge", reterr);

    if (s >= 0)
        s = check_named(bus, queue, "howdah_queue_purge", reterr);
    if (s >= 0)
        s = hw_queue_ops_of(bus)->queue_purge(bus->store, hw_str_of(queue), &n, reterr);
    if (s >= 0 && ret_n)
        *ret_n = n;
    return s;
}

int howdah_queues_walk(howdah_bus *bus, const char *queue,
                       int (*fn)(void *ctx, const howdah_queue_info *info), void *ctx,
                       howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_queues_walk", reterr);

    if (s >= 0)
        s = queue ? check_named(bus, queue, "howdah_queues_walk", reterr)
                  : hw_queues_of(bus, "howdah_queues_walk", NULL, reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_queues_walk: fn is NULL");
    if (s < 0)
        return s;
    return queue ? hw_queue_ops_of(bus)->queue_load(bus->store, hw_str_of(queue), fn, ctx, reterr)
                 : hw_queue_ops_of(bus)->queue_list(bus->store, fn, ctx, reterr);
}

int howdah_queue_summaries_walk(howdah_bus *bus,
                                int (*fn)(void *ctx, const howdah_queue_info *info), void *ctx,
                                howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_queue_summaries_walk", reterr);

    if (s >= 0)
        s = hw_queues_of(bus, "howdah_queue_summaries_walk", NULL, reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_summaries_walk: fn is NULL");
    return s < 0 ? s : hw_queue_ops_of(bus)->queue_summary(bus->store, fn, ctx, reterr);
}

/* --------------------------------------------------------------------- jobs */

static int check_id(howdah_bus *bus, int64_t id, const char *call, howdah_error *reterr)
{
    int s = hw_queues_of(bus, call, NULL, reterr);

    if (s >= 0 && id < 1)
        s = hw_fail_field(reterr, HOWDAH_INVALID, "id", "must be 1 or more");
    return s;
}

typedef struct keeping {
    howdah_job *job;
    int s;
    howdah_error *reterr;
} keeping;

static int on_shown(void *ctx, const howdah_job *record)
{
    keeping *k = ctx;

    k->s = hw_job_clone(record, &k->job, k->reterr);
    return 1;
}

int howdah_job_get(howdah_bus *bus, int64_t id, howdah_job **ret_job, howdah_error *reterr)
{
    HW_ENTRY(entry);
    keeping k = {.reterr = reterr};
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_job_get", reterr);

    if (s < 0)
        return s;
    if (!ret_job)
        return hw_fail(reterr, HOWDAH_MISUSE, "howdah_job_get: ret_job is NULL");
    s = check_id(bus, id, "howdah_job_get", reterr);
    if (s >= 0)
        s = hw_queue_ops_of(bus)->job_load(bus->store, id, on_shown, &k, reterr);
    if (s >= 0)
        s = k.s;
    if (s >= 0)
        *ret_job = k.job;
    return s;
}

int howdah_job_cancel(howdah_bus *bus, int64_t id, const char *reason, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_job_cancel", reterr);

    if (s >= 0)
        s = check_id(bus, id, "howdah_job_cancel", reterr);
    if (s >= 0 && reason)
        s = hw_rule_reason(hw_str_of(reason), reterr);
    return s < 0 ? s : hw_queue_ops_of(bus)->job_cancel(bus->store, id, hw_str_of(reason), reterr);
}

int howdah_job_rerun(howdah_bus *bus, int64_t id, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_job_rerun", reterr);

    if (s >= 0)
        s = check_id(bus, id, "howdah_job_rerun", reterr);
    return s < 0 ? s : hw_queue_ops_of(bus)->job_rerun(bus->store, id, reterr);
}

/* ------------------------------------------------------------- dead letters */

static int mark_dead_letters(howdah_bus *bus, const char *queue, hw_dead_letter_state state,
                             const char *reason, int64_t *ret_n, howdah_error *reterr)
{
    int64_t marked = 0;
    int s = hw_queue_ops_of(bus)->dead_letters_set_state(bus->store, hw_str_of(queue), state,
                                                         hw_str_of(reason), &marked, reterr);

    if (s >= 0 && ret_n)
        *ret_n = marked;
    return s;
}

int howdah_queue_dead_letters_redrive(howdah_bus *bus, const char *queue, int64_t *ret_n,
                                      howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_dead_letters_redrive", reterr);

    if (s >= 0)
        s = check_named(bus, queue, "howdah_queue_dead_letters_redrive", reterr);
    return s < 0 ? s : mark_dead_letters(bus, queue, HW_DEAD_LETTER_REDRIVE, NULL, ret_n, reterr);
}

int howdah_queue_dead_letters_discard(howdah_bus *bus, const char *queue, const char *reason,
                                      int64_t *ret_n, howdah_error *reterr)
{
    HW_ENTRY(entry);
    int s = hw_enter(&entry, &bus, HW_WRITES, "howdah_queue_dead_letters_discard", reterr);

    if (s >= 0)
        s = check_named(bus, queue, "howdah_queue_dead_letters_discard", reterr);
    if (s >= 0)
        s = hw_rule_reason(hw_str_of(reason), reterr);
    return s < 0 ? s
                 : mark_dead_letters(bus, queue, HW_DEAD_LETTER_DISCARDED, reason, ret_n, reterr);
}

/* ------------------------------------------------------------------ history */

static int check_log(const howdah_queue_history_options *o, howdah_error *reterr)
{
    if (o->status != HOWDAH_ABSENT && o->status != HOWDAH_JOB_COMPLETED &&
        o->status != HOWDAH_JOB_FAILED)
        return hw_fail_field(reterr, HOWDAH_INVALID, "status", "must be completed or failed");
    if (o->after < 0 || o->limit < 0)
        return hw_fail_field(reterr, HOWDAH_INVALID, o->after < 0 ? "after" : "limit",
                             "must be 0 or more");
    return HOWDAH_OK;
}

int howdah_queue_history_walk(howdah_bus *bus, const char *queue,
                              const howdah_queue_history_options *options,
                              int (*fn)(void *ctx, const howdah_job *job), void *ctx,
                              howdah_error *reterr)
{
    HW_ENTRY(entry);
    howdah_queue_history_options own = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    int s = hw_enter(&entry, &bus, HW_READS, "howdah_queue_history_walk", reterr);

    if (s >= 0)
        s = check_named(bus, queue, "howdah_queue_history_walk", reterr);
    if (s >= 0 && !fn)
        s = hw_fail(reterr, HOWDAH_MISUSE, "howdah_queue_history_walk: fn is NULL");
    if (s >= 0)
        s = hw_sized_take(&own, sizeof own, options, "howdah_queue_history_walk", reterr);
    if (s >= 0)
        s = check_log(&own, reterr);
    return s < 0 ? s
                 : hw_queue_ops_of(bus)->log(bus->store, hw_str_of(queue), &own, fn, ctx, reterr);
}
