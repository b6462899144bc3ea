/*
 * conn.c - one SQLite connection: opening, waiting, transactions, checkpoints, errors.
 *
 *   I1  Every wait for a lock ends: by the lock, by busy_timeout, or by an interrupt.
 *   I2  A write transaction starts with BEGIN IMMEDIATE, so that it never fails half-way for want
 *       of a lock, and versions read inside it stay true until its end.
 *   I3  The write-ahead log is emptied only by checkpoint(TRUNCATE), after a commit of our own.
 *
 * Why I3: SQLite before 3.51.3 can lose transactions when a checkpoint that does not hold the
 * write lock (PASSIVE: what wal_autocheckpoint runs) reads the log's header while another
 * connection starts the log afresh.  TRUNCATE takes the write lock first; but when it cannot have
 * that lock it goes on as PASSIVE.  So the busy handler, when it loses patience in a checkpoint,
 * also interrupts it: SQLite looks at that before it copies the first page, and a checkpoint that
 * has copied nothing records nothing.  Writers stand still while it waits for readers, so it does
 * not wait for long (CHECKPOINT_WAIT_MS), and not at all when a connection is closed.  What SQLite
 * itself does when the last connection to a file is closed happens with the file locked against
 * everybody.
 *
 *   I4  OUTCOME_UNKNOWN is set when COMMIT failed in a way that may leave its frames in the log
 *       (an I/O error in the last write, in the sync or in the shared index).  Not for a lock that
 *       was not free, not for a full disk and not for a deferred constraint of a handler's tables:
 *       those fail before the commit frame is complete.
 *   I5  What says so (begin_unsynced) commits with synchronous = NORMAL: into the write-ahead log,
 *       but without waiting for the disk.  A power cut can take it back, together with later
 *       commits that did not wait either.  It takes nothing else: the log is one file that only
 *       grows, valid up to its first damaged frame; so what was synced before is not touched, and
 *       a later commit with FULL syncs everything before it.  NORMAL is set for that one
 *       transaction, never outside of WAL mode, and a begin() that cannot bring FULL back fails.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "base/random.h"
#include "engine/backoff.h"
#include "store/sqlite/sqlite.h"

#define BUSY_PAUSE_MS 1
#define BUSY_PAUSE_MAX_MS 5 /* shorter than the patience of those in line (writers.c) */
/* Pages in the log at which a checkpoint is tried; the distance doubles while readers are in the
   way, up to the maximum. */
#define CHECKPOINT_PAGES 1000
#define CHECKPOINT_SPACING_MAX 64000
#define CHECKPOINT_WAIT_MS 20
#define EMPTY_WAIT_MS 100    /* for a purge, which wants it badly */
#define PROGRESS_STEPS 20000 /* virtual machine steps between two looks at clock and interrupt */

/* ------------------------------------------------------------------ errors */

typedef struct meaning {
    int rc; /* an extended code, or a primary one for all of its kind */
    int status;
    bool sick; /* a new connection may be better */
    const char *advice;
} meaning;

#define ADVICE_DISK "the disk or the file system reports errors: see the system log"

