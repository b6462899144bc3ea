/*
 * howdah_queue.h - the work queue: part of howdah.h, which includes it.
 *
 * A queue is a named set of jobs that workers share.  Each job is handed to one worker at a time,
 * under a lease; the worker says how it went, job by job, and the job ends in the history as
 * COMPLETED or FAILED.  What was pushed is never lost, and runs at least once:
 *
 *   - a claim gives each job a token that no claim had before, and counts the attempt before the
 *     handler runs; whoever acks a job names (id, token), and with another token nothing changes
 *     (HOWDAH_LOST);
 *   - a lease that runs out gives the job back; after max_attempts it is FAILED without being run
 *     again; a job whose lease ran out once is claimed alone from then on;
 *   - all times are by the database's clock;
 *   - a claim, and the end of a job, may be committed without waiting for the disk: a crash of the
 *     server can undo them, and the job runs again.  Not so a push, nor a job that failed;
 *   - of the jobs of one ordering key at most one is under way, in the order they were pushed, also
 *     across retries; other keys are not held up.
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
 *         return mail(howdah_job_data(job, NULL)) ? HOWDAH_WORK_DONE
 *                                                 : howdah_work_retry(work, -1, "no answer");
 *     }
 *
 *     howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
 *     o.queue = "mail";
 *     o.handler = send;
 *     if (howdah_worker_new(bus, &o, &worker, &err) < 0 ||
 *         howdah_worker_run(worker, -1, &err) < 0)
 *         die(&err);
 *
 * The rules, on every face: a queue's name, a key, a dedup key and a correlation id are 1 to 255
 * bytes of UTF-8 without control characters; priority is -32768 to 32767; max_attempts 0 to 32767;
 * a delay up to ten years; data and headers as those of events.  A result and an error message are
 * kept up to 64 KiB: what is longer is cut, not refused.
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
    size_t headers_len;         /* of both, without a NUL */
    int64_t delay_ms;           /* due after this time, 0: at once; */
    int64_t run_at_us;          /* or at this time; HOWDAH_ABSENT: see delay_ms */
    int64_t priority;           /* lower first, 0 */
    int64_t max_attempts;       /* 0: the queue's */
    const char *key;            /* jobs of one key run one at a time, in order; NULL: none */
    const char *dedup;          /* while a job with it is not over, a push is answered with it */
    const char *correlation_id; /* NULL: none */
    const char *causation_id;   /* a UUID; NULL: none */
} howdah_new_job;

#define HOWDAH_NEW_JOB_INIT                                                                        \
    {                                                                                              \
        sizeof(howdah_new_job), NULL, 0, NULL, NULL, 0, 0, HOWDAH_ABSENT, 0, 0, NULL, NULL, NULL,  \
            NULL                                                                                   \
    }

typedef struct howdah_pushed {
    int64_t id;
    int32_t existed; /* 1: a job with this dedup key was there; this is its id, nothing is stored */
    char reserved[20]; /* 0; room to grow without a new layout */
} howdah_pushed;

/* Most jobs of one push, claim or settlement. */
#define HOWDAH_JOBS_MAX 10000

/*
 * Stores one job, or many at once: all or none, ids ascending in the order given.  A queue that
 * does not exist is made.  When it returns HOWDAH_OK the jobs are durable.  ret_pushed has room for
 * n entries, or is NULL.
 *
 * Errors: INVALID, LIMIT (error.field names it, error.event_index the job), SCHEMA, DENIED,
 * READ_ONLY, FULL, UNAVAILABLE, TIMEOUT.  Nothing is stored, except with HOWDAH_OUTCOME_UNKNOWN:
 * then the jobs may be stored, and only a dedup key keeps a repeated push from storing them twice.
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
typedef struct howdah_jobs howdah_jobs; /* those of one claim, in the order they came */

