/*
 * test_pg_bell.c - who is woken, by whom, and who does not pay for it.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>
#include <howdah/howdah_queue.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bus/bus.h"
#include "engine/channel.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

#define LONG_MS 10000
#define SHORT_MS 50 /* long enough for a notification that is on its way */

static const hw_str a_b = {"a.b", 3};

static int64_t mark(const pgt *t)
{
    return pgt_number(t, t->admin, "SELECT last_value FROM {bell}");
}

static hw_store *sleeper(const pgt *t, bool general, const hw_str *types, size_t n)
{
    hw_store *store = pgt_store(t, NULL);

    pgt_ok(store->ops->subs->listen(store, general, types, n, &pgt_error));
    pgt_ok(store->ops->subs->arm(store, &pgt_error));
    return store;
}

static void is_woken(hw_store *store)
{
    assert_int_equal(store->ops->subs->wait(store, LONG_MS, &pgt_error), HOWDAH_OK);
}

static void sleeps_on(hw_store *store)
{
    assert_int_equal(store->ops->subs->wait(store, SHORT_MS, &pgt_error), HOWDAH_END);
}

static void sql_append(const pgt *t, PGconn *conn, const char *type)
{
    pgt_run(t, conn, "SELECT {append}('s', '%s')", type);
}

static void an_append_in_sql_wakes_who_sleeps(void **state)
{
    pgt *t = *state;
    hw_store *general = sleeper(t, true, NULL, 0);
    hw_store *typed = sleeper(t, false, &a_b, 1);
    hw_store *other = sleeper(t, false, &HW_STR_LIT("a_b"), 1); /* on the same channel */
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, conn, "SET howdah.ring = 'on'");
    assert_int_equal(mark(t), hw_channel_bit(HW_STR_NULL) | hw_channel_bit(a_b) |
                                  hw_channel_bit(HW_STR_LIT("a_b")));
    sql_append(t, conn, "a.b");
    is_woken(general);
    is_woken(typed);
    sleeps_on(other);
    sleeps_on(general);
    assert_int_equal(mark(t), hw_channel_bit(HW_STR_LIT("a_b")));
    /* Nobody sleeps until this one comes: nobody is told. */
    sql_append(t, conn, "a.c");
    sleeps_on(general);
    sleeps_on(typed);
    sql_append(t, conn, "a_b");
    is_woken(other);
    assert_int_equal(mark(t), 0);
    PQfinish(conn);
    pgt_store_close(general);
    pgt_store_close(typed);
    pgt_store_close(other);
}

static int take_notes(PGconn *conn)
{
    PGnotify *note;
    int n = 0;

    PQclear(PQexec(conn, "SELECT 1"));
    while (PQconsumeInput(conn) && (note = PQnotifies(conn))) {
        PQfreemem(note);
        n++;
    }
    return n;
}

/* Notifications that this session gets; so many are waited for: they come a little later than to
   those whom they have woken. */
static int count_notes(PGconn *conn, int expected)
{
    int64_t until_ms = hw_clock_mono_ms() + 30000;
    int n = take_notes(conn);

    while (n < expected && hw_clock_mono_ms() < until_ms) {
        hw_clock_sleep_ms(1);
        n += take_notes(conn);
    }
    return n + take_notes(conn);
}

static void raw_inserts_ring_once_a_channel_if_the_owner_wants_it(void **state)
{
    pgt *t = *state;
    hw_store *general = sleeper(t, true, NULL, 0);
    hw_store *typed = sleeper(t, false, &a_b, 1);
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, t->admin,
            "DO $$ BEGIN EXECUTE format('LISTEN %%I; LISTEN %%I; LISTEN %%I',"
            " {channel}(), {channel}('a.b'), {channel}('a.c')); END $$");
    pgt_run(t, conn, "SET howdah.ring = 'on'");
    pgt_run(t, conn,
            "INSERT INTO {events} (stream, version, type, data) VALUES ('x', 1, 'a.b', '1')");
    sleeps_on(general);
    pgt_run(t, t->admin, "SELECT {ring_for_raw_inserts}(true)");
    (void)pgt_append(t->bus, "s"); /* rings by itself, once */
    is_woken(general);
    assert_int_equal(count_notes(t->admin, 1), 1);
    pgt_ok(general->ops->subs->arm(general, &pgt_error));
    pgt_run(t, conn,
            "BEGIN; INSERT INTO {events} (stream, version, type, data) SELECT 'y', i,"
            " CASE WHEN i %% 2 = 0 THEN 'a.b' ELSE 'a.c' END, '{}'"
            " FROM generate_series(1, 1000) AS i");
    sql_append(t, conn, "a.b");
    pgt_run(t, conn, "COMMIT");
    is_woken(general);
    is_woken(typed);
    assert_int_equal(count_notes(t->admin, 2), 2);
    sleeps_on(general);
    sleeps_on(typed);
    pgt_run(t, t->admin, "SELECT {ring_for_raw_inserts}(false)");
    assert_int_equal(pgt_number(t, t->admin,
                                "SELECT count(*) FROM pg_trigger WHERE tgrelid ="
                                " '{events}'::regclass"),
                     0);
    PQfinish(conn);
    pgt_store_close(general);
    pgt_store_close(typed);
}

