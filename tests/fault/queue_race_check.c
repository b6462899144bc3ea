/*
 * queue_race_check.c - the verdict on a race: what the processes noted, against the history.
 *
 * A lease is (job, token) with all that was noted of it.  A group is what at most one may work on
 * at a time: the jobs of one key, or a job without one.  Of two leases of a group, A with the lower
 * token (the earlier claim) and B:
 *
 *   C1  A has not ended the job of B.
 *   C2  Nothing that A sent after B was claimed was accepted.
 *   C3  B was claimed after A had spoken, or after the time of A was over by the database's clock.
 *   C4  The job of A is that of B, or was pushed before it, and ended before it.
 *   C5  If both ran the same job, B had the higher attempt.
 *
 * And of every job: it is in the history once, ended as its kind says, by its last lease, and ran
 * no more often than its attempts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "queue_race.h"

typedef struct lease {
    int64_t group; /* -key, or id */
    int64_t id;
    int64_t token;
    int64_t claimed; /* numbers of notes; NEVER */
    int64_t begun;
    int64_t said;          /* the first thing that ends it */
    int64_t accepted_sent; /* the last thing that was accepted was sent then; -1: none */
    bool final;
    int32_t attempt;
    int64_t started_us;
    int64_t until_us;
} lease;

#define NEVER INT64_MAX

typedef struct outcome {
    int64_t position; /* 0: not in the history */
    int64_t attempts;
    int64_t token; /* of the one who ended it, 0: it did not say */
    bool failed;
    int64_t runs;
    int64_t last_token;
} outcome;

typedef struct verdict {
    lease *leases;
    size_t leases_n;
    outcome *outcomes; /* by id */
    int64_t history_n;
    int64_t failed_n;
    int64_t key_last[1 + QR_PUSHERS * QR_KEYS];
    int64_t problems;
    size_t overtaken; /* leases that somebody else had while their worker still thought it his */
} verdict;

static void problem(verdict *v, const char *what, int64_t id, int64_t token, int64_t other)
{
    if (v->problems++ < 20)
        (void)fprintf(stderr, "# %s: job %lld token %lld, %lld\n", what, (long long)id,
                      (long long)token, (long long)other);
}

/* ---- leases out of notes */

static int by_lease(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    const qr_note *p = &qr_all->notes[x];
    const qr_note *q = &qr_all->notes[y];

    if (p->id != q->id)
        return p->id < q->id ? -1 : 1;
    if (p->token != q->token)
        return p->token < q->token ? -1 : 1;
    return x < y ? -1 : x > y;
}

static void add_note(verdict *v, lease *l, int64_t at)
{
    const qr_note *n = &qr_all->notes[at];

    if (n->attempt != l->attempt)
        problem(v, "one token, two attempts", n->id, n->token, n->attempt);
    switch (atomic_load(&n->kind)) {
    case QR_CLAIMED:
        if (l->claimed != NEVER)
            problem(v, "one token was given out twice", n->id, n->token, at);
        l->claimed = at;
        break;
    case QR_BEGUN:
        if (l->begun != NEVER)
            problem(v, "ran twice under one token", n->id, n->token, at);
        l->begun = at;
        break;
    case QR_SENT:
        if (l->said == NEVER && n->sent != HOWDAH_VERDICT_EXTEND)
            l->said = at;
        break;
    default:
        if (l->final)
            problem(v, "accepted twice", n->id, n->token, at);
        l->accepted_sent = n->sent;
        l->final = l->final || n->final;
    }
}

static void gather_leases(verdict *v)
{
    int64_t all = atomic_load(&qr_all->notes_n);
    int64_t *order = calloc((size_t)all + 1, sizeof *order);
    size_t n = 0;

    v->leases = calloc((size_t)all + 1, sizeof *v->leases);
    assert_non_null(order);
    assert_non_null(v->leases);
    for (int64_t i = 0; i < all; i++)
        if (atomic_load(&qr_all->notes[i].kind) != QR_NOTHING)
            order[n++] = i;
    qsort(order, n, sizeof *order, by_lease);
    for (size_t i = 0; i < n; i++) {
        const qr_note *one = &qr_all->notes[order[i]];
        lease *l = v->leases_n > 0 ? &v->leases[v->leases_n - 1] : NULL;

        if (!l || l->id != one->id || l->token != one->token) {
            l = &v->leases[v->leases_n++];
            *l = (lease){one->key > 0 ? -one->key : one->id,
                         one->id,
                         one->token,
                         NEVER,
                         NEVER,
                         NEVER,
                         -1,
                         false,
                         one->attempt,
                         one->started_us,
                         one->until_us};
        }
        add_note(v, l, order[i]);
    }
    free(order);
}

/* ---- the history */

