/*
 * pg_group.c - groups by plain libpq: members that call the SQL functions as any driver does, and
 * the ceiling, connections that read disjoint parts of the log by key and do nothing else.
 */
#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/group.h"
#include "bench/pg.h"

/* A connection of either sort. */
typedef struct bare {
    bench_client base;
    const bench_plan *plan;
    unsigned number;
    PGconn *conn;
    char member[32];
    char max[24];
} bare;

static void close_bare(bench_client *client)
{
    bare *c = (bare *)client;

    PQfinish(c->conn);
    hw_free(c);
}

static int open_bare(const bench_site *site, unsigned number, const bench_client_ops *ops,
                     bare **ret_client, howdah_error *reterr)
{
    bare *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = ops;
    c->plan = site->plan;
    c->number = number;
    s = bench_pg_connect(site, &c->conn, reterr);
    if (s < 0) {
        close_bare(&c->base);
        return s;
    }
    *ret_client = c;
    return HOWDAH_OK;
}

/* ---- the ceiling */

static int nothing_to_push(bench_client *client, int64_t n, howdah_error *reterr)
{
    (void)client;
    (void)n;
    (void)reterr;
    return HOWDAH_OK;
}

/* One client's share, a page at a time. */
static int read_share(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    static const int lengths[] = {8, 8};
    static const int formats[] = {1, 1};
    bare *c = (bare *)client;
    int64_t share = c->plan->events / c->plan->clients;
    int64_t at = (int64_t)c->number * share;
    int64_t end = (int64_t)c->number + 1 == c->plan->clients ? c->plan->events : at + share;
    int64_t rows = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && at < end && !atomic_load(client->stop)) {
        int64_t upto = end - at < c->plan->batch ? end : at + c->plan->batch;
        uint64_t range[] = {htobe64((uint64_t)at), htobe64((uint64_t)upto)};
        const char *const values[] = {(const char *)&range[0], (const char *)&range[1]};
        PGresult *result = PQexecPrepared(c->conn, "get", 2, values, lengths, formats, 1);

        rows += PQntuples(result);
        s = bench_pg_expect(c->conn, result, PGRES_TUPLES_OK, reterr);
        at = upto;
    }
    *ret_events = rows;
    return s;
}

int bench_pg_open_range_reader(const bench_site *site, unsigned number, bench_client **ret_client,
                               howdah_error *reterr)
{
    static const bench_client_ops ops = {read_share, NULL, close_bare, nothing_to_push};
    static const Oid types[] = {20, 20}; /* bigint */
    char sql[640];
    bare *c = NULL;
    int s = open_bare(site, number, &ops, &c, reterr);

    if (s < 0)
        return s;
    (void)snprintf(sql, sizeof sql,
                   "SELECT " BENCH_PG_COLUMNS_READ " FROM %s.events WHERE global_sequence > $1"
                   " AND global_sequence <= $2 ORDER BY global_sequence",
                   site->place);
    s = bench_pg_expect(c->conn, PQprepare(c->conn, "get", sql, 2, types), PGRES_COMMAND_OK,
                        reterr);
    if (s < 0) {
        close_bare(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}

/* ---- members in SQL */

static int put_back(bench_client *client, int64_t n, howdah_error *reterr)
{
    static const char *const values[] = {BENCH_GROUP};
    bare *c = (bare *)client;

    (void)n;
    return bench_pg_expect(c->conn, PQexecPrepared(c->conn, "reset", 1, values, NULL, NULL, 0),
                           PGRES_TUPLES_OK, reterr);
}

/* What a handler needs of an event, as text, as most drivers have it; the token of a batch is on
   each of its rows. */
static int drain(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    bare *c = (bare *)client;
    char token[64] = "";
    int64_t events = 0;
    int64_t in_hand = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && atomic_load(client->backlog) > 0 && !atomic_load(client->stop)) {
        const char *const values[] = {BENCH_GROUP, c->max, c->member, token[0] ? token : NULL};
        PGresult *result = PQexecPrepared(c->conn, "fetch", 4, values, NULL, NULL, 0);
        int n = PQntuples(result);

        token[0] = '\0';
        if (n > 0)
            (void)snprintf(token, sizeof token, "%s", PQgetvalue(result, 0, 0));
        s = bench_pg_expect(c->conn, result, PGRES_TUPLES_OK, reterr);
        if (s < 0)
            break;
        events += in_hand;
        atomic_fetch_sub(client->backlog, in_hand);
        in_hand = n;
    }
    *ret_events = events;
    return s;
}

int bench_pg_open_sql_member(const bench_site *site, unsigned number, bench_client **ret_client,
                             howdah_error *reterr)
{
    static const bench_client_ops ops = {drain, NULL, close_bare, put_back};
    char sql[256];
    bare *c = NULL;
    int s = open_bare(site, number, &ops, &c, reterr);

    if (s < 0)
        return s;
    (void)snprintf(c->member, sizeof c->member, "bench-%u", number);
    (void)snprintf(c->max, sizeof c->max, "%lld", (long long)c->plan->batch);
    (void)snprintf(sql, sizeof sql,
                   "SELECT token, global_sequence, stream, type, data"
                   " FROM %s.fetch($1, $2, $3, acked => $4)",
                   site->place);
    s = bench_pg_expect(c->conn, PQprepare(c->conn, "fetch", sql, 0, NULL), PGRES_COMMAND_OK,
                        reterr);
    (void)snprintf(sql, sizeof sql, "SELECT %s.subscription_reset($1, '0')", site->place);
    if (s >= 0)
        s = bench_pg_expect(c->conn, PQprepare(c->conn, "reset", sql, 0, NULL), PGRES_COMMAND_OK,
                            reterr);
    if (s < 0) {
        close_bare(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}
