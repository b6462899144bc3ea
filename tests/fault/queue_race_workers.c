/* queue_race_workers.c - those who push, and those who work: by hand, and by howdah_worker. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/random.h"
#include "queue_race.h"

#define BATCH_MAX 20
#define DEDUPS 20

qr_shared *qr_all;

static unsigned pick(unsigned n)
{
    return hw_random_u32() % n;
}

static bool is_temporary(const howdah_error *err)
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
    while (s < 0 && is_temporary(&err));
    if (s < 0) {
        qr_odd("open", s, &err);
        _exit(71);
    }
    return bus;
}

/* ---- notes */

static int64_t note(int kind, const howdah_job *job, int64_t sent, bool final)
{
    int64_t at = atomic_fetch_add(&qr_all->notes_n, 1);
    const char *key = howdah_job_key(job);
    qr_note *n = &qr_all->notes[at];

    if (at >= QR_NOTES_MAX)
        _exit(70);
    n->id = howdah_job_id(job);
    n->token = howdah_job_token(job);
    n->attempt = (int32_t)howdah_job_attempt(job);
    (void)howdah_job_started_at(job, &n->started_us);
    (void)howdah_job_lease_until(job, &n->until_us);
    n->key = key ? (int32_t)strtol(key + 1, NULL, 10) : 0;
    n->sent = sent;
    n->final = final;
    atomic_store(&n->kind, kind);
    return at;
}

/* ---- pushers */

typedef struct pusher {
    howdah_bus *bus;
    int me;
    int64_t dedups[DEDUPS]; /* the last job of each */
} pusher;

/* One that had the dedup key before must be over when the next is stored. */
static void check_dedup(pusher *p, int dedup, const howdah_pushed *pushed)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_job *before = NULL;
    int s;

    if (pushed->existed && pushed->id != p->dedups[dedup])
        qr_odd("a dedup key of another job", 0, NULL);
    if (!pushed->existed && p->dedups[dedup] > 0) {
        s = howdah_job_show(p->bus, p->dedups[dedup], &before, &err);
        if (s < 0)
            qr_odd("show", s, &err);
        else if (howdah_job_get_state(before) != HOWDAH_JOB_COMPLETED &&
                 howdah_job_get_state(before) != HOWDAH_JOB_FAILED)
            qr_odd("two live jobs of one dedup key", 0, NULL);
        howdah_job_free(before);
    }
    p->dedups[dedup] = pushed->id;
}

typedef struct draft {
    howdah_new_job job;
    char key[16];
    char dedup[16];
    char data[4];
    int kind;
    int key_no;
    int dedup_no; /* -1: none */
} draft;

static void draw(const pusher *p, draft *d, bool used[DEDUPS])
{
    unsigned dice = pick(100);
    howdah_new_job plain = HOWDAH_NEW_JOB_INIT;

    memset(d, 0, sizeof *d);
    d->job = plain;
    d->kind = dice < 8 ? QR_RETRY : dice < 11 ? QR_FAIL : QR_DONE;
    if (pick(250) == 0)
        d->kind = QR_ABORT;
    d->job.max_attempts = d->kind == QR_ABORT ? QR_ABORT_ATTEMPTS : QR_ATTEMPTS;
    if (pick(3) == 0) {
        d->key_no = 1 + p->me * QR_KEYS + (int)pick(QR_KEYS);
        (void)snprintf(d->key, sizeof d->key, "k%d", d->key_no);
        d->job.key = d->key;
    }
    d->dedup_no = pick(20) == 0 ? (int)pick(DEDUPS) : -1;
    if (d->dedup_no >= 0 && used[d->dedup_no])
        d->dedup_no = -1;
    if (d->dedup_no >= 0) {
        used[d->dedup_no] = true;
        (void)snprintf(d->dedup, sizeof d->dedup, "d%d-%d", p->me, d->dedup_no);
        d->job.dedup = d->dedup;
    }
    if (pick(10) == 0)
        d->job.delay_ms = pick(300);
    if (pick(10) == 0)
        d->job.priority = (int64_t)pick(3) - 1;
    (void)snprintf(d->data, sizeof d->data, "%d", d->kind);
    d->job.data = d->data;
    d->job.data_len = 1;
}

