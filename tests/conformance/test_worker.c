/* test_worker.c - workers: batches, threads, leases, verdicts, stopping. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bus/bus.h"
#include "flaky.h"
#include "queue_help.h"

#define JOBS_MAX 2000

typedef struct seen {
    atomic_int runs;
    atomic_int inside; /* handlers that run now, */
    atomic_int most;   /* and the most there ever were */
    atomic_int times[JOBS_MAX];
    atomic_bool block; /* handlers wait while it is set */
    int sleep_ms;
    int verdict;         /* what it returns */
    int64_t retry_ms;    /* with RETRY, unless -2 */
    const char *text;    /* with what words */
    howdah_bus *stop;    /* interrupted by the first run */
    bool extends;        /* calls howdah_work_extend() after its sleep */
    int extended;        /* what that returned */
    atomic_int stopping; /* handlers that saw it stop */
} seen;

static int64_t n_of(const howdah_job *job)
{
    const char *at = strstr(howdah_job_data(job, NULL), "\"n\":");

    return at ? strtoll(at + 4, NULL, 10) : 0;
}

static int answer(const seen *s, howdah_work *work)
{
    switch (s->verdict) {
    case HOWDAH_WORK_DONE:
        return howdah_work_complete(work, s->text);
    case HOWDAH_WORK_FAILED:
        return howdah_work_fail(work, s->text);
    case HOWDAH_WORK_RETRY:
        return s->retry_ms == -2 ? HOWDAH_WORK_RETRY
                                 : howdah_work_retry(work, s->retry_ms, s->text);
    default:
        return s->verdict;
    }
}

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    seen *s = ctx;
    int inside = atomic_fetch_add(&s->inside, 1) + 1;
    int most = atomic_load(&s->most);

    while (inside > most && !atomic_compare_exchange_weak(&s->most, &most, inside))
        ;
    (void)atomic_fetch_add(&s->runs, 1);
    (void)atomic_fetch_add(&s->times[n_of(job) % JOBS_MAX], 1);
    if (s->sleep_ms > 0)
        q_nap(s->sleep_ms);
    while (atomic_load(&s->block))
        q_nap(1);
    if (s->extends)
        s->extended = howdah_work_extend(work, NULL);
    if (howdah_work_is_stopping(work))
        (void)atomic_fetch_add(&s->stopping, 1);
    if (s->stop)
        howdah_interrupt(s->stop);
    (void)atomic_fetch_sub(&s->inside, 1);
    return answer(s, work);
}

static howdah_worker_options options_of(seen *s, int64_t threads, int64_t batch)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;

    o.queue = "mail";
    o.handler = on_job;
    o.ctx = s;
    o.threads = threads;
    o.batch = batch;
    return o;
}

static howdah_worker *start(howdah_bus *bus, const howdah_worker_options *o)
{
    howdah_worker *worker = NULL;

    cf_ok(howdah_worker_new(bus, o, &worker, &cf_error));
    return worker;
}

static howdah_worker_info info_of(howdah_worker *worker)
{
    howdah_worker_info info = HOWDAH_WORKER_INFO_INIT;

    howdah_worker_info_get(worker, &info);
    return info;
}

/* Runs it until nothing is left, at most half a minute. */
static void run_dry(howdah_bus *bus, howdah_worker_options *o)
{
    howdah_worker *worker;

    o->until_empty = true;
    worker = start(bus, o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    howdah_worker_free(worker);
}

/* -------------------------------------------------------------------- plain */

static void a_worker_in_the_callers_thread_runs_every_job_once(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 7);
    howdah_worker *worker;
    howdah_worker_info info;

    s = (seen){.text = "fine"};
    q_push_many(c->bus, "mail", 50);
    o.until_empty = true;
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    info = info_of(worker);
    assert_int_equal(info.claimed, 50);
    assert_int_equal(info.completed, 50);
    assert_int_equal(info.failed + info.retried + info.released + info.lost, 0);
    assert_int_equal(info.running + info.waiting, 0);
    howdah_worker_free(worker);
    assert_int_equal(s.runs, 50);
    assert_int_equal(s.most, 1);
    for (int i = 1; i <= 50; i++)
        assert_int_equal(s.times[i], 1);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 50 0");
}

