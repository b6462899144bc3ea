/*
 * conn.c - connecting, and what every session of ours is set to.
 *
 *   I1  A server in recovery is refused for writing.
 *   I2  Time-outs that a role or database sets do not apply to our sessions: we have our own.
 *   I3  synchronous_commit is never "off" in our sessions unless the user allows it: an
 *       acknowledged append must survive a crash.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/text.h"
#include "engine/backoff.h"
#include "store/pg/pg.h"

#define RECONNECT_FIRST_MS 50
#define RECONNECT_MAX_MS 2000
#define KEYWORDS_MAX 64

/* Ours unless the URL says otherwise: a dead peer is noticed in seconds, not hours. */
static const char *const our_defaults[][2] = {
    {"keepalives", "1"},       {"keepalives_idle", "10"},     {"keepalives_interval", "3"},
    {"keepalives_count", "3"}, {"tcp_user_timeout", "15000"}, {"client_encoding", "UTF8"},
};

typedef struct keywords {
    const char *keys[KEYWORDS_MAX + 1];
    const char *values[KEYWORDS_MAX + 1];
    size_t n;
    char timeout[24];
} keywords;

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

static void gather_keywords(const hw_pg *pg, const PQconninfoOption *options, keywords *k)
{
    const char *hosts = given(options, "host");
    int64_t seconds = (pg->connect_timeout_ms + 999) / 1000;

    k->n = 0;
    for (const PQconninfoOption *o = options; o->keyword; o++)
        if (o->val)
            add_keyword(k, o->keyword, o->val);
    for (size_t i = 0; i < sizeof our_defaults / sizeof our_defaults[0]; i++)
        if (!given(options, our_defaults[i][0]))
            add_keyword(k, our_defaults[i][0], our_defaults[i][1]);
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

static void ignore_notice(void *arg, const PGresult *result)
{
    hw_pg *pg = arg;
    const char *text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);

    if (!text)
        return;
    if (pg->note)
        pg->note(pg->note_ctx, text);
    else
        hw_log(HOWDAH_LOG_DEBUG, "PostgreSQL: %s", text);
}

/* Without a SQLSTATE (libpq gives none here) the words decide; when in doubt: unavailable. */
static int fail_connect(const PGconn *conn, howdah_error *reterr)
{
    static const char *const denied[] = {"authentication failed", "pg_hba.conf", "does not exist",
                                         "no password supplied", "permission denied for database"};
    char why[300];
    int status = HOWDAH_UNAVAILABLE;

    (void)snprintf(why, sizeof why, "%s", PQerrorMessage(conn));
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
                         : "is the server running, and the store URL right? howdah doctor looks "
                           "closer");
}

static int connect_once(hw_pg *pg, bool *ret_patience, howdah_error *reterr)
{
    char *why = NULL;
    PQconninfoOption *options = PQconninfoParse(pg->url, &why);
    keywords k;
    int s = HOWDAH_OK;

    *ret_patience = false;
    if (!options) {
        /* libpq's text may quote the URL, password and all: it is not shown. */
        s = hw_fail_field(reterr, HOWDAH_INVALID, "store",
                          "not a libpq connection string or URL, in %zu bytes", strlen(pg->url));
        PQfreemem(why);
        return s;
    }
    gather_keywords(pg, options, &k);
    pg->conn = PQconnectdbParams(k.keys, k.values, 0);
    if (!pg->conn) {
        s = hw_fail_no_memory(reterr);
    } else if (PQstatus(pg->conn) != CONNECTION_OK) {
        s = fail_connect(pg->conn, reterr);
        /* A server that rejects is starting or stopping; one that was there may come back. */
        *ret_patience = s == HOWDAH_UNAVAILABLE &&
                        (pg->was_open || PQpingParams(k.keys, k.values, 0) == PQPING_REJECT);
        PQfinish(pg->conn);
        pg->conn = NULL;
    }
    PQconninfoFree(options);
    return s;
}

