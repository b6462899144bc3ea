/* test_sqlite_store.c - what is special about the SQLite store: processes, files, the schema. */
#include <fcntl.h>
#include <pthread.h>

#include "sqlite_help.h"
#include "store/migrations.h"

/* --------------------------------------------------------------- processes */

#define PROCESSES 4
#define APPENDS 200

static int append_many(const char *url)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    if (howdah_open(url, NULL, &bus, &err) < 0)
        return 1;
    for (int i = 0; i < APPENDS; i++)
        if (append_one(bus, "shared", &err) < 0) {
            (void)fprintf(stderr, "append %d: %s\n", i, err.message);
            return 2;
        }
    howdah_close(bus);
    return 0;
}

static void processes_that_append_to_one_stream_get_every_version_once(void **state)
{
    const place *p = *state;
    pid_t pids[PROCESSES];

    howdah_close(open_migrated(p->url));
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(append_many(p->url));
    }
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(child_result(pids[i]), 0);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"),
                     PROCESSES * APPENDS);
    assert_i64_equal(raw_number(p->file, "SELECT count(DISTINCT version) FROM howdah_events"
                                         " WHERE version BETWEEN 1 AND 800"),
                     PROCESSES * APPENDS);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM (SELECT version - lag(version)"
                                         " OVER (ORDER BY global_sequence) AS d FROM howdah_events)"
                                         " WHERE d <> 1"),
                     0);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM (SELECT recorded_at"
                                         " - lag(recorded_at) OVER (ORDER BY global_sequence) AS d"
                                         " FROM howdah_events) WHERE d < 0"),
                     0);
}

static int migrate_child(const char *url)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int s = howdah_open(url, NULL, &bus, &err);

    if (s >= 0)
        s = howdah_migrate(bus, NULL, &err);
    if (s < 0)
        (void)fprintf(stderr, "migrate: %s\n", err.message);
    howdah_close(bus);
    return s < 0 ? 1 : 0;
}

static void of_several_migrators_one_migrates_and_all_succeed(void **state)
{
    const place *p = *state;

    for (int round = 0; round < 5; round++) {
        pid_t pids[PROCESSES];

        empty_directory(p->dir);
        for (int i = 0; i < PROCESSES; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                _exit(migrate_child(p->url));
        }
        for (int i = 0; i < PROCESSES; i++)
            assert_int_equal(child_result(pids[i]), 0);
        assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_migrations"),
                         (int64_t)hw_sqlite_steps_n);
        assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_meta"
                                             " WHERE key = 'bus_id' AND length(value) = 36"),
                         1);
    }
}

