/* status.c - facts about the bus, and the doctor's look at the server. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "store/migrations.h"
#include "store/pg/pg.h"

#define SQL_BYTES_MAX 16384

/*
 * A text query with names filled in, and the schema as $1 where the text asks for it.  As text,
 * because facts are shown and not computed with.
 */
static int ask(hw_pg *pg, const char *text, PGresult **ret_result, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(SQL_BYTES_MAX);
    hw_pg_call call = {.statement = -1, .text_result = true};
    int s = hw_pg_fill_names(text, pg->schema, &sql, reterr);

    if (s >= 0) {
        call.sql = hw_buf_str(&sql);
        if (strstr(text, "$1")) {
            call.values[0] = pg->schema;
            call.n = 1;
        }
        s = hw_pg_query(pg, &call, ret_result, reterr);
    }
    hw_buf_done(&sql);
    return s;
}

/* ------------------------------------------------------------------- status */

/* fn's non-zero result ends the list. */
static int fact(hw_fact_fn fn, void *ctx, const char *key, const char *value, bool number)
{
    howdah_fact f = {sizeof f, key, value, number};

    return fn(ctx, &f);
}

/*
 * Each column of the only row is a fact; its name is the key, and a trailing # says that it is
 * a number.  NULL: the fact is left out.
 */
static int facts_of(hw_pg *pg, const char *text, hw_fact_fn fn, void *ctx, howdah_error *reterr)
{
    PGresult *result = NULL;
    int s = ask(pg, text, &result, reterr);

    for (int i = 0; s >= 0 && PQntuples(result) > 0 && i < PQnfields(result); i++) {
        char key[64];
        size_t len;

        if (PQgetisnull(result, 0, i))
            continue;
        (void)snprintf(key, sizeof key, "%s", PQfname(result, i));
        len = strlen(key);
        if (len > 0 && key[len - 1] == '#')
            key[len - 1] = '\0';
        if (fact(fn, ctx, key, PQgetvalue(result, 0, i), key[len - 1] == '\0') != 0)
            break;
    }
    PQclear(result);
    return s;
}

/* What every role may ask. */
static const char server_facts[] =
    "SELECT 'postgresql' AS store, 'PostgreSQL ' || current_setting('server_version') AS server,"
    " current_database() AS database, current_user AS \"user\", $1 AS schema,"
    " @schema@.schema_version() AS \"schema_version#\"";

/* Counting a large table takes minutes: past a hundred thousand rows the estimate will do. */
static const char table_facts[] =
    "SELECT m.value AS bus,"
    " CASE WHEN c.reltuples > 100000 THEN c.reltuples::bigint"
    "  ELSE (SELECT count(*) FROM @schema@.events) END AS \"events#\","
    " (SELECT coalesce(max(global_sequence), 0) FROM @schema@.events) AS \"head#\","
    " (SELECT to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
    "  FROM @schema@.events ORDER BY global_sequence DESC LIMIT 1) AS last_recorded_at,"
    " pg_total_relation_size(c.oid) AS \"bytes#\""
    " FROM @schema@.meta AS m, pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE m.key = 'bus_id' AND n.nspname = $1 AND c.relname = 'events'";

/* A transaction that drew a number holds a lock on the sequence until it ends (hole_evidence.c).
   Which prepared transaction it is, only the lock on its transaction id tells. */
static const char writer_facts[] =
    "WITH l AS MATERIALIZED (SELECT * FROM pg_locks WHERE granted),"
    " w AS (SELECT coalesce(a.xact_start, p.prepared) AS since,"
    "  coalesce('pid ' || l.pid || coalesce(' (' || nullif(a.application_name, '') || ')', ''),"
    "   'prepared ' || p.gid) AS name"
    "  FROM l JOIN pg_class AS c ON c.oid = l.relation"
    "  JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    "  LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid"
    "  LEFT JOIN LATERAL (SELECT p.gid, p.prepared FROM pg_prepared_xacts AS p"
    "   JOIN l AS x ON x.transactionid = p.transaction"
    "   WHERE x.locktype = 'transactionid' AND x.virtualtransaction = l.virtualtransaction"
    "   LIMIT 1) AS p ON l.pid IS NULL"
    "  WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'"
    "  AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())"
    "  AND n.nspname = $1 AND c.relname = 'events_global_sequence_seq')"
    " SELECT count(*) AS \"open_writers#\","
    "  extract(epoch FROM clock_timestamp() - min(w.since))::numeric(12,3)"
    "   AS \"oldest_writer_age_s#\","
    "  (array_agg(w.name ORDER BY w.since))[1] AS oldest_writer FROM w";

