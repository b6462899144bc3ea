/*
 * test_pg_connect.c - finding a server, being refused by one, and what a session is set to
 * whatever the role, the database or the URL say.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "bus/bus.h"
#include "cutproxy.h"
#include "store/pg/pg.h"
#include "test_pg_help.h"

#define SECRET "s3cret-Zw7"

/* ---- everything that the library says is kept */

static char said[65536];

static void keep(void *ctx, int level, const char *message)
{
    (void)ctx;
    (void)level;
    (void)strncat(said, message, sizeof said - strlen(said) - 2);
    (void)strcat(said, "\n");
}

static int loud_setup(void **state)
{
    said[0] = '\0';
    howdah_log_set(keep, NULL);
    return pgt_setup(state);
}

static int loud_teardown(void **state)
{
    int failed = pgt_teardown(state);

    howdah_log_set(NULL, NULL);
    return failed;
}

#define LOUD_TEST(name) cmocka_unit_test_setup_teardown(name, loud_setup, loud_teardown)

/* Opening fails in this way, and neither error nor log holds a piece of the secret. */
static howdah_error refuse(const pgt *t, const char *url, int status)
{
    static const char *const pieces[] = {SECRET, "s3cret", "Zw7", "s3c", "ret-"};
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    int s = howdah_open(url, t->settings, &bus, &err);

    if (s != status)
        fail_msg("expected %s, got %s: %s", howdah_status_name(status), howdah_status_name(s),
                 s < 0 ? err.message : "");
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        assert_null(strstr(err.message, pieces[i]));
        assert_null(strstr(err.advice, pieces[i]));
        assert_null(strstr(said, pieces[i]));
    }
    assert_true(strlen(err.message) > 0);
    return err;
}

/* The TCP URL with another password; a static buffer. */
static const char *url_with_password(const char *password)
{
    static char url[1024];
    const char *tcp = pgt_env("HOWDAH_TEST_PG_TCP");
    const char *colon = strchr(tcp + strlen("postgres://"), ':');
    const char *at = strchr(tcp, '@');

    assert_non_null(colon);
    assert_non_null(at);
    (void)snprintf(url, sizeof url, "%.*s%s%s", (int)(colon + 1 - tcp), tcp, password, at);
    return url;
}

static int port_of_tcp(void)
{
    return (int)strtol(strrchr(pgt_env("HOWDAH_TEST_PG_TCP"), ':') + 1, NULL, 10);
}

/* ---- refused */

static void a_wrong_password_is_denied_and_never_shown(void **state)
{
    pgt *t = *state;
    howdah_error err = refuse(t, url_with_password(SECRET), HOWDAH_DENIED);
    char text[512];

    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_int_equal(err.flags, 0);
    assert_non_null(strstr(err.message, "password authentication failed"));
    assert_non_null(strstr(err.advice, "password"));
    (void)snprintf(text, sizeof text,
                   "host=127.0.0.1 port=%d dbname=howdah_test user=howdah_owner password='" SECRET
                   "'",
                   port_of_tcp());
    (void)refuse(t, text, HOWDAH_DENIED);
    (void)snprintf(text, sizeof text,
                   "postgres://howdah_owner@127.0.0.1:%d/howdah_test?password=" SECRET,
                   port_of_tcp());
    (void)refuse(t, text, HOWDAH_DENIED);
}

static void no_password_at_all_is_denied(void **state)
{
    char text[256];

    (void)snprintf(text, sizeof text, "postgres://howdah_owner@127.0.0.1:%d/howdah_test",
                   port_of_tcp());
    assert_int_equal(refuse(*state, text, HOWDAH_DENIED).flags, 0);
}

