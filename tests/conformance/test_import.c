/* test_import.c - adopting the events of an existing table. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conformance.h"

static char table[64];

/* A table as another system has it: no global sequence, ids and times out of insertion order. */
static void make_table(const cf *c)
{
    char sql[2048];

    (void)snprintf(table, sizeof table, "old_events_%u", (unsigned)getpid());
    (void)snprintf(sql, sizeof sql,
                   "CREATE TABLE %s%s (id %s, aggregate_id text, event_type text, payload %s,"
                   " created_at %s, correlation_id text)",
                   cf_is_pg() ? "public." : "", table, cf_is_pg() ? "bigint" : "INTEGER",
                   cf_is_pg() ? "json" : "text", cf_is_pg() ? "timestamptz" : "text");
    cf_sql(c, sql);
}

static void insert_row(const cf *c, int id, const char *stream, const char *type, const char *time)
{
    char sql[512];

    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO %s%s VALUES (%d, '%s', '%s', '{\"n\": %d}', '%s', 'c%d')",
                   cf_is_pg() ? "public." : "", table, id, stream, type, id, time, id % 2);
    cf_sql(c, sql);
}

static void drop_table(const cf *c)
{
    char sql[128];

    (void)snprintf(sql, sizeof sql, "DROP TABLE %s%s", cf_is_pg() ? "public." : "", table);
    cf_sql(c, sql);
}

static void full_name(char out[128])
{
    (void)snprintf(out, 128, "%s%s", cf_is_pg() ? "public." : "", table);
}

static int import(howdah_bus *bus, const char *const *map, size_t map_n, int64_t batch,
                  int64_t *ret_n, howdah_error *err)
{
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    char name[128];

    full_name(name);
    o.table = name;
    o.map = map;
    o.map_n = map_n;
    o.batch = batch;
    return howdah_import(bus, &o, ret_n, err);
}

/* "n" of every event in the log, in order. */
static const char *order_of(howdah_bus *bus)
{
    static char text[512];
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;

    text[0] = '\0';
    cf_ok(howdah_reader_open_since(bus, 0, &reader, &cf_error));
    while (howdah_reader_next(reader, &event, &cf_error) == HOWDAH_OK) {
        const char *n = strchr(howdah_event_data(event, NULL), ':');

        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "%s%d", text[0] ? " " : "",
                       n ? (int)strtol(n + 1, NULL, 10) : -1);
    }
    howdah_reader_close(reader);
    return text;
}

static void rows_are_numbered_by_created_at_and_id(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_event *event = NULL;
    int64_t n = 0;
    int64_t us = 0;

    make_table(c);
    insert_row(c, 5, "a", "order.created", "2020-01-02 00:00:00+00");
    insert_row(c, 4, "b", "order.created", "2020-01-02 00:00:00+00");
    insert_row(c, 9, "a", "order.paid", "2020-01-01 00:00:00.25+00");
    insert_row(c, 1, "a", "order.shipped", "2020-01-03 00:00:00+00");
    insert_row(c, 10, "b", "order.paid", "2020-01-02 00:00:00+00");
    cf_ok(import(bus, NULL, 0, 2, &n, &cf_error));
    assert_int_equal(n, 5);
    assert_string_equal(order_of(bus), "9 4 5 10 1");
    cf_ok(howdah_event_get_last(bus, "a", &event, &cf_error));
    assert_int_equal(howdah_event_version(event), 3);
    assert_string_equal(howdah_event_type(event), "order.shipped");
    assert_string_equal(howdah_event_correlation(event), "c1");
    assert_true(howdah_event_valid_time(event, &us));
    assert_int_equal(us, INT64_C(1578009600000000));
    howdah_event_free(event);
    drop_table(c);
    howdah_close(bus);
}

static void a_second_import_takes_only_what_is_new(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    int64_t n = 0;

    make_table(c);
    insert_row(c, 1, "a", "t", "2020-01-01 00:00:00+00");
    insert_row(c, 2, "a", "t", "2020-01-02 00:00:00+00");
    cf_ok(import(bus, NULL, 0, 0, &n, &cf_error));
    assert_int_equal(n, 2);
    cf_ok(import(bus, NULL, 0, 0, &n, &cf_error));
    assert_int_equal(n, 0);
    insert_row(c, 3, "a", "t", "2020-01-02 00:00:00+00");
    cf_ok(import(bus, NULL, 0, 0, &n, &cf_error));
    assert_int_equal(n, 1);
    assert_string_equal(order_of(bus), "1 2 3");
    drop_table(c);
    howdah_close(bus);
}

