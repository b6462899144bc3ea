/*
 * test_pg_large.c - what large payloads cost a process: it never has more of them than a few pages.
 *
 * What a process needs is measured in a process of its own: the most that it ever had, by the
 * kernel, and what is in use at its end, by the allocator.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <howdah/howdah_queue.h>
#include <howdah/howdah_times.h>

#include "test_pg_help.h"

#define SMALL 1500
#define BURST 200 /* once; elsewhere */
#define LARGE 80
#define MEGABYTE 1000000
#define PEAK_KIB (60 * 1024) /* less than LARGE events, more than twice what is needed */
#define REST_KIB (24 * 1024)
#define MINUTE_MS 60000

/* What the process found, and needed. */
typedef struct measure {
    long events;
    long long bytes;
    long peak_kib;
    long rest_kib;
} measure;

static void fill_in(measure *m)
{
    struct rusage usage;
    struct mallinfo2 info = mallinfo2();

    (void)getrusage(RUSAGE_SELF, &usage);
    m->peak_kib = usage.ru_maxrss;
    m->rest_kib = (long)((info.uordblks + info.hblkhd) / 1024);
}

/* Runs it in a process of its own. */
static measure measured(const pgt *t, void (*run)(const pgt *t, howdah_bus *bus, measure *m))
{
    measure m = {0};
    int ends[2];
    int status = 0;
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        howdah_bus *bus = pgt_open(t, t->url);

        run(t, bus, &m);
        fill_in(&m);
        _exit(write(ends[1], &m, sizeof m) == (ssize_t)sizeof m ? 0 : 1);
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &m, sizeof m), sizeof m);
    (void)close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    return m;
}

static void is_bounded(measure m, long events, long long bytes)
{
    print_message("# %ld events, %lld bytes: at most %ld KiB, at the end %ld KiB\n", m.events,
                  m.bytes, m.peak_kib, m.rest_kib);
    assert_int_equal(m.events, events);
    assert_int_equal(m.bytes, bytes);
    assert_true(m.peak_kib < PEAK_KIB);
    assert_true(m.rest_kib < REST_KIB);
}

/* Small events, so that pages are as long as they get; all payloads are "x...x" of n letters. */
static void put_small(const pgt *t)
{
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data)"
            " SELECT 'small', i, 'large.test', '\"x\"' FROM generate_series(1, %d) AS i",
            SMALL);
}

/* Where the server can: the usual way to compress takes most of the time here, and is not ours. */
static void compress_quickly(const pgt *t)
{
    PQclear(pgt_result(t, t->admin, "SET default_toast_compression = lz4"));
}

/* One transaction: they are there all at once.  On disk they are 100 times smaller, or as large. */
static void put_large(const pgt *t, int n, bool compressed)
{
    compress_quickly(t);
    pgt_run(t, t->admin, "ALTER TABLE {events} ALTER data SET STORAGE %s",
            compressed ? "EXTENDED" : "EXTERNAL");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data)"
            " SELECT 'large', i, 'large.test', ('\"' || repeat('x', %d) || '\"')::json"
            " FROM generate_series(1, %d) AS i",
            MEGABYTE, n);
}

#define ALL_BYTES(large) (3LL * SMALL + (MEGABYTE + 2LL) * (large))

static void count(measure *m, const howdah_event *event)
{
    size_t n = 0;

    (void)howdah_event_data(event, &n);
    m->events++;
    m->bytes += (long long)n;
}

/* ---- subscriptions */

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)delivery;
    count(ctx, event);
    return HOWDAH_OK;
}

static howdah_subscription *subscribe(howdah_bus *bus, int64_t start, measure *m)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = "me";
    o.start = start;
    o.catch_up_batch = 1000;
    o.handler = on_event;
    o.ctx = m;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
    return sub;
}

static void serve(howdah_bus *bus, const measure *m, long events)
{
    int64_t until = pgt_now_ms() + MINUTE_MS;
    bool worked = true;

    while (m->events < events || worked) {
        assert_true(pgt_now_ms() < until);
        pgt_ok(howdah_service(bus, &worked, &pgt_error));
    }
}

