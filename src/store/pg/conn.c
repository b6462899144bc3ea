/*
 * conn.c - connecting, and what every session of ours is set to.
 *
 *   I1  A server in recovery is refused for writing: at once when it is the first that we meet,
 *       because then the URL is wrong; after connect_timeout when we had one that took writes, or
 *       may choose from several, because then this one may be about to be promoted.
 *   I2  Time-outs that a role or database sets do not apply to our sessions: we have our own.
 *   I3  synchronous_commit is never "off" in our sessions unless the user allows it: an
 *       acknowledged append must survive a crash.
 *   I4  Plans do not depend on luck: every hot statement has one index that gives its order, plans
 *       are generic, and sorting a whole table is never cheaper in the planner's eyes, whether
 *       there are statistics or not.
 *   I5  No part of a password gets into a message, not even of one that libpq took for a host.
 *   I6  The server notices within 12 seconds that a client has vanished, and at once when the
 *       client's end was closed: its locks must not keep others waiting.
 *   I7  When the connection names another process id than the server does, a pooler is in between.
 *       What belongs to a session (locks, LISTEN, settings, prepared statements) is not ours then:
 *       strangers would meet what we leave there, and we theirs.  So nothing is left there, and
 *       what a role or database sets applies.
 *   I8  libpq prints nothing.  A server can let us in and end the session at once; by default libpq
 *       would print that to stderr.  So our receiver of notices is there from the first byte on,
 *       wherever there is one address to try.  Where there are several, only libpq's own loop can
 *       give one up by time and go on to the next; there our receiver comes a moment later.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "engine/backoff.h"
#include "store/pg/pg.h"

#define RECONNECT_FIRST_MS 50
#define RECONNECT_MAX_MS 2000
#define KEYWORDS_MAX 64
#define QUIET_MS 10 /* a session in steady use is not asked whether it is still there */

/* Ours unless the URL says otherwise: a dead peer is noticed in seconds, not hours. */
static const char *const our_defaults[][2] = {
    {"keepalives", "1"},       {"keepalives_idle", "5"},      {"keepalives_interval", "2"},
    {"keepalives_count", "3"}, {"tcp_user_timeout", "10000"},
};

typedef struct keywords {
    const char *keys[KEYWORDS_MAX + 1];
    const char *values[KEYWORDS_MAX + 1];
    size_t n;
    char timeout[24];
} keywords;

/* KEYWORDS_MAX is more than libpq knows and we add: nothing is dropped in practice. */
static void add_keyword(keywords *k, const char *key, const char *value)
{
    if (k->n < KEYWORDS_MAX) {
        k->keys[k->n] = key;
        k->values[k->n++] = value;
    }
}

static const char *given(const PQconninfoOption *options, const char *key)
{
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (strcmp(o->keyword, key) == 0)
            return o->val;
    return NULL;
}

/*
 * The URL decides, but for the encoding; where it says nothing, we do.  left_ms is what is left
 * of connect_timeout.
 */
static void gather_keywords(const hw_pg *pg, const PQconninfoOption *options, int64_t left_ms,
                            keywords *k)
{
    const char *hosts = given(options, "host");
    int64_t seconds = (left_ms + 999) / 1000;

    assert(options);
    k->n = 0;
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (o->val)
            add_keyword(k, o->keyword, o->val);
    for (size_t i = 0; i < sizeof our_defaults / sizeof our_defaults[0]; i++)
        if (!given(options, our_defaults[i][0]))
            add_keyword(k, our_defaults[i][0], our_defaults[i][1]);
    add_keyword(k, "client_encoding", "UTF8"); /* not theirs to choose: the last one counts */
    if (!given(options, "application_name"))
        add_keyword(k, "application_name", pg->application_name);
    if (!given(options, "connect_timeout")) {
        /* libpq counts per host. */
        (void)snprintf(k->timeout, sizeof k->timeout, "%lld",
                       (long long)(seconds > 2 ? seconds : 2));
        add_keyword(k, "connect_timeout", k->timeout);
    }
    /* Of several hosts libpq looks for the one that fits. */
    if (hosts && strchr(hosts, ',') && !given(options, "target_session_attrs"))
        add_keyword(k, "target_session_attrs", pg->read_only ? "any" : "read-write");
    k->keys[k->n] = NULL;
    k->values[k->n] = NULL;
}

