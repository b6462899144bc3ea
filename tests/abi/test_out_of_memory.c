/*
 * test_out_of_memory.c - each allocation of the public functions fails once.
 *
 * A scenario runs on a bus of its own with its nth allocation failing, for every n until it makes
 * fewer than that: what fails says NO_MEMORY, or does without; nothing crashes, nothing is left
 * behind, and the bus can be used and closed afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <howdah/howdah.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOCATIONS_MAX 3000

/* Threads of workers and runners allocate too. */
static struct scarcity {
    pthread_mutex_t lock;
    unsigned fail_at; /* 0: none */
    unsigned asked;
    long alive;
} scarcity = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool refuses(int alive)
{
    bool no;

    (void)pthread_mutex_lock(&scarcity.lock);
    no = scarcity.fail_at > 0 && ++scarcity.asked == scarcity.fail_at;
    scarcity.alive += no ? 0 : alive;
    (void)pthread_mutex_unlock(&scarcity.lock);
    return no;
}

static void *scarce_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return refuses(1) ? NULL : malloc(bytes);
}

static void *scarce_realloc(void *ctx, void *block, size_t bytes)
{
    (void)ctx;
    return refuses(block ? 0 : 1) ? NULL : realloc(block, bytes);
}

static void scarce_free(void *ctx, void *block)
{
    (void)ctx;
    if (!block)
        return;
    (void)pthread_mutex_lock(&scarcity.lock);
    scarcity.alive--;
    (void)pthread_mutex_unlock(&scarcity.lock);
    free(block);
}

/* Every scenario has these at hand; they are made while there is memory. */
typedef struct stage {
    howdah_bus *bus;
    howdah_event *event; /* is stored */
    howdah_event *next;  /* is not */
    char id[HOWDAH_UUID_SIZE];
    int handled;
} stage;

typedef int (*scenario)(stage *on, howdah_error *err);

static howdah_event *make_event(void)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    assert_int_equal(howdah_builder_new(&b, NULL), HOWDAH_OK);
    howdah_builder_set_stream(b, "s");
    howdah_builder_set_type(b, "order.paid");
    howdah_builder_set_json(b, "{\"a\":{\"b\":1}}", 13);
    howdah_builder_add_header(b, "name", "value");
    assert_int_equal(howdah_builder_build(b, &event, NULL), HOWDAH_OK);
    howdah_builder_free(b);
    return event;
}

static void set(stage *on)
{
    memset(on, 0, sizeof *on);
    assert_int_equal(howdah_open("sqlite::memory:", NULL, &on->bus, NULL), HOWDAH_OK);
    assert_int_equal(howdah_migrate(on->bus, NULL, NULL), HOWDAH_OK);
    on->event = make_event();
    on->next = make_event();
    howdah_event_id(on->event, on->id);
    assert_int_equal(howdah_append(on->bus, on->event, NULL, NULL, NULL), HOWDAH_OK);
    assert_int_equal(howdah_queue_publish(on->bus, "q", "{\"n\":1}", NULL, NULL), HOWDAH_OK);
}

static void clear(stage *on)
{
    howdah_event_free(on->event);
    howdah_event_free(on->next);
    assert_int_equal(howdah_close(on->bus), HOWDAH_OK);
}

static void run_scarce(scenario run, const char *name)
{
    const howdah_allocator hooks = {sizeof hooks, scarce_alloc, scarce_realloc, scarce_free, NULL};
    unsigned n = 0;
    bool through = false;

    assert_int_equal(howdah_allocator_set(&hooks), HOWDAH_OK);
    while (!through && n < ALLOCATIONS_MAX) {
        howdah_error err = HOWDAH_ERROR_INIT;
        int64_t count = 0;
        stage on;
        int s;

        set(&on);
        scarcity.asked = 0;
        scarcity.fail_at = ++n;
        s = run(&on, &err);
        through = scarcity.asked < n;
        scarcity.fail_at = 0;
        if (s < 0 && (s != HOWDAH_NO_MEMORY || through))
            fail_msg("%s, allocation %u: %s %s", name, n, howdah_status_name(s), err.message);
        assert_int_equal(howdah_query_count(on.bus, NULL, &count, NULL, NULL), HOWDAH_OK);
        assert_true(count > 0);
        clear(&on);
        if (scarcity.alive != 0)
            fail_msg("%s, allocation %u: %ld blocks are left", name, n, scarcity.alive);
    }
    assert_int_equal(howdah_allocator_set(NULL), HOWDAH_OK);
    assert_true(through);
}

