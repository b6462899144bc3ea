/* test_bell.c - who sleeps is woken, and only for a reason. */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "suite.h"

#define SOON_MS 60
#define LONG_MS 40000

static void listen_and_arm(const ss *t)
{
    expect(t->subs->listen(t->store, true, NULL, 0, &ss_error), HOWDAH_OK);
    ok(t->subs->arm(t->store, &ss_error));
}

/* What another thread does, with a handle of its own, while the first one sleeps. */
typedef struct deed {
    const ss *t;
    void (*act)(const ss *t, hw_store *other);
    hw_store *other;
} deed;

static void *run_deed(void *ctx)
{
    deed *d = ctx;

    hw_clock_sleep_ms(SOON_MS);
    d->act(d->t, d->other);
    return NULL;
}

/* Sleeps up to ms while the other acts; the status of the wait, and how long it took. */
static int wait_while(const ss *t, void (*act)(const ss *t, hw_store *other), int64_t ms,
                      int64_t *ret_took_ms)
{
    deed d = {t, act, ss_open(t)};
    int64_t since = hw_clock_mono_ms();
    uint64_t session;
    pthread_t thread;
    int s;

    ok(d.other->ops->subs->session(d.other, &session, &ss_error));
    assert_int_equal(pthread_create(&thread, NULL, run_deed, &d), 0);
    s = t->subs->wait(t->store, ms, &ss_error);
    *ret_took_ms = hw_clock_mono_ms() - since;
    assert_int_equal(pthread_join(thread, NULL), 0);
    d.other->ops->close(d.other);
    return s;
}

static void ring(const ss *t, hw_store *other)
{
    hw_str type = S("a.b");

    (void)t;
    (void)other->ops->subs->ring(other, &type, 1, NULL);
}

static void append_and_ring(const ss *t, hw_store *other)
{
    hw_event_free(ss_append(other, "s", "a.b", NULL));
    ring(t, other);
}

static void a_ring_wakes_a_sleeper(void **state)
{
    ss *t = *state;
    int64_t took;

    listen_and_arm(t);
    expect(wait_while(t, ring, LONG_MS, &took), HOWDAH_OK);
    assert_true(took >= SOON_MS - 1 && took < LONG_MS / 2);
}

static void an_append_and_its_ring_wake_a_sleeper_again_and_again(void **state)
{
    ss *t = *state;
    int64_t took;

    listen_and_arm(t);
    for (int i = 0; i < 5; i++) {
        int64_t head = 0;

        expect(wait_while(t, append_and_ring, LONG_MS, &took), HOWDAH_OK);
        assert_true(took < LONG_MS / 2);
        /* The one thing that a wake-up says is "look"; a moment later at the latest it is there. */
        for (int n = 0; head != i + 1 && n < 1000; n++) {
            ok(t->store->ops->head(t->store, &head, &ss_error));
            hw_clock_sleep_ms(1);
        }
        assert_int_equal(head, i + 1);
        hw_clock_sleep_ms(20);
        ok(t->subs->arm(t->store, &ss_error));
    }
}

static void a_wait_without_a_ring_ends_in_time(void **state)
{
    ss *t = *state;
    int64_t since;

    listen_and_arm(t);
    since = hw_clock_mono_ms();
    expect(t->subs->wait(t->store, 150, &ss_error), HOWDAH_END);
    assert_true(hw_clock_mono_ms() - since >= 149);
    assert_true(hw_clock_mono_ms() - since < 20000);
    expect(t->subs->wait(t->store, 0, &ss_error), HOWDAH_END);
}

static void raise_interrupt(const ss *t, hw_store *other)
{
    uint64_t one = 1;
    hw_interrupt *interrupt = (hw_interrupt *)(uintptr_t)&t->interrupt;

    (void)other;
    atomic_store(&interrupt->raised, true);
    assert_int_equal(write(interrupt->fd, &one, sizeof one), sizeof one);
}

