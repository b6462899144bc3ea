/* queue_race_workers.c - those who work: by hand, and by howdah_worker. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"
#include "queue_race.h"

#define BATCH_MAX 20
#define QR_SQL_FIRST 4 /* on PostgreSQL this worker and the next two know SQL only */

qr_shared *qr_all;

unsigned qr_pick(unsigned n)
{
    return hw_random_u32() % n;
}

bool qr_is_temporary(const howdah_error *err)
{
    return (err->flags & (HOWDAH_RETRYABLE | HOWDAH_OUTCOME_UNKNOWN)) != 0;
}

void qr_odd(const char *what, int status, const howdah_error *err)
{
    (void)fprintf(stderr, "# %s: %s %s\n", what, howdah_status_name(status),
                  err ? err->message : "");
    (void)atomic_fetch_add(&qr_all->odd, 1);
}

howdah_bus *qr_open(const qr_arena *arena, const char *application)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    char url[1300];
    int s;

    (void)snprintf(url, sizeof url, "%s", arena->url);
    if (strncmp(url, "sqlite:", 7) != 0)
        (void)snprintf(url, sizeof url, "%s%capplication_name=%s", arena->url,
                       strchr(arena->url, '?') ? '&' : '?', application);
    do
        s = howdah_open(url, arena->settings, &bus, &err);
    while (s < 0 && qr_is_temporary(&err));
    if (s < 0) {
        qr_odd("open", s, &err);
        _exit(71);
    }
    return bus;
}

/* ---- notes */

static qr_hold hold_of(const howdah_job *job)
{
    const char *key = howdah_job_key(job);
    qr_hold hold = {.id = howdah_job_id(job),
                    .token = howdah_job_token(job),
                    .attempt = (int32_t)howdah_job_attempt(job),
                    .key = key ? (int32_t)strtol(key + 1, NULL, 10) : 0,
                    .kind = strtol(howdah_job_data(job, NULL) + 1, NULL, 10)};

    (void)howdah_job_started_at(job, &hold.started_us);
    (void)howdah_job_lease_until(job, &hold.until_us);
    return hold;
}

int64_t qr_note_down(int kind, const qr_hold *hold, int64_t sent, bool final, bool failed)
{
    int64_t at = atomic_fetch_add(&qr_all->notes_n, 1);
    qr_note *n = &qr_all->notes[at];

    if (at >= QR_NOTES_MAX)
        _exit(70);
    n->id = hold->id;
    n->token = hold->token;
    n->attempt = hold->attempt;
    n->started_us = hold->started_us;
    n->until_us = hold->until_us;
    n->key = hold->key;
    n->sent = sent;
    n->noted_us = hw_clock_wall_us();
    n->final = final;
    n->failed = failed;
    atomic_store(&n->kind, kind);
    return at;
}

static int64_t note(int kind, const howdah_job *job, int64_t sent, bool final, bool failed)
{
    qr_hold hold = hold_of(job);

    return qr_note_down(kind, &hold, sent, final, failed);
}

/* ---- the work */

howdah_verdict qr_work_on(const qr_hold *hold)
{
    (void)qr_note_down(QR_BEGUN, hold, 0, false, false);
    if (hold->kind == QR_ABORT)
        (void)kill(getpid(), SIGKILL);
    if (qr_pick(2) == 0)
        (void)usleep(qr_pick(20000)); /* to be killed, or stopped, in the middle of it */
    if (qr_pick(400) == 0)
        (void)usleep(200000 + qr_pick(600000)); /* longer than some leases */
    if (hold->kind == QR_RETRY && hold->attempt < 3)
        return HOWDAH_VERDICT_RETRY;
    return hold->kind == QR_FAIL ? HOWDAH_VERDICT_FAIL : HOWDAH_VERDICT_COMPLETE;
}

static howdah_verdict work_on(const howdah_job *job)
{
    qr_hold hold = hold_of(job);

    return qr_work_on(&hold);
}

/* ---- by hand */

