/*
 * test_sqlite_frozen.c - a file is read where nothing can be written: by a user without rights on
 * its directory.  Root has all rights, so as root a child becomes nobody.
 */
#include <grp.h>

#include "sqlite_help.h"

#define NOBODY 65534

static void become_nobody(void)
{
    if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
                           setresuid(NOBODY, NOBODY, NOBODY) < 0))
        _exit(100);
}

static void make_log(const place *p, int events)
{
    howdah_bus *bus = open_migrated(p->url);

    for (int i = 0; i < events; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;

        must(append_one(bus, "x", &err), &err);
    }
    howdah_close(bus);
}

static void allow_reading_only(const place *p)
{
    assert_int_equal(chmod(p->file, 0444), 0);
    assert_int_equal(chmod(p->dir, 0555), 0);
}

static void a_closed_file_is_read_where_nothing_can_be_written(void **state)
{
    const place *p = *state;
    pid_t pid;

    make_log(p, 3);
    allow_reading_only(p);
    pid = fork();
    if (pid == 0) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_bus *bus;

        become_nobody();
        bus = open_with(p->url, "read_only", "true");
        if (count_read(bus, NULL) != 3)
            _exit(1);
        _exit(append_one(bus, "x", &err) == HOWDAH_READ_ONLY ? 0 : 2);
    }
    assert_int_equal(child_result(pid), 0);
    assert_int_equal(count_files(p), 1);
}

/* Names that would mean something in a URI. */
static void a_file_with_a_strange_name_is_read_as_well(void **state)
{
    const place *p = *state;
    char file[160];
    char url[192];
    pid_t pid;

    make_log(p, 2);
    (void)snprintf(file, sizeof file, "%s/a?b#c%%41.db", p->dir);
    assert_int_equal(rename(p->file, file), 0);
    assert_int_equal(chmod(file, 0444), 0);
    assert_int_equal(chmod(p->dir, 0555), 0);
    (void)snprintf(url, sizeof url, "sqlite:%s", file);
    pid = fork();
    if (pid == 0) {
        become_nobody();
        _exit(count_read(open_with(url, "read_only", "true"), NULL) != 2);
    }
    assert_int_equal(child_result(pid), 0);
}

static void copy_file(const char *from, const char *to)
{
    char bytes[4096];
    FILE *in = fopen(from, "r");
    FILE *out = fopen(to, "w");
    size_t n;

    assert_non_null(in);
    assert_non_null(out);
    while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
        assert_int_equal(fwrite(bytes, 1, n, out), n);
    (void)fclose(in);
    assert_int_equal(fclose(out), 0);
}

/* As a process leaves it that is killed. */
static void leave_a_log_behind(const place *p)
{
    char wal[128];
    char kept[2][128];
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_bus(p->url);

    (void)snprintf(wal, sizeof wal, "%s-wal", p->file);
    (void)snprintf(kept[0], sizeof kept[0], "%s/kept", p->dir);
    (void)snprintf(kept[1], sizeof kept[1], "%s/kept-wal", p->dir);
    must(append_one(bus, "x", &err), &err);
    copy_file(p->file, kept[0]);
    copy_file(wal, kept[1]);
    howdah_close(bus);
    assert_int_equal(rename(kept[0], p->file), 0);
    assert_int_equal(rename(kept[1], wal), 0);
    assert_int_equal(chmod(wal, 0444), 0);
}

static void a_file_whose_log_holds_events_is_refused_with_the_next_step(void **state)
{
    const place *p = *state;
    pid_t pid;

    make_log(p, 3);
    leave_a_log_behind(p);
    allow_reading_only(p);
    pid = fork();
    if (pid == 0) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_settings *settings = NULL;
        howdah_bus *bus = NULL;

        become_nobody();
        must(howdah_settings_new(&settings, &err), &err);
        must(howdah_settings_set(settings, "read_only", "true", &err), &err);
        if (howdah_open(p->url, settings, &bus, &err) != HOWDAH_READ_ONLY)
            _exit(1);
        _exit(strstr(err.message, "write-ahead log") && strstr(err.advice, "copy FILE and FILE-wal")
                  ? 0
                  : 2);
    }
    assert_int_equal(child_result(pid), 0);
}

static void what_is_written_meanwhile_by_those_who_can_is_seen_by_the_next_read(void **state)
{
    const place *p = *state;
    int told[2];
    int asks[2];
    char byte = 0;
    pid_t pid;

    make_log(p, 3);
    allow_reading_only(p);
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(asks), 0);
    pid = fork();
    if (pid == 0) {
        howdah_bus *bus;

        become_nobody();
        bus = open_with(p->url, "read_only", "true");
        if (count_read(bus, NULL) != 3 || write(asks[1], "x", 1) != 1 ||
            read(told[0], &byte, 1) != 1)
            _exit(1);
        _exit(count_read(bus, NULL) == 5 ? 0 : 2);
    }
    assert_int_equal(read(asks[0], &byte, 1), 1);
    assert_int_equal(chmod(p->dir, 0755), 0);
    assert_int_equal(chmod(p->file, 0644), 0);
    make_log(p, 2);
    allow_reading_only(p);
    assert_int_equal(write(told[1], "x", 1), 1);
    assert_int_equal(child_result(pid), 0);
    for (int i = 0; i < 2; i++) {
        (void)close(told[i]);
        (void)close(asks[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(a_closed_file_is_read_where_nothing_can_be_written),
        TEST(a_file_with_a_strange_name_is_read_as_well),
        TEST(a_file_whose_log_holds_events_is_refused_with_the_next_step),
        TEST(what_is_written_meanwhile_by_those_who_can_is_seen_by_the_next_read),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite frozen", tests, NULL, NULL);
}
