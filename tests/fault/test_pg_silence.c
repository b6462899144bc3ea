/*
 * test_pg_silence.c - F46: networks that swallow everything, or one direction, and close nothing.
 * The owner behind one finds out and gives its connection up, somebody else goes on meanwhile, and
 * nothing is delivered twice.  Runs with a server of its own.
 *
 * Silence takes its time, so all networks fall silent at once.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cutproxy.h"
#include "subs_help.h"
#include "test_pg_help.h"

#define LEASE_MS 2000
#define TAKE_OVER_MS (LEASE_MS + 1000)
#define NOTICED_MS 12000 /* by us, and by the server */
#define SLACK_MS 10000   /* of a busy machine */
#define BACK_MS 60000    /* back-off, and the time of an attempt to connect */
#define PASSWORD "silence"

typedef struct line {
    const char *id;
    cutproxy_how how;
    howdah_instance instance;
    cutproxy proxy;
    sh_board *board;
    atomic_llong *noticed_ms; /* shared; 0: not yet */
    pid_t owner;
    pid_t standby;
    char url[300];
} line;

/* Only where TCP itself gets no answers the server learns that an owner's session is gone. */
static line lines[] = {
    {.id = "both", .how = CUTPROXY_BLACKHOLE, .instance = HOWDAH_INSTANCE_LEASE},
    {.id = "to_server", .how = CUTPROXY_IGNORES, .instance = HOWDAH_INSTANCE_LEASE},
    {.id = "to_client", .how = CUTPROXY_MUTE, .instance = HOWDAH_INSTANCE_LEASE},
    {.id = "link", .how = CUTPROXY_LINK_DOWN, .instance = HOWDAH_INSTANCE_COORDINATED},
};

#define LINES (sizeof lines / sizeof lines[0])
#define LINK (&lines[LINES - 1])

static void on_log(void *ctx, int level, const char *message)
{
    atomic_llong *noticed_ms = ctx;
    long long never = 0;

    (void)level;
    if (strcmp(message, "PostgreSQL is silent: the connection is given up") == 0)
        (void)atomic_compare_exchange_strong(noticed_ms, &never, pgt_now_ms());
}

static sh_stage open_stage(const pgt *t, const howdah_settings *settings)
{
    sh_stage stage = {.bus = t->bus, .settings = settings, .ctx = t, .lease_ms = LEASE_MS};

    (void)snprintf(stage.url, sizeof stage.url, "%s", t->url);
    return stage;
}

static void start_owner(const pgt *t, const sh_stage *stage, line *l)
{
    const char *tcp = pgt_env("HOWDAH_TEST_PG_TCP");
    sh_hand hand = {.stage = stage, .board = l->board, .url = l->url, .app = l->id};
    char path[300];

    (void)snprintf(path, sizeof path, "%s/.s.PGSQL.%s", PQhost(t->admin), PQport(t->admin));
    assert_true(l == LINK ? cutproxy_start_tcp(&l->proxy, atoi(strrchr(tcp, ':') + 1))
                          : cutproxy_start(&l->proxy, path));
    (void)snprintf(l->url, sizeof l->url, "postgres://silence_login:" PASSWORD "@127.0.0.1:%d/%s",
                   l->proxy.port, PQdb(t->admin));
    hand.o = sh_options(stage, l->id, HOWDAH_CHECKPOINT_SYNC);
    hand.o.instance = l->instance;
    howdah_log_set(on_log, l->noticed_ms); /* the process that is forked takes it along */
    l->owner = sh_start(&hand);
    howdah_log_set(NULL, NULL);
}

static void start_standby(const sh_stage *stage, line *l)
{
    sh_hand hand = {.stage = stage, .board = l->board, .who = 1};

    hand.o = sh_options(stage, l->id, HOWDAH_CHECKPOINT_SYNC);
    hand.o.instance = l->instance;
    l->standby = sh_start(&hand);
}

/* ---- somebody who waits, and for a reason */

typedef struct patient {
    const pgt *t;
    int status;
    int64_t took_ms;
} patient;

static void *append_behind_a_lock(void *arg)
{
    patient *p = arg;
    howdah_event *event = pgt_event("patient");
    int64_t start = pgt_now_ms();

    p->status = howdah_append(p->t->bus, event, NULL, NULL, NULL);
    p->took_ms = pgt_now_ms() - start;
    howdah_event_free(event);
    return NULL;
}

/* ---- the test */

static int64_t sessions(const pgt *t, const line *l)
{
    return pgt_number(t, t->admin,
                      "SELECT count(*) FROM pg_stat_activity WHERE application_name = '%s'", l->id);
}

static void wait_noticed(const line *l, int64_t dark_ms)
{
    while (atomic_load(l->noticed_ms) == 0) {
        if (pgt_now_ms() - dark_ms > NOTICED_MS + SLACK_MS)
            fail_msg("%s: not noticed", l->id);
        (void)usleep(5000);
    }
    print_message("# %s: noticed after %lld ms\n", l->id,
                  (long long)(atomic_load(l->noticed_ms) - dark_ms));
}