/* libpq reads such URLs in its own way, and shows what it took for a host or a port. */
static void a_password_that_breaks_the_url_is_never_shown_either(void **state)
{
    pgt *t = *state;

    (void)refuse(t, "postgres://me:s3cret@Zw7@127.0.0.1:1/db", HOWDAH_INVALID);
    (void)refuse(t, "postgres://me:s3cret/Zw7@127.0.0.1:1/db", HOWDAH_INVALID);
    (void)refuse(t, "postgres://me:s3cret%Zw7@127.0.0.1:1/db", HOWDAH_INVALID);
    (void)refuse(t, "postgres://me:s3cret:Zw7@127.0.0.1:1/db", HOWDAH_UNAVAILABLE);
    (void)refuse(t, "postgres://me:s3cret?Zw7@127.0.0.1:1/db", HOWDAH_UNAVAILABLE);
    (void)refuse(t, "postgres://me:s3cret#Zw7@127.0.0.1:1/db", HOWDAH_UNAVAILABLE);
    (void)refuse(t, "host=127.0.0.1 port=1 password=s3cret Zw7", HOWDAH_INVALID);
    (void)refuse(t, "host=127.0.0.1 port=1 password='s3cret'Zw7", HOWDAH_INVALID);
    (void)refuse(t, "host=127.0.0.1 port=1 passwort=" SECRET, HOWDAH_INVALID);
}

static void a_bus_tells_its_url_without_the_password(void **state)
{
    pgt *t = *state;
    const char *tcp = pgt_env("HOWDAH_TEST_PG_TCP");
    howdah_bus *bus = pgt_open(t, tcp);
    char password[64];

    (void)sscanf(tcp, "postgres://howdah_owner:%63[^@]", password);
    assert_true(strlen(password) > 8);
    assert_null(strstr(howdah_bus_url(bus), password));
    assert_null(strstr(said, password));
    assert_non_null(strstr(howdah_bus_url(bus), "howdah_owner"));
    howdah_close(bus);
}

static void no_server_is_unavailable_at_once(void **state)
{
    pgt *t = *state;
    int64_t start = pgt_now_ms();
    howdah_error err = refuse(t, "postgres://me:" SECRET "@127.0.0.1:1/db", HOWDAH_UNAVAILABLE);

    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_true(strlen(err.advice) > 0);
    err = refuse(t, "postgres:///db?host=/nonexistent&password=" SECRET, HOWDAH_UNAVAILABLE);
    assert_int_equal(err.flags, HOWDAH_RETRYABLE);
    assert_true(pgt_now_ms() - start < 8000); /* connect_timeout is 10 s */
}

static void a_missing_database_says_createdb(void **state)
{
    pgt *t = *state;
    char url[1024];
    howdah_error err;

    (void)snprintf(url, sizeof url, "postgres://postgres@/not_there?host=%s&port=%s",
                   PQhost(t->admin), PQport(t->admin));
    err = refuse(t, url, HOWDAH_DENIED);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_non_null(strstr(err.advice, "createdb"));
}

static void a_missing_role_is_denied(void **state)
{
    pgt *t = *state;
    char url[1024];

    (void)snprintf(url, sizeof url, "postgres://not_there@/howdah_test?host=%s&port=%s",
                   PQhost(t->admin), PQport(t->admin));
    (void)refuse(t, url, HOWDAH_DENIED);
}

/* ---- a server that is none */

typedef struct fake {
    int fd;
    int port;
    bool silent; /* otherwise it lets everybody in and ends the session, in one breath */
    pthread_t thread;
} fake;

static void *serve(void *arg)
{
    /* Authentication ok, key of the backend, ready for query; then the farewell. */
    static const char welcome[] = "R\0\0\0\x08\0\0\0\0"
                                  "S\0\0\0\x18server_version\00015.1\0"
                                  "K\0\0\0\x0c\0\0\0\x01\0\0\0\x01"
                                  "Z\0\0\0\x05I"
                                  "E\0\0\0\x26SFATAL\0VFATAL\0C57P01\0Mgood night\0\0";
    const fake *f = arg;
    char room[1024];
    int conn;

    while ((conn = accept(f->fd, NULL, NULL)) >= 0) {
        if (read(conn, room, sizeof room) > 0 && !f->silent)
            (void)!write(conn, welcome, sizeof welcome - 1);
        while (f->silent && read(conn, room, sizeof room) > 0)
            continue;
        (void)close(conn);
    }
    return NULL;
}