/* Without its mark the import starts again, and the ids say that all is there. */
static void a_lost_mark_stores_nothing_twice(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    int64_t n = 0;

    make_table(c);
    insert_row(c, 1, "a", "t", "2020-01-01 00:00:00+00");
    insert_row(c, 2, "a", "t", "2020-01-02 00:00:00+00");
    cf_ok(import(bus, NULL, 0, 0, &n, &cf_error));
    cf_sql(c, "DELETE FROM {imports}");
    cf_ok(import(bus, NULL, 0, 0, &n, &cf_error));
    assert_string_equal(order_of(bus), "1 2");
    drop_table(c);
    howdah_close(bus);
}

static void a_table_is_the_same_however_it_is_spelled(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_import_options o = HOWDAH_IMPORT_OPTIONS_INIT;
    int64_t n = 0;

    make_table(c);
    insert_row(c, 1, "a", "t", "2020-01-01 00:00:00+00");
    cf_ok(import(bus, NULL, 0, 0, &n, &cf_error));
    assert_int_equal(n, 1);
    o.table = table; /* without its schema */
    cf_ok(howdah_import(bus, &o, &n, &cf_error));
    assert_int_equal(n, 0);
    assert_string_equal(order_of(bus), "1");
    drop_table(c);
    howdah_close(bus);
}

static void columns_are_mapped_and_constants_filled_in(void **state)
{
    static const char *const map[] = {"stream=event_type", "type:=imported.row",
                                      "correlation_id=aggregate_id"};
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_event *event = NULL;
    int64_t n = 0;

    make_table(c);
    insert_row(c, 1, "agg", "the stream", "2020-01-01 00:00:00+00");
    cf_ok(import(bus, map, 3, 0, &n, &cf_error));
    cf_ok(howdah_event_get_last(bus, "the stream", &event, &cf_error));
    assert_string_equal(howdah_event_type(event), "imported.row");
    assert_string_equal(howdah_event_correlation(event), "agg");
    howdah_event_free(event);
    drop_table(c);
    howdah_close(bus);
}

static void a_bad_row_is_named_and_the_batches_before_it_stay(void **state)
{
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t n = 0;

    make_table(c);
    insert_row(c, 1, "a", "t", "2020-01-01 00:00:00+00");
    insert_row(c, 2, "a", "t", "2020-01-02 00:00:00+00");
    insert_row(c, 77, "a", "not a type", "2020-01-03 00:00:00+00");
    assert_int_equal(import(bus, NULL, 0, 1, &n, &err), HOWDAH_INVALID);
    assert_non_null(strstr(err.message, "77"));
    assert_non_null(strstr(err.message, "type"));
    assert_string_equal(order_of(bus), "1 2");
    drop_table(c);
    howdah_close(bus);
}

static void bad_imports_are_refused(void **state)
{
    static const char *const bad_maps[] = {"nonsense", "streem=x", "stream=", "id:=5"};
    cf *c = *state;
    howdah_bus *bus = cf_open_admin(c);
    howdah_error err = HOWDAH_ERROR_INIT;
    int64_t n = 0;

    make_table(c);
    for (size_t i = 0; i < sizeof bad_maps / sizeof bad_maps[0]; i++)
        assert_int_equal(import(bus, &bad_maps[i], 1, 0, &n, &err), HOWDAH_INVALID);
    drop_table(c);
    assert_int_equal(import(bus, NULL, 0, 0, &n, &err), HOWDAH_NOT_FOUND);
    assert_int_equal(cf_count(bus), 0);
    howdah_close(bus);
}

cf_group cf_import_tests(void)
{
    static const struct CMUnitTest tests[] = {
        CF_TEST(rows_are_numbered_by_created_at_and_id),
        CF_TEST(a_second_import_takes_only_what_is_new),
        CF_TEST(a_lost_mark_stores_nothing_twice),
        CF_TEST(a_table_is_the_same_however_it_is_spelled),
        CF_TEST(columns_are_mapped_and_constants_filled_in),
        CF_TEST(a_bad_row_is_named_and_the_batches_before_it_stay),
        CF_TEST(bad_imports_are_refused),
    };
    return CF_GROUP(tests);
}
