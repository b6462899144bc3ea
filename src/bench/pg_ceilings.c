/*
 * pg_ceilings.c - the ceilings on PostgreSQL, by plain libpq.
 *
 *   append         a prepared INSERT of the row, no check of any version
 *   append-batch   COPY BINARY of the rows, one COPY a batch
 *   read, deliver  COPY BINARY of the columns that a reader gets, in the order of the heap
 *   latency        the INSERT, then a NOTIFY; pg_listener.c hears it
 *   asof           rows by their primary key, a thousand at a time; COPY into either of two tables
 */
#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/uuid.h"
#include "bench/asof.h"
#include "bench/load.h"
#include "bench/pg.h"
#include "bench/subscribers.h"

/* Valid times are spread over a year, so that their index is as wide as in life. */
#define YEAR_US UINT64_C(31536000000000)
#define KEYS_A_PAGE 1000
#define LOOK_EVERY 1024 /* rows of a read between two looks at the stop flag */
#define COPY_BYTES_MAX ((size_t)1024 * 1024 * 1024) /* PQputCopyData() takes an int */

/* A client of the ceiling, for all kinds but the queue. */
typedef struct raw {
    bench_client base;
    PGconn *conn;
    const bench_plan *plan;
    bench_load load;
    bench_pace pace;
    hw_buf rows; /* of one COPY */
    char sql[640];
    char notify[64];
    bool valid_times;
    char **keys; /* asof: lists of primary keys, as arrays; NULL after the last */
    size_t keys_n;
} raw;

/* ---- append: one prepared INSERT */

/* Binary parameters and one round trip: the least that a durable append can cost. */
static int insert_one(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    static const int formats[] = {1, 1, 1, 1, 1, 1};
    raw *c = (raw *)client;
    uint32_t schema_version = htobe32(1);
    int64_t version = 0;
    uint64_t version_be;
    hw_uuid id;
    hw_str stream;
    hw_str data;

    (void)bench_load_advance(&c->load);
    stream = bench_load_stream(&c->load);
    data = bench_load_next(&c->load, &version);
    version_be = htobe64((uint64_t)version);
    if (!hw_uuid_v7(&id))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness to give");
    {
        const char *const values[] = {(const char *)id.b, stream.s, (const char *)&version_be,
                                      BENCH_TYPE,         data.s,   (const char *)&schema_version};
        const int lengths[] = {(int)sizeof id.b,       (int)stream.len,
                               (int)sizeof version_be, (int)sizeof BENCH_TYPE - 1,
                               (int)data.len,          (int)sizeof schema_version};

        *ret_events = 1;
        return bench_pg_expect(c->conn,
                               PQexecPrepared(c->conn, "put", 6, values, lengths, formats, 1),
                               PGRES_TUPLES_OK, reterr);
    }
}

/*
 * latency: and those who listen are told.  The channel has the schema's name.  Only after the
 * INSERT has committed, by a statement of its own: a NOTIFY inside would hold a lock during its
 * commit.
 */
static int insert_and_notify(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int s;

    bench_pace_wait(&c->pace);
    bench_subscribers_stamp(client->subscribers, c->load.version[0] + 1);
    s = insert_one(client, ret_events, reterr);
    if (s >= 0)
        s = bench_pg_expect(c->conn, PQexec(c->conn, c->notify), PGRES_COMMAND_OK, reterr);
    return s;
}

/* What an ordinary event has; the other columns have defaults or are NULL. */
#define COLUMNS_WRITTEN "id, stream, version, type, data, schema_version"

/* The types are given by their numbers, so that the server need not infer them. */
static int prepare_insert(raw *c, const bench_site *site, howdah_error *reterr)
{
    /* uuid, text, bigint, text, json, integer */
    static const Oid types[] = {2950, 25, 20, 25, 114, 23};

    (void)snprintf(c->sql, sizeof c->sql,
                   "INSERT INTO %s (" COLUMNS_WRITTEN ") VALUES ($1, $2, $3, $4, $5, $6)"
                   " RETURNING global_sequence",
                   site->ceiling);
    return bench_pg_expect(c->conn, PQprepare(c->conn, "put", c->sql, 6, types), PGRES_COMMAND_OK,
                           reterr);
}

/* ---- append-batch: COPY BINARY */

/* A field of COPY BINARY: its length in four bytes, then itself. */
static void put_field(hw_buf *out, const void *bytes, size_t n)
{
    hw_buf_put_u32(out, (uint32_t)n);
    hw_buf_put(out, bytes, n);
}

/* asof: with a valid time, somewhere in a year. */
static bool has_valid_time(const bench_site *site)
{
    return site->plan->kind == BENCH_ASOF && site->plan->of == BENCH_OF_APPEND_VALID &&
           !site->one_time;
}

