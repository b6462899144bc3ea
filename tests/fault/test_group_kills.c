/*
 * test_group_kills.c - members of a group in processes of their own, which are killed: at every
 * named point, and at any moment while events are appended, fail and come late.  The first argument
 * is the kind of store: sqlite, or pg (inside tools/with-pg).
 */
#include <howdah/howdah_pg.h>
#include <howdah/howdah_sqlite.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/random.h"
#include "sqlite_help.h"
#include "test_pg_help.h"

#define NAME "group"
#define STREAMS 40
#define EVENTS_MAX 3000
#define MEMBERS 4
#define WRITERS 2
#define LEASE_MS 500
#define PATIENCE_MS 60000
#define RACE_MS 3000
#define QUICK_EVENTS 12000 /* of a round */

static bool on_pg;
static howdah_error error = HOWDAH_ERROR_INIT;

/* Outlives those who write it. */
typedef struct board {
    atomic_bool done;         /* nobody appends any more */
    atomic_int odd;           /* what must not happen, has: a line of the code */
    atomic_int handled;       /* effects that were begun */
    atomic_int busy[STREAMS]; /* the process that has events of this stream in its transaction */
    atomic_llong reached[STREAMS]; /* the last version that was handled, ever */
    atomic_llong appended;         /* events that quick handlers have to reach */
    atomic_bool fails;             /* some events do, the first time */
} board;

typedef struct site {
    void *under; /* pgt or place */
    const howdah_settings *settings;
    const char *url;
    howdah_bus *bus;
    board *board;
    pid_t hands[MEMBERS + WRITERS];
} site;

static int setup(void **state)
{
    site *p = calloc(1, sizeof *p);

    assert_non_null(p);
    assert_int_equal(on_pg ? pgt_setup(&p->under) : place_setup(&p->under), 0);
    p->url = on_pg ? ((pgt *)p->under)->url : ((place *)p->under)->url;
    p->settings = on_pg ? ((pgt *)p->under)->settings : NULL;
    p->bus = on_pg ? pgt_open(p->under, p->url) : open_migrated(p->url);
    p->board =
        mmap(NULL, sizeof *p->board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p->board != MAP_FAILED);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    site *p = *state;

    for (int i = 0; i < MEMBERS + WRITERS; i++)
        if (p->hands[i] > 0)
            (void)kill(p->hands[i], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    howdah_close(p->bus);
    (void)munmap(p->board, sizeof *p->board);
    assert_int_equal(on_pg ? pgt_teardown(&p->under) : place_teardown(&p->under), 0);
    free(p);
    return 0;
}

/* ---- processes */

static howdah_bus *open_again(const site *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    while (howdah_open(p->url, p->settings, &bus, &err) < 0)
        if (!(err.flags & HOWDAH_RETRYABLE))
            _exit(3);
    return bus;
}

static pid_t start(site *p, int (*life)(site *p, howdah_bus *bus), const char *failpoint)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (failpoint)
        (void)setenv("HOWDAH_FAILPOINT", failpoint, 1);
    _exit(life(p, open_again(p)));
}

static void append_some(howdah_bus *bus, unsigned *seed, int n)
{
    for (int i = 0; i < n; i++) {
        char stream[16];
        howdah_event *event;

        (void)snprintf(stream, sizeof stream, "s%u", (unsigned)rand_r(seed) % STREAMS); /* NOLINT */
        event = make_event(stream, "t.x", "{}");
        must(howdah_append(bus, event, NULL, NULL, &error), &error);
        howdah_event_free(event);
    }
}

/* ---- handlers: each effect in the member's transaction, in a table without a key */

#define EFFECT "INSERT INTO effects (n, stream, version) VALUES (%lld, '%s', %lld)"

static int run_sql(howdah_delivery *delivery, const char *sql)
{
    PGconn *conn = howdah_delivery_pg(delivery);
    PGresult *result;
    int ok;

    if (!conn)
        return sqlite3_exec(howdah_delivery_sqlite(delivery), sql, NULL, NULL, NULL) == SQLITE_OK;
    result = PQexec(conn, sql);
    ok = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    return ok;
}

