/* test_use.c - who may use a bus: handlers, other threads, mistakes.  Under ThreadSanitizer too. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bus/subscription/subscription.h"
#include "queue_help.h"

/* What a handler did; statuses are kept, since an assertion has no business in a thread. */
typedef struct busy {
    howdah_bus *bus;
    howdah_subscription *sub;
    atomic_int handled;
    atomic_int worst;    /* the lowest status of its calls */
    atomic_int refused;  /* the status of calls that are not for handlers, if all had the same */
    atomic_int fails;    /* so many tries fail after their work */
    atomic_bool block;   /* it waits while this is set, */
    atomic_bool blocked; /* and says so */
    char message[512];   /* of the worst */
} busy;

static void note(busy *b, int status, const howdah_error *err)
{
    if (status >= atomic_load(&b->worst))
        return;
    atomic_store(&b->worst, status);
    (void)snprintf(b->message, sizeof b->message, "%s", err->message);
}

static void assert_well(busy *b)
{
    if (atomic_load(&b->worst) < 0)
        fail_msg("%s: %s", howdah_status_name(atomic_load(&b->worst)), b->message);
}

static void wait_for(atomic_int *count, int n)
{
    for (int i = 0; i < CF_PATIENCE_MS / 5 && atomic_load(count) < n; i++)
        q_nap(5);
    assert_int_equal(atomic_load(count), n);
}

static void wait_until(atomic_bool *flag)
{
    for (int i = 0; i < CF_PATIENCE_MS / 5 && !atomic_load(flag); i++)
        q_nap(5);
    assert_true(atomic_load(flag));
}

/* One event of type "out" for each one, which is read again; and a job. */
static void append_and_push(busy *b, const howdah_event *event, const char *stream)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *builder = NULL;
    howdah_event *out = NULL;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    char id[HOWDAH_UUID_SIZE];
    int s = howdah_builder_new(&builder, &err);

    howdah_event_id(event, id);
    if (s >= 0) {
        howdah_builder_set_stream(builder, stream);
        howdah_builder_set_type(builder, "out");
        howdah_builder_set_causation(builder, id);
        s = howdah_builder_build(builder, &out, &err);
    }
    if (s >= 0)
        s = howdah_append(b->bus, out, NULL, NULL, &err);
    if (s >= 0)
        s = howdah_queue_push(b->bus, "out", &job, NULL, &err);
    note(b, s, &err);
    howdah_event_free(out);
    howdah_builder_free(builder);
}

static void read_all(busy *b)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s = howdah_reader_open_since(b->bus, 0, &reader, &err);

    while (s == HOWDAH_OK)
        s = howdah_reader_next(reader, &event, &err);
    howdah_reader_close(reader);
    note(b, s, &err);
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;

    append_and_push(b, event, howdah_delivery_subscriber(delivery));
    read_all(b);
    if (atomic_load(&b->fails) > 0) {
        (void)atomic_fetch_sub(&b->fails, 1);
        return howdah_delivery_fail(delivery, "not yet");
    }
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

static howdah_subscription *subscribe(howdah_bus *bus, const char *id, howdah_handler handler,
                                      howdah_checkpoint_mode mode, busy *b)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    b->bus = bus;
    o.subscriber_id = id;
    o.pattern = "in";
    o.handler = handler;
    o.ctx = b;
    o.checkpoint = mode;
    o.retry_delay_ms = 5;
    o.max_retry_delay_ms = 20;
    cf_ok(howdah_subscribe(bus, &o, &b->sub, &cf_error));
    return b->sub;
}

static void append_in(howdah_bus *bus, int n)
{
    for (int i = 0; i < n; i++)
        (void)cf_append(bus, "s", "in", NULL);
}

static int on_finding(void *ctx, const howdah_finding *finding)
{
    if (finding->severity != HOWDAH_GOOD)
        fail_msg("%s: %s", finding->check, finding->message);
    (*(int *)ctx)++;
    return 0;
}

