/*
 * pg_listener.c - the bare listener: LISTEN, then the rows above the last one, each time that
 * something is heard.  It knows nothing of numbers that appear late.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "bench/pg.h"
#include "bench/subscribers.h"

/* How long closing may have to wait for this thread. */
#define LOOK_AT_STOP_MS 50

/* One connection does all: it listens and reads. */
typedef struct listener {
    bench_subscribers base;
    PGconn *conn;
    int64_t last;
} listener;

/* Results are binary: eight bytes in network order. */
static int64_t int8_at(const PGresult *result, int row, int column)
{
    uint64_t raw;

    memcpy(&raw, PQgetvalue(result, row, column), sizeof raw);
    return (int64_t)be64toh(raw);
}

/* At most 1,000 rows a time; the next round comes with the next notification. */
static int read_rows(listener *l, int *ret_rows, howdah_error *reterr)
{
    uint64_t last_be = htobe64((uint64_t)l->last);
    const char *const values[] = {(const char *)&last_be};
    const int lengths[] = {(int)sizeof last_be};
    const int formats[] = {1};
    PGresult *result = PQexecPrepared(l->conn, "rows", 1, values, lengths, formats, 1);
    int n;

    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return bench_pg_expect(l->conn, result, PGRES_TUPLES_OK, reterr);
    n = PQntuples(result);
    for (int i = 0; i < n; i++)
        bench_subscribers_hear(&l->base, int8_at(result, i, 1));
    if (n > 0)
        l->last = int8_at(result, n - 1, 0);
    PQclear(result);
    *ret_rows = n;
    return HOWDAH_OK;
}

/* Takes all notifications; true when there was one. */
static bool was_notified(PGconn *conn)
{
    bool any = false;

    for (PGnotify *n = PQnotifies(conn); n; n = PQnotifies(conn)) {
        PQfreemem(n);
        any = true;
    }
    return any;
}

/* Looks at the stop flag now and then: nobody else can end a wait in poll(). */
static int wait_for_one(listener *l, howdah_error *reterr)
{
    struct pollfd fd = {.fd = PQsocket(l->conn), .events = POLLIN};

    while (!was_notified(l->conn)) {
        if (atomic_load(&l->base.stop))
            return HOWDAH_OK;
        if (poll(&fd, 1, LOOK_AT_STOP_MS) < 0 && errno != EINTR)
            return hw_fail(reterr, HOWDAH_FAILED, "poll: %s", strerrordesc_np(errno));
        if (!PQconsumeInput(l->conn))
            return bench_pg_fail(l->conn, NULL, reterr);
    }
    return HOWDAH_OK;
}

/* Reads before it waits: rows from before the LISTEN bring no notification. */
static int hear(bench_subscribers *subscribers, howdah_error *reterr)
{
    listener *l = (listener *)subscribers;
    int s = HOWDAH_OK;

    while (s >= 0 && !atomic_load(&subscribers->stop)) {
        int rows = 0;

        s = read_rows(l, &rows, reterr);
        if (s >= 0)
            s = wait_for_one(l, reterr);
    }
    return s;
}

/* Also for a listener that was only half opened. */
static void close_listener(bench_subscribers *subscribers)
{
    listener *l = (listener *)subscribers;

    PQfinish(l->conn);
    hw_free(l);
}

/* LISTEN comes before the first read, so that no event falls between the two. */
static int prepare(listener *l, const bench_site *site, howdah_error *reterr)
{
    static const Oid types[] = {20}; /* bigint */
    char sql[320];
    int s;

    (void)snprintf(sql, sizeof sql, "LISTEN %s", site->place);
    s = bench_pg_expect(l->conn, PQexec(l->conn, sql), PGRES_COMMAND_OK, reterr);
    if (s < 0)
        return s;
    (void)snprintf(sql, sizeof sql,
                   "SELECT global_sequence, version, id, stream, type, data, recorded_at FROM %s"
                   " WHERE global_sequence > $1 ORDER BY global_sequence LIMIT 1000",
                   site->ceiling);
    return bench_pg_expect(l->conn, PQprepare(l->conn, "rows", sql, 1, types), PGRES_COMMAND_OK,
                           reterr);
}

/* One hearer, as our own side has in a latency bench. */
int bench_pg_open_subscribers(const bench_site *site, bench_subscribers **ret_subscribers,
                              howdah_error *reterr)
{
    static const bench_subscribers_ops ops = {hear, NULL, close_listener};
    listener *l = hw_calloc(1, sizeof *l);
    int s;

    if (!l)
        return hw_fail_no_memory(reterr);
    l->base.ops = &ops;
    l->base.hearers = 1;
    l->base.timed = true;
    s = bench_pg_connect(site, &l->conn, reterr);
    if (s >= 0)
        s = prepare(l, site, reterr);
    if (s < 0) {
        close_listener(&l->base);
        return s;
    }
    *ret_subscribers = &l->base;
    return HOWDAH_OK;
}
