/* open.c - from a URL, or from the caller's handle, to a store. */
#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log_hook.h"
#include "base/mem.h"
#include "store/sqlite/sqlite.h"

#define SCHEME "sqlite:"
#define MEMORY ":memory:"

static void close_store(hw_store *base);

/* Where each operation is: the files have the names of PostgreSQL's. */
static const hw_sub_ops sqlite_sub_ops = {
    .holders = hw_sqlite_holders,
    .proven = hw_sqlite_proven,
    .store_proven = hw_sqlite_store_proven,
    .gaps = hw_sqlite_gaps,
    .blockers = hw_sqlite_blockers,
    .timeline = hw_sqlite_timeline,
    .verify = hw_sqlite_verify,
    .create = hw_sqlite_create,
    .load = hw_sqlite_load,
    .list = hw_sqlite_list,
    .take = hw_sqlite_take,
    .release = hw_sqlite_release,
    .checkpoint = hw_sqlite_checkpoint,
    .poll = hw_sqlite_poll,
    .suspect = hw_sqlite_suspect,
    .set_status = hw_sqlite_set_status,
    .reset = hw_sqlite_reset,
    .remove = hw_sqlite_remove,
    .dead_letter = hw_sqlite_dead_letter,
    .dead_letters = hw_sqlite_dead_letters,
    .dead_letters_set_state = hw_sqlite_dead_letters_set_state,
    .redrive_end = hw_sqlite_redrive_end,
    .skip = hw_sqlite_skip,
    .skips = hw_sqlite_skips,
    .skip_resolve = hw_sqlite_skip_resolve,
    .begin = hw_sqlite_tx_begin,
    .handle = hw_sqlite_tx_handle,
    .commit = hw_sqlite_tx_commit,
    .rollback = hw_sqlite_tx_rollback,
    .session = hw_sqlite_session,
    .confirm = hw_sqlite_confirm,
    .listen = hw_sqlite_listen,
    .arm = hw_sqlite_arm,
    .ring = hw_sqlite_ring,
    .wait = hw_sqlite_wait,
    .fd = hw_sqlite_fd,
};

static const hw_store_ops sqlite_ops = {
    .name = "sqlite",
    .close = close_store,
    .append = hw_sqlite_append,
    .stream_versions = hw_sqlite_stream_versions,
    .read_open = hw_sqlite_read_open,
    .read_next = hw_sqlite_read_next,
    .read_close = hw_sqlite_read_close,
    .tree = hw_sqlite_tree,
    .head = hw_sqlite_head,
    .first_since = hw_sqlite_first_since,
    .migrate = hw_sqlite_migrate,
    .migrate_status = hw_sqlite_migrate_status,
    .import_columns = hw_sqlite_import_columns,
    .import_place = hw_sqlite_import_place,
    .import_rows = hw_sqlite_import_rows,
    .import_total = hw_sqlite_import_total,
    .numbers = hw_sqlite_numbers,
    .status = hw_sqlite_status,
    .doctor = hw_sqlite_doctor,
    .subs = &sqlite_sub_ops,
    .groups = &hw_sqlite_group_ops,
    .queue = &hw_sqlite_queue_ops,
    .times = &hw_sqlite_times_ops,
    .registry = &hw_sqlite_registry_ops,
};

/* The connection first: it still uses the path and the writers' line. */
static void close_store(hw_store *base)
{
    hw_sqlite *store = (hw_sqlite *)base;

    if (!store)
        return;
    hw_sqlite_disconnect(store);
    hw_sqlite_import_free(store->import);
    hw_sqlite_bell_free(store->bell);
    hw_free(store->name);
    hw_free(store->path);
    hw_free(store->directory);
    hw_free(store);
}

/*
 * The absolute path.  A later chdir() must not lead a reconnect to another file, and a name that
 * starts with "file:" or ":" must not mean anything special to SQLite.
 */
