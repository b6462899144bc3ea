/* main.c - fixtures and the list of groups. */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/random.h"
#include "bus/bus.h"
#include "conformance.h"
#include "flaky.h"
#include "pg_database.h"
#include "scratch.h"
#include "store/pg/pg.h"

typedef enum kind { SQLITE, PG, PG_FUNCTIONS, FLAKY } kind;

static kind store_kind;
static const char *pg_url;
howdah_error cf_error = HOWDAH_ERROR_INIT;

bool cf_is_pg(void)
{
    return store_kind == PG || store_kind == PG_FUNCTIONS;
}

bool cf_is_owner(void)
{
    return store_kind != PG_FUNCTIONS;
}

/* ---- SQL past the library */

/* {events} becomes the table's name, and so does {any other table}. */
static char *with_table_names(const cf *c, const char *sql)
{
    hw_buf out = HW_BUF_INIT(1 << 20);

    for (; *sql; sql++) {
        size_t len = *sql == '{' ? strspn(sql + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;

        if (len == 0 || sql[len + 1] != '}') {
            hw_buf_putc(&out, *sql);
            continue;
        }
        if (cf_is_pg()) {
            hw_pg_quote_ident(&out, c->schema);
            hw_buf_putc(&out, '.');
        } else {
            hw_buf_puts(&out, "howdah_");
        }
        hw_buf_put(&out, sql + 1, len);
        sql += len + 1;
    }
    return hw_buf_take(&out);
}

static int64_t run_pg(const char *url, const char *sql)
{
    PGconn *conn = PQconnectdb(url);
    PGresult *result;
    int64_t number = 0;

    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    PQclear(PQexec(conn, "SET client_min_messages = error"));
    result = PQexec(conn, sql);
    if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
        number = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    else if (PQresultStatus(result) != PGRES_COMMAND_OK &&
             PQresultStatus(result) != PGRES_TUPLES_OK)
        fail_msg("%s: %s", sql, PQerrorMessage(conn));
    PQclear(result);
    PQfinish(conn);
    return number;
}

static int keep_number(void *ctx, int n, char **values, char **names)
{
    (void)names;
    if (n > 0 && values[0])
        *(int64_t *)ctx = strtoll(values[0], NULL, 10);
    return 0;
}

static int64_t run_sqlite(const cf *c, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    int64_t number = 0;

    assert_int_equal(sqlite3_open(c->admin_url + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, keep_number, &number, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
    return number;
}

int64_t cf_sql_number(const cf *c, const char *sql)
{
    char *text = with_table_names(c, sql);
    int64_t number = cf_is_pg() ? run_pg(c->admin_url, text) : run_sqlite(c, text);

    howdah_free(text);
    return number;
}

void cf_sql(const cf *c, const char *sql)
{
    (void)cf_sql_number(c, sql);
}

/* ---- opening */

static howdah_bus *open_url(const cf *c, const char *url, bool tested)
{
    howdah_bus *bus = NULL;

    cf_ok(howdah_open(url, c->settings, &bus, &cf_error));
    if (tested && store_kind == FLAKY)
        cf_ok(hw_flaky_open(bus->store, &bus->store, &cf_error));
    return bus;
}

howdah_bus *cf_open(const cf *c)
{
    return open_url(c, c->url, true);
}

howdah_bus *cf_open_admin(const cf *c)
{
    return open_url(c, c->admin_url, false);
}

static void set_pg_urls(cf *c, const char *url)
{
    (void)snprintf(c->admin_url, sizeof c->admin_url, "%s", url);
    (void)snprintf(c->url, sizeof c->url, "%s%s", url,
                   cf_is_owner() ? "" : "&options=-c%20role%3Dconformance_login");
}

/* For a bus that is not migrated; the one of pg_database.h takes the place of this one. */
static void make_names(cf *c)
{
    uint32_t random = hw_random_u32();

    /* A quote and a space on purpose: identifiers are always quoted. */
    (void)snprintf(c->schema, sizeof c->schema, "t \"%d-%x", (int)getpid(), random);
    if (cf_is_pg()) {
        set_pg_urls(c, pg_url);
        return;
    }
    (void)snprintf(c->dir, sizeof c->dir, "%s/howdah-cf.XXXXXX", scratch_parent());
    assert_non_null(mkdtemp(c->dir));
    (void)snprintf(c->url, sizeof c->url, "sqlite:%s/bus.db", c->dir);
    (void)snprintf(c->admin_url, sizeof c->admin_url, "%s", c->url);
}

static cf *new_case(void)
{
    cf *c = calloc(1, sizeof *c);

    assert_non_null(c);
    make_names(c);
    cf_ok(howdah_settings_new(&c->settings, &cf_error));
    return c;
}

int cf_setup_bare(void **state)
{
    cf *c = new_case();

    cf_ok(howdah_settings_set(c->settings, "schema", c->schema, &cf_error));
    *state = c;
    return 0;
}

/* Runs a statement about a schema, or a role that is named after it, quoted. */
static void run_about(const char *before, const char *schema, const char *suffix, const char *after)
{
    hw_buf sql = HW_BUF_INIT(1024);
    char whole[128];

    (void)snprintf(whole, sizeof whole, "%s%s", schema, suffix);
    hw_buf_puts(&sql, before);
    hw_pg_quote_ident(&sql, whole);
    hw_buf_puts(&sql, after);
    (void)run_pg(pg_url, hw_buf_str(&sql));
    hw_buf_done(&sql);
}

/* The roles are those of the case before. */
static void grant_roles(const cf *c)
{
    run_about("REVOKE ", c->schema, "_subscribe", " FROM conformance_login");
    run_about("REVOKE ", c->schema, "_admin", " FROM conformance_login");
    run_about("GRANT ", c->schema, "_publish", " TO conformance_login");
    run_about("GRANT ", c->schema, "_read", " TO conformance_login");
}

static void migrate(const char *url, const char *schema)
{
    howdah_settings *settings = NULL;
    howdah_bus *admin = NULL;

    cf_ok(howdah_settings_new(&settings, &cf_error));
    cf_ok(howdah_settings_set(settings, "schema", schema, &cf_error));
    cf_ok(howdah_open(url, settings, &admin, &cf_error));
    cf_ok(howdah_migrate(admin, NULL, &cf_error));
    howdah_close(admin);
    howdah_settings_free(settings);
}

static void make_migrated(cf *c)
{
    char url[900];

    if (!cf_is_pg()) {
        cf_ok(howdah_settings_set(c->settings, "schema", c->schema, &cf_error));
        migrate(c->admin_url, c->schema);
        return;
    }
    pg_database_open(pg_url, migrate, url, sizeof url);
    set_pg_urls(c, url);
    (void)snprintf(c->schema, sizeof c->schema, "%s", pg_database_schema());
    c->is_copy = true;
    cf_ok(howdah_settings_set(c->settings, "schema", c->schema, &cf_error));
    if (!cf_is_owner())
        grant_roles(c);
}

int cf_setup(void **state)
{
    cf *c = new_case();

    make_migrated(c);
    c->bus = cf_open(c);
    *state = c;
    return 0;
}

static void drop_schema(const cf *c)
{
    run_about("DROP SCHEMA IF EXISTS ", c->schema, "", " CASCADE");
    run_about("DROP ROLE IF EXISTS ", c->schema, "_publish", "");
    run_about("DROP ROLE IF EXISTS ", c->schema, "_read", "");
    run_about("DROP ROLE IF EXISTS ", c->schema, "_subscribe", "");
    run_about("DROP ROLE IF EXISTS ", c->schema, "_work", "");
    run_about("DROP ROLE IF EXISTS ", c->schema, "_admin", "");
}

/* What a session may do is looked at once: the bus is opened anew. */
static void grant(cf *c, const char *suffix)
{
    if (cf_is_owner())
        return;
    run_about("GRANT ", c->schema, suffix, " TO conformance_login");
    howdah_close(c->bus);
    c->bus = cf_open(c);
}

int cf_setup_subscriber(void **state)
{
    (void)cf_setup(state);
    grant(*state, "_subscribe");
    return 0;
}

int cf_setup_worker(void **state)
{
    (void)cf_setup(state);
    grant(*state, "_admin");
    return 0;
}

int cf_teardown(void **state)
{
    cf *c = *state;
    char command[160];

    howdah_close(c->bus);
    howdah_settings_free(c->settings);
    if (c->is_copy) {
        pg_database_close(c->admin_url);
    } else if (cf_is_pg()) {
        drop_schema(c);
    } else {
        (void)snprintf(command, sizeof command, "rm -rf '%s'", c->dir);
        assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a path of our own */
    }
    free(c);
    return 0;
}

/* ---- events */

howdah_event *cf_event(const char *stream, const char *type, const char *json)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    cf_ok(howdah_builder_new(&b, &cf_error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, type);
    if (json)
        howdah_builder_set_json(b, json, strlen(json));
    cf_ok(howdah_builder_build(b, &event, &cf_error));
    howdah_builder_free(b);
    return event;
}

howdah_position cf_append_event(howdah_bus *bus, const howdah_event *event)
{
    howdah_position position = HOWDAH_POSITION_INIT;

    cf_ok(howdah_append(bus, event, NULL, &position, &cf_error));
    return position;
}

howdah_position cf_append(howdah_bus *bus, const char *stream, const char *type, const char *json)
{
    howdah_event *event = cf_event(stream, type, json);
    howdah_position position = cf_append_event(bus, event);

    howdah_event_free(event);
    return position;
}

void cf_append_fails(howdah_bus *bus, const howdah_event *event, int64_t expected, int status,
                     howdah_error *err)
{
    howdah_append_options options = HOWDAH_APPEND_OPTIONS_INIT;
    howdah_position position = HOWDAH_POSITION_INIT;
    int s;

    options.expected_version = expected;
    s = howdah_append(bus, event, &options, &position, err);
    if (s != status)
        fail_msg("expected %s, got %s: %s", howdah_status_name(status), howdah_status_name(s),
                 s < 0 ? err->message : "");
    assert_int_equal(err->status, status);
}

int64_t cf_count(howdah_bus *bus)
{
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    int64_t n = 0;
    int s;

    cf_ok(howdah_reader_open_since(bus, 0, &reader, &cf_error));
    while ((s = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK)
        n++;
    cf_ok(s);
    howdah_reader_close(reader);
    return n;
}

void cf_run_until(howdah_bus *bus, const char *written, const char *expected)
{
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;

    while (strlen(written) < strlen(expected) && hw_clock_mono_ms() < until)
        cf_ok(howdah_run(bus, 50, &cf_error));
    assert_string_equal(written, expected);
}

void cf_run_until_state(howdah_bus *bus, const howdah_subscription *sub,
                        howdah_subscription_state state)
{
    int64_t until = hw_clock_mono_ms() + CF_PATIENCE_MS;
    howdah_subscription_info info = HOWDAH_SUBSCRIPTION_INFO_INIT;

    do {
        cf_ok(howdah_run(bus, 50, &cf_error));
        howdah_subscription_info_get(sub, &info);
    } while (info.state != state && hw_clock_mono_ms() < until);
    assert_int_equal(info.state, state);
}

const char *cf_read(howdah_bus *bus, const howdah_reader_options *options)
{
    static char text[65536];
    howdah_reader *reader = NULL;
    const howdah_event *event = NULL;
    size_t len = 0;
    int s;

    text[0] = '\0';
    cf_ok(howdah_reader_open(bus, options, &reader, &cf_error));
    while ((s = howdah_reader_next(reader, &event, &cf_error)) == HOWDAH_OK) {
        int64_t at =
            options->stream ? howdah_event_version(event) : howdah_event_global_sequence(event);
        int n = snprintf(text + len, sizeof text - len, "%s%lld", len ? " " : "", (long long)at);

        assert_true(n > 0 && (size_t)n < sizeof text - len);
        len += (size_t)n;
    }
    cf_ok(s);
    howdah_reader_close(reader);
    return text;
}

/* ---- main */

static int choose(const char *name)
{
    static const char *const names[] = {"sqlite", "pg", "pg-functions", "flaky"};

    for (int i = 0; i < 4; i++)
        if (name && strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

static void prepare_pg(void)
{
    pg_url = getenv("HOWDAH_TEST_PG");
    if (!pg_url) {
        (void)fprintf(stderr, "HOWDAH_TEST_PG is not set: run inside tools/with-pg\n");
        exit(2);
    }
    (void)run_pg(pg_url, "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname ="
                         " 'conformance_login') THEN CREATE ROLE conformance_login; END IF;"
                         " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$");
}

static int end(void **state)
{
    (void)state;
    pg_database_end();
    return 0;
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[512];
    /* Whoever may only execute functions goes other ways, and needs other rights, for each
     * operation: those are here.  What is built from them is not asked again. */
    static const struct {
        cf_group (*tests)(void);
        bool functions;
    } groups[] = {{cf_subscribe_tests, true},      {cf_patterns_tests, false},
                  {cf_reliable_tests, false},      {cf_runner_tests, false},
                  {cf_trouble_tests, false},       {cf_event_tests, false},
                  {cf_publisher_tests, true},      {cf_append_tests, true},
                  {cf_batch_tests, true},          {cf_read_tests, true},
                  {cf_tail_tests, true},           {cf_schema_tests, true},
                  {cf_import_tests, true},         {cf_race_tests, true},
                  {cf_flaky_tests, false},         {cf_queue_tests, true},
                  {cf_queue_admin_tests, true},    {cf_queue_dead_letters_tests, true},
                  {cf_worker_tests, false},        {cf_bindings_tests, true},
                  {cf_times_tests, true},          {cf_times_subs_tests, false},
                  {cf_upcast_tests, false},        {cf_use_tests, false},
                  {cf_groups_tests, true},         {cf_group_tokens_tests, true},
                  {cf_group_admin_tests, true},    {cf_group_dead_letters_tests, true},
                  {cf_group_exchange_tests, true}, {cf_group_fairness_tests, true},
                  {cf_group_suspects_tests, true}, {cf_shared_tests, false},
                  {cf_reserved_tests, false},      {cf_registry_tests, true}};
    int chosen = choose(argc > 1 ? argv[1] : NULL);
    size_t n = 0;

    if (chosen < 0) {
        (void)fprintf(stderr, "usage: conformance sqlite|pg|pg-functions|flaky [TEST...]\n");
        return 2;
    }
    store_kind = (kind)chosen;
    if (cf_is_pg())
        prepare_pg();
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        cf_group group = groups[g].tests();

        if (store_kind == PG_FUNCTIONS && argc <= 2 && !groups[g].functions)
            continue;
        for (size_t i = 0; i < group.n; i++)
            for (int a = 2; a < argc || a == 2; a++)
                if (a >= argc || strcmp(argv[a], group.tests[i].name) == 0) {
                    assert_true(n < sizeof tests / sizeof tests[0]);
                    tests[n++] = group.tests[i];
                    break;
                }
    }
    if (n == 0) {
        (void)fprintf(stderr, "no test of that name\n");
        return 2;
    }
    return _cmocka_run_group_tests(argv[1], tests, n, NULL, end);
}
