/*
 * pg_queue.c - the barest queue on PostgreSQL: a table, SKIP LOCKED and DELETE.
 *
 * A job is safe as long as the transaction that holds it is open: it is locked, read, handled,
 * deleted, and then all of it is committed.  No lease, no attempts, no history.  Two round trips a
 * batch: BEGIN goes with the claim, COMMIT with the DELETE.
 */
#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "bench/load.h"
#include "bench/pg.h"

/*
 * More than a batch of pushes takes at the usual sizes; a larger one is an error and not a crash.
 */
#define ARRAY_BYTES_MAX (64 * 1024 * 1024)
#define PUSH_BATCH 1000
/* Numbers of built-in types: they are the same in every PostgreSQL. */
#define OID_INT8 20
#define OID_TEXT 25
#define OID_INT4 23
#define OID_INT8_ARRAY 1016
#define OID_TEXT_ARRAY 1009

/* One connection, which pushes before a slice and drains in it. */
typedef struct raw_client {
    bench_client base;
    PGconn *conn;
    bench_load load;
    hw_buf array;
    int64_t batch;
} raw_client;

/* Vacuumed eagerly: dead rows at the head of the index would be what is measured. */
int bench_pg_make_queue(PGconn *conn, const bench_site *site, howdah_error *reterr)
{
    char sql[512];

    (void)snprintf(sql, sizeof sql,
                   "CREATE TABLE %s (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
                   " data text NOT NULL) WITH (autovacuum_vacuum_scale_factor = 0.0,"
                   " autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0)",
                   site->ceiling);
    return bench_pg_expect(conn, PQexec(conn, sql), PGRES_COMMAND_OK, reterr);
}

/* A binary array of one dimension without NULLs, from index 1; its elements follow. */
static void begin_array(hw_buf *out, uint32_t element, uint32_t n)
{
    assert(element == OID_INT8 || element == OID_TEXT);
    hw_buf_clear(out);
    hw_buf_put_u32(out, 1);
    hw_buf_put_u32(out, 0);
    hw_buf_put_u32(out, element);
    hw_buf_put_u32(out, n);
    hw_buf_put_u32(out, 1);
}

/* Pushes and deletes go the same way.  Only sent: who calls fetches the result. */
static int send_array(raw_client *c, const char *statement, howdah_error *reterr)
{
    const char *values[1] = {c->array.data};
    int lengths[1] = {(int)c->array.len};
    int formats[1] = {1};

    if (hw_buf_check(&c->array, reterr) < 0)
        return HOWDAH_NO_MEMORY;
    return PQsendQueryPrepared(c->conn, statement, 1, values, lengths, formats, 1)
               ? HOWDAH_OK
               : bench_pg_fail(c->conn, NULL, reterr);
}

/* All jobs of a batch have the same payload, as on our side. */
static int push_backlog(bench_client *client, int64_t n, howdah_error *reterr)
{
    raw_client *c = (raw_client *)client;

    for (int64_t done = 0; done < n; done += PUSH_BATCH) {
        int64_t some = n - done < PUSH_BATCH ? n - done : PUSH_BATCH;
        int64_t version;
        hw_str data = bench_load_next(&c->load, &version);
        PGresult *result;
        int s;

        begin_array(&c->array, OID_TEXT, (uint32_t)some);
        for (int64_t i = 0; i < some; i++) {
            hw_buf_put_u32(&c->array, (uint32_t)data.len);
            hw_buf_put(&c->array, data.s, data.len);
        }
        s = send_array(c, "push", reterr);
        if (s < 0)
            return s;
        result = PQgetResult(c->conn);
        s = bench_pg_expect(c->conn, result, PGRES_COMMAND_OK, reterr);
        while ((result = PQgetResult(c->conn)))
            PQclear(result);
        if (s < 0)
            return s;
    }
    return HOWDAH_OK;
}