static void fake_start(fake *f, bool silent)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;

    f->silent = silent;
    f->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(f->fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(f->fd, 8), 0);
    assert_int_equal(getsockname(f->fd, (struct sockaddr *)&address, &len), 0);
    f->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&f->thread, NULL, serve, f), 0);
}

static void fake_stop(fake *f)
{
    (void)shutdown(f->fd, SHUT_RDWR); /* ends accept() */
    assert_int_equal(pthread_join(f->thread, NULL), 0);
    (void)close(f->fd);
}

static howdah_error refuse_at(pgt *t, int port)
{
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_bus *bus = NULL;
    char url[128];

    (void)snprintf(url, sizeof url, "postgres://me@127.0.0.1:%d/db?sslmode=disable", port);
    pgt_ok(howdah_settings_set(t->settings, "connect_timeout", "2s", &pgt_error));
    assert_int_equal(howdah_open(url, t->settings, &bus, &err), HOWDAH_UNAVAILABLE);
    return err;
}

static void a_session_that_ends_as_it_begins_prints_nothing(void **state)
{
    int out = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    int saved = dup(STDERR_FILENO);
    fake f;

    assert_true(out >= 0 && saved >= 0);
    fake_start(&f, false);
    assert_true(dup2(out, STDERR_FILENO) >= 0);
    (void)refuse_at(*state, f.port);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    fake_stop(&f);
    assert_int_equal(lseek(out, 0, SEEK_END), 0);
    assert_non_null(strstr(said, "good night")); /* our log has it */
    (void)close(out);
    (void)close(saved);
}

static void a_silent_server_is_given_up_in_time(void **state)
{
    int64_t start = pgt_now_ms();
    howdah_error err;
    fake f;

    fake_start(&f, true);
    err = refuse_at(*state, f.port);
    assert_in_range(pgt_now_ms() - start, 1900, 4000);
    assert_non_null(strstr(err.message, "timeout expired"));
    fake_stop(&f);
}

/* ---- several hosts */

static void of_several_hosts_a_dead_one_is_passed_over(void **state)
{
    pgt *t = *state;
    char url[1024];
    howdah_bus *bus;

    (void)snprintf(url, sizeof url,
                   "postgres://postgres@/%s?host=/nonexistent,127.0.0.1,%s&port=1,1,%s"
                   "&application_name=hosts-%d",
                   PQdb(t->admin), PQhost(t->admin), PQport(t->admin), (int)getpid());
    bus = pgt_open(t, url);
    assert_int_equal(pgt_append(bus, "s").version, 1);
    /* And again when the connection is made anew. */
    pgt_run(t, t->admin,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE application_name = 'hosts-%d'",
            (int)getpid());
    (void)usleep(50000);
    assert_int_equal(pgt_append(bus, "s").version, 2);
    howdah_close(bus);
}

static void of_several_hosts_a_silent_one_is_given_up(void **state)
{
    pgt *t = *state;
    cutproxy proxy;
    char path[256];
    char url[1024];
    howdah_bus *bus;
    int64_t start;

    (void)snprintf(path, sizeof path, "%s/.s.PGSQL.%s", PQhost(t->admin), PQport(t->admin));
    assert_true(cutproxy_start(&proxy, path));
    CUTPROXY(&proxy, .how = CUTPROXY_BLACKHOLE);
    (void)snprintf(url, sizeof url, "postgres://postgres@/%s?host=127.0.0.1,%s&port=%d,%s",
                   PQdb(t->admin), PQhost(t->admin), proxy.port, PQport(t->admin));
    start = pgt_now_ms();
    bus = pgt_open_with(t, url, "connect_timeout", "2s");
    assert_true(pgt_now_ms() - start < 15000);
    assert_int_equal(pgt_append(bus, "s").version, 1);
    howdah_close(bus);
    cutproxy_stop(&proxy);
}

/* ---- a server that has gone away */

typedef struct later {
    howdah_bus *bus;
    int64_t at_ms;
} later;

