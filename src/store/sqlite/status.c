/* status.c - facts about the log, and the doctor's findings. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "store/sqlite/sqlite.h"

#define TEXT_MAX 256
/* With less free space than this, appends are likely to fail soon. */
#define DISK_FREE_LOW (UINT64_C(64) * 1024 * 1024)
/* A smaller difference is not worth a finding. */
#define CLOCK_SLACK_US 1000000

#define BUS_ID_SQL "SELECT value FROM main.howdah_meta WHERE key = 'bus_id'"
#define LAST_RECORDED_SQL                                                                          \
    "SELECT recorded_at FROM main.howdah_events ORDER BY global_sequence DESC LIMIT 1"

/* The first column of the first row as text, "" without one. */
static int read_text(hw_sqlite *store, const char *sql, char out[TEXT_MAX], howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);
    int s;

    if (rc != SQLITE_OK)
        return hw_sqlite_fail(store, rc, "status", reterr);
    s = hw_sqlite_step(store, stmt, "status", reterr);
    out[0] = '\0';
    if (s == HOWDAH_OK && sqlite3_column_type(stmt, 0) != SQLITE_NULL)
        (void)snprintf(out, TEXT_MAX, "%s", (const char *)sqlite3_column_text(stmt, 0));
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

/* ------------------------------------------------------------------ status */

/* The caller of hw_sqlite_status(), and whether it has heard enough. */
typedef struct facts {
    hw_fact_fn fn;
    void *ctx;
    bool stop;
} facts;

/* After fn has asked to stop nothing more is said, so that the callers need not look. */
static void say(facts *f, const char *key, const char *value, bool number)
{
    howdah_fact fact = {sizeof fact, key, value, number};

    if (!f->stop)
        f->stop = f->fn(f->ctx, &fact) != 0;
}

static void say_number(facts *f, const char *key, int64_t value)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%" PRId64, value);
    say(f, key, text, true);
}

/* Of the database and its write-ahead log: together they are what is on the disk. */
static int count_bytes(hw_sqlite *store, int64_t *ret_bytes, howdah_error *reterr)
{
    const char *wal = sqlite3_db_filename(store->db, "main");
    int64_t pages = 0;
    int64_t page_bytes = 0;
    struct stat st;
    int s = hw_sqlite_number(store, "PRAGMA main.page_count", 0, &pages, reterr);

    if (s >= 0)
        s = hw_sqlite_number(store, "PRAGMA main.page_size", 0, &page_bytes, reterr);
    if (s < 0)
        return s;
    *ret_bytes = pages * page_bytes;
    wal = wal && *wal ? sqlite3_filename_wal(wal) : NULL;
    if (wal && stat(wal, &st) == 0)
        *ret_bytes += st.st_size;
    return HOWDAH_OK;
}

typedef struct numbers {
    char bus[TEXT_MAX];
    int64_t schema_version;
    int64_t events;
    int64_t head;
    int64_t last_recorded_us;
    int64_t bytes;
} numbers;

/* Each number is a statement of its own: they may be of slightly different moments. */
static int read_numbers(hw_sqlite *store, numbers *n, howdah_error *reterr)
{
    int s = hw_sqlite_check_schema(store, reterr);

    if (s >= 0)
        s = read_text(store, BUS_ID_SQL, n->bus, reterr);
    if (s >= 0)
        s = hw_sqlite_schema_version(store, &n->schema_version, reterr);
    if (s >= 0)
        s = hw_sqlite_number(store, "SELECT count(*) FROM main.howdah_events", 0, &n->events,
                             reterr);
    if (s >= 0)
        s = hw_sqlite_number(store, "SELECT max(global_sequence) FROM main.howdah_events", 0,
                             &n->head, reterr);
    if (s >= 0)
        s = hw_sqlite_number(store, LAST_RECORDED_SQL, HW_TIME_ABSENT, &n->last_recorded_us,
                             reterr);
    if (s >= 0)
        s = count_bytes(store, &n->bytes, reterr);
    return s;
}

/*
 * Nothing to find: SQLite gives out the number after the highest of those that are stored and
 * those that ever were (AUTOINCREMENT), and takes it back with a transaction that rolls back.  So
 * none was ever drawn in vain, and a copy of the tables goes on where the original stopped.
 */
int hw_sqlite_numbers(hw_store *base, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    (void)base;
    (void)fn;
    (void)ctx;
    (void)reterr;
    return HOWDAH_OK;
}