static void a_batch_in_sql_rings_each_channel_once(void **state)
{
    pgt *t = *state;
    hw_store *general = sleeper(t, true, NULL, 0);
    hw_store *typed = sleeper(t, false, &a_b, 1);
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, t->admin,
            "DO $$ BEGIN EXECUTE format('LISTEN %%I; LISTEN %%I; LISTEN %%I',"
            " {channel}(), {channel}('a.b'), {channel}('a.c')); END $$");
    pgt_run(t, conn, "SET howdah.ring = 'on'");
    pgt_run(t, conn,
            "BEGIN; SELECT {append_batch}((SELECT json_agg(json_build_object('stream',"
            " 's', 'type', CASE WHEN i %% 2 = 0 THEN 'a.b' ELSE 'a.c' END))"
            " FROM generate_series(1, 100) AS i))");
    sql_append(t, conn, "a.b");
    pgt_run(t, conn, "COMMIT");
    is_woken(general);
    is_woken(typed);
    assert_int_equal(count_notes(t->admin, 2), 2);
    PQfinish(conn);
    pgt_store_close(general);
    pgt_store_close(typed);
}

/* The caller commits, so the ring goes along; nothing of it may break the transaction. */
static void an_append_in_the_caller_s_transaction_rings_at_its_commit(void **state)
{
    pgt *t = *state;
    hw_store *store = sleeper(t, true, NULL, 0);
    PGconn *conn = pgt_session(t->url);
    howdah_event *event = pgt_event("s");
    howdah_position position = HOWDAH_POSITION_INIT;

    pgt_run(t, conn, "SET howdah.ring = 'on'; BEGIN");
    pgt_ok(howdah_pg_append(conn, t->schema, (const howdah_event *const *)&event, 1, NULL,
                            &position, &pgt_error));
    sleeps_on(store);
    pgt_run(t, conn, "COMMIT");
    is_woken(store);
    /* And where transactions are prepared it does not, unless asked to. */
    pgt_ok(store->ops->subs->arm(store, &pgt_error));
    pgt_run(t, conn, "RESET howdah.ring; BEGIN");
    howdah_event_free(event);
    event = pgt_event("s");
    pgt_ok(howdah_pg_append(conn, t->schema, (const howdah_event *const *)&event, 1, NULL,
                            &position, &pgt_error));
    pgt_run(t, conn, "PREPARE TRANSACTION 'caller %s'", t->schema);
    pgt_run(t, conn, "COMMIT PREPARED 'caller %s'", t->schema);
    sleeps_on(store);
    howdah_event_free(event);
    PQfinish(conn);
    pgt_store_close(store);
}