static void at_the_head(const pgt *t, howdah_bus *bus, measure *m, int n, bool compressed)
{
    pgt mine = *t;

    mine.admin = pgt_session(t->url); /* a session belongs to one process */
    (void)subscribe(bus, HOWDAH_FROM_END, m);
    serve(bus, m, 0);
    put_small(&mine);
    serve(bus, m, SMALL);
    put_large(&mine, n, compressed);
    serve(bus, m, SMALL + n);
}

static void at_the_head_compressed(const pgt *t, howdah_bus *bus, measure *m)
{
    at_the_head(t, bus, m, BURST, true);
}

static void at_the_head_as_large(const pgt *t, howdah_bus *bus, measure *m)
{
    at_the_head(t, bus, m, LARGE, false);
}

static void behind(const pgt *t, howdah_bus *bus, measure *m)
{
    (void)t;
    (void)subscribe(bus, HOWDAH_FROM_START, m);
    serve(bus, m, SMALL + LARGE);
}

static void a_subscriber_keeps_no_more_than_some_pages_of_a_burst_and_none_at_rest(void **state)
{
    is_bounded(measured(*state, at_the_head_compressed), SMALL + BURST, ALL_BYTES(BURST));
}

static void so_it_does_when_payloads_are_as_large_on_disk(void **state)
{
    is_bounded(measured(*state, at_the_head_as_large), SMALL + LARGE, ALL_BYTES(LARGE));
}

static void a_subscriber_that_is_behind_reads_pages_that_are_bounded(void **state)
{
    put_small(*state);
    put_large(*state, LARGE, true);
    is_bounded(measured(*state, behind), SMALL + LARGE, ALL_BYTES(LARGE));
}

/* ---- reading */

static void take_all(howdah_reader *reader, measure *m)
{
    const howdah_event *event = NULL;
    int s;

    while ((s = howdah_reader_next(reader, &event, &pgt_error)) == HOWDAH_OK)
        count(m, event);
    pgt_ok(s);
    howdah_reader_close(reader);
}

static void read_log(const pgt *t, howdah_bus *bus, measure *m)
{
    howdah_reader *reader = NULL;

    (void)t;
    pgt_ok(howdah_reader_open(bus, NULL, &reader, &pgt_error));
    take_all(reader, m);
}

static void read_backward(const pgt *t, howdah_bus *bus, measure *m)
{
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    howdah_reader *reader = NULL;

    (void)t;
    o.pattern = "large.*";
    o.backward = true;
    pgt_ok(howdah_reader_open(bus, &o, &reader, &pgt_error));
    take_all(reader, m);
}

static void ask(howdah_bus *bus, measure *m, howdah_order order)
{
    howdah_query_options o = HOWDAH_QUERY_OPTIONS_INIT;
    howdah_reader *reader = NULL;

    o.order = order;
    pgt_ok(howdah_query_open(bus, &o, &reader, &pgt_error));
    take_all(reader, m);
}

static void query_by_sequence(const pgt *t, howdah_bus *bus, measure *m)
{
    (void)t;
    ask(bus, m, HOWDAH_ORDER_SEQUENCE);
}

static void query_by_time(const pgt *t, howdah_bus *bus, measure *m)
{
    (void)t;
    ask(bus, m, HOWDAH_ORDER_VALID);
}

/* The same through the functions: a role that may read, and nothing else. */
static void read_by_function(const pgt *t, howdah_bus *bus, measure *m)
{
    char url[2048];

    (void)bus;
    (void)snprintf(url, sizeof url, "postgres://large_reader@/%s?host=%s&port=%s", PQdb(t->admin),
                   PQhost(t->admin), PQport(t->admin));
    read_log(t, pgt_open(t, url), m);
}

