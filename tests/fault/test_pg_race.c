/*
 * test_pg_race.c - the proof of the tail: writers of every kind for some seconds, sessions killed
 * at random, and followers that must see every committed event once, in stream order, and nothing
 * else.
 *
 * HOWDAH_RACE_SECONDS makes it longer.  Runs with a server of its own: it kills sessions, and
 * leaves prepared transactions behind on purpose.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <howdah/howdah_pg.h>

#include "base/random.h"
#include "test_pg_help.h"

#define WRITERS 16
#define FOLLOWERS 2
#define SHARED_STREAMS 90
#define OWN_STREAMS 100 /* the first of the writers' own streams */
#define STREAMS (OWN_STREAMS + WRITERS)
#define SEEN_MAX (2 * 1024 * 1024)
#define PATIENCE_MS 20000 /* for a follower that sees nothing new, and should */

/* ---- shared by all processes */

typedef struct sighting {
    int64_t sequence;
    int32_t stream;
    int32_t version;
} sighting;

typedef struct follower {
    atomic_size_t n;
    atomic_int errors; /* calls that failed, and were repeated */
    sighting seen[SEEN_MAX];
} follower;

typedef struct arena {
    atomic_bool stop;                   /* the writers */
    atomic_bool no_more;                /* the killer */
    atomic_bool done;                   /* the followers, too */
    atomic_llong acknowledged[WRITERS]; /* appends of the library to the writer's own stream */
    atomic_int kills;
    atomic_int odd; /* an append failed in a way that says neither "again" nor "unknown" */
    follower followers[FOLLOWERS];
} arena;

static arena *all;

/* The stream's number is in its name. */
static int stream_number(const char *name)
{
    return (int)strtol(name + 1, NULL, 10);
}

/* ---- writers */

typedef struct writer {
    const pgt *t;
    int me;
    unsigned seed;
    char url[1200];
    howdah_bus *bus;
    PGconn *conn;
} writer;

static unsigned pick(writer *w, unsigned n)
{
    return (unsigned)rand_r(&w->seed) % n; /* NOLINT(cert-msc30-c,cert-msc50-c): a test's dice */
}

static void name_shared(writer *w, char name[16])
{
    (void)snprintf(name, 16, "s%u", pick(w, SHARED_STREAMS));
}

static bool is_temporary(const howdah_error *err)
{
    return (err->flags & (HOWDAH_RETRYABLE | HOWDAH_OUTCOME_UNKNOWN)) != 0;
}

/* The library, on the writer's own stream: repeated until it is acknowledged. */
static void append_stubbornly(writer *w, const howdah_event *const *events, size_t n)
{
    for (;;) {
        howdah_error err = HOWDAH_ERROR_INIT;

        if (howdah_append_batch(w->bus, events, n, NULL, NULL, &err) >= 0) {
            (void)atomic_fetch_add(&all->acknowledged[w->me], (long long)n);
            return;
        }
        if (!is_temporary(&err)) {
            (void)fprintf(stderr, "# writer %d: %s %s\n", w->me, howdah_status_name(err.status),
                          err.message);
            (void)atomic_fetch_add(&all->odd, 1);
            return;
        }
    }
}

static void append_own(writer *w, size_t n)
{
    char name[16];
    pgt_batch b;

    (void)snprintf(name, sizeof name, "s%d", OWN_STREAMS + w->me);
    b = pgt_batch_new(name, n, 1);
    append_stubbornly(w, PGT_EVENTS(&b), n);
    pgt_batch_free(&b);
}

/* The library, several streams that others want as well; whatever comes of it. */
static void append_shared(writer *w)
{
    const howdah_event *events[8];
    howdah_event *mine[8];
    howdah_error err = HOWDAH_ERROR_INIT;
    size_t n = 1 + pick(w, 8);

    for (size_t i = 0; i < n; i++) {
        char name[16];

        name_shared(w, name);
        events[i] = mine[i] = pgt_event(name);
    }
    if (howdah_append_batch(w->bus, events, n, NULL, NULL, &err) < 0 && !is_temporary(&err)) {
        (void)fprintf(stderr, "# writer %d: %s %s\n", w->me, howdah_status_name(err.status),
                      err.message);
        (void)atomic_fetch_add(&all->odd, 1);
    }
    for (size_t i = 0; i < n; i++)
        howdah_event_free(mine[i]);
}

/* SQL whose failure is part of the game; false when the session is gone or the statement failed. */
static bool sql(writer *w, const char *fmt, ...) PGT_PRINTF(2, 3);