/* A migration shows notices to its caller; otherwise they go to the log, never to stderr (I8). */
static void on_notice(void *arg, const PGresult *result)
{
    hw_pg *pg = arg;
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);

    /* A FATAL error that answers no statement: the server is ending this session. */
    if (severity && strcmp(severity, "FATAL") == 0)
        pg->ended = true;
    if (!text)
        return;
    if (pg->note)
        pg->note(pg->note_ctx, text);
    else
        hw_log(HOWDAH_LOG_DEBUG, "PostgreSQL: %s", text);
}

/* ---- I8 */

/* As libpq does: the URL first, then the environment. */
static const char *given_or_set(const PQconninfoOption *options, const char *key,
                                const char *variable)
{
    const char *value = given(options, key);

    /* NOLINTNEXTLINE(concurrency-mt-unsafe): libpq reads it now as well */
    return value ? value : getenv(variable);
}

/*
 * I8: a socket's path, or an address in numbers.  A name can have several addresses, and what a
 * service file says is not known here.
 */
static bool has_one_address(const PQconninfoOption *options)
{
    const char *host = given_or_set(options, "hostaddr", "PGHOSTADDR");
    struct in6_addr numbers;

    if (given_or_set(options, "service", "PGSERVICE"))
        return false; /* its file may say more */
    if (!host || !host[0])
        host = given_or_set(options, "host", "PGHOST");
    if (!host || !host[0])
        return true;
    if (strchr(host, ','))
        return false;
    return host[0] == '/' || host[0] == '@' || inet_pton(AF_INET, host, &numbers) == 1 ||
           inet_pton(AF_INET6, host, &numbers) == 1;
}

/* As libpq counts: 0 is for ever, and less than two seconds are two. */
static int64_t give_up_at_ms(const keywords *k)
{
    int64_t seconds = 0;

    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->keys[i], "connect_timeout") == 0)
            (void)hw_parse_i64(k->values[i], 0, INT32_MAX, &seconds);
    if (seconds == 0)
        return INT64_MAX;
    return hw_clock_mono_ms() + 1000 * (seconds < 2 ? 2 : seconds);
}

/* False when the time is over. */
static bool wait_for_socket(const PGconn *conn, bool reading, int64_t until)
{
    struct pollfd p = {.fd = PQsocket(conn), .events = reading ? POLLIN : POLLOUT};

    for (;;) {
        int64_t left = until == INT64_MAX ? -1 : until - hw_clock_mono_ms();
        int n;

        if (until != INT64_MAX && left <= 0)
            return false;
        n = poll(&p, 1, left > INT32_MAX ? INT32_MAX : (int)left);
        if (n > 0 || (n < 0 && errno != EINTR))
            return true; /* whatever it is, libpq finds out */
    }
}

/*
 * As PQconnectdbParams(), to one address, with our receiver of notices from the start (I8).
 * When its time is over, the status is neither OK nor BAD.
 */
static PGconn *connect_hearing(hw_pg *pg, const keywords *k)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    int64_t until = give_up_at_ms(k);
    PGconn *conn = PQconnectStartParams(k->keys, k->values, 0);

    if (!conn || PQstatus(conn) == CONNECTION_BAD)
        return conn;
    (void)PQsetNoticeReceiver(conn, on_notice, pg);
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        if (!wait_for_socket(conn, next == PGRES_POLLING_READING, until))
            return conn;
        next = PQconnectPoll(conn);
    }
    return conn;
}