static void without_time_a_worker_does_what_is_there(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 10);
    howdah_worker *worker = start(c->bus, &o);

    s = (seen){0};
    assert_int_equal(howdah_worker_run(worker, 0, &cf_error), HOWDAH_OK);
    assert_int_equal(s.runs, 0);
    q_push_many(c->bus, "mail", 3);
    assert_int_equal(howdah_worker_run(worker, 0, &cf_error), HOWDAH_OK);
    assert_int_equal(s.runs, 3);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 3 0");
    howdah_worker_free(worker);
}

static void each_verdict_does_what_it_says(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 1);
    howdah_job *job;
    int64_t id;

    s = (seen){.verdict = HOWDAH_WORK_FAILED, .text = "no such address"};
    id = q_push(c->bus, "mail", "{}");
    run_dry(c->bus, &o);
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_FAILED);
    assert_text(howdah_job_error(job), "no such address");
    assert_int_equal(howdah_job_attempt(job), 1);
    howdah_job_free(job);

    s = (seen){.verdict = HOWDAH_WORK_RETRY, .retry_ms = 0, .text = "busy"};
    id = q_push(c->bus, "mail", "{}");
    run_dry(c->bus, &o);
    assert_int_equal(s.runs, 5);
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_FAILED);
    assert_text(howdah_job_error(job), "busy");
    assert_int_equal(howdah_job_attempt(job), 5);
    howdah_job_free(job);

    s = (seen){.verdict = 42};
    id = q_push(c->bus, "mail", "{}");
    run_dry(c->bus, &o);
    job = q_show(c->bus, id);
    assert_int_equal(howdah_job_state_get(job), HOWDAH_JOB_FAILED);
    howdah_job_free(job);

    s = (seen){.verdict = HOWDAH_WORK_DONE, .text = "sent"};
    id = q_push(c->bus, "mail", "{}");
    run_dry(c->bus, &o);
    job = q_show(c->bus, id);
    assert_text(howdah_job_result(job), "sent");
    howdah_job_free(job);
}

static void until_empty_waits_for_the_next_try_and_not_for_what_is_due_later(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 1, 4);
    howdah_queue_options q = HOWDAH_QUEUE_OPTIONS_INIT;
    howdah_new_job later = HOWDAH_NEW_JOB_INIT;

    s = (seen){.verdict = HOWDAH_WORK_RETRY, .retry_ms = -2};
    q.backoff_initial_ms = 100;
    q.max_attempts = 3;
    cf_ok(howdah_queue_configure(c->bus, "mail", &q, &cf_error));
    (void)q_push(c->bus, "mail", "{}");
    run_dry(c->bus, &o);
    assert_int_equal(s.runs, 3);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 0 1");
    later.delay_ms = 3600000;
    (void)q_push_job(c->bus, "mail", &later);
    run_dry(c->bus, &o);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 1 0 1");
}

static void max_jobs_ends_it_and_no_more_are_taken(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 2, 10);
    howdah_worker *worker;

    s = (seen){0};
    q_push_many(c->bus, "mail", 10);
    o.max_jobs = 3;
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_int_equal(s.runs, 3);
    assert_string_equal(q_counts(c->bus, "mail"), "7 0 0 3 0");
    howdah_worker_free(worker);
}

