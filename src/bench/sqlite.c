/*
 * sqlite.c - a bench on SQLite: two files beside the user's own, ceilings by plain sqlite3.
 *
 *   append         a prepared INSERT, committed by itself
 *   append-batch   prepared INSERTs between BEGIN IMMEDIATE and COMMIT
 *   read, deliver  a SELECT of the columns that a reader gets
 *   latency        the INSERT; a listener looks for rows above the last one every millisecond
 *
 * The ceiling's connections are set as the store's own are: WAL, synchronous=FULL, no automatic
 * checkpoint but a TRUNCATE after the commit that takes the log over CHECKPOINT_PAGES.
 */
#include <assert.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/uuid.h"
#include "bench/asof.h"
#include "bench/load.h"
#include "bench/site.h"
#include "bench/subscribers.h"

#define SCHEME "sqlite:"
#define PATH_MAX_BYTES 65536
#define SQL_MAX 65536
#define BUSY_MS 60000         /* clients of the ceiling wait for each other's write lock */
#define CHECKPOINT_PAGES 1000 /* as in the store, so that both sides pay for as many */
#define LISTEN_EVERY_NS 1000000
#define LOOK_EVERY 1024 /* rows of a read between two looks at the stop flag */

/* A client of the ceiling: a connection with its statements. */
typedef struct raw {
    bench_client base;
    sqlite3 *db;
    sqlite3_stmt *work;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    const bench_plan *plan;
    bench_load load;
    bench_pace pace;
    int wal_pages;
    int64_t bytes; /* read: the sum of all lengths */
    int64_t *keys; /* asof: primary keys */
    size_t keys_n;
} raw;

static int fail_sqlite(sqlite3 *db, const char *doing, howdah_error *reterr)
{
    return hw_fail(reterr, HOWDAH_FAILED, "%s: SQLite: %s (code %d)", doing,
                   db ? sqlite3_errmsg(db) : "out of memory",
                   db ? sqlite3_extended_errcode(db) : SQLITE_NOMEM);
}

static int exec(sqlite3 *db, const char *sql, howdah_error *reterr)
{
    int rc = sqlite3_exec(db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? HOWDAH_OK : fail_sqlite(db, "ceiling", reterr);
}

/* Called by SQLite after each commit, with the pages of the WAL. */
static int on_commit_to_wal(void *ctx, sqlite3 *db, const char *schema, int pages)
{
    (void)db;
    (void)schema;
    ((raw *)ctx)->wal_pages = pages;
    return SQLITE_OK;
}

/*
 * NOMUTEX: each connection is used by one thread.  Automatic checkpoints are off, as in the
 * store.
 */
static int open_file(const char *path, int flags, sqlite3 **ret_db, howdah_error *reterr)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(path, &db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL);

    if (rc != SQLITE_OK) {
        int s = fail_sqlite(db, "ceiling: open", reterr);

        (void)sqlite3_close(db);
        return s;
    }
    (void)sqlite3_busy_timeout(db, BUSY_MS);
    (void)sqlite3_wal_autocheckpoint(db, 0);
    *ret_db = db;
    return HOWDAH_OK;
}

/* ---- the site */

/*
 * Beside the user's file, because that is the disk to be measured; the file itself is not opened.
 */
static int name_site(bench_site *site, const char *store_url, howdah_error *reterr)
{
    const char *file = store_url + strlen(SCHEME);
    hw_buf url = HW_BUF_INIT(PATH_MAX_BYTES);
    uint64_t number = 0;

    if (!*file || strcmp(file, ":memory:") == 0)
        return hw_advise(reterr,
                         hw_fail_field(reterr, HOWDAH_INVALID, "store", "bench needs a file"),
                         "use sqlite:FILE; the file itself is not touched");
    if (!hw_random_bytes(&number, sizeof number))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness to give");
    /* "./": a name such as "file:x" must not mean anything to SQLite. */
    hw_buf_printf(&url, SCHEME "%s%s.bench-%016llx", *file == '/' ? "" : "./", file,
                  (unsigned long long)number);
    if (!url.broken)
        site->place = hw_strdup(hw_buf_str(&url) + strlen(SCHEME));
    site->url = hw_strdup(hw_buf_str(&url));
    hw_buf_puts(&url, ".ceiling");
    if (!url.broken)
        site->ceiling = hw_strdup(hw_buf_str(&url) + strlen(SCHEME));
    hw_buf_done(&url);
    return site->url && site->place && site->ceiling ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* Appends what a query gives, one text a row. */
static int gather(sqlite3 *db, const char *sql, hw_buf *out, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, sql, -1, &stmt, NULL);

    while (rc == SQLITE_OK || rc == SQLITE_ROW) {
        rc = sqlite3_step(stmt);
        if (rc == SQLITE_ROW)
            hw_buf_puts(out, (const char *)sqlite3_column_text(stmt, 0));
    }
    (void)sqlite3_finalize(stmt);
    return rc == SQLITE_DONE ? hw_buf_check(out, reterr) : fail_sqlite(db, "ceiling", reterr);
}

