/*
 * read_only_file.c - files that are read where nothing can be written.
 *
 * A file with a write-ahead log needs its -shm, which a reader makes when it is not there.  On a
 * file system that is mounted read-only, and for a user without rights on the directory, it cannot.
 * SQLite reads such a file as "immutable": without -wal, without -shm and without locks.
 *
 *   I1  That is done only when all is in the file itself: no -wal with anything in it, and no -shm,
 *       which every process that has the file open keeps; and only when we cannot write beside it.
 *   I2  Others may be able to.  So before every operation it is asked whether the file is as it was
 *       when it was opened; else it is opened anew, as it is then.  An operation during which
 *       somebody begins to write may see pages of two moments, which is why I1 is as strict as it
 *       is: use it for files at rest.
 */
#include <assert.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/sqlite/sqlite.h"

#define PATH_BYTES_MAX (1024 * 1024)

/* The size of a file beside the database; -1: there is none. */
static int64_t size_beside(const hw_sqlite *store, const char *suffix)
{
    hw_buf path = HW_BUF_INIT(PATH_BYTES_MAX);
    struct stat st;
    int64_t size = -1;

    hw_buf_puts(&path, store->path);
    hw_buf_puts(&path, suffix);
    if (!path.broken && stat(hw_buf_str(&path), &st) == 0)
        size = (int64_t)st.st_size;
    hw_buf_done(&path);
    return size;
}

/* The same file with the same size and time: nobody has written it. */
static hw_sqlite_state look(const hw_sqlite *store)
{
    struct stat st;

    assert(store->path);
    if (stat(store->path, &st) < 0)
        return (hw_sqlite_state){.inode = 0};
    return (hw_sqlite_state){.inode = (uint64_t)st.st_ino,
                             .size = (int64_t)st.st_size,
                             .changed_s = (int64_t)st.st_mtim.tv_sec,
                             .changed_ns = (int64_t)st.st_mtim.tv_nsec};
}

/* I1.  The state is noted before the file is opened: a write in between is found by the next
   operation. */
bool hw_sqlite_is_frozen(hw_sqlite *store)
{
    if (!store->read_only || !store->path || access(store->directory, W_OK) == 0 ||
        size_beside(store, "-wal") > 0 || size_beside(store, "-shm") >= 0)
        return false;
    store->as_opened = look(store);
    return true;
}

bool hw_sqlite_has_thawed(const hw_sqlite *store)
{
    hw_sqlite_state now;

    if (!store->frozen)
        return false;
    now = look(store);
    return now.inode != store->as_opened.inode || now.size != store->as_opened.size ||
           now.changed_s != store->as_opened.changed_s ||
           now.changed_ns != store->as_opened.changed_ns || size_beside(store, "-wal") > 0;
}

/* The three characters that mean something in a URI's path are escaped, whatever the file is
   called. */
void hw_sqlite_put_frozen_uri(hw_buf *out, const char *path)
{
    hw_buf_puts(out, "file:");
    for (; *path; path++) {
        if (*path == '%' || *path == '?' || *path == '#')
            hw_buf_printf(out, "%%%02X", (unsigned)*path);
        else
            hw_buf_putc(out, *path);
    }
    hw_buf_puts(out, "?immutable=1");
}

int hw_sqlite_explain_unread(const hw_sqlite *store, int s, howdah_error *reterr)
{
    if (access(store->path, R_OK) < 0 || access(store->directory, W_OK) == 0 ||
        size_beside(store, "-wal") <= 0)
        return s;
    s = hw_fail(
        reterr, HOWDAH_READ_ONLY,
        "open: %s: its write-ahead log has events that are not in the file yet, and nothing "
        "can be written here",
        store->name);
    return hw_advise(reterr, s,
                     "copy FILE and FILE-wal to a directory that can be written, or run howdah "
                     "status once where FILE can be written");
}
