/*
 * queue_race_sql.c - those who work by the SQL functions alone, in an isolation level of their own.
 *
 * A claim is one transaction, a verdict another.  Whatever the server asks to be tried again is
 * tried again; after an answer that did not come, "false" says nothing.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "queue_race.h"

#define BATCH_MAX 5

typedef struct sql_worker {
    const qr_arena *arena;
    PGconn *conn;
    const char *level;
    char name[32];
} sql_worker;

/* What became of a transaction. */
typedef enum fate { DONE, AGAIN, UNKNOWN } fate;

/* ---- sessions */

static void be_silent(void *ctx, const char *message)
{
    (void)ctx;
    (void)message;
}

static bool try_connect(sql_worker *w)
{
    char *schema;
    char text[256];
    PGresult *r;
    bool fine;

    PQfinish(w->conn);
    w->conn = PQconnectdb(w->arena->url);
    if (PQstatus(w->conn) != CONNECTION_OK)
        return false;
    (void)PQsetNoticeProcessor(w->conn, be_silent, NULL);
    schema = PQescapeIdentifier(w->conn, w->arena->schema, strlen(w->arena->schema));
    (void)snprintf(text, sizeof text,
                   "SET application_name = race; SET search_path = %s;"
                   " SET default_transaction_isolation = '%s'",
                   schema, w->level);
    PQfreemem(schema);
    r = PQexec(w->conn, text);
    fine = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return fine;
}

static void connect_at_last(sql_worker *w)
{
    while (!try_connect(w))
        (void)usleep(20000);
}

/* An error that is neither a conflict nor the end of the session should not be. */
static fate fate_of(const PGresult *r)
{
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);

    if (PQresultStatus(r) == PGRES_TUPLES_OK)
        return DONE;
    if (state && (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0))
        return AGAIN;
    if (state && strncmp(state, "57", 2) != 0)
        qr_odd(PQresultErrorMessage(r), 0, NULL);
    return UNKNOWN;
}

/* A statement that is a transaction of its own; the rows are the caller's when it is DONE. */
static fate run(sql_worker *w, const char *text, PGresult **ret_rows)
{
    PGresult *r = PQexec(w->conn, text);
    fate f = fate_of(r);

    if (f == DONE)
        *ret_rows = r;
    else
        PQclear(r);
    if (f == UNKNOWN)
        connect_at_last(w);
    return f;
}

/* ---- a turn */

static int64_t number(const PGresult *r, int row, int column)
{
    return strtoll(PQgetvalue(r, row, column), NULL, 10);
}

static qr_hold hold_of(const PGresult *r, int row)
{
    return (qr_hold){
        .id = number(r, row, 0),
        .token = number(r, row, 1),
        .attempt = (int32_t)number(r, row, 2),
        .key = PQgetisnull(r, row, 3) ? 0 : (int32_t)strtol(PQgetvalue(r, row, 3) + 1, NULL, 10),
        .kind = strtol(PQgetvalue(r, row, 4) + 1, NULL, 10),
        .started_us = number(r, row, 5),
        .until_us = number(r, row, 6)};
}

static size_t take(sql_worker *w, qr_hold holds[BATCH_MAX])
{
    unsigned lease_ms = 200 + qr_pick(400);
    char text[512];
    PGresult *r = NULL;
    size_t n;

    (void)snprintf(text, sizeof text,
                   "SELECT id, token, attempts, key, data,"
                   " (extract(epoch FROM lease_until) * 1000000)::bigint - %u000,"
                   " (extract(epoch FROM lease_until) * 1000000)::bigint"
                   " FROM claim('" QR_QUEUE "', %u, '%s', '%u ms')",
                   lease_ms, 1 + qr_pick(BATCH_MAX), w->name, lease_ms);
    if (run(w, text, &r) != DONE)
        return 0;
    n = (size_t)PQntuples(r);
    for (size_t i = 0; i < n; i++) {
        holds[i] = hold_of(r, (int)i);
        (void)qr_note_down(QR_CLAIMED, &holds[i], 0, false, false);
    }
    PQclear(r);
    return n;
}

static void say(const qr_hold *hold, howdah_verdict verdict, char *text, size_t size)
{
    long long id = hold->id;
    long long token = hold->token;

    if (verdict == HOWDAH_VERDICT_RETRY)
        (void)snprintf(text, size, "SELECT retry(%lld, %lld, '%u ms', 'again')", id, token,
                       qr_pick(60));
    else if (verdict == HOWDAH_VERDICT_FAIL)
        (void)snprintf(text, size, "SELECT fail(%lld, %lld, 'token %lld')", id, token, token);
    else if (qr_pick(2) == 0)
        (void)snprintf(text, size, "SELECT complete(%lld, %lld)", id, token);
    else
        (void)snprintf(text, size, "SELECT complete(%lld, %lld, 'token %lld')", id, token, token);
}

static void ack(sql_worker *w, const qr_hold *hold, howdah_verdict verdict)
{
    char text[256];
    PGresult *r = NULL;
    bool unsure = false;
    int64_t sent;
    fate f;

    say(hold, verdict, text, sizeof text);
    do {
        sent = qr_note_down(QR_SENT, hold, verdict, false, false);
        f = run(w, text, &r);
        unsure = unsure || f == UNKNOWN;
    } while (f != DONE);
    if (*PQgetvalue(r, 0, 0) == 't')
        (void)qr_note_down(QR_ACCEPTED, hold, sent, verdict != HOWDAH_VERDICT_RETRY,
                           verdict == HOWDAH_VERDICT_FAIL);
    else if (!unsure)
        (void)atomic_fetch_add(&qr_all->lost, 1);
    PQclear(r);
}

void qr_be_sql_worker(const qr_arena *arena, int me, int level)
{
    static const char *const levels[] = {"read committed", "repeatable read", "serializable"};
    sql_worker w = {.arena = arena, .level = levels[level]};
    qr_hold holds[BATCH_MAX];

    (void)snprintf(w.name, sizeof w.name, "s%d-%d", me, (int)getpid());
    connect_at_last(&w);
    while (!atomic_load(&qr_all->done)) {
        size_t n = take(&w, holds);

        for (size_t i = 0; i < n; i++)
            ack(&w, &holds[i], qr_work_on(&holds[i]));
        if (n == 0)
            (void)usleep(5000);
    }
    PQfinish(w.conn);
}
