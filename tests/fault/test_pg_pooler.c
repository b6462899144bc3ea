/*
 * test_pg_pooler.c - everything through a PgBouncer in transaction mode: each transaction is on
 * another session of the server (server_round_robin), and what is left in one meets strangers.
 * Runs with a server of its own: the pool's sessions are counted and looked into.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>

#include "base/random.h"
#include "subs_help.h"
#include "test_pg_help.h"

#define POOL 4
#define BOUNCER_PORT 6432 /* of a Unix socket in a directory of its own: just a name */
#define PATIENCE_MS 60000

typedef struct pooler {
    pgt *t;
    pid_t pid;
    char dir[64];
    char url[300]; /* through it */
} pooler;

/* ---- the pooler */

/* PgBouncer refuses to run as root. */
static void become_nobody_special(const char *dir)
{
    const struct passwd *user = getpwnam("postgres");

    if (getuid() != 0)
        return;
    if (!user)
        user = getpwnam("nobody");
    if (!user || chown(dir, user->pw_uid, user->pw_gid) != 0 || setgroups(0, NULL) != 0 ||
        setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0)
        _exit(126);
}

static void be_pooler(const pooler *p)
{
    char ini[100];
    int log;

    become_nobody_special(p->dir);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* forgotten when the user changes */
    if (chdir(p->dir) != 0)
        _exit(126);
    log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    /* A descriptor of the test that lives on here would keep its connections open. */
    for (int fd = 3; fd < 1024; fd++)
        (void)close(fd);
    (void)snprintf(ini, sizeof ini, "%s/ini", p->dir);
    (void)execl("/usr/sbin/pgbouncer", "pgbouncer", ini, NULL);
    (void)execlp("pgbouncer", "pgbouncer", ini, NULL);
    _exit(127);
}

static void write_ini(const pooler *p)
{
    const pgt *t = p->t;
    char path[100];
    FILE *ini;

    (void)snprintf(path, sizeof path, "%s/ini", p->dir);
    ini = fopen(path, "w");
    assert_non_null(ini);
    (void)fprintf(ini,
                  "[databases]\n"
                  "%s = host=%s port=%s dbname=%s user=%s\n"
                  "[pgbouncer]\n"
                  "listen_addr =\n"
                  "listen_port = %d\n"
                  "unix_socket_dir = %s\n"
                  "auth_type = any\n"
                  "pool_mode = transaction\n"
                  "default_pool_size = %d\n"
                  "server_round_robin = 1\n"
                  "max_client_conn = 200\n",
                  PQdb(t->admin), PQhost(t->admin), PQport(t->admin), PQdb(t->admin),
                  PQuser(t->admin), BOUNCER_PORT, p->dir, POOL);
    assert_int_equal(fclose(ini), 0);
}

static void start_pooler(pooler *p)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;

    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        be_pooler(p);
    while (PQping(p->url) != PQPING_OK) {
        int status = 0;

        if (waitpid(p->pid, &status, WNOHANG) != 0 || pgt_now_ms() > until) {
            p->pid = 0;
            fail_msg("pgbouncer does not run (%d): is the package pgbouncer installed?", status);
        }
        (void)usleep(5000);
    }
}

static void stop_pooler(pooler *p)
{
    if (p->pid <= 0)
        return;
    (void)kill(p->pid, SIGKILL);
    (void)waitpid(p->pid, NULL, 0);
    p->pid = 0;
}

static void remove_dir(const pooler *p)
{
    static const char *const names[] = {"ini", "log", ".s.PGSQL.6432", ".s.PGSQL.6432.lock"};
    char path[100];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", p->dir, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(p->dir);
}

