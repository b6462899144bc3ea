/* test_sqlite_import.c - tables as people have them: times and ids of every kind, kills, bad rows.
 */
#include <locale.h>

#include "sqlite_help.h"

static int64_t import_with(howdah_bus *bus, const char *table, const char *const *map, size_t map_n,
                           int64_t batch, int *ret_status, howdah_error *err)
{
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    int64_t imported = -1;

    o.table = table;
    o.map = map;
    o.map_n = map_n;
    o.batch = batch;
    *ret_status = howdah_import(bus, &o, &imported, err);
    return imported;
}

static int64_t import(howdah_bus *bus, const char *table, int64_t batch)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    int s = HOWDAH_OK;
    int64_t imported = import_with(bus, table, NULL, 0, batch, &s, &err);

    must(s, &err);
    return imported;
}

/* The "n" of each payload in log order: "3 1 2 ". */
static void read_order(howdah_bus *bus, char *out, size_t room)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int s;

    out[0] = '\0';
    must(howdah_reader_open(bus, NULL, &reader, &err), &err);
    while ((s = howdah_reader_next(reader, &event, &err)) == HOWDAH_OK)
        (void)snprintf(out + strlen(out), room - strlen(out), "%s ",
                       howdah_event_data(event, NULL));
    must(s, &err);
    howdah_reader_close(reader);
}

static void valid_time_of_first(howdah_bus *bus, char text[HOWDAH_TIME_SIZE])
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t us = 0;

    must(howdah_reader_open(bus, NULL, &reader, &err), &err);
    must(howdah_reader_next(reader, &event, &err), &err);
    assert_true(howdah_event_valid_time(event, &us));
    howdah_time_format(us, text);
    howdah_reader_close(reader);
}

static void times_of_every_common_kind_are_understood(void **state)
{
    static const struct {
        const char *value;
        const char *time;
    } rows[] = {
        {"1700000000", "2023-11-14T22:13:20.000000Z"},
        {"-1", "1969-12-31T23:59:59.000000Z"},
        {"1700000000123", "2023-11-14T22:13:20.123000Z"},
        {"1700000000123456", "2023-11-14T22:13:20.123456Z"},
        {"1700000000123456789", "2023-11-14T22:13:20.123456Z"},
        {"1700000000.25", "2023-11-14T22:13:20.250000Z"},
        {"julianday('2023-11-14 22:13:20')", "2023-11-14T22:13:20.00"},
        {"'2023-11-14T22:13:20Z'", "2023-11-14T22:13:20.000000Z"},
        {"'2023-11-14T22:13:20.5+02:00'", "2023-11-14T20:13:20.500000Z"},
        {"'2023-11-14 22:13:20'", "2023-11-14T22:13:20.000000Z"},
        {"'2023-11-14 22:13:20.123456'", "2023-11-14T22:13:20.123456Z"},
        {"'2023-11-14 22:13:20+00'", "2023-11-14T22:13:20.000000Z"},
        {"'2023-11-14 22:13:20-0530'", "2023-11-15T03:43:20.000000Z"},
        {"'2023-11-14 22:13'", "2023-11-14T22:13:00.000000Z"},
        {"'2023-11-14'", "2023-11-14T00:00:00.000000Z"},
    };
    const place *p = *state;

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char sql[300];
        char text[HOWDAH_TIME_SIZE];
        howdah_bus *bus;

        empty_directory(p->dir);
        (void)snprintf(sql, sizeof sql,
                       "CREATE TABLE old (id, stream, type, data, created_at);"
                       "INSERT INTO old VALUES ('x', 's', 'a.b', '1', %s)",
                       rows[i].value);
        raw_exec(p->file, sql);
        bus = open_migrated(p->url);
        assert_i64_equal(import(bus, "old", 0), 1);
        valid_time_of_first(bus, text);
        if (strncmp(text, rows[i].time, strlen(rows[i].time)) != 0)
            fail_msg("%s is %s, should be %s", rows[i].value, text, rows[i].time);
        howdah_close(bus);
    }
}

