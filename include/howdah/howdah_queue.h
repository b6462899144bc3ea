/*
 * howdah_queue.h - share work between processes: part of howdah.h, which includes it.
 *
 * A queue is a named set of jobs that workers share.  Each job is given to one worker at a time,
 * under a lease.  The worker says how each job went, and the job ends in the history as COMPLETED
 * or FAILED.
 *
 * What you need, by what you want to do:
 *
 *   push jobs             howdah_queue_push(), howdah_queue_push_batch()
 *   make jobs of events   howdah_queue_bind()
 *   work                  howdah_worker_new(), howdah_worker_run(), howdah_worker_free()
 *   work without a worker howdah_queue_claim(), then howdah_job_complete(), _fail(), _retry() ...
 *   the simplest way      howdah_queue_publish(), howdah_queue_poll(), howdah_job_finalize()
 *   look after queues     howdah_queues_walk(), howdah_queue_configure(), howdah_job_get(),
 *                         howdah_job_rerun(), howdah_queue_dead_letters_redrive()
 *
 * A job that was pushed is never lost, and runs at least once:
 *
 *   - A claim gives each job a token that no claim had before, and counts the attempt before the
 *     handler runs.  An ack names (id, token); with another token nothing changes (HOWDAH_LOST).
 *   - When a lease runs out, the job can be claimed again.  After max_attempts it is FAILED without
 *     being run again.  A job whose lease ran out once is claimed alone from then on.
 *   - All times are by the database's clock.
 *   - A claim, and the end of a job, may be committed without waiting for the disk: a crash of the
 *     server can undo them, and the job runs again.  A push, or a job that failed, always waits.
 *   - Of the jobs of one ordering key at most one is under way, in the order in which they were
 *     pushed, also across retries.  Jobs of other keys do not wait for them.
 *
 * A producer and a worker:
 *
 *     howdah_new_job job = HOWDAH_NEW_JOB_INIT;
 *     job.data = "{\"to\":\"ann\"}";
 *     job.data_len = strlen(job.data);
 *     if (howdah_queue_push(bus, "mail", &job, NULL, &err) < 0)
 *         die(&err);
 *
 *     static int send(void *ctx, const howdah_job *job, howdah_work *work)
 *     {
 *         return mail(howdah_job_data(job, NULL))
 *                    ? HOWDAH_WORK_DONE
 *                    : howdah_work_retry(work, HOWDAH_AFTER_BACKOFF, "no answer");
 *     }
 *
 *     howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
 *     o.queue = "mail";
 *     o.handler = send;
 *     if (howdah_worker_new(bus, &o, &worker, &err) < 0 ||
 *         howdah_worker_run(worker, -1, &err) < 0)
 *         die(&err);
 *
 * The rules are the same in C, in SQL and in the command: a queue's name, a key, a dedup key and a
 * correlation id are 1 to 255 bytes of UTF-8 without control characters; priority is -32768 to
 * 32767; max_attempts is 0 to 32767; a delay is at most ten years; data and headers are as those of
 * events.  A result and an error message are kept up to 64 KiB: longer ones are cut, not refused.
 */
#ifndef HOWDAH_HOWDAH_QUEUE_H
#define HOWDAH_HOWDAH_QUEUE_H

#include <howdah/howdah.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------------- push */

typedef struct howdah_new_job {
    size_t size;
    const char *data; /* JSON, or bytes with a content type; NULL: {} */
    size_t data_len;
    const char *content_type;   /* NULL: data is JSON */
    const char *headers;        /* a JSON object of strings; NULL: none */
    size_t headers_len;         /* both lengths are without a NUL */
    int64_t delay_ms;           /* due after this time; 0: at once */
    int64_t run_at_us;          /* or due at this time; HOWDAH_NO_TIME: see delay_ms */
    int64_t priority;           /* lower ones first; default 0 */
    int64_t max_attempts;       /* 0: the queue's */
    const char *key;            /* jobs of one key run one at a time, in order; NULL: none */
    const char *dedup;          /* while a job with this key is not over, a push returns that job */
    const char *correlation_id; /* NULL: none */
    const char *causation_id;   /* a UUID; NULL: none */
} howdah_new_job;

#define HOWDAH_NEW_JOB_INIT                                                                        \
    {                                                                                              \
        sizeof(howdah_new_job), NULL, 0, NULL, NULL, 0, 0, HOWDAH_NO_TIME, 0, 0, NULL, NULL, NULL, \
            NULL                                                                                   \
    }

