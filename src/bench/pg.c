/*
 * pg.c - a bench on PostgreSQL: a schema of its own; the ceilings are in pg_ceilings.c.
 *
 * The schema's name is made of lower-case characters, digits and underscores here, so it needs no
 * quotes in the statements.
 */
#include "bench/pg.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"

/* "howdah_bench_" and 16 digits. */
#define NAME_SIZE 40
#define SQL_MAX 8192

/* ---- statements */

/* The first line only: an error's message is one line. */
int bench_pg_fail(const PGconn *conn, const PGresult *result, howdah_error *reterr)
{
    const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char why[300];

    (void)snprintf(why, sizeof why, "%s", primary ? primary : PQerrorMessage(conn));
    why[strcspn(why, "\n")] = '\0';
    return hw_fail(reterr, PQstatus(conn) == CONNECTION_OK ? HOWDAH_FAILED : HOWDAH_UNAVAILABLE,
                   "PostgreSQL: %s", why);
}

/* Ends the result in every case, so that callers need not. */
int bench_pg_expect(const PGconn *conn, PGresult *result, ExecStatusType wanted,
                    howdah_error *reterr)
{
    int s = result && PQresultStatus(result) == wanted ? HOWDAH_OK
                                                       : bench_pg_fail(conn, result, reterr);

    PQclear(result);
    return s;
}

/* DROP SCHEMA CASCADE tells of every object that it takes along. */
static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/*
 * A role's statement_timeout must not end a long COPY, and its synchronous_commit = off must not
 * flatter the ceiling; with allow_lossy both sides have what the server has.
 */
int bench_pg_connect(const bench_site *site, PGconn **ret_conn, howdah_error *reterr)
{
    static const char set_up[] =
        "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '30s', "
        "false), CASE WHEN current_setting('synchronous_commit') = 'off' THEN "
        "set_config('synchronous_commit', 'on', false) END";
    static const char set_up_lossy[] = "SELECT set_config('lock_timeout', '30s', false)";
    const char *lossy = howdah_settings_get(site->settings, "allow_lossy");
    PGconn *conn = PQconnectdb(site->url);
    int s;

    if (!conn)
        return hw_fail_no_memory(reterr);
    (void)PQsetNoticeReceiver(conn, ignore_notice, NULL);
    if (PQstatus(conn) != CONNECTION_OK)
        s = bench_pg_fail(conn, NULL, reterr);
    else
        s = bench_pg_expect(
            conn, PQexec(conn, lossy && strcmp(lossy, "true") == 0 ? set_up_lossy : set_up),
            PGRES_TUPLES_OK, reterr);
    if (s < 0) {
        PQfinish(conn);
        return s;
    }
    *ret_conn = conn;
    return HOWDAH_OK;
}

/* ---- the site */