/* Without a SQLSTATE (libpq gives none here) the words decide; when in doubt: unavailable. */
static int fail_connect(const PGconn *conn, howdah_error *reterr)
{
    static const char *const denied[] = {"authentication failed", "pg_hba.conf", "does not exist",
                                         "no password supplied", "permission denied for database"};
    char why[300];
    int status = HOWDAH_UNAVAILABLE;

    if (PQstatus(conn) == CONNECTION_BAD)
        (void)snprintf(why, sizeof why, "%s", PQerrorMessage(conn));
    else
        (void)snprintf(why, sizeof why,
                       "connection to server at \"%s\", port %s failed: timeout expired",
                       PQhost(conn), PQport(conn));
    for (char *p = why; *p; p++)
        if (*p == '\n' || *p == '\t')
            *p = ' ';
    if (PQconnectionNeedsPassword(conn))
        status = HOWDAH_DENIED;
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++)
        if (strstr(why, denied[i]) && !strstr(why, "No such file"))
            status = HOWDAH_DENIED;
    status = hw_fail(reterr, status, "cannot connect to PostgreSQL: %s", why);
    if (strstr(why, "database \"") && strstr(why, "does not exist"))
        return hw_advise(reterr, status, "create the database with createdb");
    return hw_advise(reterr, status, "%s",
                     status == HOWDAH_DENIED
                         ? "check user and password of the store URL, PGPASSWORD, ~/.pgpass and "
                           "pg_hba.conf"
                         : "is the server running, and is the store URL right? howdah doctor "
                           "checks more");
}

/*
 * An @ or / in a password that is not percent-encoded makes libpq take its second half for the
 * host, or its first for the port, and show it (I5).
 */
static bool is_garbled(const PQconninfoOption *options)
{
    const char *host = given(options, "host");
    const char *port = given(options, "port");

    return (host && strchr(host, '@')) || (port && port[strspn(port, "0123456789,")]);
}

/* I5: the message gives the length of what was refused, and nothing of its text. */
static int parse_url(const hw_pg *pg, PQconninfoOption **ret_options, howdah_error *reterr)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(pg->url, &why);

    if (options && !is_garbled(options)) {
        *ret_options = options;
        return HOWDAH_OK;
    }
    /* libpq's text may quote the URL, password and all: it is not shown. */
    PQconninfoFree(options);
    PQfreemem(why);
    return hw_advise(reterr,
                     hw_fail_field(reterr, HOWDAH_INVALID, "store",
                                   "not a libpq connection string or URL, in %zu bytes",
                                   strlen(pg->url)),
                     "in a URL, write @ / : %% of user and password as %%40 %%2F %%3A %%25");
}

/*
 * I1: libpq has tried several hosts, and at least one of them is there.  Only the message
 * tells.
 */
static bool takes_no_writes(const PGconn *conn)
{
    const char *why = PQerrorMessage(conn);

    return strstr(why, "session is read-only") || strstr(why, "in hot standby mode");
}

/*
 * One attempt, without the settings of a session.  ret_patience: a later attempt may succeed,
 * and there is time for one.
 */
static int connect_once(hw_pg *pg, int64_t until, bool *ret_patience, howdah_error *reterr)
{
    PQconninfoOption *options = NULL;
    keywords k;
    int s = parse_url(pg, &options, reterr);

    assert(!pg->conn);
    *ret_patience = false;
    if (s < 0)
        return s;
    gather_keywords(pg, options, until - hw_clock_mono_ms(), &k);
    pg->several = given(options, "host") && strchr(given(options, "host"), ',');
    pg->ended = false;
    pg->conn =
        has_one_address(options) ? connect_hearing(pg, &k) : PQconnectdbParams(k.keys, k.values, 0);
    if (!pg->conn) {
        s = hw_fail_no_memory(reterr);
    } else if (PQstatus(pg->conn) != CONNECTION_OK) {
        s = fail_connect(pg->conn, reterr);
        /* A server that rejects is starting or stopping; one that was there may come back. */
        *ret_patience = s == HOWDAH_UNAVAILABLE && hw_clock_mono_ms() < until &&
                        (pg->was_open || takes_no_writes(pg->conn) ||
                         PQpingParams(k.keys, k.values, 0) == PQPING_REJECT);
        PQfinish(pg->conn);
        pg->conn = NULL;
    }
    PQconninfoFree(options);
    return s;
}

