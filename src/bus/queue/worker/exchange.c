/* exchange.c - a worker's round trip: acks, extends, claims.  See worker.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "bus/queue/worker/worker.h"

/* With large payloads a full hand would be too much memory: beyond this only idle threads get
   jobs. */
#define HAND_BYTES_MAX ((size_t)8 * 1024 * 1024)

/* --------------------------------------------------------------- what is due */

/* Claims come in batches: nothing is claimed before "low" is reached, and then the hand is filled
   up.  While there is a suspect nothing is claimed (I6). */
int64_t hw_worker_wants(const howdah_worker *worker, const hw_pool_view *view)
{
    size_t unfinished = view->waiting_n + view->running_n;
    int64_t n = (int64_t)(worker->capacity - unfinished);
    int64_t max = worker->options.max_jobs;
    int64_t left = max - (worker->info.claimed - worker->info.released);

    assert(unfinished <= worker->capacity); /* I1 */

    if (atomic_load(&worker->stopping) || unfinished > worker->pool.options.low || worker->suspects)
        return 0;
    if (worker->hand_bytes >= HAND_BYTES_MAX && unfinished > 0)
        n = worker->options.threads - (int64_t)unfinished; /* what threads have nothing to do */
    if (max > 0 && left < n)
        n = left;
    return n > 0 ? n : 0;
}

/* Acks wait a little for company.  With threads the handlers go on during a round trip, so half a
   hand is enough; in the caller's thread a round trip holds them up. */
static bool is_ack_due(const howdah_worker *worker, const hw_pool_view *view, int64_t now)
{
    bool many = worker->pool.threads_n > 0 && 2 * view->done_n >= worker->capacity;

    return view->done_n > 0 && (view->waiting_n + view->running_n == 0 || many ||
                                now - view->done_ms >= worker->options.ack_delay_ms);
}

/* The earliest of: a lease to be extended, an ack that has waited long enough, the next claim. */
int64_t hw_worker_rest_ms(const howdah_worker *worker, const hw_pool_view *view, bool may_claim)
{
    int64_t now = hw_clock_mono_ms();
    int64_t at = hw_lease_first_ms(worker);

    if (view->done_n > 0 && view->done_ms + worker->options.ack_delay_ms < at)
        at = view->done_ms + worker->options.ack_delay_ms;
    if (may_claim && hw_worker_wants(worker, view) > 0 && worker->look_ms < at)
        at = worker->look_ms;
    return at == INT64_MAX ? INT64_MAX : at > now ? at - now : 0;
}

/* ------------------------------------------------------------- what is acked */

/* The worker's own limit of attempts is applied here: to the store it is an ordinary failure. */
static hw_ack ack_of(const howdah_work *work)
{
    static const howdah_verdict verdicts[] = {
        [HOWDAH_WORK_DONE] = HOWDAH_VERDICT_COMPLETE,
        [HOWDAH_WORK_FAILED] = HOWDAH_VERDICT_FAIL,
        [HOWDAH_WORK_RETRY] = HOWDAH_VERDICT_RETRY,
        [HOWDAH_WORK_RELEASE] = HOWDAH_VERDICT_RELEASE,
    };
    int64_t max = work->worker->options.max_attempts;
    hw_ack ack = {.id = howdah_job_id(work->job),
                  .token = howdah_job_token(work->job),
                  .verdict = verdicts[work->verdict],
                  .text = hw_str_of(work->text),
                  .after_ms = work->after_ms < 0 ? HOWDAH_AFTER_BACKOFF : work->after_ms};

    assert(work->taken); /* I3: the verdict is the driver's to read */
    if (ack.verdict == HOWDAH_VERDICT_RETRY && max > 0 && howdah_job_attempt(work->job) >= max)
        ack.verdict = HOWDAH_VERDICT_FAIL;
    return ack;
}

/* Fills worker->acks with what is to be said in one round trip; returns how many.  Lost jobs are
   left out (I5). */
static size_t gather(howdah_worker *worker, bool extend_all, int64_t now)
{
    size_t n = 0;

    for (size_t i = 0; i < worker->hand_n; i++) {
        howdah_work *work = worker->hand[i];

        if (work->taken && !atomic_load(&work->lost))
            worker->acks[n] = ack_of(work);
        else if (hw_lease_is_needed(work) && (extend_all || now >= hw_lease_extend_ms(work)))
            worker->acks[n] = (hw_ack){.id = howdah_job_id(work->job),
                                       .token = howdah_job_token(work->job),
                                       .verdict = HOWDAH_VERDICT_EXTEND};
        else
            continue;
        assert(n < worker->capacity); /* I1: so many are in hand at most */
        worker->acking[n++] = work;
    }
    return n;
}

/* A retry that the store turned into a failure, because it was the last attempt, counts as
   failed. */