static void an_interrupt_ends_the_wait(void **state)
{
    ss *t = *state;
    uint64_t n;
    int64_t took;

    listen_and_arm(t);
    expect(wait_while(t, raise_interrupt, LONG_MS, &took), HOWDAH_INTERRUPTED);
    assert_true(took < LONG_MS / 2);
    expect(t->subs->wait(t->store, LONG_MS, &ss_error), HOWDAH_INTERRUPTED);
    assert_int_equal(read(t->interrupt.fd, &n, sizeof n), sizeof n);
    atomic_store(&t->interrupt.raised, false);
    expect(t->subs->wait(t->store, 10, &ss_error), HOWDAH_END);
}

/* Until it is quiet. */
static void wait_until_quiet(const ss *t)
{
    while (t->subs->wait(t->store, 400, &ss_error) == HOWDAH_OK)
        continue;
    ok(t->subs->arm(t->store, &ss_error));
}

static void nobody_wakes_himself_by_his_own_checkpoints(void **state)
{
    ss *t = *state;
    hw_sub_news news;
    hw_checkpoint c;

    ss_create(t, "s");
    c = ss_at("s", ss_take(t->store, "s", "a"), 1);
    listen_and_arm(t);
    wait_until_quiet(t);
    for (int i = 0; i < 3; i++) {
        c.high++;
        ok(t->subs->checkpoint(t->store, &c, 1, 60000, &news, &ss_error));
        expect(t->subs->wait(t->store, 300, &ss_error), HOWDAH_END);
    }
}

static void renew_other(const ss *t, hw_store *other)
{
    hw_take take = {S("other"), HOWDAH_INSTANCE_LEASE, S("b"), 60000};
    row r = {.there = false};
    hw_sub_news news;
    hw_checkpoint c;

    (void)t;
    expect(other->ops->subs->take(other, &take, ss_keep_row, &r, &ss_error), HOWDAH_OK);
    c = ss_at("other", r.row.token, 1);
    ok(other->ops->subs->checkpoint(other, &c, 1, 60000, &news, &ss_error));
}

static void the_checkpoints_of_others_wake_nobody(void **state)
{
    ss *t = *state;
    int64_t took;

    ss_create(t, "other");
    listen_and_arm(t);
    wait_until_quiet(t);
    expect(wait_while(t, renew_other, 500, &took), HOWDAH_END);
}

/* The SQL shell, or a program that appends inside a transaction of its own. */
static void insert_by_sql(const ss *t, hw_store *other)
{
    (void)other;
    /* A trigger is there on request only; and where PREPARE TRANSACTION is possible, a plain
       session has to say that it wants to ring. */
    if (ss_is_pg())
        ss_sql(t, "SET howdah.ring = on; SELECT {ring_for_raw_inserts}(true);"
                  " INSERT INTO {events} (stream, version, type, data) VALUES ('r', 1, 't', '{}')");
    else
        ss_sql(t, "INSERT INTO {events} (stream, version, type, data) VALUES ('r', 1, 't', '{}')");
}

static void a_plain_insert_is_noticed(void **state)
{
    ss *t = *state;
    int64_t took;

    listen_and_arm(t);
    wait_until_quiet(t);
    expect(wait_while(t, insert_by_sql, LONG_MS, &took), HOWDAH_OK);
    assert_true(took < LONG_MS / 2);
}

static void another_process_is_heard(void **state)
{
    ss *t = *state;
    int status = 0;
    pid_t pid;

    listen_and_arm(t);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        hw_store *other = ss_open(t);

        hw_clock_sleep_ms(SOON_MS);
        append_and_ring(t, other);
        other->ops->close(other);
        _exit(0);
    }
    expect(t->subs->wait(t->store, LONG_MS, &ss_error), HOWDAH_OK);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void the_descriptor_becomes_readable_for_a_ring(void **state)
{
    ss *t = *state;
    hw_store *other = ss_open(t);
    struct pollfd p = {.events = POLLIN};

    listen_and_arm(t);
    wait_until_quiet(t);
    p.fd = t->subs->fd(t->store);
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 50), 0);
    ss_append_many(other, "a.b", 1);
    ring(t, other);
    assert_int_equal(poll(&p, 1, LONG_MS), 1);
    expect(t->subs->wait(t->store, LONG_MS, &ss_error), HOWDAH_OK);
    other->ops->close(other);
}