/*
 * The first two statements remove what could end or change this text itself: a time-out, and a
 * search path on which others can put functions.  Where the process id is not the one that we were
 * told (I7), all settings are local: they end with this text, which is one transaction.  What an
 * older server does not know has no current setting.  (A join with pg_settings, which shows all 350
 * of them, takes as long as all the rest.)
 */
#define IS_LOCAL "pg_catalog.pg_backend_pid() OPERATOR(pg_catalog.<>) %1$d"
static const char session_sql[] =
    "SELECT pg_catalog.set_config('statement_timeout', '0', " IS_LOCAL ");"
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', " IS_LOCAL ");"
    "SELECT count(set_config(v.name, v.value, " IS_LOCAL ")) FROM (VALUES"
    " ('lock_timeout', '%2$d'), ('transaction_timeout', '0'),"
    " ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),"
    " ('default_transaction_isolation', 'read committed'), ('jit', 'off'),"
    " ('search_path', 'pg_catalog, pg_temp'), ('DateStyle', 'ISO'), ('TimeZone', 'UTC'),"
    " ('bytea_output', 'hex'), ('plan_cache_mode', 'force_generic_plan'),"
    " ('enable_bitmapscan', 'off'), ('enable_sort', 'off'), ('enable_seqscan', 'off'),"
    " ('tcp_keepalives_idle', '5'), ('tcp_keepalives_interval', '2'),"
    " ('tcp_keepalives_count', '3'), ('tcp_user_timeout', '10000'),"
    " ('client_connection_check_interval', CASE WHEN version() ~ 'linux' THEN '1000' ELSE '0' END))"
    " AS v(name, value) WHERE current_setting(v.name, true) IS NOT NULL;"
    "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'),"
    " current_setting('server_encoding'), current_setting('transaction_read_only'),"
    " pg_backend_pid(), has_function_privilege('pg_catalog.pg_control_system()', 'execute')";

/* I3; behind a pooler there is no session to switch it on in. */
static int wait_for_disk(hw_pg *pg, howdah_error *reterr)
{
    int s;

    if (!pg->pooled) {
        hw_log(HOWDAH_LOG_WARN, "synchronous_commit is off: switching it on for this session");
        return hw_pg_command(pg, "SET synchronous_commit = on", reterr);
    }
    s = hw_fail(reterr, HOWDAH_UNAVAILABLE,
                "synchronous_commit is off here, and behind a pooler it cannot be switched on for "
                "our transactions only");
    if (reterr)
        reterr->flags = 0;
    return hw_advise(reterr, s,
                     "ALTER ROLE ... SET synchronous_commit = on, or connect to the server itself");
}

/*
 * The texts of statements contain the name of the log, so they are made again when it is
 * another expression.  Nothing is prepared on a new connection yet.
 */
static int learn_how_to_name_the_log(hw_pg *pg, bool by_cluster, howdah_error *reterr)
{
    if (pg->log_is_bus == !by_cluster)
        return HOWDAH_OK;
    pg->log_is_bus = !by_cluster;
    return hw_pg_fill_statements(pg, reterr);
}

/* I1: worth another attempt where a server that takes writes may turn up. */
static int refuse_writes(const hw_pg *pg, const char *what, const char *advice,
                         howdah_error *reterr)
{
    int s = hw_advise(reterr, hw_fail(reterr, HOWDAH_READ_ONLY, "%s", what), "%s", advice);

    if (reterr && (pg->was_open || pg->several))
        reterr->flags |= HOWDAH_RETRYABLE;
    return s;
}

/*
 * Judges the server by the last row of session_sql, whose columns these are.  A refusal here
 * closes the connection (hw_pg_connect()).
 */