static void count(howdah_worker *worker, howdah_verdict verdict, howdah_ack_outcome acked)
{
    howdah_worker_info *info = &worker->info;

    if (verdict == HOWDAH_VERDICT_COMPLETE) {
        info->completed++;
    } else if (verdict == HOWDAH_VERDICT_FAIL || acked == HOWDAH_ACKED_FAILED) {
        info->failed++;
    } else if (verdict == HOWDAH_VERDICT_RETRY) {
        info->retried++;
        worker->retries_outstanding++;
    } else if (verdict == HOWDAH_VERDICT_RELEASE) {
        info->released++;
    }
}

/* The store's answer to ack i.  asked_ms is the time before the round trip (I4). */
static void hear_outcome(howdah_worker *worker, size_t i, int64_t asked_ms)
{
    howdah_work *work = worker->acking[i];
    howdah_verdict verdict = worker->acks[i].verdict;
    howdah_ack_outcome acked = worker->acked[i];

    /* An exchange that got no answer may have acked it: then it is not there to be acked again. */
    if (acked == HOWDAH_ACKED_LOST && work->uncertain)
        acked = HOWDAH_ACKED_DONE;
    if (acked == HOWDAH_ACKED_LOST)
        hw_lease_lost(worker, work);
    else if (verdict == HOWDAH_VERDICT_EXTEND)
        atomic_store(&work->leased_ms, asked_ms);
    else
        count(worker, verdict, acked);
    work->over = work->taken;
}

/* Frees what is acked, and what came back although its lease was lost.  What is known about the
   hand as a whole is counted anew. */
static void let_go(howdah_worker *worker)
{
    size_t kept = 0;

    worker->owes = false;
    worker->suspects = false;
    worker->hand_bytes = 0;
    for (size_t i = 0; i < worker->hand_n; i++) {
        howdah_work *work = worker->hand[i];

        if (work->over || (work->taken && atomic_load(&work->lost))) {
            hw_work_free(work);
            continue;
        }
        worker->hand[kept++] = work;
        worker->hand_bytes += work->bytes;
        worker->owes |= work->taken;
        worker->suspects |= howdah_job_is_suspect(work->job);
    }
    worker->hand_n = kept;
    worker->extend_ms = 0; /* leases came, went or were extended */
}

/* --------------------------------------------------------------- what is claimed */

/* For on_job(), which the store calls for each job of the claim. */
typedef struct claiming {
    howdah_worker *worker;
    int64_t asked_ms;
    size_t room; /* the hand is full then */
    int s;
    howdah_error *reterr;
} claiming;

/* The job is copied: the store's record is gone after the call.  It is not begun before the whole
   claim has succeeded (drop_new()). */
static int on_job(void *ctx, const howdah_job *record)
{
    claiming *c = ctx;
    howdah_worker *worker = c->worker;
    howdah_work *work = hw_calloc(1, sizeof *work);

    if (!work) {
        c->s = hw_fail_no_memory(c->reterr);
        return 1;
    }
    c->s = hw_job_clone(record, &work->job, c->reterr);
    if (c->s < 0) {
        hw_free(work);
        return 1;
    }
    work->worker = worker;
    hw_lease_begin(worker, work, record, c->asked_ms);
    work->after_ms = HOWDAH_AFTER_BACKOFF;
    work->bytes = record->data.len;
    worker->hand[worker->hand_n++] = work;
    return worker->hand_n == c->room;
}

/* A job that killed its workers as often as we may try it is not begun again. */
static bool is_hopeless(const howdah_worker *worker, const howdah_work *work)
{
    int64_t max = worker->options.max_attempts;

    return max > 0 && howdah_job_attempt(work->job) > max;
}

/* Without a try: it is taken at once, and the next exchange says that it failed. */
static void give_up(howdah_work *work)
{
    char text[80];

    (void)snprintf(text, sizeof text, "given up: %lld attempts did not end",
                   (long long)howdah_job_attempt(work->job) - 1);
    work->verdict = howdah_work_fail(work, text);
    work->taken = true;
    work->worker->owes = true;
}

/* Each new job goes to the pool, unless it is hopeless or has to wait until it is alone (I6). */
static void hand_out(howdah_worker *worker, size_t from)
{
    for (size_t i = from; i < worker->hand_n; i++) {
        howdah_work *work = worker->hand[i];

        worker->info.claimed++;
        if (howdah_job_attempt(work->job) > 1 && worker->retries_outstanding > 0)
            worker->retries_outstanding--;
        work->held = howdah_job_is_suspect(work->job);
        if (is_hopeless(worker, work))
            give_up(work);
        else if (!work->held)
            hw_work_begin(work);
    }
}