/* The first row that fits counts. */
static const meaning meanings[] = {
    {SQLITE_BUSY, HOWDAH_UNAVAILABLE, false,
     "another process is writing: repeat later, or raise busy_timeout"},
    {SQLITE_LOCKED, HOWDAH_UNAVAILABLE, false, "another handle is using the tables: repeat later"},
    {SQLITE_PROTOCOL, HOWDAH_UNAVAILABLE, true, "many processes open the file at once: repeat"},
    {SQLITE_SCHEMA, HOWDAH_UNAVAILABLE, true, "the schema changed meanwhile: repeat"},
    {SQLITE_FULL, HOWDAH_FULL, false, "free some disk space, then repeat"},
    {SQLITE_NOLFS, HOWDAH_FULL, false, "the file system cannot hold a larger file"},
    {SQLITE_IOERR_NOMEM, HOWDAH_NO_MEMORY, false, ""},
    {SQLITE_NOMEM, HOWDAH_NO_MEMORY, false, ""},
    {SQLITE_IOERR_CORRUPTFS, HOWDAH_CORRUPT, true, ADVICE_DISK},
    {SQLITE_IOERR, HOWDAH_UNAVAILABLE, true, ADVICE_DISK},
    {SQLITE_READONLY_DBMOVED, HOWDAH_UNAVAILABLE, true,
     "the file was moved or replaced while it was open: repeat"},
    {SQLITE_READONLY, HOWDAH_READ_ONLY, true,
     "give this user the right to write the file and its directory, or set read_only to read"},
    {SQLITE_PERM, HOWDAH_DENIED, true, "check the rights on the file and its directory"},
    {SQLITE_AUTH, HOWDAH_DENIED, false, ""},
    {SQLITE_CANTOPEN, HOWDAH_UNAVAILABLE, true, "check the path and the rights on its directory"},
    {SQLITE_CORRUPT, HOWDAH_CORRUPT, true,
     "keep a copy of the file, then restore a backup, or save what can be read with: sqlite3 FILE "
     ".recover"},
    {SQLITE_NOTADB, HOWDAH_CORRUPT, true,
     "it is no SQLite database, or its first page is damaged: check the path, restore a backup"},
    {SQLITE_TOOBIG, HOWDAH_LIMIT, false, ""},
    {SQLITE_INTERRUPT, HOWDAH_INTERRUPTED, false, ""},
};

/* By the extended code first where a row names one; the primary code is in its lowest byte. */
static const meaning *find_meaning(int rc)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (meanings[i].rc == rc || meanings[i].rc == (rc & 0xff))
            return &meanings[i];
    return NULL;
}

static bool is_interrupted(const hw_sqlite *store)
{
    return store->interrupt && hw_interrupted(store->interrupt);
}

/* Why a file cannot be opened.  SQLite forgets the reason when it could not create the file: then
   the directory's rights tell. */
static int open_errno(const hw_sqlite *store)
{
    int error = sqlite3_system_errno(store->db);

    if (error == ENOENT && store->directory && access(store->directory, W_OK) < 0)
        error = errno;
    return error;
}

/* SQLite has one code where users need different answers: a file without rights, a statement that
   our own deadline ended, a wait that an interrupt ended. */
static int sharpen(const hw_sqlite *store, int rc, int status)
{
    int primary = rc & 0xff;

    if (primary == SQLITE_CANTOPEN && store->db) {
        int error = open_errno(store);

        if (error == EACCES || error == EPERM)
            return HOWDAH_DENIED;
        if (error == EROFS)
            return HOWDAH_READ_ONLY;
    }
    if (primary == SQLITE_INTERRUPT && store->timed_out)
        return HOWDAH_TIMEOUT;
    if ((primary == SQLITE_BUSY || primary == SQLITE_INTERRUPT) && is_interrupted(store))
        return HOWDAH_INTERRUPTED;
    return status;
}

/* Every error of SQLite becomes a status here, once.  A sick connection is only marked: it is
   made anew before the next operation, not under the feet of this one. */
int hw_sqlite_fail(hw_sqlite *store, int rc, const char *doing, howdah_error *reterr)
{
    const char *text = store->db ? sqlite3_errmsg(store->db) : sqlite3_errstr(rc);
    const meaning *m;
    int status;
    int s;

    /* A caller's handle may have extended codes off. */
    if (store->db && (sqlite3_extended_errcode(store->db) & 0xff) == (rc & 0xff))
        rc = sqlite3_extended_errcode(store->db);
    m = find_meaning(rc);
    if (m && m->sick)
        store->sick = true;
    status = sharpen(store, rc, m ? m->status : HOWDAH_FAILED);
    if (status == HOWDAH_INTERRUPTED)
        return hw_fail(reterr, status, "%s: interrupted", doing);
    if (status == HOWDAH_TIMEOUT) {
        s = hw_fail(reterr, status, "%s: %s: not done within %lld ms", doing, store->name,
                    (long long)store->statement_timeout_ms);
        return hw_advise(reterr, s, "raise statement_timeout");
    }
    s = hw_fail(reterr, status, "%s: %s: %s (SQLite code %d)", doing, store->name, text, rc);
    return m && *m->advice ? hw_advise(reterr, s, "%s", m->advice) : s;
}