/* One row of COPY BINARY: the number of its fields, then each with its length. */
static bool put_row(raw *c)
{
    hw_buf *out = &c->rows;
    int64_t version = 0;
    hw_str stream = bench_load_stream(&c->load);
    hw_str data = bench_load_next(&c->load, &version);
    hw_uuid id;

    if (!hw_uuid_v7(&id))
        return false;
    hw_buf_put_u16(out, c->valid_times ? 7 : 6);
    put_field(out, id.b, sizeof id.b);
    put_field(out, stream.s, stream.len);
    hw_buf_put_u32(out, 8);
    hw_buf_put_u64(out, (uint64_t)version);
    put_field(out, BENCH_TYPE, sizeof BENCH_TYPE - 1);
    put_field(out, data.s, data.len);
    hw_buf_put_u32(out, 4);
    hw_buf_put_u32(out, 1);
    if (c->valid_times) {
        hw_buf_put_u32(out, 8);
        hw_buf_put_u64(out, (uint64_t)hw_random_u32() * YEAR_US / UINT32_MAX);
    }
    return true;
}

/* The whole batch is made in memory first, so that it goes out in one piece. */
static int put_rows(raw *c, howdah_error *reterr)
{
    static const char head[19] = "PGCOPY\n\377\r\n\0"; /* and eight zero bytes: flags, extension */

    hw_buf_clear(&c->rows);
    assert(c->plan->batch > 0);
    hw_buf_put(&c->rows, head, sizeof head);
    (void)bench_load_advance(&c->load);
    for (int64_t i = 0; i < c->plan->batch; i++)
        if (!put_row(c))
            return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness to give");
    hw_buf_put_u16(&c->rows, UINT16_MAX);
    return hw_buf_check(&c->rows, reterr);
}

/* After the data: the result of the COPY, and the end of the results. */
static int end_copy(PGconn *conn, int64_t *ret_rows, howdah_error *reterr)
{
    PGresult *result = PQgetResult(conn);
    int64_t rows = result ? strtoll(PQcmdTuples(result), NULL, 10) : 0;
    int s = bench_pg_expect(conn, result, PGRES_COMMAND_OK, reterr);

    while ((result = PQgetResult(conn)))
        PQclear(result);
    *ret_rows = rows;
    return s;
}

/* One COPY is one transaction, like one of our batches. */
static int copy_in(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int s = put_rows(c, reterr);

    if (s >= 0)
        s = bench_pg_expect(c->conn, PQexec(c->conn, c->sql), PGRES_COPY_IN, reterr);
    if (s < 0)
        return s;
    if (PQputCopyData(c->conn, c->rows.data, (int)c->rows.len) != 1 ||
        PQputCopyEnd(c->conn, NULL) != 1)
        return bench_pg_fail(c->conn, NULL, reterr);
    return end_copy(c->conn, ret_events, reterr);
}

/* ---- read: COPY out */

/* Rows are fetched and thrown away: what it costs to bring them here is what is compared. */
static int copy_out(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int64_t rows = 0;
    int n = 0;
    int s = bench_pg_expect(c->conn, PQexec(c->conn, c->sql), PGRES_COPY_OUT, reterr);

    while (s >= 0) {
        char *row = NULL;

        n = PQgetCopyData(c->conn, &row, 0);
        PQfreemem(row);
        if (n < 0)
            break;
        /* The rest of the copy is left where it is: the connection will be closed. */
        if (++rows % LOOK_EVERY == 0 && c->base.stop && atomic_load(c->base.stop))
            s = hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    }
    if (s >= 0 && n == -2)
        s = bench_pg_fail(c->conn, NULL, reterr);
    if (s >= 0)
        s = end_copy(c->conn, ret_events, reterr);
    return s;
}

/* ---- asof: by primary key */

/* A page at a time, as a reader would; PQntuples() of a failed result is 0. */
static int read_keys(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int64_t rows = 0;
    int s = HOWDAH_OK;

    for (size_t i = 0; s >= 0 && i < c->keys_n; i++) {
        const char *const values[] = {c->keys[i]};
        PGresult *result = PQexecPrepared(c->conn, "get", 1, values, NULL, NULL, 1);

        rows += PQntuples(result);
        s = bench_pg_expect(c->conn, result, PGRES_TUPLES_OK, reterr);
    }
    *ret_events = rows;
    return s;
}

/*
 * The rows that are current, as lists of keys, found before the clock runs: the ceiling need not
 * ask which revision counts.
 */
static int find_keys(raw *c, const bench_site *site, howdah_error *reterr)
{
    PGresult *result;
    int s;

    (void)snprintf(c->sql, sizeof c->sql,
                   "SELECT array_agg(k.seq ORDER BY k.seq)::text FROM (SELECT e.global_sequence AS"
                   " seq, (row_number() OVER (ORDER BY e.global_sequence) - 1) / %d AS page"
                   " FROM %s.events AS e WHERE e.type = '" BENCH_FACT_TYPE "' AND NOT EXISTS"
                   " (SELECT FROM %s.events AS n WHERE n.corrects = e.id AND n.type = e.type)) AS k"
                   " GROUP BY k.page",
                   KEYS_A_PAGE, site->place, site->place);
    result = PQexec(c->conn, c->sql);
    c->keys = hw_calloc((size_t)PQntuples(result) + 1, sizeof *c->keys);
    for (; c->keys && (int)c->keys_n < PQntuples(result); c->keys_n++) {
        c->keys[c->keys_n] = hw_strdup(PQgetvalue(result, (int)c->keys_n, 0));
        if (!c->keys[c->keys_n])
            break;
    }
    s = !c->keys || (int)c->keys_n < PQntuples(result) ? hw_fail_no_memory(reterr) : HOWDAH_OK;
    if (s < 0) {
        PQclear(result);
        return s;
    }
    s = bench_pg_expect(c->conn, result, PGRES_TUPLES_OK, reterr);
    (void)snprintf(c->sql, sizeof c->sql,
                   "SELECT " BENCH_PG_COLUMNS_READ " FROM %s.events WHERE global_sequence = ANY"
                   " ($1::bigint[])",
                   site->place);
    if (s >= 0)
        s = bench_pg_expect(c->conn, PQprepare(c->conn, "get", c->sql, 1, NULL), PGRES_COMMAND_OK,
                            reterr);
    return s;
}