static void what_is_no_time_is_refused_with_the_rows_id(void **state)
{
    static const char *const values[] = {
        "NULL",       "'yesterday'",  "''",
        "x'00'",      "'2023-13-01'", "'2023-11-14X22:13:20'",
        "9e18 * 1e6", "1e300",        "'2023-11-14 22:13:20 in the evening'"};
    const place *p = *state;

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        char sql[300];
        howdah_bus *bus;
        int s = HOWDAH_OK;

        empty_directory(p->dir);
        (void)snprintf(sql, sizeof sql,
                       "CREATE TABLE old (id, stream, type, data, created_at);"
                       "INSERT INTO old VALUES ('row-17', 's', 'a.b', '1', %s)",
                       values[i]);
        raw_exec(p->file, sql);
        bus = open_migrated(p->url);
        (void)import_with(bus, "old", NULL, 0, 0, &s, &err);
        assert_status(s, HOWDAH_INVALID);
        assert_non_null(strstr(err.message, "row-17"));
        assert_string_equal(err.field, "created_at");
        assert_i64_equal(count_read(bus, NULL), 0);
        howdah_close(bus);
    }
}

static void rows_before_a_bad_one_stay_and_the_next_run_goes_on(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    char order[64];
    howdah_bus *bus;
    int s = HOWDAH_OK;

    raw_exec(p->file, "CREATE TABLE old (id INTEGER, stream, type, data, created_at TEXT);"
                      "INSERT INTO old VALUES (1, 's', 'a.b', '1', '2020-01-01'),"
                      " (2, 's', 'a.b', '2', '2020-01-02'), (3, 's', 'a.b', '3', '2020-01-03x'),"
                      " (4, 's', 'a.b', '4', '2020-01-04')");
    bus = open_migrated(p->url);
    (void)import_with(bus, "old", NULL, 0, 100, &s, &err);
    assert_status(s, HOWDAH_INVALID);
    assert_non_null(strstr(err.message, "row with id 3"));
    read_order(bus, order, sizeof order);
    assert_string_equal(order, "1 2 ");
    raw_exec(p->file, "UPDATE old SET created_at = '2020-01-03' WHERE id = 3");
    assert_i64_equal(import(bus, "old", 100), 2);
    read_order(bus, order, sizeof order);
    assert_string_equal(order, "1 2 3 4 ");
    howdah_close(bus);
}

/* Every pair of types for the order's two columns, in batches of one: each batch needs the mark. */
static void the_order_holds_over_marks_for_every_type_of_time_and_id(void **state)
{
    static const char *const times[] = {"100 + i / 2", "100.25 + i / 2",
                                        "printf('2020-01-01 00:00:%02d', i / 2)"};
    static const char *const ids[] = {"i", "i + 0.5", "printf('id-%03d', i)",
                                      "CAST(printf('%016d', i) AS BLOB)",
                                      "CAST(printf('%03d', i) AS BLOB)"};
    const place *p = *state;

    for (size_t t = 0; t < sizeof times / sizeof *times; t++)
        for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
            char sql[600];
            char order[64];
            howdah_bus *bus;

            empty_directory(p->dir);
            (void)snprintf(sql, sizeof sql,
                           "CREATE TABLE old (id, stream, type, data, created_at);"
                           "WITH RECURSIVE n (i) AS (VALUES (9) UNION ALL SELECT i - 1 FROM n"
                           " WHERE i > 1)"
                           " INSERT INTO old SELECT %s, 's', 'a.b', i, %s FROM n",
                           ids[k], times[t]);
            raw_exec(p->file, sql);
            bus = open_migrated(p->url);
            assert_i64_equal(import(bus, "old", 1), 9);
            read_order(bus, order, sizeof order);
            assert_string_equal(order, "1 2 3 4 5 6 7 8 9 ");
            howdah_close(bus);
            /* Another handle starts from the stored mark and finds nothing new. */
            bus = open_bus(p->url);
            assert_i64_equal(import(bus, "old", 2), 0);
            raw_exec(p->file, "INSERT INTO old VALUES (x'ff', 's', 'a.b', '10', '9999-01-01')");
            assert_i64_equal(import(bus, "old", 2), 1);
            howdah_close(bus);
        }
}

