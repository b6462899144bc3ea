/*
 * test_pg_subs_race.c - the proof of subscriptions: sixteen writers of every kind, sessions killed
 * at random, the server ended in the middle, and three subscriptions whose processes are killed,
 * stopped and started again all the time.
 *
 *   transactional   effects are rows in the handler's transaction, coordinated by a lock
 *   synchronous     effects are notes in memory that outlive the process, coordinated by a lock
 *   filtered        the same, one pattern only, coordinated by a lease
 *
 * Afterwards: lost 0, phantom 0, stream order violations 0, transactional effects done twice 0.
 * HOWDAH_RACE_SECONDS makes it longer.  Runs with a server of its own.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>

#include "base/random.h"
#include "race_writers.h"

#define SUBS 3
#define INSTANCES 2
#define HANDS (SUBS * INSTANCES)
#define SEEN_MAX (1024 * 1024)
#define PATIENCE_MS 60000

enum { TRANSACTIONAL, SYNCHRONOUS, FILTERED };

static const char *const ids[SUBS] = {"race:transactional", "race:synchronous", "race:filtered"};

typedef struct sighting {
    int64_t sequence;
    int32_t stream;
    int32_t version;
} sighting;

/* Shared by the processes of one subscription and the test. */
typedef struct ledger {
    atomic_size_t n;
    sighting seen[SEEN_MAX];
} ledger;

typedef struct stage {
    ledger ledgers[SUBS];
    atomic_int odd; /* a process gave up */
    pid_t pids[HANDS];
    int kills;
    int stops;
    int restarts;    /* of the server */
    int64_t restart; /* when */
} stage;

static stage *all;

/* ---- the subscribers */

typedef struct hand {
    const pgt *t;
    int sub;
} hand;

static bool effect(const hand *h, PGconn *conn, const sighting *s)
{
    PGresult *result = pgt_result(h->t, conn,
                                  "INSERT INTO {effects} (sequence, stream, version)"
                                  " VALUES (%lld, %d, %d)",
                                  (long long)s->sequence, s->stream, s->version);
    bool ok = PQresultStatus(result) == PGRES_COMMAND_OK;

    PQclear(result);
    return ok;
}

static int on_event(void *ctx, const howdah_event *event, howdah_delivery *delivery)
{
    const hand *h = ctx;
    ledger *l = &all->ledgers[h->sub];
    size_t at = atomic_fetch_add(&l->n, 1);
    sighting s = {howdah_event_global_sequence(event),
                  race_stream_number(howdah_event_stream(event)),
                  (int32_t)howdah_event_version(event)};

    if (at >= SEEN_MAX)
        _exit(70);
    l->seen[at] = s;
    if (hw_random_u32() % 64 == 0)
        (void)usleep(hw_random_u32() % 20000); /* to be killed in the middle of it */
    if (h->sub == TRANSACTIONAL && !effect(h, howdah_delivery_pg(delivery), &s))
        return howdah_delivery_fail(delivery, "the effect failed");
    return HOWDAH_HANDLED;
}

static howdah_bus *own_bus;

static void on_term(int signal)
{
    (void)signal;
    /* NOLINTNEXTLINE(bugprone-signal-handler,cert-sig30-c): it is made for this */
    howdah_interrupt(own_bus);
}

static howdah_subscribe_options options_of(hand *h)
{
    howdah_subscribe_options o = HOWDAH_SUBSCRIBE_OPTIONS_INIT;

    o.subscriber_id = ids[h->sub];
    o.handler = on_event;
    o.ctx = h;
    o.checkpoint =
        h->sub == TRANSACTIONAL ? HOWDAH_CHECKPOINT_TRANSACTIONAL : HOWDAH_CHECKPOINT_SYNC;
    o.max_retries = 1000; /* a session that is killed under a handler is not the event's fault */
    o.retry_delay_ms = 5;
    o.max_retry_delay_ms = 50;
    if (h->sub == FILTERED) {
        o.pattern = "race.*";
        o.instance = HOWDAH_INSTANCE_LEASE;
        o.lease_ms = 1000;
    }
    return o;
}

/* The server may be away when it begins: that is an error of open and subscribe. */
static int begin(const pgt *t, hand *h, howdah_error *err)
{
    howdah_subscribe_options o = options_of(h);
    howdah_subscription *sub = NULL;
    char url[1200];
    int s;

    (void)snprintf(url, sizeof url, "%s", pgt_url_with(t->url, "application_name=race-sub"));
    do {
        howdah_close(own_bus);
        own_bus = NULL;
        s = howdah_open(url, t->settings, &own_bus, err);
        if (s >= 0)
            s = howdah_subscribe(own_bus, &o, &sub, err);
    } while (s < 0 && (err->flags & (HOWDAH_RETRYABLE | HOWDAH_OUTCOME_UNKNOWN)));
    return s;
}

