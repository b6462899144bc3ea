/*
 * member.c - members of a group that say themselves what became of their batches.
 *
 *     member pull URL NAME KEY=VALUE...     howdah_member_fetch() and howdah_batch_...()
 *     member sql URL NAME KEY=VALUE...      fetch() and ack() of SQL, on PostgreSQL
 *
 * Keys: log (required), max (events of a batch), lease_ms, slow_ms, and for sql also isolation.
 * Each event adds a line "id sequence 0" to the log, before anything else is done with it.  The
 * effects (table effects) of SQL members are in the transaction of the ack.  What is refused
 * because the lease is lost, or because of the isolation level, is a line on stdout: "lost",
 * "again".
 *
 *   I1  The group is there already.
 *   I2  A store that is away, or another one, ends nobody: only what waiting does not cure does.
 */
#include <fcntl.h>
#include <howdah/howdah_groups.h>
#include <howdah/howdah_pg.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PAUSE_US 20000
#define FAILED_MAX 64

typedef struct life {
    const char *url;
    const char *name;
    const char *isolation;
    const char *max;
    int64_t lease_ms;
    int64_t slow_ms;
    int log_fd;
    unsigned batches;
} life;

static howdah_bus *bus;
static atomic_bool ending;

static void on_term(int number)
{
    (void)number;
    atomic_store(&ending, true);
    if (bus)
        howdah_interrupt(bus); /* NOLINT(bugprone-signal-handler,cert-sig30-c) */
}

static int failed(const char *what, const howdah_error *err)
{
    (void)fprintf(stderr, "member: %s: %s: %s\n", what, howdah_status_name(err->status),
                  err->message);
    return howdah_status_exit_code(err->status);
}

static void say(const char *line)
{
    (void)puts(line);
    (void)fflush(stdout);
}

/* One write: lines of several processes do not mix. */
static void handle(const life *m, const char *id, const char *sequence)
{
    char line[80];
    int n = snprintf(line, sizeof line, "%s %s 0\n", id, sequence);

    if (write(m->log_fd, line, (size_t)n) != n)
        abort();
    if (m->slow_ms > 0)
        (void)usleep((useconds_t)m->slow_ms * 1000);
}

/* ---- in C */

/* I2.  LOST is told.  Of what is not known to have happened the next batch will tell. */
static bool goes_on(int s, const howdah_error *err)
{
    bool passes = (err->flags & (HOWDAH_RETRYABLE | HOWDAH_OUTCOME_UNKNOWN)) != 0;

    if (s == HOWDAH_LOST)
        say("lost");
    else if (s < 0 && passes)
        (void)usleep(PAUSE_US);
    return s >= 0 || s == HOWDAH_LOST || s == HOWDAH_INTERRUPTED || passes;
}

/* Some events fail the first time; the later ones of their streams are left out. */
static int run_events(const life *m, howdah_batch *batch, howdah_error *reterr)
{
    const char *streams[FAILED_MAX];
    size_t streams_n = 0;
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < howdah_batch_size(batch); i++) {
        const howdah_event *event = howdah_batch_event(batch, i);
        char id[HOWDAH_UUID_SIZE];
        char sequence[24];
        bool waits = false;

        for (size_t k = 0; k < streams_n; k++)
            waits = waits || strcmp(streams[k], howdah_event_stream(event)) == 0;
        if (waits)
            continue;
        howdah_event_id(event, id);
        (void)snprintf(sequence, sizeof sequence, "%" PRId64, howdah_event_global_sequence(event));
        if (howdah_event_global_sequence(event) % 41 == 7 && howdah_batch_attempt(batch) == 1 &&
            streams_n < FAILED_MAX) {
            streams[streams_n++] = howdah_event_stream(event);
            s = howdah_batch_nack(batch, howdah_event_global_sequence(event), "the first time", 5,
                                  reterr);
            continue;
        }
        handle(m, id, sequence);
    }
    return s;
}