/* The keys are part of the output that scripts read (howdah status). */
int hw_sqlite_status(hw_store *base, hw_fact_fn fn, void *ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    facts f = {fn, ctx, false};
    numbers n;
    char text[64];
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        s = read_numbers(store, &n, reterr);
    if (s < 0)
        return s;
    say(&f, "store", base->ops->name, false);
    (void)snprintf(text, sizeof text, "SQLite %s", sqlite3_libversion());
    say(&f, "server", text, false);
    say(&f, "file", store->name, false);
    say(&f, "bus", n.bus, false);
    say_number(&f, "schema_version", n.schema_version);
    say_number(&f, "events", n.events);
    say_number(&f, "head", n.head);
    if (n.last_recorded_us != HW_TIME_ABSENT) {
        hw_time_format(n.last_recorded_us, text);
        say(&f, "last_recorded_at", text, false);
    }
    say_number(&f, "bytes", n.bytes);
    /* One writer at a time, and its numbers appear with its commit: none is ever open. */
    say_number(&f, "open_writers", 0);
    return HOWDAH_OK;
}

/* ------------------------------------------------------------------ doctor */

/* The caller of hw_sqlite_doctor(), and whether it has heard enough. */
typedef struct doctor {
    hw_sqlite *store;
    hw_finding_fn fn;
    void *ctx;
    bool stop;
} doctor;

static void find(doctor *d, howdah_severity severity, const char *check, const char *advice,
                 const char *fmt, ...) HW_PRINTF(5, 6);

static void find(doctor *d, howdah_severity severity, const char *check, const char *advice,
                 const char *fmt, ...)
{
    char message[TEXT_MAX * 2];
    howdah_finding finding = {sizeof finding, severity, check, message, advice};
    va_list args;

    if (d->stop)
        return;
    va_start(args, fmt);
    (void)vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    d->stop = d->fn(d->ctx, &finding) != 0;
}

/* A large file is no bad one: what does not end in time was not checked. */
static void find_error(doctor *d, const char *check, const howdah_error *err)
{
    if (err->status == HOWDAH_TIMEOUT)
        find(d, HOWDAH_WARNING, check,
             "give it more time: howdah doctor --set statement_timeout=1h", "not checked: %s",
             err->message);
    else
        find(d, HOWDAH_BAD, check, err->advice, "%s", err->message);
}

/* The directory counts as well: the write-ahead log is made beside the file. */
static void check_file(doctor *d)
{
    const hw_sqlite *store = d->store;

    if (!store->path) {
        find(d, HOWDAH_GOOD, "connection", "", "in memory, removed when this handle is closed");
        return;
    }
    find(d, HOWDAH_GOOD, "connection", "", "%s is open", store->name);
    if (store->read_only)
        find(d, HOWDAH_GOOD, "privileges", "", "%s is opened read-only", store->name);
    else if (access(store->path, W_OK) == 0 && access(store->directory, W_OK) == 0)
        find(d, HOWDAH_GOOD, "privileges", "", "file and directory can be written");
    else
        find(d, HOWDAH_BAD, "privileges",
             "give this user the right to write the file and its directory",
             "%s or its directory cannot be written: %s", store->name, strerrordesc_np(errno));
}

/* Without a write-ahead log everything works, but readers and writers wait for each other. */
static void check_journal(doctor *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char mode[TEXT_MAX];

    if (d->store->frozen)
        find(d, HOWDAH_GOOD, "journal", "", "the file is read as one that nobody writes to");
    else if (read_text(d->store, "PRAGMA main.journal_mode", mode, &err) < 0)
        find_error(d, "journal", &err);
    else if (strcmp(mode, "wal") == 0 || !d->store->path)
        find(d, HOWDAH_GOOD, "journal", "", "journal mode is %s", mode);
    else
        find(d, HOWDAH_WARNING, "journal", "run: howdah init",
             "journal mode is %s, not wal: readers and writers wait for one another", mode);
}

/* Asks the connection itself: it is our own setting, so anything else is our mistake. */
static void check_durability(doctor *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t level = 0;

    if (hw_sqlite_number(d->store, "PRAGMA main.synchronous", 0, &level, &err) < 0)
        find_error(d, "durability", &err);
    else if (level >= 2)
        find(d, HOWDAH_GOOD, "durability", "", "synchronous is %s on our connections",
             level == 2 ? "FULL" : "EXTRA");
    else
        find(d, HOWDAH_BAD, "durability", "this is a bug in howdah: report it",
             "synchronous is %d: a power cut can lose events", (int)level);
}