typedef struct hand {
    howdah_bus *bus;
    const howdah_job *jobs[BATCH_MAX];
    howdah_job_ack acks[BATCH_MAX];
    char texts[BATCH_MAX][32];
    size_t n;
} hand;

static void hear(const hand *h, size_t i, int64_t sent, bool unsure)
{
    const howdah_job_ack *t = &h->acks[i];
    bool final = t->verdict == HOWDAH_VERDICT_COMPLETE || t->verdict == HOWDAH_VERDICT_FAIL ||
                 t->outcome == HOWDAH_ACKED_FAILED;

    if (t->outcome != HOWDAH_ACKED_LOST)
        (void)note(QR_ACCEPTED, h->jobs[i], sent, final,
                   t->verdict == HOWDAH_VERDICT_FAIL || t->outcome == HOWDAH_ACKED_FAILED);
    else if (!unsure)
        (void)atomic_fetch_add(&qr_all->lost, 1);
}

/* Again and again until there is an answer: after an unknown outcome LOST says nothing. */
static void send_all(hand *h)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t sent[BATCH_MAX];
    bool unsure = false;
    int s;

    for (;;) {
        for (size_t i = 0; i < h->n; i++)
            sent[i] = note(QR_SENT, h->jobs[i], h->acks[i].verdict, false, false);
        s = howdah_jobs_ack(h->bus, h->acks, h->n, &err);
        if (s >= 0)
            break;
        if (!qr_is_temporary(&err)) {
            qr_odd("ack", s, &err);
            return;
        }
        unsure = unsure || (err.flags & HOWDAH_OUTCOME_UNKNOWN);
    }
    for (size_t i = 0; i < h->n; i++)
        hear(h, i, sent[i], unsure);
    h->n = 0;
}

static void decide(hand *h, const howdah_job *job, howdah_verdict verdict)
{
    howdah_job_ack *t = &h->acks[h->n];

    *t = (howdah_job_ack)HOWDAH_JOB_ACK_INIT;
    t->id = howdah_job_id(job);
    t->token = howdah_job_token(job);
    t->verdict = verdict;
    t->after_ms = verdict == HOWDAH_VERDICT_RETRY ? (int64_t)qr_pick(60) - 1 : 0;
    (void)snprintf(h->texts[h->n], sizeof h->texts[h->n], "token %lld", (long long)t->token);
    if (verdict == HOWDAH_VERDICT_FAIL || (verdict == HOWDAH_VERDICT_COMPLETE && qr_pick(2) == 0))
        t->text = h->texts[h->n];
    h->jobs[h->n++] = job;
}

/* The rest of a set goes on for longer. */
static void extend_rest(hand *h, const howdah_jobs *jobs, size_t from)
{
    hand rest = {.bus = h->bus};

    for (size_t i = from; i < howdah_jobs_count(jobs); i++)
        decide(&rest, howdah_jobs_at(jobs, i), HOWDAH_VERDICT_EXTEND);
    if (rest.n > 0)
        send_all(&rest);
}

static void work_through(hand *h, const howdah_jobs *jobs)
{
    size_t n = howdah_jobs_count(jobs);
    size_t at_once = qr_pick(3) == 0 ? 1 : qr_pick(2) == 0 ? n : 1 + qr_pick(BATCH_MAX);
    size_t begun = qr_pick(8) == 0 ? qr_pick((unsigned)n + 1) : n; /* the others are given back */
    bool extends = qr_pick(6) == 0;

    for (size_t i = 0; i < n; i++)
        (void)note(QR_CLAIMED, howdah_jobs_at(jobs, i), 0, false, false);
    for (size_t i = 0; i < n; i++) {
        const howdah_job *job = howdah_jobs_at(jobs, i);

        decide(h, job, i < begun ? work_on(job) : HOWDAH_VERDICT_RELEASE);
        if (h->n >= at_once)
            send_all(h);
        if (extends && i == n / 2)
            extend_rest(h, jobs, i + 1);
    }
    if (h->n > 0)
        send_all(h);
}