static void a_held_write_lock_is_waited_for_and_then_reported_as_retryable(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    sqlite3 *other = NULL;

    howdah_close(open_migrated(p->url));
    bus = open_with(p->url, "busy_timeout", "100ms");
    assert_int_equal(sqlite3_open(p->file, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_status(append_one(bus, "a", &err), HOWDAH_UNAVAILABLE);
    assert_true(err.flags & HOWDAH_RETRYABLE);
    assert_false(err.flags & HOWDAH_OUTCOME_UNKNOWN);
    assert_int_not_equal(strlen(err.advice), 0);
    assert_int_equal(sqlite3_exec(other, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    must(append_one(bus, "a", &err), &err);
    howdah_close(bus);
}

static void *interrupt_soon(void *bus)
{
    (void)usleep(100000);
    howdah_interrupt(bus);
    return NULL;
}

static void an_interrupt_ends_the_wait_for_a_lock(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    sqlite3 *other = NULL;
    pthread_t thread;

    howdah_close(open_migrated(p->url));
    bus = open_with(p->url, "busy_timeout", "1h");
    assert_int_equal(sqlite3_open(p->file, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, bus), 0);
    assert_status(append_one(bus, "a", &err), HOWDAH_INTERRUPTED);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(sqlite3_close(other), SQLITE_OK);
    assert_status(append_one(bus, "a", &err), HOWDAH_INTERRUPTED);
    howdah_interrupt_clear(bus);
    must(append_one(bus, "a", &err), &err);
    howdah_close(bus);
}

/* ------------------------------------------------------------------- files */

static int ignore_step(void *ctx, const howdah_migration_info *step)
{
    *(int64_t *)ctx = step->applied_at_us;
    return 0;
}

static void a_missing_file_is_created_by_migrate_and_by_nothing_else(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_bus(p->url);
    howdah_reader *reader = NULL;
    int64_t applied_at = 0;

    assert_status(append_one(bus, "a", &err), HOWDAH_SCHEMA);
    assert_string_equal(err.advice, "run: howdah init");
    assert_status(howdah_reader_open(bus, NULL, &reader, &err), HOWDAH_SCHEMA);
    must(howdah_migrations_walk(bus, ignore_step, &applied_at, &err), &err);
    assert_i64_equal(applied_at, HOWDAH_NO_TIME);
    assert_int_equal(count_files(p), 0);
    must(howdah_migrate(bus, NULL, &err), &err);
    must(append_one(bus, "a", &err), &err);
    howdah_close(bus);
    assert_int_equal(count_files(p), 1); /* no log is left beside it */
}

static void an_empty_file_has_no_schema_and_can_be_migrated(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    int fd = open(p->file, O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    (void)close(fd);
    bus = open_bus(p->url);
    assert_status(append_one(bus, "a", &err), HOWDAH_SCHEMA);
    assert_i64_equal(file_size(p->file, ""), 0);
    must(howdah_migrate(bus, NULL, &err), &err);
    must(append_one(bus, "a", &err), &err);
    howdah_close(bus);
}

static void a_way_that_leads_nowhere_is_told(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    char url[160];

    (void)snprintf(url, sizeof url, "sqlite:%s/none/log.db", p->dir);
    assert_status(howdah_open(url, NULL, &bus, &err), HOWDAH_UNAVAILABLE);
    assert_non_null(strstr(err.message, "none/log.db"));
    (void)snprintf(url, sizeof url, "sqlite:%s", p->dir);
    assert_status(howdah_open(url, NULL, &bus, &err), HOWDAH_UNAVAILABLE);
    assert_status(howdah_open("sqlite:", NULL, &bus, &err), HOWDAH_INVALID);
    assert_non_null(strstr(err.advice, "sqlite:FILE"));
}

static void names_that_sqlite_would_read_otherwise_are_plain_names(void **state)
{
    static const char *const names[] = {"file:log.db?mode=memory", ":memory:x", "a?b=c", "sp ace"};
    const place *p = *state;
    char was[512];

    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(p->dir), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        char url[64];
        howdah_bus *bus;

        (void)snprintf(url, sizeof url, "sqlite:%s", names[i]);
        bus = open_migrated(url);
        must(append_one(bus, "a", &err), &err);
        howdah_close(bus);
        assert_int_equal(access(names[i], F_OK), 0);
    }
    assert_int_equal(chdir(was), 0);
}

static void a_relative_name_keeps_its_meaning_after_chdir(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    char was[512];

    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(p->dir), 0);
    bus = open_bus("sqlite:log.db");
    assert_int_equal(chdir("/"), 0);
    must(howdah_migrate(bus, NULL, &err), &err);
    must(append_one(bus, "a", &err), &err);
    howdah_close(bus);
    assert_int_equal(chdir(was), 0);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"), 1);
}

static void a_replaced_file_is_noticed_before_anything_is_written_to_the_old_one(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    howdah_bus *other;

    must(append_one(bus, "a", &err), &err);
    empty_directory(p->dir);
    assert_status(append_one(bus, "a", &err), HOWDAH_SCHEMA);
    assert_int_equal(count_files(p), 0);
    other = open_migrated(p->url);
    must(append_one(bus, "b", &err), &err);
    assert_i64_equal(count_read(other, NULL), 1);
    howdah_close(other);
    howdah_close(bus);
}

/* The log of the old file lies beside the new one, under its name. */
static void a_file_that_is_replaced_under_a_bus_keeps_all_that_it_holds(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    howdah_bus *other;
    char url[sizeof p->url + 8];
    char file[sizeof p->file + 8];
    char sound[64];

    (void)snprintf(url, sizeof url, "%s.new", p->url);
    (void)snprintf(file, sizeof file, "%s.new", p->file);
    other = open_migrated(url);
    for (int i = 0; i < 30; i++)
        must(append_one(other, "new", &err), &err);
    howdah_close(other);
    for (int i = 0; i < 50; i++)
        must(append_one(bus, "old", &err), &err);
    assert_true(file_size(p->file, "-wal") > 0);
    assert_int_equal(rename(file, p->file), 0);
    for (int i = 0; i < 20; i++)
        must(append_one(bus, "newer", &err), &err);
    howdah_close(bus);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"), 50);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events WHERE stream = 'new'"),
                     30);
    raw_text(p->file, "PRAGMA integrity_check", sound, sizeof sound);
    assert_string_equal(sound, "ok");
}

static void a_file_with_two_names_is_refused(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    char other[sizeof p->file + 8];

    howdah_close(open_migrated(p->url));
    (void)snprintf(other, sizeof other, "%s.link", p->file);
    assert_int_equal(link(p->file, other), 0);
    assert_int_equal(howdah_open(p->url, NULL, &bus, &err), HOWDAH_INVALID);
    assert_non_null(strstr(err.message, "has more than one name (hard links)"));
    assert_string_equal(err.advice, "remove the other names, or make them symbolic links");
    assert_int_equal(unlink(other), 0);
    howdah_close(open_bus(p->url));
}

static void write_garbage(const char *file, int64_t at, size_t n)
{
    char garbage[4096];
    int fd = open(file, O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    (void)memset(garbage, 'g', sizeof garbage);
    assert_true(n <= sizeof garbage);
    assert_int_equal(pwrite(fd, garbage, n, at), (ssize_t)n);
    (void)close(fd);
}

static void a_file_that_is_no_database_is_refused_and_left_as_it_is(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    write_garbage(p->file, 0, 4096);
    assert_status(howdah_open(p->url, NULL, &bus, &err), HOWDAH_CORRUPT);
    assert_non_null(strstr(err.message, p->file));
    assert_int_not_equal(strlen(err.advice), 0);
    assert_i64_equal(file_size(p->file, ""), 4096);
    assert_int_equal(count_files(p), 1);
}

/* Every page in turn: whatever is damaged, the answer is an error or the truth, never a crash. */
static void a_damaged_page_gives_corrupt_or_the_stored_events(void **state)
{
    const place *p = *state;
    char copy[128];
    char command[300];
    int64_t empty;
    int64_t pages;
    int64_t refused = 0;
    howdah_bus *bus = open_migrated(p->url);

    howdah_close(bus);
    empty = file_size(p->file, "") / 4096; /* tables that nobody reads are among them */
    bus = open_migrated(p->url);
    for (int i = 0; i < 300; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        must(append_one(bus, i % 2 ? "a" : "b", &err), &err);
    }
    howdah_close(bus);
    pages = file_size(p->file, "") / 4096;
    (void)snprintf(copy, sizeof copy, "%s/copy.db", p->dir);
    (void)snprintf(command, sizeof command, "cp %s %s", p->file, copy);
    for (int64_t page = 0; page < pages; page++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        const howdah_event *event = NULL;
        howdah_reader *reader = NULL;
        char url[160];
        int s;

        assert_int_equal(system(command), 0); /* NOLINT: a test's own names */
        write_garbage(copy, page * 4096 + (page ? 0 : 100), 3000);
        (void)snprintf(url, sizeof url, "sqlite:%s", copy);
        bus = NULL;
        s = howdah_open(url, NULL, &bus, &err);
        if (s >= 0)
            s = append_one(bus, "a", &err);
        if (s >= 0)
            s = howdah_reader_open(bus, NULL, &reader, &err);
        while (s == HOWDAH_OK)
            s = howdah_reader_next(reader, &event, &err);
        howdah_reader_close(reader);
        howdah_close(bus);
        refused += s < 0;
        if (s < 0 && s != HOWDAH_CORRUPT && s != HOWDAH_SCHEMA)
            fail_msg("page %lld: %s: %s", (long long)page, howdah_status_name(s), err.message);
    }
    assert_true(refused > (pages - empty) / 2);
}

/* Runs fn as nobody when we are root, whom no permission stops.  The child's exit code. */
static int as_nobody(int (*fn)(const place *p), const place *p)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(100);
        _exit(fn(p));
    }
    return child_result(pid);
}