static int stop_at_once(void *ctx, int64_t done, int64_t total)
{
    (void)ctx;
    (void)done;
    (void)total;
    return 1;
}

static void an_import_that_was_stopped_goes_on_where_it_was(void **state)
{
    const place *p = *state;
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;

    raw_exec(
        p->file,
        "CREATE TABLE old (event_id TEXT PRIMARY KEY, stream, event_type, payload, created_at);"
        "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
        " INSERT INTO old SELECT printf('%04d', i), 's' || i % 7, 'a.b', i, 2000000000 - i"
        " FROM n");
    o.table = "old";
    o.batch = 100;
    o.progress = stop_at_once;
    for (int i = 1; i <= 5; i++) {
        bus = open_migrated(p->url);
        assert_status(howdah_import(bus, &o, NULL, &err), HOWDAH_INTERRUPTED);
        assert_i64_equal(count_read(bus, NULL), i * 100);
        howdah_close(bus);
    }
    bus = open_bus(p->url);
    assert_i64_equal(import(bus, "old", 333), 500);
    assert_i64_equal(import(bus, "old", 333), 0);
    howdah_close(bus);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events e JOIN old o"
                                         " ON o.payload = CAST(e.data AS INTEGER)"
                                         " AND e.global_sequence = 1001 - o.payload"),
                     1000);
}

/* More than fits into what is read ahead, by bytes; one row alone is larger than a chunk. */
static void large_rows_are_imported_in_pieces(void **state)
{
    const place *p = *state;
    howdah_bus *bus;

    raw_exec(p->file, "CREATE TABLE old (id INTEGER PRIMARY KEY, stream, type, data, created_at);"
                      "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n"
                      " WHERE i < 40)"
                      " INSERT INTO old SELECT i, 's', 'a.b',"
                      " '\"' || hex(zeroblob(300000 + 100000 * (i % 2))) || '\"', i FROM n");
    bus = open_migrated(p->url);
    assert_i64_equal(import(bus, "old", 1000), 40);
    howdah_close(bus);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events e JOIN old o"
                                         " ON o.id = e.global_sequence AND o.data = e.data"),
                     40);
}

static void names_are_quoted_and_views_are_tables(void **state)
{
    static const char *const map[] = {"stream=the \"stream\"", "type:=it's.imported", "id=order",
                                      "created_at=select"};
    static const char *const good_map[] = {"stream=the \"stream\"", "type:=was.imported",
                                           "id=order", "created_at=select"};
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    char text[64];
    int s = HOWDAH_OK;

    raw_exec(p->file,
             "CREATE TABLE t (\"order\" INTEGER, \"the \"\"stream\"\"\" TEXT, data, \"select\");"
             "INSERT INTO t VALUES (1, 's', CAST('{\"blob\":1}' AS BLOB), 5);"
             "CREATE VIEW \"a view; --\" AS SELECT * FROM t");
    bus = open_migrated(p->url);
    (void)import_with(bus, "a view; --", map, 4, 0, &s, &err);
    assert_status(s, HOWDAH_INVALID); /* a type may not hold an apostrophe */
    assert_i64_equal(import_with(bus, "main.a view; --", good_map, 4, 0, &s, &err), 1);
    must(s, &err);
    read_order(bus, text, sizeof text);
    assert_string_equal(text, "{\"blob\":1} ");
    howdah_close(bus);
}