static void be_subscriber(const pgt *t, int me)
{
    hand h = {t, me / INSTANCES};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s;

    s = begin(t, &h, &err);
    if (s >= 0) {
        (void)signal(SIGTERM, on_term);
        race_let_term(true); /* one that came before is delivered now */
        s = howdah_run(own_bus, -1, &err);
    }
    if (s < 0 && s != HOWDAH_INTERRUPTED) {
        (void)fprintf(stderr, "# %s: %s %s\n", ids[h.sub], howdah_status_name(s), err.message);
        (void)atomic_fetch_add(&all->odd, 1);
    }
    howdah_close(own_bus);
}

/* ---- what befalls them */

static void kill_hand(const pgt *t, int i)
{
    int status = 0;

    assert_int_equal(kill(all->pids[i], SIGKILL), 0);
    assert_int_equal(waitpid(all->pids[i], &status, 0), all->pids[i]);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL); /* it was alive */
    all->kills++;
    all->pids[i] = race_start(t, i, be_subscriber);
}

static void stop_hand(int i)
{
    assert_int_equal(kill(all->pids[i], SIGSTOP), 0);
    (void)usleep(hw_random_u32() % 4 == 0 ? 1500000 : hw_random_u32() % 300000);
    assert_int_equal(kill(all->pids[i], SIGCONT), 0);
    all->stops++;
}

static bool meanwhile(const pgt *t, void *ctx)
{
    const int64_t *half_time = ctx;
    int i = (int)(hw_random_u32() % HANDS);

    (void)usleep(50000 + hw_random_u32() % 200000);
    if (all->restarts == 0 && pgt_now_ms() > *half_time) {
        pgt_ctl("stop -m immediate");
        (void)usleep(300000);
        pgt_ctl("start");
        all->restarts++;
        all->restart = pgt_now_ms();
    }
    if (hw_random_u32() % 3 == 0)
        stop_hand(i);
    else
        kill_hand(t, i);
    return all->kills >= 5 && all->stops >= 1 && all->restarts == 1 &&
           atomic_load(&race_all->kills) >= 10;
}

/* ---- the verdict */

static int64_t stored(const pgt *t, int sub)
{
    return pgt_number(
        t, t->admin,
        "SELECT least(high, coalesce(outstanding[1], high + 1) - 1) FROM {subscriptions}"
        " WHERE subscriber_id = '%s'",
        ids[sub]);
}

/* As long as it comes nearer. */
static void wait_for_subscription(const pgt *t, int sub, int64_t head)
{
    int64_t before = -1;
    int64_t now;

    for (int64_t until = pgt_now_ms() + PATIENCE_MS; (now = stored(t, sub)) < head;) {
        if (now > before)
            until = pgt_now_ms() + PATIENCE_MS;
        else if (pgt_now_ms() > until)
            fail_msg("%s stays at %lld of %lld", ids[sub], (long long)now, (long long)head);
        before = now;
        (void)usleep(10000);
    }
}

static int by_sequence(const void *a, const void *b)
{
    const sighting *x = a;
    const sighting *y = b;

    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

static bool is_seen(const unsigned char *seen, int64_t sequence)
{
    return seen[sequence / 8] & (1 << sequence % 8);
}

/* First sights of each stream are in order; all of them are in "whole" streams. */
static void check_order(int sub, int64_t head)
{
    const ledger *l = &all->ledgers[sub];
    unsigned char *seen = calloc((size_t)head / 8 + 1, 1);
    int32_t last[RACE_STREAMS] = {0};

    assert_non_null(seen);
    for (size_t i = 0; i < atomic_load(&l->n); i++) {
        const sighting *s = &l->seen[i];

        assert_in_range(s->stream, 0, RACE_STREAMS - 1);
        assert_in_range(s->sequence, 1, head);
        if (is_seen(seen, s->sequence))
            continue;
        seen[s->sequence / 8] |= (unsigned char)(1 << s->sequence % 8);
        if (sub == FILTERED ? s->version <= last[s->stream] : s->version != last[s->stream] + 1)
            fail_msg("%s: stream s%d version %d behind %d", ids[sub], s->stream, s->version,
                     last[s->stream]);
        last[s->stream] = s->version;
    }
    free(seen);
}

/* Each event of the truth at least once, and nothing else; how many came again. */
static size_t check_complete(int sub, const PGresult *truth)
{
    ledger *l = &all->ledgers[sub];
    size_t n = atomic_load(&l->n);
    size_t rows = (size_t)PQntuples(truth);
    size_t at = 0;

    qsort(l->seen, n, sizeof *l->seen, by_sequence);
    for (size_t i = 0; i < rows; i++) {
        int64_t wanted = strtoll(PQgetvalue(truth, (int)i, 0), NULL, 10);
        size_t first = at;

        while (at < n && l->seen[at].sequence == wanted) {
            assert_int_equal(l->seen[at].stream, race_stream_number(PQgetvalue(truth, (int)i, 1)));
            assert_int_equal(l->seen[at].version, strtol(PQgetvalue(truth, (int)i, 2), NULL, 10));
            at++;
        }
        if (at == first)
            fail_msg("%s: %s %lld", ids[sub],
                     at < n && l->seen[at].sequence < wanted ? "phantom before" : "lost",
                     (long long)wanted);
    }
    assert_int_equal(at, n);
    return n - rows;
}

static PGresult *truth_of(const pgt *t, const char *where)
{
    return pgt_result(t, t->admin,
                      "SELECT global_sequence, stream, version FROM {events} WHERE %s ORDER BY 1",
                      where);
}

/* Rows that were committed with their checkpoints. */
static void check_effects(const pgt *t, int64_t events)
{
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {effects}"), events);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(DISTINCT sequence) FROM {effects}"),
                     events);
    assert_int_equal(pgt_number(t, t->admin,
                                "SELECT count(*) FROM {effects} f JOIN {events} e"
                                " ON e.global_sequence = f.sequence AND e.version = f.version"
                                " AND e.stream = 's' || f.stream"),
                     events);
    assert_int_equal(
        pgt_number(t, t->admin,
                   "SELECT count(*) FROM (SELECT version, lag(version, 1, 0::bigint) OVER"
                   " (PARTITION BY stream ORDER BY id) AS before FROM {effects}) AS o"
                   " WHERE version <> before + 1"),
        0);
}