int hw_sqlite_check_interrupt(hw_sqlite *store, howdah_error *reterr)
{
    return is_interrupted(store) ? hw_fail(reterr, HOWDAH_INTERRUPTED, "interrupted") : HOWDAH_OK;
}

/* ----------------------------------------------------------------- waiting */

/* Sleeps on the interrupt's descriptor, so that an interrupt ends the nap at once. */
static void nap(const hw_sqlite *store, int count, int64_t most_ms)
{
    int64_t ms =
        hw_backoff_ms(BUSY_PAUSE_MS, BUSY_PAUSE_MAX_MS, (unsigned)count, 50, hw_random_u32());
    struct pollfd p = {.fd = store->interrupt ? store->interrupt->fd : -1, .events = POLLIN};

    ms = ms < most_ms ? ms : most_ms;
    (void)poll(&p, 1, (int)(ms > 0 ? ms : 1));
}

/* I1: how long the present wait may still be.  The time that was spent in line (writers.c)
   counts. */
static int64_t patience_ms(hw_sqlite *store, int count)
{
    int64_t now = hw_clock_mono_ms();
    int64_t most = store->checkpointing ? store->checkpoint_wait_ms : store->busy_timeout_ms;

    if (count == 0)
        store->busy_since_ms = store->in_line_since_ms ? store->in_line_since_ms : now;
    return store->impatient ? 0 : most - (now - store->busy_since_ms);
}

/* SQLite calls it each time the lock is not free; 0 gives up.  count starts at 0 with each wait. */
static int on_busy(void *ctx, int count)
{
    hw_sqlite *store = ctx;
    int64_t most_ms = patience_ms(store, count);

    if (most_ms > 0 && !is_interrupted(store)) {
        nap(store, count, most_ms);
        if (!is_interrupted(store))
            return 1;
    }
    if (store->checkpointing)
        sqlite3_interrupt(store->db); /* I3 */
    return 0;
}

/* Called every PROGRESS_STEPS.  Long statements are reads; a write transaction is only ended by
   its own code, because an interrupted one would have to be rolled back. */
static int on_progress(void *ctx)
{
    hw_sqlite *store = ctx;

    if (store->writing)
        return 0;
    if (store->statement_timeout_ms > 0 && hw_clock_mono_ms() > store->deadline_ms)
        store->timed_out = true;
    return store->timed_out || is_interrupted(store);
}

/* Tells how long the log is, and that there is one: a commit outside of WAL mode does not come
   here. */
static int on_commit_to_wal(void *ctx, sqlite3 *db, const char *schema, int pages)
{
    hw_sqlite *store = ctx;

    (void)db;
    if (strcmp(schema, "main") == 0) {
        store->wal_pages = pages;
        store->in_wal_mode = true;
    }
    return SQLITE_OK;
}

/* ------------------------------------------------------------- checkpoints */

bool hw_sqlite_has_wal_reset_bug(int version_number)
{
    if (version_number >= 3051003)
        return false;
    /* Two older lines got the fix as well: 3.50.7 and 3.44.6. */
    return !(version_number >= 3050007 && version_number < 3051000) &&
           !(version_number >= 3044006 && version_number < 3045000);
}

/* Somebody was in the way: nothing is wrong, and nothing is worth a log line. */
static bool was_disturbed(int rc)
{
    int primary = rc & 0xff;

    return primary == SQLITE_BUSY || primary == SQLITE_LOCKED || primary == SQLITE_INTERRUPT;
}

/* I3.  A reader in the way does no harm: the log grows, and the next try comes later, the later
   the more often it failed. */