static const char session_sql[] =
    "SELECT set_config(v.name, v.value, false) FROM (VALUES"
    " ('statement_timeout', '0'), ('lock_timeout', '0'),"
    " ('idle_in_transaction_session_timeout', '0'), ('idle_session_timeout', '0'),"
    " ('default_transaction_isolation', 'read committed'), ('jit', 'off'),"
    " ('search_path', 'pg_catalog, pg_temp'), ('DateStyle', 'ISO'), ('TimeZone', 'UTC'),"
    " ('bytea_output', 'hex'), ('plan_cache_mode', 'force_generic_plan')) AS v(name, value) JOIN "
    "pg_catalog.pg_settings AS s"
    " ON lower(s.name) = lower(v.name);"
    "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'),"
    " current_setting('server_encoding'), current_setting('transaction_read_only')";

static int check_session(hw_pg *pg, const PGresult *result, howdah_error *reterr)
{
    bool recovery = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
    int s;

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
    if (recovery && !pg->read_only)
        return hw_advise(reterr,
                         hw_fail(reterr, HOWDAH_READ_ONLY,
                                 "this server is in recovery (a standby): it takes no writes"),
                         "connect to the primary, or name several hosts; for reading only: "
                         "--set read_only=true");
    if (strcmp(PQgetvalue(result, 0, 1), "off") == 0 && !pg->allow_lossy && !recovery) {
        hw_log(HOWDAH_LOG_WARN, "synchronous_commit is off here: switched on for our session");
        return hw_pg_command(pg, "SET synchronous_commit = on", reterr);
    }
    return HOWDAH_OK;
}

static int set_up_session(hw_pg *pg, howdah_error *reterr)
{
    hw_pg_call call = {.statement = -1, .sql = session_sql};
    PGresult *result = NULL;
    int s;

    (void)PQsetNoticeReceiver(pg->conn, ignore_notice, pg);
    if (PQsetnonblocking(pg->conn, 1) != 0)
        return hw_fail(reterr, HOWDAH_UNAVAILABLE, "cannot make the connection non-blocking");
    s = hw_pg_exec(pg, &call, &result, reterr);
    if (s >= 0)
        s = check_session(pg, result, reterr);
    PQclear(result);
    return s;
}

int hw_pg_connect(hw_pg *pg, howdah_error *reterr)
{
    int64_t until = hw_clock_mono_ms() + pg->connect_timeout_ms;

    for (unsigned attempt = 0;; attempt++) {
        bool patience = false;
        int64_t pause =
            hw_backoff_ms(RECONNECT_FIRST_MS, RECONNECT_MAX_MS, attempt, 50, hw_random_u32());
        int s;

        if (hw_interrupted(pg->interrupt))
            return hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
        s = connect_once(pg, &patience, reterr);
        if (s >= 0) {
            s = set_up_session(pg, reterr);
            if (s >= 0) {
                pg->was_open = true;
                return HOWDAH_OK;
            }
            patience = s == HOWDAH_UNAVAILABLE && !pg->conn;
            hw_pg_disconnect(pg);
        }
        if (!patience || hw_clock_mono_ms() + pause >= until)
            return s;
        hw_clock_sleep_ms(pause);
    }
}

void hw_pg_disconnect(hw_pg *pg)
{
    if (pg->foreign)
        return;
    hw_pg_forget(pg);
    PQfinish(pg->conn);
    pg->conn = NULL;
    pg->schema_checked = false;
    pg->unprepared = false;
    memset(pg->prepared, 0, sizeof pg->prepared);
}

int hw_pg_ready(hw_pg *pg, howdah_error *reterr)
{
    int s = HOWDAH_OK;

    if (pg->foreign)
        return HOWDAH_OK;
    if (pg->conn && PQstatus(pg->conn) == CONNECTION_BAD)
        hw_pg_disconnect(pg);
    if (!pg->conn)
        s = hw_pg_connect(pg, reterr);
    if (s >= 0 && !pg->schema_checked)
        s = hw_pg_check_schema(pg, reterr);
    return s;
}
