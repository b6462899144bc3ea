/*
 * bell.c - wake-ups by watching the file.
 *
 * A commit writes to the write-ahead log (or, without one, to the database), and inotify tells
 * everybody who watches, in this process and in others.  Nobody needs to ring for that.  What a
 * watcher hears is no more than "something was written": by the log's head, and by the last job, it
 * finds out whether it was an event or a job.
 *
 *   I1  wait() says "woken" when the head or the last job is not the same as when the bell was
 *       armed, when somebody rang, or when the file was replaced.  So its own checkpoints, other
 *       owners' renewals and the caller's own tables in the same file end in another nap.
 *   I2  The log is written before the commit is done: between the two lies the wait for the disk,
 *       and the end of it makes no noise.  So after a write that brought no event the watcher looks
 *       again after 1, 2, 4 ... GRACE_MAX_MS (a timer).  A commit that takes longer than all of
 *       them is found by polling.  A writer of this library also rings after its commit, which
 *       makes it exact.
 *   I3  A ring touches the -shm file: its times mean nothing to anybody and nothing ever waits for
 *       its sync.  Everybody who may write the database may ring.
 *   I4  inotify, the timer and the set of both are one descriptor: fd().
 *   I5  The directory is watched for the names of our three files: a log that is removed and made
 *       again is watched again.  Names come from SQLite, links followed.
 *
 * In memory there is nobody else; on a caller's handle nobody listens.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_hook.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

/* I2: from the first look after a write to the last. */
#define GRACE_MIN_MS 1
#define GRACE_MAX_MS 128
#define SHM_SUFFIX "-shm"
#define NAP_MS 1 /* after news that were none */

#define LAST_JOB_SQL "SELECT value FROM main.howdah_counters WHERE name = 'job'"

#define FILE_EVENTS (IN_MODIFY | IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)
#define DIRECTORY_EVENTS (IN_CREATE | IN_MOVED_TO | IN_ONLYDIR)

typedef enum name { DATABASE, WAL, SHM, NAMES } name;

/* What tells news from noise. */
typedef struct sight {
    int64_t head; /* of the log */
    int64_t job;  /* the last that was pushed */
} sight;

typedef struct hw_sqlite_bell {
    int set; /* an epoll of the two below (I4) */
    int inotify;
    int timer;
    uint64_t session;   /* the connection whose files are watched */
    char *paths[NAMES]; /* absolute, links followed */
    int watches[NAMES]; /* -1: not there */
    sight seen;         /* when the bell was armed, or rang last */
    int64_t grace_ms;   /* until the timer; 0: it is off */
} hw_sqlite_bell;

/* What the watches have told. */
typedef struct noise {
    bool written;
    bool rung;
} noise;

/* ----------------------------------------------------------------- watching */

