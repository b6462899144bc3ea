/*
 * bench_pg.c - a bench on PostgreSQL: a schema of its own, and the ceilings by plain libpq.
 *
 *   append        a prepared INSERT of the row, no check of any version
 *   append-batch  COPY BINARY of the rows, one COPY a batch
 *   read          COPY BINARY of the columns that a reader gets, in the order of the heap
 *
 * The schema's name is made of lower case letters, digits and underscores here, so it needs no
 * quotes in the statements.
 */
#include <endian.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/uuid.h"
#include "cli/bench_load.h"
#include "cli/bench_site.h"

#define NAME_SIZE 40
#define SQL_MAX 8192
#define LOOK_EVERY 1024 /* rows of a read between two looks at the stop flag */
#define COPY_BYTES_MAX ((size_t)1024 * 1024 * 1024)

typedef struct raw {
    bench_client base;
    PGconn *conn;
    const bench_plan *plan;
    bench_load load;
    hw_buf rows; /* of one COPY */
    char sql[640];
} raw;

/* ---- statements */

static int fail_pg(const PGconn *conn, const PGresult *result, howdah_error *reterr)
{
    const char *primary = result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    char why[300];

    (void)snprintf(why, sizeof why, "%s", primary ? primary : PQerrorMessage(conn));
    why[strcspn(why, "\n")] = '\0';
    return hw_fail(reterr, PQstatus(conn) == CONNECTION_OK ? HOWDAH_FAILED : HOWDAH_UNAVAILABLE,
                   "PostgreSQL: %s", why);
}

/* Ends the result. */
static int expect(const PGconn *conn, PGresult *result, ExecStatusType wanted, howdah_error *reterr)
{
    int s = result && PQresultStatus(result) == wanted ? HOWDAH_OK : fail_pg(conn, result, reterr);

    PQclear(result);
    return s;
}

static void ignore_notice(void *arg, const PGresult *result)
{
    (void)arg;
    (void)result;
}

/*
 * The session has the durability that ours has: synchronous_commit is never off, unless the user
 * allows it (then both sides have what the server has).
 */
static int connect_to(const bench_site *site, PGconn **ret_conn, howdah_error *reterr)
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
        s = fail_pg(conn, NULL, reterr);
    else
        s = expect(conn, PQexec(conn, lossy && strcmp(lossy, "true") == 0 ? set_up_lossy : set_up),
                   PGRES_TUPLES_OK, reterr);
    if (s < 0) {
        PQfinish(conn);
        return s;
    }
    *ret_conn = conn;
    return HOWDAH_OK;
}

/* ---- the site */

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
    int s = connect_to(site, &conn, reterr);

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
            s = expect(conn, PQexec(conn, hw_buf_str(&text)), PGRES_COMMAND_OK, reterr);
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

    return run_sql(site, sql, reterr);
}

/* Autovacuum would come within the minute, into somebody's slice. */
static int settle(const bench_site *site, howdah_error *reterr)
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
        "DROP SCHEMA IF EXISTS @ CASCADE",
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

/* ---- append: one prepared INSERT */

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

    (void)bench_load_turn(&c->load);
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
        return expect(c->conn, PQexecPrepared(c->conn, "put", 6, values, lengths, formats, 1),
                      PGRES_TUPLES_OK, reterr);
    }
}

#define COLUMNS_WRITTEN "id, stream, version, type, data, schema_version"

static int prepare_insert(raw *c, const bench_site *site, howdah_error *reterr)
{
    /* uuid, text, bigint, text, json, integer */
    static const Oid types[] = {2950, 25, 20, 25, 114, 23};

    (void)snprintf(c->sql, sizeof c->sql,
                   "INSERT INTO %s (" COLUMNS_WRITTEN ") VALUES ($1, $2, $3, $4, $5, $6)"
                   " RETURNING global_sequence",
                   site->ceiling);
    return expect(c->conn, PQprepare(c->conn, "put", c->sql, 6, types), PGRES_COMMAND_OK, reterr);
}

/* ---- append-batch: COPY BINARY */

static void put_field(hw_buf *out, const void *bytes, size_t n)
{
    hw_buf_put_u32(out, (uint32_t)n);
    hw_buf_put(out, bytes, n);
}

static bool put_row(hw_buf *out, bench_load *load)
{
    int64_t version = 0;
    hw_str stream = bench_load_stream(load);
    hw_str data = bench_load_next(load, &version);
    hw_uuid id;

    if (!hw_uuid_v7(&id))
        return false;
    hw_buf_put_u16(out, 6);
    put_field(out, id.b, sizeof id.b);
    put_field(out, stream.s, stream.len);
    hw_buf_put_u32(out, 8);
    hw_buf_put_u64(out, (uint64_t)version);
    put_field(out, BENCH_TYPE, sizeof BENCH_TYPE - 1);
    put_field(out, data.s, data.len);
    hw_buf_put_u32(out, 4);
    hw_buf_put_u32(out, 1);
    return true;
}