static int pooler_setup(void **state)
{
    pooler *p = calloc(1, sizeof *p);
    void *inner = NULL;

    assert_non_null(p);
    (void)pgt_setup(&inner);
    p->t = inner;
    (void)snprintf(p->dir, sizeof p->dir, "/tmp/howdah-pooler.XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    assert_int_equal(chmod(p->dir, 0755), 0);
    (void)snprintf(p->url, sizeof p->url, "postgres:///%s?host=%s&port=%d&user=%s",
                   PQdb(p->t->admin), p->dir, BOUNCER_PORT, PQuser(p->t->admin));
    write_ini(p);
    start_pooler(p);
    *state = p;
    return 0;
}

static int pooler_teardown(void **state)
{
    pooler *p = *state;
    void *inner = p->t;

    stop_pooler(p);
    remove_dir(p);
    pgt_run(p->t, p->t->admin,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
            " AND backend_type = 'client backend'");
    free(p);
    return pgt_teardown(&inner);
}

/* ---- what is left in the pool's sessions */

/* Locks, statements, and each setting that is not as the server itself would have it. */
static const char left_sql[] =
    "SELECT concat_ws(' ',"
    " (SELECT 'locks ' || count(*) FROM pg_locks WHERE locktype = 'advisory'"
    "   AND pid = pg_backend_pid() HAVING count(*) > 0),"
    " (SELECT 'prepared ' || count(*) FROM pg_prepared_statements HAVING count(*) > 0),"
    " (SELECT 'listening ' || count(*) FROM pg_listening_channels() HAVING count(*) > 0),"
    " (SELECT 'ring ' || nullif(current_setting('howdah.ring', true), '')),"
    " (SELECT string_agg(name || ' ' || setting, ' ' ORDER BY name) FROM pg_settings"
    "   WHERE source = 'session' AND name NOT IN ('client_encoding', 'application_name',"
    "   'DateStyle', 'TimeZone', 'standard_conforming_strings', 'transaction_isolation',"
    "   'transaction_read_only', 'transaction_deferrable')))";

/* All of them at once, each held by a transaction. */
static void assert_nothing_is_left(const pooler *p)
{
    PGconn *conns[POOL];
    int64_t pids[POOL];

    for (int i = 0; i < POOL; i++) {
        conns[i] = PQconnectdb(p->url);
        assert_int_equal(PQstatus(conns[i]), CONNECTION_OK);
        pgt_run(p->t, conns[i], "BEGIN");
        pids[i] = pgt_number(p->t, conns[i], "SELECT pg_backend_pid()");
        for (int j = 0; j < i; j++)
            assert_true(pids[i] != pids[j]);
    }
    for (int i = 0; i < POOL; i++) {
        assert_string_equal(pgt_text(p->t, conns[i], "%s", left_sql), "");
        assert_string_equal(pgt_text(p->t, conns[i], "SHOW search_path"), "\"$user\", public");
        assert_string_equal(pgt_text(p->t, conns[i], "SHOW default_transaction_read_only"), "off");
    }
    for (int i = 0; i < POOL; i++)
        PQfinish(conns[i]);
}

/* So that a handle meets more than one session from its first statement on. */
static void fill_pool(const pooler *p)
{
    PGconn *conns[POOL];

    for (int i = 0; i < POOL; i++) {
        conns[i] = PQconnectdb(p->url);
        assert_int_equal(PQstatus(conns[i]), CONNECTION_OK);
        pgt_run(p->t, conns[i], "BEGIN; SELECT 1");
    }
    for (int i = 0; i < POOL; i++) {
        pgt_run(p->t, conns[i], "COMMIT");
        PQfinish(conns[i]);
    }
}

/* ---- the log */

static int append_at(howdah_bus *bus, const char *stream, int64_t expected,
                     howdah_position *position, howdah_error *err)
{
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = pgt_event(stream);
    int s;

    o.expected_version = expected;
    s = howdah_append(bus, event, &o, position, err);
    howdah_event_free(event);
    return s;
}

static void expected_versions_hold_and_a_conflict_names_the_actual_one(void **state)
{
    const pooler *p = *state;
    howdah_bus *a;
    howdah_bus *b;

    fill_pool(p);
    a = pgt_open(p->t, p->url);
    b = pgt_open(p->t, p->url);
    for (int i = 0; i < 40; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_position position = HOWDAH_POSITION_INIT;

        pgt_ok(append_at(i % 2 ? a : b, "s", i ? i : HOWDAH_EXPECT_NONE, &position, &pgt_error));
        assert_int_equal(position.version, i + 1);
        assert_int_equal(append_at(i % 2 ? b : a, "s", i ? i : HOWDAH_EXPECT_NONE, &position, &err),
                         HOWDAH_CONFLICT);
        assert_int_equal(err.actual_version, i + 1);
    }
    assert_int_equal(pgt_count(p->t), 40);
    howdah_close(a);
    howdah_close(b);
    assert_nothing_is_left(p);
}

static void a_batch_is_stored_whole_and_repeated_without_harm(void **state)
{
    const pooler *p = *state;
    pgt_batch batch = pgt_batch_new("s", 300, 7);
    howdah_bus *bus;

    fill_pool(p);
    bus = pgt_open(p->t, p->url);
    for (int i = 0; i < 3; i++)
        pgt_ok(howdah_append_batch(bus, PGT_EVENTS(&batch), batch.n, NULL, batch.positions,
                                   &pgt_error));
    assert_int_equal(pgt_count(p->t), 300);
    assert_int_equal(batch.positions[299].version, 43);
    pgt_batch_free(&batch);
    howdah_close(bus);
    assert_nothing_is_left(p);
}

static void a_long_read_in_pages_sees_each_event_once_in_order(void **state)
{
    const pooler *p = *state;
    howdah_reader_options o = HOWDAH_READER_OPTIONS_INIT;
    pgt_batch batch = pgt_batch_new("s", 500, 1);
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    howdah_bus *bus;
    int64_t n = 0;

    pgt_ok(howdah_append_batch(p->t->bus, PGT_EVENTS(&batch), batch.n, NULL, batch.positions,
                               &pgt_error));
    pgt_batch_free(&batch);
    fill_pool(p);
    bus = pgt_open_with(p->t, p->url, "read_batch", "7");
    o.stream = "s";
    pgt_ok(howdah_reader_open(bus, &o, &reader, &pgt_error));
    while (howdah_reader_next(reader, &event, &pgt_error) == HOWDAH_OK) {
        assert_int_equal(howdah_event_version(event), ++n);
        if (n % 50 == 0) /* other transactions in between */
            (void)pgt_append(bus, "other");
    }
    assert_int_equal(n, 500);
    howdah_reader_close(reader);
    howdah_close(bus);
    assert_nothing_is_left(p);
}

/* The same statements in name, and each must find its own tables. */
static void two_buses_in_one_pool_never_meet(void **state)
{
    const pooler *p = *state;
    void *inner = NULL;
    howdah_bus *a;
    howdah_bus *b;
    pgt *other;

    (void)pgt_setup(&inner);
    other = inner;
    fill_pool(p);
    a = pgt_open(p->t, p->url);
    b = pgt_open(other, p->url);
    for (int i = 1; i <= 20; i++) {
        assert_int_equal(pgt_append(a, "s").version, i);
        if (i % 2)
            assert_int_equal(pgt_append(b, "s").version, (i + 1) / 2);
    }
    assert_int_equal(pgt_count(p->t), 20);
    assert_int_equal(pgt_count(other), 10);
    howdah_close(a);
    howdah_close(b);
    (void)pgt_teardown(&inner);
}

/* ---- what a session would be needed for */

/* A schema that is not there, on a bus for reading. */
static int migrate_unborn(const pooler *p)
{
    howdah_settings *settings = pgt_settings(p->t, "read_only", "true");
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int s;

    pgt_ok(howdah_settings_set(settings, "schema", "unborn", &pgt_error));
    pgt_ok(howdah_open(p->url, settings, &bus, &pgt_error));
    s = howdah_migrate(bus, NULL, &err);
    howdah_close(bus);
    howdah_settings_free(settings);
    return s;
}

static void a_bus_for_reading_refuses_writes_and_leaves_the_sessions_writable(void **state)
{
    const pooler *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;
    howdah_bus *bus;

    (void)pgt_append(p->t->bus, "s");
    fill_pool(p);
    bus = pgt_open_with(p->t, p->url, "read_only", "true");
    for (int i = 0; i < 2 * POOL; i++) {
        howdah_event *event = NULL;

        pgt_ok(howdah_event_get_last(bus, "s", &event, &pgt_error));
        assert_int_equal(howdah_event_version(event), 1);
        howdah_event_free(event);
        assert_int_equal(append_at(bus, "s", HOWDAH_EXPECT_ANY, &position, &err), HOWDAH_READ_ONLY);
    }
    howdah_close(bus);
    assert_int_equal(pgt_count(p->t), 1);
    assert_int_equal(migrate_unborn(p), HOWDAH_READ_ONLY);
    assert_int_equal(
        pgt_number(p->t, p->t->admin, "SELECT count(*) FROM pg_namespace WHERE nspname = 'unborn'"),
        0);
    assert_nothing_is_left(p);
}

static void migrating_and_importing_leave_nothing_behind(void **state)
{
    static const char *const map[] = {"stream=who", "type=what"};
    const pooler *p = *state;
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    int64_t imported = 0;
    howdah_bus *bus;

    pgt_run(p->t, p->t->admin,
            "CREATE TABLE public.pooler_old AS SELECT n AS id, 's' AS who, 'old' AS what,"
            " '{}'::json AS data, now() AS created_at FROM generate_series(1, 5) AS n");
    fill_pool(p);
    bus = pgt_open(p->t, p->url);
    pgt_ok(howdah_migrate(bus, NULL, &pgt_error));
    o.table = "pooler_old"; /* found by the search path of the role */
    o.map = map;
    o.map_n = 2;
    o.batch = 2;
    pgt_ok(howdah_import(bus, &o, &imported, &pgt_error));
    assert_int_equal(imported, 5);
    assert_int_equal(pgt_count(p->t), 5);
    howdah_close(bus);
    pgt_run(p->t, p->t->admin, "DROP TABLE public.pooler_old");
    assert_nothing_is_left(p);
}

/* Switched on in one session it would be off in the next: an append could be lost. */
static void synchronous_commit_off_is_refused_unless_losses_are_allowed(void **state)
{
    pooler *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int s;

    pgt_run(p->t, p->t->admin, "ALTER ROLE %s SET synchronous_commit = off", PQuser(p->t->admin));
    stop_pooler(p);
    start_pooler(p);
    s = howdah_open(p->url, p->t->settings, &bus, &err);
    if (s >= 0)
        howdah_close(bus);
    bus = pgt_open_with(p->t, p->url, "allow_lossy", "true");
    assert_int_equal(pgt_append(bus, "s").version, 1);
    howdah_close(bus);
    pgt_run(p->t, p->t->admin, "ALTER ROLE %s RESET synchronous_commit", PQuser(p->t->admin));
    assert_int_equal(s, HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, 0);
    assert_string_equal(err.message, "synchronous_commit is off here, and behind a pooler it "
                                     "cannot be switched on for our transactions only");
}

/* ---- subscriptions */

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    size_t *n = ctx;

    (void)event;
    (void)delivery;
    (*n)++;
    return HOWDAH_HANDLED;
}