/* Nothing is torn: the file, or what the tables say of one another. */
static void assert_sound(const cf *c)
{
    howdah_bus *admin = cf_open_admin(c);
    int n = 0;

    cf_ok(howdah_verify(admin, on_finding, &n, &cf_error));
    assert_true(n > 0);
    if (!cf_is_pg())
        assert_int_equal(cf_sql_number(c, "SELECT integrity_check = 'ok' FROM"
                                          " pragma_integrity_check"),
                         1);
    howdah_close(admin);
}

static int64_t count_out(const cf *c)
{
    return cf_sql_number(c, "SELECT count(*) FROM {events} WHERE type = 'out'");
}

/* ---------------------------------------------------------------- handlers */

static void a_handler_uses_its_own_bus_under_run(void **state)
{
    static const howdah_checkpoint_mode modes[] = {
        HOWDAH_CHECKPOINT_SYNC, HOWDAH_CHECKPOINT_BATCHED, HOWDAH_CHECKPOINT_TRANSACTIONAL};
    cf *c = *state;

    append_in(c->bus, 20);
    for (int i = 0; i < 3; i++) {
        howdah_bus *bus = cf_open(c);
        char id[16];
        busy b = {0};

        (void)snprintf(id, sizeof id, "mode-%d", i);
        (void)subscribe(bus, id, on_event, modes[i], &b);
        cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
        assert_well(&b);
        assert_int_equal(atomic_load(&b.handled), 20);
        assert_int_equal(count_out(c), 20 * (i + 1));
        howdah_close(bus);
    }
    assert_sound(c);
}

static void handlers_use_their_bus_in_a_runners_threads(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    busy subs[4];
    char id[8];

    memset(subs, 0, sizeof subs);
    append_in(c->bus, 40);
    for (int i = 0; i < 4; i++) {
        (void)snprintf(id, sizeof id, "p%d", i);
        (void)subscribe(bus, id, on_event,
                        i == 3 ? HOWDAH_CHECKPOINT_TRANSACTIONAL : HOWDAH_CHECKPOINT_SYNC,
                        &subs[i]);
    }
    cf_ok(howdah_runner_start(bus, 4, &cf_error));
    for (int i = 0; i < 4; i++)
        wait_for(&subs[i].handled, 40);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    for (int i = 0; i < 4; i++)
        assert_well(&subs[i]);
    howdah_close(bus);
    assert_int_equal(count_out(c), 160);
    assert_sound(c);
}

static void what_a_transactional_handler_writes_on_its_bus_is_part_of_its_transaction(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    busy b = {.fails = 2};

    append_in(c->bus, 3);
    (void)subscribe(bus, "p", on_event, HOWDAH_CHECKPOINT_TRANSACTIONAL, &b);
    cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
    assert_well(&b);
    /* Two tries were rolled back with all that they had written. */
    assert_int_equal(atomic_load(&b.handled), 3);
    assert_int_equal(count_out(c), 3);
    assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {jobs}"), 3);
    howdah_close(bus);
    assert_sound(c);
}

static int pause_another(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)event;
    (void)delivery;
    note(b, howdah_subscription_pause(b->bus, "other", "because", &err), &err);
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

/* On SQLite it would wait for the transaction of the handler that waits for it. */
static void a_write_that_would_wait_for_its_own_handler_is_refused_at_once(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    howdah_bus *other = cf_open(c);
    busy b = {0};
    busy unused = {0};

    append_in(c->bus, 1);
    (void)subscribe(other, "other", on_event, HOWDAH_CHECKPOINT_SYNC, &unused);
    (void)subscribe(bus, "p", pause_another, HOWDAH_CHECKPOINT_TRANSACTIONAL, &b);
    cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
    assert_int_equal(atomic_load(&b.handled), 1);
    assert_int_equal(atomic_load(&b.worst), cf_is_pg() ? 0 : HOWDAH_MISUSE);
    if (!cf_is_pg())
        assert_string_equal(b.message, "howdah_subscription_pause: it would wait for the "
                                       "transaction of the handler that calls");
    howdah_close(other);
    howdah_close(bus);
}

static int never(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    (void)delivery;
    return HOWDAH_HANDLED;
}