/* One in thirty fails the first time.  Of a stream, nobody else has an event at the same time. */
static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    site *p = ctx;
    int64_t number = howdah_event_global_sequence(event);
    long stream = strtol(howdah_event_stream(event) + 1, NULL, 10);
    int nobody = 0;
    char sql[200];

    (void)atomic_fetch_add(&p->board->handled, 1);
    if (number % 30 == 7 && howdah_delivery_attempt(delivery) == 1)
        return howdah_delivery_fail(delivery, "the first time");
    if (!atomic_compare_exchange_strong(&p->board->busy[stream], &nobody, (int)getpid()) &&
        kill(nobody, 0) == 0) /* one that was killed has left its name */
        atomic_store(&p->board->odd, __LINE__);
    atomic_store(&p->board->busy[stream], (int)getpid());
    (void)snprintf(sql, sizeof sql, EFFECT, (long long)number, howdah_event_stream(event),
                   (long long)howdah_event_version(event));
    if (!run_sql(delivery, sql)) {
        atomic_store(&p->board->busy[stream], 0);
        return howdah_delivery_fail(delivery, "no effect");
    }
    atomic_store(&p->board->busy[stream], 0);
    return HOWDAH_HANDLED;
}

static howdah_subscription *subscribe(site *p, howdah_bus *bus)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;

    o.subscriber_id = NAME;
    o.handler = on_event;
    o.ctx = p;
    o.instance = HOWDAH_INSTANCE_SHARED;
    o.checkpoint = HOWDAH_CHECKPOINT_TRANSACTIONAL;
    o.lease_ms = LEASE_MS;
    o.catch_up_batch = 7;
    o.max_retries = 1000;
    o.retry_delay_ms = 5;
    must(howdah_subscribe(bus, &o, &sub, &error), &error);
    return sub;
}

/* Until everything that is appended is handled. */
static int be_member(site *p, howdah_bus *bus)
{
    howdah_subscription *sub = subscribe(p, bus);
    int s;

    do
        s = howdah_subscription_wait(sub, 200, &error);
    while (s == HOWDAH_END || (s == HOWDAH_OK && !atomic_load(&p->board->done)));
    if (s < 0) {
        (void)fprintf(stderr, "# a member ends: %s %s\n", howdah_status_name(s), error.message);
        return 5;
    }
    return howdah_close(bus) < 0 ? 6 : 0;
}

static int write_events(site *p, howdah_bus *bus)
{
    unsigned seed = (unsigned)getpid();

    for (int n = 0; !atomic_load(&p->board->done) && n < EVENTS_MAX / WRITERS; n++) {
        append_some(bus, &seed, 1);
        if (n % 16 == 0)
            (void)usleep(1000);
    }
    return 0;
}

/* ---- quick handlers: on PostgreSQL their process reserves the group */

/* Nothing is handled before what comes before it in its stream; after a kill some come again. */
static int on_quick_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    site *p = ctx;
    long stream = strtol(howdah_event_stream(event) + 1, NULL, 10);
    int64_t version = howdah_event_version(event);
    long long reached = atomic_load(&p->board->reached[stream]);

    if (atomic_load(&p->board->fails) && version % 97 == 5 &&
        howdah_delivery_attempt(delivery) == 1 && reached < version)
        return howdah_delivery_fail(delivery, "the first time");
    if (version > reached + 1)
        atomic_store(&p->board->odd, __LINE__);
    if (version > reached)
        atomic_store(&p->board->reached[stream], version);
    (void)atomic_fetch_add(&p->board->handled, 1);
    return HOWDAH_HANDLED;
}

static int64_t reached_in_all(const site *p)
{
    int64_t n = 0;

    for (int i = 0; i < STREAMS; i++)
        n += atomic_load(&p->board->reached[i]);
    return n;
}

/* Until everything is handled. */
static int be_quick_process(site *p, howdah_bus *bus)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    int s;

    o.subscriber_id = NAME;
    o.handler = on_quick_event;
    o.ctx = p;
    o.instance = HOWDAH_INSTANCE_SHARED;
    o.concurrency = 4;
    o.lease_ms = LEASE_MS;
    o.catch_up_batch = 20;
    o.retry_delay_ms = 1;
    s = howdah_subscribe(bus, &o, &sub, &error);
    if (s >= 0)
        s = howdah_runner_start(bus, 4, &error);
    while (s >= 0 && reached_in_all(p) < atomic_load(&p->board->appended)) {
        s = howdah_runner_wait(bus, 10, &error);
        if (s != HOWDAH_END)
            break;
    }
    if (s >= 0)
        s = howdah_runner_stop(bus, &error);
    if (s < 0)
        (void)fprintf(stderr, "# a process ends: %s %s\n", howdah_status_name(s), error.message);
    return s < 0 ? 5 : 0;
}

