/*
 * writers.c - the line in which writers of one file stand.
 *
 * SQLite has a write lock, but nobody stands in line for it: a writer that finds it taken sleeps
 * and tries again, and a process that appends without a pause takes it back within microseconds of
 * giving it up.  So a writer draws a number before it asks for the lock, and asks when its
 * predecessor is done.  The numbers lie in a small file beside the database, FILE-writers, which
 * all writers map.
 *
 *   I1  The line only says who asks next; what protects the data is SQLite's lock alone.
 *       Whatever is in the file costs time and nothing else, and so does a file that is
 *       removed.  One that is cut short while it is in use ends the process, as -shm does.
 *   I2  Nothing is held.  A process that is killed or stopped in the line holds the others up once,
 *       for PATIENCE_MS; one that is stopped while it has SQLite's lock does so by that lock, as
 *       without the line.  A writer that lost patience asks for the lock, and naps between two
 *       tries.
 *   I3  "served" only grows, and a writer that ends sets it to its own number at least: numbers
 *       that nobody ends are passed over with the next one that ends.
 *   I4  Neither the database nor its -shm is opened here: closing a second descriptor of them would
 *       take SQLite's own locks away.
 *
 * Programs that do not know the line take the lock when they find it free: between two writers it
 * is, for as long as it takes to wake the next.  A process that gives the lock up and wants it
 * again waits for those in front of it even when they have lost patience: meanwhile the lock is
 * free, and their naps are shorter than its patience.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define SUFFIX "-writers"
#define FILE_BYTES 4096
#define PATIENCE_MS 20 /* without anybody being served */
#define LOOK_MS 4      /* at the line and at the interrupt; a wake-up that is missed costs this */
#define OPEN_TRIES 10

/* What the file holds.  Numbers go round: only their distance counts. */
typedef struct numbers {
    _Atomic uint32_t drawn;
    _Atomic uint32_t served; /* sleepers wait for a change of it */
} numbers;

_Static_assert(sizeof(numbers) <= FILE_BYTES, "the numbers are in the file");

struct hw_sqlite_writers {
    int fd;
    numbers *line;
    bool drawn; /* a number is in our hands: */
    uint32_t number;
    char path[];
};

/* --------------------------------------------------------------- the file */

/* As SQLite does with its own files: the users of the database may use the line. */
static int make_file(const char *path, const struct stat *database)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return -1;
    if (geteuid() == 0)
        (void)!fchown(fd, database->st_uid, database->st_gid);
    (void)fchmod(fd, database->st_mode & 0666);
    return fd;
}

/* NOFOLLOW: somebody who may write the directory must not lead us to another file. */
static int open_file(const char *path, const struct stat *database)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

    return fd < 0 && errno == ENOENT ? make_file(path, database) : fd;
}

/* Room that is really there: touching a page of a hole, on a full disk, would kill the process. */
static bool has_room(int fd)
{
    static const char zeros[FILE_BYTES];
    struct stat st;

    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    return st.st_size >= FILE_BYTES || pwrite(fd, zeros, sizeof zeros, 0) == FILE_BYTES;
}

/* The last process that closes removes the file, and holds it alone meanwhile.  A shared lock
   says that it is in use. */
static bool is_removed(int fd)
{
    struct stat st;

    return flock(fd, LOCK_SH | LOCK_NB) < 0 || fstat(fd, &st) < 0 || st.st_nlink == 0;
}

/* -1: there is no line.  Then writers do without it (I1). */
static int open_line(const char *path, const struct stat *database)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        int fd = open_file(path, database);

        if (fd < 0 && errno == EEXIST)
            continue; /* made by another just now */
        if (fd < 0)
            return -1;
        if (!is_removed(fd) && has_room(fd))
            return fd;
        (void)close(fd);
    }
    return -1;
}

/* With its path in the same block. */
static struct hw_sqlite_writers *new_writers(const char *database)
{
    size_t len = strlen(database);
    struct hw_sqlite_writers *writers = hw_calloc(1, sizeof *writers + len + sizeof SUFFIX);

    if (writers) {
        memcpy(writers->path, database, len);
        memcpy(writers->path + len, SUFFIX, sizeof SUFFIX);
    }
    return writers;
}