#define CHILD_CHECK(number, condition)                                                             \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s: %s\n", #condition, err.message);                            \
            return number;                                                                         \
        }                                                                                          \
    } while (0)

static int use_read_only_file(const place *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    CHILD_CHECK(1, howdah_open(p->url, NULL, &bus, &err) == HOWDAH_READ_ONLY);
    CHILD_CHECK(2, strstr(err.message, p->file) != NULL && err.advice[0]);
    bus = open_with(p->url, "read_only", "true");
    CHILD_CHECK(3, append_one(bus, "a", &err) == HOWDAH_READ_ONLY);
    CHILD_CHECK(4, howdah_migrate(bus, NULL, &err) == HOWDAH_READ_ONLY);
    CHILD_CHECK(5, count_read(bus, NULL) == 1);
    howdah_close(bus);
    return 0;
}

/* The file and those beside it, which have its rights from the beginning. */
static void let_all_read(const place *p)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char path[4096];

    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%s%s", p->file, suffixes[i]);
        assert_int_equal(chmod(path, 0444), 0);
    }
}

static void a_file_that_may_only_be_read_is_refused_unless_read_only_is_set(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);

    must(append_one(bus, "a", &err), &err);
    /* Open meanwhile: the log's files exist, and a reader may map them. */
    assert_int_equal(chmod(p->dir, 0777), 0);
    let_all_read(p);
    assert_int_equal(as_nobody(use_read_only_file, p), 0);
    howdah_close(bus);
}

