/* job.c - jobs as a user meets them: copies, sets, getters. */
#include "bus/queue/job.h"

#include <assert.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "engine/rules.h"

/* Every text of a job: the clone walks this table, so a new one cannot be forgotten there alone. */
static const size_t text_fields[] = {
    offsetof(howdah_job, queue),
    offsetof(howdah_job, worker),
    offsetof(howdah_job, key),
    offsetof(howdah_job, dedup),
    offsetof(howdah_job, correlation_id),
    offsetof(howdah_job, headers),
    offsetof(howdah_job, data),
    offsetof(howdah_job, content_type),
    offsetof(howdah_job, error),
    offsetof(howdah_job, result),
    offsetof(howdah_job, event_type),
    offsetof(howdah_job, event_stream),
};

#define TEXT_FIELDS (sizeof text_fields / sizeof text_fields[0])

/* ------------------------------------------------------------------- copies */

/* By memcpy(): the fields are reached by their offsets, of which the compiler knows no type. */
static hw_str text_of(const howdah_job *record, size_t i)
{
    hw_str text;

    memcpy(&text, (const char *)record + text_fields[i], sizeof text);
    return text;
}

/* The job and its texts, each with its NUL: one block, so that one free is enough.  0 on
   overflow. */
static size_t block_size(const howdah_job *record)
{
    size_t size = sizeof(howdah_job);

    for (size_t i = 0; i < TEXT_FIELDS; i++) {
        hw_str text = text_of(record, i);

        if (text.s && (__builtin_add_overflow(size, text.len, &size) ||
                       __builtin_add_overflow(size, 1, &size)))
            return 0;
    }
    return size;
}

/*
 * The texts are stored after the job in the same block, and each ends with a NUL for the getters.
 */
int hw_job_clone(const howdah_job *record, howdah_job **ret_job, howdah_error *reterr)
{
    size_t size = block_size(record);
    howdah_job *job = size ? hw_alloc(size) : NULL;
    char *at;

    if (!job)
        return hw_fail_no_memory(reterr);
    *job = *record;
    at = (char *)(job + 1);
    for (size_t i = 0; i < TEXT_FIELDS; i++) {
        hw_str text = text_of(record, i);

        if (!text.s)
            continue;
        memcpy(at, text.s, text.len);
        at[text.len] = '\0';
        text.s = at;
        memcpy((char *)job + text_fields[i], &text, sizeof text);
        at += text.len + 1;
    }
    assert(at == (char *)job + size);
    *ret_job = job;
    return HOWDAH_OK;
}

void howdah_job_free(howdah_job *job)
{
    hw_free(job);
}

/* --------------------------------------------------------------------- sets */

/* The room is what was asked for: adding a job never has to allocate the list. */
int hw_jobs_new(size_t room, howdah_jobs **ret_jobs, howdah_error *reterr)
{
    howdah_jobs *jobs = hw_calloc(1, sizeof *jobs);

    if (!jobs)
        return hw_fail_no_memory(reterr);
    jobs->items = hw_calloc(room, sizeof *jobs->items);
    if (!jobs->items) {
        hw_free(jobs);
        return hw_fail_no_memory(reterr);
    }
    assert(room > 0);
    jobs->room = room;
    *ret_jobs = jobs;
    return HOWDAH_OK;
}

/* The set takes a copy.  A store that gives more than was asked for is reported, not trusted. */
int hw_jobs_add(howdah_jobs *jobs, const howdah_job *record, howdah_error *reterr)
{
    int s;

    if (jobs->n == jobs->room)
        return hw_fail(reterr, HOWDAH_FAILED, "a claim gave more jobs than were asked for");
    s = hw_job_clone(record, &jobs->items[jobs->n], reterr);
    if (s >= 0)
        jobs->n++;
    return s;
}

size_t howdah_jobs_count(const howdah_jobs *jobs)
{
    return jobs ? jobs->n : 0;
}

/* Still the set's own: it is freed with it. */
const howdah_job *howdah_jobs_at(const howdah_jobs *jobs, size_t index)
{
    return jobs && index < jobs->n ? jobs->items[index] : NULL;
}

/* Frees the jobs as well, whatever became of their leases. */
void howdah_jobs_free(howdah_jobs *jobs)
{
    if (!jobs)
        return;
    for (size_t i = 0; i < jobs->n; i++)
        howdah_job_free(jobs->items[i]);
    hw_free(jobs->items);
    hw_free(jobs);
}

/* -------------------------------------------------------------------- texts */

/* Handlers return any text, an exception's message say.  It is cut and made valid UTF-8 rather
   than refused: the verdict matters more.  *ret_copy NULL: ret_text is the caller's own text. */