/* ---- clients */

/* Also for a client that was only half opened.  PQfinish() and the others take NULL. */
static void close_client(bench_client *client)
{
    raw *c = (raw *)client;

    if (!c)
        return;
    for (size_t i = 0; i < c->keys_n; i++)
        hw_free(c->keys[i]);
    hw_free(c->keys);
    PQfinish(c->conn);
    bench_load_done(&c->load);
    hw_buf_done(&c->rows);
    hw_free(c);
}

/* Without interrupt(): these calls look at the stop flag, or are short. */
static const bench_client_ops ops[] = {
    [BENCH_APPEND] = {insert_one, NULL, close_client, NULL},
    [BENCH_APPEND_BATCH] = {copy_in, NULL, close_client, NULL},
    [BENCH_READ] = {copy_out, NULL, close_client, NULL},
    [BENCH_DELIVER] = {copy_out, NULL, close_client, NULL},
    [BENCH_LATENCY] = {insert_and_notify, NULL, close_client, NULL},
    [BENCH_ASOF] = {read_keys, NULL, close_client, NULL},
};

/* These kinds write with COPY; all others have a statement of their own. */
static bool copies_in(const bench_plan *plan)
{
    return plan->kind == BENCH_APPEND_BATCH || bench_of_appends(plan);
}

/* c->sql is the statement of the client for its whole life. */
static void prepare_copy(raw *c, const bench_site *site)
{
    c->valid_times = has_valid_time(site);
    (void)snprintf(c->sql, sizeof c->sql,
                   "COPY %s%s (" COLUMNS_WRITTEN "%s) FROM STDIN (FORMAT binary)", site->ceiling,
                   site->one_time ? BENCH_PG_ONE_TIME : "", c->valid_times ? ", valid_time" : "");
}

static int prepare_client(raw *c, const bench_site *site, howdah_error *reterr)
{
    switch (site->plan->kind) {
    case BENCH_LATENCY:
        (void)snprintf(c->notify, sizeof c->notify, "NOTIFY %s", site->place);
        return prepare_insert(c, site, reterr);
    case BENCH_APPEND:
        return prepare_insert(c, site, reterr);
    case BENCH_APPEND_BATCH:
        prepare_copy(c, site);
        break;
    case BENCH_ASOF:
        if (!bench_of_appends(site->plan))
            return find_keys(c, site, reterr);
        prepare_copy(c, site);
        break;
    case BENCH_READ:
    case BENCH_DELIVER:
        (void)snprintf(c->sql, sizeof c->sql,
                       "COPY (SELECT " BENCH_PG_COLUMNS_READ
                       " FROM %s.events) TO STDOUT (FORMAT binary)",
                       site->place);
        break;
    case BENCH_FANOUT:     /* its other side is ours as well */
    case BENCH_CONTEND:    /* so is this one's */
    case BENCH_LISTEN:     /* it has none */
    case BENCH_QUEUE:      /* pg_queue.c */
    case BENCH_GROUP_READ: /* pg_group.c */
        break;
    }
    return HOWDAH_OK;
}

int bench_pg_open_client(const bench_site *site, unsigned number, bench_client **ret_client,
                         howdah_error *reterr)
{
    raw *c;
    int s;

    if (site->plan->kind == BENCH_QUEUE || site->plan->against == BENCH_AGAINST_DELETE)
        return bench_pg_open_bare(site, number, ret_client, reterr);
    if (site->plan->kind == BENCH_GROUP_READ)
        return bench_pg_open_range_reader(site, number, ret_client, reterr);
    c = hw_calloc(1, sizeof *c);
    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &ops[copies_in(site->plan) ? BENCH_APPEND_BATCH : site->plan->kind];
    c->plan = site->plan;
    c->pace = (bench_pace){.rate = site->plan->rate};
    c->rows = (hw_buf)HW_BUF_INIT(COPY_BYTES_MAX);
    s = bench_load_init(&c->load, number, (size_t)site->plan->streams, (size_t)site->plan->payload,
                        reterr);
    if (s >= 0)
        s = bench_pg_connect(site, &c->conn, reterr);
    if (s >= 0)
        s = prepare_client(c, site, reterr);
    if (s < 0) {
        close_client(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}