/* The results up to the sync; the one of the given place is kept, or the last error. */
static PGresult *collect(PGconn *conn, int place)
{
    PGresult *kept = NULL;
    int at = 0;

    for (;;) {
        PGresult *result = PQgetResult(conn);

        if (!result) {
            if (PQstatus(conn) == CONNECTION_BAD)
                return kept;
            at++;
            continue;
        }
        if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) {
            PQclear(result);
            return kept;
        }
        if (at == place || PQresultStatus(result) == PGRES_FATAL_ERROR) {
            PQclear(kept);
            kept = result;
        } else {
            PQclear(result);
        }
    }
}

/* BEGIN and the claim in one round trip; place 1 is the claim. */
static int claim(raw_client *c, PGresult **ret_rows, howdah_error *reterr)
{
    uint32_t raw = htobe32((uint32_t)c->batch);
    const char *values[1] = {(const char *)&raw};
    int lengths[1] = {4};
    int formats[1] = {1};
    PGresult *rows;

    if (!PQsendQueryPrepared(c->conn, "begin", 0, NULL, NULL, NULL, 0) ||
        !PQsendQueryPrepared(c->conn, "claim", 1, values, lengths, formats, 1) ||
        !PQpipelineSync(c->conn))
        return bench_pg_fail(c->conn, NULL, reterr);
    rows = collect(c->conn, 1);
    if (!rows || PQresultStatus(rows) != PGRES_TUPLES_OK) {
        int s = bench_pg_fail(c->conn, rows, reterr);

        PQclear(rows);
        return s;
    }
    *ret_rows = rows;
    return HOWDAH_OK;
}

/*
 * DELETE and COMMIT in one round trip.  Without rows there is only the COMMIT.  The DELETE's
 * result is what is checked: if COMMIT fails, its error takes that place.
 */
static int finish(raw_client *c, const PGresult *rows, howdah_error *reterr)
{
    PGresult *result;
    int s = HOWDAH_OK;

    begin_array(&c->array, OID_INT8, (uint32_t)PQntuples(rows));
    for (int i = 0; i < PQntuples(rows); i++) {
        hw_buf_put_u32(&c->array, 8);
        hw_buf_put(&c->array, PQgetvalue(rows, i, 0), 8);
    }
    if (PQntuples(rows) > 0)
        s = send_array(c, "delete", reterr);
    if (s >= 0 && (!PQsendQueryPrepared(c->conn, "commit", 0, NULL, NULL, NULL, 0) ||
                   !PQpipelineSync(c->conn)))
        s = bench_pg_fail(c->conn, NULL, reterr);
    if (s < 0)
        return s;
    result = collect(c->conn, PQntuples(rows) > 0 ? 1 : 0);
    return bench_pg_expect(c->conn, result, PGRES_COMMAND_OK, reterr);
}

/*
 * The backlog is counted down when jobs are claimed: a worker that finds none left ends.  In
 * pipeline mode only here, because pushes use plain calls.
 */
static int drain(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw_client *c = (raw_client *)client;
    int64_t n = 0;
    int s = PQenterPipelineMode(c->conn) ? HOWDAH_OK : bench_pg_fail(c->conn, NULL, reterr);

    while (s >= 0 && atomic_load(c->base.backlog) > 0 && !atomic_load(c->base.stop)) {
        PGresult *rows = NULL;

        s = claim(c, &rows, reterr);
        if (s >= 0) {
            n += PQntuples(rows);
            atomic_fetch_sub(c->base.backlog, PQntuples(rows));
            s = finish(c, rows, reterr);
        }
        PQclear(rows);
    }
    if (s >= 0 && !PQexitPipelineMode(c->conn))
        s = bench_pg_fail(c->conn, NULL, reterr);
    *ret_events = n;
    return s;
}