static void an_append_of_the_library_rings_after_its_commit(void **state)
{
    pgt *t = *state;
    hw_store *general = sleeper(t, true, NULL, 0);
    hw_store *typed = sleeper(t, false, &HW_STR_LIT("fault.test"), 1);
    pgt_batch b = pgt_batch_new("batch", 3000, 3);

    (void)pgt_append(t->bus, "s");
    is_woken(general);
    is_woken(typed);
    assert_int_equal(mark(t), 0);
    (void)pgt_append(t->bus, "s");
    sleeps_on(general);
    pgt_ok(general->ops->subs->arm(general, &pgt_error));
    pgt_ok(howdah_append_batch(t->bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
    is_woken(general);
    sleeps_on(typed);
    pgt_batch_free(&b);
    pgt_store_close(general);
    pgt_store_close(typed);
}

static void an_append_of_the_library_sends_no_notify_when_nobody_sleeps(void **state)
{
    pgt *t = *state;
    hw_store *awake = pgt_store(t, NULL);

    pgt_ok(awake->ops->subs->listen(awake, true, NULL, 0, &pgt_error));
    for (int i = 0; i < 50; i++)
        (void)pgt_append(t->bus, "s");
    sleeps_on(awake);
    pgt_store_close(awake);
}

static void an_armed_bell_does_not_keep_a_transaction_from_being_prepared(void **state)
{
    pgt *t = *state;
    hw_store *store = sleeper(t, true, NULL, 0);
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, conn, "BEGIN");
    sql_append(t, conn, "a.b");
    pgt_run(t, conn, "PREPARE TRANSACTION 'bell %s'", t->schema);
    pgt_run(t, conn, "COMMIT PREPARED 'bell %s'", t->schema);
    sleeps_on(store);
    assert_string_equal(pgt_text(t, conn, "SELECT {ring}('{a.b}')"), "t");
    is_woken(store);
    assert_string_equal(pgt_text(t, conn, "SELECT {ring}('{a.b}')"), "f");
    /* Whoever asks for it gets it. */
    pgt_ok(store->ops->subs->arm(store, &pgt_error));
    pgt_run(t, conn, "BEGIN; SET LOCAL howdah.ring = 'on'");
    sql_append(t, conn, "a.b");
    assert_string_equal(pgt_state(t, conn, "PREPARE TRANSACTION 'bell %s'", t->schema), "0A000");
    PQfinish(conn);
    pgt_store_close(store);
}

static void whoever_owns_or_waits_for_a_subscription_hears_what_happens_to_it(void **state)
{
    pgt *t = *state;
    hw_store *store = sleeper(t, false, &a_b, 1);
    hw_store *other = pgt_store(t, NULL);
    const hw_sub_ops *subs = other->ops->subs;
    const hw_str me = HW_STR_LIT("me");
    int64_t n = 0;

    pgt_ok(subs->create(other, me, &HW_FILTER_ALL, 0, NULL, 0, NULL, &pgt_error));
    sleeps_on(store);
    pgt_ok(subs->set_status(other, &(hw_hold){me, 0, HW_STR_NULL}, HW_SUB_PAUSED, HW_STR_NULL,
                            &pgt_error));
    is_woken(store);
    pgt_ok(subs->reset(other, me, 5, NULL, 0, &pgt_error));
    is_woken(store);
    pgt_ok(subs->release(other, &(hw_hold){me, 12345, HW_STR_NULL}, HOWDAH_INSTANCE_SINGLE,
                         &pgt_error));
    is_woken(store);
    pgt_ok(subs->dead_letters_set_state(other, NULL, 0, me, HW_DEAD_LETTER_REDRIVE, HW_STR_NULL, &n,
                                        &pgt_error));
    is_woken(store);
    pgt_store_close(store);
    pgt_store_close(other);
}

static void a_wait_ends_with_its_connection(void **state)
{
    pgt *t = *state;
    hw_store *store = sleeper(t, true, NULL, 0);
    uint64_t before = 0;
    uint64_t after = 0;

    pgt_ok(store->ops->subs->session(store, &before, &pgt_error));
    pgt_run(t, t->admin, "SELECT pg_terminate_backend(%d)", ((hw_pg *)store)->backend_pid);
    assert_int_equal(store->ops->subs->wait(store, LONG_MS, &pgt_error), HOWDAH_UNAVAILABLE);
    pgt_ok(store->ops->subs->session(store, &after, &pgt_error));
    assert_true(after > before);
    sleeps_on(store);
    pgt_store_close(store);
}

static bool is_readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, SHORT_MS) == 1;
}

static void the_descriptor_says_when_a_wait_would_return(void **state)
{
    pgt *t = *state;
    hw_store *store = sleeper(t, true, NULL, 0);
    const hw_sub_ops *subs = store->ops->subs;
    int64_t head = 0;
    int fd = subs->fd(store);

    assert_true(fd >= 0);
    assert_false(is_readable(fd));
    (void)pgt_append(t->bus, "s");
    assert_true(is_readable(fd));
    is_woken(store);
    assert_false(is_readable(fd));
    /* The notification comes along with the answer of a statement. */
    pgt_ok(subs->arm(store, &pgt_error));
    (void)pgt_append(t->bus, "s");
    assert_true(is_readable(fd));
    pgt_ok(store->ops->head(store, &head, &pgt_error));
    assert_true(is_readable(fd));
    is_woken(store);
    assert_false(is_readable(fd));
    /* The same descriptor after a new connection. */
    hw_pg_disconnect((hw_pg *)store);
    pgt_ok(subs->listen(store, true, NULL, 0, &pgt_error));
    assert_int_equal(subs->fd(store), fd);
    pgt_ok(subs->arm(store, &pgt_error));
    assert_false(is_readable(fd));
    (void)pgt_append(t->bus, "s");
    assert_true(is_readable(fd));
    is_woken(store);
    pgt_store_close(store);
}