/* Everything that drives the bus: MISUSE from all of it, or that of the one that was not. */
static int drive(busy *b)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_worker_options w = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_worker *worker = NULL;

    o.subscriber_id = "one more";
    o.handler = never;
    w.queue = "q";
    const int statuses[] = {
        howdah_run(b->bus, 0, NULL),
        howdah_service(b->bus, NULL, NULL),
        howdah_subscribe(b->bus, &o, &sub, NULL),
        howdah_unsubscribe(b->sub, NULL),
        howdah_subscription_wait(b->sub, 0, NULL),
        howdah_runner_start(b->bus, 1, NULL),
        howdah_runner_stop(b->bus, NULL),
        howdah_runner_wait(b->bus, 0, NULL),
        howdah_bindings_serve(b->bus, NULL, NULL),
        howdah_worker_new(b->bus, &w, &worker, NULL),
        howdah_close(b->bus),
    };
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        if (statuses[i] != HOWDAH_MISUSE)
            return (int)i + 1;
    }
    return HOWDAH_MISUSE;
}

static int drive_in_handler(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)event;
    atomic_store(&b->refused, drive(b));
    if (howdah_subscription_info_get(b->sub, &info) < 0 ||
        strcmp(info.subscriber_id, howdah_delivery_subscriber(delivery)) != 0)
        note(b, HOWDAH_FAILED, &err);
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

static void a_handler_may_not_drive_or_close_its_own_bus(void **state)
{
    cf *c = *state;

    append_in(c->bus, 2);
    for (int threads = 0; threads < 2; threads++) {
        howdah_bus *bus = cf_open(c);
        busy b = {0};

        (void)subscribe(bus, threads ? "threads" : "run", drive_in_handler, HOWDAH_CHECKPOINT_SYNC,
                        &b);
        if (threads)
            cf_ok(howdah_runner_start(bus, 1, &cf_error));
        else
            cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
        wait_for(&b.handled, 2);
        assert_int_equal(howdah_close(bus), HOWDAH_OK);
        assert_int_equal(atomic_load(&b.refused), HOWDAH_MISUSE);
        assert_well(&b);
    }
}

