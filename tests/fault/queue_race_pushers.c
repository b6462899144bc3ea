/*
 * queue_race_pushers.c - those who push, and those who meddle: purge, cancel, try again, pause.
 *
 * A pusher writes a slip for each job before it sends it, and on the slip what it was told: killed
 * in between it has told nobody, and the job may be there or not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue_race.h"

#define BATCH_MAX 20
#define DEDUPS 20

/* ---- pushers */

typedef struct pusher {
    howdah_bus *bus;
    int me;
    bool operated;
    int64_t dedups[DEDUPS]; /* the last job of each, 0: not known */
} pusher;

/* One that had the dedup key before must be over, or purged, when the next is stored. */
static void check_dedup(pusher *p, int dedup, const howdah_pushed *pushed)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_job *before = NULL;
    int64_t last = p->dedups[dedup];
    int s;

    p->dedups[dedup] = pushed->id;
    if (last == 0 || (pushed->existed && pushed->id == last))
        return;
    if (pushed->existed) {
        /* A FAILED one may have been sent on its way again. */
        if (!p->operated)
            qr_odd("a dedup key of another job", 0, NULL);
        return;
    }
    do
        s = howdah_job_get(p->bus, last, &before, &err);
    while (s < 0 && qr_is_temporary(&err));
    if (s < 0 && !(p->operated && s == HOWDAH_NOT_FOUND))
        qr_odd("show", s, &err);
    else if (s >= 0 && !p->operated && howdah_job_state_get(before) != HOWDAH_JOB_COMPLETED &&
             howdah_job_state_get(before) != HOWDAH_JOB_FAILED)
        qr_odd("two live jobs of one dedup key", 0, NULL);
    howdah_job_free(before);
}

typedef struct draft {
    howdah_new_job job;
    char key[16];
    char dedup[16];
    char data[32];
    int dedup_no; /* -1: none */
} draft;

static void draw(const pusher *p, draft *d, bool used[DEDUPS], int batch, int number)
{
    unsigned dice = qr_pick(100);
    howdah_new_job plain = HOWDAH_NEW_JOB_INIT;
    qr_slip *slip = &qr_all->slips[number];

    memset(d, 0, sizeof *d);
    d->job = plain;
    slip->kind = dice < 8 ? QR_RETRY : dice < 11 ? QR_FAIL : QR_DONE;
    if (qr_pick(250) == 0)
        slip->kind = QR_ABORT;
    d->job.max_attempts = slip->kind == QR_ABORT ? QR_ABORT_ATTEMPTS : QR_ATTEMPTS;
    if (qr_pick(3) == 0) {
        slip->key = 1 + p->me * QR_KEYS + (int)qr_pick(QR_KEYS);
        (void)snprintf(d->key, sizeof d->key, "k%d", slip->key);
        d->job.key = d->key;
    }
    d->dedup_no = qr_pick(20) == 0 ? (int)qr_pick(DEDUPS) : -1;
    if (d->dedup_no >= 0 && used[d->dedup_no])
        d->dedup_no = -1;
    if (d->dedup_no >= 0) {
        used[d->dedup_no] = true;
        (void)snprintf(d->dedup, sizeof d->dedup, "d%d-%d", p->me, d->dedup_no);
        d->job.dedup = d->dedup;
    }
    if (qr_pick(10) == 0)
        d->job.delay_ms = qr_pick(300);
    if (qr_pick(10) == 0)
        d->job.priority = (int64_t)qr_pick(3) - 1;
    (void)snprintf(d->data, sizeof d->data, "[%d,%d]", slip->kind, number);
    d->job.data = d->data;
    d->job.data_len = strlen(d->data);
    slip->batch = batch;
    slip->dedup = d->dedup_no >= 0;
    atomic_store(&slip->state, QR_DRAWN);
}

static void hear_pushed(int number, const howdah_pushed *pushed)
{
    qr_slip *slip = &qr_all->slips[number];

    slip->id = pushed->id;
    atomic_store(&slip->state, pushed->existed ? QR_REPEATED : QR_STORED);
    if (pushed->existed) {
        (void)atomic_fetch_add(&qr_all->repeats, 1);
    } else {
        (void)atomic_fetch_add(&qr_all->stored, 1);
        atomic_store(&qr_all->last_id, pushed->id);
    }
}

