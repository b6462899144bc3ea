/*
 * test_sqlite_writers.c - who writes next: the line of writers (src/store/sqlite/writers.c), what
 * is in nobody's way, and checkpoints, which must not be in anybody's.
 */
#include <howdah/howdah_sqlite.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "sqlite_help.h"
#include "sqlite_vfs.h"

#define TRIES 5 /* what is quick is quick in the best of them */

static void writers_file(const place *p, char *out, size_t room)
{
    (void)snprintf(out, room, "%s-writers", p->file);
}

/* ------------------------------------------------------------------ shares */

#define WRITERS 4
#define LEADER_STOPS_AT 3000 /* long enough for each to have had the processor */

typedef struct race {
    atomic_int ready;
    atomic_bool stop;
    atomic_int appended[WRITERS];
    atomic_int failed;
} race;

static void *share_memory(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(map != MAP_FAILED);
    return map;
}

/* Appends without a pause until somebody has done so LEADER_STOPS_AT times. */
static void race_to_append(const place *p, race *r, int number)
{
    howdah_bus *bus = open_bus(p->url);
    char stream[16];

    (void)snprintf(stream, sizeof stream, "w-%d", number);
    atomic_fetch_add(&r->ready, 1);
    while (atomic_load(&r->ready) < WRITERS)
        (void)poll(NULL, 0, 1);
    while (!atomic_load(&r->stop)) {
        howdah_error err = HOWDAH_ERROR_INIT;

        if (append_one(bus, stream, &err) < 0)
            atomic_fetch_add(&r->failed, 1);
        else if (atomic_fetch_add(&r->appended[number], 1) + 1 == LEADER_STOPS_AT)
            atomic_store(&r->stop, true);
    }
    howdah_close(bus);
}

static void processes_that_append_without_a_pause_get_equal_shares(void **state)
{
    const place *p = *state;
    race *r = share_memory(sizeof *r);
    pid_t pids[WRITERS];

    howdah_close(open_migrated(p->url));
    for (int i = 0; i < WRITERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            race_to_append(p, r, i);
            _exit(0);
        }
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(child_result(pids[i]), 0);
    assert_int_equal(atomic_load(&r->failed), 0);
    for (int i = 0; i < WRITERS; i++)
        if (atomic_load(&r->appended[i]) < LEADER_STOPS_AT / 2)
            fail_msg("writer %d appended %d while another did %d", i, atomic_load(&r->appended[i]),
                     LEADER_STOPS_AT);
    (void)munmap(r, sizeof *r);
}

/* ------------------------------------------------- those who drop out of it */

/* The write lock, past the library; so that who appends stands in line. */
static sqlite3 *lock_file(const place *p)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(p->file, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    return db;
}

static void unlock_file(sqlite3 *db)
{
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static uint32_t numbers_drawn(const place *p)
{
    char path[128];
    uint32_t drawn = 0;
    int fd;

    writers_file(p, path, sizeof path);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (read(fd, &drawn, sizeof drawn) != sizeof drawn)
            drawn = 0; /* it is just being made */
        (void)close(fd);
    }
    return drawn;
}

/* A process that goes on when it is told to; made while this one has no connection. */
static pid_t start(int *ret_tell)
{
    char byte = 0;
    int tell[2];
    pid_t pid;

    assert_int_equal(pipe(tell), 0);
    pid = fork();
    if (pid == 0) {
        if (read(tell[0], &byte, 1) != 1)
            _exit(1);
        return 0;
    }
    (void)close(tell[0]);
    *ret_tell = tell[1];
    return pid;
}

/* Past the library, without waiting. */
static bool is_locked(const place *p)
{
    sqlite3 *db = NULL;

    return sqlite3_open(p->file, &db) == SQLITE_OK &&
           sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_BUSY;
}

/* The time that n appends take, in the best of several tries. */
static int64_t appends_ms(howdah_bus *bus, int n)
{
    int64_t best = INT64_MAX;

    for (int k = 0; k < TRIES; k++) {
        int64_t began = hw_clock_mono_ms();
        int64_t took;

        for (int i = 0; i < n; i++) {
            howdah_error err = HOWDAH_ERROR_INIT;

            must(append_one(bus, "x", &err), &err);
        }
        took = hw_clock_mono_ms() - began;
        best = took < best ? took : best;
    }
    return best;
}

