/* test_sqlite_append.c - large batches, the write-ahead log, and the caller's own transaction. */
#include <howdah/howdah_sqlite.h>

#include "sqlite_help.h"

/* ------------------------------------------------------------ large batches */

#define LARGE 100

static void make_large(howdah_event *events[LARGE])
{
    for (int i = 0; i < LARGE; i++) {
        char json[32];

        (void)snprintf(json, sizeof json, "%d", i);
        events[i] = make_event(i % 3 ? "x" : "y", "thing.happened", json);
    }
}

/* Each position is where the event with that id and payload really is. */
static void check_large(howdah_bus *bus, howdah_event *events[LARGE], const howdah_position *at)
{
    for (int i = 0; i < LARGE; i++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *stored = NULL;
        char id[HOWDAH_UUID_SIZE];

        howdah_event_id(events[i], id);
        must(howdah_event_get(bus, id, &stored, &err), &err);
        assert_i64_equal(howdah_event_global_sequence(stored), at[i].global_sequence);
        assert_i64_equal(howdah_event_version(stored), at[i].version);
        assert_i64_equal(strtoll(howdah_event_data(stored, NULL), NULL, 10), i);
        howdah_event_free(stored);
        howdah_event_free(events[i]);
    }
}

static void positions_are_true_also_when_a_trigger_writes_events_in_between(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = open_migrated(p->url);
    howdah_event *events[LARGE];
    howdah_position at[LARGE] = {HOWDAH_POSITION_INIT};

    make_large(events);
    must(howdah_append_batch(bus, (const howdah_event *const *)events, LARGE, NULL, at, &err),
         &err);
    assert_i64_equal(at[LARGE - 1].global_sequence, LARGE);
    check_large(bus, events, at);
    /* A number is not given again, so the next batch does not follow on the last event there is. */
    raw_exec(p->file, "DELETE FROM howdah_events WHERE global_sequence > 90;"
                      "CREATE TRIGGER audit AFTER INSERT ON howdah_events"
                      " WHEN NEW.stream = 'y' BEGIN"
                      " INSERT INTO howdah_events (stream, version, type, data)"
                      " VALUES ('audit', NEW.version, 'y.written', '1'); END");
    make_large(events);
    must(howdah_append_batch(bus, (const howdah_event *const *)events, LARGE, NULL, at, &err),
         &err);
    assert_i64_equal(at[0].global_sequence, LARGE + 1);
    check_large(bus, events, at);
    assert_i64_equal(count_read(bus, NULL), 90 + LARGE + 34);
    howdah_close(bus);
}

static void an_id_stored_before_is_found_wherever_it_stands_in_a_large_batch(void **state)
{
    static const int places[] = {0, 1, 32, 33, 64, 98, 99};
    const place *p = *state;

    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *events[LARGE];
        howdah_position at[LARGE] = {HOWDAH_POSITION_INIT};
        howdah_bus *bus;

        empty_directory(p->dir);
        bus = open_migrated(p->url);
        make_large(events);
        must(howdah_append(bus, events[places[k]], NULL, NULL, &err), &err);
        must(howdah_append_batch(bus, (const howdah_event *const *)events, LARGE, NULL, at, &err),
             &err);
        for (int i = 0; i < LARGE; i++)
            assert_int_equal(at[i].already_stored, i == places[k]);
        check_large(bus, events, at);
        assert_i64_equal(count_read(bus, NULL), LARGE);
        howdah_close(bus);
    }
}

/* -------------------------------------------------- the write-ahead log */

