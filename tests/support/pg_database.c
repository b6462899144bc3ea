/* pg_database.c - one migrated database, and a copy of it for each case. */
#include "pg_database.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <libpq-fe.h>

#include "base/random.h"

/* What tools/with-pg calls the database in its URL. */
#define GIVEN_NAME "/howdah_test?"

static struct {
    char schema[64];
    char template[64]; /* its name; empty before it is made */
    int copies;        /* ever made */
    const char *server_url;
} database;

const char *pg_database_schema(void)
{
    if (!database.schema[0])
        (void)snprintf(database.schema, sizeof database.schema, "t \"%d-%x", (int)getpid(),
                       hw_random_u32());
    return database.schema;
}

/* One session makes and drops all of them: opening one costs as much as dropping a database. */
static PGconn *session(void)
{
    static PGconn *conn;

    if (conn && PQstatus(conn) == CONNECTION_OK)
        return conn;
    PQfinish(conn);
    conn = PQconnectdb(database.server_url);
    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    PQclear(PQexec(conn, "SET client_min_messages = warning"));
    return conn;
}

static void run(const char *sql)
{
    PGresult *result = PQexec(session(), sql);

    if (PQresultStatus(result) != PGRES_COMMAND_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(session()));
    PQclear(result);
}

/*
 * Since PostgreSQL 15 a copy goes through the server's log, page by page, unless it is told to copy
 * files: half of the processor time.
 */
static const char *copies_files(void)
{
    const char *major = getenv("HOWDAH_TEST_PG_MAJOR");

    return major && strtol(major, NULL, 10) >= 15 ? " STRATEGY file_copy" : "";
}

static void url_of(const char *name, char *ret_url, size_t url_bytes_max)
{
    const char *at = strstr(database.server_url, GIVEN_NAME);
    int n;

    if (!at)
        fail_msg("no %s in %s", GIVEN_NAME, database.server_url);
    n = snprintf(ret_url, url_bytes_max, "%.*s/%s?%s", (int)(at - database.server_url),
                 database.server_url, name, at + strlen(GIVEN_NAME));
    assert_true(n > 0 && (size_t)n < url_bytes_max);
}

static void make_template(pg_database_migrate migrate)
{
    char name[sizeof database.template];
    char url[1024];
    char sql[256];

    (void)snprintf(name, sizeof name, "cases_%d_%x", (int)getpid(), hw_random_u32());
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s", name);
    run(sql);
    url_of(name, url, sizeof url);
    migrate(url, pg_database_schema());
    memcpy(database.template, name, sizeof name);
}

void pg_database_open(const char *server_url, pg_database_migrate migrate, char *ret_url,
                      size_t url_bytes_max)
{
    char name[96];
    char sql[256];

    database.server_url = server_url;
    if (!database.template[0])
        make_template(migrate);
    (void)snprintf(name, sizeof name, "%s_%d", database.template, ++database.copies);
    (void)snprintf(sql, sizeof sql, "CREATE DATABASE %s TEMPLATE %s%s", name, database.template,
                   copies_files());
    run(sql);
    url_of(name, ret_url, url_bytes_max);
}

void pg_database_close(const char *url)
{
    const char *name = strstr(url, "/cases_");
    char sql[256];

    assert_non_null(name);
    name++;
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %.*s WITH (FORCE)", (int)strcspn(name, "?"),
                   name);
    run(sql);
}

static void drop_role(const char *suffix)
{
    char role[128];
    char sql[512];
    char *quoted;

    (void)snprintf(role, sizeof role, "%s%s", pg_database_schema(), suffix);
    quoted = PQescapeIdentifier(session(), role, strlen(role));
    assert_non_null(quoted);
    (void)snprintf(sql, sizeof sql, "DROP ROLE IF EXISTS %s", quoted);
    PQfreemem(quoted);
    run(sql);
}

void pg_database_end(void)
{
    static const char *const suffixes[] = {"_publish", "_read", "_subscribe", "_work", "_admin"};
    char sql[256];

    if (!database.template[0])
        return;
    (void)snprintf(sql, sizeof sql, "DROP DATABASE %s WITH (FORCE)", database.template);
    database.template[0] = '\0';
    run(sql);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        drop_role(suffixes[i]);
}