static void a_worker_may_try_less_often_than_the_queue(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 10);
    q_ref ref;
    howdah_job *job;

    s = (seen){.verdict = HOWDAH_WORK_RETRY, .retry_ms = 0, .text = "busy"};
    o.max_attempts = 2;
    (void)q_push(c->bus, "mail", "{}");
    run_dry(c->bus, &o);
    assert_int_equal(s.runs, 2);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 0 1");
    /* Two attempts that did not come to an end: it is not begun a third time. */
    s.runs = 0;
    (void)q_push(c->bus, "mail", "{}");
    ref = q_claim_one(c->bus, "mail", 0);
    cf_ok(howdah_job_retry(c->bus, ref.id, ref.token, 0, NULL, &cf_error));
    ref = q_claim_one(c->bus, "mail", 0);
    cf_ok(howdah_job_retry(c->bus, ref.id, ref.token, 0, NULL, &cf_error));
    run_dry(c->bus, &o);
    assert_int_equal(s.runs, 0);
    job = q_show(c->bus, ref.id);
    assert_text(howdah_job_error(job), "given up: 2 attempts did not end");
    howdah_job_free(job);
}

/* ------------------------------------------------------------------- threads */

static void threads_share_the_jobs_and_each_runs_once(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 4, 20);

    s = (seen){.sleep_ms = 5};
    q_push_many(c->bus, "mail", 120);
    run_dry(c->bus, &o);
    assert_int_equal(s.runs, 120);
    assert_int_equal(s.most, 4);
    for (int i = 1; i <= 120; i++)
        assert_int_equal(s.times[i], 1);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 120 0");
}

static void a_slow_handler_does_not_hold_up_the_others(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 2, 2);
    howdah_worker *worker;
    int64_t before = hw_clock_mono_ms();

    s = (seen){.sleep_ms = 10};
    q_push_many(c->bus, "mail", 20);
    o.until_empty = true;
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_int_equal(s.most, 2);
    assert_int_equal(info_of(worker).completed, 20);
    assert_true(hw_clock_mono_ms() - before < 30000);
    howdah_worker_free(worker);
}

static void a_lease_is_extended_while_its_handler_runs(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 1, 2);
    howdah_worker *worker;

    s = (seen){.sleep_ms = 2200};
    q_push_many(c->bus, "mail", 2); /* the second waits in hand, meanwhile */
    o.lease_ms = 1000;
    o.until_empty = true;
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_int_equal(s.runs, 2);
    assert_int_equal(info_of(worker).completed, 2);
    assert_int_equal(info_of(worker).lost, 0);
    howdah_worker_free(worker);
}

static void a_handler_in_the_callers_thread_extends_by_itself(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 2);
    howdah_worker *worker;

    s = (seen){.sleep_ms = 400, .extends = true, .extended = -99};
    q_push_many(c->bus, "mail", 2);
    o.lease_ms = 1000;
    o.until_empty = true;
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_int_equal(s.extended, HOWDAH_OK);
    assert_int_equal(s.runs, 2);
    assert_int_equal(info_of(worker).completed, 2);
    howdah_worker_free(worker);
}

typedef struct thief {
    const cf *c;
    seen *s;
    int n;
    int64_t attempt; /* of the last job as it got it */
} thief;

/* Takes the jobs when their leases have run out, and only then lets the handler go on. */
static void *steal(void *arg)
{
    thief *t = arg;
    howdah_bus *bus = cf_open(t->c);
    howdah_jobs *jobs = NULL;
    const howdah_job *job;

    while (atomic_load(&t->s->runs) == 0)
        q_nap(1);
    for (int i = 0; i < t->n; i++) {
        cf_ok(howdah_queue_claim_wait(bus, "mail", 1, 30000, NULL, &jobs, &cf_error));
        job = howdah_jobs_at(jobs, 0);
        assert_non_null(job);
        t->attempt = howdah_job_attempt(job);
        cf_ok(howdah_job_complete(bus, howdah_job_id(job), howdah_job_token(job), "stolen",
                                  &cf_error));
        howdah_jobs_free(jobs);
    }
    howdah_close(bus);
    atomic_store(&t->s->block, false);
    return NULL;
}