static int check_session(hw_pg *pg, const PGresult *result, howdah_error *reterr)
{
    int s = learn_how_to_name_the_log(pg, strcmp(PQgetvalue(result, 0, 5), "t") == 0, reterr);

    if (s < 0)
        return s;
    pg->recovery = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
    pg->backend_pid = (int)strtol(PQgetvalue(result, 0, 4), NULL, 10);
    pg->pooled = pg->backend_pid != PQbackendPID(pg->conn);
    pg->unprepared = pg->pooled;
    if (PQserverVersion(pg->conn) < HW_PG_VERSION_MIN) {
        s = hw_fail(reterr, HOWDAH_UNAVAILABLE, "PostgreSQL %d is too old: 13 or newer is needed",
                    PQserverVersion(pg->conn) / 10000);
        if (reterr)
            reterr->flags = 0; /* waiting will not make it younger */
        return s;
    }
    if (strcmp(PQgetvalue(result, 0, 2), "UTF8") != 0)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_UNAVAILABLE,
                                 "the database's encoding is not UTF8 but %s",
                                 PQgetvalue(result, 0, 2)),
                         "create a database with: createdb --encoding=UTF8 --template=template0");
    if (pg->recovery && !pg->read_only)
        return refuse_writes(pg, "this server is in recovery (a standby): it takes no writes",
                             "connect to the primary, or name several hosts; for reading only: "
                             "--set read_only=true",
                             reterr);
    if (pg->read_only && pg->pooled)
        return HOWDAH_OK; /* hw_pg_send() and migrating see to it */
    if (pg->read_only)
        return hw_pg_command(pg, "SET default_transaction_read_only = on", reterr);
    if (strcmp(PQgetvalue(result, 0, 3), "on") == 0)
        return refuse_writes(pg, "default_transaction_read_only is on for this user or server",
                             "ALTER ROLE ... SET default_transaction_read_only = off; for reading "
                             "only: --set read_only=true",
                             reterr);
    if (strcmp(PQgetvalue(result, 0, 1), "off") == 0 && !pg->allow_lossy)
        return wait_for_disk(pg, reterr);
    return HOWDAH_OK;
}

/*
 * The tag makes the names of prepared statements this connection's own.  Non-blocking, because
 * every wait of ours has a deadline (exec.c).
 */
static int set_up_session(hw_pg *pg, howdah_error *reterr)
{
    char sql[sizeof session_sql + 4 * 16];
    hw_pg_call call = {.statement = -1, .sql = sql};
    PGresult *result = NULL;
    int s;

    pg->tag = hw_random_u32();
    (void)snprintf(sql, sizeof sql, session_sql, PQbackendPID(pg->conn), (int)pg->lock_timeout_ms);
    (void)PQsetNoticeReceiver(pg->conn, on_notice, pg);
    if (PQsetnonblocking(pg->conn, 1) != 0)
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "cannot make the connection non-blocking");
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        s = check_session(pg, result, reterr);
    PQclear(result);
    return s;
}

/* An interrupt cuts it short. */
static void pause_for(const hw_pg *pg, int64_t ms)
{
    struct pollfd p = {.fd = pg->interrupt ? pg->interrupt->fd : -1, .events = POLLIN};

    (void)poll(&p, 1, (int)ms);
}

/*
 * Tries until connect_timeout is over, but only while waiting can help (ret_patience of
 * connect_once(), I1).  The error is that of the last attempt.  Each new connection is a new
 * session number: callers compare it to find out that locks and LISTEN are gone.
 */