/* In one of the ways there are; the batch is freed. */
static int finish(const life *m, howdah_batch *batch, howdah_error *reterr)
{
    const howdah_event *first = howdah_batch_event(batch, 0);
    int s = HOWDAH_OK;

    if (m->batches % 3 == 1)
        s = howdah_batch_extend(batch, 0, reterr);
    if (m->batches % 3 == 2) {
        s = howdah_batch_ack_upto(batch, howdah_event_global_sequence(first), reterr);
        if (s >= 0)
            s = howdah_batch_release(batch, reterr); /* the others come again */
    } else if (s >= 0) {
        s = howdah_batch_ack(batch, reterr);
    }
    howdah_batch_free(batch);
    return s;
}

static int pull(life *m)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_member_options o = HOWDAH_MEMBER_OPTIONS_INIT;
    howdah_member *member = NULL;

    o.subscriber_id = m->name;
    o.max_events = strtoll(m->max, NULL, 10);
    o.lease_ms = m->lease_ms;
    if (howdah_open(m->url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    if (howdah_member_new(bus, &o, &member, &err) < 0)
        return failed("join", &err);
    while (!atomic_load(&ending)) {
        howdah_batch *batch = NULL;
        int s = howdah_member_fetch(member, 1000, &batch, &err);

        if (s == HOWDAH_OK) {
            s = run_events(m, batch, &err);
            if (s >= 0)
                s = finish(m, batch, &err);
            else
                howdah_batch_free(batch);
            m->batches++;
        }
        if (!goes_on(s, &err))
            return failed("go on", &err);
    }
    return howdah_close(bus) < 0 ? 6 : 0;
}

/* ---- in SQL */

#define FETCH                                                                                      \
    "SELECT token, id, global_sequence, stream, version FROM howdah.fetch($1, $2::integer, 'sql'," \
    " $3::bigint * interval '1 millisecond')"
#define EFFECT "INSERT INTO effects (subscriber, event_id, stream, version) VALUES ($1, $2, $3, $4)"

typedef enum outcome { DONE, AGAIN, GONE, WRONG } outcome;

/* ret_result NULL: it is not wanted. */
static outcome run_sql(PGconn *conn, const char *sql, const char *const *values, int n,
                       PGresult **ret_result)
{
    PGresult *result = PQexecParams(conn, sql, n, NULL, values, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(result);
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    outcome became = WRONG;

    if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK)
        became = DONE;
    else if (!state || strncmp(state, "57P", 3) == 0 || strncmp(state, "08", 2) == 0 ||
             strcmp(state, "25006") == 0) /* it is a standby now */
        became = GONE;
    else if (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0)
        became = AGAIN;
    else
        (void)fprintf(stderr, "member: %s: %s\n", sql, PQresultErrorMessage(result));
    if (became == AGAIN)
        say("again");
    if (became == DONE && ret_result)
        *ret_result = result;
    else
        PQclear(result);
    return became;
}

static outcome begin(const life *m, PGconn *conn)
{
    char sql[80];

    (void)snprintf(sql, sizeof sql, "BEGIN ISOLATION LEVEL %s", m->isolation);
    return run_sql(conn, sql, NULL, 0, NULL);
}

static outcome fetch(const life *m, PGconn *conn, PGresult **ret_batch)
{
    char lease[24];
    const char *values[] = {m->name, m->max, lease};
    outcome became = begin(m, conn);

    (void)snprintf(lease, sizeof lease, "%" PRId64, m->lease_ms);
    if (became == DONE)
        became = run_sql(conn, FETCH, values, 3, ret_batch);
    if (became != DONE)
        return became;
    became = run_sql(conn, "COMMIT", NULL, 0, NULL);
    if (became != DONE) {
        PQclear(*ret_batch);
        *ret_batch = NULL;
    }
    return became;
}

/* The effects and the ack in one transaction; false: roll back. */
static outcome store(const life *m, PGconn *conn, const PGresult *batch)
{
    const char *ack[] = {m->name, PQgetvalue(batch, 0, 0)};
    PGresult *answer = NULL;
    outcome became = begin(m, conn);

    for (int i = 0; became == DONE && i < PQntuples(batch); i++) {
        const char *values[] = {m->name, PQgetvalue(batch, i, 1), PQgetvalue(batch, i, 3),
                                PQgetvalue(batch, i, 4)};

        became = run_sql(conn, EFFECT, values, 4, NULL);
    }
    if (became == DONE)
        became = run_sql(conn, "SELECT howdah.ack($1, $2)", ack, 2, &answer);
    if (became != DONE)
        return became;
    if (strcmp(PQgetvalue(answer, 0, 0), "t") != 0) {
        say("lost");
        became = run_sql(conn, "ROLLBACK", NULL, 0, NULL);
    } else {
        became = run_sql(conn, "COMMIT", NULL, 0, NULL);
    }
    PQclear(answer);
    return became;
}

static outcome one_batch(const life *m, PGconn *conn)
{
    PGresult *batch = NULL;
    outcome became = fetch(m, conn, &batch);

    if (became != DONE)
        return became;
    for (int i = 0; i < PQntuples(batch); i++)
        handle(m, PQgetvalue(batch, i, 1), PQgetvalue(batch, i, 2));
    if (PQntuples(batch) > 0)
        became = store(m, conn, batch);
    else
        (void)usleep(PAUSE_US);
    while (became == AGAIN && PQntuples(batch) > 0) {
        became = run_sql(conn, "ROLLBACK", NULL, 0, NULL);
        if (became == DONE)
            became = store(m, conn, batch);
    }
    PQclear(batch);
    return became;
}

static int use_sql(const life *m)
{
    PGconn *conn = PQconnectdb(m->url);
    outcome became = DONE;

    while (!atomic_load(&ending) && became != WRONG) {
        if (PQstatus(conn) != CONNECTION_OK || became == GONE) {
            (void)usleep(PAUSE_US);
            PQreset(conn);
            became = PQstatus(conn) == CONNECTION_OK ? DONE : GONE;
            continue;
        }
        if (became == AGAIN)
            became = run_sql(conn, "ROLLBACK", NULL, 0, NULL);
        if (became == DONE)
            became = one_batch(m, conn);
    }
    PQfinish(conn);
    return became == WRONG ? 1 : 0;
}

static bool set_option(life *m, char *text)
{
    char *value = strchr(text, '=');

    if (!value)
        return false;
    *value++ = '\0';
    if (strcmp(text, "log") == 0)
        m->log_fd = open(value, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    else if (strcmp(text, "max") == 0)
        m->max = value;
    else if (strcmp(text, "lease_ms") == 0)
        m->lease_ms = strtoll(value, NULL, 10);
    else if (strcmp(text, "slow_ms") == 0)
        m->slow_ms = strtoll(value, NULL, 10);
    else if (strcmp(text, "isolation") == 0)
        m->isolation = value;
    else
        return false;
    return true;
}

int main(int argc, char **argv)
{
    life m = {.isolation = "READ COMMITTED", .max = "10", .lease_ms = 1000, .log_fd = -1};

    for (int i = 4; i < argc; i++)
        if (!set_option(&m, argv[i])) {
            (void)fprintf(stderr, "member: what is %s?\n", argv[i]);
            return 2;
        }
    if (argc < 4 || m.log_fd < 0) {
        (void)fprintf(stderr, "usage: member pull|sql URL NAME log=FILE KEY=VALUE...\n");
        return 2;
    }
    m.url = argv[2];
    m.name = argv[3];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGTERM, on_term);
    return strcmp(argv[1], "pull") == 0 ? pull(&m) : use_sql(&m);
}