typedef enum howdah_job_state {
    HOWDAH_JOB_PENDING = 0,    /* due: the next claim may have it */
    HOWDAH_JOB_SCHEDULED = 1,  /* due later, or behind an earlier job of its key */
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
/* 0 when it is not under a lease.  One that was looked up has it on PostgreSQL for administrators
 * only: whoever claimed it knows it. */
HOWDAH_API int64_t howdah_job_token(const howdah_job *job);
HOWDAH_API howdah_job_state howdah_job_get_state(const howdah_job *job);
HOWDAH_API const char *howdah_job_queue(const howdah_job *job);
/* Attempts so far, a running one included: 1 inside the first. */
HOWDAH_API int64_t howdah_job_attempt(const howdah_job *job);
HOWDAH_API int64_t howdah_job_max_attempts(const howdah_job *job);
HOWDAH_API int howdah_job_priority(const howdah_job *job);
/* True when a lease of it ran out once: its worker died, or was too slow. */
HOWDAH_API bool howdah_job_is_suspect(const howdah_job *job);
/* JSON text (content type NULL) or bytes; NUL-terminated beyond *ret_len, which may be NULL. */
HOWDAH_API const char *howdah_job_data(const howdah_job *job, size_t *ret_len);
HOWDAH_API const char *howdah_job_content_type(const howdah_job *job);
/* A JSON object, "{}" when there are none. */
HOWDAH_API const char *howdah_job_headers(const howdah_job *job, size_t *ret_len);
/* NULL when absent. */
HOWDAH_API const char *howdah_job_key(const howdah_job *job);
HOWDAH_API const char *howdah_job_dedup(const howdah_job *job);
HOWDAH_API const char *howdah_job_correlation(const howdah_job *job);
HOWDAH_API const char *howdah_job_worker(const howdah_job *job);
/* Of the last attempt that failed, and what a completed one left. */
HOWDAH_API const char *howdah_job_error(const howdah_job *job);
HOWDAH_API const char *howdah_job_result(const howdah_job *job);
/* false (and an empty string) when absent. */
HOWDAH_API bool howdah_job_causation(const howdah_job *job, char ret_uuid[HOWDAH_UUID_SIZE]);
/* The event that a binding made it of; 0: it was pushed. */
HOWDAH_API int64_t howdah_job_event_sequence(const howdah_job *job);
/* Of that event; NULL when it was pushed, or the event is gone from the log. */
HOWDAH_API const char *howdah_job_event_type(const howdah_job *job);
HOWDAH_API const char *howdah_job_event_stream(const howdah_job *job);
/* Its place in the history, which is in the order of ending; 0: it is not over. */
HOWDAH_API int64_t howdah_job_position(const howdah_job *job);
/* false when there is no such time: not started, not finished, behind another job of its key. */
HOWDAH_API bool howdah_job_created_at(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_due_at(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_started_at(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_lease_until(const howdah_job *job, int64_t *ret_us);
HOWDAH_API bool howdah_job_finished_at(const howdah_job *job, int64_t *ret_us);

/*
 * The job as one JSON object, in the field order and spelling of "howdah job show --json".  A bytes
 * payload becomes "data_base64" and "content_type".  Works like snprintf: writes at most room bytes
 * (NUL included) and returns the length that the whole text has, or would have.
 */
HOWDAH_API size_t howdah_job_json(const howdah_job *job, char *out, size_t room);

/* ------------------------------------------------------------------- claim */

typedef struct howdah_claim_options {
    size_t size;
    int64_t lease_ms;   /* 0: the queue's abandon_after */
    const char *worker; /* how the job names who has it; NULL: host, process and bus */
} howdah_claim_options;

#define HOWDAH_CLAIM_OPTIONS_INIT                                                                  \
    {                                                                                              \
        sizeof(howdah_claim_options), 0, NULL                                                      \
    }

/*
 * Takes up to n jobs (1 to HOWDAH_JOBS_MAX) that are due, in the order (priority, due, id), each
 * under a lease with a new token.  Does not wait.  HOWDAH_OK and a set of at least one job, to be
 * freed with howdah_jobs_free(); HOWDAH_END when there is none: the queue is empty, paused, at its
 * limit of concurrency, or does not exist.  The leases live on when the set is freed.  When the
 * payloads of those taken pass some MiB, no others are added: fewer than n says nothing of the
 * rest.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_claim(howdah_bus *bus, const char *queue, int64_t n,
                                                    const howdah_claim_options *options,
                                                    howdah_jobs **ret_jobs, howdah_error *reterr);
/*
 * The same, waiting up to for_ms (-1: for ever) for the first job; a push wakes it.  Also
 * INTERRUPTED.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_claim_wait(howdah_bus *bus, const char *queue,
                                                         int64_t n, int64_t for_ms,
                                                         const howdah_claim_options *options,
                                                         howdah_jobs **ret_jobs,
                                                         howdah_error *reterr);

/* ------------------------------------------------------------------ ack */

/* By the queue's back-off: initial, doubling with every attempt, up to its maximum, with jitter. */
#define HOWDAH_AFTER_BACKOFF INT64_C(-1)

/*
 * How it went.  HOWDAH_LOST: the lease is not ours any more (it ran out, or somebody acked the
 * job), and nothing was changed.  result and error may be NULL.
 *
 *   complete   into the history, with the result
 *   fail       for good: into the history with the error, and a dead letter
 *   retry      again after after_ms, or HOWDAH_AFTER_BACKOFF; HOWDAH_END: no attempt was left, and
 *              it has FAILED
 *   release    again at once; the attempt is not counted.  For what was not begun
 *   extend     the lease runs lease_ms from now on, 0: as long as it was claimed for
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
    HOWDAH_ACKED_LOST = 0,  /* the lease is another's: nothing was changed */
    HOWDAH_ACKED_DONE = 1,  /* as asked for */
    HOWDAH_ACKED_FAILED = 2 /* RETRY without an attempt left, or RETRY or RELEASE after the event
                                 it was made of was purged: it has FAILED */
} howdah_ack_outcome;

typedef struct howdah_job_ack {
    int64_t id;
    int64_t token;
    int64_t after_ms; /* RETRY: or HOWDAH_AFTER_BACKOFF; EXTEND: the new lease, 0: as claimed */
    const char *text; /* COMPLETE: the result; FAIL, RETRY: the error; NULL: none */
    howdah_verdict verdict;
    howdah_ack_outcome outcome; /* written by howdah_jobs_ack() */
    char reserved[24];          /* 0; room to grow without a new layout */
} howdah_job_ack;

/*
 * All verdicts in one round trip and one transaction, of whatever queues; each entry's outcome is
 * written.  A lost one does not keep the others back and is no error of the call.  When the call
 * fails nothing was changed, unless HOWDAH_OUTCOME_UNKNOWN: repeated then, what was acked is
 * LOST.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_jobs_ack(howdah_bus *bus, howdah_job_ack *acks, size_t n,
                                                 howdah_error *reterr);

/* ------------------------------------------------- publish, poll, finalize */

/*
 * The three calls of a plain queue.  publish pushes one JSON document.  poll takes one job, without
 * waiting, or returns HOWDAH_END; free it with howdah_job_free().  The bus remembers the token of
 * what poll gave out (the last 10,000), so that finalize needs the id only: success COMPLETEs the
 * job, otherwise it has FAILED.  LOST when this bus has no token for it, or not the newest.  A
 * handler finalizes what it has polled itself.
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
 * handlers run, and acks what is done together with the next claim.
 *
 * With threads 0 handlers run inside howdah_worker_run(), in the caller's thread; leases of jobs
 * that wait are extended between two of them, and a handler that takes longer than a third of the
 * lease calls howdah_work_extend() now and then.  With threads > 0 handlers run in so many threads
 * of the worker's own, and leases are extended at a third of their time whatever the handlers do.
 * Only the thread that calls howdah_worker_run() and howdah_worker_stop() acks and claims.  A
 * handler may use the bus of its worker, whatever thread it runs in, as that of a subscription may
 * (see howdah_subscribe()); what it pushes and appends is stored at once, not with its verdict.
 *
 * From the first howdah_worker_run() on a queue that has bindings, until the worker is stopped, one
 * more thread with a session of its own stands by to route their events; see howdah_queue_bind().
 * It needs the rights of a subscriber; without them the worker works on what others route.
 */
typedef struct howdah_worker howdah_worker;
typedef struct howdah_work howdah_work; /* the job in hand; valid until the handler returns */

/* What a handler returns; anything else is FAILED. */
#define HOWDAH_WORK_DONE 0
#define HOWDAH_WORK_FAILED 1  /* for good: a dead letter */
#define HOWDAH_WORK_RETRY 2   /* again, by the queue's back-off unless howdah_work_retry() says */
#define HOWDAH_WORK_RELEASE 3 /* not begun: again at once, attempt not counted */

typedef int (*howdah_work_handler)(void *ctx, const howdah_job *job, howdah_work *work);

/* These keep a copy of the text, up to 64 KiB, and return what the handler is to return. */
HOWDAH_API int howdah_work_done(howdah_work *work, const char *result);
HOWDAH_API int howdah_work_fail(howdah_work *work, const char *error);
HOWDAH_API int howdah_work_retry(howdah_work *work, int64_t after_ms, const char *error);
/* With threads 0: extends the lease of all that the worker has.  LOST: give this one up. */
HOWDAH_API int howdah_work_extend(howdah_work *work, howdah_error *reterr);
/* True when the lease is known to be lost: whatever the handler returns, nobody will hear it. */
HOWDAH_API bool howdah_work_is_lost(const howdah_work *work);
/* True while the worker is being stopped. */
HOWDAH_API bool howdah_work_is_stopping(const howdah_work *work);

typedef struct howdah_worker_options {
    size_t size;
    const char *queue;           /* required */
    howdah_work_handler handler; /* required */
    void *ctx;
    int64_t threads;      /* 0 to 256; 0: the caller's thread */
    int64_t batch;        /* 10: jobs in hand at most, running ones included; at least threads */
    int64_t lease_ms;     /* 0: the queue's abandon_after */
    int64_t ack_delay_ms; /* 100: so long a finished job waits for others to be acked with */
    int64_t drain_ms;     /* 30000: how long howdah_worker_stop() waits for handlers */
    int64_t max_attempts; /* 0: the job's; otherwise a retry at this attempt is a failure */
    int64_t max_jobs;     /* 0: no end; otherwise howdah_worker_run() ends after so many */
    bool until_empty;     /* howdah_worker_run() ends when nothing is left to do */
    const char *worker;   /* how jobs name who has them; NULL: host, process and bus */
} howdah_worker_options;

#define HOWDAH_WORKER_OPTIONS_INIT                                                                 \
    {                                                                                              \
        sizeof(howdah_worker_options), NULL, NULL, NULL, 0, 10, 0, 100, 30000, 0, 0, false, NULL   \
    }

/* Starts the threads, if any; claims nothing yet.  Errors: INVALID, MISUSE (one worker a bus). */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_worker_new(howdah_bus *bus,
                                                   const howdah_worker_options *options,
                                                   howdah_worker **ret_worker,
                                                   howdah_error *reterr);
/*
 * Works until the time is over (-1: for ever), howdah_interrupt(), or an end that the options name.
 * A store that cannot be reached is waited for, with growing pauses.  HOWDAH_OK: the time is over;
 * HOWDAH_END: max_jobs, or nothing is left; INTERRUPTED; or an error that waiting does not mend.
 * What is finished is acked when it returns OK or END; jobs in hand stay in hand, and their
 * leases are extended by the next call only.
 *
 * "Nothing is left" means that no job is pending or processing, none that this worker sent back
 * waits for its next try, and no event up to the log's head is still to become a job of this queue.
 * Jobs that were pushed for later are not waited for.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_worker_run(howdah_worker *worker, int64_t for_ms,
                                                   howdah_error *reterr);
/*
 * Drains: claims nothing more, gives back what was not begun, waits for the handlers that run,
 * extending their leases, and acks them.  TIMEOUT when some still run after drain_ms; it may be
 * called again.  After howdah_interrupt() call howdah_interrupt_clear() first.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_worker_stop(howdah_worker *worker, howdah_error *reterr);
/*
 * Stops it unless it is stopped, then waits for every handler that still runs: their leases run
 * out by themselves.  Before howdah_close().
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
    int64_t waiting; /* in hand, not begun */
    bool paused;     /* the queue was, when it was asked last */
} howdah_worker_info;

#define HOWDAH_WORKER_INFO_INIT                                                                    \
    {                                                                                              \
        sizeof(howdah_worker_info), 0, 0, 0, 0, 0, 0, 0, 0, false                                  \
    }

/* From the thread that runs the worker; otherwise MISUSE. */
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
      "100ms to 10 years", "", "how long a worker that does not answer keeps a job: a lease")      \
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

/* An int64_t for each.  HOWDAH_ABSENT: as it is, or the default for a new queue. */
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
 * Sets one of them by key and text, as howdah_settings_set() does; durations as 250ms, 5s, 2m, 1h.
 * INVALID names the nearest key, or the range.
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

/* Makes the queue, or changes it. */
HOWDAH_API int howdah_queue_set(howdah_bus *bus, const char *queue,
                                const howdah_queue_options *options, howdah_error *reterr);
/* Nothing is claimed while it is paused; what is under way goes on.  NOT_FOUND. */
HOWDAH_API int howdah_queue_pause(howdah_bus *bus, const char *queue, howdah_error *reterr);
HOWDAH_API int howdah_queue_resume(howdah_bus *bus, const char *queue, howdah_error *reterr);
/*
 * Removes every job that is not under way, for good; dead letters that they were tried again for
 * are discarded.  ret_n, may be NULL: how many.  NOT_FOUND.
 */
HOWDAH_API int howdah_queue_purge(howdah_bus *bus, const char *queue, int64_t *ret_n,
                                  howdah_error *reterr);

typedef struct howdah_queue_info {
    size_t size;
    const char *queue; /* until fn returns */
    bool paused;
    /* Counts, of one moment. */
    int64_t pending;
    int64_t processing;
    int64_t scheduled;
    int64_t completed; /* those whose history was removed included */
    int64_t failed;
    int64_t purged;
    int64_t dead_letters;  /* not resolved */
    int64_t oldest_age_ms; /* of the pending job that is due longest; HOWDAH_ABSENT: none */
    int64_t created_at_us;
    howdah_queue_options settings;
} howdah_queue_info;

/* All queues by name (queue NULL), or one (NOT_FOUND).  fn's non-zero result ends it. */
HOWDAH_API int howdah_queues_walk(howdah_bus *bus, const char *queue,
                                  int (*fn)(void *ctx, const howdah_queue_info *info), void *ctx,
                                  howdah_error *reterr);
/*
 * The same of all queues without counting their history, which may be long: completed and failed
 * are HOWDAH_ABSENT.  For a look every few seconds.
 */
HOWDAH_API int howdah_queues_summary(howdah_bus *bus,
                                     int (*fn)(void *ctx, const howdah_queue_info *info), void *ctx,
                                     howdah_error *reterr);

/* A job wherever it is, also in the history; free with howdah_job_free().  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_job_get(howdah_bus *bus, int64_t id, howdah_job **ret_job,
                                                howdah_error *reterr);
/*
 * cancel: a job that is not under way becomes FAILED without a dead letter (one that it was tried
 * again for is discarded); its error is "cancelled", or with a reason "cancelled: reason".
 * CONFLICT while it is under way, or over.
 * retry: a job that waits is due now; one that has FAILED is pending again with all its attempts,
 * as if its dead letter were redriven.  CONFLICT otherwise.  NOT_FOUND of both.
 */
HOWDAH_API int howdah_job_cancel(howdah_bus *bus, int64_t id, const char *reason,
                                 howdah_error *reterr);
HOWDAH_API int howdah_job_rerun(howdah_bus *bus, int64_t id, howdah_error *reterr);

/*
 * A job that FAILED has a dead letter: howdah_dead_letters_walk() lists it,
 * howdah_dead_letters_redrive() and _discard() see to it by its id.  These see to all open ones of
 * a queue.  ret_n, may be NULL: how many.  A redriven dead letter is "redrive" until its job has
 * completed ("redriven") or failed ("dead" again).  NOT_FOUND.
 */
HOWDAH_API int howdah_queue_dead_letters_redrive(howdah_bus *bus, const char *queue, int64_t *ret_n,
                                                 howdah_error *reterr);
HOWDAH_API int howdah_queue_dead_letters_discard(howdah_bus *bus, const char *queue,
                                                 const char *reason, int64_t *ret_n,
                                                 howdah_error *reterr);

typedef struct howdah_queue_log_options {
    size_t size;
    int64_t status; /* HOWDAH_JOB_COMPLETED, HOWDAH_JOB_FAILED; HOWDAH_ABSENT: both */
    int64_t after;  /* for paging: positions above it (backward: below), 0: from the start */
    int64_t limit;  /* 0: all */
    bool backward;  /* newest first */
    bool payload;   /* with data and headers */
} howdah_queue_log_options;

#define HOWDAH_QUEUE_LOG_OPTIONS_INIT                                                              \
    {                                                                                              \
        sizeof(howdah_queue_log_options), HOWDAH_ABSENT, 0, 0, false, false                        \
    }

/*
 * The history of a queue, in the order in which jobs ended: whoever reads on behind the last
 * position misses no job that took long.  On PostgreSQL a transaction that ends jobs and stays open
 * shows them behind what was read meanwhile: who must not miss one looks a little back.  The job is
 * valid until fn returns; fn's non-zero result ends it.
 */
HOWDAH_API int howdah_queue_log(howdah_bus *bus, const char *queue,
                                const howdah_queue_log_options *options,
                                int (*fn)(void *ctx, const howdah_job *job), void *ctx,
                                howdah_error *reterr);

/* ---------------------------------------------------------------- bindings */

/*
 * A binding makes a job of every event that matches a pattern: exactly once, in the order of the
 * log, also of events whose transactions commit late (those when they appear; a stream's events are
 * always in order).  The router behind it is a subscription, listed with all others, whose
 * checkpoint and jobs are one transaction.  It can be paused and reset by its name; nobody else can
 * subscribe to it or remove it (CONFLICT).
 *
 * A job has data, content type, headers and correlation id of its event, which is its cause
 * (howdah_job_causation()); the payload is not copied.  An event that matches two patterns of one
 * queue makes two jobs.
 *
 * Somebody has to serve the router: a worker does so for its own queue, in a thread and a session
 * of its own, so that any number of workers share the events of a pattern and nothing else has to
 * run; or any bus after howdah_bindings_serve().  One process at a time routes, the others take
 * over when it ends or dies.
 */
typedef enum howdah_binding_key {
    HOWDAH_KEY_STREAM = 0,      /* a stream's jobs one at a time, in order; others go on */
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
 * Binds a pattern ("order.*", ">": all) to a queue, which is made if there is none.  options may be
 * NULL.  HOWDAH_OK; HOWDAH_END: it is bound already with this key, and stays where it is; CONFLICT:
 * it is bound with another key.  Errors: INVALID, LIMIT, ...
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_bind(howdah_bus *bus, const char *queue,
                                                   const char *pattern,
                                                   const howdah_bind_options *options,
                                                   howdah_error *reterr);
/* No event becomes a job any more; jobs that were made stay.  NOT_FOUND. */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_queue_unbind(howdah_bus *bus, const char *queue,
                                                     const char *pattern, howdah_error *reterr);
/*
 * Puts the router elsewhere: events after "to" (or HOWDAH_FROM_END) become jobs, whether they did
 * before or not.  The same as howdah_subscription_reset() of its subscription.  NOT_FOUND, INVALID.
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
    int64_t high;       /* events up to it are jobs, or do not concern it, but for a few that */
    int64_t lag;        /* come late: how many numbers the router has still to look at */
    int64_t head;       /* of the log */
    int64_t created_at_us;
} howdah_binding_info;

/* Those of one queue (NULL: all), by queue and pattern.  fn's non-zero result ends it. */
HOWDAH_API int howdah_bindings_walk(howdah_bus *bus, const char *queue,
                                    int (*fn)(void *ctx, const howdah_binding_info *info),
                                    void *ctx, howdah_error *reterr);
/*
 * From now on howdah_service(), howdah_run() and the runner of this bus route as well, for one
 * queue or (NULL) for all; bindings that come and go are noticed within a second.  Called again it
 * takes the place of the call before.
 */
HOWDAH_API HOWDAH_MUST_CHECK int howdah_bindings_serve(howdah_bus *bus, const char *queue,
                                                       howdah_error *reterr);

#ifdef __cplusplus
}
#endif

#endif