int hw_pg_connect(hw_pg *pg, howdah_error *reterr)
{
    int64_t until = hw_clock_mono_ms() + pg->connect_timeout_ms;
    howdah_error err = HOWDAH_ERROR_INIT; /* of attempts that a later one may make good */

    assert(!pg->conn && !pg->caller_owned);
    for (unsigned attempt = 0;; attempt++) {
        bool patience = false;
        int64_t pause =
            hw_backoff_ms(RECONNECT_FIRST_MS, RECONNECT_MAX_MS, attempt, 50, hw_random_u32());
        int s;

        if (hw_interrupted(pg->interrupt))
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        s = connect_once(pg, until, &patience, &err);
        if (s >= 0) {
            s = set_up_session(pg, &err);
            if (s >= 0) {
                pg->was_open = true;
                pg->session++;
                return HOWDAH_OK;
            }
            patience = (s == HOWDAH_UNAVAILABLE && !pg->conn) ||
                       (s == HOWDAH_READ_ONLY && (err.flags & HOWDAH_RETRYABLE));
            hw_pg_disconnect(pg);
        }
        if (!patience || hw_clock_mono_ms() + pause >= until) {
            hw_error_copy(reterr, &err);
            return s;
        }
        pause_for(pg, pause);
    }
}

/*
 * Forgets all that was true of this session only: locks, LISTEN, prepared statements, known
 * versions, floors, the log itself.  The next server may be another one.
 */
void hw_pg_disconnect(hw_pg *pg)
{
    if (pg->caller_owned)
        return;
    hw_pg_forget(pg);
    hw_pg_bell_forget(pg);
    assert(!pg->in_flight && !pg->bell.ringing);
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->under_way = 0;
    pg->ended = false;
    pg->rings = false;
    pg->in_handler = false;
    pg->log[0] = '\0';
    pg->drawn = 0;
    while (pg->locks_n > 0)
        hw_free(pg->locks[--pg->locks_n]);
    pg->schema_checked = false;
    pg->unprepared = false;
    memset(pg->prepared, 0, sizeof pg->prepared);
    hw_pg_know_nothing(pg);
    pg->final_us = 0;
    hw_pg_floors_forget(pg);
}

/* Hanging up is the one way to roll back that cannot fail. */
void hw_pg_abandon(hw_pg *pg)
{
    if (pg->conn && PQtransactionStatus(pg->conn) != PQTRANS_IDLE)
        hw_pg_disconnect(pg);
}

/*
 * An idle server is silent, unless it ends the session, or has ended it.  Notifications are
 * taken in as well; 16 rounds, so that many of them do not keep us here.
 */
static bool is_hung_up(hw_pg *pg)
{
    struct pollfd p = {.fd = PQsocket(pg->conn), .events = POLLIN};

    for (int i = 0; i < 16 && !pg->ended && poll(&p, 1, 0) > 0; i++) {
        if (!PQconsumeInput(pg->conn))
            return true;
        (void)PQisBusy(pg->conn); /* hands notices to their receiver */
    }
    return pg->ended;
}

/*
 * In this order: the answer under way belongs to the session that is there (pg.h I4); then a
 * transaction that was left open ends with its session (I5 there); and only a session that has
 * been quiet is asked whether it still exists, because that costs a system call for each
 * operation.
 */
int hw_pg_session(hw_pg *pg, howdah_error *reterr)
{
    bool quiet = hw_clock_mono_ms() - pg->used_ms >= QUIET_MS;

    hw_pg_drain_reply(pg);
    hw_pg_abandon(pg);
    if (pg->conn && quiet && is_hung_up(pg))
        hw_pg_disconnect(pg);
    return pg->conn ? HOWDAH_OK : hw_pg_connect(pg, reterr);
}

/*
 * The caller's connection is taken as it is: hw_pg_wrap() has checked the schema, and its
 * transaction must not be touched.
 */
int hw_pg_ready(hw_pg *pg, howdah_error *reterr)
{
    int s;

    if (pg->caller_owned)
        return HOWDAH_OK;
    /* What is asked for belongs to the open transaction: no other session will do. */
    if (pg->in_handler && PQstatus(pg->conn) != CONNECTION_OK)
        return hw_fail(reterr, HOWDAH_UNAVAILABLE,
                       "the handler's connection to PostgreSQL is lost");
    if (pg->in_handler)
        return HOWDAH_OK;
    s = hw_pg_session(pg, reterr);
    if (s >= 0 && !pg->schema_checked)
        s = hw_pg_check_schema(pg, reterr);
    return s;
}