typedef struct howdah_pushed {
    size_t size; /* of an array, the first element's size counts */
    int64_t id;
    int32_t existed; /* 1: a job with this dedup key exists; id is its id, nothing is stored */
} howdah_pushed;

#define HOWDAH_PUSHED_INIT                                                                         \
    {                                                                                              \
        sizeof(howdah_pushed), HOWDAH_ABSENT, 0                                                    \
    }

/* Most jobs of one push, claim or call of howdah_jobs_ack(). */
#define HOWDAH_JOBS_MAX 10000

/*
 * Stores one job, or many at once: all or none, ids ascending in the order given.  A queue that
 * does not exist is created.  When the call returns HOWDAH_OK the jobs are durable.  ret_pushed has
 * room for n entries, the first with its size set, or is NULL.
 *
 * Errors: INVALID, LIMIT (error.field names the field, error.event_index the job), SCHEMA, DENIED,
 * READ_ONLY, FULL, UNAVAILABLE, TIMEOUT.  Then nothing is stored.  The exception is
 * HOWDAH_OUTCOME_UNKNOWN: the jobs may be stored, and only a dedup key keeps a repeated push from
 * storing them twice.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_push(howdah_bus *bus, const char *queue,
                                                   const howdah_new_job *job,
                                                   howdah_pushed *ret_pushed, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_push_batch(howdah_bus *bus, const char *queue,
                                                         const howdah_new_job *const *jobs,
                                                         size_t n, howdah_pushed *ret_pushed,
                                                         howdah_error *reterr);

/* -------------------------------------------------------------------- jobs */

typedef struct howdah_job howdah_job;   /* one job, as it was when it was read */
typedef struct howdah_jobs howdah_jobs; /* the jobs of one claim, in their order */

typedef enum howdah_job_state {
    HOWDAH_JOB_PENDING = 0,    /* due: the next claim may have it */
    HOWDAH_JOB_SCHEDULED = 1,  /* due later, or waits for an earlier job of its key */
    HOWDAH_JOB_PROCESSING = 2, /* under a lease */
    HOWDAH_JOB_COMPLETED = 3,
    HOWDAH_JOB_FAILED = 4
} howdah_job_state;

/* "pending", "scheduled", "processing", "completed", "failed". */
HOWDAH_API const char *howdah_job_state_name(howdah_job_state state);

HOWDAH_API size_t howdah_jobs_count(const howdah_jobs *jobs);
/* index from 0; NULL beyond the last.  The job belongs to the set. */
HOWDAH_API const howdah_job *howdah_jobs_at(const howdah_jobs *jobs, size_t index);
HOWDAH_API void howdah_jobs_free(howdah_jobs *jobs);

HOWDAH_API int64_t howdah_job_id(const howdah_job *job);
/* 0 when the job is not under a lease.  On PostgreSQL only administrators see the token of a job
 * that they look up; the process that claimed it has it already. */