/* Sessions of pushers are not ended: only then is it known what is stored. */
static void push_some(pusher *p, size_t n)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const howdah_new_job *jobs[BATCH_MAX];
    draft drafts[BATCH_MAX];
    howdah_pushed pushed[BATCH_MAX];
    bool used[DEDUPS] = {false};
    int s;

    for (size_t i = 0; i < n; i++) {
        draw(p, &drafts[i], used);
        jobs[i] = &drafts[i].job;
    }
    (void)atomic_fetch_add(&qr_all->to_be, (long long)n);
    do
        s = howdah_push_batch(p->bus, QR_QUEUE, jobs, n, pushed, &err);
    while (s < 0 && (err.flags & HOWDAH_RETRYABLE));
    if (s < 0) {
        qr_odd("push", s, &err);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (pushed[i].existed) {
            (void)atomic_fetch_add(&qr_all->repeats, 1);
        } else if (pushed[i].id >= QR_IDS_MAX ||
                   atomic_load(&qr_all->pushed[pushed[i].id].stored)) {
            qr_odd("an id was given twice", 0, NULL);
        } else {
            qr_pushed *known = &qr_all->pushed[pushed[i].id];

            known->kind = drafts[i].kind;
            known->key = drafts[i].key_no;
            atomic_store(&known->stored, true);
            (void)atomic_fetch_add(&qr_all->stored, 1);
        }
        if (drafts[i].dedup_no >= 0)
            check_dedup(p, drafts[i].dedup_no, &pushed[i]);
    }
}

void qr_be_pusher(const qr_arena *arena, int me)
{
    pusher p = {.bus = qr_open(arena, "pusher"), .me = me};
    long left = arena->jobs / QR_PUSHERS;
    /* On the average half of the largest batch at once. */
    long rest_us = arena->seconds * 2000000 / (left / (BATCH_MAX / 2) + 1);

    while (left > 0) {
        long n = 1 + (long)pick(BATCH_MAX);

        n = n < left ? n : left;
        push_some(&p, (size_t)n);
        left -= n;
        (void)usleep(pick((unsigned)rest_us + 1));
    }
    howdah_close(p.bus);
}

/* ---- the work */

/* What is to become of it, after some time. */
static howdah_job_verdict work_on(const howdah_job *job)
{
    long kind = strtol(howdah_job_data(job, NULL), NULL, 10);

    (void)note(QR_BEGUN, job, 0, false);
    if (kind == QR_ABORT)
        (void)kill(getpid(), SIGKILL);
    if (pick(2) == 0)
        (void)usleep(pick(20000)); /* to be killed, or stopped, in the middle of it */
    if (pick(400) == 0)
        (void)usleep(200000 + pick(600000)); /* longer than some leases */
    if (kind == QR_RETRY && howdah_job_attempt(job) < 3)
        return HOWDAH_VERDICT_RETRY;
    return kind == QR_FAIL ? HOWDAH_VERDICT_FAIL : HOWDAH_VERDICT_COMPLETE;
}

/* ---- by hand */

typedef struct hand {
    howdah_bus *bus;
    const howdah_job *jobs[BATCH_MAX];
    howdah_settlement settlements[BATCH_MAX];
    char texts[BATCH_MAX][32];
    size_t n;
} hand;

static void hear(const hand *h, size_t i, int64_t sent, bool unsure)
{
    const howdah_settlement *t = &h->settlements[i];
    bool final = t->verdict == HOWDAH_VERDICT_COMPLETE || t->verdict == HOWDAH_VERDICT_FAIL ||
                 t->outcome == HOWDAH_SETTLED_FAILED;

    if (t->outcome != HOWDAH_SETTLED_LOST)
        (void)note(QR_ACCEPTED, h->jobs[i], sent, final);
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
            sent[i] = note(QR_SENT, h->jobs[i], h->settlements[i].verdict, false);
        s = howdah_settle(h->bus, h->settlements, h->n, &err);
        if (s >= 0)
            break;
        if (!is_temporary(&err)) {
            qr_odd("settle", s, &err);
            return;
        }
        unsure = unsure || (err.flags & HOWDAH_OUTCOME_UNKNOWN);
    }
    for (size_t i = 0; i < h->n; i++)
        hear(h, i, sent[i], unsure);
    h->n = 0;
}