/*
 * The SQL of the ceiling: the very table and indexes of the log, whatever the migrations made them,
 * so that both sides do the same inserts.
 */
static int describe_table(const bench_site *site, hw_buf *out, howdah_error *reterr)
{
    sqlite3 *db = NULL;
    int s = open_file(site->place, SQLITE_OPEN_READWRITE, &db, reterr);

    if (s < 0)
        return s;
    hw_buf_puts(out, "PRAGMA journal_mode = WAL;");
    s = gather(db,
               "SELECT group_concat(sql || ';', '') FROM (SELECT sql FROM sqlite_schema WHERE"
               " tbl_name = 'howdah_events' AND sql IS NOT NULL ORDER BY type = 'index')",
               out, reterr);
    (void)sqlite3_close(db);
    return s;
}

/* The file is made first, with the rights of a store's file: SQLite would follow the umask. */
static int make_ceiling(const bench_site *site, howdah_error *reterr)
{
    hw_buf sql = HW_BUF_INIT(SQL_MAX);
    sqlite3 *db = NULL;
    int s = describe_table(site, &sql, reterr);

    (void)mknod(site->ceiling, S_IFREG | S_IRUSR | S_IWUSR, 0); /* as private as the store's */
    if (s >= 0)
        s = open_file(site->ceiling, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &db, reterr);
    if (s >= 0)
        s = exec(db, hw_buf_str(&sql), reterr);
    (void)sqlite3_close(db);
    hw_buf_done(&sql);
    return s;
}

/* Nothing to do: a SQLite file does nothing by itself. */
static int quiesce(const bench_site *site, howdah_error *reterr)
{
    (void)site;
    (void)reterr;
    return HOWDAH_OK;
}

/* The file may have companions that SQLite or the store made; one that is missing is no error. */
static int remove_site(const bench_site *site, howdah_error *reterr)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal", "-writers"};
    const char *const files[] = {site->place, site->ceiling};
    hw_buf path = HW_BUF_INIT(PATH_MAX_BYTES);
    bool left = false;

    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; k < sizeof suffixes / sizeof *suffixes; k++) {
            hw_buf_clear(&path);
            hw_buf_puts(&path, files[i]);
            hw_buf_puts(&path, suffixes[k]);
            (void)unlink(hw_buf_str(&path));
            left = left || access(hw_buf_str(&path), F_OK) == 0;
        }
    }
    hw_buf_done(&path);
    return left ? hw_fail(reterr, HOWDAH_FAILED, "files of the bench are left behind: %s*",
                          site->place)
                : HOWDAH_OK;
}

/* One statement, later than everything: see the same function in pg.c. */
static int correct(const bench_site *site, howdah_error *reterr)
{
    sqlite3 *db = NULL;
    int s = open_file(site->place, SQLITE_OPEN_READWRITE, &db, reterr);

    if (s >= 0)
        s = exec(db,
                 "INSERT INTO howdah_events (stream, version, type, data, family, corrects,"
                 " revision, reason, valid_time, recorded_at)"
                 " SELECT e.stream, 100 + row_number() OVER (PARTITION BY e.stream ORDER BY"
                 " e.version), e.type, e.data, e.id, e.id, 2, 'bench', e.recorded_at,"
                 " (SELECT max(recorded_at) + 1 FROM howdah_events) FROM howdah_events AS e"
                 " WHERE (e.global_sequence / 100 + e.global_sequence) % 10 = 0",
                 reterr);
    (void)sqlite3_close(db);
    return s;
}

