/* log.c - the file of a run, in memory, and what can be seen in it. */
#include "sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../support/scratch.h"
#include "../wraps.h"
#include "bus/bus.h"
#include "store/sqlite/sqlite.h"

#define FILE_MAX ((size_t)4 * 1024 * 1024)
#define MEMORY_DIR "/dev/shm"

static char dir[64];
static char file[96];
static char url[128];
static howdah_settings *settings;
static char *tables; /* a file with the tables of a new log */
static size_t tables_len;

/* ------------------------------------------------------------------- the file */

static void remove_files(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-writers", "-journal"};

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char path[128];

        (void)snprintf(path, sizeof path, "%s%s", file, ends[i]);
        (void)unlink(path);
    }
}

static bool read_tables(void)
{
    FILE *f = fopen(file, "rb");

    tables = malloc(FILE_MAX);
    tables_len = f && tables ? fread(tables, 1, FILE_MAX, f) : 0;
    if (f)
        (void)fclose(f);
    return tables_len > 0 && tables_len < FILE_MAX;
}

static bool write_tables(void)
{
    int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && write(fd, tables, tables_len) == (ssize_t)tables_len;

    if (fd >= 0)
        (void)close(fd);
    return ok;
}

static bool make_tables(void)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    bool ok = howdah_open(url, settings, &bus, &err) >= 0 && howdah_migrate(bus, NULL, &err) >= 0;

    if (!ok)
        (void)fprintf(stderr, "sim_groups: %s\n", err.message);
    howdah_close(bus);
    return ok && read_tables();
}

/* A disk would cost more than all the rest. */
static const char *parent(void)
{
    return access(MEMORY_DIR, W_OK) == 0 ? MEMORY_DIR : scratch_parent();
}

bool sim_log_init(void)
{
    static int64_t now_us;

    wraps_use(&now_us, 0, NULL, NULL);
    (void)snprintf(dir, sizeof dir, "%s/howdah-sim-XXXXXX", parent());
    if (!mkdtemp(dir))
        return false;
    (void)snprintf(file, sizeof file, "%s/log.db", dir);
    (void)snprintf(url, sizeof url, "sqlite:%s", file);
    return howdah_settings_new(&settings, NULL) >= 0 &&
           howdah_settings_set(settings, "wakeup", "poll", NULL) >= 0 && make_tables();
}

void sim_log_done(void)
{
    howdah_settings_free(settings);
    free(tables);
    remove_files();
    (void)rmdir(dir);
}

howdah_bus *sim_log_bus(group_sim *s)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int status = howdah_open(url, settings, &bus, &err);

    if (status < 0)
        sim_surprise(s, "open", status, &err);
    return bus;
}

static bool prepare(group_sim *s, const char *sql, sqlite3_stmt **ret_stmt)
{
    sqlite3 *db = ((hw_sqlite *)s->bus->store)->db;

    return sqlite3_prepare_v2(db, sql, -1, ret_stmt, NULL) == SQLITE_OK;
}

/* Its session is the one that looks: so a look costs no session of its own. */
bool sim_log_open(group_sim *s)
{
    remove_files();
    if (!write_tables())
        return false;
    s->bus = sim_log_bus(s);
    return s->bus && prepare(s, "PRAGMA data_version", &s->version) &&
           prepare(s,
                   "SELECT id, global_sequence, last_retry_at, resolved_at IS NULL,"
                   " state = 'redrive'"
                   " FROM howdah_dead_letters",
                   &s->dead_letters) &&
           prepare(s, "SELECT status FROM howdah_subscriptions", &s->status) &&
           prepare(s,
                   "SELECT (SELECT count(*) FROM howdah_group_lots)"
                   " + (SELECT count(*) FROM howdah_group_retries)",
                   &s->rows);
}

void sim_log_close(group_sim *s)
{
    (void)sqlite3_finalize(s->version);
    (void)sqlite3_finalize(s->dead_letters);
    (void)sqlite3_finalize(s->status);
    (void)sqlite3_finalize(s->rows);
    howdah_close(s->bus);
    s->bus = NULL;
    remove_files();
}

/* -------------------------------------------------------------------- writing */

/* Half of all events are of the first stream, half of the others of the second, and so on. */
static int any_stream(group_sim *s)
{
    int stream = 0;

    while (stream + 1 < s->plan.streams && dice_roll(&s->dice, 2))
        stream++;
    return stream;
}

void sim_append(group_sim *s)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int stream = any_stream(s);
    int64_t number = s->checker.n + 1;
    howdah_builder *b = NULL;
    howdah_event *event = NULL;
    int status = howdah_builder_new(&b, &err);

    if (status >= 0) {
        howdah_builder_set_stream(b, sim_stream_name(stream));
        howdah_builder_set_type(b, sim_type_of(s->seed, number));
        howdah_builder_set_json(b, "{}", 2);
        status = howdah_builder_build(b, &event, &err);
    }
    if (status >= 0)
        status = howdah_append(s->bus, event, NULL, NULL, &err);
    if (status < 0)
        sim_surprise(s, "append", status, &err);
    howdah_event_free(event);
    howdah_builder_free(b);
    checker_appended(&s->checker, stream, sim_concerns(&s->plan, s->seed, number, stream));
    sim_tell(s, "append to", stream, number, s->checker.events[number].concerns);
    s->stats.events++;
}

/* -------------------------------------------------------------------- looking */

static int64_t number_of(sqlite3_stmt *stmt)
{
    int64_t number = sqlite3_step(stmt) == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : -1;

    (void)sqlite3_reset(stmt);
    return number;
}

int64_t sim_version(group_sim *s)
{
    return number_of(s->version);
}

int64_t sim_rows_left(group_sim *s)
{
    return number_of(s->rows);
}

/* It was made since the last look, or made again. */
static bool is_news(const group_sim *s, const sim_dead_letter *d)
{
    return d->open && !d->redrive && d->at_us != s->dead_at_us[d->number];
}

static void find_dead_letters(group_sim *s)
{
    sqlite3_stmt *stmt = s->dead_letters;

    s->found_n = 0;
    while (sqlite3_step(stmt) == SQLITE_ROW && s->found_n < SIM_DEAD_LETTERS) {
        sim_dead_letter *d = &s->found[s->found_n++];

        *d = (sim_dead_letter){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                               sqlite3_column_int64(stmt, 2), sqlite3_column_int(stmt, 3) != 0,
                               sqlite3_column_int(stmt, 4) != 0};
        if (!is_news(s, d))
            continue;
        s->dead_at_us[d->number] = d->at_us;
        sim_tell(s, "dead letter", d->id, d->number, 0);
        s->stats.dead_letters++;
        checker_dead_letter(&s->checker, s->now_us, d->number);
    }
    (void)sqlite3_reset(stmt);
}

static void find_status(group_sim *s)
{
    const char *text;
    bool halted;

    if (sqlite3_step(s->status) == SQLITE_ROW) {
        text = (const char *)sqlite3_column_text(s->status, 0);
        halted = strcmp(text, "halted") == 0;
        if (halted && !s->checker.halted) {
            sim_tell(s, "halted", 0, 0, 0);
            s->stats.halts++;
        }
        checker_paused(&s->checker, strcmp(text, "paused") == 0);
        checker_status(&s->checker, s->now_us, halted);
    }
    (void)sqlite3_reset(s->status);
}

void sim_observe(group_sim *s)
{
    int64_t version = sim_version(s);

    if (version == s->seen_version || s->checker.violated)
        return;
    s->seen_version = version;
    find_dead_letters(s);
    find_status(s);
}