static int wait_in_handler(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;

    (void)event;
    (void)delivery;
    atomic_store(&b->blocked, true);
    while (atomic_load(&b->block))
        q_nap(1);
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

static void *stop_runner(void *bus)
{
    return howdah_runner_stop(bus, NULL) < 0 ? bus : NULL;
}

static void stopping_a_runner_ends_after_the_handler_that_runs(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    busy b = {.block = true};
    pthread_t stopper;
    void *failed = NULL;

    append_in(c->bus, 50);
    (void)subscribe(bus, "p", wait_in_handler, HOWDAH_CHECKPOINT_BATCHED, &b);
    cf_ok(howdah_runner_start(bus, 1, &cf_error));
    wait_until(&b.blocked);
    assert_int_equal(pthread_create(&stopper, NULL, stop_runner, bus), 0);
    while (!hw_runner_is_stopping(bus)) /* it cannot end before its handler does */
        q_nap(1);
    atomic_store(&b.block, false);
    assert_int_equal(pthread_join(stopper, &failed), 0);
    assert_null(failed);
    assert_int_equal(atomic_load(&b.handled), 1);
    assert_int_equal(cf_sql_number(c, "SELECT high FROM {subscriptions}"), 1);
    cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
    assert_int_equal(atomic_load(&b.handled), 50);
    howdah_close(bus);
}

static int interrupt_and_append(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;
    howdah_jobs *jobs = NULL;

    howdah_interrupt(b->bus);
    append_and_push(b, event, howdah_delivery_subscriber(delivery));
    read_all(b);
    atomic_store(&b->refused, howdah_queue_claim_wait(b->bus, "none", 1, -1, NULL, &jobs, NULL));
    howdah_jobs_free(jobs);
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

static void an_interrupt_lets_the_handler_that_runs_finish_but_not_wait(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    busy b = {0};

    append_in(c->bus, 5);
    (void)subscribe(bus, "p", interrupt_and_append, HOWDAH_CHECKPOINT_SYNC, &b);
    assert_int_equal(howdah_run(bus, CF_PATIENCE_MS, NULL), HOWDAH_INTERRUPTED);
    assert_well(&b);
    assert_int_equal(atomic_load(&b.handled), 1);
    assert_int_equal(atomic_load(&b.refused), HOWDAH_INTERRUPTED);
    assert_int_equal(count_out(c), 1);
    howdah_close(bus);
    assert_int_equal(cf_sql_number(c, "SELECT high FROM {subscriptions}"), 1);
}

static int wait_for_ever(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;
    howdah_jobs *jobs = NULL;

    (void)event;
    (void)delivery;
    atomic_store(&b->blocked, true);
    atomic_store(&b->refused, howdah_queue_claim_wait(b->bus, "none", 1, -1, NULL, &jobs, NULL));
    howdah_jobs_free(jobs);
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

static void stopping_a_runner_ends_what_its_handlers_wait_for(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    busy b = {0};

    append_in(c->bus, 1);
    (void)subscribe(bus, "p", wait_for_ever, HOWDAH_CHECKPOINT_SYNC, &b);
    cf_ok(howdah_runner_start(bus, 1, &cf_error));
    wait_until(&b.blocked);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    assert_int_equal(atomic_load(&b.handled), 1);
    assert_int_equal(atomic_load(&b.refused), HOWDAH_INTERRUPTED);
    /* That was the runner's end, not the bus's. */
    append_in(bus, 1);
    howdah_close(bus);
    assert_int_equal(cf_sql_number(c, "SELECT high FROM {subscriptions}"), 1);
}

/* -------------------------------------------------------------------- jobs */

static int push_in_handler(void *ctx, const howdah_job *job, howdah_work *work)
{
    busy *b = ctx;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_new_job next = HOWDAH_NEW_JOB_INIT;
    howdah_job *shown = NULL;
    int s = howdah_queue_push(b->bus, "out", &next, NULL, &err);

    if (s >= 0)
        s = howdah_job_get(b->bus, howdah_job_id(job), &shown, &err);
    howdah_job_free(shown);
    note(b, s, &err);
    (void)atomic_fetch_add(&b->handled, 1);
    return howdah_work_complete(work, NULL);
}

static void a_jobs_handler_uses_its_bus_in_every_thread(void **state)
{
    cf *c = *state;

    for (int threads = 0; threads <= 4; threads += 4) {
        howdah_bus *bus = cf_open(c);
        howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
        howdah_worker *worker = NULL;
        busy b = {.bus = bus};

        q_push_many(c->bus, "in", 40);
        o.queue = "in";
        o.handler = push_in_handler;
        o.ctx = &b;
        o.threads = threads;
        o.until_empty = true;
        cf_ok(howdah_worker_new(bus, &o, &worker, &cf_error));
        cf_ok(howdah_worker_run(worker, CF_PATIENCE_MS, &cf_error));
        howdah_worker_free(worker);
        howdah_close(bus);
        assert_well(&b);
        assert_int_equal(atomic_load(&b.handled), 40);
        assert_int_equal(cf_sql_number(c, "SELECT count(*) FROM {jobs}"), threads ? 80 : 40);
    }
    assert_sound(c);
}

/* ----------------------------------------------------------- other threads */

static int on_fact(void *ctx, const howdah_fact *fact)
{
    (void)ctx;
    (void)fact;
    return 0;
}

static int on_purge(void *ctx, const howdah_purge_record *record)
{
    (void)ctx;
    (void)record;
    return 0;
}

/* Calls of every kind; how many of them were refused as they are to be, or minus the first that was
   not. */
static int call_all(howdah_bus *bus, howdah_reader *reader, howdah_tail *tail)
{
    howdah_event *event = cf_event("s", "in", NULL);
    const howdah_event *next = NULL;
    howdah_reader_options r = HOWDAH_READER_OPTIONS_INIT;
    howdah_import_options i = HOWDAH_IMPORT_OPTIONS_INIT;
    howdah_correction k = HOWDAH_CORRECTION_INIT;
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_reader *opened = NULL;
    howdah_tail *tailed = NULL;
    howdah_event *found = NULL;
    howdah_jobs *jobs = NULL;
    int64_t n = 0;

    i.table = "t";
    const int statuses[] = {
        howdah_append(bus, event, NULL, NULL, NULL),
        howdah_reader_open(bus, &r, &opened, NULL),
        howdah_reader_next(reader, &next, NULL),
        howdah_event_get_last(bus, "s", &found, NULL),
        howdah_tail_open(bus, NULL, &tailed, NULL),
        howdah_tail_next(tail, 0, &next, NULL),
        howdah_facts_walk(bus, on_fact, NULL, NULL),
        howdah_import(bus, &i, NULL, NULL),
        howdah_correct(bus, &k, NULL, NULL),
        howdah_query_count(bus, NULL, &n, NULL, NULL),
        howdah_purges_walk(bus, on_purge, NULL, NULL),
        howdah_migrate(bus, NULL, NULL),
        howdah_queue_push(bus, "q", &job, NULL, NULL),
        howdah_queue_claim(bus, "q", 1, NULL, &jobs, NULL),
        howdah_subscription_pause(bus, "p", NULL, NULL),
        howdah_run(bus, 0, NULL),
    };
    howdah_event_free(event);
    for (int at = 0; at < (int)(sizeof statuses / sizeof statuses[0]); at++) {
        if (statuses[at] != HOWDAH_MISUSE)
            return -at - 1;
    }
    return (int)(sizeof statuses / sizeof statuses[0]);
}

static void nobody_else_may_use_a_bus_that_a_runner_serves(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    howdah_reader *reader = NULL;
    howdah_tail *tail = NULL;
    busy b = {0};

    append_in(c->bus, 10);
    cf_ok(howdah_reader_open_since(bus, 0, &reader, &cf_error));
    cf_ok(howdah_tail_open(bus, NULL, &tail, &cf_error));
    (void)subscribe(bus, "p", on_event, HOWDAH_CHECKPOINT_SYNC, &b);
    cf_ok(howdah_runner_start(bus, 2, &cf_error));
    for (int i = 0; i < 50; i++)
        assert_int_equal(call_all(bus, reader, tail), 16);
    /* It is not our turn to close them, so they are put by. */
    howdah_reader_close(reader);
    howdah_tail_close(tail);
    wait_for(&b.handled, 10);
    assert_well(&b);
    cf_ok(howdah_runner_stop(bus, &cf_error));
    assert_int_equal(cf_count(bus), 20);
    howdah_close(bus);
    assert_sound(c);
}

typedef struct flood {
    howdah_bus *bus;
    atomic_int stored;
    atomic_int other; /* neither stored nor refused */
    atomic_bool *go;
    int calls;
} flood;

static void *append_many(void *ctx)
{
    flood *f = ctx;
    howdah_event *event = NULL;
    howdah_builder *builder = NULL;

    if (howdah_builder_new(&builder, NULL) < 0)
        return f;
    howdah_builder_set_stream(builder, "flood");
    howdah_builder_set_type(builder, "in");
    while (!atomic_load(f->go))
        q_nap(1);
    for (int i = 0; i < f->calls; i++) {
        int s = howdah_builder_build(builder, &event, NULL);

        s = s < 0 ? s : howdah_append(f->bus, event, NULL, NULL, NULL);
        if (s == HOWDAH_OK)
            (void)atomic_fetch_add(&f->stored, 1);
        else if (s != HOWDAH_MISUSE)
            (void)atomic_fetch_add(&f->other, 1);
        howdah_event_free(event);
        event = NULL;
    }
    howdah_builder_free(builder);
    return NULL;
}

static void two_threads_in_one_bus_store_what_they_are_told_and_damage_nothing(void **state)
{
    cf *c = *state;
    atomic_bool go = false;
    flood f = {.bus = c->bus, .go = &go, .calls = 300};
    pthread_t threads[3];

    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, append_many, &f), 0);
    atomic_store(&go, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&f.other), 0);
    assert_true(atomic_load(&f.stored) > 0);
    assert_int_equal(cf_count(c->bus), atomic_load(&f.stored));
    assert_sound(c);
}