/*
 * A process gets the signal while it stands in line for a lock that we hold.  Whoever is behind it
 * passes it; that costs some milliseconds, once.
 */
static void drop_out(const place *p, int signal_number)
{
    howdah_bus *bus;
    sqlite3 *lock;
    int tell = -1;
    pid_t pid;

    howdah_close(open_migrated(p->url));
    pid = start(&tell);
    if (pid == 0) {
        howdah_error err = HOWDAH_ERROR_INIT;

        _exit(append_one(open_bus(p->url), "late", &err) < 0);
    }
    lock = lock_file(p);
    assert_int_equal(write(tell, "x", 1), 1);
    for (int64_t until = hw_clock_mono_ms() + 60000; numbers_drawn(p) == 0;) {
        assert_true(hw_clock_mono_ms() < until);
        (void)poll(NULL, 0, 1);
    }
    assert_int_equal(kill(pid, signal_number), 0);
    unlock_file(lock);
    bus = open_bus(p->url);
    /* With 20 ms for each of them it would be two seconds. */
    assert_true(appends_ms(bus, 100) < 1900);
    (void)kill(pid, SIGCONT);
    assert_int_equal(child_result(pid), signal_number == SIGSTOP ? 0 : 1000 + signal_number);
    assert_i64_equal(count_read(bus, NULL), 100 * TRIES + (signal_number == SIGSTOP));
    howdah_close(bus);
    (void)close(tell);
}

static void a_process_that_is_killed_in_line_holds_nobody_up(void **state)
{
    drop_out(*state, SIGKILL);
}

static void a_process_that_is_stopped_in_line_holds_nobody_up_and_is_served_later(void **state)
{
    drop_out(*state, SIGSTOP);
}

/* --------------------------------------------------- the file of the line */

static void the_file_of_the_line_goes_with_the_last_writer(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *first = open_migrated(p->url);
    howdah_bus *second = open_bus(p->url);

    must(append_one(second, "x", &err), &err);
    assert_i64_equal(file_size(p->file, "-writers"), 4096);
    howdah_close(first);
    assert_i64_equal(file_size(p->file, "-writers"), 4096);
    howdah_close(second);
    assert_i64_equal(file_size(p->file, "-writers"), -1);
    assert_int_equal(count_files(p), 1);
}

static void who_only_reads_makes_no_line(void **state)
{
    const place *p = *state;
    howdah_bus *bus;

    howdah_close(open_migrated(p->url));
    bus = open_bus(p->url);
    assert_i64_equal(count_read(bus, NULL), 0);
    assert_i64_equal(file_size(p->file, "-writers"), -1);
    howdah_close(bus);
}