static void checkpoint(hw_sqlite *store, int64_t wait_ms)
{
    int rc;

    assert(!store->borrowed); /* sqlite.h I4 */
    store->checkpointing = true;
    store->checkpoint_wait_ms = wait_ms;
    rc = sqlite3_wal_checkpoint_v2(store->db, "main", SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    store->checkpointing = false;
    if (rc == SQLITE_OK) {
        store->wal_pages = 0;
        store->checkpoint_spacing = CHECKPOINT_PAGES;
        store->checkpoint_at = CHECKPOINT_PAGES;
        return;
    }
    if (wait_ms > 0 && store->checkpoint_spacing < CHECKPOINT_SPACING_MAX)
        store->checkpoint_spacing *= 2;
    store->checkpoint_at = store->wal_pages + store->checkpoint_spacing;
    if (!was_disturbed(rc))
        hw_log(HOWDAH_LOG_WARN, "%s: checkpoint failed: %s; the events are safe in the log",
               store->name, sqlite3_errmsg(store->db));
}

/* The first try of a connection does not wait.  While somebody reads for long, many connections
   that are opened for one append each would all wait. */
static void checkpoint_when_due(hw_sqlite *store)
{
    if (store->borrowed || store->wal_pages < store->checkpoint_at)
        return;
    checkpoint(store, store->checkpoint_tried ? CHECKPOINT_WAIT_MS : 0);
    store->checkpoint_tried = true;
}

/* After a purge: what was erased is still in the log's older pages. */
void hw_sqlite_empty_log(hw_sqlite *store)
{
    if (!store->borrowed && store->wal_pages > 0 && sqlite3_get_autocommit(store->db))
        checkpoint(store, EMPTY_WAIT_MS);
}

/* ----------------------------------------------------------------- opening */

/* Handlers and settings of a connection of ours.  They belong to the handle, so each new one gets
   them again. */
static int configure(hw_sqlite *store, howdah_error *reterr)
{
    (void)sqlite3_busy_handler(store->db, on_busy, store);
    sqlite3_progress_handler(store->db, PROGRESS_STEPS, on_progress, store);
    /* Our hook takes the place of the one that wal_autocheckpoint would set (I3). */
    (void)sqlite3_wal_autocheckpoint(store->db, 0);
    (void)sqlite3_wal_hook(store->db, on_commit_to_wal, store);
    store->wal_pages = 0;
    store->in_wal_mode = false;
    store->unsynced = false;
    store->checkpoint_at = CHECKPOINT_PAGES;
    store->checkpoint_spacing = CHECKPOINT_PAGES;
    store->checkpoint_tried = false;
    hw_sqlite_temp_in_file(store, false);
    /* This statement reads the file: one that is no database is found out here. */
    return hw_sqlite_exec(store, "PRAGMA synchronous = FULL", "open", reterr);
}

/* Usually in memory, since an INSERT of many rows keeps a journal of its own, which would be a
   file made and removed for each append.  In a file for sorts that may be larger than memory. */
void hw_sqlite_temp_in_file(hw_sqlite *store, bool in_file)
{
    if (!store->borrowed)
        (void)sqlite3_exec(store->db,
                           in_file ? "PRAGMA temp_store = FILE" : "PRAGMA temp_store = MEMORY",
                           NULL, NULL, NULL);
}

/* Without -wal, -shm and locks: see read_only_file.c. */
static int open_frozen(hw_sqlite *store, howdah_error *reterr)
{
    hw_buf uri = HW_BUF_INIT(1024 * 1024);
    int flags =
        SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_READONLY | SQLITE_OPEN_URI;
    int s;

    hw_sqlite_put_frozen_uri(&uri, store->path);
    s = hw_buf_check(&uri, reterr);
    if (s >= 0) {
        int rc = sqlite3_open_v2(hw_buf_str(&uri), &store->db, flags, NULL);

        s = rc == SQLITE_OK ? configure(store, reterr) : hw_sqlite_fail(store, rc, "open", reterr);
    }
    hw_buf_done(&uri);
    if (s < 0)
        hw_sqlite_disconnect(store);
    else
        store->session++;
    return s;
}

/* A file that may not be written is refused here rather than at the first append, unless it is
   opened to be read. */
static int open_handle(hw_sqlite *store, bool create, howdah_error *reterr)
{
    int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
    int rc;
    int s;

    store->frozen = hw_sqlite_is_frozen(store);
    if (store->frozen)
        return open_frozen(store, reterr);
    if (store->read_only && store->path)
        flags |= SQLITE_OPEN_READONLY;
    else
        flags |= SQLITE_OPEN_READWRITE | (create || !store->path ? SQLITE_OPEN_CREATE : 0);
    rc = sqlite3_open_v2(store->path ? store->path : ":memory:", &store->db, flags, NULL);
    s = rc == SQLITE_OK ? configure(store, reterr) : hw_sqlite_fail(store, rc, "open", reterr);
    if (s < 0 && store->read_only && store->path)
        s = hw_sqlite_explain_unread(store, s, reterr);
    if (s >= 0 && !store->read_only && sqlite3_db_readonly(store->db, "main") == 1) {
        s = hw_fail(reterr, HOWDAH_READ_ONLY, "open: %s: this user may not write the file",
                    store->name);
        s = hw_advise(reterr, s,
                      "give the right to write the file and its directory, or set "
                      "read_only to read");
    }
    if (s < 0)
        hw_sqlite_disconnect(store);
    else
        store->session++;
    return s;
}

/* SQLite keeps a log for each name of a file: writers that use two names overwrite each other's
   events, and nobody is told. */
static int refuse_links(const hw_sqlite *store, howdah_error *reterr)
{
    int s = hw_fail_field(reterr, HOWDAH_INVALID, "store",
                          "%s has more than one name (hard links), and each would have its own log",
                          store->name);

    return hw_advise(reterr, s, "remove the other names, or make them symbolic links");
}

/* Whether the file exists; a path that leads nowhere, or to a directory, is an error. */
static int look_for_file(const hw_sqlite *store, bool *ret_exists, howdah_error *reterr)
{
    struct stat st;
    int error;

    if (stat(store->path, &st) == 0) {
        *ret_exists = true;
        if (S_ISDIR(st.st_mode))
            return hw_fail(reterr, HOWDAH_UNAVAILABLE, "open: %s is a directory", store->name);
        return st.st_nlink > 1 ? refuse_links(store, reterr) : HOWDAH_OK;
    }
    *ret_exists = false;
    error = errno;
    if (error == ENOENT)
        error = stat(store->directory, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;
    if (error == 0)
        return HOWDAH_OK;
    return hw_fail(reterr, error == EACCES ? HOWDAH_DENIED : HOWDAH_UNAVAILABLE,
                   "open: %s: its directory: %s", store->name, strerrordesc_np(error));
}

/*
 * The events are for the user who made the file, until that user says otherwise; SQLite gives the
 * files beside it the same rights.  mknod() makes a file without opening it: closing one would
 * give up every lock that another handle of this process has on it.  If it fails, SQLite says
 * why.
 */
static void make_private_file(const hw_sqlite *store)
{
    (void)mknod(store->path, S_IFREG | S_IRUSR | S_IWUSR, 0);
}

/* What was known of the file before, its schema and its identity, is forgotten: it may be another
   one. */
int hw_sqlite_connect(hw_sqlite *store, bool create, howdah_error *reterr)
{
    bool exists = true;

    if (store->path) {
        int s = look_for_file(store, &exists, reterr);
        if (s < 0 || (!exists && !create))
            return s;
        if (!exists)
            make_private_file(store);
    }
    store->sick = false;
    store->schema_known = false;
    store->log[0] = '\0';
    return open_handle(store, create, reterr);
}

/* The file that is open is no longer the one at its path: what is written to it, nobody finds. */
static bool has_moved(const hw_sqlite *store)
{
    int moved = 0;

    return store->path &&
           sqlite3_file_control(store->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) == SQLITE_OK &&
           moved;
}

void hw_sqlite_disconnect(hw_sqlite *store)
{
    int rc;

    if (!store->db)
        return;
    for (int i = 0; i < HW_SLOT_COUNT; i++) {
        (void)sqlite3_finalize(store->slots[i]);
        store->slots[i] = NULL;
    }
    for (int i = 0; i < HW_SELECTS_KEPT; i++) {
        (void)sqlite3_finalize(store->asked[i]);
        store->asked[i] = NULL;
    }
    if (!store->borrowed) {
        /* Of a file that was replaced, too: what is left in its log, which lies beside the new one
           under the same name, would be taken for that one's.  Our handle still leads to the old
           file. */
        if (store->wal_pages > 0 && (!store->sick || has_moved(store)))
            checkpoint(store, 0);
        hw_sqlite_writers_close(store);
        rc = sqlite3_close(store->db);
        if (rc != SQLITE_OK)
            hw_log(HOWDAH_LOG_ERROR, "%s: close: %s", store->name, sqlite3_errstr(rc));
    }
    store->db = NULL;
}

/* Every operation begins here, so a connection that is sick, moved or thawed is made anew before
   it is used, never in the middle of something. */
int hw_sqlite_ready(hw_sqlite *store, hw_sqlite_need need, howdah_error *reterr)
{
    int s = hw_sqlite_check_interrupt(store, reterr);

    if (s < 0)
        return s;
    if (need != HW_NEED_READ && store->read_only)
        return hw_fail(reterr, HOWDAH_READ_ONLY, "%s: opened with read_only", store->name);
    if (store->db && store->path &&
        (store->sick || has_moved(store) || hw_sqlite_has_thawed(store)))
        hw_sqlite_disconnect(store);
    if (!store->db) {
        s = hw_sqlite_connect(store, need == HW_NEED_CREATE, reterr);
        if (s < 0)
            return s;
        if (!store->db) {
            s = hw_fail(reterr, HOWDAH_SCHEMA, "%s: there is no such file", store->name);
            return hw_advise(reterr, s, "run: howdah init");
        }
    }
    return hw_sqlite_go_on(store, reterr);
}

/* A deadline is for one piece of work: a long operation starts a new one for each of its pieces. */
int hw_sqlite_go_on(hw_sqlite *store, howdah_error *reterr)
{
    store->timed_out = false;
    store->deadline_ms = hw_clock_mono_ms() + store->statement_timeout_ms;
    return hw_sqlite_check_interrupt(store, reterr);
}

/* -------------------------------------------------------------- statements */

/* PERSISTENT keeps a statement's memory out of SQLite's small pool.  On a borrowed handle
   statements live only as long as the wrap. */
int hw_sqlite_stmt(hw_sqlite *store, hw_sqlite_slot slot, const char *sql, sqlite3_stmt **ret_stmt,
                   howdah_error *reterr)
{
    assert((unsigned)slot < HW_SLOT_COUNT);
    if (!store->slots[slot]) {
        unsigned flags = store->borrowed ? 0 : SQLITE_PREPARE_PERSISTENT;
        int rc = sqlite3_prepare_v3(store->db, sql, -1, flags, &store->slots[slot], NULL);

        if (rc != SQLITE_OK)
            return hw_sqlite_fail(store, rc, "prepare", reterr);
    }
    *ret_stmt = store->slots[slot];
    return HOWDAH_OK;
}

/* After HOWDAH_END or an error the statement is reset: nothing stays open (sqlite.h I2). */
int hw_sqlite_step(hw_sqlite *store, sqlite3_stmt *stmt, const char *doing, howdah_error *reterr)
{
    int rc = sqlite3_step(stmt);
    int s;

    if (rc == SQLITE_ROW)
        return HOWDAH_OK;
    s = rc == SQLITE_DONE ? HOWDAH_END : hw_sqlite_fail(store, rc, doing, reterr);
    (void)sqlite3_reset(stmt);
    return s;
}

int hw_sqlite_number(hw_sqlite *store, const char *sql, int64_t otherwise, int64_t *ret_value,
                     howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(store->db, sql, -1, &stmt, NULL);
    int s;

    if (rc != SQLITE_OK)
        return hw_sqlite_fail(store, rc, "prepare", reterr);
    s = hw_sqlite_step(store, stmt, "read", reterr);
    if (s >= 0)
        *ret_value = s == HOWDAH_OK && sqlite3_column_type(stmt, 0) != SQLITE_NULL
                         ? sqlite3_column_int64(stmt, 0)
                         : otherwise;
    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_exec(hw_sqlite *store, const char *sql, const char *doing, howdah_error *reterr)
{
    int rc = sqlite3_exec(store->db, sql, NULL, NULL, NULL);

    return rc == SQLITE_OK ? HOWDAH_OK : hw_sqlite_fail(store, rc, doing, reterr);
}

/* ------------------------------------------------------------ transactions */

/* For statements that give no rows. */
static int run(hw_sqlite *store, hw_sqlite_slot slot, const char *sql, const char *doing,
               howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int s = hw_sqlite_stmt(store, slot, sql, &stmt, reterr);

    if (s < 0)
        return s;
    s = hw_sqlite_step(store, stmt, doing, reterr);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_begin_read(hw_sqlite *store, howdah_error *reterr)
{
    return run(store, HW_SLOT_BEGIN_READ, "BEGIN", "begin", reterr);
}

void hw_sqlite_end_read(hw_sqlite *store)
{
    /* With nothing written it cannot fail but for memory: closing the connection ends it too. */
    if (!sqlite3_get_autocommit(store->db) &&
        run(store, HW_SLOT_ROLLBACK, "ROLLBACK", "rollback", NULL) < 0)
        store->sick = true;
}

/* I5.  The pragma works only outside of a transaction, so it is set before BEGIN and after
   COMMIT. */
static int set_unsynced(hw_sqlite *store, bool unsynced, howdah_error *reterr)
{
    int s;

    if (store->unsynced == unsynced)
        return HOWDAH_OK;
    s = hw_sqlite_exec(
        store, unsynced ? "PRAGMA main.synchronous = NORMAL" : "PRAGMA main.synchronous = FULL",
        "begin", reterr);
    if (s >= 0)
        store->unsynced = unsynced;
    return s;
}

/* Stands in line and takes the write lock.  The time spent in line counts as waiting for the lock
   (I1). */
static int lock_for_writing(hw_sqlite *store, howdah_error *reterr)
{
    int s;

    store->in_line_since_ms = hw_clock_mono_ms();
    hw_sqlite_writers_enter(store);
    s = run(store, HW_SLOT_BEGIN, "BEGIN IMMEDIATE", "begin", reterr);
    store->in_line_since_ms = 0;
    if (s < 0)
        hw_sqlite_writers_leave(store);
    return s;
}

/* For what can be done again after a power cut: checkpoints and leases.  Whether the file is in
   WAL mode is known after the first commit; until then it is synced. */
int hw_sqlite_begin_unsynced(hw_sqlite *store, howdah_error *reterr)
{
    bool unsynced = store->in_wal_mode && !store->borrowed;
    int s = set_unsynced(store, unsynced, reterr);

    if (s >= 0)
        s = lock_for_writing(store, reterr);
    store->savepoint = false;
    store->writing = s >= 0;
    if (s < 0)
        (void)set_unsynced(store, false, NULL);
    return s;
}

/* On a caller's handle with an open transaction, a savepoint: our part can be rolled back alone. */
int hw_sqlite_begin(hw_sqlite *store, howdah_error *reterr)
{
    int s = set_unsynced(store, false, reterr);

    if (s < 0)
        return s;
    store->savepoint = store->borrowed && !sqlite3_get_autocommit(store->db);
    s = store->savepoint
            ? run(store, HW_SLOT_SAVEPOINT, "SAVEPOINT howdah_append", "savepoint", reterr)
            : lock_for_writing(store, reterr);
    store->writing = s >= 0;
    return s;
}

/* Cannot fail for the caller: if the statement does, the connection is closed before its next
   use, which rolls back too. */
void hw_sqlite_rollback(hw_sqlite *store)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = HOWDAH_OK;

    /* After some errors SQLite has rolled back already. */
    if (!sqlite3_get_autocommit(store->db)) {
        if (store->savepoint) {
            s = run(store, HW_SLOT_ROLLBACK_TO, "ROLLBACK TO howdah_append", "rollback", &err);
            if (s >= 0)
                s = run(store, HW_SLOT_RELEASE, "RELEASE howdah_append", "rollback", &err);
        } else {
            s = run(store, HW_SLOT_ROLLBACK, "ROLLBACK", "rollback", &err);
        }
    }
    if (s < 0) {
        /* Closing the connection ends the transaction as well. */
        store->sick = true;
        hw_log(HOWDAH_LOG_WARN, "%s", err.message);
    }
    store->writing = false;
    (void)set_unsynced(store, false, NULL); /* begin() tries again, and insists */
    hw_sqlite_writers_leave(store);
}

/* I4. */
static void mark_unknown(howdah_error *reterr, int status)
{
    if (!reterr)
        return;
    reterr->flags = (reterr->flags & ~HOWDAH_RETRYABLE) | HOWDAH_OUTCOME_UNKNOWN;
    (void)hw_advise(reterr, status, "it may be stored or not: repeat it to find out");
}

/* I4: the commit failed, and nothing of it can be in the log. */
static bool failed_early(int rc)
{
    int primary = rc & 0xff;

    return primary == SQLITE_BUSY || primary == SQLITE_FULL || primary == SQLITE_CONSTRAINT;
}

/* A failed COMMIT leaves the transaction open: it is rolled back here in any case, so that the
   caller has nothing left to end. */
int hw_sqlite_commit(hw_sqlite *store, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    int rc;
    int s;

    assert(store->writing);
    s = store->savepoint
            ? hw_sqlite_stmt(store, HW_SLOT_RELEASE, "RELEASE howdah_append", &stmt, reterr)
            : hw_sqlite_stmt(store, HW_SLOT_COMMIT, "COMMIT", &stmt, reterr);
    if (s < 0) {
        hw_sqlite_rollback(store);
        return s;
    }
    rc = sqlite3_step(stmt);
    if (rc != SQLITE_DONE) {
        s = hw_sqlite_fail(store, rc, "commit", reterr);
        if (!store->savepoint && !failed_early(rc))
            mark_unknown(reterr, s);
    }
    (void)sqlite3_reset(stmt);
    if (rc != SQLITE_DONE) {
        hw_sqlite_rollback(store);
        return s;
    }
    store->writing = false;
    (void)set_unsynced(store, false, NULL); /* begin() tries again, and insists */
    checkpoint_when_due(store);
    hw_sqlite_writers_leave(store);
    return HOWDAH_OK;
}

/* ------------------------------------------------- operations as a whole */

/* The schema is checked under the lock: no migration can come between the check and the write. */
int hw_sqlite_enter(hw_sqlite *store, bool synced, howdah_error *reterr)
{
    int s = hw_sqlite_ready(store, HW_NEED_WRITE, reterr);

    if (s >= 0)
        s = synced ? hw_sqlite_begin(store, reterr) : hw_sqlite_begin_unsynced(store, reterr);
    if (s < 0)
        return s;
    s = hw_sqlite_check_schema(store, reterr);
    if (s < 0)
        hw_sqlite_rollback(store);
    return s;
}

int hw_sqlite_leave(hw_sqlite *store, int s, howdah_error *reterr)
{
    if (s < 0) {
        hw_sqlite_rollback(store);
        return s;
    }
    HW_FAULT_POINT("sqlite.sub_before_commit");
    s = hw_sqlite_commit(store, reterr);
    HW_FAULT_POINT("sqlite.sub_after_commit");
    return s;
}

int hw_sqlite_prepare(hw_sqlite *store, const char *sql, sqlite3_stmt **ret_stmt,
                      howdah_error *reterr)
{
    int rc = sqlite3_prepare_v2(store->db, sql, -1, ret_stmt, NULL);

    return rc == SQLITE_OK ? HOWDAH_OK : hw_sqlite_fail(store, rc, "prepare", reterr);
}

int hw_sqlite_finish(hw_sqlite *store, sqlite3_stmt *stmt, const char *doing, howdah_error *reterr)
{
    int s = hw_sqlite_step(store, stmt, doing, reterr);

    (void)sqlite3_finalize(stmt);
    return s < 0 ? s : HOWDAH_OK;
}

int hw_sqlite_ready_to_read(hw_sqlite *store, howdah_error *reterr)
{
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    return s < 0 ? s : hw_sqlite_check_schema(store, reterr);
}