static bool sql(writer *w, const char *fmt, ...)
{
    char text[400];
    va_list args;
    PGresult *result;
    ExecStatusType status;

    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    result = pgt_result(w->t, w->conn, "%s", text);
    status = PQresultStatus(result);
    PQclear(result);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static bool sql_append(writer *w)
{
    char name[16];

    name_shared(w, name);
    return sql(w, "SELECT {append}('%s', 'race.sql')", name);
}

static void dawdle(writer *w)
{
    static const unsigned longest_ms[] = {0, 0, 0, 2, 5, 30};
    unsigned most = longest_ms[pick(w, 6)];

    if (pick(w, 200) == 0)
        most = 900; /* somebody always thinks it over */
    (void)usleep(most ? pick(w, most * 1000) : 0);
}

static void end_transaction(writer *w)
{
    dawdle(w);
    (void)sql(w, "%s", pick(w, 4) == 0 ? "ROLLBACK" : "COMMIT");
}

static void write_transaction(writer *w)
{
    (void)sql(w, "BEGIN");
    for (unsigned i = pick(w, 3) + 1; i > 0; i--)
        if (!sql_append(w))
            break;
    end_transaction(w);
}

static void write_savepoints(writer *w)
{
    (void)sql(w, "BEGIN");
    (void)sql_append(w);
    for (unsigned i = 0; i < 3; i++) {
        (void)sql(w, "SAVEPOINT s");
        (void)sql_append(w);
        dawdle(w);
        (void)sql(w, "%s", pick(w, 2) == 0 ? "ROLLBACK TO SAVEPOINT s" : "RELEASE SAVEPOINT s");
    }
    end_transaction(w);
}

static void write_two_phases(writer *w)
{
    unsigned gid = hw_random_u32();

    (void)sql(w, "BEGIN");
    (void)sql_append(w);
    if (!sql(w, "PREPARE TRANSACTION 'race-%u'", gid)) {
        (void)sql(w, "ROLLBACK");
        return;
    }
    dawdle(w);
    if (pick(w, 8) > 0) /* some are left for the end */
        (void)sql(w, "%s PREPARED 'race-%u'", pick(w, 4) == 0 ? "ROLLBACK" : "COMMIT", gid);
}

static void write_in_own_transaction(writer *w)
{
    char name[16];
    pgt_batch b;

    name_shared(w, name);
    b = pgt_batch_new(name, 1 + pick(w, 4), 1);
    (void)sql(w, "BEGIN");
    if (howdah_pg_append(w->conn, w->t->schema, PGT_EVENTS(&b), b.n, NULL, NULL, NULL) < 0)
        (void)sql(w, "ROLLBACK");
    else
        end_transaction(w);
    pgt_batch_free(&b);
}

/* Past everything: a number is drawn, and perhaps nothing is stored with it. */
static void write_raw(writer *w)
{
    char name[16];

    name_shared(w, name);
    (void)sql(w,
              "INSERT INTO {events} (stream, version, type, data) SELECT '%s',"
              " coalesce(max(version), 0) + 1, 'race.raw', '{}' FROM {events} WHERE stream = '%s'",
              name, name);
}

static void write_something(writer *w)
{
    switch (pick(w, 10)) {
    case 0:
    case 1:
        append_own(w, 1);
        break;
    case 2:
        append_own(w, pick(w, 40) == 0 ? 1100 : 1 + pick(w, 50));
        break;
    case 3:
    case 4:
        append_shared(w);
        break;
    case 5:
        write_transaction(w);
        break;
    case 6:
        write_savepoints(w);
        break;
    case 7:
        write_two_phases(w);
        break;
    case 8:
        write_in_own_transaction(w);
        break;
    default:
        write_raw(w);
        break;
    }
}

/* A session that is killed while idle says so. */
static void be_quiet(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

static void be_writer(const pgt *t, int me)
{
    writer w = {.t = t, .me = me, .seed = hw_random_u32()};

    (void)snprintf(
        w.url, sizeof w.url, "%s",
        pgt_url_with(t->url, "application_name=race&options=-c%20deadlock_timeout%3D50"));
    w.bus = pgt_open(t, w.url);
    w.conn = pgt_session(w.url);
    (void)PQsetNoticeProcessor(w.conn, be_quiet, NULL);
    while (!atomic_load(&all->stop)) {
        write_something(&w);
        if (PQstatus(w.conn) != CONNECTION_OK || PQtransactionStatus(w.conn) != PQTRANS_IDLE)
            PQreset(w.conn);
    }
    PQfinish(w.conn);
    howdah_close(w.bus);
}

/* ---- the killer, and the followers */

/* What was prepared and forgotten is committed, or taken back. */
static void finish_prepared(const pgt *t, PGconn *conn, const char *older_than)
{
    PGresult *gids = pgt_result(t, conn,
                                "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'race-%%'"
                                " AND database = current_database()"
                                " AND prepared < clock_timestamp() - interval '%s'",
                                older_than);

    for (int i = 0; i < PQntuples(gids); i++)
        (void)pgt_state(t, conn, "%s PREPARED '%s'",
                        hw_random_u32() % 3 == 0 ? "ROLLBACK" : "COMMIT", PQgetvalue(gids, i, 0));
    PQclear(gids);
}

/* Ends a session of somebody, writers and followers alike; and transactions that lost theirs. */
static void be_killer(const pgt *t, int me)
{
    PGconn *conn = pgt_session(t->url);

    (void)me;
    while (!atomic_load(&all->no_more)) {
        (void)usleep(20000 + hw_random_u32() % 60000);
        finish_prepared(t, conn, "300 ms");
        (void)atomic_fetch_add(
            &all->kills,
            (int)pgt_number(t, conn,
                            "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM"
                            " pg_stat_activity WHERE application_name LIKE 'race%%'"
                            " ORDER BY random() LIMIT 1) AS victim"));
    }
    PQfinish(conn);
}

static void note(follower *f, const howdah_event *event)
{
    size_t n = atomic_load(&f->n);

    if (n == SEEN_MAX)
        return;
    f->seen[n] =
        (sighting){howdah_event_global_sequence(event), stream_number(howdah_event_stream(event)),
                   (int32_t)howdah_event_version(event)};
    atomic_store(&f->n, n + 1);
}

/* The second one has rights on functions only, and small batches: most of its rounds are full. */
static howdah_bus *open_follower(const pgt *t, int me)
{
    char url[1200];

    (void)snprintf(url, sizeof url, "%s", pgt_url_with(t->url, "application_name=race-follower"));
    if (me == 0)
        return pgt_open_with(t, url, "poll_interval", "20ms");
    (void)snprintf(url, sizeof url,
                   "postgres://race_reader@/%s?host=%s&port=%s&application_name=race-follower",
                   PQdb(t->admin), PQhost(t->admin), PQport(t->admin));
    return pgt_open_with(t, url, "read_batch", "7");
}

static void be_follower(const pgt *t, int me)
{
    follower *f = &all->followers[me];
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    howdah_bus *bus = open_follower(t, me);
    howdah_tail *tail = NULL;

    o.since = 0;
    while (howdah_tail_open(bus, &o, &tail, NULL) < 0) {
    }
    while (!atomic_load(&all->done)) {
        const howdah_event *event = NULL;
        int s = howdah_tail_next(tail, 20, &event, NULL);

        if (s == HOWDAH_OK)
            note(f, event);
        else if (s < 0)
            (void)atomic_fetch_add(&f->errors, 1);
    }
    howdah_tail_close(tail);
    howdah_close(bus);
}

/* ---- the race */

static pid_t start(const pgt *t, int me, void (*be)(const pgt *t, int me))
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be(t, me);
        _exit(0);
    }
    return pid;
}