/* ------------------------------------------------------------------- the log */

static int open_another(stage *on, howdah_error *err)
{
    howdah_settings *settings = NULL;
    howdah_bus *bus = NULL;
    char *sql = NULL;
    int s = howdah_settings_new(&settings, err);

    (void)on;
    if (s >= 0)
        s = howdah_settings_set(settings, "application_name", "me", err);
    if (s >= 0)
        s = howdah_open("sqlite::memory:", settings, &bus, err);
    if (s >= 0)
        s = howdah_migrate(bus, NULL, err);
    howdah_settings_free(settings);
    (void)howdah_close(bus);
    if (s >= 0)
        s = howdah_migrations_sql("sqlite::memory:", NULL, &sql, err);
    howdah_free(sql);
    return s;
}

static int build(stage *on, howdah_error *err)
{
    howdah_builder *b = NULL;
    howdah_event *built = NULL;
    howdah_event *narrow = NULL;
    howdah_event *wide = NULL;
    howdah_event *copy = NULL;
    int s = howdah_builder_from_event(on->event, &b, err);

    if (s >= 0)
        s = howdah_builder_build(b, &built, err);
    if (s >= 0)
        s = howdah_event_narrow(built, "a", &narrow, err);
    if (s >= 0)
        s = howdah_event_widen(narrow, "x", &wide, err);
    if (s >= 0)
        s = howdah_event_copy(wide, &copy, err);
    if (s >= 0)
        (void)howdah_event_json(copy, NULL, 0);
    howdah_event_free(copy);
    howdah_event_free(wide);
    howdah_event_free(narrow);
    howdah_event_free(built);
    howdah_builder_free(b);
    return s;
}

static int append(stage *on, howdah_error *err)
{
    const howdah_event *both[] = {on->event, on->next};
    howdah_position positions[2] = {HOWDAH_POSITION_INIT};

    return howdah_append_batch(on->bus, both, 2, NULL, positions, err);
}

static int on_tree(void *ctx, int depth, const howdah_event *event)
{
    (void)ctx;
    (void)depth;
    (void)event;
    return 0;
}

static int read(stage *on, howdah_error *err)
{
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    howdah_event *found = NULL;
    int s;

    o.pattern = "order.*";
    s = howdah_reader_open(on->bus, &o, &reader, err);
    while (s == HOWDAH_OK)
        s = howdah_reader_next(reader, &event, err);
    howdah_reader_close(reader);
    if (s >= 0)
        s = howdah_event_get(on->bus, on->id, &found, err);
    howdah_event_free(found);
    found = NULL;
    if (s >= 0)
        s = howdah_event_get_last(on->bus, "s", &found, err);
    howdah_event_free(found);
    return s < 0 ? s : howdah_causation_walk(on->bus, on->id, on_tree, NULL, err);
}

static int tail(stage *on, howdah_error *err)
{
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_tail *handle = NULL;
    howdah_place *place = NULL;
    char text[HOWDAH_PLACE_SIZE];
    const howdah_event *event = NULL;
    int s;

    o.since = 0;
    s = howdah_tail_open(on->bus, &o, &handle, err);
    if (s >= 0)
        s = howdah_tail_next(handle, 0, &event, err);
    if (s >= 0)
        s = howdah_tail_place(handle, text, sizeof text, err);
    howdah_tail_close(handle);
    handle = NULL;
    if (s >= 0)
        s = howdah_place_new("1.9.0.0.1.0.2.1", &place, err);
    howdah_place_free(place);
    o.since = HOWDAH_ABSENT;
    o.stream = "s";
    o.place = text;
    if (s >= 0)
        s = howdah_tail_open(on->bus, &o, &handle, err);
    if (s >= 0)
        s = howdah_tail_next(handle, 0, &event, err);
    howdah_tail_close(handle);
    return s < 0 ? s : HOWDAH_OK;
}

static int on_fact(void *ctx, const howdah_fact *fact)
{
    (void)ctx;
    (void)fact;
    return 0;
}

static int on_finding(void *ctx, const howdah_finding *finding)
{
    (void)ctx;
    (void)finding;
    return 0;
}

static int on_step(void *ctx, const howdah_migration_info *step)
{
    (void)ctx;
    (void)step;
    return 0;
}

static int look(stage *on, howdah_error *err)
{
    int s = howdah_facts_walk(on->bus, on_fact, NULL, err);

    if (s >= 0)
        s = howdah_migrations_walk(on->bus, on_step, NULL, err);
    if (s >= 0)
        s = howdah_verify(on->bus, on_finding, NULL, err);
    return s < 0 ? s : howdah_doctor("sqlite::memory:", NULL, on_finding, NULL, err);
}