/* About the library that is loaded, which may not be the one that it was compiled with. */
static void check_library(doctor *d)
{
    if (!hw_sqlite_has_wal_reset_bug(sqlite3_libversion_number()))
        find(d, HOWDAH_GOOD, "library", "", "SQLite %s", sqlite3_libversion());
    else
        find(d, HOWDAH_WARNING, "library",
             "use SQLite 3.51.3 or later; until then let only howdah write the file, or set PRAGMA "
             "wal_autocheckpoint = 0 in the other programs",
             "SQLite %s has the WAL-reset bug; howdah's own checkpoints avoid it",
             sqlite3_libversion());
}

/* The same verdict that every operation takes. */
static void check_schema(doctor *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t version = 0;
    int s = hw_sqlite_check_schema(d->store, &err);

    if (s >= 0)
        s = hw_sqlite_schema_version(d->store, &version, &err);
    if (s < 0)
        find_error(d, "schema", &err);
    else
        find(d, HOWDAH_GOOD, "schema", "", "step %d of %zu is applied", (int)version,
             hw_sqlite_steps_n);
}

/* quick_check does not compare each index with its table, which would take much longer. */
static void check_integrity(doctor *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    char verdict[TEXT_MAX];

    if (read_text(d->store, "PRAGMA main.quick_check(1)", verdict, &err) < 0)
        find_error(d, "integrity", &err);
    else if (strcmp(verdict, "ok") == 0)
        find(d, HOWDAH_GOOD, "integrity", "", "quick_check is ok");
    else
        find(d, HOWDAH_BAD, "integrity",
             "keep a copy of the file, then restore a backup, or save what can be read with: "
             "sqlite3 FILE .recover",
             "%s", verdict);
}

/* By what this user may use: some file systems keep a reserve for root. */
static void check_disk(doctor *d)
{
    struct statvfs v;
    uint64_t free_bytes;

    if (!d->store->path)
        return;
    if (statvfs(d->store->path, &v) < 0) {
        find(d, HOWDAH_WARNING, "disk", "", "free space is unknown: %s", strerrordesc_np(errno));
        return;
    }
    free_bytes = (uint64_t)v.f_bavail * v.f_frsize;
    if (free_bytes >= DISK_FREE_LOW)
        find(d, HOWDAH_GOOD, "disk", "", "%" PRIu64 " MiB are free", free_bytes >> 20);
    else
        find(d, HOWDAH_BAD, "disk", "free some space before appends fail",
             "only %" PRIu64 " MiB are free", free_bytes >> 20);
}

/* Recorded times never decrease (append.c I4): an event that was recorded by a clock that was
   ahead holds later ones at its time until the clock gets there. */
static void check_clock(doctor *d)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t now = hw_clock_wall_us();
    int64_t last = now;

    if (!d->store->schema_known)
        return;
    if (hw_sqlite_number(d->store, LAST_RECORDED_SQL, now, &last, &err) < 0)
        find_error(d, "clock", &err);
    else if (last <= now + CLOCK_SLACK_US)
        find(d, HOWDAH_GOOD, "clock", "", "no event is recorded in the future");
    else
        find(d, HOWDAH_WARNING, "clock", "set the clock of this machine",
             "the last event is recorded %" PRId64 " s in the future: new ones get the same time "
             "until the clock has come that far",
             (last - now) / 1000000);
}

/* What is wrong with the file is a finding, not an error: only what keeps us from looking is
   returned. */
int hw_sqlite_doctor(hw_store *base, hw_finding_fn fn, void *ctx, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    static void (*const checks[])(doctor * d) = {check_file,   check_journal,   check_durability,
                                                 check_schema, check_integrity, check_disk,
                                                 check_clock};
    doctor d = {store, fn, ctx, false};
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = hw_sqlite_ready(store, HW_NEED_READ, &err);

    if (s == HOWDAH_INTERRUPTED || s == HOWDAH_NO_MEMORY) {
        hw_error_copy(reterr, &err);
        return s;
    }
    check_library(&d);
    if (s < 0) {
        find_error(&d, s == HOWDAH_SCHEMA ? "schema" : "connection", &err);
        return HOWDAH_OK;
    }
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
        s = hw_sqlite_go_on(store, reterr); /* each has a time of its own */
        if (s < 0)
            return s;
        checks[i](&d);
    }
    return HOWDAH_OK;
}
