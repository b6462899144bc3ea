/*
 * sqlite_help.h - what the SQLite tests share: a directory of their own for each test, small
 * events, and a look into the file past the library.
 */
#ifndef HW_TESTS_FAULT_SQLITE_HELP_H
#define HW_TESTS_FAULT_SQLITE_HELP_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include <howdah/howdah.h>

#include "scratch.h"

typedef struct place {
    char dir[64];
    char file[96];
    char url[128];
} place;

static inline int place_setup(void **state)
{
    place *p = calloc(1, sizeof *p);

    if (!p)
        return -1;
    (void)snprintf(p->dir, sizeof p->dir, "%s/howdah-test-XXXXXX", scratch_parent());
    if (!mkdtemp(p->dir))
        return -1;
    (void)snprintf(p->file, sizeof p->file, "%s/log.db", p->dir);
    (void)snprintf(p->url, sizeof p->url, "sqlite:%s", p->file);
    *state = p;
    return 0;
}

static inline void empty_directory(const char *name)
{
    DIR *dir = opendir(name);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)) != NULL) {
        char path[512];

        (void)snprintf(path, sizeof path, "%s/%s", name, entry->d_name);
        (void)unlink(path);
    }
    if (dir)
        (void)closedir(dir);
}

static inline int place_teardown(void **state)
{
    place *p = *state;

    (void)chmod(p->dir, 0700);
    empty_directory(p->dir);
    (void)rmdir(p->dir);
    free(p);
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_setup, place_teardown)

static inline size_t count_files(const place *p)
{
    DIR *dir = opendir(p->dir);
    const struct dirent *entry;
    size_t n = 0;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL)
        n += entry->d_name[0] != '.';
    (void)closedir(dir);
    return n;
}

#define must(call, err)                                                                            \
    do {                                                                                           \
        int must_s = (call);                                                                       \
        if (must_s < 0)                                                                            \
            fail_msg("%s: %s: %s", #call, howdah_status_name(must_s), (err)->message);             \
    } while (0)

#define assert_status(call, status)                                                                \
    do {                                                                                           \
        int status_s = (call);                                                                     \
        if (status_s != (status))                                                                  \
            fail_msg("%s is %s, should be %s", #call, howdah_status_name(status_s),                \
                     howdah_status_name(status));                                                  \
    } while (0)

#define assert_i64_equal(a, b)                                                                     \
    do {                                                                                           \
        int64_t i64_a = (a);                                                                       \
        int64_t i64_b = (b);                                                                       \
        if (i64_a != i64_b)                                                                        \
            fail_msg("%s is %lld, should be %lld", #a, (long long)i64_a, (long long)i64_b);        \
    } while (0)

static inline howdah_bus *open_bus(const char *url)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;

    must(howdah_open(url, NULL, &bus, &err), &err);
    return bus;
}

static inline howdah_bus *open_migrated(const char *url)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_bus(url);

    must(howdah_migrate(bus, NULL, &err), &err);
    return bus;
}

/* With one setting. */
static inline howdah_bus *open_with(const char *url, const char *key, const char *value)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_settings *settings = NULL;
    howdah_bus *bus = NULL;

    must(howdah_settings_new(&settings, &err), &err);
    must(howdah_settings_set(settings, key, value, &err), &err);
    must(howdah_open(url, settings, &bus, &err), &err);
    howdah_settings_free(settings);
    return bus;
}

static inline howdah_event *make_event(const char *stream, const char *type, const char *json)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    must(howdah_builder_new(&b, &err), &err);
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, type);
    howdah_builder_set_json(b, json, strlen(json));
    must(howdah_builder_build(b, &event, &err), &err);
    howdah_builder_free(b);
    return event;
}

/* Appends one small event without expectation; the status. */
static inline int append_one(howdah_bus *bus, const char *stream, howdah_error *err)
{
    howdah_event *event = make_event(stream, "thing.happened", "{\"n\":1}");
    int s = howdah_append(bus, event, NULL, NULL, err);

    howdah_event_free(event);
    return s;
}

static inline int64_t count_read(howdah_bus *bus, const howdah_reader_options *options)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t n = 0;
    int s;

    must(howdah_reader_open(bus, options, &reader, &err), &err);
    while ((s = howdah_reader_next(reader, &event, &err)) == HOWDAH_OK)
        n++;
    must(s, &err);
    howdah_reader_close(reader);
    return n;
}

/* ---- past the library */

static inline void raw_exec(const char *file, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* The first column of the first row; "" without one. */
static inline void raw_text(const char *file, const char *sql, char *out, size_t room)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(file, &db), SQLITE_OK);
    (void)sqlite3_busy_timeout(db, 5000);
    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
    out[0] = '\0';
    if (sqlite3_step(stmt) == SQLITE_ROW && sqlite3_column_text(stmt, 0))
        (void)snprintf(out, room, "%s", (const char *)sqlite3_column_text(stmt, 0));
    (void)sqlite3_finalize(stmt);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static inline int64_t raw_number(const char *file, const char *sql)
{
    char text[64];

    raw_text(file, sql, text, sizeof text);
    return strtoll(text, NULL, 10);
}

static inline int64_t file_size(const char *file, const char *suffix)
{
    char path[128];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s%s", file, suffix);
    return stat(path, &st) == 0 ? (int64_t)st.st_size : -1;
}

/* Waits for a child and returns its exit code; 1000 and more: a signal. */
static inline int child_result(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

#endif