static void append_bulk(howdah_bus *bus, int events)
{
    static char json[8192];

    (void)memset(json, 'x', sizeof json - 1);
    (void)memcpy(json, "{\"a\":\"", 6);
    (void)memcpy(json + sizeof json - 3, "\"}", 3);
    for (int i = 0; i < events; i += 10) {
        howdah_error err = HOWDAH_ERROR_INIT;
        howdah_event *batch[10];

        for (int k = 0; k < 10; k++)
            batch[k] = make_event("bulk", "a.b", json);
        must(howdah_append_batch(bus, (const howdah_event *const *)batch, 10, NULL, NULL, &err),
             &err);
        for (int k = 0; k < 10; k++)
            howdah_event_free(batch[k]);
    }
}

static void the_log_is_truncated_when_it_has_grown_and_no_reader_is_in_the_way(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);
    sqlite3 *reader = NULL;
    int64_t peak;

    append_bulk(bus, 1000);
    /* Some thousand pages were written; what is left is what came after the last checkpoint. */
    assert_true(file_size(p->file, "-wal") < INT64_C(1100) * 4096);
    assert_true(file_size(p->file, "") > INT64_C(1000) * 4096);
    /* An old reader keeps it from being emptied; appends go on. */
    assert_int_equal(sqlite3_open(p->file, &reader), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM howdah_events", NULL, NULL, NULL),
        SQLITE_OK);
    append_bulk(bus, 1000);
    peak = file_size(p->file, "-wal");
    assert_true(peak > INT64_C(1500) * 4096);
    assert_int_equal(sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    append_bulk(bus, 3000);
    assert_true(file_size(p->file, "-wal") < peak);
    assert_int_equal(sqlite3_close(reader), SQLITE_OK);
    howdah_close(bus);
    assert_i64_equal(file_size(p->file, "-wal"), -1);
    assert_i64_equal(raw_number(p->file, "SELECT count(*) FROM howdah_events"), 5000);
}

static void closing_one_of_two_handles_empties_the_log(void **state)
{
    const place *p = *state;
    howdah_bus *bus = open_migrated(p->url);
    howdah_bus *other = open_bus(p->url);

    append_bulk(bus, 10);
    assert_i64_equal(count_read(other, NULL), 10);
    assert_true(file_size(p->file, "-wal") > 0);
    howdah_close(bus);
    assert_i64_equal(file_size(p->file, "-wal"), 0);
    assert_i64_equal(count_read(other, NULL), 10);
    howdah_close(other);
}

/* ------------------------------------------------ the caller's transaction */

typedef struct guest {
    const place *p;
    sqlite3 *db;
    howdah_bus *bus; /* looks at the file from outside */
} guest;

