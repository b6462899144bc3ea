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
 * no more often than its attempts.  What a pusher was told is there is there, once; what it was not
 * told is there once or not at all, and of one push all or none.
 *
 * A crash of the server undoes the last of the claims and of the ends that were not failures.  A
 * lease may have been undone if it began less than UNDONE_US before a crash: then the next one need
 * not know of it (C3, C4, C5 and the runs).  An end may have been undone if it was heard of less
 * than UNDONE_US before a crash (C1).  Nothing else changes, least of all C2.
 *
 * Where operators meddle, jobs are purged, cancelled, and begin anew after their end: C1, C4, C5
 * and the attempts say nothing, but what is missing is exactly what was purged.
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
    bool failed;      /* by what was accepted */
    int64_t sent_us;  /* what was accepted, */
    int64_t heard_us; /* and that it was */
    int32_t attempt;
    int64_t started_us;
    int64_t until_us;
    int epoch; /* crashes before it */
} lease;

/* The writer of the log wakes up every 200 ms, and may leave it for the third time: 600 ms. */
#define UNDONE_US 1000000

#define NEVER INT64_MAX

typedef struct outcome {
    int64_t position; /* 0: not in the history */
    int64_t attempts;
    int64_t token; /* of the one who ended it, 0: it did not say */
    int slip;
    bool failed;
    bool cancelled;
    int64_t runs;
    int64_t undone; /* of these, perhaps */
    int64_t last_token;
} outcome;

typedef struct verdict {
    lease *leases;
    size_t leases_n;
    outcome *outcomes; /* by id */
    int64_t *ids;      /* of slips, 0: not in the history */
    bool operated;
    int64_t unheard_n; /* stored, though nobody was told */
    int64_t missing_n; /* not in the history, though somebody was told that it is stored */
    int64_t undone_n;  /* claims and ends that a crash has undone */
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
        l->failed = l->failed || n->failed;
        l->sent_us = qr_all->notes[n->sent].noted_us;
        l->heard_us = n->noted_us;
    }
}

static int crashes_before(int64_t us)
{
    int n = 0;

    while (n < qr_all->crashes_n && qr_all->crashes_us[n] <= us)
        n++;
    return n;
}

/* What was done in this time, without waiting for the disk, may have been undone. */
static bool is_undoable(int64_t from_us, int64_t to_us)
{
    return crashes_before(from_us) != crashes_before(to_us + UNDONE_US);
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
            *l = (lease){.group = one->key > 0 ? -one->key : one->id,
                         .id = one->id,
                         .token = one->token,
                         .claimed = NEVER,
                         .begun = NEVER,
                         .said = NEVER,
                         .accepted_sent = -1,
                         .attempt = one->attempt,
                         .started_us = one->started_us,
                         .until_us = one->until_us,
                         .epoch = crashes_before(one->started_us)};
        }
        add_note(v, l, order[i]);
    }
    free(order);
}

/* ---- the history */

static int slip_of(const howdah_job *job)
{
    const char *data = howdah_job_data(job, NULL);
    const char *comma = strchr(data, ',');
    long number = comma ? strtol(comma + 1, NULL, 10) : 0;

    assert_in_range(number, 1, QR_IDS_MAX - 1);
    return (int)number;
}

static int on_history(void *ctx, const howdah_job *job)
{
    verdict *v = ctx;
    int64_t id = howdah_job_id(job);
    bool failed = howdah_job_state_get(job) == HOWDAH_JOB_FAILED;
    const char *text = failed ? howdah_job_error(job) : howdah_job_result(job);
    outcome *o = &v->outcomes[id];
    const qr_slip *slip;

    assert_in_range(id, 1, QR_IDS_MAX - 1);
    if (o->position > 0)
        problem(v, "twice in the history", id, 0, o->position);
    o->slip = slip_of(job);
    slip = &qr_all->slips[o->slip];
    if (v->ids[o->slip] > 0)
        problem(v, "pushed once, stored twice", id, 0, v->ids[o->slip]);
    v->ids[o->slip] = id;
    if (!v->operated && slip->key > 0 && v->key_last[slip->key] >= id)
        problem(v, "of its key, not in order of pushing", id, 0, v->key_last[slip->key]);
    v->key_last[slip->key] = id;
    v->history_n++;
    v->failed_n += failed;
    o->position = howdah_job_position(job);
    o->attempts = howdah_job_attempt(job);
    o->failed = failed;
    o->cancelled = failed && text && strncmp(text, "cancelled", 9) == 0;
    o->token = text && strncmp(text, "token ", 6) == 0 ? strtoll(text + 6, NULL, 10) : 0;
    return 0;
}

static void check_job(verdict *v, int64_t id)
{
    const outcome *o = &v->outcomes[id];
    int kind = qr_all->slips[o->slip].kind;
    int64_t most = kind == QR_ABORT ? QR_ABORT_ATTEMPTS : QR_ATTEMPTS;

    if (o->cancelled ? !v->operated : o->failed != (kind == QR_FAIL || kind == QR_ABORT))
        problem(v, o->failed ? "failed" : "did not fail", id, 0, kind);
    if (o->token > 0 && o->token != o->last_token)
        problem(v, "ended by a stale token", id, o->token, o->last_token);
    if (v->operated)
        return;
    if (o->runs - o->undone > o->attempts || o->attempts > most)
        problem(v, "ran more often than its attempts", id, o->runs, o->attempts);
    if (kind == QR_ABORT && o->attempts != most)
        problem(v, "failed before its last attempt", id, 0, o->attempts);
}