/* Without rights on the table there is still the head, by its function. */
int hw_pg_status(hw_store *store, hw_fact_fn fn, void *ctx, howdah_error *reterr)
{
    hw_pg *pg = (hw_pg *)store;
    int s = hw_pg_ready(pg, reterr);

    if (s >= 0)
        s = facts_of(pg, server_facts, fn, ctx, reterr);
    if (s >= 0 && pg->direct_read)
        s = facts_of(pg, table_facts, fn, ctx, reterr);
    else if (s >= 0)
        s = facts_of(pg, "SELECT @schema@.head() AS \"head#\"", fn, ctx, reterr);
    if (s >= 0)
        s = facts_of(pg, writer_facts, fn, ctx, reterr);
    return s;
}

/* ------------------------------------------------------------------- doctor */

/* One visit to the doctor: every look says what it found, until the caller has heard enough. */
typedef struct consultation {
    hw_pg *pg;
    hw_finding_fn fn;
    void *ctx;
    bool stop;
} consultation;

static void say(consultation *c, howdah_severity severity, const char *check, const char *message,
                const char *advice)
{
    howdah_finding finding = {sizeof finding, severity, check, message, advice};

    if (!c->stop)
        c->stop = c->fn(c->ctx, &finding) != 0;
}

/* The columns of r, here and below, are those of the doctor's question (hw_pg_doctor()). */
static void look_at_server(consultation *c, const PGresult *r)
{
    char text[300];
    int version = PQserverVersion(c->pg->conn);
    bool recovery = strcmp(PQgetvalue(r, 0, 1), "t") == 0;

    (void)snprintf(text, sizeof text, "PostgreSQL %s, database %s, user %s", PQgetvalue(r, 0, 0),
                   PQdb(c->pg->conn), PQuser(c->pg->conn));
    say(c, version < HW_PG_VERSION_MIN ? HOWDAH_BAD : HOWDAH_GOOD, "server", text,
        version < HW_PG_VERSION_MIN ? "use PostgreSQL 13 or newer" : "");
    say(c, recovery ? HOWDAH_BAD : HOWDAH_GOOD, "role",
        recovery ? "the server is in recovery: it takes no writes" : "the server takes writes",
        recovery ? "connect to the primary, or name several hosts in the URL" : "");
    if (strcmp(PQgetvalue(r, 0, 7), "UTF8") != 0)
        say(c, HOWDAH_BAD, "encoding", "the database's encoding is not UTF8",
            "create the database with --encoding=UTF8 --template=template0");
}

/*
 * Worst first: without fsync or full_page_writes the database itself can be damaged; without
 * synchronous_commit only the last appends are lost.
 */
static void look_at_durability(consultation *c, const PGresult *r)
{
    bool fsync = strcmp(PQgetvalue(r, 0, 2), "on") == 0;
    bool pages = strcmp(PQgetvalue(r, 0, 3), "on") == 0;
    bool commit = strcmp(PQgetvalue(r, 0, 4), "off") != 0;

    if (fsync && pages && commit) {
        say(c, HOWDAH_GOOD, "durability", "an acknowledged event survives a crash of the server",
            "");
        return;
    }
    if (!fsync || !pages)
        say(c, HOWDAH_BAD, "durability",
            fsync ? "full_page_writes is off: a crash can damage the database"
                  : "fsync is off: a crash loses and damages data",
            "set fsync = on and full_page_writes = on in postgresql.conf");
    if (!commit)
        say(c, HOWDAH_WARNING, "durability",
            "synchronous_commit is off for this user: howdah switches it on for its own sessions, "
            "but appends by the SQL functions in other sessions can be lost in a crash",
            "ALTER ROLE ... SET synchronous_commit = on");
}