/* -------------------------------------------------------------- subscriptions */

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    stage *on = ctx;

    (void)event;
    on->handled++;
    /* Whatever it had to do with its own bus may fail, too. */
    return howdah_append(on->bus, on->next, NULL, NULL, NULL) < 0
               ? howdah_delivery_fail(delivery, "no memory")
               : HOWDAH_HANDLED;
}

static int on_subscription(void *ctx, const howdah_subscription_info *info)
{
    (void)ctx;
    (void)info;
    return 0;
}

static int on_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    (void)ctx;
    (void)dead_letter;
    return 0;
}

static int serve(stage *on, howdah_checkpoint_mode mode, howdah_error *err)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    int s;

    o.subscriber_id = "p";
    o.pattern = "order.>";
    o.handler = on_event;
    o.ctx = on;
    o.checkpoint = mode;
    o.retry_delay_ms = 1;
    o.lease_ms = 1000; /* of an owner that could not be told that it is one */
    s = howdah_subscribe(on->bus, &o, &sub, err);
    if (s >= 0)
        s = howdah_subscription_wait(sub, 10000, err);
    if (s == HOWDAH_END || (s >= 0 && on->handled == 0))
        fail_msg("%d handled, %s", on->handled, howdah_status_name(s));
    return s;
}

static int subscribe(stage *on, howdah_error *err)
{
    return serve(on, HOWDAH_CHECKPOINT_SYNC, err);
}

static int subscribe_in_transactions(stage *on, howdah_error *err)
{
    return serve(on, HOWDAH_CHECKPOINT_TRANSACTIONAL, err);
}

static int never(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    return howdah_delivery_fail(delivery, "never");
}

static int dead_letters(stage *on, howdah_error *err)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    int s;

    o.subscriber_id = "p";
    o.handler = never;
    o.max_retries = 0;
    o.retry_delay_ms = 1;
    o.lease_ms = 1000; /* of an owner that could not be told that it is one */
    s = howdah_subscribe(on->bus, &o, &sub, err);
    if (s >= 0)
        s = howdah_subscription_wait(sub, 10000, err);
    if (s == HOWDAH_END)
        fail_msg("it is not caught up");
    if (s >= 0)
        s = howdah_dead_letters_walk(on->bus, NULL, on_dead_letter, NULL, err);
    if (s >= 0)
        s = howdah_dead_letters_redrive(on->bus, NULL, 0, "p", NULL, err);
    if (s >= 0)
        s = howdah_subscription_pause(on->bus, "p", "because", err);
    if (s >= 0)
        s = howdah_subscriptions_walk(on->bus, NULL, on_subscription, NULL, err);
    if (s >= 0)
        s = howdah_subscription_reset(on->bus, "p", 0, err);
    return s < 0 ? s : howdah_unsubscribe(sub, err);
}

/* --------------------------------------------------------------------- queues */

static int on_queue(void *ctx, const howdah_queue_info *info)
{
    (void)ctx;
    (void)info;
    return 0;
}

static int on_logged(void *ctx, const howdah_job *job)
{
    (void)ctx;
    (void)job;
    return 0;
}

static int claim(stage *on, howdah_error *err)
{
    howdah_new_job job = HOWDAH_NEW_JOB_INIT;
    howdah_jobs *jobs = NULL;
    int s;

    job.key = "k";
    job.dedup = "d";
    s = howdah_queue_push(on->bus, "q", &job, NULL, err);
    if (s >= 0)
        s = howdah_queue_claim_wait(on->bus, "q", 2, 1, NULL, &jobs, err);
    for (size_t i = 0; s >= 0 && i < howdah_jobs_count(jobs); i++) {
        const howdah_job *one = howdah_jobs_at(jobs, i);

        (void)howdah_job_json(one, NULL, 0);
        s = i == 0
                ? howdah_job_complete(on->bus, howdah_job_id(one), howdah_job_token(one), "r", err)
                : howdah_job_fail(on->bus, howdah_job_id(one), howdah_job_token(one), "e", err);
    }
    howdah_jobs_free(jobs);
    if (s >= 0)
        s = howdah_queues_walk(on->bus, NULL, on_queue, NULL, err);
    return s < 0 ? s : howdah_queue_history_walk(on->bus, "q", NULL, on_logged, NULL, err);
}