/* I6: one suspect at a time, when nothing else is waiting or running. */
static void begin_held(howdah_worker *worker)
{
    hw_pool_view view;

    if (!worker->suspects)
        return;
    view = hw_pool_look(&worker->pool);
    for (size_t i = 0; i < worker->hand_n && view.waiting_n + view.running_n == 0; i++) {
        howdah_work *work = worker->hand[i];

        if (!work->held || work->taken)
            continue;
        work->held = false;
        hw_work_begin(work);
        return;
    }
}

/* When to ask again: at once if there is more, else when the bell, a due time or the poll
   interval says so. */
static void hear_report(howdah_worker *worker, const hw_claim *claim, const hw_claim_report *report)
{
    worker->info.paused = report->paused;
    if (report->queue_id != 0) /* a claim that found something need not say */
        worker->queue_id = report->queue_id;
    worker->found_none = report->n == 0 && !report->more;
    worker->next_due_ms = report->paused ? -1 : report->next_due_ms;
    if (report->n > 0)
        hw_queue_bell_heard(worker->bus);
    worker->look_ms =
        report->more || report->n == claim->n
            ? 0
            : hw_clock_mono_ms() + hw_queue_bell_pause(worker->bus, worker->next_due_ms);
}

/* Of a claim that failed, or whose answer did not come, nothing is begun.  If the store did lease
   the jobs, their leases run out. */
static void drop_new(howdah_worker *worker, size_t before)
{
    while (worker->hand_n > before)
        hw_work_free(worker->hand[--worker->hand_n]);
}

/* ---------------------------------------------------------------- the round trip */

/*
 * One round trip for everything: n acks and extensions, and a claim when wanted > 0.  Without an
 * answer the acks are marked uncertain: when they are sent again, "lost" may mean "acked before".
 */
static int exchange(howdah_worker *worker, size_t n, int64_t wanted, howdah_error *reterr)
{
    hw_claim claim = {.queue = hw_str_of(worker->queue),
                      .worker = hw_str_of(worker->name),
                      .n = wanted,
                      .lease_ms = worker->options.lease_ms};
    hw_claim_report report = {.next_due_ms = -1};
    size_t before = worker->hand_n;
    claiming c = {.worker = worker,
                  .asked_ms = hw_clock_mono_ms(),
                  .room = before + (size_t)wanted,
                  .reterr = reterr};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    assert(n > 0 || wanted > 0);
    HW_FAULT_POINT("worker.before_exchange");
    s = hw_queue_ops_of(worker->bus)
            ->exchange(worker->bus->store, worker->acks, n, worker->acked,
                       wanted > 0 ? &claim : NULL, on_job, &c, &report, &err);
    if (s < 0) {
        for (size_t i = 0; i < n && (err.flags & HOWDAH_OUTCOME_UNKNOWN); i++)
            worker->acking[i]->uncertain = worker->acking[i]->taken;
        drop_new(worker, before);
        hw_error_copy(reterr, &err);
        return s;
    }
    HW_FAULT_POINT("worker.after_exchange");
    for (size_t i = 0; i < n; i++)
        hear_outcome(worker, i, c.asked_ms);
    hand_out(worker, before);
    if (wanted > 0)
        hear_report(worker, &claim, &report);
    let_go(worker);
    begin_held(worker);
    return c.s;
}

/* I3: from here on what the handlers left is the driver's. */
static void take_done(howdah_worker *worker)
{
    for (hw_pool_item *item = hw_pool_take_done(&worker->pool); item; item = item->next) {
        howdah_work *work = item->owner;

        assert(!work->taken && !work->held);
        work->taken = true;
        worker->owes = true;
    }
}

/* The view is taken before take_done(): handlers that end in between make the claim too small,
   never too large (I1). */
int hw_worker_exchange(howdah_worker *worker, bool may_claim, bool flush, howdah_error *reterr)
{
    int64_t now = hw_clock_mono_ms();
    hw_pool_view view = hw_pool_look(&worker->pool);
    int64_t wanted = may_claim && now >= worker->look_ms ? hw_worker_wants(worker, &view) : 0;
    size_t n;

    begin_held(worker);
    if (wanted == 0 && !is_ack_due(worker, &view, now) && !hw_lease_is_due(worker, now) &&
        !worker->owes && !(flush && view.done_n > 0))
        return HOWDAH_OK;
    take_done(worker);
    n = gather(worker, false, now);
    if (n == 0 && wanted == 0) {
        let_go(worker);
        return HOWDAH_OK;
    }
    return exchange(worker, n, wanted, reterr);
}

/* For howdah_work_extend(), in a handler that runs in the driver's own thread: until it returns
   nobody else can extend anything. */
int hw_worker_extend(howdah_worker *worker, howdah_error *reterr)
{
    size_t n = gather(worker, true, hw_clock_mono_ms());

    if (n > 0)
        return exchange(worker, n, 0, reterr);
    let_go(worker);
    return HOWDAH_OK;
}