/* ------------------------------------------------------------------- walks */

/* What every callback does: it writes, it reads, and walks once more. */
typedef struct nested {
    howdah_bus *bus;
    int calls;
    int inner; /* rows of the walks inside */
} nested;

static int count_fact(void *ctx, const howdah_fact *fact)
{
    (void)fact;
    ((nested *)ctx)->inner++;
    return 0;
}

static void use_bus(nested *n)
{
    (void)cf_append(n->bus, "walked", "walk", NULL);
    cf_ok(howdah_facts_walk(n->bus, count_fact, n, &cf_error));
    n->calls++;
}

static int in_subscriptions(void *ctx, const howdah_subscription_info *info)
{
    use_bus(ctx);
    assert_string_equal(info->subscriber_id, "p");
    return 0;
}

static int in_dead_letters(void *ctx, const howdah_dead_letter *dead_letter)
{
    use_bus(ctx);
    assert_string_equal(dead_letter->error, "never");
    return 0;
}

static int in_queues(void *ctx, const howdah_queue_info *info)
{
    use_bus(ctx);
    assert_string_equal(info->queue, "q");
    return 0;
}

static int in_log(void *ctx, const howdah_job *job)
{
    use_bus(ctx);
    assert_string_equal(howdah_job_queue(job), "q");
    return 0;
}

