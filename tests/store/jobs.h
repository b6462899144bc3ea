/* jobs.h - pushing, claiming, acking and looking, for the tests of store/queue.h. */
#ifndef HW_TESTS_STORE_JOBS_H
#define HW_TESTS_STORE_JOBS_H

#include "base/clock.h"
#include "suite.h"

#define LONG_MS 60000 /* a lease that no test outlives */
#define SHORT_MS 50   /* one that runs out on purpose */
#define HELD_MS 2000  /* one that runs out on purpose, and not before something was looked at */

/* The operations of the store under test. */
const hw_queue_ops *jobs_ops(const ss *t);

/* A job that outlives its callback. */
typedef struct kept_job {
    howdah_job job; /* its texts are gone */
    char queue[64]; /* "-": absent, and so below */
    char data[64];
    char worker[64];
    char key[64];
    char dedup[64];
    char correlation_id[64];
    char headers[64];
    char content_type[64];
    char error[160];
    char result[64];
} kept_job;

typedef struct batch {
    kept_job jobs[32];
    size_t n;
    size_t stop_after; /* 0: never */
    hw_claim_report report;
    char names[256]; /* the data of all, joined by spaces */
} batch;

int jobs_keep(void *ctx, const howdah_job *job); /* a hw_job_fn with a batch as ctx */

/* A push with this data, nothing else. */
hw_push a_job(const char *data);
hw_push a_keyed_job(const char *data, const char *key);
/* Pushes one to queue "q" and expects it to be new; its id. */
int64_t push(const ss *t, hw_push job);
/* The same to another queue. */
int64_t push_to(const ss *t, const char *queue, hw_push job);

/* A claim by worker "w". */
batch claim_from(hw_store *store, const char *queue, int64_t n, int64_t lease_ms);
/* From queue "q", for long. */
batch claim(const ss *t, int64_t n);
/* Claims one, and expects it to have this data. */
kept_job claim_one(const ss *t, const char *data);

howdah_ack_outcome ack(const ss *t, const kept_job *job, howdah_verdict verdict, const char *text,
                       int64_t after_ms);
/* Settles, and expects it to be done. */
void complete(const ss *t, const kept_job *job);
void fail_for_good(const ss *t, const kept_job *job, const char *error);
void retry_after(const ss *t, const kept_job *job, int64_t after_ms);

/* The job as job_load() tells it. */
kept_job load_job(const ss *t, int64_t id);
void expect_state(const ss *t, int64_t id, howdah_job_state state);

/* A queue's row, with settings; its name is gone. */
howdah_queue_info load_queue(const ss *t, const char *queue);
/* Of queue "q": "pending processing scheduled completed failed purged". */
void expect_counts(const ss *t, const char *counts);
/* All settings are HOWDAH_ABSENT, to begin with. */
howdah_queue_options keep_all(void);
void put_queue(const ss *t, const char *queue, howdah_queue_options settings);

void wait_ms(int64_t ms);
/* The id of the dead letter of a job, as it is stored; 0: none that is open. */
int64_t open_dead_letter(const ss *t, int64_t job_id);

#endif
