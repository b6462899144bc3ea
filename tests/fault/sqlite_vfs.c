/* sqlite_vfs.c - see sqlite_vfs.h. */
#include "sqlite_vfs.h"

#include <sqlite3.h>
#include <stddef.h>
#include <string.h>

/* Ours comes first, the real file's memory lies behind it. */
typedef struct fault_file {
    sqlite3_file base;
    sqlite3_file *real;
    bool database;      /* not a log, not a journal */
    bool exclusive;     /* everybody else is locked out */
    bool writing;       /* the write lock of the write-ahead log is held, */
    bool checkpointing; /* and that of checkpoints */
} fault_file;

/* As SQLite numbers the locks in the shared index. */
enum { WRITE_LOCK = 0, CHECKPOINT_LOCK = 1 };

static struct {
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    fault_plan plan;
    bool armed;
    unsigned count;
    unsigned failed;
    bool holding; /* the write lock against checkpoints */
    unsigned unlocked_writes;
} state;

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((fault_file *)file)->real;
}

/* Whether the operation that is about to happen shall fail. */
static bool fails(unsigned kind)
{
    bool hit;

    if (!state.armed || !(state.plan.kinds & kind))
        return false;
    state.count++;
    hit = state.plan.nth > 0 &&
          (state.plan.forever ? state.count >= state.plan.nth : state.count == state.plan.nth);
    state.failed += hit;
    return hit;
}

static int error_of(int otherwise)
{
    return state.plan.error == FAULT_FULL ? SQLITE_FULL : otherwise;
}

/* ---------------------------------------------------------- what can fail */

static int fault_write(sqlite3_file *file, const void *bytes, int n, sqlite3_int64 at)
{
    const fault_file *f = (const fault_file *)file;
    sqlite3_file *real = real_of(file);

    if (f->database && !f->writing && !f->exclusive)
        state.unlocked_writes++;
    if (!fails(FAULT_WRITE))
        return real->pMethods->xWrite(real, bytes, n, at);
    if (state.plan.error == FAULT_TORN && n > 1)
        (void)real->pMethods->xWrite(real, bytes, n / 2, at);
    return error_of(SQLITE_IOERR_WRITE);
}

static int fault_sync(sqlite3_file *file, int flags)
{
    (void)file;
    (void)flags;
    return fails(FAULT_SYNC) ? SQLITE_IOERR_FSYNC : SQLITE_OK;
}

static int fault_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    sqlite3_file *real = real_of(file);

    return fails(FAULT_TRUNCATE) ? SQLITE_IOERR_TRUNCATE : real->pMethods->xTruncate(real, size);
}

static int fault_shm_map(sqlite3_file *file, int page, int bytes, int extend, void volatile **ret)
{
    sqlite3_file *real = real_of(file);

    return fails(FAULT_SHM) ? SQLITE_IOERR_SHMMAP
                            : real->pMethods->xShmMap(real, page, bytes, extend, ret);
}

/* ----------------------------------------------------- what passes through */

static int fault_close(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods ? real->pMethods->xClose(real) : SQLITE_OK;
}

static int fault_read(sqlite3_file *file, void *bytes, int n, sqlite3_int64 at)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xRead(real, bytes, n, at);
}

static int fault_size(sqlite3_file *file, sqlite3_int64 *ret_size)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xFileSize(real, ret_size);
}

static int fault_lock(sqlite3_file *file, int level)
{
    sqlite3_file *real = real_of(file);
    int rc = real->pMethods->xLock(real, level);

    if (rc == SQLITE_OK)
        ((fault_file *)file)->exclusive = level == SQLITE_LOCK_EXCLUSIVE;
    return rc;
}

static int fault_unlock(sqlite3_file *file, int level)
{
    sqlite3_file *real = real_of(file);

    ((fault_file *)file)->exclusive = false;
    return real->pMethods->xUnlock(real, level);
}

static int fault_check_lock(sqlite3_file *file, int *ret)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xCheckReservedLock(real, ret);
}