static void decide(hand *h, const howdah_job *job, howdah_job_verdict verdict)
{
    howdah_settlement *t = &h->settlements[h->n];

    memset(t, 0, sizeof *t);
    t->id = howdah_job_id(job);
    t->token = howdah_job_token(job);
    t->verdict = verdict;
    t->after_ms = verdict == HOWDAH_VERDICT_RETRY ? (int64_t)pick(60) - 1 : 0;
    (void)snprintf(h->texts[h->n], sizeof h->texts[h->n], "token %lld", (long long)t->token);
    if (verdict == HOWDAH_VERDICT_FAIL || (verdict == HOWDAH_VERDICT_COMPLETE && pick(2) == 0))
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
    size_t at_once = pick(3) == 0 ? 1 : pick(2) == 0 ? n : 1 + pick(BATCH_MAX);
    size_t begun = pick(8) == 0 ? pick((unsigned)n + 1) : n; /* the others are given back */
    bool extends = pick(6) == 0;

    for (size_t i = 0; i < n; i++)
        (void)note(QR_CLAIMED, howdah_jobs_at(jobs, i), 0, false);
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

        o.lease_ms = 200 + (int64_t)pick(400);
        s = howdah_claim_wait(bus, QR_QUEUE, 1 + (int64_t)pick(BATCH_MAX), 100, &o, &jobs, &err);
        if (s == HOWDAH_OK)
            work_through(&h, jobs);
        else if (s < 0 && !is_temporary(&err))
            qr_odd("claim", s, &err);
        howdah_jobs_free(jobs);
    }
}

/* ---- by howdah_worker */

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    howdah_job_verdict verdict;
    char text[32];

    (void)ctx;
    (void)note(QR_CLAIMED, job, 0, false);
    verdict = work_on(job);
    (void)note(QR_SENT, job, verdict, false);
    (void)snprintf(text, sizeof text, "token %lld", (long long)howdah_job_token(job));
    if (verdict == HOWDAH_VERDICT_RETRY)
        return howdah_work_retry(work, (int64_t)pick(60) - 1, "again");
    if (verdict == HOWDAH_VERDICT_FAIL)
        return howdah_work_fail(work, text);
    return pick(2) == 0 ? HOWDAH_WORK_DONE : howdah_work_done(work, text);
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
    o.batch = 4 + (int64_t)pick(BATCH_MAX);
    o.lease_ms = 300 + (int64_t)pick(400);
    o.worker = name;
    s = howdah_worker_new(bus, &o, &worker, &err);
    /* A session that ended with the time is an error that the next call mends. */
    while ((s >= 0 || is_temporary(&err)) && !atomic_load(&qr_all->done))
        s = howdah_worker_run(worker, 100, &err);
    if (s >= 0 || is_temporary(&err))
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

/* Some are killed where it matters most, by themselves; see base/fault.h. */
static void choose_end(void)
{
    static const char *const points[] = {
        "worker.turn_committed",
        "sqlite.queue_before_commit",
        "sqlite.queue_after_commit",
    };
    char text[64];

    if (pick(3) == 0) {
        (void)snprintf(text, sizeof text, "%s:kill@%u", points[pick(3)], 1 + pick(40));
        (void)setenv("HOWDAH_FAILPOINT", text, 1);
    }
}

void qr_be_worker(const qr_arena *arena, int me)
{
    howdah_bus *bus;
    char name[32];

    choose_end();
    howdah_set_log(be_silent, NULL); /* lost leases are what this is about */
    bus = qr_open(arena, "race");
    (void)snprintf(name, sizeof name, "w%d-%d", me, (int)getpid());
    if (me % 2 == 0)
        work_by_hand(bus, name);
    else
        work_by_worker(bus, name, me % 4 == 1 ? 0 : 3);
    howdah_close(bus);
}