HOWDAH_API int64_t howdah_job_token(const howdah_job *job);
HOWDAH_API howdah_job_state howdah_job_state_get(const howdah_job *job);
HOWDAH_API const char *howdah_job_queue(const howdah_job *job);
/* Attempts so far, including one that is running: 1 during the first. */
HOWDAH_API int64_t howdah_job_attempt(const howdah_job *job);
HOWDAH_API int64_t howdah_job_max_attempts(const howdah_job *job);
HOWDAH_API int howdah_job_priority(const howdah_job *job);
/* True when a lease of this job ran out once: its worker died, or was too slow. */
HOWDAH_API bool howdah_job_is_suspect(const howdah_job *job);
/* JSON text (content type NULL) or bytes.  A NUL follows them.  ret_len may be NULL. */
HOWDAH_API const char *howdah_job_data(const howdah_job *job, size_t *ret_len);
HOWDAH_API const char *howdah_job_content_type(const howdah_job *job);
/* A JSON object, "{}" when there are none. */
HOWDAH_API const char *howdah_job_headers(const howdah_job *job, size_t *ret_len);
/* NULL when absent. */
HOWDAH_API const char *howdah_job_key(const howdah_job *job);
HOWDAH_API const char *howdah_job_dedup(const howdah_job *job);
HOWDAH_API const char *howdah_job_correlation(const howdah_job *job);
HOWDAH_API const char *howdah_job_worker(const howdah_job *job);
/* The error of the last attempt that failed, and the result of one that completed. */
HOWDAH_API const char *howdah_job_error(const howdah_job *job);
HOWDAH_API const char *howdah_job_result(const howdah_job *job);
/* false (and an empty string) when absent. */
HOWDAH_API bool howdah_job_causation(const howdah_job *job, char ret_uuid[HOWDAH_UUID_SIZE]);
/* The event that a binding made the job of; 0: the job was pushed. */
HOWDAH_API int64_t howdah_job_event_sequence(const howdah_job *job);
/* Of that event; NULL when the job was pushed, or the event is no longer in the log. */
HOWDAH_API const char *howdah_job_event_type(const howdah_job *job);
HOWDAH_API const char *howdah_job_event_stream(const howdah_job *job);
/* Its position in the history, which is in the order in which jobs ended; 0: it is not over. */
HOWDAH_API int64_t howdah_job_position(const howdah_job *job);
/* false when there is no such time: not started, not finished, or waiting for a job of its key. */
HOWDAH_API bool howdah_job_created_at(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_due_at(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_started_at(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_lease_until(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_finished_at(const howdah_job *job, int64_t *ret_us);

/*
 * The job as one JSON object, in the field order and spelling of "howdah job show --json".  A
 * bytes payload becomes "data_base64" and "content_type".  Works like snprintf: writes at most
 * room bytes, NUL included, and returns the length of the whole text without the NUL.
 */
HOWDAH_API size_t howdah_job_json(const howdah_job *job, char *out, size_t room);

/* ------------------------------------------------------------------- claim */

typedef struct howdah_claim_options {
    size_t size;
    int64_t lease_ms;   /* 0: the queue's abandon_after */
    const char *worker; /* the name that the job shows as its worker; NULL: host, process and bus */
} howdah_claim_options;

#define HOWDAH_CLAIM_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_claim_options), 0, NULL                                                      \
    }

/*
 * Takes up to n jobs (1 to HOWDAH_JOBS_MAX) that are due, in the order (priority, due, id), each
 * under a lease with a new token.  Does not wait.  Returns HOWDAH_OK and a set of at least one job;
 * free it with howdah_jobs_free().  Returns HOWDAH_END when there is none: the queue is empty,
 * paused, at its limit of concurrency, or does not exist.  Freeing the set does not end the leases.
 * A claim stops early when the payloads exceed some MiB: fewer than n jobs does not mean that no
 * others are due.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_claim(howdah_bus *bus, const char *queue, int64_t n,
                                                    const howdah_claim_options *options,
                                                    howdah_jobs **ret_jobs, howdah_error *reterr);
/*
 * The same, but waits up to for_ms (-1: no limit) for the first job.  A push wakes it.  Also
 * returns INTERRUPTED.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_claim_wait(howdah_bus *bus, const char *queue,
                                                         int64_t n, int64_t for_ms,
                                                         const howdah_claim_options *options,
                                                         howdah_jobs **ret_jobs,
                                                         howdah_error *reterr);

/* ------------------------------------------------------------------ ack */

/* By the queue's back-off: its initial delay, doubled by each attempt up to a maximum, +- jitter.
 */
#define HOWDAH_AFTER_BACKOFF INT64_C(-1)

/*
 * Say how a job went.  HOWDAH_LOST: the lease is no longer yours (it ran out, or the job was acked
 * before), and nothing was changed.  result and error may be NULL.
 *
 *   complete   the job goes into the history, with the result
 *   fail       the job has failed for good: it goes into the history with the error, and becomes a
 *              dead letter
 *   retry      the job runs again after after_ms, or HOWDAH_AFTER_BACKOFF.  HOWDAH_END: no attempt
 *              was left, and the job has FAILED
 *   release    the job runs again at once, and the attempt is not counted: for a job that was not
 *              started
 *   extend     the lease runs for lease_ms from now; 0: as long as it was claimed for
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_complete(howdah_bus *bus, int64_t id, int64_t token,
                                                     const char *result, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_fail(howdah_bus *bus, int64_t id, int64_t token,
                                                 const char *error, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_retry(howdah_bus *bus, int64_t id, int64_t token,
                                                  int64_t after_ms, const char *error,
                                                  howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_release(howdah_bus *bus, int64_t id, int64_t token,
                                                    howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_extend(howdah_bus *bus, int64_t id, int64_t token,
                                                   int64_t lease_ms, howdah_error *reterr);

typedef enum howdah_verdict {
    HOWDAH_VERDICT_COMPLETE = 0,
    HOWDAH_VERDICT_FAIL = 1,
    HOWDAH_VERDICT_RETRY = 2,
    HOWDAH_VERDICT_RELEASE = 3,
    HOWDAH_VERDICT_EXTEND = 4
} howdah_verdict;

typedef enum howdah_ack_outcome {
    HOWDAH_ACKED_LOST = 0,  /* the lease is no longer yours: nothing was changed */
    HOWDAH_ACKED_DONE = 1,  /* as asked for */
    HOWDAH_ACKED_FAILED = 2 /* RETRY without an attempt left, or RETRY or RELEASE after the event
                                 it was made of was purged: it has FAILED */
} howdah_ack_outcome;

typedef struct howdah_job_ack {
    size_t size; /* of an array, the first element's size counts */
    int64_t id;
    int64_t token;
    int64_t after_ms; /* RETRY: or HOWDAH_AFTER_BACKOFF; EXTEND: the new lease, 0: as claimed */
    const char *text; /* COMPLETE: the result; FAIL, RETRY: the error; NULL: none */
    howdah_verdict verdict;
    howdah_ack_outcome outcome; /* written by howdah_jobs_ack() */
} howdah_job_ack;

#define HOWDAH_JOB_ACK_INIT                                                                        \
    {                                                                                              \
        sizeof(howdah_job_ack), 0, 0, 0, NULL, HOWDAH_VERDICT_COMPLETE, HOWDAH_ACKED_LOST          \
    }

/*
 * Acks many jobs, of any queues, in one round trip and one transaction, and writes each entry's
 * outcome.  A LOST entry does not affect the others and is not an error of the call.  When the call
 * fails nothing was changed.  The exception is HOWDAH_OUTCOME_UNKNOWN: repeat the call; jobs that
 * were acked by the first one are LOST then.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_jobs_ack(howdah_bus *bus, howdah_job_ack *acks, size_t n,
                                                 howdah_error *reterr);

/* ------------------------------------------------- publish, poll, finalize */

/*
 * The three calls of a plain queue.  publish pushes one JSON document (NULL: {}).  poll takes one
 * job, without waiting, or returns HOWDAH_END; free the job with howdah_job_free().  The bus
 * remembers the tokens of the last 10,000 jobs that poll returned, so that finalize needs only the
 * id: with success the job is COMPLETED, otherwise FAILED.  LOST when this bus has no token for the
 * job, or not the newest one.  A handler can finalize only what it has polled itself.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_publish(howdah_bus *bus, const char *queue,
                                                      const char *json, int64_t *ret_id,
                                                      howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_poll(howdah_bus *bus, const char *queue,
                                                   howdah_job **ret_job, howdah_error *reterr);
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_finalize(howdah_bus *bus, int64_t id, bool success,
                                                     howdah_error *reterr);
HOWDAH_API void howdah_job_free(howdah_job *job);

/* ------------------------------------------------------------------ worker */

/*
 * A worker takes jobs of one queue in batches, runs the handler for each, extends leases while
 * handlers run, and acks finished jobs together with the next claim.
 *
 * With threads 0, handlers run inside howdah_worker_run(), in the caller's thread.  Leases of
 * waiting jobs are extended between two handlers.  A handler that takes longer than a third of the
 * lease must call howdah_work_extend() now and then.  With threads > 0, handlers run in that many
 * threads of the worker, and leases are extended after a third of their time whatever the handlers
 * do.  Only the thread that calls howdah_worker_run() and howdah_worker_stop() acks and claims.  A
 * handler may use the bus of its worker in any of these threads, as the handler of a subscription
 * may (see howdah_subscriptions.h).  What it pushes and appends is stored at once, not with its
 * verdict.
 *
 * When the queue has bindings, howdah_worker_run() starts one more thread, with a session of its
 * own, that routes their events until the worker is stopped; see howdah_queue_bind().  It needs
 * the rights of a subscriber.  Without them the worker runs the jobs that others route.
 */
typedef struct howdah_worker howdah_worker;
typedef struct howdah_work howdah_work; /* the running job; valid until the handler returns */

/* What a handler returns; anything else is FAILED. */
#define HOWDAH_WORK_DONE 0
#define HOWDAH_WORK_FAILED 1  /* for good: a dead letter */
#define HOWDAH_WORK_RETRY 2   /* again, by the queue's back-off; howdah_work_retry() sets a delay */
#define HOWDAH_WORK_RELEASE 3 /* not started: again at once, the attempt is not counted */

typedef int (*howdah_work_handler)(void *ctx, const howdah_job *job, howdah_work *work);

/* These keep a copy of the text, up to 64 KiB.  Return what they return. */
HOWDAH_API int howdah_work_complete(howdah_work *work, const char *result);
HOWDAH_API int howdah_work_fail(howdah_work *work, const char *error);
HOWDAH_API int howdah_work_retry(howdah_work *work, int64_t after_ms, const char *error);
/* With threads 0: extends the leases of all jobs of the worker.  LOST: give this job up. */
HOWDAH_API int howdah_work_extend(howdah_work *work, howdah_error *reterr);
/* True when the lease is known to be lost: what the handler returns has no effect. */
HOWDAH_API bool howdah_work_is_lost(const howdah_work *work);
/* True while the worker is being stopped. */
HOWDAH_API bool howdah_work_is_stopping(const howdah_work *work);

typedef struct howdah_worker_options {
    size_t size;
    const char *queue;           /* required */
    howdah_work_handler handler; /* required */
    void *ctx;
    int64_t threads;      /* 0 to 256; 0: the caller's thread */
    int64_t batch;        /* 10: most jobs held at once, running ones included; at least threads */
    int64_t lease_ms;     /* 0: the queue's abandon_after */
    int64_t ack_delay_ms; /* 100: how long a finished job waits to be acked together with others */
    int64_t drain_ms;     /* 30000: how long howdah_worker_stop() waits for handlers */
    int64_t max_attempts; /* 0: the job's; otherwise a retry at this attempt is a failure */
    int64_t max_jobs;     /* 0: no limit; otherwise howdah_worker_run() ends after that many */
    bool until_empty;     /* howdah_worker_run() ends when nothing is left to do */
    const char *worker;   /* the name that jobs show as their worker; NULL: host, process and bus */
} howdah_worker_options;

#define HOWDAH_WORKER_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(howdah_worker_options), NULL, NULL, NULL, 0, 10, 0, 100, 30000, 0, 0, false, NULL   \
    }

/* Starts the threads, if any; claims nothing yet.  One worker per bus (MISUSE).  Also INVALID. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_worker_new(howdah_bus *bus,
                                                   const howdah_worker_options *options,
                                                   howdah_worker **ret_worker,
                                                   howdah_error *reterr);
/*
 * Works until the time is over (-1: no limit), howdah_interrupt(), or an end that the options
 * name.  When the store cannot be reached it tries again, with growing pauses.  HOWDAH_OK: the
 * time is over.  HOWDAH_END: max_jobs, or nothing is left.  INTERRUPTED, or an error that waiting
 * does not cure.  When it returns OK or END, finished jobs are acked.  The worker keeps the other
 * jobs that it holds; only the next call extends their leases.
 *
 * "Nothing is left" means: no job is pending or processing, no job that this worker sent back waits
 * for its next try, and no event up to the log's head is still to become a job of this queue.
 * It does not wait for jobs that were pushed for later.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_worker_run(howdah_worker *worker, int64_t for_ms,
                                                   howdah_error *reterr);
/*
 * Drains: claims nothing more, releases jobs that were not started, waits for the handlers that run
 * while it extends their leases, and acks their jobs.  TIMEOUT when some still run after drain_ms;
 * then it may be called again.  After howdah_interrupt() call howdah_interrupt_clear() first.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_worker_stop(howdah_worker *worker, howdah_error *reterr);
/*
 * Stops the worker unless it is stopped, then waits for every handler that still runs, without
 * extending its lease.  Call it before howdah_close().
 */
HOWDAH_API void howdah_worker_free(howdah_worker *worker);

typedef struct howdah_worker_info {
    size_t size;
    int64_t claimed; /* jobs, since it was made */
    int64_t completed;
    int64_t failed;
    int64_t retried;
    int64_t released;
    int64_t lost;    /* leases */
    int64_t running; /* now */
    int64_t waiting; /* claimed, not started */
    bool paused;     /* the queue was paused when the worker last asked */
} howdah_worker_info;

#define HOWDAH_WORKER_INFO_INIT                                                                    \
    {                                                                                              \
        sizeof(howdah_worker_info), 0, 0, 0, 0, 0, 0, 0, 0, false                                  \
    }

/* Call it from the thread that runs the worker; otherwise MISUSE. */
HOWDAH_API int howdah_worker_info_get(howdah_worker *worker, howdah_worker_info *ret_info);

/* --------------------------------------------------------------- operators */

/* Ten years: the longest delay, and the longest duration of a setting. */
#define HOWDAH_DELAY_MAX_MS INT64_C(316224000000)

/*
 * The settings of a queue, stored with it.  One list, many uses:
 *
 *   X(key, member, unit, min, max, default, text of the range, what 0 means, help)
 *
 * key is what people write, member its name in howdah_queue_options, in JSON and in the database.
 * unit is DURATION (in milliseconds), COUNT, PERCENT or BOOLEAN.  New ones are added at the end.
 *
 * The structs, the checks, the statements of both stores and the command are made from these rows.
 * A new setting is a row here, a column with the same default in a migration of each store, the
 * code that obeys it, and for PostgreSQL a parameter of queue_set() and a column of queue_states()
 * and queue_summary() (sql/pg/functions): SQL has no such list, so a test compares them with it.
 */
/* clang-format off */
#define HOWDAH_QUEUE_SETTING_LIST(X)                                                               \
    X(abandon_after, abandon_after_ms, DURATION, 100, HOWDAH_DELAY_MAX_MS, "5m",                   \
      "100ms to 10 years", "", "the lease: how long a silent worker keeps a job")                 \
    X(max_attempts, max_attempts, COUNT, 1, 32767, "5",                                            \
      "1 to 32767", "", "attempts of a job before it has failed")                                  \
    X(backoff_initial, backoff_initial_ms, DURATION, 0, HOWDAH_DELAY_MAX_MS, "1s",                 \
      "0ms to 10 years", "", "pause before the second attempt; it doubles with each")              \
    X(backoff_max, backoff_max_ms, DURATION, 0, HOWDAH_DELAY_MAX_MS, "1h",                         \
      "0ms to 10 years", "", "longest pause between two attempts")                                 \
    X(backoff_jitter, backoff_jitter, PERCENT, 0, 100, "10",                                       \
      "0 to 100 percent", "", "percent by which pauses vary at random")                            \
    X(concurrency, concurrency, COUNT, 0, INT32_MAX, "0",                                          \
      "0 (no limit) to 2147483647", "no limit", "jobs under way at once; 0: no limit")             \
    X(history, history_ms, DURATION, 0, HOWDAH_DELAY_MAX_MS, "0s",                                 \
      "0ms (for ever) to 10 years", "for ever", "how long ended jobs are kept; 0s: for ever")      \
    X(hold_key, hold_key, BOOLEAN, 0, 1, "false",                                                  \
      "true or false", "", "whether a failed job holds its key until it is resolved")
/* clang-format on */

/* An int64_t for each.  HOWDAH_ABSENT: unchanged, or the default of a new queue. */
typedef struct howdah_queue_options {
    size_t size;
#define HOWDAH_QUEUE_SETTING_MEMBER(key, member, unit, min, max, def, range, zero, help)           \
    int64_t member;
    HOWDAH_QUEUE_SETTING_LIST(HOWDAH_QUEUE_SETTING_MEMBER)
#undef HOWDAH_QUEUE_SETTING_MEMBER
} howdah_queue_options;

#define HOWDAH_QUEUE_SETTING_ABSENT(key, member, unit, min, max, def, range, zero, help)           \
    , HOWDAH_ABSENT
#define HOWDAH_QUEUE_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_queue_options) HOWDAH_QUEUE_SETTING_LIST(HOWDAH_QUEUE_SETTING_ABSENT)        \
    }