static int put_rows(raw *c, howdah_error *reterr)
{
    static const char head[19] = "PGCOPY\n\377\r\n\0"; /* and eight zero bytes: flags, extension */

    hw_buf_clear(&c->rows);
    hw_buf_put(&c->rows, head, sizeof head);
    (void)bench_load_turn(&c->load);
    for (int64_t i = 0; i < c->plan->batch; i++)
        if (!put_row(&c->rows, &c->load))
            return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness to give");
    hw_buf_put_u16(&c->rows, UINT16_MAX);
    return hw_buf_check(&c->rows, reterr);
}

/* After the data: the result of the COPY, and the end of the results. */
static int end_copy(PGconn *conn, int64_t *ret_rows, howdah_error *reterr)
{
    PGresult *result = PQgetResult(conn);
    int64_t rows = result ? strtoll(PQcmdTuples(result), NULL, 10) : 0;
    int s = expect(conn, result, PGRES_COMMAND_OK, reterr);

    while ((result = PQgetResult(conn)))
        PQclear(result);
    *ret_rows = rows;
    return s;
}

static int copy_in(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int s = put_rows(c, reterr);

    if (s >= 0)
        s = expect(c->conn, PQexec(c->conn, c->sql), PGRES_COPY_IN, reterr);
    if (s < 0)
        return s;
    if (PQputCopyData(c->conn, c->rows.data, (int)c->rows.len) != 1 ||
        PQputCopyEnd(c->conn, NULL) != 1)
        return fail_pg(c->conn, NULL, reterr);
    return end_copy(c->conn, ret_events, reterr);
}

/* ---- read: COPY out */

static int copy_out(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int64_t rows = 0;
    int n = 0;
    int s = expect(c->conn, PQexec(c->conn, c->sql), PGRES_COPY_OUT, reterr);

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
        s = fail_pg(c->conn, NULL, reterr);
    if (s >= 0)
        s = end_copy(c->conn, ret_events, reterr);
    return s;
}

#define COLUMNS_READ                                                                               \
    "global_sequence, id, stream, version, type, data, bytes, content_type, headers,"              \
    " correlation_id, causation_id, actor, valid_time, recorded_at, family, revision, corrects,"   \
    " reason, schema_version"

/* ---- clients */

static void close_client(bench_client *client)
{
    raw *c = (raw *)client;

    if (!c)
        return;
    PQfinish(c->conn);
    bench_load_done(&c->load);
    hw_buf_done(&c->rows);
    hw_free(c);
}

static const bench_client_ops ops[] = {
    [BENCH_APPEND] = {insert_one, NULL, close_client},
    [BENCH_APPEND_BATCH] = {copy_in, NULL, close_client},
    [BENCH_READ] = {copy_out, NULL, close_client},
};

static int prepare_client(raw *c, const bench_site *site, howdah_error *reterr)
{
    switch (site->plan->kind) {
    case BENCH_APPEND:
        return prepare_insert(c, site, reterr);
    case BENCH_APPEND_BATCH:
        (void)snprintf(c->sql, sizeof c->sql,
                       "COPY %s (" COLUMNS_WRITTEN ") FROM STDIN (FORMAT binary)", site->ceiling);
        break;
    case BENCH_READ:
        (void)snprintf(c->sql, sizeof c->sql,
                       "COPY (SELECT " COLUMNS_READ " FROM %s.events) TO STDOUT (FORMAT binary)",
                       site->place);
        break;
    }
    return HOWDAH_OK;
}

static int open_client(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr)
{
    raw *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    c->base.ops = &ops[site->plan->kind];
    c->plan = site->plan;
    c->rows = (hw_buf)HW_BUF_INIT(COPY_BYTES_MAX);
    s = bench_load_init(&c->load, number, (size_t)site->plan->streams, (size_t)site->plan->payload,
                        reterr);
    if (s >= 0)
        s = connect_to(site, &c->conn, reterr);
    if (s >= 0)
        s = prepare_client(c, site, reterr);
    if (s < 0) {
        close_client(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}

const bench_backend bench_backend_pg = {
    .name = "postgresql",
    .name_site = name_site,
    .make_ceiling = make_ceiling,
    .settle = settle,
    .open_client = open_client,
    .remove = remove_site,
};