static void wakeup_notify_is_refused(void **state)
{
    const pooler *p = *state;
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;
    howdah_subscription *sub = NULL;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = pgt_open_with(p->t, p->url, "wakeup", "notify");
    size_t n = 0;

    o.subscriber_id = "p";
    o.handler = on_event;
    o.ctx = &n;
    pgt_ok(howdah_subscribe(bus, &o, &sub, &pgt_error));
    (void)pgt_append(p->t->bus, "s");
    assert_int_equal(howdah_run(bus, 2000, &err), HOWDAH_FAILED);
    assert_string_equal(
        err.message, "wakeup=notify, but this session gets no notifications (is there a pooler?)");
    assert_int_equal(err.flags, 0);
    assert_int_equal(n, 0);
    howdah_close(bus);
}

/* ---- processes */

static bool effect(const sh_stage *stage, const howdah_delivery *delivery, const sh_sight *sight)
{
    const pooler *p = stage->ctx;
    PGresult *result = pgt_result(p->t, howdah_delivery_pg(delivery),
                                  "INSERT INTO {effects} (sequence, stream, version, subscriber)"
                                  " VALUES (%lld, %d, %d, '%s')",
                                  (long long)sight->sequence, sight->stream, sight->version,
                                  howdah_delivery_subscriber(delivery));
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    PQclear(result);
    return ok;
}