static int in_tree(void *ctx, int depth, const howdah_event *event)
{
    (void)depth;
    use_bus(ctx);
    assert_string_equal(howdah_event_stream(event), "s");
    return 0;
}

static int in_types(void *ctx, const howdah_type_stats *stats)
{
    use_bus(ctx);
    assert_non_null(stats->type);
    return 1;
}

static int in_streams(void *ctx, const char *stream)
{
    use_bus(ctx);
    assert_non_null(stream);
    return 1;
}

static int in_diff(void *ctx, howdah_change change, const howdah_event *before,
                   const howdah_event *after)
{
    (void)before;
    use_bus(ctx);
    assert_int_equal(change, HOWDAH_CHANGE_ADDED);
    assert_string_equal(howdah_event_stream(after), "s");
    return 1;
}

static int in_findings(void *ctx, const howdah_finding *finding)
{
    use_bus(ctx);
    assert_int_equal(finding->severity, HOWDAH_GOOD);
    return 0;
}

static int in_steps(void *ctx, const howdah_migration_info *step)
{
    use_bus(ctx);
    assert_non_null(step->name);
    return 0;
}

static int fail_always(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    return howdah_delivery_fail(delivery, "never");
}

static void make_something_to_walk_over(cf *c)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    append_in(c->bus, 3);
    o.subscriber_id = "p";
    o.pattern = "in";
    o.handler = fail_always;
    o.max_retries = 0;
    cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
    cf_ok(howdah_subscription_wait(sub, CF_PATIENCE_MS, &cf_error));
    cf_ok(howdah_unsubscribe(sub, &cf_error));
    for (int i = 0; i < 3; i++) {
        howdah_job *job = NULL;

        (void)q_push(c->bus, "q", NULL);
        cf_ok(howdah_queue_poll(c->bus, "q", &job, &cf_error));
        cf_ok(howdah_job_finalize(c->bus, howdah_job_id(job), true, &cf_error));
        howdah_job_free(job);
    }
}

static int drive_in_walk(void *ctx, const howdah_fact *fact)
{
    busy *b = ctx;

    (void)fact;
    atomic_store(&b->refused, drive(b));
    return 1;
}

static void a_callback_may_not_drive_or_close_the_bus_that_calls_it(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    busy b = {0};

    (void)subscribe(bus, "p", never, HOWDAH_CHECKPOINT_SYNC, &b);
    cf_ok(howdah_facts_walk(bus, drive_in_walk, &b, &cf_error));
    assert_int_equal(atomic_load(&b.refused), HOWDAH_MISUSE);
    assert_int_equal(howdah_close(bus), HOWDAH_OK);
}

