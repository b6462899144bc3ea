/* test_bindings.c - events become jobs: binding, routing, replaying, workers that share them. */
#include <libpq-fe.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bus/bus.h"
#include "flaky.h"
#include "queue_help.h"

/* ---- what the tests are made of */

static void bind_to(howdah_bus *bus, const char *queue, const char *pattern, int64_t start,
                    howdah_binding_key key)
{
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;
    int s;

    o.start = start;
    o.key = key;
    s = howdah_queue_bind(bus, queue, pattern, &o, &cf_error);
    if (s != HOWDAH_OK)
        fail_msg("%s: %s", howdah_status_name(s), cf_error.message);
}

typedef struct place {
    char queue[300];
    char pattern[300];
    char subscriber_id[300];
    char owner[128];
    howdah_binding_info info; /* its texts are gone */
    int64_t lag;              /* of all */
    int n;
} place;

static int keep_place(void *ctx, const howdah_binding_info *info)
{
    place *p = ctx;

    p->info = *info;
    (void)snprintf(p->queue, sizeof p->queue, "%s", info->queue);
    (void)snprintf(p->pattern, sizeof p->pattern, "%s", info->pattern);
    (void)snprintf(p->subscriber_id, sizeof p->subscriber_id, "%s", info->subscriber_id);
    (void)snprintf(p->owner, sizeof p->owner, "%s", info->owner);
    p->lag += info->lag;
    p->n++;
    return 0;
}

static place find(howdah_bus *bus, const char *queue)
{
    place p = {.n = 0};

    cf_ok(howdah_bindings_walk(bus, queue, keep_place, &p, &cf_error));
    return p;
}

/* Serves the bus until every router has seen the log's head. */
static void route_all(howdah_bus *bus)
{
    int64_t until = hw_clock_mono_ms() + 10000;

    cf_ok(howdah_bindings_serve(bus, NULL, &cf_error));
    do {
        assert_true(hw_clock_mono_ms() < until);
        cf_ok(howdah_run(bus, 20, &cf_error));
    } while (find(bus, NULL).lag > 0);
}

/* Five events: order.made 1, user.made 2, order.paid 3, order.made 4 (of s2), order.line.made 5. */
static void fill(howdah_bus *bus)
{
    (void)cf_append(bus, "s1", "order.made", "{\"n\":1}");
    (void)cf_append(bus, "u", "user.made", "{\"n\":2}");
    (void)cf_append(bus, "s1", "order.paid", "{\"n\":3}");
    (void)cf_append(bus, "s2", "order.made", "{\"n\":4}");
    (void)cf_append(bus, "s1", "order.line.made", "{\"n\":5}");
}

/* The events that the queue's jobs were made of, in the order of their claims; each is completed.
 */
static const char *drain(howdah_bus *bus, const char *queue)
{
    static char text[512];
    howdah_jobs *jobs;

    text[0] = '\0';
    while ((jobs = q_claim(bus, queue, 1, 0)) != NULL) {
        const howdah_job *job = howdah_jobs_at(jobs, 0);
        size_t len = strlen(text);

        (void)snprintf(text + len, sizeof text - len, "%s%lld", len > 0 ? " " : "",
                       (long long)howdah_job_event_sequence(job));
        cf_ok(howdah_job_complete(bus, howdah_job_id(job), howdah_job_token(job), NULL, &cf_error));
        howdah_jobs_free(jobs);
    }
    return text;
}

/* ---- routing */