static void a_job_whose_lease_ran_out_is_lost_and_what_its_handler_says_is_not_heard(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 1);
    thief t = {c, &s, 1, 0};
    pthread_t thread;
    howdah_worker *worker;
    howdah_job *job;
    int64_t id = q_push(c->bus, "mail", "{\"n\":1}");

    s = (seen){.block = true, .text = "too late"};
    o.lease_ms = 300;
    o.max_jobs = 1;
    assert_int_equal(pthread_create(&thread, NULL, steal, &t), 0);
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(info_of(worker).lost, 1);
    assert_int_equal(info_of(worker).completed, 0);
    assert_int_equal(t.attempt, 2);
    howdah_worker_free(worker);
    job = q_show(c->bus, id);
    assert_text(howdah_job_result(job), "stolen");
    howdah_job_free(job);
}

/* A store that the driver does not reach from the first handler on, until it is back. */
static struct {
    const hw_queue_ops *real;
    seen *s;
    atomic_bool back;
} away;

static int refuse_it(hw_store *store, const hw_ack *acks, size_t n, howdah_ack_outcome *ret_acked,
                     const hw_claim *claim, hw_job_fn fn, void *ctx, hw_claim_report *ret_report,
                     howdah_error *reterr)
{
    if (atomic_load(&away.s->runs) > 0 && !atomic_load(&away.back))
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "away");
    return away.real->exchange(store, acks, n, ret_acked, claim, fn, ctx, ret_report, reterr);
}

/* Without the store nobody learns that leases are lost: the worker's own clock has to tell. */
static void *steal_and_come_back(void *arg)
{
    (void)steal(arg);
    q_nap(100); /* for threads that would go on */
    atomic_store(&away.back, true);
    return NULL;
}

static void a_job_whose_lease_is_over_is_not_begun(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 1, 4);
    thief t = {c, &s, 4, 0};
    const hw_store_ops *real = c->bus->store->ops;
    hw_store_ops ops = *real;
    hw_queue_ops queue = *real->queue;
    pthread_t thread;
    howdah_worker *worker;

    s = (seen){.block = true};
    away.real = real->queue;
    away.s = &s;
    atomic_store(&away.back, false);
    queue.exchange = refuse_it;
    ops.queue = &queue;
    q_push_many(c->bus, "mail", 4);
    o.lease_ms = 300;
    o.max_jobs = 4;
    c->bus->store->ops = &ops;
    assert_int_equal(pthread_create(&thread, NULL, steal_and_come_back, &t), 0);
    worker = start(c->bus, &o);
    while (howdah_worker_run(worker, 60000, &cf_error) != HOWDAH_END)
        ;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.runs, 1);
    assert_int_equal(info_of(worker).lost, 4);
    assert_int_equal(info_of(worker).completed, 0);
    assert_string_equal(q_counts(c->bus, "mail"), "0 0 0 4 0");
    howdah_worker_free(worker);
    c->bus->store->ops = real;
}

static void jobs_that_wait_behind_a_long_one_and_that_nobody_took_run_once(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 4);
    howdah_worker *worker;
    howdah_worker_info info;

    s = (seen){.sleep_ms = 400}; /* each outlives its own lease, and those of the others */
    q_push_many(c->bus, "mail", 4);
    o.lease_ms = 300;
    o.until_empty = true;
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    info = info_of(worker);
    assert_int_equal(s.runs, 4);
    assert_int_equal(info.completed, 4);
    assert_int_equal(info.lost, 0);
    howdah_worker_free(worker);
}

/* Jobs that ran while a suspect did, and how many suspects ran. */
typedef struct company {
    atomic_int inside;
    atomic_int suspects;
    atomic_int met;
    atomic_int runs;
    bool holds; /* handlers go on until the worker stops */
} company;

static int on_careful_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    company *m = ctx;
    bool suspect = howdah_job_is_suspect(job);

    (void)atomic_fetch_add(&m->inside, 1);
    (void)atomic_fetch_add(&m->suspects, suspect);
    for (int i = 0; i < 30 || (m->holds && !howdah_work_is_stopping(work)); i++) {
        q_nap(10);
        if (suspect && atomic_load(&m->inside) > 1)
            (void)atomic_fetch_add(&m->met, 1);
    }
    (void)atomic_fetch_add(&m->runs, 1);
    (void)atomic_fetch_sub(&m->inside, 1);
    return HOWDAH_WORK_DONE;
}