static void a_session_stays_the_same(void **state)
{
    ss *t = *state;
    uint64_t first = 0;
    uint64_t second = 0;

    ok(t->subs->session(t->store, &first, &ss_error));
    assert_true(first > 0);
    ss_append_many(t->store, "a.b", 1);
    ok(t->subs->session(t->store, &second, &ss_error));
    assert_true(first == second);
}

static void replace_file(const ss *t, hw_store *other)
{
    char command[512];

    (void)other;
    /* NOLINTNEXTLINE(cert-env33-c): paths of our own */
    (void)snprintf(command, sizeof command,
                   "cd '%s' && sqlite3 bus.db '.backup new.db' && mv bus.db old.db &&"
                   " mv bus.db-wal old.db-wal && mv bus.db-shm old.db-shm && mv new.db bus.db",
                   t->dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static void a_file_that_is_replaced_is_another_session(void **state)
{
    ss *t = *state;
    uint64_t before = 0;
    uint64_t after = 0;
    int64_t took;

    if (ss_is_pg())
        return;
    ok(t->subs->session(t->store, &before, &ss_error));
    listen_and_arm(t);
    (void)wait_while(t, replace_file, LONG_MS, &took);
    assert_true(took < LONG_MS / 2);
    ok(t->subs->session(t->store, &after, &ss_error));
    assert_true(after > before);
    listen_and_arm(t);
    wait_until_quiet(t);
    expect(wait_while(t, append_and_ring, LONG_MS, &took), HOWDAH_OK);
}

static void in_memory_there_is_only_the_clock(void **state)
{
    ss *t = *state;
    hw_config config = t->config;
    hw_store *store = NULL;

    config.url = "sqlite::memory:";
    ok(hw_store_open(&config, &store, &ss_error));
    ok(store->ops->migrate(store, NULL, NULL, &ss_error));
    expect(store->ops->subs->listen(store, true, NULL, 0, &ss_error), HOWDAH_END);
    assert_int_equal(store->ops->subs->fd(store), -1);
    ok(store->ops->subs->arm(store, &ss_error));
    ok(store->ops->subs->ring(store, NULL, 0, &ss_error));
    expect(store->ops->subs->wait(store, 20, &ss_error), HOWDAH_END);
    raise_interrupt(t, NULL);
    expect(store->ops->subs->wait(store, LONG_MS, &ss_error), HOWDAH_INTERRUPTED);
    store->ops->close(store);
}

ss_group ss_bell_tests(void)
{
    static const struct CMUnitTest tests[] = {
        SS_TEST(a_ring_wakes_a_sleeper),
        SS_TEST(an_append_and_its_ring_wake_a_sleeper_again_and_again),
        SS_TEST(a_wait_without_a_ring_ends_in_time),
        SS_TEST(an_interrupt_ends_the_wait),
        SS_TEST(nobody_wakes_himself_by_his_own_checkpoints),
        SS_TEST(the_checkpoints_of_others_wake_nobody),
        SS_TEST(a_plain_insert_is_noticed),
        SS_TEST(another_process_is_heard),
        SS_TEST(the_descriptor_becomes_readable_for_a_ring),
        SS_TEST(a_session_stays_the_same),
        SS_TEST(a_file_that_is_replaced_is_another_session),
        SS_TEST(in_memory_there_is_only_the_clock),
    };
    return SS_GROUP(tests);
}
