/* test_pg_help.c - fixtures and small helpers of the PostgreSQL tests. */
#include "test_pg_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/random.h"
#include "store/pg/pg.h"

#define PATIENCE_MS 60000

howdah_error pgt_error = HOWDAH_ERROR_INIT;

const char *pgt_env(const char *name)
{
    const char *value = getenv(name);

    if (!value || !*value) {
        (void)fprintf(stderr, "%s is not set: run inside tools/with-pg\n", name);
        exit(2);
    }
    return value;
}

const char *pgt_url_with(const char *url, const char *parameter)
{
    static char text[2048];

    (void)snprintf(text, sizeof text, "%s%c%s", url, strchr(url, '?') ? '&' : '?', parameter);
    return text;
}

int64_t pgt_now_ms(void)
{
    return hw_clock_mono_ms();
}

/* ---- SQL */

static void put_name(const pgt *t, const char *name, size_t len, hw_buf *out)
{
    if (name[0] == '_') {
        char role[128];

        (void)snprintf(role, sizeof role, "%s%.*s", t->schema, (int)len, name);
        hw_pg_quote_ident(out, role);
        return;
    }
    hw_pg_quote_ident(out, t->schema);
    if (strncmp(name, "schema}", 7) != 0) {
        hw_buf_putc(out, '.');
        hw_buf_put(out, name, len);
    }
}

static char *with_names(const pgt *t, const char *sql)
{
    hw_buf out = HW_BUF_INIT(1 << 20);

    for (; *sql; sql++) {
        size_t len = *sql == '{' ? strspn(sql + 1, "abcdefghijklmnopqrstuvwxyz_0123456789") : 0;

        if (len < 2 || sql[len + 1] != '}') {
            hw_buf_putc(&out, *sql);
            continue;
        }
        put_name(t, sql + 1, len, &out);
        sql += len + 1;
    }
    return hw_buf_take(&out);
}

PGT_PRINTF(3, 0)
static PGresult *run_va(const pgt *t, PGconn *conn, const char *fmt, va_list args)
{
    hw_buf text = HW_BUF_INIT(1 << 20);
    PGresult *result;
    char *sql;

    hw_buf_vprintf(&text, fmt, args);
    sql = with_names(t, hw_buf_str(&text));
    assert_non_null(sql);
    result = PQexec(conn, sql);
    howdah_free(sql);
    hw_buf_done(&text);
    return result;
}

PGT_PRINTF(3, 0)
static PGresult *run_good(const pgt *t, PGconn *conn, const char *fmt, va_list args)
{
    PGresult *result = run_va(t, conn, fmt, args);
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail_msg("%s: %s", fmt, PQresultErrorMessage(result));
    return result;
}

PGresult *pgt_result(const pgt *t, PGconn *conn, const char *fmt, ...)
{
    PGresult *result;
    va_list args;

    va_start(args, fmt);
    result = run_va(t, conn, fmt, args);
    va_end(args);
    return result;
}

void pgt_run(const pgt *t, PGconn *conn, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    PQclear(run_good(t, conn, fmt, args));
    va_end(args);
}

