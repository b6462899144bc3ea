/* admin.c - queues, jobs and their history by name, from any process. */
#include <assert.h>

#include "base/error.h"
#include "base/sized.h"
#include "bus/queue/job.h"
#include "bus/queue/queue.h"
#include "engine/rules.h"

/* ------------------------------------------------------------------- queues */

/* The bus has queues, and the name is one. */
static int check_named(howdah_bus *bus, const char *queue, const char *call, howdah_error *reterr)
{
    int s = hw_queues_of(bus, call, NULL, reterr);

    return s < 0 ? s : hw_rule_queue(hw_str_of(queue), reterr);
}

/* Checked before the store is asked: all of the settings are stored, or none. */
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
        s = hw_queue_settings_check(&own, reterr);
    return s < 0 ? s : hw_queue_ops_of(bus)->queue_put(bus->store, hw_str_of(queue), &own, reterr);
}

/* A queue that does not exist is not made: NOT_FOUND. */
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

/* ret_n is left alone on failure. */
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

/* The store's rows are what the caller gets: both know howdah_queue_info. */
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

/* Cheap enough to ask every few seconds: it does not count the history. */
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

/* A job that outlives the store's callback is a copy. */
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

/* There is one job of an id at most; the first is the only one. */
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

/* A reason is optional; one that is given has to be a text that can be kept. */
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

/* What becomes of the open ones of a queue; ret_n is left alone on failure. */
static int mark_dead_letters(howdah_bus *bus, const char *queue, hw_dead_letter_state state,
                             const char *reason, int64_t *ret_n, howdah_error *reterr)
{
    int64_t marked = 0;
    int s;

    assert(state == HW_DEAD_LETTER_REDRIVE || state == HW_DEAD_LETTER_DISCARDED);
    s = hw_queue_ops_of(bus)->dead_letters_set_state(bus->store, hw_str_of(queue), state,
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

/* An operator who gives up a job says why: the reason stays with the dead letter. */
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

/* Only jobs that are over are in the history, so no other state can be asked for. */
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