/*
 * Sets one of the options by key and text, as howdah_settings_set() does.  Durations are written
 * 250ms, 5s, 2m, 1h.  INVALID names the nearest key, or the range.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_options_set(howdah_queue_options *options,
                                                          const char *key, const char *value,
                                                          howdah_error *reterr);
/* The value by key; HOWDAH_ABSENT also when there is no such setting. */
HOWDAH_API int64_t howdah_queue_options_get(const howdah_queue_options *options, const char *key);

typedef struct howdah_queue_setting_info {
    size_t size;
    const char *key;
    const char *member; /* its name in JSON and in the database */
    const char *unit;   /* "duration", "count", "percent", "boolean" */
    const char *range;
    const char *default_value;
    const char *zero; /* what 0 means, "": nothing else */
    const char *help;
} howdah_queue_setting_info;

#define HOWDAH_QUEUE_SETTING_INFO_INIT                                                             \
    {                                                                                              \
        sizeof(howdah_queue_setting_info), NULL, NULL, NULL, NULL, NULL, NULL, NULL                \
    }

/* The index-th setting; HOWDAH_END after the last. */
HOWDAH_API int howdah_queue_settings_describe(size_t index, howdah_queue_setting_info *ret_info);

/* Creates the queue, or changes its settings. */
HOWDAH_API int howdah_queue_configure(howdah_bus *bus, const char *queue,
                                      const howdah_queue_options *options, howdah_error *reterr);