/* What may be stored is not sent again: only "nothing is stored" is a reason to. */
static void push_some(pusher *p, size_t n)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    const howdah_new_job *jobs[BATCH_MAX];
    draft drafts[BATCH_MAX];
    howdah_pushed pushed[BATCH_MAX] = {HOWDAH_PUSHED_INIT};
    bool used[DEDUPS] = {false};
    int first = 1 + atomic_fetch_add(&qr_all->slips_n, (int)n);
    int s;

    if (first + BATCH_MAX >= QR_IDS_MAX)
        _exit(70);
    (void)atomic_fetch_add(&qr_all->to_be, (long long)n);
    for (size_t i = 0; i < n; i++) {
        draw(p, &drafts[i], used, first, first + (int)i);
        jobs[i] = &drafts[i].job;
    }
    do
        s = howdah_queue_push_batch(p->bus, QR_QUEUE, jobs, n, pushed, &err);
    while (s < 0 && (err.flags & HOWDAH_RETRYABLE) && !(err.flags & HOWDAH_OUTCOME_UNKNOWN));
    if (s < 0 && !(err.flags & HOWDAH_OUTCOME_UNKNOWN))
        qr_odd("push", s, &err);
    for (size_t i = 0; i < n; i++) {
        if (s >= 0)
            hear_pushed(first + (int)i, &pushed[i]);
        if (s >= 0 && drafts[i].dedup_no >= 0)
            check_dedup(p, drafts[i].dedup_no, &pushed[i]);
        else if (drafts[i].dedup_no >= 0)
            p->dedups[drafts[i].dedup_no] = 0;
    }
}

void qr_be_pusher(const qr_arena *arena, int me)
{
    pusher p = {.me = me, .operated = arena->operated};
    /* On the average half of the largest batch at once. */
    long rest_us = arena->seconds * 2000000 / (arena->jobs / QR_PUSHERS / (BATCH_MAX / 2) + 1);
    long left;

    if (!p.operated)
        qr_choose_end(6);
    p.bus = qr_open(arena, "pusher");
    while ((left = atomic_load(&qr_all->left[me])) > 0) {
        long n = 1 + (long)qr_pick(BATCH_MAX);

        n = n < left ? n : left;
        (void)atomic_fetch_sub(&qr_all->left[me], n);
        push_some(&p, (size_t)n);
        (void)usleep(qr_pick((unsigned)rest_us + 1));
    }
    howdah_close(p.bus);
}

/* ---- operators */

/* done, or refused for a reason that is no fault. */
static bool is_done(const char *what, int s, const howdah_error *err)
{
    if (s < 0 && s != HOWDAH_CONFLICT && s != HOWDAH_NOT_FOUND && !qr_is_temporary(err))
        qr_odd(what, s, err);
    return s >= 0;
}

static void pause_for_a_moment(howdah_bus *bus)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    if (is_done("pause", howdah_queue_pause(bus, QR_QUEUE, &err), &err))
        (void)atomic_fetch_add(&qr_all->pauses, 1);
    (void)usleep(qr_pick(30000));
    do
        s = howdah_queue_resume(bus, QR_QUEUE, &err);
    while (!is_done("resume", s, &err));
}

/* All that have failed, or one of which nothing is known. */
static void try_again(howdah_bus *bus, int64_t id)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t n = 0;

    if (qr_pick(4) > 0)
        n = is_done("retry", howdah_job_rerun(bus, id, &err), &err);
    else if (!is_done("redrive", howdah_dead_letters_redrive(bus, NULL, 0, NULL, &n, &err), &err))
        n = 0;
    (void)atomic_fetch_add(&qr_all->again, n);
}

void qr_be_operator(const qr_arena *arena, int me)
{
    howdah_bus *bus = qr_open(arena, "operator");
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)me;
    while (!atomic_load(&qr_all->closing)) {
        int64_t last = atomic_load(&qr_all->last_id);
        int64_t back = (int64_t)qr_pick(qr_pick(4) > 0 ? 30 : (unsigned)last + 1);
        int64_t id = back < last ? last - back : 1;
        int64_t n = 0;

        switch (qr_pick(8)) {
        case 0:
            pause_for_a_moment(bus);
            break;
        case 1:
            try_again(bus, id);
            break;
        case 2:
            if (qr_pick(8) == 0 &&
                is_done("purge", howdah_queue_purge(bus, QR_QUEUE, &n, &err), &err))
                (void)atomic_fetch_add(&qr_all->purged, n);
            break;
        default:
            if (is_done("cancel", howdah_job_cancel(bus, id, "enough", &err), &err))
                (void)atomic_fetch_add(&qr_all->cancelled, 1);
        }
        (void)usleep(qr_pick(5000));
    }
    howdah_close(bus);
}