typedef struct closer {
    howdah_reader *reader;
    int upcast;
} closer;

static int close_and_upcast(void *ctx, const howdah_event *event, howdah_upcast *upcast)
{
    closer *k = ctx;

    (void)event;
    howdah_reader_close(k->reader);
    k->upcast++;
    howdah_upcast_set_json(upcast, "{\"upcast\":true}", 15);
    return HOWDAH_OK;
}

static void a_reader_that_is_closed_while_it_works_is_closed_later(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open(c);
    const howdah_event *event = NULL;
    closer k = {NULL, 0};

    append_in(c->bus, 2);
    cf_ok(howdah_upcast_register(bus, "in", 1, close_and_upcast, &k, &cf_error));
    cf_ok(howdah_reader_open_since(bus, 0, &k.reader, &cf_error));
    cf_ok(howdah_reader_next(k.reader, &event, &cf_error));
    assert_string_equal(howdah_event_data(event, NULL), "{\"upcast\":true}");
    assert_int_equal(k.upcast, 1);
    assert_int_equal(cf_count(c->bus), 2); /* and whoever enters next closes it */
    howdah_close(bus);
}

static void the_callback_of_a_walk_may_use_the_bus(void **state)
{
    cf *c = *state;
    howdah_bus *bus = c->bus;
    howdah_diff_options d = HOWDAH_DIFF_OPTIONS_INIT;
    howdah_event *last = NULL;
    char id[HOWDAH_UUID_SIZE];
    nested n = {.bus = bus};

    make_something_to_walk_over(c);
    cf_ok(howdah_event_get_last(bus, "s", &last, &cf_error));
    howdah_event_id(last, id);
    howdah_event_free(last);
    d.known_at_us = 1;
    cf_ok(howdah_subscriptions_walk(bus, NULL, in_subscriptions, &n, &cf_error));
    assert_int_equal(n.calls, 1);
    cf_ok(howdah_dead_letters_walk(bus, NULL, in_dead_letters, &n, &cf_error));
    assert_int_equal(n.calls, 4);
    cf_ok(howdah_queues_walk(bus, NULL, in_queues, &n, &cf_error));
    cf_ok(howdah_queue_summaries_walk(bus, in_queues, &n, &cf_error));
    assert_int_equal(n.calls, 6);
    cf_ok(howdah_queue_history_walk(bus, "q", NULL, in_log, &n, &cf_error));
    assert_int_equal(n.calls, 9);
    cf_ok(howdah_causation_walk(bus, id, in_tree, &n, &cf_error));
    cf_ok(howdah_types_walk(bus, NULL, in_types, &n, &cf_error));
    cf_ok(howdah_streams_walk(bus, NULL, in_streams, &n, &cf_error));
    cf_ok(howdah_diff(bus, &d, in_diff, &n, NULL, &cf_error));
    assert_int_equal(n.calls, 13);
    cf_ok(howdah_verify(bus, in_findings, &n, &cf_error));
    cf_ok(howdah_migrations_walk(bus, in_steps, &n, &cf_error));
    assert_true(n.calls > 16);
    assert_int_equal(cf_count(bus), 3 + n.calls);
    assert_sound(c);
}

/* --------------------------------------------------------------- in memory */

static void a_bus_in_memory_serves_its_handlers_and_says_why_it_has_no_runner(void **state)
{
    static const howdah_checkpoint_mode modes[] = {HOWDAH_CHECKPOINT_SYNC,
                                                   HOWDAH_CHECKPOINT_TRANSACTIONAL};
    howdah_error err = HOWDAH_ERROR_INIT;

    (void)state;
    for (int i = 0; i < 2; i++) {
        howdah_bus *bus = NULL;
        busy b = {.fails = 1};

        cf_ok(howdah_open("sqlite::memory:", NULL, &bus, &cf_error));
        cf_ok(howdah_migrate(bus, NULL, &cf_error));
        append_in(bus, 5);
        (void)subscribe(bus, "p", on_event, modes[i], &b);
        assert_int_equal(howdah_runner_start(bus, 1, &err), HOWDAH_MISUSE);
        assert_string_equal(err.message, "howdah_runner_start: this bus has one session only");
        assert_string_equal(err.advice, "serve it with howdah_run(), or open a bus on a file");
        cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
        assert_well(&b);
        assert_int_equal(atomic_load(&b.handled), 5);
        /* What a failed try had appended stays, unless it was part of its transaction. */
        assert_int_equal(cf_count(bus), modes[i] == HOWDAH_CHECKPOINT_SYNC ? 11 : 10);
        howdah_close(bus);
    }
}