int hw_job_text(const char *text, hw_str *ret_text, char **ret_copy, howdah_error *reterr)
{
    size_t len = text ? strlen(text) : 0;
    char *copy;

    *ret_copy = NULL;
    if (!text || (len <= HW_OUTCOME_TEXT_MAX && hw_utf8_valid(text, len))) {
        *ret_text = (hw_str){text, len};
        return HOWDAH_OK;
    }
    if (len > HW_OUTCOME_TEXT_MAX)
        len = HW_OUTCOME_TEXT_MAX;
    copy = hw_alloc(len + 1);
    if (!copy)
        return hw_fail_no_memory(reterr);
    hw_utf8_copy(copy, len + 1, text);
    *ret_copy = copy;
    *ret_text = hw_str_of(copy);
    assert(ret_text->len <= HW_OUTCOME_TEXT_MAX);
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------ getters */

const char *howdah_job_state_name(howdah_job_state state)
{
    static const char *const names[] = {
        [HOWDAH_JOB_PENDING] = "pending",       [HOWDAH_JOB_SCHEDULED] = "scheduled",
        [HOWDAH_JOB_PROCESSING] = "processing", [HOWDAH_JOB_COMPLETED] = "completed",
        [HOWDAH_JOB_FAILED] = "failed",
    };

    return (size_t)state < sizeof names / sizeof names[0] ? names[state] : "unknown";
}

/* The getters may be asked about NULL: everything of no job is absent. */
static const howdah_job *seen(const howdah_job *job)
{
    static const howdah_job none = {.state = HOWDAH_JOB_PENDING};

    return job ? job : &none;
}

int64_t howdah_job_id(const howdah_job *job)
{
    return seen(job)->id;
}

int64_t howdah_job_token(const howdah_job *job)
{
    return seen(job)->token;
}

howdah_job_state howdah_job_state_get(const howdah_job *job)
{
    return seen(job)->state;
}

const char *howdah_job_queue(const howdah_job *job)
{
    return seen(job)->queue.s;
}

int64_t howdah_job_attempt(const howdah_job *job)
{
    return seen(job)->attempts;
}

int64_t howdah_job_max_attempts(const howdah_job *job)
{
    return seen(job)->max_attempts;
}

int howdah_job_priority(const howdah_job *job)
{
    return seen(job)->priority;
}

bool howdah_job_is_suspect(const howdah_job *job)
{
    return seen(job)->suspect;
}

/* *ret_len because a payload that is no JSON may have NULs in it. */
const char *howdah_job_data(const howdah_job *job, size_t *ret_len)
{
    if (ret_len)
        *ret_len = seen(job)->data.len;
    return seen(job)->data.s;
}

const char *howdah_job_content_type(const howdah_job *job)
{
    return seen(job)->content_type.s;
}

/* Never NULL: no headers are the empty object. */
const char *howdah_job_headers(const howdah_job *job, size_t *ret_len)
{
    hw_str headers = seen(job)->headers.s ? seen(job)->headers : HW_STR_LIT("{}");

    if (ret_len)
        *ret_len = headers.len;
    return headers.s;
}

const char *howdah_job_key(const howdah_job *job)
{
    return seen(job)->key.s;
}

const char *howdah_job_dedup(const howdah_job *job)
{
    return seen(job)->dedup.s;
}

const char *howdah_job_correlation(const howdah_job *job)
{
    return seen(job)->correlation_id.s;
}

const char *howdah_job_worker(const howdah_job *job)
{
    return seen(job)->worker.s;
}

const char *howdah_job_error(const howdah_job *job)
{
    return seen(job)->error.s;
}

const char *howdah_job_result(const howdah_job *job)
{
    return seen(job)->result.s;
}

/* "" and false when there is none. */
bool howdah_job_causation(const howdah_job *job, char ret_uuid[HOWDAH_UUID_SIZE])
{
    if (ret_uuid)
        ret_uuid[0] = '\0';
    if (ret_uuid && seen(job)->has_causation)
        hw_uuid_format(&seen(job)->causation_id, ret_uuid);
    return seen(job)->has_causation;
}

int64_t howdah_job_event_sequence(const howdah_job *job)
{
    return seen(job)->event_sequence;
}

const char *howdah_job_event_type(const howdah_job *job)
{
    return seen(job)->event_type.s;
}

const char *howdah_job_event_stream(const howdah_job *job)
{
    return seen(job)->event_stream.s;
}

int64_t howdah_job_position(const howdah_job *job)
{
    return seen(job)->position;
}

/* A store that has no such time may leave it at 0 as well: no job is that old. */
static bool get_time(int64_t time_us, int64_t *ret_us)
{
    if (time_us == HW_TIME_ABSENT || time_us == 0)
        return false;
    if (ret_us)
        *ret_us = time_us;
    return true;
}

bool howdah_job_created_at(const howdah_job *job, int64_t *ret_us)
{
    return get_time(seen(job)->created_at_us, ret_us);
}

bool howdah_job_due_at(const howdah_job *job, int64_t *ret_us)
{
    return get_time(seen(job)->due_at_us, ret_us);
}

bool howdah_job_started_at(const howdah_job *job, int64_t *ret_us)
{
    return get_time(seen(job)->started_at_us, ret_us);
}

bool howdah_job_lease_until(const howdah_job *job, int64_t *ret_us)
{
    return get_time(seen(job)->lease_until_us, ret_us);
}

bool howdah_job_finished_at(const howdah_job *job, int64_t *ret_us)
{
    return get_time(seen(job)->finished_at_us, ret_us);
}