static int64_t number(const sh_stage *stage, const char *sql)
{
    const pooler *p = stage->ctx;

    return pgt_number(p->t, p->t->admin, "%s", sql);
}

static sh_stage open_stage(const pooler *p)
{
    sh_stage stage = {.bus = p->t->bus,
                      .settings = p->t->settings,
                      .ctx = p,
                      .lease_ms = 1000,
                      .take_over_ms = 3000, /* the lease, the next try, a busy machine */
                      .effect = effect,
                      .number = number};

    (void)snprintf(stage.url, sizeof stage.url, "%s", p->url);
    pgt_run(p->t, p->t->admin,
            "CREATE TABLE {effects} (id bigint GENERATED ALWAYS AS IDENTITY, sequence bigint,"
            " stream integer, version bigint, subscriber text)");
    fill_pool(p);
    return stage;
}

#define POLL_MS 200
#define POLL_SLACK_MS 1000 /* 50 ms on a machine that is free */

static void a_coordinated_subscription_has_a_lease_and_polls(void **state)
{
    const pooler *p = *state;
    sh_stage stage = open_stage(p);
    sh_board *board = sh_board_new();
    howdah_settings *settings = pgt_settings(p->t, "poll_interval", "200ms");
    sh_hand hand = {.stage = &stage, .board = board};
    int64_t quickest = INT64_MAX;
    pid_t pid;

    stage.settings = settings;
    hand.o = sh_options(&stage, "p", HOWDAH_CHECKPOINT_SYNC);
    assert_int_equal(hand.o.instance, HOWDAH_INSTANCE_COORDINATED);
    pid = sh_start(&hand);
    for (size_t i = 0; i < 6; i++) {
        int64_t start;

        (void)usleep(400000); /* it is asleep, at the longest pause */
        start = pgt_now_ms();
        (void)sh_append(&stage, "s1", "plain");
        sh_wait_seen(board, i + 1, PATIENCE_MS);
        if (i > 0 && board->seen[i].at_ms - start < quickest)
            quickest = board->seen[i].at_ms - start;
    }
    print_message("# the quickest delivery took %lld ms\n", (long long)quickest);
    assert_true(quickest <= POLL_MS + POLL_SLACK_MS); /* others may have met a busy machine */
    assert_int_equal(number(&stage, "SELECT count(*) FROM {subscriptions} WHERE subscriber_id = 'p'"
                                    " AND owner IS NOT NULL AND lease_until > clock_timestamp()"),
                     1);
    assert_int_equal(number(&stage, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"),
                     0);
    assert_nothing_is_left(p);
    sh_end(pid);
    assert_false(sh_stored(&stage, "p").owned);
    assert_string_equal(sh_times(board, 6), "111111");
    howdah_settings_free(settings);
    sh_board_free(board);
    assert_nothing_is_left(p);
}

static void kill_9_at_each_point_leaves_a_legal_state(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_kill_points(&stage);
    assert_nothing_is_left(*state);
}

static void a_killed_owner_is_followed_when_its_lease_is_over(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_take_over(&stage);
    assert_nothing_is_left(*state);
}

static void an_owner_that_slept_through_its_lease_is_refused_and_steps_down(void **state)
{
    sh_stage stage = open_stage(*state);

    sh_case_zombie(&stage, HOWDAH_INSTANCE_COORDINATED);
    assert_nothing_is_left(*state);
}

#define WRITERS 4
#define WRITES 100

/* Every fourth number is drawn and rolled back, through the pool too. */
static void write_events(const sh_stage *stage, int me)
{
    const pooler *p = stage->ctx;
    howdah_bus *bus = NULL;
    PGconn *conn = PQconnectdb(p->url);
    char stream[8];

    if (howdah_open(p->url, p->t->settings, &bus, NULL) < 0)
        _exit(3);
    (void)snprintf(stream, sizeof stream, "s%d", me);
    for (int i = 0; i < WRITES; i++) {
        howdah_event *event = pgt_event(stream);

        if (howdah_append(bus, event, NULL, NULL, NULL) < 0)
            _exit(4);
        howdah_event_free(event);
        if (i % 4 == 0) {
            PQclear(pgt_result(p->t, conn, "BEGIN"));
            PQclear(pgt_result(p->t, conn, "SELECT {append}('gone', 't')"));
            (void)usleep(hw_random_u32() % 5000);
            PQclear(pgt_result(p->t, conn, "ROLLBACK"));
        }
    }
    PQfinish(conn);
    howdah_close(bus);
    _exit(0);
}

static void many_writers_and_a_kill_lose_nothing_and_repeat_no_effect(void **state)
{
    const pooler *p = *state;
    sh_stage stage = open_stage(p);
    sh_board *board = sh_board_new();
    sh_hand hand = {.stage = &stage, .board = board};
    pid_t hands[2];
    pid_t writers[WRITERS];
    int64_t last;
    int owner;

    hand.o = sh_options(&stage, "p", HOWDAH_CHECKPOINT_TRANSACTIONAL);
    for (hand.who = 0; hand.who < 2; hand.who++)
        hands[hand.who] = sh_start(&hand);
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = fork();
        assert_true(writers[i] >= 0);
        if (writers[i] == 0)
            write_events(&stage, i);
    }
    sh_wait_seen(board, 50, PATIENCE_MS);
    owner = board->seen[49].who;
    sh_kill(hands[owner]);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(sh_result(writers[i]), 0);
    last = number(&stage, "SELECT max(global_sequence) FROM {events}");
    sh_wait_stored(&stage, "p", last);
    sh_end(hands[1 - owner]);
    assert_int_equal(pgt_count(p->t), WRITERS * WRITES);
    assert_int_equal(number(&stage, "SELECT count(*) FROM {effects}"), WRITERS * WRITES);
    assert_int_equal(number(&stage, "SELECT count(DISTINCT sequence) FROM {effects}"),
                     WRITERS * WRITES);
    assert_int_equal(number(&stage, "SELECT count(*) FROM {dead_letters}"), 0);
    assert_int_equal(number(&stage, "SELECT count(*) FROM {skips}"), 0);
    assert_int_equal(sh_disorder(board), 0);
    /* One owner at a time: after the first sight by the other there is none by the killed one. */
    for (size_t i = 50, other = 0; i < atomic_load(&board->n); i++) {
        other += board->seen[i].who != owner;
        assert_true(other == 0 || board->seen[i].who != owner);
    }
    sh_board_free(board);
    assert_nothing_is_left(p);
}