/* Jobs of a worker that died: their leases run out, all at one time. */
static void abandon(howdah_bus *bus, int n, int64_t lease_ms)
{
    howdah_claim_options o = HOWDAH_CLAIM_OPTIONS_INIT;
    howdah_jobs *jobs = NULL;

    o.lease_ms = lease_ms;
    q_push_many(bus, "mail", n);
    cf_ok(howdah_queue_claim(bus, "mail", n, &o, &jobs, &cf_error));
    assert_int_equal(howdah_jobs_count(jobs), n);
    howdah_jobs_free(jobs);
}

static howdah_worker_options careful(company *m, int64_t batch)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;

    *m = (company){0};
    o.queue = "mail";
    o.handler = on_careful_job;
    o.ctx = m;
    o.threads = 4;
    o.batch = batch;
    return o;
}

static void a_suspect_runs_alone(void **state)
{
    cf *c = *state;
    static company m;
    howdah_worker_options o = careful(&m, 2);
    howdah_worker *worker;

    o.until_empty = true;
    abandon(c->bus, 1, 1);   /* it is claimed first, and others would be beside it, */
    abandon(c->bus, 2, 900); /* and these while others run */
    q_push_many(c->bus, "mail", 12);
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_int_equal(m.runs, 15);
    assert_int_equal(m.suspects, 3);
    assert_int_equal(m.met, 0);
    assert_int_equal(info_of(worker).completed, 15);
    howdah_worker_free(worker);
}

static void a_suspect_that_waits_until_it_is_alone_is_given_back_at_the_end(void **state)
{
    cf *c = *state;
    static company m;
    howdah_worker_options o = careful(&m, 4);
    howdah_worker *worker;

    m.holds = true;
    q_push_many(c->bus, "mail", 1);
    worker = start(c->bus, &o);
    while (atomic_load(&m.inside) == 0)
        cf_ok(howdah_worker_run(worker, 1, &cf_error));
    abandon(c->bus, 1, 1);
    q_nap(2);
    while (info_of(worker).claimed < 2)
        cf_ok(howdah_worker_run(worker, 1, &cf_error));
    cf_ok(howdah_worker_stop(worker, &cf_error));
    assert_int_equal(m.suspects, 0);
    assert_int_equal(info_of(worker).released, 1);
    assert_int_equal(info_of(worker).completed, 1);
    howdah_worker_free(worker);
}

/* ------------------------------------------------------------------ stopping */

static void an_interrupt_ends_the_run_and_stop_acks_what_is_done(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 5);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_worker *worker;
    howdah_worker_info info;

    s = (seen){.stop = c->bus};
    q_push_many(c->bus, "mail", 5);
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, -1, &err), HOWDAH_INTERRUPTED);
    assert_int_equal(s.runs, 1);
    howdah_interrupt_clear(c->bus);
    cf_ok(howdah_worker_stop(worker, &cf_error));
    info = info_of(worker);
    assert_int_equal(info.completed, 1);
    assert_int_equal(info.released, 4);
    assert_string_equal(q_counts(c->bus, "mail"), "4 0 0 1 0");
    assert_int_equal(howdah_worker_run(worker, 0, &err), HOWDAH_MISUSE);
    howdah_worker_free(worker);
    assert_int_equal(q_claim_one(c->bus, "mail", 0).attempt, 1);
}