static void work_by_hand(howdah_bus *bus, const char *name)
{
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    hand h = {.bus = bus};

    o.worker = name;
    while (!atomic_load(&qr_all->done)) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_jobs *jobs = NULL;
        int s;

        o.lease_ms = 200 + (int64_t)qr_pick(400);
        s = howdah_queue_claim_wait(bus, QR_QUEUE, 1 + (int64_t)qr_pick(BATCH_MAX), 100, &o, &jobs,
                                    &err);
        if (s == HOWDAH_OK)
            work_through(&h, jobs);
        else if (s < 0 && !qr_is_temporary(&err))
            qr_odd("claim", s, &err);
        howdah_jobs_free(jobs);
    }
}

/* ---- by howdah_worker */

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    howdah_verdict verdict;
    char text[32];

    (void)ctx;
    (void)note(QR_CLAIMED, job, 0, false, false);
    verdict = work_on(job);
    (void)note(QR_SENT, job, verdict, false, false);
    (void)snprintf(text, sizeof text, "token %lld", (long long)howdah_job_token(job));
    if (verdict == HOWDAH_VERDICT_RETRY)
        return howdah_work_retry(work, (int64_t)qr_pick(60) - 1, "again");
    if (verdict == HOWDAH_VERDICT_FAIL)
        return howdah_work_fail(work, text);
    return qr_pick(2) == 0 ? HOWDAH_WORK_DONE : howdah_work_complete(work, text);
}

static void work_by_worker(howdah_bus *bus, const char *name, int64_t threads)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_worker_info info = HOWDAH_WORKER_INFO_INIT;
    howdah_worker *worker = NULL;
    int s;

    o.queue = QR_QUEUE;
    o.handler = on_job;
    o.threads = threads;
    o.batch = 4 + (int64_t)qr_pick(BATCH_MAX);
    o.lease_ms = 300 + (int64_t)qr_pick(400);
    o.worker = name;
    s = howdah_worker_new(bus, &o, &worker, &err);
    /* A session that ended with the time is an error that the next call mends. */
    while ((s >= 0 || qr_is_temporary(&err)) && !atomic_load(&qr_all->done))
        s = howdah_worker_run(worker, 100, &err);
    if (s >= 0 || qr_is_temporary(&err))
        s = howdah_worker_stop(worker, &err);
    if (s < 0)
        qr_odd("worker", s, &err);
    if (worker)
        howdah_worker_info_get(worker, &info);
    (void)atomic_fetch_add(&qr_all->lost, info.lost);
    howdah_worker_free(worker);
}

static void be_silent(void *ctx, int level, const char *message)
{
    (void)ctx;
    (void)level;
    (void)message;
}

void qr_choose_end(unsigned visits_max)
{
    static const char *const points[] = {
        "worker.before_exchange",     "worker.after_exchange",     "worker.after_handler",
        "sqlite.queue_before_commit", "sqlite.queue_after_commit",
    };
    char text[64];

    if (qr_pick(3) == 0) {
        (void)snprintf(text, sizeof text, "%s:kill@%u", points[qr_pick(5)],
                       1 + qr_pick(visits_max));
        (void)setenv("HOWDAH_FAILPOINT", text, 1);
    }
}

void qr_be_worker(const qr_arena *arena, int me)
{
    howdah_bus *bus;
    char name[32];

    if (arena->schema && me >= QR_SQL_FIRST && me < QR_SQL_FIRST + 3) {
        qr_be_sql_worker(arena, me, me - QR_SQL_FIRST);
        return;
    }
    qr_choose_end(40);
    howdah_log_set(be_silent, NULL); /* lost leases are what this is about */
    bus = qr_open(arena, "race");
    (void)snprintf(name, sizeof name, "w%d-%d", me, (int)getpid());
    if (me % 2 == 0)
        work_by_hand(bus, name);
    else
        work_by_worker(bus, name, me % 4 == 1 ? 0 : 3);
    howdah_close(bus);
}