static void whoever_reads_has_no_more_than_two_pages(void **state)
{
    pgt *t = *state;

    put_small(t);
    put_large(t, LARGE, true);
    is_bounded(measured(t, read_log), SMALL + LARGE, ALL_BYTES(LARGE));
    is_bounded(measured(t, read_backward), SMALL + LARGE, ALL_BYTES(LARGE));
    is_bounded(measured(t, query_by_sequence), SMALL + LARGE, ALL_BYTES(LARGE));
    is_bounded(measured(t, query_by_time), SMALL + LARGE, ALL_BYTES(LARGE));
    pgt_run(t, t->admin, "CREATE ROLE large_reader LOGIN; GRANT {_read} TO large_reader");
    is_bounded(measured(t, read_by_function), SMALL + LARGE, ALL_BYTES(LARGE));
    pgt_run(t, t->admin, "DROP ROLE large_reader");
}

/* Sizes of all kinds side by side: nothing is lost, nothing comes twice, the order is kept. */
static void pages_that_are_cut_lose_nothing(void **state)
{
    pgt *t = *state;
    measure m = {0};
    int64_t bytes;
    howdah_bus *bus = pgt_open(t, t->url);

    pgt_run(
        t, t->admin,
        "INSERT INTO {events} (stream, version, type, data, bytes, content_type)"
        " SELECT 'mixed', i, CASE WHEN i %% 3 = 0 THEN 'a.b' ELSE 'a.c' END,"
        " CASE WHEN i %% 5 > 0 AND i <> 777 THEN ('\"' || repeat(md5(i::text), 1 + CASE"
        "  WHEN i %% 100 = 7 THEN 30000 WHEN i %% 37 = 0 THEN 500 WHEN i %% 11 = 0 THEN 50 ELSE 0"
        "  END) || '\"')::json END,"
        " CASE WHEN i %% 5 = 0 THEN decode(repeat(md5(i::text), 1 + CASE WHEN i %% 50 = 0"
        "  THEN 20000 ELSE 3 END), 'hex') END,"
        " CASE WHEN i %% 5 = 0 THEN 'application/octet-stream' END"
        " FROM generate_series(1, 3000) AS i");
    bytes = pgt_number(t, t->admin,
                       "SELECT sum(coalesce(octet_length(data::text), octet_length(bytes), 4))"
                       " FROM {events}");
    read_log(t, bus, &m);
    assert_int_equal(m.events, 3000);
    assert_int_equal(m.bytes, bytes);
    m = (measure){0};
    read_backward(t, bus, &m);
    assert_int_equal(m.events, 0);
    m = (measure){0};
    query_by_time(t, bus, &m);
    assert_int_equal(m.events, 3000);
    assert_int_equal(m.bytes, bytes);
    m = (measure){0};
    (void)subscribe(bus, HOWDAH_FROM_START, &m);
    serve(bus, &m, 2999); /* one has no payload at all: a dead letter */
    assert_int_equal(m.events, 2999);
    assert_int_equal(m.bytes, bytes - 4);
    howdah_close(bus);
}

/* ---- jobs */

#define JOBS 80

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    measure *m = ctx;
    size_t n = 0;

    (void)work;
    (void)howdah_job_data(job, &n);
    m->events++;
    m->bytes += (long long)n;
    return howdah_job_attempt(job) == 1 ? HOWDAH_WORK_DONE : HOWDAH_WORK_FAILED;
}

static void work(howdah_bus *bus, measure *m, int64_t threads)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;

    o.queue = "mail";
    o.handler = on_job;
    o.ctx = m;
    o.threads = threads;
    o.batch = JOBS;
    o.until_empty = true;
    pgt_ok(howdah_worker_new(bus, &o, &worker, &pgt_error));
    assert_int_equal(howdah_worker_run(worker, MINUTE_MS, &pgt_error), HOWDAH_END);
    howdah_worker_free(worker);
}

static void work_alone(const pgt *t, howdah_bus *bus, measure *m)
{
    (void)t;
    work(bus, m, 0);
}

static void work_in_a_thread(const pgt *t, howdah_bus *bus, measure *m)
{
    (void)t;
    work(bus, m, 1);
}