static void stop_waits_for_handlers_and_gives_back_what_was_not_begun(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 2, 6);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_worker *worker;

    s = (seen){.block = true};
    q_push_many(c->bus, "mail", 6);
    o.drain_ms = 200;
    o.lease_ms = 1000;
    worker = start(c->bus, &o);
    for (int i = 0; i < 1200 && atomic_load(&s.inside) < 2; i++)
        assert_int_equal(howdah_worker_run(worker, 50, &cf_error), HOWDAH_OK);
    /* So that it has to be extended meanwhile. */
    assert_int_equal(howdah_worker_run(worker, 1000, &cf_error), HOWDAH_OK);
    assert_int_equal(s.inside, 2);
    assert_int_equal(info_of(worker).waiting, 4);
    assert_int_equal(howdah_worker_stop(worker, &err), HOWDAH_TIMEOUT);
    assert_string_equal(err.message, "2 handlers still run after 200 ms");
    assert_string_equal(q_counts(c->bus, "mail"), "4 2 0 0 0");
    atomic_store(&s.block, false);
    cf_ok(howdah_worker_stop(worker, &cf_error));
    assert_string_equal(q_counts(c->bus, "mail"), "4 0 0 2 0");
    assert_int_equal(s.stopping, 2);
    howdah_worker_free(worker);
}

static void a_freed_worker_has_stopped(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 3, 9);
    howdah_worker *worker;

    s = (seen){.sleep_ms = 200};
    q_push_many(c->bus, "mail", 9);
    worker = start(c->bus, &o);
    assert_int_equal(howdah_worker_run(worker, 100, &cf_error), HOWDAH_OK);
    howdah_worker_free(worker);
    assert_int_equal(q_info(c->bus, "mail").processing, 0);
    assert_int_equal(q_info(c->bus, "mail").completed, s.runs);
    assert_int_equal(q_info(c->bus, "mail").pending, 9 - s.runs);
}

static void a_second_worker_on_one_bus_and_wrong_options_are_refused(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 0, 1);
    howdah_worker *worker = start(c->bus, &o);
    howdah_worker *other = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;

    assert_int_equal(howdah_worker_new(c->bus, &o, &other, &err), HOWDAH_MISUSE);
    howdah_worker_free(worker);
    o.threads = 257;
    assert_int_equal(howdah_worker_new(c->bus, &o, &other, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "threads: must be 0 to 256, not 257");
    o = options_of(&s, 0, 0);
    assert_int_equal(howdah_worker_new(c->bus, &o, &other, &err), HOWDAH_INVALID);
    assert_string_equal(err.message, "batch: must be 1 to 10000, not 0");
    o = options_of(&s, 0, 1);
    o.queue = NULL;
    assert_int_equal(howdah_worker_new(c->bus, &o, &other, &err), HOWDAH_INVALID);
    o = options_of(&s, 0, 1);
    o.handler = NULL;
    assert_int_equal(howdah_worker_new(c->bus, &o, &other, &err), HOWDAH_MISUSE);
    assert_null(other);
}

/* ------------------------------------------------------------------- trouble */

/* The nth turn fails, before or after its commit: every job is completed all the same, once. */
static void an_exchange_that_fails_loses_no_job(void **state)
{
    static const hw_flaky_mode modes[] = {HW_FLAKY_BEFORE, HW_FLAKY_BEFORE_UNKNOWN, HW_FLAKY_AFTER};
    cf *c = *state;
    static seen s;
    int64_t completed = 0;

    for (unsigned nth = 1; nth <= 4; nth++) {
        for (size_t m = 0; m < 3; m++) {
            howdah_worker_options o = options_of(&s, nth % 2, 2);
            howdah_bus *bus = cf_open(c);
            howdah_worker *worker;

            s = (seen){0};
            q_push_many(c->bus, "mail", 8);
            cf_ok(hw_flaky_open(bus->store, &bus->store, &cf_error));
            hw_flaky_plan_op(bus->store, HW_FLAKY_OP_EXCHANGE, nth, modes[m]);
            o.until_empty = true;
            o.lease_ms = 1000;
            worker = start(bus, &o);
            assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
            assert_false(hw_flaky_pending(bus->store));
            assert_int_equal(info_of(worker).completed, 8);
            assert_int_equal(info_of(worker).lost, 0);
            howdah_worker_free(worker);
            howdah_close(bus);
            for (int i = 1; i <= 8; i++)
                assert_int_equal(s.times[i], 1);
            completed += 8;
            assert_int_equal(q_info(c->bus, "mail").completed, completed);
        }
    }
    assert_int_equal(q_info(c->bus, "mail").failed, 0);
}