/* Random, so that benches may run beside each other on one server. */
static int name_site(bench_site *site, const char *store_url, howdah_error *reterr)
{
    char place[NAME_SIZE];
    char ceiling[NAME_SIZE + 16];
    uint64_t number = 0;

    if (!hw_random_bytes(&number, sizeof number))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness to give");
    (void)snprintf(place, sizeof place, "howdah_bench_%016llx", (unsigned long long)number);
    (void)snprintf(ceiling, sizeof ceiling, "%s.ceiling", place);
    site->url = hw_strdup(store_url);
    site->place = hw_strdup(place);
    site->ceiling = hw_strdup(ceiling);
    return site->url && site->place && site->ceiling ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* Statements up to a NULL, on a connection of their own; @ stands for the schema. */
static int run_sql(const bench_site *site, const char *const *sql, howdah_error *reterr)
{
    PGconn *conn = NULL;
    int s = bench_pg_connect(site, &conn, reterr);

    assert(site->place);
    for (; s >= 0 && *sql; sql++) {
        hw_buf text = HW_BUF_INIT(SQL_MAX);

        for (const char *at = *sql; *at; at++) {
            if (*at == '@')
                hw_buf_puts(&text, site->place);
            else
                hw_buf_putc(&text, *at);
        }
        s = hw_buf_check(&text, reterr);
        if (s >= 0)
            s = bench_pg_expect(conn, PQexec(conn, hw_buf_str(&text)), PGRES_COMMAND_OK, reterr);
        hw_buf_done(&text);
    }
    PQfinish(conn);
    return s;
}

/*
 * The same columns, NOT NULLs, unique keys and indexes, whatever the migrations made them; a
 * sequence of its own.  No CHECKs, and of domains the types beneath: what is checked is ours to pay
 * for.
 */
static int make_ceiling(const bench_site *site, howdah_error *reterr)
{
    static const char *const sql[] = {
        "CREATE TABLE @.ceiling (LIKE @.events INCLUDING INDEXES INCLUDING STORAGE)",
        "DO $$ DECLARE change text; BEGIN FOR change IN SELECT format('ALTER TABLE @.ceiling"
        " ALTER %I TYPE %s', a.attname, format_type(t.typbasetype, t.typtypmod)) ||"
        " coalesce(' COLLATE ' || quote_ident(n.nspname) || '.' || quote_ident(c.collname), '')"
        " FROM pg_attribute AS a JOIN pg_type AS t ON t.oid = a.atttypid"
        " LEFT JOIN pg_collation AS c ON c.oid = a.attcollation"
        " LEFT JOIN pg_namespace AS n ON n.oid = c.collnamespace"
        " WHERE a.attrelid = '@.ceiling'::regclass AND a.attnum > 0 AND t.typtype = 'd'"
        " LOOP EXECUTE change; END LOOP; END $$",
        "CREATE SEQUENCE @.ceiling_seq OWNED BY @.ceiling.global_sequence",
        "ALTER TABLE @.ceiling ALTER global_sequence SET DEFAULT nextval('@.ceiling_seq'),"
        " ALTER recorded_at SET DEFAULT clock_timestamp(),"
        " ALTER revision SET DEFAULT 1, ALTER schema_version SET DEFAULT 1",
        "DO $$ DECLARE options text := (SELECT array_to_string(reloptions, ', ') FROM pg_class"
        " WHERE oid = '@.events'::regclass); BEGIN IF options IS NOT NULL THEN"
        " EXECUTE 'ALTER TABLE @.ceiling SET (' || options || ')'; END IF; END $$",
        NULL};

    /* What the log would be without the second time. */
    static const char *const one_time[] = {
        "CREATE TABLE @.ceiling" BENCH_PG_ONE_TIME " AS SELECT global_sequence, version,"
        " recorded_at, id, causation_id, schema_version, stream, type, correlation_id, actor,"
        " content_type, headers, data, bytes FROM @.ceiling",
        "ALTER TABLE @.ceiling" BENCH_PG_ONE_TIME " ALTER global_sequence SET NOT NULL,"
        " ALTER global_sequence SET DEFAULT nextval('@.ceiling_seq'),"
        " ALTER recorded_at SET DEFAULT clock_timestamp(), ALTER schema_version SET DEFAULT 1,"
        " ADD PRIMARY KEY (global_sequence), ADD UNIQUE (stream, version), ADD UNIQUE (id)",
        "CREATE INDEX ON @.ceiling" BENCH_PG_ONE_TIME " (type, global_sequence)",
        "CREATE INDEX ON @.ceiling" BENCH_PG_ONE_TIME " (correlation_id, global_sequence)"
        " WHERE correlation_id IS NOT NULL",
        "CREATE INDEX ON @.ceiling" BENCH_PG_ONE_TIME " (causation_id, global_sequence)"
        " WHERE causation_id IS NOT NULL",
        NULL};
    int s;

    if (site->plan->kind == BENCH_QUEUE || site->plan->against == BENCH_AGAINST_DELETE) {
        PGconn *conn = NULL;

        s = bench_pg_connect(site, &conn, reterr);
        if (s >= 0)
            s = bench_pg_make_queue(conn, site, reterr);
        PQfinish(conn);
        return s;
    }
    s = run_sql(site, sql, reterr);
    return s >= 0 && site->plan->kind == BENCH_ASOF ? run_sql(site, one_time, reterr) : s;
}

/*
 * In plain SQL and one statement: a tenth of a million corrections by our own calls would take
 * longer than the bench.
 */
static int correct(const bench_site *site, howdah_error *reterr)
{
    static const char *const sql[] = {
        "INSERT INTO @.events (stream, version, type, data, family, corrects, revision, reason,"
        " valid_time, recorded_at)"
        " SELECT e.stream, 100 + row_number() OVER (PARTITION BY e.stream ORDER BY e.version),"
        " e.type, e.data, e.id, e.id, 2, 'bench', e.recorded_at, clock_timestamp()"
        " FROM @.events AS e WHERE (e.global_sequence / 100 + e.global_sequence) % 10 = 0",
        NULL};

    return run_sql(site, sql, reterr);
}

/* What a forgotten session, a long report or a backup does. */
static int pin(const bench_site *site, void **ret_pin, howdah_error *reterr)
{
    PGconn *conn = NULL;
    int s = bench_pg_connect(site, &conn, reterr);

    if (s >= 0)
        s = bench_pg_expect(conn, PQexec(conn, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1"),
                            PGRES_TUPLES_OK, reterr);
    if (s < 0) {
        PQfinish(conn);
        return s;
    }
    *ret_pin = conn;
    return HOWDAH_OK;
}

/* The appender's number is the first; all that is burnt comes after it. */
static int fill_with_holes(const bench_site *site, void **ret_pin, howdah_error *reterr)
{
    PGconn *conn = NULL;
    char sql[512];
    char fill[1024];
    const char *const fills[] = {fill, NULL};
    int s = bench_pg_connect(site, &conn, reterr);

    (void)snprintf(sql, sizeof sql, "BEGIN; SELECT %s.append('open', 'bench.open')", site->place);
    (void)snprintf(
        fill, sizeof fill,
        "INSERT INTO @.events (stream, version, type, data)"
        " SELECT 'bench-' || g %% 100, g / 100 + 1, 'bench.event', json_build_object('number', g,"
        " 'note', left(repeat(md5(g::text), %lld), %lld)) FROM generate_series(1, %lld) AS g"
        " WHERE g > %lld OR nextval('@.events_global_sequence_seq') IS NOT NULL",
        (long long)(site->plan->payload / 32 + 1), (long long)site->plan->payload,
        (long long)site->plan->events, (long long)site->plan->holes);
    if (s >= 0)
        s = bench_pg_expect(conn, PQexec(conn, sql), PGRES_TUPLES_OK, reterr);
    if (s >= 0)
        s = run_sql(site, fills, reterr);
    if (s < 0) {
        PQfinish(conn);
        return s;
    }
    *ret_pin = conn;
    return HOWDAH_OK;
}

static int wal_bytes(const bench_site *site, int64_t *ret_bytes, howdah_error *reterr)
{
    PGconn *conn = NULL;
    PGresult *result;
    int s = bench_pg_connect(site, &conn, reterr);

    if (s < 0)
        return s;
    result = PQexec(conn, "SELECT pg_current_wal_insert_lsn() - '0/0'");
    if (PQntuples(result) == 1)
        *ret_bytes = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    s = bench_pg_expect(conn, result, PGRES_TUPLES_OK, reterr);
    PQfinish(conn);
    return s;
}

/* Closing the connection rolls its transaction back. */
static void unpin(void *conn)
{
    PQfinish(conn);
}

/* Autovacuum would come within the minute, into somebody's slice. */
static int quiesce(const bench_site *site, howdah_error *reterr)
{
    static const char *const sql[] = {"VACUUM (ANALYZE) @.events", "CHECKPOINT", NULL};
    static const char *const sql_no_superuser[] = {"VACUUM (ANALYZE) @.events", NULL};

    /* CHECKPOINT is for the few; nothing depends on it. */
    if (run_sql(site, sql, NULL) >= 0)
        return HOWDAH_OK;
    return run_sql(site, sql_no_superuser, reterr);
}

/* The roles that the migrations made for this schema have its name before theirs. */
static int remove_site(const bench_site *site, howdah_error *reterr)
{
    static const char *const sql[] = {
        "DROP SCHEMA IF EXISTS @ CASCADE", "DROP SCHEMA IF EXISTS @" BENCH_QUIET " CASCADE",
        "DO $$ DECLARE name text; BEGIN FOR name IN SELECT rolname FROM pg_roles"
        " WHERE starts_with(rolname, '@_') LOOP EXECUTE format('DROP ROLE %I', name);"
        " END LOOP; END $$",
        NULL};
    int s = run_sql(site, sql, reterr);

    if (s < 0) {
        hw_error_prefix(reterr, "the schema %s of the bench is left behind", site->place);
        return hw_advise(reterr, s, "drop it by hand: DROP SCHEMA %s CASCADE, and its roles",
                         site->place);
    }
    return s;
}

const bench_backend bench_backend_pg = {
    .name = "postgresql",
    .name_site = name_site,
    .make_ceiling = make_ceiling,
    .wal_bytes = wal_bytes,
    .pin = pin,
    .unpin = unpin,
    .fill_with_holes = fill_with_holes,
    .correct = correct,
    .quiesce = quiesce,
    .open_client = bench_pg_open_client,
    .open_subscribers = bench_pg_open_subscribers,
    .remove = remove_site,
};