#define POOLER_TEST(name) cmocka_unit_test_setup_teardown(name, pooler_setup, pooler_teardown)

static const struct CMUnitTest tests[] = {
    POOLER_TEST(expected_versions_hold_and_a_conflict_names_the_actual_one),
    POOLER_TEST(a_batch_is_stored_whole_and_repeated_without_harm),
    POOLER_TEST(a_long_read_in_pages_sees_each_event_once_in_order),
    POOLER_TEST(two_buses_in_one_pool_never_meet),
    POOLER_TEST(a_bus_for_reading_refuses_writes_and_leaves_the_sessions_writable),
    POOLER_TEST(migrating_and_importing_leave_nothing_behind),
    POOLER_TEST(synchronous_commit_off_is_refused_unless_losses_are_allowed),

    POOLER_TEST(wakeup_notify_is_refused),
    POOLER_TEST(a_coordinated_subscription_has_a_lease_and_polls),
    POOLER_TEST(kill_9_at_each_point_leaves_a_legal_state),
    POOLER_TEST(a_killed_owner_is_followed_when_its_lease_is_over),
    POOLER_TEST(an_owner_that_slept_through_its_lease_is_refused_and_steps_down),
    POOLER_TEST(many_writers_and_a_kill_lose_nothing_and_repeat_no_effect),
};

PGT_MAIN("pg pooler", tests)