static void an_error_that_waiting_does_not_mend_ends_the_run(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 1, 2);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    howdah_worker *worker;

    cf_ok(howdah_open(c->url, c->settings, &bus, &cf_error));
    worker = start(bus, &o);
    assert_int_equal(howdah_worker_run(worker, -1, &err), HOWDAH_SCHEMA);
    howdah_worker_free(worker);
    howdah_close(bus);
}

static void *push_later(void *arg)
{
    const cf *c = arg;
    howdah_bus *bus = cf_open(c);

    q_nap(300);
    (void)q_push(bus, "mail", "{\"n\":1}");
    howdah_close(bus);
    return NULL;
}

static void a_push_wakes_a_worker_that_sleeps(void **state)
{
    cf *c = *state;
    static seen s;
    howdah_worker_options o = options_of(&s, 1, 10);
    howdah_worker *worker;
    pthread_t thread;
    int64_t before;

    s = (seen){0};
    howdah_close(c->bus);
    cf_ok(howdah_settings_set(c->settings, "poll_interval", "1m", &cf_error));
    c->bus = cf_open(c);
    o.max_jobs = 1;
    worker = start(c->bus, &o);
    before = hw_clock_mono_ms();
    assert_int_equal(pthread_create(&thread, NULL, push_later, c), 0);
    assert_int_equal(howdah_worker_run(worker, 60000, &cf_error), HOWDAH_END);
    assert_true(hw_clock_mono_ms() - before < 25000); /* a look every minute */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(s.runs, 1);
    howdah_worker_free(worker);
}

cf_group cf_worker_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_QUEUE_TEST(a_worker_in_the_callers_thread_runs_every_job_once),
        CF_QUEUE_TEST(without_time_a_worker_does_what_is_there),
        CF_QUEUE_TEST(each_verdict_does_what_it_says),
        CF_QUEUE_TEST(until_empty_waits_for_the_next_try_and_not_for_what_is_due_later),
        CF_QUEUE_TEST(max_jobs_ends_it_and_no_more_are_taken),
        CF_QUEUE_TEST(a_worker_may_try_less_often_than_the_queue),
        CF_QUEUE_TEST(threads_share_the_jobs_and_each_runs_once),
        CF_QUEUE_TEST(a_slow_handler_does_not_hold_up_the_others),
        CF_QUEUE_TEST(a_lease_is_extended_while_its_handler_runs),
        CF_QUEUE_TEST(a_handler_in_the_callers_thread_extends_by_itself),
        CF_QUEUE_TEST(a_job_whose_lease_ran_out_is_lost_and_what_its_handler_says_is_not_heard),
        CF_QUEUE_TEST(a_job_whose_lease_is_over_is_not_begun),
        CF_QUEUE_TEST(a_suspect_runs_alone),
        CF_QUEUE_TEST(a_suspect_that_waits_until_it_is_alone_is_given_back_at_the_end),
        CF_QUEUE_TEST(jobs_that_wait_behind_a_long_one_and_that_nobody_took_run_once),
        CF_QUEUE_TEST(an_interrupt_ends_the_run_and_stop_acks_what_is_done),
        CF_QUEUE_TEST(stop_waits_for_handlers_and_gives_back_what_was_not_begun),
        CF_QUEUE_TEST(a_freed_worker_has_stopped),
        CF_QUEUE_TEST(a_second_worker_on_one_bus_and_wrong_options_are_refused),
        CF_QUEUE_TEST(an_exchange_that_fails_loses_no_job),
        CF_TEST_BARE(an_error_that_waiting_does_not_mend_ends_the_run),
        CF_QUEUE_TEST(a_push_wakes_a_worker_that_sleeps),
    };

    return CF_GROUP(tests);
}