static int poll(stage *on, howdah_error *err)
{
    howdah_job *job = NULL;
    howdah_job *shown = NULL;
    int s = howdah_queue_poll(on->bus, "q", &job, err);

    if (s == HOWDAH_OK)
        s = howdah_job_get(on->bus, howdah_job_id(job), &shown, err);
    howdah_job_free(shown);
    if (s == HOWDAH_OK)
        s = howdah_job_finalize(on->bus, howdah_job_id(job), false, err);
    howdah_job_free(job);
    return s < 0 ? s : howdah_queue_dead_letters_redrive(on->bus, "q", NULL, err);
}

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    (void)job;
    ((stage *)ctx)->handled++;
    return howdah_work_complete(work, "fine");
}

static int work(stage *on, howdah_error *err)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;
    int s;

    o.queue = "q";
    o.handler = on_job;
    o.ctx = on;
    o.lease_ms = 200; /* of a claim that could not be handed over */
    o.until_empty = true;
    s = howdah_worker_new(on->bus, &o, &worker, err);
    if (s >= 0)
        s = howdah_worker_run(worker, 10000, err);
    howdah_worker_free(worker);
    return s;
}

static int bind(stage *on, howdah_error *err)
{
    int s = howdah_queue_bind(on->bus, "bound", "order.*", NULL, err);

    if (s >= 0)
        s = howdah_bindings_serve(on->bus, NULL, err);
    if (s >= 0)
        s = howdah_run(on->bus, 1, err);
    return s < 0 ? s : howdah_queue_unbind(on->bus, "bound", "order.*", err);
}

/* ------------------------------------------------------------------ two times */

static int on_change(void *ctx, howdah_change change, const howdah_event *before,
                     const howdah_event *after)
{
    (void)ctx;
    (void)change;
    (void)before;
    (void)after;
    return 0;
}

static int on_stream(void *ctx, const char *stream)
{
    (void)ctx;
    (void)stream;
    return 0;
}

static int on_type(void *ctx, const howdah_type_stats *stats)
{
    (void)ctx;
    (void)stats;
    return 0;
}

static int correct(stage *on, howdah_error *err)
{
    howdah_correction c = HOWDAH_CORRECTION_INIT;
    howdah_query_options q = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_diff_options d = HOWDAH_DIFF_OPTIONS_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s;

    c.event_id = on->id;
    c.reason = "because";
    c.data = "{}";
    c.data_len = 2;
    d.known_at_us = 1;
    q.view = HOWDAH_VIEW_AS_OF;
    s = howdah_correct(on->bus, &c, NULL, err);
    if (s >= 0)
        s = howdah_query_open(on->bus, &q, &reader, err);
    while (s == HOWDAH_OK)
        s = howdah_reader_next(reader, &event, err);
    howdah_reader_close(reader);
    if (s >= 0)
        s = howdah_streams_walk(on->bus, NULL, on_stream, NULL, err);
    if (s >= 0)
        s = howdah_types_walk(on->bus, NULL, on_type, NULL, err);
    return s < 0 ? s : howdah_diff(on->bus, &d, on_change, NULL, NULL, err);
}

static int on_snapshot(void *ctx, const howdah_snapshot *one)
{
    (void)ctx;
    (void)one;
    return 0;
}

static int snapshot(stage *on, howdah_error *err)
{
    howdah_snapshot shot = HOWDAH_SNAPSHOT_INIT;
    howdah_snapshot *loaded = NULL;
    howdah_reader *reader = NULL;
    int s;

    shot.stream = "s";
    shot.version = 1;
    shot.data = "{}";
    shot.data_len = 2;
    s = howdah_snapshot_store(on->bus, &shot, 1, err);
    if (s >= 0)
        s = howdah_state_open(on->bus, "s", 0, &loaded, &reader, err);
    howdah_reader_close(reader);
    howdah_snapshot_free(loaded);
    return s < 0 ? s : howdah_snapshots_walk(on->bus, NULL, on_snapshot, NULL, err);
}

static int upcast_one(void *ctx, const howdah_event *event, howdah_upcast *to)
{
    (void)ctx;
    (void)event;
    howdah_upcast_set_json(to, "{\"upcast\":true}", 15);
    return HOWDAH_OK;
}

static int upcast(stage *on, howdah_error *err)
{
    int s = howdah_upcast_register(on->bus, "order.paid", 1, upcast_one, NULL, err);

    return s < 0 ? s : read(on, err);
}

static int on_purge(void *ctx, const howdah_purge_record *record)
{
    (void)ctx;
    (void)record;
    return 0;
}