static void wait_for(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static long race_seconds(void)
{
    const char *text = getenv("HOWDAH_RACE_SECONDS");

    return text && *text ? strtol(text, NULL, 10) : 8;
}

static void run_race(const pgt *t)
{
    pid_t writers[WRITERS];
    pid_t killer;

    for (int i = 0; i < WRITERS; i++)
        writers[i] = start(t, i, be_writer);
    killer = start(t, 0, be_killer);
    for (long i = race_seconds() * 10; i > 0; i--)
        (void)usleep(100000);
    atomic_store(&all->stop, true);
    for (int i = 0; i < WRITERS; i++)
        wait_for(writers[i]);
    atomic_store(&all->no_more, true);
    wait_for(killer);
    finish_prepared(t, t->admin, "0");
}

/* ---- the verdict */

static int by_sequence(const void *a, const void *b)
{
    const sighting *x = a;
    const sighting *y = b;

    return (x->sequence > y->sequence) - (x->sequence < y->sequence);
}

/* In the order of arrival every stream counts 1, 2, 3 ... */
static void check_stream_order(const follower *f, int me)
{
    int32_t last[STREAMS] = {0};

    for (size_t i = 0; i < atomic_load(&f->n); i++) {
        const sighting *s = &f->seen[i];

        assert_in_range(s->stream, 0, STREAMS - 1);
        if (s->version != last[s->stream] + 1)
            fail_msg("follower %d: stream s%d version %d behind %d", me, s->stream, s->version,
                     last[s->stream]);
        last[s->stream] = s->version;
    }
}

/* The same events as in the table, each once. */
static void check_complete(follower *f, int me, const PGresult *truth)
{
    size_t n = atomic_load(&f->n);
    size_t rows = (size_t)PQntuples(truth);

    qsort(f->seen, n, sizeof *f->seen, by_sequence);
    for (size_t i = 0; i < n || i < rows; i++) {
        int64_t is = i < n ? f->seen[i].sequence : INT64_MAX;
        int64_t wanted = i < rows ? strtoll(PQgetvalue(truth, (int)i, 0), NULL, 10) : INT64_MAX;

        if (is != wanted)
            fail_msg("follower %d: %s %lld (saw %zu events of %zu)", me,
                     is > wanted                              ? "missed"
                     : i > 0 && is == f->seen[i - 1].sequence ? "saw twice"
                                                              : "saw a phantom",
                     (long long)(is > wanted ? wanted : is), n, rows);
        assert_int_equal(f->seen[i].stream, stream_number(PQgetvalue(truth, (int)i, 1)));
        assert_int_equal(f->seen[i].version, strtol(PQgetvalue(truth, (int)i, 2), NULL, 10));
    }
}

/* As long as they come nearer: after a long race the slow one has a long way to go. */
static void wait_for_followers(size_t total)
{
    for (int i = 0; i < FOLLOWERS; i++) {
        const follower *f = &all->followers[i];
        size_t before = 0;

        for (int64_t until = pgt_now_ms() + PATIENCE_MS; atomic_load(&f->n) < total;) {
            if (atomic_load(&f->n) > before)
                until = pgt_now_ms() + PATIENCE_MS;
            else if (pgt_now_ms() > until)
                break;
            before = atomic_load(&f->n);
            (void)usleep(10000);
        }
    }
    (void)usleep(300000); /* for what should not come any more */
    atomic_store(&all->done, true);
}

static void followers_see_every_committed_event_once_and_in_stream_order(void **state)
{
    pgt *t = *state;
    pid_t followers[FOLLOWERS];
    PGresult *truth;

    for (int i = 0; i < FOLLOWERS; i++)
        followers[i] = start(t, i, be_follower);
    run_race(t);
    truth =
        pgt_result(t, t->admin, "SELECT global_sequence, stream, version FROM {events} ORDER BY 1");
    wait_for_followers((size_t)PQntuples(truth));
    for (int i = 0; i < FOLLOWERS; i++)
        wait_for(followers[i]);
    print_message(
        "# %d events of %lld numbers, %d kills, %d and %d repeated calls\n", PQntuples(truth),
        (long long)pgt_number(t, t->admin, "SELECT last_value FROM {events_global_sequence_seq}"),
        atomic_load(&all->kills), atomic_load(&all->followers[0].errors),
        atomic_load(&all->followers[1].errors));
    assert_true(PQntuples(truth) > 1000);
    for (int i = 0; i < FOLLOWERS; i++) {
        check_stream_order(&all->followers[i], i);
        check_complete(&all->followers[i], i, truth);
    }
    PQclear(truth);
    assert_int_equal(atomic_load(&all->odd), 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pgt_number(t, t->admin,
                                    "SELECT count(*) FROM {events} WHERE stream = 's%d'",
                                    OWN_STREAMS + i),
                         atomic_load(&all->acknowledged[i]));
}

static int race_setup(void **state)
{
    pgt *t;

    assert_int_equal(pgt_setup(state), 0);
    t = *state;
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    pgt_run(t, t->admin, "CREATE ROLE race_reader LOGIN; GRANT {_read} TO race_reader");
    return 0;
}

static int race_teardown(void **state)
{
    pgt *t = *state;

    (void)munmap(all, sizeof *all);
    finish_prepared(t, t->admin, "0");
    pgt_run(t, t->admin, "DROP ROLE race_reader");
    return pgt_teardown(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(followers_see_every_committed_event_once_and_in_stream_order,
                                    race_setup, race_teardown),
};

PGT_MAIN("pg race", tests)