static int use_forbidden_file(const place *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    CHILD_CHECK(1, howdah_open(p->url, NULL, &bus, &err) == HOWDAH_DENIED);
    CHILD_CHECK(2, strstr(err.message, p->file) != NULL);
    return 0;
}

static void a_file_that_may_not_be_read_is_denied(void **state)
{
    const place *p = *state;

    howdah_close(open_migrated(p->url));
    assert_int_equal(chmod(p->dir, 0755), 0);
    assert_int_equal(chmod(p->file, 0), 0);
    assert_int_equal(as_nobody(use_forbidden_file, p), 0);
    assert_int_equal(chmod(p->file, 0600), 0);
    assert_int_equal(chmod(p->dir, 0), 0);
    assert_int_equal(as_nobody(use_forbidden_file, p), 0);
}

static int create_in_forbidden_directory(const place *p)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_bus(p->url);
    int s = howdah_migrate(bus, NULL, &err);

    CHILD_CHECK(1, s == HOWDAH_DENIED || s == HOWDAH_READ_ONLY);
    CHILD_CHECK(2, strstr(err.message, p->file) != NULL);
    howdah_close(bus);
    return 0;
}

static void a_file_that_may_not_be_created_is_denied(void **state)
{
    const place *p = *state;

    assert_int_equal(chmod(p->dir, 0555), 0);
    assert_int_equal(as_nobody(create_in_forbidden_directory, p), 0);
    assert_int_equal(count_files(p), 0);
}

/* ------------------------------------------------------------------ schema */

static void our_tables_live_beside_the_callers(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;

    raw_exec(p->file, "CREATE TABLE orders (id INTEGER PRIMARY KEY, total INTEGER);"
                      "INSERT INTO orders VALUES (1, 12)");
    bus = open_migrated(p->url);
    must(append_one(bus, "a", &err), &err);
    raw_exec(p->file, "CREATE TABLE later (x); INSERT INTO later VALUES (1)");
    must(append_one(bus, "a", &err), &err);
    assert_i64_equal(count_read(bus, NULL), 2);
    howdah_close(bus);
    assert_i64_equal(raw_number(p->file, "SELECT total FROM orders"), 12);
    assert_i64_equal(raw_number(p->file, "PRAGMA application_id"), 0);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM sqlite_master WHERE type = 'table'"
                                         " AND name NOT LIKE 'howdah\\_%' ESCAPE '\\'"
                                         " AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"),
                     2);
}