/* While a queue is paused nothing is claimed; jobs that are under way continue.  NOT_FOUND. */
HOWDAH_API int howdah_queue_pause(howdah_bus *bus, const char *queue, howdah_error *reterr);
HOWDAH_API int howdah_queue_resume(howdah_bus *bus, const char *queue, howdah_error *reterr);
/*
 * Removes every job that is not under way, for good.  When such a job was a dead letter that is
 * tried again, its dead letter is discarded.  ret_n may be NULL: how many jobs.  NOT_FOUND.
 */
HOWDAH_API int howdah_queue_purge(howdah_bus *bus, const char *queue, int64_t *ret_n,
                                  howdah_error *reterr);

typedef struct howdah_queue_info {
    size_t size;
    const char *queue; /* valid until fn returns */
    bool paused;
    /* Counts, all of the same moment. */
    int64_t pending;
    int64_t processing;
    int64_t scheduled;
    int64_t completed; /* including those whose history was removed */
    int64_t failed;
    int64_t purged;
    int64_t dead_letters;  /* not resolved */
    int64_t oldest_age_ms; /* of the pending job that has been due longest; HOWDAH_ABSENT: none */
    int64_t created_at_us;
    howdah_queue_options settings;
} howdah_queue_info;

/* All queues by name (queue NULL), or one (NOT_FOUND).  A non-zero result of fn ends the walk. */
HOWDAH_API int howdah_queues_walk(howdah_bus *bus, const char *queue,
                                  int (*fn)(void *ctx, const howdah_queue_info *info), void *ctx,
                                  howdah_error *reterr);