/* ---- what is stored */

static int64_t number_of(const site *p, const char *sql)
{
    if (on_pg) {
        PGconn *conn = pgt_session(p->url);
        PGresult *result = PQexec(conn, sql);
        int64_t number = PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1
                             ? strtoll(PQgetvalue(result, 0, 0), NULL, 10)
                             : 0;

        if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK)
            fail_msg("%s: %s", sql, PQerrorMessage(conn));
        PQclear(result);
        PQfinish(conn);
        return number;
    }
    return raw_number(p->url + strlen("sqlite:"), sql);
}

static int64_t count_events(const site *p)
{
    howdah_reader *reader = NULL;
    const howdah_event *event;
    int64_t n = 0;

    must(howdah_reader_open(p->bus, NULL, &reader, &error), &error);
    while (howdah_reader_next(reader, &event, &error) == HOWDAH_OK)
        n++;
    howdah_reader_close(reader);
    return n;
}

/* Each once, and each stream in order.  rowid or ctid: in the order in which they were stored. */
static void expect_each_effect_once(const site *p)
{
    assert_i64_equal(number_of(p, "SELECT count(*) FROM effects"), count_events(p));
    assert_i64_equal(number_of(p, "SELECT count(DISTINCT n) FROM effects"), count_events(p));
    assert_i64_equal(
        number_of(
            p, "SELECT count(*) FROM (SELECT version, coalesce(lag(version) OVER (PARTITION BY"
               " stream ORDER BY i), 0) AS before FROM effects) AS x WHERE version <> before + 1"),
        0);
    assert_int_equal(atomic_load(&p->board->odd), 0);
}

static void make_effects(const site *p)
{
    if (on_pg)
        (void)number_of(p, "DROP TABLE IF EXISTS effects");
    (void)number_of(p, on_pg ? "CREATE TABLE effects (i bigint GENERATED ALWAYS AS IDENTITY,"
                               " n bigint, stream text, version bigint)"
                             : "CREATE TABLE effects (i INTEGER PRIMARY KEY AUTOINCREMENT,"
                               " n bigint, stream text, version bigint)");
}

/* ---- tests */

static const char *const points[] = {
    "group.before_handler", "group.after_handler",        "group.before_commit",
    "group.after_commit",   "sqlite.group_before_commit",
};
#define POINTS (sizeof points / sizeof points[0])

static void a_member_killed_at_each_point_loses_and_repeats_nothing(void **state)
{
    site *p = *state;
    unsigned seed = 7;

    make_effects(p);
    atomic_store(&p->board->done, true);
    for (size_t i = 0; i < POINTS - (on_pg ? 1 : 0); i++)
        for (int visit = 1; visit <= 5; visit += 2) {
            char failpoint[64];

            append_some(p->bus, &seed, 10);
            (void)snprintf(failpoint, sizeof failpoint, "%s:kill@%d", points[i], visit);
            assert_int_equal(child_result(start(p, be_member, failpoint)), 1000 + SIGKILL);
        }
    assert_int_equal(child_result(start(p, be_member, NULL)), 0);
    expect_each_effect_once(p);
}