static void a_file_of_our_own_is_marked_as_ours(void **state)
{
    const place *p = *state;
    char id[64];
    char again[64];

    howdah_close(open_migrated(p->url));
    assert_i64_equal(raw_number(p->file, "PRAGMA application_id"), 0x48574448);
    raw_text(p->file, "SELECT value FROM howdah_meta WHERE key = 'bus_id'", id, sizeof id);
    howdah_close(open_migrated(p->url));
    raw_text(p->file, "SELECT value FROM howdah_meta WHERE key = 'bus_id'", again, sizeof again);
    assert_int_equal(strlen(id), 36);
    assert_string_equal(id, again);
    raw_text(p->file, "PRAGMA journal_mode", id, sizeof id);
    assert_string_equal(id, "wal");
}

static void a_changed_or_newer_step_is_refused_by_name_and_nothing_changes(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    char before[64];
    char after[64];

    howdah_close(open_migrated(p->url));
    raw_exec(p->file, "INSERT INTO howdah_migrations VALUES (99, 'the_future', 'abc', 1)");
    raw_text(p->file, "PRAGMA data_version", before, sizeof before);
    bus = open_bus(p->url);
    assert_status(howdah_migrate(bus, NULL, &err), HOWDAH_SCHEMA);
    assert_non_null(strstr(err.message, "99 (the_future)"));
    assert_status(append_one(bus, "a", &err), HOWDAH_SCHEMA);
    howdah_close(bus);
    raw_exec(p->file, "DELETE FROM howdah_migrations WHERE number = 99;"
                      "UPDATE howdah_migrations SET hash = 'other' WHERE number = 1");
    bus = open_bus(p->url);
    assert_status(howdah_migrate(bus, NULL, &err), HOWDAH_SCHEMA);
    assert_non_null(strstr(err.message, "step 1 (log)"));
    assert_status(append_one(bus, "a", &err), HOWDAH_SCHEMA);
    howdah_close(bus);
    raw_text(p->file, "SELECT hash FROM howdah_migrations", after, sizeof after);
    assert_string_equal(after, "other");
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"), 0);
}

/* Another process brings the schema to a version we do not know, while our handle is open. */
static void a_migration_by_somebody_else_is_noticed_by_an_open_handle(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);

    must(append_one(bus, "a", &err), &err);
    raw_exec(p->file, "BEGIN; ALTER TABLE howdah_events ADD COLUMN more TEXT;"
                      "INSERT INTO howdah_migrations VALUES (98, 'more', 'abc', 1); COMMIT");
    assert_status(append_one(bus, "a", &err), HOWDAH_SCHEMA);
    assert_non_null(strstr(err.message, "98 (more)"));
    howdah_close(bus);
}

static void a_foreign_table_with_our_name_stops_the_migration_untouched(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;

    raw_exec(p->file, "CREATE TABLE howdah_events (mine)");
    bus = open_bus(p->url);
    assert_status(howdah_migrate(bus, NULL, &err), HOWDAH_SCHEMA);
    howdah_close(bus);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM sqlite_master"), 1);
}

static void the_printed_sql_makes_a_file_that_the_library_accepts(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    char *sql = NULL;
    char text[64];

    must(howdah_migrations_sql(p->url, NULL, &sql, &err), &err);
    assert_int_equal(count_files(p), 0);
    raw_exec(p->file, sql);
    howdah_free(sql);
    bus = open_bus(p->url);
    must(append_one(bus, "a", &err), &err);
    must(howdah_migrate(bus, NULL, &err), &err);
    howdah_close(bus);
    raw_text(p->file, "SELECT value FROM howdah_meta WHERE key = 'bus_id'", text, sizeof text);
    assert_int_equal(strlen(text), 36);
    raw_text(p->file, "SELECT value FROM howdah_meta WHERE key = 'created_at'", text, sizeof text);
    assert_int_equal(strlen(text), 27);
}