/*
 * The same for all queues, but without counting their history, which may be long: completed and
 * failed are HOWDAH_ABSENT.  Cheap enough to call every few seconds.
 */
HOWDAH_API int howdah_queue_summaries_walk(howdah_bus *bus,
                                           int (*fn)(void *ctx, const howdah_queue_info *info),
                                           void *ctx, howdah_error *reterr);

/* A job in any state, also in the history; free it with howdah_job_free().  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_get(howdah_bus *bus, int64_t id, howdah_job **ret_job,
                                                howdah_error *reterr);
/*
 * cancel: a job that is not under way becomes FAILED without a dead letter.  When it was a dead
 * letter that is tried again, that one is discarded.  Its error is "cancelled", or "cancelled:
 * reason".  CONFLICT while the job is under way, or when it is over.
 *
 * rerun: a job that waits is due now.  A job that has FAILED is pending again with all its
 * attempts, as if its dead letter were redriven.  CONFLICT otherwise.  NOT_FOUND from both.
 */
HOWDAH_API int howdah_job_cancel(howdah_bus *bus, int64_t id, const char *reason,
                                 howdah_error *reterr);
HOWDAH_API int howdah_job_rerun(howdah_bus *bus, int64_t id, howdah_error *reterr);

/*
 * A job that FAILED has a dead letter: howdah_dead_letters_walk() lists it,
 * howdah_dead_letters_redrive() and _discard() handle it by its id.  The two functions below handle
 * all open ones of a queue.  ret_n may be NULL: how many.  A dead letter that is redriven is
 * "redrive" until its job has completed ("redriven") or failed ("dead" again).  NOT_FOUND.
 */