static int purge(stage *on, howdah_error *err)
{
    howdah_purge_options o = HOWDAH_PURGE_OPTIONS_INIT;
    const char *ids[] = {on->id};
    int s;

    o.ids = ids;
    o.ids_n = 1;
    o.families = true;
    o.reason = "because";
    s = howdah_purge(on->bus, &o, NULL, err);
    return s < 0 ? s : howdah_purges_walk(on->bus, on_purge, NULL, err);
}

/* ------------------------------------------------------------------ publisher */

/* A file: a publisher is not for a log in memory. */
static char log_url[64];

static void make_log(void)
{
    static char dir[32];
    howdah_bus *bus = NULL;

    (void)snprintf(dir, sizeof dir, "/tmp/howdah-oom.XXXXXX");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(log_url, sizeof log_url, "sqlite:%s/log.db", dir);
    assert_int_equal(howdah_open(log_url, NULL, &bus, NULL), HOWDAH_OK);
    assert_int_equal(howdah_migrate(bus, NULL, NULL), HOWDAH_OK);
    assert_int_equal(howdah_close(bus), HOWDAH_OK);
}

static void remove_log(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[80];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        (void)snprintf(path, sizeof path, "%s%s", log_url + strlen("sqlite:"), suffixes[i]);
        (void)remove(path);
    }
    *strrchr(log_url, '/') = '\0';
    (void)remove(log_url + strlen("sqlite:"));
}

typedef struct told {
    int times;
    int status;
} told;

static void on_published(void *ctx, int status, const howdah_error *error)
{
    told *t = ctx;

    (void)error;
    t->times++;
    t->status = status;
}

/* Four submissions, so that some go together; the last words are known when it is freed. */
static int publish(stage *on, howdah_error *err)
{
    howdah_publisher *publisher = NULL;
    const howdah_event *const both[] = {on->event, on->next};
    told t = {0, HOWDAH_OK};
    int submitted = 0;
    int s = howdah_publisher_new(log_url, NULL, NULL, &publisher, err);

    for (int i = 0; s >= 0 && i < 4; i++) {
        s = howdah_publisher_submit(publisher, &both[i % 2], 1, NULL, NULL, on_published, &t, err);
        submitted += s >= 0;
    }
    if (s >= 0)
        s = howdah_publisher_append(publisher, both, 2, NULL, NULL, err);
    howdah_publisher_free(publisher);
    assert_int_equal(t.times, submitted);
    return s < 0 ? s : t.status;
}

#define SCARCE(run)                                                                                \
    static void run##_survives_that_an_allocation_fails(void **state)                              \
    {                                                                                              \
        (void)state;                                                                               \
        run_scarce(run, #run);                                                                     \
    }

SCARCE(open_another)
SCARCE(build)
SCARCE(append)
SCARCE(read)
SCARCE(tail)
SCARCE(look)
SCARCE(subscribe)
SCARCE(subscribe_in_transactions)
SCARCE(dead_letters)
SCARCE(claim)
SCARCE(poll)
SCARCE(work)
SCARCE(bind)
SCARCE(correct)
SCARCE(snapshot)
SCARCE(upcast)
SCARCE(purge)
SCARCE(publish)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(open_another_survives_that_an_allocation_fails),
        cmocka_unit_test(build_survives_that_an_allocation_fails),
        cmocka_unit_test(append_survives_that_an_allocation_fails),
        cmocka_unit_test(read_survives_that_an_allocation_fails),
        cmocka_unit_test(tail_survives_that_an_allocation_fails),
        cmocka_unit_test(look_survives_that_an_allocation_fails),
        cmocka_unit_test(subscribe_survives_that_an_allocation_fails),
        cmocka_unit_test(subscribe_in_transactions_survives_that_an_allocation_fails),
        cmocka_unit_test(dead_letters_survives_that_an_allocation_fails),
        cmocka_unit_test(claim_survives_that_an_allocation_fails),
        cmocka_unit_test(poll_survives_that_an_allocation_fails),
        cmocka_unit_test(work_survives_that_an_allocation_fails),
        cmocka_unit_test(bind_survives_that_an_allocation_fails),
        cmocka_unit_test(correct_survives_that_an_allocation_fails),
        cmocka_unit_test(snapshot_survives_that_an_allocation_fails),
        cmocka_unit_test(upcast_survives_that_an_allocation_fails),
        cmocka_unit_test(purge_survives_that_an_allocation_fails),
        cmocka_unit_test(publish_survives_that_an_allocation_fails),
    };
    int failed;

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    make_log();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    remove_log();
    return failed;
}