/* ---- rings that are lost */

#define MINUTE_MS 60000

/* How a mark is taken away without a ring. */
typedef enum theft { SQL_ROLLBACK, LIBRARY_ROLLBACK, SQL_OPEN, LIBRARY_OPEN, THEFTS } theft;

static int arms; /* of the bus that is watched */
static const hw_sub_ops *real_subs;

static int counted_arm(hw_store *store, howdah_error *reterr)
{
    arms++;
    return real_subs->arm(store, reterr);
}

/* A bus that hardly ever looks by itself, and counts how often it arms the bell. */
static howdah_bus *watched_bus(const pgt *t)
{
    static hw_store_ops ops;
    static hw_sub_ops subs;
    howdah_bus *bus = pgt_open_with(t, t->url, "poll_interval", "60s");

    ops = *bus->store->ops;
    real_subs = ops.subs;
    subs = *real_subs;
    subs.arm = counted_arm;
    ops.subs = &subs;
    bus->store->ops = &ops;
    arms = 0;
    return bus;
}

static int count_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    (void)event;
    (void)delivery;
    ++*(int *)ctx;
    return HOWDAH_OK;
}

static void subscribe_as(howdah_bus *bus, howdah_instance instance, const char *pattern, int *seen)
{
    static int ids;
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    char id[32];

    (void)snprintf(id, sizeof id, "sleeper-%d", ++ids);

    o.subscriber_id = id;
    o.instance = instance;
    o.start = HOWDAH_FROM_END;
    o.pattern = pattern;
    o.handler = count_event;
    o.ctx = seen;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
}

static void subscribe(howdah_bus *bus, const char *pattern, int *seen)
{
    subscribe_as(bus, HOWDAH_INSTANCE_COORDINATED, pattern, seen);
}

/* Looks at the log, again and again, until so many were seen and nothing is left to do. */
static void look_until(howdah_bus *bus, const int *seen, int wanted)
{
    int64_t until = pgt_now_ms() + MINUTE_MS;
    bool worked = true;

    while (*seen < wanted || worked) {
        assert_true(pgt_now_ms() < until);
        pgt_ok(howdah_service(bus, &worked, &pgt_error));
    }
}

/* Goes on as a program of its own would, until it sleeps with an armed bell. */
static void sleep_armed(const pgt *t, howdah_bus *bus)
{
    int64_t until = pgt_now_ms() + MINUTE_MS;

    while (mark(t) == 0) {
        int ms = howdah_timeout_ms(bus);
        struct pollfd p = {.fd = howdah_fd(bus), .events = POLLIN};

        assert_true(pgt_now_ms() < until);
        (void)poll(&p, 1, ms < 10 ? ms : 10);
        pgt_ok(howdah_service(bus, NULL, &pgt_error));
    }
    while (howdah_timeout_ms(bus) == 0)
        pgt_ok(howdah_service(bus, NULL, &pgt_error));
}

static void take_mark(const pgt *t, PGconn *conn, theft how)
{
    howdah_event *event;
    howdah_position position = HOWDAH_POSITION_INIT;

    pgt_run(t, conn, "BEGIN");
    if (how == SQL_ROLLBACK || how == SQL_OPEN) {
        sql_append(t, conn, "fault.test");
    } else {
        event = pgt_event("thief");
        pgt_ok(howdah_pg_append(conn, t->schema, (const howdah_event *const *)&event, 1, NULL,
                                &position, &pgt_error));
        howdah_event_free(event);
    }
    if (how == SQL_ROLLBACK || how == LIBRARY_ROLLBACK)
        pgt_run(t, conn, "ROLLBACK");
    assert_int_equal(mark(t), 0);
}