/*
 * conn.c I7: a process id that is not the server's.  It works, but with leases, polling and no
 * prepared statements.
 */
static void look_at_pooler(consultation *c, const PGresult *r)
{
    bool pooled = PQbackendPID(c->pg->conn) != (int)strtol(PQgetvalue(r, 0, 5), NULL, 10);

    say(c, pooled ? HOWDAH_WARNING : HOWDAH_GOOD, "pooler",
        pooled ? "a pooler is between howdah and the server" : "connected directly to the server",
        pooled ? "use its session mode, or connect to the server itself" : "");
}

/* Only a warning: howdah goes by the server's clock, but people compare times with their own. */
static void look_at_clock(consultation *c, const PGresult *r)
{
    int64_t server_us = strtoll(PQgetvalue(r, 0, 6), NULL, 10);
    int64_t apart_us = hw_clock_wall_us() - server_us;
    char text[200];

    if (apart_us < 0)
        apart_us = -apart_us;
    /* In whole numbers: the program's locale may have another decimal point. */
    (void)snprintf(text, sizeof text,
                   "this machine and the server are %" PRId64 ".%" PRId64 " s apart",
                   apart_us / 1000000, apart_us / 100000 % 10);
    say(c, apart_us > 5000000 ? HOWDAH_WARNING : HOWDAH_GOOD, "clock", text,
        apart_us > 5000000 ? "howdah uses the server's clock; run NTP on both" : "");
}

/* Above nine tenths: a subscriber or a worker that reconnects may find no place. */
static void look_at_connections(consultation *c, const PGresult *r)
{
    long used = strtol(PQgetvalue(r, 0, 8), NULL, 10);
    long most = strtol(PQgetvalue(r, 0, 9), NULL, 10);
    bool tight = used * 10 > most * 9;
    char text[120];

    (void)snprintf(text, sizeof text, "%ld of %ld connections in use", used, most);
    say(c, tight ? HOWDAH_WARNING : HOWDAH_GOOD, "connections", text,
        tight ? "raise max_connections or use a pooler in session mode" : "");
}

/* Sets schema_checked, direct_append and direct_read, which the looks after this one go by. */
static void look_at_schema(consultation *c)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    hw_pg *pg = c->pg;
    char text[300];

    if (hw_pg_check_schema(pg, &err) < 0) {
        say(c, HOWDAH_BAD, "schema", err.message, err.advice);
        return;
    }
    (void)snprintf(text, sizeof text, "schema %s at step %zu", pg->schema, hw_pg_steps_n);
    say(c, HOWDAH_GOOD, "schema", text, "");
    if (pg->direct_append && pg->direct_read)
        say(c, HOWDAH_GOOD, "privileges", "this user appends and reads straight on the tables", "");
    else
        say(c, HOWDAH_GOOD, "privileges",
            "this user works through the SQL functions (slower than with rights on the tables)",
            "");
}

/*
 * A transaction that drew a number and stays open keeps that number undecided for every reader.
 */
static void look_at_writers(consultation *c)
{
    PGresult *r = NULL;

    if (ask(c->pg, writer_facts, &r, NULL) >= 0 && PQntuples(r) == 1) {
        double age = PQgetisnull(r, 0, 1) ? 0 : strtod(PQgetvalue(r, 0, 1), NULL);
        char text[300];

        (void)snprintf(text, sizeof text,
                       "%s open transactions hold a number, the oldest for %.1f s%s%s",
                       PQgetvalue(r, 0, 0), age, PQgetisnull(r, 0, 2) ? "" : ": ",
                       PQgetisnull(r, 0, 2) ? "" : PQgetvalue(r, 0, 2));
        say(c, age > 60 ? HOWDAH_WARNING : HOWDAH_GOOD, "writers", text,
            age > 60 ? "its events are invisible until it commits; end it if it is stuck" : "");
    }
    PQclear(r);
}

/*
 * A sequence with a cache lets sessions keep numbers for later, and no lock tells of those: their
 * holes would be taken for dead, and jobs and history would not be in order.
 */