/* ---- appends */

/* Reset in every case: a statement that is not reset keeps its transaction open. */
static int step_done(raw *c, sqlite3_stmt *stmt, howdah_error *reterr)
{
    int s = sqlite3_step(stmt) == SQLITE_DONE ? HOWDAH_OK : fail_sqlite(c->db, "ceiling", reterr);

    (void)sqlite3_reset(stmt);
    return s;
}

/* The plain columns of an ordinary event; no digest, which is ours to pay for. */
#define INSERT_SQL                                                                                 \
    "INSERT INTO howdah_events (id, stream, version, type, recorded_at, schema_version, revision," \
    " data) VALUES (?1, ?2, ?3, ?4, ?5, 1, 1, ?6)"

/* SQLITE_STATIC: the values live until the statement is reset. */
static int insert(raw *c, int64_t now_us, howdah_error *reterr)
{
    int64_t version = 0;
    hw_str stream = bench_load_stream(&c->load);
    hw_str data = bench_load_next(&c->load, &version);
    hw_uuid id;

    if (!hw_uuid_v7(&id))
        return hw_fail(reterr, HOWDAH_FAILED, "the system has no randomness to give");
    (void)sqlite3_bind_blob(c->work, 1, id.b, (int)sizeof id.b, SQLITE_STATIC);
    (void)sqlite3_bind_text(c->work, 2, stream.s, (int)stream.len, SQLITE_STATIC);
    (void)sqlite3_bind_int64(c->work, 3, version);
    (void)sqlite3_bind_text(c->work, 4, BENCH_TYPE, (int)sizeof BENCH_TYPE - 1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(c->work, 5, now_us);
    (void)sqlite3_bind_text(c->work, 6, data.s, (int)data.len, SQLITE_STATIC);
    return step_done(c, c->work, reterr);
}

/* As the store does it, so that both sides pay for the same checkpoints. */
static void checkpoint(raw *c)
{
    if (c->wal_pages < CHECKPOINT_PAGES)
        return;
    /* A reader or writer in the way is no harm: the next commit tries again. */
    if (sqlite3_wal_checkpoint_v2(c->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
        c->wal_pages = 0;
}

/* The checkpoint counts as part of the append that made it due, as in the store. */
static int insert_one(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int s;

    (void)bench_load_advance(&c->load);
    s = insert(c, hw_clock_wall_us(), reterr);
    checkpoint(c);
    *ret_events = 1;
    return s;
}

/*
 * The next version is known before the INSERT; the stamp has to be there before anybody hears of
 * it.
 */
static int insert_in_time(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;

    bench_pace_wait(&c->pace);
    bench_subscribers_stamp(client->subscribers, c->load.version[0] + 1);
    return insert_one(client, ret_events, reterr);
}

/* One recorded time for the whole batch, as our own append has it. */
static int insert_batch(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int64_t now_us = hw_clock_wall_us();
    int s = step_done(c, c->begin, reterr);

    (void)bench_load_advance(&c->load);
    for (int64_t i = 0; s >= 0 && i < c->plan->batch; i++)
        s = insert(c, now_us, reterr);
    if (s >= 0)
        s = step_done(c, c->commit, reterr);
    checkpoint(c);
    *ret_events = c->plan->batch;
    return s;
}

/* ---- reads */

/* Every column that a reader brings; DATA_COLUMN is where the payload is. */
#define READ_SQL                                                                                   \
    "SELECT global_sequence, id, stream, version, type, recorded_at, valid_time, schema_version,"  \
    " revision, family, corrects, causation_id, correlation_id, actor, content_type, reason,"      \
    " headers, data, bytes FROM howdah_events"
#define DATA_COLUMN 17

/* Interrupted between rows: a statement that is reset ends its snapshot. */
static int read_all(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int64_t rows = 0;
    int rc = sqlite3_step(c->work);
    int s = HOWDAH_OK;

    for (; s >= 0 && rc == SQLITE_ROW; rc = sqlite3_step(c->work)) {
        c->bytes += sqlite3_column_bytes(c->work, DATA_COLUMN);
        if (++rows % LOOK_EVERY == 0 && c->base.stop && atomic_load(c->base.stop))
            s = hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted");
    }
    if (s >= 0 && rc != SQLITE_DONE)
        s = fail_sqlite(c->db, "ceiling", reterr);
    (void)sqlite3_reset(c->work);
    *ret_events = rows;
    return s;
}

/* ---- asof: by primary key */

/* Current facts: those without a second revision, and the second revisions themselves. */
#define KEYS_SQL                                                                                   \
    "SELECT e.global_sequence FROM howdah_events AS e WHERE e.type = '" BENCH_FACT_TYPE            \
    "' AND NOT EXISTS (SELECT 1 FROM howdah_events AS n WHERE n.family = e.id AND n.family IS"     \
    " NOT NULL AND n.revision = 2) ORDER BY 1"

/* Room for a tenth of the events; facts are about a hundredth of them. */
static int find_keys(raw *c, howdah_error *reterr)
{
    size_t facts = (size_t)c->plan->events / 10;
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(c->db, KEYS_SQL, -1, &stmt, NULL);

    c->keys = hw_calloc(facts, sizeof *c->keys);
    if (!c->keys) {
        (void)sqlite3_finalize(stmt);
        return hw_fail_no_memory(reterr);
    }
    while (rc == SQLITE_OK && c->keys_n < facts && sqlite3_step(stmt) == SQLITE_ROW)
        c->keys[c->keys_n++] = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_finalize(stmt);
    return rc == SQLITE_OK ? HOWDAH_OK : fail_sqlite(c->db, "ceiling", reterr);
}

/* A missing row is an error: rows are only added. */
static int read_keys(bench_client *client, int64_t *ret_events, howdah_error *reterr)
{
    raw *c = (raw *)client;
    int64_t rows = 0;

    assert(c->keys);
    for (size_t i = 0; i < c->keys_n; i++) {
        (void)sqlite3_bind_int64(c->work, 1, c->keys[i]);
        if (sqlite3_step(c->work) != SQLITE_ROW) {
            int s = fail_sqlite(c->db, "ceiling", reterr);

            (void)sqlite3_reset(c->work);
            return s;
        }
        c->bytes += sqlite3_column_bytes(c->work, DATA_COLUMN);
        rows++;
        (void)sqlite3_reset(c->work);
    }
    *ret_events = rows;
    return HOWDAH_OK;
}

/* ---- clients */

/* Also for a client that was only half opened: SQLite's functions take NULL. */
static void close_client(bench_client *client)
{
    raw *c = (raw *)client;

    if (!c)
        return;
    (void)sqlite3_finalize(c->work);
    (void)sqlite3_finalize(c->begin);
    (void)sqlite3_finalize(c->commit);
    (void)sqlite3_close(c->db);
    bench_load_done(&c->load);
    hw_free(c->keys);
    hw_free(c);
}

/* Without interrupt(): these calls look at the stop flag, or are short. */
static const bench_client_ops ops[] = {
    [BENCH_APPEND] = {insert_one, NULL, close_client, NULL},
    [BENCH_APPEND_BATCH] = {insert_batch, NULL, close_client, NULL},
    [BENCH_READ] = {read_all, NULL, close_client, NULL},
    [BENCH_DELIVER] = {read_all, NULL, close_client, NULL},
    [BENCH_LATENCY] = {insert_in_time, NULL, close_client, NULL},
    [BENCH_ASOF] = {read_keys, NULL, close_client, NULL},
};

static int prepare(raw *c, const char *sql, sqlite3_stmt **ret_stmt, howdah_error *reterr)
{
    int rc = sqlite3_prepare_v3(c->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret_stmt, NULL);

    return rc == SQLITE_OK ? HOWDAH_OK : fail_sqlite(c->db, "ceiling", reterr);
}

/* Reads go to the log itself, writes to the ceiling's file. */
static int prepare_client(raw *c, const bench_site *site, howdah_error *reterr)
{
    bool by_key = site->plan->kind == BENCH_ASOF; /* only --of type comes here: see asof.c */
    bool read = by_key || bench_is_whole(site->plan);
    const char *sql = by_key ? READ_SQL " WHERE global_sequence = ?1"
                      : read ? READ_SQL
                             : INSERT_SQL;
    int s = open_file(read ? site->place : site->ceiling, SQLITE_OPEN_READWRITE, &c->db, reterr);

    if (s < 0)
        return s;
    (void)sqlite3_wal_hook(c->db, on_commit_to_wal, c);
    s = exec(c->db, "PRAGMA synchronous = FULL", reterr);
    if (s >= 0)
        s = prepare(c, "BEGIN IMMEDIATE", &c->begin, reterr);
    if (s >= 0)
        s = prepare(c, "COMMIT", &c->commit, reterr);
    if (s >= 0)
        s = prepare(c, sql, &c->work, reterr);
    if (s >= 0 && by_key)
        s = find_keys(c, reterr);
    return s;
}

static int open_client(const bench_site *site, unsigned number, bench_client **ret_client,
                       howdah_error *reterr)
{
    raw *c = hw_calloc(1, sizeof *c);
    int s;

    if (!c)
        return hw_fail_no_memory(reterr);
    assert(site->plan->kind < sizeof ops / sizeof *ops);
    c->base.ops = &ops[site->plan->kind];
    c->plan = site->plan;
    c->pace = (bench_pace){.rate = site->plan->rate};
    s = bench_load_init(&c->load, number, (size_t)site->plan->streams, (size_t)site->plan->payload,
                        reterr);
    if (s >= 0)
        s = prepare_client(c, site, reterr);
    if (s < 0) {
        close_client(&c->base);
        return s;
    }
    *ret_client = &c->base;
    return HOWDAH_OK;
}

/* ---- the listener */

/* It has a connection of its own, as another process would. */
typedef struct listener {
    bench_subscribers base;
    sqlite3 *db;
    sqlite3_stmt *rows;
    int64_t last;
} listener;

/* Polls: SQLite tells nobody of a commit in another connection. */
static int hear(bench_subscribers *subscribers, howdah_error *reterr)
{
    const struct timespec a_moment = {0, LISTEN_EVERY_NS};
    listener *l = (listener *)subscribers;

    while (!atomic_load(&subscribers->stop)) {
        int rc;

        (void)sqlite3_bind_int64(l->rows, 1, l->last);
        while ((rc = sqlite3_step(l->rows)) == SQLITE_ROW) {
            l->last = sqlite3_column_int64(l->rows, 0);
            bench_subscribers_hear(subscribers, sqlite3_column_int64(l->rows, 1));
        }
        (void)sqlite3_reset(l->rows);
        if (rc != SQLITE_DONE)
            return fail_sqlite(l->db, "ceiling", reterr);
        (void)nanosleep(&a_moment, NULL);
    }
    return HOWDAH_OK;
}

/* Also for a listener that was only half opened. */
static void close_listener(bench_subscribers *subscribers)
{
    listener *l = (listener *)subscribers;

    (void)sqlite3_finalize(l->rows);
    (void)sqlite3_close(l->db);
    hw_free(l);
}

static int open_subscribers(const bench_site *site, bench_subscribers **ret_subscribers,
                            howdah_error *reterr)
{
    static const bench_subscribers_ops subscribers_ops = {hear, NULL, close_listener};
    static const char sql[] = "SELECT global_sequence, version, id, stream, type, data, recorded_at"
                              " FROM howdah_events WHERE global_sequence > ?1"
                              " ORDER BY global_sequence";
    listener *l = hw_calloc(1, sizeof *l);
    int s;

    if (!l)
        return hw_fail_no_memory(reterr);
    l->base.ops = &subscribers_ops;
    l->base.hearers = 1;
    l->base.timed = true;
    s = open_file(site->ceiling, SQLITE_OPEN_READWRITE, &l->db, reterr);
    if (s >= 0 && sqlite3_prepare_v2(l->db, sql, -1, &l->rows, NULL) != SQLITE_OK)
        s = fail_sqlite(l->db, "ceiling", reterr);
    if (s < 0) {
        close_listener(&l->base);
        return s;
    }
    *ret_subscribers = &l->base;
    return HOWDAH_OK;
}

const bench_backend bench_backend_sqlite = {
    .name = "sqlite",
    .name_site = name_site,
    .make_ceiling = make_ceiling,
    .correct = correct,
    .quiesce = quiesce,
    .open_client = open_client,
    .open_subscribers = open_subscribers,
    .remove = remove_site,
};