static void check_lost_ring(const pgt *t, howdah_instance instance, const char *pattern, theft how)
{
    howdah_bus *bus = watched_bus(t);
    PGconn *conn = pgt_session(t->url);
    int seen = 0;

    pgt_run(t, conn, "SET howdah.ring = 'on'; SELECT setval('{bell}', 0)");
    subscribe_as(bus, instance, pattern, &seen);
    (void)pgt_append(t->bus, "first");
    look_until(bus, &seen, 1);
    sleep_armed(t, bus);
    take_mark(t, conn, how);
    (void)pgt_append(t->bus, "quiet"); /* nobody is told */
    look_until(bus, &seen, 2);
    sleep_armed(t, bus);
    (void)pgt_append(t->bus, "loud");
    assert_true(poll(&(struct pollfd){.fd = howdah_fd(bus), .events = POLLIN}, 1, LONG_MS) == 1);
    look_until(bus, &seen, 3);
    PQfinish(conn);
    howdah_close(bus);
}

static void whoever_finds_by_looking_what_should_have_rung_arms_again(void **state)
{
    static const char *const patterns[] = {NULL, "fault.test", "fault.*"};

    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        for (int how = 0; how < THEFTS; how++)
            check_lost_ring(*state, HOWDAH_INSTANCE_COORDINATED, patterns[i], (theft)how);
}

static void a_group_that_finds_by_looking_what_should_have_rung_arms_again(void **state)
{
    for (int how = 0; how < THEFTS; how++) {
        check_lost_ring(*state, HOWDAH_INSTANCE_SHARED, NULL, (theft)how);
        check_lost_ring(*state, HOWDAH_INSTANCE_SHARED, "fault.test", (theft)how);
    }
}

static void a_group_at_rest_looks_as_rarely_as_its_poll_interval(void **state)
{
    pgt *t = *state;
    howdah_bus *bus = watched_bus(t);
    int64_t until = pgt_now_ms() + MINUTE_MS;
    int seen = 0;

    subscribe_as(bus, HOWDAH_INSTANCE_SHARED, NULL, &seen);
    (void)pgt_append(t->bus, "s");
    look_until(bus, &seen, 1);
    sleep_armed(t, bus);
    while (howdah_timeout_ms(bus) < 30000) {
        assert_true(pgt_now_ms() < until);
        pgt_ok(howdah_service(bus, NULL, &pgt_error));
    }
    howdah_close(bus);
}

static void events_that_ring_elsewhere_do_not_make_a_sleeper_arm_again(void **state)
{
    pgt *t = *state;
    howdah_bus *bus = watched_bus(t);
    int seen = 0;
    int before;

    subscribe(bus, "a.b", &seen);
    look_until(bus, &seen, 0);
    sleep_armed(t, bus);
    before = arms;
    for (int i = 0; i < 20; i++) {
        (void)pgt_append(t->bus, "s");
        look_until(bus, &seen, 0);
        (void)howdah_timeout_ms(bus);
    }
    assert_int_equal(arms, before);
    howdah_close(bus);
}

/* A queue: with one job in it, none is had by a ring. */
static void check_lost_push(const pgt *t, bool rolls_back, howdah_bus *bus,
                            bool (*find)(howdah_bus *bus, void *ctx), void *ctx)
{
    PGconn *conn = pgt_session(t->url);

    pgt_run(t, conn, "SET howdah.ring = 'on'");
    while (mark(t) == 0)
        assert_false(find(bus, ctx));
    pgt_run(t, conn, "BEGIN; SELECT {push}('mail', '1'); %s", rolls_back ? "ROLLBACK" : "");
    assert_int_equal(mark(t), 0);
    pgt_run(t, t->admin, "SELECT {push}('mail', '2')");
    while (!find(bus, ctx))
        continue;
    for (int64_t until = pgt_now_ms() + MINUTE_MS; mark(t) == 0;) {
        assert_true(pgt_now_ms() < until);
        assert_false(find(bus, ctx));
    }
    pgt_run(t, conn, "ROLLBACK");
    PQfinish(conn);
}

static bool find_by_claim(howdah_bus *bus, void *ctx)
{
    howdah_jobs *jobs = NULL;
    int s = howdah_queue_claim_wait(bus, "mail", 1, 1, NULL, &jobs, &pgt_error);

    (void)ctx;
    pgt_ok(s);
    howdah_jobs_free(jobs);
    return s == HOWDAH_OK;
}

static bool find_by_worker(howdah_bus *bus, void *ctx)
{
    howdah_worker_info before = HOWDAH_WORKER_INFO_INIT;
    howdah_worker_info after = HOWDAH_WORKER_INFO_INIT;

    (void)bus;
    howdah_worker_info_get(ctx, &before);
    pgt_ok(howdah_worker_run(ctx, 1, &pgt_error));
    howdah_worker_info_get(ctx, &after);
    return after.completed > before.completed;
}