HOWDAH_API int howdah_queue_dead_letters_redrive(howdah_bus *bus, const char *queue, int64_t *ret_n,
                                                 howdah_error *reterr);
HOWDAH_API int howdah_queue_dead_letters_discard(howdah_bus *bus, const char *queue,
                                                 const char *reason, int64_t *ret_n,
                                                 howdah_error *reterr);

typedef struct howdah_queue_history_options {
    size_t size;
    int64_t status; /* HOWDAH_JOB_COMPLETED, HOWDAH_JOB_FAILED; HOWDAH_ABSENT: both */
    int64_t after;  /* for paging: positions above it (backward: below), 0: from the start */
    int64_t limit;  /* 0: all */
    bool backward;  /* newest first */
    bool payload;   /* with data and headers */
} howdah_queue_history_options;

#define HOWDAH_QUEUE_HISTORY_OPTIONS_INIT                                                          \
    {                                                                                              \
        sizeof(howdah_queue_history_options), HOWDAH_ABSENT, 0, 0, false, false                    \
    }

/*
 * The history of a queue, in the order in which jobs ended: a caller that continues after the last
 * position does not miss a job that took long.  On PostgreSQL a transaction that ends jobs and
 * stays open can show them below positions that were read meanwhile: to miss none, read some
 * positions again.  The job is valid until fn returns.  A non-zero result of fn ends the walk.
 */