static char *absolute_path(const char *file)
{
    hw_buf path = HW_BUF_INIT(1024 * 1024);
    char *directory;

    if (*file == '/')
        return hw_strdup(file);
    directory = get_current_dir_name();
    hw_buf_puts(&path, directory ? directory : ".");
    free(directory);
    hw_buf_putc(&path, '/');
    hw_buf_puts(&path, file);
    if (path.broken) {
        hw_buf_done(&path);
        return NULL;
    }
    return hw_buf_take(&path);
}

/* An absolute path has a slash: what is before the last one is the directory. */
static int set_path(hw_sqlite *store, const char *file, howdah_error *reterr)
{
    const char *slash;

    store->path = absolute_path(file);
    if (!store->path)
        return hw_fail_no_memory(reterr);
    slash = strrchr(store->path, '/');
    assert(slash);
    store->directory =
        hw_strndup(store->path, slash == store->path ? 1 : (size_t)(slash - store->path));
    return store->directory ? HOWDAH_OK : hw_fail_no_memory(reterr);
}

/* What the URL names: a file, or :memory:.  NULL when it names nothing.  Schemes are written in
   any case. */
static const char *file_of(const char *url)
{
    size_t len = strlen(SCHEME);

    return strncasecmp(url, SCHEME, len) == 0 && url[len] != '\0' ? url + len : NULL;
}

static int refuse_url(howdah_error *reterr)
{
    int s = hw_fail_field(reterr, HOWDAH_INVALID, "store", "no file is named after " SCHEME);

    return hw_advise(reterr, s, "use sqlite:FILE, such as sqlite:orders.db, or sqlite::memory:");
}

/* What a store on a file and one on a caller's handle have in common. */
static hw_sqlite *new_store(const char *name)
{
    hw_sqlite *store = hw_calloc(1, sizeof *store);

    if (!store)
        return NULL;
    store->base.ops = &sqlite_ops;
    store->base.one_writer = true;
    store->name = hw_strdup(name);
    if (!store->name) {
        hw_free(store);
        return NULL;
    }
    return store;
}

/* Once a process: it is about the library, not about the file that is opened. */
static void warn_of_old_library(void)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;

    if (hw_sqlite_has_wal_reset_bug(sqlite3_libversion_number()) &&
        !atomic_flag_test_and_set(&warned))
        hw_log(HOWDAH_LOG_WARN,
               "SQLite %s has the WAL-reset bug (fixed in 3.51.3): howdah avoids it by its own "
               "checkpoints, but other programs that write the same file may not",
               sqlite3_libversion());
}

/* A file that does not exist is no error here: migrate makes it (sqlite.h I1). */
int hw_sqlite_open(const hw_config *config, hw_store **ret_store, howdah_error *reterr)
{
    const char *file = file_of(config->url);
    hw_sqlite *store;
    int s = HOWDAH_OK;

    if (!file)
        return refuse_url(reterr);
    store = new_store(file);
    if (!store)
        return hw_fail_no_memory(reterr);
    store->read_only = config->read_only;
    store->interrupt = config->interrupt;
    store->busy_timeout_ms = config->busy_timeout_ms;
    store->statement_timeout_ms = config->statement_timeout_ms;
    store->base.alone = strcmp(file, MEMORY) == 0;
    if (!store->base.alone) {
        warn_of_old_library();
        s = set_path(store, file, reterr);
    }
    if (s >= 0)
        s = hw_sqlite_connect(store, false, reterr);
    if (s < 0) {
        close_store(&store->base);
        return s;
    }
    *ret_store = &store->base;
    return HOWDAH_OK;
}

/* No interrupt, no timeouts, no path: nothing about the caller's handle is ours to change
   (sqlite.h I4). */
int hw_sqlite_wrap(sqlite3 *db, hw_store **ret_store, howdah_error *reterr)
{
    const char *file = sqlite3_db_filename(db, "main");
    hw_sqlite *store = new_store(file && *file ? file : "the caller's database");

    if (!store)
        return hw_fail_no_memory(reterr);
    assert(db);
    store->db = db;
    store->borrowed = true;
    *ret_store = &store->base;
    return HOWDAH_OK;
}