static void *interrupt_later(void *arg)
{
    later *l = arg;

    (void)usleep(400000);
    l->at_ms = pgt_now_ms();
    howdah_interrupt(l->bus);
    return NULL;
}

static void an_interrupt_ends_the_wait_for_a_lost_server(void **state)
{
    pgt *t = *state;
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    howdah_position p = HOWDAH_POSITION_INIT;
    cutproxy proxy;
    pthread_t thread;
    char path[256];
    char url[512];
    later l = {NULL, 0};

    (void)snprintf(path, sizeof path, "%s/.s.PGSQL.%s", PQhost(t->admin), PQport(t->admin));
    assert_true(cutproxy_start(&proxy, path));
    (void)snprintf(url, sizeof url, "postgres://postgres@127.0.0.1:%d/%s", proxy.port,
                   PQdb(t->admin));
    l.bus = pgt_open(t, url);
    (void)pgt_append(l.bus, "s");
    cutproxy_stop(&proxy);
    (void)usleep(20000);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_later, &l), 0);
    assert_int_equal(howdah_append(l.bus, event, NULL, &p, &err), HOWDAH_INTERRUPTED);
    assert_true(pgt_now_ms() - l.at_ms < 5000); /* connect_timeout is 10 s */
    assert_int_equal(pthread_join(thread, NULL), 0);
    howdah_close(l.bus);
    howdah_event_free(event);
}

/* ---- what a session is set to */

typedef struct login {
    pgt *t;
    char role[48];
    char url[1024];
} login;

static int login_setup(void **state)
{
    login *l = calloc(1, sizeof *l);

    assert_non_null(l);
    assert_int_equal(loud_setup(state), 0);
    l->t = *state;
    (void)snprintf(l->role, sizeof l->role, "login_%d_%x", (int)getpid(), hw_random_u32());
    (void)snprintf(l->url, sizeof l->url, "postgres://%s@/%s?host=%s&port=%s", l->role,
                   PQdb(l->t->admin), PQhost(l->t->admin), PQport(l->t->admin));
    pgt_run(l->t, l->t->admin, "CREATE ROLE %s LOGIN SUPERUSER", l->role);
    *state = l;
    return 0;
}

static int login_teardown(void **state)
{
    login *l = *state;
    void *inner = l->t;

    pgt_run(l->t, l->t->admin, "DROP ROLE %s", l->role);
    free(l);
    return loud_teardown(&inner);
}

#define LOGIN_TEST(name) cmocka_unit_test_setup_teardown(name, login_setup, login_teardown)

static void set_role(const login *l, const char *setting, const char *value)
{
    pgt_run(l->t, l->t->admin, "ALTER ROLE %s SET %s = '%s'", l->role, setting, value);
}