static const char hoarded_sequences[] =
    "SELECT string_agg(format('%I.%I', n.nspname, c.relname), ', ' ORDER BY c.relname)"
    " FROM pg_sequence AS s JOIN pg_class AS c ON c.oid = s.seqrelid"
    " JOIN pg_namespace AS n ON n.oid = c.relnamespace"
    " WHERE n.nspname = $1 AND s.seqcache <> 1";

static void look_at_sequences(consultation *c)
{
    PGresult *r = NULL;
    char text[300];

    if (ask(c->pg, hoarded_sequences, &r, NULL) >= 0 && PQntuples(r) == 1) {
        if (PQgetisnull(r, 0, 0)) {
            say(c, HOWDAH_GOOD, "sequences", "numbers are drawn one at a time", "");
        } else {
            (void)snprintf(text, sizeof text, "sessions draw numbers in advance from %s",
                           PQgetvalue(r, 0, 0));
            say(c, HOWDAH_BAD, "sequences", text,
                "ALTER SEQUENCE ... CACHE 1, then end all sessions that append: events can be "
                "missed until then");
        }
    }
    PQclear(r);
}

/*
 * In a copy of the tables without their sequences, numbers would be given out a second time
 * (schema.c I4).
 */
static int look_at_numbers(consultation *c, howdah_error *reterr)
{
    PGresult *r = NULL;
    char text[200];
    int s = ask(c->pg,
                "SELECT n.drawn, greatest(n.stored, n.done), @schema@.sequence_problem()"
                " FROM @schema@.log_numbers() AS n",
                &r, reterr);

    if (s >= 0 && !PQgetisnull(r, 0, 2)) {
        say(c, HOWDAH_BAD, "numbers", PQgetvalue(r, 0, 2),
            "nothing can be appended until you run: howdah migrate up");
    } else if (s >= 0) {
        int64_t drawn = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
        int64_t used = strtoll(PQgetvalue(r, 0, 1), NULL, 10);

        (void)snprintf(text, sizeof text,
                       used > drawn ? "number %lld is in use, and the log's sequence is at %lld: "
                                      "appends will collide when it gets there"
                                    : "the numbers in use reach %lld, and the log's sequence %lld",
                       (long long)used, (long long)drawn);
        say(c, used > drawn ? HOWDAH_WARNING : HOWDAH_GOOD, "numbers", text,
            used > drawn ? "raise the sequence: howdah migrate up" : "");
    }
    PQclear(r);
    return s;
}

int hw_pg_numbers(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    consultation c = {(hw_pg *)store, fn, ctx, false};
    int s = hw_pg_ready(c.pg, reterr);

    return s < 0 ? s : look_at_numbers(&c, reterr);
}

/*
 * Goes by what it finds: a server that cannot be asked at all is an error, everything else is a
 * finding.  ask() needs no schema, so a database without a bus can be looked at, too.
 */
int hw_pg_doctor(hw_store *store, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    consultation c = {(hw_pg *)store, fn, ctx, false};
    PGresult *r = NULL;
    /* The doctor opens with allow_lossy, so that synchronous_commit is as the user has it. */
    int s = ask(c.pg,
                "SELECT current_setting('server_version'), pg_is_in_recovery(),"
                " current_setting('fsync'), current_setting('full_page_writes'),"
                " current_setting('synchronous_commit'), pg_backend_pid(),"
                " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
                " current_setting('server_encoding'),"
                " (SELECT count(*) FROM pg_stat_activity), current_setting('max_connections')",
                &r, reterr);

    if (s >= 0) {
        assert(PQnfields(r) == 10 && c.pg->conn);
        look_at_server(&c, r);
        look_at_durability(&c, r);
        look_at_pooler(&c, r);
        look_at_clock(&c, r);
        look_at_connections(&c, r);
        look_at_schema(&c);
        if (c.pg->schema_checked) {
            look_at_sequences(&c);
            (void)look_at_numbers(&c, NULL); /* some roles may not */
            look_at_writers(&c);
        }
    }
    PQclear(r);
    return s;
}