static const char *text_of(PGresult *result)
{
    static char text[4096];

    (void)snprintf(text, sizeof text, "%s",
                   PQntuples(result) == 0      ? ""
                   : PQgetisnull(result, 0, 0) ? "NULL"
                                               : PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

const char *pgt_text(const pgt *t, PGconn *conn, const char *fmt, ...)
{
    PGresult *result;
    va_list args;

    va_start(args, fmt);
    result = run_good(t, conn, fmt, args);
    va_end(args);
    return text_of(result);
}

int64_t pgt_number(const pgt *t, PGconn *conn, const char *fmt, ...)
{
    PGresult *result;
    va_list args;

    va_start(args, fmt);
    result = run_good(t, conn, fmt, args);
    va_end(args);
    return strtoll(text_of(result), NULL, 10);
}

const char *pgt_state(const pgt *t, PGconn *conn, const char *fmt, ...)
{
    static char state[6];
    PGresult *result;
    const char *code;
    va_list args;

    va_start(args, fmt);
    result = run_va(t, conn, fmt, args);
    va_end(args);
    code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    (void)snprintf(state, sizeof state, "%s", code ? code : "00000");
    PQclear(result);
    return state;
}

void pgt_wait_for(const pgt *t, PGconn *conn, int64_t number, const char *sql)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;
    int64_t got;

    while ((got = pgt_number(t, conn, "%s", sql)) != number) {
        if (pgt_now_ms() > until)
            fail_msg("%s: is %lld, waited for %lld", sql, (long long)got, (long long)number);
        (void)usleep(2000);
    }
}

int64_t pgt_count(const pgt *t)
{
    return pgt_number(t, t->admin, "SELECT count(*) FROM {events}");
}

/* Of a process of this machine; 0 when it has ended. */
static int64_t cpu_of(const char *pid)
{
    char path[64];
    char line[1024] = "";
    unsigned long user = 0;
    unsigned long system = 0;
    const char *behind_name;
    FILE *file;

    (void)snprintf(path, sizeof path, "/proc/%s/stat", pid);
    file = fopen(path, "r");
    if (!file)
        return 0;
    behind_name = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    (void)fclose(file);
    if (!behind_name)
        return 0;
    assert_int_equal(sscanf(behind_name + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

int64_t pgt_cpu_ms(const pgt *t, PGconn *conn)
{
    PGresult *r = pgt_result(t, conn,
                             "SELECT pid FROM pg_stat_activity"
                             " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    int64_t ms = cpu_of("self");

    for (int i = 0; i < PQntuples(r); i++)
        ms += cpu_of(PQgetvalue(r, i, 0));
    PQclear(r);
    return ms;
}

void pgt_tail(howdah_tail *tail, int expected)
{
    int64_t until = pgt_now_ms() + PATIENCE_MS;
    const howdah_event *event = NULL;
    int n = 0;
    int s = HOWDAH_OK;

    while (s >= 0 && n < expected && pgt_now_ms() < until) {
        s = howdah_tail_next(tail, 20, &event, &pgt_error);
        n += s == HOWDAH_OK;
    }
    while (s == HOWDAH_OK) {
        s = howdah_tail_next(tail, 50, &event, &pgt_error);
        n += s == HOWDAH_OK;
    }
    pgt_ok(s);
    if (n != expected)
        fail_msg("%d events instead of %d", n, expected);
}

/* ---- handles */

howdah_bus *pgt_open(const pgt *t, const char *url)
{
    howdah_bus *bus = NULL;

    pgt_ok(howdah_open(url, t->settings, &bus, &pgt_error));
    return bus;
}

howdah_settings *pgt_settings(const pgt *t, const char *key, const char *value)
{
    howdah_settings *settings = NULL;

    pgt_ok(howdah_settings_new(&settings, &pgt_error));
    pgt_ok(howdah_settings_set(settings, "schema", t->schema, &pgt_error));
    pgt_ok(howdah_settings_set(settings, key, value, &pgt_error));
    return settings;
}

howdah_bus *pgt_open_with(const pgt *t, const char *url, const char *key, const char *value)
{
    howdah_settings *settings = pgt_settings(t, key, value);
    howdah_bus *bus = NULL;

    pgt_ok(howdah_open(url, settings, &bus, &pgt_error));
    howdah_settings_free(settings);
    return bus;
}

hw_store *pgt_store(const pgt *t, const char *url)
{
    hw_config config = {.url = url ? url : t->url,
                        .schema = t->schema,
                        .application_name = "pgt",
                        .connect_timeout_ms = 5000,
                        .statement_timeout_ms = 20000};
    hw_store *store = NULL;

    pgt_ok(hw_store_open(&config, &store, &pgt_error));
    return store;
}

void pgt_store_close(hw_store *store)
{
    if (store)
        store->ops->close(store);
}

PGconn *pgt_session(const char *url)
{
    PGconn *conn = PQconnectdb(url);

    if (PQstatus(conn) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(conn));
    PQclear(PQexec(conn, "SET client_min_messages = warning"));
    return conn;
}

int pgt_setup(void **state)
{
    pgt *t = calloc(1, sizeof *t);

    assert_non_null(t);
    (void)snprintf(t->url, sizeof t->url, "%s", pgt_env("HOWDAH_TEST_PG"));
    (void)snprintf(t->schema, sizeof t->schema, "f \"%d-%x", (int)getpid(), hw_random_u32());
    pgt_ok(howdah_settings_new(&t->settings, &pgt_error));
    pgt_ok(howdah_settings_set(t->settings, "schema", t->schema, &pgt_error));
    t->admin = pgt_session(t->url);
    t->bus = pgt_open(t, t->url);
    pgt_ok(howdah_migrate(t->bus, NULL, &pgt_error));
    *state = t;
    return 0;
}

int pgt_teardown(void **state)
{
    pgt *t = *state;

    howdah_close(t->bus);
    PQreset(t->admin); /* the server may have been another since */
    PQclear(PQexec(t->admin, "SET client_min_messages = warning"));
    pgt_run(t, t->admin, "DROP SCHEMA IF EXISTS {schema} CASCADE");
    pgt_run(t, t->admin,
            "DROP ROLE IF EXISTS {_publish}, {_read}, {_subscribe}, {_work}, {_admin}");
    PQfinish(t->admin);
    howdah_settings_free(t->settings);
    free(t);
    return 0;
}

/* ---- the server */

int pgt_run_ctl(const char *script, const char *what)
{
    char command[600];

    (void)snprintf(command, sizeof command, "'%s' %s >/dev/null 2>&1", script, what);
    return system(command); /* NOLINT(cert-env33-c): a path of our own */
}

void pgt_ctl(const char *what)
{
    if (pgt_run_ctl(pgt_env("HOWDAH_TEST_PG_CTL"), what) != 0)
        fail_msg("the server does not %s", what);
}

void pgt_reconnect(pgt *t)
{
    PQreset(t->admin);
    assert_int_equal(PQstatus(t->admin), CONNECTION_OK);
    pgt_run(t, t->admin, "SET client_min_messages = warning");
}

/* ---- events */

static howdah_event *build(const char *stream, const char *id, const char *json)
{
    howdah_builder *b = NULL;
    howdah_event *event = NULL;

    pgt_ok(howdah_builder_new(&b, &pgt_error));
    howdah_builder_set_stream(b, stream);
    howdah_builder_set_type(b, "fault.test");
    if (id)
        howdah_builder_set_id(b, id);
    if (json)
        howdah_builder_set_json(b, json, strlen(json));
    pgt_ok(howdah_builder_build(b, &event, &pgt_error));
    howdah_builder_free(b);
    return event;
}

howdah_event *pgt_event(const char *stream)
{
    return build(stream, NULL, NULL);
}

howdah_event *pgt_event_no(const char *stream, int no, const char *json)
{
    char id[HOWDAH_UUID_SIZE];

    (void)snprintf(id, sizeof id, "00000000-0000-7000-8000-%012d", no);
    return build(stream, id, json);
}

howdah_position pgt_append(howdah_bus *bus, const char *stream)
{
    howdah_event *event = pgt_event(stream);
    howdah_position position = HOWDAH_POSITION_INIT;

    pgt_ok(howdah_append(bus, event, NULL, &position, &pgt_error));
    howdah_event_free(event);
    return position;
}

pgt_batch pgt_batch_new(const char *stream, size_t n, size_t streams)
{
    pgt_batch b = {calloc(n, sizeof *b.events), calloc(n, sizeof *b.positions), n};

    assert_non_null(b.events);
    assert_non_null(b.positions);
    b.positions[0] = (howdah_position)HOWDAH_POSITION_INIT;
    for (size_t i = 0; i < n; i++) {
        char name[64];

        (void)snprintf(name, sizeof name, "%s", stream);
        if (streams > 1)
            (void)snprintf(name, sizeof name, "%s-%zu", stream, i % streams);
        b.events[i] = pgt_event(name);
    }
    return b;
}

void pgt_batch_free(pgt_batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        howdah_event_free(b->events[i]);
    free(b->events);
    free(b->positions);
}

/* ---- memory */

static long allocations_left = -1; /* < 0: enough */

static bool may_allocate(void)
{
    return allocations_left < 0 || allocations_left-- > 0;
}

static void *poor_alloc(void *ctx, size_t bytes)
{
    (void)ctx;
    return may_allocate() ? malloc(bytes) : NULL;
}

static void *poor_realloc(void *ctx, void *block, size_t bytes)
{
    (void)ctx;
    return may_allocate() ? realloc(block, bytes) : NULL;
}

static void poor_free(void *ctx, void *block)
{
    (void)ctx;
    free(block);
}

void pgt_starve(long n)
{
    static const howdah_allocator poor = {sizeof poor, poor_alloc, poor_realloc, poor_free, NULL};

    assert_int_equal(howdah_allocator_set(&poor), HOWDAH_OK);
    allocations_left = n;
}

void pgt_reader(void)
{
    allocations_left = -1;
    assert_int_equal(howdah_allocator_set(NULL), HOWDAH_OK);
}

/* ---- main */

static bool is_named(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

int pgt_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n)
{
    struct CMUnitTest *chosen = calloc(n, sizeof *chosen);
    size_t chosen_n = 0;
    int failed;

    if (!chosen)
        return 2;
    for (size_t i = 0; i < n; i++)
        if (is_named(argc, argv, tests[i].name))
            chosen[chosen_n++] = tests[i];
    if (chosen_n == 0) {
        (void)fprintf(stderr, "no test of that name\n");
        free(chosen);
        return 2;
    }
    failed = _cmocka_run_group_tests(group, chosen, chosen_n, NULL, NULL);
    free(chosen);
    return failed;
}
