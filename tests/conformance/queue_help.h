/* queue_help.h - what the tests of queues and workers share. */
#ifndef HW_TESTS_QUEUE_HELP_H
#define HW_TESTS_QUEUE_HELP_H

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "conformance.h"

static inline void q_nap(int ms)
{
    struct timespec pause = {ms / 1000, (long)(ms % 1000) * 1000000};

    (void)nanosleep(&pause, NULL);
}

/* A job with this payload; NULL: {}. */
static inline int64_t q_push(howdah_bus *bus, const char *queue, const char *json)
{
    int64_t id = 0;

    cf_ok(howdah_queue_publish(bus, queue, json, &id, &cf_error));
    return id;
}

static inline int64_t q_push_job(howdah_bus *bus, const char *queue, const howdah_new_job *job)
{
    howdah_pushed pushed = HOWDAH_PUSHED_INIT;

    cf_ok(howdah_queue_push(bus, queue, job, &pushed, &cf_error));
    return pushed.id;
}

/* n jobs {"n":1} ... {"n":N}. */
static inline void q_push_many(howdah_bus *bus, const char *queue, int n)
{
    char json[32];

    for (int i = 1; i <= n; i++) {
        (void)snprintf(json, sizeof json, "{\"n\":%d}", i);
        (void)q_push(bus, queue, json);
    }
}

/* Up to n jobs, or NULL. */
static inline howdah_jobs *q_claim(howdah_bus *bus, const char *queue, int64_t n, int64_t lease_ms)
{
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;

    o.lease_ms = lease_ms;
    cf_ok(howdah_queue_claim(bus, queue, n, &o, &jobs, &cf_error));
    return jobs;
}

/* Exactly one job is there; its id and token are kept, the set is freed. */
typedef struct q_ref {
    int64_t id;
    int64_t token;
    int64_t attempt;
} q_ref;

static inline q_ref q_claim_one(howdah_bus *bus, const char *queue, int64_t lease_ms)
{
    howdah_jobs *jobs = q_claim(bus, queue, 1, lease_ms);
    const howdah_job *job = howdah_jobs_at(jobs, 0);
    q_ref ref;

    assert_non_null(job);
    ref = (q_ref){howdah_job_id(job), howdah_job_token(job), howdah_job_attempt(job)};
    howdah_jobs_free(jobs);
    return ref;
}

static inline int q_keep_info(void *ctx, const howdah_queue_info *info)
{
    *(howdah_queue_info *)ctx = *info;
    return 0;
}

static inline howdah_queue_info q_info(howdah_bus *bus, const char *queue)
{
    howdah_queue_info info;

    cf_ok(howdah_queues_walk(bus, queue, q_keep_info, &info, &cf_error));
    return info;
}

/* pending, processing, scheduled, completed, failed. */
static inline const char *q_counts(howdah_bus *bus, const char *queue)
{
    static char text[128];
    howdah_queue_info i = q_info(bus, queue);

    (void)snprintf(text, sizeof text, "%lld %lld %lld %lld %lld", (long long)i.pending,
                   (long long)i.processing, (long long)i.scheduled, (long long)i.completed,
                   (long long)i.failed);
    return text;
}

/* A job by its id; NULL is a failed test. */
static inline howdah_job *q_show(howdah_bus *bus, int64_t id)
{
    howdah_job *job = NULL;

    cf_ok(howdah_job_get(bus, id, &job, &cf_error));
    return job;
}

#define assert_text(actual, expected)                                                              \
    do {                                                                                           \
        const char *q_text = (actual);                                                             \
        assert_non_null(q_text);                                                                   \
        assert_string_equal(q_text, expected);                                                     \
    } while (0)

#endif