static void what_cannot_be_a_source_is_refused(void **state)
{
    static const char *const map[] = {"stream=no_such_column"};
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus;
    int s = HOWDAH_OK;

    raw_exec(p->file, "CREATE TABLE old (id, stream, type, data, created_at)");
    bus = open_migrated(p->url);
    (void)import_with(bus, "no_such_table", NULL, 0, 0, &s, &err);
    assert_status(s, HOWDAH_NOT_FOUND);
    (void)import_with(bus, "old", map, 1, 0, &s, &err);
    assert_status(s, HOWDAH_INVALID);
    (void)import_with(bus, "Howdah_Events", NULL, 0, 0, &s, &err);
    assert_status(s, HOWDAH_INVALID);
    assert_i64_equal(import(bus, "old", 0), 0);
    howdah_close(bus);
}

/* ------------------------------------------------------------------ locale */

/* A locale whose decimal point is a comma, of nothing but what every system has. */
static void use_comma(const place *p)
{
    char path[160];
    char command[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/source", p->dir);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\n"
                "END LC_NUMERIC\n",
                file);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(path, sizeof path, "%s/charmap", p->dir);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs("<code_set_name> ASCII\nCHARMAP\n<U002C> /x2c COMMA\n<U002E> /x2e FULL STOP\n"
                "END CHARMAP\n",
                file);
    assert_int_equal(fclose(file), 0);
    /* It complains of all that is missing. */
    (void)snprintf(command, sizeof command,
                   "cd '%s' && localedef -c -i ./source -f ./charmap ./comma >/dev/null 2>&1",
                   p->dir);
    (void)!system(command); /* NOLINT(cert-env33-c): a tool of the system, in our directory */
    assert_int_equal(setenv("LOCPATH", p->dir, 1), 0);
    assert_non_null(setlocale(LC_NUMERIC, "comma"));
    assert_string_equal(localeconv()->decimal_point, ",");
}

static void stop_using_comma(const place *p)
{
    char command[128];

    (void)setlocale(LC_NUMERIC, "C");
    (void)unsetenv("LOCPATH");
    (void)snprintf(command, sizeof command, "rm -r '%s/comma'", p->dir);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
}

static int give_up(void *ctx, int64_t done, int64_t total)
{
    (void)done;
    (void)total;
    return ++*(int *)ctx > 10;
}

static void an_import_does_not_depend_on_the_locale(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    howdah_bus *bus = open_migrated(p->url);
    int64_t imported = -1;
    int batches = 0;
    char order[64];

    raw_exec(p->file,
             "CREATE TABLE e (id TEXT, stream TEXT, type TEXT, data TEXT, created_at REAL);"
             "INSERT INTO e VALUES"
             " ('0198a1b2-0000-7000-8000-000000000001', 's', 'a.b', '1', 1700000000.25),"
             " ('0198a1b2-0000-7000-8000-000000000002', 's', 'a.b', '2', 1700000000.5),"
             " ('0198a1b2-0000-7000-8000-000000000003', 's', 'a.b', '3', 1700000000.75)");
    use_comma(p);
    o.table = "e";
    o.batch = 2;
    o.progress = give_up;
    o.progress_ctx = &batches;
    must(howdah_import(bus, &o, &imported, &err), &err);
    assert_i64_equal(imported, 3);
    must(howdah_import(bus, &o, &imported, &err), &err);
    assert_i64_equal(imported, 0);
    read_order(bus, order, sizeof order);
    assert_string_equal(order, "1 2 3 ");
    stop_using_comma(p);
    howdah_close(bus);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(times_of_every_common_kind_are_understood),
        TEST(what_is_no_time_is_refused_with_the_rows_id),
        TEST(rows_before_a_bad_one_stay_and_the_next_run_goes_on),
        TEST(the_order_holds_over_marks_for_every_type_of_time_and_id),
        TEST(an_import_that_was_stopped_goes_on_where_it_was),
        TEST(large_rows_are_imported_in_pieces),
        TEST(names_are_quoted_and_views_are_tables),
        TEST(what_cannot_be_a_source_is_refused),
        TEST(an_import_does_not_depend_on_the_locale),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite import", tests, NULL, NULL);
}