/* A setting as the bus's own session has it. */
static const char *inside(howdah_bus *bus, const char *setting)
{
    static char text[128];
    hw_pg_call call = {.statement = -1, .sql = "SELECT current_setting($1)", .text_result = true};
    PGresult *result = NULL;

    call.values[0] = setting;
    call.n = 1;
    pgt_ok(hw_pg_exec((hw_pg *)bus->store, &call, &result, &pgt_error));
    (void)snprintf(text, sizeof text, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return text;
}

static void time_outs_of_the_role_do_not_apply(void **state)
{
    login *l = *state;
    pgt *t = l->t;
    pgt_batch b = pgt_batch_new("s", 2500, 1);
    howdah_bus *bus;

    set_role(l, "statement_timeout", "50ms");
    set_role(l, "lock_timeout", "50ms");
    set_role(l, "idle_in_transaction_session_timeout", "50ms");
    if (PQserverVersion(t->admin) >= 140000)
        set_role(l, "idle_session_timeout", "50ms");
    if (PQserverVersion(t->admin) >= 170000)
        set_role(l, "transaction_timeout", "50ms");
    for (int i = 0; i < 20; i++)
        howdah_close(pgt_open(t, l->url));
    bus = pgt_open(t, l->url);
    assert_string_equal(inside(bus, "statement_timeout"), "0");
    assert_string_equal(inside(bus, "lock_timeout"), "0");
    assert_string_equal(inside(bus, "idle_in_transaction_session_timeout"), "0");
    (void)usleep(150000); /* idle */
    pgt_ok(howdah_append_batch(bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &pgt_error));
    pgt_batch_free(&b);
    howdah_close(bus);
}

static void *commit_later(void *conn)
{
    (void)usleep(300000);
    PQclear(PQexec(conn, "COMMIT"));
    return NULL;
}

static void an_append_waits_for_a_lock_longer_than_the_role_allows(void **state)
{
    login *l = *state;
    pgt *t = l->t;
    pthread_t thread;
    howdah_bus *bus;

    set_role(l, "statement_timeout", "50ms");
    set_role(l, "lock_timeout", "50ms");
    bus = pgt_open(t, l->url);
    pgt_run(t, t->admin, "BEGIN");
    pgt_run(t, t->admin,
            "INSERT INTO {events} (stream, version, type, data) VALUES ('s', 1, 't', '{}')");
    assert_int_equal(pthread_create(&thread, NULL, commit_later, t->admin), 0);
    assert_int_equal(pgt_append(bus, "s").version, 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    howdah_close(bus);
}

static void synchronous_commit_off_is_switched_on_unless_losses_are_allowed(void **state)
{
    login *l = *state;
    howdah_bus *bus;

    set_role(l, "synchronous_commit", "off");
    bus = pgt_open(l->t, l->url);
    assert_string_equal(inside(bus, "synchronous_commit"), "on");
    assert_non_null(strstr(said, "synchronous_commit is off"));
    howdah_close(bus);
    bus = pgt_open_with(l->t, l->url, "allow_lossy", "true");
    assert_string_equal(inside(bus, "synchronous_commit"), "off");
    howdah_close(bus);
    set_role(l, "synchronous_commit", "local");
    bus = pgt_open(l->t, l->url);
    assert_string_equal(inside(bus, "synchronous_commit"), "local");
    howdah_close(bus);
}

static void habits_of_the_role_do_not_apply(void **state)
{
    login *l = *state;
    howdah_bus *bus;

    set_role(l, "default_transaction_isolation", "serializable");
    set_role(l, "search_path", "nowhere");
    set_role(l, "DateStyle", "German");
    set_role(l, "TimeZone", "Asia/Kathmandu");
    set_role(l, "bytea_output", "escape");
    set_role(l, "standard_conforming_strings", "off");
    bus = pgt_open(l->t, l->url);
    assert_string_equal(inside(bus, "transaction_isolation"), "read committed");
    assert_string_equal(inside(bus, "search_path"), "pg_catalog, pg_temp");
    pgt_ok(howdah_migrate(bus, NULL, &pgt_error));
    assert_int_equal(pgt_append(bus, "s").version, 1);
    howdah_close(bus);
}

/* Our texts are UTF-8, whatever the URL or the environment ask libpq for. */
static void the_client_encoding_is_always_utf8(void **state)
{
    static const char json[] = "{\"text\":\"\xE2\x82\xAC \xC3\xBC\"}";
    login *l = *state;
    howdah_event *event = pgt_event_no("s", 1, json);
    howdah_event *back = NULL;
    howdah_position p = HOWDAH_POSITION_INIT;
    howdah_bus *bus;
    size_t len = 0;

    set_role(l, "client_encoding", "LATIN1");
    assert_int_equal(setenv("PGCLIENTENCODING", "LATIN1", 1), 0);
    bus = pgt_open(l->t, pgt_url_with(l->url, "client_encoding=LATIN1"));
    assert_int_equal(unsetenv("PGCLIENTENCODING"), 0);
    assert_string_equal(inside(bus, "client_encoding"), "UTF8");
    pgt_ok(howdah_append(bus, event, NULL, &p, &pgt_error));
    pgt_ok(howdah_event_get_last(l->t->bus, "s", &back, &pgt_error));
    assert_string_equal(howdah_event_data(back, &len), json);
    assert_int_equal(len, strlen(json));
    howdah_event_free(back);
    howdah_event_free(event);
    howdah_close(bus);
}

static void a_read_only_role_is_refused_for_writing_and_reads(void **state)
{
    login *l = *state;
    howdah_error err;
    howdah_event *back = NULL;
    howdah_bus *bus;

    (void)pgt_append(l->t->bus, "s");
    set_role(l, "default_transaction_read_only", "on");
    err = refuse(l->t, l->url, HOWDAH_READ_ONLY);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_non_null(strstr(err.advice, "read_only=true"));
    bus = pgt_open_with(l->t, l->url, "read_only", "true");
    pgt_ok(howdah_event_get_last(bus, "s", &back, &pgt_error));
    assert_int_equal(howdah_event_version(back), 1);
    howdah_event_free(back);
    howdah_close(bus);
}

static void a_bus_opened_for_reading_does_not_write(void **state)
{
    pgt *t = *state;
    howdah_bus *bus = pgt_open_with(t, t->url, "read_only", "true");
    howdah_error err = HOWDAH_ERROR_INIT;
    howdah_event *event = pgt_event("s");
    pgt_batch b = pgt_batch_new("s", 2500, 1);
    howdah_tail_options o = HOWDAH_TAIL_OPTIONS_INIT;
    const howdah_event *seen = NULL;
    howdah_tail *tail = NULL;
    howdah_position p = HOWDAH_POSITION_INIT;

    assert_int_equal(howdah_append(bus, event, NULL, &p, &err), HOWDAH_READ_ONLY);
    assert_int_equal(howdah_append_batch(bus, PGT_EVENTS(&b), b.n, NULL, b.positions, &err),
                     HOWDAH_READ_ONLY);
    assert_int_equal(howdah_status_exit_code(err.status), 5);
    assert_int_equal(pgt_count(t), 0);
    /* A tail works, over a number that was given back too. */
    pgt_run(t, t->admin, "BEGIN; SELECT {append}('x', 't'); ROLLBACK");
    (void)pgt_append(t->bus, "s");
    o.since = 0;
    pgt_ok(howdah_tail_open(bus, &o, &tail, &pgt_error));
    for (int64_t v = 1; v <= 3; v++) {
        assert_int_equal(howdah_tail_next(tail, 2000, &seen, &pgt_error), HOWDAH_OK);
        assert_int_equal(howdah_event_version(seen), v);
        (void)pgt_append(t->bus, "s");
    }
    howdah_tail_close(tail);
    howdah_event_free(event);
    pgt_batch_free(&b);
    howdah_close(bus);
}

static const struct CMUnitTest tests[] = {
    LOUD_TEST(a_wrong_password_is_denied_and_never_shown),
    LOUD_TEST(no_password_at_all_is_denied),
    LOUD_TEST(a_password_that_breaks_the_url_is_never_shown_either),
    LOUD_TEST(a_bus_tells_its_url_without_the_password),
    LOUD_TEST(no_server_is_unavailable_at_once),
    LOUD_TEST(a_missing_database_says_createdb),
    LOUD_TEST(a_missing_role_is_denied),
    LOUD_TEST(a_session_that_ends_as_it_begins_prints_nothing),
    LOUD_TEST(a_silent_server_is_given_up_in_time),
    PGT_TEST(of_several_hosts_a_dead_one_is_passed_over),
    PGT_TEST(of_several_hosts_a_silent_one_is_given_up),
    PGT_TEST(an_interrupt_ends_the_wait_for_a_lost_server),
    LOGIN_TEST(time_outs_of_the_role_do_not_apply),
    LOGIN_TEST(an_append_waits_for_a_lock_longer_than_the_role_allows),
    LOGIN_TEST(synchronous_commit_off_is_switched_on_unless_losses_are_allowed),
    LOGIN_TEST(habits_of_the_role_do_not_apply),
    LOGIN_TEST(the_client_encoding_is_always_utf8),
    LOGIN_TEST(a_read_only_role_is_refused_for_writing_and_reads),
    PGT_TEST(a_bus_opened_for_reading_does_not_write),
};

PGT_MAIN("pg connect", tests)