/* The barest of all: taken and gone with one statement, so that whoever dies has lost its batch. */
static int drain_at_once(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    static const int lengths[] = {4};
    static const int formats[] = {1};
    raw_client *c = (raw_client *)client;
    uint32_t raw = htobe32((uint32_t)c->batch);
    const char *const values[] = {(const char *)&raw};
    int64_t n = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && atomic_load(c->base.backlog) > 0 && !atomic_load(c->base.stop)) {
        PGresult *rows = PQexecPrepared(c->conn, "take", 1, values, lengths, formats, 1);

        n += PQntuples(rows);
        atomic_fetch_sub(c->base.backlog, PQntuples(rows));
        s = bench_pg_expect(c->conn, rows, PGRES_TUPLES_OK, reterr);
    }
    *ret_events = n;
    return s;
}

/* Also for a client that was only half opened. */
static void close_bare(bench_client *client)
{
    raw_client *c = (raw_client *)client;

    PQfinish(c->conn);
    bench_load_done(&c->load);
    hw_buf_done(&c->array);
    hw_free(c);
}

/* Our plans do not depend on statistics, so the ceiling's must not either. */
static int prepare(raw_client *c, const bench_site *site, howdah_error *reterr)
{
    static const Oid int4[] = {OID_INT4};
    static const Oid ids[] = {OID_INT8_ARRAY};
    static const Oid texts[] = {OID_TEXT_ARRAY};
    struct {
        const char *name;
        const char *format;
        const Oid *types;
        int types_n;
    } const statements[] = {
        {"begin", "BEGIN", NULL, 0},
        {"claim", "SELECT id, data FROM %s ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED", int4, 1},
        {"delete", "DELETE FROM %s WHERE id = ANY ($1)", ids, 1},
        {"commit", "COMMIT", NULL, 0},
        {"push", "INSERT INTO %s (data) SELECT unnest($1)", texts, 1},
        {"take",
         "DELETE FROM %1$s WHERE id = ANY (ARRAY(SELECT id FROM %1$s ORDER BY id LIMIT $1"
         " FOR UPDATE SKIP LOCKED)) RETURNING id, data",
         int4, 1},
    };
    int s = bench_pg_expect(c->conn,
                            PQexec(c->conn, "SELECT set_config(n, 'off', false) FROM unnest(ARRAY["
                                            "'enable_seqscan', 'enable_sort', 'enable_bitmapscan',"
                                            " 'jit']) AS n"),
                            PGRES_TUPLES_OK, reterr);

    if (s >= 0)
        s = bench_pg_expect(c->conn, PQexec(c->conn, "SET plan_cache_mode = force_generic_plan"),
                            PGRES_COMMAND_OK, reterr);
    for (size_t i = 0; s >= 0 && i < sizeof statements / sizeof *statements; i++) {
        char sql[256];

        /* The format is one of those above. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(sql, sizeof sql, statements[i].format, site->ceiling);
#pragma GCC diagnostic pop
        s = bench_pg_expect(
            c->conn,
            PQprepare(c->conn, statements[i].name, sql, statements[i].types_n, statements[i].types),
            PGRES_COMMAND_OK, reterr);
    }
    return s;
}

/* number only tells the payloads of clients apart. */
int bench_pg_open_bare(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr)
{
    static const bench_client_ops ops = {drain, NULL, close_bare, push_backlog};
    static const bench_client_ops at_once = {drain_at_once, NULL, close_bare, push_backlog};
    bool deletes = site->plan->kind == BENCH_GROUP_READ;
    raw_client *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = deletes ? &at_once : &ops;
    c->batch = site->plan->batch;
    c->array = (hw_buf)HW_BUF_INIT(ARRAY_BYTES_MAX);
    s = bench_load_init(&c->load, number, 1, (size_t)site->plan->payload, reterr);
    if (s >= 0)
        s = bench_pg_connect(site, &c->conn, reterr);
    if (s >= 0)
        s = prepare(c, site, reterr);
    if (s >= 0 && deletes) /* members do not wait for the disk either, when they ack */
        s = bench_pg_expect(c->conn, PQexec(c->conn, "SET synchronous_commit = off"),
                            PGRES_COMMAND_OK, reterr);
    if (s < 0) {
        close_bare(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}