HOWDAH_API int howdah_queue_history_walk(howdah_bus *bus, const char *queue,
                                         const howdah_queue_history_options *options,
                                         int (*fn)(void *ctx, const howdah_job *job), void *ctx,
                                         howdah_error *reterr);

/* ---------------------------------------------------------------- bindings */

/*
 * A binding makes a job of every event that matches a pattern: exactly once, in the order of the
 * log.  An event whose transaction commits late becomes a job when it appears; the events of one
 * stream are always in order.  The router that does this is a subscription, listed with all others.
 * Its checkpoint and the jobs are one transaction.  It can be paused and reset by its name, but
 * nobody else can subscribe with that name or remove it (CONFLICT).
 *
 * A job has data, content type, headers and correlation id of its event, which is its cause
 * (howdah_job_causation()).  The payload is not copied.  An event that matches two patterns of one
 * queue makes two jobs.
 *
 * Some process has to run the router.  A worker does so for its own queue, in a thread and a
 * session of its own: any number of workers share the events of a pattern, and nothing else has to
 * run.  So does any bus after howdah_bindings_serve().  One process at a time routes; another
 * takes over when it ends or dies.
 */
typedef enum howdah_binding_key {
    HOWDAH_KEY_STREAM = 0,      /* a stream's jobs one at a time, in order */
    HOWDAH_KEY_CORRELATION = 1, /* the same by correlation id; an event without one has no key */
    HOWDAH_KEY_NONE = 2
} howdah_binding_key;

/* "stream", "correlation", "none". */
HOWDAH_API const char *howdah_binding_key_name(howdah_binding_key key);

typedef struct howdah_bind_options {
    size_t size;
    howdah_binding_key key; /* what orders its jobs */
    int64_t start;          /* HOWDAH_FROM_START, HOWDAH_FROM_END, or N: events after N */
} howdah_bind_options;

#define HOWDAH_BIND_OPTIONS_INIT                                                                   \
    {                                                                                              \
        sizeof(howdah_bind_options), HOWDAH_KEY_STREAM, HOWDAH_FROM_START                          \
    }

/*
 * Binds a pattern ("order.*", ">": all) to a queue, which is created if it does not exist.  options
 * may be NULL.  HOWDAH_END: it is bound already with this key, and its router stays where it is.
 * CONFLICT: it is bound with another key.  Other errors: INVALID, LIMIT, and those of the store.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_bind(howdah_bus *bus, const char *queue,
                                                   const char *pattern,
                                                   const howdah_bind_options *options,
                                                   howdah_error *reterr);
/* From now on no event becomes a job.  Jobs that exist stay.  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_unbind(howdah_bus *bus, const char *queue,
                                                     const char *pattern, howdah_error *reterr);
/*
 * Moves the router: events after "to" (or HOWDAH_FROM_END) become jobs, whether or not they did
 * before.  The same as howdah_subscription_reset() of its subscription.  NOT_FOUND, INVALID.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_binding_replay(howdah_bus *bus, const char *queue,
                                                       const char *pattern, int64_t to,
                                                       howdah_error *reterr);

typedef struct howdah_binding_info {
    size_t size;
    /* Texts are valid until fn returns. */
    const char *queue;
    const char *pattern;
    howdah_binding_key key;
    const char *subscriber_id; /* of the router */
    const char *owner;         /* who routes, "": nobody */
    howdah_subscription_state state;
    const char *reason; /* why it is paused or halted, "" */
    int64_t high;       /* the router has looked at all numbers up to this, but for late ones */
    int64_t lag;        /* how many numbers the router has still to look at */
    int64_t head;       /* of the log */
    int64_t created_at_us;
} howdah_binding_info;

/* Those of one queue (NULL: all), by queue and pattern.  A non-zero result of fn ends it. */
HOWDAH_API int howdah_bindings_walk(howdah_bus *bus, const char *queue,
                                    int (*fn)(void *ctx, const howdah_binding_info *info),
                                    void *ctx, howdah_error *reterr);
/*
 * From now on howdah_service(), howdah_run() and the runner of this bus route as well, for one
 * queue or (NULL) for all.  They notice new and removed bindings within a second.  A second call
 * replaces the first.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_bindings_serve(howdah_bus *bus, const char *queue,
                                                       howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
