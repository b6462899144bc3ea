/* main.c - fixtures and the list of groups. */
#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/random.h"
#include "engine/batch.h"
#include "flaky.h"
#include "pg_database.h"
#include "scratch.h"
#include "store/pg/pg.h"
#include "suite.h"

#define LEASE_MS 60000

typedef enum kind { SQLITE, PG, FLAKY } kind;

static kind store_kind;
static const char *pg_url;
howdah_error ss_error = HOWDAH_ERROR_INIT;

bool ss_is_pg(void)
{
    return store_kind == PG;
}

/* ---- SQL past the library */

/* {events} becomes the table's name, and so does {any other table}. */
static char *with_table_names(const ss *t, const char *sql)
{
    hw_buf out = HW_BUF_INIT(1 << 20);

    for (; *sql; sql++) {
        size_t len = *sql == '{' ? strspn(sql + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;

        if (len == 0 || sql[len + 1] != '}') {
            hw_buf_putc(&out, *sql);
            continue;
        }
        if (ss_is_pg()) {
            hw_pg_quote_ident(&out, t->schema);
            hw_buf_putc(&out, '.');
        } else {
            hw_buf_puts(&out, "howdah_");
        }
        hw_buf_put(&out, sql + 1, len);
        sql += len + 1;
    }
    return hw_buf_take(&out);
}

static int64_t run_pg(const ss *t, const char *sql)
{
    PGconn *conn = PQconnectdb(t->url);
    PGresult *result;
    int64_t number = 0;

    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    PQclear(PQexec(conn, "SET client_min_messages = warning"));
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

static int64_t run_sqlite(const ss *t, const char *sql)
{
    sqlite3 *db = NULL;
    char *why = NULL;
    int64_t number = 0;

    assert_int_equal(sqlite3_open(t->url + strlen("sqlite:"), &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 5000);
    if (sqlite3_exec(db, sql, keep_number, &number, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    sqlite3_close(db);
    return number;
}

int64_t ss_sql_number(const ss *t, const char *sql)
{
    char *text = with_table_names(t, sql);
    int64_t number = ss_is_pg() ? run_pg(t, text) : run_sqlite(t, text);

    hw_free(text);
    return number;
}

void ss_sql(const ss *t, const char *sql)
{
    (void)ss_sql_number(t, sql);
}

/* ---- opening */

static hw_store *open_with(const hw_config *config)
{
    hw_store *store = NULL;

    ok(hw_store_open(config, &store, &ss_error));
    if (store_kind == FLAKY)
        ok(hw_flaky_open(store, &store, &ss_error));
    return store;
}

hw_store *ss_open(const ss *t)
{
    hw_config config = t->config;

    config.interrupt = NULL;
    return open_with(&config);
}

static hw_config config_of(const char *url, const char *schema)
{
    return (hw_config){.url = url,
                       .schema = schema,
                       .application_name = "store_suite",
                       .connect_timeout_ms = 10000,
                       .statement_timeout_ms = 30000,
                       .busy_timeout_ms = 10000};
}

static void migrate(const char *url, const char *schema)
{
    hw_config config = config_of(url, schema);
    hw_store *store = NULL;

    ok(hw_store_open(&config, &store, &ss_error));
    ok(store->ops->migrate(store, NULL, NULL, &ss_error));
    store->ops->close(store);
}

static void make_migrated(ss *t)
{
    (void)snprintf(t->schema, sizeof t->schema, "%s", pg_database_schema());
    if (ss_is_pg()) {
        pg_database_open(pg_url, migrate, t->url, sizeof t->url);
        return;
    }
    (void)snprintf(t->dir, sizeof t->dir, "%s/howdah-ss.XXXXXX", scratch_parent());
    assert_non_null(mkdtemp(t->dir));
    (void)snprintf(t->url, sizeof t->url, "sqlite:%s/bus.db", t->dir);
    migrate(t->url, t->schema);
}

int ss_setup(void **state)
{
    ss *t = calloc(1, sizeof *t);

    assert_non_null(t);
    make_migrated(t);
    t->interrupt.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(t->interrupt.fd >= 0);
    t->config = config_of(t->url, t->schema);
    t->config.interrupt = &t->interrupt;
    t->store = open_with(&t->config);
    t->subs = t->store->ops->subs;
    assert_non_null(t->subs);
    *state = t;
    return 0;
}

int ss_teardown(void **state)
{
    ss *t = *state;
    char command[160];

    t->store->ops->close(t->store);
    (void)close(t->interrupt.fd);
    if (ss_is_pg()) {
        pg_database_close(t->url);
    } else {
        (void)snprintf(command, sizeof command, "rm -rf '%s'", t->dir);
        assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): a path of our own */
    }
    free(t);
    return 0;
}

/* ---- events */

static howdah_event fresh_event(const char *stream, const char *type, const char *json)
{
    howdah_event event;

    hw_event_init(&event);
    assert_true(hw_uuid_v7(&event.id));
    event.stream = S(stream);
    event.type = S(type);
    event.data = S(json ? json : "{}");
    return event;
}

static void append(hw_store *store, const howdah_event *const *events, size_t n,
                   howdah_position *positions)
{
    hw_append_report report = {.outcome = HW_APPEND_STORED};
    hw_batch batch;

    ok(hw_batch_init(&batch, events, n, HOWDAH_EXPECT_ANY, &ss_error));
    ok(store->ops->append(store, &batch, NULL, positions, &report, &ss_error));
    assert_int_equal(report.outcome, HW_APPEND_STORED);
    hw_batch_done(&batch);
}

howdah_event *ss_append(hw_store *store, const char *stream, const char *type, const char *json)
{
    howdah_event event = fresh_event(stream, type, json);
    const howdah_event *const one = &event;
    howdah_event *stored = NULL;
    howdah_position position;

    append(store, &one, 1, &position);
    event.global_sequence = position.global_sequence;
    event.version = position.version;
    event.recorded_at_us = position.recorded_at_us;
    event.valid_time_us = position.recorded_at_us;
    ok(hw_event_clone(&event, &stored, &ss_error));
    return stored;
}

void ss_append_many(hw_store *store, const char *type, size_t n)
{
    howdah_event *events = calloc(n, sizeof *events);
    const howdah_event **list = calloc(n, sizeof *list);
    howdah_position *positions = calloc(n, sizeof *positions);

    assert_true(events && list && positions);
    for (size_t i = 0; i < n; i++) {
        events[i] = fresh_event("many", type, NULL);
        list[i] = &events[i];
    }
    append(store, list, n, positions);
    free(events);
    free(list);
    free(positions);
}

/* ---- rows */

static void keep_text(char *out, size_t size, hw_str text)
{
    if (text.s)
        assert_int_equal(text.s[text.len], '\0');
    (void)snprintf(out, size, "%s", text.s ? text.s : "-");
}

int ss_keep_row(void *ctx, const hw_sub_row *stored)
{
    row *kept = ctx;
    size_t len = 0;

    assert_false(kept->there);
    kept->there = true;
    kept->row = *stored;
    keep_text(kept->pattern, sizeof kept->pattern, stored->filter.pattern);
    keep_text(kept->owner, sizeof kept->owner, stored->owner);
    keep_text(kept->reason, sizeof kept->reason, stored->reason);
    keep_text(kept->timeline, sizeof kept->timeline, stored->timeline);
    keep_text(kept->log, sizeof kept->log, stored->log);
    kept->outstanding_n = stored->outstanding_n;
    for (size_t i = 0; i < stored->outstanding_n && len < sizeof kept->outstanding - 50; i++)
        len +=
            (size_t)snprintf(kept->outstanding + len, sizeof kept->outstanding - len, "%s%lld-%lld",
                             i > 0 ? "," : "", (long long)stored->outstanding[i].first,
                             (long long)stored->outstanding[i].last);
    return 0;
}

row ss_load(const ss *t, const char *subscriber_id)
{
    row kept = {.there = false};

    ok(t->subs->load(t->store, S(subscriber_id), ss_keep_row, &kept, &ss_error));
    assert_true(kept.there);
    return kept;
}

void ss_create(const ss *t, const char *subscriber_id)
{
    ok(t->subs->create(t->store, S(subscriber_id), &HW_FILTER_ALL, 0, NULL, 0, NULL, &ss_error));
}

int ss_try_take(hw_store *store, const char *subscriber_id, const char *owner, row *ret_row)
{
    hw_take take = {S(subscriber_id), HOWDAH_INSTANCE_COORDINATED, S(owner), LEASE_MS};

    *ret_row = (row){.there = false};
    return store->ops->subs->take(store, &take, ss_keep_row, ret_row, &ss_error);
}

int64_t ss_take(hw_store *store, const char *subscriber_id, const char *owner)
{
    row kept;

    expect(ss_try_take(store, subscriber_id, owner, &kept), HOWDAH_OK);
    assert_true(kept.there);
    return kept.row.token;
}

hw_checkpoint ss_at(const char *subscriber_id, int64_t token, int64_t high)
{
    return (hw_checkpoint){.subscriber_id = S(subscriber_id), .token = token, .high = high};
}

hw_checkpoint ss_behind(const char *subscriber_id, int64_t token, const howdah_event *event)
{
    hw_checkpoint c = ss_at(subscriber_id, token, event->global_sequence);

    c.anchor = (hw_anchor){event->global_sequence, event->id};
    return c;
}

int64_t ss_make_stale(const ss *t, const char *subscriber_id)
{
    hw_take take = {S(subscriber_id), HOWDAH_INSTANCE_SINGLE, S("usurper"), LEASE_MS};
    hw_store *other = ss_open(t);
    row kept = {.there = false};

    expect(other->ops->subs->take(other, &take, ss_keep_row, &kept, &ss_error), HOWDAH_OK);
    other->ops->close(other);
    return kept.row.token;
}

/* ---- main */

static int choose(const char *name)
{
    static const char *const names[] = {"sqlite", "pg", "flaky"};

    for (int i = 0; i < 3; i++)
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
    ss_group (*const groups[])(void) = {ss_row_tests,
                                        ss_one_log_tests,
                                        ss_checkpoint_tests,
                                        ss_dead_letter_tests,
                                        ss_tx_tests,
                                        ss_read_tests,
                                        ss_evidence_tests,
                                        ss_bell_tests,
                                        ss_flaky_tests,
                                        ss_memory_tests,
                                        ss_queue_tests,
                                        ss_queue_key_tests,
                                        ss_queue_exchange_tests,
                                        ss_queue_admin_tests,
                                        ss_queue_dead_letter_tests,
                                        ss_queue_model_tests,
                                        ss_route_tests,
                                        ss_times_tests,
                                        ss_times_knowledge_tests,
                                        ss_times_purge_tests,
                                        ss_times_model_tests};
    int chosen = choose(argc > 1 ? argv[1] : NULL);
    size_t n = 0;

    if (chosen < 0) {
        (void)fprintf(stderr, "usage: store_suite sqlite|pg|flaky [TEST...]\n");
        return 2;
    }
    store_kind = (kind)chosen;
    if (ss_is_pg())
        prepare_pg();
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        ss_group group = groups[g]();

        for (size_t i = 0; i < group.n; i++)
            for (int a = 2; a < argc || a == 2; a++)
                if (a >= argc || strcmp(argv[a], group.tests[i].name) == 0) {
                    assert_true(n < sizeof tests / sizeof tests[0]);
                    tests[n++] = group.tests[i];
                    break;
                }
    }
    return _cmocka_run_group_tests(argv[1], tests, n, NULL, end);
}