/* -1: nothing is watched under that name. */
static void forget_paths(hw_sqlite_bell *bell)
{
    for (int i = 0; i < NAMES; i++) {
        hw_free(bell->paths[i]);
        bell->paths[i] = NULL;
        bell->watches[i] = -1;
    }
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

void hw_sqlite_bell_free(struct hw_sqlite_bell *bell)
{
    if (!bell)
        return;
    forget_paths(bell);
    close_fd(bell->set);
    close_fd(bell->inotify);
    close_fd(bell->timer);
    hw_free(bell);
}

/* I4: whatever becomes readable makes the one descriptor readable. */
static bool add_to_set(const hw_sqlite_bell *bell, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return fd >= 0 && epoll_ctl(bell->set, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* The three descriptors, or NULL with errno set. */
static hw_sqlite_bell *new_bell(void)
{
    hw_sqlite_bell *bell = hw_calloc(1, sizeof *bell);

    if (!bell)
        return NULL;
    bell->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    bell->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    bell->set = epoll_create1(EPOLL_CLOEXEC);
    forget_paths(bell);
    if (bell->set >= 0 && add_to_set(bell, bell->inotify) && add_to_set(bell, bell->timer))
        return bell;
    hw_sqlite_bell_free(bell);
    return NULL;
}

/* Called again whenever one of the files may have come: inotify gives a file that is watched
   already the same number, and one that is not there -1. */
static void watch_files(hw_sqlite_bell *bell)
{
    assert(bell->paths[DATABASE] && bell->paths[WAL] && bell->paths[SHM]);
    for (int i = 0; i < NAMES; i++)
        bell->watches[i] = inotify_add_watch(bell->inotify, bell->paths[i], FILE_EVENTS);
}

static char *joined(const char *text, const char *suffix)
{
    hw_buf out = HW_BUF_INIT(1024 * 1024);

    hw_buf_puts(&out, text);
    hw_buf_puts(&out, suffix);
    if (out.broken) {
        hw_buf_done(&out);
        return NULL;
    }
    return hw_buf_take(&out);
}

/* I5: SQLite's own name for the file, because it is the one that -wal and -shm are made from. */
static bool find_paths(const hw_sqlite *store, hw_sqlite_bell *bell)
{
    const char *file = sqlite3_db_filename(store->db, "main");

    if (!file || !*file)
        return false;
    bell->paths[DATABASE] = hw_strdup(file);
    bell->paths[WAL] = hw_strdup(sqlite3_filename_wal(file));
    bell->paths[SHM] = joined(file, SHM_SUFFIX);
    return bell->paths[DATABASE] && bell->paths[WAL] && bell->paths[SHM];
}

/* Before the files: one that appears while the others are looked for is told by the directory. */
static bool watch_directory(const hw_sqlite_bell *bell)
{
    const char *file = bell->paths[DATABASE];
    const char *slash = strrchr(file, '/');
    char *directory = slash ? hw_strndup(file, slash == file ? 1 : (size_t)(slash - file)) : NULL;
    int watch = directory ? inotify_add_watch(bell->inotify, directory, DIRECTORY_EVENTS) : -1;

    hw_free(directory);
    return watch >= 0;
}

/* Makes a bell for the present connection.  HOWDAH_END when there cannot be one: in memory, or
   when the system has no watches left; then the file is looked at from time to time. */
static int hang_up(hw_sqlite *store, howdah_error *reterr)
{
    (void)reterr;
    if (store->bell && store->bell->session == store->session)
        return HOWDAH_OK;
    hw_sqlite_bell_free(store->bell);
    store->bell = NULL;
    if (!store->path)
        return HOWDAH_END;
    store->bell = new_bell();
    if (store->bell && find_paths(store, store->bell) && watch_directory(store->bell)) {
        watch_files(store->bell);
        store->bell->session = store->session;
        return HOWDAH_OK;
    }
    hw_log(HOWDAH_LOG_WARN, "%s: cannot watch the file (%s): polling it instead", store->name,
           strerrordesc_np(errno));
    hw_sqlite_bell_free(store->bell);
    store->bell = NULL;
    return HOWDAH_END;
}

/* ------------------------------------------------------------------ hearing */

/* The directory tells names without their path. */
static bool is_name_of(const char *path, const char *file)
{
    const char *slash = strrchr(path, '/');

    return strcmp(slash ? slash + 1 : path, file) == 0;
}

/* I5: one of our files was made, or moved there.  A new database rings: the old one may be gone. */
static void hear_directory(hw_sqlite_bell *bell, const struct inotify_event *event, noise *n)
{
    for (int i = 0; i < NAMES; i++)
        if (is_name_of(bell->paths[i], event->name)) {
            watch_files(bell);
            n->written = true;
            n->rung = n->rung || i == DATABASE;
        }
}

/* After an overflow events are lost: everything is watched anew, and counts as written. */
static void hear(hw_sqlite_bell *bell, const struct inotify_event *event, noise *n)
{
    if (event->mask & IN_Q_OVERFLOW) {
        watch_files(bell);
        n->written = true;
    }
    if (event->len > 0)
        hear_directory(bell, event, n);
    if (event->mask & IN_MODIFY)
        n->written = true;
    /* A file that is gone, or is touched: of the database and of the -shm it means something. */
    if ((event->mask & (IN_ATTRIB | IN_MOVE_SELF | IN_DELETE_SELF)) &&
        event->wd != bell->watches[WAL])
        n->rung = true;
}

/* Everything that was heard since the last time.  Both descriptors are emptied, or the set would
   stay readable. */
static noise listen_up(hw_sqlite_bell *bell)
{
    union {
        struct inotify_event event;
        char bytes[4096];
    } block;
    uint64_t fired;
    noise n = {false, false};
    ssize_t len;

    while ((len = read(bell->inotify, block.bytes, sizeof block.bytes)) > 0) {
        for (ssize_t at = 0; at < len;) {
            struct inotify_event event;

            /* The name follows the event in the block. */
            memcpy(&event, block.bytes + at, sizeof event);
            hear(bell, (const struct inotify_event *)(const void *)(block.bytes + at), &n);
            at += (ssize_t)(sizeof event + event.len);
        }
    }
    if (read(bell->timer, &fired, sizeof fired) < 0)
        fired = 0;
    return n;
}

/* I2: the timer, for one more look; 0 stops it. */
static void set_grace(hw_sqlite_bell *bell, int64_t ms)
{
    struct itimerspec when = {.it_value = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}};

    assert(ms >= 0 && ms <= GRACE_MAX_MS);
    bell->grace_ms = ms;
    (void)timerfd_settime(bell->timer, 0, &when, NULL);
}

/* I2: after a look that found nothing.  Soon after a write; then at twice the distance each time,
   until it is given up. */
static void plan_next_look(hw_sqlite_bell *bell, const noise *n)
{
    if (n->written)
        set_grace(bell, GRACE_MIN_MS);
    else if (bell->grace_ms > 0)
        set_grace(bell, bell->grace_ms < GRACE_MAX_MS ? bell->grace_ms * 2 : 0);
}

/* Two keys that grow with every event and every push: cheap to read, and all that has to be
   known. */
static int look(hw_sqlite *store, sight *ret_sight, howdah_error *reterr)
{
    sqlite3_stmt *stmt = NULL;
    sight now = {0, 0};
    int s = hw_sqlite_head(&store->base, &now.head, reterr);

    if (s >= 0)
        s = hw_sqlite_stmt(store, HW_SLOT_LAST_JOB, LAST_JOB_SQL, &stmt, reterr);
    if (s >= 0)
        s = hw_sqlite_step(store, stmt, "look for jobs", reterr);
    if (s < 0)
        return s;
    if (s == HOWDAH_OK)
        now.job = sqlite3_column_int64(stmt, 0);
    (void)sqlite3_reset(stmt);
    *ret_sight = now;
    return HOWDAH_OK;
}

/* Something moved.  HOWDAH_OK: woken (I1).  HOWDAH_END: it was nothing. */
static int judge(hw_sqlite *store, howdah_error *reterr)
{
    hw_sqlite_bell *bell = store->bell;
    noise n = listen_up(bell);
    sight now = {0, 0};
    int s = look(store, &now, reterr);

    assert(bell == store->bell && bell->paths[DATABASE]);
    if (s < 0)
        return s;
    if (store->session != bell->session)
        return HOWDAH_OK; /* the file was replaced: the caller listens anew */
    if (!n.rung && now.head == bell->seen.head && now.job == bell->seen.job) {
        plan_next_look(bell, &n);
        return HOWDAH_END;
    }
    bell->seen = now;
    set_grace(bell, 0);
    return HOWDAH_OK;
}

/* --------------------------------------------------------------- operations */

/* Its number changes with every connection that is opened, and when a backup was restored into
   the open file (hw_sqlite_confirm()). */
int hw_sqlite_session(hw_store *base, uint64_t *ret_session, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int s = hw_sqlite_ready(store, HW_NEED_READ, reterr);

    if (s >= 0)
        *ret_session = store->session;
    return s;
}

/* To all of the file: types make no difference here. */
int hw_sqlite_listen(hw_store *base, bool general, const hw_str *types, size_t types_n,
                     howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    sight now = {0, 0};
    int s;

    (void)general;
    (void)types;
    (void)types_n;
    /* The look first: reading makes the connection, and the log that is to be watched. */
    s = look(store, &now, reterr);
    if (s >= 0)
        s = hang_up(store, reterr);
    if (s == HOWDAH_OK)
        store->bell->seen = now;
    return s;
}

/*
 * There is no mark to set in the file: from now on a change of the head or of the last job wakes.
 */
int hw_sqlite_arm(hw_store *base, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    hw_sqlite_bell *bell = store->bell;

    if (!bell)
        return HOWDAH_OK;
    /* What is heard from now on is news; what was committed before, the caller's look finds. */
    if (listen_up(bell).written)
        set_grace(bell, GRACE_MIN_MS);
    return look(store, &bell->seen, reterr);
}

/* I3.  Best effort: a commit is noticed without it, only later. */
int hw_sqlite_ring(hw_store *base, const hw_str *types, size_t types_n, howdah_error *reterr)
{
    const hw_sqlite *store = (const hw_sqlite *)base;
    const char *file = store->db ? sqlite3_db_filename(store->db, "main") : NULL;
    char shm[PATH_MAX];
    int len;

    (void)types;
    (void)types_n;
    (void)reterr;
    if (!file || !*file)
        return HOWDAH_OK;
    len = snprintf(shm, sizeof shm, "%s" SHM_SUFFIX, file);
    if (len > 0 && (size_t)len < sizeof shm)
        (void)utimensat(AT_FDCWD, shm, NULL, 0);
    return HOWDAH_OK;
}

/* Until the bell, an interrupt, or the time.  True: the bell. */
static int sleep_until(const hw_sqlite *store, int bell_fd, int64_t until_ms)
{
    int64_t left = until_ms - hw_clock_mono_ms();
    struct pollfd p[2] = {{.fd = bell_fd, .events = POLLIN},
                          {.fd = store->interrupt ? store->interrupt->fd : -1, .events = POLLIN}};

    left = left > 0 ? left : 0;
    return poll(p, 2, (int)(left < INT_MAX ? left : INT_MAX)) > 0 && p[0].revents != 0;
}

/* ms = 0 asks without sleeping.  Noise is judged here, so that the caller is woken only for news
   (I1). */
int hw_sqlite_wait(hw_store *base, int64_t ms, howdah_error *reterr)
{
    hw_sqlite *store = (hw_sqlite *)base;
    int64_t now = hw_clock_mono_ms();
    int64_t until = ms < INT64_MAX - now ? now + ms : INT64_MAX;

    for (;;) {
        bool heard = sleep_until(store, hw_sqlite_fd(base), until);
        int s = hw_sqlite_check_interrupt(store, reterr);

        if (s >= 0 && heard) {
            s = judge(store, reterr);
            if (s == HOWDAH_OK)
                return s;
            /* A file that others write all the time is not looked at all the time. */
            now = hw_clock_mono_ms() + NAP_MS;
            if (s == HOWDAH_END)
                (void)sleep_until(store, -1, now < until ? now : until);
        }
        if (s < 0)
            return s;
        if (hw_clock_mono_ms() >= until)
            return HOWDAH_END;
    }
}

int hw_sqlite_fd(hw_store *base)
{
    const hw_sqlite *store = (const hw_sqlite *)base;

    return store->bell ? store->bell->set : -1;
}