/* If the file cannot be had, store->writers is set without a line, and it is not tried again for
   this connection. */
static void open_writers(hw_sqlite *store)
{
    const char *database = store->path ? sqlite3_db_filename(store->db, "main") : NULL;
    struct hw_sqlite_writers *writers;
    struct stat st;
    void *map;

    assert(!store->writers);
    if (!database || stat(database, &st) < 0)
        return;
    writers = new_writers(database);
    if (!writers)
        return;
    writers->fd = open_line(writers->path, &st);
    map = writers->fd < 0
              ? MAP_FAILED
              : mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, writers->fd, 0);
    writers->line = map == MAP_FAILED ? NULL : map;
    store->writers = writers;
}

/* An exclusive lock that is free means that nobody else has the file open: then it is removed. */
void hw_sqlite_writers_close(hw_sqlite *store)
{
    struct hw_sqlite_writers *writers = store->writers;

    store->writers = NULL;
    if (!writers)
        return;
    if (writers->line)
        (void)munmap(writers->line, FILE_BYTES);
    if (writers->fd >= 0) {
        if (flock(writers->fd, LOCK_EX | LOCK_NB) == 0)
            (void)unlink(writers->path);
        (void)close(writers->fd);
    }
    hw_free(writers);
}

/* --------------------------------------------------------------- the line */

/* Each sleeper has a bit, by its number, so that one is woken and not all. */
static uint32_t bit_of(uint32_t number)
{
    return UINT32_C(1) << (number % 32);
}

/* Numbers go round at 2^32: the sign of the distance tells the order. */
static bool is_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* Returns at once when the word has changed already, so that no wake-up is lost. */
static void sleep_while(_Atomic uint32_t *word, uint32_t value, uint32_t number)
{
    /* This call's time is absolute. */
    int64_t until_ns;
    struct timespec until = {0, 0};

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until_ns = until.tv_nsec + LOOK_MS * INT64_C(1000000);
    until.tv_sec += until_ns / INT64_C(1000000000);
    until.tv_nsec = until_ns % INT64_C(1000000000);
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, &until, NULL, bit_of(number));
}

/* I2: waits for those in front, as long as they get on. */
static void stand_in_line(const hw_sqlite *store, numbers *line, uint32_t number)
{
    uint32_t seen = atomic_load(&line->served);
    int64_t began_ms = store->in_line_since_ms;
    int64_t moved_ms = began_ms;

    while (is_before(seen, number - 1)) {
        uint32_t served;
        int64_t now_ms;

        sleep_while(&line->served, seen, number);
        served = atomic_load(&line->served);
        now_ms = hw_clock_mono_ms();
        if (served != seen)
            moved_ms = now_ms;
        seen = served;
        if (now_ms - moved_ms >= PATIENCE_MS || now_ms - began_ms >= store->busy_timeout_ms ||
            (store->interrupt && hw_interrupted(store->interrupt)))
            return;
    }
}

/* One number at a time; without a line it does nothing (I1). */
void hw_sqlite_writers_enter(hw_sqlite *store)
{
    struct hw_sqlite_writers *writers;

    if (!store->writers)
        open_writers(store);
    writers = store->writers;
    if (!writers || !writers->line || writers->drawn)
        return;
    writers->number = atomic_fetch_add(&writers->line->drawn, 1) + 1;
    writers->drawn = true;
    stand_in_line(store, writers->line, writers->number);
}

/* I3.  Only the next in line is woken, by its bit; the few others with the same bit sleep again. */
void hw_sqlite_writers_leave(hw_sqlite *store)
{
    struct hw_sqlite_writers *writers = store->writers;
    uint32_t served;

    if (!writers || !writers->drawn)
        return;
    assert(writers->line);
    writers->drawn = false;
    served = atomic_load(&writers->line->served);
    while (is_before(served, writers->number) &&
           !atomic_compare_exchange_weak(&writers->line->served, &served, writers->number))
        continue;
    /* A writer that draws its number after this look finds its predecessor served. */
    if (atomic_load(&writers->line->drawn) != writers->number)
        (void)syscall(SYS_futex, &writers->line->served, FUTEX_WAKE_BITSET, INT32_MAX, NULL, NULL,
                      bit_of(writers->number + 1));
}