static void events_that_match_become_jobs_once_and_in_log_order(void **state)
{
    cf *c = *state;

    bind_to(c->bus, "orders", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    bind_to(c->bus, "all", ">", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    fill(c->bus);
    route_all(c->bus);
    route_all(c->bus);
    assert_text(drain(c->bus, "orders"), "1 3 4");
    assert_text(drain(c->bus, "all"), "1 2 3 4 5");
    route_all(c->bus);
    assert_text(q_counts(c->bus, "orders"), "0 0 0 3 0");
    (void)cf_append(c->bus, "s1", "order.made", "{\"n\":6}");
    route_all(c->bus);
    assert_text(drain(c->bus, "orders"), "6");
}

static void a_job_tells_the_event_it_was_made_of(void **state)
{
    cf *c = *state;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    howdah_jobs *jobs;
    const howdah_job *job;
    char uuid[HOWDAH_UUID_SIZE];
    char id[HOWDAH_UUID_SIZE];
    char json[2048];

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, "s1");
    howdah_builder_set_type(b, "order.made");
    howdah_builder_set_json(b, "{\"n\":1}", 7);
    howdah_builder_add_header(b, "h", "x");
    howdah_builder_set_correlation(b, "c-1");
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    howdah_builder_free(b);
    (void)cf_append_event(c->bus, event);
    howdah_event_id(event, id);
    howdah_event_free(event);
    bind_to(c->bus, "q", "order.made", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    route_all(c->bus);
    jobs = q_claim(c->bus, "q", 10, 0);
    assert_int_equal(howdah_jobs_count(jobs), 1);
    job = howdah_jobs_at(jobs, 0);
    assert_text(howdah_job_data(job, NULL), "{\"n\":1}");
    assert_text(howdah_job_headers(job, NULL), "{\"h\":\"x\"}");
    assert_text(howdah_job_correlation(job), "c-1");
    assert_true(howdah_job_causation(job, uuid));
    assert_string_equal(uuid, id);
    assert_text(howdah_job_key(job), "s1");
    assert_int_equal(howdah_job_event_sequence(job), 1);
    assert_text(howdah_job_event_type(job), "order.made");
    assert_text(howdah_job_event_stream(job), "s1");
    assert_true(howdah_job_json(job, json, sizeof json) < sizeof json);
    assert_non_null(
        strstr(json, "\"event_sequence\":1,\"type\":\"order.made\",\"stream\":\"s1\","));
    howdah_jobs_free(jobs);
}

static void a_binding_starts_where_it_is_told(void **state)
{
    cf *c = *state;

    fill(c->bus);
    bind_to(c->bus, "end", ">", HOWDAH_FROM_END, HOWDAH_KEY_NONE);
    bind_to(c->bus, "three", ">", 3, HOWDAH_KEY_NONE);
    (void)cf_append(c->bus, "s1", "order.made", "{\"n\":6}");
    route_all(c->bus);
    assert_text(drain(c->bus, "end"), "6");
    assert_text(drain(c->bus, "three"), "4 5 6");
}

static void replay_makes_jobs_of_the_same_events_again(void **state)
{
    cf *c = *state;

    fill(c->bus);
    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    route_all(c->bus);
    assert_text(drain(c->bus, "q"), "1 3 4");
    cf_ok(howdah_binding_replay(c->bus, "q", "order.*", 1, &cf_error));
    route_all(c->bus);
    assert_text(drain(c->bus, "q"), "3 4");
    assert_int_equal(howdah_binding_replay(c->bus, "q", "user.*", 1, &cf_error), HOWDAH_NOT_FOUND);
    assert_int_equal(howdah_binding_replay(c->bus, "q", "order.*", 99, &cf_error), HOWDAH_INVALID);
}

static void unbind_stops_new_jobs_and_leaves_those_that_exist(void **state)
{
    cf *c = *state;

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    bind_to(c->bus, "other", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    fill(c->bus);
    route_all(c->bus);
    cf_ok(howdah_queue_unbind(c->bus, "q", "order.*", &cf_error));
    (void)cf_append(c->bus, "s1", "order.made", "{\"n\":6}");
    route_all(c->bus);
    assert_text(q_counts(c->bus, "q"), "3 0 0 0 0");
    assert_text(drain(c->bus, "other"), "1 3 4 6");
    assert_int_equal(find(c->bus, "q").n, 0);
    assert_int_equal(howdah_queue_unbind(c->bus, "q", "order.*", &cf_error), HOWDAH_NOT_FOUND);
    /* Bound anew, with another key, it begins where it is told. */
    bind_to(c->bus, "q", "order.*", 5, HOWDAH_KEY_STREAM);
    route_all(c->bus);
    assert_text(drain(c->bus, "q"), "1 3 4 6");
}

static void a_binding_that_comes_while_the_bus_is_served_is_noticed(void **state)
{
    cf *c = *state;
    howdah_bus *other = cf_open(c);
    int64_t until = hw_clock_mono_ms() + 5000;

    fill(c->bus);
    cf_ok(howdah_bindings_serve(c->bus, "q", &cf_error));
    cf_ok(howdah_run(c->bus, 50, &cf_error));
    bind_to(other, "q", "user.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    bind_to(other, "p", "user.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    do {
        assert_true(hw_clock_mono_ms() < until);
        cf_ok(howdah_run(c->bus, 100, &cf_error));
    } while (q_info(other, "q").pending == 0);
    assert_text(q_counts(other, "p"), "0 0 0 0 0"); /* not served here */
    howdah_close(other);
}

static void another_bus_goes_on_when_the_one_that_routes_is_closed(void **state)
{
    cf *c = *state;
    howdah_bus *first = cf_open(c);
    char owner[128];

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    fill(c->bus);
    route_all(first);
    (void)snprintf(owner, sizeof owner, "%s", find(c->bus, "q").owner);
    cf_ok(howdah_bindings_serve(c->bus, NULL, &cf_error));
    cf_ok(howdah_run(c->bus, 50, &cf_error));
    assert_text(find(c->bus, "q").owner, owner); /* it stands by */
    howdah_close(first);
    (void)cf_append(c->bus, "s1", "order.made", "{\"n\":6}");
    route_all(c->bus);
    assert_true(strcmp(find(c->bus, "q").owner, owner) != 0);
    assert_text(drain(c->bus, "q"), "1 3 4 6");
}

static void a_router_that_fails_and_tries_again_doubles_nothing(void **state)
{
    static const hw_flaky_mode modes[] = {HW_FLAKY_BEFORE, HW_FLAKY_BEFORE_UNKNOWN, HW_FLAKY_AFTER};
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);

    cf_ok(hw_flaky_open(bus->store, &bus->store, &cf_error));
    bind_to(bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    route_all(bus);
    for (size_t i = 0; i < 3; i++) {
        fill(bus);
        hw_flaky_plan_op(bus->store, HW_FLAKY_OP_ROUTE, 1, modes[i]);
        route_all(bus);
        assert_false(hw_flaky_pending(bus->store));
    }
    assert_text(drain(bus, "q"), "1 3 4 6 8 9 11 13 14");
    howdah_close(bus);
}

/* A transaction on a connection of its own, PostgreSQL only. */
static PGconn *begin_append(const cf *c, const char *stream, const char *type)
{
    PGconn *conn = PQconnectdb(c->admin_url);
    char *schema = PQescapeIdentifier(conn, c->schema, strlen(c->schema));
    char sql[300];
    PGresult *result;

    assert_int_equal(PQstatus(conn), CONNECTION_OK);
    PQclear(PQexec(conn, "BEGIN"));
    (void)snprintf(sql, sizeof sql, "SELECT %s.append('%s', '%s', '{}')", schema, stream, type);
    result = PQexec(conn, sql);
    assert_int_equal(PQresultStatus(result), PGRES_TUPLES_OK);
    PQclear(result);
    PQfreemem(schema);
    return conn;
}

static void end_append(PGconn *conn, const char *how)
{
    PQclear(PQexec(conn, how));
    PQfinish(conn);
}

/* Serves the bus until the queue has so many jobs that are due. */
static void route_until(howdah_bus *bus, const char *queue, int64_t pending)
{
    int64_t until = hw_clock_mono_ms() + 10000;

    cf_ok(howdah_bindings_serve(bus, NULL, &cf_error));
    while (q_info(bus, queue).pending < pending) {
        assert_true(hw_clock_mono_ms() < until);
        cf_ok(howdah_run(bus, 20, &cf_error));
    }
}

static void an_event_that_commits_late_becomes_a_job_when_it_appears(void **state)
{
    cf *c = *state;
    PGconn *late;
    PGconn *never;

    if (!cf_is_pg())
        return; /* numbers appear in order */
    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    (void)cf_append(c->bus, "s1", "order.made", "{}");
    late = begin_append(c, "s2", "order.made");
    never = begin_append(c, "s3", "order.made");
    (void)cf_append(c->bus, "s1", "order.paid", "{}");
    (void)cf_append(c->bus, "s4", "order.made", "{}");
    route_until(c->bus, "q", 2); /* s1 and s4: the second one of s1 waits for the first */
    assert_text(q_counts(c->bus, "q"), "2 0 1 0 0");
    end_append(late, "COMMIT");
    end_append(never, "ROLLBACK");
    route_until(c->bus, "q", 3);
    route_all(c->bus);
    assert_text(q_counts(c->bus, "q"), "3 0 1 0 0");
    assert_text(drain(c->bus, "q"), "1 4 5 2");
}

/* ---- what is refused */

static void binding_again_is_no_error_and_another_key_is_a_conflict(void **state)
{
    cf *c = *state;
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;

    fill(c->bus);
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", NULL, &cf_error), HOWDAH_OK);
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", NULL, &cf_error), HOWDAH_END);
    o.start = HOWDAH_FROM_END;
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", &o, &cf_error), HOWDAH_END);
    o.key = HOWDAH_KEY_NONE;
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", &o, &cf_error), HOWDAH_CONFLICT);
    assert_int_equal(find(c->bus, NULL).n, 1);
    assert_int_equal(find(c->bus, NULL).info.high, 0);
}

static void a_bad_binding_is_refused_and_makes_no_queue(void **state)
{
    cf *c = *state;
    howdah_bind_options o = HOWDAH_BIND_OPTIONS_INIT;

    assert_int_equal(howdah_queue_bind(c->bus, "q", "order..made", NULL, &cf_error),
                     HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "pattern");
    assert_int_equal(howdah_queue_bind(c->bus, "q", "", NULL, &cf_error), HOWDAH_INVALID);
    assert_int_equal(howdah_queue_bind(c->bus, "q", NULL, NULL, &cf_error), HOWDAH_MISUSE);
    assert_int_equal(howdah_queue_bind(c->bus, "", "order.*", NULL, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "queue");
    o.start = 1;
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", &o, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "start");
    o.start = -2;
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", &o, &cf_error), HOWDAH_INVALID);
    o = (howdah_bind_options)HOWDAH_BIND_OPTIONS_INIT;
    o.key = (howdah_binding_key)3;
    assert_int_equal(howdah_queue_bind(c->bus, "q", "order.*", &o, &cf_error), HOWDAH_INVALID);
    assert_string_equal(cf_error.field, "key");
    assert_int_equal(howdah_queue_unbind(c->bus, "q", "a..b", &cf_error), HOWDAH_INVALID);
    assert_int_equal(howdah_bindings_serve(c->bus, "", &cf_error), HOWDAH_INVALID);
    assert_int_equal(howdah_queues_walk(c->bus, "q", q_keep_info, &(howdah_queue_info){0}, NULL),
                     HOWDAH_NOT_FOUND);
    assert_int_equal(find(c->bus, NULL).n, 0);
}

static void a_binding_tells_where_it_is(void **state)
{
    cf *c = *state;
    place p;

    fill(c->bus);
    bind_to(c->bus, "q", "order.*", 2, HOWDAH_KEY_CORRELATION);
    p = find(c->bus, "q");
    assert_string_equal(p.queue, "q");
    assert_string_equal(p.pattern, "order.*");
    assert_string_equal(p.subscriber_id, "queue:q:order.*");
    assert_string_equal(p.owner, "");
    assert_int_equal(p.info.key, HOWDAH_KEY_CORRELATION);
    assert_string_equal(howdah_binding_key_name(p.info.key), "correlation");
    assert_int_equal(p.info.state, HOWDAH_SUBSCRIPTION_WAITING);
    assert_int_equal(p.info.high, 2);
    assert_int_equal(p.info.head, 5);
    assert_int_equal(p.info.lag, 3);
    assert_true(p.info.created_at_us > 0);
    route_all(c->bus);
    p = find(c->bus, "q");
    assert_int_equal(p.info.high, 5);
    assert_int_equal(p.info.lag, 0);
    assert_int_equal(p.info.state, HOWDAH_SUBSCRIPTION_LIVE);
    cf_ok(howdah_subscription_pause(c->bus, p.subscriber_id, "not now", &cf_error));
    assert_int_equal(find(c->bus, "q").info.state, HOWDAH_SUBSCRIPTION_PAUSED);
}

static void long_names_are_told_apart(void **state)
{
    cf *c = *state;
    char queue[256];
    char patterns[2][256];
    char names[2][300];

    memset(queue, 'q', 255);
    queue[255] = '\0';
    for (int i = 0; i < 2; i++) {
        memset(patterns[i], 'p', 255);
        patterns[i][254] = i == 0 ? 'a' : 'b';
        patterns[i][255] = '\0';
        bind_to(c->bus, queue, patterns[i], HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
        (void)snprintf(names[i], sizeof names[i], "%s", find(c->bus, queue).subscriber_id);
        assert_int_equal(strlen(names[i]), 255);
    }
    assert_string_not_equal(names[0], names[1]);
    (void)cf_append(c->bus, "s", patterns[1], "{}");
    route_all(c->bus);
    assert_text(drain(c->bus, queue), "1");
    cf_ok(howdah_queue_unbind(c->bus, queue, patterns[0], &cf_error));
    assert_text(find(c->bus, queue).pattern, patterns[1]);
}

static int never(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)ctx;
    (void)event;
    (void)delivery;
    return HOWDAH_HANDLED;
}

static void the_subscription_of_a_binding_is_nobody_elses(void **state)
{
    cf *c = *state;
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    assert_int_equal(howdah_subscription_remove(c->bus, "queue:q:order.*", &cf_error),
                     HOWDAH_CONFLICT);
    assert_string_equal(cf_error.advice, "howdah unbind q order.*");
    o.subscriber_id = "queue:q:order.*";
    o.handler = never;
    assert_int_equal(howdah_subscribe(c->bus, &o, &sub, &cf_error), HOWDAH_CONFLICT);
    o.subscriber_id = "queue:q:user.*"; /* a name like any other */
    cf_ok(howdah_subscribe(c->bus, &o, &sub, &cf_error));
    assert_int_equal(howdah_queue_bind(c->bus, "q", "user.*", NULL, &cf_error), HOWDAH_CONFLICT);
}

static void the_runner_of_a_bus_routes_too(void **state)
{
    cf *c = *state;
    howdah_bus *other = cf_open(c);
    int64_t until = hw_clock_mono_ms() + 10000;

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_NONE);
    cf_ok(howdah_bindings_serve(other, NULL, &cf_error));
    cf_ok(howdah_runner_start(other, 2, &cf_error));
    fill(c->bus);
    while (q_info(c->bus, "q").pending < 3) {
        assert_true(hw_clock_mono_ms() < until);
        q_nap(5);
    }
    cf_ok(howdah_runner_stop(other, &cf_error));
    howdah_close(other);
    assert_text(drain(c->bus, "q"), "1 3 4");
}

/* ---- workers */

#define EVENTS 100
#define STREAMS 7

typedef struct seen {
    pthread_mutex_t lock;
    int runs;
    int times[EVENTS + 1];
    int last[STREAMS]; /* of each stream */
    int disorder;
    int poison; /* an event whose handler never succeeds */
    int wanted; /* with poison: runs of the others */
} seen;

static int on_job(void *ctx, const howdah_job *job, howdah_work *work)
{
    seen *s = ctx;
    int n = (int)howdah_job_event_sequence(job);
    int stream = howdah_job_event_stream(job)[1] - '0';

    if (n == s->poison)
        return howdah_work_retry(work, 60000, "not today");
    (void)pthread_mutex_lock(&s->lock);
    s->runs++;
    s->times[n]++;
    s->disorder += n <= s->last[stream];
    s->last[stream] = n;
    (void)pthread_mutex_unlock(&s->lock);
    return HOWDAH_WORK_DONE;
}

static void append_streams(howdah_bus *bus)
{
    for (int i = 1; i <= EVENTS; i++) {
        char stream[8];

        (void)snprintf(stream, sizeof stream, "s%d", i % STREAMS);
        (void)cf_append(bus, stream, "order.made", "{}");
    }
}

static void work_dry(howdah_bus *bus, seen *s, int64_t threads)
{
    howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
    howdah_worker *worker = NULL;
    int status;

    o.queue = "q";
    o.handler = on_job;
    o.ctx = s;
    o.threads = threads;
    o.until_empty = s->poison == 0;
    cf_ok(howdah_worker_new(bus, &o, &worker, &cf_error));
    /* A poisoned queue is never empty: until all others have run, and a little longer. */
    for (int i = 0; !o.until_empty && i < 60 && s->runs < s->wanted; i++)
        cf_ok(howdah_worker_run(worker, 500, &cf_error));
    status = howdah_worker_run(worker, o.until_empty ? 30000 : 500, &cf_error);
    howdah_worker_free(worker);
    assert_int_equal(status, o.until_empty ? HOWDAH_END : HOWDAH_OK);
}

static void a_worker_routes_for_its_queue_and_waits_for_what_is_bound(void **state)
{
    cf *c = *state;
    seen s = {.lock = PTHREAD_MUTEX_INITIALIZER};

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    append_streams(c->bus);
    work_dry(c->bus, &s, 0);
    assert_int_equal(s.runs, EVENTS);
    assert_int_equal(s.disorder, 0);
    assert_text(q_counts(c->bus, "q"), "0 0 0 100 0");
    assert_string_equal(find(c->bus, "q").owner, ""); /* given up cleanly */
}

typedef struct clients {
    pthread_t thread;
    howdah_bus *bus;
    seen *s;
} clients;

static void *work(void *arg)
{
    clients *w = arg;

    work_dry(w->bus, w->s, 2);
    return NULL;
}

static void workers_share_the_events_of_a_pattern_each_stream_in_order(void **state)
{
    cf *c = *state;
    seen s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    clients crews[3];

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    append_streams(c->bus);
    for (int i = 0; i < 3; i++) {
        crews[i] = (clients){.bus = cf_open(c), .s = &s};
        assert_int_equal(pthread_create(&crews[i].thread, NULL, work, &crews[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(crews[i].thread, NULL), 0);
        howdah_close(crews[i].bus);
    }
    assert_int_equal(s.runs, EVENTS);
    for (int i = 1; i <= EVENTS; i++)
        assert_int_equal(s.times[i], 1);
    assert_int_equal(s.disorder, 0);
    assert_text(q_counts(c->bus, "q"), "0 0 0 100 0");
}

static void a_poison_event_holds_up_its_own_stream_only(void **state)
{
    cf *c = *state;
    seen s = {.lock = PTHREAD_MUTEX_INITIALIZER, .poison = 3};
    int of_stream = 0;

    bind_to(c->bus, "q", "order.*", HOWDAH_FROM_START, HOWDAH_KEY_STREAM);
    append_streams(c->bus);
    for (int i = 1; i <= EVENTS; i++)
        of_stream += i % STREAMS == 3;
    s.wanted = EVENTS - of_stream;
    work_dry(c->bus, &s, 0);
    assert_int_equal(s.runs, EVENTS - of_stream);
    assert_int_equal(s.last[3], 0);
    assert_int_equal(s.disorder, 0);
}

cf_group cf_bindings_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_QUEUE_TEST(events_that_match_become_jobs_once_and_in_log_order),
        CF_QUEUE_TEST(a_job_tells_the_event_it_was_made_of),
        CF_QUEUE_TEST(a_binding_starts_where_it_is_told),
        CF_QUEUE_TEST(replay_makes_jobs_of_the_same_events_again),
        CF_QUEUE_TEST(unbind_stops_new_jobs_and_leaves_those_that_exist),
        CF_QUEUE_TEST(a_binding_that_comes_while_the_bus_is_served_is_noticed),
        CF_QUEUE_TEST(another_bus_goes_on_when_the_one_that_routes_is_closed),
        CF_QUEUE_TEST(a_router_that_fails_and_tries_again_doubles_nothing),
        CF_QUEUE_TEST(an_event_that_commits_late_becomes_a_job_when_it_appears),
        CF_QUEUE_TEST(binding_again_is_no_error_and_another_key_is_a_conflict),
        CF_QUEUE_TEST(a_bad_binding_is_refused_and_makes_no_queue),
        CF_QUEUE_TEST(a_binding_tells_where_it_is),
        CF_QUEUE_TEST(long_names_are_told_apart),
        CF_QUEUE_TEST(the_subscription_of_a_binding_is_nobody_elses),
        CF_QUEUE_TEST(the_runner_of_a_bus_routes_too),
        CF_QUEUE_TEST(a_worker_routes_for_its_queue_and_waits_for_what_is_bound),
        CF_QUEUE_TEST(workers_share_the_events_of_a_pattern_each_stream_in_order),
        CF_QUEUE_TEST(a_poison_event_holds_up_its_own_stream_only),
    };

    return CF_GROUP(tests);
}