static void push_large(const pgt *t)
{
    compress_quickly(t);
    pgt_run(t, t->admin,
            "SELECT count(*) FROM {push_batch}('mail', (SELECT array_agg(('\"' || repeat('x', %d)"
            " || '\"')::json) FROM generate_series(1, %d)))",
            MEGABYTE, JOBS);
}

static void a_worker_has_no_more_than_some_large_jobs_however_many_it_may_take(void **state)
{
    pgt *t = *state;
    static void (*const ways[])(const pgt *, howdah_bus *, measure *) = {work_alone,
                                                                         work_in_a_thread};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        push_large(t);
        is_bounded(measured(t, ways[i]), JOBS, (MEGABYTE + 2LL) * JOBS);
    }
    assert_int_equal(pgt_number(t, t->admin,
                                "SELECT count(*) FROM {event_log} WHERE NOT failed"
                                " AND attempts = 1"),
                     2 * JOBS);
}

/* Letters carry whole events. */
static int count_dead_letter(void *ctx, const howdah_dead_letter *dead_letter)
{
    count(ctx, dead_letter->event);
    return 0;
}

static void list_dead_letters(const pgt *t, howdah_bus *bus, measure *m)
{
    (void)t;
    pgt_ok(howdah_dead_letters_walk(bus, NULL, count_dead_letter, m, &pgt_error));
}

static void dead_letters_are_listed_in_pages_that_are_bounded(void **state)
{
    pgt *t = *state;

    compress_quickly(t);
    pgt_run(t, t->admin,
            "INSERT INTO {dead_letters} (subscriber_id, error_message, retry_count, created_at,"
            " last_retry_at, global_sequence, event_id, stream, version, type, revision,"
            " schema_version, recorded_at, data)"
            " SELECT 'me', 'no', 1, now(), now(), i, gen_random_uuid(), 's', i, 'large.test', 1, 1,"
            " now(),"
            " ('\"' || repeat('x', CASE WHEN i <= 150 THEN 1 ELSE %d END) || '\"')::json"
            " FROM generate_series(1, 230) AS i",
            MEGABYTE);
    is_bounded(measured(t, list_dead_letters), 230, 150 * 3 + (MEGABYTE + 2LL) * 80);
}

static int count_job(void *ctx, const howdah_job *job)
{
    measure *m = ctx;
    size_t n = 0;

    (void)howdah_job_data(job, &n);
    m->events++;
    m->bytes += (long long)n;
    return 0;
}

static void list_history(const pgt *t, howdah_bus *bus, measure *m)
{
    howdah_queue_history_options o = HOWDAH_QUEUE_HISTORY_OPTIONS_INIT;

    (void)t;
    o.payload = true;
    pgt_ok(howdah_queue_history_walk(bus, "mail", &o, count_job, m, &pgt_error));
}

static void the_history_is_listed_in_pages_that_are_bounded(void **state)
{
    pgt *t = *state;
    measure m = {0};
    howdah_bus *bus = pgt_open(t, t->url);

    push_large(t);
    work(bus, &m, 0);
    howdah_close(bus);
    is_bounded(measured(t, list_history), JOBS, (MEGABYTE + 2LL) * JOBS);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_subscriber_keeps_no_more_than_some_pages_of_a_burst_and_none_at_rest),
    PGT_TEST(so_it_does_when_payloads_are_as_large_on_disk),
    PGT_TEST(a_subscriber_that_is_behind_reads_pages_that_are_bounded),
    PGT_TEST(whoever_reads_has_no_more_than_two_pages),
    PGT_TEST(pages_that_are_cut_lose_nothing),
    PGT_TEST(dead_letters_are_listed_in_pages_that_are_bounded),
    PGT_TEST(a_worker_has_no_more_than_some_large_jobs_however_many_it_may_take),
    PGT_TEST(the_history_is_listed_in_pages_that_are_bounded),
};

PGT_MAIN("pg large", tests)
