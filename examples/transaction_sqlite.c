/*
 * transaction_sqlite.c - a row of our own and an event, in one SQLite transaction.
 *
 *     cc transaction_sqlite.c -o transaction_sqlite $(pkg-config --cflags --libs howdah sqlite3)
 *     ./transaction_sqlite orders.db
 *
 * The log lives in our own file, beside our tables.  Either both are there afterwards, or neither
 * is.
 */
#include <howdah/howdah_sqlite.h>
#include <inttypes.h>
#include <stdio.h>

static int failed(const char *what, const howdah_error *err)
{
    fprintf(stderr, "%s: %s: %s\n", what, howdah_status_name(err->status), err->message);
    return howdah_status_exit_code(err->status);
}

static int run(sqlite3 *db, const char *sql)
{
    char *message = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &message) == SQLITE_OK)
        return 0;
    fprintf(stderr, "%s: %s\n", sql, message ? message : sqlite3_errmsg(db));
    sqlite3_free(message);
    return -1;
}

/* The log's tables. */
static int migrate(const char *file)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    char url[1024];
    int n = snprintf(url, sizeof(url), "sqlite:%s", file);
    int s;

    if (n < 0 || (size_t)n >= sizeof(url))
        return -1;
    if (howdah_open(url, NULL, &bus, &err) < 0)
        return failed("open", &err);
    s = howdah_migrate(bus, NULL, &err);
    howdah_close(bus);
    return s < 0 ? failed("migrate", &err) : 0;
}

static int build(howdah_event **ret_event, howdah_error *err)
{
    howdah_builder *builder = NULL;
    int s = howdah_builder_new(&builder, err);

    if (s < 0)
        return s;
    howdah_builder_set_stream(builder, "order-8");
    howdah_builder_set_type(builder, "order.created");
    howdah_builder_set_json(builder, "{\"total\":12.50}", 15);
    s = howdah_builder_build(builder, ret_event, err);
    howdah_builder_free(builder);
    return s;
}

int main(int argc, char **argv)
{
    const char *file = argc > 1 ? argv[1] : "orders.db";
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = NULL;
    const howdah_event *events[1];
    howdah_position position = HOWDAH_POSITION_INIT;
    sqlite3 *db = NULL;
    int code = 1;

    if (migrate(file) != 0)
        return 1;
    if (sqlite3_open(file, &db) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", file, sqlite3_errmsg(db));
        goto out;
    }
    (void)sqlite3_busy_timeout(db, 5000);
    /* Automatic checkpoints of SQLite before 3.51.3 are not safe between processes: see
       howdah_sqlite.h.  Closing the last connection empties the log. */
    if (run(db, "PRAGMA synchronous = FULL") != 0 ||
        run(db, "PRAGMA wal_autocheckpoint = 0") != 0 ||
        run(db, "CREATE TABLE IF NOT EXISTS example_orders (total TEXT NOT NULL)") != 0)
        goto out;
    if (build(&event, &err) < 0) {
        code = failed("build", &err);
        goto out;
    }

    /* IMMEDIATE: a read that turns into a write could find the file busy half-way. */
    if (run(db, "BEGIN IMMEDIATE") != 0 ||
        run(db, "INSERT INTO example_orders VALUES ('12.50')") != 0)
        goto out;
    events[0] = event;
    if (howdah_sqlite_append(db, events, 1, NULL, &position, &err) < 0) {
        code = failed("append", &err);
        (void)run(db, "ROLLBACK");
        goto out;
    }
    if (run(db, "COMMIT") != 0)
        goto out;
    printf("order stored, event %s is version %" PRId64 "\n", position.id, position.version);
    code = 0;

out:
    howdah_event_free(event);
    (void)sqlite3_close(db);
    return code;
}