static void nothing_is_lost_and_no_effect_is_done_twice(void **state)
{
    pgt *t = *state;
    long seconds = race_seconds(6);
    int64_t half_time = pgt_now_ms() + seconds * 500;
    PGresult *truth;
    PGresult *some;
    size_t again[SUBS];
    int64_t head;

    for (int i = 0; i < HANDS; i++)
        all->pids[i] = race_start(t, i, be_subscriber);
    race_run(t, seconds, meanwhile, &half_time);
    pgt_reconnect(t);
    race_finish_prepared(t, t->admin, "0");
    truth = truth_of(t, "true");
    some = truth_of(t, "type LIKE 'race.%'");
    head = pgt_number(t, t->admin, "SELECT max(global_sequence) FROM {events}");
    for (int i = 0; i < SUBS; i++)
        wait_for_subscription(t, i, head);
    (void)usleep(200000); /* for what should not come any more */
    for (int i = 0; i < HANDS; i++) {
        assert_int_equal(kill(all->pids[i], SIGTERM), 0);
        race_wait_for(all->pids[i]);
    }
    for (int i = 0; i < SUBS; i++) {
        check_order(i, head);
        again[i] = check_complete(i, i == FILTERED ? some : truth);
    }
    print_message("# %d events (%d filtered) of %lld numbers; %d sessions and %d processes killed,"
                  " %d stopped, %d restart; seen again %zu, %zu, %zu\n",
                  PQntuples(truth), PQntuples(some), (long long)head, atomic_load(&race_all->kills),
                  all->kills, all->stops, all->restarts, again[0], again[1], again[2]);
    check_effects(t, PQntuples(truth));
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {dead_letters}"), 0);
    assert_int_equal(pgt_number(t, t->admin, "SELECT count(*) FROM {skips}"), 0);
    assert_int_equal(atomic_load(&all->odd), 0);
    race_check_writers(t);
    /* It was a race. */
    assert_true(PQntuples(truth) > 1000 && PQntuples(some) > 100);
    assert_true(head > PQntuples(truth));
    assert_true(all->kills >= 5 && all->stops >= 1 && atomic_load(&race_all->kills) >= 10);
    assert_int_equal(all->restarts, 1);
    /* A death repeats what was in hand, and no more. */
    for (int i = SYNCHRONOUS; i < SUBS; i++)
        assert_true(again[i] <=
                    (size_t)(all->kills + all->stops + HANDS + atomic_load(&race_all->kills)));
    PQclear(truth);
    PQclear(some);
}

static int race_setup(void **state)
{
    pgt *t;

    assert_int_equal(pgt_setup(state), 0);
    t = *state;
    race_open();
    race_all->pause_us = 60000;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    pgt_run(t, t->admin,
            "CREATE TABLE {effects} (id bigint GENERATED ALWAYS AS IDENTITY, sequence bigint,"
            " stream integer, version bigint)");
    return 0;
}

static int race_teardown(void **state)
{
    pgt *t = *state;

    for (int i = 0; i < HANDS; i++)
        if (all->pids[i] > 0 && waitpid(all->pids[i], NULL, WNOHANG) == 0)
            (void)kill(all->pids[i], SIGKILL);
    PQreset(t->admin);
    if (PQstatus(t->admin) != CONNECTION_OK)
        pgt_ctl("start");
    PQreset(t->admin);
    race_finish_prepared(t, t->admin, "0");
    (void)munmap(all, sizeof *all);
    race_close();
    return pgt_teardown(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(nothing_is_lost_and_no_effect_is_done_twice, race_setup,
                                    race_teardown),
};

PGT_MAIN("pg subs race", tests)