static void members_that_are_killed_at_any_moment_lose_and_repeat_nothing(void **state)
{
    site *p = *state;
    int64_t until = pgt_now_ms() + RACE_MS;
    unsigned seed = 11;
    int kills = 0;

    make_effects(p);
    for (int i = 0; i < WRITERS; i++)
        p->hands[MEMBERS + i] = start(p, write_events, NULL);
    for (int i = 0; i < MEMBERS; i++)
        p->hands[i] = start(p, be_member, NULL);
    for (; pgt_now_ms() < until; kills++) {
        int who = (int)((unsigned)rand_r(&seed) % MEMBERS); /* NOLINT */

        (void)usleep(50000 + (useconds_t)((unsigned)rand_r(&seed) % 100000)); /* NOLINT */
        (void)kill(p->hands[who], SIGKILL);
        (void)child_result(p->hands[who]);
        p->hands[who] = start(p, be_member, NULL);
    }
    atomic_store(&p->board->done, true);
    for (int i = 0; i < MEMBERS + WRITERS; i++) {
        assert_int_equal(child_result(p->hands[i]), 0);
        p->hands[i] = 0;
    }
    expect_each_effect_once(p);
    print_message("# %lld events, %d kills, %d handlers begun\n", (long long)count_events(p), kills,
                  atomic_load(&p->board->handled));
    assert_true(count_events(p) > 100 && kills > 5);
}

static void append_quick(site *p)
{
    static unsigned seed = 3;
    const howdah_event *list[QUICK_EVENTS];

    for (int i = 0; i < QUICK_EVENTS; i++) {
        char stream[16];

        (void)snprintf(stream, sizeof stream, "s%u",
                       (unsigned)rand_r(&seed) % STREAMS); /* NOLINT */
        list[i] = make_event(stream, "t.x", "{}");
    }
    must(howdah_append_batch(p->bus, list, QUICK_EVENTS, NULL, NULL, &error), &error);
    for (int i = 0; i < QUICK_EVENTS; i++)
        howdah_event_free((howdah_event *)(uintptr_t)list[i]);
    (void)atomic_fetch_add(&p->board->appended, QUICK_EVENTS);
}

static void a_process_with_quick_handlers_that_is_killed_loses_nothing_and_keeps_order(void **state)
{
    static const char *const kills[] = {
        "group.before_handler:kill@11000",
        "group.after_handler:kill@11000",
        "group.before_end:kill@1",
        "group.after_end:kill@1",
    };
    site *p = *state;

    for (size_t i = 0; i < sizeof kills / sizeof *kills; i++) {
        bool dies = on_pg || i < 2; /* there are no ranges on SQLite */
        int result = 0;

        /* A machine with much else to do has no quick handlers. */
        for (int tries = 0; tries < 5 && result == 0; tries += dies ? 1 : 5) {
            append_quick(p);
            result = child_result(start(p, be_quick_process, kills[i]));
        }
        assert_int_equal(result, dies ? 1000 + SIGKILL : 0);
        assert_int_equal(child_result(start(p, be_quick_process, NULL)), 0);
        assert_i64_equal(reached_in_all(p), atomic_load(&p->board->appended));
    }
    assert_int_equal(atomic_load(&p->board->odd), 0);
    print_message("# %d handled\n", atomic_load(&p->board->handled));
}

/* Two at a time: each ends the other's reservation, and takes over what a killed one has left. */
static void processes_that_come_and_are_killed_lose_nothing_and_keep_order(void **state)
{
    site *p = *state;
    unsigned seed = 23;

    atomic_store(&p->board->fails, true);
    append_quick(p);
    append_quick(p);
    for (int i = 0; i < 2; i++)
        p->hands[i] = start(p, be_quick_process, NULL);
    for (int kills = 0; kills < 6; kills++) {
        int who = kills % 2;

        (void)usleep(30000 + (useconds_t)((unsigned)rand_r(&seed) % 100000)); /* NOLINT */
        (void)kill(p->hands[who], SIGKILL);
        (void)child_result(p->hands[who]);
        p->hands[who] = start(p, be_quick_process, NULL);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(child_result(p->hands[i]), 0);
        p->hands[i] = 0;
    }
    assert_i64_equal(reached_in_all(p), 2 * QUICK_EVENTS);
    assert_int_equal(atomic_load(&p->board->odd), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_member_killed_at_each_point_loses_and_repeats_nothing,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            members_that_are_killed_at_any_moment_lose_and_repeat_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_process_with_quick_handlers_that_is_killed_loses_nothing_and_keeps_order, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            processes_that_come_and_are_killed_lose_nothing_and_keep_order, setup, teardown),
    };

    on_pg = argc > 1 && strcmp(argv[1], "pg") == 0;
    return cmocka_run_group_tests_name("group kills", tests, NULL, NULL);
}