static int wait_for_jobs(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    busy *b = ctx;
    howdah_jobs *jobs = NULL;

    (void)event;
    (void)delivery;
    atomic_store(&b->refused, howdah_queue_claim_wait(b->bus, "q", 1, 10, NULL, &jobs, NULL));
    howdah_jobs_free(jobs);
    (void)atomic_fetch_add(&b->handled, 1);
    return HOWDAH_HANDLED;
}

static void a_handler_may_wait_on_its_bus_where_there_is_a_session_for_it(void **state)
{
    cf *c = *state;
    howdah_bus *file = cf_open(c);
    howdah_bus *memory = NULL;
    busy b = {0};
    busy m = {0};

    append_in(c->bus, 1);
    (void)subscribe(file, "p", wait_for_jobs, HOWDAH_CHECKPOINT_SYNC, &b);
    cf_ok(howdah_subscription_wait(b.sub, CF_PATIENCE_MS, &cf_error));
    assert_int_equal(atomic_load(&b.refused), HOWDAH_END);
    howdah_close(file);
    cf_ok(howdah_open("sqlite::memory:", NULL, &memory, &cf_error));
    cf_ok(howdah_migrate(memory, NULL, &cf_error));
    append_in(memory, 1);
    (void)subscribe(memory, "p", wait_for_jobs, HOWDAH_CHECKPOINT_SYNC, &m);
    cf_ok(howdah_subscription_wait(m.sub, CF_PATIENCE_MS, &cf_error));
    assert_int_equal(atomic_load(&m.refused), HOWDAH_MISUSE);
    howdah_close(memory);
}

static const struct CMUnitTest tests[] = {
    CF_QUEUE_TEST(a_handler_uses_its_own_bus_under_run),
    CF_QUEUE_TEST(handlers_use_their_bus_in_a_runners_threads),
    CF_QUEUE_TEST(what_a_transactional_handler_writes_on_its_bus_is_part_of_its_transaction),
    CF_QUEUE_TEST(a_write_that_would_wait_for_its_own_handler_is_refused_at_once),
    CF_QUEUE_TEST(a_handler_may_not_drive_or_close_its_own_bus),
    CF_QUEUE_TEST(stopping_a_runner_ends_after_the_handler_that_runs),
    CF_QUEUE_TEST(an_interrupt_lets_the_handler_that_runs_finish_but_not_wait),
    CF_QUEUE_TEST(stopping_a_runner_ends_what_its_handlers_wait_for),
    CF_QUEUE_TEST(a_callback_may_not_drive_or_close_the_bus_that_calls_it),
    CF_QUEUE_TEST(a_reader_that_is_closed_while_it_works_is_closed_later),
    CF_QUEUE_TEST(a_jobs_handler_uses_its_bus_in_every_thread),
    CF_QUEUE_TEST(nobody_else_may_use_a_bus_that_a_runner_serves),
    CF_QUEUE_TEST(two_threads_in_one_bus_store_what_they_are_told_and_damage_nothing),
    CF_QUEUE_TEST(the_callback_of_a_walk_may_use_the_bus),
    CF_QUEUE_TEST(a_bus_in_memory_serves_its_handlers_and_says_why_it_has_no_runner),
    CF_QUEUE_TEST(a_handler_may_wait_on_its_bus_where_there_is_a_session_for_it),
};

cf_group cf_use_tests(void)
{
    return CF_GROUP(tests);
}