static void plain_inserts_get_their_defaults_and_are_read(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    howdah_event *event = NULL;
    int64_t recorded_at = 0;
    int64_t valid_time = 0;
    char id[HOWDAH_UUID_SIZE];

    raw_exec(p->file, "INSERT INTO howdah_events (stream, version, type, data)"
                      " VALUES ('s', 1, 'a.b', '{\"x\":1}'), ('s', 2, 'a.b', '[]')");
    must(howdah_event_get_last(bus, "s", &event, &err), &err);
    howdah_event_id(event, id);
    assert_int_equal(id[14], '4'); /* a version 4 UUID */
    assert_true(howdah_event_recorded_at(event, &recorded_at));
    assert_true(howdah_event_valid_time(event, &valid_time));
    assert_i64_equal(valid_time, recorded_at);
    assert_true(recorded_at > INT64_C(1700000000000000));
    assert_string_equal(howdah_event_data(event, NULL), "[]");
    howdah_event_free(event);
    /* The library goes on behind them. */
    must(append_one(bus, "s", &err), &err);
    must(howdah_event_get_last(bus, "s", &event, &err), &err);
    assert_i64_equal(howdah_event_version(event), 3);
    howdah_event_free(event);
    howdah_close(bus);
}

static void recorded_time_never_runs_backwards(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    howdah_event *event = make_event("s", "a.b", "{}");
    howdah_position position = HOWDAH_POSITION_INIT;

    raw_exec(p->file, "INSERT INTO howdah_events (stream, version, type, data, recorded_at)"
                      " VALUES ('s', 1, 'a.b', '{}', 4000000000000000)");
    must(howdah_append(bus, event, NULL, &position, &err), &err);
    assert_i64_equal(position.recorded_at_us, INT64_C(4000000000000000));
    howdah_event_free(event);
    howdah_close(bus);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(processes_that_append_to_one_stream_get_every_version_once),
        TEST(of_several_migrators_one_migrates_and_all_succeed),
        TEST(a_held_write_lock_is_waited_for_and_then_reported_as_retryable),
        TEST(an_interrupt_ends_the_wait_for_a_lock),
        TEST(a_missing_file_is_created_by_migrate_and_by_nothing_else),
        TEST(an_empty_file_has_no_schema_and_can_be_migrated),
        TEST(a_way_that_leads_nowhere_is_told),
        TEST(names_that_sqlite_would_read_otherwise_are_plain_names),
        TEST(a_relative_name_keeps_its_meaning_after_chdir),
        TEST(a_replaced_file_is_noticed_before_anything_is_written_to_the_old_one),
        TEST(a_file_that_is_replaced_under_a_bus_keeps_all_that_it_holds),
        TEST(a_file_with_two_names_is_refused),
        TEST(a_file_that_is_no_database_is_refused_and_left_as_it_is),
        TEST(a_damaged_page_gives_corrupt_or_the_stored_events),
        TEST(a_file_that_may_only_be_read_is_refused_unless_read_only_is_set),
        TEST(a_file_that_may_not_be_read_is_denied),
        TEST(a_file_that_may_not_be_created_is_denied),
        TEST(our_tables_live_beside_the_callers),
        TEST(a_file_of_our_own_is_marked_as_ours),
        TEST(a_changed_or_newer_step_is_refused_by_name_and_nothing_changes),
        TEST(a_migration_by_somebody_else_is_noticed_by_an_open_handle),
        TEST(a_foreign_table_with_our_name_stops_the_migration_untouched),
        TEST(the_printed_sql_makes_a_file_that_the_library_accepts),
        TEST(plain_inserts_get_their_defaults_and_are_read),
        TEST(recorded_time_never_runs_backwards),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite store", tests, NULL, NULL);
}