/* ---- what was pushed */

static void check_slip(verdict *v, int number)
{
    const qr_slip *slip = &qr_all->slips[number];
    int64_t id = v->ids[number];

    switch (atomic_load(&slip->state)) {
    case QR_STORED:
        v->missing_n += id == 0;
        if (id == 0 && !v->operated)
            problem(v, "pushed, and nowhere", slip->id, 0, number);
        if (id > 0 && id != slip->id)
            problem(v, "stored under another number", slip->id, 0, id);
        break;
    case QR_REPEATED:
        if (id > 0)
            problem(v, "there was one with its dedup key, and it is stored", id, 0, slip->id);
        break;
    case QR_DRAWN: {
        const qr_slip *first = &qr_all->slips[slip->batch];
        int whole = slip->batch;

        v->unheard_n += id > 0;
        /* Of a push: those without a dedup key are there, or none is. */
        while (qr_all->slips[whole].dedup && qr_all->slips[whole + 1].batch == first->batch)
            whole++;
        if (id > 0 ? v->ids[whole] == 0 && !qr_all->slips[whole].dedup
                   : v->ids[whole] > 0 && !slip->dedup)
            problem(v, "of one push this is stored, or that, not both", id, 0, v->ids[whole]);
        break;
    }
    default:
        if (id > 0)
            problem(v, "in the history, not pushed", id, 0, number);
    }
}

/* ---- two leases of one group */

/* The claim, or the end, of a job is forgotten by a crash between the two. */
static bool is_undone(verdict *v, const lease *a, const lease *b, int64_t from_us, int64_t to_us)
{
    bool undone = a->epoch < b->epoch && is_undoable(from_us, to_us);

    v->undone_n += undone;
    return undone;
}

static void check_pair(verdict *v, const lease *a, const lease *b)
{
    bool one = a->id == b->id;

    if (a->accepted_sent > b->claimed) /* C2 */
        problem(v, "a stale acknowledgement was accepted", a->id, a->token, b->token);
    if (a->said > b->claimed && b->started_us < a->until_us &&
        !is_undone(v, a, b, a->started_us, a->started_us)) /* C3 */
        problem(v, "two live owners", a->id, a->token, b->token);
    v->overtaken += a->said != NEVER && a->said > b->claimed;
    if (v->operated)
        return;
    if (one && a->final && (a->failed || !is_undone(v, a, b, a->sent_us, a->heard_us))) /* C1 */
        problem(v, "claimed again after its end", b->id, b->token, a->token);
    if (a->id > b->id && !is_undone(v, a, b, a->started_us, a->started_us)) /* C4 */
        problem(v, "a later job of its key went first", a->id, a->token, b->id);
    if (a->id < b->id && v->outcomes[a->id].position > v->outcomes[b->id].position)
        problem(v, "a later job of its key ended first", a->id, a->token, b->id);
    if (one && a->begun != NEVER && b->begun != NEVER && a->attempt >= b->attempt &&
        !is_undone(v, a, b, a->started_us, a->started_us)) /* C5 */
        problem(v, "an attempt was not counted", b->id, b->token, b->attempt);
}

static int by_group(const void *a, const void *b)
{
    const lease *x = a;
    const lease *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->epoch != y->epoch)
        return x->epoch < y->epoch ? -1 : 1;
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
        o->undone += b->begun != NEVER && is_undoable(b->started_us, b->started_us);
        o->last_token = b->token;
        for (size_t k = i; k > 0 && v->leases[k - 1].group == b->group; k--)
            check_pair(v, &v->leases[k - 1], b);
    }
}

static int on_finding(void *ctx, const howdah_finding *finding)
{
    if (finding->severity != HOWDAH_GOOD)
        problem(ctx, finding->message, 0, 0, 0);
    return 0;
}

void qr_check(howdah_bus *bus, bool operated)
{
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    verdict v = {.outcomes = calloc(QR_IDS_MAX, sizeof *v.outcomes),
                 .ids = calloc(QR_IDS_MAX, sizeof *v.ids),
                 .operated = operated};

    assert_non_null(v.outcomes);
    assert_non_null(v.ids);
    o.payload = true;
    if (howdah_queue_history_walk(bus, QR_QUEUE, &o, on_history, &v, &err) < 0 ||
        howdah_verify(bus, on_finding, &v, &err) < 0)
        fail_msg("%s", err.message);
    gather_leases(&v);
    check_leases(&v);
    for (int64_t id = 1; id < QR_IDS_MAX; id++)
        if (v.outcomes[id].position > 0)
            check_job(&v, id);
    for (int number = 1; number < QR_IDS_MAX; number++)
        check_slip(&v, number);
    print_message("# %lld jobs ended (%lld failed) in %zu leases; %zu overtaken, %lld acks"
                  " refused, %lld pushes repeated, %lld stored and nobody told, %lld undone\n",
                  (long long)v.history_n, (long long)v.failed_n, v.leases_n, v.overtaken,
                  (long long)atomic_load(&qr_all->lost), (long long)atomic_load(&qr_all->repeats),
                  (long long)v.unheard_n, (long long)v.undone_n);
    assert_int_equal(v.problems, 0);
    assert_int_equal(v.missing_n, atomic_load(&qr_all->purged));
    assert_int_equal(v.history_n + v.missing_n, atomic_load(&qr_all->stored) + v.unheard_n);
    free(v.leases);
    free(v.ids);
    free(v.outcomes);
}