static int on_history(void *ctx, const howdah_job *job)
{
    verdict *v = ctx;
    int64_t id = howdah_job_id(job);
    bool failed = howdah_job_get_state(job) == HOWDAH_JOB_FAILED;
    const char *text = failed ? howdah_job_error(job) : howdah_job_result(job);
    const qr_pushed *known = &qr_all->pushed[id];
    outcome *o = &v->outcomes[id];

    assert_in_range(id, 1, QR_IDS_MAX - 1);
    if (!atomic_load(&known->stored))
        problem(v, "in the history, not pushed", id, 0, 0);
    if (o->position > 0)
        problem(v, "twice in the history", id, 0, o->position);
    if (v->key_last[known->key] >= id && known->key > 0)
        problem(v, "of its key, not in order of pushing", id, 0, v->key_last[known->key]);
    v->key_last[known->key] = id;
    v->history_n++;
    v->failed_n += failed;
    o->position = howdah_job_position(job);
    o->attempts = howdah_job_attempt(job);
    o->failed = failed;
    o->token = text && strncmp(text, "token ", 6) == 0 ? strtoll(text + 6, NULL, 10) : 0;
    return 0;
}

static void check_job(verdict *v, int64_t id)
{
    const outcome *o = &v->outcomes[id];
    int kind = qr_all->pushed[id].kind;
    int64_t most = kind == QR_ABORT ? QR_ABORT_ATTEMPTS : QR_ATTEMPTS;

    if (o->position == 0)
        problem(v, "pushed, and nowhere", id, 0, 0);
    if (o->failed != (kind == QR_FAIL || kind == QR_ABORT))
        problem(v, o->failed ? "failed" : "did not fail", id, 0, kind);
    if (o->runs > o->attempts || o->attempts > most)
        problem(v, "ran more often than its attempts", id, o->runs, o->attempts);
    if (kind == QR_ABORT && o->attempts != most)
        problem(v, "failed before its last attempt", id, 0, o->attempts);
    if (o->token > 0 && o->token != o->last_token)
        problem(v, "ended by a stale token", id, o->token, o->last_token);
}

/* ---- two leases of one group */

static void check_pair(verdict *v, const lease *a, const lease *b)
{
    bool one = a->id == b->id;

    if (one && a->final) /* C1 */
        problem(v, "claimed again after its end", b->id, b->token, a->token);
    if (a->accepted_sent > b->claimed) /* C2 */
        problem(v, "a stale acknowledgement was accepted", a->id, a->token, b->token);
    if (a->said > b->claimed && b->started_us < a->until_us) /* C3 */
        problem(v, "two live owners", a->id, a->token, b->token);
    if (a->id > b->id) /* C4 */
        problem(v, "a later job of its key went first", a->id, a->token, b->id);
    if (!one && v->outcomes[a->id].position > v->outcomes[b->id].position)
        problem(v, "a later job of its key ended first", a->id, a->token, b->id);
    if (one && a->begun != NEVER && b->begun != NEVER && a->attempt >= b->attempt) /* C5 */
        problem(v, "an attempt was not counted", b->id, b->token, b->attempt);
    v->overtaken += a->said != NEVER && a->said > b->claimed;
}

static int by_group(const void *a, const void *b)
{
    const lease *x = a;
    const lease *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

static void check_leases(verdict *v)
{
    qsort(v->leases, v->leases_n, sizeof *v->leases, by_group);
    for (size_t i = 0; i < v->leases_n; i++) {
        const lease *b = &v->leases[i];
        outcome *o = &v->outcomes[b->id];

        if (b->claimed == NEVER) {
            problem(v, "worked on, but not claimed", b->id, b->token, 0);
            continue;
        }
        o->runs += b->begun != NEVER;
        o->last_token = b->token;
        for (size_t k = i; k > 0 && v->leases[k - 1].group == b->group; k--)
            check_pair(v, &v->leases[k - 1], b);
    }
}

void qr_check(howdah_bus *bus)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    verdict v = {.outcomes = calloc(QR_IDS_MAX, sizeof *v.outcomes)};

    assert_non_null(v.outcomes);
    if (howdah_queue_log(bus, QR_QUEUE, NULL, on_history, &v, &err) < 0)
        fail_msg("%s", err.message);
    gather_leases(&v);
    check_leases(&v);
    for (int64_t id = 1; id < QR_IDS_MAX; id++)
        if (atomic_load(&qr_all->pushed[id].stored))
            check_job(&v, id);
    print_message("# %lld jobs ended (%lld failed) in %zu leases; %zu overtaken, %lld settlements"
                  " refused, %lld pushes repeated\n",
                  (long long)v.history_n, (long long)v.failed_n, v.leases_n, v.overtaken,
                  (long long)atomic_load(&qr_all->lost), (long long)atomic_load(&qr_all->repeats));
    assert_int_equal(v.problems, 0);
    assert_int_equal(v.history_n, atomic_load(&qr_all->stored));
    free(v.leases);
    free(v.outcomes);
}