static guest guest_open(const place *p)
{
    guest g = {p, NULL, open_migrated(p->url)};

    assert_int_equal(sqlite3_open(p->file, &g.db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(g.db, "CREATE TABLE orders (id INTEGER PRIMARY KEY)", NULL, NULL, NULL),
        SQLITE_OK);
    return g;
}

static void guest_close(guest *g)
{
    assert_int_equal(sqlite3_close(g->db), SQLITE_OK); /* no statement of ours is left on it */
    howdah_close(g->bus);
}

static void guest_sql(guest *g, const char *sql)
{
    if (sqlite3_exec(g->db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(g->db));
}

static int guest_append(guest *g, const char *stream, int64_t expected, howdah_position *position,
                        howdah_error *err)
{
    howdah_append_options o = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_event *event = make_event(stream, "order.placed", "{}");
    const howdah_event *events[] = {event};
    int s;

    o.expected_version = expected;
    s = howdah_sqlite_append(g->db, events, 1, &o, position, err);
    howdah_event_free(event);
    return s;
}

static void in_the_callers_transaction_events_live_and_die_with_it(void **state)
{
    guest g = guest_open(*state);
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;

    guest_sql(&g, "BEGIN IMMEDIATE; INSERT INTO orders VALUES (1)");
    must(guest_append(&g, "o", HOWDAH_EXPECT_NONE, &position, &err), &err);
    assert_i64_equal(position.version, 1);
    assert_i64_equal(count_read(g.bus, NULL), 0);
    guest_sql(&g, "ROLLBACK");
    assert_i64_equal(count_read(g.bus, NULL), 0);

    guest_sql(&g, "BEGIN IMMEDIATE; INSERT INTO orders VALUES (1); SAVEPOINT one");
    must(guest_append(&g, "o", HOWDAH_EXPECT_ANY, NULL, &err), &err);
    guest_sql(&g, "ROLLBACK TO one; RELEASE one");
    must(guest_append(&g, "o", HOWDAH_EXPECT_NONE, NULL, &err), &err);
    guest_sql(&g, "COMMIT");
    assert_i64_equal(count_read(g.bus, NULL), 1);
    assert_i64_equal(raw_number(g.p->file, "SELECT count(*) FROM orders"), 1);
    guest_close(&g);
}

static void a_refused_append_leaves_the_callers_transaction_as_it_was(void **state)
{
    guest g = guest_open(*state);
    howdah_error err = HOWDAH_ERROR_INIT;

    guest_sql(&g, "BEGIN IMMEDIATE; INSERT INTO orders VALUES (7)");
    must(guest_append(&g, "o", HOWDAH_EXPECT_ANY, NULL, &err), &err);
    assert_status(guest_append(&g, "o", HOWDAH_EXPECT_NONE, NULL, &err), HOWDAH_CONFLICT);
    assert_i64_equal(err.actual_version, 1);
    assert_int_equal(sqlite3_get_autocommit(g.db), 0);
    assert_i64_equal(sqlite3_last_insert_rowid(g.db), 7);
    must(guest_append(&g, "o", 1, NULL, &err), &err);
    guest_sql(&g, "COMMIT");
    assert_i64_equal(count_read(g.bus, NULL), 2);
    guest_close(&g);
}

static void without_a_transaction_the_append_is_one_of_its_own(void **state)
{
    guest g = guest_open(*state);
    howdah_error err = HOWDAH_ERROR_INIT;
    char mode[64];

    must(guest_append(&g, "o", HOWDAH_EXPECT_NONE, NULL, &err), &err);
    assert_int_equal(sqlite3_get_autocommit(g.db), 1);
    assert_i64_equal(count_read(g.bus, NULL), 1);
    assert_status(guest_append(&g, "o", HOWDAH_EXPECT_NONE, NULL, &err), HOWDAH_CONFLICT);
    assert_int_equal(sqlite3_get_autocommit(g.db), 1);
    raw_text(g.p->file, "PRAGMA journal_mode", mode, sizeof mode);
    assert_string_equal(mode, "wal");
    guest_close(&g);
}

static void a_callers_file_without_our_schema_says_so(void **state)
{
    const place *p = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    guest g = {p, NULL, NULL};

    assert_int_equal(sqlite3_open(p->file, &g.db), SQLITE_OK);
    assert_status(guest_append(&g, "o", HOWDAH_EXPECT_ANY, NULL, &err), HOWDAH_SCHEMA);
    guest_sql(&g, "BEGIN; CREATE TABLE mine (x)");
    assert_status(guest_append(&g, "o", HOWDAH_EXPECT_ANY, NULL, &err), HOWDAH_SCHEMA);
    guest_sql(&g, "INSERT INTO mine VALUES (1); COMMIT");
    guest_close(&g);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(positions_are_true_also_when_a_trigger_writes_events_in_between),
        TEST(an_id_stored_before_is_found_wherever_it_stands_in_a_large_batch),
        TEST(the_log_is_truncated_when_it_has_grown_and_no_reader_is_in_the_way),
        TEST(closing_one_of_two_handles_empties_the_log),
        TEST(in_the_callers_transaction_events_live_and_die_with_it),
        TEST(a_refused_append_leaves_the_callers_transaction_as_it_was),
        TEST(without_a_transaction_the_append_is_one_of_its_own),
        TEST(a_callers_file_without_our_schema_says_so),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests_name("sqlite append", tests, NULL, NULL);
}