static int done_at_once(void *ctx, const howdah_job *job, howdah_work *work)
{
    (void)ctx;
    (void)job;
    (void)work;
    return HOWDAH_WORK_DONE;
}

static void whoever_finds_jobs_by_looking_arms_the_queues_bell_again(void **state)
{
    pgt *t = *state;

    pgt_run(t, t->admin, "SELECT {push}('mail', '0')");
    for (int i = 0; i < 4; i++) {
        /* The pauses of a bus with this interval do not grow: the next look is never far. */
        howdah_bus *bus = pgt_open_with(t, t->url, "poll_interval", "2ms");
        howdah_worker_options o = HOWDAH_WORKER_OPTIONS_INIT;
        howdah_worker *worker = NULL;
        bool rolls_back = i % 2 == 0;

        o.queue = "mail";
        o.handler = done_at_once;
        pgt_run(t, t->admin, "SELECT {queue_purge}('mail')");
        pgt_run(t, t->admin, "SELECT setval('{bell}', 0)");
        if (i < 2) {
            check_lost_push(t, rolls_back, bus, find_by_claim, NULL);
        } else {
            pgt_ok(howdah_worker_new(bus, &o, &worker, &pgt_error));
            check_lost_push(t, rolls_back, bus, find_by_worker, worker);
            howdah_worker_free(worker);
        }
        howdah_close(bus);
    }
}

/* ---- names */

static void sql_and_c_agree_on_channels_and_bits(void **state)
{
    pgt *t = *state;
    unsigned seed = 7;
    hw_buf sql = HW_BUF_INIT(4 << 20);
    PGresult *result;
    enum { N = 4000 };
    static char types[N][260];

    hw_buf_puts(&sql, "SELECT {channel}(u.t), {bell_bit}(u.t) FROM unnest(ARRAY[");
    for (int i = 0; i < N; i++) {
        static const char dead_letters[] = "abcXYZ019_-";
        size_t len = 1 + (size_t)i % 255;

        for (size_t k = 0; k < len; k++) {
            bool dot = k > 0 && k + 1 < len && types[i][k - 1] != '.' && rand_r(&seed) % 6 == 0;

            types[i][k] =
                dot ? '.' : dead_letters[(size_t)rand_r(&seed) % (sizeof dead_letters - 1)];
        }
        hw_buf_printf(&sql, "%s'%s'", i ? "," : "", types[i]);
    }
    hw_buf_puts(&sql, "]) WITH ORDINALITY AS u(t, n) ORDER BY u.n");
    result = pgt_result(t, t->admin, "%s", hw_buf_str(&sql));
    assert_int_equal(PQntuples(result), N);
    for (int i = 0; i < N; i++) {
        char name[HW_CHANNEL_SIZE];
        hw_str type = hw_str_of(types[i]);

        assert_true(hw_channel_name(hw_str_of(t->schema), type, name));
        assert_string_equal(PQgetvalue(result, i, 0), name);
        assert_int_equal(strtoll(PQgetvalue(result, i, 1), NULL, 10), hw_channel_bit(type));
    }
    PQclear(result);
    hw_buf_done(&sql);
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(an_append_in_sql_wakes_who_sleeps),
    PGT_TEST(a_batch_in_sql_rings_each_channel_once),
    PGT_TEST(raw_inserts_ring_once_a_channel_if_the_owner_wants_it),
    PGT_TEST(an_append_in_the_caller_s_transaction_rings_at_its_commit),
    PGT_TEST(an_append_of_the_library_rings_after_its_commit),
    PGT_TEST(an_append_of_the_library_sends_no_notify_when_nobody_sleeps),
    PGT_TEST(an_armed_bell_does_not_keep_a_transaction_from_being_prepared),
    PGT_TEST(whoever_owns_or_waits_for_a_subscription_hears_what_happens_to_it),
    PGT_TEST(a_wait_ends_with_its_connection),
    PGT_TEST(the_descriptor_says_when_a_wait_would_return),
    PGT_TEST(whoever_finds_by_looking_what_should_have_rung_arms_again),
    PGT_TEST(a_group_that_finds_by_looking_what_should_have_rung_arms_again),
    PGT_TEST(a_group_at_rest_looks_as_rarely_as_its_poll_interval),
    PGT_TEST(events_that_ring_elsewhere_do_not_make_a_sleeper_arm_again),
    PGT_TEST(whoever_finds_jobs_by_looking_arms_the_queues_bell_again),
    PGT_TEST(sql_and_c_agree_on_channels_and_bits),
};

PGT_MAIN("pg bell", tests)