static void put_in_line(const place *p, const char *bytes, size_t n)
{
    char path[128];
    FILE *file;

    writers_file(p, path, sizeof path);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void whatever_the_file_of_the_line_holds_appends_go_on(void **state)
{
    static const unsigned char fills[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    const place *p = *state;
    char bytes[4096];

    howdah_close(open_migrated(p->url));
    for (size_t i = 0; i < sizeof fills; i++) {
        howdah_bus *bus;

        memset(bytes, fills[i], sizeof bytes);
        /* Many were drawn that nobody ever ended, half the way round. */
        memset(bytes, (unsigned char)~fills[i], 4);
        put_in_line(p, bytes, i % 2 ? sizeof bytes : 10);
        bus = open_bus(p->url);
        assert_true(appends_ms(bus, 100) < 1900);
        howdah_close(bus);
    }
}

static void without_a_file_for_the_line_appends_go_on(void **state)
{
    const place *p = *state;
    char path[128];
    howdah_bus *bus;

    writers_file(p, path, sizeof path);
    assert_int_equal(mkdir(path, 0700), 0);
    bus = open_migrated(p->url);
    assert_true(appends_ms(bus, 10) < 5000);
    howdah_close(bus);
    assert_int_equal(rmdir(path), 0);
}

/* Closing a second descriptor of the database or its -shm would let go of SQLite's locks. */
static void a_bus_that_comes_and_goes_leaves_the_locks_of_its_process_alone(void **state)
{
    const place *p = *state;
    sqlite3 *mine;
    int tell = -1;
    pid_t pid;

    howdah_close(open_migrated(p->url));
    pid = start(&tell);
    if (pid == 0)
        _exit(!is_locked(p));
    mine = lock_file(p);
    for (int i = 0; i < 3; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_bus *bus = open_with(p->url, "busy_timeout", "1ms");

        assert_status(append_one(bus, "x", &err), HOWDAH_UNAVAILABLE);
        howdah_close(bus);
    }
    assert_int_equal(write(tell, "x", 1), 1);
    assert_int_equal(child_result(pid), 0);
    unlock_file(mine);
    (void)close(tell);
}

/* ------------------------------------------------------------- checkpoints */

static sqlite3 *open_reader(const place *p)
{
    sqlite3 *reader = NULL;

    assert_int_equal(sqlite3_open(p->file, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM howdah_events", NULL, NULL, NULL),
        SQLITE_OK);
    return reader;
}

/* It used to hold the write lock for 100 ms. */
static void closing_after_an_append_does_not_wait_for_readers(void **state)
{
    const place *p = *state;
    int64_t best = INT64_MAX;
    sqlite3 *reader;

    howdah_close(open_migrated(p->url));
    reader = open_reader(p);
    for (int i = 0; i < TRIES; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_bus *bus = open_bus(p->url);
        int64_t began;
        int64_t took;

        must(append_one(bus, "x", &err), &err);
        began = hw_clock_mono_ms();
        howdah_close(bus);
        took = hw_clock_mono_ms() - began;
        best = took < best ? took : best;
    }
    if (best >= 50)
        fail_msg("closing took %lld ms at best", (long long)best);
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
}

static void append_bulk(howdah_bus *bus, int events)
{
    static char json[40000];

    (void)memset(json, 'x', sizeof json - 1);
    json[0] = '"';
    json[sizeof json - 2] = '"';
    for (int i = 0; i < events; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *event = make_event("bulk", "a.b", json);

        must(howdah_append(bus, event, NULL, NULL, &err), &err);
        howdah_event_free(event);
    }
}

/* The SQLite bug that I3 of conn.c is about needs a checkpoint without that lock. */
static void a_checkpoint_that_cannot_have_the_write_lock_copies_nothing(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);
    int64_t before = file_size(p->file, "");
    unsigned unlocked = fault_vfs_unlocked_writes();

    fault_vfs_hold_against_checkpoints(true);
    append_bulk(bus, 1000);
    assert_int_equal(fault_vfs_unlocked_writes() - unlocked, 0);
    assert_i64_equal(file_size(p->file, ""), before);
    assert_true(file_size(p->file, "-wal") > INT64_C(9000) * 4096);
    fault_vfs_hold_against_checkpoints(false);
    append_bulk(bus, 1000);
    assert_true(file_size(p->file, "") > INT64_C(9000) * 4096);
    assert_int_equal(fault_vfs_unlocked_writes() - unlocked, 0);
    howdah_close(bus);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"), 2000);
}

static void short_lived_writers_empty_the_log_as_well(void **state)
{
    const place *p = *state;
    howdah_bus *stays = open_migrated(p->url);

    for (int i = 0; i < 150; i++) {
        howdah_bus *bus = open_bus(p->url);

        append_bulk(bus, 1);
        howdah_close(bus);
    }
    assert_true(file_size(p->file, "-wal") < INT64_C(1100) * 4096);
    assert_true(file_size(p->file, "") > INT64_C(900) * 4096);
    howdah_close(stays);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(processes_that_append_without_a_pause_get_equal_shares),
        TEST(a_process_that_is_killed_in_line_holds_nobody_up),
        TEST(a_process_that_is_stopped_in_line_holds_nobody_up_and_is_served_later),
        TEST(the_file_of_the_line_goes_with_the_last_writer),
        TEST(who_only_reads_makes_no_line),
        TEST(whatever_the_file_of_the_line_holds_appends_go_on),
        TEST(without_a_file_for_the_line_appends_go_on),
        TEST(a_bus_that_comes_and_goes_leaves_the_locks_of_its_process_alone),
        TEST(closing_after_an_append_does_not_wait_for_readers),
        TEST(a_checkpoint_that_cannot_have_the_write_lock_copies_nothing),
        TEST(short_lived_writers_empty_the_log_as_well),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!fault_vfs_install())
        return 1;
    return cmocka_run_group_tests_name("sqlite turns", tests, NULL, NULL);
}