static void all_become_owned(const pgt *t, const sh_stage *stage)
{
    for (size_t i = 0; i < LINES; i++) {
        lines[i].board = sh_board_new();
        lines[i].noticed_ms = mmap(NULL, sizeof *lines[i].noticed_ms, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(lines[i].noticed_ms != MAP_FAILED);
        start_owner(t, stage, &lines[i]);
    }
    (void)sh_append(stage, "s1", "plain");
    for (size_t i = 0; i < LINES; i++) {
        sh_wait_stored(stage, lines[i].id, 1);
        assert_int_equal(sessions(t, &lines[i]), 1);
        start_standby(stage, &lines[i]);
    }
    (void)usleep(500000); /* they stand by */
}

static void others_take_over(const pgt *t, const sh_stage *stage, int64_t dark_ms)
{
    int64_t gone_ms;

    for (size_t i = 0; i < LINES; i++)
        if (&lines[i] != LINK)
            sh_wait_seen(lines[i].board, 2, TAKE_OVER_MS + SLACK_MS);
    for (size_t i = 0; i < LINES; i++) {
        wait_noticed(&lines[i], dark_ms);
        if (&lines[i] != LINK)
            CUTPROXY(&lines[i].proxy, .how = CUTPROXY_PASS);
    }
    /* The lock is the old owner's until the server, too, has found out. */
    while (sessions(t, LINK) > 0 && pgt_now_ms() - dark_ms < NOTICED_MS + SLACK_MS)
        (void)usleep(5000);
    gone_ms = pgt_now_ms();
    print_message("# %s: the session was gone after %lld ms\n", LINK->id,
                  (long long)(gone_ms - dark_ms));
    assert_int_equal(sessions(t, LINK), 0);
    sh_wait_seen(LINK->board, 2, TAKE_OVER_MS + SLACK_MS);
    CUTPROXY(&LINK->proxy, .how = CUTPROXY_PASS);
    for (size_t i = 0; i < LINES; i++)
        sh_wait_stored(stage, lines[i].id, 2);
}

/* Whoever was cut off stands by again, and is the next. */
static void all_come_back(const sh_stage *stage)
{
    for (size_t i = 0; i < LINES; i++)
        sh_end(lines[i].standby);
    (void)sh_append(stage, "s1", "plain");
    for (size_t i = 0; i < LINES; i++)
        sh_wait_seen(lines[i].board, 3, BACK_MS);
    for (size_t i = 0; i < LINES; i++) {
        sh_wait_stored(stage, lines[i].id, 3);
        sh_end(lines[i].owner);
        assert_string_equal(sh_times(lines[i].board, 3), "111");
        for (size_t n = 0; n < 3; n++)
            assert_int_equal(lines[i].board->seen[n].who, n == 1);
        cutproxy_stop(&lines[i].proxy);
        sh_board_free(lines[i].board);
        (void)munmap(lines[i].noticed_ms, sizeof *lines[i].noticed_ms);
    }
}

static void a_silent_network_is_noticed_and_somebody_else_goes_on(void **state)
{
    const pgt *t = *state;
    howdah_settings *settings = pgt_settings(t, "connect_timeout", "2s");
    sh_stage stage = open_stage(t, settings);
    patient waiter = {0};
    void *other = NULL;
    pthread_t thread;
    int64_t dark_ms;

    pgt_run(t, t->admin, "CREATE ROLE silence_login SUPERUSER LOGIN PASSWORD '" PASSWORD "'");
    (void)pgt_setup(&other);
    waiter.t = other;
    all_become_owned(t, &stage);
    pgt_run(waiter.t, waiter.t->admin, "BEGIN; LOCK TABLE {events}");
    assert_int_equal(pthread_create(&thread, NULL, append_behind_a_lock, &waiter), 0);
    dark_ms = pgt_now_ms();
    for (size_t i = 0; i < LINES; i++)
        CUTPROXY(&lines[i].proxy, .how = lines[i].how);
    (void)sh_append(&stage, "s1", "plain");
    others_take_over(t, &stage, dark_ms);
    /* A server that is busy is not silent: it answers when it is asked whether it is there. */
    pgt_run(waiter.t, waiter.t->admin, "COMMIT");
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.status, HOWDAH_OK);
    assert_true(waiter.took_ms > 6000);
    all_come_back(&stage);
    howdah_settings_free(settings);
    (void)pgt_teardown(&other);
    pgt_run(t, t->admin, "DROP ROLE silence_login");
}

static const struct CMUnitTest tests[] = {
    PGT_TEST(a_silent_network_is_noticed_and_somebody_else_goes_on),
};

PGT_MAIN("pg silence", tests)