static int fault_control(sqlite3_file *file, int op, void *arg)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xFileControl(real, op, arg);
}

static int fault_sector_size(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xSectorSize(real);
}

static int fault_characteristics(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xDeviceCharacteristics(real);
}

/* What is held of the two locks, after a call that succeeded. */
static void note_lock(fault_file *f, int offset, int n, int flags)
{
    bool held = (flags & SQLITE_SHM_LOCK) != 0;

    if (offset == WRITE_LOCK)
        f->writing = held;
    if (offset <= CHECKPOINT_LOCK && offset + n > CHECKPOINT_LOCK)
        f->checkpointing = held;
}

static int fault_shm_lock(sqlite3_file *file, int offset, int n, int flags)
{
    fault_file *f = (fault_file *)file;
    sqlite3_file *real = real_of(file);
    int rc;

    if (state.holding && f->checkpointing && offset == WRITE_LOCK && (flags & SQLITE_SHM_LOCK))
        return SQLITE_BUSY;
    rc = real->pMethods->xShmLock(real, offset, n, flags);
    if (rc == SQLITE_OK)
        note_lock(f, offset, n, flags);
    return rc;
}

static void fault_shm_barrier(sqlite3_file *file)
{
    sqlite3_file *real = real_of(file);

    real->pMethods->xShmBarrier(real);
}

static int fault_shm_unmap(sqlite3_file *file, int remove)
{
    sqlite3_file *real = real_of(file);

    return real->pMethods->xShmUnmap(real, remove);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2, /* without memory-mapped reads */
    .xClose = fault_close,
    .xRead = fault_read,
    .xWrite = fault_write,
    .xTruncate = fault_truncate,
    .xSync = fault_sync,
    .xFileSize = fault_size,
    .xLock = fault_lock,
    .xUnlock = fault_unlock,
    .xCheckReservedLock = fault_check_lock,
    .xFileControl = fault_control,
    .xSectorSize = fault_sector_size,
    .xDeviceCharacteristics = fault_characteristics,
    .xShmMap = fault_shm_map,
    .xShmLock = fault_shm_lock,
    .xShmBarrier = fault_shm_barrier,
    .xShmUnmap = fault_shm_unmap,
};

static int fault_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                      int *ret_flags)
{
    fault_file *f = (fault_file *)file;
    int rc;

    (void)vfs;
    f->base.pMethods = NULL;
    f->real = (sqlite3_file *)(f + 1);
    f->database = (flags & SQLITE_OPEN_MAIN_DB) != 0;
    f->exclusive = f->writing = f->checkpointing = false;
    if (fails(FAULT_OPEN))
        return SQLITE_CANTOPEN;
    (void)memset(f->real, 0, (size_t)state.real->szOsFile);
    rc = state.real->xOpen(state.real, name, f->real, flags, ret_flags);
    if (rc == SQLITE_OK)
        f->base.pMethods = &methods;
    return rc;
}

/* ----------------------------------------------------------------- control */

bool fault_vfs_install(void)
{
    if (state.real)
        return true;
    state.real = sqlite3_vfs_find(NULL);
    if (!state.real)
        return false;
    state.vfs = *state.real;
    state.vfs.zName = "howdah-fault";
    state.vfs.pNext = NULL;
    state.vfs.szOsFile = (int)sizeof(fault_file) + state.real->szOsFile;
    state.vfs.xOpen = fault_open;
    return sqlite3_vfs_register(&state.vfs, 1) == SQLITE_OK;
}

void fault_vfs_arm(fault_plan plan)
{
    state.plan = plan;
    state.count = 0;
    state.failed = 0;
    state.armed = true;
}

void fault_vfs_disarm(void)
{
    state.armed = false;
}

unsigned fault_vfs_count(void)
{
    return state.count;
}

unsigned fault_vfs_failed(void)
{
    return state.failed;
}

void fault_vfs_hold_against_checkpoints(bool on)
{
    state.holding = on;
}

unsigned fault_vfs_unlocked_writes(void)
{
    return state.unlocked_writes;
}
