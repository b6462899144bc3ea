/* race_writers.c - writers of every kind, and one who kills their sessions. */
#include "race_writers.h"

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

#define PATIENCE_MS 60000

race *race_all;

int race_stream_number(const char *name)
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
    (void)snprintf(name, 16, "s%u", pick(w, RACE_SHARED_STREAMS));
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
            (void)atomic_fetch_add(&race_all->acknowledged[w->me], (long long)n);
            return;
        }
        if (!is_temporary(&err)) {
            (void)fprintf(stderr, "# writer %d: %s %s\n", w->me, howdah_status_name(err.status),
                          err.message);
            (void)atomic_fetch_add(&race_all->odd, 1);
            return;
        }
    }
}

static void append_own(writer *w, size_t n)
{
    char name[16];
    pgt_batch b;

    (void)snprintf(name, sizeof name, "s%d", RACE_OWN_STREAMS + w->me);
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
        (void)atomic_fetch_add(&race_all->odd, 1);
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
        if (race_all->pause_us > 0)
            append_own(w, pick(w, 40) == 0 ? 300 : 1 + pick(w, 10));
        else
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

void race_be_writer(const pgt *t, int me)
{
    writer w = {.t = t, .me = me, .seed = hw_random_u32()};

    (void)snprintf(
        w.url, sizeof w.url, "%s",
        pgt_url_with(t->url, "application_name=race&options=-c%20deadlock_timeout%3D50"));
    w.bus = pgt_open(t, w.url);
    w.conn = pgt_session(w.url);
    (void)PQsetNoticeProcessor(w.conn, be_quiet, NULL);
    while (!atomic_load(&race_all->stop)) {
        write_something(&w);
        if (race_all->pause_us > 0)
            (void)usleep(pick(&w, race_all->pause_us));
        if (PQstatus(w.conn) != CONNECTION_OK || PQtransactionStatus(w.conn) != PQTRANS_IDLE)
            PQreset(w.conn);
    }
    PQfinish(w.conn);
    howdah_close(w.bus);
}

/* ---- the killer */

/* What was prepared and forgotten is committed, or taken back. */
void race_finish_prepared(const pgt *t, PGconn *conn, const char *older_than)
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

/* Ends a session of somebody, writers and readers alike; and transactions that lost theirs. */
void race_be_killer(const pgt *t, int me)
{
    PGconn *conn = pgt_session(t->url);

    (void)me;
    (void)PQsetNoticeProcessor(conn, be_quiet, NULL);
    while (!atomic_load(&race_all->no_more)) {
        PGresult *result;

        (void)usleep(20000 + hw_random_u32() % 60000);
        race_finish_prepared(t, conn, "300 ms");
        result = pgt_result(t, conn,
                            "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM"
                            " pg_stat_activity WHERE application_name LIKE 'race%%'"
                            " ORDER BY random() LIMIT 1) AS victim");
        if (PQntuples(result) == 1)
            (void)atomic_fetch_add(&race_all->kills,
                                   (int)strtol(PQgetvalue(result, 0, 0), NULL, 10));
        PQclear(result);
        if (PQstatus(conn) != CONNECTION_OK)
            PQreset(conn); /* the server itself was ended */
    }
    PQfinish(conn);
}

/* ---- processes */

void race_open(void)
{
    race_all =
        mmap(NULL, sizeof *race_all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(race_all != MAP_FAILED);
}

void race_close(void)
{
    (void)munmap(race_all, sizeof *race_all);
    race_all = NULL;
}

void race_let_term(bool let)
{
    sigset_t set;

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    assert_int_equal(sigprocmask(let ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL), 0);
}

pid_t race_start(const pgt *t, int me, void (*be)(const pgt *t, int me))
{
    pid_t pid;

    race_let_term(false);
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        be(t, me);
        _exit(0);
    }
    race_let_term(true);
    assert_true(pid >= 0);
    return pid;
}

void race_wait_for(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

long race_seconds(long otherwise)
{
    const char *text = getenv("HOWDAH_RACE_SECONDS");

    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

void race_run(const pgt *t, long seconds, bool (*meanwhile)(const pgt *t, void *ctx), void *ctx)
{
    pid_t writers[RACE_WRITERS];
    int64_t until = pgt_now_ms() + seconds * 1000;
    bool enough = !meanwhile;
    pid_t killer;

    for (int i = 0; i < RACE_WRITERS; i++)
        writers[i] = race_start(t, i, race_be_writer);
    killer = race_start(t, 0, race_be_killer);
    while (pgt_now_ms() < until || (!enough && pgt_now_ms() < until + PATIENCE_MS)) {
        if (meanwhile)
            enough = meanwhile(t, ctx);
        else
            (void)usleep(100000);
    }
    atomic_store(&race_all->stop, true);
    for (int i = 0; i < RACE_WRITERS; i++)
        race_wait_for(writers[i]);
    atomic_store(&race_all->no_more, true);
    race_wait_for(killer);
}

void race_check_writers(const pgt *t)
{
    assert_int_equal(atomic_load(&race_all->odd), 0);
    for (int i = 0; i < RACE_WRITERS; i++)
        assert_int_equal(pgt_number(t, t->admin,
                                    "SELECT count(*) FROM {events} WHERE stream = 's%d'",
                                    RACE_OWN_STREAMS + i),
                         atomic_load(&race_all->acknowledged[i]));
}
